// core/picture/image_jpeg.c -- JPEG to the very pixels that libjpeg (and so Pillow) gives.
//
// stb_image reads the file: markers, Huffman codes, progressive scans. What follows it rounds in
// other places than libjpeg's default path, up to a few levels per pixel, so those steps are
// written here after libjpeg's published arithmetic:
//   1. inverse DCT: Loeffler, Ligtenberg, Moschytz 1989 with 13-bit constants, 2 extra bits
//      between the passes ("islow");
//   2. chroma: triangle filter, 3/4 of the nearer and 1/4 of the farther sample ("fancy"), with
//      biases that alternate between the two outputs;
//   3. YCbCr to RGB with 16-bit constants (JFIF); CMYK as Pillow shows it.
// The only file with stb_image's implementation, for it uses its internal struct stbi__jpeg.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/picture/image_parts.h"

#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STBI_MAX_DIMENSIONS IMAGE_MAX_SIDE
#define STBI_ASSERT(x)      ((void)0)
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>

static uint8_t clamp8(int x)
{
    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

// --- 1. inverse DCT ----------------------------------------------------------------------------

enum { DCT_BITS = 13, PASS_BITS = 2 };

// Eight values, `step` apart, in place; the result keeps `shift` fewer bits, rounded. 64 bits: the
// coefficients of a damaged file may have any value.
static void dct_line(int32_t *v, int step, int shift)
{
    int64_t v0 = v[0], v1 = v[step], v2 = v[2 * step], v3 = v[3 * step];
    int64_t v4 = v[4 * step], v5 = v[5 * step], v6 = v[6 * step], v7 = v[7 * step];
    // Even part: a rotation by 6 pi/16 (sqrt(2) cos, sqrt(2) sin) and butterflies.
    int64_t turn = (v2 + v6) * 4433;
    int64_t e2 = turn - v6 * 15137, e3 = turn + v2 * 6270;
    int64_t e0 = (v0 + v4) * (1 << DCT_BITS), e1 = (v0 - v4) * (1 << DCT_BITS);
    int64_t even[4] = { e0 + e3, e1 + e2, e1 - e2, e0 - e3 };
    // Odd part: figure 8 of the paper, sqrt(2) folded in.
    int64_t s1 = (v7 + v1) * -7373, s2 = (v5 + v3) * -20995, s3 = v7 + v3, s4 = v5 + v1;
    int64_t s5 = (s3 + s4) * 9633;
    s3 = s3 * -16069 + s5, s4 = s4 * -3196 + s5;
    int64_t odd[4] = { v1 * 12299 + s1 + s4, v3 * 25172 + s2 + s3, v5 * 16819 + s2 + s4,
                       v7 * 2446 + s1 + s3 };
    int64_t half = (int64_t)1 << (shift - 1);
    for (int i = 0; i < 4; i++) {
        v[i * step] = (int32_t)((even[i] + odd[i] + half) >> shift);
        v[(7 - i) * step] = (int32_t)((even[i] - odd[i] + half) >> shift);
    }
}

// stb_image's hook: `data` is dequantised, row-major.
static void dct_block(stbi_uc *out, int stride, short data[64])
{
    int32_t v[64];
    for (int x = 0; x < 8; x++) {
        int32_t rest = 0;
        for (int y = 0; y < 8; y++) {
            v[8 * y + x] = data[8 * y + x];
            if (y) rest |= data[8 * y + x];
        }
        if (rest)
            dct_line(v + x, 8, DCT_BITS - PASS_BITS);
        else // most columns: the same result without the work
            for (int y = 7; y >= 0; y--) v[8 * y + x] = v[x] * (1 << PASS_BITS);
    }
    for (int y = 0; y < 8; y++) {
        dct_line(v + 8 * y, 1, DCT_BITS + PASS_BITS + 3);
        for (int x = 0; x < 8; x++) out[y * stride + x] = clamp8(v[8 * y + x] + 128);
    }
}

// --- 2. chroma to full size --------------------------------------------------------------------

struct plane {
    const uint8_t *data;
    int64_t stride, width, height; // without the padding to whole blocks
    int across, down;              // how many pixels of the picture a sample covers
};

// One row at full width from samples near + far: sums of weight 1 (no vertical filter: v = near)
// or 4 (v = 3 near + far). libjpeg's biases: 1, 2 of 4 and 8, 7 of 16.
static void widen_fancy(uint8_t *out, const uint8_t *near, const uint8_t *far, int64_t width)
{
    int shift = far ? 4 : 2, left = far ? 8 : 1, right = far ? 7 : 2;
    int last = 0, now = far ? 3 * near[0] + far[0] : near[0];
    for (int64_t x = 0; x < width; x++) {
        int64_t n = x + 1 < width ? x + 1 : x;
        int next = far ? 3 * near[n] + far[n] : near[n];
        // The outermost samples stand alone: 4 now + bias.
        out[2 * x] = (uint8_t)((3 * now + (x ? last : now) + left) >> shift);
        out[2 * x + 1] = (uint8_t)((3 * now + next + right) >> shift);
        last = now;
        now = next;
    }
}

// Row y of the picture, `width` samples or one more.
static void plane_row(uint8_t *out, const struct plane *p, int64_t y, int64_t width)
{
    int64_t row = y / p->down;
    const uint8_t *near = p->data + row * p->stride;
    const uint8_t *far = NULL;
    if (p->down == 2) {
        int64_t other = y % 2 ? row + 1 : row - 1;
        other = other < 0 ? 0 : other >= p->height ? p->height - 1 : other;
        far = p->data + other * p->stride;
    }
    if (p->across == 1 && p->down == 1) {
        memcpy(out, near, (size_t)width);
    } else if (p->across == 1 && p->down == 2) {
        for (int64_t x = 0; x < width; x++)
            out[x] = (uint8_t)((3 * near[x] + far[x] + (y % 2 ? 2 : 1)) >> 2);
    } else if (p->across == 2 && p->down <= 2 && p->width > 2) {
        widen_fancy(out, near, far, p->width);
    } else {
        for (int64_t x = 0; x < width; x++) out[x] = near[x / p->across];
    }
}

// --- 3. colour ---------------------------------------------------------------------------------

enum jpeg_colour { JPEG_GREY, JPEG_RGB, JPEG_YCC, JPEG_CMYK, JPEG_YCCK };

// What the markers say, in libjpeg's order: JFIF, Adobe, component names.
static enum jpeg_colour jpeg_colour(const stbi__jpeg *j)
{
    int adobe = j->app14_color_transform;
    if (j->s->img_n == 1) return JPEG_GREY;
    if (j->s->img_n == 4) return adobe > 0 ? JPEG_YCCK : JPEG_CMYK;
    if (j->jfif) return JPEG_YCC;
    if (adobe >= 0) return adobe == 0 ? JPEG_RGB : JPEG_YCC;
    return j->rgb == 3 ? JPEG_RGB : JPEG_YCC;
}

// Factors of 1.402, 1.772, 0.71414 and 0.34414 with 16 fractional bits.
static void ycc_to_rgb(uint8_t *rgb, int y, int cb, int cr)
{
    cb -= 128, cr -= 128;
    rgb[0] = clamp8(y + ((91881 * cr + 32768) >> 16));
    rgb[1] = clamp8(y + ((-22554 * cb - 46802 * cr + 32768) >> 16));
    rgb[2] = clamp8(y + ((116130 * cb + 32768) >> 16));
}

static void colour_row(uint8_t *out, uint8_t *const row[4], int64_t width, enum jpeg_colour colour)
{
    for (int64_t x = 0; x < width; x++, out += 3) {
        if (colour == JPEG_YCC || colour == JPEG_YCCK)
            ycc_to_rgb(out, row[0][x], row[1][x], row[2][x]);
        else
            for (int c = 0; c < 3; c++) out[c] = row[colour == JPEG_GREY ? 0 : c][x];
        if (colour != JPEG_CMYK && colour != JPEG_YCCK) continue;
        // Files of four inks are stored inverted (Adobe): K is 255 without black ink. Pillow takes
        // them so always; YCCK holds the inverse of the inks once more.
        int light = row[3][x];
        for (int c = 0; c < 3; c++) {
            int ink = colour == JPEG_YCCK ? out[c] : 255 - out[c];
            int t = ink * light + 128;
            out[c] = clamp8(light - ((t + (t >> 8)) >> 8));
        }
    }
}

static int planes_to_rgb(struct image *image, stbi__jpeg *j)
{
    int count = j->s->img_n;
    int64_t w = j->s->img_x, h = j->s->img_y;
    struct plane plane[4];
    uint8_t *row[4] = { 0 };
    size_t room = (size_t)w + 8; // an odd width is filtered one further
    uint8_t *rows = malloc(4 * room);
    *image = (struct image){ .width = w, .height = h, .channels = 3 };
    image->pixels = malloc((size_t)w * (size_t)h * 3);
    if (!rows || !image->pixels) {
        free(rows);
        return -1;
    }
    for (int c = 0; c < count; c++) {
        row[c] = rows + room * (size_t)c;
        plane[c] = (struct plane){ .data = j->img_comp[c].data,
                                   .stride = j->img_comp[c].w2,
                                   .width = j->img_comp[c].x,
                                   .height = j->img_comp[c].y,
                                   .across = j->img_h_max / j->img_comp[c].h,
                                   .down = j->img_v_max / j->img_comp[c].v };
    }
    enum jpeg_colour colour = jpeg_colour(j);
    for (int64_t y = 0; y < h; y++) {
        for (int c = 0; c < count; c++) plane_row(row[c], &plane[c], y, w);
        colour_row(image->pixels + y * w * 3, row, w, colour);
    }
    free(rows);
    return 0;
}

// Sampling must divide: 1:1, 2:1, 4:1 (and 3:1); libjpeg refuses the others too.
static bool sampling_divides(const stbi__jpeg *j)
{
    for (int c = 0; c < j->s->img_n; c++)
        if (j->img_h_max % j->img_comp[c].h || j->img_v_max % j->img_comp[c].v) return false;
    return true;
}

int image_decode_jpeg(struct image *image, const struct image_header *h, const uint8_t *bytes,
                      size_t size, const char *name, struct err *err)
{
    stbi__context s;
    stbi__jpeg *j = calloc(1, sizeof *j);
    int rc = -1;
    if (!j) return err_set(err, "out of memory for the pixels of '%s'", name);
    stbi__start_mem(&s, bytes, (int)size);
    s.img_n = 0;
    j->s = &s;
    stbi__setup_jpeg(j);
    j->idct_block_kernel = dct_block;
    if (!stbi__decode_jpeg_image(j))
        err_set(err, "cannot read '%s': its pixels are damaged (%s); export it again", name,
                stbi_failure_reason());
    else if (s.img_x != h->width || s.img_y != h->height)
        err_set(err, "cannot read '%s': it contains two different sizes", name);
    else if (!sampling_divides(j))
        err_set(err, "'%s' is a JPEG with rare chroma sampling: convert it, e.g. `%s`", name,
                "magick in.jpg out.png");
    else if ((rc = planes_to_rgb(image, j)) < 0)
        err_set(err, "out of memory for the pixels of '%s'", name);
    stbi__cleanup_jpeg(j);
    free(j);
    return rc;
}
