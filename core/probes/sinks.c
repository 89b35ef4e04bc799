// core/probes/sinks.c -- attention sinks and their kinds (core/methods/sinks.h), by token.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/graph/graph.h"
#include "core/methods/sinks.h"
#include "core/probes/kit.h"

struct sinks_state {
    const struct probe_env *env;
    int dims[PROBE_DIMS], dim_count;
    double tau;
    struct sink_token *tokens; // [N]; phi NaN: not alive
    int32_t query;
    struct rows rows;
};

static void sinks_release(void *state)
{
    struct sinks_state *s = state;
    free(s->tokens);
    rows_release(&s->rows);
    free(s);
}

static void *sinks_start(const struct probe_env *env, struct err *err)
{
    const int64_t width = env->model->decoder.config.hidden;
    float *dims = NULL;
    for (int i = 0; i < env->options->dim_count; i++)
        if (env->options->dims[i] < 0 || env->options->dims[i] >= width) {
            err_set(err, "--dims %d: the residual stream has dimensions 0 to %lld",
                    env->options->dims[i], (long long)width - 1);
            return NULL;
        }
    // Takes the dimensions from the options, else from the calibration for this layer; without
    // both, add_phi finds them.
    if (!env->options->dim_count && sinks_calibrated(env->settings, env->model, &dims, err) < 0)
        return NULL;
    struct sinks_state *s = xcalloc(1, sizeof *s);
    s->env = env;
    s->dim_count = env->options->dim_count;
    memcpy(s->dims, env->options->dims, sizeof s->dims);
    for (int i = 0; i < 2 && dims; i++) s->dims[s->dim_count++] = (int)dims[2 * env->from + i];
    free(dims);
    s->tau = sinks_tau(env->settings, width);
    s->query = (int32_t)sequence_query(env->sequence);
    s->tokens = xcalloc((size_t)env->sequence->n, sizeof *s->tokens);
    for (int64_t i = 0; i < env->sequence->n; i++)
        s->tokens[i] = (struct sink_token){ NAN, NAN, env->sequence->picture[i] };
    return s;
}

static int add_phi(void *self, const struct site *site, const struct site_args *args,
                   struct err *err)
{
    struct sinks_state *s = self;
    const int64_t width = args->x->shape[1];
    const float *h = args->x->data; // [N,D]
    if (!s->dim_count) {
        s->dim_count = 2;
        sinks_top(h, width, s->dims); // rows begin with the first token, which is text
    }
    for (int64_t i = 0; i < args->x->shape[0]; i++)
        s->tokens[site_row(args, i)].phi = sinks_phi(
            h + i * width, width, s->env->model->decoder.config.eps, s->dims, s->dim_count);
    return 0;
}

// Computes C of the prompt's last row for every key. Waiting for the device is cheap: the probe
// reads one row of one layer.
static int add_contribution(void *self, struct graph *g, const struct site_args *a, int64_t row,
                            const float *probs)
{
    struct sinks_state *s = self;
    const int64_t keys = a->k->shape[0];
    int32_t *index = xreallocarray(NULL, (size_t)keys, sizeof *index);
    int64_t count = 0;
    for (int64_t j = 0; j < keys; j++)
        if (site_key(a, j) <= s->query) index[count++] = (int32_t)j;
    const float *c = probe_contributions(g, s->env->model, a, row, probs, index, count, &s->rows);
    for (int64_t j = 0; c && j < count; j++)
        s->tokens[site_key(a, index[j])].contribution = (double)c[j];
    free(index);
    return graph_ok(g) ? 0 : -1;
}

static int sinks_run(void *state, struct graph *g, const struct site *site, struct site_args *args)
{
    struct sinks_state *s = state;
    if (site == SITE_VALUES) return probe_each_query(g, args, &s->query, 1, add_contribution, s);
    return readback(g, args->x, site, args, add_phi, s);
}

// --- results -------------------------------------------------------------------------------------

static int sinks_finish(void *state, struct results *r, struct err *err)
{
    const struct sinks_state *s = state;
    const struct sequence *q = s->env->sequence;
    const int only = s->env->options->picture;
    int pictures = 0;
    for (int64_t i = 0; i < q->n; i++)
        if (q->picture[i] >= pictures) pictures = q->picture[i] + 1;
    double *split = xreallocarray(NULL, (size_t)pictures + 1, sizeof *split);
    for (int p = 0; p < pictures; p++)
        split[p] = sinks_split(s->tokens, (size_t)s->query + 1, p, s->tau);

    struct result_table *t = results_table(r, "sinks.tokens", "row|phi|C|picture|token|sink|type");
    t->own = t->kept = true;
    t->points = true;
    t->log_y = true; // the threshold applies to log C
    struct {
        int64_t text, visual, dumps, anchors;
    } n = { 0 };
    for (int32_t i = 0; i <= s->query; i++) {
        const int picture = q->picture[i];
        const struct sink_token *token = &s->tokens[i];
        if (isnan(token->phi) || (only >= 0 && picture >= 0 && picture != only)) continue;
        const bool sink = token->phi > s->tau, visual = picture >= 0;
        const enum sink_kind kind = sinks_kind(token, visual ? split[picture] : NAN, s->tau);
        double *v = result_row(t, "%d", i);
        v[0] = token->phi, v[1] = token->contribution;
        if (visual) v[2] = picture, v[3] = q->cell[i];
        v[4] = sink, v[5] = kind;
        n.text += sink && !visual, n.visual += sink && visual;
        n.dumps += kind == SINK_DUMP, n.anchors += kind == SINK_ANCHOR;
    }
    t = results_table(r, "sinks", "what|value");
    result_row(t, "layer")[0] = s->env->from;
    for (int i = 0; i < s->dim_count; i++)
        result_row(t, "sink dimension %d", i + 1)[0] = s->dims[i];
    result_row(t, "tau")[0] = s->tau;
    result_row(t, "sinks")[0] = (double)n.visual;
    result_row(t, "probability dumps (type I)")[0] = (double)n.dumps;
    result_row(t, "structural anchors (type II)")[0] = (double)n.anchors;
    const int64_t typed = n.dumps + n.anchors;
    if (n.visual)
        results_note(
            r,
            "layer %d has %lld attention sink%s among the visual tokens (probability dumps: "
            "%lld, structural anchors: %lld%s)",
            s->env->from, (long long)n.visual, n.visual == 1 ? "" : "s", (long long)n.dumps,
            (long long)n.anchors,
            typed < n.visual
                ? "; sinks get a type only if a picture has two with different contributions"
                : "");
    else
        results_note(r, "layer %d has no attention sinks among the visual tokens", s->env->from);
    if (pictures < 2) result_row(t, "split of C (Otsu)")[0] = pictures ? split[0] : NAN;
    for (int p = 0; pictures > 1 && p < pictures; p++)
        if (only < 0 || p == only) result_row(t, "split of C (Otsu), picture %d", p)[0] = split[p];
    result_row(t, "text tokens above tau")[0] = (double)n.text;
    free(split);
    float *map = probe_values(s->env, 1);
    for (int64_t i = 0; i < s->env->sequence->n; i++)
        if (s->env->number[i] >= 0) map[s->env->number[i]] = (float)s->tokens[i].phi;
    probe_maps(s->env, r, "sinks.phi", s->env->from, -2, -2, map);
    free(map);
    return 0;
}

static const struct result_kind sinks_results[] = {
    { "sinks.phi", "phi", .map = true, .each = EACH_LAYER | EACH_ALONE },
    { "sinks.tokens", "largest normalised value in the sink dimensions", .columns = "phi" },
    { "sinks.tokens", "attention contribution", .columns = "C" },
    { 0 },
};

const struct probe probe_sinks = {
    .name = "sinks",
    .also = "attention outliers measure probe",
    .usage = "/sinks [--layer K] [--dims K,K] [--picture I]" PROBE_USAGE,
    .help = "Attention sinks among visual tokens: probability dumps and structural anchors.",
    .details =
        "A sink is a token whose phi exceeds sinks.tau. phi is the largest normalised value in\n"
        "the sink dimensions at the input of the layer (default: the middle one). Visual sinks\n"
        "have a type: 1 is a probability dump, 2 a structural anchor, which contributes more.\n"
        "Otsu's threshold on the log of the contribution C (/contribution), over the sinks of a\n"
        "picture, separates the types. Text tokens are counted separately, without a type. With\n"
        "--data, the table of tokens has the rows of all samples. --figure also plots phi against\n"
        "C." PROBE_DETAILS,
    .results = sinks_results,
    .layers = MIDDLE_LAYER,
    .attends = true,
    .one_layer = true,
    .start = sinks_start,
    .release = sinks_release,
    .sites = { SITE_LAYER_IN, SITE_VALUES },
    .run = sinks_run,
    .finish = sinks_finish,
};
