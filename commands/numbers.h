// commands/numbers.h -- lists of token ids as people and programs write them.
#ifndef COMMANDS_NUMBERS_H
#define COMMANDS_NUMBERS_H

#include "core/base/err.h"
#include "core/base/mem.h"

// Appends the ids of all arguments: numbers 0..limit-1, separated by blanks or commas; brackets as
// around a JSON list are allowed.
int numbers_read(struct ids *ids, int argc, char **argv, int64_t limit, struct err *err);

#endif
