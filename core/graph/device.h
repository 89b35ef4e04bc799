// core/graph/device.h -- the devices that --device knows.
//
// The CPU is built in. GPUs are in a library of their own, libvlmsh_cuda.so (`make cuda`), which is
// looked for in this order: the file that $VLMSH_CUDA names; beside the program; in build/cuda
// beside the program; in ../lib/vlmsh from the program's folder.
#ifndef CORE_GRAPH_DEVICE_H
#define CORE_GRAPH_DEVICE_H

#include "core/base/err.h"
#include "kernels/backend.h"

// "cpu", "cuda", "cuda:1", "cuda:0,1" (layers are split over both); NULL: the CPU. NULL with a
// message where the name is none of these. Where the GPU is not to be had, err->text says why (else
// it is "") and the CPU is returned.
const struct backend *device_find(const char *name, struct err *err);

// One device as a person is shown it.
struct device_row {
    const char *name, *text;
    size_t unused, total; // bytes of memory; 0: not known
};
// Calls with each device; *why ("" if none) says why there is no GPU among them.
void device_each(void (*add)(void *self, const struct device_row *row), void *self,
                 struct err *why);

#endif
