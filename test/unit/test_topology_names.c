// Names of topologies, the order of members, and the smallest groups.
#include "topology/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void names_are_read_back(void **state)
{
    (void)state;
    enum topology_kind kind = TOPOLOGY_BUTTERFLY;
    assert_int_equal(topology_kind_parse("ring", &kind, NULL), BASE_OK);
    assert_int_equal(kind, TOPOLOGY_RING);
    assert_int_equal(topology_kind_parse("butterfly", &kind, NULL), BASE_OK);
    assert_int_equal(kind, TOPOLOGY_BUTTERFLY);
    assert_string_equal(topology_kind_name(TOPOLOGY_RING), "ring");
    assert_string_equal(topology_kind_name(TOPOLOGY_BUTTERFLY), "butterfly");
}

static void an_unknown_name_says_what_is_known(void **state)
{
    (void)state;
    enum topology_kind kind = TOPOLOGY_BUTTERFLY;
    struct base_reason why = {0};
    assert_int_equal(topology_kind_parse("tours", &kind, &why), BASE_EINVAL);
    assert_int_equal(kind, TOPOLOGY_BUTTERFLY);
    assert_non_null(strstr(why.text, "'tours'"));
    assert_non_null(strstr(why.text, "ring"));
    assert_non_null(strstr(why.text, "butterfly"));
}

static void the_key_of_a_member_is_fixed_for_good(void **state)
{
    (void)state;
    assert_int_equal(topology_member_key(7, "node-01"), topology_member_key(7, "node-01"));
    assert_int_not_equal(topology_member_key(7, "node-01"), topology_member_key(7, "node-02"));
    assert_int_not_equal(topology_member_key(7, "node-01"), topology_member_key(8, "node-01"));
    assert_int_equal(topology_member_key(0, "node-01"), 0x49801a258f992a9dull);
}

static void one_member_meets_nobody(void **state)
{
    (void)state;
    size_t peer;
    for (uint64_t round = 0; round < 3; round++) {
        assert_int_equal(topology_partner(TOPOLOGY_RING, 1, 0, round), TOPOLOGY_NOBODY);
        assert_int_equal(topology_partner(TOPOLOGY_BUTTERFLY, 1, 0, round), TOPOLOGY_NOBODY);
    }
    assert_int_equal(topology_neighbours(TOPOLOGY_RING, 1, 0, &peer, 1), 0);
    assert_int_equal(topology_neighbours(TOPOLOGY_BUTTERFLY, 1, 0, &peer, 1), 0);
}

static void two_members_meet_every_round(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 3; round++)
        for (size_t self = 0; self < 2; self++) {
            assert_int_equal(topology_partner(TOPOLOGY_RING, 2, self, round), 1 - self);
            assert_int_equal(topology_partner(TOPOLOGY_BUTTERFLY, 2, self, round), 1 - self);
        }
    assert_int_equal(topology_period(TOPOLOGY_RING, 2), 1);
    assert_int_equal(topology_period(TOPOLOGY_BUTTERFLY, 2), 1);
}

static void a_short_array_takes_the_first_neighbours(void **state)
{
    (void)state;
    size_t peers[2] = {99, 99};
    assert_int_equal(topology_neighbours(TOPOLOGY_BUTTERFLY, 16, 5, peers, 2), 4);
    assert_int_equal(peers[0], 1);
    assert_int_equal(peers[1], 4);
    assert_int_equal(topology_neighbours(TOPOLOGY_BUTTERFLY, 16, 5, NULL, 0), 4);
}

static void the_last_round_of_a_64_bit_counter_is_a_round(void **state)
{
    (void)state;
    for (size_t self = 0; self < 5; self++) {
        size_t partner = topology_partner(TOPOLOGY_RING, 5, self, UINT64_MAX);
        assert_true(partner == TOPOLOGY_NOBODY ||
                    topology_partner(TOPOLOGY_RING, 5, partner, UINT64_MAX) == self);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read_back),
        cmocka_unit_test(an_unknown_name_says_what_is_known),
        cmocka_unit_test(the_key_of_a_member_is_fixed_for_good),
        cmocka_unit_test(one_member_meets_nobody),
        cmocka_unit_test(two_members_meet_every_round),
        cmocka_unit_test(a_short_array_takes_the_first_neighbours),
        cmocka_unit_test(the_last_round_of_a_64_bit_counter_is_a_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
