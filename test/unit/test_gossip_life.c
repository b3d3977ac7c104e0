// The life of a node, rule by rule: joining, fetching a model, partitions, forgetting members that are gone,
// and the parts of its view of the world.
#include "test/support/graph_world.h"
#include "test/support/life_rules.h"
#include "test/support/life_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

// -- joining

static void a_node_counts_shortly_after_it_has_met_another(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    life_world_pass(&w, 2 * SECOND);
    assert_int_equal(state_of(), GOSSIP_LIFE_JOINING); // other nodes are listed
    others(1, 0);
    life_world_look(&w);
    assert_false(w.flags & COUNTS);
    life_world_pass(&w, 200 * MS);
    assert_false(w.flags & COUNTS);
    life_world_pass(&w, 100 * MS);
    assert_true(w.flags & COUNTS);
    assert_int_equal(state_of(), GOSSIP_LIFE_WAITING);
}

static void a_node_counts_at_once_if_it_expects_no_other(void **state)
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

static void at_the_timeout_a_node_begins_without_the_missing_ones(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    life_world_pass(&w, 29 * SECOND);
    assert_false(w.learner_started);
    life_world_pass(&w, 2 * SECOND);
    assert_true(w.learner_started && !w.learner_fetches);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_BEGINS_WITHOUT), 1);
}

static void a_node_that_all_others_refuse_does_not_train_alone(void **state)
{
    (void)state;
    for (int resumed = 0; resumed < 2; resumed++)
        for (size_t refused = 1; refused <= 3; refused++) {
            life_world_init(&w);
            w.options.resumed = resumed;
            w.self.refused = refused;
            life_world_begin(&w);
            life_world_pass(&w, 29 * SECOND); // meanwhile the settings may be corrected on either side
            assert_false(w.learner_started || w.ended);
            life_world_pass(&w, 2 * SECOND);
            assert_true(w.ended == (refused == 3)); // of three listed nodes
            assert_true(w.learner_started == (refused < 3));
            assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_REFUSED), refused == 3);
            if (refused == 3)
                assert_int_equal(life_world_last(&w, GOSSIP_LIFE_END)->status, GOSSIP_LIFE_ABANDONED);
            life_world_end(&w);
        }
    life_world_init(&w);
    w.self.refused = 3;
    life_world_begin(&w);
    others(1, 0); // a node that it found in another way
    life_world_pass(&w, 31 * SECOND);
    assert_true(w.learner_started && !w.ended);
}

static void a_new_node_waits_for_members_and_for_edges(void **state)
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
    assert_false(w.learner_started); // one member is missing
    w.self.n_view = 4;
    w.self.edges_live = false;
    life_world_pass(&w, SECOND);
    assert_false(w.learner_started); // one edge is not live
    w.self.edges_live = true;
    life_world_look(&w);
    assert_true(w.learner_started);
    assert_true(w.flags & GOSSIP_RECORD_TRAINING);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
}

// -- a model from others

static void a_late_node_fetches_a_model_before_it_counts(void **state)
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
    // It has no live edge yet: what it learned alone would pull the others towards its own data.
    assert_int_equal(state_of(), GOSSIP_LIFE_PAUSED);
    assert_int_equal(gossip_life_pauses(w.life), GOSSIP_LIFE_EDGES);
    assert_true(w.learner_paused);
    w.self.in_view = true;
    life_world_look(&w);
    assert_false(w.learner_paused);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
}

static void a_node_does_not_wait_for_its_edges_for_ever(void **state)
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

static void a_node_asks_the_nearest_donors(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others(7, TRAINS); // ids 2 to 8; this node has id 1, so 3, 2, 5 and 4 are the nearest
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

static void a_new_link_to_a_donor_is_reported_again(void **state)
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

// The member claims to train, but has never answered.
static void a_member_that_has_never_answered_is_not_believed(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others(2, TRAINS);
    w.member[1].info.answered = w.member[2].info.answered = false;
    life_world_look(&w);
    life_world_pass(&w, 10 * SECOND);
    assert_int_equal(state_of(), GOSSIP_LIFE_JOINING); // one of them may still answer
    life_world_pass(&w, 21 * SECOND);
    assert_true(w.learner_started && !w.learner_fetches);
}

static void a_node_warns_when_no_donor_has_a_model(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_begin(&w);
    others(1, TRAINS);
    life_world_look(&w);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_WANTS});
    life_world_state(&w, 1, GOSSIP_MEMBER_DEAD);
    life_world_pass(&w, 9 * SECOND);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_NO_DONOR), 0);
    life_world_pass(&w, 2 * SECOND);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_NO_DONOR), 1);
    assert_int_equal(state_of(), GOSSIP_LIFE_FETCHING); // it has no model at all
    life_world_pass(&w, 288 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_END_FETCH), 0);
    life_world_pass(&w, 10 * SECOND); // a supervisor of the process can restart it
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_END_FETCH), 1);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_NO_MODEL), 1);
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
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_PARTITION), 1);
    w.self.minority = false;
    life_world_look(&w);
    assert_int_equal(gossip_life_pauses(w.life), GOSSIP_LIFE_NO_WORD);
    for (size_t i = 1; i < w.count; i++)
        life_world_progress(&w, i, 0);
    life_world_look(&w);
    assert_false(w.learner_paused);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
}

static void the_smaller_side_takes_the_model_of_the_larger_one(void **state)
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
    assert_int_equal(w.n_asked, 2); // only members 2 and 3
    fetched(100);
    assert_true(w.flags & COUNTS);
    assert_int_equal(state_of(), GOSSIP_LIFE_TRAINING);
}

static void with_the_policy_merge_both_sides_go_on(void **state)
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

// -- members that are gone

static void edges_of_dead_members_are_forgotten_after_a_while(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    life_world_state(&w, 1, GOSSIP_MEMBER_DEAD);
    life_world_pass(&w, 30 * SECOND);
    life_world_state(&w, 2, GOSSIP_MEMBER_LEFT);
    life_world_pass(&w, 20 * SECOND);
    life_world_state(&w, 2, GOSSIP_MEMBER_ALIVE); // it came back in time
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FORGET), 0);
    life_world_pass(&w, 11 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FORGET), 1);
    assert_true(life_world_last(&w, GOSSIP_LIFE_FORGET)->peer.bytes[0] == 2);
    life_world_pass(&w, 120 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FORGET), 1);
}

static void the_edge_of_a_member_that_is_no_longer_known_is_forgotten_at_once(void **state)
{
    (void)state;
    life_world_init(&w);
    life_world_train(&w);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_REMOVED, .peer = {{3}}});
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FORGET), 1);
}

// The edge comes from a checkpoint: its peer died while this node was away, and no member remembers it.
static void the_edge_of_an_unknown_member_is_forgotten_once(void **state)
{
    (void)state;
    life_world_init(&w);
    w.edge[0] = (struct gossip_id){{77}};
    w.edge[1] = (struct gossip_id){{2}};
    w.edge[2] = (struct gossip_id){{78}};
    w.n_edges = 3;
    life_world_train(&w);
    life_world_state(&w, 1, GOSSIP_MEMBER_DEAD); // known: its edge is forgotten when its time is over
    life_world_state(&w, 1, GOSSIP_MEMBER_ALIVE);
    life_world_pass(&w, 58 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FORGET), 0);
    life_world_pass(&w, 4 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FORGET), 2);
    assert_true(life_world_last(&w, GOSSIP_LIFE_FORGET)->peer.bytes[0] > 2);
    life_world_pass(&w, 120 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_FORGET), 2);
}

// -- what a node sees of itself

static void edge_of(const void *owner, size_t index, struct gossip_edge_info *info)
{
    *info = (struct gossip_edge_info){.peer = *gossip_graph_neighbour(owner, index),
                                      .state = index > 0 ? GOSSIP_EDGE_LIVE : GOSSIP_EDGE_BARRED,
                                      .scaling = index > 0 ? 0 : 5,
                                      .other_scaling = index > 0 ? 0 : 6};
}

static size_t edges_of(const void *owner)
{
    return gossip_graph_neighbours(owner);
}

// All but the first one are live.
static void the_edges_are_live_if_every_neighbour_has_a_live_one(void **state)
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
        assert_int_equal(self.edges_live, n == 1); // no neighbour lacks one
        assert_int_equal(self.apart, n > 1);
        assert_true(n == 1 || (self.scaling[0] == 5 && self.scaling[1] == 6));
        gossip_graph_drop(graph);
    }
    gossip_life_see_graph(&self, NULL, NULL);
    assert_false(self.in_view || self.edge_live || self.n_view || self.n_neighbours);
}

static void an_entry_is_missing_if_it_leads_to_no_node_in_the_graph(void **state)
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

static void shards_of_dead_members_are_taken_over(void **state)
{
    (void)state;
    life_world_init(&w);
    w.options.shards = 5; // the fifth shard has never had a node
    w.options.takeover_after_ns = 10 * SECOND;
    life_world_train(&w);
    life_world_state(&w, 2, GOSSIP_MEMBER_DEAD);
    life_world_flags(&w, 3, FINISHED);
    life_world_state(&w, 3, GOSSIP_MEMBER_LEFT); // a node that left: its examples were used
    life_world_pass(&w, 9 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_SHARDS), 0);
    life_world_pass(&w, 3 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_SHARDS), 1);
    assert_int_equal(w.n_living, 4);
    assert_memory_equal(w.living, ((uint32_t[]){0, 1, 3, 4}), 4 * sizeof *w.living);
    life_world_state(&w, 2, GOSSIP_MEMBER_ALIVE);
    life_world_flags(&w, 2, TRAINS);
    life_world_pass(&w, 2 * SECOND);
    assert_int_equal(w.n_living, 5);
}

static void a_shard_of_two_nodes_is_taken_over_when_both_are_dead(void **state)
{
    (void)state;
    life_world_init(&w);
    w.options.shards = 3;
    w.options.takeover_after_ns = SECOND;
    life_world_train(&w);
    w.member[3].record.shard = 2;
    for (size_t dead = 2; dead <= 3; dead++) { // in the order of the table, the living one is the second
        life_world_state(&w, dead, GOSSIP_MEMBER_DEAD);
        life_world_pass(&w, 3 * SECOND);
        assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_SHARDS), dead == 3);
    }
    assert_int_equal(w.n_living, 2);
}

// It fetches a model, waits for its edges, or is held out.
static void the_shard_of_a_node_that_is_back_is_trained_by_others_until_it_trains(void **state)
{
    (void)state;
    life_world_init(&w);
    w.options.shards = 4;
    w.options.takeover_after_ns = SECOND;
    life_world_train(&w);
    life_world_flags(&w, 2, TRAINS | GOSSIP_RECORD_PAUSED); // it was not taken over, and stays with its node
    life_world_pass(&w, 3 * SECOND);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_SHARDS), 0);
    life_world_state(&w, 2, GOSSIP_MEMBER_DEAD);
    life_world_pass(&w, 3 * SECOND);
    assert_int_equal(w.n_living, 3);
    life_world_flags(&w, 2, 0);
    life_world_state(&w, 2, GOSSIP_MEMBER_ALIVE);
    life_world_pass(&w, 3 * SECOND);
    assert_int_equal(w.n_living, 3);
    life_world_flags(&w, 2, TRAINS | GOSSIP_RECORD_PAUSED);
    life_world_pass(&w, 3 * SECOND);
    assert_int_equal(w.n_living, 3);
    life_world_flags(&w, 2, TRAINS);
    life_world_pass(&w, 3 * SECOND);
    assert_int_equal(w.n_living, 4);
}

int main(void)
{
#define RULE(name) cmocka_unit_test_teardown(name, clean)
    const struct CMUnitTest tests[] = {
        RULE(a_node_counts_shortly_after_it_has_met_another),
        RULE(a_node_counts_at_once_if_it_expects_no_other),
        RULE(at_the_timeout_a_node_begins_without_the_missing_ones),
        RULE(a_node_that_all_others_refuse_does_not_train_alone),
        RULE(a_new_node_waits_for_members_and_for_edges),
        RULE(a_late_node_fetches_a_model_before_it_counts),
        RULE(a_node_does_not_wait_for_its_edges_for_ever),
        RULE(a_node_asks_the_nearest_donors),
        RULE(a_new_link_to_a_donor_is_reported_again),
        RULE(a_member_that_has_never_answered_is_not_believed),
        RULE(a_node_warns_when_no_donor_has_a_model),
        RULE(the_smaller_side_pauses),
        RULE(the_smaller_side_takes_the_model_of_the_larger_one),
        RULE(with_the_policy_merge_both_sides_go_on),
        RULE(edges_of_dead_members_are_forgotten_after_a_while),
        RULE(the_edge_of_a_member_that_is_no_longer_known_is_forgotten_at_once),
        RULE(the_edge_of_an_unknown_member_is_forgotten_once),
        RULE(the_edges_are_live_if_every_neighbour_has_a_live_one),
        RULE(an_entry_is_missing_if_it_leads_to_no_node_in_the_graph),
        RULE(shards_of_dead_members_are_taken_over),
        RULE(a_shard_of_two_nodes_is_taken_over_when_both_are_dead),
        RULE(the_shard_of_a_node_that_is_back_is_trained_by_others_until_it_trains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
