// core/draw/film.h -- maps in sequence as an animated GIF: one frame per token of an answer, with
// the answer below and the token marked.
//
//   struct film f = { .look = &look, .words = words, .count = n };  // words: texts of the tokens
//   film_open(&f, "answer.gif", &err);                              // fails for unwritable paths
//   film_add(&f, word, maps, count, &err);                          // for each token
//   for (size_t i = 0; i < f.frame_count; i++) film_draw(&f, i, &err);
//   film_close(&f, &err);
//   film_release(&f);
//
// All frames share one scale, from the minimum to the FILM_SHARE quantile, so that a single
// token with a far larger value does not darken the others. Larger values get the last colour. Each
// frame lasts half a second, the last two seconds; the film repeats.
#ifndef CORE_DRAW_FILM_H
#define CORE_DRAW_FILM_H

#include <stdio.h>

#include "core/base/err.h"
#include "core/base/event.h"

enum { FILM_FRAMES = 1000 };
#define FILM_SHARE 0.99

struct film_frame {
    struct event_heatmap *maps; // [count]; their data is borrowed until film_release
    size_t count, word;         // word: the token's index in film.words
};

struct film {
    const struct figure_look *look;
    char **words; // [count], borrowed
    size_t count;
    struct film_frame *frames; // [frame_count]
    size_t frame_count;
    // Internal:
    char *path;
    FILE *file;                        // NULL once it is complete
    struct GifFileType *gif;           // NULL before the first frame
    double width, height, maps_height; // points; maps_height: the maps with their titles
    bool cut;                          // values exceed the scale
};

// Opens the file; closing the film replaces an existing one. 0 or -1.
int film_open(struct film *f, const char *path, struct err *err);
// Adds the next token's maps, whose data must last until film_release. -1: too many maps for a
// frame.
int film_add(struct film *f, size_t word, const struct event_heatmap *maps, size_t count,
             struct err *err);
// Draws and writes frame `i`; call in order from 0, once all frames are added.
int film_draw(struct film *f, size_t i, struct err *err);
int film_close(struct film *f, struct err *err);
// Leaves no file unless the film was closed.
void film_release(struct film *f);

#endif
