// core/stages/stages.h -- splits a model's layers over the ranks of a job, for models larger than
// one rank's memory.
//
//   rank 0: pictures, embedding, layers 0 .. a-1    h [n, D] ->
//   rank 1: layers a .. b-1                         h [n, D] ->
//   last:   layers .. L-1, final norm, head         logits -> all
//
//   const struct model_partition partition = stages_partition(ranks);
//   struct model *m = model_open(name, backend, &partition, ...);    // this rank's layers
//
// All ranks run the same conversations and passes. Each computes one stage of a pass and holds only
// its own matrices, keys and values. The decoder calls its part (struct decoder_part) before its
// first layer and after its last. A failure travels with the hidden state, so that all ranks fail.
//
// Several conversations run in turn (graph.conversation): a stage computes one while other stages
// compute the others (core/eval/evaluate_share.c).
//
// Room core/stages/: layers of a model in several processes. Uses ranks, model and what they use.
#ifndef CORE_STAGES_STAGES_H
#define CORE_STAGES_STAGES_H

#include "core/graph/hooks.h"
#include "core/model/model.h"
#include "core/ranks/ranks.h"

struct stages {
    struct decoder_part part; // the decoder's view of this stage
    struct ranks *ranks;
    int number, count; // this stage's index; number of stages
};

// Returns the stages of a decoder; NULL if this process has all layers.
const struct stages *stages_of(const struct decoder *d);
// Makes model_open load this rank's layers; loading fails if there are more ranks than layers or,
// with several ranks, if layers have per-layer inputs or share keys and values.
struct model_partition stages_partition(struct ranks *ranks);
// Distributes layers of these sizes over `count` stages, at least one each, to minimise the largest
// stage. The first stage holds `first` bytes more, the last one `last`. Stage k gets layers from[k]
// .. from[k+1]-1; from has count + 1 elements.
void stages_split_layers(const double *bytes, int layers, double first, double last, int count,
                         int *from);

// Sites where layers continue in another process: a method writes a note for that process (SEND)
// and reads the note there before that process's first layer (RECEIVE). site_args.own is a
// stage_note, x is NULL.
extern const struct site SITE_SEND[1], SITE_RECEIVE[1];
struct stage_note {
    struct buf bytes;
    size_t at; // read so far
};

// Broadcasts `size` bytes of the last stage to all stages, unless the last stage has failed or was
// cancelled. s NULL: does nothing.
void stages_broadcast(struct graph *g, const struct stages *s, void *data, size_t size);

// Checks that all stages have reached `what` without a failure. If one failed, all report the first
// failure.
void stages_agree(struct graph *g, const struct stages *s, uint64_t what);
int stages_agree_status(const struct stages *s, int conversation, uint64_t what, int status,
                        struct err *err);
// Returns the minimum of the stages' numbers, the same in every stage.
int64_t stages_least(const struct stages *s, int conversation, int64_t number);

#endif
