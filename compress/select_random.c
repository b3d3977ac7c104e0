// k of n elements, all sets equally likely as far as a hash provides that: the first k values of a keyed
// permutation of [0, n), sorted. Integer arithmetic only.
#include "compress/selecting.h"
#include <stdlib.h>
#include <string.h>

#define ROUNDS     6u
#define DIGIT_BITS 11u
#define DIGITS     (1u << DIGIT_BITS)

// A Feistel permutation of numbers of 2 * half bits.
struct permutation {
    uint64_t keys[ROUNDS];
    unsigned half;
    uint32_t count;
};

static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static struct permutation permutation_of(uint64_t seed, size_t count)
{
    struct permutation p = {.half = 1, .count = (uint32_t)count};
    while (p.half < 16 && (count - 1) >> (2 * p.half) > 0)
        p.half++;
    for (size_t i = 0; i < ROUNDS; i++) {
        seed += 0x9e3779b97f4a7c15u;
        p.keys[i] = mixed(seed);
    }
    return p;
}

// Applies a Feistel network over 4^half values until the result is below count: fewer than four steps on
// average.
static uint32_t permuted(const struct permutation *p, uint32_t i)
{
    const uint32_t mask = (uint32_t)((1u << p->half) - 1);
    do {
        uint32_t left = i >> p->half, right = i & mask;
        for (size_t round = 0; round < ROUNDS; round++) {
            const uint32_t next =
                left ^ (uint32_t)((right + p->keys[round]) * 0x9e3779b97f4a7c15u >> 40 & mask);
            left = right;
            right = next;
        }
        i = left << p->half | right;
    } while (i >= p->count);
    return i;
}

// One pass of a radix sort, which begins with the lowest digit: moves the numbers from `from` to `to`.
static void sort_digit(const uint32_t *from, uint32_t *to, size_t count, unsigned shift)
{
    size_t start[DIGITS + 1] = {0};
    for (size_t i = 0; i < count; i++)
        start[(from[i] >> shift & (DIGITS - 1)) + 1]++;
    for (size_t d = 1; d < DIGITS; d++)
        start[d] += start[d - 1];
    for (size_t i = 0; i < count; i++)
        to[start[from[i] >> shift & (DIGITS - 1)]++] = from[i];
}

// Draws `count` ascending indices in [first, first + of); scratch has room for as many.
static void draw(uint64_t seed, size_t first, size_t of, size_t count, uint32_t *index, uint32_t *scratch)
{
    const struct permutation p = permutation_of(seed, of);
    for (size_t i = 0; i < count; i++)
        scratch[i] = permuted(&p, (uint32_t)i) + (uint32_t)first;
    sort_digit(scratch, index, count, 0);
    sort_digit(index, scratch, count, DIGIT_BITS);
    sort_digit(scratch, index, count, 2 * DIGIT_BITS);
}

enum base_error select_random(struct selecting *run, uint64_t seed)
{
    const size_t bytes = run->k * sizeof(uint32_t);
    const bool shared = run->kernels->shares_host;
    // The memory of the values is unused until they are picked.
    uint32_t *scratch = shared ? (uint32_t *)run->value : malloc(2 * bytes);
    uint32_t *index = shared ? run->index : scratch + run->k;
    if (!scratch)
        return BASE_ENOMEM;
    (void)select_gather(run, run->first, SELECT_NEVER); // for the energies, and to check that all elements
                                                        // are finite
    if (selecting_finite(run)) {
        draw(seed + run->first, run->first, run->end - run->first, run->k, index, scratch);
        if (!shared)
            run->kernels->upload(run->index, index, bytes);
        run->kernels->select->pick(&run->whole, run->k, run->index, run->value);
        run->entries = run->k;
    }
    if (!shared) {
        run->kernels->wait();
        free(scratch);
    }
    return BASE_OK;
}
