// core/graph/replay.h -- records a repeated step once on the device and replays it.
//
//   if (!replay_again(&r, b, key)) ... compute it op by op ...    // the first time
//   if (!r.recording) record it: ops on memory of r.arena         // the second time
//   b->upload(r.in->data, ...); b->recorder->play(r.recording);   // from then on
//
// The key hashes everything that the ops' arguments depend on; a different key discards the
// recording.
#ifndef CORE_GRAPH_REPLAY_H
#define CORE_GRAPH_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/graph/arena.h"

struct replay {
    uint64_t key;    // of the last step; 0: none yet
    bool refused;    // the device could not record this step
    void *recording; // NULL: none; made by arena.backend
    struct arena arena;
    struct tensor *in, *h, *out; // in the arena: the step's inputs, embedding and result
};

// True if the last step had the same key and can be recorded. Discards a recording with a different
// key.
bool replay_again(struct replay *r, const struct backend *b, uint64_t key);
// Frees the recording and its memory.
void replay_forget(struct replay *r);

#endif
