// core/base/pace.h -- how long work will still take, from its progress so far: the one place that
// computes it.
//
//   struct pace p = pace_from(0);            // the work begins now, at step 0
//   p.left = pace_left(&p, step, steps);     // after each step
#ifndef CORE_BASE_PACE_H
#define CORE_BASE_PACE_H

// All zero: the work begins with the first call of pace_left.
struct pace {
    double begin;       // by clock_seconds; 0: not begun
    double from;        // step at which it began: a resumed job's is not 0
    double last, steps; // of the call before
};

struct pace pace_from(double step);
// Seconds until `steps` if the rest goes like what was done; NaN: nothing is done yet. Where the
// step falls or the number of steps changes (a load that goes on to its next part), the work begins
// anew.
double pace_left(struct pace *p, double step, double steps);

enum { PACE_TEXT = 32 };

// "12 s", "3 min", "1.5 h"; "": unknown. Returns `text`.
const char *pace_text(char text[PACE_TEXT], double seconds);

#endif
