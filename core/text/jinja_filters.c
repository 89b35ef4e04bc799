// core/text/jinja_filters.c -- filters of single values and of texts; those of lists are in
// jinja_filters_list.c.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text/jinja_parts.h"

// --- values ------------------------------------------------------------------------------------

static struct jinja_value filter_default(struct jinja_run *r, struct jinja_value v,
                                         const struct jinja_args *a)
{
    const bool falsy = jinja_argument_true(a, 1, false) && !jinja_value_truth(v);
    if (v.kind != JINJA_UNDEFINED && !falsy) return v;
    return jinja_is_given(jinja_argument(a, 0)) ? jinja_argument(a, 0) : jinja_value_words(r, "");
}

static struct jinja_value filter_string(struct jinja_run *r, struct jinja_value v,
                                        const struct jinja_args *a)
{
    (void)a;
    return jinja_value_string(jinja_string_of(r, v));
}

static struct jinja_value filter_length(struct jinja_run *r, struct jinja_value v,
                                        const struct jinja_args *a)
{
    (void)a;
    return jinja_value_int(jinja_value_length(r, v));
}

static struct jinja_value filter_safe(struct jinja_run *r, struct jinja_value v,
                                      const struct jinja_args *a)
{
    (void)a;
    struct jinja_string *markup = jinja_take(r->room, sizeof *markup);
    *markup = *jinja_string_of(r, v);
    markup->safe = true;
    return jinja_value_string(markup);
}

static struct jinja_value filter_escape(struct jinja_run *r, struct jinja_value v,
                                        const struct jinja_args *a)
{
    (void)a;
    return jinja_string_escape(r, jinja_string_of(r, v));
}

static struct jinja_value filter_forceescape(struct jinja_run *r, struct jinja_value v,
                                             const struct jinja_args *a)
{
    (void)a;
    struct jinja_string plain = *jinja_string_of(r, v);
    plain.safe = false;
    return jinja_string_escape(r, &plain);
}

static struct jinja_value filter_tojson(struct jinja_run *r, struct jinja_value v,
                                        const struct jinja_args *a)
{
    struct builder b = { .r = r };
    const struct jinja_value indent = jinja_argument(a, 1), separators = jinja_argument(a, 2);
    const bool lines = jinja_is_given(indent) && indent.kind != JINJA_NONE;
    struct json_style style = { .item = lines ? "," : ", ",
                                .key = ": ",
                                .ascii = jinja_argument_true(a, 0, false),
                                .sorted = jinja_argument_true(a, 3, false) };
    if (lines) {
        const int64_t n =
            jinja_is_text(indent) ? 0 : jinja_argument_int(r, a, 1, 0, "tojson's indent");
        style.indent =
            jinja_is_text(indent)
                ? indent.text
                : jinja_eval_binary(r, N_MULTIPLY, jinja_value_words(r, " "), jinja_value_int(n))
                      .text;
    }
    if (jinja_is_sequence(separators) && separators.list->count == 2 &&
        jinja_is_text(separators.list->items[0]) && jinja_is_text(separators.list->items[1])) {
        style.item = separators.list->items[0].text->bytes;
        style.key = separators.list->items[1].text->bytes;
    } else if (jinja_is_given(separators) && separators.kind != JINJA_NONE) {
        jinja_fail(r, "tojson: separators are two texts");
    }
    if (!r->failed) jinja_put_json(&b, v, &style, 0);
    return jinja_builder_value(&b);
}

static struct jinja_value filter_attr(struct jinja_run *r, struct jinja_value v,
                                      const struct jinja_args *a)
{
    const struct jinja_string *name = jinja_need_text(r, jinja_argument(a, 0), "attr");
    if (v.kind == JINJA_UNDEFINED || r->failed) return jinja_value_undefined("an attribute");
    // Attributes only: what a dict holds is not one.
    if (v.kind == JINJA_DICT && !jinja_method_of(v, name->bytes))
        return jinja_value_undefined(name->bytes);
    return jinja_value_attribute(r, v, name);
}

// --- numbers -----------------------------------------------------------------------------------

// An integer in text, with white space around it and '_' between digits; false: none.
static bool read_int(const char *text, int base, int64_t *value)
{
    char digits[72], *end;
    size_t n = 0, length = strlen(text);
    size_t skip;
    while ((skip = jinja_space_start(text, length))) text += skip, length -= skip;
    while ((skip = jinja_space_end(text, length))) length -= skip;
    const bool sign = length && (*text == '-' || *text == '+');
    for (size_t i = 0; i < length && n < sizeof digits - 1; i++) {
        const bool between = i > sign && i + 1 < length && text[i - 1] != '_';
        if (text[i] != '_' || !between) digits[n++] = text[i];
    }
    digits[n] = '\0';
    char *start = digits + sign;
    const char *prefix = base == 16 ? "0x" : base == 8 ? "0o" : base == 2 ? "0b" : "  ";
    if (start[0] == prefix[0] && (start[1] | 0x20) == prefix[1])
        memmove(start, start + 2, strlen(start + 2) + 1);
    if (!strchr("0123456789abcdefABCDEF", *start) || !*start) return false;
    if (n >= sizeof digits - 1) return false;
    *value = strtoll(digits, &end, base);
    return !*end;
}

static bool read_real(const char *text, double *value)
{
    char digits[400], *end;
    size_t length = strlen(text), skip, n = 0;
    while ((skip = jinja_space_start(text, length))) text += skip, length -= skip;
    while ((skip = jinja_space_end(text, length))) length -= skip;
    if (!length || length >= sizeof digits) return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] != '_') digits[n++] = text[i];
    digits[n] = '\0';
    // What strtod would take and Python does not: hexadecimal numbers.
    if (strpbrk(digits, "xXpP(")) return false;
    *value = strtod(digits, &end);
    return end != digits && !*end;
}

static struct jinja_value real_to_int(struct jinja_run *r, double x, struct jinja_value otherwise)
{
    if (isnan(x)) return otherwise;
    if (fabs(x) < 9.2e18) return jinja_value_int((int64_t)x);
    if (isinf(x)) return otherwise;
    jinja_fail(r, "a number is too large");
    return otherwise;
}

static struct jinja_value filter_int(struct jinja_run *r, struct jinja_value v,
                                     const struct jinja_args *a)
{
    const struct jinja_value otherwise =
        jinja_is_given(jinja_argument(a, 0)) ? jinja_argument(a, 0) : jinja_value_int(0);
    const int64_t base = jinja_argument_int(r, a, 1, 10, "int's base");
    int64_t integer;
    double real;
    if (v.kind == JINJA_UNDEFINED)
        jinja_fail(r, "'%.100s' is undefined", v.name ? v.name : "int's value");
    if (base != 2 && base != 8 && base != 10 && base != 16)
        jinja_fail(r, "int's base is 2, 8, 10 or 16");
    if (r->failed) return otherwise;
    if (v.kind == JINJA_INT || v.kind == JINJA_BOOL) return jinja_value_int(jinja_value_as_int(v));
    if (v.kind == JINJA_REAL) return real_to_int(r, v.real, otherwise);
    if (!jinja_is_text(v) || !jinja_step(r, v.text->length / 8)) return otherwise;
    if (read_int(v.text->bytes, (int)base, &integer)) return jinja_value_int(integer);
    return read_real(v.text->bytes, &real) ? real_to_int(r, real, otherwise) : otherwise;
}

static struct jinja_value filter_float(struct jinja_run *r, struct jinja_value v,
                                       const struct jinja_args *a)
{
    const struct jinja_value otherwise =
        jinja_is_given(jinja_argument(a, 0)) ? jinja_argument(a, 0) : jinja_value_real(0);
    double real;
    if (v.kind == JINJA_UNDEFINED)
        jinja_fail(r, "'%.100s' is undefined", v.name ? v.name : "float's value");
    if (jinja_is_number(v)) return jinja_value_real(jinja_value_as_real(v));
    return jinja_is_text(v) && jinja_step(r, v.text->length / 8) && read_real(v.text->bytes, &real)
               ? jinja_value_real(real)
               : otherwise;
}

static struct jinja_value filter_abs(struct jinja_run *r, struct jinja_value v,
                                     const struct jinja_args *a)
{
    (void)a;
    if (v.kind == JINJA_REAL) return jinja_value_real(fabs(v.real));
    if (!jinja_is_number(v))
        jinja_fail(r, "abs needs a number, not a %s", jinja_value_kind_name(v));
    if (r->failed || jinja_value_as_int(v) >= 0)
        return jinja_value_int(r->failed ? 0 : jinja_value_as_int(v));
    return jinja_eval_binary(r, N_SUBTRACT, jinja_value_int(0), v);
}

// round() of Python: to the even neighbour of a tie, of the number as its decimals say.
static double round_digits(double x, int64_t digits)
{
    char text[400];
    if (digits > 20 || !isfinite(x)) return x;
    if (digits >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)digits, x);
        return strtod(text, NULL);
    }
    const double scale = pow(10, (double)-digits);
    return isfinite(scale) ? nearbyint(x / scale) * scale : 0;
}

static struct jinja_value filter_round(struct jinja_run *r, struct jinja_value v,
                                       const struct jinja_args *a)
{
    const int64_t digits = jinja_argument_int(r, a, 0, 0, "round");
    const struct jinja_value method = jinja_argument(a, 1);
    const bool up = jinja_is_text(method) && jinja_string_is(method.text, "ceil");
    const bool down = jinja_is_text(method) && jinja_string_is(method.text, "floor");
    if (!jinja_is_number(v))
        jinja_fail(r, "round needs a number, not a %s", jinja_value_kind_name(v));
    if (jinja_is_given(method) && !up && !down &&
        !(jinja_is_text(method) && jinja_string_is(method.text, "common")))
        jinja_fail(r, "round's method is common, ceil or floor");
    if (r->failed) return v;
    if (!up && !down)
        return v.kind == JINJA_REAL ? jinja_value_real(round_digits(v.real, digits))
               : digits >= 0
                   ? jinja_value_int(jinja_value_as_int(v))
                   : jinja_value_int((int64_t)round_digits(jinja_value_as_real(v), digits));
    const double scale = pow(10, (double)digits), x = jinja_value_as_real(v) * scale;
    return jinja_value_real((up ? ceil(x) : floor(x)) / scale);
}

// --- texts -------------------------------------------------------------------------------------

#define CASE_FILTER(name, how)                                                         \
    static struct jinja_value filter_##name(struct jinja_run *r, struct jinja_value v, \
                                            const struct jinja_args *a)                \
    {                                                                                  \
        (void)a;                                                                       \
        return jinja_string_case(r, jinja_string_of(r, v), how);                       \
    }

CASE_FILTER(upper, CASE_UPPER)
CASE_FILTER(lower, CASE_LOWER)
CASE_FILTER(capitalize, CASE_CAPITAL)
CASE_FILTER(title, CASE_TITLE_WORDS)

static struct jinja_value filter_trim(struct jinja_run *r, struct jinja_value v,
                                      const struct jinja_args *a)
{
    const struct jinja_value chars = jinja_argument(a, 0);
    const bool given = jinja_is_given(chars) && chars.kind != JINJA_NONE;
    return jinja_string_strip(r, jinja_string_of(r, v),
                              given ? jinja_need_text(r, chars, "trim") : NULL, 3);
}

static struct jinja_value filter_replace(struct jinja_run *r, struct jinja_value v,
                                         const struct jinja_args *a)
{
    const struct jinja_value count = jinja_argument(a, 2);
    const int64_t n = jinja_is_given(count) && count.kind != JINJA_NONE
                          ? jinja_argument_int(r, a, 2, -1, "replace")
                          : -1;
    return jinja_string_replace(r, jinja_string_of(r, v), jinja_string_of(r, jinja_argument(a, 0)),
                                jinja_string_of(r, jinja_argument(a, 1)), n);
}

static struct jinja_value filter_format(struct jinja_run *r, struct jinja_value v,
                                        const struct jinja_args *a)
{
    struct jinja_list *list = jinja_list_new(r->room);
    for (size_t i = 0; i < a->count; i++) jinja_list_push(r->room, list, a->at[i]);
    if (!a->named_count)
        return jinja_format_printf(r, jinja_string_of(r, v), jinja_list_value(JINJA_TUPLE, list));
    const struct jinja_value dict = jinja_dict(r->room);
    for (size_t i = 0; i < a->named_count; i++) jinja_set(r->room, dict, a->names[i], a->named[i]);
    return jinja_format_printf(r, jinja_string_of(r, v), dict);
}

static struct jinja_value filter_indent(struct jinja_run *r, struct jinja_value v,
                                        const struct jinja_args *a)
{
    const struct jinja_string *s = jinja_need_text(r, v, "indent");
    const bool first = jinja_argument_true(a, 1, false), blank = jinja_argument_true(a, 2, false);
    const struct jinja_value width = jinja_argument(a, 0);
    struct builder b = { .r = r };
    const struct jinja_string *by =
        jinja_is_text(width)
            ? width.text
            : jinja_eval_binary(r, N_MULTIPLY, jinja_value_words(r, " "),
                                jinja_value_int(jinja_argument_int(r, a, 0, 4, "indent")))
                  .text;
    if (r->failed) return v;
    bool more = jinja_step(r, s->length / 8);
    for (size_t at = 0, next; more && jinja_step(r, 1); at = next) {
        const size_t end = jinja_line_end(s, at, &next);
        if (at == 0 ? first : blank || end > at) jinja_put_all(&b, by);
        jinja_put_piece(&b, s, at, end);
        more = next > end;
        if (more) jinja_put_derived(&b, "\n", 1, s, end);
    }
    return jinja_builder_value(&b);
}

static struct jinja_value filter_center(struct jinja_run *r, struct jinja_value v,
                                        const struct jinja_args *a)
{
    const struct jinja_string *s = jinja_string_of(r, v);
    const int64_t width = jinja_argument_int(r, a, 0, 80, "center"),
                  gap = width - jinja_string_characters(r, s);
    struct builder b = { .r = r };
    const int64_t left = gap > 0 ? gap / 2 + (gap & width & 1) : 0;
    for (int64_t i = 0; i < left && !r->failed; i++) jinja_put_words(&b, " ");
    jinja_put_all(&b, s);
    for (int64_t i = left; i < gap && !r->failed; i++) jinja_put_words(&b, " ");
    return jinja_builder_value(&b);
}

static struct jinja_value filter_truncate(struct jinja_run *r, struct jinja_value v,
                                          const struct jinja_args *a)
{
    const struct jinja_string *s = jinja_string_of(r, v);
    const int64_t most = jinja_argument_int(r, a, 0, 255, "truncate");
    const struct jinja_value dots =
        jinja_is_given(jinja_argument(a, 2)) ? jinja_argument(a, 2) : jinja_value_words(r, "...");
    const int64_t leeway = jinja_argument_int(r, a, 3, 5, "truncate");
    const struct jinja_string *end = jinja_string_of(r, dots),
                              space = { .bytes = " ", .length = 1 };
    struct builder b = { .r = r };
    const int64_t taken = most - jinja_string_characters(r, end);
    if (taken < 0 || leeway < 0) jinja_fail(r, "truncate: the length is too small");
    if (r->failed || jinja_string_characters(r, s) <= most + leeway) return jinja_value_string(s);
    size_t stop = jinja_string_at(s, taken);
    if (!jinja_argument_true(a, 1, false)) {
        const size_t word = jinja_string_find_last(r, s, &space, stop);
        if (word != SIZE_MAX) stop = word;
    }
    jinja_put_piece(&b, s, 0, stop);
    jinja_put_all(&b, end);
    return jinja_builder_value(&b);
}

static bool word_at(const struct jinja_string *s, size_t at, size_t *length)
{
    const int32_t c = jinja_char_at(s->bytes + at, s->length - at, length);
    return jinja_char_is_name(c, false);
}

static struct jinja_value filter_wordcount(struct jinja_run *r, struct jinja_value v,
                                           const struct jinja_args *a)
{
    const struct jinja_string *s = jinja_string_of(r, v);
    int64_t words = 0;
    bool inside = false;
    (void)a;
    jinja_step(r, s->length / 8);
    for (size_t i = 0, n; i < s->length && !r->failed; i += n) {
        const bool word = word_at(s, i, &n);
        words += word && !inside;
        inside = word;
    }
    return jinja_value_int(words);
}

static struct jinja_value filter_urlencode(struct jinja_run *r, struct jinja_value v,
                                           const struct jinja_args *a)
{
    const struct jinja_string *s = jinja_string_of(r, v);
    struct builder b = { .r = r };
    (void)a;
    for (size_t i = 0; i < s->length && jinja_step(r, 1); i++) {
        const unsigned char c = (unsigned char)s->bytes[i];
        char code[8];
        const bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                           (c && strchr("_.-~/", c));
        if (plain) {
            jinja_put_piece(&b, s, i, i + 1);
        } else {
            snprintf(code, sizeof code, "%%%02X", c);
            jinja_put_derived(&b, code, 3, s, i);
        }
    }
    return jinja_builder_value(&b);
}

const struct jinja_callable *jinja_filter(const char *name)
{
    static const struct jinja_callable filters[] = {
        { "default", filter_default, "default_value boolean", 0 },
        { "d", filter_default, "default_value boolean", 0 },
        { "string", filter_string, "", 0 },
        { "length", filter_length, "", 0 },
        { "count", filter_length, "", 0 },
        { "safe", filter_safe, "", 0 },
        { "escape", filter_escape, "", 0 },
        { "e", filter_escape, "", 0 },
        { "forceescape", filter_forceescape, "", 0 },
        { "tojson", filter_tojson, "ensure_ascii indent separators sort_keys", 0 },
        { "attr", filter_attr, "name", 1 },
        { "int", filter_int, "default base", 0 },
        { "float", filter_float, "default", 0 },
        { "abs", filter_abs, "", 0 },
        { "round", filter_round, "precision method", 0 },
        { "upper", filter_upper, "", 0 },
        { "lower", filter_lower, "", 0 },
        { "capitalize", filter_capitalize, "", 0 },
        { "title", filter_title, "", 0 },
        { "trim", filter_trim, "chars", 0 },
        { "replace", filter_replace, "old new count", 2 },
        { "format", filter_format, "*", 0 },
        { "indent", filter_indent, "width first blank", 0 },
        { "center", filter_center, "width", 0 },
        { "truncate", filter_truncate, "length killwords end leeway", 0 },
        { "wordcount", filter_wordcount, "", 0 },
        { "urlencode", filter_urlencode, "", 0 },
    };
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (!strcmp(filters[i].name, name)) return &filters[i];
    for (const struct jinja_callable *f = jinja_filters_of_lists; f->name; f++)
        if (!strcmp(f->name, name)) return f;
    return NULL;
}
