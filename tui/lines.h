// tui/lines.h -- reads input lines from their sources, runs them, and returns the exit status.
//
//   struct lines l = { .shell = &shell, .output = stdout, .script = true };
//   lines_watch(&l);                  // after the front end's sink
//   status = lines_script(&l);        // or lines_steps, lines_dialogue, lines_prompt
//
// Every line ends with EVENT_DONE. A script stops at the first failing line; in a dialogue and at
// the prompt an error is reported and the next line is read.
#ifndef TUI_LINES_H
#define TUI_LINES_H

#include <stdio.h>

#include "commands/command.h"
#include "tui/options.h"

enum { STATUS_OK = 0, STATUS_FAILED = 1, STATUS_USAGE = 2 };

struct lines {
    struct shell *shell;
    FILE *output; // of the front end; if a write fails (a closed pipe), everything stops
    int why;      // errno of the failed write
    bool script;  // Ctrl-C ends everything, not only the running line
};

// Adds a sink that stops everything when a script is interrupted, a signal ends the program or a
// write fails.
void lines_watch(struct lines *l);
// Reports an error as an event.
void lines_print_error(const struct lines *l, const char *where, const struct err *err);

// Returns the program's exit status: `status`, unless the run was interrupted or output was lost.
int lines_status(const struct lines *l, int status);
int lines_steps(struct lines *l, const struct step *steps, size_t count); // -p, -c, -f, --image
// Attaches the pictures of the steps, all of which must be --image; stops at the first that fails.
int lines_attach(struct lines *l, const struct step *steps, size_t count, struct err *err);
int lines_script(struct lines *l);   // standard input
int lines_dialogue(struct lines *l); // the same, with --json
int lines_prompt(struct lines *l);   // a person

#endif
