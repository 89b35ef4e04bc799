// core/picture/image_parts.h -- shared by the files of the picture reader; other code uses
// core/picture/image.h.
#ifndef CORE_PICTURE_IMAGE_PARTS_H
#define CORE_PICTURE_IMAGE_PARTS_H

#include <stdbool.h>

#include "core/picture/image.h"

enum image_format { IMAGE_PNG, IMAGE_JPEG, IMAGE_BMP, IMAGE_PNM, IMAGE_WEBP, IMAGE_GIF };

// The palette of a BMP.
struct bmp_palette {
    int bits; // of a pixel: 1, 4 or 8; 0: no palette
    bool down;
    size_t at, entry, colours; // offset, bytes of a colour, number of colours
};

// Header data, read by our own bounds-checked code before any decoder runs.
struct image_header {
    enum image_format format;
    int64_t width, height; // as stored, before the orientation is applied
    int orientation;       // 1..8: from EXIF, else from XMP
    int xmp;               // orientation in XMP; 0: none
    bool alpha;            // the decoder's fourth channel is transparency (PNG, BMP); one colour
                           // is transparent (GIF)
    int maximum;           // PNM: the maximum value
    uint8_t transparent;   // GIF: the transparent colour
    int64_t frames;        // number of frames; 0 or 1 for a still picture
    size_t data;           // offset of the pixels (PNM, BMP), of the first frame's descriptor (GIF)
    struct bmp_palette palette;
};

// The header reader and the decoder of each format (image_header.c, image_webp.c, image_gif.c;
// image_pixels.c, image_jpeg.c). `name` is used in messages. Decoders allocate pixels with malloc,
// because xmalloc would end the child when memory runs out.
typedef int image_reader(struct image_header *h, const uint8_t *bytes, size_t size,
                         const char *name, struct err *err);
typedef int image_decoder_of(struct image *image, const struct image_header *h,
                             const uint8_t *bytes, size_t size, const char *name, struct err *err);

image_reader image_header_read, image_webp_header, image_gif_header;
image_decoder_of image_decode_png, image_decode_bmp, image_decode_pnm, image_decode_jpeg,
    image_decode_webp, image_decode_gif;

// Sets the error "cannot read 'NAME': WHAT; export it again as PNG or JPEG". Returns -1.
int image_damaged(const char *name, const char *what, struct err *err);
// Sets the error "cannot read 'NAME': its pixels are damaged (WHY); export it again"; why NULL:
// gives no reason. Returns -1.
int image_bad_pixels(const char *name, const char *why, struct err *err);
// Allocates pixels for width x height of the header; -1: out of memory.
int image_allocate(struct image *image, const struct image_header *h, int channels,
                   const char *name, struct err *err);

// image_jpeg.c. Appends the JPEG file of a picture with three channels, quality 1..100, to `bytes`.
int image_encode_jpeg(struct buf *bytes, const struct image *image, int quality, struct err *err);

static inline uint32_t image_little(const uint8_t *p, int bytes)
{
    uint32_t value = 0;
    while (bytes-- > 0) value = value << 8 | p[bytes];
    return value;
}

static inline uint32_t image_big(const uint8_t *p, int bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | p[i];
    return value;
}

// image_child.c: image_decode_here in a forked child with limits for this picture.
int image_decode_child(struct image *image, const struct image_header *h, const void *bytes,
                       size_t size, const char *name, struct err *err);

// image_exif.c. Returns the orientation (1..8) in a TIFF block, as EXIF stores it; 0: none.
int image_exif_orientation(const uint8_t *tiff, size_t size);
// Returns the orientation in XMP's XML, which photo programs and macOS write; searches it as Pillow
// does.
int image_xmp_orientation(const uint8_t *xml, size_t size);
// Rotates and flips the picture upright.
int image_orient(struct image *image, int orientation, struct err *err);

#endif
