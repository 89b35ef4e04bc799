// kernels/aside.h -- what waits in the host's memory until a device whose memory lies apart needs
// it again.
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
// Copies run beside the ops and begin when everything that was asked before has ended; the host
// waits for none of them. It is a stack: drop gives back that and all that was put later.
#ifndef KERNELS_ASIDE_H
#define KERNELS_ASIDE_H

#include <stddef.h>
#include <stdint.h>

struct aside {
    int64_t (*put)(const void *device, size_t bytes);
    void (*bring)(int64_t number, void *device);
    // Ops asked from now on come after the last of the two.
    void (*settle)(int64_t number);
    void (*drop)(int64_t number);
    // Drops all, and gives the host's memory back, which is kept for what is put next.
    void (*release)(void);
};

#endif
