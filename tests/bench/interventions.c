// tests/bench/interventions.c -- whole maps of interventions beside the sum of their suffix passes:
// the same rows and layers, computed by passes without a change, in the same run. A map should cost
// at most 1.2 times as much (core/probes/passes.h). A map begins with one or two runs over all
// rows, which matter only if few passes follow. Times are CPU seconds of all threads, which other
// programs on the machine disturb less than the clock.
//
//   build/opt/tests/bench/interventions MODEL [PICTURE [ROUNDS]]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/engine/engine.h"
#include "core/lists.h"
#include "core/model/model.h"
#include "core/probes/kit.h"
#include "core/probes/measure_data.h"
#include "core/probes/passes.h"
#include "core/probes/results.h"
#include "core/settings/settings.h"
#include "kernels/backend.h"
#include "tests/bench/must.h"

enum { ROUNDS_MOST = 15 };

// The suffix passes of a map, in its order: rows from `from` on, layers from `layer` on.
struct suffix {
    int64_t from;
    int layer;
};

static struct suffix *suffixes; // of the map that is measured
static size_t suffix_count;
static double plain_seconds, whole_seconds; // of the suffix passes; of one pass over all rows

static void add(int64_t from, int layer)
{
    suffixes = xreallocarray(suffixes, suffix_count + 1, sizeof *suffixes);
    suffixes[suffix_count++] = (struct suffix){ from, layer };
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// --- the passes without a change -----------------------------------------------------------------

static void *plain_start(const struct probe_env *env, struct err *err)
{
    return (void *)(uintptr_t)env;
}

static void plain_release(void *state)
{
}

static int plain_passes(void *state, struct passing *p, struct err *err)
{
    const struct probe_env *env = state;
    double *logp = xcalloc((size_t)(env->sequence->n - env->sequence->prompt) + 1, sizeof *logp);
    int64_t least = suffixes[0].from;
    for (size_t i = 0; i < suffix_count; i++)
        if (suffixes[i].from < least) least = suffixes[i].from;
    passes_keep(p);
    double start = cpu_seconds();
    int status = passes_run(p, NULL, least, logp, err);
    whole_seconds = cpu_seconds() - start;
    start = cpu_seconds();
    for (size_t i = 0; i < suffix_count && status == 0; i++)
        status = passes_run_layers(p, NULL, suffixes[i].from, suffixes[i].layer, logp, err);
    plain_seconds = cpu_seconds() - start;
    free(logp);
    return status;
}

static int plain_finish(void *state, struct results *r, struct err *err)
{
    return 0;
}

static const struct probe probe_plain = { .name = "plain",
                                          .answer = true,
                                          .start = plain_start,
                                          .release = plain_release,
                                          .passes = plain_passes,
                                          .finish = plain_finish };

// --- maps ----------------------------------------------------------------------------------------

static double measure_seconds(struct engine *e, const struct probe *probe,
                              const struct probe_options *o)
{
    struct err err = { 0 };
    struct results r = { 0 };
    const struct measure_request request = { .probe = probe, .options = *o };
    const double start = cpu_seconds();
    must(engine_measure(e, &request, &r, &err), &err);
    const double seconds = cpu_seconds() - start;
    results_release(&r);
    return seconds;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Measures a map and its suffix passes in turn; prints the medians. `runs`: passes over all rows
// with which the map begins.
static void compare(struct engine *e, const char *name, const struct probe *probe,
                    const struct probe_options *o, int runs, int rounds)
{
    double map[ROUNDS_MOST] = { 0 }, plain[ROUNDS_MOST] = { 0 }, ratio[ROUNDS_MOST] = { 0 };
    double rest[ROUNDS_MOST] = { 0 };
    for (int i = 0; i < rounds; i++) {
        map[i] = measure_seconds(e, probe, o);
        measure_seconds(e, &probe_plain, &probe_defaults);
        plain[i] = plain_seconds;
        ratio[i] = map[i] / plain[i];
        rest[i] = (map[i] - runs * whole_seconds) / plain[i];
    }
    qsort(map, (size_t)rounds, sizeof *map, by_size);
    qsort(plain, (size_t)rounds, sizeof *plain, by_size);
    qsort(ratio, (size_t)rounds, sizeof *ratio, by_size);
    qsort(rest, (size_t)rounds, sizeof *rest, by_size);
    printf("| %s | %zu | %.2f s | %.2f s | %.2f | %d | %.2f |\n", name, suffix_count,
           map[rounds / 2], plain[rounds / 2], ratio[rounds / 2], runs, rest[rounds / 2]);
    fflush(stdout);
    suffix_count = 0;
}

// Sets the first of the positions that `words` name; returns the last one.
static int64_t positions(struct engine *e, const char *words, int64_t *first)
{
    struct err err = { 0 };
    struct ids found = { 0 };
    struct measure_request request = { .options = probe_defaults };
    request.options.words = words;
    must(engine_positions(e, &request, &found, &err), &err);
    const int64_t last = found.data[found.count - 1];
    *first = found.data[0];
    ids_release(&found);
    return last;
}

static void groups(struct engine *e, const char *at, const char *name, int rounds)
{
    const int layers = engine_model(e)->decoder.config.layers;
    struct probe_options o = probe_defaults;
    int64_t picture, question, answer;
    const int64_t end = positions(e, "picture", &picture) + 1;
    positions(e, "question", &question);
    positions(e, "answer", &answer);
    // In the order of core/interventions/patch.c: last, answer, question, other, picture, all.
    const int64_t first[] = { answer,  answer, question, question > end ? end : question,
                              picture, picture };
    for (size_t g = 0; g < sizeof first / sizeof *first; g++)
        for (int l = 0; l < layers; l++) add(first[g], l);
    o.words = "noise";
    o.at = at;
    compare(e, name, &probe_patch, &o, 2, rounds);
}

// The heads of every second layer of the last quarter, or with `all` of all layers.
static void heads(struct engine *e, bool all, int rounds)
{
    const struct decoder_config *c = &engine_model(e)->decoder.config;
    struct probe_options o = probe_defaults;
    struct buf list = { 0 };
    int64_t picture;
    positions(e, "picture", &picture);
    for (int l = all ? 0 : c->layers * 3 / 4; l < c->layers; l += all ? 1 : 2) {
        for (int64_t h = 0; h < c->heads; h++) add(picture, l);
        buf_printf(&list, "%s%d", list.length ? "," : "", l);
    }
    char *name = all ? xasprintf("`/patch noise --at head`")
                     : xasprintf("`/patch noise --at head --layers %s`", list.data);
    o.words = "noise", o.at = "head", o.layers = all ? NULL : list.data;
    compare(e, name, &probe_patch, &o, 2, rounds);
    buf_release(&list);
    free(name);
}

static void tokens(struct engine *e, int rounds)
{
    struct probe_options o = probe_defaults;
    int64_t picture, end = positions(e, "picture", &picture);
    char words[64];
    if (end > picture + 47) end = picture + 47;
    for (int64_t i = end; i >= picture; i--) add(i + 1, 0);
    snprintf(words, sizeof words, "tokens %lld-%lld", (long long)picture, (long long)end);
    o.words = words;
    compare(e, "`/ablate tokens`, 48 visual tokens", &probe_ablate, &o, 1, rounds);
    // Rows of text and of the answer: passes of few rows, in which reading the weights takes most
    // of the time.
    int64_t question;
    positions(e, "question", &question);
    int64_t answer;
    const int64_t last = positions(e, "answer", &answer);
    for (int64_t i = last; i >= question; i--) add(i + 1, 0);
    snprintf(words, sizeof words, "tokens %lld-%lld", (long long)question, (long long)last);
    compare(e, "`/ablate tokens question,answer`", &probe_ablate, &o, 1, rounds);
}

int main(int argc, char **argv)
{
    struct err err = { 0 };
    if (argc < 2) {
        fprintf(stderr, "usage: interventions MODEL [PICTURE [ROUNDS]]\n");
        return 1;
    }
    const char *picture = argc > 2 ? argv[2] : "tests/goldens/pictures/scene.png";
    int rounds = argc > 3 ? atoi(argv[3]) : 3;
    if (rounds < 1 || rounds > ROUNDS_MOST) rounds = 3;
    lists_register();
    struct sinks none = { 0 };
    struct engine *e = engine_new(NULL, &none);
    must(engine_load(e, argv[1], &err), &err);
    must(engine_set(e, "sample.max_tokens", "8", &err), &err);
    must(engine_attach(e, picture, &err), &err);
    must(engine_ask(e, "Which colours do the objects in the picture have?", &err), &err);
    int64_t first;
    const int64_t rows = positions(e, "all", &first) + 1;
    printf("## Interventions\n\n%s, %lld rows; medians of %d rounds\n\n| map | suffix passes | "
           "whole map | its suffix passes | ratio | full runs in it | ratio without them "
           "|\n|---|---|---|---|---|---|---|\n",
           argv[1], (long long)rows, rounds);
    groups(e, "residual", "`/patch noise`", rounds);
    groups(e, "ffn", "`/patch noise --at ffn`", rounds);
    heads(e, false, rounds);
    // Only of small models: for a large one, the map of all heads takes minutes.
    if (engine_model(e)->decoder.config.hidden <= 1024) heads(e, true, rounds);
    tokens(e, rounds);
    engine_free(e);
    free(suffixes);
    return 0;
}
