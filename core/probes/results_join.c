// core/probes/results_join.c -- subtracts measurements, and joins those of several conditions.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/probes/results.h"

static struct result_table *find(const struct results *r, const char *name)
{
    return (struct result_table *)(uintptr_t)results_find(r, name);
}

static int find_column(const struct result_table *t, const char *name)
{
    for (int c = 1; c < t->column_count; c++)
        if (!strcmp(t->columns[c], name)) return c;
    return -1;
}

// Adds an empty table with the columns of `from`.
static struct result_table *copy_head(struct results *to, const struct result_table *from)
{
    struct result_table *t = results_table(to, from->name, from->columns[0]);
    t->column_count = from->column_count;
    t->columns = xreallocarray(t->columns, (size_t)t->column_count, sizeof *t->columns);
    for (int c = 1; c < t->column_count; c++) t->columns[c] = xstrdup(from->columns[c]);
    t->own = from->own, t->kept = from->kept, t->curve = from->curve;
    t->points = from->points, t->ranked = from->ranked, t->log_y = from->log_y;
    return t;
}

// Appends the rows of `from`, whose columns are matched by name.
static void add_rows(struct result_table *t, const struct result_table *from, int condition)
{
    const int before = t->column_count;
    for (int c = 1; c < from->column_count; c++) {
        if (find_column(t, from->columns[c]) > 0) continue;
        t->columns = xreallocarray(t->columns, (size_t)t->column_count + 1, sizeof *t->columns);
        t->columns[t->column_count++] = xstrdup(from->columns[c]);
    }
    for (size_t i = 0; i < t->row_count && t->column_count > before; i++) {
        struct result_row *row = &t->rows[i];
        row->value = xreallocarray(row->value, (size_t)t->column_count, sizeof *row->value);
        for (int c = before; c < t->column_count; c++) row->value[c - 1] = NAN;
    }
    for (size_t i = 0; i < from->row_count; i++) {
        double *v = result_row(t, "%s", from->rows[i].key);
        t->rows[t->row_count - 1].condition = condition;
        for (int c = 1; c < from->column_count; c++)
            v[find_column(t, from->columns[c]) - 1] = from->rows[i].value[c - 1];
    }
}

void results_copy(struct results *to, const struct results *from)
{
    for (size_t i = 0; i < from->table_count; i++)
        if (!from->tables[i]->own) add_rows(copy_head(to, from->tables[i]), from->tables[i], 0);
}

void results_subtract(struct results *r, const struct results *from)
{
    for (size_t i = 0; i < r->table_count; i++) {
        struct result_table *t = r->tables[i];
        for (size_t k = 0; k < t->row_count; k++)
            for (int c = 1; c < t->column_count; c++) {
                const double *x = results_value(from, t->name, t->rows[k].key, t->columns[c]);
                t->rows[k].value[c - 1] -= x ? *x : NAN;
            }
        char *name = xasprintf("%s" RESULTS_DIFFERENCE, t->name);
        free(t->name);
        t->name = name;
    }
}

static bool has_note(const struct results *r, const char *note)
{
    for (size_t i = 0; i < r->note_count; i++)
        if (!strcmp(r->notes[i], note)) return true;
    return false;
}

// Adds the notes of a condition; one that not all conditions share begins with the condition's
// name.
static void add_notes(struct results *all, const char *name, const struct results *of,
                      const struct results *list, size_t count)
{
    for (size_t i = 0; i < of->note_count; i++) {
        bool shared = true;
        for (size_t k = 0; k < count; k++) shared = shared && has_note(&list[k], of->notes[i]);
        if (!shared)
            results_note(all, "%s: %s", name, of->notes[i]);
        else if (!has_note(all, of->notes[i]))
            results_note(all, "%s", of->notes[i]);
    }
}

void results_join(struct results *all, const char *const *names, struct results *list, size_t count)
{
    all->condition_count = count;
    all->conditions = xcalloc(count + 1, sizeof *all->conditions);
    for (size_t k = 0; k < count; k++) {
        struct results *one = &list[k];
        all->conditions[k] = xstrdup(names[k]);
        for (size_t i = 0; i < one->table_count; i++) {
            struct result_table *t = find(all, one->tables[i]->name);
            add_rows(t ? t : copy_head(all, one->tables[i]), one->tables[i], (int)k);
        }
        all->maps =
            xreallocarray(all->maps, all->map_count + one->map_count + 1, sizeof *all->maps);
        for (size_t i = 0; i < one->map_count; i++) {
            all->maps[all->map_count] = one->maps[i];
            all->maps[all->map_count++].condition = (int)k;
        }
        one->map_count = 0;
        add_notes(all, names[k], one, list, count);
        if (strcmp(one->arithmetic, list[0].arithmetic) != 0 || !k)
            results_arithmetic(all, list[0].arithmetic, one->arithmetic);
    }
    for (size_t k = 0; k < count; k++) results_release(&list[k]);
}
