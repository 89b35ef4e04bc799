// core/papers/paper.c -- finds papers and tables, fills their layout, judges their claims.
#include "core/papers/paper.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/names.h"
#include "core/base/tally.h"
#include "core/base/text.h"

#define X(name) extern const struct paper paper_##name;
#include "core/papers/list.h"
#undef X
#define X(name) &paper_##name,
const struct paper *const papers[] = {
#include "core/papers/list.h"
    NULL
};
#undef X

const char *const paper_verdicts[] = { "shown", "partly", "opposite", "not measurable" };

const char paper_rule[] =
    "A claim is shown if the 95% interval of its difference lies on the paper's side of 0 (or of "
    "the margin that the claim names), opposite if it lies on the other side, else open; "
    "measurements without intervals are judged by their sign. The table is shown if all claims "
    "are, opposite if none is shown and one is opposite, not measurable if all are open or without "
    "numbers, else partly.";

const struct paper *paper_find(const char *name, struct err *err)
{
    struct buf b = { 0 };
    for (int i = 0; papers[i]; i++)
        if (!strcmp(papers[i]->name, name)) return papers[i];
    for (int i = 0; papers[i]; i++) buf_printf(&b, "%s%s", i ? ", " : "", papers[i]->name);
    err_set(err, "no paper '%s': %s", name, b.data);
    buf_release(&b);
    return NULL;
}

// Returns whether a word is in a space-separated list.
static bool is_among(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *p = list; p && *p; p += strcspn(p, " "), p += *p == ' ')
        if (strcspn(p, " ") == length && !memcmp(p, word, length)) return true;
    return false;
}

const struct paper_table *paper_table_find(const struct paper *p, const char *name, struct err *err)
{
    struct buf b = { 0 };
    for (const struct paper_table *t = p->tables; t->name; t++)
        if (!strcmp(t->name, name) || is_among(t->also, name)) return t;
    for (const struct paper_table *t = p->tables; t->name; t++)
        buf_printf(&b, "%s%s%s%s%s", b.length ? ", " : "", t->name, t->also ? " (" : "",
                   t->also ? t->also : "", t->also ? ")" : "");
    err_set(err, "%s has no '%s': %s", p->name, name, b.data);
    buf_release(&b);
    return NULL;
}

bool paper_reading_matters(const struct paper_reading *reading, const struct paper_table *t)
{
    return strstr(t->plan, "${READING}") &&
           (!reading->tables || is_among(reading->tables, t->name));
}

char *paper_variant(const struct paper_table *t, const char *name, char **key, struct err *err)
{
    for (const char *p = t->variants ? t->variants : ""; *p;) {
        const size_t length = strcspn(p, "|"), first = strcspn(p, " ");
        *key = xstrndup(p, first);
        char *full = xstrndup(p + first + 1, length - first - 1);
        if (!name || !strcmp(name, *key) || !strcmp(name, full)) return full;
        free(*key);
        free(full);
        p += length + (p[length] == '|');
    }
    *key = NULL;
    if (!name) {
        *key = xstrdup("");
        return xstrdup("");
    }
    err_set(err, "%s has no numbers of '%s'%s%s", t->name, name, t->variants ? ": " : "",
            t->variants ? t->variants : "");
    return NULL;
}

// --- the plan ------------------------------------------------------------------------------------

static const char *value_of(const char *const *values, const char *name, size_t length)
{
    for (int i = 0; values[i]; i += 2)
        if (strlen(values[i]) == length && !memcmp(values[i], name, length)) return values[i + 1];
    return NULL;
}

char *paper_expand(const char *text, const char *const *values, struct err *err)
{
    static const char each[] = "${each}", end[] = "${end}", name[] = "MODEL";
    const char *models = value_of(values, name, strlen(name)), *model = models, *block = NULL;
    struct buf b = { 0 };
    buf_puts(&b, "");
    for (const char *p = text; *p;) {
        if (!strncmp(p, each, strlen(each))) {
            block = p += strlen(each);
            continue;
        }
        if (!strncmp(p, end, strlen(end))) {
            if (model) model += strcspn(model, ",");
            const bool more = block && model && *model;
            model = more ? model + 1 : models;
            p = more ? block : p + strlen(end);
            continue;
        }
        if (strncmp(p, "${", 2) != 0) {
            buf_putc(&b, *p++);
            continue;
        }
        const size_t length = strcspn(p + 2, "}");
        const char *value = value_of(values, p + 2, length);
        const bool is_model = value && value == models;
        if (!value) {
            err_set(err, "%.*s", (int)length, p + 2);
            buf_release(&b);
            return NULL;
        }
        buf_printf(&b, "%.*s", is_model ? (int)strcspn(model, ",") : INT_MAX,
                   is_model ? model : value);
        p += length + 3;
    }
    return buf_take(&b);
}

// The sets of a demo's plan of scores.
static const char demo_sets[] =
    "set questions: ${OUT}/world/questions.json --limit ${LIMIT}\n"
    "set yesno: ${OUT}/world/yesno.json --limit ${LIMIT}\n"
    "set reasoning: ${OUT}/world/reasoning.json --limit ${LIMIT}\n"
    "set captions: ${OUT}/world/captions.json --metric cider --limit ${LIMIT}\n";

char *paper_scores_plan(const struct paper_table *t, bool demo, const char *const *values,
                        struct err *err)
{
    struct buf b = { 0 };
    buf_printf(&b, "%s%s", demo ? demo_sets : "sets ${SETS}\n", t->rows);
    for (const struct paper_claim *c = t->claims; c && c->text; c++) {
        char *line = c->from ? xasprintf("compare %s | %s\n", c->from, c->to) : xstrdup("");
        if (!b.data || !strstr(b.data, line)) buf_puts(&b, line);
        free(line);
    }
    char *plan = paper_expand(b.data, values, err);
    buf_release(&b);
    return plan;
}

// --- results -------------------------------------------------------------------------------------

struct number {
    double value, low, high; // NaN: unknown
};

static int read_if_there(struct csv *t, const char *folder, const char *name, const char *first,
                         struct err *err)
{
    char *path = xasprintf("%s/%s", folder, name);
    *t = (struct csv){ 0 };
    int status = access(path, F_OK) == 0 ? csv_read(t, path, err) : 0;
    // The conditions of a measurement name its rows.
    const int condition = status == 0 && t->columns ? csv_column(t, "condition") : -1;
    if (condition >= 0 && csv_column(t, first) < 0) {
        free(t->columns[condition]);
        t->columns[condition] = xstrdup(first);
    }
    if (status == 0 && t->column_count && csv_column(t, first) < 0)
        status = err_set(err, "'%s' has no column '%s'", path, first);
    free(path);
    return status;
}

static double number_at(const struct csv *t, size_t row, const char *column)
{
    const int c = csv_column(t, column);
    double x;
    return c >= 0 && csv_number(csv_cell(t, row, c), &x) ? x : NAN;
}

// Returns for each row the largest layer in the rows of its model; -1 if none has a layer.
static double *find_last_layers(const struct csv *t)
{
    const int model = csv_column(t, "model");
    double *last = xcalloc(t->row_count + 1, sizeof *last);
    double *of = xcalloc(t->row_count + 1, sizeof *of); // of a model, by its number
    struct names models = { 0 };
    for (size_t i = 0; i < t->row_count; i++) {
        bool known;
        const size_t k = names_add(&models, model < 0 ? "" : csv_cell(t, i, model), &known);
        of[k] = fmax(known ? of[k] : -1, number_at(t, i, "layer"));
    }
    for (size_t i = 0, k; i < t->row_count; i++)
        if (names_find(&models, model < 0 ? "" : csv_cell(t, i, model), &k)) last[i] = of[k];
    names_release(&models);
    free(of);
    return last;
}

int paper_results_read(struct paper_results *r, const struct paper_table *t, const char *variant,
                       bool demo, const char *folder, struct err *err)
{
    *r = (struct paper_results){ .table = t, .variant = xstrdup(variant), .demo = demo };
    if (read_if_there(&r->scores, folder, "scores/scores.csv", "row", err) == 0 &&
        read_if_there(&r->compared, folder, "scores/compare.csv", "from", err) == 0 &&
        read_if_there(&r->measured, folder, "measured.csv", "row", err) == 0 &&
        read_if_there(&r->curves, folder, "curves.csv", "job", err) == 0) {
        r->last_layers = find_last_layers(&r->measured);
        return 0;
    }
    paper_results_release(r);
    return -1;
}

void paper_results_release(struct paper_results *r)
{
    free(r->variant);
    free(r->last_layers);
    csv_release(&r->scores);
    csv_release(&r->compared);
    csv_release(&r->measured);
    csv_release(&r->curves);
}

static bool is_at(const struct csv *t, size_t row, const char *column, const char *text)
{
    const int c = csv_column(t, column);
    return c >= 0 && !strcmp(csv_cell(t, row, c), text);
}

static const char *ours(const struct paper_results *r, const struct paper_column *c)
{
    return r->demo ? c->demo : c->ours;
}

static double or_else(double x, double unknown)
{
    return isnan(x) ? unknown : x;
}

static double number_of(const struct csv *t, size_t row, const char *column, const char *what)
{
    char *name = xasprintf("%s %s", column, what);
    const double x = number_at(t, row, name);
    free(name);
    return x;
}

// Returns a number of measured.csv with its interval: from the columns "COLUMN low" and "COLUMN
// high", or else from the deviation over samples, "COLUMN std", and their number, "n".
static struct number measured(const struct paper_results *r, size_t row, const char *column,
                              double scale)
{
    const struct csv *t = &r->measured;
    const double value = number_at(t, row, column), n = number_at(t, row, "n");
    const double error = 1.96 * number_of(t, row, column, "std") / sqrt(n);
    return (struct number){ scale * value,
                            scale * or_else(number_of(t, row, column, "low"), value - error),
                            scale * or_else(number_of(t, row, column, "high"), value + error) };
}

// Reads a name like "NAME, last third": returns the length of NAME and sets *third to 0, 1 or 2, or
// to -1 for all layers.
static size_t read_third(const char *row, int *third)
{
    static const char *const names[] = { ", first third", ", middle third", ", last third" };
    for (*third = 2; *third >= 0; --*third)
        if (text_ends(row, names[*third])) return strlen(row) - strlen(names[*third]);
    return strlen(row);
}

// Returns the third (0, 1 or 2) of the model's layers to which a row's layer belongs; NaN: the row
// has no layer.
static double third_of(const struct paper_results *r, size_t row)
{
    return floor(3 * number_at(&r->measured, row, "layer") / (r->last_layers[row] + 1));
}

// Returns the mean of a run's series over its steps.
static struct number mean_of_curve(const struct csv *t, const char *run, const char *series)
{
    struct tally steps = { 0 };
    for (size_t i = 0; i < t->row_count; i++)
        if (is_at(t, i, "job", run) && is_at(t, i, "series", series))
            tally_add(&steps, number_at(t, i, "value"));
    return (struct number){ tally_mean(&steps), NAN, NAN };
}

// Returns our number for a row and column: from scores.csv, else from measured.csv, where several
// rows of that name are averaged, else from curves.csv.
static struct number find(const struct paper_results *r, const char *row, const char *column)
{
    struct number n = { NAN, NAN, NAN };
    double scale = 1;
    if (!column) return n;
    for (const struct paper_column *c = r->table->columns; c->name; c++)
        if (c->scale > 0 && ours(r, c) && !strcmp(ours(r, c), column)) scale = c->scale;
    for (size_t i = 0; i < r->scores.row_count; i++)
        if (is_at(&r->scores, i, "row", row) && is_at(&r->scores, i, "column", column))
            return (struct number){ number_at(&r->scores, i, "value"),
                                    number_at(&r->scores, i, "low"),
                                    number_at(&r->scores, i, "high") };
    double sum = 0;
    int rows = 0, third;
    const size_t length = read_third(row, &third);
    char *name = xstrndup(row, length);
    for (size_t i = 0; i < r->measured.row_count; i++) {
        if (!is_at(&r->measured, i, "row", name)) continue;
        if (third >= 0 && !(third_of(r, i) == third)) continue;
        const struct number one = measured(r, i, column, scale);
        if (!isnan(one.value)) n = one, sum += one.value, rows++;
    }
    free(name);
    if (rows > 1) return (struct number){ sum / rows, NAN, NAN };
    return rows ? n : mean_of_curve(&r->curves, row, column);
}

// Takes the next field of a line that "|" separates; NULL at its end. The caller frees it.
static char *take_field(const char **at)
{
    if (**at == '\n' || !**at) return NULL;
    const size_t length = strcspn(*at, "|\n");
    char *field = xstrndup(*at, length);
    *at += length + ((*at)[length] == '|');
    return field;
}

// Returns the published line of a row after its name; NULL: no more rows. *at iterates.
static const char *next_published(const struct paper_results *r, const char **at, char **row)
{
    while (**at) {
        const char *p = *at;
        char *variant = take_field(&p);
        *at += strcspn(*at, "\n");
        *at += **at == '\n';
        const bool fits = !*variant || !strcmp(variant, r->variant);
        free(variant);
        if (!fits) continue;
        *row = take_field(&p);
        return p;
    }
    return NULL;
}

// Returns the paper's number as printed, "" for none; computes an Avg that is not printed.
static char *published_text(const struct paper_table *t, const char *fields, size_t column)
{
    char *text = NULL;
    double sum = 0, x;
    size_t n = 0;
    for (size_t i = 0; i <= column; i++) {
        free(text);
        text = take_field(&fields);
        if (i < column && text && csv_number(text, &x)) sum += x, n++;
    }
    if (!text && !strcmp(t->columns[column].name, "Avg") && n)
        return xasprintf("%.2f", sum / (double)n);
    return text ? text : xstrdup("");
}

static double published(const struct paper_results *r, const char *row, const char *column)
{
    const struct paper_table *t = r->table;
    const char *at = t->published, *fields;
    char *name;
    double value = NAN;
    size_t c = 0;
    while (t->columns[c].name &&
           (!ours(r, &t->columns[c]) || strcmp(ours(r, &t->columns[c]), column) != 0))
        c++;
    while (t->columns[c].name && (fields = next_published(r, &at, &name))) {
        char *text = published_text(t, fields, c);
        if (!strcmp(name, row) && !csv_number(text, &value)) value = NAN;
        free(text);
        free(name);
    }
    return value;
}

// --- the layout ----------------------------------------------------------------------------------

static char *number_text(double x)
{
    if (isnan(x)) return xstrdup("-");
    if (fabs(x) < 1e-12) x = 0; // the rounding error of a difference of equal means
    return fabs(x) >= 10 ? xasprintf("%.2f", x) : xasprintf("%.3g", x);
}

static char *here_text(const struct number *n)
{
    char *value = number_text(n->value), *low = number_text(n->low), *high = number_text(n->high);
    char *text = !isfinite(n->low) ? xstrdup(value) : xasprintf("%s (%s to %s)", value, low, high);
    free(value);
    free(low);
    free(high);
    return text;
}

static bool is_measured(const struct paper_results *r, const char *column)
{
    for (size_t i = 0; i < r->scores.row_count; i++)
        if (column && is_at(&r->scores, i, "column", column)) return true;
    for (size_t i = 0; i < r->curves.row_count; i++)
        if (column && is_at(&r->curves, i, "series", column)) return true;
    return column && csv_column(&r->measured, column) >= 0;
}

// Writes our number for the row `name` and a column of the table to column `at` of *to.
static void put_ours(const struct paper_results *r, struct csv *to, size_t row, const char *name,
                     size_t column, int at)
{
    const struct number n = find(r, name, ours(r, &r->table->columns[column]));
    char *text = here_text(&n);
    csv_set(to, row, at, text);
    free(text);
}

// Adds a row of the results that the paper does not print.
static void add_other_row(const struct paper_results *r, struct csv *to, const char *name,
                          const int *here)
{
    for (size_t i = 0; i < to->row_count; i++)
        if (!strcmp(csv_cell(to, i, 0), name)) return;
    const size_t row = csv_add_row(to);
    csv_set(to, row, 0, name);
    for (size_t c = 0; r->table->columns[c].name; c++)
        if (here[c] >= 0) put_ours(r, to, row, name, c, here[c]);
}

void paper_layout(const struct paper_results *r, struct csv *to)
{
    const struct paper_column *columns = r->table->columns;
    const char *at = r->table->published, *fields;
    char *name;
    size_t count = 0;
    while (columns[count].name) count++;
    int *here = xcalloc(count + 1, sizeof *here), *paper = xcalloc(count + 1, sizeof *paper);
    csv_need_column(to, "row");
    for (size_t c = 0; c < count; c++) {
        const char *own = ours(r, &columns[c]);
        char *one = xasprintf("%s, paper", columns[c].name);
        char *two = r->demo && own && strcmp(own, columns[c].name) != 0 &&
                            (!columns[c].ours || strcmp(own, columns[c].ours) != 0)
                        ? xasprintf("%s (for %s)", own, columns[c].name)
                        : xasprintf("%s, here", columns[c].name);
        paper[c] = *at ? csv_need_column(to, one) : -1; // a figure prints no numbers
        here[c] = is_measured(r, own) ? csv_need_column(to, two) : -1;
        free(one);
        free(two);
    }
    while ((fields = next_published(r, &at, &name))) {
        const size_t row = csv_add_row(to);
        csv_set(to, row, 0, name);
        for (size_t c = 0; c < count; c++) {
            char *text = published_text(r->table, fields, c);
            csv_set(to, row, paper[c], text);
            if (here[c] >= 0) put_ours(r, to, row, name, c, here[c]);
            free(text);
        }
        free(name);
    }
    const struct csv *files[] = { &r->scores, &r->measured, &r->curves };
    for (int f = 0; f < 3; f++)
        for (size_t i = 0; i < files[f]->row_count; i++)
            add_other_row(r, to, csv_cell(files[f], i, csv_column(files[f], f < 2 ? "row" : "job")),
                          here);
    free(here);
    free(paper);
}

// --- the verdict ---------------------------------------------------------------------------------

enum claim_verdict { CLAIM_SHOWN, CLAIM_OPEN, CLAIM_OPPOSITE, CLAIM_MISSING };
static const char *const claim_words[] = { "shown", "open", "opposite", "not measured" };

// Returns b - a, with bounds from the intervals of both.
static struct number minus(const struct number *b, const struct number *a)
{
    return (struct number){ b->value - a->value, b->low - a->high, b->high - a->low };
}

// Returns the difference of two rows: the paired one if compare.csv has it, with infinite bounds if
// it has no interval; else that of the two numbers, with bounds from their intervals.
static struct number difference(const struct paper_results *r, const struct paper_claim *c,
                                const char *column)
{
    const struct csv *t = &r->compared;
    for (size_t i = 0; i < t->row_count; i++)
        if (is_at(t, i, "from", c->from) && is_at(t, i, "to", c->to) &&
            is_at(t, i, "column", column))
            return (struct number){ number_at(t, i, "difference"),
                                    or_else(number_at(t, i, "low"), -INFINITY),
                                    or_else(number_at(t, i, "high"), INFINITY) };
    const struct number a = find(r, c->from, column), b = find(r, c->to, column);
    return minus(&b, &a);
}

// Returns the difference of two rows in percent of the first, without an interval.
static struct number change(const struct paper_results *r, const struct paper_claim *c,
                            const char *column)
{
    const struct number a = find(r, c->from, column), b = find(r, c->to, column);
    return (struct number){ 100 * (b.value / a.value - 1), NAN, NAN };
}

static struct number turned(const struct number *n)
{
    return (struct number){ -n->value, -n->high, -n->low };
}

static enum claim_verdict above(const struct number *n, double bound)
{
    if (isnan(n->value) || isnan(bound)) return CLAIM_MISSING;
    if (or_else(n->low, n->value) > bound) return CLAIM_SHOWN;
    return or_else(n->high, n->value) < bound ? CLAIM_OPPOSITE : CLAIM_OPEN;
}

static enum claim_verdict judge(const struct paper_claim *c, const struct number *d)
{
    const struct number n = c->less ? turned(d) : *d;
    return above(&n, -c->margin);
}

static enum claim_verdict near(const struct number *n, double said, double share)
{
    const struct number negative = turned(n);
    const enum claim_verdict a = above(n, said - share * fabs(said));
    const enum claim_verdict b = above(&negative, -said - share * fabs(said));
    return a > b ? a : b; // the worse
}

enum paper_verdict paper_judge(const struct paper_results *r, struct csv *claims)
{
    size_t count[4] = { 0 }, all = 0;
    static const char *const columns[] = { "claim", "paper", "here", "verdict" };
    for (int i = 0; i < 4; i++) csv_need_column(claims, columns[i]);
    for (const struct paper_claim *c = r->table->claims; c->text; c++, all++) {
        const char *column = r->demo && c->demo ? c->demo : c->column;
        const double said = published(r, c->to, column);
        struct number here;
        enum claim_verdict v;
        double paper;
        if (c->against) {
            const struct number a = find(r, c->to, c->against), b = find(r, c->to, column);
            here = minus(&b, &a);
            paper = NAN;
            v = judge(c, &here);
        } else if (c->from) {
            const double base = published(r, c->from, column);
            here = c->percent ? change(r, c, column) : difference(r, c, column);
            paper = c->percent ? 100 * (said / base - 1) : said - base;
            v = judge(c, &here);
        } else {
            here = find(r, c->to, column);
            paper = said;
            v = c->equal > 0 ? near(&here, said, c->equal) : above(&here, c->above);
        }
        const size_t row = csv_add_row(claims);
        char *one = number_text(paper), *two = here_text(&here);
        csv_set(claims, row, 0, c->text);
        csv_set(claims, row, 1, one);
        csv_set(claims, row, 2, two);
        csv_set(claims, row, 3, claim_words[v]);
        free(one);
        free(two);
        count[v]++;
    }
    if (count[CLAIM_OPEN] + count[CLAIM_MISSING] == all) return VERDICT_NOT_MEASURABLE;
    if (count[CLAIM_SHOWN] == all) return VERDICT_SHOWN;
    return !count[CLAIM_SHOWN] ? VERDICT_OPPOSITE : VERDICT_PARTLY;
}

// --- readings ------------------------------------------------------------------------------------

static const char table_row_name[] = "the table";

void paper_readings_add(struct csv *to, const char *title, const struct csv *claims,
                        enum paper_verdict verdict)
{
    const bool first = !to->row_count;
    csv_need_column(to, "claim");
    const int at = csv_need_column(to, title);
    for (size_t i = 0; i < claims->row_count; i++) {
        char *text = xasprintf("%s: %s", csv_cell(claims, i, 3), csv_cell(claims, i, 2));
        const size_t row = first ? csv_add_row(to) : i;
        if (first) csv_set(to, row, 0, csv_cell(claims, i, 0));
        csv_set(to, row, at, text);
        free(text);
    }
    const size_t row = first ? csv_add_row(to) : claims->row_count;
    if (first) csv_set(to, row, 0, table_row_name);
    csv_set(to, row, at, paper_verdicts[verdict]);
}

void paper_readings_close(struct csv *to)
{
    const int readings = to->column_count;
    const int at = csv_need_column(to, "same under all");
    for (size_t row = 0; row < to->row_count; row++) {
        const char *own = csv_cell(to, row, 1);
        bool same = true;
        for (int c = 2; c < readings; c++) {
            const char *other = csv_cell(to, row, c);
            same &=
                strcspn(own, ":") == strcspn(other, ":") && !strncmp(own, other, strcspn(own, ":"));
        }
        csv_set(to, row, at, same ? "yes" : "no");
    }
}
