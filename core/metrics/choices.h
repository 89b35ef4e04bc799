// core/metrics/choices.h -- questions with choices: letters, and which choice is right.
#ifndef CORE_METRICS_CHOICES_H
#define CORE_METRICS_CHOICES_H

#include "core/metrics/metric.h"

enum { LETTERS = 26 };

// How many options a question lists as lines "A. ...", "B) ...", "(C) ..." or "D: ...", from A on.
int choices_listed(const char *question);
// Are all choices one capital letter each?
bool choices_are_letters(const struct metric_case *c);
// Does the data name the right choice by number or letter, not by its text?
bool choices_by_label(const struct metric_case *c);
// Which choice the data calls right: by number from 0, by its text, or by its letter ("B", "(B)").
// -1 with a message when it says none of them.
int choices_right(const struct metric_case *c, struct err *err);
// A text that is one letter and nothing else ("B", "b.", "(B)"): its number among `count`, or -1.
int choices_letter(const char *text, int count);

#endif
