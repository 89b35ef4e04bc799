// core/text/jinja_parse.c -- tokens to expressions, with the precedence of Jinja2: a if b else c,
// or, and, not, comparisons, + -, ~, * / // %, **, unary signs, then calls, attributes and indices,
// then filters and tests.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/text/jinja_parts.h"

// --- tokens ------------------------------------------------------------------------------------

void jinja_parse_fail(struct parser *p, const char *format, ...)
{
    char text[sizeof p->err->text];
    va_list args;
    if (p->failed) return;
    va_start(args, format);
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is right above
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    p->failed = true;
    err_set(p->err, "line %d: %s", jinja_peek(p)->line, text);
}

const struct jinja_token *jinja_peek(struct parser *p)
{
    return &p->tokens.list[p->at];
}

const struct jinja_token *jinja_peek_next(struct parser *p)
{
    return &p->tokens.list[p->at + 1 < p->tokens.count ? p->at + 1 : p->at];
}

static void advance(struct parser *p)
{
    if (p->at + 1 < p->tokens.count) p->at++;
}

bool jinja_at_sign(struct parser *p, const char *sign)
{
    return jinja_peek(p)->kind == T_SIGN && !strcmp(jinja_peek(p)->text, sign);
}

bool jinja_at_name(struct parser *p, const char *name)
{
    return jinja_peek(p)->kind == T_NAME && !strcmp(jinja_peek(p)->text, name);
}

bool jinja_skip_sign(struct parser *p, const char *sign)
{
    if (!jinja_at_sign(p, sign)) return false;
    advance(p);
    return true;
}

bool jinja_skip_name(struct parser *p, const char *name)
{
    if (!jinja_at_name(p, name)) return false;
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
    case T_INT:
    case T_REAL: return "a number";
    default: return t->text;
    }
}

void jinja_expect_sign(struct parser *p, const char *sign)
{
    if (!jinja_skip_sign(p, sign))
        jinja_parse_fail(p, "expected '%s', not '%.40s'", sign, token_shown(jinja_peek(p)));
}

const char *jinja_expect_name(struct parser *p)
{
    const struct jinja_token *t = jinja_peek(p);
    if (t->kind != T_NAME) {
        jinja_parse_fail(p, "expected a name, not '%.40s'", token_shown(t));
        return "";
    }
    advance(p);
    return t->text;
}

// --- nodes -------------------------------------------------------------------------------------

struct jinja_node *jinja_node_new(struct parser *p, enum jinja_op op)
{
    struct jinja_node *n = jinja_take(&p->t->room, sizeof *n);
    if (!jinja_spend(&p->t->room, 1)) jinja_parse_fail(p, "%s", p->t->room.spent);
    n->op = op;
    n->line = jinja_peek(p)->line;
    n->depth = 1;
    return n;
}

// A node is deeper than those below it; a chain of operators is as deep as it is long.
static struct jinja_node *deepen(struct parser *p, struct jinja_node *n)
{
    struct jinja_node *const below[] = { n->a, n->b, n->c };
    for (int i = 0; i < 3; i++)
        if (below[i] && below[i]->depth >= n->depth) n->depth = below[i]->depth + 1;
    for (size_t i = 0; i < n->list.count; i++)
        if (n->list.list[i]->depth >= n->depth) n->depth = n->list.list[i]->depth + 1;
    for (size_t i = 0; i < n->other.count; i++)
        if (n->other.list[i]->depth >= n->depth) n->depth = n->other.list[i]->depth + 1;
    if (n->depth > JINJA_DEPTH) jinja_parse_fail(p, "an expression is nested too deeply");
    return n;
}

static struct jinja_node *node_of(struct parser *p, enum jinja_op op, struct jinja_node *a,
                                  struct jinja_node *b, struct jinja_node *c)
{
    struct jinja_node *n = jinja_node_new(p, op);
    n->a = a;
    n->b = b;
    n->c = c;
    return deepen(p, n);
}

void jinja_nodes_add(struct parser *p, struct jinja_nodes *nodes, struct jinja_node *node)
{
    struct jinja_node **list =
        jinja_grow(&p->t->room, nodes->list, nodes->count, &nodes->capacity, sizeof node);
    if (!list) jinja_parse_fail(p, "%s", p->t->room.spent);
    if (!list) return;
    nodes->list = list;
    nodes->list[nodes->count++] = node;
}

// The name that belongs to the newest of n->other.
void jinja_note_name(struct parser *p, struct jinja_node *n, const char *name)
{
    const char **names = p->failed ? NULL
                                   : jinja_grow(&p->t->room, n->names, n->other.count - 1,
                                                &n->capacity, sizeof name);
    if (!names) jinja_parse_fail(p, "%s", p->t->room.spent);
    if (!names) return;
    n->names = names;
    n->names[n->other.count - 1] = name;
}

static void note_word(struct parser *p, const char *word)
{
    struct jinja *t = p->t;
    const char **words =
        jinja_grow(&t->room, t->words, t->word_count, &t->word_capacity, sizeof word);
    if (!words) jinja_parse_fail(p, "%s", t->room.spent);
    if (!words) return;
    t->words = words;
    t->words[t->word_count++] = word;
}

static struct jinja_node *value_node(struct parser *p, struct jinja_value v)
{
    struct jinja_node *n = jinja_node_new(p, N_VALUE);
    n->value = v;
    return n;
}

// --- primary expressions -----------------------------------------------------------------------

static struct jinja_node *parse_strings(struct parser *p)
{
    const struct jinja_token *first = jinja_peek(p);
    struct buf all = { 0 };
    const size_t start = p->at;
    while (jinja_peek(p)->kind == T_STRING) {
        buf_add(&all, jinja_peek(p)->text, jinja_peek(p)->length);
        advance(p);
    }
    const bool one = p->at == start + 1;
    const struct jinja_value v = jinja_text(&p->t->room, one || !all.data ? first->text : all.data,
                                            one ? first->length : all.length, JINJA_TEMPLATE);
    buf_release(&all);
    return value_node(p, v);
}

// Elements up to the bracket `close`, which is passed over.
static struct jinja_node *parse_list(struct parser *p, enum jinja_op op, const char *close)
{
    struct jinja_node *n = jinja_node_new(p, op);
    while (!p->failed && !jinja_at_sign(p, close)) {
        jinja_nodes_add(p, &n->list, jinja_parse_expression(p));
        if (op == N_DICT && !p->failed) {
            jinja_expect_sign(p, ":");
            jinja_nodes_add(p, &n->other, jinja_parse_expression(p));
        }
        if (!jinja_at_sign(p, close)) jinja_expect_sign(p, ",");
    }
    jinja_expect_sign(p, close);
    return p->failed ? NULL : deepen(p, n);
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
    const char *name = jinja_expect_name(p);
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (!strcmp(constants[i].name, name)) return value_node(p, constants[i].value);
    struct jinja_node *n = jinja_node_new(p, N_NAME);
    n->name = name;
    note_word(p, name);
    return n;
}

static struct jinja_node *parse_parentheses(struct parser *p)
{
    struct jinja_node *n = jinja_node_new(p, N_TUPLE);
    bool tuple = jinja_at_sign(p, ")");
    while (!p->failed && !jinja_at_sign(p, ")")) {
        jinja_nodes_add(p, &n->list, jinja_parse_expression(p));
        if (jinja_at_sign(p, ")")) break;
        tuple = true;
        jinja_expect_sign(p, ",");
    }
    jinja_expect_sign(p, ")");
    if (p->failed) return NULL;
    return tuple ? deepen(p, n) : n->list.list[0];
}

static struct jinja_node *parse_primary(struct parser *p)
{
    const struct jinja_token *t = jinja_peek(p);
    if (t->kind == T_NAME) return parse_name(p);
    if (t->kind == T_STRING) return parse_strings(p);
    if (t->kind == T_INT || t->kind == T_REAL) {
        advance(p);
        return value_node(p, t->kind == T_INT ? jinja_value_int(t->integer)
                                              : jinja_value_real(t->real));
    }
    if (jinja_skip_sign(p, "(")) return parse_parentheses(p);
    if (jinja_skip_sign(p, "[")) return parse_list(p, N_LIST, "]");
    if (jinja_skip_sign(p, "{")) return parse_list(p, N_DICT, "}");
    jinja_parse_fail(p, "unexpected '%.40s'", token_shown(t));
    return NULL;
}

// --- calls, attributes, filters, tests ---------------------------------------------------------

// "(a, b, name=c)": list, and other with names.
void jinja_parse_arguments(struct parser *p, struct jinja_node *call)
{
    jinja_expect_sign(p, "(");
    while (!p->failed && !jinja_at_sign(p, ")")) {
        if (jinja_at_sign(p, "*") || jinja_at_sign(p, "**")) {
            jinja_parse_fail(p, "'*' in a call is not known");
            return;
        }
        const struct jinja_token *next = jinja_peek_next(p);
        if (jinja_peek(p)->kind == T_NAME && next->kind == T_SIGN && !strcmp(next->text, "=")) {
            const char *name = jinja_expect_name(p);
            advance(p);
            jinja_nodes_add(p, &call->other, jinja_parse_expression(p));
            jinja_note_name(p, call, name);
        } else {
            if (call->other.count)
                jinja_parse_fail(p, "an argument without a name follows a named one");
            jinja_nodes_add(p, &call->list, jinja_parse_expression(p));
        }
        if (!jinja_at_sign(p, ")")) jinja_expect_sign(p, ",");
    }
    jinja_expect_sign(p, ")");
    if (!p->failed) deepen(p, call);
}

static struct jinja_node *parse_call(struct parser *p, struct jinja_node *f)
{
    struct jinja_node *n = jinja_node_new(p, N_CALL);
    n->a = f;
    jinja_parse_arguments(p, n);
    return p->failed ? NULL : deepen(p, n);
}

static struct jinja_node *parse_slice(struct parser *p)
{
    struct jinja_node *parts[3] = { NULL };
    int i = 0;
    bool slice = false;
    for (;;) {
        if (!jinja_at_sign(p, ":") && !jinja_at_sign(p, "]") && !jinja_at_sign(p, ","))
            parts[i] = jinja_parse_expression(p);
        if (p->failed || !jinja_at_sign(p, ":") || i == 2) break;
        advance(p);
        slice = true;
        i++;
    }
    if (p->failed) return NULL;
    if (slice) return node_of(p, N_SLICE, parts[0], parts[1], parts[2]);
    if (!parts[0]) jinja_parse_fail(p, "an index is missing");
    return parts[0];
}

static struct jinja_node *parse_index(struct parser *p, struct jinja_node *of)
{
    struct jinja_node *index = parse_slice(p), *tuple = NULL;
    while (!p->failed && jinja_skip_sign(p, ",")) {
        if (!tuple) {
            tuple = jinja_node_new(p, N_TUPLE);
            jinja_nodes_add(p, &tuple->list, index);
        }
        if (!jinja_at_sign(p, "]")) jinja_nodes_add(p, &tuple->list, parse_slice(p));
    }
    jinja_expect_sign(p, "]");
    if (p->failed) return NULL;
    return node_of(p, N_INDEX, of, tuple ? deepen(p, tuple) : index, NULL);
}

static struct jinja_node *parse_attribute(struct parser *p, struct jinja_node *of)
{
    const struct jinja_token *t = jinja_peek(p);
    if (t->kind == T_INT) {
        advance(p);
        return node_of(p, N_INDEX, of, value_node(p, jinja_value_int(t->integer)), NULL);
    }
    struct jinja_node *n = node_of(p, N_ATTRIBUTE, of, NULL, NULL);
    n->name = jinja_expect_name(p);
    n->value = jinja_text(&p->t->room, n->name, strlen(n->name), JINJA_TEMPLATE);
    return n;
}

struct jinja_node *jinja_parse_postfix(struct parser *p, struct jinja_node *n)
{
    while (!p->failed) {
        if (jinja_skip_sign(p, "."))
            n = parse_attribute(p, n);
        else if (jinja_skip_sign(p, "["))
            n = parse_index(p, n);
        else if (jinja_at_sign(p, "("))
            n = parse_call(p, n);
        else
            return n;
    }
    return NULL;
}

static struct jinja_node *parse_filter(struct parser *p, struct jinja_node *of)
{
    struct jinja_node *n = jinja_node_new(p, N_FILTER);
    n->a = of;
    n->name = jinja_expect_name(p);
    n->callable = jinja_filter(n->name);
    if (jinja_at_sign(p, "(")) jinja_parse_arguments(p, n);
    return p->failed ? NULL : deepen(p, n);
}

static bool test_argument_ahead(struct parser *p)
{
    const struct jinja_token *t = jinja_peek(p);
    if (t->kind == T_NAME)
        return !jinja_at_name(p, "else") && !jinja_at_name(p, "or") && !jinja_at_name(p, "and");
    return t->kind == T_STRING || t->kind == T_INT || t->kind == T_REAL || jinja_at_sign(p, "[") ||
           jinja_at_sign(p, "{");
}

static struct jinja_node *parse_test(struct parser *p, struct jinja_node *of)
{
    const bool negated = jinja_skip_name(p, "not");
    struct jinja_node *n = jinja_node_new(p, N_TEST);
    n->a = of;
    n->name = jinja_expect_name(p);
    n->callable = jinja_test(n->name);
    if (jinja_at_sign(p, "(")) {
        jinja_parse_arguments(p, n);
    } else if (test_argument_ahead(p)) {
        if (jinja_at_name(p, "is")) jinja_parse_fail(p, "tests cannot be chained with 'is'");
        struct jinja_node *argument = p->failed ? NULL : parse_primary(p);
        if (argument) jinja_nodes_add(p, &n->list, jinja_parse_postfix(p, argument));
    }
    if (p->failed) return NULL;
    return negated ? node_of(p, N_NOT, deepen(p, n), NULL, NULL) : deepen(p, n);
}

// Filters, tests and calls behind a value. `start`: the name of a filter stands first, without '|'.
struct jinja_node *jinja_parse_filters(struct parser *p, struct jinja_node *n, bool start)
{
    if (start) n = parse_filter(p, n);
    while (!p->failed) {
        if (jinja_skip_sign(p, "|"))
            n = parse_filter(p, n);
        else if (jinja_skip_name(p, "is"))
            n = parse_test(p, n);
        else if (jinja_at_sign(p, "("))
            n = parse_call(p, n);
        else
            return n;
    }
    return NULL;
}

// --- operators ---------------------------------------------------------------------------------

static struct jinja_node *parse_unary(struct parser *p, bool filters)
{
    struct jinja_node *n;
    if (++p->depth > JINJA_DEPTH) jinja_parse_fail(p, "an expression is nested too deeply");
    if (p->failed) return NULL;
    if (jinja_skip_sign(p, "-"))
        n = node_of(p, N_NEGATIVE, parse_unary(p, false), NULL, NULL);
    else if (jinja_skip_sign(p, "+"))
        n = node_of(p, N_POSITIVE, parse_unary(p, false), NULL, NULL);
    else
        n = parse_primary(p);
    if (!p->failed) n = jinja_parse_postfix(p, n);
    if (!p->failed && filters) n = jinja_parse_filters(p, n, false);
    p->depth--;
    return p->failed ? NULL : n;
}

struct operator
{
    const char *sign;
    enum jinja_op op;
};

// The operators of each level, from the loosest; below the last: unary signs.
static const struct operator levels[][5] = {
    { { "+", N_ADD }, { "-", N_SUBTRACT } },
    { { "~", N_CONCAT } },
    { { "*", N_MULTIPLY }, { "/", N_DIVIDE }, { "//", N_FLOOR }, { "%", N_MODULO } },
    { { "**", N_POWER } },
};

static struct jinja_node *parse_level(struct parser *p, int level)
{
    if (level == 4) return parse_unary(p, true);
    struct jinja_node *n = parse_level(p, level + 1);
    for (const struct operator* o = levels[level]; !p->failed && o->sign;) {
        if (!jinja_skip_sign(p, o->sign)) {
            o++;
            continue;
        }
        struct jinja_node *right = parse_level(p, level + 1);
        if (p->failed) break;
        n = node_of(p, o->op, n, right, NULL);
        o = levels[level];
    }
    return p->failed ? NULL : n;
}

static bool skip_compare(struct parser *p, enum compare *compare)
{
    static const char *const signs[] = { "==", "!=", "<", "<=", ">", ">=" };
    for (int i = 0; i < 6; i++)
        if (jinja_skip_sign(p, signs[i])) {
            *compare = (enum compare)i;
            return true;
        }
    const struct jinja_token *next = jinja_peek_next(p);
    const bool negated =
        jinja_at_name(p, "not") && next->kind == T_NAME && !strcmp(next->text, "in");
    if (negated) advance(p);
    *compare = negated ? IS_NOT_IN : IS_IN;
    return jinja_skip_name(p, "in");
}

// a < b < c: a, and the others in the list.
static struct jinja_node *parse_compare(struct parser *p)
{
    struct jinja_node *n = parse_level(p, 0), *all = NULL;
    enum compare compare;
    while (!p->failed && skip_compare(p, &compare)) {
        if (!all) all = node_of(p, N_COMPARE, n, NULL, NULL);
        enum compare *compares =
            jinja_grow(&p->t->room, all->compares, all->list.count, &all->capacity, sizeof compare);
        if (!compares) jinja_parse_fail(p, "%s", p->t->room.spent);
        if (!compares) break;
        all->compares = compares;
        all->compares[all->list.count] = compare;
        jinja_nodes_add(p, &all->list, parse_level(p, 0));
    }
    if (p->failed) return NULL;
    return all ? deepen(p, all) : n;
}

static struct jinja_node *parse_not(struct parser *p)
{
    if (!jinja_skip_name(p, "not")) return parse_compare(p);
    if (++p->depth > JINJA_DEPTH) jinja_parse_fail(p, "an expression is nested too deeply");
    struct jinja_node *n = p->failed ? NULL : parse_not(p);
    p->depth--;
    return p->failed ? NULL : node_of(p, N_NOT, n, NULL, NULL);
}

static struct jinja_node *parse_and(struct parser *p)
{
    struct jinja_node *n = parse_not(p);
    while (!p->failed && jinja_skip_name(p, "and")) {
        struct jinja_node *right = parse_not(p);
        if (!p->failed) n = node_of(p, N_AND, n, right, NULL);
    }
    return p->failed ? NULL : n;
}

struct jinja_node *jinja_parse_no_condition(struct parser *p)
{
    struct jinja_node *n = parse_and(p);
    while (!p->failed && jinja_skip_name(p, "or")) {
        struct jinja_node *right = parse_and(p);
        if (!p->failed) n = node_of(p, N_OR, n, right, NULL);
    }
    return p->failed ? NULL : n;
}

// a: what if b holds, b: the condition, c: otherwise (NULL: undefined).
struct jinja_node *jinja_parse_expression(struct parser *p)
{
    if (++p->depth > JINJA_DEPTH) jinja_parse_fail(p, "an expression is nested too deeply");
    struct jinja_node *n = p->failed ? NULL : jinja_parse_no_condition(p);
    while (!p->failed && jinja_skip_name(p, "if")) {
        struct jinja_node *condition = jinja_parse_no_condition(p), *otherwise = NULL;
        if (!p->failed && jinja_skip_name(p, "else")) otherwise = jinja_parse_expression(p);
        if (!p->failed) n = node_of(p, N_IF_ELSE, n, condition, otherwise);
    }
    p->depth--;
    return p->failed ? NULL : n;
}

static bool tuple_ends(struct parser *p, const char *end)
{
    const enum jinja_token_kind kind = jinja_peek(p)->kind;
    return kind == T_CLOSE || kind == T_PRINT_END || jinja_at_sign(p, ")") ||
           (end && jinja_at_name(p, end));
}

struct jinja_node *jinja_parse_tuple(struct parser *p, bool condition, const char *end)
{
    struct jinja_node *n = jinja_node_new(p, N_TUPLE);
    bool tuple = false;
    while (!p->failed && !tuple_ends(p, end)) {
        jinja_nodes_add(p, &n->list,
                        condition ? jinja_parse_expression(p) : jinja_parse_no_condition(p));
        if (!jinja_at_sign(p, ",")) break;
        advance(p);
        tuple = true;
    }
    if (!n->list.count)
        jinja_parse_fail(p, "an expression is missing before '%.40s'", token_shown(jinja_peek(p)));
    if (p->failed) return NULL;
    return tuple ? deepen(p, n) : n->list.list[0];
}

static bool assignable(const struct jinja_node *n, bool inside)
{
    if (n->op == N_NAME) return true;
    if (n->op == N_ATTRIBUTE) return !inside && n->a->op == N_NAME;
    if (n->op != N_TUPLE) return false;
    for (size_t i = 0; i < n->list.count; i++)
        if (!assignable(n->list.list[i], true) && n->list.list[i]->op != N_ATTRIBUTE) return false;
    return true;
}

struct jinja_node *jinja_parse_target(struct parser *p, const char *end)
{
    struct jinja_node *n = jinja_node_new(p, N_TUPLE);
    bool tuple = false;
    while (!p->failed && !tuple_ends(p, end) && !jinja_at_sign(p, "=")) {
        struct jinja_node *one = parse_primary(p);
        if (!p->failed && jinja_skip_sign(p, ".")) one = parse_attribute(p, one);
        jinja_nodes_add(p, &n->list, one);
        if (!jinja_at_sign(p, ",")) break;
        advance(p);
        tuple = true;
    }
    if (p->failed) return NULL;
    struct jinja_node *target = tuple || !n->list.count ? deepen(p, n) : n->list.list[0];
    if (!n->list.count || !assignable(target, false))
        jinja_parse_fail(p, "nothing can be assigned to that");
    return p->failed ? NULL : target;
}
