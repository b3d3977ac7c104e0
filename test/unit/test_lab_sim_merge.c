// A simulated cluster ends with one model: whole nodes with membership, links and rounds merge what they have
// learnt, also when some die, when links are slow and when one of them has nothing of its own.
#include "lab/sim/sim_node.h"
#include "lab/sim/sim_process.h"
#include "lab/sim/sim_world.h"
#include "test/support/sim_lesson.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void create_merging(struct lesson *lesson, enum how how)
{
    create(lesson, how);
    lesson->world.options.life.merges = true;
    lesson->world.options.life.linger_ns = 10 * SIM_SECOND;
    lesson->world.trace.verbose = getenv("P2PML_TRACE") != NULL;
}

static void assert_one_model(const struct lesson *lesson, size_t without)
{
    const size_t first = without == 0;

    for (size_t i = 0; i < NODES; i++)
        if (i != without)
            assert_memory_equal(lesson->sim_trainer[i].model, lesson->sim_trainer[first].model,
                                sizeof lesson->sim_trainer[i].model);
}

static void test_all_end_with_one_model(void **state)
{
    (void)state;
    for (int how = PLAIN; how <= KNOWN; how++) {
        struct lesson lesson;
        create_merging(&lesson, (enum how)how);
        start_all(&lesson);
        run_to_end(&lesson);
        assert_int_equal(lesson.world.counts.merges, NODES);
        assert_one_model(&lesson, NODES);
        assert_true(fabsf(lesson.sim_trainer[0].model[0] - target(0, 0) - 1.5f) < 0.3f);
        sim_world_destroy(&lesson.world);
    }
}

static bool somebody_merges(const struct lesson *lesson)
{
    for (size_t i = 0; i < NODES; i++)
        if (lesson->world.node[i]->running && sim_life_state(lesson->world.node[i]) == GOSSIP_LIFE_MERGING)
            return true;
    return false;
}

// In the last rounds, and at every moment of the merge, which takes about 20 ms.
static void test_whoever_dies_the_others_end_with_one_model(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 60; k++) {
        struct lesson lesson;
        const size_t dies = k % NODES;
        create_merging(&lesson, (enum how)(k % 3));
        start_all(&lesson);
        while (k % 2 ? !somebody_merges(&lesson) : lesson.sim_trainer[dies].rounds < ROUNDS - 3)
            run_for(&lesson, SIM_MS);
        run_for(&lesson, k * SIM_MS / 3);
        sim_node_kill(lesson.world.node[dies], k % 5 == 0);
        run_to_end(&lesson);
        assert_true(lesson.world.counts.merges >= NODES - 1);
        assert_one_model(&lesson, dies);
        sim_world_destroy(&lesson.world);
    }
}

// Its model is not the cluster's: it takes the mean of the others.
static void test_a_late_straggler_takes_the_mean(void **state)
{
    struct lesson lesson;

    (void)state;
    create_merging(&lesson, PLAIN);
    lesson.world.options.exchange.sync = false;
    lesson.slow = 2;
    start_all(&lesson);
    run_to_end(&lesson);
    assert_int_equal(lesson.world.counts.merges, NODES);
    assert_one_model(&lesson, NODES);
    sim_world_destroy(&lesson.world);
}

static void test_a_stop_during_the_merge_ends_it(void **state)
{
    struct lesson lesson;

    (void)state;
    create_merging(&lesson, SEALED);
    lesson.world.net.quality[0].delay_ns = 200 * SIM_MS;
    start_all(&lesson);
    while (!somebody_merges(&lesson))
        run_for(&lesson, SIM_MS);
    for (size_t i = 0; i < NODES; i++)
        sim_node_leave(lesson.world.node[i]);
    run_to_end(&lesson);
    for (size_t i = 0; i < NODES; i++)
        assert_int_equal(lesson.sim_trainer[i].finished, 1);
    sim_world_destroy(&lesson.world);
}

static void test_without_the_key_each_keeps_its_own(void **state)
{
    struct lesson lesson;

    (void)state;
    create(&lesson, PLAIN);
    start_all(&lesson);
    run_to_end(&lesson);
    assert_int_equal(lesson.world.counts.merges, 0);
    assert_memory_not_equal(lesson.sim_trainer[0].model, lesson.sim_trainer[1].model,
                            sizeof lesson.sim_trainer[0].model);
    sim_world_destroy(&lesson.world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_end_with_one_model),
        cmocka_unit_test(test_whoever_dies_the_others_end_with_one_model),
        cmocka_unit_test(test_a_late_straggler_takes_the_mean),
        cmocka_unit_test(test_a_stop_during_the_merge_ends_it),
        cmocka_unit_test(test_without_the_key_each_keeps_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
