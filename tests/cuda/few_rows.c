// tests/cuda/few_rows.c -- up to eight rows in the GPU's products and fused forms: each has the
// bits of a call of that row alone, with weights of every dtype; fused forms over quantised
// weights equal the ops on the CPU. This makes drafts (core/talk/lookahead.h) exact. The
// ring of kernels/few_rows_ring.cu gives the same bits as loads to registers.
#include "kernels/cuda_library.h"
#include "tests/cuda/fused.h"

static const int counts[] = { 1, 2, 3, 5, 8 };

// Row i of a tensor, on the device of its data.
static struct tensor row_of(const struct tensor *all, int64_t i)
{
    struct tensor row = *all;
    row.shape[0] = 1;
    row.data = (char *)all->data + dtype_bytes(all->dtype, i * tensor_row(all));
    return row;
}

// Tolerance relative to the largest element of the CPU's result, or to 1.
static double tolerance_for(const struct tensor *t)
{
    double most = 1;
    for (int64_t i = 0; i < tensor_count(t); i++)
        most = fmax(most, fabs((double)((const float *)t->data)[i]));
    return 1e-5 * most;
}

// --- products ------------------------------------------------------------------------------------

static void check_product(enum dtype dtype, int64_t n, int64_t k, int64_t m)
{
    struct pair x = pair_noise(2, n, k, 0, 1), w = pair_weights(dtype, m, k, 2);
    struct pair y = pair_result(2, n, m, 0), alone = pair_result(2, n, m, 0);
    ON_BOTH(matmul, OF(y), OF(x), OF(w), NULL, MATMUL_F32);
    pair_compare("few rows", &y, tolerance_for(&y.on[0]), 1e-5);
    for (int64_t i = 0; i < n; i++) {
        struct tensor to = row_of(&alone.on[1], i), from = row_of(&x.on[1], i);
        DONE(gpu->matmul(&to, &from, &w.on[1], NULL, MATMUL_BF16));
    }
    pair_same(dtype_form(dtype).name, &y.on[1], &alone.on[1]);
    pairs_release();
}

// Products with the untransposed weight, as latent attention with LoRA needs them.
static void check_back(enum dtype dtype, int64_t n, enum matmul_mode mode)
{
    const int64_t k = 64, m = 7;
    struct pair dy = pair_noise(2, n, m, 0, 1), w = pair_weights(dtype, m, k, 2);
    struct pair dx = pair_result(2, n, k, 0), alone = pair_result(2, n, k, 0);
    DONE(gpu->matmul_dx(&dx.on[1], &dy.on[1], &w.on[1], false, mode));
    for (int64_t i = 0; i < n; i++) {
        struct tensor to = row_of(&alone.on[1], i), from = row_of(&dy.on[1], i);
        DONE(gpu->matmul_dx(&to, &from, &w.on[1], false, mode));
    }
    pair_same("back", &dx.on[1], &alone.on[1]);
    pairs_release();
}

static void products_equal_those_of_single_rows(void **state)
{
    for (int i = 0; i < 5; i++) {
        for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
            if (dtype == DTYPE_I32 || dtype == DTYPE_U8) continue;
            check_product((enum dtype)dtype, counts[i], 1280, 9);
            if (dtype_in_blocks((enum dtype)dtype)) continue;
            // Only two rows fit at once.
            check_product((enum dtype)dtype, counts[i], 8200, 3);
            // The width does not allow vector loads.
            check_product((enum dtype)dtype, counts[i], 101, 5);
            check_back((enum dtype)dtype, counts[i], MATMUL_F32);
            check_back((enum dtype)dtype, counts[i], MATMUL_BF16);
        }
        check_back(DTYPE_Q4_0, counts[i], MATMUL_F32);
    }
}

// Rows of which one fits at a time, and rows that do not fit on a small GPU.
static void little_shared_memory_changes_no_bit(void **state)
{
    for (int i = 0; i < 5; i++) {
        setenv("CUDA_HOST_SHARED", "101376", 1);        // for the emulated GPU
        check_product(DTYPE_BF16, counts[i], 13000, 3); // two fit on a large GPU
        check_product(DTYPE_BF16, counts[i], 30000, 3);
        unsetenv("CUDA_HOST_SHARED");
        check_product(DTYPE_BF16, counts[i], 30000, 3);
    }
}

// --- attention -----------------------------------------------------------------------------------

// Row i sees one key more than row i - 1; some of the counts pass a multiple of 256 keys.
static void check_attention(int64_t n, int64_t past, int64_t heads, int64_t kv_heads, int64_t dim)
{
    const int64_t keys = past + n;
    struct pair q = pair_noise(3, n, heads, dim, 1), k = pair_noise(3, keys, kv_heads, dim, 2);
    struct pair v = pair_noise(3, keys, kv_heads, dim, 3);
    struct pair last = pair_integers(n, 1, past + 1, keys + 1);
    struct pair y = pair_result(3, n, heads, dim), alone = pair_result(3, n, heads, dim);
    ON_BOTH(attention, OF(y), OF(q), OF(k), OF(v), NULL, OF(last), 0.3f, NULL, MATMUL_BF16);
    pair_compare("attention of few rows", &y, 1e-5, 1e-5);
    for (int64_t i = 0; i < n; i++) {
        struct tensor to = row_of(&alone.on[1], i), from = row_of(&q.on[1], i);
        struct tensor some_k = k.on[1], some_v = v.on[1];
        some_k.shape[0] = some_v.shape[0] = past + i + 1;
        DONE(gpu->attention(&to, &from, &some_k, &some_v, NULL, NULL, 0.3f, NULL, MATMUL_BF16));
    }
    pair_same("attention", &y.on[1], &alone.on[1]);
    pairs_release();
}

static void attention_equals_that_of_single_rows(void **state)
{
    for (int i = 0; i < 5; i++) {
        check_attention(counts[i], 0, 4, 2, 16);
        check_attention(counts[i], 253, 4, 2, 16);
        check_attention(counts[i], 2300, 8, 1, 8); // keys in many parts
        check_attention(counts[i], 2301, 2, 2, 6);
        check_attention(counts[i], 40, 2, 1, 260);
    }
}

// --- forms ---------------------------------------------------------------------------------------

enum { D = 256, INNER = 256, HEADS = 4, KV_HEADS = 2, DIM = 8, PLACES = 12 };

static void check_add(enum dtype dtype, int64_t n, bool after)
{
    struct pair x = pair_noise(2, n, D, 0, 1), w = pair_weights(dtype, 6, D, 2);
    struct pair bias = pair_noise(1, 6, 0, 0, 3), gain = pair_noise(1, 6, 0, 0, 4);
    struct pair h = pair_noise(2, n, 6, 0, 5), alone = pair_noise(2, n, 6, 0, 5);
    struct tensor y = noise_tensor(2, n, 6, 0, 6);
    struct fused_add p = { .y = &h.on[1],
                           .h = &h.on[1],
                           .x = &x.on[1],
                           .w = { .w = &w.on[1], .bias = &bias.on[1] },
                           .after = { after ? &gain.on[1] : NULL, 1e-5f, NULL } };
    DONE(gpu->fused->add(&p));
    for (int64_t i = 0; i < n; i++) {
        struct tensor to = row_of(&alone.on[1], i), from = row_of(&x.on[1], i);
        p.y = &to, p.h = &to, p.x = &from;
        DONE(gpu->fused->add(&p));
    }
    pair_same("fused add", &h.on[1], &alone.on[1]);
    DONE(cpu->matmul(&y, &x.on[0], &w.on[0], &bias.on[0], MATMUL_F32));
    norm_after(&y, after ? &gain.on[0] : NULL, 1e-5f);
    DONE(cpu->add(&h.on[0], &h.on[0], &y));
    pair_compare("fused add", &h, tolerance_for(&h.on[0]), 1e-5);
    free(y.data);
    pairs_release();
}

static void check_ffn(enum dtype dtype, enum dtype down_dtype, int64_t n)
{
    struct pair gate = pair_weights(dtype, INNER, D, 1), up = pair_weights(dtype, INNER, D, 2);
    struct pair down = pair_weights(down_dtype, D, INNER, 3), gain = pair_noise(1, D, 0, 0, 4);
    struct pair h = pair_noise(2, n, D, 0, 5), alone = pair_noise(2, n, D, 0, 5);
    struct tensor x = noise_tensor(2, n, D, 0, 6), a = noise_tensor(2, n, INNER, 0, 7);
    struct tensor b = noise_tensor(2, n, INNER, 0, 8);
    struct fused_ffn p = { .y = &h.on[1],
                           .h = &h.on[1],
                           .gain = &gain.on[1],
                           .eps = 1e-5f,
                           .gate = { .w = &gate.on[1] },
                           .up = { .w = &up.on[1] },
                           .down = { .w = &down.on[1] } };
    DONE(gpu->fused->ffn(&p));
    for (int64_t i = 0; i < n; i++) {
        struct tensor to = row_of(&alone.on[1], i);
        p.y = &to, p.h = &to;
        DONE(gpu->fused->ffn(&p));
    }
    pair_same("fused FFN", &h.on[1], &alone.on[1]);
    DONE(cpu->rmsnorm(&x, &h.on[0], &gain.on[0], 1e-5f));
    DONE(cpu->matmul(&a, &x, &gate.on[0], NULL, MATMUL_F32));
    DONE(cpu->matmul(&b, &x, &up.on[0], NULL, MATMUL_F32));
    DONE(cpu->swiglu(&a, &a, &b));
    DONE(cpu->matmul(&x, &a, &down.on[0], NULL, MATMUL_F32));
    DONE(cpu->add(&h.on[0], &h.on[0], &x));
    pair_compare("fused FFN", &h, tolerance_for(&h.on[0]), 1e-5);
    free(x.data);
    free(a.data);
    free(b.data);
    pairs_release();
}

// Queries, keys and values on the CPU; `adjacent`: of heads whose pairs are neighbouring
// dimensions, as in GGUF files.
static void qkv_on_cpu(struct tensor to[3], const struct tensor *h, const struct tensor *gain,
                       struct tensor w[3], const struct tensor *cos, const struct tensor *sin,
                       bool adjacent)
{
    struct tensor x = noise_tensor(2, h->shape[0], D, 0, 1);
    DONE(cpu->rmsnorm(&x, h, gain, 1e-5f));
    for (int i = 0; i < 3; i++) {
        float head[DIM], *at = to[i].data;
        DONE(cpu->matmul(&to[i], &x, &w[i], NULL, MATMUL_F32));
        for (int64_t e = 0; e < tensor_count(&to[i]) && adjacent && i < 2; e += DIM) {
            memcpy(head, at + e, sizeof head);
            for (int j = 0; j < DIM; j++) at[e + j % 2 * (DIM / 2) + j / 2] = head[j];
        }
        if (i < 2) DONE(cpu->rope(&to[i], cos, sin));
    }
    free(x.data);
}

// wv may have a dtype of its own, as in some layers of GGUF files.
static void check_qkv(enum dtype dtype, enum dtype v_dtype, int64_t n, bool adjacent)
{
    struct pair h = pair_noise(2, n, D, 0, 1), gain = pair_noise(1, D, 0, 0, 2);
    struct pair w[] = { pair_weights(dtype, HEADS * DIM, D, 3),
                        pair_weights(dtype, KV_HEADS * DIM, D, 4),
                        pair_weights(v_dtype, KV_HEADS * DIM, D, 5) };
    struct pair cos = pair_noise(2, n, DIM / 2, 0, 6), sin = pair_noise(2, n, DIM / 2, 0, 7);
    struct pair places = pair_integers(n, 1, 3, PLACES), q[2], k[2], v[2];
    struct tensor to[3], weights[] = { w[0].on[0], w[1].on[0], w[2].on[0] };
    for (int i = 0; i < 2; i++) {
        q[i] = pair_result(3, n, HEADS, DIM);
        k[i] = pair_noise(3, PLACES, KV_HEADS, DIM, 8);
        v[i] = pair_noise(3, PLACES, KV_HEADS, DIM, 9);
    }
    struct fused_qkv p = { .h = &h.on[1],
                           .gain = &gain.on[1],
                           .eps = 1e-5f,
                           .wq = { .w = &w[0].on[1] },
                           .wk = { .w = &w[1].on[1] },
                           .wv = { .w = &w[2].on[1] },
                           .adjacent = adjacent ? DIM / 2 : 0,
                           .cos = &cos.on[1],
                           .sin = &sin.on[1],
                           .cache_rows = &places.on[1],
                           .first = -1,
                           .q = &q[0].on[1],
                           .k = &k[0].on[1],
                           .v = &v[0].on[1] };
    DONE(gpu->fused->qkv(&p));
    for (int64_t i = 0; i < n; i++) {
        const struct tensor one = row_of(&h.on[1], i), c = row_of(&cos.on[1], i),
                            s = row_of(&sin.on[1], i), place = row_of(&places.on[1], i);
        struct tensor asked = row_of(&q[1].on[1], i);
        p.h = &one, p.cos = &c, p.sin = &s, p.cache_rows = &place;
        p.q = &asked, p.k = &k[1].on[1], p.v = &v[1].on[1];
        DONE(gpu->fused->qkv(&p));
    }
    pair_same("fused queries", &q[0].on[1], &q[1].on[1]);
    pair_same("fused keys", &k[0].on[1], &k[1].on[1]);
    pair_same("fused values", &v[0].on[1], &v[1].on[1]);
    to[0] = q[0].on[0];
    for (int i = 1; i < 3; i++) to[i] = noise_tensor(3, n, KV_HEADS, DIM, 1);
    qkv_on_cpu(to, &h.on[0], &gain.on[0], weights, &cos.on[0], &sin.on[0], adjacent);
    DONE(cpu->scatter_rows(&k[0].on[0], &to[1], &places.on[0]));
    DONE(cpu->scatter_rows(&v[0].on[0], &to[2], &places.on[0]));
    pair_compare("fused queries", &q[0], tolerance_for(&q[0].on[0]), 1e-5);
    pair_compare("fused keys", &k[0], tolerance_for(&k[0].on[0]), 1e-5);
    pair_compare("fused values", &v[0], tolerance_for(&v[0].on[0]), 1e-5);
    for (int i = 1; i < 3; i++) free(to[i].data);
    pairs_release();
}

static void fused_forms_equal_those_of_single_rows(void **state)
{
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        if (dtype == DTYPE_I32 || dtype == DTYPE_U8) continue;
        const int64_t n = counts[1 + dtype % 4];
        check_add((enum dtype)dtype, n, dtype % 2);
        check_add((enum dtype)dtype, 1, false);
        check_ffn((enum dtype)dtype, DTYPE_Q6_K, n);
        check_qkv((enum dtype)dtype, DTYPE_Q6_K, n, dtype % 2);
        check_qkv((enum dtype)dtype, (enum dtype)dtype, n, !(dtype % 2));
    }
}

// --- the ring ------------------------------------------------------------------------------------

// Switches the ring on or off; false if this GPU cannot use it.
static bool switch_ring(bool on)
{
    cuda_library_fn *get;
    *(void **)&get = library_symbol(CUDA_LIBRARY_SYMBOL);
    return get && get()->ring(on);
}

static long copies_begun(void)
{
    const long *count = library_symbol("cuda_host_bulk_copies");
    return count ? *count : 0; // a real GPU does not count them
}

// The ring gives the bits of registers; `used`: these weights go through it.
static void check_ring(enum dtype dtype, int64_t n, int64_t k, int64_t m, bool used)
{
    struct pair x = pair_noise(2, n, k, 0, 1), w = pair_weights(dtype, m, k, 2);
    struct pair bias = pair_noise(1, m, 0, 0, 3);
    struct pair y = pair_result(2, n, m, 0), ring = pair_result(2, n, m, 0);
    switch_ring(false);
    DONE(gpu->matmul(&y.on[1], &x.on[1], &w.on[1], &bias.on[1], MATMUL_F32));
    switch_ring(true);
    const long before = copies_begun();
    DONE(gpu->matmul(&ring.on[1], &x.on[1], &w.on[1], &bias.on[1], MATMUL_F32));
    if (library_symbol("cuda_host_bulk_copies")) assert_int_equal(copies_begun() > before, used);
    pair_same(dtype_form(dtype).name, &ring.on[1], &y.on[1]);
    pairs_release();
}

// Computes h + FFN(norm(h)) without and with the ring.
static void check_ring_ffn(enum dtype dtype, int64_t n)
{
    struct pair gate = pair_weights(dtype, INNER, D, 1), up = pair_weights(dtype, INNER, D, 2);
    struct pair down = pair_weights(dtype, D, INNER, 3), gain = pair_noise(1, D, 0, 0, 4);
    struct pair h[] = { pair_noise(2, n, D, 0, 5), pair_noise(2, n, D, 0, 5) };
    for (int ring = 0; ring < 2; ring++) {
        switch_ring(ring);
        DONE(gpu->fused->ffn(&(struct fused_ffn){ .y = &h[ring].on[1],
                                                  .h = &h[ring].on[1],
                                                  .gain = &gain.on[1],
                                                  .eps = 1e-5f,
                                                  .gate = { .w = &gate.on[1] },
                                                  .up = { .w = &up.on[1] },
                                                  .down = { .w = &down.on[1] } }));
    }
    pair_same("FFN by the ring", &h[1].on[1], &h[0].on[1]);
    pairs_release();
}

// h + x w^T by both.
static void check_ring_add(enum dtype dtype, int64_t n, int64_t k)
{
    struct pair x = pair_noise(2, n, k, 0, 1), w = pair_weights(dtype, 5, k, 2);
    struct pair h[] = { pair_noise(2, n, 5, 0, 3), pair_noise(2, n, 5, 0, 3) };
    for (int ring = 0; ring < 2; ring++) {
        switch_ring(ring);
        const struct fused_linear linear = { .w = &w.on[1] };
        DONE(gpu->fused->add(&(struct fused_add){
            .y = &h[ring].on[1], .h = &h[ring].on[1], .x = &x.on[1], .w = linear }));
    }
    pair_same("sum by the ring", &h[1].on[1], &h[0].on[1]);
    pairs_release();
}

static void the_ring_gives_the_same_bits(void **state)
{
    if (!switch_ring(true)) {
        print_message("SKIPPED: the ring needs kernels for sm_90 or newer\n");
        return;
    }
    // Several rounds of pairs, so slots are used again.
    for (int i = 0; i < 5; i++) check_ring(DTYPE_BF16, counts[i], 6144, 37, true);
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        if (dtype == DTYPE_I32 || dtype == DTYPE_U8) continue;
        check_ring((enum dtype)dtype, counts[dtype % 5], 6144, 5, true);
        check_ring_ffn((enum dtype)dtype, counts[1 + dtype % 4]);
    }
    check_ring(DTYPE_BF16, 1, 8, 1, true);
    check_ring(DTYPE_BF16, 8, 11008, 5, true); // four rows fit at once
    check_ring(DTYPE_F32, 3, 30000, 3, true);  // one row
    check_ring(DTYPE_Q6_K, 2, 1280, 5, false); // rows of 1050 bytes
    setenv("CUDA_HOST_SHARED", "101376", 1);   // for the emulated GPU
    check_ring(DTYPE_BF16, 2, 1024, 5, false);
    // Two rows fit beside their slots; the third alone would have more slots than fit.
    setenv("CUDA_HOST_SHARED", "223000", 1);
    check_ring_add(DTYPE_BF16, 3, 15360);
    unsetenv("CUDA_HOST_SHARED");
    // Fused forms with the ring, too, have the bits of single rows.
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype += 3) {
        if (dtype == DTYPE_I32 || dtype == DTYPE_U8) continue;
        const int64_t n = counts[1 + dtype % 4];
        check_add((enum dtype)dtype, n, dtype % 2);
        check_ffn((enum dtype)dtype, DTYPE_Q8_0, n);
        check_qkv((enum dtype)dtype, DTYPE_Q8_0, n, dtype % 2);
    }
    switch_ring(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_equal_those_of_single_rows),
        cmocka_unit_test(little_shared_memory_changes_no_bit),
        cmocka_unit_test(attention_equals_that_of_single_rows),
        cmocka_unit_test(fused_forms_equal_those_of_single_rows),
        cmocka_unit_test(the_ring_gives_the_same_bits),
    };
    return cmocka_run_group_tests(tests, open_both, NULL);
}
