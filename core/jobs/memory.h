// core/jobs/memory.h -- a training run's memory by part, and the machine's free memory.
#ifndef CORE_JOBS_MEMORY_H
#define CORE_JOBS_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct backend;

enum memory_part {
    MEMORY_MAPPED, // memory-mapped weights: shared and reclaimable, so not counted as the run's
                   // own
    // Host memory of a run on a device with separate memory: masters, gradients and moments of a
    // table kept on the host, offloaded inputs of layers, the sums of train.exact_sum; not counted
    // as the run's own either.
    MEMORY_HOST,
    // Copied weights: gains and biases in f32, an adapter; on a device with separate memory all
    // weights except a table kept on the host.
    MEMORY_WEIGHTS,
    MEMORY_MASTERS,     // f32 masters of trained weights
    MEMORY_GRADIENTS,   // of trained weights
    MEMORY_OPTIMIZER,   // both moments
    MEMORY_ACTIVATIONS, // saved by the forward pass for the backward pass
    MEMORY_WORKSPACE,   // results and gradients within a layer, kernels' scratch
    MEMORY_PICTURES,    // decoded pictures, or their visual tokens
    MEMORY_PROGRAM,     // everything else: tokenizer, data set, libraries
    MEMORY_PARTS
};

struct memory_parts {
    uint64_t of[MEMORY_PARTS]; // bytes
};

const char *memory_part_name(int part);            // "activations"
uint64_t memory_own(const struct memory_parts *p); // all but MEMORY_MAPPED and MEMORY_HOST

// Returns how many bytes of this process's memory are not file pages; 0: the system does not say.
uint64_t memory_now(void);
// Returns the peak memory of this process so far, mapped files included.
uint64_t memory_peak(void);
// Raises *peak to the process's current memory; for a device with separate memory, to the process's
// peak memory on the device.
void memory_record_peak(const struct backend *b, uint64_t *peak);
// Returns the bytes available on this device (NULL: the host) without evicting anything, within the
// limits of a container; 0: unknown.
uint64_t memory_free(const struct backend *b);

#endif
