// Decodes the value formats (kernels/values.h), and checks whether the writer could have produced the bytes.
#include "kernels/cuda/device.h"

#include "kernels/cuda/formats.h"
#include "kernels/cuda/launch.h"

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
    if (format == KERNELS_INT8)
        return scale * (float)(int8_t)in[4 + entry];
    if (format == KERNELS_INT4) {
        const uint32_t code = code_at(in + 8, 4, entry);
        return float_of(bits_of(int4_level(scale, float_of(word_at(in + 4)), code & 7)) | (code & 8) << 28);
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
        if (s.format == KERNELS_FP32)
            s.value[i] = float_of(((const uint32_t *)s.in)[i]);
        else if (s.format == KERNELS_FP16)
            s.value[i] = half_to(((const uint16_t *)s.in)[i]);
        else if (s.format == KERNELS_BF16)
            s.value[i] = float_of((uint32_t)((const uint16_t *)s.in)[i] << 16);
        else
            s.value[i] = block_value(s.format, s.in + i / BLOCK * s.block_bytes, (unsigned)(i % BLOCK));
    }
}

DEVICE int scale_valid(uint32_t scale)
{
    return scale == 0 || (scale >= NORMAL && scale < INFINITE);
}

// The scales of a block, checked by the thread of its first entry.
DEVICE int scales_valid(unsigned format, const uint8_t *in)
{
    const uint32_t scale = word_at(in);
    if (format == KERNELS_INT8)
        return scale_valid(scale) && bits_of(127.0f * float_of(scale)) < INFINITE;
    if (format == KERNELS_SIGN)
        return scale_valid(scale);
    const uint32_t high = word_at(in + 4);
    return scale_valid(scale) && scale_valid(high) && scale <= high &&
           (format != KERNELS_INT4 || high == 0 || high >= KERNELS_INT4_MIN);
}

// No unused code, and no bit after the last entry in the last byte of the section.
DEVICE int codes_valid(const uint8_t *codes, unsigned bits, unsigned entry, uint32_t unused, int last)
{
    const unsigned used = (entry + 1) * bits % 8;
    return code_at(codes, bits, entry) != unused &&
           !(last && used > 0 && codes[entry * bits / 8] >> used != 0);
}

DEVICE int block_entry_valid(unsigned format, const uint8_t *in, unsigned entry, int last)
{
    const uint32_t none = UINT32_MAX, scale = word_at(in);
    if (format == KERNELS_INT8)
        return codes_valid(in + 4, 8, entry, 0x80u, last) && (scale != 0 || in[4 + entry] == 0);
    if (format == KERNELS_INT4 || format == KERNELS_INT2) {
        const unsigned bits = format == KERNELS_INT4 ? 4 : 2;
        return codes_valid(in + 8, bits, entry, scale == 0 ? 1u << (bits - 1) : none, last) &&
               (word_at(in + 4) != 0 || code_at(in + 8, bits, entry) == 0);
    }
    return codes_valid(in + 4, 1, entry, none, last) && (scale != 0 || code_at(in + 4, 1, entry) == 0);
}

DEVICE int entry_valid(const struct kernels_cuda_section *s, size_t i)
{
    if (s->format == KERNELS_FP32)
        return (((const uint32_t *)s->in)[i] & MAGNITUDE_BITS) < INFINITE;
    if (s->format == KERNELS_FP16)
        return (((const uint16_t *)s->in)[i] & 0x7fffu) < 0x7c00u;
    if (s->format == KERNELS_BF16)
        return (((const uint16_t *)s->in)[i] & 0x7fffu) < 0x7f80u;
    const uint8_t *in = s->in + i / BLOCK * s->block_bytes;
    return (i % BLOCK != 0 || scales_valid(s->format, in)) &&
           block_entry_valid(s->format, in, (unsigned)(i % BLOCK), i + 1 == s->count);
}

KERNEL(valid_kernel, struct kernels_cuda_section, s)
{
    EACH(i, s.count)
    {
        if (!entry_valid(&s, i))
            *s.broken = 1; // all threads write the same
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
