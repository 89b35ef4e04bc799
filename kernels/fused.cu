// kernels/fused.cu -- the parts of a decoder layer beside attention, each in one call (fused.h).
//
//   one row:    qkv:  norm, three products, rope and the cache's new row in one kernel
//               add:  product added to h in one kernel, as behind attention
//               ffn:  norm, two products, silu in one kernel; product added to h in one
//   many rows:  the same with cuBLASLt between: what it reads is written by the kernel in front as
//               bf16, or f16 where the weights are that; gate and up are never f32 in memory, and h
//               is added by the product itself.
//   the way back of many rows: gradients are rounded to bf16 once, by the kernel that has them; the
//               products to x add up in one place, from which the norm's kernel adds to dh.
//
// Rows between, MATMUL_F32 and f32 weights for many rows are left to the ops. f16 goes no way back.
#include "kernels/attention_cuda.h"
#include "kernels/columns_cuda.h"
#include "kernels/matmul_cuda.h"
#include "kernels/pack_cuda.h"

static constexpr int THREADS = 256;

// --- small kernels -------------------------------------------------------------------------------

// y = rmsnorm(x) * gain, a block a row; n is a multiple of 4.
template <bool HALF>
static __global__ void norm_narrow_kernel(uint16_t *y, const float *x, const float *gain, int64_t n,
                                          float eps)
{
    cuda_next_may_begin();
    cuda_former();
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

// What is rounded needs no more than the GPU's own functions give.
static __device__ inline float times_sigmoid(float x, float of)
{
#ifdef __CUDA_ARCH__
    return __fdividef(x, 1 + __expf(-of));
#else
    return x / (1 + expf(-of));
#endif
}

// A product that cuBLASLt wrote. What was beyond f16 is infinite there: the largest number stands
// for it, where transformers computing in f16 goes on with infinities and NaNs.
template <bool HALF> static __device__ inline float product_of(uint16_t x)
{
    return HALF ? within_f16(from_f16(x)) : from_bf16(x);
}

template <bool HALF> static __device__ inline uint16_t silu_times(uint16_t gate, uint16_t up)
{
    const float g = product_of<HALF>(gate);
    return to_short<HALF>(times_sigmoid(g, g) * product_of<HALF>(up));
}

// y = silu(gate) * up, four at a time; y may be gate.
template <bool HALF>
static __global__ void swiglu_narrow_kernel(struct four_shorts *y, const struct four_shorts *gate,
                                            const struct four_shorts *up, int64_t fours)
{
    cuda_next_may_begin();
    cuda_former();
    FOR_EACH(i, fours)
    {
        const struct four_shorts g = gate[i], u = up[i];
        y[i] = { silu_times<HALF>(g.x, u.x), silu_times<HALF>(g.y, u.y), silu_times<HALF>(g.z, u.z),
                 silu_times<HALF>(g.w, u.w) };
    }
}

// The gradients of gate and up in their places; silu'(g) = s (1 + g (1 - s)), s = sigmoid(g).
static __device__ inline void silu_back(uint16_t *gate, uint16_t *up, uint16_t dy)
{
    const float d = from_bf16(dy), g = from_bf16(*gate), u = from_bf16(*up),
                s = times_sigmoid(1, g);
    *up = to_bf16(d * g * s);
    *gate = to_bf16(d * u * s * (1 + g * (1 - s)));
}

// The same of all, four at a time.
static __global__ void swiglu_back_narrow_kernel(struct four_shorts *gate, struct four_shorts *up,
                                                 const struct four_shorts *dy, int64_t fours)
{
    cuda_next_may_begin();
    cuda_former();
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

// What the products of qkv gave, and where it goes.
struct placing {
    const float *new_q;         // [n,H,d]
    const float *new_k, *new_v; // [n,Hkv,d]; new_v NULL: values are where they belong
    void *q;                    // [n,H,d], may be new_q
    void *k, *v;                // [P,Hkv,d]
    enum dtype q_dtype, dtype;  // of q; of k and v: f32 or bf16
    const float *cos, *sin;     // [n,d/2]
    const int32_t *places;      // [n]; NULL: 0, 1 ..
    float way;                  // 1, or -1: turned back
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
        *reinterpret_cast<struct four_shorts *>(static_cast<uint16_t *>(data) + i) =
            narrow4<false>({ s.x[0], s.x[1], s.x[2], s.x[3] });
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
            x.x[n] = a.x[n] * c.x[n] - b.x[n] * (p.way * s.x[n]);
            y.x[n] = b.x[n] * c.x[n] + a.x[n] * (p.way * s.x[n]);
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
    const int64_t to = p.places ? p.places[row] : row;
    for (int n = (int)threadIdx.x; n < heads * pieces; n += THREADS) {
        const int i = n % pieces * COUNT, head = n / pieces, kv = (head - p.heads) % p.kv_heads;
        const bool value = head >= p.heads + p.kv_heads;
        const int64_t angle = row * p.half + i;
        if (head < p.heads) {
            const int64_t at = (row * p.heads + head) * 2 * p.half + i;
            place_pairs<COUNT>(p, p.q, at, p.q_dtype, p.new_q + at, angle, true);
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

// Are n rows of x with k numbers, rounded, multiplied with these weights by cuBLASLt?
static bool many(int64_t n, const void *x, const struct fused_linear *w, int mode)
{
    return cuda_multiplies_rounded(n, w->w, mode) && aligned(x);
}

static struct one_row_part part(const struct fused_linear *w, void *y)
{
    return { w->w->data, y, floats(w->bias), w->w->shape[0] };
}

static int norm_narrow(uint16_t *y, enum dtype dtype, const struct tensor *h,
                       const struct tensor *gain, float eps)
{
    const int64_t width = tensor_count(gain);
    const auto kernel = dtype == DTYPE_F16 ? norm_narrow_kernel<true> : norm_narrow_kernel<false>;
    return LAUNCH_EARLY(kernel, (size_t)h->shape[0], THREADS, 0, y, floats(h), floats(gain), width,
                        eps);
}

// y (of `dtype`) = x w^T + bias + addend (may be NULL), x [n,K] of w's dtype.
static int multiply(void *y, enum dtype dtype, const uint16_t *x, int64_t n,
                    const struct fused_linear *w, const void *addend)
{
    const int64_t m = w->w->shape[0];
    const struct lt_product p = { .y = y,
                                  .y_dtype = dtype,
                                  .a = { x, w->w->dtype, false, 0 },
                                  .b = { w->w->data, w->w->dtype, false, 0 },
                                  .n = n,
                                  .m = m,
                                  .k = tensor_row(w->w),
                                  .row = m,
                                  .bias = floats(w->bias),
                                  .addend = addend,
                                  .gelu = false };
    return lt_multiply(&p);
}

// y [n,K] (of `dtype`) = dy w + addend (may be NULL), dy [n,M] bf16.
static int multiply_back(void *y, enum dtype dtype, const uint16_t *dy, const struct tensor *w,
                         int64_t n, const void *addend)
{
    const int64_t m = tensor_row(w);
    const struct lt_product p = { .y = y,
                                  .y_dtype = dtype,
                                  .a = { dy, DTYPE_BF16, false, 0 },
                                  .b = { w->data, DTYPE_BF16, true, 0 },
                                  .n = n,
                                  .m = m,
                                  .k = w->shape[0],
                                  .row = m,
                                  .bias = nullptr,
                                  .addend = addend,
                                  .gelu = false };
    return lt_multiply(&p);
}

// Bytes of scratch for what comes back to the norm, [n,width], and its stats; and for beginning
// each part of the scratch where it must.
static size_t norm_back_room(int64_t n, int64_t width)
{
    return (size_t)(n * width) * sizeof(float) + (size_t)n * sizeof(struct row_stats) + 1024;
}

// --- queries, keys and values --------------------------------------------------------------------

static int place_rows(const struct placing *to, int64_t n)
{
    const auto *q = static_cast<const char *>(to->q);
    const auto *k = static_cast<const char *>(to->k), *v = static_cast<const char *>(to->v);
    if (in_fours(to->half, to->new_q, to->new_k, to->new_v, q, k, v, to->cos, to->sin))
        return LAUNCH_EARLY(place_kernel<4>, (size_t)n, THREADS, 0, *to);
    return LAUNCH_EARLY(place_kernel<1>, (size_t)n, THREADS, 0, *to);
}

static int place(const struct fused_qkv *p, const float *k, const float *v)
{
    const struct placing to = { .new_q = floats(p->q),
                                .new_k = k,
                                .new_v = v,
                                .q = p->q->data,
                                .k = p->k->data,
                                .v = p->v->data,
                                .q_dtype = DTYPE_F32,
                                .dtype = p->k->dtype,
                                .cos = floats(p->cos),
                                .sin = floats(p->sin),
                                .places = integers(p->places),
                                .way = 1,
                                .heads = (int)p->q->shape[1],
                                .kv_heads = (int)p->k->shape[1],
                                .half = (int)p->cos->shape[1] };
    return place_rows(&to, p->h->shape[0]);
}

// Where the values' product may write itself: among the others, if they become one block of rows
// and need no rounding that a bias would come behind, or that the product does not do.
static void *values_place(const struct fused_qkv *p)
{
    const struct tensor *v = p->v;
    const bool rounds = v->dtype != DTYPE_F32;
    if (p->first < 0 || (rounds && (p->wv.bias || p->wv.w->dtype != v->dtype))) return nullptr;
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
                                 .place = { floats(p->cos), floats(p->sin), integers(p->places),
                                            (int)p->cos->shape[1], p->k->dtype },
                                 .dtype = dtype,
                                 .early = true };
    return one_row_product(&one);
}

static int qkv_many(const struct fused_qkv *p, uint16_t *x, float *k, float *v)
{
    const int64_t n = p->h->shape[0];
    if (norm_narrow(x, p->wq.w->dtype, p->h, p->gain, p->eps) < 0) return -1;
    if (multiply(p->q->data, DTYPE_F32, x, n, &p->wq, nullptr) < 0) return -1;
    if (multiply(k, DTYPE_F32, x, n, &p->wk, nullptr) < 0) return -1;
    void *to = values_place(p);
    const enum dtype dtype = to ? p->v->dtype : DTYPE_F32;
    if (multiply(to ? to : v, dtype, x, n, &p->wv, nullptr) < 0) return -1;
    return place(p, k, to ? nullptr : v);
}

static int fused_qkv_cuda(const struct fused_qkv *p)
{
    const int64_t n = p->h->shape[0], width = p->h->shape[1];
    const int64_t kv = n * p->k->shape[1] * p->k->shape[2];
    const bool all = many(n, floats(p->h), &p->wq, p->mode) &&
                     many(n, floats(p->gain), &p->wk, p->mode) &&
                     many(n, floats(p->gain), &p->wv, p->mode) &&
                     p->wk.w->dtype == p->wq.w->dtype && p->wv.w->dtype == p->wq.w->dtype;
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

// dq, dk and dv turned back as bf16; what comes back through the three products, and through the
// norm.
static int fused_qkv_back_cuda(const struct fused_qkv_back *p)
{
    const int64_t n = p->h->shape[0], width = p->h->shape[1];
    const int64_t queries = tensor_count(p->dq), keys = tensor_count(p->dk);
    char *scratch = static_cast<char *>(
        cuda_scratch((size_t)(queries + 2 * keys) * sizeof(uint16_t) + norm_back_room(n, width)));
    if (!scratch) return -1;
    uint16_t *q = scratch_take<uint16_t>(&scratch, queries);
    uint16_t *k = scratch_take<uint16_t>(&scratch, keys);
    uint16_t *v = scratch_take<uint16_t>(&scratch, keys);
    float *dx = scratch_take<float>(&scratch, n * width);
    const struct placing back = { .new_q = floats(p->dq),
                                  .new_k = floats(p->dk),
                                  .new_v = floats(p->dv),
                                  .q = q,
                                  .k = k,
                                  .v = v,
                                  .q_dtype = DTYPE_BF16,
                                  .dtype = DTYPE_BF16,
                                  .cos = floats(p->cos),
                                  .sin = floats(p->sin),
                                  .places = nullptr,
                                  .way = -1,
                                  .heads = (int)p->dq->shape[1],
                                  .kv_heads = (int)p->dk->shape[1],
                                  .half = (int)p->cos->shape[1] };
    if (place_rows(&back, n) < 0 || multiply_back(dx, DTYPE_F32, q, p->wq, n, nullptr) < 0 ||
        multiply_back(dx, DTYPE_F32, k, p->wk, n, dx) < 0 ||
        multiply_back(dx, DTYPE_F32, v, p->wv, n, dx) < 0)
        return -1;
    return rmsnorm_back(floats(p->dh), floats(p->dgain), dx, floats(p->h), floats(p->gain), p->eps,
                        n, width, reinterpret_cast<struct row_stats *>(scratch));
}

// --- h + x w^T -----------------------------------------------------------------------------------

static int fused_add_cuda(const struct fused_add *p)
{
    const int64_t n = p->h->shape[0], k = tensor_row(p->w.w);
    if (n == 1) {
        const struct one_row one = { .x = floats(p->x),
                                     .gain = nullptr,
                                     .eps = 0,
                                     .k = k,
                                     .part = { part(&p->w, floats(p->y)) },
                                     .parts = 1,
                                     .end = ONE_ROW_ADD,
                                     .place = {},
                                     .dtype = p->w.w->dtype,
                                     .early = true };
        return one_row_product(&one);
    }
    if (!many(n, floats(p->x), &p->w, p->mode)) return FUSED_NOT;
    uint16_t *x = static_cast<uint16_t *>(cuda_scratch((size_t)(n * k) * sizeof *x));
    if (!x || matmul_narrow(x, p->w.w->dtype, p->x->data, n * k, DTYPE_F32) < 0) return -1;
    return multiply(p->y->data, DTYPE_F32, x, n, &p->w, p->h->data);
}

static int fused_attend_cuda(const struct fused_attend *p)
{
    const int64_t n = p->h->shape[0];
    struct attention_call c = attention_call_of(p->q, p->k, p->v, p->first, p->last, p->scale);
    if (!many(n, floats(p->h), &p->w, p->mode) || !attention_mma_ready(&c)) return FUSED_NOT;
    uint16_t *y = static_cast<uint16_t *>(cuda_scratch((size_t)tensor_count(p->q) * sizeof *y));
    if (!y) return -1;
    c.y = reinterpret_cast<float *>(y);
    c.y_dtype = p->w.w->dtype;
    if (attention_mma(&c, nullptr) < 0) return -1;
    return multiply(p->h->data, DTYPE_F32, y, n, &p->w, p->h->data);
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
            .part = { part(&p->down, floats(p->y)) },
            .parts = 1,
            .end = ONE_ROW_ADD,
            .place = {},
            .dtype = dtype,
            .early = true };
    return one_row_product(&one); // FUSED_NOT: h is still as it was
}

// act [n,F] may be gate.
static int ffn_many(const struct fused_ffn *p, uint16_t *x, uint16_t *gate, uint16_t *up,
                    uint16_t *act)
{
    const int64_t n = p->h->shape[0], fours = n * tensor_row(p->down.w) / 4;
    const enum dtype dtype = p->gate.w->dtype;
    const auto swiglu =
        dtype == DTYPE_F16 ? swiglu_narrow_kernel<true> : swiglu_narrow_kernel<false>;
    if (norm_narrow(x, dtype, p->h, p->gain, p->eps) < 0 ||
        multiply(gate, dtype, x, n, &p->gate, nullptr) < 0 ||
        multiply(up, dtype, x, n, &p->up, nullptr) < 0)
        return -1;
    if (!p->y) return 0;
    if (LAUNCH_EARLY(swiglu, blocks_for(fours, THREADS), THREADS, 0,
                     reinterpret_cast<struct four_shorts *>(act),
                     reinterpret_cast<const struct four_shorts *>(gate),
                     reinterpret_cast<const struct four_shorts *>(up), fours) < 0)
        return -1;
    return multiply(p->y->data, DTYPE_F32, act, n, &p->down, p->h->data);
}

static int fused_ffn_cuda(const struct fused_ffn *p)
{
    const int64_t n = p->h->shape[0], width = p->h->shape[1], inner = tensor_row(p->down.w);
    // A bias of a rounded result would be rounded.
    const bool plain = !p->gate.bias && !p->up.bias && p->up.w->dtype == p->gate.w->dtype &&
                       p->down.w->dtype == p->gate.w->dtype;
    const bool all = plain && many(n, floats(p->h), &p->gate, p->mode) &&
                     many(n, floats(p->gain), &p->up, p->mode) &&
                     many(n, floats(p->h), &p->down, p->mode);
    if (n == 1 ? p->saved_gate != nullptr : !all) return FUSED_NOT;
    const int64_t wide = p->saved_gate ? (p->y ? 1 : 0) : 2; // [n,F] in scratch
    char *scratch = static_cast<char *>(
        cuda_scratch((size_t)(n * (wide * inner + width)) * sizeof(uint16_t) + 1024));
    if (!scratch) return -1;
    if (n == 1) return ffn_one(p, reinterpret_cast<float *>(scratch));
    uint16_t *x = scratch_take<uint16_t>(&scratch, n * width);
    uint16_t *act = scratch_take<uint16_t>(&scratch, wide ? n * inner : 0);
    if (!p->saved_gate) return ffn_many(p, x, act, reinterpret_cast<uint16_t *>(scratch), act);
    return ffn_many(p, x, static_cast<uint16_t *>(p->saved_gate->data),
                    static_cast<uint16_t *>(p->saved_up->data), act);
}

static int ffn_back(const struct fused_ffn_back *p, uint16_t *dy, uint16_t *dact, float *dx,
                    struct row_stats *stats)
{
    const int64_t n = p->h->shape[0], width = p->h->shape[1], fours = tensor_count(p->saved_up) / 4;
    auto *gate = static_cast<uint16_t *>(p->saved_gate->data);
    auto *up = static_cast<uint16_t *>(p->saved_up->data);
    if (matmul_narrow(dy, DTYPE_BF16, p->dy->data, n * width, DTYPE_F32) < 0 ||
        multiply_back(dact, DTYPE_BF16, dy, p->down, n, nullptr) < 0 ||
        LAUNCH_EARLY(swiglu_back_narrow_kernel, blocks_for(fours, THREADS), THREADS, 0,
                     reinterpret_cast<struct four_shorts *>(gate),
                     reinterpret_cast<struct four_shorts *>(up),
                     reinterpret_cast<const struct four_shorts *>(dact), fours) < 0 ||
        multiply_back(dx, DTYPE_F32, gate, p->gate, n, nullptr) < 0 ||
        multiply_back(dx, DTYPE_F32, up, p->up, n, dx) < 0)
        return -1;
    return rmsnorm_back(floats(p->dh), floats(p->dgain), dx, floats(p->h), floats(p->gain), p->eps,
                        n, width, stats);
}

static int fused_ffn_back_cuda(const struct fused_ffn_back *p)
{
    const int64_t n = p->h->shape[0], width = p->h->shape[1], inner = tensor_count(p->saved_up);
    char *scratch = static_cast<char *>(
        cuda_scratch((size_t)(n * width + inner) * sizeof(uint16_t) + norm_back_room(n, width)));
    if (!scratch) return -1;
    uint16_t *dy = scratch_take<uint16_t>(&scratch, n * width);
    uint16_t *dact = scratch_take<uint16_t>(&scratch, inner);
    float *dx = scratch_take<float>(&scratch, n * width);
    return ffn_back(p, dy, dact, dx, reinterpret_cast<struct row_stats *>(scratch));
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
                                        .a = { x, p->w.w->dtype, false, 0 },
                                        .b = { p->w.w->data, p->w.w->dtype, false, 0 },
                                        .n = n,
                                        .m = m,
                                        .k = k,
                                        .row = m,
                                        .bias = floats(p->w.bias),
                                        .addend = nullptr,
                                        .gelu = true };
    if (!lt_can(&product)) return FUSED_NOT;
    return matmul_narrow(x, p->w.w->dtype, p->x->data, n * k, DTYPE_F32) < 0
               ? -1
               : lt_multiply(&product);
}

const struct fused fused_cuda = { .qkv = fused_qkv_cuda,
                                  .attend = fused_attend_cuda,
                                  .add = fused_add_cuda,
                                  .ffn = fused_ffn_cuda,
                                  .ffn_back = fused_ffn_back_cuda,
                                  .qkv_back = fused_qkv_back_cuda,
                                  .gelu = fused_gelu_cuda };
