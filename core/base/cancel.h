// core/base/cancel.h -- whether Ctrl-C asks work to end, for work that untrusted files can make
// long and that is called from everywhere: templates, patterns, queries.
//
//   cancel_watch(flag);                            // the engine, once
//   if (cancel_asked()) return err_set(err, "cancelled");
//
// The flag stays set until the next line begins, and an answer that was cancelled is still saved:
// such work looks at it only once it has taken longer than honest work does.
#ifndef CORE_BASE_CANCEL_H
#define CORE_BASE_CANCEL_H

#include <stdatomic.h>
#include <stdbool.h>

// The flag to look at, until cancel_unwatch.
void cancel_watch(const atomic_bool *flag);
void cancel_unwatch(const atomic_bool *flag);
bool cancel_asked(void);

#endif
