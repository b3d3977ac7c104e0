// Whole clusters with kills at random moments: with its journal, a node that is back within the reach of its
// edges begins none of them again.
#include "test/support/sim_lesson.h"

#include "base/rng.h"
#include <stdio.h>
#include <stdlib.h>

enum { LIVES = 67, KILLS = 3, LAST = 4000 };

struct seen { // the edges of one node, at the other ends
    uint64_t epoch[NODES];
    bool used[NODES];
};

static bool edge_at(const struct lesson *lesson, size_t host, size_t to, struct gossip_edge_info *info)
{
    const struct sim_node *node = lesson->world.node[host];
    const struct gossip_id *id = sim_member_id(lesson->world.node[to], lesson->world.node[to]->self);

    for (size_t i = 0; node->train.exchange && i < gossip_exchange_edges(node->train.exchange); i++) {
        gossip_exchange_edge_info(node->train.exchange, i, info);
        if (gossip_id_compare(&info->peer, id) == 0)
            return true;
    }
    return false;
}

static struct seen look(const struct lesson *lesson, size_t victim)
{
    struct seen seen = {0};
    struct gossip_edge_info info;

    for (size_t peer = 0; peer < NODES; peer++)
        if (peer != victim && edge_at(lesson, peer, victim, &info)) {
            seen.epoch[peer] = info.epoch;
            seen.used[peer] = info.state == GOSSIP_EDGE_LIVE && info.sequence > 0;
        }
    return seen;
}

static bool all_live(const struct lesson *lesson, size_t victim, const struct seen *before)
{
    struct gossip_edge_info info;

    for (size_t peer = 0; peer < NODES; peer++)
        if (before->used[peer] && (!edge_at(lesson, victim, peer, &info) || info.state != GOSSIP_EDGE_LIVE ||
                                   !edge_at(lesson, peer, victim, &info) || info.state != GOSSIP_EDGE_LIVE))
            return false;
    return true;
}

// Returns the number of edges that it looked at.
static unsigned kill_and_return(struct lesson *lesson, struct base_rng *rng, uint64_t seed)
{
    const size_t victim = base_rng_below(rng, NODES);
    unsigned edges = 0;

    run_for(lesson, 500 * SIM_MS + base_rng_below(rng, 2 * SIM_SECOND));
    const struct seen before = look(lesson, victim);
    sim_node_kill(lesson->world.node[victim], false);
    run_for(lesson, 1 + base_rng_below(rng, 600 * SIM_MS));
    sim_node_start(lesson->world.node[victim]);
    for (int i = 0; i < 100 && !all_live(lesson, victim, &before); i++)
        run_for(lesson, 100 * SIM_MS);
    const struct seen after = look(lesson, victim);
    for (size_t peer = 0; peer < NODES; peer++) {
        if (before.used[peer] && (!after.used[peer] || after.epoch[peer] != before.epoch[peer]))
            fail_msg("the edge of %zu and %zu began again (seed %llu)", victim, peer,
                     (unsigned long long)seed);
        edges += before.used[peer];
    }
    return edges;
}

static unsigned live(uint64_t seed)
{
    struct lesson lesson;
    struct base_rng rng;
    unsigned edges = 0;

    base_rng_seed(&rng, seed);
    create(&lesson, seed % 2 ? PLAIN : KNOWN);
    lesson.last = LAST;
    lesson.world.options.steps = LAST * STEPS;
    lesson.world.options.checkpoint_ns = seed % 3 ? 600 * SIM_SECOND : SIM_SECOND;
    lesson.world.options.exchange.ratio = 1.0f / 32;
    lesson.world.options.exchange.sync = base_rng_below(&rng, 2);
    lesson.world.options.exchange.bounded = base_rng_below(&rng, 2);
    lesson.world.options.exchange.max_delay = 2;
    start_all(&lesson);
    run_for(&lesson, 3 * SIM_SECOND);
    for (size_t i = 0; i < KILLS; i++)
        edges += kill_and_return(&lesson, &rng, seed);
    assert_true(lesson.world.counts.replayed > 0);
    sim_world_destroy(&lesson.world);
    return edges;
}

static void test_no_edge_of_a_killed_node_begins_again(void **state)
{
    const char *given = getenv("P2PML_SEED");
    const uint64_t first = given ? strtoull(given, NULL, 10) : 1, count = given ? 1 : LIVES;
    unsigned edges = 0;

    (void)state;
    printf("seed %llu (set P2PML_SEED to replay another)\n", (unsigned long long)first);
    for (uint64_t seed = first; seed < first + count; seed++)
        edges += live(seed);
    printf("%llu kills, %u edges, 0 RESYNCs\n", (unsigned long long)(count * KILLS), edges);
    assert_true(edges > count * KILLS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_edge_of_a_killed_node_begins_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
