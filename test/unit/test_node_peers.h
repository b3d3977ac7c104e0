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
    return base && node_streams_create(base, &streams) == BASE_OK ? 0 : -1;
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
    *greeting = (struct gossip_greeting){.protocol = GOSSIP_PROTOCOL, .schema = 1, .parameters = 1};
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
    const struct table *other; // calls to members go to its address
    int listener;
    uint16_t port;
    char address[64], *list[MANY];
    bool sends;              // sends numbered messages as soon as a link is up
    bool alive;              // what membership says of every member
    enum gossip_close parts; // then ends the link with this cause, unless it is IDLE
    size_t linked, ups, downs, messages, packets, unreachables, twins, missing;
};

static inline void on_up(void *owner, const struct gossip_id *peer)
{
    struct table *t = owner;
    t->ups++;
    in_use++;
    for (uint64_t i = 0; t->sends && i < NUMBERED; i++) {
        uint8_t *bytes = malloc(LIMIT_MESSAGE_HEADER_BYTES);
        assert_non_null(bytes);
        assert_true(node_peers_send(t->peers, peer, bytes, numbered(i, bytes)));
    }
    if (t->parts != GOSSIP_CLOSE_IDLE)
        node_peers_part(t->peers, peer, t->parts);
}

static inline void on_down(void *owner, const struct gossip_id *peer)
{
    (void)peer;
    ((struct table *)owner)->downs++;
    in_use--;
}

static inline void on_message(void *owner, const struct gossip_id *peer, const struct gossip_message *message,
                              uint8_t *bytes, size_t count)
{
    struct table *t = owner;
    (void)peer;
    assert_true(count > 0);
    free(bytes);
    assert_int_equal(message->as.hello.epoch, t->messages); // none lost, none twice, in order
    t->messages++;
}

static inline void on_linked(void *owner, const struct gossip_id *peer)
{
    struct table *t = owner;
    (void)peer;
    assert_int_equal(++t->linked, t->ups); // after each `up`, once
}

static inline void on_packet(void *owner, const struct gossip_id *peer, const uint8_t *packet, size_t count)
{
    struct table *t = owner;
    (void)peer;
    assert_int_equal(count, PACKET_BYTES);
    assert_int_equal(packet[0], t->packets); // in order
    t->packets++;
}

static inline void on_unreachable(void *owner, const struct gossip_id *peer)
{
    (void)peer;
    ((struct table *)owner)->unreachables++;
}

static inline bool on_alive(void *owner, const struct gossip_id *id)
{
    (void)id;
    return ((struct table *)owner)->alive;
}

static inline size_t on_addresses(void *owner, const struct gossip_id *id,
                                  struct node_address out[LIMIT_ADDRESSES])
{
    const struct table *t = owner;
    const struct gossip_address loopback = {
        .family = 4, .ip = {127, 0, 0, 1}, .port = t->other ? t->other->port : 0};
    (void)id;
    node_address_of(&loopback, &out[0]);
    return t->other != NULL;
}

static inline void on_here(void *owner, const struct node_address *own)
{
    (void)owner;
    assert_int_equal(own->storage.ss_family, AF_INET);
}

static inline void on_conflict(void *owner, const char *address)
{
    assert_true(address[0] != 0);
    ((struct table *)owner)->twins++;
}

static inline void on_missing(void *owner, const struct gossip_id *peer)
{
    (void)peer;
    ((struct table *)owner)->missing++;
}

static inline void on_changed(void *owner)
{
    (void)owner;
}

static inline size_t on_about(void *owner, const struct gossip_id *id, uint8_t *packet, size_t capacity)
{
    (void)owner, (void)id, (void)packet, (void)capacity;
    return 0;
}

static inline bool on_greeted(void *owner, const char *address, const struct gossip_greeting *greeting)
{
    (void)owner, (void)address;
    assert_true(greeting->name[0] != 0);
    return false;
}

static inline void on_statistics(void *owner, const struct gossip_id *peer,
                                 const struct gossip_statistics_message *message)
{
    (void)owner, (void)peer, (void)message;
    fail_msg("no node sends statistics");
}

static const struct node_peers_handler table_handler = {.up = on_up,
                                                        .down = on_down,
                                                        .message = on_message,
                                                        .statistics = on_statistics,
                                                        .greeted = on_greeted,
                                                        .conflict = on_conflict,
                                                        .changed = on_changed};

static const struct node_peers_members table_members = {.linked = on_linked,
                                                        .packet = on_packet,
                                                        .about = on_about,
                                                        .unreachable = on_unreachable,
                                                        .alive = on_alive,
                                                        .addresses = on_addresses,
                                                        .here = on_here,
                                                        .missing = on_missing};

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
}

static inline void list(struct table *t, char *address)
{
    t->list[t->config.peers.count++] = address;
    t->config.peers.items = t->list;
}

static inline void open_table(struct table *t, bool only_allowed)
{
    struct node_peers_options options = {.base = base,
                                         .streams = streams,
                                         .config = &t->config,
                                         .identity = &t->identity,
                                         .allow = only_allowed ? &t->allow : NULL,
                                         .greeting = &t->greeting,
                                         .message_limit = MESSAGE_LIMIT,
                                         .counters = &counted,
                                         .faults = t->faults,
                                         .listener = t->listener,
                                         .handler = &table_handler,
                                         .owner = t,
                                         .members = &table_members,
                                         .members_owner = t};
    assert_int_equal(node_peers_create(&options, &t->peers), BASE_OK);
    tables_open++;
}

static inline void close_table(struct table *t)
{
    node_peers_destroy(t->peers);
    tables_open--;
    node_faults_destroy(t->faults);
    gossip_identity_wipe(&t->identity);
}

#endif
