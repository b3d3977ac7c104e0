// The life of a node, rule by rule: when it merges its final model, with which members, and what ends that.
#include "test/support/life_rules.h"
#include "test/support/life_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void begin(bool merges)
{
    life_world_init(&w);
    w.options.merges = merges;
    life_world_train(&w);
}

static void all_finish(void)
{
    for (size_t i = 1; i < w.count; i++)
        life_world_flags(&w, i, FINISHED);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_DONE});
}

static size_t among(void)
{
    const struct gossip_life_action *action = life_world_last(&w, GOSSIP_LIFE_AMONG);

    return action ? action->count : 0;
}

static void nodes_that_have_finished_merge_before_they_leave(void **state)
{
    (void)state;
    begin(true);
    all_finish();
    life_world_look(&w);
    assert_int_equal(state_of(), GOSSIP_LIFE_MERGING);
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_UNITE), 1);
    assert_int_equal(among(), w.count);
    assert_int_equal(w.n_links, w.count - 1);
    life_world_pass(&w, 20 * SECOND);
    assert_false(w.learner_leaves); // gossip/merge knows when it is late
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_AMONG), 1);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_MERGED, .ok = true});
    assert_true(w.learner_leaves);
    assert_int_equal(state_of(), GOSSIP_LIFE_LEAVING);
    assert_int_equal(w.n_links, 0);
}

static void one_that_dies_or_leaves_is_no_longer_among_them(void **state)
{
    (void)state;
    begin(true);
    all_finish();
    life_world_look(&w);
    const size_t all = among();
    life_world_state(&w, 1, GOSSIP_MEMBER_SUSPECT);
    assert_int_equal(among(), all);
    life_world_state(&w, 1, GOSSIP_MEMBER_DEAD); // at once: not at the next look
    assert_int_equal(among(), all - 1);
    life_world_state(&w, 2, GOSSIP_MEMBER_LEFT);
    assert_int_equal(among(), all - 2);
}

static void one_that_finishes_later_is_among_them(void **state)
{
    (void)state;
    begin(true);
    for (size_t i = 2; i < w.count; i++)
        life_world_flags(&w, i, FINISHED);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_DONE});
    life_world_pass(&w, 9 * SECOND);
    assert_int_equal(state_of(), GOSSIP_LIFE_FINISHED); // it lingers first
    life_world_pass(&w, 2 * SECOND);
    assert_int_equal(state_of(), GOSSIP_LIFE_MERGING);
    assert_int_equal(among(), w.count - 1);
    life_world_flags(&w, 1, FINISHED);
    life_world_look(&w);
    assert_int_equal(among(), w.count);
}

static void nothing_is_merged_where_there_is_nothing_to_merge(void **state)
{
    (void)state;
    begin(false);
    all_finish();
    life_world_look(&w);
    assert_int_equal(state_of(), GOSSIP_LIFE_LEAVING);
    life_world_end(&w);
    begin(true);
    for (size_t i = 1; i < w.count; i++)
        w.member[i].info.state = GOSSIP_MEMBER_DEAD;
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_DONE});
    life_world_look(&w);
    assert_int_equal(state_of(), GOSSIP_LIFE_LEAVING);
}

// It has trained with others, and ends alone: that its result is its own must be said.
static void a_node_that_has_nobody_to_merge_with_says_so(void **state)
{
    (void)state;
    for (int merges = 0; merges < 2; merges++) {
        begin(merges);
        for (size_t i = 1; i < w.count; i++)
            life_world_state(&w, i, GOSSIP_MEMBER_DEAD);
        life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_DONE, .ok = true});
        life_world_look(&w);
        assert_int_equal(state_of(), GOSSIP_LIFE_LEAVING);
        assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_UNMERGED), merges);
        life_world_end(&w);
    }
}

static void a_node_that_does_not_linger_says_that_it_cannot_merge(void **state)
{
    (void)state;
    life_world_init(&w);
    w.options.merges = true;
    w.options.linger_ns = 0;
    life_world_train(&w);
    all_finish();
    life_world_look(&w);
    assert_int_equal(state_of(), GOSSIP_LIFE_LEAVING);
    assert_int_equal(life_world_notices(&w, GOSSIP_LIFE_CANNOT_WAIT), 1);
}

static void a_stop_ends_the_merge(void **state)
{
    (void)state;
    begin(true);
    all_finish();
    life_world_look(&w);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_STOP});
    assert_int_equal(state_of(), GOSSIP_LIFE_STOPPING);
    assert_true(w.learner_leaves);
    life_world_tell(&w, (struct gossip_life_event){.kind = GOSSIP_LIFE_MERGED}); // too late to count
    assert_int_equal(life_world_actions(&w, GOSSIP_LIFE_LEAVE), 0);
}

#define TEST(function) cmocka_unit_test_teardown(function, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nodes_that_have_finished_merge_before_they_leave),
        TEST(one_that_dies_or_leaves_is_no_longer_among_them),
        TEST(one_that_finishes_later_is_among_them),
        TEST(nothing_is_merged_where_there_is_nothing_to_merge),
        TEST(a_node_that_has_nobody_to_merge_with_says_so),
        TEST(a_node_that_does_not_linger_says_that_it_cannot_merge),
        TEST(a_stop_ends_the_merge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
