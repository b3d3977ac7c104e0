// The loops for processors with AVX2; CMake gives this file its flags.
#define KERNELS_PATH      avx2
#define KERNELS_TABLE     kernels_cpu_avx2
#define KERNELS_GEMM      kernels_cpu_gemm_avx2
#define KERNELS_IN_PIECES kernels_cpu_in_pieces_avx2
#define KERNELS_PIECES    kernels_cpu_pieces_avx2
#include "kernels/cpu/loops_body.h"
