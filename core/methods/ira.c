// core/methods/ira.c -- information-regularized attention: in chosen layers the values of visual
// tokens pass a learned bottleneck before attention uses them (IRA's paper).
//
//   [delta, log sigma_q^2] = head(v)                         v [S,Hkv,d], one head per layer
//   z = v + delta              + g sigma_q eps in training and with ira.sample
//   loss += beta sum over layers of the mean over tokens and heads of g KL(q || p)
//
// The means of q and p differ by (v + delta) - [v] (Eqs. 8, 9), where [v] is detached: the
// difference equals delta, but its gradient also reaches v. Eq. 10 prints delta alone; ira.prior
// local-printed uses the gradient of Eq. 10.
//
// The gate g [S,Hkv] scales each token's noise and penalty: the entropy of the text's attention to
// the token in the same pass, times one minus the mean of that attention (Eqs. 12-14). No gradient
// flows through it. Several samples in one sequence are processed one by one. A new head has delta
// 0, so without noise it changes nothing.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "core/graph/tape.h"
#include "core/methods/ira.h"
#include "core/methods/kit.h"
#include "core/model/attend.h"
#include "core/model/layer.h"

const struct site SITE_NOISE[1] = { { "NOISE", HAS_ROWS | HAS_KEYS, MAY_X,
                                      "[S,Hkv,d] noise for the pass's visual tokens" } };
const struct site SITE_KL[1] = {
    { "KL", HAS_ROWS | HAS_KEYS, MAY_NOT,
      "[S,Hkv] divergence of the pass's visual tokens; v: their gate" }
};

static const char *const priors[] = { "local", "local-printed", "global", NULL };
static const char *const entropies[] = { "renormalised", "printed", NULL };

static const struct setting ira_settings[] = {
    { .key = "ira.layers",
      .type = SETTING_LIST,
      .def = "60%-80%",
      .stale = STALE_SEEN,
      .help = "Layers in which IRA (information-regularized attention) changes the values of "
              "visual tokens." },
    { .key = "ira.on",
      .type = SETTING_FLAG,
      .def = "off",
      .stale = STALE_SEEN,
      .help = "Applies IRA (information-regularized attention) with the adapter's parameters." },
    { .key = "ira.sample",
      .type = SETTING_FLAG,
      .def = "off",
      .stale = STALE_SEEN,
      .help = "Adds IRA's noise also while answering, not only in training." },
    { .key = "ira.gate",
      .type = SETTING_FLAG,
      .def = "on",
      .stale = STALE_SEEN,
      .help = "Scales the noise and penalty of each visual token by IRA's gate (Eqs. 12-14): the "
              "entropy of the text's attention to the token, times one minus the mean of that "
              "attention; off treats all tokens alike." },
    { .key = "ira.entropy",
      .type = SETTING_CHOICE,
      .def = "renormalised",
      .choices = entropies,
      .stale = STALE_SEEN,
      .help = "How IRA's gate computes the entropy of a visual token's attention over the text "
              "queries: renormalised (the attention is first scaled to sum to 1) or printed (as "
              "the paper prints Eq. 14, without scaling)." },
    { .key = "ira.prior",
      .type = SETTING_CHOICE,
      .def = "local",
      .choices = priors,
      .stale = STALE_TRAINING,
      .help = "Mean of IRA's prior in training: local (the token's own value, detached), "
              "local-printed (the same, but the KL's gradient reaches the value only through "
              "delta, as Eq. 10 is printed) or global (one learned mean)." },
    { .key = "ira.beta",
      .type = SETTING_REAL,
      .max = 1e6,
      .def = "0.0001",
      .stale = STALE_TRAINING,
      .help = "Weight of IRA's KL divergence in the loss, after warm-up." },
    { .key = "ira.warmup",
      .type = SETTING_REAL,
      .max = 1,
      .def = "0.5",
      .stale = STALE_TRAINING,
      .help = "Fraction of the training steps over which ira.beta rises from 0." },
    { 0 },
};

enum { HEAD, BIAS, PRIOR, MEAN, PARAMS };

static const struct ira_param {
    const char *name;   // "K" is replaced by the layer number
    double fresh, last; // initial values
} params[PARAMS] = {
    [HEAD] = { "ira.K.head.weight", 0, 0 },
    [BIAS] = { "ira.K.head.bias", 0, -4 },      // last element: log sigma_q^2
    [PRIOR] = { "ira.K.prior.weight", -4, -4 }, // log sigma_p^2
    [MEAN] = { "ira.K.prior_mean.weight", 0, 0 },
};

struct ira_layer {
    struct tensor param[PARAMS]; // [d+1,d] [d+1] [Hkv,d] [Hkv,d], owned
    char name[PARAMS][48];
};

// Means over a layer's visual tokens and heads since the last report.
enum { HEALTH_KL, HEALTH_GATE, HEALTH_SIGMA, HEALTH_DELTA, HEALTH_COUNT, HEALTHS };
static const char *const health_names[HEALTH_COUNT] = {
    [HEALTH_KL] = "kl",       // unweighted
    [HEALTH_GATE] = "gate",   // g
    [HEALTH_SIGMA] = "sigma", // sigma_q / sigma_p
    [HEALTH_DELTA] = "delta", // |delta| / |v|
};

struct ira {
    const struct backend *backend;
    int layers; // L
    bool *chosen;
    struct ira_layer *layer; // [L]
    bool training, sampling, gated;
    bool global;                    // the prior has one learned mean
    bool printed;                   // the KL's gradient does not reach v directly
    bool renormalised;              // the gate's entropy is that of renormalised attention
    double beta_most, warmup, beta; // maximum of beta; fraction of steps until then; current beta
    double share;                   // fraction of the steps that are done
    double *health;                 // [L,HEALTHS] sums
    bool warned;                    // of a collapse
    uint64_t seed;
};

static void ira_release(void *state)
{
    struct ira *x = state;
    for (int l = 0; l < x->layers; l++)
        for (int p = 0; p < PARAMS; p++) x->backend->release(x->layer[l].param[p].data);
    free(x->layer);
    free(x->chosen);
    free(x->health);
    free(x);
}

// --- parameters ----------------------------------------------------------------------------------

static void param_name(char name[48], int layer, int p)
{
    snprintf(name, 48, "ira.%d.%s", layer, params[p].name + strlen("ira.K."));
}

static struct tensor param_shape(const struct decoder_config *c, int layer, int p)
{
    const struct head_sizes s = decoder_heads(c, layer);
    struct tensor t = { .dtype = DTYPE_F32, .rank = 2, .shape = { s.kv_heads, s.value_dim } };
    if (p == HEAD) t.shape[0] = s.value_dim + 1;
    if (p == BIAS) t.rank = 1, t.shape[0] = s.value_dim + 1;
    return t;
}

// Reads ira.layers. Except in training, each of these layers needs a trained head.
static int read_layers(const struct method_env *env, bool *chosen, struct err *err)
{
    const struct decoder_config *c = &env->model->decoder.config;
    const int layers = c->layers;
    const int count = settings_layers(env->settings, "ira.layers", layers, chosen, err);
    if (count < 0 || !settings_flag(env->settings, "ira.on")) return count;
    if (!model_has_vision(env->model))
        return err_set(err, "ira.on: the model '%s' is text-only and has no visual tokens",
                       env->model->name);
    for (int l = 0; l < layers; l++)
        if (chosen[l] && decoder_need_attention(c, l, "ira.layers", err) < 0) return -1;
    for (int l = 0; l < layers; l++)
        if (chosen[l] && decoder_shares(c, l))
            return err_set(err,
                           "ira.layers: layer %d has no values of its own, it attends to those of "
                           "layer %d; choose among layers 0 to %d",
                           l, decoder_keys_of(c, l), layers - c->sharing - 1);
    for (int l = 0; l < layers; l++)
        for (int p = 0; p < PARAMS && chosen[l]; p++) {
            const struct tensor want = param_shape(c, l, p), *t;
            char name[48];
            param_name(name, l, p);
            if (method_trained(env, name, &want, &t, err) < 0) return -1;
            if (t || env->training || p == PRIOR || p == MEAN) continue;
            return err_set(
                err,
                "ira.on needs trained parameters, but %s is missing: /set adapter to one trained "
                "with train.ira, or set ira.layers to the layers it was trained in",
                name);
        }
    return 0;
}

static int ira_check(const struct method_env *env, struct err *err)
{
    bool *chosen = xcalloc((size_t)env->model->decoder.config.layers, sizeof *chosen);
    int status = read_layers(env, chosen, err);
    free(chosen);
    return status < 0 ? -1 : 0;
}

// The noise of ira.sample depends on sample.seed.
static bool ira_reads(const char *key, const struct settings *s)
{
    return settings_flag(s, "ira.sample") && !strcmp(key, "sample.seed");
}

static int fill_param(struct ira *x, const struct method_env *env, int layer, int p,
                      struct err *err)
{
    struct tensor *t = &x->layer[layer].param[p];
    void *data = t->data;
    *t = param_shape(&env->model->decoder.config, layer, p);
    t->data = data;
    param_name(x->layer[layer].name[p], layer, p);
    backend_enter(x->backend, env->model->decoder.layer[layer].gpu);
    if (!t->data) t->data = x->backend->alloc(tensor_bytes(t));
    backend_enter(x->backend, 0);
    return method_fill(env, x->layer[layer].name[p], t, params[p].fresh, params[p].last, err);
}

static void ira_progress(void *state, double share)
{
    struct ira *x = state;
    const double warm = x->warmup > 0 ? fmin(share / x->warmup, 1) : 1;
    x->share = share;
    x->beta = x->beta_most * 0.5 * (1 - cos(M_PI * warm)); // cosine from 0
}

static int ira_start(void **state, const struct method_env *env, struct err *err)
{
    const struct settings *s = env->settings;
    struct ira *x = *state;
    if (!x) {
        *state = x = xcalloc(1, sizeof *x);
        x->backend = env->backend;
        x->layers = env->model->decoder.config.layers;
        x->chosen = xcalloc((size_t)x->layers, sizeof *x->chosen);
        x->layer = xcalloc((size_t)x->layers, sizeof *x->layer);
        x->health = xcalloc((size_t)x->layers * HEALTHS, sizeof *x->health);
    }
    if (read_layers(env, x->chosen, err) < 0) return -1;
    for (int l = 0; l < x->layers; l++)
        for (int p = 0; p < PARAMS && x->chosen[l]; p++)
            if (fill_param(x, env, l, p, err) < 0) return -1;
    x->training = env->training;
    x->sampling = settings_flag(s, "ira.sample");
    x->gated = settings_flag(s, "ira.gate");
    x->global = settings_is(s, "ira.prior", "global");
    x->printed = settings_is(s, "ira.prior", "local-printed");
    x->renormalised = settings_is(s, "ira.entropy", "renormalised");
    x->beta_most = settings_real(s, "ira.beta");
    x->warmup = settings_real(s, "ira.warmup");
    x->seed = (uint64_t)settings_integer(s, "sample.seed");
    ira_progress(x, 0);
    return 0;
}

static void ira_validate(void *state, bool on)
{
    struct ira *x = state;
    x->training = !on;
}

static bool ira_learned(const struct model *m, int index, int layer, struct method_tensor *t)
{
    const struct decoder_config *c = &m->decoder.config;
    if (index >= PARAMS || decoder_shares(c, layer)) return false;
    const struct tensor shape = param_shape(c, layer, index);
    *t = (struct method_tensor){ params[index].name,
                                 shape.rank,
                                 { shape.shape[0], shape.shape[1] } };
    return true;
}

static void ira_params(void *state, method_param_fn add, void *self)
{
    struct ira *x = state;
    for (int l = 0; l < x->layers; l++)
        for (int p = 0; p < PARAMS && x->chosen[l]; p++)
            if (p != MEAN || x->global) add(self, x->layer[l].name[p], &x->layer[l].param[p]);
}

// --- the pass ------------------------------------------------------------------------------------

// The values of one layer in one pass.
struct ira_values {
    struct ira *x;
    struct graph *g;
    const struct site_args *args;
    int64_t rows, heads, dim; // rows: S, the pass's new visual tokens
    float *gate;              // [S,Hkv] on the host
};

// Returns the first row of the sample that new row i belongs to.
static int64_t sample_start(const struct site_args *a, int64_t i)
{
    return site_sequence(a)->start ? site_sequence(a)->start[site_row(a, i)] : 0;
}

// Computes g of the `count` visual tokens among a sample's new rows [from, to), from the text
// queries of these rows and all visual keys of the sample; the `count` tokens are the last of these
// keys.
static int add_gate(struct ira_values *p, int64_t from, int64_t to, int64_t count, int64_t before,
                    int number, void *self)
{
    const struct site_args *a = p->args;
    struct graph *g = p->g;
    const int64_t first = site_sequence(a)->start ? from : 0, last = a->past + to;
    int32_t *text = xreallocarray(NULL, (size_t)(to - from) + 1, sizeof *text);
    int32_t *keys = xreallocarray(NULL, (size_t)(last - first) + 1, sizeof *keys);
    int64_t queries = 0, key_count = 0;
    for (int64_t i = from; i < to; i++)
        if (!site_visual(a, i)) text[queries++] = (int32_t)i;
    for (int64_t j = first; j < last; j++)
        if (site_sequence(a)->picture[site_key(a, j)] >= 0) keys[key_count++] = (int32_t)j;

    struct tensor q = *a->q, k = *a->k; // without their gradients
    q.grad = k.grad = NULL;
    struct tensor *text_queries = op_gather_rows(g, &q, text, queries);    // [T, H, d]
    struct tensor *visual_keys = op_gather_floats(g, &k, keys, key_count); // [S', Hkv, d]
    struct tensor *t = graph_new2(g, DTYPE_F32, key_count, p->heads);
    free(text);
    free(keys);
    if (!text_queries || !visual_keys || !t) return -1;
    if (g->backend->ira_gate(t, text_queries, visual_keys, a->scale, p->x->renormalised) < 0) {
        graph_fail(g, "gate of ira: %s", g->backend->failure());
        return -1;
    }
    t = graph_rows(g, t, key_count - count, count);
    if (t) g->backend->download(p->gate + before * p->heads, t->data, tensor_bytes(t));
    return graph_ok(g) ? 0 : -1;
}

// Called for each sample of the pass that has new visual tokens: `from`, `to`: its rows [from, to);
// `count`: its new visual tokens; `before`: those of earlier samples; `number`: its index.
typedef int (*sample_fn)(struct ira_values *p, int64_t from, int64_t to, int64_t count,
                         int64_t before, int number, void *self);

static int each_sample(struct ira_values *p, sample_fn run, void *self)
{
    const int64_t n = p->args->q->shape[0];
    int64_t before = 0;
    int number = 0;
    for (int64_t from = 0, to; from < n; from = to, number++) {
        int64_t count = 0;
        for (to = from; to < n && sample_start(p->args, to) == sample_start(p->args, from); to++)
            count += site_visual(p->args, to);
        if (count && run(p, from, to, count, before, number, self) < 0) return -1;
        before += count;
    }
    return 0;
}

// Returns the standard normal number at an index of the seed's sequence (Box and Muller 1958).
static float normal(uint64_t seed, uint64_t index)
{
    const double u = 1 - random_unit(seed, RANDOM_IRA, 2 * index);
    const double w = random_unit(seed, RANDOM_IRA, 2 * index + 1);
    return (float)(sqrt(-2 * log(u)) * cos(2 * M_PI * w));
}

// Writes the noise for a sample's tokens; it depends only on seed, sample, layer and position.
static int add_noise(struct ira_values *p, int64_t from, int64_t to, int64_t count, int64_t before,
                     int number, void *self)
{
    const struct site_args *a = p->args;
    const int64_t width = p->heads * p->dim;
    const uint64_t sample = p->g->samples ? p->g->samples[number].number : 0;
    const uint64_t seed = random_bits(p->x->seed + (uint64_t)a->layer, RANDOM_IRA, sample);
    float *noise = (float *)self + before * width;
    for (int64_t i = from; i < to; i++) {
        if (!site_visual(a, i)) continue;
        const int64_t row = site_row(a, i) - sample_start(a, i);
        for (int64_t k = 0; k < width; k++) *noise++ = normal(seed, (uint64_t)(row * width + k));
    }
    return 0;
}

static struct tensor *draw_noise(struct ira_values *p)
{
    const int64_t shape[] = { p->rows, p->heads, p->dim };
    float *host = xmalloc((size_t)(p->rows * p->heads * p->dim) * sizeof *host);
    each_sample(p, add_noise, host);
    struct tensor *noise = graph_upload(p->g, DTYPE_F32, 3, shape, host);
    free(host);
    struct site_args args = *p->args;
    args.x = noise;
    if (!noise || hooks_run(p->g, SITE_NOISE, &args) < 0) return NULL;
    return args.x;
}

// The divergence of each token and head, and its weight in the loss.
struct penalty {
    const float *kl; // [S,Hkv]
    float *weight;   // [S,Hkv] weight of each divergence in the step's loss
};

static int add_penalty(struct ira_values *p, int64_t from, int64_t to, int64_t count,
                       int64_t before, int number, void *self)
{
    const struct penalty *y = self;
    struct graph *g = p->g;
    const double mean = 1 / (double)(count * p->heads), beta = p->x->beta;
    double plain = 0, weighted = 0;
    for (int64_t i = before * p->heads; i < (before + count) * p->heads; i++) {
        plain += (double)y->kl[i];
        weighted += (double)p->gate[i] * (double)y->kl[i];
        y->weight[i] = (float)(g->share * beta * mean * (double)p->gate[i]);
    }
    // Counts a block only in the forward pass, not when the backward pass recomputes it.
    if (tape_recomputing(g)) return 0;
    g->samples[number].penalty += beta * mean * weighted;
    g->samples[number].kl.plain += mean * plain;
    g->samples[number].kl.weighted += mean * weighted;
    return 0;
}

static float *on_host(struct graph *g, const struct tensor *t)
{
    float *host = xreallocarray(NULL, (size_t)tensor_count(t) + 1, sizeof *host);
    graph_download(g, host, t);
    return host;
}

// Adds the pass's tokens to the layer's means: v [S,Hkv,d], head [S*Hkv,d+1], kl [S,Hkv].
static void add_health(const struct ira_values *p, const struct tensor *v,
                       const struct tensor *head, const float *kl)
{
    struct graph *g = p->g;
    const int layer = p->args->layer;
    const int64_t d = p->dim;
    double *sum = p->x->health + (size_t)layer * HEALTHS;
    if (tape_recomputing(g)) return;
    float *values = on_host(g, v), *heads = on_host(g, head);
    float *prior = on_host(g, &p->x->layer[layer].param[PRIOR]); // [Hkv,d]
    for (int64_t i = 0; i < p->rows * p->heads; i++) {
        const float *out = heads + i * (d + 1), *log_p = prior + i % p->heads * d;
        double delta = 0, norm = 0, ratio = 0;
        for (int64_t k = 0; k < d; k++) {
            const double value = (double)values[i * d + k];
            delta += (double)out[k] * (double)out[k];
            norm += value * value;
            ratio += exp(((double)out[d] - (double)log_p[k]) / 2) / (double)d;
        }
        sum[HEALTH_KL] += (double)kl[i];
        sum[HEALTH_GATE] += (double)p->gate[i];
        sum[HEALTH_SIGMA] += ratio;
        sum[HEALTH_DELTA] += norm > 0 ? sqrt(delta / norm) : 0;
        sum[HEALTH_COUNT]++;
    }
    free(values);
    free(heads);
    free(prior);
}

// A divergence of 0 means that posterior and prior are the same: nothing is learned (section 3.3 of
// the paper). The divergence of a new head is 0, except with ira.prior global.
static void ira_report(void *state, const struct method_reporter *to)
{
    enum { NAME = 48 };
    static const double collapsed = 1e-3, least = 0.1; // nats; share of the steps
    struct ira *x = state;
    double kl = 0, count = 0;
    to->sum(to->self, x->health, (size_t)x->layers * HEALTHS);
    for (int l = 0; l < x->layers; l++) {
        double *sum = x->health + (size_t)l * HEALTHS;
        for (int i = 0; i < HEALTH_COUNT && sum[HEALTH_COUNT] > 0; i++) {
            char name[NAME];
            snprintf(name, sizeof name, "ira.%s.%d", health_names[i], l);
            to->metric(to->self, name, sum[i] / sum[HEALTH_COUNT]);
        }
        kl += sum[HEALTH_KL], count += sum[HEALTH_COUNT];
        memset(sum, 0, HEALTHS * sizeof *sum);
    }
    if (!count || x->warned || x->share < fmax(x->warmup, least) || kl / count > collapsed) return;
    x->warned = true;
    char *text =
        xasprintf("IRA has collapsed: after the warm-up of ira.beta its KL divergence is %.2g nats "
                  "per token and head, so posterior and prior are the same: raise train.lr.ira, "
                  "lower ira.beta, or train longer",
                  kl / count);
    to->warn(to->self, text);
    free(text);
}

// True if the divergence is part of the loss: not in validation and /eval.
static bool learns(const struct ira_values *p)
{
    return p->x->training && p->g->samples;
}

// Computes the divergence for the loss and for listeners.
static int diverge(struct ira_values *p, struct tensor *head, struct tensor *v, struct tensor *gate)
{
    struct graph *g = p->g;
    const bool listened = hooks_wanted(g, SITE_KL, p->args->layer);
    if (!learns(p) && !listened) return 0;
    struct ira_layer *w = &p->x->layer[p->args->layer];
    struct tensor *kl = op_ira_kl(g, head, &w->param[PRIOR], p->x->printed ? NULL : v,
                                  p->x->global ? &w->param[MEAN] : NULL); // [S, Hkv]
    if (!kl) return -1;
    if (learns(p)) {
        float *host = xmalloc(2 * tensor_bytes(kl));
        struct penalty y = { .kl = host, .weight = host + tensor_count(kl) };
        g->backend->download(host, kl->data, tensor_bytes(kl));
        each_sample(p, add_penalty, &y);
        add_health(p, v, head, host);
        struct tensor *weight = graph_upload(g, DTYPE_F32, 2, kl->shape, y.weight);
        free(host);
        if (!weight || tape_seed(g, kl, weight) < 0) return -1;
    }
    struct site_args args = *p->args;
    args.x = kl, args.v = gate;
    return listened ? hooks_run(g, SITE_KL, &args) : 0;
}

void ira_divergence(const struct site_args *args, const float *kl, float *of_row)
{
    const int64_t n = args->x->shape[0], heads = args->x->shape[1];
    for (int64_t i = 0, at = 0; at < n; i++) {
        if (!site_visual(args, i)) continue;
        double sum = 0;
        for (int64_t h = 0; h < heads; h++) sum += (double)kl[at * heads + h];
        of_row[site_row(args, i)] = (float)(sum / (double)heads);
        at++;
    }
}

// Changes the new visual rows of args->v [P,Hkv,d].
static int change(struct ira_values *p, struct site_args *args, const int32_t *keys)
{
    struct ira *x = p->x;
    struct graph *g = p->g;
    struct ira_layer *w = &x->layer[args->layer];
    const bool noisy = x->training || x->sampling;
    const bool gated = noisy || learns(p) || hooks_wanted(g, SITE_KL, args->layer);
    struct tensor *v = op_gather_floats(g, args->v, keys, p->rows); // [S, Hkv, d]
    struct tensor *flat = graph_view(g, v, 2, (int64_t[]){ p->rows * p->heads, p->dim });
    struct tensor *head = op_matmul(g, flat, &w->param[HEAD], &w->param[BIAS]); // [S*Hkv, d+1]
    struct tensor *gate = NULL, *noise = NULL;

    if (gated) {
        for (int64_t i = 0; i < p->rows * p->heads; i++) p->gate[i] = 1;
        if (x->gated && each_sample(p, add_gate, NULL) < 0) return -1;
        gate = graph_upload(g, DTYPE_F32, 2, (int64_t[]){ p->rows, p->heads }, p->gate);
    }
    if (noisy && !(noise = draw_noise(p))) return -1;
    struct tensor *z = op_ira_values(g, v, head, gate, noise);
    if (diverge(p, head, v, gate) < 0) return -1;
    return op_scatter_rows(g, args->v, z, keys) ? 0 : -1;
}

static int ira_run(void *state, struct graph *g, struct site_args *args)
{
    struct ira *x = state;
    struct ira_values p = { .x = x, .g = g, .args = args, .heads = args->v->shape[1] };
    p.dim = args->v->shape[2];
    int32_t *keys = site_new_keys(args, true, &p.rows);
    p.gate = xreallocarray(NULL, (size_t)(p.rows * p.heads) + 1, sizeof *p.gate);
    const int status = p.rows ? change(&p, args, keys) : 0;
    free(p.gate);
    free(keys);
    return status;
}

static void ira_badge(struct buf *b, const struct settings *s, int layer)
{
    buf_puts(b, "IRA");
}

// Counts the product with the learned head (HEAD) for each key/value head.
static double ira_flops(const struct settings *s, const struct decoder_config *c,
                        const struct site *site, const struct site_args *args, bool visual)
{
    if (site != SITE_VALUES || !visual) return 0;
    const double heads = (double)args->v->shape[1], dim = (double)args->v->shape[2];
    return settings_has_layer(s, "ira.layers", c->layers, args->layer) ? 2 * heads * dim * (dim + 1)
                                                                       : 0;
}

const struct method method_ira = {
    .name = "ira",
    .title = "IRA",
    .settings = ira_settings,
    .toggle = { "ira.on", "off", "on" },
    .press = "Alt-4",
    .fit = { "adapter", "methods/adapter" },
    .badge = ira_badge,
    .values = true,
    .check = ira_check,
    .reads = ira_reads,
    .start = ira_start,
    .release = ira_release,
    .flops = ira_flops,
    .layers = "ira.layers",
    .at = { { SITE_VALUES, ira_run } },
    .learned = ira_learned,
    .training = { PART_DECODER, "train.ira", "train.lr.ira", "train.weight_decay.ira", 10 },
    .params = ira_params,
    .progress = ira_progress,
    .report = ira_report,
    .validate = ira_validate,
};
