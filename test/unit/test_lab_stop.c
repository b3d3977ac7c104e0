// A stop is a round boundary: whole clusters of the simulator with the trainer of the daemon, stopped and
// resumed, end with the same bits as without a stop. An exchange that a stop leaves open is made first after
// the resume; an orderly stop costs no neighbour its reference; a kill costs a lone node only time.
#include "base/hash.h"
#include "lab/sim/sim_node.h"
#include "node/learn/built_in.h"
#include "test/support/cpu_kernels.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 4, EXAMPLES = 30, FEATURES = 6, CLASSES = 3, D = FEATURES * CLASSES + CLASSES };
enum { LOCAL = 3, ROUNDS = 600, STOPS = 5 };

struct sim_trainer {
    struct train_dataset data;
    struct train_model *model;
    struct node_built_in trainee;
    float outer[D], round_start[D], last[D];
    bool finished;
};

struct world {
    struct sim_world sim;
    struct sim_learner learner;
    struct node_config config;
    struct train_options options;
    float start[D];
    struct sim_trainer sim_trainer[NODES];
    size_t nodes;
    bool disturbed;
    uint64_t round_ns; // of local steps, of all nodes; 0: each node has its own
    uint64_t warms_up; // the first rounds of a process, which take 50 ms; the later ones take 2 ms
};

static struct world *world;                 // of the current test
static uint64_t hash[2][NODES][ROUNDS + 1]; // after each round: undisturbed, and in the other run

static void make_data(struct train_dataset *data, size_t host)
{
    struct base_rng rng;
    base_rng_seed(&rng, 70 + host);
    *data = (struct train_dataset){
        .examples = EXAMPLES, .features = FEATURES, .classes = CLASSES, .whole = EXAMPLES * NODES};
    data->x = aligned_alloc(64, 1024);
    data->labels = calloc(EXAMPLES, sizeof *data->labels);
    assert_true(data->x && data->labels && EXAMPLES * FEATURES * sizeof *data->x <= 1024);
    for (size_t i = 0; i < EXAMPLES; i++) {
        data->labels[i] = (uint32_t)((i + host) % CLASSES);
        for (size_t j = 0; j < FEATURES; j++)
            data->x[i * FEATURES + j] =
                (float)base_rng_normal(&rng) + (j % CLASSES == data->labels[i] ? 1.5f : 0);
    }
}

static struct node_built_in *trainee_of(size_t host)
{
    return &world->sim_trainer[host].trainee;
}

static void begin(void *owner, size_t host, struct gossip_learner_vectors *vectors)
{
    struct sim_trainer *sim_trainer = &world->sim_trainer[host];
    struct base_reason why;
    (void)owner;
    if (sim_trainer->trainee.trainer)
        train_trainer_destroy(sim_trainer->trainee.trainer);
    assert_int_equal(train_trainer_create(&world->options, sim_trainer->model, &sim_trainer->data,
                                          world->start, &sim_trainer->trainee.trainer, &why),
                     BASE_OK);
    memset(sim_trainer->outer, 0, sizeof sim_trainer->outer);
    memcpy(sim_trainer->round_start, world->start, sizeof sim_trainer->round_start);
    node_built_in_begin(&sim_trainer->trainee, vectors);
}

static uint64_t steps(void *owner, size_t host, uint64_t count, double pace)
{
    (void)owner;
    node_built_in_steps(trainee_of(host), count, pace);
    if (world->round_ns)
        return world->round_ns;
    if (world->warms_up)
        return world->sim.node[host]->train.rounds_done < world->warms_up ? 50 * SIM_MS : 2 * SIM_MS;
    return (host + 9) * SIM_MS;
}

static void boundary(void *owner, size_t host, struct gossip_learner_steps *did)
{
    (void)owner;
    node_built_in_boundary(trainee_of(host), did);
}

static void adopt(void *owner, size_t host, enum gossip_learner_change change, uint64_t step)
{
    (void)owner;
    node_built_in_adopt(trainee_of(host), change, step);
}

static size_t freeze(void *owner, size_t host, uint8_t **state)
{
    (void)owner;
    return node_built_in_freeze(trainee_of(host), state);
}

static void thaw(void *owner, size_t host, const uint8_t *state, size_t bytes)
{
    (void)owner;
    node_built_in_thaw(trainee_of(host), state, bytes);
}

static void done(void *owner, size_t host, const struct gossip_rounds *rounds)
{
    (void)owner;
    if (rounds->round <= ROUNDS)
        hash[world->disturbed][host][rounds->round] =
            base_hash_bytes(0, train_trainer_model(trainee_of(host)->trainer), D * sizeof(float));
}

static void finish(void *owner, size_t host, const struct gossip_rounds *rounds)
{
    struct sim_trainer *sim_trainer = &world->sim_trainer[host];
    (void)owner;
    sim_trainer->finished = rounds->step == LOCAL * ROUNDS;
    memcpy(sim_trainer->last, train_trainer_model(sim_trainer->trainee.trainer), sizeof sim_trainer->last);
}

static void end(void *owner, size_t host)
{
    (void)owner, (void)host;
}

enum optimizer { SGD_AND_OUTER, SGD_AND_DRIFT, ADAMW_SHARED, OPTIMIZERS };

static void choose(struct world *w, enum optimizer optimizer)
{
    w->options = (struct train_options){.optimizer = TRAIN_SGD,
                                        .rate = 0.05,
                                        .momentum = 0.8,
                                        .proximal = 0.3,
                                        .steps = LOCAL * ROUNDS,
                                        .batch = 7,
                                        .seed = 5};
    w->config.average.drift_correction = true;
    if (optimizer == SGD_AND_OUTER) {
        w->config.average.outer_momentum = 0.4;
        w->config.average.drift_correction = w->nodes == 1; // the two cannot be combined
    } else if (optimizer == ADAMW_SHARED) {
        w->options = (struct train_options){.optimizer = TRAIN_ADAMW,
                                            .rate = 0.01,
                                            .beta1 = 0.9,
                                            .beta2 = 0.99,
                                            .epsilon = 1e-8,
                                            .steps = LOCAL * ROUNDS,
                                            .batch = 7,
                                            .seed = 5};
    }
}

static void make_trainers(struct world *w, enum optimizer optimizer)
{
    struct base_reason why;
    const struct train_model_spec spec = {.kind = TRAIN_SOFTMAX, .inputs = FEATURES, .classes = CLASSES};
    for (size_t i = 0; i < w->nodes; i++) {
        struct sim_trainer *sim_trainer = &w->sim_trainer[i];
        make_data(&sim_trainer->data, i);
        assert_int_equal(train_model_create(&spec, cpu_kernels(), 8, &sim_trainer->model, &why), BASE_OK);
        sim_trainer->trainee.config = &w->config;
        sim_trainer->trainee.outer = optimizer == SGD_AND_OUTER ? sim_trainer->outer : NULL;
        sim_trainer->trainee.round_start = optimizer == SGD_AND_OUTER ? sim_trainer->round_start : NULL;
    }
}

static void create(struct world *w, uint64_t seed, size_t nodes, enum optimizer optimizer, bool sync)
{
    *w = (struct world){.nodes = nodes};
    world = w;
    choose(w, optimizer);
    make_trainers(w, optimizer);
    w->learner = (struct sim_learner){.learner = {.parameters = D,
                                                  .begin = begin,
                                                  .steps = steps,
                                                  .boundary = boundary,
                                                  .adopt = adopt,
                                                  .freeze = freeze,
                                                  .thaw = thaw,
                                                  .end = end},
                                      .start = w->start,
                                      .done = done,
                                      .finish = finish};
    const struct sim_options options = {.seed = seed,
                                        .nodes = nodes,
                                        .topology = {.kind = seed % 2 ? TOPOLOGY_RING : TOPOLOGY_BUTTERFLY},
                                        .peer_entries = nodes > 1 ? 2 : 0,
                                        .life.start_members = nodes,
                                        .learner = &w->learner,
                                        .local_steps = LOCAL,
                                        .steps = LOCAL * ROUNDS,
                                        .checkpoint_ns = 100 * SIM_MS,
                                        .life.forget_after_ns = 600 * SIM_SECOND,
                                        .exchange = {.kernels = cpu_kernels(),
                                                     .ratio = 0.25f,
                                                     .values = KERNELS_INT8,
                                                     .sync = sync,
                                                     .drift_correction = w->config.average.drift_correction,
                                                     .drift_gain = 2,
                                                     .drift_limit = 0.25f,
                                                     .share_second_moment = optimizer == ADAMW_SHARED ? 5 : 0,
                                                     .deadline_floor_ns = 5 * SIM_SECOND,
                                                     .deadline_ceiling_ns = 10 * SIM_SECOND}};
    sim_world_create(&w->sim, &options);
    w->sim.net.quality[0] = (struct sim_quality){.delay_ns = SIM_MS, .jitter_ns = 100000};
}

static void destroy(struct world *w)
{
    sim_world_destroy(&w->sim);
    for (size_t i = 0; i < w->nodes; i++) {
        train_trainer_destroy(w->sim_trainer[i].trainee.trainer);
        train_model_destroy(w->sim_trainer[i].model);
        train_dataset_destroy(&w->sim_trainer[i].data);
    }
}

static void start_all(void)
{
    for (size_t i = 0; i < world->nodes; i++)
        sim_node_start(world->sim.node[i]);
}

static bool any_runs(void)
{
    bool runs = false;
    for (size_t i = 0; i < world->nodes; i++)
        runs |= world->sim.node[i]->running;
    return runs;
}

static void run(uint64_t ns)
{
    assert_true(sim_world_run(&world->sim, sim_world_now(&world->sim) + ns));
}

static void run_until_all_are_gone(void)
{
    for (int i = 0; i < 6000 && any_runs(); i++)
        run(10 * SIM_MS);
    assert_false(any_runs());
}

static void run_to_round(size_t host, uint64_t round)
{
    for (int i = 0; i < 60000 && world->sim.node[host]->train.rounds.round < round; i++)
        run(SIM_MS);
    assert_true(world->sim.node[host]->train.rounds.round >= round);
}

// Names the first round that differs.
static void check_rounds(void)
{
    for (uint64_t round = 1; round <= ROUNDS; round++)
        for (size_t i = 0; i < world->nodes; i++)
            if (hash[0][i][round] != hash[1][i][round])
                fail_msg("node %zu has another model behind round %llu", i, (unsigned long long)round);
}

static void check_ended(float model[NODES][D])
{
    for (size_t i = 0; i < world->nodes; i++) {
        assert_true(world->sim_trainer[i].finished);
        memcpy(model[i], world->sim_trainer[i].last, sizeof model[i]);
    }
}

static void run_undisturbed(uint64_t seed, size_t nodes, enum optimizer optimizer, float model[NODES][D])
{
    struct world w;
    create(&w, seed, nodes, optimizer, true);
    start_all();
    run_until_all_are_gone();
    check_ended(model);
    destroy(&w);
}

static bool all_have_trained(uint64_t rounds)
{
    for (size_t i = 0; i < world->nodes; i++)
        if (world->sim.node[i]->train.rounds_done < rounds)
            return false;
    return true;
}

static void cut_all(bool cut)
{
    for (size_t i = 0; i < NODES; i++)
        for (size_t j = 0; j < NODES; j++)
            sim_net_path(&world->sim.net, i, j)->cuts = cut;
}

static bool all_stand_before_the_last(void)
{
    for (size_t i = 0; i < NODES; i++)
        if (world->sim.node[i]->train.rounds.round + 1 != world->sim.node[i]->train.rounds.orders.stop_at)
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
        assert_true(world->sim.node[i]->disk.latest.open);
    cut_all(false);
}

static void order_all_to_stop(size_t first, uint64_t apart_ns)
{
    for (size_t i = 0; i < NODES; i++) {
        sim_node_leave(world->sim.node[(first + i) % NODES]);
        run(apart_ns / (NODES - 1));
    }
}

struct stops {
    uint64_t count, apart_ns; // between the first order to stop and the last
    uint64_t cut;             // the stop that leaves an exchange open; 0: none
    uint64_t warms_up;        // as in struct world
};

static void stop_all(uint64_t seed, enum optimizer optimizer, const struct stops *stops,
                     float model[NODES][D])
{
    struct world w;
    struct base_rng rng;
    base_rng_seed(&rng, seed);
    create(&w, seed, NODES, optimizer, true);
    w.disturbed = true;
    w.warms_up = stops->warms_up;
    start_all();
    for (uint64_t stop = 1; stop <= stops->count; stop++) {
        uint64_t trained = 1 + base_rng_below(&rng, 20);
        for (int i = 0; i < 60000 && !all_have_trained(trained); i++)
            run(SIM_MS);
        run(base_rng_below(&rng, 30) * SIM_MS); // somewhere in the next round
        order_all_to_stop(stop, stops->apart_ns);
        if (stop == stops->cut)
            cut_the_last_round();
        run_until_all_are_gone();
        for (size_t i = 0; i < NODES; i++)
            assert_int_equal(w.sim.node[i]->disk.latest.round, w.sim.node[0]->disk.latest.round);
        assert_true(w.sim.node[0]->disk.latest.round < ROUNDS);
        start_all();
    }
    run_until_all_are_gone();
    check_rounds();
    check_ended(model);
    assert_int_equal(w.sim.counts.resumed, stops->count * NODES);
    destroy(&w);
}

static void stop_and_compare(enum optimizer optimizer, uint64_t seed)
{
    static const uint64_t apart_ns[] = {0, 30 * SIM_MS, 100 * SIM_MS, 200 * SIM_MS};
    float undisturbed[NODES][D], stopped[NODES][D];

    run_undisturbed(seed, NODES, optimizer, undisturbed);
    for (size_t i = 0; i < sizeof apart_ns / sizeof *apart_ns; i++) {
        print_message("optimizer %d, seed %llu, orders %llu ms apart\n", (int)optimizer,
                      (unsigned long long)seed, (unsigned long long)(apart_ns[i] / SIM_MS));
        const struct stops five = {.count = STOPS, .apart_ns = apart_ns[i], .cut = 3};
        stop_all(seed, optimizer, &five, stopped);
        assert_memory_equal(stopped, undisturbed, sizeof stopped);
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
    float undisturbed[NODES][D], stopped[NODES][D];

    (void)state;
    run_undisturbed(1, NODES, SGD_AND_DRIFT, undisturbed);
    for (uint64_t seed = 1; seed < 20; seed += 2)
        for (uint64_t warms_up = 1; warms_up <= 4; warms_up++) {
            print_message("seed %llu, %llu slow rounds\n", (unsigned long long)seed,
                          (unsigned long long)warms_up);
            const struct stops two = {.count = 2, .apart_ns = 2 * SIM_MS, .warms_up = warms_up};
            stop_all(seed, SGD_AND_DRIFT, &two, stopped);
            assert_memory_equal(stopped, undisturbed, sizeof stopped);
        }
}

static void a_lone_node_resumes_bit_for_bit(void **state)
{
    float undisturbed[NODES][D], stopped[NODES][D];
    (void)state;
    for (int optimizer = 0; optimizer < OPTIMIZERS; optimizer++)
        for (int kill = 0; kill < 2; kill++) { // from its latest checkpoint, or from that of the stop
            struct world w;
            run_undisturbed(3, 1, (enum optimizer)optimizer, undisturbed);
            create(&w, 3, 1, (enum optimizer)optimizer, true);
            w.disturbed = true;
            start_all();
            for (uint64_t stop = 1; stop <= 5; stop++) {
                run_to_round(0, 10 * stop);
                run(stop * 2 * SIM_MS);
                if (kill)
                    sim_node_kill(w.sim.node[0], false);
                else
                    sim_node_leave(w.sim.node[0]);
                run_until_all_are_gone();
                start_all();
            }
            run_until_all_are_gone();
            check_rounds();
            check_ended(stopped);
            assert_true(w.sim.counts.resumed >= 4); // the first kill comes before the first checkpoint
            assert_memory_equal(stopped[0], undisturbed[0], sizeof stopped[0]);
            destroy(&w);
        }
}

// It returns within the reach of its references. Its two neighbours keep theirs: no block is sent, and no
// correction is dropped.
static void a_node_that_stops_and_returns_costs_no_reference(void **state)
{
    struct world w;
    uint64_t resyncs = 0, edges = 0, exchanges = 0;
    (void)state;
    create(&w, 3, NODES, ADAMW_SHARED, false);
    w.sim.options.steps = UINT64_MAX / 2;
    w.sim.options.exchange.ratio = 1.0f / D;
    w.round_ns = 200 * SIM_MS;
    start_all();
    run_to_round(0, 10);
    for (int stop = 0; stop < 20; stop++) {
        sim_node_leave(w.sim.node[2]);
        for (int i = 0; i < 300 && w.sim.node[2]->running; i++)
            run(10 * SIM_MS);
        assert_false(w.sim.node[2]->running);
        run(50 * SIM_MS);
        sim_node_start(w.sim.node[2]);
        uint64_t before = w.sim.node[2]->train.rounds.round;
        assert_true(w.sim.node[0]->train.rounds.round <
                    before + gossip_exchange_reach(w.sim.node[0]->train.exchange));
        run(SIM_SECOND);
        run_to_round(2, before + 10);
    }
    for (size_t i = 0; i < NODES; i++)
        for (size_t e = 0; e < gossip_exchange_edges(w.sim.node[i]->train.exchange); e++) {
            struct gossip_edge_info info;
            gossip_exchange_edge_info(w.sim.node[i]->train.exchange, e, &info);
            if (i == 2 || sim_world_find(&w.sim, &info.peer) == 2) {
                edges++;
                resyncs += info.resyncs;
                exchanges += info.exchanges;
            }
        }
    assert_true(edges >= 4 && exchanges > 20 * 5); // exchanges of its earlier processes are not counted
    assert_int_equal(resyncs, 0);
    assert_int_equal(w.sim.counts.resumed, 20);
    destroy(&w);
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
