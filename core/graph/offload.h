// core/graph/offload.h -- offloads the inputs of recomputed blocks to the host until the backward
// pass needs them.
//
// A tape with `offloads.on` (core/graph/tape.h) has two buffers on the device for results of
// blocks, used alternately. While a block computes from one buffer into the other, its input is
// copied to the host; the next block may then overwrite that buffer. In the backward pass, a block
// that is recomputed no longer needs its first result. While the block is recomputed, the input
// that this result had overwritten is copied back to the buffer, for the preceding block. So the
// device always holds two inputs, plus the first block's input, which no block computed. Tensors
// keep their addresses.
//
// Easy to get wrong: a buffer may be overwritten only if its content was offloaded as the input of
// the following block. If a method made the next block continue from another tensor, or host memory
// is exhausted, the content stays and another buffer is allocated.
#ifndef CORE_GRAPH_OFFLOAD_H
#define CORE_GRAPH_OFFLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct graph;
struct tensor;

// Offloaded inputs that a block needs, by number (from 1); 0: none.
struct offload_step {
    size_t input; // the block's input
    size_t over;  // the input whose buffer the block's result overwrites
};

// An offloaded input.
struct offload_input {
    int64_t number;   // the device's number for it (kernels/offload.h)
    void *data;       // the device buffer that held it
    bool overwritten; // the buffer no longer holds it
    bool fetched;     // its copy back to the device was issued
};

struct offloads {
    bool on;
    uint64_t peak; // bytes on the host

    // Private to offload.c.
    struct offload_buffer {
        void *data; // NULL: not allocated yet
        size_t bytes;
        int gpu;     // GPU that holds it
        size_t held; // number of the offloaded input in it; 0: none
    } buffer[2];
    int newest; // buffer of the last result
    struct offload_input *inputs;
    size_t count, capacity;
    uint64_t bytes;
};

// Call before computing a block from h: offloads h if possible and returns the tensor for the
// block's result, of h's shape. NULL: g has failed.
struct tensor *offload_begin(struct graph *g, struct tensor *h, struct offload_step *step);
// Call before recomputing the block: makes its input available to later ops and starts copying back
// the preceding block's input.
void offload_back(struct graph *g, const struct offload_step *step);

struct tape;
// Drops all offloaded inputs.
void offload_clear(struct tape *t);
// Drops all offloaded inputs and frees the host memory.
void offload_release(struct tape *t);

#endif
