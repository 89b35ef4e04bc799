// core/eval/conditions.c -- runs a probe under several conditions, each a cell of a grid.
#include "core/eval/conditions.h"

#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapter.h"
#include "core/base/names.h"
#include "core/base/text.h"
#include "core/engine/engine.h"
#include "core/eval/grid.h"
#include "core/probes/kit.h"

struct measured_row {
    struct results results;
    struct measured_sample {
        int64_t index;
        struct results results;
    } * samples; // of a data set, to pair with the same samples of other rows
    size_t count, capacity;
};

struct measured_conditions {
    const struct score_plan *rows;
    const struct measure_request *request;
    struct measured_row *row; // [row_count]
    size_t open;
};

static void take_sample(void *self, int64_t index, const struct results *one)
{
    const struct measured_conditions *c = self;
    struct measured_row *row = &c->row[c->open];
    row->samples = xgrow(row->samples, &row->capacity, row->count, sizeof *row->samples);
    row->samples[row->count] = (struct measured_sample){ .index = index };
    results_copy(&row->samples[row->count++].results, one);
}

static int measure_row(struct grid *g, size_t cell, struct err *err)
{
    struct measured_conditions *c = g->self;
    struct measure_request request = *c->request;
    if (request.set.data && c->rows->row_count > 1) request.sample = take_sample, request.self = c;
    c->open = cell;
    int status = grid_use(g, cell, err);
    if (status == 0)
        status = engine_measure_as(g->engine, g->model, g->cells[cell].settings, &g->tensors,
                                   &request, &c->row[cell].results, err);
    return status < 0 ? err_in(err, "%s", c->rows->rows[cell].name) : 0;
}

// --- differences and repetitions -----------------------------------------------------------------

// Returns the index of repetition `number` (from 0) of a name in the plan, or of its last
// repetition if it has fewer. *count (may be NULL) becomes the number of repetitions.
static size_t repetition(const struct score_plan *p, const char *name, size_t number, size_t *count)
{
    size_t found = 0, n = 0;
    for (size_t i = 0; i < p->row_count; i++) {
        if (strcmp(p->rows[i].name, name) != 0) continue;
        if (n++ <= number) found = i;
    }
    if (count) *count = n;
    return found;
}

// with: adds the tables whose names end in one of the texts `ends` (NULL-terminated). Otherwise
// adds all other tables.
static void add_tables(struct results *to, const struct results *from, const char *const *ends,
                       bool with)
{
    for (size_t i = 0; i < from->table_count; i++) {
        const struct results one = { .tables = &from->tables[i], .table_count = 1 };
        bool among = false;
        for (int k = 0; ends[k]; k++) among |= text_ends(from->tables[i]->name, ends[k]);
        if (among == with) results_copy(to, &one);
    }
}

// Subtracts from each sample of `row` the same sample of `from`, and adds the means of these
// differences to the row's results. Leaves out the standard deviations, because the intervals are
// more informative.
static void add_differences(struct measured_row *row, const struct measured_row *from,
                            const char *name)
{
    static const char *const ends[] = { RESULTS_DIFFERENCE ".std", NULL };
    struct results means = { 0 };
    struct results_mean differences = { 0 };
    for (size_t i = 0, at = 0; i < row->count; i++) {
        struct results one = { 0 };
        while (at < from->count && from->samples[at].index < row->samples[i].index) at++;
        if (at == from->count || from->samples[at].index != row->samples[i].index) continue;
        results_copy(&one, &row->samples[i].results);
        results_subtract(&one, &from->samples[at].results);
        results_mean_add(&differences, &one);
        results_release(&one);
    }
    const long long pairs = differences.samples;
    results_mean_take(&differences, &means);
    add_tables(&row->results, &means, ends, false);
    results_note(&row->results, "differences from %s: means over %lld pair%s", name, pairs,
                 pairs == 1 ? "" : "s");
    results_release(&means);
}

// Adds to each row whose name differs from the first row's its differences from the row that has
// the first row's name and the same repetition number.
static void find_differences(const struct measured_conditions *c)
{
    const struct score_plan *p = c->rows;
    const char *first = p->rows[0].name;
    for (size_t i = 0; i < p->row_count; i++) {
        size_t number = 0;
        for (size_t k = 0; k < i; k++) number += !strcmp(p->rows[k].name, p->rows[i].name);
        if (strcmp(p->rows[i].name, first) != 0)
            add_differences(&c->row[i], &c->row[repetition(p, first, number, NULL)], first);
    }
}

// Returns the mean over the repetitions of a name, with deviations and intervals over the
// repetitions.
static struct results mean_row(const struct measured_conditions *c, const char *name, size_t count)
{
    static const char *const ends[] = { ".std", RESULTS_INTERVAL, NULL };
    struct results_mean sums = { 0 };
    struct results mean = { 0 };
    for (size_t k = 0; k < count; k++) {
        struct results *of = &c->row[repetition(c->rows, name, k, NULL)].results, one = { 0 };
        add_tables(&one, of, ends, false);
        one.maps = of->maps, one.map_count = of->map_count;
        results_mean_add(&sums, &one);
        one.maps = NULL, one.map_count = 0;
        results_release(&one);
        for (size_t i = 0; i < of->note_count && !k; i++) results_note(&mean, "%s", of->notes[i]);
        for (size_t i = 0; i < of->table_count && !k; i++)
            if (of->tables[i]->own)
                results_note(
                    &mean,
                    "%s has no mean because its rows differ: measure one repetition to see it",
                    of->tables[i]->name);
        results_arithmetic(&mean, of->arithmetic, NULL);
    }
    results_mean_take(&sums, &mean);
    results_note(&mean, "mean over %zu repetitions, with deviations and intervals over them",
                 count);
    return mean;
}

// Joins the results of the rows; all rows of the same name become one condition.
static void join(const struct measured_conditions *c, struct results *results)
{
    const struct score_plan *p = c->rows;
    struct results *list = xcalloc(p->row_count + 1, sizeof *list);
    const char **names = xcalloc(p->row_count + 1, sizeof *names);
    size_t n = 0, count;
    if (c->request->set.data) find_differences(c);
    for (size_t i = 0; i < p->row_count; i++) {
        if (repetition(p, p->rows[i].name, 0, &count) != i) continue;
        names[n] = p->rows[i].name;
        list[n] = c->row[i].results;
        if (count > 1)
            list[n] = mean_row(c, names[n], count);
        else
            c->row[i].results = (struct results){ 0 };
        n++;
    }
    results_join(results, names, list, n);
    free(list);
    free(names);
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

// Unloads the adapters that the measurement has loaded, even if it failed. `before`: number of
// adapters that were loaded earlier.
static void unload(struct engine *e, size_t before)
{
    const struct adapters *loaded = engine_adapters(e);
    struct err ignored;
    while (loaded->count > before &&
           engine_adapter_unload(e, loaded->list[loaded->count - 1]->folder, &ignored) == 0)
        ;
}

// Drops rows before training (step 0) whose settings, such as ira.on, need trained parameters;
// never drops the only row. The rows are borrowed; the caller frees the list.
static struct score_plan leave_out_untrained(struct engine *e, const struct score_plan *rows,
                                             const struct proposal *base)
{
    struct score_plan kept = { .rows = xcalloc(rows->row_count + 1, sizeof *kept.rows) };
    for (size_t i = 0; i < rows->row_count; i++) {
        struct score_row *row = &rows->rows[i];
        const struct score_plan one = { .rows = row, .row_count = 1 };
        struct settings *made = NULL;
        struct names ignored = { 0 };
        struct err why;
        if (row->step || rows->row_count == 1 ||
            score_plan_settings(&one, base, &made, &ignored, &why) == 0)
            kept.rows[kept.row_count++] = *row;
        else
            sinks_notice(engine_sinks(e), "left out, before training: %s", why.text);
        settings_free(made);
        names_release(&ignored);
    }
    return kept;
}

int conditions_measure(struct engine *e, const struct score_plan *all,
                       const struct measure_request *request, struct results *results,
                       struct err *err)
{
    static const struct grid_plan plan = { .run = measure_row };
    const size_t before = engine_adapters(e)->count;
    struct names notices = { 0 };
    struct grid g = grid_of_engine(e);
    const struct proposal base = {
        .from = engine_settings(e),
        .all = true,
        // Making the proposals loads the rows' adapters into the engine's list.
        .env = { .model = (struct model *)(uintptr_t)engine_model(e),
                 .backend = engine_backend(e),
                 .adapters = (struct adapters *)(uintptr_t)engine_adapters(e) },
    };
    struct score_plan rows = leave_out_untrained(e, all, &base);
    const size_t count = rows.row_count;
    struct measured_conditions c = { .rows = &rows, .request = request };
    struct settings **made = xcalloc(count + 1, sizeof *made);
    g.self = &c;
    c.row = xcalloc(count + 1, sizeof *c.row);
    int status = score_plan_settings(&rows, &base, made, &notices, err);
    for (size_t i = 0; i < notices.count; i++) sinks_notice(engine_sinks(e), "%s", notices.list[i]);
    for (size_t i = 0; i < count; i++) {
        if (status == 0)
            grid_add(&g, rows.rows[i].name, settings_copy(made[i]))->model = rows.rows[i].model;
        settings_free(made[i]);
    }
    if (status == 0) status = grid_run(&g, &plan, err);
    if (status == 0) join(&c, results);
    if (status == 0 && results->condition_count > 1 && request->probe->correlate.table)
        correlate(request->probe, results);
    grid_release(&g);
    unload(e, before);
    for (size_t i = 0; i < count; i++) {
        results_release(&c.row[i].results);
        for (size_t k = 0; k < c.row[i].count; k++) results_release(&c.row[i].samples[k].results);
        free(c.row[i].samples);
    }
    names_release(&notices);
    free(c.row);
    free(made);
    free(rows.rows);
    return status;
}
