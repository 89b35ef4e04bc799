// core/files/gguf_latent.c -- DeepSeek's language models in GGUF files: latent attention, and
// mixtures of experts (GLM-4.5, Qwen3, Qwen3.5 and Gemma 4 have such mixtures too).
// Files hold the experts of a layer in one tensor [E, out, in]; this code makes each expert a
// matrix, without copying. Newer files split kv_b_proj into Wk transposed, [H, R, nope], and Wv,
// [H, v, R]. This code joins both again. The result keeps their type, because products with bf16
// and with f32 weights sum in different orders; it is f32 if their types differ, or if either is a
// block type, because blocks cannot be transposed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/dtype.h"
#include "core/base/text.h"
#include "core/files/gguf_parts.h"

const struct gguf_name gguf_latent_names[] = {
    { "attn_q_a", "self_attn.q_a_proj", PLAIN },
    { "attn_q_a_norm", "self_attn.q_a_layernorm", PLAIN },
    { "attn_q_b", "self_attn.q_b_proj", PLAIN },
    { "attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa", PLAIN },
    { "attn_kv_a_norm", "self_attn.kv_a_layernorm", PLAIN },
    { "attn_kv_b", "self_attn.kv_b_proj", PLAIN },
    { "ffn_gate_inp", "mlp.gate", PLAIN },
    { "exp_probs_b", "mlp.gate.e_score_correction_bias", BARE },
    { "ffn_gate_shexp", "mlp.shared_experts.gate_proj", PLAIN },
    { "ffn_up_shexp", "mlp.shared_experts.up_proj", PLAIN },
    { "ffn_down_shexp", "mlp.shared_experts.down_proj", PLAIN },
    { "ffn_gate_exps", "mlp.experts.gate_proj", PLAIN }, // all in one (gguf_experts_put)
    { "ffn_up_exps", "mlp.experts.up_proj", PLAIN },
    { "ffn_down_exps", "mlp.experts.down_proj", PLAIN },
    { "ffn_gate_up_exps", "mlp.experts.gate_up_proj", PLAIN },
    { 0 },
};

void gguf_scored_read(struct gguf_config *c)
{
    config_int(c, "expert_count", "n_routed_experts", GGUF_NEEDED);
    config_int(c, "expert_used_count", "num_experts_per_tok", GGUF_NEEDED);
    config_int(c, "expert_shared_count", "n_shared_experts", 0);
    config_int(c, "expert_feed_forward_length", "moe_intermediate_size", GGUF_NEEDED);
    config_int(c, "leading_dense_block_count", "first_k_dense_replace", 0);
    config_int(c, "expert_group_count", "n_group", 1);
    config_int(c, "expert_group_used_count", "topk_group", 1);
    config_real(c, "expert_weights_scale", "routed_scaling_factor", 1);
    const int64_t scoring = config_value(c, "expert_gating_func", 0, 1);
    const bool normalise = config_flag(c, "expert_weights_norm");
    if (c->failed) return;
    cJSON_AddBoolToObject(c->to, "norm_topk_prob", normalise);
    cJSON_AddStringToObject(c->to, "scoring_func", scoring == 2 ? "sigmoid" : "softmax");
}

void gguf_latent_read(struct gguf_config *c)
{
    // In newer files, attention.key_length and attention.value_length are widths of the compressed
    // heads; the keys that end in _mla have the widths of the full heads.
    const int64_t rotary = config_value(c, "rope.dimension_count", 1, GGUF_NEEDED);
    const int64_t key = config_value(c, "attention.key_length", 1, GGUF_NEEDED);
    const int64_t value = config_value(c, "attention.value_length", 1, GGUF_NEEDED);
    const int64_t whole = config_value(c, "attention.key_length_mla", 1, key);
    const int64_t rank = config_value(c, "attention.q_lora_rank", 0, 0);
    config_int(c, "attention.kv_lora_rank", "kv_lora_rank", GGUF_NEEDED);
    cJSON_AddNumberToObject(c->to, "qk_rope_head_dim", (double)rotary);
    cJSON_AddNumberToObject(c->to, "qk_nope_head_dim", (double)(whole - rotary));
    config_int(c, "attention.value_length_mla", "v_head_dim", value);
    if (rank)
        cJSON_AddNumberToObject(c->to, "q_lora_rank", (double)rank);
    else
        cJSON_AddNullToObject(c->to, "q_lora_rank");
    gguf_scored_read(c);
}

// llama.cpp always divides by the sum of the chosen experts' scores.
void gguf_experts_read(struct gguf_config *c)
{
    char scoring[96];
    snprintf(scoring, sizeof scoring, "%s.expert_gating_func", c->arch);
    gguf_expect(c->file, scoring, 1); // softmax
    config_int(c, "expert_count", "num_experts", GGUF_NEEDED);
    config_int(c, "expert_used_count", "num_experts_per_tok", GGUF_NEEDED);
    config_int(c, "expert_feed_forward_length", "moe_intermediate_size", GGUF_NEEDED);
    cJSON_AddBoolToObject(c->to, "norm_topk_prob", true);
}

// --- tensors -------------------------------------------------------------------------------------

enum { TENSORS_MOST = 1 << 20 }; // of a file, with one for each expert

int gguf_experts_put(const struct safetensor *t, const char *start, const char *name,
                     struct renamed *r, struct err *err)
{
    // Each expert has one matrix, or two stacked ones (gate_up_proj).
    const char *const halves[] = { "gate_proj", "up_proj" };
    const int count = strcmp(name, "gate_up_proj") ? 1 : 2;
    if (t->rank != 3 || t->shape[0] < 1 || t->shape[1] % count)
        return err_set(err, "tensor '%s' must have three dimensions%s", t->name,
                       count == 2 ? " and an even number of rows" : "");
    if (t->shape[0] * count > TENSORS_MOST - (int64_t)r->count)
        return err_set(err,
                       "with the %lld experts of tensor '%s', the file has more than %d tensors",
                       (long long)t->shape[0], t->name, TENSORS_MOST);
    const uint64_t bytes = t->bytes / (uint64_t)t->shape[0] / (uint64_t)count;
    for (int64_t i = 0; i < t->shape[0] * count; i++) {
        struct safetensor *one =
            renamed_add(r, t,
                        xasprintf("%s%lld.%s.weight", start, (long long)(i / count),
                                  count == 1 ? name : halves[i % 2]));
        one->rank = 2;
        one->shape[0] = t->shape[1] / count, one->shape[1] = t->shape[2];
        one->data = (const char *)t->data + (uint64_t)i * bytes;
        one->bytes = bytes;
    }
    return 1;
}

static bool is_float(const struct safetensor *t)
{
    return t && t->rank == 3 && t->dtype >= 0 && t->dtype != DTYPE_I32;
}

// Returns the numbers of t: the file's data if t has this dtype, else (dtype f32) converted numbers
// in *made, which the caller frees. NULL: out of memory.
static const void *numbers_of(const struct safetensor *t, enum dtype dtype, float **made)
{
    const size_t count = (size_t)safetensor_count(t);
    if ((int)dtype == t->dtype) return t->data;
    *made = malloc(count * sizeof **made);
    if (*made) floats_from(*made, t->data, (enum dtype)t->dtype, count);
    return *made;
}

// Joins k [H, R, nope] and the v [H, v, R] of the same layer to kv_b_proj [H*(nope+v), R].
static int put_joined(const struct gguf *f, const struct safetensor *k, const char *start,
                      struct renamed *r, struct err *err)
{
    char *name =
        xasprintf("%.*sv_b.weight", (int)(strlen(k->name) - strlen("k_b.weight")), k->name);
    const struct safetensor *v = text_ends(k->name, ".weight") ? gguf_find(f, name) : NULL;
    free(name);
    if (!is_float(k) || !is_float(v) || v->shape[0] != k->shape[0] || v->shape[2] != k->shape[1])
        return err_set(err, "tensor '%s' does not fit the tensor attn_v_b of its layer", k->name);
    const bool alike = k->dtype == v->dtype && !dtype_in_blocks((enum dtype)k->dtype);
    const enum dtype dtype = alike ? (enum dtype)k->dtype : DTYPE_F32;
    const int64_t heads = k->shape[0], rank = k->shape[1], nope = k->shape[2];
    const size_t size = dtype_size(dtype), value_bytes = (size_t)(v->shape[1] * rank) * size;
    const uint64_t bytes = (uint64_t)(safetensor_count(k) + safetensor_count(v)) * size;
    float *made[2] = { 0 };
    const char *keys = numbers_of(k, dtype, &made[0]), *values = numbers_of(v, dtype, &made[1]);
    char *both = renamed_make(r, bytes), *to = both;
    const bool complete = both && keys && values;
    for (int64_t h = 0; complete && h < heads; h++) {
        for (int64_t i = 0; i < nope; i++)
            for (int64_t j = 0; j < rank; j++, to += size)
                memcpy(to, keys + (size_t)(j * nope + i) * size, size);
        memcpy(to, values, value_bytes);
        to += value_bytes;
        keys += (size_t)(rank * nope) * size;
        values += value_bytes;
    }
    free(made[0]);
    free(made[1]);
    if (!complete) return err_set(err, "out of memory for '%s'", k->name);
    struct safetensor *t = renamed_add(r, k, xasprintf("%sself_attn.kv_b_proj.weight", start));
    *t = (struct safetensor){ .name = t->name,
                              .stored = k->name,
                              .type = alike ? k->type : "F32",
                              .dtype = (int)dtype,
                              .rank = 2,
                              .shape = { heads * (nope + v->shape[1]), rank },
                              .data = both,
                              .bytes = bytes };
    return 1;
}

int gguf_latent_put(const struct gguf *f, const struct safetensor *t, const char *stem,
                    const char *start, struct renamed *r, struct err *err)
{
    static const char all[] = "mlp.experts.";
    const struct gguf_name *found = gguf_name_find(gguf_latent_names, stem);
    char experts[160];
    snprintf(experts, sizeof experts, "%s%s", start, all);
    if (found && !strncmp(found->hf, all, strlen(all)))
        return gguf_experts_put(t, experts, found->hf + strlen(all), r, err);
    if (!strcmp(stem, "attn_k_b")) return put_joined(f, t, start, r, err);
    return !strcmp(stem, "attn_v_b"); // put_joined adds it with attn_k_b
}
