// Names of topologies, what plans refuse, the order of members, and the smallest groups.
#include "topology/parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void every_name_parses_to_its_kind(void **state)
{
    (void)state;
    static const char *const names[TOPOLOGY_KINDS] = {
        [TOPOLOGY_RING] = "ring",
        [TOPOLOGY_BUTTERFLY] = "butterfly",
        [TOPOLOGY_RANDOM] = "random",
        [TOPOLOGY_TORUS] = "torus",
        [TOPOLOGY_EXPONENTIAL] = "exponential",
        [TOPOLOGY_ONE_PEER] = "one-peer",
        [TOPOLOGY_COMPLETE] = "complete",
        [TOPOLOGY_STAR] = "star",
        [TOPOLOGY_MATCHINGS] = "matchings",
        [TOPOLOGY_BASE] = "base",
        [TOPOLOGY_HIERARCHICAL] = "hierarchical",
        [TOPOLOGY_FILE] = "file",
    };
    for (int i = 0; i < TOPOLOGY_KINDS; i++) {
        enum topology_kind kind = TOPOLOGY_KINDS;
        assert_int_equal(topology_kind_parse(names[i], &kind, NULL), BASE_OK);
        assert_int_equal(kind, i);
        assert_string_equal(topology_kind_name(kind), names[i]);
    }
}

static void an_unknown_name_is_answered_with_the_known_ones(void **state)
{
    (void)state;
    enum topology_kind kind = TOPOLOGY_BUTTERFLY;
    struct base_reason why = {0};
    assert_int_equal(topology_kind_parse("tours", &kind, &why), BASE_EINVAL);
    assert_int_equal(kind, TOPOLOGY_BUTTERFLY);
    assert_non_null(strstr(why.text, "'tours'"));
    for (int i = 0; i < TOPOLOGY_KINDS; i++)
        assert_non_null(strstr(why.text, topology_kind_name((enum topology_kind)i)));
}

static void the_key_of_a_member_is_fixed_for_good(void **state)
{
    (void)state;
    assert_int_equal(topology_ring_key(7, 0, "node-01"), topology_ring_key(7, 0, "node-01"));
    assert_int_not_equal(topology_ring_key(7, 0, "node-01"), topology_ring_key(7, 0, "node-02"));
    assert_int_not_equal(topology_ring_key(7, 0, "node-01"), topology_ring_key(8, 0, "node-01"));
    assert_int_not_equal(topology_ring_key(7, 0, "node-01"), topology_ring_key(7, 1, "node-01"));
    assert_int_equal(topology_ring_key(0, 0, "node-01"), 0x49801a258f992a9dull);
}

static struct topology_plan *plan_of(enum topology_kind kind, size_t n)
{
    struct topology_options options = {.kind = kind, .rings = 2};
    struct topology_member members[32] = {0};
    struct topology_plan *plan = NULL;
    for (size_t i = 0; i < n; i++) {
        members[i].name[0] = (char)('a' + i);
        members[i].id[0] = (uint8_t)i;
        members[i].slot = (uint32_t)i;
    }
    assert_int_equal(topology_plan_create(&options, members, n, &plan), BASE_OK);
    assert_int_equal(topology_plan_members(plan), n);
    return plan;
}

static void an_empty_plan_is_valid(void **state)
{
    (void)state;
    for (int kind = TOPOLOGY_RING; kind < TOPOLOGY_FILE; kind++) {
        struct topology_plan *plan = plan_of((enum topology_kind)kind, 0);
        assert_int_equal(topology_plan_period(plan), 1);
        topology_plan_destroy(plan);
    }
    topology_plan_destroy(NULL);
}

static void a_single_member_meets_no_other(void **state)
{
    (void)state;
    for (int kind = TOPOLOGY_RING; kind < TOPOLOGY_FILE; kind++) {
        struct topology_plan *plan = plan_of((enum topology_kind)kind, 1);
        size_t peer;
        for (uint64_t round = 0; round < 3; round++)
            assert_int_equal(topology_plan_partner(plan, 0, round), TOPOLOGY_NOBODY);
        assert_int_equal(topology_plan_neighbours(plan, 0, &peer, 1), 0);
        assert_int_equal(topology_plan_slot(plan, 0), kind == TOPOLOGY_BUTTERFLY ? 0 : TOPOLOGY_NO_SLOT);
        topology_plan_destroy(plan);
    }
}

static void two_members_meet_in_every_round(void **state)
{
    (void)state;
    for (int kind = TOPOLOGY_RING; kind < TOPOLOGY_FILE; kind++) {
        struct topology_plan *plan = plan_of((enum topology_kind)kind, 2);
        for (uint64_t round = 0; round < 3; round++)
            for (size_t self = 0; self < 2; self++)
                assert_int_equal(topology_plan_partner(plan, self, round), 1 - self);
        assert_int_equal(topology_plan_period(plan), 1);
        topology_plan_destroy(plan);
    }
}

static void a_short_array_takes_the_first_neighbours(void **state)
{
    (void)state;
    size_t peers[2] = {99, 99};
    struct topology_plan *plan = plan_of(TOPOLOGY_BUTTERFLY, 16);
    assert_int_equal(topology_plan_neighbours(plan, 5, peers, 2), 4);
    assert_int_equal(peers[0], 1);
    assert_int_equal(peers[1], 4);
    assert_int_equal(topology_plan_neighbours(plan, 5, NULL, 0), 4);
    topology_plan_destroy(plan);
}

static void the_last_round_of_a_64_bit_counter_is_a_round(void **state)
{
    (void)state;
    for (int kind = TOPOLOGY_RING; kind < TOPOLOGY_FILE; kind++) {
        struct topology_plan *plan = plan_of((enum topology_kind)kind, 5);
        for (size_t self = 0; self < 5; self++) {
            size_t partner = topology_plan_partner(plan, self, UINT64_MAX);
            assert_true(partner == TOPOLOGY_NOBODY ||
                        topology_plan_partner(plan, partner, UINT64_MAX) == self);
        }
        topology_plan_destroy(plan);
    }
}

static void invalid_options_are_refused(void **state)
{
    struct topology_options options = {.kind = TOPOLOGY_RANDOM};
    struct topology_plan *plan = (struct topology_plan *)&options; // to check that it does not change
    (void)state;
    assert_int_equal(topology_plan_create(&options, NULL, 0, &plan), BASE_EINVAL);
    options.rings = TOPOLOGY_RINGS_MAX + 1;
    assert_int_equal(topology_plan_create(&options, NULL, 0, &plan), BASE_EINVAL);
    options = (struct topology_options){.kind = TOPOLOGY_KINDS, .rings = 1};
    assert_int_equal(topology_plan_create(&options, NULL, 0, &plan), BASE_EINVAL);
    options.kind = TOPOLOGY_FILE; // without a graph
    assert_int_equal(topology_plan_create(&options, NULL, 0, &plan), BASE_EINVAL);
    options.kind = TOPOLOGY_RING;
    assert_int_equal(topology_plan_create(&options, NULL, TOPOLOGY_MEMBERS_MAX + 1, &plan), BASE_EINVAL);
    assert_ptr_equal(plan, &options);
}

// A name that fills its field without a zero at the end is read only within the field.
static void a_full_name_ends_with_its_field(void **state)
{
    struct topology_options options = {.kind = TOPOLOGY_RING};
    struct topology_member members[3] = {0};
    struct topology_plan *plan = NULL;
    size_t peers[3];
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        memset(members[i].name, 'x', sizeof members[i].name);
        members[i].id[31] = (uint8_t)(3 - i);
    }
    assert_int_equal(topology_plan_create(&options, members, 3, &plan), BASE_OK);
    assert_int_equal(topology_plan_neighbours(plan, 0, peers, 3), 2);
    assert_int_equal(topology_plan_partner(plan, 2, 0), 1); // equal names: by id
    topology_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_parses_to_its_kind),
        cmocka_unit_test(an_unknown_name_is_answered_with_the_known_ones),
        cmocka_unit_test(the_key_of_a_member_is_fixed_for_good),
        cmocka_unit_test(an_empty_plan_is_valid),
        cmocka_unit_test(a_single_member_meets_no_other),
        cmocka_unit_test(two_members_meet_in_every_round),
        cmocka_unit_test(a_short_array_takes_the_first_neighbours),
        cmocka_unit_test(the_last_round_of_a_64_bit_counter_is_a_round),
        cmocka_unit_test(invalid_options_are_refused),
        cmocka_unit_test(a_full_name_ends_with_its_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
