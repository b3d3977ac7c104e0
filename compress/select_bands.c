// Selections that find a band of magnitudes and select from it by index: a histogram of the leading bits, and
// bisection.
#include "compress/selecting.h"

#define LEADING_BITS 19u // 4 of 23 mantissa bits: 16 bins for each power of two
#define FLOORS       7u  // three steps of bisection in one pass
#define PASSES       6u  // 18 of the 31 steps that an exact result takes

void select_threshold(struct selecting *run)
{
    const struct kernels_difference a = selecting_run(run);
    const struct select_search search = {
        .k = run->k, .low = 1, .high = KERNELS_INFINITE, .width = 1u << LEADING_BITS};
    struct select_cut cut;
    (void)select_cut_find(run->kernels->select, &a, &search, &cut, &run->seen);
    if (selecting_finite(run))
        select_take(run, &cut);
}

// Narrows [low, high) to one of eight parts: the highest whose lower end at least k elements reach, or the
// lowest. *above: the number of elements that reach its upper end.
static void cut_divide(const struct kernels_select *ops, const struct kernels_difference *a, size_t k,
                       struct select_cut *cut, uint64_t *above, struct kernels_seen *seen)
{
    uint32_t floors[FLOORS], low = cut->low;
    uint64_t counts[FLOORS];
    for (uint32_t i = 0; i < FLOORS; i++)
        floors[i] = low + (uint32_t)((uint64_t)(cut->high - low) * (i + 1) / (FLOORS + 1));
    ops->count(a, floors, FLOORS, counts, seen);
    for (size_t i = 0; i < FLOORS; i++) {
        if (counts[i] >= k) {
            cut->low = floors[i];
        } else {
            cut->high = floors[i];
            *above = counts[i];
            return;
        }
    }
}

void select_bisection(struct selecting *run)
{
    const struct kernels_difference a = selecting_run(run);
    struct select_cut cut = {.low = 1, .high = KERNELS_INFINITE};
    uint64_t above = 0;
    for (size_t pass = 0; pass < PASSES; pass++) {
        cut_divide(run->kernels->select, &a, run->k, &cut, &above, &run->seen);
        if (!selecting_finite(run))
            return;
    }
    cut.ties = run->k - (size_t)above;
    select_take(run, &cut);
}
