// The worker thread between its mailboxes: rounds, messages that break the protocol, edges of a checkpoint.
#include "node/mail.h"
#include "node/worker.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { D = 20 };

struct bench {
    float start[D], model[D], correction[D];
    struct gossip_exchange *exchange;
    struct node_mailbox *inbox, *loop, *learner;
    struct node_worker *worker;
};

static struct gossip_id id_of(uint8_t number)
{
    return (struct gossip_id){{number}};
}

static enum base_error no_checkpoint(void *context, const struct node_round *round, struct base_reason *why)
{
    (void)context;
    (void)round;
    return base_fail(why, BASE_EIO, "none in this test");
}

static void bench_create(struct bench *bench)
{
    struct gossip_exchange_options options = {.self = id_of(1),
                                              .parameters = D,
                                              .start = bench->start,
                                              .ratio = 0.5f,
                                              .values = COMPRESS_FP32,
                                              .drift_correction = true,
                                              .drift_gain = 2,
                                              .drift_limit = 0.25f,
                                              .deadline_floor_ns = 1000000,
                                              .deadline_ceiling_ns = 1000000000};
    struct base_reason why;
    *bench = (struct bench){0};
    assert_int_equal(gossip_exchange_create(&options, &bench->exchange, &why), BASE_OK);
    assert_int_equal(node_mailbox_create(64, &bench->inbox), BASE_OK);
    assert_int_equal(node_mailbox_create(64, &bench->loop), BASE_OK);
    assert_int_equal(node_mailbox_create(64, &bench->learner), BASE_OK);
}

static void bench_start(struct bench *bench, uint64_t forget_after_ns)
{
    struct node_worker_options options = {.exchange = bench->exchange,
                                          .self = id_of(1),
                                          .topology = TOPOLOGY_RING,
                                          .forget_after_ns = forget_after_ns,
                                          .inbox = bench->inbox,
                                          .loop = bench->loop,
                                          .learner = bench->learner,
                                          .checkpoint = no_checkpoint};
    assert_int_equal(node_worker_start(&options, &bench->worker), BASE_OK);
}

static void post(struct bench *bench, struct node_mail *mail)
{
    assert_int_equal(node_mailbox_post(bench->inbox, mail), BASE_OK);
}

static void bench_destroy(struct bench *bench)
{
    post(bench, node_mail_new(NODE_MAIL_STOP));
    node_worker_join(bench->worker);
    gossip_exchange_destroy(bench->exchange);
    node_mailbox_destroy(bench->inbox, node_mail_free);
    node_mailbox_destroy(bench->loop, node_mail_free);
    node_mailbox_destroy(bench->learner, node_mail_free);
}

static void settle_round(struct bench *bench, uint64_t number, bool checkpoint)
{
    struct node_round round = {.round = number,
                               .meets = true,
                               .step_scale = 0.1f,
                               .model = bench->model,
                               .correction = bench->correction,
                               .checkpoint = checkpoint};
    struct node_mail *mail = node_mail_new(NODE_MAIL_ROUND);
    mail->round = &round;
    post(bench, mail);
    mail = node_mailbox_take(bench->learner, UINT64_MAX);
    assert_int_equal(mail->kind, NODE_MAIL_ROUND_DONE);
    assert_ptr_equal(mail->round, &round);
    assert_int_equal(round.checkpoint_error, checkpoint ? BASE_EIO : BASE_OK);
    node_mail_free(mail);
}

static void import_edge(struct bench *bench)
{
    float correction[D];
    static const uint8_t nothing_open[2];
    for (size_t i = 0; i < D; i++)
        correction[i] = 1;
    struct gossip_edge_record record = {.peer = id_of(2),
                                        .sequence = 3,
                                        .booted = D,
                                        .reference = bench->start,
                                        .correction = correction,
                                        .transactions = nothing_open,
                                        .transactions_bytes = sizeof nothing_open};
    assert_int_equal(gossip_exchange_import(bench->exchange, &record), BASE_OK);
}

static void a_round_alone_ends(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    bench_start(&bench, UINT64_MAX);
    settle_round(&bench, 1, false);
    settle_round(&bench, 2, true); // a checkpoint that fails is told, and nothing more
    bench_destroy(&bench);
}

// The peer of an edge died while this node was away: its pull ends when it has been away for too long.
static void an_edge_whose_peer_never_comes_is_forgotten(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    import_edge(&bench);
    bench_start(&bench, 0);
    settle_round(&bench, 1, false);
    assert_true(bench.correction[0] == 0);
    bench_destroy(&bench);
}

static void an_edge_whose_peer_may_still_come_is_kept(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    import_edge(&bench);
    bench_start(&bench, UINT64_MAX);
    settle_round(&bench, 1, false);
    assert_true(bench.correction[0] == 1);
    bench_destroy(&bench);
}

static void a_message_that_breaks_the_protocol_closes_its_link(void **state)
{
    struct bench bench;
    struct node_mail *mail = node_mail_new(NODE_MAIL_MESSAGE);
    (void)state;
    bench_create(&bench);
    bench_start(&bench, UINT64_MAX);
    mail->peer = id_of(2);
    mail->bytes = calloc(1, 4);
    assert_non_null(mail->bytes);
    mail->n_bytes = 4;
    post(&bench, mail);
    mail = node_mailbox_take(bench.loop, UINT64_MAX);
    assert_int_equal(mail->kind, NODE_MAIL_CLOSE);
    assert_int_equal(mail->peer.bytes[0], 2);
    node_mail_free(mail);
    bench_destroy(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_alone_ends),
        cmocka_unit_test(an_edge_whose_peer_never_comes_is_forgotten),
        cmocka_unit_test(an_edge_whose_peer_may_still_come_is_kept),
        cmocka_unit_test(a_message_that_breaks_the_protocol_closes_its_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
