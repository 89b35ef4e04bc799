// core/probes/results_conclude.c -- says in one sentence what a measurement found: where the
// numbers of its main table are highest and lowest.
//
//   most attention to the picture in layer 7 (86.6%), least in layer 1 (10.8%)
//   visual highest in layer 2 (0.996), lowest in layer 6 (0.945); text highest in layer 2 (0.988),
//   ...
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/probes/results.h"

enum { CLAUSES = 2, CONDITIONS = 4 }; // maximum numbers of columns and of conditions in the text

// Returns the kind of exactly this table's name; NULL: none exists.
static const struct result_kind *kind_of(const struct result_table *t)
{
    const struct result_kind *k = result_kind(t->name);
    return k && !strcmp(k->name, t->name) ? k : NULL;
}

// Returns what the table's first column of numbers measures; NULL: its name says it.
static const char *finds(const struct result_table *t)
{
    const struct result_kind *k = kind_of(t);
    return k ? k->finds : NULL;
}

// The rows of one condition with the largest and the smallest number in a column, and the number of
// rows that have one.
struct extremes {
    const struct result_row *most, *least;
    int rows;
};

static struct extremes find(const struct result_table *t, int column, int condition)
{
    struct extremes e = { 0 };
    for (size_t i = 0; i < t->row_count; i++) {
        const struct result_row *row = &t->rows[i];
        const double value = row->value[column - 1];
        if (row->condition != condition || !isfinite(value)) continue;
        if (!e.rows || value > e.most->value[column - 1]) e.most = row;
        if (!e.rows || value < e.least->value[column - 1]) e.least = row;
        e.rows++;
    }
    return e;
}

static void number_of(const struct result_table *t, const struct result_row *row, int column,
                      char number[32])
{
    const char *unit = results_column_unit(t, column);
    text_number(number, row->value[column - 1], unit && !strncmp(unit, "share", 5));
}

// Appends the row's key and number: " in layer 7 (86.6%)".
static void put_place(struct buf *b, const struct result_table *t, const struct result_row *row,
                      int column)
{
    const bool named = !strchr(t->columns[0], ' '); // else the keys explain themselves
    const size_t n = strlen(row->key);
    char number[32];
    number_of(t, row, column, number);
    if (named)
        buf_printf(b, " in %s ", t->columns[0]);
    else
        buf_puts(b, ": ");
    if (text_ends(row->key, ")")) // "position 79 (token 74)"
        buf_printf(b, "%.*s; %s)", (int)n - 1, row->key, number);
    else
        buf_printf(b, "%s (%s)", row->key, number);
}

static void put_clause(struct buf *b, const struct result_table *t, int column, int condition)
{
    const struct extremes e = find(t, column, condition);
    const char *name = t->columns[column], *what = finds(t);
    if (!e.rows) return;
    if (b->length) buf_puts(b, "; ");
    if (e.rows == 1) {
        buf_printf(b, "%s", what ? what : name);
        put_place(b, t, e.most, column);
        if (what && !condition && !strcmp(t->columns[0], "layer"))
            buf_puts(b, "; --layer all compares the layers");
        return;
    }
    if (e.most->value[column - 1] == e.least->value[column - 1]) {
        char number[32];
        number_of(t, e.most, column, number);
        buf_printf(b, "%s %s in every %s", name, number, t->columns[0]);
        return;
    }
    const struct result_kind *k = kind_of(t);
    const bool low = t->ranked > 0 || (k && k->losses); // the lowest number comes first
    if (what)
        buf_printf(b, "most %s", what);
    else
        buf_printf(b, "%s %s", name, low ? "lowest" : "highest");
    put_place(b, t, low ? e.least : e.most, column);
    buf_puts(b, what ? ", least" : low ? ", highest" : ", lowest");
    put_place(b, t, low ? e.most : e.least, column);
}

// Standard deviations and positions of tokens are no findings.
static bool is_finding(const struct result_table *t, int column)
{
    const char *name = t->columns[column];
    return !text_ends(name, " std") && !text_ends(name, "at token") && results_same_unit(t, column);
}

static char *sentence(const struct result_table *t, int condition)
{
    const struct result_kind *k = kind_of(t);
    const int most = finds(t) ? 1 : CLAUSES;
    struct buf b = { 0 };
    if (k && k->sentence) {
        k->sentence(t, condition, &b);
        return b.length ? buf_take(&b) : NULL;
    }
    for (int c = 1, said = 0; c < t->column_count && said < most; c++) {
        if (!is_finding(t, c) || !find(t, c, condition).rows) continue;
        put_clause(&b, t, c, condition);
        said++;
    }
    return b.length ? buf_take(&b) : NULL;
}

// Returns the main table: the first that is a curve, is ranked, or has a kind with `finds` or
// `sentence`.
static const struct result_table *main_table(const struct results *r)
{
    for (size_t i = 0; i < r->table_count; i++) {
        const struct result_table *t = r->tables[i];
        const struct result_kind *k = kind_of(t);
        const bool says = k && (k->finds || k->sentence);
        if (t->column_count > 1 && t->row_count && (t->curve || t->ranked || says)) return t;
    }
    return NULL;
}

// Repeats the first two numbers of a table of single numbers.
static void conclude_numbers(struct results *r)
{
    const struct result_table *t = NULL;
    struct buf b = { 0 };
    for (size_t i = 0; i < r->table_count && !t; i++)
        if (r->tables[i]->column_count == 2 && !strcmp(r->tables[i]->columns[0], "what"))
            t = r->tables[i];
    if (!t || r->condition_count) return;
    for (size_t i = 0; i < t->row_count && i < CLAUSES; i++) {
        char number[32];
        if (!isfinite(t->rows[i].value[0])) continue;
        number_of(t, &t->rows[i], 1, number);
        buf_printf(&b, "%s%s %s", b.length ? "; " : "", t->rows[i].key, number);
    }
    if (b.length) results_note(r, "%s", b.data);
    buf_release(&b);
}

void results_conclude(struct results *r)
{
    const struct result_table *t = main_table(r);
    if (!t && !r->note_count) conclude_numbers(r); // else the probe has said what it found
    const int conditions = (int)r->condition_count;
    for (int c = 0; t && c < (conditions ? conditions : 1) && c < CONDITIONS; c++) {
        char *text = sentence(t, c);
        if (text && conditions)
            results_note(r, "%s: %s", r->conditions[c], text);
        else if (text)
            results_note(r, "%s", text);
        free(text);
    }
}
