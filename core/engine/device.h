// core/engine/device.h -- the devices that --device selects.
//
// The CPU is built in. GPUs are in a separate library, libvlmsh_cuda.so (`make cuda`): the file
// that $VLMSH_CUDA names or, without it, the first found beside the program, in build/cuda beside
// the program, or in ../lib/vlmsh from the program's folder.
#ifndef CORE_ENGINE_DEVICE_H
#define CORE_ENGINE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

struct backend;
struct err;

// Finds a device by name: "cpu", "cuda", "cuda:1", "cuda:0,1" (splits the layers over both); NULL:
// the CPU. Returns NULL with a message for other names. If the GPU is not available, returns the
// CPU and err->text says why (else it is "").
const struct backend *device_find(const char *name, struct err *err);

const char *device_name(const struct backend *b); // "cpu", "cuda"
const char *device_text(const struct backend *b); // "AVX-512, 8 threads"
bool device_has_memory(const struct backend *b);  // separate from the host's
void device_set_threads(int count);               // CPU threads; 0: one per core

// Returns the CPU device with that instruction set; NULL if the name is unknown or this CPU lacks
// the set, with a message that lists the available ones.
const struct backend *device_find_isa(const char *isa, struct err *err);
// Checks the environment variable VLMSH_ISA: -1 if device_find_isa refuses it; an empty value is
// ignored.
int device_check_isa(struct err *err);

// Returns the stream of the current GPU (struct cuda_library). A GPU must be open.
void *device_stream(void);
// Returns the name of the GPU of rank `local`: the one at that index in the list `name`. Past the
// end of the list, numbers continue after the last GPU ("cuda", rank 1: "cuda:1"). Returns a copy
// of `name` if that is not a list of GPUs. The caller frees the result.
char *device_of_rank(const char *name, int local);

// A device as shown to the user.
struct device_row {
    const char *name, *text;
    size_t unused, total; // bytes of memory; 0: not known
};
// Calls `add` for each device; *why says why there is no GPU among them ("" if there is one).
void device_each(void (*add)(void *self, const struct device_row *row), void *self,
                 struct err *why);

#endif
