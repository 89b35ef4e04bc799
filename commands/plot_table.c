// commands/plot_table.c -- /plot FILE.csv X Y...: columns of a CSV file as curves or bars.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands/plot.h"
#include "core/base/csv.h"
#include "core/base/names.h"

// Largest number of lines, and of different texts in column X, that are read.
enum { LINES_MOST = 1000, NAMES_MOST = 10000 };

struct drawing {
    const struct plot_options *o;
    const char *path;
    struct csv t;
    int x, y[PLOT_WORDS], by[PLOT_WORDS];
    int low, high; // columns with the interval's bounds; -1 without --interval
    size_t y_count, by_count;
    bool *chosen;            // [row_count]
    struct names names;      // values of x in order, if x is not numeric; else empty
    struct names line_names; // of lines[]
    struct plot_line *lines;
    size_t odd; // number of cells with a text or an infinity in numeric columns
    const char *odd_text, *odd_column; // the first such cell, and its column
};

// --- the request ---------------------------------------------------------------------------------

static int choose_rows(struct drawing *d, struct err *err)
{
    d->chosen = csv_all(&d->t);
    for (size_t i = 0; i < d->o->where_count; i++)
        if (csv_where(&d->t, d->o->where[i], d->path, d->chosen, err) < 0) return -1;
    for (size_t r = 0; r < d->t.row_count; r++)
        if (d->chosen[r]) return 0;
    return err_set(err, "'%s' has no %s", d->path, d->o->where_count ? "matching rows" : "rows");
}

static int choose_columns(struct drawing *d, struct err *err)
{
    if (d->o->word_count < 3)
        return err_set(err, "/plot FILE.csv X Y... needs at least two columns");
    d->x = csv_find_column(&d->t, d->o->words[1], d->path, err);
    if (d->x < 0) return -1;
    for (size_t i = 2; i < d->o->word_count; i++) {
        d->y[d->y_count] = csv_find_column(&d->t, d->o->words[i], d->path, err);
        if (d->y[d->y_count++] < 0) return -1;
    }
    char *copy = xstrdup(d->o->by ? d->o->by : ""), *rest = NULL;
    int status = 0;
    for (char *p = strtok_r(copy, ",", &rest); p && status == 0; p = strtok_r(NULL, ",", &rest)) {
        const int column = csv_find_column(&d->t, p, d->path, err);
        if (column < 0)
            status = -1;
        else if (d->by_count == PLOT_WORDS)
            status = err_set(err, "--by takes at most %d columns", PLOT_WORDS);
        else
            d->by[d->by_count++] = column;
    }
    free(copy);
    return status;
}

// Reads "LOW,HIGH": columns with the bounds of one interval per row. Refuses options that cannot be
// combined.
static int choose_interval(struct drawing *d, struct err *err)
{
    const char *text = d->o->interval, *comma = text ? strchr(text, ',') : NULL;
    if (d->o->mean && d->o->smooth > 1) // a smoothed mean may lie outside its interval
        return err_set(err, "--mean and --smooth cannot be combined for a CSV file");
    if (!text) return 0;
    if (!comma || strchr(comma + 1, ','))
        return err_set(err, "--interval needs two columns, LOW,HIGH, not '%s'", text);
    if (d->y_count > 1)
        return err_set(err, "--interval needs exactly one column Y, not %zu", d->y_count);
    if (d->o->smooth > 1) return err_set(err, "--interval and --smooth cannot be combined");
    if (d->o->mean) return err_set(err, "--interval and --mean cannot be combined");
    char *low = xstrndup(text, (size_t)(comma - text));
    d->low = csv_find_column(&d->t, low, d->path, err);
    free(low);
    if (d->low < 0) return -1;
    d->high = csv_find_column(&d->t, comma + 1, d->path, err);
    return d->high < 0 ? -1 : 0;
}

// --- lines ---------------------------------------------------------------------------------------

// If X is not numeric, collects its values as names.
static int find_names(struct drawing *d, struct err *err)
{
    double value;
    bool numbers = true;
    for (size_t r = 0; r < d->t.row_count; r++)
        if (d->chosen[r]) numbers &= csv_number(csv_cell(&d->t, r, d->x), &value);
    for (size_t r = 0; r < d->t.row_count && !numbers && d->names.count <= NAMES_MOST; r++)
        if (d->chosen[r]) names_add(&d->names, csv_cell(&d->t, r, d->x), NULL);
    if (d->names.count <= NAMES_MOST) return 0;
    return err_set(
        err,
        "column '%s' has more than %d different texts, which cannot all be drawn: choose rows with "
        "--where COLUMN=VALUE",
        d->t.columns[d->x], NAMES_MOST);
}

// Returns NaN for a cell without a number; counts infinities, and texts other than NA and the like.
static double number_at(struct drawing *d, size_t row, int column)
{
    const char *cell = csv_cell(&d->t, row, column);
    double value;
    if (csv_number(cell, &value) && !isinf(value)) return value;
    if (!csv_is(cell, "|NA|N/A|null|None|-") && !d->odd++) {
        d->odd_text = cell;
        d->odd_column = d->t.columns[column];
    }
    return NAN;
}

// Names a line by its --by values: "contribution", or "layer 3" with the column's name in front of
// a number. With several columns Y, each value follows its column's name, and Y comes first: "score
// (prune off)". Without --by, the name is Y.
static char *line_name(const struct drawing *d, size_t row, size_t y)
{
    const bool several = d->y_count > 1;
    struct buf b = { 0 };
    if (several || !d->by_count) buf_puts(&b, d->t.columns[d->y[y]]);
    if (several && d->by_count) buf_puts(&b, " (");
    for (size_t i = 0; i < d->by_count; i++) {
        const char *cell = csv_cell(&d->t, row, d->by[i]);
        double value;
        if (i) buf_puts(&b, ", ");
        if (several || csv_number(cell, &value)) buf_printf(&b, "%s ", d->t.columns[d->by[i]]);
        buf_puts(&b, cell);
    }
    if (several && d->by_count) buf_putc(&b, ')');
    return buf_take(&b);
}

static struct plot_line *find_line(struct drawing *d, size_t row, size_t y, struct err *err)
{
    bool known;
    char *name = line_name(d, row, y);
    const size_t i = names_add(&d->line_names, name, &known);
    free(name);
    if (known) return &d->lines[i];
    d->lines = xreallocarray(d->lines, i + 1, sizeof *d->lines);
    d->lines[i] = (struct plot_line){ .name = d->line_names.list[i], .points = d->o->points };
    if (i < LINES_MOST) return &d->lines[i];
    err_set(err,
            "'%s' gives more than %d curves, which cannot all be drawn: choose rows with --where "
            "COLUMN=VALUE, or other columns for --by",
            d->path, LINES_MOST);
    return NULL;
}

static void append(double **list, size_t count, double value)
{
    *list = xreallocarray(*list, count + 1, sizeof **list);
    (*list)[count] = value;
}

static void add_point(struct drawing *d, struct plot_line *l, size_t row, int y)
{
    size_t number = 0;
    const bool named = d->names.count > 0;
    const bool found = named && names_find(&d->names, csv_cell(&d->t, row, d->x), &number);
    append(&l->x, l->count, found ? (double)number : named ? NAN : number_at(d, row, d->x));
    append(&l->y, l->count, number_at(d, row, y));
    if (d->low >= 0) {
        double one = number_at(d, row, d->low), other = number_at(d, row, d->high);
        if (isnan(one) || isnan(other)) one = other = NAN;
        append(&l->low, l->count, fmin(one, other));
        append(&l->high, l->count, fmax(one, other));
    }
    l->count++;
}

struct ordered_point {
    double x;
    size_t at; // index in the order of the file
};

// Orders points by x; points without x come last.
static int by_x(const void *a, const void *b)
{
    const struct ordered_point *p = a, *q = b;
    if (isnan(p->x) != isnan(q->x)) return isnan(p->x) ? 1 : -1;
    if (p->x < q->x || p->x > q->x) return p->x < q->x ? -1 : 1;
    return p->at < q->at ? -1 : p->at > q->at;
}

static void arrange(double **list, const struct ordered_point *order, size_t count)
{
    double *sorted = *list ? xreallocarray(NULL, count, sizeof *sorted) : NULL;
    for (size_t i = 0; i < count && sorted; i++) sorted[i] = (*list)[order[i].at];
    free(*list);
    *list = sorted;
}

// Sorts points by x, so that a row measured again does not make the line run backwards.
static void sort_points(struct plot_line *l)
{
    struct ordered_point *order = xreallocarray(NULL, l->count, sizeof *order);
    for (size_t i = 0; i < l->count; i++) order[i] = (struct ordered_point){ l->x[i], i };
    qsort(order, l->count, sizeof *order, by_x);
    arrange(&l->x, order, l->count);
    arrange(&l->y, order, l->count);
    arrange(&l->low, order, l->count);
    arrange(&l->high, order, l->count);
    free(order);
}

static int make_lines(struct drawing *d, struct err *err)
{
    for (size_t r = 0; r < d->t.row_count; r++)
        for (size_t y = 0; y < d->y_count && d->chosen[r]; y++) {
            struct plot_line *l = find_line(d, r, y, err);
            if (!l) return -1;
            add_point(d, l, r, d->y[y]);
        }
    for (size_t i = 0; i < d->line_names.count; i++) {
        struct plot_line *l = &d->lines[i];
        if (d->o->mean) plot_mean(l);
        if (!l->points) sort_points(l);
        if (d->o->smooth > 1) plot_smooth(l->y, l->count, (size_t)d->o->smooth);
    }
    return 0;
}

// --- the drawing ---------------------------------------------------------------------------------

static void drawing_release(struct drawing *d)
{
    for (size_t i = 0; i < d->line_names.count; i++) {
        free(d->lines[i].x);
        free(d->lines[i].y);
        free(d->lines[i].low);
        free(d->lines[i].high);
    }
    names_release(&d->names);
    names_release(&d->line_names);
    free(d->lines);
    free(d->chosen);
    csv_release(&d->t);
}

int plot_table(struct shell *shell, const struct plot_options *o, struct err *err)
{
    struct drawing d = { .o = o, .path = o->words[0], .low = -1, .high = -1 };
    if (o->csv) return err_set(err, "--csv is for job series: '%s' is already a table", d.path);
    int status = csv_read(&d.t, d.path, err);
    if (status == 0) status = choose_columns(&d, err);
    if (status == 0) status = choose_interval(&d, err);
    if (status == 0) status = choose_rows(&d, err);
    if (status == 0) status = find_names(&d, err);
    if (status == 0) status = make_lines(&d, err);
    if (status == 0) {
        const struct plot_axes axes = { .title = o->title,
                                        .x = o->words[1],
                                        .y = o->y             ? o->y
                                             : d.y_count == 1 ? o->words[2]
                                                              : NULL,
                                        .names = (const char *const *)d.names.list,
                                        .name_count = d.names.count,
                                        .log_x = o->log_x,
                                        .log_y = o->log_y };
        if (d.odd)
            sinks_notice(shell->sinks,
                         "left out %zu cell%s without a number, such as '%.40s' in '%s'", d.odd,
                         d.odd == 1 ? "" : "s", d.odd_text, d.odd_column);
        status =
            plot_show(shell, o, &axes, d.lines, d.line_names.count, "--where COLUMN=VALUE", err);
    }
    drawing_release(&d);
    return status;
}
