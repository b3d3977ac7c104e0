// The rules of links, one by one: which entries and members are called, and when.
#include "gossip/links/links.h"
#include "test/support/links_rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void pauses_between_calls_double_up_to_a_limit(void **state)
{
    (void)state;
    uint64_t pause_ns = GOSSIP_LINKS_PAUSE_MIN_NS;
    without_entries();
    SAY(GOSSIP_LINKS_START);
    want(HIGH);
    for (size_t turn = 0; turn < 10; turn++) {
        assert_non_null(find(GOSSIP_LINKS_RESOLVE));
        uint64_t link = call_of_member(HIGH), ended_ns = w.now_ns;
        SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_OTHER);
        uint64_t waited_ns = until(GOSSIP_LINKS_RESOLVE, 16 * S) - ended_ns;
        assert_in_range(waited_ns, pause_ns / 2, pause_ns / 2 * 3);
        pause_ns = 2 * pause_ns < GOSSIP_LINKS_PAUSE_MEMBER_NS ? 2 * pause_ns : GOSSIP_LINKS_PAUSE_MEMBER_NS;
    }
}

// A link may end before START; its peer is called once START comes.
static void no_peer_is_called_before_the_start(void **state)
{
    (void)state;
    without_entries();
    want(HIGH);
    SAY(GOSSIP_LINKS_ENDED, .link = accept_active(HIGH), .end = GOSSIP_END_OTHER);
    quiet(60 * S, GOSSIP_LINKS_RESOLVE);
    SAY(GOSSIP_LINKS_START);
    assert_non_null(find(GOSSIP_LINKS_RESOLVE));
}

static void all_wanted_members_are_called_at_the_start(void **state)
{
    enum { MANY = 150 };
    struct gossip_id ids[MANY];
    (void)state;
    for (size_t i = 0; i < MANY; i++)
        ids[i] = (struct gossip_id){.bytes = {HIGH, (uint8_t)i}};
    SAY(GOSSIP_LINKS_WANT, .ids = ids, .count = MANY);
    assert_null(find(GOSSIP_LINKS_RESOLVE));
    SAY(GOSSIP_LINKS_START);
    assert_int_equal(w.actions, MANY + 1); // and the entry
    for (size_t i = 0; i < w.actions; i++)
        assert_int_equal(w.action[i].kind, GOSSIP_LINKS_RESOLVE);
    SAY(GOSSIP_LINKS_LEAVE);
    SAY(GOSSIP_LINKS_LEAVE); // says nothing new
    assert_int_equal(w.actions, 0);
    SAY(GOSSIP_LINKS_PACKET, .peer = id(LOW), .bytes = (const uint8_t *)"", .count = 1);
    assert_int_equal(w.actions, 0);
    struct gossip_links_totals totals;
    gossip_links_totals(w.links, &totals);
    assert_int_equal(totals.packets, 0);
}

static void a_packet_to_this_node_goes_nowhere(void **state)
{
    struct gossip_links_totals totals;
    (void)state;
    SAY(GOSSIP_LINKS_START);
    SAY(GOSSIP_LINKS_PACKET, .peer = id(SELF), .bytes = (const uint8_t *)"", .count = 1);
    gossip_links_totals(w.links, &totals);
    assert_int_equal(totals.packets, 0);
    assert_int_equal(totals.calls, 0);
    assert_int_equal(w.actions, 0);
}

// If this node has a link, the call of an entry may wait; without one, the entry is all that it has.
static void a_node_without_links_calls_its_entries_often(void **state)
{
    (void)state;
    uint64_t pause_ns = GOSSIP_LINKS_PAUSE_MIN_NS, link = 0;
    SAY(GOSSIP_LINKS_START);
    for (size_t turn = 0; turn < 24; turn++) {
        const uint64_t most_ns =
            turn < 8 || turn >= 16 ? GOSSIP_LINKS_PAUSE_LONELY_NS : GOSSIP_LINKS_PAUSE_MAX_NS;
        uint64_t called = call_of_entry(0, 1), ended_ns = w.now_ns;
        if (turn == 8) {
            link = accept_active(HIGH);
            SAY(GOSSIP_LINKS_STALLED, .link = link, .on = true); // a stalled link does not end as idle
        }
        if (turn == 16)
            SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_OTHER);
        pause_ns = pause_ns < most_ns ? pause_ns : most_ns;
        SAY(GOSSIP_LINKS_ENDED, .link = called, .end = GOSSIP_END_OTHER);
        uint64_t waited_ns = until(GOSSIP_LINKS_RESOLVE, 16 * S) - ended_ns;
        assert_in_range(waited_ns, pause_ns / 2, pause_ns / 2 * 3);
        pause_ns = 2 * pause_ns < most_ns ? 2 * pause_ns : most_ns;
    }
}

static void call_until_pauses_are_long(void)
{
    SAY(GOSSIP_LINKS_START);
    (void)accept_active(LOW);
    for (size_t turn = 0; turn < 8; turn++) {
        uint64_t called = call_of_entry(0, 1);
        SAY(GOSSIP_LINKS_ENDED, .link = called, .end = GOSSIP_END_OTHER);
        (void)until(GOSSIP_LINKS_RESOLVE, 16 * S);
    }
    SAY(GOSSIP_LINKS_ENDED, .link = call_of_entry(0, 1), .end = GOSSIP_END_OTHER);
}

// A caller may be the node behind an entry without an answer: the entry is called soon, not after a long
// pause.
static void unanswered_entries_are_called_again_when_another_node_calls(void **state)
{
    (void)state;
    call_until_pauses_are_long();
    const uint64_t now_ns = w.now_ns;
    (void)accept_active(HIGH);
    assert_in_range(until(GOSSIP_LINKS_RESOLVE, 16 * S) - now_ns, 0, GOSSIP_LINKS_PAUSE_MIN_NS / 2 * 3);
}

// Its own call tells a node nothing of the hosts behind other entries; a member that is dead, nothing at all.
static void an_answer_to_a_call_hurries_no_entry(void **state)
{
    (void)state;
    call_until_pauses_are_long();
    want(HIGH);
    const uint64_t link = call_of_member(HIGH), now_ns = w.now_ns;
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(HIGH),
        .alive = true);
    greet_with_life(link, 1);
    need(GOSSIP_LINKS_UP);
    SAY(GOSSIP_LINKS_MEMBER, .peer = id(HIGHER), .alive = false);
    assert_true(until(GOSSIP_LINKS_RESOLVE, 16 * S) - now_ns > GOSSIP_LINKS_PAUSE_MIN_NS / 2 * 3);
}

static void a_dead_member_is_not_called_sooner_for_being_dead(void **state)
{
    (void)state;
    without_entries();
    SAY(GOSSIP_LINKS_START);
    want(HIGH);
    for (size_t turn = 0; turn < 6; turn++) {
        const uint64_t link = call_of_member(HIGH);
        SAY(GOSSIP_LINKS_MEMBER, .peer = id(HIGH), .alive = false);
        SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_OTHER);
        const uint64_t now_ns = w.now_ns;
        SAY(GOSSIP_LINKS_MEMBER, .peer = id(HIGH), .alive = false);
        const uint64_t waited_ns = until(GOSSIP_LINKS_RESOLVE, 16 * S) - now_ns;
        if (turn == 5)
            assert_true(waited_ns > GOSSIP_LINKS_PAUSE_MIN_NS / 2 * 3);
    }
    SAY(GOSSIP_LINKS_MEMBER, .peer = id(HIGH), .alive = true); // that is news, once
    for (size_t turn = 0; turn < 6; turn++) {
        SAY(GOSSIP_LINKS_ENDED, .link = call_of_member(HIGH), .end = GOSSIP_END_OTHER);
        const uint64_t now_ns = w.now_ns;
        SAY(GOSSIP_LINKS_MEMBER, .peer = id(HIGH), .alive = true);
        const uint64_t waited_ns = until(GOSSIP_LINKS_RESOLVE, 16 * S) - now_ns;
        if (turn == 5)
            assert_true(waited_ns > GOSSIP_LINKS_PAUSE_MIN_NS / 2 * 3);
    }
}

// The member joined through another one: this node has no link to it.
static void unanswered_entries_are_called_again_when_a_member_joins(void **state)
{
    (void)state;
    call_until_pauses_are_long();
    const uint64_t now_ns = w.now_ns;
    SAY(GOSSIP_LINKS_MEMBER, .peer = id(HIGH), .alive = true);
    assert_in_range(until(GOSSIP_LINKS_RESOLVE, 16 * S) - now_ns, 0, GOSSIP_LINKS_PAUSE_MIN_NS / 2 * 3);
}

static void every_address_is_tried_before_a_pause(void **state)
{
    (void)state;
    bool seen[3] = {false};
    SAY(GOSSIP_LINKS_START);
    SAY(GOSSIP_LINKS_RESOLVED, .target = {.entry = 0}, .count = 3);
    for (size_t i = 0; i < 3; i++) {
        const struct gossip_links_action *call = need(GOSSIP_LINKS_CALL);
        assert_false(seen[call->address]);
        seen[call->address] = true;
        SAY(GOSSIP_LINKS_ENDED, .link = call->link, .end = GOSSIP_END_REFUSED);
    }
    assert_null(find(GOSSIP_LINKS_CALL));
    assert_in_range(until(GOSSIP_LINKS_RESOLVE, S) - 100 * S, 0, 300 * MS);
}

// The owner may say LEAVE while actions wait: the call is then carried out, and its link closed.
static void a_call_that_is_closed_before_it_is_made_has_its_owner(void **state)
{
    (void)state;
    int owner = 0;
    struct gossip_links_action call, close;
    SAY(GOSSIP_LINKS_START);
    const struct gossip_links_event resolved = {
        .kind = GOSSIP_LINKS_RESOLVED, .now_ns = w.now_ns, .target = {.entry = 0}, .count = 1};
    const struct gossip_links_event leave = {.kind = GOSSIP_LINKS_LEAVE, .now_ns = w.now_ns};
    assert_int_equal(gossip_links_step(w.links, &resolved), BASE_OK);
    assert_int_equal(gossip_links_step(w.links, &leave), BASE_OK);
    assert_true(gossip_links_next(w.links, &call) && call.kind == GOSSIP_LINKS_CALL);
    gossip_links_bind(w.links, call.link, &owner);
    assert_true(gossip_links_next(w.links, &close) && close.kind == GOSSIP_LINKS_CLOSE);
    assert_true(close.link == call.link && close.owner == &owner);
    SAY(GOSSIP_LINKS_ENDED, .link = call.link, .end = GOSSIP_END_OTHER);
}

static void a_call_may_take_five_seconds_and_an_accepted_handshake_three(void **state)
{
    (void)state;
    SAY(GOSSIP_LINKS_START);
    uint64_t link = call_of_entry(0, 1), begin_ns = w.now_ns;
    uint64_t accepted = gossip_links_accept(w.links, w.now_ns, 1, false, NULL);
    assert_int_equal(until(GOSSIP_LINKS_CLOSE, 6 * S) - begin_ns, LIMIT_HANDSHAKE_NS);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->link, accepted);
    assert_int_equal(until(GOSSIP_LINKS_CLOSE, 6 * S) - begin_ns, GOSSIP_LINKS_CALL_NS);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->link, link);
    accept_authenticated(HIGH, true);
    begin_ns = w.now_ns;
    assert_int_equal(until(GOSSIP_LINKS_CLOSE, 11 * S) - begin_ns, GOSSIP_LINKS_GREETING_NS);
    // The other end may already use the link: without a BYE it would think that this node has died.
    const char *bye = gossip_close_bye(need(GOSSIP_LINKS_CLOSE)->why);
    assert_non_null(bye);
    assert_int_equal(gossip_close_of(bye), GOSSIP_CLOSE_NO_GREETING);
}

// The entry stands for HIGH, which is alive; the link to it has ended as idle.
static void entry_stands_for_a_member(size_t addresses)
{
    SAY(GOSSIP_LINKS_START);
    uint64_t link = call_of_entry(0, addresses);
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(HIGH),
        .alive = true);
    assert_int_equal(gossip_links_entry(w.links, 0)->state, GOSSIP_ENTRY_MEMBER);
    greet_with_life(link, 1);
    need(GOSSIP_LINKS_UP);
    until(GOSSIP_LINKS_CLOSE, 11 * S);
    SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_OTHER);
}

// From time to time its name is looked up: it may lead to more hosts by then.
static uint64_t look(void)
{
    const uint64_t begin_ns = w.now_ns;
    return until(GOSSIP_LINKS_RESOLVE, GOSSIP_LINKS_LOOK_NS / 2 * 3) - begin_ns;
}

static void entries_of_living_members_are_not_called(void **state)
{
    (void)state;
    entry_stands_for_a_member(1);
    for (size_t i = 0; i < 10; i++) {
        look();
        SAY(GOSSIP_LINKS_RESOLVED, .target = {.entry = 0}, .count = 1);
        assert_null(find(GOSSIP_LINKS_CALL));
    }
    SAY(GOSSIP_LINKS_MEMBER, .peer = id(HIGH), .alive = false);
    until(GOSSIP_LINKS_RESOLVE, S);
    SAY(GOSSIP_LINKS_RESOLVED, .target = {.entry = 0}, .count = 1);
    need(GOSSIP_LINKS_CALL);
}

// Two clusters behind one name: the entry of each node leads to a member of its own cluster, until it looks
// for others.
static void an_entry_with_many_addresses_looks_for_others(void **state)
{
    (void)state;
    bool seen[3] = {false};
    entry_stands_for_a_member(3);
    for (size_t i = 0; i < 40; i++) {
        if (i > 0)
            assert_in_range(look(), GOSSIP_LINKS_LOOK_NS / 2, GOSSIP_LINKS_LOOK_NS / 2 * 3);
        else
            look(); // the first one was due while the link was idle
        SAY(GOSSIP_LINKS_RESOLVED, .target = {.entry = 0}, .count = 3);
        const struct gossip_links_action call = *need(GOSSIP_LINKS_CALL);
        seen[call.address] = true;
        if (i % 4 == 0) { // no answer
            SAY(GOSSIP_LINKS_ENDED, .link = call.link, .end = GOSSIP_END_REFUSED);
        } else if (i % 4 == 1) { // this node itself
            SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = call.link, .peer = id(SELF));
            greet_with_life(call.link, w.greeting.instance_id);
            SAY(GOSSIP_LINKS_ENDED, .link = call.link, .end = GOSSIP_END_OTHER);
        } else { // a member, with a link or without one: no new link is made
            SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = call.link,
                .peer = id(i % 4 == 2 ? HIGH : LOW), .alive = true);
            assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_NOT_NEEDED);
            SAY(GOSSIP_LINKS_ENDED, .link = call.link, .end = GOSSIP_END_OTHER);
        }
        assert_null(find(GOSSIP_LINKS_CALL)); // one address at a time
        assert_int_equal(gossip_links_entry(w.links, 0)->state, GOSSIP_ENTRY_MEMBER);
        assert_int_equal(gossip_links_entry(w.links, 0)->id.bytes[0], HIGH);
    }
    assert_true(seen[0] && seen[1] && seen[2]);
    look();
    uint64_t link = call_of_entry(0, 3);
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link,
        .peer = id(HIGHER)); // of the other cluster
    greet_with_life(link, 2);
    assert_int_equal(need(GOSSIP_LINKS_UP)->link, link);
}

// News of the member do not put off the look for others.
static void looks_for_others_are_not_put_off(void **state)
{
    (void)state;
    entry_stands_for_a_member(1);
    look();
    SAY(GOSSIP_LINKS_RESOLVED, .target = {.entry = 0}, .count = 1);
    const uint64_t begin_ns = w.now_ns;
    bool looked = false;
    while (!looked && w.now_ns - begin_ns < GOSSIP_LINKS_LOOK_NS / 2 * 3) {
        SAY(GOSSIP_LINKS_MEMBER, .peer = id(HIGH), .alive = true);
        w.now_ns += S;
        SAY(GOSSIP_LINKS_TIMER);
        looked = find(GOSSIP_LINKS_RESOLVE) != NULL;
    }
    assert_true(looked);
}

// A look that has found this node itself does not count in the call that comes after it.
static void a_look_that_finds_this_node_is_forgotten(void **state)
{
    (void)state;
    entry_stands_for_a_member(2);
    look();
    uint64_t link = call_of_entry(0, 2);
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(SELF));
    greet_with_life(link, w.greeting.instance_id);
    SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_OTHER);
    SAY(GOSSIP_LINKS_MEMBER, .peer = id(HIGH), .alive = false);
    until(GOSSIP_LINKS_RESOLVE, 20 * S);
    SAY(GOSSIP_LINKS_ENDED, .link = call_of_entry(0, 1), .end = GOSSIP_END_REFUSED);
    assert_int_not_equal(gossip_links_entry(w.links, 0)->state, GOSSIP_ENTRY_SELF);
}

// The member dies while its entry is being looked up: the look becomes a call that tries all addresses.
static void a_look_goes_on_to_all_addresses_when_its_member_dies(void **state)
{
    (void)state;
    entry_stands_for_a_member(2);
    look();
    uint64_t link = call_of_entry(0, 2);
    SAY(GOSSIP_LINKS_MEMBER, .peer = id(HIGH), .alive = false);
    SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_REFUSED);
    until(GOSSIP_LINKS_RESOLVE, S);
    for (size_t i = 0; i < 2; i++) {
        link = i == 0 ? call_of_entry(0, 2) : need(GOSSIP_LINKS_CALL)->link;
        SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_REFUSED);
    }
}

static void an_entry_that_leads_to_this_node_is_reported_and_called_again(void **state)
{
    (void)state;
    SAY(GOSSIP_LINKS_START);
    uint64_t link = call_of_entry(0, 1);
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(SELF));
    assert_null(find(GOSSIP_LINKS_GREET)); // the accepting end greets
    greet_with_life(link, w.greeting.instance_id);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_SELF);
    assert_int_equal(gossip_links_entry(w.links, 0)->state, GOSSIP_ENTRY_SELF);
    until(GOSSIP_LINKS_RESOLVE, S); // its name may later lead to other nodes
}

// The host of a member that has left may become this node's.
static void an_entry_that_leads_to_this_node_stands_for_no_other(void **state)
{
    (void)state;
    entry_stands_for_a_member(1);
    assert_true(gossip_links_entry(w.links, 0)->known);
    SAY(GOSSIP_LINKS_MEMBER, .peer = id(HIGH), .alive = false);
    until(GOSSIP_LINKS_RESOLVE, 20 * S);
    uint64_t link = call_of_entry(0, 1);
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(SELF));
    greet_with_life(link, w.greeting.instance_id);
    assert_int_equal(gossip_links_entry(w.links, 0)->state, GOSSIP_ENTRY_SELF);
    assert_false(gossip_links_entry(w.links, 0)->known);
}

// A name that once fails to resolve must not silence its entry.
static void addresses_that_do_not_resolve_are_asked_for_again(void **state)
{
    (void)state;
    SAY(GOSSIP_LINKS_START);
    uint64_t asked_ns = w.now_ns;
    assert_in_range(until(GOSSIP_LINKS_RESOLVE, 40 * S) - asked_ns, GOSSIP_LINKS_RESOLVE_NS,
                    GOSSIP_LINKS_RESOLVE_NS + 300 * MS);
}

static void a_member_that_is_alive_again_is_called_soon(void **state)
{
    (void)state;
    without_entries();
    SAY(GOSSIP_LINKS_START);
    want(HIGH);
    SAY(GOSSIP_LINKS_MEMBER, .peer = id(HIGH), .alive = false);
    for (size_t turn = 0; turn < 6; turn++) {
        SAY(GOSSIP_LINKS_ENDED, .link = call_of_member(HIGH), .end = GOSSIP_END_OTHER);
        if (turn < 5)
            until(GOSSIP_LINKS_RESOLVE, 3 * S);
    }
    SAY(GOSSIP_LINKS_MEMBER, .peer = id(HIGH), .alive = true);
    uint64_t alive_ns = w.now_ns;
    assert_in_range(until(GOSSIP_LINKS_RESOLVE, S) - alive_ns, 0, 300 * MS);
}

static void a_call_ends_when_a_link_exists(void **state)
{
    (void)state;
    without_entries();
    SAY(GOSSIP_LINKS_START);
    want(HIGH);
    uint64_t link = call_of_member(HIGH);
    accept_active(HIGH);
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(HIGH),
        .alive = true);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_NOT_NEEDED);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->link, link);
}

static void waiting_links_of_one_id_are_bounded(void **state)
{
    (void)state;
    for (size_t i = 0; i <= GOSSIP_LINKS_UNDECIDED; i++) {
        accept_authenticated(HIGH, true);
        assert_int_equal(find(GOSSIP_LINKS_CLOSE) != NULL, i == GOSSIP_LINKS_UNDECIDED);
    }
}

static void a_peer_that_refused_is_not_called_again_soon(void **state)
{
    (void)state;
    SAY(GOSSIP_LINKS_START);
    uint64_t link = call_of_entry(0, 4), refused_ns = w.now_ns;
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(LOW),
        .alive = true);
    SAY(GOSSIP_LINKS_BYE, .link = link, .reason = "you are not welcome");
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_REFUSED_THERE);
    assert_int_equal(gossip_links_entry(w.links, 0)->state, GOSSIP_ENTRY_REFUSED);
    assert_in_range(until(GOSSIP_LINKS_RESOLVE, 50 * S) - refused_ns, 15 * S, 45 * S);
}

static void a_peer_of_another_protocol_is_not_called_again_soon(void **state)
{
    (void)state;
    SAY(GOSSIP_LINKS_START);
    uint64_t link = call_of_entry(0, 4), refused_ns = w.now_ns;
    SAY(GOSSIP_LINKS_AUTHENTICATED, .link = link, .peer = id(LOW), .alive = true);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_OTHER_PROTOCOL);
    assert_true(need(GOSSIP_LINKS_CLOSE)->changed);
    assert_int_equal(gossip_links_entry(w.links, 0)->state, GOSSIP_ENTRY_REFUSED);
    assert_in_range(until(GOSSIP_LINKS_RESOLVE, 50 * S) - refused_ns, 15 * S, 45 * S);
}

// The two train together: /status and the page must not say for ever that they cannot.
static void an_entry_is_no_longer_refused_when_its_peer_has_a_link(void **state)
{
    (void)state;
    for (int heard = 0; heard < 2; heard++) {
        end(NULL);
        begin(NULL);
        SAY(GOSSIP_LINKS_START);
        uint64_t link = call_of_entry(0, 4);
        SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(LOW),
            .alive = true);
        SAY(GOSSIP_LINKS_BYE, .link = link, .reason = "you are not welcome");
        SAY(GOSSIP_LINKS_MEMBER, .peer = id(LOW), .alive = true);
        assert_int_equal(gossip_links_entry(w.links, 0)->state, GOSSIP_ENTRY_REFUSED);
        accept_active(heard ? LOW : HIGH);
        assert_int_equal(gossip_links_entry(w.links, 0)->state,
                         heard ? GOSSIP_ENTRY_MEMBER : GOSSIP_ENTRY_REFUSED);
    }
}

// The answers of its last round, and the scaling that is refused, come before the BYE.
static void some_goodbyes_overtake_no_message(void **state)
{
    (void)state;
    for (unsigned why = GOSSIP_CLOSE_IDLE; why <= GOSSIP_CLOSE_REFUSED_THERE; why++)
        assert_int_equal(gossip_close_in_order((enum gossip_close)why),
                         why == GOSSIP_CLOSE_LEAVING || why == GOSSIP_CLOSE_OTHER_SCALING);
}

// A training that has diverged is no fault of a program: no refusal, and no broken protocol.
static void numbers_that_are_too_large_have_a_reason_of_their_own(void **state)
{
    (void)state;
    const char *bye = gossip_close_bye(GOSSIP_CLOSE_IMPLAUSIBLE);
    assert_in_range(strlen(bye), 1, sizeof((struct gossip_bye){0}).reason - 1);
    assert_int_equal(gossip_close_of(bye), GOSSIP_CLOSE_IMPLAUSIBLE);
    assert_false(gossip_close_is_refusal(GOSSIP_CLOSE_IMPLAUSIBLE));
    SAY(GOSSIP_LINKS_START);
    uint64_t link = call_of_entry(0, 1);
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(HIGH),
        .alive = true);
    greet_with_life(link, 1);
    SAY(GOSSIP_LINKS_BYE, .link = link, .reason = bye);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_HEARD);
    assert_int_equal(gossip_links_entry(w.links, 0)->state, GOSSIP_ENTRY_MEMBER);
}

// Every link ends right after it was made: the pauses between calls grow; it does not call five times a
// second.
static void a_link_that_always_breaks_is_called_at_growing_intervals(void **state)
{
    (void)state;
    without_entries();
    SAY(GOSSIP_LINKS_START);
    want(HIGH);
    for (size_t turn = 0; turn < 8; turn++) {
        uint64_t link = call_of_member(HIGH);
        SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(HIGH),
            .alive = true);
        greet_with_life(link, 1);
        w.now_ns += 10 * MS;
        SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_GONE);
        uint64_t ended_ns = w.now_ns, waited_ns = until(GOSSIP_LINKS_RESOLVE, 16 * S) - ended_ns;
        assert_true(turn != 0 || waited_ns <= 300 * MS);
        assert_true(turn != 7 || waited_ns >= S);
    }
    uint64_t link = call_of_member(HIGH);
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(HIGH),
        .alive = true);
    greet_with_life(link, 1);
    w.now_ns += 20 * S;
    SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_GONE);
    uint64_t ended_ns = w.now_ns;
    assert_in_range(until(GOSSIP_LINKS_RESOLVE, S) - ended_ns, 0, 300 * MS);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(pauses_between_calls_double_up_to_a_limit),
        CASE(no_peer_is_called_before_the_start),
        CASE(all_wanted_members_are_called_at_the_start),
        CASE(a_packet_to_this_node_goes_nowhere),
        CASE(a_node_without_links_calls_its_entries_often),
        CASE(unanswered_entries_are_called_again_when_another_node_calls),
        CASE(an_answer_to_a_call_hurries_no_entry),
        CASE(a_dead_member_is_not_called_sooner_for_being_dead),
        CASE(unanswered_entries_are_called_again_when_a_member_joins),
        CASE(every_address_is_tried_before_a_pause),
        CASE(a_call_that_is_closed_before_it_is_made_has_its_owner),
        CASE(a_call_may_take_five_seconds_and_an_accepted_handshake_three),
        CASE(entries_of_living_members_are_not_called),
        CASE(an_entry_with_many_addresses_looks_for_others),
        CASE(looks_for_others_are_not_put_off),
        CASE(a_look_that_finds_this_node_is_forgotten),
        CASE(a_look_goes_on_to_all_addresses_when_its_member_dies),
        CASE(an_entry_that_leads_to_this_node_is_reported_and_called_again),
        CASE(an_entry_that_leads_to_this_node_stands_for_no_other),
        CASE(a_peer_that_refused_is_not_called_again_soon),
        CASE(a_peer_of_another_protocol_is_not_called_again_soon),
        CASE(an_entry_is_no_longer_refused_when_its_peer_has_a_link),
        CASE(numbers_that_are_too_large_have_a_reason_of_their_own),
        CASE(addresses_that_do_not_resolve_are_asked_for_again),
        CASE(a_member_that_is_alive_again_is_called_soon),
        CASE(a_call_ends_when_a_link_exists),
        CASE(some_goodbyes_overtake_no_message),
        CASE(waiting_links_of_one_id_are_bounded),
        CASE(a_link_that_always_breaks_is_called_at_growing_intervals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
