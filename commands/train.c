// commands/train.c -- /train: a training run on a data set, as a job; /train plan: the trained
// parameters and a memory forecast.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/jobs.h"
#include "core/base/clock.h"
#include "core/engine/device.h"
#include "core/train/forecast.h"
#include "core/train/select.h"
#include "core/train/sft_options.h"

// --- /train plan ---------------------------------------------------------------------------------

struct plan_options {
    const char *data, *shape, *method, *images;
    int64_t rows, ranks;
    bool all;
};

static const struct option_row plan_rows[] = {
    { "DATA", NULL, NULL, OPTION_TEXT, .at = offsetof(struct plan_options, data),
      .optional = true },
    { "--like", "SHAPE",
      "plans for a published shape (/new) instead of the loaded model, without reading weights; "
      "weights.dtype sets the type that the forecast assumes",
      OPTION_TEXT, .at = offsetof(struct plan_options, shape) },
    { "--method", "M", "plans for another train.method", OPTION_TEXT,
      .at = offsetof(struct plan_options, method) },
    { "--all", NULL, "plans for all methods, one row each", OPTION_FLAG,
      .at = offsetof(struct plan_options, all) },
    { "--rows", "N", "plans for samples of N tokens, visual tokens included", OPTION_WHOLE,
      .at = offsetof(struct plan_options, rows), 2, 1000000 },
    { "--ranks", "N", "forecasts the memory of the largest of N processes", OPTION_WHOLE,
      .at = offsetof(struct plan_options, ranks), 1, 4096 },
    { "--images", "DIR", NULL, OPTION_TEXT, .at = offsetof(struct plan_options, images) },
    { 0 },
};

// The subject of a plan: the loaded model or a shape, and settings with the requested method.
struct plan {
    const struct plan_options *o;
    struct shell *shell;
    struct settings *settings;
};

static int forecast(const struct plan *p, struct forecast *f, struct err *err)
{
    const struct plan_options *o = p->o;
    const struct model *m = engine_model(p->shell->engine);
    const struct backend *where = engine_backend(p->shell->engine);
    if (o->shape) return forecast_shape(f, o->shape, p->settings, o->rows, where, err);
    if (o->data) return forecast_data(f, m, p->settings, o->data, o->images, err);
    return forecast_model(f, m, p->settings, o->rows, err);
}

static void add_counts(struct table_builder *t, const struct params_count *c)
{
    table_row(t, "%lld|%lld|%.4g%%", (long long)c->trained, (long long)c->total,
              c->total ? 100 * (double)c->trained / (double)c->total : 0);
}

// Shows the trained parameters by part of the model.
static void show_counts(const struct plan *p, const struct forecast *f)
{
    struct table_builder t;
    table_begin(&t, "train plan", "part|trained#|of#|share#");
    for (int i = 0; i <= MODEL_PARTS; i++) {
        if (!f->count[i].total) continue;
        table_add(&t, "%s", i < MODEL_PARTS ? part_name((enum model_part_kind)i) : "all");
        add_counts(&t, &f->count[i]);
    }
    table_emit(&t, p->shell->sinks);
}

static void show_memory(const struct plan *p, const struct forecast *f)
{
    struct table_builder t;
    table_begin(&t, "train memory", "memory|MB#");
    for (int i = MEMORY_WEIGHTS; i < MEMORY_PARTS; i++) {
        if (!f->parts.of[i]) continue;
        table_row(&t, "%s|%.1f", memory_part_name(i), (double)f->parts.of[i] / 1e6);
    }
    table_row(&t, "all|%.1f", (double)memory_own(&f->parts) / 1e6);
    table_row(&t, "not counted: mapped weights|%.1f", (double)f->parts.of[MEMORY_MAPPED] / 1e6);
    if (f->parts.of[MEMORY_HOST]) {
        table_row(&t, "not counted: host memory|%.1f", (double)f->parts.of[MEMORY_HOST] / 1e6);
    }
    table_emit(&t, p->shell->sinks);
    const uint64_t most = memory_free(engine_backend(p->shell->engine));
    sinks_notice(
        p->shell->sinks,
        "micro-batches of %lld samples, %lld rows, matrix products in %s; %.0f MB are free here",
        (long long)f->samples, (long long)f->rows, f->arithmetic, (double)most / 1e6);
    if (f->picture_width)
        sinks_notice(p->shell->sinks,
                     "assumes a picture of about %lld x %lld pixels per sample; give DATA to count "
                     "the pictures of a data set",
                     (long long)f->picture_width, (long long)f->picture_height);
}

// Shows the adapter and methods of the planned run.
static void show_roles(const struct plan *p, const struct forecast *f)
{
    char *acting = roles_text(f->role);
    const char *adapter = settings_text(p->settings, "adapter");
    if (strcmp(adapter, "none") != 0)
        sinks_notice(p->shell->sinks, "continues from the adapter '%s'", adapter);
    sinks_notice(p->shell->sinks, "methods in training: %s", acting ? acting : "none");
    free(acting);
    if (!p->o->shape) roles_say(f->role, engine_model(p->shell->engine), p->shell->sinks);
}

// Shows one row per training method.
static int show_all(struct plan *p, struct err *err)
{
    struct table_builder t;
    const char *name;
    int status = 0;
    settings_reset(p->settings, "train.params");
    table_begin(&t, "train methods",
                "method|trained#|of#|share#|MB#|of trained#|of the pass#|with weights#");
    for (int i = 0; status == 0 && (name = select_method_name(i)); i++) {
        struct forecast f = { 0 };
        status = settings_set(p->settings, "train.method", name, err);
        if (status == 0) status = forecast(p, &f, err);
        if (status < 0) break;
        const uint64_t *of = f.parts.of;
        table_add(&t, "%s", name);
        add_counts(&t, &f.count[MODEL_PARTS]);
        table_row(&t, "%.1f|%.1f|%.1f", (double)memory_own(&f.parts) / 1e6,
                  (double)(of[MEMORY_MASTERS] + of[MEMORY_GRADIENTS] + of[MEMORY_OPTIMIZER]) / 1e6,
                  (double)(of[MEMORY_ACTIVATIONS] + of[MEMORY_WORKSPACE]) / 1e6);
        // A device with separate memory holds copies of the mapped weights, which memory_own
        // counts.
        const bool copied = device_has_memory(engine_backend(p->shell->engine));
        table_add(&t, "%.1f",
                  (double)(memory_own(&f.parts) + (copied ? 0 : of[MEMORY_MAPPED])) / 1e6);
    }
    table_emit(&t, p->shell->sinks);
    return status;
}

static int plan_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct plan_options o = { 0 };
    if (options_parse(plan_rows, &o, argc, argv, err) < 0) return -1;
    if (o.shape && o.data)
        return err_set(err, "a shape has no tokenizer to count DATA with: use --rows N");
    if (!o.shape && command_check_needs(shell, NEEDS_MODEL, err) < 0) return -1;
    struct plan p = { &o, shell, settings_copy(engine_settings(shell->engine)) };
    int status = o.method ? settings_set(p.settings, "train.method", o.method, err) : 0;
    if (status == 0 && o.ranks) {
        char *ranks = xasprintf("%" PRId64, o.ranks);
        status = settings_set(p.settings, "job.ranks", ranks, err);
        free(ranks);
    }
    if (o.method) settings_reset(p.settings, "train.params");
    if (o.shape) settings_reset(p.settings, "adapter"); // the adapter belongs to the loaded model
    struct forecast f;
    if (status == 0) status = o.all ? show_all(&p, err) : forecast(&p, &f, err);
    if (status == 0 && !o.all) {
        show_counts(&p, &f);
        show_memory(&p, &f);
        show_roles(&p, &f);
    }
    settings_free(p.settings);
    return status;
}

// --- /train --------------------------------------------------------------------------------------

static int train_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    if (command_check_needs(shell, NEEDS_STORE, err) < 0) return -1;
    if (shell_start_job(shell, "train", argc, argv, err) < 0) return -1;
    enum method_role role[METHODS_MAX];
    const struct model *m = engine_model(shell->engine);
    if (m && roles_of(role, m, engine_settings(shell->engine), NULL) == 0)
        roles_say(role, m, shell->sinks);
    return 0;
}

static const struct command_action actions[] = {
    { "plan", "[DATA]",
      "counts the trained parameters and forecasts memory with a dry run of the largest step: "
      "with the longest samples of DATA (default: samples of one picture and 256 more tokens). "
      "Frozen weights stay memory-mapped and are listed separately (with --all, the column MB "
      "excludes them, the last column includes them). /job N shows the forecast next to the "
      "memory used",
      0, -1, .run = plan_run, .options = plan_rows },
    { 0 },
};

const struct command command_train = {
    .name = "train",
    .also = "finetune fine-tune lora sft learn",
    .usage = "/train DATA OUT [--images DIR] [--resume] [--ranks N] [--sbatch FILE] [--submit] | "
             "plan [DATA] [--like SHAPE] [--method M] [--all] [--rows N] [--ranks N]",
    .help = "Trains on a data set, as a background job; /train plan forecasts memory.",
    .details =
        "DATA is a file that /data check accepts. The job checks it first, lists invalid samples "
        "in its log and skips them. OUT is a new folder for the result: a model folder in "
        "Hugging Face format if the whole language model was trained (train.method all, full), "
        "otherwise an adapter. The settings train.* control the run (/settings train).\n"
        "    /set train.method lora\n"
        "    /train data.json run1\n"
        "    /compare adapter=none | adapter=run1 What is in the picture?\n"
        "\n"
        "During the run, OUT holds checkpoints (train.save_every). After a pause, a crash or "
        "kill -9, /job N resume continues from the last checkpoint with bit-identical results. "
        "Checkpoints that train.keep keeps can also be loaded: /adapter load OUT/checkpoint-40, "
        "or /load. /plot draws loss, learning rate, gradient norm and tokens per second of each "
        "step and, for each norm's gain, the mean and variance of its gradient.\n"
        "\n"
        "norm.align on applies norm alignment in training, and trains it if the projector is "
        "trained or train.params selects norm_align.*. train.ira on applies and trains IRA. "
        "train.prune on applies pruning; FFN approximation is never applied. The plan, the log and "
        "OUT/training.json list the applied methods; a notice names a method that is on but will "
        "not be applied or trained.\n"
        "--ranks N      trains in N processes (job.ranks)\n"
        "--sbatch FILE  writes a script for a Slurm queue (job.nodes, job.ranks, job.gpus,\n"
        "               job.time, job.partition, job.sbatch) instead of starting a process\n"
        "--submit       submits the script to Slurm\n"
        "All jobs except /compare also take --sbatch and --submit; of these, all except /checkup "
        "also take --ranks.",
    .options = sft_rows,
    .min = 1,
    .writes = true,
    .complete = COMPLETE_PATH,
    .actions = actions,
    .run = train_run,
};
