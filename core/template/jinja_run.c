// core/template/jinja_run.c -- statements: output, conditions, loops, assignments, macros.
//
// The template, each iteration of a loop, its else body, each call of a macro and each set or
// filter block has a scope of names. An assignment to a name is visible only within its scope.
#include <stdlib.h>
#include <string.h>

#include "core/template/jinja_parts.h"

static void run_body(struct jinja_run *r, const struct jinja_nodes *body);

// --- scopes ------------------------------------------------------------------------------------

static struct jinja_scope *scope_push(struct jinja_run *r, struct jinja_scope *outer)
{
    struct jinja_scope *s = jinja_take(r->arena, sizeof *s);
    s->outer = outer;
    r->scope = s;
    return s;
}

bool jinja_scope_find(struct jinja_run *r, const char *name, struct jinja_value *v)
{
    for (const struct jinja_scope *s = r->scope; s; s = s->outer) {
        for (size_t i = s->count; i-- > 0 && jinja_step(r, 1);) {
            if (strcmp(s->bindings[i].name, name) != 0) continue;
            *v = s->bindings[i].value;
            return true;
        }
    }
    return false;
}

static void scope_set(struct jinja_run *r, const char *name, struct jinja_value v)
{
    struct jinja_scope *s = r->scope;
    for (size_t i = 0; i < s->count && jinja_step(r, 1); i++)
        if (!strcmp(s->bindings[i].name, name)) {
            s->bindings[i].value = v;
            return;
        }
    void *bindings = jinja_grow(r->arena, s->bindings, s->count, &s->capacity, sizeof *s->bindings);
    if (!bindings || r->failed) return;
    s->bindings = bindings;
    s->bindings[s->count++] = (struct jinja_binding){ name, v };
}

static void assign(struct jinja_run *r, const struct jinja_node *target, struct jinja_value v)
{
    if (r->failed) return;
    if (target->op == N_NAME) {
        scope_set(r, target->name, v);
        return;
    }
    if (target->op == N_ATTRIBUTE) {
        const struct jinja_value ns = jinja_eval(r, target->a);
        if (ns.kind != JINJA_NAMESPACE)
            jinja_fail(r, "'.%.60s' can only be set on a namespace", target->name);
        if (!r->failed) jinja_dict_put(r, ns.dict, target->value, v);
        return;
    }
    const struct jinja_list *items = jinja_value_items(r, v);
    if (!items) return;
    if (items->count != target->list.count) {
        jinja_fail(r, "%zu values cannot be assigned to %zu names", items->count,
                   target->list.count);
        return;
    }
    for (size_t i = 0; i < items->count; i++) assign(r, target->list.list[i], items->items[i]);
}

// --- output ------------------------------------------------------------------------------------

// Renders `body` to a value.
static struct jinja_value collect(struct jinja_run *r, const struct jinja_nodes *body)
{
    struct builder b = { .r = r }, *out = r->out;
    struct jinja_scope *scope = r->scope;
    r->out = &b;
    scope_push(r, scope);
    run_body(r, body);
    r->scope = scope;
    r->out = out;
    return jinja_builder_value(&b);
}

// --- macros ------------------------------------------------------------------------------------

struct jinja_value jinja_macro_of(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_macro *m = jinja_take(r->arena, sizeof *m);
    *m = (struct jinja_macro){ n, r->scope };
    for (struct jinja_scope *s = r->scope; s && !s->captured && jinja_step(r, 1); s = s->outer)
        s->captured = true;
    return (struct jinja_value){ .kind = JINJA_MACRO, .macro = m };
}

static struct jinja_value named(struct jinja_run *r, const struct jinja_args *args,
                                const char *name)
{
    for (size_t i = 0; i < args->named_count && jinja_step(r, 1); i++)
        if (!strcmp(args->named[i].name, name)) return args->named[i].value;
    return (struct jinja_value){ 0 };
}

static void bind_parameters(struct jinja_run *r, const struct jinja_node *n,
                            const struct jinja_args *args)
{
    const size_t first_default = n->list.count - n->other.count;
    if (args->count > n->list.count)
        jinja_fail(r, "the macro '%.60s' takes %zu arguments, not %zu", n->name, n->list.count,
                   args->count);
    for (size_t i = 0; i < n->list.count && !r->failed; i++) {
        const char *name = n->list.list[i]->name;
        const struct jinja_value by_name = named(r, args, name);
        struct jinja_value v = i < args->count ? args->at[i] : by_name;
        if (i < args->count && jinja_is_given(by_name))
            jinja_fail(r, "the macro '%.60s' has two values for '%.60s'", n->name, name);
        if (!jinja_is_given(v))
            v = i >= first_default ? jinja_eval(r, n->other.list[i - first_default])
                                   : jinja_value_undefined(name);
        scope_set(r, name, v);
    }
    for (size_t i = 0, k; i < args->named_count && !r->failed; i++) {
        for (k = 0; k < n->list.count && jinja_step(r, 1); k++)
            if (!strcmp(n->list.list[k]->name, args->named[i].name)) break;
        if (k == n->list.count)
            jinja_fail(r, "the macro '%.60s' has no parameter '%.60s'", n->name,
                       args->named[i].name);
    }
}

struct jinja_value jinja_call_macro(struct jinja_run *r, struct jinja_macro *m,
                                    const struct jinja_args *args)
{
    struct jinja_scope *scope = r->scope;
    struct jinja_value text = jinja_value_none();
    const struct jinja_value caller = r->caller;
    r->caller = (struct jinja_value){ 0 };
    if (++r->calls > JINJA_CALLS) jinja_fail(r, "macros call each other too deeply");
    scope_push(r, m->scope);
    bind_parameters(r, m->node, args);
    if (jinja_is_given(caller)) scope_set(r, "caller", caller);
    if (!r->failed) text = collect(r, &m->node->a->list);
    r->breaking = false;
    r->scope = scope;
    r->calls--;
    return text;
}

// --- loops -------------------------------------------------------------------------------------

static void run_for(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_scope *scope = r->scope, *turn = NULL;
    const struct jinja_value over = jinja_eval(r, n->b);
    struct jinja_list *items = r->failed ? NULL : jinja_value_items(r, over);
    if (!items || !jinja_enter(r)) return;
    if (n->c) { // keeps the items that meet the condition
        struct jinja_list *kept = jinja_list_new(r->arena);
        for (size_t i = 0; i < items->count && !r->failed; i++) {
            scope_push(r, scope);
            assign(r, n->a, items->items[i]);
            if (!r->failed && jinja_value_truth(jinja_eval(r, n->c)))
                jinja_list_push(r->arena, kept, items->items[i]);
        }
        items = kept;
    }
    struct jinja_loop *loop = jinja_take(r->arena, sizeof *loop);
    bool completed = false;
    loop->items = items;
    for (; loop->index < items->count && !r->failed && !r->breaking; loop->index++) {
        if (!turn || turn->captured) turn = scope_push(r, scope);
        r->scope = turn;
        turn->count = 0;
        scope_set(r, "loop", (struct jinja_value){ .kind = JINJA_LOOP, .loop = loop });
        assign(r, n->a, items->items[loop->index]);
        run_body(r, &n->list);
        completed |= !r->breaking;
    }
    r->breaking = false;
    // As in Jinja2, the else body runs unless an iteration reached its end, so it also runs if the
    // first iteration breaks.
    if (!completed && !r->failed) {
        scope_push(r, scope);
        run_body(r, &n->other);
    }
    r->scope = scope;
    r->depth--;
}

// --- statements --------------------------------------------------------------------------------

static void run_if(struct jinja_run *r, const struct jinja_node *n)
{
    for (; n && !r->failed; n = n->c) {
        const bool yes = jinja_value_truth(jinja_eval(r, n->a));
        if (r->failed) return;
        if (yes || !n->c) {
            run_body(r, yes ? &n->list : &n->other);
            return;
        }
    }
}

static void run_statement(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value v;
    r->line = n->line;
    switch (n->op) {
    case N_DATA: jinja_put_all(r->out, n->value.text); break;
    case N_PRINT: jinja_put_show(r->out, jinja_eval(r, n->a)); break;
    case N_IF: run_if(r, n); break;
    case N_FOR: run_for(r, n); break;
    case N_SET: assign(r, n->a, jinja_eval(r, n->b)); break;
    case N_SET_BLOCK:
        v = collect(r, &n->list);
        assign(r, n->a, v);
        break;
    case N_FILTER_BLOCK:
        r->collected = collect(r, &n->list);
        if (!r->failed) jinja_put_show(r->out, jinja_eval(r, n->a));
        break;
    case N_MACRO: scope_set(r, n->name, jinja_macro_of(r, n)); break;
    case N_BREAK: r->breaking = true; break;
    default: run_body(r, &n->list); // N_BLOCK
    }
}

static void run_body(struct jinja_run *r, const struct jinja_nodes *body)
{
    if (!jinja_enter(r)) return;
    for (size_t i = 0; i < body->count && jinja_step(r, 1); i++) {
        run_statement(r, body->list[i]);
        if (r->breaking) break;
    }
    r->depth--;
}

int jinja_render(const struct jinja *t, struct jinja_arena *arena, struct jinja_value variables,
                 time_t now, struct jinja_output *output, struct err *err)
{
    struct jinja_run r = { .t = t, .arena = arena, .err = err, .line = 1, .now = now };
    struct builder b = { .r = &r, .output = true };
    *output = (struct jinja_output){ 0 };
    r.out = &b;
    arena->used += t->arena.used;
    arena->steps += t->arena.steps;
    scope_push(&r, NULL);
    for (size_t i = 0; i < variables.dict->count; i++)
        scope_set(&r, variables.dict->entries[i].key.text->bytes, variables.dict->entries[i].value);
    run_body(&r, &t->body);
    jinja_afford(arena, b.length + b.span_count * sizeof *b.spans);
    jinja_step(&r, 0); // fails if the budget is spent: spans are then missing
    output->unknown = r.unknown;
    if (r.failed) return err_in(err, "%s", t->name);
    buf_add(&output->text, b.bytes ? b.bytes : "", b.length);
    output->spans = xreallocarray(NULL, b.span_count + 1, sizeof *output->spans);
    output->span_count = b.span_count;
    if (b.span_count) memcpy(output->spans, b.spans, b.span_count * sizeof *b.spans);
    return 0;
}

void jinja_output_release(struct jinja_output *output)
{
    buf_release(&output->text);
    free(output->spans);
    *output = (struct jinja_output){ 0 };
}
