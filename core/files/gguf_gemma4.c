// core/files/gguf_gemma4.c -- Gemma 4's language models in GGUF files.
//
// Facts: llama.cpp's conversion/gemma.py and src/models/gemma4.cpp. Easy to get wrong:
//   - key_length is the width of heads in layers without a sliding window, key_length_swa that of
//     the others;
//   - feed_forward_length and head_count_kv are lists if they differ between layers;
//   - rope_freqs holds the divisors of the layers without a window: 1 for pairs that rotate, 1e30
//     for those that do not;
//   - gains are stored as they are, unlike Gemma 3's.
// Files do not say whether the tokens of a picture see each other in both directions. In the
// published models they do exactly if layers have no inputs of their own.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/gguf_parts.h"

const struct gguf_name gguf_gemma4_names[] = {
    { "post_attention_norm", "post_attention_layernorm", PLAIN },
    { "ffn_norm", "pre_feedforward_layernorm", PLAIN },
    { "post_ffw_norm", "post_feedforward_layernorm", PLAIN },
    { "per_layer_token_embd", "embed_tokens_per_layer", PLAIN },
    { "per_layer_model_proj", "per_layer_model_projection", PLAIN },
    { "per_layer_proj_norm", "per_layer_projection_norm", PLAIN },
    { "inp_gate", "per_layer_input_gate", PLAIN },
    { "proj", "per_layer_projection", PLAIN },
    { "post_norm", "post_per_layer_input_norm", PLAIN },
    { "layer_output_scale", "layer_scalar", BARE },
    { "ffn_gate_inp", "router.proj", PLAIN },
    { "ffn_gate_inp.scale", "router.scale", BARE },
    { "ffn_down_exps.scale", "router.per_expert_scale", BARE },
    { "post_ffw_norm_1", "post_feedforward_layernorm_1", PLAIN },
    { "pre_ffw_norm_2", "pre_feedforward_layernorm_2", PLAIN },
    { "post_ffw_norm_2", "post_feedforward_layernorm_2", PLAIN },
    { "ffn_gate_up_exps", "experts.gate_proj", PLAIN }, // both in one tensor (gguf_gemma4_put)
    { "ffn_gate_up_exps", "experts.up_proj", PLAIN },
    { "ffn_down_exps", "experts.down_proj", PLAIN },
    { 0 },
};

int gguf_gemma4_put(const struct gguf *f, const struct safetensor *t, const char *stem,
                    const char *start, struct renamed *r, struct err *err)
{
    static const char *const stacks[][2] = { { "ffn_gate_up_exps", "gate_up_proj" },
                                             { "ffn_gate_exps", "gate_proj" },
                                             { "ffn_up_exps", "up_proj" },
                                             { "ffn_down_exps", "down_proj" } };
    char experts[160];
    snprintf(experts, sizeof experts, "%sexperts.", start);
    for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++)
        if (!strcmp(stem, stacks[i][0])) return gguf_experts_put(t, experts, stacks[i][1], r, err);
    return 0;
}

// Reads a key that is a number, or a list with one number per layer. value[0] becomes that of the
// layers with second[l] false, value[1] that of the others; if there are no such layers, both are
// equal.
static void read_two(struct gguf_config *c, const char *key, const bool *second, int64_t layers,
                     int64_t value[2])
{
    char whole[96];
    snprintf(whole, sizeof whole, "%s.%s", c->arch, key);
    const struct gguf_entry *e = gguf_entry(c->file, whole);
    const bool listed = e && e->type == GGUF_LIST;
    const struct gguf_entry *list = listed ? config_list(c, key, UINT16_MAX) : NULL;
    value[0] = value[1] = listed ? -1 : config_value(c, key, 1, GGUF_NEEDED);
    if (list && list->count < (uint64_t)layers)
        config_refuse(c, "'%s' has %llu members for %lld layers", whole,
                      (unsigned long long)list->count, (long long)layers);
    for (int64_t l = 0; list && !c->failed && l < layers; l++) {
        const double x = gguf_number(list, (uint64_t)l);
        int64_t *to = &value[second[l]];
        if (!(x >= 1 && x <= INT32_MAX) || (*to >= 0 && x != (double)*to))
            config_refuse(c, "'%s' is %g in layer %lld, which is not supported", whole, x,
                          (long long)l);
        else
            *to = (int64_t)x;
    }
    for (int i = 0; i < 2; i++)
        if (value[i] < 0) value[i] = value[1 - i];
}

// Sets "layer_types"; returns which layers have no window, or NULL. The caller frees the list.
static bool *read_types(struct gguf_config *c, int64_t layers)
{
    const struct gguf_entry *list = config_list(c, "attention.sliding_window_pattern", UINT16_MAX);
    if (!list || list->count < (uint64_t)layers)
        config_refuse(c,
                      "'%s.attention.sliding_window_pattern' must be a list that says for each of "
                      "%lld layers whether it has a sliding window",
                      c->arch, (long long)layers);
    if (c->failed) return NULL;
    bool *whole = xcalloc((size_t)layers + 1, sizeof *whole);
    cJSON *types = cJSON_AddArrayToObject(c->to, "layer_types");
    for (int64_t l = 0; l < layers; l++) {
        whole[l] = gguf_number(list, (uint64_t)l) == 0;
        cJSON_AddItemToArray(types,
                             cJSON_CreateString(whole[l] ? "full_attention" : "sliding_attention"));
    }
    return whole;
}

// Reads the width of the heads of one type of layers; values must be as wide, and all elements of a
// key must rotate.
static void read_width(struct gguf_config *c, const char *end, const char *hf)
{
    static const char *const keys[] = { "attention.key_length", "attention.value_length",
                                        "rope.dimension_count" };
    char key[64];
    int64_t width = GGUF_NEEDED;
    for (int i = 0; i < 3; i++) {
        snprintf(key, sizeof key, "%s%s", keys[i], end);
        const int64_t value = config_value(c, key, 1, width);
        if (i && value != width)
            config_refuse(c,
                          "'%s.%s' is %lld, but keys have a width of %lld; this is not supported",
                          c->arch, key, (long long)value, (long long)width);
        width = value;
    }
    cJSON_DeleteItemFromObjectCaseSensitive(c->to, hf);
    cJSON_AddNumberToObject(c->to, hf, (double)width);
}

// True if a layer without a window projects keys and values with one matrix.
static bool is_joint(const struct gguf_config *c, const bool *whole, int64_t own)
{
    char name[64];
    for (int64_t l = 0; l < own; l++) {
        snprintf(name, sizeof name, "blk.%lld.attn_v.weight", (long long)l);
        if (whole[l] && !gguf_find(c->file, name)) return true;
    }
    return false;
}

static void read_layers(struct gguf_config *c, const bool *whole, int64_t layers)
{
    const int64_t sharing = config_value(c, "attention.shared_kv_layers", 0, 0);
    const int64_t own = sharing < layers ? layers - sharing : 0;
    const bool joint = is_joint(c, whole, own);
    int64_t heads[2], ffn[2];
    bool *shares = xcalloc((size_t)layers + 1, sizeof *shares);
    for (int64_t l = own; l < layers; l++) shares[l] = true;
    read_two(c, "attention.head_count_kv", whole, layers, heads);
    read_two(c, "feed_forward_length", shares, layers, ffn);
    free(shares);
    if (!joint && heads[0] != heads[1])
        config_refuse(c,
                      "'%s.attention.head_count_kv' differs between layers that have matrices "
                      "of their own for values; this is not supported",
                      c->arch);
    if (ffn[0] != ffn[1] && ffn[1] != 2 * ffn[0])
        config_refuse(c,
                      "'%s.feed_forward_length' is %lld in layers that share keys and values and "
                      "%lld in the others; only twice the width is supported",
                      c->arch, (long long)ffn[1], (long long)ffn[0]);
    if (c->failed) return;
    cJSON_AddNumberToObject(c->to, "num_kv_shared_layers", (double)sharing);
    cJSON_AddNumberToObject(c->to, "num_key_value_heads", (double)heads[0]);
    cJSON_AddBoolToObject(c->to, "attention_k_eq_v", joint);
    if (joint) cJSON_AddNumberToObject(c->to, "num_global_key_value_heads", (double)heads[1]);
    cJSON_AddNumberToObject(c->to, "intermediate_size", (double)ffn[0]);
    cJSON_AddBoolToObject(c->to, "use_double_wide_mlp", ffn[0] != ffn[1]);
}

void gguf_gemma4_read(struct gguf_config *c)
{
    const struct safetensor *table = gguf_find(c->file, "per_layer_token_embd.weight");
    const cJSON *number = json_get(c->to, "num_hidden_layers");
    const int64_t layers = number ? (int64_t)number->valuedouble : 0;
    const int64_t inputs = config_value(c, "embedding_length_per_layer_input", 0, 0);
    bool *whole = read_types(c, layers);
    if (whole) read_layers(c, whole, layers);
    free(whole);
    if (!c->failed) read_width(c, "", "global_head_dim");
    if (!c->failed) read_width(c, "_swa", "head_dim");
    if (inputs && (!table || table->rank != 2)) {
        config_refuse(c, "tensor 'per_layer_token_embd.weight' is missing, or not a matrix");
        return;
    }
    if (gguf_find(c->file, "blk.0.ffn_gate_inp.weight")) {
        config_int(c, "expert_count", "num_experts", GGUF_NEEDED);
        config_int(c, "expert_used_count", "top_k_experts", GGUF_NEEDED);
        config_int(c, "expert_feed_forward_length", "moe_intermediate_size", GGUF_NEEDED);
        cJSON_AddBoolToObject(c->to, "enable_moe_block", true);
    }
    // Without divisors, all pairs rotate.
    if (!c->failed && !json_get(c->to, "rope_scaling"))
        cJSON_AddStringToObject(cJSON_AddObjectToObject(c->to, "rope_scaling"), "rope_type",
                                "default");
    config_real(c, "rope.freq_base_swa", "rope_local_base_freq", 10000);
    config_real(c, "final_logit_softcapping", "final_logit_softcapping", 0);
    if (c->failed) return;
    if (!json_get(c->to, "sliding_window")) cJSON_AddNullToObject(c->to, "sliding_window");
    cJSON_AddNumberToObject(c->to, "hidden_size_per_layer_input", (double)inputs);
    if (inputs)
        cJSON_AddNumberToObject(c->to, "vocab_size_per_layer_input", (double)table->shape[0]);
    else
        config_put_text(c->to, "use_bidirectional_attention", "vision");
}
