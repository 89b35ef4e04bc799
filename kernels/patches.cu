// kernels/patches.cu -- cuts a picture into squares, one output row each.
#include "kernels/cuda.h"

// How the pixels [channels, height, width] are cut.
struct grid {
    int64_t channels, height, width, patch, across;
};

// Index of the pixel that is element i of the rows [S, channels * patch * patch].
static __device__ int64_t pixel_at(const struct grid g, int64_t i)
{
    const int64_t square = g.patch * g.patch, size = g.channels * square;
    const int64_t s = i / size, e = i % size, c = e / square;
    const int64_t row = s / g.across * g.patch + e % square / g.patch;
    const int64_t column = s % g.across * g.patch + e % g.patch;
    return (c * g.height + row) * g.width + column;
}

static __global__ void patches_kernel(float *y, const float *pixels, const struct grid g, int64_t n)
{
    FOR_EACH(i, n) y[i] = pixels[pixel_at(g, i)];
}

static __global__ void patches_back_kernel(float *dpixels, const float *dy, const struct grid g,
                                           int64_t n)
{
    FOR_EACH(i, n) dpixels[pixel_at(g, i)] += dy[i];
}

static struct grid grid_of(const struct tensor *pixels, int64_t patch)
{
    return { pixels->shape[0], pixels->shape[1], pixels->shape[2], patch,
             pixels->shape[2] / patch };
}

int patches_cuda(struct tensor *y, const struct tensor *pixels, int64_t patch)
{
    const int64_t n = tensor_count(y);
    if (!n) return 0;
    return LAUNCH(patches_kernel, blocks_for(n, EACH), EACH, 0, floats(y), floats(pixels),
                  grid_of(pixels, patch), n);
}

int patches_backward_cuda(struct tensor *dpixels, const struct tensor *dy, int64_t patch)
{
    const int64_t n = tensor_count(dy);
    if (!n) return 0;
    return LAUNCH(patches_back_kernel, blocks_for(n, EACH), EACH, 0, floats(dpixels), floats(dy),
                  grid_of(dpixels, patch), n);
}
