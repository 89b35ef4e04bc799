// tui/terminfo.c -- copies the terminal's description, because readline replaces the loaded one
// with another.
#include "tui/terminfo.h"

#include <curses.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>
#undef lines // macros of term.h
#undef columns

static const char *const names[TERMINFO_STRINGS] = {
    [TERMINFO_CLEAR] = "clear",       [TERMINFO_PLACE] = "cup",
    [TERMINFO_PLAIN] = "sgr0",        [TERMINFO_INK] = "setaf",
    [TERMINFO_PAPER] = "setab",       [TERMINFO_BOLD] = "bold",
    [TERMINFO_DIM] = "dim",           [TERMINFO_REVERSE] = "rev",
    [TERMINFO_UNDERLINE] = "smul",    [TERMINFO_ITALIC] = "sitm",
    [TERMINFO_HIDE_CURSOR] = "civis", [TERMINFO_SHOW_CURSOR] = "cnorm",
    [TERMINFO_BEGIN] = "smcup",       [TERMINFO_END] = "rmcup",
    [TERMINFO_KEYPAD] = "smkx",       [TERMINFO_END_KEYPAD] = "rmkx",
};

static const char *find(const char *name)
{
    const char *text = tigetstr(name);
    return text && text != (char *)-1 ? text : NULL;
}

int terminfo_read(struct terminfo *info, int fd)
{
    TERMINAL *before = cur_term;
    int problem = 0;
    if (setupterm(NULL, fd, &problem) != OK) return -1;
    for (int i = 0; i < TERMINFO_STRINGS; i++) {
        const char *text = find(names[i]);
        info->strings[i] = text ? xstrdup(text) : NULL;
    }
    info->lines = tigetnum("lines");
    info->columns = tigetnum("cols");
    info->colours = tigetnum("colors");
    info->mouse = find("kmous") != NULL;
    info->no_corner = tigetflag("am") > 0 && tigetflag("xenl") <= 0;
    TERMINAL *asked = set_curterm(before);
    if (asked != before) del_curterm(asked);
    return info->strings[TERMINFO_PLACE] && info->strings[TERMINFO_CLEAR] ? 0 : -1;
}

void terminfo_release(struct terminfo *info)
{
    for (int i = 0; i < TERMINFO_STRINGS; i++) free(info->strings[i]);
    *info = (struct terminfo){ 0 };
}

// Omits the pauses that old terminals needed: $<5>.
void terminfo_add(struct buf *out, const char *text)
{
    for (const char *p = text ? text : ""; *p; p++) {
        const char *end = p[0] == '$' && p[1] == '<' ? strchr(p, '>') : NULL;
        if (end)
            p = end;
        else
            buf_putc(out, *p);
    }
}

void terminfo_add_numbers(struct buf *out, const char *text, int first, int second)
{
    if (text) terminfo_add(out, tparm(text, first, second, 0, 0, 0, 0, 0, 0, 0));
}
