// tui/theme.c -- the themes, and the nearest colours.
#include "tui/theme.h"

#include <stddef.h>
#include <string.h>

// `default` has the terminal's own background, which may be black or white: its inks have a
// contrast of at least 3.7 on both. `contrast` sets its own background.
static const struct theme themes[] = { { "default" }, { "light" }, { "contrast" } };

enum { NONE = COLOUR_DEFAULT, BOLD = LOOK_BOLD, ITALIC = LOOK_ITALIC };
enum { REVERSE = LOOK_REVERSE, UNDERLINE = LOOK_UNDERLINE };

static const struct look looks[STYLE_COUNT][sizeof themes / sizeof themes[0]] = {
    [STYLE_TEXT] = { { NONE, NONE, 0 }, { NONE, NONE, 0 }, { 15, 0, 0 } },
    [STYLE_DIM] = { { 244, NONE, 0 }, { 243, NONE, 0 }, { 15, 0, 0 } },
    [STYLE_TITLE] = { { 32, NONE, BOLD }, { 25, NONE, BOLD }, { 14, 0, BOLD } },
    [STYLE_USER] = { { 32, NONE, BOLD }, { 25, NONE, BOLD }, { 14, 0, BOLD } },
    [STYLE_ANSWER] = { { NONE, NONE, 0 }, { NONE, NONE, 0 }, { 15, 0, 0 } },
    [STYLE_CODE] = { { 130, NONE, 0 }, { 94, NONE, 0 }, { 11, 0, 0 } },
    [STYLE_STRONG] = { { NONE, NONE, BOLD }, { NONE, NONE, BOLD }, { 15, 0, BOLD } },
    [STYLE_EMPHASIS] = { { NONE, NONE, ITALIC }, { NONE, NONE, ITALIC }, { 15, 0, ITALIC } },
    [STYLE_NOTICE] = { { 244, NONE, 0 }, { 243, NONE, 0 }, { 15, 0, 0 } },
    [STYLE_ERROR] = { { 196, NONE, BOLD }, { 160, NONE, BOLD }, { 15, 1, BOLD } },
    [STYLE_BORDER] = { { 240, NONE, 0 }, { 250, NONE, 0 }, { 15, 0, 0 } },
    [STYLE_FOCUS] = { { 32, NONE, BOLD }, { 25, NONE, BOLD }, { 11, 0, BOLD } },
    [STYLE_STATUS] = { { 252, 236, 0 }, { 235, 253, 0 }, { 0, 15, 0 } },
    [STYLE_BADGE] = { { 232, 114, BOLD }, { 255, 28, BOLD }, { 0, 11, BOLD } },
    [STYLE_SELECTED] = { { NONE, NONE, REVERSE }, { NONE, NONE, REVERSE }, { 0, 11, BOLD } },
    [STYLE_CHANGED] = { { 130, NONE, BOLD }, { 130, NONE, BOLD }, { 11, 0, BOLD } },
    [STYLE_STALE] = { { 166, NONE, 0 }, { 166, NONE, 0 }, { 11, 0, UNDERLINE } },
    [STYLE_MATCH] = { { 232, 221, 0 }, { 16, 220, 0 }, { 0, 14, BOLD } },
    [STYLE_KEY] = { { 130, NONE, BOLD }, { 130, NONE, BOLD }, { 11, 0, BOLD } },
    [STYLE_PROMPT] = { { 28, NONE, BOLD }, { 28, NONE, BOLD }, { 10, 0, BOLD } },
    [STYLE_CURVE1] = { { 32, NONE, 0 }, { 25, NONE, 0 }, { 14, 0, BOLD } },
    [STYLE_CURVE2] = { { 166, NONE, 0 }, { 166, NONE, 0 }, { 11, 0, BOLD } },
    [STYLE_CURVE3] = { { 28, NONE, 0 }, { 28, NONE, 0 }, { 10, 0, BOLD } },
    [STYLE_CURVE4] = { { 133, NONE, 0 }, { 90, NONE, 0 }, { 13, 0, BOLD } },
    [STYLE_GHOST] = { { 240, NONE, 0 }, { 250, NONE, 0 }, { 7, 0, 0 } },
    [STYLE_BAR] = { { 28, NONE, 0 }, { 28, NONE, 0 }, { 11, 0, BOLD } },
};

const char *const theme_names[] = { "default", "light", "contrast", NULL };

const struct theme *theme_find(const char *name)
{
    for (size_t i = 0; i < sizeof themes / sizeof themes[0]; i++)
        if (!strcmp(themes[i].name, name)) return &themes[i];
    return &themes[0];
}

const struct look *theme_look(const struct theme *theme, enum style style)
{
    return &looks[style][theme - themes];
}

// --- nearest colours -----------------------------------------------------------------------------

static int distance(uint32_t a, uint32_t b)
{
    int sum = 0;
    for (int shift = 0; shift < 24; shift += 8) {
        const int d = (int)(a >> shift & 255) - (int)(b >> shift & 255);
        sum += d * d;
    }
    return sum;
}

// Returns a colour of xterm's palette: 16 named colours, a cube of 6 x 6 x 6, 24 greys.
static uint32_t palette(int index)
{
    static const uint32_t named[] = { 0x000000, 0xcd0000, 0x00cd00, 0xcdcd00, 0x0000ee, 0xcd00cd,
                                      0x00cdcd, 0xe5e5e5, 0x7f7f7f, 0xff0000, 0x00ff00, 0xffff00,
                                      0x5c5cff, 0xff00ff, 0x00ffff, 0xffffff };
    static const uint32_t steps[] = { 0, 95, 135, 175, 215, 255 };
    if (index < 16) return named[index];
    if (index >= 232) return (uint32_t)(8 + 10 * (index - 232)) * 0x010101;
    index -= 16;
    return steps[index / 36] << 16 | steps[index / 6 % 6] << 8 | steps[index % 6];
}

static int cube_step(int value)
{
    return value < 48 ? 0 : value < 115 ? 1 : (value - 35) / 40;
}

static int cube_index(uint32_t rgb)
{
    const int r = (int)(rgb >> 16), g = (int)(rgb >> 8 & 255), b = (int)(rgb & 255);
    return 16 + 36 * cube_step(r) + 6 * cube_step(g) + cube_step(b);
}

uint32_t colour_cube(uint32_t rgb)
{
    return palette(cube_index(rgb));
}

// Returns the channels above the middle of the colour's range as bits. By distance, the nearest of
// eight colours would be white or black for most colours.
int colour_hue(uint32_t rgb)
{
    enum { GREYEST = 48 };
    int low = 255, high = 0, index = 0;
    for (int shift = 0; shift < 24; shift += 8) {
        const int v = (int)(rgb >> shift & 255);
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    if (high - low < GREYEST) return -1;
    for (int k = 0; k < 3; k++)
        index |= ((int)(rgb >> (16 - 8 * k) & 255) >= (low + high) / 2) << k;
    return index;
}

int colour_nearest(uint32_t rgb, int colours)
{
    const int r = (int)(rgb >> 16), g = (int)(rgb >> 8 & 255), b = (int)(rgb & 255);
    if (colours >= 256) {
        const int cube = cube_index(rgb);
        const int mean = (r + g + b) / 3, step = mean < 3 ? 0 : (mean - 3) / 10;
        const int grey = 232 + (step > 23 ? 23 : step);
        return distance(rgb, palette(grey)) < distance(rgb, palette(cube)) ? grey : cube;
    }
    int best = 0;
    for (int i = 1; i < colours && i < 16; i++)
        if (distance(rgb, palette(i)) < distance(rgb, palette(best))) best = i;
    return best;
}

uint32_t colour_of(int index)
{
    return palette(index);
}

int step_of_eight(double share)
{
    static const int papers[] = { -1, 4, 6, 2, 3 };
    const int step = (int)(share * 5);
    return share < 0 ? -1 : papers[step > 4 ? 4 : step];
}
