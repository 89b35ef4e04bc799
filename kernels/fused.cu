// kernels/fused.cu -- the parts of a decoder layer except attention, each in one call (fused.h).
//
// Few rows (a kernel of few_rows.cu takes up to four rows and weights of one dtype):
//   qkv    norm, three products, rope and the cache's new rows in one kernel
//   add    product added to h in one kernel, as after attention
//   ffn    norm, two products, silu in one kernel; the last product, added to h, in another
// Many rows: the same steps, with products by cuBLASLt. The kernel before a product writes the
// product's input as bf16, or as f16 for f16 weights. Gate and up are never f32 in memory, and
// cuBLASLt adds the last product to h, unless it is normed first.
// Backward, many rows: the kernel that computes a gradient rounds it to bf16 once. One buffer sums
// the gradients of x from all products; the norm's kernel reads the buffer and adds to dh.
//
// For many rows, the ops handle MATMUL_F32, f32 weights and weights in blocks. f16 weights have no
// fused backward pass.
#include "kernels/attention_cuda.h"
#include "kernels/fused_cuda.h"
#include "kernels/pack_cuda.h"

static constexpr int THREADS = 256;

// --- small kernels -------------------------------------------------------------------------------

// y = rmsnorm(x) * gain, one block per row; n is a multiple of 4.
template <bool HALF>
static __global__ void norm_narrow_kernel(uint16_t *y, const float *x, const float *gain, int64_t n,
                                          float eps)
{
    cuda_let_next_start();
    cuda_wait_previous();
    const float4 *from = reinterpret_cast<const float4 *>(x + (int64_t)blockIdx.x * n);
    const float4 *by = reinterpret_cast<const float4 *>(gain);
    struct four_shorts *to = reinterpret_cast<struct four_shorts *>(y + (int64_t)blockIdx.x * n);
    float squares = 0;
    for (int64_t i = threadIdx.x; i < n / 4; i += THREADS) {
        const float4 v = from[i];
        squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    const float s = 1 / sqrtf(block_sum(squares) / (float)n + eps);
    for (int64_t i = threadIdx.x; i < n / 4; i += THREADS) {
        const float4 v = from[i], g = by[i];
        to[i] = narrow4<HALF>({ v.x * s * g.x, v.y * s * g.y, v.z * s * g.z, v.w * s * g.w });
    }
}

// x sigmoid(of). The GPU's approximate functions suffice, because results are rounded to 16 bits.
static __device__ inline float times_sigmoid(float x, float of)
{
#ifdef __CUDA_ARCH__
    return __fdividef(x, 1 + __expf(-of));
#else
    return x / (1 + expf(-of));
#endif
}

// Reads an element of cuBLASLt's product. Replaces infinity, the result of overflow in f16, with
// the largest finite f16 number (transformers in f16 continues with infinities and NaNs).
template <bool HALF> static __device__ inline float product_of(uint16_t x)
{
    return HALF ? within_f16(from_f16(x)) : from_bf16(x);
}

// The products gate and up, and their biases ([width] each, or NULL).
struct gated {
    const struct four_shorts *gate, *up;
    const float *gate_bias, *up_bias;
    int64_t width;
};

template <bool HALF>
static __device__ inline uint16_t silu_times(const struct gated &p, uint16_t gate, uint16_t up,
                                             int64_t i)
{
    float g = product_of<HALF>(gate), u = product_of<HALF>(up);
    if (p.gate_bias) g += p.gate_bias[i % p.width];
    if (p.up_bias) u += p.up_bias[i % p.width];
    return to_short<HALF>(times_sigmoid(g, g) * u);
}

// y = silu(gate) * up, four at a time; y may be gate.
template <bool HALF>
static __global__ void swiglu_narrow_kernel(struct four_shorts *y, const struct gated p,
                                            int64_t fours)
{
    cuda_let_next_start();
    cuda_wait_previous();
    FOR_EACH(i, fours)
    {
        const struct four_shorts g = p.gate[i], u = p.up[i];
        y[i] = { silu_times<HALF>(p, g.x, u.x, 4 * i), silu_times<HALF>(p, g.y, u.y, 4 * i + 1),
                 silu_times<HALF>(p, g.z, u.z, 4 * i + 2),
                 silu_times<HALF>(p, g.w, u.w, 4 * i + 3) };
    }
}

// Overwrites gate and up with their gradients; silu'(g) = s (1 + g (1 - s)), s = sigmoid(g).
static __device__ inline void silu_back(uint16_t *gate, uint16_t *up, uint16_t dy)
{
    const float d = from_bf16(dy), g = from_bf16(*gate), u = from_bf16(*up),
                s = times_sigmoid(1, g);
    *up = to_bf16(d * g * s);
    *gate = to_bf16(d * u * s * (1 + g * (1 - s)));
}

// Like silu_back, for all elements, four at a time.
static __global__ void swiglu_back_narrow_kernel(struct four_shorts *gate, struct four_shorts *up,
                                                 const struct four_shorts *dy, int64_t fours)
{
    cuda_let_next_start();
    cuda_wait_previous();
    FOR_EACH(i, fours)
    {
        struct four_shorts g = gate[i], u = up[i];
        const struct four_shorts d = dy[i];
        silu_back(&g.x, &u.x, d.x);
        silu_back(&g.y, &u.y, d.y);
        silu_back(&g.z, &u.z, d.z);
        silu_back(&g.w, &u.w, d.w);
        gate[i] = g;
        up[i] = u;
    }
}

// --- shared parts --------------------------------------------------------------------------------

static bool aligned(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

bool fused_many(int64_t n, const void *x, const struct tensor *w, int mode)
{
    return cuda_multiplies_rounded(n, w, mode) && aligned(x);
}

struct few_rows_part fused_part(const struct fused_linear *w, void *y, int64_t rows)
{
    return { w->w->data,   w->w->dtype,     y, floats(w->bias), rows, (int)w->first, (int)w->run,
             (int)w->step, FEW_ROWS_QUERIES };
}

static struct few_rows_part part(const struct fused_linear *w, void *y)
{
    return fused_part(w, y, w->w->shape[0]);
}

int fused_norm(uint16_t *y, enum dtype dtype, const struct tensor *h, const struct tensor *gain,
               float eps)
{
    const int64_t width = tensor_count(gain);
    const auto kernel = dtype == DTYPE_F16 ? norm_narrow_kernel<true> : norm_narrow_kernel<false>;
    return LAUNCH_EARLY(kernel, (size_t)h->shape[0], THREADS, 0, y, floats(h), floats(gain), width,
                        eps);
}

int fused_multiply(void *y, enum dtype dtype, const uint16_t *x, int64_t n,
                   const struct fused_linear *w, const void *addend)
{
    struct lt_product p =
        lt_product_of(y, dtype, { x, w->w->dtype, false, 0 }, { w->w->data, w->w->dtype, false, 0 },
                      n, w->w->shape[0], tensor_row(w->w));
    p.bias = floats(w->bias);
    p.addend = addend;
    return lt_multiply(&p);
}

int fused_multiply_back(void *y, enum dtype dtype, const uint16_t *dy, const struct tensor *w,
                        int64_t n, const void *addend)
{
    struct lt_product p =
        lt_product_of(y, dtype, { dy, DTYPE_BF16, false, 0 }, { w->data, DTYPE_BF16, true, 0 }, n,
                      tensor_row(w), w->shape[0]);
    p.addend = addend;
    return lt_multiply(&p);
}

// y = h + rmsnorm(x) * gain, one block per row; y may be h.
template <int COUNT>
static __global__ void add_normed_kernel(float *y, const float *h, const float *x,
                                         const float *gain, int64_t n, float eps)
{
    cuda_let_next_start();
    cuda_wait_previous();
    const int64_t row = (int64_t)blockIdx.x * n;
    float squares = 0;
    for (int64_t i = threadIdx.x * COUNT; i < n; i += THREADS * COUNT) {
        const struct several<COUNT> v = several_at<COUNT>(x + row + i);
        for (int e = 0; e < COUNT; e++) squares += v.x[e] * v.x[e];
    }
    const float s = 1 / sqrtf(block_sum(squares) / (float)n + eps);
    for (int64_t i = threadIdx.x * COUNT; i < n; i += THREADS * COUNT) {
        const struct several<COUNT> g = several_at<COUNT>(gain + i);
        const struct several<COUNT> v = several_at<COUNT>(x + row + i);
        struct several<COUNT> to = several_at<COUNT>(h + row + i);
        for (int e = 0; e < COUNT; e++) to.x[e] += v.x[e] * s * g.x[e];
        put_several(y + row + i, to);
    }
}

static int add_normed(const struct tensor *y, const struct tensor *h, const float *x,
                      const struct fused_after *after)
{
    const int64_t n = tensor_count(after->gain);
    const auto kernel = in_fours(n, floats(y), floats(h), x, floats(after->gain))
                            ? add_normed_kernel<4>
                            : add_normed_kernel<1>;
    return LAUNCH_EARLY(kernel, (size_t)h->shape[0], THREADS, 0, floats(y), floats(h), x,
                        floats(after->gain), n, after->eps);
}

// Elements of scratch that hold a product until its norm; 0 if there is no norm or a saved tensor
// holds the product.
static int64_t product_scratch(const struct fused_after *after, const struct tensor *h)
{
    return after->gain && !after->saved ? tensor_count(h) : 0;
}

// y = h + after(x w^T), x rounded.
static int multiply_add(const struct tensor *y, const struct tensor *h, const uint16_t *x,
                        const struct fused_linear *w, const struct fused_after *after,
                        float *product)
{
    const int64_t n = h->shape[0];
    if (!after->gain) return fused_multiply(y->data, DTYPE_F32, x, n, w, h->data);
    if (after->saved) product = floats(after->saved);
    if (fused_multiply(product, DTYPE_F32, x, n, w, nullptr) < 0) return -1;
    return add_normed(y, h, product, after);
}

int fused_add_few(const struct tensor *y, const float *x, const struct fused_linear *w,
                  const struct fused_after *after, float *product)
{
    struct few_rows few = few_rows_of(x, y->shape[0], tensor_row(w->w), 1,
                                      after->gain ? FEW_ROWS_STORE : FEW_ROWS_ADD);
    few.part[0] = part(w, after->gain ? product : floats(y));
    const int status = few_rows_product(&few);
    return status || !after->gain ? status : add_normed(y, y, product, after);
}

// --- h + x w^T -----------------------------------------------------------------------------------

static int fused_add_cuda(const struct fused_add *p)
{
    const int64_t n = p->h->shape[0], k = tensor_row(p->w.w);
    const bool few = n <= FEW_ROWS;
    if (few ? p->after.saved != nullptr : !fused_many(n, floats(p->x), p->w.w, p->mode))
        return FUSED_NOT;
    const int64_t numbers = product_scratch(&p->after, p->h);
    char *scratch = static_cast<char *>(
        cuda_scratch((size_t)numbers * sizeof(float) + (size_t)(few ? 0 : n * k) * 2 + 512));
    if (!scratch) return -1;
    float *product = scratch_take<float>(&scratch, numbers);
    if (few) return fused_add_few(p->y, floats(p->x), &p->w, &p->after, product);
    uint16_t *x = reinterpret_cast<uint16_t *>(scratch);
    if (matmul_narrow(x, p->w.w->dtype, p->x->data, n * k, DTYPE_F32) < 0) return -1;
    return multiply_add(p->y, p->h, x, &p->w, &p->after, product);
}

static int fused_attend_cuda(const struct fused_attend *p)
{
    const int64_t n = p->h->shape[0], numbers = product_scratch(&p->after, p->h);
    struct attention_call c = attention_call_of(p->q, p->k, p->v, p->first, p->end, p->scale);
    if (!fused_many(n, floats(p->h), p->w.w, p->mode) || !attention_mma_ready(&c)) return FUSED_NOT;
    char *scratch = static_cast<char *>(
        cuda_scratch((size_t)numbers * sizeof(float) + (size_t)tensor_count(p->q) * 2 + 512));
    if (!scratch) return -1;
    float *product = scratch_take<float>(&scratch, numbers);
    uint16_t *y = reinterpret_cast<uint16_t *>(scratch);
    c.y = reinterpret_cast<float *>(y);
    c.y_dtype = p->w.w->dtype;
    if (attention_mma(&c, nullptr) < 0) return -1;
    return multiply_add(p->h, p->h, y, &p->w, &p->after, product);
}

// --- FFN -----------------------------------------------------------------------------------------

static int ffn_few(const struct fused_ffn *p, float *y, float *product)
{
    struct few_rows few =
        few_rows_of(floats(p->h), p->h->shape[0], p->h->shape[1], 2, FEW_ROWS_SWIGLU);
    few.gain = floats(p->gain);
    few.eps = p->eps;
    few.part[0] = part(&p->gate, y);
    few.part[1] = part(&p->up, nullptr);
    const int status = few_rows_product(&few);
    if (status) return status;
    // h is unchanged if this returns FUSED_NOT.
    return fused_add_few(p->y, y, &p->down, &p->after, product);
}

// Computes the FFN of many rows; act [n,F] may be gate.
static int ffn_many(const struct fused_ffn *p, uint16_t *x, uint16_t *gate, uint16_t *up,
                    uint16_t *act, float *product)
{
    const int64_t n = p->h->shape[0], fours = n * tensor_row(p->down.w) / 4;
    const enum dtype dtype = p->gate.w->dtype;
    const auto swiglu =
        dtype == DTYPE_F16 ? swiglu_narrow_kernel<true> : swiglu_narrow_kernel<false>;
    // cuBLASLt would round the sum of product and bias, so the swiglu kernel adds the biases.
    const struct fused_linear plain_gate = { p->gate.w, nullptr, 0, 0, 0 };
    const struct fused_linear plain_up = { p->up.w, nullptr, 0, 0, 0 };
    if (fused_norm(x, dtype, p->h, p->gain, p->eps) < 0 ||
        fused_multiply(gate, dtype, x, n, &plain_gate, nullptr) < 0 ||
        fused_multiply(up, dtype, x, n, &plain_up, nullptr) < 0)
        return -1;
    if (!p->y) return 0;
    const struct gated both = { reinterpret_cast<const struct four_shorts *>(gate),
                                reinterpret_cast<const struct four_shorts *>(up),
                                floats(p->gate.bias), floats(p->up.bias), tensor_row(p->down.w) };
    if (LAUNCH_EARLY(swiglu, blocks_for(fours, THREADS), THREADS, 0,
                     reinterpret_cast<struct four_shorts *>(act), both, fours) < 0)
        return -1;
    return multiply_add(p->y, p->h, act, &p->down, &p->after, product);
}

static int fused_ffn_cuda(const struct fused_ffn *p)
{
    const int64_t n = p->h->shape[0], width = p->h->shape[1], inner = tensor_row(p->down.w);
    const bool biased = p->gate.bias || p->up.bias; // biases have no backward form
    const bool plain = !(biased && p->saved_gate) && p->up.w->dtype == p->gate.w->dtype &&
                       p->down.w->dtype == p->gate.w->dtype;
    const bool all = plain && fused_many(n, floats(p->h), p->gate.w, p->mode) &&
                     fused_many(n, floats(p->gain), p->up.w, p->mode) &&
                     fused_many(n, floats(p->h), p->down.w, p->mode);
    if (n <= FEW_ROWS ? p->saved_gate || p->after.saved : !all) return FUSED_NOT;
    const int64_t wide = p->saved_gate ? (p->y ? 1 : 0) : 2; // [n,F] buffers in scratch
    char *scratch = static_cast<char *>(
        cuda_scratch((size_t)(n * (wide * inner + width)) * sizeof(uint16_t) +
                     (size_t)product_scratch(&p->after, p->h) * sizeof(float) + 1024));
    if (!scratch) return -1;
    float *product = scratch_take<float>(&scratch, product_scratch(&p->after, p->h));
    if (n <= FEW_ROWS) return ffn_few(p, reinterpret_cast<float *>(scratch), product);
    uint16_t *x = scratch_take<uint16_t>(&scratch, n * width);
    uint16_t *act = scratch_take<uint16_t>(&scratch, wide ? n * inner : 0);
    if (!p->saved_gate)
        return ffn_many(p, x, act, reinterpret_cast<uint16_t *>(scratch), act, product);
    return ffn_many(p, x, static_cast<uint16_t *>(p->saved_gate->data),
                    static_cast<uint16_t *>(p->saved_up->data), act, product);
}

static int ffn_back(const struct fused_ffn_back *p, uint16_t *dy, uint16_t *dact, float *dx,
                    struct row_stats *stats)
{
    const int64_t n = p->h->shape[0], width = p->h->shape[1], fours = tensor_count(p->saved_up) / 4;
    auto *gate = static_cast<uint16_t *>(p->saved_gate->data);
    auto *up = static_cast<uint16_t *>(p->saved_up->data);
    if (matmul_narrow(dy, DTYPE_BF16, p->dy->data, n * width, DTYPE_F32) < 0 ||
        fused_multiply_back(dact, DTYPE_BF16, dy, p->down, n, nullptr) < 0 ||
        LAUNCH_EARLY(swiglu_back_narrow_kernel, blocks_for(fours, THREADS), THREADS, 0,
                     reinterpret_cast<struct four_shorts *>(gate),
                     reinterpret_cast<struct four_shorts *>(up),
                     reinterpret_cast<const struct four_shorts *>(dact), fours) < 0 ||
        fused_multiply_back(dx, DTYPE_F32, gate, p->gate, n, nullptr) < 0 ||
        fused_multiply_back(dx, DTYPE_F32, up, p->up, n, dx) < 0)
        return -1;
    return rmsnorm_back(floats(p->dh), floats(p->dgain), dx, floats(p->h), floats(p->gain), p->eps,
                        n, width, stats);
}

static int fused_ffn_back_cuda(const struct fused_ffn_back *p)
{
    const int64_t n = p->h->shape[0], width = p->h->shape[1], inner = tensor_count(p->saved_up);
    char *scratch = static_cast<char *>(cuda_scratch(
        (size_t)(n * width + inner) * sizeof(uint16_t) + fused_norm_back_scratch(n, width)));
    if (!scratch) return -1;
    uint16_t *dy = scratch_take<uint16_t>(&scratch, n * width);
    uint16_t *dact = scratch_take<uint16_t>(&scratch, inner);
    float *dx = scratch_take<float>(&scratch, n * width);
    return ffn_back(p, dy, dact, dx, reinterpret_cast<struct row_stats *>(scratch));
}

// --- GELU ----------------------------------------------------------------------------------------

// cuBLASLt's GELU is the tanh form.
static int fused_gelu_cuda(const struct fused_gelu *p)
{
    const int64_t n = p->x->shape[0], k = p->x->shape[1];
    if (p->form != GELU_TANH || !p->w.bias || !fused_many(n, floats(p->x), p->w.w, p->mode))
        return FUSED_NOT;
    uint16_t *x = static_cast<uint16_t *>(cuda_scratch((size_t)(n * k) * sizeof *x));
    if (!x) return -1;
    struct lt_product product =
        lt_product_of(floats(p->y), DTYPE_F32, { x, p->w.w->dtype, false, 0 },
                      { p->w.w->data, p->w.w->dtype, false, 0 }, n, p->w.w->shape[0], k);
    product.bias = floats(p->w.bias);
    product.gelu = true;
    if (!lt_supports(&product)) return FUSED_NOT;
    return matmul_narrow(x, p->w.w->dtype, p->x->data, n * k, DTYPE_F32) < 0
               ? -1
               : lt_multiply(&product);
}

const struct fused fused_cuda = { .qkv = fused_qkv_cuda, // fused_heads.cu
                                  .attend = fused_attend_cuda,
                                  .add = fused_add_cuda,
                                  .ffn = fused_ffn_cuda,
                                  .ffn_back = fused_ffn_back_cuda,
                                  .qkv_back = fused_qkv_back_cuda,
                                  .gelu = fused_gelu_cuda,
                                  .experts = fused_experts_cuda,
                                  .latent = fused_latent_cuda };
