// The fused apply for scalar.
#define KERNELS_APPLY kernels_cpu_apply_scalar
#include "kernels/cpu/apply_body.h"
