// kernels/cuda_library.h -- interface of libvlmsh_cuda.so, which the program opens at run time.
//
//   void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
//   cuda_library_fn *get = dlsym(file, CUDA_LIBRARY_SYMBOL);
//   const struct cuda_library *library = get();
//   if (!strcmp(library->version, VERSION) && library->table == sizeof(struct backend)) ...
#ifndef KERNELS_CUDA_LIBRARY_H
#define KERNELS_CUDA_LIBRARY_H

#include "kernels/backend.h"

#define CUDA_LIBRARY_SYMBOL "vlmsh_cuda_library"

enum { CUDA_FEW_ROWS = 8 }; // products of at most this many rows read weights as stored

// Dtype to which x is rounded for a product with w in MATMUL_BF16; w is rounded as well if it is
// f32.
static inline enum dtype cuda_rounded_dtype(const struct tensor *w)
{
    return w->dtype == DTYPE_F16 ? DTYPE_F16 : DTYPE_BF16;
}

// True if products, including those of fused forms, round n rows of x and read w in place.
static inline bool cuda_multiplies_rounded(int64_t n, const struct tensor *w, int mode)
{
    return n > CUDA_FEW_ROWS && mode == MATMUL_BF16 && w->dtype != DTYPE_F32 &&
           !dtype_in_blocks(w->dtype) && tensor_row(w) % 4 == 0;
}

enum { CUDA_GPUS_MOST = 16 };
// Scratch of products: bytes for cuBLASLt on each GPU; and number of weight elements widened at a
// time: to f32 with MATMUL_F32, from blocks to bf16 with MATMUL_BF16.
enum { CUDA_WORKSPACE = 32 << 20, CUDA_WIDENED = 1 << 24 };

// Description of a GPU, queried without opening it.
struct cuda_gpu {
    char text[160]; // "NVIDIA H200, sm_90"
    size_t unused, total;
};

struct cuda_library {
    // A library of another build is rejected: `version` and `table` must match the program's.
    const char *version;
    size_t table; // sizeof(struct backend)
    // Returns the number of GPUs, or -1 with the driver's reason in `why`.
    int (*count)(char *why, size_t size);
    // Describes GPU `number`; returns 0, or -1 with the reason.
    int (*look)(int number, struct cuda_gpu *gpu, char *why, size_t size);
    // Returns the device of these GPUs (at most CUDA_GPUS_MOST), or NULL with the reason. A process
    // has one device: later calls return it for the same GPUs and refuse others.
    const struct backend *(*open)(const int *numbers, int count, char *why, size_t size);
    // For benchmarks of cuBLASLt alone: y[n,m] (f32) = x[n,k] w[m,k]^T, where x and w are bf16.
    int (*product)(float *y, const void *x, const void *w, int64_t n, int64_t k, int64_t m);
    // The stream (cudaStream_t) of the current GPU, for libraries that communicate between GPUs:
    // work that they enqueue runs after the ops issued so far and before later ops.
    void *(*stream)(void);
    // For benchmarks and tests: from now on, products of few rows stream weights through shared
    // memory (kernels/few_rows_ring.cu), or load them to registers. Returns false if this GPU or
    // library can only do the latter. Recordings keep the kernels they have.
    bool (*ring)(bool on);
};

typedef const struct cuda_library *cuda_library_fn(void);

#endif
