// The passes of selection over vectors of LANES elements. The including file defines SELECT_TABLE and, for
// its instruction set, the few operations on vectors that differ (v_...).
//
// Entries are packed in a register, and the whole register is stored: the lanes after the entries are
// overwritten by the next store. So a piece is gathered in this way only while it certainly fits; near the
// end of the room each vector is checked.
#include "kernels/cpu/select_gather.h"

// The work of a pass on each vector of magnitudes; the bits of `lanes` mark the lanes that are elements.
typedef void vector_step(void *context, v_bits magnitude, unsigned lanes);

INLINE void each_vector(const struct kernels_difference *a, enum select_reference kind, struct total *total,
                        vector_step *step, void *context)
{
    size_t at = 0;
    while (a->count - at >= 2 * LANES) {
        struct partial part[2] = {partial_zero(), partial_zero()};
        const size_t end =
            a->count - at < PIECE ? at + (a->count - at) / (2 * LANES) * (2 * LANES) : at + PIECE;
        for (; at < end; at += 2 * LANES) {
            ask_ahead(a, at, kind);
            ask_ahead(a, at + LANES, kind);
            step(context, v_magnitude(look(a, at, kind, &part[0])), ALL_LANES);
            step(context, v_magnitude(look(a, at + LANES, kind, &part[1])), ALL_LANES);
        }
        total_add(total, &part[0], kind);
        total_add(total, &part[1], kind);
    }
    while (at < a->count) {
        struct partial part = partial_zero();
        const unsigned lanes = a->count - at < LANES ? (unsigned)(a->count - at) : LANES;
        step(context, v_magnitude(look_first(a, at, lanes, kind, &part)), (1u << lanes) - 1);
        total_add(total, &part, kind);
        at += lanes;
    }
}

// One instance for each kind of reference.
INLINE void pass(const struct kernels_difference *a, vector_step *step, void *context,
                 struct kernels_seen *seen)
{
    struct total total = total_zero();
    const enum select_reference kind = select_reference(a);
    if (kind == SELECT_BF16)
        each_vector(a, SELECT_BF16, &total, step, context);
    else if (kind == SELECT_FP32)
        each_vector(a, SELECT_FP32, &total, step, context);
    else
        each_vector(a, SELECT_NONE, &total, step, context);
    total_tell(&total, a->count, kind != SELECT_NONE, seen);
}

#define WAITING 1024u
#define FEW     (1u << 16) // up to so many elements, counts go directly into the bins

// Bins are packed into a buffer before they are counted one by one: in most passes few magnitudes reach the
// floor. Magnitudes above the last bin are counted a vector at a time.
struct binning {
    v_bits floor, reach, last;
    unsigned shift;
    size_t waiting;
    uint64_t above;
    uint32_t *bin; // separate from the other fields, so that stores to it do not force these into memory
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
    for (size_t i = 0; i < waiting; i++)
        few->bins[few->b.bin[i]]++;
    few->b.waiting = 0;
}

INLINE void few_step(void *context, v_bits magnitude, unsigned lanes)
{
    struct binning_few *few = context;
    bins_pack(&few->b, magnitude, lanes);
    if (few->b.waiting > WAITING)
        few_count(few);
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

// Two alternating counts for each bin, because consecutive equal bins would wait for each other.
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
    if (i < waiting)
        counts[2 * bin[i]]++;
    many->b.waiting = 0;
}

INLINE void many_step(void *context, v_bits magnitude, unsigned lanes)
{
    struct binning_many *many = context;
    bins_pack(&many->b, magnitude, lanes);
    if (many->b.waiting > WAITING)
        many_count(many);
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
    for (size_t i = 0; i < KERNELS_BINS; i++)
        bins[i] = (uint64_t)counts[2 * i] + counts[2 * i + 1];
    bins[KERNELS_BINS - 1] += many.b.above;
}

#define FLOORS 8u

struct counting {
    v_bits bound[FLOORS], reached[FLOORS];
};

INLINE void count_step(void *context, v_bits magnitude, unsigned lanes)
{
    (void)lanes; // lanes without an element are zero, which is below every floor
    struct counting *c = context;
    for (size_t j = 0; j < FLOORS; j++)
        c->reached[j] = v_count(c->reached[j], magnitude, c->bound[j]);
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
        for (size_t i = 0; i < LANES; i++)
            counts[j] += lanes[i];
    }
}

// The lowest `most` set bits of a mask.
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
