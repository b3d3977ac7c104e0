// Where a port is bound, and for which address a connection is counted.
#include "node/net/interfaces.h"
#include "node/net/listener.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct node_address address_of(const char *text)
{
    struct node_address a = {0};
    if (strchr(text, ':')) {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a.storage;
        a.bytes = sizeof *v6;
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(7400);
        assert_int_equal(inet_pton(AF_INET6, text, &v6->sin6_addr), 1);
    } else {
        struct sockaddr_in *v4 = (struct sockaddr_in *)&a.storage;
        a.bytes = sizeof *v4;
        v4->sin_family = AF_INET;
        v4->sin_port = htons(7400);
        assert_int_equal(inet_pton(AF_INET, text, &v4->sin_addr), 1);
    }
    return a;
}

static void counted(const char *text, const char *expected)
{
    const struct node_address a = address_of(text);
    char host[NODE_ADDRESS_TEXT];
    node_listener_host(&a, host);
    assert_string_equal(host, expected);
}

static void an_ipv6_network_counts_as_one_address(void **state)
{
    (void)state;
    counted("192.0.2.7", "192.0.2.7");
    counted("::ffff:192.0.2.7", "[::ffff:192.0.2.7]");
    counted("2001:db8:1:2:3:4:5:6", "[2001:db8:1:2::]");
    counted("2001:db8:1:2:ffff::1", "[2001:db8:1:2::]");
    counted("2001:db8:1:3::1", "[2001:db8:1:3::]");
}

static void bound(const char *text, bool loopback)
{
    struct base_reason why;
    int socket = -1;
    if (node_listener_bind("node.listen", text, &socket, &why)) {
        assert_true(text[0] == '['); // a machine without IPv6
        printf("%s: %s\n", text, why.text);
        return;
    }
    assert_int_equal(node_listener_is_loopback(socket), loopback);
    assert_true(node_listener_port(socket) > 0);
    close(socket);
}

static void loopback_is_decided_by_the_address_not_by_the_name(void **state)
{
    (void)state;
    bound("127.0.0.1:0", true);
    bound("127.1.2.3:0", true);
    bound("0.0.0.0:0", false);
    bound("[::1]:0", true);
    bound("[::ffff:127.0.0.1]:0", true);
    bound("[::]:0", false);
}

static void a_failed_bind_says_what_to_do(void **state)
{
    struct base_reason why;
    int first = -1, second = -1;
    char text[32];
    (void)state;
    assert_int_equal(node_listener_bind("node.listen", "127.0.0.1:0", &first, &why), BASE_OK);
    snprintf(text, sizeof text, "127.0.0.1:%u", (unsigned)node_listener_port(first));
    assert_int_equal(node_listener_bind("node.http", text, &second, &why), BASE_EIO);
    assert_non_null(strstr(why.text, "node.http: 127.0.0.1:"));
    assert_non_null(strstr(why.text, "is in use by another process"));
    assert_int_equal(node_listener_bind("node.listen", "192.0.2.1:0", &second, &why), BASE_EIO);
    assert_non_null(strstr(why.text, "is not an address of this machine"));
    assert_int_equal(node_listener_bind("node.listen", "does-not-exist.invalid:0", &second, &why), BASE_EIO);
    assert_non_null(strstr(why.text, "cannot be resolved"));
    assert_int_equal(second, -1);
    close(first);
}

static void is_neighbour(const char *text, bool expected)
{
    const struct node_address a = address_of(text);
    assert_int_equal(node_address_is_neighbour(&a), expected);
}

static void addresses_behind_a_router_are_no_neighbours(void **state)
{
    (void)state;
    is_neighbour("127.0.0.1", true);
    is_neighbour("127.8.9.10", true);
    is_neighbour("::1", true);
    is_neighbour("240.0.0.1", false); // no host has one of these
    is_neighbour("2001:db8::1", false);
}

// The largest segment that each end of a call may send.
static void segments(enum node_segments kind, int most[2])
{
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct node_address there = address_of("127.0.0.1");
    ((struct sockaddr_in *)&there.storage)->sin_port = 0;
    assert_int_equal(bind(listener, (struct sockaddr *)&there.storage, there.bytes), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_true(node_address_bound(listener, &there));
    const int call = node_listener_call(-1, &there, kind), accepted = accept(listener, NULL, NULL);
    const int ends[] = {call, accepted};
    for (size_t i = 0; i < 2; i++) {
        socklen_t size = sizeof most[i];
        assert_true(ends[i] >= 0);
        assert_int_equal(getsockopt(ends[i], IPPROTO_TCP, TCP_MAXSEG, &most[i], &size), 0);
        close(ends[i]);
    }
    close(listener);
}

static void a_small_call_is_small_in_both_directions(void **state)
{
    int large[2], small[2];
    (void)state;
    segments(NODE_SEGMENTS_SAFE, large);
    segments(NODE_SEGMENTS_SMALL, small);
    for (size_t i = 0; i < 2; i++) {
        assert_true(large[i] > 4000); // this host's own network may have jumbo frames
        assert_in_range(small[i], 1000, NODE_SMALL_SEGMENT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ipv6_network_counts_as_one_address),
        cmocka_unit_test(loopback_is_decided_by_the_address_not_by_the_name),
        cmocka_unit_test(a_failed_bind_says_what_to_do),
        cmocka_unit_test(addresses_behind_a_router_are_no_neighbours),
        cmocka_unit_test(a_small_call_is_small_in_both_directions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
