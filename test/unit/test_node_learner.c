// The learner thread between its mailboxes: the orders of the loop, and when they take effect.
#include "test/support/learner_bench.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void pass_round(struct bench *bench, uint64_t number, bool meets, uint64_t step)
{
    struct node_round *round = take_round(bench);
    assert_int_equal(round->at.meet.round, number);
    assert_int_equal(round->at.meet.meets, meets);
    assert_int_equal(round->step, step);
    assert_int_equal(round->kind, NODE_ROUND_MEET);
    answer(bench, round);
}

// A snapshot of ones.
static void give_snapshot(struct bench *bench, uint64_t done, uint64_t step)
{
    struct node_round *round = take_round(bench);
    assert_int_equal(round->kind, NODE_ROUND_FETCH);
    assert_non_null(round->at.vectors.second_moment);
    // an incomplete snapshot must not be in the node's own vectors
    assert_ptr_not_equal(round->at.vectors.outer, bench->outer);
    for (size_t i = 0; i < D; i++)
        round->at.vectors.model[i] = round->at.vectors.second_moment[i] = round->at.vectors.outer[i] = 1;
    round->round = done;
    round->step = step;
    round->done = true;
    answer(bench, round);
}

static void wait_for_state(struct bench *bench, const char *state)
{
    for (bool come = false; !come;) {
        struct node_message *message = take_told(bench, NODE_MESSAGE_PROGRESS);
        come = strcmp(message->progress.state, state) == 0;
        node_message_free(message);
    }
}

// Own work is what was computed here; the step may be another node's.
static void linger_with(struct bench *bench, uint64_t step, uint64_t own_steps)
{
    for (bool come = false; !come;) {
        struct node_message *message = take_told(bench, NODE_MESSAGE_PROGRESS);
        const struct node_progress p = message->progress;
        come = strcmp(p.state, "lingering") == 0;
        assert_true(!come || (p.step == step && p.own_steps == own_steps));
        assert_true(!come || (p.own_examples > 0) == (own_steps > 0));
        node_message_free(message);
    }
}

// From the last step to the end; a node that is left alone may have an earlier last step.
static void pass_end_at(struct bench *bench, uint64_t done, uint64_t step, uint64_t own_steps)
{
    pass_round(bench, done, false, step);
    linger_with(bench, step, own_steps);
    node_message_free(take_told(bench, NODE_MESSAGE_FINISHED));
    order(bench, GOSSIP_ORDER_LEAVE, false);
    struct node_round *round = take_round(bench);
    assert_true(round->checkpoint && round->at.meet.last && !round->at.meet.meets);
    assert_int_equal(round->step, step);
    answer(bench, round);
    struct node_message *left = take_told(bench, NODE_MESSAGE_LEFT);
    assert_int_equal(left->as.left.exit_status, 0);
    node_message_free(left);
}

static void pass_end(struct bench *bench, uint64_t done, uint64_t own_steps)
{
    pass_end_at(bench, done, STEPS, own_steps);
}

static void a_learner_trains_to_the_last_step(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    order(&bench, GOSSIP_ORDER_START, false);
    for (uint64_t round = 1; round <= STEPS / LOCAL; round++)
        pass_round(&bench, round, true, LOCAL * round);
    pass_end(&bench, STEPS / LOCAL, STEPS);
    assert_int_equal(bench.offers, 1); // before the first steps
    bench_destroy(&bench);
}

// The mean of all final models has what this node has learned in it.
static void a_merged_model_is_not_an_adopted_one(void **state)
{
    struct bench bench;
    struct node_progress latest = {0};
    (void)state;
    bench_create(&bench);
    order(&bench, GOSSIP_ORDER_START, false);
    for (uint64_t round = 1; round <= STEPS / LOCAL; round++)
        pass_round(&bench, round, true, LOCAL * round);
    pass_round(&bench, STEPS / LOCAL, false, STEPS);
    node_message_free(take_told(&bench, NODE_MESSAGE_FINISHED));
    order(&bench, GOSSIP_ORDER_MERGE, false);
    struct node_round *round = take_round(&bench);
    assert_int_equal(round->kind, NODE_ROUND_MERGE);
    round->done = true;
    answer(&bench, round);
    order(&bench, GOSSIP_ORDER_LEAVE, false);
    answer(&bench, take_round(&bench));
    for (bool left = false; !left;) {
        struct node_message *message = node_mailbox_take(bench.boxes.loop, UINT64_MAX);
        left = message->kind == NODE_MESSAGE_LEFT;
        if (message->kind == NODE_MESSAGE_PROGRESS)
            latest = message->progress;
        node_message_free(message);
    }
    assert_true(latest.merged);
    assert_int_equal(latest.adopted_step, 0);
    assert_int_equal(latest.adopted.why, NODE_ADOPTED_MERGED);
    assert_int_equal(latest.adopted.step, STEPS);
    bench_destroy(&bench);
}

static void a_late_joiner_continues_at_the_step_of_the_snapshot(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    order(&bench, GOSSIP_ORDER_START, true);
    wait_for_state(&bench, "fetching");
    give_snapshot(&bench, 31, 90);
    struct node_round *round = take_round(&bench);
    assert_int_equal(bench.offers, 1); // the model that it fetched
    wait_for_state(&bench, "training");
    assert_int_equal(round->at.meet.round, 32);
    assert_int_equal(round->step, 95);
    assert_true(round->at.meet.step_scale > 0.0249f &&
                round->at.meet.step_scale < 0.0251f); // at half the rate, by the schedule
    assert_true(round->at.vectors.model[0] > 0.2f &&
                round->at.vectors.model[0] < 0.8f);         // 1 - outer momentum * 1, and a few steps
    assert_true(round->at.vectors.second_moment[0] > 0.9f); // if it had begun again it would be near 0
    answer(&bench, round);
    pass_round(&bench, 33, true, 100);
    pass_end(&bench, 33, 2 * LOCAL);
    bench_destroy(&bench);
}

static void a_snapshot_of_the_last_step_ends_training(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    order(&bench, GOSSIP_ORDER_START, true);
    give_snapshot(&bench, 20, STEPS + 7);
    pass_end(&bench, 20, 0);
    bench_destroy(&bench);
}

static void orders_take_effect_at_the_next_boundary(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    order(&bench, GOSSIP_ORDER_START, false);
    struct node_round *round = take_round(&bench);
    order(&bench, GOSSIP_ORDER_PAUSE, true); // in the middle of a rendezvous: its wait ends
    take_give_up(&bench);
    answer(&bench, round);
    pass_round(&bench, 1, false, LOCAL);
    wait_for_state(&bench, "paused");
    order(&bench, GOSSIP_ORDER_PAUSE, false);
    round = take_round(&bench);
    assert_false(round->at.meet.meets);
    answer(&bench, round);
    round = take_round(&bench);
    assert_int_equal(round->step, 2 * LOCAL);
    order(&bench, GOSSIP_ORDER_PAUSE, true);
    order(&bench, GOSSIP_ORDER_FETCH, false);
    take_give_up(&bench);
    answer(&bench, round);
    give_snapshot(&bench, 40, 80); // first the snapshot, then the pause
    pass_round(&bench, 40, false, 80);
    wait_for_state(&bench, "paused");
    order(&bench, GOSSIP_ORDER_STOP, false);
    round = take_round(&bench);
    assert_true(round->checkpoint);
    answer(&bench, round);
    node_message_free(take_told(&bench, NODE_MESSAGE_LEFT));
    bench_destroy(&bench);
}

static void a_node_that_is_left_alone_ends_at_the_next_boundary(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    order(&bench, GOSSIP_ORDER_START, false);
    pass_round(&bench, 1, true, LOCAL);
    struct node_round *round = take_round(&bench);
    order(&bench, GOSSIP_ORDER_ALONE, false); // in the middle of a rendezvous
    answer(&bench, round);
    pass_end_at(&bench, 2, 2 * LOCAL, 2 * LOCAL);
    bench_destroy(&bench);
}

static void a_node_that_fetches_and_is_left_alone_takes_no_step(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    order(&bench, GOSSIP_ORDER_START, true);
    order(&bench, GOSSIP_ORDER_ALONE, false);
    give_snapshot(&bench, 18, 90);
    pass_end_at(&bench, 18, 90, 0);
    bench_destroy(&bench);
}

static void after_the_last_step_a_node_is_not_left_alone(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    order(&bench, GOSSIP_ORDER_START, false);
    for (uint64_t round = 1; round < STEPS / LOCAL; round++)
        pass_round(&bench, round, true, LOCAL * round);
    struct node_round *last = take_round(&bench);
    order(&bench, GOSSIP_ORDER_ALONE, false);
    answer(&bench, last);
    pass_end(&bench, STEPS / LOCAL, STEPS);
    bench_destroy(&bench);
}

static void a_stop_ends_a_fetch_and_leaves_no_checkpoint(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    order(&bench, GOSSIP_ORDER_START, true);
    struct node_round *round = take_round(&bench);
    order(&bench, GOSSIP_ORDER_STOP, false);
    node_message_free(boxes_take(&bench.boxes, NODE_MESSAGE_GIVE_UP));
    round->done = false;
    answer(&bench, round);
    struct node_message *message = take_told(&bench, NODE_MESSAGE_LEFT);
    assert_int_equal(message->as.left.exit_status, 0);
    node_message_free(message);
    assert_null(node_mailbox_take(bench.boxes.worker, 0));
    bench_destroy(&bench);
}

static void a_failed_fetch_is_reported(void **state)
{
    struct bench bench;
    (void)state;
    bench_create(&bench);
    order(&bench, GOSSIP_ORDER_START, true);
    answer(&bench, take_round(&bench)); // for example out of memory
    struct node_message *message = take_told(&bench, NODE_MESSAGE_LEFT);
    assert_int_equal(message->as.left.exit_status, 1);
    node_message_free(message);
    bench_destroy(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_learner_trains_to_the_last_step),
        cmocka_unit_test(a_merged_model_is_not_an_adopted_one),
        cmocka_unit_test(a_late_joiner_continues_at_the_step_of_the_snapshot),
        cmocka_unit_test(a_snapshot_of_the_last_step_ends_training),
        cmocka_unit_test(orders_take_effect_at_the_next_boundary),
        cmocka_unit_test(a_node_that_is_left_alone_ends_at_the_next_boundary),
        cmocka_unit_test(a_node_that_fetches_and_is_left_alone_takes_no_step),
        cmocka_unit_test(after_the_last_step_a_node_is_not_left_alone),
        cmocka_unit_test(a_stop_ends_a_fetch_and_leaves_no_checkpoint),
        cmocka_unit_test(a_failed_fetch_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
