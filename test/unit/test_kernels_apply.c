// The fused end of an exchange on every CPU path compared with the arithmetic of the header, one element at a
// time; hashes compared with base/hash.h; elements that are not finite are detected anywhere.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bf16.h"
#include "base/hash.h"
#include "kernels/cpu/cpu.h"
#include "test/property/compress_vectors.h"
#include <string.h>

enum { LONGEST = 24000, GUARD = 32, VECTORS = 7, WAYS = 32 };

static const char *const path_names[] = {"scalar", "avx2", "avx512"};
static const struct kernels_apply *paths[3];
static size_t n_paths;
static struct base_rng rng;

// x, pending, r, correction and correction_sum of one side, with guards behind them; r and correction in
// bf16.
struct world {
    float *vector[VECTORS];
    uint64_t hash;
};

static struct world world_make(void)
{
    struct world world = {.hash = 7};
    for (size_t v = 0; v < VECTORS; v++) {
        world.vector[v] = malloc((LONGEST + GUARD) * sizeof(float));
        assert_non_null(world.vector[v]);
    }
    return world;
}

static void world_free(struct world *world)
{
    for (size_t v = 0; v < VECTORS; v++)
        free(world->vector[v]);
}

static uint16_t *halves(const struct world *world, size_t v)
{
    return (uint16_t *)(void *)world->vector[v];
}

static void world_fill(struct world *world, enum vector_kind kind)
{
    for (size_t v = 0; v < VECTORS; v++)
        vector_fill(&rng, kind, world->vector[v], LONGEST + GUARD);
    for (size_t v = 5; v < VECTORS; v++)
        for (size_t i = 0; i < LONGEST + GUARD; i++)
            halves(world, v)[i] = bf16_nearest(world->vector[v - 3][i]);
}

static void world_copy(struct world *to, const struct world *from)
{
    for (size_t v = 0; v < VECTORS; v++)
        memcpy(to->vector[v], from->vector[v], (LONGEST + GUARD) * sizeof(float));
    to->hash = from->hash;
}

// Eight variants with some vectors missing; the same with another weight than 1/2; all with r and correction
// in bf16.
static struct kernels_exchange exchange_of(const struct world *world, unsigned way)
{
    const bool corrected = way & 1, bf16 = way & 16;
    return (struct kernels_exchange){.x = world->vector[0],
                                     .pending = way & 2 ? NULL : world->vector[1],
                                     .r = way & 4 || bf16 ? NULL : world->vector[2],
                                     .r_bf16 = way & 4 || !bf16 ? NULL : halves(world, 5),
                                     .correction = corrected && !bf16 ? world->vector[3] : NULL,
                                     .correction_sum = corrected && !bf16 ? world->vector[4] : NULL,
                                     .correction_bf16 = corrected && bf16 ? halves(world, 6) : NULL,
                                     .rounding = 77 + way,
                                     .weight = way & 8 ? 0.3f : 0.5f,
                                     .gain = 0.3f};
}

static float entry_of(const struct kernels_entries *entries, size_t index, size_t *at)
{
    size_t i = *at;
    if (i < entries->count && (entries->index ? entries->index[i] : entries->first + i) == index)
        return entries->value[(*at)++];
    return 0.0f;
}

static bool is_named(const struct kernels_entries *entries, size_t index, size_t at)
{
    return at < entries->count && (entries->index ? entries->index[at] : entries->first + at) == index;
}

static void reference_exchange(const struct kernels_exchange *e, uint64_t *hash)
{
    size_t i = 0, j = 0;
    for (size_t index = 0; index < LONGEST; index++) {
        if (!is_named(&e->mine, index, i) && !is_named(&e->theirs, index, j))
            continue;
        float mine = entry_of(&e->mine, index, &i), theirs = entry_of(&e->theirs, index, &j);
        float force = e->weight * (theirs - mine);
        if (e->r) {
            float before = e->r[index], after = before + 0.5f * (mine + theirs);
            e->r[index] = after;
            *hash += base_hash_element(index, after) - base_hash_element(index, before);
        }
        if (e->r_bf16) {
            float before = bf16_widen(e->r_bf16[index]), after;
            e->r_bf16[index] = bf16_nearest(before + 0.5f * (mine + theirs));
            after = bf16_widen(e->r_bf16[index]);
            *hash += base_hash_element(index, after) - base_hash_element(index, before);
        }
        e->x[index] += force;
        if (e->correction_bf16)
            e->correction_bf16[index] =
                bf16_stochastic(bf16_widen(e->correction_bf16[index]) + e->gain * force,
                                (uint32_t)(base_hash_mix(e->rounding + index) >> 48));
        if (e->pending)
            e->pending[index] += force;
        if (e->correction) {
            e->correction[index] += e->gain * force;
            e->correction_sum[index] += e->gain * force;
        }
    }
}

static uint64_t hash_of(const struct world *world, unsigned way)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < LONGEST; i++)
        hash += base_hash_element(i, way & 16 ? bf16_widen(halves(world, 5)[i]) : world->vector[2][i]);
    return hash;
}

// All paths on the same lists; the reference's hash is that of its vector.
static void exchange_everywhere(const struct kernels_entries *mine, const struct kernels_entries *theirs,
                                unsigned way, enum vector_kind kind)
{
    struct world start = world_make(), expected = world_make(), found = world_make();
    world_fill(&start, kind);
    start.hash = hash_of(&start, way);
    world_copy(&expected, &start);
    struct kernels_exchange e = exchange_of(&expected, way);
    e.mine = *mine, e.theirs = *theirs;
    reference_exchange(&e, &expected.hash);
    assert_true(expected.hash == hash_of(&expected, way));
    for (size_t p = 0; p < n_paths; p++) {
        world_copy(&found, &start);
        e = exchange_of(&found, way);
        e.mine = *mine, e.theirs = *theirs;
        paths[p]->exchange(&e, &found.hash);
        for (size_t v = 0; v < VECTORS; v++)
            assert_memory_equal(found.vector[v], expected.vector[v], (LONGEST + GUARD) * sizeof(float));
        assert_true(found.hash == expected.hash);
    }
    world_free(&start);
    world_free(&expected);
    world_free(&found);
}

struct list {
    uint32_t *index;
    float *value;
    size_t count;
};

// Up to `count` entries below `below`; every element has the same chance.
static struct list list_make(size_t count, size_t below)
{
    struct list list = {malloc((count + 1) * sizeof(uint32_t)), malloc((count + 1) * sizeof(float)), 0};
    assert_true(list.index && list.value);
    for (size_t i = 0; i < below && list.count < count; i++)
        if (base_rng_below(&rng, below - i) < count - list.count) {
            list.index[list.count] = (uint32_t)i;
            list.value[list.count++] = (float)base_rng_normal(&rng);
        }
    return list;
}

static void list_free(struct list *list)
{
    free(list->index);
    free(list->value);
}

static struct kernels_entries entries_of(const struct list *list)
{
    return (struct kernels_entries){.index = list->index, .value = list->value, .count = list->count};
}

static void random_lists(size_t n_mine, size_t n_theirs, size_t below, unsigned way, enum vector_kind kind)
{
    struct list a = list_make(n_mine, below), b = list_make(n_theirs, below);
    struct kernels_entries mine = entries_of(&a), theirs = entries_of(&b);
    exchange_everywhere(&mine, &theirs, way, kind);
    list_free(&a);
    list_free(&b);
}

static void small_lists_of_all_sizes_match_the_reference(void **state)
{
    (void)state;
    for (size_t n = 0; n <= 40; n++) {
        random_lists(n, (n * 7) % 41, 100, n % WAYS, VECTOR_GAUSSIAN);
        random_lists(n, n, n, n % 3 == 0, VECTOR_GAUSSIAN); // the same indices
        random_lists(n, 40 - n, LONGEST, n % WAYS, VECTOR_GAUSSIAN);
    }
}

static void longer_lists_match_the_reference(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 255, 256, 257, 511, 512, 513, 1000, 1023, 1024, 1025, 3000, 7000};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    for (size_t i = 0; i < SIZES; i++) {
        random_lists(sizes[i], sizes[SIZES - 1 - i], LONGEST, i % WAYS, VECTOR_GAUSSIAN);
        random_lists(sizes[i], sizes[i], LONGEST, (i + 17) % WAYS, VECTOR_GAUSSIAN);
    }
    random_lists(7000, 21000, LONGEST, true, VECTOR_GAUSSIAN);
}

static void lists_of_any_numbers_match_the_reference(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < VECTOR_KINDS; kind++)
        for (unsigned way = kind % 2; way < WAYS; way += 15)
            random_lists(700, 900, 5000, way, (enum vector_kind)kind);
}

// One list is behind the other, or inside a gap of the other.
static void lists_that_do_not_overlap_match_the_reference(void **state)
{
    (void)state;
    struct list a = list_make(2000, 10000), b = list_make(2000, 10000);
    for (size_t i = 0; i < b.count; i++)
        b.index[i] += 11000;
    struct kernels_entries first = entries_of(&a), second = entries_of(&b);
    exchange_everywhere(&first, &second, true, VECTOR_GAUSSIAN);
    exchange_everywhere(&second, &first, false, VECTOR_GAUSSIAN);
    for (size_t i = 1000; i < a.count; i++)
        a.index[i] += 12500;
    exchange_everywhere(&first, &second, false, VECTOR_GAUSSIAN);
    exchange_everywhere(&second, &first, true, VECTOR_GAUSSIAN);
    list_free(&a);
    list_free(&b);
}

static void dense_runs_match_the_reference(void **state)
{
    (void)state;
    struct list values = list_make(5000, 5000), sparse = list_make(3000, 9000);
    for (size_t n = 0; n <= 5000; n += n < 40 ? 1 : 1237) {
        struct kernels_entries mine = {.value = values.value, .count = n, .first = 33};
        struct kernels_entries theirs = {.value = values.value + 5000 - n, .count = n, .first = 33};
        exchange_everywhere(&mine, &theirs, n % WAYS, VECTOR_GAUSSIAN);
        theirs.first = 35;
        exchange_everywhere(&mine, &theirs, false, VECTOR_GAUSSIAN);
        theirs = entries_of(&sparse);
        exchange_everywhere(&mine, &theirs, true, VECTOR_GAUSSIAN);
        exchange_everywhere(&theirs, &mine, false, VECTOR_GAUSSIAN);
    }
    list_free(&values);
    list_free(&sparse);
}

static void the_hash_of_a_vector_matches_base_hash(void **state)
{
    (void)state;
    float x[1100];
    for (unsigned kind = 0; kind < VECTOR_KINDS; kind++) {
        vector_fill(&rng, (enum vector_kind)kind, x, 1100);
        for (size_t count = 0; count <= 1000; count += count < 140 ? 1 : 43)
            for (unsigned magnitudes = 0; magnitudes < 2; magnitudes++) {
                // up to the last index and beyond it
                size_t first = kind % 2 ? count * 3 : 0xfffffff0u - count;
                uint64_t expected = 0;
                for (size_t i = 0; i < count; i++)
                    expected += base_hash_element(first + i, magnitudes ? fabsf(x[3 + i]) : x[3 + i]);
                for (size_t p = 0; p < n_paths; p++)
                    assert_true(paths[p]->hash(x + 3, count, first, magnitudes) == expected);
            }
    }
}

static void an_element_that_is_not_finite_is_detected(void **state)
{
    (void)state;
    static const uint32_t broken[] = {0x7f800000, 0xff800000, 0x7f800001, 0xffffffff, 0x7fc00000};
    float x[400];
    for (unsigned kind = 0; kind < VECTOR_KINDS; kind++) {
        vector_fill(&rng, (enum vector_kind)kind, x, 400);
        for (size_t p = 0; p < n_paths; p++)
            for (size_t count = 0; count <= 260; count++) {
                assert_true(paths[p]->finite(x + 1, count));
                size_t at = base_rng_below(&rng, count + 1); // also right behind the end
                float was = x[1 + at];
                memcpy(&x[1 + at], &broken[count % 5], sizeof *x);
                assert_int_equal(paths[p]->finite(x + 1, count), at == count);
                x[1 + at] = was;
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_lists_of_all_sizes_match_the_reference),
        cmocka_unit_test(longer_lists_match_the_reference),
        cmocka_unit_test(lists_of_any_numbers_match_the_reference),
        cmocka_unit_test(lists_that_do_not_overlap_match_the_reference),
        cmocka_unit_test(dense_runs_match_the_reference),
        cmocka_unit_test(the_hash_of_a_vector_matches_base_hash),
        cmocka_unit_test(an_element_that_is_not_finite_is_detected),
    };
    base_rng_seed(&rng, vectors_seed());
    for (size_t p = 0; p < sizeof path_names / sizeof path_names[0]; p++) {
        const struct kernels *table = kernels_cpu_table(path_names[p]);
        if (!table)
            printf("path %s is not tested: this processor lacks it\n", path_names[p]);
        else
            paths[n_paths++] = table->apply;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
