// kernels/blocks_widen.c -- unpacks runs of blocks, and widens them to f32 for kernels that read
// f32.
#include "kernels/blocks_vec.h"

VEC_INLINE void run_as(struct block_run *to, const char *from, const enum dtype dtype)
{
    run_groups(to->scale, to->offset, from, dtype);
    if (block_group(dtype) == 32) {
        memset(to->scale + 8, 0, 8 * sizeof *to->scale);
        memset(to->offset + 8, 0, 8 * sizeof *to->offset);
    }
#pragma GCC unroll 16
    for (int u = 0; u < RUN / UNIT; u++) {
        const vu unit = run_unit(from, u, dtype);
        memcpy(to->q + u * UNIT, &unit, sizeof unit);
    }
}

void KERNEL(blocks_run)(struct block_run *to, const char *from, enum dtype dtype)
{
    BLOCK_AS(dtype, run_as, to, from);
}

// Converts VEC bytes to f32.
VEC_INLINE vf bytes_float(const uint8_t *bytes)
{
#if defined(__AVX512F__)
    const vi wide = (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)bytes));
#elif defined(__AVX2__)
    const vi wide = (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)bytes));
#else
    const vi wide = { bytes[0], bytes[1], bytes[2], bytes[3] };
#endif
    return __builtin_convertvector(wide, vf);
}

// Widens n elements of a run, from element `first` on. The products with the scale are exact, so a
// fused multiply-add and two separate instructions round alike.
static void widen_run(float *to, const struct block_run *run, int first, int n, int size)
{
    for (int i = first / VEC * VEC; i < first + n; i += VEC) {
        // NOLINTBEGIN(clang-analyzer-core.CallAndMessage): every element of a run is set
        const vf v =
            bytes_float(run->q + i) * vf_set(run->scale[i / size]) + vf_set(run->offset[i / size]);
        // NOLINTEND(clang-analyzer-core.CallAndMessage)
        const int skip = i < first ? first - i : 0, end = first + n - i < VEC ? first + n - i : VEC;
        if (end - skip == VEC)
            vf_store(to + i - first, v);
        else
            memcpy(to + i + skip - first, (const float *)&v + skip,
                   (size_t)(end - skip) * sizeof *to);
    }
}

void KERNEL(blocks_widen)(float *to, const char *blocks, int64_t from, int64_t n, enum dtype dtype)
{
    const int size = block_group(dtype), block = dtype_form(dtype).numbers;
    for (int64_t k = from / RUN * RUN; k < from + n; k += RUN) {
        const int64_t first = k > from ? k : from, end = k + RUN < from + n ? k + RUN : from + n;
        const int64_t whole = (end + block - 1) / block * block; // end of the last block
        const char *at = blocks + dtype_bytes(dtype, k);
        char rest[RUN_BYTES];
        struct block_run run;
        KERNEL(blocks_run)(&run, run_whole(at, whole - k, rest, dtype), dtype);
        widen_run(to + first - from, &run, (int)(first - k), (int)(end - first), size);
    }
}
