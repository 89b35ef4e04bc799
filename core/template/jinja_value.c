// core/template/jinja_value.c -- values of templates, as in Python: memory, lists, dicts, truth and
// order.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cancel.h"
#include "core/template/jinja_parts.h"

// --- memory ------------------------------------------------------------------------------------

struct jinja_block {
    struct jinja_block *next;
    size_t size, used;
    max_align_t data[];
};

static const char too_large[] = "the template needs more than 256 MB";

bool jinja_spend(struct jinja_arena *arena, size_t steps)
{
    enum { LOOK = 20 }; // 2^20 steps between checks for Ctrl-C
    const uint64_t before = arena->steps;
    arena->steps += steps;
    if (arena->spent) return false;
    if (arena->steps > JINJA_STEPS)
        arena->spent = "the template takes more than 20 million steps";
    else if (arena->steps >> LOOK != before >> LOOK && cancel_requested())
        arena->spent = "cancelled";
    return !arena->spent;
}

bool jinja_afford(struct jinja_arena *arena, size_t size)
{
    if (arena->used <= JINJA_MEMORY && size <= JINJA_MEMORY - arena->used) return true;
    if (!arena->spent) arena->spent = too_large;
    return false;
}

// Never returns NULL: once the budget is spent, it still allocates, and the rendering stops at its
// next step.
void *jinja_take(struct jinja_arena *arena, size_t size)
{
    enum { BLOCK = 64 << 10 };
    const size_t align = sizeof(max_align_t);
    size = (size + align - 1) / align * align;
    struct jinja_block *b = arena->blocks;
    if (!b || b->size - b->used < size) {
        const size_t bytes = size > BLOCK / 4 ? size : BLOCK;
        b = xmalloc(sizeof *b + bytes);
        *b = (struct jinja_block){ .size = bytes };
        // A big block is full at once, so it goes behind the current one.
        if (arena->blocks && bytes == size) {
            b->next = arena->blocks->next;
            arena->blocks->next = b;
        } else {
            b->next = arena->blocks;
            arena->blocks = b;
        }
        arena->used += bytes;
        if (arena->used > JINJA_MEMORY && !arena->spent) arena->spent = too_large;
    }
    void *memory = (char *)b->data + b->used;
    b->used += size;
    memset(memory, 0, size);
    return memory;
}

void *jinja_grow(struct jinja_arena *arena, void *old, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity) return old;
    const size_t more = *capacity ? 2 * *capacity : 4;
    if (!jinja_afford(arena, more * size)) return NULL;
    void *now = jinja_take(arena, more * size);
    if (count) memcpy(now, old, count * size);
    *capacity = more;
    return now;
}

char *jinja_keep(struct jinja_arena *arena, const char *text, size_t length)
{
    char *copy = jinja_take(arena, length + 1);
    if (length) memcpy(copy, text, length);
    return copy;
}

void jinja_arena_release(struct jinja_arena *arena)
{
    for (struct jinja_block *b = arena->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    *arena = (struct jinja_arena){ 0 };
}

static void fail(struct jinja_run *r, bool unknown, const char *format, va_list args)
{
    char text[sizeof r->err->text];
    vsnprintf(text, sizeof text, format, args);
    if (r->failed) return;
    r->failed = true;
    r->unknown = unknown;
    err_set(r->err, "line %d: %s", r->line, text);
}

void jinja_fail(struct jinja_run *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(r, false, format, args);
    va_end(args);
}

void jinja_unknown(struct jinja_run *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(r, true, format, args);
    va_end(args);
}

bool jinja_enter(struct jinja_run *r)
{
    if (++r->depth > JINJA_STACK) jinja_fail(r, "values, macros or blocks are nested too deeply");
    return !r->failed;
}

bool jinja_step(struct jinja_run *r, size_t steps)
{
    if (!jinja_spend(r->arena, steps)) jinja_fail(r, "%s", r->arena->spent);
    return !r->failed;
}

// --- simple values -----------------------------------------------------------------------------

struct jinja_value jinja_bool(bool truth)
{
    return (struct jinja_value){ .kind = JINJA_BOOL, .truth = truth };
}

static bool has_list(struct jinja_value v)
{
    return jinja_is_sequence(v) || v.kind == JINJA_VIEW || v.kind == JINJA_GENERATOR;
}

const char *jinja_value_kind_name(struct jinja_value v)
{
    static const char *const names[] = {
        [JINJA_ABSENT] = "nothing",  [JINJA_UNDEFINED] = "an undefined value",
        [JINJA_NONE] = "none",       [JINJA_BOOL] = "a bool",
        [JINJA_INT] = "an int",      [JINJA_REAL] = "a float",
        [JINJA_TEXT] = "a str",      [JINJA_LIST] = "a list",
        [JINJA_TUPLE] = "a tuple",   [JINJA_VIEW] = "a dict view",
        [JINJA_RANGE] = "a range",   [JINJA_GENERATOR] = "a generator",
        [JINJA_DICT] = "a dict",     [JINJA_NAMESPACE] = "a namespace",
        [JINJA_LOOP] = "a loop",     [JINJA_FUNCTION] = "a function",
        [JINJA_METHOD] = "a method", [JINJA_MACRO] = "a macro",
    };
    return names[v.kind];
}

// --- lists and dicts ---------------------------------------------------------------------------

struct jinja_list *jinja_list_new(struct jinja_arena *arena)
{
    return jinja_take(arena, sizeof(struct jinja_list));
}

void jinja_list_push(struct jinja_arena *arena, struct jinja_list *list, struct jinja_value v)
{
    void *items = jinja_grow(arena, list->items, list->count, &list->capacity, sizeof v);
    if (!items) return;
    list->items = items;
    list->items[list->count++] = v;
}

void jinja_list_extend(struct jinja_run *r, struct jinja_list *list,
                       const struct jinja_value *items, size_t count)
{
    for (size_t i = 0; i < count && jinja_step(r, 1); i++)
        jinja_list_push(r->arena, list, items[i]);
}

struct jinja_value jinja_list_value(enum jinja_kind kind, struct jinja_list *list)
{
    return (struct jinja_value){ .kind = kind, .list = list };
}

struct jinja_value jinja_dict(struct jinja_arena *arena)
{
    return (struct jinja_value){ .kind = JINJA_DICT,
                                 .dict = jinja_take(arena, sizeof(struct jinja_dict)) };
}

static void dict_append(struct jinja_arena *arena, struct jinja_dict *d, struct jinja_value key,
                        struct jinja_value v)
{
    void *entries = jinja_grow(arena, d->entries, d->count, &d->capacity, sizeof *d->entries);
    if (!entries) return;
    d->entries = entries;
    d->entries[d->count++] = (struct jinja_entry){ key, v };
}

int64_t jinja_dict_find(struct jinja_run *r, const struct jinja_dict *d, struct jinja_value key)
{
    if (key.kind == JINJA_LIST || key.kind == JINJA_TUPLE || key.kind == JINJA_DICT) {
        jinja_fail(r, "%s cannot be the key of a dict", jinja_value_kind_name(key));
        return -1;
    }
    for (size_t i = 0; i < d->count && !r->failed; i++)
        if (jinja_value_equal(r, d->entries[i].key, key)) return (int64_t)i;
    return -1;
}

void jinja_dict_put(struct jinja_run *r, struct jinja_dict *d, struct jinja_value key,
                    struct jinja_value v)
{
    const int64_t i = jinja_dict_find(r, d, key);
    if (r->failed) return;
    if (i >= 0)
        d->entries[i].value = v;
    else
        dict_append(r->arena, d, key, v);
}

struct jinja_list *jinja_dict_pairs(struct jinja_run *r, const struct jinja_dict *d)
{
    struct jinja_list *pairs = jinja_list_new(r->arena);
    for (size_t i = 0; i < d->count && jinja_step(r, 1); i++) {
        struct jinja_list *pair = jinja_list_new(r->arena);
        jinja_list_push(r->arena, pair, d->entries[i].key);
        jinja_list_push(r->arena, pair, d->entries[i].value);
        jinja_list_push(r->arena, pairs, jinja_list_value(JINJA_TUPLE, pair));
    }
    return pairs;
}

void jinja_set(struct jinja_arena *arena, struct jinja_value dict, const char *key,
               struct jinja_value value)
{
    struct jinja_dict *d = dict.dict;
    const size_t length = strlen(key);
    if (!jinja_spend(arena, d->count)) return;
    for (size_t i = 0; i < d->count; i++) {
        const struct jinja_value name = d->entries[i].key;
        if (!jinja_is_text(name) || name.text->length != length ||
            memcmp(name.text->bytes, key, length) != 0)
            continue;
        d->entries[i].value = value;
        return;
    }
    dict_append(arena, d, jinja_text(arena, key, length, JINJA_TEMPLATE), value);
}

// --- truth and order ---------------------------------------------------------------------------

bool jinja_value_truth(struct jinja_value v)
{
    switch (v.kind) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE: return false;
    case JINJA_BOOL: return v.truth;
    case JINJA_INT: return v.integer != 0;
    case JINJA_REAL: return v.real != 0;
    case JINJA_TEXT: return v.text->length > 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
    case JINJA_RANGE: return v.list->count > 0;
    case JINJA_DICT: return v.dict->count > 0;
    default: return true;
    }
}

static bool contents_equal(struct jinja_run *r, struct jinja_value a, struct jinja_value b)
{
    const bool dict = a.kind == JINJA_DICT;
    const size_t count = dict ? a.dict->count : a.list->count;
    bool equal = jinja_enter(r) && count == (dict ? b.dict->count : b.list->count);
    for (size_t i = 0; equal && i < count; i++) {
        const int64_t k = dict ? jinja_dict_find(r, b.dict, a.dict->entries[i].key) : (int64_t)i;
        equal = !r->failed && k >= 0 &&
                jinja_value_equal(r, dict ? a.dict->entries[i].value : a.list->items[i],
                                  dict ? b.dict->entries[k].value : b.list->items[k]);
    }
    r->depth--;
    return equal;
}

bool jinja_value_equal(struct jinja_run *r, struct jinja_value a, struct jinja_value b)
{
    if (!jinja_step(r, 1)) return false;
    if (jinja_is_number(a) && jinja_is_number(b)) {
        if (a.kind == JINJA_REAL || b.kind == JINJA_REAL)
            return jinja_value_as_real(a) == jinja_value_as_real(b);
        return jinja_value_as_int(a) == jinja_value_as_int(b);
    }
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE: return true;
    case JINJA_TEXT: jinja_step(r, a.text->length / 64); return jinja_strings_equal(a.text, b.text);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE:
    case JINJA_DICT: return a.list == b.list || contents_equal(r, a, b);
    case JINJA_METHOD: return a.method->call == b.method->call;
    default: return a.list == b.list;
    }
}

int jinja_value_order(struct jinja_run *r, struct jinja_value a, struct jinja_value b)
{
    if (!jinja_step(r, 1)) return 0;
    if (jinja_is_number(a) && jinja_is_number(b)) {
        if (a.kind != JINJA_REAL && b.kind != JINJA_REAL) {
            const int64_t x = jinja_value_as_int(a), y = jinja_value_as_int(b);
            return x < y ? -1 : x > y;
        }
        const double x = jinja_value_as_real(a), y = jinja_value_as_real(b);
        return x < y ? -1 : x > y;
    }
    if (jinja_is_text(a) && jinja_is_text(b)) {
        const size_t x = a.text->length, y = b.text->length, n = x < y ? x : y;
        jinja_step(r, n / 64);
        // Byte order of UTF-8 is code point order.
        const int order = n ? memcmp(a.text->bytes, b.text->bytes, n) : 0;
        if (order) return order < 0 ? -1 : 1;
        return x < y ? -1 : x > y;
    }
    jinja_fail(r, "%s and %s have no order", jinja_value_kind_name(a), jinja_value_kind_name(b));
    return 0;
}

bool jinja_value_contains(struct jinja_run *r, struct jinja_value all, struct jinja_value one)
{
    if (jinja_is_text(all)) {
        if (!jinja_is_text(one)) {
            jinja_fail(r, "'in' looks for a str in a str, not for %s", jinja_value_kind_name(one));
            return false;
        }
        return jinja_string_find(r, all.text, one.text, 0) != SIZE_MAX;
    }
    if (all.kind == JINJA_DICT) return jinja_dict_find(r, all.dict, one) >= 0;
    struct jinja_list *items = has_list(all) ? all.list : jinja_value_items(r, all);
    for (size_t i = 0; items && i < items->count && !r->failed; i++)
        if (jinja_value_equal(r, items->items[i], one)) return true;
    return false;
}

// --- items -------------------------------------------------------------------------------------

bool jinja_value_iterable(struct jinja_value v)
{
    return has_list(v) || jinja_is_text(v) || v.kind == JINJA_DICT || v.kind == JINJA_UNDEFINED;
}

static struct jinja_list *characters(struct jinja_run *r, const struct jinja_string *s)
{
    struct jinja_list *list = jinja_list_new(r->arena);
    for (size_t i = 0, n; i < s->length && jinja_step(r, 1); i += n) {
        n = jinja_char_length(s->bytes + i, s->length - i);
        jinja_list_push(r->arena, list, jinja_string_piece(r, s, i, i + n));
    }
    return list;
}

struct jinja_list *jinja_value_items(struct jinja_run *r, struct jinja_value v)
{
    struct jinja_list *list = jinja_list_new(r->arena);
    if (jinja_is_text(v)) return characters(r, v.text);
    if (v.kind == JINJA_UNDEFINED) return list;
    if (v.kind == JINJA_DICT) {
        for (size_t i = 0; i < v.dict->count && jinja_step(r, 1); i++)
            jinja_list_push(r->arena, list, v.dict->entries[i].key);
        return list;
    }
    if (!has_list(v)) {
        jinja_fail(r, "%s cannot be iterated over", jinja_value_kind_name(v));
        return NULL;
    }
    jinja_list_extend(r, list, v.list->items, v.list->count);
    if (v.kind == JINJA_GENERATOR) v.list->count = 0;
    return list;
}

int64_t jinja_value_length(struct jinja_run *r, struct jinja_value v)
{
    if (jinja_is_text(v)) return jinja_string_characters(r, v.text);
    if (v.kind == JINJA_DICT) return (int64_t)v.dict->count;
    if (v.kind == JINJA_UNDEFINED) return 0;
    if (has_list(v) && v.kind != JINJA_GENERATOR) return (int64_t)v.list->count;
    jinja_fail(r, "%s has no length", jinja_value_kind_name(v));
    return -1;
}
