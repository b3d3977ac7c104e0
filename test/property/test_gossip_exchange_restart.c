// The exchange after restarts: from current and older checkpoints, from nothing, from a damaged record, and
// where one end has forgotten the edge.
#include "base/cursor.h"
#include "base/hash.h"
#include "exchange_cases.h"

#include <math.h>

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

static void free_saved(struct saved *saved)
{
    free(saved->model);
    free(saved->reference);
    free(saved->correction);
    free(saved->transactions);
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
    free_saved(saved);
}

static void test_a_restart_at_the_same_sequence_number_resumes(void **state)
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
    assert_int_equal(net_count(net, COUNTER(resyncs)), 0);
    assert_true(net_references_match(net));
    for (uint64_t round = 6; round <= 60; round++)
        net_round_all(net, round);
    assert_true(net_references_match(net));
    assert_true(net_energy(net) < 1e-8);
    net_destroy(net);
}

// The initiator dies between its request and the answer; the request is in its checkpoint: the answer is
// replayed.
static void test_a_restart_one_exchange_behind_is_replayed(void **state)
{
    struct net *net = linked_net(2, 200, false, net_seed(9));
    double before[200], after[200];

    (void)state;
    for (uint64_t round = 1; round <= 5; round++)
        net_round_all(net, round);
    net->node[1].paused = true;
    net->step_scale = 0; // its steps are undone: a request tells none
    net_round(net, 0, 6);
    struct saved saved = save(net, 0);
    net_mean(net, before);
    net->node[1].paused = false;
    net->node[0].paused = true;
    net_settle(net, SECOND); // node 1 commits and answers; the answer is lost with node 0
    net_unlink(net, 0, 1);
    net->node[0].paused = false;
    restore(net, 0, &saved);
    net_link(net, 0, 1);
    net_settle(net, SECOND);
    net_mean(net, after);
    assert_int_equal(net_count(net, COUNTER(resyncs)), 0);
    assert_true(net_count(net, COUNTER(replays)) >= 1);
    assert_true(net_references_match(net));
    for (size_t j = 0; j < 200; j++)
        assert_true(fabs(before[j] - after[j]) < 1e-6);
    net_destroy(net);
}

static void test_a_restart_from_an_old_checkpoint_resyncs(void **state)
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
    assert_true(net_count(net, COUNTER(resyncs)) >= 2);
    for (uint64_t round = 10; round <= 60; round++)
        net_round_all(net, round);
    assert_true(net_references_match(net));
    assert_true(net_energy(net) < 1e-8);
    net_destroy(net);
}

// A node that lost everything and counts its rounds from 1 again delays no other.
static void test_a_restart_from_nothing_does_not_stall_sync(void **state)
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
    net->node[0].goes_on = 0;
    for (size_t i = 1; i < 3; i++)
        net_link(net, 0, i);
    net_settle(net, SECOND);
    for (unsigned ms = 0; ms < 400; ms++) {
        for (size_t i = 0; i < 4; i++)
            if (!net->node[i].in_round)
                net_round(net, i, i == 0 ? net->node[i].goes_on + 1 : net->node[i].round + 1);
        net_settle(net, SECOND / 2000);
        net->now_ns += SECOND / 2000;
    }
    for (size_t i = 0; i < 4; i++)
        assert_true(net->node[i].round > 50 + 300); // a round takes a millisecond
    net_settle(net, 3 * SECOND);
    assert_true(net_references_match(net));
    assert_true(net_energy(net) < 1e-6);
    net_destroy(net);
}

// A checkpoint holds an open request that was refused; another request then took its number and was
// committed. The answer to that one must not be applied to the request in the checkpoint.
static void test_a_restart_with_a_replaced_request_heals(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(18));

    (void)state;
    net->node[1].paused = true;
    net_round(net, 0, 1);
    struct saved saved = save(net, 0);
    net_unlink(net, 0, 1);
    net_round(net, 0, 2); // no partner in this round
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

// One end begins an edge again while its link and its request stay (neighbours change while a view grows): a
// HELLO from before the request does not discard it.
static void test_an_edge_that_begins_again_keeps_its_request(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(20));
    struct gossip_edge_info info;
    struct gossip_message early = {.kind = GOSSIP_HELLO};
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(1), .message = &early};

    (void)state;
    net_edge(net, 0, 1, &info);
    early.as.hello = (struct gossip_hello){
        .epoch = info.epoch, .reference_hash = base_hash_vector(info.reference, 50), .resync_offset = 50};
    net_round(net, 0, 1);
    net_tell(net, 0, GOSSIP_EXCHANGE_LINK_DOWN, 1);
    net_tell(net, 0, GOSSIP_EXCHANGE_LINK_UP, 1);
    assert_int_equal(net_step(net, 0, &event), BASE_OK);
    net_settle(net, 10 * SECOND); // node 1 commits the request, and its answer finds the request
    assert_int_equal(net_count(net, COUNTER(exchanges)), 2);
    assert_int_equal(net_count(net, COUNTER(resyncs)), 0);
    assert_int_equal(net_count(net, COUNTER(discards)), 0);
    assert_true(net_references_match(net));
    net_destroy(net);
}

// A record whose packet could not be sent again is refused like any damaged one.
static void test_a_record_with_an_invalid_packet_is_refused(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(28));
    struct gossip_exchange *fresh;
    struct base_reason why;

    (void)state;
    net_round(net, 0, 1);
    struct saved saved = save(net, 0);
    // Epoch and sequence, which must be those of the edge; standing; signs of the step scale and of the
    // weight, of limit and bound; offset of a sparse delta.
    static const size_t places[] = {1, 9, 25, 29, 33, 37, 41, 43};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        size_t flipped = places[i];
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

// Replaces the indices of the request by the hash of a list that neither end has.
static void take_indices_away(struct saved *saved)
{
    enum { DELTA_BYTES = 51, PAYLOAD = 59, HEADER_BYTES = 6, SAME_KEYS = 4, HASH_BYTES = 8 };
    uint8_t *at = saved->transactions, *packet = at + PAYLOAD;
    size_t entries = packet[2], value_bytes = kernels_section_bytes(KERNELS_INT8, entries);
    struct base_reader reader = base_reader_of(at + DELTA_BYTES, 4);
    size_t index_bytes = base_read_u32(&reader) - HEADER_BYTES - value_bytes;

    assert_true(entries > 0 && index_bytes >= 1);
    uint8_t *longer = calloc(1, saved->record.transactions_bytes + HASH_BYTES);
    assert_non_null(longer);
    memcpy(longer, at, PAYLOAD + HEADER_BYTES);
    longer[PAYLOAD] = (uint8_t)(KERNELS_INT8 | SAME_KEYS << 4);
    longer[PAYLOAD + 1] = 0;
    memcpy(longer + PAYLOAD + HEADER_BYTES + HASH_BYTES, packet + HEADER_BYTES + index_bytes,
           saved->record.transactions_bytes - PAYLOAD - HEADER_BYTES - index_bytes); // and all that follows
    struct base_writer writer = base_writer_of(longer + DELTA_BYTES, 4);
    base_write_u32(&writer, (uint32_t)(HEADER_BYTES + HASH_BYTES + value_bytes));
    saved->record.transactions_bytes += HASH_BYTES - index_bytes;
    saved->record.transactions = saved->transactions = longer;
    free(at);
}

// A request that its own end can no longer read: the replayed answer is not asked for again and again.
static void test_a_request_that_neither_end_can_read_begins_the_edge_again(void **state)
{
    struct net *net = linked_net(2, 200, false, net_seed(30));
    struct gossip_edge_info info;

    (void)state;
    net->forgets = true;
    net->node[1].paused = true;
    net_round(net, 0, 1);
    struct saved saved = save(net, 0);
    take_indices_away(&saved);
    net->node[1].paused = false;
    net->node[0].paused = true;
    net_settle(net, SECOND); // node 1 has committed
    net_unlink(net, 0, 1);
    net->node[0].paused = false;
    restore(net, 0, &saved);
    net_link(net, 0, 1);
    net_settle(net, 10 * SECOND);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(net_edge(net, i, !i, &info)->state, GOSSIP_EDGE_LIVE);
    assert_true(net_count(net, COUNTER(resyncs)) >= 2);
    assert_true(net_count(net, COUNTER(replays)) <= 2);
    assert_true(net_references_match(net));
    net_destroy(net);
}

// One end forgets an edge at its very beginning while messages of it are under way over a link that stays: an
// exchange that either end then commits is not the same one, though it has the same number.
static void test_an_edge_forgotten_at_its_beginning_heals(void **state)
{
    struct net *net = linked_net(2, 50, false, net_seed(22));
    struct gossip_edge_info info;
    struct gossip_message early = {.kind = GOSSIP_HELLO};
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = net_id(1), .message = &early};

    (void)state;
    net_edge(net, 0, 1, &info);
    early.as.hello = (struct gossip_hello){
        .epoch = info.epoch, .reference_hash = base_hash_vector(info.reference, 50), .resync_offset = 50};
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

// A request of another form than the state of its edge asks for: its answer would be applied to an edge that
// is not there yet.
static void test_a_request_of_another_form_is_refused(void **state)
{
    // its place in the transactions: after held, epoch, sequence, clock, ...
    enum { FORM = 1 + 3 * 8 + 1 + 4 * 4 };
    struct net *net = linked_net(2, 200, false, net_seed(24));
    struct gossip_exchange *fresh;
    struct base_reason why;

    (void)state;
    net_round(net, 0, 1);
    struct saved saved = save(net, 0);
    assert_int_equal(saved.transactions[0], 2);
    assert_int_equal(saved.transactions[FORM], GOSSIP_DELTA_SPARSE);
    for (int turn = 0; turn < 3; turn++) {
        struct gossip_exchange_options options = net->node[0].options;
        options.model = saved.model;
        assert_int_equal(gossip_exchange_create(&options, &fresh, &why), BASE_OK);
        saved.transactions[FORM] = turn == 1 ? GOSSIP_DELTA_BLOCK : GOSSIP_DELTA_SPARSE;
        saved.record.resync_offset = turn == 2 ? 0 : 200;
        assert_int_equal(gossip_exchange_import(fresh, &saved.record), turn == 0 ? BASE_OK : BASE_EFORMAT);
        assert_int_equal(gossip_exchange_edges(fresh), turn == 0);
        gossip_exchange_destroy(fresh);
    }
    free_saved(&saved);
    net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_restart_at_the_same_sequence_number_resumes),
        cmocka_unit_test(test_a_restart_one_exchange_behind_is_replayed),
        cmocka_unit_test(test_a_restart_from_an_old_checkpoint_resyncs),
        cmocka_unit_test(test_a_restart_from_nothing_does_not_stall_sync),
        cmocka_unit_test(test_a_restart_with_a_replaced_request_heals),
        cmocka_unit_test(test_an_edge_that_begins_again_keeps_its_request),
        cmocka_unit_test(test_a_record_with_an_invalid_packet_is_refused),
        cmocka_unit_test(test_a_request_of_another_form_is_refused),
        cmocka_unit_test(test_a_request_that_neither_end_can_read_begins_the_edge_again),
        cmocka_unit_test(test_an_edge_forgotten_at_its_beginning_heals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
