// Nodes whose scaling follows from the examples of all nodes: one goes first and waits for the statistics of
// the others; the others send them and take its model.
#include "test/support/life_rules.h"

// One other node is listed and joins, without a model so far.
static void begin_with(uint8_t own_id)
{
    life_world_init(&w);
    w.options.gathers = true;
    w.options.start_members = 0;
    w.self.listed = w.self.missing = 1;
    w.self.in_view = true;
    w.member[0].record.id.bytes[0] = own_id;
    w.member[0].record.first_model = 7;
    w.member[life_world_join(&w)].record.first_model = 9;
    life_world_begin(&w);
}

static void the_first_node_waits_for_the_statistics_of_the_others(void **state)
{
    (void)state;
    begin_with(1);
    life_world_pass(&w, 5 * SECOND);
    assert_int_equal(w.flags & COUNTS, COUNTS);
    assert_false(w.learner_started);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_GATHER), 0);
    w.member[1].gathered = true;
    life_world_pass(&w, SECOND);
    assert_true(w.learner_started && !w.learner_fetches);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_UNHEARD), 0);
}

static void the_first_node_does_not_wait_for_ever(void **state)
{
    (void)state;
    begin_with(1);
    life_world_pass(&w, 29 * SECOND);
    assert_false(w.learner_started);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_UNHEARD), 0);
    life_world_pass(&w, 2 * SECOND);
    assert_true(w.learner_started && !w.learner_fetches);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_UNHEARD),
                     1); // now its scaling is that of all, for good
}

static void the_first_node_does_not_wait_for_dead_members(void **state)
{
    (void)state;
    begin_with(1);
    w.self.listed = w.self.missing = 0;
    life_world_pass(&w, 5 * SECOND);
    assert_false(w.learner_started);
    life_world_state(&w, 1, GOSSIP_MEMBER_DEAD);
    life_world_pass(&w, SECOND);
    assert_true(w.learner_started);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_UNHEARD), 0);
}

static void the_first_node_waits_for_a_member_that_has_not_answered_yet(void **state)
{
    (void)state;
    begin_with(1);
    w.member[1].gathered = true;
    w.member[1].info.answered = true;
    const size_t heard_of = life_world_join(&w);
    w.member[heard_of].record.first_model = 11;
    w.member[heard_of].info.answered = false;
    life_world_pass(&w, 5 * SECOND);
    assert_false(w.learner_started);
    w.member[heard_of].gathered = true;
    life_world_pass(&w, SECOND);
    assert_true(w.learner_started);
}

static void the_others_send_their_statistics_until_the_first_node_trains(void **state)
{
    (void)state;
    begin_with(5);
    life_world_pass(&w, SECOND / 2);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_GATHER), 1);
    assert_memory_equal(&life_world_last(&w, GOSSIP_LIFE_GATHER)->peer, &w.member[1].record.id,
                        sizeof(struct gossip_id));
    life_world_pass(&w, 2 * SECOND); // the first message may have been lost
    assert_in_range(life_world_actions(&w, GOSSIP_LIFE_GATHER), 2, 3);
    life_world_flags(&w, 1, TRAINS);
    life_world_pass(&w, SECOND);
    assert_true(w.learner_started && w.learner_fetches);
    life_world_clear(&w);
    life_world_pass(&w, 5 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_GATHER), 0);
}

static void the_link_for_statistics_is_not_kept_for_ever(void **state)
{
    (void)state;
    begin_with(5);
    life_world_pass(&w, SECOND / 2);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_GATHER), 1);
    life_world_clear(&w);
    life_world_state(&w, 1, GOSSIP_MEMBER_DEAD); // now this node goes first
    life_world_pass(&w, 31 * SECOND);
    assert_true(w.learner_started);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_LINKS), 1);
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_LINKS)->count, 0);
}

// A resumed member has a scaling; a second scaling beside it would split the cluster.
static void a_node_waits_for_a_resumed_member_as_for_a_donor(void **state)
{
    (void)state;
    begin_with(1);
    w.member[1].record.first_model = 0;
    w.member[1].info.answered = true;
    life_world_pass(&w, 335 * SECOND);
    assert_false(w.learner_started || w.ended);
    life_world_pass(&w, 10 * SECOND);
    assert_true(w.ended && !w.learner_started);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_NO_SCALING), 1);
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_END)->status, GOSSIP_LIFE_ABANDONED);
}

// Time in which the process was stopped does not count as waiting; if the member trains, the node takes its
// model.
static void a_resumed_member_that_trains_does_not_end_the_wait(void **state)
{
    (void)state;
    begin_with(1);
    life_world_pass(&w, SECOND);
    w.now_ns += 400 * SECOND;
    w.member[1].record.first_model = 0;
    w.member[1].info.answered = true;
    life_world_look(&w);
    assert_false(w.ended);
    w.now_ns += 400 * SECOND;
    life_world_flags(&w, 1, GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_TRAINING);
    life_world_pass(&w, SECOND);
    assert_false(w.ended);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_NO_SCALING), 0);
}

static void over_a_new_link_statistics_are_sent_again(void **state)
{
    (void)state;
    begin_with(5);
    life_world_pass(&w, SECOND / 2);
    life_world_clear(&w);
    life_world_tell(&w,
                    (struct gossip_life_event){.kind = GOSSIP_LIFE_LINKED, .peer = w.member[1].record.id});
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_GATHER), 1);
}

static void a_node_that_gathers_no_statistics_sends_none_and_waits_for_none(void **state)
{
    (void)state;
    life_world_init(&w);
    w.options.start_members = 0;
    w.self.listed = w.self.missing = 1;
    w.self.in_view = true;
    w.member[0].record.id.bytes[0] = 1;
    w.member[0].record.first_model = 7;
    w.member[life_world_join(&w)].record.first_model = 9;
    life_world_begin(&w);
    life_world_pass(&w, SECOND);
    assert_true(w.learner_started);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_GATHER), 0);
}

// -- the first step

// One that counts may still read its data: the others wait for it, and say that they are ready themselves.
static void nodes_that_expect_each_other_begin_together(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    while (w.count < 4)
        life_world_flags(&w, life_world_join(&w), COUNTS);
    w.member[2].record.flags = COUNTS; // not READY
    life_world_look(&w);
    w.self.in_view = w.self.edge_live = true;
    w.self.n_view = w.count;
    w.self.n_neighbours = 2;
    life_world_pass(&w, SECOND);
    assert_int_equal(state_of(), GOSSIP_LIFE_WAITING);
    assert_true(w.flags & GOSSIP_RECORD_READY);
    life_world_flags(&w, 2, COUNTS | GOSSIP_RECORD_READY);
    life_world_look(&w);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
    assert_false(w.flags & GOSSIP_RECORD_READY);
}

#define RULE(name) cmocka_unit_test_teardown(name, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(nodes_that_expect_each_other_begin_together),
        RULE(the_first_node_waits_for_the_statistics_of_the_others),
        RULE(the_first_node_does_not_wait_for_ever),
        RULE(the_first_node_does_not_wait_for_dead_members),
        RULE(the_first_node_waits_for_a_member_that_has_not_answered_yet),
        RULE(the_others_send_their_statistics_until_the_first_node_trains),
        RULE(the_link_for_statistics_is_not_kept_for_ever),
        RULE(a_node_waits_for_a_resumed_member_as_for_a_donor),
        RULE(a_resumed_member_that_trains_does_not_end_the_wait),
        RULE(over_a_new_link_statistics_are_sent_again),
        RULE(a_node_that_gathers_no_statistics_sends_none_and_waits_for_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
