// core/model/families/native.h -- shared by families whose encoder reads pictures of any size: one
// grid of patches per picture, merge x merge patches per visual token; for some families also
// multimodal rotary positions.
#ifndef CORE_MODEL_FAMILIES_NATIVE_H
#define CORE_MODEL_FAMILIES_NATIVE_H

#include "core/model/families/family.h"

// Reads preprocessor_config.json: area limits, mean and std. Call after reading m->vision.config.
// `defaults` holds the class defaults of min_pixels, max_pixels, frames and enlarge.
int native_read_pictures(struct model *m, const struct checkpoint *c,
                         const struct picture_config *defaults, struct err *err);
// The keys that native_read_pictures reads, NULL-terminated.
extern const char *const native_picture_keys[];

// Checks that the encoder's output is as wide as the decoder.
int native_check_width(const struct model *m, int64_t out, struct err *err);
extern const struct picture_kind native_pictures;
// Checks that a GGUF file can describe the encoder: its activation, and patches of two frames.
int native_check_mmproj(const struct model *m, enum gelu_form act, struct err *err);
// Writes the merge size and the limits on a picture's number of pixels.
void native_put_mmproj(const struct model *m, struct gguf_writer *out);
// Implements family->positions.
void native_positions(const struct model *m, const struct picture *pictures, struct sequence *s);

// The members of struct family that Qwen's families share.
#define NATIVE_QWEN_FAMILY                                                       \
    .module_prefix = FAMILY_MODULE_PREFIX, .picture_before = "<|vision_start|>", \
    .picture_after = "<|vision_end|>", .templates_write_marks = true,            \
    .pictures = &native_pictures, .picture_keys = native_picture_keys,           \
    .positions = native_positions

#endif
