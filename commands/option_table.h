// commands/option_table.h -- options of a command line or of a command: a table, read by one
// function.
//
//   static const struct option_row rows[] = { { "--seed", "N", "random seed", take_seed }, { 0 } };
//   static const struct option_table table = { rows, take_word };
//   int at = 0;
//   if (option_table_read(&table, &mine, argc, argv, &at, err) < 0) return -1;
//
// A row names an option, its argument and what it does.
#ifndef COMMANDS_OPTION_TABLE_H
#define COMMANDS_OPTION_TABLE_H

#include "core/base/err.h"

struct option_row {
    const char *name;     // "--threads", or "-c"
    const char *argument; // "N"; NULL: takes none
    const char *help;     // one line
    // value is NULL when it takes no argument. May keep the pointer.
    int (*take)(void *self, const char *value, struct err *err);
};

struct option_table {
    const struct option_row *rows; // ends with a row without a name
    // Handles a word that is not an option. Returns 1 to stop: the caller reads the rest itself.
    int (*positional)(void *self, const char *value, struct err *err);
};

// Reads argv[*at]... to the end, or until `positional` stops; *at is then the next index. An
// option's argument may be the next word, follow `=` (--db=FILE) or a short name (-cLINE). `--`
// ends the options.
int option_table_read(const struct option_table *table, void *self, int argc, char **argv, int *at,
                      struct err *err);
// A whole number min..max; `what` names it in error messages.
int option_integer(const char *text, long long min, long long max, long long *value,
                   const char *what, struct err *err);
// Any number min..max.
int option_real(const char *text, double min, double max, double *value, const char *what,
                struct err *err);

#endif
