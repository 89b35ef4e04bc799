// core/train/evaluate.h -- scores a model on samples of a data set: validation while training,
// /eval, comparisons.
//
//   struct evaluate_request request = { .model = model, .backend = backend, .settings = settings,
//                                       .data = &dataset, .indices = held_out, .index_count = n,
//                                       .report = store_one, .self = job };
//   struct evaluation e;
//   if (evaluate_run(&request, &e, &err) < 0) ...          // nothing could be scored, or a failure
//   const struct evaluation_total *t = evaluation_main(&e);
//   ... t->metric->name, t->tally.scores.mean, t->low, t->high ...
//   evaluation_release(&e);
//
// Every question of a sample that has an answer in the data is asked, after the true former turns,
// and answered greedily: the settings' prompt layout, context and sample.max_tokens hold, the other
// ones of the sampler do not. Samples go one after another, so there is no batch a score could
// depend on. The methods that the settings switch on work as in a chat. A picture is encoded once
// for consecutive samples that show it; what their prompts begin with is computed once, unless a
// method is on (it may keep of a picture what the question asks for).
#ifndef CORE_TRAIN_EVALUATE_H
#define CORE_TRAIN_EVALUATE_H

#include "core/base/names.h"
#include "core/data/dataset.h"
#include "core/graph/hooks.h"
#include "core/methods/method.h"
#include "core/metrics/metric.h"
#include "core/model/model.h"
#include "core/talk/conversation.h"

// One scored question, or a sample that could not be scored. Borrowed for the call.
struct evaluated {
    int64_t index, line;         // of the sample in the data
    int turn;                    // number of the question in its sample, from 0
    const char *id, *kind;       // id: as text, or "#INDEX"
    const struct metric *metric; // NULL when skipped before that was known
    const char *prompt;          // the question's text
    const char *answer;          // generated; "" with metrics that generate nothing
    const char *found;           // what the extraction rule took from it, NULL: nothing
    const char *reference;       // first of them
    double score;                // NaN when skipped
    const char *skipped;         // why it could not be scored; NULL: it was
    int class;                   // of the metric's own cases, -1
    bool full;                   // the answer was cut off by the end of the context
    int64_t done, count;         // samples gone through with this one, and all
};

// What the passes of a run share.
struct evaluate_passes {
    const struct settings *settings;
    const struct hooks *hooks; // methods, then those of the request
    const atomic_bool *cancel;
    struct conversation *c; // messages, pictures, cache
    bool cancelled;         // the last one gave nothing for that reason
};

struct evaluate_request {
    const struct model *model;
    const struct backend *backend;
    const struct settings *settings; // a snapshot: nobody changes it meanwhile
    const struct hooks *hooks;       // who listens besides, after the methods; NULL: nobody
    struct method_tensors tensors;   // of the adapter, for methods that learn
    const struct dataset *data;
    const int64_t *indices; // [index_count] samples, in this order; NULL: all
    int64_t index_count;
    const char *const *kinds; // [kind_count] only samples of these kinds; 0: all
    size_t kind_count;
    int64_t first;               // samples that were gone through before (a resumed run)
    int64_t limit;               // at most this many samples; 0: all
    const struct metric *metric; // NULL: the one each sample names, loss where it names none
    // Told after each question; false stops as cancel does. May be NULL.
    bool (*report)(void *self, const struct evaluated *e);
    // Told of each generated answer before it is scored, while its conversation stands (its last
    // message); may answer it in another way. -1: the question cannot be scored, err says why. May
    // be NULL.
    int (*answered)(void *self, struct evaluate_passes *p, const struct event_answer *answer,
                    struct err *err);
    void *self;
    const atomic_bool *cancel; // may be NULL
};

// Scores of one metric: all of them, or those of one kind of sample.
struct evaluation_total {
    const struct metric *metric;
    const char *kind; // NULL: all kinds
    struct metric_tally tally;
    double low, high; // 95% interval, see metric_interval
    struct metric_number numbers[METRIC_NUMBERS];
    int number_count;
};

struct evaluation {
    // For each metric all of it, most questions first; then, when there are several kinds, each.
    struct evaluation_total *totals;
    size_t total_count;
    int64_t samples, skipped; // gone through; of them with something that could not be scored
    char *why;                // the first of those, NULL
    int64_t full;             // answers that the end of the context cut off
    bool cancelled;           // the totals are of what was scored until then
    struct names kinds;       // owner of the names
    const char *arithmetic;   // of the products: "f32", "bf16"
};

// -1 when nothing could be scored and it was not cancelled. With r->first > 0, *e holds what
// evaluation_note noted of the samples before; otherwise it is all new.
int evaluate_run(const struct evaluate_request *r, struct evaluation *e, struct err *err);
// The same sample by sample, so that several runs can go side by side. The request must last.
struct evaluating;
struct evaluating *evaluate_open(const struct evaluate_request *r, struct evaluation *e);
bool evaluate_next(struct evaluating *v); // one sample; false: that was all, or it was cancelled
int evaluate_close(struct evaluating *v, struct err *err);
void evaluation_note(struct evaluation *e, const struct metric *m, const char *kind, double score,
                     int class);
void evaluation_release(struct evaluation *e);
// The total that stands for the whole: that of the metric with most questions; NULL: cancelled
// before the first.
const struct evaluation_total *evaluation_main(const struct evaluation *e);
// The total of a metric over all kinds; NULL: nothing was scored by it.
const struct evaluation_total *evaluation_of(const struct evaluation *e, const struct metric *m);
// The totals as lines for people and for the results of a job: "metric", "rule", "score", "low",
// "high", "n", what the metric counts besides; then "score METRIC" of others and "score KIND".
void evaluation_tell(const struct evaluation *e,
                     void (*put)(void *self, const char *key, const char *value), void *self);

#endif
