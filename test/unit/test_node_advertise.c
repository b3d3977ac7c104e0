// node.advertise: what is told for a number and for a name, and what follows when the name has other
// addresses.
#include "node/cluster/private.h"
#include "node/queue/clock.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct node_config config;
static struct node_cluster cluster;
static struct base_reason why;
static char configured[100];

static void name(const char *text)
{
    snprintf(configured, sizeof configured, "%s", text);
    config.node.advertise = configured;
}

static enum base_error advertise(const char *text)
{
    memset(&cluster, 0, sizeof cluster);
    memset(&config, 0, sizeof config);
    name(text);
    cluster.options.links.config = &config;
    cluster.port = 7400;
    assert_int_equal(gossip_reach_create(&cluster.reach), BASE_OK);
    return node_cluster_advertise(&cluster, &why);
}

static int end(void **state)
{
    (void)state;
    node_resolver_destroy(cluster.named.resolver);
    gossip_reach_destroy(cluster.reach);
    memset(&cluster, 0, sizeof cluster);
    return 0;
}

static size_t told(struct gossip_address out[LIMIT_ADDRESSES])
{
    return gossip_reach_addresses(cluster.reach, node_clock_ns(), out);
}

// The next minute is over, and the name server has answered.
static void a_minute_later(void)
{
    struct pollfd answer = {.fd = node_resolver_descriptor(cluster.named.resolver), .events = POLLIN};
    const uint64_t later_ns = cluster.named.asked_ns + 61 * NODE_SECOND_NS;
    node_cluster_advertise_again(&cluster, later_ns - 2 * NODE_SECOND_NS);
    assert_int_equal(poll(&answer, 1, 0), 0); // not yet asked
    node_cluster_advertise_again(&cluster, later_ns);
    assert_int_equal(poll(&answer, 1, 60000), 1);
    node_cluster_advertise_again(&cluster, later_ns);
}

static void a_number_is_told_as_it_is(void **state)
{
    struct gossip_address out[LIMIT_ADDRESSES];
    (void)state;
    assert_int_equal(advertise("203.0.113.5:7411"), BASE_OK);
    assert_int_equal(told(out), 1);
    assert_int_equal(out[0].port, 7411);
    assert_int_equal(out[0].ip[0], 203);
    assert_null(cluster.named.resolver);
    node_cluster_advertise_again(&cluster, node_clock_ns() + 100 * NODE_SECOND_NS);
    assert_int_equal(told(out), 1);
}

static void an_address_of_one_link_is_refused(void **state)
{
    (void)state;
    assert_int_equal(advertise("[fe80::1]:7400"), BASE_EIO);
    assert_non_null(strstr(why.text, "holds on one link only"));
}

static void a_name_that_moves_is_followed(void **state)
{
    struct gossip_address first[LIMIT_ADDRESSES], out[LIMIT_ADDRESSES];
    const struct gossip_address old = {.family = 4, .port = 7400, .ip = {203, 0, 113, 5}};
    (void)state;
    assert_int_equal(advertise("localhost:7400"), BASE_OK);
    const size_t count = told(first);
    assert_true(count > 0);
    cluster.named.addresses[0] = old; // as if it had been this one
    cluster.named.count = 1;
    gossip_reach_give(cluster.reach, &old, 1);
    a_minute_later();
    assert_int_equal(told(out), count);
    assert_true(gossip_address_same(&out[0], &first[0]));
}

static void a_name_that_cannot_be_resolved_keeps_its_addresses(void **state)
{
    struct gossip_address first[LIMIT_ADDRESSES], out[LIMIT_ADDRESSES];
    (void)state;
    assert_int_equal(advertise("localhost:7400"), BASE_OK);
    const size_t count = told(first);
    name("does-not-exist.invalid:7400");
    a_minute_later();
    assert_true(cluster.named.failed);
    assert_int_equal(told(out), count);
    assert_true(gossip_address_same(&out[0], &first[0]));
    name("localhost:7400");
    a_minute_later();
    assert_false(cluster.named.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_number_is_told_as_it_is, end),
        cmocka_unit_test_teardown(an_address_of_one_link_is_refused, end),
        cmocka_unit_test_teardown(a_name_that_moves_is_followed, end),
        cmocka_unit_test_teardown(a_name_that_cannot_be_resolved_keeps_its_addresses, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
