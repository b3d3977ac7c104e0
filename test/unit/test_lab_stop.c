// A stop is a round boundary: whole clusters of the simulator with the trainer of the daemon, stopped and
// resumed, end with the same bits as without a stop. An exchange that a stop leaves open is made first after
// the resume; an orderly stop costs no neighbour its reference; a kill costs a lone node only time.
#include "test/support/stop_cluster.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 4, STOPS = 5 };

static struct stop_cluster undisturbed, disturbed; // the run without a stop, after its end; with stops
static struct stop_cluster *cluster;               // the one that runs

enum optimizer { SGD_AND_OUTER, SGD_AND_DRIFT, ADAMW_SHARED, OPTIMIZERS };

static const struct train_options sgd = {
    .optimizer = TRAIN_SGD, .rate = 0.05, .momentum = 0.8, .proximal = 0.3, .batch = 7, .seed = 5};
static const struct train_options adamw = {.optimizer = TRAIN_ADAMW,
                                           .rate = 0.01,
                                           .beta1 = 0.9,
                                           .beta2 = 0.99,
                                           .epsilon = 1e-8,
                                           .batch = 7,
                                           .seed = 5};

static void create(struct stop_cluster *c, uint64_t seed, size_t nodes, enum optimizer optimizer, bool sync)
{
    const bool adam = optimizer == ADAMW_SHARED, outer = optimizer == SGD_AND_OUTER;
    const struct sim_options options = {
        .seed = seed,
        .nodes = nodes,
        .topology = {.kind = seed % 2 ? TOPOLOGY_RING : TOPOLOGY_BUTTERFLY},
        .peer_entries = nodes > 1 ? 2 : 0,
        .life = {.start_members = nodes, .forget_after_ns = 600 * SIM_SECOND},
        .checkpoint_ns = 100 * SIM_MS,
        .exchange = {.ratio = 0.25f,
                     .values = KERNELS_INT8,
                     .sync = sync,
                     .drift_correction = !outer || nodes == 1, // the two cannot be combined
                     .drift_gain = 2,
                     .drift_limit = 0.25f,
                     .share_second_moment = adam ? 5 : 0,
                     .deadline_floor_ns = 5 * SIM_SECOND,
                     .deadline_ceiling_ns = 10 * SIM_SECOND}};

    cluster = c;
    stop_cluster_create(c, &options, adam ? &adamw : &sgd, outer ? 0.4 : 0);
    c->world.net.quality[0] = (struct sim_quality){.delay_ns = SIM_MS, .jitter_ns = 100000};
    for (size_t i = 0; i < nodes; i++)
        c->round_ns[i] = (i + 9) * SIM_MS;
}

static void run(uint64_t ns)
{
    stop_cluster_run(cluster, ns);
}

static void run_until_all_are_gone(void)
{
    assert_true(stop_cluster_run_out(cluster, 60 * SIM_SECOND));
}

static void run_to_round(size_t host, uint64_t round)
{
    for (int i = 0; i < 60000 && cluster->world.node[host]->train.rounds.round < round; i++)
        run(SIM_MS);
    assert_true(cluster->world.node[host]->train.rounds.round >= round);
}

static void run_undisturbed(uint64_t seed, size_t nodes, enum optimizer optimizer)
{
    create(&undisturbed, seed, nodes, optimizer, true);
    stop_cluster_start_all(&undisturbed);
    run_until_all_are_gone();
    stop_cluster_destroy(&undisturbed);
}

// Names the first round that differs.
static void check_same(size_t nodes)
{
    size_t host;
    const uint64_t round = stop_cluster_differs(cluster, &undisturbed, &host);

    if (round > 0)
        fail_msg("node %zu has another state behind round %llu", host, (unsigned long long)round);
    for (size_t i = 0; i < nodes; i++) {
        assert_true(undisturbed.trainer[i].finished && cluster->trainer[i].finished);
        assert_memory_equal(undisturbed.trainer[i].last, cluster->trainer[i].last,
                            sizeof cluster->trainer[i].last);
    }
}

static void cut_all(bool cut)
{
    for (size_t i = 0; i < NODES; i++)
        for (size_t j = 0; j < NODES; j++)
            sim_net_path(&cluster->world.net, i, j)->cuts = cut;
}

static bool all_stand_before_the_last(void)
{
    for (size_t i = 0; i < NODES; i++)
        if (cluster->world.node[i]->train.rounds.round + 1 !=
            cluster->world.node[i]->train.rounds.orders.stop_at)
            return false;
    return true;
}

// No node hears another in the round at which all stop, so that they leave its exchange open.
static void cut_the_last_round(void)
{
    for (int i = 0; i < 20000 && !all_stand_before_the_last(); i++)
        run(100000);
    assert_true(all_stand_before_the_last());
    cut_all(true);
    run_until_all_are_gone();
    for (size_t i = 0; i < NODES; i++)
        assert_true(cluster->world.node[i]->disk.latest.open);
    cut_all(false);
}

static void order_all_to_stop(size_t first, uint64_t apart_ns)
{
    for (size_t i = 0; i < NODES; i++) {
        sim_node_leave(cluster->world.node[(first + i) % NODES]);
        run(apart_ns / (NODES - 1));
    }
}

struct stops {
    uint64_t count, apart_ns; // between the first order to stop and the last
    uint64_t cut;             // the stop that leaves an exchange open; 0: none
    uint64_t warms_up;        // the first rounds of a process, which take 50 ms; the later ones take 2 ms
};

static void stop_all(uint64_t seed, enum optimizer optimizer, const struct stops *stops)
{
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    create(&disturbed, seed, NODES, optimizer, true);
    disturbed.slow_rounds = stops->warms_up;
    for (size_t i = 0; i < NODES && stops->warms_up; i++)
        disturbed.round_ns[i] = 2 * SIM_MS;
    stop_cluster_start_all(&disturbed);
    for (uint64_t stop = 1; stop <= stops->count; stop++) {
        uint64_t trained = 1 + base_rng_below(&rng, 20);
        for (int i = 0; i < 60000 && !stop_cluster_trained(&disturbed, trained); i++)
            run(SIM_MS);
        run(base_rng_below(&rng, 30) * SIM_MS); // somewhere in the next round
        order_all_to_stop(stop, stops->apart_ns);
        if (stop == stops->cut)
            cut_the_last_round();
        run_until_all_are_gone();
        for (size_t i = 0; i < NODES; i++)
            assert_int_equal(disturbed.world.node[i]->disk.latest.round,
                             disturbed.world.node[0]->disk.latest.round);
        assert_true(disturbed.world.node[0]->disk.latest.round < STOP_ROUNDS);
        stop_cluster_start_all(&disturbed);
    }
    run_until_all_are_gone();
    check_same(NODES);
    assert_int_equal(disturbed.world.counts.resumed, stops->count * NODES);
    stop_cluster_destroy(&disturbed);
}

static void stop_and_compare(enum optimizer optimizer, uint64_t seed)
{
    static const uint64_t apart_ns[] = {0, 30 * SIM_MS, 100 * SIM_MS, 200 * SIM_MS};
    run_undisturbed(seed, NODES, optimizer);
    for (size_t i = 0; i < sizeof apart_ns / sizeof *apart_ns; i++) {
        print_message("optimizer %d, seed %llu, orders %llu ms apart\n", (int)optimizer,
                      (unsigned long long)seed, (unsigned long long)(apart_ns[i] / SIM_MS));
        const struct stops five = {.count = STOPS, .apart_ns = apart_ns[i], .cut = 3};
        stop_all(seed, optimizer, &five);
    }
}

static void four_nodes_that_stop_five_times_end_with_the_same_bits(void **state)
{
    static const uint64_t seeds[] = {1, 2, 3,  4,
                                     5, 6, 29, 31}; // in the last two a stop comes at the beginning
    const char *one = getenv("P2PML_SEED");

    (void)state;
    for (size_t i = 0; i < (one ? 1 : sizeof seeds / sizeof *seeds); i++)
        for (int optimizer = 0; optimizer < OPTIMIZERS; optimizer++)
            stop_and_compare((enum optimizer)optimizer, one ? strtoull(one, NULL, 10) : seeds[i]);
}

// The first rounds of a process say little about the later ones, and a stop may come among them.
static void four_nodes_that_have_just_begun_stop_at_one_round(void **state)
{
    (void)state;
    run_undisturbed(1, NODES, SGD_AND_DRIFT);
    for (uint64_t seed = 1; seed < 20; seed += 2)
        for (uint64_t warms_up = 1; warms_up <= 4; warms_up++) {
            print_message("seed %llu, %llu slow rounds\n", (unsigned long long)seed,
                          (unsigned long long)warms_up);
            const struct stops two = {.count = 2, .apart_ns = 2 * SIM_MS, .warms_up = warms_up};
            stop_all(seed, SGD_AND_DRIFT, &two);
        }
}

static void a_lone_node_resumes_bit_for_bit(void **state)
{
    (void)state;
    for (int optimizer = 0; optimizer < OPTIMIZERS; optimizer++)
        for (int kill = 0; kill < 2; kill++) { // from its latest checkpoint, or from that of the stop
            run_undisturbed(3, 1, (enum optimizer)optimizer);
            create(&disturbed, 3, 1, (enum optimizer)optimizer, true);
            stop_cluster_start_all(&disturbed);
            for (uint64_t stop = 1; stop <= 5; stop++) {
                run_to_round(0, 10 * stop);
                run(stop * 2 * SIM_MS);
                if (kill)
                    sim_node_kill(disturbed.world.node[0], false);
                else
                    sim_node_leave(disturbed.world.node[0]);
                run_until_all_are_gone();
                stop_cluster_start_all(&disturbed);
            }
            run_until_all_are_gone();
            check_same(1);
            assert_true(disturbed.world.counts.resumed >=
                        4); // the first kill comes before the first checkpoint
            stop_cluster_destroy(&disturbed);
        }
}

// It returns within the reach of its references. Its two neighbours keep theirs: no block is sent, and no
// correction is dropped.
static void a_node_that_stops_and_returns_costs_no_reference(void **state)
{
    uint64_t resyncs = 0, edges = 0, exchanges = 0;
    (void)state;
    create(&disturbed, 3, NODES, ADAMW_SHARED, false);
    disturbed.world.options.steps = UINT64_MAX / 2;
    disturbed.world.options.exchange.ratio = 1.0f / STOP_PARAMETERS;
    for (size_t i = 0; i < NODES; i++)
        disturbed.round_ns[i] = 200 * SIM_MS;
    stop_cluster_start_all(&disturbed);
    run_to_round(0, 10);
    for (int stop = 0; stop < 20; stop++) {
        sim_node_leave(disturbed.world.node[2]);
        for (int i = 0; i < 300 && disturbed.world.node[2]->running; i++)
            run(10 * SIM_MS);
        assert_false(disturbed.world.node[2]->running);
        run(50 * SIM_MS);
        sim_node_start(disturbed.world.node[2]);
        uint64_t before = disturbed.world.node[2]->train.rounds.round;
        assert_true(disturbed.world.node[0]->train.rounds.round <
                    before + gossip_exchange_reach(disturbed.world.node[0]->train.exchange));
        run(SIM_SECOND);
        run_to_round(2, before + 10);
    }
    for (size_t i = 0; i < NODES; i++)
        for (size_t e = 0; e < gossip_exchange_edges(disturbed.world.node[i]->train.exchange); e++) {
            struct gossip_edge_info info;
            gossip_exchange_edge_info(disturbed.world.node[i]->train.exchange, e, &info);
            if (i == 2 || sim_world_find(&disturbed.world, &info.peer) == 2) {
                edges++;
                resyncs += info.resyncs;
                exchanges += info.exchanges;
            }
        }
    assert_true(edges >= 4 && exchanges > 20 * 5); // exchanges of its earlier processes are not counted
    assert_int_equal(resyncs, 0);
    assert_int_equal(disturbed.world.counts.resumed, 20);
    stop_cluster_destroy(&disturbed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_nodes_that_stop_five_times_end_with_the_same_bits),
        cmocka_unit_test(four_nodes_that_have_just_begun_stop_at_one_round),
        cmocka_unit_test(a_lone_node_resumes_bit_for_bit),
        cmocka_unit_test(a_node_that_stops_and_returns_costs_no_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
