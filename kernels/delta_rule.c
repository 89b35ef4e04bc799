// kernels/delta_rule.c -- the gated delta rule (Yang et al. 2024, arXiv 2412.06464, equation 10).
//
//   S = alpha S;  S += k (x) u, u = beta (v - S^T k);  o = S^T q          S [dk,dv], per value head
//
// Columns of S never mix: a thread takes one value head and a few columns, which stay in its
// first-level cache while it walks over all rows. Each row is computed on its own, in order, so
// that its bits depend neither on the rows that share a call nor on the number of threads.
#include <math.h>

#include "kernels/vec.h"

enum { WIDE = 2 * VEC }; // columns of a state that a thread computes at a time

// Epsilon of the norms of queries and keys, in the sum of squares.
static const float length_eps = 1e-6F;

struct sizes {
    int64_t rows, key_heads, heads, dk, dv; // N, Hk, Hv
    int64_t row;                            // elements of a row of x: queries, keys, values
    bool alternate;                         // delta_inputs.alternate
};

static struct sizes sizes_of(const struct tensor *y, const struct delta_inputs *p)
{
    struct sizes s = { .rows = y->shape[0],
                       .key_heads = p->key_heads,
                       .heads = y->shape[1],
                       .dv = y->shape[2],
                       .row = p->x->shape[1],
                       .alternate = p->alternate };
    s.dk = (s.row - s.heads * s.dv) / (2 * s.key_heads);
    return s;
}

// Returns the key head of a value head.
static int64_t key_of(const struct sizes *s, int64_t h)
{
    return s->alternate ? h % s->key_heads : h / (s->heads / s->key_heads);
}

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static float softplus(float x)
{
    return x > 20 ? x : log1pf(expf(x));
}

// Returns row i of a [N,..] tensor of rank 2.
static const float *vector_at(const struct tensor *t, int64_t i)
{
    return (const float *)t->data + i * t->shape[1];
}

// Returns factor / sqrt(|x|^2 + eps).
static float inverse_length(const float *x, int64_t n, float factor)
{
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return factor / sqrtf(sum + length_eps);
}

// Inputs of all value heads: unit queries (divided by sqrt(dk)) and keys [N,Hk,dk]; alpha and beta
// [N,Hv].
struct prepared {
    float *q, *k, *alpha, *beta;
};

static size_t prepared_floats(const struct sizes *s)
{
    return (size_t)s->rows * (size_t)(2 * s->key_heads * s->dk + 2 * s->heads);
}

static struct prepared prepare(const struct sizes *s, const struct delta_inputs *p, float *memory)
{
    const int64_t wide = s->key_heads * s->dk;
    struct prepared t = { .q = memory };
    t.k = t.q + s->rows * wide;
    t.alpha = t.k + s->rows * wide;
    t.beta = t.alpha + s->rows * s->heads;
    const float *log_a = p->log_a->data, *bias = p->bias->data;
#pragma omp parallel for schedule(static) if (vec_worth_threads(s->rows * wide * 4))
    for (int64_t i = 0; i < s->rows; i++) {
        const float *x = vector_at(p->x, i);
        for (int64_t h = 0; h < s->key_heads; h++) {
            const float *q = x + h * s->dk, *k = q + wide;
            const float by_q = inverse_length(q, s->dk, 1 / sqrtf((float)s->dk));
            const float by_k = inverse_length(k, s->dk, 1);
            float *to_q = t.q + i * wide + h * s->dk, *to_k = t.k + i * wide + h * s->dk;
            for (int64_t e = 0; e < s->dk; e++) {
                to_q[e] = q[e] * by_q;
                to_k[e] = k[e] * by_k;
            }
        }
        for (int64_t h = 0; h < s->heads; h++) {
            const float rate = expf(log_a[h]) * softplus(vector_at(p->a, i)[h] + bias[h]);
            t.alpha[i * s->heads + h] = expf(-rate);
            t.beta[i * s->heads + h] = sigmoid(vector_at(p->b, i)[h]);
        }
    }
    return t;
}

// --- forward -------------------------------------------------------------------------------------

// Copies columns first .. first + count - 1 of a state into S [dk,WIDE], padded with zeros.
static void load_columns(float *S, const float *state, const struct sizes *s, int64_t first,
                         int64_t count)
{
    for (int64_t i = 0; i < s->dk; i++)
        for (int64_t j = 0; j < WIDE; j++)
            S[i * WIDE + j] = state && j < count ? state[i * s->dv + first + j] : 0;
}

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

// Computes `count` columns of value head h, from column `first` on.
static void head_columns(const struct sizes *s, const struct prepared *t, struct tensor *y,
                         const float *x, const float *before, float *after, int64_t h,
                         int64_t first, int64_t count, float *S)
{
    const int64_t wide = s->key_heads * s->dk, key = key_of(s, h) * s->dk;
    const int64_t state = h * s->dk * s->dv;
    float v[WIDE] = { 0 };
    load_columns(S, before ? before + state : NULL, s, first, count);
    for (int64_t n = 0; n < s->rows; n++) {
        const float *value = x + n * s->row + 2 * wide + h * s->dv + first;
        float *o = (float *)y->data + (n * s->heads + h) * s->dv + first;
        for (int64_t j = 0; j < WIDE; j++) v[j] = j < count ? value[j] : 0;
        advance(S, t->q + n * wide + key, t->k + n * wide + key, t->alpha[n * s->heads + h],
                t->beta[n * s->heads + h], v, s->dk);
        for (int64_t j = 0; j < count; j++) o[j] = v[j];
    }
    for (int64_t i = 0; after && i < s->dk; i++)
        for (int64_t j = 0; j < count; j++) after[state + i * s->dv + first + j] = S[i * WIDE + j];
}

int KERNEL(delta_rule)(struct tensor *y, const struct delta_inputs *p, const struct tensor *before,
                       struct tensor *after)
{
    const struct sizes s = sizes_of(y, p);
    const int64_t blocks = (s.dv + WIDE - 1) / WIDE, state = s.dk * WIDE;
    const int threads = omp_get_max_threads();
    float *memory =
        cpu_scratch((prepared_floats(&s) + (size_t)(threads * state) + VEC) * sizeof *memory);
    if (!memory) return -1;
    const struct prepared t = prepare(&s, p, memory);
    float *states = memory + prepared_floats(&s);
    const bool worth = vec_worth_threads((s.rows + 1) * s.heads * s.dk * s.dv);
#pragma omp parallel for schedule(static) if (worth)
    for (int64_t task = 0; task < s.heads * blocks; task++) {
        const int64_t first = task % blocks * WIDE, left = s.dv - first;
        head_columns(&s, &t, y, p->x->data, before ? before->data : NULL,
                     after ? after->data : NULL, task / blocks, first, left < WIDE ? left : WIDE,
                     states + omp_get_thread_num() * state);
    }
    return 0;
}

// --- backward ------------------------------------------------------------------------------------

// States are recomputed for this many rows at a time, from the state before them.
enum { CHUNK = 32 };

// One thread's memory for a key head: the state [dk,dv] before each chunk, and before each row of
// one chunk; the gradient G [dk,dv] of the state; vectors [dv]; the gradients [N,dk] of the unit
// queries and keys.
struct back {
    float *chunk, *state, *G, *r, *e, *du;
    float *dq, *dk;
};

static size_t back_floats(const struct sizes *s)
{
    const int64_t chunks = (s->rows + CHUNK - 1) / CHUNK, size = s->dk * s->dv;
    return (size_t)((chunks + CHUNK + 2) * size + 3 * s->dv + 2 * s->rows * s->dk);
}

static struct back back_at(const struct sizes *s, float *memory)
{
    const int64_t chunks = (s->rows + CHUNK - 1) / CHUNK, size = s->dk * s->dv;
    struct back w = { .chunk = memory };
    w.state = w.chunk + chunks * size;
    w.G = w.state + (CHUNK + 1) * size;
    w.r = w.G + size;
    w.e = w.r + s->dv;
    w.du = w.e + s->dv;
    w.dq = w.du + s->dv;
    w.dk = w.dq + s->rows * s->dk;
    return w;
}

// The inputs of one row and value head.
struct step {
    const float *q, *k, *v; // [dk] [dk] [dv]
    float alpha, beta;
};

static struct step step_at(const struct sizes *s, const struct prepared *t, const float *x,
                           int64_t h, int64_t n)
{
    const int64_t wide = s->key_heads * s->dk, key = key_of(s, h) * s->dk;
    return (struct step){ .q = t->q + n * wide + key,
                          .k = t->k + n * wide + key,
                          .v = x + n * s->row + 2 * wide + h * s->dv,
                          .alpha = t->alpha[n * s->heads + h],
                          .beta = t->beta[n * s->heads + h] };
}

// r [dv] = P^T k and e [dv] = v - alpha r, for the state P before the row.
static void errors(const struct sizes *s, const struct step *in, const float *P, float *r, float *e)
{
    for (int64_t j = 0; j < s->dv; j++) r[j] = 0;
    for (int64_t i = 0; i < s->dk; i++) vec_add_scaled(r, P + i * s->dv, in->k[i], s->dv);
    for (int64_t j = 0; j < s->dv; j++) e[j] = in->v[j] - in->alpha * r[j];
}

// next [dk,dv] = the state after the row; P may be next.
static void follow(const struct sizes *s, const struct step *in, const float *P, float *next,
                   const struct back *w)
{
    errors(s, in, P, w->r, w->e);
    for (int64_t i = 0; i < s->dk; i++)
        for (int64_t j = 0; j < s->dv; j++)
            next[i * s->dv + j] = in->alpha * P[i * s->dv + j] + in->k[i] * in->beta * w->e[j];
}

static float dot(const float *a, const float *b, int64_t n)
{
    float sum = 0;
    for (int64_t j = 0; j < n; j++) sum += a[j] * b[j];
    return sum;
}

// Gradients of a row's alpha and beta.
struct step_back {
    float alpha, beta;
};

// Takes G, the gradient of the state after the row, back to the gradient of the state P before it;
// adds to the gradients of the row's inputs. `S` is the state after the row.
static struct step_back back_step(const struct sizes *s, const struct step *in, const float *P,
                                  const float *S, const float *dy, const struct back *w, float *dq,
                                  float *dk, float *dv)
{
    const int64_t width = s->dv;
    struct step_back d = { 0, 0 };
    errors(s, in, P, w->r, w->e);
    for (int64_t j = 0; j < width; j++) w->du[j] = 0;
    for (int64_t i = 0; i < s->dk; i++) {
        float *G = w->G + i * width;
        dq[i] += dot(S + i * width, dy, width);
        vec_add_scaled(G, dy, in->q[i], width);
        vec_add_scaled(w->du, G, in->k[i], width);
        dk[i] += in->beta * dot(G, w->e, width);
        d.alpha += dot(G, P + i * width, width);
    }
    d.beta = dot(w->du, w->e, width);
    d.alpha -= in->beta * dot(w->du, w->r, width);
    for (int64_t j = 0; dv && j < width; j++) dv[j] += in->beta * w->du[j];
    const float back = -in->alpha * in->beta; // dr = back du
    for (int64_t i = 0; i < s->dk; i++) {
        float *G = w->G + i * width;
        dk[i] += back * dot(P + i * width, w->du, width);
        for (int64_t j = 0; j < width; j++) G[j] = in->alpha * G[j] + in->k[i] * back * w->du[j];
    }
    return d;
}

// Adds the gradients of a row's alpha and beta to those of their inputs.
static void back_gates(const struct sizes *s, const struct delta_inputs *p,
                       const struct delta_grads *d, const struct step *in, struct step_back by,
                       int64_t n, int64_t h, double *dlog_a, double *dbias)
{
    const float rate = expf(((const float *)p->log_a->data)[h]);
    const float z = vector_at(p->a, n)[h] + ((const float *)p->bias->data)[h];
    const float dz = -by.alpha * in->alpha * rate * sigmoid(z);
    if (d->a) ((float *)d->a->data)[n * s->heads + h] += dz;
    if (d->b) ((float *)d->b->data)[n * s->heads + h] += by.beta * in->beta * (1 - in->beta);
    *dbias += (double)dz;
    *dlog_a -= (double)(by.alpha * in->alpha * rate * softplus(z));
}

static void back_head(const struct sizes *s, const struct prepared *t, const struct delta_inputs *p,
                      const struct delta_grads *d, const struct tensor *dy, const struct back *w,
                      int64_t h)
{
    const int64_t size = s->dk * s->dv, chunks = (s->rows + CHUNK - 1) / CHUNK;
    const int64_t wide = s->key_heads * s->dk;
    const float *x = p->x->data;
    double dlog_a = 0, dbias = 0;
    for (int64_t i = 0; i < size; i++) w->state[i] = w->G[i] = 0;
    for (int64_t n = 0; n < s->rows; n++) {
        const struct step in = step_at(s, t, x, h, n);
        if (n % CHUNK == 0)
            memcpy(w->chunk + n / CHUNK * size, w->state, (size_t)size * sizeof *w->state);
        follow(s, &in, w->state, w->state, w);
    }
    for (int64_t c = chunks - 1; c >= 0; c--) {
        const int64_t from = c * CHUNK, end = from + CHUNK < s->rows ? from + CHUNK : s->rows;
        memcpy(w->state, w->chunk + c * size, (size_t)size * sizeof *w->state);
        for (int64_t n = from; n < end; n++) {
            const struct step in = step_at(s, t, x, h, n);
            float *P = w->state + (n - from) * size;
            follow(s, &in, P, P + size, w);
        }
        for (int64_t n = end - 1; n >= from; n--) {
            const struct step in = step_at(s, t, x, h, n);
            const float *P = w->state + (n - from) * size;
            float *dv = d->x ? (float *)d->x->data + n * s->row + 2 * wide + h * s->dv : NULL;
            const struct step_back by =
                back_step(s, &in, P, P + size, (const float *)dy->data + (n * s->heads + h) * s->dv,
                          w, w->dq + n * s->dk, w->dk + n * s->dk, dv);
            back_gates(s, p, d, &in, by, n, h, &dlog_a, &dbias);
        }
    }
    if (d->log_a) ((float *)d->log_a->data)[h] += (float)dlog_a;
    if (d->bias) ((float *)d->bias->data)[h] += (float)dbias;
}

// y = x f, f = factor / sqrt(|x|^2 + eps): dx += f (dy - x (x . dy) / (|x|^2 + eps)).
static void back_unit(float *dx, const float *x, const float *dy, int64_t n, float factor)
{
    const float by = inverse_length(x, n, factor);
    const float along = dot(x, dy, n) / (dot(x, x, n) + length_eps);
    for (int64_t i = 0; i < n; i++) dx[i] += by * (dy[i] - x[i] * along);
}

int KERNEL(delta_rule_backward)(const struct delta_grads *d, const struct tensor *dy,
                                const struct delta_inputs *p)
{
    const struct sizes s = sizes_of(dy, p);
    const int64_t wide = s.key_heads * s.dk;
    const int64_t threads = omp_get_max_threads(), each = (int64_t)back_floats(&s);
    const int64_t most = threads < s.key_heads ? threads : s.key_heads;
    float *memory = cpu_scratch((prepared_floats(&s) + (size_t)(most * each)) * sizeof *memory);
    if (!memory) return -1;
    const struct prepared t = prepare(&s, p, memory);
    float *own = memory + prepared_floats(&s);
#pragma omp parallel for schedule(static) num_threads((int)most)
    for (int64_t g = 0; g < s.key_heads; g++) {
        const struct back w = back_at(&s, own + omp_get_thread_num() * each);
        for (int64_t i = 0; i < 2 * s.rows * s.dk; i++) w.dq[i] = 0;
        for (int64_t h = 0; h < s.heads; h++)
            if (key_of(&s, h) == g) back_head(&s, &t, p, d, dy, &w, h);
        for (int64_t n = 0; d->x && n < s.rows; n++) {
            const float *q = vector_at(p->x, n) + g * s.dk;
            float *to = (float *)d->x->data + n * s.row + g * s.dk;
            back_unit(to, q, w.dq + n * s.dk, s.dk, 1 / sqrtf((float)s.dk));
            back_unit(to + wide, q + wide, w.dk + n * s.dk, s.dk, 1);
        }
    }
    return 0;
}
