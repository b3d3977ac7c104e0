// A stream and a peer that breaks the rules, which the test plays on the other end of the socket.
#include "gossip/session/records_private.h"
#include "node/net/stream_private.h"
#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define MESSAGE_LIMIT (1u << 20)

struct scene {
    struct event_base *base;
    struct node_streams *streams;
    struct node_stream *stream;
    struct node_counters counters;
    struct gossip_sealer *sealer; // of the peer
    int peer;
};

static void on_rx_ready(void *owner)
{
    (void)owner;
}

static int make_scene(void **state)
{
    const struct gossip_noise_cipher there = {.key = {1}}, here = {.key = {2}};
    struct scene *s = calloc(1, sizeof *s);
    int sockets[2];
    if (!s || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets) != 0)
        return -1;
    s->base = event_base_new();
    if (!s->base || node_streams_create(s->base, &s->streams))
        return -1;
    s->peer = sockets[0];
    s->sealer = gossip_sealer_create(&there);
    struct node_stream_options options = {.socket = sockets[1],
                                          .sealer = gossip_sealer_create(&here),
                                          .opener = gossip_opener_create(&there, MESSAGE_LIMIT),
                                          .out_limit = 4u * MESSAGE_LIMIT,
                                          .ahead = 1u << 18,
                                          .counters = &s->counters,
                                          .rx_ready = on_rx_ready,
                                          .owner = s};
    if (node_stream_open(s->streams, &options, &s->stream))
        return -1;
    *state = s;
    return 0;
}

static int free_scene(void **state)
{
    struct scene *s = *state;
    node_stream_release(s->stream, s->stream->socket);
    node_streams_destroy(s->streams);
    gossip_sealer_destroy(s->sealer);
    event_base_free(s->base);
    close(s->peer);
    free(s);
    return 0;
}

static bool held(struct scene *s)
{
    pthread_mutex_lock(&s->streams->lock);
    const bool is = s->stream->shared.held;
    pthread_mutex_unlock(&s->streams->lock);
    return is;
}

// A message of one byte costs this node far more than its byte: the stream still stops reading.
static void a_flood_of_small_messages_stops_the_reading(void **state)
{
    struct scene *s = *state;
    enum { RECORD = 1 + GOSSIP_RECORD_OVERHEAD, BATCH = 64, BATCHES = 4096 };
    const struct gossip_session_part part = {"x", 1};
    uint8_t batch[BATCH * RECORD];
    for (int i = 0; i < BATCHES && !held(s); i++) {
        for (size_t k = 0; k < BATCH; k++)
            assert_int_equal(gossip_sealer_prompt(s->sealer, &part, 1, batch + k * RECORD), RECORD);
        for (size_t at = 0; at < sizeof batch && !held(s);) {
            struct pollfd room = {.fd = s->peer, .events = POLLOUT};
            const ssize_t sent = send(s->peer, batch + at, sizeof batch - at, MSG_NOSIGNAL);
            assert_true(sent > 0 || errno == EAGAIN);
            at += sent > 0 ? (size_t)sent : 0;
            (void)poll(&room, 1, sent > 0 ? 0 : 1);
        }
    }
    assert_true(held(s));
    uint64_t out, in;
    node_stream_traffic(s->stream, &out, &in);
    assert_true(in < MESSAGE_LIMIT); // some 50,000 messages
    size_t count = 0, messages = 0;
    for (uint8_t *bytes; (bytes = node_stream_take(s->stream, &count)); free(bytes), messages++)
        assert_int_equal(count, 1);
    assert_true(messages > 0);
    assert_false(held(s)); // it continues when they are taken
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_flood_of_small_messages_stops_the_reading, make_scene, free_scene),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
