// The life of a node, rule by rule: donors that do not deliver a model, and the round that a donor may
// report.
#include "test/support/life_rules.h"
#include "test/support/life_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

// A donor claims to train and is heard, but no link to it is established.
static void a_donor_without_a_link_makes_room_for_another(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others(7, TRAINS);
    w.member[7].linked = true; // the farthest one
    life_world_look(&w);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_WANTS});
    assert_int_equal(w.n_asked, 0);
    life_world_pass(&w, 4 * SECOND);
    assert_int_equal(w.n_asked, 0);
    life_world_pass(&w, 2 * SECOND);
    assert_int_equal(w.n_asked, 1);
}

static void starved(uint64_t silent_ns)
{
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_STARVED, .silent_ns = silent_ns});
    life_world_look(&w);
}

static void others_train_and_are_linked(size_t count)
{
    others(count, TRAINS);
    for (size_t i = 1; i <= count; i++)
        w.member[i].linked = true;
    life_world_look(&w);
}

static void a_donor_that_delivers_nothing_makes_room_for_another(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others_train_and_are_linked(7);
    wants();
    assert_int_equal(w.n_asked, 4);
    const struct gossip_id first = w.asked[0];
    starved(20 * SECOND);
    assert_int_equal(w.n_asked, 3); // the remaining ones
    for (size_t i = 0; i < w.n_asked; i++)
        assert_true(gossip_id_compare(&w.asked[i], &first) != 0);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_STARVED_BY), 1);
    starved(40 * SECOND);
    assert_int_equal(w.n_asked, 4); // all have been passed over: it begins again with the first ones
    assert_int_equal(state_of(), GOSSIP_LIFE_FETCHING);
}

// It answers, and gives no block, or no link. The node begins with its first model, as the others do.
static void a_member_that_only_claims_to_train_delays_a_new_node_by_a_minute(void **state)
{
    (void)state;
    for (int linked = 0; linked < 2; linked++) {
        life_world_init(&w);
        life_world_begin(&w);
        others(2, 0);
        life_world_flags(&w, life_world_join(&w), TRAINS);
        w.member[3].linked = linked;
        w.member[3].record.first_model = 9; // so it says
        life_world_look(&w);
        wants();
        assert_int_equal(w.n_asked, linked);
        for (uint64_t s = 20; linked && s <= 40; s += 20)
            starved(s * SECOND);
        life_world_pass(&w, 50 * SECOND);
        assert_int_equal(state_of(), GOSSIP_LIFE_FETCHING);
        life_world_pass(&w, 10 * SECOND);
        if (linked)
            starved(60 * SECOND);
        assert_true(life_world_last(&w, GOSSIP_LIFE_END_FETCH)->on);
        assert_true(w.flags & COUNTS && w.flags & GOSSIP_RECORD_TRAINING);
        assert_true(state_of() == GOSSIP_LIFE_TRAINING || state_of() == GOSSIP_LIFE_PAUSED);
        life_world_end(&w);
    }
    life_world_init(&w);
    life_world_begin(&w);
    others_train_and_are_linked(1); // it may come late to a node that does train
    wants();
    life_world_pass(&w, 60 * SECOND);
    for (uint64_t s = 20; s <= 60; s += 20)
        starved(s * SECOND);
    assert_int_equal(state_of(), GOSSIP_LIFE_FETCHING);
}

// However often the same donors are passed over, there is room for others.
static void a_donor_that_repeatedly_delivers_nothing_makes_room_for_others(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others_train_and_are_linked(3);
    wants();
    for (unsigned i = 0; i < 8; i++)
        starved(20 * SECOND);
    life_world_pass(&w, 31 * SECOND); // now they may be asked again
    others(4, TRAINS);
    for (size_t i = 4; i <= 7; i++)
        w.member[i].linked = true;
    life_world_look(&w);
    assert_int_equal(w.n_asked, 4);
    starved(20 * SECOND);
    assert_int_equal(w.n_asked, 3); // the remaining ones
}

static void a_node_that_gets_no_model_continues_with_its_own(void **state)
{
    (void)state;
    life_world_init(&w);
    w.options.resumed = true;
    w.options.round = 10;
    life_world_begin(&w);
    others(3, TRAINS);
    for (size_t i = 1; i <= 3; i++) {
        life_world_progress(&w, i, 500);
        w.member[i].linked = true;
    }
    life_world_look(&w);
    assert_int_equal(state_of(), GOSSIP_LIFE_FETCHING);
    wants();
    starved(59 * SECOND);
    assert_int_equal(state_of(), GOSSIP_LIFE_FETCHING);
    starved(60 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_END_FETCH), 1);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_GAVE_UP), 1);
    assert_int_equal(state_of(), GOSSIP_LIFE_PAUSED); // until its edges are live
    assert_true((w.flags & TRAINS) == TRAINS);
}

static void a_node_that_has_no_model_and_gets_none_ends(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others_train_and_are_linked(3);
    wants();
    starved(299 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_END_FETCH), 0);
    starved(300 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_END_FETCH), 1);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_NO_MODEL), 1);
    assert_int_equal(w.n_links, 0);
    assert_false(w.flags & COUNTS);
    starved(320 * SECOND); // too late
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_END_FETCH), 1);
}

static void a_node_that_has_no_model_ends_soon_when_all_have_finished_and_gone(void **state)
{
    (void)state;
    for (int finished = 0; finished < 2; finished++) {
        life_world_init(&w);
        life_world_begin(&w);
        others_train_and_are_linked(2);
        wants();
        for (size_t i = 1; i <= 2; i++) {
            life_world_flags(&w, i, finished ? FINISHED : TRAINS);
            life_world_state(&w, i, GOSSIP_MEMBER_LEFT);
        }
        life_world_pass(&w, 9 * SECOND);
        assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_END_FETCH), 0);
        life_world_pass(&w, 2 * SECOND); // those that were stopped may be resumed
        assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_END_FETCH), finished);
        assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_NO_MODEL), finished);
        assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_NO_DONOR), !finished);
        life_world_end(&w);
    }
}

// It counted, with its seed model, a moment before the others left: that model is no result.
static void first_weights_are_not_the_end_of_a_training_that_others_have_finished(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others(2, COUNTS);
    life_world_pass(&w, SECOND);
    assert_int_equal(state_of(), GOSSIP_LIFE_WAITING);
    for (size_t i = 1; i <= 2; i++) {
        life_world_flags(&w, i, FINISHED);
        life_world_state(&w, i, GOSSIP_MEMBER_LEFT);
    }
    life_world_pass(&w, 28 * SECOND);
    assert_int_equal(state_of(), GOSSIP_LIFE_WAITING); // members that are expected may come
    life_world_pass(&w, 2 * SECOND);
    assert_int_equal(state_of(), GOSSIP_LIFE_ENDED);
    assert_false(w.learner_started);
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_TELL)->notice, GOSSIP_LIFE_NO_MODEL);
    assert_int_not_equal(life_world_last(&w, GOSSIP_LIFE_END)->status, 0);
}

// If only one member reports that the cluster is far ahead, its snapshot is not taken.
static void a_donor_may_report_no_more_than_the_cluster_can_have_reached(void **state)
{
    const struct gossip_life_action *ask;
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others(3, TRAINS);
    life_world_progress(&w, 1, 10);
    life_world_progress(&w, 2, 900);
    life_world_progress(&w, 3, 12);
    for (size_t i = 1; i <= 3; i++)
        w.member[i].linked = true;
    life_world_look(&w);
    wants();
    ask = life_world_last(&w, GOSSIP_LIFE_ASK);
    assert_int_equal(ask->round, 4 * (12 + 100) + 256);
    assert_int_equal(ask->step, 8 * ask->round);
    life_world_clear(&w);
    life_world_progress(&w, 1, 30);
    life_world_progress(&w, 3, 30);
    life_world_pass(&w, 2 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ASK), 0);
    life_world_progress(&w, 1, 150); // the cluster has advanced
    life_world_progress(&w, 3, 150);
    life_world_pass(&w, 2 * SECOND);
    ask = life_world_last(&w, GOSSIP_LIFE_ASK);
    assert_non_null(ask);
    assert_int_equal(ask->round, 4 * (150 + 100) + 256);
    assert_int_equal(ask->step, 8000); // no node is further than train.steps
}

static void donors_are_asked_once_others_have_reported(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others_train_and_are_linked(3);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_WANTS});
    life_world_pass(&w, SECOND);
    life_world_progress(&w, 1, 900);
    life_world_look(&w);
    assert_int_equal(w.n_asked, 0); // one of three, perhaps the donor itself
    life_world_progress(&w, 2, 16);
    life_world_look(&w);
    assert_int_equal(w.n_asked, 3);
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_ASK)->round, 4 * (900 + 100) + 256);
}

static void without_any_report_the_last_step_is_the_limit(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others_train_and_are_linked(3); // and have not reported their round yet
    wants();
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_ASK)->round, 8000);
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_ASK)->step, 8000);
}

// One of two that train has just come back and reports a round of long ago: the node cannot tell which report
// is wrong. A value that fewer than half of the members report is ignored.
static void of_two_reports_the_higher_round_is_believed(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others_train_and_are_linked(2);
    life_world_progress(&w, 1, 16);
    life_world_look(&w);
    wants();
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_ASK)->round, 8000);
    life_world_progress(&w, 2, 900);
    life_world_tell(&w,
                    (struct gossip_life_event){.kind = GOSSIP_LIFE_LINKED, .peer = w.member[1].record.id});
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_ASK)->round, 4 * (900 + 100) + 256);
}

// It may have been away as long as this node: its model is no better.
static void a_node_that_is_far_behind_asks_no_member_that_is_as_far(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    others(1, TRAINS);
    for (size_t i = 1; i < w.count; i++)
        w.member[i].linked = true;
    all_train_at(100, 100);
    life_world_look(&w);
    w.now_ns += 10 * SECOND; // SIGSTOP
    life_world_look(&w);
    all_train_at(100, 400);
    life_world_progress(&w, 4, 200);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 1);
    wants();
    assert_int_equal(w.n_asked, 3);
    for (size_t i = 0; i < w.n_asked; i++)
        assert_true(w.asked[i].bytes[0] != w.member[4].record.id.bytes[0]);
    for (size_t i = 1; i <= 3; i++)
        life_world_state(&w, i, GOSSIP_MEMBER_DEAD);
    life_world_look(&w);
    assert_int_equal(w.n_asked, 1); // then any will do
}

int main(void)
{
#define RULE(name) cmocka_unit_test_teardown(name, clean)
    const struct CMUnitTest tests[] = {
        RULE(a_donor_without_a_link_makes_room_for_another),
        RULE(a_node_that_is_far_behind_asks_no_member_that_is_as_far),
        RULE(a_donor_that_delivers_nothing_makes_room_for_another),
        RULE(a_member_that_only_claims_to_train_delays_a_new_node_by_a_minute),
        RULE(a_donor_that_repeatedly_delivers_nothing_makes_room_for_others),
        RULE(a_node_that_gets_no_model_continues_with_its_own),
        RULE(a_node_that_has_no_model_and_gets_none_ends),
        RULE(a_node_that_has_no_model_ends_soon_when_all_have_finished_and_gone),
        RULE(first_weights_are_not_the_end_of_a_training_that_others_have_finished),
        RULE(a_donor_may_report_no_more_than_the_cluster_can_have_reached),
        RULE(donors_are_asked_once_others_have_reported),
        RULE(without_any_report_the_last_step_is_the_limit),
        RULE(of_two_reports_the_higher_round_is_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
