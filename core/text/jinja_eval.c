// core/text/jinja_eval.c -- expressions: operators with Python's arithmetic, indices, slices.
#include <math.h>
#include <string.h>

#include "core/text/jinja_parts.h"

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

static struct jinja_value too_large(struct jinja_run *r)
{
    jinja_fail(r, "a number is too large");
    return jinja_value_none();
}

static int64_t floor_divide(int64_t a, int64_t b)
{
    const int64_t q = a / b;
    return q - (a % b && (a < 0) != (b < 0));
}

static struct jinja_value power(struct jinja_run *r, int64_t base, int64_t exponent)
{
    int64_t result = 1;
    if (exponent < 0) return jinja_value_real(pow((double)base, (double)exponent));
    if (base == 0 || base == 1) return jinja_value_int(exponent ? base : 1);
    if (base == -1) return jinja_value_int(exponent % 2 ? -1 : 1);
    while (exponent-- > 0)
        if (__builtin_mul_overflow(result, base, &result)) return too_large(r);
    return jinja_value_int(result);
}

static struct jinja_value integers(struct jinja_run *r, enum jinja_op op, int64_t a, int64_t b)
{
    int64_t result = 0;
    const bool divides = op == N_DIVIDE || op == N_FLOOR || op == N_MODULO;
    if (divides && b == 0) {
        jinja_fail(r, "division by zero");
        return jinja_value_none();
    }
    if (divides && op != N_DIVIDE && a == INT64_MIN && b == -1)
        return op == N_MODULO ? jinja_value_int(0) : too_large(r);
    switch (op) {
    case N_ADD:
        return __builtin_add_overflow(a, b, &result) ? too_large(r) : jinja_value_int(result);
    case N_SUBTRACT:
        return __builtin_sub_overflow(a, b, &result) ? too_large(r) : jinja_value_int(result);
    case N_MULTIPLY:
        return __builtin_mul_overflow(a, b, &result) ? too_large(r) : jinja_value_int(result);
    case N_DIVIDE: return jinja_value_real((double)a / (double)b);
    case N_FLOOR: return jinja_value_int(floor_divide(a, b));
    case N_MODULO: return jinja_value_int(a - b * floor_divide(a, b));
    default: return power(r, a, b);
    }
}

static double real_modulo(double a, double b)
{
    const double m = fmod(a, b);
    if (m == 0) return copysign(0, b);
    return (m < 0) != (b < 0) ? m + b : m;
}

static struct jinja_value reals(struct jinja_run *r, enum jinja_op op, double a, double b)
{
    if (b == 0 && (op == N_DIVIDE || op == N_FLOOR || op == N_MODULO)) {
        jinja_fail(r, "division by zero");
        return jinja_value_none();
    }
    switch (op) {
    case N_ADD: return jinja_value_real(a + b);
    case N_SUBTRACT: return jinja_value_real(a - b);
    case N_MULTIPLY: return jinja_value_real(a * b);
    case N_DIVIDE: return jinja_value_real(a / b);
    case N_FLOOR: return jinja_value_real(floor(a / b));
    case N_MODULO: return jinja_value_real(real_modulo(a, b));
    default: return jinja_value_real(pow(a, b));
    }
}

// --- texts and lists ---------------------------------------------------------------------------

// Markup escapes what is added to it.
static struct jinja_value join_texts(struct jinja_run *r, const struct jinja_string *a,
                                     const struct jinja_string *b)
{
    struct builder out = { .r = r };
    const bool safe = a->safe || b->safe;
    jinja_put_all(&out, safe ? jinja_string_escape(r, a).text : a);
    jinja_put_all(&out, safe ? jinja_string_escape(r, b).text : b);
    const struct jinja_value joined = jinja_builder_value(&out);
    if (!safe) return joined;
    struct jinja_string *markup = jinja_take(r->room, sizeof *markup);
    *markup = *joined.text;
    markup->safe = true;
    return jinja_value_string(markup);
}

static struct jinja_value join_lists(struct jinja_run *r, struct jinja_value a,
                                     struct jinja_value b)
{
    struct jinja_list *list = jinja_list_new(r->room);
    for (size_t i = 0; i < a.list->count && jinja_step(r, 1); i++)
        jinja_list_push(r->room, list, a.list->items[i]);
    for (size_t i = 0; i < b.list->count && jinja_step(r, 1); i++)
        jinja_list_push(r->room, list, b.list->items[i]);
    return jinja_list_value(a.kind, list);
}

static struct jinja_value repeat(struct jinja_run *r, struct jinja_value a, int64_t times)
{
    struct builder out = { .r = r };
    if (jinja_is_text(a)) {
        for (int64_t i = 0; a.text->length && i < times && !r->failed; i++)
            jinja_put_all(&out, a.text);
        return jinja_builder_value(&out);
    }
    struct jinja_list *list = jinja_list_new(r->room);
    for (int64_t i = 0; a.list->count && i < times && !r->failed; i++)
        for (size_t k = 0; k < a.list->count && jinja_step(r, 1); k++)
            jinja_list_push(r->room, list, a.list->items[k]);
    return jinja_list_value(a.kind, list);
}

static bool repeats(struct jinja_value a, struct jinja_value b)
{
    const bool many = jinja_is_text(a) || a.kind == JINJA_LIST || a.kind == JINJA_TUPLE;
    return many && (b.kind == JINJA_INT || b.kind == JINJA_BOOL);
}

struct jinja_value jinja_eval_binary(struct jinja_run *r, enum jinja_op op, struct jinja_value a,
                                     struct jinja_value b)
{
    static const char *const signs[] = { "+", "-", "*", "/", "//", "%", "**" };
    if (r->failed) return jinja_value_none();
    if (jinja_is_number(a) && jinja_is_number(b)) {
        if (a.kind == JINJA_REAL || b.kind == JINJA_REAL)
            return reals(r, op, jinja_value_as_real(a), jinja_value_as_real(b));
        return integers(r, op, jinja_value_as_int(a), jinja_value_as_int(b));
    }
    if (op == N_ADD && jinja_is_text(a) && jinja_is_text(b)) return join_texts(r, a.text, b.text);
    if (op == N_ADD && a.kind == b.kind && (a.kind == JINJA_LIST || a.kind == JINJA_TUPLE))
        return join_lists(r, a, b);
    if (op == N_MULTIPLY && repeats(a, b)) return repeat(r, a, jinja_value_as_int(b));
    if (op == N_MULTIPLY && repeats(b, a)) return repeat(r, b, jinja_value_as_int(a));
    if (op == N_MODULO && jinja_is_text(a)) return jinja_format_printf(r, a.text, b);
    return wrong_kinds(r, signs[op - N_ADD], a, b);
}

static struct jinja_value eval_sign(struct jinja_run *r, const struct jinja_node *n)
{
    const struct jinja_value v = jinja_eval(r, n->a);
    if (!jinja_is_number(v)) return wrong_kinds(r, n->op == N_NEGATIVE ? "-" : "+", v, v);
    if (n->op == N_POSITIVE)
        return v.kind == JINJA_REAL ? v : jinja_value_int(jinja_value_as_int(v));
    if (v.kind == JINJA_REAL) return jinja_value_real(-v.real);
    return integers(r, N_SUBTRACT, 0, jinja_value_as_int(v));
}

static bool holds(struct jinja_run *r, enum compare how, struct jinja_value a, struct jinja_value b)
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

static struct jinja_value eval_compare(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value left = jinja_eval(r, n->a);
    for (size_t i = 0; i < n->list.count && !r->failed; i++) {
        const struct jinja_value right = jinja_eval(r, n->list.list[i]);
        if (r->failed || !holds(r, n->compares[i], left, right)) return jinja_bool(false);
        left = right;
    }
    return jinja_bool(true);
}

// --- indices -----------------------------------------------------------------------------------

static struct jinja_value item_at(struct jinja_run *r, struct jinja_value v, int64_t i)
{
    const int64_t count =
        jinja_is_text(v) ? jinja_string_characters(r, v.text) : (int64_t)v.list->count;
    if (i < 0) i += count;
    if (i < 0 || i >= count) return jinja_value_undefined("an item");
    if (!jinja_is_text(v)) return v.list->items[i];
    const size_t at = jinja_string_at(v.text, i);
    return jinja_string_piece(r, v.text, at,
                              at + jinja_char_length(v.text->bytes + at, v.text->length - at));
}

struct jinja_value jinja_value_index(struct jinja_run *r, struct jinja_value v,
                                     struct jinja_value index)
{
    if (r->failed) return jinja_value_none();
    if (v.kind == JINJA_UNDEFINED) {
        jinja_fail(r, "'%.100s' is undefined", v.name ? v.name : "the value");
        return jinja_value_none();
    }
    if (v.kind == JINJA_DICT) {
        const int64_t i = jinja_dict_find(r, v.dict, index);
        if (i >= 0) return v.dict->values[i];
    } else if ((jinja_is_text(v) || jinja_is_sequence(v)) &&
               (index.kind == JINJA_INT || index.kind == JINJA_BOOL)) {
        return item_at(r, v, jinja_value_as_int(index));
    }
    return jinja_is_text(index) && !r->failed ? jinja_value_attribute(r, v, index.text)
                                              : jinja_value_undefined("an item");
}

// Start, stop and step of a slice of `count` items, as Python clips them. False: a failure.
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

static struct jinja_value slice_text(struct jinja_run *r, const struct jinja_string *s,
                                     const int64_t bounds[3])
{
    struct builder out = { .r = r };
    if (bounds[2] == 1) {
        const size_t start = jinja_string_at(s, bounds[0]);
        return jinja_string_piece(r, s, start,
                                  bounds[1] > bounds[0] ? jinja_string_at(s, bounds[1]) : start);
    }
    struct jinja_list *all = jinja_value_items(r, jinja_value_string(s));
    jinja_step(r, 0); // characters may have been dropped
    for (int64_t i = bounds[0]; !r->failed && (bounds[2] > 0 ? i < bounds[1] : i > bounds[1]);) {
        jinja_put_all(&out, all->items[i].text);
        if (__builtin_add_overflow(i, bounds[2], &i)) break;
    }
    return jinja_builder_value(&out);
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
    if (jinja_is_text(v)) return slice_text(r, v.text, bounds);
    struct jinja_list *list = jinja_list_new(r->room);
    for (int64_t i = bounds[0];
         jinja_step(r, 1) && (bounds[2] > 0 ? i < bounds[1] : i > bounds[1]);) {
        jinja_list_push(r->room, list, v.list->items[i]);
        if (__builtin_add_overflow(i, bounds[2], &i)) break;
    }
    return jinja_list_value(v.kind == JINJA_RANGE ? JINJA_LIST : v.kind, list);
}

// --- the tree ----------------------------------------------------------------------------------

static struct jinja_value eval_name(struct jinja_run *r, const char *name)
{
    struct jinja_value v;
    if (jinja_scope_find(r, name, &v)) return v;
    const struct jinja_function *f = jinja_function(name);
    if (f) return (struct jinja_value){ .kind = JINJA_FUNCTION, .function = f };
    return jinja_value_undefined(name);
}

static struct jinja_value eval_list(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_list *list = jinja_list_new(r->room);
    for (size_t i = 0; i < n->list.count && !r->failed; i++)
        jinja_list_push(r->room, list, jinja_eval(r, n->list.list[i]));
    return jinja_list_value(n->op == N_LIST ? JINJA_LIST : JINJA_TUPLE, list);
}

static struct jinja_value eval_dict(struct jinja_run *r, const struct jinja_node *n)
{
    const struct jinja_value dict = jinja_dict(r->room);
    for (size_t i = 0; i < n->list.count && !r->failed; i++) {
        const struct jinja_value key = jinja_eval(r, n->list.list[i]);
        jinja_dict_put(r, dict.dict, key, jinja_eval(r, n->other.list[i]));
    }
    return dict;
}

static struct jinja_value eval_concat(struct jinja_run *r, const struct jinja_node *n)
{
    struct builder out = { .r = r };
    const struct jinja_value a = jinja_eval(r, n->a), b = jinja_eval(r, n->b);
    jinja_put_show(&out, a);
    jinja_put_show(&out, b);
    return jinja_builder_value(&out);
}

static struct jinja_value eval_call(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_args args = { 0 };
    const struct jinja_value f = jinja_eval(r, n->a);
    jinja_eval_arguments(r, n, &args);
    r->line = n->line;
    return r->failed ? jinja_value_none() : jinja_call_value(r, f, &args);
}

static struct jinja_value eval_filter(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_args args = { 0 };
    const struct jinja_value self = jinja_eval(r, n->a);
    jinja_eval_arguments(r, n, &args);
    r->line = n->line;
    if (!n->callable) jinja_unknown(r, n->op == N_FILTER ? "filter" : "test", n->name);
    return r->failed ? jinja_value_none() : jinja_call_callable(r, n->callable, self, &args);
}

static struct jinja_value eval_logic(struct jinja_run *r, const struct jinja_node *n)
{
    const struct jinja_value a = jinja_eval(r, n->a);
    if (n->op == N_NOT) return jinja_bool(!jinja_value_truth(a));
    return !r->failed && jinja_value_truth(a) == (n->op == N_AND) ? jinja_eval(r, n->b) : a;
}

static struct jinja_value eval_condition(struct jinja_run *r, const struct jinja_node *n)
{
    const bool yes = jinja_value_truth(jinja_eval(r, n->b));
    if (r->failed) return jinja_value_none();
    if (yes) return jinja_eval(r, n->a);
    return n->c ? jinja_eval(r, n->c) : jinja_value_undefined("an if without else");
}

static struct jinja_value eval_index(struct jinja_run *r, const struct jinja_node *n)
{
    const struct jinja_value v = jinja_eval(r, n->a);
    if (n->b->op == N_SLICE) return eval_slice(r, v, n->b);
    return jinja_value_index(r, v, jinja_eval(r, n->b));
}

static struct jinja_value eval_operator(struct jinja_run *r, const struct jinja_node *n)
{
    const struct jinja_value a = jinja_eval(r, n->a);
    return jinja_eval_binary(r, n->op, a, jinja_eval(r, n->b));
}

static struct jinja_value eval_op(struct jinja_run *r, const struct jinja_node *n)
{
    switch (n->op) {
    case N_VALUE: return jinja_is_given(n->value) ? n->value : r->collected;
    case N_NAME: return eval_name(r, n->name);
    case N_LIST:
    case N_TUPLE: return eval_list(r, n);
    case N_DICT: return eval_dict(r, n);
    case N_ATTRIBUTE: return jinja_value_attribute(r, jinja_eval(r, n->a), n->value.text);
    case N_INDEX: return eval_index(r, n);
    case N_SLICE: jinja_fail(r, "a slice stands beside another index"); return jinja_value_none();
    case N_CALL: return eval_call(r, n);
    case N_FILTER:
    case N_TEST: return eval_filter(r, n);
    case N_AND:
    case N_OR:
    case N_NOT: return eval_logic(r, n);
    case N_NEGATIVE:
    case N_POSITIVE: return eval_sign(r, n);
    case N_COMPARE: return eval_compare(r, n);
    case N_CONCAT: return eval_concat(r, n);
    case N_IF_ELSE: return eval_condition(r, n);
    default: return eval_operator(r, n);
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
