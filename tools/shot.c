// tools/shot.c -- draws a captured terminal screen as a PNG, for README.md and docs/.
//
//   tmux capture-pane -e -p | shot /usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf screen.png
//
// Reads lines of UTF-8 with tmux's escapes for colours and attributes (SGR). Draws lines, blocks
// and dots itself, edge to edge as terminals do; letters come from the font.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/draw/ramp.h"
#include "core/picture/image_write.h"
#include "tui/canvas.h"

#define STB_TRUETYPE_IMPLEMENTATION
#define STBTT_STATIC
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wsign-compare"
#include <stb/stb_truetype.h>
#pragma GCC diagnostic pop

enum { WIDE = 10, HIGH = 20, ROWS = 200, COLUMNS = 400, FONT_MAX = 16 << 20 };
static const uint32_t default_ink = 0xd0d4d8, default_paper = 0x12161a;

struct glyph {
    int32_t code; // 0: empty, or the second half of a wide character
    uint32_t ink, paper;
    bool bold, underline;
    int width;
};

struct pen {
    uint32_t ink, paper;
    bool bold, dim, underline, reverse;
};

struct sheet {
    struct glyph cells[ROWS][COLUMNS];
    int rows, columns;
    stbtt_fontinfo font;
    double scale;
    int baseline;
    uint8_t *pixels; // [rows * HIGH, columns * WIDE, 3]
};

// --- reading -------------------------------------------------------------------------------------

static uint32_t extended(const int *codes, int count, int *at)
{
    if (*at + 2 < count && codes[*at + 1] == 5) {
        *at += 2;
        return colour_of(codes[*at]);
    }
    if (*at + 4 < count && codes[*at + 1] == 2) {
        *at += 4;
        return (uint32_t)(codes[*at - 2] << 16 | codes[*at - 1] << 8 | codes[*at]);
    }
    return default_ink;
}

static void set_attribute(struct pen *p, int code)
{
    static const struct pen plain = { .ink = default_ink, .paper = default_paper };
    if (code == 0) *p = plain;
    if (code == 1 || code == 22) p->bold = code == 1;
    if (code == 2 || code == 22) p->dim = code == 2;
    if (code == 4 || code == 24) p->underline = code == 4;
    if (code == 7 || code == 27) p->reverse = code == 7;
    if (code >= 30 && code <= 37) p->ink = colour_of(code - 30);
    if (code >= 90 && code <= 97) p->ink = colour_of(code - 90 + 8);
    if (code >= 40 && code <= 47) p->paper = colour_of(code - 40);
    if (code >= 100 && code <= 107) p->paper = colour_of(code - 100 + 8);
    if (code == 39) p->ink = default_ink;
    if (code == 49) p->paper = default_paper;
}

// Reads the sequence after ESC [; returns the first byte after it.
static const char *read_escape(struct pen *p, const char *text)
{
    int codes[32] = { 0 }, count = 0;
    for (; (*text >= '0' && *text <= '9') || *text == ';' || *text == ':'; text++)
        if (*text == ';' || *text == ':')
            count += count < 30;
        else
            codes[count] = codes[count] * 10 % 100000 + *text - '0';
    for (int i = 0; *text == 'm' && i <= count; i++)
        if (codes[i] == 38)
            p->ink = extended(codes, count + 1, &i);
        else if (codes[i] == 48)
            p->paper = extended(codes, count + 1, &i);
        else
            set_attribute(p, codes[i]);
    return *text ? text + 1 : text;
}

static void put(struct sheet *s, const struct pen *p, int x, int32_t code, int width)
{
    if (x + width > COLUMNS || width < 1) return;
    struct glyph g = { code, p->ink, p->paper, p->bold, p->underline, width };
    if (p->reverse) {
        g.ink = p->paper;
        g.paper = p->ink;
    }
    if (p->dim) g.ink = colour_mix(g.ink, g.paper, 0.45);
    s->cells[s->rows][x] = g;
    if (width == 2) s->cells[s->rows][x + 1] = (struct glyph){ .paper = g.paper };
    if (x + width > s->columns) s->columns = x + width;
}

static void read_line(struct sheet *s, struct pen *p, const char *text)
{
    for (int i = 0; i < COLUMNS; i++) s->cells[s->rows][i].paper = default_paper;
    for (int x = 0; *text && *text != '\n';) {
        int32_t code;
        int width;
        if (text[0] == '\033' && text[1] == '[') {
            text = read_escape(p, text + 2);
            continue;
        }
        text += character_next(text, strlen(text), &code, &width);
        if (code < 0x20) continue;
        put(s, p, x, code, width);
        x += width;
    }
    s->rows++;
}

// --- drawing -------------------------------------------------------------------------------------

// Fills a part of the cell at row, column; coordinates are fractions of the cell, 0..1.
static void fill(struct sheet *s, int row, int column, double x0, double y0, double x1, double y1,
                 uint32_t colour)
{
    const int left = column * WIDE + (int)(x0 * WIDE + 0.5),
              right = column * WIDE + (int)(x1 * WIDE + 0.5);
    const int top = row * HIGH + (int)(y0 * HIGH + 0.5),
              bottom = row * HIGH + (int)(y1 * HIGH + 0.5);
    for (int y = top; y < bottom; y++)
        for (int x = left; x < right; x++) {
            uint8_t *pixel = s->pixels + 3 * (y * s->columns * WIDE + x);
            pixel[0] = (uint8_t)(colour >> 16), pixel[1] = (uint8_t)(colour >> 8);
            pixel[2] = (uint8_t)colour;
        }
}

// U+2580..U+2593: blocks and shades.
static bool draw_block(struct sheet *s, int row, int column, const struct glyph *g)
{
    const int32_t code = g->code;
    if (code == 0x2580)
        fill(s, row, column, 0, 0, 1, 0.5, g->ink);
    else if (code >= 0x2581 && code <= 0x2588)
        fill(s, row, column, 0, 1 - (code - 0x2580) / 8.0, 1, 1, g->ink);
    else if (code >= 0x2589 && code <= 0x258f)
        fill(s, row, column, 0, 0, (0x2590 - code) / 8.0, 1, g->ink);
    else if (code == 0x2590)
        fill(s, row, column, 0.5, 0, 1, 1, g->ink);
    else if (code >= 0x2591 && code <= 0x2593)
        fill(s, row, column, 0, 0, 1, 1, colour_mix(g->paper, g->ink, (code - 0x2590) / 4.0));
    else
        return false;
    return true;
}

// Box-drawing characters by their arms (left, right, up, down).
static bool draw_box(struct sheet *s, int row, int column, const struct glyph *g)
{
    static const struct {
        int32_t code;
        uint8_t arms;
    } lines[] = { { 0x2500, 3 },  { 0x2502, 12 }, { 0x250c, 10 }, { 0x2510, 9 },
                  { 0x2514, 6 },  { 0x2518, 5 },  { 0x251c, 14 }, { 0x2524, 13 },
                  { 0x252c, 11 }, { 0x2534, 7 },  { 0x253c, 15 } };
    const double x0 = 0.45, x1 = 0.55, y0 = 0.475, y1 = 0.525;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (lines[i].code != g->code) continue;
        if (lines[i].arms & 1) fill(s, row, column, 0, y0, x1, y1, g->ink);
        if (lines[i].arms & 2) fill(s, row, column, x0, y0, 1, y1, g->ink);
        if (lines[i].arms & 4) fill(s, row, column, x0, 0, x1, y1, g->ink);
        if (lines[i].arms & 8) fill(s, row, column, x0, y0, x1, 1, g->ink);
        return true;
    }
    return false;
}

static bool draw_dots(struct sheet *s, int row, int column, const struct glyph *g)
{
    // The order of Unicode's bits: the left column down, then the right one, then the lowest row.
    static const uint8_t bits[4][2] = {
        { 0x01, 0x08 }, { 0x02, 0x10 }, { 0x04, 0x20 }, { 0x40, 0x80 }
    };
    if (g->code < 0x2800 || g->code > 0x28ff) return false;
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 2; x++)
            if (g->code & bits[y][x])
                fill(s, row, column, x * 0.5 + 0.1, y * 0.25 + 0.05, x * 0.5 + 0.4, y * 0.25 + 0.2,
                     g->ink);
    return true;
}

static void blend(struct sheet *s, int x, int y, uint32_t colour, int share)
{
    if (x < 0 || y < 0 || x >= s->columns * WIDE || y >= s->rows * HIGH) return;
    uint8_t *pixel = s->pixels + 3 * (y * s->columns * WIDE + x);
    for (int k = 0; k < 3; k++) {
        const int to = (int)(colour >> (16 - 8 * k) & 255);
        pixel[k] = (uint8_t)(pixel[k] + (to - pixel[k]) * share / 255);
    }
}

static void draw_letter(struct sheet *s, int row, int column, const struct glyph *g)
{
    int width, height, dx, dy;
    const float scale = (float)s->scale;
    unsigned char *shape =
        stbtt_GetCodepointBitmap(&s->font, scale, scale, g->code, &width, &height, &dx, &dy);
    for (int bold = 0; shape && bold <= (g->bold ? 1 : 0); bold++)
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++)
                blend(s, column * WIDE + dx + x + bold, row * HIGH + s->baseline + dy + y, g->ink,
                      shape[y * width + x]);
    stbtt_FreeBitmap(shape, NULL);
    if (g->underline) fill(s, row, column, 0, 0.9, g->width, 0.95, g->ink);
}

static void draw(struct sheet *s)
{
    for (int row = 0; row < s->rows; row++)
        for (int column = 0; column < s->columns; column++)
            fill(s, row, column, 0, 0, 1, 1, s->cells[row][column].paper);
    for (int row = 0; row < s->rows; row++)
        for (int column = 0; column < s->columns; column++) {
            const struct glyph *g = &s->cells[row][column];
            if (!g->code) continue;
            if (!draw_block(s, row, column, g) && !draw_box(s, row, column, g) &&
                !draw_dots(s, row, column, g))
                draw_letter(s, row, column, g);
        }
}

// --- the program ---------------------------------------------------------------------------------

// Opens the font, scaled so that its letters are as wide as a cell.
static int open_font(struct sheet *s, const char *path, unsigned char *bytes)
{
    int advance, bearing, ascent, descent, gap;
    FILE *f = fopen(path, "rb");
    const size_t size = f ? fread(bytes, 1, FONT_MAX, f) : 0;
    if (f) fclose(f);
    if (!size || !stbtt_InitFont(&s->font, bytes, stbtt_GetFontOffsetForIndex(bytes, 0))) return -1;
    stbtt_GetCodepointHMetrics(&s->font, 'M', &advance, &bearing);
    stbtt_GetFontVMetrics(&s->font, &ascent, &descent, &gap);
    s->scale = (double)WIDE / advance;
    s->baseline = (int)((HIGH + s->scale * (ascent + descent)) / 2);
    return 0;
}

int main(int argc, char **argv)
{
    struct pen pen = { .ink = default_ink, .paper = default_paper };
    struct err err;
    char *line = NULL;
    size_t room = 0;
    if (argc != 3) {
        fprintf(stderr, "usage: tmux capture-pane -e -p | shot FONT.ttf OUT.png\n");
        return 2;
    }
    struct sheet *s = xcalloc(1, sizeof *s);
    unsigned char *bytes = xmalloc(FONT_MAX);
    if (open_font(s, argv[1], bytes) < 0) {
        fprintf(stderr, "shot: '%s' is no TrueType font\n", argv[1]);
        return 1;
    }
    while (s->rows < ROWS && getline(&line, &room, stdin) >= 0) read_line(s, &pen, line);
    s->pixels = xcalloc((size_t)(s->rows * HIGH) * (size_t)(s->columns * WIDE), 3);
    draw(s);
    const int status =
        s->rows && s->columns
            ? image_write_png(argv[2], s->pixels, s->columns * WIDE, s->rows * HIGH, &err)
            : err_set(&err, "nothing was captured");
    if (status < 0) fprintf(stderr, "shot: %s\n", err.text);
    free(s->pixels);
    free(line);
    free(bytes);
    free(s);
    return status < 0;
}
