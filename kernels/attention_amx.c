// kernels/attention_amx.c -- attention of many rows with AMX tiles (kernels/amx.h).
//
// Makes the same pass over blocks of keys as kernels/attention.c, in products of 16 by 16 by 32
// bf16 elements. These products are so fast that the exponentials of the scores dominate, so the
// exponentials use as few instructions as bf16 accuracy allows:
//
//   s = q k (scale log2 e)    16 rows by 16 keys per tile; q is rounded after scaling
//   p = 2^(s - high)          relative error below 1e-4 (amx_power_of_two)
//   out += p v                p, rounded to bf16, overwrites s
//
// `high` is not the highest score: it rises only when a score exceeds it by more than LEEWAY. This
// is safe because f32 sums and bf16 represent large numbers as precisely as small ones. So `out`
// rarely needs rescaling, and the maximum across a vector's lanes is rarely needed.
//
// A row's bits depend on its own scores alone: blocks of keys begin at multiples of BLOCK, lane i
// of the sums covers keys i, i + 16, ..., and keys that the row does not see add p = 0.
#include "kernels/attention_amx.h"

#include "kernels/rotate.h"

#if defined(__AMX_BF16__)

#include <math.h>

enum {
    ROWS = 2 * AMX_SIDE, // rows computed together
    KEYS = 2 * AMX_SIDE, // keys computed together
    LEEWAY = 8,
    TILE_FLOATS = AMX_TILE / 4,
    // Maximum number of floats of packed keys and values, unless one head needs more.
    PACKED = 4 * 1024 * 1024
};

static const float log2_e = 1.44269504f;

// Keys and values of some heads from `head` on, packed once for all tasks. A "tile" is AMX_TILE
// bytes.
struct packed {
    int64_t steps, columns; // tiles per key, and per value
    int64_t head, heads;    // heads packed at a time: as many as fit into PACKED
    int64_t blocks;         // blocks per head
    int64_t block;          // floats per block
    float *k;          // per block: keys [BLOCK / 16][steps], values [columns][BLOCK / 32] tiles
    bool *finite;      // [heads][blocks]: are the block's values finite?
    enum dtype values; // dtype of the values before packing
    const struct attention_packed *by; // extra parameters of the call, or NULL
};

struct block {
    float *k, *v;
    bool *finite;
};

// Scratch of a task.
struct tiles {
    const struct packed *p;
    int64_t columns;       // p->columns
    float *q;              // [task_rows / 16][steps] tiles
    float *seen;           // a block's values; values that the current row does not see are 0
    float *scores;         // [2][BLOCK / 16] tiles; p, as bf16, overwrites every second tile
    float *out;            // [task_rows / 16][columns] tiles
    float *high;           // [task_rows]
    float *sum;            // [task_rows][16]
    float *one;            // [2][columns] tiles: ROWS rows, of which add_seen uses one
    float *rotated;        // [16][width], then a spare vector
    uint16_t *row;         // [value_width] bf16 elements, with AMX_STEP spare elements on each side
    int32_t *first, *last; // [task_rows] range of keys that each row sees
};

static int64_t key_floats(const struct packed *p)
{
    return BLOCK / AMX_SIDE * p->steps * TILE_FLOATS;
}

static int64_t value_floats(const struct packed *p)
{
    return BLOCK / AMX_STEP * p->columns * TILE_FLOATS;
}

static struct block block_at(const struct packed *p, int64_t head, int64_t j)
{
    const int64_t number = (head - p->head) * p->blocks + j / BLOCK;
    float *k = p->k + number * p->block;
    return (struct block){ k, k + key_floats(p), p->finite + number };
}

// Clamps n to 0..most.
static int64_t within(int64_t n, int64_t most)
{
    return n < 0 ? 0 : n < most ? n : most;
}

// Lays out a task's scratch; returns its size in floats.
static size_t tiles_at(struct tiles *t, const struct call *c, const struct packed *p, float *memory)
{
    *t = (struct tiles){ .p = p, .columns = p->columns };
    float *ends = NULL, *row = NULL;
    const struct {
        float **part;
        int64_t size;
    } parts[] = {
        { &t->q, c->task_rows / AMX_SIDE * p->steps * TILE_FLOATS },
        { &t->seen, value_floats(p) },
        { &t->scores, ROWS * BLOCK },
        { &t->out, c->task_rows * t->columns * AMX_SIDE },
        { &t->high, c->task_rows },
        { &t->sum, c->task_rows * VEC },
        { &t->one, ROWS * t->columns * AMX_SIDE },
        { &t->rotated, AMX_SIDE * c->width + VEC },
        { &row, (p->columns * AMX_SIDE + 2 * AMX_STEP) / 2 },
        { &ends, 2 * c->task_rows },
    };
    size_t size = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (memory) *parts[i].part = memory + size;
        size += (size_t)(parts[i].size + 15) / 16 * 16;
    }
    t->row = (void *)row;
    t->first = (void *)ends;
    t->last = memory ? t->first + c->task_rows : NULL;
    return size;
}

// --- packing -------------------------------------------------------------------------------------

// Prefetches one row of a head into the L2 cache. The rows of a head may be a page or more apart;
// then the hardware does not prefetch them.
VEC_INLINE void prefetch(const void *row, size_t size)
{
    enum { LINE = 64 };
    for (size_t i = 0; i < size + LINE - 1; i += LINE)
        __builtin_prefetch((const char *)row + i, 0, 2);
}

// Returns a token's head `x`, or a rotated copy in `buffer` if the call rotates heads.
static const float *rotated_head(const struct call *c, const struct packed *p, const float *x,
                                 int64_t token, float *buffer)
{
    const int64_t half = c->width / 2;
    if (!p->by || !p->by->cos) return x;
    const float *cos = p->by->cos + token * half, *sin = p->by->sin + token * half;
    if (p->by->adjacent)
        rotate_adjacent(buffer, x, cos, sin, half);
    else
        rotate_halves(buffer, x, cos, sin, half);
    return buffer;
}

// Packs the task's queries, scaled. Prefetches rows, because in memory a token's heads of the group
// are adjacent, but far from those of the next token.
static void pack_queries(const struct call *c, const struct task *t, const struct tiles *m)
{
    enum { AHEAD = 16 };
    const vf scale = vf_set(c->scale * log2_e);
    const size_t size = (size_t)c->width * sizeof *c->q;
    for (int64_t r = 0; r < c->task_rows; r++) {
        if (r + AHEAD < t->rows) prefetch(query_at(c, t, r + AHEAD), size);
        float *to = m->q + r / AMX_SIDE * m->p->steps * TILE_FLOATS + r % AMX_SIDE * VEC;
        const float *head = r < t->rows ? rotated_head(c, m->p, query_at(c, t, r),
                                                       t->from + r / c->group, m->rotated)
                                        : c->q;
        for (int64_t s = 0; s < m->p->steps; s++, to += TILE_FLOATS) {
            const int64_t e = s * AMX_STEP, left = r < t->rows ? c->width - e : 0;
            const int64_t a = left < VEC ? left : VEC, b = left - a < VEC ? left - a : VEC;
            const float *q = r < t->rows ? head + e : head;
            vf_store(to, amx_narrow(vf_load_part_n(q, a) * scale,
                                    b ? vf_load_part_n(q + VEC, b) * scale : vf_set(0)));
        }
    }
}

// True if a tile contains an infinity or NaN.
static bool has_nonfinite(const float *tile, int64_t floats)
{
    const __m512i most = _mm512_set1_epi16(0x7f80);
    __mmask32 found = 0;
    for (int64_t i = 0; i < floats; i += VEC) {
        const __m512i x = _mm512_and_si512((__m512i)vf_load(tile + i), most);
        found |= _mm512_cmpeq_epi16_mask(x, most);
    }
    return found != 0;
}

// Prefetches up to 16 of n rows, from row i on.
static void prefetch_rows(const struct amx_source *s, int64_t i, int64_t n, size_t size)
{
    for (const int64_t end = i + within(n - i, AMX_SIDE); i < end; i++)
        prefetch((const char *)s->data + (size_t)i * s->row_bytes, size);
}

// Rotates up to 16 keys, from key `token` on, into `buffer`; returns `buffer` as a source to pack.
static struct amx_source rotated_keys(const struct call *c, const struct packed *p, int64_t head,
                                      int64_t token, float *buffer)
{
    const int64_t end = token + within(c->keys - token, AMX_SIDE);
    const float *k = (const float *)c->k + head * c->width;
    for (int64_t i = token; i < end; i++)
        rotated_head(c, p, k + i * key_step(c), i, buffer + (i - token) * c->width);
    return (struct amx_source){ buffer, (size_t)c->width * sizeof *buffer, DTYPE_F32, false };
}

// Packs a block of a head's keys and values, from key j on; pads it with 0.
static void pack_block(const struct call *c, const struct packed *p, int64_t head, int64_t j,
                       float *buffer)
{
    const int64_t left = c->keys - j, n = left < BLOCK ? left : BLOCK;
    const size_t size = dtype_size(c->dtype), value_size = dtype_size(p->values);
    const bool rotates = p->by && p->by->cos;
    const struct amx_source k = { .data =
                                      numbers_at(c->k, j * key_step(c) + head * c->width, c->dtype),
                                  .row_bytes = (size_t)key_step(c) * size,
                                  .dtype = c->dtype };
    const struct amx_source v = { .data = numbers_at(
                                      c->v, j * value_step(c) + head * c->value_width, p->values),
                                  .row_bytes = (size_t)value_step(c) * value_size,
                                  .dtype = p->values,
                                  .transposed = true };
    const struct block block = block_at(p, head, j);
    float *to = block.k;
    for (int64_t i = 0; i < BLOCK; i += AMX_SIDE) {
        prefetch_rows(&k, i + AMX_SIDE, n, (size_t)c->width * size);
        prefetch_rows(&v, i, n, (size_t)c->value_width * value_size);
        const struct amx_source rows = rotates ? rotated_keys(c, p, head, j + i, buffer) : k;
        for (int64_t e = 0; e < p->steps * AMX_STEP; e += AMX_STEP, to += TILE_FLOATS)
            amx_pack_pairs(to, &rows, rotates ? 0 : i, within(n - i, AMX_SIDE), e,
                           within(c->width - e, AMX_STEP));
    }
    to = block.v;
    for (int64_t e = 0; e < p->columns * AMX_SIDE; e += AMX_SIDE)
        for (int64_t i = 0; i < BLOCK; i += AMX_STEP, to += TILE_FLOATS)
            amx_pack_pairs(to, &v, e, within(c->value_width - e, AMX_SIDE), i,
                           within(n - i, AMX_STEP));
    *block.finite = !has_nonfinite(block.v, to - block.v);
}

// --- a block of keys -----------------------------------------------------------------------------

// The keys of a block that ROWS rows see: row i sees from[i]..to[i], and lowest..end covers all
// these ranges; lowest and end are multiples of KEYS.
struct sight {
    int64_t lowest, end, from[ROWS], to[ROWS];
};

static bool sees(const struct tiles *m, int64_t r, int64_t j, struct sight *s)
{
    s->lowest = BLOCK, s->end = 0;
    for (int64_t i = 0; i < ROWS; i++) {
        const int64_t a = m->first[r + i] - j, b = m->last[r + i] - j;
        s->from[i] = a > 0 ? a : 0;
        s->to[i] = b < BLOCK ? b : BLOCK;
        if (s->from[i] >= s->to[i]) continue;
        s->lowest = s->from[i] < s->lowest ? s->from[i] : s->lowest;
        s->end = s->to[i] > s->end ? s->to[i] : s->end;
    }
    s->lowest = s->lowest / KEYS * KEYS;
    s->end = (s->end + KEYS - 1) / KEYS * KEYS;
    return s->lowest < s->end;
}

// Computes the scores of ROWS rows for the visible keys of the block, four tiles at a time: tiles 0
// and 1 hold the upper rows, 2 and 3 the lower rows.
static void put_scores(const struct tiles *m, const float *keys, int64_t r, const struct sight *s)
{
    const int64_t line = m->p->steps * TILE_FLOATS, below = BLOCK / AMX_SIDE * TILE_FLOATS;
    const float *q = m->q + r / AMX_SIDE * line;
    for (int64_t i = s->lowest; i < s->end; i += KEYS) {
        const float *k = keys + i / AMX_SIDE * line;
        float *to = m->scores + i / AMX_SIDE * TILE_FLOATS;
        amx_sums_zero(2, 2);
        for (int64_t e = 0; e < line; e += TILE_FLOATS) {
            _tile_loadd(4, q + e, 64);
            _tile_loadd(5, q + line + e, 64);
            _tile_loadd(6, k + e, 64);
            _tile_loadd(7, k + line + e, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        amx_sums_store(to, below, TILE_FLOATS, 2, 2);
    }
}

// Sets row i's scores in lowest..end to -infinity, except those in from[i]..to[i].
static void hide(float *scores, const struct sight *s, int64_t i)
{
    for (int64_t k = s->lowest; k < s->end; k += AMX_SIDE) {
        const int64_t from = s->from[i] - k, to = s->to[i] - k;
        const uint32_t below = from <= 0 ? 0 : from < AMX_SIDE ? (1U << from) - 1 : 0xffff;
        const uint32_t above = to <= 0 ? 0xffff : to < AMX_SIDE ? 0xffffU << to : 0;
        if (!(below | above)) continue;
        _mm512_mask_storeu_ps(scores + k * AMX_SIDE, (__mmask16)(below | above),
                              _mm512_set1_ps(-INFINITY));
    }
}

// Adds a row's powers of two to sum[VEC], and replaces the scores with them, rounded to bf16.
// Returns the factor by which the caller must multiply the row's previous output: 1 unless *high
// rises.
VEC_INLINE float exp_row(float *scores, int64_t lowest, int64_t end, float *high, float *sum)
{
    vf top = vf_load(scores + lowest * AMX_SIDE), total = vf_load(sum);
    for (int64_t k = lowest + AMX_SIDE; k < end; k += AMX_SIDE)
        top = (vf)_mm512_max_ps((__m512)vf_load(scores + k * AMX_SIDE), (__m512)top);
    float fade = 1;
    if (_mm512_cmp_ps_mask((__m512)top, _mm512_set1_ps(*high + LEEWAY), _CMP_GT_OQ)) {
        const float highest = vf_highest(top);
        fade = amx_power_of_two(vf_set(*high - highest))[0];
        *high = highest;
        total *= vf_set(fade);
    }
    // Subtracts 0 while all scores are -infinity, because -infinity minus -infinity is NaN.
    const vf base = vf_set(*high == -INFINITY ? 0 : *high);
    for (int64_t k = lowest; k < end; k += KEYS) {
        float *at = scores + k * AMX_SIDE;
        const vf a = amx_power_of_two(vf_load(at) - base);
        const vf b = amx_power_of_two(vf_load(at + TILE_FLOATS) - base);
        total += a + b;
        vf_store(at, amx_narrow(a, b));
    }
    vf_store(sum, total);
    return fade;
}

static void exp_rows(const struct tiles *m, int64_t r, const struct sight *s)
{
    for (int64_t i = 0; i < ROWS; i++) {
        float *scores = m->scores + i / AMX_SIDE * (BLOCK * AMX_SIDE) + i % AMX_SIDE * VEC;
        if (s->from[i] > s->lowest || s->to[i] < s->end) hide(scores, s, i);
        const float fade =
            exp_row(scores, s->lowest, s->end, m->high + r + i, m->sum + (r + i) * VEC);
        float *out = m->out + (r + i) / AMX_SIDE * m->columns * TILE_FLOATS + i % AMX_SIDE * VEC;
        for (int64_t e = 0; fade != 1 && e < m->columns; e++)
            vf_store(out + e * TILE_FLOATS, vf_load(out + e * TILE_FLOATS) * vf_set(fade));
    }
}

// Adds p times the block's values `v` to two tiles of `out`, one above the other; with `two`, also
// to their right neighbours.
VEC_INLINE void add_columns(const struct tiles *m, const float *v, float *out,
                            const struct sight *s, const bool two)
{
    const int64_t next = BLOCK / AMX_STEP * TILE_FLOATS, below = m->columns * TILE_FLOATS;
    amx_sums_load(out, below, TILE_FLOATS, 2, two ? 2 : 1);
    for (int64_t k = s->lowest; k < s->end; k += AMX_STEP) {
        const float *p = m->scores + k * AMX_SIDE, *from = v + k / AMX_STEP * TILE_FLOATS;
        _tile_loadd(4, p, 64);
        _tile_loadd(5, p + BLOCK * AMX_SIDE, 64);
        _tile_loadd(6, from, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(2, 5, 6);
        if (!two) continue;
        _tile_loadd(7, from + next, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
    }
    amx_sums_store(out, below, TILE_FLOATS, 2, two ? 2 : 1);
}

// Adds p times the block's values `v` to `out`: [2][columns] tiles of ROWS rows.
static void add_values(const struct tiles *m, const float *v, float *out, const struct sight *s)
{
    const int64_t column = BLOCK / AMX_STEP * TILE_FLOATS;
    for (int64_t e = 0; e < m->columns; e += 2, v += 2 * column, out += 2 * TILE_FLOATS)
        if (e + 1 < m->columns)
            add_columns(m, v, out, s, true);
        else
            add_columns(m, v, out, s, false);
}

// Copies the block's values to m->seen, with 0 outside from..to.
static void copy_seen(const struct tiles *m, const float *v, int64_t from, int64_t to)
{
    float *seen = m->seen;
    for (int64_t i = 0; i < m->columns * (BLOCK / AMX_STEP) * AMX_SIDE;
         i++, v += VEC, seen += VEC) {
        const int64_t key = 2 * (i % (BLOCK / 2));
        const uint32_t first = key >= from && key < to ? 0xffffU : 0;
        const uint32_t second = key + 1 >= from && key + 1 < to ? 0xffff0000U : 0;
        vf_store(seen, (vf)((vu)vf_load(v) & (first | second)));
    }
}

// Replaces add_values if the block holds infinities or NaNs: multiplies each row with its visible
// values only, because unseen values have weight 0, and 0 times infinity is NaN.
static void add_seen(const struct tiles *m, const float *v, float *out, const struct sight *s)
{
    for (int64_t i = 0; i < ROWS; i++) {
        if (s->from[i] >= s->to[i]) continue;
        memcpy(m->one, out, (size_t)(2 * m->columns) * AMX_TILE);
        copy_seen(m, v, s->from[i], s->to[i]);
        add_values(m, m->seen, m->one, s);
        const int64_t at = i / AMX_SIDE * m->columns * TILE_FLOATS + i % AMX_SIDE * VEC;
        for (int64_t e = 0; e < m->columns; e++)
            vf_store(out + at + e * TILE_FLOATS, vf_load(m->one + at + e * TILE_FLOATS));
    }
}

// --- a task --------------------------------------------------------------------------------------

// Stores row r's head, as bf16, in the packed output by->to.
static void pack_row(const struct call *c, const struct task *t, const struct tiles *m, int64_t r,
                     const float *out, vf share)
{
    const struct amx_rows *to = &m->p->by->to;
    const int64_t token = t->from + r / c->group, n = c->value_width;
    const int64_t from = (t->head * c->group + r % c->group) * n, end = from + n;
    uint16_t *row = m->row + AMX_STEP; // loads may read AMX_STEP elements before and after the head
    for (int64_t e = 0; e < n; e += VEC, out += TILE_FLOATS)
        _mm256_storeu_si256((void *)(row + e),
                            (__m256i)_mm512_cvtneps_pbh((__m512)(vf_load(out) * share)));
    for (int64_t k = from / AMX_STEP * AMX_STEP; k < end; k += AMX_STEP) {
        const uint32_t before = from > k ? (1U << (from - k)) - 1 : 0;
        const uint32_t behind = end - k < AMX_STEP ? ~0U << (end - k) : 0;
        char *line = amx_rows_tile(to, token / AMX_SIDE, k) + token % AMX_SIDE * 64;
        _mm512_mask_storeu_epi16(line, ~(before | behind), _mm512_loadu_si512(row + (k - from)));
    }
}

// Writes row r of y or of the packed output, and its probabilities if requested.
static void row_done(const struct call *c, struct task *t, const struct tiles *m, int64_t r)
{
    const float sum = vf_sum(vf_load(m->sum + r * VEC));
    const vf share = vf_set(sum != sum ? sum : sum > 0 ? 1 / sum : 0); // NaN stays visible
    const float *out = m->out + r / AMX_SIDE * m->columns * TILE_FLOATS + r % AMX_SIDE * VEC;
    if (m->p->by) {
        pack_row(c, t, m, r, out, share);
        return;
    }
    float *y = c->y + row_at(c, t, r) * c->value_width;
    for (int64_t e = 0; e < c->value_width; e += VEC, out += TILE_FLOATS) {
        const int64_t some = c->value_width - e < VEC ? c->value_width - e : VEC;
        vf_store_part_n(y + e, vf_load(out) * share, some);
    }
    if (c->probs) VEC_AS(c->dtype, write_probs, c, t, r);
}

static void run_task(const struct call *c, const struct packed *p, int64_t number, float *scratch)
{
    // Under a causal mask the last tokens see the most keys, so their tasks start first.
    const int64_t parts = count_parts(c), part = parts - 1 - number % parts;
    struct task t = task_at(c, p->head + number / parts, part);
    struct tiles m;
    struct sight sight;
    int64_t first, last;
    tiles_at(&m, c, p, scratch);
    find_seen(c, &t, m.first, m.last, &first, &last);
    pack_queries(c, &t, &m);
    memset(m.out, 0, (size_t)(c->task_rows * m.columns * AMX_SIDE) * sizeof *m.out);
    memset(m.sum, 0, (size_t)(c->task_rows * VEC) * sizeof *m.sum);
    for (int64_t r = 0; r < c->task_rows; r++) m.high[r] = -INFINITY;
    for (int64_t j = first / BLOCK * BLOCK; j < last; j += BLOCK) {
        const struct block block = block_at(p, t.head, j);
        for (int64_t r = 0; r < t.rows; r += ROWS) {
            if (!sees(&m, r, j, &sight)) continue;
            float *out = m.out + r / AMX_SIDE * m.columns * TILE_FLOATS;
            put_scores(&m, block.k, r, &sight);
            exp_rows(&m, r, &sight);
            if (*block.finite)
                add_values(&m, block.v, out, &sight);
            else
                add_seen(&m, block.v, out, &sight);
        }
    }
    for (int64_t r = 0; r < t.rows; r++) row_done(c, &t, &m, r);
}

// --- the call ------------------------------------------------------------------------------------

// Called by every thread of the OpenMP team.
static void run_heads(const struct call *c, struct packed p, float *scratch)
{
    struct tiles m;
    tiles_at(&m, c, &p, scratch);
    amx_open();
    for (; p.head < c->kv_heads; p.head += p.heads) {
        if (c->kv_heads - p.head < p.heads) p.heads = c->kv_heads - p.head;
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < p.heads * p.blocks; i++)
            pack_block(c, &p, p.head + i % p.heads, i / p.heads * BLOCK, m.rotated);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < p.heads * count_parts(c); i++) run_task(c, &p, i, scratch);
    }
    amx_close();
}

int KERNEL(attention_tiles)(struct call *c, const struct attention_packed *by)
{
    struct packed p = { .steps = (c->width + AMX_STEP - 1) / AMX_STEP,
                        .columns = (c->value_width + AMX_SIDE - 1) / AMX_SIDE,
                        .blocks = (c->keys + BLOCK - 1) / BLOCK,
                        .values = by ? by->values : c->dtype,
                        .by = by };
    struct tiles m;
    c->pairs = true; // scores are rounded, so write_probs recomputes maximum and sum
    divide(c, ROWS);
    p.block = key_floats(&p) + value_floats(&p);
    p.heads = p.blocks ? PACKED / (p.blocks * p.block) : c->kv_heads;
    p.heads = p.heads < 1 ? 1 : p.heads < c->kv_heads ? p.heads : c->kv_heads;
    const int64_t numbers = p.heads * p.blocks * p.block, flags = p.heads * p.blocks;
    const size_t each = tiles_at(&m, c, &p, NULL);
    const size_t threads = (size_t)omp_get_max_threads();
    p.k = cpu_scratch(((size_t)numbers + threads * each) * sizeof *p.k + (size_t)flags);
    if (!p.k) return -1;
    float *scratch = p.k + numbers;
    p.finite = (void *)(scratch + threads * each);
#pragma omp parallel if (vec_worth_threads(call_steps(c, c->keys)))
    run_heads(c, p, scratch + each * (size_t)omp_get_thread_num());
    return 0;
}

#endif
