// tests/cuda_host/cublas.cpp -- cuBLASLt on the host: D = alpha op(A) op(B) + beta C + bias, all of
// it column by column, summed in float as the GPU does.
#include "cublasLt.h"

#include <stdlib.h>

#include "work.h"

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
    return __uint_as_float((unsigned)((const uint16_t *)data)[i] << 16); // bf16
}

uint16_t rounded(float x)
{
    const unsigned u = __float_as_uint(x);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

// op(x) [rows, columns] as floats, row by row when `by_rows`, else column by column.
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

float gelu(float x)
{
    return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}
} // namespace

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t a_layout,
                              const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_size, cudaStream_t stream)
{
    if (cuda_host_refuse()) return CUBLAS_STATUS_NOT_SUPPORTED;
    cuda_host_check(stream);
    cuda_host_access access;
    uint64_t m, n, k, k2;
    float *left = unpack(a, a_layout, operation->a, true, &m, &k);
    float *right = unpack(b, b_layout, operation->b, false, &k2, &n);
    const bool fits = k == k2 && d_layout->rows == m && d_layout->columns == n &&
                      d_layout->line >= (int64_t)m && a_layout->type == b_layout->type;
    const float times = *(const float *)alpha, kept = *(const float *)beta;
    for (uint64_t j = 0; fits && j < n; j++)
        for (uint64_t i = 0; i < m; i++) {
            float x = times * dot(left + i * k, right + j * k, k);
            if (kept != 0)
                x += kept * number(c, (int64_t)j * c_layout->line + (int64_t)i, c_layout->type);
            if (operation->epilogue != CUBLASLT_EPILOGUE_DEFAULT) x += operation->bias[i];
            if (operation->epilogue == CUBLASLT_EPILOGUE_GELU_BIAS) x = gelu(x);
            const int64_t at = (int64_t)j * d_layout->line + (int64_t)i;
            if (d_layout->type == CUDA_R_32F)
                ((float *)d)[at] = x;
            else
                ((uint16_t *)d)[at] = rounded(x);
        }
    cuda_ptx_wrote(d, (size_t)(d_layout->line * (int64_t)d_layout->columns) *
                          (d_layout->type == CUDA_R_32F ? 4 : 2));
    free(left);
    free(right);
    return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = nullptr;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation,
                                        cublasComputeType_t compute, cudaDataType_t scale)
{
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

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *wish)
{
    *wish = nullptr;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t wish,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *value, size_t size)
{
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t wish)
{
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wish, int wanted,
                                              cublasLtMatmulHeuristicResult_t *found, int *count)
{
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}
