// The life of a node that comes late, meets no other node, or meets nodes with other first weights.
#include "test/support/life_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SECOND LIFE_TEST_SECOND

enum {
    COUNTS = GOSSIP_RECORD_ELIGIBLE,
    TRAINS = GOSSIP_RECORD_ELIGIBLE | GOSSIP_RECORD_TRAINING,
    FINISHED = TRAINS | GOSSIP_RECORD_FINISHED,
    SHARDS = 6
};

static struct life_world w;

static int clean(void **state)
{
    (void)state;
    life_world_end(&w);
    return 0;
}

// -- shards. The ids of members rise with their number; `own` is the place of this node's id among them.

// Shards 0 and 1 belong to two nodes that train; all others have come late to shard 2.
static void come_late(size_t late, size_t own)
{
    life_world_init(&w);
    w.options.shards = SHARDS;
    w.options.told_shard = true;
    w.member[0].record.id.bytes[0] = (uint8_t)(100 + 10 * own + 5);
    w.member[0].record.shard = 2;
    for (uint32_t i = 0; i < 2; i++) {
        const size_t at = life_world_join(&w);
        w.member[at].record.shard = i;
        life_world_flags(&w, at, TRAINS);
    }
    for (size_t i = 0; i < late; i++) {
        const size_t at = life_world_join(&w);
        w.member[at].record.id.bytes[0] = (uint8_t)(100 + 10 * (i + 1));
        w.member[at].record.shard = 2;
    }
    life_world_begin(&w);
}

static uint32_t moved_to(void)
{
    const struct gossip_life_action *move = life_world_last(&w, GOSSIP_LIFE_MOVE);

    assert_int_equal(w.ended, move != NULL);
    assert_true(!move || gossip_life_state(w.life) == GOSSIP_LIFE_ENDED);
    return move ? move->shard : 2;
}

static void of_nodes_on_one_shard_the_lowest_id_keeps_it(void **state)
{
    static const uint32_t place[] = {2, 3, 4, 5}; // the others take one of the next free shards each

    (void)state;
    for (size_t own = 0; own < 4; own++) {
        come_late(3, own);
        life_world_look(&w);
        assert_int_equal(moved_to(), place[own]);
        assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_MOVE), own > 0);
        if (own > 0)
            assert_int_equal(life_world_last(&w, GOSSIP_LIFE_MOVE)->peer.bytes[0], 110);
        life_world_end(&w);
    }
}

static void a_node_that_trains_keeps_its_shard(void **state)
{
    (void)state;
    come_late(1, 0); // this node has the lower id
    life_world_flags(&w, 3, TRAINS);
    life_world_look(&w);
    assert_int_equal(moved_to(), 3);
    life_world_end(&w);

    come_late(1, 1); // the other node has the lower id, and knows that this node trains
    w.member[0].record.flags = TRAINS;
    life_world_look(&w);
    assert_int_equal(moved_to(), 2);
}

static void a_dead_node_keeps_no_shard(void **state)
{
    (void)state;
    come_late(1, 1);
    w.member[3].info.state = GOSSIP_MEMBER_DEAD;
    life_world_look(&w);
    assert_int_equal(moved_to(), 2);
}

static void a_node_stays_where_no_shard_is_free(void **state)
{
    (void)state;
    come_late(1, 1);
    for (uint32_t i = 3; i < SHARDS; i++)
        w.member[life_world_join(&w)].record.shard = i;
    life_world_look(&w);
    assert_int_equal(moved_to(), 2);
}

static void a_shard_that_the_user_chose_is_kept(void **state)
{
    (void)state;
    come_late(1, 1);
    life_world_end(&w);
    w.options.told_shard = false;
    life_world_begin(&w);
    life_world_look(&w);
    assert_int_equal(moved_to(), 2);
}

static void a_node_does_not_move_after_its_first_step(void **state)
{
    (void)state;
    for (int paused = 0; paused < 2; paused++) {
        come_late(0, 1);
        life_world_look(&w);
        assert_int_equal(gossip_life_state(w.life), GOSSIP_LIFE_FETCHING);
        w.self.in_view = true;
        w.self.edges_live = !paused;
        life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_WANTS});
        life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_FETCHED, .round = 9, .ok = true});
        life_world_pass(&w, SECOND);
        assert_int_equal(gossip_life_state(w.life), paused ? GOSSIP_LIFE_PAUSED : GOSSIP_LIFE_TRAINING);
        const size_t at = life_world_join(&w); // now it hears of another node, with a lower id
        w.member[at].record.shard = 2;
        life_world_flags(&w, at, TRAINS);
        life_world_pass(&w, SECOND);
        assert_int_equal(moved_to(), paused ? 3 : 2);
        life_world_end(&w);
    }
}

static void a_late_node_is_told_the_shard_with_the_fewest_nodes(void **state)
{
    static const uint32_t shard[] = {0, 1, 2, 0, 1, 2};

    (void)state;
    life_world_init(&w);
    for (size_t i = 0; i < sizeof shard / sizeof *shard; i++) {
        const size_t at = i == 0 ? 0 : life_world_join(&w);
        w.member[at].record.shard = shard[i];
    }
    life_world_begin(&w);
    const struct gossip_life_world *world = life_world_table(&w);
    assert_int_equal(gossip_life_free_shard(world, 4), 3);
    assert_int_equal(gossip_life_free_shard(world, 3), 0);
    w.member[5].info.state = GOSSIP_MEMBER_DEAD;
    assert_int_equal(gossip_life_free_shard(world, 3), 2);
}

// -- coming back

static void a_node_that_takes_the_round_of_the_cluster_reports_it(void **state)
{
    (void)state;
    for (uint64_t round = 10; round <= 60; round += 50) {
        life_world_init(&w);
        w.options.resumed = true;
        w.options.round = round;
        w.options.step = 8 * round;
        w.self = (struct gossip_life_self){.in_view = true, .edges_live = true, .n_view = 4, .listed = 3};
        life_world_begin(&w);
        for (size_t i = 0; i < 3; i++) {
            const size_t at = life_world_join(&w);
            life_world_flags(&w, at, TRAINS);
            life_world_progress(&w, at, 60);
        }
        life_world_pass(&w, SECOND);
        assert_true(w.learner_started);
        assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_TAKES_ROUND), round < 60);
        life_world_end(&w);
    }
}

// -- alone

static void has_rounds_to_go(uint64_t rounds)
{
    const uint64_t step = w.options.steps - rounds * w.options.local_steps;
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_PROGRESS,
                                                   .round = step / w.options.local_steps,
                                                   .step = step});
}

// The last few would train on their own data for long.
static void few_nodes_that_are_far_behind_end_with_the_others(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    has_rounds_to_go(w.options.steps / w.options.local_steps / 2 + 1); // more than half
    life_world_flags(&w, 1, FINISHED);
    life_world_pass(&w, 60 * SECOND); // one has finished, three train
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 0);
    life_world_flags(&w, 2, FINISHED);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 1);
    assert_true(life_world_last(&w, GOSSIP_LIFE_ALONE)->fetch);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_LEFT_ALONE), 1);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_DONE});
    assert_true(w.flags & GOSSIP_RECORD_FINISHED);
}

static int ends_alone(void)
{
    life_world_begin(&w);
    life_world_pass(&w, 31 * SECOND); // node.start_timeout
    assert_int_equal(gossip_life_state(w.life), GOSSIP_LIFE_TRAINING);
    life_world_tell(
        &w, (struct gossip_life_event){.kind = GOSSIP_LIFE_PROGRESS, .round = 1000, .step = w.options.steps});
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_DONE});
    life_world_pass(&w, SECOND);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_WRITTEN});
    life_world_pass(&w, SECOND);
    assert_true(w.ended);
    const int status = life_world_last(&w, GOSSIP_LIFE_END)->status;
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_MET_NOBODY), status != 0);
    return status;
}

static void a_node_that_never_met_one_of_its_peers_has_failed(void **state)
{
    (void)state;
    life_world_init(&w);
    assert_int_equal(ends_alone(), GOSSIP_LIFE_FAILED);
}

static void a_node_that_is_configured_to_be_alone_has_not_failed(void **state)
{
    (void)state;
    life_world_init(&w);
    w.options.alone_stops = false; // train.alone: go-on; average.method: local
    assert_int_equal(ends_alone(), 0);
    life_world_end(&w);

    life_world_init(&w);
    w.self.listed = 0;
    w.options.start_members = 0;
    assert_int_equal(ends_alone(), 0);
}

static void a_node_whose_peers_have_died_has_met_them(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_join(&w);
    life_world_begin(&w);
    life_world_look(&w);
    life_world_state(&w, 1, GOSSIP_MEMBER_DEAD);
    life_world_pass(&w, 31 * SECOND);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_DONE});
    life_world_pass(&w, SECOND);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_WRITTEN});
    life_world_pass(&w, SECOND);
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_END)->status, 0);
}

static void a_node_that_is_told_to_stop_has_not_failed(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    life_world_pass(&w, 31 * SECOND);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_WRITTEN});
    life_world_pass(&w, SECOND);
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_END)->status, 0);
}

static void a_node_resumed_with_edges_or_at_its_last_step_has_not_failed(void **state)
{
    (void)state;
    life_world_init(&w);
    w.options.resumed = true;
    w.options.round = 1000;
    w.options.step = w.options.steps;
    assert_int_equal(ends_alone(), 0);
    life_world_end(&w);

    life_world_init(&w);
    w.options.resumed = true;
    w.options.round = 999;
    w.options.step = w.options.steps - 8;
    assert_int_equal(ends_alone(), GOSSIP_LIFE_FAILED);
    life_world_end(&w);

    life_world_init(&w);
    w.options.resumed = true;
    w.options.round = 999;
    w.options.step = w.options.steps - 8;
    w.edge[0].bytes[0] = 9;
    w.n_edges = 1; // it met that peer before
    assert_int_equal(ends_alone(), 0);
}

// -- first weights

// One other node is listed and joins; its first weights are `other`, those of this node are 7.
static void begin_with(uint8_t own_id, uint64_t other)
{
    life_world_init(&w);
    w.options.start_members = 0;
    w.self.listed = w.self.missing = 1;
    w.member[0].record.id.bytes[0] = own_id;
    w.member[0].record.first_model = 7;
    w.member[life_world_join(&w)].record.first_model = other;
    life_world_begin(&w);
}

static void of_different_first_models_that_of_the_lowest_id_goes_first(void **state)
{
    (void)state;
    begin_with(1, 9); // the other node will take this model: there is no need to wait for it
    w.self.in_view = true;
    life_world_pass(&w, SECOND);
    assert_true(w.learner_started && !w.learner_fetches);
    life_world_end(&w);

    begin_with(5, 9);
    life_world_pass(&w, 5 * SECOND);
    assert_int_equal(w.flags & COUNTS, 0);
    assert_false(w.learner_started);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_OTHER_WEIGHTS), 1);
    life_world_flags(&w, 1, TRAINS);
    life_world_pass(&w, SECOND);
    assert_true(w.learner_started && w.learner_fetches);
    life_world_end(&w);

    begin_with(5, 7); // the same weights: nothing changes
    life_world_pass(&w, SECOND);
    assert_int_equal(w.flags & COUNTS, COUNTS);
}

// A node that joins uninvited does not replace the listed peer.
static void an_unlisted_node_does_not_replace_a_listed_peer(void **state)
{
    (void)state;
    begin_with(1, 9);
    w.self.in_view = true;
    w.member[1].unlisted = true;
    life_world_pass(&w, 5 * SECOND);
    assert_false(w.learner_started);
    w.member[1].unlisted = false;
    life_world_pass(&w, SECOND);
    assert_true(w.learner_started);
}

static void a_node_that_counts_goes_before_a_lower_id(void **state)
{
    (void)state;
    begin_with(1, 9);
    life_world_flags(&w, 1, COUNTS);
    life_world_pass(&w, SECOND);
    assert_int_equal(w.flags & COUNTS, 0);
    life_world_state(&w, 1, GOSSIP_MEMBER_DEAD); // no node is left that goes first
    life_world_pass(&w, 30 * SECOND);
    assert_int_equal(w.flags & COUNTS, COUNTS);
}

static void a_node_that_counted_too_early_stops_counting(void **state)
{
    (void)state;
    begin_with(5, 0); // the node knows nothing of the other one yet
    life_world_pass(&w, SECOND);
    assert_int_equal(w.flags & COUNTS, COUNTS);
    w.member[1].record.first_model = 9;
    life_world_flags(&w, 1, COUNTS);
    life_world_pass(&w, SECOND);
    assert_int_equal(w.flags & COUNTS, 0);
    life_world_flags(&w, 1, TRAINS);
    life_world_pass(&w, SECOND);
    assert_true(w.learner_started && w.learner_fetches);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_WANTS});
    life_world_pass(&w, 90 * SECOND); // no link to a donor: its own weights would be a second first model
    assert_int_equal(gossip_life_state(w.life), GOSSIP_LIFE_FETCHING);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_GAVE_UP), 0);
}

// The node that trains has fetched its model from the other one, which has not answered yet.
static void of_two_nodes_that_train_one_with_other_weights_is_enough(void **state)
{
    (void)state;
    begin_with(5, 7);
    const size_t first = life_world_join(&w);
    w.member[first].record.first_model = 9;
    w.member[first].info.answered = false;
    life_world_pass(&w, SECOND);
    assert_int_equal(w.flags & COUNTS, COUNTS);
    life_world_flags(&w, first, TRAINS);
    life_world_flags(&w, 1, TRAINS);
    life_world_pass(&w, SECOND);
    assert_true(w.learner_started && w.learner_fetches);
}

static void a_node_does_not_wait_for_ever_for_the_first_node_to_begin(void **state)
{
    (void)state;
    begin_with(5, 9);
    w.self.in_view = true;
    life_world_pass(&w, 35 * SECOND);
    assert_false(w.learner_started);
    life_world_pass(&w, 10 * SECOND);
    assert_true(w.learner_started);
}

// -- several nodes that start together, beside a running training

// It counts together with another new node, and only then meets two that train and are `behind` rounds ahead
// of it.
static void meets_late(uint64_t behind)
{
    life_world_init(&w);
    w.options.start_members = 0;
    const size_t as_new = life_world_join(&w);
    life_world_begin(&w);
    life_world_flags(&w, as_new, COUNTS);
    life_world_pass(&w, SECOND);
    assert_int_equal(gossip_life_state(w.life), GOSSIP_LIFE_WAITING);
    for (size_t i = 0; i < 2; i++) {
        const size_t at = life_world_join(&w);
        life_world_flags(&w, at, TRAINS);
        life_world_progress(&w, at, behind);
        life_world_state(&w, at, GOSSIP_MEMBER_ALIVE);
    }
    w.self.in_view = w.self.edges_live = true;
    life_world_pass(&w, SECOND);
}

static void a_node_that_counted_before_it_knew_of_a_training_fetches(void **state)
{
    (void)state;
    meets_late(700);
    assert_int_equal(gossip_life_state(w.life), GOSSIP_LIFE_FETCHING);
    assert_int_equal(w.flags & TRAINS, 0);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_WANTS});
    assert_int_equal(w.n_links, 2); // not the other new one
    life_world_end(&w);
    meets_late(3); // they have just begun, and this node is about to
    assert_int_equal(gossip_life_state(w.life), GOSSIP_LIFE_TRAINING);
    assert_int_equal(w.started_round, 0);
}

// It counted with its first weights, but since the order to fetch its learner has no model: if it went on
// without a donor, it would end.
static void a_node_that_counted_and_then_fetches_waits_for_a_donor(void **state)
{
    (void)state;
    meets_late(700);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_WANTS});
    for (size_t i = 2; i < w.count; i++)
        life_world_state(&w, i, GOSSIP_MEMBER_DEAD);
    life_world_pass(&w, 90 * SECOND);
    assert_int_equal(gossip_life_state(w.life), GOSSIP_LIFE_FETCHING);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_END_FETCH), 0);
    life_world_state(&w, 2, GOSSIP_MEMBER_ALIVE);
    life_world_pass(&w, SECOND);
    assert_int_equal(w.n_links, 1);
}

#define RULE(name) cmocka_unit_test_teardown(name, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(of_nodes_on_one_shard_the_lowest_id_keeps_it),
        RULE(a_node_that_trains_keeps_its_shard),
        RULE(a_dead_node_keeps_no_shard),
        RULE(a_node_stays_where_no_shard_is_free),
        RULE(a_shard_that_the_user_chose_is_kept),
        RULE(a_node_does_not_move_after_its_first_step),
        RULE(a_late_node_is_told_the_shard_with_the_fewest_nodes),
        RULE(a_node_that_takes_the_round_of_the_cluster_reports_it),
        RULE(a_node_that_counted_before_it_knew_of_a_training_fetches),
        RULE(a_node_that_counted_and_then_fetches_waits_for_a_donor),
        RULE(a_node_that_never_met_one_of_its_peers_has_failed),
        RULE(few_nodes_that_are_far_behind_end_with_the_others),
        RULE(a_node_that_is_configured_to_be_alone_has_not_failed),
        RULE(a_node_whose_peers_have_died_has_met_them),
        RULE(a_node_that_is_told_to_stop_has_not_failed),
        RULE(a_node_resumed_with_edges_or_at_its_last_step_has_not_failed),
        RULE(of_different_first_models_that_of_the_lowest_id_goes_first),
        RULE(an_unlisted_node_does_not_replace_a_listed_peer),
        RULE(of_two_nodes_that_train_one_with_other_weights_is_enough),
        RULE(a_node_that_counts_goes_before_a_lower_id),
        RULE(a_node_that_counted_too_early_stops_counting),
        RULE(a_node_does_not_wait_for_ever_for_the_first_node_to_begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
