// kernels/products.c -- implements kernels/products.h on the CPU with AMX tiles.
#include "kernels/products.h"

#include "kernels/attention_amx.h"
#include "kernels/matmul_amx.h"
#include "kernels/matmul_few.h"
#include "kernels/norm_row.h"

#if defined(__AMX_BF16__)

static bool takes(int64_t rows, int mode)
{
    return mode == MATMUL_BF16 && rows > FEW_ROWS && rows > ATTENTION_FEW;
}

static size_t bytes_of(int64_t rows, int64_t k)
{
    return amx_rows_bytes(rows, k);
}

static struct amx_rows rows_at(const struct packed_rows *r)
{
    return (struct amx_rows){ r->data, r->rows, r->k, amx_piece(r->k) };
}

// Norms rows from..from+n.
static void norm_rows(float *to, const struct row_packing *p, int64_t from, int64_t n)
{
    const int64_t k = p->to.k;
    for (int64_t r = 0; r < n; r++, to += k) {
        const float *x = (const float *)p->x->data + (from + r) * k;
        if (p->bias)
            KERNEL(layernorm_row)(to, x, p->gain->data, p->bias->data, k, p->eps);
        else
            norm_row(to, x, p->gain->data, k, p->eps);
    }
}

// Packs tile t of the rows; `normed` [16,K] is scratch for a norm.
static void pack_tile(const struct row_packing *p, const struct amx_rows *to, int64_t t,
                      float *normed)
{
    const int64_t from = t * AMX_SIDE, k = to->k;
    const int64_t n = at_most(to->rows - from, AMX_SIDE);
    const size_t row_bytes = (size_t)k * sizeof(float);
    const char *rows = (const char *)p->x->data + (size_t)from * row_bytes;
    if (p->gain) norm_rows(normed, p, from, n);
    const struct amx_source x = { p->gain ? (void *)normed : rows, row_bytes, DTYPE_F32, false };
    for (int64_t i = 0; i < k; i += AMX_STEP)
        amx_pack_rows(amx_rows_tile(to, t, i), &x, 0, n, i, at_most(k - i, AMX_STEP));
}

static int pack(const struct row_packing *p)
{
    const struct amx_rows to = rows_at(&p->to);
    const int64_t each = (AMX_SIDE * to.k + 15) / 16 * 16;
    float *scratch = cpu_scratch((size_t)(each * omp_get_max_threads()) * sizeof *scratch);
    if (!scratch) return -1;
#pragma omp parallel for schedule(static) if (vec_worth_threads(to.rows * to.k))
    for (int64_t t = 0; t < amx_row_tiles(to.rows); t++)
        pack_tile(p, &to, t, scratch + each * omp_get_thread_num());
    return 0;
}

static struct amx_source weights_of(const struct tensor *w)
{
    return (struct amx_source){ w->data, dtype_bytes(w->dtype, tensor_row(w)), w->dtype, false };
}

static int run(const struct packed_product *p)
{
    const bool packs = p->epilogue == PRODUCT_GELU || p->epilogue == PRODUCT_GATED;
    struct amx_product product = { .y = p->y ? p->y->data : NULL,
                                   .w = weights_of(p->w),
                                   .bias = p->bias ? p->bias->data : NULL,
                                   .rows = p->x.rows,
                                   .k = p->x.k,
                                   .m = p->w->shape[0],
                                   .after = p,
                                   .packed = rows_at(&p->x) };
    if (packs) product.to = rows_at(&p->packed);
    product.rounds = p->y && p->y->dtype == DTYPE_BF16;
    if (p->epilogue == PRODUCT_GATED) {
        product.up = weights_of(p->up);
        product.m = amx_row_tiles(product.m) * 2 * AMX_SIDE;
    }
    return KERNEL(matmul_tiles)(&product);
}

// Sets partial tiles to 0. Padding along K must be finite, because the next product multiplies it
// by weights of 0, and 0 times infinity is NaN.
static void clear_ends(const struct amx_rows *to)
{
    const int64_t tiles = amx_row_tiles(to->rows), whole = to->k / AMX_STEP * AMX_STEP;
    for (int64_t t = 0; t < tiles && whole < to->k; t++)
        memset(amx_rows_tile(to, t, whole), 0, AMX_TILE);
    for (int64_t k = 0; k < to->k && to->rows % AMX_SIDE; k += AMX_STEP)
        memset(amx_rows_tile(to, tiles - 1, k), 0, AMX_TILE);
}

static int attend(const struct packed_attention *p)
{
    struct tensor packed = { 0 }; // y, which is written as packed rows
    struct call c = call_of(&packed, p->q, p->k, p->v, p->first, p->end, p->scale);
    const struct attention_packed by = { .to = rows_at(&p->to),
                                         .values = p->v->dtype,
                                         .cos = p->cos ? p->cos->data : NULL,
                                         .sin = p->sin ? p->sin->data : NULL,
                                         .adjacent = p->adjacent };
    clear_ends(&by.to);
    return KERNEL(attention_tiles)(&c, &by);
}

const struct packed_ops KERNEL(products) = {
    .takes = takes, .bytes = bytes_of, .pack = pack, .run = run, .attend = attend
};

#endif
