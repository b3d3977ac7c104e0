// The life of a node, rule by rule: the end of training, a stop, and two processes with one identity.
#include "test/support/life_rules.h"
#include "test/support/life_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

// -- the end

static void a_finished_node_lingers_while_others_train(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_DONE});
    assert_int_equal(state_of(), GOSSIP_LIFE_FINISHED);
    life_world_pass(&w, 9 * SECOND);
    assert_false(w.learner_leaves);
    life_world_pass(&w, 2 * SECOND); // node.linger is over
    assert_true(w.learner_leaves);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_LINGERED), 1);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_WRITTEN, .status = 0});
    assert_true(w.departed && !w.ended);
    life_world_pass(&w, 500 * MS);
    assert_true(w.ended);
    assert_int_equal(state_of(), GOSSIP_LIFE_ENDED);
}

static void the_others_do_not_wait_for_the_disk(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_FROZEN});
    assert_int_equal(state_of(), GOSSIP_LIFE_LEFT);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_DEPART), 1);
    life_world_pass(&w, 20 * SECOND);
    assert_false(w.ended); // its last checkpoint is on its way
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_WRITTEN, .status = 1});
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_DEPART), 1);
    life_world_look(&w);
    assert_true(w.ended);
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_END)->status, 1);
}

// It has uncounted to fetch, and all other models are gone once the finished nodes leave.
static void lingers_for_a_member_that_fetches(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    for (size_t i = 1; i < w.count; i++)
        life_world_flags(&w, i, FINISHED);
    life_world_flags(&w, 1, 0);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_DONE});
    life_world_pass(&w, 9 * SECOND);
    assert_false(w.learner_leaves);
    life_world_flags(&w, 1, FINISHED);
    life_world_look(&w);
    assert_true(w.learner_leaves);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_LINGERED), 0);
}

static void a_node_flushes_its_links_before_it_ends(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    w.self.links_ended = false;
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
    assert_int_equal(state_of(), GOSSIP_LIFE_STOPPING);
    assert_true(w.learner_leaves);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_WRITTEN, .status = 1});
    life_world_pass(&w, SECOND);
    assert_false(w.ended);
    life_world_pass(&w, 1100 * MS); // but not for ever
    assert_true(w.ended);
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_END)->status, 1);
}

// -- a common stop round

static void stopping(size_t member, uint64_t round)
{
    w.member[member].record.stop_round = round;
    life_world_flags(&w, member, TRAINS | GOSSIP_RECORD_STOPPING);
}

static void in_lock_step(void)
{
    life_world_init(&w);
    w.options.sync = true;
    life_world_train(&w);
    for (uint64_t round = 1; round <= 20; round++) { // 20 rounds a second
        w.now_ns += 50 * MS;
        all_train_at(round, round);
    }
}

// In sync a node does not take a step alone while there are others: members that count or soon will, have not
// finished, and have answered.
static void the_others_are_the_members_that_train_with_it_and_have_answered(void **state)
{
    const struct {
        uint8_t flags;
        enum gossip_member_state state;
        bool answered, company;
    } cases[] = {
        {COUNTS, GOSSIP_MEMBER_ALIVE, true, true},
        {TRAINS, GOSSIP_MEMBER_SUSPECT, true, true},
        {GOSSIP_RECORD_HELD, GOSSIP_MEMBER_ALIVE, true, true},
        {TRAINS, GOSSIP_MEMBER_ALIVE, false, false}, // it only claims so
        {TRAINS, GOSSIP_MEMBER_DEAD, true, false},
        {TRAINS, GOSSIP_MEMBER_LEFT, true, false},
        {FINISHED, GOSSIP_MEMBER_ALIVE, true, false},
        {GOSSIP_RECORD_TRAINING, GOSSIP_MEMBER_ALIVE, true, false}, // it fetches, or is cut off
        {0, GOSSIP_MEMBER_ALIVE, true, false},
    };
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t k = 1; k < w.count; k++) {
            life_world_flags(&w, k, k == 2 ? cases[i].flags : 0);
            w.member[k].info.answered = k != 2 || cases[i].answered;
        }
        life_world_state(&w, 2, cases[i].state);
        life_world_look(&w);
        assert_int_equal(gossip_life_others(w.life), cases[i].company);
    }
}

static void a_stop_in_lock_step_is_announced(void **state)
{
    (void)state;
    in_lock_step();
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
    assert_int_equal(state_of(), GOSSIP_LIFE_STOPPING);
    assert_in_range(w.stop_at, 20 + 10, 20 + 16); // half a second of rounds, and those that may have passed
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_ANNOUNCE)->round, w.stop_at);
}

// All have begun, and their records do not show it yet. If the records do not show it for long, they do not
// train.
static void a_stop_right_after_the_beginning_is_announced_too(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        life_world_init(&w);
        w.options.sync = true;
        life_world_train(&w);
        for (size_t i = 1; i < w.count; i++)
            life_world_flags(&w, i, COUNTS);
        life_world_pass(&w, late ? 3 * SECOND : SECOND / 10);
        life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
        life_world_pass(&w, SECOND / 2); // meanwhile no round ends
        assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ANNOUNCE), !late);
        assert_int_equal(w.stop_at > 0, !late);
        life_world_end(&w);
    }
}

// The time of a round decides how far ahead the stop must be for the others to hear of it in time.
static void a_stop_waits_until_the_duration_of_a_round_is_known(void **state)
{
    (void)state;
    life_world_init(&w);
    w.options.sync = true;
    life_world_train(&w);
    all_train_at(1, 1);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
    assert_int_equal(state_of(), GOSSIP_LIFE_STOPPING);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_STOP_AT), 0);
    w.now_ns += 100 * MS;
    all_train_at(21, 21); // 5 ms a round
    assert_in_range(w.stop_at, 21 + 100, 21 + 130);
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_ANNOUNCE)->round, w.stop_at);
}

static void a_node_that_is_told_later_stops_where_the_others_do(void **state)
{
    (void)state;
    in_lock_step();
    stopping(1, 26);
    stopping(2, 29);
    stopping(3, 20000); // no node waits for that round
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
    assert_int_equal(w.stop_at, 29);
    stopping(1, 35);
    life_world_state(&w, 1, GOSSIP_MEMBER_ALIVE); // the node learns of the new record
    assert_int_equal(w.stop_at, 35);              // both were told at the same moment
}

static void comes_to(uint64_t round, bool stands)
{
    life_world_tell(
        &w,
        (struct gossip_life_event){
            .kind = GOSSIP_LIFE_PROGRESS, .round = round, .step = 8 * round, .least = round, .ok = stands});
}

// Rounds are shorter than before: others that are told at the same moment have not heard of this stop round.
static void a_node_that_reaches_its_stop_round_early_stands_there(void **state)
{
    (void)state;
    for (uint64_t open = 0; open < 2; open++) { // the exchange of that round was made, or was not made
        in_lock_step();
        life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
        const uint64_t first = w.stop_at;
        comes_to(first - open, true);
        life_world_pass(&w, 100 * MS);
        assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_LEAVE), 0);
        stopping(2, first + 300); // rounds of 1 ms
        life_world_state(&w, 2, GOSSIP_MEMBER_ALIVE);
        assert_int_equal(w.stop_at, first + 300);
        assert_int_equal(life_world_last(&w, GOSSIP_LIFE_ANNOUNCE)->round, first + 300);
        comes_to(first, true); // it was told before it heard of that stop round
        life_world_pass(&w, SECOND);
        assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_LEAVE), 0);
        comes_to(first + 300 - open, true);
        assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_LEAVE), 1);
        life_world_pass(&w, 5 * SECOND);
        assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_LEAVE), 1);
        assert_int_equal(w.stop_at, first + 300);
        life_world_end(&w);
    }
    in_lock_step();
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
    comes_to(w.stop_at, true);
    life_world_pass(&w, 400 * MS);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_LEAVE), 0);
    life_world_pass(&w, 200 * MS); // no member reports anything: half a second after it was told
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_LEAVE), 1);
}

// The others stand at the stop round; once one of them has left, none of them goes on.
static void a_node_that_has_passed_its_stop_round_announces_a_later_one(void **state)
{
    (void)state;
    in_lock_step();
    stopping(1, 29);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
    assert_int_equal(w.stop_at, 29);
    life_world_tell(
        &w, (struct gossip_life_event){.kind = GOSSIP_LIFE_PROGRESS, .round = 29, .step = 232, .least = 30});
    assert_in_range(w.stop_at, 30, 33);
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_ANNOUNCE)->round, w.stop_at);
    comes_to(w.stop_at, true);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_LEAVE), 0);
    w.member[2].record.stop_round = w.stop_at;
    life_world_state(&w, 2, GOSSIP_MEMBER_LEFT);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_LEAVE), 1);
}

// It may still wait for its exchange of that round, with a neighbour that the graph of the next view would
// not have.
static void a_node_keeps_its_graph_when_a_member_has_left_at_its_stop_round(void **state)
{
    (void)state;
    in_lock_step();
    w.member[2].record.stop_round = 21;
    life_world_state(&w, 2, GOSSIP_MEMBER_LEFT);
    assert_false(gossip_life_keeps_graph(w.life, life_world_table(&w))); // this node goes on
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
    assert_true(w.stop_at > 21 && !gossip_life_keeps_graph(w.life, life_world_table(&w)));
    w.member[3].record.stop_round = w.stop_at;
    life_world_state(&w, 3, GOSSIP_MEMBER_LEFT);
    assert_true(gossip_life_keeps_graph(w.life, life_world_table(&w)));
}

// At first a node does not know how short the rounds of others are.
static void a_stop_round_that_is_further_off_than_any_grace_is_ignored(void **state)
{
    (void)state;
    in_lock_step();
    stopping(3, 1500);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
    assert_int_equal(w.stop_at, 1500);
    for (uint64_t round = 21; round <= 60 && w.stop_at; round++) {
        w.now_ns += 50 * MS;
        all_train_at(round, round);
        assert_true(round < 60);
    }
    assert_int_equal(w.stop_at, 0); // the next boundary
    stopping(3, 1501);
    life_world_pass(&w, SECOND);
    assert_int_equal(w.stop_at, 0);
}

static void a_round_that_has_passed_is_not_a_stop_round(void **state)
{
    (void)state;
    in_lock_step();
    stopping(1, 20);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
    assert_true(w.stop_at > 20);
}

static void without_lock_step_a_node_stops_at_the_next_boundary(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    all_train_at(20, 20);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
    assert_int_equal(w.stop_at, 0);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_STOP_AT), 1);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ANNOUNCE), 0);
}

// -- two processes with one identity

static void a_node_gives_way_when_membership_reports_a_conflict(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_DUPLICATE});
    assert_false(w.ended); // once it has begun, the report of one peer is not enough
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_DUPLICATE, .ok = true});
    assert_true(w.ended && !w.departed);
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_END)->status, GOSSIP_LIFE_ABANDONED);
}

static void a_node_that_has_not_begun_gives_way_on_the_report_of_one_peer(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_DUPLICATE});
    assert_true(w.ended);
}

int main(void)
{
#define RULE(name) cmocka_unit_test_teardown(name, clean)
    const struct CMUnitTest tests[] = {
        RULE(a_finished_node_lingers_while_others_train),
        RULE(the_others_do_not_wait_for_the_disk),
        RULE(lingers_for_a_member_that_fetches),
        RULE(a_node_flushes_its_links_before_it_ends),
        RULE(the_others_are_the_members_that_train_with_it_and_have_answered),
        RULE(a_stop_in_lock_step_is_announced),
        RULE(a_stop_right_after_the_beginning_is_announced_too),
        RULE(a_stop_waits_until_the_duration_of_a_round_is_known),
        RULE(a_node_that_is_told_later_stops_where_the_others_do),
        RULE(a_node_that_reaches_its_stop_round_early_stands_there),
        RULE(a_node_that_has_passed_its_stop_round_announces_a_later_one),
        RULE(a_node_keeps_its_graph_when_a_member_has_left_at_its_stop_round),
        RULE(a_stop_round_that_is_further_off_than_any_grace_is_ignored),
        RULE(a_round_that_has_passed_is_not_a_stop_round),
        RULE(without_lock_step_a_node_stops_at_the_next_boundary),
        RULE(a_node_gives_way_when_membership_reports_a_conflict),
        RULE(a_node_that_has_not_begun_gives_way_on_the_report_of_one_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
