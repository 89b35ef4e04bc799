// core/base/written.h -- records the files that this program wrote under a name given by the user,
// so that it can replace them later without --force.
//
//   written_record("table.csv");                   // just written
//   if (written_unchanged("table.csv")) ...        // nobody has changed it since
//
// The list is a file beside the history ($XDG_STATE_HOME/vlmsh/written): path, size and time of the
// last change to each file. Without the list (no home folder, or a read-only one) no file is known.
#ifndef CORE_BASE_WRITTEN_H
#define CORE_BASE_WRITTEN_H

#include <stdbool.h>

void written_record(const char *path);
bool written_unchanged(const char *path);

#endif
