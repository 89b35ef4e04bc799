// core/template/jinja_methods.c -- methods of str, list and dict.
#include <string.h>

#include "core/template/jinja_parts.h"

#define METHOD(kind, name)                                                             \
    static struct jinja_value kind##_##name(struct jinja_run *r, struct jinja_value v, \
                                            const struct jinja_args *a)

// --- texts -------------------------------------------------------------------------------------

struct jinja_value jinja_call_case(struct jinja_run *r, struct jinja_value v,
                                   const struct jinja_args *a)
{
    return jinja_string_case(r, jinja_string_of(r, v), (enum letter_case)a->call->how);
}

enum edge { AT_START, AT_END, REMOVE_START, REMOVE_END };

// Tests whether the text begins or ends with the first argument, or removes it.
METHOD(text, edge)
{
    const struct jinja_string *part = jinja_need_text(r, a->at[0], a->call->name), *s = v.text;
    const bool removes = a->call->how >= REMOVE_START, at_end = a->call->how % 2 == AT_END;
    bool has = part && part->length <= s->length && jinja_step(r, 1 + part->length / 64);
    if (has && part->length)
        has =
            !memcmp(s->bytes + (at_end ? s->length - part->length : 0), part->bytes, part->length);
    if (!removes) return jinja_bool(has);
    if (!has) return v;
    return at_end ? jinja_string_piece(r, s, 0, s->length - part->length)
                  : jinja_string_piece(r, s, part->length, s->length);
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

struct jinja_value jinja_call_strip(struct jinja_run *r, struct jinja_value v,
                                    const struct jinja_args *a)
{
    const struct jinja_value chars = jinja_argument(a, 0);
    const bool given = jinja_is_given(chars) && chars.kind != JINJA_NONE;
    const struct jinja_string *s = jinja_string_of(r, v);
    const struct jinja_string *set = given ? jinja_need_text(r, chars, a->call->name) : NULL;
    return r->failed ? v : jinja_string_strip(r, s, set, a->call->how);
}

// Splits at white space; after `most` cuts, the rest is the last word.
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
        jinja_list_push(r->arena, list, jinja_string_piece(r, s, at, end));
        at = end;
    }
}

static void split_at(struct jinja_run *r, const struct jinja_string *s,
                     const struct jinja_string *by, int64_t most, struct jinja_list *list)
{
    size_t from = 0, at;
    while (most-- > 0 && (at = jinja_string_find(r, s, by, from)) != SIZE_MAX) {
        jinja_list_push(r->arena, list, jinja_string_piece(r, s, from, at));
        from = at + by->length;
    }
    jinja_list_push(r->arena, list, jinja_string_piece(r, s, from, s->length));
}

METHOD(text, split)
{
    struct jinja_list *list = jinja_list_new(r->arena);
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
    struct jinja_list *list = jinja_list_new(r->arena);
    jinja_step(r, v.text->length / 8);
    for (size_t at = 0, next; at < v.text->length && jinja_step(r, 1); at = next)
        jinja_list_push(r->arena, list,
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

// "{}" and "{name}", "{{" and "}}". Widths, types, numbers and attributes of fields are not
// supported.
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
    jinja_list_push(r->arena, v.list, a->at[0]);
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
    if (at < 0 || at >= n) jinja_fail(r, "pop: no such item");
    if (r->failed || !jinja_step(r, 1 + (size_t)(n - at) / 4)) return jinja_value_none();
    const struct jinja_value item = v.list->items[at];
    v.list->count--;
    memmove(v.list->items + at, v.list->items + at + 1,
            (size_t)(n - at - 1) * sizeof *v.list->items);
    return item;
}

// --- dicts -------------------------------------------------------------------------------------

enum view { KEYS = 1, VALUES = 2 };

METHOD(dict, view)
{
    const struct jinja_dict *d = v.dict;
    const int how = a->call->how;
    struct jinja_list *list = jinja_list_new(r->arena);
    for (size_t i = 0; i < d->count && jinja_step(r, 1); i++)
        jinja_list_push(r->arena, list,
                        how == (KEYS | VALUES) ? jinja_pair(r->arena, d->keys[i], d->values[i])
                        : how == KEYS          ? d->keys[i]
                                               : d->values[i]);
    return jinja_list_value(JINJA_VIEW, list);
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
    { "upper", jinja_call_case, "", 0, CASE_UPPER },
    { "lower", jinja_call_case, "", 0, CASE_LOWER },
    { "title", jinja_call_case, "", 0, CASE_TITLE },
    { "capitalize", jinja_call_case, "", 0, CASE_CAPITAL },
    { "startswith", text_edge, "prefix", 1, AT_START },
    { "endswith", text_edge, "suffix", 1, AT_END },
    { "removeprefix", text_edge, "prefix", 1, REMOVE_START },
    { "removesuffix", text_edge, "suffix", 1, REMOVE_END },
    { "find", text_find, "sub", 1, 0 },
    { "count", text_count, "sub", 1, 0 },
    { "replace", text_replace, "old new count", 2, 0 },
    { "strip", jinja_call_strip, "chars", 0, 3 },
    { "lstrip", jinja_call_strip, "chars", 0, 1 },
    { "rstrip", jinja_call_strip, "chars", 0, 2 },
    { "split", text_split, "sep maxsplit", 0, 0 },
    { "splitlines", text_splitlines, "", 0, 0 },
    { "join", text_join, "iterable", 1, 0 },
    { "format", text_format, "*", 0, 0 },
    { 0 },
};
static const struct jinja_callable of_list[] = {
    { "append", list_append, "object", 1, 0 },
    { "extend", list_extend, "iterable", 1, 0 },
    { "pop", list_pop, "index", 0, 0 },
    { 0 },
};
static const struct jinja_callable of_dict[] = {
    { "get", dict_get, "key default", 1, 0 }, { "keys", dict_view, "", 0, KEYS },
    { "values", dict_view, "", 0, VALUES },   { "items", dict_view, "", 0, KEYS | VALUES },
    { "update", dict_update, "*", 0, 0 },     { 0 },
};

const struct jinja_callable *jinja_method_of(struct jinja_value v, const char *name)
{
    return jinja_callable_find(v.kind == JINJA_TEXT   ? of_text
                               : v.kind == JINJA_LIST ? of_list
                               : v.kind == JINJA_DICT ? of_dict
                                                      : NULL,
                               name);
}
