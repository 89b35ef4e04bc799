// core/checkup/checks/inside.c -- measures pictures on their way from the encoder to the answer:
// norms, sinks, contribution, attention and curvature, by the probes of /norms, /sinks,
// /contribution, /attention and /curvature, as means over pictures.
#include "core/checkup/checkup_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapters.h"
#include "core/base/event.h"
#include "core/probes/measure.h"
#include "core/probes/probe.h"
#include "core/probes/results.h"

enum { PICTURES = 3, TOKENS = 24, MAPS = 3 };

static const struct probe *probe_named(const char *name)
{
    const struct probe *p;
    for (int i = 0; (p = probe_at(i)); i++)
        if (!strcmp(p->name, name)) return p;
    BUG("there is no probe '%s'", name);
}

struct inside {
    struct checkup *c;
    int first, count; // pictures
    struct checkup_answer answer[PICTURES];
};

static void ask(const struct inside *n, int i)
{
    const int picture = n->first + i;
    checkup_ask(n->c, &picture, 1, checkup_question);
    checkup_answered(n->c, &n->answer[i]);
}

// Computes the means of a probe's results over the pictures. `first` receives the results of the
// first picture; may be NULL.
static int measure_mean(struct inside *n, const char *name, const struct settings *s, int layer,
                        struct results *mean, struct results *first, struct err *err)
{
    struct checkup *c = n->c;
    struct results_mean m = { 0 };
    struct probe_options options = probe_defaults;
    options.layer = layer;
    const struct measuring measuring = { .model = c->model,
                                         .backend = c->backend,
                                         .settings = s,
                                         .tensors = checkup_tensors(c),
                                         .cancel = c->work->cancel,
                                         .options = &options };
    int status = 0;
    *mean = (struct results){ 0 };
    for (int i = 0; i < n->count && status == 0; i++) {
        struct results r = { 0 };
        ask(n, i);
        status = checkup_stopped(c) ? err_set(err, "stopped")
                                    : measure(&measuring, &c->talk, probe_named(name), &r, err);
        if (status == 0) results_mean_add(&m, &r);
        if (status == 0 && !i && first)
            *first = r;
        else if (status == 0)
            results_release(&r);
    }
    results_mean_take(&m, mean);
    if (status < 0) results_release(mean);
    return status;
}

// Adds a number of a table to the finding and returns it; NaN if the table lacks it.
static double put(const struct inside *n, struct finding *f, const struct results *r,
                  const char *table, const char *key, const char *column, const char *name,
                  const char *unit)
{
    const double *value = results_value(r, table, key, column);
    finding_number(f, name, value ? *value : NAN, unit, n->count);
    return value ? *value : NAN;
}

// --- norms ---------------------------------------------------------------------------------------

static int check_norms(struct inside *n, struct err *err)
{
    static const char table[] = "norms.interface";
    struct checkup *c = n->c;
    struct settings *aligned = checkup_with(c, "norm.align", "on", NULL);
    struct results r, with = { 0 };
    int status = measure_mean(n, "norms", c->settings, PROBE_LAYER_DEFAULT, &r, NULL, err);
    if (status == 0 &&
        (status = measure_mean(n, "norms", aligned, PROBE_LAYER_DEFAULT, &with, NULL, err)) < 0)
        results_release(&r);
    settings_free(aligned);
    if (status < 0) return -1;
    struct finding f = finding(c, "norms");
    put(n, &f, &r, table, "projector, input", "norm", "projector, input", "L2 norm");
    const double ratio = put(n, &f, &r, table, "visual tokens", "ratio to T*", "visual tokens",
                             "times the text embeddings'");
    put(n, &f, &r, table, "visual tokens", "norm", "visual tokens", "L2 norm");
    put(n, &f, &r, table, "text embedding table (T*)", "norm", "text embeddings", "L2 norm");
    put(n, &f, &with, "norms.layers", "0", "visual", "visual tokens, aligned", "L2 norm");
    finding_measured(&f, "the norm of visual tokens is %.3g times that of text embeddings", ratio);
    const struct result_table *layers = results_find(&r, "norms.layers");
    if (layers)
        status = checkup_curves(c, "Norms by layer",
                                "Mean L2 norm of visual and text tokens as they enter each layer.",
                                layers, "visual|text", err);
    if (status == 0 && (layers = results_find(&with, "norms.layers")))
        status = checkup_curves(c, "Norms by layer, with norm alignment",
                                "The same after the visual tokens were scaled to the norm of text "
                                "embeddings, without training.",
                                layers, "visual|text", err);
    results_release(&r);
    results_release(&with);
    return status;
}

// --- sinks, contribution, curvature --------------------------------------------------------------

static int check_sinks(struct inside *n, struct err *err)
{
    struct results r;
    if (measure_mean(n, "sinks", n->c->settings, PROBE_LAYER_DEFAULT, &r, NULL, err) < 0) return -1;
    struct finding f = finding(n->c, "sinks");
    const double sinks = put(n, &f, &r, "sinks", "sinks", "value", "visual sinks", "tokens");
    const double dumps = put(n, &f, &r, "sinks", "probability dumps (type I)", "value",
                             "probability dumps", "tokens");
    const double anchors = put(n, &f, &r, "sinks", "structural anchors (type II)", "value",
                               "structural anchors", "tokens");
    put(n, &f, &r, "sinks", "tau", "value", "tau", "");
    put(n, &f, &r, "sinks", "layer", "value", "layer", "");
    finding_measured(&f, "%.3g visual tokens of a picture are sinks: %.3g dumps, %.3g anchors",
                     sinks, dumps, anchors);
    results_release(&r);
    return 0;
}

// Returns the layer with the largest value in the first column, and this value; -1 if no layer has
// one: those without attention have NaN.
static int best_layer(const struct result_table *t, double *most)
{
    int best = -1;
    for (size_t i = 0; i < t->row_count; i++) {
        const double value = t->rows[i].value[0];
        if (isnan(value) || (best >= 0 && value <= *most)) continue;
        best = (int)strtol(t->rows[i].key, NULL, 10);
        *most = value;
    }
    return best;
}

// Runs a probe whose table has a row for each layer; adds its curves, its maps and a finding.
static int check_layers(struct inside *n, const char *probe, const char *name, const char *columns,
                        int layer, const char *title, const char *text, const char *found,
                        struct err *err)
{
    struct checkup *c = n->c;
    struct results r, first = { 0 };
    if (measure_mean(n, probe, c->settings, layer, &r, &first, err) < 0) {
        results_release(&first);
        return -1;
    }
    const struct result_table *t = results_find(&r, probe);
    struct finding f = finding(c, name);
    int status = 0;
    double most;
    const int best = t ? best_layer(t, &most) : -1;
    if (best >= 0) {
        finding_number(&f, t->columns[1], most, results_unit(probe) ? results_unit(probe) : "",
                       n->count);
        finding_number(&f, "in layer", best, "", n->count);
        finding_measured(&f, found, best);
        status = checkup_curves(c, title, text, t, columns, err);
    } else {
        finding_skip(&f, "no numbers were measured");
    }
    // Maps of the first picture: all, or those of the first, middle and last layer.
    struct event_heatmap maps[MAPS];
    size_t count = 0;
    const size_t all = status == 0 ? first.map_count : 0, shown = all < MAPS ? all : MAPS;
    for (; count < shown; count++) {
        maps[count] = results_heatmap(&first.maps[count * (all - 1) / (shown > 1 ? shown - 1 : 1)]);
        maps[count].image = &c->talk.pictures[n->first].image;
    }
    if (count && status == 0) {
        char *caption = xasprintf("%s, over the picture %s.", title, c->views[n->first].name);
        status = checkup_maps(c, title, caption, maps, count, err);
        free(caption);
    }
    results_release(&r);
    results_release(&first);
    return status;
}

// --- attention by layer and head -----------------------------------------------------------------

struct shares {
    int layers, heads;
    float *share; // [layers, heads] attention of the prompt's last row to the pictures, summed
};

static bool shares_wants(void *self, const struct site *site, int layer)
{
    return site == SITE_ATTN;
}

static int shares_take(void *self, const struct site *site, const struct site_args *args,
                       struct err *err)
{
    struct shares *s = self;
    const int64_t heads = args->x->shape[0], n = args->x->shape[1], keys = args->x->shape[2];
    const float *x = args->x->data; // [H,N,P]
    for (int64_t h = 0; h < heads && h < s->heads; h++) {
        const float *row = x + (h * n + n - 1) * keys;
        double sum = 0;
        for (int64_t k = 0; k < keys; k++)
            if (args->sequence->picture[site_key(args, k)] >= 0) sum += (double)row[k];
        s->share[args->layer * s->heads + h] += (float)sum;
    }
    return 0;
}

static int check_heads(struct inside *n, struct err *err)
{
    struct checkup *c = n->c;
    const struct decoder_config *d = &c->model->decoder.config;
    struct shares s = { .layers = d->layers, .heads = (int)d->heads };
    const struct hook hook = { .wants = shares_wants, .take = shares_take, .self = &s };
    int status = 0;
    s.share = xcalloc((size_t)s.layers * (size_t)s.heads, sizeof *s.share);
    for (int i = 0; i < n->count && status == 0; i++) {
        const int picture = n->first + i;
        checkup_ask(c, &picture, 1, checkup_question);
        status = checkup_prefill(c, &hook, err);
    }
    double most = 0, mean = 0;
    int layer = 0, head = 0;
    for (int i = 0; i < s.layers * s.heads; i++) {
        s.share[i] /= (float)n->count;
        mean += (double)s.share[i] / (s.layers * s.heads);
        if ((double)s.share[i] <= most) continue;
        most = (double)s.share[i];
        layer = i / s.heads, head = i % s.heads;
    }
    if (status == 0) {
        struct finding f = finding(c, "attention by head");
        finding_number(&f, "share of the picture, mean", mean, "of the attention", n->count);
        finding_number(&f, "largest", most, "of the attention", n->count);
        finding_measured(&f, "head %d of layer %d looks at the picture most", head, layer);
        const struct event_heatmap map = { .name = "share of the picture",
                                           .picture = -1,
                                           .layer = -1,
                                           .head = -2,
                                           .token = -2,
                                           .rows = s.layers,
                                           .cols = s.heads,
                                           .values = s.share,
                                           .min = 0,
                                           .max = (float)fmax(most, 1e-6),
                                           .axes = { "layer", "head" } };
        status = checkup_maps(c, "Attention to the picture by layer and head",
                              "Share of the attention of the prompt's last token that goes to the "
                              "picture.",
                              &map, 1, err);
    }
    free(s.share);
    return status;
}

// --- all -----------------------------------------------------------------------------------------

static int run(struct checkup *c, struct err *err)
{
    struct inside n = { .c = c };
    n.count = checkup_measured(c, PICTURES, &n.first);
    int status = 0;
    for (int i = 0; i < n.count && status == 0; i++) {
        const int picture = n.first + i;
        checkup_ask(c, &picture, 1, checkup_question);
        status = checkup_answer_some(c, TOKENS, &n.answer[i], err);
    }
    checkup_progress(c, 1, 8);
    if (status == 0) status = check_norms(&n, err);
    checkup_progress(c, 3, 8);
    if (status == 0) status = check_sinks(&n, err);
    if (status == 0)
        status = check_layers(&n, "contribution", "contribution", NULL, PROBE_LAYER_DEFAULT,
                              "Contribution by layer",
                              "Mean attention contribution of tokens of one kind to the other.",
                              "visual tokens contribute most to text in layer %d", err);
    checkup_progress(c, 5, 8);
    if (status == 0)
        status = check_layers(&n, "attention", "attention", "to the pictures", PROBE_LAYER_ALL,
                              "Attention to the picture",
                              "Share of the answer's attention that goes to the picture.",
                              "the answer looks at the picture most in layer %d", err);
    if (status == 0) status = check_heads(&n, err);
    if (status == 0)
        status = check_layers(&n, "curvature", "curvature", "minus layer 0", PROBE_LAYER_DEFAULT,
                              "Curvature by layer",
                              "Mean angle between consecutive steps along the visual tokens, minus "
                              "that of layer 0.",
                              "the path of the visual tokens bends most in layer %d", err);
    for (int i = 0; i < n.count; i++) checkup_answer_release(&n.answer[i]);
    return status;
}

const struct checkup_check check_inside = {
    .name = "inside",
    .shows = "Pictures inside the model: norms, sinks, contribution, attention and curvature by "
             "layer.",
    .sees = true,
    .cost = { .prompts = 24, .tokens = 72, .encodes = 12 },
    .quick = { .prompts = 8, .tokens = 24, .encodes = 4 },
    .run = run,
};
