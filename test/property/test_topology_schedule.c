// What every schedule must satisfy, for each number of members from 1 to 70 and any claimed slots.
#include "topology_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 70u

static uint64_t seed;

static int read_seed(void **state)
{
    (void)state;
    seed = world_seed(20260131);
    return 0;
}

// Slots as they are after deaths: drawn from the first n + n / 2, so that no more than a third are vacant.
static void leave_vacancies(struct base_rng *rng, struct topology_member *members, size_t n)
{
    uint32_t slots[MOST + MOST / 2];
    size_t most = n + base_rng_below(rng, n / 2 + 1);
    for (size_t i = 0; i < most; i++)
        slots[i] = (uint32_t)i;
    base_rng_shuffle(rng, slots, most);
    for (size_t i = 0; i < n; i++)
        members[i].slot = slots[i];
}

// The kind whose plan is being checked.
static enum topology_kind kind_now;

static void for_each_plan(void (*check)(const struct topology_plan *plan))
{
    struct base_rng rng;
    struct topology_member members[MOST];
    base_rng_seed(&rng, seed);
    for (size_t n = 1; n <= MOST; n++)
        for (unsigned trial = 0; trial < 8; trial++) {
            struct topology_options options = {.seed = base_rng_u64(&rng), .rings = 1 + trial % 4};
            world_members(&rng, members, n);
            if (trial)
                leave_vacancies(&rng, members, n);
            for (size_t i = 0; i < n; i++) {
                members[i].group = (uint32_t)base_rng_below(&rng, 1 + n / (1 + trial));
                members[i].access = (enum topology_access)base_rng_below(&rng, 1 + trial % 4 % 3);
            }
            for (int kind = 0; kind < TOPOLOGY_FILE; kind++) {
                options.kind = kind_now = (enum topology_kind)kind;
                struct topology_plan *plan = world_plan(&options, members, n);
                check(plan);
                topology_plan_destroy(plan);
            }
        }
}

// The rounds to look at: a period, or a number of them if there is no period.
static uint64_t rounds_of(const struct topology_plan *plan)
{
    uint64_t period = topology_plan_period(plan);
    return period ? period : 40;
}

static void check_mutual(const struct topology_plan *plan)
{
    size_t n = topology_plan_members(plan);
    for (uint64_t round = 0; round < 2 * rounds_of(plan); round++)
        for (size_t self = 0; self < n; self++) {
            size_t partner = topology_plan_partner(plan, self, round);
            double weight = topology_plan_weight(plan, self, round);
            assert_true(partner == TOPOLOGY_NOBODY ? weight == 0 : weight > 0 && weight < 1);
            if (partner == TOPOLOGY_NOBODY)
                continue;
            assert_true(weight == topology_plan_weight(plan, partner, round));
            assert_true(partner < n);
            assert_int_not_equal(partner, self);
            assert_int_equal(topology_plan_partner(plan, partner, round), self);
        }
}

static void a_meeting_is_mutual(void **state)
{
    (void)state;
    for_each_plan(check_mutual);
}

static void check_rests(const struct topology_plan *plan)
{
    size_t n = topology_plan_members(plan);
    if (kind_now != TOPOLOGY_RING && kind_now != TOPOLOGY_BUTTERFLY && kind_now != TOPOLOGY_RANDOM &&
        kind_now != TOPOLOGY_COMPLETE && kind_now != TOPOLOGY_MATCHINGS)
        return;
    for (uint64_t round = 0; round < rounds_of(plan); round++) {
        size_t resting = 0;
        for (size_t self = 0; self < n; self++)
            resting += topology_plan_partner(plan, self, round) == TOPOLOGY_NOBODY;
        assert_int_equal(resting, n % 2);
    }
}

static void one_member_rests_if_their_number_is_odd(void **state)
{
    (void)state;
    for_each_plan(check_rests);
}

static void check_period(const struct topology_plan *plan)
{
    uint64_t period = topology_plan_period(plan);
    for (uint64_t round = 0; round < period; round++)
        for (size_t self = 0; self < topology_plan_members(plan); self++)
            assert_int_equal(topology_plan_partner(plan, self, round),
                             topology_plan_partner(plan, self, round + 1000003 * period));
}

static void the_schedule_repeats_after_its_period(void **state)
{
    (void)state;
    for_each_plan(check_period);
}

static void check_neighbours(const struct topology_plan *plan)
{
    size_t n = topology_plan_members(plan);
    for (size_t self = 0; self < n; self++) {
        bool met[MOST] = {false};
        size_t distinct = 0, peers[MOST];
        if (topology_plan_period(plan) == 0) {
            assert_int_equal(topology_plan_neighbours(plan, self, peers, MOST), n - 1);
            continue;
        }
        for (uint64_t round = 0; round < rounds_of(plan); round++) {
            size_t partner = topology_plan_partner(plan, self, round);
            if (partner != TOPOLOGY_NOBODY && !met[partner]) {
                met[partner] = true;
                distinct++;
            }
        }
        assert_int_equal(topology_plan_neighbours(plan, self, peers, MOST), distinct);
        for (size_t i = 0; i < distinct; i++) {
            assert_true(met[peers[i]]);
            assert_true(i == 0 || peers[i - 1] < peers[i]);
        }
    }
}

static void neighbours_are_those_met_in_a_period(void **state)
{
    (void)state;
    for_each_plan(check_neighbours);
}

static void check_connected(const struct topology_plan *plan)
{
    assert_int_equal(world_reach(plan), topology_plan_members(plan));
}

static void the_union_of_all_rounds_is_connected(void **state)
{
    (void)state;
    for_each_plan(check_connected);
}

// Members by their place on hash ring `ring`: the rule in its plainest form.
static void ring_by_definition(const struct topology_options *options, unsigned ring,
                               const struct topology_member *members, size_t n, size_t *order)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t key = topology_ring_key(options->seed, ring, members[i].name);
        size_t before = 0;
        for (size_t j = 0; j < n; j++) {
            uint64_t other = topology_ring_key(options->seed, ring, members[j].name);
            int names = strcmp(members[j].name, members[i].name);
            bool earlier = names ? names < 0 : memcmp(members[j].id, members[i].id, 32) < 0;
            before += other < key || (other == key && earlier);
        }
        order[before] = i;
    }
}

static void check_ring(const struct topology_plan *plan, const size_t *order, unsigned ring, unsigned rings)
{
    size_t n = topology_plan_members(plan), period = n % 2 ? n : 2;
    assert_int_equal(topology_plan_period(plan), rings * period);
    for (size_t at = 0; at < n; at++) {
        size_t successor = 0, predecessor = 0, rest = 0;
        for (uint64_t round = ring; round < rings * period; round += rings) {
            size_t partner = topology_plan_partner(plan, order[at], round);
            successor += partner == order[(at + 1) % n];
            predecessor += partner == order[(at + n - 1) % n];
            rest += partner == TOPOLOGY_NOBODY;
        }
        assert_int_equal(successor, period / 2);
        assert_int_equal(predecessor, period / 2);
        assert_int_equal(rest, n % 2);
    }
}

static void rings_meet_successor_and_predecessor_and_rest_once(void **state)
{
    struct base_rng rng;
    struct topology_member members[MOST];
    size_t order[MOST];
    (void)state;
    base_rng_seed(&rng, seed);
    for (size_t n = 3; n <= MOST; n++) {
        struct topology_options options = {.kind = TOPOLOGY_RING, .seed = base_rng_u64(&rng)};
        world_members(&rng, members, n);
        memcpy(members[1].name, members[0].name, sizeof members[0].name); // a tie
        struct topology_plan *plan = world_plan(&options, members, n);
        ring_by_definition(&options, 0, members, n, order);
        check_ring(plan, order, 0, 1);
        topology_plan_destroy(plan);
        options.kind = TOPOLOGY_RANDOM;
        options.rings = 1 + (unsigned)n % TOPOLOGY_RINGS_MAX;
        plan = world_plan(&options, members, n);
        for (unsigned ring = 0; ring < options.rings; ring++) {
            ring_by_definition(&options, ring, members, n, order);
            check_ring(plan, order, ring, options.rings);
        }
        topology_plan_destroy(plan);
    }
}

// The rule in its plainest form: members without a partner are listed in slot order, and each odd one is
// paired with the next. In every second pass the first of them moves to the end of the list.
static void butterfly_by_definition(const size_t *holder, size_t slots, unsigned stage, bool shifted,
                                    size_t *partners)
{
    size_t list[2 * MOST], count = 0, start = shifted ? 1 : 0;
    for (size_t at = 0; at < slots; at++) {
        size_t mate = at ^ (size_t)1 << stage;
        if (holder[at] == TOPOLOGY_NOBODY)
            continue;
        partners[holder[at]] = mate < slots ? holder[mate] : TOPOLOGY_NOBODY;
        if (partners[holder[at]] == TOPOLOGY_NOBODY)
            list[count++] = holder[at];
    }
    if (shifted && count)
        list[count] = list[0];
    for (size_t i = start; i + 1 < count + start; i += 2) {
        partners[list[i]] = list[i + 1];
        partners[list[i + 1]] = list[i];
    }
}

static void check_butterfly(const struct topology_plan *plan)
{
    size_t holder[2 * MOST], expected[MOST], n = topology_plan_members(plan), slots = 0;
    unsigned stages = 0;
    for (size_t at = 0; at < 2 * MOST; at++)
        holder[at] = TOPOLOGY_NOBODY;
    for (size_t i = 0; i < n; i++) {
        size_t slot = topology_plan_slot(plan, i);
        assert_true(slot < 2 * MOST && holder[slot] == TOPOLOGY_NOBODY);
        holder[slot] = i;
        slots = slot >= slots ? slot + 1 : slots;
    }
    while ((size_t)1 << stages < slots)
        stages++;
    if (slots == (size_t)1 << stages && slots == n && n > 1)
        assert_int_equal(topology_plan_period(plan), stages);
    for (uint64_t round = 0; round < 4 * stages; round++) {
        butterfly_by_definition(holder, slots, (unsigned)(round % stages), round / stages % 2, expected);
        for (size_t self = 0; self < n; self++)
            assert_int_equal(topology_plan_partner(plan, self, round), expected[self]);
    }
}

static void check_if_butterfly(const struct topology_plan *plan)
{
    if (topology_plan_slot(plan, 0) != TOPOLOGY_NO_SLOT)
        check_butterfly(plan);
}

static void a_butterfly_follows_its_definition(void **state)
{
    (void)state;
    for_each_plan(check_if_butterfly);
}

// Every pattern of vacancies up to 14 slots, and the one that falls apart without the shift.
static void no_pattern_of_vacancies_cuts_a_butterfly(void **state)
{
    struct base_rng rng;
    struct topology_member members[16];
    struct topology_options options = {.kind = TOPOLOGY_BUTTERFLY};
    size_t patterns = 0;
    (void)state;
    base_rng_seed(&rng, seed);
    world_members(&rng, members, 16);
    for (uint32_t taken = 1; taken < 1u << 14; taken++) {
        size_t n = 0, highest = 0;
        for (uint32_t at = 0; at < 14; at++)
            if (taken >> at & 1) {
                members[n++].slot = at;
                highest = at;
            }
        if (3 * (highest + 1 - n) > highest + 1)
            continue;
        patterns++;
        struct topology_plan *plan = world_plan(&options, members, n);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(topology_plan_slot(plan, i), members[i].slot);
        assert_int_equal(world_reach(plan), n);
        topology_plan_destroy(plan);
    }
    print_message("%zu patterns\n", patterns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_meeting_is_mutual),
        cmocka_unit_test(one_member_rests_if_their_number_is_odd),
        cmocka_unit_test(the_schedule_repeats_after_its_period),
        cmocka_unit_test(neighbours_are_those_met_in_a_period),
        cmocka_unit_test(the_union_of_all_rounds_is_connected),
        cmocka_unit_test(rings_meet_successor_and_predecessor_and_rest_once),
        cmocka_unit_test(a_butterfly_follows_its_definition),
        cmocka_unit_test(no_pattern_of_vacancies_cuts_a_butterfly),
    };
    return cmocka_run_group_tests(tests, read_seed, NULL);
}
