// The CPU backend inside kernels/: one constant table per instruction set, all compiled from the same source
// (loops_body.h) with the same results, bit for bit, except for matrix products; and the functions of
// OpenBLAS and of memory that they share.
#ifndef KERNELS_CPU_CPU_H
#define KERNELS_CPU_CPU_H

#include "kernels/kernels.h"

// "scalar", "avx2" or "avx512"; NULL for the best that this processor has. Returns NULL for a path that this
// processor or build lacks.
const struct kernels *kernels_cpu_table(const char *path);
void kernels_cpu_set_threads(unsigned threads);
unsigned kernels_cpu_threads(void);
bool kernels_cpu_blas_lags(void); // OpenBLAS's core does not use all instructions of the best path here
void kernels_cpu_describe(const struct kernels *table, char *text, size_t capacity);

extern const struct kernels kernels_cpu_scalar, kernels_cpu_avx2, kernels_cpu_avx512;
extern const struct kernels_values kernels_cpu_values_scalar, kernels_cpu_values_avx2,
    kernels_cpu_values_avx512;
extern const struct kernels_apply kernels_cpu_apply_scalar, kernels_cpu_apply_avx2, kernels_cpu_apply_avx512;
extern const struct kernels_vectors kernels_cpu_vectors; // of all paths
extern const struct kernels_image kernels_cpu_image_scalar, kernels_cpu_image_avx2, kernels_cpu_image_avx512;
extern const struct kernels_sequence kernels_cpu_sequence_scalar, kernels_cpu_sequence_avx2,
    kernels_cpu_sequence_avx512;
extern const struct kernels_coding kernels_cpu_coding_scalar, kernels_cpu_coding_avx2,
    kernels_cpu_coding_avx512;

// Members of the table that do not depend on the path.
void *kernels_cpu_alloc(size_t bytes);
void kernels_cpu_release(void *memory);
void kernels_cpu_copy(void *to, const void *from, size_t bytes);
void kernels_cpu_wait(void);
void kernels_cpu_gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                      const float *a, const float *b, float beta, float *c);
// The product of kernels->gemm for matrices with gaps: their rows, as they are stored, are `stride` floats
// apart. taker: in pieces; else NULL.
struct kernels_cpu_product {
    bool transpose_a, transpose_b;
    size_t m, n, k;
    float alpha, beta;
    const float *a, *b;
    float *c;
    size_t stride_a, stride_b, stride_c;
    const struct kernels_taker *taker;
};
static inline struct kernels_cpu_product kernels_cpu_without_gaps(bool transpose_a, bool transpose_b,
                                                                  size_t m, size_t n, size_t k, float alpha,
                                                                  const float *a, const float *b, float beta,
                                                                  float *c)
{
    return (struct kernels_cpu_product){.transpose_a = transpose_a,
                                        .transpose_b = transpose_b,
                                        .m = m,
                                        .n = n,
                                        .k = k,
                                        .alpha = alpha,
                                        .beta = beta,
                                        .a = a,
                                        .b = b,
                                        .c = c,
                                        .stride_a = transpose_a ? m : k,
                                        .stride_b = transpose_b ? k : n,
                                        .stride_c = n};
}
void kernels_cpu_product(const struct kernels_cpu_product *product);
void kernels_cpu_product_avx2(const struct kernels_cpu_product *product);
void kernels_cpu_product_avx512(const struct kernels_cpu_product *product);
// As kernels_cpu_gemm, with the products of their own path (gemm_avx2.c, gemm_avx512.c).
void kernels_cpu_gemm_avx2(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                           const float *a, const float *b, float beta, float *c);
void kernels_cpu_gemm_avx512(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                             const float *a, const float *b, float beta, float *c);
// Products in pieces (kernels.h). A product that is small enough is one piece.
#define KERNELS_CPU_PIECE (64u * 1024u) // floats, on the stack
typedef void kernels_cpu_multiplier(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k,
                                    float alpha, const float *a, const float *b, float beta, float *c);
bool kernels_cpu_is_one_piece(size_t m, size_t n, size_t k);
void kernels_cpu_one_piece(kernels_cpu_multiplier *gemm, size_t m, size_t n, size_t k, const float *a,
                           const float *b, const struct kernels_taker *taker);
void kernels_cpu_pieces(size_t m, size_t n, size_t k, const float *a, const float *b,
                        const struct kernels_taker *taker);
bool kernels_cpu_in_pieces_avx2(size_t m, size_t n, size_t k);
void kernels_cpu_pieces_avx2(size_t m, size_t n, size_t k, const float *a, const float *b,
                             const struct kernels_taker *taker);
bool kernels_cpu_in_pieces_avx512(size_t m, size_t n, size_t k);
void kernels_cpu_pieces_avx512(size_t m, size_t n, size_t k, const float *a, const float *b,
                               const struct kernels_taker *taker);

#endif
