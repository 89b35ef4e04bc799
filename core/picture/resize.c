// core/picture/resize.c -- Pillow's resize on 8-bit pixels, bit for bit.
// Output pixel i has its centre at (i + 1/2) s of the input, s = in/out. It is a weighted mean of
// the inputs within support * max(s, 1) of its centre, with weights filter((j + 1/2 - centre) /
// max(s, 1)), scaled to sum 1 in double, rounded to integers of 22 fractional bits. There is a pass
// along each axis, rounded and clamped to 8 bits: from [H, W] -> middle -> to [h, w]. The first
// pass computes only the rows (or columns) that the second one reads.
#include "core/picture/resize.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FRACTION = 22, HALF = 1 << (FRACTION - 1) };

// --- filters -----------------------------------------------------------------------------------

static double box(double x)
{
    return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}

static double triangle(double x)
{
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

static double hamming(double x)
{
    x = fabs(x);
    if (x == 0.0) return 1.0;
    if (x >= 1.0) return 0.0;
    x *= M_PI;
    return sin(x) / x * (0.54f + 0.46f * cos(x)); // float constants, as in Pillow
}

// Keys 1981 with a = -1/2.
static double bicubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
    return 0.0;
}

static double sinc(double x)
{
    if (x == 0.0) return 1.0;
    x *= M_PI;
    return sin(x) / x;
}

static double lanczos(double x)
{
    return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
}

static const struct filter {
    double (*weight)(double x);
    double support;
} filters[] = {
    [RESAMPLE_LANCZOS] = { lanczos, 3.0 }, [RESAMPLE_BILINEAR] = { triangle, 1.0 },
    [RESAMPLE_BICUBIC] = { bicubic, 2.0 }, [RESAMPLE_BOX] = { box, 0.5 },
    [RESAMPLE_HAMMING] = { hamming, 1.0 },
};

// --- weights -----------------------------------------------------------------------------------

// The weights of output i: value[i * most + k] weighs input first[i] + k, k < count[i].
struct weights {
    int64_t most, *first, *count;
    int32_t *value;
    int64_t begin, end; // range of the inputs that are read
};

static void weights_release(struct weights *w)
{
    free(w->first);
    free(w->count);
    free(w->value);
    *w = (struct weights){ 0 };
}

// Computes the weights of outputs from, from+1, ..., from+count-1 of `out`.
static int weights_make(struct weights *w, int64_t in, int64_t out, int64_t from, int64_t count,
                        enum resample resample)
{
    const struct filter *f = &filters[resample];
    const double step = (double)in / (double)out, scale = step < 1.0 ? 1.0 : step;
    const double reach = f->support * scale, inverse = 1.0 / scale;
    w->most = (int64_t)ceil(reach) * 2 + 1;
    w->first = calloc((size_t)count, sizeof *w->first);
    w->count = calloc((size_t)count, sizeof *w->count);
    w->value = calloc((size_t)(count * w->most), sizeof *w->value);
    double *line = calloc((size_t)w->most, sizeof *line);
    const bool ok = w->first && w->count && w->value && line;
    w->begin = in, w->end = 0;
    for (int64_t i = 0; ok && i < count; i++) {
        const double centre = ((double)(from + i) + 0.5) * step;
        double sum = 0.0;
        int64_t first = (int64_t)(centre - reach + 0.5), end = (int64_t)(centre + reach + 0.5);
        if (first < 0) first = 0;
        if (end > in) end = in;
        const int64_t n = end > first ? end - first : 0;
        for (int64_t k = 0; k < n; k++) {
            line[k] = f->weight(((double)(k + first) - centre + 0.5) * inverse);
            sum += line[k];
        }
        for (int64_t k = 0; k < n; k++) {
            if (sum != 0.0) line[k] /= sum;
            const double fixed = line[k] * (1 << FRACTION);
            w->value[i * w->most + k] = (int32_t)(fixed + (fixed < 0 ? -0.5 : 0.5));
        }
        w->first[i] = first;
        w->count[i] = n;
        if (first < w->begin) w->begin = first;
        if (first + n > w->end) w->end = first + n;
    }
    free(line);
    return ok ? 0 : -1;
}

// --- passes ------------------------------------------------------------------------------------

static uint8_t narrow(int32_t sum)
{
    int32_t x = sum >> FRACTION;
    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

// Computes one output row along x. `from` begins at column `base` of the input. Inlined for each
// number of channels.
static inline __attribute__((always_inline)) void row_across(uint8_t *to, const uint8_t *from,
                                                             int64_t base, int64_t width,
                                                             const struct weights *w, int channels)
{
    for (int64_t x = 0; x < width; x++, to += channels) {
        const int32_t *value = w->value + x * w->most;
        const uint8_t *p = from + channels * (w->first[x] - base);
        int32_t sum[4] = { HALF, HALF, HALF, HALF };
        for (int64_t k = 0; k < w->count[x]; k++, p += channels) {
#pragma GCC unroll 4
            for (int c = 0; c < channels; c++) sum[c] += value[k] * p[c];
        }
#pragma GCC unroll 4
        for (int c = 0; c < channels; c++) to[c] = narrow(sum[c]);
    }
}

// Resizes along x. `from` [rows, stride bytes] begins at column `base` of the input; `to`: [rows,
// width].
static void pass_across(uint8_t *to, const uint8_t *from, int64_t base, int64_t stride,
                        int64_t rows, int64_t width, int channels, const struct weights *w)
{
#pragma omp parallel for schedule(static) if (rows * width > 1 << 14)
    for (int64_t y = 0; y < rows; y++) {
        if (channels == 3)
            row_across(to + y * width * 3, from + y * stride, base, width, w, 3);
        else
            row_across(to + y * width * 4, from + y * stride, base, width, w, 4);
    }
}

// Computes one output row along y. All columns have the same weights, so the loop adds whole pieces
// of rows.
static void row_down(uint8_t *to, const uint8_t *from, int64_t stride, int64_t bytes,
                     const int32_t *value, int64_t count)
{
    enum { PIECE = 1024 };
    int32_t sum[PIECE];
    for (int64_t at = 0; at < bytes; at += PIECE) {
        int n = (int)(bytes - at < PIECE ? bytes - at : PIECE);
        for (int i = 0; i < n; i++) sum[i] = HALF;
        for (int64_t k = 0; k < count; k++) {
            const uint8_t *p = from + k * stride + at;
            int32_t v = value[k];
#pragma omp simd
            for (int i = 0; i < n; i++) sum[i] += v * p[i];
        }
        for (int i = 0; i < n; i++) to[at + i] = narrow(sum[i]);
    }
}

// Resizes along y. `from` [*, stride] begins at row `base` of the input; `to`: [rows, bytes].
static void pass_down(uint8_t *to, const uint8_t *from, int64_t base, int64_t stride, int64_t bytes,
                      int64_t rows, const struct weights *w)
{
#pragma omp parallel for schedule(static) if (rows * bytes > 1 << 14)
    for (int64_t y = 0; y < rows; y++)
        row_down(to + y * bytes, from + (w->first[y] - base) * stride, stride, bytes,
                 w->value + y * w->most, w->count[y]);
}

// --- whole pictures ----------------------------------------------------------------------------

// The requested rectangle of the full result.
struct part {
    int64_t full_width, full_height, left, top, width, height;
};

// An axis without weights (NULL values) keeps its size and needs no pass.
static int passes_run(struct image *to, const struct image *from, const struct part *p,
                      const struct weights *across, const struct weights *down, bool down_first)
{
    int64_t depth = from->channels, stride = from->width * depth;
    if (!across->value || !down->value) {
        if (across->value)
            pass_across(to->pixels, from->pixels + p->top * stride, 0, stride, p->height, p->width,
                        from->channels, across);
        else
            pass_down(to->pixels, from->pixels + p->left * depth, 0, stride, p->width * depth,
                      p->height, down);
        return 0;
    }
    int64_t rows = down_first ? p->height : down->end - down->begin;
    int64_t columns = down_first ? across->end - across->begin : p->width;
    uint8_t *middle = malloc((size_t)(rows * columns * depth));
    if (!middle) return -1;
    if (down_first) {
        pass_down(middle, from->pixels + across->begin * depth, 0, stride, columns * depth, rows,
                  down);
        pass_across(to->pixels, middle, across->begin, columns * depth, rows, p->width,
                    from->channels, across);
    } else {
        pass_across(middle, from->pixels + down->begin * stride, 0, stride, rows, columns,
                    from->channels, across);
        pass_down(to->pixels, middle, down->begin, columns * depth, columns * depth, p->height,
                  down);
    }
    free(middle);
    return 0;
}

static int resize_filtered(struct image *to, const struct image *from, const struct part *p,
                           enum resample resample, enum resize_order order)
{
    struct weights across = { 0 }, down = { 0 };
    int64_t shrink_x = from->width - p->full_width, shrink_y = from->height - p->full_height;
    bool down_first = order == RESIZE_PILLOW13 && shrink_y > 0 && shrink_y > 2 * shrink_x;
    int rc = 0;
    if (shrink_x != 0)
        rc = weights_make(&across, from->width, p->full_width, p->left, p->width, resample);
    if (rc == 0 && shrink_y != 0)
        rc = weights_make(&down, from->height, p->full_height, p->top, p->height, resample);
    if (rc == 0) rc = passes_run(to, from, p, &across, &down, down_first);
    weights_release(&across);
    weights_release(&down);
    return rc;
}

// Returns the input index of each output column or row; -1: outside. Accumulates the position step
// by step, as Pillow does, because the rounding of that sum affects the result.
static int64_t *nearest_inputs(int64_t in, int64_t out, int64_t from, int64_t count)
{
    int64_t *input = calloc((size_t)count, sizeof *input);
    double step = (double)in / (double)out, at = step * 0.5;
    // NOLINTNEXTLINE(cert-flp30-c): see above
    for (int64_t i = 0; input && i < from + count; i++, at += step)
        if (i >= from) input[i - from] = (int64_t)at < in ? (int64_t)at : -1;
    return input;
}

static int resize_nearest(struct image *to, const struct image *from, const struct part *p)
{
    int64_t *x_of = nearest_inputs(from->width, p->full_width, p->left, p->width);
    int64_t *y_of = nearest_inputs(from->height, p->full_height, p->top, p->height);
    size_t depth = (size_t)from->channels;
    uint8_t *out = to->pixels;
    for (int64_t y = 0; x_of && y_of && y < p->height; y++)
        for (int64_t x = 0; x < p->width; x++, out += depth) {
            if (x_of[x] < 0 || y_of[y] < 0)
                memset(out, 0, depth);
            else
                memcpy(out, from->pixels + (size_t)(y_of[y] * from->width + x_of[x]) * depth,
                       depth);
        }
    int rc = x_of && y_of ? 0 : -1;
    free(x_of);
    free(y_of);
    return rc;
}

static int image_new(struct image *to, int64_t width, int64_t height, int channels, struct err *err)
{
    *to = (struct image){ .width = width, .height = height, .channels = channels };
    if (width < 1 || height < 1 || width > IMAGE_MAX_SIDE || height > IMAGE_MAX_SIDE ||
        width * height > IMAGE_MAX_AREA)
        return err_set(err,
                       "a picture of %lld x %lld pixels exceeds the limits: 1..%d per side and %d "
                       "million in all",
                       (long long)width, (long long)height, IMAGE_MAX_SIDE,
                       IMAGE_MAX_AREA / 1000000);
    to->pixels = malloc((size_t)(width * height * channels));
    if (!to->pixels)
        return err_set(err, "out of memory for a picture of %lld x %lld", (long long)width,
                       (long long)height);
    return 0;
}

int image_resize_part(struct image *to, const struct image *from, int64_t full_width,
                      int64_t full_height, int64_t left, int64_t top, int64_t width, int64_t height,
                      enum resample resample, enum resize_order order, struct err *err)
{
    struct part p = { full_width, full_height, left, top, width, height };
    *to = (struct image){ 0 };
    if (full_width < 1 || full_height < 1 || full_width > INT32_MAX || full_height > INT32_MAX)
        return err_set(err, "a picture cannot be resized to %lld x %lld", (long long)full_width,
                       (long long)full_height);
    if (left < 0 || top < 0 || width > full_width - left || height > full_height - top)
        return err_set(err, "the requested part of a resized picture lies outside it");
    if ((unsigned)resample > RESAMPLE_HAMMING)
        return err_set(err, "no resampling filter %d", (int)resample);
    if (image_new(to, width, height, from->channels, err) < 0) return -1;
    int rc = 0;
    if (from->width == full_width && from->height == full_height)
        for (int64_t y = 0; y < height; y++)
            memcpy(to->pixels + y * width * from->channels,
                   from->pixels + ((top + y) * from->width + left) * from->channels,
                   (size_t)(width * from->channels));
    else if (resample == RESAMPLE_NEAREST)
        rc = resize_nearest(to, from, &p);
    else
        rc = resize_filtered(to, from, &p, resample, order);
    if (rc == 0) return 0;
    image_release(to);
    return err_set(err, "out of memory while resizing a picture");
}

int image_resize(struct image *to, const struct image *from, int64_t width, int64_t height,
                 enum resample resample, enum resize_order order, struct err *err)
{
    return image_resize_part(to, from, width, height, 0, 0, width, height, resample, order, err);
}

int image_crop(struct image *to, const struct image *from, int64_t left, int64_t top, int64_t width,
               int64_t height, const uint8_t fill[3], struct err *err)
{
    if (image_new(to, width, height, from->channels, err) < 0) return -1;
    int depth = from->channels;
    uint8_t *out = to->pixels;
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++, out += depth) {
            int64_t fy = top + y, fx = left + x;
            bool inside = fy >= 0 && fy < from->height && fx >= 0 && fx < from->width;
            const uint8_t *p = inside ? from->pixels + (fy * from->width + fx) * depth : fill;
            for (int c = 0; c < depth; c++) out[c] = !inside && c == 3 ? 255 : p[c];
        }
    return 0;
}

int image_flat_copy(struct image *to, const struct image *from, const uint8_t background[3],
                    struct err *err)
{
    if (image_new(to, from->width, from->height, from->channels, err) < 0) return -1;
    memcpy(to->pixels, from->pixels, (size_t)(from->width * from->height) * (size_t)from->channels);
    image_flatten(to, background);
    return 0;
}
