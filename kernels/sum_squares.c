// kernels/sum_squares.c -- the sum of the squares of all elements, in double.
//
// Pieces of a fixed size are summed separately and their sums added in order, so the result does
// not depend on the number of threads or their timing.
#include "kernels/vec.h"

enum { PIECE = 16384, PIECES = 64 }; // elements per piece; pieces summed at a time

static double piece_sum(const float *x, int64_t n)
{
    double sum[8] = { 0 };
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int e = 0; e < 8; e++) sum[e] += (double)x[i + e] * x[i + e];
    for (; i < n; i++) sum[0] += (double)x[i] * x[i];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

int KERNEL(sum_squares)(double *sum, const struct tensor *x)
{
    const int64_t count = tensor_count(x);
    const float *data = x->data;
    for (int64_t from = 0; from < count; from += (int64_t)PIECES * PIECE) {
        double piece[PIECES] = { 0 };
        const int64_t left = count - from;
        const int64_t pieces = left < (int64_t)PIECES * PIECE ? (left + PIECE - 1) / PIECE : PIECES;
#pragma omp parallel for schedule(static) if (vec_worth_threads(left))
        for (int64_t i = 0; i < pieces; i++) {
            const int64_t rest = left - i * PIECE;
            piece[i] = piece_sum(data + from + i * PIECE, rest < PIECE ? rest : PIECE);
        }
        for (int64_t i = 0; i < pieces; i++) *sum += piece[i];
    }
    return 0;
}
