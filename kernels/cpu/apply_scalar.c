// The fused apply for any processor.
#define KERNELS_APPLY kernels_cpu_apply_scalar
#define HASH_CHANGE   plain_hash_change
#define HASH_RUN      plain_hash_run
#include "kernels/cpu/apply_body.h"
