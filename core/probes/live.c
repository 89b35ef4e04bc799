// core/probes/live.c -- the attention of the newest token, map by map.
#include "core/probes/live.h"

#include <stdlib.h>

#include "core/base/clock.h"
#include "core/model/model.h"
#include "core/probes/kit.h"
#include "core/probes/results.h"
#include "core/settings/settings.h"
#include "core/template/message.h"
#include "kernels/tensor.h"

struct live {
    const char *name;
    struct probe_options options;
    struct probe_env env;
    const struct sinks *sinks;
    int layer, head;
    struct results maps; // of the newest pass
    size_t shown;        // number of maps emitted
    int64_t newest;      // the answer's token in the pass's first row; later rows are drafts
    double pause, next;  // minimum seconds between two maps; clock_seconds() of the next one
    bool due;            // the next pass emits a map
};

struct live *live_new(const char *name, const struct model *model, const struct settings *settings,
                      const struct backend *backend, const struct picture *pictures, size_t count,
                      const struct sinks *sinks)
{
    struct live *l = xcalloc(1, sizeof *l);
    l->name = name;
    const int layers = model->decoder.config.layers;
    const bool chosen = !settings_is(settings, "screen.live_layer", "auto");
    l->layer = chosen ? (int)settings_integer(settings, "screen.live_layer") : probe_middle(model);
    if (l->layer >= layers) l->layer = layers - 1;
    l->head = settings_is(settings, "screen.live_head", "mean")
                  ? -1
                  : (int)settings_integer(settings, "screen.live_head");
    if (l->head >= model->decoder.config.heads) l->head = (int)model->decoder.config.heads - 1;
    l->options = probe_defaults;
    l->env = (struct probe_env){ .model = model,
                                 .settings = settings,
                                 .backend = backend,
                                 .options = &l->options,
                                 .pictures = pictures,
                                 .picture_count = count };
    l->sinks = sinks;
    l->due = true;
    return l;
}

void live_pause(struct live *l, double seconds)
{
    l->pause = seconds;
}

void live_free(struct live *l)
{
    if (l) results_release(&l->maps);
    free(l);
}

// Emits the pending maps of the answer's first `tokens` tokens.
static void emit_pending(struct live *l, int64_t tokens)
{
    for (; l->shown < l->maps.map_count && l->maps.maps[l->shown].token < tokens; l->shown++) {
        const struct result_map *m = &l->maps.maps[l->shown];
        struct event_heatmap e = results_heatmap(m);
        e.image = &l->env.pictures[m->picture].image;
        sinks_emit(l->sinks, &(struct event){ .kind = EVENT_HEATMAP, .heatmap = &e });
    }
}

void live_show(struct live *l, int64_t tokens)
{
    emit_pending(l, tokens);
    // Decides between passes, because one decision must hold for all layers of a pass.
    if (l->pause > 0) l->due = clock_seconds() >= l->next;
}

// Reduces probabilities [H,1,P] to values [S] of the visual tokens: of one head, or the mean.
static int take_row(void *self, const struct site *site, const struct site_args *args,
                    struct err *err)
{
    struct live *l = self;
    const float *probs = args->x->data;
    const int64_t heads = args->x->shape[0], keys = args->x->shape[2];
    const int64_t from = l->head < 0 ? 0 : l->head, to = l->head < 0 ? heads : l->head + 1;
    int64_t visual;
    int32_t *number = sequence_visual_numbers(site_sequence(args), &visual);
    float *values = xcalloc((size_t)visual + 1, sizeof *values);
    for (int64_t k = 0; k < keys; k++) {
        const int32_t at = number[site_key(args, k)];
        for (int64_t h = from; at >= 0 && h < to; h++)
            values[at] += probs[h * keys + k] / (float)(to - from);
    }
    l->env.sequence = site_sequence(args);
    if (visual)
        probe_maps(&l->env, &l->maps, l->name, l->layer, l->head,
                   (int)(site_row(args, 0) - site_sequence(args)->prompt), values);
    emit_pending(l, l->newest + 1);
    free(values);
    free(number);
    return 0;
}

static bool wants(void *self, const struct site *site, int layer)
{
    const struct live *l = self;
    return l->due && site == SITE_VALUES && (layer < 0 || layer == l->layer);
}

static int run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct live *l = self;
    l->newest = site_row(args, 0) - site_sequence(args)->prompt;
    if (args->prefill || !l->env.picture_count || l->newest < 0) return 0;
    if (l->pause > 0) l->next = clock_seconds() + l->pause;
    results_release(&l->maps); // drafts among them were rejected
    l->shown = 0;
    return probe_read_queries(g, args, NULL, site_sequence(args)->n, take_row, l);
}

struct hook live_hook(struct live *l)
{
    return (struct hook){ .wants = wants, .run = run, .self = l, .drafts = true };
}
