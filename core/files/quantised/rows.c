// core/files/quantised/rows.c -- unpacks quantised matrices, several rows at a time: codes, then
// numbers or blocks.
//
// Easy to get wrong: GPTQ and AWQ store a row of the matrix as a column, so neighbouring rows share
// cache lines; all rows of a tile are read together.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/dtype.h"
#include "core/base/mem.h"
#include "core/files/quantised/quantised_parts.h"
#include "kernels/blocks.h"

enum {
    TILE = 16,        // rows, a multiple of the 8 that share a word
    PAD = 64,         // bytes between rows of codes, so that rows use different cache sets
    BLOCK = 32,       // elements of a block
    HALF_MOST = 65504 // largest number of half precision
};

// --- numbers of files ----------------------------------------------------------------------------

static uint32_t word_at(const struct safetensor *t, int64_t i)
{
    uint32_t word;
    memcpy(&word, (const char *)t->data + 4 * i, sizeof word);
    return word;
}

// Decodes PyTorch's float8_e4m3fn: 4 exponent bits, no infinities; only 0x7f and 0xff are NaN.
float quantised_e4m3(uint8_t x)
{
    const int exponent = x >> 3 & 15, mantissa = x & 7;
    if ((x & 0x7f) == 0x7f) return NAN;
    const float size =
        exponent ? ldexpf((float)(8 + mantissa), exponent - 10) : ldexpf((float)mantissa, -9);
    return x & 0x80 ? -size : size;
}

float quantised_number(const struct safetensor *t, int64_t i)
{
    const uint8_t *bytes = t->data;
    float x;
    if (safetensor_is_float(t)) {
        floats_from(&x, bytes + (size_t)i * dtype_size((enum dtype)t->dtype), (enum dtype)t->dtype,
                    1);
        return x;
    }
    if (!strcmp(t->type, "F8_E4M3")) return quantised_e4m3(bytes[i]);
    return bytes[i] == 255 ? NAN : ldexpf(1, bytes[i] - 127); // E8M0
}

// --- scales and zero points ----------------------------------------------------------------------

static float nested_scale(const struct quantised *q, int64_t i)
{
    const uint8_t code = ((const uint8_t *)q->scale.tensor->data)[i];
    const float product = quantised_number(q->nested_map, code) *
                          quantised_number(q->nested_scale, i / q->nested_group);
    return product + q->nested_offset;
}

// Returns the scale of a group of a row; FLAT codes count groups over the whole matrix.
static float scale_of(const struct quantised *q, int64_t row, int64_t group)
{
    const int64_t i =
        q->order == FLAT ? group : row / q->group_rows * q->scale.row + group * q->scale.group;
    if (q->nested_map) return nested_scale(q, i);
    return quantised_number(q->scale.tensor, i) / q->divisor;
}

static float zero_of(const struct quantised *q, int64_t row, int64_t group)
{
    static const int interleaved[8] = { 0, 4, 1, 5, 2, 6, 3, 7 };
    const struct safetensor *t = q->zero.tensor;
    if (!t) return q->zero_base;
    const int64_t i = row / q->zero_per * q->zero.row + group * q->zero.group;
    if (q->zero_per == 1) return q->zero_base + (float)((const int8_t *)t->data)[i];
    const int64_t field = row % q->zero_per;
    const int shift = q->bits * (int)(q->zero_interleaved ? interleaved[field] : field);
    // The addition carries from one field to the next, as in the formats' own libraries.
    const uint32_t word = word_at(t, i) + q->zero_add;
    return q->zero_base + (float)(word >> shift & ((1u << q->bits) - 1));
}

static float offset_of(const struct quantised *q, int64_t row, int64_t group)
{
    const struct shared *o = &q->offset;
    return o->tensor ? quantised_number(o->tensor, row * o->row + group * o->group) : 0;
}

// --- codes ---------------------------------------------------------------------------------------

static void codes_along_rows(const struct quantised *q, int64_t row, uint8_t *to)
{
    const uint8_t *from = (const uint8_t *)q->part[0]->data + row * q->step;
    if (q->bits == 8) {
        memcpy(to, from, (size_t)q->columns);
        return;
    }
    for (int64_t c = 0; c < q->columns; c++) to[c] = from[c / 2] >> (c % 2 * 4) & 15;
}

static void codes_flat(const struct quantised *q, int64_t row, uint8_t *to)
{
    const uint8_t *from = q->part[0]->data;
    const int64_t first = row * q->columns;
    for (int64_t c = 0, k = first; c < q->columns; c++, k++)
        to[c] = from[k / 2] >> (k % 2 ? 0 : 4) & 15;
}

static void codes_along_columns(const struct quantised *q, int64_t first, int64_t rows, uint8_t *to,
                                size_t stride)
{
    const int per = 32 / q->bits;
    const uint32_t mask = (1u << q->bits) - 1;
    for (int64_t w = 0; w < q->columns / per; w++)
        for (int64_t r = 0; r < rows; r++) {
            const uint32_t word = word_at(q->part[0], w * q->step + first + r);
            uint8_t *at = to + (size_t)r * stride + w * per;
            for (int j = 0; j < per; j++) at[j] = (uint8_t)(word >> (q->bits * j) & mask);
        }
}

static void codes_along_outputs(const struct quantised *q, int64_t first, int64_t rows, uint8_t *to,
                                size_t stride)
{
    static const int shifts[8] = { 0, 16, 4, 20, 8, 24, 12, 28 };
    for (int64_t w = first / 8; w * 8 < first + rows; w++) {
        const int64_t from = w * 8 < first ? first - w * 8 : 0;
        const int64_t end = first + rows - w * 8 < 8 ? first + rows - w * 8 : 8;
        uint8_t *at = to + (size_t)(w * 8 + from - first) * stride;
        for (int64_t c = 0; c < q->columns; c++) {
            const uint32_t word = word_at(q->part[0], c * q->step + w);
            for (int64_t j = from; j < end; j++)
                at[(size_t)(j - from) * stride + (size_t)c] = word >> shifts[j] & 15;
        }
    }
}

static void read_codes(const struct quantised *q, int64_t first, int64_t rows, uint8_t *to,
                       size_t stride)
{
    if (q->order == ALONG_COLUMNS) codes_along_columns(q, first, rows, to, stride);
    if (q->order == ALONG_OUTPUTS) codes_along_outputs(q, first, rows, to, stride);
    for (int64_t r = 0; r < rows; r++) {
        if (q->order == ALONG_ROWS) codes_along_rows(q, first + r, to + (size_t)r * stride);
        if (q->order == FLAT) codes_flat(q, first + r, to + (size_t)r * stride);
    }
}

// --- numbers -------------------------------------------------------------------------------------

// Returns the group of column c, and sets *end to the first later column that may be in another
// group.
static int64_t group_at(const struct quantised *q, int64_t row, int64_t c, int64_t *end)
{
    const int64_t k = q->order == FLAT ? row * q->columns + c : c;
    *end = c + q->group - k % q->group;
    if (!q->g_idx) return k / q->group;
    *end = c + 1;
    return (int32_t)word_at(q->g_idx, c);
}

// Computes in the order of the formats' own libraries, so that the results equal theirs bit for
// bit.
static float number_of(const struct quantised *q, float level, float zero, float scale,
                       float offset)
{
    float x = (level - zero) * scale;
    if (q->factor != 1) x *= q->factor;
    return q->offset.tensor ? x + offset : x;
}

static void widen_row(const struct quantised *q, int64_t row, const uint8_t *codes, float *to)
{
    int64_t end;
    for (int64_t c = 0; c < q->columns; c = end) {
        const int64_t group = group_at(q, row, c, &end);
        const float scale = scale_of(q, row, group), zero = zero_of(q, row, group),
                    offset = offset_of(q, row, group);
        float table[16];
        if (end > q->columns) end = q->columns;
        const bool table_pays = q->bits == 4 && end - c >= 16;
        for (int i = 0; table_pays && i < 16; i++)
            table[i] = number_of(q, q->levels[i], zero, scale, offset);
        if (table_pays)
            for (int64_t i = c; i < end; i++) to[i] = table[codes[i]];
        else
            for (int64_t i = c; i < end; i++)
                to[i] = number_of(q, q->levels[codes[i]], zero, scale, offset);
    }
}

// --- blocks --------------------------------------------------------------------------------------

static bool is_half(float x)
{
    return isfinite(x) && half_to_float(half_of_float(x)) == x;
}

// Returns whether all levels of a group equal its zero point, so that its scale has no effect. Such
// groups are common: libraries give unused rows of an embedding a tiny scale.
// codes: those of the row.
static bool is_flat(const struct quantised *q, int64_t row, int64_t group, const uint8_t *codes)
{
    const int64_t first = group * q->group, end = first + q->group;
    bool flat = true;
    for (int64_t c = first; c < end && c < q->columns && flat; c++)
        flat = q->levels[codes[c]] == zero_of(q, row, group);
    return flat;
}

// Returns whether f16 holds all offsets, and all scales that have an effect, exactly.
static bool halves_suffice(const struct quantised *q)
{
    uint8_t *codes = xmalloc((size_t)q->columns);
    bool suffice = true;
    for (int64_t r = 0; r < q->rows && suffice; r++) {
        bool read = false; // `codes` are the row's
        for (int64_t g = 0; g < q->groups && suffice; g++) {
            const float scale = scale_of(q, r, g) * q->factor;
            suffice = is_half(offset_of(q, r, g));
            if (!suffice || is_half(scale)) continue;
            if (!read) read_codes(q, r, 1, codes, 0);
            read = true;
            suffice = fabsf(scale) <= HALF_MOST && is_flat(q, r, g, codes);
        }
    }
    free(codes);
    return suffice;
}

// Sets *low and *high to bounds of level - zero point.
static void integers_of(const struct quantised *q, float *low, float *high)
{
    float least = INFINITY, most = -INFINITY, zero_least = INFINITY, zero_most = -INFINITY;
    for (int i = 0; i < 1 << q->bits; i++) {
        least = fminf(least, q->levels[i]);
        most = fmaxf(most, q->levels[i]);
    }
    const int64_t rows = q->zero.tensor ? q->rows : 1;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t g = 0; g < q->groups; g++) {
            zero_least = fminf(zero_least, zero_of(q, r, g));
            zero_most = fmaxf(zero_most, zero_of(q, r, g));
        }
    *low = least - zero_most;
    *high = most - zero_least;
}

// A block's elements are whole numbers times an f16 scale, in q4_1 plus an offset:
//   q4_0: -8 .. 7, q4_1: 0 .. 15 with an offset, q5_0: -16 .. 15, q8_0: -128 .. 127
int quantised_exact_dtype(const struct quantised *q)
{
    static const struct {
        enum dtype dtype;
        float low, high;
    } kinds[] = { { DTYPE_Q4_0, -8, 7 }, { DTYPE_Q5_0, -16, 15 }, { DTYPE_Q8_0, -128, 127 } };
    float low, high;
    const bool aligned = q->columns % BLOCK == 0 && (q->group % BLOCK == 0 || q->groups == 1);
    if (!q->whole || !aligned || q->order == FLAT || q->g_idx) return -1;
    if (q->offset.tensor) return q->bits == 4 && halves_suffice(q) ? DTYPE_Q4_1 : -1;
    integers_of(q, &low, &high);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (low >= kinds[i].low && high <= kinds[i].high)
            return halves_suffice(q) ? (int)kinds[i].dtype : -1;
    return -1;
}

// Writes the lower 4 bits of a block's numbers: the lower halves of the bytes hold the first 16.
static void put_halves(uint8_t to[BLOCK / 2], const uint8_t from[BLOCK])
{
    for (int j = 0; j < BLOCK / 2; j++)
        to[j] = (uint8_t)((from[j] & 15) | from[j + BLOCK / 2] << 4);
}

// Writes a block of stored integers: signed bytes for q8_0, else moved to start at 0.
static void put_block(void *to, enum dtype dtype, const uint8_t stored[BLOCK], uint16_t d,
                      uint16_t m)
{
    memcpy(to, &d, sizeof d);
    if (dtype == DTYPE_Q8_0) memcpy(((struct block_q8_0 *)to)->q, stored, BLOCK);
    if (dtype == DTYPE_Q4_0) put_halves(((struct block_q4_0 *)to)->q, stored);
    if (dtype == DTYPE_Q4_1) ((struct block_q4_1 *)to)->m = m;
    if (dtype == DTYPE_Q4_1) put_halves(((struct block_q4_1 *)to)->q, stored);
    if (dtype != DTYPE_Q5_0) return;
    struct block_q5_0 *block = to;
    uint32_t high = 0;
    for (int j = 0; j < BLOCK; j++) high |= (uint32_t)(stored[j] >> 4 & 1) << j;
    memcpy(block->high, &high, sizeof high);
    put_halves(block->q, stored);
}

static void pack_row(const struct quantised *q, int64_t row, const uint8_t *codes, enum dtype dtype,
                     char *to)
{
    const size_t size = (size_t)dtype_form(dtype).bytes;
    const int by = dtype == DTYPE_Q4_0 ? 8 : dtype == DTYPE_Q5_0 ? 16 : 0;
    int64_t end = 0;
    for (int64_t c = 0; c < q->columns; c = end) {
        const int64_t group = group_at(q, row, c, &end);
        const int zero = (int)zero_of(q, row, group);
        // f16 may not hold the scale of a flat group, but that scale is multiplied by 0.
        const uint16_t d = half_of_float(scale_of(q, row, group) * q->factor);
        const uint16_t m = half_of_float(offset_of(q, row, group));
        uint8_t table[16], stored[BLOCK];
        if (end > q->columns) end = q->columns;
        for (int i = 0; i < 16; i++) table[i] = (uint8_t)((int)q->levels[i] - zero + by);
        for (int64_t k = c; k < end; k += BLOCK, to += size) {
            // Modulo 256, signed and unsigned bytes have the same difference.
            for (int j = 0; j < BLOCK; j++)
                stored[j] = q->bits == 4 ? table[codes[k + j]] : (uint8_t)(codes[k + j] - zero);
            put_block(to, dtype, stored, d, m);
        }
    }
}

// --- rows ----------------------------------------------------------------------------------------

// Unpacks at most TILE rows.
static void unpack_tile(const struct quantised *q, int64_t first, int64_t rows, enum dtype dtype,
                        char *to)
{
    const size_t stride = (size_t)q->columns + PAD, row = dtype_bytes(dtype, q->columns);
    uint8_t *codes = xreallocarray(NULL, TILE, stride);
    float *floats = xreallocarray(NULL, (size_t)q->columns, sizeof *floats);
    read_codes(q, first, rows, codes, stride);
    for (int64_t r = 0; r < rows; r++, to += row) {
        const uint8_t *from = codes + (size_t)r * stride;
        if (dtype_in_blocks(dtype)) {
            pack_row(q, first + r, from, dtype, to);
            continue;
        }
        widen_row(q, first + r, from, floats);
        floats_to(to, dtype, floats, (size_t)q->columns);
    }
    free(floats);
    free(codes);
}

static void unpack_rows(const struct quantised *q, int64_t first, int64_t rows, enum dtype dtype,
                        char *to)
{
    const size_t row = dtype_bytes(dtype, q->columns);
#pragma omp parallel for schedule(dynamic) if (rows > TILE)
    for (int64_t i = 0; i < rows; i += TILE)
        unpack_tile(q, first + i, rows - i < TILE ? rows - i : TILE, dtype, to + (size_t)i * row);
}

void quantised_rows(const struct safetensor *t, int64_t first, int64_t rows, float *to)
{
    const int64_t columns = t->rank > 1 ? t->shape[t->rank - 1] : 1;
    if (t->quantised)
        unpack_rows(t->quantised, first, rows, DTYPE_F32, (char *)to);
    else
        floats_from(to, (const char *)t->data + dtype_bytes((enum dtype)t->dtype, first * columns),
                    (enum dtype)t->dtype, (size_t)(rows * columns));
}

bool quantised_unpack(const struct safetensor *t, void *to,
                      bool (*report)(void *self, uint64_t bytes), void *self)
{
    enum { STEP = 64 << 20 }; // bytes between two reports
    const struct quantised *q = t->quantised;
    const size_t row = dtype_bytes((enum dtype)t->dtype, q->columns);
    const int64_t step = row < STEP ? (int64_t)(STEP / row / TILE + 1) * TILE : TILE;
    for (int64_t r = 0; r < q->rows; r += step) {
        const int64_t rows = q->rows - r < step ? q->rows - r : step;
        unpack_rows(q, r, rows, (enum dtype)t->dtype, (char *)to + (size_t)r * row);
        if (report && !report(self, (uint64_t)rows * row)) return false;
    }
    return true;
}

void quantised_drop_pages(const struct safetensor *t)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < (t->quantised ? t->quantised->part_count : 1); i++) {
        const struct safetensor *part = t->quantised ? t->quantised->part[i] : t;
        const uintptr_t first = ((uintptr_t)part->data + page - 1) / page * page;
        const uintptr_t end = ((uintptr_t)part->data + part->bytes) / page * page;
        if (end > first) madvise((void *)first, end - first, MADV_DONTNEED);
    }
}

static bool same_bytes(const struct safetensor *a, const struct safetensor *b)
{
    return !strcmp(a->type, b->type) && a->bytes == b->bytes && !memcmp(a->data, b->data, a->bytes);
}

bool quantised_same(const struct safetensor *a, const struct safetensor *b)
{
    const struct quantised *x = a->quantised, *y = b->quantised;
    if (!x || !y) return !x && !y && same_bytes(a, b);
    bool same = x->part_count == y->part_count;
    for (int i = 0; same && i < x->part_count; i++) same = same_bytes(x->part[i], y->part[i]);
    return same;
}
