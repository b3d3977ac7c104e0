// The loops for any processor (on x86-64 the compiler may use SSE2).
#define KERNELS_TABLE kernels_cpu_scalar
#include "kernels/cpu/loops_body.h"
