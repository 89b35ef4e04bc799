// core/adapter/adapter_config.h -- adapter_config.json: what PEFT says about the tensors beside it.
//
//   struct adapter_config c;
//   if (adapter_config_read(&c, json, &err) < 0) ...       // json outlives c
//   adapter_config_scale(&c, "model.layers.3.self_attn.q_proj", rank, &scale, &err);
//   adapter_config_release(&c);
//
// Facts on the format: the source of huggingface/peft (tuners/lora/config.py, tuners_utils.py,
// utils/save_and_load.py). Module names are those of transformers' classes, without ".weight".
#ifndef CORE_ADAPTER_ADAPTER_CONFIG_H
#define CORE_ADAPTER_ADAPTER_CONFIG_H

#include <stdbool.h>

#include "core/base/json.h"

struct module_pattern;

struct adapter_config {
    const cJSON *json;
    bool lora;        // peft_type LORA; else LN_TUNING
    const char *base; // base_model_name_or_path; "" when unknown
    int64_t rank;
    double alpha;
    bool rank_stabilised; // scale alpha / sqrt(rank), Kalajdzievski 2023 (arXiv 2312.03732)
    bool tied;            // ensure_weight_tying: a copy of the embedding is the head too
    struct module_pattern *target; // target_modules as a regular expression; else NULL
};

// -1 with a message for what is not supported (DoRA and its like) or makes no sense.
int adapter_config_read(struct adapter_config *c, const cJSON *json, struct err *err);
void adapter_config_release(struct adapter_config *c);

// What LoRA's product is multiplied with in that module, whose A has `rank` rows.
int adapter_config_scale(const struct adapter_config *c, const char *module, int64_t rank,
                         float *scale, struct err *err);
// 1: target_modules (exclude_modules, layers_to_transform) names the module, 0: it does not, -1:
// the expression cannot be evaluated.
int adapter_config_targets(const struct adapter_config *c, const char *module, struct err *err);
// Does modules_to_save name it?
bool adapter_config_saves(const struct adapter_config *c, const char *module);

#endif
