// kernels/delta_rule_backward.c -- the backward pass of the gated delta rule
// (kernels/delta_rule.c), row by row. A thread takes a key head with all its value heads.
#include "kernels/delta_rule.h"

// States are recomputed for this many rows at a time, from the state before them.
enum { STORED_ROWS = 32 };

// One thread's memory for a key head: the state [dk,dv] before each chunk, and before each row of
// one chunk; the gradient G [dk,dv] of the state; vectors [dv]; unit queries (divided by sqrt(dk))
// and keys [N,dk], and their gradients; alpha and beta [N] of a value head.
struct back {
    float *chunk, *state, *G, *r, *e, *du;
    float *q, *k, *dq, *dk, *alpha, *beta;
};

static size_t back_floats(const struct delta_sizes *s)
{
    const int64_t chunks = (s->rows + STORED_ROWS - 1) / STORED_ROWS, size = s->dk * s->dv;
    return (size_t)((chunks + STORED_ROWS + 2) * size + 3 * s->dv + s->rows * (4 * s->dk + 2));
}

static struct back back_at(const struct delta_sizes *s, float *memory)
{
    const int64_t chunks = (s->rows + STORED_ROWS - 1) / STORED_ROWS, size = s->dk * s->dv;
    struct back w = { .chunk = memory };
    w.state = w.chunk + chunks * size;
    w.G = w.state + (STORED_ROWS + 1) * size;
    w.r = w.G + size;
    w.e = w.r + s->dv;
    w.du = w.e + s->dv;
    w.q = w.du + s->dv;
    w.k = w.q + s->rows * s->dk;
    w.dq = w.k + s->rows * s->dk;
    w.dk = w.dq + s->rows * s->dk;
    w.alpha = w.dk + s->rows * s->dk;
    w.beta = w.alpha + s->rows;
    return w;
}

// The inputs of one row and value head.
struct step {
    const float *q, *k, *v; // [dk] [dk] [dv]
    float alpha, beta;
};

static struct step step_at(const struct delta_sizes *s, const struct back *w, const float *x,
                           int64_t h, int64_t n)
{
    return (struct step){ .q = w->q + n * s->dk,
                          .k = w->k + n * s->dk,
                          .v = x + n * s->row + 2 * s->key_heads * s->dk + h * s->dv,
                          .alpha = w->alpha[n],
                          .beta = w->beta[n] };
}

// r [dv] = P^T k and e [dv] = v - alpha r, for the state P before the row.
static void errors(const struct delta_sizes *s, const struct step *in, const float *P, float *r,
                   float *e)
{
    for (int64_t j = 0; j < s->dv; j++) r[j] = 0;
    for (int64_t i = 0; i < s->dk; i++) vec_add_scaled(r, P + i * s->dv, in->k[i], s->dv);
    for (int64_t j = 0; j < s->dv; j++) e[j] = in->v[j] - in->alpha * r[j];
}

// next [dk,dv] = the state after the row; P may be next.
static void follow(const struct delta_sizes *s, const struct step *in, const float *P, float *next,
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
static struct step_back back_step(const struct delta_sizes *s, const struct step *in,
                                  const float *P, const float *S, const float *dy,
                                  const struct back *w, float *dq, float *dk, float *dv)
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
static void back_gates(const struct delta_sizes *s, const struct delta_inputs *p,
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

static void back_head(const struct delta_sizes *s, const struct delta_inputs *p,
                      const struct delta_grads *d, const struct tensor *dy, const struct back *w,
                      int64_t h)
{
    const int64_t size = s->dk * s->dv, chunks = (s->rows + STORED_ROWS - 1) / STORED_ROWS;
    const int64_t wide = s->key_heads * s->dk;
    const float *x = p->x->data;
    double dlog_a = 0, dbias = 0;
    for (int64_t i = 0; i < size; i++) w->state[i] = w->G[i] = 0;
    for (int64_t n = 0; n < s->rows; n++) {
        w->alpha[n] = delta_alpha(p, h, n);
        w->beta[n] = delta_beta(p, h, n);
        const struct step in = step_at(s, w, x, h, n);
        if (n % STORED_ROWS == 0)
            memcpy(w->chunk + n / STORED_ROWS * size, w->state, (size_t)size * sizeof *w->state);
        follow(s, &in, w->state, w->state, w);
    }
    for (int64_t c = chunks - 1; c >= 0; c--) {
        const int64_t from = c * STORED_ROWS,
                      end = from + STORED_ROWS < s->rows ? from + STORED_ROWS : s->rows;
        memcpy(w->state, w->chunk + c * size, (size_t)size * sizeof *w->state);
        for (int64_t n = from; n < end; n++) {
            const struct step in = step_at(s, w, x, h, n);
            float *P = w->state + (n - from) * size;
            follow(s, &in, P, P + size, w);
        }
        for (int64_t n = end - 1; n >= from; n--) {
            const struct step in = step_at(s, w, x, h, n);
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
    const struct delta_sizes s = delta_sizes(dy, p);
    const int64_t wide = s.key_heads * s.dk;
    const int64_t threads = omp_get_max_threads(), each = (int64_t)back_floats(&s);
    const int64_t most = threads < s.key_heads ? threads : s.key_heads;
    float *memory = cpu_scratch((size_t)(most * each) * sizeof *memory);
    if (!memory) return -1;
#pragma omp parallel for schedule(static) num_threads((int)most)
    for (int64_t g = 0; g < s.key_heads; g++) {
        const struct back w = back_at(&s, memory + omp_get_thread_num() * each);
        for (int64_t i = 0; i < 2 * s.rows * s.dk; i++) w.dq[i] = 0;
        for (int64_t n = 0; n < s.rows; n++) unit_rows(w.q + n * s.dk, w.k + n * s.dk, &s, p, g, n);
        for (int64_t i = 0; i < s.heads / s.key_heads; i++)
            back_head(&s, p, d, dy, &w, delta_head(&s, g, i));
        for (int64_t n = 0; d->x && n < s.rows; n++) {
            const float *q = vector_at(p->x, n) + g * s.dk;
            float *to = (float *)d->x->data + n * s.row + g * s.dk;
            back_unit(to, q, w.dq + n * s.dk, s.dk, 1 / sqrtf((float)s.dk));
            back_unit(to + wide, q + wide, w.dk + n * s.dk, s.dk, 1);
        }
    }
    return 0;
}
