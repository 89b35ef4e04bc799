// core/engine/device.h -- the devices that --device selects.
//
// The CPU is built in. GPUs are in a separate library, libvlmsh_cuda.so (`make cuda`), searched in
// this order: $VLMSH_CUDA; beside the program; build/cuda beside the program; ../lib/vlmsh from the
// program's folder.
#ifndef CORE_ENGINE_DEVICE_H
#define CORE_ENGINE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

struct backend;
struct err;

// "cpu", "cuda", "cuda:1", "cuda:0,1" (splits the layers over both); NULL: the CPU. NULL with a
// message for other names. If the GPU is not available, returns the CPU and err->text says why
// (else it is "").
const struct backend *device_find(const char *name, struct err *err);

const char *device_name(const struct backend *b); // "cpu", "cuda"
const char *device_text(const struct backend *b); // "AVX-512, 8 threads"
bool device_has_memory(const struct backend *b);  // separate from the host's
void device_set_threads(int count);               // CPU threads; 0: one per core

// The CPU device with the instruction set of that name; NULL, and what this CPU has, if it lacks
// it.
const struct backend *device_find_isa(const char *isa, struct err *err);
// -1 if the environment's VLMSH_ISA names a set that this CPU lacks. An empty one names none.
int device_check_isa(struct err *err);

// The stream of the current GPU (struct cuda_library), once one is open.
void *device_stream(void);
// The name of the GPU that a rank computes on, of those that `name` lists or, if it is one, from
// that one on: "cuda:1" of "cuda" for rank 1 of its machine. The caller frees it. Other names: a
// copy.
char *device_of_rank(const char *name, int local);

// A device as shown to the user.
struct device_row {
    const char *name, *text;
    size_t unused, total; // bytes of memory; 0: not known
};
// Calls with each device; *why ("" if none) says why no GPU is among them.
void device_each(void (*add)(void *self, const struct device_row *row), void *self,
                 struct err *why);

#endif
