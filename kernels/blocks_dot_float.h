// kernels/blocks_dot_float.h -- dot products with a run of weights, computed in floats
// (kernels/blocks_dot.h).
//
// x is stored in the order in which the bytes of lanes become floats. The 4 bytes of a lane are
// masked, not shifted: float(lane & 0xff00) is 256 q, and its x was divided by 256. Halves of bytes
// (Q4_K) are masked in place: float(lane & 0xf000) is 4096 q. Only an element that contains the
// lane's sign bit is shifted down.
#ifndef KERNELS_BLOCKS_DOT_FLOAT_H
#define KERNELS_BLOCKS_DOT_FLOAT_H

#include "kernels/blocks_vec.h"

// A run of a row of x.
struct x_run {
    _Alignas(64) float x[RUN]; // for each unit, vectors b = 0..3: elements for byte b of its lanes
    float sum[16];             // of the groups; the last eight are 0 if groups have 32 elements
};

// The layout of a unit's elements in its bytes.
enum layout { LAYOUT_BYTE, LAYOUT_LOW, LAYOUT_HIGH };

// True if each byte contains two elements: one of part 2i and one of part 2i + 1, where a part has
// 32 elements.
VEC_INLINE bool in_halves(const enum dtype dtype)
{
    return dtype == DTYPE_Q4_K;
}

VEC_INLINE enum layout unit_layout(int u, const bool halves)
{
    return !halves ? LAYOUT_BYTE : u * UNIT / 32 % 2 ? LAYOUT_HIGH : LAYOUT_LOW;
}

// Prepares a run of n <= RUN elements.
static void x_prepare_run(struct x_run *to, const float *x, int64_t n, enum dtype dtype)
{
    const int size = block_group(dtype);
    static const float part[][4] = { [LAYOUT_BYTE] = { 1, 0x1p-8f, 0x1p-16f, 1 },
                                     [LAYOUT_LOW] = { 1, 0x1p-8f, 0x1p-16f, 0x1p-24f },
                                     [LAYOUT_HIGH] = { 0x1p-4f, 0x1p-12f, 0x1p-20f, 1 } };
    _Alignas(64) float in[RUN] = { 0 };
    memcpy(in, x, (size_t)n * sizeof *x);
    for (int u = 0; u < RUN / UNIT; u++) {
        const float *by = part[unit_layout(u, in_halves(dtype))], *from = in + u * UNIT;
        for (int b = 0; b < 4; b++)
            for (int l = 0; l < VEC; l++) to->x[u * UNIT + b * VEC + l] = from[4 * l + b] * by[b];
    }
    for (int g = 0; g < 16; g++) {
        vf sum = { 0 };
        for (int i = g * size; i < g * size + size && i < RUN; i += VEC) sum += vf_load(in + i);
        to->sum[g] = vf_sum(sum);
    }
}

// The element in byte b of each lane, times the number by which x_prepare_run divided x.
VEC_INLINE vf unit_float(vu unit, int b, const enum layout layout)
{
    static const uint32_t mask[] = {
        [LAYOUT_BYTE] = 0xff, [LAYOUT_LOW] = 15, [LAYOUT_HIGH] = 0xf0
    };
    if (b < 3 || layout == LAYOUT_LOW)
        unit = unit & mask[layout] << 8 * b;
    else
        unit = unit >> (layout == LAYOUT_HIGH ? 28 : 24);
    return __builtin_convertvector((vi)unit, vf);
}

// The scale of a unit. size: elements per group.
VEC_INLINE vf unit_scale(const float *scale, int u, int size)
{
    return vf_set(scale[u * UNIT >> (size == 32 ? 5 : 4)]);
}

// The 32 bytes that hold part `part` of a run in halves.
VEC_INLINE const uint8_t *part_in_halves(const char *run, int part)
{
    return ((const struct block_q4_k *)(const void *)run)->q + part / 2 * 32;
}

// Unpacks a run of weights to bytes in order, or copies its halves as stored.
static void run_ready(struct block_run *to, const char *run, enum dtype dtype)
{
    if (!in_halves(dtype)) {
        KERNEL(blocks_run)(to, run, dtype);
        return;
    }
    run_groups(to->scale, to->offset, run, DTYPE_Q4_K);
    for (int i = 0; i < RUN / 32; i++) memcpy(to->q + 32 * i, part_in_halves(run, i), 32);
}

// A run of weights: blocks of a dtype or, with DTYPE_COUNT, a run that run_ready has unpacked.
struct open_run {
    const char *bytes;
    float scale[16], offset[16]; // of the run's groups
};

VEC_INLINE void run_open(struct open_run *o, const char *run, const struct block_run *ready,
                         const enum dtype dtype)
{
    o->bytes = dtype == DTYPE_COUNT ? (const char *)ready->q : run;
    if (dtype != DTYPE_COUNT) {
        run_groups(o->scale, o->offset, run, dtype);
        return;
    }
    memcpy(o->scale, ready->scale, sizeof o->scale);
    memcpy(o->offset, ready->offset, sizeof o->offset);
}

VEC_INLINE vu open_unit(const struct open_run *run, int u, const enum dtype dtype)
{
    if (dtype == DTYPE_COUNT) return (vu)vf_load(run->bytes + u * UNIT);
    if (!in_halves(dtype)) return run_unit(run->bytes, u, dtype);
    return (vu)vf_load(part_in_halves(run->bytes, u * UNIT / 32) + u * UNIT % 32);
}

// s[r][t] += unit u of the run times row r of x.
VEC_INLINE void dot_unit(vf s[][4], int t, const struct x_run *x, int64_t x_runs, int u,
                         const struct open_run *run, const int rows, const int size,
                         const enum dtype dtype, const bool halves)
{
    const vu unit = open_unit(run, u, dtype);
    const vf times = unit_scale(run->scale, u, size);
    vf q[4];
#pragma GCC unroll 4
    for (int b = 0; b < 4; b++) q[b] = unit_float(unit, b, unit_layout(u, halves));
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        const float *at = x[r * x_runs].x + u * UNIT;
        vf sum = vf_load(at) * q[0];
#pragma GCC unroll 3
        for (int b = 1; b < 4; b++) sum += vf_load(at + b * VEC) * q[b];
        s[r][t] += sum * times;
    }
}

// Multiplies unit by unit, so that all runs share the loads of x.
VEC_INLINE void dot_units(vf s[][4], const struct x_run *x, int64_t x_runs,
                          const struct open_run *run, const int rows, const int runs,
                          const int size, const enum dtype dtype, const bool halves)
{
#pragma GCC unroll 8
    for (int u = 0; u < RUN / UNIT; u++) {
#pragma GCC unroll 4
        for (int t = 0; t < runs; t++)
            dot_unit(s, t, x, x_runs, u, &run[t], rows, size, dtype, halves);
        if (dtype == DTYPE_COUNT) __asm__ volatile("" ::: "memory");
    }
}

// s[r][t] += run t of weights times row r of x. `is` is the dtype of the weights; `dtype` equals
// it, or is DTYPE_COUNT if the weights are unpacked.
VEC_INLINE void dot_runs(vf s[][4], const struct x_run *x, int64_t x_runs,
                         const struct open_run *run, const int rows, const int runs,
                         const enum dtype dtype, const enum dtype is)
{
    const int size = block_group(is);
    if (in_halves(is))
        dot_units(s, x, x_runs, run, rows, runs, size, dtype, true);
    else
        dot_units(s, x, x_runs, run, rows, runs, size, dtype, false);
    for (int i = 0; i < RUN / size; i += VEC)
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int t = 0; t < runs; t++)
                s[r][t] += vf_load(run[t].offset + i) * vf_load(x[r * x_runs].sum + i);
}

#endif
