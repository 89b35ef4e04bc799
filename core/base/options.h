// core/base/options.h -- the options of a command, a job or the command line, one row for each.
// options_parse reads words by these rows; help and completion list them.
//
//   struct mine { const char *folder; int64_t seed; bool once; };
//   static const struct option_row rows[] = {
//       { "DIR", NULL, "the output folder", OPTION_TEXT, offsetof(struct mine, folder) },
//       { "--seed", "N", "random seed", OPTION_WHOLE, offsetof(struct mine, seed), 0, INT64_MAX },
//       { "--once", NULL, "does nothing if DIR exists", OPTION_FLAG, offsetof(struct mine, once) },
//       { 0 },
//   };
//   struct mine m = { .seed = 42 };
//   if (options_parse(rows, &m, argc, argv, &err) < 0) return -1;
#ifndef CORE_BASE_OPTIONS_H
#define CORE_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

// How a value is read, and the C type of the field that receives the value.
enum option_type {
    OPTION_CALL,  // take() reads the value
    OPTION_FLAG,  // bool: takes no value
    OPTION_TEXT,  // const char *: not copied
    OPTION_WHOLE, // int64_t, from min to max
    OPTION_INT,   // int, from min to max
    OPTION_REAL,  // double, from min to max
    OPTION_NAMES, // struct names: separated by commas
};

struct option_row {
    const char *name;     // "--seed", "-c"; without a dash: an argument, read in the order of rows
    const char *argument; // "N": the value's name; NULL: the option takes no value
    const char *help; // the text of its help item (NULL: none); for an argument, its description in
                      // messages
    enum option_type type;
    size_t at; // offset of the field
    int64_t min, max;
    // For OPTION_CALL. `value` is NULL if the option takes no value; take() may keep the pointer,
    // and returns 1 to leave the words after this one to the caller. take NULL: other code reads
    // the option before options_parse runs, so options_parse refuses the option.
    int (*take)(void *self, const char *value, struct err *err);
    int (*check)(const char *value, struct err *err); // checks an OPTION_TEXT, or NULL
    bool optional;                                    // an argument that may be omitted
    bool former;                                      // a former name: still read, but not listed
    bool many; // an argument that takes all further words; an option that may be repeated
};

// Reads the words; returns the number of words read, or -1. The value of an option is the next
// word, or follows `=` (--db=FILE) or a short name (-cLINE). Quotes in it are literal: the shell or
// commands/parse.h has removed enclosing ones. `--` ends the options. An option with a value may be
// given once; with `many` again: take() collects the values, or the last one wins.
int options_parse(const struct option_row *rows, void *self, int argc, char **argv,
                  struct err *err);
// Reads a whole number min..max; `what` names it in messages.
int option_integer(const char *text, int64_t min, int64_t max, int64_t *value, const char *what,
                   struct err *err);
// Reads a number min..max.
int option_real(const char *text, double min, double max, double *value, const char *what,
                struct err *err);

#endif
