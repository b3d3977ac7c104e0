// A simulated cluster of four nodes with a learner of 64 numbers, for tests of lab/sim.
#ifndef TEST_SUPPORT_SIM_LESSON_H
#define TEST_SUPPORT_SIM_LESSON_H

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

// Each node pulls towards its own target; their mean is where all are to meet.
struct lesson {
    struct sim_world world;
    struct sim_learner learner;
    struct sim_watch watch;
    float start[PARAMETERS];
    struct sim_trainer sim_trainer[NODES];
    uint64_t step_ns;
    size_t slow;               // the node whose steps take five times as long; NODES: none
    uint64_t bad_from, bad_to; // rounds whose steps leave host 1 with a model that is not finite
    uint64_t last;             // round
    unsigned rolled_back;
    unsigned deaths, left;
    uint64_t longest_ns; // the longest time that a round waited for its exchange
};

static inline float target(size_t host, size_t j)
{
    return (float)host + (float)j / PARAMETERS;
}

static inline void begin(void *owner, size_t host, struct gossip_learner_vectors *vectors)
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

static inline size_t save(void *owner, size_t host, uint8_t **bytes)
{
    const struct sim_trainer *sim_trainer = &((struct lesson *)owner)->sim_trainer[host];

    assert_false(sim_trainer->computing);
    *bytes = sim_copy(&sim_trainer->rounds, sizeof sim_trainer->rounds);
    return sizeof sim_trainer->rounds;
}

static inline void load(void *owner, size_t host, const uint8_t *bytes, size_t count)
{
    struct sim_trainer *sim_trainer = &((struct lesson *)owner)->sim_trainer[host];

    assert_int_equal(count, sizeof sim_trainer->rounds);
    memcpy(&sim_trainer->rounds, bytes, count);
    assert_true(sim_trainer->model[1] != 0); // already read back
}

static inline void ready(void *owner, size_t host, enum sim_origin origin)
{
    struct lesson *lesson = owner;
    struct sim_trainer *sim_trainer = &lesson->sim_trainer[host];
    const struct gossip_rounds *rounds = &lesson->world.node[host]->train.rounds;

    assert_int_equal(rounds->step, rounds->round * STEPS);
    if (origin == SIM_FROM_SEED)
        assert_int_equal(rounds->round, 0);
    if (origin == SIM_FROM_CHECKPOINT)
        assert_true(rounds->round >= sim_trainer->rounds); // its journal leads on
    sim_trainer->fetched += origin == SIM_FROM_SNAPSHOT;
    sim_trainer->resumed += origin == SIM_FROM_CHECKPOINT;
    sim_trainer->rounds = rounds->round;
}

static inline uint64_t round_ns(const struct lesson *lesson, size_t host)
{
    return STEPS * lesson->step_ns * (host == lesson->slow ? 5 : 1);
}

static inline uint64_t steps(void *owner, size_t host, uint64_t count, double pace)
{
    struct lesson *lesson = owner;
    struct sim_trainer *sim_trainer = &lesson->sim_trainer[host];

    assert_true(sim_trainer->alive && !sim_trainer->computing && pace > 0);
    assert_int_equal(count, STEPS);
    assert_true(lesson->world.node[host]->train.rounds.round < lesson->last);
    sim_trainer->computing = true;
    sim_trainer->asked_ns = sim_world_now(&lesson->world);
    return round_ns(lesson, host);
}

// The round takes its time even if the process is told to leave: a stop is a boundary.
static inline void boundary(void *owner, size_t host, struct gossip_learner_steps *did)
{
    struct lesson *lesson = owner;
    struct sim_trainer *sim_trainer = &lesson->sim_trainer[host];
    float rate = 0.5f / (1 + 0.2f * (float)(lesson->world.node[host]->train.rounds.round + 1));

    assert_true(sim_trainer->computing);
    sim_trainer->computing = false;
    sim_trainer->trained++;
    assert_int_equal(sim_world_now(&lesson->world) - sim_trainer->asked_ns, round_ns(lesson, host));
    for (int i = 0; i < STEPS; i++)
        for (size_t j = 0; j < PARAMETERS; j++)
            sim_trainer->model[j] -=
                rate / STEPS * (sim_trainer->model[j] - target(host, j) - sim_trainer->correction[j]);
    *did = (struct gossip_learner_steps){.step = lesson->world.node[host]->train.rounds.step + STEPS,
                                         .step_scale = rate,
                                         .step_ns = lesson->step_ns};
    uint64_t round = lesson->world.node[host]->train.rounds.round + 1;
    if (host == 1 && round >= lesson->bad_from && round < lesson->bad_to) {
        sim_trainer->model[round % PARAMETERS] = NAN;
        did->result = GOSSIP_LEARNER_NOT_FINITE;
    }
}

static inline void adopt(void *owner, size_t host, enum gossip_learner_change change, uint64_t step)
{
    struct lesson *lesson = owner;
    const struct sim_trainer *sim_trainer = &lesson->sim_trainer[host];

    (void)step;
    assert_true(sim_trainer->alive && !sim_trainer->computing);
    for (size_t j = 0; j < PARAMETERS; j++)
        assert_true(isfinite(sim_trainer->model[j])); // the published one is back
    lesson->rolled_back += change == GOSSIP_LEARNER_ROLLED_BACK;
}

static inline void done(void *owner, size_t host, const struct gossip_rounds *rounds)
{
    struct sim_trainer *sim_trainer = &((struct lesson *)owner)->sim_trainer[host];

    assert_false(sim_trainer->computing);
    assert_true(rounds->round > sim_trainer->rounds);
    sim_trainer->rounds = rounds->round;
}

static inline void finish(void *owner, size_t host, const struct gossip_rounds *rounds)
{
    struct sim_trainer *sim_trainer = &((struct lesson *)owner)->sim_trainer[host];

    (void)rounds;
    assert_false(sim_trainer->computing);
    sim_trainer->finished++;
}

static inline void end(void *owner, size_t host)
{
    struct sim_trainer *sim_trainer = &((struct lesson *)owner)->sim_trainer[host];

    assert_true(sim_trainer->alive);
    sim_trainer->alive = false;
    sim_trainer->ended++;
}

static inline void changed(void *owner, struct sim_node *node, size_t peer,
                           const struct gossip_membership_action *action)
{
    struct lesson *lesson = owner;

    (void)node, (void)peer;
    lesson->deaths += action->state == GOSSIP_MEMBER_DEAD;
    lesson->left += action->state == GOSSIP_MEMBER_LEFT;
}

static inline void round_done(void *owner, struct sim_node *node, uint64_t open_ns)
{
    struct lesson *lesson = owner;

    (void)node;
    lesson->longest_ns = open_ns > lesson->longest_ns ? open_ns : lesson->longest_ns;
}

enum how { PLAIN, SEALED, KNOWN };

static inline void create(struct lesson *lesson, enum how how)
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
    const struct sim_options options = {.seed = 4,
                                        .nodes = NODES,
                                        .topology = {.kind = TOPOLOGY_RING},
                                        .peer_entries = 2,
                                        .life.start_members = NODES,
                                        .sealed = how == SEALED,
                                        .known = how == KNOWN,
                                        .learner = &lesson->learner,
                                        .local_steps = STEPS,
                                        .steps = STEPS * ROUNDS,
                                        .watch = &lesson->watch,
                                        .checkpoint_ns = SIM_SECOND,
                                        .life.forget_after_ns = 600 * SIM_SECOND,
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

static inline void start_all(struct lesson *lesson)
{
    for (size_t i = 0; i < NODES; i++)
        sim_node_start(lesson->world.node[i]);
}

static inline size_t running(const struct lesson *lesson)
{
    size_t count = 0;

    for (size_t i = 0; i < NODES; i++)
        count += lesson->world.node[i]->running;
    return count;
}

static inline void run_to_end(struct lesson *lesson)
{
    for (int i = 0; i < 600 && running(lesson); i++)
        assert_true(sim_world_run(&lesson->world, sim_world_now(&lesson->world) + 100 * SIM_MS));
    assert_int_equal(running(lesson), 0);
}

static inline void run_for(struct lesson *lesson, uint64_t ns)
{
    assert_true(sim_world_run(&lesson->world, sim_world_now(&lesson->world) + ns));
}

#endif
