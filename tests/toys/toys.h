// tests/toys/toys.h -- one of each extensible kind (CONTRIBUTING.md), each in its own file; no
// source of the program names them.
#ifndef TESTS_TOYS_TOYS_H
#define TESTS_TOYS_TOYS_H

#include "commands/command.h"
#include "core/lists.h"

extern const struct method method_toy;
extern const struct method method_toy_values;
extern const struct probe probe_toy;
extern const struct command command_toy;
extern const struct family family_toy;

// Registers the program's lists with the toys appended.
void toys_register(void);

#endif
