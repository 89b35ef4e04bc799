// core/methods/prune_lists.h -- which keys the rows of a pass see behind layers that drop tokens,
// and how what pruning knows goes on to the next rank (job.split layers).
//
//   prune_put(note, &value, sizeof value);       in the rank before
//   prune_get(note, &value, sizeof value)        in the next one, in the same order; false: not
//   there
#ifndef CORE_METHODS_PRUNE_LISTS_H
#define CORE_METHODS_PRUNE_LISTS_H

#include "core/stages/stages.h"

// Keys that rows from.. see, in the form of struct seen_keys.
struct seen_lists {
    int64_t from, rows;
    int32_t **keys; // [rows][count], NULL: none chosen
    int64_t *count; // [rows]
};

void lists_clear(struct seen_lists *l);

void prune_put(struct stage_note *note, const void *data, size_t size);
bool prune_get(struct stage_note *note, void *data, size_t size);
void lists_put(struct stage_note *note, const struct seen_lists *l);
// Into empty lists of at most `most` rows, which have something to release even after a failure.
bool lists_get(struct stage_note *note, int64_t most, struct seen_lists *l);

#endif
