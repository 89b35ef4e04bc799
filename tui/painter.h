// tui/painter.h -- encodes drawings for the terminal in a separate thread; caches recent ones.
//
//   struct painter *p = painter_start(queue);             // posts NEWS_PAINTED for each picture
//   if (!painter_has(p, key)) painter_request(p, key, drawing, &canvas, place);
//   if (painter_take(p, key, &bytes, &id)) ...
//   painter_stop(p);
#ifndef TUI_PAINTER_H
#define TUI_PAINTER_H

#include "tui/drawing.h"
#include "tui/screen_events.h"

struct painter;

struct painter *painter_start(struct news_queue *queue);
void painter_stop(struct painter *p); // NULL is fine
// Combines the drawing's key with everything else that the encoded bytes depend on.
uint64_t painter_key(uint64_t drawing, const struct canvas *c, struct area place);
bool painter_has(struct painter *p, uint64_t key); // ready, queued or being encoded
// Queues the drawing and takes ownership of it. Drops the oldest queued drawing if the queue is
// full: during fast steps only the last matters.
void painter_request(struct painter *p, uint64_t key, struct drawing *d, const struct canvas *c,
                     struct area place);
bool painter_ready(struct painter *p, uint64_t key);
// Appends a copy of the bytes and returns kitty's id of the picture; false: not ready.
bool painter_take(struct painter *p, uint64_t key, struct buf *bytes, uint32_t *id);

#endif
