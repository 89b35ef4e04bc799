// tui/prompt.h -- the input line of the full screen: readline edits it, the screen draws it.
//
//   struct prompt *p = prompt_new(&shell, on_line, self);
//   prompt_feed(p, bytes, n);               // keys for readline; calls on_line for a complete line
//   prompt_draw(p, &canvas, area, "vlmsh> ", true);
//   prompt_free(p);
//
// Readline never touches the terminal: its output is discarded.
#ifndef TUI_PROMPT_H
#define TUI_PROMPT_H

#include "tui/canvas.h"
#include "tui/line_edit.h"

struct prompt;

// Completion uses `shell`. on_line gets each typed line; text NULL: Ctrl-D on an empty line.
struct prompt *prompt_new(const struct shell *shell, void (*on_line)(void *self, const char *text),
                          void *self);
void prompt_free(struct prompt *p);
void prompt_feed(struct prompt *p, const char *bytes, size_t length);
void prompt_escape(struct prompt *p);                   // ESC, for vi mode
void prompt_insert(struct prompt *p, const char *text); // at the cursor
void prompt_set(struct prompt *p, const char *text);
const char *prompt_typed(const struct prompt *p);
bool prompt_plain(const struct prompt *p); // false during a search or another special mode

// Returns the number of candidates in Tab's menu; 0 if the menu is closed.
size_t prompt_offers(const struct prompt *p, char *const **list);
void prompt_close_menu(struct prompt *p);

int prompt_lines(const struct prompt *p, int width, const char *label); // height in lines
void prompt_draw(const struct prompt *p, struct canvas *c, struct area area, const char *label,
                 bool focused);

#endif
