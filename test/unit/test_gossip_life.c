// The life of a node, rule by rule: what it decides when others join, train, die, finish and leave.
#include "test/support/life_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SECOND LIFE_TEST_SECOND
#define MS     (SECOND / 1000)

enum {
    COUNTS = GOSSIP_RECORD_ELIGIBLE,
    TRAINS = GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_TRAINING,
    FINISHED = TRAINS | GOSSIP_RECORD_FINISHED
};

static struct life_world w;

static int clean(void **state)
{
    (void)state;
    life_world_end(&w);
    return 0;
}

static enum gossip_life_state state_of(void)
{
    return gossip_life_state(w.life);
}

static void others(size_t count, uint8_t flags)
{
    for (size_t i = 0; i < count; i++)
        life_world_flags(&w, life_world_join(&w), flags);
}

static void fetched(uint64_t round)
{
    life_world_tell(&w, (struct gossip_life_event){
                            .kind = GOSSIP_LIFE_FETCHED, .round = round, .step = 8 * round, .ok = true});
}

static void wants(void)
{
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_WANTS});
}

// -- joining

static void counts_a_moment_after_it_met_somebody(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    life_world_pass(&w, 2 * SECOND);
    assert_int_equal(state_of(), GOSSIP_LIFE_JOINING); // others are listed
    others(1, 0);
    life_world_look(&w);
    assert_false(w.flags & COUNTS);
    life_world_pass(&w, 200 * MS);
    assert_false(w.flags & COUNTS);
    life_world_pass(&w, 100 * MS);
    assert_true(w.flags & COUNTS);
    assert_int_equal(state_of(), GOSSIP_LIFE_WAITING);
}

static void counts_at_once_when_nobody_else_is_expected(void **state)
{
    (void)state;
    life_world_init(&w);
    w.options.start_members = 0;
    w.self.listed = 0;
    life_world_begin(&w);
    life_world_look(&w);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
    assert_true(w.learner_started && !w.learner_fetches);
}

static void begins_without_the_missing_at_the_timeout(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    life_world_pass(&w, 29 * SECOND);
    assert_false(w.learner_started);
    life_world_pass(&w, 2 * SECOND);
    assert_true(w.learner_started && !w.learner_fetches);
    assert_int_equal(life_world_news(&w, GOSSIP_LIFE_BEGINS_WITHOUT), 1);
}

static void waits_for_members_and_for_edges(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others(3, COUNTS);
    life_world_look(&w);
    life_world_pass(&w, SECOND);
    assert_int_equal(state_of(), GOSSIP_LIFE_WAITING);
    w.self.n_view = 3;
    w.self.in_view = true;
    life_world_pass(&w, SECOND);
    assert_false(w.learner_started); // one is missing
    w.self.n_view = 4;
    w.self.edges_live = false;
    life_world_pass(&w, SECOND);
    assert_false(w.learner_started); // an edge is not there
    w.self.edges_live = true;
    life_world_look(&w);
    assert_true(w.learner_started);
    assert_true(w.flags & GOSSIP_RECORD_TRAINING);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
}

// -- a model of others

static void who_comes_late_fetches_then_counts(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others(5, TRAINS);
    life_world_look(&w);
    assert_int_equal(state_of(), GOSSIP_LIFE_FETCHING);
    assert_true(w.learner_started && w.learner_fetches);
    wants();
    assert_int_equal(w.n_links, GOSSIP_LIFE_DONORS);
    assert_int_equal(w.n_asked, 0); // no link yet
    for (size_t i = 1; i < w.count; i++)
        w.member[i].linked = true;
    life_world_look(&w);
    assert_int_equal(w.n_asked, GOSSIP_LIFE_DONORS);
    assert_false(w.flags & COUNTS);
    fetched(40);
    assert_true((w.flags & TRAINS) == TRAINS);
    assert_int_equal(w.n_links, 0);
    // It has no edge yet: what it learnt alone would pull the others to its own data.
    assert_int_equal(state_of(), GOSSIP_LIFE_PAUSED);
    assert_int_equal(gossip_life_pauses(w.life), GOSSIP_LIFE_EDGES);
    assert_true(w.learner_paused);
    w.self.in_view = true;
    life_world_look(&w);
    assert_false(w.learner_paused);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
}

static void edges_are_not_waited_for_for_ever(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others(3, TRAINS);
    life_world_look(&w);
    wants();
    fetched(40);
    life_world_pass(&w, 4900 * MS);
    assert_true(w.learner_paused);
    life_world_pass(&w, 200 * MS);
    assert_false(w.learner_paused);
}

static void the_nearest_are_asked(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others(7, TRAINS); // ids 2 to 8; this node's is 1: 3, 2, 5, 4 are the nearest
    for (size_t i = 1; i < w.count; i++)
        w.member[i].linked = true;
    life_world_look(&w);
    wants();
    assert_int_equal(w.n_asked, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(w.asked[i].bytes[0], "\3\2\5\4"[i]);
    life_world_state(&w, 2, GOSSIP_MEMBER_DEAD); // id 3
    life_world_look(&w);
    assert_true(w.asked[0].bytes[0] == 2 && w.asked[3].bytes[0] != 3);
}

// It says that it trains, and nobody has ever heard it say so.
static void who_has_never_answered_is_not_believed(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others(2, TRAINS);
    w.member[1].info.answered = w.member[2].info.answered = false;
    life_world_look(&w);
    life_world_pass(&w, 10 * SECOND);
    assert_int_equal(state_of(), GOSSIP_LIFE_JOINING); // one of them may answer yet
    life_world_pass(&w, 21 * SECOND);
    assert_true(w.learner_started && !w.learner_fetches);
}

static void warns_when_nobody_can_give(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others(1, TRAINS);
    life_world_look(&w);
    wants();
    life_world_state(&w, 1, GOSSIP_MEMBER_DEAD);
    life_world_pass(&w, 9 * SECOND);
    assert_int_equal(life_world_news(&w, GOSSIP_LIFE_NO_DONOR), 0);
    life_world_pass(&w, 2 * SECOND);
    assert_int_equal(life_world_news(&w, GOSSIP_LIFE_NO_DONOR), 1);
    assert_int_equal(state_of(), GOSSIP_LIFE_FETCHING); // it has no model at all
}

// -- partitions

static void the_smaller_side_pauses(void **state)
{
    (void)state;
    life_world_init(&w);
    w.options.partition = GOSSIP_LIFE_PAUSE_MINORITY;
    life_world_train(&w);
    w.self.minority = true;
    life_world_look(&w);
    assert_true(w.learner_paused);
    assert_int_equal(gossip_life_pauses(w.life), GOSSIP_LIFE_MINORITY);
    assert_int_equal(life_world_news(&w, GOSSIP_LIFE_PARTITION), 1);
    w.self.minority = false;
    life_world_look(&w);
    assert_false(w.learner_paused);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
}

static void the_smaller_side_takes_the_larger_ones_model(void **state)
{
    (void)state;
    life_world_init(&w);
    w.options.partition = GOSSIP_LIFE_MAJORITY;
    life_world_train(&w);
    life_world_state(&w, 2, GOSSIP_MEMBER_DEAD);
    life_world_state(&w, 3, GOSSIP_MEMBER_DEAD);
    w.self.minority = true;
    life_world_look(&w);
    assert_false(w.learner_paused);
    life_world_state(&w, 2, GOSSIP_MEMBER_ALIVE);
    life_world_state(&w, 3, GOSSIP_MEMBER_ALIVE);
    w.self.minority = false;
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 1);
    assert_false(w.flags & COUNTS);
    for (size_t i = 1; i < w.count; i++)
        w.member[i].linked = true;
    wants();
    assert_int_equal(state_of(), GOSSIP_LIFE_FETCHING);
    assert_int_equal(w.n_asked, 2); // members 2 and 3 only
    fetched(100);
    assert_true(w.flags & COUNTS);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
}

static void merge_goes_on(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    w.self.minority = true;
    life_world_look(&w);
    w.self.minority = false;
    life_world_look(&w);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_PAUSE), 0);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 0);
}

// -- who is gone

static void edges_of_the_dead_are_forgotten_after_a_while(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    life_world_state(&w, 1, GOSSIP_MEMBER_DEAD);
    life_world_pass(&w, 30 * SECOND);
    life_world_state(&w, 2, GOSSIP_MEMBER_LEFT);
    life_world_pass(&w, 20 * SECOND);
    life_world_state(&w, 2, GOSSIP_MEMBER_ALIVE); // back in time
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FORGET), 0);
    life_world_pass(&w, 11 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FORGET), 1);
    assert_true(life_world_last(&w, GOSSIP_LIFE_FORGET)->peer.bytes[0] == 2);
    life_world_pass(&w, 120 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FORGET), 1);
}

static void who_is_not_known_any_more_is_forgotten_at_once(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_REMOVED, .peer = {{3}}});
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FORGET), 1);
}

static void shards_of_the_dead_are_taken_over(void **state)
{
    (void)state;
    life_world_init(&w);
    w.options.shards = 5; // the fifth has never had a node
    w.options.takeover_after_ns = 10 * SECOND;
    life_world_train(&w);
    life_world_state(&w, 2, GOSSIP_MEMBER_DEAD);
    life_world_flags(&w, 3, FINISHED);
    life_world_state(&w, 3, GOSSIP_MEMBER_LEFT); // has seen its examples
    life_world_pass(&w, 9 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_SHARDS), 0);
    life_world_pass(&w, 3 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_SHARDS), 1);
    assert_int_equal(w.n_living, 4);
    assert_memory_equal(w.living, ((uint32_t[]){0, 1, 3, 4}), 4 * sizeof *w.living);
    life_world_state(&w, 2, GOSSIP_MEMBER_ALIVE);
    life_world_pass(&w, 2 * SECOND);
    assert_int_equal(w.n_living, 5);
}

// -- the end

static void who_is_left_alone_ends_with_the_others(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    for (size_t i = 1; i < 3; i++)
        life_world_flags(&w, i, FINISHED);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 0); // one more trains
    life_world_state(&w, 3, GOSSIP_MEMBER_DEAD);
    life_world_look(&w);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 1);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_DONE});
    assert_true(w.flags & GOSSIP_RECORD_FINISHED);
    assert_true(life_world_last(&w, GOSSIP_LIFE_TELL)->kind == GOSSIP_LIFE_TELL);
    assert_true(w.learner_leaves);
    assert_int_equal(state_of(), GOSSIP_LIFE_LEAVING);
}

static void goes_on_when_the_others_died(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    for (size_t i = 1; i < w.count; i++)
        life_world_state(&w, i, GOSSIP_MEMBER_DEAD);
    life_world_pass(&w, 10 * SECOND);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 0);
}

static void lingers_while_others_train(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_DONE, .ok = true});
    assert_int_equal(state_of(), GOSSIP_LIFE_FINISHED);
    life_world_pass(&w, 9 * SECOND);
    assert_false(w.learner_leaves);
    life_world_pass(&w, 2 * SECOND); // node.linger is over
    assert_true(w.learner_leaves);
    assert_int_equal(life_world_news(&w, GOSSIP_LIFE_LINGERED), 1);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_WRITTEN, .status = 0});
    assert_true(w.departed && !w.ended);
    life_world_pass(&w, 500 * MS);
    assert_true(w.ended);
    assert_int_equal(state_of(), GOSSIP_LIFE_ENDED);
}

static void links_are_flushed_before_it_ends(void **state)
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
    life_world_pass(&w, 1100 * MS); // and not for ever
    assert_true(w.ended);
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_END)->status, 1);
}

static void a_restarted_node_that_comes_too_late_takes_the_finished_model(void **state)
{
    (void)state;
    life_world_init(&w);
    w.options.resumed = true;
    w.self.in_view = true;
    others(3, FINISHED);
    life_world_begin(&w);
    life_world_look(&w);
    assert_true(w.flags & COUNTS); // so that they stay
    assert_true(w.learner_started && w.learner_fetches);
    assert_int_equal(state_of(), GOSSIP_LIFE_FETCHING);
    wants();
    for (size_t i = 1; i < w.count; i++)
        life_world_state(&w, i, GOSSIP_MEMBER_LEFT);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_END_FETCH), 1);
    assert_int_equal(life_world_news(&w, GOSSIP_LIFE_GAVE_UP), 1);
}

// -- two with one identity

static void gives_way_when_membership_says_so(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_TWIN});
    assert_false(w.ended); // the word of one peer is not enough once it has begun
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_TWIN, .ok = true});
    assert_true(w.ended && !w.departed);
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_END)->status, GOSSIP_LIFE_ABANDONED);
}

static void a_beginner_gives_way_on_the_word_of_a_peer(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_TWIN});
    assert_true(w.ended);
}

int main(void)
{
#define RULE(name) cmocka_unit_test_teardown(name, clean)
    const struct CMUnitTest tests[] = {
        RULE(counts_a_moment_after_it_met_somebody),
        RULE(counts_at_once_when_nobody_else_is_expected),
        RULE(begins_without_the_missing_at_the_timeout),
        RULE(waits_for_members_and_for_edges),
        RULE(who_comes_late_fetches_then_counts),
        RULE(edges_are_not_waited_for_for_ever),
        RULE(the_nearest_are_asked),
        RULE(who_has_never_answered_is_not_believed),
        RULE(warns_when_nobody_can_give),
        RULE(the_smaller_side_pauses),
        RULE(the_smaller_side_takes_the_larger_ones_model),
        RULE(merge_goes_on),
        RULE(edges_of_the_dead_are_forgotten_after_a_while),
        RULE(who_is_not_known_any_more_is_forgotten_at_once),
        RULE(shards_of_the_dead_are_taken_over),
        RULE(who_is_left_alone_ends_with_the_others),
        RULE(goes_on_when_the_others_died),
        RULE(lingers_while_others_train),
        RULE(links_are_flushed_before_it_ends),
        RULE(a_restarted_node_that_comes_too_late_takes_the_finished_model),
        RULE(gives_way_when_membership_says_so),
        RULE(a_beginner_gives_way_on_the_word_of_a_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
