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
// All ranks go through the same conversations and passes; of each pass a rank computes its stage,
// so that its memory holds only its own weights, keys and values. The decoder calls its part
// (struct decoder_part) before its first layer and behind its last one. A failure in one of them
// travels with the hidden state and is the same failure in all.
//
// Several conversations are under way at a time (graph.conversation), so that a stage computes for
// one while another is elsewhere (core/eval/evaluate_share.c).
//
// Room core/stages/: layers of a model in several processes. Uses base to model, and ranks.
#ifndef CORE_STAGES_STAGES_H
#define CORE_STAGES_STAGES_H

#include "core/graph/hooks.h"
#include "core/model/model.h"
#include "core/ranks/ranks.h"

struct stages {
    struct decoder_part part; // what the decoder knows of it
    struct ranks *ranks;
    int number, count; // of this stage; of all
};

// Those of a decoder; NULL: all layers are in this process.
const struct stages *stages_of(const struct decoder *d);
// For model_open: this rank's layers. Fails if there are more ranks than layers.
struct model_dealer stages_dealer(struct ranks *ranks);
// Deals layers of so many bytes to `count` stages, each at least one, so that the largest stage is
// as small as possible; the first stage has `first` bytes besides, the last one `last`. Stage k
// gets layers from[k] .. from[k+1]-1; from has count + 1 numbers.
void stages_deal(const double *bytes, int layers, double first, double last, int count, int *from);

// Where layers go on in another process a method notes what it needs there, and reads it there,
// before the first layer: site_args.own is a stage_note, x is NULL.
extern const struct site SITE_HAND_ON[1], SITE_TAKE_ON[1];
struct stage_note {
    struct buf bytes;
    size_t at; // read so far
};

// What the last stage has computed, in all: `size` bytes of host memory, not written after a
// failure. s NULL: nothing to do.
void stages_tell(struct graph *g, const struct stages *s, void *data, size_t size);

// Have all stages come here, to `what`, and without a failure? The first failure is that of all.
void stages_agree(struct graph *g, const struct stages *s, uint64_t what);
int stages_agree_status(const struct stages *s, int conversation, uint64_t what, int status,
                        struct err *err);
// The least of the stages' numbers, in all.
int64_t stages_least(const struct stages *s, int conversation, int64_t number);

#endif
