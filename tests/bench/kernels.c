// tests/bench/kernels.c -- the kernels on the shapes of Llama-3.2-1B, against oneDNN's and
// OpenBLAS's sgemm on the same products (if installed), and a plain loop that only reads the same
// bytes. Prints Markdown.
//
// All sides take turns in one run, ROUNDS times; shown are the best times, which depend least on
// other load, and the median of our ratio to the faster library.
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "tests/bench/must.h"

enum { HIDDEN = 2048, HEADS = 32, KV_HEADS = 8, HEAD = 64, FFN = 8192, ROWS = 576, ROUNDS = 9 };

typedef int dnnl_function(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t,
                          const float *, int64_t, float, float *, int64_t);
typedef void blas_function(int, int, int, int, int, int, float, const float *, int, const float *,
                           int, float, float *, int);

static dnnl_function *find_dnnl(void)
{
    void *library = dlopen("libdnnl.so.3", RTLD_NOW | RTLD_LOCAL);
    if (!library) library = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
    return library ? (dnnl_function *)dlsym(library, "dnnl_sgemm") : NULL;
}

static blas_function *find_openblas(int threads)
{
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library) return NULL;
    void (*set)(int) = (void (*)(int))dlsym(library, "openblas_set_num_threads");
    if (set) set(threads);
    return (blas_function *)dlsym(library, "cblas_sgemm");
}

static void *room(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p) {
        fputs("no memory for the benchmark\n", stderr);
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

static struct tensor make(enum dtype dtype, int rank, int64_t a, int64_t b, int64_t c)
{
    struct tensor t = { .dtype = dtype, .rank = rank, .shape = { a, b, c } };
    t.data = room(tensor_bytes(&t));
    uint32_t state = 1;
    for (int64_t i = 0; i < tensor_count(&t) && dtype != DTYPE_I32; i++) {
        float f = (float)(int32_t)(state = state * 1664525 + 1013904223) * 0x1p-31f;
        uint32_t u;
        memcpy(&u, &f, sizeof u);
        if (dtype == DTYPE_F32)
            ((float *)t.data)[i] = f;
        else
            ((uint16_t *)t.data)[i] = (uint16_t)(u >> 16);
    }
    return t;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double best(const double *t)
{
    double b = t[0];
    for (int i = 1; i < ROUNDS; i++) b = t[i] < b ? t[i] : b;
    return b;
}

static double median(const double *t)
{
    double sorted[ROUNDS];
    memcpy(sorted, t, sizeof sorted);
    qsort(sorted, ROUNDS, sizeof *sorted, by_size);
    return sorted[ROUNDS / 2];
}

// --- products -----------------------------------------------------------------------------------

enum side { OURS, OURS_BF16, DNNL, OPENBLAS, SIDES };

struct libraries {
    dnnl_function *dnnl;
    blas_function *openblas;
};

// One linear layer, and the number of such layers in a decoder layer.
struct linear {
    const char *name;
    int64_t m, k;
    int count;
};

static const struct linear linears[] = {
    { "q, o", HIDDEN, HIDDEN, 2 },
    { "k, v", KV_HEADS *HEAD, HIDDEN, 2 },
    { "gate, up", FFN, HIDDEN, 2 },
    { "down", HIDDEN, FFN, 1 },
};
enum { LINEARS = sizeof linears / sizeof *linears };

// Times of one product with `rows` rows: time[side][round].
static void time_product(const struct backend *b, const struct libraries *l, int64_t rows,
                         const struct linear *linear, double time[SIDES][ROUNDS])
{
    int64_t m = linear->m, k = linear->k;
    struct tensor x = make(DTYPE_F32, 2, rows, k, 0), w = make(DTYPE_BF16, 2, m, k, 0);
    struct tensor y = make(DTYPE_F32, 2, rows, m, 0), wide = make(DTYPE_F32, 2, m, k, 0);
    b->widen(&wide, &w);
    for (int i = -1; i < ROUNDS; i++) // the first round only warms up
        for (int side = 0; side < SIDES; side++) {
            double start = omp_get_wtime();
            if (side == OURS)
                b->matmul(&y, &x, &w, NULL, MATMUL_F32);
            else if (side == OURS_BF16)
                b->matmul(&y, &x, &w, NULL, MATMUL_BF16);
            else if (side == DNNL && l->dnnl)
                l->dnnl('N', 'T', rows, m, k, 1, x.data, k, wide.data, k, 0, y.data, m);
            else if (side == OPENBLAS && l->openblas)
                l->openblas(101, 111, 112, (int)rows, (int)m, (int)k, 1, x.data, (int)k, wide.data,
                            (int)k, 0, y.data, (int)m);
            if (i >= 0) time[side][i] += linear->count * (omp_get_wtime() - start);
        }
    free(x.data);
    free(y.data);
    free(w.data);
    free(wide.data);
}

static void print_products(const char *name, double work, const struct libraries *l,
                           double time[SIDES][ROUNDS])
{
    double share[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        double other = l->dnnl ? time[DNNL][i] : 0;
        if (l->openblas && (!l->dnnl || time[OPENBLAS][i] < other)) other = time[OPENBLAS][i];
        share[i] = other / time[OURS][i];
    }
    printf("| %s |", name);
    for (int side = 0; side < SIDES; side++)
        if ((side == DNNL && !l->dnnl) || (side == OPENBLAS && !l->openblas))
            printf(" - |");
        else
            printf(" %.0f |", work / best(time[side]) / 1e9);
    if (l->dnnl || l->openblas)
        printf(" %.2f |\n", median(share));
    else
        printf(" - |\n");
}

// All linears of a layer; returns our seconds for them.
static double bench_products(const struct backend *b, const struct libraries *l, int64_t rows)
{
    double all[SIDES][ROUNDS] = { { 0 } }, work = 0;
    printf(
        "| %d rows, GFLOP/s | ours | ours, bf16 mode | oneDNN f32 | OpenBLAS f32 | ours / faster "
        "library |\n|---|---|---|---|---|---|\n",
        (int)rows);
    for (int i = 0; i < LINEARS; i++) {
        double time[SIDES][ROUNDS] = { { 0 } };
        const struct linear *linear = &linears[i];
        time_product(b, l, rows, linear, time);
        double flops = 2.0 * (double)(rows * linear->m * linear->k) * linear->count;
        print_products(linear->name, flops, l, time);
        work += flops;
        for (int side = 0; side < SIDES; side++)
            for (int r = 0; r < ROUNDS; r++) all[side][r] += time[side][r];
    }
    print_products("**layer**", work, l, all);
    printf("\n");
    return best(all[OURS]);
}

// --- one token ----------------------------------------------------------------------------------

static volatile uint64_t sink;

// The plain loop: each thread adds up its share, eight words at a time.
static void read_bytes(const void *memory, size_t bytes)
{
    const uint64_t *word = memory;
    int64_t n = (int64_t)(bytes / (8 * sizeof *word));
    uint64_t sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        const uint64_t *w = word + 8 * i;
        sum += ((w[0] + w[1]) + (w[2] + w[3])) + ((w[4] + w[5]) + (w[6] + w[7]));
    }
    sink = sum;
}

// A product with one row over weights far larger than the caches: the head of the model.
static void bench_one_row(const struct backend *b, int64_t k, int64_t m)
{
    struct tensor x = make(DTYPE_F32, 2, 1, k, 0), y = make(DTYPE_F32, 2, 1, m, 0);
    struct tensor w = make(DTYPE_BF16, 2, m, k, 0);
    double ours[ROUNDS], plain[ROUNDS], share[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        double start = omp_get_wtime();
        b->matmul(&y, &x, &w, NULL, MATMUL_F32);
        ours[i] = omp_get_wtime() - start;
        start = omp_get_wtime();
        read_bytes(w.data, tensor_bytes(&w));
        plain[i] = omp_get_wtime() - start;
        share[i] = plain[i] / ours[i];
    }
    double gigabytes = (double)tensor_bytes(&w) / 1e9;
    printf("| [%d,%d] bf16 | %.1f | %.1f | %.2f |\n", (int)m, (int)k, gigabytes / best(ours),
           gigabytes / best(plain), median(share));
    free(x.data);
    free(y.data);
    free(w.data);
}

// --- the rest of a layer ------------------------------------------------------------------------

enum other { ATTENTION, NORMS, ROPE, SWIGLU, ADDS, OTHERS };

static void bench_others(const struct backend *b, int64_t rows, double linear_time)
{
    static const char *const names[] = { "attention, causal", "2 norms", "rope on q and k",
                                         "swiglu", "2 sums" };
    struct tensor h = make(DTYPE_F32, 2, rows, HIDDEN, 0), gain = make(DTYPE_F32, 1, HIDDEN, 0, 0);
    struct tensor q = make(DTYPE_F32, 3, rows, HEADS, HEAD),
                  y = make(DTYPE_F32, 3, rows, HEADS, HEAD);
    struct tensor k = make(DTYPE_F32, 3, rows, KV_HEADS, HEAD);
    struct tensor v = make(DTYPE_F32, 3, rows, KV_HEADS, HEAD);
    struct tensor angle = make(DTYPE_F32, 2, rows, HEAD / 2, 0);
    struct tensor last = make(DTYPE_I32, 1, rows, 0, 0);
    struct tensor gate = make(DTYPE_F32, 2, rows, FFN, 0), up = make(DTYPE_F32, 2, rows, FFN, 0);
    struct tensor out = make(DTYPE_F32, 2, rows, FFN, 0),
                  normed = make(DTYPE_F32, 2, rows, HIDDEN, 0);
    for (int64_t i = 0; i < rows; i++) ((int32_t *)last.data)[i] = (int32_t)i + 1;
    double time[OTHERS][ROUNDS];
    for (int i = 0; i < ROUNDS; i++)
        for (int other = 0; other < OTHERS; other++) {
            double start = omp_get_wtime();
            for (int twice = 0; twice < 2; twice++)
                if (other == ATTENTION && !twice)
                    b->attention(&y, &q, &k, &v, NULL, &last, 0.125f, NULL, MATMUL_F32);
                else if (other == NORMS)
                    b->rmsnorm(&normed, &h, &gain, 1e-5f);
                else if (other == ROPE)
                    b->rope(twice ? &k : &q, &angle, &angle);
                else if (other == SWIGLU && !twice)
                    b->swiglu(&out, &gate, &up);
                else if (other == ADDS)
                    b->add(&normed, &normed, &h);
            time[other][i] = omp_get_wtime() - start;
        }
    printf("| %d rows | ms | of the layer's products |\n|---|---|---|\n", (int)rows);
    for (int other = 0; other < OTHERS; other++)
        printf("| %s | %.2f | %.1f%% |\n", names[other], best(time[other]) * 1e3,
               best(time[other]) / linear_time * 100);
    struct tensor *all[] = { &h, &gain, &q, &y, &k, &v, &angle, &last, &gate, &up, &out, &normed };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->data);
}

int main(int argc, char **argv)
{
    struct err err;
    const struct backend *b = argc > 1 ? device_find_isa(argv[1], &err) : backend_cpu();
    int threads = argc > 2 ? atoi(argv[2]) : 2;
    must(b ? 0 : -1, &err);
    b->set_threads(threads);
    struct libraries l = { find_dnnl(), find_openblas(threads) };
    printf("## Kernels: %s, bf16 weights, shapes of Llama-3.2-1B\n\n", b->describe());
    bench_products(b, &l, 32);
    double linear_time = bench_products(b, &l, ROWS);
    printf("| one row, GB/s | ours | plain reading loop | ours / loop |\n|---|---|---|---|\n");
    bench_one_row(b, HIDDEN, 128256);
    bench_one_row(b, FFN, 32768);
    printf("\n");
    bench_others(b, ROWS, linear_time);
    return 0;
}
