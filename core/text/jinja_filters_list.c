// core/text/jinja_filters_list.c -- filters of lists and dicts.
#include <string.h>

#include "core/text/jinja_parts.h"

// --- attributes of items -----------------------------------------------------------------------

// item.a.b.0 for the attribute "a.b.0"; the item itself when none is given.
static struct jinja_value item_attribute(struct jinja_run *r, struct jinja_value item,
                                         struct jinja_value attribute, struct jinja_value otherwise)
{
    if (!jinja_is_given(attribute) || attribute.kind == JINJA_NONE) return item;
    if (!jinja_is_text(attribute)) return jinja_value_index(r, item, attribute);
    const struct jinja_string *path = attribute.text, dot = { .bytes = ".", .length = 1 };
    for (size_t at = 0; at <= path->length && !r->failed;) {
        size_t end = jinja_string_find(r, path, &dot, at);
        if (end == SIZE_MAX) end = path->length;
        struct jinja_value part = jinja_string_piece(r, path, at, end);
        if (jinja_string_all(part.text, CHARS_DECIMAL) && part.text->length < 10) {
            int64_t number = 0;
            for (const char *c = part.text->bytes; *c; c++) number = 10 * number + *c - '0';
            part = jinja_value_int(number);
        }
        item = jinja_value_index(r, item, part);
        if (item.kind == JINJA_UNDEFINED && jinja_is_given(otherwise)) item = otherwise;
        at = end + 1;
    }
    return item;
}

// Texts compare without regard to case, unless asked.
static struct jinja_value sort_key(struct jinja_run *r, struct jinja_value item,
                                   struct jinja_value attribute, bool case_sensitive)
{
    const struct jinja_value key = item_attribute(r, item, attribute, (struct jinja_value){ 0 });
    return jinja_is_text(key) && !case_sensitive ? jinja_string_case(r, key.text, CASE_LOWER) : key;
}

// --- order -------------------------------------------------------------------------------------

// Sorts [from, to) of the order by merging; stable. Reversed, equal ones stay in their order too.
static void merge_sort(struct jinja_run *r, const struct jinja_value *keys, size_t *order,
                       size_t *room, size_t from, size_t to, bool reverse)
{
    if (to - from < 2 || r->failed) return;
    const size_t middle = from + (to - from) / 2;
    merge_sort(r, keys, order, room, from, middle, reverse);
    merge_sort(r, keys, order, room, middle, to, reverse);
    size_t i = from, j = middle;
    for (size_t k = from; k < to; k++) {
        bool left = j >= to;
        if (i < middle && j < to) {
            const int by = jinja_value_order(r, keys[order[i]], keys[order[j]]);
            left = reverse ? by >= 0 : by <= 0;
        }
        room[k] = left ? order[i++] : order[j++];
    }
    memcpy(order + from, room + from, (to - from) * sizeof *order);
}

struct jinja_value jinja_sorted(struct jinja_run *r, struct jinja_list *items,
                                struct jinja_list *by, bool reverse)
{
    struct jinja_list *list = jinja_list_new(r->room);
    const struct jinja_value empty = jinja_list_value(JINJA_LIST, list);
    jinja_afford(r->room, (items->count + 1) * 2 * sizeof(size_t));
    if (!jinja_step(r, items->count)) return empty; // items or keys may have been dropped
    size_t *order = jinja_take(r->room, (items->count + 1) * sizeof *order);
    size_t *room = jinja_take(r->room, (items->count + 1) * sizeof *room);
    for (size_t i = 0; i < items->count; i++) order[i] = i;
    merge_sort(r, by->items, order, room, 0, items->count, reverse);
    for (size_t i = 0; i < items->count; i++)
        jinja_list_push(r->room, list, items->items[order[i]]);
    return jinja_list_value(JINJA_LIST, list);
}

// "a,b": by several attributes, one after the other. Always a list: items that are equal need no
// order then.
static struct jinja_value sort_keys(struct jinja_run *r, struct jinja_value item,
                                    struct jinja_value attribute, bool case_sensitive)
{
    const struct jinja_string comma = { .bytes = ",", .length = 1 };
    struct jinja_list *keys = jinja_list_new(r->room);
    if (!jinja_is_text(attribute)) {
        jinja_list_push(r->room, keys, sort_key(r, item, attribute, case_sensitive));
        return jinja_list_value(JINJA_LIST, keys);
    }
    for (size_t at = 0; at <= attribute.text->length && !r->failed;) {
        size_t end = jinja_string_find(r, attribute.text, &comma, at);
        if (end == SIZE_MAX) end = attribute.text->length;
        jinja_list_push(
            r->room, keys,
            sort_key(r, item, jinja_string_piece(r, attribute.text, at, end), case_sensitive));
        at = end + 1;
    }
    return jinja_list_value(JINJA_LIST, keys);
}

static struct jinja_list *keys_of(struct jinja_run *r, const struct jinja_list *items,
                                  struct jinja_value attribute, bool case_sensitive, bool lists)
{
    struct jinja_list *keys = jinja_list_new(r->room);
    for (size_t i = 0; i < items->count && !r->failed; i++)
        jinja_list_push(r->room, keys,
                        lists ? sort_keys(r, items->items[i], attribute, case_sensitive)
                              : sort_key(r, items->items[i], attribute, case_sensitive));
    return keys;
}

static struct jinja_value filter_sort(struct jinja_run *r, struct jinja_value v,
                                      const struct jinja_args *a)
{
    struct jinja_list *items = jinja_value_items(r, v);
    if (!items) return v;
    struct jinja_list *keys =
        keys_of(r, items, jinja_argument(a, 2), jinja_argument_true(a, 1, false), true);
    return r->failed ? v : jinja_sorted(r, items, keys, jinja_argument_true(a, 0, false));
}

static struct jinja_value filter_dictsort(struct jinja_run *r, struct jinja_value v,
                                          const struct jinja_args *a)
{
    const struct jinja_value by = jinja_argument(a, 1);
    const bool value = jinja_is_text(by) && jinja_string_is(by.text, "value");
    if (jinja_is_given(by) && !value && !(jinja_is_text(by) && jinja_string_is(by.text, "key")))
        jinja_fail(r, "dictsort sorts by 'key' or 'value'");
    if (v.kind != JINJA_DICT)
        jinja_fail(r, "dictsort needs a dict, not a %s", jinja_value_kind_name(v));
    if (r->failed) return v;
    struct jinja_list *items = jinja_list_new(r->room), *keys = jinja_list_new(r->room);
    for (size_t i = 0; i < v.dict->count && jinja_step(r, 1); i++) {
        const struct jinja_value by_what = value ? v.dict->values[i] : v.dict->keys[i];
        jinja_list_push(r->room, items, jinja_pair(r->room, v.dict->keys[i], v.dict->values[i]));
        jinja_list_push(
            r->room, keys,
            sort_key(r, by_what, (struct jinja_value){ 0 }, jinja_argument_true(a, 0, false)));
    }
    return jinja_sorted(r, items, keys, jinja_argument_true(a, 2, false));
}

static struct jinja_value extreme(struct jinja_run *r, struct jinja_value v,
                                  const struct jinja_args *a, int sign)
{
    struct jinja_list *items = jinja_value_items(r, v);
    if (!items) return v;
    struct jinja_list *keys =
        keys_of(r, items, jinja_argument(a, 1), jinja_argument_true(a, 0, false), false);
    size_t best = 0;
    jinja_step(r, 0); // keys may have been dropped
    for (size_t i = 1; i < items->count && !r->failed; i++)
        if (sign * jinja_value_order(r, keys->items[i], keys->items[best]) > 0) best = i;
    return items->count && !r->failed ? items->items[best]
                                      : jinja_value_undefined("an item of nothing");
}

static struct jinja_value filter_min(struct jinja_run *r, struct jinja_value v,
                                     const struct jinja_args *a)
{
    return extreme(r, v, a, -1);
}

static struct jinja_value filter_max(struct jinja_run *r, struct jinja_value v,
                                     const struct jinja_args *a)
{
    return extreme(r, v, a, 1);
}

static struct jinja_value filter_unique(struct jinja_run *r, struct jinja_value v,
                                        const struct jinja_args *a)
{
    struct jinja_list *items = jinja_value_items(r, v), *kept = jinja_list_new(r->room);
    struct jinja_value seen = jinja_dict(r->room);
    for (size_t i = 0; items && i < items->count && !r->failed; i++) {
        const struct jinja_value key =
            sort_key(r, items->items[i], jinja_argument(a, 1), jinja_argument_true(a, 0, false));
        if (jinja_dict_find(r, seen.dict, key) >= 0) continue;
        jinja_dict_put(r, seen.dict, key, key);
        jinja_list_push(r->room, kept, items->items[i]);
    }
    return jinja_generator(kept, "generator");
}

static struct jinja_value filter_groupby(struct jinja_run *r, struct jinja_value v,
                                         const struct jinja_args *a)
{
    struct jinja_list *items = jinja_value_items(r, v), *groups = jinja_list_new(r->room),
                      *group = NULL;
    struct jinja_list *names = jinja_list_new(r->room), *keys = jinja_list_new(r->room);
    const bool case_sensitive = jinja_argument_true(a, 2, false);
    for (size_t i = 0; items && i < items->count && !r->failed; i++) {
        const struct jinja_value name =
            item_attribute(r, items->items[i], jinja_argument(a, 0), jinja_argument(a, 1));
        jinja_list_push(r->room, names, jinja_pair(r->room, name, items->items[i]));
        jinja_list_push(r->room, keys,
                        jinja_is_text(name) && !case_sensitive
                            ? jinja_string_case(r, name.text, CASE_LOWER)
                            : name);
    }
    if (!jinja_step(r, 0)) return v;
    names = jinja_sorted(r, names, keys, false).list;
    keys = jinja_sorted(r, keys, keys, false).list;
    if (!jinja_step(r, 0)) return v;
    for (size_t i = 0; i < names->count && !r->failed; i++) {
        const struct jinja_list *one = names->items[i].list;
        if (!group || !jinja_value_equal(r, keys->items[i], keys->items[i - 1])) {
            group = jinja_list_new(r->room);
            const struct jinja_value row =
                jinja_pair(r->room, one->items[0], jinja_list_value(JINJA_LIST, group));
            row.list->label = "group";
            jinja_list_push(r->room, groups, row);
        }
        jinja_list_push(r->room, group, one->items[1]);
    }
    return jinja_list_value(JINJA_LIST, groups);
}

// --- items -------------------------------------------------------------------------------------

static struct jinja_value filter_list(struct jinja_run *r, struct jinja_value v,
                                      const struct jinja_args *a)
{
    struct jinja_list *items = jinja_value_items(r, v);
    (void)a;
    return items ? jinja_list_value(JINJA_LIST, items) : v;
}

static struct jinja_value filter_first(struct jinja_run *r, struct jinja_value v,
                                       const struct jinja_args *a)
{
    (void)a;
    if (v.kind == JINJA_GENERATOR && v.list->count) {
        const struct jinja_value first = v.list->items[0];
        v.list->items++;
        v.list->count--;
        v.list->capacity = 0;
        return first;
    }
    struct jinja_list *items = jinja_value_items(r, v);
    return items && items->count ? items->items[0]
                                 : jinja_value_undefined("the first item of nothing");
}

static struct jinja_value filter_last(struct jinja_run *r, struct jinja_value v,
                                      const struct jinja_args *a)
{
    struct jinja_list *items = jinja_value_items(r, v);
    (void)a;
    return items && items->count ? items->items[items->count - 1]
                                 : jinja_value_undefined("the last item of nothing");
}

static struct jinja_value filter_items(struct jinja_run *r, struct jinja_value v,
                                       const struct jinja_args *a)
{
    struct jinja_list *list = jinja_list_new(r->room);
    (void)a;
    if (v.kind != JINJA_DICT && v.kind != JINJA_UNDEFINED)
        jinja_fail(r, "items needs a dict, not a %s", jinja_value_kind_name(v));
    for (size_t i = 0; v.kind == JINJA_DICT && i < v.dict->count && jinja_step(r, 1); i++)
        jinja_list_push(r->room, list, jinja_pair(r->room, v.dict->keys[i], v.dict->values[i]));
    return jinja_generator(list, "generator");
}

static struct jinja_value filter_reverse(struct jinja_run *r, struct jinja_value v,
                                         const struct jinja_args *a)
{
    struct jinja_list *items = jinja_value_items(r, v), *list = jinja_list_new(r->room);
    struct builder b = { .r = r };
    (void)a;
    for (size_t i = items ? items->count : 0; i-- > 0 && jinja_step(r, 1);) {
        if (jinja_is_text(v))
            jinja_put_all(&b, items->items[i].text);
        else
            jinja_list_push(r->room, list, items->items[i]);
    }
    return jinja_is_text(v) ? jinja_builder_value(&b)
                            : jinja_generator(list, "list_reverseiterator");
}

static struct jinja_value filter_join(struct jinja_run *r, struct jinja_value v,
                                      const struct jinja_args *a)
{
    struct jinja_list *items = jinja_value_items(r, v);
    const struct jinja_value between = jinja_argument(a, 0);
    struct builder b = { .r = r };
    for (size_t i = 0; items && i < items->count && !r->failed; i++) {
        if (i && jinja_is_given(between)) jinja_put_show(&b, between);
        jinja_put_show(&b, item_attribute(r, items->items[i], jinja_argument(a, 1),
                                          (struct jinja_value){ 0 }));
    }
    return jinja_builder_value(&b);
}

static struct jinja_value filter_sum(struct jinja_run *r, struct jinja_value v,
                                     const struct jinja_args *a)
{
    struct jinja_list *items = jinja_value_items(r, v);
    struct jinja_value sum =
        jinja_is_given(jinja_argument(a, 1)) ? jinja_argument(a, 1) : jinja_value_int(0);
    if (jinja_is_text(sum)) jinja_fail(r, "sum does not add texts: use join");
    for (size_t i = 0; items && i < items->count && !r->failed; i++)
        sum = jinja_eval_binary(
            r, N_ADD, sum,
            item_attribute(r, items->items[i], jinja_argument(a, 0), (struct jinja_value){ 0 }));
    return sum;
}

// --- parts -------------------------------------------------------------------------------------

static struct jinja_value filter_batch(struct jinja_run *r, struct jinja_value v,
                                       const struct jinja_args *a)
{
    struct jinja_list *items = jinja_value_items(r, v), *rows = jinja_list_new(r->room),
                      *row = NULL;
    const int64_t most = jinja_argument_int(r, a, 0, 1, "batch");
    const struct jinja_value fill = jinja_argument(a, 1);
    if (most < 1) jinja_fail(r, "batch needs at least 1");
    for (size_t i = 0; items && i < items->count && jinja_step(r, 1); i++) {
        if (i % (size_t)most == 0) {
            row = jinja_list_new(r->room);
            jinja_list_push(r->room, rows, jinja_list_value(JINJA_LIST, row));
        }
        jinja_list_push(r->room, row, items->items[i]);
    }
    while (row && jinja_is_given(fill) && fill.kind != JINJA_NONE && (int64_t)row->count < most &&
           jinja_step(r, 1))
        jinja_list_push(r->room, row, fill);
    return jinja_generator(rows, "generator");
}

static struct jinja_value filter_slice(struct jinja_run *r, struct jinja_value v,
                                       const struct jinja_args *a)
{
    struct jinja_list *items = jinja_value_items(r, v), *rows = jinja_list_new(r->room);
    const int64_t parts = jinja_argument_int(r, a, 0, 1, "slice");
    const struct jinja_value fill = jinja_argument(a, 1);
    if (parts < 1) jinja_fail(r, "slice needs at least 1");
    size_t at = 0;
    for (int64_t i = 0; items && i < parts && jinja_step(r, 1); i++) {
        const int64_t count = (int64_t)items->count, longer = count % parts;
        struct jinja_list *row = jinja_list_new(r->room);
        for (int64_t k = 0; k < count / parts + (i < longer); k++)
            jinja_list_push(r->room, row, items->items[at++]);
        if (jinja_is_given(fill) && fill.kind != JINJA_NONE && i >= longer)
            jinja_list_push(r->room, row, fill);
        jinja_list_push(r->room, rows, jinja_list_value(JINJA_LIST, row));
    }
    return jinja_generator(rows, "generator");
}

// --- map and select ----------------------------------------------------------------------------

// What is false has no items: none, too.
static struct jinja_list *items_or_none(struct jinja_run *r, struct jinja_value v)
{
    return jinja_value_truth(v) ? jinja_value_items(r, v) : jinja_list_new(r->room);
}

// The arguments behind the first n.
static struct jinja_args arguments_from(const struct jinja_args *a, size_t n)
{
    struct jinja_args rest = *a;
    rest.at += n;
    rest.count -= n;
    return rest;
}

static struct jinja_value map_attribute(struct jinja_run *r, struct jinja_list *items,
                                        const struct jinja_args *a)
{
    struct jinja_list *list = jinja_list_new(r->room);
    struct jinja_value attribute = { 0 }, otherwise = { 0 };
    for (size_t i = 0; i < a->named_count; i++) {
        if (!strcmp(a->names[i], "attribute"))
            attribute = a->named[i];
        else if (!strcmp(a->names[i], "default"))
            otherwise = a->named[i].kind == JINJA_NONE ? otherwise : a->named[i];
        else
            jinja_fail(r, "map has no argument '%.60s'", a->names[i]);
    }
    if (!jinja_is_given(attribute)) jinja_fail(r, "map needs a filter or an attribute");
    for (size_t i = 0; i < items->count && !r->failed; i++)
        jinja_list_push(r->room, list, item_attribute(r, items->items[i], attribute, otherwise));
    return jinja_generator(list, "generator");
}

static struct jinja_value filter_map(struct jinja_run *r, struct jinja_value v,
                                     const struct jinja_args *a)
{
    struct jinja_list *items = items_or_none(r, v), *list = jinja_list_new(r->room);
    if (!items) return v;
    if (!a->count) return map_attribute(r, items, a);
    const struct jinja_string *name = jinja_need_text(r, a->at[0], "map");
    const struct jinja_callable *f = name ? jinja_filter(name->bytes) : NULL;
    const struct jinja_args rest = arguments_from(a, 1);
    if (!f) jinja_fail(r, "map: the filter '%.60s' is not known", name ? name->bytes : "");
    for (size_t i = 0; i < items->count && !r->failed; i++)
        jinja_list_push(r->room, list, jinja_call_callable(r, f, items->items[i], &rest));
    return jinja_generator(list, "generator");
}

// Items, or their attribute (the first argument), that pass a test, or do not.
static struct jinja_value choose(struct jinja_run *r, struct jinja_value v,
                                 const struct jinja_args *a, bool by_attribute, bool wanted)
{
    struct jinja_list *items = items_or_none(r, v), *kept = jinja_list_new(r->room);
    const struct jinja_value attribute =
        by_attribute ? jinja_argument(a, 0) : (struct jinja_value){ 0 };
    const size_t off = by_attribute;
    if (by_attribute && !a->count && !r->failed) jinja_fail(r, "an attribute is missing");
    if (r->failed) return v;
    const struct jinja_callable *test = NULL;
    struct jinja_args rest = { 0 };
    if (a->count > off) {
        const struct jinja_string *name = jinja_need_text(r, a->at[off], "select");
        test = name ? jinja_test(name->bytes) : NULL;
        if (!test) jinja_fail(r, "the test '%.60s' is not known", name ? name->bytes : "");
        rest = arguments_from(a, off + 1);
    }
    for (size_t i = 0; i < items->count && jinja_step(r, 1); i++) {
        struct jinja_value one =
            item_attribute(r, items->items[i], attribute, (struct jinja_value){ 0 });
        if (test && !r->failed) one = jinja_call_callable(r, test, one, &rest);
        if (!r->failed && jinja_value_truth(one) == wanted)
            jinja_list_push(r->room, kept, items->items[i]);
    }
    return jinja_generator(kept, "generator");
}

static struct jinja_value filter_select(struct jinja_run *r, struct jinja_value v,
                                        const struct jinja_args *a)
{
    return choose(r, v, a, false, true);
}

static struct jinja_value filter_reject(struct jinja_run *r, struct jinja_value v,
                                        const struct jinja_args *a)
{
    return choose(r, v, a, false, false);
}

static struct jinja_value filter_selectattr(struct jinja_run *r, struct jinja_value v,
                                            const struct jinja_args *a)
{
    return choose(r, v, a, true, true);
}

static struct jinja_value filter_rejectattr(struct jinja_run *r, struct jinja_value v,
                                            const struct jinja_args *a)
{
    return choose(r, v, a, true, false);
}

const struct jinja_callable jinja_filters_of_lists[] = {
    { "list", filter_list, "", 0 },
    { "first", filter_first, "", 0 },
    { "last", filter_last, "", 0 },
    { "items", filter_items, "", 0 },
    { "join", filter_join, "d attribute", 0 },
    { "sort", filter_sort, "reverse case_sensitive attribute", 0 },
    { "dictsort", filter_dictsort, "case_sensitive by reverse", 0 },
    { "reverse", filter_reverse, "", 0 },
    { "unique", filter_unique, "case_sensitive attribute", 0 },
    { "groupby", filter_groupby, "attribute default case_sensitive", 1 },
    { "min", filter_min, "case_sensitive attribute", 0 },
    { "max", filter_max, "case_sensitive attribute", 0 },
    { "sum", filter_sum, "attribute start", 0 },
    { "batch", filter_batch, "linecount fill_with", 1 },
    { "slice", filter_slice, "slices fill_with", 1 },
    { "map", filter_map, "*", 0 },
    { "select", filter_select, "*", 0 },
    { "reject", filter_reject, "*", 0 },
    { "selectattr", filter_selectattr, "*", 0 },
    { "rejectattr", filter_rejectattr, "*", 0 },
    { 0 },
};
