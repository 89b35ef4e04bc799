// tests/cuda/fused.c -- the GPU's forms that fuse several ops (kernels/fused.h) against the same
// ops on the CPU, on odd shapes; products of one row, of which these forms are made; products with
// f16 weights; copies; and recordings of ops. fused_experts.c tests experts and latent attention.
#include "tests/cuda/fused.h"

// --- one row -------------------------------------------------------------------------------------

static void one_row_of_any_width(void **state)
{
    // Whole and partial chunks; widths that cannot be read 16 bytes at a time.
    static const int64_t widths[] = { 4, 8, 40, 256, 1000, 1024, 1032, 2056, 4100, 11008 };
    static const int64_t outputs[] = { 1, 2, 9, 40 };
    for (size_t i = 0; i < 10 * 3 * 4; i++) {
        const int64_t k = widths[i / 12], m = outputs[i % 4];
        const enum dtype dtype = (enum dtype)(i / 4 % 3);
        struct pair x = pair_noise(2, 1, k, 0, 1), w = pair_weights(dtype, m, k, 2);
        struct pair bias = pair_noise(1, m, 0, 0, 3), y = pair_result(2, 1, m, 0);
        ON_BOTH(matmul, OF(y), OF(x), OF(w), IF(i % 2, bias), MATMUL_BF16);
        pair_compare("one row", &y, tolerance(MATMUL_F32, 1, k), 1e-5);
        pairs_release();
    }
}

// A row that fits into the shared memory of an H200, but not of a smaller GPU.
static void one_row_with_little_shared_memory(void **state)
{
    const int64_t k = 30000;
    for (int little = 0; little < 2; little++) {
        struct pair x = pair_noise(2, 1, k, 0, 1), w = pair_weights(DTYPE_BF16, 3, k, 2);
        struct pair y = pair_result(2, 1, 3, 0);
        if (little) setenv("CUDA_HOST_SHARED", "101376", 1); // for the emulated GPU
        ON_BOTH(matmul, OF(y), OF(x), OF(w), NULL, MATMUL_BF16);
        unsetenv("CUDA_HOST_SHARED");
        pair_compare("one row", &y, tolerance(MATMUL_F32, 1, k), 1e-5);
        pairs_release();
    }
}

// --- h += x w^T ----------------------------------------------------------------------------------

static void check_add(int64_t n, int64_t k, int64_t m, enum dtype dtype, enum matmul_mode mode,
                      bool after)
{
    const float eps = 1e-5f;
    struct pair gain = pair_noise(1, m, 0, 0, 6);
    struct pair h = pair_noise(2, n, m, 0, 1), x = pair_noise(2, n, k, 0, 2);
    struct pair w = pair_weights(dtype, m, k, 3), bias = pair_noise(1, m, 0, 0, 4);
    struct tensor y = noise_tensor(2, n, m, 0, 5);
    const bool packs = k % (16 / (int64_t)dtype_size(dtype)) == 0;
    const bool many = n > FEW && mode == MATMUL_BF16 && dtype != DTYPE_F32 && k % 4 == 0;
    const struct fused_add p = { .y = &h.on[1],
                                 .h = &h.on[1],
                                 .x = &x.on[1],
                                 .w = { .w = &w.on[1], .bias = &bias.on[1] },
                                 .after = { after ? &gain.on[1] : NULL, eps, NULL },
                                 .mode = (int)mode };
    if (computed(gpu->fused->add(&p), n <= FEW ? packs : many)) {
        DONE(cpu->matmul(&y, &x.on[0], &w.on[0], &bias.on[0], MATMUL_F32));
        norm_after(&y, after ? &gain.on[0] : NULL, eps);
        DONE(cpu->add(&h.on[0], &h.on[0], &y));
    }
    pair_compare("fused add", &h, tolerance(mode, n, k), 1e-5); // or unchanged
    free(y.data);
    pairs_release();
}

// --- gelu(x w^T) ---------------------------------------------------------------------------------

// A GPU's cuBLASLt need not support GELU for every shape, but must for those of encoders.
static void check_gelu(int64_t n, int64_t k, int64_t m, enum gelu_form form, enum dtype dtype,
                       enum matmul_mode mode)
{
    struct pair x = pair_noise(2, n, k, 0, 1), y = pair_noise(2, n, m, 0, 2);
    struct pair w = pair_weights(dtype, m, k, 3), bias = pair_noise(1, m, 0, 0, 4);
    const bool many = n > FEW && mode == MATMUL_BF16 && dtype != DTYPE_F32 && k % 4 == 0;
    const struct fused_gelu p = { .y = &y.on[1],
                                  .x = &x.on[1],
                                  .w = { .w = &w.on[1], .bias = &bias.on[1] },
                                  .form = (int)form,
                                  .mode = (int)mode };
    const int status = gpu->fused->gelu(&p);
    if (status < 0) fail_msg("%s", gpu->failure());
    const bool can = many && form == GELU_TANH, played = strstr(gpu->describe(), "host plays");
    assert_true(status == 0 ? can : !can || (!played && m < 1000));
    if (status == 0) {
        DONE(cpu->matmul(&y.on[0], &x.on[0], &w.on[0], &bias.on[0], MATMUL_F32));
        DONE(cpu->gelu(&y.on[0], &y.on[0], GELU_TANH));
    }
    pair_compare("fused GELU", &y, tolerance(mode, n, k), 1e-5); // or unchanged
    pairs_release();
}

// --- FFN -----------------------------------------------------------------------------------------

static void check_ffn(int64_t n, int64_t d, int64_t inner, enum dtype dtype, enum matmul_mode mode,
                      bool after)
{
    const float eps = 1e-5f;
    struct pair behind = pair_noise(1, d, 0, 0, 11), wide = pair_noise(1, inner, 0, 0, 12);
    struct pair h = pair_noise(2, n, d, 0, 1), gain = pair_noise(1, d, 0, 0, 2);
    struct pair gate = pair_weights(dtype, inner, d, 3), up = pair_weights(dtype, inner, d, 4);
    struct pair down = pair_weights(dtype, d, inner, 5), bias = pair_noise(1, d, 0, 0, 6);
    struct tensor x = noise_tensor(2, n, d, 0, 7), y = noise_tensor(2, n, d, 0, 8);
    struct tensor a = noise_tensor(2, n, inner, 0, 9), b = noise_tensor(2, n, inner, 0, 10);
    const int64_t unit = 16 / (int64_t)dtype_size(dtype);
    const bool packs = d % unit == 0 && inner % unit == 0;
    const bool many =
        n > FEW && mode == MATMUL_BF16 && dtype != DTYPE_F32 && d % 4 == 0 && inner % 4 == 0;
    const struct fused_ffn p = { .y = &h.on[1],
                                 .h = &h.on[1],
                                 .gain = &gain.on[1],
                                 .eps = eps,
                                 .gate = { .w = &gate.on[1], .bias = after ? &wide.on[1] : NULL },
                                 .up = { .w = &up.on[1], .bias = after ? &wide.on[1] : NULL },
                                 .down = { .w = &down.on[1], .bias = &bias.on[1] },
                                 .after = { after ? &behind.on[1] : NULL, eps, NULL },
                                 .mode = (int)mode };
    if (computed(gpu->fused->ffn(&p), n <= FEW ? packs : many)) {
        DONE(cpu->rmsnorm(&x, &h.on[0], &gain.on[0], eps));
        DONE(cpu->matmul(&a, &x, &gate.on[0], after ? &wide.on[0] : NULL, MATMUL_F32));
        DONE(cpu->matmul(&b, &x, &up.on[0], after ? &wide.on[0] : NULL, MATMUL_F32));
        DONE(cpu->swiglu(&a, &a, &b));
        DONE(cpu->matmul(&y, &a, &down.on[0], &bias.on[0], MATMUL_F32));
        norm_after(&y, after ? &behind.on[0] : NULL, eps);
        DONE(cpu->add(&h.on[0], &h.on[0], &y));
    }
    // Each inner element is a product of two sums over d. f16 weights are about 1.5 in magnitude,
    // so these elements are larger, but f16 rounds away a smaller share of them than bf16.
    const double size = dtype == DTYPE_F16 ? 4 : 1;
    pair_compare("fused FFN", &h, 2 * size * tolerance(mode, n, inner) * sqrt((double)d), 1e-5);
    free(x.data);
    free(y.data);
    free(a.data);
    free(b.data);
    pairs_release();
}

// --- attention and what follows ------------------------------------------------------------------

static void check_attend(int64_t n, int64_t heads, int64_t kv_heads, int64_t dim, enum dtype dtype,
                         enum dtype cache, enum matmul_mode mode, bool after)
{
    const float eps = 1e-5f;
    struct pair gain = pair_noise(1, 20, 0, 0, 9);
    const int64_t d = 20, keys = n + 3, width = heads * dim;
    struct pair h = pair_noise(2, n, d, 0, 1), w = pair_weights(dtype, d, width, 2);
    struct pair q = pair_noise(3, n, heads, dim, 3), k = pair_noise(3, keys, kv_heads, dim, 4);
    struct pair v = pair_noise(3, keys, kv_heads, dim, 5), bias = pair_noise(1, d, 0, 0, 6);
    struct pair last = pair_integers(n, 1, 4, keys + 2);
    struct tensor a = noise_tensor(3, n, heads, dim, 7), y = noise_tensor(2, n, d, 0, 8);
    const float scale = 1 / sqrtf((float)dim);
    const bool can = n > FEW && mode == MATMUL_BF16 && dtype != DTYPE_F32 && cache == DTYPE_BF16 &&
                     dim % 8 == 0 && dim <= 128;
    if (cache == DTYPE_BF16) k = pair_bf16(&k), v = pair_bf16(&v);
    const struct fused_attend p = { .h = &h.on[1],
                                    .q = &q.on[1],
                                    .k = &k.on[1],
                                    .v = &v.on[1],
                                    .end = &last.on[1],
                                    .scale = scale,
                                    .w = { .w = &w.on[1], .bias = &bias.on[1] },
                                    .after = { after ? &gain.on[1] : NULL, eps, NULL },
                                    .mode = (int)mode };
    if (computed(gpu->fused->attend(&p), can)) {
        DONE(cpu->attention(&a, &q.on[0], &k.on[0], &v.on[0], NULL, &last.on[0], scale, NULL,
                            MATMUL_F32));
        a = (struct tensor){ .data = a.data, .dtype = a.dtype, .rank = 2, .shape = { n, width } };
        DONE(cpu->matmul(&y, &a, &w.on[0], &bias.on[0], MATMUL_F32));
        norm_after(&y, after ? &gain.on[0] : NULL, eps);
        DONE(cpu->add(&h.on[0], &h.on[0], &y));
    }
    pair_compare("fused attention", &h, 2 * tolerance(mode, n, width), 1e-5);
    free(a.data);
    free(y.data);
    pairs_release();
}

// --- queries, keys and values --------------------------------------------------------------------

static void check_qkv(int64_t n, int64_t heads, int64_t kv_heads, int64_t dim, enum dtype dtype,
                      enum matmul_mode mode, enum dtype cache, bool known)
{
    const int64_t d = 24, keys = n + 5;
    const float eps = 1e-5f;
    struct pair h = pair_noise(2, n, d, 0, 1), gain = pair_noise(1, d, 0, 0, 2);
    struct pair wq = pair_weights(dtype, heads * dim, d, 3);
    struct pair wk = pair_weights(dtype, kv_heads * dim, d, 4);
    struct pair wv = pair_weights(dtype, kv_heads * dim, d, 5);
    struct pair bias = pair_noise(1, kv_heads * dim, 0, 0, 6);
    struct pair cos = pair_noise(2, n, dim / 2, 0, 7), sin = pair_noise(2, n, dim / 2, 0, 8);
    struct pair places = pair_integers(n, 1, 3, keys);
    struct pair q = pair_result(3, n, heads, dim), k = pair_noise(3, keys, kv_heads, dim, 9);
    struct pair v = pair_noise(3, keys, kv_heads, dim, 10);
    struct tensor x = noise_tensor(2, n, d, 0, 11), y = noise_tensor(3, n, kv_heads, dim, 12);
    const bool many = n > FEW && mode == MATMUL_BF16 && dtype != DTYPE_F32;
    const bool biased = !known ||
                        // Without a bias, values of bf16 weights are written straight to known rows
                        // of a bf16 cache.
                        cache == DTYPE_F32;
    // Two sums may round to neighbouring values.
    const double unit = cache == DTYPE_BF16 ? 0x1p-7 : 1e-5;
    if (cache == DTYPE_BF16) k = pair_bf16(&k), v = pair_bf16(&v);
    const struct fused_qkv p = { .h = &h.on[1],
                                 .gain = &gain.on[1],
                                 .eps = eps,
                                 .wq = { .w = &wq.on[1], .bias = NULL },
                                 .wk = { .w = &wk.on[1], .bias = &bias.on[1] },
                                 .wv = { .w = &wv.on[1], .bias = biased ? &bias.on[1] : NULL },
                                 .cos = &cos.on[1],
                                 .sin = &sin.on[1],
                                 .cache_rows = &places.on[1],
                                 .first = known ? 3 : -1,
                                 .q = &q.on[1],
                                 .k = &k.on[1],
                                 .v = &v.on[1],
                                 .mode = (int)mode };
    if (computed(gpu->fused->qkv(&p), n <= FEW || many)) {
        DONE(cpu->rmsnorm(&x, &h.on[0], &gain.on[0], eps));
        DONE(cpu->matmul(&q.on[0], &x, &wq.on[0], NULL, MATMUL_F32));
        DONE(cpu->rope(&q.on[0], &cos.on[0], &sin.on[0]));
        DONE(cpu->matmul(&y, &x, &wk.on[0], &bias.on[0], MATMUL_F32));
        DONE(cpu->rope(&y, &cos.on[0], &sin.on[0]));
        DONE(cpu->scatter_rows(&k.on[0], &y, &places.on[0]));
        DONE(cpu->matmul(&y, &x, &wv.on[0], biased ? &bias.on[0] : NULL, MATMUL_F32));
        DONE(cpu->scatter_rows(&v.on[0], &y, &places.on[0]));
        pair_compare("fused queries", &q, 2 * tolerance(mode, n, d), 1e-5);
    }
    pair_compare("fused keys", &k, 2 * tolerance(mode, n, d), unit);
    pair_compare("fused values", &v, 2 * tolerance(mode, n, d), unit);
    free(x.data);
    free(y.data);
    pairs_release();
}

// How the weights of queries, keys and values are stored, and how their heads are made.
struct variant {
    bool packed, normed;
    int64_t adjacent;
};

// The heads of a part: queries, keys or values.
struct heads {
    int64_t n, count, dim;
    struct fused_linear rows;
    const struct tensor *gain; // NULL: none
    bool turned;
};

// Computes heads [n,count,dim] from products [n,width]: selects their columns, normalises and
// rotates them.
static void arrange(struct tensor *to, const struct tensor *product, const struct heads *h,
                    const struct variant *v, const struct tensor *cos, const struct tensor *sin,
                    float eps)
{
    const int64_t half = h->dim / 2, width = product->shape[1],
                  adjacent = h->turned ? v->adjacent : 0;
    for (int64_t i = 0; i < h->n * h->count; i++) {
        const int64_t number = i % h->count * h->dim;
        const float *from = (float *)product->data + i / h->count * width + h->rows.first +
                            number / h->rows.run * h->rows.step + number % h->rows.run;
        float *out = (float *)to->data + i * h->dim;
        double squares = 0;
        for (int64_t e = 0; e < h->dim; e++) squares += (double)from[e] * (double)from[e];
        const double scale = h->gain ? 1 / sqrt(squares / (double)h->dim + (double)eps) : 1;
        for (int64_t p = 0; p < half; p++) {
            const int64_t at[] = { p < adjacent ? 2 * p : p + adjacent,
                                   p < adjacent ? 2 * p + 1 : p + half };
            for (int r = 0; r < 2; r++)
                out[p + r * half] =
                    (float)((double)from[at[r]] * scale *
                            (h->gain ? (double)((float *)h->gain->data)[at[r]] : 1));
        }
    }
    if (h->turned) DONE(cpu->rope(to, cos, sin));
}

// Like check_qkv, for packed weights, normed heads, and pairs of neighbouring dimensions.
static void check_variant(int64_t n, int64_t heads, int64_t kv_heads, int64_t dim, enum dtype dtype,
                          enum dtype cache, const struct variant *v)
{
    const int64_t d = 24, keys = n + 5, group = heads / kv_heads,
                  all = (heads + 2 * kv_heads) * dim;
    const int64_t step = (group + 2) * dim;
    const float eps = 1e-5f;
    struct pair h = pair_noise(2, n, d, 0, 1), gain = pair_noise(1, d, 0, 0, 2);
    struct pair w = pair_weights(dtype, all, d, 3), bias = pair_noise(1, all, 0, 0, 4);
    struct pair q_gain = pair_noise(1, dim, 0, 0, 5), k_gain = pair_noise(1, dim, 0, 0, 6);
    struct pair cos = pair_noise(2, n, dim / 2, 0, 7), sin = pair_noise(2, n, dim / 2, 0, 8);
    struct pair places = pair_integers(n, 1, 3, keys);
    struct pair q = pair_result(3, n, heads, dim), k = pair_noise(3, keys, kv_heads, dim, 9);
    struct pair value = pair_noise(3, keys, kv_heads, dim, 10);
    struct tensor x = noise_tensor(2, n, d, 0, 11), y = noise_tensor(3, n, kv_heads, dim, 12);
    struct tensor product = noise_tensor(2, n, all, 0, 13);
    const int64_t sizes[] = { group * dim, dim, dim }, counts[] = { heads, kv_heads, kv_heads };
    struct fused_linear part[3];
    struct tensor rows[3][2]; // for weights that are not packed: weight and bias
    for (int64_t i = 0, first = 0, row = 0; i < 3; first += sizes[i], row += counts[i++] * dim) {
        part[i] = v->packed ? (struct fused_linear){ &w.on[1], &bias.on[1], first, sizes[i], step }
                            : (struct fused_linear){ &rows[i][0], &rows[i][1], 0, 0, 0 };
        rows[i][0] = w.on[1], rows[i][1] = bias.on[1];
        rows[i][0].shape[0] = rows[i][1].shape[0] = counts[i] * dim;
        rows[i][0].data = (char *)w.on[1].data + (size_t)(row * d) * dtype_size(dtype);
        rows[i][1].data = (float *)bias.on[1].data + row;
    }
    if (cache == DTYPE_BF16) k = pair_bf16(&k), value = pair_bf16(&value);
    const struct fused_qkv p = { .h = &h.on[1],
                                 .gain = &gain.on[1],
                                 .eps = eps,
                                 .wq = part[0],
                                 .wk = part[1],
                                 .wv = part[2],
                                 .q_gain = v->normed ? &q_gain.on[1] : NULL,
                                 .k_gain = v->normed ? &k_gain.on[1] : NULL,
                                 .adjacent = v->adjacent,
                                 .cos = &cos.on[1],
                                 .sin = &sin.on[1],
                                 .cache_rows = &places.on[1],
                                 .first = n > 1 ? 3 : -1,
                                 .q = &q.on[1],
                                 .k = &k.on[1],
                                 .v = &value.on[1],
                                 .mode = MATMUL_BF16 };
    if (computed(gpu->fused->qkv(&p), n <= FEW || (n > FEW && dtype != DTYPE_F32))) {
        struct tensor *to[] = { &q.on[0], &y, &y };
        const struct tensor *gains[] = { &q_gain.on[0], &k_gain.on[0], NULL };
        DONE(cpu->rmsnorm(&x, &h.on[0], &gain.on[0], eps));
        DONE(cpu->matmul(&product, &x, &w.on[0], &bias.on[0], MATMUL_F32));
        for (int64_t i = 0, first = 0; i < 3; first += counts[i++] * dim) {
            struct heads one = { n, counts[i], dim, part[i], v->normed ? gains[i] : NULL, i < 2 };
            if (!v->packed) one.rows.first = first, one.rows.run = counts[i] * dim;
            arrange(to[i], &product, &one, v, &cos.on[0], &sin.on[0], eps);
            if (i) DONE(cpu->scatter_rows(i == 1 ? &k.on[0] : &value.on[0], &y, &places.on[0]));
        }
        pair_compare("queries of a variant", &q, 2 * tolerance(MATMUL_BF16, n, d), 1e-5);
    }
    const double unit = cache == DTYPE_BF16 ? 0x1p-7 : 1e-5;
    pair_compare("keys of a variant", &k, 2 * tolerance(MATMUL_BF16, n, d), unit);
    pair_compare("values of a variant", &value, 2 * tolerance(MATMUL_BF16, n, d), unit);
    free(x.data);
    free(y.data);
    free(product.data);
    pairs_release();
}

static void heads_of_every_kind(void **state)
{
    static const int64_t rows[] = { 1, 5, 9, 33 };
    for (int i = 0; i < 4 * 3 * 2; i++) {
        const int64_t n = rows[i % 4];
        const enum dtype dtype = (enum dtype)(i / 4 % 3), cache = i / 12 ? DTYPE_BF16 : DTYPE_F32;
        for (int kind = 1; kind < 12; kind++) { // 0 is check_qkv
            const bool packed = kind & 1, normed = kind & 2;
            const int64_t sizes[] = { 0, 1, 3 }; // adjacent pairs of heads of 6
            check_variant(n, 4, 2, 6, dtype, cache,
                          &(struct variant){ packed, normed, sizes[kind / 4] });
            check_variant(n, 3, 1, 16, dtype, cache,
                          &(struct variant){ packed, normed, 2 * sizes[kind / 4] });
        }
    }
}

static void fused_forms_equal_the_ops(void **state)
{
    static const int64_t rows[] = { 1, 5, 9, 33 };
    for (int i = 0; i < 4 * 3 * 2; i++) {
        const int64_t n = rows[i % 4];
        const enum dtype dtype = (enum dtype)(i / 4 % 3);
        const enum matmul_mode mode = i / 12 ? MATMUL_BF16 : MATMUL_F32;
        for (int after = 0; after < 2; after++) {
            check_add(n, 64, 33, dtype, mode, after);
            check_add(n, 1028, 8, dtype, mode, after);
            check_add(n, 7, 5, dtype, mode, after);
            check_ffn(n, 16, 40, dtype, mode, after);
            check_ffn(n, 264, 24, dtype, mode, after);
            check_ffn(n, 20, 44, dtype, mode, after);
            check_ffn(n, 9, 6, dtype, mode, after);
        }
        check_gelu(n, 64, 33, GELU_TANH, dtype, mode);
        check_gelu(n, 1028, 8, GELU_TANH, dtype, mode);
        check_gelu(n, 64, 8, GELU_ERF, dtype, mode);
        check_gelu(n, 1152, 1008, GELU_TANH, dtype, mode);
        for (int cache = 0; cache < 2; cache++) {
            check_attend(n, 4, 2, 72, dtype, cache ? DTYPE_BF16 : DTYPE_F32, mode, i % 2);
            check_attend(n, 2, 1, 128, dtype, cache ? DTYPE_BF16 : DTYPE_F32, mode, false);
            check_attend(n, 1, 1, 20, dtype, cache ? DTYPE_BF16 : DTYPE_F32, mode, true);
        }
        for (int known = 0; known < 2; known++) {
            check_qkv(n, 4, 2, 6, dtype, mode, DTYPE_F32, known);
            check_qkv(n, 3, 1, 16, dtype, mode, DTYPE_F32, known);
            check_qkv(n, 3, 1, 16, dtype, mode, DTYPE_BF16, known);
        }
    }
}

// --- f16 -----------------------------------------------------------------------------------------

// [rows,columns] of f16 that are all `bits`.
static struct pair halves(int64_t rows, int64_t columns, uint16_t bits)
{
    struct tensor t = tensor_of(DTYPE_F16, 2, rows, columns, 0);
    for (int64_t i = 0; i < rows * columns; i++) ((uint16_t *)t.data)[i] = bits;
    return pair_of(t);
}

static struct pair all_of(int rank, int64_t a, int64_t b, float x)
{
    struct tensor t = tensor_of(DTYPE_F32, rank, a, b, 0);
    for (int64_t i = 0; i < tensor_count(&t); i++) ((float *)t.data)[i] = x;
    return pair_of(t);
}

// 1 + 2^-10 and 1 + 2^-9 exist in f16 but round to 1 in bf16.
static void half_is_multiplied_as_half(void **state)
{
    const int64_t n = 9, k = 16, m = 8;
    struct pair x = all_of(2, n, k, 1 + 0x1p-9f), w = halves(m, k, 0x3c01);
    struct pair y = pair_result(2, n, m, 0);
    DONE(cpu->matmul(&y.on[0], &x.on[0], &w.on[0], NULL, MATMUL_F32));
    DONE(gpu->matmul(&y.on[1], &x.on[1], &w.on[1], NULL, MATMUL_BF16));
    pair_compare("matmul of f16", &y, 0, 1e-7);
    struct pair h = all_of(2, n, m, 1);
    DONE(gpu->fused->add(&(struct fused_add){ .y = &h.on[1],
                                              .h = &h.on[1],
                                              .x = &x.on[1],
                                              .w = { .w = &w.on[1], .bias = NULL },
                                              .mode = MATMUL_BF16 }));
    DONE(cpu->add(&h.on[0], &h.on[0], &y.on[0]));
    pair_compare("fused add of f16", &h, 0, 1e-7);
    pairs_release();
}

// Values beyond f16's range are clamped: results have no infinity and no NaN.
static void half_has_no_infinity(void **state)
{
    enum { N = 9, D = 8 };
    const float most = 65504;
    // x is 1000, so gate is +inf, -inf, +inf, 0, ..; up is 1, +inf, +inf, +inf, 0, .. if not
    // clamped.
    struct pair h = all_of(2, N, D, 1), gain = all_of(1, D, 0, 1000), big = all_of(2, N, D, -1e9f);
    struct pair y = pair_result(2, N, D, 0);
    struct tensor weights[3];
    static const uint16_t gates[D] = { 0x5640, 0xd640, 0x5640 };       // 100, -100, 100
    static const uint16_t ups[D] = { 0x0819, 0x5640, 0x5640, 0x5640 }; // 1/8000, 100 ..
    for (int i = 0; i < 3; i++) weights[i] = tensor_of(DTYPE_F16, 2, D, D, 0);
    for (int i = 0; i < D * D; i++) {
        ((uint16_t *)weights[0].data)[i] = gates[i / D];
        ((uint16_t *)weights[1].data)[i] = ups[i / D];
        ((uint16_t *)weights[2].data)[i] = i / D == i % D ? 0x3c00 : 0; // 1
    }
    struct pair gate = pair_of(weights[0]), up = pair_of(weights[1]), down = pair_of(weights[2]);
    DONE(gpu->matmul(&y.on[1], &big.on[1], &down.on[1], NULL, MATMUL_BF16));
    for (int i = 0; i < N * D; i++) ((float *)y.on[0].data)[i] = -most;
    pair_compare("matmul beyond f16", &y, 0, 0);
    DONE(gpu->fused->ffn(&(struct fused_ffn){ .y = &h.on[1],
                                              .h = &h.on[1],
                                              .gain = &gain.on[1],
                                              .eps = 0,
                                              .gate = { .w = &gate.on[1], .bias = NULL },
                                              .up = { .w = &up.on[1], .bias = NULL },
                                              .down = { .w = &down.on[1], .bias = NULL },
                                              .mode = MATMUL_BF16 }));
    for (int i = 0; i < N * D; i++)
        ((float *)h.on[0].data)[i] = i % D == 0 || i % D == 2 ? 1 + most : 1;
    pair_compare("fused FFN beyond f16", &h, 0, 1e-3);
    pairs_release();
}

// --- recordings ----------------------------------------------------------------------------------

static void recorded_ops_run_again(void **state)
{
    struct pair a = pair_noise(2, 3, 50, 0, 1), b = pair_noise(2, 3, 50, 0, 2);
    struct pair y = pair_result(2, 3, 50, 0);
    assert_int_equal(gpu->recorder->start(), 0);
    for (int side = 1; side < 2; side++) {
        DONE(gpu->add(OF(y), OF(a), OF(b)));
        DONE(gpu->scale(OF(y), OF(y), 3));
    }
    void *recording = gpu->recorder->finish();
    if (!recording) fail_msg("%s", gpu->failure());
    for (int turn = 0; turn < 3; turn++) {
        for (int64_t i = 0; i < 150; i++) ((float *)a.on[0].data)[i] += (float)turn;
        gpu->upload(a.on[1].data, a.on[0].data, tensor_bytes(&a.on[0]));
        assert_int_equal(gpu->recorder->play(recording), 0);
        cpu->add(&y.on[0], &a.on[0], &b.on[0]);
        cpu->scale(&y.on[0], &y.on[0], 3);
        pair_compare("recorded", &y, 0, 0);
    }
    gpu->recorder->forget(recording);
    pairs_release();
}

static void uploads_cannot_be_recorded(void **state)
{
    float one = 1;
    struct pair a = pair_noise(2, 1, 1, 0, 1);
    assert_int_equal(gpu->recorder->start(), 0);
    gpu->upload(a.on[1].data, &one, sizeof one);
    assert_null(gpu->recorder->finish());
    assert_non_null(strstr(gpu->failure(), "upload"));
    assert_int_equal(gpu->recorder->start(), 0); // the next recording works
    DONE(gpu->scale(&a.on[1], &a.on[1], 2));
    void *recording = gpu->recorder->finish();
    assert_non_null(recording);

    // An op that enlarges the scratch memory moves it.
    const int64_t n = 1 << 20;
    struct pair x = pair_noise(2, 9, n / 9, 0, 2), w = pair_noise(2, 1, n / 9, 0, 3);
    struct pair y = pair_result(2, 9, 1, 0);
    DONE(gpu->matmul(&y.on[1], &x.on[1], &w.on[1], NULL, MATMUL_BF16));
    assert_int_equal(gpu->recorder->play(recording), 1);
    gpu->recorder->forget(recording);
    pairs_release();
}

// Large copies go in parts: every byte arrives, at odd sizes too.
static void large_copies_arrive(void **state)
{
    static const size_t sizes[] = { 1, (1 << 20) - 1, (1 << 20) + 3, (50 << 20) + 12345 };
    for (int i = 0; i < 4; i++) {
        uint8_t *from = malloc(sizes[i]), *to = calloc(sizes[i], 1);
        void *there = gpu->alloc(sizes[i]);
        for (size_t j = 0; j < sizes[i]; j++) from[j] = (uint8_t)(j * 2654435761u >> 13);
        gpu->upload(there, from, sizes[i]);
        gpu->download(to, there, sizes[i]);
        assert_memory_equal(from, to, sizes[i]);
        gpu->release(there);
        free(from);
        free(to);
    }
}

// The host may change uploaded data as soon as the call returns, however many uploads are pending.
static void small_copies_are_read_at_once(void **state)
{
    enum { TURNS = 90, SIZE = 700001 };
    uint8_t *from = malloc(SIZE), *to = malloc(SIZE);
    uint8_t *there = gpu->alloc((size_t)TURNS * SIZE);
    assert_non_null(there);
    for (int i = 0; i < TURNS; i++) {
        memset(from, i + 1, SIZE);
        gpu->upload(there + (size_t)i * SIZE, from, SIZE);
    }
    for (int i = 0; i < TURNS; i++) {
        memset(from, i + 1, SIZE);
        gpu->download(to, there + (size_t)i * SIZE, SIZE);
        assert_memory_equal(from, to, SIZE);
    }
    gpu->release(there);
    free(from);
    free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_row_of_any_width),
        cmocka_unit_test(one_row_with_little_shared_memory),
        cmocka_unit_test(fused_forms_equal_the_ops),
        cmocka_unit_test(heads_of_every_kind),
        cmocka_unit_test(half_is_multiplied_as_half),
        cmocka_unit_test(half_has_no_infinity),
        cmocka_unit_test(recorded_ops_run_again),
        cmocka_unit_test(uploads_cannot_be_recorded),
        cmocka_unit_test(large_copies_arrive),
        cmocka_unit_test(small_copies_are_read_at_once),
    };
    return cmocka_run_group_tests(tests, open_both, NULL);
}
