// core/model/families/internvl_chat.c -- InternVL2, 2.5, 3 and 3.5 in the layout of the authors'
// own code (internvl_chat): the model of internvl.c with other config keys and tensor names, and
// with an InternLM2, Qwen2, Qwen3 or Llama decoder.
//
// No file of the folder describes the prompt: config.json's "template" names a conversation of
// conversation.py, which is part of the authors' code; core/template/layouts.c defines these
// conversations. The authors' code ignores the chat template of folders that have one. The
// placeholder is the token <IMG_CONTEXT>; in published folders, only the tokenizer gives its id.
#include <string.h>

#include "core/model/families/internvl.h"
#include "core/model/families/text.h"
#include "core/picture/tile_grid.h"

// --- config --------------------------------------------------------------------------------------

// Hermes-2 (InternVL2-1B) writes the same prompt as internlm2-chat; the two differ only in
// training.
static int read_template(struct model *m, const cJSON *config, struct err *err)
{
    static const struct {
        const char *name, *layout;
    } known[] = { { "internlm2-chat", "internlm2-chat" },
                  { "Hermes-2", "internlm2-chat" },
                  { "internvl2_5", "internvl2_5" } };
    const char *name;
    if (json_text(config, "template", "", &name, err) < 0) return -1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name)) {
            m->conversation = known[i].layout;
            return 0;
        }
    return err_set(err,
                   "\"template\" \"%s\" is not supported (known: internlm2-chat, Hermes-2, "
                   "internvl2_5)",
                   name);
}

// Refuses options that only unsupported models with this folder layout set.
static int refuse_others(const struct vision_config *v, const cJSON *config, struct err *err)
{
    const char *shuffle;
    bool square, flash;
    int64_t side;
    if (json_text(config, "ps_version", "v1", &shuffle, err) < 0 ||
        json_bool(config, "pad2square", false, &square, err) < 0 ||
        json_bool(config, "flash_mode", false, &flash, err) < 0 ||
        json_int(config, "force_image_size", 1, 10000, v->image_size, &side, err) < 0)
        return -1;
    if (strcmp(shuffle, "v2") != 0)
        return err_set(err, "\"ps_version\" \"%s\" is not supported (known: v2)", shuffle);
    if (square) return err_set(err, "\"pad2square\" is not supported");
    if (flash)
        return err_set(err,
                       "\"flash_mode\" is not supported: these models (InternVL3.5-Flash) choose "
                       "the number of tokens tile by tile");
    if (side != v->image_size)
        return err_set(
            err,
            "\"force_image_size\" %lld is not supported: the encoder's pictures are %lld "
            "pixels a side",
            (long long)side, (long long)v->image_size);
    return 0;
}

static int read_pictures(struct model *m, const cJSON *config, struct err *err)
{
    struct picture_config *p = &m->picture;
    bool dynamic;
    *p = internvl_picture(&m->vision.config);
    if (json_bool(config, "dynamic_image_size", false, &dynamic, err) < 0 ||
        json_bool(config, "use_thumbnail", false, &p->thumbnail, err) < 0)
        return -1;
    if (!dynamic) return 0;
    if (json_int(config, "min_dynamic_patch", 1, TILE_GRID_MAX, 1, &p->min_tiles, err) < 0)
        return -1;
    return json_int(config, "max_dynamic_patch", p->min_tiles, TILE_GRID_MAX, 6, &p->max_tiles,
                    err);
}

static int read_config(struct model *m, const cJSON *config, struct err *err)
{
    const cJSON *vision = json_get(config, "vision_config");
    if (!cJSON_IsObject(vision)) return err_set(err, "\"vision_config\" must be an object");
    if (internvl_read_decoder(m, config, "llm_config", false, err) < 0 ||
        internvl_read_vision(m, &vision_intern_authors, config, vision, "select_layer", err) < 0 ||
        refuse_others(&m->vision.config, config, err) < 0 || read_pictures(m, config, err) < 0)
        return -1;
    return read_template(m, config, err);
}

static const struct projector_kind projector = {
    .norm = "0",
    .norm_bias = true,
    .eps = 1e-5,
    .linear_1 = "1",
    .linear_2 = "3",
};

static int internvl_chat_configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    m->projector.kind = &projector;
    m->projector.bias = true;
    m->projector.act = GELU_ERF;
    // The hub's configs omit the id. The configs of `vlmsh new` give it, because their tokenizers
    // call the placeholder <image>.
    static const char id[] = "img_context_token_id";
    if (!json_get(c->config, id)) m->placeholder_word = "<IMG_CONTEXT>";
    if (family_placeholder_read(m, c->config, id, id, 0, err) < 0 ||
        read_config(m, c->config, err) < 0)
        return err_in(err, "config.json");
    return 0;
}

// --- weights -------------------------------------------------------------------------------------

static int internvl_chat_bind(struct model *m, const struct checkpoint *c, struct err *err)
{
    static const struct family_prefixes prefixes = { .text = "language_model.model.",
                                                     .head = "language_model.",
                                                     .vision = "vision_model.",
                                                     .projector = "mlp1." };
    return family_bind(m, c, &prefixes, err);
}

static enum model_part_kind internvl_chat_part(const struct model *m, const char *tensor)
{
    if (!strncmp(tensor, "vision_model.", 13)) return PART_VISION;
    return !strncmp(tensor, "mlp1.", 5) ? PART_PROJECTOR : text_part(m, tensor);
}

const struct family family_internvl_chat = {
    .name = "internvl_chat",
    .architectures = (const char *const[]){ "InternVLChatModel", NULL },
    .model_types = (const char *const[]){ "internvl_chat", NULL },
    .configure = internvl_chat_configure,
    .bind = internvl_chat_bind,
    .part = internvl_chat_part,
    .gguf = "internvl",
    .module_prefix = { [PART_VISION] = "vision_model.",
                       [PART_PROJECTOR] = "",
                       [PART_EMBEDDING] = "language_model.model.",
                       [PART_DECODER] = "language_model.model.",
                       [PART_HEAD] = "language_model." },
    .picture_before = "<img>",
    .picture_after = "</img>",
    .pictures = &internvl_pictures,
    .boxes = "internvl",
    // The authors' code does not read preprocessor_config.json.
    .picture_processors = (const char *const[]){ "", NULL },
    .picture_keys = (const char *const[]){ NULL },
    .phases = internvl_phases,
};
