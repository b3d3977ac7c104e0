// The worker as donor and as joiner: a model that is given block by block, a model that is fetched, and
// donors that lie or deliver nothing.
#include "node_worker_world.h"

static void post_donors_of(struct bench *bench, const uint8_t *donors, size_t n, struct node_progress limits)
{
    struct gossip_id *ids = calloc(n + 1, sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < n; i++)
        ids[i] = id_of(donors[i]);
    post_life(
        bench,
        (struct gossip_life_action){
            .kind = GOSSIP_LIFE_ASK, .ids = ids, .count = n, .round = limits.round, .step = limits.step},
        ids);
}

static void post_donors(struct bench *bench, const uint8_t *donors, size_t n)
{
    post_donors_of(bench, donors, n, (struct node_progress){.round = 30, .step = 300});
}

// The next event of one kind for the life.
static struct gossip_life_event take_live(struct bench *bench, enum gossip_life_event_kind kind)
{
    for (;;) {
        struct node_message *message = take(bench, NODE_MESSAGE_LIVE);
        const struct gossip_life_event event = message->as.live;
        node_message_free(message);
        if (event.kind == kind)
            return event;
    }
}

static void take_fetched(struct bench *bench, bool complete)
{
    assert_int_equal(take_live(bench, GOSSIP_LIFE_FETCHED).ok, complete);
}

static void post_ask(struct bench *bench, uint8_t from, uint8_t part, uint32_t block)
{
    struct gossip_message received = {.kind = GOSSIP_SNAPSHOT_ASK, .as.ask = {.part = part, .block = block}};
    post_message(bench, from, &received);
}

static void check_given(struct bench *bench, uint8_t to, uint8_t part, float value, uint64_t round)
{
    struct gossip_message received;
    struct node_message *message = take_sent(bench, GOSSIP_SNAPSHOT_TELL, to, &received);
    const struct gossip_snapshot_tell *tell = &received.as.tell;
    float first;
    memcpy(&first, tell->values, sizeof first);
    assert_int_equal(tell->part, part);
    assert_int_equal(tell->parts, 3); // model and outer momentum
    assert_int_equal(tell->round, round);
    assert_int_equal(tell->step, 10 * round);
    assert_true(first == value);
    node_message_free(message);
}

static void a_block_is_given_at_the_next_rendezvous(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    bench_start(&bench);
    bench.model[0] = 7;
    bench.outer[0] = 8;
    post_ask(&bench, 2, GOSSIP_PART_MODEL, 0);
    post_ask(&bench, 3, GOSSIP_PART_OUTER, 0);
    settle_round(&bench, 4, false);
    check_given(&bench, 2, GOSSIP_PART_MODEL, 7, 4);
    check_given(&bench, 3, GOSSIP_PART_OUTER, 8, 4);
    bench.model[0] = 9;
    post_ask(&bench, 4, GOSSIP_PART_MODEL, 0); // from the same copy, or a new one if this machine is slow
    settle_round(&bench, 5, false);
    node_message_free(take(&bench, NODE_MESSAGE_SEND));
    bench_destroy(&bench);
}

// A step may last minutes.
static void a_learner_that_computes_also_gives_its_model(void **state)
{
    for (int first = 0; first < 2; first++) {
        struct bench bench;
        (void)state;
        bench_create(&bench);
        bench_start(&bench);
        bench.outer[0] = 8;
        struct node_round round = round_of(&bench, first ? 0 : 4);
        if (first) { // before the first boundary
            round.kind = NODE_ROUND_OFFER;
            round.at.meet.meets = false;
        }
        post_round(&bench, &round);
        take_round_done(&bench, &round);
        bench.outer[0] = 0; // no longer the worker's
        post_ask(&bench, 2, GOSSIP_PART_OUTER, 0);
        check_given(&bench, 2, GOSSIP_PART_OUTER, 8, first ? 0 : 4);
        bench_destroy(&bench);
    }
}

// The learner has finished, or waits: no rendezvous comes.
static void a_learner_that_stands_still_also_gives_its_model(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    bench_start(&bench);
    bench.model[0] = 7;
    bench.outer[0] = 8;
    struct node_round round = round_of(&bench, 5);
    round.at.meet.meets = false; // round 5 was the last one
    round.step = 50;
    post_round(&bench, &round);
    take_round_done(&bench, &round);
    bench.outer[0] = 0; // no longer the worker's
    post_ask(&bench, 2, GOSSIP_PART_OUTER, 0);
    check_given(&bench, 2, GOSSIP_PART_OUTER, 8, 5);
    post_ask(&bench, 2, GOSSIP_PART_MODEL, 0);
    check_given(&bench, 2, GOSSIP_PART_MODEL, 7, 5);
    bench_destroy(&bench);
}

static void a_question_for_what_is_not_there_closes_its_link(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    bench_start(&bench);
    post_ask(&bench, 2, GOSSIP_PART_MODEL, BLOCKS);
    struct node_message *message = take(&bench, NODE_MESSAGE_CLOSE);
    assert_int_equal(message->peer.bytes[0], 2);
    node_message_free(message);
    bench_destroy(&bench);
}

static float donated(uint8_t part, size_t index)
{
    return (float)(index % 100) + 1000 * (float)part;
}

// Answers one question as `from`, or takes it without an answer.
static void answer(struct bench *bench, uint8_t from, bool answers)
{
    struct gossip_message ask, block = {.kind = GOSSIP_SNAPSHOT_TELL};
    struct node_message *message = take_sent(bench, GOSSIP_SNAPSHOT_ASK, from, &ask);
    uint8_t part = ask.as.ask.part;
    size_t first = (size_t)ask.as.ask.block * LIMIT_SNAPSHOT_BLOCK, count = first ? 20 : LIMIT_SNAPSHOT_BLOCK;
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = donated(part, first + i);
    block.as.tell = (struct gossip_snapshot_tell){.snapshot = 1,
                                                  .parts = 3,
                                                  .part = part,
                                                  .block = ask.as.ask.block,
                                                  .round = 30,
                                                  .step = 300,
                                                  .hash = base_hash_vector(values, count),
                                                  .values = (const uint8_t *)values,
                                                  .values_bytes = (uint32_t)(count * sizeof *values)};
    if (answers)
        post_message(bench, from, &block);
    free(values);
    node_message_free(message);
}

static void check_fetched(struct bench *bench, struct node_round *round)
{
    take_fetched(bench, true);
    take_round_done(bench, round);
    assert_true(round->done);
    assert_int_equal(round->round, 30);
    assert_int_equal(round->step, 300);
    for (size_t i = 0; i < D; i++) {
        assert_true(bench->model[i] == donated(GOSSIP_PART_MODEL, i));
        assert_true(bench->outer[i] == donated(GOSSIP_PART_OUTER, i));
        assert_true(bench->correction[i] == 0);
    }
}

static void begin_fetch(struct bench *bench, struct node_round *round)
{
    *round = round_of(bench, 1);
    round->kind = NODE_ROUND_FETCH;
    post_round(bench, round);
    take_live(bench, GOSSIP_LIFE_WANTS);
}

static void a_model_is_fetched_and_its_edges_begin_again(void **state)
{
    struct bench bench;
    struct node_round round;
    struct gossip_message received;
    (void)state;
    bench_create(&bench);
    import_edge(&bench); // from before
    bench_start(&bench);
    post_view(&bench, 2);
    post_peer(&bench, NODE_MESSAGE_LINK_UP, 2);
    node_message_free(take_sent(&bench, GOSSIP_HELLO, 2, &received));
    assert_int_equal(received.as.hello.sequence, 3);
    begin_fetch(&bench, &round);
    post_ask(&bench, 2, GOSSIP_PART_MODEL, 0); // it has nothing to give meanwhile
    post_donors(&bench, (const uint8_t[]){2}, 1);
    for (size_t i = 0; i < 2 * BLOCKS; i++)
        answer(&bench, 2, true);
    node_message_free(take_sent(&bench, GOSSIP_HELLO, 2, &received));
    assert_int_equal(received.as.hello.sequence, 0);
    check_fetched(&bench, &round);
    assert_memory_equal(gossip_exchange_model(bench.exchange), bench.model, D * sizeof(float));
    bench_destroy(&bench);
}

static void questions_that_arrive_during_a_fetch_are_answered_afterwards(void **state)
{
    struct bench bench;
    struct node_round round;
    struct gossip_message received;
    (void)state;
    bench_create(&bench);
    bench_start(&bench);
    post_ask(&bench, 2, GOSSIP_PART_MODEL, 0); // waits for a rendezvous: a fetch comes instead
    begin_fetch(&bench, &round);
    post_ask(&bench, 3, GOSSIP_PART_MODEL, 0); // there is nothing to give now
    post_donors(&bench, (const uint8_t[]){4}, 1);
    for (size_t i = 0; i < 2 * BLOCKS; i++)
        answer(&bench, 4, true);
    check_fetched(&bench, &round);
    settle_round(&bench, 31, false);
    for (uint8_t to = 2; to <= 3; to++) {
        node_message_free(take_sent(&bench, GOSSIP_SNAPSHOT_TELL, to, &received));
        assert_int_equal(received.as.tell.round, 31);
    }
    bench_destroy(&bench);
}

static void another_donor_takes_over(void **state)
{
    struct bench bench;
    struct node_round round;
    (void)state;
    for (int how = 0; how < 3; how++) {
        const uint8_t then = how == 2 ? 2 : 3;
        const uint64_t begun_ns = node_clock_ns();
        bench_create(&bench);
        bench_start(&bench);
        begin_fetch(&bench, &round);
        post_donors(&bench, (const uint8_t[]){2}, 1);
        answer(&bench, 2, true);
        answer(&bench, 2, true);
        answer(&bench, 2, false); // both are lost with their donor
        answer(&bench, 2, false);
        if (how == 0)
            post_peer(&bench, NODE_MESSAGE_LINK_DOWN, 2);
        if (how == 2)
            post_peer(&bench, NODE_MESSAGE_LINK_UP,
                      2);              // or another link replaces the one over which it was asked
        post_donors(&bench, &then, 1); // or it is no longer a donor
        answer(&bench, then, true);
        answer(&bench, then, true);
        assert_true(node_clock_ns() - begun_ns < 4 * NODE_SECOND_NS); // well before the timeout of 5 s
        check_fetched(&bench, &round);
        bench_destroy(&bench);
    }
}

static void a_donor_that_lies_is_closed(void **state)
{
    struct bench bench;
    struct node_round round;
    struct gossip_message received;
    float value = 1;
    (void)state;
    bench_create(&bench);
    bench_start(&bench);
    begin_fetch(&bench, &round);
    post_donors(&bench, (const uint8_t[]){2}, 1);
    node_message_free(take_sent(&bench, GOSSIP_SNAPSHOT_ASK, 2, &received));
    received = (struct gossip_message){
        .kind = GOSSIP_SNAPSHOT_TELL,
        .as.tell = {
            .snapshot = 1, .parts = 3, .values = (const uint8_t *)&value, .values_bytes = sizeof value}};
    post_message(&bench, 2, &received);
    struct node_message *message = take(&bench, NODE_MESSAGE_CLOSE);
    assert_int_equal(message->peer.bytes[0], 2);
    node_message_free(message);
    post_donors(&bench, (const uint8_t[]){2, 3}, 2);
    for (size_t i = 0; i < 2 * BLOCKS; i++)
        answer(&bench, 3, true);
    check_fetched(&bench, &round);
    bench_destroy(&bench);
}

// Membership reports how far the cluster may be; `answer` claims round 30 and step 300.
static void a_donor_beyond_the_cluster_is_closed(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        const struct node_progress limits = {.round = how ? 29 : 30, .step = how ? 300 : 299};
        struct bench bench;
        struct node_round round;
        bench_create(&bench);
        bench_start(&bench);
        begin_fetch(&bench, &round);
        post_donors_of(&bench, (const uint8_t[]){2}, 1, limits);
        answer(&bench, 2, true);
        struct node_message *message = take(&bench, NODE_MESSAGE_CLOSE);
        assert_int_equal(message->peer.bytes[0], 2);
        node_message_free(message);
        bench_destroy(&bench);
    }
}

static void a_fetch_can_be_ended(void **state)
{
    struct bench bench;
    struct node_round round;
    (void)state;
    bench_create(&bench);
    bench_start(&bench);
    begin_fetch(&bench, &round);
    post_donors(&bench, (const uint8_t[]){2}, 1);
    answer(&bench, 2, true);
    post_life(&bench, (struct gossip_life_action){.kind = GOSSIP_LIFE_END_FETCH}, NULL);
    take_round_done(&bench, &round);
    assert_false(round.done);
    take_fetched(&bench, false);
    begin_fetch(&bench, &round); // the thread ends in the middle of another fetch
    bench_destroy(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_given_at_the_next_rendezvous),
        cmocka_unit_test(a_learner_that_computes_also_gives_its_model),
        cmocka_unit_test(a_learner_that_stands_still_also_gives_its_model),
        cmocka_unit_test(a_question_for_what_is_not_there_closes_its_link),
        cmocka_unit_test(a_model_is_fetched_and_its_edges_begin_again),
        cmocka_unit_test(questions_that_arrive_during_a_fetch_are_answered_afterwards),
        cmocka_unit_test(another_donor_takes_over),
        cmocka_unit_test(a_donor_that_lies_is_closed),
        cmocka_unit_test(a_donor_beyond_the_cluster_is_closed),
        cmocka_unit_test(a_fetch_can_be_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
