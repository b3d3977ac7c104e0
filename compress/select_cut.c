// Finding the k-th magnitude by histograms, and taking what a cut says.
#include "compress/selecting.h"

#define MAGNITUDES 0x80000000u // magnitudes lie below

struct kernels_difference selecting_run(const struct selecting *run)
{
    const struct kernels_difference *whole = &run->whole;
    return (struct kernels_difference){.x = whole->x + run->first,
                                       .r = whole->r != NULL ? whole->r + run->first : NULL,
                                       .count = run->end - run->first};
}

// Smallest shift at which [low, high) fits the bins but the last, which also takes what lies above.
static unsigned bins_shift(uint32_t low, uint32_t high)
{
    unsigned shift = 0;
    while ((high - 1 - low) >> shift >= KERNELS_BINS - 1) {
        shift++;
    }
    return shift;
}

// Narrows the cut to the bin that holds the k-th; false where all bins together hold fewer.
static bool cut_narrow(struct select_cut *cut, size_t k, unsigned shift, const uint64_t bins[KERNELS_BINS])
{
    uint32_t bin = KERNELS_BINS - 1;
    uint64_t above = 0;
    while (above + bins[bin] < k) {
        above += bins[bin];
        if (bin-- == 0) {
            return false;
        }
    }
    cut->low += bin << shift;
    cut->high = bin < KERNELS_BINS - 1 ? cut->low + (1u << shift) : MAGNITUDES;
    cut->ties = k - (size_t)above;
    if (bins[bin] == cut->ties) { // all of it
        cut->high = cut->low;
        cut->ties = 0;
    }
    return true;
}

bool select_cut_find(const struct kernels_select *ops, const struct kernels_difference *a, size_t k,
                     struct select_bounds bounds, uint32_t width, struct select_cut *cut,
                     struct kernels_seen *seen)
{
    uint64_t bins[KERNELS_BINS];
    *cut = (struct select_cut){.low = bounds.low, .high = bounds.high};
    do {
        const unsigned shift = bins_shift(cut->low, cut->high);
        ops->histogram(a, cut->low, shift, bins, seen);
        if (!cut_narrow(cut, k, shift, bins)) {
            *cut = (struct select_cut){.low = bounds.low, .high = bounds.low};
            return false;
        }
    } while (cut->high > cut->low && cut->high - cut->low > width);
    return true;
}

size_t select_gather(struct selecting *run, size_t from, uint32_t floor)
{
    struct kernels_difference part = run->whole;
    struct kernels_seen seen;
    size_t found;
    part.count = run->end;
    // A backend may read nothing rather than stop in the middle: half as much then.
    for (;;) {
        found = run->kernels->select->gather(&part, from, floor, run->room - run->entries,
                                             run->index + run->entries, run->value + run->entries, &seen);
        if (seen.read > 0 || part.count - from <= 1) {
            break;
        }
        part.count = from + (part.count - from) / 2;
    }
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
        if (!selecting_finite(run)) {
            return;
        }
        // Where there was no room for more, the ties are complete, or more than that.
        if (floor == cut->low && cut->ties > 0 && (from == run->end || run->entries == run->room)) {
            run->entries = run->kernels->select->keep(run->entries, run->index, run->value, cut->low,
                                                      cut->high, cut->ties);
        }
        if (from < run->end && run->entries == run->room) { // k of k: the rest is only looked at
            floor = SELECT_NEVER;
        }
    }
}
