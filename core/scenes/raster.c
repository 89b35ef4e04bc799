// core/scenes/raster.c -- paints a scene: pixels, owners and boxes. Takes 4 x 4 samples per pixel
// in integers, so that all machines paint the same pixels.
#include <stdlib.h>
#include <string.h>

#include "core/scenes/scene.h"

enum { FINE = 4, SAMPLES = FINE * FINE };

void raster_init(struct raster *r, int size)
{
    const size_t count = (size_t)size * (size_t)size;
    *r = (struct raster){ .size = size,
                          .pixels = xreallocarray(NULL, count, 3),
                          .owner = xmalloc(count) };
}

void raster_release(struct raster *r)
{
    free(r->pixels);
    free(r->owner);
    *r = (struct raster){ 0 };
}

// True if (x, y) is inside, by the even-odd rule; corners are in 1/1000 of the radius.
static bool in_polygon(const int16_t (*corner)[2], int count, int64_t x, int64_t y, int64_t radius)
{
    bool inside = false;
    for (int i = 0, j = count - 1; i < count; j = i++) {
        const int64_t ax = corner[i][0] * radius, ay = corner[i][1] * radius;
        const int64_t bx = corner[j][0] * radius, by = corner[j][1] * radius;
        const int64_t qx = x * 1000, qy = y * 1000;
        if ((ay > qy) == (by > qy)) continue;
        const int64_t side = (qx - ax) * (by - ay) - (bx - ax) * (qy - ay);
        if ((side < 0) == (by > ay)) inside = !inside;
    }
    return inside;
}

// Digits, and the letters that at 20 pixels cannot be mistaken for a digit or another letter.
const char glyph_digits[DIGITS + 1] = "0123456789", glyph_letters[LETTERS + 1] = "ACEFHKLMNPTUVXY";

// Strokes: lines through points "xy" on a grid 5 wide and 7 high; a comma lifts the pen.
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

// True if (x, y) is within `half` of the line from a to b.
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

// (x, y): offset from the centre of a glyph 2 * radius high.
static bool glyph_covers(char glyph, int64_t x, int64_t y, int64_t radius)
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

static bool covers(const struct object *o, int64_t x, int64_t y, int64_t r)
{
    // The star's corners are at tenths of a turn, with outer radius 1.05 and inner radius 0.45,
    // shifted down a little.
    static const int16_t star[10][2] = {
        { 0, -1000 }, { 265, -314 }, { 999, -274 }, { 428, 189 },   { 617, 899 },
        { 0, 500 },   { -617, 899 }, { -428, 189 }, { -999, -274 }, { -265, -314 },
    };
    static const int16_t triangle[3][2] = { { 0, -930 }, { 1000, 870 }, { -1000, 870 } };
    const int64_t ax = x < 0 ? -x : x, ay = y < 0 ? -y : y, away = x * x + y * y;
    switch (o->is.shape) {
    case SHAPE_CIRCLE: return away <= r * r;
    case SHAPE_RING: return away <= r * r && away * 100 >= r * r * 34;
    case SHAPE_SQUARE: return ax * 100 <= r * 88 && ay * 100 <= r * 88;
    case SHAPE_DIAMOND: return ax * 100 + ay * 68 <= r * 68;
    case SHAPE_CROSS: return (ax <= r && ay * 100 <= r * 32) || (ay <= r && ax * 100 <= r * 32);
    case SHAPE_BAR:
        return o->upright ? ay <= r && ax * 100 <= r * 30 : ax <= r && ay * 100 <= r * 30;
    case SHAPE_STAR: return in_polygon(star, 10, x, y, r);
    case SHAPE_TRIANGLE: return in_polygon(triangle, 3, x, y, r);
    default: return glyph_covers(o->is.glyph, x, y, r);
    }
}

// Counts the samples of pixel (px, py) that the object covers, 0..16. `size`: pixels per side.
static int coverage(const struct object *o, int px, int py, int64_t size)
{
    // Two steps per sample, so that the centre of a sample is an integer.
    const int64_t steps = (int64_t)2 * FINE * size;
    const int64_t cx = o->x * steps / SCENE_SIDE, cy = o->y * steps / SCENE_SIDE;
    const int64_t radius = o->radius * steps / SCENE_SIDE;
    int count = 0;
    for (int i = 0; i < SAMPLES; i++)
        count += covers(o, (int64_t)2 * (px * FINE + i % FINE) + 1 - cx,
                        (int64_t)2 * (py * FINE + i / FINE) + 1 - cy, radius);
    return count;
}

static int clamp(int64_t value, int size)
{
    return value < 0 ? 0 : value > size ? size : (int)value;
}

static void paint_object(struct raster *r, const struct object *o, int index)
{
    const int64_t size = r->size;
    const int left = clamp((o->x - o->radius) * size / SCENE_SIDE - 1, r->size);
    const int right = clamp((o->x + o->radius) * size / SCENE_SIDE + 2, r->size);
    const int top = clamp((o->y - o->radius) * size / SCENE_SIDE - 1, r->size);
    const int bottom = clamp((o->y + o->radius) * size / SCENE_SIDE + 2, r->size);
    for (int y = top; y < bottom; y++)
        for (int x = left; x < right; x++) {
            const int covered = coverage(o, x, y, size);
            const size_t at = (size_t)y * (size_t)size + (size_t)x;
            if (!covered) continue;
            uint8_t *pixel = r->pixels + 3 * at;
            for (int c = 0; c < 3; c++)
                pixel[c] =
                    (uint8_t)((pixel[c] * (SAMPLES - covered) + o->rgb[c] * covered + SAMPLES / 2) /
                              SAMPLES);
            if (covered < SAMPLES / 2) continue;
            r->area[index]++;
            r->owner[at] = (uint8_t)(index + 1);
        }
}

// Counts the visible pixels of objects, and finds their boxes.
static void measure(struct raster *r)
{
    int end[OBJECTS_MAX][2] = { 0 };
    memset(r->seen, 0, sizeof r->seen);
    for (int i = 0; i < OBJECTS_MAX; i++) r->box[i][0] = r->box[i][1] = r->size;
    for (int y = 0; y < r->size; y++)
        for (int x = 0; x < r->size; x++) {
            const int i = r->owner[y * r->size + x] - 1;
            if (i < 0) continue;
            r->seen[i]++;
            if (x < r->box[i][0]) r->box[i][0] = x;
            if (y < r->box[i][1]) r->box[i][1] = y;
            if (x >= end[i][0]) end[i][0] = x + 1;
            if (y >= end[i][1]) end[i][1] = y + 1;
        }
    for (int i = 0; i < OBJECTS_MAX; i++) {
        r->box[i][2] = end[i][0] - r->box[i][0];
        r->box[i][3] = end[i][1] - r->box[i][1];
    }
}

void raster_paint(struct raster *r, const struct scene *s)
{
    const size_t count = (size_t)r->size * (size_t)r->size;
    for (size_t i = 0; i < count; i++) memcpy(r->pixels + 3 * i, s->rgb, 3);
    memset(r->owner, 0, count);
    memset(r->area, 0, sizeof r->area);
    for (int layer = 0; layer < s->count; layer++)
        for (int i = 0; i < s->count; i++)
            if (s->objects[i].layer == layer) paint_object(r, &s->objects[i], i);
    measure(r);
}
