// core/template/jinja_eval.c -- expressions: operators with Python's arithmetic, indices, slices,
// attributes, calls.
#include <math.h>
#include <string.h>

#include "core/template/jinja_parts.h"

// --- arithmetic --------------------------------------------------------------------------------

static struct jinja_value wrong_kinds(struct jinja_run *r, const char *sign, struct jinja_value a,
                                      struct jinja_value b)
{
    const struct jinja_value *u = a.kind == JINJA_UNDEFINED ? &a : &b;
    if (u->kind == JINJA_UNDEFINED)
        jinja_fail(r, "'%.100s' is undefined", u->name ? u->name : "the value");
    else
        jinja_fail(r, "'%s' does not work for a %s and a %s", sign, jinja_value_kind_name(a),
                   jinja_value_kind_name(b));
    return jinja_value_none();
}

static struct jinja_value real_arithmetic(enum jinja_op op, double a, double b)
{
    const double rest = op == N_MODULO ? fmod(a, b) : 0;
    switch (op) {
    case N_ADD: return jinja_value_real(a + b);
    case N_SUBTRACT: return jinja_value_real(a - b);
    case N_MULTIPLY: return jinja_value_real(a * b);
    case N_DIVIDE: return jinja_value_real(a / b);
    case N_FLOOR: return jinja_value_real(floor(a / b));
    default: // N_MODULO: the result has the sign of b
        if (rest == 0) return jinja_value_real(copysign(0, b));
        return jinja_value_real((rest < 0) != (b < 0) ? rest + b : rest);
    }
}

static struct jinja_value arithmetic(struct jinja_run *r, enum jinja_op op, struct jinja_value x,
                                     struct jinja_value y)
{
    const bool divides = op == N_DIVIDE || op == N_FLOOR || op == N_MODULO;
    int64_t result = 0;
    bool overflow = false;
    if (divides && jinja_value_as_real(y) == 0) {
        jinja_fail(r, "division by zero");
        return jinja_value_none();
    }
    if (x.kind == JINJA_REAL || y.kind == JINJA_REAL || op == N_DIVIDE)
        return real_arithmetic(op, jinja_value_as_real(x), jinja_value_as_real(y));
    const int64_t a = jinja_value_as_int(x), b = jinja_value_as_int(y);
    if (op == N_ADD) {
        overflow = __builtin_add_overflow(a, b, &result);
    } else if (op == N_SUBTRACT) {
        overflow = __builtin_sub_overflow(a, b, &result);
    } else if (op == N_MULTIPLY) {
        overflow = __builtin_mul_overflow(a, b, &result);
    } else if (b == -1) { // INT64_MIN / -1 would overflow
        overflow = op == N_FLOOR && __builtin_sub_overflow(0, a, &result);
    } else {
        const int64_t quotient = a / b - (a % b && (a < 0) != (b < 0));
        result = op == N_FLOOR ? quotient : a - b * quotient;
    }
    if (overflow) jinja_fail(r, "a number is too large");
    return jinja_value_int(result);
}

// --- texts and lists ---------------------------------------------------------------------------

// Adding to Markup escapes the other text.
static struct jinja_value join_texts(struct jinja_run *r, const struct jinja_string *a,
                                     const struct jinja_string *b)
{
    struct builder out = { .r = r };
    const bool safe = a->safe || b->safe;
    jinja_put_all(&out, safe ? jinja_string_escape(r, a).text : a);
    jinja_put_all(&out, safe ? jinja_string_escape(r, b).text : b);
    const struct jinja_value joined = jinja_builder_value(&out);
    return safe ? jinja_markup(r->arena, joined.text) : joined;
}

static struct jinja_value repeat(struct jinja_run *r, struct jinja_value text,
                                 struct jinja_value times)
{
    struct builder out = { .r = r };
    const int64_t n = text.text->length ? jinja_value_as_int(times) : 0;
    for (int64_t i = 0; i < n && !r->failed; i++) jinja_put_all(&out, text.text);
    return jinja_builder_value(&out);
}

struct jinja_value jinja_eval_binary(struct jinja_run *r, enum jinja_op op, struct jinja_value a,
                                     struct jinja_value b)
{
    static const char *const signs[] = { "+", "-", "*", "/", "//", "%" };
    if (r->failed) return jinja_value_none();
    if (jinja_is_number(a) && jinja_is_number(b)) return arithmetic(r, op, a, b);
    if (op == N_ADD && jinja_is_text(a) && jinja_is_text(b)) return join_texts(r, a.text, b.text);
    if (op == N_ADD && a.kind == b.kind && (a.kind == JINJA_LIST || a.kind == JINJA_TUPLE)) {
        struct jinja_list *list = jinja_list_new(r->arena);
        jinja_list_extend(r, list, a.list->items, a.list->count);
        jinja_list_extend(r, list, b.list->items, b.list->count);
        return jinja_list_value(a.kind, list);
    }
    if (op == N_MULTIPLY && jinja_is_text(a) && b.kind == JINJA_INT) return repeat(r, a, b);
    if (op == N_MULTIPLY && jinja_is_text(b) && a.kind == JINJA_INT) return repeat(r, b, a);
    return wrong_kinds(r, signs[op - N_ADD], a, b);
}

bool jinja_holds(struct jinja_run *r, enum compare how, struct jinja_value a, struct jinja_value b)
{
    switch (how) {
    case IS_EQUAL: return jinja_value_equal(r, a, b);
    case IS_UNEQUAL: return !jinja_value_equal(r, a, b);
    case IS_IN: return jinja_value_contains(r, b, a);
    case IS_NOT_IN: return !jinja_value_contains(r, b, a);
    default: break;
    }
    const bool nan =
        (a.kind == JINJA_REAL && isnan(a.real)) || (b.kind == JINJA_REAL && isnan(b.real));
    const int order = jinja_value_order(r, a, b);
    if (nan) return false;
    return how == IS_LESS      ? order < 0
           : how == IS_AT_MOST ? order <= 0
           : how == IS_GREATER ? order > 0
                               : order >= 0;
}

// --- attributes and indices ----------------------------------------------------------------------

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
    if (!strcmp(name, "previtem"))
        return i ? l->items->items[i - 1] : jinja_value_undefined("loop.previtem");
    if (!strcmp(name, "nextitem"))
        return i + 1 < n ? l->items->items[i + 1] : jinja_value_undefined("loop.nextitem");
    return (struct jinja_value){ 0 };
}

static struct jinja_value attribute(struct jinja_run *r, struct jinja_value v,
                                    const struct jinja_string *name)
{
    if (r->failed) return jinja_value_none();
    const char *word = name->bytes;
    if (v.kind == JINJA_UNDEFINED) {
        jinja_fail(r, "'%.100s' is undefined: it has no '%.100s'", v.name ? v.name : "the value",
                   word);
        return jinja_value_none();
    }
    const struct jinja_value own =
        v.kind == JINJA_LOOP ? loop_attribute(v.loop, word) : (struct jinja_value){ 0 };
    if (jinja_is_given(own)) return own;
    const struct jinja_callable *c = jinja_method_of(v, word);
    if (c) {
        struct jinja_method *m = jinja_take(r->arena, sizeof *m);
        *m = (struct jinja_method){ v, c };
        return (struct jinja_value){ .kind = JINJA_METHOD, .method = m };
    }
    const struct jinja_dict *d = jinja_dict_of(v);
    const int64_t i = d ? jinja_dict_find(r, d, jinja_value_string(name)) : -1;
    return i >= 0 ? d->values[i] : jinja_value_undefined(word);
}

struct jinja_value jinja_value_index(struct jinja_run *r, struct jinja_value v,
                                     struct jinja_value index)
{
    const bool number = index.kind == JINJA_INT || index.kind == JINJA_BOOL;
    if (r->failed) return jinja_value_none();
    if (v.kind == JINJA_UNDEFINED) {
        jinja_fail(r, "'%.100s' is undefined", v.name ? v.name : "the value");
        return jinja_value_none();
    }
    if (v.kind == JINJA_DICT) {
        const int64_t i = jinja_dict_find(r, v.dict, index);
        if (i >= 0) return v.dict->values[i];
    } else if ((jinja_is_text(v) || jinja_is_sequence(v)) && number) {
        const int64_t count = jinja_value_length(r, v);
        int64_t i = jinja_value_as_int(index);
        if (i < 0) i += count;
        if (i < 0 || i >= count) return jinja_value_undefined("an item");
        if (!jinja_is_text(v)) return v.list->items[i];
        const size_t at = jinja_string_at(v.text, i);
        return jinja_string_piece(r, v.text, at,
                                  at + jinja_char_length(v.text->bytes + at, v.text->length - at));
    }
    return jinja_is_text(index) && !r->failed ? attribute(r, v, index.text)
                                              : jinja_value_undefined("an item");
}

// Computes start, stop and step of a slice of `count` items, clipped as in Python. False on
// failure.
static bool slice_bounds(struct jinja_run *r, const struct jinja_node *n, int64_t count,
                         int64_t bounds[3])
{
    struct jinja_node *const parts[] = { n->a, n->b, n->c };
    struct jinja_value given[3];
    for (int i = 0; i < 3; i++) {
        given[i] = parts[i] ? jinja_eval(r, parts[i]) : jinja_value_none();
        if (given[i].kind != JINJA_NONE && given[i].kind != JINJA_INT &&
            given[i].kind != JINJA_BOOL)
            jinja_fail(r, "a slice needs integers, not a %s", jinja_value_kind_name(given[i]));
        if (r->failed) return false;
    }
    const int64_t step = given[2].kind == JINJA_NONE ? 1 : jinja_value_as_int(given[2]);
    if (!step) jinja_fail(r, "the step of a slice is 0");
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? count - 1 : count;
    const int64_t otherwise[] = { step < 0 ? high : low, step < 0 ? low : high };
    for (int i = 0; i < 2; i++) {
        int64_t at = otherwise[i];
        if (given[i].kind != JINJA_NONE) {
            at = jinja_value_as_int(given[i]);
            if (at < 0) at = at < -count ? low : at + count;
            if (at > high) at = high;
            if (at < low) at = low;
        }
        bounds[i] = at;
    }
    bounds[2] = step;
    return !r->failed;
}

static struct jinja_value eval_slice(struct jinja_run *r, struct jinja_value v,
                                     const struct jinja_node *n)
{
    int64_t bounds[3];
    if (v.kind == JINJA_UNDEFINED) {
        jinja_fail(r, "'%.100s' is undefined", v.name ? v.name : "the value");
        return v;
    }
    if (!jinja_is_text(v) && !jinja_is_sequence(v))
        jinja_fail(r, "a %s cannot be sliced", jinja_value_kind_name(v));
    if (r->failed) return v;
    if (!slice_bounds(r, n, jinja_value_length(r, v), bounds)) return jinja_value_none();
    if (jinja_is_text(v)) {
        if (bounds[2] != 1) jinja_fail(r, "slicing a text with a step is not supported");
        const size_t start = jinja_string_at(v.text, bounds[0]);
        return jinja_string_piece(
            r, v.text, start, bounds[1] > bounds[0] ? jinja_string_at(v.text, bounds[1]) : start);
    }
    struct jinja_list *list = jinja_list_new(r->arena);
    for (int64_t i = bounds[0];
         jinja_step(r, 1) && (bounds[2] > 0 ? i < bounds[1] : i > bounds[1]);) {
        jinja_list_push(r->arena, list, v.list->items[i]);
        if (__builtin_add_overflow(i, bounds[2], &i)) break;
    }
    return jinja_list_value(v.kind == JINJA_RANGE ? JINJA_LIST : v.kind, list);
}

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

static void eval_arguments(struct jinja_run *r, const struct jinja_node *call,
                           struct jinja_args *args)
{
    args->count = call->list.count;
    args->named_count = call->other.count;
    if (args->count) args->at = jinja_take(r->arena, args->count * sizeof *args->at);
    if (args->named_count) {
        args->named = jinja_take(r->arena, args->named_count * sizeof *args->named);
        args->names = jinja_take(r->arena, args->named_count * sizeof *args->names);
    }
    for (size_t i = 0; i < args->count && !r->failed; i++)
        args->at[i] = jinja_eval(r, call->list.list[i]);
    for (size_t i = 0; i < args->named_count && !r->failed; i++) {
        args->names[i] = call->other.list[i]->name;
        args->named[i] = jinja_eval(r, call->other.list[i]->a);
    }
    r->line = call->line;
}

const struct jinja_callable *jinja_callable_find(const struct jinja_callable *table,
                                                 const char *name)
{
    for (; table && table->name; table++)
        if (!strcmp(table->name, name)) return table;
    return NULL;
}

// Index of the parameter `name` in a list of names, -1 if absent.
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
    struct jinja_args bound = { .at = at, .count = PARAMETERS_MAX, .call = c };
    const char *parameters = c->parameters;
    if (strchr(parameters, '*')) {
        if (args->count < (size_t)c->least)
            jinja_fail(r, "'%s' needs %d arguments", c->name, c->least);
        bound = *args;
        bound.call = c;
        return r->failed ? jinja_value_none() : c->run(r, self, &bound);
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
            jinja_fail(r, "'%s' %s '%.60s'", c->name,
                       k < 0 ? "has no argument" : "has two values for", args->names[i]);
            return jinja_value_none();
        }
        at[k] = args->named[i];
    }
    for (int i = 0; i < c->least; i++)
        if (!jinja_is_given(at[i])) jinja_fail(r, "'%s' needs more arguments", c->name);
    return r->failed ? jinja_value_none() : c->run(r, self, &bound);
}

static struct jinja_value call_value(struct jinja_run *r, struct jinja_value f,
                                     const struct jinja_args *args)
{
    switch (f.kind) {
    case JINJA_FUNCTION: return jinja_call_callable(r, f.function, jinja_value_none(), args);
    case JINJA_METHOD: return jinja_call_callable(r, f.method->call, f.method->self, args);
    case JINJA_MACRO: return jinja_call_macro(r, f.macro, args);
    case JINJA_UNDEFINED: jinja_unknown(r, "function or method", f.name); return f;
    default: jinja_fail(r, "a %s cannot be called", jinja_value_kind_name(f)); return f;
    }
}

// --- the tree ----------------------------------------------------------------------------------

static struct jinja_value eval_op(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_args args = { 0 };
    struct builder out = { .r = r };
    struct jinja_value a, b;
    switch (n->op) {
    case N_VALUE: return jinja_is_given(n->value) ? n->value : r->collected;
    case N_NAME: {
        if (jinja_scope_find(r, n->name, &a)) return a;
        const struct jinja_callable *f = jinja_function(n->name);
        return f ? (struct jinja_value){ .kind = JINJA_FUNCTION, .function = f }
                 : jinja_value_undefined(n->name);
    }
    case N_LIST:
    case N_TUPLE: {
        struct jinja_list *list = jinja_list_new(r->arena);
        for (size_t i = 0; i < n->list.count && !r->failed; i++)
            jinja_list_push(r->arena, list, jinja_eval(r, n->list.list[i]));
        return jinja_list_value(n->op == N_LIST ? JINJA_LIST : JINJA_TUPLE, list);
    }
    case N_DICT:
        a = jinja_dict(r->arena);
        for (size_t i = 0; i < n->list.count && !r->failed; i++) {
            b = jinja_eval(r, n->list.list[i]);
            jinja_dict_put(r, a.dict, b, jinja_eval(r, n->other.list[i]));
        }
        return a;
    case N_ATTRIBUTE: return attribute(r, jinja_eval(r, n->a), n->value.text);
    case N_INDEX:
        a = jinja_eval(r, n->a);
        if (n->b->op == N_SLICE) return eval_slice(r, a, n->b);
        return jinja_value_index(r, a, jinja_eval(r, n->b));
    case N_CALL:
        a = jinja_eval(r, n->a);
        eval_arguments(r, n, &args);
        if (n->b && !r->failed) r->caller = jinja_macro_of(r, n->b);
        if (!r->failed) a = call_value(r, a, &args);
        r->caller = (struct jinja_value){ 0 };
        return a;
    case N_FILTER:
    case N_TEST:
        a = jinja_eval(r, n->a);
        eval_arguments(r, n, &args);
        if (n->callable) return r->failed ? a : jinja_call_callable(r, n->callable, a, &args);
        jinja_unknown(r, n->op == N_FILTER ? "filter" : "test", n->name);
        return a;
    case N_AND:
    case N_OR:
        a = jinja_eval(r, n->a);
        return !r->failed && jinja_value_truth(a) == (n->op == N_AND) ? jinja_eval(r, n->b) : a;
    case N_NOT: return jinja_bool(!jinja_value_truth(jinja_eval(r, n->a)));
    case N_NEGATIVE:
        a = jinja_eval(r, n->a);
        if (a.kind == JINJA_REAL) return jinja_value_real(-a.real);
        if (!jinja_is_number(a)) return wrong_kinds(r, "-", a, a);
        return arithmetic(r, N_SUBTRACT, jinja_value_int(0), a);
    case N_COMPARE:
        a = jinja_eval(r, n->a);
        b = jinja_eval(r, n->b);
        return jinja_bool(!r->failed && jinja_holds(r, n->compare, a, b));
    case N_CONCAT:
        a = jinja_eval(r, n->a);
        b = jinja_eval(r, n->b);
        jinja_put_show(&out, a);
        jinja_put_show(&out, b);
        return jinja_builder_value(&out);
    case N_IF_ELSE:
        a = jinja_eval(r, n->b);
        if (r->failed || jinja_value_truth(a)) return r->failed ? a : jinja_eval(r, n->a);
        return n->c ? jinja_eval(r, n->c) : jinja_value_undefined("an if without else");
    default: a = jinja_eval(r, n->a); return jinja_eval_binary(r, n->op, a, jinja_eval(r, n->b));
    }
}

struct jinja_value jinja_eval(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value v = jinja_value_none();
    r->line = n->line;
    if (jinja_step(r, 1) && jinja_enter(r)) {
        v = eval_op(r, n);
        r->depth--;
    }
    return r->failed ? jinja_value_none() : v;
}
