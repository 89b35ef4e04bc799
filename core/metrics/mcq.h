// core/metrics/mcq.h -- multiple choice as the suites score it: what their rules share.
#ifndef CORE_METRICS_MCQ_H
#define CORE_METRICS_MCQ_H

#include "core/metrics/metric.h"

enum { MCQ_NONE = -1 }; // no letter found

// Scores the letter (0: A) that a rule took from the answer.
int mcq_score(const struct metric_case *c, int letter, struct metric_outcome *o, struct err *err);
// Counts answers without a letter, as mcq_score notes them.
int mcq_summary(const struct metric_tally *t, struct metric_number *to);
// Does the sample have a choice with this letter? Without choices the letters A to D are.
bool mcq_has(const struct metric_case *c, int letter);
// The only choice whose text, in lower case, is part of the lower-case answer; MCQ_NONE.
int mcq_only_text(const struct metric_case *c, const char *lower, int most);
// Strips each of the characters from both ends, one after the other. free() it.
char *mcq_strip_each(const char *text, const char *letters);

#endif
