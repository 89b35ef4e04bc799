// tui/throttle.c -- how often progress is shown.
#include "tui/throttle.h"

#include "core/base/clock.h"

bool throttle_pass(struct throttle *t, const struct event_progress *progress)
{
    double now = clock_seconds();
    bool last = progress->steps > 0 && progress->step >= progress->steps;
    if (!t->running) t->started = now;
    if (t->running && !last && now - t->last < 0.2) return false;
    t->running = !last;
    t->last = now;
    return true;
}
