// core/eval/evaluate.h -- scores a model on samples of a data set: validation while training,
// /eval, comparisons.
//
//   struct evaluate_request request = { .model = model, .backend = backend, .settings = settings,
//                                       .data = &dataset, .indices = held_out, .index_count = n,
//                                       .report = store_one, .self = job };
//   struct evaluation e;
//   if (evaluate_run(&request, &e, &err) < 0) ...          // no question could be scored
//   const struct evaluation_total *t = evaluation_main(&e);
//   ... t->metric->name, t->tally.scores.mean, t->low, t->high ...
//   evaluation_release(&e);
//
// Asks every question that has an answer in the data (a metric that ranks choices: only a sample's
// last question), with the reference answers of earlier turns in the conversation. Decodes
// greedily, unless the metric ranks choices or is the loss: the settings' chat template, context
// and sample.max_tokens apply, settings of sampling do not; a limit of the evaluation set replaces
// sample.max_tokens, unless the user has set a smaller one.
// Consecutive questions about the same pictures, and the choices of a question, share passes
// (eval.batch); with f32 matrix products the results are bit-identical to those of single passes.
// With eval.first, another question precedes a sample's questions. Active methods work as in a
// chat, one question at a time. Consecutive samples with the same pictures share their visual
// tokens and, unless a method is on, the common prefix of their prompts (the tokens that a method
// keeps of a picture may depend on the question).
//
// Room core/eval/: questions about a data set, their answers and scores, the loss of samples, two
// sets of settings side by side, and calibration. Uses jobs, engine, sets, probes, metrics and what
// they use.
#ifndef CORE_EVAL_EVALUATE_H
#define CORE_EVAL_EVALUATE_H

#include <stdatomic.h>

#include "core/base/err.h"
#include "core/base/names.h"
#include "core/methods/method.h"
#include "core/metrics/metric.h"
#include "core/metrics/suite.h"
#include "core/sets/total.h"

struct event_answer;
struct image_decoder;
struct job_results;
struct picture;

// Limits that end answers, whose scores may then be too low: ctx.max, sample.max_tokens.
enum cut { CUT_NONE, CUT_CONTEXT, CUT_LENGTH, CUTS };
enum cut cut_of(const struct event_answer *a);
// Returns "3 hit the context limit (ctx.max); 1 reached sample.max_tokens"; NULL: none did. The
// caller frees it.
char *cut_text(const int64_t counts[CUTS]);

// A question, or a sample none of whose questions was asked. All pointers are borrowed for the
// call.
struct evaluated {
    int64_t index, line;         // of the sample: index in the data, line in the file
    int turn;                    // index of the question in its sample, from 0
    const char *id, *kind;       // id: as text, or "#INDEX"
    const char *group;           // of the question, such as MME's pairs; "": none
    const struct metric *metric; // NULL: skipped before it was known
    const char *prompt;          // the question's text
    const char *answer;          // generated; "" with metrics that generate nothing
    const char *scored_text;     // the part of the answer that the rule reads; "": none
    const char *found;           // the extracted answer, NULL: none
    const char *reference;       // the first reference answer
    double score;                // NaN when skipped
    double overlap;              // of the answer's boxes with the reference's
    const char *skipped;         // reason why it was not scored; NULL: scored
    int class;                   // the metric's own case (true positive, ...); -1: none
    enum cut cut;
    enum thought thought; // whether the answer's thinking was removed
    int lost; // number of choices that the suite's prompt leaves out because of their text ("None")
    int64_t done, count; // number of samples processed, including this one; number of all samples
};

// Shared by the passes of a run.
struct evaluate_passes {
    const struct settings *settings;
    const struct hooks *hooks; // the methods, then the request's hooks
    const atomic_bool *cancel;
    struct conversation *c; // messages, pictures, cache
    size_t first_messages;  // number of messages of c that are eval.first and its answer
    bool cancelled;         // the last pass was cancelled
};

struct evaluate_request {
    const struct model *model;
    const struct backend *backend;
    const struct settings *settings; // does not change during the run
    const struct hooks *hooks;       // another listener, after the methods; NULL: none
    struct method_tensors tensors;   // the adapter's, for methods that learn
    const struct dataset *data;
    const int64_t *indices; // [index_count] samples in this order; NULL: all
    int64_t index_count;
    const char *const *kinds; // [kind_count] only samples of these kinds; 0: all
    size_t kind_count;
    int64_t first;                 // number of samples processed earlier (a resumed run)
    int64_t limit;                 // at most this many samples; 0: all
    const struct metric *metric;   // NULL: each sample's own metric, else loss
    const struct set_total *total; // of an evaluation set; NULL: none
    enum thinking thinking; // whether thinking is removed from answers before they are scored
    // Reads the next samples and decodes their pictures in a thread while the model answers. Must
    // be false when times are measured, because the thread occupies a core.
    bool ahead;
    struct data_notices *notices; // counts remarks on the data; NULL: none
    // Answers to score instead of the model's, except by rules that rank choices; NULL: none.
    const struct answer_file *answer_file;
    // Called with each question, scored or skipped, and each skipped sample; returning false stops
    // the run, like `cancel`. May be NULL.
    bool (*report)(void *self, const struct evaluated *e);
    // Called with each generated answer before it is scored, while its conversation exists (the
    // answer is the last message); may replace that message. -1: the question cannot be scored, err
    // says why. May be NULL.
    int (*answered)(void *self, struct evaluate_passes *p, const struct event_answer *answer,
                    struct err *err);
    void *self;
    const atomic_bool *cancel; // may be NULL
    // The ranks that share the samples (not the stages of a model); each then gets all scores, in
    // the order of the samples. Not with `answered`. Rank 0 decides when to stop. NULL: this
    // process evaluates all samples.
    struct ranks *ranks;
};

// Scores of one metric, over all samples or one kind of sample.
struct evaluation_total {
    const struct metric *metric;
    const char *kind; // NULL: all kinds
    struct metric_tally tally;
    double low, high; // 95% interval, see metric_interval
    struct metric_number numbers[METRIC_NUMBERS];
    int number_count;
};

struct evaluation {
    // The total of each metric, sorted by number of questions, the largest first; then, if a metric
    // has several kinds, all totals by metric and kind.
    struct evaluation_total *totals;
    size_t total_count, total_capacity;
    struct names total_names; // "METRIC\nKIND" of each, while answers are scored
    int64_t samples, skipped; // processed samples; samples with a question that was not scored
    char *why;                // why the first sample was skipped; NULL: none was
    int64_t cut[CUTS];        // number of answers by the limit that ended them
    int64_t thoughts[THOUGHTS],
        lost;           // number of answers by kind of thought; number of choices lost
    bool cancelled;     // the totals cover only the scores before the cancel
    struct names kinds; // owns the names of the kinds
    // With the total of a set: all scores, the numbers of the total, and an interval for the
    // first number (NaN: too few scores).
    const struct set_total *total;
    struct set_score *scores; // [score_count]
    size_t score_count, score_capacity;
    struct names groups; // owns the names of their groups
    struct set_number numbers[SET_NUMBERS];
    int number_count;
    double low, high;
    char *first;            // eval.first; NULL: none (evaluation_first: if it was asked)
    char *sampling;         // changed settings of sampling, which greedy answers ignore; NULL: none
    bool answers_given;     // answers come from a file: the model only ranks choices
    char *notices;          // of the data (core/data/notices.h); NULL: none
    const char *arithmetic; // precision of matrix products: "f32", "bf16"
    int batch; // largest number of questions or choices per pass, if batching may change a score;
               // else 0 or 1
};

// Returns -1 if no question could be scored, unless the run was cancelled. With r->first > 0, *e
// holds what evaluation_note recorded for the earlier samples; otherwise it is initialised.
int evaluate_run(const struct evaluate_request *r, struct evaluation *e, struct err *err);
// Run an evaluation sample by sample, so that two can alternate. The request must outlive it.
struct evaluating *evaluate_open(const struct evaluate_request *r, struct evaluation *e);
bool evaluate_next(struct evaluating *v); // reads one sample; false: finished or cancelled
int evaluate_close(struct evaluating *v, struct err *err);
// Called every few samples with the number of samples read so far; returning false stops the
// matching.
typedef bool evaluate_reading(void *self, int64_t done, int64_t count);
// Finds each question's answer in *g (core/eval/answer_file.h), before a run with
// r->answer_file = g. -1 if a sample's metric scores no answers, or when stopped. `reading` may be
// NULL.
int evaluate_match_answers(const struct evaluate_request *r, struct answer_file *g,
                           evaluate_reading *reading, void *self, struct err *err);
// Reads and decodes a picture that a sample of d shows; `decoder` as in picture_decode.
int evaluate_picture(const struct dataset *d, struct image_decoder *decoder, const char *path,
                     struct picture *p, struct err *err);
// Returns the text to submit: the answer as scored, or the choice that was ranked first; NULL when
// skipped.
const char *evaluated_answer(const struct evaluated *outcome);
// Adds a scored question: metric, kind, group, score and class of *outcome.
void evaluation_note(struct evaluation *e, const struct evaluated *outcome);
void evaluation_release(struct evaluation *e);
// Returns the total of the metric with the most questions; NULL: cancelled before the first.
const struct evaluation_total *evaluation_main(const struct evaluation *e);
// Returns the total of a metric over all kinds; NULL: nothing scored with it.
const struct evaluation_total *evaluation_of(const struct evaluation *e, const struct metric *m);
// Returns eval.first if a score may depend on it, whichever process computed the score; NULL: none
// does.
const char *evaluation_first(const struct evaluation *e);
// Adds the totals to job results: "metric", "rule", "score", "low", "high", "n", further numbers of
// the metric; then the numbers of the set's total, "score METRIC" for each other metric, and "score
// KIND" or, for another metric, "score METRIC KIND" for each kind. Then adds what may have changed
// the scores: precision, batches, and the remarks.
void evaluation_report(const struct evaluation *e, struct job_results *to);

// What the totals do not show: choices lost, thinking in answers, answers cut off, notices about
// the data, samples skipped.
enum { EVALUATION_REMARKS = 5 };
struct evaluation_remark {
    const char *key;                              // of job results
    char *(*text)(const struct evaluation *self); // NULL: none; the caller frees it
};
extern const struct evaluation_remark evaluation_remarks[EVALUATION_REMARKS];

#endif
