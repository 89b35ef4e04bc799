// core/draw/heatmap_words.h -- a map in words, for readers who do not see it.
//
//   heatmap_say(&map, &boxes, &b);   // "looks at: the dog 41%, upper left 35%, middle 18%"
#ifndef CORE_DRAW_HEATMAP_WORDS_H
#define CORE_DRAW_HEATMAP_WORDS_H

#include "core/base/event.h"
#include "core/base/mem.h"

struct boxes;

// Appends a sentence without a full stop. A map over the picture: the ninths of the picture that
// have more than their part of the sum of all values, the highest first, and before them each named
// object with a box that has more than the box's part of the picture (objects: in pixels of the
// picture; NULL: none). A map with negative values: the ninths with the highest and the lowest
// mean. Other maps: the cell with the highest value, by its axes. Appends nothing if no value is
// known.
void heatmap_say(const struct event_heatmap *h, const struct boxes *objects, struct buf *b);

#endif
