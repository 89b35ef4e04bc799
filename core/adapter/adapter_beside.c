// core/adapter/adapter_beside.c -- reports files in an adapter's folder and keys of
// adapter_config.json that vlmsh does not use, although training may have used them.
//
// Trainers save more than LoRA: weights in other files (LLaVA's projector), a tokenizer with added
// tokens, a different chat template, different picture sizes. The adapter was trained with them,
// but neither PEFT nor vlmsh reads them.
#include "core/adapter/adapter_config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/adapter/adapter.h"
#include "core/base/file_in.h"
#include "core/base/folder.h"
#include "core/base/items.h"
#include "core/base/text.h"
#include "core/files/checkpoint.h"
#include "core/model/model.h"
#include "core/tokenizer/tokenizer.h"

enum { JSON_LIMIT = 256 << 20, NAMED = 5 };

void adapter_notice(struct adapter *a, const char *before, struct names *list, const char *after)
{
    struct buf b = { 0 };
    buf_puts(&b, before);
    names_put(&b, list, NAMED);
    buf_puts(&b, after);
    if (list->count) names_add(&a->notices, b.data, NULL);
    buf_release(&b);
    names_release(list);
}

// --- weights -------------------------------------------------------------------------------------

static bool is_weights(const char *name)
{
    static const char *const ends[] = { ".safetensors", ".bin", ".pt", ".pth", ".npz", ".gguf" };
    // Files for resuming training, and the adapter itself.
    static const char *const others[] = {
        "adapter_model.", "extra.safetensors", "state.safetensors", "optimizer", "scheduler",
        "scaler",         "training_args.bin", "rng_state",         "best-",     "best.safetensors",
    };
    bool is = false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) is |= text_ends(name, ends[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        is &= strncmp(name, others[i], strlen(others[i])) != 0;
    return is;
}

static void check_weights(struct adapter *a)
{
    char **files = folder_list(a->folder);
    struct names found = { 0 };
    for (char **file = files; *file; file++)
        if (is_weights(*file)) names_add(&found, *file, NULL);
    folder_list_free(files);
    adapter_notice(a, "vlmsh does not read these files of the adapter's folder: ", &found,
                   ". If the adapter was trained with these weights, answers are wrong without "
                   "them");
}

// --- JSON files ----------------------------------------------------------------------------------

// Reads a JSON file of the folder; NULL if it is absent or cannot be read.
static cJSON *read_json(const struct adapter *a, const char *name)
{
    struct err err;
    char *path = xasprintf("%s/%s", a->folder, name);
    cJSON *json = access(path, F_OK) == 0 ? json_read(path, JSON_LIMIT, &err) : NULL;
    free(path);
    return json;
}

static void add_token(struct adapter *a, struct names *missing, const char *token, double id)
{
    const int32_t ours = token ? tokenizer_id(a->model->tokenizer, token) : 0;
    if (token && *token && (double)ours != id) names_add(missing, token, NULL);
}

// Finds added tokens that the model's tokenizer lacks or numbers differently.
static void check_tokens(struct adapter *a, const cJSON *config)
{
    struct names missing = { 0 };
    const cJSON *decoder = json_get(config, "added_tokens_decoder"), *item;
    cJSON *added = read_json(a, "added_tokens.json");
    cJSON *tokenizer = decoder ? NULL : read_json(a, "tokenizer.json");
    cJSON_ArrayForEach(item, decoder) if (item->string) add_token(
        a, &missing, cJSON_GetStringValue(json_get(item, "content")), strtod(item->string, NULL));
    cJSON_ArrayForEach(item, added) if (cJSON_IsNumber(item))
        add_token(a, &missing, item->string, item->valuedouble);
    cJSON_ArrayForEach(item, json_get(tokenizer, "added_tokens"))
    {
        const cJSON *id = json_get(item, "id");
        if (cJSON_IsNumber(id))
            add_token(a, &missing, cJSON_GetStringValue(json_get(item, "content")),
                      id->valuedouble);
    }
    cJSON_Delete(added);
    cJSON_Delete(tokenizer);
    adapter_notice(
        a,
        "the adapter's folder has tokens that the model's tokenizer lacks or numbers differently: ",
        &missing, "; the model's tokenizer is used");
}

static void check_pictures(struct adapter *a)
{
    static const char *const keys[] = {
        "size",        "crop_size",    "min_pixels",     "max_pixels",      "image_mean",
        "image_std",   "resample",     "rescale_factor", "do_resize",       "do_center_crop",
        "do_rescale",  "do_normalize", "do_pad",         "patch_size",      "merge_size",
        "max_patches", "min_patches",  "in_token_limit", "crop_to_patches", "image_grid_pinpoints",
    };
    struct names differ = { 0 };
    cJSON *file = read_json(a, "preprocessor_config.json");
    cJSON *processor = file ? NULL : read_json(a, "processor_config.json");
    const cJSON *theirs = file ? file : json_get(processor, "image_processor");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const cJSON *x = json_get(theirs, keys[i]),
                    *y = json_get(a->model->checkpoint->preprocessor, keys[i]);
        if (x && y && !cJSON_Compare(x, y, true)) names_add(&differ, keys[i], NULL);
    }
    cJSON_Delete(file);
    cJSON_Delete(processor);
    adapter_notice(a, "the adapter's folder has picture settings that differ from the model's (",
                   &differ, "): the model's preprocessor is used");
}

void adapter_beside(struct adapter *a)
{
    cJSON *tokenizer = read_json(a, "tokenizer_config.json");
    const struct checkpoint *model = a->model->checkpoint;
    char *template = checkpoint_template_in(model, a->folder, tokenizer);
    if (!file_same(a->folder, model->folder)) check_weights(a); // else the model's own weights
    if (template &&
        !checkpoint_same_template(template, model->chat_template ? model->chat_template : ""))
        names_add(&a->notices,
                  "the chat template in the adapter's folder differs from the model's and is not "
                  "used: if the adapter was trained with it, copy it to the model's folder",
                  NULL);
    free(template);
    if (a->model->tokenizer) check_tokens(a, tokenizer);
    check_pictures(a);
    cJSON_Delete(tokenizer);
}

// --- adapter_config.json -------------------------------------------------------------------------

// The keys of PEFT's LoraConfig and LNTuningConfig, and the keys that ms-swift adds.
static const char known[] =
    "alora_invocation_tokens alpha_pattern arrow_config auto_mapping base_model_name_or_path "
    "bias corda_config ensure_weight_tying eva_config exclude_modules fan_in_fan_out "
    "inference_mode init_lora_weights kasa_config layer_replication layers_pattern "
    "layers_to_transform loftq_config lora_alpha lora_bias lora_dropout lora_dtype "
    "lora_ga_config lorap_emb_lr lorap_lr_ratio megatron_config megatron_core modules_to_save "
    "monteclora_config peft_type peft_version qalora_group_size r rank_pattern revision "
    "runtime_config target_modules target_parameters task_type trainable_token_indices "
    "use_bdlora use_dora use_qalora use_rslora velora_config";

// Finds keys of rank_pattern and alpha_pattern that match no LoRA in the file.
static void check_patterns(struct adapter *a, const struct adapter_config *c)
{
    static const char *const objects[] = {
        [USED_RANKS] = "rank_pattern", [USED_ALPHAS] = "alpha_pattern"
    };
    for (int i = USED_RANKS; i <= USED_ALPHAS; i++) {
        struct names idle = { 0 };
        const cJSON *item;
        cJSON_ArrayForEach(item, json_get(c->json, objects[i]))
        {
            size_t number;
            if (!names_find(&c->used[i], item->string, &number))
                names_add(&idle, item->string, NULL);
        }
        char *before = xasprintf("adapter_config.json: \"%s\" has keys that match none of the "
                                 "adapter's modules, so nothing uses them: ",
                                 objects[i]);
        adapter_notice(a, before, &idle, "");
        free(before);
    }
}

// Finds names in target_parameters that no weight of the model has.
static void check_parameters(struct adapter *a, const struct adapter_config *c)
{
    struct names idle = { 0 };
    const cJSON *item;
    cJSON_ArrayForEach(item, json_get(c->json, "target_parameters"))
    {
        size_t number;
        if (cJSON_IsString(item) &&
            !names_find(&c->used[USED_PARAMETERS], item->valuestring, &number))
            names_add(&idle, item->valuestring, NULL);
    }
    adapter_notice(a,
                   "adapter_config.json: \"target_parameters\" names parameters that the model "
                   "lacks: ",
                   &idle, "");
}

// Compares base model and revision by name if the folder has no training record (a record has the
// model's fingerprint). A difference is only a hint, because a folder may have any name.
static void check_base(struct adapter *a, const struct adapter_config *c)
{
    const struct checkpoint *model = a->model->checkpoint;
    const char *revision = cJSON_GetStringValue(json_get(c->json, "revision")),
               *from = cJSON_GetStringValue(json_get(model->config, "_name_or_path"));
    char *run = adapter_run(a->folder), *name = folder_name(c->base);
    const bool same = strcasestr(model->folder, name) || (from && strcasestr(from, name));
    const bool other =
        revision && *revision && strcmp(revision, "main") != 0 && !strstr(model->folder, revision);
    if (!run && *name && (!same || other)) {
        char *text =
            xasprintf("adapter_config.json says that the adapter was trained on '%.200s'%s%.80s: "
                      "make sure that this is the loaded model",
                      c->base, other ? ", revision " : "", other ? revision : "");
        names_add(&a->notices, text, NULL);
        free(text);
    }
    free(name);
    free(run);
}

void adapter_config_notices(struct adapter *a, const struct adapter_config *c)
{
    struct names unknown = { 0 };
    const cJSON *item;
    check_base(a, c);
    cJSON_ArrayForEach(item, c->json) if (json_is_on(item) && !items_has(known, item->string, " "))
        names_add(&unknown, item->string, NULL);
    adapter_notice(a, "adapter_config.json has unknown keys, which are not used: ", &unknown, "");
    check_patterns(a, c);
    check_parameters(a, c);
}
