// core/probes/units.c -- what the numbers of tables and maps are: labels of axes and colour bars.
#include <string.h>

#include "core/probes/results.h"

// `columns`: those that share the unit, separated by "|"; NULL: all. Of several rows of one name,
// the first is drawn first, and alone in figures.
static const struct unit {
    const char *name, *unit, *columns;
} units[] = {
    { "attention", "share of attention", "to the pictures|max" },
    { "attention.rows", "attention of the row", NULL },
    { "attention.tokens", "share of attention", "to the pictures|max" },
    { "calibration", "L2 norm", "visual|visual std|text|text std" },
    { "calibration", "cosine", "redundancy, visual|redundancy, text|visual cosine|text cosine" },
    { "calibration", "alpha", "alpha, mean" },
    { "calibration", "dimension", "dimension|second" },
    { "calibration", "value of the dimension", "value|value " },
    { "contribution", "attention contribution", NULL },
    { "curvature", "degrees", NULL },
    { "curvature.samples", "degrees", "value" },
    { "dice", "share of attention", NULL },
    { "dice.samples", "soft Dice", "value" },
    { "flops.layers", "GFLOP", "GFLOP full|GFLOP now" },
    { "flops.layers", "rows", "rows|FFN rows|keys of a step" },
    { "kl", "KL divergence (nats)", "mean|max" },
    { "memory.layers", "MiB", "MiB in use|MiB reserved" },
    { "norms.layers", "L2 norm", NULL },
    { "norms.cosines", "cosine of layer l-1 and l", NULL },
    { "norms.alignment", "cosine of visual and text tokens", NULL },
    { "norms.attention", "attention logit", "text-visual logits" },
    { "norms.attention", "product of inputs", "input products|input products, all pairs" },
    { "norms.theory", "L2 norm", "C|norm visual|norm text" },
    { "norms.theory", "radians", "phi|theta visual|measured visual|theta text|measured text" },
    { "norms.theory", "ratio of alignment", "gamma|gamma measured|gamma balanced" },
    { "norms.calibration", "L2 norm", NULL },
    { "pruned", "visual tokens", "visual tokens" },
    { "pruned.layers", "layers that compute the token", NULL },
    { "redundancy", "cosine of FFN input and output", NULL },
    { "similarity", "cosine", NULL },
    { "sinks.phi", "phi", NULL },
    { "sinks.tokens", "largest normalised value in the sink dimensions", "phi" },
    { "sinks.tokens", "attention contribution", "C" },
    { "stream", "L2 norm", "norm|norm std" },
    { "stream", "cosine", "similarity|similarity std" },
    { "stream.norms", "L2 norm", NULL },
    { "stream.similarity", "cosine", NULL },
    { "sink_ratio", "share of attention", "strongest" },
};

// The row of the name, or of the longest name that it continues ("curvature.degrees").
static const struct unit *find(const char *name)
{
    const struct unit *best = NULL;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        const size_t n = strlen(units[i].name);
        if (strncmp(units[i].name, name, n) != 0 || (name[n] && name[n] != '.')) continue;
        if (!best || n > strlen(best->name)) best = &units[i];
    }
    return best;
}

const char *results_unit(const char *name)
{
    const struct unit *u = find(name);
    return u ? u->unit : NULL;
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
    const struct unit *u = find(t->name);
    for (; u && u < units + sizeof units / sizeof units[0]; u++) {
        if (strcmp(u->name, find(t->name)->name) != 0) break;
        if (!u->columns || names(u->columns, t->columns[column])) return u->unit;
    }
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
    const struct unit *u = find(t->name);
    bool any = false;
    for (int c = 1; u && u->columns && c < t->column_count; c++)
        any |= names(u->columns, t->columns[c]);
    return !any || names(u->columns, t->columns[column]);
}
