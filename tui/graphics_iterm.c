// tui/graphics_iterm.c -- iTerm2's inline pictures (iterm2.com/documentation-images.html), which
// WezTerm and others show too: one sequence with a PNG in base64.
#include "tui/graphics.h"

#include "core/base/base64.h"

void graphics_encode_iterm(const struct graphics_picture *p, bool tmux, struct buf *out)
{
    struct buf png = { 0 }, text = { 0 };
    graphics_png(p, &png);
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
