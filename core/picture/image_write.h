// core/picture/image_write.h -- writes pixels as PNG.
#ifndef CORE_PICTURE_IMAGE_WRITE_H
#define CORE_PICTURE_IMAGE_WRITE_H

#include <stdint.h>

#include "core/base/err.h"
#include "core/base/mem.h"

// Writes pixels [height, width, 3] as a PNG file, whole or not at all (core/base/file_out.h).
int image_write_png(const char *path, const uint8_t *pixels, int width, int height,
                    struct err *err);
// Appends pixels [height, width, channels] as a PNG; channels is 3 (RGB) or 4 (RGBA).
void image_encode_png(struct buf *png, const uint8_t *pixels, int width, int height, int channels);

#endif
