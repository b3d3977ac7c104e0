// The functions for decoders, for processors with AVX-512 F, BW, DQ and VL.
#define KERNELS_SEQUENCE kernels_cpu_sequence_avx512
#define KERNELS_GEMM     kernels_cpu_gemm_avx512
#include "kernels/cpu/sequence_body.h"
