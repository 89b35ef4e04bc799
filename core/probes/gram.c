// core/probes/gram.c -- inner products of what the heads add for single tokens.
//
// W_O[n] is a block of d columns of o_proj [D, H*d]. The blocks are laid out one after the other,
// [H,D,d], so that each head's values pass through its own block alone and the heads of a key/value
// group, which share their values, in one product.
#include "core/probes/gram.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/ops.h"

enum { TOKENS = 32 }; // of which the products [H,D] are at hand

void grams_release(struct grams *s)
{
    free(s->gram);
    free(s->slices);
    *s = (struct grams){ 0 };
}

// scale B A [D, H*d], in the arena.
static struct tensor *lora_product(struct graph *g, const struct lora *lora)
{
    const int64_t rank = lora->a.shape[0], in = lora->a.shape[1];
    float *a = xmalloc(tensor_bytes(&lora->a)), *turned = xmalloc(tensor_bytes(&lora->a));
    g->backend->download(a, lora->a.data, tensor_bytes(&lora->a));
    for (int64_t r = 0; r < rank; r++)
        for (int64_t i = 0; i < in; i++) turned[i * rank + r] = a[r * in + i];
    struct tensor *t = graph_upload(g, DTYPE_F32, 2, (int64_t[]){ in, rank }, turned); // [H*d, r]
    free(a);
    free(turned);
    return op_scale(g, op_matmul(g, (struct tensor *)&lora->b, t, NULL), lora->scale);
}

// s->slices from the projection, with what LoRA adds to it.
static int cut_slices(struct grams *s, struct graph *g, const struct linear *o, int64_t d)
{
    const int64_t out = o->weight.shape[0], width = s->heads * d;
    struct arena_mark scratch = graph_scratch_begin(g);
    struct tensor *w = op_widen(g, graph_weight(&o->weight)); // [D, H*d]
    if (o->lora) w = op_add(g, w, lora_product(g, o->lora));
    float *rows = w && graph_ok(g) ? xmalloc(tensor_bytes(w)) : NULL;
    if (rows) g->backend->download(rows, w->data, tensor_bytes(w));
    s->slices = xreallocarray(s->slices, (size_t)(out * width), sizeof *s->slices);
    for (int64_t n = 0; rows && n < s->heads; n++)
        for (int64_t i = 0; i < out; i++)
            memcpy(s->slices + (n * out + i) * d, rows + i * width + n * d,
                   (size_t)d * sizeof *rows);
    free(rows);
    graph_scratch_end(g, scratch);
    return graph_ok(g) ? 0 : -1;
}

// Values of one key/value head of keys from..from+m: [m,d].
static struct tensor *head_values(struct graph *g, const float *v, int64_t from, int64_t m,
                                  int64_t kv_heads, int64_t head, int64_t d)
{
    float *x = xreallocarray(NULL, (size_t)(m * d), sizeof *x);
    for (int64_t i = 0; i < m; i++)
        memcpy(x + i * d, v + ((from + i) * kv_heads + head) * d, (size_t)d * sizeof *x);
    struct tensor *t = graph_upload(g, DTYPE_F32, 2, (int64_t[]){ m, d }, x);
    free(x);
    return t;
}

// u [m,H,D] = v_i W_O[n] of some keys.
static int head_outputs(struct graph *g, struct tensor *slices, const float *v, int64_t from,
                        int64_t m, int64_t heads, int64_t kv_heads, float *u)
{
    const int64_t d = slices->shape[1], group = heads / kv_heads, out = slices->shape[0] / heads;
    for (int64_t k = 0; k < kv_heads && graph_ok(g); k++) {
        struct arena_mark scratch = graph_scratch_begin(g);
        struct tensor *x = head_values(g, v, from, m, kv_heads, k, d);
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

// gram [m,H,H] from u [m,H,D].
static int products(struct graph *g, const float *u, int64_t m, int64_t heads, int64_t out,
                    float *gram)
{
    for (int64_t i = 0; i < m && graph_ok(g); i++) {
        struct arena_mark scratch = graph_scratch_begin(g);
        struct tensor *x =
            graph_upload(g, DTYPE_F32, 2, (int64_t[]){ heads, out }, u + i * heads * out);
        struct tensor *y = op_matmul(g, x, x, NULL); // [H,H]
        if (y) g->backend->download(gram + i * heads * heads, y->data, tensor_bytes(y));
        graph_scratch_end(g, scratch);
    }
    return graph_ok(g) ? 0 : -1;
}

int grams_make(struct grams *s, struct graph *g, const struct linear *o, struct tensor *v,
               int64_t heads)
{
    const int64_t keys = v->shape[0], kv_heads = v->shape[1], d = v->shape[2];
    const int64_t out = o->weight.shape[0], squares = heads * heads;
    const enum matmul_mode mode = g->matmul;
    s->keys = keys;
    s->heads = heads;
    g->matmul = MATMUL_F32;
    int status = cut_slices(s, g, o, d);
    struct arena_mark scratch = graph_scratch_begin(g);
    struct tensor *slices =
        status == 0 ? graph_upload(g, DTYPE_F32, 2, (int64_t[]){ heads * out, d }, s->slices)
                    : NULL;
    struct tensor *wide = op_widen(g, v);
    float *values = wide ? xmalloc(tensor_bytes(wide)) : NULL;
    float *u = xreallocarray(NULL, (size_t)(heads * out * TOKENS), sizeof *u);
    if (wide) g->backend->download(values, wide->data, tensor_bytes(wide));
    s->gram = xreallocarray(s->gram, (size_t)(keys * squares), sizeof *s->gram);
    status = slices && wide ? status : -1;
    for (int64_t from = 0, m; from < keys && status == 0 && !graph_stop(g); from += m) {
        m = keys - from < TOKENS ? keys - from : TOKENS;
        status = head_outputs(g, slices, values, from, m, heads, kv_heads, u);
        if (status == 0) status = products(g, u, m, heads, out, s->gram + from * squares);
    }
    free(u);
    free(values);
    graph_scratch_end(g, scratch);
    g->matmul = mode;
    return status == 0 && graph_ok(g) ? 0 : -1;
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
