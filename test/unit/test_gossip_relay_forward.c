// A relay between others, rule by rule, with messages of both ends written by the test.
#include "test/support/relay_rules.h"

enum { RATE = 4 * GOSSIP_RELAY_CHUNK }; // a burst is one chunk, which takes a quarter of a second

// LOW opens stream 4 to HIGH, which knows it by *number

static void forward(uint64_t rate, uint32_t *number)
{
    begin(rate);
    link_to(LOW);
    link_to(HIGH);
    hear_id(LOW, GOSSIP_RELAY_OPEN, 4, HIGH);
    assert_int_equal(w.n, 1);
    *number = w.said[0].message.stream;
    said_message(0, HIGH, GOSSIP_RELAY_CALLED, *number, WINDOW);
    assert_int_equal(*number % 2, 0);
    assert_int_equal(w.id[0], LOW);
    assert_int_equal(totals().forwarded, 1);
    assert_int_equal(totals().ends, 0);
}

static void bytes_pass_both_ways_without_a_copy(void **state)
{
    uint32_t number;
    (void)state;
    forward(GOSSIP_RELAY_ANY, &number);
    hear_data(LOW, 4, CHUNK);
    assert_int_equal(w.n, 1);
    said_data(0, HIGH, number, CHUNK);
    assert_ptr_equal(w.said[0].message.bytes, bytes);
    hear_data(HIGH, number, 9);
    assert_int_equal(w.n, 1);
    said_data(0, LOW, 4, 9);
    assert_int_equal(totals().bytes, CHUNK + 9);
    assert_int_equal(gossip_relay_deadline(w.relay), UINT64_MAX);
}

static void credit_passes_both_ways(void **state)
{
    uint32_t number;
    (void)state;
    forward(GOSSIP_RELAY_ANY, &number);
    for (size_t i = 0; i < WINDOW / CHUNK; i++)
        hear_data(LOW, 4, CHUNK);
    hear(HIGH, GOSSIP_RELAY_CREDIT, number, CHUNK);
    said_only(LOW, GOSSIP_RELAY_CREDIT, 4, CHUNK);
    hear_data(LOW, 4, CHUNK); // the window is open again by that much
    assert_int_equal(w.n, 1);
    said_data(0, HIGH, number, CHUNK);
    hear_data(HIGH, number, CHUNK);
    hear(LOW, GOSSIP_RELAY_CREDIT, 4, CHUNK);
    said_only(HIGH, GOSSIP_RELAY_CREDIT, number, CHUNK);
}

static void a_relay_holds_each_end_to_the_window(void **state)
{
    uint32_t number;
    (void)state;
    forward(GOSSIP_RELAY_ANY, &number);
    for (size_t i = 0; i < WINDOW / CHUNK; i++)
        hear_data(HIGH, number, CHUNK);
    hear_data(HIGH, number, 1);
    assert_int_equal(w.n, 2);
    said_message(0, LOW, GOSSIP_RELAY_CLOSE, 4, GOSSIP_RELAY_END_BROKEN);
    said_message(1, HIGH, GOSSIP_RELAY_CLOSE, number, GOSSIP_RELAY_END_BROKEN);
    assert_int_equal(totals().forwarded, 0);
    forward(GOSSIP_RELAY_ANY, &number);
    hear_data(LOW, 4, 5);
    hear(HIGH, GOSSIP_RELAY_CREDIT, number, 6);
    assert_int_equal(w.n, 2);
    said_message(0, LOW, GOSSIP_RELAY_CLOSE, 4, GOSSIP_RELAY_END_BROKEN);
    said_message(1, HIGH, GOSSIP_RELAY_CLOSE, number, GOSSIP_RELAY_END_BROKEN);
    assert_int_equal(totals().forwarded, 0);
}

static void a_relay_says_why_it_refuses(void **state)
{
    const struct gossip_id high = id(HIGH);
    (void)state;
    begin(0);
    link_to(LOW);
    link_to(HIGH);
    hear_id(LOW, GOSSIP_RELAY_OPEN, 2, HIGH);
    said_only(LOW, GOSSIP_RELAY_CLOSE, 2, GOSSIP_RELAY_END_OFF);
    step((struct gossip_relay_event){.kind = GOSSIP_RELAY_RATE, .rate = 1000000});
    hear_id(LOW, GOSSIP_RELAY_OPEN, 2, FAR);
    said_only(LOW, GOSSIP_RELAY_CLOSE, 2, GOSSIP_RELAY_END_NO_LINK);
    hear_id(LOW, GOSSIP_RELAY_OPEN, 2, SELF);
    said_only(LOW, GOSSIP_RELAY_CLOSE, 2, GOSSIP_RELAY_END_BROKEN);
    hear_id(LOW, GOSSIP_RELAY_OPEN, 2, LOW);
    said_only(LOW, GOSSIP_RELAY_CLOSE, 2, GOSSIP_RELAY_END_BROKEN);
    hear_id(LOW, GOSSIP_RELAY_OPEN, 3, HIGH); // this node, of the higher id, has the odd ones
    said_only(LOW, GOSSIP_RELAY_CLOSE, 3, GOSSIP_RELAY_END_BROKEN);
    hear_only(LOW, GOSSIP_RELAY_OPEN, 2, WINDOW - 1, high.bytes, sizeof high.bytes);
    take();
    said_only(LOW, GOSSIP_RELAY_CLOSE, 2, GOSSIP_RELAY_END_BROKEN);
    assert_int_equal(totals().refused, 6);
    hear_id(LOW, GOSSIP_RELAY_OPEN, 2, HIGH);
    assert_int_equal(totals().forwarded, 1);
    hear_id(LOW, GOSSIP_RELAY_OPEN, 2, HIGH); // in use
    assert_int_equal(w.n, 2);
    said_message(0, HIGH, GOSSIP_RELAY_CLOSE, w.said[0].message.stream, GOSSIP_RELAY_END_BROKEN);
    said_message(1, LOW, GOSSIP_RELAY_CLOSE, 2, GOSSIP_RELAY_END_BROKEN);
    assert_int_equal(totals().forwarded, 0);
}

static void a_member_opens_a_limited_number_of_streams(void **state)
{
    (void)state;
    begin(GOSSIP_RELAY_ANY);
    link_to(HIGH);
    link_to(FAR);
    link_to(LOW);
    for (uint32_t i = 0; i < GOSSIP_RELAY_MEMBER; i++) {
        hear_id(LOW, GOSSIP_RELAY_OPEN, 2 * i, FAR);
        said_only(FAR, GOSSIP_RELAY_CALLED, w.said[0].message.stream, WINDOW);
    }
    hear_id(LOW, GOSSIP_RELAY_OPEN, 1000, HIGH);
    said_only(LOW, GOSSIP_RELAY_CLOSE, 1000, GOSSIP_RELAY_END_FULL);
    hear_id(FAR, GOSSIP_RELAY_OPEN, 0, HIGH); // as a callee it has as many as others open
    said_only(HIGH, GOSSIP_RELAY_CALLED, w.said[0].message.stream, WINDOW);
    hear(LOW, GOSSIP_RELAY_CLOSE, 0, GOSSIP_RELAY_END_ENDED);
    hear_id(LOW, GOSSIP_RELAY_OPEN, 1000, HIGH);
    said_only(HIGH, GOSSIP_RELAY_CALLED, w.said[0].message.stream, WINDOW);
}

static void a_relay_forwards_a_limited_number_of_streams(void **state)
{
    const size_t members = GOSSIP_RELAY_STREAMS / GOSSIP_RELAY_MEMBER;
    (void)state;
    begin(GOSSIP_RELAY_ANY);
    link_to(LOW);
    for (size_t m = 0; m <= members; m++)
        link_to(100 + m);
    for (size_t m = 0; m < members; m++)
        for (uint32_t i = 0; i < GOSSIP_RELAY_MEMBER; i++) {
            hear_id(100 + m, GOSSIP_RELAY_OPEN, 2 * i + 1, LOW);
            said_only(LOW, GOSSIP_RELAY_CALLED, w.said[0].message.stream, WINDOW);
        }
    assert_int_equal(totals().forwarded, GOSSIP_RELAY_STREAMS);
    hear_id(100 + members, GOSSIP_RELAY_OPEN, 1, LOW);
    said_only(100 + members, GOSSIP_RELAY_CLOSE, 1, GOSSIP_RELAY_END_FULL);
    unlink_from(100);
    take();
    hear_id(100 + members, GOSSIP_RELAY_OPEN, 1, LOW);
    assert_int_equal(totals().forwarded, GOSSIP_RELAY_STREAMS - GOSSIP_RELAY_MEMBER + 1);
}

static void an_end_passes_through_the_relay(void **state)
{
    uint32_t number;
    (void)state;
    forward(GOSSIP_RELAY_ANY, &number);
    hear(HIGH, GOSSIP_RELAY_CLOSE, number, GOSSIP_RELAY_END_FULL);
    said_only(LOW, GOSSIP_RELAY_CLOSE, 4, GOSSIP_RELAY_END_FULL);
    forward(GOSSIP_RELAY_ANY, &number);
    hear(LOW, GOSSIP_RELAY_CLOSE, 4, 77);
    said_only(HIGH, GOSSIP_RELAY_CLOSE, number, GOSSIP_RELAY_END_ENDED);
    assert_int_equal(totals().forwarded, 0);
}

static void a_relay_tells_the_end_that_is_left(void **state)
{
    uint32_t number;
    (void)state;
    forward(GOSSIP_RELAY_ANY, &number);
    unlink_from(HIGH);
    take();
    said_only(LOW, GOSSIP_RELAY_CLOSE, 4, GOSSIP_RELAY_END_NO_LINK);
    forward(GOSSIP_RELAY_ANY, &number);
    link_to(LOW); // another link
    take();
    said_only(HIGH, GOSSIP_RELAY_CLOSE, number, GOSSIP_RELAY_END_NO_LINK);
    assert_int_equal(totals().forwarded, 0);
}

static void an_end_that_has_closed_may_lose_its_link(void **state)
{
    uint32_t number;
    (void)state;
    forward(RATE, &number);
    hear_data(LOW, 4, CHUNK);
    hear_data(LOW, 4, CHUNK);
    hear(LOW, GOSSIP_RELAY_CLOSE, 4, GOSSIP_RELAY_END_ENDED);
    unlink_from(LOW);
    take();
    assert_int_equal(w.n, 0);
    wait_until(gossip_relay_deadline(w.relay));
    assert_int_equal(w.n, 2);
    said_data(0, HIGH, number, CHUNK);
    said_message(1, HIGH, GOSSIP_RELAY_CLOSE, number, GOSSIP_RELAY_END_ENDED);
}

static void what_is_about_no_stream_changes_nothing(void **state)
{
    uint32_t number;
    (void)state;
    forward(GOSSIP_RELAY_ANY, &number);
    hear_data(LOW, 6, 1);
    assert_int_equal(w.n, 0);
    hear(LOW, GOSSIP_RELAY_CREDIT, 6, 1);
    assert_int_equal(w.n, 0);
    hear(LOW, GOSSIP_RELAY_CLOSE, 6, 1);
    assert_int_equal(w.n, 0);
    hear_data(HIGH, 4, 1); // a number of another link
    assert_int_equal(w.n, 0);
    hear_id(FAR, GOSSIP_RELAY_OPEN, 4, HIGH); // not linked
    assert_int_equal(w.n, 0);
    hear_data(LOW, 4, 1);
    assert_int_equal(w.n, 1);
}

// -- the rate

static void bytes_beyond_the_rate_wait_for_their_turn(void **state)
{
    uint32_t number;
    (void)state;
    forward(RATE, &number);
    hear_data(LOW, 4, CHUNK);
    assert_int_equal(w.n, 1);
    hear_only(LOW, GOSSIP_RELAY_DATA, 4, 0, bytes + CHUNK, CHUNK); // first byte 2
    take();
    hear_only(LOW, GOSSIP_RELAY_DATA, 4, 0, bytes + 2 * CHUNK, 5);
    take();
    assert_int_equal(w.n, 0);
    assert_int_equal(gossip_relay_deadline(w.relay), w.now_ns + SECOND / 4);
    wait_until(w.now_ns + SECOND / 4 - 1);
    assert_int_equal(w.n, 0);
    wait_until(w.now_ns + 1);
    assert_int_equal(w.n, 1);
    said_data(0, HIGH, number, CHUNK);
    assert_int_equal(w.first[0], 2);
    hear(LOW, GOSSIP_RELAY_CREDIT, 4, 0); // other messages do not wait
    hear(LOW, GOSSIP_RELAY_CLOSE, 4, GOSSIP_RELAY_END_ENDED);
    assert_int_equal(w.n, 0);
    assert_int_equal(totals().forwarded, 1);
    wait_until(gossip_relay_deadline(w.relay));
    assert_int_equal(w.n, 2); // the end follows what came before it
    said_data(0, HIGH, number, 5);
    assert_int_equal(w.first[0], 3);
    said_message(1, HIGH, GOSSIP_RELAY_CLOSE, number, GOSSIP_RELAY_END_ENDED);
    assert_int_equal(totals().forwarded, 0);
    assert_int_equal(gossip_relay_deadline(w.relay), UINT64_MAX);
}

static void a_quarter_of_a_second_may_pass_at_once(void **state)
{
    uint32_t number;
    size_t passed = 0;
    (void)state;
    forward(16 * CHUNK, &number);
    for (size_t i = 0; i < 5; i++) {
        hear_data(LOW, 4, CHUNK);
        passed += w.n;
        hear(HIGH, GOSSIP_RELAY_CREDIT, number, passed > i ? CHUNK : 0);
    }
    assert_int_equal(passed, 4);
    wait_until(w.now_ns + 100 * SECOND); // not more, however long nothing was sent
    passed = w.n;
    hear(HIGH, GOSSIP_RELAY_CREDIT, number, CHUNK);
    for (size_t i = 0; i < 5; i++) {
        hear_data(LOW, 4, CHUNK);
        passed += w.n;
        hear(HIGH, GOSSIP_RELAY_CREDIT, number, passed > i + 1 ? CHUNK : 0);
    }
    assert_int_equal(passed, 4);
}

static void credit_for_bytes_that_wait_breaks_the_stream(void **state)
{
    uint32_t number;
    (void)state;
    forward(RATE, &number);
    hear_data(LOW, 4, CHUNK);
    hear_data(LOW, 4, CHUNK);
    hear(HIGH, GOSSIP_RELAY_CREDIT, number, CHUNK + 1);
    assert_int_equal(w.n, 2);
    said_message(0, LOW, GOSSIP_RELAY_CLOSE, 4, GOSSIP_RELAY_END_BROKEN);
    said_message(1, HIGH, GOSSIP_RELAY_CLOSE, number, GOSSIP_RELAY_END_BROKEN);
    assert_int_equal(totals().forwarded, 0);
}

static void streams_take_turns(void **state)
{
    uint32_t number;
    (void)state;
    forward(RATE, &number);
    hear_id(LOW, GOSSIP_RELAY_OPEN, 6, HIGH);
    uint32_t other = w.said[0].message.stream;
    for (size_t i = 0; i < 4; i++)
        hear_data(LOW, 4, CHUNK); // one passes, three wait
    hear_data(LOW, 6, 3);         // fewer than tokens would allow soon: it waits behind the others
    hear_data(LOW, 6, CHUNK);
    assert_int_equal(w.n, 0);
    const uint32_t turns[] = {number, other, number, other, number};
    const size_t counts[] = {CHUNK, CHUNK, CHUNK, 3, CHUNK};
    for (size_t i = 0; i < 5; i++) {
        wait_until(gossip_relay_deadline(w.relay));
        assert_int_equal(w.n, 1);
        said_data(0, HIGH, turns[i], counts[i]);
    }
}

static void nobody_overtakes_who_waits(void **state)
{
    uint32_t number;
    (void)state;
    forward(RATE, &number);
    hear_id(LOW, GOSSIP_RELAY_OPEN, 6, HIGH);
    uint32_t other = w.said[0].message.stream;
    hear_data(LOW, 4, CHUNK);
    hear_data(LOW, 4, CHUNK);
    w.now_ns += SECOND / 8; // enough for a byte, not for a chunk
    hear_data(LOW, 6, 1);
    assert_int_equal(w.n, 0);
    wait_until(gossip_relay_deadline(w.relay));
    assert_int_equal(w.n, 1);
    said_data(0, HIGH, number, CHUNK);
    wait_until(gossip_relay_deadline(w.relay));
    assert_int_equal(w.n, 1);
    said_data(0, HIGH, other, 1);
}

static void a_broken_stream_keeps_nothing(void **state)
{
    uint32_t number;
    (void)state;
    forward(RATE, &number);
    for (size_t i = 0; i < 3; i++)
        hear_data(LOW, 4, CHUNK);
    hear_data(HIGH, number, CHUNK);
    hear_data(LOW, 4, CHUNK);
    hear_data(LOW, 4, 1); // beyond the window: what it sent before goes on, nothing goes to it
    said_only(LOW, GOSSIP_RELAY_CLOSE, 4, GOSSIP_RELAY_END_BROKEN);
    for (size_t i = 0; i < 3; i++) {
        hear_data(HIGH, number, CHUNK); // for nobody
        assert_int_equal(w.n, 0);
        hear(HIGH, GOSSIP_RELAY_CREDIT, number, CHUNK);
        assert_int_equal(w.n, 0);
        wait_until(gossip_relay_deadline(w.relay));
        said_data(0, HIGH, number, CHUNK);
    }
    assert_int_equal(w.n, 2);
    said_message(1, HIGH, GOSSIP_RELAY_CLOSE, number, GOSSIP_RELAY_END_BROKEN);
    forward(RATE, &number);
    hear_data(LOW, 4, CHUNK);
    hear_data(LOW, 4, CHUNK);
    hear(LOW, GOSSIP_RELAY_CLOSE, 4, GOSSIP_RELAY_END_ENDED);
    hear(HIGH, GOSSIP_RELAY_CLOSE, number, GOSSIP_RELAY_END_ENDED); // who ends takes nothing more
    assert_int_equal(w.n, 0);
    assert_int_equal(totals().forwarded, 0);
    assert_int_equal(gossip_relay_deadline(w.relay), UINT64_MAX);
}

static void a_node_that_stops_relaying_ends_what_it_forwards(void **state)
{
    uint32_t number;
    (void)state;
    forward(RATE, &number);
    assert_int_not_equal(call(HIGH, FAR), 0);
    take();
    hear_data(LOW, 4, CHUNK);
    hear_data(LOW, 4, CHUNK);
    step((struct gossip_relay_event){.kind = GOSSIP_RELAY_RATE, .rate = 0});
    take();
    assert_int_equal(w.n, 2);
    said_message(0, HIGH, GOSSIP_RELAY_CLOSE, number, GOSSIP_RELAY_END_OFF);
    said_message(1, LOW, GOSSIP_RELAY_CLOSE, 4, GOSSIP_RELAY_END_OFF);
    assert_int_equal(totals().forwarded, 0);
    assert_int_equal(totals().ends, 1);
}

static void who_loses_bytes_is_not_told_that_all_has_come(void **state)
{
    uint32_t number;
    (void)state;
    forward(RATE, &number);
    hear_data(LOW, 4, CHUNK);
    hear_data(LOW, 4, CHUNK);
    hear(LOW, GOSSIP_RELAY_CLOSE, 4, GOSSIP_RELAY_END_ENDED);
    assert_int_equal(w.n, 0);
    step((struct gossip_relay_event){.kind = GOSSIP_RELAY_RATE, .rate = 0});
    take();
    said_only(HIGH, GOSSIP_RELAY_CLOSE, number, GOSSIP_RELAY_END_OFF);
}

static void another_rate_holds_at_once(void **state)
{
    uint32_t number;
    (void)state;
    forward(1, &number); // a chunk takes four and a half hours
    hear_data(LOW, 4, CHUNK);
    hear_data(LOW, 4, CHUNK);
    assert_int_equal(w.n, 0);
    step((struct gossip_relay_event){.kind = GOSSIP_RELAY_RATE, .rate = RATE});
    take();
    assert_int_equal(gossip_relay_deadline(w.relay), w.now_ns + SECOND / 4); // not a burst for every change
    step((struct gossip_relay_event){.kind = GOSSIP_RELAY_RATE, .rate = GOSSIP_RELAY_ANY});
    take();
    assert_int_equal(w.n, 1);
    said_data(0, HIGH, number, CHUNK);
}

static void what_is_not_taken_passes_the_relay_in_order(void **state)
{
    uint32_t number;
    (void)state;
    forward(GOSSIP_RELAY_ANY, &number);
    hear_only(LOW, GOSSIP_RELAY_DATA, 4, 0, "a", 1);
    hear_only(LOW, GOSSIP_RELAY_DATA, 4, 0, "b", 1);
    hear_only(HIGH, GOSSIP_RELAY_DATA, number, 0, "c", 1);
    hear(LOW, GOSSIP_RELAY_CLOSE, 4, GOSSIP_RELAY_END_ENDED); // who ends takes nothing more
    assert_int_equal(w.n, 2);
    said_data(0, HIGH, number, 2);
    assert_int_equal(w.first[0], 'a');
    said_message(1, HIGH, GOSSIP_RELAY_CLOSE, number, GOSSIP_RELAY_END_ENDED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(bytes_pass_both_ways_without_a_copy, end),
        cmocka_unit_test_teardown(credit_passes_both_ways, end),
        cmocka_unit_test_teardown(a_relay_holds_each_end_to_the_window, end),
        cmocka_unit_test_teardown(a_relay_says_why_it_refuses, end),
        cmocka_unit_test_teardown(a_member_opens_a_limited_number_of_streams, end),
        cmocka_unit_test_teardown(a_relay_forwards_a_limited_number_of_streams, end),
        cmocka_unit_test_teardown(an_end_passes_through_the_relay, end),
        cmocka_unit_test_teardown(a_relay_tells_the_end_that_is_left, end),
        cmocka_unit_test_teardown(an_end_that_has_closed_may_lose_its_link, end),
        cmocka_unit_test_teardown(what_is_about_no_stream_changes_nothing, end),
        cmocka_unit_test_teardown(bytes_beyond_the_rate_wait_for_their_turn, end),
        cmocka_unit_test_teardown(a_quarter_of_a_second_may_pass_at_once, end),
        cmocka_unit_test_teardown(credit_for_bytes_that_wait_breaks_the_stream, end),
        cmocka_unit_test_teardown(streams_take_turns, end),
        cmocka_unit_test_teardown(nobody_overtakes_who_waits, end),
        cmocka_unit_test_teardown(a_broken_stream_keeps_nothing, end),
        cmocka_unit_test_teardown(a_node_that_stops_relaying_ends_what_it_forwards, end),
        cmocka_unit_test_teardown(who_loses_bytes_is_not_told_that_all_has_come, end),
        cmocka_unit_test_teardown(another_rate_holds_at_once, end),
        cmocka_unit_test_teardown(what_is_not_taken_passes_the_relay_in_order, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
