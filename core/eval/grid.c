// core/eval/grid.c -- opens the cells of a grid, finds what was kept of them, and runs them.
#include "core/eval/grid.h"

#include <stdlib.h>
#include <string.h>

#include "core/adapter/provenance.h"
#include "core/base/mem.h"
#include "core/engine/engine.h"
#include "core/jobs/job.h"
#include "core/methods/method.h"
#include "core/ranks/ranks.h"

struct grid grid_of_job(struct job *j)
{
    return (struct grid){ .model = j->model, .backend = j->backend, .job = j };
}

struct grid grid_of_engine(struct engine *e)
{
    return (struct grid){ .model = engine_model(e), .backend = engine_backend(e), .engine = e };
}

void grid_add(struct grid *g, const char *name, struct settings *settings)
{
    g->cells = xreallocarray(g->cells, g->count + 1, sizeof *g->cells);
    g->cells[g->count++] =
        (struct grid_cell){ .name = name ? xstrdup(name) : NULL, .settings = settings };
}

// The checkpoint of a job's cell; *a NULL: none.
static int open_adapter(struct grid *g, const struct grid_cell *c, struct adapter **a,
                        struct err *err)
{
    *a = NULL;
    if (settings_is(c->settings, "adapter", "none")) return 0;
    *a = adapters_open(&g->adapters, settings_text(c->settings, "adapter"), false, g->job->model,
                       err);
    return *a ? 0 : -1;
}

int grid_use(struct grid *g, size_t cell, struct method_tensors *tensors, struct err *err)
{
    const struct settings *s = g->cells[cell].settings;
    struct adapter *a;
    if (g->engine) return engine_lend(g->engine, s, tensors, err);
    if (open_adapter(g, &g->cells[cell], &a, err) < 0) return -1;
    adapters_use(&g->adapters, a, s);
    *tensors = adapter_tensors(a);
    return 0;
}

const atomic_bool *grid_cancel(const struct grid *g)
{
    return g->job ? &g->job->cancel : engine_cancel_flag(g->engine);
}

// What the cells are computed with: with several, keys begin with a cell's name.
static int find_provenance(struct grid *g, struct provenance *p, struct err *err)
{
    *p = (struct provenance){ 0 };
    for (size_t i = 0; i < g->count; i++) {
        const struct grid_cell *c = &g->cells[i];
        struct adapter *a;
        struct provenance one;
        if (open_adapter(g, c, &a, err) < 0) return -1;
        provenance_of_scores(&one,
                             &(struct provenance_env){ g->model, a, g->backend, c->settings });
        char *prefix = c->name ? xasprintf("%s ", c->name) : xstrdup("");
        provenance_join(p, prefix, &one);
        provenance_release(&one);
        free(prefix);
    }
    return 0;
}

FILE *grid_keep(struct grid *g, const char *file, struct job_data of, job_data_take *take,
                void *self, struct err *err)
{
    struct provenance now;
    char *path = xasprintf("%s/%s", g->job->state, file);
    FILE *f = NULL;
    of.path = path;
    of.provenance = &now;
    if (find_provenance(g, &now, err) == 0)
        f = job_data_open(&of, g->job->resumed, take, self, err);
    provenance_release(&now);
    free(path);
    return f;
}

// --- the runner ----------------------------------------------------------------------------------

// The cells of this rank's group, one after the other.
static int run_cells(struct grid *g, const struct grid_plan *plan, struct err *err)
{
    for (size_t i = g->group; i < g->count; i += plan->together ? g->count : g->groups) {
        const int kept = plan->kept ? plan->kept(g, i, err) : 0;
        const int status = kept ? (kept < 0 ? -1 : 0) : plan->run(g, i, err);
        if (status == JOB_STOPPED) return status;
        if (status < 0 && (!plan->broken || plan->broken(g))) return -1;
        if (status < 0) g->cells[i].why = xstrdup(err->text);
    }
    return 0;
}

// Why cells failed, as the first rank of their group says it.
static void share_failures(struct grid *g)
{
    const size_t ranks = (size_t)ranks_count(g->job->ranks);
    for (size_t i = 0; i < g->count; i++) {
        struct err why = { 0 };
        const size_t first = (i % g->groups * ranks + g->groups - 1) / g->groups;
        if (g->cells[i].why) err_set(&why, "%s", g->cells[i].why);
        ranks_share(g->job->ranks, &why, sizeof why, (int)first);
        if (*why.text && !g->cells[i].why) g->cells[i].why = xstrdup(why.text);
    }
}

int grid_run(struct grid *g, const struct grid_plan *plan, struct err *err)
{
    struct job *j = g->job;
    struct ranks *all = j ? j->ranks : NULL;
    if (!g->groups) g->groups = 1;
    if (!all || g->count == 1 || plan->together) return run_cells(g, plan, err);
    g->group = (size_t)ranks_number(all) * g->groups / (size_t)ranks_count(all);
    j->ranks = ranks_part(all, (int)g->group);
    if (g->group && ranks_number(j->ranks) == 0) j->report_too(j, (int)g->group);
    const int status = run_cells(g, plan, err);
    if (status < 0) return -1; // it ends all ranks
    if (j->lost && *j->lost->text)
        return err_set(err, "the job's output cannot be saved: %s", j->lost->text);
    // If one group was stopped after another one had finished, all stop.
    const bool stopped = status == JOB_STOPPED;
    double any[] = { stopped, stopped && job_stopped(j) == JOB_CANCEL };
    ranks_sum_doubles(all, any, 2);
    ranks_part_close(j->ranks);
    j->ranks = all;
    if (any[1] > 0) atomic_store(&j->cancel, true); // rank 0 may have come to its end before
    if (any[0] > 0) return JOB_STOPPED;
    share_failures(g);
    return 0;
}

void grid_release(struct grid *g)
{
    if (g->engine) engine_lend(g->engine, NULL, NULL, NULL);
    for (size_t i = 0; i < g->count; i++) {
        free(g->cells[i].name);
        settings_free(g->cells[i].settings);
        free(g->cells[i].why);
    }
    free(g->cells);
    adapters_release(&g->adapters);
    *g = (struct grid){ 0 };
}

// --- rounds --------------------------------------------------------------------------------------

bool grid_deals(int64_t sample, int team, int number)
{
    return sample / GRID_IN_A_ROW % team == number;
}

bool grid_ends_round(int64_t samples, int team)
{
    return samples % ((int64_t)GRID_IN_A_ROW * team) == 0;
}

void grid_gather(struct ranks *ranks, struct buf *kept)
{
    struct buf all = { 0 };
    if (!ranks) return;
    for (int k = 0; k < ranks_count(ranks); k++) {
        const bool own = k == ranks_number(ranks);
        size_t size = own ? kept->length : 0;
        ranks_share(ranks, &size, sizeof size, k);
        char *bytes = own ? kept->data : xmalloc(size + 1);
        if (size) ranks_share(ranks, bytes, size, k);
        if (size) buf_add(&all, bytes, size);
        if (!own) free(bytes);
    }
    buf_release(kept);
    *kept = all;
}
