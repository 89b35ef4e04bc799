// core/graph/dry.c -- a device that computes nothing: its memory is only address space, its ops
// return at once.
//
// Ops count approximately how much scratch memory they would need. On the CPU a matrix product
// packs its operands, and attention backward holds a few copies of a head's keys and values; a GPU
// first rounds the operands of both operations (kernels/matmul.cu, kernels/attention_mma*.cu).
#include "core/graph/dry.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cuda_library.h"
#include "kernels/delta_sizes.h"

enum {
    PAGE = 4096, // precedes each block and holds its size
    SMALL = 1 << 20
};

static _Thread_local size_t scratch_most;
static _Thread_local bool like_gpu;

static void *dry_alloc(size_t bytes)
{
    if (bytes > SIZE_MAX - (size_t)2 * PAGE) return NULL;
    const size_t size = bytes + PAGE;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    // Tensor structs are scattered; without huge pages, each occupies only a small page.
    madvise(memory, size, MADV_NOHUGEPAGE);
    memcpy(memory, &size, sizeof size);
    return memory + PAGE;
}

static void dry_release(void *memory)
{
    size_t size;
    if (!memory) return;
    memcpy(&size, (char *)memory - PAGE, sizeof size);
    munmap((char *)memory - PAGE, size);
}

// Copies small uploads, such as indices, because this device's ops read them.
static void dry_upload(void *device, const void *host, size_t bytes)
{
    if (bytes <= SMALL) memcpy(device, host, bytes);
}

static void dry_download(void *host, const void *device, size_t bytes)
{
    memset(host, 0, bytes);
}

static void dry_set_threads(int count)
{
}

static int dry_threads(void)
{
    return backend_cpu()->threads();
}

static const char *dry_describe(void)
{
    return "dry run (nothing is computed)";
}

static size_t dry_scratch(void)
{
    return scratch_most + (like_gpu ? CUDA_WORKSPACE : 0);
}

// --- offloading ----------------------------------------------------------------------------------

static int64_t dry_put(const void *device, size_t bytes)
{
    return like_gpu ? 0 : -1;
}

static void dry_fetch(int64_t number, void *device)
{
}

static void dry_pass(int64_t number)
{
}

static void dry_give_back(void)
{
}

static const struct offload dry_offload = { .put = dry_put,
                                            .fetch = dry_fetch,
                                            .settle = dry_pass,
                                            .drop = dry_pass,
                                            .release = dry_give_back };

void backend_dry_reset(bool gpu)
{
    like_gpu = gpu;
    scratch_most = 0;
}

static const char *dry_failure(void)
{
    return "a device that computes nothing";
}

// --- ops -----------------------------------------------------------------------------------------

static int need(int64_t numbers)
{
    const size_t bytes = (size_t)numbers * sizeof(float);
    if (bytes > scratch_most) scratch_most = bytes;
    return 0;
}

// Counts the scratch memory of a GPU's matrix product. With MATMUL_BF16, both operands are rounded
// to 16 bits: only a part of b if b is block-quantised, and not b if it has `dtype` already. With
// MATMUL_F32, a part of b is widened to f32, unless b is f32.
static int need_on_gpu(const struct tensor *a, const struct tensor *b, enum dtype dtype,
                       enum matmul_mode mode)
{
    const int64_t count = tensor_count(b), part = count < CUDA_WIDENED ? count : CUDA_WIDENED;
    if (dtype_in_blocks(b->dtype) && mode == MATMUL_BF16) return need((tensor_count(a) + part) / 2);
    if (mode == MATMUL_BF16) return need((tensor_count(a) + (b->dtype == dtype ? 0 : count)) / 2);
    return b->dtype == DTYPE_F32 ? 0 : need(part);
}

static int64_t panels(void)
{
    return (int64_t)dry_threads() * (1 << 14); // each thread packs one panel of the second operand
}

static int dry_matmul(struct tensor *y, const struct tensor *x, const struct tensor *w,
                      const struct tensor *bias, enum matmul_mode mode)
{
    return like_gpu ? need_on_gpu(x, w, cuda_rounded_dtype(w), mode)
                    : need(tensor_count(x) + panels());
}

static int dry_matmul_dx(struct tensor *dx, const struct tensor *dy, const struct tensor *w,
                         bool add, enum matmul_mode mode)
{
    return like_gpu ? need_on_gpu(dy, w, DTYPE_BF16, mode) : need(tensor_count(dy) + panels());
}

static int dry_matmul_dw(struct tensor *dw, struct tensor *dbias, const struct tensor *dy,
                         const struct tensor *x, enum matmul_mode mode)
{
    enum { BLOCK = 2048 }; // columns of dy at a time
    const int64_t m = tensor_row(dy);
    if (like_gpu) return need_on_gpu(dy, x, DTYPE_BF16, mode);
    return need(dy->shape[0] * (m < BLOCK ? m : BLOCK) + panels());
}

// Returns the largest number of keys that a row sees.
static int64_t longest_run(const struct tensor *q, const struct tensor *k,
                           const struct tensor *first, const struct tensor *end)
{
    const int32_t *from = first ? first->data : NULL, *to = end ? end->data : NULL;
    int64_t longest = 0;
    for (int64_t i = 0; i < q->shape[0]; i++) {
        const int64_t n = (to ? to[i] : k->shape[0]) - (from ? from[i] : 0);
        if (n > longest) longest = n;
    }
    return longest;
}

// Each thread holds a head's keys, values and their gradients, and the scores of some queries.
static int dry_attention_backward(struct tensor *dq, struct tensor *dk, struct tensor *dv,
                                  const struct tensor *dy, const struct tensor *y,
                                  const struct tensor *q, const struct tensor *k,
                                  const struct tensor *v, const struct tensor *first,
                                  const struct tensor *end, float scale, enum matmul_mode mode)
{
    enum { SIDES = 5, PIECE = 64 };
    if (like_gpu) // q, dy, k and v as bf16
        return need(tensor_count(q) + tensor_count(k));
    const int64_t threads = dry_threads() < k->shape[1] ? dry_threads() : k->shape[1];
    return need(threads * longest_run(q, k, first, end) * (SIDES * k->shape[2] + PIECE));
}

// On a GPU: unit queries and keys, alphas and betas, and a chunk's matrices.
static int64_t delta_on_gpu(const struct delta_sizes *d)
{
    enum { CHUNK = 32, MATRICES = 2 * CHUNK * CHUNK + 2 * CHUNK };
    return d->rows * (2 * d->key_heads * d->dk + 2 * d->heads) +
           (d->rows + CHUNK - 1) / CHUNK * d->heads * MATRICES;
}

static int dry_delta_rule(struct tensor *y, const struct delta_inputs *p,
                          const struct tensor *before, struct tensor *after)
{
    enum { KEYS = 3 * 32 }; // rows of keys that a thread holds, beside the states of a key head
    const struct delta_sizes d = delta_sizes(y, p);
    if (like_gpu) return need(delta_on_gpu(&d));
    return need(dry_threads() * d.dk * (KEYS + d.heads / d.key_heads * d.dv));
}

// States before each chunk and each row of a chunk. On a GPU, also the sums over 32 columns of each
// row's gradients; on the CPU a thread holds these for one key head.
static int dry_delta_rule_backward(const struct delta_grads *grads, const struct tensor *dy,
                                   const struct delta_inputs *p)
{
    enum { STORED_ROWS = 32, COLUMNS = 32 };
    const struct delta_sizes d = delta_sizes(dy, p);
    const int64_t state = d.dk * d.dv, chunks = (d.rows + STORED_ROWS - 1) / STORED_ROWS;
    if (like_gpu)
        return need(delta_on_gpu(&d) + (chunks + STORED_ROWS) * d.heads * state +
                    (d.dv + COLUMNS - 1) / COLUMNS * d.heads * d.rows * (2 * d.dk + 2));
    const int64_t threads = dry_threads() < d.key_heads ? dry_threads() : d.key_heads;
    return need(threads * ((chunks + STORED_ROWS) * state + 4 * d.rows * d.dk));
}

// --- fused forms (kernels/fused.cu) --------------------------------------------------------------

// Returns how many f32 elements take as much memory as `numbers` bf16 elements.
static int64_t halves(int64_t numbers)
{
    return (numbers + 1) / 2;
}

static bool rounded(int64_t n, const struct tensor *w, int mode)
{
    return like_gpu && cuda_multiplies_rounded(n, w, mode);
}

static int dry_fused_qkv(const struct fused_qkv *p)
{
    const int64_t n = p->h->shape[0], kv = p->k->shape[1] * p->k->shape[2];
    const int64_t q = p->q->shape[1] * p->q->shape[2];
    const bool packed = p->wq.w == p->wk.w && p->wq.w == p->wv.w;
    if (!rounded(n, p->wq.w, p->mode) || !rounded(n, p->wk.w, p->mode) ||
        !rounded(n, p->wv.w, p->mode) || p->wk.w->dtype != p->wq.w->dtype ||
        p->wv.w->dtype != p->wq.w->dtype || (packed && p->saved_q))
        return FUSED_NOT;
    const int64_t keys = p->saved_q ? kv : 2 * kv;
    return need(n * (packed || (p->adjacent && !p->saved_q) ? q + 2 * kv : keys) +
                halves(tensor_count(p->h)));
}

// Returns the scratch elements of a product that a norm follows.
static int64_t product_of(const struct fused_after *after, const struct tensor *h)
{
    return after->gain && !after->saved ? tensor_count(h) : 0;
}

static int dry_fused_add(const struct fused_add *p)
{
    if (!rounded(p->h->shape[0], p->w.w, p->mode)) return FUSED_NOT;
    return need(product_of(&p->after, p->h) + halves(tensor_count(p->x)));
}

static int dry_fused_ffn(const struct fused_ffn *p)
{
    const int64_t n = p->h->shape[0], wide = p->saved_gate ? (p->y ? 1 : 0) : 2;
    if (((p->gate.bias || p->up.bias) && p->saved_gate) || !rounded(n, p->gate.w, p->mode) ||
        !rounded(n, p->up.w, p->mode) || !rounded(n, p->down.w, p->mode) ||
        p->up.w->dtype != p->gate.w->dtype || p->down.w->dtype != p->gate.w->dtype)
        return FUSED_NOT;
    return need(product_of(&p->after, p->h) +
                halves(tensor_count(p->h) + wide * n * p->gate.w->shape[0]));
}

static int dry_fused_ffn_back(const struct fused_ffn_back *p)
{
    const int64_t h = tensor_count(p->h);
    return need(halves(h + tensor_count(p->saved_up)) + h);
}

static int dry_fused_qkv_back(const struct fused_qkv_back *p)
{
    return need(halves(tensor_count(p->dq) + 2 * tensor_count(p->dk)) + tensor_count(p->h));
}

// This device measures training passes, which use no other fused forms: those need a KV cache, no
// tape, or single rows.
static const struct fused dry_fused = { .qkv = dry_fused_qkv,
                                        .add = dry_fused_add,
                                        .ffn = dry_fused_ffn,
                                        .ffn_back = dry_fused_ffn_back,
                                        .qkv_back = dry_fused_qkv_back };

// --- all -----------------------------------------------------------------------------------------

#define OP(name, arguments)         \
    static int name##_dry arguments \
    {                               \
        return 0;                   \
    }
#include "kernels/ops.h"
#undef OP

// If an op has two initialisers, the last one applies.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
static const struct backend dry = {
    .name = "dry",
    .alloc = dry_alloc,
    .release = dry_release,
    .upload = dry_upload,
    .download = dry_download,
    .offload = &dry_offload,
    .set_threads = dry_set_threads,
    .threads = dry_threads,
    .describe = dry_describe,
    .scratch = dry_scratch,
    .failure = dry_failure,
    .fused = &dry_fused,
#define OP(name, arguments) .name = name##_dry,
#include "kernels/ops.h"
#undef OP
    .matmul = dry_matmul,
    .matmul_dx = dry_matmul_dx,
    .matmul_dw = dry_matmul_dw,
    .attention_backward = dry_attention_backward,
    .delta_rule = dry_delta_rule,
    .delta_rule_backward = dry_delta_rule_backward,
};
#pragma GCC diagnostic pop

const struct backend *backend_dry(void)
{
    return &dry;
}
