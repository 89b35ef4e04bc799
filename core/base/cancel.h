// core/base/cancel.h -- reports Ctrl-C, or a cancelled job, to code that has no access to the
// engine or job. Intended for work that untrusted or large files can make slow: templates,
// patterns, queries, data files, hashes.
//
//   cancel_watch(flag, &watcher);                  // called once, by the engine or the job
//   if (cancel_requested()) return err_set(err, "cancelled");
//   if (cancel_report("hashing", done, total)) return err_set(err, "cancelled");
//
// The flag stays set until the next input line begins, and a cancelled answer is still saved
// meanwhile. Therefore check the flag only in work that has already taken longer than an ordinary
// file would.
#ifndef CORE_BASE_CANCEL_H
#define CORE_BASE_CANCEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cancel_watcher {
    // Called only by the thread that called cancel_watch; sets the flag if a cancel was requested
    // elsewhere. NULL: other code sets the flag.
    void (*look)(void *self);
    void (*progress)(void *self, const char *what, uint64_t done, uint64_t total); // or NULL
    void *self;
};

// Makes cancel_requested check this flag, until cancel_unwatch or the next cancel_watch. `by` is
// copied and may be NULL.
void cancel_watch(const atomic_bool *flag, const struct cancel_watcher *by);
void cancel_unwatch(const atomic_bool *flag);
// Calls `look` if this thread called cancel_watch, then returns whether the flag is set.
bool cancel_requested(void);
// Like cancel_requested, but does not call `look`, so `look` itself may use it.
bool cancel_set(void);
// Like cancel_requested, but first reports the progress of reading `total` bytes, unless `total` is
// small. `what` is a static string.
bool cancel_report(const char *what, uint64_t done, uint64_t total);

#endif
