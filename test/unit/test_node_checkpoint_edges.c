// Edges in checkpoints: an exchange whose end was lost in a crash is settled after the restart, bit for bit.
#include "checkpoint_net.h"

#include <math.h>

// `lost`: the kind of message at which the crash happens. If it is the answer, the partner has committed.
static void crash_and_restart(struct world *world, enum gossip_message_kind lost, size_t replays,
                              size_t discards)
{
    struct net net = {0};
    net_make(&net);
    exchange_some(&net, 8);
    const uint64_t resyncs = info_of(&net, 1, 0).resyncs, sequence = info_of(&net, 0, 1).sequence;
    net.lost = lost;
    begin_round(&net, 0, 1);
    deliver_all(&net);
    net.lost = 0;
    write_here(world, &net);
    float *published = malloc(net.parameters * sizeof(float));
    assert_non_null(published);
    memcpy(published, gossip_exchange_model(net.exchange[0]), net.parameters * sizeof(float));
    step(&net, 1, &(struct gossip_exchange_event){.kind = GOSSIP_EXCHANGE_LINK_DOWN, .peer = id_of(0)});
    step(&net, 2, &(struct gossip_exchange_event){.kind = GOSSIP_EXCHANGE_LINK_DOWN, .peer = id_of(0)});

    restart(world, &net);
    assert_memory_equal(gossip_exchange_model(net.exchange[0]), published, net.parameters * sizeof(float));
    assert_int_equal(gossip_exchange_edges(net.exchange[0]), 2);
    assert_int_equal(info_of(&net, 0, 1).sequence, sequence);
    link_ends(&net, 0, 1, GOSSIP_EXCHANGE_LINK_UP);
    link_ends(&net, 0, 2, GOSSIP_EXCHANGE_LINK_UP);
    check_both_ends(&net, 1);
    check_both_ends(&net, 2);
    assert_int_equal(info_of(&net, 1, 0).resyncs, resyncs);
    assert_int_equal(info_of(&net, 0, 1).replays + info_of(&net, 1, 0).replays, replays);
    assert_int_equal(info_of(&net, 0, 1).discards + info_of(&net, 1, 0).discards, discards);
    assert_int_equal(info_of(&net, 0, 1).sequence, sequence + replays);
    begin_round(&net, 0, 1);
    deliver_all(&net);
    check_both_ends(&net, 1);
    assert_int_equal(info_of(&net, 0, 1).sequence, sequence + replays + 1);
    free(published);
    net_free(&net);
}

static void an_answer_lost_in_the_crash_is_replayed(void **state)
{
    crash_and_restart(*state, GOSSIP_XACK, 1, 0);
}

static void a_request_lost_in_the_crash_is_discarded(void **state)
{
    crash_and_restart(*state, GOSSIP_XCHG, 0, 1);
}

static void edges_are_the_same_after_writing_and_reading(void **state)
{
    struct world *world = *state;
    struct base_reason why;
    struct net net = {0};
    uint8_t *first, *second;
    size_t first_bytes, second_bytes;
    net_make(&net);
    exchange_some(&net, 6);
    write_here(world, &net);
    const char *path = path_of(world, "checkpoint-0.safetensors");
    assert_int_equal(base_file_read(path, 1 << 24, &first, &first_bytes, &why), BASE_OK);
    restart(world, &net);
    write_here(world, &net);
    assert_int_equal(base_file_read(path, 1 << 24, &second, &second_bytes, &why), BASE_OK);
    assert_int_equal(first_bytes, second_bytes);
    assert_memory_equal(first, second, first_bytes);
    free(first);
    free(second);
    net_free(&net);
}

static void edges_in_bf16_are_written_and_read(void **state)
{
    in_bf16 = true;
    edges_are_the_same_after_writing_and_reading(state);
    crash_and_restart(*state, GOSSIP_XACK, 1, 0);
    crash_and_restart(*state, GOSSIP_XCHG, 0, 1);
    in_bf16 = false;
}

// average.reference was changed: the edges begin again.
static void edges_of_the_other_form_are_left_out(void **state)
{
    struct world *world = *state;
    for (unsigned of = 0; of < 2; of++) {
        struct net net = {0};
        in_bf16 = of;
        net_make(&net);
        exchange_some(&net, 4);
        write_here(world, &net);
        in_bf16 = !of;
        restart(world, &net);
        assert_int_equal(gossip_exchange_edges(net.exchange[0]), 0);
        net_free(&net);
    }
    in_bf16 = false;
}

static void the_pulls_of_dead_nodes_are_written_and_read(void **state)
{
    struct world *world = *state;
    struct net net = {0};
    char hex[GOSSIP_ID_HEX], name[128], log_path[128];
    const struct gossip_id two = id_of(2);
    net_make(&net);
    exchange_some(&net, 6);
    step(&net, 0, &(struct gossip_exchange_event){.kind = GOSSIP_EXCHANGE_FORGET, .peer = two, .dead = true});
    assert_int_equal(gossip_exchange_orphans(net.exchange[0]), 1);
    const size_t bytes = net.parameters * sizeof(float);
    float *pull = malloc(bytes);
    assert_non_null(pull);
    memcpy(pull, gossip_exchange_correction(net.exchange[0]), bytes);
    write_here(world, &net);
    restart(world, &net);
    assert_int_equal(gossip_exchange_edges(net.exchange[0]), 1);
    assert_int_equal(gossip_exchange_orphans(net.exchange[0]), 1);
    assert_memory_equal(gossip_exchange_correction(net.exchange[0]), pull, bytes);
    assert_int_equal(gossip_exchange_orphan_at(net.exchange[0], 0).left, 40);

    gossip_id_hex(&two, hex);
    snprintf(name, sizeof name, "kept.%s", hex);
    rewrite(path_of(world, "checkpoint-0.safetensors"), name, "70", NULL);
    restart(world, &net);
    assert_int_equal(gossip_exchange_orphan_at(net.exchange[0], 0).left, 70);
    rewrite(path_of(world, "checkpoint-0.safetensors"), name, "soon", NULL);
    restart(world, &net);
    assert_int_equal(gossip_exchange_orphans(net.exchange[0]), 0);
    rewrite(path_of(world, "checkpoint-0.safetensors"), name, "40", NULL);
    restart(world, &net);
    snprintf(name, sizeof name, "kept.%s.correction", hex);
    snprintf(log_path, sizeof log_path, "%s/log", world->directory);
    write_here(world, &net);
    rewrite(path_of(world, "checkpoint-0.safetensors"), NULL, NULL, name); // of another shape
    int stream = capture_begin(2, log_path);
    restart(world, &net);
    char *log = capture_end(2, stream, log_path);
    assert_non_null(strstr(log, "checkpoint_kept"));
    assert_non_null(strstr(log, hex));
    assert_int_equal(gossip_exchange_orphans(net.exchange[0]), 0);
    assert_int_equal(gossip_exchange_edges(net.exchange[0]), 1);
    free(log);
    free(pull);
    net_free(&net);
}

static void a_damaged_edge_is_left_out(void **state)
{
    struct world *world = *state;
    struct net net = {0};
    char hex[GOSSIP_ID_HEX], key[96], name[128], log_path[128];
    const struct gossip_id one = id_of(1);
    net_make(&net);
    exchange_some(&net, 4);
    gossip_id_hex(&one, hex);
    snprintf(key, sizeof key, "edge.%s", hex);
    snprintf(name, sizeof name, "edge.%s.reference", hex);
    snprintf(log_path, sizeof log_path, "%s/log", world->directory);
    static const char *const numbers[] = {"1 2 3", "1 2 3 x", "1 2 99999999 4", "", NULL};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        write_here(world, &net);
        if (numbers[i])
            rewrite(path_of(world, "checkpoint-0.safetensors"), key, numbers[i], NULL);
        else
            rewrite(path_of(world, "checkpoint-0.safetensors"), NULL, NULL, name); // of another shape
        int stream = capture_begin(2, log_path);
        restart(world, &net);
        char *log = capture_end(2, stream, log_path);
        assert_non_null(strstr(log, "checkpoint_edge"));
        assert_non_null(strstr(log, hex));
        free(log);
        assert_int_equal(gossip_exchange_edges(net.exchange[0]), 1);
        assert_true(info_of(&net, 0, 2).sequence > 0);
        link_ends(&net, 0, 1, GOSSIP_EXCHANGE_LINK_UP); // the edge begins again
        link_ends(&net, 0, 2, GOSSIP_EXCHANGE_LINK_UP);
        assert_int_equal(gossip_exchange_edges(net.exchange[0]), 2);
    }
    net_free(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_answer_lost_in_the_crash_is_replayed, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(a_request_lost_in_the_crash_is_discarded, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(edges_are_the_same_after_writing_and_reading, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(edges_in_bf16_are_written_and_read, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(edges_of_the_other_form_are_left_out, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(the_pulls_of_dead_nodes_are_written_and_read, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_edge_is_left_out, world_set_up, world_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
