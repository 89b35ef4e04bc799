// tests/fuzz/image.c -- reads arbitrary bytes as a picture: it is refused with a message, or gives
// pixels that can be read, flattened and resized. (This process decodes the picture itself, with
// the code that runs in the child of core/picture/image_child.c.)
#include <stdlib.h>

#include "core/picture/resize.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct err err = { "" };
    struct image image, to;
    if (image_decode_here(&image, bytes, size, "fuzz", &err) < 0) {
        if (!*err.text || image.pixels) abort();
        return 0;
    }
    if (image.width < 1 || image.height < 1 || image.width > IMAGE_MAX_SIDE ||
        image.height > IMAGE_MAX_SIDE || (image.channels != 3 && image.channels != 4))
        abort();
    volatile unsigned sum = 0;
    for (int64_t i = 0; i < image.width * image.height * image.channels; i++)
        sum += image.pixels[i];
    image_flatten(&image, (const uint8_t[3]){ 255, 255, 255 });
    enum resample resample = (enum resample)(bytes[size - 1] % 6);
    enum resize_order order = bytes[size / 2] % 2 ? RESIZE_PILLOW12 : RESIZE_PILLOW13;
    if (image_resize(&to, &image, 1 + bytes[size / 3] % 40, 17, resample, order, &err) < 0) abort();
    image_release(&to);
    image_release(&image);
    return 0;
}
