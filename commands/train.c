// commands/train.c -- /train: a training run on a data set, as a job of its own.
#include <stdlib.h>
#include <string.h>

#include "commands/jobs.h"
#include "core/train/params.h"

static const char *const words[] = { "plan", NULL };

// /train plan: how many parameters the settings choose, by part.
static int plan(const struct shell *shell, struct err *err)
{
    static const char *const columns[] = { "part", "trained", "of", "share" };
    static const bool numeric[] = { false, true, true, true };
    const struct model *m = engine_model(shell->engine);
    struct params_count counted[MODEL_PARTS + 1];
    if (params_count(m, engine_settings(shell->engine), counted, err) < 0) return -1;
    struct table_builder t;
    table_begin(&t, "train plan", 4, columns, numeric);
    for (int i = 0; i <= MODEL_PARTS; i++) {
        const struct params_count *c = &counted[i];
        if (!c->total) continue;
        table_add(&t, "%s", i < MODEL_PARTS ? part_name((enum model_part_kind)i) : "all");
        table_add(&t, "%lld", (long long)c->trained);
        table_add(&t, "%lld", (long long)c->total);
        table_add(&t, "%.4g%%", 100 * (double)c->trained / (double)c->total);
    }
    table_emit(&t, shell->sinks);
    return 0;
}

static int train_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    if (argc == 1 && !strcmp(argv[0], "plan"))
        return command_check_needs(shell, NEEDS_MODEL, err) < 0 ? -1 : plan(shell, err);
    return shell_start_job(shell, "train", argc, argv, err);
}

const struct command command_train = {
    .name = "train",
    .usage = "/train DATA OUT [--images DIR] [--resume] | plan",
    .help = "Trains on a data set, as a job beside the shell; /train plan tells which weights.",
    .details =
        "DATA is a file as for /data check, which is done first: samples that are wrong are named\n"
        "in the job's log and left out. OUT is a new folder. It gets the result when the run is\n"
        "done: where the whole language model was trained (train.method all, full) a model folder\n"
        "as on the Hugging Face hub, otherwise what was trained. While the run goes on, its\n"
        "checkpoints lie there (train.save_every), from which it goes on after a pause, a crash "
        "or\n"
        "kill -9, to the same bits: /job N resume.\n"
        "The settings train.* say what and how: /settings train. Loss, rate, length of the\n"
        "gradient and tokens per second of each step, and mean and variance of the gradient of\n"
        "each norm's gain are drawn by /plot.\n"
        "--images DIR   where relative picture paths begin (default: the folder of DATA)\n"
        "--resume       goes on with the unfinished run in OUT (same model, data and settings)",
    .min = 1,
    .max = -1,
    .needs = NEEDS_STORE,
    .complete = COMPLETE_PATH,
    .words = words,
    .run = train_run,
};
