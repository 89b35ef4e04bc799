// core/picture/image.c -- decodes a picture file to RGB pixels: header, decoder, orientation.
#include "core/picture/image.h"

#include <stdlib.h>
#include <string.h>

#include "core/picture/image_parts.h"

int image_decode_here(struct image *image, const void *bytes, size_t size, const char *name,
                      struct err *err)
{
    *image = (struct image){ 0 };
    struct image_header h;
    int rc;
    if (image_header_read(&h, bytes, size, name, err) < 0) return -1;
    switch (h.format) {
    case IMAGE_JPEG: rc = image_decode_jpeg(image, &h, bytes, size, name, err); break;
    case IMAGE_WEBP: rc = image_decode_webp(image, &h, bytes, size, name, err); break;
    case IMAGE_GIF: rc = image_decode_gif(image, &h, bytes, size, name, err); break;
    case IMAGE_BMP: rc = image_decode_bmp(image, &h, bytes, size, name, err); break;
    case IMAGE_PNM: rc = image_decode_pnm(image, &h, bytes, size, name, err); break;
    default: rc = image_decode_png(image, &h, bytes, size, name, err);
    }
    if (rc == 0) rc = image_orient(image, h.orientation, err);
    if (rc < 0) image_release(image);
    return rc;
}

int image_decode(struct image *image, const void *bytes, size_t size, const char *name,
                 struct err *err)
{
    *image = (struct image){ 0 };
    struct image_header h;
    if (image_header_read(&h, bytes, size, name, err) < 0) return -1;
    return image_decode_child(image, &h, bytes, size, name, err);
}

const char *image_ending(const void *bytes, size_t size)
{
    static const char *const endings[] = {
        [IMAGE_PNG] = ".png", [IMAGE_JPEG] = ".jpg",  [IMAGE_BMP] = ".bmp",
        [IMAGE_PNM] = ".ppm", [IMAGE_WEBP] = ".webp", [IMAGE_GIF] = ".gif",
    };
    struct image_header h;
    return image_header_read(&h, bytes, size, "", NULL) < 0 ? "" : endings[h.format];
}

int image_size(const void *bytes, size_t size, const char *name, int64_t *width, int64_t *height,
               struct err *err)
{
    struct image_header h;
    if (image_header_read(&h, bytes, size, name, err) < 0) return -1;
    const bool turned = h.orientation >= 5; // its sides change places
    *width = turned ? h.height : h.width;
    *height = turned ? h.width : h.height;
    return 0;
}

int64_t image_frames(const void *bytes, size_t size)
{
    struct image_header h;
    return image_header_read(&h, bytes, size, "", NULL) < 0 || h.frames < 1 ? 1 : h.frames;
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
    uint8_t *to = image->pixels; // never ahead of what is read
    for (int64_t i = 0; i < image->width * image->height; i++, from += 4, to += 3) {
        unsigned a = from[3];
        for (int c = 0; c < 3; c++) {
            unsigned t = from[c] * a + background[c] * (255 - a) + 128;
            to[c] = (uint8_t)((t + (t >> 8)) >> 8);
        }
    }
    image->channels = 3;
}
