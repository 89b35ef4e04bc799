// core/base/cancel.h -- whether Ctrl-C was pressed, or a job cancelled, for work that untrusted or
// large files can make slow and that has no engine or job at hand: templates, patterns, queries,
// data files, hashes.
//
//   cancel_watch(flag, &watcher);                  // the engine or the job, once
//   if (cancel_asked()) return err_set(err, "cancelled");
//   if (cancel_report("hashing", done, total)) return err_set(err, "cancelled");
//
// The flag stays set until the next line begins, and a cancelled answer is still saved: look at it
// only in work that has already taken longer than an honest file needs.
#ifndef CORE_BASE_CANCEL_H
#define CORE_BASE_CANCEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cancel_watcher {
    // Sets the flag if a cancel was asked for elsewhere; only the thread that watches calls it.
    // NULL: others set it.
    void (*look)(void *self);
    void (*progress)(void *self, const char *what, uint64_t done, uint64_t total); // NULL: nobody
    void *self;
};

// The flag to look at, until cancel_unwatch or another one; `by`, which is copied, may be NULL.
void cancel_watch(const atomic_bool *flag, const struct cancel_watcher *by);
void cancel_unwatch(const atomic_bool *flag);
bool cancel_asked(void);
// The same without looking elsewhere: for use within the look.
bool cancel_set(void);
// Shows the progress of reading `total` bytes first, if they are many; `what` is static.
bool cancel_report(const char *what, uint64_t done, uint64_t total);

#endif
