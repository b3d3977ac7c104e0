// The value formats for any processor (on x86-64 the compiler may use SSE2).
#define KERNELS_VALUES kernels_cpu_values_scalar
#define HALVES_WRITE   plain_halves_write
#define HALVES_READ    plain_halves_read
#define INT8_WRITE     plain_int8_write
#define INT4_WRITE     plain_int4_write
#define INT4_READ      plain_int4_read
#define INT2_WRITE     plain_int2_write
#define INT2_READ      plain_int2_read
#define SIGN_WRITE     plain_sign_write
#define SIGN_READ      plain_sign_read
#include "kernels/cpu/values_body.h"
