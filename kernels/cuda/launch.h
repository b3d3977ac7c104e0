// What table.c (C) and kernels.cu (CUDA C++) share: one function a kernel, which puts it into the default
// stream. All pointers lie on the device.
#ifndef KERNELS_CUDA_LAUNCH_H
#define KERNELS_CUDA_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kernels_cuda_sgd {
    float rate, momentum, weight_decay;
};

struct kernels_cuda_adamw {
    float rate, beta1, beta2, epsilon, weight_decay, unbias1, unbias2;
};

// Sums over the rows of a batch, on the device.
struct kernels_cuda_loss {
    double loss_sum;
    unsigned long long correct;
};

void kernels_cuda_bias(size_t rows, size_t cols, const float *bias, float *z, int relu);
void kernels_cuda_relu_backward(size_t count, const float *activation, float *grad);
void kernels_cuda_column_sum(size_t rows, size_t cols, const float *z, float *sum);
void kernels_cuda_softmax(size_t rows, size_t cols, float *logits, const uint32_t *labels, float scale,
                          struct kernels_cuda_loss *row_losses, struct kernels_cuda_loss *total);
void kernels_cuda_sgd(size_t count, struct kernels_cuda_sgd options, const float *grad,
                      const float *correction, float *m, float *x);
void kernels_cuda_adamw(size_t count, struct kernels_cuda_adamw options, const float *grad,
                        const float *correction, float *m, float *v, float *x);

#ifdef __cplusplus
}
#endif

#endif
