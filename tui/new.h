// tui/new.h -- `vlmsh new --like SHAPE DIR [--dry] [--seed N]`: a model folder with random weights.
#ifndef TUI_NEW_H
#define TUI_NEW_H

#include "core/err.h"

// argv: what follows `new`. An exit status; 1 and 2 come with a message.
int new_run(int argc, char **argv, struct err *err);

#endif
