// The rules of links, one by one: one link a pair, what the end of a link says about the peer, which links
// are wanted, and identities.
#include "gossip/links/links.h"
#include "test/support/links_rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void packet_to(uint8_t first, uint8_t number)
{
    const uint8_t bytes[] = {number, 0};
    SAY(GOSSIP_LINKS_PACKET, .peer = id(first), .bytes = bytes, .count = sizeof bytes);
}

// -- one link a pair

static void the_higher_id_greets_first(void **state)
{
    (void)state;
    uint64_t link = accept_authenticated(HIGH, true);
    assert_null(find(GOSSIP_LINKS_GREET)); // the lower id decides, with its answer
    greet_with_life(link, 1);
    assert_non_null(find(GOSSIP_LINKS_GREET));
    assert_non_null(find(GOSSIP_LINKS_UP));
    link = accept_authenticated(LOW, true);
    assert_non_null(find(GOSSIP_LINKS_GREET));
    assert_null(find(GOSSIP_LINKS_UP));
    greet_with_life(link, 1);
    assert_null(find(GOSSIP_LINKS_GREET));
    assert_non_null(find(GOSSIP_LINKS_UP));
}

static void the_active_link_of_a_peer_has_its_owner(void **state)
{
    (void)state;
    const struct gossip_id high = id(HIGH), low = id(LOW);
    int mark;
    void *owner = &mark;
    const uint64_t link = accept_authenticated(HIGH, true);
    gossip_links_bind(w.links, link, &mark);
    assert_int_equal(gossip_links_active(w.links, &high, &owner), 0);
    assert_null(owner);
    greet_with_life(link, 1);
    assert_int_equal(gossip_links_active(w.links, &high, &owner), link);
    assert_ptr_equal(owner, &mark);
    assert_int_equal(gossip_links_active(w.links, &low, &owner), 0);
    assert_null(owner);
    assert_int_equal(gossip_links_active(w.links, &high, NULL), link);
}

static void an_older_link_that_works_stays(void **state)
{
    (void)state;
    uint64_t old = accept_active(HIGH), fresh = accept_authenticated(HIGH, true);
    gossip_links_bind(w.links, old, &w);
    greet_with_life(fresh, 1);
    assert_int_equal(w.actions, 0); // the new link waits
    w.now_ns += GOSSIP_LINKS_AGAIN_NS - MS;
    SAY(GOSSIP_LINKS_TIMER);
    SAY(GOSSIP_LINKS_MESSAGE, .link = old);
    assert_int_equal(need(GOSSIP_LINKS_DELIVER)->link, old);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->link, fresh);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_REPLACED);
    assert_ptr_equal(need(GOSSIP_LINKS_CLOSE)->other, &w);
}

static void a_silent_older_link_gives_way_after_three_seconds(void **state)
{
    (void)state;
    uint64_t old = accept_active(HIGH), fresh = accept_authenticated(HIGH, true), begin_ns = w.now_ns;
    greet_with_life(fresh, 2); // another process
    assert_int_equal(until(GOSSIP_LINKS_UP, 4 * S) - begin_ns, GOSSIP_LINKS_CANDIDATE_NS);
    assert_int_equal(need(GOSSIP_LINKS_UP)->link, fresh);
    assert_int_equal(need(GOSSIP_LINKS_DOWN)->link, old);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->link, old);
    assert_null(find(GOSSIP_LINKS_UNREACHABLE));
}

// The node itself may have been stopped: what came over the older link is unread. It waits once, or this
// would never end.
static void a_process_that_was_stopped_reads_first(void **state)
{
    (void)state;
    for (int hears = 0; hears < 2; hears++) {
        end(NULL);
        begin(NULL);
        uint64_t old = accept_active(HIGH), fresh = accept_authenticated(HIGH, true);
        greet_with_life(fresh, 1);
        for (int late = 0; late < 2 - hears; late++) {
            w.now_ns += GOSSIP_LINKS_CANDIDATE_NS + GOSSIP_LINKS_LATE_NS;
            SAY(GOSSIP_LINKS_TIMER);
            assert_true((find(GOSSIP_LINKS_UP) != NULL) == (late == 1));
        }
        if (!hears)
            continue;
        SAY(GOSSIP_LINKS_MESSAGE, .link = old);
        assert_int_equal(need(GOSSIP_LINKS_CLOSE)->link, fresh);
    }
}

static void the_end_of_the_older_link_makes_way_for_the_new_one_at_once(void **state)
{
    (void)state;
    uint64_t old = accept_active(HIGH), fresh = accept_authenticated(HIGH, true);
    greet_with_life(fresh, 2);
    SAY(GOSSIP_LINKS_ENDED, .link = old, .end = GOSSIP_END_GONE);
    assert_int_equal(need(GOSSIP_LINKS_UP)->link, fresh);
    assert_null(find(GOSSIP_LINKS_UNREACHABLE)); // its process is running: it has just called
}

static void the_higher_id_follows_the_choice_of_the_lower(void **state)
{
    (void)state;
    uint64_t old = accept_active(LOW), fresh = accept_authenticated(LOW, true);
    greet_with_life(fresh, 1);
    assert_int_equal(need(GOSSIP_LINKS_UP)->link, fresh);
    assert_int_equal(need(GOSSIP_LINKS_DOWN)->link, old);
}

static void only_greetings_are_allowed_before_the_link_is_active(void **state)
{
    (void)state;
    uint64_t link = accept_authenticated(HIGH, true);
    SAY(GOSSIP_LINKS_MESSAGE, .link = link);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_BROKEN);
    assert_null(find(GOSSIP_LINKS_DELIVER));
    (void)accept_active(HIGHER);
    uint64_t waits = accept_authenticated(HIGHER, true);
    greet_with_life(waits, 1);
    SAY(GOSSIP_LINKS_MESSAGE, .link = waits);
    assert_null(find(GOSSIP_LINKS_DELIVER));
    assert_int_equal(w.action[w.actions - 1].why, GOSSIP_CLOSE_BROKEN);
    link = accept_active(LOW);
    greet_with_life(link, 1); // twice
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_BROKEN);
}

static void a_peer_that_trains_something_else_is_refused(void **state)
{
    (void)state;
    struct gossip_greeting theirs = w.greeting;
    uint64_t link = accept_authenticated(HIGH, true);
    theirs.parameters++;
    SAY(GOSSIP_LINKS_GREETING, .link = link, .greeting = &theirs);
    assert_non_null(find(GOSSIP_LINKS_GREET)); // so that the peer learns the reason
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_OTHER_MODEL);
    assert_null(find(GOSSIP_LINKS_UP));
}

// Neither end says a word that the other might not understand; a link that works is not touched.
static void a_peer_of_another_protocol_is_refused(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++)
        for (int linked = 0; linked < 2; linked++) {
            struct gossip_links_totals totals;
            end(NULL);
            begin(NULL);
            uint64_t works = linked ? accept_active(HIGH) : 0;
            uint64_t link = gossip_links_accept(w.links, w.now_ns, HIGH, false, NULL);
            SAY(GOSSIP_LINKS_AUTHENTICATED, .link = link, .peer = id(own ? SELF : HIGH), .alive = true);
            assert_null(find(GOSSIP_LINKS_GREET));
            assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_OTHER_PROTOCOL);
            assert_int_equal(need(GOSSIP_LINKS_CLOSE)->link, link);
            assert_true(gossip_close_is_refusal(GOSSIP_CLOSE_OTHER_PROTOCOL));
            assert_null(gossip_close_bye(GOSSIP_CLOSE_OTHER_PROTOCOL));
            SAY(GOSSIP_LINKS_GREETING, .link = link, .greeting = &w.greeting); // it may say what it likes
            assert_null(find(GOSSIP_LINKS_UP));
            SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_GONE);
            assert_null(find(GOSSIP_LINKS_UNREACHABLE)); // no evidence of a death
            const struct gossip_id peer = id(HIGH);
            assert_int_equal(gossip_links_active(w.links, &peer, NULL), works);
            gossip_links_totals(w.links, &totals);
            assert_int_equal(totals.refused, 1);
            assert_int_equal(totals.duplicates, 0);
        }
}

static void only_an_allowed_peer_gets_a_link(void **state)
{
    (void)state;
    struct gossip_id listed[] = {id(HIGH)};
    struct gossip_allow_list allow = {.ids = listed, .count = 1};
    end(NULL);
    begin_with(0, &allow);
    uint64_t link = accept_active(HIGH);
    accept_authenticated(LOW, true);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_NOT_ALLOWED);
    allow.count = 0;
    SAY(GOSSIP_LINKS_ALLOW);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->link, link);
    assert_non_null(find(GOSSIP_LINKS_DOWN));
}

static void a_link_ends_with_its_secret_and_is_called_again(void **state)
{
    (void)state;
    for (unsigned here = 0; here < 2; here++) { // at the end whose file has changed, or at the other
        without_entries();
        SAY(GOSSIP_LINKS_START);
        uint64_t link = accept_active(HIGH);
        want(HIGH);
        const uint64_t begin_ns = w.now_ns;
        if (here)
            SAY(GOSSIP_LINKS_REVOKED, .link = link);
        else
            SAY(GOSSIP_LINKS_BYE, .link = link, .reason = gossip_close_bye(GOSSIP_CLOSE_OLD_SECRET));
        assert_int_equal(need(GOSSIP_LINKS_CLOSE)->link, link);
        assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, here ? GOSSIP_CLOSE_OLD_SECRET : GOSSIP_CLOSE_HEARD);
        assert_non_null(find(GOSSIP_LINKS_DOWN));
        assert_null(find(GOSSIP_LINKS_UNREACHABLE));
        SAY(GOSSIP_LINKS_REVOKED, .link = link); // it is closing
        assert_null(find(GOSSIP_LINKS_CLOSE));
        SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_GONE);
        assert_in_range(until(GOSSIP_LINKS_RESOLVE, S) - begin_ns, 0, GOSSIP_LINKS_PAUSE_MIN_NS / 2 * 3);
    }
}

// -- what the end of a link says

static void an_end_without_bye_is_evidence(void **state)
{
    (void)state;
    static const enum gossip_link_end ends[] = {GOSSIP_END_OTHER, GOSSIP_END_GONE, GOSSIP_END_BROKEN};
    for (size_t i = 0; i < 3; i++) {
        uint64_t link = accept_active(HIGH);
        SAY(GOSSIP_LINKS_ENDED, .link = link, .end = ends[i]);
        assert_non_null(find(GOSSIP_LINKS_DOWN));
        assert_int_equal(find(GOSSIP_LINKS_UNREACHABLE) != NULL, ends[i] == GOSSIP_END_GONE);
    }
    uint64_t link = accept_active(HIGH);
    SAY(GOSSIP_LINKS_BYE, .link = link, .reason = "leaving");
    assert_non_null(find(GOSSIP_LINKS_DOWN));
    assert_null(find(GOSSIP_LINKS_UNREACHABLE));
    SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_GONE);
    assert_null(find(GOSSIP_LINKS_UNREACHABLE));
}

// A firewall may refuse calls to a host that can itself call out: the refusal says nothing about that host.
static void a_closed_port_is_evidence_only_where_a_call_once_succeeded(void **state)
{
    (void)state;
    without_entries();
    SAY(GOSSIP_LINKS_START);
    packet_to(HIGH, 1);
    uint64_t link = call_of_member(HIGH);
    SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_REFUSED);
    assert_null(find(GOSSIP_LINKS_UNREACHABLE));
    until(GOSSIP_LINKS_RESOLVE, 3 * S);
    link = call_of_member(HIGH);
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(HIGH),
        .alive = true);
    SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_OTHER);
    for (size_t turn = 0; turn < 2; turn++) {
        static const enum gossip_link_end ends[] = {GOSSIP_END_OTHER, GOSSIP_END_REFUSED};
        until(GOSSIP_LINKS_RESOLVE, 3 * S);
        link = call_of_member(HIGH);
        SAY(GOSSIP_LINKS_ENDED, .link = link, .end = ends[turn]);
        assert_int_equal(find(GOSSIP_LINKS_UNREACHABLE) != NULL, turn == 1); // a timeout is no evidence
    }
}

// -- which links are wanted

// However many have been reached since, and by whichever call.
static void a_closed_port_is_evidence_about_every_one_that_was_reached(void **state)
{
    (void)state;
    without_entries();
    SAY(GOSSIP_LINKS_START);
    for (uint8_t turn = 0; turn < 2; turn++)
        for (uint8_t first = HIGH; first < HIGH + 3; first++) {
            packet_to(first, 1);
            if (!find(GOSSIP_LINKS_RESOLVE))
                until(GOSSIP_LINKS_RESOLVE, 4 * S);
            const uint64_t link = call_of_member(first);
            if (turn == 0)
                SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(first),
                    .alive = true);
            SAY(GOSSIP_LINKS_ENDED, .link = link, .end = turn ? GOSSIP_END_REFUSED : GOSSIP_END_OTHER);
            assert_int_equal(find(GOSSIP_LINKS_UNREACHABLE) != NULL, turn);
            SAY(GOSSIP_LINKS_PART, .peer = id(first), .why = GOSSIP_CLOSE_SILENT);
            w.now_ns += 20 * S;
            SAY(GOSSIP_LINKS_TIMER);
        }
}

static void idle_links_end_and_wanted_links_stay(void **state)
{
    (void)state;
    SAY(GOSSIP_LINKS_START);
    uint64_t link = accept_active(HIGH), begin_ns = w.now_ns;
    want(HIGH);
    quiet(60 * S, GOSSIP_LINKS_CLOSE);
    want(0);
    w.now_ns += 5 * S;
    gossip_links_sent(w.links, link, w.now_ns);
    begin_ns = w.now_ns;
    assert_int_equal(until(GOSSIP_LINKS_CLOSE, 11 * S) - begin_ns, GOSSIP_LINKS_IDLE_NS);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_IDLE);
}

// Its host may be gone without having closed the link, and the entry that led to it is called again only
// then.
static void a_link_to_a_member_that_has_left_ends_soon(void **state)
{
    (void)state;
    SAY(GOSSIP_LINKS_START);
    uint64_t link = accept_active(HIGH), begin_ns = w.now_ns;
    SAY(GOSSIP_LINKS_MEMBER, .peer = id(HIGH), .alive = true);
    w.now_ns += S;
    begin_ns = w.now_ns;
    gossip_links_sent(w.links, link, w.now_ns);
    SAY(GOSSIP_LINKS_MEMBER, .peer = id(HIGH), .alive = false);
    assert_int_equal(until(GOSSIP_LINKS_CLOSE, 11 * S) - begin_ns, GOSSIP_LINKS_GONE_NS);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_IDLE);
}

static void a_stalled_link_is_not_idle(void **state)
{
    (void)state;
    uint64_t link = accept_active(HIGH);
    SAY(GOSSIP_LINKS_STALLED, .link = link, .on = true);
    quiet(60 * S, GOSSIP_LINKS_CLOSE);
    SAY(GOSSIP_LINKS_STALLED, .link = link, .on = false);
    uint64_t begin_ns = w.now_ns;
    assert_int_equal(until(GOSSIP_LINKS_CLOSE, 11 * S) - begin_ns, GOSSIP_LINKS_IDLE_NS);
}

static void packets_wait_for_a_link_in_order(void **state)
{
    (void)state;
    SAY(GOSSIP_LINKS_START);
    for (uint8_t i = 0; i < GOSSIP_LINKS_PACKETS + 6; i++)
        packet_to(HIGH, i);
    uint64_t link = call_of_member(HIGH);
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(HIGH),
        .alive = true);
    struct gossip_links_event event = {
        .kind = GOSSIP_LINKS_GREETING, .now_ns = w.now_ns, .link = link, .greeting = &w.greeting};
    assert_int_equal(gossip_links_step(w.links, &event), BASE_OK);
    struct gossip_links_action action;
    uint8_t number = 6; // the oldest was dropped
    while (gossip_links_next(w.links, &action))
        if (action.kind == GOSSIP_LINKS_SEND)
            assert_int_equal(action.bytes[0], number++);
    assert_int_equal(number, GOSSIP_LINKS_PACKETS + 6);
    packet_to(HIGH, 99);
    assert_int_equal(need(GOSSIP_LINKS_SEND)->link, link);
}

// What waits for a peer that has parted is dropped; its link ends for the reason that is given.
static void a_parted_peer_keeps_no_link_and_no_packets(void **state)
{
    (void)state;
    struct gossip_links_totals totals;
    SAY(GOSSIP_LINKS_START);
    const uint64_t link = accept_active(HIGH);
    packet_to(LOW, 1);
    packet_to(HIGHER, 1);
    SAY(GOSSIP_LINKS_PART, .peer = id(HIGH), .why = GOSSIP_CLOSE_SILENT);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->link, link);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_SILENT);
    assert_int_equal(need(GOSSIP_LINKS_DOWN)->link, link);
    SAY(GOSSIP_LINKS_PART, .peer = id(LOW), .why = GOSSIP_CLOSE_SILENT);
    gossip_links_totals(w.links, &totals);
    assert_int_equal(totals.packets, 1); // of another one
    (void)accept_active(HIGH);
    assert_null(find(GOSSIP_LINKS_SEND));
    const uint64_t other = accept_active(HIGHER);
    assert_int_equal(need(GOSSIP_LINKS_SEND)->link, other);
    gossip_links_destroy(NULL);
}

static void packets_do_not_wait_for_a_link_for_ever(void **state)
{
    (void)state;
    struct gossip_links_totals totals;
    SAY(GOSSIP_LINKS_START);
    packet_to(HIGH, 1);
    w.now_ns += 9 * S;
    SAY(GOSSIP_LINKS_TIMER);
    gossip_links_totals(w.links, &totals);
    assert_int_equal(totals.packets, 1);
    w.now_ns += S;
    SAY(GOSSIP_LINKS_TIMER);
    gossip_links_totals(w.links, &totals);
    assert_int_equal(totals.packets, 0);
    uint64_t link = accept_active(HIGH);
    assert_true(link && !find(GOSSIP_LINKS_SEND));
}

// Neither node can call the other: both report it, once, for as long as it lasts.
static void a_link_that_is_never_established_is_reported(void **state)
{
    (void)state;
    struct gossip_missing missing;
    uint64_t begin_ns = w.now_ns;
    SAY(GOSSIP_LINKS_START);
    want(HIGH);
    assert_int_equal(gossip_links_missing(w.links, w.now_ns + 29 * S, &missing, 1), 0);
    assert_int_equal(until(GOSSIP_LINKS_MISSING, 31 * S) - begin_ns, GOSSIP_LINKS_MISSING_NS);
    assert_int_equal(need(GOSSIP_LINKS_MISSING)->since_ns, begin_ns);
    assert_int_equal(gossip_links_missing(w.links, w.now_ns, &missing, 1), 1);
    assert_int_equal(missing.since_ns, begin_ns);
    quiet(200 * S, GOSSIP_LINKS_MISSING);
    accept_active(HIGH);
    assert_int_equal(gossip_links_missing(w.links, w.now_ns + 60 * S, &missing, 1), 0);
}

// The network may have lost the first attempt, and TCP repeats it at growing intervals.
static void a_node_without_links_calls_on_before_a_call_has_ended(void **state)
{
    (void)state;
    uint64_t begin_ns = w.now_ns;
    SAY(GOSSIP_LINKS_START);
    uint64_t first = call_of_entry(0, 1);
    assert_in_range(until(GOSSIP_LINKS_RESOLVE, 3 * S) - begin_ns, GOSSIP_LINKS_CALL_LONELY_NS, 3 * S);
    SAY(GOSSIP_LINKS_RESOLVED, .target = {.entry = 0}, .count = 3);
    uint64_t second = need(GOSSIP_LINKS_CALL)->link;
    uint64_t stranger = gossip_links_accept(w.links, w.now_ns, 1, false, NULL);
    SAY(GOSSIP_LINKS_ENDED, .link = stranger, .end = GOSSIP_END_OTHER); // no call of this node
    assert_null(find(GOSSIP_LINKS_CALL));
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = first, .peer = id(LOW),
        .alive = true);
    greet_with_life(first, 1);
    assert_int_equal(need(GOSSIP_LINKS_UP)->link, first); // the first call succeeded after all
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = second, .peer = id(LOW),
        .alive = true);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->link, second);
}

// An older call that ends takes nothing from the one that goes on.
static void the_end_of_an_older_call_is_not_that_of_the_newer(void **state)
{
    (void)state;
    SAY(GOSSIP_LINKS_START);
    uint64_t first = call_of_entry(0, 1);
    until(GOSSIP_LINKS_RESOLVE, 3 * S);
    SAY(GOSSIP_LINKS_RESOLVED, .target = {.entry = 0}, .count = 3);
    SAY(GOSSIP_LINKS_ENDED, .link = first, .end = GOSSIP_END_REFUSED);
    assert_null(find(GOSSIP_LINKS_CALL));
}

static void a_node_with_a_link_waits_until_a_call_has_ended(void **state)
{
    (void)state;
    accept_active(HIGHER);
    SAY(GOSSIP_LINKS_START);
    call_of_entry(0, 1);
    quiet(GOSSIP_LINKS_CALL_LONELY_NS + S, GOSSIP_LINKS_RESOLVE);
}

// -- identities

static void duplicate(uint64_t *link)
{
    until(GOSSIP_LINKS_RESOLVE, 16 * S);
    *link = call_of_entry(0, 1);
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = *link, .peer = id(HIGH),
        .alive = false);
    SAY(GOSSIP_LINKS_BYE, .link = *link, .reason = "duplicate identity at 10.0.0.1:4000");
}

static void a_process_whose_identity_others_know_elsewhere_is_told(void **state)
{
    (void)state;
    uint64_t link, begin_ns = w.now_ns;
    size_t answers = 0;
    SAY(GOSSIP_LINKS_START);
    call_of_entry(0, 1);
    SAY(GOSSIP_LINKS_ENDED, .link = w.action[0].link, .end = GOSSIP_END_OTHER);
    for (bool told = false; !told; answers++) {
        duplicate(&link);
        told = find(GOSSIP_LINKS_DUPLICATE) != NULL;
        assert_true(!told || w.now_ns - begin_ns >= GOSSIP_LINKS_DUPLICATE_NS);
    }
    assert_in_range(answers, 3, 8);
    assert_true(w.now_ns - begin_ns >= 5 * S);
}

// However long ago the first answer came: one more is no proof.
static void few_answers_over_a_long_time_are_no_duplicate(void **state)
{
    (void)state;
    uint64_t link;
    SAY(GOSSIP_LINKS_START);
    call_of_entry(0, 1);
    SAY(GOSSIP_LINKS_ENDED, .link = w.action[0].link, .end = GOSSIP_END_OTHER);
    duplicate(&link);
    w.now_ns += 60 * S;
    duplicate(&link);
    assert_null(find(GOSSIP_LINKS_DUPLICATE));
    duplicate(&link);
    assert_non_null(find(GOSSIP_LINKS_DUPLICATE));
}

// Two answers may come from a link that was given up; a new link makes the node forget them.
static void two_answers_are_no_duplicate(void **state)
{
    (void)state;
    uint64_t link;
    SAY(GOSSIP_LINKS_START);
    call_of_entry(0, 1);
    SAY(GOSSIP_LINKS_ENDED, .link = w.action[0].link, .end = GOSSIP_END_OTHER);
    duplicate(&link);
    duplicate(&link);
    w.now_ns += 6 * S;
    SAY(GOSSIP_LINKS_ENDED, .link = accept_active(HIGHER), .end = GOSSIP_END_OTHER);
    duplicate(&link);
    assert_null(find(GOSSIP_LINKS_DUPLICATE));
}

// What is said over a link that is not in use yet, or beside one that is, says nothing of this node.
static void only_the_end_of_the_only_link_tells_of_a_duplicate(void **state)
{
    (void)state;
    SAY(GOSSIP_LINKS_START);
    const uint64_t active = accept_active(HIGH);
    for (size_t i = 0; i < 6; i++) {
        uint64_t link =
            i % 2 ? accept_authenticated(HIGH, true) : gossip_links_accept(w.links, w.now_ns, 7, false, NULL);
        SAY(GOSSIP_LINKS_BYE, .link = link, .reason = "duplicate identity at 10.0.0.1:4000");
        assert_null(find(GOSSIP_LINKS_DUPLICATE));
        SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_OTHER);
        w.now_ns += 2 * S;
        SAY(GOSSIP_LINKS_MESSAGE, .link = active);
    }
    // The accepting end greets, so that the caller sees that it has called itself.
    accept_authenticated(SELF, true);
    assert_non_null(find(GOSSIP_LINKS_GREET));
}

static void another_process_with_this_id_is_a_duplicate(void **state)
{
    (void)state;
    SAY(GOSSIP_LINKS_START);
    uint64_t link = call_of_entry(0, 1);
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(SELF));
    greet_with_life(link, w.greeting.instance_id + 1);
    assert_true(need(GOSSIP_LINKS_DUPLICATE)->at);
}

// The same process calls again if it gave up the older link; another instance_id is another process.
static void a_second_process_is_told_about_the_first(void **state)
{
    (void)state;
    uint64_t old = accept_active(HIGH), fresh = accept_authenticated(HIGH, true);
    greet_with_life(fresh, 2);
    SAY(GOSSIP_LINKS_MESSAGE, .link = old);
    // It takes the link into use, learns of the other process, and then that this link will not be used.
    assert_int_equal(need(GOSSIP_LINKS_GREET)->link, fresh);
    assert_int_equal(need(GOSSIP_LINKS_EXPLAIN)->link, fresh);
    assert_true(need(GOSSIP_LINKS_GREET) < need(GOSSIP_LINKS_EXPLAIN));
    assert_true(need(GOSSIP_LINKS_EXPLAIN) < need(GOSSIP_LINKS_CLOSE));
    assert_int_equal(need(GOSSIP_LINKS_EXPLAIN)->peer.bytes[0], HIGH);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_DUPLICATE_IDENTITY);
}

static void a_link_that_only_carries_an_explanation_is_not_active(void **state)
{
    (void)state;
    size_t answers = 0;
    SAY(GOSSIP_LINKS_START);
    call_of_entry(0, 1);
    SAY(GOSSIP_LINKS_ENDED, .link = w.action[0].link, .end = GOSSIP_END_OTHER);
    for (bool told = false; !told && answers < 12; answers++) {
        until(GOSSIP_LINKS_RESOLVE, 16 * S);
        uint64_t link = call_of_entry(0, 1);
        SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(LOW),
            .alive = false);
        greet_with_life(link, 1);
        assert_int_equal(need(GOSSIP_LINKS_UP)->link, link);
        SAY(GOSSIP_LINKS_BYE, .link = link, .reason = "duplicate identity at 10.0.0.1:4000");
        told = find(GOSSIP_LINKS_DUPLICATE) != NULL;
    }
    assert_in_range(answers, 3, 11);
}

static void a_leaving_node_says_bye_and_calls_no_other(void **state)
{
    (void)state;
    SAY(GOSSIP_LINKS_START);
    uint64_t link = accept_active(HIGH), half = accept_authenticated(HIGHER, true);
    want(LOW);
    SAY(GOSSIP_LINKS_LEAVE);
    for (size_t i = 0; i < w.actions; i++)
        if (w.action[i].kind == GOSSIP_LINKS_CLOSE)
            assert_int_equal(w.action[i].why,
                             w.action[i].link == link ? GOSSIP_CLOSE_LEAVING : GOSSIP_CLOSE_NOT_NEEDED);
    SAY(GOSSIP_LINKS_ENDED, .link = link);
    SAY(GOSSIP_LINKS_ENDED, .link = half);
    assert_int_equal(gossip_links_accept(w.links, w.now_ns, 1, false, NULL), 0);
    packet_to(HIGH, 1);
    want(HIGH);
    quiet(100 * S, GOSSIP_LINKS_RESOLVE);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(the_higher_id_greets_first),
        CASE(the_active_link_of_a_peer_has_its_owner),
        CASE(an_older_link_that_works_stays),
        CASE(a_silent_older_link_gives_way_after_three_seconds),
        CASE(a_process_that_was_stopped_reads_first),
        CASE(the_end_of_the_older_link_makes_way_for_the_new_one_at_once),
        CASE(the_higher_id_follows_the_choice_of_the_lower),
        CASE(only_greetings_are_allowed_before_the_link_is_active),
        CASE(a_peer_that_trains_something_else_is_refused),
        CASE(a_peer_of_another_protocol_is_refused),
        CASE(only_an_allowed_peer_gets_a_link),
        CASE(a_link_ends_with_its_secret_and_is_called_again),
        CASE(an_end_without_bye_is_evidence),
        CASE(a_closed_port_is_evidence_only_where_a_call_once_succeeded),
        CASE(a_closed_port_is_evidence_about_every_one_that_was_reached),
        CASE(idle_links_end_and_wanted_links_stay),
        CASE(a_link_to_a_member_that_has_left_ends_soon),
        CASE(a_stalled_link_is_not_idle),
        CASE(packets_wait_for_a_link_in_order),
        CASE(a_parted_peer_keeps_no_link_and_no_packets),
        CASE(packets_do_not_wait_for_a_link_for_ever),
        CASE(a_link_that_is_never_established_is_reported),
        CASE(a_process_whose_identity_others_know_elsewhere_is_told),
        CASE(few_answers_over_a_long_time_are_no_duplicate),
        CASE(two_answers_are_no_duplicate),
        CASE(only_the_end_of_the_only_link_tells_of_a_duplicate),
        CASE(another_process_with_this_id_is_a_duplicate),
        CASE(a_node_without_links_calls_on_before_a_call_has_ended),
        CASE(the_end_of_an_older_call_is_not_that_of_the_newer),
        CASE(a_node_with_a_link_waits_until_a_call_has_ended),
        CASE(a_second_process_is_told_about_the_first),
        CASE(a_link_that_only_carries_an_explanation_is_not_active),
        CASE(a_leaving_node_says_bye_and_calls_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
