// kernels/offload.h -- device memory offloaded to the host until it is needed again.
//
//   int64_t number = b->offload->put(x, bytes);      // -1: not copied, x stays on the device
//   ... ops that read x ...
//   b->offload->settle(number);                      // ops from here on may overwrite x
//   ...
//   b->offload->fetch(number, x);                    // ops must not access x ...
//   ... ops on other memory ...
//   b->offload->settle(number);                      // ... until here; x has its content again
//   b->offload->drop(number);
//
// Copies run concurrently with later ops, after everything issued before; the host waits for none
// of them. Numbers form a stack: drop frees the tensor with that number and all tensors put later.
#ifndef KERNELS_OFFLOAD_H
#define KERNELS_OFFLOAD_H

#include <stddef.h>
#include <stdint.h>

struct offload {
    int64_t (*put)(const void *device, size_t bytes);
    void (*fetch)(int64_t number, void *device);
    // Makes later ops wait for the most recent put or fetch of this number.
    void (*settle)(int64_t number);
    void (*drop)(int64_t number);
    // Drops all tensors and frees the host memory, which is otherwise kept for reuse.
    void (*release)(void);
};

#endif
