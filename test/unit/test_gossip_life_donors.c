// The life of a node, rule by rule: donors that do not give, and what a donor may report.
#include "test/support/life_rules.h"
#include "test/support/life_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

// A donor that claims to train, is heard, and to whom no link comes about.
static void donors_without_a_link_make_room(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others(7, TRAINS);
    w.member[7].linked = true; // the one that is farthest
    life_world_look(&w);
    wants();
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

static void donors_that_give_nothing_make_room(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others_train_and_are_linked(7);
    wants();
    assert_int_equal(w.n_asked, 4);
    const struct gossip_id first = w.asked[0];
    starved(20 * SECOND);
    assert_int_equal(w.n_asked, 3); // those that are left
    for (size_t i = 0; i < w.n_asked; i++)
        assert_true(gossip_id_compare(&w.asked[i], &first) != 0);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_STARVED_BY), 1);
    starved(40 * SECOND);
    assert_int_equal(w.n_asked, 4); // all were passed over: the first ones again
    assert_int_equal(state_of(), GOSSIP_LIFE_FETCHING);
}

// However often the same ones were passed over, there is room for others.
static void donors_that_give_nothing_again_and_again_make_room(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others_train_and_are_linked(3);
    wants();
    for (unsigned i = 0; i < 8; i++)
        starved(20 * SECOND);
    life_world_pass(&w, 31 * SECOND); // they may be asked again
    others(4, TRAINS);
    for (size_t i = 4; i <= 7; i++)
        w.member[i].linked = true;
    life_world_look(&w);
    assert_int_equal(w.n_asked, 4);
    starved(20 * SECOND);
    assert_int_equal(w.n_asked, 3); // those that are left
}

static void who_is_given_no_model_goes_on_with_its_own(void **state)
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
    assert_int_equal(state_of(), GOSSIP_LIFE_PAUSED); // until its edges are there
    assert_true((w.flags & TRAINS) == TRAINS);
}

static void who_has_no_model_and_is_given_none_ends(void **state)
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

// One member alone says that the cluster is far: its snapshot is not taken.
static void donors_may_tell_what_the_cluster_may_have_come_to(void **state)
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
    life_world_progress(&w, 1, 150); // the cluster has gone on
    life_world_progress(&w, 3, 150);
    life_world_pass(&w, 2 * SECOND);
    ask = life_world_last(&w, GOSSIP_LIFE_ASK);
    assert_non_null(ask);
    assert_int_equal(ask->round, 4 * (150 + 100) + 256);
    assert_int_equal(ask->step, 8000); // nobody is further than train.steps
}

static void of_whom_nothing_is_known_the_last_step_is_the_limit(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others_train_and_are_linked(3); // and have not said yet at which round they are
    wants();
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_ASK)->round, 8000);
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_ASK)->step, 8000);
}

// One of two that train has just come back and tells a round of long ago: which of them lies nobody knows.
// What fewer than half of them say is nothing.
static void of_two_the_further_one_is_believed(void **state)
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

// Two of four are ahead, and one of these two has not reported yet: the other's report is no lie.
static void while_one_has_not_reported_the_furthest_is_believed(void **state)
{
    const struct gossip_life_action *ask;
    (void)state;
    life_world_init(&w);
    w.options.steps = 0;
    life_world_begin(&w);
    others_train_and_are_linked(4);
    life_world_progress(&w, 1, 15);
    life_world_progress(&w, 2, 36);
    life_world_progress(&w, 3, 9000);
    life_world_look(&w);
    wants();
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_ASK)->round, 4 * (9000 + 100) + 256);
    life_world_progress(&w, 4, 9100);
    life_world_tell(&w,
                    (struct gossip_life_event){.kind = GOSSIP_LIFE_LINKED, .peer = w.member[1].record.id});
    ask = life_world_last(&w, GOSSIP_LIFE_ASK);
    assert_int_equal(ask->round, 4 * (9000 + 100) + 256);
    life_world_progress(&w, 4, 40); // all have reported: it is one alone that is so far
    life_world_tell(&w,
                    (struct gossip_life_event){.kind = GOSSIP_LIFE_LINKED, .peer = w.member[1].record.id});
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_ASK)->round, 4 * (40 + 100) + 256);
}

// It may have been away as long as this node: its model is no better.
static void who_is_far_behind_asks_no_member_that_is_as_far(void **state)
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
        RULE(donors_without_a_link_make_room),
        RULE(who_is_far_behind_asks_no_member_that_is_as_far),
        RULE(donors_that_give_nothing_make_room),
        RULE(donors_that_give_nothing_again_and_again_make_room),
        RULE(who_is_given_no_model_goes_on_with_its_own),
        RULE(who_has_no_model_and_is_given_none_ends),
        RULE(donors_may_tell_what_the_cluster_may_have_come_to),
        RULE(of_whom_nothing_is_known_the_last_step_is_the_limit),
        RULE(of_two_the_further_one_is_believed),
        RULE(while_one_has_not_reported_the_furthest_is_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
