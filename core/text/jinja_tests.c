// core/text/jinja_tests.c -- what stands behind `is`.
#include <string.h>

#include "core/text/jinja_parts.h"

#define TEST(name, condition)                                                        \
    static struct jinja_value test_##name(struct jinja_run *r, struct jinja_value v, \
                                          const struct jinja_args *a)                \
    {                                                                                \
        (void)r;                                                                     \
        (void)a;                                                                     \
        return jinja_bool(condition);                                                \
    }

static bool has_case(struct jinja_run *r, struct jinja_value v, enum letter_case how)
{
    const struct jinja_string *s = jinja_string_of(r, v);
    return jinja_step(r, s->length / 8) && jinja_string_has_case(s, how);
}

TEST(defined, v.kind != JINJA_UNDEFINED)
TEST(undefined, v.kind == JINJA_UNDEFINED)
TEST(none, v.kind == JINJA_NONE)
TEST(boolean, v.kind == JINJA_BOOL)
TEST(true, v.kind == JINJA_BOOL && v.truth)
TEST(false, v.kind == JINJA_BOOL && !v.truth)
TEST(integer, v.kind == JINJA_INT)
TEST(float, v.kind == JINJA_REAL)
TEST(number, jinja_is_number(v))
TEST(string, jinja_is_text(v))
TEST(mapping, v.kind == JINJA_DICT)
TEST(iterable, jinja_value_iterable(v))
TEST(sequence,
     jinja_is_text(v) || jinja_is_sequence(v) || v.kind == JINJA_DICT || v.kind == JINJA_UNDEFINED)
TEST(callable, v.kind == JINJA_FUNCTION || v.kind == JINJA_METHOD || v.kind == JINJA_MACRO ||
                   v.kind == JINJA_LOOP || v.kind == JINJA_JOINER || v.kind == JINJA_UNDEFINED)
TEST(escaped, jinja_is_text(v) && v.text->safe)
TEST(upper, has_case(r, v, CASE_UPPER))
TEST(lower, has_case(r, v, CASE_LOWER))
TEST(sameas,
     jinja_step(r, jinja_is_text(v) ? v.text->length / 64 : 0) && jinja_value_same(v, a->at[0]))
TEST(in, jinja_value_contains(r, a->at[0], v))
TEST(eq, jinja_value_equal(r, v, a->at[0]))
TEST(ne, !jinja_value_equal(r, v, a->at[0]))
TEST(gt, jinja_value_order(r, v, a->at[0]) > 0)
TEST(ge, jinja_value_order(r, v, a->at[0]) >= 0)
TEST(lt, jinja_value_order(r, v, a->at[0]) < 0)
TEST(le, jinja_value_order(r, v, a->at[0]) <= 0)
TEST(filter, jinja_is_text(v) && jinja_filter(v.text->bytes))
TEST(test, jinja_is_text(v) && jinja_test(v.text->bytes))

static bool remainder_is(struct jinja_run *r, struct jinja_value v, struct jinja_value by,
                         int64_t wanted)
{
    const struct jinja_value rest = jinja_eval_binary(r, N_MODULO, v, by);
    return !r->failed && jinja_value_equal(r, rest, jinja_value_int(wanted));
}

TEST(odd, remainder_is(r, v, jinja_value_int(2), 1))
TEST(even, remainder_is(r, v, jinja_value_int(2), 0))
TEST(divisibleby, remainder_is(r, v, a->at[0], 0))

const struct jinja_callable *jinja_test(const char *name)
{
    static const struct jinja_callable tests[] = {
        { "defined", test_defined, "", 0 },     { "undefined", test_undefined, "", 0 },
        { "none", test_none, "", 0 },           { "boolean", test_boolean, "", 0 },
        { "true", test_true, "", 0 },           { "false", test_false, "", 0 },
        { "integer", test_integer, "", 0 },     { "float", test_float, "", 0 },
        { "number", test_number, "", 0 },       { "string", test_string, "", 0 },
        { "mapping", test_mapping, "", 0 },     { "iterable", test_iterable, "", 0 },
        { "sequence", test_sequence, "", 0 },   { "callable", test_callable, "", 0 },
        { "escaped", test_escaped, "", 0 },     { "upper", test_upper, "", 0 },
        { "lower", test_lower, "", 0 },         { "odd", test_odd, "", 0 },
        { "even", test_even, "", 0 },           { "divisibleby", test_divisibleby, "num", 1 },
        { "sameas", test_sameas, "other", 1 },  { "in", test_in, "seq", 1 },
        { "filter", test_filter, "", 0 },       { "test", test_test, "", 0 },
        { "eq", test_eq, "other", 1 },          { "equalto", test_eq, "other", 1 },
        { "==", test_eq, "other", 1 },          { "ne", test_ne, "other", 1 },
        { "!=", test_ne, "other", 1 },          { "gt", test_gt, "other", 1 },
        { "greaterthan", test_gt, "other", 1 }, { ">", test_gt, "other", 1 },
        { "ge", test_ge, "other", 1 },          { ">=", test_ge, "other", 1 },
        { "lt", test_lt, "other", 1 },          { "lessthan", test_lt, "other", 1 },
        { "<", test_lt, "other", 1 },           { "le", test_le, "other", 1 },
        { "<=", test_le, "other", 1 },
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (!strcmp(tests[i].name, name)) return &tests[i];
    return NULL;
}
