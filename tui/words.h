// tui/words.h -- subcommands: `vlmsh new ...`, `vlmsh version`. A table with one row per
// subcommand.
#ifndef TUI_WORDS_H
#define TUI_WORDS_H

#include <stdio.h>

#include "core/base/err.h"
#include "core/base/mem.h"

struct word {
    const char *name;
    const char *usage; // its arguments
    const char *help;  // one line
    // argv: the arguments after the subcommand. Returns an exit status; for 2 the caller prints err
    // and usage.
    int (*run)(const struct word *w, int argc, char **argv, struct err *err);
};

const struct word *word_find(const char *name); // NULL
// Appends each with its usage as an item of help (commands/help_text.h).
void words_help(struct buf *b);

#endif
