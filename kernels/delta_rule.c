// kernels/delta_rule.c -- the gated delta rule (Yang et al. 2024, arXiv 2412.06464, equation 10).
//
//   S = alpha S;  S += k (x) u, u = beta (v - S^T k);  o = S^T q          S [dk,dv], per value head
//
// Columns of S never mix: they are computed in slices that stay in a first-level cache. Up to
// FEW_ROWS rows are computed one after the other: their bits are those of each row alone. More rows
// are computed in chunks, by products of small matrices; the bits of a row then depend on the row
// at which its call begins. Bits never depend on the number of threads.
#include "kernels/delta_rule.h"
#include "kernels/matmul_few.h"

enum {
    WIDE = 2 * VEC,           // columns of a slice
    CHUNK = WIDE,             // rows of a chunk: square matrices let one tile serve all products
    TILE = VEC == 16 ? 8 : 4, // rows of a tile
};

static const float FAINT = 1e-30F; // far below a rounding error of what it is added to

struct call {
    struct delta_sizes size;
    const struct delta_inputs *in;
    struct tensor *y;
    int64_t width; // dk in memory: whole tiles
};

// A slice of a value head's state: columns `first` .. `first` + `count` - 1, count <= WIDE.
struct slice {
    int64_t head, first, count;
    float *S; // [width,WIDE]; zeros fill rows and columns
};

// The rows of a chunk from row `first` on. In chunks, `rows` is rounded up to whole tiles: the
// added rows have zeros for queries, keys and beta, and 1 for alpha, and change nothing.
struct chunk {
    int64_t first, rows;
    float *q, *k; // of one key head: unit queries (divided by sqrt(dk)) and keys [rows,width]
    float alpha[CHUNK], beta[CHUNK]; // of one value head
};

// to [WIDE] = n elements, then zeros.
static void load_padded(float *to, const float *from, int64_t n)
{
    if (n == WIDE) {
        vf_store(to, vf_load(from));
        vf_store(to + VEC, vf_load(from + VEC));
        return;
    }
    memset(to, 0, WIDE * sizeof *to);
    for (int64_t j = 0; j < n; j++) to[j] = from[j];
}

// to [n] = the first n <= WIDE elements.
static void store_part(float *to, const float *from, int64_t n)
{
    if (n == WIDE) {
        vf_store(to, vf_load(from));
        vf_store(to + VEC, vf_load(from + VEC));
        return;
    }
    for (int64_t j = 0; j < n; j++) to[j] = from[j];
}

// Returns row i of the slice's columns in a state [Hv,dk,dv].
static float *state_row(const struct call *c, const struct slice *p, const struct tensor *state,
                        int64_t i)
{
    const struct delta_sizes *s = &c->size;
    return (float *)state->data + (p->head * s->dk + i) * s->dv + p->first;
}

static void load_state(const struct call *c, const struct slice *p, const struct tensor *state)
{
    memset(p->S, 0, (size_t)(c->width * WIDE) * sizeof *p->S);
    for (int64_t i = 0; state && i < c->size.dk; i++)
        load_padded(p->S + i * WIDE, state_row(c, p, state, i), p->count);
}

static void store_state(const struct call *c, const struct slice *p, struct tensor *state)
{
    for (int64_t i = 0; state && i < c->size.dk; i++)
        store_part(state_row(c, p, state, i), p->S + i * WIDE, p->count);
}

// v [WIDE] = the values of row n, or zeros after the last row.
static void load_values(const struct call *c, const struct slice *p, int64_t n, float *v)
{
    const struct delta_sizes *s = &c->size;
    if (n < s->rows)
        load_padded(v,
                    vector_at(c->in->x, n) + 2 * s->key_heads * s->dk + p->head * s->dv + p->first,
                    p->count);
    else
        memset(v, 0, WIDE * sizeof *v);
}

static void store_output(const struct call *c, const struct slice *p, int64_t n, const float *o)
{
    const struct delta_sizes *s = &c->size;
    if (n < s->rows)
        store_part((float *)c->y->data + (n * s->heads + p->head) * s->dv + p->first, o, p->count);
}

static void load_keys(const struct call *c, struct chunk *w, int64_t key_head)
{
    memset(w->q, 0, (size_t)(w->rows * c->width) * sizeof *w->q);
    memset(w->k, 0, (size_t)(w->rows * c->width) * sizeof *w->k);
    for (int64_t i = 0; i < w->rows && w->first + i < c->size.rows; i++)
        unit_rows(w->q + i * c->width, w->k + i * c->width, &c->size, c->in, key_head,
                  w->first + i);
}

static void load_gates(const struct call *c, struct chunk *w, int64_t head)
{
    for (int64_t i = 0; i < w->rows; i++) {
        const bool real = w->first + i < c->size.rows;
        w->alpha[i] = real ? delta_alpha(c->in, head, w->first + i) : 1;
        w->beta[i] = real ? delta_beta(c->in, head, w->first + i) : 0;
    }
}

// --- row by row ----------------------------------------------------------------------------------

// Advances S by one row; `v` [WIDE] becomes the output.
static void advance(float *S, const float *q, const float *k, float alpha, float beta, float *v,
                    int64_t dk)
{
    const vf fade = vf_set(alpha);
    vf sum[4] = { { 0 } };
    int64_t i = 0;
    for (; i + 2 <= dk; i += 2) {
        const vf k0 = vf_set(k[i]), k1 = vf_set(k[i + 1]);
        const float *at = S + i * WIDE;
        sum[0] += vf_load(at) * k0;
        sum[1] += vf_load(at + VEC) * k0;
        sum[2] += vf_load(at + WIDE) * k1;
        sum[3] += vf_load(at + WIDE + VEC) * k1;
    }
    for (; i < dk; i++) {
        sum[0] += vf_load(S + i * WIDE) * vf_set(k[i]);
        sum[1] += vf_load(S + i * WIDE + VEC) * vf_set(k[i]);
    }
    const vf u0 = (vf_load(v) - fade * (sum[0] + sum[2])) * vf_set(beta);
    const vf u1 = (vf_load(v + VEC) - fade * (sum[1] + sum[3])) * vf_set(beta);
    vf o0 = { 0 }, o1 = { 0 };
    for (i = 0; i < dk; i++) {
        float *at = S + i * WIDE;
        const vf s0 = fade * vf_load(at) + vf_set(k[i]) * u0;
        const vf s1 = fade * vf_load(at + VEC) + vf_set(k[i]) * u1;
        vf_store(at, s0);
        vf_store(at + VEC, s1);
        o0 += s0 * vf_set(q[i]);
        o1 += s1 * vf_set(q[i]);
    }
    vf_store(v, o0);
    vf_store(v + VEC, o1);
}

static void each_row(const struct call *c, const struct chunk *w, const struct slice *p)
{
    float v[WIDE];
    for (int64_t i = 0; i < w->rows; i++) {
        load_values(c, p, w->first + i, v);
        advance(p->S, w->q + i * c->width, w->k + i * c->width, w->alpha[i], w->beta[i], v,
                c->size.dk);
        store_output(c, p, w->first + i, v);
    }
}

// --- in chunks -----------------------------------------------------------------------------------
//
// With S the state before a chunk of C rows, f(i,j) the product of the alphas of rows j + 1 to i,
// and f(i) that of all rows of the chunk up to i:
//
//   u_i = beta_i (v_i - f(i) S^T k_i - sum over j < i of f(i,j) (k_i . k_j) u_j)
//   o_i = f(i) S^T q_i + sum over j <= i of f(i,j) (q_i . k_j) u_j
//   S  <- f(C) S + sum over j of f(C,j) k_j u_j^T
//
// (Yang et al. 2024, section 3.3, which solves for all u_i by an inverse; here they follow in
// order.)

// What slices of a value head share: dots of the chunk's rows, k_i . k_j and q_i . k_j, and their
// products with f(i,j), [CHUNK,CHUNK].
struct dots {
    float kk[CHUNK * CHUNK], qk[CHUNK * CHUNK];
    float faded_kk[CHUNK * CHUNK], faded_qk[CHUNK * CHUNK];
    float f[CHUNK], to_end[CHUNK]; // f(i), f(C,j)
};

// sum [TILE,WIDE] += a b: a [TILE,n] has a_row between rows and a_step between columns; b is
// [n,WIDE].
VEC_INLINE void add_tile(vf sum[TILE][2], const float *a, int64_t a_row, int64_t a_step,
                         const float *b, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        const vf b0 = vf_load(b + j * WIDE), b1 = vf_load(b + j * WIDE + VEC);
#pragma GCC unroll 8
        for (int r = 0; r < TILE; r++) {
            const vf one = vf_set(a[r * a_row + j * a_step]);
            sum[r][0] += one * b0;
            sum[r][1] += one * b1;
        }
    }
}

// sum = rows [TILE,WIDE], each times a factor: by[0], by[step], ..
VEC_INLINE void load_tile(vf sum[TILE][2], const float *rows, const float *by, int64_t step)
{
#pragma GCC unroll 8
    for (int r = 0; r < TILE; r++) {
        sum[r][0] = vf_load(rows + r * WIDE) * vf_set(by[r * step]);
        sum[r][1] = vf_load(rows + r * WIDE + VEC) * vf_set(by[r * step]);
    }
}

VEC_INLINE void store_tile(float *rows, vf sum[TILE][2])
{
#pragma GCC unroll 8
    for (int r = 0; r < TILE; r++) {
        vf_store(rows + r * WIDE, sum[r][0]);
        vf_store(rows + r * WIDE + VEC, sum[r][1]);
    }
}

// to [rows,WIDE] = a [rows,n] b [n,WIDE]; rows: whole tiles.
static void multiply(float *to, const float *a, int64_t rows, int64_t n, const float *b)
{
    for (int64_t i = 0; i < rows; i += TILE) {
        vf sum[TILE][2] = { { { 0 } } };
        add_tile(sum, a + i * n, n, 1, b, n);
        store_tile(to + i * WIDE, sum);
    }
}

// `transposed`: memory for [width,CHUNK].
static void multiply_keys(const struct call *c, const struct chunk *w, struct dots *d,
                          float *transposed)
{
    for (int64_t e = 0; e < c->width; e++)
        for (int64_t j = 0; j < CHUNK; j++)
            transposed[e * CHUNK + j] = j < w->rows ? w->k[j * c->width + e] : 0;
    multiply(d->kk, w->k, w->rows, c->width, transposed);
    multiply(d->qk, w->q, w->rows, c->width, transposed);
}

static float faint_as_zero(float x)
{
    return x < FAINT ? 0 : x;
}

// Multiplies dots by f(i,j), 0 for j > i. Writes f(i) and to_end, which holds row i of f(i,j) on
// the way. f below FAINT counts as 0: smaller numbers become denormal, which are slow, in products.
static void fade_dots(const struct chunk *w, struct dots *d)
{
    float whole = 1, *f = d->to_end; // f(i,j) at row i
    memset(f, 0, CHUNK * sizeof *f);
    for (int64_t i = 0; i < w->rows; i++) {
        const int64_t row = i * CHUNK;
        for (int64_t j = 0; j < i; j++) f[j] = faint_as_zero(f[j] * w->alpha[i]);
        f[i] = 1;
        d->f[i] = whole = faint_as_zero(whole * w->alpha[i]);
        for (int64_t j = 0; j < CHUNK; j++) {
            d->faded_kk[row + j] = f[j] * d->kk[row + j];
            d->faded_qk[row + j] = f[j] * d->qk[row + j];
        }
    }
}

// Replaces v in u [rows,WIDE] by u; sk: S^T k. Takes a tile of rows from the rows before it, then
// each row of it.
static void solve(const struct chunk *w, const struct dots *d, float *sk, float *u)
{
    for (int64_t from = 0; from < w->rows; from += TILE) {
        vf sum[TILE][2];
        load_tile(sum, sk + from * WIDE, d->f + from, 1);
        add_tile(sum, d->faded_kk + from * CHUNK, CHUNK, 1, u, from);
        store_tile(sk + from * WIDE, sum);
        for (int64_t i = from; i < from + TILE; i++) {
            vf s0 = vf_load(sk + i * WIDE), s1 = vf_load(sk + i * WIDE + VEC);
            for (int64_t j = from; j < i; j++) {
                const vf kk = vf_set(d->faded_kk[i * CHUNK + j]);
                s0 += kk * vf_load(u + j * WIDE);
                s1 += kk * vf_load(u + j * WIDE + VEC);
            }
            const vf beta = vf_set(w->beta[i]);
            vf_store(u + i * WIDE, (vf_load(u + i * WIDE) - s0) * beta);
            vf_store(u + i * WIDE + VEC, (vf_load(u + i * WIDE + VEC) - s1) * beta);
        }
    }
}

static void whole_chunk(const struct call *c, const struct chunk *w, const struct dots *d,
                        const struct slice *p)
{
    _Alignas(64) float u[CHUNK * WIDE], sk[CHUNK * WIDE], o[CHUNK * WIDE];
    for (int64_t i = 0; i < w->rows; i++) // at once: they come from slow memory
        load_values(c, p, w->first + i, u + i * WIDE);
    multiply(sk, w->k, w->rows, c->width, p->S);
    multiply(o, w->q, w->rows, c->width, p->S);
    solve(w, d, sk, u);
    for (int64_t i = 0; i < w->rows; i += TILE) {
        vf sum[TILE][2];
        load_tile(sum, o + i * WIDE, d->f + i, 1);
        add_tile(sum, d->faded_qk + i * CHUNK, CHUNK, 1, u, i + TILE);
        store_tile(o + i * WIDE, sum);
    }
    for (int64_t i = 0; i < w->rows; i++) store_output(c, p, w->first + i, o + i * WIDE);
    for (int64_t i = 0; i < w->rows; i++)
        for (int64_t j = 0; j < WIDE; j++) u[i * WIDE + j] *= d->to_end[i];
    for (int64_t e = 0; e < c->width; e += TILE) {
        vf sum[TILE][2];
        load_tile(sum, p->S + e * WIDE, &d->f[w->rows - 1], 0);
        add_tile(sum, w->k + e, 1, c->width, u, w->rows);
        store_tile(p->S + e * WIDE, sum);
    }
}

// --- all rows ------------------------------------------------------------------------------------

// Returns slice i of a key head's value heads: all slices of the first head, then those of the
// next.
static struct slice slice_at(const struct call *c, int64_t key_head, int64_t i, float *S)
{
    const int64_t of_head = (c->size.dv + WIDE - 1) / WIDE, first = i % of_head * WIDE;
    const int64_t left = c->size.dv - first;
    return (struct slice){ .head = delta_head(&c->size, key_head, i / of_head),
                           .first = first,
                           .count = left < WIDE ? left : WIDE,
                           .S = S };
}

// Computes slices `from` .. `end` - 1 of a key head. `memory`: 3 * CHUNK * width floats, and width
// * WIDE for each slice.
static void run_task(const struct call *c, int64_t key_head, int64_t from, int64_t end,
                     const struct tensor *before, struct tensor *after, float *memory)
{
    const int64_t keys = CHUNK * c->width, state = c->width * WIDE, rows = c->size.rows;
    const bool few = rows <= FEW_ROWS;
    struct chunk w = { .q = memory, .k = memory + keys };
    _Alignas(64) struct dots dots;
    float *transposed = memory + 2 * keys, *S = memory + 3 * keys;
    for (int64_t i = from; i < end; i++) {
        const struct slice p = slice_at(c, key_head, i, S + (i - from) * state);
        load_state(c, &p, before);
    }
    for (; w.first < rows; w.first += CHUNK) {
        const int64_t left = rows - w.first, tiles = (left + TILE - 1) / TILE * TILE;
        int64_t head = -1;
        w.rows = few ? rows : tiles < CHUNK ? tiles : CHUNK;
        load_keys(c, &w, key_head);
        if (!few) multiply_keys(c, &w, &dots, transposed);
        for (int64_t i = from; i < end; i++) {
            const struct slice p = slice_at(c, key_head, i, S + (i - from) * state);
            if (p.head != head) {
                load_gates(c, &w, head = p.head);
                if (!few) fade_dots(&w, &dots);
            }
            if (few)
                each_row(c, &w, &p);
            else
                whole_chunk(c, &w, &dots, &p);
        }
    }
    for (int64_t i = from; i < end; i++) {
        const struct slice p = slice_at(c, key_head, i, S + (i - from) * state);
        store_state(c, &p, after);
    }
}

// Returns how many slices of a key head a task computes: all, which share its keys, or fewer if
// that gives the busiest thread less to do.
static int64_t slices_of_task(int64_t key_heads, int64_t slices, int64_t threads)
{
    int64_t best = slices, least = INT64_MAX;
    for (int64_t each = slices; each > 0; each--) {
        const int64_t tasks = key_heads * ((slices + each - 1) / each);
        const int64_t busiest = (tasks + threads - 1) / threads * each;
        if (busiest < least) least = busiest, best = each;
    }
    return best;
}

int KERNEL(delta_rule)(struct tensor *y, const struct delta_inputs *p, const struct tensor *before,
                       struct tensor *after)
{
    const struct delta_sizes s = delta_sizes(y, p);
    const struct call c = { s, p, y, (s.dk + TILE - 1) / TILE * TILE };
    const int64_t slices = s.heads / s.key_heads * ((s.dv + WIDE - 1) / WIDE);
    const int64_t threads = omp_get_max_threads();
    const int64_t of_task = slices_of_task(s.key_heads, slices, threads);
    const int64_t tasks = (slices + of_task - 1) / of_task; // of a key head
    const int64_t floats = 3 * CHUNK * c.width + of_task * c.width * WIDE;
    float *memory = cpu_scratch((size_t)(threads * floats) * sizeof *memory);
    if (!memory) return -1;
    const bool worth = vec_worth_threads((s.rows + 1) * s.heads * s.dk * s.dv);
#pragma omp parallel for schedule(static) if (worth)
    for (int64_t task = 0; task < s.key_heads * tasks; task++) {
        const int64_t from = task % tasks * of_task;
        run_task(&c, task / tasks, from, from + of_task < slices ? from + of_task : slices, before,
                 after, memory + omp_get_thread_num() * floats);
    }
    return 0;
}
