// Names of value formats.
#include "compress/compress.h"

static const char *const names[KERNELS_FORMATS] = {
    [KERNELS_FP32] = "fp32", [KERNELS_FP16] = "fp16", [KERNELS_INT8] = "int8", [KERNELS_BF16] = "bf16",
    [KERNELS_INT4] = "int4", [KERNELS_INT2] = "int2", [KERNELS_SIGN] = "sign"};

const char *compress_format_name(enum kernels_format format)
{
    BASE_ASSERT((size_t)format < KERNELS_FORMATS);
    return names[format];
}
