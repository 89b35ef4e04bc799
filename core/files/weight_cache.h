// core/files/weight_cache.h -- the folder of converted weights (weights.dtype), one file per model
// and dtype: $XDG_CACHE_HOME/vlmsh/weights, or ~/.cache/vlmsh/weights.
//
//   char *path = weight_cache_path(fingerprint, "q8_0", &err);   // NULL: no such folder
//   const int held = weight_cache_hold();                        // blocks trimming
//   ... opens or writes path; weight_cache_use(path);            // marks it as used now
//   weight_cache_release(held);
//   weight_cache_trim(20e9, &err);                               // removes the least recently used
//
// A mapped file stays readable when another program removes it.
#ifndef CORE_FILES_WEIGHT_CACHE_H
#define CORE_FILES_WEIGHT_CACHE_H

#include "core/base/err.h"

// Returns the path of a file, and creates the folders above it. NULL with a message. The caller
// frees the path.
char *weight_cache_path(const char *fingerprint, const char *kind, struct err *err);
void weight_cache_use(const char *path);
// Until weight_cache_release, no program removes files. -1: the folder cannot be locked, so other
// programs may remove files.
int weight_cache_hold(void);
void weight_cache_release(int held);
// Removes the least recently used files until the rest have at most that many bytes, and unfinished
// files that have not changed for an hour. Removes only files named as weight_cache_path names
// them. Does nothing while other programs hold the folder: they trim it after their own load. -1:
// the limit is exceeded, but the folder is a link or another user's, so nothing is removed.
int weight_cache_trim(double bytes, struct err *err);

#endif
