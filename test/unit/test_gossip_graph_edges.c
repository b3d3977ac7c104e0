// From a plan to the edges of a node: which come up, which go down, and which are forgotten.
#include "base/rng.h"
#include "gossip/exchange/exchange.h"
#include "gossip/graph/graph.h"
#include "test/support/cpu_kernels.h"
#include "test/support/graph_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MEMBERS = 24, D = 4 };

static void links_are_wanted_to_neighbours_and_donors(void **state)
{
    struct gossip_record view[MEMBERS];
    struct topology_options options = graph_options(TOPOLOGY_RING);
    struct gossip_id ids[8], donors[2] = {graph_id(40), graph_id(41)};
    (void)state;
    graph_view(view, MEMBERS);
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

static void a_link_that_replaces_another_is_a_new_link_up(void **state)
{
    struct gossip_record view[2];
    struct gossip_id peer = graph_id(1);
    struct topology_options options = graph_options(TOPOLOGY_RING);
    struct gossip_edges *edges;
    (void)state;
    graph_view(view, 2);
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
    graph_view(view, MEMBERS);
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

static void the_method_local_has_no_edges(void **state)
{
    struct gossip_record view[MEMBERS];
    struct topology_options options = graph_options(TOPOLOGY_RANDOM);
    struct gossip_edges *edges;
    (void)state;
    graph_view(view, MEMBERS);
    assert_int_equal(gossip_edges_create(true, &edges), BASE_OK);
    gossip_edges_follow(edges, graph_of(&options, view, MEMBERS, 0));
    link_all(edges, MEMBERS);
    assert_int_equal(drain(edges, true), 0);
    assert_true(gossip_graph_neighbours(gossip_edges_graph(edges)) > 0); // links and view are as always
    gossip_edges_destroy(edges);
}

// Edges that go down make room before others come up; each of the two groups is in order of id.
static void edges_go_down_before_others_come_up(void **state)
{
    struct gossip_record view[MEMBERS];
    struct topology_options options = graph_options(TOPOLOGY_RANDOM);
    struct gossip_edge_change change;
    struct gossip_edges *edges;
    size_t downs = 0, ups = 0, before = 0;
    (void)state;
    graph_view(view, MEMBERS);
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
    assert_true(ups < gossip_graph_neighbours(gossip_edges_graph(edges))); // the other edges are kept
    gossip_edges_destroy(edges);
}

// The link of a dead neighbour ends first, and the view drops the member a moment later: the exchange learns
// of both, once each.
static void a_lost_neighbour_is_unmet_once_the_view_drops_it(void **state)
{
    struct gossip_record view[3];
    struct topology_options options = graph_options(TOPOLOGY_RING);
    struct gossip_id peer = graph_id(2);
    struct gossip_edge_change change;
    struct gossip_edges *edges;
    (void)state;
    graph_view(view, 3);
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
    const struct gossip_orphan_record orphan = {.peer = left, .correction = zero};
    assert_int_equal(gossip_exchange_keep(exchange, &orphan), BASE_OK);
    return exchange;
}

// At a boundary; returns how many edges were forgotten.
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

static void the_edge_of_a_member_that_counts_and_is_not_a_neighbour_is_forgotten(void **state)
{
    struct gossip_record view[MEMBERS];
    struct topology_options options = graph_options(TOPOLOGY_RING);
    struct gossip_edges *edges;
    size_t last = 0, n = 0, peers[MEMBERS];
    (void)state;
    graph_view(view, MEMBERS);
    struct gossip_graph *graph = graph_of(&options, view, MEMBERS - 2, 0);
    for (size_t i = 1; i < MEMBERS; i++) {
        struct gossip_id peer = graph_id(i);
        if (i == MEMBERS - 1 || gossip_graph_meets(graph, &peer)) // a member of no view keeps its edge
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
    // it does not count itself, e.g. because it is held out
    assert_int_equal(forget(edges, exchange, &last), 0);
    gossip_edges_follow(edges, graph);
    assert_int_equal(forget(edges, exchange, &last), 2); // those of the stranger and of a dead member
    assert_int_equal(gossip_exchange_edges(exchange), 3);
    assert_int_equal(gossip_exchange_orphans(exchange), 0);
    assert_int_equal(forget(edges, exchange, &last), 0);
    gossip_edges_follow(edges, graph_of(&options, view, MEMBERS, 0));
    (void)forget(edges, exchange, &last);
    for (size_t i = 0; i < gossip_exchange_edges(exchange); i++) { // only neighbours are left
        struct gossip_edge_info info;
        gossip_exchange_edge_info(exchange, i, &info);
        assert_true(gossip_graph_meets(gossip_edges_graph(edges), &info.peer));
    }
    gossip_edges_destroy(edges);
    gossip_exchange_destroy(exchange);
}

// -- any changes

struct model { // the sum of the reported changes, and what it should be
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
        assert_true(meets || !model->awaited[i] || model->fetching); // no edge is awaited that no round meets
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

// Joins and deaths; this node is sometimes held out.
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
        model->up[peer] = false; // the edge begins again
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
            if (base_rng_below(&rng, 4)) // several changes may happen before they are read
                compare(&model);
        }
        gossip_edges_destroy(model.edges);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_are_wanted_to_neighbours_and_donors),
        cmocka_unit_test(a_link_that_replaces_another_is_a_new_link_up),
        cmocka_unit_test(no_edge_is_up_while_a_model_is_fetched),
        cmocka_unit_test(the_method_local_has_no_edges),
        cmocka_unit_test(edges_go_down_before_others_come_up),
        cmocka_unit_test(a_lost_neighbour_is_unmet_once_the_view_drops_it),
        cmocka_unit_test(the_edge_of_a_member_that_counts_and_is_not_a_neighbour_is_forgotten),
        cmocka_unit_test(changes_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
