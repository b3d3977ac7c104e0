// The index coders for processors with AVX2, BMI1, BMI2 and POPCNT: 8 entries at a time, the remainder in
// plain C.
#include "kernels/cpu/coding_plain.h"
#include "kernels/cpu/cpu.h"

#include <immintrin.h>
#include <string.h>

#define LANES       8u
#define PACK_WIDTH  16u // four low parts fit in 64 bits
#define FETCH_WIDTH 24u // four low parts fit into 16 bytes, wherever they begin

static inline __m256i numbers(void)
{
    return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
}

static inline __m256i load(const void *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

// Elements skipped before each of the 8 entries at `index`; index[-1] exists.
static inline __m256i gaps_of(__m256i now, const uint32_t *index)
{
    return _mm256_sub_epi32(_mm256_sub_epi32(now, load(index - 1)), _mm256_set1_epi32(1));
}

// The same for the first entries, which have no predecessor.
static inline __m256i gaps_at_start(__m256i now)
{
    const __m256i shifted = _mm256_permutevar8x32_epi32(now, _mm256_setr_epi32(0, 0, 1, 2, 3, 4, 5, 6));
    const __m256i previous = _mm256_blend_epi32(shifted, _mm256_set1_epi32(-1), 1);
    return _mm256_sub_epi32(_mm256_sub_epi32(now, previous), _mm256_set1_epi32(1));
}

static inline __m256i prefix_sums(__m256i x)
{
    x = _mm256_add_epi32(x, _mm256_slli_si256(x, 4));
    x = _mm256_add_epi32(x, _mm256_slli_si256(x, 8));
    const __m256i last = _mm256_shuffle_epi32(x, 0xff);
    return _mm256_add_epi32(x, _mm256_permute2x128_si256(last, last, 0x08));
}

static inline uint64_t lane_sum(__m256i x)
{
    uint32_t lane[LANES];
    _mm256_storeu_si256((__m256i *)lane, x);
    uint64_t total = 0;
    for (unsigned i = 0; i < LANES; i++)
        total += lane[i];
    return total;
}

// 32-bit lanes are wide enough for the sums: gaps of ascending indices add up to less than 2^31.
static bool gaps(size_t count, const uint32_t *index, unsigned shift, uint64_t sums[KERNELS_CODING_SHIFTS])
{
    const __m128i first = _mm_cvtsi32_si128((int)shift);
    __m256i sum[KERNELS_CODING_SHIFTS], any = _mm256_setzero_si256();
    uint64_t total[KERNELS_CODING_SHIFTS] = {0};
    for (unsigned j = 0; j < KERNELS_CODING_SHIFTS; j++)
        sum[j] = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        const __m256i now = load(index + i);
        const __m256i gap = i > 0 ? gaps_of(now, index + i) : gaps_at_start(now);
        any = _mm256_or_si256(any, _mm256_or_si256(now, gap));
        __m256i part = _mm256_srl_epi32(gap, first);
        for (unsigned j = 0; j < KERNELS_CODING_SHIFTS; j++) {
            sum[j] = _mm256_add_epi32(sum[j], part);
            part = _mm256_srli_epi32(part, 1);
        }
    }
    uint32_t rest = 0;
    for (uint32_t next = i > 0 ? index[i - 1] + 1 : 0; i < count; next = index[i++] + 1) {
        const uint32_t gap = index[i] - next;
        rest |= gap | index[i];
        for (unsigned j = 0; j < KERNELS_CODING_SHIFTS; j++)
            total[j] += gap >> (shift + j);
    }
    const bool ascending = _mm256_movemask_ps(_mm256_castsi256_ps(any)) == 0 && rest >> 31 == 0;
    for (unsigned j = 0; j < KERNELS_CODING_SHIFTS && ascending; j++)
        sums[j] = total[j] + lane_sum(sum[j]);
    return ascending;
}

// Packs the low parts of 8 numbers, which may have other bits above them; the last store reaches up to 16
// bytes too far.
static inline void pack(uint8_t *at, __m256i x, unsigned width)
{
    const uint64_t mask = 0x0000000100000001u * (uint64_t)((1u << width) - 1);
    uint64_t pair[4];
    _mm256_storeu_si256((__m256i *)pair, x);
    const unsigned two = 2 * width, half = 4 * width;
    const uint64_t first = _pext_u64(pair[0], mask) | _pext_u64(pair[1], mask) << two;
    const uint64_t second = _pext_u64(pair[2], mask) | _pext_u64(pair[3], mask) << two;
    const uint64_t lower = half < 64 ? first | second << half : first;
    memcpy(at, &lower, 8);
    if (half > 32) {
        const uint64_t upper = second >> (64 - half);
        memcpy(at + 8, &upper, 8);
    }
}

// A zeroed bit vector that is marked from its start to its end; `bit` is the current position.
struct marker {
    uint8_t *bits;
    size_t bytes;
    uint64_t bit;
};

static __attribute__((noinline)) void mark_each(uint8_t *bits, uint64_t from, __m256i ahead)
{
    uint32_t position[LANES];
    _mm256_storeu_si256((__m256i *)position, ahead);
    for (size_t i = 0; i < LANES; i++)
        plain_mark(bits, from + position[i]);
}

// Marks 8 bits at the ascending distances `ahead` from the current position, which then advances by `length`,
// to just after the last of them.
static inline void marker_put(struct marker *marker, __m256i ahead, uint64_t length)
{
    const size_t at = (size_t)(marker->bit >> 6) * 8;
    if (__builtin_expect(length > 64 || at + 16 > marker->bytes, 0)) {
        mark_each(marker->bits, marker->bit, ahead);
        marker->bit += length;
        return;
    }
    const __m256i one = _mm256_set1_epi64x(1);
    const __m256i even = _mm256_sllv_epi64(one, _mm256_and_si256(ahead, _mm256_set1_epi64x(0xffffffff)));
    const __m256i odd = _mm256_sllv_epi64(one, _mm256_srli_epi64(ahead, 32));
    const __m256i four = _mm256_or_si256(even, odd);
    const __m128i two = _mm_or_si128(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    const uint64_t marks = (uint64_t)_mm_cvtsi128_si64(two) | (uint64_t)_mm_extract_epi64(two, 1);
    const unsigned shift = marker->bit & 63;
    uint64_t word;
    memcpy(&word, marker->bits + at, 8);
    word |= marks << shift;
    const uint64_t over = marks >> 1 >> (63 - shift);
    memcpy(marker->bits + at, &word, 8);
    memcpy(marker->bits + at + 8, &over, 8);
    marker->bit += length;
}

// The number of entries, a multiple of 8, that can be packed without writing past the end.
static size_t packable(size_t count, unsigned width, size_t low_bytes)
{
    const bool none = width == 0 || width > PACK_WIDTH || low_bytes < 16;
    const size_t fit = none ? 0 : (low_bytes - 16) / width * LANES;
    return (fit < count ? fit : count) & ~(size_t)(LANES - 1);
}

static void rice_write(size_t count, const uint32_t *index, unsigned width, uint8_t *high, size_t high_bytes,
                       uint8_t *low, size_t low_bytes)
{
    memset(high, 0, high_bytes);
    const size_t most = packable(count, width, low_bytes);
    const __m128i shift = _mm_cvtsi32_si128((int)width);
    const __m256i one = _mm256_set1_epi32(1);
    struct marker marker = {.bits = high, .bytes = high_bytes};
    size_t i = 0;
    for (; i < most; i += LANES) {
        const __m256i now = load(index + i);
        const __m256i gap = i > 0 ? gaps_of(now, index + i) : gaps_at_start(now);
        pack(low + i / LANES * width, gap, width);
        const __m256i behind = prefix_sums(_mm256_add_epi32(_mm256_srl_epi32(gap, shift), one));
        marker_put(&marker, _mm256_sub_epi32(behind, one), (uint32_t)_mm256_extract_epi32(behind, 7));
    }
    plain_rice_write(i, count, index, i > 0 ? index[i - 1] + 1 : 0, width, marker.bit, high, low);
}

static void bitmap_write(size_t count, const uint32_t *index, uint8_t *bits, size_t bytes)
{
    memset(bits, 0, bytes);
    struct marker marker = {.bits = bits, .bytes = bytes};
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        const uint32_t done = (uint32_t)marker.bit;
        marker_put(&marker, _mm256_sub_epi32(load(index + i), _mm256_set1_epi32((int)done)),
                   (uint64_t)index[i + LANES - 1] + 1 - done);
    }
    for (; i < count; i++)
        plain_mark(bits, index[i]);
}

// How to extract 8 low parts of one width from their bytes: four from each of two loads.
struct fetch {
    __m256i bytes, shift, mask;
    size_t second, step; // offset of the second load; bytes of 8 parts
};

static inline struct fetch fetch_of(unsigned width)
{
    const size_t second = 4 * width / 8;
    const __m256i start = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    const __m256i bit = _mm256_sub_epi32(_mm256_mullo_epi32(numbers(), _mm256_set1_epi32((int)width)),
                                         _mm256_mullo_epi32(start, _mm256_set1_epi32((int)second * 8)));
    const __m256i byte = _mm256_mullo_epi32(_mm256_srli_epi32(bit, 3), _mm256_set1_epi32(0x01010101));
    return (struct fetch){.bytes = _mm256_add_epi32(byte, _mm256_set1_epi32(0x03020100)),
                          .shift = _mm256_and_si256(bit, _mm256_set1_epi32(7)),
                          .mask = _mm256_set1_epi32((int)((1u << width) - 1)),
                          .second = second,
                          .step = width};
}

// Reads 8 low parts; parts beyond `left` bytes are zero.
static inline __m256i fetch_next(const struct fetch *fetch, const uint8_t *low, size_t left)
{
    uint8_t rest[FETCH_WIDTH / 2 + 16] = {0};
    if (__builtin_expect(left < fetch->second + 16, 0)) {
        memcpy(rest, low, left);
        low = rest;
    }
    const __m128i first = _mm_loadu_si128((const __m128i *)low);
    const __m128i second = _mm_loadu_si128((const __m128i *)(low + fetch->second));
    const __m256i x = _mm256_shuffle_epi8(_mm256_set_m128i(second, first), fetch->bytes);
    return _mm256_and_si256(_mm256_srlv_epi32(x, fetch->shift), fetch->mask);
}

static uint64_t sum(size_t count, unsigned width, const uint8_t *low, size_t low_bytes)
{
    uint64_t total = 0;
    size_t i = 0;
    const uint8_t *at = low, *end = low + low_bytes;
    const struct fetch fetch = fetch_of(width <= FETCH_WIDTH ? width : 0);
    while (width <= FETCH_WIDTH && i + LANES <= count) {
        const size_t stop = count - i < CODING_BLOCK ? count : i + CODING_BLOCK;
        __m256i lanes = _mm256_setzero_si256(); // 32 times 2^24 at most
        for (; i + LANES <= stop; i += LANES, at += fetch.step) {
            const size_t left = at < end ? (size_t)(end - at) : 0;
            lanes = _mm256_add_epi32(lanes, fetch_next(&fetch, at, left));
        }
        total += lane_sum(lanes);
    }
    for (; i < count; i++)
        total += plain_low(low, low_bytes, i, width);
    return total;
}

#define ROOM (CODING_BLOCK + 64u) // the bits of one word may exceed a block

// The positions of the set bits of a half byte, one byte each.
static const uint32_t half_byte[16] = {0x00000000, 0x00000000, 0x00000001, 0x00000100, 0x00000002, 0x00000200,
                                       0x00000201, 0x00020100, 0x00000003, 0x00000300, 0x00000301, 0x00030100,
                                       0x00000302, 0x00030200, 0x00030201, 0x03020100};

// The positions of the next `count` set bits from bit `at` on, at most a block; zeros if there are fewer.
static inline void positions(const uint8_t *bits, size_t bytes, uint64_t at, size_t count,
                             uint32_t position[ROOM])
{
    size_t found = 0, byte = (size_t)(at >> 6) * 8;
    unsigned skip = at & 63;
    __m256i number = _mm256_set1_epi32((int)(uint32_t)(byte * 8));
    for (; found < count && byte < bytes; byte += 8) {
        uint64_t word = plain_load(bits + byte, bytes - byte) >> skip << skip;
        skip = 0;
        if (word == 0) {
            number = _mm256_add_epi32(number, _mm256_set1_epi32(64));
            continue;
        }
        for (unsigned part = 0; part < 8; part++, word >>= 8) {
            const unsigned low = word & 15, high = word >> 4 & 15;
            const unsigned before = (unsigned)_mm_popcnt_u32(low);
            const uint64_t above = (uint64_t)(half_byte[high] + 0x04040404u) << 8 * before;
            const __m128i eight = _mm_cvtsi64_si128((long long)(half_byte[low] | above));
            _mm256_storeu_si256((__m256i *)(position + found),
                                _mm256_add_epi32(_mm256_cvtepu8_epi32(eight), number));
            found += before + (unsigned)_mm_popcnt_u32(high);
            number = _mm256_add_epi32(number, _mm256_set1_epi32(8));
        }
    }
    if (found < count)
        memset(position + found, 0, (count - found) * sizeof *position);
}

// Reads all except the remainder of a block, which is left to the plain loop.
static inline size_t rice_join(const struct kernels_streams *streams, const struct fetch *fetch,
                               const struct kernels_rice *at, size_t count, const uint32_t *position,
                               uint32_t *index)
{
    const uint8_t *low = streams->low + at->entry * streams->width / 8;
    const uint8_t *end = streams->low + streams->low_bytes;
    const __m128i shift = _mm_cvtsi32_si128((int)streams->width);
    const __m256i seven = _mm256_set1_epi32(7), eight = _mm256_set1_epi32(8);
    __m256i ones_before = _mm256_add_epi32(numbers(), _mm256_set1_epi32((int)(uint32_t)at->bit));
    __m256i lows = _mm256_add_epi32(numbers(), _mm256_set1_epi32((int)at->next));
    size_t i = 0;
    for (; i + LANES <= count; i += LANES, low += fetch->step) {
        const size_t left = low < end ? (size_t)(end - low) : 0;
        const __m256i zeros = _mm256_sll_epi32(_mm256_sub_epi32(load(position + i), ones_before), shift);
        const __m256i part = prefix_sums(fetch_next(fetch, low, left));
        _mm256_storeu_si256((__m256i *)(index + i), _mm256_add_epi32(_mm256_add_epi32(zeros, part), lows));
        lows = _mm256_add_epi32(lows, _mm256_permutevar8x32_epi32(part, seven));
        lows = _mm256_add_epi32(lows, eight);
        ones_before = _mm256_add_epi32(ones_before, eight);
    }
    return i;
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
        const size_t joined = wide ? 0 : rice_join(streams, &fetch, at, now, position, index);
        if (joined > 0) {
            *at = (struct kernels_rice){.bit = (uint64_t)position[joined - 1] + 1,
                                        .entry = at->entry + joined,
                                        .next = index[joined - 1] + 1};
        }
        memcpy(index + joined, position + joined, (now - joined) * sizeof *index);
        plain_rice_join(streams, at, now - joined, index + joined);
    }
}

#include "kernels/cpu/coding_words.h"

const struct kernels_coding kernels_cpu_coding_avx2 = {
    .gaps = gaps,
    .rice_write = rice_write,
    .bitmap_write = bitmap_write,
    .ones = ones,
    .sum = sum,
    .rice_read = rice_read,
    .bitmap_read = bitmap_read,
};
