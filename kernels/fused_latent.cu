// kernels/fused_latent.cu -- latent attention of a few rows to the latents in the cache (fused.h),
// row by row. Each row takes five kernels, one more if queries are compressed, and one more if the
// output is normed:
//
//   products of h: queries, the new latent and the rest of its key -> queries for latents (Wk q of
//   each head); the normed latent and the rotated rest are stored in their row of the cache ->
//   attention of all heads to the latents, as keys and values (attention_few.cu) -> Wv times each
//   head's output -> the output product, added to h
//
// A query for latents has R elements, which are multiplied with the latent, then the rotary
// elements, which are multiplied with the rest of the key.
#include "kernels/attention_cuda.h"
#include "kernels/few_rows_cuda.h"
#include "kernels/fused_cuda.h"

// Arguments of latent_queries_kernel: the products of h, weights, and where to write the results.
struct latent_call {
    const float *q, *both;         // [H,nope+rope], [R+rope]
    const void *up;                // [H*(nope+value),R]
    const float *gain, *cos, *sin; // [R], [rope/2]
    float eps;
    const int32_t *cache_row;
    void *c, *r;      // the caches
    enum dtype dtype; // of the caches
    float *latent_q;  // [H,R+rope]
    int heads, nope, value, rank, rope;
};

// Returns rotated element i. In x, the two elements of a pair are adjacent; in the result, the
// first elements of all pairs precede the second elements.
static __device__ inline float rotated(const struct latent_call &p, const float *x, int i)
{
    const int half = p.rope / 2, pair = i % half;
    const float a = x[2 * pair], b = x[2 * pair + 1], c = p.cos[pair], s = p.sin[pair];
    return i < half ? a * c - b * s : b * c + a * s;
}

// Writes the new token's row of the cache; called by a whole block.
static __device__ inline void put_latent(const struct latent_call &p)
{
    float squares = 0;
    for (int i = (int)threadIdx.x; i < p.rank; i += THREADS) squares += p.both[i] * p.both[i];
    const float scale = 1 / sqrtf(block_sum(squares) / (float)p.rank + p.eps);
    const int64_t row = *p.cache_row;
    for (int i = (int)threadIdx.x; i < p.rank; i += THREADS)
        put_number(p.c, row * p.rank + i, p.both[i] * scale * p.gain[i], p.dtype);
    for (int i = (int)threadIdx.x; i < p.rope; i += THREADS)
        put_number(p.r, row * p.rope + i, rotated(p, p.both + p.rank, i), p.dtype);
}

// A block multiplies a head's query with some columns of the head's Wk: its warps divide the rows
// of Wk, and a lane reads 16 bytes of each of its warp's rows. The first block after those of the
// last head writes the latent to the cache.
template <typename T>
static __global__ void __launch_bounds__(THREADS) latent_queries_kernel(const struct latent_call p)
{
    constexpr int COUNT = reader<T>::COUNT, WIDE = WARP * COUNT, TOGETHER = 4;
    __shared__ float part[WARPS][WIDE];
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, h = (int)blockIdx.y;
    const int first = (int)blockIdx.x * WIDE, column = first + lane * COUNT;
    cuda_let_next_start();
    cuda_wait_previous();
    if (h == p.heads) {
        if (blockIdx.x == 0) put_latent(p);
        return; // uniform across the block
    }
    const float *q = p.q + (int64_t)h * (p.nope + p.rope);
    const T *w = row_of<T>(p.up, (int64_t)h * (p.nope + p.value), p.rank);
    float sum[COUNT] = {};
    for (int from = warp; column < p.rank && from < p.nope; from += WARPS * TOGETHER) {
        typename reader<T>::raw some[TOGETHER];
        UNROLL
        for (int i = 0; i < TOGETHER; i++) {
            const int row = from + i * WARPS;
            some[i] = {};
            if (row < p.nope) some[i] = reader<T>::load(row_of<T>(w, row, p.rank), column);
        }
        UNROLL
        for (int i = 0; i < TOGETHER; i++) {
            const int row = from + i * WARPS;
            const float x = row < p.nope ? q[row] : 0;
            float wide[COUNT];
            reader<T>::widen(wide, some[i]);
            UNROLL
            for (int e = 0; e < COUNT; e++) sum[e] = add_product(sum[e], x, wide[e]);
        }
    }
    UNROLL
    for (int e = 0; e < COUNT; e++) part[warp][lane * COUNT + e] = sum[e];
    __syncthreads();
    float *to = p.latent_q + (int64_t)h * (p.rank + p.rope);
    for (int i = (int)threadIdx.x; i < WIDE && first + i < p.rank; i += THREADS) {
        float all = 0;
        for (int k = 0; k < WARPS; k++) all += part[k][i];
        to[first + i] = all;
    }
    for (int i = (int)threadIdx.x; blockIdx.x == 0 && i < p.rope; i += THREADS)
        to[p.rank + i] = rotated(p, q + p.nope, i);
}

// y[H*value] = for each head, its Wv times its output in x[H,R].
struct values_call {
    float *y;
    const float *x;
    const void *up;
    int64_t heads, nope, value, rank;
};

template <typename T>
static __global__ void __launch_bounds__(THREADS, BLOCKS) values_kernel(const struct values_call p)
{
    SHARED_MEMORY(float, x);
    const int lane = threadIdx.x % WARP;
    const int64_t first = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    const int64_t step = (int64_t)gridDim.x * WARPS, units = p.heads * p.value / ROWS;
    const int64_t one = whole_steps<T>(p.rank);
    cuda_let_next_start();
    cuda_wait_previous();
    for (int64_t h = 0; h < p.heads; h++) stage_some<T>(x + h * one, p.x + h * p.rank, p.rank, 1);
    __syncthreads();
    const auto rows = [&](const T *row[ROWS], int64_t i) -> struct leg {
        const int64_t at = (first + i * step) * ROWS, h = at / p.value;
        const int64_t from = h * (p.nope + p.value) + p.nope + at % p.value;
        for (int r = 0; r < ROWS; r++)
            row[r] = at < units * ROWS ? row_of<T>(p.up, from + r, p.rank) : nullptr;
        return { p.rank, h *one };
    };
    const int64_t count = first < units ? (units - first + step - 1) / step : 0;
    walk<T>(count, x, lane, rows, [&](int64_t i, const float sum[ROWS]) {
        for (int r = 0; r < ROWS; r++) {
            const float all = warp_sum(sum[r]);
            if (lane == 0) p.y[(first + i * step) * ROWS + r] = all;
        }
    });
}

template <typename T> static int values(const struct values_call &c)
{
    return launch_units(values_kernel<T>, "latent attention", c, c.heads * c.value / ROWS,
                        c.heads * whole_steps<T>(c.rank));
}

template <typename T> static int latent_queries(const struct latent_call &c)
{
    constexpr int WIDE = WARP * reader<T>::COUNT;
    const dim3 grid((size_t)((c.rank + WIDE - 1) / WIDE), (size_t)(c.heads + 1));
    return LAUNCH_EARLY(latent_queries_kernel<T>, grid, THREADS, 0, c);
}

// --- the call ------------------------------------------------------------------------------------

// The scratch buffers of a call; all elements are f32.
struct buffers {
    float *low, *q, *both, *latent_q, *gathered, *o, *product, *parts;
};

static struct attention_call call_of(const struct fused_latent *p, const struct buffers *r)
{
    struct attention_call c = { .y = r->gathered,
                                .q = r->latent_q,
                                .k = p->c->data,
                                .v = p->c->data,
                                .first = nullptr,
                                .last = integers(p->end),
                                .scale = p->scale,
                                .dtype = p->c->dtype,
                                .tokens = 1,
                                .heads = p->heads,
                                .keys = p->c->shape[0],
                                .kv_heads = 1,
                                .width = p->c->shape[2],
                                .value_width = p->c->shape[2],
                                .stats = nullptr,
                                .y_dtype = DTYPE_F32,
                                .more = p->r->data,
                                .more_width = p->r->shape[2] };
    return c;
}

static bool take_buffers(const struct fused_latent *p, struct buffers *r)
{
    const int64_t rank = p->c->shape[2], rope = p->r->shape[2];
    const struct attention_call c = call_of(p, r);
    const int64_t sizes[] = { p->query_up.w ? p->query.w->shape[0] : 0,
                              p->heads * (p->nope + rope),
                              rank + rope,
                              p->heads * (rank + rope),
                              p->heads * rank,
                              p->heads * p->value,
                              p->after.gain ? tensor_count(p->h) : 0,
                              (int64_t)attention_few_floats(&c) };
    float **const buffer[] = { &r->low,      &r->q, &r->both,    &r->latent_q,
                               &r->gathered, &r->o, &r->product, &r->parts };
    size_t bytes = 0;
    for (int i = 0; i < 8; i++) bytes += (size_t)sizes[i] * sizeof(float) + 256;
    char *scratch = static_cast<char *>(cuda_scratch(bytes));
    for (int i = 0; scratch && i < 8; i++) *buffer[i] = scratch_take<float>(&scratch, sizes[i]);
    return scratch != nullptr;
}

// Computes the queries and the new latent, before rotation.
static int project(const struct fused_latent *p, const struct buffers *r)
{
    float *first = p->query_up.w ? r->low : r->q;
    struct few_rows one = few_rows_of(floats(p->h), 1, p->h->shape[1], 2, FEW_ROWS_STORE);
    one.gain = floats(p->gain);
    one.eps = p->eps;
    one.part[0] = fused_part(&p->query, first, p->query.w->shape[0]);
    one.part[1] = fused_part(&p->down, r->both, p->down.w->shape[0]);
    const int status = few_rows_product(&one);
    if (status || !p->query_up.w) return status;
    one.x = r->low, one.gain = floats(p->query_gain), one.eps = p->inner_eps;
    one.k = tensor_row(p->query_up.w);
    one.part[0] = fused_part(&p->query_up, r->q, p->query_up.w->shape[0]);
    one.parts = 1;
    return few_rows_product(&one);
}

static int query_products(const struct fused_latent *p, const struct buffers *r)
{
    const struct latent_call c = { .q = r->q,
                                   .both = r->both,
                                   .up = p->up->data,
                                   .gain = floats(p->down_gain),
                                   .cos = floats(p->cos),
                                   .sin = floats(p->sin),
                                   .eps = p->inner_eps,
                                   .cache_row = integers(p->cache_row),
                                   .c = p->c->data,
                                   .r = p->r->data,
                                   .dtype = p->c->dtype,
                                   .latent_q = r->latent_q,
                                   .heads = (int)p->heads,
                                   .nope = (int)p->nope,
                                   .value = (int)p->value,
                                   .rank = (int)p->c->shape[2],
                                   .rope = (int)p->r->shape[2] };
    return FOR_WEIGHTS(p->up->dtype, latent_queries, c);
}

static int take_values(const struct fused_latent *p, const struct buffers *r)
{
    const struct values_call c = { r->o,    r->gathered, p->up->data,   p->heads,
                                   p->nope, p->value,    p->c->shape[2] };
    return FOR_WEIGHTS(p->up->dtype, values, c);
}

// Changes h last, so that the ops can compute everything if a step returns FUSED_NOT.
static int one_row(const struct fused_latent *p, const struct buffers *r)
{
    int status = project(p, r);
    if (!status) status = query_products(p, r);
    if (status) return status;
    const struct attention_call c = call_of(p, r);
    if (attention_few(&c, r->parts) < 0) return -1;
    status = take_values(p, r);
    return status ? status : fused_add_few(p->h, r->o, &p->out, &p->after, r->product);
}

// Row i of a tensor of 4-byte elements, as a tensor of one row.
static struct tensor row_at(const struct tensor *t, int64_t i)
{
    struct tensor one = *t;
    one.shape[0] = 1;
    one.data = floats(t) + i * tensor_row(t);
    return one;
}

// Requires that a head's value width is a multiple of ROWS: a warp multiplies ROWS (2) rows of Wv
// at a time, and both must belong to one head.
int fused_latent_cuda(const struct fused_latent *p)
{
    struct buffers r = {};
    int status = 0;
    if (p->h->shape[0] > FEW_ROWS || p->value % ROWS ||
        !weights_readable(p->up->data, p->c->shape[2], p->up->dtype))
        return FUSED_NOT;
    for (int64_t i = 0; i < p->h->shape[0] && !status; i++) {
        struct tensor h = row_at(p->h, i), cos = row_at(p->cos, i), sin = row_at(p->sin, i),
                      cache_row = row_at(p->cache_row, i), last = row_at(p->end, i);
        struct fused_latent one = *p;
        one.h = &h, one.cos = &cos, one.sin = &sin, one.cache_row = &cache_row, one.end = &last;
        if (!take_buffers(&one, &r)) return -1;
        status = one_row(&one, &r);
    }
    return status;
}
