// kernels/product.cu -- products for which cuBLASLt has no algorithm, and backward products of few
// rows: any width and alignment, operands in f32, f16 or bf16.
//
// A block of threads computes a tile of y and walks along K; shared memory holds parts of both
// operands as f32. It uses no tensor cores.
#include "kernels/matmul_cuda.h"
#include "kernels/pack_cuda.h"

static constexpr int TILE = 64, DEEP = 16, OWN = 4, ACROSS = TILE / OWN;
static constexpr int THREADS = ACROSS * ACROSS;

// Loads elements from..from + DEEP - 1 (along K) of vectors first..first + TILE - 1; writes 0 past
// the ends. Neighbouring threads read neighbouring elements.
static __device__ void load(float (*to)[TILE + 1], const struct lt_side &side, int64_t first,
                            int64_t rows, int64_t from, int64_t k)
{
    for (int i = (int)threadIdx.x; i < TILE * DEEP; i += THREADS) {
        const int row = side.transposed ? i % TILE : i / DEEP,
                  deep = side.transposed ? i / TILE : i % DEEP;
        const int64_t r = first + row, c = from + deep;
        const int64_t at = side.transposed ? c * side.line + r : r * side.line + c;
        to[deep][row] = r < rows && c < k ? number_at(side.data, at, side.dtype) : 0;
    }
}

static __device__ void put(const struct lt_product &p, int64_t row, int64_t column, float x)
{
    const int64_t at = row * p.row + column;
    if (p.addend) x += number_at(p.addend, at, p.y_dtype);
    if (p.bias) x += p.bias[column];
    if (p.gelu) x = x / (1 + expf(-1.5957691216f * (x + 0.044715f * x * x * x))); // as in gelu.cu
    put_number(p.y, at, x, p.y_dtype);
}

static __global__ void __launch_bounds__(THREADS) product_kernel(const struct lt_product p)
{
    __shared__ float a[DEEP][TILE + 1], b[DEEP][TILE + 1];
    const int64_t row = (int64_t)blockIdx.y * TILE, column = (int64_t)blockIdx.x * TILE;
    const int down = (int)threadIdx.x / ACROSS, across = (int)threadIdx.x % ACROSS;
    float sum[OWN][OWN] = {};
    for (int64_t from = 0; from < p.k; from += DEEP) {
        load(a, p.a, row, p.n, from, p.k);
        load(b, p.b, column, p.m, from, p.k);
        __syncthreads();
        for (int deep = 0; deep < DEEP; deep++) {
            UNROLL
            for (int i = 0; i < OWN; i++) {
                UNROLL
                for (int j = 0; j < OWN; j++)
                    sum[i][j] += a[deep][down + i * ACROSS] * b[deep][across + j * ACROSS];
            }
        }
        __syncthreads();
    }
    UNROLL
    for (int i = 0; i < OWN; i++) {
        UNROLL
        for (int j = 0; j < OWN; j++) {
            const int64_t r = row + down + i * ACROSS, c = column + across + j * ACROSS;
            if (r < p.n && c < p.m) put(p, r, c, sum[i][j]);
        }
    }
}

static struct lt_side with_line(struct lt_side side, int64_t rows, int64_t k)
{
    if (!side.line) side.line = side.transposed ? rows : k;
    return side;
}

// A grid has at most 65535 blocks in y, enough for four million rows.
int product_plain(const struct lt_product *all)
{
    struct lt_product p = *all;
    p.a = with_line(p.a, p.n, p.k);
    p.b = with_line(p.b, p.m, p.k);
    const dim3 grid((size_t)((p.m + TILE - 1) / TILE), (size_t)((p.n + TILE - 1) / TILE));
    return LAUNCH(product_kernel, grid, THREADS, 0, p);
}
