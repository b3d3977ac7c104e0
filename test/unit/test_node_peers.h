// Tables of links under one event base, over loopback, and guests that have the secret but break the rules.
#ifndef TEST_UNIT_NODE_PEERS_H
#define TEST_UNIT_NODE_PEERS_H

#include "node/net/listener.h"
#include "node/net/stream.h"
#include "node/peers/endpoints.h"
#include "node/peers/peers.h"
#include "node/queue/clock.h"

#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#define SECOND_NS     NODE_SECOND_NS
#define MESSAGE_LIMIT (1u << 16)
#define MANY          18u // nodes of one cluster on one address, more than LIMIT_HALF_OPEN_ADDRESS
#define NUMBERED      40u // messages of one run
#define PACKET_BYTES  1000u

static struct event_base *base;
static struct node_streams *streams;

static struct node_counters counted; // by all streams, whose threads count until they end
static size_t tables_open;           // not 0 after a test: the test failed
static size_t in_use;                // ends of links, in all tables

static inline int make_base(void **state)
{
    (void)state;
    tables_open = in_use = 0;
    base = event_base_new();
    return base && !node_streams_create(base, &streams) ? 0 : -1;
}

static inline int free_base(void **state)
{
    (void)state;
    if (tables_open) // links of a failed test use both
        return 0;
    node_streams_destroy(streams);
    event_base_free(base);
    return 0;
}

static inline void timed_out(evutil_socket_t socket, short what, void *argument)
{
    (void)socket;
    (void)what;
    *(bool *)argument = true;
}

// Until *value >= least; the bound is reached only by a failure.
static inline void run_until(const size_t *value, size_t least)
{
    bool late = false;
    struct event *timer = event_new(base, -1, 0, timed_out, &late);
    struct timeval wait = {.tv_sec = 200};
    event_add(timer, &wait);
    while (*value < least && !late)
        event_base_loop(base, EVLOOP_ONCE);
    event_free(timer);
    assert_true(*value >= least);
}

// A message that a table passes on: a HELLO, numbered by its epoch.
static inline size_t numbered(uint64_t number, uint8_t bytes[LIMIT_MESSAGE_HEADER_BYTES])
{
    struct gossip_message message = {.kind = GOSSIP_HELLO, .as.hello.epoch = number};
    size_t count = 0;
    assert_int_equal(gossip_message_encode_header(&message, bytes, LIMIT_MESSAGE_HEADER_BYTES, &count),
                     BASE_OK);
    return count;
}

static inline void make_greeting(const char *name, struct gossip_greeting *greeting)
{
    *greeting = (struct gossip_greeting){.schema = 1, .parameters = 1};
    snprintf(greeting->name, sizeof greeting->name, "%s", name);
    snprintf(greeting->version, sizeof greeting->version, "1");
    snprintf(greeting->model, sizeof greeting->model, "test");
}

// One node: its table of links and what the table reported to its owner.

struct table {
    struct node_config config;
    struct gossip_identity identity;
    struct gossip_greeting greeting;
    struct gossip_allow_list allow;
    struct node_faults *faults;
    struct node_peers *peers;
    struct node_endpoints *endpoints;
    struct gossip_membership *membership;
    int listener;
    uint16_t port;
    char address[64], *list[MANY];
    bool sends;                        // sends numbered messages as soon as a link is up
    bool takes;                        // takes events
    struct gossip_protocols protocols; // zeros: those of this build
    enum gossip_close parts;           // then ends the link with this cause, unless it is IDLE
    size_t ups, downs, messages, packets, unreachables, twins, missing;
};

static inline void take_up(struct table *t, const struct node_peers_event *event)
{
    t->ups++;
    in_use++;
    assert_int_equal(event->own.storage.ss_family, AF_INET);
    for (uint64_t i = 0; t->sends && i < NUMBERED; i++) {
        uint8_t *bytes = malloc(LIMIT_MESSAGE_HEADER_BYTES);
        assert_non_null(bytes);
        assert_true(node_peers_send(t->peers, &event->peer, bytes, numbered(i, bytes)));
    }
    if (t->parts != GOSSIP_CLOSE_IDLE)
        node_peers_part(t->peers, &event->peer, t->parts);
}

static inline void take_message(struct table *t, const struct node_peers_event *event)
{
    assert_true(event->count > 0);
    free(event->bytes);
    assert_int_equal(event->message->as.hello.epoch, t->messages); // none lost, none twice, in order
    t->messages++;
}

static inline void take_packet(struct table *t, const struct node_peers_event *event)
{
    assert_int_equal(event->message->as.members.packet_bytes, PACKET_BYTES);
    assert_int_equal(event->message->as.members.packet[0], t->packets); // in order
    t->packets++;
}

static inline void take_event(struct table *t, const struct node_peers_event *event)
{
    switch (event->kind) {
    case NODE_PEERS_UP:
        take_up(t, event);
        break;
    case NODE_PEERS_DOWN:
        t->downs++;
        in_use--;
        break;
    case NODE_PEERS_MESSAGE:
        take_message(t, event);
        break;
    case NODE_PEERS_PACKET:
        take_packet(t, event);
        break;
    case NODE_PEERS_UNREACHABLE:
        t->unreachables++;
        break;
    case NODE_PEERS_MISSING:
        t->missing++;
        break;
    case NODE_PEERS_CONFLICT:
        assert_true(event->address[0] != 0);
        t->twins++;
        break;
    case NODE_PEERS_REACHED:
    case NODE_PEERS_CHANGED:
        break;
    default:
        fail_msg("nobody sends statistics or joins");
    }
}

static inline void take_events(void *owner)
{
    struct table *t = owner;
    struct node_peers_event event;
    assert_false(t->takes); // never from inside a call of its own
    t->takes = true;
    struct gossip_links_action action;
    do {
        while (gossip_links_next(node_peers_rules(t->peers), &action))
            if (node_peers_act(t->peers, &action, &event))
                take_event(t, &event);
    } while (node_peers_rest(t->peers, &event));
    t->takes = false;
}

static inline void step_membership(struct table *t, struct gossip_membership_event event)
{
    struct gossip_membership_action action;
    event.now_ns = node_clock_ns();
    assert_int_equal(gossip_membership_step(t->membership, &event), BASE_OK);
    while (gossip_membership_next(t->membership, &action))
        ;
}

static inline void make_membership(struct table *t, const char *name)
{
    const struct gossip_membership_options options = {
        .identity = &t->identity,
        .version = {.generation = 1, .instance_id = 1},
        .name = name,
        .addresses = {{.family = 4, .ip = {127, 0, 0, 1}, .port = t->port}},
        .n_addresses = 1,
        .profile = GOSSIP_PROFILE_LAN,
        .seed = t->port,
        .now_ns = node_clock_ns()};
    assert_int_equal(gossip_membership_create(&options, &t->membership), BASE_OK);
    step_membership(t, (struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_TIMER}); // signs its record
}

// Membership at `t` hears of the other node, as that node now is: alive, or gone.
static inline void introduce(struct table *t, const struct table *other)
{
    const struct gossip_id *id = &other->identity.id;
    uint8_t packet[LIMIT_DATAGRAM_BYTES];
    const size_t bytes = gossip_membership_about(other->membership, id, packet, sizeof packet);
    assert_true(bytes > 0);
    step_membership(t, (struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_PACKET,
                                                        .peer = *id,
                                                        .way = GOSSIP_BY_STREAM,
                                                        .bytes = packet,
                                                        .n_bytes = bytes});
}

static inline void bind_table(struct table *t, uint8_t seed, const char *name)
{
    uint8_t seeds[32] = {seed};
    static char cluster[] = "test";
    struct base_reason why;
    memset(t, 0, sizeof *t);
    gossip_identity_from_seed(seeds, &t->identity);
    make_greeting(name, &t->greeting);
    t->config.cluster.name = cluster;
    assert_int_equal(node_listener_bind("listen", "127.0.0.1:0", &t->listener, &why), BASE_OK);
    t->port = node_listener_port(t->listener);
    snprintf(t->address, sizeof t->address, "127.0.0.1:%u", (unsigned)t->port);
    assert_int_equal(node_faults_create("", &t->faults, &why), BASE_OK);
    make_membership(t, name);
}

static inline void list(struct table *t, char *address)
{
    t->list[t->config.peers.count++] = address;
    t->config.peers.items = t->list;
}

static inline void open_table(struct table *t, bool only_allowed)
{
    assert_int_equal(node_endpoints_create(&t->endpoints), BASE_OK);
    static const struct gossip_secrets no_secret = {.count = 1};
    struct node_peers_options options = {.base = base,
                                         .streams = streams,
                                         .config = &t->config,
                                         .identity = &t->identity,
                                         .secrets = &no_secret,
                                         .allow = only_allowed ? &t->allow : NULL,
                                         .greeting = &t->greeting,
                                         .message_limit = MESSAGE_LIMIT,
                                         .counters = &counted,
                                         .faults = t->faults,
                                         .protocols = t->protocols,
                                         .listener = t->listener,
                                         .ready = take_events,
                                         .owner = t,
                                         .membership = t->membership,
                                         .endpoints = t->endpoints};
    assert_int_equal(node_peers_create(&options, &t->peers), BASE_OK);
    tables_open++;
}

static inline void close_table(struct table *t)
{
    node_peers_destroy(t->peers);
    node_endpoints_destroy(t->endpoints);
    tables_open--;
    gossip_membership_destroy(t->membership);
    node_faults_destroy(t->faults);
    gossip_identity_wipe(&t->identity);
}

#endif
