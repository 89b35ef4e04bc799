// tests/cuda/ops.c -- every op of kernels/ops.h on the GPU against the CPU, on odd shapes; every op
// in that file has a check here.
#include "tests/cuda/pair.h"
#include "tests/cuda/sight.h"

// --- forward -------------------------------------------------------------------------------------

static void check_norms(int64_t n, int64_t d)
{
    struct pair x = pair_noise(2, n, d, 0, 1), gain = pair_noise(1, d, 0, 0, 2);
    struct pair bias = pair_noise(1, d, 0, 0, 3), y = pair_result(2, n, d, 0);
    ON_BOTH(rmsnorm, OF(y), OF(x), OF(gain), 1e-5f);
    pair_compare("rmsnorm", &y, 1e-6, 1e-5);
    ON_BOTH(layernorm, OF(x), OF(x), OF(gain), OF(bias), 1e-5f); // in place
    pair_compare("layernorm", &x, d > 2 ? 1e-5 : 3e-4, 1e-5);
}

static void check_elementwise(int64_t n, int64_t d)
{
    struct pair a = pair_noise(2, n, d, 0, 1), b = pair_noise(2, n, d, 0, 2);
    struct pair w = pair_noise(1, d, 0, 0, 3), y = pair_result(2, n, d, 0);
    ON_BOTH(scale, OF(a), OF(a), 6.5f);
    ON_BOTH(swiglu, OF(y), OF(a), OF(b));
    pair_compare("swiglu", &y, 1e-6, 1e-5);
    ON_BOTH(geglu, OF(y), OF(a), OF(b));
    pair_compare("geglu", &y, 1e-6, 1e-5);
    for (int form = GELU_ERF; form <= GELU_QUICK; form++) {
        ON_BOTH(gelu, OF(y), OF(a), (enum gelu_form)form);
        pair_compare("gelu", &y, 1e-6, 1e-5);
    }
    ON_BOTH(softcap, OF(y), OF(a), 3.5f);
    pair_compare("softcap", &y, 1e-6, 1e-5);
    ON_BOTH(clip, OF(y), OF(a), -0.5f, 2.0f);
    pair_compare("clip", &y, 0, 0);
    ON_BOTH(softmax, OF(y), OF(a), 0.7f);
    pair_compare("softmax", &y, 1e-7, 1e-5);
    ON_BOTH(scale_columns, OF(y), OF(a), OF(w));
    pair_compare("scale_columns", &y, 0, 0);
    ON_BOTH(add, OF(a), OF(a), OF(b));
    pair_compare("add after scale", &a, 0, 0);
    ON_BOTH(fill, OF(y), -1.5f);
    pair_compare("fill", &y, 0, 0);
}

static void check_rope(int64_t n, int64_t d)
{
    struct pair x = pair_noise(3, n, 3, 2 * d, 1), dx = pair_noise(3, n, 3, 2 * d, 4);
    struct pair cos = pair_noise(2, n, d, 0, 2), sin = pair_noise(2, n, d, 0, 3);
    ON_BOTH(rope_backward, OF(dx), OF(x), OF(cos), OF(sin));
    pair_compare("rope_backward", &dx, 1e-6, 1e-6);
    ON_BOTH(rope, OF(x), OF(cos), OF(sin));
    pair_compare("rope", &x, 1e-6, 1e-6);
}

static void check_weights(int64_t n, int64_t d)
{
    for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        struct pair table = pair_weights((enum dtype)dtype, n + 5, d, 1),
                    y = pair_result(2, n, d, 0);
        struct pair ids = pair_integers(n, 3, 1, n + 5), wide = pair_result(2, n + 5, d, 0);
        ON_BOTH(embedding, OF(y), OF(table), OF(ids));
        pair_compare("embedding", &y, 0, 0);
        ON_BOTH(widen, OF(wide), OF(table));
        pair_compare("widen", &wide, 0, 0);
        struct pair copy = pair_weights((enum dtype)dtype, n + 5, d, 3);
        ON_BOTH(widen, OF(copy), OF(table));
        pair_same("widen: a copy", &copy.on[1], &table.on[1]);
        if (dtype != DTYPE_F16) continue;
        struct pair rounded = table;
        rounded.on[0].dtype = rounded.on[1].dtype = DTYPE_BF16;
        ON_BOTH(widen, OF(rounded), OF(table));
        pair_compare("widen: f16 to bf16 in place", &rounded, 0, 0);
    }
}

static void check_rows(int64_t n, int64_t d)
{
    struct pair x = pair_noise(2, 2 * n, d, 0, 1), some = pair_integers(n, 2, 1, 2 * n);
    struct pair y = pair_result(2, n, d, 0), first = x;
    ON_BOTH(gather_rows, OF(y), OF(x), OF(some));
    pair_compare("gather_rows", &y, 0, 0);
    ON_BOTH(scale, OF(y), OF(y), 2);
    ON_BOTH(scatter_rows, OF(x), OF(y), OF(some));
    pair_compare("scatter_rows", &x, 0, 0);
    struct pair rounded = pair_weights(DTYPE_BF16, 2 * n, d, 3);
    ON_BOTH(scatter_rows, OF(rounded), OF(y), OF(some));
    pair_compare("scatter_rows into bf16", &rounded, 0, 0);
    struct pair thin = pair_weights(DTYPE_BF16, n, d, 4); // an odd d is copied byte by byte
    ON_BOTH(gather_rows, OF(thin), OF(rounded), OF(some));
    pair_compare("gather_rows of bf16", &thin, 0, 0);
    struct pair blocks = pair_weights(DTYPE_Q8_0, 2 * n, 96, 6);
    struct pair few = pair_weights(DTYPE_Q8_0, n, 96, 7), wide = pair_result(2, n, 96, 0);
    ON_BOTH(gather_rows, OF(few), OF(blocks), OF(some));
    ON_BOTH(widen, OF(wide), OF(few));
    pair_compare("gather_rows of blocks", &wide, 0, 0);
    struct pair other = pair_weights(DTYPE_BF16, n, d, 5);
    ON_BOTH(scatter_rows, OF(rounded), OF(other), OF(some));
    pair_compare("scatter_rows of bf16", &rounded, 0, 0);
    first.on[0].shape[0] = first.on[1].shape[0] = n;
    ON_BOTH(gather_rows, OF(first), OF(x), OF(some)); // in place
    pair_compare("gather_rows in place", &x, 0, 0);

    // An index that occurs several times.
    struct pair repeated = pair_integers(n, 1, 0, n < 3 ? n + 1 : 3);
    ON_BOTH(gather_rows_backward, OF(x), OF(y), OF(repeated));
    pair_compare("gather_rows_backward", &x, 1e-6, 1e-6);
    ON_BOTH(scatter_rows_backward, OF(y), OF(x), OF(some));
    pair_compare("scatter_rows_backward", &y, 1e-6, 1e-6);
    pair_compare("scatter_rows_backward: what was overwritten", &x, 1e-6, 1e-6);
}

static void check_blend(int64_t n, int64_t d)
{
    struct pair x = pair_noise(2, n, d, 0, 1), weight = pair_noise(2, 2 * n, 3, 0, 1);
    struct pair index = pair_integers(6 * n, 7, 1, n); // many occur several times
    struct pair y = pair_result(2, 2 * n, d, 0);
    for (int i = 0; i < 2; i++) {
        index.on[i].rank = 2;
        index.on[i].shape[0] = 2 * n, index.on[i].shape[1] = 3;
    }
    ON_BOTH(blend_rows, OF(y), OF(x), OF(index), OF(weight));
    pair_compare("blend_rows", &y, 1e-6, 1e-6);
    ON_BOTH(blend_rows_backward, OF(x), OF(y), OF(index), OF(weight));
    pair_compare("blend_rows_backward", &x, 1e-5, 1e-5);
}

static void check_columns(int64_t n, int64_t d)
{
    const struct columns from = { 2, 3, d };
    struct pair x = pair_noise(2, n, 3 * d, 0, 1), y = pair_noise(2, 2 * n, d + 2, 0, 2);
    ON_BOTH(put_columns, OF(y), 1, OF(x), from);
    pair_compare("put_columns", &y, 0, 0);
    ON_BOTH(put_columns_backward, OF(x), from, OF(y), 1);
    pair_compare("put_columns_backward", &x, 1e-6, 1e-6);
}

static void check_experts(int64_t n, int64_t d)
{
    struct pair logits = pair_noise(2, n, 2 * n + d, 0, 1), w = pair_result(2, n, 2, 0);
    struct pair index = pair_integers(2 * n, 1, 0, 2 * n),
                d_logits = pair_noise(2, n, 2 * n + d, 0, 2);
    index.on[0].rank = index.on[1].rank = 2;
    index.on[0].shape[0] = index.on[1].shape[0] = n,
    index.on[0].shape[1] = index.on[1].shape[1] = 2;
    for (int normalise = 0; normalise < 2; normalise++) {
        ON_BOTH(expert_weights, OF(w), OF(logits), OF(index), normalise, 2.5F);
        pair_compare("expert_weights", &w, 1e-6, 1e-6);
        ON_BOTH(expert_weights_backward, OF(d_logits), OF(w), OF(logits), OF(index), normalise,
                2.5F);
        pair_compare("expert_weights_backward", &d_logits, 1e-6, 1e-5);
    }
    struct pair x = pair_noise(2, n, d, 0, 3), y = pair_noise(2, 2 * n, d, 0, 4);
    struct pair weight = pair_noise(1, n, 0, 0, 5), some = pair_integers(n, 2, 1, 2 * n);
    struct pair dx = pair_noise(2, n, d, 0, 6), dweight = pair_noise(1, n, 0, 0, 7);
    ON_BOTH(add_weighted_rows, OF(y), OF(x), OF(some), OF(weight));
    pair_compare("add_weighted_rows", &y, 1e-6, 1e-6);
    for (int wanted = 1; wanted < 4; wanted++)
        ON_BOTH(add_weighted_rows_backward, IF(wanted & 1, dx), IF(wanted & 2, dweight), OF(y),
                OF(x), OF(some), OF(weight));
    pair_compare("add_weighted_rows_backward: rows", &dx, 1e-6, 1e-5);
    pair_compare("add_weighted_rows_backward: weights", &dweight, 1e-5, 1e-5);
}

static void check_patches(int64_t n, int64_t d)
{
    for (int64_t p = 1; p < 15 && p <= n && p <= d; p += 6) {
        const int64_t count = (n / p) * (d / p);
        struct pair x = pair_noise(3, 3, n, d, 1), y = pair_result(2, count, 3 * p * p, 0);
        ON_BOTH(patches, OF(y), OF(x), p);
        pair_compare("patches", &y, 0, 0);
        ON_BOTH(patches_backward, OF(x), OF(y), p);
        pair_compare("patches_backward", &x, 0, 0);
    }
}

static void check_contribution(int64_t n, int64_t d)
{
    struct pair v = pair_noise(3, n + 3, 2, d, 1), probs = pair_noise(2, 4, n + 3, 0, 2);
    struct pair some = pair_integers(n, 7, 1, n + 3), y = pair_result(2, n, 4 * d, 0);
    struct pair norms = pair_result(1, n, 0, 0);
    ON_BOTH(weigh_values, OF(y), OF(probs), OF(v), OF(some));
    pair_compare("weigh_values", &y, 0, 0);
    struct pair narrow = pair_bf16(&v);
    ON_BOTH(weigh_values, OF(y), OF(probs), OF(narrow), OF(some));
    pair_compare("weigh_values of bf16", &y, 0, 0);
    ON_BOTH(row_norms, OF(norms), OF(y));
    pair_compare("row_norms", &norms, 1e-7, 1e-5);
}

// --- matrix products -----------------------------------------------------------------------------

static void check_products(int64_t n, int64_t k)
{
    static const int64_t outputs[] = { 1, 5, 33 };
    for (size_t i = 0; i < 3 * 6; i++) {
        const int64_t m = outputs[i / 6];
        const enum dtype dtype = (enum dtype)(i % 3);
        const enum matmul_mode mode = i % 6 < 3 ? MATMUL_F32 : MATMUL_BF16;
        // Relative rounding error of a product.
        const double room = mode == MATMUL_F32 ? 2e-6 : 6e-3;
        const double far = room * sqrt((double)(n + k + m));
        struct pair x = pair_noise(2, n, k, 0, 1), w = pair_weights(dtype, m, k, 2);
        struct pair bias = pair_noise(1, m, 0, 0, 3), y = pair_result(2, n, m, 0);
        struct pair dy = pair_noise(2, n, m, 0, 4), dx = pair_noise(2, n, k, 0, 5);
        struct pair dw = pair_noise(2, m, k, 0, 6), db = pair_noise(1, m, 0, 0, 7);
        struct pair fresh = pair_result(2, n, k, 0);
        ON_BOTH(matmul, OF(y), OF(x), OF(w), IF(i % 2, bias), mode);
        pair_compare("matmul", &y, far, 1e-5);
        ON_BOTH(matmul_dx, OF(dx), OF(dy), OF(w), true, mode);
        pair_compare("matmul_dx", &dx, far, 1e-5);
        ON_BOTH(matmul_dx, OF(fresh), OF(dy), OF(w), false, mode);
        pair_compare("matmul_dx, written", &fresh, far, 1e-5);
        ON_BOTH(matmul_dw, IF(i % 4, dw), IF(i % 3, db), OF(dy), OF(x), mode);
        pair_compare("matmul_dw", &dw, far, 1e-5);
        pair_compare("matmul_dw: bias", &db, 1e-5, 1e-5);
        pairs_release();
    }
}

// --- attention -----------------------------------------------------------------------------------

static void check_attention_of(int64_t n, int64_t keys, int64_t heads, int64_t kv_heads, int64_t d,
                               int64_t wide, enum sight sight)
{
    struct pair q = pair_noise(3, n, heads, d, 1), k = pair_noise(3, keys, kv_heads, d, 2);
    struct pair v = pair_noise(3, keys, kv_heads, wide, 3), y = pair_result(3, n, heads, wide);
    struct tensor from = tensor_of(DTYPE_I32, 1, n, 0, 0), to = from;
    to.data = malloc(tensor_bytes(&to) + 1);
    set_sight(&from, &to, n, keys, sight);
    struct pair first = pair_of(from), last = pair_of(to), probs = pair_result(3, heads, n, keys);
    const bool ranges = sight != SEE_ALL;
    const float scale = 2 / sqrtf((float)d);
    ON_BOTH(attention, OF(y), OF(q), OF(k), OF(v), IF(ranges, first), IF(ranges, last), scale, NULL,
            MATMUL_F32);
    pair_compare("attention", &y, 1e-5, 1e-5);
    struct pair again = pair_result(3, n, heads, wide);
    ON_BOTH(attention, OF(again), OF(q), OF(k), OF(v), IF(ranges, first), IF(ranges, last), scale,
            OF(probs), MATMUL_F32);
    pair_compare("attention: probabilities", &probs, 1e-6, 1e-5);
    // Returning the probabilities changes no bit.
    pair_same("attention: with probabilities", &y.on[1], &again.on[1]);
    check_bf16_keys(&q, &k, &v, ranges ? &first : NULL, &last, scale, MATMUL_F32);

    struct pair dy = pair_noise(3, n, heads, wide, 4), dq = pair_noise(3, n, heads, d, 5);
    struct pair dk = pair_noise(3, keys, kv_heads, d, 6);
    struct pair dv = pair_noise(3, keys, kv_heads, wide, 7);
    for (int without = 0; without < 3; without++) {
        ON_BOTH(attention_backward, IF(without != 0, dq), IF(without != 1, dk),
                IF(without != 2, dv), OF(dy), OF(y), OF(q), OF(k), OF(v), IF(ranges, first),
                IF(ranges, last), scale, MATMUL_F32);
        pair_compare("attention_backward: dq", &dq, 3e-5, 1e-5);
        pair_compare("attention_backward: dk", &dk, 3e-5, 1e-5);
        pair_compare("attention_backward: dv", &dv, 3e-5, 1e-5);
    }
    pairs_release();
}

static void check_attention(int64_t n, int64_t d)
{
    for (int sight = SEE_ALL; sight < SIGHTS; sight++) {
        check_attention_of(n, n, 4, 2, d, d, (enum sight)sight);
        check_attention_of(n, n + 150, 3, 1, d, (d + 1) / 2, (enum sight)sight);
    }
}

// --- IRA -----------------------------------------------------------------------------------------

static void check_ira(int64_t n, int64_t d)
{
    struct pair v = pair_noise(3, n, 3, d, 1), head = pair_noise(2, 3 * n, d + 1, 0, 2);
    struct pair gate = pair_noise(2, n, 3, 0, 3), eps = pair_noise(3, n, 3, d, 4);
    struct pair z = pair_result(3, n, 3, d), kl = pair_result(2, n, 3, 0);
    struct pair prior = pair_noise(2, 3, d, 0, 5), mean = pair_noise(2, 3, d, 0, 6);
    struct pair dv = pair_noise(3, n, 3, d, 7), dhead = pair_noise(2, 3 * n, d + 1, 0, 8);
    struct pair dprior = pair_noise(2, 3, d, 0, 9), dmean = pair_noise(2, 3, d, 0, 10);
    struct pair dkl = pair_noise(2, n, 3, 0, 11);
    for (int noisy = 0; noisy < 2; noisy++) {
        ON_BOTH(ira_values, OF(z), OF(v), OF(head), IF(noisy, gate), IF(noisy, eps));
        pair_compare("ira_values", &z, 1e-6, 1e-6);
        ON_BOTH(ira_values_backward, IF(noisy, dv), OF(dhead), OF(z), OF(head), IF(noisy, gate),
                IF(noisy, eps));
        pair_compare("ira_values_backward: v", &dv, 1e-6, 1e-6);
        pair_compare("ira_values_backward: head", &dhead, 1e-5, 1e-5);
    }
    enum { PRINTED, LOCAL, GLOBAL, PRIORS };
    for (int kind = 0; kind < PRIORS; kind++) {
        const bool pulled = kind != PRINTED, global = kind == GLOBAL;
        ON_BOTH(ira_kl, OF(kl), OF(head), OF(prior), IF(pulled, v), IF(global, mean));
        pair_compare("ira_kl", &kl, 1e-5, 1e-5);
        ON_BOTH(ira_kl_backward, OF(dhead), IF(!global, dprior), IF(pulled, dv), IF(global, dmean),
                OF(dkl), OF(head), OF(prior), IF(pulled, v), IF(global, mean));
        pair_compare("ira_kl_backward: head", &dhead, 1e-4, 1e-5);
        pair_compare("ira_kl_backward: prior", &dprior, 1e-4, 1e-5);
        pair_compare("ira_kl_backward: v", &dv, 1e-5, 1e-5);
        pair_compare("ira_kl_backward: mean", &dmean, 1e-4, 1e-5);
    }
}

static void check_ira_gate(int64_t n, int64_t d)
{
    struct pair q = pair_noise(3, n / 2 + 1, 4, d, 1), k = pair_noise(3, n, 2, d, 2);
    struct pair gate = pair_result(2, n, 2, 0);
    ON_BOTH(ira_gate, OF(gate), OF(q), OF(k), 1.5f, true);
    pair_compare("ira_gate", &gate, 1e-5, 1e-5);
    ON_BOTH(ira_gate, OF(gate), OF(q), OF(k), 1.5f, false);
    pair_compare("ira_gate, as printed", &gate, 1e-5, 1e-5);
}

// --- backward ------------------------------------------------------------------------------------

static void check_norms_backward(int64_t n, int64_t d)
{
    struct pair x = pair_noise(2, n, d, 0, 1), gain = pair_noise(1, d, 0, 0, 2);
    struct pair dy = pair_noise(2, n, d, 0, 3), dx = pair_noise(2, n, d, 0, 4);
    struct pair dgain = pair_noise(1, d, 0, 0, 5), dbias = pair_noise(1, d, 0, 0, 6);
    for (int which = 0; which < 3; which++) {
        ON_BOTH(rmsnorm_backward, IF(which != 0, dx), IF(which != 1, dgain), OF(dy), OF(x),
                OF(gain), 1e-5f);
        ON_BOTH(layernorm_backward, IF(which != 0, dx), IF(which != 1, dgain),
                IF(which != 2, dbias), OF(dy), OF(x), OF(gain), 1e-2f);
        pair_compare("norms backward: dx", &dx, 1e-4, 1e-4);
        pair_compare("norms backward: dgain", &dgain, 3e-5, 1e-5);
        pair_compare("norms backward: dbias", &dbias, 3e-5, 1e-5);
    }
}

static void check_elementwise_backward(int64_t n, int64_t d)
{
    struct pair a = pair_noise(2, n, d, 0, 1), b = pair_noise(2, n, d, 0, 2);
    struct pair dy = pair_noise(2, n, d, 0, 3), dx = pair_noise(2, n, d, 0, 4);
    struct pair db = pair_noise(2, n, d, 0, 5), w = pair_noise(1, d, 0, 0, 6);
    ON_BOTH(scale, OF(a), OF(a), 3);
    ON_BOTH(swiglu_backward, OF(dx), NULL, OF(dy), OF(a), OF(b));
    ON_BOTH(swiglu_backward, NULL, OF(db), OF(dy), OF(a), OF(b));
    pair_compare("swiglu_backward: gate", &dx, 1e-6, 1e-5);
    pair_compare("swiglu_backward: up", &db, 1e-6, 1e-5);
    ON_BOTH(geglu_backward, OF(dx), NULL, OF(dy), OF(a), OF(b));
    ON_BOTH(geglu_backward, NULL, OF(db), OF(dy), OF(a), OF(b));
    pair_compare("geglu_backward: gate", &dx, 3e-6, 1e-5);
    pair_compare("geglu_backward: up", &db, 3e-6, 1e-5);
    for (int form = GELU_ERF; form <= GELU_QUICK; form++)
        ON_BOTH(gelu_backward, OF(dx), OF(dy), OF(a), (enum gelu_form)form);
    pair_compare("gelu_backward", &dx, 3e-6, 1e-5);
    ON_BOTH(softcap_backward, OF(dx), OF(dy), OF(a), 9.5f);
    pair_compare("softcap_backward", &dx, 3e-6, 1e-5);
    ON_BOTH(clip_backward, OF(dx), OF(dy), OF(a), -0.5f, 2.0f);
    pair_compare("clip_backward", &dx, 3e-6, 1e-5);
    ON_BOTH(scale_backward, OF(dx), OF(dy), -2.5f);
    struct pair dw = pair_noise(1, d, 0, 0, 7);
    for (int which = 0; which < 3; which++)
        ON_BOTH(scale_columns_backward, IF(which != 0, dx), IF(which != 1, dw), OF(dy), OF(a),
                OF(w));
    pair_compare("scale_columns_backward", &dx, 3e-6, 1e-5);
    pair_compare("scale_columns_backward: w", &dw, 3e-5, 1e-5);
    ON_BOTH(softmax, OF(a), OF(a), 1);
    ON_BOTH(softmax_backward, OF(db), OF(dy), OF(a), 0.7f);
    pair_compare("softmax_backward", &db, 1e-6, 1e-5);
}

static void check_loss(int64_t n, int64_t d)
{
    struct pair x = pair_noise(2, n, d, 0, 1), target = pair_integers(n, 7, 0, d);
    struct pair weight = pair_noise(1, n, 0, 0, 2), loss = pair_result(1, n, 0, 0);
    ON_BOTH(scale, OF(x), OF(x), 20);
    ON_BOTH(cross_entropy, OF(loss), OF(x), OF(target), OF(weight));
    pair_compare("cross_entropy", &loss, 3e-6, 1e-6);
    pair_compare("cross_entropy: gradient", &x, 1e-6, 1e-5);
}

static void check_step(int64_t n, int64_t d)
{
    struct pair w = pair_noise(2, n, d, 0, 1), g = pair_noise(2, n, d, 0, 2);
    struct pair m = pair_result(2, n, d, 0), v = pair_result(2, n, d, 0);
    struct adamw_step s = {
        .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0.1, .scale = 0.5
    };
    double sum[2] = { 3, 3 };
    ON_BOTH(fill, OF(m), 0);
    ON_BOTH(fill, OF(v), 0);
    for (s.step = 1; s.step <= 3; s.step++) ON_BOTH(adamw, OF(w), OF(g), OF(m), OF(v), &s);
    pair_compare("adamw", &w, 1e-6, 1e-6);
    pair_compare("adamw: mean", &m, 1e-7, 1e-6);
    pair_compare("adamw: square", &v, 1e-7, 1e-6);
    ON_BOTH(sum_squares, &sum[side], OF(g));
    assert_true(fabs(sum[1] - sum[0]) <= 1e-12 * sum[0]);
}

static void check_convolution(int64_t n, int64_t d)
{
    struct pair x = pair_noise(2, n, d, 0, 1), w = pair_noise(2, d, 4, 0, 2);
    struct pair before = pair_noise(2, 3, d, 0, 3), y = pair_result(2, n, d, 0);
    struct pair dx = pair_noise(2, n, d, 0, 4), dw = pair_noise(2, d, 4, 0, 5);
    ON_BOTH(causal_conv, OF(y), OF(x), OF(w), NULL, NULL);
    pair_compare("causal_conv", &y, 1e-6, 1e-5);
    ON_BOTH(causal_conv, OF(y), OF(x), OF(w), OF(before), OF(before));
    pair_compare("causal_conv after earlier rows", &y, 1e-6, 1e-5);
    pair_compare("causal_conv: last rows", &before, 0, 0);
    for (int wanted = 1; wanted < 4; wanted++)
        ON_BOTH(causal_conv_backward, IF(wanted & 1, dx), IF(wanted & 2, dw), OF(y), OF(x), OF(w));
    pair_compare("causal_conv_backward: rows", &dx, 3e-6, 1e-5);
    pair_compare("causal_conv_backward: filter", &dw, 3e-5, 1e-5);
    struct pair gate = pair_noise(2, n, d, 0, 6), dgate = pair_noise(2, n, d, 0, 7);
    for (int wanted = 1; wanted < 4; wanted++)
        ON_BOTH(sigmoid_gate_backward, IF(wanted & 1, dx), IF(wanted & 2, dgate), OF(y), OF(x),
                OF(gate));
    pair_compare("sigmoid_gate_backward: rows", &dx, 3e-6, 1e-5);
    pair_compare("sigmoid_gate_backward: gates", &dgate, 3e-6, 1e-5);
    ON_BOTH(sigmoid_gate, OF(x), OF(x), OF(gate));
    pair_compare("sigmoid_gate", &x, 1e-6, 1e-5);
}

// Four heads with values of width d share two keys of width dk.
static void check_delta(int64_t n, int64_t d, int64_t dk)
{
    enum { HK = 2, H = 4 };
    const int64_t wide = 2 * HK * dk + H * d;
    struct pair x = pair_noise(2, n, wide, 0, 1), a = pair_noise(2, n, H, 0, 2);
    struct pair b = pair_noise(2, n, H, 0, 3), log_a = pair_noise(1, H, 0, 0, 4);
    struct pair bias = pair_noise(1, H, 0, 0, 5), state = pair_noise(3, H, dk, d, 6);
    struct pair y = pair_result(3, n, H, d), dx = pair_noise(2, n, wide, 0, 7);
    struct pair da = pair_noise(2, n, H, 0, 8), db = pair_noise(2, n, H, 0, 9);
    struct pair dlog_a = pair_noise(1, H, 0, 0, 10), dbias = pair_noise(1, H, 0, 0, 11);
    struct delta_inputs p[2];
    struct delta_grads grads[2];
    for (int side = 0; side < 2; side++) {
        p[side] = (struct delta_inputs){ OF(x), OF(a), OF(b), OF(log_a), OF(bias), HK, n % 2 };
        grads[side] = (struct delta_grads){ OF(dx), OF(da), OF(db), OF(dlog_a), OF(dbias) };
    }
    ON_BOTH(delta_rule, OF(y), &p[side], OF(state), OF(state));
    pair_compare("delta_rule after a state", &y, 3e-6, 1e-5);
    pair_compare("delta_rule: state", &state, 3e-6, 1e-5);
    ON_BOTH(delta_rule, OF(y), &p[side], NULL, NULL);
    pair_compare("delta_rule", &y, 3e-6, 1e-5);
    ON_BOTH(delta_rule_backward, &grads[side], OF(y), &p[side]);
    pair_compare("delta_rule_backward: x", &dx, 1e-5, 1e-4);
    pair_compare("delta_rule_backward: a", &da, 1e-5, 1e-4);
    pair_compare("delta_rule_backward: b", &db, 1e-5, 1e-4);
    pair_compare("delta_rule_backward: log_a", &dlog_a, 1e-4, 1e-4);
    pair_compare("delta_rule_backward: bias", &dbias, 1e-4, 1e-4);
    ON_BOTH(delta_rule_backward, &(struct delta_grads){ .a = OF(da) }, OF(y), &p[side]);
    pair_compare("delta_rule_backward: only a", &da, 1e-5, 1e-4);
}

// Keys of 128 are the widest that go in chunks.
static void check_delta_rule(int64_t n, int64_t d)
{
    if (d > 70) d = 70;
    check_delta(n, d, 9);
    if (n == 33 && d == 16) {
        check_delta(n, d, 128);
        check_delta(n, d, 130);
    }
}

// --- all -----------------------------------------------------------------------------------------

static const struct {
    void (*check)(int64_t n, int64_t d);
    const char *ops; // the ops that it checks
} checks[] = {
    { check_norms, "rmsnorm layernorm" },
    { check_elementwise, "add scale swiglu geglu gelu softcap clip softmax scale_columns fill" },
    { check_rope, "rope rope_backward" },
    { check_weights, "embedding widen" },
    { check_blend, "blend_rows blend_rows_backward" },
    { check_rows, "gather_rows scatter_rows gather_rows_backward scatter_rows_backward" },
    { check_columns, "put_columns put_columns_backward" },
    { check_experts, "expert_weights expert_weights_backward add_weighted_rows "
                     "add_weighted_rows_backward" },
    { check_patches, "patches patches_backward" },
    { check_contribution, "weigh_values row_norms" },
    { check_products, "matmul matmul_dx matmul_dw" },
    { check_attention, "attention attention_backward" },
    { check_ira, "ira_values ira_kl ira_values_backward ira_kl_backward" },
    { check_ira_gate, "ira_gate" },
    { check_norms_backward, "rmsnorm_backward layernorm_backward" },
    { check_elementwise_backward, "swiglu_backward geglu_backward gelu_backward softcap_backward "
                                  "clip_backward scale_backward scale_columns_backward "
                                  "softmax_backward" },
    { check_convolution, "causal_conv causal_conv_backward sigmoid_gate sigmoid_gate_backward" },
    { check_delta_rule, "delta_rule delta_rule_backward" },
    { check_loss, "cross_entropy" },
    { check_step, "sum_squares adamw" },
};

static void every_op_equals_the_cpu(void **state)
{
    static const int64_t shapes[][2] = { { 1, 1 },  { 1, 64 },   { 2, 7 },   { 3, 80 }, { 33, 16 },
                                         { 7, 72 }, { 70, 131 }, { 5, 300 }, { 8, 100 } };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        for (size_t j = 0; j < sizeof shapes / sizeof *shapes; j++) {
            const int64_t n = shapes[j][0], d = shapes[j][1];
            // Heads wider than any tile have no gradient.
            if (checks[i].check == check_attention && d > 256) continue;
            checks[i].check(n, d);
            pairs_release();
        }
}

// Heads wider than any tile: forward only; the gradient fails with the reason.
static void wide_heads(void **state)
{
    struct pair q = pair_noise(3, 9, 2, 300, 1), k = pair_noise(3, 9, 2, 300, 2);
    struct pair y = pair_result(3, 9, 2, 300), dq = pair_noise(3, 9, 2, 300, 3);
    ON_BOTH(attention, OF(y), OF(q), OF(k), OF(k), NULL, NULL, 0.1f, NULL, MATMUL_F32);
    pair_compare("attention", &y, 1e-5, 1e-5);
    assert_int_equal(devices[1]->attention_backward(&dq.on[1], NULL, NULL, &y.on[1], &y.on[1],
                                                    &q.on[1], &k.on[1], &k.on[1], NULL, NULL, 0.1f,
                                                    MATMUL_F32),
                     -1);
    assert_non_null(strstr(devices[1]->failure(), "at most 256"));
    pairs_release();
}

// [rows, columns] of noise that begins one element after the start of its memory.
static struct pair behind(enum dtype dtype, int64_t rows, int64_t columns, uint32_t seed)
{
    struct pair p = pair_weights(dtype, 1, rows * columns + 1, seed);
    for (int side = 0; side < 2; side++) {
        p.on[side].data = (char *)p.on[side].data + dtype_size(dtype);
        p.on[side].shape[0] = rows;
        p.on[side].shape[1] = columns;
    }
    return p;
}

// Addresses and widths that cuBLASLt may refuse, and a bias that it would accept but then fault on.
static void products_of_any_alignment(void **state)
{
    static const int64_t shapes[][3] = { { 9, 64, 40 }, { 70, 131, 66 }, { 129, 20, 131 } };
    for (size_t i = 0; i < 3 * 3 * 2 * 2; i++) {
        const int64_t n = shapes[i % 3][0], k = shapes[i % 3][1], m = shapes[i % 3][2];
        const enum dtype dtype = (enum dtype)(i / 3 % 3);
        const enum matmul_mode mode = i / 9 % 2 ? MATMUL_F32 : MATMUL_BF16;
        const bool bias_alone = i / 18;
        const double far = (mode == MATMUL_F32 ? 2e-6 : 6e-3) * sqrt((double)(n + k + m));
        struct pair fresh = pair_result(2, n, k, 0);
        struct pair x = bias_alone ? pair_noise(2, n, k, 0, 1) : behind(DTYPE_F32, n, k, 1);
        struct pair w = bias_alone ? pair_weights(dtype, m, k, 2) : behind(dtype, m, k, 2);
        struct pair y = bias_alone ? pair_result(2, n, m, 0) : behind(DTYPE_F32, n, m, 3);
        struct pair bias = behind(DTYPE_F32, 1, m, 4), dx = behind(DTYPE_F32, n, k, 5);
        struct pair dw = behind(DTYPE_F32, m, k, 6), dy = behind(DTYPE_F32, n, m, 7);
        for (int side = 0; side < 2; side++) bias.on[side].shape[0] = m;
        ON_BOTH(matmul, OF(y), OF(x), OF(w), OF(bias), mode);
        pair_compare("matmul", &y, far, 1e-5);
        ON_BOTH(matmul_dx, OF(dx), OF(dy), OF(w), true, mode);
        pair_compare("matmul_dx", &dx, far, 1e-5);
        ON_BOTH(matmul_dx, OF(fresh), OF(dy), OF(w), false, mode);
        pair_compare("matmul_dx, written", &fresh, far, 1e-5);
        ON_BOTH(matmul_dw, OF(dw), NULL, OF(dy), OF(x), mode);
        pair_compare("matmul_dw", &dw, far, 1e-5);
        pairs_release();
    }
}

static void every_op_has_a_check(void **state)
{
    static const char *const ops[] = {
#define OP(name, arguments) " " #name " ",
#include "kernels/ops.h"
#undef OP
    };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        bool found = false;
        for (size_t j = 0; j < sizeof checks / sizeof *checks; j++) {
            char list[256];
            snprintf(list, sizeof list, " %s ", checks[j].ops);
            found = found || strstr(list, ops[i]);
        }
        if (!found) fail_msg("no check of the op '%s'", ops[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_equals_the_cpu),
        cmocka_unit_test(wide_heads),
        cmocka_unit_test(products_of_any_alignment),
        cmocka_unit_test(every_op_has_a_check),
    };
    const int failed = cmocka_run_group_tests(tests, devices_open, NULL);
    if (!order_matters()) return failed;
    return failed + cmocka_run_group_tests(tests, devices_open_back, NULL);
}
