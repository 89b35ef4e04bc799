// tui/terminal.h -- the terminal: ncurses puts a canvas on it; keys come as bytes from standard
// input.
//
//   if (terminal_possible()) { struct terminal *t = terminal_open(&err); ... }
//   terminal_size(t, &lines, &columns);
//   terminal_show(t, &canvas, theme);         // only what changed is sent
//   terminal_leave(t); ... $EDITOR, Ctrl-Z ...; terminal_enter(t);
//   terminal_close(t);
//
// True colour (COLORTERM=truecolor) is written beside ncurses, over the cells with the nearest of
// the 256 colours, which ncurses knows.
#ifndef TUI_TERMINAL_H
#define TUI_TERMINAL_H

#include "core/base/err.h"
#include "tui/canvas.h"

struct terminal;

// Can a screen be drawn on standard output (a terminal with cursor movement, not "dumb")?
bool terminal_possible(void);
// A locale without UTF-8 because none was set says nothing about the terminal: it becomes C.UTF-8,
// in the environment too (readline and editors ask there; to be called before either). Is the
// locale one of UTF-8 now?
bool terminal_locale(void);
struct terminal *terminal_open(struct err *err);
void terminal_close(struct terminal *t);
void terminal_size(struct terminal *t, int *lines, int *columns);
void terminal_resize(struct terminal *t); // after SIGWINCH
void terminal_show(struct terminal *t, const struct canvas *c, const struct theme *theme);
void terminal_redraw(struct terminal *t); // all of it with the next show
void terminal_leave(struct terminal *t);
void terminal_enter(struct terminal *t);
void terminal_mouse(struct terminal *t, bool on);
void terminal_write(const char *bytes, size_t length); // as it is: the clipboard (OSC 52)
// What a canvas for it must avoid.
bool terminal_ascii(const struct terminal *t);
bool terminal_mono(const struct terminal *t);
// Sequences that bring the terminal back, to be written when the program ends at once.
const char *terminal_farewell(const struct terminal *t);

#endif
