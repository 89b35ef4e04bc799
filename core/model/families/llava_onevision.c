// core/model/families/llava_onevision.c -- LLaVA-OneVision: SigLIP, a projector, a Qwen2 decoder.
//
// A single picture in a prompt is cut into tiles (anyres.c), and its feature map shrinks if it
// exceeds the limit of "vision_aspect_ratio". With several pictures, each becomes a padded square.
#include <stdlib.h>
#include <string.h>

#include "core/model/families/anyres.h"

// All grids of 1 to 6 by 1 to 6 tiles, in pixels; a tile is 384 x 384.
static const char grids[] =
    "[[384,384],[384,768],[384,1152],[384,1536],[384,1920],[384,2304],"
    "[768,384],[768,768],[768,1152],[768,1536],[768,1920],[768,2304],"
    "[1152,384],[1152,768],[1152,1152],[1152,1536],[1152,1920],[1152,2304],"
    "[1536,384],[1536,768],[1536,1152],[1536,1536],[1536,1920],[1536,2304],"
    "[1920,384],[1920,768],[1920,1152],[1920,1536],[1920,1920],[1920,2304],"
    "[2304,384],[2304,768],[2304,1152],[2304,1536],[2304,1920],[2304,2304]]";

// Reads the 9 of "anyres_max_9": a feature map much larger than 9 tiles shrinks (anyres.c).
static int read_most(struct model *m, const cJSON *config, struct err *err)
{
    static const char start[] = "anyres_max_";
    const char *text;
    char *end;
    if (json_text(config, "vision_aspect_ratio", "anyres_max_9", &text, err) < 0) return -1;
    const bool known = strncmp(text, start, strlen(start)) == 0;
    const long most = known ? strtol(text + strlen(start), &end, 10) : 0;
    if (most < 1 || most > 10000 || *end)
        return err_set(err, "\"vision_aspect_ratio\" \"%s\" is not supported (known: anyres_max_N)",
                       text);
    m->map_tiles = most;
    return 0;
}

static int configure(struct model *m, const struct checkpoint *c, struct err *err)
{
    static const struct llava_defaults defaults = {
        .feature_layer = -1, .strategy = "full", .placeholder = 151646, .vision_needed = true
    };
    if (llava_config(m, c->config, &defaults, err) < 0 || read_most(m, c->config, err) < 0)
        return err_in(err, "config.json");
    return anyres_configure(m, c, grids, err);
}

const struct family family_llava_onevision = {
    .name = "llava-onevision",
    .architectures = (const char *const[]){ "LlavaOnevisionForConditionalGeneration", NULL },
    .model_types = (const char *const[]){ "llava_onevision", NULL },
    .configure = configure,
    .bind = anyres_bind,
    .part = llava_part,
    .module_prefix = FAMILY_MODULE_PREFIX,
    .several_differ = true,
    .pictures = &anyres_pictures,
    .boxes = "llava-next",
    .picture_processors = (const char *const[]){ "LlavaOne", NULL },
    .picture_keys = (const char *const[]){ PICTURE_KEYS, "image_grid_pinpoints", NULL },
};
