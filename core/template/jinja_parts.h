// core/template/jinja_parts.h -- private to the template engine.
//
//   jinja_lex.c         template -> tokens: white-space control, comments
//   jinja_parse.c       tokens -> the tree: expressions and statements
//   jinja_run.c         statements: scopes, loops, macros, output
//   jinja_eval.c        expressions: operators, indices, attributes, calls
//   jinja_names.c       the variables that a template reads
//   jinja_filters.c, jinja_methods.c    filters and methods
//   jinja_functions.c   global functions and Jinja's tests
//   jinja_value.c       memory, lists, dicts, truth, order
//   jinja_string.c      strings and their origin
//   jinja_unicode.c     upper and lower case, white space, characters
//   jinja_show.c        str(), repr() and tojson of values; JSON -> values
#ifndef CORE_TEMPLATE_JINJA_PARTS_H
#define CORE_TEMPLATE_JINJA_PARTS_H

#include "core/template/jinja.h"

enum {
    JINJA_DEPTH = 400,          // nested expressions and statements in a template
    JINJA_STACK = 2000,         // nesting in a rendering, including macro calls and nested values
    JINJA_CALLS = 60,           // nested calls of macros
    JINJA_STEPS = 20 * 1000000, // operations, and blocks of 64 bytes copied: about a second
    JINJA_OUTPUT = 64 << 20,    // bytes
    JINJA_TEMPLATE_SIZE = 4 << 20, // bytes
    JINJA_NAME = 1000, // bytes of a name: limited because comparing two names counts as one step
};
static const size_t JINJA_MEMORY = (size_t)256 << 20;

// --- values --------------------------------------------------------------------------------------

struct jinja_string {
    const char *bytes; // followed by a NUL
    size_t length;
    const struct jinja_span *spans;
    size_t span_count;
    bool safe; // Markup: `+` escapes the other text
};

struct jinja_list {
    struct jinja_value *items;
    size_t count, capacity;
};

struct jinja_dict {
    struct jinja_entry {
        struct jinja_value key, value;
    } * entries;
    size_t count, capacity;
};

struct jinja_args;

struct jinja_loop {
    const struct jinja_list *items;
    size_t index; // from 0
};

// --- a rendering ---------------------------------------------------------------------------------

// A variable, or a keyword argument.
struct jinja_binding {
    const char *name;
    struct jinja_value value;
};

struct jinja_scope {
    struct jinja_scope *outer;
    struct jinja_binding *bindings;
    size_t count, capacity;
    bool captured; // by a macro that may outlive the scope
};

struct jinja_run {
    const struct jinja *t;
    struct jinja_arena *arena;
    struct jinja_scope *scope;
    struct builder *out; // receives the output: the whole text, or that of a block
    struct err *err;
    bool failed, unknown; // unknown: failed at a construct that this engine lacks
    int line, depth, calls;
    time_t now;
    bool breaking;                // `break` ends the innermost loop
    struct jinja_value collected; // the text of a filter block
    struct jinja_value caller;    // the macro `caller`, for the call of a call block
};

// Reports the first failure and stops the rendering.
void jinja_fail(struct jinja_run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Like jinja_fail, for a construct that this engine lacks; the message names the construct.
void jinja_unknown(struct jinja_run *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// Enters a level of nesting; the caller leaves it with r->depth--.
bool jinja_enter(struct jinja_run *r);
// Counts steps; false once the rendering has failed.
bool jinja_step(struct jinja_run *r, size_t steps);
// Counts steps for callers without a run; false once the budget is spent.
bool jinja_spend(struct jinja_arena *arena, size_t steps);
// Returns false, and marks the budget as spent, if fewer than `size` bytes are left. Call it before
// a large allocation.
bool jinja_afford(struct jinja_arena *arena, size_t size);
void *jinja_take(struct jinja_arena *arena, size_t size);
// Makes space for one more element: returns `old` or, if that is full, a copy with twice the
// capacity. NULL if the budget leaves too little memory: the caller drops the element.
void *jinja_grow(struct jinja_arena *arena, void *old, size_t count, size_t *capacity, size_t size);
char *jinja_keep(struct jinja_arena *arena, const char *text, size_t length);

static inline struct jinja_value jinja_value_undefined(const char *name)
{
    return (struct jinja_value){ .kind = JINJA_UNDEFINED, .name = name };
}

static inline struct jinja_value jinja_value_none(void)
{
    return (struct jinja_value){ .kind = JINJA_NONE };
}

static inline struct jinja_value jinja_value_int(int64_t integer)
{
    return (struct jinja_value){ .kind = JINJA_INT, .integer = integer };
}

static inline struct jinja_value jinja_value_real(double real)
{
    return (struct jinja_value){ .kind = JINJA_REAL, .real = real };
}

static inline struct jinja_value jinja_value_string(const struct jinja_string *s)
{
    return (struct jinja_value){ .kind = JINJA_TEXT, .text = s };
}

static inline bool jinja_is_given(struct jinja_value v)
{
    return v.kind != JINJA_ABSENT;
}

static inline bool jinja_is_text(struct jinja_value v)
{
    return v.kind == JINJA_TEXT;
}

// True for bools too, as in Python.
static inline bool jinja_is_int(struct jinja_value v)
{
    return v.kind == JINJA_BOOL || v.kind == JINJA_INT;
}

static inline bool jinja_is_number(struct jinja_value v)
{
    return jinja_is_int(v) || v.kind == JINJA_REAL;
}

static inline bool jinja_is_sequence(struct jinja_value v)
{
    return v.kind == JINJA_LIST || v.kind == JINJA_TUPLE || v.kind == JINJA_RANGE;
}

// Returns the entries of a dict or a namespace; NULL for other values.
static inline struct jinja_dict *jinja_dict_of(struct jinja_value v)
{
    return v.kind == JINJA_DICT || v.kind == JINJA_NAMESPACE ? v.dict : NULL;
}

// Returns the value of a bool or an integer.
static inline int64_t jinja_value_as_int(struct jinja_value v)
{
    return v.kind == JINJA_BOOL ? v.truth : v.integer;
}

static inline double jinja_value_as_real(struct jinja_value v)
{
    return v.kind == JINJA_REAL ? v.real : (double)jinja_value_as_int(v);
}

const char *jinja_value_kind_name(struct jinja_value v); // "a str", "an int"...

struct jinja_list *jinja_list_new(struct jinja_arena *arena);
void jinja_list_push(struct jinja_arena *arena, struct jinja_list *list, struct jinja_value v);
void jinja_list_extend(struct jinja_run *r, struct jinja_list *list,
                       const struct jinja_value *items, size_t count);
struct jinja_value jinja_list_value(enum jinja_kind kind, struct jinja_list *list);

// Returns the index of a key; -1 if absent.
int64_t jinja_dict_find(struct jinja_run *r, const struct jinja_dict *d, struct jinja_value key);
void jinja_dict_put(struct jinja_run *r, struct jinja_dict *d, struct jinja_value key,
                    struct jinja_value v);
// Returns the entries as a list of tuples (key, value).
struct jinja_list *jinja_dict_pairs(struct jinja_run *r, const struct jinja_dict *d);

bool jinja_value_truth(struct jinja_value v);
bool jinja_value_equal(struct jinja_run *r, struct jinja_value a, struct jinja_value b);
// Returns -1, 0 or 1; fails if the values cannot be ordered.
int jinja_value_order(struct jinja_run *r, struct jinja_value a, struct jinja_value b);
bool jinja_value_contains(struct jinja_run *r, struct jinja_value all, struct jinja_value one);
// Returns a new list of the items that iterating over a value yields: characters, keys or elements.
// Fails with NULL if the value is not iterable. Consumes a generator.
struct jinja_list *jinja_value_items(struct jinja_run *r, struct jinja_value v);
bool jinja_value_iterable(struct jinja_value v);
// Returns len(); -1 after a failure.
int64_t jinja_value_length(struct jinja_run *r, struct jinja_value v);

// --- strings -------------------------------------------------------------------------------------

// Returns the index of the first span that ends after byte `at`.
size_t jinja_span_from(const struct jinja_span *spans, size_t count, size_t at);

// Builds a string from pieces that keep their origin.
struct builder {
    struct jinja_run *r;
    char *bytes;
    size_t length, capacity;
    struct jinja_span *spans;
    size_t span_count, span_capacity;
    bool output; // builds the whole output, which JINJA_OUTPUT bounds
};

void jinja_put_bytes(struct builder *b, const char *bytes,
                     size_t length); // adds bytes of the template
void jinja_put_words(struct builder *b, const char *text);
void jinja_put_spaces(struct builder *b, int64_t count);
void jinja_put_piece(struct builder *b, const struct jinja_string *s, size_t start, size_t end);
void jinja_put_all(struct builder *b, const struct jinja_string *s);
// Appends bytes derived from the character at s->bytes[at], with that character's origin.
void jinja_put_derived(struct builder *b, const char *bytes, size_t length,
                       const struct jinja_string *s, size_t at);
void jinja_put_character(struct builder *b, int32_t c, const struct jinja_string *s, size_t at);
void jinja_put_show(struct builder *b, struct jinja_value v); // str()
struct jinja_value jinja_builder_value(struct builder *b);
struct jinja_value jinja_string_piece(struct jinja_run *r, const struct jinja_string *s,
                                      size_t start, size_t end);
// Returns str() of any value.
const struct jinja_string *jinja_string_of(struct jinja_run *r, struct jinja_value v);
bool jinja_strings_equal(const struct jinja_string *a, const struct jinja_string *b);
// Returns the string of a text; fails with NULL, naming the caller, for other values.
const struct jinja_string *jinja_need_text(struct jinja_run *r, struct jinja_value v,
                                           const char *who);
// Returns the offset of `part` in s at or after `from`; SIZE_MAX if absent.
size_t jinja_string_find(struct jinja_run *r, const struct jinja_string *s,
                         const struct jinja_string *part, size_t from);
struct jinja_value jinja_string_replace(struct jinja_run *r, const struct jinja_string *s,
                                        const struct jinja_string *old,
                                        const struct jinja_string *new);
// Strips characters of `chars` (NULL: white space) at `sides`: 1 left, 2 right, 3 both.
struct jinja_value jinja_string_strip(struct jinja_run *r, const struct jinja_string *s,
                                      const struct jinja_string *chars, int sides);
// Returns the text as Markup.
struct jinja_value jinja_markup(struct jinja_arena *arena, const struct jinja_string *s);
struct jinja_value jinja_string_escape(struct jinja_run *r, const struct jinja_string *s);
// Returns the end of the line that starts at `at`, as in Python's splitlines(); *next: the offset
// after its line break, if any.
size_t jinja_line_end(const struct jinja_string *s, size_t at, size_t *next);
int64_t jinja_string_characters(struct jinja_run *r, const struct jinja_string *s);
// Returns the offset of character n; the length if n is the number of characters.
size_t jinja_string_at(const struct jinja_string *s, int64_t n);

struct json_style {
    const char *item, *key; // separators
    bool ascii, lines;      // escapes non-ASCII characters; writes one item per line
    int64_t indent;         // spaces per level at the start of a line
};
void jinja_put_json(struct builder *b, struct jinja_value v, const struct json_style *style,
                    int level);

// --- characters ----------------------------------------------------------------------------------

// Return the number of bytes of a white-space character at the start, or at the end; 0 if none.
size_t jinja_space_start(const char *text, size_t length);
size_t jinja_space_end(const char *text, size_t length);
size_t jinja_char_length(const char *text, size_t left);
int32_t jinja_char_at(const char *text, size_t left, size_t *length);
size_t jinja_char_put(char *bytes, int32_t c); // writes at most 4 bytes; returns their number
enum letter_case { CASE_UPPER, CASE_LOWER, CASE_CAPITAL, CASE_TITLE, CASE_TITLE_WORDS };
struct jinja_value jinja_string_case(struct jinja_run *r, const struct jinja_string *s,
                                     enum letter_case how);
bool jinja_char_printable(int32_t c);
bool jinja_char_is_name(int32_t c, bool first);

// --- tokens --------------------------------------------------------------------------------------

enum jinja_token_kind {
    T_DATA,
    T_OPEN,
    T_CLOSE,
    T_PRINT,
    T_PRINT_END,
    T_NAME,
    T_STRING,
    T_INT,
    T_SIGN,
    T_END
};

struct jinja_token {
    enum jinja_token_kind kind;
    int line;
    const char *text; // data, name, string (escapes resolved), sign: NUL-terminated
    size_t length;
    int64_t integer;
};

struct jinja_tokens {
    struct jinja_token *list;
    size_t count, capacity;
};

int jinja_lex(struct jinja_arena *arena, const char *text, size_t length,
              struct jinja_tokens *tokens, struct err *err);

// --- the tree ------------------------------------------------------------------------------------

enum jinja_op {
    // Expressions.
    N_VALUE,
    N_NAME,
    N_LIST,
    N_TUPLE,
    N_DICT,
    N_ATTRIBUTE,
    N_INDEX,
    N_SLICE,
    N_CALL,
    N_NAMED, // a keyword argument
    N_FILTER,
    N_TEST,
    N_AND,
    N_OR,
    N_NOT,
    N_NEGATIVE,
    N_COMPARE,
    N_CONCAT,
    N_ADD,
    N_SUBTRACT,
    N_MULTIPLY,
    N_MODULO,
    N_IF_ELSE,
    // Statements.
    N_DATA,
    N_PRINT,
    N_IF,
    N_FOR,
    N_SET,
    N_SET_BLOCK,
    N_MACRO,
    N_FILTER_BLOCK,
    N_BLOCK,
    N_BREAK,
};

enum compare {
    IS_EQUAL,
    IS_UNEQUAL,
    IS_LESS,
    IS_AT_MOST,
    IS_GREATER,
    IS_AT_LEAST,
    IS_IN,
    IS_NOT_IN
};

struct jinja_nodes {
    struct jinja_node **list;
    size_t count, capacity;
};

// An operator has its operands in a and b. N_INDEX, N_ATTRIBUTE, N_CALL, N_FILTER and N_TEST have
// their object in a. jinja_parse.c documents the fields of statements.
struct jinja_node {
    enum jinja_op op;
    int line, depth;
    struct jinja_node *a, *b, *c;
    struct jinja_nodes list;  // elements, arguments, parameters, or the body of a statement
    struct jinja_nodes other; // values of a dict, N_NAMED arguments, defaults, or an else body
    const char *name;
    enum compare compare;
    struct jinja_value value;
    const struct jinja_callable *callable; // filter or test
};

struct jinja {
    struct jinja_arena arena;
    struct jinja_nodes body;
    const char *name;
    struct jinja_tokens tokens;
};

// --- evaluation ----------------------------------------------------------------------------------

struct jinja_value jinja_eval(struct jinja_run *r, const struct jinja_node *n);
struct jinja_value jinja_value_index(struct jinja_run *r, struct jinja_value v,
                                     struct jinja_value index);
bool jinja_scope_find(struct jinja_run *r, const char *name, struct jinja_value *v);

// --- calls ---------------------------------------------------------------------------------------

struct jinja_args {
    struct jinja_value *at;
    size_t count;
    struct jinja_binding *named;
    size_t named_count;
    const struct jinja_callable *call; // the callee
};

enum { PARAMETERS_MAX = 6 };

// A filter, test, function or method. `parameters`: names separated by spaces. `run` gets the
// arguments in that order in `at`, missing ones as JINJA_ABSENT. "*" accepts any number of
// arguments and any keyword, and passes them unchanged.
struct jinja_callable {
    const char *name;
    struct jinja_value (*run)(struct jinja_run *r, struct jinja_value self,
                              const struct jinja_args *args);
    const char *parameters;
    int least; // number of required parameters
    int how;   // distinguishes callables that share `run`
};

struct jinja_method {
    struct jinja_value self;
    const struct jinja_callable *call;
};

struct jinja_macro {
    const struct jinja_node *node;
    struct jinja_scope *scope;
};

struct jinja_value jinja_call_callable(struct jinja_run *r, const struct jinja_callable *c,
                                       struct jinja_value self, const struct jinja_args *args);
struct jinja_value jinja_macro_of(struct jinja_run *r, const struct jinja_node *n);
struct jinja_value jinja_call_macro(struct jinja_run *r, struct jinja_macro *m,
                                    const struct jinja_args *args);

// Searches a table, which ends with a row without a name; NULL: unknown.
const struct jinja_callable *jinja_callable_find(const struct jinja_callable *table,
                                                 const char *name);
const struct jinja_callable *jinja_filter(const char *name);
const struct jinja_callable *jinja_test(const char *name);
const struct jinja_callable *jinja_function(const char *name);
const struct jinja_callable *jinja_method_of(struct jinja_value v, const char *name);

// upper(), title() and the like (`how`: enum letter_case), and strip() (`how`: sides): methods of
// texts, and filters of any value.
struct jinja_value jinja_call_case(struct jinja_run *r, struct jinja_value v,
                                   const struct jinja_args *args);
struct jinja_value jinja_call_strip(struct jinja_run *r, struct jinja_value v,
                                    const struct jinja_args *args);

struct jinja_value jinja_argument(const struct jinja_args *args, size_t i); // ABSENT past the end
bool jinja_argument_true(const struct jinja_args *args, size_t i, bool otherwise);
// Returns `otherwise` for a missing argument; fails for one that is neither an integer nor a bool.
int64_t jinja_argument_int(struct jinja_run *r, const struct jinja_args *args, size_t i,
                           int64_t otherwise, const char *who);

#endif
