// core/text/jinja_methods.c -- methods of Python's str, list, tuple and dict, and of loops; those
// that split and join texts are in jinja_methods_split.c.
#include <string.h>

#include "core/text/jinja_parts.h"

#define METHOD(kind, name)                                                             \
    static struct jinja_value kind##_##name(struct jinja_run *r, struct jinja_value v, \
                                            const struct jinja_args *a)

#define CASE_METHOD(name, how)                    \
    METHOD(text, name)                            \
    {                                             \
        (void)a;                                  \
        return jinja_string_case(r, v.text, how); \
    }

#define ALL_METHOD(name, condition)                   \
    METHOD(text, name)                                \
    {                                                 \
        (void)a;                                      \
        jinja_step(r, v.text->length / 8);            \
        return jinja_bool(!r->failed && (condition)); \
    }

// --- texts -------------------------------------------------------------------------------------

CASE_METHOD(upper, CASE_UPPER)
CASE_METHOD(lower, CASE_LOWER)
CASE_METHOD(title, CASE_TITLE)
CASE_METHOD(capitalize, CASE_CAPITAL)
CASE_METHOD(swapcase, CASE_SWAP)
ALL_METHOD(isalpha, jinja_string_all(v.text, CHARS_ALPHA))
ALL_METHOD(isdigit, jinja_string_all(v.text, CHARS_DIGIT))
ALL_METHOD(isdecimal, jinja_string_all(v.text, CHARS_DECIMAL))
ALL_METHOD(isalnum, jinja_string_all(v.text, CHARS_ALNUM))
ALL_METHOD(isspace, jinja_string_all(v.text, CHARS_SPACE))
ALL_METHOD(isupper, jinja_string_has_case(v.text, CASE_UPPER))
ALL_METHOD(islower, jinja_string_has_case(v.text, CASE_LOWER))

// Bytes [start, end) that characters [from, to) of the arguments 1 and 2 are; false: they lie
// beyond the text.
static bool range_of(struct jinja_run *r, const struct jinja_string *s, const struct jinja_args *a,
                     size_t *start, size_t *end)
{
    const int64_t n = jinja_string_characters(r, s);
    int64_t bounds[2] = { 0, n };
    for (size_t i = 0; i < 2; i++) {
        const struct jinja_value v = jinja_argument(a, i + 1);
        if (!jinja_is_given(v) || v.kind == JINJA_NONE) continue;
        bounds[i] = jinja_argument_int(r, a, i + 1, 0, "a place in a text");
        if (bounds[i] < 0) bounds[i] = bounds[i] < -n ? 0 : bounds[i] + n;
        if (i == 1 && bounds[i] > n) bounds[i] = n;
    }
    if (bounds[0] > bounds[1]) return false;
    *start = jinja_string_at(s, bounds[0]);
    *end = jinja_string_at(s, bounds[1]);
    return !r->failed;
}

// Does it begin (or end) with the text, or one of the texts of a tuple?
static struct jinja_value edge(struct jinja_run *r, struct jinja_value v,
                               const struct jinja_args *a, bool at_end)
{
    const struct jinja_value what = jinja_argument(a, 0);
    size_t start, end;
    const bool several = what.kind == JINJA_TUPLE;
    if (!range_of(r, v.text, a, &start, &end)) return jinja_bool(false);
    for (size_t i = 0; i < (several ? what.list->count : 1) && !r->failed; i++) {
        const struct jinja_string *s = jinja_need_text(r, several ? what.list->items[i] : what,
                                                       at_end ? "endswith" : "startswith");
        if (!s || s->length > end - start || !jinja_step(r, 1 + s->length / 64)) continue;
        if (!s->length ||
            !memcmp(v.text->bytes + (at_end ? end - s->length : start), s->bytes, s->length))
            return jinja_bool(true);
    }
    return jinja_bool(false);
}

METHOD(text, startswith)
{
    return edge(r, v, a, false);
}

METHOD(text, endswith)
{
    return edge(r, v, a, true);
}

// Character number of a part; -1: nowhere.
static int64_t place_of(struct jinja_run *r, struct jinja_value v, const struct jinja_args *a,
                        bool last)
{
    const struct jinja_string *part = jinja_need_text(r, jinja_argument(a, 0), "find");
    size_t start, end;
    if (!part || !range_of(r, v.text, a, &start, &end)) return -1;
    const struct jinja_string within = { .bytes = v.text->bytes, .length = end };
    const size_t at = last ? jinja_string_find_last(r, &within, part, end)
                           : jinja_string_find(r, &within, part, start);
    if (at == SIZE_MAX || at < start) return -1;
    const struct jinja_string before = { .bytes = v.text->bytes, .length = at };
    return jinja_string_characters(r, &before);
}

METHOD(text, find)
{
    return jinja_value_int(place_of(r, v, a, false));
}

METHOD(text, rfind)
{
    return jinja_value_int(place_of(r, v, a, true));
}

METHOD(text, index)
{
    const int64_t at = place_of(r, v, a, false);
    if (at < 0) jinja_fail(r, "index: the text is not in the other");
    return jinja_value_int(at);
}

METHOD(text, rindex)
{
    const int64_t at = place_of(r, v, a, true);
    if (at < 0) jinja_fail(r, "rindex: the text is not in the other");
    return jinja_value_int(at);
}

METHOD(text, count)
{
    const struct jinja_string *part = jinja_need_text(r, jinja_argument(a, 0), "count");
    size_t start, end, at;
    int64_t n = 0;
    if (!part || !range_of(r, v.text, a, &start, &end)) return jinja_value_int(0);
    const struct jinja_string within = { .bytes = v.text->bytes, .length = end };
    if (!part->length) {
        const struct jinja_string piece = { .bytes = v.text->bytes + start, .length = end - start };
        return jinja_value_int(jinja_string_characters(r, &piece) + 1);
    }
    for (; (at = jinja_string_find(r, &within, part, start)) != SIZE_MAX; n++)
        start = at + part->length;
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

METHOD(text, removeprefix)
{
    const struct jinja_string *s = jinja_need_text(r, jinja_argument(a, 0), "removeprefix");
    const bool there = s && jinja_step(r, s->length / 64) && s->length <= v.text->length &&
                       !memcmp(v.text->bytes, s->bytes, s->length);
    return there ? jinja_string_piece(r, v.text, s->length, v.text->length) : v;
}

METHOD(text, removesuffix)
{
    const struct jinja_string *s = jinja_need_text(r, jinja_argument(a, 0), "removesuffix");
    const size_t end = s && s->length <= v.text->length ? v.text->length - s->length : 0;
    const bool there = s && jinja_step(r, s->length / 64) && s->length <= v.text->length &&
                       !memcmp(v.text->bytes + end, s->bytes, s->length);
    return there ? jinja_string_piece(r, v.text, 0, end) : v;
}

METHOD(text, format)
{
    return jinja_format_braces(r, v.text, a);
}

// Filled up to a width; where: 0 text left, 1 in the middle, 2 right.
static struct jinja_value fill(struct jinja_run *r, struct jinja_value v,
                               const struct jinja_args *a, int where)
{
    const int64_t width = jinja_argument_int(r, a, 0, 0, "the width of a text");
    const int64_t gap = width - jinja_string_characters(r, v.text);
    const struct jinja_string space = { .bytes = " ", .length = 1 };
    const struct jinja_string *with =
        jinja_is_given(jinja_argument(a, 1))
            ? jinja_need_text(r, jinja_argument(a, 1), "filling a text")
            : &space;
    struct builder b = { .r = r };
    if (gap <= 0 || r->failed) return v;
    const int64_t left = where == 0 ? 0 : where == 2 ? gap : gap / 2 + (gap & width & 1);
    for (int64_t i = 0; i < left && !r->failed; i++) jinja_put_all(&b, with);
    jinja_put_all(&b, v.text);
    for (int64_t i = left; i < gap && !r->failed; i++) jinja_put_all(&b, with);
    return jinja_builder_value(&b);
}

METHOD(text, ljust)
{
    return fill(r, v, a, 0);
}

METHOD(text, center)
{
    return fill(r, v, a, 1);
}

METHOD(text, rjust)
{
    return fill(r, v, a, 2);
}

METHOD(text, zfill)
{
    const struct jinja_string *s = v.text;
    const int64_t gap = jinja_argument_int(r, a, 0, 0, "zfill") - jinja_string_characters(r, s);
    const size_t sign = s->length && (*s->bytes == '-' || *s->bytes == '+');
    struct builder b = { .r = r };
    jinja_put_piece(&b, s, 0, sign);
    for (int64_t i = 0; i < gap && !r->failed; i++) jinja_put_words(&b, "0");
    jinja_put_piece(&b, s, sign, s->length);
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
    for (size_t i = 0; more && i < more->count && jinja_step(r, 1); i++)
        jinja_list_push(r->room, v.list, more->items[i]);
    return jinja_value_none();
}

METHOD(list, insert)
{
    const int64_t n = (int64_t)v.list->count;
    int64_t at = jinja_argument_int(r, a, 0, 0, "insert");
    if (at < 0) at = at < -n ? 0 : at + n;
    if (at > n) at = n;
    if (!jinja_step(r, (size_t)(n - at) + 1)) return jinja_value_none();
    jinja_list_push(r->room, v.list, a->at[1]);
    if ((int64_t)v.list->count == n) return jinja_value_none();
    memmove(v.list->items + at + 1, v.list->items + at, (size_t)(n - at) * sizeof *v.list->items);
    v.list->items[at] = a->at[1];
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

METHOD(list, clear)
{
    (void)a;
    (void)r;
    v.list->count = 0;
    return jinja_value_none();
}

METHOD(list, reverse)
{
    (void)a;
    for (size_t i = 0, n = v.list->count; i < n / 2 && jinja_step(r, 1); i++) {
        const struct jinja_value swap = v.list->items[i];
        v.list->items[i] = v.list->items[n - 1 - i];
        v.list->items[n - 1 - i] = swap;
    }
    return jinja_value_none();
}

METHOD(list, copy)
{
    (void)a;
    struct jinja_list *list = jinja_value_items(r, v);
    return list ? jinja_list_value(v.kind, list) : v;
}

METHOD(list, index)
{
    for (size_t i = 0; i < v.list->count && !r->failed; i++)
        if (jinja_value_equal(r, v.list->items[i], a->at[0])) return jinja_value_int((int64_t)i);
    jinja_fail(r, "index: the value is not in the list");
    return jinja_value_none();
}

METHOD(list, count)
{
    int64_t n = 0;
    for (size_t i = 0; i < v.list->count && !r->failed; i++)
        n += jinja_value_equal(r, v.list->items[i], a->at[0]);
    return jinja_value_int(n);
}

// --- dicts -------------------------------------------------------------------------------------

static struct jinja_value view(struct jinja_run *r, const struct jinja_dict *d, bool keys,
                               bool values, const char *label)
{
    struct jinja_list *list = jinja_list_new(r->room);
    list->label = label;
    for (size_t i = 0; i < d->count && jinja_step(r, 1); i++)
        jinja_list_push(r->room, list,
                        keys && values ? jinja_pair(r->room, d->keys[i], d->values[i])
                        : keys         ? d->keys[i]
                                       : d->values[i]);
    return jinja_list_value(JINJA_VIEW, list);
}

METHOD(dict, keys)
{
    (void)a;
    return view(r, v.dict, true, false, "dict_keys");
}

METHOD(dict, values)
{
    (void)a;
    return view(r, v.dict, false, true, "dict_values");
}

METHOD(dict, items)
{
    (void)a;
    return view(r, v.dict, true, true, "dict_items");
}

METHOD(dict, get)
{
    const int64_t i = jinja_dict_find(r, v.dict, a->at[0]);
    if (i >= 0) return v.dict->values[i];
    return jinja_is_given(jinja_argument(a, 1)) ? a->at[1] : jinja_value_none();
}

METHOD(dict, copy)
{
    const struct jinja_value copy = jinja_dict(r->room);
    (void)a;
    for (size_t i = 0; i < v.dict->count && !r->failed; i++)
        jinja_dict_put(r, copy.dict, v.dict->keys[i], v.dict->values[i]);
    return copy;
}

METHOD(dict, pop)
{
    const int64_t i = jinja_dict_find(r, v.dict, a->at[0]);
    if (i < 0) {
        if (!jinja_is_given(jinja_argument(a, 1))) jinja_fail(r, "pop: the dict has no such key");
        return jinja_argument(a, 1);
    }
    const struct jinja_value value = v.dict->values[i];
    jinja_step(r, (v.dict->count - (size_t)i) / 2);
    jinja_dict_remove(v.dict, (size_t)i);
    return value;
}

METHOD(dict, setdefault)
{
    const int64_t i = jinja_dict_find(r, v.dict, a->at[0]);
    if (i >= 0) return v.dict->values[i];
    const struct jinja_value value =
        jinja_is_given(jinja_argument(a, 1)) ? a->at[1] : jinja_value_none();
    jinja_dict_put(r, v.dict, a->at[0], value);
    return value;
}

METHOD(dict, update)
{
    if (a->count && a->at[0].kind != JINJA_DICT)
        jinja_fail(r, "update needs a dict, not a %s", jinja_value_kind_name(a->at[0]));
    for (size_t i = 0; a->count && !r->failed && i < a->at[0].dict->count; i++)
        jinja_dict_put(r, v.dict, a->at[0].dict->keys[i], a->at[0].dict->values[i]);
    for (size_t i = 0; i < a->named_count && !r->failed; i++)
        jinja_set(r->room, v, a->names[i], a->named[i]);
    return jinja_value_none();
}

// --- loops, cyclers ----------------------------------------------------------------------------

METHOD(loop, cycle)
{
    if (a->count) return a->at[v.loop->index % a->count];
    jinja_fail(r, "cycle needs something to cycle through");
    return jinja_value_none();
}

METHOD(loop, changed)
{
    struct jinja_list *list = jinja_list_new(r->room);
    for (size_t i = 0; i < a->count; i++) jinja_list_push(r->room, list, a->at[i]);
    const struct jinja_value now = jinja_list_value(JINJA_TUPLE, list);
    if (jinja_is_given(v.loop->last_changed) && jinja_value_equal(r, v.loop->last_changed, now))
        return jinja_bool(false);
    v.loop->last_changed = now;
    return jinja_bool(true);
}

METHOD(cycler, next)
{
    (void)a;
    (void)r;
    const struct jinja_value now = v.cycler->items->items[v.cycler->at % v.cycler->items->count];
    v.cycler->at++;
    return now;
}

METHOD(cycler, reset)
{
    (void)a;
    (void)r;
    v.cycler->at = 0;
    return jinja_value_none();
}

// --- the tables --------------------------------------------------------------------------------

static const struct jinja_callable of_loop[] = { { "cycle", loop_cycle, "*", 0 },
                                                 { "changed", loop_changed, "*", 0 },
                                                 { 0 } };
static const struct jinja_callable of_cycler[] = { { "next", cycler_next, "", 0 },
                                                   { "reset", cycler_reset, "", 0 },
                                                   { 0 } };
static const struct jinja_callable of_tuple[] = { { "index", list_index, "value", 1 },
                                                  { "count", list_count, "value", 1 },
                                                  { 0 } };
static const struct jinja_callable of_list[] = {
    { "append", list_append, "object", 1 },
    { "extend", list_extend, "iterable", 1 },
    { "insert", list_insert, "index object", 2 },
    { "pop", list_pop, "index", 0 },
    { "clear", list_clear, "", 0 },
    { "reverse", list_reverse, "", 0 },
    { "copy", list_copy, "", 0 },
    { "index", list_index, "value", 1 },
    { "count", list_count, "value", 1 },
    { 0 },
};
static const struct jinja_callable of_dict[] = {
    { "get", dict_get, "key default", 1 },
    { "keys", dict_keys, "", 0 },
    { "values", dict_values, "", 0 },
    { "items", dict_items, "", 0 },
    { "copy", dict_copy, "", 0 },
    { "pop", dict_pop, "key default", 1 },
    { "setdefault", dict_setdefault, "key default", 1 },
    { "update", dict_update, "*", 0 },
    { 0 },
};

const struct jinja_callable jinja_methods_of_text[] = {
    { "upper", text_upper, "", 0 },
    { "lower", text_lower, "", 0 },
    { "casefold", text_lower, "", 0 },
    { "title", text_title, "", 0 },
    { "capitalize", text_capitalize, "", 0 },
    { "swapcase", text_swapcase, "", 0 },
    { "strip", text_strip, "chars", 0 },
    { "lstrip", text_lstrip, "chars", 0 },
    { "rstrip", text_rstrip, "chars", 0 },
    { "startswith", text_startswith, "prefix start end", 1 },
    { "endswith", text_endswith, "suffix start end", 1 },
    { "removeprefix", text_removeprefix, "prefix", 1 },
    { "removesuffix", text_removesuffix, "suffix", 1 },
    { "replace", text_replace, "old new count", 2 },
    { "find", text_find, "sub start end", 1 },
    { "rfind", text_rfind, "sub start end", 1 },
    { "index", text_index, "sub start end", 1 },
    { "rindex", text_rindex, "sub start end", 1 },
    { "count", text_count, "sub start end", 1 },
    { "format", text_format, "*", 0 },
    { "ljust", text_ljust, "width fillchar", 1 },
    { "center", text_center, "width fillchar", 1 },
    { "rjust", text_rjust, "width fillchar", 1 },
    { "zfill", text_zfill, "width", 1 },
    { "isalpha", text_isalpha, "", 0 },
    { "isdigit", text_isdigit, "", 0 },
    { "isnumeric", text_isdigit, "", 0 },
    { "isdecimal", text_isdecimal, "", 0 },
    { "isalnum", text_isalnum, "", 0 },
    { "isspace", text_isspace, "", 0 },
    { "isupper", text_isupper, "", 0 },
    { "islower", text_islower, "", 0 },
    { 0 },
};

static const struct jinja_callable *find(const struct jinja_callable *table, const char *name)
{
    for (; table && table->name; table++)
        if (!strcmp(table->name, name)) return table;
    return NULL;
}

const struct jinja_callable *jinja_method_of(struct jinja_value v, const char *name)
{
    const struct jinja_callable *c;
    switch (v.kind) {
    case JINJA_TEXT:
        c = find(jinja_methods_of_text, name);
        return c ? c : find(jinja_methods_of_split, name);
    case JINJA_LIST: return find(of_list, name);
    case JINJA_TUPLE:
    case JINJA_RANGE: return find(of_tuple, name);
    case JINJA_DICT: return find(of_dict, name);
    case JINJA_LOOP: return find(of_loop, name);
    case JINJA_CYCLER: return find(of_cycler, name);
    default: return NULL;
    }
}
