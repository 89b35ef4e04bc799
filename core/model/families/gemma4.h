// core/model/families/gemma4.h -- shared by Gemma 4's families: with an encoder, without one
// ("unified"), and text only.
#ifndef CORE_MODEL_FAMILIES_GEMMA4_H
#define CORE_MODEL_FAMILIES_GEMMA4_H

#include "core/model/families/family.h"
#include "core/model/layer_inputs.h"

struct encoder_config;
struct gguf_writer;

// --- pictures (gemma4.c) -------------------------------------------------------------------------

enum { GEMMA4_BUDGET = 280, GEMMA4_POOL = 3 }; // of the published models

// Reads config.json, with a vision_config of that kind.
int gemma4_read_config(struct model *m, const struct vision_kind *kind, const cJSON *config,
                       struct err *err);
// Reads the picture processor's config; the family checks the sizes of patches.
int gemma4_read_pictures(struct model *m, const cJSON *json, struct err *err);
// Binds the decoder and, under the first prefix of each list that the file has, the other parts.
int gemma4_bind_parts(struct model *m, const struct checkpoint *c, const char *const *vision,
                      const char *const *projector, struct err *err);
extern const char *const gemma4_picture_keys[], *const gemma4_gguf_texts[];
// Sets the processor's keys, the placeholder and the pooling from a GGUF file.
void gemma4_read_gguf(struct encoder_config *e, int64_t patch, int64_t pool);
// Writes the pooling and the budget.
void gemma4_put_gguf(const struct model *m, int64_t pool, struct gguf_writer *out);

// The members of the families that read pictures.
#define GEMMA4_PICTURES                                                  \
    .module_prefix = FAMILY_MODULE_PREFIX, .picture_before = "<|image>", \
    .picture_after = "<image|>", .pictures = &native_pictures,           \
    .picture_processors = (const char *const[]){ "Gemma4", NULL },       \
    .picture_keys = gemma4_picture_keys

// --- decoders (gemma4_text.c) --------------------------------------------------------------------

// A layer with keys and values of its own, or with those of an earlier one.
const struct attention_kind *gemma4_attention(const struct decoder_config *c, int layer);

// Keys of core/model/config_keys.c that all decoders support.
#define GEMMA4_KEYS                                                                    \
    "full_attention", "sliding_attention", "num_kv_shared_layers", "attention_k_eq_v", \
        "final_logit_softcapping", "use_bidirectional_attention", "rope_local_base_freq"

// The members of decoder_kind that all decoders share.
#define GEMMA4_DECODER                                                                            \
    .ffn_size = 9216, .vocab = 262144, .head_size = 256, .heads = 8, .kv_heads = 4, .theta = 1e6, \
    .tied = true, .slides_by_default = true, .sliding_pattern = 6, .gelu = true,                  \
    .embed_scaled = true, .scores_unscaled = true, .attention = &attention_valued,                \
    .attention_of = gemma4_attention, .norms = &norms_gemma, .rotary = &rotary_proportional,      \
    .gguf = "gemma4", .after_layer = layer_inputs_add, .end_weight = layer_inputs_weight

#endif
