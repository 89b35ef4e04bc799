// kernels/isa.h -- the CPU kernels are plain C, compiled once per instruction set.
//
// The Makefile compiles kernels/NAME.c four times: -DISA=base (any x86-64 or other CPU), -DISA=avx2
// (AVX2, FMA, F16C), -DISA=avx512 (avx2 plus AVX-512 F/BW/DQ/VL/VNNI), -DISA=amx (avx512 plus
// AVX512-BF16 and AMX-BF16); for CPUs that are not x86-64, only as base. Files without KERNEL
// (cpu.c, blocks.c, blocks_pack.c) are compiled once. A kernel is defined as
//
//   int KERNEL(rmsnorm)(struct tensor *y, ...)
//
// and becomes rmsnorm_base, rmsnorm_avx2, ..; cpu.c has a table for each instruction set and picks
// one at run time, so that one binary is fast on each machine.
#ifndef KERNELS_ISA_H
#define KERNELS_ISA_H

#include "kernels/backend.h"

#define KERNEL_JOIN2(name, isa) name##_##isa
#define KERNEL_JOIN(name, isa)  KERNEL_JOIN2(name, isa)
#define KERNEL(name)            KERNEL_JOIN(name, ISA)

// Sets the text of backend->failure(); returns -1.
int cpu_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Scratch memory of the calling thread for kernels, grown as needed and kept; NULL when out of
// memory.
void *cpu_scratch(size_t bytes);

#ifdef ISA
#define OP(name, arguments) int KERNEL(name) arguments;
#include "kernels/ops.h"
#undef OP
#endif

#endif
