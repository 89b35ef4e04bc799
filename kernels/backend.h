// kernels/backend.h -- a device: memory plus one function per op of ops.h.
//
//   const struct backend *b = backend_cpu();
//   void *p = b->alloc(bytes);
//   if (b->rmsnorm(&y, &x, &gain, 1e-5f) < 0) ... b->failure() ...
//
// The CPU is built in; other devices fill the same table. kernels/ calls nothing above itself.
#ifndef KERNELS_BACKEND_H
#define KERNELS_BACKEND_H

#include <stdbool.h>

#include "kernels/fused.h"
#include "kernels/offload.h"
#include "kernels/tensor.h"

// How a matrix product may compute: exactly as f32 (weights widened), or with both sides rounded to
// bf16 and f32 sums where the device multiplies bf16 (elsewhere as MATMUL_F32). A GPU leaves f16
// weights as they are on the way forward and rounds what it multiplies with them to f16, numbers
// beyond +-65504 to that: also in products that follow one another in one call (kernels/fused.h).
enum matmul_mode { MATMUL_F32, MATMUL_BF16 };

// erf: 0.5 x (1 + erf(x/sqrt 2)); tanh: the tanh approximation; quick: x sigmoid(1.702 x).
enum gelu_form { GELU_ERF, GELU_TANH, GELU_QUICK };

// Columns first, first + step, .. of a matrix: `count` of them.
struct columns {
    int64_t first, step, count;
};

// Numbers of one step of AdamW. `step` counts from 1; decay is that of weights, not of the
// gradient: w -= lr * decay * w.
struct adamw_step {
    double lr, beta1, beta2, eps, decay, scale;
    int64_t step;
};

// Memory of a device that has its own.
struct device_memory {
    // Bytes that are free, and all, on the GPU that ops run on. Both 0: the device does not answer,
    // failure() says why.
    void (*sizes)(size_t *unused, size_t *total);
    // Bytes that this process holds, and has held at most, on all GPUs.
    size_t (*held)(size_t *most);
};

// Downloads that nobody waits for.
struct copies {
    // The bytes, as they are now in the order of the ops, come to host memory of the device's own.
    // False: no room before some are taken, or ever.
    bool (*download)(const void *device, size_t bytes);
    // Waits for the oldest that nobody has taken and gives it, until the next download. NULL: it
    // failed (failure() says why).
    const void *(*take)(void);
};

// Ops noted once and run again at one blow. Between start and finish ops of this thread are noted
// instead of computed, on the memory they were given: who plays them puts other numbers there.
// Uploads, downloads and ops that need more scratch than was needed before cannot be noted: finish
// then gives NULL and failure() says why. Ops of several GPUs are noted too; who has entered
// another is back before finish and play.
struct recorder {
    int (*start)(void);
    void *(*finish)(void); // the recording
    // 0, -1, or 1: the ops' scratch has moved since, they must be recorded again.
    int (*play)(void *recording);
    void (*forget)(void *recording);
};

// Several GPUs that are one device.
struct gpus {
    int count;
    // From now on memory comes from this GPU (from 0) and ops run there, after everything that was
    // asked before; each GPU reaches the memory of all. Returns the GPU before; -1 only asks.
    int (*enter)(int gpu);
};

struct backend {
    const char *name; // "cpu", "cuda:0"
    // It has memory of its own, not the host's: nothing but upload, download and the ops reaches
    // it, and what is mapped from a file must be uploaded before an op may read it.
    bool own_memory;
    // Memory of the device, 64-byte aligned; NULL when there is none left.
    void *(*alloc)(size_t bytes);
    void (*release)(void *memory);
    void (*upload)(void *device, const void *host, size_t bytes);
    // Waits for everything that was asked before.
    void (*download)(void *host, const void *device, size_t bytes);
    // Number of compute threads from now on (CPU); 0 = one per core.
    void (*set_threads)(int count);
    int (*threads)(void);
    // Is what MATMUL_BF16 may round rounded? NULL: it is not (a GPU always rounds).
    bool (*multiplies_bf16)(void);
    // One line on what computes: "cpu, avx512 + bf16, 2 threads". The text stays valid.
    const char *(*describe)(void);
    // Bytes of working memory that the ops have taken on this thread, beside what they are given.
    size_t (*scratch)(void);
    // What a device may have beside all that; NULL: it has not.
    const struct device_memory *memory; // its own
    const struct copies *copies;        // downloads that nobody waits for
    const struct offload *offload;      // to the host and back
    const struct fused *fused;          // forms of several ops in one
    const struct recorder *recorder;    // ops that are noted and played
    const struct gpus *gpus;            // more than one
    // Why the last op on this thread returned -1.
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

// The CPU device, its instruction set chosen at the first call from what the processor has.
const struct backend *backend_cpu(void);
// The device that reads and computes what t is where it lies: b, or the CPU.
static inline const struct backend *backend_of(const struct backend *b, const struct tensor *t)
{
    return b->own_memory && t->on_host ? backend_cpu() : b;
}
// The CPU device held to one instruction set ("base", "avx2", "avx512"): for tests and benchmarks.
// NULL when this processor lacks it.
const struct backend *backend_cpu_isa(const char *isa);

#endif
