// core/template/jinja_eval.c -- evaluates expressions: operators with Python's integer arithmetic,
// indices, slices, attributes, calls.
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
    else if (jinja_is_number(a) && jinja_is_number(b))
        jinja_unknown(r, "arithmetic with floats is not supported");
    else
        jinja_fail(r, "'%s' does not work for %s and %s", sign, jinja_value_kind_name(a),
                   jinja_value_kind_name(b));
    return jinja_value_none();
}

static struct jinja_value arithmetic(struct jinja_run *r, enum jinja_op op, int64_t a, int64_t b)
{
    int64_t result = 0;
    bool overflow = false;
    if (op == N_ADD) {
        overflow = __builtin_add_overflow(a, b, &result);
    } else if (op == N_SUBTRACT) {
        overflow = __builtin_sub_overflow(a, b, &result);
    } else if (op == N_MULTIPLY) {
        overflow = __builtin_mul_overflow(a, b, &result);
    } else if (!b) {
        jinja_fail(r, "division by zero");
    } else if (b != -1) { // INT64_MIN % -1 would trap
        result = a % b;
        if (result && (result < 0) != (b < 0)) result += b; // the sign of b, as in Python
    }
    if (overflow) jinja_fail(r, "a number is too large");
    return jinja_value_int(result);
}

// --- texts and lists ---------------------------------------------------------------------------

// If one text is Markup, escapes the other, as markupsafe does.
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

static struct jinja_value eval_binary(struct jinja_run *r, enum jinja_op op, struct jinja_value a,
                                      struct jinja_value b)
{
    static const char *const signs[] = { "+", "-", "*", "%" };
    if (r->failed) return jinja_value_none();
    if (jinja_is_int(a) && jinja_is_int(b))
        return arithmetic(r, op, jinja_value_as_int(a), jinja_value_as_int(b));
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

// --- attributes and indices ----------------------------------------------------------------------

static struct jinja_value loop_attribute(struct jinja_run *r, const struct jinja_loop *l,
                                         const char *name)
{
    const struct jinja_value *item = &l->items->items[l->index];
    const bool first = l->index == 0, last = l->index + 1 >= l->items->count;
    if (!strcmp(name, "index")) return jinja_value_int((int64_t)l->index + 1);
    if (!strcmp(name, "index0")) return jinja_value_int((int64_t)l->index);
    if (!strcmp(name, "first")) return jinja_bool(first);
    if (!strcmp(name, "last")) return jinja_bool(last);
    if (!strcmp(name, "previtem")) return first ? jinja_value_undefined("loop.previtem") : item[-1];
    if (!strcmp(name, "nextitem")) return last ? jinja_value_undefined("loop.nextitem") : item[1];
    jinja_unknown(r, "the loop attribute '%.100s' is not known", name);
    return jinja_value_none();
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
    if (v.kind == JINJA_LOOP) return loop_attribute(r, v.loop, word);
    const struct jinja_callable *c = jinja_method_of(v, word);
    if (c) {
        struct jinja_method *m = jinja_take(r->arena, sizeof *m);
        *m = (struct jinja_method){ v, c };
        return (struct jinja_value){ .kind = JINJA_METHOD, .method = m };
    }
    const struct jinja_dict *d = jinja_dict_of(v);
    const int64_t i = d ? jinja_dict_find(r, d, jinja_value_string(name)) : -1;
    return i >= 0 ? d->entries[i].value : jinja_value_undefined(word);
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
        if (i >= 0) return v.dict->entries[i].value;
    } else if ((jinja_is_text(v) || jinja_is_sequence(v)) && jinja_is_int(index)) {
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

// Evaluates a bound of a slice of `count` items and clips it as Python does.
// Returns `otherwise` if n is NULL or evaluates to None.
static int64_t slice_bound(struct jinja_run *r, const struct jinja_node *n, int64_t otherwise,
                           int64_t count)
{
    const struct jinja_value v = n ? jinja_eval(r, n) : jinja_value_none();
    if (v.kind == JINJA_NONE) return otherwise;
    if (!jinja_is_int(v)) jinja_fail(r, "a slice needs integers, not %s", jinja_value_kind_name(v));
    int64_t at = jinja_is_int(v) ? jinja_value_as_int(v) : 0;
    if (at < 0) at = at < -count ? 0 : at + count;
    return at > count ? count : at;
}

static struct jinja_value eval_slice(struct jinja_run *r, struct jinja_value v,
                                     const struct jinja_node *n)
{
    if (v.kind == JINJA_UNDEFINED) {
        jinja_fail(r, "'%.100s' is undefined", v.name ? v.name : "the value");
        return v;
    }
    if (!jinja_is_text(v) && !jinja_is_sequence(v))
        jinja_fail(r, "%s cannot be sliced", jinja_value_kind_name(v));
    if (r->failed) return v;
    const int64_t count = jinja_value_length(r, v), step = n->c ? -1 : 1;
    const int64_t from = slice_bound(r, n->a, 0, count), to = slice_bound(r, n->b, count, count);
    if (n->c) {
        const struct jinja_value given = jinja_eval(r, n->c);
        if (jinja_is_text(v) || n->a || n->b || given.kind != JINJA_INT || given.integer != -1)
            jinja_unknown(r, "a slice with a step, except [::-1] of a list, is not supported");
    }
    if (r->failed) return jinja_value_none();
    if (jinja_is_text(v)) {
        const size_t start = jinja_string_at(v.text, from);
        return jinja_string_piece(r, v.text, start,
                                  to > from ? jinja_string_at(v.text, to) : start);
    }
    struct jinja_list *list = jinja_list_new(r->arena);
    for (int64_t i = from; i < to && jinja_step(r, 1); i++)
        jinja_list_push(r->arena, list, v.list->items[step < 0 ? count - 1 - i : i]);
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
    if (jinja_is_int(v)) return jinja_value_as_int(v);
    jinja_fail(r, "%s needs an integer, not %s", who, jinja_value_kind_name(v));
    return otherwise;
}

static void eval_arguments(struct jinja_run *r, const struct jinja_node *call,
                           struct jinja_args *args)
{
    args->count = call->list.count;
    args->named_count = call->other.count;
    if (args->count) args->at = jinja_take(r->arena, args->count * sizeof *args->at);
    if (args->named_count)
        args->named = jinja_take(r->arena, args->named_count * sizeof *args->named);
    for (size_t i = 0; i < args->count && !r->failed; i++)
        args->at[i] = jinja_eval(r, call->list.list[i]);
    for (size_t i = 0; i < args->named_count && !r->failed; i++)
        args->named[i] = (struct jinja_binding){ call->other.list[i]->name,
                                                 jinja_eval(r, call->other.list[i]->a) };
    r->line = call->line;
}

const struct jinja_callable *jinja_callable_find(const struct jinja_callable *table,
                                                 const char *name)
{
    for (; table && table->name; table++)
        if (!strcmp(table->name, name)) return table;
    return NULL;
}

// Returns the index of a name in a list of parameters; -1 if absent.
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
    if (!strcmp(parameters, "*")) {
        bound = *args;
        bound.call = c;
        return r->failed ? jinja_value_none() : c->run(r, self, &bound);
    }
    if (args->count > parameter_count(parameters)) {
        jinja_unknown(r, "'%s' takes at most %zu arguments, not %zu", c->name,
                      parameter_count(parameters), args->count);
        return jinja_value_none();
    }
    for (size_t i = 0; i < args->count; i++) at[i] = args->at[i];
    for (size_t i = 0; i < args->named_count; i++) {
        const int k = parameter_number(parameters, args->named[i].name);
        if (k < 0 || jinja_is_given(at[k])) {
            jinja_unknown(r, "'%s' %s '%.60s'", c->name,
                          k < 0 ? "has no argument" : "has two values for", args->named[i].name);
            return jinja_value_none();
        }
        at[k] = args->named[i].value;
    }
    for (int i = 0; i < c->least; i++)
        if (!jinja_is_given(at[i])) jinja_unknown(r, "'%s' needs more arguments", c->name);
    return r->failed ? jinja_value_none() : c->run(r, self, &bound);
}

static struct jinja_value call_value(struct jinja_run *r, struct jinja_value f,
                                     const struct jinja_args *args)
{
    switch (f.kind) {
    case JINJA_FUNCTION: return jinja_call_callable(r, f.function, jinja_value_none(), args);
    case JINJA_METHOD: return jinja_call_callable(r, f.method->call, f.method->self, args);
    case JINJA_MACRO: return jinja_call_macro(r, f.macro, args);
    case JINJA_UNDEFINED:
        jinja_unknown(r, "the function or method '%.100s' is not known", f.name);
        return f;
    default: jinja_fail(r, "%s cannot be called", jinja_value_kind_name(f)); return f;
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
        jinja_unknown(r, "the %s '%.100s' is not known", n->op == N_FILTER ? "filter" : "test",
                      n->name);
        return a;
    case N_AND:
    case N_OR:
        a = jinja_eval(r, n->a);
        return !r->failed && jinja_value_truth(a) == (n->op == N_AND) ? jinja_eval(r, n->b) : a;
    case N_NOT: return jinja_bool(!jinja_value_truth(jinja_eval(r, n->a)));
    case N_NEGATIVE:
        a = jinja_eval(r, n->a);
        if (!jinja_is_int(a)) return wrong_kinds(r, "-", a, a);
        return arithmetic(r, N_SUBTRACT, 0, jinja_value_as_int(a));
    case N_COMPARE:
        a = jinja_eval(r, n->a);
        b = jinja_eval(r, n->b);
        return jinja_bool(!r->failed && holds(r, n->compare, a, b));
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
    default: a = jinja_eval(r, n->a); return eval_binary(r, n->op, a, jinja_eval(r, n->b));
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
