// kernels/attention_few.h -- attention of few tokens, for kernels/attention.c.
#ifndef KERNELS_ATTENTION_FEW_H
#define KERNELS_ATTENTION_FEW_H

#include "kernels/attention.h"

// tokens <= ATTENTION_FEW. A token's bits depend on neither the number of tokens nor of threads.
// -1: out of memory.
int KERNEL(attention_few)(const struct call *c);

#endif
