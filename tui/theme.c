// tui/theme.c -- the themes, and the nearest colours.
#include "tui/theme.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

// The columns of the table. The inks of `default` are readable on black and on white: few colours
// of the palette have a contrast of at least 4.5 with both. `dark` and `light` have it with one of
// them. Frames and the curves of earlier runs have at least 3. `terminal` uses the terminal's own
// colours 0 to 7, whose contrast depends on its scheme; `contrast` sets its own background, in
// colours that no scheme changes.
enum { ON_BLACK = 0xefcc, ON_WHITE = 0x1033, ON_BOTH = ON_BLACK & ON_WHITE, ALL = 0xffff };
static const struct theme themes[] = { { "default", ON_BOTH },
                                       { "dark", ON_BLACK },
                                       { "light", ON_WHITE },
                                       { "terminal", ALL },
                                       { "contrast", ALL } };
enum { ANY_BACKGROUND, DARK, LIGHT };

enum { NONE = COLOUR_DEFAULT, BOLD = LOOK_BOLD, ITALIC = LOOK_ITALIC, FAINT = LOOK_DIM };
enum { REVERSE = LOOK_REVERSE, UNDERLINE = LOOK_UNDERLINE };

static const struct look looks[STYLE_COUNT][sizeof themes / sizeof themes[0]] = {
    [STYLE_TEXT] = { { NONE, NONE, 0 },
                     { NONE, NONE, 0 },
                     { NONE, NONE, 0 },
                     { NONE, NONE, 0 },
                     { 231, 16, 0 } },
    [STYLE_DIM] = { { 243, NONE, 0 },
                    { 247, NONE, 0 },
                    { 243, NONE, 0 },
                    { NONE, NONE, FAINT },
                    { 231, 16, 0 } },
    [STYLE_TITLE] = { { 63, NONE, BOLD },
                      { 75, NONE, BOLD },
                      { 25, NONE, BOLD },
                      { 6, NONE, BOLD },
                      { 51, 16, BOLD } },
    [STYLE_USER] = { { 63, NONE, BOLD },
                     { 75, NONE, BOLD },
                     { 25, NONE, BOLD },
                     { 6, NONE, BOLD },
                     { 51, 16, BOLD } },
    [STYLE_ANSWER] = { { NONE, NONE, 0 },
                       { NONE, NONE, 0 },
                       { NONE, NONE, 0 },
                       { NONE, NONE, 0 },
                       { 231, 16, 0 } },
    [STYLE_CODE] = { { 131, NONE, 0 },
                     { 215, NONE, 0 },
                     { 94, NONE, 0 },
                     { 3, NONE, 0 },
                     { 226, 16, 0 } },
    [STYLE_STRONG] = { { NONE, NONE, BOLD },
                       { NONE, NONE, BOLD },
                       { NONE, NONE, BOLD },
                       { NONE, NONE, BOLD },
                       { 231, 16, BOLD } },
    [STYLE_EMPHASIS] = { { NONE, NONE, ITALIC },
                         { NONE, NONE, ITALIC },
                         { NONE, NONE, ITALIC },
                         { NONE, NONE, ITALIC },
                         { 231, 16, ITALIC } },
    [STYLE_NOTICE] = { { 243, NONE, 0 },
                       { 247, NONE, 0 },
                       { 243, NONE, 0 },
                       { NONE, NONE, FAINT },
                       { 231, 16, 0 } },
    [STYLE_ERROR] = { { 163, NONE, BOLD },
                      { 203, NONE, BOLD },
                      { 160, NONE, BOLD },
                      { 1, NONE, BOLD },
                      { 231, 160, BOLD } },
    [STYLE_BORDER] = { { 241, NONE, 0 },
                       { 242, NONE, 0 },
                       { 246, NONE, 0 },
                       { NONE, NONE, FAINT },
                       { 231, 16, 0 } },
    [STYLE_FOCUS] = { { 63, NONE, BOLD },
                      { 75, NONE, BOLD },
                      { 25, NONE, BOLD },
                      { 6, NONE, BOLD },
                      { 226, 16, BOLD } },
    [STYLE_STATUS] = { { 252, 236, 0 },
                       { 252, 236, 0 },
                       { 235, 253, 0 },
                       { NONE, NONE, REVERSE },
                       { 16, 231, 0 } },
    [STYLE_BADGE] = { { 232, 114, BOLD },
                      { 232, 114, BOLD },
                      { 231, 28, BOLD },
                      { 0, 2, BOLD },
                      { 16, 226, BOLD } },
    [STYLE_SELECTED] = { { NONE, NONE, REVERSE },
                         { NONE, NONE, REVERSE },
                         { NONE, NONE, REVERSE },
                         { NONE, NONE, REVERSE },
                         { 16, 226, BOLD } },
    [STYLE_CHANGED] = { { 131, NONE, BOLD },
                        { 215, NONE, BOLD },
                        { 130, NONE, BOLD },
                        { 3, NONE, BOLD },
                        { 226, 16, BOLD } },
    [STYLE_STALE] = { { 131, NONE, 0 },
                      { 209, NONE, 0 },
                      { 130, NONE, 0 },
                      { 3, NONE, 0 },
                      { 226, 16, UNDERLINE } },
    [STYLE_MATCH] = { { 232, 221, 0 },
                      { 232, 221, 0 },
                      { 16, 220, 0 },
                      { 0, 3, 0 },
                      { 16, 51, BOLD } },
    [STYLE_KEY] = { { 131, NONE, BOLD },
                    { 215, NONE, BOLD },
                    { 130, NONE, BOLD },
                    { 3, NONE, BOLD },
                    { 226, 16, BOLD } },
    [STYLE_PROMPT] = { { 29, NONE, BOLD },
                       { 114, NONE, BOLD },
                       { 28, NONE, BOLD },
                       { 2, NONE, BOLD },
                       { 46, 16, BOLD } },
    [STYLE_CURVE1] = { { 63, NONE, 0 },
                       { 75, NONE, 0 },
                       { 25, NONE, 0 },
                       { 6, NONE, 0 },
                       { 51, 16, BOLD } },
    [STYLE_CURVE2] = { { 131, NONE, 0 },
                       { 209, NONE, 0 },
                       { 130, NONE, 0 },
                       { 3, NONE, 0 },
                       { 226, 16, BOLD } },
    [STYLE_CURVE3] = { { 29, NONE, 0 },
                       { 114, NONE, 0 },
                       { 28, NONE, 0 },
                       { 2, NONE, 0 },
                       { 46, 16, BOLD } },
    [STYLE_CURVE4] = { { 163, NONE, 0 },
                       { 176, NONE, 0 },
                       { 90, NONE, 0 },
                       { 5, NONE, 0 },
                       { 201, 16, BOLD } },
    [STYLE_GHOST] = { { 241, NONE, 0 },
                      { 242, NONE, 0 },
                      { 246, NONE, 0 },
                      { NONE, NONE, FAINT },
                      { 250, 16, 0 } },
    [STYLE_BAR] = { { 29, NONE, 0 },
                    { 71, NONE, 0 },
                    { 28, NONE, 0 },
                    { 2, NONE, 0 },
                    { 226, 16, BOLD } },
};

const char *const theme_names[] = { "default", "dark", "light", "terminal", "contrast", NULL };

const struct theme *theme_find(const char *name)
{
    for (size_t i = 0; i < sizeof themes / sizeof themes[0]; i++)
        if (!strcmp(themes[i].name, name)) return &themes[i];
    return &themes[0];
}

// Returns the relative luminance of WCAG 2, 0 to 1.
static double luminance(uint32_t rgb)
{
    static const double weight[] = { 0.2126, 0.7152, 0.0722 };
    double sum = 0;
    for (int k = 0; k < 3; k++) {
        const double v = (rgb >> (16 - 8 * k) & 255) / 255.0;
        sum += weight[k] * (v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4));
    }
    return sum;
}

const struct theme *theme_on(const struct theme *theme, int64_t background)
{
    static const double middle = 0.179; // as far from white as from black
    if (theme != &themes[ANY_BACKGROUND] || background < 0) return theme;
    return &themes[luminance((uint32_t)background) < middle ? DARK : LIGHT];
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

int colour_readable(uint32_t rgb, const struct theme *theme)
{
    int best = COLOUR_DEFAULT;
    const bool grey = colour_hue(rgb) < 0;
    for (int i = 0; i < 16; i++) {
        const uint32_t ink = palette(i);
        if (!(theme->inks >> i & 1) || (grey && colour_hue(ink) >= 0)) continue;
        if (best < 0 || distance(rgb, ink) < distance(rgb, palette(best))) best = i;
    }
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
