// The value formats (kernels/values.h), the same bits as on the CPU: additions in 16 partial sums in the
// order of the entries, no fused multiply-add (the build's flags), divisions rounded as IEEE asks. Formats
// with blocks are written by a warp a block: lane l has the entries l, l + 32, ..., with zeros behind the
// last.
#include "kernels/cuda/device.h"

#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"
#include "kernels/values.h"

#define BLOCK        KERNELS_VALUES_BLOCK
#define PER_LANE     (BLOCK / WARP)
#define HALF_LARGEST 0x7bffu // 65504
#define NORMAL       0x00800000u
#define INFINITE     0x7f800000u
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

DEVICE float half_to(uint32_t half)
{
    const uint32_t sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
    const float small = (float)magnitude * (1.0f / 16777216.0f); // exact
    return float_of((magnitude < 0x400u ? bits_of(small) : (magnitude << 13) + (112u << 23)) | sign);
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

// lane[l] of the CPU adds the entries l, l + 16, ... one after another; then halves are added to halves.
DEVICE float lanes_sum(const float part[PER_LANE])
{
    float sum = 0.0f;
    for (unsigned j = 0; j < PER_LANE; j++) {
        const float next = warp_xor_f32(part[j], 16);
        sum += part[j];
        sum += next;
    }
    for (unsigned width = 8; width > 0; width /= 2) {
        sum += warp_xor_f32(sum, width);
    }
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
    uint32_t largest = 0; // of what is missing to the largest pattern
    for (unsigned j = 0; j < PER_LANE; j++) {
        const uint32_t rest = MAGNITUDE_BITS - magnitude_of(b->value[j]);
        largest = lane_index() + j * WARP < b->count && rest > largest ? rest : largest;
    }
    return float_of(MAGNITUDE_BITS - warp_max_u32(largest));
}

// Of magnitudes / 256, so that a block of the largest numbers does not overflow.
DEVICE float block_sum(const struct block *b)
{
    float part[PER_LANE];
    for (unsigned j = 0; j < PER_LANE; j++) {
        part[j] = absolute(b->value[j]) * (1.0f / 256.0f);
    }
    return lanes_sum(part);
}

// The mean of `count` magnitudes whose sum / 256 is given: 0 where that is denormal, finite always.
DEVICE float mean_of(float sum, unsigned count)
{
    if (count == 0) {
        return 0.0f;
    }
    const float mean = sum * (256.0f / (float)count);
    const uint32_t bits = bits_of(mean);
    return bits < NORMAL ? 0.0f : bits > LARGEST ? float_of(LARGEST) : mean;
}

DEVICE float scale_of(float largest, float most)
{
    if (largest < most * float_of(NORMAL)) {
        return 0.0f;
    }
    const float scale = largest / most;
    return bits_of(most * scale) >= INFINITE ? float_of(bits_of(scale) - 1) : scale;
}

// --- blocks: codes ---

DEVICE void scale_write(uint8_t *out, float scale)
{
    if (lane_index() == 0) {
        *(uint32_t *)out = bits_of(scale);
    }
}

// The code of value[j], which becomes what it stands for.
DEVICE uint32_t code_of(float *value, float scale, float most)
{
    float whole = *value / (scale > 0.0f ? scale : 1.0f) + ROUND_EVEN - ROUND_EVEN;
    whole = whole > most ? most : whole;
    whole = whole < -most ? -most : whole;
    const int32_t code = (int32_t)whole;
    *value = scale * (float)code;
    return (uint32_t)code;
}

// The codes of `each` neighbouring lanes make a byte; the first of them writes it.
DEVICE void codes_write(uint32_t code, unsigned bits, unsigned j, const struct block *b, uint8_t *out)
{
    const unsigned each = 8 / bits, entry = j * WARP + lane_index();
    uint32_t byte = (code & ((1u << bits) - 1)) << bits * (lane_index() % each);
    for (unsigned distance = 1; distance < each; distance *= 2) {
        byte |= warp_xor_u32(byte, distance);
    }
    if (lane_index() % each == 0 && entry < b->count) {
        out[entry / each] = (uint8_t)byte;
    }
}

DEVICE void integers_write(struct block *b, unsigned bits, uint8_t *out)
{
    const float most = bits == 8 ? 127.0f : 7.0f, scale = scale_of(block_largest(b), most);
    scale_write(out, scale);
    for (unsigned j = 0; j < PER_LANE; j++) {
        codes_write(code_of(&b->value[j], scale, most), bits, j, b, out + 4);
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
    if (s->format == KERNELS_INT8) {
        integers_write(b, 8, out);
    } else if (s->format == KERNELS_INT4) {
        integers_write(b, 4, out);
    } else if (s->format == KERNELS_INT2) {
        int2_write(b, out);
    } else {
        sign_write(b, out);
    }
}

KERNEL(blocks_write_kernel, struct kernels_cuda_section, s)
{
    const size_t block = (size_t)block_index() * WARPS + warp_index();
    struct block b = {{0.0f}, block * BLOCK, 0};
    if (b.first >= s.count) {
        return; // a whole warp
    }
    b.count = s.count - b.first < BLOCK ? (unsigned)(s.count - b.first) : BLOCK;
    for (unsigned j = 0; j < PER_LANE; j++) {
        const unsigned entry = j * WARP + lane_index();
        b.value[j] = entry < b.count ? s.value[b.first + entry] : 0.0f;
    }
    block_write(&s, &b, s.out + block * s.block_bytes);
    for (unsigned j = 0; j < PER_LANE; j++) {
        const unsigned entry = j * WARP + lane_index();
        if (entry < b.count) {
            s.value[b.first + entry] = b.value[j];
        }
    }
}

// --- reading and checking: a thread an entry ---

DEVICE uint32_t word_at(const uint8_t *in)
{
    return *(const uint32_t *)in;
}

// The code of an entry of a block, whose codes begin at `in`.
DEVICE uint32_t code_at(const uint8_t *in, unsigned bits, unsigned entry)
{
    return (uint32_t)in[entry * bits / 8] >> entry * bits % 8 & ((1u << bits) - 1);
}

DEVICE float block_value(unsigned format, const uint8_t *in, unsigned entry)
{
    const float scale = float_of(word_at(in));
    if (format == KERNELS_INT8) {
        return scale * (float)(int8_t)in[4 + entry];
    }
    if (format == KERNELS_INT4) {
        return scale * (float)((int32_t)(code_at(in + 4, 4, entry) ^ 8u) - 8);
    }
    if (format == KERNELS_INT2) {
        const uint32_t code = code_at(in + 8, 2, entry);
        const float level = (code & 1) != 0 ? float_of(word_at(in + 4)) : scale;
        return (code & 2) != 0 ? -level : level;
    }
    return float_of(bits_of(scale) | code_at(in + 4, 1, entry) << 31);
}

KERNEL(read_kernel, struct kernels_cuda_section, s)
{
    EACH(i, s.count)
    {
        if (s.format == KERNELS_FP32) {
            s.value[i] = float_of(((const uint32_t *)s.in)[i]);
        } else if (s.format == KERNELS_FP16) {
            s.value[i] = half_to(((const uint16_t *)s.in)[i]);
        } else if (s.format == KERNELS_BF16) {
            s.value[i] = float_of((uint32_t)((const uint16_t *)s.in)[i] << 16);
        } else {
            s.value[i] = block_value(s.format, s.in + i / BLOCK * s.block_bytes, (unsigned)(i % BLOCK));
        }
    }
}

DEVICE int scale_valid(uint32_t scale, float most)
{
    return scale == 0 || (scale >= NORMAL && scale < INFINITE && bits_of(most * float_of(scale)) < INFINITE);
}

// The scales of a block, looked at by the thread of its first entry.
DEVICE int scales_valid(unsigned format, const uint8_t *in)
{
    const float most = format == KERNELS_INT8 ? 127.0f : format == KERNELS_INT4 ? 7.0f : 1.0f;
    const uint32_t scale = word_at(in);
    return scale_valid(scale, most) &&
           (format != KERNELS_INT2 || (scale_valid(word_at(in + 4), 1.0f) && scale <= word_at(in + 4)));
}

// No unused code, and in the last byte of the section no bit behind the last entry.
DEVICE int codes_valid(const uint8_t *codes, unsigned bits, unsigned entry, uint32_t unused, int last)
{
    const unsigned used = (entry + 1) * bits % 8;
    return code_at(codes, bits, entry) != unused &&
           !(last && used > 0 && codes[entry * bits / 8] >> used != 0);
}

DEVICE int block_entry_valid(unsigned format, const uint8_t *in, unsigned entry, int last)
{
    const uint32_t none = UINT32_MAX, scale = word_at(in);
    if (format == KERNELS_INT8) {
        return codes_valid(in + 4, 8, entry, 0x80u, last) && (scale != 0 || in[4 + entry] == 0);
    }
    if (format == KERNELS_INT4) {
        return codes_valid(in + 4, 4, entry, 0x8u, last) && (scale != 0 || code_at(in + 4, 4, entry) == 0);
    }
    if (format == KERNELS_INT2) {
        return codes_valid(in + 8, 2, entry, scale == 0 ? 2u : none, last) &&
               (word_at(in + 4) != 0 || code_at(in + 8, 2, entry) == 0);
    }
    return codes_valid(in + 4, 1, entry, none, last) && (scale != 0 || code_at(in + 4, 1, entry) == 0);
}

DEVICE int entry_valid(const struct kernels_cuda_section *s, size_t i)
{
    if (s->format == KERNELS_FP32) {
        return (((const uint32_t *)s->in)[i] & MAGNITUDE_BITS) < INFINITE;
    }
    if (s->format == KERNELS_FP16) {
        return (((const uint16_t *)s->in)[i] & 0x7fffu) < 0x7c00u;
    }
    if (s->format == KERNELS_BF16) {
        return (((const uint16_t *)s->in)[i] & 0x7fffu) < 0x7f80u;
    }
    const uint8_t *in = s->in + i / BLOCK * s->block_bytes;
    return (i % BLOCK != 0 || scales_valid(s->format, in)) &&
           block_entry_valid(s->format, in, (unsigned)(i % BLOCK), i + 1 == s->count);
}

KERNEL(valid_kernel, struct kernels_cuda_section, s)
{
    EACH(i, s.count)
    {
        if (!entry_valid(&s, i)) {
            *s.broken = 1; // whoever writes, writes the same
        }
    }
}

static unsigned blocks_of(size_t count)
{
    const size_t blocks = (count + THREADS - 1) / THREADS;
    return (unsigned)(blocks < 4096 ? blocks : 4096);
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

void kernels_cuda_values_read(const struct kernels_cuda_section *section)
{
    LAUNCH(read_kernel, blocks_of(section->count), *section);
}

void kernels_cuda_values_valid(const struct kernels_cuda_section *section)
{
    LAUNCH(valid_kernel, blocks_of(section->count), *section);
}
