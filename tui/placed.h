// tui/placed.h -- the pictures that stand on the terminal: drawn, sent again, removed.
//
//   struct placed p = { 0 };
//   placed_ask(&p, &out);                               // what the terminal can draw
//   placed_reply(&p, bytes, length);
//   shown = placed_shows(&p, &canvas, i, columns, lines);
//   if (placed_blanks(&p, &canvas, i, touched[i])) ...
//   placed_draw(&p, &canvas, shown, touched, &out);
//   seconds = placed_wait(&p, now);                     // until something has to be sent again
//
// tmux drops what is meant for the terminal around it while it draws a window anew, or shows
// another: so the question is asked again until there is an answer, and pictures are sent again
// until the terminal says that it has them.
#ifndef TUI_PLACED_H
#define TUI_PLACED_H

#include "tui/canvas.h"
#include "tui/graphics.h"

struct placed_picture {
    struct area area;
    uint64_t key;
    int width, height; // pixels that it covers
    uint32_t id;
    bool unsure;    // it may not have come
    int tries;      // how often it was sent
    double sent_at; // seconds
};

struct placed {
    struct graphics graphics;
    enum graphics_kind way; // in which the pictures were drawn
    struct placed_picture list[CANVAS_PICTURES];
    int count;
    int asked; // how often
    double asked_at;
};

void placed_ask(struct placed *p, struct buf *out);
void placed_reply(struct placed *p, const char *bytes, size_t length);
// Picture `number` of the canvas: nothing else was drawn on its cells, and it is ready, or the one
// before it still stands there.
bool placed_shows(const struct placed *p, const struct canvas *c, int number, int columns,
                  int lines);
// Must its cells be blanked before it is drawn? Otherwise their old contents would show around the
// picture.
bool placed_blanks(const struct placed *p, const struct canvas *c, int number, bool touched);
// Draws what is new, was overwritten (touched) or may not have come, then removes what was there
// before.
void placed_draw(struct placed *p, const struct canvas *c, const bool shown[], const bool touched[],
                 struct buf *out);
// Pictures that kitty keeps by their ids go; what overwrites the others is drawn anyway.
void placed_forget(struct placed *p, struct buf *out);
// Is the terminal about to say something: about the question, or about a picture?
bool placed_expects(const struct placed *p);
// Seconds until the next drawing should come by itself; below 0: never.
double placed_wait(const struct placed *p, double now);

#endif
