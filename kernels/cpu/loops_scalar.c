// The loops for any processor (on x86-64 the compiler may use SSE2).
#define KERNELS_PATH      scalar
#define KERNELS_TABLE     kernels_cpu_scalar
#define KERNELS_GEMM      kernels_cpu_gemm
#define KERNELS_IN_PIECES kernels_cpu_is_one_piece
#define KERNELS_PIECES    kernels_cpu_pieces
#include "kernels/cpu/loops_body.h"
