// The life of a node, rule by rule: what it decides when others join, train, die, finish and leave.
#include "test/support/graph_world.h"
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

static void who_is_refused_by_all_does_not_train_alone(void **state)
{
    (void)state;
    for (int resumed = 0; resumed < 2; resumed++)
        for (size_t refused = 1; refused <= 3; refused++) {
            life_world_init(&w);
            w.options.resumed = resumed;
            w.self.refused = refused;
            life_world_begin(&w);
            life_world_pass(&w, 29 * SECOND); // settings may be mended meanwhile, there or here
            assert_false(w.learner_started || w.ended);
            life_world_pass(&w, 2 * SECOND);
            assert_true(w.ended == (refused == 3)); // of three that are listed
            assert_true(w.learner_started == (refused < 3));
            assert_int_equal(life_world_news(&w, GOSSIP_LIFE_REFUSED), refused == 3);
            if (refused == 3)
                assert_int_equal(life_world_last(&w, GOSSIP_LIFE_END)->status, GOSSIP_LIFE_ABANDONED);
            life_world_end(&w);
        }
    life_world_init(&w);
    w.self.refused = 3;
    life_world_begin(&w);
    others(1, 0); // whom it found in another way
    life_world_pass(&w, 31 * SECOND);
    assert_true(w.learner_started && !w.ended);
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

static void a_new_link_to_a_donor_is_told_anew(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others(3, TRAINS);
    w.member[2].linked = true;
    life_world_look(&w);
    wants();
    life_world_clear(&w);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ASK), 0);
    life_world_tell(&w,
                    (struct gossip_life_event){.kind = GOSSIP_LIFE_LINKED, .peer = w.member[2].record.id});
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ASK), 1);
    assert_int_equal(w.n_asked, 1);
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
    assert_int_equal(gossip_life_pauses(w.life), GOSSIP_LIFE_NO_WORD);
    for (size_t i = 1; i < w.count; i++)
        life_world_progress(&w, i, 0);
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

// Of a checkpoint: its peer died while this node was away, and nobody remembers it.
static void the_edge_of_somebody_unknown_is_forgotten_once(void **state)
{
    (void)state;
    life_world_init(&w);
    w.edge[0] = (struct gossip_id){{77}};
    w.edge[1] = (struct gossip_id){{2}};
    w.edge[2] = (struct gossip_id){{78}};
    w.n_edges = 3;
    life_world_train(&w);
    life_world_state(&w, 1, GOSSIP_MEMBER_DEAD); // known, and told when it is time
    life_world_state(&w, 1, GOSSIP_MEMBER_ALIVE);
    life_world_pass(&w, 58 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FORGET), 0);
    life_world_pass(&w, 4 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FORGET), 2);
    assert_true(life_world_last(&w, GOSSIP_LIFE_FORGET)->peer.bytes[0] > 2);
    life_world_pass(&w, 120 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FORGET), 2);
}

// -- what is seen

static bool edge_of(const void *owner, size_t index, struct gossip_id *peer)
{
    const struct gossip_graph *graph = owner;
    *peer = *gossip_graph_neighbour(graph, index);
    return index > 0;
}

static size_t edges_of(const void *owner)
{
    return gossip_graph_neighbours(owner);
}

// All but the first one are live.
static void edges_are_live_where_all_neighbours_have_one(void **state)
{
    const struct topology_options options = graph_options(TOPOLOGY_RANDOM);
    struct gossip_record view[12];
    struct gossip_life_self self = {.edges_live = true, .edge_live = true};
    (void)state;
    for (size_t i = 0; i < 12; i++)
        view[i] = graph_record(i);
    for (size_t n = 12; n > 0; n = n == 12 ? 1 : 0) {
        struct gossip_graph *graph = graph_of(&options, view, n, 0);
        const struct gossip_life_edges known = {.owner = graph, .count = edges_of, .at = edge_of};
        gossip_life_see_graph(&self, graph, &known);
        assert_true(self.in_view && self.n_view == n);
        assert_int_equal(self.n_neighbours, gossip_graph_neighbours(graph));
        assert_int_equal(self.edge_live, n > 1);
        assert_int_equal(self.edges_live, n == 1); // nobody is missed
        gossip_graph_drop(graph);
    }
    gossip_life_see_graph(&self, NULL, NULL);
    assert_false(self.in_view || self.edge_live || self.n_view || self.n_neighbours);
}

static void entries_are_missed_that_lead_to_nobody_in_the_graph(void **state)
{
    const struct topology_options options = graph_options(TOPOLOGY_RING);
    const struct gossip_record view[2] = {graph_record(0), graph_record(1)};
    const struct gossip_entry entries[] = {{.state = GOSSIP_ENTRY_SELF, .known = true, .id = graph_id(0)},
                                           {.state = GOSSIP_ENTRY_MEMBER, .known = true, .id = graph_id(1)},
                                           {.state = GOSSIP_ENTRY_MEMBER, .known = true, .id = graph_id(2)},
                                           {.state = GOSSIP_ENTRY_UNKNOWN, .id = graph_id(1)},
                                           {.state = GOSSIP_ENTRY_REFUSED, .known = true, .id = graph_id(3)}};
    struct gossip_life_self self = {0};
    struct gossip_graph *graph = graph_of(&options, view, 2, 0);
    (void)state;
    for (size_t i = 0; i < 5; i++)
        gossip_life_see_entry(&self, graph, &entries[i]);
    assert_int_equal(self.listed, 4);
    assert_int_equal(self.missing, 3);
    assert_int_equal(self.refused, 1);
    gossip_graph_drop(graph);
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

static void left_alone_in_lock_step_at(uint64_t step)
{
    life_world_init(&w);
    w.options.sync = true;
    life_world_train(&w);
    life_world_tell(
        &w, (struct gossip_life_event){.kind = GOSSIP_LIFE_PROGRESS, .round = step / 8, .step = step});
    for (size_t i = 1; i <= 3; i++)
        life_world_flags(&w, i, FINISHED);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 0);
}

// In lock-step all end at one round, some a moment after others; who is far behind was left alone.
static void in_lock_step_the_last_rounds_are_done(void **state)
{
    (void)state;
    left_alone_in_lock_step_at(8000 - 8 * 8);
    life_world_pass(&w, 60 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 0);
    life_world_end(&w);
    left_alone_in_lock_step_at(8000 - 9 * 8);
    life_world_pass(&w, 900 * MS); // what it told last is old
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 0);
    life_world_pass(&w, 200 * MS);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 1);
    assert_true(life_world_last(&w, GOSSIP_LIFE_ALONE)->fetch);
    life_world_end(&w);
    left_alone_in_lock_step_at(800);
    life_world_pass(&w, 900 * MS);
    life_world_flags(&w, 2, TRAINS); // somebody is there again
    life_world_pass(&w, 900 * MS);
    life_world_flags(&w, 2, FINISHED);
    life_world_pass(&w, 900 * MS);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 0);
}

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
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 1); // and it ends, with its own
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
}

// -- one progress

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
    assert_int_equal(life_world_news(&w, GOSSIP_LIFE_FAR_BEHIND), 1);
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

static void it_waits_until_somebody_says_where_the_others_are(void **state)
{
    (void)state;
    life_world_init(&w);
    w.options.resumed = true;
    w.options.round = 300;
    w.self.in_view = true;
    others(3, TRAINS);
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
    life_world_init(&w);
    w.options.resumed = true;
    w.options.round = 300;
    w.self.in_view = true;
    others(3, TRAINS);
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
    restarted(300, 390); // within reach: its own is as good
    assert_false(w.started_away);
    assert_int_equal(w.started_round, 300);
    life_world_end(&w);
    restarted(700, 300);
    assert_false(w.started_away);
    assert_int_equal(w.started_round, 700);
}

static void all_train_at(uint64_t own, uint64_t round)
{
    life_world_tell(&w,
                    (struct gossip_life_event){.kind = GOSSIP_LIFE_PROGRESS, .round = own, .step = 8 * own});
    for (size_t i = 1; i < w.count; i++)
        life_world_progress(&w, i, round);
}

// Whether others train is not known before it has met one.
static void who_was_away_counts_when_it_has_met_somebody(void **state)
{
    (void)state;
    life_world_init(&w);
    w.options.resumed = true;
    w.options.round = 10;
    w.options.step = 80;
    life_world_begin(&w);
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
    life_world_init(&w);
    w.options.resumed = true;
    w.options.round = 10;
    w.options.step = 80;
    life_world_begin(&w);
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
        life_world_init(&w);
        w.options.resumed = true;
        w.options.round = 10;
        w.options.step = 80;
        life_world_begin(&w);
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

// The latest of one kind, before the latest of another.
static bool comes_before(enum gossip_life_action_kind a, enum gossip_life_action_kind b)
{
    const struct gossip_life_action *first = life_world_last(&w, a), *second = life_world_last(&w, b);

    return first && second && first < second;
}

static void held_out_means_waiting(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    all_train_at(100, 100);
    w.self.held_until_ns = w.now_ns + 5 * SECOND;
    life_world_look(&w);
    assert_true(w.learner_paused);
    assert_int_equal(gossip_life_pauses(w.life), GOSSIP_LIFE_HELD_OUT);
    life_world_pass(&w, 4900 * MS);
    assert_true(w.learner_paused);
    all_train_at(100, 400);
    life_world_pass(&w, 200 * MS);
    assert_false(w.learner_paused);
    // What it heard meanwhile counts: no step with its own model comes in between.
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 1);
    assert_true(comes_before(GOSSIP_LIFE_FETCH_AGAIN, GOSSIP_LIFE_PAUSE));
    assert_true(w.started_away);
    assert_int_equal(w.started_round, 100);
}

static void held_out_within_reach_goes_on_behind_the_others(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    w.self.held_until_ns = w.now_ns + 5 * SECOND;
    life_world_look(&w);
    all_train_at(100, 180);
    life_world_clear(&w);
    life_world_pass(&w, 5 * SECOND);
    assert_false(w.learner_paused);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 0);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_START), 1);
    assert_true(w.started_away);
    assert_int_equal(w.started_round, 180);
    assert_true(comes_before(GOSSIP_LIFE_START, GOSSIP_LIFE_PAUSE));
}

// Nobody was heard meanwhile.
static void cut_off_goes_on_where_the_others_say_after_it(void **state)
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
    assert_true(w.learner_paused); // a step would be one of its old round
    assert_int_equal(gossip_life_pauses(w.life), GOSSIP_LIFE_NO_WORD);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_START), 0);
    all_train_at(100, 400);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FETCH_AGAIN), 1);
    assert_true(comes_before(GOSSIP_LIFE_FETCH_AGAIN, GOSSIP_LIFE_PAUSE)); // no step in between
}

// Others close the graph around it, and find it there again when it knows that it can go on.
static void who_is_cut_off_does_not_count_until_it_knows_its_place(void **state)
{
    (void)state;
    for (uint64_t others = 102; others <= 160; others += 58) {
        life_world_init(&w);
        life_world_train(&w);
        all_train_at(100, 100);
        w.self.cut_off = true;
        life_world_look(&w);
        assert_false(w.flags & COUNTS);
        assert_true(w.flags & GOSSIP_RECORD_TRAINING); // it has a model, and has begun
        w.self.edges_live = false;
        life_world_pass(&w, 5 * SECOND);
        w.self.cut_off = false;
        life_world_pass(&w, SECOND);
        assert_false(w.flags & COUNTS);
        all_train_at(100, others);
        life_world_look(&w);
        assert_true(w.flags & COUNTS);
        assert_int_equal(gossip_life_pauses(w.life), GOSSIP_LIFE_EDGES);
        assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_START), others == 160); // takes their round
        w.self.edges_live = true;
        life_world_look(&w);
        assert_false(w.learner_paused);
        life_world_end(&w);
    }
    life_world_init(&w);
}

// Nobody tells anything: it goes on, after a while.
static void a_word_is_not_waited_for_for_ever(void **state)
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

static void who_is_held_out_does_not_begin(void **state)
{
    (void)state;
    life_world_init(&w);
    w.self.held_until_ns = w.now_ns + 60 * SECOND;
    w.options.resumed = true;
    others(3, COUNTS);
    life_world_begin(&w);
    life_world_pass(&w, 59 * SECOND); // start_timeout is no way out
    assert_false(w.learner_started);
    life_world_pass(&w, 2 * SECOND);
    assert_true(w.learner_started);
}

static void cut_off_means_waiting_while_others_should_be_there(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    w.self.cut_off = true;
    life_world_look(&w);
    assert_true(w.learner_paused);
    for (size_t i = 1; i < w.count; i++)
        life_world_state(&w, i, GOSSIP_MEMBER_DEAD);
    life_world_look(&w); // a node that is cut off is no witness of their deaths
    assert_true(w.learner_paused);
    life_world_pass(&w, 59 * SECOND);
    assert_true(w.learner_paused);
    life_world_pass(&w, 2 * SECOND);
    assert_false(w.learner_paused);
}

static void who_averages_with_nobody_says_so(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    w.self.edge_live = w.self.edges_live = false;
    life_world_pass(&w, 14 * SECOND);
    assert_false(gossip_life_isolated(w.life));
    life_world_pass(&w, 2 * SECOND);
    assert_true(gossip_life_isolated(w.life));
    assert_int_equal(life_world_news(&w, GOSSIP_LIFE_ISOLATED), 1);
    w.self.edge_live = true;
    life_world_look(&w);
    assert_false(gossip_life_isolated(w.life));
    assert_int_equal(life_world_news(&w, GOSSIP_LIFE_MEETS_AGAIN), 1);
}

static void the_last_one_fetches_the_finished_model(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    all_train_at(500, 1000);
    for (size_t i = 1; i < w.count; i++) {
        life_world_flags(&w, i, FINISHED);
        w.member[i].linked = true;
    }
    life_world_look(&w);
    assert_true(life_world_last(&w, GOSSIP_LIFE_ALONE)->fetch);
    wants();
    assert_int_equal(state_of(), GOSSIP_LIFE_FETCHING);
    assert_int_equal(w.n_asked, 3);
    fetched(1000);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
    assert_false(w.learner_paused); // it waits for nothing more
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_DONE, .ok = true});
    assert_true(w.learner_leaves);
}

// A newcomer that trains for fewer steps and says that it has finished.
static void fewer_steps_end_nobody_elses_training(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    life_world_flags(&w, 1, FINISHED);
    life_world_progress(&w, 1, 10);
    for (size_t i = 2; i < w.count; i++)
        life_world_state(&w, i, GOSSIP_MEMBER_DEAD);
    life_world_pass(&w, SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 0);
    life_world_progress(&w, 1, 1000);
    life_world_look(&w);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ALONE), 1);
}

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
    assert_int_equal(life_world_news(&w, GOSSIP_LIFE_STARVED_BY), 1);
    starved(40 * SECOND);
    assert_int_equal(w.n_asked, 4); // all were passed over: the first ones again
    assert_int_equal(state_of(), GOSSIP_LIFE_FETCHING);
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
    assert_int_equal(life_world_news(&w, GOSSIP_LIFE_GAVE_UP), 1);
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
    assert_int_equal(life_world_news(&w, GOSSIP_LIFE_NO_MODEL), 1);
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

// -- one stop

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

// For whom a step alone is put off in sync: others that count or will soon, have not finished, and were
// heard.
static void others_are_those_who_train_with_it_and_have_answered(void **state)
{
    const struct {
        uint8_t flags;
        enum gossip_member_state state;
        bool answered, company;
    } cases[] = {
        {COUNTS, GOSSIP_MEMBER_ALIVE, true, true},
        {TRAINS, GOSSIP_MEMBER_SUSPECT, true, true},
        {GOSSIP_RECORD_HELD, GOSSIP_MEMBER_ALIVE, true, true},
        {TRAINS, GOSSIP_MEMBER_ALIVE, false, false}, // it only says so
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
    assert_in_range(w.stop_at, 20 + 10, 20 + 16); // half a second of rounds, and what may have passed
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_ANNOUNCE)->round, w.stop_at);
}

// All have begun, and their records do not say so yet; where they say nothing for long, they do not train.
static void a_stop_just_after_the_beginning_is_announced_too(void **state)
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
        assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_ANNOUNCE), !late);
        assert_int_equal(w.stop_at > 0, !late);
        life_world_end(&w);
    }
}

static void who_is_told_later_stops_where_the_others_do(void **state)
{
    (void)state;
    in_lock_step();
    stopping(1, 26);
    stopping(2, 29);
    stopping(3, 20000); // nobody waits for that
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
    assert_int_equal(w.stop_at, 29);
    stopping(1, 35);
    life_world_state(&w, 1, GOSSIP_MEMBER_ALIVE); // it is told of the new record
    assert_int_equal(w.stop_at, 35);              // both were told at the same moment
}

static void a_round_that_has_passed_is_no_place_to_stop(void **state)
{
    (void)state;
    in_lock_step();
    stopping(1, 20);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
    assert_true(w.stop_at > 20);
}

static void without_lock_step_it_stops_at_the_next_boundary(void **state)
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

// -- two with one identity

static void gives_way_when_membership_says_so(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_DUPLICATE});
    assert_false(w.ended); // the word of one peer is not enough once it has begun
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_DUPLICATE, .ok = true});
    assert_true(w.ended && !w.departed);
    assert_int_equal(life_world_last(&w, GOSSIP_LIFE_END)->status, GOSSIP_LIFE_ABANDONED);
}

static void a_beginner_gives_way_on_the_word_of_a_peer(void **state)
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
        RULE(counts_a_moment_after_it_met_somebody),
        RULE(counts_at_once_when_nobody_else_is_expected),
        RULE(begins_without_the_missing_at_the_timeout),
        RULE(who_is_refused_by_all_does_not_train_alone),
        RULE(waits_for_members_and_for_edges),
        RULE(who_comes_late_fetches_then_counts),
        RULE(edges_are_not_waited_for_for_ever),
        RULE(the_nearest_are_asked),
        RULE(a_new_link_to_a_donor_is_told_anew),
        RULE(who_has_never_answered_is_not_believed),
        RULE(warns_when_nobody_can_give),
        RULE(the_smaller_side_pauses),
        RULE(the_smaller_side_takes_the_larger_ones_model),
        RULE(merge_goes_on),
        RULE(edges_of_the_dead_are_forgotten_after_a_while),
        RULE(who_is_not_known_any_more_is_forgotten_at_once),
        RULE(the_edge_of_somebody_unknown_is_forgotten_once),
        RULE(edges_are_live_where_all_neighbours_have_one),
        RULE(entries_are_missed_that_lead_to_nobody_in_the_graph),
        RULE(shards_of_the_dead_are_taken_over),
        RULE(in_lock_step_the_last_rounds_are_done),
        RULE(who_is_left_alone_ends_with_the_others),
        RULE(goes_on_when_the_others_died),
        RULE(lingers_while_others_train),
        RULE(links_are_flushed_before_it_ends),
        RULE(a_restarted_node_that_comes_too_late_takes_the_finished_model),
        RULE(within_reach_it_goes_on_behind_the_others),
        RULE(beyond_reach_it_fetches_before_it_counts),
        RULE(a_few_rounds_are_nothing),
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
        RULE(a_process_that_stood_still_for_less_catches_up),
        RULE(who_is_merely_slow_was_not_away),
        RULE(who_was_alone_and_ran_ahead_takes_the_model_of_several),
        RULE(held_out_means_waiting),
        RULE(who_is_held_out_does_not_begin),
        RULE(held_out_within_reach_goes_on_behind_the_others),
        RULE(cut_off_goes_on_where_the_others_say_after_it),
        RULE(who_is_cut_off_does_not_count_until_it_knows_its_place),
        RULE(a_word_is_not_waited_for_for_ever),
        RULE(cut_off_means_waiting_while_others_should_be_there),
        RULE(who_averages_with_nobody_says_so),
        RULE(the_last_one_fetches_the_finished_model),
        RULE(fewer_steps_end_nobody_elses_training),
        RULE(donors_without_a_link_make_room),
        RULE(donors_that_give_nothing_make_room),
        RULE(who_is_given_no_model_goes_on_with_its_own),
        RULE(who_has_no_model_and_is_given_none_ends),
        RULE(donors_may_tell_what_the_cluster_may_have_come_to),
        RULE(of_whom_nothing_is_known_the_last_step_is_the_limit),
        RULE(of_two_the_further_one_is_believed),
        RULE(others_are_those_who_train_with_it_and_have_answered),
        RULE(a_stop_in_lock_step_is_announced),
        RULE(a_stop_just_after_the_beginning_is_announced_too),
        RULE(who_is_told_later_stops_where_the_others_do),
        RULE(a_round_that_has_passed_is_no_place_to_stop),
        RULE(without_lock_step_it_stops_at_the_next_boundary),
        RULE(gives_way_when_membership_says_so),
        RULE(a_beginner_gives_way_on_the_word_of_a_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
