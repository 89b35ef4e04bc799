// tui/options.h -- the command line: a table of options, read by one function.
//
//   struct options o = { 0 };
//   if (options_read(&o, argc, argv, &err) < 0) ... exit status 2 ...
//   options_release(&o);
//
// A table row names an option, its argument and what it does; help texts and the manual page come
// from the same rows. Reserved first words (tui/words.h) bring tables of their own.
#ifndef TUI_OPTIONS_H
#define TUI_OPTIONS_H

#include <stdio.h>

#include "commands/command.h"

// --- tables in general ---------------------------------------------------------------------------

struct option_row {
    const char *name;     // "--threads", or "-c"
    const char *argument; // "N"; NULL: takes none
    const char *help;     // one line
    // value is NULL when it takes no argument. May keep the pointer.
    int (*take)(void *self, const char *value, struct err *err);
};

struct option_table {
    const struct option_row *rows; // ends with a row without a name
    // What is no option. Returns 1: stop here, the rest is not ours.
    int (*positional)(void *self, const char *value, struct err *err);
};

// Reads argv[*at]... up to the end or to where `positional` stopped; *at is behind it. An option's
// argument may be the next word, follow `=` (--db=FILE) or a short name (-cLINE). `--` ends
// options.
int option_table_read(const struct option_table *table, void *self, int argc, char **argv, int *at,
                      struct err *err);
void option_table_print(const struct option_table *table, FILE *out);
// A whole number min..max; `what` names it in the message.
int option_integer(const char *text, long long min, long long max, long long *value,
                   const char *what, struct err *err);

// --- vlmsh's own ---------------------------------------------------------------------------------

enum step_kind { STEP_LINE, STEP_FILE };

struct step { // -c LINE or -f FILE
    enum step_kind kind;
    const char *text;
};

// All texts belong to argv.
struct options {
    const char *model, *device, *db, *session;
    const char *front;  // "plain", "json", or NULL: whatever fits
    int threads;        // 0 = one per core
    struct step *steps; // in the order given
    size_t step_count;
    struct variable *variables; // -D, owned
    size_t variable_count;
    const char *word; // "new", "help", ...: a reserved first word; NULL
    int rest;         // argv index behind it
};

int options_read(struct options *o, int argc, char **argv, struct err *err);
void options_release(struct options *o);
void options_usage(FILE *out);      // one line
void options_print_help(FILE *out); // all of it

#endif
