// tui/cells.c -- a drawing in the cells of a canvas: letters, half blocks, quadrants, sextants, or
// a picture that the terminal draws itself.
//
// With eight colours, the paper of a letter is the map, its letter and ink the picture.
//
// A character has two colours. Where a cell has more pixels than two (2 x 2, 2 x 3), they are
// parted at the middle of the channel in which they differ most, and each part gets its mean.
#include "tui/drawing.h"
#include "tui/painter.h"

static const char shades[] = " .:-=+*#%@";
enum { BLACK = 0, BLUE = 4, WHITE = 7 };

struct dots {
    int across, down;                // pixels of a cell
    uint32_t (*code)(unsigned mask); // character whose ink covers the pixels of the mask
};

static uint32_t half_block(unsigned mask)
{
    static const uint32_t codes[] = { ' ', 0x2580, 0x2584, 0x2588 };
    return codes[mask];
}

// Bits: upper left, upper right, lower left, lower right.
static uint32_t quadrant(unsigned mask)
{
    static const uint32_t codes[] = { ' ',    0x2598, 0x259d, 0x2580, 0x2596, 0x258c,
                                      0x259e, 0x259b, 0x2597, 0x259a, 0x2590, 0x259c,
                                      0x2584, 0x2599, 0x259f, 0x2588 };
    return codes[mask];
}

// U+1FB00..3B are the masks in order, without those that other characters have.
static uint32_t sextant(unsigned mask)
{
    if (mask == 0) return ' ';
    if (mask == 21) return 0x258c;
    if (mask == 42) return 0x2590;
    if (mask == 63) return 0x2588;
    return 0x1fb00 + mask - 1 - (mask > 21) - (mask > 42);
}

static const struct dots dots_of[] = {
    [GRAPHICS_BLOCKS] = { 1, 2, half_block },
    [GRAPHICS_QUADRANTS] = { 2, 2, quadrant },
    [GRAPHICS_SEXTANTS] = { 2, 3, sextant },
};

// --- two colours of several ----------------------------------------------------------------------

static uint32_t channel(uint32_t rgb, int shift)
{
    return rgb >> shift & 255;
}

static uint32_t mean_of(const uint32_t *rgb, int count, unsigned mask)
{
    uint32_t sum[3] = { 0 }, n = 0;
    for (int i = 0; i < count; i++) {
        if (!(mask >> i & 1)) continue;
        for (int k = 0; k < 3; k++) sum[k] += channel(rgb[i], 16 - 8 * k);
        n++;
    }
    return n ? (sum[0] / n) << 16 | (sum[1] / n) << 8 | sum[2] / n : 0;
}

// The pixels above the middle of the widest channel; of two pixels always the first.
static unsigned part(const uint32_t *rgb, int count)
{
    uint32_t widest = 0, middle = 0;
    int shift = 16;
    unsigned mask = 0;
    if (count == 2) return 1;
    for (int s = 16; s >= 0; s -= 8) {
        uint32_t low = 255, high = 0;
        for (int i = 0; i < count; i++) {
            const uint32_t v = channel(rgb[i], s);
            low = v < low ? v : low;
            high = v > high ? v : high;
        }
        if (high - low <= widest) continue;
        widest = high - low;
        middle = (high + low) / 2;
        shift = s;
    }
    for (int i = 0; i < count && widest; i++)
        if (channel(rgb[i], shift) > middle) mask |= 1u << i;
    return mask;
}

static void draw_dots(const struct drawing *d, const struct dots *dots, struct canvas *c,
                      struct area area)
{
    const int count = dots->across * dots->down;
    const unsigned all = (1u << count) - 1;
    for (int y = 0; y < d->height / dots->down; y++)
        for (int x = 0; x < d->width / dots->across; x++) {
            uint32_t rgb[6];
            for (int i = 0; i < count; i++)
                rgb[i] = drawing_colour(d, x * dots->across + i % dots->across,
                                        y * dots->down + i / dots->across);
            const unsigned mask = part(rgb, count);
            canvas_put(c, area, x, y, STYLE_TEXT, dots->code(mask));
            struct cell *cell = canvas_at(c, area.x + x, area.y + y);
            if (!cell) continue;
            cell->ink = CELL_RGB | mean_of(rgb, count, mask ? mask : all);
            cell->paper = CELL_RGB | mean_of(rgb, count, all & ~mask);
        }
}

// --- letters, and eight colours ------------------------------------------------------------------

static uint32_t letter(double ink)
{
    const int shade = (int)(ink * 9 + 0.5);
    return (uint32_t)shades[shade < 0 ? 0 : shade > 9 ? 9 : shade];
}

// The map as paper: what is high stands out, what is low leaves the picture's letters as they are.
static void colour_letter(const struct drawing *d, int x, int y, struct cell *cell)
{
    const int paper = step_of_eight(drawing_share(d, x, y));
    if (d->picture && !d->bare) {
        const int hue = colour_hue(drawing_below(d, x, y));
        cell->code = letter(drawing_brightness(d, x, y));
        cell->ink = hue < 0 ? 0 : CELL_RGB | colour_of(hue); // a grey: the terminal's own
    }
    if (paper < 0) return;
    cell->paper = CELL_RGB | colour_of(paper);
    cell->ink = CELL_RGB | colour_of(paper == BLUE ? WHITE : BLACK);
}

static void draw_letters(const struct drawing *d, struct canvas *c, struct area area)
{
    for (int y = 0; y < d->height; y++)
        for (int x = 0; x < d->width; x++) {
            canvas_put(c, area, x, y, STYLE_TEXT, letter(drawing_ink(d, x, y)));
            struct cell *cell = canvas_at(c, area.x + x, area.y + y);
            if (cell && c->mono && c->colours >= 8 && !c->ascii) colour_letter(d, x, y, cell);
        }
}

// --- in an area ----------------------------------------------------------------------------------

static struct area cells_of(const struct drawing *d, struct area area, int across, int down)
{
    const int width = (d->width + across - 1) / across, height = (d->height + down - 1) / down;
    return (struct area){ area.x + (area.width - width) / 2, area.y, width, height };
}

// Until the terminal's own picture is ready, characters take its place, in the same cells: others
// would stay beside the picture.
struct area drawing_show(struct drawing *d, struct canvas *c, struct area area)
{
    if (area.height < 1 || area.width < 1) return area;
    const bool own = c->painter && graphics_way(c->graphics)->encode;
    const bool letters = c->mono || c->ascii || c->graphics == GRAPHICS_ASCII;
    const struct dots *dots =
        &dots_of[c->graphics < GRAPHICS_KITTY ? c->graphics : GRAPHICS_BLOCKS];
    const int across = letters ? 1 : dots->across, down = letters ? 1 : dots->down;
    struct drawing sized =
        *d; // in pixels of the terminal: the sizes of its cells are not always 1 : 2
    struct area place;
    d->steps = c->colours >= 256; // of characters; a terminal's own pictures have all colours
    if (own) {
        sized.steps = false;
        drawing_fit(&sized, area.width * c->cell_width, area.height * c->cell_height, 1);
        place = cells_of(&sized, area, c->cell_width, c->cell_height);
    } else { // a cell is twice as high as wide
        drawing_fit(d, area.width * across, area.height * down, 2.0 * across / down);
        place = cells_of(d, area, across, down);
    }
    d->width = place.width * across;
    d->height = place.height * down;
    if (letters)
        draw_letters(d, c, place);
    else
        draw_dots(d, dots, c, place);
    if (!own) return place;
    const uint64_t key = painter_key(drawing_key(&sized), c, place);
    if (!painter_has(c->painter, key)) painter_ask(c->painter, key, drawing_copy(&sized), c, place);
    canvas_picture(c, place, key, sized.width, sized.height);
    return place;
}
