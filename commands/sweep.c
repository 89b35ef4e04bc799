// commands/sweep.c -- /sweep: a training run for each value of a setting, as one job.
#include "commands/jobs.h"
#include "core/train/roles.h"
#include "core/train/sft_options.h"

static int sweep_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    enum method_role role[METHODS_MAX];
    const struct model *m = engine_model(shell->engine);
    if (shell_start_job(shell, "sweep", argc, argv, err) < 0) return -1;
    if (!m || roles_of(role, m, engine_settings(shell->engine), NULL) < 0) return 0;
    // Does not report the roles of learning methods, which the sweep's values may change.
    for (int i = 0; method_at(i); i++)
        if (method_at(i)->learned) role[i] = ROLE_OFF;
    roles_say(role, m, shell->sinks);
    return 0;
}

const struct command command_sweep = {
    .name = "sweep",
    .also = "grid search hyperparameters",
    .usage = "/sweep KEY V1,V2,... DATA OUT [--images DIR] [--resume] | lr-grid DATA OUT",
    .help = "Trains once for each value of a setting and reports the best.",
    .details =
        "KEY is any setting except those that compare the runs (train.validation, train.score, "
        "train.filter) and those of methods that training never applies (/help train). Separate "
        "values with commas, or with | if they contain commas:\n"
        "    /sweep train.params \"*q_proj*|lora:q_proj,v_proj:8\" train.json runs/params\n"
        "lr-grid sweeps the learning rate (train.lr): 2e-3, 1e-3, 6e-4, 3e-4, 1e-4, 5e-5, 2e-5, "
        "1e-5, 6e-6, 1e-6 and 1e-7. Each run trains like /train, in a folder OUT/VALUE. Runs are "
        "compared by validation (train.validation, train.score), each at its best checkpoint; "
        "OUT/best links to the best run. If "
        "a run fails, for instance because the learning rate is too high, the sweep reports it "
        "and continues. /job N shows the scores and the best value; "
        "/plot N loss@1e-3 loss@1e-4 shows the curves of two values. After a pause or kill -9, "
        "/job N resume "
        "continues the unfinished run.",
    .min = 1,
    .options = sweep_rows,
    .writes = true,
    .needs = NEEDS_STORE,
    .complete = COMPLETE_PATH,
    .run = sweep_run,
};
