// core/text/jinja_format.c -- "%s" % x and "{}".format(x), in the forms that templates use.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text/jinja_parts.h"

enum { WIDTH_MAX = 1000 };

// One place in a format: flags, width, precision, kind.
struct place {
    bool left, plus, space, zero, centre;
    int width, precision;            // -1: none
    char kind;                       // 0: none
    const struct jinja_string *fill; // NULL: a blank
};

// A number's digits at *i; -1 without any, or too many.
static int read_count(const struct jinja_string *s, size_t *i, size_t end)
{
    int n = -1;
    for (; *i < end && s->bytes[*i] >= '0' && s->bytes[*i] <= '9'; ++*i)
        n = n > WIDTH_MAX ? n : 10 * (n < 0 ? 0 : n) + s->bytes[*i] - '0';
    return n > WIDTH_MAX ? WIDTH_MAX : n;
}

static void put_fill(struct builder *b, const struct place *p, int64_t n)
{
    for (; n > 0 && !b->r->failed; n--) {
        if (p->fill)
            jinja_put_all(b, p->fill);
        else
            jinja_put_words(b, p->zero ? "0" : " ");
    }
}

static void put_padded(struct builder *b, const struct place *p, const struct jinja_string *s)
{
    const int64_t gap = p->width - jinja_string_characters(b->r, s);
    const int64_t left = p->left ? 0 : p->centre ? gap / 2 : gap;
    const bool sign = p->zero && !p->left && s->length && strchr("+- ", *s->bytes);
    jinja_put_piece(b, s, 0, sign);
    put_fill(b, p, left);
    jinja_put_piece(b, s, sign, s->length);
    put_fill(b, p, gap > 0 ? gap - (left > 0 ? left : 0) : 0);
}

// A number in the kind of a place; false: that kind is not for numbers.
static bool show_number(const struct place *p, struct jinja_value v, char *text, size_t size)
{
    char form[24];
    const char *sign = p->plus ? "+" : p->space ? " " : "";
    const int precision = p->precision < 0 ? 6 : p->precision;
    if (!p->kind || !jinja_is_number(v)) return false;
    if (strchr("feEgG%", p->kind)) {
        const char kind = p->kind == '%' ? 'f' : p->kind;
        const double x = jinja_value_as_real(v) * (p->kind == '%' ? 100 : 1);
        // A form such as "%+.*f", made of the letters checked above.
        snprintf(form, sizeof form, "%%%s.*%c%s", sign, kind, p->kind == '%' ? "%%" : "");
        snprintf(text, size, form, precision, x);
        return true;
    }
    if (!strchr("diuxXob", p->kind) || p->kind == 'b') return false;
    const int64_t n = v.kind == JINJA_REAL ? (int64_t)v.real : jinja_value_as_int(v);
    if (strchr("diu", p->kind))
        snprintf(text, size, *sign == '+' ? "%+lld" : *sign ? "% lld" : "%lld", (long long)n);
    else {
        const unsigned long long positive =
            n < 0 ? 0 - (unsigned long long)n : (unsigned long long)n;
        snprintf(text, size,
                 p->kind == 'x'   ? "%s%llx"
                 : p->kind == 'X' ? "%s%llX"
                                  : "%s%llo",
                 n < 0 ? "-" : sign, positive);
    }
    return true;
}

static void put_value(struct builder *b, const struct place *p, struct jinja_value v)
{
    char text[1400];
    struct builder part = { .r = b->r };
    if (v.kind == JINJA_REAL && fabs(v.real) > 9e18 && p->kind && strchr("diuxXo", p->kind))
        jinja_fail(b->r, "format: a number is too large");
    if (b->r->failed) return;
    if (show_number(p, v, text, sizeof text)) {
        jinja_put_words(&part, text);
    } else if (p->kind == 'r' || p->kind == 'a') {
        jinja_put_repr(&part, v);
    } else if (p->kind && p->kind != 's' && p->kind != 'c') {
        jinja_fail(b->r, "format: '%c' does not show a %s", p->kind, jinja_value_kind_name(v));
    } else {
        const struct jinja_string *s = jinja_string_of(b->r, v);
        jinja_put_piece(&part, s, 0,
                        p->precision < 0 ? s->length : jinja_string_at(s, p->precision));
    }
    put_padded(b, p, jinja_builder_value(&part).text);
}

// --- % -----------------------------------------------------------------------------------------

struct values {
    struct jinja_value all;
    size_t next;
};

static struct jinja_value next_value(struct jinja_run *r, struct values *v)
{
    if (v->all.kind != JINJA_TUPLE && v->next++ == 0) return v->all;
    if (v->all.kind == JINJA_TUPLE && v->next < v->all.list->count)
        return v->all.list->items[v->next++];
    jinja_fail(r, "a format has more places than there are values");
    return jinja_value_none();
}

// "(name)" at *i: that value of a dict.
static bool named_value(struct jinja_run *r, const struct jinja_string *s, size_t *i,
                        struct jinja_value all, struct jinja_value *v)
{
    const char *end = s->bytes[*i] == '(' ? strchr(s->bytes + *i, ')') : NULL;
    if (!end) return false;
    const struct jinja_value name = jinja_string_piece(r, s, *i + 1, (size_t)(end - s->bytes));
    *i = (size_t)(end - s->bytes) + 1;
    if (all.kind != JINJA_DICT)
        jinja_fail(r, "a format with names needs a dict");
    else if (jinja_dict_find(r, all.dict, name) < 0)
        jinja_fail(r, "a format has no value for '%.60s'", name.text->bytes);
    else
        *v = all.dict->values[jinja_dict_find(r, all.dict, name)];
    return true;
}

struct jinja_value jinja_format_printf(struct jinja_run *r, const struct jinja_string *s,
                                       struct jinja_value all)
{
    struct builder b = { .r = r };
    struct values values = { .all = all };
    bool names = false;
    for (size_t i = 0, from = 0; !r->failed; from = i) {
        while (i < s->length && s->bytes[i] != '%') i++;
        jinja_put_piece(&b, s, from, i);
        if (i++ >= s->length) break;
        struct place p = { 0 };
        struct jinja_value v = { 0 };
        const bool named = named_value(r, s, &i, all, &v);
        names |= named;
        for (; i < s->length && s->bytes[i] && strchr("-+ 0#", s->bytes[i]); i++) {
            p.left |= s->bytes[i] == '-';
            p.plus |= s->bytes[i] == '+';
            p.space |= s->bytes[i] == ' ';
            p.zero |= s->bytes[i] == '0';
        }
        p.width = read_count(s, &i, s->length);
        p.precision = -1;
        if (i < s->length && s->bytes[i] == '.') {
            i++;
            p.precision = read_count(s, &i, s->length);
            if (p.precision < 0) p.precision = 0;
        }
        p.kind = i < s->length ? s->bytes[i++] : '\0';
        if (p.kind == '%') {
            jinja_put_words(&b, "%");
            continue;
        }
        if (!p.kind || !strchr("diuxXofFeEgGrsac", p.kind))
            jinja_fail(r, "a format has a '%%' with nothing known behind it");
        if (p.kind == 'F') p.kind = 'f';
        if (!named && !r->failed) v = next_value(r, &values);
        if (p.zero && !jinja_is_number(v)) p.zero = false;
        put_value(&b, &p, v);
    }
    const bool one = jinja_is_text(all) || jinja_is_number(all) || all.kind == JINJA_NONE;
    const size_t count = all.kind == JINJA_TUPLE ? all.list->count : one;
    if (!r->failed && !names && values.next < count)
        jinja_fail(r, "a format has fewer places than there are values");
    return jinja_builder_value(&b);
}

// --- {} ----------------------------------------------------------------------------------------

// What the name of a place means: a number, a keyword, then ".attribute" and "[index]".
static struct jinja_value field_value(struct jinja_run *r, const struct jinja_string *s, size_t at,
                                      size_t end, const struct jinja_args *args, size_t *next)
{
    size_t stop = at;
    while (stop < end && s->bytes[stop] != '.' && s->bytes[stop] != '[') stop++;
    const struct jinja_string *name = jinja_string_piece(r, s, at, stop).text;
    struct jinja_value v = { 0 };
    if (!name->length) {
        v = jinja_argument(args, (*next)++);
    } else if (jinja_string_all(name, CHARS_DECIMAL) && name->length < 5) {
        v = jinja_argument(args, (size_t)strtol(name->bytes, NULL, 10));
    } else {
        for (size_t i = 0; i < args->named_count && jinja_step(r, 1); i++)
            if (!strcmp(args->names[i], name->bytes)) v = args->named[i];
    }
    if (!jinja_is_given(v)) jinja_fail(r, "format has no value for '{%.60s}'", name->bytes);
    while (stop < end && !r->failed) {
        const bool index = s->bytes[stop] == '[';
        size_t to = ++stop;
        while (to < end && (index ? s->bytes[to] != ']' : !strchr(".[", s->bytes[to]))) to++;
        const struct jinja_value part = jinja_string_piece(r, s, stop, to);
        if (index && jinja_string_all(part.text, CHARS_DECIMAL) && part.text->length < 10)
            v = jinja_value_index(r, v, jinja_value_int(strtol(part.text->bytes, NULL, 10)));
        else
            v = index ? jinja_value_index(r, v, part) : jinja_value_attribute(r, v, part.text);
        stop = to + index;
    }
    return v;
}

// "[[fill]align][sign][0][width][.precision][kind]" behind the colon.
static void read_spec(struct jinja_run *r, const struct jinja_string *s, size_t i, size_t end,
                      bool number, struct place *p)
{
    const size_t one = i < end ? jinja_char_length(s->bytes + i, end - i) : 0;
    char align = '\0';
    if (i + one < end && strchr("<>^", s->bytes[i + one])) {
        p->fill = jinja_string_piece(r, s, i, i + one).text;
        i += one;
    }
    if (i < end && strchr("<>^", s->bytes[i])) align = s->bytes[i++];
    if (i < end && strchr("+- ", s->bytes[i])) {
        p->plus = s->bytes[i] == '+';
        p->space = s->bytes[i++] == ' ';
    }
    if (i < end && s->bytes[i] == '0' && !align) {
        p->zero = number;
        i++;
    }
    p->width = read_count(s, &i, end);
    if (i < end && s->bytes[i] == '.') {
        i++;
        p->precision = read_count(s, &i, end);
    }
    if (i < end) p->kind = s->bytes[i++];
    if (i < end || (p->kind && !strchr("sdxXofeEgG%", p->kind)))
        jinja_fail(r, "format: what stands behind ':' is not known");
    p->left = align == '<' || (!align && !number);
    p->centre = align == '^';
}

static void put_field(struct builder *b, const struct jinja_string *s, size_t at, size_t end,
                      const struct jinja_args *args, size_t *next)
{
    struct jinja_run *r = b->r;
    size_t colon = at, name_end;
    while (colon < end && s->bytes[colon] != ':') colon++;
    name_end = colon;
    const bool shown = name_end >= at + 2 && s->bytes[name_end - 2] == '!';
    if (shown) name_end -= 2;
    struct jinja_value v = field_value(r, s, at, name_end, args, next);
    if (r->failed) return;
    if (shown && s->bytes[name_end + 1] == 'r') {
        struct builder text = { .r = r };
        jinja_put_repr(&text, v);
        v = jinja_builder_value(&text);
    } else if (shown) {
        v = jinja_value_string(jinja_string_of(r, v));
    }
    struct place p = { .precision = -1 };
    const bool number = jinja_is_number(v) && v.kind != JINJA_BOOL;
    if (colon < end) read_spec(r, s, colon + 1, end, number, &p);
    put_value(b, &p, v);
}

struct jinja_value jinja_format_braces(struct jinja_run *r, const struct jinja_string *s,
                                       const struct jinja_args *args)
{
    struct builder b = { .r = r };
    size_t from = 0, next = 0;
    for (size_t i = 0; i < s->length && jinja_step(r, 1);) {
        const char c = s->bytes[i];
        if (c != '{' && c != '}') {
            i++;
            continue;
        }
        jinja_put_piece(&b, s, from, i);
        if (s->bytes[i + 1] == c) {
            jinja_put_piece(&b, s, i, i + 1);
            from = i += 2;
            continue;
        }
        const char *end = c == '{' ? strchr(s->bytes + i, '}') : NULL;
        if (!end) {
            jinja_fail(r, "format: a single '%c'", c);
            break;
        }
        put_field(&b, s, i + 1, (size_t)(end - s->bytes), args, &next);
        from = i = (size_t)(end - s->bytes) + 1;
    }
    jinja_put_piece(&b, s, from, s->length);
    return jinja_builder_value(&b);
}
