// core/base/pace.h -- estimates the time left for work from its progress.
//
//   struct pace p = pace_from(0);                       // the work begins now, at step 0
//   const double seconds = pace_left(&p, step, steps);  // after each step
#ifndef CORE_BASE_PACE_H
#define CORE_BASE_PACE_H

// If zeroed, the work starts with the first call of pace_left.
struct pace {
    double begin;       // by clock_seconds; 0: not started
    double from;        // the first step; not 0 in a resumed job
    double last, steps; // of the previous call
};

struct pace pace_from(double step);
// Returns the seconds until `steps` at the pace so far; NaN: nothing is done yet. Restarts the
// estimate if `step` falls or `steps` changes (the next part of a load).
double pace_left(struct pace *p, double step, double steps);

enum { PACE_TEXT = 32 };

// Writes "12 s", "3 min" or "1.5 h", or "" if unknown, to `text`; returns `text`.
const char *pace_text(char text[PACE_TEXT], double seconds);

#endif
