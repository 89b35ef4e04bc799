// kernels/rows_products.c -- several products of the same rows with AMX; norms and packs the rows
// once.
//
// Computes each product with the loops of kernels/matmul_amx_direct.c. A thread that finds no
// columns left in one product continues with the next.
#include "kernels/rows_products.h"

#include "kernels/matmul_amx.h"
#include "kernels/matmul_amx_direct.h"
#include "kernels/matmul_few.h"

#if defined(__AMX_BF16__)

enum { MOST = 128 }; // maximum number of products

static bool fits(const struct rows_products *p)
{
    if (p->mode != MATMUL_BF16 || p->rows <= FEW_ROWS || p->count > MOST) return false;
    for (int i = 0; i < p->count; i++)
        if (p->product[i].w->dtype != DTYPE_BF16 || p->product[i].w->shape[0] % AMX_SIDE)
            return false;
    return true;
}

static struct amx_product product_of(const struct rows_products *p, const struct rows_product *one)
{
    return (struct amx_product){ .y = one->y,
                                 .y_row = one->step,
                                 .w = { one->w->data, (size_t)p->k * sizeof(uint16_t), DTYPE_BF16,
                                        false },
                                 .bias = one->bias ? one->bias->data : NULL,
                                 .rows = p->rows,
                                 .k = p->k,
                                 .m = one->w->shape[0] };
}

// True if the stores of all products should bypass the caches; otherwise no stores do.
static bool go_past_caches(const struct amx_product *product, int count, int64_t threads)
{
    struct amx_product all = product[0];
    bool whole = true;
    all.m = 0;
    for (int i = 0; i < count; i++) {
        all.m += product[i].m;
        whole = whole && product[i].y_row % AMX_SIDE == 0 && (uintptr_t)product[i].y % 64 == 0;
    }
    return whole && KERNEL(goes_past_caches)(&all, threads);
}

int KERNEL(rows_products)(const struct rows_products *p)
{
    if (!fits(p)) return FUSED_NOT;
    const int64_t threads = omp_get_max_threads();
    struct amx_product product[MOST];
    struct direct cut[MOST];
    size_t sums = 0;
    int64_t columns = 0;
    for (int i = 0; i < p->count; i++) {
        product[i] = product_of(p, &p->product[i]);
        cut[i] = KERNEL(direct_cut)(&product[i], threads);
        if (cut[i].waiting > sums) sums = cut[i].waiting;
        columns += product[i].m;
    }
    const bool past_caches = go_past_caches(product, p->count, threads);
    struct direct_x x = direct_plan(p->rows, p->k);
    const struct direct_rows from = { .x = p->x, .gain = p->gain, .eps = p->eps };
    const size_t packed = direct_bytes(&x), each = sums + direct_scratch(p->k);
    x.data = cpu_scratch(packed + each * (size_t)threads);
    if (!x.data) return -1;
    for (int i = 0; i < p->count; i++) cut[i].x.data = x.data, cut[i].past_caches = past_caches;
#pragma omp parallel if (vec_worth_threads(p->rows * p->k * columns / 8))
    {
        char *mine = x.data + packed + each * (size_t)omp_get_thread_num();
        amx_open();
#pragma omp for schedule(static)
        for (int64_t t = 0; t < x.tiles; t++)
            KERNEL(direct_pack_from)(&x, &from, (float *)(mine + sums), t);
        for (int i = 0; i < p->count; i++) KERNEL(direct_columns)(&cut[i], (float *)mine);
        amx_close();
    }
    return 0;
}

#endif
