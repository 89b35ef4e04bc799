// kernels/rope.cu -- rotary positions (Su et al. 2021), element i of a head paired with i + d/2:
// x' = x cos - y sin, y' = y cos + x sin.
#include "kernels/cuda.h"

// Pair p of all: row p / (heads * half), head, then place in the head.
struct pair {
    int64_t x, y, angle;
};

static __device__ struct pair pair_at(int64_t p, int64_t heads, int64_t half)
{
    const int64_t i = p % half, head = p / half, x = head * 2 * half + i;
    return { x, x + half, head / heads * half + i };
}

static __global__ void rope_kernel(float *x, const float *cos, const float *sin, int64_t heads,
                                   int64_t half, int64_t pairs)
{
    FOR_EACH(p, pairs)
    {
        const struct pair at = pair_at(p, heads, half);
        const float a = x[at.x], b = x[at.y], c = cos[at.angle], s = sin[at.angle];
        x[at.x] = a * c - b * s;
        x[at.y] = b * c + a * s;
    }
}

int rope_cuda(struct tensor *x, const struct tensor *cos, const struct tensor *sin)
{
    const int64_t half = x->shape[2] / 2, pairs = x->shape[0] * x->shape[1] * half;
    if (!pairs) return 0;
    return LAUNCH(rope_kernel, blocks_for(pairs, EACH), EACH, 0, floats(x), floats(cos),
                  floats(sin), x->shape[1], half, pairs);
}

// The inverse of a turn is the turn by the negative angle.
static __global__ void rope_back_kernel(float *dx, const float *dy, const float *cos,
                                        const float *sin, int64_t heads, int64_t half,
                                        int64_t pairs)
{
    FOR_EACH(p, pairs)
    {
        const struct pair at = pair_at(p, heads, half);
        const float a = dy[at.x], b = dy[at.y], c = cos[at.angle], s = sin[at.angle];
        dx[at.x] += a * c + b * s;
        dx[at.y] += b * c - a * s;
    }
}

int rope_backward_cuda(struct tensor *dx, const struct tensor *dy, const struct tensor *cos,
                       const struct tensor *sin)
{
    const int64_t half = dy->shape[2] / 2, pairs = dy->shape[0] * dy->shape[1] * half;
    if (!pairs) return 0;
    return LAUNCH(rope_back_kernel, blocks_for(pairs, EACH), EACH, 0, floats(dx), floats(dy),
                  floats(cos), floats(sin), dy->shape[1], half, pairs);
}
