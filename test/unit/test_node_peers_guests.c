// A table of links and peers that have the secret but break the rules: too many, too early, too often.
#include "node/net/listener.h"
#include "node/peers/peers.h"
#include "test_node_peers.h"

#include <event2/event.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

// A peer with the secret that does what a test asks: one bare link.

struct guest {
    struct node_link *link;
    struct gossip_identity identity;
    bool holds, closed; // holds: reads nothing from its socket after the handshake
    size_t *established, *ended, *messages;
};

static void guest_established(void *owner, const struct gossip_session_event *event)
{
    struct guest *g = owner;
    (void)event;
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

static const struct node_link_handler guest_handler = {guest_established, guest_message, guest_closed, NULL};

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
    assert_int_equal(connect(s, (struct sockaddr *)&address, sizeof address), 0); // the kernel accepts it
    assert_int_equal(evutil_make_socket_nonblocking(s), 0);
    static const struct gossip_secrets no_secret = {.count = 1};
    struct node_link_options options = {.base = base,
                                        .streams = streams,
                                        .socket = s,
                                        .initiator = true,
                                        .identity = &g->identity,
                                        .secrets = &no_secret,
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

static void begin_table(struct table *t, bool only_allowed)
{
    established = ended = heard = 0;
    bind_table(t, 1, "a");
    open_table(t, only_allowed);
    node_peers_start(t->peers);
}

// At the end the guest's link is active.
static void meet(struct table *t, struct guest *guest, const char *name)
{
    call(guest, 1, t->port, false);
    run_until(&established, 1);
    greet(guest, name);
    run_until(&t->ups, 1);
}

// What is written to stderr meanwhile, counted in lines.

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

// The node with the lower id decides; while the active link works, no other takes its place.
static void newer_links_do_not_disturb_a_working_one(void **state)
{
    (void)state;
    struct table t;
    struct guest first, more[20];
    uint32_t seed = 0;
    uint8_t bytes[LIMIT_MESSAGE_HEADER_BYTES];
    begin_table(&t, false);
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

// A link that has proven an id but is not active counts as half-open: neither ids that no allow-list names
// nor ids that never greet can fill the table, however many are made.
static void links_that_are_not_active_stay_within_the_limits(void **state)
{
    (void)state;
    for (int only_allowed = 0; only_allowed < 2; only_allowed++) {
        struct table t;
        static struct guest guests[3 * LIMIT_HALF_OPEN_ADDRESS];
        const size_t n = sizeof guests / sizeof *guests;
        begin_table(&t, only_allowed);
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

// Ends the guest's link by `break_it`.
static void expect_end(void (*break_it)(struct guest *g), size_t ups, size_t refused)
{
    for (uint32_t seed = 0; seed < 6; seed++) { // ids on both sides of the table's
        struct table t;
        struct guest guest;
        begin_table(&t, false);
        call(&guest, seed, node_listener_port(t.listener), false);
        run_until(&established, 1);
        break_it(&guest);
        run_until(&ended, 1);
        assert_int_equal(t.ups, ups);
        assert_int_equal(node_peers_counters(t.peers).refused, refused);
        assert_true(heard > 0 || !refused); // the other side learns the reason
        node_link_destroy(guest.link);
        run_until(&t.downs, ups);
        assert_int_equal(node_peers_counters(t.peers).links, 0);
        close_table(&t);
    }
}

static void greet_with(struct guest *g, uint64_t schema, uint64_t parameters, const char *rules,
                       const char *name)
{
    struct gossip_message message = {.kind = GOSSIP_GREETING};
    make_greeting(name, &message.as.greeting);
    message.as.greeting.schema = schema;
    message.as.greeting.parameters = parameters;
    snprintf(message.as.greeting.rules, sizeof message.as.greeting.rules, "%s", rules);
    say(g, &message);
}

static void another_schema(struct guest *g)
{
    greet_with(g, 2, 1, "", "b");
}

static void another_length(struct guest *g)
{
    greet_with(g, 1, UINT64_MAX, "", "b");
}

static void other_rules(struct guest *g)
{
    greet_with(g, 1, 1, "train.steps: 7", "b");
}

static void a_peer_that_trains_something_else_is_refused(void **state)
{
    (void)state;
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

static void a_peer_that_breaks_the_protocol_is_closed(void **state)
{
    (void)state;
    expect_end(say_nothing_known, 0, 0);
    expect_end(say_too_early, 0, 0);
    expect_end(greet_twice, 1, 0);
}

// Names are for users: a peer with the same name causes a message, and is accepted.
static void two_nodes_may_have_one_name(void **state)
{
    (void)state;
    struct table t;
    struct guest guest;
    begin_table(&t, false);
    meet(&t, &guest, "a");
    assert_int_equal(node_peers_counters(t.peers).refused, 0);
    node_link_destroy(guest.link);
    close_table(&t);
}

static void an_end_without_bye_is_evidence(void **state)
{
    (void)state;
    for (int says_bye = 0; says_bye < 2; says_bye++) {
        struct table t;
        struct guest guest;
        struct gossip_message bye = {.kind = GOSSIP_BYE, .as.bye.reason = "leaving"};
        begin_table(&t, false);
        meet(&t, &guest, "b");
        if (says_bye)
            say(&guest, &bye);
        node_link_destroy(guest.link);
        run_until(&t.downs, 1);
        assert_int_equal(t.unreachables, says_bye ? 0 : 1);
        close_table(&t);
    }
}

static void byes_do_not_fill_the_log(void **state)
{
    (void)state;
    struct table t;
    struct guest guest;
    struct gossip_message bye = {.kind = GOSSIP_BYE, .as.bye.reason = "you are not welcome"};
    begin_table(&t, false);
    meet(&t, &guest, "b");
    log_begin();
    for (int i = 0; i < 500; i++)
        say(&guest, &bye);
    run_until(&t.downs, 1); // by the first one
    run_until(&ended, 1);
    assert_in_range(log_lines(), 1, 10);
    assert_int_equal(t.unreachables, 0);
    node_link_destroy(guest.link);
    close_table(&t);
}

static void links_that_come_and_go_do_not_fill_the_log(void **state)
{
    (void)state;
    struct table t;
    const size_t n = 400;
    begin_table(&t, false);
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
        CASE(newer_links_do_not_disturb_a_working_one),
        CASE(links_that_are_not_active_stay_within_the_limits),
        CASE(a_peer_that_trains_something_else_is_refused),
        CASE(a_peer_that_breaks_the_protocol_is_closed),
        CASE(two_nodes_may_have_one_name),
        CASE(an_end_without_bye_is_evidence),
        CASE(byes_do_not_fill_the_log),
        CASE(links_that_come_and_go_do_not_fill_the_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
