// tests/toys/others.c -- a probe, a command and a setting.
#include <stdlib.h>

#include "core/probes/probe.h"
#include "tests/toys/toys.h"

// --- a probe: how many rows pass each layer ------------------------------------------------------

static void *count_start(const struct probe_env *env, struct err *err)
{
    return xcalloc(1, sizeof(double));
}

static bool count_wants(void *state, const struct site *site, int layer)
{
    return site == SITE_LAYER_IN;
}

static int count_run(void *state, struct graph *g, const struct site *site, struct site_args *args)
{
    *(double *)state += (double)args->x->shape[0];
    return 0;
}

static int count_finish(void *state, struct results *r, struct err *err)
{
    struct result_table *t = results_table(r, "toy", "what|rows");
    result_row(t, "all layers")[0] = *(const double *)state;
    return 0;
}

const struct probe probe_toy = {
    .name = "toyprobe",
    .usage = "/toyprobe" PROBE_USAGE,
    .help = "Counts the rows of all layers.",
    .details = "A toy." PROBE_DETAILS,
    .start = count_start,
    .release = free,
    .wants = count_wants,
    .run = count_run,
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
