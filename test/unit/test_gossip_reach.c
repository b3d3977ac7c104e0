// How others reach a node: what members see, who has called, and which members relay.
#include "gossip/reach/reach.h"
#include "gossip/reach/relays.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// cmocka needs the headers above.
#include <cmocka.h>

#define SECOND 1000000000ull
#define START  (100 * SECOND)

static struct gossip_reach *reach;

static struct gossip_id id(uint8_t n)
{
    struct gossip_id id = {{0}};
    id.bytes[0] = n;
    return id;
}

static struct gossip_address at(uint8_t a, uint8_t d, uint16_t port)
{
    return (struct gossip_address){.family = 4, .ip = {a, 0, 0, d}, .port = port};
}

static const struct gossip_address *home(void)
{
    static struct gossip_address own;
    own = at(192, 2, 7000);
    return &own;
}

static int begin(void **state)
{
    (void)state;
    assert_int_equal(gossip_reach_create(&reach), BASE_OK);
    gossip_reach_interfaces(reach, home(), 1);
    gossip_reach_own(reach, home());
    return 0;
}

static int end(void **state)
{
    (void)state;
    gossip_reach_destroy(reach);
    return 0;
}

static void linked(uint8_t member, struct gossip_address seen, bool near, uint64_t now_ns)
{
    const struct gossip_id voter = id(member);
    gossip_reach_linked(reach, now_ns, &voter, &seen, near);
}

static void seen(uint8_t member, struct gossip_address address, uint64_t now_ns)
{
    linked(member, address, false, now_ns);
}

static void unlinked(uint8_t member, uint64_t now_ns)
{
    const struct gossip_id voter = id(member);
    gossip_reach_unlinked(reach, now_ns, &voter);
}

static void called(uint8_t member, uint64_t now_ns, bool told, bool near)
{
    const struct gossip_id caller = id(member);
    gossip_reach_called(reach, now_ns, &caller, told, near);
}

static void is(enum gossip_reach_state expected, uint64_t now_ns)
{
    assert_int_equal(gossip_reach_state(reach, now_ns), expected);
}

static void in_one_network_any_call_counts(void **state)
{
    (void)state;
    is(GOSSIP_REACH_UNKNOWN, START);
    linked(1, *home(), true, START);
    is(GOSSIP_REACH_UNKNOWN, START + 5 * SECOND);
    is(GOSSIP_REACH_PRIVATE, START + GOSSIP_REACH_WAIT_NS);
    called(1, START + 7 * SECOND, true, true);
    is(GOSSIP_REACH_REACHABLE, START + 7 * SECOND);
}

// As long as the link of the caller lasts, and for a while after.
static void a_call_counts_as_long_as_its_link(void **state)
{
    (void)state;
    const uint64_t end_ns = START + 10 * GOSSIP_REACH_FRESH_NS;
    called(1, START, false, false);
    seen(1, *home(), START);
    is(GOSSIP_REACH_REACHABLE, end_ns);
    unlinked(1, end_ns);
    is(GOSSIP_REACH_REACHABLE, end_ns + GOSSIP_REACH_FRESH_NS - 1);
    is(GOSSIP_REACH_PRIVATE, end_ns + GOSSIP_REACH_FRESH_NS);
}

static void beyond_this_network_only_calls_from_there_count(void **state)
{
    (void)state;
    seen(1, at(203, 1, 7000), START);
    is(GOSSIP_REACH_PRIVATE, START); // at once: it is behind a router
    linked(2, *home(), true, START);
    called(2, START, false, true);
    is(GOSSIP_REACH_PRIVATE, START); // a host of this home
    called(1, START, true, false);   // the router may have taken it for an answer
    is(GOSSIP_REACH_PRIVATE, START);
    called(1, START, false, false);
    is(GOSSIP_REACH_REACHABLE, START);
}

// A firewall without NAT: all see the node at its own address.
static void a_host_of_this_home_does_not_speak_for_those_outside(void **state)
{
    (void)state;
    seen(1, *home(), START);
    linked(2, *home(), true, START);
    called(2, START, false, true);
    is(GOSSIP_REACH_PRIVATE, START + GOSSIP_REACH_WAIT_NS);
    called(1, START, true, false);
    is(GOSSIP_REACH_PRIVATE, START + GOSSIP_REACH_WAIT_NS);
}

static void a_liar_does_not_make_a_public_node_private(void **state)
{
    (void)state;
    seen(1, *home(), START);
    called(1, START, false, false);
    seen(2, at(203, 1, 7000), START); // it says so
    is(GOSSIP_REACH_REACHABLE, START);
}

static void two_must_agree_unless_there_is_one(void **state)
{
    (void)state;
    struct gossip_address out[LIMIT_ADDRESSES];
    seen(1, at(203, 1, 7000), START);
    assert_int_equal(gossip_reach_addresses(reach, START, out), 2);
    assert_true(gossip_address_same(&out[0], home()));
    assert_int_equal(out[1].ip[0], 203);
    seen(2, at(203, 1, 7001), START); // another port for each: symmetric
    assert_int_equal(gossip_reach_addresses(reach, START, out), 1);
    seen(3, at(203, 1, 7001), START);
    assert_int_equal(gossip_reach_addresses(reach, START + GOSSIP_REACH_FRESH_NS, out), 2); // they last
    assert_int_equal(out[1].port, 7001);
}

// A call that could not leave from the listen port says only where this host is.
static void another_port_says_nothing_about_the_listen_port(void **state)
{
    (void)state;
    struct gossip_address outside;
    seen(1, at(203, 1, 0), START);
    is(GOSSIP_REACH_PRIVATE, START);
    assert_false(gossip_reach_outside(reach, START, &outside));
    seen(2, at(203, 1, 7000), START);
    assert_true(gossip_reach_outside(reach, START, &outside));
    seen(2, at(203, 1, 0), START + SECOND);
    assert_true(gossip_reach_outside(reach, START + SECOND, &outside));
    assert_int_equal(outside.port, 7000);
}

// The provider has given the home another address: members of links that ended know the old one.
static void links_in_use_know_the_present_address(void **state)
{
    (void)state;
    struct gossip_address outside;
    for (uint8_t i = 1; i < 4; i++) {
        seen(i, at(203, 1, 7000), START);
        unlinked(i, START + SECOND);
    }
    assert_true(gossip_reach_outside(reach, START + SECOND, &outside));
    assert_int_equal(outside.ip[3], 1);
    seen(4, at(203, 2, 7000), START + 2 * SECOND);
    assert_true(gossip_reach_outside(reach, START + 2 * SECOND, &outside));
    assert_int_equal(outside.ip[3], 2);
    unlinked(4, START + 3 * SECOND);
    assert_false(gossip_reach_outside(reach, START + 3 * SECOND + GOSSIP_REACH_FRESH_NS, &outside));
}

static void in_another_network_only_links_in_use_count(void **state)
{
    (void)state;
    struct gossip_address out[LIMIT_ADDRESSES], next = at(10, 9, 0);
    seen(1, at(203, 1, 7000), START);
    called(1, START, false, false);
    unlinked(1, START);
    gossip_reach_interfaces(reach, &next, 1);
    is(GOSSIP_REACH_UNKNOWN, START);
    assert_int_equal(gossip_reach_addresses(reach, START, out), 0);
    next.port = 7000;
    gossip_reach_own(reach, &next);
    seen(1, at(203, 1, 7000), START + SECOND);
    is(GOSSIP_REACH_PRIVATE, START + SECOND);
    assert_int_equal(gossip_reach_addresses(reach, START + SECOND, out), 2);
}

// A temporary address has gone; the links over the other one go on.
static void a_link_that_survives_speaks_for_the_network(void **state)
{
    (void)state;
    const struct gossip_address both[2] = {*home(), at(172, 1, 7000)};
    gossip_reach_interfaces(reach, both, 2);
    gossip_reach_own(reach, &both[1]);
    called(1, START, false, false);
    seen(1, *home(), START);
    gossip_reach_interfaces(reach, home(), 1);
    is(GOSSIP_REACH_REACHABLE, START);
}

// An interface that carries no link, such as a bridge of containers, comes and goes without effect.
static void other_interfaces_do_not_matter(void **state)
{
    (void)state;
    struct gossip_address both[2] = {*home(), at(172, 1, 0)};
    called(1, START, false, false);
    seen(1, at(203, 1, 7000), START);
    unlinked(1, START);
    gossip_reach_interfaces(reach, both, 2);
    gossip_reach_interfaces(reach, home(), 1);
    is(GOSSIP_REACH_REACHABLE, START);
}

static void configured_addresses_are_told_alone(void **state)
{
    (void)state;
    struct gossip_address out[LIMIT_ADDRESSES];
    const struct gossip_address given = at(198, 7, 9000);
    gossip_reach_give(reach, &given, 1);
    seen(1, at(203, 1, 7000), START);
    assert_int_equal(gossip_reach_addresses(reach, START, out), 1);
    assert_true(gossip_address_same(&out[0], &given));
}

static void near_addresses_come_last_and_one_place_is_kept(void **state)
{
    (void)state;
    struct gossip_address out[LIMIT_ADDRESSES], near = at(127, 1, 7000);
    gossip_reach_own(reach, &near);
    for (uint8_t i = 1; i < 6; i++) {
        const struct gossip_address more = at(10, i, 7000);
        gossip_reach_own(reach, &more);
    }
    assert_int_equal(gossip_reach_addresses(reach, START, out), LIMIT_ADDRESSES);
    assert_int_equal(out[0].ip[0], 192);
    assert_int_equal(out[LIMIT_ADDRESSES - 1].ip[0], 10); // the near one has made room
    seen(1, at(203, 1, 7000), START);
    assert_int_equal(gossip_reach_addresses(reach, START, out), LIMIT_ADDRESSES);
    assert_int_equal(out[LIMIT_ADDRESSES - 1].ip[0], 203);
}

// -- a port of the router

static size_t told_with(struct gossip_address mapped, struct gossip_address out[LIMIT_ADDRESSES])
{
    gossip_reach_map(reach, &mapped);
    return gossip_reach_addresses(reach, START, out);
}

static void a_mapped_address_is_told_where_members_see_the_node(void **state)
{
    (void)state;
    struct gossip_address out[LIMIT_ADDRESSES];
    assert_int_equal(told_with(at(10, 1, 7400), out), 1); // nobody outside says anything, and it is private
    assert_false(gossip_reach_mapped(reach, START));
    assert_int_equal(told_with(at(9, 1, 7400), out), 2);
    assert_true(gossip_reach_mapped(reach, START));
    assert_int_equal(out[1].ip[0], 9);
    seen(1, at(9, 1, 50001), START); // symmetric: each sees another port
    seen(2, at(9, 1, 50002), START);
    assert_int_equal(gossip_reach_addresses(reach, START, out), 2);
    assert_int_equal(out[1].port, 7400);
    seen(2, at(9, 1, 50001), START);
    assert_int_equal(gossip_reach_addresses(reach, START, out), 3); // and the one that they agree on
    assert_int_equal(out[1].port, 7400);
    assert_int_equal(out[2].port, 50001);
    assert_int_equal(told_with(at(9, 1, 50001), out), 2); // once
    gossip_reach_map(reach, NULL);
    assert_false(gossip_reach_mapped(reach, START));
}

// The router stands behind another one, or has another address now.
static void a_mapped_address_is_not_told_if_members_see_the_node_elsewhere(void **state)
{
    (void)state;
    struct gossip_address out[LIMIT_ADDRESSES];
    seen(1, at(203, 1, 7000), START);
    assert_int_equal(told_with(at(9, 1, 7400), out), 2);
    assert_false(gossip_reach_mapped(reach, START));
    assert_int_equal(told_with(at(10, 1, 7400), out), 2);
    assert_int_equal(out[1].ip[0], 203);
    seen(2, at(10, 1, 50000), START); // a member between the two routers
    assert_true(gossip_reach_mapped(reach, START));
    unlinked(2, START); // those of links in use know the present address
    assert_false(gossip_reach_mapped(reach, START));
}

static void a_mapped_address_has_a_place_unless_the_configuration_names_all(void **state)
{
    (void)state;
    struct gossip_address out[LIMIT_ADDRESSES];
    const struct gossip_address given = at(198, 7, 9000);
    for (uint8_t i = 1; i < 6; i++) {
        const struct gossip_address more = at(10, i, 7000);
        gossip_reach_own(reach, &more);
    }
    seen(1, at(9, 1, 50001), START);
    assert_int_equal(told_with(at(9, 1, 7400), out), LIMIT_ADDRESSES);
    assert_int_equal(out[LIMIT_ADDRESSES - 2].port, 7400);
    assert_int_equal(out[LIMIT_ADDRESSES - 1].port, 50001);
    gossip_reach_give(reach, &given, 1);
    assert_int_equal(gossip_reach_addresses(reach, START, out), 1);
    assert_false(gossip_reach_mapped(reach, START));
}

// Whoever calls, such as strangers with the secret, displaces none of the links in use.
static void links_in_use_do_not_make_room(void **state)
{
    (void)state;
    struct gossip_address outside;
    seen(200, at(203, 1, 7000), START);
    seen(201, at(203, 1, 7000), START);
    for (unsigned i = 0; i < 2 * GOSSIP_REACH_VOTERS; i++)
        called((uint8_t)i, START + 1 + i, false, true);
    assert_true(gossip_reach_outside(reach, START + SECOND, &outside));
    is(GOSSIP_REACH_PRIVATE, START + SECOND);
}

static void told(enum gossip_access expected, uint64_t now_ns)
{
    assert_int_equal(gossip_reach_access(reach, now_ns), expected);
}

// The first minute says how a node is reached: then edges are young.
static void early_the_graph_is_told_at_once(void **state)
{
    (void)state;
    told(GOSSIP_ACCESS_USUAL, START);
    seen(1, at(203, 1, 7000), START);
    told(GOSSIP_ACCESS_USUAL, START); // one member can't say whether others see another port
    seen(2, at(203, 1, 7001), START);
    told(GOSSIP_ACCESS_HARD, START);
    seen(3, at(203, 1, 7001), START + SECOND);
    told(GOSSIP_ACCESS_USUAL, START + SECOND); // two agree
    called(1, START + 2 * SECOND, false, false);
    told(GOSSIP_ACCESS_OPEN, START + 2 * SECOND);
}

// Later only what has lasted: a router that restarts has another port for some links, for seconds.
static void later_the_graph_is_told_what_has_lasted(void **state)
{
    (void)state;
    const uint64_t late_ns = START + GOSSIP_REACH_EARLY_NS;
    seen(1, at(203, 1, 7000), START);
    seen(2, at(203, 1, 7000), START);
    told(GOSSIP_ACCESS_USUAL, START);
    seen(1, at(203, 1, 7001), late_ns);
    told(GOSSIP_ACCESS_USUAL, late_ns);
    told(GOSSIP_ACCESS_USUAL, late_ns + GOSSIP_REACH_LASTS_NS - 1);
    seen(2, at(203, 1, 7001), late_ns + GOSSIP_REACH_LASTS_NS - 1);
    told(GOSSIP_ACCESS_USUAL, late_ns + GOSSIP_REACH_LASTS_NS);
    const uint64_t again_ns = late_ns + 2 * GOSSIP_REACH_LASTS_NS;
    seen(1, at(203, 1, 7002), again_ns);
    told(GOSSIP_ACCESS_USUAL, again_ns);
    told(GOSSIP_ACCESS_HARD, again_ns + GOSSIP_REACH_LASTS_NS);
}

// Members of links that ended may know an older port.
static void only_links_in_use_make_a_node_hard(void **state)
{
    (void)state;
    seen(1, at(203, 1, 7000), START);
    unlinked(1, START);
    seen(2, at(203, 1, 7001), START);
    told(GOSSIP_ACCESS_USUAL, START);
    unlinked(2, START);
    told(GOSSIP_ACCESS_USUAL, START);
}

// -- relays

static struct gossip_record member(uint8_t n, uint8_t ways)
{
    struct gossip_record record = {.id = id(n), .ways = ways};
    return record;
}

static struct gossip_relays choose(uint8_t self, uint8_t from, uint8_t to, unsigned missing, unsigned dead)
{
    const struct gossip_id own = id(self);
    struct gossip_relays relays;
    gossip_relays_begin(&relays, &own);
    for (uint8_t i = from; i < to; i++) {
        const struct gossip_record record = member(i, GOSSIP_WAYS);
        if (i != dead)
            gossip_relays_offer(&relays, &record, i == missing);
    }
    return relays;
}

static void only_reachable_members_that_relay_are_chosen(void **state)
{
    (void)state;
    struct gossip_relays relays = choose(1, 1, 1, 0, 0);
    for (uint8_t ways = 0; ways < GOSSIP_WAYS; ways++) {
        const struct gossip_record record = member(5, ways);
        gossip_relays_offer(&relays, &record, false);
    }
    const struct gossip_record self = member(1, GOSSIP_WAYS), good = member(6, GOSSIP_WAYS);
    gossip_relays_offer(&relays, &self, false);
    assert_int_equal(relays.count, 0);
    gossip_relays_offer(&relays, &good, false);
    assert_int_equal(relays.count, 1);
    assert_int_equal(relays.ids[0].bytes[0], 6);
}

// Each is chosen about as often; a death moves only those that used the dead one; one that is missing comes
// last.
static void relays_share_the_load(void **state)
{
    (void)state;
    unsigned used[256] = {0}, moved = 0, used_dead = 0;
    for (uint8_t self = 100; self < 200; self++) {
        const struct gossip_relays all = choose(self, 1, 11, 0, 0), less = choose(self, 1, 11, 0, 4);
        assert_int_equal(all.count, 2);
        assert_true(all.ids[0].bytes[0] != all.ids[1].bytes[0]);
        bool uses = false;
        for (size_t i = 0; i < 2; i++) {
            used[all.ids[i].bytes[0]]++;
            uses |= all.ids[i].bytes[0] == 4;
        }
        used_dead += uses;
        moved += memcmp(all.ids, less.ids, sizeof all.ids) != 0;
        const struct gossip_relays without = choose(self, 1, 11, all.ids[0].bytes[0], 0);
        assert_true(without.ids[0].bytes[0] == all.ids[1].bytes[0] &&
                    without.ids[1].bytes[0] != all.ids[0].bytes[0]);
    }
    assert_int_equal(moved, used_dead);
    for (uint8_t i = 1; i < 11; i++)
        assert_in_range(used[i], 8, 36); // 20 on average
}

static void a_missing_one_is_better_than_none(void **state)
{
    (void)state;
    const struct gossip_relays relays = choose(100, 1, 3, 1, 0);
    assert_int_equal(relays.count, 2);
    assert_int_equal(relays.ids[0].bytes[0], 2);
    assert_int_equal(relays.ids[1].bytes[0], 1);
}

int main(void)
{
#define REACH(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        REACH(in_one_network_any_call_counts),
        REACH(a_call_counts_as_long_as_its_link),
        REACH(beyond_this_network_only_calls_from_there_count),
        REACH(a_host_of_this_home_does_not_speak_for_those_outside),
        REACH(a_liar_does_not_make_a_public_node_private),
        REACH(two_must_agree_unless_there_is_one),
        REACH(another_port_says_nothing_about_the_listen_port),
        REACH(links_in_use_know_the_present_address),
        REACH(in_another_network_only_links_in_use_count),
        REACH(a_link_that_survives_speaks_for_the_network),
        REACH(other_interfaces_do_not_matter),
        REACH(configured_addresses_are_told_alone),
        REACH(near_addresses_come_last_and_one_place_is_kept),
        REACH(a_mapped_address_is_told_where_members_see_the_node),
        REACH(a_mapped_address_is_not_told_if_members_see_the_node_elsewhere),
        REACH(a_mapped_address_has_a_place_unless_the_configuration_names_all),
        REACH(links_in_use_do_not_make_room),
        REACH(early_the_graph_is_told_at_once),
        REACH(later_the_graph_is_told_what_has_lasted),
        REACH(only_links_in_use_make_a_node_hard),
        cmocka_unit_test(only_reachable_members_that_relay_are_chosen),
        cmocka_unit_test(relays_share_the_load),
        cmocka_unit_test(a_missing_one_is_better_than_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
