// What the rounds of a node tell the exchange at a boundary.
#include "gossip/life/rounds.h"
#include "test/support/cpu_kernels.h"
#include "test/support/graph_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct gossip_edges *edges_of_two(bool local)
{
    const struct gossip_record view[2] = {graph_record(0), graph_record(1)};
    const struct topology_options ring = graph_options(TOPOLOGY_RING);
    struct gossip_edges *edges;
    assert_int_equal(gossip_edges_create(local, &edges), BASE_OK);
    gossip_edges_follow(edges, graph_of(&ring, view, 2, 0));
    return edges;
}

static void a_boundary_becomes_an_event_of_the_exchange(void **state)
{
    struct gossip_edges *edges = edges_of_two(false), *local = edges_of_two(true), *none;
    struct gossip_rounds_meet meet = {.round = 7, .meets = true, .step_scale = 0.5f, .away = true};
    struct gossip_exchange_event event;
    (void)state;
    gossip_rounds_event(&meet, edges, true, &event);
    assert_true(event.kind == GOSSIP_EXCHANGE_ROUND && event.round.meets && !event.round.idle);
    assert_int_equal(graph_number(&event.round.partner), 1);
    assert_true(event.round.weight == 0.5f && event.round.step_scale == 0.5f);
    assert_int_equal(event.round.round, 7);
    assert_true(event.round.others && event.round.standing == GOSSIP_AWAY);
    gossip_rounds_event(&meet, local, true, &event); // a node without edges waits for none
    assert_false(event.round.meets || event.round.others || event.round.idle);
    assert_int_equal(gossip_edges_create(false, &none), BASE_OK);
    gossip_rounds_event(&meet, none, true, &event); // no view yet: it meets no node, and waits for others
    assert_true(!event.round.meets && event.round.others);
    meet = (struct gossip_rounds_meet){.step_scale = 0.5f, .finished = true, .away = true, .unusable = true};
    gossip_rounds_event(&meet, edges, false, &event); // it stands still before its first round
    assert_true(event.round.idle && !event.round.meets && !event.round.others && event.round.unusable);
    assert_true(event.round.step_scale == 0 && event.round.standing == GOSSIP_FINISHED);
    assert_int_equal(event.round.round, 1);
    meet = (struct gossip_rounds_meet){.round = 7, .away = true};
    gossip_rounds_event(&meet, edges, true, &event); // it takes in what arrived while it stood still
    assert_true(event.round.idle && !event.round.meets);
    gossip_edges_destroy(edges);
    gossip_edges_destroy(local);
    gossip_edges_destroy(none);
}

static void a_boundary_ends_with_or_without_its_exchange(void **state)
{
    static float zero[4];
    static const uint8_t nothing_open[2];
    const struct gossip_id partner = graph_id(1), stranger = graph_id(2);
    struct gossip_exchange_options options = {.self = graph_id(0),
                                              .kernels = cpu_kernels(),
                                              .parameters = 4,
                                              .start = zero,
                                              .ratio = 0.5f,
                                              .values = KERNELS_FP32,
                                              .deadline_floor_ns = 1000000,
                                              .deadline_ceiling_ns = 1000000000};
    const struct gossip_edge_record record = {.peer = partner,
                                              .sequence = 3,
                                              .clock = 9,
                                              .resync_offset = 4,
                                              .reference = zero,
                                              .transactions = nothing_open,
                                              .transactions_bytes = sizeof nothing_open};
    struct gossip_exchange *exchange;
    struct base_reason why;
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        options.sync = sync;
        options.round = 9;
        assert_int_equal(gossip_exchange_create(&options, &exchange, &why), BASE_OK);
        assert_int_equal(gossip_exchange_import(exchange, &record), BASE_OK);
        assert_true(gossip_exchange_met(exchange, NULL, 10)); // no exchange was due
        assert_true(gossip_exchange_met(exchange, &partner, 9));
        assert_int_equal(gossip_exchange_met(exchange, &partner, 10), !sync); // async has no exchange to miss
        assert_int_equal(gossip_exchange_met(exchange, &stranger, 9), !sync);
        gossip_exchange_destroy(exchange);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_boundary_becomes_an_event_of_the_exchange),
        cmocka_unit_test(a_boundary_ends_with_or_without_its_exchange),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
