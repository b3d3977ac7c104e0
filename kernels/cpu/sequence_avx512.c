// The functions for decoders, for processors with AVX-512 F, BW, DQ and VL.
#define KERNELS_SEQUENCE kernels_cpu_sequence_avx512
#define KERNELS_PRODUCT  kernels_cpu_product_avx512
#include "kernels/cpu/sequence_body.h"
