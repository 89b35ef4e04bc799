// core/probes/calibration_phases.c -- the calibration `phases`: for each layer, the mean
// contribution of the visual tokens to the prompt's last row (CAPA's paper), and how far the
// layer's prediction of the next token is from the model's (Hellinger distance). The final norm and
// the head, applied to the layer's output, give its prediction. core/methods/phases.h finds the
// phases in these curves.
#include <stdlib.h>
#include <string.h>

#include "core/methods/calibration.h"
#include "core/methods/phases.h"
#include "core/model/layer.h"
#include "core/probes/hellinger.h"
#include "core/probes/kit.h"

enum { CONTRIBUTIONS, DISTANCES, SAMPLES }; // sums
enum { CURVES, LAYERS };                    // results

static int add_contribution(void *self, struct graph *g, const struct site_args *a, int64_t row,
                            const float *probs)
{
    struct calibration_sums *s = self;
    const int64_t keys = a->k->shape[0], query = site_row(a, row);
    int32_t *index = xreallocarray(NULL, (size_t)keys + 1, sizeof *index);
    struct rows host = { 0 };
    int64_t count = 0;
    double sum = 0;
    for (int64_t j = 0; j < keys; j++)
        if (site_key(a, j) <= query && site_sequence(a)->picture[site_key(a, j)] >= 0)
            index[count++] = (int32_t)j;
    const float *c = probe_contributions(g, s->model, a, row, probs, index, count, &host);
    for (int64_t j = 0; c && j < count; j++) sum += (double)c[j] / (double)count;
    s->part[CONTRIBUTIONS][a->layer] += sum;
    rows_release(&host);
    free(index);
    return graph_ok(g) ? 0 : -1;
}

// Writes the logits [V] of the query's row of x.
static int read_row(const struct calibration_sums *s, struct graph *g, const struct site_args *args,
                    int64_t query, float *logits)
{
    struct arena_mark scratch = graph_scratch_begin(g);
    int64_t i = args->x->shape[0] - 1;
    while (i > 0 && site_row(args, i) != query) i--;
    struct tensor *y = decoder_logits(g, &s->model->decoder, graph_rows(g, args->x, i, 1));
    if (y) g->backend->download(logits, y->data, tensor_bytes(y));
    graph_scratch_end(g, scratch);
    return graph_ok(g) ? 0 : -1;
}

// Keeps the logits of each layer in s->rows until the model's are known.
static int phases_run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct calibration_sums *s = self;
    const int64_t vocab = s->model->decoder.config.vocab;
    int32_t query = (int32_t)sequence_query(site_sequence(args));
    if (!sequence_visual_count(site_sequence(args), 0)) return 0; // a prompt without pictures
    struct err why;
    for (int l = 0; l < s->layers; l++) // phases follow from the contributions in all layers
        if (decoder_need_attention(&s->model->decoder.config, l, "phases", &why) < 0) {
            graph_fail(g, "%s", why.text);
            return -1;
        }
    if (site == SITE_VALUES) return probe_each_query(g, args, &query, 1, add_contribution, s);
    calibration_rows(s, (s->layers + 1) * vocab / s->width + 1);
    const int64_t layer = site == SITE_FINAL ? s->layers : args->layer;
    if (read_row(s, g, args, query, s->rows + layer * vocab) < 0) return -1;
    if (site != SITE_FINAL) return 0;
    for (int64_t l = 0; l < s->layers; l++)
        s->part[DISTANCES][l] += hellinger(s->rows + l * vocab, s->rows + layer * vocab, vocab);
    *s->part[SAMPLES] += 1;
    return 0;
}

static bool phases_empty(const struct calibration_sums *s)
{
    return *s->part[SAMPLES] == 0;
}

static void phases_compute(const struct calibration_sums *s, float *const *results)
{
    const double n = *s->part[SAMPLES] > 0 ? *s->part[SAMPLES] : 1;
    float *curve[2];
    int phase[PHASES];
    for (int i = 0; i < 2; i++) {
        curve[i] = xcalloc((size_t)s->layers, sizeof **curve);
        for (int64_t l = 0; l < s->layers; l++)
            results[CURVES][2 * l + i] = curve[i][l] = (float)(s->part[i][l] / n);
    }
    phases_find(curve[0], curve[1], (int)s->layers, phase);
    for (int i = 0; i < PHASES; i++) results[LAYERS][i] = (float)phase[i];
    free(curve[0]);
    free(curve[1]);
}

static void phases_show(const struct calibration_sums *s, float *const *results, int64_t layer,
                        struct table_builder *b)
{
    const float *at = results[CURVES] ? results[CURVES] + 2 * layer : NULL;
    struct buf phase = { 0 };
    table_add(b, at ? "%.5g" : "-", at ? (double)at[0] : 0);
    table_add(b, at && layer + 1 < s->layers ? "%.5g" : "-",
              at && layer + 1 < s->layers ? (double)at[0] - (double)at[2] : 0);
    table_add(b, at ? "%.5g" : "-", at ? (double)at[1] : 0);
    for (int i = 0; i < PHASES && results[LAYERS]; i++)
        if (results[LAYERS][i] == (float)layer)
            buf_printf(&phase, "%s%s", phase.length ? ", " : "", phase_names[i]);
    table_add(b, "%s", phase.data ? phase.data : "");
    buf_release(&phase);
}

static const struct calibration_tensor phases_results[] = {
    { "phases.curves", { OF_LAYERS, 2 } }, // contribution, Hellinger distance
    { "phases.layers", { PHASES } },
    { 0 },
};
static const struct calibration_tensor phases_sums[] = {
    { "phases.sum_contribution", { OF_LAYERS } },
    { "phases.sum_hellinger", { OF_LAYERS } },
    { "pictured_samples", { 0 } },
    { 0 },
};
static const struct result_kind phases_units[] = {
    { "calibration", "attention contribution", .columns = "contribution|drop" },
    { "calibration", "Hellinger distance", .columns = "Hellinger" },
    { 0 },
};

const struct calibration_kind calibration_kind_phases = {
    .name = "phases",
    .prefix = "phases.",
    .help = "phases of the layers: early, transition and late, for prune.layer auto",
    .results = phases_results,
    .sums = phases_sums,
    .sites = { SITE_VALUES, SITE_LAYER_OUT, SITE_FINAL },
    .run = phases_run,
    .compute = phases_compute,
    .empty = phases_empty,
    .columns = "layer#|contribution#|drop#|Hellinger#|phase",
    .show = phases_show,
    .units = phases_units,
};
