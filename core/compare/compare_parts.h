// core/compare/compare_parts.h -- what the files of core/compare/compare_data.h share.
#ifndef CORE_COMPARE_COMPARE_PARTS_H
#define CORE_COMPARE_COMPARE_PARTS_H

#include <stdio.h>

#include "core/base/json.h"
#include "core/compare/compare_data.h"

// A question as one side has dealt with it.
struct asked {
    size_t message; // of its sample
    int turn, class;
    bool scored, answered;
    const struct metric *metric;
    double score;
    char *id, *kind, *prompt, *reference, *answer;
    char *skipped; // why it could not be scored; NULL: it was
    struct ids ids;
    struct step_logits full; // of the first side
    struct compare_cost cost;
    double mean, most; // of the second side, against the first
    int64_t steps, agreed;
    double *distances; // [steps]; NULL: none was measured
};

void asked_release(struct asked *a);

// compare_state.c. A line of the state for a sample that both sides have gone through, and back:
//   {"done": N, "sides": [[question, ...], [question, ...]]}
int compare_state_write(FILE *f, int64_t done, const struct asked *const list[2],
                        const size_t count[2]);
// false: the line is none of ours. Else list[k] belongs to the caller (free; asked_release each).
bool compare_state_read(const char *line, size_t size, int64_t *done, struct asked *list[2],
                        size_t count[2]);

#endif
