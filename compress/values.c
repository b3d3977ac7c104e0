#include "compress/values.h"
#include "compress/bytes.h"
#include <string.h>

static const char *const names[] = {
    [COMPRESS_FP32] = "fp32", [COMPRESS_FP16] = "fp16", [COMPRESS_INT8] = "int8"};

enum base_error compress_values_parse(const char *name, enum compress_values *values, struct base_reason *why)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            *values = (enum compress_values)i;
            return BASE_OK;
        }
    }
    return base_fail(why, BASE_EINVAL, "unknown value format '%.40s': expected fp32, fp16 or int8", name);
}

const char *compress_values_name(enum compress_values values)
{
    BASE_ASSERT((size_t)values < sizeof names / sizeof names[0]);
    return names[values];
}

size_t compress_values_bytes(enum compress_values values, size_t count)
{
    switch (values) {
    case COMPRESS_FP32:
        return 4 * count;
    case COMPRESS_FP16:
        return 2 * count;
    case COMPRESS_INT8:
        break;
    }
    return count + 4 * ((count + COMPRESS_INT8_BLOCK - 1) / COMPRESS_INT8_BLOCK);
}

bool compress_values_finite(const float *value, size_t count)
{
    uint32_t overflow = 0; // the top bit is set where adding one exponent step to a magnitude carries into it
    for (size_t i = 0; i < count; i++)
        overflow |= magnitude_of(value[i]) + (BITS_MAGNITUDE + 1 - BITS_INFINITY);
    return overflow <= BITS_MAGNITUDE;
}

static float block_largest(const float *value, size_t count)
{
    int32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t magnitude = (int32_t)magnitude_of(value[i]);
        largest = magnitude > largest ? magnitude : largest;
    }
    return float_of((uint32_t)largest);
}

// The scale of a block: its largest magnitude / 127. Blocks too small for a normal scale become zero, so that
// no machine's treatment of denormals matters; 127 * scale never overflows.
static float int8_scale(float largest)
{
    if (largest < 127.0f * 0x1p-126f)
        return 0.0f;
    float scale = largest / 127.0f;
    if (magnitude_of(127.0f * scale) >= BITS_INFINITY)
        scale = float_of(bits_of(scale) - 1);
    return scale;
}

// Round half to even, whatever the rounding mode; |x| < 2^23.
static int32_t round_even(float x)
{
    int32_t whole = (int32_t)x;
    float rest = x - (float)whole;
    int32_t odd = whole & 1;
    int32_t up = (rest > 0.5f) | ((rest == 0.5f) & odd);
    int32_t down = (rest < -0.5f) | ((rest == -0.5f) & odd);
    return whole + up - down;
}

static void int8_block_write(float *value, size_t count, uint8_t *out)
{
    float scale = int8_scale(block_largest(value, count));
    float divisor = scale > 0.0f ? scale : 1.0f; // all codes are 0 for scale 0: such a block is below 2^-118
    bytes_put_u32(out, bits_of(scale));
    for (size_t i = 0; i < count; i++) {
        int32_t code = round_even(value[i] / divisor);
        code = code > 127 ? 127 : code < -127 ? -127 : code;
        out[4 + i] = (uint8_t)code;
        value[i] = scale * (float)code;
    }
}

static enum base_error int8_block_check(const uint8_t *in, size_t count)
{
    uint32_t scale = bytes_get_u32(in);
    bool zero = scale == 0;
    if (!zero && (scale < 0x00800000u || scale >= BITS_INFINITY ||
                  magnitude_of(127.0f * float_of(scale)) >= BITS_INFINITY))
        return BASE_EFORMAT;
    bool broken = false;
    for (size_t i = 0; i < count; i++)
        broken |= in[4 + i] == 0x80u || (zero && in[4 + i] != 0);
    return broken ? BASE_EFORMAT : BASE_OK;
}

static void int8_block_read(const uint8_t *in, size_t count, float *value)
{
    float scale = float_of(bytes_get_u32(in));
    for (size_t i = 0; i < count; i++)
        value[i] = scale * (float)(int8_t)in[4 + i];
}

static size_t int8_block_length(size_t count, size_t from)
{
    return count - from < COMPRESS_INT8_BLOCK ? count - from : COMPRESS_INT8_BLOCK;
}

void compress_values_write(enum compress_values values, float *value, size_t count, uint8_t *out)
{
    switch (values) {
    case COMPRESS_FP32:
        for (size_t i = 0; i < count; i++)
            bytes_put_u32(out + 4 * i, bits_of(value[i]));
        break;
    case COMPRESS_FP16:
        for (size_t i = 0; i < count; i++) {
            uint16_t half = compress_half_from(value[i]);
            bytes_put_u16(out + 2 * i, half);
            value[i] = compress_half_to(half);
        }
        break;
    case COMPRESS_INT8:
        for (size_t i = 0; i < count; i += COMPRESS_INT8_BLOCK) {
            size_t length = int8_block_length(count, i);
            int8_block_write(value + i, length, out);
            out += 4 + length;
        }
        break;
    }
}

enum base_error compress_values_check(enum compress_values values, const uint8_t *in, size_t count)
{
    bool broken = false;
    switch (values) {
    case COMPRESS_FP32:
        for (size_t i = 0; i < count; i++)
            broken |= (bytes_get_u32(in + 4 * i) & BITS_MAGNITUDE) >= BITS_INFINITY;
        break;
    case COMPRESS_FP16:
        for (size_t i = 0; i < count; i++)
            broken |= (bytes_get_u16(in + 2 * i) & 0x7fffu) >= 0x7c00u;
        break;
    case COMPRESS_INT8:
        for (size_t i = 0; i < count && !broken; i += COMPRESS_INT8_BLOCK) {
            size_t length = int8_block_length(count, i);
            broken = int8_block_check(in, length) != BASE_OK;
            in += 4 + length;
        }
        break;
    }
    return broken ? BASE_EFORMAT : BASE_OK;
}

void compress_values_read(enum compress_values values, const uint8_t *in, size_t count, float *value)
{
    switch (values) {
    case COMPRESS_FP32:
        for (size_t i = 0; i < count; i++)
            value[i] = float_of(bytes_get_u32(in + 4 * i));
        break;
    case COMPRESS_FP16:
        for (size_t i = 0; i < count; i++)
            value[i] = compress_half_to(bytes_get_u16(in + 2 * i));
        break;
    case COMPRESS_INT8:
        for (size_t i = 0; i < count; i += COMPRESS_INT8_BLOCK) {
            size_t length = int8_block_length(count, i);
            int8_block_read(in, length, value + i);
            in += 4 + length;
        }
        break;
    }
}
