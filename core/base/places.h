// core/base/places.h -- locations of the program's own files.
//
//   char *path = places_file("XDG_STATE_HOME", ".local/state", "history");
#ifndef CORE_BASE_PLACES_H
#define CORE_BASE_PLACES_H

#include "core/base/err.h"

// Returns $VARIABLE/vlmsh/NAME, or ~/OTHERWISE/vlmsh/NAME if the variable is unset or not an
// absolute path. NULL if there is no home folder. free() it.
char *places_file(const char *variable, const char *otherwise, const char *name);
// Creates the folders above `path` (mode 0700) as needed.
int places_make_parents(const char *path, struct err *err);
// Returns the path of the folder `name` that comes with the program and contains `file`. Searches
// beside the running program, in the source tree, and where vlmsh is installed. NULL: not found.
// free() the path.
char *places_installed(const char *name, const char *file);

#endif
