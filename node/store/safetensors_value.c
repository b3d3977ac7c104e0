#include "node/store/safetensors.h"

#include <math.h>
#include <string.h>

static double half_value(uint16_t bits)
{
    const double sign = bits & 0x8000 ? -1.0 : 1.0;
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    if (exponent == 31)
        return mantissa ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24));
}

// Through memcpy, because files from elsewhere need not be aligned.
double node_tensor_value(const struct node_tensor *tensor, size_t index)
{
    union {
        float f32;
        double f64;
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
    } value;
    const size_t bytes = node_tensor_type_bytes(tensor->type);
    memcpy(&value, (const uint8_t *)tensor->data + index * bytes, bytes);
    switch (tensor->type) {
    case NODE_TENSOR_F32:
        return (double)value.f32;
    case NODE_TENSOR_F64:
        return value.f64;
    case NODE_TENSOR_F16:
        return half_value(value.u16);
    case NODE_TENSOR_BF16:
        value.u32 = (uint32_t)value.u16 << 16;
        return (double)value.f32;
    case NODE_TENSOR_I8:
        return value.i8;
    case NODE_TENSOR_I16:
        return value.i16;
    case NODE_TENSOR_I32:
        return value.i32;
    case NODE_TENSOR_I64:
        return (double)value.i64;
    case NODE_TENSOR_U8:
    case NODE_TENSOR_BOOL:
        return value.u8;
    case NODE_TENSOR_U16:
        return value.u16;
    case NODE_TENSOR_U32:
        return value.u32;
    case NODE_TENSOR_U64:
        return (double)value.u64;
    }
    return (double)NAN;
}
