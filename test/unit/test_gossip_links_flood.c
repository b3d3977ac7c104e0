// A flood of connections: which ones count, which give way, and that no member is kept out.
#include "gossip/links/links.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define S 1000000000ull

enum { SELF = 5, HIGH = 9 }; // first bytes of ids

static struct {
    struct gossip_links *links;
    struct gossip_greeting greeting;
    uint64_t now_ns, gave_way; // gave_way: the link that the latest call displaced; 0: none
} w;

static int begin(void **state)
{
    (void)state;
    memset(&w, 0, sizeof w);
    w.now_ns = 100 * S;
    w.greeting = (struct gossip_greeting){.schema = 2, .parameters = 3, .instance_id = 77};
    const struct gossip_links_options options = {
        .self.bytes = {SELF}, .greeting = &w.greeting, .entries = 1, .now_ns = w.now_ns};
    return !gossip_links_create(&options, &w.links) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    gossip_links_destroy(w.links);
    return 0;
}

static void drain(void)
{
    struct gossip_links_action action;
    w.gave_way = 0;
    while (gossip_links_next(w.links, &action))
        if (action.kind == GOSSIP_LINKS_CLOSE && action.why == GOSSIP_CLOSE_CROWDED)
            w.gave_way = action.link;
    gossip_links_check(w.links);
}

static void say(struct gossip_links_event event)
{
    event.now_ns = w.now_ns;
    assert_int_equal(gossip_links_step(w.links, &event), BASE_OK);
    drain();
}

static uint64_t accept_from(uint64_t host)
{
    uint64_t link = gossip_links_accept(w.links, w.now_ns, host, false, NULL);
    drain();
    return link;
}

static void prove(uint64_t link, uint8_t first)
{
    say((struct gossip_links_event){.kind = GOSSIP_LINKS_AUTHENTICATED,
                                    .protocol = GOSSIP_PROTOCOL,
                                    .link = link,
                                    .peer.bytes = {first},
                                    .alive = true});
}

static void greet(uint64_t link, uint64_t schema)
{
    struct gossip_greeting theirs = w.greeting;
    theirs.schema = schema;
    say((struct gossip_links_event){.kind = GOSSIP_LINKS_GREETING, .link = link, .greeting = &theirs});
}

static void ended(uint64_t link)
{
    say((struct gossip_links_event){.kind = GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_OTHER});
}

static struct gossip_links_totals totals(void)
{
    struct gossip_links_totals now;
    gossip_links_totals(w.links, &now);
    return now;
}

static void one_host_displaces_only_itself(void **state)
{
    (void)state;
    uint64_t member = accept_from(2), first = accept_from(1);
    for (size_t i = 1; i < LIMIT_HALF_OPEN_ADDRESS; i++)
        assert_true(accept_from(1) != 0 && w.gave_way == 0);
    assert_true(accept_from(1) != 0);
    assert_int_equal(w.gave_way, first);
    for (size_t i = 0; i < 1000; i++) { // their ends are reported late
        assert_true(accept_from(1) != 0);
        assert_true(w.gave_way != 0 && w.gave_way != first && w.gave_way != member);
    }
    assert_int_equal(totals().half_open, LIMIT_HALF_OPEN_ADDRESS + 1);
    prove(member, HIGH);
    greet(member, 2);
    assert_int_equal(totals().active, 1);
    assert_int_equal(totals().turned_away, 1001);
}

// The oldest link of the host that has the most links: a member is not the first to go when many hosts flood.
static void many_hosts_displace_their_oldest_link(void **state)
{
    (void)state;
    uint64_t member = accept_from(1), link[LIMIT_HALF_OPEN];
    for (size_t i = 1; i < LIMIT_HALF_OPEN; i++)
        link[i] = accept_from(100 + i % 8);
    assert_int_equal(totals().half_open, LIMIT_HALF_OPEN);
    assert_true(accept_from(1000) != 0);
    assert_int_equal(w.gave_way, link[1]);
    for (size_t i = 2; i < 40; i++) {
        ended(w.gave_way);
        assert_true(accept_from(1000 + i) != 0);
        assert_true(w.gave_way != 0 && w.gave_way != member);
        assert_int_equal(totals().half_open, LIMIT_HALF_OPEN);
    }
    prove(member, HIGH);
    greet(member, 2);
    assert_int_equal(totals().active, 1);
    assert_int_equal(totals().half_open, LIMIT_HALF_OPEN - 1);
}

// A link that has proven its identity counts until it is active, and does not give way. A refused one that
// does not end gives way.
static void an_authenticated_link_does_not_give_way(void **state)
{
    (void)state;
    uint64_t link[LIMIT_HALF_OPEN_ADDRESS];
    for (size_t i = 0; i < LIMIT_HALF_OPEN_ADDRESS; i++) {
        link[i] = accept_from(1);
        prove(link[i], (uint8_t)(HIGH + i));
    }
    assert_int_equal(accept_from(1), 0);
    assert_int_equal(w.gave_way, 0);
    greet(link[3], 2);
    assert_true(accept_from(1) != 0);
    assert_int_equal(w.gave_way, 0);
    greet(link[5], 99); // another model: refused, and the peer does not read
    assert_true(accept_from(1) != 0);
    assert_int_equal(w.gave_way, link[5]);
    ended(link[5]);
    assert_int_equal(totals().half_open, LIMIT_HALF_OPEN_ADDRESS);
}

// Members on one host that call all at once do not displace each other before their handshakes can end.
static void a_peer_that_knows_the_secret_gets_time_for_its_handshake(void **state)
{
    (void)state;
    uint64_t link[LIMIT_HALF_OPEN_ADDRESS];
    for (size_t i = 0; i < LIMIT_HALF_OPEN_ADDRESS; i++)
        link[i] = accept_from(1);
    for (size_t i = 0; i < LIMIT_HALF_OPEN_ADDRESS - 1; i++)
        say((struct gossip_links_event){.kind = GOSSIP_LINKS_ANSWERED, .link = link[i]});
    uint64_t silent = accept_from(1);
    assert_true(silent != 0);
    assert_int_equal(w.gave_way, link[LIMIT_HALF_OPEN_ADDRESS - 1]);
    say((struct gossip_links_event){.kind = GOSSIP_LINKS_ANSWERED, .link = silent});
    assert_int_equal(accept_from(1), 0);
    prove(link[0], HIGH);
    w.now_ns += GOSSIP_LINKS_ANSWERED_NS - 1;
    assert_int_equal(accept_from(1), 0);
    w.now_ns++;
    assert_true(accept_from(1) != 0); // a recorded first message does not hold its place for long
    assert_int_equal(w.gave_way, link[1]);
}

// Answers to a first message that was recorded and is replayed from many hosts.
static void replayed_first_messages_keep_no_member_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < 1000; i++) {
        uint64_t stranger = accept_from(100 + i % 8);
        if (stranger)
            say((struct gossip_links_event){.kind = GOSSIP_LINKS_ANSWERED, .link = stranger});
    }
    uint64_t member = accept_from(1);
    assert_true(member != 0 && w.gave_way != 0);
    say((struct gossip_links_event){.kind = GOSSIP_LINKS_ANSWERED, .link = member});
    for (size_t i = 0; i < 30; i++) {
        (void)accept_from(100 + i % 8);
        assert_true(w.gave_way != member);
    }
    prove(member, HIGH);
    greet(member, 2);
    assert_int_equal(totals().active, 1);
}

// With as many links as there may be, one more is turned away, and none gives way for it.
static void a_full_node_turns_away_without_a_victim(void **state)
{
    (void)state;
    uint64_t host = 0;
    for (uint64_t link; (link = accept_from(++host)) != 0;) {
        struct gossip_links_event proof = {
            .kind = GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .alive = true};
        memcpy(proof.peer.bytes, &host, sizeof host);
        proof.peer.bytes[0] = HIGH;
        proof.peer.bytes[8] = (uint8_t)host;
        say(proof);
        greet(link, 2);
    }
    assert_int_equal(w.gave_way, 0);
    assert_int_equal(totals().turned_away, 1);
    assert_int_equal(totals().links, GOSSIP_LINKS_MAX - 1); // the rest is for its own calls
}

// Connections that came and went leave nothing behind.
static void a_flood_leaves_nothing_behind(void **state)
{
    (void)state;
    for (size_t i = 0; i < 5000; i++) {
        assert_true(accept_from(i % 200) != 0);
        if (w.gave_way)
            ended(w.gave_way);
    }
    w.now_ns += LIMIT_HANDSHAKE_NS;
    struct gossip_links_action action;
    const struct gossip_links_event timer = {.kind = GOSSIP_LINKS_TIMER, .now_ns = w.now_ns};
    assert_int_equal(gossip_links_step(w.links, &timer), BASE_OK);
    uint64_t closed[LIMIT_HALF_OPEN];
    size_t n = 0;
    while (gossip_links_next(w.links, &action))
        if (action.kind == GOSSIP_LINKS_CLOSE && n < LIMIT_HALF_OPEN)
            closed[n++] = action.link;
    assert_int_equal(n, LIMIT_HALF_OPEN);
    for (size_t i = 0; i < n; i++)
        ended(closed[i]);
    assert_int_equal(totals().links, 0);
    assert_int_equal(totals().half_open, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(one_host_displaces_only_itself),
        CASE(many_hosts_displace_their_oldest_link),
        CASE(an_authenticated_link_does_not_give_way),
        CASE(a_peer_that_knows_the_secret_gets_time_for_its_handshake),
        CASE(replayed_first_messages_keep_no_member_out),
        CASE(a_full_node_turns_away_without_a_victim),
        CASE(a_flood_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
