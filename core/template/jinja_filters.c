// core/template/jinja_filters.c -- filters: of single values, of texts, of lists and dicts.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/template/jinja_parts.h"

#define FILTER(name)                                                                   \
    static struct jinja_value filter_##name(struct jinja_run *r, struct jinja_value v, \
                                            const struct jinja_args *a)

// --- values ------------------------------------------------------------------------------------

FILTER(default)
{
    const bool falsy = jinja_argument_true(a, 1, false) && !jinja_value_truth(v);
    if (v.kind != JINJA_UNDEFINED && !falsy) return v;
    return jinja_is_given(jinja_argument(a, 0)) ? jinja_argument(a, 0) : jinja_words(r->arena, "");
}

FILTER(string)
{
    return jinja_value_string(jinja_string_of(r, v));
}

FILTER(length)
{
    return jinja_value_int(jinja_value_length(r, v));
}

FILTER(safe)
{
    return jinja_markup(r->arena, jinja_string_of(r, v));
}

FILTER(tojson)
{
    struct builder b = { .r = r };
    const struct jinja_value indent = jinja_argument(a, 1), separators = jinja_argument(a, 2);
    const bool lines = jinja_is_given(indent) && indent.kind != JINJA_NONE;
    struct json_style style = { .item = lines ? "," : ", ",
                                .key = ": ",
                                .ascii = jinja_argument_true(a, 0, false),
                                .lines = lines };
    if (lines) style.indent = jinja_argument_int(r, a, 1, 0, "tojson's indent");
    if (jinja_is_sequence(separators) && separators.list->count == 2 &&
        jinja_is_text(separators.list->items[0]) && jinja_is_text(separators.list->items[1])) {
        style.item = separators.list->items[0].text->bytes;
        style.key = separators.list->items[1].text->bytes;
    } else if (jinja_is_given(separators) && separators.kind != JINJA_NONE) {
        jinja_fail(r, "tojson: separators must be two texts");
    }
    if (!r->failed) jinja_put_json(&b, v, &style, 0);
    return jinja_builder_value(&b);
}

// Parses a text as a number ("12", "-3.5", "1e3"); ignores white space around it.
static bool read_number(const struct jinja_string *s, struct jinja_value *v)
{
    char digits[64], *end;
    const char *text = s->bytes;
    size_t length = s->length, skip;
    while ((skip = jinja_space_start(text, length))) text += skip, length -= skip;
    while ((skip = jinja_space_end(text, length))) length -= skip;
    if (!length || length >= sizeof digits) return false;
    memcpy(digits, text, length);
    digits[length] = '\0';
    if (strspn(digits, "+-.eE0123456789") != length) return false;
    errno = 0;
    *v = jinja_value_int(strtoll(digits, &end, 10));
    if (*end || errno) *v = jinja_value_real(strtod(digits, &end));
    return !*end;
}

FILTER(int)
{
    const struct jinja_value otherwise =
        jinja_is_given(jinja_argument(a, 0)) ? jinja_argument(a, 0) : jinja_value_int(0);
    if (v.kind == JINJA_UNDEFINED)
        jinja_fail(r, "'%.100s' is undefined", v.name ? v.name : "int's value");
    if (jinja_is_text(v) && (!jinja_step(r, v.text->length / 8) || !read_number(v.text, &v)))
        return otherwise;
    if (jinja_is_int(v)) return jinja_value_int(jinja_value_as_int(v));
    if (v.kind != JINJA_REAL || isnan(v.real) || isinf(v.real)) return otherwise;
    if (fabs(v.real) < 9.2e18) return jinja_value_int((int64_t)v.real);
    jinja_fail(r, "a number is too large");
    return otherwise;
}

// --- texts -------------------------------------------------------------------------------------

FILTER(replace)
{
    return jinja_string_replace(r, jinja_string_of(r, v), jinja_string_of(r, jinja_argument(a, 0)),
                                jinja_string_of(r, jinja_argument(a, 1)));
}

FILTER(indent)
{
    const struct jinja_string *s = jinja_need_text(r, v, "indent");
    const int64_t width = jinja_argument_int(r, a, 0, 4, "indent");
    const bool first = jinja_argument_true(a, 1, false);
    struct builder b = { .r = r };
    if (r->failed) return v;
    bool more = jinja_step(r, s->length / 8);
    for (size_t at = 0, next; more && jinja_step(r, 1); at = next) {
        const size_t end = jinja_line_end(s, at, &next);
        if (at == 0 ? first : end > at) jinja_put_spaces(&b, width);
        jinja_put_piece(&b, s, at, end);
        more = next > end;
        if (more) jinja_put_derived(&b, "\n", 1, s, end);
    }
    return jinja_builder_value(&b);
}

// --- order -------------------------------------------------------------------------------------

// Returns the item's attribute of this name; the item itself without a name.
static struct jinja_value item_attribute(struct jinja_run *r, struct jinja_value item,
                                         struct jinja_value attribute)
{
    if (!jinja_is_given(attribute)) return item;
    const struct jinja_string *name = jinja_need_text(r, attribute, "an attribute");
    if (name && memchr(name->bytes, '.', name->length))
        jinja_unknown(r, "attribute paths ('a.b') are not supported");
    return jinja_value_index(r, item, attribute);
}

// Returns the sort key of an item, or of its attribute: a text in lower case, or the value.
static struct jinja_value sort_key(struct jinja_run *r, struct jinja_value item,
                                   struct jinja_value attribute)
{
    const struct jinja_value key = item_attribute(r, item, attribute);
    return jinja_is_text(key) ? jinja_string_case(r, key.text, CASE_LOWER) : key;
}

static struct jinja_list *sort_keys(struct jinja_run *r, const struct jinja_list *items,
                                    struct jinja_value attribute)
{
    struct jinja_list *keys = jinja_list_new(r->arena);
    for (size_t i = 0; i < items->count && !r->failed; i++)
        jinja_list_push(r->arena, keys, sort_key(r, items->items[i], attribute));
    jinja_step(r, 0); // fails if the budget is spent: the list then lacks keys
    return keys;
}

// Sorts order[from, to) by the keys; stable.
static void merge_sort(struct jinja_run *r, const struct jinja_value *keys, size_t *order,
                       size_t *merged, size_t from, size_t to)
{
    if (to - from < 2 || r->failed) return;
    const size_t middle = from + (to - from) / 2;
    merge_sort(r, keys, order, merged, from, middle);
    merge_sort(r, keys, order, merged, middle, to);
    size_t i = from, j = middle;
    for (size_t k = from; k < to; k++) {
        bool left = j >= to;
        if (i < middle && j < to) {
            const struct jinja_value one = keys[order[i]], other = keys[order[j]];
            // Equal items need not support ordering.
            left = jinja_value_equal(r, one, other) || jinja_value_order(r, one, other) <= 0;
        }
        merged[k] = left ? order[i++] : order[j++];
    }
    memcpy(order + from, merged + from, (to - from) * sizeof *order);
}

static struct jinja_value sorted(struct jinja_run *r, const struct jinja_list *items,
                                 const struct jinja_list *keys)
{
    struct jinja_list *list = jinja_list_new(r->arena);
    const struct jinja_value empty = jinja_list_value(JINJA_LIST, list);
    jinja_afford(r->arena, (items->count + 1) * 2 * sizeof(size_t));
    if (!jinja_step(r, items->count)) return empty; // a spent budget drops items or keys
    size_t *order = jinja_take(r->arena, (items->count + 1) * sizeof *order);
    size_t *merged = jinja_take(r->arena, (items->count + 1) * sizeof *merged);
    for (size_t i = 0; i < items->count; i++) order[i] = i;
    merge_sort(r, keys->items, order, merged, 0, items->count);
    for (size_t i = 0; i < items->count; i++)
        jinja_list_push(r->arena, list, items->items[order[i]]);
    return jinja_list_value(JINJA_LIST, list);
}

FILTER(sort)
{
    struct jinja_list *items = jinja_value_items(r, v);
    if (jinja_is_given(jinja_argument(a, 0))) jinja_unknown(r, "sort(reverse) is not supported");
    return items ? sorted(r, items, sort_keys(r, items, jinja_argument(a, 1))) : v;
}

FILTER(dictsort)
{
    struct jinja_list *keys = jinja_list_new(r->arena);
    if (v.kind != JINJA_DICT)
        jinja_fail(r, "dictsort needs a dict, not %s", jinja_value_kind_name(v));
    for (size_t i = 0; !r->failed && i < v.dict->count && jinja_step(r, 1); i++)
        jinja_list_push(r->arena, keys,
                        sort_key(r, v.dict->entries[i].key, (struct jinja_value){ 0 }));
    return r->failed ? v : sorted(r, jinja_dict_pairs(r, v.dict), keys);
}

FILTER(min)
{
    struct jinja_list *items = jinja_value_items(r, v);
    if (!items) return v;
    const struct jinja_list *keys = sort_keys(r, items, (struct jinja_value){ 0 });
    size_t best = 0;
    for (size_t i = 1; i < items->count && !r->failed; i++)
        if (jinja_value_order(r, keys->items[i], keys->items[best]) < 0) best = i;
    return items->count && !r->failed ? items->items[best]
                                      : jinja_value_undefined("the minimum of an empty list");
}

FILTER(unique)
{
    struct jinja_list *items = jinja_value_items(r, v), *kept = jinja_list_new(r->arena);
    struct jinja_value seen = jinja_dict(r->arena);
    for (size_t i = 0; items && i < items->count && !r->failed; i++) {
        const struct jinja_value key = sort_key(r, items->items[i], (struct jinja_value){ 0 });
        if (jinja_dict_find(r, seen.dict, key) >= 0) continue;
        jinja_dict_put(r, seen.dict, key, key);
        jinja_list_push(r->arena, kept, items->items[i]);
    }
    return jinja_list_value(JINJA_GENERATOR, kept);
}

// --- items -------------------------------------------------------------------------------------

FILTER(list)
{
    struct jinja_list *items = jinja_value_items(r, v);
    return items ? jinja_list_value(JINJA_LIST, items) : v;
}

FILTER(first)
{
    if (v.kind == JINJA_GENERATOR && v.list->count) {
        const struct jinja_value first = v.list->items[0];
        v.list->items++;
        v.list->count--;
        v.list->capacity = 0;
        return first;
    }
    struct jinja_list *items = jinja_value_items(r, v);
    return items && items->count ? items->items[0]
                                 : jinja_value_undefined("the first item of an empty list");
}

FILTER(last)
{
    struct jinja_list *items = jinja_value_items(r, v);
    return items && items->count ? items->items[items->count - 1]
                                 : jinja_value_undefined("the last item of an empty list");
}

FILTER(items)
{
    if (v.kind == JINJA_UNDEFINED)
        return jinja_list_value(JINJA_GENERATOR, jinja_list_new(r->arena));
    if (v.kind == JINJA_DICT) return jinja_list_value(JINJA_GENERATOR, jinja_dict_pairs(r, v.dict));
    jinja_fail(r, "items needs a dict, not %s", jinja_value_kind_name(v));
    return v;
}

FILTER(join)
{
    struct jinja_list *items = jinja_value_items(r, v);
    const struct jinja_value between = jinja_argument(a, 0);
    struct builder b = { .r = r };
    for (size_t i = 0; items && i < items->count && !r->failed; i++) {
        if (i && jinja_is_given(between)) jinja_put_show(&b, between);
        jinja_put_show(&b, items->items[i]);
    }
    return jinja_builder_value(&b);
}

// --- map and select ----------------------------------------------------------------------------

// Returns the items of a value; an empty list if the value is false.
static struct jinja_list *items_or_none(struct jinja_run *r, struct jinja_value v)
{
    return jinja_value_truth(v) ? jinja_value_items(r, v) : jinja_list_new(r->arena);
}

// Returns the arguments after the first n.
static struct jinja_args arguments_from(const struct jinja_args *a, size_t n)
{
    struct jinja_args rest = *a;
    rest.at += n;
    rest.count -= n;
    return rest;
}

// Implements map('filter', the filter's arguments...) and map(attribute='name').
FILTER(map)
{
    struct jinja_list *items = items_or_none(r, v), *list = jinja_list_new(r->arena);
    if (!items) return v;
    const bool by_attribute =
        !a->count && a->named_count == 1 && !strcmp(a->named[0].name, "attribute");
    const struct jinja_string *name = a->count ? jinja_need_text(r, a->at[0], "map") : NULL;
    const struct jinja_callable *f = name ? jinja_filter(name->bytes) : NULL;
    if (!a->count && !by_attribute) jinja_fail(r, "map needs a filter or an attribute");
    if (a->count && !f)
        jinja_unknown(r, "map: the filter '%.60s' is not known", name ? name->bytes : "");
    if (r->failed) return v;
    const struct jinja_args rest = f ? arguments_from(a, 1) : *a;
    for (size_t i = 0; i < items->count && !r->failed; i++)
        jinja_list_push(r->arena, list,
                        f ? jinja_call_callable(r, f, items->items[i], &rest)
                          : item_attribute(r, items->items[i], a->named[0].value));
    return jinja_list_value(JINJA_GENERATOR, list);
}

enum choice { REJECT, SELECT_BY_ATTRIBUTE, REJECT_BY_ATTRIBUTE };

// Selects or rejects items by a test of the item, or of its attribute (the first argument).
FILTER(choose)
{
    const bool by_attribute = a->call->how != REJECT, wanted = a->call->how == SELECT_BY_ATTRIBUTE;
    struct jinja_list *items = items_or_none(r, v), *kept = jinja_list_new(r->arena);
    const struct jinja_value attribute =
        by_attribute ? jinja_argument(a, 0) : (struct jinja_value){ 0 };
    if (by_attribute && !a->count && !r->failed) jinja_fail(r, "an attribute is missing");
    if (r->failed) return v;
    const struct jinja_callable *test = NULL;
    struct jinja_args rest = { 0 };
    if (a->count > by_attribute) {
        const struct jinja_string *name = jinja_need_text(r, a->at[by_attribute], a->call->name);
        test = name ? jinja_test(name->bytes) : NULL;
        if (!test) jinja_unknown(r, "the test '%.60s' is not known", name ? name->bytes : "");
        rest = arguments_from(a, by_attribute + 1);
    }
    for (size_t i = 0; i < items->count && jinja_step(r, 1); i++) {
        struct jinja_value one = item_attribute(r, items->items[i], attribute);
        if (test && !r->failed) one = jinja_call_callable(r, test, one, &rest);
        if (!r->failed && jinja_value_truth(one) == wanted)
            jinja_list_push(r->arena, kept, items->items[i]);
    }
    return jinja_list_value(JINJA_GENERATOR, kept);
}

const struct jinja_callable *jinja_filter(const char *name)
{
    static const struct jinja_callable filters[] = {
        { "default", filter_default, "default_value boolean", 0, 0 },
        { "string", filter_string, "", 0, 0 },
        { "length", filter_length, "", 0, 0 },
        { "safe", filter_safe, "", 0, 0 },
        { "tojson", filter_tojson, "ensure_ascii indent separators", 0, 0 },
        { "int", filter_int, "default", 0, 0 },
        { "upper", jinja_call_case, "", 0, CASE_UPPER },
        { "lower", jinja_call_case, "", 0, CASE_LOWER },
        { "capitalize", jinja_call_case, "", 0, CASE_CAPITAL },
        { "title", jinja_call_case, "", 0, CASE_TITLE_WORDS },
        { "trim", jinja_call_strip, "chars", 0, 3 },
        { "replace", filter_replace, "old new", 2, 0 },
        { "indent", filter_indent, "width first", 0, 0 },
        { "list", filter_list, "", 0, 0 },
        { "first", filter_first, "", 0, 0 },
        { "last", filter_last, "", 0, 0 },
        { "items", filter_items, "", 0, 0 },
        { "join", filter_join, "d", 0, 0 },
        { "sort", filter_sort, "reverse attribute", 0, 0 },
        { "dictsort", filter_dictsort, "", 0, 0 },
        { "unique", filter_unique, "", 0, 0 },
        { "min", filter_min, "", 0, 0 },
        { "map", filter_map, "*", 0, 0 },
        { "reject", filter_choose, "*", 0, REJECT },
        { "selectattr", filter_choose, "*", 0, SELECT_BY_ATTRIBUTE },
        { "rejectattr", filter_choose, "*", 0, REJECT_BY_ATTRIBUTE },
        { 0 },
    };
    return jinja_callable_find(filters, name);
}
