// core/base/pace.c -- estimates the time left for work.
#include "core/base/pace.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/base/clock.h"

struct pace pace_from(double step)
{
    return (struct pace){ .begin = clock_seconds(), .from = step, .last = step };
}

double pace_left(struct pace *p, double step, double steps)
{
    const bool other = p->steps > 0 && steps != p->steps; // NOLINT(clang-diagnostic-float-equal)
    if (p->begin <= 0 || step < p->last || other) *p = pace_from(step);
    p->last = step;
    p->steps = steps;
    if (step >= steps) return 0;
    if (step <= p->from) return NAN;
    return (clock_seconds() - p->begin) / (step - p->from) * (steps - step);
}

const char *pace_text(char text[PACE_TEXT], double seconds)
{
    *text = '\0';
    if (!(seconds >= 0)) return text;
    if (seconds < 90)
        snprintf(text, PACE_TEXT, "%.0f s", seconds);
    else if (seconds < 5400)
        snprintf(text, PACE_TEXT, "%.0f min", seconds / 60);
    else
        snprintf(text, PACE_TEXT, "%.1f h", seconds / 3600);
    return text;
}
