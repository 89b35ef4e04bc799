// tests/cuda_host/cublas.cpp -- cuBLASLt on the host: D = alpha op(A) op(B) + beta C + bias, all in
// column-major order, summed in float as the GPU does.
//
// It refuses whatever the documentation forbids, and operands or a workspace that differ from those
// for which the algorithm was chosen. A bias must be aligned to 16 bytes, which the API cannot
// state: GPUs have faulted on unaligned ones. bf16 and f16 matrices with an odd leading dimension
// or an address that is not a multiple of 4 are refused, though a GPU may accept them. With
// CUDA_HOST_IN_PLACE every algorithm requires C at the address of D, as some algorithms of a GPU
// do.
#include "cublasLt.h"

#include <stdlib.h>

#include "half.h"
#include "work.h"

struct cuda_host_lt {
    int gpu;
};

struct cuda_host_preference {
    uint32_t align[4];  // A, B, C, D
    uint64_t workspace; // bytes, at most
};

struct cuda_host_operation {
    cublasOperation_t a, b;
    cublasLtEpilogue_t epilogue;
    const float *bias;
};

struct cuda_host_layout {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t line;
};

namespace
{

float number(const void *data, int64_t i, cudaDataType_t type)
{
    if (type == CUDA_R_32F) return ((const float *)data)[i];
    const uint16_t bits = ((const uint16_t *)data)[i];
    return type == CUDA_R_16F ? half_value(bits) : __uint_as_float((unsigned)bits << 16);
}

uint16_t rounded(float x, cudaDataType_t type)
{
    if (type == CUDA_R_16F) return half_bits(x); // infinite beyond its range
    const unsigned u = __float_as_uint(x);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

// op(x) [rows, columns] as floats, stored by rows if `by_rows`, otherwise by columns.
float *unpack(const void *x, const cuda_host_layout *l, cublasOperation_t op, bool by_rows,
              uint64_t *rows, uint64_t *columns)
{
    *rows = op == CUBLAS_OP_N ? l->rows : l->columns;
    *columns = op == CUBLAS_OP_N ? l->columns : l->rows;
    float *y = (float *)malloc((*rows * *columns + 1) * sizeof *y);
    for (uint64_t c = 0; c < l->columns; c++)
        for (uint64_t r = 0; r < l->rows; r++) {
            const uint64_t i = op == CUBLAS_OP_N ? r : c, j = op == CUBLAS_OP_N ? c : r;
            y[by_rows ? i * *columns + j : j * *rows + i] =
                number(x, (int64_t)c * l->line + (int64_t)r, l->type);
        }
    return y;
}

float dot(const float *a, const float *b, uint64_t n)
{
    float sum[8] = { 0 };
    uint64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int e = 0; e < 8; e++) sum[e] += a[i + e] * b[i + e];
    for (; i < n; i++) sum[0] += a[i] * b[i];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

// True if the whole matrix is in device memory.
bool in_device_memory(const void *x, const cuda_host_layout *l)
{
    const size_t size = l->type == CUDA_R_32F ? sizeof(float) : sizeof(uint16_t);
    const uint64_t numbers = l->columns ? (l->columns - 1) * (uint64_t)l->line + l->rows : 0;
    return x && cuda_host_is_memory(x, numbers * size);
}

// True for bf16 and f16 that the fast kernels cannot read 16 bytes at a time.
bool is_odd(const void *x, const cuda_host_layout *l)
{
    return l->type != CUDA_R_32F && ((uintptr_t)x % 16 || l->line % 8);
}

// The library computes sizes in int32, although its layouts accept 64 bits.
bool is_possible(const cuda_host_layout *l)
{
    return l->rows && l->columns && l->rows <= INT32_MAX && l->columns <= INT32_MAX &&
           l->line >= (int64_t)l->rows && l->line <= INT32_MAX;
}

float gelu(float x)
{
    return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

bool aligned(const void *p, uint64_t to)
{
    return (uintptr_t)p % to == 0;
}

// True if the columns of a matrix do not overlap.
bool columns_are_disjoint(const cuda_host_layout *l)
{
    return l->rows && l->columns && l->line >= (int64_t)l->rows;
}

bool biased(const cuda_host_operation *operation)
{
    return operation->epilogue != CUBLASLT_EPILOGUE_DEFAULT;
}

// True if the library multiplies these types.
bool types_are_supported(const cuda_host_layout *a, const cuda_host_layout *b,
                         const cuda_host_layout *d)
{
    if (a->type != b->type) return false;
    if (d->type != CUDA_R_32F && d->type != a->type) return false;
    if (a->type == CUDA_R_32F) return true;
    return a->line % 2 == 0 && b->line % 2 == 0;
}

// True if the shapes of op(A), op(B), C and D fit together.
bool fits(const cuda_host_operation *operation, const cuda_host_layout *a,
          const cuda_host_layout *b, const cuda_host_layout *c, const cuda_host_layout *d)
{
    const bool a_transposed = operation->a != CUBLAS_OP_N,
               b_transposed = operation->b != CUBLAS_OP_N;
    return columns_are_disjoint(a) && columns_are_disjoint(b) && columns_are_disjoint(d) &&
           c->type == d->type && c->line == d->line &&
           (a_transposed ? a->columns : a->rows) == d->rows &&
           (b_transposed ? b->rows : b->columns) == d->columns &&
           (a_transposed ? a->rows : a->columns) == (b_transposed ? b->columns : b->rows);
}

bool on_this_gpu(cublasLtHandle_t handle)
{
    int gpu = -1;
    cudaGetDevice(&gpu);
    return handle && handle->gpu == gpu;
}
} // namespace

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t a_layout,
                              const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_size, cudaStream_t stream)
{
    if (!on_this_gpu(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (cuda_host_fail_capture() || !algo ||
        !fits(operation, a_layout, b_layout, c_layout, d_layout) || !is_possible(a_layout) ||
        !is_possible(b_layout) || !is_possible(d_layout) || workspace_size < algo->workspace ||
        !aligned(workspace, 256))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (c != d && *static_cast<const float *>(beta) != 0 && getenv("CUDA_HOST_IN_PLACE"))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    // A GPU would fault.
    if (!aligned(a, algo->a) || !aligned(b, algo->b) || !aligned(c, algo->y) ||
        !aligned(d, algo->y) || (biased(operation) && !operation->bias) ||
        !aligned(operation->bias, algo->bias))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    if (!in_device_memory(a, a_layout) || !in_device_memory(b, b_layout) ||
        !in_device_memory(d, d_layout) || !cuda_host_is_memory(workspace, workspace_size) ||
        (biased(operation) &&
         !cuda_host_is_memory(operation->bias, d_layout->rows * sizeof(float)))) {
        cudaGetLastError(); // clears the error, which the status reports
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    cuda_host_begin(stream);
    cuda_host_multiplied(cuda_host_gpu(), is_odd(a, a_layout) || is_odd(b, b_layout));
    if (cuda_host_mode() != CUDA_HOST_ALL) return CUBLAS_STATUS_SUCCESS;
    cuda_host_access access;
    uint64_t m, n, k, k2;
    float *left = unpack(a, a_layout, operation->a, true, &m, &k);
    float *right = unpack(b, b_layout, operation->b, false, &k2, &n);
    const float times = *(const float *)alpha, kept = *(const float *)beta;
    for (uint64_t j = 0; j < n; j++)
        for (uint64_t i = 0; i < m; i++) {
            float x = times * dot(left + i * k, right + j * k, k);
            if (kept != 0)
                x += kept * number(c, (int64_t)j * c_layout->line + (int64_t)i, c_layout->type);
            if (biased(operation)) x += operation->bias[i];
            if (operation->epilogue == CUBLASLT_EPILOGUE_GELU_BIAS) x = gelu(x);
            const int64_t at = (int64_t)j * d_layout->line + (int64_t)i;
            if (d_layout->type == CUDA_R_32F)
                ((float *)d)[at] = x;
            else
                ((uint16_t *)d)[at] = rounded(x, d_layout->type);
        }
    cuda_ptx_wrote(d, (size_t)(d_layout->line * (int64_t)d_layout->columns) *
                          (d_layout->type == CUDA_R_32F ? 4 : 2));
    free(left);
    free(right);
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "refused by the emulation";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = new cuda_host_lt{ 0 };
    cudaGetDevice(&(*handle)->gpu);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation,
                                        cublasComputeType_t compute, cudaDataType_t scale)
{
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    *operation =
        new cuda_host_operation{ CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr };
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t size)
{
    void *const to = what == CUBLASLT_MATMUL_DESC_TRANSA     ? (void *)&operation->a
                     : what == CUBLASLT_MATMUL_DESC_TRANSB   ? (void *)&operation->b
                     : what == CUBLASLT_MATMUL_DESC_EPILOGUE ? (void *)&operation->epilogue
                                                             : (void *)&operation->bias;
    const size_t expected =
        what == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? sizeof(void *) : sizeof(int);
    if (size != expected) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation)
{
    delete operation;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t line)
{
    *layout = new cuda_host_layout{ type, rows, columns, line };
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    delete layout;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = new cuda_host_preference{ { 256, 256, 256, 256 }, 0 };
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *value, size_t size)
{
    const bool is_workspace = what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
    void *const to = is_workspace
                         ? (void *)&preference->workspace
                         : &preference->align[what - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES];
    if (size != (is_workspace ? sizeof(uint64_t) : sizeof(uint32_t)))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    delete preference;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *found, int *count)
{
    *count = 0;
    if (!on_this_gpu(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (wanted < 1 || !fits(operation, a, b, c, d)) return CUBLAS_STATUS_INVALID_VALUE;
    const uint32_t *const align = preference->align, least = a->type != CUDA_R_32F ? 4 : 1;
    if (!types_are_supported(a, b, d) || align[0] < least || align[1] < least)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const uint32_t y = align[2] > align[3] ? align[2] : align[3];
    *found = { { align[0], align[1], y, 16, preference->workspace },
               preference->workspace,
               CUBLAS_STATUS_SUCCESS };
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}
