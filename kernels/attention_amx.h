// kernels/attention_amx.h -- attention of many rows in bf16 through AMX, for kernels/attention.c.
#ifndef KERNELS_ATTENTION_AMX_H
#define KERNELS_ATTENTION_AMX_H

#include "kernels/amx.h"
#include "kernels/attention.h"

#if defined(__AMX_BF16__)

// tokens > ATTENTION_FEW. A row's bits depend neither on the number of rows nor on that of threads.
// -1: out of memory.
int KERNEL(attention_tiles)(struct call *c);

#endif

#endif
