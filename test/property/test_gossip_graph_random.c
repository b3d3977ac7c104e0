// What holds between the graphs of all nodes, whatever happened in which order: nodes with the same view have
// the same plan, neighbours know each other, and when all links are up, the same edges are up at both ends.
//
// P2PML_SEED: the first seed; P2PML_SEEDS: how many (8).
#include "base/rng.h"
#include "test/support/graph_world.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { NODES = 18 };

struct node {
    struct gossip_record known[NODES]; // the latest that this node has heard
    bool counts[NODES];                // of these, in its view
    struct gossip_edges *edges;
    bool up[NODES], linked[NODES];
};

struct world {
    struct topology_options options;
    struct gossip_record record[NODES]; // as all nodes will know it in the end
    bool counts[NODES];
    struct node node[NODES];
    struct base_rng rng;
};

static size_t view_of(const struct node *node, struct gossip_record view[NODES])
{
    size_t n = 0;
    for (size_t i = 0; i < NODES; i++)
        if (node->counts[i])
            view[n++] = node->known[i];
    return n;
}

static void take_changes(struct world *world, size_t self)
{
    struct node *node = &world->node[self];
    struct gossip_edge_change change;
    (void)world;
    while (gossip_edges_next(node->edges, &change))
        node->up[graph_number(&change.peer)] = change.up;
}

static void follow(struct world *world, size_t self)
{
    struct gossip_record view[NODES];
    size_t n = view_of(&world->node[self], view);
    gossip_edges_follow(world->node[self].edges, graph_of(&world->options, view, n, self));
    take_changes(world, self);
}

static void hear(struct world *world, size_t self, size_t about)
{
    world->node[self].known[about] = world->record[about];
    world->node[self].counts[about] = world->counts[about];
    follow(world, self);
}

static void set_link(struct world *world, size_t a, size_t b, bool linked)
{
    const size_t ends[2][2] = {{a, b}, {b, a}};
    for (size_t i = 0; i < 2; i++) {
        struct node *node = &world->node[ends[i][0]];
        struct gossip_id peer = graph_id(ends[i][1]);
        if (linked) {
            assert_int_equal(gossip_edges_linked(node->edges, &peer), BASE_OK);
            node->up[ends[i][1]] = false;
        } else {
            gossip_edges_unlinked(node->edges, &peer);
        }
        node->linked[ends[i][1]] = linked;
        take_changes(world, ends[i][0]);
    }
}

// A join, a death, a holding out, a claim or another way to be reached; some nodes hear of it now, others
// later.
static void anything(struct world *world)
{
    size_t a = base_rng_below(&world->rng, NODES), b = base_rng_below(&world->rng, NODES);
    switch (base_rng_below(&world->rng, 5)) {
    case 0:
        world->counts[a] = !world->counts[a];
        break;
    case 1:
        world->record[a].slot =
            gossip_graph_slot(gossip_edges_graph(world->node[a].edges), world->record[a].slot, true);
        break;
    case 2:
        if (a != b)
            set_link(world, a, b, base_rng_below(&world->rng, 3) > 0);
        return;
    case 3:
        world->record[a].access = (uint8_t)base_rng_below(&world->rng, GOSSIP_ACCESSES);
        break;
    default:
        hear(world, a, b);
        return;
    }
    hear(world, a, a);
}

// All nodes hear of all others, each in its own order.
static void settle(struct world *world)
{
    uint32_t order[NODES];
    for (uint32_t i = 0; i < NODES; i++)
        order[i] = i;
    for (size_t self = 0; self < NODES; self++) {
        base_rng_shuffle(&world->rng, order, NODES);
        for (size_t i = 0; i < NODES; i++)
            hear(world, self, order[i]);
    }
}

static void check_pair(const struct world *world, size_t a, size_t b)
{
    const struct gossip_graph *ours = gossip_edges_graph(world->node[a].edges);
    const struct gossip_graph *theirs = gossip_edges_graph(world->node[b].edges);
    const struct gossip_id id_a = graph_id(a), id_b = graph_id(b);
    assert_int_equal(gossip_graph_meets(ours, &id_b), gossip_graph_meets(theirs, &id_a));
    assert_int_equal(world->node[a].up[b], world->node[b].up[a]);
    assert_int_equal(world->node[a].up[b], world->node[a].linked[b] && gossip_graph_meets(ours, &id_b));
    assert_true(world->counts[b] == gossip_graph_has(ours, &id_b));
}

static void check_meetings(const struct world *world, size_t a)
{
    for (uint64_t round = 0; round < 40; round++) {
        struct gossip_id partner, back;
        float weight = 0, theirs = 0;
        if (!gossip_graph_partner(gossip_edges_graph(world->node[a].edges), round, &partner, &weight))
            continue;
        const struct gossip_graph *other = gossip_edges_graph(world->node[graph_number(&partner)].edges);
        assert_true(gossip_graph_partner(other, round, &back, &theirs));
        assert_int_equal(graph_number(&back), a);
        assert_true(weight == theirs && weight > 0 && weight < 1);
        assert_true(gossip_graph_meets(other, &back));
    }
}

static void check(const struct world *world)
{
    struct gossip_record first[NODES], view[NODES];
    size_t n = view_of(&world->node[0], first);
    struct gossip_plan *plan = graph_plan(&world->options, first, n);
    for (size_t a = 0; a < NODES; a++) {
        assert_int_equal(view_of(&world->node[a], view), n);
        assert_true(gossip_plan_is_of(plan, view, n));
        assert_true(gossip_plan_hash(view, n) == gossip_plan_hash(first, n));
        check_meetings(world, a);
        for (size_t b = 0; b < NODES; b++)
            if (a != b)
                check_pair(world, a, b);
    }
    gossip_plan_drop(plan);
}

// Once all nodes claim the slots that they should claim, the slots are settled and all different.
static void check_claims(struct world *world)
{
    bool taken[4 * NODES] = {false};
    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < NODES; i++)
            world->record[i].slot =
                gossip_graph_slot(gossip_edges_graph(world->node[i].edges), world->record[i].slot, true);
        settle(world);
        check(world);
    }
    for (size_t i = 0; i < NODES && world->options.kind == TOPOLOGY_BUTTERFLY; i++) {
        const uint32_t slot =
            gossip_graph_slot(gossip_edges_graph(world->node[i].edges), world->record[i].slot, true);
        assert_int_equal(slot, world->record[i].slot);
        if (!world->counts[i])
            continue;
        assert_true(slot < 4 * NODES && !taken[slot]);
        taken[slot] = true;
    }
}

static void run(uint64_t seed, enum topology_kind kind)
{
    static struct world world;
    world = (struct world){.options = graph_options(kind)};
    base_rng_seed(&world.rng, seed);
    world.options.rings = 1 + (unsigned)base_rng_below(&world.rng, 3);
    world.options.base_k = (unsigned)base_rng_below(&world.rng, 4);
    for (size_t i = 0; i < NODES; i++) {
        world.record[i] = graph_record(i);
        world.record[i].group = (uint32_t)base_rng_below(&world.rng, 4);
        assert_int_equal(gossip_edges_create(false, &world.node[i].edges), BASE_OK);
    }
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 60; i++)
            anything(&world);
        settle(&world);
        check(&world);
        check_claims(&world);
    }
    for (size_t i = 0; i < NODES; i++)
        gossip_edges_destroy(world.node[i].edges);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *given = getenv(name);
    return given ? strtoull(given, NULL, 10) : otherwise;
}

static void all_nodes_agree(void **state)
{
    uint64_t first = number("P2PML_SEED", 1), seeds = number("P2PML_SEEDS", getenv("P2PML_SEED") ? 1 : 8);
    (void)state;
    printf("seeds %llu to %llu\n", (unsigned long long)first, (unsigned long long)(first + seeds - 1));
    for (uint64_t seed = first; seed < first + seeds; seed++)
        for (int kind = TOPOLOGY_RING; kind < TOPOLOGY_FILE; kind++)
            run(seed, (enum topology_kind)kind);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_nodes_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
