// The fused apply for avx512.
#define KERNELS_APPLY kernels_cpu_apply_avx512
#include "kernels/cpu/apply_body.h"
