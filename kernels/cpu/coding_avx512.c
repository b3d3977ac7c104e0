// The index coders for processors with AVX-512 F, BW, DQ and VL: 16 entries at a time. Loads and stores at
// the ends of streams are masked.
#include "kernels/cpu/coding_plain.h"
#include "kernels/cpu/cpu.h"

#include <immintrin.h>
#include <string.h>

#define LANES       16u
#define PACK_WIDTH  16u // four low parts fit in 64 bits
#define FETCH_WIDTH 24u // four low parts, wherever they begin, fit in 16 bytes that begin at a multiple of 4

static inline __m512i numbers(void)
{
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

static inline __mmask16 lanes_of(size_t left)
{
    return left >= LANES ? (__mmask16)0xffff : (__mmask16)((1u << left) - 1);
}

// Elements skipped before each of `index`; `before` is the vector before it, all ones at the start.
static inline __m512i gaps_of(__m512i index, __m512i before)
{
    const __m512i previous = _mm512_alignr_epi32(index, before, LANES - 1);
    return _mm512_sub_epi32(_mm512_sub_epi32(index, previous), _mm512_set1_epi32(1));
}

static inline __m512i prefix_sums(__m512i x)
{
    const __m512i zero = _mm512_setzero_si512();
    x = _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 15));
    x = _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 14));
    x = _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 12));
    return _mm512_add_epi32(x, _mm512_alignr_epi32(x, zero, 8));
}

static inline uint32_t last_lane(__m512i x)
{
    return (uint32_t)_mm_extract_epi32(_mm512_extracti32x4_epi32(x, 3), 3);
}

static inline uint64_t lane_sum(__m512i x)
{
    const __m512i low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(x));
    const __m512i high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(x, 1));
    return (uint64_t)_mm512_reduce_add_epi64(_mm512_add_epi64(low, high));
}

// Lanes of 32 bits hold the sums: gaps of ascending indices add up to less than 2^32.
static bool gaps(size_t count, const uint32_t *index, unsigned shift, uint64_t sums[KERNELS_CODING_SHIFTS])
{
    const __m512i first = _mm512_set1_epi32((int)shift);
    __m512i sum[KERNELS_CODING_SHIFTS], before = _mm512_set1_epi32(-1);
    for (unsigned j = 0; j < KERNELS_CODING_SHIFTS; j++) {
        sum[j] = _mm512_setzero_si512();
    }
    __mmask16 broken = count > 0 && index[count - 1] == UINT32_MAX;
    for (size_t i = 0; i < count; i += LANES) {
        const __mmask16 lanes = lanes_of(count - i);
        const __m512i now = _mm512_maskz_loadu_epi32(lanes, index + i);
        const __m512i gap = gaps_of(now, before);
        broken |= _mm512_mask_cmpge_epu32_mask(lanes, gap, now) & (__mmask16)(i == 0 ? 0xfffe : 0xffff);
        __m512i part = _mm512_maskz_srlv_epi32(lanes, gap, first);
        for (unsigned j = 0; j < KERNELS_CODING_SHIFTS; j++) {
            sum[j] = _mm512_add_epi32(sum[j], part);
            part = _mm512_srli_epi32(part, 1);
        }
        before = now;
    }
    for (unsigned j = 0; j < KERNELS_CODING_SHIFTS && broken == 0; j++) {
        sums[j] = lane_sum(sum[j]);
    }
    return broken == 0;
}

// A zeroed bit vector that is being marked from its start to its end.
struct marker {
    uint8_t *bits;
    size_t bytes;
    uint64_t bit, word; // where it stands; the marks so far among the 64 bits around it
};

static inline void marker_store(const struct marker *marker)
{
    const size_t at = (size_t)(marker->bit >> 6) * 8;
    if (at + 8 <= marker->bytes) {
        memcpy(marker->bits + at, &marker->word, 8);
    } else if (at < marker->bytes) {
        memcpy(marker->bits + at, &marker->word, marker->bytes - at);
    }
}

// Marks far apart, one by one.
static __attribute__((noinline)) void marker_spread(struct marker *marker, __m512i ahead, __mmask16 lanes,
                                                    uint32_t last)
{
    uint32_t position[LANES];
    _mm512_storeu_si512(position, ahead);
    marker_store(marker);
    for (unsigned i = 0; i < LANES && (lanes >> i & 1) != 0; i++) {
        plain_mark(marker->bits, marker->bit + position[i]);
    }
    marker->bit += (uint64_t)last + 1;
    const size_t at = (size_t)(marker->bit >> 6) * 8;
    marker->word = at < marker->bytes ? plain_load(marker->bits + at, marker->bytes - at) : 0;
}

// Marks the bits `ahead` of where it stands, ascending, `last` the last of them, and stands behind that.
static inline void marker_put(struct marker *marker, __m512i ahead, __mmask16 lanes, uint32_t last)
{
    if (__builtin_expect(last >= 64, 0)) {
        marker_spread(marker, ahead, lanes, last);
        return;
    }
    const __m512i one = _mm512_set1_epi64(1);
    const __m512i low =
        _mm512_maskz_sllv_epi64((__mmask8)lanes, one, _mm512_cvtepu32_epi64(_mm512_castsi512_si256(ahead)));
    const __m512i high = _mm512_maskz_sllv_epi64((__mmask8)(lanes >> 8), one,
                                                 _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(ahead, 1)));
    const uint64_t marks = (uint64_t)_mm512_reduce_or_epi64(_mm512_or_si512(low, high));
    const unsigned shift = marker->bit & 63;
    marker->word |= marks << shift;
    marker_store(marker);
    const uint64_t bit = marker->bit + last + 1;
    marker->word = bit >> 6 == marker->bit >> 6 ? marker->word : marks >> 1 >> (63 - shift);
    marker->bit = bit;
}

// The low `width` bits of 16 numbers, which may have others above them, `entries` of them to be kept.
static inline void pack(uint8_t *low, __m512i x, size_t entries, unsigned width)
{
    const __m512i mask = _mm512_set1_epi64((1 << width) - 1);
    const __m512i width1 = _mm512_set1_epi64(width), width2 = _mm512_set1_epi64(2 * width);
    const __m256i width4 = _mm256_set1_epi64x(4 * width), rest = _mm256_set1_epi64x(64 - 4 * (int)width);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi64(x, 32), mask);
    const __m512i two = _mm512_or_si512(_mm512_and_si512(x, mask), _mm512_sllv_epi64(odd, width1));
    const __m512i four = _mm512_or_si512(two, _mm512_sllv_epi64(_mm512_bsrli_epi128(two, 8), width2));
    const __m256i pairs = _mm512_castsi512_si256(_mm512_maskz_compress_epi64(0x55, four));
    const __m256i second = _mm256_unpackhi_epi64(pairs, pairs);
    const __m256i lower = _mm256_or_si256(pairs, _mm256_sllv_epi64(second, width4));
    const __m256i eight = _mm256_unpacklo_epi64(lower, _mm256_srlv_epi64(second, rest));
    if (entries >= LANES) {
        const __mmask16 bytes = (__mmask16)((1u << width) - 1);
        _mm_mask_storeu_epi8(low, bytes, _mm256_castsi256_si128(eight));
        _mm_mask_storeu_epi8(low + width, bytes, _mm256_extracti128_si256(eight, 1));
        return;
    }
    uint8_t all[2 * PACK_WIDTH + 16] = {0};
    _mm_storeu_si128((__m128i *)all, _mm256_castsi256_si128(eight));
    _mm_storeu_si128((__m128i *)(all + width), _mm256_extracti128_si256(eight, 1));
    memcpy(low, all, (entries * width + 7) / 8);
}

static void rice_write(size_t count, const uint32_t *index, unsigned width, uint8_t *high, size_t high_bytes,
                       uint8_t *low, size_t low_bytes)
{
    (void)low_bytes;
    memset(high, 0, high_bytes);
    if (width > PACK_WIDTH) {
        plain_rice_write(0, count, index, 0, width, 0, high, low);
        return;
    }
    struct marker marker = {.bits = high, .bytes = high_bytes};
    const __m512i shift = _mm512_set1_epi32((int)width), one = _mm512_set1_epi32(1);
    __m512i before = _mm512_set1_epi32(-1);
    for (size_t i = 0; i < count; i += LANES) {
        const __mmask16 lanes = lanes_of(count - i);
        const __m512i now = _mm512_maskz_loadu_epi32(lanes, index + i);
        const __m512i gap = _mm512_maskz_mov_epi32(lanes, gaps_of(now, before));
        const __m512i behind = prefix_sums(_mm512_maskz_add_epi32(lanes, _mm512_srlv_epi32(gap, shift), one));
        pack(low, gap, count - i, width);
        marker_put(&marker, _mm512_sub_epi32(behind, one), lanes, last_lane(behind) - 1);
        low += 2 * width;
        before = now;
    }
    marker_store(&marker);
}

static void fano_write(size_t count, const uint32_t *index, uint32_t base, unsigned width, uint8_t *high,
                       size_t high_bytes, uint8_t *low, size_t low_bytes)
{
    (void)low_bytes;
    memset(high, 0, high_bytes);
    if (width > PACK_WIDTH) {
        plain_fano_write(0, count, index, base, width, high, low);
        return;
    }
    struct marker marker = {.bits = high, .bytes = high_bytes};
    const __m512i shift = _mm512_set1_epi32((int)width), start = _mm512_set1_epi32((int)base);
    for (size_t i = 0; i < count; i += LANES) {
        const __mmask16 lanes = lanes_of(count - i);
        const size_t last = (count - i < LANES ? count - i : LANES) - 1;
        const __m512i now = _mm512_maskz_loadu_epi32(lanes, index + i);
        const __m512i offset = _mm512_maskz_sub_epi32(lanes, now, start);
        const __m512i place = _mm512_add_epi32(_mm512_srlv_epi32(offset, shift), numbers());
        const uint32_t done = (uint32_t)(marker.bit - i); // zeros so far
        pack(low, offset, count - i, width);
        marker_put(&marker, _mm512_sub_epi32(place, _mm512_set1_epi32((int)done)), lanes,
                   ((index[i + last] - base) >> width) + (uint32_t)last - done);
        low += 2 * width;
    }
    marker_store(&marker);
}

static void bitmap_write(size_t count, const uint32_t *index, uint8_t *bits, size_t bytes)
{
    memset(bits, 0, bytes);
    struct marker marker = {.bits = bits, .bytes = bytes};
    for (size_t i = 0; i < count; i += LANES) {
        const __mmask16 lanes = lanes_of(count - i);
        const size_t last = (count - i < LANES ? count - i : LANES) - 1;
        const __m512i now = _mm512_maskz_loadu_epi32(lanes, index + i);
        const uint32_t done = (uint32_t)marker.bit;
        marker_put(&marker, _mm512_sub_epi32(now, _mm512_set1_epi32((int)done)), lanes,
                   index[i + last] - done);
    }
    marker_store(&marker);
}

static size_t ones(const uint8_t *bits, size_t bytes)
{
    size_t set = 0, at = 0;
    for (; at + 8 <= bytes; at += 8) {
        set += (size_t)_mm_popcnt_u64(plain_load(bits + at, 8));
    }
    return set + (size_t)_mm_popcnt_u64(plain_load(bits + at, bytes - at));
}

// How to take 16 low parts of a width out of the bytes that hold them.
struct fetch {
    __m512i words, bytes, shift, mask;
    unsigned step; // bytes of 16
};

static inline struct fetch fetch_of(unsigned width)
{
    const __m512i wide = _mm512_set1_epi32((int)width);
    const __m512i quad = _mm512_andnot_si512(_mm512_set1_epi32(3), numbers());
    // Each lane of 128 bits holds four parts; they begin in this word of 32 bits.
    const __m512i word = _mm512_srli_epi32(_mm512_mullo_epi32(quad, wide), 5);
    const __m512i bit = _mm512_sub_epi32(_mm512_mullo_epi32(numbers(), wide), _mm512_slli_epi32(word, 5));
    const __m512i byte = _mm512_mullo_epi32(_mm512_srli_epi32(bit, 3), _mm512_set1_epi32(0x01010101));
    return (struct fetch){.words = _mm512_add_epi32(word, _mm512_and_si512(numbers(), _mm512_set1_epi32(3))),
                          .bytes = _mm512_add_epi32(byte, _mm512_set1_epi32(0x03020100)),
                          .shift = _mm512_and_si512(bit, _mm512_set1_epi32(7)),
                          .mask = _mm512_set1_epi32((int)((1u << width) - 1)),
                          .step = 2 * width};
}

// 16 low parts; those beyond `left` bytes come out as zero.
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
        for (size_t i = 0; i < count; i++) {
            total += plain_low(low, low_bytes, i, width);
        }
        return total;
    }
    const struct fetch fetch = fetch_of(width);
    const uint8_t *end = low + low_bytes;
    for (size_t i = 0; i < count;) {
        const size_t stop = count - i < CODING_BLOCK ? count : i + CODING_BLOCK;
        __m512i lanes = _mm512_setzero_si512(); // 16 times 2^24 at most
        for (; i < stop; i += LANES, low += fetch.step) {
            const size_t left = low < end ? (size_t)(end - low) : 0;
            lanes = _mm512_add_epi32(lanes, fetch_next(&fetch, low, left));
        }
        total += lane_sum(lanes);
    }
    return total;
}

#define ROOM (CODING_BLOCK + 64u) // what is marked in one word can run over

// Positions of set bits from bit `at` on: `count`, at most a block. Zeros where there are fewer.
static inline void positions(const uint8_t *bits, size_t bytes, uint64_t at, size_t count,
                             uint32_t position[ROOM])
{
    size_t found = 0, byte = (size_t)(at >> 6) * 8;
    unsigned skip = at & 63;
    __m512i number = _mm512_add_epi32(numbers(), _mm512_set1_epi32((int)(uint32_t)(byte * 8)));
    for (; found < count && byte < bytes; byte += 8) {
        uint64_t word = plain_load(bits + byte, bytes - byte) >> skip << skip;
        skip = 0;
        for (unsigned part = 0; part < 4; part++, word >>= 16) {
            _mm512_storeu_si512(position + found, _mm512_maskz_compress_epi32((__mmask16)word, number));
            found += (size_t)_mm_popcnt_u32((uint32_t)word & 0xffffu);
            number = _mm512_add_epi32(number, _mm512_set1_epi32(16));
        }
    }
    if (found < count) {
        memset(position + found, 0, (count - found) * sizeof *position);
    }
}

static inline void rice_join(const struct kernels_streams *streams, const struct fetch *fetch,
                             struct kernels_rice *at, size_t count, const uint32_t *position, uint32_t *index)
{
    const uint8_t *low = streams->low + at->entry * streams->width / 8;
    const uint8_t *end = streams->low + streams->low_bytes;
    const __m512i shift = _mm512_set1_epi32((int)streams->width), fifteen = _mm512_set1_epi32(15);
    __m512i ones_before = _mm512_add_epi32(numbers(), _mm512_set1_epi32((int)(uint32_t)at->bit));
    __m512i lows = _mm512_set1_epi32((int)at->next); // what the low parts and ones before have added
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

static void fano_read(const struct kernels_streams *streams, uint32_t base, size_t count, uint32_t *index)
{
    uint32_t position[ROOM];
    positions(streams->high, streams->high_bytes, 0, count, position);
    if (streams->width > FETCH_WIDTH) {
        memcpy(index, position, count * sizeof *index);
        plain_fano_join(streams, base, 0, count, index);
        return;
    }
    const struct fetch fetch = fetch_of(streams->width);
    const uint8_t *low = streams->low, *end = low + streams->low_bytes;
    const __m512i shift = _mm512_set1_epi32((int)streams->width), start = _mm512_set1_epi32((int)base);
    __m512i ones_before = numbers();
    for (size_t i = 0; i < count; i += LANES, low += fetch.step) {
        const size_t left = low < end ? (size_t)(end - low) : 0;
        const __m512i place = _mm512_loadu_si512(position + i);
        const __m512i zeros = _mm512_sllv_epi32(_mm512_sub_epi32(place, ones_before), shift);
        const __m512i offset = _mm512_or_si512(zeros, fetch_next(&fetch, low, left));
        _mm512_mask_storeu_epi32(index + i, lanes_of(count - i), _mm512_add_epi32(offset, start));
        ones_before = _mm512_add_epi32(ones_before, _mm512_set1_epi32(16));
    }
}

static uint64_t bitmap_read(const uint8_t *bits, size_t bytes, uint64_t at, size_t count, uint32_t *index)
{
    uint32_t position[ROOM];
    for (size_t now; count > 0; count -= now, index += now) {
        now = count < CODING_BLOCK ? count : CODING_BLOCK;
        positions(bits, bytes, at, now, position);
        memcpy(index, position, now * sizeof *index);
        at = (uint64_t)position[now - 1] + 1;
    }
    return at;
}

const struct kernels_coding kernels_cpu_coding_avx512 = {
    .gaps = gaps,
    .rice_write = rice_write,
    .fano_write = fano_write,
    .bitmap_write = bitmap_write,
    .ones = ones,
    .sum = sum,
    .rice_read = rice_read,
    .fano_read = fano_read,
    .bitmap_read = bitmap_read,
};
