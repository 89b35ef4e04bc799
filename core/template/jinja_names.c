// core/template/jinja_names.c -- finds the variables that a template takes: names that it reads
// before assigning them.
//
// Walks the tree in the order of execution, with the scopes of jinja_run.c. The body of a macro
// runs when the macro is called, so the walk visits it after the statements beside the macro. A
// name assigned in a branch counts as assigned after the branch.
#include <string.h>

#include "core/template/jinja_parts.h"

enum { STEPS = 4 * 1000000 }; // comparisons of names: a few milliseconds

struct walk {
    struct jinja_arena arena;
    const char **bound; // [count] names assigned so far, of all open scopes
    size_t count, capacity, steps;
    void (*take)(void *self, const char *name);
    void *self;
};

static void walk_body(struct walk *w, const struct jinja_nodes *body);

static void bind(struct walk *w, const char *name)
{
    const char **bound = jinja_grow(&w->arena, w->bound, w->count, &w->capacity, sizeof *w->bound);
    if (!bound) return;
    w->bound = bound;
    w->bound[w->count++] = name;
}

static void read_name(struct walk *w, const char *name)
{
    for (size_t i = w->count; i-- > 0 && w->steps < STEPS; w->steps++)
        if (!strcmp(w->bound[i], name)) return;
    if (w->steps++ < STEPS && !jinja_function(name)) w->take(w->self, name);
}

static void walk_node(struct walk *w, const struct jinja_node *n);

static void walk_nodes(struct walk *w, const struct jinja_nodes *nodes)
{
    for (size_t i = 0; i < nodes->count; i++) walk_node(w, nodes->list[i]);
}

// Binds the names of a target; the namespace of an attribute is read.
static void walk_target(struct walk *w, const struct jinja_node *target)
{
    for (size_t i = 0; i < target->list.count; i++) walk_target(w, target->list.list[i]);
    if (target->op == N_NAME) bind(w, target->name);
    if (target->op == N_ATTRIBUTE) walk_node(w, target->a);
}

static void walk_macro(struct walk *w, const struct jinja_node *n)
{
    const size_t outer = w->count;
    walk_nodes(w, &n->other);
    bind(w, "caller");
    for (size_t i = 0; i < n->list.count; i++) bind(w, n->list.list[i]->name);
    walk_body(w, &n->a->list);
    w->count = outer;
}

static void walk_for(struct walk *w, const struct jinja_node *n)
{
    const size_t outer = w->count;
    walk_node(w, n->b);
    bind(w, "loop");
    walk_target(w, n->a);
    walk_node(w, n->c);
    walk_body(w, &n->list);
    w->count = outer;
    walk_body(w, &n->other);
    w->count = outer;
}

static void walk_if(struct walk *w, const struct jinja_node *n)
{
    for (; n; n = n->c) {
        walk_node(w, n->a);
        walk_body(w, &n->list);
        walk_body(w, &n->other);
    }
}

// Names assigned in the block are not visible after it.
static void walk_block(struct walk *w, const struct jinja_nodes *body)
{
    const size_t outer = w->count;
    walk_body(w, body);
    w->count = outer;
}

static void walk_node(struct walk *w, const struct jinja_node *n)
{
    if (!n) return;
    switch (n->op) {
    case N_NAME: read_name(w, n->name); return;
    case N_FOR: walk_for(w, n); return;
    case N_IF: walk_if(w, n); return;
    case N_MACRO: walk_macro(w, n); return;
    case N_BLOCK: walk_body(w, &n->list); return;
    case N_SET:
        walk_node(w, n->b);
        walk_target(w, n->a);
        return;
    case N_SET_BLOCK:
        walk_block(w, &n->list);
        walk_target(w, n->a);
        return;
    case N_FILTER_BLOCK:
        walk_block(w, &n->list);
        walk_node(w, n->a);
        return;
    default: break;
    }
    // The callee of a call is a function or a macro, not a variable.
    if (n->op != N_CALL || n->a->op != N_NAME) walk_node(w, n->a);
    walk_node(w, n->b);
    walk_node(w, n->c);
    walk_nodes(w, &n->list);
    walk_nodes(w, &n->other);
}

static void walk_body(struct walk *w, const struct jinja_nodes *body)
{
    for (size_t i = 0; i < body->count; i++)
        if (body->list[i]->op == N_MACRO) bind(w, body->list[i]->name);
    for (size_t i = 0; i < body->count; i++)
        if (body->list[i]->op != N_MACRO) walk_node(w, body->list[i]);
    for (size_t i = 0; i < body->count; i++)
        if (body->list[i]->op == N_MACRO) walk_macro(w, body->list[i]);
}

void jinja_variables(const struct jinja *t, void (*take)(void *self, const char *name), void *self)
{
    struct walk w = { .take = take, .self = self };
    walk_body(&w, &t->body);
    jinja_arena_release(&w.arena);
}
