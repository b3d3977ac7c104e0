// Part of coding_avx512.c: writing. Stores at the ends of streams are cut to the bytes inside.
#ifndef KERNELS_CPU_CODING_AVX512_WRITE_H
#define KERNELS_CPU_CODING_AVX512_WRITE_H

#include "kernels/cpu/coding_plain.h"

#include <immintrin.h>
#include <string.h>

#define LANES      16u
#define PACK_WIDTH 16u // a low part fits into the word that is extracted from a number

static inline __m512i numbers(void)
{
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

static inline __mmask16 lanes_of(size_t left)
{
    return left >= LANES ? (__mmask16)0xffff : (__mmask16)((1u << left) - 1);
}

static inline __m512i prefix_sums(__m512i x)
{
    const __m512i zero = _mm512_setzero_si512();
    x = _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 15));
    x = _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 14));
    x = _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 12));
    return _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 8));
}

static inline uint64_t lane_sum(__m512i x)
{
    const __m512i low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(x));
    const __m512i high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(x, 1));
    return (uint64_t)_mm512_reduce_add_epi64(_mm512_add_epi64(low, high));
}

// Elements skipped before each of the 16 entries at `index`; index[-1] exists.
static inline __m512i gaps_of(__m512i now, const uint32_t *index)
{
    return _mm512_sub_epi32(_mm512_sub_epi32(now, _mm512_loadu_si512(index - 1)), _mm512_set1_epi32(1));
}

// The same for fewer than 16 entries, or for the first ones, which have no predecessor; zero in the other
// lanes.
static inline __m512i gaps_at_end(size_t i, size_t count, const uint32_t *index, __m512i *now)
{
    const __mmask16 lanes = lanes_of(count - i);
    *now = _mm512_maskz_loadu_epi32(lanes, index + i);
    const __m512i before = _mm512_set1_epi32(i == 0 ? -1 : (int)index[i - (i != 0)]);
    const __m512i previous = _mm512_alignr_epi32(*now, before, LANES - 1);
    return _mm512_maskz_sub_epi32(lanes, _mm512_sub_epi32(*now, previous), _mm512_set1_epi32(1));
}

// 32-bit lanes are wide enough for the sums: gaps of ascending indices add up to less than 2^31.
static bool gaps(size_t count, const uint32_t *index, unsigned shift, uint64_t sums[KERNELS_CODING_SHIFTS])
{
    const __m512i first = _mm512_set1_epi32((int)shift);
    __m512i sum[KERNELS_CODING_SHIFTS], any = _mm512_setzero_si512();
    for (unsigned j = 0; j < KERNELS_CODING_SHIFTS; j++)
        sum[j] = _mm512_setzero_si512();
    for (size_t i = 0; i < count; i += LANES) {
        const bool inside = i > 0 && i + LANES <= count;
        __m512i now, gap;
        if (inside) {
            now = _mm512_loadu_si512(index + i);
            gap = gaps_of(now, index + i);
        } else {
            gap = gaps_at_end(i, count, index, &now);
        }
        any = _mm512_or_si512(any, _mm512_or_si512(now, gap));
        __m512i part = _mm512_srlv_epi32(gap, first);
        for (unsigned j = 0; j < KERNELS_CODING_SHIFTS; j++) {
            sum[j] = _mm512_add_epi32(sum[j], part);
            part = _mm512_srli_epi32(part, 1);
        }
    }
    const bool ascending = _mm512_movepi32_mask(any) == 0;
    for (unsigned j = 0; j < KERNELS_CODING_SHIFTS && ascending; j++)
        sums[j] = lane_sum(sum[j]);
    return ascending;
}

// A zeroed bit vector that is marked from its start to its end.
struct marker {
    uint8_t *bits;
    size_t bytes;
    uint64_t bit, word; // the current position; the bits set so far in the 64-bit word around it
};

static inline void marker_store(const struct marker *marker)
{
    const size_t at = (size_t)(marker->bit >> 6) * 8;
    if (__builtin_expect(at + 8 <= marker->bytes, 1)) {
        memcpy(marker->bits + at, &marker->word, 8);
        return;
    }
    for (unsigned i = 0; at + i < marker->bytes; i++)
        marker->bits[at + i] = (uint8_t)(marker->word >> 8 * i);
}

static __attribute__((noinline)) void mark_each(uint8_t *bits, uint64_t from, __m512i ahead, size_t count)
{
    uint32_t position[LANES];
    _mm512_storeu_si512(position, ahead);
    for (size_t i = 0; i < count; i++)
        plain_mark(bits, from + position[i]);
}

// Sets the bits at the distances `ahead` from the current position one by one, because they are far apart or
// fewer than 16. The position then advances by `length`.
static inline void marker_spread(struct marker *marker, __m512i ahead, size_t count, uint64_t length)
{
    marker_store(marker);
    mark_each(marker->bits, marker->bit, ahead, count);
    marker->bit += length;
    const size_t at = (size_t)(marker->bit >> 6) * 8;
    marker->word = at < marker->bytes ? plain_load(marker->bits + at, marker->bytes - at) : 0;
}

// Sets those of the next `length` bits, at most 64, that are set in any of eight words. The last of them is
// always set.
static inline void marker_put(struct marker *marker, __m512i words, uint64_t length)
{
    const __m256i four = _mm256_or_si256(_mm512_castsi512_si256(words), _mm512_extracti64x4_epi64(words, 1));
    const __m128i two = _mm_or_si128(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    const uint64_t marks = (uint64_t)_mm_cvtsi128_si64(_mm_or_si128(two, _mm_unpackhi_epi64(two, two)));
    const unsigned shift = marker->bit & 63;
    marker->word |= marks << shift;
    marker_store(marker);
    const uint64_t bit = marker->bit + length;
    const uint64_t crossed = (bit >> 6) - (marker->bit >> 6); // 0 or 1, equally likely, so no branch
    marker->word = (marker->word & (crossed - 1)) | marks >> 1 >> (63 - shift);
    marker->bit = bit;
}

// Marks 16 bits at the ascending distances `ahead` from the current position, which then advances by
// `length`, to just after the last of them.
static inline void marker_put_ahead(struct marker *marker, __m512i ahead, uint64_t length)
{
    if (__builtin_expect(length > 64, 0)) {
        marker_spread(marker, ahead, LANES, length);
        return;
    }
    const __m512i one = _mm512_set1_epi64(1);
    const __m512i even = _mm512_sllv_epi64(one, _mm512_and_si512(ahead, _mm512_set1_epi64(0xffffffff)));
    const __m512i odd = _mm512_sllv_epi64(one, _mm512_srli_epi64(ahead, 32));
    marker_put(marker, _mm512_or_si512(even, odd), length);
}

// The positions of the ones that end the unary quotients.
static inline __m512i unary_ends(__m512i quotients)
{
    const __m512i one = _mm512_set1_epi32(1);
    return _mm512_sub_epi32(prefix_sums(_mm512_add_epi32(quotients, one)), one);
}

// Marks 16 unary quotients, two in each 64-bit lane: each pair is shifted to its place after the earlier
// pairs.
static inline void marker_put_unary(struct marker *marker, __m512i quotients)
{
    const __m512i one = _mm512_set1_epi64(1), zero = _mm512_setzero_si512();
    const __m512i even = _mm512_and_si512(quotients, _mm512_set1_epi64(0xffffffff));
    const __m512i both = _mm512_add_epi64(_mm512_add_epi64(even, one), _mm512_srli_epi64(quotients, 32));
    const __m512i length = _mm512_add_epi64(both, one);
    __m512i behind = length;
    behind = _mm512_add_epi64(behind, _mm512_alignr_epi64(behind, zero, 7));
    behind = _mm512_add_epi64(behind, _mm512_alignr_epi64(behind, zero, 6));
    behind = _mm512_add_epi64(behind, _mm512_alignr_epi64(behind, zero, 4));
    const uint64_t all = (uint64_t)_mm_extract_epi64(_mm512_extracti64x2_epi64(behind, 3), 1);
    if (__builtin_expect(all > 64, 0)) {
        marker_spread(marker, unary_ends(quotients), LANES, all);
        return;
    }
    const __m512i code = _mm512_or_si512(_mm512_sllv_epi64(one, even), _mm512_sllv_epi64(one, both));
    marker_put(marker, _mm512_sllv_epi64(code, _mm512_sub_epi64(behind, length)), all);
}

// Packs the low parts of 16 numbers, which may have other bits above them.
struct packer {
    uint8_t *at, *end;
    unsigned width;
    uint64_t mask; // selects the low bits of each of eight bytes, or of four words if a byte is too short
};

static inline struct packer packer_of(uint8_t *low, size_t low_bytes, unsigned width)
{
    const uint64_t each = width <= 8 ? 0x0101010101010101u : 0x0001000100010001u;
    return (struct packer){
        .at = low, .end = low + low_bytes, .width = width, .mask = each * ((1u << width) - 1)};
}

// Each store reaches into bytes that later stores overwrite, at most 16 bytes too far.
static inline void pack_bytes(uint8_t *at, __m512i x, const struct packer *packer)
{
    const __m128i eight = _mm512_cvtepi32_epi8(x);
    const uint64_t first = _pext_u64((uint64_t)_mm_cvtsi128_si64(eight), packer->mask);
    const uint64_t second = _pext_u64((uint64_t)_mm_extract_epi64(eight, 1), packer->mask);
    memcpy(at, &first, 8);
    memcpy(at + packer->width, &second, 8);
}

static inline void pack_words(uint8_t *at, __m512i x, const struct packer *packer)
{
    _Alignas(32) uint64_t four[4];
    _mm256_store_si256((__m256i *)four, _mm512_cvtepi32_epi16(x));
    const unsigned half = 4 * packer->width; // 36 to 64 bits
    for (unsigned i = 0; i < 4; i += 2, at += packer->width) {
        const uint64_t first = _pext_u64(four[i], packer->mask);
        const uint64_t second = _pext_u64(four[i + 1], packer->mask);
        const uint64_t lower = first | second << 1 << (half - 1), upper = second >> (64 - half);
        memcpy(at, half < 64 ? &lower : &first, 8);
        memcpy(at + 8, &upper, 8);
    }
}

static inline void packer_put(struct packer *packer, __m512i x)
{
    uint8_t all[PACK_WIDTH + 16] = {0};
    const bool inside = (size_t)(packer->end - packer->at) >= packer->width + 16;
    uint8_t *to = __builtin_expect(inside, 1) ? packer->at : all;
    if (packer->width <= 8)
        pack_bytes(to, x, packer);
    else
        pack_words(to, x, packer);
    if (__builtin_expect(!inside, 0))
        memcpy(packer->at, all, 2 * packer->width);
    packer->at += 2 * packer->width;
}

static inline void rice_put(__m512i gap, unsigned width, struct marker *marker, struct packer *packer)
{
    packer_put(packer, gap);
    marker_put_unary(marker, _mm512_srlv_epi32(gap, _mm512_set1_epi32((int)width)));
}

static void rice_write(size_t count, const uint32_t *index, unsigned width, uint8_t *high, size_t high_bytes,
                       uint8_t *low, size_t low_bytes)
{
    memset(high, 0, high_bytes);
    if (width > PACK_WIDTH) {
        plain_rice_write(0, count, index, 0, width, 0, high, low);
        return;
    }
    struct marker marker = {.bits = high, .bytes = high_bytes};
    struct packer packer = packer_of(low, low_bytes, width);
    size_t i = 0;
    if (count >= LANES) {
        __m512i unused;
        rice_put(gaps_at_end(0, count, index, &unused), width, &marker, &packer);
        i = LANES;
    }
    for (; i + LANES <= count; i += LANES)
        rice_put(gaps_of(_mm512_loadu_si512(index + i), index + i), width, &marker, &packer);
    marker_store(&marker);
    plain_rice_write(i, count, index, i > 0 ? index[i - 1] + 1 : 0, width, marker.bit, high, low);
}

static void bitmap_write(size_t count, const uint32_t *index, uint8_t *bits, size_t bytes)
{
    memset(bits, 0, bytes);
    struct marker marker = {.bits = bits, .bytes = bytes};
    for (size_t i = 0; i < count; i += LANES) {
        const size_t left = count - i;
        const uint32_t done = (uint32_t)marker.bit;
        const __m512i now = _mm512_maskz_loadu_epi32(lanes_of(left), index + i);
        const __m512i ahead = _mm512_sub_epi32(now, _mm512_set1_epi32((int)done));
        if (left >= LANES)
            marker_put_ahead(&marker, ahead, (uint64_t)index[i + LANES - 1] + 1 - done);
        else
            marker_spread(&marker, ahead, left, 0);
    }
    marker_store(&marker);
}

#endif
