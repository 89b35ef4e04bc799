// core/new/join.h -- joins a picture encoder and a language model with a new projector, as LLaVA
// does (Liu et al. 2023, "Visual Instruction Tuning", section 4.1), ready for vision-language
// training.
//
//   struct join *j = join_open("siglip", "llama.gguf", &options, &err);
//   join_count(j, &counts);
//   join_write(j, "out", &progress, &err);
//   join_free(j);
//
// The result is a folder in the layout of transformers' LlavaForConditionalGeneration. The weights
// of both models are copied, rounded to bf16; "<image>" becomes an additional token unless the
// decoder's tokenizer has it.
#ifndef CORE_NEW_JOIN_H
#define CORE_NEW_JOIN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

struct load_progress;
struct new_model_counts;

struct join_options {
    uint64_t seed; // of the projector's random weights
    double scale;  // factor of the weights of the projector's second layer
    int64_t merge; // side of the square of features that becomes one visual token
    bool linear;   // one layer instead of two with a GELU; not with MoonViT
};

// Opens both models, unquantised folders or GGUF files, and checks that they can be joined. The
// encoder is a CLIP, SigLIP or MoonViT, alone or in a model; the decoder is a text model, or the
// one in a vision-language model. The projector's layers are initialised like torch.nn.Linear,
// uniformly within 1 / sqrt(inputs), the second layer times `scale`. With merge > 1 the projector
// reads merge x merge neighbouring features together. merge > 1 and `linear` need CLIP or SigLIP;
// transformers' LLaVA supports neither, nor MoonViT. Returns NULL with the reason on failure.
struct join *join_open(const char *encoder, const char *decoder, const struct join_options *options,
                       struct err *err);
void join_count(const struct join *j, struct new_model_counts *counts);
// `folder` must be absent or empty. Leaves nothing behind on failure.
int join_write(struct join *j, const char *folder, const struct load_progress *progress,
               struct err *err);
void join_free(struct join *j);

#endif
