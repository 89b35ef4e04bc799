// tests/cuda/attention.c -- attention on tensor cores (kernels/attention_mma.cu and its gradient)
// and of few rows (attention_few.cu) against the CPU, on odd lengths, every width of a tile and all
// ways to see keys.
//
// The inputs are rounded to bf16 in advance, as the kernel would round them (q times scale log2 e),
// so both devices have the same scores and probabilities. The remaining difference comes from
// rounding probabilities and their gradients, by at most 2^-8 of each, before they are multiplied
// by values, keys and queries.
#include "tests/cuda/pair.h"
#include "tests/cuda/sight.h"

static const float scale_of_one = 2, log2_e = 1.44269504f;

static float rounded(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    u = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000;
    memcpy(&x, &u, sizeof u);
    return x;
}

static struct pair rounded_noise(int64_t a, int64_t b, int64_t c, uint32_t seed, float times)
{
    struct tensor t = noise_tensor(3, a, b, c, seed);
    float *x = t.data;
    for (int64_t i = 0; i < a * b * c; i++) x[i] = rounded(x[i] * times) / times;
    return pair_of(t);
}

// The CPU is the reference and rounds nothing.
#define MODE (side ? MATMUL_BF16 : MATMUL_F32)

struct shape {
    int64_t n, keys, heads, kv_heads, d, dv;
};

static void check_shape(struct shape s, enum sight sight)
{
    const float scale = scale_of_one / sqrtf((float)s.d);
    struct pair q = rounded_noise(s.n, s.heads, s.d, 1, scale * log2_e);
    struct pair k = rounded_noise(s.keys, s.kv_heads, s.d, 2, 1);
    struct pair v = rounded_noise(s.keys, s.kv_heads, s.dv, 3, 1);
    struct pair y = pair_result(3, s.n, s.heads, s.dv), again = pair_result(3, s.n, s.heads, s.dv);
    struct tensor from = tensor_of(DTYPE_I32, 1, s.n, 0, 0), to = from;
    to.data = malloc(tensor_bytes(&to) + 1);
    set_sight(&from, &to, s.n, s.keys, sight);
    struct pair first = pair_of(from), last = pair_of(to);
    struct pair probs = pair_result(3, s.heads, s.n, s.keys);
    const bool ranges = sight != SEE_ALL;
    ON_BOTH(attention, OF(y), OF(q), OF(k), OF(v), IF(ranges, first), IF(ranges, last), scale, NULL,
            MODE);
    pair_compare("attention", &y, 2e-3, 0);
    ON_BOTH(attention, OF(again), OF(q), OF(k), OF(v), IF(ranges, first), IF(ranges, last), scale,
            OF(probs), MODE);
    pair_compare("attention: probabilities", &probs, 1e-6, 3e-5);
    // Returning the probabilities changes no bit.
    pair_same("attention: with probabilities", &y.on[1], &again.on[1]);
    check_bf16_keys(&q, &k, &v, ranges ? &first : NULL, &last, scale, MATMUL_BF16);

    struct pair dy = rounded_noise(s.n, s.heads, s.dv, 4, 1),
                dq = pair_result(3, s.n, s.heads, s.d);
    struct pair dk = pair_result(3, s.keys, s.kv_heads, s.d);
    struct pair dv = pair_result(3, s.keys, s.kv_heads, s.dv);
    for (int i = 0; i < 2; i++) {
        // Computes all gradients first, then all but one.
        const int without = i ? (int)(s.n + sight) % 3 : 3;
        ON_BOTH(fill, OF(dq), 0.5f);
        ON_BOTH(fill, OF(dk), 0.25f);
        ON_BOTH(fill, OF(dv), -0.5f);
        ON_BOTH(attention_backward, IF(without != 0, dq), IF(without != 1, dk),
                IF(without != 2, dv), OF(dy), OF(y), OF(q), OF(k), OF(v), IF(ranges, first),
                IF(ranges, last), scale, MODE);
        pair_compare("attention_backward: dq", &dq, 4e-3, 0);
        pair_compare("attention_backward: dk", &dk, 4e-3, 0);
        pair_compare("attention_backward: dv", &dv, 4e-3, 2e-3);
    }
    pairs_release();
}

static void equals_the_cpu(void **state)
{
    // Blocks of 64 and of 128 queries; partial tiles, whole tiles, and one row more; groups of
    // heads; every width of a tile, filled or not.
    static const struct shape shapes[] = {
        { 5, 5, 1, 1, 64, 64 },      { 64, 64, 1, 1, 64, 64 },   { 65, 129, 1, 1, 72, 72 },
        { 70, 140, 4, 2, 128, 128 }, { 129, 129, 2, 1, 80, 80 }, { 33, 192, 3, 3, 96, 96 },
        { 128, 140, 3, 1, 20, 20 },  { 7, 300, 5, 1, 33, 33 },   { 140, 200, 2, 2, 91, 91 },
        { 66, 66, 2, 1, 127, 127 },  { 6, 1, 2, 2, 7, 7 },       { 3, 70, 2, 1, 64, 64 },
        { 20, 70, 1, 1, 96, 96 },    { 20, 70, 1, 1, 128, 128 }, { 70, 100, 2, 2, 96, 64 },
        { 30, 80, 2, 1, 128, 72 },   { 33, 40, 1, 1, 33, 7 },
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int sight = SEE_ALL; sight < SIGHTS; sight++)
            check_shape(shapes[i], (enum sight)sight);
}

// One row and a few: groups of heads that fit into one block, and larger ones; keys in many parts;
// heads that are wider than the tiles. In either mode few rows are computed in f32.
static void few_rows(void **state)
{
    static const struct shape shapes[] = {
        { 1, 700, 12, 1, 64, 64 },   { 2, 513, 16, 2, 72, 72 },  { 4, 40, 7, 7, 33, 33 },
        { 1, 129, 10, 1, 256, 256 }, { 3, 300, 3, 1, 300, 300 }, { 1, 2500, 2, 2, 16, 16 },
        { 1, 70, 8, 1, 33, 33 },     { 2, 300, 4, 4, 192, 128 }, { 12, 90, 2, 2, 300, 128 },
        { 1, 260, 3, 1, 40, 7 },
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int sight = SEE_ALL; sight < SIGHTS; sight++) {
            const struct shape s = shapes[i];
            struct pair q = pair_noise(3, s.n, s.heads, s.d, 1);
            struct pair k = pair_noise(3, s.keys, s.kv_heads, s.d, 2);
            struct pair v = pair_noise(3, s.keys, s.kv_heads, s.dv, 3);
            struct pair y = pair_result(3, s.n, s.heads, s.dv),
                        again = pair_result(3, s.n, s.heads, s.dv);
            struct tensor from = tensor_of(DTYPE_I32, 1, s.n, 0, 0), to = from;
            to.data = malloc(tensor_bytes(&to) + 1);
            set_sight(&from, &to, s.n, s.keys, (enum sight)sight);
            struct pair first = pair_of(from), last = pair_of(to);
            const bool ranges = sight != SEE_ALL;
            ON_BOTH(attention, OF(y), OF(q), OF(k), OF(v), IF(ranges, first), IF(ranges, last),
                    0.3f, NULL, MATMUL_F32);
            pair_compare("attention of few rows", &y, 1e-5, 1e-5);
            ON_BOTH(attention, OF(again), OF(q), OF(k), OF(v), IF(ranges, first), IF(ranges, last),
                    0.3f, NULL, MODE);
            pair_same("attention of few rows, either way", &y.on[1], &again.on[1]);
            check_bf16_keys(&q, &k, &v, ranges ? &first : NULL, &last, 0.3f, MATMUL_F32);
            pairs_release();
        }
}

// Many tiles of keys: the running sum is rescaled again and again.
static void long_rows(void **state)
{
    check_shape((struct shape){ 20, 1500, 1, 1, 64, 64 }, SEE_BEFORE);
}

static void no_keys(void **state)
{
    struct pair q = pair_noise(3, 9, 2, 64, 1), k = pair_result(3, 0, 2, 64);
    struct pair y = pair_result(3, 9, 2, 64);
    ON_BOTH(attention, OF(y), OF(q), OF(k), OF(k), NULL, NULL, 1, NULL, MODE);
    pair_compare("attention without keys", &y, 0, 0);
    pairs_release();
}

// Scores that are far apart: the greatest takes all the weight, and nothing overflows.
static void far_scores(void **state)
{
    struct pair q = pair_noise(3, 20, 2, 64, 1), k = pair_noise(3, 300, 1, 64, 2);
    struct pair v = rounded_noise(300, 1, 64, 3, 1), y = pair_result(3, 20, 2, 64);
    for (int side = 0; side < 2; side++) {
        devices[side]->fill(OF(q), 100);
        devices[side]->fill(OF(k), 0.5f);
        struct tensor one = *OF(k);
        one.data = (char *)one.data + (size_t)(217 * 64) * sizeof(float);
        one.shape[0] = 1;
        devices[side]->fill(&one, 10);
    }
    ON_BOTH(attention, OF(y), OF(q), OF(k), OF(v), NULL, NULL, 1, NULL, MODE);
    pair_compare("attention, scores far apart", &y, 0, 0);
    pairs_release();
}

// A NaN stays visible, in its own row and head only.
static void not_a_number(void **state)
{
    struct tensor x = noise_tensor(3, 70, 2, 64, 1);
    ((float *)x.data)[(33 * 2 + 1) * 64 + 5] = NAN;
    struct pair q = pair_of(x), k = pair_noise(3, 70, 2, 64, 2), y = pair_result(3, 70, 2, 64);
    ON_BOTH(attention, OF(y), OF(q), OF(k), OF(k), NULL, NULL, 0.1f, NULL, MODE);
    float *got = malloc(tensor_bytes(&y.on[1]));
    devices[1]->download(got, y.on[1].data, tensor_bytes(&y.on[1]));
    for (int64_t i = 0; i < 70 * 2 * 64; i++)
        assert_true((got[i] != got[i]) == (i / 64 == 33 * 2 + 1));
    free(got);
    pairs_release();
}

// Computes attention on the GPU; returns the rows on the host.
static float *attend(const struct pair *q, const struct pair *k, const struct pair *v,
                     const struct pair *first, const struct pair *last, enum matmul_mode mode)
{
    enum { side = 1 };
    const struct tensor *const t = &q->on[side];
    struct pair y = pair_result(3, t->shape[0], t->shape[1], v->on[side].shape[2]);
    if (devices[side]->attention(OF(y), OF(*q), OF(*k), OF(*v), OF(*first), OF(*last), 0.3f, NULL,
                                 mode))
        fail_msg("attention: %s", devices[side]->failure());
    const size_t size = tensor_bytes(OF(y));
    float *rows = malloc(size + 1);
    devices[side]->download(rows, OF(y)->data, size);
    return rows;
}

// Sets all columns of row `at` to x, on the GPU.
static void strike(struct pair *p, int64_t at, float x)
{
    const struct tensor *const t = &p->on[1];
    struct tensor row = tensor_of(DTYPE_F32, 2, 1, t->shape[1] * t->shape[2], 0);
    const size_t size = tensor_bytes(&row);
    float *numbers = row.data;
    for (int64_t e = 0; e < row.shape[1]; e++) numbers[e] = x;
    char *to = (char *)t->data + (size_t)at * (t->dtype == DTYPE_BF16 ? size / 2 : size);
    if (t->dtype == DTYPE_BF16) {
        const struct tensor few = bf16_twin(&row);
        devices[1]->upload(to, few.data, size / 2);
        free(few.data);
    } else {
        devices[1]->upload(to, numbers, size);
    }
    free(row.data);
}

static void check_unseen(struct shape s, enum sight sight, bool bf16, enum matmul_mode mode, int x)
{
    static const float strange[] = { INFINITY, -INFINITY, NAN };
    struct pair q = rounded_noise(s.n, s.heads, s.d, 1, 1);
    struct pair k = rounded_noise(s.keys, s.kv_heads, s.d, 2, 1);
    struct pair v = rounded_noise(s.keys, s.kv_heads, s.dv, 3, 1);
    struct tensor from = tensor_of(DTYPE_I32, 1, s.n, 0, 0), to = from;
    to.data = malloc(tensor_bytes(&to) + 1);
    set_sight(&from, &to, s.n, s.keys, sight);
    struct pair first = pair_of(from), last = pair_of(to);
    if (bf16) {
        k = pair_bf16(&k);
        v = pair_bf16(&v);
    }
    const int64_t at = s.keys - s.n / 2 - 1;
    float *plain = attend(&q, &k, &v, &first, &last, mode);
    strike(x < 3 ? &v : &k, at, strange[x % 3]);
    float *got = attend(&q, &k, &v, &first, &last, mode);
    const int64_t row = s.heads * s.dv;
    for (int64_t i = 0; i < s.n; i++) {
        const bool seen = ((int32_t *)from.data)[i] <= at && at < ((int32_t *)to.data)[i];
        if (!seen && memcmp(got + i * row, plain + i * row, (size_t)row * sizeof *got))
            fail_msg("[%d,%d,%d,%d] sight %d, bf16 %d, mode %d: row %d depends on %s %g, which it "
                     "does not see",
                     (int)s.n, (int)s.heads, (int)s.keys, (int)s.d, (int)sight, bf16, (int)mode,
                     (int)i, x < 3 ? "value" : "key", (double)strange[x % 3]);
        for (int64_t e = 0; seen && x < 3 && e < row; e++) assert_false(isfinite(got[i * row + e]));
    }
    free(plain);
    free(got);
    pairs_release();
}

// Keys and values that a row does not see cannot affect it, even if they are infinite or NaN.
static void unseen(void **state)
{
    static const struct shape shapes[] = {
        { 3, 50, 6, 3, 12, 12 },
        { 33, 33, 4, 1, 64, 64 },
        { 70, 140, 3, 3, 80, 72 },
        { 200, 333, 2, 1, 16, 16 },
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int sight = SEE_BEFORE; sight < SIGHTS; sight++)
            for (int way = 0; way < 4; way++)
                for (int x = 0; x < 6; x++)
                    check_unseen(shapes[i], (enum sight)sight, way % 2,
                                 way / 2 ? MATMUL_BF16 : MATMUL_F32, x);
}

// The same input gives the same dq and dk, bit for bit.
static void repeats(void **state)
{
    struct pair q = pair_noise(3, 130, 4, 64, 1), k = pair_noise(3, 200, 2, 64, 2);
    struct pair dq = pair_result(3, 130, 4, 64), again = pair_result(3, 130, 4, 64);
    struct pair dk = pair_result(3, 200, 2, 64), dk_again = pair_result(3, 200, 2, 64);
    struct pair *const all[] = { &dq, &again, &dk, &dk_again };
    for (int i = 0; i < 4; i++) devices[1]->fill(&all[i]->on[1], 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(devices[1]->attention_backward(&all[i]->on[1], &all[2 + i]->on[1], NULL,
                                                        &q.on[1], &q.on[1], &q.on[1], &k.on[1],
                                                        &k.on[1], NULL, NULL, 0.1f, MATMUL_BF16),
                         0);
    pair_same("dq", &dq.on[1], &again.on[1]);
    pair_same("dk", &dk.on[1], &dk_again.on[1]);
    pairs_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_cpu), cmocka_unit_test(few_rows),
        cmocka_unit_test(long_rows),      cmocka_unit_test(no_keys),
        cmocka_unit_test(far_scores),     cmocka_unit_test(not_a_number),
        cmocka_unit_test(unseen),         cmocka_unit_test(repeats),
    };
    const int failed = cmocka_run_group_tests(tests, devices_open, NULL);
    if (!order_matters()) return failed;
    return failed + cmocka_run_group_tests(tests, devices_open_back, NULL);
}
