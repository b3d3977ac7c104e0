// Which nodes train on the examples of shards without a living node. P2PML_SEED chooses other random cases.
#include "base/rng.h"
#include "train/dataset.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST_EXAMPLES 4000u
#define MOST_SHARDS   64u
#define CASES         300

static uint64_t seed;

// A random case: owners, and which shards live.
struct world {
    size_t examples, shards;
    uint64_t seed;
    bool living[MOST_SHARDS];
    uint32_t owner[MOST_EXAMPLES], trainer[MOST_EXAMPLES], after[MOST_EXAMPLES];
};

static size_t count_living(const struct world *w)
{
    size_t count = 0;
    for (size_t s = 0; s < w->shards; s++)
        count += w->living[s];
    return count;
}

static void draw(struct world *w, struct base_rng *rng)
{
    w->shards = 1 + (size_t)base_rng_below(rng, MOST_SHARDS);
    w->examples = w->shards + (size_t)base_rng_below(rng, MOST_EXAMPLES - w->shards);
    w->seed = base_rng_u64(rng);
    const double part = base_rng_uniform(rng);
    for (size_t s = 0; s < w->shards; s++)
        w->living[s] = base_rng_uniform(rng) < part;
    w->living[base_rng_below(rng, w->shards)] = true;
    for (size_t i = 0; i < w->examples; i++)
        w->owner[i] = (uint32_t)base_rng_below(rng, w->shards);
}

static void divide(const struct world *w, uint32_t *trainer)
{
    assert_int_equal(train_partition_living(w->owner, w->examples, w->living, w->shards, w->seed, trainer),
                     BASE_OK);
}

// Every example has one trainer, which is alive; if its owner is alive, the owner. All nodes compute the same
// result, also in place.
static void every_example_has_a_living_trainer(void **state)
{
    (void)state;
    static struct world w;
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    for (int k = 0; k < CASES; k++) {
        draw(&w, &rng);
        memset(w.trainer, 0xff, sizeof w.trainer);
        divide(&w, w.trainer);
        for (size_t i = 0; i < w.examples; i++) {
            assert_true(w.trainer[i] < w.shards && w.living[w.trainer[i]]);
            assert_true(!w.living[w.owner[i]] || w.trainer[i] == w.owner[i]);
        }
        memcpy(w.after, w.owner, sizeof w.after);
        assert_int_equal(train_partition_living(w.after, w.examples, w.living, w.shards, w.seed, w.after),
                         BASE_OK);
        assert_memory_equal(w.after, w.trainer, w.examples * sizeof *w.trainer);
    }
}

// One more node dies: only the examples that it trained on move. It comes back: everything is as before.
static void only_the_examples_of_the_dead_node_move(void **state)
{
    (void)state;
    static struct world w;
    struct base_rng rng;
    base_rng_seed(&rng, seed + 1);
    int tried = 0;
    for (int k = 0; k < CASES; k++) {
        draw(&w, &rng);
        const size_t victim = (size_t)base_rng_below(&rng, w.shards);
        if (!w.living[victim] || count_living(&w) < 2)
            continue;
        tried++;
        divide(&w, w.trainer);
        w.living[victim] = false;
        divide(&w, w.after);
        for (size_t i = 0; i < w.examples; i++)
            assert_true(w.trainer[i] == victim ? w.after[i] != victim : w.after[i] == w.trainer[i]);
        w.living[victim] = true;
        divide(&w, w.after);
        assert_memory_equal(w.after, w.trainer, w.examples * sizeof *w.trainer);
    }
    assert_true(tried > CASES / 4);
}

// After any deaths and returns, once all are alive again, every node has its own examples.
static void returned_nodes_get_exactly_their_examples_back(void **state)
{
    (void)state;
    static struct world w;
    struct base_rng rng;
    base_rng_seed(&rng, seed + 2);
    for (int k = 0; k < CASES; k++) {
        draw(&w, &rng);
        divide(&w, w.trainer);
        for (size_t s = 0; s < w.shards; s++)
            w.living[s] = true;
        divide(&w, w.after);
        assert_memory_equal(w.after, w.owner, w.examples * sizeof *w.owner);
    }
}

// n orphaned examples go to L heirs like n throws of a fair die: each heir gets n/L, within 5 standard
// deviations. Where an example goes under another seed is independent of that.
static void heirs_get_equal_shares(void **state)
{
    (void)state;
    static struct world w;
    double worst = 0;
    for (size_t dead = 1; dead < 16; dead++) {
        w = (struct world){.examples = MOST_EXAMPLES, .shards = 16, .seed = seed + dead};
        for (size_t i = 0; i < w.examples; i++)
            w.owner[i] = (uint32_t)(i % w.shards);
        for (size_t s = 0; s < w.shards; s++)
            w.living[s] = s >= dead;
        divide(&w, w.trainer);
        size_t got[16] = {0}, orphans = 0, same = 0;
        for (size_t i = 0; i < w.examples; i++) {
            if (w.living[w.owner[i]])
                continue;
            orphans++;
            got[w.trainer[i]]++;
        }
        const double p = 1.0 / (double)(16 - dead), n = (double)orphans;
        for (size_t s = dead; s < 16 && dead < 15; s++)
            worst = fmax(worst, fabs((double)got[s] - n * p) / sqrt(n * p * (1 - p)));
        w.seed ^= 1;
        divide(&w, w.after);
        for (size_t i = 0; i < w.examples; i++)
            same += !w.living[w.owner[i]] && w.after[i] == w.trainer[i];
        if (dead < 15)
            worst = fmax(worst, fabs((double)same - n * p) / sqrt(n * p * (1 - p)));
    }
    print_message("furthest from even: %.1f standard deviations\n", worst);
    assert_true(worst < 5.0);
}

static void invalid_arguments_are_refused(void **state)
{
    (void)state;
    const uint32_t owner[3] = {0, 2, 1}, strange[3] = {0, 3, 1};
    const bool nobody[3] = {false, false, false}, some[3] = {true, false, true};
    uint32_t trainer[3] = {9, 9, 9};
    assert_int_equal(train_partition_living(owner, 3, nobody, 3, 1, trainer), BASE_EINVAL);
    assert_int_equal(train_partition_living(strange, 3, some, 3, 1, trainer), BASE_EINVAL);
    assert_int_equal(train_partition_living(owner, 3, some, 0, 1, trainer), BASE_EINVAL);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(trainer[i], 9);
}

int main(void)
{
    const char *given = getenv("P2PML_SEED");
    seed = given ? strtoull(given, NULL, 10) : 20260411;
    print_message("P2PML_SEED=%" PRIu64 "\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_example_has_a_living_trainer),
        cmocka_unit_test(only_the_examples_of_the_dead_node_move),
        cmocka_unit_test(returned_nodes_get_exactly_their_examples_back),
        cmocka_unit_test(heirs_get_equal_shares),
        cmocka_unit_test(invalid_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
