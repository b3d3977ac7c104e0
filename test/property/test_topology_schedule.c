// What every schedule must keep, for each number of members from 1 to 70.
#include "topology/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MOST 70u

static const enum topology_kind kinds[] = {TOPOLOGY_RING, TOPOLOGY_BUTTERFLY};

static void for_each_schedule(void (*check)(enum topology_kind kind, size_t n))
{
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (size_t n = 1; n <= MOST; n++)
            check(kinds[k], n);
}

static void check_mutual(enum topology_kind kind, size_t n)
{
    for (uint64_t round = 0; round < 2 * topology_period(kind, n); round++)
        for (size_t self = 0; self < n; self++) {
            size_t partner = topology_partner(kind, n, self, round);
            if (partner == TOPOLOGY_NOBODY)
                continue;
            assert_true(partner < n);
            assert_int_not_equal(partner, self);
            assert_int_equal(topology_partner(kind, n, partner, round), self);
        }
}

static void a_meeting_is_mutual(void **state)
{
    (void)state;
    for_each_schedule(check_mutual);
}

static void check_rests(enum topology_kind kind, size_t n)
{
    for (uint64_t round = 0; round < topology_period(kind, n); round++) {
        size_t resting = 0;
        for (size_t self = 0; self < n; self++)
            resting += topology_partner(kind, n, self, round) == TOPOLOGY_NOBODY;
        assert_int_equal(resting, n % 2);
    }
}

static void one_rests_where_the_members_are_odd(void **state)
{
    (void)state;
    for_each_schedule(check_rests);
}

static void check_period(enum topology_kind kind, size_t n)
{
    uint64_t period = topology_period(kind, n);
    for (uint64_t round = 0; round < period; round++)
        for (size_t self = 0; self < n; self++)
            assert_int_equal(topology_partner(kind, n, self, round),
                             topology_partner(kind, n, self, round + 1000003 * period));
}

static void the_schedule_repeats_after_its_period(void **state)
{
    (void)state;
    for_each_schedule(check_period);
}

static void a_ring_meets_successor_and_predecessor_and_rests_once(void **state)
{
    (void)state;
    for (size_t n = 3; n <= MOST; n++)
        for (size_t self = 0; self < n; self++) {
            size_t successor = 0, predecessor = 0, rest = 0, period = topology_period(TOPOLOGY_RING, n);
            for (uint64_t round = 0; round < period; round++) {
                size_t partner = topology_partner(TOPOLOGY_RING, n, self, round);
                successor += partner == (self + 1) % n;
                predecessor += partner == (self + n - 1) % n;
                rest += partner == TOPOLOGY_NOBODY;
            }
            assert_int_equal(successor, period / 2);
            assert_int_equal(predecessor, period / 2);
            assert_int_equal(rest, n % 2);
        }
}

// The rule in its plainest form: those without a partner are listed in slot order and paired first with
// second.
static void butterfly_by_definition(size_t n, unsigned stage, size_t *partners)
{
    size_t waiting = TOPOLOGY_NOBODY;
    for (size_t self = 0; self < n; self++) {
        partners[self] = self ^ (size_t)1 << stage;
        if (partners[self] < n)
            continue;
        partners[self] = waiting;
        if (waiting != TOPOLOGY_NOBODY)
            partners[waiting] = self;
        waiting = waiting == TOPOLOGY_NOBODY ? self : TOPOLOGY_NOBODY;
    }
}

static void a_butterfly_follows_its_definition(void **state)
{
    (void)state;
    size_t expected[MOST];
    for (size_t n = 2; n <= MOST; n++) {
        unsigned stages = 0;
        while ((size_t)1 << stages < n)
            stages++;
        assert_int_equal(topology_period(TOPOLOGY_BUTTERFLY, n), stages == 0 ? 1 : stages);
        for (uint64_t round = 0; round < 2 * stages; round++) {
            butterfly_by_definition(n, (unsigned)(round % stages), expected);
            for (size_t self = 0; self < n; self++)
                assert_int_equal(topology_partner(TOPOLOGY_BUTTERFLY, n, self, round), expected[self]);
        }
    }
}

static void check_neighbours(enum topology_kind kind, size_t n)
{
    for (size_t self = 0; self < n; self++) {
        bool met[MOST] = {false};
        size_t distinct = 0, peers[MOST];
        for (uint64_t round = 0; round < topology_period(kind, n); round++) {
            size_t partner = topology_partner(kind, n, self, round);
            if (partner != TOPOLOGY_NOBODY && !met[partner]) {
                met[partner] = true;
                distinct++;
            }
        }
        assert_int_equal(topology_neighbours(kind, n, self, peers, MOST), distinct);
        for (size_t i = 0; i < distinct; i++) {
            assert_true(met[peers[i]]);
            assert_true(i == 0 || peers[i - 1] < peers[i]);
        }
    }
}

static void neighbours_are_those_met_in_a_period(void **state)
{
    (void)state;
    for_each_schedule(check_neighbours);
}

static void check_connected(enum topology_kind kind, size_t n)
{
    size_t reached[MOST] = {0}, count = 1, peers[MOST];
    bool seen[MOST] = {true};
    for (size_t i = 0; i < count; i++) {
        size_t met = topology_neighbours(kind, n, reached[i], peers, MOST);
        for (size_t p = 0; p < met; p++)
            if (!seen[peers[p]]) {
                seen[peers[p]] = true;
                reached[count++] = peers[p];
            }
    }
    assert_int_equal(count, n);
}

static void the_union_of_all_rounds_is_connected(void **state)
{
    (void)state;
    for_each_schedule(check_connected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_meeting_is_mutual),
        cmocka_unit_test(one_rests_where_the_members_are_odd),
        cmocka_unit_test(the_schedule_repeats_after_its_period),
        cmocka_unit_test(a_ring_meets_successor_and_predecessor_and_rests_once),
        cmocka_unit_test(a_butterfly_follows_its_definition),
        cmocka_unit_test(neighbours_are_those_met_in_a_period),
        cmocka_unit_test(the_union_of_all_rounds_is_connected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
