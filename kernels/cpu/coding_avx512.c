// The index coders for processors with AVX-512 F, BW, DQ and VL: 16 entries at a time. Loads and stores at
// the ends of streams are masked.
#include "kernels/cpu/coding_plain.h"
#include "kernels/cpu/cpu.h"

#include <immintrin.h>
#include <string.h>

#define LANES       16u
#define PACK_WIDTH  16u // a low part fits in the word that is cut out of a number
#define FETCH_WIDTH 24u // four low parts, wherever they begin, fit in 16 bytes that begin at a multiple of 4

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

// Elements skipped before the 16 entries from `index` on; there is one before them.
static inline __m512i gaps_of(__m512i now, const uint32_t *index)
{
    return _mm512_sub_epi32(_mm512_sub_epi32(now, _mm512_loadu_si512(index - 1)), _mm512_set1_epi32(1));
}

// The same for fewer than 16, or where none is before them; zero in the other lanes.
static inline __m512i gaps_at_end(size_t i, size_t count, const uint32_t *index, __m512i *now)
{
    const __mmask16 lanes = lanes_of(count - i);
    *now = _mm512_maskz_loadu_epi32(lanes, index + i);
    const __m512i before = _mm512_set1_epi32(i == 0 ? -1 : (int)index[i - (i != 0)]);
    const __m512i previous = _mm512_alignr_epi32(*now, before, LANES - 1);
    return _mm512_maskz_sub_epi32(lanes, _mm512_sub_epi32(*now, previous), _mm512_set1_epi32(1));
}

// Lanes of 32 bits hold the sums: gaps of ascending indices add up to less than 2^31.
static bool gaps(size_t count, const uint32_t *index, unsigned shift, uint64_t sums[KERNELS_CODING_SHIFTS])
{
    const __m512i first = _mm512_set1_epi32((int)shift);
    __m512i sum[KERNELS_CODING_SHIFTS], any = _mm512_setzero_si512();
    for (unsigned j = 0; j < KERNELS_CODING_SHIFTS; j++) {
        sum[j] = _mm512_setzero_si512();
    }
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
    for (unsigned j = 0; j < KERNELS_CODING_SHIFTS && ascending; j++) {
        sums[j] = lane_sum(sum[j]);
    }
    return ascending;
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
    if (__builtin_expect(at + 8 <= marker->bytes, 1)) {
        memcpy(marker->bits + at, &marker->word, 8);
        return;
    }
    for (unsigned i = 0; at + i < marker->bytes; i++) {
        marker->bits[at + i] = (uint8_t)(marker->word >> 8 * i);
    }
}

static __attribute__((noinline)) void mark_each(uint8_t *bits, uint64_t from, __m512i ahead, size_t count)
{
    uint32_t position[LANES];
    _mm512_storeu_si512(position, ahead);
    for (size_t i = 0; i < count; i++) {
        plain_mark(bits, from + position[i]);
    }
}

// Sets the bits `ahead` of where it stands one by one, where they are far apart or fewer than 16; `length`
// reaches behind the last one.
static inline void marker_spread(struct marker *marker, __m512i ahead, size_t count, uint64_t length)
{
    marker_store(marker);
    mark_each(marker->bits, marker->bit, ahead, count);
    marker->bit += length;
    const size_t at = (size_t)(marker->bit >> 6) * 8;
    marker->word = at < marker->bytes ? plain_load(marker->bits + at, marker->bytes - at) : 0;
}

// Sets the bits of eight words, which reach over the next `length` bits, at most 64, the last of which is
// set.
static inline void marker_put(struct marker *marker, __m512i words, uint64_t length)
{
    const __m256i four = _mm256_or_si256(_mm512_castsi512_si256(words), _mm512_extracti64x4_epi64(words, 1));
    const __m128i two = _mm_or_si128(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    const uint64_t marks = (uint64_t)_mm_cvtsi128_si64(_mm_or_si128(two, _mm_unpackhi_epi64(two, two)));
    const unsigned shift = marker->bit & 63;
    marker->word |= marks << shift;
    marker_store(marker);
    const uint64_t bit = marker->bit + length;
    const uint64_t crossed =
        (bit >> 6) - (marker->bit >> 6); // 0 or 1; no branch, because either is as likely
    marker->word = (marker->word & (crossed - 1)) | marks >> 1 >> (63 - shift);
    marker->bit = bit;
}

// Marks 16 bits `ahead` of where it stands, ascending; `length` reaches behind the last one.
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

// Where each of the ones stands that end quotients in unary.
static inline __m512i unary_ends(__m512i quotients)
{
    const __m512i one = _mm512_set1_epi32(1);
    return _mm512_sub_epi32(prefix_sums(_mm512_add_epi32(quotients, one)), one);
}

// Each pair of quotients in unary, shifted behind the pairs before it.
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

// Puts low parts of 16 numbers, which may have other bits above them, one behind the other.
struct packer {
    uint8_t *at, *end;
    unsigned width;
    uint64_t mask; // the low bits of each of eight bytes, or of four words where a byte is too short
};

static inline struct packer packer_of(uint8_t *low, size_t low_bytes, unsigned width)
{
    const uint64_t each = width <= 8 ? 0x0101010101010101u : 0x0001000100010001u;
    return (struct packer){
        .at = low, .end = low + low_bytes, .width = width, .mask = each * ((1u << width) - 1)};
}

// Each store runs over into bytes that later ones write again: at most 16 bytes behind `width`.
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

static inline void packer_put(struct packer *packer, __m512i x, size_t entries)
{
    uint8_t all[PACK_WIDTH + 16] = {0};
    const bool inside = entries >= LANES && (size_t)(packer->end - packer->at) >= packer->width + 16;
    uint8_t *to = __builtin_expect(inside, 1) ? packer->at : all;
    if (packer->width <= 8) {
        pack_bytes(to, x, packer);
    } else {
        pack_words(to, x, packer);
    }
    if (__builtin_expect(!inside, 0)) {
        memcpy(packer->at, all, ((entries < LANES ? entries : LANES) * packer->width + 7) / 8);
    }
    packer->at += 2 * packer->width;
}

static inline void rice_put(__m512i gap, unsigned width, struct marker *marker, struct packer *packer)
{
    packer_put(packer, gap, LANES);
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
    for (; i + LANES <= count; i += LANES) {
        rice_put(gaps_of(_mm512_loadu_si512(index + i), index + i), width, &marker, &packer);
    }
    marker_store(&marker);
    plain_rice_write(i, count, index, i > 0 ? index[i - 1] + 1 : 0, width, marker.bit, high, low);
}

static void fano_write(size_t count, const uint32_t *index, uint32_t base, unsigned width, uint8_t *high,
                       size_t high_bytes, uint8_t *low, size_t low_bytes)
{
    memset(high, 0, high_bytes);
    if (width > PACK_WIDTH) {
        plain_fano_write(0, count, index, base, width, high, low);
        return;
    }
    struct marker marker = {.bits = high, .bytes = high_bytes};
    struct packer packer = packer_of(low, low_bytes, width);
    const __m512i shift = _mm512_set1_epi32((int)width), start = _mm512_set1_epi32((int)base);
    for (size_t i = 0; i < count; i += LANES) {
        const size_t left = count - i;
        const __m512i now = _mm512_maskz_loadu_epi32(lanes_of(left), index + i);
        const __m512i offset = _mm512_maskz_sub_epi32(lanes_of(left), now, start);
        const __m512i place = _mm512_add_epi32(_mm512_srlv_epi32(offset, shift), numbers());
        const uint32_t zeros = (uint32_t)(marker.bit - i);
        const __m512i ahead = _mm512_sub_epi32(place, _mm512_set1_epi32((int)zeros));
        packer_put(&packer, offset, left);
        if (left >= LANES) {
            marker_put_ahead(&marker, ahead, ((index[i + LANES - 1] - base) >> width) + LANES - zeros);
        } else {
            marker_spread(&marker, ahead, left, 0);
        }
    }
    marker_store(&marker);
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
        if (left >= LANES) {
            marker_put_ahead(&marker, ahead, (uint64_t)index[i + LANES - 1] + 1 - done);
        } else {
            marker_spread(&marker, ahead, left, 0);
        }
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
