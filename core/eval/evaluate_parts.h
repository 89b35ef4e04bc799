// core/eval/evaluate_parts.h -- shared by the files of core/eval/evaluate.h.
#ifndef CORE_EVAL_EVALUATE_PARTS_H
#define CORE_EVAL_EVALUATE_PARTS_H

#include "core/data/dataset.h"
#include "core/eval/evaluate.h"
#include "core/talk/conversation.h"

struct dialogue;

// A sample with its pictures, prepared ahead.
struct ahead_sample {
    struct sample sample;
    int status; // of dataset_read, with err
    struct err err;
    struct picture *pictures; // [picture_count] of sample.dialogue.paths, decoded; NULL: not
                              // needed, those of the sample before, or undecodable
    size_t picture_count;
};

// Paths of the pictures that are shown, in order.
struct shown {
    char **paths;
    size_t count;
};

// An answer that waits for its sample's turn.
struct ready_answer {
    int64_t index; // of the sample
    char *text;
    enum cut cut;
};

// The answer to eval.first, for all samples with the same pictures and the same context.
struct evaluate_opening {
    char *context; // NULL: there is none
    struct shown shown;
    struct message answer;
};

enum { EVALUATE_NEXT = 32 };

struct evaluating {
    const struct evaluate_request *r;
    struct settings *settings; // greedy
    struct evaluation *e;
    struct conversation c;
    struct evaluate_passes passes;
    struct shown shown; // pictures of c
    struct evaluate_opening opening;
    struct ahead *ahead;                     // NULL: pictures are decoded when they are asked about
    struct ahead_sample next[EVALUATE_NEXT]; // [next_count] samples that follow, read for a batch
    int next_count;
    struct ready_answer ready[EVALUATE_NEXT]; // [ready_count] of a batch
    int ready_count;
    bool alone;                 // a batch has failed: no further ones
    void *corpus[METRIC_COUNT]; // by number in metrics[]
    int64_t done, count;
    int64_t at;     // samples looked at
    int64_t passed; // of them done before
    bool stopped;
    // Of a team of ranks, or of flights of one, that share the samples: which one it is, of how
    // many. What it has scored is packed for the others; of `shared` samples they know.
    int team, number;
    bool packs;
    struct buf kept;
    int64_t shared;
};

// A question of a sample, with its references.
struct question {
    size_t message; // of the sample: the user's
    int turn;
    char *text;
    const char *const *references; // of the sample, or &reference
    size_t reference_count;
    char *reference;
};

// evaluate_questions.c. Samples to look at, and whether their kind is asked for.
int64_t evaluate_sample_at(const struct evaluate_request *r, int64_t i);
int64_t evaluate_sample_count(const struct evaluate_request *r);
bool evaluate_is_chosen(const struct evaluate_request *r, const struct sample *s);
char *evaluate_name(const struct sample *s); // its id, or "#" and its number. free() it
// The metric that is asked for, or the sample's own.
const struct metric *evaluate_metric(const struct evaluating *v, const struct sample *s,
                                     struct err *err);
// The question of message i with its references: those of the sample belong to its last question,
// otherwise it is the answer that follows. False: not a question, or nothing is known of it.
bool question_at(const struct sample *s, const struct metric *m, size_t i, struct question *q);
void question_release(struct question *q);
bool question_is_last(const struct dialogue *d, size_t message);
// The question of s if it has only one, which metric m scores; *message of its dialogue.
bool evaluate_only_question(struct evaluating *v, const struct sample *s, const struct metric *m,
                            size_t *message);
// Counts for v->r->notices, if any, what the model reads of s; `read`: s could be read.
void evaluate_note_sample(const struct evaluating *v, const struct sample *s, bool read);
// What a metric keeps of the references of all samples; gathered before the first score that needs
// it. NULL: it keeps nothing, or v->stopped.
const void *evaluate_corpus(struct evaluating *v, const struct metric *m);

// evaluate.c. What is shown: whether it is what a dialogue shows, all of it and in its order.
bool shown_are(const struct shown *k, const struct dialogue *d);
void shown_add(struct shown *k, const char *path);
void shown_clear(struct shown *k);

// sample.max_tokens of v for an answer to s.
void evaluate_limit_answers(struct evaluating *v, const struct sample *s);
// The conversation up to the question `message`, which may be changed until something follows.
struct message *evaluate_set_messages(struct evaluating *v, const struct dialogue *d,
                                      size_t message);

// evaluate_batch.c. How many questions or choices a pass may have (eval.batch).
int evaluate_batch_most(const struct conversation *c, const struct settings *s,
                        const struct hooks *hooks);
// Sample i of those looked at, from the file or the thread that reads ahead.
void evaluate_read(struct evaluating *v, int64_t i, struct ahead_sample *a);
// Takes the first of the samples read for a batch; false: there is none.
bool evaluate_take_next(struct evaluating *v, struct ahead_sample *a);
// The answer to the only question of s, whose pictures are shown, computed with those to the
// samples that follow. False: it must be asked alone.
bool evaluate_batch(struct evaluating *v, const struct sample *s, const struct metric *m,
                    const struct hooks *hooks, struct ready_answer *to);
void evaluate_batch_release(struct evaluating *v);

// evaluate_first.c. Is eval.first a question?
bool evaluate_has_first(const struct settings *s);
// Asks it about the pictures of d, which are shown, unless its answer is
// known. Sets v->stopped when cancelled.
int evaluate_first(struct evaluating *v, const struct dialogue *d, struct err *err);
// The message of d before which it is asked: the first question, if that shows pictures; else
// d->count.
size_t evaluate_opened_at(const struct evaluating *v, const struct dialogue *d);
// Appends it and its answer to the conversation, then `asked`, whose pictures go with it.
void evaluate_put_opened(struct evaluating *v, const struct message *asked);
void evaluate_first_release(struct evaluating *v);

// evaluate_ahead.c. Reads the samples of v from the first on, in a thread; NULL if none can be
// started.
struct ahead *evaluate_ahead_new(const struct evaluating *v);
// The next one, which the caller owns.
void evaluate_ahead_take(struct ahead *a, struct ahead_sample *s);
void evaluate_ahead_release(struct ahead_sample *s);
void evaluate_ahead_free(struct ahead *a); // NULL is fine

// Log-likelihood of each choice as the answer to the conversation (its last message is the user's).
// Computes the prompt once.
int evaluate_rank(struct evaluate_passes *p, const char *const *choices, size_t count,
                  double *loglik, struct err *err);
// Loss of the messages' answers, with the conversation's pictures.
int evaluate_loss(struct evaluate_passes *p, const struct message *messages, size_t count,
                  double *loss, struct err *err);

// evaluate_totals.c. The sum for a metric and kind, created on first use.
struct metric_tally *evaluate_total(struct evaluation *e, const struct metric *m, const char *kind);
int evaluate_metric_number(const struct metric *m); // in metrics[]
// Computes the totals of struct evaluation from the sums by kind.
void evaluate_totals(struct evaluation *e);

// evaluate_share.c. Sample `number` of those that are chosen, from 0.
bool evaluate_is_mine(const struct evaluating *v, int64_t number);
// Has each of the team done its share of the round? A run resumed in the middle of a round finishes
// that round first: only the shares of whole rounds, joined, are in the order of the samples.
bool evaluate_ends_round(const struct evaluating *v);
// After a sample; `bad`: something of it could not be scored.
void evaluate_end_sample(struct evaluating *v, bool bad);
// Counts and reports what was scored.
void evaluate_count(struct evaluating *v, const struct evaluated *told);
// Appends a copy of what was scored, texts included.
void evaluate_pack(struct buf *b, const struct evaluated *e);
// Counts in v what was packed, and clears it.
void evaluate_unpack(struct evaluating *v, struct buf *kept);
// Tells all ranks what each has scored, when all have done their share, or there are no more
// (`rest`).
void evaluate_share(struct evaluating *v, bool rest);

// evaluate_flights.c. evaluate_run of a model in stages.
int evaluate_in_flights(const struct evaluate_request *r, struct evaluation *e, struct err *err);

#endif
