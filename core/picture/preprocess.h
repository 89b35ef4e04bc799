// core/picture/preprocess.h -- turns an RGB picture into the vision encoder's input, as the
// reference implementation does.
//
// struct picture_config holds preprocessor_config.json; the family fills it.
#ifndef CORE_PICTURE_PREPROCESS_H
#define CORE_PICTURE_PREPROCESS_H

#include <stdbool.h>

#include "core/base/json.h"
#include "core/picture/resize.h"

enum picture_fit {
    FIT_EXACT,         // resize to width x height, aspect ratio not kept (SigLIP)
    FIT_SHORTEST_CROP, // shortest edge to `shortest`, then centre crop (CLIP)
    FIT_NATIVE,        // to about its own size: sides multiples of `multiple`, area within limits
    FIT_PATCHES, // at most `most_patches`, never enlarged; padded with black at right and bottom to
                 // multiples of `multiple`
    FIT_BUDGET,  // enlarged or reduced to at most `budget` squares of `multiple` pixels; sides are
                 // multiples of `multiple`
    FIT_WITHIN,  // at most `longest` pixels a side, never enlarged; then each side is resized up to
                 // a multiple of `multiple` (Pixtral)
    FIT_SLICES,  // an overview and slices of about scale x scale pixels each (MiniCPM-V)
};

struct picture_config {
    enum picture_fit fit;
    bool resize, crop, rescale, normalize; // the do_* switches
    bool flatten;                          // do_convert_rgb: alpha over the background
    int64_t shortest;                      // FIT_SHORTEST_CROP
    // FIT_NATIVE: limits of the area times `frames`, in pixels; `enlarge`: first scales up a
    // picture with a side below the multiple.
    int64_t multiple, min_pixels, max_pixels, frames;
    bool enlarge;
    // FIT_PATCHES: `patch` is the side of a patch in pixels. A picture with more than most_patches,
    // or more than most_side along a side, is shrunk; if limit_side or more then remain along a
    // side, it is refused.
    int64_t patch, most_patches, most_side, limit_side;
    // FIT_BUDGET: a picture with limit_side or more patches along a side is refused.
    int64_t budget;
    // FIT_SLICES: side of a square with the area of a part; max_tiles: the largest number of
    // slices, 0: none; mode: patches per visual token, 4 or 16; numbered: prompts number pictures.
    int64_t scale, mode;
    bool numbered;
    bool channels_last; // the axes of a patch are (y, x, channel)
    int64_t width,
        height; // of the result: of the crop if there is one, else of FIT_EXACT's resize
    // FIT_EXACT and a crop (CLIP with size as {height,width}): size of the resize before the crop.
    // Tiles by size: see `longest`. 0 otherwise.
    int64_t exact_width, exact_height;
    bool square; // LLaVA's do_pad: first padded to a square with `border`, the picture in the
                 // middle
    uint8_t border[3];
    enum resample resample;
    double rescale_factor;
    float mean[3], std[3];
    uint8_t background[3];
    // The picture is cut into min_tiles to max_tiles squares of width x height
    // (core/picture/tile_grid.h); `thumbnail` adds the whole picture as one more. max_tiles 0: not
    // cut.
    int64_t min_tiles, max_tiles;
    bool thumbnail;
    // FIT_WITHIN; and tiles by size (core/picture/tile_grid.h): the longest edge after the first
    // resize; 0: the first resize is to exact_width x exact_height, or omitted.
    int64_t longest;
};

extern const float picture_clip_mean[3], picture_clip_std[3]; // OpenAI's, used by many models
extern const float picture_imagenet_mean[3], picture_imagenet_std[3];
extern const float picture_half[3]; // SigLIP's mean and standard deviation

struct settings;

// Reads image.resize_order.
enum resize_order preprocess_order(const struct settings *s);

// The settings' limits on a picture's visual tokens; zeroed: none.
struct picture_limit {
    int64_t most;   // image.max_tokens; 0: no limit
    double share;   // image.downsample: share of the tokens kept; 0 or 1: all
    int64_t budget; // image.token_budget (FIT_BUDGET); 0: the model's own
    int64_t mode;   // image.downsample_mode (FIT_SLICES); 0: the model's own
};

struct picture_limit preprocess_limit(const struct settings *s);

// Reads the keys of CLIP's and SigLIP's preprocessor_config.json (size as a number, {height,width}
// or {shortest_edge}; crop_size as a number or object). `otherwise` gives the class defaults.
int picture_config_read(struct picture_config *c, const cJSON *json,
                        const struct picture_config *otherwise, struct err *err);

// The keys that picture_config_read_shared and picture_config_read read.
#define PICTURE_SHARED_KEYS                                                                 \
    "do_resize", "do_rescale", "do_normalize", "do_convert_rgb", "image_mean", "image_std", \
        "resample", "rescale_factor"
#define PICTURE_KEYS PICTURE_SHARED_KEYS, "size", "crop_size", "do_center_crop"

// Sets the border to the colour of the mean.
void picture_border_of_mean(struct picture_config *c);
// Reads the keys that all processors share (PICTURE_SHARED_KEYS).
int picture_config_read_shared(struct picture_config *c, const cJSON *json, struct err *err);

// Returns by what the pixels of two configs differ, mostly keys of preprocessor_config.json,
// separated by commas; the caller frees it. NULL: by nothing.
char *picture_config_differ(const struct picture_config *a, const struct picture_config *b);

// Returns a copy of c (FIT_NATIVE, FIT_PATCHES, FIT_BUDGET or FIT_WITHIN) with its limit lowered
// until a picture of width x height has at most `most` squares of `multiple` pixels a side, or as
// few as c allows; most 0: an unchanged copy.
struct picture_config preprocess_limited(const struct picture_config *c, int64_t width,
                                         int64_t height, int64_t most);

// Computes the size to which a picture of width x height is resized, before any crop; with
// FIT_SLICES, whose parts have sizes of their own, its own size.
int preprocess_size(const struct picture_config *c, int64_t width, int64_t height,
                    int64_t *to_width, int64_t *to_height, struct err *err);
// Like preprocess_size, but includes the border that FIT_PATCHES adds.
int preprocess_padded(const struct picture_config *c, int64_t width, int64_t height,
                      int64_t *to_width, int64_t *to_height, struct err *err);
// Removes transparency: *from stays as it is if the picture is opaque; otherwise it points to a
// flattened copy in *own. Returns -1 if c does not convert to RGB.
int preprocess_flatten(struct image *own, const struct image **from, const struct picture_config *c,
                       struct err *err);
// Computes 8-bit pixels [height, width, 3] by flattening, padding, resizing and cropping.
int preprocess_bytes(struct image *to, const struct image *from, const struct picture_config *c,
                     enum resize_order order, struct err *err);
// pixels[3, height, width] = ((float)(u8 * rescale_factor in double) - mean) / std in float.
void preprocess_floats(float *pixels, const struct image *from, const struct picture_config *c);
// Writes the same values as rows [patches, 3 * times * patch * patch] for video encoders. A row's
// axes are (channel, time, y, x), or (time, y, x, channel) with c->channels_last, and every time
// step has the same picture. Patches are ordered by blocks of merge x merge.
void preprocess_patches(float *rows, const struct image *from, const struct picture_config *c,
                        int64_t patch, int64_t merge, int64_t times);

#endif
