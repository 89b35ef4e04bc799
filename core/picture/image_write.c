// core/picture/image_write.c -- PNG through stb_image_write, which is compiled here.
#include "core/picture/image_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef __clang_analyzer__ // warns about stb's code
#define STB_IMAGE_WRITE_IMPLEMENTATION
#endif
#define STBI_WRITE_NO_STDIO
#include <stb/stb_image_write.h>

#include "core/base/file_out.h"
#include "core/base/mem.h"

static void keep(void *self, void *bytes, int size)
{
    buf_add(self, bytes, (size_t)size);
}

void image_encode_png(struct buf *png, const uint8_t *pixels, int width, int height, int channels)
{
    if (width < 1 || height < 1) return;
    stbi_write_png_to_func(keep, png, width, height, channels, pixels, channels * width);
}

int image_write_png(const char *path, const uint8_t *pixels, int width, int height, struct err *err)
{
    struct buf png = { 0 };
    if (width < 1 || height < 1) return err_set(err, "'%s': the picture has no pixels", path);
    image_encode_png(&png, pixels, width, height, 3);
    if (!png.length) {
        buf_release(&png);
        return err_set(err, "cannot write '%s': out of memory for its pixels", path);
    }
    const int status = file_out_write(path, png.data, png.length, err);
    buf_release(&png);
    return status;
}
