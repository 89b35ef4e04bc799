// core/files/weight_cache.h -- the folder where smaller forms of models are kept, one file each:
// $XDG_CACHE_HOME/vlmsh/weights, or ~/.cache/vlmsh/weights.
//
//   char *path = weight_cache_path(fingerprint, "q8_0", &err);   // NULL: no such folder
//   const int held = weight_cache_hold();                        // nobody trims now
//   ... opens or writes path; weight_cache_use(path);            // it was needed now
//   weight_cache_let(held);
//   weight_cache_trim(20e9, &err);                               // what was not needed for longest
//   goes
//
// A file that another program removes while it is mapped stays readable there.
#ifndef CORE_FILES_WEIGHT_CACHE_H
#define CORE_FILES_WEIGHT_CACHE_H

#include "core/base/err.h"

// Creates the folders above it; the caller frees it.
char *weight_cache_path(const char *fingerprint, const char *kind, struct err *err);
void weight_cache_use(const char *path);
// From then on no program removes a file that this one is about to open, until weight_cache_let.
// -1: the folder cannot be locked, and they may.
int weight_cache_hold(void);
void weight_cache_let(int held);
// Removes files until all have at most that many bytes, and what killed programs left behind: only
// files with names that are given here. Leaves it to other programs that hold the folder, which
// trim it after their own load. -1: there are more, but the folder is a link or another user's, of
// which nothing is removed.
int weight_cache_trim(double bytes, struct err *err);

#endif
