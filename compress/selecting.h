// Private to compress/: the parts that compress_select is put together from. One run of elements at a time.
#ifndef COMPRESS_SELECTING_H
#define COMPRESS_SELECTING_H

#include "compress/select.h"
#include <stdbool.h>

#define SELECT_SLACK 1024u       // room for candidates beyond k + k/8
#define SELECT_NEVER 0xffffffffu // a floor that no magnitude reaches

// Elements [first, end) of x - r, of which k are wanted, and the backend's memory that takes them.
struct selecting {
    const struct kernels *kernels;
    struct kernels_difference whole;
    size_t first, end, k;
    uint32_t *index;
    float *value;
    size_t room, entries;
    size_t stretch;           // elements that the previous gathering took at once; 0: there was none
    struct kernels_seen seen; // of the last pass over all of [first, end)
};

// Wanted: every magnitude from `high` on, and the first `ties` of those in [low, high).
struct select_cut {
    uint32_t low, high;
    size_t ties;
};

// A search for the k-th largest magnitude: none below `low` is wanted, and it may well be below `high`. It
// ends with a band of `width` magnitudes (1: exactly), or sooner with a cut that takes at most `spare` more
// than k.
struct select_search {
    size_t k;
    uint32_t low, high, width;
    size_t spare;
};

// The elements of a run as a vector of their own.
struct kernels_difference selecting_run(const struct selecting *run);

// Searches `a` by one histogram for each 12 bits. False where fewer than k reach search->low: the cut takes
// all of them.
bool select_cut_find(const struct kernels_select *ops, const struct kernels_difference *a,
                     const struct select_search *search, struct select_cut *cut, struct kernels_seen *seen);

// From run->entries on, entries whose magnitude reaches `floor`, from element `from`; adds to run->seen.
// Returns where it stopped, further than `from` unless there is no room at all.
size_t select_gather(struct selecting *run, size_t from, uint32_t floor);

// One pass over the run for a cut that is known.
void select_take(struct selecting *run, const struct select_cut *cut);

// The methods. run->entries and run->seen are their result; an element that is not finite stops them early.
void select_exact(struct selecting *run);
void select_threshold(struct selecting *run);
void select_bisection(struct selecting *run);
enum base_error select_random(struct selecting *run, uint64_t seed) BASE_CHECK;

static inline bool selecting_finite(const struct selecting *run)
{
    return run->seen.largest < KERNELS_INFINITE;
}

#endif
