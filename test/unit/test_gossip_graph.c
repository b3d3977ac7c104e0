// From a view to a plan: the neighbours of each node, with their weights and slots.
#include "base/limits.h"
#include "base/rng.h"
#include "gossip/graph/graph.h"
#include "test/support/graph_world.h"
#include "topology/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MEMBERS = 24 };

// view[n] without the member at `gone`.
static void take_out(struct gossip_record *view, size_t n, size_t gone)
{
    memmove(&view[gone], &view[gone + 1], (n - gone - 1) * sizeof *view);
}

// -- plans

static void check_every(const struct topology_options *options, const struct gossip_record *view, size_t n)
{
    struct gossip_plan *plan = graph_plan(options, view, n);
    assert_true(gossip_plan_is_of(plan, view, n));
    for (size_t self = 0; self < n; self += 1 + n / 40) {
        struct gossip_graph *graph;
        assert_int_equal(gossip_graph_create(plan, &view[self].id, LIMIT_NEIGHBOURS, &graph), BASE_OK);
        assert_int_equal(gossip_graph_members(graph), n);
        assert_true(gossip_graph_counts(graph) && !gossip_graph_meets(graph, &view[self].id));
        for (size_t i = 1; i < gossip_graph_neighbours(graph); i++)
            assert_true(graph_number(gossip_graph_neighbour(graph, i - 1)) <
                        graph_number(gossip_graph_neighbour(graph, i)));
        gossip_graph_drop(graph);
    }
    gossip_plan_drop(plan);
}

// Members come from the network: whatever their number and their claims, a plan must not need more neighbours
// than there is room for.
static void neighbours_fit_for_every_number_of_members(void **state)
{
    struct gossip_record *view = calloc(LIMIT_MEMBERS, sizeof *view);
    struct base_rng rng;
    (void)state;
    assert_non_null(view);
    base_rng_seed(&rng, 1);
    graph_view(view, LIMIT_MEMBERS);
    for (int kind = TOPOLOGY_RING; kind <= TOPOLOGY_HIERARCHICAL; kind++) {
        struct topology_options options = graph_options((enum topology_kind)kind);
        if (kind >= TOPOLOGY_COMPLETE && kind <= TOPOLOGY_MATCHINGS)
            continue; // complete_graphs_take_at_most_65_nodes
        for (size_t n = 1; n <= LIMIT_MEMBERS; n += n < 150 ? 7 : 1315) {
            for (size_t i = 0; i < n; i++)
                view[i].slot = GOSSIP_NO_SLOT;
            check_every(&options, view, n);
            for (size_t i = 0; i < n; i++)
                view[i].slot = (uint32_t)base_rng_below(&rng, 2 * n);
            check_every(&options, view, n);
        }
    }
    free(view);
}

// A neighbour that is further ahead than the turn has not waited for this node (gossip/pace).
static void nobody_is_unmet_for_longer_than_a_turn(void **state)
{
    struct gossip_record view[MEMBERS];
    (void)state;
    graph_view(view, MEMBERS);
    for (int kind = TOPOLOGY_RING; kind <= TOPOLOGY_HIERARCHICAL; kind++)
        for (size_t n = 2; n <= MEMBERS && kind != TOPOLOGY_MATCHINGS; n++) { // those never repeat
            const struct topology_options options = graph_options((enum topology_kind)kind);
            for (size_t self = 0; self < n; self++) {
                struct gossip_graph *graph = graph_of(&options, view, n, self);
                uint64_t met[MEMBERS] = {0};
                for (uint64_t round = 1; round <= 400; round++) {
                    struct gossip_id id;
                    float weight;
                    if (!gossip_graph_partner(graph, round, &id, &weight))
                        continue;
                    assert_true(round - met[graph_number(&id)] <= gossip_graph_turn(graph));
                    met[graph_number(&id)] = round;
                }
                gossip_graph_drop(graph);
            }
        }
}

// In these kinds every node meets all others: they take as many nodes as there is room for neighbours, and
// one more.
static void complete_graphs_take_at_most_65_nodes(void **state)
{
    struct gossip_record view[LIMIT_NEIGHBOURS + 2];
    const int kinds[] = {TOPOLOGY_COMPLETE, TOPOLOGY_MATCHINGS};
    (void)state;
    graph_view(view, LIMIT_NEIGHBOURS + 2);
    for (size_t k = 0; k < 2; k++) {
        struct topology_options options = graph_options((enum topology_kind)kinds[k]);
        struct gossip_plan *most = graph_plan(&options, view, LIMIT_NEIGHBOURS + 1);
        struct gossip_plan *more = graph_plan(&options, view, LIMIT_NEIGHBOURS + 2);
        struct gossip_graph *graph;
        assert_int_equal(gossip_graph_create(most, &view[0].id, LIMIT_NEIGHBOURS, &graph), BASE_OK);
        assert_int_equal(gossip_graph_neighbours(graph), LIMIT_NEIGHBOURS);
        gossip_graph_drop(graph);
        assert_int_equal(gossip_graph_create(more, &view[0].id, LIMIT_NEIGHBOURS, &graph), BASE_ELIMIT);
        // a simulation sets no limit
        assert_int_equal(gossip_graph_create(more, &view[0].id, SIZE_MAX, &graph), BASE_OK);
        assert_int_equal(gossip_graph_neighbours(graph), LIMIT_NEIGHBOURS + 1);
        for (size_t i = 0; i <= LIMIT_NEIGHBOURS; i++)
            assert_int_equal(graph_number(gossip_graph_neighbour(graph, i)), i + 1);
        gossip_graph_drop(graph);
        gossip_plan_drop(most);
        gossip_plan_drop(more);
    }
}

static void an_invalid_view_is_refused(void **state)
{
    struct gossip_record *view = calloc(TOPOLOGY_MEMBERS_MAX + 1, sizeof *view);
    struct topology_options options = graph_options(TOPOLOGY_RANDOM);
    struct gossip_plan *plan = NULL;
    (void)state;
    assert_non_null(view);
    graph_view(view, TOPOLOGY_MEMBERS_MAX + 1);
    options.rings = TOPOLOGY_RINGS_MAX + 1;
    assert_int_equal(gossip_plan_create(&options, view, 2, &plan), BASE_EINVAL);
    options = graph_options(TOPOLOGY_RING);
    assert_int_equal(gossip_plan_create(&options, view, TOPOLOGY_MEMBERS_MAX + 1, &plan), BASE_EINVAL);
    view[3] = view[2]; // twice
    assert_int_equal(gossip_plan_create(&options, view, 5, &plan), BASE_EINVAL);
    view[3] = view[1]; // out of order
    assert_int_equal(gossip_plan_create(&options, view, 5, &plan), BASE_EINVAL);
    assert_null(plan);
    free(view);
}

static void a_plan_depends_only_on_members_slots_groups_and_access(void **state)
{
    struct gossip_record view[MEMBERS], other[MEMBERS];
    struct topology_options options = graph_options(TOPOLOGY_BUTTERFLY);
    (void)state;
    graph_view(view, MEMBERS);
    struct gossip_plan *plan = graph_plan(&options, view, MEMBERS);
    assert_true(gossip_plan_is_of(plan, view, MEMBERS));
    assert_false(gossip_plan_is_of(plan, view, MEMBERS - 1));
    for (int what = 0; what < 5; what++) {
        memcpy(other, view, sizeof view);
        if (what == 0)
            other[MEMBERS - 1].id = graph_id(MEMBERS);
        if (what == 1)
            other[7].slot = 2;
        if (what == 2)
            other[7].group = 99;
        if (what == 3)
            other[7].access = GOSSIP_ACCESS_HARD;
        if (what == 4)
            other[7].version.generation = other[7].stop_round = other[7].shard = other[7].ways =
                3; // irrelevant
        assert_int_equal(gossip_plan_is_of(plan, other, MEMBERS), what == 4);
        assert_int_equal(gossip_plan_hash(other, MEMBERS) == gossip_plan_hash(view, MEMBERS), what == 4);
    }
    gossip_plan_drop(plan);
    gossip_plan_drop(NULL);
}

// On a ring, a node that has direct links only with open ones stands between two of them.
static void hard_nodes_stand_between_open_ones(void **state)
{
    struct gossip_record view[MEMBERS];
    const struct topology_options options = graph_options(TOPOLOGY_RING);
    (void)state;
    graph_view(view, MEMBERS);
    for (size_t i = 0; i < MEMBERS; i++)
        view[i].access = i % 2 ? GOSSIP_ACCESS_HARD : GOSSIP_ACCESS_OPEN;
    for (size_t self = 0; self < MEMBERS; self++) {
        struct gossip_graph *graph = graph_of(&options, view, MEMBERS, self);
        assert_int_equal(gossip_graph_neighbours(graph), 2);
        for (size_t i = 0; i < 2; i++)
            assert_int_not_equal(graph_number(gossip_graph_neighbour(graph, i)) % 2, self % 2);
        gossip_graph_drop(graph);
    }
}

// -- graphs

static void a_node_outside_the_view_has_no_neighbours(void **state)
{
    struct gossip_record view[4];
    struct gossip_id partner, peer = graph_id(0);
    float weight;
    (void)state;
    graph_view(view, 4);
    for (int kind = TOPOLOGY_RING; kind <= TOPOLOGY_HIERARCHICAL; kind++) {
        struct topology_options options = graph_options((enum topology_kind)kind);
        struct gossip_graph *graphs[] = {NULL, graph_of(&options, view, 0, 9),
                                         graph_of(&options, view, 4, 9)};
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(gossip_graph_members(graphs[i]), i == 2 ? 4 : 0);
            assert_int_equal(gossip_graph_has(graphs[i], &peer), i == 2);
            assert_int_equal(gossip_graph_neighbours(graphs[i]), 0);
            assert_false(gossip_graph_counts(graphs[i]) || gossip_graph_meets(graphs[i], &peer));
            assert_false(gossip_graph_partner(graphs[i], 1, &partner, &weight));
            assert_int_equal(gossip_graph_slot(graphs[i], 77, true), 77);
            gossip_graph_drop(graphs[i]);
        }
        struct gossip_graph *alone = graph_of(&options, view, 1, 0);
        assert_true(gossip_graph_counts(alone) && !gossip_graph_partner(alone, 1, &partner, &weight));
        gossip_graph_drop(alone);
    }
}

// Every node works with its own graph: both ends of a meeting must agree on it, and following the weights for
// a period of base must give the exact mean.
static void check_exact(struct topology_options options, const struct gossip_record *view, size_t n,
                        uint64_t rounds)
{
    struct gossip_graph *graphs[MEMBERS];
    double x[MEMBERS], next[MEMBERS], mean = 0;
    for (size_t i = 0; i < n; i++) {
        graphs[i] = graph_of(&options, view, n, i);
        x[i] = (double)(i * i % 11);
        mean += x[i] / (double)n;
    }
    for (uint64_t round = 0; round < rounds; round++) {
        memcpy(next, x, sizeof x);
        for (size_t i = 0; i < n; i++) {
            struct gossip_id partner, back;
            float weight, theirs;
            if (!gossip_graph_partner(graphs[i], round, &partner, &weight))
                continue;
            size_t peer = graph_number(&partner);
            assert_true(gossip_graph_meets(graphs[i], &partner));
            assert_true(gossip_graph_partner(graphs[peer], round, &back, &theirs));
            assert_true(graph_number(&back) == i && weight == theirs && weight > 0 && weight < 1);
            next[i] = (1 - (double)weight) * x[i] + (double)weight * x[peer];
        }
        memcpy(x, next, sizeof x);
    }
    for (size_t i = 0; i < n; i++) {
        assert_true(x[i] - mean < 1e-6 && mean - x[i] < 1e-6);
        gossip_graph_drop(graphs[i]);
    }
}

static uint64_t period_of(struct topology_options options, const struct gossip_record *view, size_t n)
{
    struct topology_member members[MEMBERS];
    struct topology_plan *plan;
    for (size_t i = 0; i < n; i++) {
        members[i] = (struct topology_member){.slot = view[i].slot, .group = view[i].group};
        memcpy(members[i].name, view[i].name, sizeof members[i].name);
        memcpy(members[i].id, view[i].id.bytes, sizeof members[i].id);
    }
    assert_int_equal(topology_plan_create(&options, members, n, &plan), BASE_OK);
    uint64_t period = topology_plan_period(plan);
    topology_plan_destroy(plan);
    return period;
}

static void weights_are_mutual_and_exact(void **state)
{
    struct gossip_record view[MEMBERS];
    const struct topology_options base = graph_options(TOPOLOGY_BASE);
    const struct topology_options groups = graph_options(TOPOLOGY_HIERARCHICAL);
    (void)state;
    graph_view(view, MEMBERS);
    for (size_t n = 1; n <= MEMBERS; n++)
        check_exact(base, view, n, period_of(base, view, n));
    check_exact(groups, view, 20, 100 * period_of(groups, view, 20)); // four groups of five
}

static size_t outside_group(const struct gossip_record *view, size_t n, size_t i, size_t *inside)
{
    struct topology_options options = graph_options(TOPOLOGY_HIERARCHICAL);
    struct gossip_graph *graph = graph_of(&options, view, n, graph_number(&view[i].id));
    size_t count = gossip_graph_neighbours(graph), outside = 0;
    for (size_t j = 0; j < count; j++)
        outside += graph_number(gossip_graph_neighbour(graph, j)) / 5 != graph_number(&view[i].id) / 5;
    gossip_graph_drop(graph);
    *inside = count - outside;
    return outside;
}

// Inside a group every node meets members of the group. Its leader, and no other, also meets the leaders of
// other groups. When a leader dies, its group has another one.
static void only_leaders_meet_other_groups(void **state)
{
    struct gossip_record view[20];
    size_t inside, leader = SIZE_MAX;
    (void)state;
    graph_view(view, 20);
    for (size_t n = 20; n >= 19; n--) {
        size_t leaders = 0;
        for (size_t i = 0; i < n; i++) {
            bool leads = outside_group(view, n, i, &inside) > 0;
            assert_true(inside > 0);
            leaders += leads;
            if (leads && n == 20 && i < 5)
                leader = i;
        }
        assert_int_equal(leaders, 4);
        assert_true(leader < 5);
        take_out(view, 20, leader);
    }
}

// A graph from a file applies to the nodes that it names; when one of them dies, the graph closes over it.
static void a_graph_file_applies_to_the_nodes_that_it_names(void **state)
{
    static const char text[] = "node-0 node-1\nnode-1 node-2\nnode-2 node-3\n";
    struct topology_graph *file = NULL;
    struct topology_options options = {.kind = TOPOLOGY_FILE};
    struct gossip_record view[9];
    struct base_reason why;
    (void)state;
    assert_int_equal(topology_graph_read("g", text, sizeof text - 1, NULL, 0, &file, &why), BASE_OK);
    options.graph = file;
    graph_view(view, 9);
    struct gossip_graph *graph = graph_of(&options, view, 9, 1);
    assert_int_equal(gossip_graph_neighbours(graph), 2);
    assert_int_equal(graph_number(gossip_graph_neighbour(graph, 0)), 0);
    assert_int_equal(graph_number(gossip_graph_neighbour(graph, 1)), 2);
    gossip_graph_drop(graph);
    take_out(view, 9, 2);
    graph = graph_of(&options, view, 8, 1);
    assert_int_equal(gossip_graph_neighbours(graph), 2);
    assert_int_equal(graph_number(gossip_graph_neighbour(graph, 1)), 3);
    gossip_graph_drop(graph);
    graph = graph_of(&options, view, 8, 5); // a node that the file does not name
    assert_true(gossip_graph_counts(graph));
    assert_int_equal(gossip_graph_neighbours(graph), 0);
    gossip_graph_drop(graph);
    topology_graph_destroy(file);
}

// Slots of a butterfly: each node claims the slot that it has, and none claims that of another. A death moves
// at most the one node that fills the slot, and a node that was held out finds its slot again.
static void slots_are_claimed_and_kept(void **state)
{
    struct gossip_record view[8], fewer[8];
    struct topology_options options = graph_options(TOPOLOGY_BUTTERFLY);
    uint32_t slot[8];
    bool taken[8] = {false};
    (void)state;
    graph_view(view, 8);
    for (size_t i = 0; i < 8; i++) {
        struct gossip_graph *graph = graph_of(&options, view, 8, i);
        slot[i] = gossip_graph_slot(graph, GOSSIP_NO_SLOT, true);
        assert_true(slot[i] < 8 && !taken[slot[i]]);
        taken[slot[i]] = true;
        gossip_graph_drop(graph);
    }
    for (size_t i = 0; i < 8; i++)
        view[i].slot = slot[i];
    memcpy(fewer, view, sizeof view);
    take_out(fewer, 8, 3);
    size_t moved = 0;
    for (size_t i = 0; i < 8; i++) {
        struct gossip_graph *graph = graph_of(&options, fewer, 7, i);
        moved += gossip_graph_slot(graph, slot[i], true) != slot[i];
        if (i == 3)
            assert_int_equal(gossip_graph_slot(graph, slot[3], true), slot[3]);
        gossip_graph_drop(graph);
        graph = graph_of(&options, view, 8, i);
        assert_int_equal(gossip_graph_slot(graph, slot[i], true), slot[i]);
        gossip_graph_drop(graph);
    }
    assert_true(moved <= 1);
}

// Processes start one after the other, in any order, and each begins to train when all are there: the slots
// are always those that the members would have if all had come at once.
static void slots_do_not_depend_on_the_order_of_starts(void **state)
{
    const struct topology_options options = graph_options(TOPOLOGY_BUTTERFLY);
    const size_t order[8] = {5, 2, 7, 0, 3, 6, 1, 4};
    struct gossip_record all[8], here[8];
    uint32_t expected[8];
    (void)state;
    graph_view(all, 8);
    for (size_t i = 0; i < 8; i++) {
        struct gossip_graph *graph = graph_of(&options, all, 8, i);
        expected[i] = gossip_graph_slot(graph, GOSSIP_NO_SLOT, true);
        gossip_graph_drop(graph);
    }
    for (size_t there = 1; there <= 8; there++) {
        size_t count = 0;
        for (size_t i = 0; i < 8; i++)
            for (size_t k = 0; k < there; k++)
                if (order[k] == i)
                    here[count++] = all[i];
        for (size_t k = 0; k < there; k++) {
            struct gossip_graph *graph = graph_of(&options, here, count, order[k]);
            assert_int_equal(gossip_graph_slot(graph, GOSSIP_NO_SLOT, false), GOSSIP_NO_SLOT);
            gossip_graph_drop(graph);
        }
    }
    for (size_t k = 0; k < 8; k++) { // they begin one after the other
        struct gossip_graph *graph = graph_of(&options, all, 8, order[k]);
        all[order[k]].slot = gossip_graph_slot(graph, GOSSIP_NO_SLOT, true);
        assert_int_equal(all[order[k]].slot, expected[order[k]]);
        gossip_graph_drop(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_fit_for_every_number_of_members),
        cmocka_unit_test(nobody_is_unmet_for_longer_than_a_turn),
        cmocka_unit_test(complete_graphs_take_at_most_65_nodes),
        cmocka_unit_test(an_invalid_view_is_refused),
        cmocka_unit_test(a_plan_depends_only_on_members_slots_groups_and_access),
        cmocka_unit_test(hard_nodes_stand_between_open_ones),
        cmocka_unit_test(a_node_outside_the_view_has_no_neighbours),
        cmocka_unit_test(weights_are_mutual_and_exact),
        cmocka_unit_test(only_leaders_meet_other_groups),
        cmocka_unit_test(a_graph_file_applies_to_the_nodes_that_it_names),
        cmocka_unit_test(slots_are_claimed_and_kept),
        cmocka_unit_test(slots_do_not_depend_on_the_order_of_starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
