// core/stages/stages.h -- a model whose layers are dealt to the ranks of a job, for models that are
// larger than one rank's memory.
//
//   rank 0: pictures, embedding, layers 0 .. a-1    h [n, D] ->
//   rank 1: layers a .. b-1                         h [n, D] ->
//   last:   layers .. L-1, final norm, head         logits -> all
//
//   const struct model_dealer dealer = stages_dealer(ranks);
//   struct model *m = model_open(name, backend, &dealer, ...);    // this rank's layers
//
// All ranks run the same conversations and passes; each computes its stage of a pass, so that its
// memory holds only its own weights, keys and values. The decoder calls its part (struct
// decoder_part) before the first of its layers and after the last. A failure travels with the
// hidden state and becomes the failure of all.
//
// Several conversations run in turn (graph.conversation): a stage computes one while other stages
// compute the others (core/eval/evaluate_share.c).
//
// Room core/stages/: layers of a model in several processes. Uses base to model, and ranks.
#ifndef CORE_STAGES_STAGES_H
#define CORE_STAGES_STAGES_H

#include "core/graph/hooks.h"
#include "core/model/model.h"
#include "core/ranks/ranks.h"

struct stages {
    struct decoder_part part; // the decoder's view of it
    struct ranks *ranks;
    int number, count; // of this stage; of all
};

// The stages of a decoder; NULL: this process has all layers.
const struct stages *stages_of(const struct decoder *d);
// For model_open: this rank's layers. Fails if there are more ranks than layers.
struct model_dealer stages_dealer(struct ranks *ranks);
// Deals layers of so many bytes to `count` stages, each at least one, so that the largest stage is
// as small as possible; the first stage has `first` bytes besides, the last one `last`. Stage k
// gets layers from[k] .. from[k+1]-1; from has count + 1 numbers.
void stages_deal(const double *bytes, int layers, double first, double last, int count, int *from);

// Where layers continue in another process: a method notes what it needs there (HAND_ON), and reads
// it there before the first layer (TAKE_ON). site_args.own is a stage_note, x is NULL.
extern const struct site SITE_HAND_ON[1], SITE_TAKE_ON[1];
struct stage_note {
    struct buf bytes;
    size_t at; // read so far
};

// Copies `size` bytes of the last stage to all; none after a failure. s NULL: does nothing.
void stages_broadcast(struct graph *g, const struct stages *s, void *data, size_t size);

// Checks that all stages have reached `what` without a failure. The first failure becomes that of
// all.
void stages_agree(struct graph *g, const struct stages *s, uint64_t what);
int stages_agree_status(const struct stages *s, int conversation, uint64_t what, int status,
                        struct err *err);
// Returns the least of the stages' numbers in all of them.
int64_t stages_least(const struct stages *s, int conversation, int64_t number);

#endif
