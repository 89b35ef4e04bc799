// tui/controls.h -- parts of panels, lists and pages: an input field, and a position that keys
// move.
#ifndef TUI_CONTROLS_H
#define TUI_CONTROLS_H

#include "tui/canvas.h"
#include "tui/keys.h"

// Adds a letter, deletes the last one (Backspace) or all (Ctrl-U). False: the key does not edit.
bool field_type(struct buf *field, const struct key *key);
void field_rub(struct buf *field); // deletes the last letter
// Draws the label and the field with the cursor on the last line of the area.
void field_draw(struct canvas *c, struct area area, const char *label, const struct buf *field);
// Moves *at within 0..last by up, down, page-up, page-down, top or bottom. False: another action.
bool position_move(const char *action, int *at, int last, int page);

#endif
