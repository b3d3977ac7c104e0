// The passes of selection for processors with avx512.
#define kernels_cpu_select_scalar kernels_cpu_select_avx512
#include "kernels/cpu/select_scalar.c"
