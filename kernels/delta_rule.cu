// kernels/delta_rule.cu -- the gated delta rule (kernels/delta_rule.c).
//
// A block holds COLUMNS columns of one value head's state in registers and walks over the rows.
// SPLIT threads share a column: thread s has the elements s, s + SPLIT, ..; sums over a column are
// sums over these neighbours. The backward kernel walks back over chunks of rows, whose states the
// forward kernel has stored; two further kernels add up its sums over columns, in a fixed order.
#include "kernels/cuda.h"

static constexpr int SPLIT = 8, COLUMNS = 32, THREADS = SPLIT * COLUMNS;
static constexpr int MOST = 256;         // elements of a key
static constexpr int OWN = MOST / SPLIT; // of a column that one thread holds
static constexpr int CHUNK = 32;         // rows between stored states
static constexpr float LENGTH_EPS = 1e-6F;

struct delta_sizes {
    int64_t rows, key_heads, heads, dk, dv, row;
    bool alternate; // delta_inputs.alternate
};

static struct delta_sizes sizes_of(const struct tensor *y, const struct delta_inputs *p)
{
    struct delta_sizes s = { y->shape[0], p->key_heads,   y->shape[1], 0,
                             y->shape[2], p->x->shape[1], p->alternate };
    s.dk = (s.row - s.heads * s.dv) / (2 * s.key_heads);
    return s;
}

static __device__ float softplus(float x)
{
    return x > 20 ? x : log1pf(expf(x));
}

// Inputs of all columns: unit queries (divided by sqrt(dk)) and keys [N,Hk,dk]; alpha and beta
// [N,Hv].
struct prepared {
    float *q, *k, *alpha, *beta;
};

static size_t prepared_floats(const struct delta_sizes s)
{
    return (size_t)s.rows * (size_t)(2 * s.key_heads * s.dk + 2 * s.heads);
}

static struct prepared prepared_at(const struct delta_sizes s, float *memory)
{
    struct prepared t;
    t.q = memory;
    t.k = t.q + s.rows * s.key_heads * s.dk;
    t.alpha = t.k + s.rows * s.key_heads * s.dk;
    t.beta = t.alpha + s.rows * s.heads;
    return t;
}

// One warp per row and key head.
static __global__ void unit_kernel(struct prepared t, const float *x, struct delta_sizes s)
{
    const int lane = threadIdx.x % WARP;
    const int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    const bool real = at < s.rows * s.key_heads;
    const int64_t n = real ? at / s.key_heads : 0, h = real ? at % s.key_heads : 0;
    const float *q = x + n * s.row + h * s.dk, *k = q + s.key_heads * s.dk;
    float qq = 0, kk = 0;
    for (int64_t i = lane; i < s.dk; i += WARP) {
        qq += q[i] * q[i];
        kk += k[i] * k[i];
    }
    qq = warp_sum(qq);
    kk = warp_sum(kk);
    const float by_q = 1 / sqrtf((float)s.dk) / sqrtf(qq + LENGTH_EPS);
    const float by_k = 1 / sqrtf(kk + LENGTH_EPS);
    for (int64_t i = lane; real && i < s.dk; i += WARP) {
        t.q[at * s.dk + i] = q[i] * by_q;
        t.k[at * s.dk + i] = k[i] * by_k;
    }
}

static __global__ void gates_kernel(struct prepared t, const float *a, const float *b,
                                    const float *log_a, const float *bias, int64_t heads, int64_t n)
{
    FOR_EACH(i, n)
    {
        const int64_t h = i % heads;
        t.alpha[i] = expf(-expf(log_a[h]) * softplus(a[i] + bias[h]));
        t.beta[i] = sigmoid(b[i]);
    }
}

static int prepare(const struct prepared t, const struct delta_inputs *p,
                   const struct delta_sizes s)
{
    const int64_t units = s.rows * s.key_heads, gates = s.rows * s.heads;
    if (s.dk > MOST) return cuda_fail("delta rule: keys wider than %d", MOST);
    if (!s.rows) return 0;
    if (LAUNCH(unit_kernel, (unsigned)((units * WARP + EACH - 1) / EACH), EACH, 0, t, floats(p->x),
               s) < 0)
        return -1;
    return LAUNCH(gates_kernel, blocks_for(gates, EACH), EACH, 0, t, floats(p->a), floats(p->b),
                  floats(p->log_a), floats(p->bias), s.heads, gates);
}

// --- forward -------------------------------------------------------------------------------------

// The column of a thread.
struct column {
    int64_t h, key, j; // value head; first element of its key head; column
    int part;          // 0..SPLIT-1
    bool real;         // the state has this column
};

static __device__ struct column own_column(const struct delta_sizes s)
{
    const int64_t blocks = (s.dv + COLUMNS - 1) / COLUMNS;
    struct column c;
    c.h = blockIdx.x / blocks;
    c.key = (s.alternate ? c.h % s.key_heads : c.h / (s.heads / s.key_heads)) * s.dk;
    c.j = blockIdx.x % blocks * COLUMNS + threadIdx.x / SPLIT;
    c.part = (int)(threadIdx.x % SPLIT);
    c.real = c.j < s.dv;
    return c;
}

// The sum over the threads of a column.
static __device__ float column_sum(float x)
{
    for (int lanes = SPLIT / 2; lanes; lanes /= 2) x += __shfl_xor_sync(ALL_LANES, x, lanes);
    return x;
}

static __device__ void load_state(float *S, const float *from, const struct column c,
                                  const struct delta_sizes s)
{
    UNROLL
    for (int r = 0; r < OWN; r++) {
        const int64_t i = c.part + SPLIT * r;
        S[r] = from && c.real && i < s.dk ? from[(c.h * s.dk + i) * s.dv + c.j] : 0;
    }
}

static __device__ void store_state(float *to, const float *S, const struct column c,
                                   const struct delta_sizes s)
{
    UNROLL
    for (int r = 0; r < OWN; r++) {
        const int64_t i = c.part + SPLIT * r;
        if (c.real && i < s.dk) to[(c.h * s.dk + i) * s.dv + c.j] = S[r];
    }
}

// Copies the row's unit query and key into shared memory, padded with zeros.
static __device__ void load_row(float *q, float *k, const struct prepared t, const struct column c,
                                const struct delta_sizes s, int64_t n)
{
    const int64_t at = n * s.key_heads * s.dk + c.key;
    __syncthreads(); // the row before is done
    for (int i = threadIdx.x; i < MOST; i += THREADS) {
        q[i] = i < s.dk ? t.q[at + i] : 0;
        k[i] = i < s.dk ? t.k[at + i] : 0;
    }
    __syncthreads();
}

// The element of the thread's column in S^T k.
static __device__ float column_dot(const float *S, const float *k, int part)
{
    float sum = 0;
    UNROLL
    for (int r = 0; r < OWN; r++) sum += S[r] * k[part + SPLIT * r];
    return column_sum(sum);
}

// Unless it is NULL, `chunks` receives the states before rows 0, CHUNK, 2 CHUNK ..
static __global__ void __launch_bounds__(THREADS)
    delta_kernel(float *y, const float *x, struct prepared t, const float *before, float *after,
                 float *chunks, struct delta_sizes s)
{
    __shared__ float q[MOST], k[MOST];
    const struct column c = own_column(s);
    float S[OWN];
    load_state(S, before, c, s);
    for (int64_t n = 0; n < s.rows; n++) {
        load_row(q, k, t, c, s, n);
        if (chunks && n % CHUNK == 0)
            store_state(chunks + n / CHUNK * s.heads * s.dk * s.dv, S, c, s);
        const float alpha = t.alpha[n * s.heads + c.h], beta = t.beta[n * s.heads + c.h];
        const int64_t at = 2 * s.key_heads * s.dk + c.h * s.dv + c.j;
        const float v = c.real ? x[n * s.row + at] : 0;
        const float u = beta * (v - alpha * column_dot(S, k, c.part));
        UNROLL
        for (int r = 0; r < OWN; r++) S[r] = alpha * S[r] + k[c.part + SPLIT * r] * u;
        const float o = column_dot(S, q, c.part);
        if (y && c.real && c.part == 0) y[(n * s.heads + c.h) * s.dv + c.j] = o;
    }
    if (after) store_state(after, S, c, s);
}

static unsigned column_blocks(const struct delta_sizes s)
{
    return (unsigned)(s.heads * ((s.dv + COLUMNS - 1) / COLUMNS));
}

int delta_rule_cuda(struct tensor *y, const struct delta_inputs *p, const struct tensor *before,
                    struct tensor *after)
{
    const struct delta_sizes s = sizes_of(y, p);
    float *memory = static_cast<float *>(cuda_scratch((prepared_floats(s) + 1) * sizeof(float)));
    if (!memory) return -1;
    const struct prepared t = prepared_at(s, memory);
    if (prepare(t, p, s) < 0) return -1;
    return LAUNCH(delta_kernel, column_blocks(s), THREADS, 0, floats(y), floats(p->x), t,
                  floats(before), floats(after), static_cast<float *>(nullptr), s);
}

// --- backward ------------------------------------------------------------------------------------

// Scratch of the backward pass. `sums` [blocks, N, 2*dk + 2]: for each block and row, the gradients
// of the unit query and key [2*dk], of alpha and of beta, summed over the block's columns.
struct partial {
    float *sums, *states; // states: before the rows of a chunk, [CHUNK, Hv, dk, dv]
    const float *chunks;  // states before each chunk
};

// Adds over the block's columns: thread (column, part) gives x for element part + SPLIT * r.
static __device__ void add_over_columns(float *to, float x, int part, int r, int64_t dk)
{
    for (int lanes = SPLIT; lanes < WARP; lanes *= 2) x += __shfl_xor_sync(ALL_LANES, x, lanes);
    const int i = part + SPLIT * r;
    __shared__ float warps[THREADS / WARP][SPLIT];
    __syncthreads();
    if (threadIdx.x % WARP < SPLIT) warps[threadIdx.x / WARP][part] = x;
    __syncthreads();
    if (threadIdx.x >= SPLIT || i >= dk) return;
    float sum = 0;
    for (int w = 0; w < THREADS / WARP; w++) sum += warps[w][threadIdx.x];
    to[i] = sum;
}

static __global__ void __launch_bounds__(THREADS)
    delta_back_kernel(float *dx, const float *dy, const float *x, struct prepared t,
                      struct partial out, struct delta_sizes s)
{
    __shared__ float q[MOST], k[MOST];
    const struct column c = own_column(s);
    const int64_t all = s.heads * s.dk * s.dv, width = 2 * s.dk + 2;
    const int64_t value = 2 * s.key_heads * s.dk + c.h * s.dv + c.j;
    float G[OWN], P[OWN];
    UNROLL
    for (int r = 0; r < OWN; r++) G[r] = 0;
    for (int64_t chunk = (s.rows - 1) / CHUNK; chunk >= 0; chunk--) {
        const int64_t from = chunk * CHUNK, end = from + CHUNK < s.rows ? from + CHUNK : s.rows;
        // The states before the rows of the chunk; each thread reads only what it has written.
        load_state(P, out.chunks + chunk * all, c, s);
        for (int64_t n = from; n < end; n++) {
            load_row(q, k, t, c, s, n);
            store_state(out.states + (n - from) * all, P, c, s);
            const float alpha = t.alpha[n * s.heads + c.h], beta = t.beta[n * s.heads + c.h];
            const float v = c.real ? x[n * s.row + value] : 0;
            const float u = beta * (v - alpha * column_dot(P, k, c.part));
            UNROLL
            for (int r = 0; r < OWN; r++) P[r] = alpha * P[r] + k[c.part + SPLIT * r] * u;
        }
        for (int64_t n = end - 1; n >= from; n--) {
            load_row(q, k, t, c, s, n);
            load_state(P, out.states + (n - from) * all, c, s);
            float *sums = out.sums + (blockIdx.x * s.rows + n) * width;
            const float alpha = t.alpha[n * s.heads + c.h], beta = t.beta[n * s.heads + c.h];
            const float v = c.real ? x[n * s.row + value] : 0;
            const float d = c.real ? dy[(n * s.heads + c.h) * s.dv + c.j] : 0;
            const float before = column_dot(P, k, c.part), e = v - alpha * before;
            float along = 0; // of G and P
            UNROLL
            for (int r = 0; r < OWN; r++) {
                const float own = k[c.part + SPLIT * r];
                add_over_columns(sums, (alpha * P[r] + own * beta * e) * d, c.part, r, s.dk);
                G[r] += q[c.part + SPLIT * r] * d;
                along += G[r] * P[r];
            }
            const float du = column_dot(G, k, c.part), back = -alpha * beta * du;
            UNROLL
            for (int r = 0; r < OWN; r++) {
                add_over_columns(sums + s.dk, G[r] * beta * e + P[r] * back, c.part, r, s.dk);
                G[r] = alpha * G[r] + k[c.part + SPLIT * r] * back;
            }
            // Each column counts once in the sums of alpha and beta.
            const bool first = c.real && c.part == 0;
            const float dalpha = block_sum(along - (first ? beta * du * before : 0));
            const float dbeta = block_sum(first ? du * e : 0);
            if (threadIdx.x == 0) {
                sums[2 * s.dk] = dalpha;
                sums[2 * s.dk + 1] = dbeta;
            }
            if (dx && first) dx[n * s.row + value] += beta * du;
        }
    }
}

// Element i of the sums of a row and value head over its blocks.
static __device__ float sum_of_blocks(const float *sums, const struct delta_sizes s, int64_t h,
                                      int64_t n, int64_t i)
{
    const int64_t blocks = (s.dv + COLUMNS - 1) / COLUMNS, width = 2 * s.dk + 2;
    float sum = 0;
    for (int64_t b = 0; b < blocks; b++) sum += sums[((h * blocks + b) * s.rows + n) * width + i];
    return sum;
}

// One warp per row and key head: y = x f, f = factor / sqrt(|x|^2 + eps) of the query and the key,
// dx += f (dy - x (x . dy) / (|x|^2 + eps)).
static __global__ void unit_back_kernel(float *dx, const float *x, const float *sums,
                                        struct delta_sizes s)
{
    const int lane = threadIdx.x % WARP;
    const int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    const int64_t group = s.heads / s.key_heads; // value heads of a key head
    const bool real = at < s.rows * s.key_heads;
    const int64_t n = real ? at / s.key_heads : 0, g = real ? at % s.key_heads : 0;
    const int64_t head = s.alternate ? g : g * group, step = s.alternate ? s.key_heads : 1;
    for (int which = 0; which < 2; which++) {
        const int64_t first = n * s.row + (which * s.key_heads + g) * s.dk;
        float squares = 0, along = 0;
        for (int64_t i = lane; i < s.dk; i += WARP) {
            float d = 0;
            for (int64_t r = 0; r < group; r++)
                d += sum_of_blocks(sums, s, head + r * step, n, which * s.dk + i);
            squares += x[first + i] * x[first + i];
            along += x[first + i] * d;
        }
        squares = warp_sum(squares) + LENGTH_EPS;
        along = warp_sum(along) / squares;
        const float by = (which ? 1 : 1 / sqrtf((float)s.dk)) / sqrtf(squares);
        for (int64_t i = lane; real && i < s.dk; i += WARP) {
            float d = 0;
            for (int64_t r = 0; r < group; r++)
                d += sum_of_blocks(sums, s, head + r * step, n, which * s.dk + i);
            dx[first + i] += by * (d - x[first + i] * along);
        }
    }
}

struct gate_gradients {
    float *a, *b, *log_a, *bias;
};

// One block per value head.
static __global__ void gates_back_kernel(struct gate_gradients d, const float *sums, const float *a,
                                         const float *log_a, const float *bias, struct prepared t,
                                         struct delta_sizes s)
{
    const int64_t h = blockIdx.x;
    const float rate = expf(log_a[h]);
    float dlog_a = 0, dbias = 0;
    for (int64_t n = threadIdx.x; n < s.rows; n += blockDim.x) {
        const int64_t at = n * s.heads + h;
        const float z = a[at] + bias[h], beta = t.beta[at];
        const float fade = sum_of_blocks(sums, s, h, n, 2 * s.dk) * t.alpha[at] * rate;
        const float dz = -fade * sigmoid(z);
        if (d.a) d.a[at] += dz;
        if (d.b) d.b[at] += sum_of_blocks(sums, s, h, n, 2 * s.dk + 1) * beta * (1 - beta);
        dbias += dz;
        dlog_a -= fade * softplus(z);
    }
    dlog_a = block_sum(dlog_a);
    dbias = block_sum(dbias);
    if (threadIdx.x) return;
    if (d.log_a) d.log_a[h] += dlog_a;
    if (d.bias) d.bias[h] += dbias;
}

int delta_rule_backward_cuda(const struct delta_grads *d, const struct tensor *dy,
                             const struct delta_inputs *p)
{
    const struct delta_sizes s = sizes_of(dy, p);
    if (!s.rows) return 0;
    const unsigned blocks = column_blocks(s);
    const size_t all = (size_t)(s.heads * s.dk * s.dv);
    const size_t chunks = (size_t)((s.rows + CHUNK - 1) / CHUNK) * all, states = CHUNK * all;
    const size_t sums = (size_t)blocks * (size_t)(s.rows * (2 * s.dk + 2));
    float *memory = static_cast<float *>(
        cuda_scratch((prepared_floats(s) + chunks + states + sums) * sizeof(float)));
    if (!memory) return -1;
    const struct prepared t = prepared_at(s, memory);
    float *const before = memory + prepared_floats(s);
    const struct partial out = { before + chunks + states, before + chunks, before };
    if (prepare(t, p, s) < 0 ||
        LAUNCH(delta_kernel, blocks, THREADS, 0, static_cast<float *>(nullptr), floats(p->x), t,
               static_cast<const float *>(nullptr), static_cast<float *>(nullptr), before, s) < 0 ||
        LAUNCH(delta_back_kernel, blocks, THREADS, 0, floats(d->x), floats(dy), floats(p->x), t,
               out, s) < 0)
        return -1;
    const int64_t units = s.rows * s.key_heads;
    if (d->x && LAUNCH(unit_back_kernel, (unsigned)((units * WARP + EACH - 1) / EACH), EACH, 0,
                       floats(d->x), floats(p->x), out.sums, s) < 0)
        return -1;
    const struct gate_gradients to = { floats(d->a), floats(d->b), floats(d->log_a),
                                       floats(d->bias) };
    return LAUNCH(gates_back_kernel, (unsigned)s.heads, EACH, 0, to, out.sums, floats(p->a),
                  floats(p->log_a), floats(p->bias), t, s);
}
