// tui/terminal.h -- shows a canvas on the terminal; tui/keys.h reads its keys.
//
//   if (terminal_possible()) { struct terminal *t = terminal_open(&err); ... }
//   terminal_size(t, &lines, &columns);
//   terminal_show(t, &canvas, theme);         // only what changed is sent
//   terminal_leave(t); ... $EDITOR, Ctrl-Z ...; terminal_enter(t);
//   terminal_close(t);
//
// From open to leave or close, a signal that ends the program restores the terminal.
#ifndef TUI_TERMINAL_H
#define TUI_TERMINAL_H

#include "core/base/err.h"
#include "tui/canvas.h"
#include "tui/graphics.h"

struct terminal;

// Returns whether standard input and output are a terminal with cursor movement, not "dumb".
bool terminal_possible(void);
// If no locale is set, and TERM is not a VT terminal, chooses C.UTF-8 and exports it to the
// environment for readline and editors: call before using either. Returns whether the locale is
// UTF-8.
bool terminal_locale(void);
struct terminal *terminal_open(struct err *err);
void terminal_close(struct terminal *t);
void terminal_size(struct terminal *t, int *lines, int *columns);
void terminal_resize(struct terminal *t); // after SIGWINCH
void terminal_show(struct terminal *t, const struct canvas *c, const struct theme *theme);
// Reads a reply of the terminal (KEY_REPLY).
void terminal_reply(struct terminal *t, const char *bytes, size_t length);
// Returns the seconds until the next show is due even without changes; below 0: never.
double terminal_wait(const struct terminal *t, double now);
// Returns the terminal's background, 0xRRGGBB; -1: it has not reported it.
int64_t terminal_background(const struct terminal *t);
// Sets the canvas's colours, cell size and way to draw pictures (by screen.graphics).
void terminal_prepare(const struct terminal *t, struct canvas *c, const char *graphics);
void terminal_redraw(struct terminal *t); // the next show draws everything
void terminal_leave(struct terminal *t);
void terminal_enter(struct terminal *t);
// Sets what the terminal reports; without a mouse, it does nothing.
enum terminal_mouse { MOUSE_NONE, MOUSE_CLICKS, MOUSE_MOVES };
void terminal_mouse(struct terminal *t, enum terminal_mouse mouse);
void terminal_write(const char *bytes, size_t length); // sent unchanged: the clipboard (OSC 52)

#endif
