// The port that a node asks its router for: when, which one, and what follows from the answer.
#include "gossip/reach/mapping.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka needs the headers above.
#include <cmocka.h>

#define SECOND 1000000000ull
#define START  (100 * SECOND)
#define PORT   7400

static struct gossip_mapping mapping;
static struct gossip_mapping_request request;

static int begin(void **state)
{
    static const uint8_t any[4];
    (void)state;
    gossip_mapping_begin(&mapping, START, any, PORT, 7);
    return 0;
}

static bool asks(uint64_t now_ns, enum gossip_reach_state state)
{
    return gossip_mapping_asks(&mapping, now_ns, state, true, &request);
}

static void answered(uint64_t now_ns, enum gossip_mapping_end end, uint16_t port, uint32_t lease_s)
{
    const struct gossip_mapping_answer answer = {.end = end,
                                                 .by = end == GOSSIP_MAPPING_NOBODY ? NULL : "UPnP",
                                                 .address = {.family = 4, .ip = {9, 9, 9, 9}, .port = port},
                                                 .lease_s = lease_s};
    gossip_mapping_answered(&mapping, now_ns, &answer);
}

static void mapped(uint64_t now_ns)
{
    assert_true(asks(now_ns, GOSSIP_REACH_PRIVATE));
    answered(now_ns, GOSSIP_MAPPING_MAPPED, PORT, GOSSIP_MAPPING_LEASE_S);
    assert_int_equal(mapping.state, GOSSIP_MAPPING_HELD);
}

static void only_who_needs_it_asks(void **state)
{
    (void)state;
    assert_false(asks(START, GOSSIP_REACH_UNKNOWN));
    assert_false(asks(START + 2 * GOSSIP_MAPPING_WAIT_NS, GOSSIP_REACH_REACHABLE));
    assert_false(asks(START + GOSSIP_MAPPING_WAIT_NS - 1, GOSSIP_REACH_UNKNOWN));
    assert_true(asks(START + GOSSIP_MAPPING_WAIT_NS, GOSSIP_REACH_UNKNOWN)); // no member is there
    begin(NULL);
    assert_true(asks(START, GOSSIP_REACH_PRIVATE)); // at once
    assert_int_equal(request.inside, PORT);
    assert_int_equal(request.outside, PORT);
    assert_int_equal(request.lease_s, GOSSIP_MAPPING_LEASE_S);
    assert_false(asks(START + SECOND, GOSSIP_REACH_PRIVATE)); // one question at a time
    memset(&mapping, 0, sizeof mapping);
    assert_false(asks(START + SECOND, GOSSIP_REACH_PRIVATE)); // off
}

static void a_host_with_a_public_address_or_without_any_does_not_ask(void **state)
{
    (void)state;
    const struct gossip_address loopback = {.family = 4, .ip = {127, 0, 0, 1}},
                                link = {.family = 4, .ip = {169, 254, 3, 4}},
                                home = {.family = 4, .ip = {192, 168, 1, 5}},
                                carrier = {.family = 4, .ip = {100, 64, 3, 4}},
                                outside = {.family = 4, .ip = {9, 9, 9, 9}},
                                six = {.family = 6, .ip = {0x20, 1}};
    const struct gossip_address near[3] = {loopback, link, six}, behind[3] = {loopback, home, six},
                                open[3] = {home, outside, six};
    assert_false(gossip_mapping_fits(near, 3));
    assert_true(gossip_mapping_fits(behind, 3));
    assert_true(gossip_mapping_fits(&carrier, 1));
    assert_false(gossip_mapping_fits(open, 3));
    assert_false(gossip_mapping_asks(&mapping, START, GOSSIP_REACH_PRIVATE, false, &request));
    mapped(START);
    assert_false(gossip_mapping_asks(&mapping, START + SECOND, GOSSIP_REACH_PRIVATE, false, &request));
    assert_int_equal(mapping.state, GOSSIP_MAPPING_IDLE); // in another network it means nothing
}

static void public_addresses_mean_one_host(void **state)
{
    (void)state;
    static const struct {
        uint8_t ip[4];
        bool is;
    } cases[] = {{{9, 255, 255, 255}, true}, {{10, 0, 0, 1}, false},        {{100, 63, 9, 9}, true},
                 {{100, 127, 9, 9}, false},  {{100, 128, 9, 9}, true},      {{172, 15, 0, 1}, true},
                 {{172, 31, 0, 1}, false},   {{172, 32, 0, 1}, true},       {{192, 168, 255, 1}, false},
                 {{192, 169, 0, 1}, true},   {{0, 0, 0, 0}, false},         {{127, 1, 1, 1}, false},
                 {{169, 254, 1, 1}, false},  {{239, 255, 255, 250}, false}, {{255, 255, 255, 255}, false},
                 {{198, 18, 0, 1}, false},   {{203, 0, 114, 1}, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gossip_address address = {.family = 4};
        memcpy(address.ip, cases[i].ip, 4);
        assert_int_equal(gossip_address_is_public(&address), cases[i].is);
        address.family = 6;
        assert_false(gossip_address_is_public(&address));
    }
}

// Then members call the node, and it still renews.
static void it_is_renewed_when_half_of_the_lease_is_over(void **state)
{
    (void)state;
    mapped(START);
    assert_int_equal(mapping.address.ip[0], 9);
    assert_false(asks(START + GOSSIP_MAPPING_LEASE_S / 2 * SECOND - 1, GOSSIP_REACH_REACHABLE));
    assert_true(asks(START + GOSSIP_MAPPING_LEASE_S / 2 * SECOND, GOSSIP_REACH_REACHABLE));
    answered(START + 700 * SECOND, GOSSIP_MAPPING_MAPPED, PORT, 100);
    assert_false(asks(START + 749 * SECOND, GOSSIP_REACH_REACHABLE));
    assert_true(asks(START + 750 * SECOND, GOSSIP_REACH_REACHABLE));
    assert_false(asks(START + 800 * SECOND, GOSSIP_REACH_REACHABLE)); // no answer until its end
    assert_int_equal(mapping.state, GOSSIP_MAPPING_IDLE);
}

static void a_router_without_leases_is_asked_again_too(void **state)
{
    (void)state;
    assert_true(asks(START, GOSSIP_REACH_PRIVATE));
    answered(START, GOSSIP_MAPPING_MAPPED, PORT, 0);
    assert_false(asks(START + GOSSIP_MAPPING_AGAIN_NS - 1, GOSSIP_REACH_REACHABLE));
    assert_true(asks(START + GOSSIP_MAPPING_AGAIN_NS, GOSSIP_REACH_REACHABLE));
    answered(START + GOSSIP_MAPPING_AGAIN_NS, GOSSIP_MAPPING_MAPPED, PORT, 1); // a moment only
    assert_false(asks(START + GOSSIP_MAPPING_AGAIN_NS + 2 * SECOND, GOSSIP_REACH_PRIVATE));
}

static void where_no_router_answers_it_is_asked_seldom(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        begin(NULL);
        assert_true(asks(START, GOSSIP_REACH_PRIVATE));
        answered(START + 5 * SECOND, i ? GOSSIP_MAPPING_DENIED : GOSSIP_MAPPING_NOBODY, 0, 0);
        assert_int_equal(mapping.state, i ? GOSSIP_MAPPING_REFUSED : GOSSIP_MAPPING_NO_ROUTER);
        assert_false(asks(START + 5 * SECOND + GOSSIP_MAPPING_AGAIN_NS - 1, GOSSIP_REACH_PRIVATE));
        assert_true(asks(START + 5 * SECOND + GOSSIP_MAPPING_AGAIN_NS, GOSSIP_REACH_PRIVATE));
    }
}

static void after_a_change_it_is_asked_again_soon(void **state)
{
    (void)state;
    mapped(START);
    gossip_mapping_moved(&mapping);
    assert_false(asks(START + GOSSIP_MAPPING_PAUSE_NS - 1, GOSSIP_REACH_REACHABLE)); // it may flap
    assert_true(asks(START + GOSSIP_MAPPING_PAUSE_NS, GOSSIP_REACH_REACHABLE));
    gossip_mapping_moved(&mapping); // while it waits: that answer is of the old network
    answered(START + GOSSIP_MAPPING_PAUSE_NS + SECOND, GOSSIP_MAPPING_NOBODY, 0, 0);
    assert_true(asks(START + 2 * GOSSIP_MAPPING_PAUSE_NS, GOSSIP_REACH_PRIVATE));
    answered(START + 2 * GOSSIP_MAPPING_PAUSE_NS, GOSSIP_MAPPING_NOBODY, 0, 0);
    assert_false(asks(START + 3 * GOSSIP_MAPPING_PAUSE_NS, GOSSIP_REACH_PRIVATE));
}

static uint16_t other_port(uint64_t seed)
{
    static const uint8_t any[4];
    gossip_mapping_begin(&mapping, START, any, PORT, seed);
    assert_true(asks(START, GOSSIP_REACH_PRIVATE));
    answered(START, GOSSIP_MAPPING_TAKEN, 0, 0);
    assert_true(asks(START, GOSSIP_REACH_PRIVATE)); // at once
    assert_int_equal(request.inside, PORT);
    return request.outside;
}

static void a_port_of_another_host_is_left_to_it(void **state)
{
    (void)state;
    assert_true(other_port(2) != PORT && other_port(2) >= 49152);
    assert_true(other_port(1) != other_port(2)); // they do not meet again
    assert_int_equal(other_port(2), other_port(2));
    const uint16_t port = request.outside;
    answered(START, GOSSIP_MAPPING_MAPPED, port, GOSSIP_MAPPING_LEASE_S);
    assert_true(asks(START + 600 * SECOND, GOSSIP_REACH_REACHABLE));
    assert_int_equal(request.outside, port); // the same again
}

static void it_gives_up_for_a_while_if_all_are_taken(void **state)
{
    (void)state;
    unsigned asked = 0;
    while (asks(START, GOSSIP_REACH_PRIVATE)) {
        answered(START, GOSSIP_MAPPING_TAKEN, 0, 0);
        asked++;
        assert_true(asked <= GOSSIP_MAPPING_PORTS);
    }
    assert_int_equal(asked, GOSSIP_MAPPING_PORTS);
    assert_int_equal(mapping.state, GOSSIP_MAPPING_REFUSED);
    assert_true(asks(START + GOSSIP_MAPPING_AGAIN_NS, GOSSIP_REACH_PRIVATE));
    assert_int_equal(request.outside, PORT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(only_who_needs_it_asks, begin),
        cmocka_unit_test_setup(a_host_with_a_public_address_or_without_any_does_not_ask, begin),
        cmocka_unit_test_setup(public_addresses_mean_one_host, begin),
        cmocka_unit_test_setup(it_is_renewed_when_half_of_the_lease_is_over, begin),
        cmocka_unit_test_setup(a_router_without_leases_is_asked_again_too, begin),
        cmocka_unit_test_setup(where_no_router_answers_it_is_asked_seldom, begin),
        cmocka_unit_test_setup(after_a_change_it_is_asked_again_soon, begin),
        cmocka_unit_test_setup(a_port_of_another_host_is_left_to_it, begin),
        cmocka_unit_test_setup(it_gives_up_for_a_while_if_all_are_taken, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
