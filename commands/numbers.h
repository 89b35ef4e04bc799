// commands/numbers.h -- reads lists of token ids.
#ifndef COMMANDS_NUMBERS_H
#define COMMANDS_NUMBERS_H

#include "core/base/err.h"
#include "core/base/mem.h"

// Appends the ids in all arguments: numbers 0..limit-1, separated by blanks or commas; the brackets
// of a JSON list are allowed.
int numbers_read(struct ids *ids, int argc, char **argv, int64_t limit, struct err *err);

#endif
