// Two datagram sockets on loopback: bytes, addresses in their plain family, and closed ports.
#include "base/limits.h"
#include "node/net/listener.h"
#include "node/net/udp.h"
#include "node/peers/endpoints.h"
#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct end {
    struct node_udp *udp;
    struct node_address own, from, refused;
    size_t datagrams, bytes, unreachables;
    uint8_t first;
};

static struct event_base *base;

static void on_datagram(void *owner, const struct node_address *from, const uint8_t *bytes, size_t count)
{
    struct end *end = owner;
    end->from = *from;
    end->datagrams++;
    end->bytes = count;
    end->first = count > 0 ? bytes[0] : 0;
}

static void on_unreachable(void *owner, const struct node_address *to)
{
    struct end *end = owner;
    end->refused = *to;
    end->unreachables++;
}

static const struct node_udp_handler handler = {on_datagram, on_unreachable};

static bool open_end(struct end *end, const char *listen)
{
    struct base_reason why;
    int listener, socket;
    memset(end, 0, sizeof *end);
    if (node_listener_bind("test", listen, &listener, &why))
        return false;
    assert_int_equal(node_udp_bind(listener, &socket, &why), BASE_OK);
    end->own.bytes = sizeof end->own.storage;
    assert_int_equal(getsockname(socket, (struct sockaddr *)&end->own.storage, &end->own.bytes), 0);
    assert_int_equal(node_listener_port(listener), node_listener_port(socket));
    assert_int_equal(node_udp_bind(listener, &socket, &why), BASE_ESTATE); // already taken by this end
    close(listener);
    struct node_udp_options options = {.base = base, .socket = socket, .handler = &handler, .owner = end};
    assert_int_equal(node_udp_create(&options, &end->udp), BASE_OK);
    return true;
}

static void run_until(const size_t *value, size_t least)
{
    struct timeval wait = {.tv_sec = 30};
    event_base_loopexit(base, &wait); // the bound is reached only by a failure
    while (*value < least && !event_base_got_exit(base))
        event_base_loop(base, EVLOOP_ONCE);
    assert_true(*value >= least);
}

static int make_base(void **state)
{
    (void)state;
    base = event_base_new();
    return base ? 0 : -1;
}

static int free_base(void **state)
{
    (void)state;
    event_base_free(base);
    return 0;
}

static void bytes_go_there_and_back(void **state)
{
    struct end a, b;
    uint8_t bytes[LIMIT_DATAGRAM_BYTES] = {42};
    (void)state;
    assert_true(open_end(&a, "127.0.0.1:0"));
    assert_true(open_end(&b, "127.0.0.1:0"));
    assert_true(node_udp_send(a.udp, &b.own, bytes, sizeof bytes));
    run_until(&b.datagrams, 1);
    assert_int_equal(b.bytes, sizeof bytes);
    assert_int_equal(b.first, 42);
    assert_true(node_address_equal(&b.from, &a.own));
    assert_true(node_udp_send(b.udp, &b.from, bytes, 1));
    run_until(&a.datagrams, 1);
    struct node_udp_counters counters = node_udp_counters(a.udp);
    assert_int_equal(counters.sent, 1);
    assert_int_equal(counters.bytes_sent, sizeof bytes);
    assert_int_equal(counters.bytes_received, 1);
    node_udp_destroy(a.udp);
    node_udp_destroy(b.udp);
}

static void a_long_datagram_is_recognised_as_long(void **state)
{
    struct end a, b;
    static uint8_t bytes[3 * LIMIT_DATAGRAM_BYTES];
    (void)state;
    assert_true(open_end(&a, "127.0.0.1:0"));
    assert_true(open_end(&b, "127.0.0.1:0"));
    assert_true(node_udp_send(a.udp, &b.own, bytes, sizeof bytes));
    run_until(&b.datagrams, 1);
    assert_int_equal(b.bytes, LIMIT_DATAGRAM_BYTES + 1);
    node_udp_destroy(a.udp);
    node_udp_destroy(b.udp);
}

static void a_closed_port_is_reported(void **state)
{
    struct end a, b, c;
    uint8_t byte = 1;
    (void)state;
    assert_true(open_end(&a, "127.0.0.1:0"));
    assert_true(open_end(&b, "127.0.0.1:0"));
    assert_true(open_end(&c, "127.0.0.1:0"));
    node_udp_destroy(b.udp);
    assert_true(node_udp_send(a.udp, &b.own, &byte, 1));
    assert_true(node_udp_send(a.udp, &c.own, &byte, 1)); // the pending error stops nothing else
    run_until(&a.unreachables, 1);
    run_until(&c.datagrams, 1);
    assert_true(node_address_equal(&a.refused, &b.own));
    node_udp_destroy(a.udp);
    node_udp_destroy(c.udp);
}

static void a_flood_is_drained_in_turns(void **state)
{
    struct end a, b;
    uint8_t byte = 1;
    (void)state;
    assert_true(open_end(&a, "127.0.0.1:0"));
    assert_true(open_end(&b, "127.0.0.1:0"));
    for (int i = 0; i < 257; i++)
        assert_true(node_udp_send(a.udp, &b.own, &byte, 1));
    assert_false(node_udp_drain(b.udp));
    assert_true(node_udp_drain(b.udp));
    assert_int_equal(b.datagrams, 257);
    node_udp_destroy(a.udp);
    node_udp_destroy(b.udp);
}

static void one_socket_serves_both_families(void **state)
{
    struct end a, b;
    uint8_t byte = 1;
    (void)state;
    if (!open_end(&a, "[::]:0")) {
        print_message("this machine has no IPv6\n");
        skip();
    }
    assert_true(open_end(&b, "127.0.0.1:0"));
    assert_true(node_udp_reaches(a.udp, &b.own));
    assert_false(node_udp_reaches(b.udp, &a.own));
    assert_false(node_udp_send(b.udp, &a.own, &byte, 1));
    assert_true(node_udp_send(a.udp, &b.own, &byte, 1));
    run_until(&b.datagrams, 1);
    assert_int_equal(b.from.storage.ss_family, AF_INET);
    assert_true(node_udp_send(b.udp, &b.from, &byte, 1));
    run_until(&a.datagrams, 1);
    assert_true(node_address_equal(&a.from, &b.own)); // not its mapped form
    node_udp_destroy(b.udp);
    assert_true(node_udp_send(a.udp, &b.own, &byte, 1));
    run_until(&a.unreachables, 1);
    assert_true(node_address_equal(&a.refused, &b.own));
    node_udp_destroy(a.udp);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, make_base, free_base)
    const struct CMUnitTest tests[] = {
        CASE(bytes_go_there_and_back),         CASE(a_long_datagram_is_recognised_as_long),
        CASE(a_closed_port_is_reported),       CASE(a_flood_is_drained_in_turns),
        CASE(one_socket_serves_both_families),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
