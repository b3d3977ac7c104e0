// The lengths of value sections: the same on every backend.
#include "kernels/values.h"

#include "base/error.h"

static size_t blocks(size_t count)
{
    return count / KERNELS_VALUES_BLOCK + (count % KERNELS_VALUES_BLOCK != 0);
}

size_t kernels_section_bytes(enum kernels_format format, size_t count)
{
    switch (format) {
    case KERNELS_FP32:
        return 4 * count;
    case KERNELS_FP16:
    case KERNELS_BF16:
        return 2 * count;
    case KERNELS_INT8:
        return 4 * blocks(count) + count;
    case KERNELS_INT4:
        return 8 * blocks(count) + (count + 1) / 2;
    case KERNELS_INT2:
        return 8 * blocks(count) + (count + 3) / 4;
    case KERNELS_SIGN:
        break;
    }
    BASE_ASSERT(format == KERNELS_SIGN);
    return 4 * blocks(count) + (count + 7) / 8;
}
