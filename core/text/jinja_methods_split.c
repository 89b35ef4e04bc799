// core/text/jinja_methods_split.c -- methods of str that take texts apart and put them together.
#include <string.h>

#include "core/text/jinja_parts.h"

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

// The same from the right; the list is in reverse.
static void split_words_right(struct jinja_run *r, const struct jinja_string *s, int64_t most,
                              struct jinja_list *list)
{
    size_t end = s->length, n;
    if (!jinja_step(r, s->length / 8)) return;
    for (;;) {
        while ((n = jinja_space_end(s->bytes, end))) end -= n;
        if (!end || !jinja_step(r, 1)) return;
        size_t at = end;
        while (at > 0 && !jinja_space_end(s->bytes, at)) at--;
        if (most-- <= 0) {
            at = 0;
            while (at < end && (n = jinja_space_start(s->bytes + at, end - at))) at += n;
        }
        jinja_list_push(r->room, list, jinja_string_piece(r, s, at, end));
        end = most < -1 ? 0 : at;
        if (most < 0) return;
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

static void split_at_right(struct jinja_run *r, const struct jinja_string *s,
                           const struct jinja_string *by, int64_t most, struct jinja_list *list)
{
    size_t end = s->length, at;
    while (most-- > 0 && (at = jinja_string_find_last(r, s, by, end)) != SIZE_MAX) {
        jinja_list_push(r->room, list, jinja_string_piece(r, s, at + by->length, end));
        end = at;
    }
    jinja_list_push(r->room, list, jinja_string_piece(r, s, 0, end));
}

static void turn_round(struct jinja_list *list)
{
    for (size_t i = 0, n = list->count; i < n / 2; i++) {
        const struct jinja_value swap = list->items[i];
        list->items[i] = list->items[n - 1 - i];
        list->items[n - 1 - i] = swap;
    }
}

static struct jinja_value split(struct jinja_run *r, struct jinja_value v,
                                const struct jinja_args *a, bool right)
{
    struct jinja_list *list = jinja_list_new(r->room);
    const struct jinja_value by = jinja_argument(a, 0);
    int64_t most = jinja_argument_int(r, a, 1, -1, "split");
    if (most < 0) most = INT64_MAX;
    if (!jinja_is_given(by) || by.kind == JINJA_NONE) {
        (right ? split_words_right : split_words)(r, v.text, most, list);
    } else if (jinja_need_text(r, by, "split")) {
        if (!by.text->length) jinja_fail(r, "split: the separator is empty");
        if (!r->failed) (right ? split_at_right : split_at)(r, v.text, by.text, most, list);
    }
    if (right) turn_round(list);
    return jinja_list_value(JINJA_LIST, list);
}

static struct jinja_value text_split(struct jinja_run *r, struct jinja_value v,
                                     const struct jinja_args *a)
{
    return split(r, v, a, false);
}

static struct jinja_value text_rsplit(struct jinja_run *r, struct jinja_value v,
                                      const struct jinja_args *a)
{
    return split(r, v, a, true);
}

static struct jinja_value text_splitlines(struct jinja_run *r, struct jinja_value v,
                                          const struct jinja_args *a)
{
    struct jinja_list *list = jinja_list_new(r->room);
    const bool keep = jinja_argument_true(a, 0, false);
    jinja_step(r, v.text->length / 8);
    for (size_t at = 0, next; at < v.text->length && jinja_step(r, 1); at = next) {
        const size_t end = jinja_line_end(v.text, at, &next);
        jinja_list_push(r->room, list, jinja_string_piece(r, v.text, at, keep ? next : end));
    }
    return jinja_list_value(JINJA_LIST, list);
}

static struct jinja_value part_at(struct jinja_run *r, struct jinja_value v,
                                  const struct jinja_args *a, bool right)
{
    const struct jinja_string *s = v.text, *by = jinja_need_text(r, a->at[0], "partition");
    struct jinja_list *list = jinja_list_new(r->room);
    if (!by) return v;
    if (!by->length) {
        jinja_fail(r, "partition: the separator is empty");
        return v;
    }
    const size_t at =
        right ? jinja_string_find_last(r, s, by, s->length) : jinja_string_find(r, s, by, 0);
    const bool found = at != SIZE_MAX;
    const size_t first = found ? at : right ? 0 : s->length;
    const size_t second = found ? at + by->length : first;
    jinja_list_push(r->room, list, jinja_string_piece(r, s, 0, first));
    jinja_list_push(r->room, list, jinja_string_piece(r, s, first, second));
    jinja_list_push(r->room, list, jinja_string_piece(r, s, second, s->length));
    return jinja_list_value(JINJA_TUPLE, list);
}

static struct jinja_value text_partition(struct jinja_run *r, struct jinja_value v,
                                         const struct jinja_args *a)
{
    return part_at(r, v, a, false);
}

static struct jinja_value text_rpartition(struct jinja_run *r, struct jinja_value v,
                                          const struct jinja_args *a)
{
    return part_at(r, v, a, true);
}

static struct jinja_value text_join(struct jinja_run *r, struct jinja_value v,
                                    const struct jinja_args *a)
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

const struct jinja_callable jinja_methods_of_split[] = {
    { "split", text_split, "sep maxsplit", 0 },
    { "rsplit", text_rsplit, "sep maxsplit", 0 },
    { "splitlines", text_splitlines, "keepends", 0 },
    { "partition", text_partition, "sep", 1 },
    { "rpartition", text_rpartition, "sep", 1 },
    { "join", text_join, "iterable", 1 },
    { 0 },
};
