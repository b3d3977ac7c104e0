// Exact top-k by magnitude in two passes over the vector, most of the time. A strided sample guesses a floor
// well below the k-th magnitude. The first pass counts the magnitudes from there on in a histogram, which
// encloses the k-th in one narrow bucket. The second gathers what lies above that bucket, and the few inside
// it, among which bisection finds the k-th exactly. A bucket that holds too many is divided again, by one
// pass each time. Magnitudes are compared as integers: the bits of |x| are ordered like |x|.
#include "base/limits.h"
#include "compress/bytes.h"
#include "compress/compress.h"
#include "compress/values.h"

#define BUCKETS     4096u
#define SAMPLES     4096u
#define SAMPLE_FROM (4 * SAMPLES) // shorter vectors are counted whole
#define CHUNK       1024u
#define TIES        256u

struct vector {
    const float *a;
    size_t count;
};

// Of the magnitudes in [low, high), the `need` largest are wanted, and there are `inside` of them; everything
// from `high` on is wanted. Counting spreads [low, top) evenly; its last bucket reaches up to `high`.
struct cut {
    uint32_t low, top, high;
    size_t need, inside;
};

// Eight flags, each 0 or 1 in its own byte, as eight bits: the product puts flag i at bit 56 + i.
static inline uint64_t flags_pack(const uint8_t flags[8])
{
    return bytes_get_u64(flags) * 0x0102040810204080u >> 56;
}

// Positions in a[0..count), count <= CHUNK, with a magnitude of `least` or more. The comparisons are a loop
// that compilers make vector code of; a branch for each element could not be predicted.
static size_t hits_find(const float *a, size_t count, uint32_t least, uint32_t hits[CHUNK])
{
    uint8_t flags[CHUNK];
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        flags[i] = (int32_t)magnitude_of(a[i]) >= (int32_t)least;
    if (count < CHUNK)
        memset(flags + count, 0, CHUNK - count);
    for (size_t i = 0; i < count; i += 64) {
        uint64_t left = 0;
        for (unsigned j = 0; j < 64; j += 8)
            left |= flags_pack(flags + i + j) << j;
        for (; left != 0; left &= left - 1)
            hits[found++] = (uint32_t)i + (uint32_t)__builtin_ctzll(left);
    }
    return found;
}

static size_t chunk_length(struct vector vector, size_t from)
{
    return vector.count - from < CHUNK ? vector.count - from : CHUNK;
}

// Smallest shift that brings [low, top) into the buckets.
static unsigned cut_shift(const struct cut *cut)
{
    unsigned shift = 0;
    while ((cut->top - cut->low) >> shift >= BUCKETS)
        shift++;
    return shift;
}

// False when an element is NaN or infinite.
static bool histogram_count(struct vector vector, const struct cut *cut, uint32_t histogram[BUCKETS])
{
    uint32_t hits[CHUNK];
    unsigned shift = cut_shift(cut);
    memset(histogram, 0, BUCKETS * sizeof *histogram);
    for (size_t from = 0; from < vector.count; from += CHUNK) {
        const float *a = vector.a + from;
        size_t length = chunk_length(vector, from);
        if (!compress_values_finite(a, length))
            return false;
        size_t found = hits_find(a, length, cut->low, hits);
        for (size_t i = 0; i < found; i++) {
            uint32_t magnitude = magnitude_of(a[hits[i]]);
            uint32_t bucket = (magnitude - cut->low) >> shift;
            if (magnitude < cut->high)
                histogram[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
        }
    }
    return true;
}

// Narrows the cut to the bucket that holds the last one wanted; false when the buckets hold fewer than are
// wanted.
static bool cut_narrow(struct cut *cut, const uint32_t histogram[BUCKETS])
{
    unsigned shift = cut_shift(cut);
    size_t above = 0;
    uint32_t bucket = BUCKETS;
    while (bucket > 0 && above + histogram[bucket - 1] < cut->need)
        above += histogram[--bucket];
    if (bucket-- == 0)
        return false;
    cut->low += bucket << shift;
    if (bucket < BUCKETS - 1)
        cut->high = cut->low + (1u << shift) < cut->high ? cut->low + (1u << shift) : cut->high;
    cut->top = cut->high;
    cut->need -= above;
    cut->inside = histogram[bucket];
    return true;
}

// A floor and a top for the first count, so that its buckets are narrow around the k-th magnitude. Only a
// guess: where it fails, the count says so.
static struct cut cut_guess(struct vector vector, size_t k, uint32_t histogram[BUCKETS])
{
    const unsigned shift = 19; // 2^12 buckets for 31 bits
    struct cut cut = {.low = 1, .top = BITS_INFINITY, .high = BITS_INFINITY, .need = k};
    size_t rank = (size_t)((uint64_t)k * SAMPLES / (vector.count + 1)) * 5 / 4 + 64;
    if (vector.count < SAMPLE_FROM || rank >= SAMPLES)
        return cut;
    memset(histogram, 0, BUCKETS * sizeof *histogram);
    uint32_t largest = 0;
    for (size_t i = 0; i < SAMPLES; i++) {
        uint32_t magnitude = magnitude_of(vector.a[(uint64_t)i * vector.count / SAMPLES]);
        histogram[magnitude >> shift]++;
        largest = magnitude > largest ? magnitude : largest;
    }
    uint32_t bucket = BUCKETS;
    for (size_t seen = 0; seen < rank; seen += histogram[bucket])
        bucket--;
    if (bucket > 0 && largest < BITS_INFINITY) {
        cut.low = bucket << shift;
        cut.top = largest + 1;
    }
    return cut;
}

// Finds a cut that the gathering can take: with everything inside wanted, or few inside, or all inside of
// equal magnitude.
static enum base_error cut_find(struct vector vector, size_t k, struct cut *found)
{
    uint32_t histogram[BUCKETS];
    struct cut cut = cut_guess(vector, k, histogram);
    do {
        if (!histogram_count(vector, &cut, histogram))
            return BASE_EFORMAT;
        if (cut_narrow(&cut, histogram))
            continue;
        if (cut.low == 1) { // fewer than k are not zero: take those
            cut = (struct cut){.low = 1, .top = 1, .high = 1};
            break;
        }
        cut = (struct cut){
            .low = 1, .top = BITS_INFINITY, .high = BITS_INFINITY, .need = k, .inside = SIZE_MAX};
    } while (cut.inside > TIES && cut.inside != cut.need && cut.high - cut.low > 1);
    if (cut.inside == cut.need)
        cut = (struct cut){.low = cut.low, .top = cut.low, .high = cut.low};
    *found = cut;
    return BASE_OK;
}

// Indices above the cut go to `index`, ascending; what is inside goes to `inside`, or, where it is all of
// equal magnitude, the first `need` of it to `index` too. Returns how many went to `index`.
static size_t entries_gather(struct vector vector, const struct cut *cut, uint32_t *index,
                             uint32_t inside[TIES])
{
    uint32_t hits[CHUNK];
    bool equal = cut->high - cut->low == 1;
    size_t n_index = 0, n_inside = 0, ties = equal ? cut->need : 0;
    for (size_t from = 0; from < vector.count; from += CHUNK) {
        const float *a = vector.a + from;
        size_t found = hits_find(a, chunk_length(vector, from), cut->low, hits);
        for (size_t i = 0; i < found; i++) {
            uint32_t at = (uint32_t)from + hits[i];
            bool above = magnitude_of(a[hits[i]]) >= cut->high;
            if (above || ties > 0) {
                index[n_index++] = at;
                ties -= !above;
            } else if (!equal) {
                inside[n_inside++] = at;
            }
        }
    }
    return n_index;
}

// Keeps the `need` largest of the entries inside the cut, ties by lower index, in their order: bisection for
// the last magnitude wanted.
static void inside_choose(const float *a, const struct cut *cut, uint32_t inside[TIES])
{
    uint32_t low = cut->low, high = cut->high; // at least `need` from low on, fewer from high on
    size_t ties = cut->need;                   // less those from high on
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        size_t from_middle = 0;
        for (size_t i = 0; i < cut->inside; i++)
            from_middle += magnitude_of(a[inside[i]]) >= middle;
        if (from_middle >= cut->need) {
            low = middle;
        } else {
            high = middle;
            ties = cut->need - from_middle;
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < cut->inside; i++) {
        uint32_t magnitude = magnitude_of(a[inside[i]]);
        if (magnitude < low || (magnitude == low && ties == 0))
            continue;
        ties -= magnitude == low;
        inside[kept++] = inside[i];
    }
    BASE_ASSERT(kept == cut->need);
}

// Merges the n_more ascending items of `more` into items[0..count), from the back, in place.
static void ascending_merge(uint32_t *items, size_t count, const uint32_t *more, size_t n_more)
{
    while (n_more > 0) {
        if (count > 0 && items[count - 1] > more[n_more - 1]) {
            items[count - 1 + n_more] = items[count - 1];
            count--;
        } else {
            items[count + n_more - 1] = more[n_more - 1];
            n_more--;
        }
    }
}

enum base_error compress_select_topk(const float *a, size_t count, size_t k, struct compress_sparse *sparse)
{
    struct vector vector = {.a = a, .count = count};
    struct cut cut = {0};
    k = k < count ? k : count;
    if (count > LIMIT_PARAMETERS || sparse->capacity < k)
        return BASE_ELIMIT;
    if (k == 0) {
        if (!compress_values_finite(a, count))
            return BASE_EFORMAT;
        sparse->count = 0;
        return BASE_OK;
    }
    enum base_error error = cut_find(vector, k, &cut);
    if (error != BASE_OK)
        return error;
    uint32_t inside[TIES];
    size_t n_index = entries_gather(vector, &cut, sparse->index, inside);
    if (cut.high - cut.low > 1) {
        inside_choose(a, &cut, inside);
        ascending_merge(sparse->index, n_index, inside, cut.need);
        n_index += cut.need;
    }
    for (size_t i = 0; i < n_index; i++)
        sparse->value[i] = a[sparse->index[i]];
    sparse->count = n_index;
    return BASE_OK;
}
