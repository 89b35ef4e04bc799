// commands/presets.h -- presets by name, and sets of settings as typed.
#ifndef COMMANDS_PRESETS_H
#define COMMANDS_PRESETS_H

#include "commands/command.h"
#include "core/engine/presets.h"

// Adds the settings named by the leading words: KEY=VALUE, @PRESET, and as the first word `off`
// (every method off) or `now` (no change). Stops at the first other word. Returns the number of
// words used, or -1.
int preset_words(const struct shell *shell, int argc, char **argv, struct preset_values *v,
                 struct err *err);

#endif
