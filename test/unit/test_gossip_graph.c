// From a view to a plan to the edges of a node, rule by rule.
#include "base/limits.h"
#include "base/rng.h"
#include "gossip/exchange/exchange.h"
#include "gossip/graph/graph.h"
#include "test/support/cpu_kernels.h"
#include "test/support/graph_world.h"
#include "topology/file.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MEMBERS = 24, D = 4 };

static void fill(struct gossip_record *view, size_t n)
{
    for (size_t i = 0; i < n; i++)
        view[i] = graph_record(i);
}

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

// Members come from the network: no number of them, and no claims, may need more neighbours than there is
// room for.
static void neighbours_fit_for_every_number_of_members(void **state)
{
    struct gossip_record *view = calloc(LIMIT_MEMBERS, sizeof *view);
    struct base_rng rng;
    (void)state;
    assert_non_null(view);
    base_rng_seed(&rng, 1);
    fill(view, LIMIT_MEMBERS);
    for (int kind = TOPOLOGY_RING; kind <= TOPOLOGY_HIERARCHICAL; kind++) {
        struct topology_options options = graph_options((enum topology_kind)kind);
        if (kind >= TOPOLOGY_COMPLETE && kind <= TOPOLOGY_MATCHINGS)
            continue; // everybody_is_at_most_65
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

// Kinds in which somebody meets everybody are for as many as there is room for, and one more.
static void everybody_is_at_most_65(void **state)
{
    struct gossip_record view[LIMIT_NEIGHBOURS + 2];
    const int kinds[] = {TOPOLOGY_COMPLETE, TOPOLOGY_MATCHINGS};
    (void)state;
    fill(view, LIMIT_NEIGHBOURS + 2);
    for (size_t k = 0; k < 2; k++) {
        struct topology_options options = graph_options((enum topology_kind)kinds[k]);
        struct gossip_plan *most = graph_plan(&options, view, LIMIT_NEIGHBOURS + 1);
        struct gossip_plan *more = graph_plan(&options, view, LIMIT_NEIGHBOURS + 2);
        struct gossip_graph *graph;
        assert_int_equal(gossip_graph_create(most, &view[0].id, LIMIT_NEIGHBOURS, &graph), BASE_OK);
        assert_int_equal(gossip_graph_neighbours(graph), LIMIT_NEIGHBOURS);
        gossip_graph_drop(graph);
        assert_int_equal(gossip_graph_create(more, &view[0].id, LIMIT_NEIGHBOURS, &graph), BASE_ELIMIT);
        assert_int_equal(gossip_graph_create(more, &view[0].id, SIZE_MAX, &graph), BASE_OK); // a simulation's
        assert_int_equal(gossip_graph_neighbours(graph), LIMIT_NEIGHBOURS + 1);
        for (size_t i = 0; i <= LIMIT_NEIGHBOURS; i++)
            assert_int_equal(graph_number(gossip_graph_neighbour(graph, i)), i + 1);
        gossip_graph_drop(graph);
        gossip_plan_drop(most);
        gossip_plan_drop(more);
    }
}

static void what_cannot_be_is_refused(void **state)
{
    struct gossip_record *view = calloc(TOPOLOGY_MEMBERS_MAX + 1, sizeof *view);
    struct topology_options options = graph_options(TOPOLOGY_RANDOM);
    struct gossip_plan *plan = NULL;
    (void)state;
    assert_non_null(view);
    fill(view, TOPOLOGY_MEMBERS_MAX + 1);
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

static void a_plan_is_of_its_members_their_slots_and_groups(void **state)
{
    struct gossip_record view[MEMBERS], other[MEMBERS];
    struct topology_options options = graph_options(TOPOLOGY_BUTTERFLY);
    (void)state;
    fill(view, MEMBERS);
    struct gossip_plan *plan = graph_plan(&options, view, MEMBERS);
    assert_true(gossip_plan_is_of(plan, view, MEMBERS));
    assert_false(gossip_plan_is_of(plan, view, MEMBERS - 1));
    for (int what = 0; what < 4; what++) {
        memcpy(other, view, sizeof view);
        if (what == 0)
            other[MEMBERS - 1].id = graph_id(MEMBERS);
        if (what == 1)
            other[7].slot = 2;
        if (what == 2)
            other[7].group = 99;
        if (what == 3)
            other[7].version.boot = other[7].stop_round = other[7].shard = 5; // no matter
        assert_int_equal(gossip_plan_is_of(plan, other, MEMBERS), what == 3);
        assert_int_equal(gossip_plan_hash(other, MEMBERS) == gossip_plan_hash(view, MEMBERS), what == 3);
    }
    gossip_plan_drop(plan);
    gossip_plan_drop(NULL);
}

// -- graphs

static void without_a_place_in_the_view_there_is_nobody(void **state)
{
    struct gossip_record view[4];
    struct gossip_id partner, peer = graph_id(0);
    float weight;
    (void)state;
    fill(view, 4);
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

// Every node works with a graph of its own: what one says of a meeting the other must say too, and who
// follows the weights has the exact mean, after a period of base.
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
    fill(view, MEMBERS);
    for (size_t n = 1; n <= MEMBERS; n++)
        check_exact(base, view, n, period_of(base, view, n));
    check_exact(groups, view, 20, 100 * period_of(groups, view, 20)); // four groups of five: x 0.8 a period
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

// Inside a group everybody meets members of it; the leader of each group meets other leaders, and nobody else
// does. When a leader dies its group has another.
static void only_leaders_leave_their_group(void **state)
{
    struct gossip_record view[20];
    size_t inside, leader = SIZE_MAX;
    (void)state;
    fill(view, 20);
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

// A graph from a file is for those whom it names; it closes over one who has died.
static void a_file_is_for_those_whom_it_names(void **state)
{
    static const char text[] = "node-0 node-1\nnode-1 node-2\nnode-2 node-3\n";
    struct topology_graph *file = NULL;
    struct topology_options options = {.kind = TOPOLOGY_FILE};
    struct gossip_record view[9];
    struct base_reason why;
    (void)state;
    assert_int_equal(topology_graph_read("g", text, sizeof text - 1, NULL, 0, &file, &why), BASE_OK);
    options.graph = file;
    fill(view, 9);
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
    graph = graph_of(&options, view, 8, 5); // a stranger to the file
    assert_true(gossip_graph_counts(graph));
    assert_int_equal(gossip_graph_neighbours(graph), 0);
    gossip_graph_drop(graph);
    topology_graph_destroy(file);
}

// Slots of a butterfly: everybody claims the one that it has, nobody another's; a death moves at most the one
// who fills the place, and who is held out finds its place again.
static void slots_are_claimed_and_kept(void **state)
{
    struct gossip_record view[8], fewer[8];
    struct topology_options options = graph_options(TOPOLOGY_BUTTERFLY);
    uint32_t slot[8];
    bool taken[8] = {false};
    (void)state;
    fill(view, 8);
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

// Processes start one after the other, in whatever order, and each begins to train when all are there: the
// slots are always those of the members, as if all had come at once.
static void slots_do_not_depend_on_who_starts_first(void **state)
{
    const struct topology_options options = graph_options(TOPOLOGY_BUTTERFLY);
    const size_t order[8] = {5, 2, 7, 0, 3, 6, 1, 4};
    struct gossip_record all[8], here[8];
    uint32_t expected[8];
    (void)state;
    fill(all, 8);
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

static void links_are_wanted_to_neighbours_and_donors(void **state)
{
    struct gossip_record view[MEMBERS];
    struct topology_options options = graph_options(TOPOLOGY_RING);
    struct gossip_id ids[8], donors[2] = {graph_id(40), graph_id(41)};
    (void)state;
    fill(view, MEMBERS);
    struct gossip_graph *graph = graph_of(&options, view, MEMBERS, 0);
    assert_int_equal(gossip_graph_links(graph, donors, 2, ids), 4);
    for (size_t i = 0; i < 2; i++) {
        assert_true(gossip_graph_meets(graph, &ids[i]));
        assert_int_equal(graph_number(&ids[2 + i]), 40 + i);
    }
    assert_int_equal(gossip_graph_links(NULL, donors, 2, ids), 2);
    assert_int_equal(graph_number(&ids[0]), 40);
    gossip_graph_drop(graph);
}

// -- edges

static void link_all(struct gossip_edges *edges, size_t n)
{
    for (size_t i = n; i-- > 1;) {
        struct gossip_id peer = graph_id(i);
        assert_int_equal(gossip_edges_linked(edges, &peer), BASE_OK);
    }
}

static size_t drain(struct gossip_edges *edges, bool up)
{
    struct gossip_edge_change change;
    size_t told = 0;
    for (; gossip_edges_next(edges, &change); told++)
        assert_int_equal(change.up, up);
    return told;
}

static void a_link_that_replaces_another_comes_up_anew(void **state)
{
    struct gossip_record view[2];
    struct gossip_id peer = graph_id(1);
    struct topology_options options = graph_options(TOPOLOGY_RING);
    struct gossip_edges *edges;
    (void)state;
    fill(view, 2);
    assert_int_equal(gossip_edges_create(false, &edges), BASE_OK);
    gossip_edges_follow(edges, graph_of(&options, view, 2, 0));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(gossip_edges_linked(edges, &peer), BASE_OK);
        assert_int_equal(drain(edges, true), 1);
    }
    gossip_edges_unlinked(edges, &peer);
    gossip_edges_unlinked(edges, &peer);
    assert_int_equal(drain(edges, false), 1);
    gossip_edges_unlinked(edges, &peer);
    assert_int_equal(drain(edges, false), 0);
    gossip_edges_destroy(edges);
    gossip_edges_destroy(NULL);
}

static void no_edge_is_up_while_a_model_is_fetched(void **state)
{
    struct gossip_record view[MEMBERS];
    struct gossip_id peer = graph_id(1);
    struct topology_options options = graph_options(TOPOLOGY_RANDOM);
    struct gossip_edges *edges;
    (void)state;
    fill(view, MEMBERS);
    assert_int_equal(gossip_edges_create(false, &edges), BASE_OK);
    gossip_edges_follow(edges, graph_of(&options, view, MEMBERS, 0));
    link_all(edges, MEMBERS);
    size_t all = drain(edges, true);
    assert_int_equal(all, gossip_graph_neighbours(gossip_edges_graph(edges)));
    gossip_edges_fetching(edges, true);
    assert_int_equal(drain(edges, false), all);
    assert_int_equal(gossip_edges_linked(edges, &peer), BASE_OK);
    gossip_edges_follow(edges, graph_of(&options, view, MEMBERS - 1, 0));
    assert_int_equal(drain(edges, true), 0);
    gossip_edges_follow(edges, graph_of(&options, view, MEMBERS, 0));
    gossip_edges_fetching(edges, false);
    assert_int_equal(drain(edges, true), all);
    gossip_edges_fetching(edges, false);
    assert_int_equal(drain(edges, true), 0);
    gossip_edges_destroy(edges);
}

static void local_has_no_edges(void **state)
{
    struct gossip_record view[MEMBERS];
    struct topology_options options = graph_options(TOPOLOGY_RANDOM);
    struct gossip_edges *edges;
    (void)state;
    fill(view, MEMBERS);
    assert_int_equal(gossip_edges_create(true, &edges), BASE_OK);
    gossip_edges_follow(edges, graph_of(&options, view, MEMBERS, 0));
    link_all(edges, MEMBERS);
    assert_int_equal(drain(edges, true), 0);
    assert_true(gossip_graph_neighbours(gossip_edges_graph(edges)) > 0); // links and view are as ever
    gossip_edges_destroy(edges);
}

// What goes down makes room before anything comes up; within each, by id.
static void edges_go_down_before_others_come_up(void **state)
{
    struct gossip_record view[MEMBERS];
    struct topology_options options = graph_options(TOPOLOGY_RANDOM);
    struct gossip_edge_change change;
    struct gossip_edges *edges;
    size_t downs = 0, ups = 0, before = 0;
    (void)state;
    fill(view, MEMBERS);
    assert_int_equal(gossip_edges_create(false, &edges), BASE_OK);
    gossip_edges_follow(edges, graph_of(&options, view, MEMBERS, 0));
    link_all(edges, MEMBERS);
    assert_true(drain(edges, true) > 0);
    options.seed = 4; // another graph of the same members
    gossip_edges_follow(edges, graph_of(&options, view, MEMBERS, 0));
    while (gossip_edges_next(edges, &change)) {
        if (change.up && !ups)
            before = 0;
        assert_true(graph_number(&change.peer) > before);
        before = graph_number(&change.peer);
        assert_false(!change.up && ups);
        *(change.up ? &ups : &downs) += 1;
    }
    assert_true(downs > 0 && ups > 0);
    assert_true(ups < gossip_graph_neighbours(gossip_edges_graph(edges))); // the others are kept as they are
    gossip_edges_destroy(edges);
}

// The link of a dead neighbour ends first, and the view does without it a moment later: that is told, once.
static void a_lost_neighbour_is_met_no_more_when_the_view_says_so(void **state)
{
    struct gossip_record view[3];
    struct topology_options options = graph_options(TOPOLOGY_RING);
    struct gossip_id peer = graph_id(2);
    struct gossip_edge_change change;
    struct gossip_edges *edges;
    (void)state;
    fill(view, 3);
    assert_int_equal(gossip_edges_create(false, &edges), BASE_OK);
    for (int linked = 0; linked < 2; linked++) {
        gossip_edges_follow(edges, graph_of(&options, view, 3, 0));
        assert_int_equal(gossip_edges_linked(edges, &peer), BASE_OK);
        assert_int_equal(drain(edges, true), 1);
        if (!linked) {
            gossip_edges_unlinked(edges, &peer);
            assert_true(gossip_edges_next(edges, &change) && !change.up && !change.unmet);
            assert_false(gossip_edges_next(edges, &change));
        }
        gossip_edges_follow(edges, graph_of(&options, view, 2, 0));
        assert_true(gossip_edges_next(edges, &change) && !change.up && change.unmet);
        assert_int_equal(graph_number(&change.peer), 2);
        assert_false(gossip_edges_next(edges, &change));
        gossip_edges_follow(edges, graph_of(&options, view, 2, 0));
        assert_false(gossip_edges_next(edges, &change));
    }
    gossip_edges_destroy(edges);
}

// -- forgetting

static struct gossip_exchange *exchange_with(const size_t *peers, size_t n, size_t kept)
{
    static float zero[D];
    static const uint8_t nothing_open[2];
    const struct gossip_id left = graph_id(kept);
    struct gossip_exchange_options options = {.self = graph_id(0),
                                              .kernels = cpu_kernels(),
                                              .parameters = D,
                                              .start = zero,
                                              .ratio = 0.5f,
                                              .values = KERNELS_FP32,
                                              .drift_correction = true,
                                              .drift_gain = 2,
                                              .drift_limit = 0.25f,
                                              .on_death = GOSSIP_ON_DEATH_KEEP,
                                              .deadline_floor_ns = 1000000,
                                              .deadline_ceiling_ns = 1000000000};
    struct gossip_exchange *exchange;
    struct base_reason why;
    assert_int_equal(gossip_exchange_create(&options, &exchange, &why), BASE_OK);
    for (size_t i = 0; i < n; i++) {
        struct gossip_edge_record record = {.peer = graph_id(peers[i]),
                                            .sequence = 3,
                                            .resync_offset = D,
                                            .reference = zero,
                                            .correction = zero,
                                            .transactions = nothing_open,
                                            .transactions_bytes = sizeof nothing_open};
        assert_int_equal(gossip_exchange_import(exchange, &record), BASE_OK);
    }
    assert_int_equal(gossip_exchange_keep(exchange, &left, zero), BASE_OK);
    return exchange;
}

// At a boundary; returns how many.
static size_t forget(struct gossip_edges *edges, struct gossip_exchange *exchange, size_t *last)
{
    struct gossip_exchange_actions actions;
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_FORGET, .now_ns = 1};
    size_t count = 0;
    for (; gossip_edges_forget(edges, exchange, &event.peer); count++) {
        *last = graph_number(&event.peer);
        assert_int_equal(gossip_exchange_step(exchange, &event, &actions), BASE_OK);
    }
    return count;
}

static void who_counts_and_is_met_no_more_is_forgotten(void **state)
{
    struct gossip_record view[MEMBERS];
    struct topology_options options = graph_options(TOPOLOGY_RING);
    struct gossip_edges *edges;
    size_t last = 0, n = 0, peers[MEMBERS];
    (void)state;
    fill(view, MEMBERS);
    struct gossip_graph *graph = graph_of(&options, view, MEMBERS - 2, 0);
    for (size_t i = 1; i < MEMBERS; i++) {
        struct gossip_id peer = graph_id(i);
        if (i == MEMBERS - 1 || gossip_graph_meets(graph, &peer)) // who is in no view is not judged
            peers[n++] = i;
    }
    size_t stranger = 1;
    for (struct gossip_id peer = graph_id(1); gossip_graph_meets(graph, &peer); peer = graph_id(++stranger))
        ;
    peers[n++] = stranger;
    struct gossip_exchange *exchange = exchange_with(peers, n, stranger == 12 ? 13 : 12);
    assert_int_equal(gossip_exchange_edges(exchange), 4);

    assert_int_equal(gossip_edges_create(false, &edges), BASE_OK);
    assert_int_equal(forget(edges, exchange, &last), 0); // no view yet
    gossip_edges_follow(edges, graph_of(&options, view + 1, MEMBERS - 3, 0));
    assert_int_equal(forget(edges, exchange, &last), 0); // it does not count itself, being held out, say
    gossip_edges_follow(edges, graph);
    assert_int_equal(forget(edges, exchange, &last), 2); // the stranger's edge, and what a dead one has left
    assert_int_equal(gossip_exchange_edges(exchange), 3);
    assert_int_equal(gossip_exchange_orphans(exchange), 0);
    assert_int_equal(forget(edges, exchange, &last), 0);
    gossip_edges_follow(edges, graph_of(&options, view, MEMBERS, 0));
    (void)forget(edges, exchange, &last);
    for (size_t i = 0; i < gossip_exchange_edges(exchange); i++) { // none but neighbours are left
        struct gossip_edge_info info;
        gossip_exchange_edge_info(exchange, i, &info);
        assert_true(gossip_graph_meets(gossip_edges_graph(edges), &info.peer));
    }
    gossip_edges_destroy(edges);
    gossip_exchange_destroy(exchange);
}

// -- any changes

struct model { // what the changes told add up to, and what they should
    struct gossip_edges *edges;
    struct topology_options options;
    bool member[MEMBERS], linked[MEMBERS], up[MEMBERS], awaited[MEMBERS], fetching;
};

static void compare(struct model *model)
{
    struct gossip_edge_change change;
    const struct gossip_graph *graph = gossip_edges_graph(model->edges);
    for (size_t told = 0; gossip_edges_next(model->edges, &change); told++) {
        size_t peer = graph_number(&change.peer);
        assert_true(told < 2 * MEMBERS);
        assert_true(model->up[peer] != change.up || change.unmet);
        assert_true(!change.unmet || (model->awaited[peer] && !change.up));
        model->up[peer] = change.up;
        model->awaited[peer] = change.up || (model->awaited[peer] && !change.unmet);
    }
    for (size_t i = 1; i < MEMBERS; i++) {
        struct gossip_id peer = graph_id(i);
        bool meets = gossip_graph_meets(graph, &peer);
        assert_int_equal(model->up[i], model->linked[i] && meets && !model->fetching);
        assert_true(meets || !model->awaited[i] || model->fetching); // whom no round meets nobody awaits
        assert_int_equal(gossip_graph_has(graph, &peer), model->member[i]);
        assert_true(!meets || (model->member[i] && model->member[0]));
    }
    for (uint64_t round = 1; round < 12; round++) {
        struct gossip_id partner;
        float weight = 0;
        if (gossip_graph_partner(graph, round, &partner, &weight))
            assert_true(gossip_graph_meets(graph, &partner) && weight > 0 && weight < 1);
    }
}

// Joins and deaths, this node held out at times.
static void change_view(struct model *model, struct base_rng *rng)
{
    struct gossip_record view[MEMBERS];
    size_t n = 0;
    for (size_t i = 0; i < MEMBERS; i++) {
        if (base_rng_below(rng, 4) == 0)
            model->member[i] = !model->member[i];
        if (model->member[i])
            view[n++] = graph_record(i);
    }
    gossip_edges_follow(model->edges, graph_of(&model->options, view, n, 0));
}

static void any_change(struct model *model, struct base_rng *rng)
{
    size_t peer = 1 + base_rng_below(rng, MEMBERS - 1);
    struct gossip_id id = graph_id(peer);
    if (base_rng_below(rng, 8) == 0) {
        change_view(model, rng);
    } else if (base_rng_below(rng, 16) == 0) {
        model->fetching = !model->fetching;
        gossip_edges_fetching(model->edges, model->fetching);
    } else if (base_rng_below(rng, 2)) {
        assert_int_equal(gossip_edges_linked(model->edges, &id), BASE_OK);
        model->linked[peer] = true;
        model->up[peer] = false; // whatever edge there was begins anew
    } else {
        gossip_edges_unlinked(model->edges, &id);
        model->linked[peer] = false;
    }
}

static void changes_add_up(void **state)
{
    const char *given = getenv("P2PML_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
    struct base_rng rng;
    (void)state;
    printf("seed %llu (set P2PML_SEED to replay another)\n", (unsigned long long)seed);
    base_rng_seed(&rng, seed);
    for (int trial = 0; trial < 5 * TOPOLOGY_FILE; trial++) {
        struct model model = {.options = graph_options((enum topology_kind)(trial % TOPOLOGY_FILE))};
        assert_int_equal(gossip_edges_create(false, &model.edges), BASE_OK);
        for (int step = 0; step < 300; step++) {
            any_change(&model, &rng);
            if (base_rng_below(&rng, 4)) // several changes may come before they are asked for
                compare(&model);
        }
        gossip_edges_destroy(model.edges);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_fit_for_every_number_of_members),
        cmocka_unit_test(everybody_is_at_most_65),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(a_plan_is_of_its_members_their_slots_and_groups),
        cmocka_unit_test(without_a_place_in_the_view_there_is_nobody),
        cmocka_unit_test(weights_are_mutual_and_exact),
        cmocka_unit_test(only_leaders_leave_their_group),
        cmocka_unit_test(a_file_is_for_those_whom_it_names),
        cmocka_unit_test(slots_are_claimed_and_kept),
        cmocka_unit_test(slots_do_not_depend_on_who_starts_first),
        cmocka_unit_test(links_are_wanted_to_neighbours_and_donors),
        cmocka_unit_test(a_link_that_replaces_another_comes_up_anew),
        cmocka_unit_test(no_edge_is_up_while_a_model_is_fetched),
        cmocka_unit_test(local_has_no_edges),
        cmocka_unit_test(edges_go_down_before_others_come_up),
        cmocka_unit_test(a_lost_neighbour_is_met_no_more_when_the_view_says_so),
        cmocka_unit_test(who_counts_and_is_met_no_more_is_forgotten),
        cmocka_unit_test(changes_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
