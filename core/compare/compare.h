// core/compare/compare.h -- the same question under two sets of settings: where the answers part,
// how far the distributions are apart, what each costs.
//
//   struct compare_request r = { .model = model, .backend = backend, .settings = { a, b },
//                                .from = engine_conversation(e), .messages = 2,
//                                .use = put_adapter_on, .self = e
//                                };
//   struct comparison c;
//   if (compare_run(&r, &c, &err) < 0) ...
//   ... c.side[0].text, c.first, c.hellinger[t], c.mean ...
//   comparison_release(&c);
//
// Each side answers by itself, from the pictures on. Then the second one is fed the tokens of the
// first (teacher-forced): step t compares what would choose token t after the same t tokens. The
// conversation that is asked about is not touched.
//
// Room core/compare/: two sets of settings beside each other: one question, or a data set. It uses
// train, engine, probes and what they use.
#ifndef CORE_COMPARE_COMPARE_H
#define CORE_COMPARE_COMPARE_H

#include "core/probes/hellinger.h"
#include "core/talk/conversation.h"

// Of one side's answer.
struct compare_cost {
    int64_t prompt_tokens, visual_tokens;
    int64_t kept; // visual tokens that the last layers see
    double vision_s, prefill_s, decode_s;
    double prefill_flops, decode_flops; // of the language model; 2 for a multiplication and a sum
    uint64_t kv_bytes;                  // of keys and values in use at the end
    // Mean L2 norm of visual and of text rows of the prompt: h[0], and h[L] of those alive there.
    double norm[2][2]; // [first, last][visual, text]; NaN: there is no such row
};

struct compared_side {
    char *text;
    struct ids ids;
    size_t *starts, tokens; // where the text of each token begins; those that were told
    char stop[16];          // as event_answer.stop
    const char *arithmetic; // of the products: "f32", "bf16"
    struct compare_cost cost;
};

struct comparison {
    struct compared_side side[2];
    int64_t first;     // index of the first token that differs; -1: the answers are the same
    double *hellinger; // [steps]
    int64_t *best[2];  // [steps] likeliest token of each side after the same tokens
    int64_t steps;     // tokens of the first side, and what ended it where that was a token
    int64_t agreed;    // steps with the same likeliest token
    double mean, most; // of hellinger
};

struct compare_request {
    const struct model *model;
    const struct backend *backend;
    const struct settings *settings[2];
    const struct conversation *from; // its first `messages` messages, and its pictures
    size_t messages;                 // without a question the last one of these waits for an answer
    const char *question;            // asked with the pictures that wait in `from`; NULL: none
    // Makes the model what these settings say before a side is computed (adapters).
    int (*use)(void *self, const struct settings *s, struct method_tensors *tensors,
               struct err *err);
    void (*progress)(void *self, double done, double count); // may be NULL
    // Where each token of both answers looks is told here: maps "compare.A" and "compare.B". NULL:
    // nobody watches.
    const struct sinks *watch;
    void *self;
    const atomic_bool *cancel;
};

// -1 also when it was cancelled ("stopped").
int compare_run(const struct compare_request *r, struct comparison *c, struct err *err);
void comparison_release(struct comparison *c);

// --- parts, for comparisons over a data set ------------------------------------------------------

// Counts what an answer costs: a hook besides the methods.
struct compare_meter {
    const struct model *model;
    struct compare_cost cost;
    double method[SITE_COUNT]; // operations of the methods, a row
};
// Counts from nothing; `s` is what the answer is computed with.
struct hook compare_meter_hook(struct compare_meter *m, const struct settings *s);
// What the conversation that was answered says of its cost, and the event of its answer.
void compare_meter_end(struct compare_meter *m, const struct conversation *c,
                       const struct event_answer *answer);

// The answer to the conversation under `settings`, but with these tokens given: what chooses each
// step of `full` comes to distances[full->steps] and, when asked for, best[].
int compare_forced(struct conversation *c, const struct settings *settings,
                   const struct hooks *methods, const atomic_bool *cancel,
                   const struct step_logits *full, const struct ids *given, double *distances,
                   int64_t *best, struct err *err);

#endif
