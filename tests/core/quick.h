// tests/core/quick.h -- the processor time of a step that must not be quadratic in a file's size.
// Such steps took minutes or many seconds before, so a bound of QUICK seconds tells them apart on
// any machine.
#ifndef TESTS_CORE_QUICK_H
#define TESTS_CORE_QUICK_H

#include <time.h>

enum { QUICK = 5 };

// Seconds; 0 under sanitizers, which check whole texts at each call of the C library.
static inline double processor_seconds(clock_t since)
{
#ifdef __SANITIZE_ADDRESS__
    (void)since;
    return 0;
#else
    return (double)(clock() - since) / CLOCKS_PER_SEC;
#endif
}

#endif
