// core/model/families/llama.c -- Llama 2, 3, 3.2: text only.
#include "core/model/families/text.h"

const struct family family_llama = {
    .name = "llama",
    .architectures = (const char *const[]){ "LlamaForCausalLM", NULL },
    .model_types = (const char *const[]){ "llama", NULL },
    .configure = text_configure,
    .bind = text_bind,
    .part = text_part,
    .module_prefix = { [PART_EMBEDDING] = "model.", [PART_DECODER] = "model.", [PART_HEAD] = "" },
};
