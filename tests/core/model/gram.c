// tests/core/model/gram.c -- core/model/gram.c against plain loops in double: contributions from
// Gram matrices of heads, with output projections in f32 and bf16, with LoRA and without.
#include "core/model/gram.h"
#include "tests/kernels/close.h"

// H, Hkv, d, D, P, rank of LoRA (0: no LoRA).
static const int64_t shapes[][6] = {
    { 1, 1, 2, 1, 1, 0 },     { 4, 2, 6, 10, 3, 0 },   { 6, 1, 5, 33, 40, 2 },
    { 8, 8, 16, 24, 70, 3 },  { 9, 3, 12, 60, 33, 0 }, { 14, 2, 8, 112, 32, 1 },
    { 32, 32, 8, 96, 65, 0 },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

// || sum over heads of a[n] (v_i W_O[n]) || of token i = `key`, with W_O = weight + scale B A.
static double plain(const int64_t *s, const float *weight, const struct lora *lora, const float *v,
                    int64_t key, const double *a)
{
    const int64_t H = s[0], Hkv = s[1], d = s[2], D = s[3], in = H * d;
    double squares = 0;
    for (int64_t o = 0; o < D; o++) {
        double sum = 0;
        for (int64_t c = 0; c < in; c++) {
            double w = weight[o * in + c];
            for (int64_t r = 0; lora && r < s[5]; r++)
                w += (double)lora->scale * ((float *)lora->b.data)[o * s[5] + r] *
                     ((float *)lora->a.data)[r * in + c];
            const int64_t n = c / d;
            sum += a[n] * (double)v[(key * Hkv + n / (H / Hkv)) * d + c % d] * w;
        }
        squares += sum * sum;
    }
    return sqrt(squares);
}

// Truncates t to bf16 in place; `stored` gets the same values as bf16.
static void round_bf16(struct tensor *stored, struct tensor *t)
{
    const int64_t n = tensor_count(t);
    uint16_t *half = malloc((size_t)n * sizeof *half);
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, (float *)t->data + i, 4);
        half[i] = (uint16_t)(bits >> 16);
        bits &= 0xffff0000u;
        memcpy((float *)t->data + i, &bits, 4);
    }
    *stored = *t;
    stored->dtype = DTYPE_BF16;
    stored->data = half;
}

static void check(const struct backend *b, const int64_t *s, bool bf16)
{
    const int64_t H = s[0], Hkv = s[1], d = s[2], D = s[3], P = s[4], rank = s[5];
    struct arena arena = { .backend = b };
    struct graph g = { .backend = b, .arena = &arena };
    struct grams grams = { 0 };
    struct tensor v = noise_tensor(3, P, Hkv, d, 1), w = noise_tensor(2, D, H * d, 0, 2);
    struct lora lora = { .a = noise_tensor(2, rank ? rank : 1, H * d, 0, 3),
                         .b = noise_tensor(2, D, rank ? rank : 1, 0, 4),
                         .scale = 0.5f };
    struct linear o = { .weight = w, .lora = rank ? &lora : NULL };
    if (bf16) round_bf16(&o.weight, &w);
    // Adds the keys in two parts; the second is removed and added again.
    struct tensor *head = graph_rows(&g, &v, 0, P / 2),
                  *tail = graph_rows(&g, &v, P / 2, P - P / 2);
    if (P > 1) assert_int_equal(grams_add(&grams, &g, &o, head, H), 0);
    for (int again = 0; again < 2; again++) {
        grams_trim(&grams, P / 2);
        assert_int_equal(grams_add(&grams, &g, &o, tail, H), 0);
    }
    assert_int_equal(grams.keys, P);
    double *a = doubles(H), *want = doubles(P);
    float *got = malloc((size_t)P * sizeof *got);
    for (int64_t i = 0; i < P; i++) {
        for (int64_t n = 0; n < H; n++) a[n] = (double)((i * 7 + n * 3) % 11) / 11;
        got[i] = (float)grams_contribution(&grams, i, a);
        want[i] = plain(s, w.data, o.lora, v.data, i, a);
    }
    close_check("contribution", got, want, P, 1e-5, 1e-4);
    if (bf16) free(o.weight.data);
    free(a);
    free(want);
    free(got);
    free(v.data);
    free(w.data);
    free(lora.a.data);
    free(lora.b.data);
    grams_release(&grams);
    arena_release(&arena);
}

static void equals_the_sum_over_heads(void **state)
{
    FOR_EACH_ISA(b)
    for (int s = 0; s < SHAPES; s++)
        for (int bf16 = 0; bf16 < 2; bf16++) check(b, shapes[s], bf16);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(equals_the_sum_over_heads) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
