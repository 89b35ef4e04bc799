// kernels/fused.cu -- the parts of a decoder layer beside attention, each in one call (fused.h).
//
//   one row:    qkv:  norm, three products, rope and the cache's new row in one kernel
//               add:  product added to h in one kernel, as behind attention
//               ffn:  norm, two products, silu in one kernel; product added to h in one
//   many rows:  the same with cuBLASLt between: what it reads is written as bf16 by the kernel in
//               front, gate and up are never f32 in memory, and h is added by the product itself.
//
// Rows between, MATMUL_F32 and other weights than bf16 for many rows are left to the ops.
#include "kernels/attention_cuda.h"
#include "kernels/matmul_cuda.h"
#include "kernels/pack_cuda.h"

static constexpr int THREADS = 256;

// --- small kernels -------------------------------------------------------------------------------

// y (bf16) = rmsnorm(x) * gain, a block a row; n is a multiple of 4.
static __global__ void norm_narrow_kernel(uint16_t *y, const float *x, const float *gain, int64_t n,
                                          float eps)
{
    cuda_next_may_begin();
    cuda_former();
    const float4 *from = reinterpret_cast<const float4 *>(x + (int64_t)blockIdx.x * n);
    const float4 *by = reinterpret_cast<const float4 *>(gain);
    struct bf16_4 *to = reinterpret_cast<struct bf16_4 *>(y + (int64_t)blockIdx.x * n);
    float squares = 0;
    for (int64_t i = threadIdx.x; i < n / 4; i += THREADS) {
        const float4 v = from[i];
        squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    const float s = 1 / sqrtf(block_sum(squares) / (float)n + eps);
    for (int64_t i = threadIdx.x; i < n / 4; i += THREADS) {
        const float4 v = from[i], g = by[i];
        to[i] = narrow4({ v.x * s * g.x, v.y * s * g.y, v.z * s * g.z, v.w * s * g.w });
    }
}

// What becomes bf16 needs no more than the GPU's own functions give.
static __device__ inline float silu(float x)
{
#ifdef __CUDA_ARCH__
    return __fdividef(x, 1 + __expf(-x));
#else
    return x / (1 + expf(-x));
#endif
}

static __device__ inline uint16_t silu_times(uint16_t gate, uint16_t up)
{
    return to_bf16(silu(from_bf16(gate)) * from_bf16(up));
}

// gate = silu(gate) * up, bf16, four at a time.
static __global__ void swiglu_narrow_kernel(uint16_t *gate, const uint16_t *up, int64_t n)
{
    cuda_next_may_begin();
    cuda_former();
    struct bf16_4 *to = reinterpret_cast<struct bf16_4 *>(gate);
    const struct bf16_4 *from = reinterpret_cast<const struct bf16_4 *>(up);
    FOR_EACH(i, n / 4)
    {
        const struct bf16_4 g = to[i], u = from[i];
        to[i] = { silu_times(g.x, u.x), silu_times(g.y, u.y), silu_times(g.z, u.z),
                  silu_times(g.w, u.w) };
    }
}

// What the products of qkv gave, and where it goes.
struct placing {
    float *q;                   // [n,H,d], turned in place
    const float *new_k, *new_v; // [n,Hkv,d]; new_v NULL: values are where they belong
    void *k, *v;                // [P,Hkv,d]
    enum dtype dtype;           // of both: f32 or bf16
    const float *cos, *sin;     // [n,d/2]
    const int32_t *rows;        // [n]
    int heads, kv_heads, half;
};

template <int COUNT>
static __device__ inline void put_some(void *data, int64_t i, const struct several<COUNT> &s,
                                       enum dtype dtype)
{
    if (dtype == DTYPE_F32)
        put_several(static_cast<float *>(data) + i, s);
    else if constexpr (COUNT == 1)
        put_number(data, i, s.x[0], dtype);
    else
        *reinterpret_cast<struct bf16_4 *>(static_cast<uint16_t *>(data) + i) =
            narrow4({ s.x[0], s.x[1], s.x[2], s.x[3] });
}

// Elements i.. of a head and those half a head on, turned or as they are.
template <int COUNT>
static __device__ inline void place_pairs(const struct placing &p, void *to, int64_t out,
                                          enum dtype dtype, const float *from, int64_t angle,
                                          bool turned)
{
    const struct several<COUNT> a = several_at<COUNT>(from), b = several_at<COUNT>(from + p.half);
    struct several<COUNT> x = a, y = b;
    if (turned) {
        const struct several<COUNT> c = several_at<COUNT>(p.cos + angle);
        const struct several<COUNT> s = several_at<COUNT>(p.sin + angle);
        for (int n = 0; n < COUNT; n++) {
            x.x[n] = a.x[n] * c.x[n] - b.x[n] * s.x[n];
            y.x[n] = b.x[n] * c.x[n] + a.x[n] * s.x[n];
        }
    }
    put_some(to, out, x, dtype);
    put_some(to, out + p.half, y, dtype);
}

// A block a row, a thread COUNT pairs of a head (element i with i + d/2, as rope.cu turns them).
template <int COUNT> static __global__ void place_kernel(const struct placing p)
{
    const int heads = p.heads + (p.new_v ? 2 : 1) * p.kv_heads, pieces = p.half / COUNT;
    const int64_t row = blockIdx.x;
    cuda_next_may_begin();
    cuda_former();
    const int64_t to = p.rows[row];
    for (int n = (int)threadIdx.x; n < heads * pieces; n += THREADS) {
        const int i = n % pieces * COUNT, head = n / pieces, kv = (head - p.heads) % p.kv_heads;
        const bool value = head >= p.heads + p.kv_heads;
        const int64_t angle = row * p.half + i;
        if (head < p.heads) {
            const int64_t at = (row * p.heads + head) * 2 * p.half + i;
            place_pairs<COUNT>(p, p.q, at, DTYPE_F32, p.q + at, angle, true);
        } else {
            const float *from = value ? p.new_v : p.new_k;
            place_pairs<COUNT>(p, value ? p.v : p.k, (to * p.kv_heads + kv) * 2 * p.half + i,
                               p.dtype, from + (row * p.kv_heads + kv) * 2 * p.half + i, angle,
                               !value);
        }
    }
}

// --- what the three share ------------------------------------------------------------------------

static bool aligned(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

// Are n rows of x with k numbers multiplied with these weights by cuBLASLt as bf16?
static bool many(int64_t n, const void *x, const struct fused_linear *w, int mode)
{
    return n > FEW_ROWS && mode == MATMUL_BF16 && w->w->dtype == DTYPE_BF16 &&
           tensor_row(w->w) % 4 == 0 && aligned(x);
}

static struct one_row_part part(const struct fused_linear *w, void *y)
{
    return { w->w->data, y, floats(w->bias), w->w->shape[0] };
}

static int norm_narrow(uint16_t *y, const struct tensor *h, const struct tensor *gain, float eps)
{
    const int64_t width = tensor_count(gain);
    return LAUNCH_EARLY(norm_narrow_kernel, (size_t)h->shape[0], THREADS, 0, y, floats(h),
                        floats(gain), width, eps);
}

// y (of `dtype`) = x w^T + bias, x [n,K] bf16; added to y where `add`.
static int multiply(void *y, enum dtype dtype, const uint16_t *x, int64_t n,
                    const struct fused_linear *w, bool add)
{
    const int64_t m = w->w->shape[0];
    const struct lt_product p = { .y = y,
                                  .y_dtype = dtype,
                                  .a = { x, DTYPE_BF16, false, 0 },
                                  .b = { w->w->data, DTYPE_BF16, false, 0 },
                                  .n = n,
                                  .m = m,
                                  .k = tensor_row(w->w),
                                  .row = m,
                                  .bias = floats(w->bias),
                                  .addend = add ? y : nullptr,
                                  .gelu = false };
    return lt_multiply(&p);
}

// --- queries, keys and values --------------------------------------------------------------------

static int place(const struct fused_qkv *p, const float *k, const float *v)
{
    const size_t n = (size_t)p->h->shape[0];
    const struct placing to = { .q = floats(p->q),
                                .new_k = k,
                                .new_v = v,
                                .k = p->k->data,
                                .v = p->v->data,
                                .dtype = p->k->dtype,
                                .cos = floats(p->cos),
                                .sin = floats(p->sin),
                                .rows = integers(p->rows),
                                .heads = (int)p->q->shape[1],
                                .kv_heads = (int)p->k->shape[1],
                                .half = (int)p->cos->shape[1] };
    const auto *keys = static_cast<const char *>(to.k), *values = static_cast<const char *>(to.v);
    if (in_fours(to.half, to.q, keys, values, to.cos, to.sin))
        return LAUNCH_EARLY(place_kernel<4>, n, THREADS, 0, to);
    return LAUNCH_EARLY(place_kernel<1>, n, THREADS, 0, to);
}

// Where the values' product may write itself: among the others, if they become one block of rows
// and need no rounding that a bias would come behind.
static void *values_place(const struct fused_qkv *p)
{
    const struct tensor *v = p->v;
    if (p->first < 0 || (v->dtype != DTYPE_F32 && p->wv.bias)) return nullptr;
    return static_cast<char *>(v->data) + (size_t)(p->first * tensor_row(v)) * dtype_size(v->dtype);
}

static int qkv_one(const struct fused_qkv *p)
{
    const enum dtype dtype = p->wq.w->dtype;
    if (p->wk.w->dtype != dtype || p->wv.w->dtype != dtype) return FUSED_NOT;
    const struct one_row one = { .x = floats(p->h),
                                 .gain = floats(p->gain),
                                 .eps = p->eps,
                                 .k = p->h->shape[1],
                                 .part = { part(&p->wq, p->q->data), part(&p->wk, p->k->data),
                                           part(&p->wv, p->v->data) },
                                 .parts = 3,
                                 .end = ONE_ROW_PLACE,
                                 .place = { floats(p->cos), floats(p->sin), integers(p->rows),
                                            (int)p->cos->shape[1], p->k->dtype },
                                 .dtype = dtype,
                                 .early = true };
    return one_row_product(&one);
}

static int qkv_many(const struct fused_qkv *p, uint16_t *x, float *k, float *v)
{
    const int64_t n = p->h->shape[0];
    if (norm_narrow(x, p->h, p->gain, p->eps) < 0) return -1;
    if (multiply(floats(p->q), DTYPE_F32, x, n, &p->wq, false) < 0) return -1;
    if (multiply(k, DTYPE_F32, x, n, &p->wk, false) < 0) return -1;
    void *to = values_place(p);
    const enum dtype dtype = to ? p->v->dtype : DTYPE_F32;
    if (multiply(to ? to : v, dtype, x, n, &p->wv, false) < 0) return -1;
    return place(p, k, to ? nullptr : v);
}

static int fused_qkv_cuda(const struct fused_qkv *p)
{
    const int64_t n = p->h->shape[0], width = p->h->shape[1];
    const int64_t kv = n * p->k->shape[1] * p->k->shape[2];
    const bool all = many(n, floats(p->h), &p->wq, p->mode) &&
                     many(n, floats(p->gain), &p->wk, p->mode) &&
                     many(n, floats(p->gain), &p->wv, p->mode);
    if (n == 1) return qkv_one(p);
    if (!all) return FUSED_NOT;
    char *scratch = static_cast<char *>(
        cuda_scratch((size_t)(2 * kv) * sizeof(float) + (size_t)(n * width) * 2 + 1024));
    if (!scratch) return -1;
    float *k = scratch_take<float>(&scratch, kv);
    float *v = scratch_take<float>(&scratch, kv);
    uint16_t *x = reinterpret_cast<uint16_t *>(scratch);
    return qkv_many(p, x, k, v);
}

// --- h += x w^T ----------------------------------------------------------------------------------

static int fused_add_cuda(const struct fused_add *p)
{
    const int64_t n = p->h->shape[0], k = tensor_row(p->w.w);
    if (n == 1) {
        const struct one_row one = { .x = floats(p->x),
                                     .gain = nullptr,
                                     .eps = 0,
                                     .k = k,
                                     .part = { part(&p->w, floats(p->h)) },
                                     .parts = 1,
                                     .end = ONE_ROW_ADD,
                                     .place = {},
                                     .dtype = p->w.w->dtype,
                                     .early = true };
        return one_row_product(&one);
    }
    if (!many(n, floats(p->x), &p->w, p->mode)) return FUSED_NOT;
    uint16_t *x = static_cast<uint16_t *>(cuda_scratch((size_t)(n * k) * sizeof *x));
    if (!x || matmul_narrow(x, p->x->data, n * k, DTYPE_F32) < 0) return -1;
    return multiply(floats(p->h), DTYPE_F32, x, n, &p->w, true);
}

static int fused_attend_cuda(const struct fused_attend *p)
{
    const int64_t n = p->h->shape[0];
    struct attention_call c = attention_call_of(p->q, p->k, p->v, p->first, p->last, p->scale);
    if (!many(n, floats(p->h), &p->w, p->mode) || !attention_mma_ready(&c)) return FUSED_NOT;
    uint16_t *y = static_cast<uint16_t *>(cuda_scratch((size_t)tensor_count(p->q) * sizeof *y));
    if (!y) return -1;
    c.y = reinterpret_cast<float *>(y);
    c.rounded = true;
    if (attention_mma(&c, nullptr) < 0) return -1;
    return multiply(floats(p->h), DTYPE_F32, y, n, &p->w, true);
}

// --- FFN -----------------------------------------------------------------------------------------

static int ffn_one(const struct fused_ffn *p, float *y)
{
    const enum dtype dtype = p->gate.w->dtype;
    if (p->up.w->dtype != dtype || p->down.w->dtype != dtype) return FUSED_NOT;
    struct one_row one = { .x = floats(p->h),
                           .gain = floats(p->gain),
                           .eps = p->eps,
                           .k = p->h->shape[1],
                           .part = { part(&p->gate, y), part(&p->up, nullptr) },
                           .parts = 2,
                           .end = ONE_ROW_SWIGLU,
                           .place = {},
                           .dtype = dtype,
                           .early = true };
    const int status = one_row_product(&one);
    if (status) return status;
    one = { .x = y,
            .gain = nullptr,
            .eps = 0,
            .k = tensor_row(p->down.w),
            .part = { part(&p->down, floats(p->h)) },
            .parts = 1,
            .end = ONE_ROW_ADD,
            .place = {},
            .dtype = dtype,
            .early = true };
    return one_row_product(&one); // FUSED_NOT: h is still as it was, the ops begin anew
}

static int ffn_many(const struct fused_ffn *p, uint16_t *x, uint16_t *gate, uint16_t *up)
{
    const int64_t n = p->h->shape[0], inner = n * tensor_row(p->down.w);
    if (norm_narrow(x, p->h, p->gain, p->eps) < 0 ||
        multiply(gate, DTYPE_BF16, x, n, &p->gate, false) < 0 ||
        multiply(up, DTYPE_BF16, x, n, &p->up, false) < 0 ||
        LAUNCH_EARLY(swiglu_narrow_kernel, blocks_for(inner / 4, THREADS), THREADS, 0, gate, up,
                     inner) < 0)
        return -1;
    return multiply(floats(p->h), DTYPE_F32, gate, n, &p->down, true);
}

static int fused_ffn_cuda(const struct fused_ffn *p)
{
    const int64_t n = p->h->shape[0], width = p->h->shape[1], inner = tensor_row(p->down.w);
    const bool plain = !p->gate.bias && !p->up.bias; // a bias of a bf16 result would be bf16
    const bool all = plain && many(n, floats(p->h), &p->gate, p->mode) &&
                     many(n, floats(p->gain), &p->up, p->mode) &&
                     many(n, floats(p->h), &p->down, p->mode);
    if (n != 1 && !all) return FUSED_NOT;
    char *scratch = static_cast<char *>(
        cuda_scratch((size_t)(n * (2 * inner + width)) * sizeof(uint16_t) + 1024));
    if (!scratch) return -1;
    if (n == 1) return ffn_one(p, reinterpret_cast<float *>(scratch));
    uint16_t *x = scratch_take<uint16_t>(&scratch, n * width);
    uint16_t *gate = scratch_take<uint16_t>(&scratch, n * inner);
    return ffn_many(p, x, gate, reinterpret_cast<uint16_t *>(scratch));
}

// --- GELU ----------------------------------------------------------------------------------------

// cuBLASLt's own is the tanh form.
static int fused_gelu_cuda(const struct fused_gelu *p)
{
    const int64_t n = p->x->shape[0], k = p->x->shape[1], m = p->w.w->shape[0];
    if (p->form != GELU_TANH || !p->w.bias || !many(n, floats(p->x), &p->w, p->mode))
        return FUSED_NOT;
    uint16_t *x = static_cast<uint16_t *>(cuda_scratch((size_t)(n * k) * sizeof *x));
    if (!x) return -1;
    const struct lt_product product = { .y = floats(p->y),
                                        .y_dtype = DTYPE_F32,
                                        .a = { x, DTYPE_BF16, false, 0 },
                                        .b = { p->w.w->data, DTYPE_BF16, false, 0 },
                                        .n = n,
                                        .m = m,
                                        .k = k,
                                        .row = m,
                                        .bias = floats(p->w.bias),
                                        .addend = nullptr,
                                        .gelu = true };
    if (!lt_can(&product)) return FUSED_NOT;
    return matmul_narrow(x, p->x->data, n * k, DTYPE_F32) < 0 ? -1 : lt_multiply(&product);
}

const struct fused fused_cuda = { .qkv = fused_qkv_cuda,
                                  .attend = fused_attend_cuda,
                                  .add = fused_add_cuda,
                                  .ffn = fused_ffn_cuda,
                                  .gelu = fused_gelu_cuda };
