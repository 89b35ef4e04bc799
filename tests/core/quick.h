// tests/core/quick.h -- the processor time of a step that must not be quadratic in a file's size. A
// quadratic one takes many times QUICK seconds, a linear one a small part of them, on any machine.
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
