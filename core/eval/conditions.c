// core/eval/conditions.c -- a probe under several conditions, each a cell of a grid.
#include "core/eval/conditions.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/engine/engine.h"
#include "core/eval/grid.h"
#include "core/probes/kit.h"

struct measured_conditions {
    const struct score_plan *rows;
    const struct measure_request *request;
    struct results *list; // [row_count]
    // The samples of the first row, to which the other rows are paired.
    struct first_sample {
        int64_t index;
        struct results results;
    } * first;
    size_t first_count, first_capacity;
    size_t row, at;                  // the open row; its position in `first`
    struct results_mean differences; // of the open row
};

static void take_sample(void *self, int64_t index, const struct results *one)
{
    struct measured_conditions *c = self;
    if (!c->row) {
        c->first = xgrow(c->first, &c->first_capacity, c->first_count, sizeof *c->first);
        c->first[c->first_count] = (struct first_sample){ .index = index };
        results_copy(&c->first[c->first_count++].results, one);
        return;
    }
    struct results difference = { 0 };
    while (c->at < c->first_count && c->first[c->at].index < index) c->at++;
    if (c->at == c->first_count || c->first[c->at].index != index) return;
    results_copy(&difference, one);
    results_subtract(&difference, &c->first[c->at].results);
    results_mean_add(&c->differences, &difference);
    results_release(&difference);
}

// Adds the means of the paired differences, without their deviations: the intervals say more.
static void add_differences(struct measured_conditions *c, struct results *r)
{
    struct results means = { 0 }, rest = { 0 };
    const int64_t pairs = c->differences.samples;
    results_mean_take(&c->differences, &means);
    for (size_t i = 0; i < means.table_count; i++) {
        struct results *to =
            text_ends(means.tables[i]->name, RESULTS_DIFFERENCE ".std") ? &rest : r;
        struct results one = { .tables = &means.tables[i], .table_count = 1 };
        results_copy(to, &one);
    }
    results_note(r, "differences from %s: means over %lld pair%s", c->rows->rows[0].name,
                 (long long)pairs, pairs == 1 ? "" : "s");
    results_release(&rest);
    results_release(&means);
}

static int measure_row(struct grid *g, size_t cell, struct err *err)
{
    struct measured_conditions *c = g->self;
    struct measure_request request = *c->request;
    const bool paired = request.set.data && c->rows->row_count > 1;
    if (paired) request.sample = take_sample, request.self = c;
    c->row = cell;
    c->at = 0;
    int status = grid_use(g, cell, err);
    if (status == 0)
        status = engine_measure_as(g->engine, g->model, g->cells[cell].settings, &g->tensors,
                                   &request, &c->list[cell], err);
    if (status < 0) return err_in(err, "%s", c->rows->rows[cell].name);
    if (paired && cell) add_differences(c, &c->list[cell]);
    return 0;
}

// Adds the correlation of two columns; each row of each condition is a point.
static void correlate(const struct probe *probe, struct results *r)
{
    const char *const *columns = probe->correlate.columns;
    const struct result_table *t = results_find(r, probe->correlate.table);
    int at[2] = { 0 };
    for (int k = 0; k < 2; k++)
        for (int i = 1; i < t->column_count; i++)
            if (!strcmp(t->columns[i], columns[k])) at[k] = i - 1;
    struct point *points = xcalloc(t->row_count + 1, sizeof *points);
    for (size_t i = 0; i < t->row_count; i++)
        points[i] = (struct point){ t->rows[i].value[at[0]], t->rows[i].value[at[1]] };
    const struct correlation c = rank_correlate(points, t->row_count);
    char *name = xasprintf("%s.correlation", t->name);
    char *what =
        xasprintf("Spearman of %s and %s over layers and conditions", columns[0], columns[1]);
    struct result_table *to = results_table(r, name, "what|value");
    put_correlation(to, what, &c);
    result_row(to, "points")[0] = (double)t->row_count;
    for (size_t i = 0; i < to->row_count; i++) to->rows[i].condition = RESULTS_ALL;
    free(points);
    free(name);
    free(what);
}

// Unloads the adapters that were not loaded before.
static void unload(struct engine *e, const struct names *adapters, size_t before)
{
    const struct adapters *loaded = engine_adapters(e);
    struct err ignored;
    for (size_t i = 0; i < adapters->count; i++) {
        const struct adapter *a = adapters_find(loaded, adapters->list[i]);
        size_t at = 0;
        while (at < loaded->count && loaded->list[at] != a) at++;
        if (a && at >= before) engine_adapter_unload(e, adapters->list[i], &ignored);
    }
}

int conditions_measure(struct engine *e, const struct score_plan *rows,
                       const struct measure_request *request, struct results *results,
                       struct err *err)
{
    static const struct grid_plan plan = { .run = measure_row };
    const size_t count = rows->row_count, before = engine_adapters(e)->count;
    struct measured_conditions c = { .rows = rows, .request = request };
    struct settings **made = xcalloc(count + 1, sizeof *made);
    const char **titles = xcalloc(count + 1, sizeof *titles);
    struct names notices = { 0 }, adapters = { 0 };
    struct grid g = grid_of_engine(e);
    g.self = &c;
    c.list = xcalloc(count + 1, sizeof *c.list);
    const struct proposal base = {
        .from = engine_settings(e),
        .all = true,
        // The proposals read the rows' adapters into the engine's list.
        .env = { .model = (struct model *)(uintptr_t)engine_model(e),
                 .backend = engine_backend(e),
                 .adapters = (struct adapters *)(uintptr_t)engine_adapters(e) },
    };
    int status = score_plan_settings(rows, &base, made, &notices, err);
    for (size_t i = 0; i < notices.count; i++) sinks_notice(engine_sinks(e), "%s", notices.list[i]);
    for (size_t i = 0; i < count; i++) {
        if (status == 0) {
            names_add(&adapters, settings_text(made[i], "adapter"), NULL);
            grid_add(&g, rows->rows[i].name, settings_copy(made[i]))->model = rows->rows[i].model;
        }
        titles[i] = rows->rows[i].name;
        settings_free(made[i]);
    }
    if (status == 0) status = grid_run(&g, &plan, err);
    if (status == 0) results_join(results, titles, c.list, count);
    if (status == 0 && count > 1 && request->probe->correlate.table)
        correlate(request->probe, results);
    grid_release(&g);
    unload(e, &adapters, before);
    for (size_t i = 0; i < c.first_count; i++) results_release(&c.first[i].results);
    for (size_t i = 0; i < count; i++) results_release(&c.list[i]);
    struct results none = { 0 };
    results_mean_take(&c.differences, &none);
    results_release(&none);
    names_release(&notices);
    names_release(&adapters);
    free(c.first);
    free(c.list);
    free(titles);
    free(made);
    return status;
}
