// The loop with a worker that takes nothing and a peer that sends as fast as it can: what waits in memory
// stays bounded, and nothing is lost.
#include "node/loop.h"
#include "node/net/connection.h"
#include "node/net/stream.h"
#include "node/queue/backlog.h"
#include "node/queue/message.h"
#include <event2/event.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND_NS     1000000000ull
#define MESSAGE_LIMIT (256u * 1024u)
#define MESSAGES      128u // 32 MiB
#define WAITING_MAX   (NODE_BACKLOG_BYTES + 3 * MESSAGE_LIMIT)

static struct gossip_secrets no_secret = {.count = 1};
static struct node_loop *loop;
static struct node_mailbox *boxes[3]; // loop, worker, learner
static struct node_counters counters;
static struct gossip_greeting greeting;

static void *run_loop(void *argument)
{
    (void)argument;
    return (void *)(intptr_t)node_loop_run(loop);
}

static void make_loop(struct node_config *config, struct gossip_identity *identity)
{
    static char listen[] = "127.0.0.1:0", nothing[] = "", cluster[] = "test";
    static const uint8_t seed[32] = {1};
    struct base_reason why;
    config->node.listen = listen;
    config->node.http = nothing;
    config->node.advertise = config->node.fault_file = config->node.group = nothing;
    config->cluster.name = cluster;
    config->cluster.secret_file = config->cluster.allow_file = nothing;
    config->data.shards = config->topology.rings = 1;
    config->node.start_timeout_ns = config->average.forget_after_ns = 3600 * SECOND_NS;
    gossip_identity_from_seed(seed, identity);
    greeting =
        (struct gossip_greeting){.version = "1", .name = "a", .model = "test", .schema = 1, .parameters = 1};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(node_mailbox_create(LIMIT_MAILBOX, &boxes[i]), BASE_OK);
    struct node_loop_options options = {.config = config,
                                        .identity = identity,
                                        .secrets = &no_secret,
                                        .name = "a",
                                        .greeting = greeting,
                                        .message_limit = MESSAGE_LIMIT,
                                        .starts = {.number = 1},
                                        .instance_id = 1,
                                        .inbox = boxes[0],
                                        .worker = boxes[1],
                                        .learner = boxes[2],
                                        .counters = &counters};
    assert_int_equal(node_loop_create(&options, &loop, &why), BASE_OK);
}

struct flood {
    struct node_link *link;
    bool linked, closed;
};

static void flood_established(void *owner, const struct gossip_session_event *event)
{
    struct flood *flood = owner;
    struct gossip_message message = {.kind = GOSSIP_GREETING, .as.greeting = greeting};
    uint8_t bytes[LIMIT_MESSAGE_HEADER_BYTES];
    size_t count = 0;
    (void)event;
    message.as.greeting.name[0] = 'b';
    assert_int_equal(gossip_message_encode_header(&message, bytes, sizeof bytes, &count), BASE_OK);
    assert_int_equal(node_link_send(flood->link, bytes, count), BASE_OK);
}

static void flood_message(void *owner, uint8_t *bytes, size_t count)
{
    struct flood *flood = owner;
    free(bytes);
    (void)count;
    flood->linked = true; // its greeting
}

static void flood_closed(void *owner, enum base_error code, const char *why)
{
    struct flood *flood = owner;
    (void)code;
    (void)why;
    flood->closed = true;
}

static const struct node_link_handler flood_handler = {flood_established, flood_message, flood_closed, NULL};

static void call(struct event_base *base, struct node_streams *streams, struct gossip_identity *identity,
                 struct flood *flood)
{
    static const uint8_t seed[32] = {2};
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(node_loop_port(loop)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    static struct node_counters own;
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(s, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(evutil_make_socket_nonblocking(s), 0);
    gossip_identity_from_seed(seed, identity);
    struct node_link_options options = {.base = base,
                                        .streams = streams,
                                        .socket = s,
                                        .initiator = true,
                                        .identity = identity,
                                        .secrets = &no_secret,
                                        .cluster = "test",
                                        .message_limit = MESSAGES * MESSAGE_LIMIT, // room to queue them all
                                        .handshake_ns = 60 * SECOND_NS,
                                        .counters = &own,
                                        .handler = &flood_handler,
                                        .owner = flood};
    assert_int_equal(node_link_create(&options, &flood->link), BASE_OK);
}

static void send_flood(struct flood *flood)
{
    struct gossip_message message = {
        .kind = GOSSIP_XCHG,
        .as.exchange = {.form = GOSSIP_DELTA_BLOCK, .weight = 0.5f, .delta_bytes = 200000}};
    uint8_t *bytes = calloc(1, MESSAGE_LIMIT);
    size_t count = 0;
    assert_non_null(bytes);
    assert_int_equal(gossip_message_encode_header(&message, bytes, MESSAGE_LIMIT, &count), BASE_OK);
    for (size_t i = 0; i < MESSAGES; i++)
        assert_int_equal(node_link_send(flood->link, bytes, count + 200000), BASE_OK);
    free(bytes);
}

static void check_waiting(void)
{
    size_t waiting = atomic_load(&counters.backlog_bytes);
    if (waiting > WAITING_MAX)
        fail_msg("%zu bytes wait for the worker", waiting);
}

static void a_flood_waits_in_the_network(void **state)
{
    struct node_config config = {0};
    struct gossip_identity identities[2];
    struct flood flood = {0};
    struct event_base *base = event_base_new();
    struct node_streams *streams = NULL;
    pthread_t thread;
    (void)state;
    make_loop(&config, &identities[0]);
    assert_int_equal(pthread_create(&thread, NULL, run_loop, NULL), 0);
    assert_int_equal(node_streams_create(base, &streams), BASE_OK);
    call(base, streams, &identities[1], &flood);
    while (!flood.linked && !flood.closed)
        event_base_loop(base, EVLOOP_ONCE);
    send_flood(&flood);
    while (!flood.closed && atomic_load(&counters.backlog_bytes) <= NODE_BACKLOG_BYTES) // it does fill up
        event_base_loop(base, EVLOOP_NONBLOCK);
    size_t messages = 0;
    while (!flood.closed && messages < MESSAGES) {
        event_base_loop(base, EVLOOP_NONBLOCK);
        check_waiting();
        struct node_message *message = node_mailbox_take(boxes[1], 0);
        messages += message && message->kind == NODE_MESSAGE_EXCHANGE;
        node_message_free(message);
    }
    assert_int_equal(messages, MESSAGES);
    assert_int_equal(atomic_load(&counters.backlog_bytes), 0);
    struct node_message *left = node_message_new(NODE_MESSAGE_LEFT);
    assert_int_equal(node_mailbox_post(boxes[0], left), BASE_OK);
    while (!flood.closed)
        event_base_loop(base, EVLOOP_ONCE);
    node_link_destroy(flood.link);
    assert_int_equal(pthread_join(thread, NULL), 0);
    node_loop_destroy(loop);
    for (size_t i = 0; i < 3; i++)
        node_mailbox_destroy(boxes[i], node_message_free);
    node_streams_destroy(streams);
    event_base_free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_flood_waits_in_the_network)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
