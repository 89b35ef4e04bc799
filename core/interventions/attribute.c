// core/interventions/attribute.c -- /attribute: distributes the answer's log-probability over rows,
// by the kinds of core/interventions/attribution.h, as maps and as a ranking.
//
// --others DIR corrects for sinks: it measures other pictures with the same text, divides each map
// by the sum of its absolute values, and subtracts the mean of the other maps from the picture's.
#include <math.h>
#include <stdlib.h>

#include "core/interventions/attribution.h"
#include "core/positions/positions.h"
#include "core/probes/kit.h"

static const char *const attribute_complete[] = { "picture", "object", "question", "last",
                                                  "answer",  "text",   "all",      NULL };

struct attribute {
    const struct probe_env *env;
    bool *at; // [N]
    struct attributing w;
};

static void attribute_release(void *state)
{
    struct attribute *s = state;
    attributing_close(&s->w);
    free(s->at);
    free(s);
}

static int attribute_words(const char *words, struct err *err)
{
    return *words ? positions_check(words, err) : 0;
}

static void *attribute_start(const struct probe_env *env, struct err *err)
{
    const struct probe_options *o = env->options;
    struct attribute *s = xcalloc(1, sizeof *s);
    const char *words = o->words && *o->words ? o->words : env->visual ? "picture" : "text";
    s->env = env;
    s->at = xcalloc((size_t)env->sequence->n + 1, sizeof *s->at);
    s->w = (struct attributing){ .env = env, .at = s->at };
    if (attributing_open(&s->w, err) == 0 &&
        attribution_choose(o->by ? o->by : "gradient", s->w.chosen, err) == 0 &&
        probe_positions(env, words, s->at, err) >= 0) {
        for (int64_t i = 0; i < env->sequence->n && o->picture >= 0; i++)
            s->at[i] &= env->sequence->picture[i] < 0 || env->sequence->picture[i] == o->picture;
        return s;
    }
    attribute_release(s);
    return NULL;
}

static int attribute_passes(void *state, struct passing *p, struct err *err)
{
    struct attribute *s = state;
    const char *others = s->env->options->others;
    if (attributing_run(&s->w, p, err) < 0) return -1;
    return others ? attributing_others(&s->w, p, others, err) : 0;
}

// --- results -------------------------------------------------------------------------------------

// Lists each attributed row with its value from every chosen kind, sorted by the first kind.
static void put_rows(const struct attribute *s, struct results *r)
{
    const struct sequence *q = s->env->sequence;
    struct buf columns = { 0 };
    buf_puts(&columns, "position");
    for (int k = 0; k < ATTRIBUTION_COUNT; k++)
        if (s->w.chosen[k]) buf_printf(&columns, "|%s", attribution_kinds[k].name);
    struct result_table *t = results_table(r, "attribute.rows", columns.data);
    buf_release(&columns);
    t->own = true;
    t->ranked = -1;
    for (int64_t i = 0; i < q->n; i++) {
        double *v;
        if (!s->at[i]) continue;
        if (q->picture[i] >= 0)
            v = result_row(t, "%lld (picture %d, token %d)", (long long)i, q->picture[i],
                           q->cell[i]);
        else
            v = result_row(t, "%lld", (long long)i);
        for (int k = 0; k < ATTRIBUTION_COUNT; k++)
            if (s->w.chosen[k]) *v++ = s->w.maps[k].rows[i];
    }
}

static void put_map(const struct attribute *s, struct results *r, int kind, const char *name,
                    const double *rows)
{
    const struct probe_options *o = s->env->options;
    float *map = probe_values(s->env, 1);
    bool any = false;
    attributing_map(&s->w, rows, map);
    for (int64_t i = 0; i < s->env->visual; i++) any |= isfinite(map[i]);
    if (any)
        probe_maps(s->env, r, name,
                   attribution_kinds[kind].layer ? attribution_layer(&s->w, -1) : -1, -2,
                   o->token == PROBE_TOKEN_NUMBER ? (int)o->number : -2, map);
    free(map);
}

static void put_maps(const struct attribute *s, struct results *r)
{
    double *corrected = xcalloc((size_t)s->env->sequence->n + 1, sizeof *corrected);
    for (int k = 0; k < ATTRIBUTION_COUNT; k++) {
        char *name = xasprintf("attribute.%s", attribution_kinds[k].name);
        char *mean = xasprintf("attribute.others.%s", attribution_kinds[k].name);
        char *less = xasprintf("attribute.corrected.%s", attribution_kinds[k].name);
        if (s->w.chosen[k]) put_map(s, r, k, name, s->w.maps[k].rows);
        if (s->w.chosen[k] && s->w.others) {
            attributing_correct(&s->w, k, corrected);
            put_map(s, r, k, less, corrected);
            for (int64_t i = 0; i < s->env->sequence->n; i++)
                if (isfinite(corrected[i])) corrected[i] = s->w.maps[k].mean[i];
            put_map(s, r, k, mean, corrected);
        }
        free(name);
        free(mean);
        free(less);
    }
    free(corrected);
}

static void put_direct(const struct attribute *s, struct results *r)
{
    const struct direct_parts *d = &s->w.direct;
    const int layers = s->env->model->decoder.config.layers;
    const int heads = (int)s->env->model->decoder.config.heads;
    struct result_table *t = results_table(r, "attribute.direct", "layer|attention|ffn|rest");
    for (int l = 0; l < layers; l++) {
        double *v = result_row(t, "%d", l);
        v[0] = d->attention[l], v[1] = d->ffn[l], v[2] = d->rest[l];
    }
    t->curve = true;
    t = results_table(r, "attribute.logit", "what|logit");
    result_row(t, "the answer")[0] = d->logit;
    result_row(t, "embedding")[0] = d->embedding;
    struct result_map *m = results_map(r, "attribute.heads", layers, heads);
    for (int k = 0; k < layers * heads; k++)
        if (d->reached[k / heads]) m->values[k] = (float)d->heads[k];
}

// Names the layers whose attention no kind could read.
static void note_layers(const struct attribute *s, struct results *r)
{
    struct buf lacking = { 0 };
    bool any = false;
    for (int l = 0; l < s->env->model->decoder.config.layers; l++) {
        any |= s->w.attends[l];
        if (!s->w.attends[l]) buf_printf(&lacking, "%s%d", lacking.length ? ", " : "", l);
    }
    if (any && lacking.length && s->env->options->layer < 0)
        results_note(r, "layers without attention to follow (they keep a recurrent state): %s",
                     lacking.data);
    buf_release(&lacking);
}

// Says what the total of integrated gradients must be, and warns if it misses this by more than 5%.
static void note_integral(const struct attribution *integrated, double sum, struct results *r)
{
    const double must = integrated->should, off = fabs(sum - must);
    results_note(r, "must be: the answer's log-probability minus its log-probability with the "
                    "baseline");
    if (off > 0.05 * fabs(must))
        results_note(r,
                     "integrated: the numeric integral misses %.3g by %.3g: allow more points with "
                     "--steps N",
                     must, off);
}

static int attribute_finish(void *state, struct results *r, struct err *err)
{
    const struct attribute *s = state;
    result_row(results_table(r, "attribute", "what|log-probability"), "the answer")[0] = s->w.logp;
    struct result_table *t = results_table(r, "attribute.kinds", "kind|sum|must be");
    double integral = NAN;
    for (int k = 0; k < ATTRIBUTION_COUNT; k++) {
        double sum = 0;
        if (!s->w.chosen[k]) continue;
        for (int64_t i = 0; i < s->env->sequence->n; i++)
            if (isfinite(s->w.maps[k].rows[i])) sum += s->w.maps[k].rows[i];
        double *v = result_row(t, "%s", attribution_kinds[k].name);
        v[0] = sum, v[1] = s->w.maps[k].should;
        if (k == ATTRIBUTION_integrated) integral = sum;
    }
    put_rows(s, r);
    if (s->w.chosen[ATTRIBUTION_direct]) put_direct(s, r);
    put_maps(s, r);
    note_layers(s, r);
    attributing_note(&s->w, false, r);
    if (s->w.chosen[ATTRIBUTION_integrated])
        note_integral(&s->w.maps[ATTRIBUTION_integrated], integral, r);
    if (s->w.others)
        results_note(r,
                     "attribute.corrected: each map divided by the sum of its absolute values, "
                     "minus the mean of %d other picture%s (attribute.others)",
                     s->w.others, s->w.others == 1 ? "" : "s");
    return 0;
}

#define X(name, layer)                                                                   \
    { "attribute." #name, "attribution (" #name ")", .map = true, .on_request = true },  \
        { "attribute.corrected." #name, "share of the map minus that of other pictures", \
          .map = true, .on_request = true },                                             \
        { "attribute.others." #name, "share of the map", .map = true, .on_request = true },
static const struct result_kind attribute_results[] = {
    { "attribute", .unit = "log-probability (nats)", .columns = "log-probability" },
    ATTRIBUTIONS(X){ "attribute.direct", .unit = "logit" },
    { "attribute.logit", .unit = "logit" },
    { "attribute.heads", "logit", .map = true, .rows = MAP_LAYERS, .cols = MAP_HEADS,
      .on_request = true },
    { 0 },
};
#undef X

const struct probe probe_attribute = {
    .name = "attribute",
    .also = "attribution saliency heatmap gradient integrated gradients grad-cam gradcam occlusion "
            "rollout direct logit explain why measure",
    .usage = "/attribute [POSITIONS] [--by KIND,...] [--layer K] [--token answer|N] [--zero | "
             "--mean] [--steps N] [--window SIDE] [--others DIR] [--picture I] [--objects FILE "
             "[--boxes]]" PROBE_USAGE,
    .help = "Attribution of the answer's log-probability to visual tokens or other positions.",
    .details =
        "KIND, by default gradient, or all:\n"
        "gradient      each row times the gradient with respect to it (gradient x input)\n"
        "integrated    integrated gradients; they sum to the change in log-probability from the\n"
        "              baseline\n"
        "gradcam       Grad-CAM at the input of a layer (default: the middle one)\n"
        "occlusion     drop in log-probability when the baseline replaces a row, or a square of\n"
        "              visual tokens\n"
        "attention     attention of the answer, mean over heads and layers\n"
        "contribution  what attention adds to the residual stream (CAPA), mean over layers\n"
        "rollout       attention multiplied over all layers\n"
        "direct        direct logit attribution, by layer and head too\n"
        "POSITIONS name the rows (/help positions; default: picture). --layer K attributes to the\n"
        "input of layer K (default: 0, the embeddings), or reads the attention of one layer;\n"
        "rollout and direct read all layers. The baseline is the mean over visual or text rows,\n"
        "or with --zero, zeros.\n"
        "--others DIR corrects maps for attention sinks: it divides each map by the sum of its\n"
        "absolute values and subtracts the mean map of other pictures with the same "
        "text." PROBE_DETAILS,
    .results = attribute_results,
    .words = attribute_words,
    .complete = attribute_complete,
    .answer = true,
    .one_layer = true,
    .start = attribute_start,
    .release = attribute_release,
    .passes = attribute_passes,
    .finish = attribute_finish,
};
