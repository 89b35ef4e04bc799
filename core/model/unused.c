// core/model/unused.c -- reports keys that vlmsh ignores in the files beside the weights.
#include "core/model/companions.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/model/families/family.h"

static bool is_off(const cJSON *value)
{
    return !json_is_on(value) || (cJSON_IsString(value) && !*value->valuestring);
}

// Appends "KEY VALUE", or only "KEY" if the value is a list or object, after a comma if *b is not
// empty; cuts long strings.
static void put(struct buf *b, const cJSON *value)
{
    buf_printf(b, "%s%.60s", b->length ? ", " : "", value->string);
    if (cJSON_IsNumber(value)) buf_printf(b, " %.6g", value->valuedouble);
    if (cJSON_IsBool(value)) buf_puts(b, cJSON_IsTrue(value) ? " true" : " false");
    if (cJSON_IsString(value)) buf_printf(b, " \"%.60s\"", value->valuestring);
}

// --- generation ----------------------------------------------------------------------------------

struct generation_key {
    const char *name;
    double neutral;
    bool greedy; // transformers applies it to greedy answers too
};

static const struct generation_key generation_keys[] = {
    { "temperature", 1, false },
    { "top_k", 0, false },
    { "top_p", 1, false },
    { "min_p", 0, false },
    { "typical_p", 1, false },
    { "epsilon_cutoff", 0, false },
    { "eta_cutoff", 0, false },
    { "repetition_penalty", 1, true },
    { "presence_penalty", 0, true },
    { "frequency_penalty", 0, true },
    { "no_repeat_ngram_size", 0, true },
    { "encoder_no_repeat_ngram_size", 0, true },
    { "begin_suppress_tokens", 0, true },
    { "bad_words_ids", 0, true },
    { "sequence_bias", 0, true },
    { "forced_bos_token_id", -1, true },
    { "forced_eos_token_id", -1, true },
    { "min_length", 0, true },
    { "min_new_tokens", 0, true },
    { "penalty_alpha", 0, true },
    { "exponential_decay_length_penalty", 0, true },
    { "dola_layers", 0, true },
    { "watermarking_config", 0, true },
    { "stop_strings", 0, true },
    { "guidance_scale", 1, true },
    { "num_beams", 1, true },
};

static char *generation(const struct model *m, bool greedy_only)
{
    const bool samples = cJSON_IsTrue(json_get(m->checkpoint->generation, "do_sample"));
    struct buf b = { 0 };
    for (size_t i = 0; i < sizeof generation_keys / sizeof *generation_keys; i++) {
        const struct generation_key *key = &generation_keys[i];
        const cJSON *value = json_get(m->checkpoint->generation, key->name);
        if (is_off(value) || (cJSON_IsNumber(value) && value->valuedouble == key->neutral))
            continue;
        if (key->greedy || (samples && !greedy_only)) put(&b, value);
    }
    return b.length ? buf_take(&b) : NULL;
}

char *unused_generation(const struct model *m)
{
    return generation(m, false);
}

static char *greedy_notice(const struct model *m)
{
    const cJSON *penalty = json_get(m->checkpoint->generation, "repetition_penalty");
    char *keys = generation(m, true), *how = NULL;
    if (!keys) return NULL;
    if (strstr(keys, "repetition_penalty"))
        how = xasprintf(": /set sample.repeat_penalty %.6g", penalty->valuedouble);
    char *text = xasprintf(
        "%s for %s, which vlmsh does not apply (%s does, even to greedy answers)%s",
        m->checkpoint->gguf_count ? "the file's metadata asks" : "generation_config.json asks",
        keys, m->checkpoint->gguf_count ? "llama.cpp" : "transformers", how ? how : "");
    free(keys);
    free(how);
    return text;
}

// --- pictures ------------------------------------------------------------------------------------

// Keys that change no pixel. "do_pad", unless picture_config_read reads it, only pads pictures to
// the largest of a batch; the processor's call overrides "crop_to_patches".
static const char *const harmless_keys[] = { "image_processor_type",
                                             "feature_extractor_type",
                                             "do_pad",
                                             "crop_to_patches",
                                             "num_pooled_tokens",
                                             "processor_class",
                                             "auto_map",
                                             "default_to_square",
                                             "data_format",
                                             "input_data_format",
                                             "device",
                                             "return_tensors",
                                             "disable_grouping",
                                             "image_seq_length",
                                             "_valid_processor_keys",
                                             "_processor_class",
                                             "model_input_names",
                                             "aspect_ratio_setting",
                                             "use_fast",
                                             "name_or_path",
                                             "do_sample_frames",
                                             "video_sampling",
                                             "return_row_col_info",
                                             "fps",
                                             "min_frames",
                                             "max_frames",
                                             "num_frames",
                                             "video_processor_type",
                                             "image_token",
                                             "video_token",
                                             "config",
                                             "transformers_version",
                                             NULL };

// True if a key that picture_config_read_shared reads agrees with the configuration in use.
static bool shared_agrees(const struct picture_config *p, const cJSON *item)
{
    struct picture_config read = *p;
    struct err err;
    cJSON *one = cJSON_CreateObject();
    cJSON_AddItemToObject(one, item->string, cJSON_Duplicate(item, true));
    bool agrees = picture_config_read_shared(&read, one, &err) == 0;
    cJSON_Delete(one);
    for (int i = 0; i < 3; i++) agrees &= read.mean[i] == p->mean[i] && read.std[i] == p->std[i];
    return agrees && read.resize == p->resize && read.rescale == p->rescale &&
           read.normalize == p->normalize && read.flatten == p->flatten &&
           read.resample == p->resample && read.rescale_factor == p->rescale_factor;
}

// True if the value is `side`, or an object whose values all are `side` or null.
static bool is_square_of(const cJSON *value, int64_t side)
{
    const cJSON *one;
    if (!cJSON_IsObject(value)) return json_whole(value, 0) == side;
    cJSON_ArrayForEach(one, value)
    {
        if (!cJSON_IsNull(one) && json_whole(one, 0) != side) return false;
    }
    return true;
}

// True if reading the key would leave pictures unchanged.
static bool changes_nothing(const struct model *m, const cJSON *item)
{
    static const char *const shared[] = { PICTURE_SHARED_KEYS, NULL };
    const struct picture_config *p = &m->picture;
    const char *key = item->string;
    const bool squares = p->fit == FIT_EXACT || p->fit == FIT_SHORTEST_CROP;
    if (cJSON_IsNull(item)) return true;
    if (text_listed(shared, key)) return shared_agrees(p, item);
    if (!strcmp(key, "patch_size")) return json_whole(item, 0) == m->vision.config.patch;
    if (!strcmp(key, "size") && squares) return is_square_of(item, p->width);
    // The crop covers the whole square, or "do_center_crop" is off.
    if (!strcmp(key, "do_center_crop") && squares) return true;
    if (!strcmp(key, "crop_size")) return !squares || is_square_of(item, p->width);
    return is_off(item);
}

static char *picture_notice(const struct model *m)
{
    const cJSON *json = m->checkpoint->preprocessor, *item,
                *type = json_get(json, "image_processor_type");
    struct buf b = { 0 };
    if (!model_has_vision(m) || m->checkpoint->gguf_count) return NULL;
    if (!type) type = json_get(json, "feature_extractor_type");
    const struct vision_kind *kind = m->vision.config.kind;
    const bool own = kind->picture_keys; // the encoder's lists, else the family's
    const char *const *keys = own ? kind->picture_keys : m->family->picture_keys;
    const char *const *known = own ? kind->picture_processors : m->family->picture_processors;
    if (!known) BUG("family %s names no picture_processors", m->family->name);
    // Other processors have their own steps and defaults.
    while (cJSON_IsString(type) && *known &&
           strncmp(type->valuestring, *known, strlen(*known)) != 0)
        known++;
    if (cJSON_IsString(type) && !*known) put(&b, type);
    cJSON_ArrayForEach(item, json)
    {
        if (!text_listed(keys, item->string) && !text_listed(harmless_keys, item->string) &&
            !changes_nothing(m, item))
            put(&b, item);
    }
    if (!b.length) return NULL;
    char *text = xasprintf(
        "%s has keys that vlmsh ignores: %s; pictures may be preprocessed differently than in "
        "training",
        checkpoint_preprocessor_file(m->checkpoint), b.data);
    buf_release(&b);
    return text;
}

// --- all -----------------------------------------------------------------------------------------

int unused_notices(const struct model *m, char *list[UNUSED_MOST])
{
    int n = 0;
    if (m->decoder.config.untied)
        list[n++] = xstrdup("config.json ties the output head to the embedding, but the file has "
                            "a different head: vlmsh uses it, as transformers 5 does (4 used the "
                            "embedding)");
    if ((list[n] = greedy_notice(m))) n++;
    if ((list[n] = picture_notice(m))) n++;
    return n;
}
