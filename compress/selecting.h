// Private to compress/: the parts of compress_select. They work on one run of elements at a time.
#ifndef COMPRESS_SELECTING_H
#define COMPRESS_SELECTING_H

#include "compress/select.h"
#include <stdbool.h>

#define SELECT_SLACK 1024u       // room for candidates beyond k + k/8
#define SELECT_NEVER 0xffffffffu // a floor that no magnitude reaches

// Elements [first, end) of x - r, from which k are selected into the backend's memory.
struct selecting {
    const struct kernels *kernels;
    struct kernels_difference whole;
    size_t first, end, k;
    uint32_t *index;
    float *value;
    size_t room, entries;
    size_t stretch;           // elements that the previous call of gather was to read; 0: there was none
    struct kernels_seen seen; // of the last pass over all of [first, end)
};

// Selects all magnitudes of at least `high`, and the first `ties` of those in [low, high).
struct select_cut {
    uint32_t low, high;
    size_t ties;
};

// A search for the k-th largest magnitude. No magnitude below `low` is selected; the k-th is probably below
// `high`, but need not be. The search ends with a band of `width` magnitudes (1: exact), or earlier with a
// cut that selects at most `spare` more than k.
struct select_search {
    size_t k;
    uint32_t low, high, width;
    size_t spare;
};

// The elements of a run as a separate vector.
struct kernels_difference selecting_run(const struct selecting *run);

// Searches `a` with one histogram for every 12 bits of the range. False: fewer than k elements reach
// search->low; the cut selects all of them.
bool select_cut_find(const struct kernels_select *ops, const struct kernels_difference *a,
                     const struct select_search *search, struct select_cut *cut, struct kernels_seen *seen);

// Appends to the run's entries the elements, starting at `from`, whose magnitude is at least `floor`; adds to
// run->seen. Returns the element at which it stopped, which is after `from` unless there is no room at all.
size_t select_gather(struct selecting *run, size_t from, uint32_t floor);

// One pass over the run with a known cut.
void select_take(struct selecting *run, const struct select_cut *cut);

// The methods. The results are in run->entries and run->seen. A method stops early at an element that is not
// finite.
void select_exact(struct selecting *run);
void select_threshold(struct selecting *run);
void select_bisection(struct selecting *run);
enum base_error select_random(struct selecting *run, uint64_t seed) BASE_CHECK;

static inline bool selecting_finite(const struct selecting *run)
{
    return run->seen.largest < KERNELS_INFINITE;
}

#endif
