// A setting that is changed in simulated clusters, with membership and links below: it is used
// from the same round on by all nodes, also by one that is dead at that round and comes back, and by a late
// one.
#include "lab/sim/sim_process.h"
#include "test/support/sim_lesson.h"

enum { LAST = 400, BEFORE = 100 };

static double used[NODES][LAST + 1]; // the rate of each round
static uint64_t taken[NODES][LAST + 1];

static void set(void *owner, size_t host, enum gossip_setting_kind kind, double value)
{
    const struct lesson *lesson = owner;
    const uint64_t round = lesson->world.node[host]->train.rounds.round + 1;

    if (kind != GOSSIP_SETTING_RATE)
        return;
    used[host][round] = value;
    taken[host][round]++;
}

static void run_until(struct lesson *lesson, size_t host, uint64_t round)
{
    for (unsigned i = 0; lesson->sim_trainer[host].rounds < round; i++) {
        assert_true(i < 100000);
        assert_true(sim_world_run(&lesson->world, sim_world_now(&lesson->world) + 10 * SIM_MS));
    }
}

static void check(enum how how)
{
    struct lesson lesson;

    memset(used, 0, sizeof used);
    memset(taken, 0, sizeof taken);
    create(&lesson, how);
    lesson.learner.learner.set = set;
    lesson.last = LAST;
    lesson.world.options.steps = STEPS * LAST;
    lesson.world.options.life.start_members = NODES - 1;
    lesson.world.options.life.most[GOSSIP_SETTING_RATE] = 1000;
    for (size_t i = 0; i < NODES - 1; i++)
        sim_node_start(lesson.world.node[i]);
    run_until(&lesson, 1, BEFORE);
    sim_life_tell(lesson.world.node[1], (struct gossip_life_event){.kind = GOSSIP_LIFE_SET,
                                                                   .setting_kind = GOSSIP_SETTING_RATE,
                                                                   .value = 0.25});
    const struct gossip_setting setting =
        *gossip_life_setting(lesson.world.node[1]->life.rules, GOSSIP_SETTING_RATE);
    assert_in_range(setting.round, BEFORE + 50, BEFORE + 80); // five seconds
    sim_node_kill(lesson.world.node[0], false);
    run_until(&lesson, 1, setting.round + 5);
    sim_node_start(lesson.world.node[0]);
    sim_node_start(lesson.world.node[NODES - 1]);
    for (size_t i = 0; i < NODES; i++)
        run_until(&lesson, i, LAST - 1);
    for (size_t i = 0; i < NODES; i++) {
        uint64_t changed = 0;
        for (uint64_t round = 1; round < LAST; round++) {
            if (!taken[i][round])
                continue;
            assert_true(round < setting.round ? isnan(used[i][round]) : used[i][round] == 0.25);
            changed += round >= setting.round;
        }
        assert_true(changed > 100);
    }
    sim_world_destroy(&lesson.world);
}

static void test_all_nodes_use_it_from_one_round_on(void **state)
{
    (void)state;
    check(PLAIN);
    check(SEALED);
    check(KNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_nodes_use_it_from_one_round_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
