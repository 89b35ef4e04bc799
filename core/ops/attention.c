// core/ops/attention.c -- grouped-query attention of q[N,H,d] over k[P,Hkv,d] and v[P,Hkv,dv].
#include "core/ops/check.h"

// Checks `first` or `end`, the range of keys: i32 [N], or NULL.
static bool want_range(struct graph *g, const char *what, const struct tensor *t, int64_t rows)
{
    char text[96];
    if (!t || (t->dtype == DTYPE_I32 && tensor_count(t) == rows)) return true;
    graph_fail(g, "attention: %s is %s where [%lld] i32 is needed", what, op_shape(t, text),
               (long long)rows);
    return false;
}

static bool want_heads(struct graph *g, const struct tensor *q, const struct tensor *k,
                       const struct tensor *v)
{
    char left[96], right[96];
    // Keys and values of a bf16 cache have no gradients.
    const bool cached = k->dtype == DTYPE_BF16 && !tape_on(g);
    if (!op_want_f32(g, "attention", "q", q) || (!cached && !op_want_f32(g, "attention", "k", k)))
        return false;
    if (q->rank != 3 || k->rank != 3 || q->shape[2] != k->shape[2] || k->shape[1] <= 0 ||
        q->shape[1] % k->shape[1] != 0) {
        graph_fail(g, "attention: queries %s do not fit keys %s", op_shape(q, left),
                   op_shape(k, right));
        return false;
    }
    if (v->dtype == k->dtype && v->rank == 3 && v->shape[0] == k->shape[0] &&
        v->shape[1] == k->shape[1] && v->shape[2] <= k->shape[2])
        return true;
    graph_fail(g, "attention: values %s do not fit keys %s", op_shape(v, left), op_shape(k, right));
    return false;
}

static int attention_backward(struct graph *g, const struct tape_step *s)
{
    struct tensor *const *in = s->in, dq, dk, dv, dy;
    struct tensor *const to_q = tape_wanted(g, in[0], &dq), *const to_k =
                                                                tape_wanted(g, in[1], &dk);
    struct tensor *const to_v = tape_wanted(g, in[2], &dv);
    if (!tape_grad(g, s->out, &dy)) return -1;
    return op_back(g, "attention",
                   g->backend->attention_backward(to_q, to_k, to_v, &dy, s->out, in[0], in[1],
                                                  in[2], in[3], in[4], s->real, g->matmul));
}

struct tensor *op_attention(struct graph *g, struct tensor *q, struct tensor *k, struct tensor *v,
                            struct tensor *first, struct tensor *end, float scale,
                            struct tensor *probs)
{
    if (!q || !k || !v || !graph_ok(g)) return NULL;
    char text[96];
    if (!want_heads(g, q, k, v) || !want_range(g, "first", first, q->shape[0]) ||
        !want_range(g, "end", end, q->shape[0]))
        return NULL;
    if (probs && (probs->dtype != DTYPE_F32 || probs->rank != 3 || probs->shape[0] != q->shape[1] ||
                  probs->shape[1] != q->shape[0] || probs->shape[2] != k->shape[0]))
        return graph_fail(g, "attention: the probabilities are %s where [%lld,%lld,%lld] is needed",
                          op_shape(probs, text), (long long)q->shape[1], (long long)q->shape[0],
                          (long long)k->shape[0]);
    struct tensor *y = graph_new3(g, DTYPE_F32, q->shape[0], q->shape[1], v->shape[2]);
    if (!y) return NULL;
    return op_record(
        g, "attention", g->backend->attention(y, q, k, v, first, end, scale, probs, g->matmul), y,
        &(struct tape_step){
            .backward = attention_backward, .in = { q, k, v, first, end }, .real = scale });
}
