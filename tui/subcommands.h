// tui/subcommands.h -- subcommands, as a table: `vlmsh new ...`, `vlmsh version`.
#ifndef TUI_SUBCOMMANDS_H
#define TUI_SUBCOMMANDS_H

#include <stdio.h>

#include "core/base/err.h"
#include "core/base/mem.h"

struct subcommand {
    const char *name;
    const char *usage; // its arguments
    const char *help;  // one line
    // argv: the arguments after the subcommand. Returns an exit status; the caller prints err if it
    // is not 0, and the usage if it is 2. NULL: `run MODEL`, which options_read handles.
    int (*run)(const struct subcommand *c, int argc, char **argv, struct err *err);
};

const struct subcommand *subcommand_find(const char *name); // NULL if unknown
const struct subcommand *subcommand_at(int index);          // NULL past the end
// Appends each subcommand with its usage as an item of a help text (commands/help_text.h).
void subcommands_help(struct buf *b);

#endif
