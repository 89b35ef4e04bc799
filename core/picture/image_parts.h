// core/picture/image_parts.h -- shared by the files of the picture reader; others use
// core/picture/image.h.
#ifndef CORE_PICTURE_IMAGE_PARTS_H
#define CORE_PICTURE_IMAGE_PARTS_H

#include <stdbool.h>

#include "core/picture/image.h"

enum image_format { IMAGE_PNG, IMAGE_JPEG, IMAGE_BMP, IMAGE_PNM, IMAGE_WEBP, IMAGE_GIF };

// Of a BMP whose pixels are numbers of colours.
struct bmp_palette {
    int bits; // of a pixel: 1, 4 or 8; 0: there is none
    bool down;
    size_t at, entry, colours; // where it begins, bytes of a colour, how many
};

// Header data, read by our own bounds-checked code before any decoder runs.
struct image_header {
    enum image_format format;
    int64_t width, height; // as stored, before the orientation is applied
    int orientation;       // 1..8: EXIF's, else that of XMP
    int xmp;               // orientation in XMP; 0: none
    bool alpha;            // PNG, BMP: a fourth channel of the decoder means transparency; GIF: one
                           // colour does
    int maximum;           // PNM: the maximum value
    uint8_t transparent;   // GIF: that colour
    int64_t frames;        // of an animation; else 0 or 1
    size_t data;           // PNM, BMP: offset of the pixels; GIF: of the first frame's descriptor
    struct bmp_palette palette;
};

// image_header.c. `name` is used in messages of all these functions.
int image_header_read(struct image_header *h, const uint8_t *bytes, size_t size, const char *name,
                      struct err *err);

// image_webp.c, image_gif.c: the rest of the header, of bytes that begin as such a file. NULL, or
// what is wrong with it.
const char *image_webp_header(struct image_header *h, const uint8_t *bytes, size_t size);
const char *image_gif_header(struct image_header *h, const uint8_t *bytes, size_t size);

// image_exif.c. The orientation (1..8) in a TIFF block as EXIF stores it; 0 when there is none.
int image_exif_orientation(const uint8_t *tiff, size_t size);
// The same in the XML of XMP, where photo programs and macOS note it; as Pillow finds it.
int image_xmp_orientation(const uint8_t *xml, size_t size);
// Rotates and flips the picture upright.
int image_orient(struct image *image, int orientation, struct err *err);

// image_pixels.c: PNG and BMP (stb_image), BMP with a palette, and PNM. image_jpeg.c: JPEG
// (libjpeg). image_webp.c: WebP (libwebp). image_gif.c: GIF. The pixels are malloc'ed: xmalloc must
// not end the child.
int image_decode_png(struct image *image, const struct image_header *h, const uint8_t *bytes,
                     size_t size, const char *name, struct err *err);
int image_decode_bmp(struct image *image, const struct image_header *h, const uint8_t *bytes,
                     size_t size, const char *name, struct err *err);
int image_decode_pnm(struct image *image, const struct image_header *h, const uint8_t *bytes,
                     size_t size, const char *name, struct err *err);
int image_decode_jpeg(struct image *image, const struct image_header *h, const uint8_t *bytes,
                      size_t size, const char *name, struct err *err);
int image_decode_webp(struct image *image, const struct image_header *h, const uint8_t *bytes,
                      size_t size, const char *name, struct err *err);
int image_decode_gif(struct image *image, const struct image_header *h, const uint8_t *bytes,
                     size_t size, const char *name, struct err *err);

// image_child.c: image_decode_here in a forked child.
int image_decode_child(struct image *image, const struct image_header *h, const uint8_t *bytes,
                       size_t size, const char *name, struct err *err);

#endif
