// tests/bench/limits.h -- the machine's limits, measured in the same run: sgemm of oneDNN and
// OpenBLAS (when their libraries are installed), and a plain loop that only reads.
#ifndef TESTS_BENCH_LIMITS_H
#define TESTS_BENCH_LIMITS_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

typedef int dnnl_function(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t,
                          const float *, int64_t, float, float *, int64_t);
typedef void blas_function(int, int, int, int, int, int, float, const float *, int, const float *,
                           int, float, float *, int);

struct libraries {
    dnnl_function *dnnl;
    blas_function *openblas;
};

// Missing libraries stay NULL.
static inline struct libraries libraries_open(int threads)
{
    struct libraries l = { 0 };
    void *dnnl = dlopen("libdnnl.so.3", RTLD_NOW | RTLD_LOCAL);
    if (!dnnl) dnnl = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (dnnl) l.dnnl = (dnnl_function *)dlsym(dnnl, "dnnl_sgemm");
    void *openblas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!openblas) return l;
    void (*set)(int) = (void (*)(int))dlsym(openblas, "openblas_set_num_threads");
    if (set) set(threads);
    l.openblas = (blas_function *)dlsym(openblas, "cblas_sgemm");
    return l;
}

// y[n,m] = x[n,k] w[m,k]^T by either library.
static inline void libraries_dnnl(const struct libraries *l, float *y, const float *x,
                                  const float *w, int64_t n, int64_t m, int64_t k)
{
    l->dnnl('N', 'T', n, m, k, 1, x, k, w, k, 0, y, m);
}

static inline void libraries_openblas(const struct libraries *l, float *y, const float *x,
                                      const float *w, int64_t n, int64_t m, int64_t k)
{
    l->openblas(101, 111, 112, (int)n, (int)m, (int)k, 1, x, (int)k, w, (int)k, 0, y, (int)m);
}

// The plain loop: each thread adds up its share, eight words at a time.
static inline uint64_t read_bytes(const void *memory, size_t bytes)
{
    const uint64_t *word = memory;
    int64_t n = (int64_t)(bytes / (8 * sizeof *word));
    uint64_t sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        const uint64_t *w = word + 8 * i;
        sum += ((w[0] + w[1]) + (w[2] + w[3])) + ((w[4] + w[5]) + (w[6] + w[7]));
    }
    return sum;
}

static inline int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Median of n times, which it sorts.
static inline double median_of(double *t, int n)
{
    qsort(t, (size_t)n, sizeof *t, by_size);
    return t[n / 2];
}

#endif
