// tui/placed.h -- draws, resends and removes the pictures on the terminal.
//
//   struct placed p = { 0 };
//   placed_query(&p, &out);                               // queries the terminal's capabilities
//   placed_reply(&p, bytes, length);
//   shown = placed_shows(&p, &canvas, i, columns, lines);
//   if (placed_blanks(&p, &canvas, i, touched[i])) ...
//   placed_draw(&p, &canvas, shown, touched, &out);
//   seconds = placed_wait(&p, now);                     // until something must be sent again
//
// While tmux redraws a window or shows another, it drops sequences for the outer terminal. So this
// code repeats the query until a reply arrives, and pictures until the terminal confirms them, but
// each a limited number of times.
#ifndef TUI_PLACED_H
#define TUI_PLACED_H

#include "tui/canvas.h"
#include "tui/graphics.h"

struct placed_picture {
    struct area area;
    uint64_t key;
    int width, height; // in pixels
    uint32_t id;
    bool unsure;    // not confirmed yet
    int tries;      // number of times it was sent
    double sent_at; // seconds
};

struct placed {
    struct graphics graphics;
    enum graphics_kind way; // used for the pictures of the list
    struct placed_picture list[CANVAS_PICTURES];
    int count;
    int queries; // number of queries sent
    double queried_at;
};

void placed_query(struct placed *p, struct buf *out);
void placed_reply(struct placed *p, const char *bytes, size_t length);
// Returns whether picture `number` of the canvas is visible: no cell is covered, and the picture is
// ready, or its predecessor is still shown there.
bool placed_shows(const struct placed *p, const struct canvas *c, int number, int columns,
                  int lines);
// Returns whether the picture's cells must be cleared first, because old contents would show around
// the picture.
bool placed_blanks(const struct placed *p, const struct canvas *c, int number, bool touched);
// Draws new, overwritten (touched) and unconfirmed pictures, then removes their predecessors.
void placed_draw(struct placed *p, const struct canvas *c, const bool shown[], const bool touched[],
                 struct buf *out);
// Removes pictures that the terminal keeps by their ids (kitty); others are overwritten.
void placed_forget(struct placed *p, struct buf *out);
// Returns whether a reply to the query, or a confirmation of a picture, may still arrive.
bool placed_expects(const struct placed *p);
// Returns the seconds until something must be sent again; below 0: never.
double placed_wait(const struct placed *p, double now);

#endif
