// core/probes/checkpoints.c -- a measurement over the checkpoints of a training run.
#include "core/probes/checkpoints.h"

#include <stdlib.h>
#include <string.h>

#include "core/probes/kit.h"

void checkpoints_add(struct checkpoints *s, const char *name, struct results *r)
{
    s->list = xreallocarray(s->list, s->count + 1, sizeof *s->list);
    s->list[s->count++] = (struct checkpoint_found){ xstrdup(name), *r };
    *r = (struct results){ 0 };
}

// "first|NAME|NAME": "|" ends a column's name, so none holds one.
static char *head_of(const char *first, char *const *names, size_t count)
{
    struct buf b = { 0 };
    buf_puts(&b, first);
    for (size_t i = 0; i < count; i++) {
        buf_putc(&b, '|');
        for (const char *p = names[i]; *p; p++) buf_putc(&b, *p == '|' ? '/' : *p);
    }
    return buf_take(&b);
}

static struct result_table *new_table(struct results *r, const struct checkpoints *s,
                                      const char *what, const char *columns)
{
    char *name = xasprintf("%s.%s", s->probe->series.table, what);
    struct result_table *t = results_table(r, name, columns);
    free(name);
    return t;
}

// A row a checkpoint, a column a number of the probe's total.
static void put_totals(const struct checkpoints *s, struct results *r)
{
    const struct result_table *first = results_find(&s->list[0].results, s->probe->scalar);
    char **names = xcalloc(first->row_count + 1, sizeof *names);
    for (size_t i = 0; i < first->row_count; i++) names[i] = first->rows[i].key;
    char *head = head_of("checkpoint", names, first->row_count);
    struct result_table *t = new_table(r, s, "checkpoints", head);
    for (size_t k = 0; k < s->count; k++) {
        const struct result_table *total = results_find(&s->list[k].results, s->probe->scalar);
        double *v = result_row(t, "%s", s->list[k].name);
        for (size_t i = 0; i < first->row_count && i < total->row_count; i++)
            v[i] = total->rows[i].value[0];
    }
    free(head);
    free(names);
}

// A row a layer, a column a checkpoint.
static void put_column(const struct checkpoints *s, const char *column, struct results *r)
{
    char **names = xcalloc(s->count + 1, sizeof *names);
    size_t deepest = 0;
    for (size_t k = 0; k < s->count; k++) {
        const struct result_table *t = results_find(&s->list[k].results, s->probe->series.table);
        names[k] = s->list[k].name;
        if (t->row_count >
            results_find(&s->list[deepest].results, s->probe->series.table)->row_count)
            deepest = k;
    }
    char *head = head_of("layer", names, s->count);
    struct result_table *t = new_table(r, s, column, head);
    const struct result_table *most =
        results_find(&s->list[deepest].results, s->probe->series.table);
    t->curve = true;
    for (size_t i = 0; i < most->row_count; i++) {
        double *v = result_row(t, "%s", most->rows[i].key);
        for (size_t k = 0; k < s->count; k++) {
            const double *x = results_value(&s->list[k].results, s->probe->series.table,
                                            most->rows[i].key, column);
            if (x) v[k] = *x;
        }
    }
    free(head);
    free(names);
}

// Every layer of every checkpoint is a point.
static void put_correlation(const struct checkpoints *s, struct results *r)
{
    const char *const *columns = s->probe->series.columns;
    double *x = NULL, *y = NULL;
    size_t count = 0;
    for (size_t k = 0; k < s->count; k++) {
        const struct result_table *t = results_find(&s->list[k].results, s->probe->series.table);
        x = xreallocarray(x, count + t->row_count + 1, sizeof *x);
        y = xreallocarray(y, count + t->row_count + 1, sizeof *y);
        for (size_t i = 0; i < t->row_count; i++, count++) {
            const char *key = t->rows[i].key;
            x[count] = *results_value(&s->list[k].results, t->name, key, columns[0]);
            y[count] = *results_value(&s->list[k].results, t->name, key, columns[1]);
        }
    }
    struct result_table *t = new_table(r, s, "correlation", "what|value");
    result_row(t, "Spearman of %s and %s over layers and checkpoints", columns[0], columns[1])[0] =
        rank_correlation(x, y, count);
    result_row(t, "points")[0] = (double)count;
    free(x);
    free(y);
}

void checkpoints_finish(struct checkpoints *s, struct results *r)
{
    if (s->count) {
        put_totals(s, r);
        for (int i = 0; i < 2 && s->probe->series.columns[i]; i++)
            put_column(s, s->probe->series.columns[i], r);
        if (s->probe->series.columns[1]) put_correlation(s, r);
    }
    for (size_t k = 0; k < s->count; k++) {
        free(s->list[k].name);
        results_release(&s->list[k].results);
    }
    free(s->list);
    *s = (struct checkpoints){ .probe = s->probe };
}
