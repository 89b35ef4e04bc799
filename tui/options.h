// tui/options.h -- the command line of vlmsh.
//
//   struct options o = { 0 };
//   if (options_read(&o, argc, argv, &err) < 0) ... exit status 2 ...
//   options_release(&o);
//
// Each subcommand (tui/subcommands.h) reads the arguments that follow it.
#ifndef TUI_OPTIONS_H
#define TUI_OPTIONS_H

#include <stdio.h>

#include "commands/command.h"

enum step_kind { STEP_LINE, STEP_FILE, STEP_ASK, STEP_IMAGE };

struct step { // -c LINE, -f FILE, -p TEXT or --image FILE
    enum step_kind kind;
    const char *text;
};

// argv owns the texts, except those marked as owned.
struct options {
    const char *model, *mmproj, *device, *db, *session;
    char *pair;       // owned copy of `model` with options added to it; NULL: none added
    bool ignore;      // --ignore-weights
    bool unsaved;     // --no-session
    bool plain, json; // neither: chosen automatically
    bool help, version;
    int threads;        // 0 = one per core
    struct step *steps; // in the order given, but pictures at the end precede a question there
    size_t step_count;
    bool script;                // a step is not --image: vlmsh runs the steps, then exits
    bool run;                   // the word `run` precedes MODEL
    struct variable *variables; // -D, owned
    size_t variable_count;
    const char *subcommand; // its name: "new", "help" ...; NULL: none
    int rest;               // argv index after the subcommand
};

int options_read(struct options *o, int argc, char **argv, struct err *err);
void options_release(struct options *o);
void options_print_help(FILE *out);
const struct option_row *options_rows(void); // MODEL, then the options

#endif
