// kernels/fused_heads.cu -- queries, keys and values of a layer in one call, forward and backward
// (fused.h).
//
// Few rows: norm, three products, rope and the cache's new rows in one kernel; in two if heads are
// normed, because several blocks compute a head's elements.
// Many rows: norm, products by cuBLASLt (one if they share a weight), and a kernel that rotates the
// results and stores them.
// Backward: gradients are rotated back and rounded to bf16, in the layout of the products.
#include "kernels/fused_cuda.h"
#include "kernels/pack_cuda.h"

static constexpr int THREADS = 256, WARPS = THREADS / WARP;

// --- storing heads -------------------------------------------------------------------------------

// Queries, keys or values, both as products and as heads. In the backward pass the products are
// bf16 and the heads f32.
struct heads {
    void *product;        // f32 [n,width]; NULL: values already in place
    void *heads;          // [.., heads, d]; for queries, may be `product`
    int64_t width;        // elements per row of products
    int first, run, step; // layout of a row of products: struct fused_linear
    enum dtype dtype;     // of the heads
    const float *gain;    // [d] or NULL
};

struct heads_call {
    struct heads part[3];      // q, k, v
    const float *cos, *sin;    // [n,d/2]; NULL: no rotation
    const int32_t *cache_rows; // [n] rows of k and v; NULL: 0, 1 ..
    float eps;
    int heads, kv_heads, half, adjacent;
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

// The first and the second elements of COUNT rotary pairs.
template <int COUNT> struct pairs {
    struct several<COUNT> a, b;
};

// Reads COUNT pairs of a head's product, from pair i on.
template <int COUNT>
static __device__ inline struct pairs<COUNT> pairs_at(const float *from, int i, int half,
                                                      int adjacent) {
    struct pairs<COUNT> p;
    if (!adjacent) return { several_at<COUNT>(from + i), several_at<COUNT>(from + i + half) };
    for (int n = 0; n < COUNT; n++) {
        p.a.x[n] = from[pair_number(i + n, 0, half, adjacent)];
        p.b.x[n] = from[pair_number(i + n, 1, half, adjacent)];
    }
    return p;
}

template <int COUNT>
static __device__ inline void put_pairs(uint16_t *to, const struct pairs<COUNT> &p, int i, int half,
                                        int adjacent)
{
    if (!adjacent) {
        put_some(to, i, p.a, DTYPE_BF16);
        put_some(to, i + half, p.b, DTYPE_BF16);
        return;
    }
    for (int n = 0; n < COUNT; n++) {
        to[pair_number(i + n, 0, half, adjacent)] = to_bf16(p.a.x[n]);
        to[pair_number(i + n, 1, half, adjacent)] = to_bf16(p.b.x[n]);
    }
}

// Rotates by the angles times `way`, 1 or -1.
template <int COUNT>
static __device__ inline struct pairs<COUNT> rotated(const struct pairs<COUNT> &p, const float *cos,
                                                     const float *sin, float way) {
    const struct several<COUNT> c = several_at<COUNT>(cos), s = several_at<COUNT>(sin);
    struct pairs<COUNT> to;
    for (int n = 0; n < COUNT; n++) {
        to.a.x[n] = p.a.x[n] * c.x[n] - p.b.x[n] * (way * s.x[n]);
        to.b.x[n] = p.b.x[n] * c.x[n] + p.a.x[n] * (way * s.x[n]);
    }
    return to;
}

template <int COUNT>
static __device__ inline struct pairs<COUNT> scaled(struct pairs<COUNT> p, float scale,
                                                    const struct pairs<COUNT> &gain) {
    for (int n = 0; n < COUNT; n++) {
        p.a.x[n] *= scale * gain.a.x[n];
        p.b.x[n] *= scale * gain.b.x[n];
    }
    return p;
}

// Offset of element `number` of a row of queries, keys or values in the products.
static __device__ inline int64_t
product_at(const struct heads &p, int64_t row, int number)
{
    return row * p.width + p.first + (int64_t)(number / p.run) * p.step + number % p.run;
}

// Computes scale[head] of the norms of queries and keys, with one warp per head.
static __device__ inline void norm_heads(float *scale, const struct heads_call &p, int64_t row)
{
    const int d = 2 * p.half, lane = (int)threadIdx.x % WARP;
    for (int head = (int)threadIdx.x / WARP; head < p.heads + p.kv_heads; head += WARPS) {
        const bool key = head >= p.heads;
        const struct heads &part = p.part[key];
        const float *x = static_cast<const float *>(part.product) +
                         product_at(part, row, (key ? head - p.heads : head) * d);
        float squares = 0;
        for (int i = lane; i < d; i += WARP) squares += x[i] * x[i];
        squares = warp_sum(squares);
        if (lane == 0) scale[head] = 1 / sqrtf(squares / (float)d + p.eps);
    }
    __syncthreads();
}

// One block per row; a thread handles COUNT pairs of a head.
template <int COUNT, bool BACK>
static __global__ void store_kernel(const __grid_constant__ struct heads_call p)
{
    SHARED_MEMORY(float, scale); // [H + Hkv], if heads are normed
    const int half = p.half, pieces = half / COUNT;
    const int heads = p.heads + (p.part[2].product ? 2 : 1) * p.kv_heads;
    const int64_t row = blockIdx.x;
    cuda_let_next_start();
    cuda_wait_previous();
    const int64_t to = p.cache_rows ? p.cache_rows[row] : row;
    if (p.part[0].gain) norm_heads(scale, p, row);
    for (int n = (int)threadIdx.x; n < heads * pieces; n += THREADS) {
        const int i = n % pieces * COUNT, head = n / pieces;
        const int which = head < p.heads ? 0 : head < p.heads + p.kv_heads ? 1 : 2;
        const int own = which ? (head - p.heads) % p.kv_heads : head;
        const struct heads &part = p.part[which];
        const int adjacent = which == 2 ? 0 : p.adjacent;
        const int64_t from = product_at(part, row, own * 2 * half), angle = row * half + i;
        const int64_t at =
            ((which ? to * p.kv_heads : row * p.heads) + own) * 2 * half; // offset of the head
        const float *const x = static_cast<const float *>(BACK ? part.heads : part.product);
        struct pairs<COUNT> pair =
            pairs_at<COUNT>(x + (BACK ? at : from), i, half, BACK ? 0 : adjacent);
        if (part.gain)
            pair = scaled(pair, scale[head], pairs_at<COUNT>(part.gain, i, half, adjacent));
        if (which != 2 && p.cos) pair = rotated(pair, p.cos + angle, p.sin + angle, BACK ? -1 : 1);
        if (BACK) {
            put_pairs(static_cast<uint16_t *>(part.product) + from, pair, i, half, adjacent);
        } else {
            put_some(part.heads, at + i, pair.a, part.dtype);
            put_some(part.heads, at + i + half, pair.b, part.dtype);
        }
    }
}

template <bool BACK> static int store_rows(const struct heads_call *to, int64_t n)
{
    const struct heads_call p = *to;
    const auto at = [&](int i) { return static_cast<const char *>(p.part[i].product); };
    const auto heads = [&](int i) { return static_cast<const char *>(p.part[i].heads); };
    const auto gain = [&](int i) { return p.part[i].gain; };
    const bool fours = in_fours(p.half, at(0), at(1), at(2), heads(0), heads(1), heads(2)) &&
                       in_fours(p.half, p.cos, p.sin, gain(0), gain(1));
    const size_t shared = gain(0) ? (size_t)(p.heads + p.kv_heads) * sizeof(float) : 0;
    const auto kernel = fours ? store_kernel<4, BACK> : store_kernel<1, BACK>;
    return LAUNCH_EARLY(kernel, (size_t)n, THREADS, shared, p);
}

// --- forward -------------------------------------------------------------------------------------

// True if q, k and v share one weight.
static bool packed(const struct fused_linear *q, const struct fused_linear *k,
                   const struct fused_linear *v)
{
    return q->w == k->w && q->w == v->w;
}

// Describes w's products (`numbers` elements per row, from `product` on) and the heads that they
// become.
static struct heads heads_of(const struct fused_linear *w, void *product, void *heads,
                             int64_t numbers)
{
    return { .product = product,
             .heads = heads,
             .width = w->run ? w->w->shape[0] : numbers,
             .first = (int)w->first,
             .run = (int)(w->run ? w->run : numbers),
             .step = (int)w->step,
             .dtype = DTYPE_F32,
             .gain = nullptr };
}

static int64_t row_of(const struct tensor *heads)
{
    return heads->shape[1] * heads->shape[2];
}

// Stores the products of q, k and v as heads. product[2] NULL: the values are in place already.
static int store_heads(const struct fused_qkv *p, float *const product[3])
{
    struct heads_call to = { .part = { heads_of(&p->wq, product[0], p->q->data, row_of(p->q)),
                                       heads_of(&p->wk, product[1], p->k->data, row_of(p->k)),
                                       heads_of(&p->wv, product[2], p->v->data, row_of(p->v)) },
                             .cos = floats(p->cos),
                             .sin = floats(p->sin),
                             .cache_rows = integers(p->cache_rows),
                             .eps = p->eps,
                             .heads = (int)p->q->shape[1],
                             .kv_heads = (int)p->k->shape[1],
                             .half = (int)p->cos->shape[1],
                             .adjacent = (int)p->adjacent };
    to.part[1].dtype = to.part[2].dtype = p->k->dtype;
    to.part[0].gain = floats(p->q_gain);
    to.part[1].gain = floats(p->k_gain);
    return store_rows<false>(&to, p->h->shape[0]);
}

// Returns the address to which the values' product can be written directly, or NULL. Direct writing
// needs consecutive rows; unless values are f32, it also needs a weight of the values' dtype and no
// bias.
static void *values_target(const struct fused_qkv *p)
{
    const struct tensor *v = p->v;
    const bool rounds = v->dtype != DTYPE_F32;
    if (p->first < 0 || (rounds && (p->wv.bias || p->wv.w->dtype != v->dtype))) return nullptr;
    return static_cast<char *>(v->data) + (size_t)(p->first * tensor_row(v)) * dtype_size(v->dtype);
}

static struct few_rows few_products(const struct fused_qkv *p)
{
    struct few_rows few =
        few_rows_of(floats(p->h), p->h->shape[0], p->h->shape[1], 3, FEW_ROWS_HEADS);
    few.gain = floats(p->gain);
    few.eps = p->eps;
    few.part[0] = fused_part(&p->wq, p->q->data, row_of(p->q));
    few.part[1] = fused_part(&p->wk, p->k->data, row_of(p->k));
    few.part[2] = fused_part(&p->wv, p->v->data, row_of(p->v));
    few.heads = { floats(p->cos),        floats(p->sin),   integers(p->cache_rows),
                  (int)p->cos->shape[1], (int)p->adjacent, p->k->dtype };
    few.part[1].what = FEW_ROWS_KEYS;
    few.part[2].what = FEW_ROWS_VALUES;
    return few;
}

// Computes the products into scratch, in the layout that store_heads expects; then stores the
// heads.
static int normed_few(const struct fused_qkv *p)
{
    struct fused_qkv plain = *p;
    struct few_rows few = few_products(p);
    float *product[3];
    char *scratch = static_cast<char *>(
        cuda_scratch((size_t)(few.n * (row_of(p->q) + 2 * row_of(p->k))) * sizeof(float) + 1024));
    if (!scratch) return -1;
    for (int i = 0; i < 3; i++)
        few.part[i].y = product[i] = scratch_take<float>(&scratch, few.n * few.part[i].rows);
    few.epilogue = FEW_ROWS_STORE;
    plain.wq.run = plain.wk.run = plain.wv.run = 0;
    plain.wq.first = plain.wk.first = plain.wv.first = 0;
    const int status = few_rows_product(&few);
    return status ? status : store_heads(&plain, product);
}

static int qkv_few(const struct fused_qkv *p)
{
    if (p->q_gain) return normed_few(p);
    const struct few_rows few = few_products(p);
    return few_rows_product(&few);
}

// Elements of a row of products that need scratch; queries rotated in place need none.
struct products {
    bool packed;
    int64_t q, k, v, all;
};

static struct products products_of(const struct fused_qkv *p)
{
    struct products s = { packed(&p->wq, &p->wk, &p->wv), 0, 0, 0, 0 };
    if (s.packed) {
        s.all = p->wq.w->shape[0];
        return s;
    }
    s.q = p->adjacent && !p->saved_q ? row_of(p->q) : 0;
    s.k = p->saved_k ? 0 : row_of(p->k);
    s.v = row_of(p->v);
    s.all = s.q + s.k + s.v;
    return s;
}

static int multiply_each(const struct fused_qkv *p, const uint16_t *x, float *const product[3],
                         void *values, enum dtype dtype)
{
    const int64_t n = p->h->shape[0];
    if (fused_multiply(product[0], DTYPE_F32, x, n, &p->wq, nullptr) < 0 ||
        fused_multiply(product[1], DTYPE_F32, x, n, &p->wk, nullptr) < 0)
        return -1;
    return fused_multiply(values, dtype, x, n, &p->wv, nullptr);
}

static int qkv_many(const struct fused_qkv *p, const struct products *s, char *scratch)
{
    const int64_t n = p->h->shape[0];
    uint16_t *x = scratch_take<uint16_t>(&scratch, tensor_count(p->h));
    if (fused_norm(x, p->wq.w->dtype, p->h, p->gain, p->eps) < 0) return -1;
    if (s->packed) {
        float *all = reinterpret_cast<float *>(scratch), *product[] = { all, all, all };
        if (fused_multiply(all, DTYPE_F32, x, n, &p->wq, nullptr) < 0) return -1;
        return store_heads(p, product);
    }
    float *q = scratch_take<float>(&scratch, n * s->q);
    float *k = scratch_take<float>(&scratch, n * s->k);
    float *v = reinterpret_cast<float *>(scratch);
    void *to = values_target(p);
    float *product[] = { s->q ? q : floats(p->q), k, v };
    if (p->saved_q) product[0] = floats(p->saved_q), product[1] = floats(p->saved_k);
    if (multiply_each(p, x, product, to ? to : v, to ? p->v->dtype : DTYPE_F32) < 0) return -1;
    if (to) product[2] = nullptr;
    return store_heads(p, product);
}

int fused_qkv_cuda(const struct fused_qkv *p)
{
    const int64_t n = p->h->shape[0];
    const bool all = fused_many(n, floats(p->h), p->wq.w, p->mode) &&
                     fused_many(n, floats(p->gain), p->wk.w, p->mode) &&
                     fused_many(n, floats(p->gain), p->wv.w, p->mode) &&
                     p->wk.w->dtype == p->wq.w->dtype && p->wv.w->dtype == p->wq.w->dtype;
    if (n <= FEW_ROWS) return p->cache_rows ? qkv_few(p) : FUSED_NOT;
    const struct products s = products_of(p);
    if (!all || (s.packed && p->saved_q)) return FUSED_NOT;
    char *scratch = static_cast<char *>(
        cuda_scratch((size_t)(n * s.all) * sizeof(float) + (size_t)tensor_count(p->h) * 2 + 1024));
    return scratch ? qkv_many(p, &s, scratch) : -1;
}

// --- backward ------------------------------------------------------------------------------------

// Rotates dq, dk and dv back, rounds them to bf16 in the products' layout, and computes dx.
static int products_back(const struct fused_qkv_back *p, float *dx, uint16_t *product[3])
{
    const int64_t n = p->h->shape[0];
    const struct heads_call back = {
        .part = { heads_of(&p->wq, product[0], p->dq->data, row_of(p->dq)),
                  heads_of(&p->wk, product[1], p->dk->data, row_of(p->dk)),
                  heads_of(&p->wv, product[2], p->dv->data, row_of(p->dv)) },
        .cos = floats(p->cos),
        .sin = floats(p->sin),
        .cache_rows = nullptr,
        .eps = 0,
        .heads = (int)p->dq->shape[1],
        .kv_heads = (int)p->dk->shape[1],
        .half = (int)p->dq->shape[2] / 2,
        .adjacent = (int)p->adjacent
    };
    if (store_rows<true>(&back, n) < 0 ||
        fused_multiply_back(dx, DTYPE_F32, product[0], p->wq.w, n, nullptr) < 0)
        return -1;
    if (packed(&p->wq, &p->wk, &p->wv)) return 0;
    if (fused_multiply_back(dx, DTYPE_F32, product[1], p->wk.w, n, dx) < 0) return -1;
    return fused_multiply_back(dx, DTYPE_F32, product[2], p->wv.w, n, dx);
}

int fused_qkv_back_cuda(const struct fused_qkv_back *p)
{
    const int64_t n = p->h->shape[0], width = p->h->shape[1];
    const int64_t queries = tensor_count(p->dq), keys = tensor_count(p->dk);
    char *scratch = static_cast<char *>(cuda_scratch(
        (size_t)(queries + 2 * keys) * sizeof(uint16_t) + fused_norm_back_scratch(n, width)));
    if (!scratch) return -1;
    uint16_t *product[3];
    const bool one = packed(&p->wq, &p->wk, &p->wv);
    product[0] = scratch_take<uint16_t>(&scratch, queries + (one ? 2 * keys : 0));
    for (int i = 1; i < 3; i++)
        product[i] = one ? product[0] : scratch_take<uint16_t>(&scratch, keys);
    float *dx = scratch_take<float>(&scratch, n * width);
    if (products_back(p, dx, product) < 0) return -1;
    return rmsnorm_back(floats(p->dh), floats(p->dgain), dx, floats(p->h), floats(p->gain), p->eps,
                        n, width, reinterpret_cast<struct row_stats *>(scratch));
}
