// commands/reference.h -- commands and settings as text: for help and the manual page.
#ifndef COMMANDS_REFERENCE_H
#define COMMANDS_REFERENCE_H

#include "core/base/mem.h"
#include "core/settings/settings.h"

// Writes the lists of the manual page: all commands, then all settings, in table order.
void reference_write(struct buf *out);

// Returns the allowed values of a setting ("on | off", "0..2", "1..64 tokens | auto"); the caller
// frees the text.
char *setting_allowed(const struct setting *row);

#endif
