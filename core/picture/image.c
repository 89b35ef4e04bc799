// core/picture/image.c -- decodes a picture file to RGB pixels: header, decoder, orientation.
#include "core/picture/image.h"

#include <stdlib.h>
#include <string.h>

#include "core/picture/image_parts.h"

static const struct {
    image_decoder_of *decode;
    const char *ending;
} formats[] = {
    [IMAGE_PNG] = { image_decode_png, ".png" },    [IMAGE_JPEG] = { image_decode_jpeg, ".jpg" },
    [IMAGE_BMP] = { image_decode_bmp, ".bmp" },    [IMAGE_PNM] = { image_decode_pnm, ".ppm" },
    [IMAGE_WEBP] = { image_decode_webp, ".webp" }, [IMAGE_GIF] = { image_decode_gif, ".gif" },
};

int image_decode_here(struct image *image, const void *bytes, size_t size, const char *name,
                      struct err *err)
{
    struct image_header h;
    *image = (struct image){ 0 };
    if (image_header_read(&h, bytes, size, name, err) < 0) return -1;
    int rc = formats[h.format].decode(image, &h, bytes, size, name, err);
    if (rc == 0) rc = image_orient(image, h.orientation, err);
    if (rc < 0) image_release(image);
    return rc;
}

const char *image_ending(const void *bytes, size_t size)
{
    struct image_header h;
    return image_header_read(&h, bytes, size, "", NULL) < 0 ? "" : formats[h.format].ending;
}

int image_size(const void *bytes, size_t size, const char *name, int64_t *width, int64_t *height,
               struct err *err)
{
    struct image_header h;
    if (image_header_read(&h, bytes, size, name, err) < 0) return -1;
    const bool rotated = h.orientation >= 5; // rotated by 90 degrees, so the sides are swapped
    *width = rotated ? h.height : h.width;
    *height = rotated ? h.width : h.height;
    return 0;
}

int64_t image_frames(const void *bytes, size_t size)
{
    struct image_header h;
    return image_header_read(&h, bytes, size, "", NULL) < 0 || h.frames < 1 ? 1 : h.frames;
}

int image_bad_pixels(const char *name, const char *why, struct err *err)
{
    return err_set(err, "cannot read '%s': its pixels are damaged%s%s%s; export it again", name,
                   why ? " (" : "", why ? why : "", why ? ")" : "");
}

int image_allocate(struct image *image, const struct image_header *h, int channels,
                   const char *name, struct err *err)
{
    const size_t count = (size_t)h->width * (size_t)h->height;
    *image = (struct image){ h->width, h->height, channels, malloc(count * (size_t)channels) };
    return image->pixels ? 0 : err_set(err, "out of memory for the pixels of '%s'", name);
}

void image_release(struct image *image)
{
    free(image->pixels);
    *image = (struct image){ 0 };
}

void image_flatten(struct image *image, const uint8_t background[3])
{
    if (image->channels != 4) return;
    const uint8_t *from = image->pixels;
    uint8_t *to = image->pixels; // never ahead of `from`
    for (int64_t i = 0; i < image->width * image->height; i++, from += 4, to += 3) {
        unsigned a = from[3];
        for (int c = 0; c < 3; c++) {
            unsigned t = from[c] * a + background[c] * (255 - a) + 128;
            to[c] = (uint8_t)((t + (t >> 8)) >> 8);
        }
    }
    image->channels = 3;
}
