// The CUDA table: memory, cuBLAS and the launches. A call that the device refuses is not an error that
// training could go on from: the process stops with the driver's own words.
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"

#include "base/limits.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Made by kernels_cuda_open, before other threads start, and kept for the life of the process.
static cublasHandle_t blas;
static struct kernels_cuda_loss *row_losses; // [LIMIT_BATCH] and behind them the total, on the device

static void must(cudaError_t status, const char *what)
{
    if (status != cudaSuccess) {
        (void)fprintf(stderr, "CUDA: %s failed: %s\n", what, cudaGetErrorString(status));
        abort();
    }
}

static void must_blas(cublasStatus_t status, const char *what)
{
    if (status != CUBLAS_STATUS_SUCCESS) {
        (void)fprintf(stderr, "CUDA: %s failed: %s\n", what, cublasGetStatusString(status));
        abort();
    }
}

static void *device_alloc(size_t bytes)
{
    void *memory = NULL;
    if (cudaMalloc(&memory, bytes > 0 ? bytes : 1) != cudaSuccess) {
        (void)cudaGetLastError(); // out of memory is the caller's to handle: not sticky
        return NULL;
    }
    must(cudaMemset(memory, 0, bytes), "clearing memory");
    return memory;
}

static void device_release(void *memory)
{
    must(cudaFree(memory), "releasing memory");
}

static void upload(void *to_device, const void *from_host, size_t bytes)
{
    must(cudaMemcpy(to_device, from_host, bytes, cudaMemcpyHostToDevice), "upload");
}

static void download(void *to_host, const void *from_device, size_t bytes)
{
    must(cudaMemcpy(to_host, from_device, bytes, cudaMemcpyDeviceToHost), "download");
}

static void wait_all(void)
{
    must(cudaDeviceSynchronize(), "a kernel");
}

static int blas_int(size_t value)
{
    BASE_ASSERT(value <= INT_MAX);
    return (int)value;
}

// cuBLAS counts columns first: our row-major C = A B is its C^T = B^T A^T, so the factors change places.
static void gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                 const float *a, const float *b, float beta, float *c)
{
    if (m == 0 || n == 0) {
        return;
    }
    const size_t lda = transpose_a ? m : k, ldb = transpose_b ? k : n;
    must_blas(cublasSgemm(blas, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                          transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, blas_int(n), blas_int(m), blas_int(k),
                          &alpha, b, blas_int(ldb > 0 ? ldb : 1), a, blas_int(lda > 0 ? lda : 1), &beta, c,
                          blas_int(n)),
              "cublasSgemm");
}

static void launched(const char *what)
{
    must(cudaGetLastError(), what);
}

static void bias_add(size_t rows, size_t cols, const float *bias, float *z)
{
    if (rows > 0 && cols > 0) {
        kernels_cuda_bias(rows, cols, bias, z, 0);
        launched("bias_add");
    }
}

static void bias_add_relu(size_t rows, size_t cols, const float *bias, float *z)
{
    if (rows > 0 && cols > 0) {
        kernels_cuda_bias(rows, cols, bias, z, 1);
        launched("bias_add_relu");
    }
}

static void relu_backward(size_t count, const float *activation, float *grad)
{
    if (count > 0) {
        kernels_cuda_relu_backward(count, activation, grad);
        launched("relu_backward");
    }
}

static void column_sum(size_t rows, size_t cols, const float *z, float *sum)
{
    if (cols > 0) {
        kernels_cuda_column_sum(rows, cols, z, sum);
        launched("column_sum");
    }
}

static void softmax_cross_entropy(size_t rows, size_t cols, float *logits, const uint32_t *labels,
                                  float scale, struct kernels_loss *loss)
{
    BASE_ASSERT(rows <= LIMIT_BATCH && cols > 0);
    struct kernels_cuda_loss total = {0};
    if (rows > 0) {
        kernels_cuda_softmax(rows, cols, logits, labels, scale, row_losses, row_losses + LIMIT_BATCH);
        launched("softmax_cross_entropy");
        download(&total, row_losses + LIMIT_BATCH, sizeof total);
    }
    *loss = (struct kernels_loss){.loss_sum = total.loss_sum, .correct = (size_t)total.correct};
}

static void sgd_step(size_t count, const struct kernels_sgd *o, const float *grad, const float *correction,
                     float *m, float *x)
{
    BASE_ASSERT(m != NULL || o->momentum == 0.0f);
    if (count > 0) {
        const struct kernels_cuda_sgd options = {o->rate, o->momentum, o->weight_decay};
        kernels_cuda_sgd(count, options, grad, correction, m, x);
        launched("sgd_step");
    }
}

static void adamw_step(size_t count, const struct kernels_adamw *o, const float *grad,
                       const float *correction, float *m, float *v, float *x)
{
    if (count > 0) {
        const struct kernels_cuda_adamw options = {.rate = o->rate,
                                                   .beta1 = o->beta1,
                                                   .beta2 = o->beta2,
                                                   .epsilon = o->epsilon,
                                                   .weight_decay = o->weight_decay,
                                                   .unbias1 = 1.0f / o->correction1,
                                                   .unbias2 = 1.0f / o->correction2};
        kernels_cuda_adamw(count, options, grad, correction, m, v, x);
        launched("adamw_step");
    }
}

static const struct kernels cuda_table = {
    .name = "cuda",
    .shares_host = false,
    .alloc = device_alloc,
    .release = device_release,
    .upload = upload,
    .download = download,
    .wait = wait_all,
    .gemm = gemm,
    .bias_add = bias_add,
    .bias_add_relu = bias_add_relu,
    .relu_backward = relu_backward,
    .column_sum = column_sum,
    .softmax_cross_entropy = softmax_cross_entropy,
    .sgd_step = sgd_step,
    .adamw_step = adamw_step,
};

static enum base_error open_device(struct base_reason *why)
{
    int devices = 0;
    cudaError_t status = cudaGetDeviceCount(&devices);
    if (status != cudaSuccess || devices == 0) {
        return base_fail(why, BASE_ENOTFOUND,
                         "no CUDA device answers (%s); install the driver or take device 'cpu'",
                         status != cudaSuccess ? cudaGetErrorString(status) : "none found");
    }
    status = cudaSetDevice(0);
    if (status == cudaSuccess && blas == NULL && cublasCreate(&blas) != CUBLAS_STATUS_SUCCESS) {
        return base_fail(why, BASE_ENOTFOUND, "cuBLAS does not start on CUDA device 0; is its memory taken?");
    }
    if (status == cudaSuccess && row_losses == NULL) {
        row_losses = device_alloc((LIMIT_BATCH + 1) * sizeof *row_losses);
    }
    if (row_losses == NULL) {
        return base_fail(why, BASE_ENOTFOUND, "CUDA device 0 can't be used (%s); is its memory taken?",
                         cudaGetErrorString(status));
    }
    // fp32 stays fp32: without this, newer devices may round factors to TF32.
    must_blas(cublasSetMathMode(blas, CUBLAS_PEDANTIC_MATH), "cublasSetMathMode");
    return BASE_OK;
}

enum base_error kernels_cuda_open(const struct kernels **table, char *description, size_t capacity,
                                  struct base_reason *why)
{
    enum base_error error = open_device(why);
    if (error != BASE_OK) {
        return error;
    }
    struct cudaDeviceProp device;
    int version = 0;
    must(cudaGetDeviceProperties(&device, 0), "reading the device's properties");
    must_blas(cublasGetVersion(blas, &version), "cublasGetVersion");
    (void)snprintf(description, capacity, "cuda: %s, sm_%d%d, cuBLAS %d.%d.%d", device.name, device.major,
                   device.minor, version / 10000, version / 100 % 100, version % 100);
    *table = &cuda_table;
    return BASE_OK;
}
