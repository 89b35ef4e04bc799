// core/text/jinja_functions.c -- what templates can call by name: Jinja2's own and those that
// transformers adds.
#include <stdio.h>
#include <string.h>

#include "core/text/jinja_parts.h"

static struct jinja_value function_raise(struct jinja_run *r, struct jinja_value self,
                                         const struct jinja_args *a)
{
    jinja_fail(r, "%s", jinja_string_of(r, a->at[0])->bytes);
    return self;
}

// Of a dict, of pairs, and of keywords.
static void fill_dict(struct jinja_run *r, struct jinja_value dict, const struct jinja_args *a)
{
    if (a->count > 1) jinja_fail(r, "dict and namespace take at most one argument without a name");
    if (a->count && a->at[0].kind == JINJA_DICT) {
        for (size_t i = 0; i < a->at[0].dict->count && !r->failed; i++)
            jinja_dict_put(r, dict.dict, a->at[0].dict->keys[i], a->at[0].dict->values[i]);
    } else if (a->count) {
        const struct jinja_list *items = r->failed ? NULL : jinja_value_items(r, a->at[0]);
        for (size_t i = 0; items && i < items->count && !r->failed; i++) {
            const struct jinja_list *two = jinja_value_items(r, items->items[i]);
            if (two && two->count != 2) jinja_fail(r, "dict needs pairs");
            if (two && !r->failed) jinja_dict_put(r, dict.dict, two->items[0], two->items[1]);
        }
    }
    for (size_t i = 0; i < a->named_count && !r->failed; i++)
        jinja_set(r->room, dict, a->names[i], a->named[i]);
}

static struct jinja_value function_dict(struct jinja_run *r, struct jinja_value self,
                                        const struct jinja_args *a)
{
    self = jinja_dict(r->room);
    fill_dict(r, self, a);
    return self;
}

static struct jinja_value function_namespace(struct jinja_run *r, struct jinja_value self,
                                             const struct jinja_args *a)
{
    self = jinja_dict(r->room);
    fill_dict(r, self, a);
    self.kind = JINJA_NAMESPACE;
    return self;
}

static struct jinja_value function_range(struct jinja_run *r, struct jinja_value self,
                                         const struct jinja_args *a)
{
    enum { MOST = 100000 }; // as the sandbox of Jinja2 has it
    const bool one = !jinja_is_given(jinja_argument(a, 1));
    const int64_t start = one ? 0 : jinja_argument_int(r, a, 0, 0, "range");
    const int64_t stop = jinja_argument_int(r, a, one ? 0 : 1, 0, "range");
    const int64_t step = jinja_argument_int(r, a, 2, 1, "range");
    struct jinja_list *list = jinja_list_new(r->room);
    char label[100];
    if (!step) jinja_fail(r, "the step of a range is 0");
    for (int64_t i = start; jinja_step(r, 1) && (step > 0 ? i < stop : i > stop);) {
        if (list->count == MOST) jinja_fail(r, "a range is longer than %d", MOST);
        jinja_list_push(r->room, list, jinja_value_int(i));
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    const int n =
        snprintf(label, sizeof label, "range(%lld, %lld", (long long)start, (long long)stop);
    if (step == 1)
        snprintf(label + n, sizeof label - (size_t)n, ")");
    else
        snprintf(label + n, sizeof label - (size_t)n, ", %lld)", (long long)step);
    list->label = jinja_keep(r->room, label, strlen(label));
    (void)self;
    return jinja_list_value(JINJA_RANGE, list);
}

static struct jinja_value function_cycler(struct jinja_run *r, struct jinja_value self,
                                          const struct jinja_args *a)
{
    struct jinja_cycler *c = jinja_take(r->room, sizeof *c);
    c->items = jinja_list_new(r->room);
    for (size_t i = 0; i < a->count; i++) jinja_list_push(r->room, c->items, a->at[i]);
    if (!a->count) jinja_fail(r, "cycler needs something to cycle through");
    (void)self;
    return (struct jinja_value){ .kind = JINJA_CYCLER, .cycler = c };
}

static struct jinja_value function_joiner(struct jinja_run *r, struct jinja_value self,
                                          const struct jinja_args *a)
{
    struct jinja_cycler *c = jinja_take(r->room, sizeof *c);
    c->separator =
        jinja_is_given(jinja_argument(a, 0)) ? jinja_argument(a, 0) : jinja_value_words(r, ", ");
    (void)self;
    return (struct jinja_value){ .kind = JINJA_JOINER, .cycler = c };
}

// --- the date ----------------------------------------------------------------------------------

// English whatever the locale: the date is read by a model.
static void put_date_part(struct builder *b, const struct tm *t, char what)
{
    static const char *const days[] = { "Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday" };
    static const char *const months[] = { "January",   "February", "March",    "April",
                                          "May",       "June",     "July",     "August",
                                          "September", "October",  "November", "December" };
    const int hour = t->tm_hour % 12 ? t->tm_hour % 12 : 12;
    char text[64] = "";
    const char form[] = { '%', what, '\0' };
    switch (what) {
    case 'a':
    case 'A': snprintf(text, sizeof text, "%.*s", what == 'a' ? 3 : 20, days[t->tm_wday]); break;
    case 'b':
    case 'h':
    case 'B': snprintf(text, sizeof text, "%.*s", what == 'B' ? 20 : 3, months[t->tm_mon]); break;
    case 'p': snprintf(text, sizeof text, "%s", t->tm_hour < 12 ? "AM" : "PM"); break;
    case 'I': snprintf(text, sizeof text, "%02d", hour); break;
    case 'f': snprintf(text, sizeof text, "000000"); break;
    case 'z':
    case 'Z': break; // the time is one without a zone
    case 'c':
        snprintf(text, sizeof text, "%.3s %.3s %2d %02d:%02d:%02d %d", days[t->tm_wday],
                 months[t->tm_mon], t->tm_mday, t->tm_hour, t->tm_min, t->tm_sec,
                 t->tm_year + 1900);
        break;
    case 'x':
    case 'D':
        snprintf(text, sizeof text, "%02d/%02d/%02d", t->tm_mon + 1, t->tm_mday, t->tm_year % 100);
        break;
    case 'X':
        snprintf(text, sizeof text, "%02d:%02d:%02d", t->tm_hour, t->tm_min, t->tm_sec);
        break;
    default:
        // What is left depends on no locale.
        if (!strchr("deFgGHjkmMnRSsTtuUVwWyYC%", what) || !strftime(text, sizeof text, form, t))
            snprintf(text, sizeof text, "%%%c", what);
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
        // "%-d": without the zero in front.
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

const struct jinja_function *jinja_function(const char *name)
{
    static const struct jinja_function functions[] = {
        { { "raise_exception", function_raise, "message", 1 } },
        { { "namespace", function_namespace, "*", 0 } },
        { { "dict", function_dict, "*", 0 } },
        { { "range", function_range, "start stop step", 1 } },
        { { "strftime_now", function_strftime, "format", 1 } },
        { { "cycler", function_cycler, "*", 0 } },
        { { "joiner", function_joiner, "sep", 0 } },
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].call.name, name)) return &functions[i];
    return NULL;
}
