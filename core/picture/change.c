// core/picture/change.c -- shift, crop, brightness, contrast, noise, blur and JPEG compression.
#include "core/picture/change.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/random.h"
#include "core/picture/image_parts.h"
#include "core/picture/resize.h"

// Changes an image [height, width, 3], whose pixels it may replace; `by`: the row's two parameters.
typedef int (*change_fn)(struct image *image, const double *by, struct err *err);

static int clamp(int64_t x, int64_t end)
{
    return (int)(x < 0 ? 0 : x >= end ? end - 1 : x);
}

static uint8_t level(double x)
{
    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : lround(x));
}

// Moves the picture by shares of its width and height; its edge fills the gap.
static int shift(struct image *image, const double *by, struct err *err)
{
    const int64_t w = image->width, h = image->height;
    const int64_t right = lround(by[0] * (double)w), down = lround(by[1] * (double)h);
    uint8_t *pixels = xreallocarray(NULL, (size_t)(w * h), 3);
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++)
            memcpy(pixels + 3 * (y * w + x),
                   image->pixels + 3 * (clamp(y - down, h) * w + clamp(x - right, w)), 3);
    free(image->pixels);
    image->pixels = pixels;
    return 0;
}

// Cuts off a share of each side and enlarges the rest to the original size.
static int crop(struct image *image, const double *by, struct err *err)
{
    const uint8_t fill[3] = { 0 };
    const int64_t w = image->width, h = image->height;
    const int64_t left = (int64_t)(by[0] * (double)w), top = (int64_t)(by[0] * (double)h);
    struct image part = { 0 }, whole = { 0 };
    int status = image_crop(&part, image, left, top, w - 2 * left, h - 2 * top, fill, err);
    if (status == 0)
        status = image_resize(&whole, &part, w, h, RESAMPLE_BICUBIC, RESIZE_PILLOW13, err);
    image_release(&part);
    if (status < 0) return -1;
    image_release(image);
    *image = whole;
    return 0;
}

// Multiplies all levels by a factor.
static int brightness(struct image *image, const double *by, struct err *err)
{
    for (int64_t i = 0; i < 3 * image->width * image->height; i++)
        image->pixels[i] = level(by[0] * image->pixels[i]);
    return 0;
}

// Multiplies the difference of each level from the mean by a factor.
static int contrast(struct image *image, const double *by, struct err *err)
{
    const int64_t n = 3 * image->width * image->height;
    double mean = 0;
    for (int64_t i = 0; i < n; i++) mean += image->pixels[i];
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++)
        image->pixels[i] = level(mean + by[0] * (image->pixels[i] - mean));
    return 0;
}

// Adds noise with a standard deviation of this many levels: each draw is a sum of twelve uniform
// ones.
static int noise(struct image *image, const double *by, struct err *err)
{
    enum { DRAWS = 12 };
    for (int64_t i = 0; i < 3 * image->width * image->height; i++) {
        double sum = -DRAWS / 2.0;
        for (int k = 0; k < DRAWS; k++)
            sum += random_unit(0, RANDOM_NOISE, (uint64_t)(i * DRAWS + k));
        image->pixels[i] = level(image->pixels[i] + by[0] * sum);
    }
    return 0;
}

// Replaces each pixel with the mean of its 3 x 3 neighbourhood.
static int blur(struct image *image, const double *by, struct err *err)
{
    const int64_t w = image->width, h = image->height;
    uint8_t *pixels = xreallocarray(NULL, (size_t)(w * h), 3);
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++)
            for (int c = 0; c < 3; c++) {
                int sum = 0;
                for (int k = 0; k < 9; k++)
                    sum +=
                        image->pixels[3 * (clamp(y + k / 3 - 1, h) * w + clamp(x + k % 3 - 1, w)) +
                                      c];
                pixels[3 * (y * w + x) + c] = (uint8_t)((sum + 4) / 9);
            }
    free(image->pixels);
    image->pixels = pixels;
    return 0;
}

// Writes a JPEG file of this quality to memory and reads it back.
static int jpeg(struct image *image, const double *by, struct err *err)
{
    struct image read = { 0 };
    struct buf file = { 0 };
    int status = image_encode_jpeg(&file, image, (int)by[0], err);
    if (status == 0)
        status = image_decode_here(&read, file.data, file.length, "a JPEG in memory", err);
    buf_release(&file);
    if (status < 0) return -1;
    image_release(image);
    *image = read;
    return 0;
}

// clang-format off
#define CHANGES(X)                                                                                 \
    X("shift right 3%", shift, 0.03, 0)   X("shift down 3%", shift, 0, 0.03)                       \
    X("crop 5%", crop, 0.05)                                                                       \
    X("brightness 80%", brightness, 0.8)  X("brightness 120%", brightness, 1.2)                    \
    X("contrast 80%", contrast, 0.8)      X("contrast 120%", contrast, 1.2)                        \
    X("noise 3%", noise, 8)               X("blur 3x3", blur, 0)                                   \
    X("JPEG quality 50", jpeg, 50)        X("JPEG quality 20", jpeg, 20)
// clang-format on

#define X(name, run, ...) { run, { __VA_ARGS__ } },
static const struct {
    change_fn run;
    double by[2];
} changes[] = { CHANGES(X) };
#undef X
#define X(name, ...) name,
const char *const image_changes[] = { CHANGES(X) };
#undef X
const int image_change_count = sizeof changes / sizeof *changes;

int image_change(struct image *to, const struct image *from, int change, struct err *err)
{
    static const uint8_t white[3] = { 255, 255, 255 };
    *to = (struct image){ 0 };
    if (image_flat_copy(to, from, white, err) < 0) return -1;
    if (changes[change].run(to, changes[change].by, err) == 0) return 0;
    image_release(to);
    return -1;
}
