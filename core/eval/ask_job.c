// core/eval/ask_job.c -- the job `ask`: answers every question of a data file.
//
// The lines of --out are its state: a resumed job skips the samples that have a line.
#include "core/eval/ask.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/adapter/provenance.h"
#include "core/base/text.h"
#include "core/data/dataset.h"
#include "core/engine/engine.h"
#include "core/eval/grid.h"
#include "core/jobs/job.h"
#include "core/jobs/job_data.h"
#include "core/model/model.h"
#include "core/settings/changes.h"

// --- arguments -----------------------------------------------------------------------------------

#define AT(field) .at = offsetof(struct ask_options, field)
const struct option_row ask_rows[] = {
    { "--data", "FILE",
      "JSON list or JSON lines; a sample is {\"id\", \"image\", \"question\"}, {\"id\", \"image\", "
      "\"conversations\": [{\"from\", \"value\"}]} or {\"messages\"}",
      OPTION_TEXT, AT(set.data) },
    { "--each", "PATTERN",
      "asks QUESTION about every picture in a folder, or about every file that matches a pattern, "
      "such as pics/*.png; writes the questions to OUT.questions.jsonl, with the paths as ids",
      .type = OPTION_CALL },
    { "--out", "FILE",
      "one JSON line per sample: id, question, answer, ids, tokens, times (or the error), "
      "SHA-256 of the pictures, model, adapter and settings. Skips samples already in FILE: "
      "repeat an interrupted command with the same model, adapter and settings to continue. If a "
      "setting changes during the run, the run stops with an error",
      OPTION_TEXT, AT(out) },
    { "--again", NULL, "answers all samples again; the new answers replace FILE once all are done",
      OPTION_FLAG, AT(again) },
    { "--images", "DIR", "base folder for relative picture paths (default: the folder of the data)",
      OPTION_TEXT, AT(set.images) },
    { "--limit", "N", "stops after N new samples", OPTION_WHOLE, AT(limit), 1, INT64_MAX },
    { "--system", "TEXT", "system message of samples without one (default: the current one)",
      OPTION_TEXT, AT(system) },
    { "--job", NULL,
      "answers in the background, as a job; without --out, writes questions.answers.jsonl for "
      "questions.json, in the current folder",
      .type = OPTION_CALL },
    JOB_OPTIONS,
    { 0 },
};
#undef AT

bool ask_is_option(const char *word)
{
    for (const struct option_row *row = ask_rows; row->name; row++)
        if (!strcmp(word, row->name)) return true;
    return false;
}

int ask_options_read(struct ask_options *o, int argc, char **argv, struct err *err)
{
    *o = (struct ask_options){ 0 };
    if (options_parse(ask_rows, o, argc, argv, err) < 0)
        return err_in(err, "/ask (put a text that begins with '--' in double quotes)");
    if (!o->set.data || !o->out) return err_set(err, "usage: /ask " ASK_USAGE);
    if (!text_ends(o->out, ".csv")) return 0;
    return err_set(err, "--out %s: the answers are JSON lines: choose a name that ends with .jsonl",
                   o->out);
}

// In the shell, before the job exists: reports an unreadable data set at once.
static int check(int argc, char **argv, const struct settings *settings, const struct model *model,
                 struct err *err)
{
    struct ask_options o;
    if (ask_options_read(&o, argc, argv, err) < 0) return -1;
    return set_source_check(&o.set, err);
}

// Pins the date: a job that is resumed on another day, or whose ranks start before and after
// midnight, must use one date.
static void settle(struct settings *s, const struct model *model)
{
    struct prompt_options o;
    if (!model || model_prompt(model, s, true, &o, NULL) < 0 || !prompt_dated(&o)) return;
    char *date = prompt_date(&o);
    settings_set(s, "chat.date", date, NULL);
    free(date);
}

// --- the job -------------------------------------------------------------------------------------

struct watch {
    struct job *job;
    struct engine *engine;
};

// Called before each token.
static void between(void *self)
{
    const struct watch *w = self;
    job_yield(w->job);
    if (atomic_load(&w->job->cancel)) engine_cancel(w->engine);
}

static int run(struct job *j, struct err *err)
{
    struct ask_work w = { 0 };
    struct sinks sinks = { 0 }; // none: answers go to the file
    struct change *changes = NULL;
    const struct setting *row;
    size_t count = 0;
    if (ask_options_read(&w.options, j->argc, j->argv, err) < 0) return -1;
    if (job_data_same(j->ranks, w.options.set.data, NULL, err) < 0) return -1;

    // An engine with the job's model and settings.
    struct engine *e = engine_new(j->backend, &sinks);
    struct watch watch = { j, e };
    job_watch(j); // cancels reading of files; the engine's flag is set between tokens only
    engine_adopt(e, j->model);
    j->model = NULL; // the engine owns it
    engine_between(e, between, &watch);
    for (int i = 0; (row = settings_row(i)); i++) {
        if (!settings_changed(j->settings, row->key)) continue;
        changes = xreallocarray(changes, count + 1, sizeof *changes);
        changes[count++] = (struct change){ row->key, settings_text(j->settings, row->key) };
    }
    int status = engine_set_all(e, changes, count, err);
    free(changes);

    struct grid g = grid_of_engine(e);
    g.job = j;
    g.sinks = j->sinks;
    g.self = &w;
    grid_add(&g, NULL, settings_copy(j->settings))->set = w.options.set;
    if (status == 0) status = grid_run(&g, &ask_plan, err);
    if (status == 0) {
        char *text = ask_report_text(&w.report, w.options.out);
        char *beside = ask_temporary(w.options.out);
        job_log(j, "%s", text);
        job_result(j, "answers", "%s", text);
        if (w.report.waits) job_result(j, "incomplete", "the new answers are in '%s'", beside);
        free(beside);
        free(text);
    }
    ask_report_release(&w.report);
    grid_release(&g);
    engine_free(e);
    return status;
}

static char *outcome(const struct job_end *end)
{
    const char *text = job_end_value(end, "answers");
    return text ? xstrdup(text) : NULL;
}

const struct job_kind job_kind_ask = {
    .name = "ask",
    .needs_model = true,
    .in_ranks = true,
    .in_layers = true,
    .settle = settle,
    .check = check,
    .run = run,
    .outcome = outcome,
};
