// kernels/delta_rule_backward.cu -- the backward pass of the gated delta rule, row by row. It walks
// back over chunks of rows, whose states the forward pass has stored; two further kernels add up
// its sums over columns, in a fixed order.
#include "kernels/delta_rule_cuda.h"

// Scratch of the backward pass. `sums` [blocks, N, 2*dk + 2]: for each block and row, the gradients
// of the unit query and key [2*dk], of alpha and of beta, summed over the block's columns.
struct partial {
    float *sums, *states; // states: before the rows of a chunk, [STORED_ROWS, Hv, dk, dv]
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
    for (int64_t chunk = (s.rows - 1) / STORED_ROWS; chunk >= 0; chunk--) {
        const int64_t from = chunk * STORED_ROWS,
                      end = from + STORED_ROWS < s.rows ? from + STORED_ROWS : s.rows;
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
    const struct delta_sizes s = delta_sizes(dy, p);
    if (!s.rows) return 0;
    const unsigned blocks = column_blocks(s);
    const size_t all = (size_t)(s.heads * s.dk * s.dv);
    const size_t chunks = (size_t)((s.rows + STORED_ROWS - 1) / STORED_ROWS) * all,
                 states = STORED_ROWS * all;
    const size_t sums = (size_t)blocks * (size_t)(s.rows * (2 * s.dk + 2));
    float *memory = static_cast<float *>(cuda_scratch(
        (prepared_floats(s) + chunks + states + sums + delta_forward_floats(s)) * sizeof(float)));
    if (!memory) return -1;
    const struct prepared t = prepared_at(s, memory);
    float *const before = memory + prepared_floats(s);
    const struct partial out = { before + chunks + states, before + chunks, before };
    if (delta_prepare(t, p, s) < 0 ||
        delta_forward(nullptr, floats(p->x), t, nullptr, nullptr, before, s, out.sums + sums) < 0 ||
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
