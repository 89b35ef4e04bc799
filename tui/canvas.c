// tui/canvas.c -- draws text, boxes and bars into cells.
#include "tui/canvas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include <wchar.h>

#include "tui/text.h"

// --- lifetime ------------------------------------------------------------------------------------

void canvas_clear(struct canvas *c)
{
    const size_t count = (size_t)c->lines * (size_t)c->columns;
    for (size_t i = 0; i < count; i++)
        c->cells[i] = (struct cell){ .code = ' ', .style = STYLE_TEXT, .width = 1 };
    c->cursor_x = c->cursor_y = -1;
    c->drawn_count = 0;
    c->hint_count = 0;
}

void canvas_picture(struct canvas *c, struct area area, uint64_t key, int width, int height)
{
    if (c->drawn_count == CANVAS_PICTURES) return;
    c->drawn[c->drawn_count++] = (struct canvas_picture){ area, key, width, height };
    for (int y = area.y; y < area.y + area.height; y++)
        for (int x = area.x; x < area.x + area.width; x++) {
            struct cell *cell = canvas_at(c, x, y);
            if (cell) cell->picture = (uint8_t)c->drawn_count;
        }
}

void canvas_resize(struct canvas *c, int lines, int columns)
{
    c->lines = lines > 1 ? lines : 1;
    c->columns = columns > 1 ? columns : 1;
    c->cells = xreallocarray(c->cells, (size_t)c->lines * (size_t)c->columns, sizeof *c->cells);
    canvas_clear(c);
}

void canvas_release(struct canvas *c)
{
    free(c->cells);
    *c = (struct canvas){ 0 };
}

struct cell *canvas_at(const struct canvas *c, int x, int y)
{
    if (x < 0 || y < 0 || x >= c->columns || y >= c->lines) return NULL;
    return &c->cells[(size_t)y * (size_t)c->columns + (size_t)x];
}

// --- characters ----------------------------------------------------------------------------------

// Returns whether the character is omitted: terminals disagree about the effect of joiners and
// modifiers, and so about the width.
static bool is_left_out(int32_t code)
{
    return code == 0x200d || (code >= 0xfe00 && code <= 0xfe0f) ||
           (code >= 0x1f3fb && code <= 0x1f3ff) || (code >= 0xe0000 && code <= 0xe0fff);
}

size_t character_next(const char *text, size_t left, int32_t *code, int *width)
{
    const utf8proc_ssize_t n =
        utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)left, code);
    *width = 1;
    if (n <= 0) {
        *code = -1;
        return 1;
    }
    if (is_left_out(*code)) {
        *code = 0;
        *width = 0;
    } else if (*code >= 0x20 && (*code < 0x7f || *code >= 0xa0)) {
        *width = utf8proc_charwidth(*code);
    }
    return (size_t)n;
}

static bool inside(struct area area, int x, int y)
{
    return x >= 0 && y >= 0 && x < area.width && y < area.height;
}

// Replaces the other half of a wide character with a space when one half is overwritten.
static void unlink_halves(const struct canvas *c, int x, int y, int width)
{
    struct cell *first = canvas_at(c, x, y), *before = canvas_at(c, x - 1, y);
    struct cell *after = canvas_at(c, x + width, y);
    if (first && !first->code && before) before->code = ' ', before->width = 1;
    if (after && !after->code) after->code = ' ', after->width = 1;
}

static void add_mark(const struct canvas *c, struct area area, int x, int y, uint32_t code)
{
    struct cell *cell = inside(area, x, y) ? canvas_at(c, area.x + x, area.y + y) : NULL;
    if (cell && !cell->code) cell = canvas_at(c, area.x + x - 1, area.y + y);
    for (int i = 0; cell && i < CELL_MARKS; i++)
        if (!cell->marks[i]) {
            cell->marks[i] = code;
            return;
        }
}

static void put_wide(struct canvas *c, struct area area, int x, int y, enum style style,
                     uint32_t code, int width)
{
    if (!inside(area, x, y) || x + width > area.width) return;
    struct cell *cell = canvas_at(c, area.x + x, area.y + y);
    if (!cell || area.x + x + width > c->columns) return;
    unlink_halves(c, area.x + x, area.y + y, width);
    cell[0] = (struct cell){ .code = code, .style = (uint8_t)style, .width = (uint8_t)width };
    if (width == 2) cell[1] = (struct cell){ .style = (uint8_t)style };
}

void canvas_put(struct canvas *c, struct area area, int x, int y, enum style style, uint32_t code)
{
    put_wide(c, area, x, y, style, code, 1);
}

static int put_character(struct canvas *c, struct area area, int x, int y, enum style style,
                         int32_t code, int width)
{
    if (code == '\t') {
        const int stop = (x / 4 + 1) * 4;
        while (x < stop) put_wide(c, area, x++, y, style, ' ', 1);
        return x;
    }
    if (width == 0) {
        if (code > 0) add_mark(c, area, x - 1, y, (uint32_t)code);
        return x;
    }
    if (code >= 0 && (code < 0x20 || code == 0x7f)) {
        put_wide(c, area, x, y, style, '^', 1);
        put_wide(c, area, x + 1, y, style, (uint32_t)(code ^ 0x40), 1);
        return x + 2;
    }
    const bool hidden = code < 0 || (code >= 0x80 && code < 0xa0);
    put_wide(c, area, x, y, style, hidden ? 0xfffd : (uint32_t)code, width);
    return x + width;
}

int canvas_text_n(struct canvas *c, struct area area, int x, int y, enum style style,
                  const char *text, size_t length)
{
    while (length) {
        int32_t code;
        int width;
        const size_t n = character_next(text, length, &code, &width);
        x = put_character(c, area, x, y, style, code, width);
        text += n;
        length -= n;
    }
    return x;
}

int canvas_text(struct canvas *c, struct area area, int x, int y, enum style style,
                const char *text)
{
    return canvas_text_n(c, area, x, y, style, text, strlen(text));
}

int canvas_printf(struct canvas *c, struct area area, int x, int y, enum style style,
                  const char *format, ...)
{
    struct buf b = { 0 };
    va_list args;
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    x = canvas_text(c, area, x, y, style, b.data ? b.data : "");
    buf_release(&b);
    return x;
}

// --- shapes --------------------------------------------------------------------------------------

void canvas_fill(struct canvas *c, struct area area, enum style style, uint32_t code)
{
    for (int y = 0; y < area.height; y++)
        for (int x = 0; x < area.width; x++) canvas_put(c, area, x, y, style, code);
}

void canvas_style(struct canvas *c, struct area area, int x, int y, int width, enum style style)
{
    for (int i = x; i < x + width; i++) {
        struct cell *cell = inside(area, i, y) ? canvas_at(c, area.x + i, area.y + y) : NULL;
        if (cell) cell->style = (uint8_t)style;
    }
}

struct area canvas_box(struct canvas *c, struct area area, const char *title, bool focused)
{
    static const uint32_t lines[] = { 0x2500, 0x2502, 0x250c, 0x2510, 0x2514, 0x2518 };
    static const uint32_t ascii[] = { '-', '|', '+', '+', '+', '+' };
    const uint32_t *k = c->ascii ? ascii : lines;
    const enum style style = focused ? STYLE_FOCUS : STYLE_BORDER;
    const int right = area.width - 1, bottom = area.height - 1;
    for (int x = 1; x < right; x++) {
        canvas_put(c, area, x, 0, style, k[0]);
        canvas_put(c, area, x, bottom, style, k[0]);
    }
    for (int y = 1; y < bottom; y++) {
        canvas_put(c, area, 0, y, style, k[1]);
        canvas_put(c, area, right, y, style, k[1]);
    }
    canvas_put(c, area, 0, 0, style, k[2]);
    canvas_put(c, area, right, 0, style, k[3]);
    canvas_put(c, area, 0, bottom, style, k[4]);
    canvas_put(c, area, right, bottom, style, k[5]);
    const struct area head = { area.x + 2, area.y, area.width - 4, 1 };
    if (title && head.width > 4) {
        const int x =
            canvas_printf(c, head, 0, 0, focused ? STYLE_FOCUS : STYLE_TITLE, " %s ", title);
        if (focused) canvas_style(c, head, 0, 0, x, STYLE_SELECTED);
    }
    return (struct area){ area.x + 1, area.y + 1, area.width - 2, area.height - 2 };
}

void canvas_foot(struct canvas *c, struct area area, const char *text)
{
    const struct area foot = { area.x + 2, area.y + area.height - 1, area.width - 4, 1 };
    size_t length = foot.width > 4 ? text_fit(text, foot.width - 2) : 0;
    // Writes only parts that fit whole.
    while (text[length] && length && strncmp(text + length, "  ", 2) != 0) length--;
    if (!length) return;
    canvas_printf(c, foot, 0, 0, STYLE_DIM, " %.*s ", (int)length, text);
    canvas_hints(c, foot);
}

void canvas_hints(struct canvas *c, struct area line)
{
    if (c->hint_count < CANVAS_HINTS) c->hints[c->hint_count++] = line;
}

void canvas_bar(struct canvas *c, struct area area, int x, int y, int width, double share)
{
    const double clean = share > 0 ? share < 1 ? share : 1 : 0; // NaN: empty
    const int full = (int)(clean * width + 0.5);
    for (int i = 0; i < width; i++) {
        const bool on = i < full;
        canvas_put(c, area, x + i, y, on ? STYLE_BAR : STYLE_BORDER,
                   c->ascii ? (on ? '#' : '.') : (on ? 0x2588 : 0x2591));
    }
}

// --- as text -------------------------------------------------------------------------------------

static void add_code(struct buf *out, uint32_t code)
{
    utf8proc_uint8_t bytes[4];
    const utf8proc_ssize_t n = utf8proc_encode_char((utf8proc_int32_t)code, bytes);
    buf_add(out, bytes, (size_t)n);
}

void canvas_write(const struct canvas *c, struct buf *out)
{
    for (int y = 0; y < c->lines; y++) {
        struct buf line = { 0 };
        for (int x = 0; x < c->columns; x++) {
            const struct cell *cell = canvas_at(c, x, y);
            if (cell->code) add_code(&line, cell->code);
            for (int i = 0; cell->code && i < CELL_MARKS && cell->marks[i]; i++)
                add_code(&line, cell->marks[i]);
        }
        while (line.length && line.data[line.length - 1] == ' ') line.length--;
        buf_add(out, line.data ? line.data : "", line.length);
        buf_putc(out, '\n');
        buf_release(&line);
    }
}
