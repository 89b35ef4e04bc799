// core/eval/score_table.h -- scores of rows (models, settings) on evaluation sets as one table:
// numbers as papers print them, the mean over sets, and paired differences with 95% intervals.
//
//   struct score_table t = { 0 };
//   score_table_add(&t, "FastV", -1, "POPE", &evaluation, answers, count);  // for each cell
//   score_table_finish(&t);
//   score_table_long(&t, &csv);     // a row for each cell
//   score_table_wide(&t, &csv);     // as printed
//   score_table_release(&t);
//
// A share is in percent. A set with a total of its own (core/sets/total.h) has a column for each of
// its numbers; the one that tables quote has the set's name. "Avg" is the mean of the quoted
// percentages, without numbers of another unit (MME, CIDEr) or where less is better. "Improve %" is
// the mean, over all quoted numbers where more is better, of the change relative to the first row.
// Several cells of one row and set are repetitions (seeds): their mean counts.
//
// Intervals of differences and of Avg come from 1000 bootstrap samples, drawn from the sets'
// samples (or from the groups of a total) and from the repetitions. A bootstrap sample has the same
// samples in all rows, so differences are paired, even if a row could not score some samples. If
// rows have scores of different groups, their difference has no interval.
#ifndef CORE_EVAL_SCORE_TABLE_H
#define CORE_EVAL_SCORE_TABLE_H

#include "core/base/csv.h"
#include "core/base/names.h"
#include "core/eval/evaluate.h"

// A scored question.
struct score_answer {
    int64_t sample; // from 1
    const struct metric *metric;
    double score;
};

struct score_value {
    double value, low, high; // NaN: unknown
    int64_t n;               // questions
    uint64_t units; // key of the units that the bootstrap draws from: values with equal keys pair
    double *draws;  // [SET_DRAWS], owned; NULL: none
};

struct score_cell {
    struct score_value *list; // [count] repetitions
    size_t count;
    struct score_value mean; // over the repetitions
};

struct score_column {
    bool quoted, percent, smaller;
};

struct score_table {
    struct names rows, columns;
    int64_t *steps;              // [rows] checkpoint; -1: none
    struct score_column *column; // [columns]
    struct score_cell **cells;   // [rows][columns]
    struct score_value *average; // [rows] once finished
    struct score_value *change;  // [rows] Improve %
    size_t averaged;             // number of columns in Avg; below 2: no Avg
};

void score_table_add(struct score_table *t, const char *row, int64_t step, const char *set,
                     const struct evaluation *e, const struct score_answer *answers, size_t count);
void score_table_finish(struct score_table *t);
// Returns row `to` minus row `from` in a column, or in Avg (column = columns.count). The caller
// frees draws.
struct score_value score_table_difference(const struct score_table *t, size_t from, size_t to,
                                          size_t column);
// Columns row, series (the row without its step), step, column, value, low, high, n, difference
// (from the first row), difference low, difference high, improve %, improve % low, improve % high.
void score_table_long(const struct score_table *t, struct csv *to);
// Adds rows of a comparison: from, to, column, difference, low, high.
void score_table_compare(const struct score_table *t, const char *from, const char *to,
                         struct csv *csv);
// Cells are like "72.16 (+0.77*)": the value and its difference from the first row; *: the
// difference's interval does not contain 0.
void score_table_wide(const struct score_table *t, struct csv *to);
void score_table_release(struct score_table *t);

#endif
