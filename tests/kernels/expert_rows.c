// tests/kernels/expert_rows.c -- kernels/expert_rows.c against sums in double, and bit for bit
// against the ops of one expert after another, for one to three threads.
#include "kernels/expert_rows.h"

#include "tests/kernels/close.h"

enum { EXPERTS = 6 };

// N rows, each with K of the experts; width D, inner width m.
struct mixture {
    int64_t N, K, D, m;
    struct tensor x, y, weights;
    struct tensor w[3 * EXPERTS]; // gate, up, down of each expert, bf16
    struct tensor wide[3 * EXPERTS];
    struct fused_gated expert[EXPERTS];
    int32_t *rows, *slots, *entries, first[EXPERTS + 1];
    struct expert_piece piece[64];
    int64_t pieces;
    bool gelu;
};

// Row i chooses K consecutive experts from a varying start; the first experts get most rows.
static int32_t chosen(const struct mixture *x, int64_t i, int64_t k)
{
    return (int32_t)((i * i % 5 / 2 + k) % EXPERTS);
}

static void mixture_route(struct mixture *x)
{
    const size_t bytes = (size_t)(x->N * x->K) * sizeof(int32_t);
    int32_t *seen = calloc((size_t)x->N, sizeof *seen), at = 0;
    x->rows = malloc(bytes);
    x->slots = malloc(bytes);
    x->entries = malloc(bytes);
    x->pieces = 0;
    for (int32_t e = 0; e < EXPERTS; e++) {
        x->first[e] = at;
        for (int64_t i = 0; i < x->N * x->K; i++) {
            const int32_t row = (int32_t)(i / x->K);
            if (chosen(x, row, i % x->K) != e) continue;
            x->entries[row * x->K + seen[row]++] = at;
            x->rows[at] = row;
            x->slots[at++] = (int32_t)i;
        }
        for (int32_t from = x->first[e]; from < at; from += EXPERT_ROWS)
            x->piece[x->pieces++] =
                (struct expert_piece){ e, from, at - from < EXPERT_ROWS ? at - from : EXPERT_ROWS };
    }
    x->first[EXPERTS] = at;
    free(seen);
}

static struct mixture *mixture_new(int64_t N, int64_t K, int64_t D, int64_t m)
{
    struct mixture *x = malloc(sizeof *x);
    *x = (struct mixture){ .N = N, .K = K, .D = D, .m = m };
    x->x = noise_tensor(2, N, D, 0, 1);
    x->y = noise_tensor(2, N, D, 0, 2);
    x->weights = noise_tensor(2, N * K, 1, 0, 3);
    for (int i = 0; i < 3 * EXPERTS; i++) {
        const bool down = i % 3 == 2;
        x->wide[i] = noise_tensor(2, down ? D : m, down ? m : D, 0, 4 + (uint32_t)i);
        x->w[i] = bf16_twin(&x->wide[i]);
    }
    for (int e = 0; e < EXPERTS; e++)
        x->expert[e] = (struct fused_gated){ &x->w[3 * e], &x->w[3 * e + 1], &x->w[3 * e + 2] };
    mixture_route(x);
    return x;
}

static void mixture_free(struct mixture *x)
{
    free(x->x.data);
    free(x->y.data);
    free(x->weights.data);
    free(x->rows);
    free(x->slots);
    free(x->entries);
    for (int i = 0; i < 3 * EXPERTS; i++) {
        free(x->w[i].data);
        free(x->wide[i].data);
    }
    free(x);
}

static struct tensor copy_of(const struct tensor *t)
{
    struct tensor copy = tensor_of(t->dtype, t->rank, t->shape[0], t->shape[1], t->shape[2]);
    memcpy(copy.data, t->data, tensor_bytes(t));
    return copy;
}

static struct tensor at_once(const struct backend *b, struct mixture *x, int mode, int threads)
{
    struct tensor y = copy_of(&x->y);
    // The rows of `each` may or may not begin at a cache line.
    const size_t size = (size_t)(x->N * x->K * x->D) * sizeof(float);
    float *block = aligned_alloc(64, (size + 127) / 64 * 64);
    float *each = block + (threads == 2 ? 1 : 0);
    void *narrow = malloc((size_t)(x->N * x->D) * sizeof(uint16_t));
    float *scratch = malloc((size_t)(threads * EXPERT_ROWS * (x->D + 2 * x->m)) * sizeof *scratch);
    b->set_threads(threads);
    assert_int_equal(b->expert_rows(&(struct expert_rows){ .y = &y,
                                                           .x = &x->x,
                                                           .weights = &x->weights,
                                                           .expert = x->expert,
                                                           .rows = x->rows,
                                                           .slots = x->slots,
                                                           .entries = x->entries,
                                                           .piece = x->piece,
                                                           .pieces = x->pieces,
                                                           .each = each,
                                                           .narrow = narrow,
                                                           .scratch = scratch,
                                                           .gelu = x->gelu,
                                                           .mode = mode }),
                     0);
    assert_int_equal(b->threads(), threads); // the call restores the number of threads
    b->set_threads(0);
    free(block);
    free(narrow);
    free(scratch);
    return y;
}

static struct tensor indices(int32_t *from, int64_t n)
{
    return (struct tensor){ .data = from, .dtype = DTYPE_I32, .rank = 1, .shape = { n } };
}

static void add_expert(const struct backend *b, struct mixture *x, struct tensor *y, int e,
                       enum matmul_mode mode)
{
    const int64_t n = x->first[e + 1] - x->first[e];
    struct tensor rows = indices(x->rows + x->first[e], n);
    struct tensor slots = indices(x->slots + x->first[e], n);
    struct tensor some = tensor_of(DTYPE_F32, 2, n, x->D, 0);
    struct tensor weight = tensor_of(DTYPE_F32, 2, n, 1, 0);
    struct tensor gate = tensor_of(DTYPE_F32, 2, n, x->m, 0), up = copy_of(&gate);
    assert_int_equal(b->gather_rows(&some, &x->x, &rows), 0);
    assert_int_equal(b->gather_rows(&weight, &x->weights, &slots), 0);
    assert_int_equal(b->matmul(&gate, &some, x->expert[e].gate, NULL, mode), 0);
    assert_int_equal(b->matmul(&up, &some, x->expert[e].up, NULL, mode), 0);
    assert_int_equal((x->gelu ? b->geglu : b->swiglu)(&gate, &gate, &up), 0);
    assert_int_equal(b->matmul(&some, &gate, x->expert[e].down, NULL, mode), 0);
    assert_int_equal(b->add_weighted_rows(y, &some, &rows, &weight), 0);
    free(some.data);
    free(weight.data);
    free(gate.data);
    free(up.data);
}

// Shapes whose products use different kernels: few rows, many rows, several pieces of an expert,
// whole tiles, and all of these at once.
static const int64_t shapes[][4] = {
    { 1, 2, 16, 8 },      { 9, 1, 40, 24 },    { 33, 2, 64, 48 },
    { 100, 3, 128, 160 }, { 800, 4, 32, 128 }, { 700, 3, 160, 192 },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void test_same_bits(void **state)
{
    (void)state;
    for (int s = 0; s <= SHAPES; s++) { // the last shape twice: the second time with gelu
        const int64_t *n = shapes[s < SHAPES ? s : SHAPES - 1];
        struct mixture *x = mixture_new(n[0], n[1], n[2], n[3]);
        x->gelu = s == SHAPES;
        FOR_EACH_ISA(b)
        for (int mode = MATMUL_F32; mode <= MATMUL_BF16; mode++) {
            struct tensor want = copy_of(&x->y);
            for (int e = 0; e < EXPERTS; e++)
                if (x->first[e + 1] > x->first[e])
                    add_expert(b, x, &want, e, (enum matmul_mode)mode);
            for (int threads = 1; threads <= 3; threads++) {
                struct tensor got = at_once(b, x, mode, threads);
                if (memcmp(got.data, want.data, tensor_bytes(&want)) != 0)
                    fail_msg("%s, shape %d, mode %d, %d threads: bits differ", b->describe(), s,
                             mode, threads);
                free(got.data);
            }
            free(want.data);
        }
        mixture_free(x);
    }
}

static double number(const struct tensor *t, int64_t row, int64_t column)
{
    return ((const float *)t->data)[row * tensor_row(t) + column];
}

// Adds the output of expert e for row i, times `by`, to sum[D].
static void plain_expert(const struct mixture *x, int64_t i, int e, double by, double *sum)
{
    double *inner = doubles(x->m);
    for (int64_t j = 0; j < x->m; j++) {
        double gate = 0, up = 0;
        for (int64_t k = 0; k < x->D; k++) {
            gate += number(&x->x, i, k) * number(&x->wide[3 * e], j, k);
            up += number(&x->x, i, k) * number(&x->wide[3 * e + 1], j, k);
        }
        const double cubic = sqrt(2 / M_PI) * (gate + 0.044715 * gate * gate * gate);
        inner[j] = (x->gelu ? gate * (1 + tanh(cubic)) / 2 : gate / (1 + exp(-gate))) * up;
    }
    for (int64_t k = 0; k < x->D; k++)
        for (int64_t j = 0; j < x->m; j++)
            sum[k] += by * inner[j] * number(&x->wide[3 * e + 2], k, j);
    free(inner);
}

static void check_sums(bool gelu)
{
    struct mixture *x = mixture_new(33, 2, 64, 48);
    double *want = doubles(x->N * x->D);
    x->gelu = gelu;
    for (int64_t i = 0; i < x->N; i++) {
        for (int64_t k = 0; k < x->D; k++) want[i * x->D + k] = number(&x->y, i, k);
        for (int64_t k = 0; k < x->K; k++)
            plain_expert(x, i, chosen(x, i, k), number(&x->weights, i * x->K + k, 0),
                         want + i * x->D);
    }
    FOR_EACH_ISA(b)
    {
        struct tensor got = at_once(b, x, MATMUL_F32, 2);
        close_check(b->describe(), got.data, want, x->N * x->D, 1e-3, 1e-5);
        free(got.data);
    }
    free(want);
    mixture_free(x);
}

static void test_sums(void **state)
{
    (void)state;
    check_sums(false);
    check_sums(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
