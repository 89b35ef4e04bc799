// core/metrics/box.h -- boxes written as numbers: "[x1, y1, x2, y2]", "[x1, y1, x2, y2] of WxH".
#ifndef CORE_METRICS_BOX_H
#define CORE_METRICS_BOX_H

#include <stdbool.h>

// Reads the first `count` numbers of a text, whatever separates them; false if it has fewer, or
// before them a "-" or "." that begins no number.
bool box_numbers(const char *text, double *numbers, int count);

#endif
