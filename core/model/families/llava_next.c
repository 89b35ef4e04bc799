// core/model/families/llava_next.c -- LLaVA-Next (LLaVA 1.6): CLIP, a projector, and a Llama,
// Mistral or Qwen2 decoder. Every picture is cut into tiles (anyres.c).
#include "core/model/families/anyres.h"

static const char grids[] = "[[336,672],[672,336],[672,672],[1008,336],[336,1008]]";

static int configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    static const struct llava_defaults defaults = { .feature_layer = -2,
                                                    .strategy = "default",
                                                    .placeholder = 32000 };
    if (llava_config(m, c->config, &defaults, err) < 0) return err_in(err, "config.json");
    return anyres_configure(m, c, grids, err);
}

const struct family family_llava_next = {
    .name = "llava-next",
    .architectures = (const char *const[]){ "LlavaNextForConditionalGeneration", NULL },
    .model_types = (const char *const[]){ "llava_next", NULL },
    .configure = configure,
    .bind = anyres_bind,
    .part = llava_part,
    .gguf = "mlp",
    .module_prefix = FAMILY_MODULE_PREFIX,
    .pictures = &anyres_pictures,
    .boxes = "llava-next",
    .picture_processors = (const char *const[]){ "LlavaNext", NULL },
    .picture_keys = (const char *const[]){ PICTURE_KEYS, "image_grid_pinpoints", NULL },
};
