// Whether what is sent on a connection arrives: the rule, and what the kernel says about a real one.
#include "node/net/delivery.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define MS     1000000ull
#define SECOND 1000000000ull
#define TICK   (250 * MS)

static const struct node_delivery_sample waiting = {.waits = true, .acked = 5000, .round_ns = 20 * MS};

// Looks until it is stuck; returns how long that took, or `at_most_ns`.
static uint64_t stuck_after(struct node_delivery *delivery, uint64_t *now_ns,
                            const struct node_delivery_sample *sample, uint64_t at_most_ns)
{
    const uint64_t begin_ns = *now_ns;
    while (!node_delivery_look(delivery, *now_ns, sample) && *now_ns - begin_ns < at_most_ns)
        *now_ns += TICK;
    return *now_ns - begin_ns;
}

static void nothing_acknowledged_for_two_seconds_is_stuck(void **state)
{
    struct node_delivery delivery = {0};
    uint64_t now_ns = 100 * SECOND;
    (void)state;
    assert_int_equal(stuck_after(&delivery, &now_ns, &waiting, 9 * SECOND), 2 * SECOND);
    assert_true(node_delivery_look(&delivery, now_ns + TICK, &waiting)); // and stays so
    struct node_delivery_sample moved = waiting;
    moved.acked++;
    now_ns += 2 * TICK;
    assert_int_equal(stuck_after(&delivery, &now_ns, &moved, 9 * SECOND), 2 * SECOND);
}

static void a_slow_link_is_not_stuck(void **state)
{
    struct node_delivery delivery = {0};
    struct node_delivery_sample deep = waiting;
    uint64_t now_ns = 100 * SECOND;
    (void)state;
    deep.round_ns = 1500 * MS; // of a deep queue
    assert_int_equal(stuck_after(&delivery, &now_ns, &deep, 9 * SECOND), 6 * SECOND);
    delivery = (struct node_delivery){0};
    for (int i = 0; i < 60; i++, now_ns += TICK) { // 1 kB/s
        deep.acked += i % 5 == 0 ? 1200 : 0;
        assert_false(node_delivery_look(&delivery, now_ns, &deep));
    }
}

static void a_link_without_unanswered_bytes_is_not_stuck(void **state)
{
    struct node_delivery delivery = {0};
    struct node_delivery_sample idle = waiting;
    uint64_t now_ns = 100 * SECOND;
    (void)state;
    idle.waits = false;
    assert_int_equal(stuck_after(&delivery, &now_ns, &idle, 9 * SECOND), 9 * SECOND);
    assert_int_equal(stuck_after(&delivery, &now_ns, &waiting, 9 * SECOND),
                     2 * SECOND); // from the sending on
}

static void a_suspended_process_calls_none_stuck(void **state)
{
    struct node_delivery delivery = {0};
    uint64_t now_ns = 100 * SECOND;
    (void)state;
    assert_false(node_delivery_look(&delivery, now_ns, &waiting));
    now_ns += 60 * SECOND;
    assert_int_equal(stuck_after(&delivery, &now_ns, &waiting, 9 * SECOND), 2 * SECOND);
    assert_false(node_delivery_look(&delivery, now_ns - SECOND, &waiting)); // time of another clock
}

// Bytes that the process at the other end does not read are acknowledged all the same.
static void the_kernel_tells_what_was_acknowledged(void **state)
{
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof there;
    struct node_delivery_sample before, after;
    int pair[2], listener = socket(AF_INET, SOCK_STREAM, 0), call = socket(AF_INET, SOCK_STREAM, 0);
    (void)state;
    assert_int_equal(bind(listener, (struct sockaddr *)&there, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&there, &size), 0);
    assert_int_equal(connect(call, (struct sockaddr *)&there, size), 0);
    assert_true(node_delivery_sample(call, &before));
    assert_int_equal(send(call, "hello", 5, 0), 5);
    do
        assert_true(node_delivery_sample(call, &after));
    while (after.waits);
    assert_int_equal(after.acked - before.acked, 5);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_false(node_delivery_sample(pair[0], &after));
    close(pair[0]);
    close(pair[1]);
    close(call);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_acknowledged_for_two_seconds_is_stuck),
        cmocka_unit_test(a_slow_link_is_not_stuck),
        cmocka_unit_test(a_link_without_unanswered_bytes_is_not_stuck),
        cmocka_unit_test(a_suspended_process_calls_none_stuck),
        cmocka_unit_test(the_kernel_tells_what_was_acknowledged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
