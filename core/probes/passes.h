// core/probes/passes.h -- several passes over one prompt and its answer, each with one change, for
// probes that run passes of their own (probe.passes): interventions.
//
//   double *before = ..., *after = ...;              // [tokens of the answer]
//   passes_run(p, NULL, from, before, err);
//   passes_run(p, &hook, from, after, err);          // hook.changes: acts after the methods
//
// The methods of the settings act in every pass except that of passes_texts. Nothing remains of a
// change after its pass.
#ifndef CORE_PROBES_PASSES_H
#define CORE_PROBES_PASSES_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct conversation;
struct graph;
struct hook;
struct ids;
struct model;
struct measuring;
struct passing;

// Sets logp[t] to the log-probability (natural logarithm) of token t of the answer. `from`: the
// first row of the sequence that the hook changes; rows before it are reused from earlier calls if
// the methods and the model's layers allow that, so pass the same or a lower row from call to call.
// hook NULL: no change. Returns 0 or -1.
int passes_run(struct passing *p, const struct hook *hook, int64_t from, double *logp,
               struct err *err);
// Keeps the input of each layer in the next pass, and the keys and values of that pass. Its hook
// must change nothing.
void passes_keep(struct passing *p);
// Like passes_run, for a change in `layer` or a later layer: `layer` starts from its input in the
// pass kept last, so earlier layers are not computed. Runs all layers if no pass is kept, a method
// acts, or the layers need more than their input.
int passes_run_layers(struct passing *p, const struct hook *hook, int64_t from, int layer,
                      double *logp, struct err *err);
// Like passes_run over all rows, with gradients: `hook` sets the `grad` of tensors of the pass
// (core/graph/tape.h), to which the derivative of the sum of weight[t] logp[t] is added. Weights of
// the model get no gradient, so quantised models work.
int passes_gradient(struct passing *p, const struct hook *hook, const float *weight, double *logp,
                    struct err *err);
// Receives the logits [V] that predict token t of the answer, valid during the call.
typedef void (*passes_logits_fn)(void *self, int64_t t, const float *logits);
// Like passes_run, but calls `take` with the logits of each token of the answer.
int passes_run_logits(struct passing *p, const struct hook *hook, int64_t from,
                      passes_logits_fn take, void *self, struct err *err);
// Runs texts, ids [sum of lengths], in one pass without cache and methods, in which each text
// attends only to itself. `hook` listens. An adapter applies as in the conversation (adapter.when).
int passes_texts(struct passing *p, const struct ids *ids, const size_t *lengths, size_t count,
                 const struct hook *hook, struct err *err);
// Calls `ops` with the graph of the passes, for ops outside of a pass.
int passes_compute(struct passing *p, int (*ops)(void *self, struct graph *g), void *self,
                   struct err *err);
// Fails if a pass has failed, or the user has stopped the measurement. For loops that continue
// after a file that cannot be used.
int passes_check(struct passing *p, struct err *err);
// Return visual tokens [rows, width]: passes_visual those of a picture, passes_encode those of a
// file that may replace it, which must have the same size. Both set *focus [rows] to the encoder's
// attention to each token (NULL: no method reads it); only passes_visual accepts NULL for `focus`.
// The caller frees tokens and focus. NULL on failure.
float *passes_visual(struct passing *p, int picture, int64_t *rows, int64_t *width, float **focus,
                     struct err *err);
float *passes_encode(struct passing *p, int picture, const char *path, float **focus,
                     struct err *err);
// Replaces a picture's visual tokens in the following passes, and the encoder's attention to each
// token; focus NULL: leaves that attention unchanged.
int passes_show(struct passing *p, int picture, const float *tokens, const float *focus,
                struct err *err);
// Shows the conversation's own picture again in the following passes.
int passes_restore(struct passing *p, int picture, struct err *err);
// Asks `text` in place of the last question in the following passes; sets *first to the first row
// that this changes, or to the number of rows if none changes. The prompt must keep its length and
// its pictures' places.
int passes_ask(struct passing *p, const char *text, int64_t *first, struct err *err);
// Uses a model of the same shape in the following passes, for the decoder only; NULL: uses the
// conversation's again. Methods that read weights (scores of pruning) keep reading the
// conversation's model.
void passes_use(struct passing *p, const struct model *m);
// Return the measurement, and the conversation that it measures, which must not be changed.
const struct measuring *passes_measuring(const struct passing *p);
const struct conversation *passes_conversation(const struct passing *p);
// Reports that `done` of `all` passes have run.
void passes_progress(struct passing *p, int64_t done, int64_t all);

#endif
