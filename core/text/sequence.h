// core/text/sequence.h -- what stands where in the token sequence.
//
// One function per family says how many visual tokens a picture gives; from then on the places are
// here, and the prompt, the context meter, the splice, pruning and training read them.
#ifndef CORE_TEXT_SEQUENCE_H
#define CORE_TEXT_SEQUENCE_H

#include <stdint.h>

#include "core/base/mem.h"

// Row i of a sequence of n rows. Pictures are counted through the whole conversation. In training
// a sequence may hold several samples, one after the other (sequence_join): then a row sees only
// rows of its own sample, from start[i] on, and pictures are counted through all of them.
struct sequence {
    int64_t n;
    int32_t *ids;       // [n] token id; the placeholder id where a visual token stands
    int32_t *picture;   // [n] index of the picture whose token stands here, -1 for text
    int32_t *cell;      // [n] which visual token of that picture (sequence order), -1 for text
    int32_t *positions; // [axes, n] rotary positions
    int axes;           // 1, or 3 for multimodal rotary positions (t, h, w)
    int32_t *start;     // [n] first row of the sample row i belongs to; NULL: there is one sample
    int64_t prompt;     // rows up to the end of the newest generation prompt; 0: all of them
};

// Room for n rows; ids zero, picture and cell -1, positions 0..n-1 on every axis.
void sequence_init(struct sequence *s, int64_t n, int axes);
// One text token more; its position is the largest so far + 1 on every axis.
void sequence_append(struct sequence *s, int32_t id);
// Only the first n rows stay.
void sequence_trim(struct sequence *s, int64_t n);
void sequence_copy(struct sequence *to, const struct sequence *from);
// The rows of `count` samples in one sequence; positions are those in the sample. pictures[k]: how
// many pictures sample k has.
void sequence_join(struct sequence *to, const struct sequence *const *samples,
                   const size_t *pictures, size_t count);
void sequence_release(struct sequence *s);
// Rows of the longest sample.
int64_t sequence_longest(const struct sequence *s);
// The last row of the newest generation prompt: what chooses an answer's first token.
int64_t sequence_query(const struct sequence *s);
// Number of visual tokens in rows [from, n).
int64_t sequence_visual_count(const struct sequence *s, int64_t from);

#endif
