// The passes of selection over vectors of LANES elements. The file that includes this one names SELECT_TABLE
// and gives the few operations on vectors that differ (v_...), for its instruction set.
//
// Entries are packed in a register and stored whole: the lanes behind the entries are overwritten by the next
// ones. So a piece is only gathered this way while it certainly fits; near the end of the room each vector is
// looked at.
#include "kernels/cpu/select.h"

#include <immintrin.h>
#include <stdbool.h>

#define VECTORS   64u               // of a piece
#define PIECE     (VECTORS * LANES) // elements between two looks at the room left
#define NEAR      512u          // elements that are asked for ahead: the hardware stops at the end of a page
#define FAR       2048u         // the same into the second cache, where memory is slow to answer
#define DENSE     (PIECE / 14u) // entries of a piece from which on packing every vector is cheaper than choosing
#define DENSER    (PIECE / 7u) // and from which on more than 4 in a vector are no surprise
#define ALL_LANES ((1u << LANES) - 1)
#define INLINE    static inline __attribute__((always_inline))

// Partial sums of one piece, and of all so far.
struct partial {
    v_float a, x;
    v_bits largest;
};
struct total {
    v_double a, x;
    v_bits largest;
};

INLINE struct total total_zero(void)
{
    return (struct total){v_double_zero(), v_double_zero(), v_set(0)};
}

INLINE struct partial partial_zero(void)
{
    return (struct partial){v_zero(), v_zero(), v_set(0)};
}

INLINE void total_add(struct total *total, const struct partial *part, bool differs)
{
    total->a = v_double_add(total->a, part->a);
    if (differs) {
        total->x = v_double_add(total->x, part->x);
    }
    total->largest = v_max(total->largest, part->largest);
}

static void total_tell(const struct total *total, size_t read, bool differs, struct kernels_seen *seen)
{
    double a[sizeof(v_double) / sizeof(double)], x[sizeof(v_double) / sizeof(double)];
    uint32_t largest[LANES];
    *seen = (struct kernels_seen){.read = read};
    memcpy(a, &total->a, sizeof a);
    memcpy(x, differs ? &total->x : &total->a, sizeof x);
    memcpy(largest, &total->largest, sizeof largest);
    for (size_t i = 0; i < sizeof a / sizeof a[0]; i++) {
        seen->a_energy += a[i];
        seen->x_energy += x[i];
    }
    for (size_t i = 0; i < LANES; i++) {
        seen->largest = largest[i] > seen->largest ? largest[i] : seen->largest;
    }
}

// Elements from `at`: their difference, and what they add to the sums.
INLINE v_float look(const struct kernels_difference *a, size_t at, bool differs, struct partial *part)
{
    const v_float x = v_load(a->x + at), d = differs ? v_sub(x, v_load(a->r + at)) : x;
    part->a = v_square_add(part->a, d);
    if (differs) {
        part->x = v_square_add(part->x, x);
    }
    part->largest = v_max(part->largest, v_magnitude(d));
    return d;
}

// The first `lanes` elements from `at`; zeros behind them.
INLINE v_float look_first(const struct kernels_difference *a, size_t at, unsigned lanes, bool differs,
                          struct partial *part)
{
    const v_float x = v_load_first(a->x + at, lanes);
    const v_float d = differs ? v_sub(x, v_load_first(a->r + at, lanes)) : x;
    part->a = v_square_add(part->a, d);
    if (differs) {
        part->x = v_square_add(part->x, x);
    }
    part->largest = v_max(part->largest, v_magnitude(d));
    return d;
}

INLINE void ask_ahead(const struct kernels_difference *a, size_t at, bool differs)
{
    __builtin_prefetch(a->x + at + NEAR);
    __builtin_prefetch(a->x + at + FAR, 0, 2);
    if (differs) {
        __builtin_prefetch(a->r + at + NEAR);
        __builtin_prefetch(a->r + at + FAR, 0, 2);
    }
}

struct entries {
    uint32_t *index;
    float *value;
    size_t found;
};

// `width`: how many lanes are stored where that is enough, because a whole store mostly lies across two cache
// lines. The caller expects more entries to be rare.
INLINE void put(struct entries *to, unsigned mask, size_t at, v_float d, unsigned width)
{
    const unsigned found = (unsigned)__builtin_popcount(mask);
    const v_bits index = v_pack_bits(mask, v_count_from((uint32_t)at));
    const v_float value = v_pack_float(mask, d);
    if (found <= width) {
        v_store_some(to->index + to->found, to->value + to->found, index, value, width);
    } else {
        v_store_some(to->index + to->found, to->value + to->found, index, value, LANES);
    }
    to->found += found;
}

// A piece in which most vectors hold entries: every vector is packed.
INLINE void gather_dense(const struct kernels_difference *a, size_t at, v_bits bound, bool differs,
                         unsigned width, struct entries *to, struct total *total)
{
    struct partial part[2] = {partial_zero(), partial_zero()};
    struct entries here = *to; // known to nobody else: kept in registers
    for (size_t end = at + PIECE; at < end;) {
        for (size_t chain = 0; chain < 2; chain++, at += LANES) {
            ask_ahead(a, at, differs);
            const v_float d = look(a, at, differs, &part[chain]);
            put(&here, v_reach(v_magnitude(d), bound), at, d, width);
        }
    }
    *to = here;
    total_add(total, &part[0], differs);
    total_add(total, &part[1], differs);
}

// A piece in which few do: those that do are listed without a branch, then packed, out of the nearest cache.
INLINE void gather_thin(const struct kernels_difference *a, size_t at, v_bits bound, bool differs,
                        struct entries *to, struct total *total)
{
    struct partial part[2] = {partial_zero(), partial_zero()};
    struct entries here = *to;
    uint32_t hits[VECTORS + 1];
    size_t n = 0;
    for (size_t i = 0; i < PIECE;) {
        for (size_t chain = 0; chain < 2; chain++, i += LANES) {
            ask_ahead(a, at + i, differs);
            const v_float d = look(a, at + i, differs, &part[chain]);
            const unsigned mask = v_reach(v_magnitude(d), bound);
            hits[n] = (uint32_t)i << 16 | mask;
            n += mask != 0;
        }
    }
    total_add(total, &part[0], differs);
    total_add(total, &part[1], differs);
    for (size_t i = 0; i < n; i++) {
        const size_t from = at + (hits[i] >> 16);
        const v_float x = v_load(a->x + from), d = differs ? v_sub(x, v_load(a->r + from)) : x;
        put(&here, hits[i] & 0xffffu, from, d, 4);
    }
    *to = here;
}

// Vector by vector to `to_element`, or to the element that does not fit; returns where it stopped.
static __attribute__((noinline)) size_t gather_edge(const struct kernels_difference *a, size_t at, size_t end,
                                                    uint32_t floor, size_t room, struct entries *to,
                                                    struct total *total)
{
    const v_bits bound = v_bound(floor);
    const bool differs = a->r != NULL;
    struct partial part = partial_zero();
    while (at < end) {
        unsigned lanes = end - at < LANES ? (unsigned)(end - at) : LANES;
        struct partial before = part;
        v_float d = look_first(a, at, lanes, differs, &part);
        unsigned mask = v_reach(v_magnitude(d), bound);
        if ((size_t)__builtin_popcount(mask) > room - to->found) {
            for (size_t fits = room - to->found; fits > 0; fits--) {
                mask &= mask - 1;
            }
            lanes = (unsigned)__builtin_ctz(mask);
            part = before;
            d = look_first(a, at, lanes, differs, &part);
            mask = v_reach(v_magnitude(d), bound);
            end = at + lanes;
        }
        if (mask != 0) {
            uint32_t index[LANES];
            float value[LANES];
            struct entries here = {index, value, 0};
            put(&here, mask, at, d, LANES);
            memcpy(to->index + to->found, index, here.found * sizeof *index);
            memcpy(to->value + to->found, value, here.found * sizeof *value);
            to->found += here.found;
        }
        at += lanes;
    }
    total_add(total, &part, true);
    return end;
}

// The lines that entries will be written to, as many as the last piece filled.
INLINE void ask_to_write(const struct entries *to, size_t entries)
{
    for (size_t i = 0; i < entries; i += 64 / sizeof(uint32_t)) {
        __builtin_prefetch(to->index + to->found + NEAR + i, 1);
        __builtin_prefetch(to->value + to->found + NEAR + i, 1);
    }
}

INLINE size_t gather_from(const struct kernels_difference *a, size_t first, uint32_t floor, size_t room,
                          bool differs, struct entries *to, struct total *total)
{
    const v_bits bound = v_bound(floor);
    size_t at = first;
    size_t last = 0; // entries of the piece before: they tell what to expect
    for (; a->count - at >= PIECE && (room - to->found >= PIECE || floor > SELECT_MAGNITUDE); at += PIECE) {
        const size_t before = to->found;
        ask_to_write(to, last);
        if (last < DENSE) {
            gather_thin(a, at, bound, differs, to, total);
        } else if (last < DENSER) {
            gather_dense(a, at, bound, differs, 4, to, total);
        } else {
            gather_dense(a, at, bound, differs, LANES, to, total);
        }
        last = to->found - before;
    }
    return at;
}

static size_t gather(const struct kernels_difference *a, size_t first, uint32_t floor, size_t room,
                     uint32_t *index, float *value, struct kernels_seen *seen)
{
    struct entries to = {index, value, 0};
    struct total total = total_zero();
    const bool differs = a->r != NULL;
    size_t at = first;
    while (at < a->count) {
        at = differs ? gather_from(a, at, floor, room, true, &to, &total)
                     : gather_from(a, at, floor, room, false, &to, &total);
        const size_t end = a->count - at < PIECE ? a->count : at + PIECE;
        const size_t stop = gather_edge(a, at, end, floor, room, &to, &total);
        at = stop;
        if (stop < end) {
            break;
        }
    }
    total_tell(&total, at - first, differs, seen);
    return to.found;
}

// What a pass does with each vector of magnitudes; bits of `lanes` say which are elements.
typedef void vector_step(void *context, v_bits magnitude, unsigned lanes);

INLINE void each_vector(const struct kernels_difference *a, bool differs, struct total *total,
                        vector_step *step, void *context)
{
    size_t at = 0;
    while (a->count - at >= 2 * LANES) {
        struct partial part[2] = {partial_zero(), partial_zero()};
        const size_t end =
            a->count - at < PIECE ? at + (a->count - at) / (2 * LANES) * (2 * LANES) : at + PIECE;
        for (; at < end; at += 2 * LANES) {
            ask_ahead(a, at, differs);
            ask_ahead(a, at + LANES, differs);
            step(context, v_magnitude(look(a, at, differs, &part[0])), ALL_LANES);
            step(context, v_magnitude(look(a, at + LANES, differs, &part[1])), ALL_LANES);
        }
        total_add(total, &part[0], differs);
        total_add(total, &part[1], differs);
    }
    while (at < a->count) {
        struct partial part = partial_zero();
        const unsigned lanes = a->count - at < LANES ? (unsigned)(a->count - at) : LANES;
        step(context, v_magnitude(look_first(a, at, lanes, differs, &part)), (1u << lanes) - 1);
        total_add(total, &part, differs);
        at += lanes;
    }
}

// One instance for each of the two kinds of vectors.
INLINE void pass(const struct kernels_difference *a, vector_step *step, void *context,
                 struct kernels_seen *seen)
{
    struct total total = total_zero();
    if (a->r != NULL) {
        each_vector(a, true, &total, step, context);
    } else {
        each_vector(a, false, &total, step, context);
    }
    total_tell(&total, a->count, a->r != NULL, seen);
}

#define WAITING 1024u
#define FEW     (1u << 16) // elements up to which the bins themselves are counted in

// Bins are packed in a buffer before they are counted one by one: in most passes few magnitudes reach the
// floor, and those above the last bin are counted a vector at a time.
struct binning {
    v_bits floor, reach, last;
    unsigned shift;
    size_t waiting;
    uint64_t above;
    uint32_t *bin; // apart from the rest, so that storing there does not send the rest to memory
};

INLINE void binning_start(struct binning *b, uint32_t floor, unsigned shift, uint32_t *bin)
{
    b->bin = bin;
    b->floor = v_set(floor);
    b->reach = v_bound(floor);
    b->last = v_bound(KERNELS_BINS - 1);
    b->shift = shift;
    b->waiting = 0;
    b->above = 0;
}

INLINE void bins_pack(struct binning *b, v_bits magnitude, unsigned lanes)
{
    const v_bits bin = v_shift_right(v_sub_bits(magnitude, b->floor), b->shift);
    const unsigned reached = v_reach(magnitude, b->reach) & lanes, above = v_reach(bin, b->last) & reached;
    v_store_bits(b->bin + b->waiting, v_pack_bits(reached & ~above, bin));
    b->waiting += (unsigned)__builtin_popcount(reached & ~above);
    b->above += (unsigned)__builtin_popcount(above);
}

struct binning_few {
    struct binning b;
    uint64_t *bins;
};

INLINE void few_count(struct binning_few *few)
{
    const size_t waiting = few->b.waiting;
    for (size_t i = 0; i < waiting; i++) {
        few->bins[few->b.bin[i]]++;
    }
    few->b.waiting = 0;
}

INLINE void few_step(void *context, v_bits magnitude, unsigned lanes)
{
    struct binning_few *few = context;
    bins_pack(&few->b, magnitude, lanes);
    if (few->b.waiting > WAITING) {
        few_count(few);
    }
}

static void histogram_few(const struct kernels_difference *a, uint32_t floor, unsigned shift,
                          uint64_t bins[KERNELS_BINS], struct kernels_seen *seen)
{
    uint32_t bin[WAITING + LANES];
    struct binning_few few;
    binning_start(&few.b, floor, shift, bin);
    few.bins = bins;
    memset(bins, 0, KERNELS_BINS * sizeof *bins);
    pass(a, few_step, &few, seen);
    few_count(&few);
    bins[KERNELS_BINS - 1] += few.b.above;
}

// Two counts for each bin, in turn, because equal ones in a row would wait for each other.
struct binning_many {
    struct binning b;
    uint32_t *counts;
};

INLINE void many_count(struct binning_many *many)
{
    const size_t waiting = many->b.waiting;
    const uint32_t *bin = many->b.bin;
    uint32_t *counts = many->counts;
    size_t i = 0;
    for (; i + 2 <= waiting; i += 2) {
        counts[2 * bin[i]]++;
        counts[2 * bin[i + 1] + 1]++;
    }
    if (i < waiting) {
        counts[2 * bin[i]]++;
    }
    many->b.waiting = 0;
}

INLINE void many_step(void *context, v_bits magnitude, unsigned lanes)
{
    struct binning_many *many = context;
    bins_pack(&many->b, magnitude, lanes);
    if (many->b.waiting > WAITING) {
        many_count(many);
    }
}

static void histogram(const struct kernels_difference *a, uint32_t floor, unsigned shift,
                      uint64_t bins[KERNELS_BINS], struct kernels_seen *seen)
{
    if (a->count <= FEW) {
        histogram_few(a, floor, shift, bins, seen);
        return;
    }
    uint32_t bin[WAITING + LANES], counts[2 * KERNELS_BINS];
    struct binning_many many = {.counts = counts};
    binning_start(&many.b, floor, shift, bin);
    memset(counts, 0, sizeof counts);
    pass(a, many_step, &many, seen);
    many_count(&many);
    for (size_t i = 0; i < KERNELS_BINS; i++) {
        bins[i] = (uint64_t)counts[2 * i] + counts[2 * i + 1];
    }
    bins[KERNELS_BINS - 1] += many.b.above;
}

#define FLOORS 8u

struct counting {
    v_bits bound[FLOORS], reached[FLOORS];
};

INLINE void count_step(void *context, v_bits magnitude, unsigned lanes)
{
    (void)lanes; // lanes that are no elements are zero: below every floor
    struct counting *c = context;
    for (size_t j = 0; j < FLOORS; j++) {
        c->reached[j] = v_count(c->reached[j], magnitude, c->bound[j]);
    }
}

static void count(const struct kernels_difference *a, const uint32_t *floors, size_t n, uint64_t *counts,
                  struct kernels_seen *seen)
{
    struct counting c;
    for (size_t j = 0; j < FLOORS; j++) {
        c.bound[j] = v_bound(j < n ? floors[j] : SELECT_MAGNITUDE);
        c.reached[j] = v_set(0);
    }
    pass(a, count_step, &c, seen);
    for (size_t j = 0; j < n; j++) {
        uint32_t lanes[LANES];
        memcpy(lanes, &c.reached[j], sizeof lanes);
        counts[j] = 0;
        for (size_t i = 0; i < LANES; i++) {
            counts[j] += lanes[i];
        }
    }
}

// Of a mask, its lowest `most` bits.
INLINE unsigned lowest(unsigned mask, size_t most)
{
    return most >= LANES ? mask : _pdep_u32((1u << most) - 1, mask);
}

static size_t keep(size_t entries, uint32_t *index, float *value, uint32_t low, uint32_t high, size_t ties)
{
    const v_bits at_low = v_bound(low), at_high = v_bound(high);
    struct entries to = {index, value, 0};
    size_t i = 0;
    for (; i + LANES <= entries; i += LANES) {
        __builtin_prefetch(index + i + NEAR, 1);
        __builtin_prefetch(value + i + NEAR, 1);
        __builtin_prefetch(index + i + FAR, 0, 2);
        __builtin_prefetch(value + i + FAR, 0, 2);
        const v_float d = v_load(value + i);
        const v_bits at = v_load_bits(index + i), magnitude = v_magnitude(d);
        unsigned mask = v_reach(magnitude, at_high);
        const unsigned band = v_reach(magnitude, at_low) & ~mask;
        if (band != 0) {
            const unsigned stay = lowest(band, ties);
            ties -= (unsigned)__builtin_popcount(stay);
            mask |= stay;
        }
        v_store_some(index + to.found, value + to.found, v_pack_bits(mask, at), v_pack_float(mask, d), LANES);
        to.found += (unsigned)__builtin_popcount(mask);
    }
    for (; i < entries; i++) {
        const uint32_t magnitude = select_magnitude(value[i]);
        const bool tie = magnitude >= low && magnitude < high && ties > 0;
        if (magnitude >= high || tie) {
            index[to.found] = index[i];
            value[to.found++] = value[i];
            ties -= tie;
        }
    }
    return to.found;
}

const struct kernels_select SELECT_TABLE = {
    .sample = kernels_cpu_select_sample,
    .gather = gather,
    .histogram = histogram,
    .count = count,
    .keep = keep,
    .pick = kernels_cpu_select_pick,
};
