// core/model/stages.h -- a model whose layers are dealt to the ranks of a job, for models that are
// larger than one rank's memory.
//
//   rank 0: pictures, embedding, layers 0 .. a-1    h [n, D] ->
//   rank 1: layers a .. b-1                         h [n, D] ->
//   last:   layers .. L-1, final norm, head         logits -> all
//
// All ranks go through the same conversations and passes; of each pass a rank computes its stage
// (decoder_forward), so that its memory holds only its own weights, keys and values. A failure in
// one of them travels with the activations and is the same failure in all.
//
// Several conversations are under way at a time (graph.flight), so that a stage computes for one
// while another is elsewhere (core/eval/evaluate_flights.c).
#ifndef CORE_MODEL_STAGES_H
#define CORE_MODEL_STAGES_H

#include "core/graph/hooks.h"
#include "core/ranks/ranks.h"
#include "core/text/sequence.h"

struct stages {
    struct ranks *ranks;
    int number, count; // of this stage; of all
    int from, to;      // its layers: from .. to-1
};

// Deals layers of so many bytes to `count` stages, each at least one, so that the largest stage is
// as small as possible; the first stage has `first` bytes besides, the last one `last`. Stage k
// gets layers from[k] .. from[k+1]-1; from has count + 1 numbers.
void stages_deal(const double *bytes, int layers, double first, double last, int count, int *from);

// NULL is a model in one process: the first stage and the last.
bool stages_first(const struct stages *s);
bool stages_last(const struct stages *s);
bool stages_has(const struct stages *s, int layer);

// What goes from a stage to the next one beside h: rows of the sequence that a method has left, and
// what methods note for themselves (SITE_HAND_ON).
struct stage_plan {
    int32_t *rows; // [n]; NULL: all rows of the pass. Owned; stage_plan_release frees it
    int64_t n;
    struct site_note note;
};

void stage_plan_release(struct stage_plan *p);

// Before and after the layers of a pass over sequence q: first the plan, then h [n, D] f32 comes
// from the stage before, and goes to the next one. All stages call them for every pass, also after
// a failure (h may be NULL then), which the next stages take over into g.
void stages_receive_plan(struct graph *g, const struct stages *s, const struct sequence *q,
                         struct stage_plan *plan);
void stages_receive(struct graph *g, const struct stages *s, const struct sequence *q,
                    struct tensor *h);
void stages_send_plan(struct graph *g, const struct stages *s, const struct sequence *q,
                      const struct stage_plan *plan);
void stages_send(struct graph *g, const struct stages *s, const struct sequence *q,
                 const struct tensor *h);
// What the last stage has computed, in all: `size` bytes of host memory, not written after a
// failure.
void stages_tell(struct graph *g, const struct stages *s, void *data, size_t size);
// The same of a tensor [rows, columns], of as many rows as the last stage has: its own, or a copy
// of it in the arena; NULL after a failure.
struct tensor *stages_tell_tensor(struct graph *g, const struct stages *s, struct tensor *t,
                                  int64_t columns);

// Have all stages come here, to `what`, and without a failure? The first failure is that of all.
void stages_agree(struct graph *g, const struct stages *s, uint64_t what);
int stages_agree_status(const struct stages *s, int flight, uint64_t what, int status,
                        struct err *err);
// The least of the stages' numbers, in all.
int64_t stages_least(const struct stages *s, int flight, int64_t number);

#endif
