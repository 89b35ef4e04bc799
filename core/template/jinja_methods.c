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

enum edge { AT_START, AT_END };

// Tests whether the text begins or ends with the argument.
METHOD(text, edge)
{
    const struct jinja_string *part = jinja_need_text(r, a->at[0], a->call->name), *s = v.text;
    if (!part || part->length > s->length || !jinja_step(r, 1 + part->length / 64))
        return jinja_bool(false);
    const size_t at = a->call->how == AT_END ? s->length - part->length : 0;
    return jinja_bool(!part->length || !memcmp(s->bytes + at, part->bytes, part->length));
}

METHOD(text, replace)
{
    const struct jinja_string *old = jinja_need_text(r, jinja_argument(a, 0), "replace");
    const struct jinja_string *new = jinja_need_text(r, jinja_argument(a, 1), "replace");
    return r->failed ? v : jinja_string_replace(r, v.text, old, new);
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

METHOD(text, split)
{
    const struct jinja_string *by = jinja_need_text(r, a->at[0], "split"), *s = v.text;
    struct jinja_list *list = jinja_list_new(r->arena);
    int64_t most = jinja_argument_int(r, a, 1, -1, "split");
    size_t from = 0, at;
    if (most < 0) most = INT64_MAX;
    if (by && !by->length) jinja_fail(r, "split: the separator is empty");
    if (!by || r->failed) return v;
    while (most-- > 0 && (at = jinja_string_find(r, s, by, from)) != SIZE_MAX) {
        jinja_list_push(r->arena, list, jinja_string_piece(r, s, from, at));
        from = at + by->length;
    }
    jinja_list_push(r->arena, list, jinja_string_piece(r, s, from, s->length));
    return jinja_list_value(JINJA_LIST, list);
}

// Replaces each field "{}" with the next argument; "{{" and "}}" are escaped braces. Fields with a
// name, number, width or type are not supported.
METHOD(text, format)
{
    const struct jinja_string *s = v.text;
    struct builder b = { .r = r };
    size_t from = 0, next = 0;
    for (size_t i = 0; i < s->length && jinja_step(r, 1);) {
        const char c = s->bytes[i], after = s->bytes[i + 1];
        if (c != '{' && c != '}') {
            i++;
            continue;
        }
        jinja_put_piece(&b, s, from, i);
        if (after == c) {
            jinja_put_piece(&b, s, i, i + 1);
        } else if (c == '{' && after == '}') {
            const struct jinja_value field = jinja_argument(a, next++);
            if (!jinja_is_given(field)) jinja_fail(r, "format has no value for '{}'");
            jinja_put_show(&b, field);
        } else {
            jinja_unknown(r, "a field of format other than '{}' is not supported");
        }
        from = i += 2;
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

METHOD(dict, keys)
{
    return jinja_list_value(JINJA_VIEW, jinja_value_items(r, v));
}

METHOD(dict, items)
{
    return jinja_list_value(JINJA_VIEW, jinja_dict_pairs(r, v.dict));
}

METHOD(dict, get)
{
    const int64_t i = jinja_dict_find(r, v.dict, a->at[0]);
    if (i >= 0) return v.dict->entries[i].value;
    return jinja_is_given(jinja_argument(a, 1)) ? a->at[1] : jinja_value_none();
}

// --- the tables --------------------------------------------------------------------------------

static const struct jinja_callable of_text[] = {
    { "upper", jinja_call_case, "", 0, CASE_UPPER },
    { "title", jinja_call_case, "", 0, CASE_TITLE },
    { "startswith", text_edge, "prefix", 1, AT_START },
    { "endswith", text_edge, "suffix", 1, AT_END },
    { "replace", text_replace, "old new", 2, 0 },
    { "strip", jinja_call_strip, "chars", 0, 3 },
    { "lstrip", jinja_call_strip, "chars", 0, 1 },
    { "rstrip", jinja_call_strip, "chars", 0, 2 },
    { "split", text_split, "sep maxsplit", 1, 0 },
    { "format", text_format, "*", 0, 0 },
    { 0 },
};
static const struct jinja_callable of_list[] = {
    { "append", list_append, "object", 1, 0 },
    { "pop", list_pop, "index", 0, 0 },
    { 0 },
};
static const struct jinja_callable of_dict[] = {
    { "get", dict_get, "key default", 1, 0 },
    { "keys", dict_keys, "", 0, 0 },
    { "items", dict_items, "", 0, 0 },
    { 0 },
};

const struct jinja_callable *jinja_method_of(struct jinja_value v, const char *name)
{
    return jinja_callable_find(v.kind == JINJA_TEXT   ? of_text
                               : v.kind == JINJA_LIST ? of_list
                               : v.kind == JINJA_DICT ? of_dict
                                                      : NULL,
                               name);
}
