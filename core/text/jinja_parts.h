// core/text/jinja_parts.h -- shared by the files of the template engine only.
//
//   jinja_lex.c         template -> tokens: white-space control, raw blocks, comments
//   jinja_parse.c       tokens -> expressions
//   jinja_statements.c  tokens -> statements
//   jinja_run.c         statements: scopes, loops, macros, output
//   jinja_eval.c        expressions
//   jinja_call.c          calls, arguments and attributes
//   jinja_value.c       room, lists, dicts, truth, order
//   jinja_string.c      strings and where they came from
//   jinja_show.c        str(), repr() and tojson of values
//   jinja_json.c        JSON -> values
//   jinja_unicode.c     upper and lower case, white space, characters
//   jinja_filters.c, jinja_filters_list.c, jinja_tests.c, jinja_methods.c, jinja_methods_split.c,
//   jinja_functions.c, jinja_format.c    what templates can call
#ifndef CORE_TEXT_JINJA_PARTS_H
#define CORE_TEXT_JINJA_PARTS_H

#include "core/text/jinja.h"

enum {
    JINJA_DEPTH = 400,             // nested expressions and statements in a template
    JINJA_STACK = 2000,            // of them, with those of macros called, and nested values
    JINJA_CALLS = 60,              // macros in macros
    JINJA_STEPS = 20 * 1000000,    // operations, and blocks of 64 bytes copied: about a second
    JINJA_OUTPUT = 64 << 20,       // bytes
    JINJA_TEMPLATE_SIZE = 4 << 20, // bytes
    JINJA_NAME = 1000,             // bytes of a name: comparing two is a step
};
static const size_t JINJA_MEMORY = (size_t)256 << 20;

// --- values --------------------------------------------------------------------------------------

struct jinja_string {
    const char *bytes; // a NUL stands behind them
    size_t length;
    const struct jinja_span *spans;
    size_t span_count;
    bool safe; // Markup: `+` escapes what joins it
};

struct jinja_list {
    struct jinja_value *items;
    size_t count, capacity;
    const char *label; // of a view, range or generator, for repr
};

struct jinja_dict {
    struct jinja_value *keys, *values;
    size_t count, capacity;
};

struct jinja_cycler {
    struct jinja_list *items;
    size_t at;
    struct jinja_value separator; // of a joiner
};

struct jinja_loop {
    struct jinja_list *items;
    size_t index; // from 0
    int depth;
    struct jinja_value last_changed;
    const struct jinja_node *body; // of a recursive loop
    struct jinja_scope *scope;
};

// --- a rendering ---------------------------------------------------------------------------------

struct jinja_scope {
    struct jinja_scope *outer;
    const char **names;
    struct jinja_value *values;
    size_t count, capacity;
    bool captured; // by a macro, which may outlive it
};

struct jinja_run {
    const struct jinja *t;
    struct jinja_room *room;
    struct jinja_scope *scope;
    struct builder *out; // where output goes: the whole text, or what a block collects
    struct err *err;
    bool failed, unknown; // unknown: something that this engine does not know
    int line, depth, calls;
    time_t now;
    bool breaking, continuing;
    bool varargs, kwargs;         // the template has these words
    struct jinja_value collected; // the text of a block that goes through filters
};

// Reports the first failure and stops the rendering.
void jinja_fail(struct jinja_run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The same for something that this engine does not know: "filter", its name.
void jinja_unknown(struct jinja_run *r, const char *what, const char *name);
// One level deeper; the caller leaves it by r->depth--.
bool jinja_enter(struct jinja_run *r);
// Counts steps; false once the rendering has failed.
bool jinja_step(struct jinja_run *r, size_t steps);
// The same for callers that have only the room: false once the budget is spent.
bool jinja_spend(struct jinja_room *room, size_t steps);
// False if the budget has less memory left than `size`; it is then spent. Call it before taking
// anything large.
bool jinja_afford(struct jinja_room *room, size_t size);
void *jinja_take(struct jinja_room *room, size_t size);
// Room for one more of `count` elements of this size; the old ones are copied when it doubles.
// NULL: the budget is spent, and the caller drops the element.
void *jinja_grow(struct jinja_room *room, void *old, size_t count, size_t *capacity, size_t size);
char *jinja_keep(struct jinja_room *room, const char *text, size_t length);

struct jinja_value jinja_value_undefined(const char *name);
struct jinja_value jinja_value_none(void);
struct jinja_value jinja_value_int(int64_t integer);
struct jinja_value jinja_value_real(double real);
struct jinja_value jinja_value_string(const struct jinja_string *s);
// Of the template itself.
struct jinja_value jinja_value_words(struct jinja_run *r, const char *text);

bool jinja_is_given(struct jinja_value v);
bool jinja_is_text(struct jinja_value v);
bool jinja_is_number(struct jinja_value v);   // bools too
bool jinja_is_sequence(struct jinja_value v); // list, tuple, range
bool jinja_has_list(struct jinja_value v);    // any kind with a list
// The dict of a dict or a namespace, else NULL.
struct jinja_dict *jinja_dict_of(struct jinja_value v);
double jinja_value_as_real(struct jinja_value v);
int64_t jinja_value_as_int(struct jinja_value v);        // of a bool or an integer
const char *jinja_value_kind_name(struct jinja_value v); // "str", "list"...

struct jinja_list *jinja_list_new(struct jinja_room *room);
void jinja_list_push(struct jinja_room *room, struct jinja_list *list, struct jinja_value v);
struct jinja_value jinja_list_value(enum jinja_kind kind, struct jinja_list *list);
struct jinja_value jinja_generator(struct jinja_list *list, const char *label);
struct jinja_value jinja_pair(struct jinja_room *room, struct jinja_value a, struct jinja_value b);

// Index of a key, -1: not there.
int64_t jinja_dict_find(struct jinja_run *r, const struct jinja_dict *d, struct jinja_value key);
int64_t jinja_dict_find_name(const struct jinja_dict *d, const char *name);
void jinja_dict_put(struct jinja_run *r, struct jinja_dict *d, struct jinja_value key,
                    struct jinja_value v);
void jinja_dict_put_name(struct jinja_room *room, struct jinja_dict *d, const char *name,
                         struct jinja_value v);
void jinja_dict_remove(struct jinja_dict *d, size_t index);

bool jinja_value_truth(struct jinja_value v);
bool jinja_value_equal(struct jinja_run *r, struct jinja_value a, struct jinja_value b);
bool jinja_value_same(struct jinja_value a, struct jinja_value b);
// -1, 0, 1; fails when the values have no order.
int jinja_value_order(struct jinja_run *r, struct jinja_value a, struct jinja_value b);
bool jinja_value_contains(struct jinja_run *r, struct jinja_value all, struct jinja_value one);
// What a loop or filter runs over, as a list of its own: characters, keys, items. NULL with a
// failure when it cannot be iterated. A generator is used up.
struct jinja_list *jinja_value_items(struct jinja_run *r, struct jinja_value v);
bool jinja_value_iterable(struct jinja_value v);
// len(); -1 with a failure.
int64_t jinja_value_length(struct jinja_run *r, struct jinja_value v);

// --- strings -------------------------------------------------------------------------------------

// Makes a string out of pieces that keep their origin.
struct builder {
    struct jinja_run *r;
    char *bytes;
    size_t length, capacity;
    struct jinja_span *spans;
    size_t span_count, span_capacity;
    bool output; // the whole text: bounded by JINJA_OUTPUT
};

void jinja_put_bytes(struct builder *b, const char *bytes, size_t length); // of the template
void jinja_put_words(struct builder *b, const char *text);
void jinja_put_piece(struct builder *b, const struct jinja_string *s, size_t start, size_t end);
void jinja_put_all(struct builder *b, const struct jinja_string *s);
// Bytes made from the character at s->bytes[at]: they have its origin.
void jinja_put_derived(struct builder *b, const char *bytes, size_t length,
                       const struct jinja_string *s, size_t at);
void jinja_put_character(struct builder *b, int32_t c, const struct jinja_string *s, size_t at);
void jinja_put_show(struct builder *b, struct jinja_value v); // str()
void jinja_put_repr(struct builder *b, struct jinja_value v);
struct jinja_value jinja_builder_value(struct builder *b);
struct jinja_value jinja_string_piece(struct jinja_run *r, const struct jinja_string *s,
                                      size_t start, size_t end);
// str() of any value, as a string.
const struct jinja_string *jinja_string_of(struct jinja_run *r, struct jinja_value v);
bool jinja_string_is(const struct jinja_string *s, const char *word);
bool jinja_strings_equal(const struct jinja_string *a, const struct jinja_string *b);
// A string, or NULL with a failure that names who wants it.
const struct jinja_string *jinja_need_text(struct jinja_run *r, struct jinja_value v,
                                           const char *who);
// Place of `part` in s at or after `from`; SIZE_MAX: nowhere.
size_t jinja_string_find(struct jinja_run *r, const struct jinja_string *s,
                         const struct jinja_string *part, size_t from);
size_t jinja_string_find_last(struct jinja_run *r, const struct jinja_string *s,
                              const struct jinja_string *part, size_t end);
struct jinja_value jinja_string_replace(struct jinja_run *r, const struct jinja_string *s,
                                        const struct jinja_string *old,
                                        const struct jinja_string *new, int64_t count);
// chars NULL: white space. sides: 1 left, 2 right.
struct jinja_value jinja_string_strip(struct jinja_run *r, const struct jinja_string *s,
                                      const struct jinja_string *chars, int sides);
struct jinja_value jinja_string_escape(struct jinja_run *r, const struct jinja_string *s);
// Where the line that begins at `at` ends, as splitlines() of Python sees it; *next: behind its
// break, the same where the text ends without one.
size_t jinja_line_end(const struct jinja_string *s, size_t at, size_t *next);
int64_t jinja_string_characters(struct jinja_run *r, const struct jinja_string *s);
// Byte at which character number n begins (n may be the number of characters).
size_t jinja_string_at(const struct jinja_string *s, int64_t n);

void jinja_show_real(char *text, size_t size, double real);

struct json_style {
    const char *item, *key;            // separators
    const struct jinja_string *indent; // NULL: on one line
    bool ascii, sorted;
};
void jinja_put_json(struct builder *b, struct jinja_value v, const struct json_style *style,
                    int level);

// --- characters ----------------------------------------------------------------------------------

size_t jinja_space_start(const char *text, size_t length); // bytes of white space at the beginning
size_t jinja_space_end(const char *text, size_t length);   // at the end
size_t jinja_char_length(const char *text, size_t left);
int32_t jinja_char_at(const char *text, size_t left, size_t *length);
size_t jinja_char_put(char *bytes, int32_t c); // at most 4
enum letter_case { CASE_UPPER, CASE_LOWER, CASE_CAPITAL, CASE_TITLE, CASE_TITLE_WORDS, CASE_SWAP };
struct jinja_value jinja_string_case(struct jinja_run *r, const struct jinja_string *s,
                                     enum letter_case how);
bool jinja_string_has_case(const struct jinja_string *s, enum letter_case how); // isupper, islower
enum char_class { CHARS_ALPHA, CHARS_DIGIT, CHARS_ALNUM, CHARS_SPACE, CHARS_DECIMAL };
bool jinja_string_all(const struct jinja_string *s, enum char_class what);
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
    T_REAL,
    T_SIGN,
    T_END
};

struct jinja_token {
    enum jinja_token_kind kind;
    int line;
    const char *text; // data, name, string (escapes resolved), sign: NUL-terminated
    size_t length;
    int64_t integer;
    double real;
};

struct jinja_tokens {
    struct jinja_token *list;
    size_t count, capacity;
};

int jinja_lex(struct jinja_room *room, const char *text, size_t length, struct jinja_tokens *tokens,
              struct err *err);

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
    N_FILTER,
    N_TEST,
    N_AND,
    N_OR,
    N_NOT,
    N_NEGATIVE,
    N_POSITIVE,
    N_COMPARE,
    N_CONCAT,
    N_ADD,
    N_SUBTRACT,
    N_MULTIPLY,
    N_DIVIDE,
    N_FLOOR,
    N_MODULO,
    N_POWER,
    N_IF_ELSE,
    // Statements.
    N_DATA,
    N_PRINT,
    N_IF,
    N_FOR,
    N_SET,
    N_SET_BLOCK,
    N_MACRO,
    N_CALL_BLOCK,
    N_FILTER_BLOCK,
    N_WITH,
    N_BLOCK,
    N_BREAK,
    N_CONTINUE,
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

// What the fields of a node are stands beside its parser.
struct jinja_node {
    enum jinja_op op;
    int line, depth;
    struct jinja_node *a, *b, *c;
    struct jinja_nodes list;  // elements, arguments, parameters, or the body of a statement
    struct jinja_nodes other; // values of a dict, keyword arguments, defaults, or an else body
    const char *name;
    const char **names; // [other.count] of keyword arguments
    enum compare *compares;
    size_t capacity; // of names or compares
    struct jinja_value value;
    const struct jinja_callable *callable; // filter or test
    bool flag;                             // loop: recursive; tuple without parentheses ...
};

struct jinja {
    struct jinja_room room;
    struct jinja_nodes body;
    const char *name;
    const char **words; // every name used
    size_t word_count, word_capacity;
};

struct parser {
    struct jinja *t;
    struct jinja_tokens tokens;
    size_t at;
    int depth, loops;
    struct err *err;
    bool failed;
};

void jinja_parse_fail(struct parser *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const struct jinja_token *jinja_peek(struct parser *p);
const struct jinja_token *jinja_peek_next(struct parser *p);
bool jinja_at_sign(struct parser *p, const char *sign);
bool jinja_at_name(struct parser *p, const char *name);
bool jinja_skip_sign(struct parser *p, const char *sign);
bool jinja_skip_name(struct parser *p, const char *name);
void jinja_expect_sign(struct parser *p, const char *sign);
const char *jinja_expect_name(struct parser *p);
struct jinja_node *jinja_node_new(struct parser *p, enum jinja_op op);
void jinja_nodes_add(struct parser *p, struct jinja_nodes *nodes, struct jinja_node *node);
void jinja_note_name(struct parser *p, struct jinja_node *n, const char *name);
// Parsers return NULL when p->failed.
struct jinja_node *jinja_parse_expression(struct parser *p);
struct jinja_node *jinja_parse_no_condition(struct parser *p); // no `a if b`
// Elements until the end of the tag, or the name in `end` (NULL: none).
struct jinja_node *jinja_parse_tuple(struct parser *p, bool condition, const char *end);
struct jinja_node *jinja_parse_target(struct parser *p, const char *end); // names only
struct jinja_node *jinja_parse_postfix(struct parser *p, struct jinja_node *n);
void jinja_parse_arguments(struct parser *p, struct jinja_node *call);
struct jinja_node *jinja_parse_filters(struct parser *p, struct jinja_node *n, bool start);
// Text, output and statements until a block that begins with one of `ends`, whose name is then the
// next token; NULL: until the end of the template.
void jinja_parse_body(struct parser *p, struct jinja_nodes *body, const char *const *ends);

// --- evaluation ----------------------------------------------------------------------------------

struct jinja_value jinja_eval(struct jinja_run *r, const struct jinja_node *n);
struct jinja_value jinja_eval_binary(struct jinja_run *r, enum jinja_op op, struct jinja_value a,
                                     struct jinja_value b);
struct jinja_value jinja_value_attribute(struct jinja_run *r, struct jinja_value v,
                                         const struct jinja_string *name);
struct jinja_value jinja_value_index(struct jinja_run *r, struct jinja_value v,
                                     struct jinja_value index);
void jinja_run_body(struct jinja_run *r, const struct jinja_nodes *body);
void jinja_run_for(struct jinja_run *r, const struct jinja_node *n, struct jinja_value over,
                   struct jinja_loop *outer);
struct jinja_scope *jinja_scope_push(struct jinja_run *r, struct jinja_scope *outer);
bool jinja_scope_find(struct jinja_run *r, const char *name, struct jinja_value *v);
void jinja_scope_set(struct jinja_run *r, const char *name, struct jinja_value v);
void jinja_assign(struct jinja_run *r, const struct jinja_node *target, struct jinja_value v);

// --- calls ---------------------------------------------------------------------------------------

struct jinja_args {
    struct jinja_value *at;
    size_t count;
    const char **names;
    struct jinja_value *named;
    size_t named_count;
};

enum { PARAMETERS_MAX = 6 };

// A filter, test, function or method. `parameters`: their names, separated by blanks; "*" at the
// end: any number of them, and any keyword. The function gets them in `at`, JINJA_ABSENT where not
// given; with "*" the arguments as they were given.
struct jinja_callable {
    const char *name;
    struct jinja_value (*run)(struct jinja_run *r, struct jinja_value self,
                              const struct jinja_args *args);
    const char *parameters;
    int least; // that must be given
};

struct jinja_function {
    struct jinja_callable call;
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
struct jinja_value jinja_call_value(struct jinja_run *r, struct jinja_value f,
                                    const struct jinja_args *args);
struct jinja_value jinja_call_macro(struct jinja_run *r, struct jinja_macro *m,
                                    const struct jinja_args *args);
void jinja_eval_arguments(struct jinja_run *r, const struct jinja_node *call,
                          struct jinja_args *args);

// The tables; NULL: unknown.
const struct jinja_callable *jinja_filter(const char *name);
const struct jinja_callable *jinja_test(const char *name);
const struct jinja_function *jinja_function(const char *name);
const struct jinja_callable *jinja_method_of(struct jinja_value v, const char *name);

struct jinja_value jinja_argument(const struct jinja_args *args, size_t i); // ABSENT past the end
bool jinja_argument_true(const struct jinja_args *args, size_t i, bool otherwise);
// Of an integer or bool; fails for others.
int64_t jinja_argument_int(struct jinja_run *r, const struct jinja_args *args, size_t i,
                           int64_t otherwise, const char *who);

extern const struct jinja_callable jinja_filters_of_lists[], jinja_methods_of_text[],
    jinja_methods_of_split[];
struct jinja_value jinja_format_printf(struct jinja_run *r, const struct jinja_string *format,
                                       struct jinja_value values);
struct jinja_value jinja_format_braces(struct jinja_run *r, const struct jinja_string *format,
                                       const struct jinja_args *args);
struct jinja_value jinja_sorted(struct jinja_run *r, struct jinja_list *items,
                                struct jinja_list *by, bool reverse);

#endif
