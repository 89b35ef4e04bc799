// core/eval/compare.h -- one question under two sets of settings, or to two models: the first
// difference of the answers, the distance of their distributions, and the cost of each.
//
//   struct grid g = grid_of_engine(e);                       // two cells: the sides
//   grid_add(&g, "A", a), grid_add(&g, "B", b);
//   struct compare_request r = { .grid = &g, .from = engine_conversation(e), .messages = 2 };
//   struct comparison c;
//   if (compare_run(&r, &c, &err) < 0) ...
//   ... c.side[0].text, c.first, c.distance.hellinger[t], c.distance.mean ...
//   comparison_release(&c);
//
// Each side first answers independently, starting from the pictures. Then the second side processes
// the first side's tokens (teacher forcing): step t compares the distributions for token t after
// the same t tokens. The original conversation is not changed.
#ifndef CORE_EVAL_COMPARE_H
#define CORE_EVAL_COMPARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/mem.h"

struct event_answer;
struct hooks;
struct step_logits;

// Cost of one side's answer, in the order of the numbers in a job's state.
enum compare_cost_number {
    COST_PROMPT_TOKENS,
    COST_VISUAL_TOKENS,
    COST_KEPT, // visual tokens seen by the last layers
    COST_VISION_S,
    COST_PREFILL_S,
    COST_DECODE_S,
    COST_PREFILL_FLOPS, // of the language model; 2 per multiply-add
    COST_DECODE_FLOPS,
    // Mean L2 norms of visual and text rows of the prompt: of h[0], and of the rows that remain
    // in h[L]. NaN: no such rows.
    COST_NORM_FIRST,
    COST_NORM_LAST = COST_NORM_FIRST + 2,
    COST_KV_BYTES = COST_NORM_LAST + 2, // keys and values in use at the end
    COMPARE_COSTS
};
struct compare_cost {
    double of[COMPARE_COSTS];
};

struct compared_side {
    char *text;
    struct ids ids;
    size_t *starts, tokens; // [tokens] start of each token's text
    char stop[16];          // why it ended, as event_answer.stop
    const char *arithmetic; // matrix product precision: "f32", "bf16"
    struct compare_cost cost;
};

// Distances of the second side's distributions from the first's, after the same tokens.
struct compare_distance {
    double *hellinger; // [steps], owned
    int64_t *best[2];  // [steps] most likely token of each side, owned
    int64_t steps;     // tokens of the first side, including an end token
    int64_t agreed;    // steps with the same most likely token
    double mean, most; // mean and maximum of hellinger
};
// Frees the arrays; the other fields keep their values.
void compare_distance_release(struct compare_distance *d);

struct comparison {
    struct compared_side side[2];
    bool comparable; // both sides have the same tokens; else there are no `first` and `distance`
    bool known;      // both sides have the tokens of the model that `from` was computed with
    int64_t first;   // index of the first token that differs; -1: the answers are identical
    struct compare_distance distance;
};

struct compare_request {
    struct grid *grid;
    const struct conversation *from; // its first `messages` messages and its pictures are used
    size_t messages;                 // if question is NULL, the last one is unanswered
    const char *question;            // asked with the pending pictures of `from`; NULL: none
    // Receives the attention map of each token of both answers: "compare.A" and "compare.B". NULL:
    // none.
    const struct sinks *watch;
};

// Returns -1 also if the comparison was cancelled (err: "stopped").
int compare_run(const struct compare_request *r, struct comparison *c, struct err *err);
void comparison_release(struct comparison *c);

// --- parts, for comparisons over a data set ------------------------------------------------------

// Returns the index of the first token that differs; -1: the same tokens.
int64_t compare_first(const struct ids *a, const struct ids *b);

// A hook that counts the cost of an answer.
struct compare_meter {
    const struct model *model;
    struct compare_cost cost;
    const struct settings *settings; // of the answer
};
// Resets the counts. `s`: the settings of the answer, which must outlive the hook.
struct hook compare_meter_hook(struct compare_meter *m, const struct settings *s);
// Adds the costs recorded in the answered conversation and its answer event.
void compare_meter_end(struct compare_meter *m, const struct conversation *c,
                       const struct event_answer *answer);

// Feeds the first side's tokens to the conversation under `settings`, and measures at each step the
// distance to the distribution in `full`. On error *d is zero.
int compare_forced(struct conversation *c, const struct settings *settings,
                   const struct hooks *methods, const atomic_bool *cancel,
                   const struct step_logits *full, const struct ids *tokens,
                   struct compare_distance *d, struct err *err);

#endif
