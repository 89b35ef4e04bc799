// commands/presets.h -- presets by name, and sets of settings as they are typed.
#ifndef COMMANDS_PRESETS_H
#define COMMANDS_PRESETS_H

#include "commands/command.h"
#include "core/engine/presets.h"

// Adds the values of a preset that comes with the program or was saved.
int preset_named(const struct shell *shell, const char *name, struct preset_values *v,
                 struct err *err);
// Adds what the words say, up to the first that says nothing of the kind: KEY=VALUE, @PRESET, and
// as the first word `off` (every method off) or `now` (as it is). How many, or -1.
int preset_words(const struct shell *shell, int argc, char **argv, struct preset_values *v,
                 struct err *err);

#endif
