// core/picture/resize.h -- Pillow's resize on 8-bit pixels, bit for bit.
//
// A resize takes two passes, with integer weights of 22 fractional bits. Each pass rounds and
// clamps to 8 bits, so the order of the passes matters. Pillow 12 always does the horizontal pass
// first; Pillow 13 does the vertical pass first if the picture shrinks much more in height than in
// width (image.resize_order).
#ifndef CORE_PICTURE_RESIZE_H
#define CORE_PICTURE_RESIZE_H

#include "core/picture/image.h"

enum resample {
    RESAMPLE_NEAREST = 0,
    RESAMPLE_LANCZOS = 1,
    RESAMPLE_BILINEAR = 2,
    RESAMPLE_BICUBIC = 3,
    RESAMPLE_BOX = 4,
    RESAMPLE_HAMMING = 5
}; // Pillow's numbers
enum resize_order { RESIZE_PILLOW13, RESIZE_PILLOW12 };

// to->pixels is newly allocated; from is unchanged. Sizes must be 1..IMAGE_MAX_SIDE. The four
// channels of RGBA are resized separately, without premultiplying alpha, so flatten a transparent
// image first.
int image_resize(struct image *to, const struct image *from, int64_t width, int64_t height,
                 enum resample resample, enum resize_order order, struct err *err);
// Computes only the rectangle [left, top, width, height] of a resize to full_width x full_height:
// the same pixels with less work and memory. The rectangle must lie inside the full size.
int image_resize_part(struct image *to, const struct image *from, int64_t full_width,
                      int64_t full_height, int64_t left, int64_t top, int64_t width, int64_t height,
                      enum resample resample, enum resize_order order, struct err *err);
// Copies the rectangle [left, top, width, height] of `from`. Where the rectangle extends beyond
// `from`, pixels get `fill`, and 255 in a fourth channel.
int image_crop(struct image *to, const struct image *from, int64_t left, int64_t top, int64_t width,
               int64_t height, const uint8_t fill[3], struct err *err);
// Copies `from` to three channels; the background shows through transparent pixels.
int image_flat_copy(struct image *to, const struct image *from, const uint8_t background[3],
                    struct err *err);

#endif
