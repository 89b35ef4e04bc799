// tui/terminfo.h -- reads the terminal's description (terminfo): strings to write, sizes, colours.
//
//   struct terminfo info = { 0 };
//   if (terminfo_read(&info, STDOUT_FILENO) == 0) terminfo_add(&out, info.strings[TERMINFO_CLEAR]);
//   terminfo_release(&info);
#ifndef TUI_TERMINFO_H
#define TUI_TERMINFO_H

#include <stdbool.h>

#include "core/base/mem.h"

enum terminfo_string { // comments: parameters
    TERMINFO_CLEAR,
    TERMINFO_PLACE, // line, column
    TERMINFO_PLAIN,
    TERMINFO_INK,   // foreground: number of a colour
    TERMINFO_PAPER, // background: the same
    TERMINFO_BOLD,
    TERMINFO_DIM,
    TERMINFO_REVERSE,
    TERMINFO_UNDERLINE,
    TERMINFO_ITALIC,
    TERMINFO_HIDE_CURSOR,
    TERMINFO_SHOW_CURSOR,
    TERMINFO_BEGIN, // starts full-screen mode
    TERMINFO_END,
    TERMINFO_KEYPAD,
    TERMINFO_END_KEYPAD,
    TERMINFO_STRINGS
};

struct terminfo {
    char *strings[TERMINFO_STRINGS]; // NULL: not in the description
    int lines, columns, colours;     // -1: unknown
    bool mouse;
    bool no_corner; // a character in the last cell scrolls the screen
};

// Reads the description of TERM for the terminal `fd`. -1: TERM is unknown, or the terminal cannot
// place the cursor or clear the screen.
int terminfo_read(struct terminfo *info, int fd);
void terminfo_release(struct terminfo *info);
void terminfo_add(struct buf *out, const char *text); // NULL: adds nothing
void terminfo_add_numbers(struct buf *out, const char *text, int first, int second);

#endif
