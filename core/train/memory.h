// core/train/memory.h -- a training run's memory by part, and what the machine says of it.
#ifndef CORE_TRAIN_MEMORY_H
#define CORE_TRAIN_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/backend.h"

enum memory_part {
    MEMORY_MAPPED,  // weights read where their files are mapped: shared, and given back when
                    // memory is short, so not among the run's own
    MEMORY_HOST,    // of a device with memory of its own: what the run keeps on the host, masters,
                    // gradients and moments of a table that stays there, inputs of layers; not
                    // among its own either
    MEMORY_WEIGHTS, // what was copied of them: gains and biases in f32, an adapter; all but such a
                    // table to a device with memory of its own
    MEMORY_MASTERS, // f32, of what is trained
    MEMORY_GRADIENTS,   // of it
    MEMORY_OPTIMIZER,   // both moments
    MEMORY_ACTIVATIONS, // saved by the forward pass for the backward pass
    MEMORY_WORKSPACE,   // results and gradients that live within a layer, kernels' own
    MEMORY_PICTURES,    // decoded, or their visual tokens
    MEMORY_PROGRAM,     // everything else: tokenizer, data set, libraries
    MEMORY_PARTS
};

struct memory_parts {
    uint64_t of[MEMORY_PARTS]; // bytes
};

const char *memory_part_name(int part);            // "activations"
uint64_t memory_own(const struct memory_parts *p); // all but the first two

// Bytes of this process that are no pages of files; 0: the system does not say.
uint64_t memory_now(void);
// *peak becomes that, if it is more; of a device with memory of its own what the process held
// there at most.
void memory_note(const struct backend *b, uint64_t *peak);
// Bytes that can be had on this device (NULL: the host) without pushing anything out, within the
// limits of a container; 0: unknown.
uint64_t memory_free(const struct backend *b);

#endif
