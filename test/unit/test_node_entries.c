// Entries of the peer list and whom they stand for.
#include "node/entries.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static char *texts[] = {"a:1", "b:2"};
static const struct node_texts list = {.items = texts, .count = 2};
static const struct gossip_id one = {{1}}, two = {{2}};

static int make(void **state)
{
    struct node_entries *entries = NULL;
    int failed = node_entries_create(&list, 5, &entries) != BASE_OK;
    *state = entries;
    return failed;
}

static int destroy(void **state)
{
    node_entries_destroy(*state);
    return 0;
}

static void nobody_is_known_at_first(void **state)
{
    struct node_entries *e = *state;
    assert_int_equal(node_entries_count(e), 2);
    assert_string_equal(node_entries_at(e, 1)->text, "b:2");
    assert_int_equal(node_entries_at(e, 1)->state, NODE_ENTRY_UNKNOWN);
    assert_int_equal(node_entries_at(e, 1)->since_ns, 5);
    assert_false(node_entries_at(e, 1)->known);
    assert_string_equal(node_entry_state_name(NODE_ENTRY_UNKNOWN), "unknown");
}

static void who_answers_is_news_once(void **state)
{
    struct node_entries *e = *state;
    assert_true(node_entries_answered(e, 0, &one, 7));
    assert_false(node_entries_answered(e, 0, &one, 9));
    assert_int_equal(node_entries_at(e, 0)->since_ns, 7);
    assert_true(node_entries_answered(e, 0, &two, 11)); // another node lives there now
    assert_memory_equal(&node_entries_at(e, 0)->id, &two, sizeof two);
    assert_true(node_entries_answered(e, 1, &two, 11)); // two entries may lead to one node
}

static void a_turn_that_meets_only_this_node(void **state)
{
    struct node_entries *e = *state;
    assert_false(node_entries_turned(e, 0, 6)); // nobody was there
    assert_int_equal(node_entries_at(e, 0)->state, NODE_ENTRY_UNKNOWN);
    node_entries_self(e, 0);
    assert_true(node_entries_turned(e, 0, 7));
    assert_int_equal(node_entries_at(e, 0)->state, NODE_ENTRY_SELF);
    node_entries_self(e, 0);
    assert_false(node_entries_turned(e, 0, 8)); // no news
    assert_false(node_entries_turned(e, 0, 9)); // this time it was not even there: still known as its own
    assert_int_equal(node_entries_at(e, 0)->state, NODE_ENTRY_SELF);
}

// One name for all nodes: this one is met first, another behind it.
static void another_address_of_a_name_leads_further(void **state)
{
    struct node_entries *e = *state;
    node_entries_self(e, 0);
    assert_true(node_entries_answered(e, 0, &one, 7));
    assert_false(node_entries_turned(e, 0, 8));
    assert_int_equal(node_entries_at(e, 0)->state, NODE_ENTRY_MEMBER);
}

static void who_is_refused_may_be_taken_later(void **state)
{
    struct node_entries *e = *state;
    node_entries_refused(e, 0, 6);
    assert_int_equal(node_entries_at(e, 0)->state, NODE_ENTRY_REFUSED);
    assert_true(node_entries_answered(e, 0, &one, 7));
    assert_int_equal(node_entries_at(e, 0)->state, NODE_ENTRY_MEMBER);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, make, destroy)
    const struct CMUnitTest tests[] = {
        CASE(nobody_is_known_at_first),          CASE(who_answers_is_news_once),
        CASE(a_turn_that_meets_only_this_node),  CASE(another_address_of_a_name_leads_further),
        CASE(who_is_refused_may_be_taken_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
