// kernels/few_rows_ring.cu -- the products of few_rows.cu on GPUs with bulk copies (sm_90): the
// bytes under way lie in shared memory instead of registers. VLMSH_CUDA_FEW_ROWS=ring chooses it.
//
// One block stays on each multiprocessor. Its last warp, the producer, copies weights to a ring of
// slots; the other warps, the consumers, multiply. A slot holds a piece of a pair of weight rows: 4
// KB of each row, or 4096 elements in blocks. The producer fills the ring before the previous
// kernel ends (`early`), and is then ahead of the consumers by the whole ring: 32 to 160 KB on each
// multiprocessor are always under way, where bandwidth times latency asks for some 32 KB.
//
// The blocks take pairs in turn, so that their numbers of pairs differ by at most one, and the
// blocks end together. In a block, up to CONSUMERS pairs are multiplied at a time (a round), each
// by one warp; their pieces alternate in the ring, so a round's warps end together.
//
//   pieces of a round with pairs a, b, c:   a0 b0 c0 a1 b1 c1 ..   (0, 1 ..: along K)
//
// A consumer walks along K in the order of few_rows.cu, so a row has the same bits here and there,
// alone and beside other rows. Up to eight rows of x share what is copied; fewer if x and the
// smallest ring do not fit into shared memory together.
#include "kernels/bulk_cuda.h"
#include "kernels/few_rows_pairs_cuda.h"

static constexpr int CONSUMERS = 8;
static constexpr int RING_THREADS = (CONSUMERS + 1) * WARP, SLOTS_MOST = 32;
static constexpr size_t RING_MOST = 160 << 10, RING_LEAST = 32 << 10;

// Elements of a row in a piece, whole steps; their bytes are a multiple of 16 in every dtype.
template <typename T> static __host__ __device__ constexpr int64_t piece_of(void)
{
    return (reader<T>::NUMBERS > 1 ? 4 : 2) * step_of<T>();
}

// Bytes of k elements of a row.
template <typename T> static __host__ __device__ constexpr int64_t bytes_of(int64_t k)
{
    return k / reader<T>::NUMBERS * (int64_t)sizeof(T);
}

template <typename T> static __host__ __device__ constexpr int64_t slot_bytes(void)
{
    return ROWS * bytes_of<T>(piece_of<T>());
}

struct ring {
    unsigned char *slot; // [slots], slot_bytes() each
    uint64_t *full,
        *empty; // [slots]: phase i ends when the slot is filled, or read, for the ith time
    int slots;
    int64_t pairs;   // of this block
    int64_t pieces;  // of a row
    int64_t a_round; // pairs of a round; the last one may have fewer
};

// A piece's slot, and how often the slot was used before. (Kernels for GPUs without bulk copies are
// empty, and leave functions unused.)
struct turn {
    int slot;
    unsigned phase;
};

[[maybe_unused]] static __device__ inline void advance(struct turn *at, int pieces, int slots)
{
    for (at->slot += pieces; at->slot >= slots; at->slot -= slots) at->phase++;
}

[[maybe_unused]] static __device__ inline int64_t unit_of(int64_t pair)
{
    return blockIdx.x + pair * gridDim.x;
}

[[maybe_unused]] static __device__ inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// --- the producer --------------------------------------------------------------------------------

// The next piece to copy. Lane i knows the rows of pair i of the round.
template <typename T> struct producer {
    const T *row[ROWS];
    int64_t first; // pair of the round
    int64_t piece;
    int consumer;
    struct turn at;
};

template <typename T>
static __device__ void begin_round(struct producer<T> *next, const struct few_rows &p,
                                   const struct shape &s, const struct ring &r, int64_t first,
                                   int lane)
{
    const int64_t pair = first + lane;
    next->first = first;
    find_rows(next->row, p, lane < r.a_round && pair < r.pairs ? unit_of(pair) : s.units, s.units);
}

// Called by the lane that copies, with the rows of the piece's pair.
template <typename T>
static __device__ void copy_piece(const struct producer<T> &next, const T *const row[ROWS],
                                  const struct few_rows &p, const struct ring &r)
{
    const int slot = next.at.slot;
    const int64_t from = next.piece * piece_of<T>();
    const unsigned bytes = (unsigned)bytes_of<T>(least(piece_of<T>(), p.k - from));
    if (next.at.phase) bulk_wait(&r.empty[slot], next.at.phase - 1);
    bulk_expect(&r.full[slot], row[1] ? ROWS * bytes : bytes);
    UNROLL
    for (int i = 0; i < ROWS; i++)
        if (row[i])
            bulk_copy(r.slot + slot * slot_bytes<T>() + i * bytes_of<T>(piece_of<T>()),
                      row[i] + from / reader<T>::NUMBERS, bytes, &r.full[slot]);
}

// Copies up to `most` of the next pieces.
template <typename T>
static __device__ void produce(struct producer<T> *next, const struct few_rows &p,
                               const struct shape &s, const struct ring &r, int64_t most, int lane)
{
    for (; most > 0 && next->first < r.pairs; most--) {
        const T *row[ROWS];
        UNROLL
        for (int i = 0; i < ROWS; i++)
            row[i] = reinterpret_cast<const T *>(
                __shfl_sync(ALL_LANES, reinterpret_cast<uintptr_t>(next->row[i]), next->consumer));
        if (lane == 0) copy_piece<T>(*next, row, p, r);
        advance(&next->at, 1, r.slots);
        if (++next->consumer < least(r.a_round, r.pairs - next->first)) continue;
        next->consumer = 0;
        if (++next->piece < r.pieces) continue;
        next->piece = 0;
        begin_round(next, p, s, r, next->first + r.a_round, lane);
    }
}

// --- the consumers -------------------------------------------------------------------------------

// Like load_chunks, from a piece with `k` elements of each row.
template <typename T>
static __device__ void take_chunks(typename reader<T>::raw to[AHEAD][ROWS],
                                   const unsigned char *slot, bool both, int64_t from, int64_t k,
                                   int lane)
{
    UNROLL
    for (int a = 0; a < AHEAD; a++) {
        const int64_t i = from + (a * WARP + lane) * reader<T>::COUNT;
        UNROLL
        for (int r = 0; r < ROWS; r++) {
            const T *const row = reinterpret_cast<const T *>(slot + r * bytes_of<T>(piece_of<T>()));
            to[a][r] = {};
            if (i < k && (both || r == 0)) to[a][r] = reader<T>::staged(row, i);
        }
    }
}

// Multiplies the pairs that consumer `me` has in the rounds; x as stage_part lays it out.
template <typename T, int N>
static __device__ void consume(const struct few_rows &p, const struct shape &s,
                               const struct ring &r, const float *x, const float scale[N], int me,
                               int lane)
{
    struct turn at = { 0, 0 };
    advance(&at, me, r.slots);
    for (int64_t first = 0; me < least(r.a_round, r.pairs - first); first += r.a_round) {
        const int64_t unit = unit_of(first + me);
        const bool both = unit_row_of(p, unit, 1).row >= 0;
        typename reader<T>::raw w[AHEAD][ROWS];
        float sum[N][ROWS] = {}, mine[ROWS] = {};
        for (int64_t from = 0; from < p.k; from += piece_of<T>()) {
            const unsigned char *const slot = r.slot + at.slot * slot_bytes<T>();
            bulk_wait(&r.full[at.slot], at.phase);
            for (int64_t i = 0; i < least(piece_of<T>(), s.width - from); i += step_of<T>()) {
                take_chunks<T>(w, slot, both, i, least(piece_of<T>(), p.k - from), lane);
                multiply<T, N>(sum, w, x + from + i, s.width, lane);
            }
            __syncwarp(); // all lanes have read the slot
            if (lane == 0) bulk_arrive(&r.empty[at.slot]);
            advance(&at, (int)least(r.a_round, r.pairs - first), r.slots);
        }
        UNROLL
        for (int n = 0; n < N; n++)
            for (int i = 0; i < ROWS; i++) {
                const float all = times(warp_sum(sum[n][i]), scale[n]);
                mine[i] = lane == n ? all : mine[i];
            }
        if (lane < N && lane < s.count) finish(p, unit, s.from + lane, mine);
    }
}

// Copies N rows of x to shared memory by groups of THREADS threads, whose sums of squares have the
// order of `stage`. Called by all threads; scale[n] is row n's factor.
template <typename T, int N>
static __device__ void stage_rows(float scale[N], float *x, const struct few_rows &p,
                                  const struct shape &s, int warp, int lane)
{
    __shared__ float squares[N][WARPS];
    for (int n = warp / WARPS; n < N && warp < CONSUMERS; n += CONSUMERS / WARPS) {
        const float *from = n < s.count ? p.x + (s.from + n) * p.k : nullptr;
        const float part =
            warp_sum(stage_part<T>(x + n * s.width, from, p, s.width, (int)threadIdx.x % THREADS));
        if (lane == 0) squares[n][warp % WARPS] = part;
    }
    __syncthreads();
    UNROLL
    for (int n = 0; n < N; n++)
        scale[n] = row_scale(p, (squares[n][0] + squares[n][2]) + (squares[n][1] + squares[n][3]));
}

// Computes N rows of x together.
template <typename T, int N>
static __global__ void __launch_bounds__(RING_THREADS, 1)
    few_rows_ring_kernel(const __grid_constant__ struct few_rows p, const struct shape s,
                         const int slots)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    SHARED_MEMORY(unsigned char, memory);
    __shared__ uint64_t full[SLOTS_MOST], empty[SLOTS_MOST];
    float *const x = reinterpret_cast<float *>(memory + slots * slot_bytes<T>());
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const bool produces = warp == CONSUMERS;
    const int64_t pairs = (s.units - blockIdx.x + gridDim.x - 1) / gridDim.x;
    const int64_t rounds = (pairs + CONSUMERS - 1) / CONSUMERS;
    const struct ring r = { memory,
                            full,
                            empty,
                            slots,
                            pairs,
                            (p.k + piece_of<T>() - 1) / piece_of<T>(),
                            (pairs + rounds - 1) / rounds };
    struct producer<T> next = {
    };
    float scale[N];

    cuda_let_next_start();
    if (produces) {
        for (int i = 0; i < slots && lane == 0; i++) {
            bulk_barrier_init(&full[i], 1);
            bulk_barrier_init(&empty[i], 1);
        }
        bulk_barriers_ready();
        begin_round(&next, p, s, r, 0, lane);
        if (p.early) produce(&next, p, s, r, slots, lane);
    }
    cuda_wait_previous();
    if (produces && !p.early) produce(&next, p, s, r, slots, lane);
    stage_rows<T, N>(scale, x, p, s, warp, lane);
    if (produces)
        produce(&next, p, s, r, INT64_MAX, lane);
    else
        consume<T, N>(p, s, r, x, scale, warp, lane);
#endif
}

// Number of slots beside N rows of x; 0: the smallest ring does not fit.
template <typename T> static int slots_beside(int64_t n, int64_t width)
{
    const int64_t left = (int64_t)SHARED_MOST - n * width * (int64_t)sizeof(float);
    if (left < (int64_t)RING_LEAST) return 0;
    const int64_t slots = (left < (int64_t)RING_MOST ? left : (int64_t)RING_MOST) / slot_bytes<T>();
    return (int)(slots < SLOTS_MOST ? slots : SLOTS_MOST);
}

// Launches N rows with at most `most_slots` slots.
template <typename T, int N>
static int start(const struct few_rows *p, const struct shape *shape, int most_slots)
{
    const auto kernel = few_rows_ring_kernel<T, N>;
    const struct shape s = *shape;
    const int fit = slots_beside<T>(N, s.width), slots = fit < most_slots ? fit : most_slots;
    const size_t shared = (size_t)(slots * slot_bytes<T>() + N * s.width * (int64_t)sizeof(float));
    if (cuda_allow_shared("few_rows_ring_kernel", kernel, shared) < 0)
        return FUSED_NOT; // a GPU with less shared memory
    const int64_t most = cuda_processors();
    return LAUNCH_EARLY(kernel, (size_t)(s.units < most ? s.units : most), RING_THREADS, shared, *p,
                        s, slots);
}

// Computes as many rows together as fit. Several launches have the slots of the first one: it then
// needs the most shared memory, so that none of the others is refused after rows were added to y.
template <typename T> static int launch(const struct few_rows *p)
{
    struct shape s = { count_units(p), whole_steps<T>(p->k), 0, 0 };
    int64_t together = FEW_ROWS;
    while (together && !slots_beside<T>(together, s.width)) together /= 2;
    bool fits = together && bytes_of<T>(p->k) % 16 == 0;
    for (int i = 0; i < p->parts; i++) fits = fits && (uintptr_t)p->part[i].w % 16 == 0;
    const int slots = fits && p->n > together ? slots_beside<T>(together, s.width) : SLOTS_MOST;
    int status = fits ? 0 : FUSED_NOT;
    for (; s.from < p->n && !status; s.from += s.count) {
        s.count = p->n - s.from < together ? p->n - s.from : together;
        status = s.count > 4   ? start<T, 8>(p, &s, slots)
                 : s.count > 2 ? start<T, 4>(p, &s, slots)
                 : s.count > 1 ? start<T, 2>(p, &s, slots)
                               : start<T, 1>(p, &s, slots);
    }
    return status;
}

int few_rows_ring(const struct few_rows *p)
{
    return FOR_WEIGHTS(p->part[0].dtype, launch, p);
}
