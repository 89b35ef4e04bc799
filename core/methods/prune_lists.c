// core/methods/prune_lists.c -- lists of keys that rows see, as bytes between ranks.
#include "core/methods/prune_lists.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

void lists_clear(struct seen_lists *l)
{
    for (int64_t i = 0; i < l->rows; i++) free(l->keys[i]);
    free(l->keys);
    free(l->count);
    *l = (struct seen_lists){ 0 };
}

void prune_put(struct stage_note *note, const void *data, size_t size)
{
    if (size) buf_add(&note->bytes, data, size);
}

bool prune_get(struct stage_note *note, void *data, size_t size)
{
    if (size > note->bytes.length - note->at) return false;
    if (size) memcpy(data, note->bytes.data + note->at, size);
    note->at += size;
    return true;
}

void lists_put(struct stage_note *note, const struct seen_lists *l)
{
    const int64_t rows = l->keys ? l->rows : 0;
    prune_put(note, &l->from, sizeof l->from);
    prune_put(note, &rows, sizeof rows);
    for (int64_t i = 0; i < rows; i++) {
        prune_put(note, &l->count[i], sizeof *l->count);
        prune_put(note, l->keys[i], (size_t)l->count[i] * sizeof **l->keys);
    }
}

static bool list_get(struct stage_note *note, int32_t **keys, int64_t *count)
{
    const size_t left = note->bytes.length - note->at;
    if (!prune_get(note, count, sizeof *count)) return false;
    if (*count < 0 || (uint64_t)*count > left / sizeof **keys) return false;
    *keys = xreallocarray(NULL, (size_t)*count + 1, sizeof **keys);
    return prune_get(note, *keys, (size_t)*count * sizeof **keys);
}

bool lists_get(struct stage_note *note, int64_t most, struct seen_lists *l)
{
    int64_t rows;
    if (!prune_get(note, &l->from, sizeof l->from) || !prune_get(note, &rows, sizeof rows))
        return false;
    if (rows < 0 || rows > most) return false;
    if (!rows) return true;
    l->keys = xcalloc((size_t)rows, sizeof *l->keys);
    l->count = xcalloc((size_t)rows, sizeof *l->count);
    l->rows = rows;
    for (int64_t i = 0; i < rows; i++)
        if (!list_get(note, &l->keys[i], &l->count[i])) return false;
    return true;
}
