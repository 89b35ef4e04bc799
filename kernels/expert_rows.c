// kernels/expert_rows.c -- runs the experts of a mixture on the rows that chose them; one thread
// computes an expert's FFN for a piece of rows.
//
//   threads take pieces:  x = its rows [n,D];  gate, up = x Wg^T, x Wu^T [n,m]
//                         each = (act(gate) * up) Wd^T [n,D], act = silu or gelu
//   then rows of y:       y[i] += weight * each, over the experts of row i in ascending order
//
// A piece's rows stay in the thread's L2 cache from the first product to the last, and threads
// never wait for each other in between. If gated_rows_fit accepts a piece (AMX, bf16), it is one
// call (kernels/gated_rows.c), rows are rounded to bf16 once for all experts, and stores to `each`
// may bypass the caches. Results are bit-identical to the ops gather_rows, matmul, swiglu or geglu,
// matmul and add_weighted_rows, expert by expert.
#include "kernels/expert_rows.h"

#include <omp.h>

#include "kernels/gated_rows.h"
#include "kernels/vec.h"

static struct tensor matrix(float *data, int64_t rows, int64_t width)
{
    return (struct tensor){ .data = data, .dtype = DTYPE_F32, .rank = 2, .shape = { rows, width } };
}

static int run_ops(const struct expert_rows *p, const struct expert_piece *e, float *scratch)
{
    const struct fused_gated *w = &p->expert[e->expert];
    const int64_t n = e->count, D = tensor_row(p->x), m = w->gate->shape[0];
    struct tensor x = matrix(scratch, n, D), gate = matrix(scratch + n * D, n, m);
    struct tensor up = matrix(scratch + n * (D + m), n, m);
    struct tensor y = matrix(p->each + e->first * D, n, D);
    const struct tensor index = {
        .data = (void *)(p->rows + e->first), .dtype = DTYPE_I32, .rank = 1, .shape = { n }
    };
    if (KERNEL(gather_rows)(&x, p->x, &index) < 0 ||
        KERNEL(matmul)(&gate, &x, w->gate, NULL, (enum matmul_mode)p->mode) < 0 ||
        KERNEL(matmul)(&up, &x, w->up, NULL, (enum matmul_mode)p->mode) < 0 ||
        (p->gelu ? KERNEL(geglu) : KERNEL(swiglu))(&gate, &gate, &up) < 0)
        return -1;
    return KERNEL(matmul)(&y, &gate, w->down, NULL, (enum matmul_mode)p->mode);
}

// Arguments with which gated_rows computes a piece in one call.
static struct gated_rows whole_piece(const struct expert_rows *p, const struct expert_piece *e)
{
    const struct fused_gated *w = &p->expert[e->expert];
    return (struct gated_rows){ .x = p->x->data,
                                .narrow = p->narrow,
                                .index = p->rows + e->first,
                                .gate = { .w = w->gate },
                                .up = { .w = w->up },
                                .down = { .w = w->down },
                                .y = p->each + e->first * tensor_row(p->x),
                                .rows = e->count,
                                .past_caches = true,
                                .gelu = p->gelu,
                                .mode = p->mode };
}

static int run_piece(const struct expert_rows *p, const struct expert_piece *e, float *scratch)
{
    const struct gated_rows whole = whole_piece(p, e);
    return KERNEL(gated_rows_fit)(&whole) ? KERNEL(gated_rows)(&whole) : run_ops(p, e, scratch);
}

static void sum_row(const struct expert_rows *p, int64_t row, int64_t per_row)
{
    const int64_t D = tensor_row(p->x);
    const int32_t *entry = p->entries + row * per_row;
    float *y = (float *)p->y->data + row * D;
    for (int64_t k = 0; k < per_row; k++) {
        const float by = ((const float *)p->weights->data)[p->slots[entry[k]]];
        const float *from = p->each + entry[k] * D;
        for (int64_t j = 0; j < D; j++) y[j] += by * from[j];
    }
}

int KERNEL(expert_rows)(const struct expert_rows *p)
{
    const int64_t n = p->x->shape[0], D = tensor_row(p->x), m = p->expert->gate->shape[0];
    const int64_t per_row = tensor_count(p->weights) / n;
    const struct expert_piece many = { .expert = 0, .count = EXPERT_ROWS };
    const struct gated_rows whole = whole_piece(p, &many);
    bool failed = false;
    if (KERNEL(gated_rows_fit)(&whole)) KERNEL(gated_rows_narrow)(p->narrow, p->x->data, n * D);
#pragma omp parallel reduction(|| : failed)
    {
        float *scratch = p->scratch + omp_get_thread_num() * EXPERT_ROWS * (D + 2 * m);
        omp_set_num_threads(1); // the calls below use only this thread
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < p->pieces; i++)
            failed = run_piece(p, &p->piece[i], scratch) < 0 || failed;
    }
    if (failed) return cpu_fail("out of memory: experts need more scratch");
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < n; row++) sum_row(p, row, per_row);
    return 0;
}
