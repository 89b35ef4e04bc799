// kernels/attention_few.h -- attention of few tokens, for kernels/attention.c.
#ifndef KERNELS_ATTENTION_FEW_H
#define KERNELS_ATTENTION_FEW_H

#include "kernels/attention.h"

// Computes attention of up to ATTENTION_FEW tokens. A token's bits depend neither on the number of
// tokens nor on the number of threads. Returns -1 if out of memory.
int KERNEL(attention_few)(const struct call *c);

#endif
