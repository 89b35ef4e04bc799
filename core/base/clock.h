// core/base/clock.h -- a monotonic clock for measuring.
#ifndef CORE_BASE_CLOCK_H
#define CORE_BASE_CLOCK_H

// Seconds since an arbitrary origin.
double clock_seconds(void);

#endif
