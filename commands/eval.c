// commands/eval.c -- /eval: evaluates the model on a data set and shows scores and answers; starts
// the jobs of --plan and --sets.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/jobs.h"
#include "core/base/csv.h"
#include "core/base/file_out.h"
#include "core/base/tally.h"
#include "core/eval/evaluate_job.h"
#include "sessions/jobs.h"

enum { SHOWN = 20 };

// --- tables --------------------------------------------------------------------------------------

static void show_results(const struct shell *shell, const struct job_result *results, size_t count)
{
    struct table_builder t;
    table_begin(&t, "evaluation", "name|value");
    for (size_t i = 0; i < count; i++) {
        table_row(&t, "%s|%s", results[i].key, results[i].value);
    }
    if (count) table_emit(&t, shell->sinks);
}

// Collects answers as rows of a table (the first SHOWN) or lines of a CSV file (all).
struct answers {
    struct table_builder table;
    FILE *csv;
    bool wrong; // only answers with score 0
    int64_t shown, chosen;
    struct tally scores; // of all answers
};

static void begin_answers(struct answers *a)
{
    table_begin(&a->table, "answers", "number#|id|kind|score#|answer|reference|question");
}

static int add_answer(void *self, const struct event_score *s, struct err *err)
{
    struct answers *a = self;
    tally_add(&a->scores, s->score);
    if (a->wrong && s->score > 0) return 0;
    a->chosen++;
    const char *const texts[] = { s->answer, s->reference, s->prompt };
    if (a->csv) {
        fprintf(a->csv, "%" PRId64 ",", s->index);
        csv_text(a->csv, s->id, ',');
        csv_text(a->csv, s->group, ',');
        fprintf(a->csv, "%.9g,", s->score);
        for (int i = 0; i < 3; i++) csv_text(a->csv, texts[i], i < 2 ? ',' : '\n');
    } else if (a->shown < SHOWN) {
        a->shown++;
        table_row(&a->table, "%" PRId64 "|%s|%s|%.4g|%s|%s|%s", s->index, s->id, s->group, s->score,
                  texts[0], texts[1], texts[2]);
    }
    return 0;
}

static void end_answers(struct answers *a, const struct shell *shell)
{
    if (a->table.count) table_emit(&a->table, shell->sinks);
    if (a->chosen > a->shown)
        sinks_notice(shell->sinks, "and %" PRId64 " more answers (--csv FILE writes all of them)",
                     a->chosen - a->shown);
}

// --- /eval show ----------------------------------------------------------------------------------

struct show_options {
    int64_t job; // -1: the last evaluation
    const char *csv;
    bool wrong;
};

static int take_show_job(void *self, const char *value, struct err *err)
{
    return job_number(value, &((struct show_options *)self)->job, err);
}

static int take_force(void *self, const char *value, struct err *err)
{
    file_out_force(true); // command_execute restores the flag
    return 0;
}

static const struct option_row show_options[] = {
    { "JOB", NULL, NULL, .take = take_show_job, .optional = true },
    { "--wrong", NULL, "only answers that score 0", OPTION_FLAG,
      .at = offsetof(struct show_options, wrong) },
    { "--csv", "FILE", "writes all answers", OPTION_TEXT,
      .at = offsetof(struct show_options, csv) },
    { "--force", NULL, "lets --csv FILE replace a file that vlmsh did not write",
      .take = take_force },
    { 0 },
};

// Shows the totals and answers of an evaluation, or writes the answers to a CSV file.
static int show(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct show_options o = { .job = -1 };
    struct job_row row;
    struct job_result *results;
    size_t count;
    if (options_parse(show_options, &o, argc, argv, err) < 0) return -1;
    if (o.job < 0 && store_job_last_ended(shell->store, "evaluate", &o.job, err) < 0) return -1;
    if (o.job < 0) return err_set(err, "nothing has been evaluated yet: /eval DATA");
    if (store_job_read(shell->store, o.job, &row, err) < 0) return -1;
    int status = 0;
    if (strcmp(row.kind, "evaluate") != 0)
        status = err_set(err, "job %" PRId64 " is not an evaluation (%s): /job %" PRId64, o.job,
                         row.kind, o.job);
    job_row_release(&row);
    if (status < 0 || store_job_results(shell->store, o.job, &results, &count, err) < 0) return -1;

    char *title = o.job == JOB_HERE ? xstrdup("/eval --here") : xasprintf("job %" PRId64, o.job);
    struct answers a = { .wrong = o.wrong };
    const struct metric *m = NULL;
    for (size_t i = 0; i < count; i++)
        if (!strcmp(results[i].key, "metric")) m = metric_find(results[i].value);
    // Only a metric where higher is better has wrong answers: those with score 0.
    if (o.wrong && m && m->smaller)
        status = err_set(
            err, "--wrong does not apply to %s: %s does not score answers as right or wrong", title,
            m->name);
    else if (o.csv && !(a.csv = file_out_open(o.csv, err)))
        status = -1;
    if (status < 0) goto out;
    if (a.csv) {
        fputs("number,id,kind,score,answer,reference,question\n", a.csv);
    } else {
        show_results(shell, results, count);
        if (!count)
            sinks_notice(shell->sinks, "%s has no totals (yet): showing the answers so far", title);
        begin_answers(&a);
    }
    status = store_job_scores(shell->store, o.job, add_answer, &a, err);
    if (a.csv && status < 0) {
        file_out_abandon(a.csv, o.csv);
    } else if (a.csv && (status = file_out_close(a.csv, o.csv, err)) == 0) {
        sinks_written(shell->sinks, "csv", o.csv, NULL);
        sinks_notice(shell->sinks, "'%s': %" PRId64 " answer%s of %s", o.csv, a.chosen,
                     a.chosen == 1 ? "" : "s", title);
    } else if (!a.csv) {
        end_answers(&a, shell);
        if (!count && a.scores.count)
            sinks_notice(shell->sinks, "mean score so far: %.4f over %" PRId64 " question%s",
                         tally_mean(&a.scores), a.scores.count, a.scores.count == 1 ? "" : "s");
    }
out:
    job_results_free(results, count);
    free(title);
    return status;
}

// --- /eval --here --------------------------------------------------------------------------------

struct here {
    struct shell *shell;
    struct answers answers;
    // Scores to store for /eval show:
    struct event_score *scores;
    size_t score_count, capacity;
};

static const char *copy_or_null(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

static void keep_score(struct here *h, const struct event_score *s)
{
    h->scores = xgrow(h->scores, &h->capacity, h->score_count, sizeof *h->scores);
    struct event_score *copy = &h->scores[h->score_count++];
    *copy = *s;
    copy->id = copy_or_null(s->id);
    copy->prompt = copy_or_null(s->prompt);
    copy->answer = copy_or_null(s->answer);
    copy->reference = copy_or_null(s->reference);
    copy->group = copy_or_null(s->group && *s->group ? s->group : NULL);
}

static void here_release(struct here *h)
{
    for (size_t i = 0; i < h->score_count; i++) {
        const struct event_score *s = &h->scores[i];
        const char *const texts[] = { s->id, s->prompt, s->answer, s->reference, s->group };
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) free((char *)(uintptr_t)texts[k]);
    }
    free(h->scores);
}

static void report(struct evaluate_work *w, const struct evaluated *e)
{
    struct here *h = w->self;
    const struct event_score score = { .index = w->grid->number,
                                       .id = e->id,
                                       .prompt = e->prompt,
                                       .answer = *e->answer ? e->answer : e->found,
                                       .reference = e->reference,
                                       .group = e->kind,
                                       .score = e->score };
    if (!e->metric || e->skipped) return;
    add_answer(&h->answers, &score, NULL);
    keep_score(h, &score);
}

// If there is a database, stores the evaluation like the results of a job, for /eval show.
static void keep_here(const struct here *h, const struct job_results *results, enum job_state state,
                      int argc, char **argv)
{
    const struct shell *shell = h->shell;
    struct err err;
    if (!shell->store) return;
    const int identified = engine_identify(shell->engine, &err);
    const struct job_spec spec = shell_job_spec(shell, "evaluate", argc, argv);
    if (identified < 0 || store_job_keep(shell->store, &spec, state, results->list, results->count,
                                         h->scores, h->score_count, &err) < 0)
        sinks_notice(shell->sinks, "cannot save this evaluation for /eval show: %s", err.text);
}

// Takes ownership of *o.
static int evaluate_here(struct shell *shell, struct evaluate_options *o, int argc, char **argv,
                         struct err *err)
{
    struct here h = { .shell = shell };
    struct evaluate_work w = { .options = *o, .report = report, .self = &h, .data.file = -1 };
    if (command_check_needs(shell, NEEDS_MODEL, err) < 0) return -1;
    struct grid g = grid_of_engine(shell->engine);
    *o = (struct evaluate_options){ 0 };
    g.self = &w;
    grid_add(&g, NULL, settings_copy(engine_settings(shell->engine)))->set = w.options.set;
    begin_answers(&h.answers);
    int status = grid_run(&g, &evaluate_plan, err);
    if (status >= 0) {
        const struct evaluation *e = &w.result;
        struct job_results results = { 0 };
        evaluate_options_report(&w.options, engine_settings(shell->engine), &results);
        if (e->total_count) evaluate_work_report(&w, engine_settings(shell->engine), &results);
        // Shows the evaluation's options only if there are scores.
        const size_t from = e->total_count ? 0 : results.count;
        evaluation_report(e, &results);
        show_results(shell, results.list + from, results.count - from);
        end_answers(&h.answers, shell);
        keep_here(&h, &results, e->cancelled ? STATE_CANCELLED : STATE_DONE, argc, argv);
        struct err why;
        const int expected = evaluate_expect(&w.options, &results, &why);
        job_results_free(results.list, results.count);
        if (e->cancelled) status = err_set(err, "stopped after %" PRId64 " samples", e->samples);
        if (status == 0) status = evaluate_work_submit(&w, err);
        if (status == 0 && w.options.predictions)
            sinks_written(shell->sinks, "predictions", w.options.predictions_file, "predictions");
        if (status == 0 && expected < 0) status = err_set(err, "%s", why.text);
    }
    here_release(&h);
    evaluate_work_release(&w);
    grid_release(&g);
    return status;
}

// --- the command ---------------------------------------------------------------------------------

static int eval_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    for (int i = 0; i < argc; i++)
        if (!strncmp(argv[i], "--plan", 6) || !strncmp(argv[i], "--sets", 6))
            return command_check_needs(shell, NEEDS_STORE, err) < 0
                       ? -1
                       : shell_start_job(shell, "scores", argc, argv, err);
    struct evaluate_options o = { 0 };
    char **words = xreallocarray(NULL, (size_t)argc + 1, sizeof *words);
    char **plain = xreallocarray(NULL, (size_t)argc + 1, sizeof *plain);
    int kept = 0;
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--here") != 0) words[kept++] = argv[i];
    const bool here = kept < argc;
    argc = kept;
    memcpy(plain, words, (size_t)argc * sizeof *plain);
    struct job_where where;
    int count = argc;
    int status = shell_take_where(job_kind_find("evaluate"), &count, plain, &where, err);
    if (status == 0) status = evaluate_options_read(&o, count, plain, err);
    if (status == 0 && here && count < argc)
        status = err_set(err, "--here evaluates in this process: leave out %s",
                         where.ranks ? "--ranks" : "--sbatch and --submit");
    if (status == 0 && here)
        status = evaluate_here(shell, &o, count, plain, err);
    else if (status == 0 && (status = command_check_needs(shell, NEEDS_STORE, err)) == 0) {
        if (o.force) file_out_force(true); // for --sbatch; command_execute restores the flag
        status = shell_start_job(shell, "evaluate", argc, words, err);
    }
    free(plain);
    evaluate_options_release(&o);
    free(words);
    return status;
}

static const struct command_action actions[] = {
    { "show", "[JOB]",
      "shows totals and answers of the latest evaluation (job or --here), or of "
      "JOB",
      0, -1, NEEDS_STORE, show, show_options },
    { 0 },
};

const struct command command_eval = {
    .name = "eval",
    .also = "benchmark score accuracy test",
    .usage = "/eval " EVALUATE_USAGE " [--here] | --plan FILE OUT | --sets DIR "
             "OUT [--settings \"A | B\"] [--limit N] | show [JOB] [--csv FILE [--force]] [--wrong]",
    .help = "Evaluates the model on a data set, as a job.",
    .details =
        "DATA is in a format that /data check accepts or, with --set, an evaluation set as "
        "downloaded. Asks every question that has a reference answer, after the sample's earlier "
        "questions and their reference answers. Decodes greedily, with the current settings, "
        "including methods. The "
        "reference is the answer in DATA that follows the question; for a sample's last "
        "question, the sample's \"answer\", \"answers\", \"references\", \"captions\" or "
        "\"label\" takes precedence. `/eval show` prints totals and answers of a job. 95% "
        "intervals are Wilson intervals for shares, and mean +- 1.96 standard errors otherwise.",
    .options = evaluate_rows,
    .min = 1,
    .complete = COMPLETE_WORDS,
    .actions = actions,
    .run = eval_run,
};
