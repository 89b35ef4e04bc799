// core/files/gguf_latent.c -- DeepSeek's language models in GGUF files: latent attention and
// mixtures of experts.
//
// Files have the experts of a layer in one tensor [E, out, in]: here each is a matrix of its own,
// in place. Newer files have kv_b_proj in two: for each head Wk transposed, [H, R, nope], and Wv,
// [H, v, R]; they are put together again: in their own type, as products with bf16 and with f32
// weights add up in another order, or in f32 if they are in blocks, which cannot be transposed.
#include <stdlib.h>
#include <string.h>

#include "core/base/dtype.h"
#include "core/files/gguf_parts.h"

const struct gguf_name gguf_latent_names[] = {
    { .theirs = "attn_q_a", .ours = "self_attn.q_a_proj" },
    { .theirs = "attn_q_a_norm", .ours = "self_attn.q_a_layernorm" },
    { .theirs = "attn_q_b", .ours = "self_attn.q_b_proj" },
    { .theirs = "attn_kv_a_mqa", .ours = "self_attn.kv_a_proj_with_mqa" },
    { .theirs = "attn_kv_a_norm", .ours = "self_attn.kv_a_layernorm" },
    { .theirs = "attn_kv_b", .ours = "self_attn.kv_b_proj" },
    { .theirs = "ffn_gate_inp", .ours = "mlp.gate" },
    { .theirs = "exp_probs_b", .ours = "mlp.gate.e_score_correction_bias", .bare = true },
    { .theirs = "ffn_gate_shexp", .ours = "mlp.shared_experts.gate_proj" },
    { .theirs = "ffn_up_shexp", .ours = "mlp.shared_experts.up_proj" },
    { .theirs = "ffn_down_shexp", .ours = "mlp.shared_experts.down_proj" },
    { .theirs = "ffn_gate_exps", .ours = "mlp.experts.gate_proj" }, // all of them: put_experts
    { .theirs = "ffn_up_exps", .ours = "mlp.experts.up_proj" },
    { .theirs = "ffn_down_exps", .ours = "mlp.experts.down_proj" },
    { 0 },
};

// --- config --------------------------------------------------------------------------------------

static void put_number(cJSON *to, const char *key, int64_t value)
{
    cJSON_AddNumberToObject(to, key, (double)value);
}

// Widths of heads: newer files have those of the compressed form under the old keys.
static void read_heads(struct gguf_config *c)
{
    const int64_t turned = config_value(c, "rope.dimension_count", 1, GGUF_NEEDED);
    const int64_t key = config_value(c, "attention.key_length", 1, GGUF_NEEDED);
    const int64_t value = config_value(c, "attention.value_length", 1, GGUF_NEEDED);
    const int64_t whole = config_value(c, "attention.key_length_mla", 1, key);
    const int64_t ours = config_value(c, "attention.value_length_mla", 1, value);
    const int64_t rank = config_value(c, "attention.q_lora_rank", 0, 0);
    config_int(c, "attention.kv_lora_rank", "kv_lora_rank", GGUF_NEEDED);
    if (c->failed) return;
    put_number(c->to, "qk_rope_head_dim", turned);
    put_number(c->to, "qk_nope_head_dim", whole - turned);
    put_number(c->to, "v_head_dim", ours);
    if (rank)
        put_number(c->to, "q_lora_rank", rank);
    else
        cJSON_AddNullToObject(c->to, "q_lora_rank");
}

void gguf_latent_read(struct gguf_config *c)
{
    bool normalise = false;
    read_heads(c);
    config_int(c, "expert_count", "n_routed_experts", GGUF_NEEDED);
    config_int(c, "expert_used_count", "num_experts_per_tok", GGUF_NEEDED);
    config_int(c, "expert_shared_count", "n_shared_experts", 0);
    config_int(c, "expert_feed_forward_length", "moe_intermediate_size", GGUF_NEEDED);
    config_int(c, "leading_dense_block_count", "first_k_dense_replace", 0);
    config_int(c, "expert_group_count", "n_group", 1);
    config_int(c, "expert_group_used_count", "topk_group", 1);
    config_real(c, "expert_weights_scale", "routed_scaling_factor", 1);
    const int64_t scoring = config_value(c, "expert_gating_func", 0, 1);
    if (!c->failed)
        c->failed =
            gguf_bool(c->file, "deepseek2.expert_weights_norm", false, &normalise, c->err) < 0;
    if (c->failed) return;
    cJSON_AddBoolToObject(c->to, "norm_topk_prob", normalise);
    cJSON_AddStringToObject(c->to, "scoring_func", scoring == 2 ? "sigmoid" : "softmax");
}

// --- tensors -------------------------------------------------------------------------------------

static int put_experts(const struct safetensor *t, const char *start, const char *name,
                       struct renamed *r, struct err *err)
{
    if (t->rank != 3) return err_set(err, "tensor '%s' does not have three dimensions", t->name);
    const uint64_t bytes = t->bytes / (uint64_t)t->shape[0];
    for (int64_t i = 0; i < t->shape[0]; i++) {
        struct safetensor *one =
            renamed_add(r, t, xasprintf("%smlp.experts.%lld.%s.weight", start, (long long)i, name));
        one->rank = 2;
        one->shape[0] = t->shape[1], one->shape[1] = t->shape[2];
        one->data = (const char *)t->data + (uint64_t)i * bytes;
        one->bytes = bytes;
    }
    return 1;
}

static bool is_float(const struct safetensor *t)
{
    return t && t->rank == 3 && t->dtype >= 0 && t->dtype != DTYPE_I32;
}

static uint64_t count_of(const struct safetensor *t)
{
    return (uint64_t)(t->shape[0] * t->shape[1] * t->shape[2]);
}

// The numbers of t in `dtype`: its own ones, or a copy in f32, in *made; NULL: out of memory.
static const void *numbers_of(const struct safetensor *t, enum dtype dtype, float **made)
{
    if ((int)dtype == t->dtype) return t->data;
    *made = malloc(count_of(t) * sizeof **made);
    if (*made) floats_from(*made, t->data, (enum dtype)t->dtype, count_of(t));
    return *made;
}

// k[H,R,nope] and v[H,v,R], of `size` bytes a number, to [H*(nope+v),R].
static void join_heads(char *to, const char *k, const char *v, const int64_t *k_shape, int64_t wide,
                       size_t size)
{
    const int64_t heads = k_shape[0], rank = k_shape[1], nope = k_shape[2];
    const size_t value_bytes = (size_t)(wide * rank) * size;
    for (int64_t h = 0; h < heads; h++, k += (size_t)(rank * nope) * size, v += value_bytes) {
        for (int64_t i = 0; i < nope; i++)
            for (int64_t j = 0; j < rank; j++, to += size)
                memcpy(to, k + (size_t)(j * nope + i) * size, size);
        memcpy(to, v, value_bytes);
        to += value_bytes;
    }
}

static int put_joined(const struct gguf *f, const struct safetensor *k, const char *start,
                      struct renamed *r, struct err *err)
{
    char *name =
        xasprintf("%.*sv_b.weight", (int)(strlen(k->name) - strlen("k_b.weight")), k->name);
    const struct safetensor *v = gguf_find(f, name);
    free(name);
    if (!is_float(k) || !is_float(v) || v->shape[0] != k->shape[0] || v->shape[2] != k->shape[1])
        return err_set(err, "tensor '%s' does not fit its attn_v_b", k->name);
    const bool alike = k->dtype == v->dtype && !dtype_in_blocks((enum dtype)k->dtype);
    const enum dtype dtype = alike ? (enum dtype)k->dtype : DTYPE_F32;
    const uint64_t bytes = (count_of(k) + count_of(v)) * dtype_size(dtype);
    float *made[2] = { 0 };
    const char *keys = numbers_of(k, dtype, &made[0]), *values = numbers_of(v, dtype, &made[1]);
    char *both = renamed_make(r, bytes);
    const bool there = both && keys && values;
    if (there) join_heads(both, keys, values, k->shape, v->shape[1], dtype_size(dtype));
    free(made[0]);
    free(made[1]);
    if (!there) return err_set(err, "out of memory for '%s'", k->name);
    struct safetensor *t = renamed_add(r, k, xasprintf("%sself_attn.kv_b_proj.weight", start));
    *t = (struct safetensor){ .name = t->name,
                              .stored = k->name,
                              .type = alike ? k->type : "F32",
                              .dtype = (int)dtype,
                              .rank = 2,
                              .shape = { k->shape[0] * (k->shape[2] + v->shape[1]), k->shape[1] },
                              .data = both,
                              .bytes = bytes };
    return 1;
}

int gguf_latent_put(const struct gguf *f, const struct safetensor *t, const char *stem,
                    const char *start, struct renamed *r, struct err *err)
{
    static const char all[] = "mlp.experts.";
    const struct gguf_name *found = gguf_name_find(gguf_latent_names, stem);
    if (found && !strncmp(found->ours, all, strlen(all)))
        return put_experts(t, start, found->ours + strlen(all), r, err);
    if (!strcmp(stem, "attn_k_b")) return put_joined(f, t, start, r, err);
    return !strcmp(stem, "attn_v_b"); // with attn_k_b
}
