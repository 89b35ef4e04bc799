// core/probes/kinds.c -- what results hold, by their names, as the probes that give them say:
// labels of axes and colour bars, and the maps that the screen steps through.
#include <string.h>

#include "core/methods/calibration.h"
#include "core/probes/probe.h"
#include "core/probes/results.h"

// Of tables that no probe gives.
static const struct result_kind none[] = { { 0 } }, others[] = {
    { "memory.layers", "MiB", .columns = "MiB in use|MiB reserved" }, // commands/memory.c
    { 0 },
};

// The kinds of one probe or calibration after the other; NULL past the end.
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

// The row of the name, or of the longest name that it continues ("curvature.degrees").
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

static bool names(const char *columns, const char *column)
{
    const size_t n = strlen(column);
    for (const char *p = columns; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (!strncmp(p, column, n) && (!p[n] || p[n] == '|')) return true;
    return false;
}

// Of all rows of the table's name, the one with the column.
const char *results_column_unit(const struct result_table *t, int column)
{
    const struct result_kind *first = result_kind(t->name), *k;
    const char *command;
    for (int i = 0; first && (k = kinds_at(i, &command)); i++)
        for (; k->name; k++)
            if (!strcmp(k->name, first->name) &&
                (!k->columns || names(k->columns, t->columns[column])))
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
        any |= names(k->columns, t->columns[c]);
    return !any || names(k->columns, t->columns[column]);
}
