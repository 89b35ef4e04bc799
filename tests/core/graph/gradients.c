// tests/core/graph/gradients.c -- core/graph/tape.c and the backward function of every op, against
// finite differences computed in double on odd shapes, for each instruction set and number of
// threads.
//
// Each op is written here a second time, plainly and in double. The loss is the sum of the result's
// numbers, each times a fixed weight; its derivative by every input number is the difference of two
// evaluations. The tape's gradients must be close to that.
#include <unistd.h>

#include "core/graph/tape.h"
#include "core/ops/ops.h"
#include "kernels/blocks.h"
#include "tests/device.h"
#include "tests/kernels/close.h"

enum { INPUTS = 4 };

struct check {
    const char *op;                      // name in core/ops/ops.h after "op_"
    const char *kernels[3];              // of kernels/ops.h that its backward function uses
    int variant;                         // of the op: a form of GELU, with or without ranges ...
    int64_t in[INPUTS][TENSOR_MAX_RANK]; // shapes; [0][0] = 0: no such input
    int64_t out;                         // numbers of the result
    void (*plain)(const struct check *c, double *const *in, double *out);
    struct tensor *(*run)(const struct check *c, struct graph *g, struct tensor *const *in);
};

static int rank_of(const int64_t *shape)
{
    int rank = 0;
    while (rank < TENSOR_MAX_RANK && shape[rank]) rank++;
    return rank;
}

static int64_t count_of(const int64_t *shape)
{
    int64_t n = shape[0] ? 1 : 0;
    for (int i = 0; i < rank_of(shape); i++) n *= shape[i];
    return n;
}

// --- the ops, plainly ----------------------------------------------------------------------------

static void plain_matmul(const struct check *c, double *const *in, double *out)
{
    int64_t n = c->in[0][0], k = c->in[0][1], m = c->in[1][0];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) {
            double sum = in[2] ? in[2][j] : 0;
            for (int64_t e = 0; e < k; e++) sum += in[0][i * k + e] * in[1][j * k + e];
            out[i * m + j] = sum;
        }
}

static struct tensor *run_matmul(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_matmul(g, in[0], in[1], in[2]);
}

static struct tensor *run_unread(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_matmul_unread(g, in[0], in[1], in[2]);
}

static void plain_rmsnorm(const struct check *c, double *const *in, double *out)
{
    int64_t n = c->in[0][0], d = c->in[0][1];
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t e = 0; e < d; e++) sum += in[0][i * d + e] * in[0][i * d + e];
        for (int64_t e = 0; e < d; e++)
            out[i * d + e] = in[0][i * d + e] / sqrt(sum / (double)d + 1e-2) * in[1][e];
    }
}

static struct tensor *run_rmsnorm(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_rmsnorm(g, in[0], in[1], 1e-2f);
}

static void plain_layernorm(const struct check *c, double *const *in, double *out)
{
    int64_t n = c->in[0][0], d = c->in[0][1];
    for (int64_t i = 0; i < n; i++) {
        double mean = 0, var = 0;
        for (int64_t e = 0; e < d; e++) mean += in[0][i * d + e] / (double)d;
        for (int64_t e = 0; e < d; e++) var += pow(in[0][i * d + e] - mean, 2) / (double)d;
        for (int64_t e = 0; e < d; e++)
            out[i * d + e] = (in[0][i * d + e] - mean) / sqrt(var + 1e-2) * in[1][e] + in[2][e];
    }
}

static struct tensor *run_layernorm(const struct check *c, struct graph *g,
                                    struct tensor *const *in)
{
    return op_layernorm(g, in[0], in[1], in[2], 1e-2f);
}

static void plain_rope(const struct check *c, double *const *in, double *out)
{
    int64_t heads = c->in[0][1], half = c->in[0][2] / 2;
    for (int64_t i = 0; i < c->in[0][0] * heads; i++)
        for (int64_t e = 0; e < half; e++) {
            const double *x = in[0] + i * 2 * half;
            double angle = (double)(i / heads + 1) * (double)(e + 1) * 0.1;
            out[i * 2 * half + e] = x[e] * cos(angle) - x[half + e] * sin(angle);
            out[i * 2 * half + half + e] = x[half + e] * cos(angle) + x[e] * sin(angle);
        }
}

static struct tensor *run_rope(const struct check *c, struct graph *g, struct tensor *const *in)
{
    int64_t n = c->in[0][0], half = c->in[0][2] / 2;
    struct tensor *co = graph_new2(g, DTYPE_F32, n, half), *si = graph_new2(g, DTYPE_F32, n, half);
    for (int64_t i = 0; i < n * half; i++) {
        double angle = (double)(i / half + 1) * (double)(i % half + 1) * 0.1;
        ((float *)co->data)[i] = (float)cos(angle);
        ((float *)si->data)[i] = (float)sin(angle);
    }
    return op_rope(g, in[0], co, si);
}

// Variant 0: every row sees all keys; 1: causal; 2: at most five keys, and every third row none; 3:
// causal in samples of 40 rows; 4: all of such a sample.
static void range_of(const struct check *c, int64_t i, int32_t *first, int32_t *last)
{
    int64_t n = c->in[0][0], p = c->in[1][0];
    *first = 0;
    *last = (int32_t)(c->variant ? p - n + i + 1 : p);
    if (c->variant == 2) *first = *last > 5 ? *last - 5 : 0;
    if (c->variant == 2 && i % 3 == 1) *last = *first;
    if (c->variant >= 3) *first = (int32_t)(i / 40 * 40);
    if (c->variant == 4) *last = (int32_t)(*first + 40 < n ? *first + 40 : n);
}

static void plain_attention(const struct check *c, double *const *in, double *out)
{
    int64_t n = c->in[0][0], heads = c->in[0][1], d = c->in[0][2], kv_heads = c->in[1][1];
    double *p = doubles(c->in[1][0]);
    memset(out, 0, (size_t)c->out * sizeof *out);
    for (int64_t i = 0; i < n * heads; i++) {
        int64_t at = i % heads / (heads / kv_heads);
        double sum = 0;
        int32_t first, last;
        range_of(c, i / heads, &first, &last);
        for (int64_t j = first; j < last; j++) {
            p[j] = 0;
            for (int64_t e = 0; e < d; e++)
                p[j] += in[0][i * d + e] * in[1][(j * kv_heads + at) * d + e];
            sum += p[j] = exp(p[j] * 0.7);
        }
        for (int64_t j = first; j < last; j++)
            for (int64_t e = 0; e < d; e++)
                out[i * d + e] += p[j] / sum * in[2][(j * kv_heads + at) * d + e];
    }
    free(p);
}

static struct tensor *run_attention(const struct check *c, struct graph *g,
                                    struct tensor *const *in)
{
    int64_t n = c->in[0][0];
    struct tensor *first = graph_new1(g, DTYPE_I32, n), *last = graph_new1(g, DTYPE_I32, n);
    for (int64_t i = 0; i < n; i++)
        range_of(c, i, (int32_t *)first->data + i, (int32_t *)last->data + i);
    return op_attention(g, in[0], in[1], in[2], c->variant ? first : NULL, c->variant ? last : NULL,
                        0.7f, NULL);
}

static void plain_swiglu(const struct check *c, double *const *in, double *out)
{
    for (int64_t i = 0; i < c->out; i++) out[i] = in[0][i] / (1 + exp(-in[0][i])) * in[1][i];
}

static struct tensor *run_swiglu(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_swiglu(g, in[0], in[1]);
}

static void plain_gelu(const struct check *c, double *const *in, double *out)
{
    for (int64_t i = 0; i < c->out; i++) {
        double x = in[0][i], u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
        out[i] = c->variant == GELU_ERF    ? 0.5 * x * (1 + erf(x / sqrt(2)))
                 : c->variant == GELU_TANH ? 0.5 * x * (1 + tanh(u))
                                           : x / (1 + exp(-1.702 * x));
    }
}

static struct tensor *run_gelu(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_gelu(g, in[0], (enum gelu_form)c->variant);
}

// b at row `variant` of a.
static void plain_add(const struct check *c, double *const *in, double *out)
{
    int64_t from = c->variant * c->in[0][1], count = count_of(c->in[1]);
    for (int64_t i = 0; i < c->out; i++)
        out[i] = in[0][i] + (i >= from && i < from + count ? in[1][i - from] : 0);
}

static struct tensor *run_add(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_add(g, in[0], in[1]);
}

static struct tensor *run_add_rows(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_add_rows(g, in[0], c->variant, in[1]);
}

static void plain_scale(const struct check *c, double *const *in, double *out)
{
    for (int64_t i = 0; i < c->out; i++) out[i] = in[0][i] * -1.5;
}

static struct tensor *run_scale(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_scale(g, in[0], -1.5f);
}

// The second factor is held fixed.
static float fixed_factor(int64_t column)
{
    return 0.5f - 0.25f * (float)column;
}

// in: v, head; gate and noise are fixed. Variant 1: no noise.
static void plain_ira_values(const struct check *c, double *const *in, double *out)
{
    const int64_t d = c->in[0][2];
    for (int64_t i = 0; i < c->out; i++) {
        const double *head = in[1] + i / d * (d + 1);
        const double gate = fixed_factor(i / d), noise = fixed_factor(i % 7);
        out[i] = in[0][i] + head[i % d];
        if (!c->variant) out[i] += gate * exp(head[d] / 2) * noise;
    }
}

static struct tensor *run_ira_values(const struct check *c, struct graph *g,
                                     struct tensor *const *in)
{
    const int64_t *shape = c->in[0];
    struct tensor *gate = graph_new2(g, DTYPE_F32, shape[0], shape[1]);
    struct tensor *noise = graph_new3(g, DTYPE_F32, shape[0], shape[1], shape[2]);
    for (int64_t i = 0; i < tensor_count(gate); i++) ((float *)gate->data)[i] = fixed_factor(i);
    for (int64_t i = 0; i < c->out; i++) ((float *)noise->data)[i] = fixed_factor(i % 7);
    return op_ira_values(g, in[0], in[1], c->variant ? NULL : gate, c->variant ? NULL : noise);
}

// in: head, prior, and with a global prior v, mean.
static void plain_ira_kl(const struct check *c, double *const *in, double *out)
{
    const int64_t heads = c->in[1][0], d = c->in[1][1];
    for (int64_t r = 0; r < c->out; r++) {
        const double *head = in[0] + r * (d + 1), *prior = in[1] + r % heads * d;
        out[r] = 0;
        for (int64_t k = 0; k < d; k++) {
            double m = head[k];
            if (in[3]) m += in[2][r * d + k] - in[3][r % heads * d + k];
            out[r] += ((m * m + exp(head[d])) / exp(prior[k]) - 1 + prior[k] - head[d]) / 2;
        }
    }
}

static struct tensor *run_ira_kl(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_ira_kl(g, in[0], in[1], in[2], in[3]);
}

static void plain_scale_columns(const struct check *c, double *const *in, double *out)
{
    for (int64_t i = 0; i < c->out; i++) out[i] = in[0][i] * in[1][i % c->in[0][1]];
}

static struct tensor *run_scale_columns(const struct check *c, struct graph *g,
                                        struct tensor *const *in)
{
    return op_scale_columns(g, in[0], in[1]);
}

static void plain_softmax(const struct check *c, double *const *in, double *out)
{
    int64_t d = c->in[0][1];
    for (int64_t i = 0; i < c->in[0][0]; i++) {
        double sum = 0;
        for (int64_t e = 0; e < d; e++) sum += exp(2 * in[0][i * d + e]);
        for (int64_t e = 0; e < d; e++) out[i * d + e] = exp(2 * in[0][i * d + e]) / sum;
    }
}

static struct tensor *run_softmax(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_softmax(g, in[0], 2);
}

static const int32_t places[] = { 4, 0, 2 }, ids[] = { 1, 3, 1, 0, 1 };

static void plain_embedding(const struct check *c, double *const *in, double *out)
{
    int64_t d = c->in[0][1];
    for (int64_t i = 0; i < 5 * d; i++) out[i] = in[0][ids[i / d] * d + i % d];
}

static struct tensor *run_embedding(const struct check *c, struct graph *g,
                                    struct tensor *const *in)
{
    return op_embedding(g, in[0], ids, 5);
}

static struct tensor *run_gather(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_gather_rows(g, in[0], ids, 5);
}

// Two rows for each of five, one of them twice.
static const int32_t blended[] = { 1, 3, 0, 0, 5, 2, 1, 4, 3, 3 };
static const float shares[] = { 0.25f, 0.75f, 1, -0.5f, 2, 0.125f, 0, 1, 0.3f, 0.6f };

static void plain_blend(const struct check *c, double *const *in, double *out)
{
    const int64_t d = c->in[0][1];
    for (int64_t i = 0; i < 5 * d; i++) {
        out[i] = 0;
        for (int64_t k = i / d * 2; k < i / d * 2 + 2; k++)
            out[i] += (double)shares[k] * in[0][blended[k] * d + i % d];
    }
}

static struct tensor *run_blend(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_blend_rows(g, in[0], blended, shares, 5, 2);
}

// in[1] at rows places[] of a copy of in[0] (variant 1: at rows 1.. of it).
static void plain_scatter(const struct check *c, double *const *in, double *out)
{
    int64_t d = c->in[0][1];
    memcpy(out, in[0], (size_t)c->out * sizeof *out);
    for (int64_t i = 0; i < 3 * d; i++)
        out[(c->variant ? 1 + i / d : places[i / d]) * d + i % d] = in[1][i];
}

static struct tensor *copy(struct graph *g, struct tensor *x)
{
    struct tensor *nothing = graph_new(g, DTYPE_F32, x->rank, x->shape);
    g->backend->fill(nothing, 0);
    return op_add(g, x, nothing);
}

static struct tensor *run_scatter(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_scatter_rows(g, copy(g, in[0]), in[1], places);
}

static struct tensor *run_put(const struct check *c, struct graph *g, struct tensor *const *in)
{
    const int64_t n = sizeof places / sizeof *places;
    return op_put_rows(g, copy(g, in[0]), in[1], graph_upload(g, DTYPE_I32, 1, &n, places));
}

static struct tensor *run_copy(const struct check *c, struct graph *g, struct tensor *const *in)
{
    struct tensor *into = copy(g, in[0]);
    return op_copy_rows_into(g, into, 1, in[1]) < 0 ? NULL : into;
}

// Columns 0..1 of in[0] [6,5], then every second of in[1] [2,4] from 1 on, a row of it for three.
static void plain_columns(const struct check *c, double *const *in, double *out)
{
    for (int64_t i = 0; i < 6; i++) {
        out[i * 4] = in[0][i * 5], out[i * 4 + 1] = in[0][i * 5 + 1];
        out[i * 4 + 2] = in[1][i / 3 * 4 + 1], out[i * 4 + 3] = in[1][i / 3 * 4 + 3];
    }
}

static struct tensor *run_columns(const struct check *c, struct graph *g, struct tensor *const *in)
{
    const struct column_part parts[] = { { in[0], { 0, 1, 2 } }, { in[1], { 1, 2, 2 } } };
    return op_columns_of(g, 6, parts, 2);
}

static const int32_t chosen[] = { 4, 0, 2, 3, 1, 4 };

// Two experts of five in each of three rows; variant 1: divided by the sum.
static void plain_expert_weights(const struct check *c, double *const *in, double *out)
{
    for (int64_t i = 0; i < 6; i++) out[i] = 1 / (1 + exp(-in[0][i / 2 * 5 + chosen[i]]));
    for (int64_t i = 0; i < 6; i += 2) {
        const double by = c->variant ? out[i] + out[i + 1] : 1;
        out[i] *= 1.5 / by, out[i + 1] *= 1.5 / by;
    }
}

static struct tensor *run_expert_weights(const struct check *c, struct graph *g,
                                         struct tensor *const *in)
{
    return op_expert_weights(g, in[0], chosen, 2, c->variant != 0, 1.5F);
}

// in[1] times in[2] added to rows places[] of a copy of in[0], twice.
static void plain_add_weighted(const struct check *c, double *const *in, double *out)
{
    int64_t d = c->in[0][1];
    memcpy(out, in[0], (size_t)c->out * sizeof *out);
    for (int64_t i = 0; i < 3 * d; i++)
        out[places[i / d] * d + i % d] += 2 * in[2][i / d] * in[1][i];
}

static struct tensor *run_add_weighted(const struct check *c, struct graph *g,
                                       struct tensor *const *in)
{
    struct tensor *y = op_add_weighted_rows(g, copy(g, in[0]), in[1], places, in[2]);
    return op_add_weighted_rows(g, y, in[1], places, in[2]);
}

// Patches of 2 x 2 in pictures of 5 x 7: the last row and column belong to none.
static void plain_patches(const struct check *c, double *const *in, double *out)
{
    for (int64_t s = 0; s < 6; s++)
        for (int64_t i = 0; i < 12; i++)
            out[s * 12 + i] = in[0][(i / 4 * 5 + s / 3 * 2 + i / 2 % 2) * 7 + s % 3 * 2 + i % 2];
}

static struct tensor *run_patches(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_patches(g, in[0], 2);
}

static void plain_widen(const struct check *c, double *const *in, double *out)
{
    memcpy(out, in[0], (size_t)c->out * sizeof *out);
}

static struct tensor *run_widen(const struct check *c, struct graph *g, struct tensor *const *in)
{
    return op_widen(g, in[0]);
}

// Views that overlap: rows 0 and 1 of x plus rows 1 and 2 of it, each pair seen as one row.
static void plain_views(const struct check *c, double *const *in, double *out)
{
    for (int64_t i = 0; i < c->out; i++) out[i] = in[0][i] + in[0][c->in[0][1] + i];
}

static struct tensor *run_views(const struct check *c, struct graph *g, struct tensor *const *in)
{
    struct tensor *x = op_widen(g, in[0]);
    const int64_t row[2] = { 1, c->out };
    return op_add(g, graph_view(g, graph_rows(g, x, 0, 2), 2, row),
                  graph_view(g, graph_rows(g, x, 1, 2), 2, row));
}

// clang-format off
static const struct check checks[] = {
    { "matmul", { "matmul_dx", "matmul_dw" }, 0, { { 3, 5 }, { 7, 5 }, { 7 } }, 21, plain_matmul, run_matmul },
    { "matmul", { "matmul_dx", "matmul_dw" }, 0, { { 1, 1 }, { 1, 1 } }, 1, plain_matmul, run_matmul },
    { "matmul", { "matmul_dx", "matmul_dw" }, 0, { { 29, 33 }, { 19, 33 }, { 19 } }, 551, plain_matmul, run_matmul },
    { "matmul_unread", { "matmul_dx", "matmul_dw" }, 0, { { 29, 33 }, { 19, 33 }, { 19 } }, 551, plain_matmul, run_unread },
    { "rmsnorm", { "rmsnorm_backward" }, 0, { { 3, 37 }, { 37 } }, 111, plain_rmsnorm, run_rmsnorm },
    { "rmsnorm", { "rmsnorm_backward" }, 0, { { 2, 1 }, { 1 } }, 2, plain_rmsnorm, run_rmsnorm },
    { "layernorm", { "layernorm_backward" }, 0, { { 3, 37 }, { 37 }, { 37 } }, 111, plain_layernorm, run_layernorm },
    { "layernorm", { "layernorm_backward" }, 0, { { 2, 3 }, { 3 }, { 3 } }, 6, plain_layernorm, run_layernorm },
    { "rope", { "rope_backward" }, 0, { { 3, 2, 10 } }, 60, plain_rope, run_rope },
    { "attention", { "attention_backward" }, 0, { { 3, 2, 5 }, { 4, 1, 5 }, { 4, 1, 5 } }, 30, plain_attention, run_attention },
    { "attention", { "attention_backward" }, 1, { { 7, 6, 4 }, { 9, 3, 4 }, { 9, 3, 4 } }, 168, plain_attention, run_attention },
    { "attention", { "attention_backward" }, 2, { { 8, 2, 33 }, { 8, 2, 33 }, { 8, 2, 33 } }, 528, plain_attention, run_attention },
    { "attention", { "attention_backward" }, 1, { { 141, 1, 2 }, { 141, 1, 2 }, { 141, 1, 2 } }, 282, plain_attention, run_attention },
    { "attention", { "attention_backward" }, 3, { { 141, 2, 2 }, { 141, 1, 2 }, { 141, 1, 2 } }, 564, plain_attention, run_attention },
    { "attention", { "attention_backward" }, 4, { { 90, 2, 3 }, { 90, 2, 3 }, { 90, 2, 3 } }, 540, plain_attention, run_attention },
    { "swiglu", { "swiglu_backward" }, 0, { { 3, 11 }, { 3, 11 } }, 33, plain_swiglu, run_swiglu },
    { "gelu", { "gelu_backward" }, GELU_ERF, { { 3, 11 } }, 33, plain_gelu, run_gelu },
    { "gelu", { "gelu_backward" }, GELU_TANH, { { 3, 11 } }, 33, plain_gelu, run_gelu },
    { "gelu", { "gelu_backward" }, GELU_QUICK, { { 3, 11 } }, 33, plain_gelu, run_gelu },
    { "add", { 0 }, 0, { { 3, 11 }, { 3, 11 } }, 33, plain_add, run_add },
    { "add_rows", { 0 }, 2, { { 5, 11 }, { 2, 11 } }, 55, plain_add, run_add_rows },
    { "scale", { "scale_backward" }, 0, { { 3, 11 } }, 33, plain_scale, run_scale },
    { "ira_values", { "ira_values_backward" }, 0, { { 5, 3, 7 }, { 15, 8 } }, 105, plain_ira_values, run_ira_values },
    { "ira_values", { "ira_values_backward" }, 1, { { 5, 3, 7 }, { 15, 8 } }, 105, plain_ira_values, run_ira_values },
    { "ira_kl", { "ira_kl_backward" }, 0, { { 15, 8 }, { 3, 7 } }, 15, plain_ira_kl, run_ira_kl },
    { "ira_kl", { "ira_kl_backward" }, 0, { { 15, 8 }, { 3, 7 }, { 5, 3, 7 }, { 3, 7 } }, 15, plain_ira_kl, run_ira_kl },
    { "scale_columns", { "scale_columns_backward" }, 0, { { 3, 11 }, { 11 } }, 33, plain_scale_columns, run_scale_columns },
    { "softmax", { "softmax_backward" }, 0, { { 3, 19 } }, 57, plain_softmax, run_softmax },
    { "embedding", { "gather_rows_backward" }, 0, { { 6, 9 } }, 45, plain_embedding, run_embedding },
    { "gather_rows", { "gather_rows_backward" }, 0, { { 6, 9 } }, 45, plain_embedding, run_gather },
    { "blend_rows", { "blend_rows_backward" }, 0, { { 6, 9 } }, 45, plain_blend, run_blend },
    { "scatter_rows", { "scatter_rows_backward" }, 0, { { 6, 9 }, { 3, 9 } }, 54, plain_scatter, run_scatter },
    { "put_rows", { "scatter_rows_backward" }, 0, { { 6, 9 }, { 3, 9 } }, 54, plain_scatter, run_put },
    { "copy_rows_into", { "scatter_rows_backward" }, 1, { { 6, 9 }, { 3, 9 } }, 54, plain_scatter, run_copy },
    { "columns_of", { "put_columns_backward" }, 0, { { 6, 5 }, { 2, 4 } }, 24, plain_columns, run_columns },
    { "expert_weights", { "expert_weights_backward" }, 0, { { 3, 5 } }, 6, plain_expert_weights, run_expert_weights },
    { "expert_weights", { "expert_weights_backward" }, 1, { { 3, 5 } }, 6, plain_expert_weights, run_expert_weights },
    { "add_weighted_rows", { "add_weighted_rows_backward" }, 0, { { 6, 9 }, { 3, 9 }, { 3 } }, 54, plain_add_weighted, run_add_weighted },
    { "patches", { "patches_backward" }, 0, { { 3, 5, 7 } }, 72, plain_patches, run_patches },
    { "widen", { 0 }, 0, { { 3, 7 } }, 21, plain_widen, run_widen },
    { "widen", { 0 }, 0, { { 3, 3 } }, 6, plain_views, run_views },
};
// clang-format on

enum { CHECKS = sizeof checks / sizeof *checks };

// --- comparing -----------------------------------------------------------------------------------

// Memory and graph of a pass, and the inputs with their gradients.
struct fixture {
    struct arena arena;
    struct tape tape;
    struct graph g;
    struct tensor in[INPUTS], *given[INPUTS];
};

static void fixture_open(struct fixture *f, const struct check *c, const struct backend *b)
{
    *f = (struct fixture){ .arena = { .backend = b }, .tape = { .backend = b } };
    f->g = (struct graph){ .backend = b, .arena = &f->arena, .tape = &f->tape };
    for (int i = 0; i < INPUTS && c->in[i][0]; i++) {
        const int64_t *shape = c->in[i];
        f->in[i] = (struct tensor){ .dtype = DTYPE_F32, .rank = rank_of(shape) };
        memcpy(f->in[i].shape, shape, sizeof f->in[i].shape);
        f->in[i].data = noise_floats(count_of(shape), (uint32_t)(i + 1));
        f->in[i].grad = grad_new(b, count_of(shape));
        f->given[i] = &f->in[i];
    }
}

static void fixture_close(struct fixture *f)
{
    for (int i = 0; i < INPUTS; i++) {
        free(f->in[i].data);
        grad_free(f->g.backend, f->in[i].grad);
    }
    tape_release(&f->tape);
    arena_release(&f->arena);
}

// The tape's gradients of sum(weights * result) by all inputs.
static void run_back(struct fixture *f, const struct check *c, const float *weights)
{
    struct tensor *y = c->run(c, &f->g, f->given), d;
    if (!y) fail_msg("%s: %s", c->op, f->g.err.text);
    assert_int_equal(tensor_count(y), c->out);
    assert_true(tape_grad(&f->g, y, &d));
    memcpy(d.data, weights, (size_t)c->out * sizeof *weights);
    assert_int_equal(tape_backward(&f->g), 0);
    assert_int_equal(f->tape.count, 0);
}

static double plain_loss(const struct check *c, double *const *in, const float *weights)
{
    double *out = doubles(c->out), sum = 0;
    c->plain(c, in, out);
    for (int64_t i = 0; i < c->out; i++) sum += out[i] * (double)weights[i];
    free(out);
    return sum;
}

// Derivatives by input number `which`, as differences.
static double *differences(const struct fixture *f, const struct check *c, const float *weights,
                           int which)
{
    const double step = 1e-5;
    double *in[INPUTS] = { 0 }, *slope = doubles(count_of(c->in[which]));
    for (int i = 0; i < INPUTS && c->in[i][0]; i++) {
        in[i] = doubles(count_of(c->in[i]));
        for (int64_t k = 0; k < count_of(c->in[i]); k++) in[i][k] = ((float *)f->in[i].data)[k];
    }
    for (int64_t k = 0; k < count_of(c->in[which]); k++) {
        double was = in[which][k];
        in[which][k] = was + step;
        slope[k] = plain_loss(c, in, weights);
        in[which][k] = was - step;
        slope[k] = (slope[k] - plain_loss(c, in, weights)) / (2 * step);
        in[which][k] = was;
    }
    for (int i = 0; i < INPUTS; i++) free(in[i]);
    return slope;
}

static void check_op(const struct check *c, const struct backend *b)
{
    struct fixture f, other;
    float *weights = noise_floats(c->out, 9);
    fixture_open(&f, c, b);
    fixture_open(&other, c, b);
    run_back(&f, c, weights);
    b->set_threads(1);
    run_back(&other, c, weights);
    b->set_threads(0);
    for (int i = 0; i < INPUTS && c->in[i][0]; i++)
        assert_memory_equal(f.in[i].grad->data, other.in[i].grad->data,
                            (size_t)count_of(c->in[i]) * sizeof(float));
    run_back(&other, c, weights); // adds the same again
    for (int i = 0; i < INPUTS && c->in[i][0]; i++) {
        int64_t count = count_of(c->in[i]);
        double *want = differences(&f, c, weights, i);
        char what[128];
        snprintf(what, sizeof what, "gradient of %s by input %d on %s", c->op, i, b->describe());
        close_check(what, f.in[i].grad->data, want, count, 3e-6, 1e-5);
        for (int64_t k = 0; k < count; k++) want[k] *= 2;
        close_check(what, other.in[i].grad->data, want, count, 6e-6, 1e-5);
        free(want);
    }
    free(weights);
    fixture_close(&f);
    fixture_close(&other);
}

static void test_each(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    for (size_t i = 0; i < CHECKS; i++) check_op(&checks[i], b);
}

// Only what is wanted is computed: each input alone gets the gradient it has beside the others.
static void test_each_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < CHECKS; i++)
        for (int k = 0; k < INPUTS && checks[i].in[k][0]; k++) {
            const struct check *c = &checks[i];
            struct fixture all, alone;
            float *weights = noise_floats(c->out, 9);
            fixture_open(&all, c, test_device());
            fixture_open(&alone, c, test_device());
            run_back(&all, c, weights);
            for (int j = 0; j < INPUTS; j++)
                if (j != k) {
                    grad_free(test_device(), alone.in[j].grad);
                    alone.in[j].grad = NULL;
                }
            run_back(&alone, c, weights);
            assert_memory_equal(all.in[k].grad->data, alone.in[k].grad->data,
                                (size_t)count_of(c->in[k]) * sizeof(float));
            free(weights);
            fixture_close(&all);
            fixture_close(&alone);
        }
}

// --- the loss ------------------------------------------------------------------------------------

static const float row_weights[5] = { 0.3f, 0.1f, 0, 0.7f, 0.2f };

// The losses of the rows, each times its weight.
static void plain_loss_rows(const struct check *c, double *const *in, double *out)
{
    int64_t d = c->in[0][1], v = c->in[1][0];
    out[0] = 0;
    for (int i = 0; i < 5; i++) {
        double sum = 0, at = 0;
        for (int64_t k = 0; k < v; k++) {
            double x = 0;
            for (int64_t e = 0; e < d; e++) x += in[0][i * d + e] * in[1][k * d + e];
            sum += exp(x);
            if (k == 2 * i) at = x;
        }
        // cppcheck-suppress invalidFunctionArg
        out[0] += (double)row_weights[i] * (log(sum) - at);
    }
}

static const struct check cross_entropy = {
    "cross_entropy", { "matmul_dx" }, 0, { { 5, 7 }, { 19, 7 } }, 1, plain_loss_rows, NULL
};

static void test_cross_entropy(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    {
        const struct check *c = &cross_entropy;
        const int32_t target[5] = { 0, 2, 4, 6, 8 };
        const float one = 1;
        float loss[5];
        struct fixture f;
        double sum = 0, want;
        fixture_open(&f, c, b);
        double *slope[2] = { differences(&f, c, &one, 0), differences(&f, c, &one, 1) };
        assert_int_equal(op_cross_entropy(&f.g, f.given[0], f.given[1], target, row_weights, loss),
                         0);
        for (int i = 0; i < 5; i++) sum += (double)(row_weights[i] * loss[i]);
        double *in[INPUTS] = { doubles(35), doubles(133) };
        for (int i = 0; i < 2; i++)
            for (int64_t k = 0; k < count_of(c->in[i]); k++) in[i][k] = ((float *)f.in[i].data)[k];
        plain_loss_rows(c, in, &want);
        assert_true(fabs(sum - want) < 1e-5);
        close_check("cross entropy by x", f.in[0].grad->data, slope[0], 35, 1e-6, 1e-5);
        close_check("cross entropy by w", f.in[1].grad->data, slope[1], 133, 1e-6, 1e-5);
        for (int i = 0; i < 2; i++) {
            free(slope[i]);
            free(in[i]);
        }
        fixture_close(&f);
    }
}

// --- weights in blocks ---------------------------------------------------------------------------

// The gradient by x of sum(weights * (x w^T)).
static void matmul_slope(const struct backend *b, float *slope, struct tensor *w,
                         const float *weights)
{
    static const struct check c = {
        "matmul", { "matmul_dx" }, 0, { { 5, 512 }, { 37, 512 } }, 185, plain_matmul, run_matmul
    };
    struct fixture f;
    fixture_open(&f, &c, b);
    struct tensor *y = c.run(&c, &f.g, (struct tensor *[INPUTS]){ f.given[0], w }), d;
    assert_non_null(y);
    assert_true(tape_grad(&f.g, y, &d));
    memcpy(d.data, weights, (size_t)c.out * sizeof *weights);
    assert_int_equal(tape_backward(&f.g), 0);
    memcpy(slope, f.in[0].grad->data, 5 * 512 * sizeof *slope);
    fixture_close(&f);
}

// Gradients through weights in blocks are those through the same numbers in f32.
static void test_blocks_of_weights(void **state)
{
    (void)state;
    float *weights = noise_floats(185, 9);
    FOR_EACH_ISA(b)
    for (int dtype = DTYPE_Q8_0; dtype < DTYPE_COUNT; dtype++) {
        struct tensor w = tensor_of((enum dtype)dtype, 2, 37, 512, 0);
        struct tensor wide = tensor_of(DTYPE_F32, 2, 37, 512, 0);
        float slope[5 * 512], want[5 * 512];
        uint32_t seed = 4;
        for (size_t i = 0; i < tensor_bytes(&w); i++) // no halves that are infinite or NaN
            ((uint8_t *)w.data)[i] = (uint8_t)(fabsf(noise(&seed)) * 255) & 0xbb;
        blocks_unpack(wide.data, w.data, w.dtype, 37 * 512);
        matmul_slope(b, slope, &w, weights);
        matmul_slope(b, want, &wide, weights);
        assert_memory_equal(slope, want, sizeof slope);
        free(w.data);
        free(wide.data);
    }
    free(weights);
}

// --- blocks --------------------------------------------------------------------------------------

// Two weights used in three blocks.
static struct tensor *some_block(struct graph *g, void *self, struct tensor *h)
{
    struct tensor *const *w = self;
    struct arena_mark scratch = graph_scratch_begin(g);
    struct tensor *x = op_rmsnorm(g, h, w[1], 1e-5f);
    x = op_gelu(g, op_matmul(g, x, w[0], NULL), GELU_ERF);
    h = op_add(g, h, x);
    graph_scratch_end(g, scratch);
    return h;
}

static const struct check blocks = { "block", { 0 }, 0,   { { 5, 9 }, { 9, 9 }, { 9 } },
                                     45,      NULL,  NULL };

static void run_blocks(struct fixture *f, bool recompute, const float *weights, size_t *steps)
{
    struct tensor *w[2] = { f->given[1], f->given[2] }, d;
    struct tensor *h = op_widen(&f->g, f->given[0]);
    f->tape.recompute = recompute;
    for (int i = 0; i < 3; i++) h = graph_block(&f->g, some_block, w, sizeof w, h);
    *steps = f->tape.count;
    assert_true(graph_ok(&f->g) && tape_grad(&f->g, h, &d));
    memcpy(d.data, weights, 45 * sizeof *weights);
    assert_int_equal(tape_backward(&f->g), 0);
}

static void test_recompute(void **state)
{
    (void)state;
    struct fixture kept, again;
    size_t steps;
    float *weights = noise_floats(45, 4);
    fixture_open(&kept, &blocks, test_device());
    fixture_open(&again, &blocks, test_device());
    run_blocks(&kept, false, weights, &steps);
    assert_int_equal(steps, 13);
    run_blocks(&again, true, weights, &steps);
    assert_int_equal(steps, 4);
    for (int i = 0; i < INPUTS && blocks.in[i][0]; i++)
        assert_memory_equal(kept.in[i].grad->data, again.in[i].grad->data,
                            (size_t)count_of(blocks.in[i]) * sizeof(float));
    free(weights);
    fixture_close(&kept);
    fixture_close(&again);
}

// Without a gradient anywhere nothing is recorded, and a block that needs none keeps no step.
static void test_nothing_wanted(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, &blocks, test_device());
    for (int i = 0; i < INPUTS; i++) {
        grad_free(test_device(), f.in[i].grad);
        f.in[i].grad = NULL;
    }
    for (int recompute = 0; recompute < 2; recompute++) {
        f.tape.recompute = recompute;
        struct tensor *w[2] = { f.given[1], f.given[2] };
        struct tensor *h = graph_block(&f.g, some_block, w, sizeof w, f.given[0]);
        assert_non_null(h);
        assert_null(h->grad);
        assert_int_equal(f.tape.count, 0);
    }
    fixture_close(&f);
}

// --- the lists -----------------------------------------------------------------------------------

static bool is_checked(const char *op, size_t length)
{
    for (size_t i = 0; i < CHECKS; i++)
        if (strlen(checks[i].op) == length && !strncmp(checks[i].op, op, length)) return true;
    return strlen(cross_entropy.op) == length && !strncmp(cross_entropy.op, op, length);
}

// Every function of core/ops/ops.h has a check here.
static void test_ops_listed(void **state)
{
    (void)state;
    char line[256];
    int found = 0;
    FILE *f = fopen("core/ops/ops.h", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        const char *name = strstr(line, "op_");
        if (line[0] == '/' || line[0] == ' ' || !name || !strchr(name, '(')) continue;
        found++;
        size_t length = strcspn(name + 3, "(");
        if (!is_checked(name + 3, length))
            fail_msg("no check of the gradient of op_%.*s", (int)length, name + 3);
    }
    fclose(f);
    assert_in_range(found, 16, 1000);
}

// Every backward kernel is used by one of the checks.
static void test_kernels_listed(void **state)
{
    (void)state;
    static const char *const kernels[] = {
#define OP(name, arguments) #name,
#include "kernels/ops.h"
#undef OP
    };
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        const char *name = kernels[i];
        bool found = !strstr(name, "_backward") && !strstr(name, "_dx") && !strstr(name, "_dw");
        for (size_t k = 0; k < CHECKS; k++)
            for (int j = 0; j < 3; j++)
                found |= checks[k].kernels[j] && !strcmp(checks[k].kernels[j], name);
        if (!found) fail_msg("no check of the kernel %s", name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each),          cmocka_unit_test(test_each_alone),
        cmocka_unit_test(test_cross_entropy), cmocka_unit_test(test_blocks_of_weights),
        cmocka_unit_test(test_recompute),     cmocka_unit_test(test_nothing_wanted),
        cmocka_unit_test(test_ops_listed),    cmocka_unit_test(test_kernels_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
