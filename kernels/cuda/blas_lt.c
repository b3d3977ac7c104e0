// kernels/cuda/products.h: products with an epilogue by cuBLASLt, the others by cuBLAS. cuBLASLt asks its
// heuristics once for each kind of product; the answers are kept.
#include "kernels/cuda/products.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/cuda.h"

enum { PLANS = 128, WORKSPACE = 32 << 20 };

// What a plan depends on, apart from addresses.
struct kind {
    uint64_t m, n, k, stride_a;
    uint32_t transpose_a, transpose_b, narrow, after, adds, unused;
};

struct plan {
    struct kind kind;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, c, d;
    cublasLtMatmulAlgo_t algorithm;
    bool possible;
};

static struct {
    pthread_mutex_t lock;
    cublasLtHandle_t handle;
    void *workspace;
    struct plan plans[PLANS];
    size_t count;
} lt = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool works(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS;
}

static bool set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t what, const void *value,
                size_t bytes)
{
    return works(cublasLtMatmulDescSetAttribute(operation, what, value, bytes));
}

static bool start(void)
{
    if (lt.workspace)
        return true;
    if (!lt.handle && !works(cublasLtCreate(&lt.handle)))
        return false;
    if (cudaMalloc(&lt.workspace, WORKSPACE) == cudaSuccess)
        return true;
    (void)cudaGetLastError(); // else the next launch would report it
    lt.workspace = NULL;
    return false;
}

static cublasLtEpilogue_t epilogue_of(uint32_t after)
{
    switch ((enum kernels_cuda_after)after) {
    case KERNELS_CUDA_BIAS:
        return CUBLASLT_EPILOGUE_BIAS;
    case KERNELS_CUDA_BIAS_GELU:
        return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case KERNELS_CUDA_GELU_BACKWARD:
        return CUBLASLT_EPILOGUE_DGELU;
    case KERNELS_CUDA_NOTHING:
        break;
    }
    return CUBLASLT_EPILOGUE_DEFAULT;
}

// cuBLAS is column-major: our row-major D = A B is its D^T = B^T A^T, so the factors change places.
static bool describe(const struct kind *k, struct plan *plan)
{
    const cublasOperation_t op_a = k->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                            op_b = k->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cudaDataType_t type = k->narrow ? CUDA_R_16BF : CUDA_R_32F;
    const cublasLtEpilogue_t epilogue = epilogue_of(k->after);
    const int64_t stride = (int64_t)k->n;
    if (!works(cublasLtMatmulDescCreate(&plan->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F)) ||
        !set(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a) ||
        !set(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b) ||
        !set(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue))
        return false;
    if (k->after >= KERNELS_CUDA_BIAS_GELU &&
        !set(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &stride, sizeof stride))
        return false;
    const uint64_t cols_b = k->transpose_b ? k->k : k->n, rows_b = k->transpose_b ? k->n : k->k,
                   cols_a = k->transpose_a ? k->m : k->k, rows_a = k->transpose_a ? k->k : k->m;
    return works(cublasLtMatrixLayoutCreate(&plan->a, CUDA_R_16BF, cols_b, rows_b, (int64_t)cols_b)) &&
           works(cublasLtMatrixLayoutCreate(&plan->b, CUDA_R_16BF, cols_a, rows_a, (int64_t)k->stride_a)) &&
           works(cublasLtMatrixLayoutCreate(&plan->c, type, k->n, k->m, stride)) &&
           works(cublasLtMatrixLayoutCreate(&plan->d, type, k->n, k->m, stride));
}

// Sets the pointers of the epilogue. This also happens before the heuristics are asked, because they look at
// the alignment.
static bool point(const struct plan *plan, const struct kernels_cuda_multiply *p)
{
    const void *const bias = p->bias;
    void *const kept = p->kept;
    const bool biased = p->after == KERNELS_CUDA_BIAS || p->after == KERNELS_CUDA_BIAS_GELU;
    return (!biased ||
            set(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, (const void *)&bias, sizeof bias)) &&
           (p->after < KERNELS_CUDA_BIAS_GELU ||
            set(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, (const void *)&kept,
                sizeof kept));
}

static bool choose(struct plan *plan)
{
    const size_t workspace = WORKSPACE;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t best = {0};
    int found = 0;
    const bool asked =
        works(cublasLtMatmulPreferenceCreate(&preference)) &&
        works(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                   &workspace, sizeof workspace)) &&
        works(cublasLtMatmulAlgoGetHeuristic(lt.handle, plan->operation, plan->a, plan->b, plan->c, plan->d,
                                             preference, 1, &best, &found));
    if (preference)
        (void)cublasLtMatmulPreferenceDestroy(preference);
    plan->algorithm = best.algo;
    return asked && found > 0;
}

// The plan for this kind of product; NULL if there is no room for another one.
static struct plan *plan_for(const struct kernels_cuda_multiply *p)
{
    struct kind kind;
    memset(&kind, 0, sizeof kind); // compared as bytes
    kind.m = p->m;
    kind.n = p->n;
    kind.k = p->k;
    kind.stride_a = p->stride_a > 0 ? p->stride_a : p->transpose_a ? p->m : p->k;
    kind.transpose_a = p->transpose_a;
    kind.transpose_b = p->transpose_b;
    kind.narrow = p->narrow;
    kind.after = p->after;
    kind.adds = p->add != NULL;
    for (size_t i = 0; i < lt.count; i++)
        if (memcmp(&lt.plans[i].kind, &kind, sizeof kind) == 0)
            return &lt.plans[i];
    if (lt.count == PLANS)
        return NULL;
    struct plan *plan = &lt.plans[lt.count++];
    plan->kind = kind;
    plan->possible = describe(&kind, plan) && point(plan, p) && choose(plan);
    return plan;
}

static bool multiply(const struct kernels_cuda_multiply *p)
{
    const float one = 1.0f, zero = 0.0f;
    const struct plan *plan = start() ? plan_for(p) : NULL;
    return plan && plan->possible && point(plan, p) &&
           works(cublasLtMatmul(lt.handle, plan->operation, &one, p->b, plan->a, p->a, plan->b,
                                p->add ? &one : &zero, p->add ? p->add : p->d, plan->c, p->d, plan->d,
                                &plan->algorithm, lt.workspace, WORKSPACE, NULL));
}

bool kernels_cuda_multiply(const struct kernels_cuda_multiply *p)
{
    BASE_ASSERT(!p->add || !p->narrow);
    if (p->after == KERNELS_CUDA_NOTHING && (!p->add || p->add == p->d)) {
        kernels_cuda_multiply_plain(p);
        return true;
    }
    if (pthread_mutex_lock(&lt.lock) != 0)
        return false;
    const bool done = multiply(p);
    (void)pthread_mutex_unlock(&lt.lock);
    return done;
}
