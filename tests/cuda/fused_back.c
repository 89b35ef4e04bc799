// tests/cuda/fused_back.c -- the fused forms in training (kernels/fused.h): which values they keep,
// and their backward passes against those of the ops on the CPU, on odd shapes.
#include "tests/cuda/both.h"

static const float eps = 1e-5f;

// Tolerance against the CPU: intermediates are rounded to bf16 about three times in a row, each
// time by at most 1/256 of the value.
static const double rounding = 6e-3;

static void compare(const char *what, const struct pair *p)
{
    const int64_t n = tensor_count(&p->on[0]);
    float *got = malloc((size_t)n * sizeof *got);
    const float *want = p->on[0].data;
    double apart = 0, size = 0;
    gpu->download(got, p->on[1].data, (size_t)n * sizeof *got);
    for (int64_t i = 0; i < n; i++) {
        apart += pow((double)(got[i] - want[i]), 2);
        size += pow((double)want[i], 2);
    }
    free(got);
    if (!(sqrt(apart) <= rounding * sqrt(size)))
        fail_msg("%s [%d,%d]: %g of %g apart", what, (int)p->on[0].shape[0], (int)p->on[0].shape[1],
                 sqrt(apart), sqrt(size));
}

static void compare_bf16(const char *what, const struct tensor *got, const struct tensor *want)
{
    const int64_t n = tensor_count(got);
    struct pair p = { .on = { *want, tensor_of(DTYPE_F32, 2, got->shape[0], got->shape[1], 0) } };
    void *const host = p.on[1].data;
    p.on[1].data = gpu->alloc(tensor_bytes(want));
    DONE(gpu->widen(&p.on[1], got));
    assert_int_equal(n, tensor_count(want));
    compare(what, &p);
    gpu->release(p.on[1].data);
    free(host);
}

// A bf16 tensor in memory of the GPU.
static struct tensor room_for_saved(int64_t n, int64_t width)
{
    struct tensor t = { .dtype = DTYPE_BF16, .rank = 2, .shape = { n, width } };
    t.data = gpu->alloc(tensor_bytes(&t));
    assert_non_null(t.data);
    return t;
}

// --- h + x w^T -----------------------------------------------------------------------------------

// A sum in a separate tensor has the bits of a sum in place of h, and leaves h unchanged.
static void check_add(int64_t n, int64_t k, int64_t m)
{
    struct pair h = pair_noise(2, n, m, 0, 1), twin = pair_noise(2, n, m, 0, 1);
    struct pair x = pair_noise(2, n, k, 0, 2), y = pair_result(2, n, m, 0);
    struct pair w = pair_weights(DTYPE_BF16, m, k, 3), bias = pair_noise(1, m, 0, 0, 4);
    struct fused_add p = { .y = &y.on[1],
                           .h = &h.on[1],
                           .x = &x.on[1],
                           .w = { .w = &w.on[1], .bias = &bias.on[1] },
                           .mode = MATMUL_BF16 };
    DONE(gpu->fused->add(&p));
    pair_same("h", &h.on[1], &twin.on[1]);
    p.y = &h.on[1];
    DONE(gpu->fused->add(&p));
    pair_same("a sum in separate memory", &h.on[1], &y.on[1]);
    pairs_release();
}

// --- FFN -----------------------------------------------------------------------------------------

struct ffn {
    struct pair h, gain, gate, up, down;
    struct tensor saved_gate, saved_up;           // on the GPU
    struct tensor x, a, b, act, da, db, dact, dx; // on the CPU
};

static struct fused_ffn form_of(struct ffn *f, struct tensor *y)
{
    return (struct fused_ffn){ .y = y,
                               .h = &f->h.on[1],
                               .gain = &f->gain.on[1],
                               .eps = eps,
                               .gate = { .w = &f->gate.on[1], .bias = NULL },
                               .up = { .w = &f->up.on[1], .bias = NULL },
                               .down = { .w = &f->down.on[1], .bias = NULL },
                               .mode = MATMUL_BF16 };
}

static void ffn_open(struct ffn *f, int64_t n, int64_t d, int64_t inner)
{
    f->h = pair_noise(2, n, d, 0, 1), f->gain = pair_noise(1, d, 0, 0, 2);
    f->gate = pair_weights(DTYPE_BF16, inner, d, 3), f->up = pair_weights(DTYPE_BF16, inner, d, 4);
    f->down = pair_weights(DTYPE_BF16, d, inner, 5);
    f->saved_gate = room_for_saved(n, inner), f->saved_up = room_for_saved(n, inner);
    f->x = noise_tensor(2, n, d, 0, 7), f->dx = noise_tensor(2, n, d, 0, 8);
    struct tensor *wide[] = { &f->a, &f->b, &f->act, &f->da, &f->db, &f->dact };
    for (int i = 0; i < 6; i++) *wide[i] = noise_tensor(2, n, inner, 0, 9);
    DONE(cpu->rmsnorm(&f->x, &f->h.on[0], &f->gain.on[0], eps));
    DONE(cpu->matmul(&f->a, &f->x, &f->gate.on[0], NULL, MATMUL_F32));
    DONE(cpu->matmul(&f->b, &f->x, &f->up.on[0], NULL, MATMUL_F32));
    DONE(cpu->swiglu(&f->act, &f->a, &f->b));
}

static void ffn_close(struct ffn *f)
{
    struct tensor *all[] = { &f->x, &f->a, &f->b, &f->act, &f->da, &f->db, &f->dact, &f->dx };
    for (int i = 0; i < 8; i++) free(all[i]->data);
    gpu->release(f->saved_gate.data);
    gpu->release(f->saved_up.data);
    pairs_release();
}

// Keeping intermediates, wherever they are stored, changes no bit of the result.
static void check_kept(struct ffn *f)
{
    const int64_t n = f->h.on[0].shape[0], d = f->h.on[0].shape[1], inner = f->a.shape[1];
    struct pair y = pair_result(2, n, d, 0), twin = pair_noise(2, n, d, 0, 1);
    struct tensor gate = room_for_saved(n, inner), up = room_for_saved(n, inner);
    struct fused_ffn p = form_of(f, &y.on[1]);
    p.saved_gate = &f->saved_gate, p.saved_up = &f->saved_up;
    DONE(gpu->fused->ffn(&p));
    compare_bf16("saved gate", &f->saved_gate, &f->a);
    compare_bf16("saved up", &f->saved_up, &f->b);
    p.y = NULL, p.saved_gate = &gate, p.saved_up = &up;
    DONE(gpu->fused->ffn(&p));
    pair_same("gate without a result", &gate, &f->saved_gate);
    pair_same("up without a result", &up, &f->saved_up);
    pair_same("h", &f->h.on[1], &twin.on[1]);
    p = form_of(f, &twin.on[1]);
    p.h = &twin.on[1];
    DONE(gpu->fused->ffn(&p));
    pair_same("a sum in separate memory", &twin.on[1], &y.on[1]);
    gpu->release(gate.data);
    gpu->release(up.data);
}

// dh may be dy; dh or dgain may be NULL.
enum wanted { BOTH, DH_IS_DY, NO_DH, NO_DGAIN };

static void check_ffn(int64_t n, int64_t d, int64_t inner, enum wanted wanted)
{
    struct ffn f;
    ffn_open(&f, n, d, inner);
    check_kept(&f);
    struct pair dy = pair_noise(2, n, d, 0, 11), dgain = pair_noise(1, d, 0, 0, 13);
    struct pair dh = wanted == DH_IS_DY ? dy : pair_noise(2, n, d, 0, 12);
    DONE(cpu->matmul_dx(&f.dact, &dy.on[0], &f.down.on[0], false, MATMUL_F32));
    DONE(cpu->fill(&f.da, 0));
    DONE(cpu->fill(&f.db, 0));
    DONE(cpu->swiglu_backward(&f.da, &f.db, &f.dact, &f.a, &f.b));
    DONE(cpu->matmul_dx(&f.dx, &f.da, &f.gate.on[0], false, MATMUL_F32));
    DONE(cpu->matmul_dx(&f.dx, &f.db, &f.up.on[0], true, MATMUL_F32));
    for (int side = 0; side < 1; side++)
        DONE(cpu->rmsnorm_backward(IF(wanted != NO_DH, dh), IF(wanted != NO_DGAIN, dgain), &f.dx,
                                   &f.h.on[0], &f.gain.on[0], eps));
    for (int side = 1; side < 2; side++) {
        const struct fused_ffn_back p = { .dh = IF(wanted != NO_DH, dh),
                                          .dgain = IF(wanted != NO_DGAIN, dgain),
                                          .dy = OF(dy),
                                          .h = OF(f.h),
                                          .gain = OF(f.gain),
                                          .eps = eps,
                                          .gate = OF(f.gate),
                                          .up = OF(f.up),
                                          .down = OF(f.down),
                                          .saved_gate = &f.saved_gate,
                                          .saved_up = &f.saved_up };
        DONE(gpu->fused->ffn_back(&p));
    }
    compare_bf16("gradient of gate", &f.saved_gate, &f.da);
    compare_bf16("gradient of up", &f.saved_up, &f.db);
    compare("FFN: dh", &dh);
    compare("FFN: dgain", &dgain);
    ffn_close(&f);
}

// --- queries, keys and values --------------------------------------------------------------------

static void check_qkv(int64_t n, int64_t heads, int64_t kv_heads, int64_t dim, enum wanted wanted)
{
    const int64_t d = 24;
    struct pair h = pair_noise(2, n, d, 0, 1), gain = pair_noise(1, d, 0, 0, 2);
    struct pair wq = pair_weights(DTYPE_BF16, heads * dim, d, 3);
    struct pair wk = pair_weights(DTYPE_BF16, kv_heads * dim, d, 4);
    struct pair wv = pair_weights(DTYPE_BF16, kv_heads * dim, d, 5);
    struct pair cos = pair_noise(2, n, dim / 2, 0, 7), sin = pair_noise(2, n, dim / 2, 0, 8);
    struct pair dq = pair_noise(3, n, heads, dim, 9), dk = pair_noise(3, n, kv_heads, dim, 10);
    struct pair dv = pair_noise(3, n, kv_heads, dim, 11);
    struct pair dh = pair_noise(2, n, d, 0, 12), dgain = pair_noise(1, d, 0, 0, 13);
    struct tensor back = noise_tensor(3, n, heads, dim, 14), dx = noise_tensor(2, n, d, 0, 15);
    DONE(cpu->fill(&back, 0));
    DONE(cpu->rope_backward(&back, &dq.on[0], &cos.on[0], &sin.on[0]));
    DONE(cpu->matmul_dx(&dx, &back, &wq.on[0], false, MATMUL_F32));
    back.shape[1] = kv_heads;
    DONE(cpu->fill(&back, 0));
    DONE(cpu->rope_backward(&back, &dk.on[0], &cos.on[0], &sin.on[0]));
    DONE(cpu->matmul_dx(&dx, &back, &wk.on[0], true, MATMUL_F32));
    DONE(cpu->matmul_dx(&dx, &dv.on[0], &wv.on[0], true, MATMUL_F32));
    for (int side = 0; side < 1; side++)
        DONE(cpu->rmsnorm_backward(IF(wanted != NO_DH, dh), IF(wanted != NO_DGAIN, dgain), &dx,
                                   &h.on[0], &gain.on[0], eps));
    for (int side = 1; side < 2; side++) {
        const struct fused_qkv_back p = { .dh = IF(wanted != NO_DH, dh),
                                          .dgain = IF(wanted != NO_DGAIN, dgain),
                                          .dq = OF(dq),
                                          .dk = OF(dk),
                                          .dv = OF(dv),
                                          .h = OF(h),
                                          .gain = OF(gain),
                                          .eps = eps,
                                          .wq = { .w = OF(wq) },
                                          .wk = { .w = OF(wk) },
                                          .wv = { .w = OF(wv) },
                                          .cos = OF(cos),
                                          .sin = OF(sin) };
        DONE(gpu->fused->qkv_back(&p));
    }
    compare("queries, keys and values: dh", &dh);
    compare("queries, keys and values: dgain", &dgain);
    free(back.data);
    free(dx.data);
    pairs_release();
}

// Keeping the products of normed heads changes no bit of the heads; the backward pass starts with
// the gradients of these products.
static void check_normed(int64_t n, int64_t heads, int64_t kv_heads, int64_t dim)
{
    const int64_t d = 24;
    struct pair h = pair_noise(2, n, d, 0, 1), gain = pair_noise(1, d, 0, 0, 2);
    struct pair wq = pair_weights(DTYPE_BF16, heads * dim, d, 3);
    struct pair wk = pair_weights(DTYPE_BF16, kv_heads * dim, d, 4);
    struct pair wv = pair_weights(DTYPE_BF16, kv_heads * dim, d, 5);
    struct pair q_gain = pair_noise(1, dim, 0, 0, 6), k_gain = pair_noise(1, dim, 0, 0, 7);
    struct pair cos = pair_noise(2, n, dim / 2, 0, 8), sin = pair_noise(2, n, dim / 2, 0, 9);
    struct pair places = pair_integers(n, 1, 0, n), q[2], k[2], v[2];
    struct pair saved_q = pair_result(3, n, heads, dim), saved_k = pair_result(3, n, kv_heads, dim);
    struct tensor x = noise_tensor(2, n, d, 0, 10);
    for (int i = 0; i < 2; i++) {
        q[i] = pair_result(3, n, heads, dim);
        k[i] = pair_result(3, n, kv_heads, dim), v[i] = pair_result(3, n, kv_heads, dim);
        const struct fused_qkv p = { .h = &h.on[1],
                                     .gain = &gain.on[1],
                                     .eps = eps,
                                     .wq = { .w = &wq.on[1] },
                                     .wk = { .w = &wk.on[1] },
                                     .wv = { .w = &wv.on[1] },
                                     .q_gain = &q_gain.on[1],
                                     .k_gain = &k_gain.on[1],
                                     .cos = &cos.on[1],
                                     .sin = &sin.on[1],
                                     .cache_rows = &places.on[1],
                                     .q = &q[i].on[1],
                                     .k = &k[i].on[1],
                                     .v = &v[i].on[1],
                                     .saved_q = i ? &saved_q.on[1] : NULL,
                                     .saved_k = i ? &saved_k.on[1] : NULL,
                                     .mode = MATMUL_BF16 };
        DONE(gpu->fused->qkv(&p));
    }
    pair_same("queries beside what is kept", &q[0].on[1], &q[1].on[1]);
    pair_same("keys beside what is kept", &k[0].on[1], &k[1].on[1]);
    pair_same("values beside what is kept", &v[0].on[1], &v[1].on[1]);
    DONE(cpu->rmsnorm(&x, &h.on[0], &gain.on[0], eps));
    DONE(cpu->matmul(&saved_q.on[0], &x, &wq.on[0], NULL, MATMUL_F32));
    DONE(cpu->matmul(&saved_k.on[0], &x, &wk.on[0], NULL, MATMUL_F32));
    compare("products of queries", &saved_q);
    compare("products of keys", &saved_k);
    struct pair dq = pair_noise(3, n, heads, dim, 9), dk = pair_noise(3, n, kv_heads, dim, 10);
    struct pair dv = pair_noise(3, n, kv_heads, dim, 11), dh = pair_noise(2, n, d, 0, 12);
    const struct fused_qkv_back back = { .dh = &dh.on[1],
                                         .dq = &dq.on[1],
                                         .dk = &dk.on[1],
                                         .dv = &dv.on[1],
                                         .h = &h.on[1],
                                         .gain = &gain.on[1],
                                         .eps = eps,
                                         .wq = { .w = &wq.on[1] },
                                         .wk = { .w = &wk.on[1] },
                                         .wv = { .w = &wv.on[1] } };
    DONE(gpu->fused->qkv_back(&back));
    DONE(cpu->matmul_dx(&x, &dq.on[0], &wq.on[0], false, MATMUL_F32));
    DONE(cpu->matmul_dx(&x, &dk.on[0], &wk.on[0], true, MATMUL_F32));
    DONE(cpu->matmul_dx(&x, &dv.on[0], &wv.on[0], true, MATMUL_F32));
    DONE(cpu->rmsnorm_backward(&dh.on[0], NULL, &x, &h.on[0], &gain.on[0], eps));
    compare("dh of normed heads", &dh);
    free(x.data);
    pairs_release();
}

// Stores gradients of heads [n,count,dim], rotated back already, in the layout of the products:
// `each` heads per key head, from head `first` of its heads on. Pair i is elements 2i and 2i + 1 of
// the product if i < adjacent, otherwise elements i + adjacent and i + dim/2.
static void put_back(struct tensor *product, const struct tensor *heads, int64_t first,
                     int64_t each, int64_t kv_heads, int64_t adjacent)
{
    const int64_t count = heads->shape[1], dim = heads->shape[2], half = dim / 2;
    const int64_t width = product->shape[1], step = width / kv_heads;
    for (int64_t i = 0; i < heads->shape[0] * count; i++) {
        const int64_t head = i % count;
        float *to = (float *)product->data + i / count * width + head / each * step +
                    (first + head % each) * dim;
        const float *from = (const float *)heads->data + i * dim;
        for (int64_t p = 0; p < half; p++) {
            to[p < adjacent ? 2 * p : p + adjacent] = from[p];
            to[p < adjacent ? 2 * p + 1 : p + half] = from[p + half];
        }
    }
}

// One weight for queries, keys and values, with `adjacent` pairs of neighbouring dimensions.
static void check_packed(int64_t n, int64_t heads, int64_t kv_heads, int64_t dim, int64_t adjacent)
{
    const int64_t d = 24, group = heads / kv_heads, all = (heads + 2 * kv_heads) * dim;
    struct pair h = pair_noise(2, n, d, 0, 1), gain = pair_noise(1, d, 0, 0, 2);
    struct pair w = pair_weights(DTYPE_BF16, all, d, 3);
    struct pair cos = pair_noise(2, n, dim / 2, 0, 7), sin = pair_noise(2, n, dim / 2, 0, 8);
    struct pair dq = pair_noise(3, n, heads, dim, 9), dk = pair_noise(3, n, kv_heads, dim, 10);
    struct pair dv = pair_noise(3, n, kv_heads, dim, 11);
    struct pair dh = pair_noise(2, n, d, 0, 12), dgain = pair_noise(1, d, 0, 0, 13);
    struct tensor back = noise_tensor(3, n, heads, dim, 14), dx = noise_tensor(2, n, d, 0, 15);
    struct tensor product = noise_tensor(2, n, all, 0, 16);
    DONE(cpu->fill(&back, 0));
    DONE(cpu->rope_backward(&back, &dq.on[0], &cos.on[0], &sin.on[0]));
    put_back(&product, &back, 0, group, kv_heads, adjacent);
    back.shape[1] = kv_heads;
    DONE(cpu->fill(&back, 0));
    DONE(cpu->rope_backward(&back, &dk.on[0], &cos.on[0], &sin.on[0]));
    put_back(&product, &back, group, 1, kv_heads, adjacent);
    put_back(&product, &dv.on[0], group + 1, 1, kv_heads, 0);
    DONE(cpu->matmul_dx(&dx, &product, &w.on[0], false, MATMUL_F32));
    DONE(cpu->rmsnorm_backward(&dh.on[0], &dgain.on[0], &dx, &h.on[0], &gain.on[0], eps));
    const int64_t step = (group + 2) * dim;
    const struct fused_qkv_back p = { .dh = &dh.on[1],
                                      .dgain = &dgain.on[1],
                                      .dq = &dq.on[1],
                                      .dk = &dk.on[1],
                                      .dv = &dv.on[1],
                                      .h = &h.on[1],
                                      .gain = &gain.on[1],
                                      .eps = eps,
                                      .wq = { &w.on[1], NULL, 0, group * dim, step },
                                      .wk = { &w.on[1], NULL, group * dim, dim, step },
                                      .wv = { &w.on[1], NULL, (group + 1) * dim, dim, step },
                                      .adjacent = adjacent,
                                      .cos = &cos.on[1],
                                      .sin = &sin.on[1] };
    DONE(gpu->fused->qkv_back(&p));
    compare("packed queries, keys and values: dh", &dh);
    compare("packed queries, keys and values: dgain", &dgain);
    free(back.data);
    free(dx.data);
    free(product.data);
    pairs_release();
}

// --- norms after products ------------------------------------------------------------------------

// Keeping the product changes no bit of the sum, and the kept tensor equals the product.
static void check_behind(int64_t n, int64_t k, int64_t m)
{
    struct pair h = pair_noise(2, n, m, 0, 1), x = pair_noise(2, n, k, 0, 2);
    struct pair y = pair_result(2, n, m, 0), saved = pair_result(2, n, m, 0);
    struct pair w = pair_weights(DTYPE_BF16, m, k, 3), gain = pair_noise(1, m, 0, 0, 4);
    const struct fused_linear weight = { .w = &w.on[1] };
    struct fused_add p = { .y = &y.on[1],
                           .h = &h.on[1],
                           .x = &x.on[1],
                           .w = weight,
                           .after = { &gain.on[1], eps, &saved.on[1] },
                           .mode = MATMUL_BF16 };
    DONE(gpu->fused->add(&p));
    p.y = &h.on[1];
    p.after.saved = NULL;
    DONE(gpu->fused->add(&p));
    pair_same("a normed sum in separate memory", &h.on[1], &y.on[1]);
    DONE(cpu->matmul(&saved.on[0], &x.on[0], &w.on[0], NULL, MATMUL_F32));
    compare("the product that is kept", &saved);
    pairs_release();
}

// --- all -----------------------------------------------------------------------------------------

static void sums_in_separate_memory(void **state)
{
    check_add(9, 64, 33);
    check_add(33, 1028, 8);
    check_add(70, 20, 131);
}

static void norms_behind_products(void **state)
{
    check_behind(9, 64, 33);
    check_behind(33, 1028, 8);
}

static void normed_heads_are_kept(void **state)
{
    check_normed(9, 4, 2, 6);
    check_normed(33, 3, 1, 16);
}

static void packed_weights_have_packed_gradients(void **state)
{
    static const int64_t rows[] = { 9, 33, 70 };
    for (int i = 0; i < 3; i++) {
        check_packed(rows[i], 4, 2, 6, i);
        check_packed(rows[i], 3, 1, 16, 4 * i);
        check_packed(rows[i], 2, 2, 10, 5 * (i % 2));
    }
}

// Some algorithms of cuBLASLt compute sums only in place; with this variable, all those of the
// emulated GPU do.
static void sums_with_in_place_algorithms(void **state)
{
    setenv("CUDA_HOST_IN_PLACE", "1", 1);
    check_add(33, 1028, 8);
    check_ffn(33, 264, 24, BOTH);
    unsetenv("CUDA_HOST_IN_PLACE");
}

static void fused_gradients_equal_the_ops(void **state)
{
    static const int64_t rows[] = { 9, 33, 70 };
    for (int i = 0; i < 3 * 4; i++) {
        const int64_t n = rows[i % 3];
        const enum wanted wanted = (enum wanted)(i / 3);
        check_ffn(n, 16, 40, wanted);
        check_ffn(n, 264, 24, wanted);
        check_ffn(n, 20, 44, wanted);
        if (wanted == DH_IS_DY) continue;
        check_qkv(n, 4, 2, 6, wanted);
        check_qkv(n, 3, 1, 16, wanted);
        check_qkv(n, 2, 2, 10, wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_in_separate_memory),
        cmocka_unit_test(sums_with_in_place_algorithms),
        cmocka_unit_test(fused_gradients_equal_the_ops),
        cmocka_unit_test(packed_weights_have_packed_gradients),
        cmocka_unit_test(norms_behind_products),
        cmocka_unit_test(normed_heads_are_kept),
    };
    return cmocka_run_group_tests(tests, open_both, NULL);
}
