// A simulated cluster whose nodes are isolated or fall behind: when each of them ends, and with which model.
#include "lab/sim/sim_node.h"
#include "lab/sim/sim_world.h"
#include "test/support/sim_lesson.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void alone(void *owner, size_t host)
{
    (void)owner, (void)host;
}

// -- left alone

static void start_with_a_slow_one(struct lesson *lesson, enum how how, bool stops, uint64_t linger_ns)
{
    create(lesson, how);
    lesson->slow = NODES - 1;
    lesson->world.options.exchange.sync = false;
    lesson->world.options.life.linger_ns = linger_ns;
    lesson->learner.alone = stops ? alone : NULL;
    start_all(lesson);
}

static float distance(const struct lesson *lesson) // of the mean of the models from the common target
{
    float sum = 0;

    for (size_t i = 0; i < NODES; i++)
        for (size_t j = 0; j < PARAMETERS; j++)
            sum += (lesson->sim_trainer[i].model[j] - target(0, j) - 1.5f) / NODES / PARAMETERS;
    return fabsf(sum);
}

// The others wait for it, or are gone when it looks.
static void check_that_a_slow_node_ends_with_the_others(enum how how, uint64_t linger_ns)
{
    struct lesson lesson;
    const struct sim_trainer *slow = &lesson.sim_trainer[NODES - 1];
    float with, without;

    start_with_a_slow_one(&lesson, how, true, linger_ns);
    run_to_end(&lesson);
    for (size_t i = 0; i < NODES - 1; i++)
        assert_int_equal(lesson.sim_trainer[i].rounds, ROUNDS);
    if (linger_ns) // no node has the finished model any more, or the slow one came in time
        assert_true(slow->rounds == ROUNDS || slow->rounds <= ROUNDS / 5 + 2);
    else
        assert_int_equal(slow->rounds, ROUNDS);
    assert_true(slow->fetched == (slow->rounds == ROUNDS));
    assert_int_equal(slow->finished, 1);
    with = distance(&lesson);
    sim_world_destroy(&lesson.world);
    start_with_a_slow_one(&lesson, how, false, linger_ns);
    run_to_end(&lesson);
    assert_int_equal(slow->rounds, ROUNDS);
    without = distance(&lesson);
    sim_world_destroy(&lesson.world);
    printf("%g from the common target with the finished model, %g without\n", (double)with, (double)without);
    if (linger_ns)
        assert_true(with < without);
    else // a node that asks finished nodes also reaches their model
        assert_true(with < 0.1f && without < 0.1f);
}

static void test_a_slow_node_ends_with_the_others(void **state)
{
    (void)state;
    for (int how = PLAIN; how <= KNOWN; how++) {
        check_that_a_slow_node_ends_with_the_others((enum how)how, 0);
        check_that_a_slow_node_ends_with_the_others((enum how)how, 10 * SIM_MS);
    }
}

// Rounds shorter than the time between two checks do not prevent the checks.
static void test_a_slow_node_among_fast_ones_looks_at_the_others(void **state)
{
    struct lesson lesson;
    const struct sim_trainer *slow = &lesson.sim_trainer[NODES - 1];

    (void)state;
    start_with_a_slow_one(&lesson, PLAIN, true, 0);
    lesson.step_ns = STEP_NS / 10;
    run_to_end(&lesson);
    assert_int_equal(slow->fetched, 1);
    assert_in_range(slow->trained, ROUNDS / 5, ROUNDS / 5 + 100 * SIM_MS / round_ns(&lesson, NODES - 1) + 5);
    sim_world_destroy(&lesson.world);
}

static void cut(struct sim_world *world, size_t a, size_t b)
{
    sim_net_path(&world->net, a, b)->cuts++;
    sim_net_path(&world->net, b, a)->cuts++;
}

// In lock-step no node is slow. A node whose neighbours do not hear it falls behind: when the others have
// finished it ends with their model, which it gets from the one node that hears it.
static void test_a_node_left_behind_in_lock_step_ends_with_the_others(void **state)
{
    (void)state;
    for (int stops = 0; stops < 2; stops++) {
        struct lesson lesson;
        const struct sim_trainer *late = &lesson.sim_trainer[NODES - 1];
        const struct sim_node *node;
        float most = 0;
        create(&lesson, PLAIN);
        lesson.learner.alone = stops ? alone : NULL;
        lesson.last = 200;
        lesson.world.options.steps = STEPS * lesson.last;
        node = lesson.world.node[NODES - 1];
        start_all(&lesson);
        while (late->rounds < 10)
            run_for(&lesson, 10 * SIM_MS);
        assert_int_equal(gossip_graph_neighbours(sim_graph(node)), 2);
        for (size_t i = 0; i < 2; i++)
            cut(&lesson.world, node->host, sim_graph_neighbour(node, i));
        for (int i = 0; i < 4000 && running(&lesson); i++)
            run_for(&lesson, 100 * SIM_MS);
        assert_int_equal(running(&lesson), 0);
        assert_int_equal(late->rounds, lesson.last);
        assert_int_equal(late->fetched, stops);
        for (size_t j = 0; j < PARAMETERS; j++)
            most = fmaxf(most, fabsf(late->model[j] - lesson.sim_trainer[0].model[j]));
        assert_true((most < 0.3f) == stops);
        sim_world_destroy(&lesson.world);
    }
}

// No node has finished: dead nodes may come back, and until then the node continues alone.
static void check_that_it_goes_on_when_the_others_die(enum how how)
{
    struct lesson lesson;

    start_with_a_slow_one(&lesson, how, true, 0);
    while (lesson.sim_trainer[0].rounds < 10)
        assert_true(sim_world_run(&lesson.world, sim_world_now(&lesson.world) + 10 * SIM_MS));
    for (size_t i = 0; i < NODES - 1; i++)
        sim_node_kill(lesson.world.node[i], false);
    run_to_end(&lesson);
    assert_int_equal(lesson.sim_trainer[NODES - 1].rounds, ROUNDS);
    sim_world_destroy(&lesson.world);
}

static void test_a_node_goes_on_when_the_others_die(void **state)
{
    (void)state;
    check_that_it_goes_on_when_the_others_die(SEALED);
    check_that_it_goes_on_when_the_others_die(KNOWN);
}

// It returns when the others have finished and still wait for another one, which dies then.
static void check_that_a_node_that_comes_too_late_takes_their_model(enum how how)
{
    struct lesson lesson;
    const struct sim_trainer *late = &lesson.sim_trainer[0];

    start_with_a_slow_one(&lesson, how, true, 0);
    while (lesson.sim_trainer[0].rounds < 20)
        assert_true(sim_world_run(&lesson.world, sim_world_now(&lesson.world) + 10 * SIM_MS));
    sim_node_kill(lesson.world.node[0], false);
    while (lesson.sim_trainer[1].rounds < ROUNDS || lesson.sim_trainer[2].rounds < ROUNDS)
        assert_true(sim_world_run(&lesson.world, sim_world_now(&lesson.world) + 10 * SIM_MS));
    sim_node_start(lesson.world.node[0]);
    sim_node_kill(lesson.world.node[NODES - 1], false);
    run_to_end(&lesson);
    assert_int_equal(late->resumed, 1);
    assert_int_equal(late->fetched, 1);
    assert_int_equal(late->rounds, ROUNDS);
    assert_int_equal(late->finished, 1);
    for (size_t j = 0; j < PARAMETERS; j++) // it took no step of its own
        assert_true(fabsf(late->model[j] - lesson.sim_trainer[1].model[j]) < 0.3f ||
                    fabsf(late->model[j] - lesson.sim_trainer[2].model[j]) < 0.3f);
    sim_world_destroy(&lesson.world);
}

static void test_a_node_that_comes_too_late_takes_their_model(void **state)
{
    (void)state;
    check_that_a_node_that_comes_too_late_takes_their_model(SEALED);
    check_that_a_node_that_comes_too_late_takes_their_model(KNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slow_node_ends_with_the_others),
        cmocka_unit_test(test_a_slow_node_among_fast_ones_looks_at_the_others),
        cmocka_unit_test(test_a_node_left_behind_in_lock_step_ends_with_the_others),
        cmocka_unit_test(test_a_node_goes_on_when_the_others_die),
        cmocka_unit_test(test_a_node_that_comes_too_late_takes_their_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
