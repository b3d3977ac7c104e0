// The index coders for processors with AVX-512 F, BW, DQ and VL: 16 entries at a time. Loads at the ends of
// streams are masked.
#include "kernels/cpu/coding_avx512_write.h"
#include "kernels/cpu/cpu.h"

#define FETCH_WIDTH 24u // four low parts fit into 16 bytes that begin at a multiple of 4

// How to extract 16 low parts of one width from their bytes.
struct fetch {
    __m512i words, bytes, shift, mask;
    unsigned step; // bytes of 16 parts
};

static inline struct fetch fetch_of(unsigned width)
{
    const __m512i wide = _mm512_set1_epi32((int)width);
    const __m512i quad = _mm512_andnot_si512(_mm512_set1_epi32(3), numbers());
    // Each 128-bit lane holds four parts, which begin in this 32-bit word.
    const __m512i word = _mm512_srli_epi32(_mm512_mullo_epi32(quad, wide), 5);
    const __m512i bit = _mm512_sub_epi32(_mm512_mullo_epi32(numbers(), wide), _mm512_slli_epi32(word, 5));
    const __m512i byte = _mm512_mullo_epi32(_mm512_srli_epi32(bit, 3), _mm512_set1_epi32(0x01010101));
    return (struct fetch){.words = _mm512_add_epi32(word, _mm512_and_si512(numbers(), _mm512_set1_epi32(3))),
                          .bytes = _mm512_add_epi32(byte, _mm512_set1_epi32(0x03020100)),
                          .shift = _mm512_and_si512(bit, _mm512_set1_epi32(7)),
                          .mask = _mm512_set1_epi32((int)((1u << width) - 1)),
                          .step = 2 * width};
}

// Reads 16 low parts; parts beyond `left` bytes are zero.
static inline __m512i fetch_next(const struct fetch *fetch, const uint8_t *low, size_t left)
{
    const size_t bytes = left < fetch->step ? left : fetch->step;
    __m512i x = _mm512_maskz_loadu_epi8(((__mmask64)1 << bytes) - 1, low);
    x = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(fetch->words, x), fetch->bytes);
    return _mm512_and_si512(_mm512_srlv_epi32(x, fetch->shift), fetch->mask);
}

static uint64_t sum(size_t count, unsigned width, const uint8_t *low, size_t low_bytes)
{
    uint64_t total = 0;
    if (width > FETCH_WIDTH) {
        for (size_t i = 0; i < count; i++)
            total += plain_low(low, low_bytes, i, width);
        return total;
    }
    const struct fetch fetch = fetch_of(width);
    const uint8_t *end = low + low_bytes;
    for (size_t i = 0; i < count;) {
        const size_t stop = count - i < CODING_BLOCK ? count : i + CODING_BLOCK;
        __m512i lanes = _mm512_setzero_si512(); // 16 times 2^24 at most
        for (; i < stop; i += LANES, low += fetch.step) {
            const size_t left = low < end ? (size_t)(end - low) : 0;
            const __m512i part = fetch_next(&fetch, low, left);
            lanes = _mm512_mask_add_epi32(lanes, lanes_of(stop - i), lanes, part);
        }
        total += lane_sum(lanes);
    }
    return total;
}

#define ROOM (CODING_BLOCK + 64u) // the bits of one word may exceed a block

// The positions of the next `count` set bits from bit `at` on, at most a block; zeros if there are fewer.
static inline void positions(const uint8_t *bits, size_t bytes, uint64_t at, size_t count,
                             uint32_t position[ROOM])
{
    size_t found = 0, byte = (size_t)(at >> 6) * 8;
    unsigned skip = at & 63;
    __m512i number = _mm512_add_epi32(numbers(), _mm512_set1_epi32((int)(uint32_t)(byte * 8)));
    for (; found < count && byte < bytes; byte += 8) {
        uint64_t word = plain_load(bits + byte, bytes - byte) >> skip << skip;
        skip = 0;
        if (word == 0) {
            number = _mm512_add_epi32(number, _mm512_set1_epi32(64));
            continue;
        }
        for (unsigned part = 0; part < 4; part++, word >>= 16) {
            _mm512_storeu_si512(position + found, _mm512_maskz_compress_epi32((__mmask16)word, number));
            found += (size_t)_mm_popcnt_u32((uint32_t)word & 0xffffu);
            number = _mm512_add_epi32(number, _mm512_set1_epi32(16));
        }
    }
    if (found < count)
        memset(position + found, 0, (count - found) * sizeof *position);
}

static inline void rice_join(const struct kernels_streams *streams, const struct fetch *fetch,
                             struct kernels_rice *at, size_t count, const uint32_t *position, uint32_t *index)
{
    const uint8_t *low = streams->low + at->entry * streams->width / 8;
    const uint8_t *end = streams->low + streams->low_bytes;
    const __m512i shift = _mm512_set1_epi32((int)streams->width), fifteen = _mm512_set1_epi32(15);
    __m512i ones_before = _mm512_add_epi32(numbers(), _mm512_set1_epi32((int)(uint32_t)at->bit));
    __m512i lows = _mm512_set1_epi32((int)at->next); // the sum of all earlier low parts and ones
    lows = _mm512_add_epi32(lows, numbers());
    for (size_t i = 0; i < count; i += LANES, low += fetch->step) {
        const size_t left = low < end ? (size_t)(end - low) : 0;
        const __m512i place = _mm512_loadu_si512(position + i);
        const __m512i zeros = _mm512_sllv_epi32(_mm512_sub_epi32(place, ones_before), shift);
        const __m512i part = prefix_sums(fetch_next(fetch, low, left));
        const __m512i now = _mm512_add_epi32(_mm512_add_epi32(zeros, part), lows);
        _mm512_mask_storeu_epi32(index + i, lanes_of(count - i), now);
        lows = _mm512_add_epi32(lows, _mm512_permutexvar_epi32(fifteen, part));
        lows = _mm512_add_epi32(lows, _mm512_set1_epi32(16));
        ones_before = _mm512_add_epi32(ones_before, _mm512_set1_epi32(16));
    }
    *at = (struct kernels_rice){
        .bit = (uint64_t)position[count - 1] + 1, .entry = at->entry + count, .next = index[count - 1] + 1};
}

static void rice_read(const struct kernels_streams *streams, struct kernels_rice *at, size_t count,
                      uint32_t *index)
{
    uint32_t position[ROOM];
    const bool wide = streams->width > FETCH_WIDTH;
    const struct fetch fetch = fetch_of(wide ? 0 : streams->width);
    for (size_t now; count > 0; count -= now, index += now) {
        now = count < CODING_BLOCK ? count : CODING_BLOCK;
        positions(streams->high, streams->high_bytes, at->bit, now, position);
        if (wide) {
            memcpy(index, position, now * sizeof *index);
            plain_rice_join(streams, at, now, index);
        } else {
            rice_join(streams, &fetch, at, now, position, index);
        }
    }
}

#include "kernels/cpu/coding_words.h"

const struct kernels_coding kernels_cpu_coding_avx512 = {
    .gaps = gaps,
    .rice_write = rice_write,
    .bitmap_write = bitmap_write,
    .ones = ones,
    .sum = sum,
    .rice_read = rice_read,
    .bitmap_read = bitmap_read,
};
