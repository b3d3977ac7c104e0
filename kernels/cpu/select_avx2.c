// The passes of selection for processors with avx2.
#define kernels_cpu_select_scalar kernels_cpu_select_avx2
#include "kernels/cpu/select_scalar.c"
