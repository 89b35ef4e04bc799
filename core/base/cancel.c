// core/base/cancel.c -- the flag that stops long work.
#include "core/base/cancel.h"

#include <pthread.h>
#include <stddef.h>

// One watcher is enough: a process either handles Ctrl-C or runs one job. watcher and watching are
// set before other threads start.
static const atomic_bool *_Atomic watched;
static struct cancel_watcher watcher;
static pthread_t watching;

void cancel_watch(const atomic_bool *flag, const struct cancel_watcher *by)
{
    watcher = by ? *by : (struct cancel_watcher){ 0 };
    watching = pthread_self();
    atomic_store(&watched, flag);
}

void cancel_unwatch(const atomic_bool *flag)
{
    const atomic_bool *expected = flag;
    if (atomic_compare_exchange_strong(&watched, &expected, NULL))
        watcher = (struct cancel_watcher){ 0 };
}

bool cancel_set(void)
{
    const atomic_bool *flag = atomic_load(&watched);
    return flag && atomic_load(flag);
}

bool cancel_requested(void)
{
    if (watcher.look && pthread_equal(watching, pthread_self())) watcher.look(watcher.self);
    return cancel_set();
}

bool cancel_report(const char *what, uint64_t done, uint64_t total)
{
    enum { SHOWN = 64 << 20 }; // bytes; fewer are read too quickly to report
    if (watcher.progress && total >= SHOWN) watcher.progress(watcher.self, what, done, total);
    return cancel_requested();
}
