// tui/graphics_tmux.c -- whether tmux can show sixels on the terminal around it.
//
// A tmux built with sixels says so in its DA1 whatever the terminal around it can; where that has
// none, or does not tell the size of its cells, tmux writes "SIXEL IMAGE" and plus signs instead.
// What it knows of its client it tells only by a command.
#include <stdlib.h>
#include <string.h>

#include "core/base/program.h"
#include "tui/graphics.h"

bool graphics_tmux_sixel(void)
{
    char *const argv[] = { "tmux", "display-message", "-p",
                           "#{client_cell_width} #{client_termfeatures}", NULL };
    // It answers within a few milliseconds, or hangs.
    const struct program p = { .argv = argv, .patience_s = 0.5, .most = 1023 };
    struct buf text = { 0 };
    program_run(&p, &text, NULL);
    buf_puts(&text, "");
    const bool sixel = strtol(text.data, NULL, 10) > 0 && strstr(text.data, "sixel");
    buf_release(&text);
    return sixel;
}
