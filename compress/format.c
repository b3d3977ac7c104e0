// Names of value formats.
#include "compress/compress.h"

#include <string.h>

static const char *const names[KERNELS_FORMATS] = {
    [KERNELS_FP32] = "fp32", [KERNELS_FP16] = "fp16", [KERNELS_INT8] = "int8", [KERNELS_BF16] = "bf16",
    [KERNELS_INT4] = "int4", [KERNELS_INT2] = "int2", [KERNELS_SIGN] = "sign"};

enum base_error compress_format_parse(const char *name, enum kernels_format *format, struct base_reason *why)
{
    for (size_t i = 0; i < KERNELS_FORMATS; i++) {
        if (strcmp(name, names[i]) == 0) {
            *format = (enum kernels_format)i;
            return BASE_OK;
        }
    }
    return base_fail(why, BASE_EINVAL,
                     "unknown value format '%.40s': expected fp32, fp16, bf16, int8, int4, int2 or sign",
                     name);
}

const char *compress_format_name(enum kernels_format format)
{
    BASE_ASSERT((size_t)format < KERNELS_FORMATS);
    return names[format];
}
