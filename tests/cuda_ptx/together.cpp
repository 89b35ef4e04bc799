// tests/cuda_ptx/together.cpp -- instructions that the lanes of a warp execute together: shuffles,
// bar.warp.sync, and tensor core products with ldmatrix, which loads their operands.
//
// The layout of fragments follows the PTX ISA ("Matrix Fragments for mma.m16n8k16 with floating
// point type", "Warp-level matrix load instruction: ldmatrix") element by element, independently of
// tests/cuda_host/tensor_cores.cpp.
#include "ptx.h"

namespace ptx
{
namespace
{

float widened(uint32_t two, unsigned upper)
{
    const uint32_t bits = upper ? two & 0xffff0000 : two << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// --- mma.m16n8k16 --------------------------------------------------------------------------------
// d = a b + c, the products summed in f32. Operands: d0..d3, a (4 registers), b (2), c0..c3.

struct matrices {
    float a[16][16], b[16][8], c[16][8];
};

// Stores element i = 0..7 of a lane's fragment of a.
void place_a(matrices *m, unsigned lane, unsigned i, float x)
{
    const unsigned group = lane >> 2, in_group = lane % 4;
    const unsigned row = i < 2 || (4 <= i && i < 6) ? group : group + 8;
    const unsigned column = in_group * 2 + (i & 1) + (i < 4 ? 0 : 8);
    m->a[row][column] = x;
}

// Stores element i = 0..3 of a lane's fragment of b.
void place_b(matrices *m, unsigned lane, unsigned i, float x)
{
    const unsigned group = lane >> 2, in_group = lane % 4;
    m->b[in_group * 2 + (i & 1) + (i < 2 ? 0 : 8)][group] = x;
}

// Returns element i = 0..3 of a lane's fragment of c and d.
float *place_c(matrices *m, unsigned lane, unsigned i)
{
    const unsigned group = lane >> 2, in_group = lane % 4;
    return &m->c[i < 2 ? group : group + 8][in_group * 2 + (i & 1)];
}

void product(warp &w, const instruction &i, uint32_t lanes)
{
    matrices m;
    for (unsigned l = 0; l < LANES; l++) {
        for (unsigned n = 0; n < 8; n++)
            place_a(&m, l, n, widened(w.at<uint32_t>(i.at[4 + n / 2])[l], n % 2));
        for (unsigned n = 0; n < 4; n++)
            place_b(&m, l, n, widened(w.at<uint32_t>(i.at[8 + n / 2])[l], n % 2));
        for (unsigned n = 0; n < 4; n++) *place_c(&m, l, n) = w.at<float>(i.at[10 + n])[l];
    }
    for (unsigned row = 0; row < 16; row++) {
        float sum[8] = {};
        for (unsigned k = 0; k < 16; k++)
            for (unsigned column = 0; column < 8; column++)
                sum[column] += m.a[row][k] * m.b[k][column];
        for (unsigned column = 0; column < 8; column++) m.c[row][column] += sum[column];
    }
    for (unsigned l = 0; l < LANES; l++)
        for (unsigned n = 0; n < 4; n++) w.at<float>(i.at[n])[l] = *place_c(&m, l, n);
    w.collectives++;
}

// --- ldmatrix.m8n8.x4 ----------------------------------------------------------------------------
// Lanes 0-7 give the addresses of the rows of matrix 0, lanes 8-15 those of matrix 1, and so on: 16
// bytes each. Lane l gets elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of each matrix;
// transposed, the same elements of column l / 4.

template <bool TRANSPOSED> void load_matrices(warp &w, const instruction &i, uint32_t lanes)
{
    uint16_t matrix[4][8][8];
    for (unsigned l = 0; l < LANES; l++)
        memcpy(matrix[l / 8][l % 8], shared_by_all(w, l, address_of(w, i.from, l), 16), 16);
    for (unsigned l = 0; l < LANES; l++)
        for (unsigned n = 0; n < 4; n++) {
            const unsigned line = l / 4, at = l % 4 * 2;
            const uint32_t low = TRANSPOSED ? matrix[n][at][line] : matrix[n][line][at];
            const uint32_t up = TRANSPOSED ? matrix[n][at + 1][line] : matrix[n][line][at + 1];
            w.at<uint32_t>(i.at[n])[l] = low | up << 16;
        }
    w.collectives++;
}

// --- shfl.sync -----------------------------------------------------------------------------------
// Operands: d, predicate (or none), a, b, c, members. In c, bits 0-4 are the last lane within a
// segment, bits 8-12 the segment mask.

enum shuffle { UP, DOWN, BUTTERFLY, INDEX };

template <shuffle HOW> void shuffled(warp &w, const instruction &i, uint32_t lanes)
{
    uint32_t got[LANES], inside = 0;
    for_lanes(lanes, [&](unsigned l) {
        const uint32_t b = w.at<uint32_t>(i.at[3])[l] & 31, c = w.at<uint32_t>(i.at[4])[l];
        const uint32_t segment = c >> 8 & 31, last = (l & segment) | (c & 31 & ~segment);
        const int from = HOW == UP          ? (int)l - (int)b
                         : HOW == DOWN      ? (int)(l + b)
                         : HOW == BUTTERFLY ? (int)(l ^ b)
                                            : (int)((l & segment) | (b & ~segment));
        const bool good = HOW == UP ? from >= (int)last : from <= (int)last;
        const unsigned lane = good ? (unsigned)from : l;
        inside |= (uint32_t)good << l;
        if (!(lanes >> lane & 1))
            found(w, l, "a shuffle", "it reads lane %u, which does not take part", lane);
        got[l] = w.at<uint32_t>(i.at[2])[lane];
    });
    for_lanes(lanes, [&](unsigned l) { w.at<uint32_t>(i.at[0])[l] = got[l]; });
    if (i.at[1]) {
        uint32_t *const p = w.at<uint32_t>(i.at[1]);
        *p = (*p & ~lanes) | (inside & lanes);
    }
    w.collectives++;
}

void warp_barrier(warp &w, const instruction &i, uint32_t lanes)
{
    if (lanes != ALL) stop("bar.warp.sync of some lanes is not supported");
    w.syncs++;
    clocks_meet(w);
}

bool decode_shuffle(reader *r, const operation &o, instruction *i)
{
    static const std::map<std::string, action> kinds = { { "up", shuffled<UP> },
                                                         { "down", shuffled<DOWN> },
                                                         { "bfly", shuffled<BUTTERFLY> },
                                                         { "idx", shuffled<INDEX> } };
    if (o.words.size() != 4 || o.words[1] != "sync" || o.words[3] != "b32") return false;
    const auto kind = kinds.find(o.words[2]);
    if (kind == kinds.end() || o.operands.size() != 5) return false;
    const size_t bar = o.operands[0].find('|');
    i->at[0] = operand(r, o.operands[0].substr(0, bar), 4);
    if (bar != std::string::npos) i->at[1] = operand(r, o.operands[0].substr(bar + 1), 0);
    for (unsigned n = 1; n < 4; n++) i->at[n + 1] = operand(r, o.operands[n], 4);
    i->members = operand(r, o.operands[4], 4);
    i->run = kind->second;
    return true;
}

void several(reader *r, instruction *i, unsigned from, const std::string &braces, unsigned count)
{
    const std::vector<std::string> all = elements(braces);
    if (all.size() != count) stop("%s does not have %u elements", braces.c_str(), count);
    for (unsigned n = 0; n < count; n++) i->at[from + n] = operand(r, all[n], 4);
}

bool decode_matrices(reader *r, const operation &o, instruction *i)
{
    std::string name;
    for (const std::string &word : o.words) name += (name.empty() ? "" : ".") + word;
    const bool straight = name == "ldmatrix.sync.aligned.m8n8.x4.shared.b16";
    i->whole_warp = true;
    if (straight || name == "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16") {
        several(r, i, 0, o.operands[0], 4);
        i->from = address(r, o.operands[1], SHARED);
        i->run = straight ? load_matrices<false> : load_matrices<true>;
        return true;
    }
    if (name != "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") return false;
    several(r, i, 0, o.operands[0], 4);
    several(r, i, 4, o.operands[1], 4);
    several(r, i, 8, o.operands[2], 2);
    several(r, i, 10, o.operands[3], 4);
    i->run = product;
    return true;
}
} // namespace

bool decode_together(reader *r, const operation &o, instruction *i)
{
    i->what = TOGETHER;
    if (o.words[0] == "shfl" && decode_shuffle(r, o, i)) return true;
    if (o.words[0] == "bar" && o.words.size() == 3 && o.words[1] == "warp") {
        i->members = operand(r, o.operands[0], 4);
        i->run = warp_barrier;
        return true;
    }
    if (decode_matrices(r, o, i)) return true;
    i->what = ALONE;
    i->whole_warp = false;
    return false;
}

} // namespace ptx
