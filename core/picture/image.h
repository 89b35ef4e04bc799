// core/picture/image.h -- decodes a picture file to RGB pixels, safely.
//
// Decodes PNG, BMP (stb_image), JPEG (libjpeg-turbo), WebP (libwebp), GIF and PPM in a forked child
// with limits on memory and time, so that a hostile file only causes an error message. Checks size
// and area before decoding. Decodes the first frame of an animation. For HEIC, AVIF and others the
// message says how to convert them. Applies EXIF rotation, converts 16 bits to 8 and grey to RGB;
// JPEG pixels equal Pillow's. Keeps alpha as a fourth channel, which the family composites over its
// background.
//
// Room core/picture/: turns picture files into the pixels that a model reads: decoding in a child
// process, resizing like Pillow, normalising; writing PNG. Uses base and settings.
#ifndef CORE_PICTURE_IMAGE_H
#define CORE_PICTURE_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/mem.h"

struct image {
    int64_t width, height;
    int channels;    // 3 or 4
    uint8_t *pixels; // [height, width, channels]; image_release
};

enum {
    IMAGE_MAX_SIDE = 20000,             // pixels
    IMAGE_MAX_AREA = 100 * 1000 * 1000, // pixels
    IMAGE_MAX_FILE = 256 * 1024 * 1024, // bytes
};

// True if the first bytes are those of a picture, even of an unsupported format.
bool image_begins(const void *bytes, size_t size);
// `name` is used in messages: the path, or "standard input".
int image_decode(struct image *image, const void *bytes, size_t size, const char *name,
                 struct err *err);
// Like image_decode, for the many small pictures of a data set: hundreds of them share a decoder
// process, because forking takes longer than decoding. Only one thread at a time may use a decoder.
struct image_decoder;
struct image_decoder *image_decoder_new(void);
int image_decoder_run(struct image_decoder *d, struct image *image, const void *bytes, size_t size,
                      const char *name, struct err *err);
void image_decoder_free(struct image_decoder *d); // does nothing for NULL
// Decodes in the calling process. For the child process, tests, fuzzing, and files that this
// program made.
int image_decode_here(struct image *image, const void *bytes, size_t size, const char *name,
                      struct err *err);
// Reads from the header the width and height that the decoded picture will have.
int image_size(const void *bytes, size_t size, const char *name, int64_t *width, int64_t *height,
               struct err *err);
// Returns the number of frames of an animation; 1 for still pictures and other files.
int64_t image_frames(const void *bytes, size_t size);
// Returns the file name extension of the picture's format: ".png"; "" for unsupported formats.
const char *image_ending(const void *bytes, size_t size);
void image_release(struct image *image);
// Composites alpha over a background colour (0..255 each): t = s a + bg (255-a) + 128, (t + (t>>8))
// >> 8, like Pillow. Does nothing with 3 channels.
void image_flatten(struct image *image, const uint8_t background[3]);

#endif
