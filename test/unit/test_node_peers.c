// Whole tables of links under one event base, over loopback: two nodes that call each other.
#include "test_node_peers.h"
#include "node/peers/peers.h"
#include "node/queue/clock.h"

#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

// As gossip/host does.
static void tell(struct node_peers *peers, struct gossip_links_event event)
{
    event.now_ns = node_clock_ns();
    assert_int_equal(gossip_links_step(node_peers_rules(peers), &event), BASE_OK);
    node_peers_tick(peers, event.now_ns);
}

static void want(struct node_peers *peers, const struct gossip_id *ids, size_t count)
{
    tell(peers, (struct gossip_links_event){.kind = GOSSIP_LINKS_WANT, .ids = ids, .count = count});
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
        node_peers_start(run % 2 ? a.peers : b.peers); // both call at once: two links, of which one is chosen
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

// More nodes than may have half-open links from one address call all at once. A busy machine delays links for
// seconds, so that newer ones take over and some are considered dead: in the end all are linked, and no
// duplicate identity is reported.
static void many_nodes_on_one_address_find_each_other(void **state)
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
    struct gossip_id ids[MANY];
    for (size_t i = 0; i < MANY; i++)
        ids[i] = tables[i].identity.id;
    for (size_t i = 0; i < MANY; i++) {
        want(tables[i].peers, ids, MANY); // unwanted links end before the last ones are made
        node_peers_start(tables[i].peers);
    }
    run_until(&in_use, MANY * (MANY - 1));
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(node_peers_counters(tables[i].peers).links, MANY - 1);
        assert_int_equal(tables[i].twins, 0);
    }
    for (size_t i = 0; i < MANY; i++)
        close_table(&tables[i]);
}

static void make_pair(struct table *a, struct table *b)
{
    bind_table(a, 1, "a");
    bind_table(b, 2, "b");
    introduce(a, b);
    introduce(b, a);
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

// Each end says by number what the other speaks, and which of the two is to be updated. No death is
// suspected, and the links to others stay.
static void another_protocol_is_named_on_both_ends(void **state)
{
    (void)state;
    struct table a, b, c;
    bind_table(&a, 1, "a");
    bind_table(&b, 2, "b");
    bind_table(&c, 3, "c");
    a.protocols = (struct gossip_protocols){7, 8};
    b.protocols = (struct gossip_protocols){9, 9};
    c.protocols = (struct gossip_protocols){8, 9}; // speaks with both
    introduce(&a, &b);
    list(&a, b.address);
    list(&a, c.address);
    list(&b, c.address);
    struct table *tables[] = {&a, &b, &c};
    for (size_t i = 0; i < 3; i++)
        open_table(tables[i], false);
    const struct gossip_id ids[] = {a.identity.id, b.identity.id, c.identity.id};
    for (size_t i = 0; i < 3; i++) {
        want(tables[i]->peers, ids, 3);
        node_peers_start(tables[i]->peers);
    }
    run_until(&a.ups, 1);
    run_until(&b.ups, 1);
    run_until(&c.ups, 2);
    while (!node_peers_refusal(a.peers)[0] || !node_peers_refusal(b.peers)[0])
        event_base_loop(base, EVLOOP_ONCE);
    assert_non_null(strstr(node_peers_refusal(a.peers), "b "));
    assert_non_null(strstr(node_peers_refusal(a.peers), b.address));
    assert_non_null(strstr(node_peers_refusal(a.peers),
                           ": it speaks protocol 9, this node protocols 7 to 8: update p2pml here"));
    assert_non_null(strstr(node_peers_refusal(b.peers),
                           ": it speaks protocols 7 to 8, this node protocol 9: update p2pml there"));
    assert_int_equal(node_peers_entry(a.peers, 0)->state, GOSSIP_ENTRY_REFUSED);
    assert_in_range(node_peers_counters(a.peers).refused, 1, 4);
    assert_in_range(node_peers_counters(b.peers).refused, 1, 4);
    assert_int_equal(in_use, 4);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(tables[i]->downs + tables[i]->unreachables + tables[i]->twins, 0);
        assert_int_equal(node_peers_counters(tables[i]->peers).strangers, 0);
        close_table(tables[i]);
    }
}

// A packet makes the node call the member, and is sent over the link. Then the link is no longer needed, and
// its end says nothing about the member.
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
    node_peers_packet(a.peers, &b.identity.id, packet, sizeof packet); // over the existing link
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
    want(a.peers, &b.identity.id, 1);
    want(b.peers, &a.identity.id, 1);
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
    want(a.peers, NULL, 0);
    want(b.peers, NULL, 0);
    nobody_needs_a_link(&a, &b);
    run_until(&a.downs, 2);
    close_table(&a);
    close_table(&b);
}

// The refused end receives what was sent before the BYE, which ends the link there: otherwise it does not
// learn the reason.
static void an_end_refused_for_its_scaling_receives_the_other_first(void **state)
{
    (void)state;
    for (int run = 0; run < 10; run++) {
        struct table a, b;
        make_pair(&a, &b);
        a.sends = true; // all of it is still queued when the link must end
        a.parts = GOSSIP_CLOSE_OTHER_SCALING;
        want(a.peers, &b.identity.id, 1);
        run_until(&b.downs, 1);
        assert_int_equal(b.messages, NUMBERED);
        close_table(&a);
        close_table(&b);
    }
}

// A closed port where the member was reached before is evidence, too. Where it was never reached, a firewall
// may answer for it; and without an address there is nothing to report.
static void a_closed_port_is_evidence_where_the_member_was_reached(void **state)
{
    (void)state;
    struct table a, b;
    uint8_t packet[PACKET_BYTES] = {0};
    bind_table(&a, 1, "a");
    bind_table(&b, 2, "b");
    const struct gossip_id peer = b.identity.id;
    open_table(&a, false);
    open_table(&b, false);
    node_peers_start(a.peers);
    node_peers_start(b.peers);
    node_peers_packet(a.peers, &peer, packet, sizeof packet);
    for (int i = 0; i < 20; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
    introduce(&a, &b);
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

// An entry that stands for a living member is not called; when membership gives the member up, it is.
static void entries_of_living_members_are_not_called(void **state)
{
    (void)state;
    struct table a, b;
    bind_table(&a, 1, "a");
    bind_table(&b, 2, "b");
    list(&a, b.address);
    list(&a, a.address); // and this one leads to a itself
    open_table(&a, false);
    open_table(&b, false);
    introduce(&a, &b);
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
    step_membership(&b, (struct gossip_membership_event){.kind = GOSSIP_MEMBERSHIP_LEAVE});
    introduce(&a, &b);
    assert_false(gossip_membership_is_here(a.membership, &b.identity.id));
    tell(a.peers, (struct gossip_links_event){.kind = GOSSIP_LINKS_MEMBER, .peer = b.identity.id});
    run_until(&a.ups, 2);
    close_table(&a);
    close_table(&b);
}

// An event between the answer of the resolver and the actions that follow from it.
struct between {
    struct event *event;
    struct table *table;
    bool seen; // `event` runs for the second time, behind the answer
};

static void leave_between(evutil_socket_t socket, short what, void *argument)
{
    (void)socket;
    (void)what;
    struct between *between = argument;
    if (between->seen)
        node_peers_leave(between->table->peers);
    else
        event_active(between->event, EV_TIMEOUT, 0);
    between->seen = true;
}

// A call is decided, and its link closed, before it is made: it ends, and so does one that cannot be made.
static void a_node_may_leave_while_a_call_waits(void **state)
{
    (void)state;
    char entries[][32] = {"127.0.0.1:1", "255.255.255.255:1"};
    for (size_t i = 0; i < 2; i++) {
        struct table a;
        struct between between = {.table = &a};
        bind_table(&a, 1, "a");
        list(&a, entries[i]);
        open_table(&a, false);
        node_peers_start(a.peers);
        event_base_loop(base,
                        EVLOOP_ONCE | EVLOOP_NONBLOCK); // asks the resolver, which knows numbers at once
        between.event = event_new(base, -1, 0, leave_between, &between);
        event_active(between.event, EV_TIMEOUT, 0);
        for (int turn = 0; turn < 20; turn++)
            event_base_loop(base, EVLOOP_NONBLOCK);
        assert_true(between.seen);
        assert_int_equal(node_peers_counters(a.peers).links, 0);
        event_free(between.event);
        close_table(&a);
    }
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

// A cut link stands still, and no node learns of it, not even of its end; when the fault is over it goes on.
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
    introduce(&a, &b);
    introduce(&b, &a);
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
    node_peers_part(a.peers, &b.identity.id, GOSSIP_CLOSE_SILENT); // given up here, without a BYE
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

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, make_base, free_base)
    const struct CMUnitTest tests[] = {
        CASE(choosing_a_link_loses_nothing),
        CASE(many_nodes_on_one_address_find_each_other),
        CASE(another_protocol_is_named_on_both_ends),
        CASE(a_packet_calls_and_an_idle_link_ends),
        CASE(a_wanted_link_stays_and_comes_back),
        CASE(an_end_refused_for_its_scaling_receives_the_other_first),
        CASE(a_closed_port_is_evidence_where_the_member_was_reached),
        CASE(entries_of_living_members_are_not_called),
        CASE(a_node_may_leave_while_a_call_waits),
        CASE(a_cut_link_stands_still),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
