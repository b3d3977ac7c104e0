// The rounds of a node: the effect of orders, its round when the cluster is further,
// and the end after models that are not finite.
#include "base/rng.h"
#include "gossip_rounds_orders.h"

#include <stdlib.h>

static void a_node_trains_finishes_lingers_and_leaves(void **state)
{
    (void)state;
    struct gossip_rounds rounds = started();
    for (int i = 0; i < 5; i++)
        pass_round(&rounds);
    assert_int_equal(rounds.step, STEPS); // the last round was shorter
    struct gossip_rounds_meet meet = want_meet(&rounds, 5);
    assert_true(meet.finished && !meet.meets && !meet.last);
    gossip_rounds_met(&rounds, 5, true, false);
    want_adopt(&rounds, GOSSIP_LEARNER_COLLECTED, STEPS);
    want(&rounds, GOSSIP_ROUNDS_WAIT);
    want(&rounds, GOSSIP_ROUNDS_WAIT);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_LEAVE});
    want_end(&rounds, 5, 0);
}

// With the model of a donor, and with one that has met too few others, it has nothing to give.
static void a_finished_node_merges_its_model_and_leaves_with_that_of_all(void **state)
{
    (void)state;
    for (int merged = 0; merged < 2; merged++) {
        struct gossip_rounds rounds = started();
        for (int i = 0; i < 5; i++)
            pass_round(&rounds);
        collect(&rounds, 5);
        want(&rounds, GOSSIP_ROUNDS_WAIT);
        order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_MERGE});
        assert_true(want(&rounds, GOSSIP_ROUNDS_MERGE).gives);
        assert_false(gossip_rounds_gives_up(&rounds));
        order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_LEAVE});
        assert_false(gossip_rounds_gives_up(&rounds));
        gossip_rounds_merged(&rounds, merged);
        want_adopt(&rounds, merged ? GOSSIP_LEARNER_TAKEN : GOSSIP_LEARNER_COLLECTED, STEPS);
        want_end(&rounds, 5, 0);
    }
}

static void a_borrowed_model_does_not_count_in_the_merge(void **state)
{
    (void)state;
    struct gossip_rounds rounds = started();
    for (int i = 0; i < 5; i++)
        pass_round(&rounds);
    rounds.model = GOSSIP_ROUNDS_APART; // its last rounds had no exchange
    want(&rounds, GOSSIP_ROUNDS_FETCH);
    gossip_rounds_fetched(&rounds, true, 5, STEPS);
    want_adopt(&rounds, GOSSIP_LEARNER_TAKEN, STEPS);
    collect(&rounds, 5);
    want(&rounds, GOSSIP_ROUNDS_WAIT);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_MERGE});
    assert_false(want(&rounds, GOSSIP_ROUNDS_MERGE).gives);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_STOP});
    assert_true(gossip_rounds_gives_up(&rounds));
}

static void missed_rounds_are_not_made_up_for(void **state)
{
    (void)state;
    struct gossip_rounds rounds = started();
    pass_round(&rounds);
    take_steps(&rounds, true);
    want_meet(&rounds, 2);
    gossip_rounds_met(&rounds, 4, true, false); // the neighbours were two rounds further
    assert_int_equal(rounds.round, 4);
    want_adopt(&rounds, GOSSIP_LEARNER_EXCHANGED, 4 * LOCAL);
    take_steps(&rounds, true);
    want_meet(&rounds, 5);
    gossip_rounds_met(&rounds, UINT64_MAX, true, false);
    want_adopt(&rounds, GOSSIP_LEARNER_EXCHANGED, STEPS); // never past the end
}

// Also one that stopped at an open boundary, which is void then: it does not meet its neighbours there.
static void a_node_that_was_away_takes_the_round_and_step_of_the_cluster(void **state)
{
    (void)state;
    for (int open = 0; open < 2; open++) {
        const struct gossip_rounds_options options = {
            .local_steps = LOCAL, .steps = 1000, .round = 10, .step = 50, .resumed = true, .open = open};
        struct gossip_rounds rounds;
        gossip_rounds_init(&rounds, &options);
        order(&rounds,
              (struct gossip_order){.kind = GOSSIP_ORDER_START, .away = true, .round = 40, .step = 200});
        want_adopt(&rounds, GOSSIP_LEARNER_RESTORED, 200);
        collect(&rounds, 40);
        take_steps(&rounds, true);
        struct gossip_rounds_meet meet = want_meet(&rounds, 41);
        assert_true(meet.away && meet.meets);
        gossip_rounds_met(&rounds, 44, true, false); // the report was old: its neighbours are further
        want_adopt(&rounds, GOSSIP_LEARNER_EXCHANGED, 220);
        order(&rounds,
              (struct gossip_order){.kind = GOSSIP_ORDER_START, .round = 3, .step = 15}); // never back
        take_steps(&rounds, true);
        want_meet(&rounds, 45);
    }
}

static void an_incomplete_snapshot_does_not_undo_a_complete_one(void **state)
{
    (void)state;
    struct gossip_rounds rounds = fresh();
    want(&rounds, GOSSIP_ROUNDS_WAIT);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_START, .fetch = true, .round = 2, .step = 10});
    want_adopt(&rounds, GOSSIP_LEARNER_RESTORED, 10);
    want(&rounds, GOSSIP_ROUNDS_FETCH);
    gossip_rounds_fetched(&rounds, true, 3, 15);
    want_adopt(&rounds, GOSSIP_LEARNER_TAKEN, 15);
    pass_round(&rounds);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_FETCH});
    want(&rounds, GOSSIP_ROUNDS_FETCH);
    gossip_rounds_fetched(&rounds, false, 0, 0); // it goes on with its own model
    assert_int_equal(rounds.round, 4);
    take_steps(&rounds, true);
}

static void without_a_model_a_node_fails_and_writes_no_checkpoint(void **state)
{
    (void)state;
    for (int stops = 0; stops < 2; stops++) {
        struct gossip_rounds rounds = fresh();
        order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_START, .fetch = true});
        want(&rounds, GOSSIP_ROUNDS_FETCH);
        assert_false(gossip_rounds_gives_up(&rounds));
        if (stops) {
            order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_STOP});
            assert_true(gossip_rounds_gives_up(&rounds));
        }
        gossip_rounds_fetched(&rounds, false, 0, 0);
        assert_int_equal(want(&rounds, GOSSIP_ROUNDS_END).status, !stops);
    }
}

// Whoever has not finished, but says so, must not end the training of others. With a model that is taken
// after all, or without any donor, the node ends.
static void a_node_whose_donors_are_all_refused_is_not_left_alone(void **state)
{
    (void)state;
    for (int given = 0; given < 2; given++) {
        struct gossip_rounds rounds = started();
        pass_round(&rounds);
        order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_ALONE, .fetch = true});
        want(&rounds, GOSSIP_ROUNDS_FETCH);
        gossip_rounds_not_alone(&rounds);
        gossip_rounds_fetched(&rounds, given, 5, STEPS);
        if (given) {
            want_adopt(&rounds, GOSSIP_LEARNER_TAKEN, STEPS);
            assert_true(want_meet(&rounds, 5).finished);
            continue;
        }
        pass_round(&rounds);
        order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_ALONE, .fetch = true}); // others have
        want(&rounds, GOSSIP_ROUNDS_FETCH);
        gossip_rounds_fetched(&rounds, false, 0, 0);
        assert_true(want_meet(&rounds, 2).finished);
    }
}

static void a_new_node_begins_when_those_that_claim_to_train_give_no_model(void **state)
{
    (void)state;
    struct gossip_rounds rounds = fresh();
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_START, .fetch = true});
    want(&rounds, GOSSIP_ROUNDS_FETCH);
    gossip_rounds_not_alone(&rounds);
    gossip_rounds_fetched(&rounds, false, 0, 0);
    pass_round(&rounds);
    assert_true(gossip_rounds_complete(&rounds) && rounds.round == 1);
}

static void a_node_that_is_left_alone_ends_with_the_model_of_the_finished_ones(void **state)
{
    (void)state;
    for (int given = 0; given < 2; given++) {
        struct gossip_rounds rounds = started();
        pass_round(&rounds);
        want(&rounds, GOSSIP_ROUNDS_STEPS);
        order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_ALONE, .fetch = true});
        order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_ALONE, .fetch = true}); // one is enough
        gossip_rounds_stepped(&rounds, 10, 0.5f, GOSSIP_LEARNER_DONE);
        want_meet(&rounds, 2);
        gossip_rounds_met(&rounds, 2, true, false);
        want_adopt(&rounds, GOSSIP_LEARNER_EXCHANGED, 10);
        want(&rounds, GOSSIP_ROUNDS_FETCH);
        gossip_rounds_fetched(&rounds, given, 5, STEPS);
        if (given)
            want_adopt(&rounds, GOSSIP_LEARNER_TAKEN, STEPS);
        assert_true(want_meet(&rounds, given ? 5 : 2).finished); // its own model if no node has one
        assert_int_equal(rounds.model, given ? GOSSIP_ROUNDS_BORROWED : GOSSIP_ROUNDS_FORSAKEN);
        gossip_rounds_met(&rounds, given ? 5 : 2, true, false);
        want_adopt(&rounds, GOSSIP_LEARNER_COLLECTED, given ? STEPS : 10);
        order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_LEAVE});
        want_end(&rounds, given ? 5 : 2, !given); // and then it reports that
    }
}

static void ten_non_finite_models_in_a_row_end_the_training(void **state)
{
    (void)state;
    const struct gossip_rounds_options options = {.local_steps = LOCAL, .steps = 1000};
    struct gossip_rounds rounds;
    gossip_rounds_init(&rounds, &options);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_START});
    for (unsigned i = 1; i <= 9 + 10; i++) {
        if (i == 10)
            pass_round(&rounds); // a finite one in between: the count begins again
        uint64_t round = rounds.round + 1;
        take_steps(&rounds, false);
        assert_true(want_meet(&rounds, round).unusable);
        gossip_rounds_met(&rounds, round, true, false);
        want_adopt(&rounds, GOSSIP_LEARNER_ROLLED_BACK, LOCAL * round);
        assert_int_equal(rounds.unusable_rounds, i);
    }
    assert_false(want_end(&rounds, 20, 1).unusable);
}

static void diverge(struct gossip_rounds *rounds)
{
    const uint64_t round = rounds->round + 1;
    take_steps_as(rounds, GOSSIP_LEARNER_DIVERGED);
    assert_int_equal(want(rounds, GOSSIP_ROUNDS_RETURN).round, round); // it meets nobody
    gossip_rounds_returned(rounds);
    assert_int_equal(rounds->round, round);
    want_adopt(rounds, GOSSIP_LEARNER_RETURNED, rounds->step);
}

// Soon after each other; a return long after the one before is the first of a row.
static void a_node_that_diverges_returns_to_its_last_good_model(void **state)
{
    (void)state;
    const struct gossip_rounds_options options = {.local_steps = 1, .steps = 100000};
    struct gossip_rounds rounds;
    gossip_rounds_init(&rounds, &options);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_START});
    diverge(&rounds);
    for (unsigned i = 0; i < GOSSIP_ROUNDS_RETURN_SPAN; i++)
        pass_round(&rounds);
    for (unsigned i = 1; i < GOSSIP_ROUNDS_RETURNS_MAX; i++) {
        diverge(&rounds);
        assert_int_equal(rounds.returns_in_row, i);
        pass_round(&rounds);
    }
    diverge(&rounds);
    want_end(&rounds, rounds.round, 1);
}

static void a_node_that_diverged_fetches_if_it_is_told_to(void **state)
{
    (void)state;
    struct gossip_rounds rounds = started();
    take_steps_as(&rounds, GOSSIP_LEARNER_DIVERGED);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_FETCH});
    want(&rounds, GOSSIP_ROUNDS_FETCH);
    gossip_rounds_fetched(&rounds, true, 2, 10);
    want_adopt(&rounds, GOSSIP_LEARNER_TAKEN, 10);
    take_steps(&rounds, true); // nothing of what had diverged is left
    want_meet(&rounds, 3);
}

// It has no steps for another boundary, and an exchange without steps would be one too many.
static void a_program_that_leaves_is_at_no_further_boundary(void **state)
{
    (void)state;
    struct gossip_rounds rounds = started();
    pass_round(&rounds);
    want(&rounds, GOSSIP_ROUNDS_STEPS);
    gossip_rounds_stepped(&rounds, rounds.step, 0, GOSSIP_LEARNER_OVER);
    want(&rounds, GOSSIP_ROUNDS_WAIT);
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_STOP, .round = 7});
    assert_true(gossip_rounds_stand(&rounds)); // it cannot get there
    order(&rounds, (struct gossip_order){.kind = GOSSIP_ORDER_LEAVE});
    const struct gossip_rounds_meet last = want_meet(&rounds, 1);
    assert_true(last.last && !last.meets && !last.open);
}

// Any orders at any moment, and any answers.
static void any_sequence_of_orders_comes_to_an_end(void **state)
{
    struct base_rng rng;
    const char *text = getenv("P2PML_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 2026, ends = 0;
    (void)state;
    print_message("P2PML_SEED=%llu\n", (unsigned long long)seed);
    base_rng_seed(&rng, seed);
    for (int run = 0; run < 2000; run++) {
        bool resumed = base_rng_below(&rng, 2);
        const struct gossip_rounds_options options = {.local_steps = 1 + base_rng_below(&rng, 4),
                                                      .steps = 1 + base_rng_below(&rng, 60),
                                                      .round = base_rng_below(&rng, 10),
                                                      .step = base_rng_below(&rng, 80),
                                                      .resumed = resumed,
                                                      .open = resumed && base_rng_below(&rng, 2)};
        struct gossip_rounds rounds;
        gossip_rounds_init(&rounds, &options);
        uint64_t round = rounds.round, step = rounds.step;
        bool over = false;
        for (int i = 0; i < 400 && !over; i++) {
            unsigned kinds = i < 300 ? 40 : 6; // at last, many of them
            unsigned kind = (unsigned)base_rng_below(&rng, kinds);
            if (kind <= GOSSIP_ORDER_STOP)
                order(&rounds, (struct gossip_order){.kind = (enum gossip_order_kind)kind,
                                                     .fetch = base_rng_below(&rng, 2),
                                                     .on = base_rng_below(&rng, 2),
                                                     .round = base_rng_below(&rng, 30),
                                                     .step = base_rng_below(&rng, 90)});
            struct gossip_rounds_next next = gossip_rounds_next(&rounds);
            if (next.todo == GOSSIP_ROUNDS_STEPS) {
                assert_true(next.steps > 0 && next.steps <= options.local_steps);
                gossip_rounds_stepped(
                    &rounds, rounds.step + next.steps, 1,
                    (enum gossip_learner_result)base_rng_below(&rng, GOSSIP_LEARNER_DIVERGED + 1));
            } else if (next.todo == GOSSIP_ROUNDS_MEET) {
                assert_true(next.meet.round == rounds.round + (next.meet.meets || next.meet.open));
                gossip_rounds_met(&rounds, next.meet.round + base_rng_below(&rng, 3) / 2,
                                  base_rng_below(&rng, 2), base_rng_below(&rng, 4) == 0);
            } else if (next.todo == GOSSIP_ROUNDS_FETCH) {
                gossip_rounds_fetched(&rounds, base_rng_below(&rng, 2),
                                      rounds.round + base_rng_below(&rng, 4),
                                      rounds.step + base_rng_below(&rng, 9));
            } else if (next.todo == GOSSIP_ROUNDS_MERGE) {
                gossip_rounds_merged(&rounds, base_rng_below(&rng, 2));
            }
            if (next.todo == GOSSIP_ROUNDS_RETURN)
                gossip_rounds_returned(&rounds);
            over = next.todo == GOSSIP_ROUNDS_END;
            assert_true(rounds.round >= round && rounds.step >= step && rounds.step <= options.steps);
            round = rounds.round;
            step = rounds.step;
        }
        ends += over;
    }
    assert_true(ends > 1900);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_trains_finishes_lingers_and_leaves),
        cmocka_unit_test(a_finished_node_merges_its_model_and_leaves_with_that_of_all),
        cmocka_unit_test(a_borrowed_model_does_not_count_in_the_merge),
        cmocka_unit_test(missed_rounds_are_not_made_up_for),
        cmocka_unit_test(a_node_that_was_away_takes_the_round_and_step_of_the_cluster),
        cmocka_unit_test(an_incomplete_snapshot_does_not_undo_a_complete_one),
        cmocka_unit_test(without_a_model_a_node_fails_and_writes_no_checkpoint),
        cmocka_unit_test(a_node_that_is_left_alone_ends_with_the_model_of_the_finished_ones),
        cmocka_unit_test(a_node_whose_donors_are_all_refused_is_not_left_alone),
        cmocka_unit_test(a_new_node_begins_when_those_that_claim_to_train_give_no_model),
        cmocka_unit_test(ten_non_finite_models_in_a_row_end_the_training),
        cmocka_unit_test(a_node_that_diverges_returns_to_its_last_good_model),
        cmocka_unit_test(a_node_that_diverged_fetches_if_it_is_told_to),
        cmocka_unit_test(a_program_that_leaves_is_at_no_further_boundary),
        cmocka_unit_test(any_sequence_of_orders_comes_to_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
