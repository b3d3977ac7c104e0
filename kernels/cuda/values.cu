// The value formats (kernels/values.h), the same bits as on the CPU: additions in 16 partial sums in the
// order of the entries, no fused multiply-add (the build's flags), IEEE divisions. One warp writes a block of
// values: lane l has the entries l, l + 32, ..., with zeros after the last.
#include "kernels/cuda/device.h"

#include "kernels/cuda/elements.h"
#include "kernels/cuda/formats.h"
#include "kernels/cuda/launch.h"

#define PER_LANE     (BLOCK / WARP)
#define HALF_LARGEST 0x7bffu // 65504
#define LARGEST      0x7f7fffffu
#define ROUND_EVEN   12582912.0f // 1.5 * 2^23: adding it rounds |x| < 2^22 to an integer, ties to even

// --- 16 bits ---

DEVICE uint32_t half_from(float value)
{
    const uint32_t bits = bits_of(value), magnitude = bits & MAGNITUDE_BITS, exponent = magnitude >> 23;
    uint32_t half = 0;
    if (exponent >= 113) { // 2^-14 and up: normal
        const uint32_t rebased = magnitude - (112u << 23);
        half = (rebased + 0xfffu + (rebased >> 13 & 1)) >> 13;
        half = half > HALF_LARGEST ? HALF_LARGEST : half;
    } else if (exponent >= 102) { // 2^-25 and up: a multiple of 2^-24
        const uint32_t mantissa = (magnitude & 0x7fffffu) | NORMAL, shift = 126 - exponent;
        half = (mantissa + (1u << (shift - 1)) - 1 + (mantissa >> shift & 1)) >> shift;
    }
    return (bits >> 16 & 0x8000u) | half;
}

DEVICE uint32_t bf16_from(float value)
{
    const uint32_t bits = bits_of(value), magnitude = bits & MAGNITUDE_BITS;
    const uint32_t upper = (magnitude + 0x7fffu + (magnitude >> 16 & 1)) >> 16;
    return (bits >> 16 & 0x8000u) | (upper > 0x7f7fu ? 0x7f7fu : upper);
}

KERNEL(numbers_write_kernel, struct kernels_cuda_section, s)
{
    EACH(i, s.count)
    {
        if (s.format == KERNELS_FP32) {
            ((uint32_t *)s.out)[i] = bits_of(s.value[i]);
        } else if (s.format == KERNELS_FP16) {
            const uint32_t half = half_from(s.value[i]);
            ((uint16_t *)s.out)[i] = (uint16_t)half;
            s.value[i] = half_to(half);
        } else {
            const uint32_t upper = bf16_from(s.value[i]);
            ((uint16_t *)s.out)[i] = (uint16_t)upper;
            s.value[i] = float_of(upper << 16);
        }
    }
}

// --- blocks: scales ---

// The block of a warp.
struct block {
    float value[PER_LANE];
    size_t first;
    unsigned count;
};

DEVICE float absolute(float value)
{
    return float_of(bits_of(value) & MAGNITUDE_BITS);
}

// As on the CPU, where lane[l] adds the entries l, l + 16, ... one after another, and then halves are added
// to halves.
DEVICE float lanes_sum(const float part[PER_LANE])
{
    float sum = 0.0f;
    for (unsigned j = 0; j < PER_LANE; j++) {
        const float next = warp_xor_f32(part[j], 16);
        sum += part[j];
        sum += next;
    }
    for (unsigned width = 8; width > 0; width /= 2)
        sum += warp_xor_f32(sum, width);
    return float_of(warp_from_u32(bits_of(sum), 0));
}

DEVICE float block_largest(const struct block *b)
{
    uint32_t largest = 0;
    for (unsigned j = 0; j < PER_LANE; j++) {
        const uint32_t magnitude = magnitude_of(b->value[j]);
        largest = magnitude > largest ? magnitude : largest;
    }
    return float_of(warp_max_u32(largest));
}

DEVICE float block_smallest(const struct block *b)
{
    uint32_t largest = 0; // of the complements of the magnitudes
    for (unsigned j = 0; j < PER_LANE; j++) {
        const uint32_t rest = MAGNITUDE_BITS - magnitude_of(b->value[j]);
        largest = lane_index() + j * WARP < b->count && rest > largest ? rest : largest;
    }
    return float_of(MAGNITUDE_BITS - warp_max_u32(largest));
}

// The sum of magnitudes / 256, so that a block of the largest numbers does not overflow.
DEVICE float block_sum(const struct block *b)
{
    float part[PER_LANE];
    for (unsigned j = 0; j < PER_LANE; j++)
        part[j] = absolute(b->value[j]) * (1.0f / 256.0f);
    return lanes_sum(part);
}

// The mean of `count` magnitudes from their sum / 256: 0 if that is denormal; always finite.
DEVICE float mean_of(float sum, unsigned count)
{
    if (count == 0)
        return 0.0f;
    const float mean = sum * (256.0f / (float)count);
    const uint32_t bits = bits_of(mean);
    return bits < NORMAL ? 0.0f : bits > LARGEST ? float_of(LARGEST) : mean;
}

DEVICE float scale_of(float largest)
{
    if (largest < 127.0f * float_of(NORMAL))
        return 0.0f;
    const float scale = largest / 127.0f;
    return bits_of(127.0f * scale) >= INFINITE ? float_of(bits_of(scale) - 1) : scale;
}

// --- blocks: codes ---

DEVICE void scale_write(uint8_t *out, float scale)
{
    if (lane_index() == 0)
        *(uint32_t *)out = bits_of(scale);
}

// The codes of `each` adjacent lanes form a byte; the first lane writes it.
DEVICE void codes_write(uint32_t code, unsigned bits, unsigned j, const struct block *b, uint8_t *out)
{
    const unsigned each = 8 / bits, entry = j * WARP + lane_index();
    uint32_t byte = (code & ((1u << bits) - 1)) << bits * (lane_index() % each);
    for (unsigned distance = 1; distance < each; distance *= 2)
        byte |= warp_xor_u32(byte, distance);
    if (lane_index() % each == 0 && entry < b->count)
        out[entry / each] = (uint8_t)byte;
}

DEVICE void int8_write(struct block *b, uint8_t *out)
{
    const float scale = scale_of(block_largest(b)), divisor = scale > 0.0f ? scale : 1.0f;
    scale_write(out, scale);
    for (unsigned j = 0; j < PER_LANE; j++) {
        float whole = b->value[j] / divisor + ROUND_EVEN - ROUND_EVEN;
        whole = whole > 127.0f ? 127.0f : whole;
        whole = whole < -127.0f ? -127.0f : whole;
        const int32_t code = (int32_t)whole;
        b->value[j] = scale * (float)code;
        codes_write((uint32_t)code, 8, j, b, out + 4);
    }
}

DEVICE void int4_write(struct block *b, uint8_t *out)
{
    float low = block_smallest(b), high = block_largest(b);
    high = bits_of(high) < KERNELS_INT4_MIN ? 0.0f : high;
    low = bits_of(low) < NORMAL || high == 0.0f ? 0.0f : low;
    scale_write(out, low);
    scale_write(out + 4, high);
    for (unsigned j = 0; j < PER_LANE; j++) {
        const uint32_t sign = bits_of(b->value[j]) & ~MAGNITUDE_BITS;
        uint32_t code = 0;
        for (unsigned m = 0; m + 1 < KERNELS_INT4_LEVELS; m++) {
            const float middle = 0.5f * int4_level(low, high, m) + 0.5f * int4_level(low, high, m + 1);
            code += absolute(b->value[j]) > middle;
        }
        const float level = int4_level(low, high, code);
        code = level == 0.0f ? 0 : code | sign >> 28;
        b->value[j] = level == 0.0f ? 0.0f : float_of(bits_of(level) | sign);
        codes_write(code, 4, j, b, out + 8);
    }
}

// Two levels, the means of the magnitudes on both sides of a split.
struct levels {
    float split, low, high;
};

DEVICE float level_of(const struct levels *levels, uint32_t code)
{
    return float_of(bits_of((code & 1) != 0 ? levels->high : levels->low) | (code & 2) << 30);
}

DEVICE struct levels levels_of(const struct block *b)
{
    const float smallest = block_smallest(b);
    const float middle = smallest + 1.5f * (mean_of(block_sum(b), b->count) - smallest);
    struct levels levels = {middle > smallest ? middle : smallest, 0.0f, 0.0f};
    float low[PER_LANE], high[PER_LANE];
    uint32_t above = 0;
    for (unsigned j = 0; j < PER_LANE; j++) {
        const float magnitude = absolute(b->value[j]), part = magnitude * (1.0f / 256.0f);
        high[j] = magnitude > levels.split ? part : 0.0f;
        low[j] = magnitude > levels.split ? 0.0f : part;
        above += magnitude > levels.split;
    }
    above = warp_sum_u32(above);
    levels.low = mean_of(lanes_sum(low), b->count - above);
    levels.high = mean_of(lanes_sum(high), above);
    levels.high = levels.high > levels.low ? levels.high : levels.low;
    return levels;
}

DEVICE void int2_write(struct block *b, uint8_t *out)
{
    const struct levels levels = levels_of(b);
    scale_write(out, levels.low);
    scale_write(out + 4, levels.high);
    for (unsigned j = 0; j < PER_LANE; j++) {
        const uint32_t bits = bits_of(b->value[j]);
        uint32_t code = bits >> 31 << 1 | (uint32_t)(absolute(b->value[j]) > levels.split);
        code = (magnitude_of(level_of(&levels, code)) == 0) ? 0 : code;
        b->value[j] = level_of(&levels, code);
        codes_write(code, 2, j, b, out + 8);
    }
}

DEVICE void sign_write(struct block *b, uint8_t *out)
{
    const float scale = mean_of(block_sum(b), b->count);
    scale_write(out, scale);
    for (unsigned j = 0; j < PER_LANE; j++) {
        const uint32_t negative = scale == 0.0f ? 0 : bits_of(b->value[j]) >> 31;
        b->value[j] = float_of(bits_of(scale) | negative << 31);
        codes_write(negative, 1, j, b, out + 4);
    }
}

DEVICE void block_write(const struct kernels_cuda_section *s, struct block *b, uint8_t *out)
{
    if (s->format == KERNELS_INT8)
        int8_write(b, out);
    else if (s->format == KERNELS_INT4)
        int4_write(b, out);
    else if (s->format == KERNELS_INT2)
        int2_write(b, out);
    else
        sign_write(b, out);
}

KERNEL(blocks_write_kernel, struct kernels_cuda_section, s)
{
    const size_t block = (size_t)block_index() * WARPS + warp_index();
    struct block b = {{0.0f}, block * BLOCK, 0};
    if (b.first >= s.count)
        return; // a whole warp
    b.count = s.count - b.first < BLOCK ? (unsigned)(s.count - b.first) : BLOCK;
    for (unsigned j = 0; j < PER_LANE; j++) {
        const unsigned entry = j * WARP + lane_index();
        b.value[j] = entry < b.count ? s.value[b.first + entry] : 0.0f;
    }
    block_write(&s, &b, s.out + block * s.block_bytes);
    for (unsigned j = 0; j < PER_LANE; j++) {
        const unsigned entry = j * WARP + lane_index();
        if (entry < b.count)
            s.value[b.first + entry] = b.value[j];
    }
}

void kernels_cuda_values_write(const struct kernels_cuda_section *section)
{
    if (section->format == KERNELS_FP32 || section->format == KERNELS_FP16 ||
        section->format == KERNELS_BF16) {
        LAUNCH(numbers_write_kernel, blocks_of(section->count), *section);
    } else {
        const size_t each = (size_t)BLOCK * WARPS;
        LAUNCH(blocks_write_kernel, (unsigned)((section->count + each - 1) / each), *section);
    }
}
