// core/compare/compare_job.c -- the job `compare`: a data set under two sets of settings.
//
// Its words are KEY=VALUE ... | KEY=VALUE ... | DATA options: presets are written out by whoever
// starts it. Each sample that both sides have gone through is a line of STATE/compare.jsonl; a
// resumed job goes on behind the last.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapters.h"
#include "core/adapter/provenance.h"
#include "core/base/pace.h"
#include "core/compare/compare_results.h"
#include "core/engine/proposal.h"
#include "core/eval/evaluate_job.h"
#include "core/jobs/job.h"

struct comparing_job {
    struct job *job;
    struct proposal side[2];
    char *title[2];
    struct evaluate_options options;
    struct adapters adapters;
    struct pace pace;
    bool counted; // the pace knows of the samples of earlier processes
};

// --- words ---------------------------------------------------------------------------------------

// "KEY=VALUE ..." up to the bar; how many words, or -1.
static int read_side(struct comparing_job *c, int side, int argc, char **argv, struct err *err)
{
    struct proposal *p = &c->side[side];
    struct preset_values said = { 0 };
    struct buf title = { 0 };
    int used = 0, status = 0;
    for (; used < argc && strcmp(argv[used], "|") != 0 && status == 0; used++) {
        status = preset_add_word(&said, argv[used], err);
        buf_printf(&title, "%s%s", used ? " " : "", argv[used]);
    }
    if (status == 0 && used == argc)
        status = err_set(err, "a comparison needs SETTINGS | SETTINGS | DATA");
    if (status == 0 && (status = proposal_check(p, said.list, said.count, err)) == 0)
        c->title[side] = compare_title(title.length ? title.data : "now", &said, p->env.settings);
    preset_values_release(&said);
    buf_release(&title);
    return status < 0 ? -1 : used;
}

static int read_words(struct comparing_job *c, int argc, char **argv, struct err *err)
{
    for (int side = 0; side < 2; side++) {
        const int used = read_side(c, side, argc, argv, err);
        if (used < 0) return -1;
        argc -= used + 1;
        argv += used + 1;
    }
    return evaluate_options_read(&c->options, argc, argv, err);
}

static void release(struct comparing_job *c)
{
    for (int k = 0; k < 2; k++) {
        proposal_release(&c->side[k]);
        free(c->title[k]);
    }
    evaluate_options_release(&c->options);
    adapters_release(&c->adapters);
}

// The shell has looked at both sides with its model; here their words are read.
static int check(int argc, char **argv, const struct settings *settings, const struct model *model,
                 struct err *err)
{
    struct comparing_job c = { .side = { { .from = settings }, { .from = settings } } };
    int status = read_words(&c, argc, argv, err);
    if (status == 0 && c.options.answers)
        status = err_set(err, "--answers is an option of /eval, not of /compare");
    if (status == 0 && c.options.kind_count)
        status = err_set(err, "--kind is an option of /eval, not of /compare");
    if (status == 0) status = evaluate_options_check(&c.options, err);
    release(&c);
    return status;
}

// --- the job -------------------------------------------------------------------------------------

static int use(void *self, const struct settings *s, struct method_tensors *tensors,
               struct err *err)
{
    struct comparing_job *c = self;
    struct adapter *a = c->side[s == c->side[1].env.settings].env.adapter;
    adapters_use(&c->adapters, a, s);
    *tensors = adapter_tensors(a);
    return 0;
}

static bool sampled(void *self, int64_t done, int64_t count)
{
    struct comparing_job *c = self;
    if (!c->counted) c->pace.from = (double)(done - 1);
    c->counted = true;
    job_progress(c->job, &c->pace, (double)done, (double)count, NAN);
    job_step(c->job, done);
    return job_stopped(c->job) == JOB_GO;
}

// The numbers one asks for first; the tables are kept too.
static void report(const struct comparing_job *c, const struct compared_data *d)
{
    struct job *j = c->job;
    const char *const title[] = { c->title[0], c->title[1] };
    struct results r = { 0 };
    struct buf json = { 0 };
    compare_data_results(&r, title, d);
    results_note(&r, "over %lld samples of %s (job %lld)", (long long)d->evaluation[0].samples,
                 c->options.data, (long long)j->id);
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

// What the sides are computed with: keys begin with "A " and "B ".
static void find_provenance(struct comparing_job *c, struct provenance *p)
{
    static const char *const prefix[] = { "A ", "B " };
    const struct job *j = c->job;
    *p = (struct provenance){ 0 };
    for (int k = 0; k < 2; k++) {
        const struct provenance_env env = { j->model, c->side[k].env.adapter, j->backend,
                                            c->side[k].env.settings };
        struct provenance side;
        provenance_of_scores(&side, &env);
        provenance_join(p, prefix[k], &side);
        provenance_release(&side);
    }
}

static int compare(struct comparing_job *c, const struct provenance *provenance, struct err *err)
{
    struct job *j = c->job;
    struct hooks hooks = { 0 };
    struct dataset data;
    struct compared_data d;
    if (evaluate_options_open(&c->options, &data, NULL, NULL, err) < 0) return -1;
    char *state = xasprintf("%s/compare.jsonl", j->state);
    job_hooks(j, &hooks);
    const struct compare_data_request r = {
        .request = { .model = j->model,
                     .backend = j->backend,
                     .settings = { c->side[0].env.settings, c->side[1].env.settings },
                     .use = use,
                     .self = c,
                     .cancel = &j->cancel },
        .data = &data,
        .limit = c->options.limit,
        .metric = c->options.metric,
        .hooks = &hooks,
        .state = state,
        .provenance = provenance,
        .resumed = j->resumed,
        .sampled = sampled,
    };
    c->pace = pace_from(0);
    int status = compare_data_run(&r, &d, err);
    if (status == 0) {
        if (d.stopped)
            status = JOB_STOPPED;
        else
            report(c, &d);
        compared_data_release(&d);
    }
    free(state);
    dataset_close(&data);
    return status;
}

static struct proposal proposal_of(const struct job *j, struct adapters *adapters)
{
    return (
        struct proposal){ .from = j->settings,
                          .env = { .model = j->model, .backend = j->backend, .adapters = adapters },
                          .all = true,
                          .loaded = true };
}

static int run(struct job *j, struct err *err)
{
    struct comparing_job c = { .job = j };
    struct provenance provenance = { 0 };
    for (int k = 0; k < 2; k++) c.side[k] = proposal_of(j, &c.adapters);
    int status = read_words(&c, j->argc, j->argv, err);
    if (status == 0) {
        find_provenance(&c, &provenance);
        status = compare(&c, &provenance, err);
    }
    provenance_release(&provenance);
    release(&c);
    return status;
}

// "score (exact): 0.82 | 0.79; Hellinger distance, mean 0.031 (/results compare)": what follows the
// two titles is the score of either side.
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
    .usage = "SETTINGS | SETTINGS | DATA [--limit N] [--metric M] [--images DIR]",
    .help = "Compares two sets of settings on a data set.",
    .needs_model = true,
    .check = check,
    .run = run,
    .outcome = outcome,
};
