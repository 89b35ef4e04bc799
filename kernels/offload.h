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
// Copies run beside the ops and begin when everything that was asked before has ended; the host
// waits for none of them. It is a stack: drop gives back that and all that was put later.
#ifndef KERNELS_OFFLOAD_H
#define KERNELS_OFFLOAD_H

#include <stddef.h>
#include <stdint.h>

struct offload {
    int64_t (*put)(const void *device, size_t bytes);
    void (*fetch)(int64_t number, void *device);
    // Ops asked from now on come after the last of the two.
    void (*settle)(int64_t number);
    void (*drop)(int64_t number);
    // Drops all, and gives the host's memory back, which otherwise waits for what is put next.
    void (*release)(void);
};

#endif
