// tests/cuda_host/tensor_cores.cpp -- matrix products of a warp: each is computed once, from the
// fragments of all lanes, in the layout that the PTX ISA gives.
#include "tensor_cores.h"

#include <stdio.h>
#include <stdlib.h>

#include <vector>

#include "cuda_runtime.h"

namespace
{

enum { WARP = 32, SIDE = 8 };

// Returns bf16 number i (0 or 1) of a register as f32.
float bf16_of(unsigned two, unsigned i)
{
    return __uint_as_float(i ? two & 0xffff0000 : two << 16);
}

// A lane's input to a product.
struct operands {
    unsigned a[4], b[2];
};

struct eight {
    uint16_t number[SIDE];
};

void check_aligned(const void *p, const char *what)
{
    if ((uintptr_t)p % 16 == 0) return;
    fprintf(stderr, "a kernel's %s is not aligned to 16 bytes: %p\n", what, p);
    abort();
}

// Gathers the rows that the lanes name.
void make_rows(const void *all, void *made)
{
    memcpy(made, all, WARP * sizeof(eight));
}

const eight *rows_of_all(const uint16_t *row)
{
    check_aligned(row, "row of a tile");
    return static_cast<const eight *>(cuda_host_collective(row, sizeof(eight), make_rows));
}

struct product {
    float sum[16][8];
};

// Computes a[16,16] b[16,8], gathered from the lanes' fragments.
void make_product(const void *all, void *made)
{
    const operands *lanes = static_cast<const operands *>(all);
    product *p = static_cast<product *>(made);
    float a[16][16], b[16][8];
    for (unsigned lane = 0; lane < WARP; lane++)
        for (unsigned i = 0; i < 8; i++) {
            const unsigned g = lane / 4, t = lane % 4 * 2 + i % 2, r = i / 2;
            a[g + r % 2 * 8][t + r / 2 * 8] = bf16_of(lanes[lane].a[r], i % 2);
            if (r < 2) b[t + r * 8][g] = bf16_of(lanes[lane].b[r], i % 2);
        }
    memset(p, 0, sizeof *p);
    for (unsigned row = 0; row < 16; row++)
        for (unsigned k = 0; k < 16; k++)
            for (unsigned column = 0; column < 8; column++)
                p->sum[row][column] += a[row][k] * b[k][column];
}

struct copy {
    void *to;
    const void *from;
};

// Pending copies of one thread.
struct copies {
    unsigned block; // block in which the thread runs
    std::vector<copy> waiting;
};

copies &mine(void)
{
    static std::vector<copies> &all = *new std::vector<copies>();
    const size_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    if (all.size() <= thread) all.resize(thread + 1);
    copies &own = all[thread];
    if (own.block != cuda_host_block()) own.waiting.clear(); // left by an earlier block
    own.block = cuda_host_block();
    return own;
}
} // namespace

void multiply(float c[4], const unsigned a[4], const unsigned b[2])
{
    operands own;
    memcpy(own.a, a, sizeof own.a);
    memcpy(own.b, b, sizeof own.b);
    const product *p =
        static_cast<const product *>(cuda_host_collective(&own, sizeof own, make_product));
    const unsigned lane = cuda_host_lane();
    for (unsigned i = 0; i < 4; i++) c[i] += p->sum[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
}

void read_four(unsigned r[4], const uint16_t *row)
{
    const eight *rows = rows_of_all(row);
    const unsigned lane = cuda_host_lane(), at = lane % 4 * 2;
    for (unsigned i = 0; i < 4; i++) {
        const eight &from = rows[i * SIDE + lane / 4];
        r[i] = from.number[at] | (unsigned)from.number[at + 1] << 16;
    }
}

void read_four_transposed(unsigned r[4], const uint16_t *row)
{
    const eight *rows = rows_of_all(row);
    const unsigned lane = cuda_host_lane(), at = lane % 4 * 2;
    for (unsigned i = 0; i < 4; i++) {
        const eight *from = rows + i * SIDE + at;
        r[i] = from[0].number[lane / 4] | (unsigned)from[1].number[lane / 4] << 16;
    }
}

void fetch(void *to, const void *from)
{
    check_aligned(to, "destination of a copy");
    check_aligned(from, "source of a copy");
    mine().waiting.push_back({ to, from });
}

void fetch_wait(void)
{
    copies &own = mine();
    for (const copy &c : own.waiting) memcpy(c.to, c.from, 16);
    own.waiting.clear();
}
