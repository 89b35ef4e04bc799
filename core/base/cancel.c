// core/base/cancel.c -- the one flag that Ctrl-C sets.
#include "core/base/cancel.h"

#include <stddef.h>

// A process has one Ctrl-C.
static const atomic_bool *_Atomic watched;

void cancel_watch(const atomic_bool *flag)
{
    atomic_store(&watched, flag);
}

void cancel_unwatch(const atomic_bool *flag)
{
    const atomic_bool *expected = flag;
    atomic_compare_exchange_strong(&watched, &expected, NULL);
}

bool cancel_asked(void)
{
    const atomic_bool *flag = atomic_load(&watched);
    return flag && atomic_load(flag);
}
