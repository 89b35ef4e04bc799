// core/probes/recurrence.c -- effective attention of recurrent layers: the weight with which a
// query reads each token's value through the state.
//
// With unit keys k, and queries q of length 1 / sqrt(dk), the state after row t is
//
//   S[t] = alpha[t] (I - beta[t] k[t] k[t]^T) S[t-1] + beta[t] k[t] v[t]^T,   o[t] = S[t]^T q[t]
//
// so that o[t] = sum over i <= t of w[i] v[i]. Going back from r = q[t]:
//
//   w[i] = beta[i] (k[i] . r),   r = alpha[i] (r - beta[i] (k[i] . r) k[i])
//
// Weights may be negative, and do not add up to 1. Maps and shares take their absolute values,
// averaged over the value heads. Queries, keys and values of a row also read the rows before it
// through the convolution.
#include "core/probes/recurrence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/layer.h"
#include "core/probes/kit.h"

// --- weights -------------------------------------------------------------------------------------

static double product(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

// Copies x [n] divided by its length, as the recurrence does.
static void put_unit(double *to, const float *x, int64_t n)
{
    double sum = 1e-6;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    for (int64_t i = 0; i < n; i++) to[i] = (double)x[i] / sqrt(sum);
}

void recurrence_weights(const struct recurrence *r, int64_t head, int64_t row, double *w)
{
    const struct delta_config *d = r->config;
    const int64_t dk = d->key_width, values = d->heads * d->width;
    const int64_t keys = d->key_heads * dk, width = 2 * keys + values + 2 * d->heads;
    const int64_t key = d->alternate ? head % d->key_heads : head / (d->heads / d->key_heads);
    double *read = xreallocarray(NULL, (size_t)(2 * dk), sizeof *read), *k = read + dk;
    put_unit(read, r->x + row * width + key * dk, dk);
    for (int64_t i = 0; i < dk; i++) read[i] /= sqrt((double)dk);
    for (int64_t i = row; i >= 0; i--) {
        const float *x = r->x + i * width, *gates = x + 2 * keys + values;
        const double z = (double)gates[head] + (double)r->bias[head];
        const double rate = exp((double)r->log_a[head]) * (z > 20 ? z : log1p(exp(z)));
        const double beta = 1 / (1 + exp(-(double)gates[d->heads + head])), alpha = exp(-rate);
        put_unit(k, x + keys + key * dk, dk);
        w[i] = beta * product(k, read, dk);
        for (int64_t e = 0; e < dk; e++) read[e] = alpha * (read[e] - w[i] * k[e]);
    }
    free(read);
}

// --- the probe -----------------------------------------------------------------------------------

struct state {
    const struct probe_env *env;
    int from, to;  // first and last layer; layers with attention between them are skipped
    int64_t parts; // maps of each layer: 1, or one for each query
    double **sum;  // [L][parts, N] absolute weights, over queries and heads; NULL: not read
};

static bool is_each(const struct state *s)
{
    return s->env->options->token == PROBE_TOKEN_EACH;
}

static void state_release(void *state)
{
    struct state *s = state;
    for (int l = 0; l < s->env->model->decoder.config.layers; l++) free(s->sum[l]);
    free(s->sum);
    free(s);
}

// Chooses the layers: all, one, or the last recurrent one.
static int choose_layers(struct state *s, struct err *err)
{
    const struct decoder_config *c = &s->env->model->decoder.config;
    const int layer = s->env->options->layer;
    struct buf known = { 0 };
    int last = -1, status = 0;
    for (int l = 0; l < c->layers; l++) {
        if (decoder_attention(c, l) != &attention_delta) continue;
        buf_printf(&known, "%s%d", last < 0 ? "" : ", ", l);
        last = l;
    }
    s->from = layer == PROBE_LAYER_ALL ? 0 : layer >= 0 ? layer : last;
    s->to = layer == PROBE_LAYER_ALL ? last : s->from;
    if (last < 0)
        status = err_set(err, "the model '%s' has no recurrent layers: use /attention",
                         s->env->model->name);
    else if (layer >= 0 && decoder_attention(c, layer) != &attention_delta)
        status = err_set(err,
                         "--layer %d: the layer has attention (/attention shows it); the recurrent "
                         "layers are %.300s",
                         layer, known.data);
    buf_release(&known);
    return status;
}

static void *state_start(const struct probe_env *env, struct err *err)
{
    struct state *s = xcalloc(1, sizeof *s);
    s->env = env;
    s->parts = is_each(s) ? env->queries : 1;
    s->sum = xcalloc((size_t)env->model->decoder.config.layers, sizeof *s->sum);
    if (choose_layers(s, err) == 0) return s;
    state_release(s);
    return NULL;
}

static bool wants(void *state, const struct site *site, int layer)
{
    const struct state *s = state;
    return site == SITE_RECURRENCE && (layer < 0 || (layer >= s->from && layer <= s->to));
}

// Returns a constant vector of a layer, which the caller frees.
static float *constant(const struct model *m, int layer, const char *name)
{
    struct decoder_constant c = { 0 };
    char *whole = xasprintf("layers.%d.linear_attn.%s", layer, name);
    float *numbers = NULL;
    while (!numbers && decoder_next_constant(&m->decoder, &c)) {
        if (strcmp(c.name, whole) != 0) continue;
        numbers = xreallocarray(NULL, (size_t)tensor_count(c.tensor), sizeof *numbers);
        m->arena.backend->download(numbers, c.tensor->data, tensor_bytes(c.tensor));
    }
    free(whole);
    return numbers;
}

// Adds the weights of all heads at row `row` of the pass, which is query `query`.
static void add_query(struct state *s, const struct recurrence *r, const struct site_args *args,
                      int64_t row, int64_t query, double *w)
{
    double *sum = s->sum[args->layer] + (is_each(s) ? query * s->env->sequence->n : 0);
    for (int64_t h = 0; h < r->config->heads; h++) {
        recurrence_weights(r, h, row, w);
        for (int64_t i = 0; i <= row; i++) sum[site_row(args, i)] += fabs(w[i]);
    }
}

static int take(void *state, const struct site *site, const struct site_args *args, struct err *err)
{
    struct state *s = state;
    const struct model *m = s->env->model;
    const int64_t n = args->x->shape[0];
    if (!n || site_row(args, 0) > 0)
        return err_set(err, "the states of earlier passes cannot be read back");
    float *log_a = constant(m, args->layer, "A_log"), *bias = constant(m, args->layer, "dt_bias");
    if (!log_a || !bias) BUG("layer %d has no rates", args->layer);
    const struct recurrence r = { &m->decoder.config.delta, args->x->data, log_a, bias };
    double *w = xreallocarray(NULL, (size_t)n, sizeof *w);
    if (!s->sum[args->layer])
        s->sum[args->layer] = xcalloc((size_t)(s->parts * s->env->sequence->n), sizeof(double));
    for (int64_t i = 0, q = 0; i < n && q < s->env->queries; i++) {
        while (q < s->env->queries && s->env->query[q] < site_row(args, i)) q++;
        if (q < s->env->queries && s->env->query[q] == site_row(args, i))
            add_query(s, &r, args, i, q, w);
    }
    free(w);
    free(bias);
    free(log_a);
    return 0;
}

// Fills a row v of the table, and adds the maps of the layer and part.
static void put_part(const struct state *s, struct results *r, double *v, int layer, int64_t part)
{
    const int64_t n = s->env->sequence->n, queries = s->env->queries / s->parts;
    const double *sum = s->sum[layer] + part * n;
    const double count = (double)s->env->model->decoder.config.delta.heads * (double)queries;
    float *map = probe_values(s->env, 1);
    double all = 0, pictures = 0;
    int64_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        const int32_t token = s->env->number[i];
        all += sum[i];
        if (sum[i] > sum[most]) most = i;
        if (token < 0) continue;
        pictures += sum[i];
        map[token] = (float)(sum[i] / count);
    }
    v[0] = all / count, v[1] = s->env->visual ? pictures / all : NAN;
    v[2] = sum[most] / count, v[3] = (double)most;
    if (s->env->visual)
        probe_maps(s->env, r, "recurrence", layer, -1, s->env->token + (int)part, map);
    free(map);
}

static int state_finish(void *state, struct results *r, struct err *err)
{
    struct state *s = state;
    static const char columns[] = "|sum|to the pictures|max|max at position";
    struct result_table *t = NULL;
    int layers = 0;
    for (int l = s->from; l <= s->to; l++) layers += s->sum[l] != NULL;
    for (int l = s->from; l <= s->to; l++) {
        if (!s->sum[l]) continue;
        char *name = is_each(s) && layers > 1 ? xasprintf("recurrence.tokens.%d", l)
                                              : xstrdup("recurrence.tokens");
        char *all = xasprintf("%s%s", is_each(s) ? "token" : "layer", columns);
        if (is_each(s) || !t) t = results_table(r, is_each(s) ? name : "recurrence", all);
        t->curve = is_each(s) || layers > 1;
        for (int64_t i = 0; i < s->parts; i++)
            put_part(s, r, result_row(t, "%d", is_each(s) ? (int)i : l), l, i);
        free(all);
        free(name);
    }
    results_note(r, "absolute weights of the tokens' values in the outputs of the heads, mean over "
                    "the heads; 'to the pictures' is a share of the sum of all weights");
    return 0;
}

static const struct result_kind state_results[] = {
    { "recurrence", "absolute weight", "sum|max", .map = true, .each = EACH_LAYER | EACH_TOKEN,
      .on_request = true },
    { "recurrence", "share of the weights", .columns = "to the pictures" },
    { "recurrence.tokens", "absolute weight", .columns = "sum|max" },
    { "recurrence.tokens", "share of the weights", .columns = "to the pictures" },
    { 0 },
};

const struct probe probe_recurrence = {
    .name = "recurrence",
    .also = "effective attention state linear deltanet gated recurrent heatmap measure probe",
    .usage =
        "/recurrence [--layer K|all] [--token answer|each|last|N|row:N] [--picture I]" PROBE_USAGE,
    .help = "Weight of each token in the output of recurrent layers (Gated DeltaNet).",
    .details =
        "The output of a recurrent layer is a weighted sum of the values of all tokens so far,\n"
        "like that of attention; the state determines the weights, which may be negative. Maps\n"
        "and shares use absolute weights, averaged over the value heads and over the tokens of\n"
        "the answer; without an answer, they use the weights at the prompt's last position. By\n"
        "default, shows the last recurrent layer. A row's value also contains the rows before it,\n"
        "through the convolution." PROBE_DETAILS,
    .answered = true,
    .results = state_results,
    .token = PROBE_TOKEN_ANSWER,
    .start = state_start,
    .release = state_release,
    .wants = wants,
    .take = take,
    .finish = state_finish,
};
