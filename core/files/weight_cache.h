// core/files/weight_cache.h -- the folder where smaller forms of models are kept, one file each:
// $XDG_CACHE_HOME/vlmsh/weights, or ~/.cache/vlmsh/weights.
//
//   char *path = weight_cache_path(fingerprint, "q8_0", &err);   // NULL: no such folder
//   weight_cache_use(path);                                      // it was needed now
//   weight_cache_trim(20e9);                                     // what was not needed for longest
//   goes
//
// A file that another program removes while it is mapped stays readable there.
#ifndef CORE_FILES_WEIGHT_CACHE_H
#define CORE_FILES_WEIGHT_CACHE_H

#include "core/base/err.h"

// Creates the folders above it; the caller frees it.
char *weight_cache_path(const char *fingerprint, const char *kind, struct err *err);
void weight_cache_use(const char *path);
// Removes files until all have at most that many bytes, and what killed programs left behind.
void weight_cache_trim(double bytes);

#endif
