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

static void within_reach_a_node_goes_on_behind_the_others(void **state)
{
    (void)state;
    resumed_at(300, 390);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
    assert_false(w.learner_fetches);
    assert_true(w.started_away);
    assert_int_equal(w.started_round, 390);
}

static void beyond_reach_a_node_fetches_before_it_counts(void **state)
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

static void a_node_a_few_rounds_behind_keeps_its_round(void **state)
{
    (void)state;
    resumed_at(300, 303); // as in lock-step while all nodes begin again
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
    assert_false(w.started_away);
    assert_int_equal(w.started_round, 300);
}

// The report may be seconds old, and the others further than it says.
static void a_node_close_behind_the_others_asks_its_neighbours(void **state)
{
    (void)state;
    resumed_at(300, 303);
    assert_false(w.started_away);
    life_world_end(&w);
    resumed_at(300, 290); // of two nodes that are told to stop together, one begins first
}

// At round 300; the others train and have not reported their round.
static void resumed_beside_three(void)
{
    life_world_init(&w);
    w.options.resumed = true;
    w.options.round = 300;
    w.self.in_view = true;
    others(3, TRAINS);
}

// At round 10; it knows no other node yet.
static void resumed_alone(void)
{
    life_world_init(&w);
    w.options.resumed = true;
    w.options.round = 10;
    w.options.step = 80;
    life_world_begin(&w);
}

// While others restart, too, some edge is always about to begin.
static void a_node_that_comes_back_begins_with_one_edge(void **state)
{
    (void)state;
    resumed_beside_three();
    w.self.edges_live = w.self.edge_live = false;
    life_world_begin(&w);
    for (size_t i = 1; i < w.count; i++)
        life_world_progress(&w, i, 390);
    life_world_pass(&w, SECOND);
    assert_int_equal(state_of(), GOSSIP_LIFE_WAITING);
    w.self.edge_live = true;
    life_world_look(&w);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
    assert_true(w.started_away);
}

static void a_resumed_node_waits_for_the_round_of_the_others(void **state)
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

static void one_false_report_does_not_change_the_round_of_the_cluster(void **state)
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
    assert_int_equal(w.started_round, 340); // an impossible value is not counted
}

// No node trains: all were restarted. The newest state counts.
static void restarted(uint64_t round, uint64_t newest, bool sync, uint64_t behind)
{
    life_world_init(&w);
    w.options.sync = sync;
    w.options.behind = behind;
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

// Async: nodes that train are as far apart, and a slow one has missed only what came after its stop.
static void nodes_that_stopped_together_begin_as_they_stood(void **state)
{
    const uint64_t lead = 32;
    (void)state;
    life_world_init(&w);
    const uint64_t most = w.options.reach > lead ? w.options.reach : lead;
    life_world_end(&w);
    restarted(300, 300 + most, false, 0);
    assert_false(w.started_away);
    assert_int_equal(w.started_round, 300);
    life_world_end(&w);
    restarted(300, 301 + most, false, 0);
    assert_true(w.started_away);
    assert_int_equal(w.started_round, 301 + most);
    life_world_end(&w);
    restarted(300, 350 + most, false, 50);
    assert_false(w.started_away);
    assert_int_equal(w.started_round, 300);
    life_world_end(&w);
    restarted(300, 351 + most, false, 50);
    assert_true(w.started_away);
    life_world_end(&w);
}

static void when_all_nodes_were_restarted_the_newest_state_wins(void **state)
{
    (void)state;
    restarted(300, 700, false, 0);
    assert_true(w.started_away);
    assert_int_equal(w.started_round, 700);
    life_world_end(&w);
    restarted(300, 309, true, 0); // as far as neighbours in lock-step never are
    assert_true(w.started_away);
    assert_int_equal(w.started_round, 309);
    life_world_end(&w);
    restarted(300, 308, true, 0); // its own state is as good
    assert_int_equal(w.started_round, 300);
    life_world_end(&w);
    restarted(700, 300, false, 0);
    assert_false(w.started_away);
    assert_int_equal(w.started_round, 700);
}

// Before it has met another node, it cannot know whether others train.
static void a_node_that_was_away_counts_once_it_has_met_another(void **state)
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
    assert_false(w.flags & COUNTS); // while its model is old, it is in no graph
    life_world_end(&w);
}

// It hears of the round of the others before one of them has answered. There is no donor yet; that is no
// reason to go on with its own model.
static void a_node_that_was_away_waits_for_a_donor(void **state)
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

// It met a node that had not begun, and therefore counted. It still fetches, and stops counting meanwhile.
static void a_node_that_counted_before_it_knew_the_cluster_fetches(void **state)
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
            life_world_progress(&w, i, 1000); // their last round
        w.self.in_view = true;
        w.self.n_view = 4;
        life_world_look(&w);
        assert_true(w.learner_fetches);
        assert_true(((w.flags & COUNTS) != 0) == finished); // these stay, because it counts
        life_world_end(&w);
    }
}

// If it jumped to the last step, it would finish with an old model.
static void a_node_that_returns_to_a_cluster_at_its_last_step_fetches(void **state)
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

static void a_process_that_was_stopped_fetches_if_it_is_far_behind(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    all_train_at(100, 100);
    life_world_look(&w);
    w.now_ns += 10 * SECOND; // SIGSTOP
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 0); // what it knows is old
    life_world_progress(&w, 1, 900);                                      // one may be wrong
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

// Whichever event comes first when it goes on, it soon looks at the round of the others.
static void a_process_that_was_stopped_looks_at_the_others(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    life_world_look(&w);
    w.now_ns += 3 * SECOND;
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_PROGRESS, .round = 1, .step = 8});
    assert_true(gossip_life_deadline(w.life) < w.now_ns + SECOND);
}

// The order may come at any time: the learner is in the middle of a round.
static void a_node_that_fetched_again_waits_for_its_edges(void **state)
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
    assert_false(w.learner_paused); // it reaches a boundary first
    wants();
    fetched(401);
    assert_true(w.learner_paused);
    assert_int_equal(gossip_life_pauses(w.life), GOSSIP_LIFE_EDGES);
    w.self.edges_live = true;
    life_world_look(&w);
    assert_false(w.learner_paused);
}

static void a_process_that_was_stopped_within_reach_takes_the_round_of_the_others(void **state)
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
static void a_node_that_was_away_goes_to_the_members_that_are_ahead(void **state)
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

static void a_slow_node_was_not_away(void **state)
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

int main(void)
{
#define RULE(name) cmocka_unit_test_teardown(name, clean)
    const struct CMUnitTest tests[] = {
        RULE(within_reach_a_node_goes_on_behind_the_others),
        RULE(beyond_reach_a_node_fetches_before_it_counts),
        RULE(a_node_that_comes_back_begins_with_one_edge),
        RULE(a_node_a_few_rounds_behind_keeps_its_round),
        RULE(a_node_close_behind_the_others_asks_its_neighbours),
        RULE(a_resumed_node_waits_for_the_round_of_the_others),
        RULE(one_false_report_does_not_change_the_round_of_the_cluster),
        RULE(nodes_that_stopped_together_begin_as_they_stood),
        RULE(when_all_nodes_were_restarted_the_newest_state_wins),
        RULE(a_node_that_was_away_counts_once_it_has_met_another),
        RULE(a_node_that_was_away_waits_for_a_donor),
        RULE(a_node_that_counted_before_it_knew_the_cluster_fetches),
        RULE(a_node_that_returns_to_a_cluster_at_its_last_step_fetches),
        RULE(a_process_that_was_stopped_fetches_if_it_is_far_behind),
        RULE(a_process_that_was_stopped_looks_at_the_others),
        RULE(a_node_that_fetched_again_waits_for_its_edges),
        RULE(a_process_that_was_stopped_within_reach_takes_the_round_of_the_others),
        RULE(a_node_that_was_away_goes_to_the_members_that_are_ahead),
        RULE(a_slow_node_was_not_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
