// kernels/add.c -- elementwise sum.
#include "kernels/vec.h"

enum { PIECE = 16384 }; // elements that a thread adds at a time

static void add_piece(float *y, const float *a, const float *b, int64_t n)
{
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC) vf_store(y + i, vf_load(a + i) + vf_load(b + i));
    for (; i < n; i++) y[i] = a[i] + b[i];
}

int KERNEL(add)(struct tensor *y, const struct tensor *a, const struct tensor *b)
{
    int64_t n = tensor_count(y);
#pragma omp parallel for schedule(static) if (vec_worth_threads(n))
    for (int64_t i = 0; i < n; i += PIECE)
        add_piece((float *)y->data + i, (const float *)a->data + i, (const float *)b->data + i,
                  n - i < PIECE ? n - i : PIECE);
    return 0;
}
