// core/train/sweep.c -- the job `sweep`: one training run for each value of a setting.
//
//   OUT/VALUE/          each run's folder, as /train makes it
//   OUT/training.json   the record of the sweep: setting, values, data, and in the end the best
//   OUT/best            a link to the best run's folder, for scripts and plans of scores
//
// Each run is a job `train` and starts from the model as loaded. The runs' reports name the value:
// series "loss@VALUE", log lines "VALUE: ...". A resumed sweep skips finished runs and continues
// from the checkpoints of the unfinished ones.
//
// A sweep is a plan of a grid (core/eval/grid.h) with a cell for each value. It is not in
// core/eval, because training uses that room's evaluations for validation. The job's ranks form
// groups (sweep.ranks): group g of G trains values g, g + G, ... one after the other, as a job of
// its ranks. When all groups have finished, rank 0 compares the results.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/tally.h"
#include "core/data/dataset.h"
#include "core/engine/proposal.h"
#include "core/eval/grid.h"
#include "core/jobs/job.h"
#include "core/metrics/metric.h"
#include "core/ranks/ranks.h"
#include "core/settings/changes.h"
#include "core/settings/settings.h"
#include "core/train/params.h"
#include "core/train/run_folder.h"
#include "core/train/sft_parts.h"

// The learning rates searched in the paper on LayerNorm tuning.
static const char rates[] = "2e-3,1e-3,6e-4,3e-4,1e-4,5e-5,2e-5,1e-5,6e-6,1e-6,1e-7";
static const char *const reserved[] = { "training.json", "best", NULL }; // in the sweep's folder
static const char usage[] = "/sweep KEY V1,V2,... DATA OUT [--images DIR] (or lr-grid DATA OUT)";

struct score {
    char what[128]; // "validation loss"
    double value;   // NaN: none
    double loss;    // breaks ties of the value
    const struct metric *metric;
    int64_t step;
};

// A value and the score of its run. The value's grid cell has the settings with this value, and the
// name of the run's folder and series.
struct value {
    const char *text; // as in the cell's settings
    char *typed;
    struct score score;
};

struct sweep {
    const char *words[4], *key, *out;
    struct set_source set;
    char *list; // values as typed
    bool resume;
    struct value *values; // [grid.count]
    struct grid grid;
    struct sft_series series;
    struct sft asked; // the sweep's identity, without the setting KEY
};

// --- arguments -----------------------------------------------------------------------------------

static void release(struct sweep *s)
{
    for (size_t i = 0; s->values && i < s->grid.count; i++) free(s->values[i].typed);
    free(s->values);
    grid_release(&s->grid);
    free(s->list);
    sft_data_close(&s->asked);
    *s = (struct sweep){ 0 };
}

// Compares paths by the files that they name, and lists of layers by the layers of the model that
// they select.
static bool same_value(const struct model *m, const char *key, const struct settings *a,
                       const struct settings *b)
{
    char *one = settings_stored(key, settings_text(a, key));
    char *two = settings_stored(key, settings_text(b, key));
    const bool same_text = !strcmp(one, two);
    free(one);
    free(two);
    const struct setting *row = settings_find(key);
    if (same_text || !m || row->type != SETTING_LIST) return same_text;
    for (int i = 0; row->choices && row->choices[i]; i++)
        if (settings_is(a, key, row->choices[i]) || settings_is(b, key, row->choices[i]))
            return false;
    const int64_t layers = m->decoder.config.layers;
    bool *x = xcalloc(2 * (size_t)layers, sizeof *x), *y = x + layers;
    struct err ignored;
    const bool same = settings_layers(a, key, layers, x, &ignored) >= 0 &&
                      settings_layers(b, key, layers, y, &ignored) >= 0 &&
                      !memcmp(x, y, (size_t)layers * sizeof *x);
    free(x);
    return same;
}

static int add_value(struct sweep *s, const char *text, struct proposal *p, struct err *err)
{
    if (proposal_check(p, &(struct change){ s->key, text }, 1, err) < 0) return -1;
    struct settings *settings = p->env.settings;
    struct grid *g = &s->grid;
    int status = 0;
    p->env.settings = NULL; // the grid owns them now
    proposal_release(p);
    for (size_t i = 0; s->values && i < g->count && status == 0; i++)
        if (same_value(p->env.model, s->key, g->cells[i].settings, settings))
            status = err_set(err, "'%s' is the same value as '%s'", text, s->values[i].typed);
    s->values = xreallocarray(s->values, g->count + 1, sizeof *s->values);
    s->values[g->count] =
        (struct value){ .text = settings_text(settings, s->key), .typed = xstrdup(text) };
    grid_add(g, text, settings)->set = s->set;
    return status;
}

const struct option_row sweep_rows[] = {
    { "KEY", NULL, "the setting", OPTION_TEXT, .at = offsetof(struct sweep, words[0]) },
    { "V1,V2,...", NULL, "values", OPTION_TEXT, .at = offsetof(struct sweep, words[1]) },
    { "DATA", NULL, "the data set", OPTION_TEXT, .at = offsetof(struct sweep, words[2]) },
    { "OUT", NULL, NULL, OPTION_TEXT, .at = offsetof(struct sweep, words[3]), .optional = true },
    { "--images", "DIR", "base folder for relative picture paths (default: the folder of DATA)",
      OPTION_TEXT, .at = offsetof(struct sweep, set.images) },
    { "--resume", NULL, "continues the unfinished runs in OUT", OPTION_FLAG,
      .at = offsetof(struct sweep, resume) },
    JOB_OPTIONS,
    { 0 },
};

// Reads KEY V1,V2,... DATA OUT, or lr-grid DATA OUT.
static int read_words(struct sweep *s, int argc, char **argv, struct err *err)
{
    if (options_parse(sweep_rows, s, argc, argv, err) < 0) return err_in(err, "%s", usage);
    const bool preset = !strcmp(s->words[0], "lr-grid");
    if (preset == (s->words[3] != NULL)) return err_set(err, "usage: %s", usage);
    s->key = preset ? "train.lr" : s->words[0];
    s->list = xstrdup(preset ? rates : s->words[1]);
    s->set.data = s->words[preset ? 1 : 2];
    s->out = s->words[preset ? 2 : 3];
    return 0;
}

// Adds a cell for each value, with the settings `from` of the proposal and that value.
static int read_sweep(struct sweep *s, int argc, char **argv, struct proposal *p, struct err *err)
{
    // All values need the same held-out samples and score: settings that choose these cannot be
    // swept.
    static const char *const compared[] = { "train.validation", "train.score", "train.filter" };
    int status = read_words(s, argc, argv, err);
    if (status == 0 && !settings_find(s->key)) status = settings_unknown(s->key, err);
    for (size_t i = 0; status == 0 && i < sizeof compared / sizeof *compared; i++)
        // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): read_words has set it
        if (!strcmp(s->key, compared[i]))
            status = err_set(
                err, "%s determines how a sweep compares its values: it cannot be swept", s->key);
    if (status == 0 && settings_is(p->from, "train.validation", "none"))
        status = err_set(err, "a sweep needs a validation set to compare by: /set train.validation "
                              "0.1, or a data file");
    // "|" separates values, if present: values of some settings contain commas.
    const char *between = s->list && strchr(s->list, '|') ? "|" : ",";
    char *copy = xstrdup(s->list ? s->list : ""), *rest = NULL;
    for (char *v = strtok_r(copy, between, &rest); v && status == 0;
         v = strtok_r(NULL, between, &rest)) {
        while (*v == ' ') v++;
        for (size_t n = strlen(v); n && v[n - 1] == ' ';) v[--n] = 0;
        status = add_value(s, v, p, err);
    }
    free(copy);
    if (status == 0 && s->grid.count < 2)
        status = err_set(err, "a sweep needs at least two values: %s", usage);
    const struct method *m = status == 0 ? method_of(s->key) : NULL;
    const char *by = m ? m->training.by : NULL;
    if (m && !m->learned && !method_in_training(m, p->from))
        status = err_set(err,
                         "%s is a setting of %s, which %s acts in training%s%s: all values would "
                         "train the same weights",
                         s->key, m->title, by ? "only" : "never", by ? " with " : "", by ? by : "");
    if (status < 0) release(s);
    return status;
}

// Makes as many groups as there are ranks or values, whichever is less, unless sweep.ranks sets
// their size.
static int group_ranks(struct sweep *s, int ranks, const struct settings *settings, struct err *err)
{
    s->grid.groups = s->grid.count < (size_t)ranks ? s->grid.count : (size_t)ranks;
    if (settings_is(settings, "sweep.ranks", "auto")) return 0;
    const int64_t each = settings_integer(settings, "sweep.ranks");
    s->grid.groups = (size_t)(ranks / each);
    if (ranks % each)
        return err_set(err,
                       "sweep.ranks %lld does not divide job.ranks %d: every group needs as many "
                       "ranks",
                       (long long)each, ranks);
    if (s->grid.groups > s->grid.count)
        return err_set(err,
                       "%zu groups of %lld ranks are more than the %zu values of the sweep: lower "
                       "job.ranks, or raise sweep.ranks",
                       s->grid.groups, (long long)each, s->grid.count);
    return 0;
}

static int check(int argc, char **argv, const struct settings *settings, const struct model *model,
                 struct err *err)
{
    // The proposal has no list of adapters, so it does not change the model.
    struct proposal p = { .from = settings,
                          .env = { .model = (struct model *)(uintptr_t)model },
                          .training = true };
    struct sweep s = { .grid.reserved = reserved };
    if (read_sweep(&s, argc, argv, &p, err) < 0) return -1;
    int status = run_folder_check(s.out, s.resume, err);
    if (status == 0) status = set_source_check(&s.set, err);
    if (status == 0)
        status = group_ranks(&s, (int)settings_integer(settings, "job.ranks"), settings, err);
    // Each value is trained by one group; the largest has this many ranks.
    const size_t ranks = (size_t)settings_integer(settings, "job.ranks"),
                 most = s.grid.groups ? (ranks + s.grid.groups - 1) / s.grid.groups : 1;
    for (size_t i = 0; status == 0 && i < s.grid.count; i++) {
        status = sft_validation_check(s.grid.cells[i].settings, err);
        if (status == 0 && model)
            status = params_check(model, s.grid.cells[i].settings, (int)most, err);
    }
    release(&s);
    return status;
}

// --- one run -------------------------------------------------------------------------------------

// Forwards the reports of a run, labelled with its value.
struct relay {
    struct grid *grid;
    const char *label;
};

static void relay_event(void *self, const struct event *e)
{
    const struct relay *t = self;
    struct event with = *e;
    struct event_progress progress;
    char *text = NULL;
    switch (e->kind) {
    case EVENT_RESULT: return; // the sweep reports results of its own
    case EVENT_PROGRESS:
        progress = *e->progress;
        progress.what = "sweep";
        grid_report(t->grid, progress);
        return;
    case EVENT_METRIC: with.key = text = xasprintf("%s@%s", e->key, t->label); break;
    case EVENT_REWIND: with.key = text = xasprintf("@%s", t->label); break;
    case EVENT_NOTICE: with.text = text = xasprintf("%s: %s", t->label, e->text); break;
    default: break;
    }
    sinks_emit(t->grid->sinks, &with);
    free(text);
}

// Runs the job as the training run of one value.
static int run_value(struct job *j, struct sweep *s, size_t index, const char *folder,
                     struct err *err)
{
    struct grid *g = &s->grid;
    const struct job_kind *kind = j->kind, *train = job_kind_find("train");
    const struct set_source *set = &g->cells[index].set;
    char *argv[] = { (char *)set->data, (char *)folder, "--images", (char *)set->images };
    char **own_argv = j->argv;
    const int own_argc = j->argc;
    const bool resumed = j->resumed;
    struct settings *own = j->settings;
    struct sinks sinks = { 0 };
    struct relay relay = { g, g->cells[index].name };
    sinks_add(&sinks, (struct sink){ .emit = relay_event, .self = &relay });
    j->settings = g->cells[index].settings;
    j->kind = train;
    j->argv = argv;
    j->argc = set->images ? 4 : 2;
    j->resumed = true; // continues a run in the sweep's folder
    j->sinks = &sinks;
    s->series.seed = settings_integer(own, "train.seed");
    const int status = sft_job(j, &s->series, err);
    j->kind = kind;
    j->argv = own_argv;
    j->argc = own_argc;
    j->resumed = resumed;
    j->settings = own;
    j->sinks = g->sinks;
    return status;
}

// --- results -------------------------------------------------------------------------------------

static double number(const cJSON *record, const char *key)
{
    const cJSON *n = json_get(record, key);
    return cJSON_IsNumber(n) ? n->valuedouble : NAN;
}

// Reads the record of a finished run. The next runs must find the same pictures.
static void read_run(struct sweep *s, struct score *score, const char *folder)
{
    cJSON *record = run_folder_read(folder, NULL);
    const cJSON *name = json_get(record, "validation_metric");
    const struct metric *m = cJSON_IsString(name) ? metric_find(name->valuestring) : NULL;
    const double step = number(record, "best_step");
    *score = (struct score){ .what = "validation loss",
                             .value = number(record, m ? "validation_score" : "validation_loss"),
                             .loss = number(record, "validation_loss"),
                             .metric = m ? m : metric_find("loss"),
                             .step = step >= 0 && step < 0x1p53 ? (int64_t)step : -1 };
    const char *of = cJSON_GetStringValue(json_get(record, "validation_score_of"));
    if (m) snprintf(score->what, sizeof score->what, "%s", of ? of : m->name);
    const char *pictures = cJSON_GetStringValue(json_get(record, "pictures_sha256"));
    if (pictures) snprintf(s->series.pictures, sizeof s->series.pictures, "%s", pictures);
    cJSON_Delete(record);
}

// `why`: the error of a failed run; NULL: none.
static char *score_text(const struct score *s, const char *why)
{
    if (why) return xasprintf("failed: %s", why);
    if (isnan(s->value)) return xstrdup("no finite score");
    if (s->value == s->loss || !isfinite(s->loss))
        return xasprintf("%s %.6g (step %lld)", s->what, s->value, (long long)s->step);
    return xasprintf("%s %.6g, loss %.6g (step %lld)", s->what, s->value, s->loss,
                     (long long)s->step);
}

// Writes the record of the sweep; `best` NULL: it is unfinished.
static int record(const struct sweep *s, const struct run_folder *out, const struct value *best,
                  struct err *err)
{
    cJSON *r = cJSON_CreateObject();
    cJSON_AddStringToObject(r, "program", "vlmsh " VERSION);
    cJSON_AddStringToObject(r, "state", best ? "done" : "running");
    cJSON_AddStringToObject(r, "sweep", s->key);
    cJSON_AddStringToObject(r, "values", s->list);
    cJSON_AddStringToObject(r, "data", s->set.data);
    const struct identity id = sft_identity(&s->asked);
    identity_put(&id, r);
    if (best) cJSON_AddStringToObject(r, "best", best->text);
    cJSON *list = best ? cJSON_AddArrayToObject(r, "results") : NULL;
    for (size_t i = 0; list && i < s->grid.count; i++) {
        const struct grid_cell *cell = &s->grid.cells[i];
        const struct score *score = &s->values[i].score;
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "value", s->values[i].text);
        cJSON_AddStringToObject(one, "folder", cell->name);
        cJSON_AddStringToObject(one, "score", score->what);
        if (isfinite(score->value)) cJSON_AddNumberToObject(one, "value_of_score", score->value);
        if (cell->why) cJSON_AddStringToObject(one, "failed", cell->why);
        cJSON_AddItemToArray(list, one);
    }
    const int status = run_folder_record(out, r, err);
    cJSON_Delete(r);
    return status;
}

static void link_best(struct job *j, const struct sweep *s, size_t best)
{
    char *link = xasprintf("%s/best", s->out);
    unlink(link); // left by a process that was killed before it recorded the sweep
    if (symlink(s->grid.cells[best].name, link) < 0)
        job_log(j, "cannot link '%s' to the best run: %s", link, strerror(errno));
    free(link);
}

// Runs with different seeds repeat one run: reports the mean of their scores.
static void report_mean(struct job *j, const struct sweep *s)
{
    struct tally t = { 0 };
    double low, high;
    const char *what = NULL;
    for (size_t i = 0; i < s->grid.count && !strcmp(s->key, "train.seed"); i++) {
        if (isnan(s->values[i].score.value)) continue;
        tally_add(&t, s->values[i].score.value);
        what = s->values[i].score.what;
    }
    if (t.count < 2) return;
    tally_interval(&t, &low, &high);
    job_result(j, "mean over seeds", "%s %.6g (95%%: %.6g to %.6g), std %.4g, n %lld", what, t.mean,
               low, high, tally_std(&t), (long long)t.count);
}

static void report_results(struct job *j, const struct sweep *s, size_t best)
{
    struct table_builder t;
    table_begin(&t, "sweep", "value|score#|of|step#|folder");
    for (size_t i = 0; i < s->grid.count; i++) {
        const struct value *v = &s->values[i];
        const struct grid_cell *cell = &s->grid.cells[i];
        char *key = xasprintf("%s %s", s->key, v->text), *text = score_text(&v->score, cell->why);
        job_result(j, key, "%s", text);
        table_add(&t, "%s", v->text);
        table_add(&t, "%.6g", v->score.value);
        table_add(&t, "%s", cell->why ? "failed" : v->score.what);
        table_add(&t, "%lld", (long long)v->score.step);
        table_add(&t, "%s/%s", s->out, cell->name);
        free(text);
        free(key);
    }
    table_emit(&t, j->sinks);
    report_mean(j, s);
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a sweep has two values at least
    job_result(j, "best", "%s", s->values[best].text);
    job_result(j, "best run", "%s/%s", s->out, s->grid.cells[best].name);
}

// --- the plan ------------------------------------------------------------------------------------

// A failed run (say, the learning rate was too high) is recorded and the sweep continues, unless
// the cause would also fail the next run (such as a full disk or changed data) or other ranks wait
// for this one (sft_series.broken).
static int train(struct grid *g, size_t cell, struct err *err)
{
    struct sweep *s = g->self;
    struct value *v = &s->values[cell];
    char *folder = xasprintf("%s/%s", s->out, g->cells[cell].name);
    const int status = run_value(g->job, s, cell, folder, err);
    if (status != JOB_STOPPED) read_run(s, &v->score, folder);
    free(folder);
    if (status == JOB_STOPPED) return status;
    if (s->series.broken) return err_in(err, "%s %s", s->key, v->text);
    g->in_step = true; // else sft_job would have broken the series
    if (status < 0) v->score.value = NAN;
    char *text = score_text(&v->score, status < 0 ? err->text : NULL);
    job_log(g->job, "%s %s: %s", s->key, v->text, text);
    free(text);
    return status;
}

static bool broken(const struct grid *g)
{
    const struct sweep *s = g->self;
    return s->series.broken;
}

static const struct grid_plan plan = { .run = train, .broken = broken };

// Reads the records of all runs, including other groups' runs.
static int read_all(struct sweep *s, struct err *err)
{
    for (size_t i = 0; i < s->grid.count; i++) {
        char *folder = xasprintf("%s/%s", s->out, s->grid.cells[i].name), before[HASH_HEX];
        memcpy(before, s->series.pictures, HASH_HEX);
        read_run(s, &s->values[i].score, folder);
        free(folder);
        if (s->grid.cells[i].why) s->values[i].score.value = NAN;
        if (*before && strcmp(before, s->series.pictures) != 0)
            return err_set(err, "the pictures of '%s' changed during the sweep", s->set.data);
    }
    return 0;
}

// --- the job -------------------------------------------------------------------------------------

static int same_text(const cJSON *record, const char *key, const char *is, struct err *err)
{
    const char *was = cJSON_GetStringValue(json_get(record, key));
    if (!was || !strcmp(was, is)) return 0;
    return err_set(
        err, "it started with %s, but now it is %s: restore it, or choose another folder", was, is);
}

// A resumed sweep must have the same identity as when it started.
static int check_begun(const struct sweep *s, const struct run_folder *out, struct err *err)
{
    cJSON *record = run_folder_read(out->path, err);
    int status = record ? 0 : -1;
    if (status == 0 && !json_get(record, "sweep")) status = err_set(err, "it is not a sweep");
    if (status == 0) status = same_text(record, "sweep", s->key, err);
    if (status == 0) status = same_text(record, "values", s->list, err);
    if (status == 0) {
        const struct identity was = identity_of(record), is = sft_identity(&s->asked);
        status = identity_same(&was, &is, err);
    }
    cJSON_Delete(record);
    return status < 0 ? err_in(err, "cannot continue '%s'", out->path) : 0;
}

static int run(struct job *j, struct err *err)
{
    struct proposal p = { .from = j->settings }; // check() has checked values with the model
    struct sweep s = { .grid = grid_of_job(j) };
    struct run_folder out = { .lock = -1 };
    const bool first = ranks_number(j->ranks) == 0;
    size_t best = 0;
    s.grid.self = &s;
    s.grid.reserved = reserved;
    if (read_sweep(&s, j->argc, j->argv, &p, err) < 0) return -1;
    s.asked = (struct sft){ .job = j, .options = { .data = s.set.data } };
    int status = sft_identify(&s.asked, s.key, err);

    // Only rank 0 opens the folder, and tells the others whether the sweep is finished.
    if (status == 0 && first) status = run_folder_open(&out, s.out, s.resume || j->resumed, err);
    if (status == 0 && first && out.begun) status = check_begun(&s, &out, err);
    if (status == 0) ranks_share(j->ranks, &out.done, sizeof out.done, 0);
    if (status < 0 || out.done) goto out;

    if (first && !out.begun) status = record(&s, &out, NULL, err);
    ranks_meet(j->ranks); // rank 0 has created the folder
    if (status == 0) status = group_ranks(&s, ranks_count(j->ranks), j->settings, err);
    if (status == 0) status = grid_run(&s.grid, &plan, err);
    if (status == 0 && first && j->ranks) status = read_all(&s, err);
    if (status || !first) goto out;

    for (size_t i = 1; i < s.grid.count; i++) {
        const struct score *a = &s.values[i].score, *b = &s.values[best].score;
        if (isnan(a->value)) continue;
        // The smaller loss breaks ties.
        if (a->value == b->value ? a->loss < b->loss
                                 : isnan(b->value) || metric_better(a->metric, a->value, b->value))
            best = i;
    }
    const char *why = s.grid.cells[best].why;
    if (isnan(s.values[best].score.value))
        status =
            err_set(err, "no value of %s was scored%s%s", s.key, why ? ": " : "", why ? why : "");
    if (status == 0) link_best(j, &s, best);
    if (status == 0) report_results(j, &s, best); // after the record, nothing is repeated
    if (status == 0) status = record(&s, &out, &s.values[best], err);
out:
    if (first) run_folder_close(&out);
    release(&s);
    return status;
}

static char *outcome(const struct job_end *end)
{
    const char *best = job_end_value(end, "best"), *folder = job_end_value(end, "best run");
    if (!best || !folder) return xstrdup("the result already existed");
    return xasprintf("best: %s, in '%s'", best, folder);
}

// Shows the results before "best": a score for each value, and the mean over seeds.
static void show(const struct job_end *end, struct sinks *sinks)
{
    const char *best = job_end_value(end, "best");
    struct table_builder t;
    table_begin(&t, "sweep", "value|score|");
    for (size_t i = 0; i < end->count && strcmp(end->results[i].key, "best") != 0; i++) {
        const char *value = strchr(end->results[i].key, ' ');
        table_add(&t, "%s", end->results[i].key);
        table_add(&t, "%s", end->results[i].value);
        table_add(&t, "%s", value && best && !strcmp(value + 1, best) ? "best" : "");
    }
    if (t.count) table_emit(&t, sinks);
}

const struct job_kind job_kind_sweep = {
    .name = "sweep",
    .needs_model = true,
    .in_ranks = true,
    .check = check,
    .run = run,
    .outcome = outcome,
    .show = show,
};
