// core/draw/film.h -- maps one after the other as an animated GIF: one frame for each token of an
// answer, which stands below with the token marked.
//
//   struct film f = { .look = &look, .words = words, .count = n };  // words: texts of the tokens
//   film_add(&f, token, maps, count);                               // copies them
//   film_write(&f, "answer.gif", &err);
//   film_release(&f);
//
// All frames share one scale, from the least to the most of all maps. Each is shown for half a
// second, the last for two; it begins again.
#ifndef CORE_DRAW_FILM_H
#define CORE_DRAW_FILM_H

#include "core/base/err.h"
#include "core/base/event.h"
#include "core/draw/figure.h"

enum { FILM_FRAMES = 1000 };

struct film_frame {
    struct event_heatmap *maps; // [count], ours
    size_t count;
};

struct film {
    const struct figure_look *look;
    char **words; // [count], borrowed
    size_t count;
    const char *unit;          // of the values; NULL: unknown
    struct film_frame *frames; // [frame_count], by token
    size_t frame_count;
};

// The next token's maps. Their values are copied, their names and images are borrowed.
void film_add(struct film *f, const struct event_heatmap *maps, size_t count);
int film_write(struct film *f, const char *path, struct err *err);
void film_release(struct film *f);

// RGB pictures [frames, height, width, 3] as a GIF; pauses in hundredths of a second.
int film_gif(const char *path, uint8_t *const *frames, const int *pauses, size_t count, int width,
             int height, struct err *err);

#endif
