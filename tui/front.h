// tui/front.h -- the front ends: ways to show events. A table with one row per front end.
//
//   const struct front *f = front_find("json");
//   void *state = f->open(interactive, &sink, &output);
//   ... f->close(state, output);
#ifndef TUI_FRONT_H
#define TUI_FRONT_H

#include <stdbool.h>
#include <stdio.h>

#include "commands/command.h"
#include "tui/keys.h"

struct front {
    const char *name;
    bool for_programs; // standard input is a dialogue with a program, never a prompt
    // interactive: a person types. *output is its stream (write errors end the program).
    void *(*open)(bool interactive, struct sink *sink, FILE **output);
    void (*close)(void *state, FILE *output);
    // Reads and runs lines in its own way, begin(self) first; NULL: tui/lines.h does. Returns the
    // exit status.
    int (*run)(void *state, struct shell *shell, struct keys *keys, void (*begin)(void *self),
               void *self);
};

// name NULL: the full screen if `interactive` and the terminal allow it, else plain lines.
const struct front *front_find(const char *name, bool interactive);

#endif
