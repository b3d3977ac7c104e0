// Drops each entry with the given probability: a hash of (seed, index) decides, so no state is kept.
#include "base/hash.h"
#include "compress/filter.h"

static const uint64_t salt = 0x736b6970; // random selection uses the same seed

static void keep_random(double number, const struct compress_filter_run *run, uint8_t *keep)
{
    const uint64_t dropped = (uint64_t)(number * 0x1p53), key = base_hash_mix(run->seed ^ salt);
    for (size_t i = 0; i < run->count; i++)
        keep[i] = base_hash_mix(key + 0x9e3779b97f4a7c15ull * (run->index[i] + 1ull)) >> 11 >= dropped;
}

static double fresh(double number)
{
    return 1 - number;
}

const struct compress_filter compress_filter_random_skip = {
    .name = "random-skip",
    .number = "part of the entries that is dropped",
    .least = 0,
    .most = 0.99,
    .keep = keep_random,
    .fresh = fresh,
};
