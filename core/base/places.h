// core/base/places.h -- locations of the program's own files.
//
//   char *path = places_file("XDG_STATE_HOME", ".local/state", "history");
#ifndef CORE_BASE_PLACES_H
#define CORE_BASE_PLACES_H

#include "core/base/err.h"

// Returns $VARIABLE/vlmsh/NAME, or ~/OTHERWISE/vlmsh/NAME if the variable is unset or not an
// absolute path. NULL without a home folder. free() it.
char *places_file(const char *variable, const char *otherwise, const char *name);
// Creates the folders above `path` (mode 0700) as needed.
int places_make_parents(const char *path, struct err *err);
// Returns the folder `name` that comes with the program and contains `file`: beside the running
// program, in the source tree, or installed. NULL: not found. free() it.
char *places_installed(const char *name, const char *file);

#endif
