// kernels/blocks_widen.c -- numbers of blocks as f32, for kernels that widen weights.
#include "kernels/blocks_vec.h"

// A unit of which a part is wanted goes through `wide`.
VEC_INLINE void widen_run(float *to, const char *run, int first, int n, const enum dtype dtype)
{
    const int size = run_unit(dtype), end = first + n;
    struct block_groups g;
    run_open(&g, run, dtype_form(dtype).numbers == RUN ? RUN : (end + 31) / 32 * 32, dtype);
    for (int k = first / size * size; k < end; k += size) {
        const bool whole = k >= first && k + size <= end;
        int8_t bytes[64];
        run_bytes(bytes, run, k / size, dtype);
        float wide[64], *at = whole ? to + k - first : wide;
#pragma GCC unroll 8
        for (int i = 0; i < size / VEC; i++)
            vf_store(at + i * VEC, run_vector(run, &g, bytes, k / size, i, dtype));
        if (whole) continue;
        const int from = k > first ? k : first, until = k + size < end ? k + size : end;
        memcpy(to + from - first, wide + from - k, (size_t)(until - from) * sizeof *to);
    }
}

VEC_INLINE void widen_as(float *to, const char *blocks, int64_t from, int64_t n,
                         const enum dtype dtype)
{
    for (int64_t k = from / RUN * RUN; k < from + n; k += RUN) {
        const int64_t first = k > from ? k : from, end = k + RUN < from + n ? k + RUN : from + n;
        widen_run(to + first - from, blocks + dtype_bytes(dtype, k), (int)(first - k),
                  (int)(end - first), dtype);
    }
}

void KERNEL(blocks_widen)(float *to, const char *blocks, int64_t from, int64_t n, enum dtype dtype)
{
    BLOCK_AS(dtype, widen_as, to, blocks, from, n)
}
