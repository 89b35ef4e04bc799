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
    struct picture *pictures; // [picture_count] the first of sample.dialogue.paths, decoded; NULL:
                              // not needed, or those of the previous sample
    size_t picture_count;
};

// Paths of the shown pictures, in order.
struct shown {
    char **paths;
    size_t count;
};

// An answer of a batch, computed before its sample is evaluated.
struct ready_answer {
    int64_t index; // of the sample
    char *text;
    enum cut cut;
};

// The answer to eval.first, for all samples with the same pictures and the same context.
struct first_answer {
    char *context; // NULL: no answer yet
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
    struct first_answer first;
    struct ahead *ahead;                     // NULL: pictures are decoded when they are shown
    struct ahead_sample next[EVALUATE_NEXT]; // [next_count] samples that follow, read for a batch
    int next_count;
    struct ready_answer ready[EVALUATE_NEXT]; // [ready_count] answers of a batch
    int ready_count;
    bool alone;                 // a batch has failed: questions are asked one by one
    void *corpus[METRIC_COUNT]; // each metric's corpus, by its index in metrics[]
    int64_t done, count;
    int64_t at;     // number of samples read
    int64_t passed; // number of these that an earlier process evaluated
    bool *met;      // [r->kind_count] whether a sample of the kind was read
    bool stopped;
    // Member `number` of a team (ranks, or a rank's flights) that shares the samples. `packs`: it
    // packs its scores into `kept` for the others. All members have the scores of the first
    // `shared` samples.
    int team, number;
    bool packs;
    struct buf kept;
    int64_t shared;
};

// A question of a sample, with its references.
struct question {
    size_t message; // index of the user's message in the sample
    int turn;
    char *text;
    const char *const *references; // of the sample, or &reference
    size_t reference_count;
    char *reference;
};

// evaluate_questions.c. Returns the index in the data of the request's i-th sample.
int64_t evaluate_sample_at(const struct evaluate_request *r, int64_t i);
int64_t evaluate_sample_count(const struct evaluate_request *r);
// Returns whether the request includes samples of the kind of s.
bool evaluate_is_of_kind(const struct evaluate_request *r, const struct sample *s);
// Returns whether the request includes s. It includes an unreadable sample, which has no kind, but
// not one that repeats an earlier sample.
bool evaluate_is_chosen(const struct evaluate_request *r, const struct sample *s);
char *evaluate_name(const struct sample *s); // the sample's id, or "#" and its index. free() it
// Returns the metric of the request, else the sample's own, else the loss. NULL: the sample names
// an unknown metric.
const struct metric *evaluate_metric(const struct evaluating *v, const struct sample *s,
                                     struct err *err);
// Sets *q to the question of message i with its references: the sample's for its last question,
// otherwise the answer that follows. Returns false if message i is not a question, or has neither
// references nor, as the last question, choices that m can score.
bool question_at(const struct sample *s, const struct metric *m, size_t i, struct question *q);
void question_release(struct question *q);
bool question_is_last(const struct dialogue *d, size_t message);
// Returns true if metric m scores s, and s has one question only; *message: its index in the
// dialogue.
bool evaluate_only_question(struct evaluating *v, const struct sample *s, const struct metric *m,
                            size_t *message);
// If v->r->notices is set, collects notices about the parts of s that the model reads. `read`: s
// could be read.
void evaluate_note_sample(const struct evaluating *v, const struct sample *s, bool read);
// Returns a metric's corpus: the references of all included samples that it scores, gathered before
// its first score. NULL: it needs none, or v->stopped.
const void *evaluate_corpus(struct evaluating *v, const struct metric *m);

// evaluate.c. Returns true if the dialogue shows these pictures, in this order.
bool shown_are(const struct shown *k, const struct dialogue *d);
void shown_add(struct shown *k, const char *path);
void shown_clear(struct shown *k);

// Fills the conversation with the messages of d up to the question `message`, and returns the
// conversation's copy of that message, which the caller may change.
struct message *evaluate_set_messages(struct evaluating *v, const struct dialogue *d,
                                      size_t message);

// evaluate_batch.c. Returns the maximum number of questions or choices in a pass (eval.batch).
int evaluate_batch_most(const struct conversation *c, const struct settings *s,
                        const struct hooks *hooks);
// Reads sample i of the request, from the file or the thread that reads ahead.
void evaluate_read(struct evaluating *v, int64_t i, struct ahead_sample *a);
// Takes the first of the samples read for a batch; false: none.
bool evaluate_take_next(struct evaluating *v, struct ahead_sample *a);
// Answers the only question of s, whose pictures are shown, together with the questions of the
// following samples. False: it must be asked alone.
bool evaluate_batch(struct evaluating *v, const struct sample *s, const struct metric *m,
                    const struct hooks *hooks, struct ready_answer *to);
void evaluate_batch_release(struct evaluating *v);

// evaluate_first.c. Returns true if eval.first is a question.
bool evaluate_has_first(const struct settings *s);
// Asks eval.first about the pictures of d, already in the conversation, unless its answer is known.
// Sets v->stopped when cancelled.
int evaluate_first(struct evaluating *v, const struct dialogue *d, struct err *err);
// Returns the index of the message that eval.first precedes: d's first question, if it shows
// pictures. Returns d->count if it shows none, or if eval.first is "none".
size_t evaluate_first_at(const struct evaluating *v, const struct dialogue *d);
// Appends eval.first with the pictures of `asked`, then its answer, then the text of `asked` to the
// conversation.
void evaluate_put_first(struct evaluating *v, const struct message *asked);
void evaluate_first_release(struct evaluating *v);

// evaluate_ahead.c. Starts a thread that reads the samples of v; NULL if that fails.
struct ahead *evaluate_ahead_new(const struct evaluating *v);
// Takes the next sample, which the caller owns.
void evaluate_ahead_take(struct ahead *a, struct ahead_sample *s);
void evaluate_ahead_release(struct ahead_sample *s);
void evaluate_ahead_free(struct ahead *a); // may be NULL

// evaluate_rank.c. Computes the log-likelihood of each choice as the answer to the conversation
// (its last message is the user's). Computes the prompt once.
int evaluate_rank(struct evaluate_passes *p, const char *const *choices, size_t count,
                  double *loglik, struct err *err);
// Computes the loss of the messages' answers, with the conversation's pictures.
int evaluate_loss(struct evaluate_passes *p, const struct message *messages, size_t count,
                  double *loss, struct err *err);

// evaluate_totals.c. Computes the totals of struct evaluation from the tallies by metric and kind.
void evaluate_totals(struct evaluation *e);

// evaluate_share.c. Returns true if this member of the team evaluates the sample with this number
// (from 0) among the chosen ones.
bool evaluate_is_mine(const struct evaluating *v, int64_t number);
// Ends a sample; `bad`: a question could not be scored.
void evaluate_end_sample(struct evaluating *v, bool bad);
// Counts and reports a question, scored or skipped.
void evaluate_count(struct evaluating *v, const struct evaluated *outcome);
// Returns the name of the i-th text of a scored question, and in *text the address of the pointer
// to the text (which may be NULL). Returns NULL past the last text.
const char *evaluated_text(struct evaluated *e, int i, const char ***text);
// Appends a copy of *e, texts included.
void evaluate_pack(struct buf *b, const struct evaluated *e);
// Shares the scores among all ranks, once each has done its share of a round, or at the end
// (`rest`).
void evaluate_share(struct evaluating *v, bool rest);
// Does the work of evaluate_run for a model whose layers are distributed over ranks (stages).
int evaluate_in_flights(const struct evaluate_request *r, struct evaluation *e, struct err *err);

#endif
