// Finds the k-th magnitude by histograms, and selects the entries of a cut.
#include "compress/selecting.h"

#define MAGNITUDES 0x80000000u // all magnitudes are below this

struct kernels_difference selecting_run(const struct selecting *run)
{
    const struct kernels_difference *whole = &run->whole;
    return (struct kernels_difference){.x = whole->x + run->first,
                                       .r = whole->r ? whole->r + run->first : NULL,
                                       .count = run->end - run->first,
                                       .r_bf16 = whole->r_bf16 ? whole->r_bf16 + run->first : NULL,
                                       .open_first = whole->open_first - run->first,
                                       .open_count = whole->open_count};
}

// The smallest shift at which [low, high) fits into all bins except the last, which counts everything above.
static unsigned bins_shift(uint32_t low, uint32_t high)
{
    unsigned shift = 0;
    while ((high - 1 - low) >> shift >= KERNELS_BINS - 1)
        shift++;
    return shift;
}

#define STRIDE 64u

// Finds the highest bin such that it and all higher bins together hold at least k, and the count of the
// higher ones. False: all bins together hold fewer. Searches in strides; one by one it would take as long as
// the histogram of a short list.
static bool bin_of(const uint64_t bins[KERNELS_BINS], size_t k, uint32_t *found, uint64_t *above)
{
    uint32_t bin = KERNELS_BINS;
    uint64_t sum = 0, stride = 0;
    for (; bin > 0; bin -= STRIDE, sum += stride) {
        stride = 0;
        for (uint32_t i = bin - STRIDE; i < bin; i++)
            stride += bins[i];
        if (sum + stride >= k)
            break;
    }
    if (bin == 0)
        return false;
    while (sum + bins[--bin] < k)
        sum += bins[bin];
    *found = bin;
    *above = sum;
    return true;
}

bool select_cut_find(const struct kernels_select *ops, const struct kernels_difference *a,
                     const struct select_search *search, struct select_cut *cut, struct kernels_seen *seen)
{
    uint64_t bins[KERNELS_BINS], above = 0;
    *cut = (struct select_cut){.low = search->low, .high = search->high};
    do {
        const unsigned shift = bins_shift(cut->low, cut->high);
        uint32_t bin = 0;
        ops->histogram(a, cut->low, shift, bins, seen);
        if (!bin_of(bins, search->k, &bin, &above)) {
            *cut = (struct select_cut){.low = search->low, .high = search->low};
            return false;
        }
        cut->low += bin << shift;
        cut->high = bin < KERNELS_BINS - 1 ? cut->low + (1u << shift) : MAGNITUDES;
        cut->ties = search->k - (size_t)above;
        if (bins[bin] - cut->ties <= search->spare) // the bin is selected as a whole
            *cut = (struct select_cut){.low = cut->low, .high = cut->low};
    } while (cut->high > cut->low && cut->high - cut->low > search->width);
    return true;
}

size_t select_gather(struct selecting *run, size_t from, uint32_t floor)
{
    struct kernels_difference part = run->whole;
    struct kernels_seen seen;
    const size_t rest = run->end - from;
    size_t found, stretch = run->stretch > 0 && run->stretch < rest / 2 ? 2 * run->stretch : rest;
    // A backend may read nothing rather than stop in the middle. Then the stretch is halved, and the next
    // call tries at most twice as much.
    for (;; stretch /= 2) {
        part.count = from + stretch;
        found = run->kernels->select->gather(&part, from, floor, run->room - run->entries,
                                             run->index + run->entries, run->value + run->entries, &seen);
        if (seen.read > 0 || stretch <= 1)
            break;
    }
    run->stretch = stretch;
    run->entries += found;
    run->seen.read += seen.read;
    run->seen.largest = seen.largest > run->seen.largest ? seen.largest : run->seen.largest;
    run->seen.a_energy += seen.a_energy;
    run->seen.x_energy += seen.x_energy;
    return from + seen.read;
}

void select_take(struct selecting *run, const struct select_cut *cut)
{
    uint32_t floor = cut->ties > 0 ? cut->low : cut->high;
    run->entries = 0;
    run->seen = (struct kernels_seen){0};
    for (size_t from = run->first; from < run->end;) {
        from = select_gather(run, from, floor);
        if (!selecting_finite(run))
            return;
        // If the room is full, at least `ties` elements of the band have been found, so no more are gathered.
        if (floor < cut->high && (from == run->end || run->entries == run->room)) {
            run->entries = run->kernels->select->keep(run->entries, run->index, run->value, cut->low,
                                                      cut->high, cut->ties);
            floor = cut->high;
        }
        if (from < run->end && run->entries == run->room) // k entries are found: the rest is only scanned
            floor = SELECT_NEVER;
    }
}
