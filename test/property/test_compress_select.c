// Selection against a sort: the same entries, whatever the vector, its length and k.
#include "compress/compress.h"
#include "compress_vectors.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_MOST 60000

struct entry {
    float magnitude;
    uint32_t index;
};

static int by_magnitude(const void *x, const void *y)
{
    const struct entry *a = x, *b = y;
    if (a->magnitude != b->magnitude)
        return a->magnitude > b->magnitude ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

static int by_index(const void *x, const void *y)
{
    const struct entry *a = x, *b = y;
    return (a->index > b->index) - (a->index < b->index);
}

static size_t select_naive(const float *a, size_t count, size_t k, struct entry *entries)
{
    for (size_t i = 0; i < count; i++)
        entries[i] = (struct entry){.magnitude = fabsf(a[i]), .index = (uint32_t)i};
    qsort(entries, count, sizeof *entries, by_magnitude);
    size_t kept = k < count ? k : count;
    while (kept > 0 && entries[kept - 1].magnitude == 0.0f)
        kept--;
    qsort(entries, kept, sizeof *entries, by_index);
    return kept;
}

static void assert_selects(const float *a, size_t count, size_t k)
{
    struct compress_sparse sparse;
    struct entry *entries = malloc((count + 1) * sizeof *entries);
    assert_non_null(entries);
    // Exactly the capacity that the contract asks for: a write too many is found by the address sanitizer.
    assert_int_equal(compress_sparse_create(k < count ? k : count, &sparse), BASE_OK);
    assert_int_equal(compress_select_topk(a, count, k, &sparse), BASE_OK);
    size_t kept = select_naive(a, count, k, entries);
    assert_int_equal(sparse.count, kept);
    for (size_t i = 0; i < kept; i++) {
        assert_int_equal(sparse.index[i], entries[i].index);
        assert_memory_equal(&sparse.value[i], &a[entries[i].index], sizeof *a);
    }
    compress_sparse_destroy(&sparse);
    free(entries);
}

static void small_vectors(void **state)
{
    struct base_rng *rng = *state;
    float a[131];
    for (unsigned kind = 0; kind < VECTOR_KINDS; kind++) {
        for (size_t count = 0; count <= 130; count++) {
            vector_fill(rng, (enum vector_kind)kind, a, count);
            const size_t ks[] = {0, 1, 2, count / 32, count / 2, count - (count > 0), count, count + 1};
            for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++)
                assert_selects(a, count, ks[i]);
        }
    }
}

static void large_vectors(void **state)
{
    struct base_rng *rng = *state;
    static const size_t counts[] = {1023, 1024, 1025, 5000, 16383, 16384, 20001, COUNT_MOST};
    float *a = malloc(COUNT_MOST * sizeof *a);
    assert_non_null(a);
    for (unsigned kind = 0; kind < VECTOR_KINDS; kind++) {
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            size_t count = counts[i];
            vector_fill(rng, (enum vector_kind)kind, a, count);
            const size_t ks[] = {1, count / 100, count / 32, 1 + base_rng_below(rng, count)};
            for (size_t j = 0; j < sizeof ks / sizeof ks[0]; j++)
                assert_selects(a, count, ks[j]);
        }
    }
    free(a);
}

// Vectors made against the sample: what it meets at its stride is much larger than the rest, or all of it is
// zero; and one magnitude that a single bucket cannot divide.
static void misleading_samples(void **state)
{
    struct base_rng *rng = *state;
    size_t count = 10 * 4096, stride = 10;
    float *a = malloc(count * sizeof *a);
    assert_non_null(a);
    for (unsigned trial = 0; trial < 4; trial++) {
        for (size_t i = 0; i < count; i++) {
            float small = trial % 2 ? 1e-3f * (float)base_rng_normal(rng) : 0.0f;
            float large = 1.0f + 0x1p-20f * (float)base_rng_below(rng, 8);
            a[i] = (i % stride == 0) == (trial < 2) ? large : small;
        }
        const size_t ks[] = {1, 300, 1280, 4095, 4096, 4097, count / 2, count - 5000, count};
        for (size_t j = 0; j < sizeof ks / sizeof ks[0]; j++)
            assert_selects(a, count, ks[j]);
    }
    free(a);
}

static void non_finite_changes_nothing(void **state)
{
    struct base_rng *rng = *state;
    static const size_t counts[] = {1, 7, 130, 1024, 1500, 20000};
    static const float broken[] = {NAN, -NAN, INFINITY, -INFINITY};
    float *a = malloc(20000 * sizeof *a);
    assert_non_null(a);
    for (size_t i = 0; i < 400; i++) {
        size_t count = counts[i % (sizeof counts / sizeof counts[0])];
        size_t k = base_rng_below(rng, count + 1);
        struct compress_sparse sparse;
        assert_int_equal(compress_sparse_create(count, &sparse), BASE_OK);
        sparse.count = count;
        memset(sparse.index, 0xa5, count * sizeof *sparse.index);
        memset(sparse.value, 0x5a, count * sizeof *sparse.value);
        vector_fill(rng, VECTOR_GAUSSIAN, a, count);
        a[base_rng_below(rng, count)] = broken[i % 4];
        assert_int_equal(compress_select_topk(a, count, k, &sparse), BASE_EFORMAT);
        assert_int_equal(sparse.count, count);
        for (size_t j = 0; j < count; j++)
            assert_int_equal(sparse.index[j], 0xa5a5a5a5u);
        for (size_t j = 0; j < count * sizeof *sparse.value; j++)
            assert_int_equal(((const uint8_t *)sparse.value)[j], 0x5a);
        compress_sparse_destroy(&sparse);
    }
    free(a);
}

int main(void)
{
    struct base_rng rng;
    base_rng_seed(&rng, vectors_seed());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(small_vectors, &rng),
        cmocka_unit_test_prestate(large_vectors, &rng),
        cmocka_unit_test_prestate(misleading_samples, &rng),
        cmocka_unit_test_prestate(non_finite_changes_nothing, &rng),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
