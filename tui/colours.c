// tui/colours.c -- what terminfo says, without opening a screen.
#include "tui/colours.h"

#include <curses.h>
#include <term.h>

int colours_of_terminal(int fd)
{
    TERMINAL *before = cur_term;
    int status;
    if (setupterm(NULL, fd, &status) != OK) return 0;
    const int colours = tigetnum("colors");
    TERMINAL *asked = set_curterm(before); // readline and ncurses have their own
    if (asked != before) del_curterm(asked);
    return colours > 0 ? colours : 0;
}

int step_of_eight(double share)
{
    static const int papers[] = { -1, COLOR_BLUE, COLOR_CYAN, COLOR_GREEN, COLOR_YELLOW };
    const int step = (int)(share * 5);
    return share < 0 ? -1 : papers[step > 4 ? 4 : step];
}
