// core/picture/image_gif.c -- GIF: the first frame, as Pillow shows it.
//
// A screen descriptor, a table of colours, then blocks: extensions ('!'), frames (','), the end
// (';'). A frame's pixels are LZW codes in sub-blocks of up to 255 bytes (GIF89a, appendix F). The
// canvas is the screen, enlarged if the frame reaches beyond it. Pixels outside of the frame have
// its transparent colour, or colour 0 if it has none (as in Pillow; browsers ignore the background
// colour too). Other readers differ from Pillow: stb_image paints those pixels with the background
// colour, and giflib accepts codes that are in no table.
#include <stdlib.h>
#include <string.h>

#include "core/picture/image_parts.h"

// Returns the offset after the sub-blocks at `at`; 0 if they are cut off.
static size_t skip_blocks(const uint8_t *bytes, size_t size, size_t at)
{
    while (at < size && bytes[at]) at += (size_t)bytes[at] + 1;
    return at < size ? at + 1 : 0;
}

// Returns the size in bytes of the colour table that a descriptor's flags announce.
static size_t table_size(uint8_t flags)
{
    return flags & 0x80 ? (size_t)3 << ((flags & 7) + 1) : 0;
}

// Returns the offset after the frame whose descriptor (from ',' on) is at `at`; 0 if the frame is
// cut off.
static size_t skip_frame(const uint8_t *bytes, size_t size, size_t at)
{
    if (size - at < 11) return 0;
    const size_t data = at + 10 + table_size(bytes[at + 9]);
    return data < size ? skip_blocks(bytes, size, data + 1) : 0;
}

// Counts the complete frames from `at` on.
static int64_t count_frames(const uint8_t *bytes, size_t size, size_t at)
{
    int64_t count = 0;
    while (at && at < size && bytes[at] != ';') {
        const uint8_t kind = bytes[at];
        if (kind == '!')
            at = size - at > 2 ? skip_blocks(bytes, size, at + 2) : 0;
        else if (kind == ',')
            at = skip_frame(bytes, size, at);
        else
            at++;
        count += kind == ',' && at;
    }
    return count;
}

int image_gif_header(struct image_header *h, const uint8_t *bytes, size_t size, const char *name,
                     struct err *err)
{
    if (size < 13) return image_damaged(name, "the GIF is truncated", err);
    h->width = image_little(bytes + 6, 2);
    h->height = image_little(bytes + 8, 2);
    for (size_t at = 13 + table_size(bytes[10]); at < size && at;) {
        const uint8_t *block = bytes + at;
        size_t next = at + 1; // skips a byte that begins no block, as other readers do
        if (*block == ';') return image_damaged(name, "the GIF has no pixels", err);
        if (*block == '!') next = size - at > 2 ? skip_blocks(bytes, size, at + 2) : 0;
        if (*block == ',') next = skip_frame(bytes, size, at);
        // The graphic control extension before the frame has the frame's transparent colour, if
        // any.
        if (*block == '!' && next && block[1] == 0xf9 && block[2] >= 4 && block[3] & 1) {
            h->alpha = true;
            h->transparent = block[6];
        }
        if (*block == ',' && next) {
            const int64_t right = image_little(block + 1, 2) + image_little(block + 5, 2);
            const int64_t bottom = image_little(block + 3, 2) + image_little(block + 7, 2);
            if (right > h->width) h->width = right;
            if (bottom > h->height) h->height = bottom;
            h->data = at;
            h->frames = 1 + count_frames(bytes, size, next);
            return 0; // the rest may be cut off
        }
        at = next;
    }
    return image_damaged(name, "the GIF is truncated", err);
}

// --- the codes of a frame ------------------------------------------------------------------------

struct codes {
    const uint8_t *at, *end; // sub-blocks
    int left;                // bytes left in the current sub-block
    uint32_t bits;
    int held; // bits
};

// Returns the next code of `width` bits; -1 at the end.
static int next_code(struct codes *c, int width)
{
    while (c->held < width) {
        if (c->left == 0) {
            if (c->at >= c->end || !*c->at) return -1;
            c->left = *c->at++;
        }
        if (c->at >= c->end) return -1;
        c->bits |= (uint32_t)*c->at++ << c->held;
        c->held += 8;
        c->left--;
    }
    const int code = (int)(c->bits & ((1u << width) - 1));
    c->bits >>= width;
    c->held -= width;
    return code;
}

// The position of the next pixel in the frame. Rows are stored in order or, if interlaced, in four
// passes over every 8th, 8th, 4th and 2nd row.
struct frame {
    uint8_t *canvas;
    int64_t stride;
    int x, y, width, height; // on the canvas
    bool interlaced;
    int column, row, pass;
};

static bool put(struct frame *f, uint8_t index)
{
    static const int first[] = { 0, 4, 2, 1 }, step[] = { 8, 8, 4, 2 };
    f->canvas[(f->y + f->row) * f->stride + f->x + f->column] = index;
    if (++f->column < f->width) return true;
    f->column = 0;
    f->row += f->interlaced ? step[f->pass] : 1;
    while (f->interlaced && f->row >= f->height && f->pass < 3) f->row = first[++f->pass];
    return f->row < f->height;
}

// Writes colour indexes to the canvas. False: the codes end early or are invalid.
static bool unpack(struct frame *f, struct codes c, int bits)
{
    enum { CODES = 4096 };
    static const int widest = 12;
    uint16_t before[CODES]; // a code extends an earlier code by one pixel
    uint8_t last[CODES], first[CODES], stack[CODES];
    const int clear = 1 << bits, stop = clear + 1;
    int width = bits + 1, next = clear + 2, previous = -1;
    for (int i = 0; i < clear; i++) first[i] = last[i] = (uint8_t)i;
    for (;;) {
        const int code = next_code(&c, width);
        if (code < 0 || code == stop) return false;
        if (code == clear) {
            width = bits + 1;
            next = clear + 2;
            previous = -1;
            continue;
        }
        if (code > next || (code == next && previous < 0) || (previous < 0 && code > stop))
            return false;
        if (previous >= 0 && next < CODES) {
            before[next] = (uint16_t)previous;
            first[next] = first[previous];
            last[next] = code == next ? first[previous] : first[code];
            next++;
            if (next == 1 << width && width < widest) width++;
        }
        int depth = 0;
        for (int at = code; depth < CODES; at = before[at]) {
            stack[depth++] = last[at];
            if (at < clear) break;
        }
        while (depth > 0)
            if (!put(f, stack[--depth])) return true;
        previous = code;
    }
}

// --- colours -------------------------------------------------------------------------------------

// Fills in the colour of each index: black beyond the table. Without a table, or if the table is
// the greys 0, 1, 2 ... in order, every index is a grey level.
static void read_colours(uint8_t colours[256][3], const struct image_header *h,
                         const uint8_t *bytes)
{
    const uint8_t *frame = bytes + h->data, *table = bytes + 13;
    size_t size = table_size(bytes[10]), greys = 0;
    if (frame[9] & 0x80) {
        table = frame + 10;
        size = table_size(frame[9]);
    }
    while (greys < size && table[greys] == greys / 3) greys++;
    for (int i = 0; i < 256; i++) memset(colours[i], greys == size ? i : 0, 3);
    memcpy(colours, table, size);
}

int image_decode_gif(struct image *image, const struct image_header *h, const uint8_t *bytes,
                     size_t size, const char *name, struct err *err)
{
    uint8_t colours[256][3];
    const uint8_t *d = bytes + h->data, *data = d + 10 + table_size(d[9]);
    const size_t count = (size_t)h->width * (size_t)h->height;
    struct frame f = { .stride = h->width,
                       .x = (int)image_little(d + 1, 2),
                       .y = (int)image_little(d + 3, 2),
                       .width = (int)image_little(d + 5, 2),
                       .height = (int)image_little(d + 7, 2),
                       .interlaced = d[9] & 0x40 };
    if (data[0] < 1 || data[0] > 11 || !f.width || !f.height)
        return err_set(err, "cannot read '%s': the GIF's first frame is damaged", name);
    if (image_allocate(image, h, h->alpha ? 4 : 3, name, err) < 0) return -1;
    f.canvas = malloc(count);
    if (!f.canvas) return err_set(err, "out of memory for the pixels of '%s'", name);
    memset(f.canvas, h->alpha ? h->transparent : 0, count);
    const bool whole = unpack(&f, (struct codes){ .at = data + 1, .end = bytes + size }, data[0]);
    read_colours(colours, h, bytes);
    uint8_t *to = image->pixels;
    for (size_t i = 0; whole && i < count; i++, to += image->channels) {
        memcpy(to, colours[f.canvas[i]], 3);
        if (h->alpha) to[3] = f.canvas[i] == h->transparent ? 0 : 255;
    }
    free(f.canvas);
    return whole ? 0 : image_bad_pixels(name, NULL, err);
}
