// core/template/sequence.c -- rows of text and visual tokens.
#include "core/template/sequence.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"

void sequence_init(struct sequence *s, int64_t n, int axes)
{
    size_t rows = (size_t)n;
    *s = (struct sequence){ .n = n, .axes = axes };
    s->ids = xcalloc(rows, sizeof *s->ids);
    s->picture = xreallocarray(NULL, rows, sizeof *s->picture);
    s->cell = xreallocarray(NULL, rows, sizeof *s->cell);
    s->newline = xcalloc(rows, sizeof *s->newline);
    for (int64_t i = 0; i < n; i++) s->picture[i] = s->cell[i] = -1;
    sequence_set_axes(s, axes);
}

void sequence_set_axes(struct sequence *s, int axes)
{
    const size_t rows = (size_t)s->n * (size_t)axes;
    s->axes = axes;
    s->positions = xreallocarray(s->positions, rows, sizeof *s->positions);
    for (int axis = 0; axis < axes; axis++)
        for (int64_t i = 0; i < s->n; i++) s->positions[axis * s->n + i] = (int32_t)i;
}

// Copies all rows of `from` to `to`, starting at row `at`. If `from` has one axis of positions, it
// fills all axes of `to`.
static void copy_rows(struct sequence *to, int64_t at, const struct sequence *from)
{
    const size_t n = (size_t)from->n;
    if (!n) return;
    memcpy(to->ids + at, from->ids, n * sizeof *to->ids);
    memcpy(to->picture + at, from->picture, n * sizeof *to->picture);
    memcpy(to->cell + at, from->cell, n * sizeof *to->cell);
    memcpy(to->newline + at, from->newline, n * sizeof *to->newline);
    for (int axis = 0; axis < to->axes; axis++)
        memcpy(to->positions + axis * to->n + at,
               from->positions + (axis < from->axes ? axis : 0) * from->n,
               n * sizeof *to->positions);
}

void sequence_copy(struct sequence *to, const struct sequence *from)
{
    sequence_init(to, from->n, from->axes);
    to->prompt = from->prompt;
    to->pictures = from->pictures;
    copy_rows(to, 0, from);
    if (!from->n || !from->start) return;
    to->start = xreallocarray(NULL, (size_t)from->n, sizeof *to->start);
    memcpy(to->start, from->start, (size_t)from->n * sizeof *to->start);
}

void sequence_join(struct sequence *to, const struct sequence *const *samples,
                   const size_t *pictures, size_t count)
{
    int64_t n = 0, at = 0;
    size_t before = 0;
    int axes = 1;
    for (size_t k = 0; k < count; k++) {
        n += samples[k]->n;
        if (samples[k]->axes > axes) axes = samples[k]->axes;
    }
    sequence_init(to, n, axes);
    to->start = xreallocarray(NULL, (size_t)n, sizeof *to->start);
    for (size_t k = 0; k < count; k++) {
        const struct sequence *s = samples[k];
        to->pictures |= s->pictures;
        copy_rows(to, at, s);
        for (int64_t i = at; i < at + s->n; i++) {
            if (to->picture[i] >= 0) to->picture[i] += (int32_t)before;
            to->start[i] = (int32_t)at;
        }
        at += s->n;
        before += pictures[k];
    }
}

int64_t sequence_longest(const struct sequence *s)
{
    int64_t longest = s->start ? 0 : s->n;
    for (int64_t i = 0; s->start && i < s->n; i++)
        if (i + 1 - s->start[i] > longest) longest = i + 1 - s->start[i];
    return longest;
}

void sequence_release(struct sequence *s)
{
    free(s->ids);
    free(s->picture);
    free(s->cell);
    free(s->newline);
    free(s->positions);
    free(s->start);
    *s = (struct sequence){ 0 };
}

int64_t sequence_query(const struct sequence *s)
{
    return (s->prompt > 0 && s->prompt < s->n ? s->prompt : s->n) - 1;
}

int64_t sequence_visual_count(const struct sequence *s, int64_t from)
{
    int64_t count = 0;
    for (int64_t i = from; i < s->n; i++) count += s->picture[i] >= 0;
    return count;
}

void sequence_append(struct sequence *s, int32_t id)
{
    if (s->start) BUG("appending a row to several samples");
    int64_t n = s->n + 1;
    struct sequence longer;
    sequence_init(&longer, n, s->axes);
    longer.prompt = s->prompt;
    longer.pictures = s->pictures;
    int32_t largest = -1;
    for (int64_t i = 0; i < s->n * s->axes; i++)
        if (s->positions[i] > largest) largest = s->positions[i];
    copy_rows(&longer, 0, s);
    for (int axis = 0; axis < s->axes; axis++) longer.positions[axis * n + n - 1] = largest + 1;
    longer.ids[n - 1] = id;
    sequence_release(s);
    *s = longer;
}

void sequence_trim(struct sequence *s, int64_t n)
{
    if (n >= s->n) return;
    for (int axis = 1; axis < s->axes; axis++)
        for (int64_t i = 0; i < n; i++) s->positions[axis * n + i] = s->positions[axis * s->n + i];
    s->n = n;
}

int32_t *sequence_visual_numbers(const struct sequence *s, int64_t *visual)
{
    int32_t *number = xreallocarray(NULL, (size_t)s->n + 1, sizeof *number);
    *visual = 0;
    for (int64_t i = 0; i < s->n; i++) number[i] = s->picture[i] >= 0 ? (int32_t)(*visual)++ : -1;
    return number;
}
