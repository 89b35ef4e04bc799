// core/eval/score_job.c -- the job `scores`: a plan of rows by evaluation sets (/eval --plan,
// --sets).
//
//   OUT/cells/ROW_SET.scores.jsonl   a line for each question of a cell (evaluate_job.c)
//   OUT/cells/ROW_SET.data.txt       notices on its data, if there are any
//   OUT/scores.csv                   a line for each number (score_table_long)
//   OUT/compare.csv                  the plan's comparisons of rows, if it has any
//   OUT/table.csv, .md, .tex         the table
//
// A new job with the same OUT continues these cells. A cell whose model, adapter, settings or data
// have changed since fails and names the change; the other cells run, and the tables leave a gap.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/csv.h"
#include "core/base/file_in.h"
#include "core/base/file_out.h"
#include "core/base/folder.h"
#include "core/eval/evaluate_job.h"
#include "core/eval/grid.h"
#include "core/eval/score_plan.h"
#include "core/eval/score_table.h"
#include "core/jobs/job.h"
#include "core/model/model.h"
#include "core/ranks/ranks.h"

struct score_options {
    const char *out, *plan, *sets, *settings;
    int64_t limit;
};

struct scoring {
    struct score_options o;
    struct score_plan plan;
    struct grid grid; // cell row * sets.count + set
    struct {
        size_t cells;
        char *first;
    } remarked[EVALUATION_REMARKS];
};

static const struct option_row rows[] = {
    { "OUT", NULL, "the output folder", OPTION_TEXT, .at = offsetof(struct score_options, out) },
    { "--plan", "FILE", NULL, OPTION_TEXT, .at = offsetof(struct score_options, plan) },
    { "--sets", "DIR", NULL, OPTION_TEXT, .at = offsetof(struct score_options, sets) },
    { "--settings", "A | B ...", NULL, OPTION_TEXT,
      .at = offsetof(struct score_options, settings) },
    { "--limit", "N", NULL, OPTION_WHOLE, .at = offsetof(struct score_options, limit), 1,
      INT64_MAX },
    JOB_OPTIONS,
    { 0 },
};

static int read_options(struct scoring *s, int argc, char **argv, struct err *err)
{
    struct score_options *o = &s->o;
    if (options_parse(rows, o, argc, argv, err) < 0)
        return err_in(err, "/eval --plan FILE OUT, or /eval --sets DIR OUT");
    if (!o->plan == !o->sets) return err_set(err, "give either --plan FILE or --sets DIR");
    if (o->plan && o->settings)
        return err_set(err, "--settings needs --sets: a plan has lines 'row NAME: SETTINGS'");
    return o->plan ? score_plan_read(&s->plan, o->plan, o->limit, err)
                   : score_plan_of_sets(&s->plan, o->sets, o->settings, o->limit, err);
}

// --- the folder ----------------------------------------------------------------------------------

static int check_folder(const char *out, struct err *err)
{
    struct stat st;
    char *cells = xasprintf("%s/cells", out);
    const bool ours = access(cells, F_OK) == 0;
    free(cells);
    if (stat(out, &st) < 0 && errno == ENOENT) return 0;
    if (stat(out, &st) < 0) return err_set(err, "cannot use '%s': %s", out, strerror(errno));
    if (!S_ISDIR(st.st_mode)) return err_set(err, "'%s' is not a folder", out);
    if (ours || folder_is_empty(out)) return 0;
    return err_set(err, "'%s' holds other files: choose a new folder", out);
}

// Makes the folder of the cells, and locks OUT. The caller closes *lock.
static int open_folder(struct scoring *s, int *lock, struct err *err)
{
    const char *out = s->o.out, *cells = s->grid.folder;
    if (check_folder(out, err) < 0) return -1;
    if ((mkdir(out, 0777) < 0 && errno != EEXIST) || (mkdir(cells, 0777) < 0 && errno != EEXIST))
        return err_set(err, "cannot create '%s': %s", cells, strerror(errno));
    *lock = folder_lock(out, "evaluating", err);
    return *lock < 0 ? -1 : 0;
}

// --- before the job ------------------------------------------------------------------------------

static int check(int argc, char **argv, const struct settings *settings, const struct model *model,
                 struct err *err)
{
    struct scoring s = { 0 };
    int status = read_options(&s, argc, argv, err);
    if (status == 0) status = check_folder(s.o.out, err);
    if (status == 0) status = score_plan_check(&s.plan, settings, NULL, err);
    score_plan_release(&s.plan);
    return status;
}

// --- the grid ------------------------------------------------------------------------------------

static int make_cells(struct scoring *s, struct err *err)
{
    const struct score_plan *p = &s->plan;
    struct job *j = s->grid.job;
    const struct proposal base = {
        .from = j->settings,
        .env = { .model = j->model, .backend = j->backend, .adapters = &s->grid.adapters },
        .all = true,
        .loaded = true,
    };
    struct settings **made = xcalloc(p->row_count + 1, sizeof *made);
    struct names notices = { 0 };
    int status = score_plan_settings(p, &base, made, &notices, err);
    for (size_t i = 0; i < notices.count; i++) job_log(j, "%s", notices.list[i]);
    names_release(&notices);
    for (size_t i = 0; i < p->row_count; i++) {
        for (size_t k = 0; k < p->sets.count && status == 0; k++) {
            char *name = xasprintf("%s %s", p->rows[i].name, p->sets.list[k].name);
            struct grid_cell *cell = grid_add(&s->grid, name, settings_copy(made[i]));
            cell->model = p->rows[i].model;
            cell->set = p->sets.list[k].options.set;
            free(name);
        }
        settings_free(made[i]);
    }
    free(made);
    return status;
}

static void no_report(struct evaluate_work *w, const struct evaluated *e)
{
}

// Evaluations change their options: each has a copy, which borrows from the plan's options.
static struct evaluate_work cell_work(const struct scoring *s, size_t cell)
{
    struct evaluate_work w = { .report = no_report, .data.file = -1 };
    const struct evaluate_options *o = &s->plan.sets.list[cell % s->plan.sets.count].options;
    w.options = *o;
    return w;
}

static void release_work(struct evaluate_work *w)
{
    w->options = (struct evaluate_options){ 0 }; // the plan owns the contents
    evaluate_work_release(w);
}

static const char kept_notices[] = "data.txt"; // name of the cell's file (grid_kept_file)

// Keeps the notices on a cell's data for the report: the cell may run in another process.
static void keep_notices(const struct scoring *s, size_t cell, const struct evaluation *e)
{
    char *path = grid_kept_file(&s->grid, cell, kept_notices);
    struct err err;
    if (ranks_number(s->grid.job->ranks) == 0) unlink(path); // of an earlier run
    if (e->notices && file_out_update(path, e->notices, strlen(e->notices), &err) < 0)
        job_log(s->grid.job, "the notices above are not in the results: %s", err.text);
    free(path);
}

static int run_cell(struct grid *g, size_t cell, struct err *err)
{
    const struct scoring *s = g->self;
    struct evaluate_work w = cell_work(s, cell);
    const int status = evaluate_cell(g, cell, &w, err);
    const struct evaluation_total *main = status == 0 ? evaluation_main(&w.result) : NULL;
    const char *row = s->plan.rows[cell / s->plan.sets.count].name;
    const char *set = s->plan.sets.list[cell % s->plan.sets.count].name;
    if (status < 0)
        job_log(g->job, "%s", (err_in(err, "%s, %s", row, set), err->text));
    else if (main && ranks_number(g->job->ranks) == 0)
        job_log(g->job, "%s, %s: %s %.6g, n %lld%s%s%s%s", row, set, main->metric->name,
                main->tally.scores.mean, (long long)main->tally.scores.count,
                w.result.skipped ? "; not scored, for instance: " : "",
                w.result.why ? w.result.why : "", w.result.notices ? "; " : "",
                w.result.notices ? w.result.notices : "");
    if (status == 0) keep_notices(s, cell, &w.result);
    release_work(&w);
    return status;
}

// After a failed cell, the next cell can run unless the job was stopped.
static bool broken(const struct grid *g)
{
    return grid_stopped(g);
}

static const struct grid_plan plan = { .run = run_cell, .broken = broken };

// --- the table -----------------------------------------------------------------------------------

enum {
    SAMPLES_MAX = 10000000, // of a set; larger numbers in a file mean that it is damaged
    NOTICES_MAX = 1 << 20   // bytes
};

struct answers {
    struct score_answer *list;
    size_t count, capacity;
    bool damaged; // a line belongs to no sample
};

static void take_answer(struct evaluate_work *w, const struct evaluated *e)
{
    struct answers *a = w->self;
    a->damaged |= e->done > SAMPLES_MAX;
    a->list = xgrow(a->list, &a->capacity, a->count, sizeof *a->list);
    a->list[a->count++] = (struct score_answer){ e->done, e->metric, e->score };
}

static void add_remarks(struct scoring *s, const char *row, const char *set,
                        const struct evaluation *e)
{
    for (size_t k = 0; k < EVALUATION_REMARKS; k++) {
        char *text = evaluation_remarks[k].text(e);
        if (text && !s->remarked[k].cells++)
            s->remarked[k].first = xasprintf("%s, %s: %s", row, set, text);
        free(text);
    }
}

static int add_cell(struct scoring *s, size_t cell, struct score_table *t, struct err *err)
{
    struct answers a = { 0 };
    struct evaluate_work w = cell_work(s, cell);
    const struct score_row *row = &s->plan.rows[cell / s->plan.sets.count];
    const char *set = s->plan.sets.list[cell % s->plan.sets.count].name;
    char *kept = grid_kept_file(&s->grid, cell, evaluate_kept);
    char *notices = grid_kept_file(&s->grid, cell, kept_notices);
    int status = 0;
    w.take = take_answer;
    w.self = &a;
    if (!s->grid.cells[cell].why) status = evaluate_work_read(&w, kept, err);
    if (status == 0) w.result.notices = file_read(notices, NOTICES_MAX, NULL, NULL);
    a.damaged |= w.result.samples > SAMPLES_MAX;
    if (status == 0 && a.damaged)
        status = err_set(err, "'%s': a line has no valid sample number: delete the file", kept);
    if (status == 0) {
        score_table_add(t, row->name, row->step, set, &w.result, a.list, a.count);
        add_remarks(s, row->name, set, &w.result);
    }
    free(kept);
    free(notices);
    free(a.list);
    release_work(&w);
    return status;
}

static int write_tables(const struct scoring *s, const struct score_table *t, struct err *err)
{
    struct csv wide = { 0 }, each = { 0 }, compared = { 0 };
    score_table_wide(t, &wide);
    score_table_long(t, &each);
    for (size_t i = 0; i < s->plan.compare_count; i++)
        score_table_compare(t, s->plan.compares[i].from, s->plan.compares[i].to, &compared);
    char *scores = xasprintf("%s/scores.csv", s->o.out);
    char *table = xasprintf("%s/table", s->o.out);
    char *compare = xasprintf("%s/compare.csv", s->o.out);
    int status = csv_write(&each, scores, err);
    if (status == 0) status = csv_write_documents(&wide, table, err);
    if (status == 0 && s->plan.compare_count) status = csv_write(&compared, compare, err);
    if (!s->plan.compare_count) unlink(compare); // left by an earlier plan
    free(scores);
    free(table);
    free(compare);
    csv_release(&wide);
    csv_release(&each);
    csv_release(&compared);
    return status;
}

static int report(struct scoring *s, struct err *err)
{
    struct score_table t = { 0 };
    struct job *j = s->grid.job;
    size_t failed = 0, first = 0;
    int status = 0;
    for (size_t i = 0; i < s->grid.count && status == 0; i++) {
        if (s->grid.cells[i].why && !failed++) first = i;
        status = add_cell(s, i, &t, err);
    }
    score_table_finish(&t);
    if (status == 0) status = write_tables(s, &t, err);
    job_result(j, "rows", "%zu", t.rows.count);
    job_result(j, "sets", "%zu", s->plan.sets.count);
    if (status == 0) job_result(j, "table", "%s/table.csv", s->o.out);
    for (size_t k = 0; k < EVALUATION_REMARKS; k++)
        if (s->remarked[k].cells)
            job_result(j, evaluation_remarks[k].key, "in %zu of %zu cell%s, the first: %s",
                       s->remarked[k].cells, s->grid.count, s->grid.count == 1 ? "" : "s",
                       s->remarked[k].first);
    score_table_release(&t);
    if (status == 0 && failed)
        return err_set(err,
                       "%zu of %zu cells failed, the first: %s; the others are in '%s/table.md'",
                       failed, s->grid.count, s->grid.cells[first].why, s->o.out);
    return status;
}

// --- the job -------------------------------------------------------------------------------------

static int run(struct job *j, struct err *err)
{
    struct scoring s = { .grid = grid_of_job(j) };
    int lock = -1, status = read_options(&s, j->argc, j->argv, err);
    char *cells = xasprintf("%s/cells", status == 0 ? s.o.out : "");
    const bool first = ranks_number(j->ranks) == 0;
    s.grid.self = &s;
    s.grid.folder = cells;
    for (size_t i = 0; i < s.plan.sets.others.count && first; i++)
        job_log(j, "not an evaluation set: %s", s.plan.sets.others.list[i]);
    if (status == 0 && first) status = open_folder(&s, &lock, err);
    if (status == 0) status = make_cells(&s, err);
    if (status == 0) status = grid_run(&s.grid, &plan, err);
    if (status == 0 && first) status = report(&s, err);
    if (lock >= 0) close(lock);
    for (size_t k = 0; k < EVALUATION_REMARKS; k++) free(s.remarked[k].first);
    grid_release(&s.grid);
    score_plan_release(&s.plan);
    free(cells);
    return status;
}

// "12 rows, 3 sets; table in 'OUT/table.csv'", then why samples were not scored, and the notices
// about the data
static char *outcome(const struct job_end *end)
{
    const char *n = job_end_value(end, "rows"), *sets = job_end_value(end, "sets");
    const char *table = job_end_value(end, "table"), *skipped = job_end_value(end, "skipped");
    const char *data = job_end_value(end, "data");
    if (!n || !sets || !table) return NULL;
    return xasprintf("%s row%s, %s set%s; table in '%s'%s%s%s%s", n, strcmp(n, "1") ? "s" : "",
                     sets, strcmp(sets, "1") ? "s" : "", table, skipped ? "; not scored: " : "",
                     skipped ? skipped : "", data ? "; data: " : "", data ? data : "");
}

static void show(const struct job_end *end, struct sinks *sinks)
{
    struct csv t;
    const char *table = job_end_value(end, "table");
    if (!table || csv_read(&t, table, NULL) < 0) return;
    csv_emit(&t, "scores", sinks);
    csv_release(&t);
}

const struct job_kind job_kind_scores = {
    .name = "scores",
    .needs_model = true,
    .in_ranks = true,
    .check = check,
    .run = run,
    .outcome = outcome,
    .show = show,
};
