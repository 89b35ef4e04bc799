// core/graph/aside.h -- inputs of blocks that are computed again wait in the host's memory
// meanwhile.
//
// A tape with `asides.on` (core/graph/tape.h) keeps results of blocks in two places of the device,
// taken in turn: while a block computes from one to the other, its input is copied to the host, and
// what the one after it writes over is there. On the way back a block's result is needed no more
// once the block begins to be computed again: what it wrote over comes back to its place meanwhile,
// for the block in front. So the device holds two inputs, wherever the pass is, and that of the
// first block, which is no block's result; no tensor moves.
//
// The step easy to get wrong: a place may be written over only if what lies there was put aside, as
// the input of the block behind. If a method had the next block go on from something else, or the
// host has no room, it stays and another place is taken.
#ifndef CORE_GRAPH_ASIDE_H
#define CORE_GRAPH_ASIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct graph;
struct tensor;

// Of a block: which inputs were put aside, numbers from 1; 0: none.
struct aside_step {
    size_t input; // its own
    size_t over;  // the one whose place its result has
};

// An input that was put aside.
struct aside_input {
    int64_t number; // the device's
    void *data;     // its place
    bool away;      // something else was written there
    bool asked;     // it comes back
};

struct asides {
    bool on;
    uint64_t peak; // bytes on the host

    // Their own.
    struct aside_place {
        void *data; // NULL: not yet
        size_t bytes;
        int gpu;     // where that is
        size_t held; // the input there that was put aside; 0: it was not
    } place[2];
    int newest; // place of the last result
    struct aside_input *inputs;
    size_t count, capacity;
    uint64_t bytes;
};

// A block will be computed from h: puts h aside if it may, and gives the tensor for its result, of
// h's shape. NULL: g has failed.
struct tensor *aside_begin(struct graph *g, struct tensor *h, struct aside_step *step);
// The block will be computed again: its input is there for all that is asked from now on, and that
// of the block in front is on its way.
void aside_back(struct graph *g, const struct aside_step *step);

struct tape;
// Nothing is aside any more.
void aside_clear(struct tape *t);
// The same, and the host has its memory back.
void aside_release(struct tape *t);

#endif
