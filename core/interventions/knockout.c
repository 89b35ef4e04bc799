// core/interventions/knockout.c -- /knockout: the answer's log-probability when some positions do
// not attend to others (attention knockout: Geva et al. 2023, arXiv 2304.14767).
//
// In the chosen layers and heads, the scores of keys FROM are removed for queries TO before the
// softmax. A position always sees itself.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/interventions/cut.h"
#include "core/interventions/effect.h"
#include "core/positions/positions.h"
#include "core/probes/kit.h"

struct knockout {
    const struct probe_env *env;
    struct cut cut;
    int *chosen; // [chosen_count] the layers that the user chose, in order
    int chosen_count, window;
    struct effect effect;
    double *windows; // [chosen_count] change for the window that begins at chosen[i]; NaN: none
    float *heads;    // [L,H] drop in log-probability; NaN: not measured
};

static void knockout_release(void *state)
{
    struct knockout *s = state;
    cut_close(&s->cut);
    free(s->chosen);
    free(s->windows);
    free(s->heads);
    effect_close(&s->effect);
    free(s);
}

static int knockout_words(const char *words, struct err *err)
{
    char *text[2];
    int status = 0;
    if (!positions_split(words, &text[0], &text[1]))
        return err_set(err, "write the positions whose attention to cut as FROM > TO: /knockout "
                            "picture > answer");
    for (int i = 0; i < 2; i++) {
        if (status == 0) status = positions_check(text[i], err);
        free(text[i]);
    }
    return status;
}

static void *knockout_start(const struct probe_env *env, struct err *err)
{
    const int layers = env->model->decoder.config.layers;
    const size_t L = (size_t)layers;
    struct knockout *s = xcalloc(1, sizeof *s);
    s->env = env;
    cut_open(&s->cut, env);
    s->chosen = xcalloc(L, sizeof *s->chosen);
    s->windows = xcalloc(L, sizeof *s->windows);
    s->heads = probe_nans((int64_t)L * env->model->decoder.config.heads);
    char *from = NULL, *to = NULL;
    positions_split(env->options->words, &from, &to); // knockout_words has checked the arrow
    int status = positions_layers(env->options->layers, "--layers", layers, s->cut.listens, err);
    if (status >= 0 && probe_positions(env, from, s->cut.from, err) < 0) status = -1;
    if (status >= 0 && probe_positions(env, to, s->cut.to, err) < 0) status = -1;
    free(from);
    free(to);
    if (status < 0) {
        knockout_release(s);
        return NULL;
    }
    for (int l = 0; l < layers; l++)
        if (s->cut.listens[l]) s->chosen[s->chosen_count++] = l;
    s->window = env->options->window ? env->options->window : (int)fmax(1, round(layers / 5.0));
    return s;
}

// Cuts attention in these layers: chosen[first .. first+count-1], and in one head or all (-1).
static int cut(struct knockout *s, int first, int count, int head, double *change, struct err *err)
{
    const struct hook hook = cut_hook(&s->cut);
    memset(s->cut.layers, 0, (size_t)s->env->model->decoder.config.layers * sizeof *s->cut.layers);
    for (int i = first; i < first + count; i++) s->cut.layers[s->chosen[i]] = true;
    s->cut.head = head;
    s->effect.layer = s->chosen[first];
    return effect_of(&s->effect, &hook, change, err);
}

// --- the passes ----------------------------------------------------------------------------------

static int knockout_passes(void *state, struct passing *p, struct err *err)
{
    struct knockout *s = state;
    const int heads = (int)s->env->model->decoder.config.heads;
    const int windows = s->window < s->chosen_count ? s->chosen_count - s->window + 1 : 0;
    const int of_heads = s->env->options->heads ? s->chosen_count * heads : 0;
    const int64_t first = cut_first(&s->cut);
    if (first < 0) return err_set(err, "nothing to cut: no position of TO sees one of FROM");
    const struct hook hook = cut_hook(&s->cut);
    int status = effect_open(&s->effect, s->env, p, first, windows + of_heads + 1, &hook, err);
    for (int i = 0; i < s->chosen_count; i++) s->windows[i] = NAN;
    for (int i = 0; i < windows && status == 0; i++)
        status = cut(s, i, s->window, -1, &s->windows[i], err);
    for (int i = 0; i < of_heads && status == 0; i++) {
        double change = NAN;
        status = cut(s, i / heads, 1, i % heads, &change, err);
        s->heads[s->chosen[i / heads] * heads + i % heads] = (float)-change;
    }
    double all; // from the last pass, whose tokens effect_put lists
    return status == 0 ? cut(s, 0, s->chosen_count, -1, &all, err) : -1;
}

static int knockout_finish(void *state, struct results *r, struct err *err)
{
    const struct knockout *s = state;
    const int layers = s->env->model->decoder.config.layers;
    const int heads = (int)s->env->model->decoder.config.heads;
    int from = 0, to = 0;
    for (int64_t i = 0; i < s->env->sequence->n; i++) from += s->cut.from[i], to += s->cut.to[i];
    effect_put(&s->effect, r, "knockout");
    results_note(r, "%d position%s no longer attend%s to %d in %d layer%s", to, to == 1 ? "" : "s",
                 to == 1 ? "s" : "", from, s->chosen_count, s->chosen_count == 1 ? "" : "s");
    effect_note_layers(&s->effect, r, s->cut.listens, s->cut.reached);
    if (s->window < s->chosen_count) {
        struct result_table *t = results_table(r, "knockout.windows", "layer|change");
        t->curve = true;
        for (int i = 0; i < s->chosen_count; i++)
            if (!isnan(s->windows[i])) result_row(t, "%d", s->chosen[i])[0] = s->windows[i];
        results_note(r, "knockout.windows: attention is cut in %d layer%s, from that layer on",
                     s->window, s->window == 1 ? "" : "s");
    }
    if (!s->env->options->heads) return 0;
    struct result_map *m = results_map(r, "knockout.heads", layers, heads);
    memcpy(m->values, s->heads, (size_t)(layers * heads) * sizeof *m->values);
    return 0;
}

static const struct result_kind knockout_results[] = {
    { "knockout", .unit = "log-probability (nats)" },
    { "knockout.tokens", .unit = "log-probability (nats)" },
    { "knockout.windows", .unit = "change in log-probability (nats)", .losses = true },
    { "knockout.heads", "drop in log-probability (nats)", .map = true, .rows = MAP_LAYERS,
      .cols = MAP_HEADS, .on_request = true },
    { 0 },
};

const struct probe probe_knockout = {
    .name = "knockout",
    .also = "attention mask block cut edges causal intervention flow measure",
    .usage = "/knockout FROM > TO [--layers A-B] [--window N] [--heads] [--token answer|N] "
             "[--picture I] [--objects FILE [--boxes]]" PROBE_USAGE,
    .help = "Change in the answer's log-probability when positions TO do not attend to FROM.",
    .details =
        "Runs the answer again with attention cut in the chosen layers, then in each window of\n"
        "these layers (table knockout.windows), and with --heads in one head at a time. A "
        "position\n"
        "always sees itself.\n"
        "FROM and TO name positions (/help positions), such as picture > answer, or\n"
        "object red circle > question,answer." PROBE_DETAILS,
    .results = knockout_results,
    .words = knockout_words,
    .pictures = false,
    .answer = true,
    .scalar = "knockout",
    .start = knockout_start,
    .release = knockout_release,
    .passes = knockout_passes,
    .finish = knockout_finish,
};
