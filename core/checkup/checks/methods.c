// core/checkup/checks/methods.c -- measures the effect of pruning, FFN approximation and untrained
// norm alignment on this model: the likelihood of its own answers under each of these methods, and
// the computation that each saves.
//
// The model answers a question about each picture without these methods. Then it is fed the answers
// under each method (teacher forcing), to measure the change in their log-probability, and whether
// every token is still the likeliest one (greedy decoding then gives the same answer).
#include "core/checkup/checkup_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/event.h"
#include "core/eval/compare.h"
#include "core/methods/calibration.h"
#include "core/probes/hellinger.h"
#include "core/probes/results.h"

enum { PICTURES = 3, TOKENS = 24, SCORES = 4, KEEPS = 4, QUARTER = 4 };

static const char *const scores[SCORES] = { "contribution", "attention", "uniform", "random" };
static const char *const keeps[KEEPS] = { "0.75", "0.5", "0.25", "0.1" };

struct measured {
    double nats, flops, seconds, bytes;
    int64_t tokens, same;
};

struct methods_check {
    struct checkup *c;
    int picture[PICTURES], count;
    struct checkup_answer answer[PICTURES];
    struct measured plain;
    int done, all; // conditions
};

static int measure_with(struct methods_check *k, const struct settings *s, struct measured *m,
                        struct err *err)
{
    struct checkup *c = k->c;
    struct compare_meter meter = { .model = c->model };
    *m = (struct measured){ 0 };
    for (int i = 0; i < k->count; i++) {
        const struct ids *ids = &k->answer[i].ids;
        struct checkup_logits l;
        bool same;
        const struct hook hook = compare_meter_hook(&meter, s);
        if (!ids->count) continue;
        checkup_ask(c, &k->picture[i], 1, checkup_question);
        c->listener = &hook;
        const int status = checkup_logits(c, s, ids, 0, &l, err);
        c->listener = NULL;
        if (status < 0) return -1;
        m->nats += logits_log_probability(&l, ids, &same);
        if (!strcmp(k->answer[i].stop, "eos")) // the end must be the likeliest token too
            same &= model_is_eos(c->model,
                                 (int32_t)logits_best(l.data + (l.rows - 1) * l.vocab, l.vocab));
        m->tokens += (int64_t)ids->count;
        m->same += same;
        m->flops += meter.cost.of[COST_PREFILL_FLOPS];
        m->seconds += l.prefill_s;
        m->bytes += l.kv_bytes;
        checkup_logits_release(&l);
    }
    m->nats /= (double)m->tokens;
    checkup_progress(c, ++k->done, k->all);
    return 0;
}

// Measures a condition and adds its finding: not applicable if the measurement fails.
static int try_settings(struct methods_check *k, const char *name, const struct settings *s,
                        const char *text, struct measured *m, struct err *err)
{
    struct checkup *c = k->c;
    const struct measured *p = &k->plain;
    struct err why = { 0 };
    const int status = measure_with(k, s, m, &why);
    if (c->stopped) {
        *err = why;
        return -1;
    }
    struct finding f = finding(c, name);
    if (status < 0) {
        finding_skip(&f, "%s", why.text);
        m->nats = NAN;
        return 0;
    }
    finding_number(&f, "log-probability of the answers", m->nats - p->nats, "nats per token",
                   m->tokens);
    finding_number(&f, "answers that stay the same", (double)m->same, "", k->count);
    finding_number(&f, "FLOPs of the prompt", m->flops / p->flops, "of all", k->count);
    finding_number(&f, "time of the prompt", m->seconds / p->seconds, "of all", k->count);
    finding_number(&f, "keys and values", m->bytes / p->bytes, "of all", k->count);
    finding_measured(&f, "%s%s%lld of %d answers stay the same", text, *text ? "; " : "",
                     (long long)m->same, k->count);
    return 0;
}

// --- pruning -------------------------------------------------------------------------------------

static int try_pruning(struct methods_check *k, struct err *err)
{
    struct checkup *c = k->c;
    const bool quick = c->work->options.quick;
    struct results r = { 0 };
    struct result_table *t =
        results_table(&r, "pruning", "share kept|contribution|attention|uniform|random");
    int status = 0;
    for (int i = 0; i < KEEPS && status == 0; i++) {
        if (quick && strcmp(keeps[i], "0.25") != 0) continue;
        double *row = result_row(t, "%s", keeps[i]);
        for (int score = 0; score < SCORES && status == 0; score++) {
            struct settings *s =
                checkup_with(c, "prune.score", scores[score], "prune.keep", keeps[i], NULL);
            char *name = xasprintf("pruning by %s, %g%% kept%s", scores[score],
                                   100 * strtod(keeps[i], NULL), score ? "" : " (CAPA)");
            struct measured m;
            status = try_settings(k, name, s, "", &m, err);
            row[score] = m.nats - k->plain.nats;
            free(name);
            settings_free(s);
        }
    }
    if (status == 0 && !quick)
        status =
            checkup_curves(c, "Pruning",
                           "Change in the log-probability of the model's own answers (nats per "
                           "token) by the share of visual tokens that is kept.",
                           t, NULL, err);
    results_release(&r);
    return status;
}

// --- FFN approximation ---------------------------------------------------------------------------

// Returns a list of the most redundant quarter of the layers, at least one and never the last,
// such as "3,5,6"; "" for a model with one layer. *least: the smallest redundancy among them. The
// caller frees the list.
static char *redundant_layers(const float *redundancy, int layers, double *least)
{
    bool *chosen = xcalloc((size_t)layers, sizeof *chosen);
    struct buf b = { 0 };
    *least = 1;
    for (int n = 0; n < layers / QUARTER || !n; n++) {
        int best = -1;
        for (int l = 0; l < layers - 1; l++)
            if (!chosen[l] && (best < 0 || redundancy[l] > redundancy[best])) best = l;
        if (best < 0) break;
        chosen[best] = true;
        *least = (double)redundancy[best];
    }
    for (int l = 0; l < layers; l++)
        if (chosen[l]) buf_printf(&b, "%s%d", b.length ? "," : "", l);
    free(chosen);
    return buf_take(&b);
}

// Approximates, then skips, the FFNs of the most redundant layers.
static int try_redundant(struct methods_check *k, const char *path, const float *redundancy,
                         int layers, struct err *err)
{
    static const char name[] = "FFN approximation, a quarter of the layers";
    struct checkup *c = k->c;
    double least;
    char *list = redundant_layers(redundancy, layers, &least);
    if (!*list) {
        struct finding f = finding(c, name);
        finding_skip(&f, "the model has one decoder layer, and the last one is never approximated");
        free(list);
        return 0;
    }
    struct settings *some = checkup_with(c, "ffn.calibration", path, "ffn.layers", list,
                                         "ffn.approx", "hadamard", NULL),
                    *skip = checkup_with(c, "ffn.layers", list, "ffn.approx", "skip", NULL);
    char *which = xasprintf("layers %s, redundancy %.3g and more", list, least);
    struct measured m;
    int status = try_settings(k, name, some, which, &m, err);
    if (status == 0) status = try_settings(k, "FFN skipped, the same layers", skip, which, &m, err);
    free(which);
    free(list);
    settings_free(some);
    settings_free(skip);
    return status;
}

static int try_approximation(struct methods_check *k, struct err *err)
{
    struct checkup *c = k->c;
    const int64_t layers = c->model->decoder.config.layers;
    char *path = xasprintf("%s/ffn.safetensors", c->scratch);
    struct calibration calibration = { 0 };
    float *redundancy = NULL;
    struct measured m;
    int status = checkup_calibrate(c, "ffn", k->picture, (size_t)k->count, path, err);
    if (status == 0) status = calibration_open(&calibration, path, err);
    if (status == 0 &&
        !(redundancy = calibration_numbers(&calibration, "ffn.redundancy", 1, &layers, err)))
        status = -1;
    if (status == 0) {
        const double eta = settings_real(c->settings, "ffn.eta");
        int above = 0;
        for (int64_t l = 0; l < layers - 1; l++) above += redundancy[l] > eta;
        struct settings *none = checkup_with(c, "ffn.calibration", path, "ffn.eta", "1",
                                             "ffn.approx", "hadamard", NULL),
                        *all = checkup_with(c, "ffn.calibration", path, "ffn.approx", "hadamard",
                                            NULL);
        char *text = xasprintf("%d of %lld layers have a redundancy above %g", above,
                               (long long)layers, eta);
        if (above) status = try_settings(k, "FFN approximation, auto", all, text, &m, err);
        if (status == 0) status = try_redundant(k, path, redundancy, (int)layers, err);
        // Approximating no layer must change nothing; this identity needs the calibration.
        if (status == 0) status = measure_with(k, none, &m, err);
        if (status == 0) {
            struct finding f = finding(c, "FFN approximation of no layer");
            finding_number(&f, "log-probability of the answers", m.nats - k->plain.nats,
                           "nats per token", m.tokens);
            if (m.nats == k->plain.nats)
                finding_works(&f, "the same as without the method");
            else
                finding_fails(&f, "it changes the answers' log-probability");
        }
        free(text);
        settings_free(none);
        settings_free(all);
    }
    free(redundancy);
    calibration_close(&calibration);
    free(path);
    return status;
}

// --- all -----------------------------------------------------------------------------------------

static int begin(struct methods_check *k, struct err *err)
{
    struct checkup *c = k->c;
    int first;
    k->count = checkup_measured(c, PICTURES, &first);
    k->all = (c->work->options.quick ? SCORES : SCORES * KEEPS) + 6;
    int status = 0;
    for (int i = 0; i < k->count && status == 0; i++) {
        k->picture[i] = first + i;
        checkup_ask(c, &k->picture[i], 1, checkup_question);
        status = checkup_answer_some(c, TOKENS, &k->answer[i], err);
    }
    // Measures twice: the first time warms up.
    for (int i = 0; i < 2 && status == 0; i++)
        status = measure_with(k, c->settings, &k->plain, err);
    return status;
}

static int run(struct checkup *c, struct err *err)
{
    struct methods_check k = { .c = c };
    struct measured m;
    int status = begin(&k, err);
    if (status == 0) status = try_pruning(&k, err);
    if (status == 0) status = try_approximation(&k, err);
    if (status == 0) {
        struct settings *s = checkup_with(c, "norm.align", "on", NULL);
        status = try_settings(&k, "norm alignment, untrained", s, "", &m, err);
        settings_free(s);
    }
    for (int i = 0; i < k.count; i++) checkup_answer_release(&k.answer[i]);
    return status;
}

const struct checkup_check check_methods = {
    .name = "methods",
    .shows = "The effect of pruning, FFN approximation and norm alignment on the model's own "
             "answers, and the computation that they save.",
    .sees = true,
    .cost = { .prompts = 80, .tokens = 72, .encodes = 3 },
    .quick = { .prompts = 14, .tokens = 24, .encodes = 1 },
    .run = run,
};
