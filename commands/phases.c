// commands/phases.c -- /phases: the early, transition and late layers of the model.
#include "core/methods/phases.h"
#include "commands/command.h"

static int phases_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct engine *e = shell->engine;
    struct table_builder t;
    int phase[PHASES];
    const char *source;
    if (phases_of(engine_settings(e), engine_model(e), phase, &source, err) < 0) return -1;
    table_begin(&t, "phases", "phase|layer#|from");
    for (int i = 0; i < PHASES; i++) table_row(&t, "%s|%d|%s", phase_names[i], phase[i], source);
    table_emit(&t, shell->sinks);
    return 0;
}

const struct command command_phases = {
    .name = "phases",
    .also = "layers capa transition",
    .usage = "/phases",
    .help = "Shows the layers at which the role of pictures changes: early, transition and late.",
    .details = "Takes them from phases.calibration if it is set (/calibrate phases finds them in a "
               "data set), otherwise from the CAPA paper if it gives them for the model; otherwise "
               "they are at 1/8, 3/8 and 5/8 of the depth. `prune.layer auto` selects the "
               "transition layer.",
    .needs = NEEDS_MODEL,
    .run = phases_run,
};
