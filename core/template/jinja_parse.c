// core/template/jinja_parse.c -- turns tokens into a tree of statements and expressions. Precedence
// as in Jinja2, from the lowest: a if b else c; or; and; not; comparisons; + -; ~; * %; filters and
// tests; a sign (-x|f is (-x)|f); calls, attributes and indices.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/template/jinja_parts.h"

struct parser {
    struct jinja *t;
    size_t at;
    int depth, loops;
    struct err *err;
    bool failed;
};

// A failure skips to the last token, T_END, so every parsing function ends. Each still returns a
// node, but parse_statement returns NULL for an unknown statement.
static struct jinja_node *parse_expression(struct parser *p);

// --- tokens ------------------------------------------------------------------------------------

static const struct jinja_token *peek(struct parser *p)
{
    return &p->t->tokens.list[p->at];
}

static void fail(struct parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void fail(struct parser *p, const char *format, ...)
{
    char text[sizeof p->err->text];
    va_list args;
    if (p->failed) return;
    va_start(args, format);
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is right above
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    p->failed = true;
    err_set(p->err, "line %d: %s", peek(p)->line, text);
    p->at = p->t->tokens.count - 1;
}

// Moves to the next token, but not past the last one, T_END.
static void advance(struct parser *p)
{
    if (p->at + 1 < p->t->tokens.count) p->at++;
}

// True if the next token is this sign or word.
static bool at(struct parser *p, const char *word)
{
    const struct jinja_token *t = peek(p);
    return (t->kind == T_SIGN || t->kind == T_NAME) && !strcmp(t->text, word);
}

// True if the token after the next one is this word.
static bool then(struct parser *p, const char *word)
{
    struct parser ahead = *p;
    advance(&ahead);
    return at(&ahead, word);
}

static bool skip(struct parser *p, const char *word)
{
    if (!at(p, word)) return false;
    advance(p);
    return true;
}

static const char *token_shown(const struct jinja_token *t)
{
    switch (t->kind) {
    case T_END: return "the end of the template";
    case T_DATA: return "text";
    case T_OPEN: return "{%";
    case T_CLOSE: return "%}";
    case T_PRINT: return "{{";
    case T_PRINT_END: return "}}";
    case T_STRING: return "a string";
    case T_INT: return "a number";
    default: return t->text;
    }
}

static void expect(struct parser *p, const char *word)
{
    if (!skip(p, word)) fail(p, "expected '%s', not '%.40s'", word, token_shown(peek(p)));
}

static void expect_kind(struct parser *p, enum jinja_token_kind kind, const char *shown)
{
    if (peek(p)->kind == kind)
        advance(p);
    else
        fail(p, "expected '%s', not '%.40s'", shown, token_shown(peek(p)));
}

static const char *expect_name(struct parser *p)
{
    const struct jinja_token *t = peek(p);
    if (t->kind != T_NAME) {
        fail(p, "expected a name, not '%.40s'", token_shown(t));
        return "";
    }
    advance(p);
    return t->text;
}

// --- nodes -------------------------------------------------------------------------------------

static struct jinja_node *node_new(struct parser *p, enum jinja_op op)
{
    struct jinja_node *n = jinja_take(&p->t->arena, sizeof *n);
    if (!jinja_spend(&p->t->arena, 1)) fail(p, "%s", p->t->arena.spent);
    n->op = op;
    n->line = peek(p)->line;
    n->depth = 1;
    return n;
}

// Sets the depth to one more than that of the deepest child. A chain of n operators thus has depth
// n + 1.
static struct jinja_node *deepen(struct parser *p, struct jinja_node *n)
{
    struct jinja_node *ones[] = { n->a, n->b, n->c };
    const struct jinja_nodes below[] = { { ones, 3, 0 }, n->list, n->other };
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < below[k].count; i++) {
            const struct jinja_node *one = below[k].list[i];
            if (one && one->depth >= n->depth) n->depth = one->depth + 1;
        }
    if (n->depth > JINJA_DEPTH) fail(p, "an expression is nested too deeply");
    return n;
}

static struct jinja_node *node_of(struct parser *p, enum jinja_op op, struct jinja_node *a,
                                  struct jinja_node *b, struct jinja_node *c)
{
    struct jinja_node *n = node_new(p, op);
    n->a = a;
    n->b = b;
    n->c = c;
    return deepen(p, n);
}

static void add_node(struct parser *p, struct jinja_nodes *nodes, struct jinja_node *node)
{
    struct jinja_node **list =
        jinja_grow(&p->t->arena, nodes->list, nodes->count, &nodes->capacity, sizeof node);
    if (!list) fail(p, "%s", p->t->arena.spent);
    if (!list) return;
    nodes->list = list;
    nodes->list[nodes->count++] = node;
}

static struct jinja_node *value_node(struct parser *p, struct jinja_value v)
{
    struct jinja_node *n = node_new(p, N_VALUE);
    n->value = v;
    return n;
}

// --- primary expressions -----------------------------------------------------------------------

// Parses elements up to and including the bracket `close`.
static struct jinja_node *parse_list(struct parser *p, enum jinja_op op, const char *close)
{
    struct jinja_node *n = node_new(p, op);
    while (!p->failed && !at(p, close)) {
        add_node(p, &n->list, parse_expression(p));
        if (op == N_DICT) {
            expect(p, ":");
            add_node(p, &n->other, parse_expression(p));
        }
        // "(a)" is not a tuple.
        if (op == N_TUPLE && n->list.count == 1 && skip(p, close)) return n->list.list[0];
        if (!at(p, close)) expect(p, ",");
    }
    expect(p, close);
    return deepen(p, n);
}

static struct jinja_node *parse_name(struct parser *p)
{
    static const struct {
        const char *name;
        struct jinja_value value;
    } constants[] = {
        { "true", { .kind = JINJA_BOOL, .truth = true } },
        { "True", { .kind = JINJA_BOOL, .truth = true } },
        { "false", { .kind = JINJA_BOOL } },
        { "False", { .kind = JINJA_BOOL } },
        { "none", { .kind = JINJA_NONE } },
        { "None", { .kind = JINJA_NONE } },
    };
    const char *name = expect_name(p);
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (!strcmp(constants[i].name, name)) return value_node(p, constants[i].value);
    if (!strcmp(name, "varargs") || !strcmp(name, "kwargs"))
        fail(p, "'%s' in a macro is not supported", name);
    struct jinja_node *n = node_new(p, N_NAME);
    n->name = name;
    return n;
}

static struct jinja_node *parse_primary(struct parser *p)
{
    const struct jinja_token *t = peek(p);
    if (t->kind == T_NAME) return parse_name(p);
    if (t->kind == T_INT) {
        advance(p);
        return value_node(p, jinja_value_int(t->integer));
    }
    if (t->kind == T_STRING) { // joins adjacent strings: "a" "b"
        struct buf all = { 0 };
        buf_puts(&all, "");
        for (; peek(p)->kind == T_STRING; advance(p)) buf_add(&all, peek(p)->text, peek(p)->length);
        struct jinja_node *n =
            value_node(p, jinja_text(&p->t->arena, all.data, all.length, JINJA_TEMPLATE));
        buf_release(&all);
        return n;
    }
    if (skip(p, "(")) return parse_list(p, N_TUPLE, ")");
    if (skip(p, "[")) return parse_list(p, N_LIST, "]");
    if (skip(p, "{")) return parse_list(p, N_DICT, "}");
    fail(p, "unexpected '%.40s'", token_shown(t));
    return node_new(p, N_VALUE);
}

// --- calls, attributes, filters, tests ---------------------------------------------------------

// Parses "(a, b, name=c)": positional arguments into list, named arguments (N_NAMED) into
// other.
static void parse_arguments(struct parser *p, struct jinja_node *call)
{
    expect(p, "(");
    while (!p->failed && !at(p, ")")) {
        if (at(p, "*")) fail(p, "'*' in a call is not supported");
        if (peek(p)->kind == T_NAME && then(p, "=")) {
            struct jinja_node *n = node_new(p, N_NAMED);
            n->name = expect_name(p);
            expect(p, "=");
            n->a = parse_expression(p);
            add_node(p, &call->other, deepen(p, n));
        } else {
            if (call->other.count) fail(p, "a positional argument follows a keyword argument");
            add_node(p, &call->list, parse_expression(p));
        }
        if (!at(p, ")")) expect(p, ",");
    }
    expect(p, ")");
    deepen(p, call);
}

// Parses an index, or a slice "a:b:c", after "[".
static struct jinja_node *parse_index(struct parser *p, struct jinja_node *of)
{
    struct jinja_node *parts[3] = { NULL };
    int colons = 0;
    do {
        if (!at(p, ":") && !at(p, "]")) parts[colons] = parse_expression(p);
    } while (colons < 2 && skip(p, ":") && ++colons);
    if (!colons && !parts[0]) fail(p, "an index is missing");
    expect(p, "]");
    return node_of(p, N_INDEX, of,
                   colons ? node_of(p, N_SLICE, parts[0], parts[1], parts[2]) : parts[0], NULL);
}

static struct jinja_node *parse_attribute(struct parser *p, struct jinja_node *of)
{
    if (peek(p)->kind == T_INT) // "list.0"
        return node_of(p, N_INDEX, of, parse_primary(p), NULL);
    struct jinja_node *n = node_of(p, N_ATTRIBUTE, of, NULL, NULL);
    n->name = expect_name(p);
    n->value = jinja_text(&p->t->arena, n->name, strlen(n->name), JINJA_TEMPLATE);
    return n;
}

static struct jinja_node *parse_call(struct parser *p, struct jinja_node *f)
{
    struct jinja_node *n = node_new(p, N_CALL);
    n->a = f;
    parse_arguments(p, n);
    return deepen(p, n);
}

static struct jinja_node *parse_postfix(struct parser *p, struct jinja_node *n)
{
    for (;;) {
        if (skip(p, "."))
            n = parse_attribute(p, n);
        else if (skip(p, "["))
            n = parse_index(p, n);
        else if (at(p, "("))
            n = parse_call(p, n);
        else
            return n;
    }
}

static struct jinja_node *parse_filter(struct parser *p, struct jinja_node *of)
{
    struct jinja_node *n = node_new(p, N_FILTER);
    n->a = of;
    n->name = expect_name(p);
    n->callable = jinja_filter(n->name);
    if (at(p, "(")) parse_arguments(p, n);
    return deepen(p, n);
}

static struct jinja_node *parse_test(struct parser *p, struct jinja_node *of)
{
    const bool negated = skip(p, "not");
    struct jinja_node *n = node_new(p, N_TEST);
    n->a = of;
    n->name = expect_name(p);
    n->callable = jinja_test(n->name);
    const enum jinja_token_kind next = peek(p)->kind;
    const bool joins = at(p, "else") || at(p, "or") || at(p, "and");
    if (at(p, "(")) {
        parse_arguments(p, n);
    } else if ((next == T_NAME && !joins) || next == T_STRING || next == T_INT || at(p, "[") ||
               at(p, "{")) { // "x is equalto 3"
        if (at(p, "is")) fail(p, "tests cannot be chained with 'is'");
        add_node(p, &n->list, parse_postfix(p, parse_primary(p)));
    }
    return negated ? node_of(p, N_NOT, deepen(p, n), NULL, NULL) : deepen(p, n);
}

// Parses filters, tests and calls after a value.
static struct jinja_node *parse_filters(struct parser *p, struct jinja_node *n)
{
    for (;;) {
        if (skip(p, "|"))
            n = parse_filter(p, n);
        else if (skip(p, "is"))
            n = parse_test(p, n);
        else if (at(p, "("))
            n = parse_call(p, n);
        else
            return n;
    }
}

// --- operators ---------------------------------------------------------------------------------

static struct jinja_node *parse_unary(struct parser *p, bool filters)
{
    if (++p->depth > JINJA_DEPTH) fail(p, "an expression is nested too deeply");
    struct jinja_node *n =
        skip(p, "-") ? node_of(p, N_NEGATIVE, parse_unary(p, false), NULL, NULL) : parse_primary(p);
    n = parse_postfix(p, n);
    if (filters) n = parse_filters(p, n);
    p->depth--;
    return n;
}

// Reads an optional comparison operator.
static bool skip_compare(struct parser *p, enum compare *compare)
{
    static const char *const signs[] = { "==", "!=", "<", "<=", ">", ">=", "in" };
    for (int i = 0; i < 7; i++) {
        *compare = (enum compare)i;
        if (skip(p, signs[i])) return true;
    }
    *compare = IS_NOT_IN;
    return at(p, "not") && then(p, "in") && skip(p, "not") && skip(p, "in");
}

enum { LEVEL_NOT = 2, LEVEL_COMPARE, LEVEL_ADD, LEVEL_UNARY = 7 };

// Parses operators by level, from the lowest precedence.
static struct jinja_node *parse_level(struct parser *p, int level)
{
    static const struct {
        const char *sign;
        enum jinja_op op;
    } levels[][3] = {
        { { "or", N_OR } },
        { { "and", N_AND } },
        [LEVEL_ADD] = { { "+", N_ADD }, { "-", N_SUBTRACT } },
        { { "~", N_CONCAT } },
        { { "*", N_MULTIPLY }, { "%", N_MODULO } },
    };
    if (level == LEVEL_UNARY) return parse_unary(p, true);
    if (level == LEVEL_NOT && skip(p, "not")) {
        if (++p->depth > JINJA_DEPTH) fail(p, "an expression is nested too deeply");
        struct jinja_node *n = parse_level(p, LEVEL_NOT);
        p->depth--;
        return node_of(p, N_NOT, n, NULL, NULL);
    }
    struct jinja_node *n = parse_level(p, level + 1);
    enum compare compare, other;
    if (level == LEVEL_COMPARE && skip_compare(p, &compare)) {
        n = node_of(p, N_COMPARE, n, parse_level(p, LEVEL_ADD), NULL);
        n->compare = compare;
        if (skip_compare(p, &other))
            fail(p, "chained comparisons are not supported: write 'a < b and b < c'");
    }
    for (int i = 0; levels[level][i].sign; i++) {
        if (!skip(p, levels[level][i].sign)) continue;
        n = node_of(p, levels[level][i].op, n, parse_level(p, level + 1), NULL);
        i = -1;
    }
    if (at(p, "/") || at(p, "//")) fail(p, "the operator '%s' is not supported", peek(p)->text);
    return n;
}

// Parses "a if b else c"; without else, c is NULL (undefined).
static struct jinja_node *parse_expression(struct parser *p)
{
    if (++p->depth > JINJA_DEPTH) fail(p, "an expression is nested too deeply");
    struct jinja_node *n = parse_level(p, 0);
    while (skip(p, "if")) {
        struct jinja_node *condition = parse_level(p, 0), *otherwise = NULL;
        if (skip(p, "else")) otherwise = parse_expression(p);
        n = node_of(p, N_IF_ELSE, n, condition, otherwise);
    }
    p->depth--;
    return n;
}

// --- statements --------------------------------------------------------------------------------

// Parses a value, or a tuple without brackets. `condition`: a value may contain "if".
static struct jinja_node *parse_values(struct parser *p, bool condition)
{
    struct jinja_node *n = node_new(p, N_TUPLE);
    bool tuple = false;
    while (!p->failed && peek(p)->kind != T_CLOSE && peek(p)->kind != T_PRINT_END) {
        add_node(p, &n->list, condition ? parse_expression(p) : parse_level(p, 0));
        if (!skip(p, ",")) break;
        tuple = true;
    }
    if (!n->list.count) fail(p, "an expression is missing before '%.40s'", token_shown(peek(p)));
    return tuple || !n->list.count ? deepen(p, n) : n->list.list[0];
}

// Parses an assignment target: a name or an attribute, or several separated by commas.
static struct jinja_node *parse_target(struct parser *p)
{
    struct jinja_node *n = node_new(p, N_TUPLE), *one = NULL;
    do {
        one = parse_name(p);
        if (one->op != N_NAME) fail(p, "this cannot be assigned to");
        if (skip(p, ".")) one = parse_attribute(p, one);
        add_node(p, &n->list, one);
    } while (skip(p, ","));
    return n->list.count > 1 ? deepen(p, n) : one;
}

static struct jinja_node *parse_statement(struct parser *p);

// Parses text, output and statements up to a tag that starts with one of the words `ends`, and
// stops at that word; ends NULL: parses up to the end of the template.
static void parse_body(struct parser *p, struct jinja_nodes *body, const char *const *ends)
{
    if (++p->depth > JINJA_DEPTH) fail(p, "statements are nested too deeply");
    while (peek(p)->kind != T_END) {
        const struct jinja_token *t = peek(p);
        advance(p);
        if (t->kind == T_DATA) {
            struct jinja_node *n = node_new(p, N_DATA);
            n->value = jinja_text(&p->t->arena, t->text, t->length, JINJA_TEMPLATE);
            add_node(p, body, n);
        } else if (t->kind == T_PRINT) {
            struct jinja_node *n = node_new(p, N_PRINT);
            n->a = parse_values(p, true);
            add_node(p, body, n);
            expect_kind(p, T_PRINT_END, "}}");
        } else {
            for (const char *const *end = ends; end && *end; end++)
                if (at(p, *end)) {
                    p->depth--;
                    return;
                }
            add_node(p, body, parse_statement(p));
            expect_kind(p, T_CLOSE, "%}");
        }
    }
    while (ends && ends[1]) ends++;
    if (ends) fail(p, "'%s' is missing", *ends);
    p->depth--;
}

// Parses the "%}" of a statement's tag, the statement's body, and the word `end` of the closing
// tag.
static void parse_until(struct parser *p, struct jinja_nodes *body, const char *end)
{
    const char *const ends[] = { end, NULL };
    expect_kind(p, T_CLOSE, "%}");
    parse_body(p, body, ends);
    expect(p, end);
}

// N_IF has a: the condition; list: the body; other: the else body; c: an elif, as another N_IF.
static struct jinja_node *parse_if(struct parser *p)
{
    static const char *const ends[] = { "elif", "else", "endif", NULL };
    struct jinja_node *first = node_new(p, N_IF), *last = first;
    for (;;) {
        last->a = parse_values(p, false);
        expect_kind(p, T_CLOSE, "%}");
        parse_body(p, &last->list, ends);
        if (!skip(p, "elif")) break;
        last = last->c = node_new(p, N_IF);
    }
    if (skip(p, "else"))
        parse_until(p, &last->other, "endif");
    else
        expect(p, "endif");
    return first;
}

// N_FOR has a: the target; b: the iterable; c: the condition; list: the body; other: the else body.
static struct jinja_node *parse_for(struct parser *p)
{
    static const char *const ends[] = { "else", "endfor", NULL };
    struct jinja_node *n = node_new(p, N_FOR);
    n->a = parse_target(p);
    expect(p, "in");
    n->b = parse_values(p, false);
    if (skip(p, "if")) n->c = parse_expression(p);
    expect_kind(p, T_CLOSE, "%}");
    p->loops++;
    parse_body(p, &n->list, ends);
    p->loops--;
    if (skip(p, "else"))
        parse_until(p, &n->other, "endfor");
    else
        expect(p, "endfor");
    return n;
}

// N_SET has a: the target; b: the value. N_SET_BLOCK has a: the target; list: its body.
static struct jinja_node *parse_set(struct parser *p)
{
    struct jinja_node *n = node_new(p, N_SET);
    n->a = parse_target(p);
    if (skip(p, "=")) {
        n->b = parse_values(p, true);
        return n;
    }
    n->op = N_SET_BLOCK;
    if (at(p, "|")) fail(p, "filters of a set block are not supported");
    parse_until(p, &n->list, "endset");
    return n;
}

// N_MACRO has name; list: the parameters; other: the defaults of the last parameters; a: the body
// (N_BLOCK).
static struct jinja_node *parse_macro(struct parser *p)
{
    struct jinja_node *n = node_new(p, N_MACRO);
    n->name = expect_name(p);
    expect(p, "(");
    while (!p->failed && !at(p, ")")) {
        struct jinja_node *name = node_new(p, N_NAME);
        name->name = expect_name(p);
        add_node(p, &n->list, name);
        if (skip(p, "="))
            add_node(p, &n->other, parse_expression(p));
        else if (n->other.count)
            fail(p, "a parameter without a default follows one with a default");
        if (!at(p, ")")) expect(p, ",");
    }
    expect(p, ")");
    n->a = node_new(p, N_BLOCK);
    parse_until(p, &n->a->list, "endmacro");
    return n;
}

static struct jinja_node *parse_statement(struct parser *p)
{
    struct jinja_node *n = NULL;
    if (skip(p, "if")) return parse_if(p);
    if (skip(p, "for")) return parse_for(p);
    if (skip(p, "set")) return parse_set(p);
    if (skip(p, "macro")) return parse_macro(p);
    if (skip(p, "call")) { // N_PRINT has a: the call, whose b is the macro `caller`
        n = node_new(p, N_PRINT);
        n->a = parse_expression(p);
        if (n->a->op != N_CALL) fail(p, "a call block needs a call");
        struct jinja_node *caller = node_new(p, N_MACRO);
        caller->name = "caller";
        caller->a = node_new(p, N_BLOCK);
        parse_until(p, &caller->a->list, "endcall");
        n->a->b = caller;
    } else if (skip(p, "filter")) { // N_FILTER_BLOCK has list: the body; a: the
                                    // filters, applied to an empty N_VALUE, which
                                    // takes the body's text
        n = node_new(p, N_FILTER_BLOCK);
        n->a = parse_filters(p, parse_filter(p, node_new(p, N_VALUE)));
        parse_until(p, &n->list, "endfilter");
    } else if (skip(p, "generation")) { // transformers finds answers by this tag
        n = node_new(p, N_BLOCK);
        parse_until(p, &n->list, "endgeneration");
    } else if (skip(p, "break")) {
        if (!p->loops) fail(p, "'break' is outside a loop");
        n = node_new(p, N_BREAK);
    } else {
        fail(p, "the statement '%.60s' is not known", token_shown(peek(p)));
    }
    return n;
}

struct jinja *jinja_parse(const char *text, size_t length, const char *name, struct err *err)
{
    struct jinja *t = xcalloc(1, sizeof *t);
    struct parser p = { .t = t, .err = err };
    t->name = jinja_keep(&t->arena, name, strlen(name));
    if (length > JINJA_TEMPLATE_SIZE) {
        err_set(err, "a template of %zu MB is too long", length >> 20);
        p.failed = true;
    } else {
        p.failed = text_check_part(text, length, 1, err) < 0 ||
                   jinja_lex(&t->arena, text, length, &t->tokens, err) < 0;
    }
    if (!p.failed) parse_body(&p, &t->body, NULL);
    if (!p.failed) return t;
    err_in(err, "%s", name);
    jinja_free(t);
    return NULL;
}

void jinja_free(struct jinja *t)
{
    if (!t) return;
    jinja_arena_release(&t->arena);
    free(t);
}

bool jinja_mentions(const struct jinja *t, const char *name)
{
    const struct jinja_token *list = t->tokens.list;
    for (size_t i = 0; i < t->tokens.count; i++)
        if (list[i].kind == T_NAME && !strcmp(list[i].text, name) &&
            !(i && list[i - 1].kind == T_SIGN && *list[i - 1].text == '.'))
            return true;
    return false;
}
