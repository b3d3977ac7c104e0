// Where a stop, a pause or a fetch ends a round or a wait, and how the node goes on after it.
#include "gossip_rounds_orders.h"

static void a_node_stops_at_a_round_boundary(void **state)
{
    (void)state;
    struct gossip_rounds rounds = started();
    pass_round(&rounds);
    want(&rounds, GOSSIP_ROUNDS_STEPS);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_STOP}); // in the middle of the steps
    gossip_rounds_stepped(&rounds, 10, 0.5f, GOSSIP_LEARNER_DONE);
    struct gossip_rounds_meet meet = want_meet(&rounds, 2);
    assert_true(meet.meets && meet.step_scale > 0.49f);
    gossip_rounds_met(&rounds, 2, true, false);
    want_adopt(&rounds, GOSSIP_LEARNER_EXCHANGED, 10);
    struct gossip_rounds_meet last = want_end(&rounds, 2, 0);
    assert_false(last.open);
}

static void a_stop_at_a_later_round_happens_in_that_round(void **state)
{
    (void)state;
    struct gossip_rounds rounds = started();
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_STOP, .round = 2});
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_STOP, .round = 3}); // another node stops later
    for (int i = 0; i < 3; i++)
        pass_round(&rounds);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_LEAVE});
    want_end(&rounds, 3, 0);
}

// Others may not have heard of the stop round.
static void a_node_stands_at_its_stop_round_until_it_may_leave(void **state)
{
    (void)state;
    struct gossip_rounds rounds = started();
    pass_round(&rounds);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_STOP, .round = 1}); // it already stands there
    want(&rounds, GOSSIP_ROUNDS_WAIT);
    assert_int_equal(rounds.state, GOSSIP_ROUNDS_TRAINING);
    assert_true(gossip_rounds_stand(&rounds) && gossip_rounds_least_stop(&rounds) == 1);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_STOP, .round = 2});
    pass_round(&rounds);
    want(&rounds, GOSSIP_ROUNDS_WAIT);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_STOP, .round = 3});
    want(&rounds, GOSSIP_ROUNDS_STEPS);
    assert_int_equal(gossip_rounds_least_stop(&rounds), 3);
    gossip_rounds_stepped(&rounds, 15, 0.5f, GOSSIP_LEARNER_DONE);
    want_meet(&rounds, 3);
    assert_true(!gossip_rounds_stand(&rounds) && gossip_rounds_least_stop(&rounds) == 3);
    gossip_rounds_met(&rounds, 3, false, false);
    want_adopt(&rounds, GOSSIP_LEARNER_COLLECTED, 15);
    want(&rounds, GOSSIP_ROUNDS_WAIT);
    assert_true(gossip_rounds_stand(&rounds) && gossip_rounds_least_stop(&rounds) == 3);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_STOP,
                                         .round = 4}); // they go on: that exchange comes first
    assert_true(want_meet(&rounds, 3).meets);
    gossip_rounds_met(&rounds, 3, true, false);
    want_adopt(&rounds, GOSSIP_LEARNER_EXCHANGED, 15);
    pass_round(&rounds);
    want(&rounds, GOSSIP_ROUNDS_WAIT);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_LEAVE});
    want_end(&rounds, 4, 0);
}

static void an_exchange_that_a_stop_left_open_is_made_after_the_resume(void **state)
{
    (void)state;
    struct gossip_rounds rounds = started();
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_STOP, .round = 2});
    pass_round(&rounds);
    take_steps(&rounds, true);
    want_meet(&rounds, 2);
    gossip_rounds_met(&rounds, 2, false, false); // the partner has stopped before
    want_adopt(&rounds, GOSSIP_LEARNER_COLLECTED, 10);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_LEAVE});
    struct gossip_rounds_meet last = want_end(&rounds, 2, 0);
    assert_true(last.open && last.step_scale > 0.49f);
    assert_int_equal(rounds.round, 1);

    const struct gossip_rounds_options options = {.local_steps = LOCAL,
                                                  .steps = STEPS,
                                                  .round = 1,
                                                  .step = 10,
                                                  .resumed = true,
                                                  .open = true,
                                                  .open_scale = last.step_scale};
    for (int late = 0; late < 2; late++) {
        gossip_rounds_init(&rounds, &options);
        order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_START, .round = late ? 3 : 1});
        if (late) { // the others are past that boundary
            want_adopt(&rounds, GOSSIP_LEARNER_RESTORED, 10);
            take_steps(&rounds, true);
            want_meet(&rounds, 4);
            continue;
        }
        struct gossip_rounds_meet meet = want_meet(&rounds, 2);
        assert_true(meet.meets && meet.step_scale == last.step_scale);
        gossip_rounds_met(&rounds, 2, true, false);
        want_adopt(&rounds, GOSSIP_LEARNER_EXCHANGED, 10);
        take_steps(&rounds, true);
    }
    gossip_rounds_init(&rounds, &options); // stopped before another node was there: still open
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_STOP});
    assert_true(want_end(&rounds, 2, 0).open);
}

static void a_pause_takes_no_step_and_applies_pending_updates(void **state)
{
    (void)state;
    struct gossip_rounds rounds = started();
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_PAUSE, .on = true});
    assert_false(want_meet(&rounds, 0).meets);
    gossip_rounds_met(&rounds, 0, true, false);
    want_adopt(&rounds, GOSSIP_LEARNER_COLLECTED, 0);
    want(&rounds, GOSSIP_ROUNDS_WAIT);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_FETCH});
    want(&rounds, GOSSIP_ROUNDS_FETCH); // first the model, then the pause again
    gossip_rounds_fetched(&rounds, true, 2, 10);
    want_adopt(&rounds, GOSSIP_LEARNER_TAKEN, 10);
    want_meet(&rounds, 2);
    gossip_rounds_met(&rounds, 2, true, false);
    want_adopt(&rounds, GOSSIP_LEARNER_COLLECTED, 10);
    want(&rounds, GOSSIP_ROUNDS_WAIT);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_PAUSE});
    collect(&rounds, 2);
    pass_round(&rounds);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_PAUSE, .on = true});
    want_meet(&rounds, 3);
    gossip_rounds_met(&rounds, 3, true, false);
    want_adopt(&rounds, GOSSIP_LEARNER_COLLECTED, 15);
    want(&rounds, GOSSIP_ROUNDS_WAIT);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_STOP, .round = 100});
    want_end(&rounds, 3, 0); // it already stands at a boundary
}

// Round 1 is in progress: it has not been done yet.
static void a_node_that_pauses_before_its_first_round_does_it_afterwards(void **state)
{
    (void)state;
    struct gossip_rounds rounds = fresh();
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_START});
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_PAUSE, .on = true});
    want_meet(&rounds, 0);
    gossip_rounds_met(&rounds, 1, true, false);
    want_adopt(&rounds, GOSSIP_LEARNER_COLLECTED, 0);
    want(&rounds, GOSSIP_ROUNDS_WAIT);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_PAUSE});
    collect(&rounds, 0);
    assert_true(rounds.round == 0 && rounds.step == 0);
    pass_round(&rounds);
}

// The others may be far ahead: it answers them as a node that stands still, and they do not wait for it. A
// stop finishes the round.
static void a_pause_ends_the_wait_for_an_exchange(void **state)
{
    (void)state;
    for (int stops = 0; stops < 2; stops++) {
        struct gossip_rounds rounds = started();
        pass_round(&rounds);
        take_steps(&rounds, true);
        assert_true(want_meet(&rounds, 2).meets);
        if (stops)
            order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_STOP});
        order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_PAUSE, .on = true});
        assert_int_equal(gossip_rounds_gives_up(&rounds), !stops);
        if (stops)
            continue;
        gossip_rounds_met(&rounds, 2, false, false);
        want_adopt(&rounds, GOSSIP_LEARNER_EXCHANGED, 2 * LOCAL);
        assert_false(want_meet(&rounds, 2).meets);
    }
}

// A model that is about to be replaced takes part in nothing: neither in the wait for its exchange nor in its
// steps.
static void a_fetch_ends_the_open_round(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        const bool waits = kind & 1, complete = kind & 2;
        struct gossip_rounds rounds = started();
        pass_round(&rounds);
        struct gossip_rounds_next next = want(&rounds, GOSSIP_ROUNDS_STEPS);
        if (!waits)
            order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_FETCH});
        assert_false(gossip_rounds_gives_up(&rounds));
        gossip_rounds_stepped(&rounds, rounds.step + next.steps, 1, GOSSIP_LEARNER_DONE);
        if (waits) {
            want_meet(&rounds, 2);
            assert_false(gossip_rounds_gives_up(&rounds));
            order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_FETCH});
            assert_true(gossip_rounds_gives_up(&rounds));
            gossip_rounds_met(&rounds, 2, false, false);
            want_adopt(&rounds, GOSSIP_LEARNER_EXCHANGED, 2 * LOCAL);
        }
        want(&rounds, GOSSIP_ROUNDS_FETCH);
        gossip_rounds_fetched(&rounds, complete, 3, 15);
        if (complete) {
            want_adopt(&rounds, GOSSIP_LEARNER_TAKEN, 15);
            assert_true(rounds.round == 3 && rounds.step == 15);
            want(&rounds, GOSSIP_ROUNDS_STEPS);
        } else if (waits) {
            want(&rounds, GOSSIP_ROUNDS_STEPS);
        } else {
            assert_true(want_meet(&rounds, 2).meets); // the exchange of its own steps is still to be made
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_stops_at_a_round_boundary),
        cmocka_unit_test(a_stop_at_a_later_round_happens_in_that_round),
        cmocka_unit_test(a_node_stands_at_its_stop_round_until_it_may_leave),
        cmocka_unit_test(an_exchange_that_a_stop_left_open_is_made_after_the_resume),
        cmocka_unit_test(a_pause_takes_no_step_and_applies_pending_updates),
        cmocka_unit_test(a_node_that_pauses_before_its_first_round_does_it_afterwards),
        cmocka_unit_test(a_pause_ends_the_wait_for_an_exchange),
        cmocka_unit_test(a_fetch_ends_the_open_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
