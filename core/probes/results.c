// core/probes/results.c -- builds tables and maps, and finds their descriptions by name, for labels
// of axes and colour bars, and for the maps that the screen steps through.
#include "core/probes/results.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/methods/calibration.h"
#include "core/probes/probe.h"

struct result_table *results_table(struct results *r, const char *name, const char *columns)
{
    struct result_table *t = xcalloc(1, sizeof *t);
    t->name = xstrdup(name);
    for (const char *p = columns;; p++) {
        const size_t n = strcspn(p, "|");
        t->columns = xreallocarray(t->columns, (size_t)t->column_count + 1, sizeof *t->columns);
        t->columns[t->column_count++] = xstrndup(p, n);
        p += n;
        if (!*p) break;
    }
    r->tables = xreallocarray(r->tables, r->table_count + 1, sizeof *r->tables);
    return r->tables[r->table_count++] = t;
}

const char *results_condition(const struct results *r, int condition)
{
    if (!r->condition_count) return NULL;
    return condition == RESULTS_ALL ? "all" : r->conditions[condition];
}

double *result_row(struct result_table *t, const char *key, ...)
{
    const size_t count = (size_t)t->column_count - 1;
    struct buf b = { 0 };
    va_list args;
    va_start(args, key);
    buf_vprintf(&b, key, args);
    va_end(args);
    t->rows = xreallocarray(t->rows, t->row_count + 1, sizeof *t->rows);
    struct result_row *row = &t->rows[t->row_count++];
    *row = (struct result_row){ .key = buf_take(&b) };
    row->value = xreallocarray(NULL, count + 1, sizeof *row->value);
    for (size_t i = 0; i < count; i++) row->value[i] = NAN;
    return row->value;
}

static int by_first(const void *a, const void *b)
{
    const double x = ((const struct result_row *)a)->value[0];
    const double y = ((const struct result_row *)b)->value[0];
    return x < y ? -1 : x > y;
}

static int by_first_down(const void *a, const void *b)
{
    return by_first(b, a);
}

void results_rank(struct results *r)
{
    for (size_t i = 0; i < r->table_count; i++) {
        const struct result_table *t = r->tables[i];
        if (t->ranked && t->row_count)
            qsort(t->rows, t->row_count, sizeof *t->rows, t->ranked > 0 ? by_first : by_first_down);
    }
}

struct result_map *results_map(struct results *r, const char *name, int rows, int cols)
{
    const size_t count = (size_t)rows * (size_t)cols;
    r->maps = xreallocarray(r->maps, r->map_count + 1, sizeof *r->maps);
    struct result_map *m = &r->maps[r->map_count++];
    *m = (struct result_map){ .name = xstrdup(name),
                              .picture = -1,
                              .layer = -1,
                              .head = -1,
                              .token = -1,
                              .rows = rows,
                              .cols = cols };
    m->values = xreallocarray(NULL, count + 1, sizeof *m->values);
    for (size_t i = 0; i < count; i++) m->values[i] = NAN;
    return m;
}

void results_note(struct results *r, const char *format, ...)
{
    struct buf b = { 0 };
    va_list args;
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    r->notes = xreallocarray(r->notes, r->note_count + 1, sizeof *r->notes);
    r->notes[r->note_count++] = buf_take(&b);
}

void results_texts(struct results *r, const char *const title[2], const char *const text[2])
{
    for (int k = 0; k < 2; k++) {
        r->title[k] = xstrdup(title[k]);
        r->text[k] = xstrdup(text[k]);
    }
}

void results_starts(struct results *r, int side, const size_t *starts, size_t tokens)
{
    r->tokens[side] = tokens;
    r->starts[side] = xcalloc(tokens + 1, sizeof *starts);
    for (size_t i = 0; i < tokens; i++) r->starts[side][i] = starts[i];
}

void results_arithmetic(struct results *r, const char *first, const char *second)
{
    const bool two = second && strcmp(first, second) != 0;
    snprintf(r->arithmetic, sizeof r->arithmetic, "%s%s%s", first, two ? " | " : "",
             two ? second : "");
}

void results_release(struct results *r)
{
    for (size_t i = 0; i < r->table_count; i++) {
        struct result_table *t = r->tables[i];
        for (int c = 0; c < t->column_count; c++) free(t->columns[c]);
        for (size_t k = 0; k < t->row_count; k++) {
            free(t->rows[k].key);
            free(t->rows[k].value);
        }
        free(t->columns);
        free(t->rows);
        free(t->name);
        free(t);
    }
    for (size_t i = 0; i < r->map_count; i++) {
        free(r->maps[i].name);
        free(r->maps[i].tile);
        for (int c = 0; r->maps[i].words && c < r->maps[i].rows * r->maps[i].cols; c++)
            free(r->maps[i].words[c]);
        free(r->maps[i].words);
        free(r->maps[i].values);
        free(r->maps[i].state);
    }
    for (size_t i = 0; i < r->note_count; i++) free(r->notes[i]);
    for (size_t i = 0; i < r->condition_count; i++) free(r->conditions[i]);
    free(r->conditions);
    free(r->tables);
    free(r->maps);
    free(r->notes);
    for (int k = 0; k < 2; k++) {
        free(r->title[k]);
        free(r->text[k]);
        free(r->starts[k]);
    }
    *r = (struct results){ 0 };
}

const struct result_table *results_find(const struct results *r, const char *table)
{
    for (size_t i = 0; i < r->table_count; i++)
        if (!strcmp(r->tables[i]->name, table)) return r->tables[i];
    return NULL;
}

const double *results_value(const struct results *r, const char *table, const char *key,
                            const char *column)
{
    const struct result_table *t = results_find(r, table);
    const double *row = NULL;
    for (size_t i = 0; t && i < t->row_count && !row; i++)
        if (!strcmp(t->rows[i].key, key)) row = t->rows[i].value;
    for (int c = 1; row && c < t->column_count; c++)
        if (!strcmp(t->columns[c], column)) return row + c - 1;
    return NULL;
}

// --- kinds ---------------------------------------------------------------------------------------

// Descriptions of tables that are not from probes.
static const struct result_kind none[] = { { 0 } }, others[] = {
    { "memory.layers", "MiB", .columns = "MiB in use|MiB reserved" }, // commands/memory.c
    { 0 },
};

// Returns the kinds of one probe, calibration or `others`, in that order; NULL past the end. Sets
// *command to the probe's name, or to NULL.
static const struct result_kind *kinds_at(int index, const char **command)
{
    int probes = 0, calibrations = 0;
    while (probe_at(probes)) probes++;
    while (calibration_kind_at(calibrations)) calibrations++;
    const struct probe *p = index < probes ? probe_at(index) : NULL;
    const struct calibration_kind *c = p ? NULL : calibration_kind_at(index - probes);
    *command = p ? p->name : NULL;
    if (index > probes + calibrations) return NULL;
    if (!p && !c) return others;
    return p && p->results ? p->results : c && c->units ? c->units : none;
}

// Returns the row of the name, or of its longest prefix ("curvature.degrees").
const struct result_kind *result_kind(const char *name)
{
    const struct result_kind *best = NULL, *k;
    const char *command;
    for (int i = 0; (k = kinds_at(i, &command)); i++)
        for (; k->name; k++) {
            const size_t n = strlen(k->name);
            if (strncmp(k->name, name, n) != 0 || (name[n] && name[n] != '.')) continue;
            if (!best || n > strlen(best->name)) best = k;
        }
    return best;
}

const struct result_kind *result_map_kind(int index, const char **command)
{
    const struct result_kind *k;
    for (int i = 0; (k = kinds_at(i, command)); i++)
        for (; k->name; k++)
            if (k->map && !k->on_request && !index--) return k;
    return NULL;
}

bool results_live(const char *name)
{
    const struct result_kind *k;
    const char *command;
    for (int i = 0; (k = result_map_kind(i, &command)); i++)
        if (k->live && !strcmp(k->live, name)) return true;
    return false;
}

const char *map_axis_name(enum map_axis axis)
{
    static const char *const axes[] = { NULL, "layer", "head", "position", "token", "class" };
    return axes[axis];
}

const char *results_unit(const char *name)
{
    const struct result_kind *k = result_kind(name);
    return k ? k->unit : NULL;
}

bool results_lists(const char *columns, const char *column)
{
    const size_t n = strlen(column);
    for (const char *p = columns; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (!strncmp(p, column, n) && (!p[n] || p[n] == '|')) return true;
    return false;
}

// Searches all rows of the table's name for the column.
const char *results_column_unit(const struct result_table *t, int column)
{
    const struct result_kind *first = result_kind(t->name), *k;
    const char *command;
    for (int i = 0; first && (k = kinds_at(i, &command)); i++)
        for (; k->name; k++)
            if (!strcmp(k->name, first->name) &&
                (!k->columns || results_lists(k->columns, t->columns[column])))
                return k->unit;
    return NULL;
}

bool results_share_unit(const struct result_table *t, int a, int b)
{
    const char *x = results_column_unit(t, a), *y = results_column_unit(t, b);
    bool any = x || y || a == b;
    if (x && y) return !strcmp(x, y);
    for (int c = 1; c < t->column_count; c++) any |= results_column_unit(t, c) != NULL;
    return a == b || !any;
}

bool results_same_unit(const struct result_table *t, int column)
{
    const struct result_kind *k = result_kind(t->name);
    bool any = false;
    for (int c = 1; k && k->columns && c < t->column_count; c++)
        any |= results_lists(k->columns, t->columns[c]);
    return !any || results_lists(k->columns, t->columns[column]);
}
