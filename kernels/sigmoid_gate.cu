// kernels/sigmoid_gate.cu -- x * sigmoid(gate) (kernels/sigmoid_gate.c).
#include "kernels/cuda.h"

static __global__ void gate_kernel(float *y, const float *x, const float *gate, int64_t n)
{
    FOR_EACH(i, n) y[i] = x[i] * sigmoid(gate[i]);
}

int sigmoid_gate_cuda(struct tensor *y, const struct tensor *x, const struct tensor *gate)
{
    const int64_t n = tensor_count(y);
    if (!n) return 0;
    return LAUNCH(gate_kernel, blocks_for(n, EACH), EACH, 0, floats(y), floats(x), floats(gate), n);
}

static __global__ void gate_back_kernel(float *dx, float *dgate, const float *dy, const float *x,
                                        const float *gate, int64_t n)
{
    FOR_EACH(i, n)
    {
        const float s = sigmoid(gate[i]);
        if (dx) dx[i] += dy[i] * s;
        if (dgate) dgate[i] += dy[i] * x[i] * s * (1 - s);
    }
}

int sigmoid_gate_backward_cuda(struct tensor *dx, struct tensor *dgate, const struct tensor *dy,
                               const struct tensor *x, const struct tensor *gate)
{
    const int64_t n = tensor_count(dy);
    if (!n) return 0;
    return LAUNCH(gate_back_kernel, blocks_for(n, EACH), EACH, 0, floats(dx), floats(dgate),
                  floats(dy), floats(x), floats(gate), n);
}
