// tests/kernels/attention.c -- kernels/attention.c against sums in double: grouped heads, ranges of
// keys, one row and many, probabilities, in f32 and in bf16; bf16 keys against the same values as
// f32.
#include "tests/kernels/close.h"

// Shape of one call: n rows, p keys; dv: width of a value.
struct shape {
    int64_t n, p, heads, kv_heads, d, dv;
};

struct call {
    struct tensor q, k, v, y, first, last, probs;
};

// The keys that each row sees.
enum ranges { ALL, CAUSAL, WINDOW, SOME_EMPTY, RANGES };

static struct call call_new(struct shape s, enum ranges ranges)
{
    struct call c = {
        .q = noise_tensor(3, s.n, s.heads, s.d, 1),
        .k = noise_tensor(3, s.p, s.kv_heads, s.d, 2),
        .v = noise_tensor(3, s.p, s.kv_heads, s.dv, 3),
        .y = tensor_of(DTYPE_F32, 3, s.n, s.heads, s.dv),
        .first = tensor_of(DTYPE_I32, 1, s.n, 0, 0),
        .last = tensor_of(DTYPE_I32, 1, s.n, 0, 0),
        .probs = tensor_of(DTYPE_F32, 3, s.heads, s.n, s.p),
    };
    int32_t *first = c.first.data, *last = c.last.data;
    for (int64_t i = 0; i < s.n; i++) {
        int64_t end = ranges == ALL ? s.p : s.p - s.n + i + 1;
        if (end < 0) end = 0;
        first[i] = (int32_t)(ranges >= WINDOW && end > 5 ? end - 5 : 0);
        last[i] = (int32_t)(ranges == SOME_EMPTY && i % 3 == 1 ? first[i] : end);
    }
    return c;
}

static void call_free(struct call *c)
{
    struct tensor *all[] = { &c->q, &c->k, &c->v, &c->y, &c->first, &c->last, &c->probs };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->data);
}

// Probabilities and output of head h, row i.
static void plain(const struct call *c, int64_t i, int64_t h, float scale, double *y, double *probs)
{
    int64_t heads = c->q.shape[1], d = c->q.shape[2], kv_heads = c->k.shape[1];
    const int64_t dv = c->v.shape[2];
    const float *q = (float *)c->q.data + (i * heads + h) * d, *k = c->k.data, *v = c->v.data;
    int64_t first = ((int32_t *)c->first.data)[i], last = ((int32_t *)c->last.data)[i];
    int64_t at = h / (heads / kv_heads);
    double highest = -INFINITY, sum = 0;
    for (int64_t j = first; j < last; j++) {
        for (int64_t e = 0; e < d; e++) probs[j] += (double)q[e] * k[(j * kv_heads + at) * d + e];
        probs[j] *= scale;
        highest = fmax(highest, probs[j]);
    }
    for (int64_t j = first; j < last; j++) sum += probs[j] = exp(probs[j] - highest);
    for (int64_t j = first; j < last; j++) {
        probs[j] /= sum;
        for (int64_t e = 0; e < dv; e++) y[e] += probs[j] * v[(j * kv_heads + at) * dv + e];
    }
}

static const enum matmul_mode modes[] = { MATMUL_F32, MATMUL_BF16 };

// Compares with `y` and `probs`. Neither returning the probabilities nor the number of threads
// changes a bit.
static void check_sums(const struct backend *b, const char *what, struct call *c,
                       const struct tensor *first, const struct tensor *last, float scale,
                       enum matmul_mode mode, const double *y, const double *probs)
{
    const double slack = mode == MATMUL_BF16 ? 2e-2 : 3e-6;
    struct tensor again = tensor_of(DTYPE_F32, 3, c->y.shape[0], c->y.shape[1], c->y.shape[2]);
    memset(c->y.data, 0x7f, tensor_bytes(&c->y));
    memset(c->probs.data, 0x7f, tensor_bytes(&c->probs));
    assert_int_equal(b->attention(&c->y, &c->q, &c->k, &c->v, first, last, scale, NULL, mode), 0);
    close_check(what, c->y.data, y, tensor_count(&c->y), slack, 0);
    b->set_threads(1);
    assert_int_equal(b->attention(&again, &c->q, &c->k, &c->v, first, last, scale, &c->probs, mode),
                     0);
    b->set_threads(0);
    assert_memory_equal(again.data, c->y.data, tensor_bytes(&again));
    close_check(what, c->probs.data, probs, tensor_count(&c->probs), 1e-6, 2e-6);
    free(again.data);
}

// Keys and values in bf16 give the bits of the same values in f32.
static void check_bf16(const struct backend *b, const char *what, struct call *c,
                       const struct tensor *k, const struct tensor *v, const struct tensor *first,
                       const struct tensor *last, enum matmul_mode mode)
{
    struct tensor y = tensor_of(DTYPE_F32, 3, c->y.shape[0], c->y.shape[1], c->y.shape[2]);
    struct tensor probs =
        tensor_of(DTYPE_F32, 3, c->probs.shape[0], c->probs.shape[1], c->probs.shape[2]);
    struct tensor *const p[] = { NULL, &probs }, *const q[] = { NULL, &c->probs };
    for (int i = 0; i < 2; i++) {
        const struct tensor *const x = &c->q;
        memset(y.data, 0x7f, tensor_bytes(&y));
        assert_int_equal(b->attention(&c->y, x, &c->k, &c->v, first, last, 0.3f, q[i], mode), 0);
        assert_int_equal(b->attention(&y, x, k, v, first, last, 0.3f, p[i], mode), 0);
        if (memcmp(y.data, c->y.data, tensor_bytes(&y)))
            fail_msg("%s: the result differs with bf16 keys", what);
    }
    if (memcmp(probs.data, c->probs.data, tensor_bytes(&probs)))
        fail_msg("%s: the probabilities differ with bf16 keys", what);
    free(y.data);
    free(probs.data);
}

// Checks one shape under each instruction set, in both modes: the sums in double, which take most
// of the time, are the same for all.
static void check(struct shape s, enum ranges ranges)
{
    struct call c = call_new(s, ranges);
    const struct tensor *first = ranges == ALL ? NULL : &c.first;
    const struct tensor *last = ranges == ALL ? NULL : &c.last;
    float scale = 3 / sqrtf((float)s.d);
    double *y = doubles(s.n * s.heads * s.dv), *probs = doubles(s.heads * s.n * s.p);
    for (int64_t i = 0; i < s.n; i++)
        for (int64_t h = 0; h < s.heads; h++)
            plain(&c, i, h, scale, y + (i * s.heads + h) * s.dv, probs + (h * s.n + i) * s.p);
    struct tensor k = { 0 }, v = { 0 };
    for (int bf16 = 0; bf16 < 2; bf16++) {
        if (bf16) { // truncates the keys and values of the call too
            k = bf16_twin(&c.k);
            v = bf16_twin(&c.v);
        }
        FOR_EACH_ISA(b)
        for (int mode = 0; mode < 2; mode++) {
            char what[160];
            snprintf(what, sizeof what, "%s: N %d P %d H %d/%d d %d, %d ranges %d mode %d",
                     b->describe(), (int)s.n, (int)s.p, (int)s.heads, (int)s.kv_heads, (int)s.d,
                     (int)s.dv, (int)ranges, (int)modes[mode]);
            if (bf16)
                check_bf16(b, what, &c, &k, &v, first, last, modes[mode]);
            else
                check_sums(b, what, &c, first, last, scale, modes[mode], y, probs);
        }
    }
    free(k.data);
    free(v.data);
    free(y);
    free(probs);
    call_free(&c);
}

static void test_shapes(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        { 1, 1, 1, 1, 12, 12 },     { 1, 130, 4, 2, 64, 64 },    { 1, 300, 7, 1, 80, 80 },
        { 2, 2, 2, 2, 16, 16 },     { 3, 50, 6, 3, 12, 12 },     { 7, 7, 5, 5, 80, 80 },
        { 33, 33, 4, 1, 64, 64 },   { 33, 170, 6, 2, 16, 16 },   { 65, 65, 2, 2, 72, 72 },
        { 140, 140, 3, 3, 8, 8 },   { 200, 333, 4, 2, 20, 20 },  { 1, 40, 16, 1, 64, 64 },
        { 2, 9, 200, 1, 4, 4 },     { 1, 4200, 4, 2, 16, 16 },   { 5, 5, 3, 1, 33, 33 },
        { 9, 300, 2, 1, 96, 96 },   { 50, 600, 2, 2, 128, 128 }, { 40, 160, 3, 1, 36, 36 },
        { 70, 70, 2, 2, 192, 128 }, { 300, 300, 4, 4, 24, 16 },  { 5, 77, 4, 2, 192, 128 },
        { 1, 90, 2, 1, 30, 7 },     { 400, 1500, 1, 1, 80, 80 },
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int ranges = 0; ranges < RANGES; ranges++) check(shapes[i], (enum ranges)ranges);
}

// Computes rows of y from the call's keys and values or, if `bf16`, from copies of them in bf16.
static void attend(const struct backend *b, struct call *c, struct tensor *y, bool bf16,
                   enum matmul_mode mode)
{
    struct tensor k = c->k, v = c->v;
    if (bf16) {
        k = bf16_twin(&c->k);
        v = bf16_twin(&c->v);
    }
    assert_int_equal(b->attention(y, &c->q, &k, &v, &c->first, &c->last, 0.3f, NULL, mode), 0);
    if (!bf16) return;
    free(k.data);
    free(v.data);
}

static void check_unseen(const struct backend *b, struct shape s, enum ranges ranges, bool bf16,
                         int x, enum matmul_mode mode)
{
    static const float strange[] = { INFINITY, -INFINITY, NAN };
    struct call c = call_new(s, ranges);
    struct tensor plain = tensor_of(DTYPE_F32, 3, s.n, s.heads, s.dv);
    attend(b, &c, &plain, bf16, mode);
    const int64_t at = s.p - s.n / 2 - 1, width = s.kv_heads * (x < 3 ? s.dv : s.d);
    float *hit = (float *)(x < 3 ? c.v.data : c.k.data) + at * width;
    for (int64_t e = 0; e < width; e++) hit[e] = strange[x % 3];
    attend(b, &c, &c.y, bf16, mode);
    for (int64_t r = 0; r < s.n; r++) {
        const bool seen = ((int32_t *)c.first.data)[r] <= at && at < ((int32_t *)c.last.data)[r];
        const int64_t row = s.heads * s.dv;
        const float *got = (float *)c.y.data + r * row;
        if (!seen && memcmp(got, (float *)plain.data + r * row, (size_t)row * sizeof *got))
            fail_msg("%s: N %d P %d d %d, %d ranges %d bf16 %d mode %d: row %d depends on %s %g, "
                     "which it does not see",
                     b->describe(), (int)s.n, (int)s.p, (int)s.d, (int)s.dv, (int)ranges, bf16,
                     (int)mode, (int)r, x < 3 ? "value" : "key", (double)strange[x % 3]);
        if (seen && x < 3) assert_false(isfinite(got[0]));
    }
    free(plain.data);
    call_free(&c);
}

// Keys and values that a row does not see cannot affect it, even if they are infinite or NaN; those
// that it sees make it non-finite.
static void test_unseen(void **state)
{
    (void)state;
    static const struct shape shapes[] = { { 3, 50, 6, 3, 12, 12 },    { 33, 33, 4, 1, 64, 64 },
                                           { 140, 140, 3, 3, 8, 8 },   { 200, 333, 4, 2, 20, 20 },
                                           { 70, 70, 2, 2, 192, 128 }, { 40, 290, 2, 1, 24, 17 } };
    FOR_EACH_ISA(b)
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int ranges = CAUSAL; ranges < RANGES; ranges++)
            for (int x = 0; x < 12; x++) {
                check_unseen(b, shapes[i], (enum ranges)ranges, x / 6, x % 6, MATMUL_F32);
                check_unseen(b, shapes[i], (enum ranges)ranges, x / 6, x % 6, MATMUL_BF16);
            }
}

static void test_no_rows(void **state)
{
    (void)state;
    check((struct shape){ 0, 4, 2, 1, 8, 8 }, ALL);
}

static void check_empty(const struct backend *b, int64_t n, int64_t p, enum matmul_mode mode)
{
    struct call c = call_new((struct shape){ n, p, 2, 2, 16, 16 }, ALL);
    memset(c.last.data, 0, tensor_bytes(&c.last));
    assert_int_equal(b->attention(&c.y, &c.q, &c.k, &c.v, NULL, &c.last, 1, &c.probs, mode), 0);
    for (int64_t i = 0; i < tensor_count(&c.y); i++) assert_true(((float *)c.y.data)[i] == 0);
    for (int64_t i = 0; i < tensor_count(&c.probs); i++)
        assert_true(((float *)c.probs.data)[i] == 0);
    call_free(&c);
}

// A row that sees nothing gives zeros, even when no row sees anything or there are no keys.
static void test_empty(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    for (int64_t n = 1; n < 100; n += 49)
        for (int64_t p = 0; p < 10; p += 9)
            for (int m = 0; m < 2; m++) check_empty(b, n, p, modes[m]);
}

// Key `great` gets by far the highest score, key 30 by far the lowest.
static void check_far(const struct backend *b, int64_t n, int64_t great, enum matmul_mode mode)
{
    struct call c = call_new((struct shape){ n, 300, 2, 1, 16, 16 }, ALL);
    for (int64_t i = 0; i < tensor_count(&c.q); i++) ((float *)c.q.data)[i] = 100;
    for (int64_t j = 0; j < 300; j++)
        for (int e = 0; e < 16; e++)
            ((float *)c.k.data)[j * 16 + e] = j == great ? 10 : j == 30 ? -10 : 0.5f;
    assert_int_equal(b->attention(&c.y, &c.q, &c.k, &c.v, NULL, NULL, 1, NULL, mode), 0);
    for (int64_t i = 0; i < n * 2; i++)
        for (int e = 0; e < 16; e++) {
            const float got = ((float *)c.y.data)[i * 16 + e];
            const float want = ((float *)c.v.data)[great * 16 + e];
            const float slack = mode == MATMUL_BF16 ? 8e-3f * fabsf(want) : 0;
            if (!(fabsf(got - want) <= slack))
                fail_msg("%s: N %d mode %d, row %d: %g, not %g", b->describe(), (int)n, (int)mode,
                         (int)i, (double)got, (double)want);
        }
    call_free(&c);
}

// Scores that are far apart: the greatest takes all the weight at any position, and nothing
// overflows.
static void test_far(void **state)
{
    (void)state;
    static const int64_t great[] = { 2, 217, 299 };
    FOR_EACH_ISA(b)
    for (int64_t n = 1; n < 80; n += 30)
        for (int i = 0; i < 3; i++)
            for (int m = 0; m < 2; m++) check_far(b, n, great[i], modes[m]);
}

static void check_infinite(const struct backend *b, int64_t n, enum matmul_mode mode)
{
    struct call c = call_new((struct shape){ n, 256, 2, 2, 16, 16 }, ALL);
    for (int64_t i = 0; i < tensor_count(&c.q); i++) ((float *)c.q.data)[i] = 1;
    for (int64_t i = 64 * 32; i < 96 * 32; i++) ((float *)c.k.data)[i] = -INFINITY;
    assert_int_equal(b->attention(&c.y, &c.q, &c.k, &c.v, NULL, NULL, 1, &c.probs, mode), 0);
    for (int64_t i = 0; i < tensor_count(&c.y); i++) assert_true(isfinite(((float *)c.y.data)[i]));
    assert_true(((float *)c.probs.data)[70] == 0);
    call_free(&c);
}

// A score of -infinity (from an infinite key) has no weight if other scores are finite.
static void test_infinite_keys(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    for (int64_t n = 1; n < 80; n += 30)
        for (int m = 0; m < 2; m++) check_infinite(b, n, modes[m]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),  cmocka_unit_test(test_unseen),
        cmocka_unit_test(test_no_rows), cmocka_unit_test(test_empty),
        cmocka_unit_test(test_far),     cmocka_unit_test(test_infinite_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
