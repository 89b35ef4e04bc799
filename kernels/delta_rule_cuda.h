// kernels/delta_rule_cuda.h -- what the kernels of the gated delta rule share
// (kernels/delta_rule.c).
//
// Row by row, a block holds COLUMNS columns of one value head's state in registers. SPLIT threads
// share a column: thread s has the elements s, s + SPLIT, ..; sums over a column are sums over
// these neighbours.
#ifndef KERNELS_DELTA_RULE_CUDA_H
#define KERNELS_DELTA_RULE_CUDA_H

#include "kernels/cuda.h"

extern "C" {
#include "kernels/delta_sizes.h"
}

static constexpr int SPLIT = 8, COLUMNS = 32, THREADS = SPLIT * COLUMNS;
static constexpr int MOST = 256;         // elements of a key
static constexpr int OWN = MOST / SPLIT; // of a column that one thread holds
static constexpr int CHUNK = 32;         // rows that are computed together
static constexpr int STORED_ROWS = 32;   // rows between stored states
static constexpr float LENGTH_EPS = 1e-6F;

__device__ inline float softplus(float x)
{
    return x > 20 ? x : log1pf(expf(x));
}

__device__ inline int64_t key_head(const struct delta_sizes s, int64_t h)
{
    return s.alternate ? h % s.key_heads : h / (s.heads / s.key_heads);
}

// Inputs of all columns: unit queries (divided by sqrt(dk)) and keys [N,Hk,dk]; alpha and beta
// [N,Hv].
struct prepared {
    float *q, *k, *alpha, *beta;
};

static inline size_t prepared_floats(const struct delta_sizes s)
{
    return (size_t)s.rows * (size_t)(2 * s.key_heads * s.dk + 2 * s.heads);
}

static inline struct prepared prepared_at(const struct delta_sizes s, float *memory)
{
    struct prepared t;
    t.q = memory;
    t.k = t.q + s.rows * s.key_heads * s.dk;
    t.alpha = t.k + s.rows * s.key_heads * s.dk;
    t.beta = t.alpha + s.rows * s.heads;
    return t;
}

// The column of a thread.
struct column {
    int64_t h, key, j; // value head; first element of its key head; column
    int part;          // 0..SPLIT-1
    bool real;         // the state has this column
};

__device__ inline struct column own_column(const struct delta_sizes s)
{
    const int64_t blocks = (s.dv + COLUMNS - 1) / COLUMNS;
    struct column c;
    c.h = blockIdx.x / blocks;
    c.key = key_head(s, c.h) * s.dk;
    c.j = blockIdx.x % blocks * COLUMNS + threadIdx.x / SPLIT;
    c.part = (int)(threadIdx.x % SPLIT);
    c.real = c.j < s.dv;
    return c;
}

// The sum over the threads of a column.
__device__ inline float column_sum(float x)
{
    for (int lanes = SPLIT / 2; lanes; lanes /= 2) x += __shfl_xor_sync(ALL_LANES, x, lanes);
    return x;
}

__device__ inline void load_state(float *S, const float *from, const struct column c,
                                  const struct delta_sizes s)
{
    UNROLL
    for (int r = 0; r < OWN; r++) {
        const int64_t i = c.part + SPLIT * r;
        S[r] = from && c.real && i < s.dk ? from[(c.h * s.dk + i) * s.dv + c.j] : 0;
    }
}

__device__ inline void store_state(float *to, const float *S, const struct column c,
                                   const struct delta_sizes s)
{
    UNROLL
    for (int r = 0; r < OWN; r++) {
        const int64_t i = c.part + SPLIT * r;
        if (c.real && i < s.dk) to[(c.h * s.dk + i) * s.dv + c.j] = S[r];
    }
}

// Copies the row's unit query and key into shared memory, padded with zeros.
__device__ inline void load_row(float *q, float *k, const struct prepared t, const struct column c,
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
__device__ inline float column_dot(const float *S, const float *k, int part)
{
    float sum = 0;
    UNROLL
    for (int r = 0; r < OWN; r++) sum += S[r] * k[part + SPLIT * r];
    return column_sum(sum);
}

static inline unsigned column_blocks(const struct delta_sizes s)
{
    return (unsigned)(s.heads * ((s.dv + COLUMNS - 1) / COLUMNS));
}

// Computes unit queries and keys, and alphas and betas. Returns 0 or -1.
int delta_prepare(const struct prepared t, const struct delta_inputs *p,
                  const struct delta_sizes s);

// Computes y [N,Hv,dv] and the state after the last row; `stored` [..,Hv,dk,dv] receives the states
// before rows 0, STORED_ROWS, 2 STORED_ROWS .. y, before, after and stored may be NULL; `memory`:
// delta_forward_floats(s). Returns 0 or -1.
int delta_forward(float *y, const float *x, const struct prepared t, const float *before,
                  float *after, float *stored, const struct delta_sizes s, float *memory);

// Returns the floats of memory that delta_forward needs.
size_t delta_forward_floats(const struct delta_sizes s);

#endif
