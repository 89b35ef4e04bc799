// kernels/rope.cu -- rotary positions (Su et al. 2021), element i of a head paired with i + d/2:
// x' = x cos - y sin, y' = y cos + x sin.
#include "kernels/cuda.h"

static constexpr int THREADS = 128;

// to[N,H,d] (+)= `from`, rotated by the angles times `way` (1 or -1); one block per row.
template <int COUNT, bool ADD>
static __global__ void rope_kernel(float *to, const float *from, const float *cos, const float *sin,
                                   float way, int heads, int half)
{
    const int64_t row = blockIdx.x, first = row * heads * 2 * half;
    const int pieces = half / COUNT;
    for (int n = (int)threadIdx.x; n < heads * pieces; n += THREADS) {
        const int i = n % pieces * COUNT;
        const int64_t at = first + n / pieces * 2 * half + i;
        const struct several<COUNT> c = several_at<COUNT>(cos + row * half + i);
        const struct several<COUNT> s = several_at<COUNT>(sin + row * half + i);
        const struct several<COUNT> a = several_at<COUNT>(from + at);
        const struct several<COUNT> b = several_at<COUNT>(from + at + half);
        struct several<COUNT> x = {}, y = {
        };
        if (ADD) {
            x = several_at<COUNT>(to + at);
            y = several_at<COUNT>(to + at + half);
        }
        for (int e = 0; e < COUNT; e++) {
            x.x[e] += a.x[e] * c.x[e] - b.x[e] * (way * s.x[e]);
            y.x[e] += b.x[e] * c.x[e] + a.x[e] * (way * s.x[e]);
        }
        put_several(to + at, x);
        put_several(to + at + half, y);
    }
}

template <bool ADD>
static int run(const struct tensor *to, const struct tensor *from, const struct tensor *cos,
               const struct tensor *sin, float way)
{
    const int64_t rows = from->shape[0], half = from->shape[2] / 2;
    if (!rows || !half || !from->shape[1]) return 0;
    const auto kernel = in_fours(half, floats(to), floats(from), floats(cos), floats(sin))
                            ? rope_kernel<4, ADD>
                            : rope_kernel<1, ADD>;
    return LAUNCH(kernel, (size_t)rows, THREADS, 0, floats(to), floats(from), floats(cos),
                  floats(sin), way, (int)from->shape[1], (int)half);
}

int rope_cuda(struct tensor *x, const struct tensor *cos, const struct tensor *sin)
{
    return run<false>(x, x, cos, sin, 1);
}

// The gradient of a rotation is a rotation by the negative angle.
int rope_backward_cuda(struct tensor *dx, const struct tensor *dy, const struct tensor *cos,
                       const struct tensor *sin)
{
    return run<true>(dx, dy, cos, sin, -1);
}
