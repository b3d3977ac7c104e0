// The rules of links, one by one: what this node sends on a link does not arrive.
#include "gossip/links/links.h"
#include "test/support/links_rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct gossip_links_action *small_one(enum gossip_links_action_kind kind)
{
    for (size_t i = 0; i < w.actions; i++)
        if (w.action[i].kind == kind && w.action[i].target.small)
            return &w.action[i];
    return NULL;
}

// A link that this node has called.
static uint64_t call_active(uint8_t first)
{
    want(first);
    const uint64_t link = call_of_member(first);
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = link, .peer = id(first),
        .alive = true);
    greet_with_life(link, 1);
    assert_int_equal(need(GOSSIP_LINKS_UP)->link, link);
    return link;
}

static uint64_t pass_until_small(uint64_t at_most_ns)
{
    const uint64_t begin_ns = w.now_ns;
    do {
        assert_true(gossip_links_deadline(w.links) <= begin_ns + at_most_ns);
        if (gossip_links_deadline(w.links) > w.now_ns)
            w.now_ns = gossip_links_deadline(w.links);
        SAY(GOSSIP_LINKS_TIMER);
    } while (!small_one(GOSSIP_LINKS_RESOLVE));
    return w.now_ns - begin_ns;
}

static uint64_t call_small(uint8_t first)
{
    SAY(GOSSIP_LINKS_RESOLVED, .target = {.entry = GOSSIP_NO_ENTRY, .peer = id(first), .small = true},
        .count = 1);
    assert_non_null(small_one(GOSSIP_LINKS_CALL));
    return small_one(GOSSIP_LINKS_CALL)->link;
}

static uint64_t call_again_authenticated(uint8_t first)
{
    assert_int_equal(pass_until_small(MS), 0);
    assert_false(small_one(GOSSIP_LINKS_RESOLVE)->target.direct); // a relay is good enough
    const uint64_t fresh = call_small(first);
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = fresh, .peer = id(first),
        .alive = true);
    assert_null(find(GOSSIP_LINKS_CLOSE));
    return fresh;
}

static void start(void)
{
    without_entries();
    SAY(GOSSIP_LINKS_START);
}

static void a_stuck_link_is_called_again_and_replaced_at_once(void **state)
{
    (void)state;
    for (int low = 0; low < 2; low++) {
        start();
        const uint8_t peer = low ? LOW : HIGH;
        const uint64_t old = call_active(peer);
        SAY(GOSSIP_LINKS_STUCK, .link = old, .on = true);
        assert_null(find(GOSSIP_LINKS_DOWN)); // it stays in use: it may recover
        const uint64_t fresh = call_again_authenticated(peer);
        assert_true((find(GOSSIP_LINKS_GREET) != NULL) == low); // the higher id greets first
        greet_with_life(fresh, 1);
        assert_int_equal(need(GOSSIP_LINKS_UP)->link, fresh);
        assert_int_equal(need(GOSSIP_LINKS_DOWN)->link, old);
        assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_REPLACED);
        assert_null(find(GOSSIP_LINKS_UNREACHABLE));
        quiet(60 * S, GOSSIP_LINKS_RESOLVE);
        end(NULL);
        begin(NULL);
    }
}

static void a_link_that_is_not_stuck_any_more_stays(void **state)
{
    (void)state;
    start();
    const uint64_t old = call_active(HIGH);
    SAY(GOSSIP_LINKS_STUCK, .link = old, .on = true);
    assert_int_equal(pass_until_small(MS), 0);
    const uint64_t fresh = call_small(HIGH);
    SAY(GOSSIP_LINKS_STUCK, .link = old, .on = false);
    SAY(GOSSIP_LINKS_AUTHENTICATED, .protocol = GOSSIP_PROTOCOL, .link = fresh, .peer = id(HIGH),
        .alive = true);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->link, fresh);
    assert_int_equal(need(GOSSIP_LINKS_CLOSE)->why, GOSSIP_CLOSE_NOT_NEEDED);
    SAY(GOSSIP_LINKS_ENDED, .link = fresh, .end = GOSSIP_END_OTHER);
    for (uint64_t end_ns = w.now_ns + 600 * S; gossip_links_deadline(w.links) < end_ns;) {
        w.now_ns = gossip_links_deadline(w.links) > w.now_ns ? gossip_links_deadline(w.links) : w.now_ns;
        SAY(GOSSIP_LINKS_TIMER);
        assert_int_equal(w.actions, 0);
    }
}

static void calls_of_a_stuck_link_go_on(void **state)
{
    (void)state;
    start();
    want(HIGH);
    SAY(GOSSIP_LINKS_STUCK, .link = accept_active(HIGH), .on = true);
    for (int turn = 0; turn < 10; turn++) {
        assert_in_range(pass_until_small(3 * S), 0, GOSSIP_LINKS_PAUSE_MEMBER_NS / 2 * 3);
        SAY(GOSSIP_LINKS_ENDED, .link = call_small(HIGH), .end = GOSSIP_END_OTHER);
    }
}

// The way over a relay, which failed, may work while a call to an address that nobody has any more takes its
// time.
static void a_call_without_an_answer_delays_no_next_turn(void **state)
{
    (void)state;
    start();
    SAY(GOSSIP_LINKS_STUCK, .link = call_active(HIGH), .on = true);
    assert_int_equal(pass_until_small(MS), 0);
    for (int turn = 0; turn < 2; turn++) {
        (void)call_small(HIGH);
        const uint64_t most_ns = GOSSIP_LINKS_CALL_STUCK_NS + GOSSIP_LINKS_PAUSE_MIN_NS * 3;
        assert_in_range(pass_until_small(2 * S), GOSSIP_LINKS_CALL_STUCK_NS, most_ns);
    }
}

// What was known of its closed port is no evidence while there is a link.
static void a_refused_call_beside_a_stuck_link_is_no_evidence(void **state)
{
    (void)state;
    start();
    SAY(GOSSIP_LINKS_STUCK, .link = call_active(HIGH), .on = true);
    assert_int_equal(pass_until_small(MS), 0);
    SAY(GOSSIP_LINKS_ENDED, .link = call_small(HIGH), .end = GOSSIP_END_REFUSED);
    assert_null(find(GOSSIP_LINKS_UNREACHABLE));
}

// Another process with this identity may answer at the address of the first.
static void another_process_does_not_take_a_stuck_link_over_at_once(void **state)
{
    (void)state;
    start();
    const uint64_t old = call_active(HIGH);
    SAY(GOSSIP_LINKS_STUCK, .link = old, .on = true);
    const uint64_t fresh = call_again_authenticated(HIGH), begin_ns = w.now_ns;
    greet_with_life(fresh, 2);
    assert_null(find(GOSSIP_LINKS_UP));
    assert_int_equal(until(GOSSIP_LINKS_UP, 4 * S) - begin_ns, GOSSIP_LINKS_CANDIDATE_NS);
}

// The end that knows nothing of it.
static void a_process_that_calls_again_waits_half_a_second(void **state)
{
    (void)state;
    for (int hears = 0; hears < 2; hears++) {
        start();
        const uint64_t old = accept_active(HIGH), fresh = accept_authenticated(HIGH, true),
                       begin_ns = w.now_ns;
        greet_with_life(fresh, 1);
        assert_null(find(GOSSIP_LINKS_UP));
        if (hears) {
            SAY(GOSSIP_LINKS_MESSAGE, .link = old);
            assert_int_equal(need(GOSSIP_LINKS_CLOSE)->link, fresh);
        } else {
            assert_int_equal(until(GOSSIP_LINKS_UP, S) - begin_ns, GOSSIP_LINKS_AGAIN_NS);
            assert_int_equal(need(GOSSIP_LINKS_DOWN)->link, old);
        }
        end(NULL);
        begin(NULL);
    }
}

static void links_that_are_not_in_use_are_not_stuck(void **state)
{
    (void)state;
    start();
    const uint64_t link = accept_authenticated(HIGH, true);
    SAY(GOSSIP_LINKS_STUCK, .link = link, .on = true);
    assert_int_equal(w.actions, 0);
    greet_with_life(link, 1);
    SAY(GOSSIP_LINKS_STUCK, .link = link + 1, .on = true);
    quiet(2 * S, GOSSIP_LINKS_DOWN);
    assert_null(small_one(GOSSIP_LINKS_RESOLVE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_stuck_link_is_called_again_and_replaced_at_once, begin, end),
        cmocka_unit_test_setup_teardown(a_link_that_is_not_stuck_any_more_stays, begin, end),
        cmocka_unit_test_setup_teardown(calls_of_a_stuck_link_go_on, begin, end),
        cmocka_unit_test_setup_teardown(a_call_without_an_answer_delays_no_next_turn, begin, end),
        cmocka_unit_test_setup_teardown(a_refused_call_beside_a_stuck_link_is_no_evidence, begin, end),
        cmocka_unit_test_setup_teardown(another_process_does_not_take_a_stuck_link_over_at_once, begin, end),
        cmocka_unit_test_setup_teardown(a_process_that_calls_again_waits_half_a_second, begin, end),
        cmocka_unit_test_setup_teardown(links_that_are_not_in_use_are_not_stuck, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
