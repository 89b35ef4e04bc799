// core/probes/results_mean.c -- means of measurements over samples, cell by cell.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/tally.h"
#include "core/probes/results.h"

static struct result_table *copy_head(struct results *to, const struct result_table *from,
                                      const char *name)
{
    struct result_table *t = results_table(to, name, from->columns[0]);
    t->columns = xreallocarray(t->columns, (size_t)from->column_count, sizeof *t->columns);
    for (int c = 1; c < from->column_count; c++) t->columns[c] = xstrdup(from->columns[c]);
    t->column_count = from->column_count;
    t->curve = from->curve;
    t->points = from->points;
    return t;
}

static struct result_table *need_table(struct results *to, const struct result_table *from)
{
    for (size_t i = 0; i < to->table_count; i++)
        if (!strcmp(to->tables[i]->name, from->name)) return to->tables[i];
    return copy_head(to, from, from->name);
}

static struct result_table *kept_table(struct results *kept, const struct result_table *from)
{
    for (size_t i = 0; i < kept->table_count; i++)
        if (!strcmp(kept->tables[i]->name, from->name)) return kept->tables[i];
    struct result_table *t = copy_head(kept, from, from->name);
    t->columns = xreallocarray(t->columns, (size_t)t->column_count + 1, sizeof *t->columns);
    t->columns[t->column_count++] = xstrdup("sample");
    t->own = t->kept = true;
    t->log_y = from->log_y;
    return t;
}

void results_keep(struct results *kept, const struct results *r, int64_t sample)
{
    for (size_t i = 0; i < r->table_count; i++) {
        const struct result_table *from = r->tables[i];
        if (!from->kept) continue;
        struct result_table *to = kept_table(kept, from);
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

// The number of the key's row, most often `near`; added when it is new.
static size_t need_row(struct result_table *t, const char *key, size_t near)
{
    if (near < t->row_count && !strcmp(t->rows[near].key, key)) return near;
    for (size_t i = 0; i < t->row_count; i++)
        if (!strcmp(t->rows[i].key, key)) return i;
    result_row(t, "%s", key);
    return t->row_count - 1;
}

static double or_nothing(double x)
{
    return isfinite(x) ? x : 0;
}

// Adds the table's cells to those of the three results, whose rows lie in the same order.
static void add_table(struct results_mean *m, const struct result_table *from)
{
    struct result_table *mean = need_table(&m->means, from);
    struct result_table *squares = need_table(&m->squares, from);
    struct result_table *count = need_table(&m->counts, from);
    for (size_t i = 0; i < from->row_count; i++) {
        const char *key = from->rows[i].key;
        const size_t row = need_row(mean, key, i);
        need_row(squares, key, row);
        need_row(count, key, row);
        for (int c = 0; c + 1 < mean->column_count && c + 1 < from->column_count; c++) {
            double *at[] = { &mean->rows[row].value[c], &squares->rows[row].value[c],
                             &count->rows[row].value[c] };
            if (!isfinite(from->rows[i].value[c])) continue;
            struct tally t = { (int64_t)or_nothing(*at[2]), or_nothing(*at[0]),
                               or_nothing(*at[1]) };
            tally_add(&t, from->rows[i].value[c]);
            *at[0] = t.mean, *at[1] = t.squares, *at[2] = (double)t.count;
        }
    }
}

static bool same_map(const struct result_map *a, const struct result_map *b)
{
    return !strcmp(a->name, b->name) && a->picture == b->picture && a->layer == b->layer &&
           a->head == b->head && a->rows == b->rows && a->cols == b->cols &&
           (a->tile && b->tile ? !strcmp(a->tile, b->tile) : a->tile == b->tile);
}

static void add_map(struct results *to, const struct result_map *from, bool ones)
{
    struct result_map *m = NULL;
    for (size_t i = 0; i < to->map_count && !m; i++)
        if (same_map(&to->maps[i], from)) m = &to->maps[i];
    if (!m) {
        m = results_map(to, from->name, from->rows, from->cols);
        m->tile = from->tile ? xstrdup(from->tile) : NULL;
        m->picture = from->picture, m->layer = from->layer;
        m->head = from->head, m->token = from->token;
    }
    for (int i = 0; i < m->rows * m->cols; i++) {
        if (!isfinite(from->values[i])) continue;
        const float more = ones ? 1 : from->values[i];
        m->values[i] = isfinite(m->values[i]) ? m->values[i] + more : more;
    }
}

static bool is_own(const struct result_kind *k)
{
    return k && (k->rows == MAP_POSITIONS || k->cols == MAP_POSITIONS || k->rows == MAP_TOKENS ||
                 k->cols == MAP_TOKENS);
}

void results_mean_add(struct results_mean *m, const struct results *r)
{
    for (size_t i = 0; i < r->table_count; i++) {
        if (!r->tables[i]->own) add_table(m, r->tables[i]);
    }
    for (size_t i = 0; i < r->map_count; i++) {
        const bool own = is_own(result_kind(r->maps[i].name));
        m->own |= own;
        if (own) continue;
        add_map(&m->means, &r->maps[i], false);
        add_map(&m->counts, &r->maps[i], true);
    }
    m->samples++;
}

// Mean, or population standard deviation, of each cell.
static void take_table(struct results *to, const struct results_mean *m, size_t at, bool deviation)
{
    const struct result_table *mean = m->means.tables[at], *squares = m->squares.tables[at];
    const struct result_table *count = m->counts.tables[at];
    char *name = xasprintf("%s%s", mean->name, deviation ? ".std" : "");
    struct result_table *t = copy_head(to, mean, name);
    t->curve &= !deviation;
    free(name);
    for (size_t i = 0; i < mean->row_count; i++) {
        double *v = result_row(t, "%s", mean->rows[i].key);
        for (int c = 0; c + 1 < mean->column_count; c++)
            v[c] = deviation
                       ? tally_std(&(struct tally){ (int64_t)or_nothing(count->rows[i].value[c]),
                                                    mean->rows[i].value[c],
                                                    squares->rows[i].value[c] })
                       : mean->rows[i].value[c];
    }
}

void results_mean_take(struct results_mean *m, struct results *mean)
{
    for (size_t i = 0; i < m->means.table_count; i++) {
        take_table(mean, m, i, false);
        if (m->samples > 1) take_table(mean, m, i, true);
    }
    for (size_t i = 0; i < m->means.map_count; i++) {
        add_map(mean, &m->means.maps[i], false);
        struct result_map *map = &mean->maps[mean->map_count - 1];
        if (map->token >= 0) map->token = -1;
        for (int k = 0; k < map->rows * map->cols; k++)
            map->values[k] /= m->counts.maps[i].values[k];
    }
    if (m->own) results_note(mean, "maps by position or token differ by sample: they have no mean");
    results_release(&m->means);
    results_release(&m->squares);
    results_release(&m->counts);
    *m = (struct results_mean){ 0 };
}
