// core/scenes/font.c -- digits and letters as strokes. Of letters only those that no digit and no
// other letter is mistaken for at 20 pixels.
#include <stddef.h>

#include "core/scenes/scene.h"

const char glyph_digits[DIGITS + 1] = "0123456789", glyph_letters[LETTERS + 1] = "ACEFHKLMNPTUVXY";

// Points "xy" on a grid 5 wide and 7 high, joined by lines; a comma lifts the pen.
static const struct {
    char glyph;
    const char *strokes;
} font[] = {
    { '0', "10 30 41 45 36 16 05 01 10" },
    { '1', "11 20 26,16 36" },
    { '2', "01 10 30 41 42 06 46" },
    { '3', "01 10 30 41 42 33 44 45 36 16 05,13 33" },
    { '4', "36 30 04 44" },
    { '5', "40 00 02 32 43 45 36 16 05" },
    { '6', "41 30 10 01 05 16 36 45 44 33 03" },
    { '7', "00 40 16" },
    { '8', "13 02 01 10 30 41 42 33 13 04 05 16 36 45 44 33" },
    { '9', "43 13 02 01 10 30 41 45 36 16 05" },
    { 'A', "06 20 46,14 34" },
    { 'C', "41 30 10 01 05 16 36 45" },
    { 'E', "40 00 06 46,03 33" },
    { 'F', "40 00 06,03 33" },
    { 'H', "00 06,40 46,03 43" },
    { 'K', "00 06,40 03 46" },
    { 'L', "00 06 46" },
    { 'M', "06 00 23 40 46" },
    { 'N', "06 00 46 40" },
    { 'P', "06 00 30 41 42 33 03" },
    { 'T', "00 40,20 26" },
    { 'U', "00 05 16 36 45 40" },
    { 'V', "00 26 40" },
    { 'X', "00 46,40 06" },
    { 'Y', "00 23 40,23 26" },
};

// Is (x, y) within `half` of the line from a to b? In integers, so that all machines agree.
static bool near_line(int64_t x, int64_t y, const int64_t a[2], const int64_t b[2], int64_t half)
{
    const int64_t dx = b[0] - a[0], dy = b[1] - a[1], px = x - a[0], py = y - a[1];
    const int64_t along = px * dx + py * dy, length = dx * dx + dy * dy;
    if (along <= 0) return px * px + py * py <= half * half;
    if (along >= length) {
        const int64_t qx = x - b[0], qy = y - b[1];
        return qx * qx + qy * qy <= half * half;
    }
    const int64_t cross = px * dy - py * dx;
    return cross * cross <= half * half * length;
}

// (x, y) from the centre of a glyph that is 2 * radius high.
bool glyph_covers(char glyph, int64_t x, int64_t y, int64_t radius)
{
    const char *p = NULL;
    for (size_t i = 0; i < sizeof font / sizeof *font; i++)
        if (font[i].glyph == glyph) p = font[i].strokes;
    if (!p) return false;
    const int64_t half = radius * 19 / 100, reach = radius - half;
    int64_t from[2], to[2];
    bool down = false;
    for (; *p; p += p[2] ? 3 : 2) {
        to[0] = (p[0] - '2') * reach * 34 / 100;
        to[1] = (p[1] - '3') * reach / 3;
        if (down && near_line(x, y, from, to, half)) return true;
        from[0] = to[0];
        from[1] = to[1];
        down = p[2] != ',';
    }
    return false;
}
