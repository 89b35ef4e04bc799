// commands/sweep.c -- /sweep: a training run for each value of a setting, as one job.
#include "commands/jobs.h"

static const char *const words[] = { "lr-grid", NULL };

static int sweep_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    return shell_start_job(shell, "sweep", argc, argv, err);
}

const struct command command_sweep = {
    .name = "sweep",
    .usage = "/sweep KEY V1,V2,... DATA OUT [--images DIR] | lr-grid DATA OUT",
    .help = "Trains once for each value of a setting and reports the best.",
    .details =
        "KEY is any setting; its values are separated by commas, or by | where they hold commas\n"
        "themselves: /sweep train.params \"*q_proj*|lora:q_proj,v_proj:8\" train.json runs/params\n"
        "lr-grid is train.lr with 2e-3, 1e-3, 6e-4, 3e-4, 1e-4, 5e-5, 2e-5, 1e-5, 6e-6, 1e-6 and\n"
        "1e-7. Everything else is as for /train: the settings train.*, and a folder OUT/VALUE for\n"
        "each run. Compared is the validation (train.validation, train.score), each run with its\n"
        "best checkpoint; a run that fails, as with a rate that is too high, is noted and the\n"
        "others go on. /job N shows the scores and the best, /plot N loss@1e-3 loss@1e-4 curves "
        "of\n"
        "two values. After a pause or kill -9 /job N resume goes on with the unfinished run.",
    .min = 1,
    .max = -1,
    .needs = NEEDS_STORE,
    .complete = COMPLETE_PATH,
    .words = words,
    .run = sweep_run,
};
