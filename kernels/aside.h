// kernels/aside.h -- tensors moved to host memory until a device with separate memory needs them
// again.
//
//   int64_t number = b->aside->put(x, bytes);        // -1: there is no room, x stays where it is
//   ... ops that read x ...
//   b->aside->settle(number);                        // the ops from here on may write over x
//   ...
//   b->aside->bring(number, x);                      // those after may neither read nor write x,
//   ... ops on other memory ...
//   b->aside->settle(number);                        // from here on it is what it was
//   b->aside->drop(number);
//
// Copies run concurrently with the ops, after everything requested before; the host waits for none
// of them. It is a stack: drop frees that tensor and all later ones.
#ifndef KERNELS_ASIDE_H
#define KERNELS_ASIDE_H

#include <stddef.h>
#include <stdint.h>

struct aside {
    int64_t (*put)(const void *device, size_t bytes);
    void (*bring)(int64_t number, void *device);
    // Ops requested from now on come after the last of the two.
    void (*settle)(int64_t number);
    void (*drop)(int64_t number);
    // Drops all and frees the host memory, which is kept for reuse.
    void (*release)(void);
};

#endif
