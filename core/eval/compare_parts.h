// core/eval/compare_parts.h -- shared by the files of core/eval/compare_data.h.
#ifndef CORE_COMPARE_COMPARE_PARTS_H
#define CORE_COMPARE_COMPARE_PARTS_H

#include "core/base/json.h"
#include "core/eval/compare_data.h"
#include "core/probes/hellinger.h"

// A question as one side processed it.
struct asked {
    size_t message; // of its sample
    int64_t index;  // of the sample in the data
    int turn, class;
    bool scored, answered;
    enum cut cut;
    const struct metric *metric;
    double score;
    char *id, *kind, *prompt, *reference, *answer;
    char *skipped; // why it could not be scored; NULL: it was scored
    struct ids ids;
    struct step_logits full; // of the first side
    struct compare_cost cost;
    double mean, most; // of the second side, against the first
    int64_t steps, agreed;
    double *distances; // [steps]; NULL: not measured
};

void asked_release(struct asked *a);

// compare_state.c. A sample that both sides have processed as a line of the state:
//   {"done": N, "pictures": hash, "sides": [[question, ...], [question, ...]]}
cJSON *compare_state_line(int64_t done, const char *pictures, const struct asked *const list[2],
                          const size_t count[2]);
// false: not a valid line. Otherwise the caller frees list[k] (free; asked_release each).
bool compare_state_read(const cJSON *line, struct asked *list[2], size_t count[2]);

#endif
