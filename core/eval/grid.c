// core/eval/grid.c -- opens the cells of a grid, continues their kept lines, and runs them.
#include "core/eval/grid.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/adapter/provenance.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/engine/engine.h"
#include "core/files/content.h"
#include "core/jobs/job.h"
#include "core/model/model.h"
#include "core/ranks/ranks.h"

enum { NAME_MAX_LENGTH = 60 };

struct grid grid_of_job(struct job *j)
{
    return (struct grid){ .model = j->model, .backend = j->backend, .job = j, .sinks = j->sinks };
}

struct grid grid_of_engine(struct engine *e)
{
    return (struct grid){ .model = engine_model(e),
                          .backend = engine_backend(e),
                          .engine = e,
                          .sinks = engine_sinks(e),
                          .reported = clock_seconds() };
}

// Makes a file name that does not begin with a dot. The same cells in the same order get the same
// names.
static char *make_name(const struct grid *g, const char *text)
{
    struct buf b = { 0 };
    for (size_t i = 0; text[i] && b.length < NAME_MAX_LENGTH; i++) {
        const bool plain =
            isalnum((unsigned char)text[i]) || strchr("+-_", text[i]) || (text[i] == '.' && i > 0);
        buf_putc(&b, plain ? text[i] : '_');
    }
    if (!b.length) buf_putc(&b, '_');
    char *plain = buf_take(&b), *name = xstrdup(plain);
    for (int number = 2;; number++) {
        bool taken = g->reserved && text_listed(g->reserved, name);
        for (size_t i = 0; i < g->count; i++) taken |= !strcmp(g->cells[i].name, name);
        if (!taken) break;
        free(name);
        name = xasprintf("%s-%d", plain, number);
    }
    free(plain);
    return name;
}

struct grid_cell *grid_add(struct grid *g, const char *name, struct settings *settings)
{
    char *own = name ? make_name(g, name) : NULL;
    g->cells = xreallocarray(g->cells, g->count + 1, sizeof *g->cells);
    g->cells[g->count] = (struct grid_cell){ .name = own, .settings = settings };
    return &g->cells[g->count++];
}

// --- opening a cell ------------------------------------------------------------------------------

static bool same_text(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

// Loads the model of a cell, and frees the one loaded for another cell.
static int open_model(struct grid *g, const char *name, struct err *err)
{
    struct load_progress progress = { 0 };
    if (same_text(name, g->loaded_from)) return 0;
    if (g->engine) progress = engine_progress(g->engine, "loading");
    adapters_release(&g->adapters);
    model_free(g->loaded);
    g->loaded = name ? model_load(name, g->backend, g->engine ? &progress : NULL, err) : NULL;
    g->loaded_from = g->loaded ? name : NULL;
    g->model = g->loaded ? g->loaded : g->engine ? engine_model(g->engine) : g->job->model;
    return name && !g->loaded ? -1 : 0;
}

// Opens the checkpoint of a cell whose model is open; *a NULL: the cell has none.
static int open_adapter(struct grid *g, const struct grid_cell *c, struct adapter **a,
                        struct err *err)
{
    *a = NULL;
    if (settings_is(c->settings, "adapter", "none")) return 0;
    *a = adapters_open(&g->adapters, settings_text(c->settings, "adapter"), false,
                       g->loaded ? g->loaded : g->job->model, err);
    return *a ? 0 : -1;
}

int grid_use(struct grid *g, size_t cell, struct err *err)
{
    const struct grid_cell *c = &g->cells[cell];
    struct adapter *a;
    if (open_model(g, c->model, err) < 0) return -1;
    if (g->engine && !g->loaded) return engine_lend(g->engine, c->settings, &g->tensors, err);
    if (open_adapter(g, c, &a, err) < 0) return -1;
    adapters_use(&g->adapters, a, c->settings);
    g->tensors = adapter_tensors(a);
    return 0;
}

// --- kept lines ----------------------------------------------------------------------------------

// Finds the provenance of the open cell, or of all cells if they run together, with each cell's
// name before its keys.
static int find_provenance(struct grid *g, size_t cell, struct provenance *p, struct err *err)
{
    *p = (struct provenance){ 0 };
    for (size_t i = g->together ? 0 : cell; i < (g->together ? g->count : cell + 1); i++) {
        const struct grid_cell *c = &g->cells[i];
        struct adapter *a;
        struct provenance one;
        if (open_adapter(g, c, &a, err) < 0) return -1;
        provenance_of_scores(&one,
                             &(struct provenance_env){ g->model, a, g->backend, c->settings });
        char *prefix = g->together ? xasprintf("%s ", c->name) : xstrdup("");
        provenance_join(p, prefix, &one);
        provenance_release(&one);
        free(prefix);
    }
    return 0;
}

static const char *folder_of(const struct grid *g)
{
    return g->folder ? g->folder : g->job->state;
}

char *grid_kept_file(const struct grid *g, size_t cell, const char *file)
{
    const char *name = g->together ? NULL : g->cells[cell].name;
    return xasprintf("%s/%s%s%s", folder_of(g), name ? name : "", name ? "." : "", file);
}

int grid_keep(struct grid *g, size_t cell, const char *file, struct job_data of,
              job_data_take *take, void *self, struct err *err)
{
    if (!g->job || ranks_number(g->job->ranks) > 0) return 0;
    struct provenance now;
    char *path = grid_kept_file(g, cell, file);
    of.path = path;
    of.provenance = &now;
    if (find_provenance(g, cell, &now, err) == 0)
        g->state = job_data_open(&of, g->folder || g->job->resumed, take, self, err);
    provenance_release(&now);
    free(path);
    return g->state ? 0 : -1;
}

int grid_agree(struct grid *g, int status, struct err *err)
{
    g->in_step = true;
    return ranks_agree(g->job ? g->job->ranks : NULL, status, err);
}

static int write_failed(const struct grid *g, struct err *err)
{
    return err_set(err, "cannot write the job's state in '%s': %s", folder_of(g), strerror(errno));
}

int grid_keep_line(struct grid *g, cJSON *line, struct err *err)
{
    return job_data_add(g->state, line) ? 0 : write_failed(g, err);
}

static int close_state(struct grid *g, bool complete, struct err *err)
{
    FILE *f = g->state;
    if (!f) return 0;
    const bool ended = !complete || job_data_end(f);
    g->state = NULL;
    return fclose(f) == 0 && ended ? 0 : write_failed(g, err);
}

// --- progress ------------------------------------------------------------------------------------

// Reports the progress of group 0 as that of all groups.
void grid_report(struct grid *g, struct event_progress p)
{
    const size_t mine = g->mine ? g->mine : 1; // a table of one cell does not call run_cells
    const double after = (double)(mine - g->at - 1), spent = clock_seconds() - g->begun;
    if (g->group) return;
    p.step += (double)g->at * p.steps;
    p.steps *= (double)mine;
    if (after > 0) p.eta_s += after * (spent + p.eta_s);
    if (g->groups > 1 && p.step >= p.steps) { // other groups may be far from done
        g->last = p;
        p.step = p.steps - 1;
        p.eta_s = NAN;
    }
    sinks_emit(g->sinks, &(struct event){ .kind = EVENT_PROGRESS, .progress = &p });
}

void grid_progress(struct grid *g, const char *doing, double done, double all)
{
    const struct job *j = g->job;
    const double now = clock_seconds();
    if (!j && done < all && now - g->reported < 0.2) return;
    g->reported = now;
    grid_report(g, (struct event_progress){ .job = j ? j->id : 0,
                                            .what = j && j->kind ? j->kind->name : doing,
                                            .step = done,
                                            .steps = all,
                                            .loss = NAN,
                                            .eta_s = pace_left(&g->pace, done, all) });
}

bool grid_stopped(const struct grid *g)
{
    return g->job ? job_stopped(g->job) != JOB_GO : engine_cancelled(g->engine);
}

const atomic_bool *grid_cancel(const struct grid *g)
{
    return g->job ? &g->job->cancel : engine_cancel_flag(g->engine);
}

// --- the runner ----------------------------------------------------------------------------------

// Groups the cells by model, then by checkpoint, in the order of their first appearance.
static size_t *order_cells(const struct grid *g)
{
    size_t *order = xcalloc(g->count + 1, sizeof *order), n = 0;
    bool *taken = xcalloc(g->count + 1, sizeof *taken);
    const struct grid_cell *c = g->cells;
    for (size_t m = 0; m < g->count; m++)
        for (size_t a = m; a < g->count; a++) {
            if (taken[a] || !same_text(c[a].model, c[m].model)) continue;
            for (size_t k = a; k < g->count; k++) {
                const char *adapter = settings_text(c[k].settings, "adapter");
                if (taken[k] || !same_text(c[k].model, c[m].model) ||
                    !settings_is(c[a].settings, "adapter", adapter))
                    continue;
                order[n++] = k;
                taken[k] = true;
            }
        }
    free(taken);
    return order;
}

// Runs the cells of this rank's group, one after the other.
static int run_cells(struct grid *g, const struct grid_plan *plan, const size_t *order,
                     struct err *err)
{
    const size_t count = plan->together ? 1 : g->count;
    g->mine = (count + g->groups - g->group - 1) / g->groups;
    for (g->at = 0; g->at < g->mine; g->at++) {
        const size_t cell = order[g->group + g->at * g->groups];
        const int kept = plan->kept ? plan->kept(g, cell, err) : 0;
        struct err later;
        g->begun = clock_seconds();
        g->in_step = false;
        int status = kept ? (kept < 0 ? -1 : 0) : plan->run(g, cell, err);
        if (close_state(g, status == 0, status < 0 ? &later : err) < 0) return -1;
        if (status == JOB_STOPPED) return status;
        const bool in_step = ranks_count(g->job ? g->job->ranks : NULL) == 1 || g->in_step;
        if (status < 0 && (!plan->broken || plan->broken(g) || !in_step)) return -1;
        if (status < 0) g->cells[cell].why = xstrdup(err->text);
    }
    return 0;
}

// Runs the groups of a job's ranks side by side.
static int run_groups(struct grid *g, const struct grid_plan *plan, const size_t *order,
                      struct err *err)
{
    struct job *j = g->job;
    struct ranks *all = j->ranks;
    g->group = (size_t)ranks_number(all) * g->groups / (size_t)ranks_count(all);
    struct err no_nccl = { 0 };
    j->ranks = ranks_part(all, (int)g->group, &no_nccl);
    if (g->group && ranks_number(j->ranks) == 0) j->report_part(j, (int)g->group);
    if (*no_nccl.text)
        sinks_notice(j->sinks,
                     "sums over the ranks of a part of the table go through host memory: %s",
                     no_nccl.text);
    const int status = run_cells(g, plan, order, err);
    if (status < 0) return -1; // ends all ranks
    if (j->write_error && *j->write_error->text)
        return err_set(err, "the job's output cannot be saved: %s", j->write_error->text);
    // If one group was stopped after another had finished, all stop.
    const bool stopped = status == JOB_STOPPED;
    double any[] = { stopped, stopped && job_stopped(j) == JOB_CANCEL };
    ranks_sum_doubles(all, any, 2);
    ranks_part_close(j->ranks);
    j->ranks = all;
    if (any[1] > 0)
        atomic_store(&j->cancel, true); // rank 0 may have finished before the cancellation
    if (any[0] > 0) return JOB_STOPPED;
    // Sends the errors of failed cells to all ranks, from the first rank of the cell's group.
    const size_t ranks = (size_t)ranks_count(all);
    for (size_t i = 0; i < g->count; i++) {
        struct grid_cell *c = &g->cells[order[i]];
        struct err why = { 0 };
        if (c->why) err_set(&why, "%s", c->why);
        ranks_share(all, &why, sizeof why,
                    (int)((i % g->groups * ranks + g->groups - 1) / g->groups));
        if (*why.text && !c->why) c->why = xstrdup(why.text);
    }
    if (g->last.steps > 0)
        sinks_emit(g->sinks, &(struct event){ .kind = EVENT_PROGRESS, .progress = &g->last });
    return 0;
}

int grid_run(struct grid *g, const struct grid_plan *plan, struct err *err)
{
    size_t *order = order_cells(g);
    const bool in_groups = g->job && g->job->ranks && g->count > 1 && !plan->together;
    if (!g->groups) g->groups = 1;
    g->together = plan->together;
    const int status = in_groups ? run_groups(g, plan, order, err) : run_cells(g, plan, order, err);
    free(order);
    return status;
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
    model_free(g->loaded);
    *g = (struct grid){ 0 };
}

// --- rounds --------------------------------------------------------------------------------------

bool grid_computes(int64_t sample, int team, int number)
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
