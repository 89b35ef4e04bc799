// tests/cuda/fused_experts.c -- mixtures of experts and latent attention in one call
// (kernels/fused.h) against the ops on the CPU and loops in float64.
#include "tests/cuda/fused.h"

// --- experts -------------------------------------------------------------------------------------

// Experts from number OWN on share the weights of earlier ones.
enum { EXPERTS_MOST = 513, OWN = 17 };

struct mixture {
    int64_t d, count, width, shared, chosen, groups, groups_per_token;
    bool normalise, alike; // alike: all scores are equal, so the first experts are chosen
    enum dtype dtype;
    bool softmax; // no biases; one group
    bool gated;   // the shared expert's output has a gate
};

struct gated_pair {
    struct pair gate, up, down;
};

static struct gated_pair gated_pair(const struct mixture *m, int64_t width, uint64_t seed)
{
    return (struct gated_pair){ pair_weights(m->dtype, width, m->d, seed),
                                pair_weights(m->dtype, width, m->d, seed + 1),
                                pair_weights(m->dtype, m->d, width, seed + 2) };
}

// sum += weight times the gated FFN of x.
static void add_gated(struct tensor *sum, const struct tensor *x, const struct gated_pair *w,
                      float weight)
{
    const int64_t width = w->gate.on[0].shape[0], d = x->shape[1];
    struct tensor a = noise_tensor(2, 1, width, 0, 1), b = noise_tensor(2, 1, width, 0, 1);
    struct tensor y = noise_tensor(2, 1, d, 0, 1);
    DONE(cpu->matmul(&a, x, &w->gate.on[0], NULL, MATMUL_F32));
    DONE(cpu->matmul(&b, x, &w->up.on[0], NULL, MATMUL_F32));
    DONE(cpu->swiglu(&a, &a, &b));
    DONE(cpu->matmul(&y, &a, &w->down.on[0], NULL, MATMUL_F32));
    DONE(cpu->scale(&y, &y, weight));
    DONE(cpu->add(sum, sum, &y));
    free(a.data);
    free(b.data);
    free(y.data);
}

// Returns the index of the best remaining score[n], which it removes.
static int take_best(double *score, int64_t n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (score[i] > score[best]) best = i;
    score[best] = -INFINITY;
    return best;
}

static double score_of(const struct mixture *m, float logit)
{
    return m->softmax ? exp((double)logit) : 1 / (1 + exp(-(double)logit));
}

static void choose(const struct mixture *m, const float *logits, const float *bias, int *index)
{
    double score[EXPERTS_MOST] = { 0 }, group[EXPERTS_MOST], kept[EXPERTS_MOST];
    const int64_t size = m->count / m->groups;
    for (int64_t i = 0; i < m->count; i++) {
        score[i] =
            m->softmax ? (double)logits[i] : 1 / (1 + exp(-(double)logits[i])) + (double)bias[i];
        kept[i] = -INFINITY;
    }
    for (int64_t j = 0; j < m->groups; j++) {
        double some[EXPERTS_MOST];
        memcpy(some, score + j * size, (size_t)size * sizeof *some);
        group[j] = score[j * size + take_best(some, size)];
        if (size > 1) group[j] += score[j * size + take_best(some, size)];
    }
    for (int64_t k = 0; k < m->groups_per_token; k++) {
        const int64_t at = take_best(group, m->groups) * size;
        memcpy(kept + at, score + at, (size_t)size * sizeof *kept);
    }
    for (int64_t k = 0; k < m->chosen; k++) index[k] = take_best(kept, m->count);
}

static void check_experts(const struct mixture *m)
{
    const float eps = 1e-5f;
    struct pair h = pair_noise(2, 1, m->d, 0, 1), gain = pair_noise(1, m->d, 0, 0, 2);
    struct pair router = pair_weights(m->dtype, m->count, m->d, 3);
    struct pair bias = pair_noise(1, m->count, 0, 0, 4);
    struct tensor x = noise_tensor(2, 1, m->d, 0, 5), logits = noise_tensor(2, 1, m->count, 0, 6);
    struct pair gate = pair_weights(m->dtype, 1, m->d, 7);
    struct gated_pair shared = { 0 };
    static struct gated_pair each[EXPERTS_MOST];
    static struct fused_gated expert[EXPERTS_MOST];
    if (m->shared) shared = gated_pair(m, m->shared, 10);
    if (m->alike) {
        memset(router.on[0].data, 0, tensor_bytes(&router.on[0]));
        memset(bias.on[0].data, 0, tensor_bytes(&bias.on[0]));
        gpu->upload(router.on[1].data, router.on[0].data, tensor_bytes(&router.on[0]));
        gpu->upload(bias.on[1].data, bias.on[0].data, tensor_bytes(&bias.on[0]));
    }
    for (int64_t e = 0; e < m->count; e++) {
        each[e] = e < OWN ? gated_pair(m, m->width, 20 + 3 * (uint64_t)e) : each[e - OWN];
        expert[e] =
            (struct fused_gated){ &each[e].gate.on[1], &each[e].up.on[1], &each[e].down.on[1] };
    }
    const struct fused_experts p = { .h = &h.on[1],
                                     .gain = &gain.on[1],
                                     .eps = eps,
                                     .router = &router.on[1],
                                     .bias = m->softmax ? NULL : &bias.on[1],
                                     .shared = { m->shared ? &shared.gate.on[1] : NULL,
                                                 &shared.up.on[1], &shared.down.on[1] },
                                     .shared_gate = m->gated ? &gate.on[1] : NULL,
                                     .expert = expert,
                                     .count = m->chosen,
                                     .groups = m->groups,
                                     .groups_per_token = m->groups_per_token,
                                     .normalise = m->normalise,
                                     .scale = 1.5f };
    const int64_t unit = 16 / (int64_t)dtype_size(m->dtype);
    const bool packs =
        m->d % unit == 0 && m->width % unit == 0 && m->shared % unit == 0 && m->count <= 512;
    if (computed(gpu->fused->experts(&p), packs)) {
        int index[EXPERTS_MOST];
        double sum = 0;
        const float *of = logits.data;
        DONE(cpu->rmsnorm(&x, &h.on[0], &gain.on[0], eps));
        DONE(cpu->matmul(&logits, &x, &router.on[0], NULL, MATMUL_F32));
        choose(m, of, bias.on[0].data, index);
        if (m->softmax && !m->normalise)
            for (int64_t e = 0; e < m->count; e++) sum += exp((double)of[e]);
        else
            for (int64_t k = 0; k < m->chosen; k++) sum += score_of(m, of[index[k]]);
        float logit = INFINITY;
        struct tensor one = { .data = &logit, .dtype = DTYPE_F32, .rank = 2, .shape = { 1, 1 } };
        if (m->gated) DONE(cpu->matmul(&one, &x, &gate.on[0], NULL, MATMUL_F32));
        if (m->shared) add_gated(&h.on[0], &x, &shared, 1 / (1 + expf(-logit)));
        for (int64_t k = 0; k < m->chosen; k++) {
            const double by = m->normalise || m->softmax ? sum : 1;
            add_gated(&h.on[0], &x, &each[index[k]], (float)(1.5 * score_of(m, of[index[k]]) / by));
        }
    }
    const double inner = (double)(m->shared + m->chosen * m->width);
    pair_compare("experts", &h, 40 * tolerance(MATMUL_F32, 1, m->d) * sqrt(inner), 1e-5);
    free(x.data);
    free(logits.data);
    pairs_release();
}

static void experts_are_chosen_and_added_up(void **state)
{
    for (int i = 0; i < 3; i++) {
        const enum dtype dtype = (enum dtype)i;
        check_experts(
            &(struct mixture){ 48, 8, 24, 48, 3, 1, 1, true, false, dtype, false, false });
        check_experts(
            &(struct mixture){ 1040, 12, 16, 0, 4, 4, 2, false, false, dtype, false, false });
        check_experts(&(struct mixture){ 40, 9, 8, 8, 9, 3, 3, true, false, dtype, false, false });
        check_experts(
            &(struct mixture){ 33 * 8, 16, 1032, 40, 2, 8, 3, true, false, dtype, false, false });
        check_experts(&(struct mixture){ 48, 8, 24, 48, 5, 1, 1, true, true, dtype, false, false });
        check_experts(&(struct mixture){ 48, 8, 24, 0, 3, 4, 3, true, true, dtype, false, false });
        check_experts(&(struct mixture){ 50, 8, 6, 0, 3, 1, 1, true, false, dtype, false, false });
        check_experts(&(struct mixture){ 48, 16, 24, 0, 8, 1, 1, true, false, dtype, true, false });
        check_experts(
            &(struct mixture){ 48, 12, 16, 0, 4, 1, 1, false, false, dtype, true, false });
        check_experts(&(struct mixture){ 48, 12, 16, 40, 4, 1, 1, true, false, dtype, true, true });
        // As many as Qwen3.5-397B-A17B has, alone and in groups; one more has no kernel.
        check_experts(
            &(struct mixture){ 32, 512, 8, 16, 10, 1, 1, true, false, dtype, true, true });
        check_experts(
            &(struct mixture){ 32, 512, 8, 0, 8, 8, 4, true, false, dtype, false, false });
        check_experts(&(struct mixture){ 32, 513, 8, 0, 8, 1, 1, true, false, dtype, true, false });
    }
}

// --- latent attention ----------------------------------------------------------------------------

struct latent {
    int64_t d, heads, rank, nope, rope, value, low; // low 0: queries are not compressed
    int64_t past, keys; // past: rows before the new one; keys: rows of the tensors
    enum dtype dtype, cache;
    bool after;
};

// The weights and tensors of a call on both devices.
struct latent_pairs {
    struct pair h, gain, query, query_gain, query_up, down, down_gain, up, out, after;
    struct pair cos, sin, place, last, c, r;
};

static struct latent_pairs latent_pairs(const struct latent *l)
{
    const int64_t q = l->heads * (l->nope + l->rope), d = l->d;
    struct latent_pairs p = {
        .h = pair_noise(2, 1, d, 0, 1),
        .gain = pair_noise(1, d, 0, 0, 2),
        .query = pair_weights(l->dtype, l->low ? l->low : q, d, 3),
        .query_gain = pair_noise(1, l->low ? l->low : 1, 0, 0, 4),
        .query_up = pair_weights(l->dtype, q, l->low ? l->low : 1, 5),
        .down = pair_weights(l->dtype, l->rank + l->rope, d, 6),
        .down_gain = pair_noise(1, l->rank, 0, 0, 7),
        .up = pair_weights(l->dtype, l->heads * (l->nope + l->value), l->rank, 8),
        .out = pair_weights(l->dtype, d, l->heads * l->value, 9),
        .after = pair_noise(1, d, 0, 0, 10),
        .cos = pair_noise(2, 1, l->rope / 2, 0, 11),
        .sin = pair_noise(2, 1, l->rope / 2, 0, 12),
        .place = pair_integers(1, 1, l->past, l->keys),
        .last = pair_integers(1, 1, l->past + 1, l->keys + 1),
        .c = pair_noise(3, l->keys, 1, l->rank, 13),
        .r = pair_noise(3, l->keys, 1, l->rope, 14),
    };
    if (l->cache == DTYPE_BF16) p.c = pair_bf16(&p.c), p.r = pair_bf16(&p.r);
    return p;
}

// Rotates elements 2i and 2i + 1 of x; stores the first elements of all pairs before the second.
static void turn(float *to, const float *x, const struct latent_pairs *p, int64_t half)
{
    const float *c = p->cos.on[0].data, *s = p->sin.on[0].data;
    for (int64_t i = 0; i < half; i++) {
        to[i] = x[2 * i] * c[i] - x[2 * i + 1] * s[i];
        to[i + half] = x[2 * i + 1] * c[i] + x[2 * i] * s[i];
    }
}

// A cache's rows as f32, with the new row inserted on the CPU.
static float *with_row(struct pair *cache, int64_t row, const float *numbers)
{
    struct tensor *t = &cache->on[0];
    const int64_t width = t->shape[2], n = tensor_count(t);
    struct tensor one = { .data = (void *)numbers, .rank = 3, .shape = { 1, 1, width } };
    struct tensor at = tensor_of(DTYPE_I32, 1, 1, 0, 0);
    *(int32_t *)at.data = (int32_t)row;
    DONE(cpu->scatter_rows(t, &one, &at));
    float *all = malloc((size_t)n * sizeof *all);
    floats_from(all, t->data, t->dtype, (size_t)n);
    free(at.data);
    return all;
}

// o [value] of a head: Wv times the sum of p c.
static void attend_latents(double *o, const struct latent *l, const float *q, const float *up,
                           const float *c, const float *r)
{
    double *p = malloc((size_t)(l->past + 1) * sizeof *p), sum = 0, most = -INFINITY;
    for (int64_t j = 0; j <= l->past; j++) {
        double dot = 0;
        for (int64_t i = 0; i < l->nope; i++)
            for (int64_t e = 0; e < l->rank; e++)
                dot += (double)q[i] * (double)up[i * l->rank + e] * (double)c[j * l->rank + e];
        for (int64_t i = 0; i < l->rope; i++)
            dot += (double)q[l->nope + i] * (double)r[j * l->rope + i];
        p[j] = dot * 0.01;
        most = fmax(most, p[j]);
    }
    for (int64_t j = 0; j <= l->past; j++) sum += p[j] = exp(p[j] - most);
    for (int64_t i = 0; i < l->value; i++) {
        o[i] = 0;
        for (int64_t e = 0; e < l->rank; e++) {
            double gathered = 0;
            for (int64_t j = 0; j <= l->past; j++)
                gathered += p[j] / sum * (double)c[j * l->rank + e];
            o[i] += (double)up[(l->nope + i) * l->rank + e] * gathered;
        }
    }
    free(p);
}

// h and the CPU's caches, as computed by the ops and loops in double.
static void latent_on_cpu(const struct latent *l, struct latent_pairs *p)
{
    const int64_t wide = l->nope + l->rope, q = l->heads * wide, per = l->nope + l->value;
    struct tensor x = noise_tensor(2, 1, l->d, 0, 1), low = noise_tensor(2, 1, l->low + 1, 0, 1);
    struct tensor asked = noise_tensor(2, 1, q, 0, 1), y = noise_tensor(2, 1, l->d, 0, 1);
    struct tensor both = noise_tensor(2, 1, l->rank + l->rope, 0, 1);
    struct tensor o = noise_tensor(2, 1, l->heads * l->value, 0, 1);
    struct tensor up = noise_tensor(2, l->heads * per, l->rank, 0, 1);
    struct tensor latent = both; // the first columns of `both`
    float *turning = malloc((size_t)l->rope * sizeof *turning);
    double *head = malloc((size_t)l->value * sizeof *head);
    low.shape[1] = l->low, latent.shape[1] = l->rank;
    DONE(cpu->rmsnorm(&x, &p->h.on[0], &p->gain.on[0], 1e-5f));
    DONE(cpu->matmul(l->low ? &low : &asked, &x, &p->query.on[0], NULL, MATMUL_F32));
    if (l->low) {
        DONE(cpu->rmsnorm(&low, &low, &p->query_gain.on[0], 1e-6f));
        DONE(cpu->matmul(&asked, &low, &p->query_up.on[0], NULL, MATMUL_F32));
    }
    DONE(cpu->matmul(&both, &x, &p->down.on[0], NULL, MATMUL_F32));
    DONE(cpu->rmsnorm(&latent, &latent, &p->down_gain.on[0], 1e-6f));
    DONE(cpu->widen(&up, &p->up.on[0]));
    turn(turning, (float *)both.data + l->rank, p, l->rope / 2);
    float *c = with_row(&p->c, l->past, both.data), *r = with_row(&p->r, l->past, turning);
    for (int64_t h = 0; h < l->heads; h++) {
        float *from = (float *)asked.data + h * wide;
        turn(turning, from + l->nope, p, l->rope / 2);
        memcpy(from + l->nope, turning, (size_t)l->rope * sizeof *turning);
        attend_latents(head, l, from, (float *)up.data + h * per * l->rank, c, r);
        for (int64_t i = 0; i < l->value; i++) ((float *)o.data)[h * l->value + i] = (float)head[i];
    }
    DONE(cpu->matmul(&y, &o, &p->out.on[0], NULL, MATMUL_F32));
    norm_after(&y, l->after ? &p->after.on[0] : NULL, 1e-5f);
    DONE(cpu->add(&p->h.on[0], &p->h.on[0], &y));
    void *all[] = { x.data,  low.data, asked.data, y.data, both.data, o.data,
                    up.data, turning,  head,       c,      r };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void check_latent(const struct latent *l)
{
    struct latent_pairs p = latent_pairs(l);
    const struct fused_latent form = { .h = &p.h.on[1],
                                       .gain = &p.gain.on[1],
                                       .eps = 1e-5f,
                                       .query = { .w = &p.query.on[1] },
                                       .query_up = { .w = l->low ? &p.query_up.on[1] : NULL },
                                       .down = { .w = &p.down.on[1] },
                                       .out = { .w = &p.out.on[1] },
                                       .query_gain = &p.query_gain.on[1],
                                       .down_gain = &p.down_gain.on[1],
                                       .up = &p.up.on[1],
                                       .inner_eps = 1e-6f,
                                       .cos = &p.cos.on[1],
                                       .sin = &p.sin.on[1],
                                       .cache_row = &p.place.on[1],
                                       .end = &p.last.on[1],
                                       .c = &p.c.on[1],
                                       .r = &p.r.on[1],
                                       .heads = l->heads,
                                       .nope = l->nope,
                                       .value = l->value,
                                       .scale = 0.01f,
                                       .after = { l->after ? &p.after.on[1] : NULL, 1e-5f, NULL },
                                       .mode = MATMUL_BF16 };
    const int64_t unit = 16 / (int64_t)dtype_size(l->dtype);
    const bool packs = l->d % unit == 0 && l->rank % unit == 0 && l->low % unit == 0 &&
                       l->heads * l->value % unit == 0;
    if (computed(gpu->fused->latent(&form), packs)) latent_on_cpu(l, &p);
    const double near = l->cache == DTYPE_BF16 ? 0x1p-7 : 1e-4;
    pair_compare("latents", &p.c, 1e-4, near);
    pair_compare("the rest of the keys", &p.r, 1e-3, near);
    // bf16 latents may round to neighbouring values: by 0.008 for one key.
    pair_compare("latent attention", &p.h, l->cache == DTYPE_BF16 ? 2e-3 : 2e-4, near);
    pairs_release();
}

static void latents_are_attended(void **state)
{
    for (int i = 0; i < 3 * 2; i++) {
        const enum dtype dtype = (enum dtype)(i % 3), cache = i / 3 ? DTYPE_BF16 : DTYPE_F32;
        check_latent(&(struct latent){ 48, 3, 24, 16, 8, 16, 0, 20, 32, dtype, cache, false });
        check_latent(&(struct latent){ 48, 3, 24, 16, 8, 16, 40, 0, 1, dtype, cache, true });
        check_latent(&(struct latent){ 264, 10, 272, 7, 4, 4, 0, 300, 512, dtype, cache, false });
        check_latent(&(struct latent){ 40, 1, 512, 3, 64, 8, 8, 40, 256, dtype, cache, true });
        check_latent(&(struct latent){ 40, 4, 8, 5, 6, 2, 0, 9, 10, dtype, cache, false });
        check_latent(&(struct latent){ 40, 2, 30, 5, 6, 2, 0, 9, 10, dtype, cache, false });
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_are_chosen_and_added_up),
        cmocka_unit_test(latents_are_attended),
    };
    return cmocka_run_group_tests(tests, open_both, NULL);
}
