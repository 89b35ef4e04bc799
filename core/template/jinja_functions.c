// core/template/jinja_functions.c -- functions that templates can call by name (from Jinja2 and
// transformers), and tests (`x is NAME`).
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

// Builds a dict or namespace (`how`) from keyword arguments.
static struct jinja_value function_dict(struct jinja_run *r, struct jinja_value self,
                                        const struct jinja_args *a)
{
    self = jinja_dict(r->arena);
    if (a->count) jinja_unknown(r, "positional arguments of dict and namespace are not supported");
    for (size_t i = 0; i < a->named_count && !r->failed; i++)
        jinja_set(r->arena, self, a->named[i].name, a->named[i].value);
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

// Writes English in every locale, because a model reads the date.
static struct jinja_value function_strftime(struct jinja_run *r, struct jinja_value self,
                                            const struct jinja_args *a)
{
    static const char *const months[] = { "January",   "February", "March",    "April",
                                          "May",       "June",     "July",     "August",
                                          "September", "October",  "November", "December" };
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
        const char form[] = { '%', format->bytes[++i], '\0' };
        char text[64];
        switch (form[1]) {
        case 'b': snprintf(text, sizeof text, "%.3s", months[t.tm_mon]); break;
        case 'B': snprintf(text, sizeof text, "%s", months[t.tm_mon]); break;
        case 'd': snprintf(text, sizeof text, "%02d", t.tm_mday); break;
        case 'm': snprintf(text, sizeof text, "%02d", t.tm_mon + 1); break;
        case 'Y': snprintf(text, sizeof text, "%d", t.tm_year + 1900); break;
        default: jinja_unknown(r, "the date format '%s' is not known", form); return self;
        }
        jinja_put_words(&b, text);
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
TEST(equal, jinja_value_equal(r, v, a->at[0]))
TEST(in, jinja_value_contains(r, a->at[0], v))

const struct jinja_callable *jinja_test(const char *name)
{
    static const struct jinja_callable tests[] = {
        { "defined", test_defined, "", 0, 0 },
        { "undefined", test_kind, "", 0, JINJA_UNDEFINED },
        { "none", test_kind, "", 0, JINJA_NONE },
        { "boolean", test_kind, "", 0, JINJA_BOOL },
        { "string", test_kind, "", 0, JINJA_TEXT },
        { "mapping", test_kind, "", 0, JINJA_DICT },
        { "true", test_true, "", 0, 0 },
        { "false", test_false, "", 0, 0 },
        { "number", test_number, "", 0, 0 },
        { "iterable", test_iterable, "", 0, 0 },
        { "sequence", test_sequence, "", 0, 0 },
        { "in", test_in, "seq", 1, 0 },
        { "eq", test_equal, "other", 1, 0 },
        { "equalto", test_equal, "other", 1, 0 },
        { 0 },
    };
    return jinja_callable_find(tests, name);
}
