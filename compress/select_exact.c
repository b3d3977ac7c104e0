// Exact top-k in about one pass. A sample guesses a floor that a little more than k magnitudes reach; one
// pass gathers those; the candidates are cut to exactly k. When the sample misleads: too many, and the
// candidates so far are cut to k and the floor rises to the last of them; too few, and a second pass starts
// from a lower floor. What neither helps goes through histograms, in a number of passes that no vector can
// raise.
#include "compress/selecting.h"

#define SAMPLES    16384u
#define SAMPLE_RUN 16u
#define SAMPLED    64u // one element in so many, for short vectors

// The sample of a run, and where in it the k-th magnitude of the run is expected.
struct sample {
    size_t count;
    uint32_t magnitude[SAMPLES];
};

static size_t root(size_t x)
{
    size_t r = 0;
    while ((r + 1) * (r + 1) <= x) {
        r++;
    }
    return r;
}

// The magnitude of this rank in the sample, or a little less; 1 where so many are not there.
static uint32_t sample_rank(const struct selecting *run, const struct sample *sample, size_t rank)
{
    const struct kernels_difference list = {.x = (const float *)(const void *)sample->magnitude,
                                            .count = sample->count};
    const struct select_bounds all = {.low = 1, .high = KERNELS_INFINITE};
    struct kernels_seen seen;
    struct select_cut cut;
    (void)select_cut_find(run->kernels->host->select, &list, rank, all, 1u << 10, &cut, &seen);
    return cut.low;
}

// Bounds that hold with all but certainty for a vector in random order.
static struct select_bounds sample_bounds(const struct selecting *run, const struct sample *sample)
{
    const size_t rank = (size_t)((uint64_t)run->k * sample->count / (run->end - run->first));
    const size_t margin = 4 * root(rank + 1);
    struct select_bounds bounds = {.low = 1, .high = KERNELS_INFINITE};
    if (rank + margin < sample->count) {
        bounds.low = sample_rank(run, sample, rank + margin);
    }
    if (rank > margin) {
        bounds.high = sample_rank(run, sample, rank - margin);
    }
    if (bounds.high <= bounds.low) {
        bounds.high = bounds.low + 1;
    }
    return bounds;
}

static struct select_bounds bounds_guess(const struct selecting *run, struct sample *sample)
{
    const struct kernels_difference a = selecting_run(run);
    sample->count = a.count / SAMPLED / SAMPLE_RUN * SAMPLE_RUN;
    sample->count = sample->count < SAMPLES ? sample->count : SAMPLES;
    if (a.count <= run->room || sample->count == 0) {
        return (struct select_bounds){.low = 1, .high = KERNELS_INFINITE};
    }
    run->kernels->select->sample(&a, sample->count, sample->magnitude);
    return sample_bounds(run, sample);
}

// Cuts the entries so far to k; returns the magnitude of the last.
static uint32_t entries_cut(struct selecting *run, struct select_bounds bounds)
{
    const struct kernels_difference list = {.x = run->value, .count = run->entries};
    const struct kernels_select *ops = run->kernels->select;
    struct kernels_seen seen;
    struct select_cut cut;
    (void)select_cut_find(ops, &list, run->k, bounds, 1, &cut, &seen);
    run->entries = ops->keep(run->entries, run->index, run->value, cut.low, cut.high, cut.ties);
    return cut.low;
}

// One pass from bounds.low on, cut to k. False when cutting took too long to go on.
static bool pass(struct selecting *run, struct select_bounds bounds)
{
    uint32_t floor = bounds.low;
    size_t work = 0;
    run->entries = 0;
    run->seen = (struct kernels_seen){0};
    for (size_t from = run->first; from < run->end;) {
        from = select_gather(run, from, floor);
        if (!selecting_finite(run)) {
            return true;
        }
        if (from == run->end ? run->entries > run->k : run->entries == run->room) {
            work += run->entries;
            bounds.low = entries_cut(run, bounds);
            floor = bounds.low + 1; // of equal magnitudes the earlier ones are there already
        }
        if (work > run->end - run->first + run->room) {
            return false;
        }
        if (bounds.high <= floor) {
            bounds.high = KERNELS_INFINITE;
        }
    }
    return true;
}

static void by_histograms(struct selecting *run)
{
    const struct kernels_difference a = selecting_run(run);
    const struct select_bounds all = {.low = 1, .high = KERNELS_INFINITE};
    struct select_cut cut;
    (void)select_cut_find(run->kernels->select, &a, run->k, all, 1, &cut, &run->seen);
    if (selecting_finite(run)) {
        select_take(run, &cut);
    }
}

void select_exact(struct selecting *run)
{
    struct sample sample;
    const struct select_bounds bounds = bounds_guess(run, &sample);
    bool done = pass(run, bounds);
    if (done && selecting_finite(run) && run->entries < run->k && bounds.low > 1) {
        done = false;
    }
    if (!done) {
        by_histograms(run);
    }
}
