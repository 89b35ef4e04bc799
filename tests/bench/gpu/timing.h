// tests/bench/gpu/timing.h -- tensors on the GPU and the time an op takes there, for benchmarks.
//
//   if (gpu_open() < 0) return 1;
//   struct timed t = { .y = gpu_make(DTYPE_F32, 2, n, m, 0), ..., .run = run_something };
//   printf("%f", seconds(&t));
//   timed_release(&t);
#ifndef TESTS_BENCH_GPU_TIMING_H
#define TESTS_BENCH_GPU_TIMING_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/device.h"

enum { ROUNDS = 20, WARM = 3 };

static const struct backend *gpu;

static inline int gpu_open(void)
{
    struct err err;
    gpu = device_find("cuda", &err);
    if (gpu && gpu->apart) return 0;
    fprintf(stderr, "%s\n", err.text);
    return -1;
}

static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// From host memory; NULL: zeros.
static inline struct tensor gpu_make_of(const void *host, enum dtype dtype, int rank, int64_t a,
                                        int64_t b, int64_t c)
{
    struct tensor t = { .dtype = dtype, .rank = rank, .shape = { a, b, c } };
    char *bytes = calloc(tensor_bytes(&t) + 1, 1);
    t.data = gpu->alloc(tensor_bytes(&t));
    if (!t.data || !bytes) {
        fputs("no memory for the benchmark\n", stderr);
        exit(1);
    }
    if (host) memcpy(bytes, host, tensor_bytes(&t));
    gpu->upload(t.data, bytes, tensor_bytes(&t));
    free(bytes);
    return t;
}

static inline struct tensor gpu_make(enum dtype dtype, int rank, int64_t a, int64_t b, int64_t c)
{
    return gpu_make_of(NULL, dtype, rank, a, b, c);
}

// What is timed: one op on the tensors it needs.
struct timed {
    struct tensor y, x, w, k, v;
    void (*run)(const struct timed *t);
};

// Seconds of one run among ROUNDS that follow one another.
static inline double seconds(const struct timed *t)
{
    float sink;
    double start = 0;
    for (int i = -WARM; i < ROUNDS; i++) {
        if (i == 0) {
            gpu->download(&sink, t->y.data, sizeof sink); // waits
            start = now();
        }
        t->run(t);
    }
    gpu->download(&sink, t->y.data, sizeof sink);
    return (now() - start) / ROUNDS;
}

static inline void timed_release(struct timed *t)
{
    struct tensor *all[] = { &t->y, &t->x, &t->w, &t->k, &t->v };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) gpu->release(all[i]->data);
}

#endif
