// Device kernels. Elementwise ones run over the vector in strides of the grid; reductions add in a fixed
// order, so that a run repeats bit for bit.
#include "kernels/cuda/launch.h"

#define THREADS     256u
#define MOST_BLOCKS 1024u

static unsigned blocks_for(size_t count)
{
    const size_t blocks = (count + THREADS - 1) / THREADS;
    return (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
}

#define EACH(i, count)                                                                                       \
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count);                              \
         i += (size_t)gridDim.x * blockDim.x)

__global__ static void bias_kernel(size_t count, size_t cols, const float *bias, float *z, int relu)
{
    EACH(i, count)
    {
        const float value = z[i] + bias[i % cols];
        z[i] = relu && 0.0f > value ? 0.0f : value; // NaN stays NaN
    }
}

__global__ static void relu_backward_kernel(size_t count, const float *activation, float *grad)
{
    EACH(i, count)
    {
        grad[i] = activation[i] > 0.0f ? grad[i] : 0.0f;
    }
}

__global__ static void column_sum_kernel(size_t rows, size_t cols, const float *z, float *sum)
{
    EACH(c, cols)
    {
        float total = 0.0f;
        for (size_t r = 0; r < rows; r++) {
            total += z[r * cols + c];
        }
        sum[c] = total;
    }
}

__device__ static float block_sum(float value, float *shared)
{
    shared[threadIdx.x] = value;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            shared[threadIdx.x] += shared[threadIdx.x + half];
        }
        __syncthreads();
    }
    const float total = shared[0];
    __syncthreads();
    return total;
}

__device__ static float block_max(float value, float *shared)
{
    shared[threadIdx.x] = value;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half && shared[threadIdx.x + half] > shared[threadIdx.x]) {
            shared[threadIdx.x] = shared[threadIdx.x + half];
        }
        __syncthreads();
    }
    const float max = shared[0];
    __syncthreads();
    return max;
}

// One block a row.
__global__ static void softmax_kernel(size_t cols, float *logits, const uint32_t *labels, float scale,
                                      struct kernels_cuda_loss *row_losses)
{
    __shared__ float shared[THREADS];
    float *z = logits + (size_t)blockIdx.x * cols;
    const size_t label = labels[blockIdx.x];
    const float label_logit = z[label];
    float mine = z[0];
    for (size_t c = threadIdx.x; c < cols; c += THREADS) {
        mine = z[c] > mine ? z[c] : mine;
    }
    const float max = block_max(mine, shared);
    float earlier = 0.0f; // how often the largest logit stands before the label: the lowest index wins
    for (size_t c = threadIdx.x; c < label; c += THREADS) {
        earlier += z[c] == max ? 1.0f : 0.0f;
    }
    earlier = block_sum(earlier, shared); // also: nobody writes before all have read
    float part = 0.0f;
    for (size_t c = threadIdx.x; c < cols; c += THREADS) {
        z[c] = expf(z[c] - max);
        part += z[c];
    }
    const float sum = block_sum(part, shared), factor = scale / sum;
    for (size_t c = threadIdx.x; c < cols; c += THREADS) {
        z[c] = z[c] * factor - (c == label ? scale : 0.0f);
    }
    if (threadIdx.x == 0) {
        row_losses[blockIdx.x].loss_sum = log((double)sum) - (double)(label_logit - max);
        row_losses[blockIdx.x].correct = label_logit == max && earlier == 0.0f;
    }
}

// One thread, in the order of the rows: batches are small, and the sum is the same every time.
__global__ static void loss_kernel(size_t rows, const struct kernels_cuda_loss *row_losses,
                                   struct kernels_cuda_loss *total)
{
    struct kernels_cuda_loss sum = {0.0, 0};
    for (size_t r = 0; r < rows; r++) {
        sum.loss_sum += row_losses[r].loss_sum;
        sum.correct += row_losses[r].correct;
    }
    *total = sum;
}

__global__ static void sgd_kernel(size_t count, struct kernels_cuda_sgd o, const float *grad,
                                  const float *correction, float *m, float *x)
{
    EACH(i, count)
    {
        float direction = grad[i] + o.weight_decay * x[i];
        if (m != NULL) {
            direction = o.momentum * m[i] + direction;
            m[i] = direction;
        }
        x[i] -= o.rate * (correction != NULL ? direction - correction[i] : direction);
    }
}

__global__ static void adamw_kernel(size_t count, struct kernels_cuda_adamw o, const float *grad,
                                    const float *correction, float *m, float *v, float *x)
{
    EACH(i, count)
    {
        const float g = grad[i];
        m[i] = o.beta1 * m[i] + (1.0f - o.beta1) * g;
        v[i] = o.beta2 * v[i] + (1.0f - o.beta2) * (g * g);
        const float direction =
            m[i] * o.unbias1 / (sqrtf(v[i] * o.unbias2) + o.epsilon) + o.weight_decay * x[i];
        x[i] -= o.rate * (correction != NULL ? direction - correction[i] : direction);
    }
}

void kernels_cuda_bias(size_t rows, size_t cols, const float *bias, float *z, int relu)
{
    bias_kernel<<<blocks_for(rows * cols), THREADS>>>(rows * cols, cols, bias, z, relu);
}

void kernels_cuda_relu_backward(size_t count, const float *activation, float *grad)
{
    relu_backward_kernel<<<blocks_for(count), THREADS>>>(count, activation, grad);
}

void kernels_cuda_column_sum(size_t rows, size_t cols, const float *z, float *sum)
{
    column_sum_kernel<<<blocks_for(cols), THREADS>>>(rows, cols, z, sum);
}

void kernels_cuda_softmax(size_t rows, size_t cols, float *logits, const uint32_t *labels, float scale,
                          struct kernels_cuda_loss *row_losses, struct kernels_cuda_loss *total)
{
    softmax_kernel<<<(unsigned)rows, THREADS>>>(cols, logits, labels, scale, row_losses);
    loss_kernel<<<1, 1>>>(rows, row_losses, total);
}

void kernels_cuda_sgd(size_t count, struct kernels_cuda_sgd options, const float *grad,
                      const float *correction, float *m, float *x)
{
    sgd_kernel<<<blocks_for(count), THREADS>>>(count, options, grad, correction, m, x);
}

void kernels_cuda_adamw(size_t count, struct kernels_cuda_adamw options, const float *grad,
                        const float *correction, float *m, float *v, float *x)
{
    adamw_kernel<<<blocks_for(count), THREADS>>>(count, options, grad, correction, m, v, x);
}
