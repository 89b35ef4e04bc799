// tui/front.h -- the front ends: ways to show events. A table; one row a front end.
//
//   const struct front *f = front_find("json");
//   void *state = f->open(interactive, &sink, &output);
//   ... f->close(state, output);
#ifndef TUI_FRONT_H
#define TUI_FRONT_H

#include <stdbool.h>
#include <stdio.h>

#include "core/event.h"

struct front {
    const char *name;
    bool for_programs; // standard input is a dialogue with a program, never a prompt
    // interactive: a person types. *output is where it writes (its errors end the program).
    void *(*open)(bool interactive, struct sink *sink, FILE **output);
    void (*close)(void *state, FILE *output);
};

const struct front *front_find(const char *name); // NULL; name NULL: the usual one

#endif
