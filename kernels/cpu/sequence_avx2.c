// The functions for decoders, for processors with AVX2.
#define KERNELS_SEQUENCE kernels_cpu_sequence_avx2
#define KERNELS_PRODUCT  kernels_cpu_product_avx2
#include "kernels/cpu/sequence_body.h"
