// The protocol of the exchange: who waits for whom, ties, BUSY, silence, doubt, restarts and BOOT. Virtual
// time only.
#include "base/hash.h"
#include "test/support/exchange_net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNTER(name) offsetof(struct gossip_edge_info, name)
#define SECOND        1000000000ull

static struct gossip_exchange_options defaults(bool sync)
{
    return (struct gossip_exchange_options){.ratio = 0.1f,
                                            .values = KERNELS_INT8,
                                            .sync = sync,
                                            .drift_correction = true,
                                            .drift_gain = 3.0f,
                                            .drift_limit = 0.25f,
                                            .deadline_floor_ns = SECOND / 10,
                                            .deadline_ceiling_ns = SECOND};
}

static struct net *linked_net(size_t nodes, size_t parameters, bool sync, uint64_t seed)
{
    struct gossip_exchange_options options = defaults(sync);
    struct net *net = net_create(nodes, parameters, TOPOLOGY_BUTTERFLY, seed, &options);

    net_link_all(net);
    for (size_t i = 0; i < nodes; i++)
        for (size_t j = 0; j < parameters; j++)
            net->node[i].x[j] = (float)base_rng_normal(&net->rng);
    return net;
}

static void test_same_seed_model_needs_no_boot(void **state)
{
    struct net *net = linked_net(8, 50, true, net_seed(1));

    (void)state;
    for (uint64_t round = 1; round <= 6; round++)
        net_round_all(net, round);
    assert_int_equal(net_count(net, COUNTER(boots)), 0);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 8 * 6);
    net_destroy(net);
}

// Sync: a round ends for both ends with their one exchange, and not before the later end stands at its
// boundary.
static void test_sync_waits_for_the_partner(void **state)
{
    struct net *net = linked_net(2, 50, true, net_seed(2));

    (void)state;
    net_round(net, 0, 1);
    net_settle(net, SECOND / 20);
    assert_true(net->node[0].in_round); // its request is parked at node 1
    net_round(net, 1, 1);
    net_settle(net, SECOND / 20);
    assert_false(net->node[0].in_round);
    assert_false(net->node[1].in_round);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 2);
    assert_int_equal(net_count(net, COUNTER(timeouts)), 0);
    net_destroy(net);
}

// Async: the round ends in the same step, and the exchange follows.
static void test_async_does_not_wait(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(3));

    (void)state;
    net->node[1].paused = true;
    net_round(net, 0, 1);
    assert_false(net->node[0].in_round);
    net->node[1].paused = false;
    net_settle(net, SECOND / 20);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 2);
    net_round(net, 1, 1); // has already met for round 1
    net_settle(net, SECOND / 20);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 2);
    net_destroy(net);
}

static void test_tie_lower_id_wins(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(4));

    (void)state;
    net_round(net, 0, 1); // both requests are under way before either arrives
    net_round(net, 1, 1);
    net_settle(net, SECOND / 20);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 2);
    assert_int_equal(net_count(net, COUNTER(timeouts)), 0);
    assert_true(net_references_match(net));
    net_destroy(net);
}

// A paused partner costs one deadline, is in doubt, is skipped from then on, and what was open is settled
// when it wakes.
static void check_paused_partner(size_t paused, size_t other)
{
    struct net *net = linked_net(2, 50, true, net_seed(5));
    struct gossip_edge_info info;
    uint64_t started;

    net_round_all(net, 1);
    net->node[paused].paused = true;
    started = net->now_ns;
    net_round(net, other, 2);
    net_settle(net, 3 * SECOND);
    assert_false(net->node[other].in_round);
    net->now_ns += SECOND;
    started = net->now_ns;
    net_round(net, other, 3);
    assert_false(net->node[other].in_round); // no second wait
    assert_int_equal(net->now_ns, started);
    net->node[paused].paused = false;
    net_settle(net, 3 * SECOND);
    assert_int_equal(net_edge(net, other, paused, &info)->state, GOSSIP_EDGE_LIVE);
    net_round(net, paused, 2);
    net_settle(net, 3 * SECOND);
    assert_false(net->node[paused].in_round);
    for (uint64_t round = 4; round < 30; round++)
        net_round_all(net, round);
    assert_true(net_references_match(net));
    assert_int_equal(net_count(net, COUNTER(boots)), 0);
    assert_true(net_edge(net, other, paused, &info)->exchanges > 20);
    net_destroy(net);
}

static void test_paused_partner_never_hangs_anyone(void **state)
{
    (void)state;
    check_paused_partner(1, 0); // the one who asks waits for an answer
    check_paused_partner(0, 1); // the one who is asked waits for the question
}

static void test_dead_partner_ends_the_round_at_once(void **state)
{
    struct net *net = linked_net(4, 50, true, net_seed(6));

    (void)state;
    net_round_all(net, 1);
    for (size_t i = 0; i < 3; i++) {
        net_round(net, i, 2);
        if (net->up[i * 4 + 3])
            net_unlink(net, i, 3);
    }
    net->node[3].paused = true;
    net_settle(net, SECOND / 20);
    for (size_t i = 0; i < 3; i++)
        assert_false(net->node[i].in_round);
    struct gossip_exchange_event forget = {.kind = GOSSIP_EXCHANGE_FORGET, .peer = net_id(3)};
    assert_int_equal(net_step(net, 1, &forget), BASE_OK);
    assert_int_equal(gossip_exchange_edges(net->node[1].exchange), 1);
    for (uint64_t round = 3; round < 20; round++)
        net_round_all(net, round);
    assert_true(net_references_match(net));
    net_destroy(net);
}

// Different seed models: BOOT averages them block by block, over more than one block, and leaves r = the
// mean.
static void test_boot_averages_in_blocks(void **state)
{
    enum { D = LIMIT_BOOT_BLOCK + 1000 };
    struct gossip_exchange_options options = defaults(false);
    struct net *net = net_create(2, D, TOPOLOGY_RING, net_seed(7), &options);
    float *other = malloc(D * sizeof *other);
    struct gossip_exchange *fresh;
    struct gossip_edge_info info;
    struct base_reason why;

    (void)state;
    assert_non_null(other);
    for (size_t j = 0; j < D; j++)
        other[j] = (float)base_rng_normal(&net->rng);
    net->node[1].options.start = other;
    assert_int_equal(gossip_exchange_create(&net->node[1].options, &fresh, &why), BASE_OK);
    net_node_restart(net, 1, fresh);
    net_link_all(net);
    assert_int_equal(net_edge(net, 0, 1, &info)->state, GOSSIP_EDGE_LIVE);
    assert_true(info.boots >= 1);
    assert_true(net_references_match(net));
    const float *a = gossip_exchange_model(net->node[0].exchange),
                *b = gossip_exchange_model(net->node[1].exchange);
    for (size_t j = 0; j < D; j++) {
        assert_true(fabsf(a[j] - 0.5f * other[j]) < 1e-6f);
        assert_true(fabsf(a[j] - b[j]) < 1e-6f && fabsf(info.reference[j] - a[j]) < 1e-6f);
    }
    net_destroy(net);
    free(other);
}

struct saved { // a checkpoint of one node with one edge
    float *model, *reference, *correction;
    uint8_t *transactions;
    struct gossip_edge_record record;
};

static void *copy(const void *memory, size_t bytes)
{
    void *twin = malloc(bytes ? bytes : 1);

    assert_non_null(twin);
    memcpy(twin, memory, bytes);
    return twin;
}

static struct saved save(struct net *net, size_t node)
{
    struct saved saved = {0};
    size_t bytes = net->parameters * sizeof(float);

    assert_int_equal(gossip_exchange_export(net->node[node].exchange, 0, &saved.record), BASE_OK);
    saved.model = copy(gossip_exchange_model(net->node[node].exchange), bytes);
    saved.reference = copy(saved.record.reference, bytes);
    saved.correction = copy(saved.record.correction, bytes);
    saved.transactions = copy(saved.record.transactions, saved.record.transactions_bytes);
    saved.record.reference = saved.reference;
    saved.record.correction = saved.correction;
    saved.record.transactions = saved.transactions;
    return saved;
}

static void restore(struct net *net, size_t node, struct saved *saved)
{
    struct gossip_exchange_options options = net->node[node].options;
    struct gossip_exchange *fresh;
    struct base_reason why;

    options.model = saved->model;
    assert_int_equal(gossip_exchange_create(&options, &fresh, &why), BASE_OK);
    assert_int_equal(gossip_exchange_import(fresh, &saved->record), BASE_OK);
    net_node_restart(net, node, fresh);
    memcpy(net->node[node].x, saved->model, net->parameters * sizeof(float));
    free(saved->model);
    free(saved->reference);
    free(saved->correction);
    free(saved->transactions);
}

static void test_restart_at_the_same_place_resumes(void **state)
{
    struct net *net = linked_net(2, 200, true, net_seed(8));

    (void)state;
    for (uint64_t round = 1; round <= 5; round++)
        net_round_all(net, round);
    struct saved saved = save(net, 1);
    net_unlink(net, 0, 1);
    float correction[200];
    memcpy(correction, saved.correction, sizeof correction);
    restore(net, 1, &saved);
    assert_memory_equal(gossip_exchange_correction(net->node[1].exchange), correction, sizeof correction);
    net_link(net, 0, 1);
    net_settle(net, SECOND);
    assert_int_equal(net_count(net, COUNTER(boots)), 0);
    assert_true(net_references_match(net));
    for (uint64_t round = 6; round <= 60; round++)
        net_round_all(net, round);
    assert_true(net_references_match(net));
    assert_true(net_energy(net) < 1e-8);
    net_destroy(net);
}

// The initiator dies between its request and the answer, with the request in its checkpoint: the answer is
// replayed.
static void test_restart_one_behind_replays(void **state)
{
    struct net *net = linked_net(2, 200, false, net_seed(9));
    double before[200], after[200];

    (void)state;
    for (uint64_t round = 1; round <= 5; round++)
        net_round_all(net, round);
    net->node[1].paused = true;
    net_round(net, 0, 6);
    struct saved saved = save(net, 0);
    net_mean(net, before);
    net->node[1].paused = false;
    net->node[0].paused = true;
    net_settle(net, SECOND); // node 1 commits and answers; the answer dies with node 0
    net_unlink(net, 0, 1);
    net->node[0].paused = false;
    restore(net, 0, &saved);
    net_link(net, 0, 1);
    net_settle(net, SECOND);
    net_mean(net, after);
    assert_int_equal(net_count(net, COUNTER(boots)), 0);
    assert_true(net_count(net, COUNTER(replays)) >= 1);
    assert_true(net_references_match(net));
    for (size_t j = 0; j < 200; j++)
        assert_true(fabs(before[j] - after[j]) < 1e-6);
    net_destroy(net);
}

static void test_restart_from_an_old_checkpoint_boots(void **state)
{
    struct net *net = linked_net(2, 200, true, net_seed(10));

    (void)state;
    for (uint64_t round = 1; round <= 5; round++)
        net_round_all(net, round);
    struct saved saved = save(net, 1);
    for (uint64_t round = 6; round <= 9; round++)
        net_round_all(net, round);
    net_unlink(net, 0, 1);
    restore(net, 1, &saved);
    net_link(net, 0, 1);
    net_settle(net, SECOND);
    assert_true(net_count(net, COUNTER(boots)) >= 2);
    for (uint64_t round = 10; round <= 60; round++)
        net_round_all(net, round);
    assert_true(net_references_match(net));
    assert_true(net_energy(net) < 1e-8);
    net_destroy(net);
}

// A node that lost everything and counts its rounds from 1 again holds nobody up.
static void test_restart_from_nothing_does_not_stall_sync(void **state)
{
    struct net *net = linked_net(4, 100, true, net_seed(11));
    struct gossip_exchange *fresh;
    struct base_reason why;

    (void)state;
    for (uint64_t round = 1; round <= 50; round++)
        net_round_all(net, round);
    for (size_t i = 1; i < 4; i++)
        if (net->up[i])
            net_unlink(net, 0, i);
    assert_int_equal(gossip_exchange_create(&net->node[0].options, &fresh, &why), BASE_OK);
    net_node_restart(net, 0, fresh);
    for (size_t i = 1; i < 3; i++)
        net_link(net, 0, i);
    net_settle(net, SECOND);
    for (uint64_t round = 51; round <= 90; round++) {
        net_round(net, 0, round - 50);
        for (size_t i = 1; i < 4; i++)
            net_round(net, i, round);
        uint64_t started = net->now_ns;
        net_settle(net, 30 * SECOND);
        for (size_t i = 0; i < 4; i++)
            assert_false(net->node[i].in_round);
        assert_true(net->now_ns - started <= SECOND); // at most one deadline
    }
    for (uint64_t round = 91; round <= 200; round++) {
        net_round(net, 0, round - 50);
        for (size_t i = 1; i < 4; i++)
            net_round(net, i, round);
        net_settle(net, 30 * SECOND);
    }
    assert_true(net_references_match(net));
    assert_true(net_energy(net) < 1e-6);
    net_destroy(net);
}

// Nodes of different speed under async: all meet, nothing diverges, references stay identical.
static void test_async_with_a_straggler(void **state)
{
    enum { N = 8 };
    struct net *net = linked_net(N, 300, false, net_seed(12));

    (void)state;
    net->jitter_ns = 2000000;
    for (uint64_t tick = 1; tick <= 1500; tick++) {
        for (size_t i = 0; i < N; i++) {
            if (i == 3 && tick % 5)
                continue; // five times slower
            net_round(net, i, net->node[i].round + 1);
            net_settle(net, 300000);
        }
    }
    net_settle(net, 10 * SECOND);
    assert_true(net_references_match(net));
    assert_true(net_energy(net) < 1e-4);
    assert_int_equal(net_count(net, COUNTER(boots)), 0);
    assert_int_equal(net_count(net, COUNTER(timeouts)), 0);
    net_destroy(net);
}

// A model that holds NaN is never sent, and says so in a counter; the neighbours go on.
static void test_model_that_is_not_finite_stays_home(void **state)
{
    struct net *net = linked_net(2, 50, true, net_seed(13));
    struct gossip_exchange_totals totals;

    (void)state;
    net->node[0].x[7] = NAN;
    net_round_all(net, 1);
    net->node[1].x[7] = INFINITY;
    net->node[0].x[7] = 1;
    net_round_all(net, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_false(net->node[i].in_round);
        gossip_exchange_totals(net->node[i].exchange, &totals);
        assert_true(totals.not_finite >= 1);
        assert_int_equal(totals.exchanges, 0);
    }
    net_destroy(net);
}

// Payloads that break the codec are the sender's fault, and change nothing.
static void test_garbage_payload_changes_nothing(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(14));
    uint8_t garbage[64];
    float before[50];

    (void)state;
    net_round_all(net, 1);
    memcpy(before, gossip_exchange_model(net->node[0].exchange), sizeof before);
    for (int trial = 0; trial < 1000; trial++) {
        struct gossip_edge_info info;
        struct gossip_message message = {.kind = GOSSIP_XCHG};
        struct gossip_exchange_event event = {
            .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(1), .message = &message};
        for (size_t i = 0; i < sizeof garbage; i++)
            garbage[i] = (uint8_t)base_rng_u64(&net->rng);
        net_edge(net, 0, 1, &info);
        message.as.exchange = (struct gossip_exchange_message){.epoch = info.epoch,
                                                               .sequence = info.sequence,
                                                               .clock = 2,
                                                               .step_scale = 0.1f,
                                                               .form = (uint8_t)(trial % 2),
                                                               .delta = garbage,
                                                               .delta_bytes = (uint32_t)(trial % 64)};
        assert_int_equal(net_step(net, 0, &event), BASE_EFORMAT);
    }
    assert_memory_equal(before, gossip_exchange_model(net->node[0].exchange), sizeof before);
    net_round_all(net, 2);
    assert_true(net_references_match(net));
    net_destroy(net);
}

// BUSY sets a time to try again; an edge that is gone by then must not leave a timer that never passes.
static void test_busy_and_then_gone_leaves_no_timer(void **state)
{
    (void)state;
    for (int forgotten = 0; forgotten < 2; forgotten++) {
        struct net *net = linked_net(2, 50, false, net_seed(15));
        struct gossip_message busy = {.kind = GOSSIP_BUSY};
        struct gossip_exchange_event event = {
            .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(1), .message = &busy};
        net->node[1].paused = true;
        net_round(net, 0, 1);
        assert_int_equal(net_step(net, 0, &event), BASE_OK); // to our request: epoch 0, sequence 0
        assert_true(gossip_exchange_deadline(net->node[0].exchange) < net->now_ns + SECOND);
        net_unlink(net, 0, 1);
        if (forgotten)
            net_tell(net, 0, GOSSIP_EXCHANGE_FORGET, 1);
        assert_true(gossip_exchange_deadline(net->node[0].exchange) == UINT64_MAX);
        net_destroy(net);
    }
}

// A late question about the exchange before tells nothing about our open request. Were it taken for settled,
// a second request with other contents would go out under its number, and the answer to the first applied to
// it.
static void test_late_question_does_not_settle_our_doubt(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(16));
    struct gossip_edge_info info;
    struct gossip_message question = {.kind = GOSSIP_HELLO};
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(0), .message = &question};

    (void)state;
    net_edge(net, 0, 1, &info);
    question.as.hello = (struct gossip_hello){.epoch = info.epoch, .booted = 50, .answer = 1};
    net_round(net, 0, 1);
    net->node[0].paused = true; // asks, and does not see the answer
    net_settle(net, SECOND / 100);
    net_round(net, 1, 2); // its own request is in doubt
    net_settle(net, 3 * SECOND);
    assert_int_equal(net_edge(net, 1, 0, &info)->state, GOSSIP_EDGE_IN_DOUBT);
    assert_int_equal(net_step(net, 1, &event), BASE_OK);
    assert_int_equal(net_edge(net, 1, 0, &info)->state, GOSSIP_EDGE_IN_DOUBT);
    for (size_t j = 0; j < 50; j++)
        net->node[1].x[j] += (float)base_rng_normal(&net->rng);
    net_round(net, 1, 3);
    net->node[0].paused = false;
    net_settle(net, 10 * SECOND);
    assert_int_equal(net_edge(net, 1, 0, &info)->state, GOSSIP_EDGE_LIVE);
    assert_true(net_references_match(net));
    assert_int_equal(net_count(net, COUNTER(boots)), 0);
    net_destroy(net);
}

static void change_model(struct net *net, size_t node)
{
    for (size_t j = 0; j < net->parameters; j++)
        net->node[node].x[j] += (float)base_rng_normal(&net->rng);
}

static void tell_busy(struct net *net, size_t node, size_t peer, uint64_t sequence)
{
    struct gossip_message busy = {.kind = GOSSIP_BUSY, .as.busy = {.sequence = sequence}};
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(peer), .message = &busy};

    assert_int_equal(net_step(net, node, &event), BASE_OK);
}

// An answer belongs to one request. Another request under the same number must not get it.
static void test_second_request_of_a_number_gets_no_answer(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(17));

    (void)state;
    net_round(net, 0, 1);
    tell_busy(net, 0, 1, 0); // a peer that says BUSY, and commits all the same
    change_model(net, 0);
    net_round(net, 0, 2); // the second, before the answer to the first is there
    net_settle(net, 10 * SECOND);
    assert_true(net_references_match(net));
    for (uint64_t round = 3; round < 60; round++)
        net_round_all(net, round);
    assert_true(net_references_match(net));
    assert_true(net_energy(net) < 1e-8);
    net_destroy(net);
}

// A checkpoint holds an open request that was turned away, and another one took its number and was committed:
// the answer to that is not applied to the one from the checkpoint for good.
static void test_restart_with_a_request_that_was_replaced(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(18));

    (void)state;
    net->node[1].paused = true;
    net_round(net, 0, 1);
    struct saved saved = save(net, 0);
    net_unlink(net, 0, 1);
    net_round(net, 0, 2); // nobody to meet
    net->node[1].paused = false;
    net_link(net, 0, 1);
    net_settle(net, SECOND);
    change_model(net, 0);
    net_round(net, 0, 3);
    net_settle(net, SECOND);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 2);
    net_unlink(net, 0, 1);
    restore(net, 0, &saved);
    net_link(net, 0, 1);
    net_settle(net, 10 * SECOND);
    assert_true(net_references_match(net));
    for (uint64_t round = 4; round < 60; round++)
        net_round_all(net, round);
    assert_true(net_references_match(net));
    assert_true(net_energy(net) < 1e-8);
    net_destroy(net);
}

// A HELLO that is lost while its link stays (its sender was out of memory) is repeated.
static void test_lost_hello_is_repeated(void **state)
{
    struct gossip_exchange_options options = defaults(false);
    struct net *net = net_create(2, 50, TOPOLOGY_RING, net_seed(19), &options);
    struct gossip_edge_info info;

    (void)state;
    net->loss_chance = 1;
    net_link(net, 0, 1);
    net->loss_chance = 0;
    net_settle(net, 10 * SECOND);
    assert_int_equal(net_edge(net, 0, 1, &info)->state, GOSSIP_EDGE_LIVE);
    assert_int_equal(net_edge(net, 1, 0, &info)->state, GOSSIP_EDGE_LIVE);
    net_destroy(net);
}

// One end begins an edge anew while its link and its request stand (neighbours come and go while a view
// grows): a HELLO from before the request arrived does not discard it.
static void test_edge_begun_anew_keeps_its_request(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(20));
    struct gossip_edge_info info;
    struct gossip_message early = {.kind = GOSSIP_HELLO};
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(1), .message = &early};

    (void)state;
    net_edge(net, 0, 1, &info);
    early.as.hello = (struct gossip_hello){
        .epoch = info.epoch, .reference_hash = base_hash_vector(info.reference, 50), .booted = 50};
    net_round(net, 0, 1);
    net_tell(net, 0, GOSSIP_EXCHANGE_LINK_DOWN, 1);
    net_tell(net, 0, GOSSIP_EXCHANGE_LINK_UP, 1);
    assert_int_equal(net_step(net, 0, &event), BASE_OK);
    net_settle(net, 10 * SECOND); // node 1 commits the request, and its answer finds the request
    assert_int_equal(net_count(net, COUNTER(exchanges)), 2);
    assert_int_equal(net_count(net, COUNTER(boots)), 0);
    assert_int_equal(net_count(net, COUNTER(discards)), 0);
    assert_true(net_references_match(net));
    net_destroy(net);
}

// The HELLO that tells of a BOOT is lost: the answer to the other end's question tells it again.
static void test_lost_decision_to_boot_is_told_again(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(23));
    struct gossip_message other = {.kind = GOSSIP_HELLO,
                                   .as.hello = {.epoch = 7, .sequence = 3, .booted = 50}};
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(1), .message = &other};
    struct gossip_edge_info info;

    (void)state;
    net->loss_chance = 1;
    assert_int_equal(net_step(net, 0, &event), BASE_OK);
    assert_int_equal(net_edge(net, 0, 1, &info)->state, GOSSIP_EDGE_BOOT);
    net->loss_chance = 0;
    other = (struct gossip_message){.kind = GOSSIP_BUSY,
                                    .as.busy = {.epoch = 8}}; // the first block was lost, too
    assert_int_equal(net_step(net, 0, &event), BASE_OK);
    net_settle(net, 10 * SECOND);
    assert_int_equal(net_edge(net, 0, 1, &info)->state, GOSSIP_EDGE_LIVE);
    assert_int_equal(net_edge(net, 1, 0, &info)->epoch, 8);
    assert_true(net_references_match(net));
    net_destroy(net);
}

// A round whose deadline passes in the very step that refuses a message ends in that step, too.
static void test_refused_message_does_not_hide_the_end_of_a_round(void **state)
{
    struct net *net = linked_net(2, 50, true, net_seed(24));
    static const uint8_t garbage[8] = {0xff};
    struct gossip_message message = {
        .kind = GOSSIP_XCHG,
        .as.exchange = {.step_scale = 0.1f, .clock = 100, .delta = garbage, .delta_bytes = sizeof garbage}};
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(0), .message = &message};

    (void)state;
    net_round(net, 1, 1); // waits for node 0 to ask
    assert_true(net->node[1].in_round);
    net->now_ns += SECOND;
    assert_int_equal(net_step(net, 1, &event), BASE_EFORMAT);
    assert_false(net->node[1].in_round);
    net_destroy(net);
}

// An answer that can't be applied (the two ends' stored packets fit no more) breaks one link, not all to
// come.
static void test_answer_that_does_not_fit_is_asked_for_once(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(25));
    static const uint8_t garbage[8] = {0xff};
    struct gossip_message message = {
        .kind = GOSSIP_XACK,
        .as.exchange = {.step_scale = 0.1f, .delta = garbage, .delta_bytes = sizeof garbage}};
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(1), .message = &message};

    (void)state;
    net_round(net, 0, 1);
    net->node[0].paused = true;
    net_settle(net, SECOND / 100); // node 1 has committed
    assert_int_equal(net_step(net, 0, &event), BASE_EFORMAT);
    net_unlink(net, 0, 1);
    net->node[0].paused = false;
    net_link(net, 0, 1);
    net_settle(net, SECOND);
    assert_true(net_count(net, COUNTER(boots)) >= 2);
    for (uint64_t round = 2; round < 60; round++)
        net_round_all(net, round);
    assert_true(net_references_match(net));
    assert_true(net_energy(net) < 1e-8);
    net_destroy(net);
}

// A step scale is any finite number that the peer likes; the corrections stay finite all the same.
static void test_tiny_step_scale_leaves_corrections_finite(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(26));

    (void)state;
    net->step_scale = 1e-44f;
    for (uint64_t round = 1; round < 10; round++)
        net_round_all(net, round);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 18);
    for (size_t j = 0; j < 50; j++)
        assert_true(isfinite(gossip_exchange_correction(net->node[0].exchange)[j]));
    net_destroy(net);
}

// More requests wait for one busy node than it answers in one step: the rest follow without another event.
static void test_many_parked_requests_are_all_answered(void **state)
{
    enum { N = 20 };
    struct gossip_exchange_options options = defaults(false);
    struct net *net = net_create(N, 50, TOPOLOGY_RING, net_seed(27), &options);
    struct gossip_exchange_event round = {.kind = GOSSIP_EXCHANGE_ROUND,
                                          .round = {.round = 1, .meets = true, .step_scale = 0.1f}};

    (void)state;
    for (size_t i = 0; i + 1 < N; i++)
        net_link(net, i, N - 1);
    net_settle(net, SECOND);
    net->node[0].paused = true;
    for (size_t i = N; i-- > 0;) { // the last one asks node 0, and all others ask the last one
        if (i == 0)
            continue;
        round.round.partner = net_id(i == N - 1 ? 0 : N - 1);
        round.round.model = net->node[i].x;
        assert_int_equal(net_step(net, i, &round), BASE_OK);
    }
    net_settle(net, SECOND / 100);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 0);
    net->node[0].paused = false;
    net_settle(net, SECOND / 100);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 2 * (N - 1));
    net_destroy(net);
}

// A record whose packet could not be sent again is refused, like any damaged one.
static void test_record_with_an_impossible_packet_is_refused(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(28));
    struct gossip_exchange *fresh;
    struct base_reason why;

    (void)state;
    net_round(net, 0, 1);
    struct saved saved = save(net, 0);
    for (size_t flipped = 28; flipped <= 30;
         flipped += 2) { // sign of the step scale; offset of a sparse delta
        uint8_t before = saved.transactions[flipped];
        saved.transactions[flipped] ^= 0x80;
        assert_int_equal(gossip_exchange_create(&net->node[0].options, &fresh, &why), BASE_OK);
        assert_int_equal(gossip_exchange_import(fresh, &saved.record), BASE_EFORMAT);
        gossip_exchange_destroy(fresh);
        saved.transactions[flipped] = before;
    }
    restore(net, 0, &saved);
    net_destroy(net);
}

// One end forgets an edge at its very beginning while messages of it are under way over a link that stays:
// what either end then commits is not the same exchange, though it has the same number.
static void test_edge_forgotten_at_its_beginning(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(22));
    struct gossip_edge_info info;
    struct gossip_message early = {.kind = GOSSIP_HELLO};
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(1), .message = &early};

    (void)state;
    net_edge(net, 0, 1, &info);
    early.as.hello = (struct gossip_hello){
        .epoch = info.epoch, .reference_hash = base_hash_vector(info.reference, 50), .booted = 50};
    net_round(net, 0, 1);
    net_round(net, 1, 1);
    net_tell(net, 0, GOSSIP_EXCHANGE_LINK_DOWN, 1);
    net_tell(net, 0, GOSSIP_EXCHANGE_FORGET, 1);
    change_model(net, 0);
    net_round(net, 0, 2);
    net_tell(net, 0, GOSSIP_EXCHANGE_LINK_UP, 1);
    assert_int_equal(net_step(net, 0, &event), BASE_OK);
    net_settle(net, 10 * SECOND);
    assert_int_equal(net_edge(net, 0, 1, &info)->state, GOSSIP_EDGE_LIVE);
    assert_true(net_references_match(net));
    net_destroy(net);
}

// Sync, after a pause: one end stands some rounds behind. They meet at once and the late end catches up,
// instead of both waiting, each for a round of the other.
static void test_sync_with_a_partner_some_rounds_behind(void **state)
{
    struct net *net = linked_net(2, 50, true, net_seed(21));

    (void)state;
    net_round(net, 0, 4);
    net_settle(net, SECOND / 20);
    assert_true(net->node[0].in_round);
    uint64_t started = net->now_ns;
    for (uint64_t round = 1; round <= 4; round++) {
        net_round(net, 1, round);
        net_settle(net, SECOND / 100);
        assert_false(net->node[1].in_round);
    }
    assert_false(net->node[0].in_round);
    assert_true(net->now_ns - started < SECOND / 20);
    assert_int_equal(net_count(net, COUNTER(exchanges)), 2);
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_seed_model_needs_no_boot),
        cmocka_unit_test(test_sync_waits_for_the_partner),
        cmocka_unit_test(test_async_does_not_wait),
        cmocka_unit_test(test_tie_lower_id_wins),
        cmocka_unit_test(test_paused_partner_never_hangs_anyone),
        cmocka_unit_test(test_dead_partner_ends_the_round_at_once),
        cmocka_unit_test(test_boot_averages_in_blocks),
        cmocka_unit_test(test_restart_at_the_same_place_resumes),
        cmocka_unit_test(test_restart_one_behind_replays),
        cmocka_unit_test(test_restart_from_an_old_checkpoint_boots),
        cmocka_unit_test(test_restart_from_nothing_does_not_stall_sync),
        cmocka_unit_test(test_async_with_a_straggler),
        cmocka_unit_test(test_model_that_is_not_finite_stays_home),
        cmocka_unit_test(test_garbage_payload_changes_nothing),
        cmocka_unit_test(test_busy_and_then_gone_leaves_no_timer),
        cmocka_unit_test(test_late_question_does_not_settle_our_doubt),
        cmocka_unit_test(test_second_request_of_a_number_gets_no_answer),
        cmocka_unit_test(test_restart_with_a_request_that_was_replaced),
        cmocka_unit_test(test_lost_hello_is_repeated),
        cmocka_unit_test(test_answer_that_does_not_fit_is_asked_for_once),
        cmocka_unit_test(test_tiny_step_scale_leaves_corrections_finite),
        cmocka_unit_test(test_many_parked_requests_are_all_answered),
        cmocka_unit_test(test_record_with_an_impossible_packet_is_refused),
        cmocka_unit_test(test_refused_message_does_not_hide_the_end_of_a_round),
        cmocka_unit_test(test_lost_decision_to_boot_is_told_again),
        cmocka_unit_test(test_edge_forgotten_at_its_beginning),
        cmocka_unit_test(test_sync_with_a_partner_some_rounds_behind),
        cmocka_unit_test(test_edge_begun_anew_keeps_its_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
