// The table of vector and matrix operations used by training. One struct of functions per backend;
// kernels/registry.c is the only file that knows which backends were built.
//
// Vectors passed to these functions are in the backend's memory (alloc); only upload and download copy
// between it and the host. On the CPU it is ordinary memory, 64-byte aligned. Matrices are row-major fp32.
// Every call may be asynchronous: results, including `loss` outputs, are valid after `download` or `wait`.
//
// A table is immutable and shared. A vector has one owner at a time; calls on different vectors may run in
// different threads.
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include "base/error.h"
#include "kernels/apply.h"
#include "kernels/coding.h"
#include "kernels/decoder.h"
#include "kernels/image.h"
#include "kernels/select.h"
#include "kernels/sequence.h"
#include "kernels/values.h"
#include "kernels/vectors.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Decoupled weight decay and the bias corrections of Adam (Kingma, Ba 2015; Loshchilov, Hutter 2019).
struct kernels_adamw {
    double beta1, beta2; // so that 1 - beta is exact: of a beta of 0.999 in float it is 1.3e-5 too small
    float rate, epsilon, weight_decay;
    float correction1, correction2; // 1 - beta1^t and 1 - beta2^t for step t (from 1)
};

// Lion (Chen and others 2023, algorithm 2): direction sign(beta1*m + (1 - beta1)*g) + weight_decay*x, then m
// = beta2*m + (1 - beta2)*g.
struct kernels_lion {
    double beta1, beta2; // as above
    float rate, weight_decay;
};

struct kernels_sgd {
    float rate, momentum, weight_decay; // heavy ball: m = momentum*m + g + weight_decay*x
};

// The result of one batch.
struct kernels_loss {
    double loss_sum; // sum over rows of the cross entropy, natural logarithm
    size_t correct;  // rows whose largest logit is the label (lowest index wins ties)
};

// Receives a matrix piece by piece: `count` elements, row-major, starting at element `first`. `take` may
// overwrite the values; they are not valid after it returns.
#define KERNELS_BESIDE 4
struct kernels_taker {
    void (*take)(void *owner, size_t first, size_t count, float *values);
    void *owner;
    const float *beside[KERNELS_BESIDE]; // vectors that `take` reads at the same elements, prefetched for
                                         // it; NULL: none
};

struct kernels {
    const char *name; // "cpu" or "cuda"
    bool shares_host; // alloc returns ordinary memory: upload and download are not needed

    void *(*alloc)(size_t bytes); // zeroed; NULL when out of memory
    void (*release)(void *memory);
    void (*upload)(void *to_device, const void *from_host, size_t bytes);
    void (*download)(void *to_host, const void *from_device, size_t bytes);
    void (*wait)(void);

    // C[m,n] = alpha * op(A)[m,k] op(B)[k,n] + beta * C; op transposes if the flag is set. Matrices are
    // stored without gaps: A is [m,k] or, if transposed, [k,m].
    void (*gemm)(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                 const float *a, const float *b, float beta, float *c);
    // C[m,n] = A^T B, A [k,m] and B [k,n], for a caller that uses each element once: the same bits as gemm,
    // delivered in pieces that are still in a cache; C is never stored as a whole. in_pieces: whether this
    // product, and the same one with any smaller k, can be computed in this way. Both NULL: none can.
    bool (*in_pieces)(size_t m, size_t n, size_t k);
    void (*gemm_pieces)(size_t m, size_t n, size_t k, const float *a, const float *b,
                        const struct kernels_taker *taker);
    void (*bias_add)(size_t rows, size_t cols, const float *bias, float *z);      // z[r,c] += bias[c]
    void (*bias_add_relu)(size_t rows, size_t cols, const float *bias, float *z); // z = max(z + bias, 0)
    // grad[i] = activation[i] > 0 ? grad[i] : 0
    void (*relu_backward)(size_t count, const float *activation, float *grad);
    void (*column_sum)(size_t rows, size_t cols, const float *z, float *sum); // sum[c] = sum over r of z[r,c]
    // logits[rows,cols] become (softmax(logits) - onehot(labels)) * scale, in place; *loss (host memory) is
    // filled.
    void (*softmax_cross_entropy)(size_t rows, size_t cols, float *logits, const uint32_t *labels,
                                  float scale, struct kernels_loss *loss);
    // One step of the optimiser with the drift correction outside it (DESIGN: drift correction):
    // x -= rate * (direction - correction). `correction` may be NULL. `m`, `v`: state, same length as x.
    void (*sgd_step)(size_t count, const struct kernels_sgd *options, const float *grad,
                     const float *correction, float *m, float *x); // m may be NULL where momentum is 0
    void (*adamw_step)(size_t count, const struct kernels_adamw *options, const float *grad,
                       const float *correction, float *m, float *v, float *x);

    void (*lion_step)(size_t count, const struct kernels_lion *options, const float *grad,
                      const float *correction, float *m, float *x); // NULL: this backend has none

    // This table, with matrix products that round their factors to bf16 and add in fp32; products of vectors
    // stay fp32. NULL: this backend has no such table.
    const struct kernels *bf16;

    // The operations for exchanging compressed deltas, each table in its own header.
    const struct kernels *host; // the CPU's table, for work that stays on the host; in a CPU table, itself
    const struct kernels_select *select;
    const struct kernels_values *values;
    const struct kernels_apply *apply;
    const struct kernels_vectors *vectors;
    const struct kernels_coding *coding;

    const struct kernels_image *image;       // for convolutional networks; NULL: not available on this
                                             // backend
    const struct kernels_sequence *sequence; // for transformer decoders; NULL: not available on this backend
    const struct kernels_decoder *decoder;   // compositions of these and products; NULL where sequence is
};

// device: "cpu", "cuda" or "auto" (CUDA if it was built in and a device answers, else the CPU). `threads`:
// how many threads BLAS may use, >= 1. BASE_EINVAL: unknown name. BASE_ENOTFOUND: the device is not
// available; `why` has the reason. Call this once, before other threads start.
enum base_error kernels_open(const char *device, unsigned threads, const struct kernels **table,
                             struct base_reason *why) BASE_CHECK;

// For `device.precision: bf16`: the table becomes its `bf16`. BASE_EINVAL if the backend has none.
enum base_error kernels_take_bf16(const struct kernels **table, struct base_reason *why) BASE_CHECK;

// One line for the log at start: backend, BLAS and its core, threads ("cpu: OpenBLAS 0.3.21 SkylakeX, 1
// thread").
const char *kernels_describe(const struct kernels *table);

// For the log: why matrix products are slower than this processor allows, and what to do
// ("OPENBLAS_CORETYPE=Haswell keeps ..."), or NULL.
const char *kernels_slowed_by(void);

#endif
