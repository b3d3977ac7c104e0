// Selection compared with a sort: the same entries for any vector, length, k and backend.
#include "base/limits.h"
#include "compress/select.h"
#include "compress_vectors.h"
#include "select_backends.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_MAX 70000

static const struct kernels *backends[BACKENDS_MAX];
static size_t n_backends;

// A vector, as a difference or alone, and its elements in descending order, ties by index.
struct element {
    uint32_t magnitude, index;
};
struct subject {
    float *x, *r, *a;
    struct element *sorted;
    struct kernels_difference difference;
};

static uint32_t magnitude_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x7fffffffu;
}

static int by_magnitude(const void *x, const void *y)
{
    const struct element *a = x, *b = y;
    if (a->magnitude != b->magnitude)
        return a->magnitude > b->magnitude ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

static int by_index(const void *x, const void *y)
{
    const struct element *a = x, *b = y;
    return (a->index > b->index) - (a->index < b->index);
}

static struct subject subject_create(size_t count)
{
    struct subject s = {malloc((count + 1) * sizeof *s.x),
                        malloc((count + 1) * sizeof *s.r),
                        malloc((count + 1) * sizeof *s.a),
                        malloc((count + 1) * sizeof *s.sorted),
                        {0}};
    assert_non_null(s.x);
    assert_non_null(s.r);
    assert_non_null(s.a);
    assert_non_null(s.sorted);
    return s;
}

static void subject_destroy(struct subject *s)
{
    free(s->x);
    free(s->r);
    free(s->a);
    free(s->sorted);
}

// x is filled; r, where it is used, consists of multiples of 1/4, so that ties stay ties.
static void subject_prepare(struct subject *s, struct base_rng *rng, size_t count, bool differs)
{
    s->difference = (struct kernels_difference){.x = s->x, .r = differs ? s->r : NULL, .count = count};
    for (size_t i = 0; i < count; i++) {
        s->r[i] = (float)base_rng_below(rng, 5) * 0.25f - 0.5f;
        s->a[i] = differs ? s->x[i] - s->r[i] : s->x[i];
        s->sorted[i] = (struct element){.magnitude = magnitude_of(s->a[i]), .index = (uint32_t)i};
    }
    qsort(s->sorted, count, sizeof *s->sorted, by_magnitude);
}

static size_t most(const struct subject *s, size_t k)
{
    size_t kept = k < s->difference.count ? k : s->difference.count;
    while (kept > 0 && s->sorted[kept - 1].magnitude == 0)
        kept--;
    return kept;
}

static void assert_energies(const struct subject *s, const struct compress_energy *energy)
{
    double a = 0.0, x = 0.0;
    for (size_t i = 0; i < s->difference.count; i++) {
        a += (double)(s->a[i] * s->a[i]);
        x += (double)(s->x[i] * s->x[i]);
    }
    assert_true(isinf((float)a) || isinf(energy->a) || fabs(energy->a - a) <= 1e-4 * a);
    assert_true(isinf((float)x) || isinf(energy->x) || fabs(energy->x - x) <= 1e-4 * x);
}

// Selects on every backend, into arrays of exactly the requested room, so that AddressSanitizer finds one
// entry too many. All results must be the same. The caller frees the result.
static struct compress_sparse select_everywhere(const struct subject *s,
                                                const struct compress_selection *selection)
{
    struct compress_sparse first = {0};
    const size_t room = compress_select_room(selection, s->difference.count);
    for (size_t b = 0; b < n_backends; b++) {
        struct compress_sparse entries;
        struct compress_energy energy;
        assert_int_equal(compress_sparse_create(room, &entries), BASE_OK);
        assert_int_equal(compress_select(backends[b], selection, &s->difference, &entries, &energy), BASE_OK);
        for (size_t i = 0; i < entries.count; i++) {
            assert_true(i == 0 || entries.index[i] > entries.index[i - 1]);
            assert_true(entries.index[i] < s->difference.count);
            assert_memory_equal(&entries.value[i], &s->a[entries.index[i]], sizeof(float));
        }
        assert_energies(s, &energy);
        if (b == 0) {
            first = entries;
            continue;
        }
        assert_int_equal(entries.count, first.count);
        assert_memory_equal(entries.index, first.index, first.count * sizeof *first.index);
        compress_sparse_destroy(&entries);
    }
    return first;
}

static void assert_exact(struct subject *s, size_t k)
{
    const struct compress_selection selection = {.method = COMPRESS_EXACT, .k = k};
    struct compress_sparse entries = select_everywhere(s, &selection);
    const size_t kept = most(s, k);
    assert_int_equal(entries.count, kept);
    struct element *expected = malloc((kept + 1) * sizeof *expected);
    assert_non_null(expected);
    memcpy(expected, s->sorted, kept * sizeof *expected);
    qsort(expected, kept, sizeof *expected, by_index);
    for (size_t i = 0; i < kept; i++)
        assert_int_equal(entries.index[i], expected[i].index);
    free(expected);
    compress_sparse_destroy(&entries);
}

// Checks that every element is taken whose magnitude is at least `slack` above the smallest one that was
// taken.
static void assert_nearly_exact(struct subject *s, enum compress_method method, size_t k, uint32_t slack)
{
    const struct compress_selection selection = {.method = method, .k = k};
    struct compress_sparse entries = select_everywhere(s, &selection);
    assert_int_equal(entries.count, most(s, k));
    uint32_t least = UINT32_MAX;
    for (size_t i = 0; i < entries.count; i++) {
        const uint32_t magnitude = magnitude_of(entries.value[i]);
        least = magnitude < least ? magnitude : least;
    }
    size_t at = 0;
    for (size_t i = 0; entries.count > 0 && i < s->difference.count; i++) {
        const bool taken = at < entries.count && entries.index[at] == i;
        assert_true(taken || magnitude_of(s->a[i]) < least + slack);
        at += taken;
    }
    compress_sparse_destroy(&entries);
}

static void assert_all_methods(struct subject *s, size_t k)
{
    assert_exact(s, k);
    assert_nearly_exact(s, COMPRESS_THRESHOLD, k, 1u << 19);
    assert_nearly_exact(s, COMPRESS_BISECTION, k, 1u << 14);
}

static void selection_is_exact_for_small_vectors(void **state)
{
    struct base_rng *rng = *state;
    struct subject s = subject_create(131);
    for (unsigned kind = 0; kind < VECTOR_KINDS; kind++) {
        for (size_t count = 0; count <= 130; count++) {
            vector_fill(rng, (enum vector_kind)kind, s.x, count);
            subject_prepare(&s, rng, count, count % 2);
            const size_t ks[] = {0, 1, 2, count / 32, count / 2, count - (count > 0), count, count + 1};
            for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++)
                assert_exact(&s, ks[i]);
        }
    }
    subject_destroy(&s);
}

static void selection_is_exact_for_large_vectors(void **state)
{
    struct base_rng *rng = *state;
    static const size_t counts[] = {1023, 1025, 4999, 16384, 33333, COUNT_MAX};
    struct subject s = subject_create(COUNT_MAX);
    for (unsigned kind = 0; kind < VECTOR_KINDS; kind++) {
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            const size_t count = counts[i];
            vector_fill(rng, (enum vector_kind)kind, s.x, count);
            subject_prepare(&s, rng, count, i % 2);
            const size_t ks[] = {1, count / 1000, count / 100, count / 10, 1 + base_rng_below(rng, count)};
            for (size_t j = 0; j < sizeof ks / sizeof ks[0]; j++)
                assert_all_methods(&s, ks[j]);
        }
    }
    subject_destroy(&s);
}

static int ascending(const void *x, const void *y)
{
    const float a = *(const float *)x, b = *(const float *)y;
    return (a > b) - (a < b);
}

static void selection_is_exact_for_sorted_vectors(void **state)
{
    struct base_rng *rng = *state;
    struct subject s = subject_create(COUNT_MAX);
    for (unsigned trial = 0; trial < 4; trial++) {
        vector_fill(rng, VECTOR_GAUSSIAN, s.x, COUNT_MAX);
        for (size_t i = 0; i < COUNT_MAX; i++)
            s.x[i] = trial % 2 ? fabsf(s.x[i]) : s.x[i];
        qsort(s.x, COUNT_MAX, sizeof *s.x, ascending);
        for (size_t i = 0; trial >= 2 && i < COUNT_MAX / 2; i++) {
            const float other = s.x[i];
            s.x[i] = s.x[COUNT_MAX - 1 - i];
            s.x[COUNT_MAX - 1 - i] = other;
        }
        subject_prepare(&s, rng, COUNT_MAX, false);
        const size_t ks[] = {1, 70, 700, 7000, 40000};
        for (size_t j = 0; j < sizeof ks / sizeof ks[0]; j++)
            assert_all_methods(&s, ks[j]);
    }
    subject_destroy(&s);
}

// 99% zeros, with k below, at and above the number of other elements.
static void selection_is_exact_where_most_elements_are_zero(void **state)
{
    struct base_rng *rng = *state;
    struct subject s = subject_create(COUNT_MAX);
    size_t others = 0;
    for (size_t i = 0; i < COUNT_MAX; i++) {
        s.x[i] = base_rng_below(rng, 100) == 0 ? (float)base_rng_normal(rng) : 0.0f;
        others += s.x[i] != 0.0f;
    }
    subject_prepare(&s, rng, COUNT_MAX, false);
    const size_t ks[] = {others / 2, others - 2, others - 1, others, others + 1, others + 9, 2 * others};
    for (size_t j = 0; j < sizeof ks / sizeof ks[0]; j++)
        assert_all_methods(&s, ks[j]);
    subject_destroy(&s);
}

// The places that the sample reads (the test learns them from the values found there) hold misleading
// elements: much larger ones than elsewhere, or all the zeros. The other elements ascend, so that what
// follows is always larger.
static void selection_is_exact_when_the_sample_misleads(void **state)
{
    struct base_rng *rng = *state;
    struct subject s = subject_create(COUNT_MAX);
    uint32_t seen[1024];
    for (size_t i = 0; i < COUNT_MAX; i++)
        s.r[i] = (float)i;
    const struct kernels_difference numbers = {.x = s.r, .count = COUNT_MAX};
    bool *sampled = calloc(COUNT_MAX, sizeof *sampled);
    assert_non_null(sampled);
    kernels_cpu_scalar.select->sample(&numbers, 1024, seen);
    for (size_t i = 0; i < 1024; i++) {
        float at;
        memcpy(&at, &seen[i], sizeof at);
        assert_true(at >= 0.0f && at < COUNT_MAX);
        sampled[(size_t)at] = true;
    }
    for (unsigned trial = 0; trial < 6; trial++) {
        for (size_t i = 0; i < COUNT_MAX; i++) {
            float other = trial < 2 ? (float)i : (float)(COUNT_MAX - i);
            other = trial == 4 ? 1.0f + (float)base_rng_below(rng, 8) * 0x1p-20f : other;
            s.x[i] = sampled[i] ? (trial % 2 ? 1e9f : 0.0f) : other;
        }
        subject_prepare(&s, rng, COUNT_MAX, false);
        const size_t ks[] = {1, 700, 7000, 20000, 60000};
        for (size_t j = 0; j < sizeof ks / sizeof ks[0]; j++)
            assert_exact(&s, ks[j]);
    }
    free(sampled);
    subject_destroy(&s);
}

// A block is selected as if it were alone, with its share of k.
static void each_block_is_selected_as_if_alone(void **state)
{
    struct base_rng *rng = *state;
    static const size_t lengths[] = {1, 7, 100, 4096, 5000, 49999, 50000, 90000};
    const size_t count = 50000;
    struct subject s = subject_create(count), part = subject_create(count);
    for (unsigned i = 0; i < 24; i++) {
        const size_t block = lengths[i % 8], k = base_rng_below(rng, count / (i % 3 == 0 ? 1 : 20));
        vector_fill(rng, (enum vector_kind)(i % VECTOR_KINDS), s.x, count);
        subject_prepare(&s, rng, count, i % 2);
        struct compress_selection selection = {
            .method = (enum compress_method)(i % 3), .k = k, .block = block};
        struct compress_sparse all = select_everywhere(&s, &selection);
        size_t at = 0, shares = 0;
        for (size_t first = 0; first < count; first += block) {
            const size_t end = first + block < count ? first + block : count;
            selection.k = k * end / count - k * first / count;
            selection.block = 0;
            shares += selection.k;
            part.difference = (struct kernels_difference){
                .x = s.x + first, .r = s.difference.r ? s.r + first : NULL, .count = end - first};
            struct compress_sparse alone;
            assert_int_equal(compress_sparse_create(compress_select_room(&selection, end - first), &alone),
                             BASE_OK);
            assert_int_equal(compress_select(backends[0], &selection, &part.difference, &alone, NULL),
                             BASE_OK);
            assert_true(alone.count <= all.count - at);
            for (size_t j = 0; j < alone.count; j++)
                assert_int_equal(all.index[at + j], first + alone.index[j]);
            at += alone.count;
            compress_sparse_destroy(&alone);
        }
        assert_int_equal(at, all.count);
        assert_int_equal(shares, k);
        compress_sparse_destroy(&all);
    }
    subject_destroy(&part);
    subject_destroy(&s);
}

static void random_selection_takes_k_elements_alike_on_every_backend(void **state)
{
    struct base_rng *rng = *state;
    struct subject s = subject_create(5000);
    vector_fill(rng, VECTOR_MOSTLY_ZERO, s.x, 5000);
    static const size_t counts[] = {1, 2, 3, 64, 65, 1000, 5000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        subject_prepare(&s, rng, counts[i], i % 2);
        for (size_t k = 0; k <= counts[i]; k += 1 + k / 2) {
            struct compress_selection selection = {
                .method = COMPRESS_RANDOM, .k = k, .seed = k, .block = i % 3 == 2 ? 40 : 0};
            struct compress_sparse entries = select_everywhere(&s, &selection);
            assert_int_equal(entries.count, k);
            compress_sparse_destroy(&entries);
        }
    }
    subject_destroy(&s);
}

// 400 draws of 50 from 1000: each element is expected 20 times, with a standard deviation of 4.4.
static void random_selection_takes_each_element_equally_often(void **state)
{
    (void)state;
    static const float x[1000];
    const struct kernels_difference a = {.x = x, .count = 1000};
    unsigned drawn[1000] = {0};
    struct compress_sparse entries;
    struct compress_selection selection = {.method = COMPRESS_RANDOM, .k = 50};
    assert_int_equal(compress_sparse_create(compress_select_room(&selection, 1000), &entries), BASE_OK);
    for (; selection.seed < 400; selection.seed++) {
        assert_int_equal(compress_select(backends[0], &selection, &a, &entries, NULL), BASE_OK);
        for (size_t i = 0; i < entries.count; i++)
            drawn[entries.index[i]]++;
    }
    double deviation = 0.0;
    for (size_t i = 0; i < 1000; i++) {
        assert_in_range(drawn[i], 1, 45);
        deviation += ((double)drawn[i] - 20.0) * ((double)drawn[i] - 20.0);
    }
    assert_true(deviation / 1000 > 12.0 && deviation / 1000 < 28.0); // 19 for independent draws
    compress_sparse_destroy(&entries);
}

static void selection_handles_elements_that_are_not_finite(void **state)
{
    struct base_rng *rng = *state;
    static const size_t counts[] = {1, 7, 130, 1024, 1500, 20000};
    static const float broken[] = {NAN, -NAN, INFINITY, -INFINITY};
    struct subject s = subject_create(20000);
    for (size_t i = 0; i < 600; i++) {
        const size_t count = counts[i % 6];
        const struct compress_selection selection = {.method = (enum compress_method)(i / 6 % 4),
                                                     .k = base_rng_below(rng, count + 1),
                                                     .block = i % 5 == 0 ? 100 : 0};
        struct compress_sparse entries;
        vector_fill(rng, VECTOR_GAUSSIAN, s.x, count);
        vector_fill(rng, VECTOR_GAUSSIAN, s.r, count);
        (i % 2 ? s.r : s.x)[base_rng_below(rng, count)] = broken[i % 4];
        const struct kernels_difference a = {.x = s.x, .r = i % 2 ? s.r : NULL, .count = count};
        assert_int_equal(compress_sparse_create(compress_select_room(&selection, count), &entries), BASE_OK);
        entries.count = 1;
        assert_int_equal(compress_select(backends[i % n_backends], &selection, &a, &entries, NULL),
                         BASE_EFORMAT);
        assert_int_equal(entries.count, 1);
        compress_sparse_destroy(&entries);
    }
    subject_destroy(&s);
}

int main(void)
{
    struct base_rng rng;
    base_rng_seed(&rng, vectors_seed());
    n_backends = select_backends(backends);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(selection_is_exact_for_small_vectors, &rng),
        cmocka_unit_test_prestate(selection_is_exact_for_large_vectors, &rng),
        cmocka_unit_test_prestate(selection_is_exact_for_sorted_vectors, &rng),
        cmocka_unit_test_prestate(selection_is_exact_where_most_elements_are_zero, &rng),
        cmocka_unit_test_prestate(selection_is_exact_when_the_sample_misleads, &rng),
        cmocka_unit_test_prestate(each_block_is_selected_as_if_alone, &rng),
        cmocka_unit_test_prestate(random_selection_takes_k_elements_alike_on_every_backend, &rng),
        cmocka_unit_test(random_selection_takes_each_element_equally_often),
        cmocka_unit_test_prestate(selection_handles_elements_that_are_not_finite, &rng),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
