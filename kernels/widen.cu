// kernels/widen.cu -- converts any weight dtype to f32, or f16 to bf16; also copies.
#include "kernels/matmul_cuda.h"
#include "kernels/pack_cuda.h"

static __global__ void widen_kernel(void *y, const void *x, int64_t n, enum dtype to,
                                    enum dtype from)
{
    FOR_EACH(i, n) put_number(y, i, number_at(x, i, from), to);
}

int widen_cuda(struct tensor *y, const struct tensor *x)
{
    const int64_t n = tensor_count(x);
    if (!n) return 0;
    if (y->dtype == x->dtype) {
        cudaMemcpyAsync(y->data, x->data, tensor_bytes(x), cudaMemcpyDeviceToDevice, cuda_stream());
        return cuda_started("a copy");
    }
    if (dtype_in_blocks(x->dtype)) return blocks_widen(y->data, y->dtype, x->data, n, x->dtype);
    return LAUNCH(widen_kernel, blocks_for(n, EACH), EACH, 0, y->data, x->data, n, y->dtype,
                  x->dtype);
}
