// core/probes/sink_ratio.c -- the share of layers in which one visual token receives much of the
// answer's attention (IRA's paper, Table 6), and the layers' curvature minus that of layer 0.
//
//   A_k[l] = attention to visual token k, mean over answer tokens and heads; a layer has a sink
//   when max_k A_k > 0.15 (--threshold)
#include <math.h>
#include <stdlib.h>

#include "core/model/layer.h"
#include "core/probes/attention_sum.h"
#include "core/probes/curvature.h"
#include "core/probes/kit.h"

struct sink_ratio {
    const struct probe_env *env;
    struct attention_sum *sum;
    struct curvature *curvature;
};

static void sink_ratio_release(void *state)
{
    struct sink_ratio *s = state;
    attention_sum_release(s->sum);
    curvature_free(s->curvature);
    free(s);
}

static void *sink_ratio_start(const struct probe_env *env, struct err *err)
{
    struct sink_ratio *s = xcalloc(1, sizeof *s);
    *s = (struct sink_ratio){ env, attention_sum_start(env, err), curvature_new(env, err) };
    return s;
}

static int sink_ratio_run(void *state, struct graph *g, const struct site *site,
                          struct site_args *args)
{
    const struct sink_ratio *s = state;
    if (site == SITE_VALUES) return attention_sum_run(s->sum, g, site, args);
    return curvature_add(s->curvature, g, site, args);
}

static int sink_ratio_finish(void *state, struct results *r, struct err *err)
{
    const struct sink_ratio *s = state;
    const int layers = s->env->model->decoder.config.layers;
    const double threshold = s->env->options->threshold;
    struct result_table *t =
        results_table(r, "sink_ratio", "layer|strongest|at token|sink|curvature");
    struct point *points = xcalloc((size_t)layers, sizeof *points); // attention, curvature
    int sinks = 0, count = 0; // layers with a sink, layers with attention
    t->curve = true;
    for (int l = 0; l < layers; l++) {
        if (!decoder_attends(&s->env->model->decoder.config, l)) continue;
        const float *map = attention_sum_map(s->sum, l, -1, 0);
        const int64_t most = attention_sum_most(s->sum, map);
        double *v = result_row(t, "%d", l);
        v[0] = points[count].x = (double)map[most];
        v[1] = (double)most;
        v[2] = v[0] > threshold;
        v[3] = points[count++].y =
            curvature_angle(s->curvature, l, false) - curvature_angle(s->curvature, 0, false);
        sinks += v[0] > threshold;
    }
    t = results_table(r, "sink_ratio.total", "what|value");
    result_row(t, "share of layers with a sink above %g", threshold)[0] = (double)sinks / count;
    result_row(t, "V (total change in curvature)")[0] = curvature_total(s->curvature, false);
    result_row(t, "Spearman of sink and curvature over layers")[0] =
        rank_correlation(points, (size_t)count);
    free(points);
    return 0;
}

static const struct result_kind sink_ratio_results[] = {
    { "sink_ratio", "share of attention", .columns = "strongest" },
    { 0 },
};

const struct probe probe_sink_ratio = {
    .name = "sink-ratio",
    .also = "attention share measure probe",
    .usage = "/sink-ratio [--threshold X] [--picture I]" PROBE_USAGE,
    .help = "Share of layers in which one visual token takes much of the answer's attention.",
    .details =
        "Counts the layers in which the attention to one visual token, averaged over the tokens\n"
        "of the answer and over heads, exceeds --threshold. Also shows each layer's curvature\n"
        "minus that of layer 0, and the rank correlation of attention and curvature over layers;\n"
        "with several conditions (such as now | CHECKPOINT), over layers and conditions too. With\n"
        "--data, each condition has its own answers unless --given is used." PROBE_DETAILS,
    .pictures = true,
    .answer = true,
    .answered = true,
    .scalar = "sink_ratio.total",
    .correlate = { "sink_ratio", { "strongest", "curvature" } },
    .results = sink_ratio_results,
    .token = PROBE_TOKEN_ANSWER,
    .start = sink_ratio_start,
    .release = sink_ratio_release,
    .sites = { SITE_VALUES, SITE_LAYER_IN, SITE_FINAL },
    .run = sink_ratio_run,
    .finish = sink_ratio_finish,
};
