// tui/graphics.c -- the table of ways to draw a picture, and two terminal protocols.
//
// kitty (sw.kovidgoyal.net/kitty/graphics-protocol): a PNG in base64, in pieces of at most 4096
// bytes. Inside tmux the picture is sent to the outer terminal and shown by placeholders:
// characters U+10EEEE whose colour is the picture's id and whose first combining mark is the row.
// tmux moves the placeholders like text, so the picture stays where its cells are.
//
// iTerm2 (iterm2.com/documentation-images.html; WezTerm and others support its protocol too): one
// sequence with a PNG in base64.
#include "tui/graphics.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/base64.h"
#include "core/picture/image_write.h"

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

// --- kitty ---------------------------------------------------------------------------------------

// Combining marks that encode rows 0, 1, 2 ... (the protocol's list).
static const uint16_t rows[] = {
    0x305, 0x30d, 0x30e, 0x310, 0x312, 0x33d, 0x33e, 0x33f, 0x346, 0x34a, 0x34b, 0x34c,
    0x350, 0x351, 0x352, 0x357, 0x35b, 0x363, 0x364, 0x365, 0x366, 0x367, 0x368, 0x369,
    0x36a, 0x36b, 0x36c, 0x36d, 0x36e, 0x36f, 0x483, 0x484, 0x485, 0x486, 0x487, 0x592,
    0x593, 0x594, 0x595, 0x597, 0x598, 0x599, 0x59c, 0x59d, 0x59e, 0x59f, 0x5a0, 0x5a1,
    0x5a8, 0x5a9, 0x5ab, 0x5ac, 0x5af, 0x5c4, 0x610, 0x611, 0x612, 0x613, 0x614, 0x615,
    0x616, 0x617, 0x657, 0x658, 0x659, 0x65a, 0x65b, 0x65d, 0x65e, 0x6d6, 0x6d7, 0x6d8,
};
enum { ROWS = sizeof rows / sizeof rows[0], PIECE = 4096 };

// Each of these marks has two bytes in UTF-8.
static void put_mark(struct buf *out, uint16_t code)
{
    buf_putc(out, (char)(0xc0 | code >> 6));
    buf_putc(out, (char)(0x80 | (code & 63)));
}

// Every cell names its row. The first cell of a row also names column 0; the terminal counts the
// columns of the following cells itself.
static void put_placeholders(const struct graphics_picture *p, struct buf *out)
{
    buf_printf(out, "\033[38;5;%um", p->id & 255);
    for (int y = 0; y < p->lines && y < ROWS; y++) {
        for (int x = 0; x < p->columns; x++) {
            buf_puts(out, "\xf4\x8e\xbb\xae");
            put_mark(out, rows[y]);
            if (!x) put_mark(out, rows[0]);
        }
        buf_printf(out, "\033[%dD\033[B", p->columns);
    }
    buf_puts(out, "\033[39m");
}

static void encode_kitty(const struct graphics_picture *p, bool tmux, struct buf *out)
{
    struct buf png = { 0 }, text = { 0 }, piece = { 0 };
    image_encode_png(&png, p->pixels, p->width, p->height, 4);
    base64_encode(&text, png.data, png.length);
    for (size_t at = 0; at < text.length; at += PIECE) {
        const size_t n = text.length - at < PIECE ? text.length - at : PIECE;
        buf_clear(&piece);
        buf_puts(&piece, "\033_G");
        if (!at)
            buf_printf(&piece, "a=T,f=100,i=%u,c=%d,r=%d,C=1,%s%s", p->id, p->columns, p->lines,
                       p->confirm ? "" : "q=2,", tmux ? "U=1," : "");
        buf_printf(&piece, "m=%d;", at + n < text.length);
        buf_add(&piece, text.data + at, n);
        buf_puts(&piece, "\033\\");
        graphics_wrap(out, tmux, piece.data, piece.length);
    }
    if (tmux) put_placeholders(p, out);
    buf_release(&png);
    buf_release(&text);
    buf_release(&piece);
}

static void forget_kitty(uint32_t id, bool tmux, struct buf *out)
{
    struct buf b = { 0 };
    buf_printf(&b, "\033_Ga=d,d=I,i=%u,q=2\033\\", id);
    graphics_wrap(out, tmux, b.data, b.length);
    buf_release(&b);
}

// --- iTerm2 --------------------------------------------------------------------------------------

static void encode_iterm(const struct graphics_picture *p, bool tmux, struct buf *out)
{
    struct buf png = { 0 }, text = { 0 };
    image_encode_png(&png, p->pixels, p->width, p->height, 4);
    buf_printf(&text,
               "\033]1337;File=inline=1;size=%zu;width=%d;height=%d;preserveAspectRatio=0;"
               "doNotMoveCursor=1:",
               png.length, p->columns, p->lines);
    base64_encode(&text, png.data, png.length);
    buf_putc(&text, '\a');
    graphics_wrap(out, tmux, text.data, text.length);
    buf_release(&png);
    buf_release(&text);
}

// --- the table of ways ---------------------------------------------------------------------------

static const struct graphics_way ways[] = {
    [GRAPHICS_BLOCKS] = { "blocks", NULL, NULL },
    [GRAPHICS_ASCII] = { "ascii", NULL, NULL },
    [GRAPHICS_QUADRANTS] = { "quadrants", NULL, NULL },
    [GRAPHICS_SEXTANTS] = { "sextants", NULL, NULL },
    [GRAPHICS_KITTY] = { "kitty", encode_kitty, forget_kitty },
    [GRAPHICS_ITERM] = { "iterm", encode_iterm, NULL },
    [GRAPHICS_SIXEL] = { "sixel", graphics_encode_sixel, NULL },
};

const struct graphics_way *graphics_way(enum graphics_kind kind)
{
    return &ways[kind];
}

enum graphics_kind graphics_choose(const struct graphics *g, const char *setting)
{
    if (!strcmp(setting, "words")) return GRAPHICS_ASCII; // in the full screen
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (!strcmp(ways[i].name, setting)) return (enum graphics_kind)i;
    return g->found;
}
