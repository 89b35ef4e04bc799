// core/model/config_keys.c -- refuses keys of config.json, or of a GGUF file's metadata, that
// change the result and that the model's family does not support.
//
// Tensors reveal most differences between architectures (core/model/unread.h), but not these keys.
// Keys that are neither listed here nor read anywhere count as harmless.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/model/layer.h"
#include "core/model/model.h"
#include "core/model/unread.h"

// The value of a key that has no effect; null never has one.
enum neutral {
    NOTHING, // 0, false, "" or an empty list
    NUMBER,  // `number`
    TRUE,
};

struct key {
    const char *name;
    enum neutral neutral;
    double number;
};

static const struct key text_keys[] = {
    // Caps and factors: Gemma, Granite, Cohere, MiniCPM, Falcon-H1.
    { "attn_logit_softcapping", NOTHING, 0 },
    { "final_logit_softcapping", NOTHING, 0 },
    { "router_logit_softcapping", NOTHING, 0 },
    { "embedding_multiplier", NUMBER, 1 },
    { "residual_multiplier", NUMBER, 1 },
    { "lm_head_multiplier", NUMBER, 1 },
    { "key_multiplier", NUMBER, 1 },
    { "attention_in_multiplier", NUMBER, 1 },
    { "attention_out_multiplier", NUMBER, 1 },
    { "logits_scaling", NUMBER, 1 },
    { "logit_scale", NUMBER, 1 },
    { "embedding_scale", NUMBER, 1 },
    { "residual_scale", NUMBER, 1 },
    { "scale_emb", NUMBER, 1 },
    { "scale_depth", NOTHING, 0 },
    { "dim_model_base", NOTHING, 0 },
    { "clip_qkv", NOTHING, 0 },
    { "swiglu_limit", NOTHING, 0 },
    { "apply_layernorm_1p", NOTHING, 0 },
    { "zero_centered_gamma", NOTHING, 0 },
    // Masks, and tensors that layers share.
    { "is_causal", TRUE, 0 },
    { "use_bidirectional_attention", NOTHING, 0 },
    { "add_cross_attention", NOTHING, 0 },
    { "cross_attention_layers", NOTHING, 0 },
    { "attention_chunk_size", NOTHING, 0 },
    { "index_topk", NOTHING, 0 },
    { "num_kv_shared_layers", NOTHING, 0 },
    { "use_cla", NOTHING, 0 },
    { "attention_k_eq_v", NOTHING, 0 },
    { "enable_moe_block", NOTHING, 0 },
    { "attn_output_gate", NOTHING, 0 },
    { "hidden_size_per_layer_input", NOTHING, 0 },
    { "parallel_attn", NOTHING, 0 },
    { "parallel_residual", NOTHING, 0 },
    { "use_parallel_residual", NOTHING, 0 },
    // Positions: Llama 4, SmolLM3, Gemma, GPT-NeoX, Falcon.
    { "alibi", NOTHING, 0 },
    { "use_alibi", NOTHING, 0 },
    { "rotary_pct", NUMBER, 1 },
    { "rope_pct", NUMBER, 1 },
    { "rope_local_base_freq", NOTHING, 0 },
    { "local_rope_theta", NOTHING, 0 },
    { "no_rope_layer_interval", NOTHING, 0 },
    { "attn_temperature_tuning", NOTHING, 0 },
    { "llama_4_scaling", NOTHING, 0 },
};

// Keys of rope_scaling and rope_parameters.
static const struct key rope_keys[] = {
    { "mrope_interleaved", NOTHING, 0 },
    { "llama_4_scaling_beta", NOTHING, 0 },
    { "full_attention", NOTHING, 0 }, // separate positions for each layer type
    { "sliding_attention", NOTHING, 0 },
};

// Keys that ask for head norms: refused for attention kinds without them.
static const struct key head_norm_keys[] = { { "use_qk_norm", NOTHING, 0 },
                                             { "qk_norm", NOTHING, 0 },
                                             { "qk_layernorm", NOTHING, 0 } };

static const struct key vision_keys[] = {
    { "use_moe", NOTHING, 0 },
    { "use_absolute_position_embeddings", TRUE, 0 },
    { "deepstack_visual_indexes", NOTHING, 0 },
    { "num_register_tokens", NOTHING, 0 },
    { "use_swiglu_ffn", NOTHING, 0 },
    { "rope_theta", NUMBER, 10000 },
};

// Keys of the encoder's rope_parameters, as transformers 5 writes them.
static const struct key vision_rope_keys[] = { { "rope_theta", NUMBER, 10000 } };

static bool is_neutral(const struct key *k, const cJSON *value)
{
    if (k->neutral == TRUE) return !cJSON_IsFalse(value);
    if (k->neutral == NUMBER)
        return cJSON_IsNumber(value) && fabs(value->valuedouble - k->number) <= 1e-6 * k->number;
    if (cJSON_IsNumber(value)) return value->valuedouble == 0;
    if (cJSON_IsString(value)) return !*value->valuestring;
    return cJSON_IsFalse(value) || (!cJSON_IsTrue(value) && !value->child);
}

// An object of the config, and the keys that its family supports.
struct section {
    const char *name; // NULL: the config itself
    const cJSON *json;
    const char *const *computed;
};

static int refuse(const struct section *p, const char *key, const cJSON *value, struct err *err)
{
    if (text_listed(p->computed, key)) return 0;
    char *text = json_print(value);
    err_set(err,
            "config.json%s%s: \"%s\" %.60s changes what the model computes, and its family does "
            "not support it: answers would be wrong",
            p->name ? ": " : "", p->name ? p->name : "", key, text);
    free(text);
    return -1;
}

static int check(const struct section *p, const struct key *keys, size_t count, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        const cJSON *value = json_get(p->json, keys[i].name);
        if (value && !is_neutral(&keys[i], value) && refuse(p, keys[i].name, value, err) < 0)
            return -1;
    }
    return 0;
}

// Unless the family supports their keys, refuses score scales other than 1 / sqrt(d).
static int check_score_scale(const struct section *p, const struct decoder_config *d,
                             struct err *err)
{
    static const struct {
        const char *key;
        double power; // of d
    } all[] = { { "query_pre_attn_scalar", 1 }, { "attention_multiplier", -0.5 } };
    for (int i = 0; i < 2; i++) {
        const cJSON *value = json_get(p->json, all[i].key);
        const double wanted = pow((double)d->dim, all[i].power);
        const bool usual =
            cJSON_IsNumber(value) && fabs(value->valuedouble - wanted) <= 1e-4 * wanted;
        if (value && !usual && refuse(p, all[i].key, value, err) < 0) return -1;
    }
    return 0;
}

// Unless the family supports them, refuses layers without rotary positions, and layers of types
// other than full and sliding attention: without attention ("linear_attention"), with chunked
// attention.
static int check_layers(const struct section *p, struct err *err)
{
    const cJSON *types = json_get(p->json, "layer_types");
    const cJSON *rotary = json_get(p->json, "no_rope_layers"); // 0: without rotation
    for (const cJSON *item = types ? types->child : NULL; item; item = item->next)
        if (cJSON_IsString(item) && strcmp(item->valuestring, "full_attention") != 0 &&
            strcmp(item->valuestring, "sliding_attention") != 0 &&
            refuse(p, "layer_types", item, err) < 0)
            return -1;
    for (const cJSON *item = rotary ? rotary->child : NULL; item; item = item->next)
        if (cJSON_IsNumber(item) && item->valuedouble == 0)
            return refuse(p, "no_rope_layers", item, err);
    return 0;
}

#define COUNT(keys) (sizeof(keys) / sizeof *(keys))

static int check_text(const struct section *p, const struct decoder_config *d, struct err *err)
{
    const struct attention_traits traits = decoder_traits(d);
    if (check(p, text_keys, COUNT(text_keys), err) < 0 ||
        (!traits.head_norms && check(p, head_norm_keys, COUNT(head_norm_keys), err) < 0) ||
        check_score_scale(p, d, err) < 0 || check_layers(p, err) < 0)
        return -1;
    // Gemma's key; "hidden_act" is read elsewhere.
    const cJSON *act = json_get(p->json, "hidden_activation");
    const char *name = cJSON_IsString(act) ? act->valuestring : "silu";
    if (strcmp(name, "silu") != 0 && strcmp(name, "swish") != 0 && !d->kind->gelu &&
        refuse(p, "hidden_activation", act, err) < 0)
        return -1;
    static const char *const names[] = { "rope_scaling", "rope_parameters" };
    for (int i = 0; i < 2; i++) {
        const struct section rope = { names[i], json_get(p->json, names[i]), p->computed };
        if (check(&rope, rope_keys, COUNT(rope_keys), err) < 0) return -1;
    }
    // "rope_interleaved" pairs adjacent elements.
    const cJSON *pairs = json_get(p->json, "rope_interleaved");
    const bool known = d->kind->rotary->interleaved || traits.interleaved;
    return cJSON_IsTrue(pairs) && !known ? refuse(p, "rope_interleaved", pairs, err) : 0;
}

int config_keys_check(const struct model *m, struct err *err)
{
    static const char *const texts[] = { NULL, "text_config", "llm_config" };
    const cJSON *config = m->checkpoint->config;
    const struct decoder_config *d = &m->decoder.config;
    if (checkpoint_keys_check(m->checkpoint, err) < 0) return -1;
    for (int i = 0; i < 3; i++) {
        const cJSON *json = texts[i] ? json_get(config, texts[i]) : config;
        if (check_text(&(struct section){ texts[i], json, d->kind->keys }, d, err) < 0) return -1;
    }
    if (!model_has_vision(m)) return 0;
    const struct vision_config *v = &m->vision.config;
    const struct section p = { "vision_config", json_get(config, "vision_config"), v->kind->keys };
    if (check(&p, vision_keys, COUNT(vision_keys), err) < 0) return -1;
    if (!v->kind->angles || v->theta > 0) return 0; // does not rotate, or has read the base
    const struct section rope = { "vision_config: rope_parameters",
                                  json_get(p.json, "rope_parameters"), p.computed };
    return check(&rope, vision_rope_keys, COUNT(vision_rope_keys), err);
}
