// kernels/attention_few.h -- attention of few rows (one token), for kernels/attention.c.
#ifndef KERNELS_ATTENTION_FEW_H
#define KERNELS_ATTENTION_FEW_H

#include "kernels/attention.h"

// tokens * group <= ATTENTION_FEW. -1: out of memory.
int KERNEL(attention_few)(const struct call *c);

#endif
