// core/picture/zipped.h -- pictures in ZIP archives (libzip), which need not be unpacked.
//
// If "DIR/val2014/a.png" does not exist, its archive is the first of these that has it:
//   DIR/val2014.zip          as "a.png", or in any folder of the archive
//   DIR.zip                  as "val2014/a.png", likewise
//   each DIR/*.zip           likewise
// If the folder DIR/val2014 exists, only DIR/val2014.zip and the archives in that folder are
// searched. "DIR/x.zip/a.png" names a picture in the archive x.zip. Archives stay open; all
// functions may be called from any thread. Archives are untrusted.
#ifndef CORE_PICTURE_ZIPPED_H
#define CORE_PICTURE_ZIPPED_H

#include <stddef.h>

#include "core/base/err.h"

// Looks for the archive of `path`, a file that does not exist. Returns 1 if an archive has it; 0:
// none has it; -1 with a message: an archive cannot be read, has several files of that name, or is
// not a ZIP archive but may have it.
int zipped_find(const char *path, struct err *err);
// Like zipped_find, but also reads the file, of at most `limit` bytes; free(*bytes).
int zipped_read(const char *path, size_t limit, char **bytes, size_t *size, struct err *err);

#endif
