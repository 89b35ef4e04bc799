// core/files/gguf_delta.c -- Qwen3.5's language models in GGUF files: layers with Gated DeltaNet, a
// shared expert with a gate.
//
// Facts: llama.cpp's conversion/qwen.py and src/models/qwen35.cpp. Easy to get wrong:
//   - gains are stored as 1 + w, except that of the recurrence's outputs;
//   - with more value heads than key heads, file value head r * Hk + g is Hugging Face's head
//     g * (Hv/Hk) + r in every tensor that has value heads. The recurrence computes heads in this
//     order (delta_config.alternate), so that the matrices stay in the mapped file.
#include <math.h>
#include <string.h>

#include "core/base/dtype.h"
#include "core/files/gguf_parts.h"

const struct gguf_name gguf_delta_names[] = {
    { "output_norm", "norm", LESS_1 },
    { "attn_norm", "input_layernorm", LESS_1 },
    { "post_attention_norm", "post_attention_layernorm", LESS_1 },
    { "attn_q_norm", "self_attn.q_norm", LESS_1 },
    { "attn_k_norm", "self_attn.k_norm", LESS_1 },
    { "attn_qkv", "linear_attn.in_proj_qkv", PLAIN },
    { "attn_gate", "linear_attn.in_proj_z", PLAIN },
    { "ssm_alpha", "linear_attn.in_proj_a", PLAIN },
    { "ssm_beta", "linear_attn.in_proj_b", PLAIN },
    { "ssm_conv1d", "linear_attn.conv1d", PLAIN },
    { "ssm_dt", "linear_attn.dt_bias", BARE },
    { "ssm_a", "linear_attn.A_log", BARE },
    { "ssm_norm", "linear_attn.norm", PLAIN },
    { "ssm_out", "linear_attn.out_proj", PLAIN },
    { "ffn_gate_shexp", "mlp.shared_expert.gate_proj", PLAIN },
    { "ffn_up_shexp", "mlp.shared_expert.up_proj", PLAIN },
    { "ffn_down_shexp", "mlp.shared_expert.down_proj", PLAIN },
    { "ffn_gate_inp_shexp", "mlp.shared_expert_gate", PLAIN }, // a vector in the file
    { 0 },
};

// Sets the interval of the layers with attention, and "layer_types" if the file lists the recurrent
// layers.
static void read_types(struct gguf_config *c)
{
    const cJSON *number = json_get(c->to, "num_hidden_layers");
    const struct gguf_entry *list = config_list(c, "attention.recurrent_layers", UINT16_MAX);
    config_int(c, "full_attention_interval", "full_attention_interval", 4);
    if (c->failed || !list || !list->count || !number) return;
    const int64_t layers = (int64_t)number->valuedouble;
    if (list->count < (uint64_t)layers) {
        config_refuse(c, "'%s.attention.recurrent_layers' has %llu members for %lld layers",
                      c->arch, (unsigned long long)list->count, (long long)layers);
        return;
    }
    cJSON *types = cJSON_AddArrayToObject(c->to, "layer_types");
    for (uint64_t l = 0; l < (uint64_t)layers; l++)
        cJSON_AddItemToArray(
            types,
            cJSON_CreateString(gguf_number(list, l) != 0 ? "linear_attention" : "full_attention"));
}

static void read_rotary(struct gguf_config *c)
{
    const cJSON *width = json_get(c->to, "head_dim");
    const int64_t rotary = config_value(c, "rope.dimension_count", 2, GGUF_NEEDED);
    const struct gguf_entry *sections = config_list(c, "rope.dimension_sections", 4);
    if (c->failed || !width) return;
    cJSON_AddNumberToObject(c->to, "partial_rotary_factor", (double)rotary / width->valuedouble);
    if (!sections || sections->count < 3) {
        config_refuse(c, "'%s.rope.dimension_sections' is missing", c->arch);
        return;
    }
    cJSON *scaling = cJSON_GetObjectItemCaseSensitive(c->to, "rope_scaling");
    if (!scaling) scaling = cJSON_AddObjectToObject(c->to, "rope_scaling");
    config_put_list(scaling, "mrope_section", sections, 3);
}

void gguf_delta_read(struct gguf_config *c)
{
    const int64_t key_heads = config_value(c, "ssm.group_count", 1, GGUF_NEEDED);
    const int64_t heads = config_value(c, "ssm.time_step_rank", 1, GGUF_NEEDED);
    const int64_t values = config_value(c, "ssm.inner_size", 1, GGUF_NEEDED);
    config_int(c, "ssm.state_size", "linear_key_head_dim", GGUF_NEEDED);
    config_int(c, "ssm.conv_kernel", "linear_conv_kernel_dim", GGUF_NEEDED);
    if (!c->failed && values % heads)
        config_refuse(c, "'%s.ssm.inner_size' is %lld, not a multiple of %lld heads", c->arch,
                      (long long)values, (long long)heads);
    if (c->failed) return;
    cJSON_AddNumberToObject(c->to, "linear_num_key_heads", (double)key_heads);
    cJSON_AddNumberToObject(c->to, "linear_num_value_heads", (double)heads);
    const int64_t width = values / heads;
    cJSON_AddNumberToObject(c->to, "linear_value_head_dim", (double)width);
    cJSON_AddBoolToObject(c->to, GGUF_ALTERNATE, heads != key_heads);
    read_types(c);
    read_rotary(c);
}

void gguf_delta_experts_read(struct gguf_config *c)
{
    gguf_delta_read(c);
    gguf_experts_read(c);
    config_int(c, "expert_shared_feed_forward_length", "shared_expert_intermediate_size",
               GGUF_NEEDED);
}

// Adds A_log = log(-ssm_a).
static int put_rates(const struct safetensor *t, const char *start, struct renamed *r,
                     struct err *err)
{
    struct safetensor *to = renamed_add(r, t, xasprintf("%slinear_attn.A_log", start));
    if (t->rank != 1 || t->dtype != DTYPE_F32)
        return err_set(err, "tensor '%.200s' is not a vector of f32", t->name);
    float *numbers = renamed_make(r, t->bytes + 1);
    if (!numbers) return err_set(err, "out of memory for tensor '%.200s'", t->name);
    memcpy(numbers, t->data, t->bytes);
    for (uint64_t i = 0; i < t->bytes / sizeof *numbers; i++) {
        if (!(numbers[i] < 0) || !isfinite(numbers[i]))
            return err_set(err, "tensor '%.200s' has the number %g: all must be negative", t->name,
                           (double)numbers[i]);
        numbers[i] = logf(-numbers[i]);
    }
    to->data = numbers;
    return 1;
}

int gguf_delta_put(const struct gguf *f, const struct safetensor *t, const char *stem,
                   const char *start, struct renamed *r, struct err *err)
{
    if (!strcmp(stem, "ssm_a")) return put_rates(t, start, r, err);
    if (!strcmp(stem, "ffn_gate_inp_shexp") && t->rank == 1) {
        struct safetensor *row =
            renamed_add(r, t, xasprintf("%smlp.shared_expert_gate.weight", start));
        row->rank = 2;
        row->shape[1] = t->shape[0];
        row->shape[0] = 1;
        return 1;
    }
    if (strcmp(stem, "ssm_conv1d") != 0) return gguf_latent_put(f, t, stem, start, r, err);
    if (t->rank != 2) return err_set(err, "tensor '%.200s' is not a matrix", t->name);
    struct safetensor *to = renamed_add(r, t, xasprintf("%slinear_attn.conv1d.weight", start));
    to->rank = 3;
    to->shape[2] = t->shape[1];
    to->shape[1] = 1;
    return 1;
}
