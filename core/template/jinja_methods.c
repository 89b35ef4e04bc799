// core/template/jinja_methods.c -- methods of str, list and dict.
#include <string.h>

#include "core/template/jinja_parts.h"

#define METHOD(kind, name)                                                             \
    static struct jinja_value kind##_##name(struct jinja_run *r, struct jinja_value v, \
                                            const struct jinja_args *a)

#define CASE_METHOD(name, how)                    \
    METHOD(text, name)                            \
    {                                             \
        return jinja_string_case(r, v.text, how); \
    }

// --- texts -------------------------------------------------------------------------------------

CASE_METHOD(upper, CASE_UPPER)
CASE_METHOD(lower, CASE_LOWER)
CASE_METHOD(title, CASE_TITLE)
CASE_METHOD(capitalize, CASE_CAPITAL)

// Does it begin, or end, with the text that the first argument is?
static bool has_edge(struct jinja_run *r, const struct jinja_string *s, const struct jinja_args *a,
                     bool at_end, const char *who)
{
    const struct jinja_string *part = jinja_need_text(r, a->at[0], who);
    if (!part || part->length > s->length || !jinja_step(r, 1 + part->length / 64)) return false;
    return !part->length ||
           !memcmp(s->bytes + (at_end ? s->length - part->length : 0), part->bytes, part->length);
}

METHOD(text, startswith)
{
    return jinja_bool(has_edge(r, v.text, a, false, "startswith"));
}

METHOD(text, endswith)
{
    return jinja_bool(has_edge(r, v.text, a, true, "endswith"));
}

METHOD(text, removeprefix)
{
    if (!has_edge(r, v.text, a, false, "removeprefix")) return v;
    return jinja_string_piece(r, v.text, a->at[0].text->length, v.text->length);
}

METHOD(text, removesuffix)
{
    if (!has_edge(r, v.text, a, true, "removesuffix")) return v;
    return jinja_string_piece(r, v.text, 0, v.text->length - a->at[0].text->length);
}

METHOD(text, find)
{
    const struct jinja_string *part = jinja_need_text(r, a->at[0], "find");
    const size_t at = part ? jinja_string_find(r, v.text, part, 0) : SIZE_MAX;
    const struct jinja_string before = { .bytes = v.text->bytes, .length = at };
    return jinja_value_int(at == SIZE_MAX ? -1 : jinja_string_characters(r, &before));
}

METHOD(text, count)
{
    const struct jinja_string *part = jinja_need_text(r, a->at[0], "count");
    int64_t n = 0;
    if (part && !part->length) return jinja_value_int(jinja_string_characters(r, v.text) + 1);
    for (size_t from = 0, at; part; n++, from = at + part->length)
        if ((at = jinja_string_find(r, v.text, part, from)) == SIZE_MAX) break;
    return jinja_value_int(n);
}

METHOD(text, replace)
{
    const struct jinja_string *old = jinja_need_text(r, jinja_argument(a, 0), "replace");
    const struct jinja_string *new = jinja_need_text(r, jinja_argument(a, 1), "replace");
    const int64_t count = jinja_argument_int(r, a, 2, -1, "replace");
    return r->failed ? v : jinja_string_replace(r, v.text, old, new, count);
}

static struct jinja_value strip(struct jinja_run *r, struct jinja_value v,
                                const struct jinja_args *a, int sides)
{
    const struct jinja_value chars = jinja_argument(a, 0);
    const bool given = jinja_is_given(chars) && chars.kind != JINJA_NONE;
    const struct jinja_string *set = given ? jinja_need_text(r, chars, "strip") : NULL;
    return r->failed ? v : jinja_string_strip(r, v.text, set, sides);
}

METHOD(text, strip)
{
    return strip(r, v, a, 3);
}

METHOD(text, lstrip)
{
    return strip(r, v, a, 1);
}

METHOD(text, rstrip)
{
    return strip(r, v, a, 2);
}

// Words between white space, at most `most` cuts; the rest is the last word.
static void split_words(struct jinja_run *r, const struct jinja_string *s, int64_t most,
                        struct jinja_list *list)
{
    size_t at = 0, n;
    if (!jinja_step(r, s->length / 8)) return;
    for (;;) {
        while (at < s->length && (n = jinja_space_start(s->bytes + at, s->length - at))) at += n;
        if (at >= s->length || !jinja_step(r, 1)) return;
        size_t end = at;
        while (end < s->length && !jinja_space_start(s->bytes + end, s->length - end)) end++;
        if (most-- <= 0) {
            end = s->length;
            while ((n = jinja_space_end(s->bytes + at, end - at))) end -= n;
        }
        jinja_list_push(r->room, list, jinja_string_piece(r, s, at, end));
        at = end;
    }
}

static void split_at(struct jinja_run *r, const struct jinja_string *s,
                     const struct jinja_string *by, int64_t most, struct jinja_list *list)
{
    size_t from = 0, at;
    while (most-- > 0 && (at = jinja_string_find(r, s, by, from)) != SIZE_MAX) {
        jinja_list_push(r->room, list, jinja_string_piece(r, s, from, at));
        from = at + by->length;
    }
    jinja_list_push(r->room, list, jinja_string_piece(r, s, from, s->length));
}

METHOD(text, split)
{
    struct jinja_list *list = jinja_list_new(r->room);
    const struct jinja_value by = jinja_argument(a, 0);
    int64_t most = jinja_argument_int(r, a, 1, -1, "split");
    if (most < 0) most = INT64_MAX;
    if (!jinja_is_given(by) || by.kind == JINJA_NONE) {
        split_words(r, v.text, most, list);
    } else if (jinja_need_text(r, by, "split")) {
        if (!by.text->length) jinja_fail(r, "split: the separator is empty");
        if (!r->failed) split_at(r, v.text, by.text, most, list);
    }
    return jinja_list_value(JINJA_LIST, list);
}

METHOD(text, splitlines)
{
    struct jinja_list *list = jinja_list_new(r->room);
    jinja_step(r, v.text->length / 8);
    for (size_t at = 0, next; at < v.text->length && jinja_step(r, 1); at = next)
        jinja_list_push(r->room, list,
                        jinja_string_piece(r, v.text, at, jinja_line_end(v.text, at, &next)));
    return jinja_list_value(JINJA_LIST, list);
}

METHOD(text, join)
{
    struct jinja_list *items = jinja_value_items(r, a->at[0]);
    struct builder b = { .r = r };
    for (size_t i = 0; items && i < items->count && !r->failed; i++) {
        const struct jinja_string *s = jinja_need_text(r, items->items[i], "join");
        if (i) jinja_put_all(&b, v.text);
        if (s) jinja_put_all(&b, s);
    }
    return jinja_builder_value(&b);
}

// "{}" and "{name}", "{{" and "}}". Widths, kinds, numbers and attributes of places are not known.
METHOD(text, format)
{
    const struct jinja_string *s = v.text;
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
        const char *name = s->bytes + i + 1, *end = c == '{' ? strchr(name, '}') : NULL;
        if (!end) {
            jinja_fail(r, "format: a single '%c'", c);
            break;
        }
        const int length = (int)(end - name);
        struct jinja_value field = { 0 };
        if (!length) field = jinja_argument(a, next++);
        for (size_t k = 0; length && k < a->named_count && jinja_step(r, 1); k++)
            if (!strncmp(a->names[k], name, (size_t)length) && !a->names[k][length])
                field = a->named[k];
        if (!jinja_is_given(field))
            jinja_fail(r, "format has no value for '{%.*s}'", length > 60 ? 60 : length, name);
        jinja_put_show(&b, field);
        from = i = (size_t)(end - s->bytes) + 1;
    }
    jinja_put_piece(&b, s, from, s->length);
    return jinja_builder_value(&b);
}

// --- lists -------------------------------------------------------------------------------------

METHOD(list, append)
{
    if (v.list->count >= JINJA_STEPS || !jinja_step(r, 1)) return jinja_value_none();
    jinja_list_push(r->room, v.list, a->at[0]);
    return jinja_value_none();
}

METHOD(list, extend)
{
    const struct jinja_list *more = jinja_value_items(r, a->at[0]);
    if (more) jinja_list_extend(r, v.list, more->items, more->count);
    return jinja_value_none();
}

METHOD(list, pop)
{
    const int64_t n = (int64_t)v.list->count;
    int64_t at = jinja_argument_int(r, a, 0, -1, "pop");
    if (at < 0) at += n;
    if (at < 0 || at >= n) jinja_fail(r, "pop: there is no such item");
    if (r->failed || !jinja_step(r, 1 + (size_t)(n - at) / 4)) return jinja_value_none();
    const struct jinja_value item = v.list->items[at];
    v.list->count--;
    memmove(v.list->items + at, v.list->items + at + 1,
            (size_t)(n - at - 1) * sizeof *v.list->items);
    return item;
}

// --- dicts -------------------------------------------------------------------------------------

static struct jinja_value view(struct jinja_run *r, const struct jinja_dict *d, bool keys,
                               bool values)
{
    struct jinja_list *list = jinja_list_new(r->room);
    for (size_t i = 0; i < d->count && jinja_step(r, 1); i++)
        jinja_list_push(r->room, list,
                        keys && values ? jinja_pair(r->room, d->keys[i], d->values[i])
                        : keys         ? d->keys[i]
                                       : d->values[i]);
    return jinja_list_value(JINJA_VIEW, list);
}

METHOD(dict, keys)
{
    return view(r, v.dict, true, false);
}

METHOD(dict, values)
{
    return view(r, v.dict, false, true);
}

METHOD(dict, items)
{
    return view(r, v.dict, true, true);
}

METHOD(dict, get)
{
    const int64_t i = jinja_dict_find(r, v.dict, a->at[0]);
    if (i >= 0) return v.dict->values[i];
    return jinja_is_given(jinja_argument(a, 1)) ? a->at[1] : jinja_value_none();
}

METHOD(dict, update)
{
    jinja_dict_update(r, v, a, "update takes a dict and keywords");
    return jinja_value_none();
}

// --- the tables --------------------------------------------------------------------------------

static const struct jinja_callable of_text[] = {
    { "upper", text_upper, "", 0 },
    { "lower", text_lower, "", 0 },
    { "title", text_title, "", 0 },
    { "capitalize", text_capitalize, "", 0 },
    { "startswith", text_startswith, "prefix", 1 },
    { "endswith", text_endswith, "suffix", 1 },
    { "removeprefix", text_removeprefix, "prefix", 1 },
    { "removesuffix", text_removesuffix, "suffix", 1 },
    { "find", text_find, "sub", 1 },
    { "count", text_count, "sub", 1 },
    { "replace", text_replace, "old new count", 2 },
    { "strip", text_strip, "chars", 0 },
    { "lstrip", text_lstrip, "chars", 0 },
    { "rstrip", text_rstrip, "chars", 0 },
    { "split", text_split, "sep maxsplit", 0 },
    { "splitlines", text_splitlines, "", 0 },
    { "join", text_join, "iterable", 1 },
    { "format", text_format, "*", 0 },
    { 0 },
};
static const struct jinja_callable of_list[] = {
    { "append", list_append, "object", 1 },
    { "extend", list_extend, "iterable", 1 },
    { "pop", list_pop, "index", 0 },
    { 0 },
};
static const struct jinja_callable of_dict[] = {
    { "get", dict_get, "key default", 1 }, { "keys", dict_keys, "", 0 },
    { "values", dict_values, "", 0 },      { "items", dict_items, "", 0 },
    { "update", dict_update, "*", 0 },     { 0 },
};

const struct jinja_callable *jinja_method_of(struct jinja_value v, const char *name)
{
    return jinja_callable_find(v.kind == JINJA_TEXT   ? of_text
                               : v.kind == JINJA_LIST ? of_list
                               : v.kind == JINJA_DICT ? of_dict
                                                      : NULL,
                               name);
}
