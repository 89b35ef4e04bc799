// kernels/backend.h -- a device: memory plus one function per op of ops.h.
//
//   const struct backend *b = backend_cpu();
//   void *p = b->alloc(bytes);
//   if (b->rmsnorm(&y, &x, &gain, 1e-5f) < 0) ... b->failure() ...
//
// The CPU is built in; other devices fill the same table. kernels/ uses nothing outside kernels/.
#ifndef KERNELS_BACKEND_H
#define KERNELS_BACKEND_H

#include <stdbool.h>

#include "kernels/expert_rows.h"
#include "kernels/fused.h"
#include "kernels/offload.h"
#include "kernels/products.h"
#include "kernels/rows_products.h"
#include "kernels/tensor.h"

// Precision of matrix products. MATMUL_F32: computes in f32 with widened weights. MATMUL_BF16: if
// the device multiplies bf16, operands are rounded to bf16 and sums are f32; otherwise it equals
// MATMUL_F32, as it does in the forward pass of up to few_rows rows. In the forward pass of more
// rows a GPU does not convert f16 weights: it rounds the other operand to f16, clamped to +-65504,
// even between the products of a fused form (kernels/fused.h).
enum matmul_mode { MATMUL_F32, MATMUL_BF16 };

// erf: 0.5 x (1 + erf(x/sqrt 2)); tanh: the tanh approximation; quick: x sigmoid(1.702 x).
enum gelu_form { GELU_ERF, GELU_TANH, GELU_QUICK };

// `count` columns of a matrix: first, first + step, ..
struct columns {
    int64_t first, step, count;
};

// Parameters of one AdamW step. `step` counts from 1. `decay` is the decoupled weight decay:
// w -= lr * decay * w.
struct adamw_step {
    double lr, beta1, beta2, eps, decay, scale;
    int64_t step;
};

// Inputs of the gated delta rule, all f32: x[N, 2*Hk*dk + Hv*dv], a[N,Hv], b[N,Hv], log_a[Hv],
// bias[Hv].
struct delta_inputs {
    const struct tensor *x, *a, *b, *log_a, *bias;
    int64_t key_heads; // Hk
    // Value head h reads key head h % Hk, as in GGUF files; else h / (Hv/Hk).
    bool alternate;
};

// Their gradients; NULL: not wanted.
struct delta_grads {
    struct tensor *x, *a, *b, *log_a, *bias;
};

// Memory usage of a device with separate memory.
struct device_memory {
    // Free and total bytes of the current GPU. Both 0: the query failed.
    void (*sizes)(size_t *unused, size_t *total);
    // Bytes that this process has allocated on all GPUs; sets *most to the peak.
    size_t (*held)(size_t *most);
};

// A queue of asynchronous downloads.
struct copies {
    // Queues a copy of the bytes to host memory that the device owns; it runs after the ops issued
    // so far. False: nothing was queued: the queue is full until copies are taken, or it cannot
    // take this copy.
    bool (*download)(const void *device, size_t bytes);
    // Waits for the oldest copy in the queue, removes it and returns it; valid until the next
    // download. NULL: the queue is empty, or the copy failed (failure() says why).
    const void *(*take)(void);
};

// Records a list of ops once and replays it in one call. Between start and finish, ops of this
// thread are recorded, with the addresses of their arguments, and not computed; callers may change
// the content of that memory before a replay. Uploads, downloads and ops that need more scratch
// memory than is allocated cannot be recorded: finish then returns NULL and failure() says why. Ops
// of several GPUs can be recorded; the GPU current at start must be current again at finish and
// play.
struct recorder {
    int (*start)(void);
    void *(*finish)(void); // returns the recording
    // Returns 0; -1 on failure; 1 if scratch memory has moved since the recording, so the ops must
    // be recorded again.
    int (*play)(void *recording);
    void (*forget)(void *recording); // frees it
};

// Several GPUs that act as one device.
struct gpus {
    int count;
    // Makes a GPU (counted from 0) current: from then on, memory is allocated on it, and ops run on
    // it after everything issued so far. Each GPU can access the memory of all GPUs. Returns the
    // GPU that was current before; with gpu -1, only returns the current GPU.
    int (*enter)(int gpu);
};

struct backend {
    const char *name; // "cpu", "cuda:0"
    // The device has memory separate from the host's: only upload, download and the ops access it,
    // and mapped file data must be uploaded before an op reads it.
    bool own_memory;
    // Allocates device memory, 64-byte aligned; NULL if there is not enough.
    void *(*alloc)(size_t bytes);
    void (*release)(void *memory);
    void (*upload)(void *device, const void *host, size_t bytes);
    // Synchronous: waits for everything issued before.
    void (*download)(void *host, const void *device, size_t bytes);
    // Sets the number of compute threads (CPU); 0 = one per core.
    void (*set_threads)(int count);
    int (*threads)(void);
    // True if MATMUL_BF16 rounds operands on this device. NULL: false on a CPU, true on a GPU.
    bool (*multiplies_bf16)(void);
    // True if MATMUL_BF16 is faster than MATMUL_F32. NULL: false on a CPU, true on a GPU.
    bool (*favours_bf16)(void);
    // Largest number of rows in a pass for which each row has the same bits as in a pass of one
    // row. NULL: 1.
    int64_t (*few_rows)(void);
    // One line that describes the device: "cpu (avx512 + bf16, 2 threads)"; valid until the next
    // call.
    const char *(*describe)(void);
    // Bytes of scratch memory that the ops have allocated: on a CPU, on this thread; on a GPU, on
    // all GPUs of the device, with the workspaces of cuBLASLt.
    size_t (*scratch)(void);
    // Optional features; NULL: not supported.
    const struct device_memory *memory;              // separate memory
    const struct copies *copies;                     // asynchronous downloads
    const struct offload *offload;                   // offloading to the host
    const struct fused *fused;                       // fused forms of several ops
    int (*expert_rows)(const struct expert_rows *p); // experts of many rows, one thread per piece
    const struct packed_ops *products;               // rows packed between products
    int (*ffn_rows)(const struct fused_ffn *p);      // FFN of many rows; same bits as the ops
    int (*rows_products)(const struct rows_products *p); // several products; same bits as the ops
    // Rotates elements first.. of each head of x[n,H,d] in place, from adjacent pairs to split
    // layout (first elements of all pairs, then second ones), with the same bits as the ops
    // put_columns and rope. Returns FUSED_NOT for more than 512 pairs.
    int (*rope_tail)(struct tensor *x, int64_t first, const struct tensor *cos,
                     const struct tensor *sin);
    const struct recorder *recorder; // recording and replay of ops
    const struct gpus *gpus;         // several GPUs
    // Reason for the last failure of an op: on a CPU, on this thread; on a GPU, on any thread.
    const char *(*failure)(void);
#define OP(name, arguments) int(*name) arguments;
#include "kernels/ops.h"
#undef OP
};

static inline int backend_gpus(const struct backend *b)
{
    return b->gpus ? b->gpus->count : 1;
}

static inline int backend_enter(const struct backend *b, int gpu)
{
    return b->gpus ? b->gpus->enter(gpu) : 0;
}

static inline bool backend_multiplies_bf16(const struct backend *b)
{
    return b->own_memory || (b->multiplies_bf16 && b->multiplies_bf16());
}

static inline bool backend_favours_bf16(const struct backend *b)
{
    return b->own_memory || (b->favours_bf16 && b->favours_bf16());
}

static inline int64_t backend_few_rows(const struct backend *b)
{
    return b->few_rows ? b->few_rows() : 1;
}

// From this number of rows on, the CPU uses its kernels for many rows (attention: from 9 tokens
// on): a row has the same bits in every pass of at least this many rows.
static inline int64_t backend_many_rows(const struct backend *b)
{
    const int64_t attention = 9, products = backend_few_rows(b) + 1;
    return products < attention ? attention : products;
}

// The CPU device, with the best instruction set that the processor supports, or with the supported
// one that the environment variable VLMSH_ISA names.
const struct backend *backend_cpu(void);
// The device that can access the data of t in place: b, or the CPU if t is in host memory.
static inline const struct backend *backend_of(const struct backend *b, const struct tensor *t)
{
    return b->own_memory && t->on_host ? backend_cpu() : b;
}
// The CPU device restricted to one instruction set ("base", "avx2", "avx512", "amx"), for tests and
// benchmarks. NULL if the processor (or, for amx, the system) does not support it, or if this
// program was built without it.
const struct backend *backend_cpu_isa(const char *isa);
// Name of instruction set i of those that this program was built with; NULL past the end.
const char *backend_isa_name(int i);

#endif
