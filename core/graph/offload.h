// core/graph/offload.h -- inputs of blocks that are computed again are offloaded to the host
// meanwhile.
//
// A tape with `offloads.on` (core/graph/tape.h) has two places on the device for results of blocks,
// taken in turn: while a block computes from one to the other, its input is copied to the host, and
// what the one after it writes over is there. On the way back a block's result is needed no more
// once the block begins to be computed again: what it wrote over comes back to its place meanwhile,
// for the block in front. So the device holds two inputs, wherever the pass is, and that of the
// first block, which is no block's result; no tensor moves.
//
// The step easy to get wrong: a place may be written over only if what lies there was offloaded, as
// the input of the block behind. If a method had the next block go on from something else, or the
// host has no room, it stays and another place is taken.
#ifndef CORE_GRAPH_OFFLOAD_H
#define CORE_GRAPH_OFFLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct graph;
struct tensor;

// Of a block: which inputs were offloaded, numbers from 1; 0: none.
struct offload_step {
    size_t input; // its own
    size_t over;  // the one whose place its result has
};

// An input that was offloaded.
struct offload_input {
    int64_t number; // the device's
    void *data;     // its place
    bool away;      // something else was written there
    bool asked;     // it comes back
};

struct offloads {
    bool on;
    uint64_t peak; // bytes on the host

    // Their own.
    struct offload_place {
        void *data; // NULL: not yet
        size_t bytes;
        int gpu;     // where that is
        size_t held; // the input there that was offloaded; 0: it was not
    } place[2];
    int newest; // place of the last result
    struct offload_input *inputs;
    size_t count, capacity;
    uint64_t bytes;
};

// A block will be computed from h: offloads h if it may, and gives the tensor for its result, of
// h's shape. NULL: g has failed.
struct tensor *offload_begin(struct graph *g, struct tensor *h, struct offload_step *step);
// The block will be computed again: its input is there for all that is asked from now on, and that
// of the block in front is on its way.
void offload_back(struct graph *g, const struct offload_step *step);

struct tape;
// Nothing is offloaded any more.
void offload_clear(struct tape *t);
// The same, and the host has its memory back.
void offload_release(struct tape *t);

#endif
