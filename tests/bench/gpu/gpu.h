// tests/bench/gpu/gpu.h -- shared by the GPU benchmarks: tensors of noise, times, and limits
// measured in the same run: a copy on the device, and cuBLASLt alone.
//
//   gpu_open();
//   struct tensor w = gpu_tensor(DTYPE_BF16, 2, m, k, 0);
//   const double copy = gpu_copy_rate();              // bytes per second, read and written
#ifndef TESTS_BENCH_GPU_GPU_H
#define TESTS_BENCH_GPU_GPU_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/engine/device.h"
#include "kernels/backend.h"
#include "kernels/cuda_library.h"

// Weights of a repeated product take more bytes than any cache holds.
enum { GPU_ROUNDS = 20, GPU_WARM = 3, GPU_BEYOND_CACHES = 512 << 20 };

static const struct backend *gpu;
static const struct cuda_library *gpu_library;

static inline void gpu_must(int status)
{
    if (status == 0) return;
    fprintf(stderr, "%s\n", gpu->failure());
    exit(1);
}

static inline void gpu_open(void)
{
    struct err err = { 0 };
    const char *name = getenv("GPU_DEVICE"); // cuda:0,1: several GPUs
    gpu = device_find(name ? name : "cuda", &err);
    void *file = dlopen(getenv("VLMSH_CUDA"), RTLD_NOW | RTLD_LOCAL); // open already
    cuda_library_fn *get = NULL;
    if (file) *(void **)&get = dlsym(file, CUDA_LIBRARY_SYMBOL);
    if (gpu && gpu->own_memory && get) {
        gpu_library = get();
        return;
    }
    fprintf(stderr, "%s\n", err.text[0] ? err.text : "VLMSH_CUDA must name the library");
    exit(1);
}

// Noise of 1/8 to 1/2, of either sign: GPUs multiply zeros faster than other numbers.
static inline struct tensor gpu_tensor(enum dtype dtype, int rank, int64_t a, int64_t b, int64_t c)
{
    struct tensor t = { .dtype = dtype, .rank = rank, .shape = { a, b, c } };
    const size_t bytes = tensor_bytes(&t);
    uint16_t *noise = malloc(bytes + 2);
    t.data = gpu->alloc(bytes);
    if (!t.data || !noise) {
        fprintf(stderr, "no memory for the benchmark: %.1f MB\n", (double)bytes / 1e6);
        exit(1);
    }
    uint32_t random = 1;
    for (size_t i = 0; i < bytes / 2; i++) {
        random = random * 1664525u + 1013904223u;
        noise[i] = (uint16_t)((random >> 16 & 0x80ff) | 0x3e00); // a bf16, or half of an f32
    }
    gpu->upload(t.data, noise, bytes);
    free(noise);
    return t;
}

static inline void gpu_wait(const struct tensor *t)
{
    float first;
    gpu->download(&first, t->data, sizeof first);
}

static inline double gpu_copy_rate(void)
{
    size_t unused, total;
    gpu->memory->sizes(&unused, &total);
    const int64_t n = (int64_t)(total / 512); // 1 GB of 140 GB, read and written
    struct tensor x = gpu_tensor(DTYPE_F32, 1, n, 0, 0), y = gpu_tensor(DTYPE_F32, 1, n, 0, 0);
    double start = 0;
    for (int i = -GPU_WARM; i < GPU_ROUNDS; i++) {
        if (i == 0) gpu_wait(&y), start = clock_seconds();
        gpu_must(gpu->widen(&y, &x)); // from f32 to f32: a copy
    }
    gpu_wait(&y);
    const double rate = 8 * (double)n * GPU_ROUNDS / (clock_seconds() - start);
    gpu->release(x.data);
    gpu->release(y.data);
    return rate;
}

// Number of copies of a weight so that none is still cached at its next use.
static inline int64_t gpu_copies(int64_t bytes)
{
    const int64_t copies = GPU_BEYOND_CACHES / (bytes + 1) + 1;
    return copies < GPU_ROUNDS ? copies : GPU_ROUNDS;
}

// Seconds of cuBLASLt alone: y[n,m] = x[n,k] w[m,k]^T.
static inline double gpu_product_seconds(int64_t n, int64_t k, int64_t m)
{
    const int64_t copies = gpu_copies(2 * m * k);
    struct tensor x = gpu_tensor(DTYPE_BF16, 2, n, k, 0), y = gpu_tensor(DTYPE_F32, 2, n, m, 0);
    struct tensor w = gpu_tensor(DTYPE_BF16, 3, copies, m, k);
    double start = 0;
    for (int64_t i = -GPU_WARM; i < GPU_ROUNDS; i++) {
        if (i == 0) gpu_wait(&y), start = clock_seconds();
        const uint16_t *at = (const uint16_t *)w.data + (i + GPU_WARM) % copies * m * k;
        gpu_must(gpu_library->product(y.data, x.data, at, n, k, m));
    }
    gpu_wait(&y);
    const double s = (clock_seconds() - start) / GPU_ROUNDS;
    gpu->release(x.data);
    gpu->release(y.data);
    gpu->release(w.data);
    return s;
}

// Adds a line "WHAT.OF SECONDS" to the file $BENCH_NUMBERS, if set.
static inline void gpu_note(const char *what, int64_t of, double seconds)
{
    const char *path = getenv("BENCH_NUMBERS");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f) return;
    fprintf(f, "%s.%lld %.9g\n", what, (long long)of, seconds);
    fclose(f);
}

#endif
