// The fused apply for avx2.
#define KERNELS_APPLY kernels_cpu_apply_avx2
#include "kernels/cpu/apply_body.h"
