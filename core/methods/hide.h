// core/methods/hide.h -- the positions that hide.tokens hides.
#ifndef CORE_METHODS_HIDE_H
#define CORE_METHODS_HIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

struct settings;

// Returns flags [*end] of the hidden positions, the last of which is *end - 1; the caller frees
// them. NULL with a message if the setting has a percentage, or a position that is too large.
bool *hide_positions(const struct settings *s, int64_t *end, struct err *err);

#endif
