// core/eval/evaluate_job.c -- the job `evaluate`: its arguments, scores and results.
//
// Reports every question once it is scored (EVENT_SCORE). STATE/scores.jsonl has a line for each
// question, scored or skipped, from which a resumed job restores its totals. The job asks the last
// sample of the file again and replaces its lines, because some may be missing.
#include "core/eval/evaluate_job.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapters.h"
#include "core/adapter/provenance.h"
#include "core/base/file_out.h"
#include "core/base/text.h"
#include "core/engine/engine.h"
#include "core/eval/answer_file.h"
#include "core/eval/evaluate_parts.h"
#include "core/files/checkpoint.h"
#include "core/jobs/identity.h"
#include "core/jobs/job.h"
#include "core/jobs/job_data.h"
#include "core/jobs/memory.h"
#include "core/sets/set.h"
#include "core/sets/submit.h"
#include "core/stages/stages.h"
#include "core/talk/batch.h"

// --- arguments -----------------------------------------------------------------------------------

int evaluate_take_metric(void *self, const char *value, struct err *err)
{
    return (((struct evaluate_options *)self)->metric = metric_need(value, err)) ? 0 : -1;
}

static int take_thinking(void *self, const char *value, struct err *err)
{
    const bool keep = !strcmp(value, "keep");
    ((struct evaluate_options *)self)->thinking = keep ? THINKING_KEEP : THINKING_STRIP;
    if (keep || !strcmp(value, "strip")) return 0;
    return err_set(err,
                   "--thinking takes keep or strip, not '%s'; by default, each rule scores the "
                   "part of the answer that its suite would score",
                   value);
}

static int refuse_settings(void *self, const char *value, struct err *err)
{
    return err_set(err, "--settings needs several sets: --sets DIR OUT --settings \"%s\"", value);
}

#define AT(field) .at = offsetof(struct evaluate_options, field)
const struct option_row evaluate_rows[] = {
    { "DATA", NULL, "the data set", OPTION_TEXT, AT(set.data) },
    EVALUATE_DATA_OPTIONS,
    { "--submit", "FILE",
      "writes the answers in the format of the set's server (--set vqav2: JSON; mmbench: a table; "
      "others: LLaVA's JSON lines). Without FILE, submits the job to Slurm, as for other jobs",
      OPTION_TEXT, AT(submit) },
    { "--export-predictions", "SUITE[:FILE]",
      "writes the unprocessed answers as input for the suite's own program: vlmevalkit (a TSV "
      "table for evaluate()) or lmms-eval (a log for its model from_log). FILE: default "
      "predictions-SET-SUITE.tsv or .json",
      OPTION_TEXT, AT(predictions) },
    { "--force", NULL, "lets --submit, --csv and --sbatch replace a file that vlmsh did not write",
      OPTION_FLAG, AT(force) },
    { "--kind", "K,...", "only samples whose \"kind\" (or \"type\", \"category\") is one of these",
      OPTION_NAMES, AT(kinds) },
    { "--answers", "FILE",
      "scores the answers in a file instead of asking the model: JSON lines or a list with "
      "\"question_id\" and \"text\", as --submit, LLaVA and VQAv2 write them; \"prompt\" "
      "distinguishes questions with the same id",
      OPTION_TEXT, AT(answers) },
    { "--thinking", "keep|strip",
      "keep: scores answers with their thinking; strip: removes the thinking (<think>) and takes "
      "the text of <answer> or \\boxed{} (default: as the rule's suite does)",
      .take = take_thinking },
    { "--expect", "NAME>=X,...",
      "fails, so that a script ends with status 1, unless each condition holds: NAME is the "
      "metric, score, or another result of /eval show; also >, <=, <, =",
      OPTION_NAMES, AT(expected) },
    { .name = "--here", .help = "runs in this process instead of a job" },
    { "--plan", "FILE",
      "scores rows (models, checkpoints, settings, seeds) on several sets as one resumable job; "
      "OUT gets the table as CSV, Markdown and LaTeX, with the mean over sets and paired "
      "differences (docs/sets.md shows a plan)",
      .take = NULL },
    { "--sets", "DIR",
      "scores all sets in a folder in the same way: files and folders named like a set (/help "
      "sets), and data sets. DIR may also be a file that has a plan's line 'set NAME: DATA' for "
      "each set",
      .take = NULL },
    { "--settings", "\"A | B ...\"",
      "with --sets: a row for each, as in /compare (default: the current settings)",
      .take = refuse_settings },
    JOB_OPTIONS,
    { 0 },
};
#undef AT

// Splits SUITE[:FILE].
static int read_predictions(struct evaluate_options *o, struct err *err)
{
    const char *colon = strchr(o->predictions, ':');
    if (!o->set.kind)
        return err_set(err, "--export-predictions needs a set: --set pope --export-predictions %s",
                       o->predictions);
    const struct metric *metric = o->metric ? o->metric : metric_find(o->set.way->metric);
    if (metric && metric->way == METRIC_RANKS)
        return err_set(err, "--export-predictions: %s ranks choices and generates no answers",
                       metric->name);
    o->predictions_suite = colon ? xstrndup(o->predictions, (size_t)(colon - o->predictions))
                                 : xstrdup(o->predictions);
    const char *ending = predictions_check(o->predictions_suite, o->set.kind, err);
    if (!ending) return -1;
    o->predictions_file = colon && colon[1] ? xstrdup(colon + 1)
                                            : xasprintf("predictions-%s-%s%s", o->set.kind->name,
                                                        o->predictions_suite, ending);
    return 0;
}

int evaluate_options_read(struct evaluate_options *o, int argc, char **argv, struct err *err)
{
    *o = (struct evaluate_options){ 0 };
    int status = options_parse(evaluate_rows, o, argc, argv, err) < 0 ? -1 : 0;
    if (status == 0) status = evaluate_expect(o, NULL, err);
    if (status == 0) status = set_source_find(&o->set, err);
    if (status == 0 && !o->set.kind && o->submit)
        status = err_set(err, "--submit needs a set: --set vqav2 --submit %s", o->submit);
    if (status == 0 && o->predictions) status = read_predictions(o, err);
    if (status < 0) evaluate_options_release(o);
    return status;
}

void evaluate_options_release(struct evaluate_options *o)
{
    names_release(&o->kinds);
    names_release(&o->expected);
    answer_file_free(o->answer_file);
    set_source_release(&o->set);
    free(o->predictions_suite);
    free(o->predictions_file);
    *o = (struct evaluate_options){ 0 };
}

static struct evaluate_request request_of(const struct evaluate_options *o)
{
    // A set's total needs the set's own metric.
    return (struct evaluate_request){ .kinds = (const char *const *)o->kinds.list,
                                      .kind_count = o->kinds.count,
                                      .limit = o->limit,
                                      .metric = o->metric,
                                      .ahead = true,
                                      .answer_file = o->answer_file,
                                      .thinking = o->thinking,
                                      .total =
                                          o->set.way && !o->metric ? o->set.way->total : NULL };
}

static int check_output(const char *option, const char *path, struct err *err)
{
    if (!path || file_out_special(path)) return 0;
    FILE *f = file_out_open(path, err);
    if (!f) return err_in(err, "%s", option);
    file_out_abandon(f, path);
    return 0;
}

// Checks that the files of --submit and --export-predictions can be written, before the answers,
// which may take hours.
static int check_outputs(const struct evaluate_options *o, struct err *err)
{
    if (!o->submit && !o->predictions) return 0;
    // Applies to all outputs of this thread: a job has no others; command_execute resets it.
    file_out_force(o->force);
    if (check_output("--submit", o->submit, err) < 0) return -1;
    return check_output("--export-predictions", o->predictions_file, err);
}

int evaluate_options_check(const struct evaluate_options *o, struct err *err)
{
    if (o->answers && dataset_check(o->answers, err) < 0) return err_in(err, "--answers");
    if (set_source_check(&o->set, err) < 0) return -1;
    return check_outputs(o, err); // no output may be a file that was read
}

void evaluate_options_report(const struct evaluate_options *o, const struct settings *settings,
                             struct job_results *to)
{
    char *unused = o->answer_file ? answer_file_unused(o->answer_file) : NULL;
    char *differ = o->answer_file ? answer_file_differ(o->answer_file) : NULL;
    if (o->answers) job_results_add(to, "answers", xstrdup(o->answers));
    if (o->set.shots) job_results_add(to, "shots", xstrdup(o->set.shots));
    if (unused) job_results_add(to, "answers unused", unused);
    if (differ) job_results_add(to, "other questions", differ);
    if (!o->set.kind) return;
    int64_t most = o->set.way->max_tokens;
    const int64_t own = settings_integer(settings, "sample.max_tokens");
    if (settings_changed(settings, "sample.max_tokens") && own < most) most = own;
    job_results_add(to, "set", xstrdup(o->set.kind->name));
    if (o->set.cached) job_results_add(to, "file", xstrdup(o->set.found));
    job_results_add(to, "as", xstrdup(o->set.way->suite));
    if (o->set.columns) job_results_add(to, "columns", xstrdup(o->set.columns));
    job_results_add(to, "prompt", xstrdup(o->set.way->prompt));
    job_results_add(to, "answer tokens", xasprintf("%lld", (long long)most));
    job_results_add(to, "source", xstrdup(o->set.way->source));
}

// Runs in the shell, before the job exists, to report at once files that cannot be read or written.
static int check(int argc, char **argv, const struct settings *settings, const struct model *model,
                 struct err *err)
{
    struct evaluate_options o;
    if (evaluate_options_read(&o, argc, argv, err) < 0) return -1;
    const int status = evaluate_options_check(&o, err);
    evaluate_options_release(&o);
    return status;
}

// --- the state file ------------------------------------------------------------------------------

const char evaluate_kept[] = "scores.jsonl";

// {"done", "metric", "kind", "score", "class", ...} or {"done", "skipped": why, ...} (write_line).
static bool take_line(void *self, const cJSON *line)
{
    struct evaluate_work *w = self;
    struct evaluation *e = &w->result;
    const int64_t index = json_whole(json_get(line, "index"), -1);
    const char *answer = cJSON_GetStringValue(json_get(line, "answer"));
    const char *group = cJSON_GetStringValue(json_get(line, "group"));
    const cJSON *metric = json_get(line, "metric"), *kind = json_get(line, "kind"),
                *score = json_get(line, "score"), *class = json_get(line, "class"),
                *overlap = json_get(line, "overlap");
    const struct metric *m = cJSON_IsString(metric) ? metric_find(metric->valuestring) : NULL;
    w->first = json_whole(json_get(line, "done"), 0);
    w->grid->number++;
    if (w->submission && index >= 0) submission_add(w->submission, index, answer);
    if (w->predictions && index >= 0)
        submission_add(w->predictions, index, cJSON_GetStringValue(json_get(line, "said")));
    if (!(m && cJSON_IsString(kind) && cJSON_IsNumber(score) && cJSON_IsNumber(class))) {
        // Counts a sample once, however many of its questions could not be scored.
        const char *why = cJSON_GetStringValue(json_get(line, "skipped"));
        if (w->first != w->marred) e->skipped++;
        w->marred = w->first;
        if (!e->why && why) e->why = xstrdup(why);
        return true;
    }
    const struct evaluated outcome = { .metric = m,
                                       .kind = kind->valuestring,
                                       .group = group ? group : "",
                                       .score = score->valuedouble,
                                       .overlap =
                                           cJSON_IsNumber(overlap) ? overlap->valuedouble : 0,
                                       .class = class->valueint,
                                       .done = w->first };
    evaluation_note(e, &outcome);
    if (w->take) w->take(w, &outcome);
    const int64_t cut = json_whole(json_get(line, "cut"), CUT_NONE);
    if (cut > CUT_NONE && cut < CUTS) e->cut[cut]++;
    const int64_t lost = json_whole(json_get(line, "lost"), 0);
    if (lost > 0 && lost <= INT_MAX) e->lost += lost; // other counts come from a damaged file
    const int64_t thought = json_whole(json_get(line, "thought"), THOUGHT_NONE);
    if (thought > THOUGHT_NONE && thought < THOUGHTS) e->thoughts[thought]++;
    const cJSON *batch = json_get(line, "batch");
    if (cJSON_IsNumber(batch) && batch->valueint > e->batch && batch->valueint <= BATCH_MOST)
        e->batch = batch->valueint;
    return true;
}

// Returns the notices that count pictures; NULL for a text-only model.
static struct data_notices *picture_notices(struct evaluate_work *w)
{
    return model_has_vision(w->grid->model) ? &w->notices : NULL;
}

// True if the model sees the pictures of a question with this metric (NULL: unknown): not if its
// answer comes from a file.
static bool shows_pictures(const struct evaluate_options *o, const struct metric *m)
{
    return !o->answers || (m && m->way == METRIC_RANKS);
}

static int write_line(struct evaluate_work *w, const struct evaluated *e)
{
    cJSON *line = cJSON_CreateObject();
    cJSON_AddNumberToObject(line, "done", (double)e->done);
    if (e->skipped) {
        char *why = xasprintf("sample %s: %s", e->id, e->skipped);
        cJSON_AddStringToObject(line, "skipped", why);
        free(why);
    } else {
        cJSON_AddStringToObject(line, "metric", e->metric->name);
        cJSON_AddStringToObject(line, "kind", e->kind);
        if (*e->group) cJSON_AddStringToObject(line, "group", e->group);
        cJSON_AddItemToObject(line, "score", job_data_number(e->score));
        if (e->overlap > 0) cJSON_AddItemToObject(line, "overlap", job_data_number(e->overlap));
        cJSON_AddNumberToObject(line, "class", e->class);
        if (e->cut) cJSON_AddNumberToObject(line, "cut", e->cut);
        if (e->lost) cJSON_AddNumberToObject(line, "lost", e->lost);
        if (e->thought) cJSON_AddNumberToObject(line, "thought", e->thought);
        // A job that resumes on another machine may group passes differently.
        if (w->result.batch > 1) cJSON_AddNumberToObject(line, "batch", w->result.batch);
    }
    // Adds the hash of the pictures to the line of a sample's first question.
    if (shows_pictures(&w->options, e->metric) && e->done != w->pictured) {
        char hex[HASH_HEX] = "";
        identity_add_pictures_at(&w->data, e->index, hex, picture_notices(w));
        cJSON_AddNumberToObject(line, "at", (double)e->index);
        cJSON_AddStringToObject(line, "pictures", hex);
        w->pictured = e->done;
    }
    const char *answer = evaluated_answer(e);
    if (w->submission || w->predictions) cJSON_AddNumberToObject(line, "index", (double)e->index);
    if (w->predictions && !e->skipped) cJSON_AddStringToObject(line, "said", e->answer);
    if (w->submission && answer) cJSON_AddStringToObject(line, "answer", answer);
    return grid_keep_line(w->grid, line, &w->lost);
}

static bool report(void *self, const struct evaluated *e)
{
    struct evaluate_work *w = self;
    struct grid *g = w->grid;
    if (g->state && write_line(w, e) < 0) return false;
    if (w->submission) submission_add(w->submission, e->index, evaluated_answer(e));
    if (w->predictions) submission_add(w->predictions, e->index, e->skipped ? NULL : e->answer);
    w->report(w, e);
    grid_progress(g, "evaluating", (double)e->done, (double)e->count);
    if (g->job) job_step(g->job, g->number);
    g->number++;
    return !grid_stopped(g);
}

// Ranks do not stop here: each matches all answers, before the ranks have compared their data.
static bool report_match(void *self, int64_t done, int64_t count)
{
    struct evaluate_work *w = self;
    const struct job *j = w->grid->job;
    grid_progress(w->grid, "matching answers", (double)done, (double)count);
    w->stopped = !(j && j->ranks) && grid_stopped(w->grid);
    return !w->stopped;
}

// --- the plan ------------------------------------------------------------------------------------

// Reports each rank's layers and peak memory.
static void report_stages(struct job *j)
{
    const struct stages *s = stages_of(&j->model->decoder);
    if (!s) return;
    double *all = xcalloc(3 * (size_t)s->count, sizeof *all), *mine = all + 3 * s->number;
    mine[0] = s->part.first_layer, mine[1] = s->part.end_layer - 1,
    mine[2] = (double)memory_peak() / 1e6;
    ranks_sum_doubles(s->ranks, all, 3 * (size_t)s->count);
    for (int k = 0; k < s->count; k++) {
        char *key = xasprintf("rank %d", k);
        job_result(j, key, "layers %.0f to %.0f, at most %.0f MB in memory", all[3 * k],
                   all[3 * k + 1], all[3 * k + 2]);
        free(key);
    }
    free(all);
}

// Opens the set; with --answers reads all samples once.
static int open_set(struct evaluate_work *w, const struct set_source *set, struct err *err)
{
    struct evaluate_options *o = &w->options;
    if (o->answers && !(o->answer_file = answer_file_read(o->answers, err)))
        return err_in(err, "--answers");
    if (set_source_open(set, &w->data, err) < 0) return -1;
    if (!o->answer_file) return 0;
    struct evaluate_request request = request_of(o);
    request.data = &w->data;
    if (evaluate_match_answers(&request, o->answer_file, report_match, w, err) == 0) return 0;
    return w->stopped && w->grid->job ? JOB_STOPPED : -1;
}

int evaluate_cell(struct grid *g, size_t cell, struct evaluate_work *w, struct err *err)
{
    struct evaluate_options *o = &w->options;
    const struct set_source *set = &g->cells[cell].set;
    struct job *j = g->job;
    struct ranks *ranks = j ? j->ranks : NULL;
    const bool first = ranks_number(ranks) == 0;
    struct hooks hooks = { 0 };
    w->grid = g;
    w->notices = data_notices_new(g->cells[cell].settings);
    w->result.total = request_of(o).total;
    if (o->submit) w->submission = submission_new();
    if (o->predictions) w->predictions = submission_new();

    // Every rank must open the model and the same data; rank 0 opens the kept lines.
    int status = grid_use(g, cell, err);
    if (status == 0) status = open_set(w, set, err);
    if ((status = grid_agree(g, status, err))) return status;
    status = job_data_same(ranks, set->data, eval_set_hash(&w->data), err);
    if (o->answers && job_data_same(ranks, o->answers, NULL, err) < 0) status = -1;
    if (set->shots && job_data_same(ranks, set->shots, NULL, err) < 0) status = -1;
    if (status == 0 && first) status = check_outputs(o, err);
    const struct job_data of = { .data = w->data.path,
                                 .hash = eval_set_hash(&w->data),
                                 .answers = o->answers,
                                 .shots = set->shots,
                                 .pictures = &w->data,
                                 .notices = picture_notices(w) };
    if (status == 0) status = grid_keep(g, cell, evaluate_kept, of, take_line, w, err);
    if (grid_agree(g, status, err) < 0) return -1;
    g->in_step = false;
    ranks_share(ranks, &w->first, sizeof w->first, 0);

    struct evaluate_request request = request_of(o);
    request.model = g->model;
    request.backend = g->backend;
    request.settings = g->cells[cell].settings;
    request.tensors = g->tensors;
    request.data = &w->data;
    request.notices = first ? &w->notices : NULL;
    request.first = w->first;
    request.report = report;
    request.self = w;
    request.cancel = grid_cancel(g);
    request.ranks = g->model->decoder.part ? NULL : ranks;
    if (j) {
        job_hooks(j, &hooks);
        request.hooks = &hooks;
        job_rewind(j, g->number);
    }
    g->pace = pace_from((double)w->first);
    status = evaluate_run(&request, &w->result, err);
    if (j && !w->result.cancelled) report_stages(j);
    g->in_step = !*w->lost.text;        // else rank 0 alone fails, while the others stop
    if (first && status < 0) return -1; // the other ranks lack the samples of earlier processes
    if (*w->lost.text) return err_set(err, "%s", w->lost.text);
    return w->result.cancelled ? JOB_STOPPED : 0;
}

static int evaluate(struct grid *g, size_t cell, struct err *err)
{
    return evaluate_cell(g, cell, (struct evaluate_work *)g->self + cell, err);
}

const struct grid_plan evaluate_plan = { .run = evaluate };

int evaluate_work_read(struct evaluate_work *w, const char *kept, struct err *err)
{
    struct grid none = { 0 };
    struct grid *grid = w->grid;
    // cppcheck-suppress autoVariables ; put back below
    w->grid = &none;
    w->result.total = request_of(&w->options).total;
    const int status = job_data_read(kept, take_line, w, err);
    w->grid = grid;
    w->result.samples = w->first;
    if (status == 0) evaluate_totals(&w->result);
    return status;
}

void evaluate_work_report(const struct evaluate_work *w, const struct settings *settings,
                          struct job_results *to)
{
    const struct grid *g = w->grid;
    if (!w->options.set.kind || !g->model) return;
    const char *name = text_file_name(g->model->name);
    struct err why;
    // In the shell, the files of a large model may not be hashed yet.
    if (g->engine && engine_identify(g->engine, &why) < 0) {
        job_results_add(to, "model", xasprintf("%s (fingerprint unknown: %s)", name, why.text));
        return;
    }
    job_results_add(to, "model",
                    xasprintf("%s (fingerprint %.16s)", name, g->model->checkpoint->fingerprint));
    struct provenance p;
    struct buf b = { 0 };
    const struct adapters *adapters = g->engine ? engine_adapters(g->engine) : &g->adapters;
    provenance_of_scores(
        &p, &(struct provenance_env){ g->model, adapters->active, g->backend, settings });
    for (size_t i = 0; i < p.count; i++)
        if (strncmp(p.list[i].key, "model", 5) != 0)
            buf_printf(&b, "%s%s=%s", b.length ? " " : "", p.list[i].key, p.list[i].value);
    job_results_add(to, "settings", b.length ? buf_take(&b) : xstrdup("defaults"));
    provenance_release(&p);
}

int evaluate_work_submit(const struct evaluate_work *w, struct err *err)
{
    const struct evaluate_options *o = &w->options;
    const char *model = w->grid->model->name;
    if (o->submit && submission_write(w->submission, o->submit, &w->data, o->set.kind, o->set.way,
                                      model, err) < 0)
        return -1;
    if (!o->predictions) return 0;
    return predictions_write(w->predictions, o->predictions_file, o->predictions_suite, &w->data,
                             o->set.kind, model, err);
}

void evaluate_work_release(struct evaluate_work *w)
{
    dataset_close(&w->data);
    submission_free(w->submission);
    submission_free(w->predictions);
    data_notices_release(&w->notices);
    evaluation_release(&w->result);
    evaluate_options_release(&w->options);
}

// --- the job -------------------------------------------------------------------------------------

enum { LOGGED = 20 }; // the log names this many samples that could not be scored

static void report_question(struct evaluate_work *w, const struct evaluated *e)
{
    struct job *j = w->grid->job;
    const struct event_score score = { .index = w->grid->number,
                                       .id = e->id,
                                       .prompt = e->prompt,
                                       .answer = e->metric && e->metric->way == METRIC_RANKS
                                                     ? e->found
                                                     : e->answer,
                                       .reference = e->reference,
                                       .group = *e->kind ? e->kind : NULL,
                                       .score = e->score };
    if (!e->skipped)
        job_score(j, &score);
    else if (w->result.skipped < LOGGED)
        job_log(j, "sample %s was not scored: %s", e->id, e->skipped);
}

static int run(struct job *j, struct err *err)
{
    struct evaluate_work w = { .report = report_question, .data.file = -1 };
    struct grid g = grid_of_job(j);
    if (evaluate_options_read(&w.options, j->argc, j->argv, err) < 0) return -1;
    g.self = &w;
    grid_add(&g, NULL, settings_copy(j->settings))->set = w.options.set;
    int status = grid_run(&g, &evaluate_plan, err);
    if (status == 0 && ranks_number(j->ranks) == 0) {
        struct job_results results = { 0 };
        evaluate_options_report(&w.options, j->settings, &results);
        evaluate_work_report(&w, j->settings, &results);
        evaluation_report(&w.result, &results);
        for (size_t i = 0; i < results.count; i++)
            job_result(j, results.list[i].key, "%s", results.list[i].value);
        struct err why;
        const int expected = evaluate_expect(&w.options, &results, &why);
        job_results_free(results.list, results.count);
        if (w.options.submit) job_result(j, "submission", "%s", w.options.submit);
        if (w.options.predictions) job_result(j, "predictions", "%s", w.options.predictions_file);
        status = evaluate_work_submit(&w, err);
        if (status == 0 && expected < 0) status = err_set(err, "%s", why.text);
    }
    evaluate_work_release(&w);
    grid_release(&g);
    return status;
}

// Returns a text such as "exact 0.825 (95%: 0.785021 to 0.858816), n 400".
static char *outcome(const struct job_end *end)
{
    static const char *const keys[] = { "metric", "score", "low", "high", "n" };
    const char *v[5], *skipped = job_end_value(end, "skipped");
    const char *notices = job_end_value(end, "data");
    const char *set = job_end_value(end, "set"), *suite = job_end_value(end, "as");
    struct buf b = { 0 };
    for (size_t i = 0; i < 5; i++)
        if (!(v[i] = job_end_value(end, keys[i]))) return NULL;
    if (set && suite) buf_printf(&b, "%s as %s: ", set, suite);
    buf_printf(&b, "%s %s", v[0], v[1]);
    if (strcmp(v[2], "-") != 0) buf_printf(&b, " (95%%: %s to %s)", v[2], v[3]);
    buf_printf(&b, ", n %s", v[4]);
    if (skipped) buf_printf(&b, "; not scored: %s", skipped);
    if (notices) buf_printf(&b, "; %s", notices);
    return buf_take(&b);
}

const struct job_kind job_kind_evaluate = {
    .name = "evaluate",
    .needs_model = true,
    .in_ranks = true,
    .in_layers = true,
    .submits = true,
    .check = check,
    .run = run,
    .outcome = outcome,
};
