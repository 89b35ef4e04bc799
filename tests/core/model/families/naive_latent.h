// tests/core/model/families/naive_latent.h -- a second implementation of latent attention and
// mixtures of experts: a small random model of any such shape, its folder, and its results,
// computed in loops over doubles that share no code with the program.
#ifndef TESTS_CORE_MODEL_FAMILIES_NAIVE_LATENT_H
#define TESTS_CORE_MODEL_FAMILIES_NAIVE_LATENT_H

#include <math.h>
#include <string.h>

#include "core/base/random.h"
#include "core/files/safetensors.h"
#include "tests/core/scratch.h"

enum { NAIVE_WORDS = 569, NAIVE_TENSORS = 512 }; // NAIVE_WORDS: size of the vocabulary it borrows

// The sizes; naive_config has their keys in config.json.
struct naive_shape {
    int layers, hidden, heads, q_rank, rank, nope, rope, value, ffn;
    int experts, per_token, shared, width, dense, groups, groups_per_token;
    bool normalise, bias;
    double scale, theta;
    double factor, original, mscale, mscale_all; // yarn; factor 0: no yarn
};

struct naive_tensor {
    char name[96];
    int64_t rows, columns; // columns 0: a vector
    double *data;
};

struct naive {
    struct naive_shape s;
    struct naive_tensor tensor[NAIVE_TENSORS];
    int count;
};

// --- the model -----------------------------------------------------------------------------------

__attribute__((format(printf, 4, 5))) static inline void naive_add(struct naive *m, int64_t rows,
                                                                   int64_t columns,
                                                                   const char *format, ...)
{
    struct naive_tensor *t = &m->tensor[m->count];
    const int64_t n = rows * (columns ? columns : 1);
    va_list args;
    va_start(args, format);
    vsnprintf(t->name, sizeof t->name, format, args);
    va_end(args);
    t->rows = rows, t->columns = columns;
    t->data = xreallocarray(NULL, (size_t)n, sizeof *t->data);
    const bool gain = !columns && strstr(t->name, "norm");
    for (int64_t i = 0; i < n; i++) { // float32, as in the file
        const double noise = random_unit((uint64_t)m->count, RANDOM_WEIGHTS, (uint64_t)i) - 0.5;
        t->data[i] = (float)((gain ? 1 : 0) + 0.7 * noise);
    }
    m->count++;
}

static inline void naive_add_gated(struct naive *m, const char *name, int layer, int expert,
                                   int64_t width)
{
    char at[64];
    snprintf(at, sizeof at, expert < 0 ? "model.layers.%d.%s" : "model.layers.%d.%s.%d", layer,
             name, expert);
    naive_add(m, width, m->s.hidden, "%s.gate_proj.weight", at);
    naive_add(m, width, m->s.hidden, "%s.up_proj.weight", at);
    naive_add(m, m->s.hidden, width, "%s.down_proj.weight", at);
}

static inline void naive_add_attention(struct naive *m, int l)
{
    const struct naive_shape *s = &m->s;
    const int64_t H = s->heads, d = s->nope + s->rope;
    if (s->q_rank) {
        naive_add(m, s->q_rank, s->hidden, "model.layers.%d.self_attn.q_a_proj.weight", l);
        if (s->bias) naive_add(m, s->q_rank, 0, "model.layers.%d.self_attn.q_a_proj.bias", l);
        naive_add(m, s->q_rank, 0, "model.layers.%d.self_attn.q_a_layernorm.weight", l);
        naive_add(m, H * d, s->q_rank, "model.layers.%d.self_attn.q_b_proj.weight", l);
    } else {
        naive_add(m, H * d, s->hidden, "model.layers.%d.self_attn.q_proj.weight", l);
    }
    naive_add(m, s->rank + s->rope, s->hidden,
              "model.layers.%d.self_attn.kv_a_proj_with_mqa.weight", l);
    naive_add(m, s->rank, 0, "model.layers.%d.self_attn.kv_a_layernorm.weight", l);
    naive_add(m, H * (s->nope + s->value), s->rank, "model.layers.%d.self_attn.kv_b_proj.weight",
              l);
    naive_add(m, s->hidden, H * s->value, "model.layers.%d.self_attn.o_proj.weight", l);
    if (!s->bias) return;
    naive_add(m, s->rank + s->rope, 0, "model.layers.%d.self_attn.kv_a_proj_with_mqa.bias", l);
    naive_add(m, s->hidden, 0, "model.layers.%d.self_attn.o_proj.bias", l);
}

static inline void naive_open(struct naive *m, const struct naive_shape *s)
{
    *m = (struct naive){ .s = *s };
    naive_add(m, NAIVE_WORDS, s->hidden, "model.embed_tokens.weight");
    for (int l = 0; l < s->layers; l++) {
        naive_add(m, s->hidden, 0, "model.layers.%d.input_layernorm.weight", l);
        naive_add_attention(m, l);
        naive_add(m, s->hidden, 0, "model.layers.%d.post_attention_layernorm.weight", l);
        if (l < s->dense) {
            naive_add_gated(m, "mlp", l, -1, s->ffn);
            continue;
        }
        naive_add(m, s->experts, s->hidden, "model.layers.%d.mlp.gate.weight", l);
        naive_add(m, s->experts, 0, "model.layers.%d.mlp.gate.e_score_correction_bias", l);
        if (s->shared) naive_add_gated(m, "mlp.shared_experts", l, -1, s->shared * s->width);
        for (int e = 0; e < s->experts; e++) naive_add_gated(m, "mlp.experts", l, e, s->width);
    }
    naive_add(m, s->hidden, 0, "model.norm.weight");
    naive_add(m, NAIVE_WORDS, s->hidden, "lm_head.weight");
}

static inline void naive_close(struct naive *m)
{
    for (int i = 0; i < m->count; i++) free(m->tensor[i].data);
}

__attribute__((format(printf, 2, 3))) static inline struct naive_tensor *naive_find(
    struct naive *m, const char *format, ...)
{
    char name[96];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    for (int i = 0; i < m->count; i++)
        if (!strcmp(m->tensor[i].name, name)) return &m->tensor[i];
    return NULL;
}

// --- the folder ----------------------------------------------------------------------------------

static inline void naive_config(const struct naive_shape *s, const char *folder)
{
    char q_rank[16], yarn[200] = "null";
    if (s->factor > 0)
        snprintf(yarn, sizeof yarn,
                 "{\"type\": \"yarn\", \"factor\": %g, \"original_max_position_embeddings\": %g, "
                 "\"beta_fast\": 32, \"beta_slow\": 1, \"mscale\": %g, \"mscale_all_dim\": %g}",
                 s->factor, s->original, s->mscale, s->mscale_all);
    snprintf(q_rank, sizeof q_rank, s->q_rank ? "%d" : "null", s->q_rank);
    char *config = xasprintf(
        "{\"architectures\": [\"DeepseekV3ForCausalLM\"], \"model_type\": \"deepseek_v3\", "
        "\"hidden_size\": %d, \"num_attention_heads\": %d, \"num_key_value_heads\": %d, "
        "\"intermediate_size\": %d, \"num_hidden_layers\": %d, \"vocab_size\": %d, "
        "\"q_lora_rank\": %s, \"kv_lora_rank\": %d, \"qk_nope_head_dim\": %d, "
        "\"qk_rope_head_dim\": %d, \"v_head_dim\": %d, \"n_routed_experts\": %d, "
        "\"num_experts_per_tok\": %d, \"n_shared_experts\": %d, \"moe_intermediate_size\": %d, "
        "\"first_k_dense_replace\": %d, \"n_group\": %d, \"topk_group\": %d, "
        "\"norm_topk_prob\": %s, \"attention_bias\": %s, \"routed_scaling_factor\": %g, "
        "\"max_position_embeddings\": 4096, \"rms_norm_eps\": 1e-5, \"rope_theta\": %g, "
        "\"rope_scaling\": %s, \"bos_token_id\": 560, \"eos_token_id\": 561}",
        s->hidden, s->heads, s->heads, s->ffn, s->layers, NAIVE_WORDS, q_rank, s->rank, s->nope,
        s->rope, s->value, s->experts, s->per_token, s->shared, s->width, s->dense, s->groups,
        s->groups_per_token, s->normalise ? "true" : "false", s->bias ? "true" : "false", s->scale,
        s->theta, yarn);
    scratch_text(folder, "config.json", config);
    free(config);
}

// One tensor of the file: a tensor of the model or, with `stacked`, those of all experts of a
// layer.
struct naive_entry {
    char name[96];
    int rank;
    int64_t shape[3];
    const struct naive_tensor *part[256]; // stored one after the other
    int parts;
};

static inline void naive_put_entry(struct safetensors_writer *w, const struct naive_entry *e,
                                   bool data)
{
    struct err err = { 0 };
    if (!data) {
        safetensors_writer_declare(w, e->name, DTYPE_F32, e->rank, e->shape);
        return;
    }
    for (int p = 0; p < e->parts; p++) {
        const struct naive_tensor *t = e->part[p];
        for (int64_t i = 0; i < t->rows * (t->columns ? t->columns : 1); i++) {
            const float value = (float)t->data[i];
            safetensors_writer_data(w, &value, sizeof value, &err);
        }
    }
}

// The experts of layer l as in transformers 5: gate rows first, then up rows.
static inline void naive_put_stacks(struct naive *m, struct safetensors_writer *w, int l, bool data)
{
    const struct naive_shape *s = &m->s;
    struct naive_entry up = { .rank = 3, .shape = { s->experts, 2L * s->width, s->hidden } };
    struct naive_entry down = { .rank = 3, .shape = { s->experts, s->hidden, s->width } };
    snprintf(up.name, sizeof up.name, "model.layers.%d.mlp.experts.gate_up_proj", l);
    snprintf(down.name, sizeof down.name, "model.layers.%d.mlp.experts.down_proj", l);
    for (int e = 0; e < s->experts; e++) {
        up.part[up.parts++] =
            naive_find(m, "model.layers.%d.mlp.experts.%d.gate_proj.weight", l, e);
        up.part[up.parts++] = naive_find(m, "model.layers.%d.mlp.experts.%d.up_proj.weight", l, e);
        down.part[down.parts++] =
            naive_find(m, "model.layers.%d.mlp.experts.%d.down_proj.weight", l, e);
    }
    naive_put_entry(w, &up, data);
    naive_put_entry(w, &down, data);
}

static inline void naive_write(struct naive *m, const char *folder, bool stacked)
{
    static const char *const files[] = { "tokenizer.json", "tokenizer_config.json" };
    struct err err = { 0 };
    naive_config(&m->s, folder);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        scratch_copy(folder, "tests/goldens/llama-3.2", files[i]);
    char *path = xasprintf("%s/model.safetensors", folder);
    struct safetensors_writer *w = safetensors_writer_new(path);
    for (int data = 0; data < 2; data++) {
        for (int i = 0; i < m->count; i++) {
            const struct naive_tensor *t = &m->tensor[i];
            struct naive_entry one = { .rank = t->columns ? 2 : 1, .parts = 1, .part = { t } };
            one.shape[0] = t->rows, one.shape[1] = t->columns;
            memcpy(one.name, t->name, sizeof one.name);
            if (!stacked || !strstr(t->name, ".experts.")) naive_put_entry(w, &one, data);
        }
        for (int l = m->s.dense; stacked && l < m->s.layers; l++) naive_put_stacks(m, w, l, data);
    }
    if (safetensors_writer_finish(w, &err) < 0) fatal("%s", err.text);
    free(path);
}

// --- the pass ------------------------------------------------------------------------------------

// y [rows] = W x + bias (or NULL)
static inline void naive_product(double *y, const struct naive_tensor *w,
                                 const struct naive_tensor *bias, const double *x)
{
    for (int64_t r = 0; r < w->rows; r++) {
        y[r] = bias ? bias->data[r] : 0;
        for (int64_t c = 0; c < w->columns; c++) y[r] += w->data[r * w->columns + c] * x[c];
    }
}

static inline void naive_norm(double *y, const double *x, const struct naive_tensor *gain,
                              double eps)
{
    double squares = 0;
    for (int64_t i = 0; i < gain->rows; i++) squares += x[i] * x[i];
    for (int64_t i = 0; i < gain->rows; i++)
        y[i] = x[i] * gain->data[i] / sqrt(squares / (double)gain->rows + eps);
}

// YaRN as in its paper: pairs that turn 32 times or more in the original context stay, those that
// turn once or less are interpolated, with a linear ramp in between.
static inline double naive_frequency(const struct naive_shape *s, int pair)
{
    const double f = pow(s->theta, -2.0 * pair / s->rope), pairs = s->rope / 2.0;
    if (s->factor <= 0) return f;
    double from = floor(pairs * log(s->original / (2 * M_PI * 32)) / log(s->theta));
    double to = ceil(pairs * log(s->original / (2 * M_PI)) / log(s->theta));
    if (from < 0) from = 0;
    if (to > s->rope - 1) to = s->rope - 1;
    const double share = pair <= from ? 0 : pair >= to ? 1 : (pair - from) / (to - from);
    return f * (1 - share) + f / s->factor * share;
}

static inline double naive_gain(const struct naive_shape *s, double share)
{
    return s->factor > 0 ? 1 + share * log(s->factor) / 10 : 1;
}

// Rotates pairs 2i, 2i + 1 of x [rope] by the angles of a position and scales them as yarn does.
static inline void naive_rotate(double *x, const struct naive_shape *s, int64_t position)
{
    for (int i = 0; i < s->rope / 2; i++) {
        const double angle = (double)position * naive_frequency(s, i);
        const double gain = naive_gain(s, s->mscale) / naive_gain(s, s->mscale_all);
        const double a = gain * x[2 * i], b = gain * x[2 * i + 1];
        x[2 * i] = a * cos(angle) - b * sin(angle);
        x[2 * i + 1] = b * cos(angle) + a * sin(angle);
    }
}

#define NAIVE_LAYER(suffix) naive_find(m, "model.layers.%d." suffix, l)

// Queries [H, d], keys [H, d] and values [H, v] of one row x [D].
static inline void naive_row(struct naive *m, int l, const double *x, int64_t position, double *q,
                             double *k, double *v)
{
    const struct naive_shape *s = &m->s;
    const int d = s->nope + s->rope, wide = s->nope + s->value;
    double *low = xcalloc((size_t)(s->q_rank + s->rank + s->rope + s->heads * wide), sizeof *low);
    double *latent = low + s->q_rank, *both = latent + s->rank + s->rope;
    if (s->q_rank) {
        naive_product(low, NAIVE_LAYER("self_attn.q_a_proj.weight"),
                      NAIVE_LAYER("self_attn.q_a_proj.bias"), x);
        naive_norm(low, low, NAIVE_LAYER("self_attn.q_a_layernorm.weight"), 1e-6);
        naive_product(q, NAIVE_LAYER("self_attn.q_b_proj.weight"), NULL, low);
    } else {
        naive_product(q, NAIVE_LAYER("self_attn.q_proj.weight"), NULL, x);
    }
    naive_product(latent, NAIVE_LAYER("self_attn.kv_a_proj_with_mqa.weight"),
                  NAIVE_LAYER("self_attn.kv_a_proj_with_mqa.bias"), x);
    naive_rotate(latent + s->rank, s, position);
    naive_norm(latent, latent, NAIVE_LAYER("self_attn.kv_a_layernorm.weight"), 1e-6);
    naive_product(both, NAIVE_LAYER("self_attn.kv_b_proj.weight"), NULL, latent);
    for (int h = 0; h < s->heads; h++) {
        naive_rotate(q + h * d + s->nope, s, position);
        memcpy(k + h * d, both + h * wide, (size_t)s->nope * sizeof *k);
        memcpy(k + h * d + s->nope, latent + s->rank, (size_t)s->rope * sizeof *k);
        memcpy(v + h * s->value, both + h * wide + s->nope, (size_t)s->value * sizeof *v);
    }
    free(low);
}

// h [n, D] += o(attention of the norm of h).
static inline void naive_attend(struct naive *m, int l, double *h, int64_t n)
{
    const struct naive_shape *s = &m->s;
    const int64_t d = s->nope + s->rope, D = s->hidden, H = s->heads, V = s->value;
    double *q = xcalloc((size_t)(n * H * (2 * d + 2 * V) + n + 2 * D), sizeof *q);
    double *k = q + n * H * d, *v = k + n * H * d, *a = v + n * H * V, *p = a + n * H * V;
    double *x = p + n;
    for (int64_t i = 0; i < n; i++) {
        naive_norm(x, h + i * D, NAIVE_LAYER("input_layernorm.weight"), 1e-5);
        naive_row(m, l, x, i, q + i * H * d, k + i * H * d, v + i * H * V);
    }
    for (int64_t i = 0; i < n * H; i++) {
        const int64_t row = i / H, head = i % H;
        double sum = 0;
        for (int64_t j = 0; j <= row; j++) {
            p[j] = 0;
            for (int64_t e = 0; e < d; e++) p[j] += q[i * d + e] * k[(j * H + head) * d + e];
            const double gain = naive_gain(s, s->mscale_all);
            sum += p[j] = exp(p[j] * gain * gain / sqrt((double)d));
        }
        for (int64_t j = 0; j <= row; j++)
            for (int64_t e = 0; e < V; e++) a[i * V + e] += p[j] / sum * v[(j * H + head) * V + e];
    }
    for (int64_t i = 0; i < n; i++) {
        naive_product(x, NAIVE_LAYER("self_attn.o_proj.weight"),
                      NAIVE_LAYER("self_attn.o_proj.bias"), a + i * H * V);
        for (int64_t e = 0; e < D; e++) h[i * D + e] += x[e];
    }
    free(q);
}

// y [D] += weight * down(silu(gate x) * up x) of the FFN with that name.
static inline void naive_gated(struct naive *m, const char *at, double weight, const double *x,
                               double *y)
{
    const struct naive_tensor *gate = naive_find(m, "%s.gate_proj.weight", at);
    const struct naive_tensor *down = naive_find(m, "%s.down_proj.weight", at);
    double *g = xcalloc((size_t)(2 * gate->rows + down->rows), sizeof *g), *u = g + gate->rows;
    naive_product(g, gate, NULL, x);
    naive_product(u, naive_find(m, "%s.up_proj.weight", at), NULL, x);
    for (int64_t i = 0; i < gate->rows; i++) g[i] = g[i] / (1 + exp(-g[i])) * u[i];
    naive_product(u + gate->rows, down, NULL, g);
    for (int64_t i = 0; i < down->rows; i++) y[i] += weight * u[gate->rows + i];
    free(g);
}

// The sum of the two greatest of n.
static inline double naive_best_two(const double *x, int n)
{
    double best = -INFINITY;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (x[i] + x[j] > best) best = x[i] + x[j];
    return best;
}

// True if the row chooses expert e; `by` are the deciding scores.
static inline bool naive_chosen(const struct naive_shape *s, const double *by, int e)
{
    const int size = s->experts / s->groups;
    int better_groups = 0, better = 0;
    bool *allowed = xcalloc((size_t)s->groups, sizeof *allowed);
    for (int g = 0; g < s->groups; g++) {
        better_groups = 0;
        for (int o = 0; o < s->groups && s->groups > 1; o++)
            better_groups +=
                naive_best_two(by + o * size, size) > naive_best_two(by + g * size, size);
        allowed[g] = better_groups < s->groups_per_token;
    }
    for (int o = 0; o < s->experts; o++) better += allowed[o / size] && by[o] > by[e];
    const bool chosen = allowed[e / size] && better < s->per_token;
    free(allowed);
    return chosen;
}

static inline void naive_experts(struct naive *m, int l, const double *x, double *y)
{
    const struct naive_shape *s = &m->s;
    const struct naive_tensor *bias = NAIVE_LAYER("mlp.gate.e_score_correction_bias");
    double *score = xcalloc((size_t)s->experts * 2, sizeof *score), *by = score + s->experts;
    double sum = 0;
    char at[64];
    naive_product(score, NAIVE_LAYER("mlp.gate.weight"), NULL, x);
    for (int e = 0; e < s->experts; e++) {
        score[e] = 1 / (1 + exp(-score[e]));
        by[e] = score[e] + bias->data[e];
    }
    for (int e = 0; e < s->experts; e++)
        if (naive_chosen(s, by, e)) sum += score[e];
    for (int e = 0; e < s->experts; e++) {
        snprintf(at, sizeof at, "model.layers.%d.mlp.experts.%d", l, e);
        if (naive_chosen(s, by, e))
            naive_gated(m, at, score[e] / (s->normalise ? sum : 1) * s->scale, x, y);
    }
    snprintf(at, sizeof at, "model.layers.%d.mlp.shared_experts", l);
    if (s->shared) naive_gated(m, at, 1, x, y);
    free(score);
}

// logits [n, NAIVE_WORDS] of n ids.
static inline void naive_logits(struct naive *m, const int32_t *ids, int64_t n, double *logits)
{
    const struct naive_shape *s = &m->s;
    const int64_t D = s->hidden;
    const struct naive_tensor *embed = naive_find(m, "model.embed_tokens.weight");
    double *h = xcalloc((size_t)(n + 1) * (size_t)D, sizeof *h), *x = h + n * D;
    char at[64];
    for (int64_t i = 0; i < n * D; i++) h[i] = embed->data[ids[i / D] * D + i % D];
    for (int l = 0; l < s->layers; l++) {
        naive_attend(m, l, h, n);
        snprintf(at, sizeof at, "model.layers.%d.mlp", l);
        for (int64_t i = 0; i < n; i++) {
            naive_norm(x, h + i * D, NAIVE_LAYER("post_attention_layernorm.weight"), 1e-5);
            if (l < s->dense)
                naive_gated(m, at, 1, x, h + i * D);
            else
                naive_experts(m, l, x, h + i * D);
        }
    }
    for (int64_t i = 0; i < n; i++) {
        naive_norm(x, h + i * D, naive_find(m, "model.norm.weight"), 1e-5);
        naive_product(logits + i * NAIVE_WORDS, naive_find(m, "lm_head.weight"), NULL, x);
    }
    free(h);
}

// Mean of -log p over the rows whose target is not -1.
static inline double naive_loss(struct naive *m, const int32_t *ids, const int32_t *target,
                                int64_t n)
{
    double *logits = xcalloc((size_t)n * NAIVE_WORDS, sizeof *logits), loss = 0, count = 0;
    naive_logits(m, ids, n, logits);
    for (int64_t i = 0; i < n; i++) {
        const double *row = logits + i * NAIVE_WORDS;
        double sum = 0;
        if (target[i] < 0) continue;
        for (int j = 0; j < NAIVE_WORDS; j++) sum += exp(row[j]);
        loss += log(sum) - row[target[i]];
        count++;
    }
    free(logits);
    return loss / count;
}

#endif
