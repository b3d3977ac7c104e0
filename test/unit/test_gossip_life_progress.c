// The life of a node, rule by rule: the progress of the cluster, and what a node does that was away.
#include "test/support/life_rules.h"
#include "test/support/life_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void resumed_at(uint64_t round, uint64_t others_at)
{
    life_world_init(&w);
    w.options.resumed = true;
    w.options.round = round;
    w.options.step = 8 * round;
    w.self.in_view = true;
    w.self.n_view = 4;
    others(3, TRAINS);
    for (size_t i = 1; i < w.count; i++)
        life_world_progress(&w, i, others_at);
    life_world_begin(&w);
    life_world_look(&w);
}

static void within_reach_it_goes_on_behind_the_others(void **state)
{
    (void)state;
    resumed_at(300, 390);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
    assert_false(w.learner_fetches);
    assert_true(w.started_away);
    assert_int_equal(w.started_round, 390);
}

static void beyond_reach_it_fetches_before_it_counts(void **state)
{
    (void)state;
    resumed_at(300, 410);
    assert_int_equal(state_of(), GOSSIP_LIFE_FETCHING);
    assert_true(w.learner_fetches && w.started_away);
    assert_false(w.flags & COUNTS);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_FAR_BEHIND), 1);
    wants();
    fetched(411);
    assert_true((w.flags & TRAINS) == TRAINS);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
}

static void a_few_rounds_are_nothing(void **state)
{
    (void)state;
    resumed_at(300, 303); // as lock-step has it while all begin again
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
    assert_false(w.started_away);
    assert_int_equal(w.started_round, 300);
}

// The report may be seconds old: the others may be further than it says.
static void near_the_others_it_asks_its_neighbours(void **state)
{
    (void)state;
    resumed_at(300, 303);
    assert_true(w.started_follows);
    assert_false(w.started_away);
    life_world_end(&w);
    resumed_at(300, 290); // of two that are told to stop together one begins first
    assert_true(w.started_follows);
}

// At round 300; the others train, and have not said where.
static void resumed_beside_three(void)
{
    life_world_init(&w);
    w.options.resumed = true;
    w.options.round = 300;
    w.self.in_view = true;
    others(3, TRAINS);
}

// At round 10, and knows of no other yet.
static void resumed_alone(void)
{
    life_world_init(&w);
    w.options.resumed = true;
    w.options.round = 10;
    w.options.step = 80;
    life_world_begin(&w);
}

static void it_waits_until_somebody_says_where_the_others_are(void **state)
{
    (void)state;
    resumed_beside_three();
    life_world_begin(&w);
    life_world_pass(&w, 2 * SECOND);
    assert_int_equal(state_of(), GOSSIP_LIFE_JOINING);
    life_world_progress(&w, 1, 900); // one of three
    life_world_look(&w);
    assert_int_equal(state_of(), GOSSIP_LIFE_JOINING);
    life_world_progress(&w, 2, 350);
    life_world_look(&w);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
    assert_int_equal(w.started_round, 350);
}

static void one_liar_does_not_move_the_clusters_round(void **state)
{
    (void)state;
    resumed_beside_three();
    life_world_progress(&w, 1, 340);
    life_world_progress(&w, 2, 341);
    w.member[3].info.round = w.member[3].info.step = UINT64_MAX;
    w.member[3].info.progress_ns = w.now_ns;
    life_world_begin(&w);
    life_world_look(&w);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
    assert_int_equal(w.started_round, 340); // what cannot be is not counted
}

// Nobody trains: all were restarted. The newest state that is there counts.
static void restarted(uint64_t round, uint64_t newest)
{
    life_world_init(&w);
    w.options.resumed = true;
    w.options.round = round;
    w.self.in_view = true;
    w.self.n_view = 4;
    others(3, COUNTS);
    life_world_progress(&w, 1, newest);
    life_world_progress(&w, 2, 10);
    life_world_begin(&w);
    life_world_look(&w);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
}

static void when_all_were_restarted_the_newest_state_wins(void **state)
{
    (void)state;
    restarted(300, 700);
    assert_true(w.started_away);
    assert_int_equal(w.started_round, 700);
    life_world_end(&w);
    restarted(300, 390);                               // within reach: its own is as good
    assert_false(w.started_away || w.started_follows); // nobody trains, so nobody is ahead
    assert_int_equal(w.started_round, 300);
    life_world_end(&w);
    restarted(700, 300);
    assert_false(w.started_away);
    assert_int_equal(w.started_round, 700);
}

// Whether others train is not known before it has met one.
static void who_was_away_counts_when_it_has_met_somebody(void **state)
{
    (void)state;
    resumed_alone();
    life_world_look(&w);
    assert_false(w.flags & COUNTS);
    others(3, TRAINS);
    for (size_t i = 1; i <= 3; i++)
        life_world_progress(&w, i, 1000);
    life_world_look(&w);
    assert_true(w.learner_fetches);
    assert_false(w.flags & COUNTS); // with a model of long ago it is in no graph
    life_world_end(&w);
}

// It has heard of where they are before one of them has answered: there is no donor yet, which is no reason
// to go on with its own model.
static void who_was_away_waits_for_a_donor(void **state)
{
    (void)state;
    resumed_alone();
    others(3, TRAINS);
    for (size_t i = 1; i <= 3; i++) {
        life_world_progress(&w, i, 1000);
        w.member[i].info.answered = false;
    }
    life_world_look(&w);
    assert_false(w.learner_fetches);
    assert_false(w.flags & (COUNTS | GOSSIP_RECORD_TRAINING));
    w.member[2].info.answered = true;
    life_world_look(&w);
    assert_true(w.learner_fetches);
    assert_false(w.flags & (COUNTS | GOSSIP_RECORD_TRAINING));
    life_world_end(&w);
}

// It met one that had not begun, and so it counted: it fetches all the same, and counts no more meanwhile.
static void who_counted_before_it_knew_the_cluster_fetches(void **state)
{
    (void)state;
    for (int finished = 0; finished < 2; finished++) {
        resumed_alone();
        others(1, 0);
        life_world_look(&w);
        assert_true(w.flags & COUNTS);
        life_world_state(&w, 1, GOSSIP_MEMBER_LEFT);
        others(3, finished ? FINISHED : TRAINS);
        for (size_t i = 2; i <= 4; i++)
            life_world_progress(&w, i, 1000); // their last one
        w.self.in_view = true;
        w.self.n_view = 4;
        life_world_look(&w);
        assert_true(w.learner_fetches);
        assert_true(((w.flags & COUNTS) != 0) == finished); // these stay because it counts
        life_world_end(&w);
    }
}

// Who jumped to the last step with a model of long ago would have finished with it.
static void who_comes_back_to_a_cluster_at_its_last_step_fetches(void **state)
{
    (void)state;
    for (int killed = 0; killed < 2; killed++) {
        life_world_init(&w);
        w.options.resumed = killed;
        w.options.round = killed ? 950 : 0;
        w.options.step = 8 * w.options.round;
        if (killed) {
            life_world_begin(&w);
            others(3, TRAINS);
        } else {
            life_world_train(&w);
            all_train_at(950, 950);
            life_world_look(&w);
            w.now_ns += 10 * SECOND; // SIGSTOP
            life_world_look(&w);
        }
        for (size_t i = 1; i <= 3; i++)
            life_world_progress(&w, i, 1000); // within reach: 50 rounds
        life_world_look(&w);
        life_world_look(&w);
        assert_true(w.learner_fetches);
        assert_true(w.started_round < 1000);
        life_world_end(&w);
    }
}

static void a_process_that_stood_still_fetches_if_it_is_far_behind(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    all_train_at(100, 100);
    life_world_look(&w);
    w.now_ns += 10 * SECOND; // SIGSTOP
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 0); // what it knows is old
    life_world_progress(&w, 1, 900);                                      // one may lie
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 0);
    all_train_at(100, 400);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 1);
    assert_true(w.started_away);
    assert_false(w.flags & COUNTS);
    wants();
    fetched(401);
    assert_true(w.flags & COUNTS);
}

// Whatever is told first when it goes on: where the others are is looked at soon.
static void who_stood_still_looks_around(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    life_world_look(&w);
    assert_true(gossip_life_deadline(w.life) > w.now_ns + SECOND);
    w.now_ns += 3 * SECOND;
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_PROGRESS, .round = 1, .step = 8});
    assert_true(gossip_life_deadline(w.life) < w.now_ns + SECOND);
}

// The order may take its time: the learner is in the middle of a round.
static void a_model_that_is_fetched_again_waits_for_its_edges(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    w.self.edges_live = false;
    all_train_at(100, 100);
    w.now_ns += 10 * SECOND;
    all_train_at(100, 400);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 1);
    life_world_pass(&w, SECOND);
    assert_false(w.learner_paused); // it comes to a boundary first
    wants();
    fetched(401);
    assert_true(w.learner_paused);
    assert_int_equal(gossip_life_pauses(w.life), GOSSIP_LIFE_EDGES);
    w.self.edges_live = true;
    life_world_look(&w);
    assert_false(w.learner_paused);
}

// On a slow link the blocks of its edges take more rounds than the reach: another fetch would, too.
static void who_waited_long_for_its_edges_takes_the_clusters_round(void **state)
{
    const uint64_t rounds[] = {404, 440, 900, 1000};

    (void)state;
    for (size_t k = 0; k < sizeof rounds / sizeof rounds[0]; k++) {
        life_world_init(&w);
        life_world_train(&w);
        w.self.edges_live = false;
        all_train_at(100, 100);
        w.now_ns += 10 * SECOND;
        all_train_at(100, 400);
        life_world_look(&w);
        wants();
        fetched(401);
        life_world_clear(&w);
        all_train_at(401, rounds[k]);
        life_world_pass(&w, SECOND);
        assert_true(w.learner_paused);
        assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_START), 0);
        w.self.edges_live = true;
        life_world_look(&w);
        assert_false(w.learner_paused);
        assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 0);
        // Never to the end, and within the normal spread it is in its place.
        assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_START), k == 1 || k == 2);
        if (k == 1 || k == 2) {
            assert_int_equal(w.started_round, rounds[k]);
            assert_true(life_world_last(&w, GOSSIP_LIFE_START) < life_world_last(&w, GOSSIP_LIFE_PAUSE));
        }
        life_world_end(&w);
    }
    life_world_init(&w);
}

static void a_process_that_stood_still_for_less_catches_up(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    all_train_at(100, 100);
    life_world_look(&w);
    w.now_ns += 10 * SECOND;
    all_train_at(100, 180);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 0);
    assert_true(w.started_away);
    assert_int_equal(w.started_round, 180);
}

// Members beside it may have been away, too. One that says more may lie; two say where the cluster is.
static void who_was_away_goes_to_the_members_that_are_ahead(void **state)
{
    const uint64_t expected[] = {0, 160, 160};

    (void)state;
    for (size_t ahead = 1; ahead <= 3; ahead++) {
        life_world_init(&w);
        life_world_train(&w);
        others(4, TRAINS);
        all_train_at(100, 100);
        life_world_look(&w);
        w.now_ns += 5 * SECOND; // SIGSTOP
        life_world_look(&w);
        all_train_at(100, 104);
        for (size_t i = 1; i <= ahead; i++)
            life_world_progress(&w, i, i == 3 ? 900 : 159 + i);
        life_world_look(&w);
        assert_false(w.learner_paused);
        assert_int_equal(w.started_round, expected[ahead - 1] + (ahead == 3));
        life_world_end(&w);
    }
    life_world_init(&w);
}

static void who_is_merely_slow_was_not_away(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    for (uint64_t round = 1; round < 100; round++) {
        all_train_at(round, 5 * round);
        life_world_pass(&w, SECOND);
    }
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 0);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_START), 0);
}

static void who_was_alone_and_ran_ahead_takes_the_model_of_several(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    for (size_t i = 1; i < w.count; i++)
        life_world_state(&w, i, GOSSIP_MEMBER_DEAD);
    life_world_pass(&w, 20 * SECOND);
    assert_false(w.learner_paused); // truly alone, as far as it knows
    all_train_at(900, 200);
    for (size_t i = 1; i < w.count; i++)
        life_world_state(&w, i, GOSSIP_MEMBER_ALIVE);
    life_world_look(&w);
    w.now_ns += SECOND;
    all_train_at(900, 200);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 1);
}

int main(void)
{
#define RULE(name) cmocka_unit_test_teardown(name, clean)
    const struct CMUnitTest tests[] = {
        RULE(within_reach_it_goes_on_behind_the_others),
        RULE(beyond_reach_it_fetches_before_it_counts),
        RULE(a_few_rounds_are_nothing),
        RULE(near_the_others_it_asks_its_neighbours),
        RULE(it_waits_until_somebody_says_where_the_others_are),
        RULE(one_liar_does_not_move_the_clusters_round),
        RULE(when_all_were_restarted_the_newest_state_wins),
        RULE(who_was_away_counts_when_it_has_met_somebody),
        RULE(who_was_away_waits_for_a_donor),
        RULE(who_counted_before_it_knew_the_cluster_fetches),
        RULE(who_comes_back_to_a_cluster_at_its_last_step_fetches),
        RULE(a_process_that_stood_still_fetches_if_it_is_far_behind),
        RULE(who_stood_still_looks_around),
        RULE(a_model_that_is_fetched_again_waits_for_its_edges),
        RULE(who_waited_long_for_its_edges_takes_the_clusters_round),
        RULE(a_process_that_stood_still_for_less_catches_up),
        RULE(who_was_away_goes_to_the_members_that_are_ahead),
        RULE(who_is_merely_slow_was_not_away),
        RULE(who_was_alone_and_ran_ahead_takes_the_model_of_several),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
