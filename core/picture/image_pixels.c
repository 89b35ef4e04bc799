// core/picture/image_pixels.c -- PNG and BMP through stb_image, which is compiled here. This file
// itself decodes PNM, and BMP with a palette, where stb_image shows colours that the file does not
// have.
//
// Of 16 bits in a PNG, keeps the high byte, as Pillow does for RGB. (For 16-bit grey, Pillow's
// convert("RGB") clips at 255 instead, which turns nearly every such picture white; this file does
// not.)
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/picture/image_parts.h"

#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_MAX_DIMENSIONS IMAGE_MAX_SIDE
#define STBI_ASSERT(x)      ((void)0)
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>

int image_decode_png(struct image *image, const struct image_header *h, const uint8_t *bytes,
                     size_t size, const char *name, struct err *err)
{
    int w, height, have;
    stbi__g_failure_reason = "bad zlib block"; // the only error for which stb_image gives no reason
    uint8_t *pixels = stbi_load_from_memory(bytes, (int)size, &w, &height, &have, 0);
    if (!pixels) return image_bad_pixels(name, stbi_failure_reason(), err);
    *image = (struct image){ .width = w, .height = height, .channels = have, .pixels = pixels };
    if (w != h->width || height != h->height)
        return err_set(err, "cannot read '%s': it contains two different sizes", name);
    if (have == 3 || (have == 4 && h->alpha)) return 0;
    // Converts 1 or 2 channels (grey, grey and alpha), or 4 with an unwanted alpha, to 3 or 4.
    const int rc = image_allocate(image, h, h->alpha && have % 2 == 0 ? 4 : 3, name, err);
    const uint8_t *from = pixels;
    uint8_t *to = image->pixels;
    for (int64_t i = 0; to && i < h->width * h->height; i++, from += have, to += image->channels) {
        for (int c = 0; c < 3; c++) to[c] = from[have < 3 ? 0 : c];
        if (image->channels == 4) to[3] = from[have - 1];
    }
    free(pixels);
    return rc;
}

// Decodes an uncompressed BMP with a palette: rows from the bottom up, or from the top down if the
// height in the file is negative. The header check has verified that the file contains all rows.
int image_decode_bmp(struct image *image, const struct image_header *h, const uint8_t *bytes,
                     size_t size, const char *name, struct err *err)
{
    const struct bmp_palette p = h->palette;
    if (!p.bits) return image_decode_png(image, h, bytes, size, name, err);
    const size_t width = (size_t)h->width, height = (size_t)h->height;
    const size_t stride = (width * (size_t)p.bits + 31) / 32 * 4;
    if (image_allocate(image, h, 3, name, err) < 0) return -1;
    uint8_t *to = image->pixels;
    for (size_t y = 0; y < height; y++) {
        const uint8_t *row = bytes + h->data + (p.down ? y : height - 1 - y) * stride;
        for (size_t x = 0; x < width; x++, to += 3) {
            const size_t bit = x * (size_t)p.bits;
            const size_t i = (row[bit / 8] >> (8 - p.bits - (int)(bit % 8))) & ((1 << p.bits) - 1);
            if (i >= p.colours)
                return err_set(err,
                               "cannot read '%s': its pixels use colour %zu of a palette of %zu: "
                               "export it again",
                               name, i, p.colours);
            const uint8_t *colour = bytes + p.at + i * p.entry; // blue, green, red
            for (int c = 0; c < 3; c++) to[c] = colour[2 - c];
        }
    }
    return 0;
}

int image_decode_pnm(struct image *image, const struct image_header *h, const uint8_t *bytes,
                     size_t size, const char *name, struct err *err)
{
    int have = bytes[1] == '6' ? 3 : 1, wide = h->maximum > 255;
    size_t count = (size_t)h->width * (size_t)h->height;
    if (image_allocate(image, h, 3, name, err) < 0) return -1;
    // The header check has verified that the file contains all samples.
    const uint8_t *from = bytes + h->data;
    for (size_t i = 0; i < count; i++)
        for (int c = 0; c < 3; c++) {
            size_t at = i * (size_t)have + (size_t)(have == 3 ? c : 0);
            int v = wide ? from[2 * at] << 8 | from[2 * at + 1] : from[at];
            long scaled = lrint((double)v / h->maximum * 255); // halves to even, as in Pillow
            image->pixels[3 * i + (size_t)c] = (uint8_t)(scaled > 255 ? 255 : scaled);
        }
    return 0;
}
