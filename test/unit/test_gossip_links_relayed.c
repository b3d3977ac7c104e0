// Links over another member: they are no evidence, and give way to direct ones, which looks find.
#include "base/array.h"
#include "test/support/links_rules.h"

enum { DIRECT_THEN_RELAY = 2 }; // the mask of two addresses

static int begin_alone(void **state)
{
    (void)state;
    const int begun = begin_with(0, NULL);
    SAY(GOSSIP_LINKS_START);
    return begun;
}

static void resolve_member(uint8_t first, size_t count, uint32_t relayed)
{
    SAY(GOSSIP_LINKS_RESOLVED, .target = {.entry = GOSSIP_NO_ENTRY, .peer = id(first)}, .count = count,
        .relayed = relayed);
}

static void resolve_look(uint8_t first, size_t count)
{
    SAY(GOSSIP_LINKS_RESOLVED, .target = {.entry = GOSSIP_NO_ENTRY, .peer = id(first), .direct = true},
        .count = count);
}

static void prove(uint64_t link, uint8_t first)
{
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(first),
        .alive = true);
}

static uint64_t accept_relayed(uint8_t first)
{
    const uint64_t link = gossip_links_accept(w.links, w.now_ns, 0, true, NULL);
    assert_true(link != 0);
    prove(link, first);
    return link;
}

static uint64_t accept_relayed_active(uint8_t first)
{
    const uint64_t link = accept_relayed(first);
    greet_with_life(link, 1);
    assert_int_equal(need(GOSSIP_LINKS_UP)->link, link);
    assert_true(gossip_links_is_relayed(w.links, &(struct gossip_id){.bytes = {first}}));
    return link;
}

static uint64_t until_look(uint64_t at_most_ns)
{
    const uint64_t limit_ns = w.now_ns + at_most_ns;
    do {
        assert_true(gossip_links_deadline(w.links) <= limit_ns);
        if (gossip_links_deadline(w.links) > w.now_ns)
            w.now_ns = gossip_links_deadline(w.links);
        SAY(GOSSIP_LINKS_TIMER);
    } while (!find_for(GOSSIP_LINKS_RESOLVE, true));
    return w.now_ns;
}

static uint64_t look_call(void)
{
    const struct gossip_links_action *call = find_for(GOSSIP_LINKS_CALL, true);
    assert_non_null(call);
    return call->link;
}

static void no_looks(uint64_t for_ns)
{
    const uint64_t limit_ns = w.now_ns + for_ns;
    while (gossip_links_deadline(w.links) <= limit_ns) {
        if (gossip_links_deadline(w.links) > w.now_ns)
            w.now_ns = gossip_links_deadline(w.links);
        SAY(GOSSIP_LINKS_TIMER);
        assert_null(find_for(GOSSIP_LINKS_RESOLVE, true));
    }
    w.now_ns = limit_ns;
}

// -- evidence

static void the_end_of_a_relayed_link_is_no_evidence(void **state)
{
    (void)state;
    SAY(GOSSIP_LINKS_ENDED, .link = accept_relayed_active(HIGH), .end = GOSSIP_END_GONE);
    need(GOSSIP_LINKS_DOWN);
    assert_null(find(GOSSIP_LINKS_UNREACHABLE));
    SAY(GOSSIP_LINKS_ENDED, .link = accept_active(HIGH), .end = GOSSIP_END_GONE);
    need(GOSSIP_LINKS_UNREACHABLE);
}

static void end_call(const struct gossip_links_action *call, enum gossip_link_end how)
{
    SAY(GOSSIP_LINKS_ENDED, .link = call->link, .end = how);
}

// This node has called HIGH, over a relay or directly; the link has ended, and the member is called again.
static void was_linked(uint32_t relayed)
{
    want(HIGH);
    resolve_member(HIGH, 1, relayed);
    const uint64_t link = need(GOSSIP_LINKS_CALL)->link;
    assert_int_equal(need(GOSSIP_LINKS_CALL)->relayed, relayed);
    prove(link, HIGH);
    greet_with_life(link, 1);
    SAY(GOSSIP_LINKS_BYE, .link = link, .reason = "leaving");
    SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_OTHER);
    until(GOSSIP_LINKS_RESOLVE, 3 * S);
}

static void a_relay_that_refuses_is_no_evidence(void **state)
{
    (void)state;
    was_linked(0);
    resolve_member(HIGH, 2, DIRECT_THEN_RELAY);
    end_call(need(GOSSIP_LINKS_CALL), GOSSIP_END_REFUSED);
    assert_true(need(GOSSIP_LINKS_CALL)->relayed);
    end_call(need(GOSSIP_LINKS_CALL), GOSSIP_END_REFUSED);
    assert_null(find(GOSSIP_LINKS_UNREACHABLE));
    until(GOSSIP_LINKS_RESOLVE, 3 * S);
    resolve_member(HIGH, 1, 0);
    end_call(need(GOSSIP_LINKS_CALL), GOSSIP_END_REFUSED);
    need(GOSSIP_LINKS_UNREACHABLE);
}

// A firewall may answer for a member that has only been reached over a relay.
static void a_relayed_call_does_not_reach_a_port(void **state)
{
    (void)state;
    was_linked(1);
    resolve_member(HIGH, 1, 0);
    end_call(need(GOSSIP_LINKS_CALL), GOSSIP_END_REFUSED);
    assert_null(find(GOSSIP_LINKS_UNREACHABLE));
}

// -- a turn of several addresses

static void a_call_of_one_second_does_not_delay_the_next_address(void **state)
{
    (void)state;
    const uint64_t begin_ns = w.now_ns;
    want(HIGH);
    resolve_member(HIGH, 3, 4);
    const uint64_t first = need(GOSSIP_LINKS_CALL)->link;
    assert_int_equal(until(GOSSIP_LINKS_CALL, 2 * S) - begin_ns, GOSSIP_LINKS_CALL_NEXT_NS);
    assert_int_equal(need(GOSSIP_LINKS_CALL)->address, 1);
    assert_false(need(GOSSIP_LINKS_CALL)->relayed);
    assert_int_equal(until(GOSSIP_LINKS_CALL, 2 * S) - begin_ns, 2 * GOSSIP_LINKS_CALL_NEXT_NS);
    const uint64_t relayed = need(GOSSIP_LINKS_CALL)->link;
    assert_true(need(GOSSIP_LINKS_CALL)->relayed);
    prove(relayed, HIGH);
    greet_with_life(relayed, 1);
    assert_int_equal(need(GOSSIP_LINKS_UP)->link, relayed);
    prove(first, HIGH); // the direct call succeeds after all
    greet_with_life(first, 1);
    assert_int_equal(need(GOSSIP_LINKS_UP)->link, first);
}

static void a_turn_ends_with_its_last_call(void **state)
{
    (void)state;
    const uint64_t begin_ns = w.now_ns;
    want(HIGH);
    resolve_member(HIGH, 2, 0);
    until(GOSSIP_LINKS_CALL, 2 * S);
    end_call(need(GOSSIP_LINKS_CALL), GOSSIP_END_REFUSED);
    assert_null(find(GOSSIP_LINKS_UNREACHABLE));
    quiet(GOSSIP_LINKS_CALL_NS - (w.now_ns - begin_ns) - 1, GOSSIP_LINKS_RESOLVE);
    until(GOSSIP_LINKS_CLOSE, S); // the first call has had its time
    assert_int_equal(w.now_ns - begin_ns, GOSSIP_LINKS_CALL_NS);
    assert_in_range(until(GOSSIP_LINKS_RESOLVE, S) - begin_ns, GOSSIP_LINKS_CALL_NS,
                    GOSSIP_LINKS_CALL_NS + S);
}

static void an_address_that_refuses_does_not_wait(void **state)
{
    (void)state;
    want(HIGH);
    resolve_member(HIGH, 2, DIRECT_THEN_RELAY);
    end_call(need(GOSSIP_LINKS_CALL), GOSSIP_END_REFUSED);
    assert_int_equal(need(GOSSIP_LINKS_CALL)->address, 1);
}

// -- from relayed to direct

static void the_lower_id_takes_a_direct_link_at_once(void **state)
{
    (void)state;
    const uint64_t relayed = accept_relayed_active(HIGH), direct = accept_authenticated(HIGH, true);
    greet_with_life(direct, 1);
    assert_int_equal(need(GOSSIP_LINKS_UP)->link, direct);
    assert_int_equal(need(GOSSIP_LINKS_GREET)->link, direct);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->link, relayed);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_REPLACED);
    assert_false(gossip_links_is_relayed(w.links, &(struct gossip_id){.bytes = {HIGH}}));
}

static void another_process_waits_for_its_turn(void **state)
{
    (void)state;
    const uint64_t relayed = accept_relayed_active(HIGH), direct = accept_authenticated(HIGH, true);
    greet_with_life(direct, 2);
    assert_null(find(GOSSIP_LINKS_UP));
    SAY(GOSSIP_LINKS_MESSAGE, .link = relayed);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_DUPLICATE_IDENTITY);
}

static void a_relayed_link_replaces_no_direct_one(void **state)
{
    (void)state;
    accept_active(HIGH);
    const uint64_t begin_ns = w.now_ns, relayed = accept_relayed(HIGH);
    greet_with_life(relayed, 1);
    assert_null(find(GOSSIP_LINKS_UP));
    assert_int_equal(until(GOSSIP_LINKS_UP, 4 * S) - begin_ns, GOSSIP_LINKS_CANDIDATE_NS); // a silent one
    assert_int_equal(need(GOSSIP_LINKS_UP)->link, relayed);
}

// -- from one relay to another

// The other end has found the older one late.
static void a_relayed_link_gives_way_to_one_that_the_other_end_calls(void **state)
{
    (void)state;
    const uint64_t old = accept_relayed_active(HIGH);
    w.now_ns += GOSSIP_LINKS_INSTEAD_NS;
    const uint64_t fresh = accept_relayed(HIGH);
    SAY(GOSSIP_LINKS_MESSAGE, .link = old); // it is late, but not dead
    greet_with_life(fresh, 1);
    assert_int_equal(need(GOSSIP_LINKS_UP)->link, fresh);
    assert_int_equal(need(GOSSIP_LINKS_DOWN)->link, old);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_REPLACED);
}

static void calls_that_cross_leave_one_relayed_link(void **state)
{
    (void)state;
    const uint64_t old = accept_relayed_active(HIGH);
    w.now_ns += GOSSIP_LINKS_INSTEAD_NS - 1;
    greet_with_life(accept_relayed(HIGH), 1);
    assert_null(find(GOSSIP_LINKS_UP));
    SAY(GOSSIP_LINKS_MESSAGE, .link = old);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_REPLACED);
    w.now_ns += S;
    greet_with_life(accept_relayed(HIGH), 2); // another process
    assert_null(find(GOSSIP_LINKS_UP));
}

static uint64_t until_small(uint64_t at_most_ns)
{
    const uint64_t begin_ns = w.now_ns;
    for (;;) {
        assert_true(gossip_links_deadline(w.links) <= begin_ns + at_most_ns);
        if (gossip_links_deadline(w.links) > w.now_ns)
            w.now_ns = gossip_links_deadline(w.links);
        SAY(GOSSIP_LINKS_TIMER);
        for (size_t i = 0; i < w.actions; i++)
            if (w.action[i].kind == GOSSIP_LINKS_RESOLVE && w.action[i].target.small)
                return w.now_ns - begin_ns;
    }
}

// Calls to direct addresses that do not answer take their time.
static void a_look_under_way_does_not_delay_the_call_over_another_relay(void **state)
{
    (void)state;
    const uint64_t link = accept_relayed_active(HIGH);
    until_look(2 * S);
    resolve_look(HIGH, 1);
    const uint64_t direct = look_call();
    SAY(GOSSIP_LINKS_STUCK, .link = link, .on = true);
    assert_int_equal(until_small(0), 0);
    SAY(GOSSIP_LINKS_ENDED, .link = direct, .end = GOSSIP_END_OTHER);
    SAY(GOSSIP_LINKS_RESOLVED, .target = {.entry = GOSSIP_NO_ENTRY, .peer = id(HIGH), .small = true},
        .count = 1, .relayed = 1);
    need(GOSSIP_LINKS_CALL);
}

// Both relays are slow, or the other end is.
static void two_relays_that_are_late_are_changed_less_and_less_often(void **state)
{
    (void)state;
    uint64_t stays_ns = 0;
    want(HIGH);
    uint64_t link = accept_relayed_active(HIGH);
    for (size_t turn = 0; turn < 12; turn++) {
        SAY(GOSSIP_LINKS_STUCK, .link = link, .on = true);
        const uint64_t took_ns = until_small(1000 * S);
        assert_in_range(took_ns, stays_ns, stays_ns);
        SAY(GOSSIP_LINKS_RESOLVED, .target = {.entry = GOSSIP_NO_ENTRY, .peer = id(HIGH), .small = true},
            .count = 1, .relayed = 1);
        link = need(GOSSIP_LINKS_CALL)->link;
        prove(link, HIGH);
        greet_with_life(link, 1);
        assert_int_equal(need(GOSSIP_LINKS_UP)->link, link);
        stays_ns = base_min(base_max(2 * stays_ns, GOSSIP_LINKS_RELAY_MIN_NS), GOSSIP_LINKS_PATH_LATE_NS);
    }
}

static void the_higher_id_follows(void **state)
{
    (void)state;
    const uint64_t relayed = accept_relayed_active(LOW), direct = accept_authenticated(LOW, true);
    assert_int_equal(need(GOSSIP_LINKS_GREET)->link, direct);
    greet_with_life(direct, 1);
    assert_int_equal(need(GOSSIP_LINKS_UP)->link, direct);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->link, relayed);
}

// Both were on their way, and the greeting over the relay came first.
static void a_direct_link_that_waits_outlives_a_relayed_one_in_use(void **state)
{
    (void)state;
    const uint64_t direct = accept_authenticated(HIGH, true), other = accept_relayed(HIGH);
    accept_relayed_active(HIGH);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->link, other); // a second relayed one is not needed
    greet_with_life(direct, 1);
    assert_int_equal(need(GOSSIP_LINKS_UP)->link, direct);
}

// -- looks

static void a_member_with_a_relayed_link_is_looked_at(void **state)
{
    (void)state;
    uint64_t pause_ns = GOSSIP_LINKS_DIRECT_MIN_NS;
    const uint64_t link = accept_relayed_active(HIGH);
    SAY(GOSSIP_LINKS_STALLED, .link = link, .on = true); // does not end as idle
    for (size_t turn = 0; turn < 12; turn++) {
        const uint64_t begin_ns = w.now_ns;
        assert_in_range(until_look(90 * S) - begin_ns, pause_ns / 2, pause_ns / 2 * 3);
        resolve_look(HIGH, turn % 3);
        for (size_t i = 0; i < turn % 3; i++)
            SAY(GOSSIP_LINKS_ENDED, .link = look_call(), .end = GOSSIP_END_REFUSED);
        assert_null(find(GOSSIP_LINKS_UNREACHABLE));
        pause_ns = 2 * pause_ns < GOSSIP_LINKS_DIRECT_MAX_NS ? 2 * pause_ns : GOSSIP_LINKS_DIRECT_MAX_NS;
    }
    until_look(90 * S);
    resolve_look(HIGH, 1);
    const uint64_t direct = look_call();
    prove(direct, HIGH);
    greet_with_life(direct, 1);
    assert_int_equal(need(GOSSIP_LINKS_UP)->link, direct);
    no_looks(100 * S); // this node has called: it has nothing to find out
}

// Takes over after a look, and returns after which pause.
static uint64_t look_leads_to(uint8_t first)
{
    const uint64_t begin_ns = w.now_ns, looked_ns = until_look(1000 * S);
    resolve_look(first, 1);
    const uint64_t direct = look_call();
    prove(direct, first);
    greet_with_life(direct, 1);
    assert_int_equal(need(GOSSIP_LINKS_UP)->link, direct);
    return looked_ns - begin_ns;
}

static void a_direct_path_that_dies_again_and_again_is_looked_for_less_often(void **state)
{
    (void)state;
    uint64_t pause_ns = GOSSIP_LINKS_DIRECT_MIN_NS;
    want(HIGH);
    for (size_t turn = 0; turn < 15; turn++) {
        accept_relayed_active(HIGH);
        assert_in_range(look_leads_to(HIGH), pause_ns / 2, pause_ns / 2 * 3);
        const bool settled = turn == 12, dies = turn < 12;
        w.now_ns += settled ? GOSSIP_LINKS_SETTLED_NS : 20 * S;
        const uint64_t direct = gossip_links_active(w.links, &(struct gossip_id){.bytes = {HIGH}}, NULL);
        if (dies && turn % 2) { // a relayed link takes the place of the silent one
            greet_with_life(accept_relayed(HIGH), 1);
            until(GOSSIP_LINKS_UP, 7 * S);
            SAY(GOSSIP_LINKS_BYE, .link = need(GOSSIP_LINKS_UP)->link, .reason = "idle");
        } else if (dies || settled) {
            SAY(GOSSIP_LINKS_ENDED, .link = direct, .end = GOSSIP_END_OTHER);
        } else { // in agreement
            SAY(GOSSIP_LINKS_BYE, .link = direct, .reason = "idle");
        }
        pause_ns =
            settled || !dies ? GOSSIP_LINKS_DIRECT_MIN_NS : base_min(2 * pause_ns, GOSSIP_LINKS_PATH_LATE_NS);
    }
}

static void looks_do_not_disturb_the_pauses_between_calls(void **state)
{
    (void)state;
    const uint64_t link = accept_relayed_active(HIGH);
    want(HIGH);
    until_look(2 * S);
    resolve_look(HIGH, 1);
    const uint64_t called = look_call();
    SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_GONE);
    const uint64_t ended_ns = w.now_ns;
    SAY(GOSSIP_LINKS_ENDED, .link = called, .end = GOSSIP_END_REFUSED);
    assert_null(find(GOSSIP_LINKS_UNREACHABLE));
    assert_in_range(until(GOSSIP_LINKS_RESOLVE, S) - ended_ns, GOSSIP_LINKS_PAUSE_MIN_NS / 2,
                    GOSSIP_LINKS_PAUSE_MIN_NS / 2 * 3);
}

// So that the other end learns whether it can be called.
static void a_member_that_called_is_called_back(void **state)
{
    (void)state;
    const uint64_t begin_ns = w.now_ns;
    SAY(GOSSIP_LINKS_STALLED, .link = accept_active(HIGH), .on = true);
    assert_in_range(until_look(S) - begin_ns, GOSSIP_LINKS_BACK_FIRST_NS / 2,
                    GOSSIP_LINKS_BACK_FIRST_NS / 2 * 3);
    for (size_t turn = 0; turn < 3; turn++) {
        resolve_look(HIGH, 2);
        const uint64_t called = look_call(), called_ns = w.now_ns;
        prove(called, HIGH);
        assert_int_equal(w.action[0].kind, GOSSIP_LINKS_CLOSE);
        assert_int_equal(w.action[0].why, GOSSIP_CLOSE_NOT_NEEDED);
        assert_int_equal(w.actions, 1); // one address has answered: the other is not called
        SAY(GOSSIP_LINKS_ENDED, .link = called, .end = GOSSIP_END_OTHER);
        assert_in_range(until_look(400 * S) - called_ns, GOSSIP_LINKS_BACK_NS / 2,
                        GOSSIP_LINKS_BACK_NS / 2 * 3);
    }
}

static void a_look_goes_on_behind_another_host(void **state)
{
    (void)state;
    accept_active(HIGH);
    until_look(S);
    resolve_look(HIGH, 2);
    prove(look_call(), HIGHER); // the address has a new owner
    assert_int_equal(w.action[0].why, GOSSIP_CLOSE_NOT_NEEDED);
    look_call();
}

static void a_member_that_was_called_is_not_called_back(void **state)
{
    (void)state;
    want(HIGH);
    const uint64_t link = call_of_member(HIGH);
    prove(link, HIGH);
    greet_with_life(link, 1);
    need(GOSSIP_LINKS_UP);
    no_looks(1000 * S);
}

static void looks_begin_with_the_calls_and_end_with_the_link(void **state)
{
    (void)state;
    end(NULL);
    assert_int_equal(begin_with(0, NULL), 0);
    const uint64_t link = accept_active(HIGH);
    no_looks(5 * S);
    SAY(GOSSIP_LINKS_START);
    until_look(S);
    SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_OTHER);
    resolve_look(HIGH, 1);
    assert_int_equal(w.actions, 0);
    accept_relayed_active(HIGHER);
    SAY(GOSSIP_LINKS_LEAVE);
    no_looks(1000 * S);
}

enum { MANY = 120, ADDRESSES = 4 };
static const uint64_t look_ns = GOSSIP_LINKS_CALL_NS + (ADDRESSES - 1) * GOSSIP_LINKS_CALL_NEXT_NS;

// Nobody answers, and more looks are due than may be under way. Those that wait have their turn when others
// end.
static void few_looks_are_under_way_and_each_member_has_its_turn(void **state)
{
    size_t looks[100 + MANY] = {0}, begun = 0, timers = 0;
    uint64_t latest_ns[GOSSIP_LINKS_LOOKS] = {0};
    (void)state;
    for (uint8_t i = 0; i < MANY; i++)
        SAY(GOSSIP_LINKS_STALLED, .link = accept_relayed_active(100 + i), .on = true);
    for (const uint64_t end_ns = w.now_ns + 1200 * S; w.now_ns < end_ns; timers++) {
        w.now_ns = gossip_links_deadline(w.links) > w.now_ns ? gossip_links_deadline(w.links) : w.now_ns;
        SAY(GOSSIP_LINKS_TIMER);
        struct gossip_links_action action[sizeof w.action / sizeof *w.action];
        const size_t actions = w.actions;
        memcpy(action, w.action, actions * sizeof *action);
        for (size_t i = 0; i < actions; i++) {
            if (action[i].kind == GOSSIP_LINKS_CLOSE)
                SAY(GOSSIP_LINKS_ENDED, .link = action[i].link, .end = GOSSIP_END_OTHER);
            if (action[i].kind != GOSSIP_LINKS_RESOLVE)
                continue;
            uint64_t *before_ns = &latest_ns[begun++ % GOSSIP_LINKS_LOOKS];
            assert_true(*before_ns == 0 || w.now_ns - *before_ns >= look_ns);
            *before_ns = w.now_ns;
            looks[action[i].target.peer.bytes[0]]++;
            resolve_look(action[i].target.peer.bytes[0], ADDRESSES);
        }
    }
    for (size_t i = 0; i < MANY; i++)
        assert_in_range(looks[100 + i], 7, 13);
    assert_in_range(timers, begun, 20 * begun); // those that wait are not asked again and again
}

static void changed_addresses_are_called_soon(void **state)
{
    (void)state;
    want(HIGH);
    for (size_t turn = 0; turn < 8; turn++) {
        SAY(GOSSIP_LINKS_ENDED, .link = call_of_member(HIGH), .end = GOSSIP_END_OTHER);
        if (turn < 7)
            until(GOSSIP_LINKS_RESOLVE, 16 * S);
    }
    uint64_t begin_ns = w.now_ns;
    SAY(GOSSIP_LINKS_HURRY, .peer = id(HIGH));
    assert_in_range(until(GOSSIP_LINKS_RESOLVE, S) - begin_ns, 0, GOSSIP_LINKS_PAUSE_MIN_NS / 2 * 3);
    SAY(GOSSIP_LINKS_STALLED, .link = accept_active(LOW), .on = true);
    until_look(S);
    resolve_look(LOW, 0);
    begin_ns = w.now_ns;
    SAY(GOSSIP_LINKS_HURRY, .peer = id(LOW));
    assert_in_range(until_look(S) - begin_ns, 0, GOSSIP_LINKS_HURRY_NS);
    SAY(GOSSIP_LINKS_HURRY, .peer = id(HIGHER)); // nobody knows it
}

static void a_changed_address_of_this_node_makes_all_relayed_links_due(void **state)
{
    (void)state;
    SAY(GOSSIP_LINKS_STALLED, .link = accept_relayed_active(HIGH), .on = true);
    SAY(GOSSIP_LINKS_STALLED, .link = accept_relayed_active(LOW), .on = true);
    SAY(GOSSIP_LINKS_STALLED, .link = accept_active(HIGHER), .on = true);
    for (const uint64_t end_ns = w.now_ns + 100 * S; w.now_ns < end_ns;) {
        until_look(90 * S);
        resolve_look(HIGH, 0);
        resolve_look(LOW, 0);
        resolve_look(HIGHER, 0);
    }
    SAY(GOSSIP_LINKS_LOOK_ALL);
    assert_int_equal(gossip_links_deadline(w.links), w.now_ns);
    SAY(GOSSIP_LINKS_TIMER);
    assert_int_equal(w.actions, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(w.action[i].kind, GOSSIP_LINKS_RESOLVE);
        assert_true(w.action[i].target.peer.bytes[0] != HIGHER);
    }
    resolve_look(HIGH, 0);
    const uint64_t begin_ns = w.now_ns;
    until_look(90 * S); // its pauses begin anew
    assert_in_range(w.now_ns - begin_ns, 0, GOSSIP_LINKS_DIRECT_MIN_NS / 2 * 3);
}

// -- accepted connections

static void a_direct_caller_has_reached_this_node(void **state)
{
    (void)state;
    const uint64_t link = accept_authenticated(HIGH, true);
    assert_int_equal(need(GOSSIP_LINKS_REACHED)->peer.bytes[0], HIGH);
    greet_with_life(link, 1);
    accept_authenticated(HIGH, true); // its look: this link ends unused
    need(GOSSIP_LINKS_REACHED);
    accept_relayed(HIGHER);
    assert_null(find(GOSSIP_LINKS_REACHED));
    want(LOW);
    prove(call_of_member(LOW), LOW);
    assert_null(find(GOSSIP_LINKS_REACHED));
    SAY(GOSSIP_LINKS_AUTHENTICATED, .link = gossip_links_accept(w.links, w.now_ns, 1, false, NULL),
        .peer = id(LOW), .protocol = 0);
    assert_null(find(GOSSIP_LINKS_REACHED));
}

static void a_stranger_has_not(void **state)
{
    (void)state;
    struct gossip_allow_list list = {0};
    end(NULL);
    assert_int_equal(begin_with(0, &list), 0);
    accept_authenticated(HIGH, true);
    assert_null(find(GOSSIP_LINKS_REACHED));
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_NOT_ALLOWED);
}

static void relayed_connections_have_a_limit_of_their_own(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIMIT_HALF_OPEN; i++)
        assert_true(gossip_links_accept(w.links, w.now_ns, i, false, NULL) != 0);
    for (size_t i = 1; i < GOSSIP_LINKS_RELAYED; i++)
        assert_true(gossip_links_accept(w.links, w.now_ns, 0, true, NULL) != 0);
    SAY(GOSSIP_LINKS_TIMER);
    assert_null(find(GOSSIP_LINKS_CLOSE)); // none has displaced another
    const uint64_t link = accept_relayed_active(HIGH);
    assert_true(gossip_links_accept(w.links, w.now_ns, 0, true, NULL) != 0); // that one is in use
    assert_true(gossip_links_accept(w.links, w.now_ns, 0, true, NULL) == 0);
    SAY(GOSSIP_LINKS_ENDED, .link = link, .end = GOSSIP_END_OTHER);
    assert_true(gossip_links_accept(w.links, w.now_ns, 0, true, NULL) == 0);
    assert_true(gossip_links_accept(w.links, w.now_ns, 7, false, NULL) != 0);
    SAY(GOSSIP_LINKS_TIMER);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_CROWDED); // a direct one of the same flood
}

// -- leaving

// The last answers and the BYE of a relayed link pass over the link to its relay.
static void direct_links_outlive_the_last_words_of_relayed_ones(void **state)
{
    (void)state;
    const uint64_t direct = accept_active(LOW), relayed = accept_relayed_active(HIGH),
                   other = accept_relayed_active(HIGHER);
    enum { WAITS = HIGH + 20 }; // for a greeting
    accept_authenticated(WAITS, true);
    SAY(GOSSIP_LINKS_LEAVE);
    assert_int_equal(w.actions, 5); // three CLOSE, two DOWN
    for (size_t i = 0; i < w.actions; i++) {
        assert_int_not_equal(w.action[i].link, direct);
        if (w.action[i].kind == GOSSIP_LINKS_CLOSE)
            assert_int_equal(w.action[i].why, w.action[i].peer.bytes[0] == WAITS ? GOSSIP_CLOSE_NOT_NEEDED
                                                                                 : GOSSIP_CLOSE_LEAVING);
    }
    SAY(GOSSIP_LINKS_MESSAGE, .link = direct); // such as credit of the stream
    need(GOSSIP_LINKS_DELIVER);
    SAY(GOSSIP_LINKS_ENDED, .link = relayed, .end = GOSSIP_END_GONE);
    assert_int_equal(w.actions, 0);
    SAY(GOSSIP_LINKS_ENDED, .link = other, .end = GOSSIP_END_GONE);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->link, direct);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_LEAVING);
}

static void they_do_not_wait_for_ever(void **state)
{
    (void)state;
    const uint64_t direct = accept_active(LOW), begin_ns = w.now_ns;
    accept_relayed_active(HIGH);
    SAY(GOSSIP_LINKS_LEAVE);
    assert_int_equal(until(GOSSIP_LINKS_CLOSE, 2 * S) - begin_ns, GOSSIP_LINKS_LEAVE_NS);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->link, direct);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_LEAVING);
}

#define ALONE(test) cmocka_unit_test_setup_teardown(test, begin_alone, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ALONE(the_end_of_a_relayed_link_is_no_evidence),
        ALONE(a_relay_that_refuses_is_no_evidence),
        ALONE(a_relayed_call_does_not_reach_a_port),
        ALONE(a_call_of_one_second_does_not_delay_the_next_address),
        ALONE(a_turn_ends_with_its_last_call),
        ALONE(an_address_that_refuses_does_not_wait),
        ALONE(the_lower_id_takes_a_direct_link_at_once),
        ALONE(another_process_waits_for_its_turn),
        ALONE(a_relayed_link_replaces_no_direct_one),
        ALONE(a_relayed_link_gives_way_to_one_that_the_other_end_calls),
        ALONE(calls_that_cross_leave_one_relayed_link),
        ALONE(a_look_under_way_does_not_delay_the_call_over_another_relay),
        ALONE(two_relays_that_are_late_are_changed_less_and_less_often),
        ALONE(the_higher_id_follows),
        ALONE(a_direct_link_that_waits_outlives_a_relayed_one_in_use),
        ALONE(a_member_with_a_relayed_link_is_looked_at),
        ALONE(a_direct_path_that_dies_again_and_again_is_looked_for_less_often),
        ALONE(looks_do_not_disturb_the_pauses_between_calls),
        ALONE(a_member_that_called_is_called_back),
        ALONE(a_look_goes_on_behind_another_host),
        ALONE(a_member_that_was_called_is_not_called_back),
        ALONE(looks_begin_with_the_calls_and_end_with_the_link),
        ALONE(few_looks_are_under_way_and_each_member_has_its_turn),
        ALONE(changed_addresses_are_called_soon),
        ALONE(a_changed_address_of_this_node_makes_all_relayed_links_due),
        ALONE(a_direct_caller_has_reached_this_node),
        ALONE(a_stranger_has_not),
        ALONE(relayed_connections_have_a_limit_of_their_own),
        ALONE(direct_links_outlive_the_last_words_of_relayed_ones),
        ALONE(they_do_not_wait_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
