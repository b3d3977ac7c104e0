// Two links over a socket pair under one event base: handshake, messages, pause, orderly end, strangers, slow
// readers.
#include "base/limits.h"
#include "node/net/connection.h"
#include "node/net/stream.h"
#include <errno.h>
#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define MESSAGE_LIMIT (1u << 20)
#define SECOND_NS     1000000000ull

struct end { // what one owner saw
    struct node_link *link;
    struct gossip_identity identity;
    struct node_counters counters;
    struct gossip_id peer;
    uint16_t protocol;
    bool established, closed;
    enum base_error code;
    size_t messages, bytes;
    uint8_t first;  // of the latest message
    size_t came[8]; // sizes of the first messages, in order
};

struct pair {
    struct event_base *base;
    struct node_streams *streams;
    struct end a, b;
    int sockets[2];
    size_t message_limit;
    uint8_t length[2];
    size_t dripped;
};

static void on_established(void *owner, const struct gossip_session_event *event)
{
    struct end *end = owner;
    assert_false(end->established);
    end->established = true;
    end->peer = event->peer;
    end->protocol = event->protocol;
}

static void on_message(void *owner, uint8_t *bytes, size_t count)
{
    struct end *end = owner;
    if (end->messages < sizeof end->came / sizeof *end->came)
        end->came[end->messages] = count;
    end->messages++;
    end->bytes += count;
    end->first = bytes[0];
    free(bytes);
}

static void on_closed(void *owner, enum base_error code, const char *why)
{
    struct end *end = owner;
    assert_false(end->closed);
    assert_true(why[0] != 0);
    end->closed = true;
    end->code = code;
}

static const struct node_link_handler handler = {on_established, on_message, on_closed, NULL};

static void open_end(struct pair *p, struct end *end, int socket, bool initiator, uint8_t secret,
                     uint64_t handshake_ns)
{
    const struct gossip_secrets secrets = {.psk = {{secret}}, .count = 1};
    struct node_link_options options = {.base = p->base,
                                        .streams = p->streams,
                                        .socket = socket,
                                        .initiator = initiator,
                                        .identity = &end->identity,
                                        .secrets = &secrets,
                                        .cluster = "test",
                                        .message_limit = p->message_limit,
                                        .handshake_ns = handshake_ns,
                                        .counters = &end->counters,
                                        .handler = &handler,
                                        .owner = end};
    assert_int_equal(node_link_create(&options, &end->link), BASE_OK);
}

static int make_pair(void **state)
{
    static const uint8_t seeds[2][32] = {{1}, {2}};
    struct pair *p = calloc(1, sizeof *p);
    if (!p || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->sockets) != 0)
        return -1;
    p->message_limit = MESSAGE_LIMIT;
    p->base = event_base_new();
    if (!p->base || node_streams_create(p->base, &p->streams))
        return -1;
    gossip_identity_from_seed(seeds[0], &p->a.identity);
    gossip_identity_from_seed(seeds[1], &p->b.identity);
    *state = p;
    return 0;
}

static int free_pair(void **state)
{
    struct pair *p = *state;
    node_link_destroy(p->a.link);
    node_link_destroy(p->b.link);
    node_streams_destroy(p->streams);
    event_base_free(p->base);
    free(p);
    return 0;
}

static void timed_out(evutil_socket_t socket, short what, void *argument)
{
    (void)socket;
    (void)what;
    *(bool *)argument = true;
}

// Runs the base until the flag is set; the bound is reached only by a failure.
static void run_until(struct pair *p, const bool *flag)
{
    bool late = false;
    struct event *timer = event_new(p->base, -1, 0, timed_out, &late);
    struct timeval wait = {.tv_sec = 20};
    event_add(timer, &wait);
    while (!*flag && !late)
        event_base_loop(p->base, EVLOOP_ONCE);
    event_free(timer);
    assert_true(*flag);
}

static void run_until_messages(struct pair *p, const struct end *end, size_t count)
{
    for (int i = 0; i < 100000 && end->messages < count && !end->closed; i++)
        event_base_loop(p->base, EVLOOP_ONCE);
    assert_int_equal(end->messages, count);
}

static void shake_hands(struct pair *p)
{
    open_end(p, &p->a, p->sockets[0], true, 7, 20 * SECOND_NS);
    open_end(p, &p->b, p->sockets[1], false, 7, 20 * SECOND_NS);
    run_until(p, &p->a.established);
    run_until(p, &p->b.established);
    assert_int_equal(p->a.protocol, GOSSIP_PROTOCOL);
    assert_int_equal(p->b.protocol, GOSSIP_PROTOCOL);
}

static void a_link_proves_both_ends_and_carries_messages(void **state)
{
    struct pair *p = *state;
    uint8_t *large = calloc(1, MESSAGE_LIMIT);
    assert_non_null(large);
    shake_hands(p);
    assert_memory_equal(&p->a.peer, &p->b.identity.id, sizeof p->a.peer);
    assert_memory_equal(&p->b.peer, &p->a.identity.id, sizeof p->b.peer);
    assert_int_equal(node_link_send(p->a.link, "x", 1), BASE_OK);
    large[0] = 9;
    assert_int_equal(node_link_send(p->a.link, large, MESSAGE_LIMIT), BASE_OK);
    assert_int_equal(node_link_send(p->b.link, "y", 1), BASE_OK);
    run_until_messages(p, &p->b, 2);
    run_until_messages(p, &p->a, 1);
    assert_int_equal(p->b.bytes, MESSAGE_LIMIT + 1);
    assert_int_equal(p->b.first, 9);
    struct node_link_traffic t = node_link_traffic(p->a.link);
    assert_int_equal(t.sent, atomic_load(&p->a.counters.bytes_sent));
    assert_int_equal(t.sent, node_link_traffic(p->b.link).received);
    assert_true(t.sent > MESSAGE_LIMIT);
    free(large);
}

// As after a simultaneous open: both ends have called.
static void two_calls_over_one_stream_are_one_link(void **state)
{
    struct pair *p = *state;
    open_end(p, &p->a, p->sockets[0], true, 7, 20 * SECOND_NS);
    open_end(p, &p->b, p->sockets[1], true, 7, 20 * SECOND_NS);
    run_until(p, &p->a.established);
    run_until(p, &p->b.established);
    assert_memory_equal(&p->a.peer, &p->b.identity.id, sizeof p->a.peer);
    assert_memory_equal(&p->b.peer, &p->a.identity.id, sizeof p->b.peer);
    assert_int_equal(node_link_send(p->a.link, "x", 1), BASE_OK);
    assert_int_equal(node_link_send(p->b.link, "y", 1), BASE_OK);
    run_until_messages(p, &p->b, 1);
    run_until_messages(p, &p->a, 1);
    assert_false(p->a.closed || p->b.closed);
}

static void an_orderly_end_loses_no_message(void **state)
{
    struct pair *p = *state;
    static uint8_t block[200000];
    shake_hands(p);
    for (int i = 0; i < 8; i++)
        assert_int_equal(node_link_send(p->a.link, block, sizeof block), BASE_OK);
    node_link_finish(p->a.link);
    assert_int_equal(node_link_send(p->a.link, block, 1), BASE_ESTATE);
    run_until(p, &p->b.closed);
    assert_int_equal(p->b.messages, 8);
    node_link_destroy(p->b.link); // closes: the other end's finish is complete
    p->b.link = NULL;
    run_until(p, &p->a.closed);
    assert_int_equal(p->a.code, BASE_OK);
}

static void a_paused_link_keeps_its_messages(void **state)
{
    struct pair *p = *state;
    shake_hands(p);
    node_link_pause(p->b.link, true);
    for (int i = 0; i < 5; i++)
        assert_int_equal(node_link_send(p->a.link, "z", 1), BASE_OK);
    for (int i = 0; i < 20; i++)
        event_base_loop(p->base, EVLOOP_NONBLOCK);
    assert_int_equal(p->b.messages, 0);
    node_link_pause(p->b.link, false);
    run_until_messages(p, &p->b, 5);
}

static void a_slow_reader_is_closed(void **state)
{
    struct pair *p = *state;
    uint8_t *large = calloc(1, MESSAGE_LIMIT);
    enum base_error code = BASE_OK;
    assert_non_null(large);
    shake_hands(p);
    node_link_pause(p->b.link, true);
    int sent = 0;
    for (; sent < 100 && !code; sent++)
        code = node_link_send(p->a.link, large, MESSAGE_LIMIT);
    assert_int_equal(code, BASE_ELIMIT);
    assert_in_range(sent, 3, 8);
    assert_false(p->a.closed); // reported by the loop, not from inside the call
    run_until(p, &p->a.closed);
    assert_int_equal(p->a.code, BASE_ELIMIT);
    free(large);
}

// Messages that waited for a call are sent at once, however small the model is. (node_packets_flush)
static void a_burst_of_small_messages_fits_beside_small_models(void **state)
{
    struct pair *p = *state;
    static const uint8_t packet[LIMIT_PROMPT_BYTES];
    enum { PACKETS = 64 };
    p->message_limit = sizeof packet;
    shake_hands(p);
    node_link_pause(p->b.link, true);
    for (int i = 0; i < PACKETS; i++)
        assert_int_equal(node_link_send(p->a.link, packet, sizeof packet), BASE_OK);
    node_link_pause(p->b.link, false);
    run_until_messages(p, &p->b, PACKETS);
}

static void give(struct end *end, size_t bytes)
{
    uint8_t *message = calloc(1, bytes);
    assert_non_null(message);
    assert_int_equal(node_link_give(end->link, message, bytes), BASE_OK);
}

// A sent message goes between the pieces of earlier bulk messages; bulk messages keep their order.
static void a_small_message_overtakes_a_large_one(void **state)
{
    struct pair *p = *state;
    static const uint8_t small[100];
    shake_hands(p);
    node_link_pause(p->b.link, true); // less than one large message fits into the socket
    give(&p->a, MESSAGE_LIMIT);
    give(&p->a, MESSAGE_LIMIT - 1);
    give(&p->a, 3);
    assert_int_equal(node_link_send(p->a.link, small, sizeof small), BASE_OK);
    node_link_pause(p->b.link, false);
    run_until_messages(p, &p->b, 4);
    assert_int_equal(p->b.came[0], sizeof small);
    assert_int_equal(p->b.came[1], MESSAGE_LIMIT);
    assert_int_equal(p->b.came[2], MESSAGE_LIMIT - 1);
    assert_int_equal(p->b.came[3], 3);
}

// Sealing, opening and the socket do not need the loop, which does not run here. The bound is reached only by
// a failure.
static void a_large_message_moves_without_the_loop(void **state)
{
    struct pair *p = *state;
    const struct timespec moment = {.tv_nsec = 1000000};
    shake_hands(p);
    give(&p->a, MESSAGE_LIMIT);
    for (int i = 0; i < 20000 && node_link_traffic(p->b.link).received < MESSAGE_LIMIT; i++)
        nanosleep(&moment, NULL);
    assert_true(node_link_traffic(p->b.link).received > MESSAGE_LIMIT);
    assert_int_equal(p->b.messages, 0); // delivered only by the loop
    run_until_messages(p, &p->b, 1);
}

// If a loop does not take its messages, the sender waits, and the memory of this node does not grow.
static void messages_that_the_loop_does_not_take_wait_in_the_network(void **state)
{
    struct pair *p = *state;
    enum { ROUNDS = 40 };
    shake_hands(p);
    size_t given = 0, most = 0;
    while (given < ROUNDS) {
        for (; given < ROUNDS && given - p->b.messages < 3; given++)
            give(&p->a, MESSAGE_LIMIT);
        event_base_loop(p->base, EVLOOP_NONBLOCK);
        const size_t ahead = node_link_traffic(p->b.link).received - p->b.bytes;
        most = ahead > most ? ahead : most;
    }
    run_until_messages(p, &p->b, ROUNDS);
    assert_true(most < 4 * MESSAGE_LIMIT);
}

static void a_link_may_be_destroyed_in_the_middle_of_a_message(void **state)
{
    struct pair *p = *state;
    shake_hands(p);
    give(&p->a, MESSAGE_LIMIT);
    give(&p->a, MESSAGE_LIMIT);
    node_link_destroy(p->b.link);
    p->b.link = NULL;
    run_until(p, &p->a.closed);
    assert_int_equal(p->a.code, BASE_EIO);
}

static void stream_both_ways(struct pair *p)
{
    shake_hands(p);
    for (int i = 0; i < 3; i++) {
        give(&p->a, MESSAGE_LIMIT);
        give(&p->b, MESSAGE_LIMIT);
    }
}

// However much the other end sends meanwhile.
static void the_last_message_arrives_when_a_link_finishes(void **state)
{
    struct pair *p = *state;
    stream_both_ways(p);
    assert_int_equal(node_link_send(p->a.link, "bye", 3), BASE_OK);
    node_link_finish(p->a.link);
    run_until(p, &p->b.closed);
    assert_int_equal(p->b.messages, 4);
    assert_int_equal(p->b.bytes, 3 * MESSAGE_LIMIT + 3);
    node_link_destroy(p->b.link);
    p->b.link = NULL;
    run_until(p, &p->a.closed);
}

// Also if the link is destroyed at once, with unread bytes: the other end's next write fails, and it goes on
// reading.
static void the_last_message_is_read_after_a_reset(void **state)
{
    struct pair *p = *state;
    const struct timespec moment = {.tv_nsec = 1000000};
    shake_hands(p);
    const uint64_t before = node_link_traffic(p->a.link).sent;
    assert_int_equal(node_link_send(p->a.link, "bye", 3), BASE_OK);
    for (int i = 0; i < 20000 && node_link_traffic(p->a.link).sent == before; i++)
        nanosleep(&moment, NULL);
    for (int i = 0; i < 3; i++)
        give(&p->b, MESSAGE_LIMIT);
    node_link_destroy(p->a.link);
    p->a.link = NULL;
    run_until(p, &p->b.closed);
    assert_int_equal(p->b.messages, 1);
    assert_int_equal(p->b.code, BASE_EIO);
}

static void a_peer_with_another_secret_gets_no_byte(void **state)
{
    struct pair *p = *state;
    open_end(p, &p->a, p->sockets[0], true, 7, 20 * SECOND_NS);
    open_end(p, &p->b, p->sockets[1], false, 8, 20 * SECOND_NS);
    run_until(p, &p->b.closed);
    assert_int_equal(p->b.code, BASE_EAUTH);
    assert_int_equal(node_link_traffic(p->b.link).sent, 0);
    run_until(p, &p->a.closed);
    assert_int_equal(p->a.code, BASE_EAUTH);
    assert_false(p->a.established || p->b.established);
}

static void a_peer_that_sends_garbage_gets_no_byte(void **state)
{
    struct pair *p = *state;
    uint8_t garbage[4096];
    char answer[16];
    memset(garbage, 0xa5, sizeof garbage);
    open_end(p, &p->b, p->sockets[1], false, 7, 20 * SECOND_NS);
    assert_int_equal(send(p->sockets[0], garbage, sizeof garbage, MSG_NOSIGNAL), sizeof garbage);
    run_until(p, &p->b.closed);
    assert_true(recv(p->sockets[0], answer, sizeof answer, 0) <= 0);
    close(p->sockets[0]);
}

static void a_silent_peer_is_closed_after_the_handshake_time(void **state)
{
    struct pair *p = *state;
    open_end(p, &p->b, p->sockets[1], false, 7, SECOND_NS / 100);
    run_until(p, &p->b.closed);
    assert_int_equal(p->b.code, BASE_EAUTH);
    assert_int_equal(node_link_send(p->b.link, "x", 1), BASE_ESTATE);
    close(p->sockets[0]);
}

static void drip(evutil_socket_t socket, short what, void *argument)
{
    (void)socket;
    (void)what;
    struct pair *p = argument;
    bool prefix = p->dripped++ < 2; // a length that a first message has, then bytes of it
    (void)!send(p->sockets[0], prefix ? &p->length[p->dripped - 1] : (const uint8_t *)"", 1, MSG_NOSIGNAL);
}

// An occasional byte does not extend the time of the handshake.
static void a_peer_that_drips_bytes_is_closed_after_the_handshake_time(void **state)
{
    struct pair *p = *state;
    struct timeval often = {.tv_usec = 1000};
    struct event *dripping = event_new(p->base, -1, EV_PERSIST, drip, p);
    char answer[16];
    assert_non_null(dripping);
    p->length[0] = 52; // little-endian: e, a range of protocols and a tag
    event_add(dripping, &often);
    open_end(p, &p->b, p->sockets[1], false, 7, SECOND_NS / 50);
    run_until(p, &p->b.closed);
    assert_int_equal(p->b.code, BASE_EAUTH);
    assert_true(p->dripped > 0);
    assert_true(recv(p->sockets[0], answer, sizeof answer, 0) <= 0);
    event_free(dripping);
    close(p->sockets[0]);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, make_pair, free_pair)
    const struct CMUnitTest tests[] = {
        CASE(a_link_proves_both_ends_and_carries_messages),
        CASE(two_calls_over_one_stream_are_one_link),
        CASE(an_orderly_end_loses_no_message),
        CASE(a_paused_link_keeps_its_messages),
        CASE(a_slow_reader_is_closed),
        CASE(a_burst_of_small_messages_fits_beside_small_models),
        CASE(a_peer_with_another_secret_gets_no_byte),
        CASE(a_peer_that_sends_garbage_gets_no_byte),
        CASE(a_silent_peer_is_closed_after_the_handshake_time),
        CASE(a_peer_that_drips_bytes_is_closed_after_the_handshake_time),
        CASE(a_small_message_overtakes_a_large_one),
        CASE(a_large_message_moves_without_the_loop),
        CASE(messages_that_the_loop_does_not_take_wait_in_the_network),
        CASE(a_link_may_be_destroyed_in_the_middle_of_a_message),
        CASE(the_last_message_arrives_when_a_link_finishes),
        CASE(the_last_message_is_read_after_a_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
