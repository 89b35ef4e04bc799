// core/base/cancel.h -- whether Ctrl-C was pressed, for work that untrusted files can make slow and
// that has no engine at hand: templates, patterns, queries.
//
//   cancel_watch(flag);                            // the engine, once
//   if (cancel_asked()) return err_set(err, "cancelled");
//
// The flag stays set until the next line begins, and a cancelled answer is still saved: look at it
// only in work that has already taken longer than an honest file needs.
#ifndef CORE_BASE_CANCEL_H
#define CORE_BASE_CANCEL_H

#include <stdatomic.h>
#include <stdbool.h>

// The flag to look at, until cancel_unwatch.
void cancel_watch(const atomic_bool *flag);
void cancel_unwatch(const atomic_bool *flag);
bool cancel_asked(void);

#endif
