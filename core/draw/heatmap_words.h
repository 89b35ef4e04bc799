// core/draw/heatmap_words.h -- a map in words, for readers who do not see it.
//
//   heatmap_say(&map, &boxes, &b);   // "looks at: the dog 41%, upper left 35%, middle 18%"
#ifndef CORE_DRAW_HEATMAP_WORDS_H
#define CORE_DRAW_HEATMAP_WORDS_H

#include "core/base/event.h"
#include "core/base/mem.h"

struct boxes;

// Appends a sentence without a full stop. A map over the picture: each named object whose box has a
// larger share of the sum of all values than of the area (objects: in pixels of the picture; NULL:
// none); then up to three ninths of the picture, those with the largest shares. A map over the
// picture with negative values, or with sum 0: the ninths with the highest and the lowest mean.
// Other maps: the cell with the highest value, by its axes. Appends nothing if no value is known.
void heatmap_say(const struct event_heatmap *h, const struct boxes *objects, struct buf *b);

#endif
