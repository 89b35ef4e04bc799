// core/picture/preprocess.c -- preprocesses pictures as CLIPImageProcessor and SiglipImageProcessor
// do; other processors (Qwen2-VL, Kimi-VL, Gemma 4, Pixtral) differ in the size.
//
//   RGB(A) -> flatten -> [square] -> resize -> centre crop -> [h, w, 3] bytes -> floats [3, h, w]
// Resize and crop are one step, which computes only the pixels that the crop keeps: a picture of 1
// x 20000 pixels, which a full resize would enlarge to billions, costs no more than any other.
#include "core/picture/preprocess.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/settings/settings.h"

enum resize_order preprocess_order(const struct settings *s)
{
    return settings_is(s, "image.resize_order", "pillow12") ? RESIZE_PILLOW12 : RESIZE_PILLOW13;
}

struct picture_limit preprocess_limit(const struct settings *s)
{
    return (struct picture_limit){
        .most = settings_integer(s, "image.max_tokens"),
        .share = settings_real(s, "image.downsample"),
        .budget = strtoll(settings_text(s, "image.token_budget"), NULL, 10),
        .mode = strtoll(settings_text(s, "image.downsample_mode"), NULL, 10)
    };
}

const float picture_clip_mean[3] = { 0.48145466f, 0.4578275f, 0.40821073f };
const float picture_clip_std[3] = { 0.26862954f, 0.26130258f, 0.27577711f };
const float picture_imagenet_mean[3] = { 0.485f, 0.456f, 0.406f };
const float picture_imagenet_std[3] = { 0.229f, 0.224f, 0.225f };
const float picture_half[3] = { 0.5f, 0.5f, 0.5f };

enum { PICTURE_MAX_SIDE = 8192 }; // of the vision encoder's input

// --- configuration -----------------------------------------------------------------------------

// Reads a side from the object; *value is -1 if it is absent.
static int side_read(const cJSON *object, const char *key, int64_t *value, struct err *err)
{
    return json_int(object, key, 1, PICTURE_MAX_SIDE, -1, value, err);
}

// "size": n, {"shortest_edge": n} or {"height": n, "width": n}. A plain number is the shortest edge
// for CLIP and both sides for SigLIP.
static int size_read(struct picture_config *c, const cJSON *json, struct err *err)
{
    const cJSON *size = json_get(json, "size");
    int64_t side, width, height;
    if (!size) return 0;
    if (cJSON_IsNumber(size)) {
        if (side_read(json, "size", &side, err) < 0) return -1;
        c->shortest = c->exact_width = c->exact_height = side;
        return 0;
    }
    if (!cJSON_IsObject(size))
        return err_set(err, "\"size\" must be a number or an object with shortest_edge, or with "
                            "height and width");
    if (side_read(size, "shortest_edge", &side, err) < 0 ||
        side_read(size, "width", &width, err) < 0 || side_read(size, "height", &height, err) < 0)
        return err_in(err, "\"size\"");
    if (json_get(size, "longest_edge") || json_get(size, "max_height"))
        return err_set(err, "\"size\": longest_edge and max_height are not supported by CLIP and "
                            "SigLIP processors");
    if (side > 0) {
        c->fit = FIT_SHORTEST_CROP;
        c->shortest = side;
    } else if (width > 0 && height > 0) {
        c->fit = FIT_EXACT;
        c->exact_width = width;
        c->exact_height = height;
    } else {
        return err_set(err, "\"size\" must have shortest_edge, or height and width");
    }
    return 0;
}

static int crop_read(struct picture_config *c, const cJSON *json, struct err *err)
{
    const cJSON *size = json_get(json, "crop_size");
    if (!size) return 0;
    if (cJSON_IsNumber(size)) {
        if (side_read(json, "crop_size", &c->width, err) < 0) return -1;
        c->height = c->width;
        return 0;
    }
    if (!cJSON_IsObject(size) || side_read(size, "width", &c->width, err) < 0 ||
        side_read(size, "height", &c->height, err) < 0)
        return err_set(err, "\"crop_size\" must be a number, or height and width, from 1 to %d",
                       PICTURE_MAX_SIDE);
    if (c->width < 0 || c->height < 0)
        return err_set(err, "\"crop_size\" must have height and width");
    return 0;
}

// Reads three numbers, or one for all channels.
static int channels_read(float value[3], const cJSON *json, const char *key, bool positive,
                         struct err *err)
{
    const cJSON *list = json_get(json, key);
    if (!list) return 0;
    if (!cJSON_IsNumber(list) && (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != 3))
        return err_set(err, "\"%s\" must be a list of three numbers", key);
    for (int i = 0; i < 3; i++) {
        const cJSON *item = cJSON_IsNumber(list) ? list : cJSON_GetArrayItem(list, i);
        value[i] = cJSON_IsNumber(item) ? (float)item->valuedouble : NAN;
        if (!isfinite(value[i]) || (positive && !(value[i] > 0)))
            return err_set(err, "\"%s\" must be a list of three %snumbers", key,
                           positive ? "positive " : "");
    }
    return 0;
}

void picture_border_of_mean(struct picture_config *c)
{
    for (int i = 0; i < 3; i++) {
        const float level = truncf(c->mean[i] * 255);
        c->border[i] = (uint8_t)(level < 0 ? 0 : level > 255 ? 255 : level);
    }
}

int picture_config_read_shared(struct picture_config *c, const cJSON *json, struct err *err)
{
    int64_t resample;
    if (json && !cJSON_IsObject(json)) return err_set(err, "the file is not a JSON object");
    if (json_bool(json, "do_convert_rgb", c->flatten, &c->flatten, err) < 0 ||
        json_bool(json, "do_resize", c->resize, &c->resize, err) < 0 ||
        json_bool(json, "do_rescale", c->rescale, &c->rescale, err) < 0 ||
        json_bool(json, "do_normalize", c->normalize, &c->normalize, err) < 0)
        return -1;
    // Here null means off, not the default.
    const cJSON *convert = json ? cJSON_GetObjectItemCaseSensitive(json, "do_convert_rgb") : NULL;
    if (convert && cJSON_IsNull(convert)) c->flatten = false;
    if (channels_read(c->mean, json, "image_mean", false, err) < 0 ||
        channels_read(c->std, json, "image_std", true, err) < 0 ||
        json_int(json, "resample", RESAMPLE_NEAREST, RESAMPLE_HAMMING, c->resample, &resample,
                 err) < 0 ||
        json_real(json, "rescale_factor", c->rescale_factor, &c->rescale_factor, err) < 0)
        return -1;
    if (!(c->rescale_factor > 0)) return err_set(err, "\"rescale_factor\" must be positive");
    c->resample = (enum resample)resample;
    return 0;
}

int picture_config_read(struct picture_config *c, const cJSON *json,
                        const struct picture_config *otherwise, struct err *err)
{
    const char *type;
    *c = *otherwise;
    if (c->fit == FIT_EXACT && !c->exact_width) {
        c->exact_width = c->width;
        c->exact_height = c->height;
    }
    if (picture_config_read_shared(c, json, err) < 0 || size_read(c, json, err) < 0 ||
        json_bool(json, "do_center_crop", c->crop, &c->crop, err) < 0 ||
        crop_read(c, json, err) < 0 || json_text(json, "image_processor_type", "", &type, err) < 0)
        return -1;
    if (!strncmp(type, "LlavaImageProcessor", 19)) { // no other processor pads
        if (json_bool(json, "do_pad", false, &c->square, err) < 0) return -1;
        picture_border_of_mean(c);
    }
    if (c->fit == FIT_EXACT && !c->crop && c->resize) {
        c->width = c->exact_width;
        c->height = c->exact_height;
    }
    if (c->fit == FIT_SHORTEST_CROP || !c->crop) c->exact_width = c->exact_height = 0;
    return 0;
}

static bool same_size(const struct picture_config *a, const struct picture_config *b)
{
    return a->fit == b->fit && a->shortest == b->shortest && a->exact_width == b->exact_width &&
           a->exact_height == b->exact_height && a->longest == b->longest && a->scale == b->scale;
}

static bool same_limits(const struct picture_config *a, const struct picture_config *b)
{
    return a->min_pixels == b->min_pixels && a->max_pixels == b->max_pixels &&
           a->most_patches == b->most_patches && a->budget == b->budget;
}

static bool same_tiles(const struct picture_config *a, const struct picture_config *b)
{
    return a->min_tiles == b->min_tiles && a->max_tiles == b->max_tiles &&
           a->thumbnail == b->thumbnail;
}

static bool same_channels(const struct picture_config *a, const struct picture_config *b)
{
    bool same = true;
    for (int i = 0; i < 3; i++) {
        same &= (a->normalize ? a->mean[i] : 0) == (b->normalize ? b->mean[i] : 0);
        same &= (a->normalize ? a->std[i] : 1) == (b->normalize ? b->std[i] : 1);
    }
    return same;
}

char *picture_config_differ(const struct picture_config *a, const struct picture_config *b)
{
    const double x = a->rescale ? a->rescale_factor : 1, y = b->rescale ? b->rescale_factor : 1;
    const struct {
        const char *key;
        bool same;
    } keys[] = {
        { "do_pad", a->square == b->square },
        { "do_resize", a->resize == b->resize },
        { "size", same_size(a, b) },
        { "resample", !a->resize || a->resample == b->resample },
        { "do_center_crop", a->crop == b->crop },
        { "size or crop_size", a->width == b->width && a->height == b->height },
        { "min_pixels and max_pixels", same_limits(a, b) },
        { "the numbers of tiles", same_tiles(a, b) },
        { "rescale_factor", fabs(x - y) <= 1e-7 * x },
        { "image_mean and image_std", same_channels(a, b) },
        { "do_convert_rgb", a->flatten == b->flatten },
    };
    struct buf text = { 0 };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!keys[i].same) buf_printf(&text, "%s%s", text.length ? ", " : "", keys[i].key);
    return text.length ? buf_take(&text) : NULL;
}

// --- pixels ------------------------------------------------------------------------------------

// floor(a / 2), even for negative a, like Python's a // 2.
static int64_t half_floor(int64_t a)
{
    return a >= 0 ? a / 2 : -((1 - a) / 2);
}

static int check_length(double width, double height, struct err *err)
{
    if (width <= IMAGE_MAX_SIDE && height <= IMAGE_MAX_SIDE) return 0;
    return err_set(err, "the picture would be resized to %.0f x %.0f pixels: too long", width,
                   height);
}

// Computes sides near the picture's own, as in smart_resize of Qwen2-VL's and GLM-4V's processors.
static int native_size(const struct picture_config *c, double width, double height,
                       int64_t *to_width, int64_t *to_height, struct err *err)
{
    const double f = (double)c->multiple, frames = (double)c->frames;
    if (c->enlarge && (width < f || height < f)) {
        const double scale = fmax(f / width, f / height);
        width = trunc(width * scale);
        height = trunc(height * scale);
    }
    if (fmax(width, height) > 200 * fmin(width, height))
        return err_set(
            err,
            "the model's processor refuses pictures more than 200 times as long as wide: crop it");
    double w = nearbyint(width / f) * f, h = nearbyint(height / f) * f; // half to even
    if (frames * w * h > (double)c->max_pixels) {
        const double by = sqrt(frames * width * height / (double)c->max_pixels);
        w = fmax(f, floor(width / by / f) * f);
        h = fmax(f, floor(height / by / f) * f);
    } else if (frames * w * h < (double)c->min_pixels) {
        const double by = sqrt((double)c->min_pixels / (frames * width * height));
        w = ceil(width * by / f) * f;
        h = ceil(height * by / f) * f;
    }
    if (check_length(w, h, err) < 0) return -1;
    *to_width = (int64_t)w;
    *to_height = (int64_t)h;
    return 0;
}

// Returns a side with the border that FIT_PATCHES adds.
static int64_t padded(const struct picture_config *c, int64_t side)
{
    return (side + c->multiple - 1) / c->multiple * c->multiple;
}

static int check_side(const struct picture_config *c, int64_t across, int64_t down, struct err *err)
{
    if (!c->limit_side || (across < c->limit_side && down < c->limit_side)) return 0;
    return err_set(err,
                   "the picture would have %lld x %lld patches, but the encoder reads fewer than "
                   "%lld on a side: make its long side shorter",
                   (long long)across, (long long)down, (long long)c->limit_side);
}

// Computes the size as Kimi-VL's and Kimi-K2.5's processors do (navit_resize_image). The border's
// patches count towards limit_side.
static int patches_size(const struct picture_config *c, int64_t width, int64_t height,
                        int64_t *to_width, int64_t *to_height, struct err *err)
{
    const int64_t p = c->patch, cols = width / p > 1 ? width / p : 1;
    const int64_t rows = height / p > 1 ? height / p : 1;
    const double area = (double)cols * (double)rows, side = (double)(c->most_side * p);
    double scale = fmin(1, sqrt((double)c->most_patches / area));
    if (c->most_side) scale = fmin(scale, fmin(side / (double)width, side / (double)height));
    const double w = fmax(1, trunc((double)width * scale));
    const double h = fmax(1, trunc((double)height * scale));
    *to_width = (int64_t)w;
    *to_height = (int64_t)h;
    const int64_t across = padded(c, *to_width) / p, down = padded(c, *to_height) / p;
    return check_side(c, across, down, err);
}

// Computes the size as Gemma 4's processor does (get_aspect_ratio_preserving_size).
static int budget_size(const struct picture_config *c, int64_t width, int64_t height,
                       int64_t *to_width, int64_t *to_height, struct err *err)
{
    const int64_t unit = c->multiple;
    const double area = (double)(c->budget * unit * unit);
    const double factor = sqrt(area / ((double)width * (double)height));
    int64_t cols = (int64_t)floor(factor * (double)width / (double)unit);
    int64_t rows = (int64_t)floor(factor * (double)height / (double)unit);
    if (!rows) {
        rows = 1;
        cols = width / height < c->budget ? width / height : c->budget;
    } else if (!cols) {
        cols = 1;
        rows = height / width < c->budget ? height / width : c->budget;
    }
    *to_width = cols * unit;
    *to_height = rows * unit;
    if (check_side(c, *to_width / c->patch, *to_height / c->patch, err) < 0) return -1;
    return check_length((double)*to_width, (double)*to_height, err);
}

// Computes the size as Pixtral's processor does. Its division, then rounding down, can make the
// longest side one pixel shorter than `longest`. A side that rounds down to 0, which transformers
// cannot read, gets one pixel.
static void within_size(const struct picture_config *c, int64_t width, int64_t height,
                        int64_t *to_width, int64_t *to_height)
{
    const double longest = (double)c->longest;
    const double ratio = fmax((double)height / longest, (double)width / longest);
    const double w = ratio > 1 ? floor((double)width / ratio) : (double)width;
    const double h = ratio > 1 ? floor((double)height / ratio) : (double)height;
    *to_width = padded(c, (int64_t)fmax(1, w));
    *to_height = padded(c, (int64_t)fmax(1, h));
}

int preprocess_padded(const struct picture_config *c, int64_t width, int64_t height,
                      int64_t *to_width, int64_t *to_height, struct err *err)
{
    if (preprocess_size(c, width, height, to_width, to_height, err) < 0) return -1;
    if (c->fit != FIT_PATCHES) return 0;
    *to_width = padded(c, *to_width);
    *to_height = padded(c, *to_height);
    return 0;
}

static bool costs_at_most(const struct picture_config *c, int64_t width, int64_t height,
                          int64_t most)
{
    int64_t w, h;
    return preprocess_padded(c, width, height, &w, &h, NULL) == 0 &&
           w / c->multiple * (h / c->multiple) <= most;
}

// Limits the area to `most` tokens; if rounding up the sides exceeds the limit, searches for the
// largest area within it. With FIT_WITHIN, searches for the largest longest edge.
struct picture_config preprocess_limited(const struct picture_config *c, int64_t width,
                                         int64_t height, int64_t most)
{
    struct picture_config limited = *c;
    int64_t *limit = &limited.most_patches, area;
    if (!most || costs_at_most(c, width, height, most)) return limited;
    if (c->fit == FIT_BUDGET) {
        if (limited.budget > most) limited.budget = most;
        return limited;
    }
    if (c->fit == FIT_WITHIN) {
        limit = &limited.longest;
        area = *limit;
    } else if (c->fit == FIT_NATIVE) {
        limit = &limited.max_pixels;
        area = most * c->multiple * c->multiple * c->frames;
    } else {
        const int64_t side = c->multiple / c->patch;
        area = most * side * side;
    }
    if (*limit > area) *limit = area;
    if (costs_at_most(&limited, width, height, most)) return limited;
    int64_t low = 1, high = *limit;
    while (high - low > 1) {
        *limit = low + (high - low) / 2;
        if (costs_at_most(&limited, width, height, most))
            low = *limit;
        else
            high = *limit;
    }
    *limit = low;
    return limited;
}

int preprocess_size(const struct picture_config *c, int64_t width, int64_t height,
                    int64_t *to_width, int64_t *to_height, struct err *err)
{
    *to_width = width;
    *to_height = height;
    if (c->fit == FIT_NATIVE)
        return native_size(c, (double)width, (double)height, to_width, to_height, err);
    if (c->fit == FIT_PATCHES) return patches_size(c, width, height, to_width, to_height, err);
    if (c->fit == FIT_BUDGET) return budget_size(c, width, height, to_width, to_height, err);
    if (c->fit == FIT_WITHIN) within_size(c, width, height, to_width, to_height);
    if (c->fit == FIT_WITHIN || c->fit == FIT_SLICES || !c->resize) return 0;
    if (c->fit == FIT_EXACT) {
        *to_width = c->exact_width ? c->exact_width : c->width;
        *to_height = c->exact_height ? c->exact_height : c->height;
        return 0;
    }
    bool upright = width <= height;
    int64_t shorter = upright ? width : height, longer = upright ? height : width;
    int64_t new_longer = c->shortest * longer / shorter;
    *to_width = upright ? c->shortest : new_longer;
    *to_height = upright ? new_longer : c->shortest;
    return 0;
}

// Clips the window [left, left + size) to 0..full, and sets *from and *count.
static void window(int64_t left, int64_t size, int64_t full, int64_t *from, int64_t *count)
{
    int64_t end = left + size < full ? left + size : full;
    *from = left > 0 ? left : 0;
    *count = end - *from;
}

int preprocess_flatten(struct image *own, const struct image **from, const struct picture_config *c,
                       struct err *err)
{
    if ((*from)->channels != 4) return 0;
    if (!c->flatten)
        return err_set(err, "the picture has transparency, but preprocessor_config.json does not "
                            "convert to RGB (do_convert_rgb): save it without transparency");
    if (image_flat_copy(own, *from, c->background, err) < 0) return -1;
    *from = own;
    return 0;
}

int preprocess_bytes(struct image *to, const struct image *from, const struct picture_config *c,
                     enum resize_order order, struct err *err)
{
    struct image own = { 0 }, part = { 0 };
    int64_t full_w, full_h, x, y, w, h;
    int rc = -1;
    *to = (struct image){ 0 };
    if (preprocess_flatten(&own, &from, c, err) < 0) return -1;

    // Pads to a square, with the picture in the middle.
    if (c->square && from->width != from->height) {
        const int64_t side = from->width > from->height ? from->width : from->height;
        const int64_t left = -((side - from->width) / 2), top = -((side - from->height) / 2);
        struct image square;
        if (image_crop(&square, from, left, top, side, side, c->border, err) < 0) goto out;
        image_release(&own);
        own = square;
        from = &own;
    }

    // Resizes to full_w x full_h, but computes only the pixels that the crop keeps.
    if (preprocess_size(c, from->width, from->height, &full_w, &full_h, err) < 0) goto out;
    int64_t crop_w = c->crop ? c->width : full_w, crop_h = c->crop ? c->height : full_h;
    int64_t left = half_floor(full_w - crop_w), top = half_floor(full_h - crop_h);
    if (c->fit == FIT_PATCHES) {
        if (preprocess_padded(c, from->width, from->height, &crop_w, &crop_h, err) < 0) goto out;
        left = top = 0;
    }
    window(left, crop_w, full_w, &x, &w);
    window(top, crop_h, full_h, &y, &h);
    if (image_resize_part(&part, from, full_w, full_h, x, y, w, h, c->resample, order, err) < 0)
        goto out;

    // Pads a picture smaller than the crop with black; an odd pixel goes before the picture.
    if (w == crop_w && h == crop_h) {
        *to = part;
        part = (struct image){ 0 };
        rc = 0;
    } else {
        rc = image_crop(to, &part, left - x, top - y, crop_w, crop_h, (uint8_t[3]){ 0 }, err);
    }
out:
    image_release(&part);
    image_release(&own);
    return rc;
}

// Computes the normalised value of each of the 256 levels of a channel.
static void level_values(float value[256], const struct picture_config *c, int channel)
{
    for (int level = 0; level < 256; level++) {
        value[level] = c->rescale ? (float)(level * c->rescale_factor) : (float)level;
        if (c->normalize) value[level] = (value[level] - c->mean[channel]) / c->std[channel];
    }
}

void preprocess_floats(float *pixels, const struct image *from, const struct picture_config *c)
{
    int64_t area = from->width * from->height;
    for (int channel = 0; channel < 3; channel++) {
        float value[256];
        level_values(value, c, channel);
        for (int64_t i = 0; i < area; i++)
            *pixels++ = value[from->pixels[i * from->channels + channel]];
    }
}

void preprocess_patches(float *rows, const struct image *from, const struct picture_config *c,
                        int64_t patch, int64_t merge, int64_t times)
{
    const int64_t size = patch * patch, cols = from->width / patch, side = merge * patch;
    const int64_t count = from->height / patch * cols, blocks = cols / merge, cell = merge * merge;
    const int64_t apart = c->channels_last ? 1 : times * size; // between the channels of a patch
    const int64_t step = c->channels_last ? 3 : 1;
    for (int channel = 0; channel < 3; channel++) {
        float value[256];
        level_values(value, c, channel);
        for (int64_t i = 0; i < count; i++) {
            const int64_t block = i / cell, in = i % cell;
            const int64_t x = block % blocks * side + in % merge * patch;
            const int64_t y = block / blocks * side + in / merge * patch;
            float *first = rows + i * 3 * times * size + channel * apart, *to = first;
            for (int64_t row = y; row < y + patch; row++) {
                const uint8_t *at =
                    from->pixels + (row * from->width + x) * from->channels + channel;
                for (int64_t k = 0; k < patch; k++, to += step) *to = value[at[k * from->channels]];
            }
            for (int64_t t = 1; t < times; t++)
                for (int64_t k = 0; k < size; k++) first[(t * size + k) * step] = first[k * step];
        }
    }
}
