// The loops for processors with AVX-512 F, BW, DQ and VL; CMake gives this file its flags.
#define KERNELS_PATH      avx512
#define KERNELS_TABLE     kernels_cpu_avx512
#define KERNELS_GEMM      kernels_cpu_gemm_avx512
#define KERNELS_IN_PIECES kernels_cpu_in_pieces_avx512
#define KERNELS_PIECES    kernels_cpu_pieces_avx512
#include "kernels/cpu/loops_body.h"
