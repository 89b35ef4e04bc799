// core/model/families/gemma4_unified_text.c -- the language model of Gemma 4 12B: the layers of
// gemma4_text.c without inputs of their own and without experts. By default, rows of a picture see
// all its rows, in all layers.
#include "core/model/families/gemma4.h"
#include "core/model/families/text.h"

static const struct decoder_kind decoder = {
    GEMMA4_DECODER,    .max_positions = 262144,
    .window = 1024,    .pictures_whole = true,
    .ffn = &ffn_gated, .keys = (const char *const[]){ GEMMA4_KEYS, NULL },
};

const struct family family_gemma4_unified_text = {
    .name = "gemma4_unified_text",
    .architectures = (const char *const[]){ "Gemma4UnifiedForCausalLM", NULL },
    .model_types = (const char *const[]){ "gemma4_unified_text", NULL },
    .decoder = &decoder,
    TEXT_FAMILY,
};
