// kernels/few_rows_pairs_cuda.h -- products of few rows (few_rows.cu, few_rows_ring.cu): which
// weight rows a pair has, and what becomes of its sums.
#ifndef KERNELS_FEW_ROWS_PAIRS_CUDA_H
#define KERNELS_FEW_ROWS_PAIRS_CUDA_H

#include "kernels/few_rows_cuda.h"

struct shape {
    int64_t units; // pairs of rows
    int64_t width; // of x in shared memory: K elements, padded with zeros to whole steps of AHEAD
                   // chunks
    int64_t from, count; // rows of x
};

// A row of a pair: its index in the part's product (`row`; < 0: absent) and in the part's weight
// (`from`).
struct unit_row {
    const struct few_rows_part *part;
    int64_t row, from;
};

static __device__ inline int64_t weight_row(const struct few_rows_part &p, int64_t row)
{
    const int r = (int)row;
    return p.run ? p.first + (int64_t)(r / p.run) * p.step + r % p.run : row;
}

static __device__ inline struct unit_row unit_row_of(const struct few_rows &p, int64_t unit, int r)
{
    if (p.epilogue == FEW_ROWS_SWIGLU) return { &p.part[r], unit, weight_row(p.part[r], unit) };
    const struct few_rows_part *part = p.part;
    while (unit >= (part->rows + 1) / ROWS) unit -= (part++->rows + 1) / ROWS;
    const int64_t row = unit * ROWS + r;
    if (p.epilogue == FEW_ROWS_HEADS) {
        const int half = p.heads.half, pair = (int)unit, i = pair % half;
        const int head = pair / half * 2 * half;
        const int adjacent = part->what == FEW_ROWS_VALUES ? 0 : p.heads.adjacent;
        return { part, head + i + r * half,
                 weight_row(*part, head + pair_number(i, r, half, adjacent)) };
    }
    if (row >= part->rows) return { part, -1, -1 };
    return { part, row, weight_row(*part, row) };
}

// Finds the addresses of a pair's rows; NULL: absent.
template <typename T>
static __device__ void find_rows(const T *row[ROWS], const struct few_rows &p, int64_t unit,
                                 int64_t units)
{
    UNROLL
    for (int r = 0; r < ROWS; r++) {
        row[r] = nullptr;
        if (unit >= units) continue;
        const struct unit_row at = unit_row_of(p, unit, r);
        if (at.row >= 0) row[r] = row_of<T>(at.part->w, at.from, p.k);
    }
}

// Stores a pair of a head's elements for row n of x: queries in y, keys and values in the cache.
static __device__ inline void put_pair(const struct few_rows_heads &p,
                                       const struct few_rows_part *part, int64_t row, int64_t n,
                                       const float value[ROWS])
{
    const bool queries = part->what == FEW_ROWS_QUERIES, rotates = part->what != FEW_ROWS_VALUES;
    const int64_t angle = n * p.half + row % p.half;
    const float c = rotates ? p.cos[angle] : 1, s = rotates ? p.sin[angle] : 0;
    const float a = add_product(times(value[0], c), -value[1], s);
    const float b = add_product(times(value[1], c), value[0], s);
    const int64_t to = (queries ? n : p.cache_row[n]) * part->rows + row;
    put_number(part->y, to, a, queries ? DTYPE_F32 : p.dtype);
    put_number(part->y, to + p.half, b, queries ? DTYPE_F32 : p.dtype);
}

// Stores the pair's products for row n of x; called by a lane that holds them.
static __device__ inline void finish(const struct few_rows &p, int64_t unit, int64_t n,
                                     const float sum[ROWS])
{
    float value[ROWS];
    struct unit_row at[ROWS];
    for (int r = 0; r < ROWS; r++) {
        at[r] = unit_row_of(p, unit, r);
        const float *bias = at[r].part->bias;
        value[r] = sum[r] + (bias && at[r].row >= 0 ? bias[at[r].from] : 0);
    }
    if (p.epilogue == FEW_ROWS_SWIGLU) {
        const float gate = value[0] / (1 + expf(-value[0]));
        static_cast<float *>(p.part[0].y)[n * p.part[0].rows + unit] = times(gate, value[1]);
        return;
    }
    if (p.epilogue == FEW_ROWS_HEADS) {
        put_pair(p.heads, at[0].part, at[0].row, n, value);
        return;
    }
    for (int r = 0; r < ROWS; r++) {
        if (at[r].row < 0) continue;
        float *y = static_cast<float *>(at[r].part->y) + n * at[r].part->rows + at[r].row;
        *y = p.epilogue == FEW_ROWS_ADD ? *y + value[r] : value[r];
    }
}

// Returns the number of pairs of all parts.
static inline int64_t count_units(const struct few_rows *p)
{
    int64_t units = 0;
    for (int i = 0; i < p->parts; i++) units += (p->part[i].rows + 1) / ROWS;
    return p->epilogue == FEW_ROWS_SWIGLU ? p->part[0].rows : units;
}

// few_rows_ring.cu: like few_rows_product, for parts of one dtype; FUSED_NOT: nothing was computed.
int few_rows_ring(const struct few_rows *p);

#endif
