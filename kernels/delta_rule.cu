// kernels/delta_rule.cu -- the gated delta rule (kernels/delta_rule.c): few rows one after the
// other, more rows in chunks, by products of small matrices in shared memory.
#include "kernels/delta_rule_cuda.h"

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

int delta_prepare(const struct prepared t, const struct delta_inputs *p, const struct delta_sizes s)
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

// --- row by row ----------------------------------------------------------------------------------

// Unless it is NULL, `stored` receives the states before rows 0, STORED_ROWS, 2 STORED_ROWS ..
static __global__ void __launch_bounds__(THREADS)
    delta_kernel(float *y, const float *x, struct prepared t, const float *before, float *after,
                 float *stored, struct delta_sizes s)
{
    __shared__ float q[MOST], k[MOST];
    const struct column c = own_column(s);
    float S[OWN];
    load_state(S, before, c, s);
    for (int64_t n = 0; n < s.rows; n++) {
        load_row(q, k, t, c, s, n);
        if (stored && n % STORED_ROWS == 0)
            store_state(stored + n / STORED_ROWS * s.heads * s.dk * s.dv, S, c, s);
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

// --- in chunks -----------------------------------------------------------------------------------
//
// The formulas are those of kernels/delta_rule.c. chunk_kernel computes for each chunk and value
// head what does not depend on the state, also T = (I + A)^-1 diag(beta), where A_ij = beta_i
// f(i,j) (k_i . k_j) for j < i, so that u = T (v - f(i) S^T k). beta is 0 after the last row, and
// so are those rows and columns of T. delta_chunks_kernel walks over the chunks with SLICE columns
// of a state.

static constexpr int WIDTH = 128; // elements of a key, padded with zeros
static constexpr int SLICE = 16;  // columns of a state
static_assert(STORED_ROWS == CHUNK, "a chunk begins at each stored state");
static constexpr int CHUNK_THREADS = 128; // 16 rows of 8 threads
static constexpr int ROWS = CHUNK_THREADS / 8;
// Floats between rows in shared memory: rows that a warp reads together lie in different banks.
static constexpr int KEY_PITCH = WIDTH + 4, DOT_PITCH = CHUNK + 4;

// For each value head and chunk: T and the dots q_i . k_j f(i,j) for j <= i [2,CHUNK,CHUNK]; f(i)
// and f(C,j) [2,CHUNK].
static constexpr int MATRICES = 2 * CHUNK * CHUNK, CHUNK_FLOATS = MATRICES + 2 * CHUNK;

static __host__ __device__ int64_t chunks_of(const struct delta_sizes s)
{
    return (s.rows + CHUNK - 1) / CHUNK;
}

// rows [2 * CHUNK,KEY_PITCH] = the keys, then the queries of the chunk from row n on.
static __device__ void load_keys(float *rows, const struct prepared t, int64_t key,
                                 const struct delta_sizes s, int64_t n)
{
    for (int i = threadIdx.x; i < 2 * CHUNK * WIDTH; i += CHUNK_THREADS) {
        const int row = i / WIDTH, e = i % WIDTH;
        const int64_t at = n + row % CHUNK;
        rows[row * KEY_PITCH + e] =
            at < s.rows && e < s.dk ? (row < CHUNK ? t.k : t.q)[(at * s.key_heads + key) * s.dk + e]
                                    : 0;
    }
}

// One block per chunk and value head; `out`: CHUNK_FLOATS for each, chunks of a head in order.
static __global__ void __launch_bounds__(CHUNK_THREADS)
    chunk_kernel(float *out, struct prepared t, struct delta_sizes s)
{
    alignas(16) __shared__ float rows[2 * CHUNK * KEY_PITCH];
    __shared__ float f[CHUNK][CHUNK + 1], T[CHUNK][CHUNK + 1], alpha[CHUNK], beta[CHUNK];
    const int64_t h = blockIdx.y, n = (int64_t)blockIdx.x * CHUNK;
    const int thread = (int)threadIdx.x, row = thread / 8, column = thread % 8;
    out += (h * gridDim.x + blockIdx.x) * CHUNK_FLOATS;
    load_keys(rows, t, key_head(s, h), s, n);
    if (thread < CHUNK) {
        const bool real = n + thread < s.rows; // other rows change nothing
        alpha[thread] = real ? t.alpha[(n + thread) * s.heads + h] : 1;
        beta[thread] = real ? t.beta[(n + thread) * s.heads + h] : 0;
    }
    __syncthreads();
    if (thread < CHUNK) {
        float fade = 1;
        for (int i = 0; i < CHUNK; i++) {
            if (i > thread) fade *= alpha[i];
            f[i][thread] = i < thread ? 0 : fade;
        }
        out[MATRICES + CHUNK + thread] = fade;
    }
    float sum[4][4] = { { 0 } }; // rows row + ROWS a of keys and queries, keys column + 8 b
    for (int e = 0; e < WIDTH; e += 4) {
        float4 own[4], key[4];
        UNROLL
        for (int a = 0; a < 4; a++) {
            own[a] = *reinterpret_cast<const float4 *>(rows + (row + ROWS * a) * KEY_PITCH + e);
            key[a] = *reinterpret_cast<const float4 *>(rows + (column + 8 * a) * KEY_PITCH + e);
        }
        UNROLL
        for (int a = 0; a < 4; a++) UNROLL
        for (int b = 0; b < 4; b++)
            sum[a][b] += own[a].x * key[b].x + own[a].y * key[b].y + own[a].z * key[b].z +
                         own[a].w * key[b].w;
    }
    __syncthreads();    // f is written, and `rows` is read
    float *dots = rows; // beta_i f(i,j) k_i . k_j [CHUNK,CHUNK], for j < i
    UNROLL
    for (int a = 0; a < 4; a++) UNROLL
    for (int b = 0; b < 4; b++) {
        const int i = (row + ROWS * a) % CHUNK, j = column + 8 * b;
        if (a < CHUNK / ROWS)
            dots[i * CHUNK + j] = beta[i] * f[i][j] * sum[a][b];
        else
            out[CHUNK * CHUNK + i * CHUNK + j] = f[i][j] * sum[a][b];
    }
    __syncthreads();
    if (thread >= CHUNK) return;
    out[MATRICES + thread] = f[thread][0] * alpha[0];
    for (int i = 0; i < CHUNK; i++) { // column `thread` of T
        float x = i == thread ? beta[i] : 0;
        for (int j = thread; j < i; j++) x -= dots[i * CHUNK + j] * T[j][thread];
        T[i][thread] = x;
        out[i * CHUNK + thread] = x;
    }
}

// sum[a] += rows row + ROWS a of a product of [..,n] (`pitch` floats between rows) and [n,SLICE],
// for two columns; n: a multiple of 4.
template <int COUNT>
static __device__ void add_rows_product(float2 sum[COUNT], const float *from, int pitch,
                                        const float *by, int n, int row, int column)
{
    for (int e = 0; e < n; e += 4) {
        float2 b[4];
        UNROLL
        for (int i = 0; i < 4; i++)
            b[i] = *reinterpret_cast<const float2 *>(by + (e + i) * SLICE + column);
        UNROLL
        for (int a = 0; a < COUNT; a++) {
            const float4 x = *reinterpret_cast<const float4 *>(from + (row + ROWS * a) * pitch + e);
            sum[a].x += x.x * b[0].x + x.y * b[1].x + x.z * b[2].x + x.w * b[3].x;
            sum[a].y += x.x * b[0].y + x.y * b[1].y + x.z * b[2].y + x.w * b[3].y;
        }
    }
}

struct chunk_memory {
    float rows[2 * CHUNK * KEY_PITCH]; // keys, queries
    float T[CHUNK * DOT_PITCH], dots[CHUNK * DOT_PITCH];
    float S[WIDTH * SLICE];
    float v[CHUNK * SLICE], u[CHUNK * SLICE], faded[CHUNK * SLICE]; // faded: f(C,j) u_j
    float f[CHUNK], to_end[CHUNK];
};

// One block per value head and slice. `in`: what chunk_kernel computed.
static __global__ void __launch_bounds__(CHUNK_THREADS)
    delta_chunks_kernel(float *y, const float *x, struct prepared t, const float *in,
                        const float *before, float *after, float *stored, struct delta_sizes s)
{
    SHARED_MEMORY(struct chunk_memory, m);
    constexpr int OF_CHUNK = CHUNK / ROWS, OF_STATE = WIDTH / ROWS; // rows of a thread
    const int thread = (int)threadIdx.x, row = thread / 8, column = thread % 8 * 2;
    const int64_t h = blockIdx.y, first = (int64_t)blockIdx.x * SLICE, key = key_head(s, h);
    const int64_t state = h * s.dk * s.dv + first,
                  values = 2 * s.key_heads * s.dk + h * s.dv + first;
    for (int i = thread; i < WIDTH * SLICE; i += CHUNK_THREADS) {
        const int e = i / SLICE, j = i % SLICE;
        m->S[i] = before && e < s.dk && first + j < s.dv ? before[state + e * s.dv + j] : 0;
    }
    in += h * chunks_of(s) * CHUNK_FLOATS;
    for (int64_t n = 0; n < s.rows; n += CHUNK, in += CHUNK_FLOATS) {
        __syncthreads(); // S is written; the chunk before is read
        for (int i = thread; stored && i < WIDTH * SLICE; i += CHUNK_THREADS) {
            const int e = i / SLICE, j = i % SLICE;
            if (e < s.dk && first + j < s.dv)
                stored[n / STORED_ROWS * s.heads * s.dk * s.dv + state + e * s.dv + j] = m->S[i];
        }
        load_keys(m->rows, t, key, s, n);
        for (int i = thread; i < CHUNK * CHUNK; i += CHUNK_THREADS) {
            const int at = i / CHUNK * DOT_PITCH + i % CHUNK;
            m->T[at] = in[i];
            m->dots[at] = in[CHUNK * CHUNK + i];
        }
        if (thread < CHUNK) {
            m->f[thread] = in[MATRICES + thread];
            m->to_end[thread] = in[MATRICES + CHUNK + thread];
        }
        for (int i = thread; i < CHUNK * SLICE; i += CHUNK_THREADS) {
            const int64_t at = n + i / SLICE, j = i % SLICE;
            m->v[i] = at < s.rows && first + j < s.dv ? x[at * s.row + values + j] : 0;
        }
        __syncthreads();
        // v - f(i) S^T k_i; the rows of S^T q stay in the thread that writes their outputs
        float2 read[2 * OF_CHUNK] = {}, u[OF_CHUNK] = {};
        add_rows_product<2 * OF_CHUNK>(read, m->rows, KEY_PITCH, m->S, WIDTH, row, column);
        UNROLL
        for (int a = 0; a < OF_CHUNK; a++) {
            const int i = row + ROWS * a;
            float *v = m->v + i * SLICE + column;
            v[0] -= m->f[i] * read[a].x;
            v[1] -= m->f[i] * read[a].y;
        }
        __syncthreads();
        add_rows_product<OF_CHUNK>(u, m->T, DOT_PITCH, m->v, CHUNK, row, column);
        UNROLL
        for (int a = 0; a < OF_CHUNK; a++) {
            const int i = row + ROWS * a, at = i * SLICE + column;
            m->u[at] = u[a].x;
            m->u[at + 1] = u[a].y;
            m->faded[at] = m->to_end[i] * u[a].x;
            m->faded[at + 1] = m->to_end[i] * u[a].y;
        }
        __syncthreads();
        float2 o[OF_CHUNK];
        UNROLL
        for (int a = 0; a < OF_CHUNK; a++) {
            const float f = m->f[row + ROWS * a];
            o[a] = { f * read[OF_CHUNK + a].x, f * read[OF_CHUNK + a].y };
        }
        add_rows_product<OF_CHUNK>(o, m->dots, DOT_PITCH, m->u, CHUNK, row, column);
        UNROLL
        for (int a = 0; a < OF_CHUNK; a++) {
            const int64_t at = n + row + ROWS * a;
            if (!y || at >= s.rows || first + column >= s.dv) continue;
            float *to = y + (at * s.heads + h) * s.dv + first + column;
            to[0] = o[a].x;
            if (first + column + 1 < s.dv) to[1] = o[a].y;
        }
        const float whole = m->f[CHUNK - 1];
        float2 next[OF_STATE];
        UNROLL
        for (int a = 0; a < OF_STATE; a++) {
            const float *S = m->S + (row + ROWS * a) * SLICE + column;
            next[a] = { whole * S[0], whole * S[1] };
        }
        for (int j = 0; j < CHUNK; j++) {
            const float2 b = *reinterpret_cast<const float2 *>(m->faded + j * SLICE + column);
            UNROLL
            for (int a = 0; a < OF_STATE; a++) {
                const float k = m->rows[j * KEY_PITCH + row + ROWS * a];
                next[a].x += k * b.x;
                next[a].y += k * b.y;
            }
        }
        UNROLL
        for (int a = 0; a < OF_STATE; a++) { // others last read S before the barrier after v
            float *S = m->S + (row + ROWS * a) * SLICE + column;
            S[0] = next[a].x;
            S[1] = next[a].y;
        }
    }
    __syncthreads();
    for (int i = thread; after && i < WIDTH * SLICE; i += CHUNK_THREADS) {
        const int e = i / SLICE, j = i % SLICE;
        if (e < s.dk && first + j < s.dv) after[state + e * s.dv + j] = m->S[i];
    }
}

// --- all rows ------------------------------------------------------------------------------------

static bool in_chunks(const struct delta_sizes s)
{
    return s.rows > CUDA_FEW_ROWS && s.dk <= WIDTH;
}

size_t delta_forward_floats(const struct delta_sizes s)
{
    return in_chunks(s) ? (size_t)(s.heads * chunks_of(s)) * CHUNK_FLOATS : 0;
}

int delta_forward(float *y, const float *x, const struct prepared t, const float *before,
                  float *after, float *stored, const struct delta_sizes s, float *memory)
{
    if (!in_chunks(s))
        return LAUNCH(delta_kernel, column_blocks(s), THREADS, 0, y, x, t, before, after, stored,
                      s);
    const dim3 grid((unsigned)chunks_of(s), (unsigned)s.heads);
    const dim3 slices((unsigned)((s.dv + SLICE - 1) / SLICE), (unsigned)s.heads);
    const size_t shared = sizeof(struct chunk_memory);
    if (cuda_allow_shared("delta rule", delta_chunks_kernel, shared) < 0 ||
        LAUNCH(chunk_kernel, grid, CHUNK_THREADS, 0, memory, t, s) < 0)
        return -1;
    return LAUNCH(delta_chunks_kernel, slices, CHUNK_THREADS, shared, y, x, t, memory, before,
                  after, stored, s);
}

int delta_rule_cuda(struct tensor *y, const struct delta_inputs *p, const struct tensor *before,
                    struct tensor *after)
{
    const struct delta_sizes s = delta_sizes(y, p);
    const size_t floats_of = prepared_floats(s) + delta_forward_floats(s) + 1;
    float *memory = static_cast<float *>(cuda_scratch(floats_of * sizeof(float)));
    if (!memory) return -1;
    const struct prepared t = prepared_at(s, memory);
    if (delta_prepare(t, p, s) < 0) return -1;
    return delta_forward(floats(y), floats(p->x), t, floats(before), floats(after), nullptr, s,
                         memory + prepared_floats(s));
}
