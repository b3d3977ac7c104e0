// A run of non-negative values, one byte each on a logarithmic scale, eight codes per octave: code 255 is the
// largest value of the run, each lower code is 2^(-1/8) times the next higher one, code 0 is zero. Layout:
// compress/LAYOUT.md.
#include "base/limits.h"
#include "compress/bytes.h"
#include "compress/compress.h"
#include <stdbool.h>

#define HEADER_BYTES 4u
#define CODE_LARGEST 255u

// A run whose largest value is smaller than this is sent as zeros: no level is ever denormal, so the
// treatment of denormals does not matter.
#define LARGEST_MIN 0x1p-94f

// 2^(-j/8) and 2^(-(2j+1)/16), correctly rounded: the levels of an octave, and the midpoints, on the
// logarithmic scale, between level j and the next lower one.
static const float level_step[8] = {0x1p0f,         0x1.d5818ep-1f, 0x1.ae89fap-1f, 0x1.8ace54p-1f,
                                    0x1.6a09e6p-1f, 0x1.4bfdaep-1f, 0x1.306fe0p-1f, 0x1.172b84p-1f};
static const float middle_step[8] = {0x1.ea4afap-1f, 0x1.c199bep-1f, 0x1.9c4918p-1f, 0x1.7a1148p-1f,
                                     0x1.5ab07ep-1f, 0x1.3dea64p-1f, 0x1.2387a6p-1f, 0x1.0b5586p-1f};

// largest * step[j] * 2^-octave where 8*octave + j = `below` is the distance of a code from the largest one.
static float scaled(float largest, const float step[8], unsigned below)
{
    float octave = float_of((127u - below / 8) << 23);
    return largest * step[below % 8] * octave;
}

static void levels_fill(float largest, float level[256])
{
    level[0] = 0.0f;
    for (unsigned code = 1; code <= CODE_LARGEST; code++)
        level[code] = scaled(largest, level_step, CODE_LARGEST - code);
}

// least[c] is the smallest value that gets code c or a higher one. A nonzero value never gets code 0.
static void bounds_fill(float largest, float least[257])
{
    least[0] = 0.0f;
    least[1] = float_of(1);
    for (unsigned code = 2; code <= CODE_LARGEST; code++)
        least[code] = scaled(largest, middle_step, CODE_LARGEST - code);
    least[CODE_LARGEST + 1] = float_of(BITS_INFINITY);
}

// The bits of a float approximate its logarithm to within 0.09, so their distance from the bits of the
// largest value, in eighths of an octave, is a good first guess; comparisons correct it. Requires 0 <= value
// <= largest.
static unsigned code_of(float value, float largest, const float least[257])
{
    uint32_t below = (bits_of(largest) - bits_of(value)) >> 20;
    unsigned code = below < CODE_LARGEST ? CODE_LARGEST - below : 0;
    while (value < least[code])
        code--;
    while (value >= least[code + 1])
        code++;
    return code;
}

// False if any value is negative, NaN or infinite.
static bool largest_find(const float *values, size_t count, float *largest)
{
    bool valid = true;
    float found = 0.0f;
    for (size_t i = 0; i < count; i++) {
        valid &= values[i] >= 0.0f && values[i] < float_of(BITS_INFINITY);
        found = values[i] > found ? values[i] : found;
    }
    *largest = found;
    return valid;
}

static void run_write(float *values, size_t count, float largest, uint8_t *codes)
{
    float level[256], least[257];
    levels_fill(largest, level);
    bounds_fill(largest, least);
    for (size_t i = 0; i < count; i++) {
        unsigned code = code_of(values[i] + 0.0f, largest, least); // + 0.0f: -0.0 becomes 0.0
        codes[i] = (uint8_t)code;
        values[i] = level[code];
    }
}

enum base_error compress_log8_encode(float *values, size_t count, uint8_t *block, size_t capacity,
                                     size_t *block_bytes)
{
    float largest;
    if (count > LIMIT_PARAMETERS || capacity < HEADER_BYTES + count)
        return BASE_ELIMIT;
    if (!largest_find(values, count, &largest))
        return BASE_EFORMAT;
    if (largest >= LARGEST_MIN) {
        bytes_put_u32(block, bits_of(largest));
        run_write(values, count, largest, block + HEADER_BYTES);
    } else {
        memset(block, 0, HEADER_BYTES + count);
        for (size_t i = 0; i < count; i++)
            values[i] = 0.0f;
    }
    *block_bytes = HEADER_BYTES + count;
    return BASE_OK;
}

enum base_error compress_log8_decode(const uint8_t *block, size_t block_bytes, float *values, size_t count)
{
    if (count > LIMIT_PARAMETERS)
        return BASE_ELIMIT;
    if (block_bytes != HEADER_BYTES + count)
        return BASE_EFORMAT;
    uint32_t largest = bytes_get_u32(block);
    const uint8_t *code = block + HEADER_BYTES;
    unsigned highest = 0;
    for (size_t i = 0; i < count; i++)
        highest = code[i] > highest ? code[i] : highest;
    // The largest value has code 255; in a run of zeros `largest` is 0 and all codes are 0.
    bool zeros = largest == 0;
    if (largest >= BITS_INFINITY || (!zeros && largest < bits_of(LARGEST_MIN)) ||
        highest != (zeros ? 0 : CODE_LARGEST))
        return BASE_EFORMAT;
    float level[256];
    levels_fill(float_of(largest), level);
    for (size_t i = 0; i < count; i++)
        values[i] = level[code[i]];
    return BASE_OK;
}
