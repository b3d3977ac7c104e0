// The table of members: what a handshake teaches about entries of the peer list, the view and its order,
// forgetting.
#include "node/roster.h"
#include "topology/topology.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SECOND 1000000000ull

static struct gossip_id id_of(int number)
{
    struct gossip_id id = {{(uint8_t)(number >> 8), (uint8_t)number}};
    return id;
}

static struct node_roster *make(char **peers, size_t count)
{
    struct node_texts texts = {.items = peers, .count = count};
    struct node_roster_options options = {.self = id_of(1),
                                          .name = "self",
                                          .address = "127.0.0.1:1",
                                          .peers = &texts,
                                          .topology_seed = 5,
                                          .now_ns = SECOND};
    struct node_roster *roster = NULL;
    assert_int_equal(node_roster_create(&options, &roster), BASE_OK);
    return roster;
}

static void up(struct node_roster *roster, int number, const char *name, uint64_t now_ns)
{
    struct gossip_id id = id_of(number);
    assert_int_equal(node_roster_up(roster, &id, name, "10.0.0.9:5555", now_ns), BASE_OK);
}

static void starts_with_itself_and_the_list(void **state)
{
    (void)state;
    char *peers[] = {"a:1", "b:2"};
    struct node_roster *roster = make(peers, 2);
    struct gossip_id view[4], self = id_of(1);
    assert_int_equal(node_roster_count(roster), 3);
    assert_int_equal(node_roster_at(roster, 0)->state, NODE_MEMBER_SELF);
    assert_string_equal(node_roster_entry(roster, 1)->address, "b:2");
    assert_int_equal(node_roster_entry(roster, 1)->state, NODE_MEMBER_UNKNOWN);
    node_roster_calling(roster, 1, 2 * SECOND);
    assert_int_equal(node_roster_entry(roster, 1)->state, NODE_MEMBER_CONNECTING);
    assert_int_equal(node_roster_entry(roster, 1)->since_ns, 2 * SECOND);
    assert_int_equal(node_roster_view(roster, view, 4), 1);
    assert_memory_equal(&view[0], &self, sizeof self);
    node_roster_destroy(roster);
}

static void learns_self_and_duplicates(void **state)
{
    (void)state;
    char *peers[] = {"a:1", "b:2", "c:3"};
    struct node_roster *roster = make(peers, 3);
    struct gossip_id self = id_of(1), other = id_of(2);
    assert_int_equal(node_roster_learn(roster, 0, &self, SECOND), NODE_LEARNED_SELF);
    assert_true(node_roster_entry(roster, 0)->left_out);
    assert_int_equal(node_roster_entry(roster, 0)->state, NODE_MEMBER_SELF);
    assert_int_equal(node_roster_learn(roster, 1, &other, SECOND), NODE_LEARNED_PEER);
    assert_int_equal(node_roster_learn(roster, 1, &other, SECOND), NODE_LEARNED_PEER);
    assert_int_equal(node_roster_learn(roster, 2, &other, SECOND), NODE_LEARNED_DUPLICATE);
    assert_true(node_roster_entry(roster, 2)->left_out);
    up(roster, 2, "two", 2 * SECOND);
    assert_true(node_roster_entry(roster, 1)->linked);
    assert_false(node_roster_entry(roster, 2)->linked);
    node_roster_destroy(roster);
}

// A peer may call us before we learn at which address of the list it lives.
static void joins_the_caller_with_its_entry(void **state)
{
    (void)state;
    char *peers[] = {"a:1"};
    struct node_roster *roster = make(peers, 1);
    struct gossip_id two = id_of(2);
    up(roster, 2, "two", 2 * SECOND);
    up(roster, 3, "three", 2 * SECOND);
    assert_int_equal(node_roster_count(roster), 4);
    assert_string_equal(node_roster_find(roster, &two)->address, "10.0.0.9:5555");
    uint64_t revision = node_roster_revision(roster);
    assert_int_equal(node_roster_learn(roster, 0, &two, 3 * SECOND), NODE_LEARNED_PEER);
    assert_int_equal(node_roster_count(roster), 3);
    const struct node_member *row = node_roster_entry(roster, 0);
    assert_true(row->listed && row->linked && row->in_view);
    assert_string_equal(row->name, "two");
    assert_string_equal(row->address, "a:1");
    assert_int_equal(row->since_ns, 2 * SECOND);
    assert_int_equal(node_roster_revision(roster), revision);
    node_roster_destroy(roster);
}

static void another_node_at_an_old_address(void **state)
{
    (void)state;
    char *peers[] = {"a:1"};
    struct node_roster *roster = make(peers, 1);
    struct gossip_id two = id_of(2), three = id_of(3), view[4];
    assert_int_equal(node_roster_learn(roster, 0, &two, SECOND), NODE_LEARNED_PEER);
    up(roster, 2, "two", SECOND);
    node_roster_down(roster, &two, 2 * SECOND);
    assert_int_equal(node_roster_learn(roster, 0, &three, 3 * SECOND), NODE_LEARNED_PEER);
    up(roster, 3, "three", 3 * SECOND);
    assert_memory_equal(&node_roster_entry(roster, 0)->id, &three, sizeof three);
    assert_false(node_roster_find(roster, &two)->listed); // still there until it is forgotten
    assert_int_equal(node_roster_view(roster, view, 4), 3);
    struct gossip_id gone;
    assert_true(node_roster_forget(roster, 20 * SECOND, 10 * SECOND, &gone));
    assert_memory_equal(&gone, &two, sizeof two);
    assert_null(node_roster_find(roster, &two));
    assert_int_equal(node_roster_view(roster, view, 4), 2);
    node_roster_destroy(roster);
}

static void view_is_ordered_by_key_on_every_node(void **state)
{
    (void)state;
    struct node_roster *roster = make(NULL, 0);
    char name[32];
    for (int i = 2; i < 40; i++) {
        snprintf(name, sizeof name, "node-%d", i);
        up(roster, i, name, SECOND);
    }
    struct gossip_id view[64];
    size_t count = node_roster_view(roster, view, 64);
    assert_int_equal(count, 39);
    for (size_t i = 1; i < count; i++)
        assert_true(topology_member_key(5, node_roster_find(roster, &view[i - 1])->name) <=
                    topology_member_key(5, node_roster_find(roster, &view[i])->name));
    assert_int_equal(node_roster_view(roster, view, 3), 39); // tells how many there are
    node_roster_destroy(roster);
}

static void forgets_who_is_away_for_long(void **state)
{
    (void)state;
    char *peers[] = {"a:1"};
    struct node_roster *roster = make(peers, 1);
    struct gossip_id two = id_of(2), three = id_of(3), gone, view[4];
    assert_int_equal(node_roster_learn(roster, 0, &two, SECOND), NODE_LEARNED_PEER);
    up(roster, 2, "two", SECOND);
    up(roster, 3, "three", SECOND);
    assert_false(node_roster_forget(roster, 1000 * SECOND, 10 * SECOND, &gone)); // both linked
    node_roster_down(roster, &two, 100 * SECOND);
    assert_int_equal(node_roster_find(roster, &two)->state, NODE_MEMBER_UNREACHABLE);
    assert_int_equal(node_roster_view(roster, view, 4), 3); // a short absence changes no graph
    assert_false(node_roster_forget(roster, 109 * SECOND, 10 * SECOND, &gone));
    uint64_t revision = node_roster_revision(roster);
    assert_true(node_roster_forget(roster, 110 * SECOND, 10 * SECOND, &gone));
    assert_memory_equal(&gone, &two, sizeof two);
    assert_true(node_roster_revision(roster) > revision);
    assert_int_equal(node_roster_view(roster, view, 4), 2);
    assert_int_equal(node_roster_entry(roster, 0)->state, NODE_MEMBER_CONNECTING); // still called
    assert_false(node_roster_forget(roster, 1000 * SECOND, 10 * SECOND, &gone));
    up(roster, 2, "two", 200 * SECOND); // and back
    assert_int_equal(node_roster_view(roster, view, 4), 3);
    assert_false(node_roster_forget_id(roster, &three, 200 * SECOND)); // linked
    node_roster_destroy(roster);
}

static void a_finished_member_stays_finished(void **state)
{
    (void)state;
    struct node_roster *roster = make(NULL, 0);
    struct gossip_id two = id_of(2), gone;
    up(roster, 2, "two", SECOND);
    node_roster_done(roster, &two, 2 * SECOND);
    assert_true(node_roster_find(roster, &two)->done);
    node_roster_down(roster, &two, 50 * SECOND);
    assert_int_equal(node_roster_find(roster, &two)->state, NODE_MEMBER_FINISHED);
    assert_false(node_roster_forget(roster, 55 * SECOND, 10 * SECOND, &gone)); // counted from its going
    up(roster, 2, "two", 56 * SECOND);                                         // resumed for more
    assert_int_equal(node_roster_find(roster, &two)->state, NODE_MEMBER_ALIVE);
    assert_false(node_roster_find(roster, &two)->done);
    node_roster_destroy(roster);
}

static void a_name_has_one_bearer(void **state)
{
    (void)state;
    struct node_roster *roster = make(NULL, 0);
    struct gossip_id two = id_of(2), three = id_of(3);
    up(roster, 2, "twin", SECOND);
    assert_non_null(node_roster_bearer(roster, "twin", &three));
    assert_null(node_roster_bearer(roster, "twin", &two));
    assert_non_null(node_roster_bearer(roster, "self", &three));
    node_roster_down(roster, &two, 2 * SECOND);
    assert_true(node_roster_forget_id(roster, &two, 2 * SECOND));
    assert_null(node_roster_bearer(roster, "twin", &three));
    node_roster_destroy(roster);
}

static void the_table_is_bounded(void **state)
{
    (void)state;
    struct node_roster *roster = make(NULL, 0);
    enum base_error code = BASE_OK;
    int number = 2;
    char name[32];
    for (; code == BASE_OK && number < 10000; number++) {
        struct gossip_id id = id_of(number);
        snprintf(name, sizeof name, "n%d", number);
        code = node_roster_up(roster, &id, name, "x:1", SECOND);
    }
    assert_int_equal(code, BASE_ELIMIT);
    assert_int_equal(node_roster_count(roster), 2 * LIMIT_PEERS);
    node_roster_destroy(roster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_with_itself_and_the_list),
        cmocka_unit_test(learns_self_and_duplicates),
        cmocka_unit_test(joins_the_caller_with_its_entry),
        cmocka_unit_test(another_node_at_an_old_address),
        cmocka_unit_test(view_is_ordered_by_key_on_every_node),
        cmocka_unit_test(forgets_who_is_away_for_long),
        cmocka_unit_test(a_finished_member_stays_finished),
        cmocka_unit_test(a_name_has_one_bearer),
        cmocka_unit_test(the_table_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
