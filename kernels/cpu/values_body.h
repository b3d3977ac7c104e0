// The value formats, compiled once for each instruction set. The including file defines KERNELS_VALUES and
// either uses the functions of values_plain.h or replaces them. This file contains the parts that gcc and
// clang vectorise well. There is no fused multiply-add, and sums have 16 lanes in a fixed order, so every
// path gives the same bits.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/values_plain.h"

#define LANES       16u
#define BLOCK_BYTES (8 + BLOCK) // maximum over all formats with blocks

static inline float magnitude_of(float value)
{
    return float_of(bits_of(value) & BITS_MAGNITUDE);
}

// Magnitudes of finite numbers, compared as integers.
static float block_largest(size_t count, const float *value)
{
    int32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t magnitude = (int32_t)(bits_of(value[i]) & BITS_MAGNITUDE);
        largest = magnitude > largest ? magnitude : largest;
    }
    return float_of((uint32_t)largest);
}

static float block_smallest(size_t count, const float *value)
{
    int32_t smallest = BITS_MAGNITUDE;
    for (size_t i = 0; i < count; i++) {
        int32_t magnitude = (int32_t)(bits_of(value[i]) & BITS_MAGNITUDE);
        smallest = magnitude < smallest ? magnitude : smallest;
    }
    return float_of((uint32_t)smallest);
}

static inline float lanes_sum(float lane[LANES])
{
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t l = 0; l < width; l++)
            lane[l] += lane[l + width];
    return lane[0];
}

// The sum of magnitudes / 256, so that a block of the largest numbers does not overflow. value[] is padded
// with zeros up to BLOCK.
static float block_sum(const float *value)
{
    float lane[LANES] = {0};
    for (size_t i = 0; i < BLOCK; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += magnitude_of(value[i + l]) * 0x1p-8f;
    return lanes_sum(lane);
}

struct halves { // the magnitudes of a block above a split, and the others
    float low_sum, high_sum;
    size_t high_count;
};

static struct halves block_halves(const float *value, float split)
{
    float low[LANES] = {0}, high[LANES] = {0};
    uint32_t above[LANES] = {0};
    for (size_t i = 0; i < BLOCK; i += LANES)
        for (size_t l = 0; l < LANES; l++) {
            float magnitude = magnitude_of(value[i + l]), part = magnitude * 0x1p-8f;
            uint32_t mask = magnitude > split ? ~0u : 0u;
            high[l] += float_of(bits_of(part) & mask);
            low[l] += float_of(bits_of(part) & ~mask);
            above[l] += mask & 1;
        }
    struct halves halves = {.low_sum = lanes_sum(low), .high_sum = lanes_sum(high)};
    for (size_t l = 0; l < LANES; l++)
        halves.high_count += above[l];
    return halves;
}

// The mean of `count` magnitudes from their sum / 256. It is 0 if the mean is denormal, so that the treatment
// of denormals does not matter, and the largest finite number if rounding would make it infinite.
static float mean_of(float sum, size_t count)
{
    if (count == 0)
        return 0.0f;
    float mean = sum * (256.0f / (float)(uint32_t)count);
    uint32_t bits = bits_of(mean);
    return bits < BITS_NORMAL ? 0.0f : bits > BITS_LARGEST ? float_of(BITS_LARGEST) : mean;
}

// The largest magnitude / the largest code. A block that is too small for a normal scale becomes zero. The
// product of the scale and the largest code never overflows.
static float scale_of(float largest)
{
    if (largest < 127.0f * 0x1p-126f)
        return 0.0f;
    float scale = largest / 127.0f;
    return bits_of(127.0f * scale) >= BITS_INFINITY ? float_of(bits_of(scale) - 1) : scale;
}

static void block_int8_write(size_t count, float *value, uint8_t *out)
{
    int8_t code[BLOCK];
    float scale = scale_of(block_largest(count, value));
    bytes_put_u32(out, bits_of(scale));
    INT8_WRITE(value, scale, code);
    memcpy(out + 4, code, BLOCK);
}

static void block_int8_read(const uint8_t *in, float *value)
{
    float scale = float_of(bytes_get_u32(in));
    for (size_t i = 0; i < BLOCK; i++)
        value[i] = scale * (float)(int8_t)in[4 + i];
}

static void int4_levels(float low, float high, float level[2 * KERNELS_INT4_LEVELS])
{
    static const float place[KERNELS_INT4_LEVELS] = KERNELS_INT4_PLACES;
    for (size_t m = 0; m < KERNELS_INT4_LEVELS; m++) {
        level[m] = low + (high - low) * place[m];
        level[KERNELS_INT4_LEVELS + m] = -level[m];
    }
    level[KERNELS_INT4_LEVELS - 1] = high; // the sum may round to a larger number
    level[2 * KERNELS_INT4_LEVELS - 1] = -high;
}

static void block_int4_write(size_t count, float *value, uint8_t *out)
{
    float low = block_smallest(count, value), high = block_largest(count, value);
    float level[2 * KERNELS_INT4_LEVELS], middle[KERNELS_INT4_LEVELS - 1];
    high = bits_of(high) < KERNELS_INT4_MIN ? 0.0f : high;
    low = bits_of(low) < BITS_NORMAL || high == 0.0f ? 0.0f : low;
    bytes_put_u32(out, bits_of(low));
    bytes_put_u32(out + 4, bits_of(high));
    int4_levels(low, high, level);
    for (size_t m = 0; m + 1 < KERNELS_INT4_LEVELS; m++)
        middle[m] = 0.5f * level[m] + 0.5f * level[m + 1];
    INT4_WRITE(value, level, middle, out + 8);
}

static void block_int4_read(const uint8_t *in, float *value)
{
    float level[2 * KERNELS_INT4_LEVELS];
    int4_levels(float_of(bytes_get_u32(in)), float_of(bytes_get_u32(in + 4)), level);
    INT4_READ(in + 8, level, value);
}

static inline void int2_levels(float low, float high, float level[4])
{
    level[0] = low;
    level[1] = high;
    level[2] = -low;
    level[3] = -high;
}

// Two levels: the means of the magnitudes on both sides of a split. The split is above the smallest magnitude
// by 1.5 times the mean distance from it. That is near the optimum for an exponential tail (1.59; the top-k
// of Gaussian and heavier vectors) and for a whole Gaussian.
static void block_int2_write(size_t count, float *value, uint8_t *out)
{
    float smallest = block_smallest(count, value);
    float split = smallest + 1.5f * (mean_of(block_sum(value), count) - smallest);
    split = split > smallest ? split : smallest;
    struct halves halves = block_halves(value, split);
    float low = mean_of(halves.low_sum, count - halves.high_count);
    float high = mean_of(halves.high_sum, halves.high_count), level[4];
    high = high > low ? high : low;
    int2_levels(low, high, level);
    bytes_put_u32(out, bits_of(low));
    bytes_put_u32(out + 4, bits_of(high));
    INT2_WRITE(value, split, level, out + 8);
}

static void block_int2_read(const uint8_t *in, float *value)
{
    float level[4];
    int2_levels(float_of(bytes_get_u32(in)), float_of(bytes_get_u32(in + 4)), level);
    INT2_READ(in + 8, level, value);
}

static void block_sign_write(size_t count, float *value, uint8_t *out)
{
    float scale = mean_of(block_sum(value), count);
    bytes_put_u32(out, bits_of(scale));
    if (scale == 0.0f)
        memset(value, 0, BLOCK * sizeof *value); // including the signs
    SIGN_WRITE(value, scale, out + 4);
}

static void block_sign_read(const uint8_t *in, float *value)
{
    SIGN_READ(in + 4, float_of(bytes_get_u32(in)), value);
}

// The functions of a format with blocks.
struct block_format {
    void (*write)(size_t count, float *value, uint8_t *out); // value[] is padded with zeros up to BLOCK
    void (*read)(const uint8_t *in, float *value);
};

static const struct block_format block_formats[KERNELS_FORMATS] = {
    [KERNELS_INT8] = {block_int8_write, block_int8_read},
    [KERNELS_INT4] = {block_int4_write, block_int4_read},
    [KERNELS_INT2] = {block_int2_write, block_int2_read},
    [KERNELS_SIGN] = {block_sign_write, block_sign_read},
};

static void blocks_write(enum kernels_format format, size_t count, float *value, uint8_t *out)
{
    const struct block_format *blocks = &block_formats[format];
    size_t bytes = kernels_section_bytes(format, BLOCK), rest = count % BLOCK;
    for (size_t left = count / BLOCK; left > 0; left--, value += BLOCK, out += bytes)
        blocks->write(BLOCK, value, out);
    if (rest > 0) {
        float padded[BLOCK] = {0};
        uint8_t whole[BLOCK_BYTES];
        memcpy(padded, value, rest * sizeof *value);
        blocks->write(rest, padded, whole);
        memcpy(value, padded, rest * sizeof *value);
        memcpy(out, whole, kernels_section_bytes(format, rest));
    }
}

static void blocks_read(enum kernels_format format, size_t count, const uint8_t *in, float *value)
{
    const struct block_format *blocks = &block_formats[format];
    size_t bytes = kernels_section_bytes(format, BLOCK), rest = count % BLOCK;
    for (size_t left = count / BLOCK; left > 0; left--, value += BLOCK, in += bytes)
        blocks->read(in, value);
    if (rest > 0) {
        float padded[BLOCK];
        uint8_t whole[BLOCK_BYTES] = {0};
        memcpy(whole, in, kernels_section_bytes(format, rest));
        blocks->read(whole, padded);
        memcpy(value, padded, rest * sizeof *value);
    }
}

static void bf16_write(size_t count, float *value, uint8_t *out)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = bits_of(value[i]), magnitude = bits & BITS_MAGNITUDE;
        uint32_t upper = (magnitude + 0x7fffu + (magnitude >> 16 & 1)) >> 16;
        upper = (bits >> 16 & 0x8000u) | (upper > 0x7f7fu ? 0x7f7fu : upper);
        bytes_put_u16(out + 2 * i, upper);
        value[i] = float_of(upper << 16);
    }
}

static void bf16_read(size_t count, const uint8_t *in, float *value)
{
    for (size_t i = 0; i < count; i++)
        value[i] = float_of(bytes_get_u16(in + 2 * i) << 16);
}

static void fp32_write(size_t count, const float *value, uint8_t *out)
{
    for (size_t i = 0; i < count; i++)
        bytes_put_u32(out + 4 * i, bits_of(value[i]));
}

static void fp32_read(size_t count, const uint8_t *in, float *value)
{
    for (size_t i = 0; i < count; i++)
        value[i] = float_of(bytes_get_u32(in + 4 * i));
}

static void values_write(enum kernels_format format, size_t count, float *value, uint8_t *section)
{
    switch (format) {
    case KERNELS_FP32:
        fp32_write(count, value, section);
        break;
    case KERNELS_FP16:
        HALVES_WRITE(count, value, section);
        break;
    case KERNELS_BF16:
        bf16_write(count, value, section);
        break;
    default:
        blocks_write(format, count, value, section);
    }
}

static void values_read(enum kernels_format format, size_t count, const uint8_t *section, float *value)
{
    switch (format) {
    case KERNELS_FP32:
        fp32_read(count, section, value);
        break;
    case KERNELS_FP16:
        HALVES_READ(count, section, value);
        break;
    case KERNELS_BF16:
        bf16_read(count, section, value);
        break;
    default:
        blocks_read(format, count, section, value);
    }
}

// True if the magnitudes of all 16-bit numbers are below `limit`.
static bool valid16(size_t count, const uint8_t *in, uint32_t limit)
{
    uint32_t broken = 0;
    for (size_t i = 0; i < count; i++)
        broken |= (bytes_get_u16(in + 2 * i) & 0x7fffu) >= limit;
    return !broken;
}

static bool valid32(size_t count, const uint8_t *in)
{
    uint32_t broken = 0;
    for (size_t i = 0; i < count; i++)
        broken |= (bytes_get_u32(in + 4 * i) & BITS_MAGNITUDE) >= BITS_INFINITY;
    return !broken;
}

static bool scale_valid(uint32_t scale)
{
    return scale == 0 || (scale >= BITS_NORMAL && scale < BITS_INFINITY);
}

// Checks one block of `bytes` bytes. A scale of 0 allows only code 0.
static bool block_int8_valid(const uint8_t *in, size_t bytes)
{
    uint32_t scale = bytes_get_u32(in);
    uint8_t broken = 0, any = 0;
    for (size_t i = 4; i < bytes; i++) {
        broken |= (uint8_t)(in[i] == 0x80u);
        any |= in[i];
    }
    return scale_valid(scale) && bits_of(127.0f * float_of(scale)) < BITS_INFINITY && !broken &&
           (scale != 0 || !any);
}

// Checks the scales of a format that has two, the lower one first.
static bool pair_valid(uint32_t low, uint32_t high)
{
    return scale_valid(low) && scale_valid(high) && low <= high;
}

static bool block_int4_valid(const uint8_t *in, size_t bytes)
{
    uint32_t low = bytes_get_u32(in), high = bytes_get_u32(in + 4);
    uint8_t minus_low = 0, any = 0;
    for (size_t i = 8; i < bytes; i++) {
        minus_low |= (uint8_t)((in[i] & 0x0fu) == 0x08u) | (uint8_t)((in[i] & 0xf0u) == 0x80u);
        any |= in[i];
    }
    return pair_valid(low, high) && (high == 0 || high >= KERNELS_INT4_MIN) && (low != 0 || !minus_low) &&
           (high != 0 || !any);
}

static bool block_int2_valid(const uint8_t *in, size_t bytes)
{
    uint32_t low = bytes_get_u32(in), high = bytes_get_u32(in + 4);
    uint8_t minus_low = 0, any = 0;
    for (size_t i = 8; i < bytes; i++) {
        minus_low |= (uint8_t)(in[i] & ~(in[i] << 1) & 0xaa);
        any |= in[i];
    }
    return pair_valid(low, high) && (low != 0 || !minus_low) && (high != 0 || !any);
}

static bool block_sign_valid(const uint8_t *in, size_t bytes)
{
    uint32_t scale = bytes_get_u32(in);
    uint8_t any = 0;
    for (size_t i = 4; i < bytes; i++)
        any |= in[i];
    return scale_valid(scale) && (scale != 0 || !any);
}

static bool blocks_valid(enum kernels_format format, size_t count, const uint8_t *in)
{
    static bool (*const valid[KERNELS_FORMATS])(const uint8_t *, size_t) = {
        [KERNELS_INT8] = block_int8_valid,
        [KERNELS_INT4] = block_int4_valid,
        [KERNELS_INT2] = block_int2_valid,
        [KERNELS_SIGN] = block_sign_valid,
    };
    static const unsigned code_bits[KERNELS_FORMATS] = {
        [KERNELS_INT8] = 8, [KERNELS_INT4] = 4, [KERNELS_INT2] = 2, [KERNELS_SIGN] = 1};
    size_t whole = kernels_section_bytes(format, BLOCK), left = kernels_section_bytes(format, count);
    unsigned used = (unsigned)(count * code_bits[format] % 8); // bits of the last byte
    if (used > 0 && in[left - 1] >> used != 0)
        return false;
    for (; left > 0; left -= left < whole ? left : whole, in += whole)
        if (!valid[format](in, left < whole ? left : whole))
            return false;
    return true;
}

static bool values_valid(enum kernels_format format, size_t count, const uint8_t *section)
{
    switch (format) {
    case KERNELS_FP32:
        return valid32(count, section);
    case KERNELS_FP16:
        return valid16(count, section, 0x7c00u);
    case KERNELS_BF16:
        return valid16(count, section, 0x7f80u);
    default:
        return blocks_valid(format, count, section);
    }
}

const struct kernels_values KERNELS_VALUES = {
    .write = values_write, .read = values_read, .valid = values_valid};
