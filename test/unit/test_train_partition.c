// How examples are divided among nodes. P2PML_SEED chooses other random cases.
#include "base/rng.h"
#include "train/dataset.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define EXAMPLES 8000u
#define CLASSES  10u
#define SHARDS   8u

static uint64_t seed;

static void make_labels(uint32_t *labels, size_t examples, size_t classes)
{
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    for (size_t i = 0; i < examples; i++)
        labels[i] = (uint32_t)base_rng_below(&rng, classes);
}

static void count_shards(const uint32_t *owner, size_t examples, size_t shards, size_t *sizes)
{
    memset(sizes, 0, shards * sizeof *sizes);
    for (size_t i = 0; i < examples; i++) {
        assert_true(owner[i] < shards);
        sizes[owner[i]]++;
    }
}

static void iid_shards_are_even(void **state)
{
    (void)state;
    static const size_t cases[][2] = {{1, 1}, {8, 8}, {9, 8}, {1000, 7}, {8000, 8}, {1023, 32}};
    static uint32_t owner[EXAMPLES], again[EXAMPLES];
    size_t sizes[32];
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        size_t examples = cases[k][0], shards = cases[k][1];
        memset(owner, 0xff, sizeof owner);
        assert_int_equal(train_partition_iid(examples, shards, seed, owner), BASE_OK);
        count_shards(owner, examples, shards, sizes);
        for (size_t i = 0; i < shards; i++)
            assert_in_range(sizes[i], examples / shards, (examples + shards - 1) / shards);
        assert_int_equal(train_partition_iid(examples, shards, seed, again), BASE_OK);
        assert_memory_equal(owner, again, examples * sizeof *owner);
    }
    assert_int_equal(train_partition_iid(8000, 8, seed, owner), BASE_OK);
    assert_int_equal(train_partition_iid(8000, 8, seed + 1, again), BASE_OK);
    assert_memory_not_equal(owner, again, sizeof owner);
}

static void iid_refuses_invalid_arguments(void **state)
{
    (void)state;
    uint32_t owner[4] = {9, 9, 9, 9};
    assert_int_equal(train_partition_iid(4, 0, seed, owner), BASE_EINVAL);
    assert_int_equal(train_partition_iid(4, 5, seed, owner), BASE_EINVAL);
    assert_int_equal(train_partition_iid(0, 1, seed, owner), BASE_EINVAL);
    assert_int_equal(owner[0], 9);
}

// Mean over the shards of the share of the most frequent class: 1/classes when even, 1 when every shard has
// one class.
static double skew_of(const uint32_t *labels, const uint32_t *owner)
{
    size_t counts[SHARDS][CLASSES] = {{0}}, sizes[SHARDS] = {0};
    for (size_t i = 0; i < EXAMPLES; i++) {
        counts[owner[i]][labels[i]]++;
        sizes[owner[i]]++;
    }
    double sum = 0;
    for (size_t s = 0; s < SHARDS; s++) {
        size_t most = 0;
        for (size_t c = 0; c < CLASSES; c++)
            most = counts[s][c] > most ? counts[s][c] : most;
        sum += (double)most / (double)sizes[s];
    }
    return sum / SHARDS;
}

static void dirichlet_skew_grows_as_alpha_falls(void **state)
{
    (void)state;
    static uint32_t labels[EXAMPLES], owner[EXAMPLES];
    static const double alphas[] = {1000, 10, 1, 0.1, 0.001};
    double last = 0;
    make_labels(labels, EXAMPLES, CLASSES);
    for (size_t k = 0; k < sizeof alphas / sizeof *alphas; k++) {
        double skew = 0;
        for (uint64_t i = 0; i < 10; i++) {
            struct base_reason why = {""};
            assert_int_equal(train_partition_dirichlet(labels, EXAMPLES, CLASSES, SHARDS, alphas[k], 1,
                                                       seed + i, owner, &why),
                             BASE_OK);
            skew += skew_of(labels, owner) / 10;
        }
        print_message("alpha %g: commonest class %.2f\n", alphas[k], skew);
        assert_true(skew > last);
        last = skew;
        if (k == 0)
            assert_true(skew < 0.15);
    }
    assert_true(last > 0.8);
}

static void dirichlet_gives_every_shard_enough(void **state)
{
    (void)state;
    static uint32_t labels[EXAMPLES], owner[EXAMPLES], again[EXAMPLES];
    size_t sizes[64];
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    for (int k = 0; k < 200; k++) {
        size_t examples = 64 + (size_t)base_rng_below(&rng, 2000),
               classes = 1 + (size_t)base_rng_below(&rng, 12);
        size_t shards = 1 + (size_t)base_rng_below(&rng, 64);
        size_t least = (size_t)base_rng_below(&rng, examples / shards + 1);
        double alpha = base_rng_uniform(&rng) < 0.3 ? 1e-9 : 2 * base_rng_uniform(&rng) + 1e-6;
        uint64_t own = base_rng_u64(&rng);
        struct base_reason why = {""};
        make_labels(labels, examples, classes);
        memset(owner, 0xff, sizeof owner);
        if (train_partition_dirichlet(labels, examples, classes, shards, alpha, least, own, owner, &why))
            fail_msg("%s", why.text);
        count_shards(owner, examples, shards, sizes);
        for (size_t i = 0; i < shards; i++)
            assert_true(sizes[i] >= least);
        assert_int_equal(
            train_partition_dirichlet(labels, examples, classes, shards, alpha, least, own, again, &why),
            BASE_OK);
        assert_memory_equal(owner, again, examples * sizeof *owner);
    }
}

// With the smallest alpha, each class goes to one shard as a whole, and stays there if no shard needs filling
// up.
static void dirichlet_of_nearly_zero_keeps_classes_whole(void **state)
{
    (void)state;
    static uint32_t labels[EXAMPLES], owner[EXAMPLES];
    struct base_reason why = {""};
    make_labels(labels, EXAMPLES, CLASSES);
    assert_int_equal(
        train_partition_dirichlet(labels, EXAMPLES, CLASSES, SHARDS, 1e-12, 0, seed, owner, &why), BASE_OK);
    uint32_t of_class[CLASSES];
    memset(of_class, 0xff, sizeof of_class);
    for (size_t i = 0; i < EXAMPLES; i++) {
        uint32_t *known = &of_class[labels[i]];
        assert_true(*known == UINT32_MAX || *known == owner[i]);
        *known = owner[i];
    }
}

static void assert_refused(size_t examples, size_t classes, size_t shards, double alpha, size_t least,
                           const char *message)
{
    static const uint32_t labels[4] = {0, 1, 2, 1};
    uint32_t owner[4] = {9, 9, 9, 9};
    struct base_reason why = {""};
    assert_int_equal(
        train_partition_dirichlet(labels, examples, classes, shards, alpha, least, seed, owner, &why),
        BASE_EINVAL);
    assert_string_equal(why.text, message);
    assert_int_equal(owner[0], 9);
}

static void dirichlet_refuses_invalid_arguments(void **state)
{
    (void)state;
    assert_refused(4, 3, 2, 0, 1, "Dirichlet alpha is 0, expected a number above 0");
    assert_refused(4, 3, 2, -0.5, 1, "Dirichlet alpha is -0.5, expected a number above 0");
    assert_refused(4, 3, 2, strtod("nan", NULL), 1, "Dirichlet alpha is nan, expected a number above 0");
    assert_refused(4, 3, 2, strtod("inf", NULL), 1, "Dirichlet alpha is inf, expected a number above 0");
    assert_refused(4, 3, 5, 1, 0, "4 examples cannot be divided among 5 nodes");
    assert_refused(4, 3, 0, 1, 0, "4 examples cannot be divided among 0 nodes");
    assert_refused(4, 3, 3, 1, 2, "4 examples are too few for 3 nodes with at least 2 each");
    assert_refused(4, 2, 2, 1, 1, "label 2 of example 2, expected less than 2");
    assert_refused(
        4, 0, 2, 1, 1,
        "found 4 examples and 0 classes, expected at most 4294967295 examples and 1 to 65536 classes");
}

int main(void)
{
    const char *given = getenv("P2PML_SEED");
    seed = given ? strtoull(given, NULL, 10) : 20240607;
    print_message("P2PML_SEED=%" PRIu64 "\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(iid_shards_are_even),
        cmocka_unit_test(iid_refuses_invalid_arguments),
        cmocka_unit_test(dirichlet_skew_grows_as_alpha_falls),
        cmocka_unit_test(dirichlet_gives_every_shard_enough),
        cmocka_unit_test(dirichlet_of_nearly_zero_keeps_classes_whole),
        cmocka_unit_test(dirichlet_refuses_invalid_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
