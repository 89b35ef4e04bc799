// tests/cuda/blocks.c -- quantised weights on the GPU: kernels/blocks.cu unpacks them to the same
// bits as kernels/blocks.c, and products equal those of the unpacked weights.
#include "kernels/blocks.h"
#include "core/base/dtype.h"
#include "tests/cuda/pair.h"

struct weights {
    struct tensor cpu, gpu;
    float *unpacked;
};

static struct weights weights_new(enum dtype dtype, int64_t rows, int64_t width)
{
    const struct pair both = pair_weights(dtype, rows, width, 7 + (uint32_t)dtype);
    struct weights w = { .cpu = both.on[0], .gpu = both.on[1] };
    w.unpacked = malloc((size_t)(rows * width) * sizeof *w.unpacked);
    blocks_unpack(w.unpacked, w.cpu.data, dtype, rows * width);
    return w;
}

static void same_bits(const char *what, enum dtype dtype, const struct tensor *gpu,
                      const float *want)
{
    const int64_t n = tensor_count(gpu);
    float *got = malloc((size_t)n * sizeof *got);
    devices[1]->download(got, gpu->data, (size_t)n * sizeof *got);
    for (int64_t i = 0; i < n; i++)
        if (memcmp(got + i, want + i, sizeof *got))
            fail_msg("%s of %s: number %lld is %.9g, should be %.9g", what, dtype_form(dtype).name,
                     (long long)i, (double)got[i], (double)want[i]);
    free(got);
}

static void must(int status)
{
    if (status) fail_msg("%s", devices[1]->failure());
}

// --- unpacking -----------------------------------------------------------------------------------

enum { ROWS = 5, WIDTH = 768 };

static void check_unpacking(enum dtype dtype)
{
    struct weights w = weights_new(dtype, ROWS, WIDTH);
    struct tensor wide = pair_result(2, ROWS, WIDTH, 0).on[1];
    must(devices[1]->widen(&wide, &w.gpu));
    same_bits("widen", dtype, &wide, w.unpacked);

    const struct pair ids = pair_integers(7, 3, 1, ROWS);
    struct tensor rows = pair_result(2, 7, WIDTH, 0).on[1];
    must(devices[1]->embedding(&rows, &w.gpu, &ids.on[1]));
    float want[7 * WIDTH];
    for (int64_t i = 0; i < 7; i++)
        memcpy(want + i * WIDTH, w.unpacked + ((const int32_t *)ids.on[0].data)[i] * WIDTH,
               WIDTH * sizeof *want);
    same_bits("embedding", dtype, &rows, want);
    free(w.unpacked);
    pairs_release();
}

static void unpacking_equals_the_cpu(void **state)
{
    (void)state;
    for (int dtype = DTYPE_Q8_0; dtype < DTYPE_COUNT; dtype++) check_unpacking((enum dtype)dtype);
}

// --- products ------------------------------------------------------------------------------------

// y[n,m] = x[n,k] w[m,k]^T, in f64. bf16: rounds the factors first.
static void multiply(double *y, const struct tensor *x, const float *w, int64_t m, int64_t k,
                     bool bf16)
{
    const int64_t n = x->shape[0];
    float *a = malloc((size_t)(n * k) * sizeof *a), *b = malloc((size_t)(m * k) * sizeof *b);
    uint16_t *narrow = malloc((size_t)((n + m) * k) * sizeof *narrow);
    memcpy(a, x->data, (size_t)(n * k) * sizeof *a);
    memcpy(b, w, (size_t)(m * k) * sizeof *b);
    if (bf16) {
        floats_to(narrow, DTYPE_BF16, a, (size_t)(n * k));
        floats_from(a, narrow, DTYPE_BF16, (size_t)(n * k));
        floats_to(narrow, DTYPE_BF16, b, (size_t)(m * k));
        floats_from(b, narrow, DTYPE_BF16, (size_t)(m * k));
    }
    for (int64_t r = 0; r < n; r++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < k; j++)
                y[r * m + i] += (double)a[r * k + j] * (double)b[i * k + j];
    free(a);
    free(b);
    free(narrow);
}

static void check_product(enum dtype dtype, int64_t n, enum matmul_mode mode)
{
    const int64_t m = 11, k = WIDTH;
    struct weights w = weights_new(dtype, m, k);
    const struct pair x = pair_noise(2, n, k, 0, 3), bias = pair_noise(1, m, 0, 0, 4);
    struct pair y = pair_result(2, n, m, 0);
    must(devices[1]->matmul(&y.on[1], &x.on[1], &w.gpu, &bias.on[1], mode));
    double *want = doubles(n * m);
    multiply(want, &x.on[0], w.unpacked, m, k, n > 8 && mode == MATMUL_BF16);
    float *to = y.on[0].data, most = 0;
    for (int64_t i = 0; i < n * m; i++) {
        to[i] = (float)(want[i] + (double)((const float *)bias.on[0].data)[i % m]);
        if (fabsf(to[i]) > most) most = fabsf(to[i]);
    }
    pair_compare(dtype_form(dtype).name, &y, 2e-6 * (double)most, 1e-5);
    free(want);
    free(w.unpacked);
    pairs_release();
}

static void products_equal_those_of_unpacked_weights(void **state)
{
    (void)state;
    for (int dtype = DTYPE_Q8_0; dtype < DTYPE_COUNT; dtype++)
        for (int64_t n = 1; n <= 65; n = n < 9 ? n + 1 : n + 28) {
            check_product((enum dtype)dtype, n, MATMUL_F32);
            check_product((enum dtype)dtype, n, MATMUL_BF16);
        }
}

// Each of a few rows has the bits that it has in a product of its own.
static void a_row_has_the_same_bits_alone(void **state)
{
    (void)state;
    for (int dtype = DTYPE_Q8_0; dtype < DTYPE_COUNT; dtype++)
        for (int64_t n = 2; n <= 8; n++) {
            struct weights w = weights_new((enum dtype)dtype, 9, WIDTH);
            struct pair x = pair_noise(2, n, WIDTH, 0, 3), y = pair_result(2, n, 9, 0);
            struct pair alone = pair_result(2, n, 9, 0);
            must(devices[1]->matmul(&y.on[1], &x.on[1], &w.gpu, NULL, MATMUL_F32));
            for (int64_t r = 0; r < n; r++) {
                struct tensor from = x.on[1], to = alone.on[1];
                from.shape[0] = to.shape[0] = 1;
                from.data = (float *)x.on[1].data + r * WIDTH;
                to.data = (float *)alone.on[1].data + r * 9;
                must(devices[1]->matmul(&to, &from, &w.gpu, NULL, MATMUL_F32));
            }
            pair_same(dtype_form((enum dtype)dtype).name, &y.on[1], &alone.on[1]);
            free(w.unpacked);
            pairs_release();
        }
}

// dx[N,K] += dy[N,M] w[M,K].
static void check_back(enum dtype dtype, int64_t n, bool add)
{
    const int64_t m = 70, k = 512;
    struct weights w = weights_new(dtype, m, k);
    const struct pair dy = pair_noise(2, n, m, 0, 3);
    struct pair dx = pair_noise(2, n, k, 0, 5);
    must(devices[1]->matmul_dx(&dx.on[1], &dy.on[1], &w.gpu, add, MATMUL_F32));
    float *to = dx.on[0].data;
    const float *from = dy.on[0].data;
    double most = 0;
    for (int64_t r = 0; r < n; r++)
        for (int64_t j = 0; j < k; j++) {
            double sum = add ? (double)to[r * k + j] : 0;
            for (int64_t i = 0; i < m; i++)
                sum += (double)from[r * m + i] * (double)w.unpacked[i * k + j];
            to[r * k + j] = (float)sum;
            most = fmax(most, fabs(sum));
        }
    pair_compare(dtype_form(dtype).name, &dx, 2e-6 * most, 1e-5);
    free(w.unpacked);
    pairs_release();
}

static void gradients_pass_through(void **state)
{
    (void)state;
    for (int dtype = DTYPE_Q8_0; dtype < DTYPE_COUNT; dtype++) {
        check_back((enum dtype)dtype, 1, false);
        check_back((enum dtype)dtype, 13, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unpacking_equals_the_cpu),
        cmocka_unit_test(products_equal_those_of_unpacked_weights),
        cmocka_unit_test(a_row_has_the_same_bits_alone),
        cmocka_unit_test(gradients_pass_through),
    };
    return cmocka_run_group_tests(tests, devices_open, NULL);
}
