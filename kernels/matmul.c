// kernels/matmul.c -- y[N,M] = x[N,K] w[M,K]^T + bias[M].
//
// Few rows: dot products that read the weights as they are stored; the memory bus is the limit.
// Many rows: a block of weight rows is widened to f32 by all threads, then oneDNN multiplies.
#include <dnnl.h>

#include "kernels/vec.h"

enum {
    FEW_ROWS = 4,     // up to here the weights are read directly
    BLOCK_ROWS = 1024 // weight rows widened at a time
};

// y[n,m] for one weight row and `rows` rows of x.
VEC_INLINE void dots(float *y, const float *x, const char *w, int64_t k, int64_t ld_y, int64_t rows,
                     float bias, enum dtype dtype)
{
    for (int64_t n = 0; n < rows; n++) {
        const float *a = x + n * k;
        vf s0 = { 0 }, s1 = { 0 };
        int64_t i = 0;
        for (; i + 2 * VEC <= k; i += 2 * VEC) {
            s0 += vf_load(a + i) * vf_load_as(w, i, dtype);
            s1 += vf_load(a + i + VEC) * vf_load_as(w, i + VEC, dtype);
        }
        for (; i + VEC <= k; i += VEC) s0 += vf_load(a + i) * vf_load_as(w, i, dtype);
        if (i < k) s1 += vf_load_part(a + i, k - i) * vf_load_part_as(w, i, k - i, dtype);
        y[n * ld_y] = vf_sum(s0 + s1) + bias;
    }
}

static void few_rows(float *y, const float *x, const char *w, const float *bias, int64_t rows,
                     int64_t k, int64_t m, enum dtype dtype)
{
#pragma omp parallel for schedule(static) if (vec_worth_threads(k * m))
    for (int64_t i = 0; i < m; i++) {
        const char *row = w + (size_t)(i * k) * dtype_size(dtype);
        float b = bias ? bias[i] : 0;
        if (dtype == DTYPE_BF16)
            dots(y + i, x, row, k, m, rows, b, DTYPE_BF16);
        else if (dtype == DTYPE_F16)
            dots(y + i, x, row, k, m, rows, b, DTYPE_F16);
        else
            dots(y + i, x, row, k, m, rows, b, DTYPE_F32);
    }
}

static int many_rows(float *y, const float *x, const char *w, const float *bias, int64_t rows,
                     int64_t k, int64_t m, enum dtype dtype)
{
    float *wide = NULL;
    if (dtype != DTYPE_F32) {
        int64_t most = m < BLOCK_ROWS ? m : BLOCK_ROWS;
        if (!(wide = cpu_scratch((size_t)(most * k) * sizeof(float)))) return -1;
    }
    for (int64_t n = 0; bias && n < rows; n++) memcpy(y + n * m, bias, (size_t)m * sizeof *y);
    for (int64_t from = 0; from < m; from += BLOCK_ROWS) {
        int64_t count = m - from < BLOCK_ROWS ? m - from : BLOCK_ROWS;
        const float *block = wide ? wide : (const float *)w + from * k;
        if (wide) {
#pragma omp parallel for schedule(static) if (vec_worth_threads(count * k))
            for (int64_t i = 0; i < count; i++)
                vec_widen(wide + i * k, w, (from + i) * k, k, dtype);
        }
        if (dnnl_sgemm('N', 'T', rows, count, k, 1, x, k, block, k, bias ? 1 : 0, y + from, m) !=
            dnnl_success)
            return cpu_fail("oneDNN could not multiply %lld x %lld by %lld", (long long)rows,
                            (long long)k, (long long)m);
    }
    return 0;
}

int KERNEL(matmul)(struct tensor *y, const struct tensor *x, const struct tensor *w,
                   const struct tensor *bias, enum matmul_mode mode)
{
    int64_t m = w->shape[0], k = tensor_row(w), rows = m ? tensor_count(y) / m : 0;
    if (!rows || !m) return 0;
    const float *b = bias ? bias->data : NULL;
    if (rows <= FEW_ROWS) {
        few_rows(y->data, x->data, w->data, b, rows, k, m, w->dtype);
        return 0;
    }
    return many_rows(y->data, x->data, w->data, b, rows, k, m, w->dtype);
}
