// core/metrics/suite.h -- prepares an answer for a rule as the rule's suite does: removes thinking,
// extracts marked answers.
//
//   enum thought thought;
//   const char *text = suite_answer(&scratch, m->suite, m, answer, NULL, THINKING_AUTO, &thought);
//   ... m->score reads text ...
#ifndef CORE_METRICS_SUITE_H
#define CORE_METRICS_SUITE_H

#include "core/metrics/metric.h"

struct thinking_list;

// When to remove thinking: when the suite does, never, or always.
enum thinking { THINKING_AUTO, THINKING_KEEP, THINKING_STRIP };

// The treatment of the answer's thinking, tags and marks.
enum thought {
    THOUGHT_NONE,    // the answer has no thinking
    THOUGHT_REMOVED, // the rule reads the answer without thinking, tags or marks
    THOUGHT_KEPT,    // the rule reads the thinking too
    THOUGHT_OPEN,    // the thinking does not end; our own rules read it only with THINKING_KEEP
    THOUGHTS
};

// Returns the suite with that name in the table of sets; SUITE_OWN for any other name (a paper).
enum suite suite_find(const char *name);
// Returns the text that the rule reads; it lives as long as the scratch and the answer. `model`:
// the thinking marks of the model that answered, which vlmsh's own rules remove in addition to
// those of thinking_table; NULL: unknown.
const char *suite_answer(struct scratch *s, enum suite suite, const struct metric *m,
                         const char *answer, const struct thinking_list *model,
                         enum thinking thinking, enum thought *thought);

#endif
