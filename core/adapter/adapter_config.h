// core/adapter/adapter_config.h -- adapter_config.json: PEFT's description of the adapter's
// tensors; notices about unused parts of the folder.
//
//   struct adapter_config c;
//   if (adapter_config_read(&c, json, &err) < 0) ...       // json must outlive c
//   adapter_config_scale(&c, "model.layers.3.self_attn.q_proj", rank, &scale, &err);
//   adapter_config_release(&c);
//
// Source of the format: huggingface/peft (tuners/lora/config.py, tuners_utils.py,
// utils/save_and_load.py). Module names are those of transformers' classes, without ".weight".
#ifndef CORE_ADAPTER_ADAPTER_CONFIG_H
#define CORE_ADAPTER_ADAPTER_CONFIG_H

#include <stdbool.h>

#include "core/base/json.h"
#include "core/base/names.h"

struct adapter;
struct module_pattern;
struct named_pattern;

enum adapter_used { USED_RANKS, USED_ALPHAS, USED_PARAMETERS, USED_KINDS };

struct adapter_config {
    const cJSON *json;
    bool lora;                                    // peft_type LORA; else LN_TUNING
    enum { BIAS_NONE, BIAS_ALL, BIAS_LORA } bias; // which biases were trained with LoRA
    const char *base;                             // base_model_name_or_path; "" when unknown
    int64_t rank;
    double alpha;
    bool rank_stabilised; // scale alpha / sqrt(rank), Kalajdzievski 2023 (arXiv 2312.03732)
    bool tied;            // ensure_weight_tying: a copy of the embedding also replaces the head
    // target_modules and exclude_modules if they are regular expressions; else NULL
    struct module_pattern *target, *exclude;
    // Keys of rank_pattern and alpha_pattern that matched a module, and names in target_parameters
    // that matched a weight.
    struct names used[USED_KINDS];
    struct named_pattern *ranks, *alphas; // rank_pattern, alpha_pattern
};

// Returns -1 for unsupported (such as DoRA) or inconsistent configs.
int adapter_config_read(struct adapter_config *c, const cJSON *json, struct err *err);
void adapter_config_release(struct adapter_config *c);

// Sets *scale, the factor of B A in the module. `rank`: number of rows of A, which must be the
// config's rank for the module.
int adapter_config_scale(struct adapter_config *c, const char *module, int64_t rank, float *scale,
                         struct err *err);
// Returns 1 if the config selects the module (target_modules, exclude_modules,
// layers_to_transform), else 0; -1 if a regular expression fails.
int adapter_config_targets(const struct adapter_config *c, const char *module, struct err *err);
// Returns true if target_parameters names the parameter, such as
// "model.layers.3.mlp.experts.down_proj", and notes in c->used the names that do.
bool adapter_config_use_parameter(struct adapter_config *c, const char *name);
// Returns true if modules_to_save names the module.
bool adapter_config_saves(const struct adapter_config *c, const char *module);

// --- notices (adapter_beside.c) ------------------------------------------------------------------

// Adds the sentence `before` LIST `after` to a->notices unless the list is empty, and releases the
// list. Shortens a long list.
void adapter_notice(struct adapter *a, const char *before, struct names *list, const char *after);
// Add notices: adapter_beside about other files in the folder, adapter_config_notices about unused
// keys of the config.
void adapter_beside(struct adapter *a);
void adapter_config_notices(struct adapter *a, const struct adapter_config *c);
// Returns the last component of a path or of "org/name", without a final '/'; the caller frees it.
char *folder_name(const char *path);

#endif
