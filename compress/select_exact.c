// Exact top-k in about one pass. A sample estimates a floor that slightly more than k magnitudes reach; one
// pass gathers these candidates, which are then cut to exactly k. If the sample misleads: with too many
// candidates, they are cut to about k, the floor rises to the smallest of them, and the pass continues; with
// too few, a second pass uses a lower floor. If neither helps, histograms find the cut, in a bounded number
// of passes.
#include "compress/selecting.h"

#define SAMPLES_MAX   16384u
#define SAMPLES_CACHE 4096u // for vectors that fit into a cache: a larger sample costs as much as it saves
#define SAMPLE_RUN    16u
#define OCTAVES       4u // below the largest of the sample: the range in which the k-th is searched first

struct sample {
    size_t count;
    uint32_t largest;
    uint32_t magnitude[SAMPLES_MAX];
};

// The range in which the k-th magnitude is expected.
struct guess {
    uint32_t low, high;
};

static size_t root(size_t x)
{
    size_t r = 0;
    while ((r + 1) * (r + 1) <= x)
        r++;
    return r;
}

static size_t sample_size(size_t count)
{
    const size_t thin = count / 256 < SAMPLES_MAX ? count / 256 : SAMPLES_MAX;
    const size_t thick = count / 64 < SAMPLES_CACHE ? count / 64 : SAMPLES_CACHE;
    return (thin > thick ? thin : thick) / SAMPLE_RUN * SAMPLE_RUN;
}

static void sample_take(const struct selecting *run, struct sample *sample)
{
    const struct kernels_difference a = selecting_run(run);
    sample->count = sample_size(a.count);
    sample->largest = 0;
    if (sample->count > 0)
        run->kernels->select->sample(&a, sample->count, sample->magnitude);
    for (size_t i = 0; i < sample->count; i++) {
        const int32_t m = (int32_t)sample->magnitude[i];
        sample->largest = (int32_t)sample->largest > m ? sample->largest : (uint32_t)m;
    }
}

// A magnitude of about this rank in the sample; 1 if the sample has fewer elements.
static uint32_t sample_rank(const struct selecting *run, const struct sample *sample, size_t rank,
                            uint32_t low)
{
    const struct kernels_difference list = {.x = (const float *)(const void *)sample->magnitude,
                                            .count = sample->count};
    struct select_search search = {
        .k = rank, .low = low, .high = sample->largest + 1, .width = 1u << 8, .spare = root(rank) / 4};
    struct kernels_seen seen;
    struct select_cut cut;
    if (search.high <= low || rank > sample->count)
        return 1;
    if (!select_cut_find(run->kernels->host->select, &list, &search, &cut, &seen) && low > 1) {
        search.low = 1;
        (void)select_cut_find(run->kernels->host->select, &list, &search, &cut, &seen);
    }
    return cut.low;
}

// Bounds that are `sigmas` / 2 standard deviations of the sample away from the expected k-th magnitude.
static struct guess guess_bounds(const struct selecting *run, const struct sample *sample, size_t sigmas)
{
    const size_t rank = (size_t)((uint64_t)run->k * sample->count / (run->end - run->first));
    const size_t margin = sigmas * root(rank + 1) / 2 + 1;
    struct guess guess = {.low = 1, .high = KERNELS_INFINITE};
    if (sample->count == 0 || run->end - run->first <= run->room)
        return guess;
    const uint32_t below = OCTAVES << 23;
    guess.low =
        sample_rank(run, sample, rank + margin, sample->largest > below ? sample->largest - below : 1);
    if (rank > margin && guess.low > 1)
        guess.high = sample_rank(run, sample, rank - margin, guess.low);
    if (guess.high <= guess.low)
        guess.high = KERNELS_INFINITE;
    return guess;
}

// Cuts the entries so far to k and at most `spare` more, and raises guess->low to the smallest that stays.
// Returns the floor for the rest of the pass: if the cut is exact, it is above the cut, because earlier
// elements of equal magnitude win.
static uint32_t entries_cut(struct selecting *run, struct guess *guess, size_t spare)
{
    const struct kernels_difference list = {.x = run->value, .count = run->entries};
    const struct kernels_select *ops = run->kernels->select;
    const uint32_t end = run->seen.largest + 1, high = guess->high < end ? guess->high : end;
    const struct select_search search = {
        .k = run->k, .low = guess->low, .high = high, .width = 1, .spare = spare};
    struct kernels_seen seen;
    struct select_cut cut;
    (void)select_cut_find(ops, &list, &search, &cut, &seen);
    run->entries = ops->keep(run->entries, run->index, run->value, cut.low, cut.high, cut.ties);
    guess->low = cut.low;
    if (guess->high <= cut.low)
        guess->high = KERNELS_INFINITE;
    return cut.high > cut.low ? cut.high : cut.low;
}

// One pass with the floor guess.low, cut to k entries. False: cutting took too much work to continue.
static bool pass(struct selecting *run, struct guess guess)
{
    uint32_t floor = guess.low;
    size_t work = 0;
    run->entries = 0;
    run->seen = (struct kernels_seen){0};
    for (size_t from = run->first; from < run->end;) {
        from = select_gather(run, from, floor);
        if (!selecting_finite(run))
            return true;
        const bool full = run->entries == run->room && from < run->end;
        if (full || (from == run->end && run->entries > run->k)) {
            work += run->entries;
            floor = entries_cut(run, &guess, full ? (run->room - run->k) / 2 : 0);
        }
        if (full && work > run->end - run->first + run->room)
            return false;
    }
    return true;
}

static void by_histograms(struct selecting *run)
{
    const struct kernels_difference a = selecting_run(run);
    const struct select_search search = {.k = run->k, .low = 1, .high = KERNELS_INFINITE, .width = 1};
    struct select_cut cut;
    (void)select_cut_find(run->kernels->select, &a, &search, &cut, &run->seen);
    if (selecting_finite(run))
        select_take(run, &cut);
}

void select_exact(struct selecting *run)
{
    struct sample sample;
    sample_take(run, &sample);
    for (size_t sigmas = 5; sigmas <= 20; sigmas += 15) {
        const struct guess guess = guess_bounds(run, &sample, sigmas);
        if (!pass(run, guess))
            break;
        if (!selecting_finite(run) || run->entries == run->k || guess.low == 1)
            return;
    }
    by_histograms(run);
}
