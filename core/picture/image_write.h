// core/picture/image_write.h -- writes RGB pixels to a PNG file.
#ifndef CORE_PICTURE_IMAGE_WRITE_H
#define CORE_PICTURE_IMAGE_WRITE_H

#include <stdint.h>

#include "core/base/err.h"

// pixels [height, width, 3]. Written as PATH.part and renamed: PATH is complete or absent.
int image_write_png(const char *path, const uint8_t *pixels, int width, int height,
                    struct err *err);

#endif
