// core/template/jinja_functions.c -- functions that templates can call by name (those of Jinja2 and
// of transformers), and tests (`x is NAME`).
#include <stdio.h>
#include <string.h>

#include "core/template/jinja_parts.h"

// --- functions ---------------------------------------------------------------------------------

static struct jinja_value function_raise(struct jinja_run *r, struct jinja_value self,
                                         const struct jinja_args *a)
{
    jinja_fail(r, "%s", jinja_string_of(r, a->at[0])->bytes);
    return self;
}

// Builds a dict or namespace (`how`) from a dict and keywords.
static struct jinja_value function_dict(struct jinja_run *r, struct jinja_value self,
                                        const struct jinja_args *a)
{
    self = jinja_dict(r->arena);
    jinja_dict_update(r, self, a, "dict and namespace take a dict and keywords");
    self.kind = (enum jinja_kind)a->call->how;
    return self;
}

static struct jinja_value function_range(struct jinja_run *r, struct jinja_value self,
                                         const struct jinja_args *a)
{
    enum { MOST = 100000 }; // as in the sandbox of Jinja2
    const bool one = !jinja_is_given(jinja_argument(a, 1));
    const int64_t start = one ? 0 : jinja_argument_int(r, a, 0, 0, "range");
    const int64_t stop = jinja_argument_int(r, a, one ? 0 : 1, 0, "range");
    const int64_t step = jinja_argument_int(r, a, 2, 1, "range");
    struct jinja_list *list = jinja_list_new(r->arena);
    if (!step) jinja_fail(r, "the step of a range is 0");
    for (int64_t i = start; jinja_step(r, 1) && (step > 0 ? i < stop : i > stop);) {
        if (list->count == MOST) jinja_fail(r, "a range is longer than %d", MOST);
        jinja_list_push(r->arena, list, jinja_value_int(i));
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    return jinja_list_value(JINJA_RANGE, list);
}

// --- the date ----------------------------------------------------------------------------------

// English whatever the locale: a model reads the date.
static void put_date_part(struct builder *b, const struct tm *t, char what)
{
    static const char *const days[] = { "Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday" };
    static const char *const months[] = { "January",   "February", "March",    "April",
                                          "May",       "June",     "July",     "August",
                                          "September", "October",  "November", "December" };
    const char form[] = { '%', what, '\0' };
    char text[64] = "";
    switch (what) {
    case 'a':
    case 'A': snprintf(text, sizeof text, "%.*s", what == 'a' ? 3 : 20, days[t->tm_wday]); break;
    case 'b':
    case 'B': snprintf(text, sizeof text, "%.*s", what == 'b' ? 3 : 20, months[t->tm_mon]); break;
    case 'p': snprintf(text, sizeof text, "%s", t->tm_hour < 12 ? "AM" : "PM"); break;
    default:
        // These do not depend on the locale.
        if (!what || !strchr("dDeFHIjmMSTyY%", what) || !strftime(text, sizeof text, form, t))
            jinja_unknown(b->r, "date format", form);
    }
    jinja_put_words(b, text);
}

static struct jinja_value function_strftime(struct jinja_run *r, struct jinja_value self,
                                            const struct jinja_args *a)
{
    const struct jinja_string *format = jinja_need_text(r, a->at[0], "strftime_now");
    const time_t now = r->now ? r->now : time(NULL);
    struct builder b = { .r = r };
    struct tm t;
    if (!format || !localtime_r(&now, &t)) return self;
    for (size_t i = 0; i < format->length && jinja_step(r, 1); i++) {
        if (format->bytes[i] != '%' || i + 1 >= format->length) {
            jinja_put_piece(&b, format, i, i + 1);
            continue;
        }
        i++;
        // "%-d": without a leading zero.
        const bool bare = format->bytes[i] == '-' && i + 1 < format->length;
        i += bare;
        const size_t start = b.length;
        put_date_part(&b, &t, format->bytes[i]);
        if (!bare || r->failed || b.length < start + 2 || b.bytes[start] != '0') continue;
        size_t zeros = 0;
        while (start + zeros + 1 < b.length && b.bytes[start + zeros] == '0') zeros++;
        memmove(b.bytes + start, b.bytes + start + zeros, b.length - start - zeros);
        b.length -= zeros;
        b.bytes[b.length] = '\0';
    }
    return jinja_builder_value(&b);
}

const struct jinja_callable *jinja_function(const char *name)
{
    static const struct jinja_callable functions[] = {
        { "raise_exception", function_raise, "message", 1, 0 },
        { "namespace", function_dict, "*", 0, JINJA_NAMESPACE },
        { "dict", function_dict, "*", 0, JINJA_DICT },
        { "range", function_range, "start stop step", 1, 0 },
        { "strftime_now", function_strftime, "format", 1, 0 },
        { 0 },
    };
    return jinja_callable_find(functions, name);
}

// --- tests -------------------------------------------------------------------------------------

#define TEST(name, condition)                                                        \
    static struct jinja_value test_##name(struct jinja_run *r, struct jinja_value v, \
                                          const struct jinja_args *a)                \
    {                                                                                \
        return jinja_bool(condition);                                                \
    }

TEST(kind, v.kind == (enum jinja_kind)a->call->how)
TEST(defined, v.kind != JINJA_UNDEFINED)
TEST(true, v.kind == JINJA_BOOL && v.truth)
TEST(false, v.kind == JINJA_BOOL && !v.truth)
TEST(number, jinja_is_number(v))
TEST(iterable, jinja_value_iterable(v))
TEST(sequence,
     jinja_is_text(v) || jinja_is_sequence(v) || v.kind == JINJA_DICT || v.kind == JINJA_UNDEFINED)
TEST(compare, jinja_holds(r, (enum compare)a->call->how, v, a->at[0]))
TEST(rest, jinja_value_equal(r, jinja_eval_binary(r, N_MODULO, v, jinja_value_int(2)),
                             jinja_value_int(a->call->how)))

const struct jinja_callable *jinja_test(const char *name)
{
    static const struct jinja_callable tests[] = {
        { "defined", test_defined, "", 0, 0 },
        { "undefined", test_kind, "", 0, JINJA_UNDEFINED },
        { "none", test_kind, "", 0, JINJA_NONE },
        { "boolean", test_kind, "", 0, JINJA_BOOL },
        { "integer", test_kind, "", 0, JINJA_INT },
        { "float", test_kind, "", 0, JINJA_REAL },
        { "string", test_kind, "", 0, JINJA_TEXT },
        { "mapping", test_kind, "", 0, JINJA_DICT },
        { "true", test_true, "", 0, 0 },
        { "false", test_false, "", 0, 0 },
        { "number", test_number, "", 0, 0 },
        { "iterable", test_iterable, "", 0, 0 },
        { "sequence", test_sequence, "", 0, 0 },
        { "odd", test_rest, "", 0, 1 },
        { "even", test_rest, "", 0, 0 },
        { "in", test_compare, "seq", 1, IS_IN },
        { "eq", test_compare, "other", 1, IS_EQUAL },
        { "equalto", test_compare, "other", 1, IS_EQUAL },
        { "==", test_compare, "other", 1, IS_EQUAL },
        { "ne", test_compare, "other", 1, IS_UNEQUAL },
        { "!=", test_compare, "other", 1, IS_UNEQUAL },
        { "gt", test_compare, "other", 1, IS_GREATER },
        { "greaterthan", test_compare, "other", 1, IS_GREATER },
        { ">", test_compare, "other", 1, IS_GREATER },
        { "ge", test_compare, "other", 1, IS_AT_LEAST },
        { ">=", test_compare, "other", 1, IS_AT_LEAST },
        { "lt", test_compare, "other", 1, IS_LESS },
        { "lessthan", test_compare, "other", 1, IS_LESS },
        { "<", test_compare, "other", 1, IS_LESS },
        { "le", test_compare, "other", 1, IS_AT_MOST },
        { "<=", test_compare, "other", 1, IS_AT_MOST },
        { 0 },
    };
    return jinja_callable_find(tests, name);
}
