// The life of a node, rule by rule: a node that is held out or cut off, and its return to the others.
#include "test/support/life_rules.h"
#include "test/support/life_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

// The latest action of one kind came before the latest of another.
static bool comes_before(enum gossip_life_action_kind a, enum gossip_life_action_kind b)
{
    const struct gossip_life_action *first = life_world_last(&w, a), *second = life_world_last(&w, b);

    return first && second && first < second;
}

static void a_node_that_is_held_out_waits(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    all_train_at(100, 100);
    w.self.held_until_ns = w.now_ns + 5 * SECOND;
    life_world_look(&w);
    assert_true(w.learner_paused);
    assert_true(w.flags & GOSSIP_RECORD_PAUSED);
    assert_int_equal(gossip_life_pauses(w.life), GOSSIP_LIFE_HELD_OUT);
    life_world_pass(&w, 4900 * MS);
    assert_true(w.learner_paused);
    life_world_pass(&w, 200 * MS);
    assert_int_equal(gossip_life_pauses(w.life), GOSSIP_LIFE_NO_WORD);
    all_train_at(100, 400);
    life_world_look(&w);
    assert_false(w.learner_paused);
    assert_false(w.flags & GOSSIP_RECORD_PAUSED);
    // No step with its own model comes in between.
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 1);
    assert_true(comes_before(GOSSIP_LIFE_FETCH_AGAIN, GOSSIP_LIFE_PAUSE));
    assert_true(w.started_away);
    assert_int_equal(w.started_round, 100);
}

static void a_node_held_out_within_reach_goes_on_behind_the_others(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    w.self.held_until_ns = w.now_ns + 5 * SECOND;
    life_world_look(&w);
    life_world_clear(&w);
    life_world_pass(&w, 5 * SECOND);
    all_train_at(100, 180);
    life_world_look(&w);
    assert_false(w.learner_paused);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 0);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_START), 1);
    assert_true(w.started_away);
    assert_int_equal(w.started_round, 180);
    assert_true(comes_before(GOSSIP_LIFE_START, GOSSIP_LIFE_PAUSE));
}

// It was suspended, and is held out when the model arrives.
static void fetch_while_held_out(uint64_t held_ns)
{
    life_world_init(&w);
    life_world_train(&w);
    fetch_far_behind();
    w.self.held_until_ns = w.now_ns + held_ns;
    life_world_tell(
        &w, (struct gossip_life_event){.kind = GOSSIP_LIFE_FETCHED, .ok = true, .round = 150, .step = 1200});
}

// In async its donors may be further apart than the reach; a fetch at every look would take it out of the
// graph.
static void a_node_that_has_just_fetched_takes_the_round_instead(void **state)
{
    (void)state;
    for (uint64_t held = 1; held <= 61; held += 60) {
        fetch_while_held_out(held * SECOND - 500 * MS);
        life_world_pass(&w, held * SECOND);
        all_train_at(100, 401);
        life_world_look(&w);
        assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 1);
        assert_int_equal(w.started_round, 401);
        assert_false(w.learner_paused);
        life_world_end(&w);
    }
    life_world_init(&w);
}

// On a slow link the blocks of its edges take longer than the reach. A second fetch would end these edges,
// and they would begin anew again.
static void a_node_that_fetched_while_it_was_held_out_goes_on(void **state)
{
    (void)state;
    fetch_while_held_out(3 * SECOND);
    life_world_pass(&w, 4 * SECOND);
    assert_int_equal(gossip_life_pauses(w.life), GOSSIP_LIFE_NO_WORD);
    for (size_t i = 1; i < w.count; i++)
        life_world_progress(&w, i, 600);
    life_world_look(&w);
    assert_false(w.learner_paused);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 1);
    assert_int_equal(w.started_round, 600);
    // With steps of its own it is like any other node.
    all_train_at(601, 980);
    w.now_ns += 10 * SECOND; // SIGSTOP
    life_world_look(&w);
    all_train_at(601, 981);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 2);
    life_world_end(&w);
    life_world_init(&w);
}

// It heard no other node meanwhile.
static void after_being_cut_off_a_node_goes_on_at_the_round_of_the_others(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    all_train_at(100, 180);
    w.self.cut_off = true;
    life_world_look(&w);
    assert_true(w.learner_paused);
    life_world_pass(&w, 5 * SECOND);
    w.self.cut_off = false;
    life_world_pass(&w, SECOND);
    assert_true(w.learner_paused); // a step would belong to its old round
    assert_int_equal(gossip_life_pauses(w.life), GOSSIP_LIFE_NO_WORD);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_START), 0);
    all_train_at(100, 400);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 1);
    assert_true(comes_before(GOSSIP_LIFE_FETCH_AGAIN, GOSSIP_LIFE_PAUSE)); // no step in between
}

// No member reports anything: the node goes on after a while.
static void a_node_does_not_wait_for_reports_for_ever(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    w.self.cut_off = true;
    life_world_look(&w);
    w.self.cut_off = false;
    life_world_pass(&w, 9 * SECOND);
    assert_true(w.learner_paused);
    life_world_pass(&w, 2 * SECOND);
    assert_false(w.learner_paused);
    assert_true(w.flags & COUNTS);
}

static void a_node_that_is_held_out_does_not_begin(void **state)
{
    (void)state;
    life_world_init(&w);
    w.self.held_until_ns = w.now_ns + 60 * SECOND;
    w.options.resumed = true;
    others(3, COUNTS);
    life_world_begin(&w);
    life_world_pass(&w, 59 * SECOND); // start_timeout does not end it
    assert_false(w.learner_started);
    life_world_pass(&w, 2 * SECOND);
    assert_true(w.learner_started);
}

static void a_node_that_is_cut_off_waits_while_others_should_be_there(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    w.self.cut_off = true;
    life_world_look(&w);
    assert_true(w.learner_paused);
    for (size_t i = 1; i < w.count; i++)
        life_world_state(&w, i, GOSSIP_MEMBER_DEAD);
    life_world_look(&w); // a node that is cut off cannot know that they have died
    assert_true(w.learner_paused);
    life_world_pass(&w, 59 * SECOND);
    assert_true(w.learner_paused);
    life_world_pass(&w, 2 * SECOND);
    assert_false(w.learner_paused);
}

// It was heard by members, and no neighbour answered it at its boundary: the others met each other meanwhile.
static void a_node_that_no_neighbour_answered_asks_where_the_others_are(void **state)
{
    (void)state;
    for (uint64_t silent_ms = 1900; silent_ms <= 2100; silent_ms += 200) {
        const bool away = silent_ms > 2000;
        life_world_init(&w);
        life_world_train(&w);
        all_train_at(100, 100);
        w.self.edge_live = w.self.edges_live = false;
        life_world_look(&w);
        all_train_at(100, 160);
        life_world_pass(&w, silent_ms * MS);
        assert_false(w.learner_paused); // it stands at its boundary
        w.self.edge_live = true;
        life_world_look(&w);
        assert_int_equal(w.learner_paused, away);
        assert_int_equal(gossip_life_pauses(w.life), away ? GOSSIP_LIFE_NO_WORD : 0);
        all_train_at(100, 170);
        life_world_look(&w);
        assert_false(w.learner_paused);
        assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_START), away);
        assert_int_equal(w.started_round, away ? 170 : 0);
        life_world_end(&w);
    }
    life_world_init(&w);
}

// The edge that is live again has compared states, or averaged whole models: a fetch would throw that away.
static void a_node_whose_edge_is_live_again_fetches_no_model(void **state)
{
    (void)state;
    for (uint64_t others = 500; others <= 1000; others += 500) { // at 1,000 all have done their last step
        life_world_init(&w);
        life_world_train(&w);
        all_train_at(100, 100);
        w.self.edge_live = w.self.edges_live = false;
        life_world_pass(&w, 2100 * MS);
        w.self.edge_live = true;
        life_world_look(&w);
        all_train_at(100, others);
        life_world_look(&w);
        assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), others == 1000);
        if (others == 500)
            assert_int_equal(w.started_round, 500);
        life_world_end(&w);
    }
    life_world_init(&w);
}

static void a_node_that_averages_with_no_other_reports_it(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    w.self.edge_live = w.self.edges_live = false;
    life_world_pass(&w, 14 * SECOND);
    assert_false(gossip_life_isolated(w.life));
    life_world_pass(&w, 2 * SECOND);
    assert_true(gossip_life_isolated(w.life));
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_ISOLATED), 1);
    w.self.edge_live = true;
    life_world_look(&w);
    assert_false(gossip_life_isolated(w.life));
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_MEETS_AGAIN), 1);
}

static void a_node_that_pauses_no_longer_reports_that_it_trains_alone(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    w.self.edge_live = w.self.edges_live = false;
    life_world_pass(&w, 16 * SECOND);
    assert_true(gossip_life_isolated(w.life));
    w.self.cut_off = true;
    life_world_look(&w);
    assert_int_equal(gossip_life_state(w.life), GOSSIP_LIFE_PAUSED);
    assert_false(gossip_life_isolated(w.life));
}

// A neighbour with another scaling cannot be averaged with. If all neighbours have another one, waiting does
// not help.
static void a_node_whose_scaling_differs_from_that_of_all_others_ends(void **state)
{
    (void)state;
    for (size_t apart = 1; apart <= 2; apart++) {
        life_world_init(&w);
        life_world_train(&w);
        w.self.edge_live = w.self.edges_live = false;
        w.self.n_neighbours = 2;
        w.self.apart = apart;
        w.self.scaling[0] = 71;
        w.self.scaling[1] = 72;
        life_world_pass(&w, 14 * SECOND);
        assert_false(w.ended);
        life_world_pass(&w, 2 * SECOND);
        assert_int_equal(w.ended, apart == 2);
        assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_APART), apart == 2);
        if (apart < 2)
            life_world_end(&w);
    }
}

// The other node ends for the same cause some seconds earlier, and is then gone from the view.
static void a_node_that_had_only_neighbours_of_another_scaling_ends_without_them(void **state)
{
    (void)state;
    for (size_t others = 0; others <= 1; others++) { // a node that joins may have the same scaling
        life_world_init(&w);
        life_world_train(&w);
        w.self.edge_live = w.self.edges_live = false;
        w.self.n_neighbours = w.self.apart = 2;
        w.self.scaling[0] = 71;
        w.self.scaling[1] = 72;
        life_world_pass(&w, 10 * SECOND);
        w.self.n_neighbours = others;
        w.self.apart = 0;
        w.self.scaling[0] = w.self.scaling[1] = 0;
        life_world_pass(&w, 4 * SECOND);
        assert_false(w.ended);
        life_world_pass(&w, 2 * SECOND);
        assert_int_equal(w.ended, others == 0);
        assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_APART), others == 0);
        if (others == 0)
            life_world_end(&w);
    }
}

int main(void)
{
#define RULE(name) cmocka_unit_test_teardown(name, clean)
    const struct CMUnitTest tests[] = {
        RULE(a_node_that_is_held_out_waits),
        RULE(a_node_whose_scaling_differs_from_that_of_all_others_ends),
        RULE(a_node_that_had_only_neighbours_of_another_scaling_ends_without_them),
        RULE(a_node_that_is_held_out_does_not_begin),
        RULE(a_node_held_out_within_reach_goes_on_behind_the_others),
        RULE(a_node_that_has_just_fetched_takes_the_round_instead),
        RULE(a_node_that_fetched_while_it_was_held_out_goes_on),
        RULE(after_being_cut_off_a_node_goes_on_at_the_round_of_the_others),
        RULE(a_node_does_not_wait_for_reports_for_ever),
        RULE(a_node_that_is_cut_off_waits_while_others_should_be_there),
        RULE(a_node_that_no_neighbour_answered_asks_where_the_others_are),
        RULE(a_node_whose_edge_is_live_again_fetches_no_model),
        RULE(a_node_that_averages_with_no_other_reports_it),
        RULE(a_node_that_pauses_no_longer_reports_that_it_trains_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
