// commands/compare_table.h -- the tables of /compare: what two answers cost, how far they are
// apart.
#ifndef COMMANDS_COMPARE_TABLE_H
#define COMMANDS_COMPARE_TABLE_H

#include "core/compare.h"

// A row of the table of costs: a number of an answer's cost.
struct compare_cost_row {
    const char *what;
    double (*of)(const struct compare_cost *c);
    int digits;
};

extern const struct compare_cost_row compare_cost_rows[]; // ends with a row without a name

// what | A | B | B/A; what is not finite is left empty.
void compare_costs_begin(struct table_builder *t);
void compare_row(struct table_builder *t, const char *what, double a, double b, int digits);
// what | value
void compare_distance_begin(struct table_builder *t);
void compare_number(struct table_builder *t, const char *what, double x);

#endif
