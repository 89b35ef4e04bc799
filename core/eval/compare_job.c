// core/eval/compare_job.c -- the job `compare`: a data set under two sets of settings.
//
// Its arguments are KEY=VALUE ... | KEY=VALUE ... | DATA options; the command replaces presets with
// their values. STATE/compare.jsonl has a line for each sample that both sides have processed; a
// resumed job continues after the last of these samples.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/event.h"
#include "core/engine/presets.h"
#include "core/engine/proposal.h"
#include "core/eval/compare_data.h"
#include "core/eval/compare_results.h"
#include "core/eval/evaluate_job.h"
#include "core/eval/grid.h"
#include "core/jobs/job.h"
#include "core/probes/results.h"

struct comparing_job {
    struct grid grid;
    char *title[2];
    struct compare_work work;
};

// --- arguments -----------------------------------------------------------------------------------

// Reads "KEY=VALUE ..." up to the bar into a cell of the grid. Returns the number of words, or -1.
static int read_side(struct comparing_job *c, int side, struct proposal p, int argc, char **argv,
                     struct err *err)
{
    static const char *const names[] = { "A", "B" };
    struct preset_values said = { 0 };
    struct buf title = { 0 };
    int used = 0, status = 0;
    for (; used < argc && strcmp(argv[used], "|") != 0 && status == 0; used++) {
        status = preset_add_word(&said, argv[used], err);
        buf_printf(&title, "%s%s", used ? " " : "", argv[used]);
    }
    if (status == 0 && used == argc)
        status = err_set(err, "a comparison needs SETTINGS | SETTINGS | DATA");
    if (status == 0 && (status = proposal_check(&p, said.list, said.count, err)) == 0) {
        c->title[side] = compare_title(title.length ? title.data : "now", &said, p.env.settings);
        grid_add(&c->grid, names[side], p.env.settings);
        p.env.settings = NULL; // now owned by the grid
    }
    proposal_release(&p);
    preset_values_release(&said);
    buf_release(&title);
    return status < 0 ? -1 : used;
}

// Reads both sides and the options. `p`: the settings that both sides start from.
static int read_words(struct comparing_job *c, struct proposal p, int argc, char **argv,
                      struct err *err)
{
    for (int side = 0; side < 2; side++) {
        const int used = read_side(c, side, p, argc, argv, err);
        if (used < 0) return -1;
        argc -= used + 1;
        argv += used + 1;
    }
    const int status = evaluate_options_read(&c->work.options, argc, argv, err);
    for (int side = 0; side < 2; side++) c->grid.cells[side].set = c->work.options.set;
    return status;
}

static void release(struct comparing_job *c)
{
    for (int k = 0; k < 2; k++) free(c->title[k]);
    evaluate_options_release(&c->work.options);
    compared_data_release(&c->work.result);
    grid_release(&c->grid);
}

// Checks the arguments; the command has checked both sides with the shell's model.
static int check(int argc, char **argv, const struct settings *settings, const struct model *model,
                 struct err *err)
{
    struct comparing_job c = { 0 };
    const struct evaluate_options *o = &c.work.options;
    int status = read_words(&c, (struct proposal){ .from = settings }, argc, argv, err);
    if (status == 0 && o->answers)
        status = err_set(err, "--answers is an option of /eval, not of /compare");
    if (status == 0 && o->kinds.count)
        status = err_set(err, "--kind is an option of /eval, not of /compare");
    if (status == 0) status = evaluate_options_check(o, err);
    release(&c);
    return status;
}

// --- the job -------------------------------------------------------------------------------------

// Reports the main numbers as results, and the tables.
static void report(const struct comparing_job *c)
{
    struct job *j = c->grid.job;
    const struct compared_data *d = &c->work.result;
    const char *const title[] = { c->title[0], c->title[1] };
    struct results r = { 0 };
    struct buf json = { 0 };
    compare_data_results(&r, title, d);
    results_note(&r, "over %lld sample%s of %s (job %lld)", (long long)d->evaluation[0].samples,
                 d->evaluation[0].samples == 1 ? "" : "s", c->work.options.set.data,
                 (long long)j->id);
    job_result(j, "A", "%s", title[0]);
    job_result(j, "B", "%s", title[1]);
    for (size_t i = 0; i < r.table_count; i++)
        for (size_t k = 0; !r.tables[i]->curve && k < r.tables[i]->row_count; k++) {
            const struct result_row *row = &r.tables[i]->rows[k];
            if (i == 0)
                job_result(j, row->key, "%.6g | %.6g", row->value[0], row->value[1]);
            else if (isfinite(row->value[0]))
                job_result(j, row->key, "%.6g", row->value[0]);
        }
    char *notices = compare_data_notices(d);
    if (notices) job_result(j, "data", "%s", notices);
    free(notices);
    compare_data_results_questions(&r, d);
    results_json(&r, &json);
    sinks_emit(j->sinks,
               &(struct event){ .kind = EVENT_MEASURED, .key = "compare", .text = json.data });
    buf_release(&json);
    results_release(&r);
}

static int run(struct job *j, struct err *err)
{
    struct comparing_job c = { .grid = grid_of_job(j) };
    const struct proposal p = {
        .from = j->settings,
        .env = { .model = j->model, .backend = j->backend, .adapters = &c.grid.adapters },
        .all = true,
        .loaded = true // reads the adapter that the settings name
    };
    c.grid.self = &c.work;
    int status = read_words(&c, p, j->argc, j->argv, err);
    if (status == 0 && (status = grid_run(&c.grid, &compare_plan, err)) == 0) report(&c);
    release(&c);
    return status;
}

// Returns a text such as "exact: 0.82 | 0.79; Hellinger distance, mean 0.031 (/results compare)".
// The scores are in the result that follows B's title.
static char *outcome(const struct job_end *end)
{
    static const char distance[] = "Hellinger distance, mean";
    const char *far = job_end_value(end, distance), *notices = job_end_value(end, "data");
    struct buf b = { 0 };
    for (size_t i = 1; i + 1 < end->count && !b.length; i++)
        if (!strcmp(end->results[i].key, "B"))
            buf_printf(&b, "%s: %s", end->results[i + 1].key, end->results[i + 1].value);
    if (far) buf_printf(&b, "; %s %s", distance, far);
    if (b.length) buf_puts(&b, " (/results compare)");
    if (b.length && notices) buf_printf(&b, "; %s", notices);
    return b.length ? buf_take(&b) : NULL;
}

const struct job_kind job_kind_compare = {
    .name = "compare",
    .needs_model = true,
    .check = check,
    .run = run,
    .outcome = outcome,
};
