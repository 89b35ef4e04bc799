// core/eval/evaluate_job.c -- the job `evaluate`: its arguments, scores and results.
//
// Reports every question once it is scored (EVENT_SCORE). A line in STATE/scores.jsonl holds what
// the totals need, so that a resumed job continues with the sample at which it stopped: lines of
// the last sample may be incomplete and are written again.
#include "core/eval/evaluate_job.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/adapter/adapters.h"
#include "core/base/file_out.h"
#include "core/base/pace.h"
#include "core/jobs/identity.h"
#include "core/jobs/job.h"
#include "core/jobs/job_data.h"
#include "core/jobs/memory.h"
#include "core/sets/submit.h"
#include "core/talk/batch.h"

// --- words ---------------------------------------------------------------------------------------

static int read_kinds(struct evaluate_options *o, const char *list, struct err *err)
{
    char *rest = NULL;
    free(o->kind_list);
    o->kind_list = xstrdup(list);
    o->kind_count = 0;
    for (char *kind = strtok_r(o->kind_list, ",", &rest); kind; kind = strtok_r(NULL, ",", &rest)) {
        if (o->kind_count == EVALUATE_KINDS)
            return err_set(err, "--kind takes at most %d kinds", EVALUATE_KINDS);
        o->kinds[o->kind_count++] = kind;
    }
    return o->kind_count ? 0 : err_set(err, "--kind needs a kind: --kind colour,shape");
}

static int read_limit(struct evaluate_options *o, const char *text, struct err *err)
{
    char *end;
    o->limit = strtoll(text, &end, 10);
    if (end != text && !*end && o->limit >= 1) return 0;
    return err_set(err, "--limit must be a number of samples of at least 1, not '%s'", text);
}

static int read_thinking(struct evaluate_options *o, const char *word, struct err *err)
{
    if (!strcmp(word, "keep"))
        o->thinking = THINKING_KEEP;
    else if (!strcmp(word, "strip"))
        o->thinking = THINKING_STRIP;
    else
        return err_set(err,
                       "--thinking is keep or strip, not '%s'; without it each suite's rule sees "
                       "what it sees in the suite",
                       word);
    return 0;
}

static int read_option(struct evaluate_options *o, const char *word, const char *value,
                       struct err *err)
{
    static const char *const known[] = { "--images", "--metric", "--limit",   "--kind",    "--set",
                                         "--as",     "--submit", "--answers", "--thinking" };
    enum { KNOWN = sizeof known / sizeof *known };
    int i = 0;
    while (i < KNOWN && strcmp(word, known[i]) != 0) i++;
    if (i == KNOWN) return err_set(err, "/eval has no option '%s': %s", word, EVALUATE_USAGE);
    if (!value) return err_set(err, "'%s' needs a value: %s", word, EVALUATE_USAGE);
    if (i == 0) o->images = value;
    if (i == 1) return (o->metric = metric_need(value, err)) ? 0 : -1;
    if (i == 2) return read_limit(o, value, err);
    if (i == 3) return read_kinds(o, value, err);
    if (i == 4) return (o->set = eval_set_need(value, err)) ? 0 : -1;
    if (i == 5) o->suite = value;
    if (i == 6) o->submit = value;
    if (i == 7) o->answers = value;
    if (i == 8) return read_thinking(o, value, err);
    return 0;
}

// The suite whose way it is to be.
static int choose_way(struct evaluate_options *o, struct err *err)
{
    if (o->set) return (o->way = eval_set_way(o->set, o->suite, err)) ? 0 : -1;
    if (o->suite) return err_set(err, "--as needs a set: --set pope --as %s", o->suite);
    if (o->submit) return err_set(err, "--submit needs a set: --set vqav2 --submit %s", o->submit);
    return 0;
}

int evaluate_options_read(struct evaluate_options *o, int argc, char **argv, struct err *err)
{
    *o = (struct evaluate_options){ 0 };
    int status = 0;
    for (int i = 0; i < argc && status == 0; i++) {
        if (!strcmp(argv[i], "--force")) {
            o->force = true;
        } else if (!strncmp(argv[i], "--", 2)) {
            status = read_option(o, argv[i], i + 1 < argc ? argv[i + 1] : NULL, err);
            i++;
        } else if (o->data) {
            status = err_set(err, "give one DATA only: unexpected '%s'", argv[i]);
        } else {
            o->data = argv[i];
        }
    }
    if (status == 0 && !o->data) status = err_set(err, "DATA is missing: /eval %s", EVALUATE_USAGE);
    if (status == 0) status = choose_way(o, err);
    if (status < 0) evaluate_options_release(o);
    return status;
}

void evaluate_options_release(struct evaluate_options *o)
{
    free(o->kind_list);
    given_free(o->given);
    *o = (struct evaluate_options){ 0 };
}

struct evaluate_request evaluate_options_request(const struct evaluate_options *o)
{
    // Another metric has no total.
    return (struct evaluate_request){ .kinds = o->kinds,
                                      .kind_count = o->kind_count,
                                      .limit = o->limit,
                                      .metric = o->metric,
                                      .ahead = true,
                                      .given = o->given,
                                      .thinking = o->thinking,
                                      .total = o->way && !o->metric ? o->way->total : NULL };
}

int evaluate_options_check_submission(const struct evaluate_options *o, struct err *err)
{
    if (!o->submit) return 0;
    file_out_force(o->force); // a job's process has no other output; a command's end resets it
    if (file_out_special(o->submit)) return 0;
    FILE *f = file_out_open(o->submit, err);
    if (!f) return err_in(err, "--submit");
    file_out_abandon(f, o->submit);
    return 0;
}

int evaluate_options_check(const struct evaluate_options *o, struct err *err)
{
    if (o->answers && dataset_check(o->answers, err) < 0) return err_in(err, "--answers");
    if ((o->set ? eval_set_check(o->data, err) : dataset_check(o->data, err)) < 0) return -1;
    return evaluate_options_check_submission(o, err); // knows what has been read
}

int evaluate_options_open(struct evaluate_options *o, struct dataset *data,
                          evaluate_reading *reading, void *self, struct err *err)
{
    if (o->answers && !(o->given = given_read(o->answers, err))) return err_in(err, "--answers");
    const int opened = o->set ? eval_set_open(data, o->set, o->way, o->data, o->images, err)
                              : dataset_open(data, o->data, o->images, err);
    if (opened < 0 || !o->given) return opened;
    struct evaluate_request request = evaluate_options_request(o);
    request.data = data;
    if (evaluate_match_given(&request, o->given, reading, self, err) == 0) return 0;
    dataset_close(data);
    return -1;
}

void evaluate_options_report(const struct evaluate_options *o, const struct settings *settings,
                             void (*put)(void *self, const char *key, const char *value),
                             void *self)
{
    char tokens[32];
    char *unused = o->given ? given_unused(o->given) : NULL;
    char *differ = o->given ? given_differ(o->given) : NULL;
    if (o->answers) put(self, "answers", o->answers);
    if (unused) put(self, "answers unused", unused);
    if (differ) put(self, "other questions", differ);
    free(unused);
    free(differ);
    if (!o->set) return;
    int64_t most = o->way->max_tokens;
    const int64_t own = settings_integer(settings, "sample.max_tokens");
    if (settings_changed(settings, "sample.max_tokens") && own < most) most = own;
    snprintf(tokens, sizeof tokens, "%lld", (long long)most);
    put(self, "set", o->set->name);
    put(self, "as", o->way->suite);
    put(self, "prompt", o->way->prompt);
    put(self, "answer tokens", tokens);
    put(self, "source", o->way->source);
}

// In the shell, before the job exists: reports an unreadable data set at once.
static int check(int argc, char **argv, const struct settings *settings, const struct model *model,
                 struct err *err)
{
    struct evaluate_options o;
    if (evaluate_options_read(&o, argc, argv, err) < 0) return -1;
    const int status = evaluate_options_check(&o, err);
    evaluate_options_release(&o);
    return status;
}

// --- the state -----------------------------------------------------------------------------------

struct running {
    struct job *job;
    struct evaluation *e;
    FILE *state;
    int64_t number;             // questions told so far: the index of the next score
    int64_t first;              // samples of earlier processes
    int64_t told;               // the last sample whose pictures were written
    int64_t marred;             // the last of them that is counted as skipped
    const struct dataset *data; // whose pictures are compared; NULL: the answers are given
    struct data_notices notices;
    struct submission *submission; // answers for --submit; NULL: not asked for
    struct pace pace;
    bool stop;
    struct err lost; // why the state cannot be written
};

// A sample counts once, however many of its questions could not be scored.
static void note_skipped(struct running *r, const cJSON *line, int64_t done)
{
    const cJSON *why = json_get(line, "skipped");
    if (done != r->marred) r->e->skipped++;
    r->marred = done;
    if (!r->e->why && cJSON_IsString(why)) r->e->why = xstrdup(why->valuestring);
}

// {"done", "metric", "kind", "score", "class", "full" if it is}, or {"done", "skipped": why}.
static void note_line(struct running *r, const cJSON *line, int64_t done)
{
    const int64_t index = json_whole(json_get(line, "index"), -1);
    const char *answer = cJSON_GetStringValue(json_get(line, "answer"));
    if (r->submission && index >= 0) submission_add(r->submission, index, answer);
    const char *group = cJSON_GetStringValue(json_get(line, "group"));
    const cJSON *metric = json_get(line, "metric"), *kind = json_get(line, "kind"),
                *score = json_get(line, "score"), *class = json_get(line, "class");
    const struct metric *m = cJSON_IsString(metric) ? metric_find(metric->valuestring) : NULL;
    if (m && cJSON_IsString(kind) && cJSON_IsNumber(score) && cJSON_IsNumber(class)) {
        evaluation_note(r->e, &(struct evaluated){ .metric = m,
                                                   .kind = kind->valuestring,
                                                   .group = group ? group : "",
                                                   .score = score->valuedouble,
                                                   .class = class->valueint });
        const int64_t cut = json_whole(json_get(line, "cut"), CUT_NONE);
        if (cut > CUT_NONE && cut < CUTS) r->e->cut[cut]++;
        r->e->lost += json_whole(json_get(line, "lost"), 0);
        const int64_t thought = json_whole(json_get(line, "thought"), THOUGHT_NONE);
        if (thought > THOUGHT_NONE && thought < THOUGHTS) r->e->thoughts[thought]++;
        const cJSON *batch = json_get(line, "batch");
        if (cJSON_IsNumber(batch) && batch->valueint > r->e->batch && batch->valueint <= BATCH_MOST)
            r->e->batch = batch->valueint;
    } else {
        note_skipped(r, line, done);
    }
}

// Where pictures are counted, if the model sees them.
static struct data_notices *seen(struct running *r)
{
    return model_sees(r->job->model) ? &r->notices : NULL;
}

static bool take_line(void *self, const cJSON *line)
{
    struct running *r = self;
    r->first = json_whole(json_get(line, "done"), 0);
    note_line(r, line, r->first);
    r->number++;
    return true;
}

static int open_state(struct running *r, const struct dataset *data, const char *answers,
                      struct adapter *adapter, struct err *err)
{
    const struct job *j = r->job;
    const struct provenance_env env = { j->model, adapter, j->backend, j->settings };
    struct provenance now;
    char *path = xasprintf("%s/scores.jsonl", j->state);
    const struct job_data of = { .path = path,
                                 .data = data->path,
                                 .provenance = &now,
                                 .hash = eval_set_hash(data),
                                 .answers = answers,
                                 .pictures = r->data,
                                 .seen = seen(r) };
    provenance_of_scores(&now, &env);
    r->state = job_data_open(&of, j->resumed, take_line, r, err);
    provenance_release(&now);
    free(path);
    return r->state ? 0 : -1;
}

// Only the first question of a sample says.
static void put_pictures(struct running *r, const struct evaluated *e, cJSON *line)
{
    char hex[HASH_HEX] = "";
    if (!r->data || e->done == r->told) return;
    identity_add_pictures_at(r->data, e->index, hex, seen(r));
    cJSON_AddNumberToObject(line, "at", (double)e->index);
    cJSON_AddStringToObject(line, "pictures", hex);
    r->told = e->done;
}

static int write_state(struct running *r, const struct evaluated *e)
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
        cJSON_AddNumberToObject(line, "score", e->score);
        cJSON_AddNumberToObject(line, "class", e->class);
        if (e->cut) cJSON_AddNumberToObject(line, "cut", e->cut);
        if (e->lost) cJSON_AddNumberToObject(line, "lost", e->lost);
        if (e->thought) cJSON_AddNumberToObject(line, "thought", e->thought);
        // Another machine may share passes otherwise when the job goes on there.
        if (r->e->batch > 1) cJSON_AddNumberToObject(line, "batch", r->e->batch);
    }
    put_pictures(r, e, line);
    const char *answer = evaluated_answer(e);
    if (r->submission) cJSON_AddNumberToObject(line, "index", (double)e->index);
    if (r->submission && answer) cJSON_AddStringToObject(line, "answer", answer);
    if (job_data_add(r->state, line)) return 0;
    return err_set(&r->lost, "cannot write the job's state: %s", strerror(errno));
}

// --- telling -------------------------------------------------------------------------------------

enum { LOGGED = 20 }; // samples that could not be scored

static void report_score(struct running *r, const struct evaluated *e)
{
    const struct event_score score = { .index = r->number,
                                       .id = e->id,
                                       .prompt = e->prompt,
                                       .answer =
                                           e->metric->way == METRIC_RANKS ? e->found : e->answer,
                                       .reference = e->reference,
                                       .group = *e->kind ? e->kind : NULL,
                                       .score = e->score };
    job_score(r->job, &score);
}

static bool report(void *self, const struct evaluated *e)
{
    struct running *r = self;
    if (e->skipped && r->e->skipped < LOGGED)
        job_log(r->job, "sample %s was not scored: %s", e->id, e->skipped);
    else if (!e->skipped)
        report_score(r, e);
    if (r->state && write_state(r, e) < 0) return false;
    if (r->submission) submission_add(r->submission, e->index, evaluated_answer(e));
    job_progress(r->job, &r->pace, (double)e->done, (double)e->count, NAN);
    job_step(r->job, r->number++);
    r->stop = job_stopped(r->job) != JOB_GO;
    return !r->stop;
}

// Every rank matches all answers, and cannot know yet that the others read the same data: they do
// not stop together here.
static bool reading(void *self, int64_t done, int64_t count)
{
    struct running *r = self;
    job_progress(r->job, &r->pace, (double)done, (double)count, NAN);
    r->stop = !r->job->ranks && job_stopped(r->job) != JOB_GO;
    return !r->stop;
}

static void put_result(void *self, const char *key, const char *value)
{
    job_result(self, key, "%s", value);
}

static int report_results(struct running *r, const struct evaluate_options *o,
                          const struct dataset *data, struct err *err)
{
    evaluate_options_report(o, r->job->settings, put_result, r->job);
    evaluation_report(r->e, put_result, r->job);
    if (!o->submit) return 0;
    job_result(r->job, "submission", "%s", o->submit);
    return submission_write(r->submission, o->submit, data, o->set, o->way, r->job->model->name,
                            err);
}

// Which layers each rank has computed, and what that took of its memory.
static void report_stages(struct job *j)
{
    const struct stages *s = j->model->decoder.stages;
    if (!s) return;
    double *all = xcalloc(3 * (size_t)s->count, sizeof *all), *mine = all + 3 * s->number;
    mine[0] = s->from, mine[1] = s->to - 1, mine[2] = (double)memory_most() / 1e6;
    ranks_sum_doubles(s->ranks, all, 3 * (size_t)s->count);
    for (int k = 0; k < s->count; k++) {
        char *key = xasprintf("rank %d", k);
        job_result(j, key, "layers %.0f to %.0f, at most %.0f MB in memory", all[3 * k],
                   all[3 * k + 1], all[3 * k + 2]);
        free(key);
    }
    free(all);
}

// --- the job -------------------------------------------------------------------------------------

static int evaluate(struct running *r, const struct evaluate_options *o, const struct dataset *data,
                    struct adapter *adapter, struct err *err)
{
    struct job *j = r->job;
    struct hooks hooks = { 0 };
    job_hooks(j, &hooks);
    struct evaluate_request request = evaluate_options_request(o);
    request.model = j->model;
    request.backend = j->backend;
    request.settings = j->settings;
    request.hooks = &hooks;
    request.tensors = adapter_tensors(adapter);
    request.data = data;
    request.notices = ranks_number(j->ranks) == 0 ? &r->notices : NULL;
    request.first = r->first;
    request.report = report;
    request.self = r;
    request.cancel = &j->cancel;
    request.ranks = j->model->decoder.stages ? NULL : j->ranks;
    r->pace = pace_from((double)r->first);
    job_rewind(j, r->number);
    int status = evaluate_run(&request, r->e, err);
    if (!r->e->cancelled) report_stages(j);
    if (ranks_number(j->ranks) > 0)
        status = 0; // what came of it is rank 0's, which knows of earlier samples
    else if (status == 0 && *r->lost.text)
        status = err_set(err, "%s", r->lost.text);
    else if (status == 0 && r->e->cancelled)
        status = JOB_STOPPED;
    else if (status == 0)
        status = report_results(r, o, data, err);
    return status;
}

static int run(struct job *j, struct err *err)
{
    struct evaluate_options o;
    struct evaluation e = { 0 };
    struct running r = { .job = j, .e = &e, .notices = data_notices_new(j->settings) };
    struct dataset data = { .file = -1 };
    struct adapter *adapter = NULL;
    if (evaluate_options_read(&o, j->argc, j->argv, err) < 0) return -1;
    e.total = evaluate_options_request(&o).total;
    if (o.submit) r.submission = submission_new();
    int status = adapter_apply_settings(&adapter, j->model, j->settings, err);
    if (status == 0 && (status = evaluate_options_open(&o, &data, reading, &r, err)) < 0 && r.stop)
        status = JOB_STOPPED;
    if (status == 0) status = job_data_same(j->ranks, o.data, eval_set_hash(&data), err);
    if (status == 0 && ranks_number(j->ranks) == 0)
        status = evaluate_options_check_submission(&o, err);
    if (status == 0 && o.answers) status = job_data_same(j->ranks, o.answers, NULL, err);
    // Ranking asks the model even where answers are given.
    if (!o.answers || (o.metric && o.metric->way == METRIC_RANKS)) r.data = &data;
    if (status == 0 && ranks_number(j->ranks) == 0)
        status = open_state(&r, &data, o.answers, adapter, err);
    if (status == 0) ranks_share(j->ranks, &r.first, sizeof r.first, 0);
    if (status == 0) status = evaluate(&r, &o, &data, adapter, err);
    dataset_close(&data);
    adapter_free(adapter);
    if (r.state) fclose(r.state);
    submission_free(r.submission);
    data_notices_release(&r.notices);
    evaluation_release(&e);
    evaluate_options_release(&o);
    return status;
}

// "exact 0.8250 (95%: 0.7850 to 0.8588), n 400"
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
    .usage = EVALUATE_USAGE,
    .help = "Scores the model on the questions of a data set.",
    .needs_model = true,
    .in_ranks = true,
    .in_layers = true,
    .submits = true,
    .check = check,
    .run = run,
    .outcome = outcome,
};
