// core/text/jinja_statements.c -- tokens to statements, and the whole template.
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/text/jinja_parts.h"

static void expect_close(struct parser *p)
{
    if (jinja_peek(p)->kind == T_CLOSE)
        p->at++;
    else
        jinja_parse_fail(p, "expected '%%}', not '%.40s'",
                         jinja_peek(p)->text ? jinja_peek(p)->text : "the end of something else");
}

static struct jinja_node *parse_statement(struct parser *p);

// The body of a statement whose own tag has been read up to its "%}", and the name of the block
// that ends it, which is read whole when it is `end`.
static void parse_until(struct parser *p, struct jinja_nodes *body, const char *end)
{
    const char *const ends[] = { end, NULL };
    expect_close(p);
    jinja_parse_body(p, body, ends);
    if (!p->failed) p->at++;
}

// a: the condition; list: the body; other: the else body (an elif is an N_IF in it).
static struct jinja_node *parse_if(struct parser *p)
{
    static const char *const ends[] = { "elif", "else", "endif", NULL };
    struct jinja_node *first = NULL, *last = NULL;
    do {
        struct jinja_node *n = jinja_node_new(p, N_IF);
        n->a = jinja_parse_tuple(p, false, NULL);
        expect_close(p);
        jinja_parse_body(p, &n->list, ends);
        if (last)
            last->c = n;
        else
            first = n;
        last = n;
    } while (!p->failed && jinja_skip_name(p, "elif"));
    if (!p->failed && jinja_skip_name(p, "else"))
        parse_until(p, &last->other, "endif");
    else if (!p->failed)
        p->at++;
    return first;
}

// a: target, b: what to run over, c: condition; list: body, other: else body; flag: recursive.
static struct jinja_node *parse_for(struct parser *p)
{
    static const char *const ends[] = { "else", "endfor", NULL };
    struct jinja_node *n = jinja_node_new(p, N_FOR);
    n->a = jinja_parse_target(p, "in");
    if (!p->failed && !jinja_skip_name(p, "in")) jinja_parse_fail(p, "a loop needs 'in'");
    if (!p->failed) n->b = jinja_parse_tuple(p, false, "recursive");
    if (!p->failed && jinja_skip_name(p, "if")) n->c = jinja_parse_expression(p);
    n->flag = !p->failed && jinja_skip_name(p, "recursive");
    expect_close(p);
    p->loops++;
    jinja_parse_body(p, &n->list, ends);
    p->loops--;
    if (!p->failed && jinja_skip_name(p, "else"))
        parse_until(p, &n->other, "endfor");
    else if (!p->failed)
        p->at++;
    return n;
}

// a: target, b: the value. A block: list: its body, c: filters over an N_VALUE that the body's text
// takes the place of.
static struct jinja_node *parse_set(struct parser *p)
{
    struct jinja_node *n = jinja_node_new(p, N_SET);
    n->a = jinja_parse_target(p, NULL);
    if (!p->failed && jinja_skip_sign(p, "=")) {
        n->b = jinja_parse_tuple(p, true, NULL);
        return n;
    }
    n->op = N_SET_BLOCK;
    if (!p->failed && jinja_skip_sign(p, "|")) {
        n->b = jinja_node_new(p, N_VALUE);
        n->c = jinja_parse_filters(p, n->b, true);
    }
    parse_until(p, &n->list, "endset");
    return n;
}

// "(a, b=1)": names in list, defaults in other[i] for the last ones.
static void parse_parameters(struct parser *p, struct jinja_node *n)
{
    jinja_expect_sign(p, "(");
    while (!p->failed && !jinja_at_sign(p, ")")) {
        struct jinja_node *name = jinja_node_new(p, N_NAME);
        name->name = jinja_expect_name(p);
        jinja_nodes_add(p, &n->list, name);
        if (jinja_skip_sign(p, "="))
            jinja_nodes_add(p, &n->other, jinja_parse_expression(p));
        else if (n->other.count)
            jinja_parse_fail(p, "a parameter without a default follows one with a default");
        if (!jinja_at_sign(p, ")")) jinja_expect_sign(p, ",");
    }
    jinja_expect_sign(p, ")");
}

// name; list: parameters, other: defaults of the last of them; a: the body (N_BLOCK).
static struct jinja_node *parse_macro(struct parser *p)
{
    struct jinja_node *n = jinja_node_new(p, N_MACRO);
    n->name = jinja_expect_name(p);
    parse_parameters(p, n);
    n->a = jinja_node_new(p, N_BLOCK);
    parse_until(p, &n->a->list, "endmacro");
    return n;
}

// a: the call; b: the caller, as a macro without a name.
static struct jinja_node *parse_call_block(struct parser *p)
{
    struct jinja_node *n = jinja_node_new(p, N_CALL_BLOCK);
    n->b = jinja_node_new(p, N_MACRO);
    if (jinja_at_sign(p, "(")) parse_parameters(p, n->b);
    n->a = p->failed ? NULL : jinja_parse_expression(p);
    if (n->a && n->a->op != N_CALL) jinja_parse_fail(p, "a call block needs a call");
    n->b->a = jinja_node_new(p, N_BLOCK);
    parse_until(p, &n->b->a->list, "endcall");
    return n;
}

// list: body; b: an N_VALUE for its text; a: filters over it.
static struct jinja_node *parse_filter_block(struct parser *p)
{
    struct jinja_node *n = jinja_node_new(p, N_FILTER_BLOCK);
    n->b = jinja_node_new(p, N_VALUE);
    n->a = jinja_parse_filters(p, n->b, true);
    parse_until(p, &n->list, "endfilter");
    return n;
}

// other: values, names: of what; list: body.
static struct jinja_node *parse_with(struct parser *p)
{
    struct jinja_node *n = jinja_node_new(p, N_WITH);
    while (!p->failed && jinja_peek(p)->kind != T_CLOSE) {
        if (n->other.count) jinja_expect_sign(p, ",");
        const char *name = jinja_expect_name(p);
        jinja_expect_sign(p, "=");
        jinja_nodes_add(p, &n->other, p->failed ? NULL : jinja_parse_expression(p));
        jinja_note_name(p, n, name);
    }
    parse_until(p, &n->list, "endwith");
    return n;
}

// list: body. transformers marks the words of the assistant with it.
static struct jinja_node *parse_generation(struct parser *p)
{
    struct jinja_node *n = jinja_node_new(p, N_BLOCK);
    parse_until(p, &n->list, "endgeneration");
    return n;
}

static struct jinja_node *parse_jump(struct parser *p, enum jinja_op op)
{
    if (!p->loops)
        jinja_parse_fail(p, "'%s' stands outside a loop", op == N_BREAK ? "break" : "continue");
    return jinja_node_new(p, op);
}

static struct jinja_node *parse_break(struct parser *p)
{
    return parse_jump(p, N_BREAK);
}

static struct jinja_node *parse_continue(struct parser *p)
{
    return parse_jump(p, N_CONTINUE);
}

static struct jinja_node *parse_statement(struct parser *p)
{
    static const struct {
        const char *name;
        struct jinja_node *(*parse)(struct parser *p);
    } statements[] = {
        { "if", parse_if },           { "for", parse_for },
        { "set", parse_set },         { "macro", parse_macro },
        { "call", parse_call_block }, { "filter", parse_filter_block },
        { "with", parse_with },       { "generation", parse_generation },
        { "break", parse_break },     { "continue", parse_continue },
    };
    const char *name = jinja_expect_name(p);
    for (size_t i = 0; !p->failed && i < sizeof statements / sizeof *statements; i++)
        if (!strcmp(statements[i].name, name)) return statements[i].parse(p);
    jinja_parse_fail(p, "the statement '%.60s' is not known", name);
    return NULL;
}

static bool ends_here(struct parser *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (jinja_at_name(p, *ends)) return true;
    return false;
}

static struct jinja_node *parse_data(struct parser *p)
{
    struct jinja_node *n = jinja_node_new(p, N_DATA);
    n->value = jinja_text(&p->t->room, jinja_peek(p)->text, jinja_peek(p)->length, JINJA_TEMPLATE);
    p->at++;
    return n;
}

static struct jinja_node *parse_print(struct parser *p)
{
    struct jinja_node *n = jinja_node_new(p, N_PRINT);
    p->at++;
    n->a = jinja_parse_tuple(p, true, NULL);
    if (!p->failed && jinja_peek(p)->kind != T_PRINT_END)
        jinja_parse_fail(p, "expected '}}', not '%.40s'",
                         jinja_peek(p)->text ? jinja_peek(p)->text : "that");
    p->at++;
    return n;
}

void jinja_parse_body(struct parser *p, struct jinja_nodes *body, const char *const *ends)
{
    if (++p->depth > JINJA_DEPTH) jinja_parse_fail(p, "statements are nested too deeply");
    while (!p->failed && jinja_peek(p)->kind != T_END) {
        if (jinja_peek(p)->kind == T_DATA) {
            jinja_nodes_add(p, body, parse_data(p));
        } else if (jinja_peek(p)->kind == T_PRINT) {
            jinja_nodes_add(p, body, parse_print(p));
        } else {
            p->at++;
            if (ends_here(p, ends)) break;
            jinja_nodes_add(p, body, parse_statement(p));
            expect_close(p);
        }
    }
    if (!p->failed && ends && jinja_peek(p)->kind == T_END) {
        const char *const *last = ends;
        while (last[1]) last++;
        jinja_parse_fail(p, "'%s' is missing", *last);
    }
    p->depth--;
}

struct jinja *jinja_parse(const char *text, size_t length, const char *name, struct err *err)
{
    struct jinja *t = xcalloc(1, sizeof *t);
    struct parser p = { .t = t, .err = err };
    t->name = jinja_keep(&t->room, name, strlen(name));
    if (length > JINJA_TEMPLATE_SIZE) {
        err_set(err, "a template of %zu MB is too long", length >> 20);
        p.failed = true;
    } else {
        p.failed = text_check_part(text, length, 1, err) < 0 ||
                   jinja_lex(&t->room, text, length, &p.tokens, err) < 0;
    }
    if (!p.failed) jinja_parse_body(&p, &t->body, NULL);
    if (!p.failed) return t;
    err_in(err, "%s", name);
    jinja_free(t);
    return NULL;
}

void jinja_free(struct jinja *t)
{
    if (!t) return;
    jinja_room_release(&t->room);
    free(t);
}

bool jinja_mentions(const struct jinja *t, const char *name)
{
    for (size_t i = 0; i < t->word_count; i++)
        if (!strcmp(t->words[i], name)) return true;
    return false;
}
