// Whole tables of links under one event base, over loopback: two that call each other, and peers that have
// the secret but no manners.
#include "base/log.h"
#include "node/net/listener.h"
#include "node/net/stream.h"
#include "node/peers/endpoints.h"
#include "node/peers/peers.h"
#include "node/queue/clock.h"
#include <event2/event.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND_NS     NODE_SECOND_NS
#define MESSAGE_LIMIT (1u << 16)
#define MANY          24u // nodes of one cluster on one address
#define NUMBERED      40u // messages of one run
#define PACKET_BYTES  1000u

static struct event_base *base;
static struct node_streams *streams;

static struct node_counters counted; // by all streams; their thread counts on until it ends

static int make_base(void **state)
{
    (void)state;
    base = event_base_new();
    return base && node_streams_create(base, &streams) == BASE_OK ? 0 : -1;
}

static int free_base(void **state)
{
    (void)state;
    node_streams_destroy(streams);
    event_base_free(base);
    return 0;
}

static void timed_out(evutil_socket_t socket, short what, void *argument)
{
    (void)socket;
    (void)what;
    *(bool *)argument = true;
}

// Until *value >= least; a bound that only a failure reaches.
static void run_until(const size_t *value, size_t least)
{
    bool late = false;
    struct event *timer = event_new(base, -1, 0, timed_out, &late);
    struct timeval wait = {.tv_sec = 60};
    event_add(timer, &wait);
    while (*value < least && !late)
        event_base_loop(base, EVLOOP_ONCE);
    event_free(timer);
    assert_true(*value >= least);
}

// A message that a table passes on: HELLO, numbered by its epoch.
static size_t numbered(uint64_t number, uint8_t bytes[LIMIT_MESSAGE_HEADER_BYTES])
{
    struct gossip_message message = {.kind = GOSSIP_HELLO, .as.hello.epoch = number};
    size_t count = 0;
    assert_int_equal(gossip_message_encode_header(&message, bytes, LIMIT_MESSAGE_HEADER_BYTES, &count),
                     BASE_OK);
    return count;
}

static void make_greeting(const char *name, struct gossip_greeting *greeting)
{
    *greeting = (struct gossip_greeting){.protocol = GOSSIP_PROTOCOL, .schema = 1, .parameters = 1};
    snprintf(greeting->name, sizeof greeting->name, "%s", name);
    snprintf(greeting->version, sizeof greeting->version, "1");
    snprintf(greeting->model, sizeof greeting->model, "test");
}

// One node: its table of links and what the table told its owner.

struct table {
    struct node_config config;
    struct gossip_identity identity;
    struct gossip_greeting greeting;
    struct gossip_allow_list allow;
    struct node_faults *faults;
    struct node_peers *peers;
    const struct table *other; // whose address its members' calls go to
    int listener;
    uint16_t port;
    char address[64], *list[MANY];
    bool sends; // numbered messages, as soon as it is told of a link
    bool alive; // what membership is to say of everybody
    size_t ups, downs, messages, packets, unreachables, twins, missing;
};

static void on_up(void *owner, const struct gossip_id *peer, const char *name)
{
    struct table *t = owner;
    assert_true(name[0] != 0);
    t->ups++;
    for (uint64_t i = 0; t->sends && i < NUMBERED; i++) {
        uint8_t *bytes = malloc(LIMIT_MESSAGE_HEADER_BYTES);
        assert_non_null(bytes);
        assert_true(node_peers_send(t->peers, peer, bytes, numbered(i, bytes)));
    }
}

static void on_down(void *owner, const struct gossip_id *peer)
{
    (void)peer;
    ((struct table *)owner)->downs++;
}

static void on_message(void *owner, const struct gossip_id *peer, uint8_t *bytes, size_t count)
{
    struct table *t = owner;
    struct gossip_message message;
    (void)peer;
    assert_int_equal(gossip_message_decode(bytes, count, &message), BASE_OK);
    free(bytes);
    assert_int_equal(message.as.hello.epoch, t->messages); // none lost, none twice, in order
    t->messages++;
}

static void on_members(void *owner, const struct gossip_id *peer, const uint8_t *packet, size_t count)
{
    struct table *t = owner;
    (void)peer;
    assert_int_equal(count, PACKET_BYTES);
    assert_int_equal(packet[0], t->packets); // in order
    t->packets++;
}

static void on_unreachable(void *owner, const struct gossip_id *peer)
{
    (void)peer;
    ((struct table *)owner)->unreachables++;
}

static bool on_alive(void *owner, const struct gossip_id *id)
{
    (void)id;
    return ((struct table *)owner)->alive;
}

static size_t on_addresses(void *owner, const struct gossip_id *id, struct node_address out[LIMIT_ADDRESSES])
{
    const struct table *t = owner;
    const struct gossip_address loopback = {
        .family = 4, .ip = {127, 0, 0, 1}, .port = t->other ? t->other->port : 0};
    (void)id;
    node_address_of(&loopback, &out[0]);
    return t->other != NULL;
}

static void on_here(void *owner, const struct node_address *own)
{
    (void)owner;
    assert_int_equal(own->storage.ss_family, AF_INET);
}

static void on_duplicate(void *owner, const char *address)
{
    assert_true(address[0] != 0);
    ((struct table *)owner)->twins++;
}

static void on_missing(void *owner, const struct gossip_id *peer)
{
    (void)peer;
    ((struct table *)owner)->missing++;
}

static void on_changed(void *owner)
{
    (void)owner;
}

static size_t on_about(void *owner, const struct gossip_id *id, uint8_t *packet, size_t capacity)
{
    (void)owner, (void)id, (void)packet, (void)capacity;
    return 0;
}

static bool on_greeted(void *owner, const char *address, const struct gossip_greeting *greeting)
{
    (void)owner, (void)address, (void)greeting;
    return false;
}

static const struct node_peers_handler table_handler = {.up = on_up,
                                                        .down = on_down,
                                                        .message = on_message,
                                                        .members = on_members,
                                                        .about = on_about,
                                                        .unreachable = on_unreachable,
                                                        .alive = on_alive,
                                                        .addresses = on_addresses,
                                                        .here = on_here,
                                                        .duplicate = on_duplicate,
                                                        .missing = on_missing,
                                                        .greeted = on_greeted,
                                                        .changed = on_changed};

static void bind_table(struct table *t, uint8_t seed, const char *name)
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

static void list(struct table *t, char *address)
{
    t->list[t->config.peers.count++] = address;
    t->config.peers.items = t->list;
}

static void open_table(struct table *t, bool only_allowed)
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
                                         .owner = t};
    assert_int_equal(node_peers_create(&options, &t->peers), BASE_OK);
}

static void close_table(struct table *t)
{
    node_peers_destroy(t->peers);
    node_faults_destroy(t->faults);
    gossip_identity_wipe(&t->identity);
}

// A peer with the secret that does what a test wants: one bare link.

struct guest {
    struct node_link *link;
    struct gossip_identity identity;
    bool holds, closed; // holds: takes nothing from its socket after the handshake
    size_t *established, *ended, *messages;
};

static void guest_established(void *owner, const struct gossip_id *peer)
{
    struct guest *g = owner;
    (void)peer;
    if (g->holds)
        node_link_pause(g->link, true);
    ++*g->established;
}

static void guest_message(void *owner, uint8_t *bytes, size_t count)
{
    free(bytes);
    (void)count;
    ++*((struct guest *)owner)->messages;
}

static void guest_closed(void *owner, enum base_error code, const char *why)
{
    struct guest *g = owner;
    (void)code;
    (void)why;
    g->closed = true;
    ++*g->ended;
}

static const struct node_link_handler guest_handler = {guest_established, guest_message, guest_closed};

static size_t established, ended, heard;

static void call(struct guest *g, uint32_t seed, uint16_t port, bool holds)
{
    uint8_t seeds[32] = {0, 1};
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    memset(g, 0, sizeof *g);
    memcpy(seeds + 4, &seed, sizeof seed);
    gossip_identity_from_seed(seeds, &g->identity);
    g->holds = holds;
    g->established = &established;
    g->ended = &ended;
    g->messages = &heard;
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(s >= 0);
    assert_int_equal(connect(s, (struct sockaddr *)&address, sizeof address), 0); // the kernel takes it
    assert_int_equal(evutil_make_socket_nonblocking(s), 0);
    struct node_link_options options = {.base = base,
                                        .streams = streams,
                                        .socket = s,
                                        .initiator = true,
                                        .identity = &g->identity,
                                        .cluster = "test",
                                        .message_limit = MESSAGE_LIMIT,
                                        .handshake_ns = 60 * SECOND_NS,
                                        .counters = &counted,
                                        .handler = &guest_handler,
                                        .owner = g};
    assert_int_equal(node_link_create(&options, &g->link), BASE_OK);
}

static void say(struct guest *g, const struct gossip_message *message)
{
    uint8_t bytes[LIMIT_MESSAGE_HEADER_BYTES];
    size_t count = 0;
    assert_int_equal(gossip_message_encode_header(message, bytes, sizeof bytes, &count), BASE_OK);
    (void)!node_link_send(g->link, bytes, count);
}

static void greet(struct guest *g, const char *name)
{
    struct gossip_message message = {.kind = GOSSIP_GREETING};
    make_greeting(name, &message.as.greeting);
    say(g, &message);
}

// What goes to stderr meanwhile, counted in lines.

static int log_file, log_before;

static void log_begin(void)
{
    char path[] = "/tmp/p2pml-log-XXXXXX";
    log_file = mkstemp(path);
    assert_true(log_file >= 0);
    unlink(path);
    fflush(stderr);
    log_before = dup(STDERR_FILENO);
    assert_true(dup2(log_file, STDERR_FILENO) >= 0);
}

static size_t log_lines(void)
{
    char bytes[4096];
    size_t lines = 0;
    dup2(log_before, STDERR_FILENO);
    close(log_before);
    lseek(log_file, 0, SEEK_SET);
    for (ssize_t got; (got = read(log_file, bytes, sizeof bytes)) > 0;)
        for (ssize_t i = 0; i < got; i++)
            lines += bytes[i] == '\n';
    close(log_file);
    return lines;
}

static void choosing_a_link_loses_nothing(void **state)
{
    (void)state;
    for (int run = 0; run < 40; run++) {
        struct table a, b;
        bind_table(&a, 1, "a");
        bind_table(&b, 2, "b");
        list(&a, b.address);
        list(&b, a.address);
        open_table(&a, false);
        open_table(&b, false);
        a.sends = b.sends = true;
        node_peers_start(run % 2 ? a.peers : b.peers); // both call at once: two links, one is taken
        node_peers_start(run % 2 ? b.peers : a.peers);
        run_until(&a.messages, NUMBERED);
        run_until(&b.messages, NUMBERED);
        for (int i = 0; i < 20; i++)
            event_base_loop(base, EVLOOP_NONBLOCK);
        assert_int_equal(a.ups, 1);
        assert_int_equal(b.ups, 1);
        assert_int_equal(a.downs + b.downs, 0);
        close_table(&a);
        close_table(&b);
    }
}

// More than may be half-open from one address call all at once.
static void many_on_one_address_find_each_other(void **state)
{
    (void)state;
    static struct table tables[MANY];
    for (size_t i = 0; i < MANY; i++) {
        char name[16];
        snprintf(name, sizeof name, "node-%zu", i);
        bind_table(&tables[i], (uint8_t)(i + 1), name);
    }
    for (size_t i = 0; i < MANY; i++) {
        for (size_t k = 0; k < MANY; k++) // itself among them
            list(&tables[i], tables[k].address);
        open_table(&tables[i], false);
    }
    for (size_t i = 0; i < MANY; i++)
        node_peers_start(tables[i].peers);
    for (size_t i = 0; i < MANY; i++)
        run_until(&tables[i].ups, MANY - 1);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(tables[i].downs, 0);
        assert_int_equal(node_peers_linked(tables[i].peers), MANY - 1);
    }
    for (size_t i = 0; i < MANY; i++)
        close_table(&tables[i]);
}

// The node with the lower id decides; while the link in use works, no other takes its place.
static void newer_links_do_not_disturb_one_that_works(void **state)
{
    (void)state;
    struct table t;
    struct guest first, more[20];
    uint32_t seed = 0;
    uint8_t bytes[LIMIT_MESSAGE_HEADER_BYTES];
    established = ended = heard = 0;
    bind_table(&t, 1, "a");
    open_table(&t, false);
    node_peers_start(t.peers);
    uint16_t port = node_listener_port(t.listener);
    do { // an id above the table's
        call(&first, seed, port, false);
        if (gossip_id_compare(&t.identity.id, &first.identity.id) < 0)
            break;
        node_link_destroy(first.link);
        seed++;
    } while (true);
    run_until(&established, 1);
    greet(&first, "b");
    run_until(&t.ups, 1);
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(node_link_send(first.link, bytes, numbered(2 * i, bytes)), BASE_OK);
        size_t before = established;
        call(&more[i], seed, port, false);
        run_until(&established, before + 1);
        greet(&more[i], "b");
        assert_int_equal(node_link_send(first.link, bytes, numbered(2 * i + 1, bytes)), BASE_OK);
        run_until(&t.messages, 2 * (i + 1));
        node_peers_tick(t.peers, 0);
    }
    assert_int_equal(t.ups, 1);
    assert_int_equal(t.downs, 0);
    assert_false(first.closed);
    node_link_destroy(first.link);
    for (size_t i = 0; i < 20; i++)
        node_link_destroy(more[i].link);
    close_table(&t);
}

// Whoever has proven an id but is not in use counts as half-open: neither those that no allow-list names nor
// those that never greet can fill the table, however many ids they make.
static void ids_without_use_stay_within_the_limits(void **state)
{
    (void)state;
    for (int only_allowed = 0; only_allowed < 2; only_allowed++) {
        struct table t;
        static struct guest guests[3 * LIMIT_HALF_OPEN_ADDRESS];
        const size_t n = sizeof guests / sizeof *guests;
        established = ended = heard = 0;
        bind_table(&t, 1, "a");
        open_table(&t, only_allowed);
        node_peers_start(t.peers);
        for (size_t i = 0; i < n; i++) {
            call(&guests[i], (uint32_t)i, node_listener_port(t.listener), true);
            while (!guests[i].closed && established + ended <= i)
                event_base_loop(base, EVLOOP_ONCE);
        }
        struct node_peers_counters counters = node_peers_counters(t.peers);
        assert_in_range(counters.half_open, 1, LIMIT_HALF_OPEN_ADDRESS);
        assert_in_range(counters.turned_away, 1, n - LIMIT_HALF_OPEN_ADDRESS);
        for (size_t i = 0; i < n; i++)
            node_link_destroy(guests[i].link);
        close_table(&t);
    }
}

// Ends the guest's link by what `break_it` says.
static void expect_end(void (*break_it)(struct guest *g), size_t ups, size_t refused)
{
    for (uint32_t seed = 0; seed < 6; seed++) { // ids on both sides of the table's
        struct table t;
        struct guest guest;
        established = ended = heard = 0;
        bind_table(&t, 1, "a");
        open_table(&t, false);
        node_peers_start(t.peers);
        call(&guest, seed, node_listener_port(t.listener), false);
        run_until(&established, 1);
        break_it(&guest);
        run_until(&ended, 1);
        assert_int_equal(t.ups, ups);
        assert_int_equal(node_peers_counters(t.peers).refused, refused);
        assert_true(heard > 0 || !refused); // the people there learn why
        node_link_destroy(guest.link);
        run_until(&t.downs, ups);
        assert_int_equal(node_peers_linked(t.peers), 0);
        close_table(&t);
    }
}

static void greet_with(struct guest *g, uint32_t protocol, uint64_t schema, uint64_t parameters,
                       const char *rules, const char *name)
{
    struct gossip_message message = {.kind = GOSSIP_GREETING};
    make_greeting(name, &message.as.greeting);
    message.as.greeting.protocol = protocol;
    message.as.greeting.schema = schema;
    message.as.greeting.parameters = parameters;
    snprintf(message.as.greeting.rules, sizeof message.as.greeting.rules, "%s", rules);
    say(g, &message);
}

static void another_protocol(struct guest *g)
{
    greet_with(g, GOSSIP_PROTOCOL + 1, 1, 1, "", "b");
}

static void another_schema(struct guest *g)
{
    greet_with(g, GOSSIP_PROTOCOL, 2, 1, "", "b");
}

static void another_length(struct guest *g)
{
    greet_with(g, GOSSIP_PROTOCOL, 1, UINT64_MAX, "", "b");
}

static void other_rules(struct guest *g)
{
    greet_with(g, GOSSIP_PROTOCOL, 1, 1, "train.steps: 7", "b");
}

static void whoever_trains_something_else_is_refused(void **state)
{
    (void)state;
    expect_end(another_protocol, 0, 1);
    expect_end(another_schema, 0, 1);
    expect_end(another_length, 0, 1);
    expect_end(other_rules, 0, 1);
}

static void say_nothing_known(struct guest *g)
{
    (void)!node_link_send(g->link, "\xde\xff\xff", 3);
}

static void say_too_early(struct guest *g)
{
    uint8_t bytes[LIMIT_MESSAGE_HEADER_BYTES];
    (void)!node_link_send(g->link, bytes, numbered(0, bytes));
}

static void greet_twice(struct guest *g)
{
    greet(g, "b");
    greet(g, "c");
}

static void whoever_breaks_the_protocol_is_closed(void **state)
{
    (void)state;
    expect_end(say_nothing_known, 0, 0);
    expect_end(say_too_early, 0, 0);
    expect_end(greet_twice, 1, 0);
}

// Names are for people; whoever has the same is told, and taken all the same.
static void a_name_may_be_had_twice(void **state)
{
    (void)state;
    struct table t;
    struct guest guest;
    established = ended = heard = 0;
    bind_table(&t, 1, "a");
    open_table(&t, false);
    node_peers_start(t.peers);
    call(&guest, 1, t.port, false);
    run_until(&established, 1);
    greet(&guest, "a");
    run_until(&t.ups, 1);
    assert_int_equal(node_peers_counters(t.peers).refused, 0);
    node_link_destroy(guest.link);
    close_table(&t);
}

static void make_pair(struct table *a, struct table *b)
{
    bind_table(a, 1, "a");
    bind_table(b, 2, "b");
    a->other = b;
    b->other = a;
    open_table(a, false);
    open_table(b, false);
    node_peers_start(a->peers);
    node_peers_start(b->peers);
}

static void nobody_needs_a_link(struct table *a, struct table *b)
{
    uint64_t later_ns = node_clock_ns() + GOSSIP_LINKS_IDLE_NS + SECOND_NS;
    node_peers_tick(a->peers, later_ns);
    node_peers_tick(b->peers, later_ns);
}

// A packet calls the member, waits for the link and goes over it; then nobody needs it, and its end tells
// nothing about anybody.
static void a_packet_calls_and_an_idle_link_ends(void **state)
{
    (void)state;
    struct table a, b;
    uint8_t packet[PACKET_BYTES] = {0};
    make_pair(&a, &b);
    for (packet[0] = 0; packet[0] < 3; packet[0]++)
        node_peers_packet(a.peers, &b.identity.id, packet, sizeof packet);
    run_until(&b.packets, 3);
    assert_int_equal(a.ups, 1);
    node_peers_packet(a.peers, &b.identity.id, packet, sizeof packet); // over the link that is there
    run_until(&b.packets, 4);
    nobody_needs_a_link(&a, &b);
    run_until(&a.downs, 1);
    run_until(&b.downs, 1);
    assert_int_equal(a.unreachables + b.unreachables, 0);
    close_table(&a);
    close_table(&b);
}

static void a_wanted_link_stays_and_comes_back(void **state)
{
    (void)state;
    struct table a, b;
    make_pair(&a, &b);
    node_peers_want(a.peers, &b.identity.id, 1);
    node_peers_want(b.peers, &a.identity.id, 1);
    run_until(&a.ups, 1);
    run_until(&b.ups, 1);
    nobody_needs_a_link(&a, &b);
    for (int i = 0; i < 20; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
    assert_int_equal(a.downs + b.downs, 0);
    node_peers_part(a.peers, &b.identity.id, GOSSIP_CLOSE_SILENT); // the other end still wants it
    run_until(&a.ups, 2);
    run_until(&b.ups, 2);
    assert_int_equal(a.unreachables + b.unreachables, 0);
    node_peers_want(a.peers, NULL, 0);
    node_peers_want(b.peers, NULL, 0);
    nobody_needs_a_link(&a, &b);
    run_until(&a.downs, 2);
    close_table(&a);
    close_table(&b);
}

static void an_end_without_a_word_is_evidence(void **state)
{
    (void)state;
    for (int says_bye = 0; says_bye < 2; says_bye++) {
        struct table t;
        struct guest guest;
        struct gossip_message bye = {.kind = GOSSIP_BYE, .as.bye.reason = "leaving"};
        established = ended = heard = 0;
        bind_table(&t, 1, "a");
        open_table(&t, false);
        node_peers_start(t.peers);
        call(&guest, 1, t.port, false);
        run_until(&established, 1);
        greet(&guest, "b");
        run_until(&t.ups, 1);
        if (says_bye)
            say(&guest, &bye);
        node_link_destroy(guest.link);
        run_until(&t.downs, 1);
        assert_int_equal(t.unreachables, says_bye ? 0 : 1);
        close_table(&t);
    }
}

// Nobody listens where the member was reached before: evidence, too. Where it never was, a firewall may
// answer for it; and without an address there is nothing to say.
static void a_closed_port_is_evidence_of_who_was_reached(void **state)
{
    (void)state;
    struct table a, b;
    uint8_t packet[PACKET_BYTES] = {0};
    make_pair(&a, &b);
    const struct gossip_id peer = b.identity.id;
    a.other = NULL;
    node_peers_packet(a.peers, &peer, packet, sizeof packet);
    for (int i = 0; i < 20; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
    a.other = &b;
    run_until(&b.packets, 1); // it has waited
    node_peers_part(a.peers, &peer, GOSSIP_CLOSE_IDLE);
    run_until(&a.downs, 1);
    run_until(&b.downs, 1);
    close_table(&b);
    assert_int_equal(a.unreachables, 0);
    node_peers_packet(a.peers, &peer, packet, sizeof packet);
    run_until(&a.unreachables, 1);
    close_table(&a);
}

// An entry that stands for a member who lives is not called; when membership gives him up it is.
static void entries_of_the_living_are_left_alone(void **state)
{
    (void)state;
    struct table a, b;
    bind_table(&a, 1, "a");
    bind_table(&b, 2, "b");
    list(&a, b.address);
    list(&a, a.address); // and this one leads to a itself
    open_table(&a, false);
    open_table(&b, false);
    a.alive = true;
    node_peers_start(b.peers);
    node_peers_start(a.peers);
    run_until(&a.ups, 1);
    run_until(&b.ups, 1);
    nobody_needs_a_link(&a, &b);
    run_until(&a.downs, 1);
    for (int i = 0; i < 20; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
    const struct gossip_entry *entry = node_peers_entry(a.peers, 0);
    assert_int_equal(entry->state, GOSSIP_ENTRY_MEMBER);
    assert_memory_equal(&entry->id, &b.identity.id, sizeof entry->id);
    assert_int_equal(node_peers_entry(a.peers, 1)->state, GOSSIP_ENTRY_SELF);
    assert_int_equal(a.ups, 1);
    a.alive = false;
    node_peers_member(a.peers, &b.identity.id, false);
    run_until(&a.ups, 2);
    close_table(&a);
    close_table(&b);
}

static void write_faults(const char *path, const struct gossip_id *id)
{
    char hex[GOSSIP_ID_HEX] = "";
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    if (id)
        gossip_id_hex(id, hex);
    fprintf(file, "# cut off\n%s\n", hex);
    assert_int_equal(fclose(file), 0);
}

// A cut link stands still and nobody hears of it, not even of its end; when the fault is over it goes on.
static void a_cut_link_stands_still(void **state)
{
    (void)state;
    struct table a, b;
    struct base_reason why;
    char path[] = "/tmp/p2pml-faults-XXXXXX";
    uint8_t packet[PACKET_BYTES] = {0};
    close(mkstemp(path));
    bind_table(&a, 1, "a");
    bind_table(&b, 2, "b");
    a.other = &b;
    b.other = &a;
    node_faults_destroy(a.faults);
    assert_int_equal(node_faults_create(path, &a.faults, &why), BASE_OK);
    open_table(&a, false);
    open_table(&b, false);
    node_peers_start(a.peers);
    node_peers_start(b.peers);
    node_peers_packet(b.peers, &a.identity.id, packet, sizeof packet);
    run_until(&a.packets, 1);
    write_faults(path, &b.identity.id);
    assert_int_equal(node_faults_reload(a.faults, &why), BASE_OK);
    node_peers_faults_changed(a.peers);
    packet[0] = 1;
    node_peers_packet(b.peers, &a.identity.id, packet, sizeof packet);
    node_peers_packet(a.peers, &b.identity.id, packet, sizeof packet); // lost
    for (int i = 0; i < 50; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
    assert_int_equal(a.packets, 1);
    assert_int_equal(b.packets, 0);
    write_faults(path, NULL);
    assert_int_equal(node_faults_reload(a.faults, &why), BASE_OK);
    node_peers_faults_changed(a.peers);
    run_until(&a.packets, 2); // it waited in the network
    write_faults(path, &b.identity.id);
    assert_int_equal(node_faults_reload(a.faults, &why), BASE_OK);
    node_peers_faults_changed(a.peers);
    node_peers_part(a.peers, &b.identity.id, GOSSIP_CLOSE_SILENT); // given up here, without a word there
    run_until(&a.downs, 1);
    for (int i = 0; i < 50; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
    assert_int_equal(b.downs, 0);
    write_faults(path, NULL);
    assert_int_equal(node_faults_reload(a.faults, &why), BASE_OK);
    run_until(&b.downs, 1);
    unlink(path);
    close_table(&a);
    close_table(&b);
}

static void byes_do_not_fill_the_log(void **state)
{
    (void)state;
    struct table t;
    struct guest guest;
    struct gossip_message bye = {.kind = GOSSIP_BYE, .as.bye.reason = "you are not welcome"};
    established = ended = heard = 0;
    bind_table(&t, 1, "a");
    open_table(&t, false);
    node_peers_start(t.peers);
    call(&guest, 1, node_listener_port(t.listener), false);
    run_until(&established, 1);
    greet(&guest, "b");
    run_until(&t.ups, 1);
    log_begin();
    for (int i = 0; i < 500; i++)
        say(&guest, &bye);
    run_until(&t.downs, 1); // by the first
    run_until(&ended, 1);
    assert_in_range(log_lines(), 1, 10);
    assert_int_equal(t.unreachables, 0);
    node_link_destroy(guest.link);
    close_table(&t);
}

static void coming_and_going_does_not_fill_the_log(void **state)
{
    (void)state;
    struct table t;
    const size_t n = 400;
    established = ended = heard = 0;
    bind_table(&t, 1, "a");
    open_table(&t, false);
    node_peers_start(t.peers);
    log_begin();
    for (size_t i = 0; i < n; i++) {
        struct guest guest;
        call(&guest, 1, node_listener_port(t.listener), false);
        run_until(&established, i + 1);
        greet(&guest, "b");
        run_until(&t.ups, i + 1);
        node_link_destroy(guest.link);
        run_until(&t.downs, i + 1);
    }
    assert_in_range(log_lines(), 10, 350); // of 800
    close_table(&t);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, make_base, free_base)
    const struct CMUnitTest tests[] = {
        CASE(choosing_a_link_loses_nothing),
        CASE(many_on_one_address_find_each_other),
        CASE(newer_links_do_not_disturb_one_that_works),
        CASE(ids_without_use_stay_within_the_limits),
        CASE(whoever_trains_something_else_is_refused),
        CASE(whoever_breaks_the_protocol_is_closed),
        CASE(a_name_may_be_had_twice),
        CASE(a_packet_calls_and_an_idle_link_ends),
        CASE(a_wanted_link_stays_and_comes_back),
        CASE(an_end_without_a_word_is_evidence),
        CASE(a_closed_port_is_evidence_of_who_was_reached),
        CASE(entries_of_the_living_are_left_alone),
        CASE(a_cut_link_stands_still),
        CASE(byes_do_not_fill_the_log),
        CASE(coming_and_going_does_not_fill_the_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
