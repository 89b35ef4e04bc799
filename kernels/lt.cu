// kernels/lt.cu -- products by cuBLASLt, with a cached algorithm for each shape. product.cu
// computes products that cuBLASLt refuses, or on which it may fault because of an unaligned bias.
//
// Easy to get wrong: cuBLASLt's matrices are column-major. y[n,m] here is D[m,n] there, and an
// operand [rows,K] here is [K,rows] there, so the first operand of cuBLASLt is b.
#include <cublasLt.h>

#include <string.h>

#include <algorithm>

#include "kernels/matmul_cuda.h"

static constexpr int PLANS = 512;
// Arenas align to ALIGN_MOST. With a larger stated alignment cuBLASLt could choose another
// algorithm when the backward pass recomputes a layer at another address, and the bits would
// differ.
static constexpr uint32_t ALIGN_MOST = 64, ALIGN_BIAS = 16;

// The key under which the choice of an algorithm is cached.
struct shape_key {
    int64_t n, m, k, row, a_line, b_line;
    int32_t dtype, y_dtype, a_transposed, b_transposed, add, gelu;
    // align_y covers y and addend; align_bias 0: no bias.
    uint32_t align_a, align_b, align_y, align_bias;
    int32_t gpu; // index of the GPU
};

struct plan {
    struct shape_key key;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t first, second, result;
    cublasLtMatmulAlgo_t algorithm;
    bool refused; // cuBLASLt has no algorithm, or the bias is not aligned to ALIGN_BIAS
};

static struct {
    struct {
        cublasLtHandle_t handle;
        void *workspace;
    } of[CUDA_GPUS_MOST];     // one per GPU
    struct plan plans[PLANS]; // a new plan replaces the oldest
    int count, next;
} lt;

static int failed(const char *what, cublasStatus_t status)
{
    return cuda_fail("cuBLASLt: %s: %s", what, cublasLtGetStatusString(status));
}

int matmul_open(void)
{
    const int gpu = cuda_gpu_now();
    const cublasStatus_t status = cublasLtCreate(&lt.of[gpu].handle);
    if (status != CUBLAS_STATUS_SUCCESS) return failed("cannot start", status);
    lt.of[gpu].workspace = cuda_alloc(CUDA_WORKSPACE);
    if (lt.of[gpu].workspace) return 0;
    return cuda_fail("out of memory: %d MB for matrix products", CUDA_WORKSPACE >> 20);
}

// The largest power of two up to ALIGN_MOST that divides the address.
static uint32_t alignment(const void *p)
{
    const uintptr_t low = (uintptr_t)p & -(uintptr_t)p;
    return low && low < ALIGN_MOST ? (uint32_t)low : ALIGN_MOST;
}

static cudaDataType_t type_of(enum dtype dtype)
{
    return dtype == DTYPE_BF16 ? CUDA_R_16BF : dtype == DTYPE_F16 ? CUDA_R_16F : CUDA_R_32F;
}

static void plan_release(struct plan *p)
{
    if (p->operation) cublasLtMatmulDescDestroy(p->operation);
    if (p->first) cublasLtMatrixLayoutDestroy(p->first);
    if (p->second) cublasLtMatrixLayoutDestroy(p->second);
    if (p->result) cublasLtMatrixLayoutDestroy(p->result);
    memset(p, 0, sizeof *p);
}

static cublasStatus_t side_layout(cublasLtMatrixLayout_t *layout, enum dtype dtype, bool transposed,
                                  int64_t rows, int64_t k, int64_t line)
{
    const int64_t inner = transposed ? rows : k, outer = transposed ? k : rows;
    return cublasLtMatrixLayoutCreate(layout, type_of(dtype), (uint64_t)inner, (uint64_t)outer,
                                      line ? line : inner);
}

static void set(struct plan *p, cublasLtMatmulDescAttributes_t what, const void *value, size_t size)
{
    cublasLtMatmulDescSetAttribute(p->operation, what, value, size);
}

// Sets the bias's address before an algorithm is chosen: no preference states the bias's alignment,
// so cuBLASLt can learn it only from the address.
static cublasStatus_t plan_describe(struct plan *p, const float *bias)
{
    const struct shape_key *k = &p->key;
    const enum dtype dtype = (enum dtype)k->dtype;
    // In cuBLASLt's view, K is the row dimension of an untransposed operand. cuBLASLt expects it as
    // the column dimension of its first operand and as the row dimension of its second.
    const cublasOperation_t first = k->b_transposed ? CUBLAS_OP_N : CUBLAS_OP_T;
    const cublasOperation_t second = k->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = k->gelu ? CUBLASLT_EPILOGUE_GELU_BIAS
                                        : bias  ? CUBLASLT_EPILOGUE_BIAS
                                                : CUBLASLT_EPILOGUE_DEFAULT;
    cublasStatus_t s = cublasLtMatmulDescCreate(&p->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (s != CUBLAS_STATUS_SUCCESS) return s;
    set(p, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    set(p, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (bias) set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if ((s = side_layout(&p->first, dtype, k->b_transposed, k->m, k->k, k->b_line)) !=
            CUBLAS_STATUS_SUCCESS ||
        (s = side_layout(&p->second, dtype, k->a_transposed, k->n, k->k, k->a_line)) !=
            CUBLAS_STATUS_SUCCESS)
        return s;
    return cublasLtMatrixLayoutCreate(&p->result, type_of((enum dtype)k->y_dtype), (uint64_t)k->m,
                                      (uint64_t)k->n, k->row);
}

static void prefer(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t what,
                   uint32_t value)
{
    cublasLtMatmulPreferenceSetAttribute(p, what, &value, sizeof value);
}

static cublasStatus_t plan_choose(struct plan *p)
{
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found;
    const uint64_t bytes = CUDA_WORKSPACE;
    int count = 0;
    cublasStatus_t s = cublasLtMatmulPreferenceCreate(&preference);
    if (s != CUBLAS_STATUS_SUCCESS) return s;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &bytes, sizeof bytes);
    prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p->key.align_b);
    prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p->key.align_a);
    prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p->key.align_y);
    prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p->key.align_y);
    s = cublasLtMatmulAlgoGetHeuristic(lt.of[p->key.gpu].handle, p->operation, p->first, p->second,
                                       p->result, p->result, preference, 1, &found, &count);
    cublasLtMatmulPreferenceDestroy(preference);
    if (s == CUBLAS_STATUS_SUCCESS) s = count ? found.state : CUBLAS_STATUS_NOT_SUPPORTED;
    if (s == CUBLAS_STATUS_SUCCESS) p->algorithm = found.algo;
    return s;
}

// True if the status means that cuBLASLt cannot compute this product.
static bool refuses(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
           status == CUBLAS_STATUS_ARCH_MISMATCH;
}

// Returns the plan of a key; on errors, NULL with the reason in *status. Caches refusals too, so
// that cuBLASLt is queried once.
static struct plan *plan_find(const struct shape_key *key, const float *bias,
                              cublasStatus_t *status)
{
    for (int i = 0; i < lt.count; i++)
        if (!memcmp(&lt.plans[i].key, key, sizeof *key)) return &lt.plans[i];
    struct plan *p = &lt.plans[lt.next];
    plan_release(p);
    p->key = *key;
    *status = plan_describe(p, bias);
    if (*status == CUBLAS_STATUS_SUCCESS) *status = plan_choose(p);
    // GPUs have faulted on biases that are not aligned to 16 bytes, so these are always refused.
    p->refused = refuses(*status) || (bias && key->align_bias < ALIGN_BIAS);
    if (*status != CUBLAS_STATUS_SUCCESS && !p->refused) {
        plan_release(p);
        return nullptr;
    }
    lt.next = (lt.next + 1) % PLANS;
    if (lt.count < PLANS) lt.count++;
    return p;
}

static struct shape_key key_of(const struct lt_product *p)
{
    struct shape_key key;
    memset(&key, 0, sizeof key); // compared byte by byte
    key.n = p->n, key.m = p->m, key.k = p->k, key.row = p->row;
    key.a_line = p->a.line, key.b_line = p->b.line;
    key.dtype = p->a.dtype, key.y_dtype = p->y_dtype;
    key.a_transposed = p->a.transposed, key.b_transposed = p->b.transposed;
    key.add = p->addend != nullptr, key.gelu = p->gelu;
    key.align_a = alignment(p->a.data), key.align_b = alignment(p->b.data);
    key.align_y = p->addend ? std::min(alignment(p->y), alignment(p->addend)) : alignment(p->y);
    key.align_bias = p->bias ? alignment(p->bias) : 0;
    key.gpu = cuda_gpu_now();
    return key;
}

bool lt_supports(const struct lt_product *p)
{
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    const struct shape_key key = key_of(p);
    cuda_stream(); // selects the current GPU
    const struct plan *plan = plan_find(&key, p->bias, &status);
    return plan && !plan->refused;
}

static cublasStatus_t run(const struct plan *plan, const struct lt_product *p, const void *addend)
{
    const float one = 1, kept = p->addend ? 1 : 0;
    const int gpu = plan->key.gpu;
    return cublasLtMatmul(lt.of[gpu].handle, plan->operation, &one, p->b.data, plan->first,
                          p->a.data, plan->second, &kept, addend, plan->result, p->y, plan->result,
                          &plan->algorithm, lt.of[gpu].workspace, CUDA_WORKSPACE, cuda_stream());
}

// Some algorithms need the addend at the address of y, but the heuristic does not see addresses;
// for these algorithms, copies the addend to y first.
static cublasStatus_t run_with_addend(const struct plan *plan, const struct lt_product *p)
{
    const cublasStatus_t status = run(plan, p, p->addend ? p->addend : p->y);
    if (!refuses(status) || !p->addend || p->addend == p->y) return status;
    const size_t numbers = (size_t)((p->n - 1) * p->row + p->m);
    cudaMemcpyAsync(p->y, p->addend, numbers * dtype_size(p->y_dtype), cudaMemcpyDeviceToDevice,
                    cuda_stream());
    return run(plan, p, p->y);
}

int lt_multiply(const struct lt_product *p)
{
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    const struct shape_key key = key_of(p);
    cuda_stream(); // selects the current GPU
    struct plan *plan = plan_find(&key, p->bias, &status);
    if (!plan) return failed("cannot choose an algorithm", status);
    if (plan->refused) return product_plain(p);
    if (p->bias) set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias);
    status = run_with_addend(plan, p);
    plan->refused = refuses(status);
    if (plan->refused) return product_plain(p);
    return status == CUBLAS_STATUS_SUCCESS ? cuda_started("cublasLt")
                                           : failed("cannot multiply", status);
}
