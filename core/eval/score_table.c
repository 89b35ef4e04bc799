// core/eval/score_table.c -- scores, means over sets and paired differences as a table.
#include "core/eval/score_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/sets/total.h"

enum { REPEAT_SEED = 22 };

static const struct score_value unknown = { .value = NAN, .low = NAN, .high = NAN };

static void interval_of(struct score_value *v)
{
    double sorted[SET_DRAWS];
    v->low = v->high = NAN;
    if (!v->draws) return;
    memcpy(sorted, v->draws, sizeof sorted);
    set_draws_interval(sorted, &v->low, &v->high);
}

// --- one evaluation ------------------------------------------------------------------------------

// Computes the mean score of each bootstrap sample of the samples that the evaluation processed,
// including those without a score.
static void draw_means(struct score_value *v, const struct evaluation *e, const struct metric *m,
                       const struct score_answer *answers, size_t count, double scale)
{
    size_t samples = (size_t)e->samples;
    for (size_t i = 0; i < count; i++)
        if ((size_t)answers[i].sample > samples) samples = (size_t)answers[i].sample;
    if (samples < 2) return;
    double *sum = xcalloc(2 * samples, sizeof *sum), *questions = sum + samples;
    for (size_t i = 0; i < count; i++)
        if (answers[i].metric == m) {
            sum[answers[i].sample - 1] += answers[i].score;
            questions[answers[i].sample - 1]++;
        }
    v->units = samples;
    v->draws = xcalloc(SET_DRAWS, sizeof *v->draws);
    for (int d = 0; d < SET_DRAWS; d++) {
        double s = 0, n = 0;
        for (size_t i = 0; i < samples; i++) {
            const size_t k = set_draw(d, samples, i);
            s += sum[k];
            n += questions[k];
        }
        v->draws[d] = n > 0 ? scale * s / n : NAN;
    }
    free(sum);
}

static struct score_cell *cell_of(struct score_table *t, size_t row, const char *set,
                                  const char *number, const struct score_column *like)
{
    bool known;
    char *name = number ? xasprintf("%s %s", set, number) : xstrdup(set);
    const size_t c = names_add(&t->columns, name, &known);
    free(name);
    if (!known) {
        const size_t count = t->columns.count;
        t->column = xreallocarray(t->column, count, sizeof *t->column);
        t->column[c] = *like;
        for (size_t r = 0; r < t->rows.count; r++) {
            t->cells[r] = xreallocarray(t->cells[r], count, sizeof **t->cells);
            t->cells[r][c] = (struct score_cell){ .mean = unknown };
        }
    }
    return &t->cells[row][c];
}

static size_t row_of(struct score_table *t, const char *name, int64_t step)
{
    bool known;
    const size_t r = names_add(&t->rows, name, &known);
    if (known) return r;
    t->steps = xreallocarray(t->steps, r + 1, sizeof *t->steps);
    t->cells = xreallocarray(t->cells, r + 1, sizeof *t->cells);
    t->steps[r] = step;
    t->cells[r] = xcalloc(t->columns.count + 1, sizeof **t->cells);
    for (size_t c = 0; c < t->columns.count; c++) t->cells[r][c].mean = unknown;
    return r;
}

static void add_value(struct score_cell *c, struct score_value v)
{
    c->list = xreallocarray(c->list, c->count + 1, sizeof *c->list);
    c->list[c->count++] = v;
}

// Returns the index of the number that tables quote for the set.
static int quoted_number(const struct evaluation *e)
{
    for (int i = 0; i < e->number_count && e->total->part; i++)
        if (!strcmp(e->numbers[i].name, e->total->part)) return i;
    return e->total->quoted < e->number_count ? e->total->quoted : 0;
}

void score_table_add(struct score_table *t, const char *row, int64_t step, const char *set,
                     const struct evaluation *e, const struct score_answer *answers, size_t count)
{
    const size_t r = row_of(t, row, step);
    const struct evaluation_total *main = evaluation_main(e);
    if (!main) return;
    const struct metric *m = main->metric;
    const int64_t n = main->tally.scores.count;
    if (!e->number_count) {
        const struct score_column column = { .quoted = true,
                                             .percent = !m->smaller && !m->beyond,
                                             .smaller = m->smaller };
        const double scale = m->smaller ? 1 : 100;
        struct score_value v = { .value = scale * main->tally.scores.mean,
                                 .low = scale * main->low,
                                 .high = scale * main->high,
                                 .n = n };
        draw_means(&v, e, m, answers, count, scale);
        add_value(cell_of(t, r, set, NULL, &column), v);
        return;
    }
    for (int i = 0; i < e->number_count; i++) {
        const struct set_number *number = &e->numbers[i];
        const bool quoted = i == quoted_number(e);
        const struct score_column column = { .quoted = quoted,
                                             .percent = number->unit != NUMBER_OTHER && !m->smaller,
                                             .smaller = m->smaller };
        const double scale = number->unit == NUMBER_SHARE ? 100 : 1;
        struct score_value v = { .value = scale * number->value, .n = n };
        v.draws = xcalloc(SET_DRAWS, sizeof *v.draws);
        v.units = set_total_draws(e->total, e->scores, e->score_count, e->samples, m, i, v.draws);
        for (int d = 0; d < SET_DRAWS; d++) v.draws[d] *= scale;
        if (!v.units) {
            free(v.draws);
            v.draws = NULL;
        }
        interval_of(&v);
        add_value(cell_of(t, r, set, quoted ? NULL : number->name, &column), v);
    }
}

// --- means ---------------------------------------------------------------------------------------

// Sets the cell's mean over repetitions; each bootstrap sample also draws from the repetitions.
static void average_cell(struct score_cell *c)
{
    struct score_value *m = &c->mean;
    bool drawn = true;
    if (!c->count) return;
    *m = c->list[0];
    m->draws = NULL;
    m->value = 0;
    m->n = 0;
    for (size_t i = 0; i < c->count; i++) {
        m->value += c->list[i].value / (double)c->count;
        m->n += c->list[i].n;
        drawn &= c->list[i].draws && c->list[i].units == m->units;
    }
    m->draws = drawn ? xcalloc(SET_DRAWS, sizeof *m->draws) : NULL;
    for (int d = 0; d < SET_DRAWS && drawn; d++)
        for (size_t i = 0; i < c->count; i++) {
            const double at =
                random_unit(REPEAT_SEED, RANDOM_BOOTSTRAP, (uint64_t)d * c->count + i);
            m->draws[d] += c->list[(size_t)(at * (double)c->count)].draws[d] / (double)c->count;
        }
    if (c->count > 1) interval_of(m);
}

// Returns the mean over columns of the values or, if `change`, of their changes from the first row
// in percent.
static struct score_value average_row(const struct score_table *t, size_t row, bool change)
{
    struct score_value v = { .draws = xcalloc(SET_DRAWS, sizeof *v.draws) };
    size_t used = 0;
    bool drawn = true;
    for (size_t c = 0; c < t->columns.count; c++) {
        const struct score_column *column = &t->column[c];
        const struct score_value *x = &t->cells[row][c].mean, *base = &t->cells[0][c].mean;
        if (!column->quoted || (change ? column->smaller : !column->percent)) continue;
        used++;
        v.n += x->n;
        hash_mix(&v.units, x->units);
        v.value += change ? 100 * (x->value / base->value - 1) : x->value;
        drawn &= x->draws && (!change || (base->draws && base->units == x->units));
        for (int d = 0; d < SET_DRAWS && drawn; d++)
            v.draws[d] += change ? 100 * (x->draws[d] / base->draws[d] - 1) : x->draws[d];
    }
    v.value = used ? v.value / (double)used : NAN;
    for (int d = 0; d < SET_DRAWS; d++) v.draws[d] /= (double)used;
    if (!drawn || !used) {
        free(v.draws);
        v.draws = NULL;
    }
    interval_of(&v);
    return v;
}

void score_table_finish(struct score_table *t)
{
    const size_t rows = t->rows.count;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < t->columns.count; c++) average_cell(&t->cells[r][c]);
    for (size_t c = 0; c < t->columns.count; c++)
        t->averaged += t->column[c].quoted && t->column[c].percent;
    t->average = xcalloc(rows + 1, sizeof *t->average);
    t->change = xcalloc(rows + 1, sizeof *t->change);
    for (size_t r = 0; r < rows; r++) {
        t->average[r] = average_row(t, r, false);
        t->change[r] = average_row(t, r, true);
    }
}

struct score_value score_table_difference(const struct score_table *t, size_t from, size_t to,
                                          size_t column)
{
    const bool all = column == t->columns.count;
    const struct score_value *a = all ? &t->average[from] : &t->cells[from][column].mean;
    const struct score_value *b = all ? &t->average[to] : &t->cells[to][column].mean;
    struct score_value v = { .value = b->value - a->value, .n = b->n };
    if (a->draws && b->draws && a->units == b->units) {
        v.units = a->units;
        v.draws = xcalloc(SET_DRAWS, sizeof *v.draws);
        for (int d = 0; d < SET_DRAWS; d++) v.draws[d] = b->draws[d] - a->draws[d];
    }
    interval_of(&v);
    return v;
}

// --- as text -------------------------------------------------------------------------------------

static void put(struct csv *t, size_t row, const char *column, double value)
{
    char *text = isnan(value) ? xstrdup("") : xasprintf("%.9g", value);
    csv_set(t, row, csv_need_column(t, column), text);
    free(text);
}

static void put_value(struct csv *to, size_t row, const struct score_value *v)
{
    put(to, row, "value", v->value);
    put(to, row, "low", v->low);
    put(to, row, "high", v->high);
    put(to, row, "n", (double)v->n);
}

static const char *column_name(const struct score_table *t, size_t column)
{
    return column < t->columns.count ? t->columns.list[column] : "Avg";
}

// Returns the number of columns, with Avg if there is one.
static size_t columns_of(const struct score_table *t)
{
    return t->columns.count + (t->averaged > 1);
}

// Returns the name of a row without its step.
static char *series_of(const struct score_table *t, size_t row)
{
    char *step = xasprintf("step %lld", (long long)t->steps[row]);
    const char *name = t->rows.list[row];
    size_t length = strlen(name);
    if (t->steps[row] >= 0 && text_ends(name, step)) length -= strlen(step);
    while (length && strchr(", ", name[length - 1])) length--;
    free(step);
    return xstrndup(name, length);
}

void score_table_long(const struct score_table *t, struct csv *to)
{
    csv_need_column(to, "row");
    csv_need_column(to, "series");
    csv_need_column(to, "step");
    csv_need_column(to, "column");
    for (size_t r = 0; r < t->rows.count; r++)
        for (size_t c = 0; c < columns_of(t); c++) {
            const bool all = c == t->columns.count;
            const size_t at = csv_add_row(to);
            struct score_value d = score_table_difference(t, 0, r, c);
            char *series = series_of(t, r);
            csv_set(to, at, 0, t->rows.list[r]);
            csv_set(to, at, 1, series);
            if (t->steps[r] >= 0) put(to, at, "step", (double)t->steps[r]);
            csv_set(to, at, 3, column_name(t, c));
            free(series);
            put_value(to, at, all ? &t->average[r] : &t->cells[r][c].mean);
            put(to, at, "difference", d.value);
            put(to, at, "difference low", d.low);
            put(to, at, "difference high", d.high);
            put(to, at, "improve %", all ? t->change[r].value : NAN);
            put(to, at, "improve % low", all ? t->change[r].low : NAN);
            put(to, at, "improve % high", all ? t->change[r].high : NAN);
            free(d.draws);
        }
}

void score_table_compare(const struct score_table *t, const char *from, const char *to,
                         struct csv *csv)
{
    size_t a, b;
    if (!names_find(&t->rows, from, &a) || !names_find(&t->rows, to, &b)) return;
    csv_need_column(csv, "from");
    csv_need_column(csv, "to");
    csv_need_column(csv, "column");
    for (size_t c = 0; c < columns_of(t); c++) {
        const size_t at = csv_add_row(csv);
        struct score_value d = score_table_difference(t, a, b, c);
        csv_set(csv, at, 0, from);
        csv_set(csv, at, 1, to);
        csv_set(csv, at, 2, column_name(t, c));
        put(csv, at, "difference", d.value);
        put(csv, at, "low", d.low);
        put(csv, at, "high", d.high);
        free(d.draws);
    }
}

static char *wide_text(const struct score_table *t, size_t row, size_t column)
{
    const bool all = column == t->columns.count;
    const struct score_value *v = all ? &t->average[row] : &t->cells[row][column].mean;
    const int digits = !all && t->column[column].smaller ? 4 : 2;
    struct score_value d = score_table_difference(t, 0, row, column);
    const bool apart = d.low > 0 || d.high < 0;
    free(d.draws);
    if (isnan(v->value)) return xstrdup("-");
    if (!row || isnan(d.value)) return xasprintf("%.*f", digits, v->value);
    return xasprintf("%.*f (%+.*f%s)", digits, v->value, digits, d.value, apart ? "*" : "");
}

void score_table_wide(const struct score_table *t, struct csv *to)
{
    csv_need_column(to, "row");
    for (size_t r = 0; r < t->rows.count; r++) {
        const size_t at = csv_add_row(to);
        csv_set(to, at, 0, t->rows.list[r]);
        for (size_t c = 0; c < columns_of(t); c++) {
            char *text = wide_text(t, r, c);
            csv_set(to, at, csv_need_column(to, column_name(t, c)), text);
            free(text);
        }
        if (t->rows.count < 2) continue;
        char *text = r && isfinite(t->change[r].value) ? xasprintf("%+.2f", t->change[r].value)
                                                       : xstrdup(r ? "-" : "");
        csv_set(to, at, csv_need_column(to, "Improve %"), text);
        free(text);
    }
}

void score_table_release(struct score_table *t)
{
    for (size_t r = 0; r < t->rows.count; r++) {
        for (size_t c = 0; c < t->columns.count; c++) {
            struct score_cell *cell = &t->cells[r][c];
            for (size_t i = 0; i < cell->count; i++) free(cell->list[i].draws);
            free(cell->list);
            free(cell->mean.draws);
        }
        free(t->cells[r]);
        if (t->average) free(t->average[r].draws);
        if (t->change) free(t->change[r].draws);
    }
    free(t->cells);
    free(t->steps);
    free(t->column);
    free(t->average);
    free(t->change);
    names_release(&t->rows);
    names_release(&t->columns);
    *t = (struct score_table){ 0 };
}
