// The functions for decoders, for processors with AVX2.
#define KERNELS_SEQUENCE kernels_cpu_sequence_avx2
#define KERNELS_GEMM     kernels_cpu_gemm_avx2
#include "kernels/cpu/sequence_body.h"
