// core/new/join_texts.c -- config, tokenizer and chat template of a joined model.
//
// transformers passes messages to a template as parts, but a language model's own template expects
// texts. So this file puts a prefix that joins the parts before a template without "<image>".
#include "core/new/join_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/base/folder.h"
#include "core/base/mem.h"
#include "core/files/safetensors.h"
#include "core/model/rope.h"

static const char image_token[] = "<image>";

// --- config.json ---------------------------------------------------------------------------------

static const cJSON *text_config(const struct checkpoint *decoder)
{
    const cJSON *inner = json_get(decoder->config, "text_config");
    if (!inner) inner = json_get(decoder->config, "llm_config"); // InternVL's first layout
    return inner ? inner : decoder->config;
}

static const cJSON *vision_config(const struct checkpoint *encoder)
{
    const cJSON *inner = json_get(encoder->config, "vision_config");
    return inner ? inner : encoder->config;
}

static void set(cJSON *object, const char *key, cJSON *value)
{
    cJSON_DeleteItemFromObjectCaseSensitive(object, key);
    cJSON_AddItemToObject(object, key, value);
}

static bool has_head(const struct checkpoint *c)
{
    for (int64_t i = 0; i < c->tensor_count; i++)
        if (strstr(c->tensors[i]->name, "lm_head.weight")) return true;
    return false;
}

static bool has_class_token(const cJSON *vision)
{
    const char *type;
    struct err err;
    return json_text(vision, "model_type", "", &type, &err) == 0 && !strncmp(type, "clip", 4);
}

// Copies the feature layer and the choice of its rows from the encoder's config. If the config
// names none, uses for CLIP the last layer but one without the class token (Liu et al. 2023), for
// other encoders all rows of the last layer.
static void put_features(cJSON *config, const struct checkpoint *encoder)
{
    static const char layer[] = "vision_feature_layer", how[] = "vision_feature_select_strategy";
    const bool clip = has_class_token(vision_config(encoder));
    const cJSON *theirs = json_get(encoder->config, layer);
    const cJSON *strategy = json_get(encoder->config, how);
    set(config, layer, theirs ? cJSON_Duplicate(theirs, true) : cJSON_CreateNumber(clip ? -2 : -1));
    set(config, how,
        strategy ? cJSON_Duplicate(strategy, true) : cJSON_CreateString(clip ? "default" : "full"));
}

static cJSON *make_config(const struct join_texts *t)
{
    cJSON *config = cJSON_CreateObject(), *text = cJSON_Duplicate(text_config(t->decoder), true);
    cJSON *vision = cJSON_Duplicate(vision_config(t->encoder), true);
    const cJSON *tied = json_get(text, "tie_word_embeddings");
    set(text, "vocab_size", cJSON_CreateNumber((double)t->vocab));
    set(text, "torch_dtype", cJSON_CreateString("bfloat16"));
    cJSON_AddItemToArray(cJSON_AddArrayToObject(config, "architectures"),
                         cJSON_CreateString("LlavaForConditionalGeneration"));
    cJSON_AddStringToObject(config, "model_type", "llava");
    cJSON_AddNumberToObject(config, "image_token_index", t->image);
    cJSON_AddStringToObject(config, "projector_hidden_act", "gelu");
    cJSON_AddBoolToObject(config, "tie_word_embeddings",
                          tied ? cJSON_IsTrue(tied) : !has_head(t->decoder));
    cJSON_AddStringToObject(config, "torch_dtype", "bfloat16");
    cJSON_AddItemToObject(config, "text_config", text);
    cJSON_AddItemToObject(config, "vision_config", vision);
    put_features(config, t->encoder);
    if (t->merge > 1) cJSON_AddNumberToObject(config, "spatial_merge_size", (double)t->merge);
    return config;
}

// --- rotary frequencies --------------------------------------------------------------------------

static bool read_frequencies(const cJSON *text, int64_t dim, float frequency[ROPE_DIVISORS])
{
    struct rope_config r;
    struct err err;
    if (rope_config_read(&r, &rotary_plain, text, 10000, &err) < 0) return false;
    r.dim = dim;
    rope_frequencies(&r, frequency);
    return true;
}

static bool same_frequencies(const cJSON *a, const cJSON *b, int64_t dim)
{
    float x[ROPE_DIVISORS], y[ROPE_DIVISORS];
    bool same = read_frequencies(a, dim, x) && read_frequencies(b, dim, y);
    for (int64_t i = 0; same && i < dim / 2; i++) same = fabsf(x[i] - y[i]) <= 1e-4f * fabsf(x[i]);
    return same;
}

// Returns a copy of the config with Llama 3's scaling: this factor, and the other parameters as
// published.
static cJSON *with_llama3(const cJSON *text, double factor)
{
    cJSON *other = cJSON_Duplicate(text, true), *scaling = cJSON_CreateObject();
    cJSON_AddStringToObject(scaling, "rope_type", "llama3");
    cJSON_AddNumberToObject(scaling, "factor", factor);
    cJSON_AddNumberToObject(scaling, "low_freq_factor", 1);
    cJSON_AddNumberToObject(scaling, "high_freq_factor", 4);
    cJSON_AddNumberToObject(scaling, "original_max_position_embeddings", 8192);
    set(other, "rope_scaling", scaling);
    return other;
}

// GGUF files hold Llama 3's scaling as divisors of the frequencies, for which config.json has no
// key: tries Llama 3's settings and checks that they give the same frequencies.
static int name_scaling(struct join_texts *t, struct err *err)
{
    cJSON *text = cJSON_GetObjectItemCaseSensitive(t->config, "text_config");
    const cJSON *divisors = json_get(json_get(text, "rope_scaling"), "divisors");
    const int count = cJSON_GetArraySize(divisors);
    if (!divisors) return 0;
    const cJSON *last =
        count > 0 && count <= ROPE_DIVISORS ? cJSON_GetArrayItem(divisors, count - 1) : NULL;
    cJSON *named = with_llama3(text, last ? round(last->valuedouble) : 1);
    if (last && same_frequencies(text, named, 2 * count)) {
        set(t->config, "text_config", named);
        return 0;
    }
    cJSON_Delete(named);
    return err_set(
        err,
        "'%s': config.json cannot express its rotary scaling: give the model's original folder",
        t->decoder->folder);
}

int join_texts_open(struct join_texts *t, struct err *err)
{
    int64_t vocab;
    if (json_int(text_config(t->decoder), "vocab_size", 1, INT32_MAX - 1, -1, &vocab, err) < 0)
        return -1;
    if (vocab < 0) return err_set(err, "'%s': \"vocab_size\" is missing", t->decoder->folder);
    t->tokenizer = checkpoint_tokenizer(t->decoder, err);
    if (!t->tokenizer) return -1;
    t->image = tokenizer_id(t->tokenizer, image_token);
    t->image_is_new = t->image < 0;
    if (t->image_is_new) t->image = tokenizer_size(t->tokenizer);
    t->vocab = t->image < vocab ? vocab : t->image + 1;
    t->config = make_config(t);
    return name_scaling(t, err);
}

void join_texts_release(struct join_texts *t)
{
    tokenizer_free(t->tokenizer);
    cJSON_Delete(t->config);
}

// --- files ---------------------------------------------------------------------------------------

static int write_json(const char *folder, const char *name, const cJSON *json, struct err *err)
{
    char *text = cJSON_Print(json);
    const int status = folder_write(folder, name, text, strlen(text), err);
    cJSON_free(text);
    return status;
}

// Returns the decoder's tokenizer.json, or one made from its tokens. NULL on error.
static cJSON *tokenizer_json(const struct join_texts *t, struct err *err)
{
    static const size_t limit = (size_t)256 << 20;
    char *path = xasprintf("%s/tokenizer.json", t->decoder->folder), *text = NULL;
    size_t size = 0;
    if (!t->decoder->gguf_count && access(path, F_OK) == 0) {
        text = file_read(path, limit, &size, err);
    } else {
        struct token_export *e = tokenizer_export(t->tokenizer, t->vocab, "llama", err);
        text = e ? tokenizer_list_json(token_export_list(e), err) : NULL;
        size = text ? strlen(text) : 0;
        token_export_free(e);
    }
    cJSON *json = text ? json_parse(text, size, path, err) : NULL;
    free(text);
    free(path);
    return json;
}

static int write_tokenizer(const struct join_texts *t, const char *folder, struct err *err)
{
    cJSON *json = tokenizer_json(t, err);
    if (!json) return -1;
    cJSON *added = cJSON_GetObjectItemCaseSensitive(json, "added_tokens");
    if (!cJSON_IsArray(added)) set(json, "added_tokens", added = cJSON_CreateArray());
    if (t->image_is_new)
        cJSON_AddItemToArray(added, tokenizer_added_token(t->image, image_token, true));
    const int status = write_json(folder, "tokenizer.json", json, err);
    cJSON_Delete(json);
    return status;
}

static int write_tokenizer_config(const struct join_texts *t, const char *folder, struct err *err)
{
    const cJSON *theirs = t->decoder->tokenizer_config;
    cJSON *config = theirs ? cJSON_Duplicate(theirs, true) : cJSON_CreateObject();
    cJSON *added = cJSON_GetObjectItemCaseSensitive(config, "added_tokens_decoder");
    cJSON_DeleteItemFromObjectCaseSensitive(config, "chat_template"); // it has its own file
    if (!json_get(config, "tokenizer_class"))
        cJSON_AddStringToObject(config, "tokenizer_class", "PreTrainedTokenizerFast");
    set(config, "processor_class", cJSON_CreateString("LlavaProcessor"));
    set(config, "image_token", cJSON_CreateString(image_token));
    if (added && t->image_is_new) {
        char id[16];
        snprintf(id, sizeof id, "%d", (int)t->image);
        set(added, id, tokenizer_added_token(t->image, image_token, true));
        cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(added, id), "id");
    }
    const int status = write_json(folder, "tokenizer_config.json", config, err);
    cJSON_Delete(config);
    return status;
}

// Joins the parts of a message into one text, with "<image>" for each picture.
static const char join_parts[] =
    "{%- set joined = namespace(messages=[]) -%}\n"
    "{%- for message in messages -%}\n"
    "  {%- if message['content'] is string or message['content'] is not iterable -%}\n"
    "    {%- set joined.messages = joined.messages + [message] -%}\n"
    "  {%- else -%}\n"
    "    {%- set said = namespace(text='') -%}\n"
    "    {%- for part in message['content'] -%}\n"
    "      {%- if part['type'] == 'image' -%}\n"
    "        {%- set said.text = said.text + '<image>\\n' -%}\n"
    "      {%- elif part['type'] == 'text' -%}\n"
    "        {%- set said.text = said.text + part['text'] -%}\n"
    "      {%- endif -%}\n"
    "    {%- endfor -%}\n"
    "    {%- set joined.messages = joined.messages + [dict(message, content=said.text)] -%}\n"
    "  {%- endif -%}\n"
    "{%- endfor -%}\n"
    "{%- set messages = joined.messages -%}\n"
    "{{- '' }}";

static int write_template(const struct join_texts *t, const char *folder, struct err *err)
{
    const char *theirs = t->decoder->chat_template;
    const bool knows = theirs && strstr(theirs, image_token);
    if (!theirs) return 0;
    char *text = xasprintf("%s%s", knows ? "" : join_parts, theirs);
    const int status = folder_write(folder, "chat_template.jinja", text, strlen(text), err);
    free(text);
    return status;
}

// Removes the tile settings of another model's processor, which LLaVA does not use.
static void without_tiles(cJSON *pictures, const cJSON *vision)
{
    static const char *const keys[] = { "image_grid_pinpoints", "aspect_ratio_setting", "do_pad" };
    if (!json_get(pictures, keys[0])) return;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(pictures, keys[i]);
    set(pictures, "image_processor_type",
        cJSON_CreateString(has_class_token(vision) ? "CLIPImageProcessor"
                                                   : "SiglipImageProcessor"));
}

static int write_pictures(const struct join_texts *t, const char *folder, struct err *err)
{
    const cJSON *vision = json_get(t->config, "vision_config");
    const cJSON *patch = json_get(vision, "patch_size");
    cJSON *pictures = t->encoder->preprocessor ? cJSON_Duplicate(t->encoder->preprocessor, true)
                                               : cJSON_CreateObject();
    without_tiles(pictures, vision);
    set(pictures, "processor_class", cJSON_CreateString("LlavaProcessor"));
    cJSON *processor = cJSON_CreateObject();
    cJSON_AddStringToObject(processor, "processor_class", "LlavaProcessor");
    cJSON_AddStringToObject(processor, "image_token", image_token);
    cJSON_AddNumberToObject(processor, "num_additional_image_tokens", has_class_token(vision));
    if (patch) cJSON_AddItemToObject(processor, "patch_size", cJSON_Duplicate(patch, true));
    cJSON_AddItemToObject(
        processor, "vision_feature_select_strategy",
        cJSON_Duplicate(json_get(t->config, "vision_feature_select_strategy"), true));
    int status = write_json(folder, "preprocessor_config.json", pictures, err);
    if (status == 0) status = write_json(folder, "processor_config.json", processor, err);
    cJSON_Delete(pictures);
    cJSON_Delete(processor);
    return status;
}

int join_texts_write(const struct join_texts *t, const char *folder, struct err *err)
{
    const cJSON *generation = t->decoder->generation;
    int status = write_json(folder, "config.json", t->config, err);
    if (status == 0 && generation)
        status = write_json(folder, "generation_config.json", generation, err);
    if (status == 0) status = write_pictures(t, folder, err);
    if (status == 0) status = write_tokenizer(t, folder, err);
    if (status == 0) status = write_tokenizer_config(t, folder, err);
    return status < 0 ? -1 : write_template(t, folder, err);
}
