// kernels/matmul_few.c -- y[N,M] = x[N,K] w[M,K]^T + bias[M] of few rows: dot products that read
// the weights as they are stored. The memory bus is the limit, so what matters is to keep it busy:
//
//   each thread takes one stretch of the weight rows and cuts it into streams, each contiguous
//   for every i: row i of all streams is multiplied with all rows of x at once
//
// The streams share what they load of x. A row of x is 32 KB at K = 8192, as large as a first-level
// cache through which the weights pass too: read anew for every weight row, it comes from the
// second level, and those loads take the places in which loads from memory would wait (Zen 4: half
// of the bandwidth lost). The streams are contiguous because the hardware's prefetchers follow
// addresses; rows dealt out in turn cost half of the bandwidth as well.
//
// A vector of bf16 weights holds pairs, of which the even numbers are shifted and the odd ones
// masked: cheaper than widening them in order. x is put into that order once.
#include "kernels/matmul_few.h"

#include "kernels/tile.h"

enum {
    STEP = 2 * VEC, // numbers along K taken at a time
    AHEAD = 2048    // bytes of a stream asked for in advance, into the second-level cache
};

// As many streams as the registers have room for: 2 sums for each number of y, and 2 vectors of
// each stream.
#define STREAMS(rows) (VEC == 16 ? ((rows) <= 2 ? 4 : (rows) <= 6 ? 2 : 1) : (rows) == 1 ? 4 : 1)

// The weights of one step as two vectors, in the order of ordered_x.
VEC_INLINE void load_step(const char *w, int64_t k, vf *a, vf *b, const enum dtype dtype)
{
    if (dtype == DTYPE_BF16) {
        vec_split_bf16(vf_load(w + 2 * k), a, b);
    } else {
        *a = vf_load_as(w, k, dtype);
        *b = vf_load_as(w, k + VEC, dtype);
    }
}

// Weight row i of each stream (`apart` rows from one to the next) with each row of x. Two sums for
// each number of y; their order depends on K alone.
VEC_INLINE void dots(const struct few_product *p, const float *x, int64_t i, int64_t apart,
                     const int rows, const int streams, const enum dtype dtype)
{
    const int64_t n = p->k, size = (int64_t)dtype_size(dtype);
    const char *w = p->w + i * n * size;
    const int64_t stream_bytes = apart * n * size;
    vf s[FEW_ROWS][4][2];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int t = 0; t < streams; t++) s[r][t][0] = s[r][t][1] = (vf){ 0 };
    int64_t k = 0;
    for (; k + STEP <= n; k += STEP) {
        vf a[4], b[4];
#pragma GCC unroll 4
        for (int t = 0; t < streams; t++) {
            const char *from = w + t * stream_bytes;
            // (Asking for what lies past the end does no harm.)
            for (int64_t byte = 0; byte < STEP * size; byte += 64)
                __builtin_prefetch(from + k * size + byte + AHEAD, 0, 2);
            load_step(from, k, &a[t], &b[t], dtype);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            const vf left = vf_load(x + r * n + k), right = vf_load(x + r * n + k + VEC);
#pragma GCC unroll 4
            for (int t = 0; t < streams; t++) {
                s[r][t][0] += left * a[t];
                s[r][t][1] += right * b[t];
            }
        }
    }
    for (; k < n; k += VEC) {
        const int64_t some = n - k < VEC ? n - k : VEC;
        for (int t = 0; t < streams; t++) {
            const vf a = vf_load_part_n_as(w + t * stream_bytes, k, some, dtype);
            for (int r = 0; r < rows; r++) s[r][t][0] += vf_load_part_n(x + r * n + k, some) * a;
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int t = 0; t < streams; t++)
            p->y[r * p->m + i + t * apart] =
                vf_sum(s[r][t][0] + s[r][t][1]) + (p->bias ? p->bias[i + t * apart] : 0);
}

// Columns from..to of y.
VEC_INLINE void stretch(const struct few_product *p, const float *x, int64_t from, int64_t to,
                        const int rows, const enum dtype dtype)
{
    const int64_t apart = (to - from) / STREAMS(rows);
    for (int64_t i = from; i < from + apart; i++) dots(p, x, i, apart, rows, STREAMS(rows), dtype);
    for (int64_t i = from + apart * STREAMS(rows); i < to; i++) dots(p, x, i, 0, rows, 1, dtype);
}

VEC_INLINE void stretch_of_rows(const struct few_product *p, const float *x, int64_t from,
                                int64_t to, const enum dtype dtype)
{
    switch (p->rows) {
    case 1: stretch(p, x, from, to, 1, dtype); break;
    case 2: stretch(p, x, from, to, 2, dtype); break;
    case 3: stretch(p, x, from, to, 3, dtype); break;
    case 4: stretch(p, x, from, to, 4, dtype); break;
#if VEC_BYTES == 64
    case 5: stretch(p, x, from, to, 5, dtype); break;
    case 6: stretch(p, x, from, to, 6, dtype); break;
    case 7: stretch(p, x, from, to, 7, dtype); break;
    case 8: stretch(p, x, from, to, 8, dtype); break;
#endif
    default: break;
    }
}

// x with the even numbers of each step in front of the odd ones; what is left over stays in order.
static const float *ordered_x(const struct few_product *p)
{
    float *to = cpu_scratch((size_t)(p->rows * p->k) * sizeof *to);
    if (!to) return NULL;
    for (int64_t r = 0; r < p->rows; r++) {
        const float *x = p->x + r * p->k;
        float *y = to + r * p->k;
        int64_t k = 0;
        for (; k + STEP <= p->k; k += STEP)
            for (int64_t i = 0; i < VEC; i++) {
                y[k + i] = x[k + 2 * i];
                y[k + VEC + i] = x[k + 2 * i + 1];
            }
        for (; k < p->k; k++) y[k] = x[k];
    }
    return to;
}

int KERNEL(matmul_few)(const struct few_product *p)
{
    const float *x = p->dtype == DTYPE_BF16 ? ordered_x(p) : p->x;
    if (!x) return -1;
#pragma omp parallel if (vec_worth_threads(p->k * p->m))
    {
        const int64_t threads = omp_get_num_threads(), me = omp_get_thread_num();
        const int64_t from = p->m * me / threads, to = p->m * (me + 1) / threads;
        if (p->dtype == DTYPE_BF16)
            stretch_of_rows(p, x, from, to, DTYPE_BF16);
        else if (p->dtype == DTYPE_F16)
            stretch_of_rows(p, x, from, to, DTYPE_F16);
        else
            stretch_of_rows(p, x, from, to, DTYPE_F32);
    }
    return 0;
}
