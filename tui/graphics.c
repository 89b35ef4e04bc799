// tui/graphics.c -- the ways to draw a picture, as a table, and what their encoders share.
#include "tui/graphics.h"

#include <stdlib.h>
#include <string.h>

#include "core/picture/image_write.h"

static const struct graphics_way ways[] = {
    [GRAPHICS_BLOCKS] = { "blocks", NULL, NULL },
    [GRAPHICS_ASCII] = { "ascii", NULL, NULL },
    [GRAPHICS_QUADRANTS] = { "quadrants", NULL, NULL },
    [GRAPHICS_SEXTANTS] = { "sextants", NULL, NULL },
    [GRAPHICS_KITTY] = { "kitty", graphics_encode_kitty, graphics_forget_kitty },
    [GRAPHICS_ITERM] = { "iterm", graphics_encode_iterm, NULL },
    [GRAPHICS_SIXEL] = { "sixel", graphics_encode_sixel, NULL },
};

const struct graphics_way *graphics_way(enum graphics_kind kind)
{
    return &ways[kind];
}

enum graphics_kind graphics_choose(const struct graphics *g, const char *setting)
{
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (!strcmp(ways[i].name, setting)) return (enum graphics_kind)i;
    return g->found;
}

// --- parts of encoders ---------------------------------------------------------------------------

void graphics_png(const struct graphics_picture *p, struct buf *png)
{
    image_encode_png(png, p->pixels, p->width, p->height, 4);
}

void graphics_wrap(struct buf *out, bool tmux, const char *bytes, size_t length)
{
    if (!tmux) {
        buf_add(out, bytes, length);
        return;
    }
    buf_puts(out, "\033Ptmux;");
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] == '\033') buf_putc(out, '\033');
        buf_putc(out, bytes[i]);
    }
    buf_puts(out, "\033\\");
}
