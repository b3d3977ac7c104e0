// The functions for decoders, for any processor (on x86-64 the compiler may use SSE2).
#define KERNELS_SEQUENCE kernels_cpu_sequence_scalar
#define KERNELS_PRODUCT  kernels_cpu_product
#include "kernels/cpu/sequence_body.h"
