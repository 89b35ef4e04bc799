// tui/throttle.c -- how often progress is shown.
#include "tui/throttle.h"

#include <time.h>

double throttle_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

bool throttle_pass(struct throttle *t, const struct event_progress *progress)
{
    double now = throttle_now();
    bool last = progress->steps > 0 && progress->step >= progress->steps;
    if (!t->running) t->started = now;
    if (t->running && !last && now - t->last < 0.2) return false;
    t->running = !last;
    t->last = now;
    return true;
}
