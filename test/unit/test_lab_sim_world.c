// A simulated cluster: what a learner is asked and when, how a process ends, what is counted, and how long a
// message takes on a wire.
#include "lab/experiment/network.h"
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

static void test_all_nodes_learn_and_end(void **state)
{
    uint64_t hash[3], bytes[3];

    (void)state;
    for (int how = PLAIN; how <= KNOWN; how++) {
        struct lesson lesson;
        uint64_t sent = 0, received = 0;
        create(&lesson, (enum how)how);
        start_all(&lesson);
        run_to_end(&lesson);
        for (size_t i = 0; i < NODES; i++) {
            const struct sim_trainer *sim_trainer = &lesson.sim_trainer[i];
            assert_int_equal(sim_trainer->rounds, ROUNDS);
            assert_int_equal(sim_trainer->finished, 1);
            assert_int_equal(sim_trainer->ended, 1);
            for (size_t j = 0; j < PARAMETERS; j++)
                assert_true(fabsf(sim_trainer->model[j] - target(0, j) - 1.5f) < 0.3f);
            sent += lesson.world.node[i]->traffic.bytes_sent;
            received += lesson.world.node[i]->traffic.bytes_received;
        }
        assert_int_equal(lesson.deaths, 0); // a node that leaves in order is not dead
        assert_true(lesson.left > 0);
        assert_true(sent > 10000 && received <= sent &&
                    received > sent - sent / 10); // a little is lost at the end
        bytes[how] = sent;
        hash[how] = lesson.world.trace.hash;
        sim_world_destroy(&lesson.world);
    }
    // If all nodes are known, only exchanges and farewells cost bytes.
    assert_true(bytes[KNOWN] < bytes[SEALED] && bytes[KNOWN] > bytes[SEALED] / 3);
    // Plain streams count the same as sealed ones; the calls and packets of the start differ.
    assert_true(hash[0] != hash[1]);
    assert_true(bytes[0] > bytes[1] * 2 / 3 && bytes[0] < bytes[1] * 3 / 2);
}

// Behind a firewall that refuses every call: its own calls make its links, and no node declares it dead.
static void test_a_node_that_can_only_call_takes_part(void **state)
{
    struct lesson lesson;

    (void)state;
    create(&lesson, SEALED);
    lesson.world.net.shut[2] = true;
    start_all(&lesson);
    run_to_end(&lesson);
    for (size_t i = 0; i < NODES; i++)
        assert_int_equal(lesson.sim_trainer[i].rounds, ROUNDS);
    assert_true(fabsf(lesson.sim_trainer[2].model[0] - target(0, 0) - 1.5f) < 0.3f);
    assert_int_equal(lesson.deaths, 0);
    sim_world_destroy(&lesson.world);
}

// The peer list has one name, which leads to two nodes at a time when all start: each pair is a separate
// cluster until the name leads to all.
static void test_clusters_behind_one_name_become_one(void **state)
{
    (void)state;
    for (int how = PLAIN; how <= SEALED; how++) {
        struct lesson lesson;
        create(&lesson, (enum how)how);
        lesson.world.options.name_ns = 3 * SIM_SECOND;
        lesson.world.options.life.start_timeout_ns = 600 * SIM_SECOND; // begins only when all nodes are there
        start_all(&lesson);
        run_for(&lesson, 2 * SIM_SECOND);
        for (size_t i = 0; i < NODES; i++) {
            struct gossip_links_totals links;
            gossip_links_totals(lesson.world.node[i]->links.rules, &links);
            assert_int_equal(links.active, 1);
        }
        run_to_end(&lesson);
        for (size_t i = 0; i < NODES; i++) {
            assert_int_equal(lesson.sim_trainer[i].rounds, ROUNDS);
            assert_true(fabsf(lesson.sim_trainer[i].model[0] - target(0, 0) - 1.5f) < 0.3f);
        }
        assert_int_equal(lesson.deaths, 0);
        sim_world_destroy(&lesson.world);
    }
}

static void test_one_seed_has_one_trace(void **state)
{
    (void)state;
    for (int how = PLAIN; how <= KNOWN; how++) {
        struct lesson first, second;
        create(&first, (enum how)how);
        start_all(&first);
        run_to_end(&first);
        create(&second, (enum how)how);
        start_all(&second);
        run_to_end(&second);
        assert_true(first.world.trace.count > NODES * ROUNDS);
        assert_true(first.world.trace.hash == second.world.trace.hash);
        assert_memory_equal(first.sim_trainer, second.sim_trainer, sizeof first.sim_trainer);
        sim_world_destroy(&first.world);
        sim_world_destroy(&second.world);
    }
}

static void check_that_a_killed_node_resumes_from_its_checkpoint(enum how how)
{
    struct lesson lesson;

    create(&lesson, how);
    start_all(&lesson);
    while (lesson.sim_trainer[2].rounds < 20)
        assert_true(sim_world_run(&lesson.world, sim_world_now(&lesson.world) + 10 * SIM_MS));
    sim_node_kill(lesson.world.node[2], false);
    assert_int_equal(lesson.sim_trainer[2].ended, 1);
    sim_world_run(&lesson.world, sim_world_now(&lesson.world) + 2 * SIM_SECOND);
    assert_true(lesson.deaths > 0);
    sim_node_start(lesson.world.node[2]);
    run_to_end(&lesson);
    assert_int_equal(lesson.sim_trainer[2].begun, 2);
    assert_int_equal(lesson.sim_trainer[2].resumed, 1);
    assert_int_equal(lesson.sim_trainer[2].rounds, ROUNDS);
    sim_world_destroy(&lesson.world);
}

static void test_a_killed_node_resumes_from_its_checkpoint(void **state)
{
    (void)state;
    check_that_a_killed_node_resumes_from_its_checkpoint(SEALED);
    check_that_a_killed_node_resumes_from_its_checkpoint(KNOWN);
}

// In lock-step its neighbours wait for it until the view drops it, and not until the deadline.
static void the_round_of_a_death_ends_with_the_view(enum how how, uint64_t most_ns)
{
    struct lesson lesson;

    create(&lesson, how);
    lesson.world.options.exchange.deadline_floor_ns = 5 * SIM_SECOND;
    lesson.world.options.exchange.deadline_ceiling_ns = 30 * SIM_SECOND;
    start_all(&lesson);
    while (lesson.sim_trainer[2].rounds < 20)
        assert_true(sim_world_run(&lesson.world, sim_world_now(&lesson.world) + 10 * SIM_MS));
    lesson.longest_ns = 0;
    sim_node_kill(lesson.world.node[2], false);
    run_to_end(&lesson);
    for (size_t i = 0; i < NODES; i++)
        assert_int_equal(lesson.sim_trainer[i].rounds == ROUNDS, i != 2);
    assert_in_range(lesson.longest_ns, 0, most_ns);
    sim_world_destroy(&lesson.world);
}

static void test_the_round_of_a_death_ends_with_the_view(void **state)
{
    (void)state;
    the_round_of_a_death_ends_with_the_view(SEALED, 1500 * SIM_MS);
    the_round_of_a_death_ends_with_the_view(KNOWN, 200 * SIM_MS);
}

static void check_that_a_late_node_fetches_a_model(enum how how)
{
    struct lesson lesson;

    create(&lesson, how);
    lesson.world.options.life.start_members = NODES - 1;
    for (size_t i = 0; i < NODES - 1; i++)
        sim_node_start(lesson.world.node[i]);
    while (lesson.sim_trainer[0].rounds < 10)
        assert_true(sim_world_run(&lesson.world, sim_world_now(&lesson.world) + 10 * SIM_MS));
    sim_node_start(lesson.world.node[NODES - 1]);
    run_to_end(&lesson);
    assert_int_equal(lesson.sim_trainer[NODES - 1].fetched, 1);
    assert_int_equal(lesson.sim_trainer[NODES - 1].rounds, ROUNDS);
    sim_world_destroy(&lesson.world);
}

static void test_a_late_node_fetches_a_model(void **state)
{
    (void)state;
    check_that_a_late_node_fetches_a_model(SEALED);
    check_that_a_late_node_fetches_a_model(KNOWN);
}

// The last node joins when the others have done ten of very many rounds.
static void one_comes_late_to_many_rounds(struct lesson *lesson, enum how how)
{
    create(lesson, how);
    lesson->last = 20000;
    lesson->world.options.steps = STEPS * lesson->last;
    lesson->world.options.life.start_members = NODES - 1;
    for (size_t i = 0; i < NODES - 1; i++)
        sim_node_start(lesson->world.node[i]);
    while (lesson->sim_trainer[0].rounds < 10)
        assert_true(sim_world_run(&lesson->world, sim_world_now(&lesson->world) + 10 * SIM_MS));
    run_for(lesson, 2 * SIM_SECOND); // all have reported their rounds
    sim_node_start(lesson->world.node[NODES - 1]);
}

// Two of three donors claim that their models are far ahead: the claim ends no node's training.
static void test_exaggerating_donors_are_not_believed(void **state)
{
    (void)state;
    for (size_t honest = 0; honest < NODES - 1; honest++)
        for (int far = 0; far < 2; far++) {
            struct lesson lesson;
            const struct sim_trainer *late = &lesson.sim_trainer[NODES - 1];
            one_comes_late_to_many_rounds(&lesson, SEALED);
            for (size_t i = 0; i < NODES - 1; i++)
                if (i != honest)
                    lesson.world.node[i]->faults.boasts = far ? UINT64_MAX / 2 : 5000;
            run_for(&lesson, 20 * SIM_SECOND);
            assert_int_equal(late->fetched, 1);
            assert_true(late->rounds > 0 && late->rounds <= lesson.sim_trainer[honest].rounds + 2);
            sim_world_destroy(&lesson.world);
        }
}

// Donors that train, are linked and deliver nothing: if one delivers, the model comes; without, a new node
// ends in time.
static void test_a_node_does_not_wait_for_donors_that_deliver_nothing(void **state)
{
    (void)state;
    for (size_t honest = 0; honest < NODES; honest++) {
        struct lesson lesson;
        const struct sim_trainer *late = &lesson.sim_trainer[NODES - 1];
        const bool none = honest == NODES - 1;
        one_comes_late_to_many_rounds(&lesson, SEALED);
        for (size_t i = 0; i < NODES - 1; i++)
            lesson.world.node[i]->faults.miser = i != honest;
        run_for(&lesson, 25 * SIM_SECOND);
        assert_int_equal(late->fetched, !none);
        run_for(&lesson, 270 * SIM_SECOND);
        assert_true(late->alive);
        run_for(&lesson, 60 * SIM_SECOND);
        assert_true(late->alive == !none);
        assert_int_equal(late->finished, 0);
        assert_true(lesson.sim_trainer[0].alive && !lesson.sim_trainer[0].finished);
        sim_world_destroy(&lesson.world);
    }
}

// The last node joins beside nodes that finish and leave before they have sent their model: nothing is left
// to wait for, and it has no result.
static void test_a_node_ends_soon_when_all_models_are_gone(void **state)
{
    (void)state;
    for (int how = PLAIN; how <= KNOWN; how++) {
        struct lesson lesson;
        const struct sim_trainer *late = &lesson.sim_trainer[NODES - 1];
        const struct sim_node *node;
        create(&lesson, (enum how)how);
        lesson.world.options.life.start_members = NODES - 1;
        lesson.world.options.life.linger_ns = 10 * SIM_SECOND;
        lesson.learner.alone = alone;
        for (size_t i = 0; i < NODES - 1; i++) {
            sim_node_start(lesson.world.node[i]);
            lesson.world.node[i]->faults.miser = true;
        }
        while (lesson.sim_trainer[0].rounds < 10)
            run_for(&lesson, 10 * SIM_MS);
        sim_node_start(lesson.world.node[NODES - 1]);
        node = lesson.world.node[NODES - 1];
        while (lesson.sim_trainer[0].rounds < ROUNDS)
            run_for(&lesson, 10 * SIM_MS);
        run_for(&lesson, SIM_SECOND);
        for (size_t i = 0; i < NODES - 1; i++)
            sim_node_leave(lesson.world.node[i]);
        while (running(&lesson) > 1)
            run_for(&lesson, 10 * SIM_MS);
        assert_true(node->running && late->fetched == 0);
        run_for(&lesson, 8 * SIM_SECOND);
        assert_true(node->running); // one of them might come back
        run_for(&lesson, 4 * SIM_SECOND);
        assert_false(node->running);
        assert_int_not_equal(node->status, 0);
        assert_int_equal(late->finished, 0);
        sim_world_destroy(&lesson.world);
    }
}

static void check_that_one_node_leaves_in_order(enum how how)
{
    struct lesson lesson;

    create(&lesson, how);
    start_all(&lesson);
    while (lesson.sim_trainer[1].rounds < 10)
        assert_true(sim_world_run(&lesson.world, sim_world_now(&lesson.world) + 10 * SIM_MS));
    sim_node_leave(lesson.world.node[1]);
    // In lock-step half a second of rounds passes first, so that others could stop with it.
    sim_world_run(&lesson.world, sim_world_now(&lesson.world) + 2 * SIM_SECOND);
    assert_false(lesson.world.node[1]->running);
    assert_int_equal(lesson.sim_trainer[1].finished, 1);
    assert_int_equal(lesson.left, NODES - 1);
    assert_int_equal(lesson.deaths, 0);
    run_to_end(&lesson);
    sim_world_destroy(&lesson.world);
}

static void test_one_node_leaves_in_order(void **state)
{
    (void)state;
    check_that_one_node_leaves_in_order(SEALED);
    check_that_one_node_leaves_in_order(KNOWN);
}

// -- models that are not finite

// Four such rounds in a row leave no trace; if all rounds are such, they end that node, and no other.
static void test_a_model_that_is_not_finite_reaches_no_other_node(void **state)
{
    (void)state;
    for (int forever = 0; forever < 2; forever++) {
        struct lesson lesson;
        create(&lesson, KNOWN);
        lesson.bad_from = 10;
        lesson.bad_to = forever ? UINT64_MAX : 14;
        start_all(&lesson);
        run_to_end(&lesson);
        assert_int_equal(lesson.rolled_back, forever ? GOSSIP_ROUNDS_UNUSABLE_MAX : 4);
        for (size_t i = 0; i < NODES; i++) {
            assert_int_equal(lesson.sim_trainer[i].rounds,
                             forever && i == 1 ? 9 + GOSSIP_ROUNDS_UNUSABLE_MAX : ROUNDS);
            for (size_t j = 0; j < PARAMETERS; j++)
                assert_true(isfinite(lesson.sim_trainer[i].model[j]));
        }
        const struct sim_checkpoint *checkpoint = &lesson.world.node[1]->disk.latest;
        for (size_t j = 0; j < PARAMETERS; j++)
            assert_true(isfinite(checkpoint->part[GOSSIP_PART_MODEL][j]));
        sim_world_destroy(&lesson.world);
    }
}

// -- a wire

static bool by_network(void *owner, bool stream, size_t from, size_t to, size_t bytes, uint64_t now_ns,
                       uint64_t *arrival_ns)
{
    return lab_network_send(owner, stream ? LAB_STREAM : LAB_DATAGRAM, from, to, bytes, now_ns, arrival_ns);
}

struct arrivals {
    size_t count;
    uint64_t at_ns[8];
    struct sim_queue queue;
};

static void arrived(void *owner, size_t host, const struct sim_input *input)
{
    struct arrivals *arrivals = owner;

    (void)host;
    if (input->kind == SIM_IN_RECEIVED)
        arrivals->at_ns[arrivals->count++] = arrivals->queue.now_ns;
}

static void test_a_message_takes_the_time_of_its_bytes(void **state)
{

    static uint8_t message[125000];
    const struct lab_links links = {.nodes = 3, .common = {.latency_ns = 20 * SIM_MS, .bandwidth = 10}};
    struct arrivals arrivals = {0};
    struct lab_network *network;
    struct sim_net net;

    (void)state;
    assert_int_equal(lab_network_create(&links, 1, &network, NULL), BASE_OK);
    const struct sim_wire wire = {network, by_network};
    sim_net_create(&net, &arrivals.queue, 3, 1, arrived, &arrivals);
    net.wire = &wire;
    for (size_t i = 0; i < 3; i++)
        sim_net_host(&net, i, SIM_HOST_OPEN);
    uint64_t a = sim_net_call(&net, 0, 2), b = sim_net_call(&net, 1, 2);
    while (sim_queue_run(&arrivals.queue, SIM_SECOND))
        ;
    sim_net_write(&net, 0, a, message, sizeof message, sizeof message); // 100 ms at 10 Mbit/s
    sim_net_write(&net, 1, b, message, sizeof message, sizeof message); // the same receiver
    while (sim_queue_run(&arrivals.queue, 3 * SIM_SECOND))
        ;
    assert_int_equal(arrivals.count, 2);
    assert_int_equal(arrivals.at_ns[0], SIM_SECOND + 120 * SIM_MS);
    assert_int_equal(arrivals.at_ns[1], SIM_SECOND + 220 * SIM_MS);
    sim_net_destroy(&net);
    sim_queue_free(&arrivals.queue);
    lab_network_destroy(network);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_nodes_learn_and_end),
        cmocka_unit_test(test_a_node_that_can_only_call_takes_part),
        cmocka_unit_test(test_clusters_behind_one_name_become_one),
        cmocka_unit_test(test_one_seed_has_one_trace),
        cmocka_unit_test(test_a_killed_node_resumes_from_its_checkpoint),
        cmocka_unit_test(test_the_round_of_a_death_ends_with_the_view),
        cmocka_unit_test(test_a_late_node_fetches_a_model),
        cmocka_unit_test(test_exaggerating_donors_are_not_believed),
        cmocka_unit_test(test_a_node_does_not_wait_for_donors_that_deliver_nothing),
        cmocka_unit_test(test_a_node_ends_soon_when_all_models_are_gone),
        cmocka_unit_test(test_one_node_leaves_in_order),
        cmocka_unit_test(test_a_model_that_is_not_finite_reaches_no_other_node),
        cmocka_unit_test(test_a_message_takes_the_time_of_its_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
