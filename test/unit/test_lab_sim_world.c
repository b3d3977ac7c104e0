// A simulated cluster with a learner of two numbers: what is asked of a learner and when, how a process ends,
// what is counted, and how long a message takes on a wire.
#include "lab/experiment/network.h"
#include "lab/sim/sim_node.h"
#include "lab/sim/sim_world.h"
#include "test/support/cpu_kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 4, PARAMETERS = 64, ROUNDS = 50, STEPS = 8 };

#define STEP_NS (10 * SIM_MS)

struct sim_trainer {
    float model[PARAMETERS], correction[PARAMETERS];
    uint64_t rounds, steps, asked_ns;
    unsigned begun, ended, finished, fetched, resumed;
    unsigned trained; // rounds of its own steps
    bool alive, computing;
};

// Each one pulls towards a place of its own; the mean of these is where all are to meet.
struct lesson {
    struct sim_world world;
    struct sim_learner learner;
    struct sim_watch watch;
    float start[PARAMETERS];
    struct sim_trainer sim_trainer[NODES];
    uint64_t step_ns;
    size_t slow;               // whose steps take five times as long; NODES: nobody's
    uint64_t bad_from, bad_to; // rounds whose steps leave host 1 with a model that is not finite
    uint64_t last;             // round
    unsigned rolled_back;
    unsigned deaths, left;
    uint64_t longest_ns; // that a round waited for its exchange
};

static float target(size_t host, size_t j)
{
    return (float)host + (float)j / PARAMETERS;
}

static void begin(void *owner, size_t host, struct gossip_learner_vectors *vectors)
{
    struct sim_trainer *sim_trainer = &((struct lesson *)owner)->sim_trainer[host];

    assert_false(sim_trainer->alive);
    memset(sim_trainer->model, 0, sizeof sim_trainer->model);
    memset(sim_trainer->correction, 0, sizeof sim_trainer->correction);
    sim_trainer->alive = true;
    sim_trainer->computing = false;
    sim_trainer->begun++;
    sim_trainer->rounds = sim_trainer->steps = 0;
    *vectors =
        (struct gossip_learner_vectors){.model = sim_trainer->model, .correction = sim_trainer->correction};
}

static size_t save(void *owner, size_t host, uint8_t **bytes)
{
    const struct sim_trainer *sim_trainer = &((struct lesson *)owner)->sim_trainer[host];

    assert_false(sim_trainer->computing);
    *bytes = sim_copy(&sim_trainer->rounds, sizeof sim_trainer->rounds);
    return sizeof sim_trainer->rounds;
}

static void load(void *owner, size_t host, const uint8_t *bytes, size_t count)
{
    struct sim_trainer *sim_trainer = &((struct lesson *)owner)->sim_trainer[host];

    assert_int_equal(count, sizeof sim_trainer->rounds);
    memcpy(&sim_trainer->rounds, bytes, count);
    assert_true(sim_trainer->model[0] != 0); // read back already
}

static void ready(void *owner, size_t host, enum sim_origin origin)
{
    struct lesson *lesson = owner;
    struct sim_trainer *sim_trainer = &lesson->sim_trainer[host];
    const struct gossip_rounds *rounds = &lesson->world.node[host]->rounds;

    assert_int_equal(rounds->step, rounds->round * STEPS);
    if (origin == SIM_FROM_SEED)
        assert_int_equal(rounds->round, 0);
    if (origin == SIM_FROM_CHECKPOINT)
        assert_int_equal(rounds->round, sim_trainer->rounds);
    sim_trainer->fetched += origin == SIM_FROM_SNAPSHOT;
    sim_trainer->resumed += origin == SIM_FROM_CHECKPOINT;
    sim_trainer->rounds = rounds->round;
}

static uint64_t round_ns(const struct lesson *lesson, size_t host)
{
    return STEPS * lesson->step_ns * (host == lesson->slow ? 5 : 1);
}

static uint64_t steps(void *owner, size_t host, uint64_t count, double pace)
{
    struct lesson *lesson = owner;
    struct sim_trainer *sim_trainer = &lesson->sim_trainer[host];

    assert_true(sim_trainer->alive && !sim_trainer->computing && pace > 0);
    assert_int_equal(count, STEPS);
    assert_true(lesson->world.node[host]->rounds.round < lesson->last);
    sim_trainer->computing = true;
    sim_trainer->asked_ns = sim_world_now(&lesson->world);
    return round_ns(lesson, host);
}

static void alone(void *owner, size_t host)
{
    (void)owner, (void)host;
}

// The round takes its time even where the process is told to leave: a stop is a boundary.
static void boundary(void *owner, size_t host, struct gossip_learner_steps *did)
{
    struct lesson *lesson = owner;
    struct sim_trainer *sim_trainer = &lesson->sim_trainer[host];
    float rate = 0.5f / (1 + 0.2f * (float)(lesson->world.node[host]->rounds.round + 1));

    assert_true(sim_trainer->computing);
    sim_trainer->computing = false;
    sim_trainer->trained++;
    assert_int_equal(sim_world_now(&lesson->world) - sim_trainer->asked_ns, round_ns(lesson, host));
    for (int i = 0; i < STEPS; i++)
        for (size_t j = 0; j < PARAMETERS; j++)
            sim_trainer->model[j] -=
                rate / STEPS * (sim_trainer->model[j] - target(host, j) - sim_trainer->correction[j]);
    *did = (struct gossip_learner_steps){.step = lesson->world.node[host]->rounds.step + STEPS,
                                         .step_scale = rate,
                                         .step_ns = lesson->step_ns,
                                         .finite = true};
    uint64_t round = lesson->world.node[host]->rounds.round + 1;
    if (host == 1 && round >= lesson->bad_from && round < lesson->bad_to) {
        sim_trainer->model[round % PARAMETERS] = NAN;
        did->finite = false;
    }
}

static void adopt(void *owner, size_t host, enum gossip_learner_change change, uint64_t step)
{
    struct lesson *lesson = owner;
    const struct sim_trainer *sim_trainer = &lesson->sim_trainer[host];

    (void)step;
    assert_true(sim_trainer->alive && !sim_trainer->computing);
    for (size_t j = 0; j < PARAMETERS; j++)
        assert_true(isfinite(sim_trainer->model[j])); // the published one is back
    lesson->rolled_back += change == GOSSIP_LEARNER_ROLLED_BACK;
}

static void done(void *owner, size_t host, const struct gossip_rounds *rounds)
{
    struct sim_trainer *sim_trainer = &((struct lesson *)owner)->sim_trainer[host];

    assert_false(sim_trainer->computing);
    assert_true(rounds->round > sim_trainer->rounds);
    sim_trainer->rounds = rounds->round;
}

static void finish(void *owner, size_t host, const struct gossip_rounds *rounds)
{
    struct sim_trainer *sim_trainer = &((struct lesson *)owner)->sim_trainer[host];

    (void)rounds;
    assert_false(sim_trainer->computing);
    sim_trainer->finished++;
}

static void end(void *owner, size_t host)
{
    struct sim_trainer *sim_trainer = &((struct lesson *)owner)->sim_trainer[host];

    assert_true(sim_trainer->alive);
    sim_trainer->alive = false;
    sim_trainer->ended++;
}

static void changed(void *owner, struct sim_node *node, size_t peer,
                    const struct gossip_membership_action *action)
{
    struct lesson *lesson = owner;

    (void)node, (void)peer;
    lesson->deaths += action->state == GOSSIP_MEMBER_DEAD;
    lesson->left += action->state == GOSSIP_MEMBER_LEFT;
}

static void round_done(void *owner, struct sim_node *node, uint64_t open_ns)
{
    struct lesson *lesson = owner;

    (void)node;
    lesson->longest_ns = open_ns > lesson->longest_ns ? open_ns : lesson->longest_ns;
}

enum how { PLAIN, SEALED, KNOWN };

static void create(struct lesson *lesson, enum how how)
{
    *lesson = (struct lesson){.step_ns = STEP_NS, .slow = NODES, .last = ROUNDS};
    lesson->learner = (struct sim_learner){.learner = {.owner = lesson,
                                                       .parameters = PARAMETERS,
                                                       .begin = begin,
                                                       .steps = steps,
                                                       .boundary = boundary,
                                                       .adopt = adopt,
                                                       .freeze = save,
                                                       .thaw = load,
                                                       .end = end},
                                           .start = lesson->start,
                                           .ready = ready,
                                           .done = done,
                                           .finish = finish};
    lesson->watch = (struct sim_watch){.owner = lesson, .changed = changed, .round_done = round_done};
    const struct sim_options options = {.seed = 3,
                                        .nodes = NODES,
                                        .topology = {.kind = TOPOLOGY_RING},
                                        .peer_entries = 2,
                                        .start_members = NODES,
                                        .sealed = how == SEALED,
                                        .known = how == KNOWN,
                                        .learner = &lesson->learner,
                                        .local_steps = STEPS,
                                        .steps = STEPS * ROUNDS,
                                        .watch = &lesson->watch,
                                        .checkpoint_ns = SIM_SECOND,
                                        .forget_ns = 600 * SIM_SECOND,
                                        .exchange = {.kernels = cpu_kernels(),
                                                     .ratio = 0.25f,
                                                     .values = KERNELS_FP32,
                                                     .sync = true,
                                                     .drift_correction = true,
                                                     .drift_gain = 2,
                                                     .drift_limit = 0.25f,
                                                     .deadline_floor_ns = 100 * SIM_MS,
                                                     .deadline_ceiling_ns = SIM_SECOND}};
    sim_world_create(&lesson->world, &options);
    lesson->world.net.quality[0] = (struct sim_quality){.delay_ns = SIM_MS, .jitter_ns = 100000};
}

static void start_all(struct lesson *lesson)
{
    for (size_t i = 0; i < NODES; i++)
        sim_node_start(lesson->world.node[i]);
}

static size_t running(const struct lesson *lesson)
{
    size_t count = 0;

    for (size_t i = 0; i < NODES; i++)
        count += lesson->world.node[i]->running;
    return count;
}

static void run_to_end(struct lesson *lesson)
{
    for (int i = 0; i < 600 && running(lesson); i++)
        assert_true(sim_world_run(&lesson->world, sim_world_now(&lesson->world) + 100 * SIM_MS));
    assert_int_equal(running(lesson), 0);
}

static void test_all_learn_and_end(void **state)
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
            sent += lesson.world.node[i]->bytes_sent;
            received += lesson.world.node[i]->bytes_received;
        }
        assert_int_equal(lesson.deaths, 0); // who leaves in order is not dead
        assert_true(lesson.left > 0);
        assert_true(sent > 10000 && received <= sent &&
                    received > sent - sent / 10); // some is lost at the end
        bytes[how] = sent;
        hash[how] = lesson.world.trace.hash;
        sim_world_destroy(&lesson.world);
    }
    // Where all is known, only exchanges and farewells cost bytes.
    assert_true(bytes[KNOWN] < bytes[SEALED] && bytes[KNOWN] > bytes[SEALED] / 3);
    // Plain streams count as if they were sealed; who calls whom at the start differs.
    assert_true(hash[0] != hash[1]);
    assert_true(bytes[0] > bytes[1] * 8 / 10 && bytes[0] < bytes[1] * 12 / 10);
}

// Behind a firewall that refuses every call: its own calls make its links, and nobody takes it for dead.
static void test_whoever_can_only_call_takes_part(void **state)
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

static void a_killed_one_goes_on_from_its_checkpoint(enum how how)
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

static void test_a_killed_one_goes_on_from_its_checkpoint(void **state)
{
    (void)state;
    a_killed_one_goes_on_from_its_checkpoint(SEALED);
    a_killed_one_goes_on_from_its_checkpoint(KNOWN);
}

// In lock-step its neighbours wait for it until the view does without it, and not until the deadline.
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

static void a_late_one_fetches_a_model(enum how how)
{
    struct lesson lesson;

    create(&lesson, how);
    lesson.world.options.start_members = NODES - 1;
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

static void test_a_late_one_fetches_a_model(void **state)
{
    (void)state;
    a_late_one_fetches_a_model(SEALED);
    a_late_one_fetches_a_model(KNOWN);
}

// The last node comes when the others have done ten rounds of very many.
static void one_comes_late_to_many_rounds(struct lesson *lesson, enum how how)
{
    create(lesson, how);
    lesson->last = 20000;
    lesson->world.options.steps = STEPS * lesson->last;
    lesson->world.options.start_members = NODES - 1;
    for (size_t i = 0; i < NODES - 1; i++)
        sim_node_start(lesson->world.node[i]);
    while (lesson->sim_trainer[0].rounds < 10)
        assert_true(sim_world_run(&lesson->world, sim_world_now(&lesson->world) + 10 * SIM_MS));
    sim_node_start(lesson->world.node[NODES - 1]);
}

static void run_for(struct lesson *lesson, uint64_t ns)
{
    assert_true(sim_world_run(&lesson->world, sim_world_now(&lesson->world) + ns));
}

// Two of three donors say that their models are far ahead: their word ends nobody's training.
static void test_donors_that_boast_are_not_believed(void **state)
{
    (void)state;
    for (size_t honest = 0; honest < NODES - 1; honest++)
        for (int far = 0; far < 2; far++) {
            struct lesson lesson;
            const struct sim_trainer *late = &lesson.sim_trainer[NODES - 1];
            one_comes_late_to_many_rounds(&lesson, SEALED);
            for (size_t i = 0; i < NODES - 1; i++)
                if (i != honest)
                    lesson.world.node[i]->boasts = far ? UINT64_MAX / 2 : 5000;
            run_for(&lesson, 20 * SIM_SECOND);
            assert_int_equal(late->fetched, 1);
            assert_true(late->rounds > 0 && late->rounds <= lesson.sim_trainer[honest].rounds + 2);
            sim_world_destroy(&lesson.world);
        }
}

// Donors that train, are linked and give nothing: with one that gives, the model comes; without, a new node
// ends in time.
static void test_donors_that_give_nothing_are_not_waited_for(void **state)
{
    (void)state;
    for (size_t honest = 0; honest < NODES; honest++) {
        struct lesson lesson;
        const struct sim_trainer *late = &lesson.sim_trainer[NODES - 1];
        const bool none = honest == NODES - 1;
        one_comes_late_to_many_rounds(&lesson, SEALED);
        for (size_t i = 0; i < NODES - 1; i++)
            lesson.world.node[i]->miser = i != honest;
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

static void one_leaves_in_order(enum how how)
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

static void test_one_leaves_in_order(void **state)
{
    (void)state;
    one_leaves_in_order(SEALED);
    one_leaves_in_order(KNOWN);
}

// -- models that are not finite

// Four rounds in a row leave nothing; all of them end that node, and nobody else.
static void test_what_is_not_finite_stays_where_it_is(void **state)
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

// -- left alone

static void start_with_a_slow_one(struct lesson *lesson, enum how how, bool stops, uint64_t linger_ns)
{
    create(lesson, how);
    lesson->slow = NODES - 1;
    lesson->world.options.exchange.sync = false;
    lesson->world.options.linger_ns = linger_ns;
    lesson->learner.alone = stops ? alone : NULL;
    start_all(lesson);
}

static float distance(const struct lesson *lesson) // of the mean of the models to where all are to meet
{
    float sum = 0;

    for (size_t i = 0; i < NODES; i++)
        for (size_t j = 0; j < PARAMETERS; j++)
            sum += (lesson->sim_trainer[i].model[j] - target(0, j) - 1.5f) / NODES / PARAMETERS;
    return fabsf(sum);
}

// Whether the others wait for it, or are gone when it looks.
static void the_slow_one_ends_with_the_others(enum how how, uint64_t linger_ns)
{
    struct lesson lesson;
    const struct sim_trainer *slow = &lesson.sim_trainer[NODES - 1];
    float with, without;

    start_with_a_slow_one(&lesson, how, true, linger_ns);
    run_to_end(&lesson);
    for (size_t i = 0; i < NODES - 1; i++)
        assert_int_equal(lesson.sim_trainer[i].rounds, ROUNDS);
    if (linger_ns) // nobody has the finished model any more, or it came in time
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
    printf("%g from where all are to meet with the finished model, %g without\n", (double)with,
           (double)without);
    if (linger_ns)
        assert_true(with < without);
    else // who asks those that have finished comes to them, too
        assert_true(with < 0.1f && without < 0.1f);
}

static void test_the_slow_one_ends_with_the_others(void **state)
{
    (void)state;
    for (int how = PLAIN; how <= KNOWN; how++) {
        the_slow_one_ends_with_the_others((enum how)how, 0);
        the_slow_one_ends_with_the_others((enum how)how, 10 * SIM_MS);
    }
}

// Rounds that are shorter than the time between two looks keep nobody from looking around.
static void test_who_is_slow_among_the_quick_looks_around(void **state)
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

// In lock-step nobody is slow, and a node whose neighbours don't hear it falls behind: when the others have
// finished it ends with their model, which the one gives that hears it.
static void test_who_is_left_behind_in_lock_step_ends_with_the_others(void **state)
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

// Nobody has finished: those who died may come back, and till then their part is its own.
static void when_the_others_die_it_goes_on(enum how how)
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

static void test_when_the_others_die_it_goes_on(void **state)
{
    (void)state;
    when_the_others_die_it_goes_on(SEALED);
    when_the_others_die_it_goes_on(KNOWN);
}

// It is back when the others have finished and still wait for one that dies then.
static void who_comes_too_late_takes_their_model(enum how how)
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

static void test_who_comes_too_late_takes_their_model(void **state)
{
    (void)state;
    who_comes_too_late_takes_their_model(SEALED);
    who_comes_too_late_takes_their_model(KNOWN);
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

static void arrived(void *owner, size_t host, uint64_t stream, const uint8_t *bytes, size_t count)
{
    struct arrivals *arrivals = owner;

    (void)host, (void)stream, (void)bytes, (void)count;
    arrivals->at_ns[arrivals->count++] = arrivals->queue.now_ns;
}

static void ignore_from(void *owner, size_t host, uint64_t stream, size_t from)
{
    (void)owner, (void)host, (void)stream, (void)from;
}

static void ignore(void *owner, size_t host, uint64_t stream)
{
    (void)owner, (void)host, (void)stream;
}

static void test_a_message_takes_its_bytes_over_the_bandwidth(void **state)
{
    static const struct sim_net_handler handler = {
        .accepted = ignore_from, .connected = ignore, .received = arrived};
    static uint8_t message[125000];
    const struct lab_links links = {.nodes = 3, .common = {.latency_ns = 20 * SIM_MS, .bandwidth = 10}};
    struct arrivals arrivals = {0};
    struct lab_network *network;
    struct sim_net net;

    (void)state;
    assert_int_equal(lab_network_create(&links, 1, &network, NULL), BASE_OK);
    const struct sim_wire wire = {network, by_network};
    sim_net_create(&net, &arrivals.queue, 3, 1, &handler, &arrivals);
    net.wire = &wire;
    for (size_t i = 0; i < 3; i++)
        sim_net_host(&net, i, SIM_HOST_OPEN);
    uint64_t a = sim_net_call(&net, 0, 2), b = sim_net_call(&net, 1, 2);
    while (sim_queue_run(&arrivals.queue, SIM_SECOND))
        ;
    sim_net_write(&net, 0, a, message, sizeof message, sizeof message); // 100 ms of 10 Mbit/s
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
        cmocka_unit_test(test_all_learn_and_end),
        cmocka_unit_test(test_whoever_can_only_call_takes_part),
        cmocka_unit_test(test_one_seed_has_one_trace),
        cmocka_unit_test(test_a_killed_one_goes_on_from_its_checkpoint),
        cmocka_unit_test(test_the_round_of_a_death_ends_with_the_view),
        cmocka_unit_test(test_a_late_one_fetches_a_model),
        cmocka_unit_test(test_donors_that_boast_are_not_believed),
        cmocka_unit_test(test_donors_that_give_nothing_are_not_waited_for),
        cmocka_unit_test(test_one_leaves_in_order),
        cmocka_unit_test(test_what_is_not_finite_stays_where_it_is),
        cmocka_unit_test(test_the_slow_one_ends_with_the_others),
        cmocka_unit_test(test_who_is_slow_among_the_quick_looks_around),
        cmocka_unit_test(test_who_is_left_behind_in_lock_step_ends_with_the_others),
        cmocka_unit_test(test_when_the_others_die_it_goes_on),
        cmocka_unit_test(test_who_comes_too_late_takes_their_model),
        cmocka_unit_test(test_a_message_takes_its_bytes_over_the_bandwidth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
