// kernels/offload.h -- device memory offloaded to the host until it is needed again.
//
//   int64_t number = b->offload->put(x, bytes);      // -1: there is no room, x stays where it is
//   ... ops that read x ...
//   b->offload->settle(number);                      // the ops from here on may write over x
//   ...
//   b->offload->fetch(number, x);                    // those after may neither read nor write x,
//   ... ops on other memory ...
//   b->offload->settle(number);                      // from here on it is what it was
//   b->offload->drop(number);
//
// Copies run concurrently with the ops, after everything requested before; the host waits for none
// of them. It is a stack: drop frees that tensor and all later ones.
#ifndef KERNELS_OFFLOAD_H
#define KERNELS_OFFLOAD_H

#include <stddef.h>
#include <stdint.h>

struct offload {
    int64_t (*put)(const void *device, size_t bytes);
    void (*fetch)(int64_t number, void *device);
    // Ops requested from now on come after the last of the two.
    void (*settle)(int64_t number);
    void (*drop)(int64_t number);
    // Drops all and frees the host memory, which otherwise waits for reuse.
    void (*release)(void);
};

#endif
