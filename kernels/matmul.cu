// kernels/matmul.cu -- y[N,M] = x[N,K] w[M,K]^T + bias[M], and its gradients.
//
// Few rows read the weights directly (few_rows.cu, gemv.cu). Many rows use cuBLASLt (lt.cu): with
// MATMUL_BF16 both operands are rounded to bf16, or x to f16 for f16 weights, and their products
// are summed in f32; with MATMUL_F32 weights are widened to f32, some rows at a time. Weights in
// blocks are widened to either dtype, some rows at a time too. Scratch holds rounded and widened
// operands. product.cu computes products that cuBLASLt refuses.
//
// In the backward pass f16 weights are rounded to bf16 too, because gradients can exceed the range
// of f16.
#include "kernels/columns_cuda.h"
#include "kernels/matmul_cuda.h"
#include "kernels/pack_cuda.h"

template <bool HALF>
static __global__ void narrow_kernel(uint16_t *y, const void *x, int64_t n, enum dtype dtype)
{
    FOR_EACH(i, n) y[i] = to_short<HALF>(number_at(x, i, dtype));
}

// Like narrow_kernel, for f32, four elements at a time.
template <bool HALF>
static __global__ void narrow4_kernel(struct four_shorts *y, const float4 *x, int64_t n)
{
    cuda_let_next_start();
    cuda_wait_previous();
    FOR_EACH(i, n) y[i] = narrow4<HALF>(x[i]);
}

static __global__ void widen_numbers_kernel(float *y, const void *x, int64_t n, enum dtype dtype)
{
    FOR_EACH(i, n) y[i] = number_at(x, i, dtype);
}

template <bool HALF> static int narrow(uint16_t *y, const void *x, int64_t n, enum dtype from)
{
    if (n && from == DTYPE_F32 && n % 4 == 0 && (uintptr_t)x % 16 == 0)
        return LAUNCH_EARLY(narrow4_kernel<HALF>, blocks_for(n / 4, EACH), EACH, 0,
                            reinterpret_cast<struct four_shorts *>(y),
                            static_cast<const float4 *>(x), n / 4);
    return n ? LAUNCH(narrow_kernel<HALF>, blocks_for(n, EACH), EACH, 0, y, x, n, from) : 0;
}

int matmul_narrow(uint16_t *y, enum dtype to, const void *x, int64_t n, enum dtype from)
{
    return to == DTYPE_F16 ? narrow<true>(y, x, n, from) : narrow<false>(y, x, n, from);
}

// Computes a product of the backward pass. Each of few rows must have the same bits as if computed
// alone, which cuBLASLt does not guarantee.
static int multiply_back(const struct lt_product *p)
{
    return p->n <= FEW_ROWS ? product_plain(p) : lt_multiply(p);
}

// Multiplies both operands, rounded to `dtype`; reads b in place if it has that dtype.
static int multiply_rounded(struct lt_product p, enum dtype dtype)
{
    const int64_t a = p.n * p.k, b = p.b.dtype == dtype ? 0 : p.m * p.k;
    char *scratch = static_cast<char *>(cuda_scratch((size_t)(a + b) * sizeof(uint16_t) + 512));
    if (!scratch) return -1;
    uint16_t *left = scratch_take<uint16_t>(&scratch, a);
    if (matmul_narrow(left, dtype, p.a.data, a, p.a.dtype) < 0) return -1;
    p.a.data = left;
    if (b) {
        uint16_t *right = scratch_take<uint16_t>(&scratch, b);
        if (matmul_narrow(right, dtype, p.b.data, b, p.b.dtype) < 0) return -1;
        p.b.data = right;
    }
    p.a.dtype = p.b.dtype = dtype;
    return multiply_back(&p); // also for forward calls, which have many rows
}

// Rows of k elements to widen at a time: a multiple of 64 if above 64, so that bias and y have the
// same alignment in every block of rows as in the first.
static int64_t block_rows(int64_t k)
{
    const int64_t rows = k < CUDA_WIDENED ? CUDA_WIDENED / k : 1;
    return rows > 64 ? rows / 64 * 64 : rows;
}

// A product whose operand b is widened part by part. `a`: operand a in `dtype`; `b`: scratch for a
// part of operand b.
struct widened {
    const void *a;
    void *b;
    enum dtype dtype;
};

static int widened_begin(struct widened *w, const struct lt_product *p, enum dtype dtype,
                         int64_t most)
{
    const int64_t a = dtype == DTYPE_F32 ? 0 : p->n * p->k;
    char *scratch = static_cast<char *>(
        cuda_scratch((size_t)a * sizeof(uint16_t) + 512 + (size_t)most * dtype_size(dtype)));
    if (!scratch) return -1;
    uint16_t *rounded = scratch_take<uint16_t>(&scratch, a);
    *w = { a ? rounded : p->a.data, scratch, dtype };
    return a ? matmul_narrow(rounded, dtype, p->a.data, a, p->a.dtype) : 0;
}

// Widens n elements of b, from element `from` on.
static int widen_part(const struct widened *w, const struct lt_side *b, int64_t from, int64_t n)
{
    const char *numbers = static_cast<const char *>(b->data) + dtype_bytes(b->dtype, from);
    if (dtype_in_blocks(b->dtype)) return blocks_widen(w->b, w->dtype, numbers, n, b->dtype);
    return LAUNCH(widen_numbers_kernel, blocks_for(n, EACH), EACH, 0, static_cast<float *>(w->b),
                  numbers, n, b->dtype);
}

// Widens some rows of b at a time and computes their columns of y[n,m]; b is not transposed.
static int multiply_widened(const struct lt_product *all, enum dtype dtype)
{
    const int64_t rows = block_rows(all->k);
    const int64_t most = rows < all->m ? rows : all->m;
    struct widened wide;
    if (widened_begin(&wide, all, dtype, most * all->k) < 0) return -1;
    for (int64_t from = 0; from < all->m; from += rows) {
        struct lt_product p = *all;
        p.m = all->m - from < rows ? all->m - from : rows;
        if (widen_part(&wide, &all->b, from * all->k, p.m * p.k) < 0) return -1;
        p.a = { wide.a, dtype, false, 0 };
        p.b = { wide.b, dtype, false, 0 };
        p.y = static_cast<float *>(all->y) + from;
        p.bias = all->bias ? all->bias + from : nullptr;
        p.row = all->m;
        if (lt_multiply(&p) < 0) return -1;
    }
    return 0;
}

int matmul_cuda(struct tensor *y, const struct tensor *x, const struct tensor *w,
                const struct tensor *bias, enum matmul_mode mode)
{
    const int64_t m = w->shape[0], k = tensor_row(w), n = m ? tensor_count(y) / m : 0;
    if (!n) return 0;
    if (n <= FEW_ROWS) {
        // The previous kernel may write x and w, so this reads nothing early.
        struct few_rows few = few_rows_of(floats(x), n, k, 1, FEW_ROWS_STORE);
        few.part[0] = { w->data, w->dtype, floats(y), floats(bias), m, 0, 0, 0, FEW_ROWS_QUERIES };
        few.early = false;
        const int status = few_rows_product(&few);
        if (status != FUSED_NOT) return status;
    }
    if (n <= FEW_ROWS || !k) return matmul_few(floats(y), floats(x), w, floats(bias), n);
    struct lt_product p = lt_product_of(floats(y), DTYPE_F32, { x->data, DTYPE_F32, false, 0 },
                                        { w->data, w->dtype, false, 0 }, n, m, k);
    p.bias = floats(bias);
    if (dtype_in_blocks(w->dtype))
        return multiply_widened(&p, mode == MATMUL_BF16 ? DTYPE_BF16 : DTYPE_F32);
    if (mode == MATMUL_BF16) return multiply_rounded(p, cuda_rounded_dtype(w));
    return w->dtype == DTYPE_F32 ? lt_multiply(&p) : multiply_widened(&p, DTYPE_F32);
}

// --- backward ------------------------------------------------------------------------------------
// dx[N,K] += dy[N,M] w[M,K] sums over M, so w is transposed. dw[M,K] += dy[N,M]^T x[N,K] sums over
// N, so both operands are transposed.

// Widens some rows of w at a time, multiplies by them, and adds up the products.
static int dx_widened(const struct lt_product *all, enum dtype dtype)
{
    const int64_t rows = block_rows(all->m);
    const int64_t most = rows < all->k ? rows : all->k;
    struct widened wide;
    if (widened_begin(&wide, all, dtype, most * all->m) < 0) return -1;
    for (int64_t from = 0; from < all->k; from += rows) {
        struct lt_product p = *all;
        p.k = all->k - from < rows ? all->k - from : rows;
        if (widen_part(&wide, &all->b, from * all->m, p.m * p.k) < 0) return -1;
        const size_t before = (size_t)from * dtype_size(dtype);
        p.a = { static_cast<const char *>(wide.a) + before, dtype, false, all->k };
        p.b = { wide.b, dtype, true, 0 };
        if (from) p.addend = p.y;
        if (multiply_back(&p) < 0) return -1;
    }
    return 0;
}

int matmul_dx_cuda(struct tensor *dx, const struct tensor *dy, const struct tensor *w, bool add,
                   enum matmul_mode mode)
{
    const int64_t k = w->shape[0], m = tensor_row(w), n = k ? tensor_count(dy) / k : 0;
    if (!n || !m) return 0;
    struct lt_product p = lt_product_of(floats(dx), DTYPE_F32, { dy->data, DTYPE_F32, false, 0 },
                                        { w->data, w->dtype, true, 0 }, n, m, k);
    p.addend = add ? dx->data : nullptr;
    if (dtype_in_blocks(w->dtype))
        return dx_widened(&p, mode == MATMUL_BF16 ? DTYPE_BF16 : DTYPE_F32);
    if (mode == MATMUL_BF16) return multiply_rounded(p, DTYPE_BF16);
    return w->dtype == DTYPE_F32 ? multiply_back(&p) : dx_widened(&p, DTYPE_F32);
}

int matmul_dw_cuda(struct tensor *dw, struct tensor *dbias, const struct tensor *dy,
                   const struct tensor *x, enum matmul_mode mode)
{
    const int64_t rows = dy->shape[0], n = tensor_row(dy), m = tensor_row(x);
    if (!rows) return 0;
    if (dbias && columns_add(nullptr, floats(dbias), floats(dy), nullptr, nullptr, rows, n) < 0)
        return -1;
    if (!dw || !m || !n) return 0;
    struct lt_product p = lt_product_of(floats(dw), DTYPE_F32, { dy->data, DTYPE_F32, true, 0 },
                                        { x->data, DTYPE_F32, true, 0 }, n, m, rows);
    p.addend = dw->data;
    return mode == MATMUL_BF16 ? multiply_rounded(p, DTYPE_BF16) : lt_multiply(&p);
}
