// tests/toys/others.c -- a probe, a command and a setting.
#include <stdlib.h>
#include <string.h>

#include "core/probes/kit.h"
#include "tests/toys/toys.h"

// --- a probe: which rows pass each layer, as a matrix; words over the picture --------------------

struct count {
    const struct probe_env *env;
    struct results maps;
    double rows;
};

static void *count_start(const struct probe_env *env, struct err *err)
{
    struct count *c = xcalloc(1, sizeof *c);
    c->env = env;
    results_map(&c->maps, "toy.rows", env->model->decoder.config.layers, (int)env->sequence->n);
    return c;
}

static void count_release(void *state)
{
    struct count *c = state;
    results_release(&c->maps);
    free(c);
}

static int count_take(void *state, const struct site *site, const struct site_args *args,
                      struct err *err)
{
    struct count *c = state;
    const struct result_map *m = c->maps.maps;
    for (int64_t i = 0; i < args->x->shape[0]; i++)
        m->values[args->layer * m->cols + site_row(args, i)] = (float)site_visual(args, i);
    c->rows += (double)args->x->shape[0];
    return 0;
}

static int count_finish(void *state, struct results *r, struct err *err)
{
    struct result_table *t = results_table(r, "toy", "what|rows");
    struct count *c = state;
    result_row(t, "all layers")[0] = c->rows;
    struct result_map *m = results_map(r, "toy.rows", c->maps.maps->rows, c->maps.maps->cols);
    memcpy(m->values, c->maps.maps->values, (size_t)(m->rows * m->cols) * sizeof *m->values);
    const int64_t visual = c->env->visual;
    float *values = xcalloc((size_t)visual + 1, sizeof *values);
    const char **words = xcalloc((size_t)visual + 1, sizeof *words);
    for (int64_t i = 0; i < visual; i++) words[i] = i % 2 ? "odd" : NULL, values[i] = (float)i;
    probe_word_maps(c->env, r, "toy.words", -1, -2, -2, values, words);
    free(values);
    free(words);
    return 0;
}

static const struct result_kind count_results[] = {
    { "toy", .unit = "rows" },
    { "toy.rows", .unit = "visual", .map = true, .rows = MAP_LAYERS, .cols = MAP_POSITIONS,
      .high = 2 },
    { "toy.words", .unit = "number", .map = true },
    { 0 },
};

const struct probe probe_toy = {
    .name = "toyprobe",
    .usage = "/toyprobe [--picture I]" PROBE_USAGE,
    .help = "Counts the rows of all layers.",
    .details = "A toy." PROBE_DETAILS,
    .start = count_start,
    .results = count_results,
    .release = count_release,
    .sites = { SITE_LAYER_IN },
    .take = count_take,
    .finish = count_finish,
};

// --- a command -----------------------------------------------------------------------------------

static int toy_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    sinks_notice(shell->sinks, "a toy of size %s",
                 settings_text(engine_settings(shell->engine), "plaything.size"));
    return 0;
}

const struct command command_toy = {
    .name = "toy",
    .usage = "/toy",
    .help = "Says how large the toy is.",
    .run = toy_run,
};

// --- a setting -----------------------------------------------------------------------------------

const struct setting plaything_settings[] = {
    { .key = "plaything.size",
      .type = SETTING_INTEGER,
      .min = 1,
      .max = 9,
      .def = "3",
      .unit = "bricks",
      .stale = STALE_NOTHING,
      .help = "Size of the toy." },
    { 0 },
};
