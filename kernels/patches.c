// kernels/patches.c -- cuts a picture into squares, one output row each. The patch convolution of a
// vision transformer (stride = size) then becomes a matrix product.
#include <string.h>

#include "kernels/vec.h"

int KERNEL(patches)(struct tensor *y, const struct tensor *pixels, int64_t patch)
{
    int64_t channels = pixels->shape[0], height = pixels->shape[1], width = pixels->shape[2];
    int64_t down = height / patch, across = width / patch, size = channels * patch * patch;
#pragma omp parallel for schedule(static) if (vec_worth_threads(down * across * size))
    for (int64_t s = 0; s < down * across; s++) {
        float *out = (float *)y->data + s * size;
        int64_t top = s / across * patch, left = s % across * patch;
        for (int64_t c = 0; c < channels; c++)
            for (int64_t r = 0; r < patch; r++, out += patch)
                memcpy(out, (const float *)pixels->data + (c * height + top + r) * width + left,
                       (size_t)patch * sizeof(float));
    }
    return 0;
}

int KERNEL(patches_backward)(struct tensor *dpixels, const struct tensor *dy, int64_t patch)
{
    int64_t channels = dpixels->shape[0], height = dpixels->shape[1], width = dpixels->shape[2];
    int64_t down = height / patch, across = width / patch, size = channels * patch * patch;
#pragma omp parallel for schedule(static) if (vec_worth_threads(down * across * size))
    for (int64_t s = 0; s < down * across; s++) {
        const float *from = (const float *)dy->data + s * size;
        int64_t top = s / across * patch, left = s % across * patch;
        for (int64_t c = 0; c < channels; c++)
            for (int64_t r = 0; r < patch; r++, from += patch)
                vec_add((float *)dpixels->data + (c * height + top + r) * width + left, from,
                        patch);
    }
    return 0;
}
