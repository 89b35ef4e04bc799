// core/template/sequence.h -- the token sequence: ids, visual tokens and positions.
//
// The family computes the number of visual tokens per picture; the sequence records their rows, for
// the prompt, the context meter, the splice, pruning and training.
#ifndef CORE_TEMPLATE_SEQUENCE_H
#define CORE_TEMPLATE_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/mem.h"

// Several conversations with a common prefix in one pass (core/talk/batch.h). Rows of the cache:
// the keys of the prefix, which every row of the pass attends to; `rows` rows for the conversation
// that is being computed; then `rows` rows for the keys of each conversation.
enum { SEGMENTS_MOST = 8 };
struct segments {
    int count;
    int64_t prefix, rows;
    // cached: rows of a conversation in the cache, after the prefix; n: its rows in this pass,
    // which has the rows of the first conversation, then those of the second, and so on.
    struct {
        int64_t cached, n;
    } of[SEGMENTS_MOST];
};

// Returns the first row of segment i in the cache.
static inline int64_t segment_row(const struct segments *s, int i)
{
    return s->prefix + s->rows * (i + 1);
}

// A sequence of n rows. Picture indices run through the whole conversation. In training, a sequence
// may hold several samples in succession (sequence_join): row i attends only to its own sample,
// from row start[i], and picture indices run through all samples.
struct sequence {
    int64_t n;
    int32_t *ids;       // [n] token id; the placeholder id for visual tokens
    int32_t *picture;   // [n] index of the visual token's picture, -1 for text
    int32_t *cell;      // [n] number of the visual token within its picture, -1 for text
    bool *newline;      // [n] true for a visual token that only ends a row of its picture
    int32_t *positions; // [axes, n] rotary positions
    int axes;           // 1, or 3 for multimodal rotary positions (t, h, w)
    int32_t *start;     // [n] first row of row i's sample; NULL: one sample
    const struct segments *segments; // borrowed; NULL: all rows are of one conversation
    bool pictures;  // the conversation, or one of the samples, has a picture, even without visual
                    // rows
    int64_t prompt; // rows up to the end of the newest generation prompt; 0: all of them
};

// Allocates n rows: ids 0, picture and cell -1, positions 0..n-1 on every axis.
void sequence_init(struct sequence *s, int64_t n, int axes);
// Sets the number of position axes; initialises each to 0..n-1.
void sequence_set_axes(struct sequence *s, int axes);
// Appends a text token; its position is the largest so far + 1 on every axis.
void sequence_append(struct sequence *s, int32_t id);
// Keeps only the first n rows.
void sequence_trim(struct sequence *s, int64_t n);
void sequence_copy(struct sequence *to, const struct sequence *from);
// Joins `count` samples into one sequence; positions are relative to the sample. pictures[k]:
// number of pictures of sample k.
void sequence_join(struct sequence *to, const struct sequence *const *samples,
                   const size_t *pictures, size_t count);
void sequence_release(struct sequence *s);
// Returns the number of rows of the longest sample.
int64_t sequence_longest(const struct sequence *s);
// Returns the last row of the newest generation prompt, whose logits predict an answer's first
// token.
int64_t sequence_query(const struct sequence *s);
// Counts the visual tokens in rows [from, n).
int64_t sequence_visual_count(const struct sequence *s, int64_t from);
// Numbers the visual tokens of the sequence: returns [n], -1 for text; the caller frees it.
// *visual: their count.
int32_t *sequence_visual_numbers(const struct sequence *s, int64_t *visual);

#endif
