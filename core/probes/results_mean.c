// core/probes/results_mean.c -- means of measurements over samples, cell by cell.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/tally.h"
#include "core/probes/results.h"

// Adds an empty table with the first column of `from`, then its other columns repeated `times`
// times.
static struct result_table *copy_head(struct results *to, const struct result_table *from,
                                      const char *name, int times)
{
    struct result_table *t = results_table(to, name, from->columns[0]);
    const int columns = from->column_count - 1;
    t->column_count = 1 + times * columns;
    t->columns = xreallocarray(t->columns, (size_t)t->column_count + 1, sizeof *t->columns);
    for (int c = 0; c < times * columns; c++)
        t->columns[1 + c] = xstrdup(from->columns[1 + c % columns]);
    t->curve = from->curve;
    t->ranked = from->ranked;
    t->points = from->points;
    return t;
}

static struct result_table *find(const struct results *r, const char *name)
{
    return (struct result_table *)(uintptr_t)results_find(r, name);
}

void results_keep(struct results *kept, const struct results *r, int64_t sample)
{
    for (size_t i = 0; i < r->table_count; i++) {
        const struct result_table *from = r->tables[i];
        if (!from->kept) continue;
        struct result_table *to = find(kept, from->name);
        if (!to) {
            to = copy_head(kept, from, from->name, 1);
            to->columns[to->column_count++] = xstrdup("sample");
            to->own = to->kept = true;
            to->curve = false; // keys repeat from sample to sample
            to->log_y = from->log_y;
        }
        for (size_t k = 0; k < from->row_count; k++) {
            double *v = result_row(to, "%s", from->rows[k].key);
            for (int c = 0; c + 1 < from->column_count; c++) v[c] = from->rows[k].value[c];
            v[from->column_count - 1] = (double)sample;
        }
    }
}

void results_move_tables(struct results *to, struct results *from)
{
    to->tables =
        xreallocarray(to->tables, to->table_count + from->table_count + 1, sizeof *to->tables);
    for (size_t i = 0; i < from->table_count; i++) to->tables[to->table_count++] = from->tables[i];
    from->table_count = 0;
    results_release(from);
}

// Adds the cells to the sums, a table that holds the fields of a struct tally: for the columns of
// `from` first all means, then all squares, then all counts.
static void add_table(struct results_mean *m, const struct result_table *from)
{
    struct result_table *to = find(&m->sums, from->name);
    if (!to) to = copy_head(&m->sums, from, from->name, 3);
    const int columns = (to->column_count - 1) / 3;
    for (size_t i = 0; i < from->row_count; i++) {
        const char *key = from->rows[i].key;
        size_t row = i; // usually at the same index; otherwise searches
        if (row >= to->row_count || strcmp(to->rows[row].key, key) != 0)
            for (row = 0; row < to->row_count && strcmp(to->rows[row].key, key) != 0;) row++;
        if (row == to->row_count) result_row(to, "%s", key);
        double *mean = to->rows[row].value, *squares = mean + columns, *count = squares + columns;
        for (int c = 0; c < columns && c + 1 < from->column_count; c++) {
            if (!isfinite(from->rows[i].value[c])) continue;
            struct tally t = { 0 };
            if (isfinite(count[c])) t = (struct tally){ (int64_t)count[c], mean[c], squares[c] };
            tally_add(&t, from->rows[i].value[c]);
            mean[c] = t.mean, squares[c] = t.squares, count[c] = (double)t.count;
        }
    }
}

// Adds a map's values to a map with twice as many rows: the sums, then below them the counts.
static void add_map(struct results_mean *m, const struct result_map *from)
{
    const int cells = from->rows * from->cols;
    struct result_map *to = NULL;
    for (size_t i = 0; i < m->sums.map_count && !to; i++) {
        struct result_map *a = &m->sums.maps[i];
        if (!strcmp(a->name, from->name) && a->picture == from->picture &&
            a->layer == from->layer && a->head == from->head && a->rows == 2 * from->rows &&
            a->cols == from->cols &&
            (a->tile && from->tile ? !strcmp(a->tile, from->tile) : a->tile == from->tile))
            to = a;
    }
    if (!to) {
        to = results_map(&m->sums, from->name, 2 * from->rows, from->cols);
        to->tile = from->tile ? xstrdup(from->tile) : NULL;
        to->picture = from->picture, to->layer = from->layer;
        to->head = from->head, to->token = from->token;
        memcpy(to->area, from->area, sizeof to->area);
        memset(to->values, 0, 2 * (size_t)cells * sizeof *to->values);
    }
    bool same = true;
    for (int i = 0; i < 4; i++) same = same && to->area[i] == from->area[i];
    if (!same) memset(to->area, 0, sizeof to->area); // pictures of several sizes
    for (int i = 0; i < cells; i++) {
        if (!isfinite(from->values[i])) continue;
        to->values[i] += from->values[i];
        to->values[cells + i]++;
    }
}

void results_mean_add(struct results_mean *m, const struct results *r)
{
    for (size_t i = 0; i < r->table_count; i++) {
        if (!r->tables[i]->own) add_table(m, r->tables[i]);
    }
    for (size_t i = 0; i < r->map_count; i++) {
        const struct result_kind *k = result_kind(r->maps[i].name);
        if (k && (k->rows == MAP_POSITIONS || k->cols == MAP_POSITIONS || k->rows == MAP_TOKENS ||
                  k->cols == MAP_TOKENS))
            m->own = true;
        else
            add_map(m, &r->maps[i]);
    }
    m->samples++;
}

// Adds a table with the mean, or the population standard deviation, of each cell.
static void take_table(struct results *to, const struct result_table *sums, bool deviation)
{
    struct result_table head = *sums;
    char *name = xasprintf("%s%s", sums->name, deviation ? ".std" : "");
    const int columns = (sums->column_count - 1) / 3;
    head.column_count = columns + 1;
    struct result_table *t = copy_head(to, &head, name, 1);
    t->curve &= !deviation;
    free(name);
    for (size_t i = 0; i < sums->row_count; i++) {
        double *v = result_row(t, "%s", sums->rows[i].key);
        const double *mean = sums->rows[i].value, *squares = mean + columns;
        for (int c = 0; c < columns; c++) {
            const double count = squares[columns + c];
            const struct tally tally = { isfinite(count) ? (int64_t)count : 0, mean[c],
                                         squares[c] };
            v[c] = deviation ? tally_std(&tally) : mean[c];
        }
    }
}

// Adds the 95% intervals of the means, "X low|X high" of each column X.
static void take_intervals(struct results *to, const struct result_table *sums)
{
    struct buf columns = { 0 };
    char *name = xasprintf("%s%s", sums->name, RESULTS_INTERVAL);
    const int count = (sums->column_count - 1) / 3;
    buf_puts(&columns, sums->columns[0]);
    for (int c = 0; c < count; c++)
        buf_printf(&columns, "|%s low|%s high", sums->columns[1 + c], sums->columns[1 + c]);
    struct result_table *t = results_table(to, name, columns.data);
    for (size_t i = 0; i < sums->row_count; i++) {
        double *v = result_row(t, "%s", sums->rows[i].key);
        const double *mean = sums->rows[i].value, *squares = mean + count;
        for (int c = 0; c < count; c++) {
            const double n = squares[count + c];
            const struct tally tally = { isfinite(n) ? (int64_t)n : 0, mean[c], squares[c] };
            tally_interval(&tally, &v[2 * c], &v[2 * c + 1]);
        }
    }
    buf_release(&columns);
    free(name);
}

void results_mean_take(struct results_mean *m, struct results *mean)
{
    results_rank(&m->sums); // by the means, which come first
    for (size_t i = 0; i < m->sums.table_count; i++) {
        take_table(mean, m->sums.tables[i], false);
        if (m->samples < 2) continue;
        take_table(mean, m->sums.tables[i], true);
        take_intervals(mean, m->sums.tables[i]);
    }
    for (size_t i = 0; i < m->sums.map_count; i++) {
        const struct result_map *sums = &m->sums.maps[i];
        const int cells = sums->rows / 2 * sums->cols;
        struct result_map *map = results_map(mean, sums->name, sums->rows / 2, sums->cols);
        map->tile = sums->tile ? xstrdup(sums->tile) : NULL;
        map->picture = sums->picture, map->layer = sums->layer, map->head = sums->head;
        map->token = sums->token >= 0 ? -1 : sums->token;
        memcpy(map->area, sums->area, sizeof map->area);
        for (int k = 0; k < cells; k++) map->values[k] = sums->values[k] / sums->values[cells + k];
    }
    if (m->own)
        results_note(
            mean, "maps by position or token are not averaged: their axes differ between samples");
    results_release(&m->sums);
    *m = (struct results_mean){ 0 };
}
