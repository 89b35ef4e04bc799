// core/model/gram.c -- inner products of the head outputs of one token.
//
// W_O[n] is a block of d columns of o_proj [D, H*d]. The blocks are stored one after another,
// [H,D,d]: the values of each query head are multiplied by its own block only, and one product
// covers all query heads that share a key/value head.
#include "core/model/gram.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/ops/ops.h"

enum { TOKENS = 32 }; // tokens per batch, each with outputs [H,D]

void grams_release(struct grams *s)
{
    free(s->gram);
    *s = (struct grams){ 0 };
}

// Returns scale B A [D, H*d], in the arena.
static struct tensor *lora_product(struct graph *g, const struct lora *lora)
{
    const int64_t rank = lora->a.shape[0], in = lora->a.shape[1];
    float *a = xmalloc(tensor_bytes(&lora->a)), *transposed = xmalloc(tensor_bytes(&lora->a));
    g->backend->download(a, lora->a.data, tensor_bytes(&lora->a));
    for (int64_t r = 0; r < rank; r++)
        for (int64_t i = 0; i < in; i++) transposed[i * rank + r] = a[r * in + i];
    struct tensor *t =
        graph_upload(g, DTYPE_F32, 2, (int64_t[]){ in, rank }, transposed); // [H*d, r]
    free(a);
    free(transposed);
    return op_scale(g, op_matmul(g, (struct tensor *)&lora->b, t, NULL), lora->scale);
}

// Copies the blocks of the projection, with LoRA added, to a tensor [H*D, d].
static struct tensor *cut_slices(struct graph *g, const struct linear *o, int64_t heads, int64_t d)
{
    const int64_t out = o->weight.shape[0], width = heads * d;
    float *slices = xreallocarray(NULL, (size_t)(out * width), sizeof *slices);
    struct arena_mark scratch = graph_scratch_begin(g);
    struct tensor *w = op_widen(g, graph_weight(&o->weight)); // [D, H*d]
    if (o->lora) w = op_add(g, w, lora_product(g, o->lora));
    float *rows = w && graph_ok(g) ? xmalloc(tensor_bytes(w)) : NULL;
    if (rows) g->backend->download(rows, w->data, tensor_bytes(w));
    for (int64_t n = 0; rows && n < heads; n++)
        for (int64_t i = 0; i < out; i++)
            memcpy(slices + (n * out + i) * d, rows + i * width + n * d, (size_t)d * sizeof *rows);
    graph_scratch_end(g, scratch);
    struct tensor *t =
        rows ? graph_upload(g, DTYPE_F32, 2, (int64_t[]){ heads * out, d }, slices) : NULL;
    free(rows);
    free(slices);
    return t;
}

// Computes u [m,H,D]: v_i W_O[n] for every head n and for the m keys i from `from` on.
static int head_outputs(struct graph *g, struct tensor *slices, const float *v, int64_t from,
                        int64_t m, int64_t heads, int64_t kv_heads, float *u)
{
    const int64_t d = slices->shape[1], group = heads / kv_heads, out = slices->shape[0] / heads;
    for (int64_t k = 0; k < kv_heads && graph_ok(g); k++) {
        struct arena_mark scratch = graph_scratch_begin(g);
        float *head = xreallocarray(NULL, (size_t)(m * d), sizeof *head); // KV head k [m,d]
        for (int64_t i = 0; i < m; i++)
            memcpy(head + i * d, v + ((from + i) * kv_heads + k) * d, (size_t)d * sizeof *head);
        struct tensor *x = graph_upload(g, DTYPE_F32, 2, (int64_t[]){ m, d }, head);
        free(head);
        struct tensor *w = graph_rows(g, slices, k * group * out, group * out);
        struct tensor *y = op_matmul(g, x, w, NULL); // [m, group*D]
        float *host = y ? xmalloc(tensor_bytes(y)) : NULL;
        if (y) g->backend->download(host, y->data, tensor_bytes(y));
        for (int64_t i = 0; y && i < m; i++)
            memcpy(u + (i * heads + k * group) * out, host + i * group * out,
                   (size_t)(group * out) * sizeof *u);
        free(host);
        graph_scratch_end(g, scratch);
    }
    return graph_ok(g) ? 0 : -1;
}

// Computes gram [m,H,H] from u [m,H,D].
static int products(struct graph *g, const float *u, int64_t m, int64_t heads, int64_t out,
                    float *gram)
{
    struct arena_mark scratch = graph_scratch_begin(g);
    struct tensor *x = graph_upload(g, DTYPE_F32, 2, (int64_t[]){ m * heads, out }, u);
    struct tensor *all = graph_new2(g, DTYPE_F32, m * heads, heads); // [m*H,H]
    for (int64_t i = 0; i < m && graph_ok(g); i++) {
        struct arena_mark one = graph_scratch_begin(g);
        struct tensor *rows = graph_rows(g, x, i * heads, heads); // [H,D]
        op_copy_rows_into(g, all, i * heads, op_matmul(g, rows, rows, NULL));
        graph_scratch_end(g, one);
    }
    if (graph_ok(g)) g->backend->download(gram, all->data, tensor_bytes(all));
    graph_scratch_end(g, scratch);
    return graph_ok(g) ? 0 : -1;
}

int grams_add(struct grams *s, struct graph *g, const struct linear *o, struct tensor *v,
              int64_t heads)
{
    const int64_t keys = v->shape[0], kv_heads = v->shape[1], d = v->shape[2];
    const int64_t out = o->weight.shape[0], squares = heads * heads;
    const enum matmul_mode mode = g->matmul;
    struct arena_mark scratch = graph_scratch_begin(g);
    g->matmul = MATMUL_F32;
    struct tensor *slices = cut_slices(g, o, heads, d), *wide = op_widen(g, v);
    float *values = wide ? xmalloc(tensor_bytes(wide)) : NULL;
    float *u = xreallocarray(NULL, (size_t)(heads * out * TOKENS), sizeof *u);
    if (wide) g->backend->download(values, wide->data, tensor_bytes(wide));
    s->heads = heads;
    s->gram = xreallocarray(s->gram, (size_t)((s->keys + keys) * squares) + 1, sizeof *s->gram);
    int status = slices && wide ? 0 : -1;
    for (int64_t from = 0, m; from < keys && status == 0 && !graph_stop(g); from += m) {
        m = keys - from < TOKENS ? keys - from : TOKENS;
        status = head_outputs(g, slices, values, from, m, heads, kv_heads, u);
        if (status == 0) status = products(g, u, m, heads, out, s->gram + s->keys * squares);
        if (status == 0) s->keys += m;
    }
    free(u);
    free(values);
    graph_scratch_end(g, scratch);
    g->matmul = mode;
    return status == 0 && graph_ok(g) ? 0 : -1;
}

void grams_trim(struct grams *s, int64_t keys)
{
    if (s->keys > keys) s->keys = keys;
}

double grams_contribution(const struct grams *s, int64_t key, const double *a)
{
    const float *gram = s->gram + key * s->heads * s->heads;
    double sum = 0;
    for (int64_t n = 0; n < s->heads; n++) {
        double row = 0;
        for (int64_t m = 0; m < s->heads; m++) row += (double)gram[n * s->heads + m] * a[m];
        sum += row * a[n];
    }
    return sqrt(fmax(sum, 0));
}
