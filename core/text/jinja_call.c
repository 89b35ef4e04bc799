// core/text/jinja_call.c -- what an attribute is, and calls: arguments to parameters.
#include <string.h>

#include "core/text/jinja_parts.h"

// --- arguments ---------------------------------------------------------------------------------

struct jinja_value jinja_argument(const struct jinja_args *args, size_t i)
{
    return i < args->count ? args->at[i] : (struct jinja_value){ 0 };
}

bool jinja_argument_true(const struct jinja_args *args, size_t i, bool otherwise)
{
    const struct jinja_value v = jinja_argument(args, i);
    return jinja_is_given(v) ? jinja_value_truth(v) : otherwise;
}

int64_t jinja_argument_int(struct jinja_run *r, const struct jinja_args *args, size_t i,
                           int64_t otherwise, const char *who)
{
    const struct jinja_value v = jinja_argument(args, i);
    if (!jinja_is_given(v)) return otherwise;
    if (v.kind == JINJA_INT || v.kind == JINJA_BOOL) return jinja_value_as_int(v);
    jinja_fail(r, "%s needs an integer, not a %s", who, jinja_value_kind_name(v));
    return otherwise;
}

void jinja_eval_arguments(struct jinja_run *r, const struct jinja_node *call,
                          struct jinja_args *args)
{
    args->count = call->list.count;
    args->named_count = call->other.count;
    args->names = call->names;
    if (args->count) args->at = jinja_take(r->room, args->count * sizeof *args->at);
    if (args->named_count)
        args->named = jinja_take(r->room, args->named_count * sizeof *args->named);
    for (size_t i = 0; i < args->count && !r->failed; i++)
        args->at[i] = jinja_eval(r, call->list.list[i]);
    for (size_t i = 0; i < args->named_count && !r->failed; i++)
        args->named[i] = jinja_eval(r, call->other.list[i]);
}

// Number of the parameter `name` in a list of names, -1: none has it.
static int parameter_number(const char *parameters, const char *name)
{
    const size_t length = strlen(name);
    for (int i = 0; *parameters; i++) {
        const size_t n = strcspn(parameters, " ");
        if (n == length && !memcmp(parameters, name, n)) return i;
        parameters += n + (parameters[n] == ' ');
    }
    return -1;
}

static size_t parameter_count(const char *parameters)
{
    size_t n = *parameters != '\0';
    for (; *parameters; parameters++) n += *parameters == ' ';
    return n;
}

struct jinja_value jinja_call_callable(struct jinja_run *r, const struct jinja_callable *c,
                                       struct jinja_value self, const struct jinja_args *args)
{
    struct jinja_value at[PARAMETERS_MAX] = { { 0 } };
    struct jinja_args bound = { .at = at, .count = PARAMETERS_MAX };
    const char *parameters = c->parameters ? c->parameters : "";
    if (strchr(parameters, '*')) {
        if (args->count < (size_t)c->least)
            jinja_fail(r, "'%s' needs %d arguments", c->name, c->least);
        return r->failed ? jinja_value_none() : c->run(r, self, args);
    }
    if (args->count > parameter_count(parameters)) {
        jinja_fail(r, "'%s' takes at most %zu arguments, not %zu", c->name,
                   parameter_count(parameters), args->count);
        return jinja_value_none();
    }
    for (size_t i = 0; i < args->count; i++) at[i] = args->at[i];
    for (size_t i = 0; i < args->named_count; i++) {
        const int k = parameter_number(parameters, args->names[i]);
        if (k < 0 || jinja_is_given(at[k])) {
            jinja_fail(r, "'%s' %s '%.60s'", c->name, k < 0 ? "has no argument" : "is given twice",
                       args->names[i]);
            return jinja_value_none();
        }
        at[k] = args->named[i];
    }
    for (int i = 0; i < c->least; i++)
        if (!jinja_is_given(at[i])) jinja_fail(r, "'%s' needs more arguments", c->name);
    return r->failed ? jinja_value_none() : c->run(r, self, &bound);
}

static struct jinja_value call_loop(struct jinja_run *r, struct jinja_loop *loop,
                                    const struct jinja_args *args)
{
    struct builder b = { .r = r }, *out = r->out;
    struct jinja_scope *scope = r->scope;
    if (!loop->body || args->count != 1) {
        jinja_fail(r, "a loop that is called needs 'recursive' and one argument");
        return jinja_value_none();
    }
    if (++r->calls > JINJA_CALLS) jinja_fail(r, "a recursive loop goes too deep");
    r->out = &b;
    r->scope = loop->scope;
    jinja_run_for(r, loop->body, args->at[0], loop);
    r->scope = scope;
    r->out = out;
    r->calls--;
    return jinja_builder_value(&b);
}

static struct jinja_value call_joiner(struct jinja_cycler *j)
{
    const bool first = j->at++ == 0;
    static const struct jinja_string nothing = { .bytes = "" };
    return first ? jinja_value_string(&nothing) : j->separator;
}

struct jinja_value jinja_call_value(struct jinja_run *r, struct jinja_value f,
                                    const struct jinja_args *args)
{
    switch (f.kind) {
    case JINJA_FUNCTION: return jinja_call_callable(r, &f.function->call, jinja_value_none(), args);
    case JINJA_METHOD: return jinja_call_callable(r, f.method->call, f.method->self, args);
    case JINJA_MACRO: return jinja_call_macro(r, f.macro, args);
    case JINJA_LOOP: return call_loop(r, f.loop, args);
    case JINJA_JOINER: return call_joiner(f.cycler);
    case JINJA_UNDEFINED: jinja_unknown(r, "function or method", f.name); return f;
    default: jinja_fail(r, "a %s cannot be called", jinja_value_kind_name(f)); return f;
    }
}

// --- attributes --------------------------------------------------------------------------------

static struct jinja_value loop_attribute(const struct jinja_loop *l, const char *name)
{
    const int64_t i = (int64_t)l->index, n = (int64_t)l->items->count;
    if (!strcmp(name, "index")) return jinja_value_int(i + 1);
    if (!strcmp(name, "index0")) return jinja_value_int(i);
    if (!strcmp(name, "first")) return jinja_bool(i == 0);
    if (!strcmp(name, "last")) return jinja_bool(i + 1 == n);
    if (!strcmp(name, "length")) return jinja_value_int(n);
    if (!strcmp(name, "revindex")) return jinja_value_int(n - i);
    if (!strcmp(name, "revindex0")) return jinja_value_int(n - i - 1);
    if (!strcmp(name, "depth")) return jinja_value_int(l->depth + 1);
    if (!strcmp(name, "depth0")) return jinja_value_int(l->depth);
    if (!strcmp(name, "previtem"))
        return i ? l->items->items[i - 1] : jinja_value_undefined("loop.previtem");
    if (!strcmp(name, "nextitem"))
        return i + 1 < n ? l->items->items[i + 1] : jinja_value_undefined("loop.nextitem");
    return (struct jinja_value){ 0 };
}

static struct jinja_value cycler_attribute(const struct jinja_cycler *c, const char *name)
{
    if (!strcmp(name, "current")) return c->items->items[c->at % c->items->count];
    return (struct jinja_value){ 0 };
}

// What a value has of its own under that name; ABSENT: nothing.
static struct jinja_value own_attribute(struct jinja_value v, const char *name)
{
    if (v.kind == JINJA_LOOP) return loop_attribute(v.loop, name);
    if (v.kind == JINJA_CYCLER) return cycler_attribute(v.cycler, name);
    if (v.kind == JINJA_TUPLE && v.list->label) { // of groupby
        if (!strcmp(name, "grouper")) return v.list->items[0];
        if (!strcmp(name, "list")) return v.list->items[1];
    }
    return (struct jinja_value){ 0 };
}

struct jinja_value jinja_value_attribute(struct jinja_run *r, struct jinja_value v,
                                         const struct jinja_string *name)
{
    if (r->failed) return jinja_value_none();
    const char *word = name->bytes;
    if (v.kind == JINJA_UNDEFINED) {
        jinja_fail(r, "'%.100s' is undefined: it has no '%.100s'", v.name ? v.name : "the value",
                   word);
        return jinja_value_none();
    }
    const struct jinja_value own = own_attribute(v, word);
    if (jinja_is_given(own)) return own;
    const struct jinja_callable *c = jinja_method_of(v, word);
    if (c) {
        struct jinja_method *m = jinja_take(r->room, sizeof *m);
        *m = (struct jinja_method){ v, c };
        return (struct jinja_value){ .kind = JINJA_METHOD, .method = m };
    }
    const struct jinja_dict *d = jinja_dict_of(v);
    const int64_t i = d ? jinja_dict_find(r, d, jinja_value_string(name)) : -1;
    return i >= 0 ? d->values[i] : jinja_value_undefined(word);
}
