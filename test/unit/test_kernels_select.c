// Every pass of selection on every path compared with a plain reference, at all lengths around the borders of
// vectors and pieces, with guards behind the outputs.
#include "kernels/cpu/cpu.h"

#include "base/bf16.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_MAX  5000
#define GUARD      40u
#define GUARD_BITS 0x5a5a5a5au

static struct base_rng rng;
static float x[COUNT_MAX], r[COUNT_MAX], a[COUNT_MAX], whole[COUNT_MAX]; // whole: of the energy
static uint16_t r_bf16[COUNT_MAX];
static const size_t counts[] = {0,    1,    2,    3,    7,    8,    9,    15,   16,   17,   31,
                                32,   33,   63,   64,   65,   127,  128,  129,  511,  512,  513,
                                1007, 1023, 1024, 1025, 1039, 1040, 2048, 2063, 3000, 4097, COUNT_MAX};

enum kind { GAUSSIAN, HEAVY, SPARSE, CONSTANT, TIES, DENORMAL, BROKEN, KINDS };

static uint32_t magnitude_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x7fffffffu;
}

static float element(enum kind kind)
{
    const float normal = (float)base_rng_normal(&rng);
    switch (kind) {
    case GAUSSIAN:
        return normal;
    case HEAVY:
        return normal / (float)(base_rng_uniform(&rng) + 1e-6);
    case SPARSE:
        return base_rng_below(&rng, 100) == 0 ? normal : -0.0f;
    case CONSTANT:
        return -0.125f;
    case TIES:
        return (float)base_rng_below(&rng, 5) - 2.0f;
    case DENORMAL:
        return 0x1p-149f * (float)base_rng_below(&rng, 1000);
    case BROKEN:
        return base_rng_below(&rng, 50) == 0 ? (base_rng_below(&rng, 2) ? NAN : -INFINITY) : normal;
    case KINDS:
        break;
    }
    return 0.0f;
}

// Half of the elements are about as far from their reference as it can follow.
static struct kernels_difference make_bf16(enum kind kind, size_t count)
{
    const size_t open = base_rng_below(&rng, count + 1), n = base_rng_below(&rng, 40);
    const size_t first = base_rng_below(&rng, 8) ? open : open - 20; // may also begin before the vector
    for (size_t i = 0; i < count; i++) {
        x[i] = element(kind);
        const float near = x[i] * (1 + 0.01f * (float)base_rng_uniform(&rng)), far = element(kind);
        const float stored = i % 2 ? far : near;
        r_bf16[i] = bf16_nearest(isfinite(stored) ? stored : 1); // a reference is finite
        const float step = float_of(bf16_step(r_bf16[i]));
        whole[i] = x[i] - bf16_widen(r_bf16[i]);
        a[i] = i - first < n || !(fabsf(whole[i]) <= step) ? whole[i] : 0;
    }
    return (struct kernels_difference){
        .x = x, .r_bf16 = r_bf16, .open_first = first, .open_count = n, .count = count};
}

static struct kernels_difference make(enum kind kind, size_t count, bool differs)
{
    for (size_t i = 0; i < count; i++) {
        x[i] = element(kind);
        r[i] = element(kind);
        a[i] = whole[i] = differs ? x[i] - r[i] : x[i];
    }
    return (struct kernels_difference){.x = x, .r = differs ? r : NULL, .count = count};
}

// The magnitude at a random place in the descending order of all.
static uint32_t floor_of(size_t count)
{
    static const uint32_t fixed[] = {1, 0x3f800000u, 0x7f7fffffu, 0x7f800000u, 0x7fffffffu, 0xffffffffu};
    if (count == 0 || base_rng_below(&rng, 4) == 0) {
        return fixed[base_rng_below(&rng, 6)];
    }
    const uint32_t floor = magnitude_of(a[base_rng_below(&rng, count)]);
    return floor > 0 ? floor : 1;
}

static void assert_seen(size_t first, size_t end, const struct kernels_difference *of,
                        const struct kernels_seen *seen)
{
    uint32_t largest = 0;
    double a_energy = 0.0, x_energy = 0.0;
    for (size_t i = first; i < end; i++) {
        largest = magnitude_of(a[i]) > largest ? magnitude_of(a[i]) : largest;
        a_energy += (double)(whole[i] * whole[i]);
        x_energy += (double)(of->x[i] * of->x[i]);
    }
    assert_int_equal(seen->read, end - first);
    if (largest < KERNELS_INFINITE) {
        assert_int_equal(seen->largest, largest);
        assert_true(fabs(seen->a_energy - a_energy) <= 1e-5 * a_energy);
        assert_true(fabs(seen->x_energy - x_energy) <= 1e-5 * x_energy);
    } else {
        assert_true(seen->largest >= KERNELS_INFINITE);
    }
}

static uint32_t index_[COUNT_MAX + GUARD];
static float value[COUNT_MAX + GUARD];

static void entries_guard(size_t room)
{
    for (size_t i = room; i < room + GUARD; i++) {
        const uint32_t guard = GUARD_BITS;
        index_[i] = guard;
        memcpy(&value[i], &guard, sizeof guard);
    }
}

static void entries_untouched(size_t room)
{
    for (size_t i = room; i < room + GUARD; i++) {
        assert_int_equal(index_[i], GUARD_BITS);
        assert_int_equal(magnitude_of(value[i]), GUARD_BITS);
    }
}

static void gather_once(const struct kernels_select *k, const struct kernels_difference *of)
{
    const uint32_t floor = floor_of(of->count);
    const size_t first = base_rng_below(&rng, 3) ? 0 : base_rng_below(&rng, of->count + 1);
    const size_t room = base_rng_below(&rng, 2) ? COUNT_MAX : base_rng_below(&rng, of->count + 1);
    struct kernels_seen seen;
    entries_guard(room);
    const size_t found = k->gather(of, first, floor, room, index_, value, &seen);
    size_t expected = 0, i = first;
    for (; i < of->count; i++) {
        if (magnitude_of(a[i]) < floor) {
            continue;
        }
        if (expected == room) {
            break;
        }
        assert_true(expected < found);
        assert_int_equal(index_[expected], i);
        assert_true(magnitude_of(a[i]) > KERNELS_INFINITE ||
                    memcmp(&value[expected], &a[i], sizeof a[i]) == 0);
        expected++;
    }
    assert_int_equal(found, expected);
    assert_seen(first, i, of, &seen);
    entries_untouched(room);
}

static void histogram_once(const struct kernels_select *k, const struct kernels_difference *of)
{
    static uint64_t bins[KERNELS_BINS], expected[KERNELS_BINS];
    const uint32_t floor = floor_of(of->count);
    const unsigned shift = (unsigned)base_rng_below(&rng, 24);
    struct kernels_seen seen;
    memset(expected, 0, sizeof expected);
    for (size_t i = 0; i < of->count; i++) {
        const uint32_t magnitude = magnitude_of(a[i]), bin = (magnitude - floor) >> shift;
        if (magnitude >= floor) {
            expected[bin < KERNELS_BINS ? bin : KERNELS_BINS - 1]++;
        }
    }
    memset(bins, 0xff, sizeof bins);
    k->histogram(of, floor, shift, bins, &seen);
    assert_memory_equal(bins, expected, sizeof bins);
    assert_seen(0, of->count, of, &seen);
}

static void count_once(const struct kernels_select *k, const struct kernels_difference *of)
{
    uint32_t floors[8];
    uint64_t found[9] = {[8] = GUARD_BITS};
    const size_t n = base_rng_below(&rng, 9);
    struct kernels_seen seen;
    found[n] = GUARD_BITS;
    for (size_t j = 0; j < n; j++) {
        floors[j] = floor_of(of->count);
    }
    k->count(of, floors, n, found, &seen);
    for (size_t j = 0; j < n; j++) {
        uint64_t expected = 0;
        for (size_t i = 0; i < of->count; i++) {
            expected += magnitude_of(a[i]) >= floors[j];
        }
        assert_int_equal(found[j], expected);
    }
    assert_int_equal(found[n], GUARD_BITS);
    assert_seen(0, of->count, of, &seen);
}

static void keep_once(const struct kernels_select *k, size_t count)
{
    const uint32_t one = floor_of(count), other = floor_of(count);
    const uint32_t low = one < other ? one : other, high = base_rng_below(&rng, 2) ? low + 1
                                                           : one > other           ? one
                                                                                   : other;
    const size_t ties = base_rng_below(&rng, 2) ? base_rng_below(&rng, count + 1) : base_rng_below(&rng, 20);
    entries_guard(count);
    for (size_t i = 0; i < count; i++) {
        index_[i] = (uint32_t)(7 * i + 3);
        value[i] = a[i];
    }
    const size_t kept = k->keep(count, index_, value, low, high, ties);
    size_t expected = 0, left = ties;
    for (size_t i = 0; i < count; i++) {
        const uint32_t magnitude = magnitude_of(a[i]);
        const bool tie = magnitude >= low && magnitude < high && left > 0;
        if (magnitude >= high || tie) {
            assert_true(expected < kept);
            assert_int_equal(index_[expected], 7 * i + 3);
            assert_memory_equal(&value[expected], &a[i], sizeof a[i]);
            expected++;
            left -= tie;
        }
    }
    assert_int_equal(kept, expected);
    entries_untouched(count);
}

static void sample_and_pick_once(const struct kernels_select *k, const struct kernels_difference *of)
{
    static uint32_t found[COUNT_MAX + 1];
    const size_t samples = of->count == 0 ? 0 : base_rng_below(&rng, of->count / 16 + 1) * 16;
    found[samples] = GUARD_BITS;
    k->sample(of, samples, found);
    assert_int_equal(found[samples], GUARD_BITS);
    size_t at = 0;
    // each run is at a random place behind the one before
    for (size_t run = 0; run < samples; run += 16, at += 16) {
        bool same = false;
        for (; !same && at + 16 <= of->count; at += !same) {
            same = true;
            for (size_t i = 0; i < 16; i++) {
                same = same && magnitude_of(a[at + i]) == found[run + i];
            }
        }
        assert_true(same);
    }
    const size_t entries = base_rng_below(&rng, of->count + 1);
    entries_guard(entries);
    for (size_t i = 0; i < entries; i++) {
        index_[i] = (uint32_t)base_rng_below(&rng, of->count);
    }
    k->pick(of, entries, index_, value);
    for (size_t i = 0; i < entries; i++) {
        assert_memory_equal(&value[i], &a[index_[i]], sizeof a[0]);
    }
    entries_untouched(entries);
}

static void passes_match_the_reference(void **state)
{
    const struct kernels_select *k = *state;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        for (size_t i = 0; i < 3 * sizeof counts / sizeof counts[0]; i++) {
            const struct kernels_difference of = i % 3 == 2 ? make_bf16((enum kind)kind, counts[i / 3])
                                                            : make((enum kind)kind, counts[i / 3], i % 3);
            for (size_t repeat = 0; repeat < 6; repeat++) {
                gather_once(k, &of);
                count_once(k, &of);
                keep_once(k, of.count);
            }
            histogram_once(k, &of);
            if (kind != BROKEN) { // NaN of x - r need not have the same bits
                sample_and_pick_once(k, &of);
            }
        }
    }
}

// The energy of a long vector is not summed in single precision alone.
static void the_energy_of_a_long_vector_is_accurate(void **state)
{
    const struct kernels_select *k = *state;
    const size_t count = 3000001;
    float *ones = malloc(count * sizeof *ones);
    assert_non_null(ones);
    for (size_t i = 0; i < count; i++) {
        ones[i] = 1.1f;
    }
    const struct kernels_difference of = {.x = ones, .count = count};
    struct kernels_seen seen;
    (void)k->gather(&of, 0, 0xffffffffu, 0, NULL, NULL, &seen);
    const double expected = (double)(1.1f * 1.1f) * (double)count;
    assert_int_equal(seen.read, count);
    assert_true(fabs(seen.a_energy - expected) < 1e-5 * expected);
    free(ones);
}

int main(void)
{
    const char *text = getenv("P2PML_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 10) : 20260131u;
    printf("P2PML_SEED=%llu\n", (unsigned long long)seed);
    base_rng_seed(&rng, seed);
    static const char *const names[] = {"scalar", "avx2", "avx512"};
    struct CMUnitTest tests[6];
    size_t n = 0;
    for (size_t i = 0; i < 3; i++) {
        const struct kernels *table = kernels_cpu_table(names[i]);
        if (!table) {
            printf("path %s is not tested: this processor lacks it\n", names[i]);
            continue;
        }
        void *select = (void *)(uintptr_t)table->select;
        tests[n++] = (struct CMUnitTest){names[i], passes_match_the_reference, NULL, NULL, select};
        tests[n++] =
            (struct CMUnitTest){names[i], the_energy_of_a_long_vector_is_accurate, NULL, NULL, select};
    }
    return _cmocka_run_group_tests("kernels select", tests, n, NULL, NULL);
}
