// tests/kernels/shapes.h -- runs the check of an op on many shapes.
#ifndef TESTS_KERNELS_SHAPES_H
#define TESTS_KERNELS_SHAPES_H

#include "tests/kernels/close.h"

// Runs a check on each shape, including one that is large enough for several threads.
static inline void each_shape(const struct backend *b,
                              void (*check)(const struct backend *b, int64_t n, int64_t d))
{
    static const int64_t widths[] = { 1, 2, 7, 12, 16, 33, 64, 80, 131 };
    static const int64_t heights[] = { 1, 2, 3, 7, 33 };
    for (size_t i = 0; i < sizeof heights / sizeof *heights; i++)
        for (size_t j = 0; j < sizeof widths / sizeof *widths; j++) check(b, heights[i], widths[j]);
    check(b, 131, 1027);
    check(b, 0, 16);
}

// Compares a result with `want`; frees both.
static inline void finish(const struct backend *b, const char *op, struct tensor *y, double *want,
                          double absolute, double relative)
{
    char what[128];
    snprintf(what, sizeof what, "%s on %s [%d,%d]", op, b->describe(), (int)y->shape[0],
             (int)y->shape[1]);
    close_check(what, y->data, want, tensor_count(y), absolute, relative);
    free(y->data);
    free(want);
}

#endif
