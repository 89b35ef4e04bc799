// commands/reference.h -- commands and settings in words: for help and the manual page.
#ifndef COMMANDS_REFERENCE_H
#define COMMANDS_REFERENCE_H

#include "core/base/mem.h"
#include "core/settings/settings.h"

// All commands, then all settings, as they stand in the tables: the lists of the manual page.
void reference_write(struct buf *out);

// What a setting takes: "on|off", "0..2", "0 or more, or auto"; belongs to the caller.
char *setting_allowed(const struct setting *row);

#endif
