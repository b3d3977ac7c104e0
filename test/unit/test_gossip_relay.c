// An end of relayed streams, rule by rule, with messages of the relay written by the test.
#include "base/array.h"
#include "test/support/relay_rules.h"

// A stream that this node has opened to FAR over `via`; its number there.
static uint64_t called(size_t via, uint32_t *number)
{
    uint64_t stream = call(via, FAR);
    assert_int_not_equal(stream, 0);
    take();
    assert_int_equal(w.n, 1);
    *number = w.said[0].message.stream;
    said_message(0, via, GOSSIP_RELAY_OPEN, *number, WINDOW);
    assert_int_equal(w.said[0].message.bytes_bytes, GOSSIP_RELAY_ID_BYTES);
    assert_int_equal(w.id[0], FAR);
    return stream;
}

static uint64_t accepted(size_t via, uint32_t number)
{
    hear_id(via, GOSSIP_RELAY_CALLED, number, FAR);
    assert_int_equal(w.n, 1);
    assert_int_equal(w.said[0].kind, GOSSIP_RELAY_ACCEPT);
    assert_int_equal(node(&w.said[0].peer), FAR);
    assert_int_equal(node(&w.said[0].via), via);
    return w.said[0].stream;
}

static void a_caller_sends_at_once(void **state)
{
    (void)state;
    begin(0);
    link_to(HIGH);
    uint64_t stream = call(HIGH, FAR);
    step((struct gossip_relay_event){
        .kind = GOSSIP_RELAY_READ, .stream = stream, .bytes = bytes, .count = WINDOW});
    take();
    assert_int_equal(w.n, 1 + WINDOW / CHUNK);
    said_message(0, HIGH, GOSSIP_RELAY_OPEN, w.said[0].message.stream, WINDOW);
    for (size_t i = 1; i < w.n; i++) {
        said_data(i, HIGH, w.said[0].message.stream, CHUNK);
        assert_ptr_equal(w.said[i].message.bytes, bytes + (i - 1) * CHUNK); // not copied
    }
    assert_int_equal(node(gossip_relay_via(w.relay, stream)), HIGH);
    assert_int_equal(totals().ends, 1);
    assert_int_equal(totals().forwarded, 0);
}

static void the_higher_id_numbers_its_streams_odd(void **state)
{
    uint32_t first, second;
    (void)state;
    begin(0);
    link_to(LOW);
    link_to(HIGH);
    called(LOW, &first);
    called(LOW, &second);
    assert_int_equal(first % 2, 1);
    assert_int_equal(second % 2, 1);
    assert_int_not_equal(first, second);
    called(HIGH, &first);
    called(HIGH, &second);
    assert_int_equal(first % 2, 0);
    assert_int_equal(second % 2, 0);
    assert_int_not_equal(first, second);
}

static void a_call_needs_a_link_to_the_relay(void **state)
{
    (void)state;
    begin(0);
    assert_int_equal(call(LOW, FAR), 0);
    link_to(LOW);
    assert_int_equal(call(LOW, LOW), 0);
    assert_int_equal(call(LOW, SELF), 0);
    assert_int_not_equal(call(LOW, FAR), 0);
    unlink_from(LOW);
    assert_int_equal(call(LOW, FAR), 0);
}

static void a_node_has_a_limited_number_of_ends(void **state)
{
    uint64_t stream = 0;
    (void)state;
    begin(0);
    link_to(HIGH);
    for (size_t i = 0; i < GOSSIP_RELAY_ENDS; i++) {
        stream = call(HIGH, FAR);
        assert_int_not_equal(stream, 0);
        take();
    }
    assert_int_equal(totals().ends, GOSSIP_RELAY_ENDS);
    assert_int_equal(call(HIGH, FAR), 0);
    hear_id(HIGH, GOSSIP_RELAY_CALLED, 1, FAR);
    said_only(HIGH, GOSSIP_RELAY_CLOSE, 1, GOSSIP_RELAY_END_FULL);
    assert_int_equal(totals().refused, 1);
    local(GOSSIP_RELAY_ENDED, stream, 0);
    assert_int_not_equal(call(HIGH, FAR), stream);
}

static void a_callee_sends_at_once(void **state)
{
    (void)state;
    begin(0);
    link_to(HIGH);
    uint64_t stream = accepted(HIGH, 7);
    local(GOSSIP_RELAY_READ, stream, 5);
    assert_int_equal(w.n, 1);
    said_data(0, HIGH, 7, 5);
    hear_data(HIGH, 7, 9);
    assert_int_equal(w.n, 1);
    assert_int_equal(w.said[0].kind, GOSSIP_RELAY_DELIVER);
    assert_int_equal(w.said[0].stream, stream);
    assert_int_equal(w.said[0].count, 9);
    assert_ptr_equal(w.said[0].bytes, bytes);
    assert_int_equal(totals().bytes, 0); // it forwards nothing
}

static void calls_that_no_honest_relay_passes_on_are_refused(void **state)
{
    const struct gossip_id far = id(FAR);
    (void)state;
    begin(0);
    link_to(HIGH);
    hear_id(HIGH, GOSSIP_RELAY_CALLED, 1, HIGH); // about itself
    said_only(HIGH, GOSSIP_RELAY_CLOSE, 1, GOSSIP_RELAY_END_BROKEN);
    hear_id(HIGH, GOSSIP_RELAY_CALLED, 1, SELF);
    said_only(HIGH, GOSSIP_RELAY_CLOSE, 1, GOSSIP_RELAY_END_BROKEN);
    hear_id(HIGH, GOSSIP_RELAY_CALLED, 2, FAR); // a number of ours
    said_only(HIGH, GOSSIP_RELAY_CLOSE, 2, GOSSIP_RELAY_END_BROKEN);
    hear_only(HIGH, GOSSIP_RELAY_CALLED, 1, WINDOW + 1, far.bytes, sizeof far.bytes);
    take();
    said_only(HIGH, GOSSIP_RELAY_CLOSE, 1, GOSSIP_RELAY_END_BROKEN);
    assert_int_equal(totals().refused, 4);
    assert_int_equal(totals().ends, 0);
}

static void a_number_in_use_ends_that_stream_only(void **state)
{
    (void)state;
    begin(0);
    link_to(HIGH);
    uint64_t first = accepted(HIGH, 1), second = accepted(HIGH, 3);
    hear_id(HIGH, GOSSIP_RELAY_CALLED, 1, FAR);
    assert_int_equal(w.n, 2);
    said_end(0, first, GOSSIP_RELAY_END_BROKEN);
    said_message(1, HIGH, GOSSIP_RELAY_CLOSE, 1, GOSSIP_RELAY_END_BROKEN);
    hear_data(HIGH, 3, 1);
    assert_int_equal(w.said[0].stream, second);
}

static void bytes_are_credited_when_it_is_worth_a_message(void **state)
{
    (void)state;
    begin(0);
    link_to(HIGH);
    uint64_t stream = accepted(HIGH, 1);
    hear_data(HIGH, 1, CHUNK);
    hear_data(HIGH, 1, CHUNK);
    local(GOSSIP_RELAY_WRITTEN, stream, 4095);
    assert_int_equal(gossip_relay_deadline(w.relay), UINT64_MAX); // few bytes are not
    local(GOSSIP_RELAY_WRITTEN, stream, 2);
    assert_int_equal(w.n, 0);
    assert_int_equal(gossip_relay_deadline(w.relay), w.now_ns + SECOND / 10); // more may come
    wait_until(w.now_ns + SECOND / 10 - 1);
    assert_int_equal(w.n, 0);
    wait_until(w.now_ns + 1);
    said_only(HIGH, GOSSIP_RELAY_CREDIT, 1, 4097);
    assert_int_equal(gossip_relay_deadline(w.relay), UINT64_MAX);
    local(GOSSIP_RELAY_WRITTEN, stream, CHUNK - 1);
    assert_int_equal(w.n, 0);
    local(GOSSIP_RELAY_WRITTEN, stream, 1);
    said_only(HIGH, GOSSIP_RELAY_CREDIT, 1, CHUNK);
    assert_int_equal(gossip_relay_deadline(w.relay), UINT64_MAX);
}

// It sends `amount`, and has credit for that after `passed_ns`. How much it may send then.
static size_t sends(uint64_t stream, uint32_t number, size_t amount, uint64_t passed_ns)
{
    local(GOSSIP_RELAY_READ, stream, amount);
    for (const uint64_t end_ns = w.now_ns + passed_ns; w.now_ns < end_ns;) {
        w.now_ns += base_min(SECOND / 4, end_ns - w.now_ns);
        (void)gossip_relay_is_late(w.relay, stream, w.now_ns);
    }
    hear(HIGH, GOSSIP_RELAY_CREDIT, number, amount);
    assert_int_equal(w.n, 1);
    assert_int_equal(w.said[0].kind, GOSSIP_RELAY_ALLOW);
    return w.said[0].count;
}

// Half a second and the way there and back, of which at most 0.4 s count.
static size_t paced(size_t bytes_a_second, size_t way_ms)
{
    return bytes_a_second * (500 + way_ms) / 1000 + 2048;
}

static void about(size_t is, size_t expected)
{
    assert_in_range(is + 1, expected, expected + 2);
}

static void few_bytes_are_on_the_way_to_a_slow_end(void **state)
{
    uint32_t number;
    (void)state;
    begin(0);
    link_to(HIGH);
    const uint64_t stream = called(HIGH, &number);
    about(sends(stream, number, 6000, SECOND / 2), paced(12000, 400));
    assert_int_equal(sends(stream, number, 6000, 5 * SECOND), 8192); // the least
    w.now_ns += 100 * SECOND;                                        // which say nothing
    about(sends(stream, number, 5000, SECOND / 2), paced(10000, 400));
    about(sends(stream, number, 4200, SECOND / 4), paced(16800, 250)); // more at once,
    about(sends(stream, number, 4200, SECOND / 3), paced(16800, 250)); // but not less
    about(sends(stream, number, CHUNK, SECOND / 5), paced(5 * CHUNK, 200));
    assert_int_equal(sends(stream, number, CHUNK, SECOND / 10), WINDOW);
    for (size_t i = 0; i < 3; i++) // without a gap
        local(GOSSIP_RELAY_READ, stream, CHUNK);
    for (size_t credits = 1; credits <= 3; credits++) {
        w.now_ns += SECOND / 2;
        hear(HIGH, GOSSIP_RELAY_CREDIT, number, CHUNK);
        // After the second, 5,324 bytes more would fit: a small message, and more credit comes.
        about(w.said[0].count, credits == 3 ? paced(2 * CHUNK, 100) : 0);
    }
}

// -- what comes late

// From now on nothing is credited: after how many quarters of a second it is late.
static size_t quarters_until_late(uint64_t stream, size_t at_most)
{
    size_t quarters = 0;
    while (!gossip_relay_is_late(w.relay, stream, w.now_ns) && quarters < at_most) {
        w.now_ns += SECOND / 4;
        quarters++;
    }
    return quarters;
}

static void bytes_that_are_not_taken_are_late(void **state)
{
    uint32_t number;
    (void)state;
    begin(0);
    link_to(HIGH);
    uint64_t stream = called(HIGH, &number);
    local(GOSSIP_RELAY_READ, stream, 4095);
    assert_int_equal(quarters_until_late(stream, 100), 100); // they may have been taken
    local(GOSSIP_RELAY_READ, stream, 1);
    assert_int_equal(quarters_until_late(stream, 100), 16); // before anything is usual
    local(GOSSIP_RELAY_ENDED, stream, 0);
    assert_false(gossip_relay_is_late(w.relay, stream, w.now_ns));
}

static void bytes_are_late_after_several_times_what_is_usual(void **state)
{
    uint32_t number;
    (void)state;
    begin(0);
    link_to(HIGH);
    uint64_t stream = called(HIGH, &number);
    for (size_t i = 0; i < 9; i++)
        sends(stream, number, 5000, SECOND / 20);
    local(GOSSIP_RELAY_READ, stream, 5000);
    assert_int_equal(quarters_until_late(stream, 100), 4); // a second at least
    hear(HIGH, GOSSIP_RELAY_CREDIT, number, 5000);
    assert_true(gossip_relay_is_late(w.relay, stream, w.now_ns)); // it is slow, though it works
    sends(stream, number, 5000, SECOND / 20);
    assert_false(gossip_relay_is_late(w.relay, stream, w.now_ns));
    for (size_t i = 0; i < 30; i++)
        sends(stream, number, 5000, 3 * SECOND / 2); // as slow as its end: that is usual now
    local(GOSSIP_RELAY_READ, stream, 5000);
    assert_in_range(quarters_until_late(stream, 100), 22, 24);
}

static void what_was_late_is_not_for_ever(void **state)
{
    uint32_t number;
    (void)state;
    begin(0);
    link_to(HIGH);
    uint64_t stream = called(HIGH, &number);
    sends(stream, number, 5000, SECOND / 20);
    sends(stream, number, 5000, 4 * SECOND);
    for (size_t quarters = 0; quarters < 40; quarters++) {
        assert_true(gossip_relay_is_late(w.relay, stream, w.now_ns));
        w.now_ns += SECOND / 4;
    }
    assert_false(gossip_relay_is_late(w.relay, stream, w.now_ns)); // nothing is on the way
}

static void who_was_suspended_blames_nobody(void **state)
{
    uint32_t number;
    (void)state;
    begin(0);
    link_to(HIGH);
    uint64_t stream = called(HIGH, &number);
    local(GOSSIP_RELAY_READ, stream, 5000);
    assert_false(gossip_relay_is_late(w.relay, stream, w.now_ns));
    w.now_ns += 10 * SECOND;
    assert_int_equal(quarters_until_late(stream, 100), 16);
}

static void what_may_be_read_follows_from_credit(void **state)
{
    uint32_t number;
    (void)state;
    begin(0);
    link_to(HIGH);
    uint64_t stream = called(HIGH, &number);
    for (size_t i = 0; i < 3; i++)
        local(GOSSIP_RELAY_READ, stream, CHUNK);
    hear(HIGH, GOSSIP_RELAY_CREDIT, number, CHUNK);
    assert_int_equal(w.n, 1);
    assert_int_equal(w.said[0].kind, GOSSIP_RELAY_ALLOW);
    assert_int_equal(w.said[0].stream, stream);
    assert_int_equal(w.said[0].count, WINDOW - 2 * CHUNK);
    local(GOSSIP_RELAY_READ, stream, WINDOW - 2 * CHUNK);
    hear(HIGH, GOSSIP_RELAY_CREDIT, number, WINDOW);
    assert_int_equal(w.said[0].count, WINDOW);
}

static void credit_for_what_was_not_sent_breaks_the_stream(void **state)
{
    uint32_t number, other;
    (void)state;
    begin(0);
    link_to(HIGH);
    uint64_t stream = called(HIGH, &number);
    called(HIGH, &other);
    local(GOSSIP_RELAY_READ, stream, CHUNK);
    hear(HIGH, GOSSIP_RELAY_CREDIT, number, 1); // not told yet: it counts all the same
    hear(HIGH, GOSSIP_RELAY_CREDIT, number, CHUNK);
    assert_int_equal(w.n, 2);
    said_end(0, stream, GOSSIP_RELAY_END_BROKEN);
    said_message(1, HIGH, GOSSIP_RELAY_CLOSE, number, GOSSIP_RELAY_END_BROKEN);
    assert_int_equal(totals().ends, 1);
    hear(HIGH, GOSSIP_RELAY_CREDIT, other, UINT64_MAX);
    assert_int_equal(totals().ends, 0);
}

static void bytes_beyond_the_window_break_the_stream(void **state)
{
    (void)state;
    begin(0);
    link_to(HIGH);
    uint64_t stream = accepted(HIGH, 1), other = accepted(HIGH, 3);
    for (size_t i = 0; i < WINDOW / CHUNK; i++)
        hear_data(HIGH, 1, CHUNK);
    assert_int_equal(w.said[0].kind, GOSSIP_RELAY_DELIVER);
    local(GOSSIP_RELAY_WRITTEN, stream, 4095); // taken, but the relay has not been told
    hear_data(HIGH, 1, 1);
    assert_int_equal(w.n, 2);
    said_end(0, stream, GOSSIP_RELAY_END_BROKEN);
    said_message(1, HIGH, GOSSIP_RELAY_CLOSE, 1, GOSSIP_RELAY_END_BROKEN);
    hear_data(HIGH, 3, 1);
    assert_int_equal(w.said[0].stream, other);
    hear_data(HIGH, 1, 1); // it crosses the CLOSE
    assert_int_equal(w.n, 0);
}

static void an_end_that_ends_says_so(void **state)
{
    uint32_t number;
    (void)state;
    begin(0);
    link_to(HIGH);
    uint64_t stream = called(HIGH, &number);
    local(GOSSIP_RELAY_ENDED, stream, 0);
    said_only(HIGH, GOSSIP_RELAY_CLOSE, number, GOSSIP_RELAY_END_ENDED);
    assert_null(gossip_relay_via(w.relay, stream));
    local(GOSSIP_RELAY_READ, stream, 1);
    assert_int_equal(w.n, 0);
    local(GOSSIP_RELAY_WRITTEN, stream, 1);
    assert_int_equal(w.n, 0);
    local(GOSSIP_RELAY_ENDED, stream, 0);
    assert_int_equal(w.n, 0);
    hear_data(HIGH, number, 1);
    assert_int_equal(w.n, 0);
    hear(HIGH, GOSSIP_RELAY_CLOSE, number, GOSSIP_RELAY_END_ENDED);
    assert_int_equal(w.n, 0);
}

static void the_other_end_says_why(void **state)
{
    static const uint64_t heard[] = {GOSSIP_RELAY_END_NO_LINK, GOSSIP_RELAY_END_OFF, 0, GOSSIP_RELAY_END_LOST,
                                     UINT64_MAX};
    static const enum gossip_relay_end means[] = {GOSSIP_RELAY_END_NO_LINK, GOSSIP_RELAY_END_OFF,
                                                  GOSSIP_RELAY_END_ENDED, GOSSIP_RELAY_END_ENDED,
                                                  GOSSIP_RELAY_END_ENDED};
    uint32_t number;
    (void)state;
    begin(0);
    link_to(HIGH);
    for (size_t i = 0; i < sizeof means / sizeof *means; i++) {
        uint64_t stream = called(HIGH, &number);
        hear(HIGH, GOSSIP_RELAY_CLOSE, number, heard[i]);
        assert_int_equal(w.n, 1);
        said_end(0, stream, means[i]);
        assert_string_not_equal(gossip_relay_end_text(means[i]), gossip_relay_end_text(GOSSIP_RELAY_GOES_ON));
    }
    assert_int_equal(totals().ends, 0);
}

static void a_direct_link_to_the_other_end_is_another_matter(void **state)
{
    uint32_t number;
    (void)state;
    begin(0);
    link_to(HIGH);
    uint64_t stream = called(HIGH, &number);
    link_to(FAR);
    unlink_from(FAR);
    local(GOSSIP_RELAY_READ, stream, 1);
    assert_int_equal(w.n, 1);
    said_data(0, HIGH, number, 1);
}

static void streams_end_with_the_link_to_their_relay(void **state)
{
    uint32_t number, other;
    (void)state;
    begin(0);
    link_to(LOW);
    link_to(HIGH);
    uint64_t stream = called(HIGH, &number);
    uint64_t stays = called(LOW, &other);
    unlink_from(HIGH);
    take();
    assert_int_equal(w.n, 1);
    said_end(0, stream, GOSSIP_RELAY_END_LOST);
    assert_non_null(gossip_relay_via(w.relay, stays));
    link_to(LOW); // another link in its place
    take();
    assert_int_equal(w.n, 1);
    said_end(0, stays, GOSSIP_RELAY_END_LOST);
    called(LOW, &number);
    assert_int_not_equal(number, other); // what is late on the old link is about no new stream
}

// -- events before all actions are taken

static void what_is_not_taken_is_kept(void **state)
{
    uint8_t own[2] = {'a', 'b'};
    uint32_t number;
    (void)state;
    begin(GOSSIP_RELAY_ANY);
    link_to(HIGH);
    uint64_t stream = call(HIGH, FAR);
    for (size_t i = 0; i < 2; i++)
        step((struct gossip_relay_event){
            .kind = GOSSIP_RELAY_READ, .stream = stream, .bytes = &own[i], .count = 1});
    step((struct gossip_relay_event){.kind = GOSSIP_RELAY_ENDED, .stream = stream});
    own[0] = own[1] = 0;
    take();
    assert_int_equal(w.n, 3);
    number = w.said[0].message.stream;
    said_message(0, HIGH, GOSSIP_RELAY_OPEN, number, WINDOW);
    said_data(1, HIGH, number, 2);
    assert_int_equal(w.first[1], 'a');
    said_message(2, HIGH, GOSSIP_RELAY_CLOSE, number, GOSSIP_RELAY_END_ENDED);
    assert_int_equal(totals().ends, 0);
    stream = accepted(HIGH, 1);
    hear_only(HIGH, GOSSIP_RELAY_DATA, 1, 0, "cd", 2);
    unlink_from(HIGH);
    take();
    assert_int_equal(w.n, 2);
    assert_int_equal(w.said[0].kind, GOSSIP_RELAY_DELIVER);
    assert_int_equal(w.first[0], 'c');
    said_end(1, stream, GOSSIP_RELAY_END_LOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_caller_sends_at_once, end),
        cmocka_unit_test_teardown(the_higher_id_numbers_its_streams_odd, end),
        cmocka_unit_test_teardown(a_call_needs_a_link_to_the_relay, end),
        cmocka_unit_test_teardown(a_node_has_a_limited_number_of_ends, end),
        cmocka_unit_test_teardown(a_callee_sends_at_once, end),
        cmocka_unit_test_teardown(calls_that_no_honest_relay_passes_on_are_refused, end),
        cmocka_unit_test_teardown(a_number_in_use_ends_that_stream_only, end),
        cmocka_unit_test_teardown(bytes_are_credited_when_it_is_worth_a_message, end),
        cmocka_unit_test_teardown(few_bytes_are_on_the_way_to_a_slow_end, end),
        cmocka_unit_test_teardown(bytes_that_are_not_taken_are_late, end),
        cmocka_unit_test_teardown(bytes_are_late_after_several_times_what_is_usual, end),
        cmocka_unit_test_teardown(what_was_late_is_not_for_ever, end),
        cmocka_unit_test_teardown(who_was_suspended_blames_nobody, end),
        cmocka_unit_test_teardown(what_may_be_read_follows_from_credit, end),
        cmocka_unit_test_teardown(credit_for_what_was_not_sent_breaks_the_stream, end),
        cmocka_unit_test_teardown(bytes_beyond_the_window_break_the_stream, end),
        cmocka_unit_test_teardown(an_end_that_ends_says_so, end),
        cmocka_unit_test_teardown(the_other_end_says_why, end),
        cmocka_unit_test_teardown(a_direct_link_to_the_other_end_is_another_matter, end),
        cmocka_unit_test_teardown(streams_end_with_the_link_to_their_relay, end),
        cmocka_unit_test_teardown(what_is_not_taken_is_kept, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
