// Relayed streams, rule by rule: one node, which is an end or the relay, and messages written by the test.
#include "gossip/relay/relay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#define SECOND 1000000000ull
#define CHUNK  GOSSIP_RELAY_CHUNK
#define WINDOW GOSSIP_RELAY_WINDOW

enum { SELF = 10, LOW = 1, FAR = 2, HIGH = 20, KEPT = 64 };

static struct {
    struct gossip_relay *relay;
    uint64_t now_ns;
    struct gossip_relay_action said[KEPT]; // since the latest take
    uint8_t first[KEPT], id[KEPT];         // of its bytes the first, of an id in them the node
    size_t n;
} w;
static uint8_t bytes[WINDOW + 1]; // bytes[i] is i / CHUNK + 1

static struct gossip_id id(size_t node)
{
    return (struct gossip_id){{(uint8_t)(node >> 8), (uint8_t)node}};
}

static size_t node(const struct gossip_id *of)
{
    return (size_t)of->bytes[0] << 8 | of->bytes[1];
}

static void take(void)
{
    struct gossip_relay_action action;
    w.n = 0;
    gossip_relay_check(w.relay);
    while (gossip_relay_next(w.relay, &action)) {
        assert_true(w.n < KEPT);
        w.said[w.n] = action;
        if (action.message.bytes) {
            w.first[w.n] = action.message.bytes[0];
            w.id[w.n] = action.message.bytes[1];
        } else if (action.bytes)
            w.first[w.n] = action.bytes[0];
        w.n++;
        gossip_relay_check(w.relay);
    }
}

static void step(struct gossip_relay_event event)
{
    event.now_ns = w.now_ns;
    assert_int_equal(gossip_relay_step(w.relay, &event), BASE_OK);
}

static void begin(uint64_t rate)
{
    const struct gossip_relay_options options = {.self = id(SELF), .rate = rate};
    gossip_relay_destroy(w.relay); // of an earlier part of the test
    memset(&w, 0, sizeof w);
    w.now_ns = SECOND;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i / CHUNK + 1);
    assert_int_equal(gossip_relay_create(&options, &w.relay), BASE_OK);
}

static int end(void **state)
{
    (void)state;
    gossip_relay_destroy(w.relay);
    w.relay = NULL;
    return 0;
}

static void link_to(size_t peer)
{
    step((struct gossip_relay_event){.kind = GOSSIP_RELAY_LINKED, .peer = id(peer)});
}

static void unlink_from(size_t peer)
{
    step((struct gossip_relay_event){.kind = GOSSIP_RELAY_UNLINKED, .peer = id(peer)});
}

static void hear_only(size_t from, enum gossip_relay_verb verb, uint32_t stream, uint64_t amount,
                      const void *with, size_t count)
{
    const struct gossip_relay_message message = {(uint8_t)verb, stream, amount, with, (uint32_t)count};
    step((struct gossip_relay_event){.kind = GOSSIP_RELAY_HEARD, .peer = id(from), .message = &message});
}

// ... and takes what follows.
static void hear(size_t from, enum gossip_relay_verb verb, uint32_t stream, uint64_t amount)
{
    hear_only(from, verb, stream, amount, NULL, 0);
    take();
}

static void hear_data(size_t from, uint32_t stream, size_t count)
{
    hear_only(from, GOSSIP_RELAY_DATA, stream, 0, bytes, count);
    take();
}

static void hear_id(size_t from, enum gossip_relay_verb verb, uint32_t stream, size_t about)
{
    const struct gossip_id far = id(about);
    hear_only(from, verb, stream, WINDOW, far.bytes, sizeof far.bytes);
    take();
}

static void local(enum gossip_relay_event_kind kind, uint64_t stream, size_t count)
{
    step((struct gossip_relay_event){.kind = kind, .stream = stream, .bytes = bytes, .count = count});
    take();
}

static void wait_until(uint64_t now_ns)
{
    w.now_ns = now_ns;
    step((struct gossip_relay_event){.kind = GOSSIP_RELAY_TIMER});
    take();
}

static uint64_t call(size_t via, size_t peer)
{
    const struct gossip_id ids[2] = {id(via), id(peer)};
    return gossip_relay_call(w.relay, w.now_ns, &ids[0], &ids[1]);
}

static struct gossip_relay_totals totals(void)
{
    struct gossip_relay_totals now;
    gossip_relay_totals(w.relay, &now);
    return now;
}

// -- what was said

static void said_message(size_t at, size_t to, enum gossip_relay_verb verb, uint32_t stream, uint64_t amount)
{
    assert_true(at < w.n);
    assert_int_equal(w.said[at].kind, GOSSIP_RELAY_SEND);
    assert_int_equal(node(&w.said[at].peer), to);
    assert_int_equal(w.said[at].message.verb, verb);
    assert_int_equal(w.said[at].message.stream, stream);
    assert_int_equal(w.said[at].message.amount, amount);
}

static void said_data(size_t at, size_t to, uint32_t stream, size_t count)
{
    said_message(at, to, GOSSIP_RELAY_DATA, stream, 0);
    assert_int_equal(w.said[at].message.bytes_bytes, count);
}

static void said_end(size_t at, uint64_t stream, enum gossip_relay_end why)
{
    assert_true(at < w.n);
    assert_int_equal(w.said[at].kind, GOSSIP_RELAY_END);
    assert_int_equal(w.said[at].stream, stream);
    assert_int_equal(w.said[at].why, why);
}

static void said_only(size_t to, enum gossip_relay_verb verb, uint32_t stream, uint64_t amount)
{
    assert_int_equal(w.n, 1);
    said_message(0, to, verb, stream, amount);
}

// -- an end

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

static void bytes_are_credited_by_the_chunk(void **state)
{
    (void)state;
    begin(0);
    link_to(HIGH);
    uint64_t stream = accepted(HIGH, 1);
    hear_data(HIGH, 1, CHUNK);
    hear_data(HIGH, 1, CHUNK);
    local(GOSSIP_RELAY_WRITTEN, stream, CHUNK - 1);
    assert_int_equal(w.n, 0);
    local(GOSSIP_RELAY_WRITTEN, stream, 2);
    said_only(HIGH, GOSSIP_RELAY_CREDIT, 1, CHUNK + 1);
    local(GOSSIP_RELAY_WRITTEN, stream, CHUNK - 1);
    assert_int_equal(w.n, 0);
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
    hear(HIGH, GOSSIP_RELAY_CREDIT, number, CHUNK - 1);
    assert_int_equal(w.n, 0);
    hear(HIGH, GOSSIP_RELAY_CREDIT, number, 1);
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
    local(GOSSIP_RELAY_WRITTEN, stream, CHUNK - 1); // taken, but the relay has not been told
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

// -- the relay: LOW opens stream 4 to HIGH, which knows it by *number

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
    link_to(LOW);
    link_to(FAR);
    link_to(HIGH);
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

enum { RATE = 4 * GOSSIP_RELAY_CHUNK }; // a burst is one chunk, which takes a quarter of a second

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
    uint32_t number, own;
    (void)state;
    forward(RATE, &number);
    called(HIGH, &own);
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
        cmocka_unit_test_teardown(a_caller_sends_at_once, end),
        cmocka_unit_test_teardown(the_higher_id_numbers_its_streams_odd, end),
        cmocka_unit_test_teardown(a_call_needs_a_link_to_the_relay, end),
        cmocka_unit_test_teardown(a_node_has_a_limited_number_of_ends, end),
        cmocka_unit_test_teardown(a_callee_sends_at_once, end),
        cmocka_unit_test_teardown(calls_that_no_honest_relay_passes_on_are_refused, end),
        cmocka_unit_test_teardown(a_number_in_use_ends_that_stream_only, end),
        cmocka_unit_test_teardown(bytes_are_credited_by_the_chunk, end),
        cmocka_unit_test_teardown(what_may_be_read_follows_from_credit, end),
        cmocka_unit_test_teardown(credit_for_what_was_not_sent_breaks_the_stream, end),
        cmocka_unit_test_teardown(bytes_beyond_the_window_break_the_stream, end),
        cmocka_unit_test_teardown(an_end_that_ends_says_so, end),
        cmocka_unit_test_teardown(the_other_end_says_why, end),
        cmocka_unit_test_teardown(streams_end_with_the_link_to_their_relay, end),
        cmocka_unit_test_teardown(bytes_pass_both_ways_without_a_copy, end),
        cmocka_unit_test_teardown(credit_passes_both_ways, end),
        cmocka_unit_test_teardown(a_relay_holds_each_end_to_the_window, end),
        cmocka_unit_test_teardown(a_relay_says_why_it_refuses, end),
        cmocka_unit_test_teardown(a_member_opens_a_limited_number_of_streams, end),
        cmocka_unit_test_teardown(a_relay_forwards_a_limited_number_of_streams, end),
        cmocka_unit_test_teardown(an_end_passes_through_the_relay, end),
        cmocka_unit_test_teardown(a_relay_tells_the_end_that_is_left, end),
        cmocka_unit_test_teardown(what_is_about_no_stream_changes_nothing, end),
        cmocka_unit_test_teardown(bytes_beyond_the_rate_wait_for_their_turn, end),
        cmocka_unit_test_teardown(a_quarter_of_a_second_may_pass_at_once, end),
        cmocka_unit_test_teardown(credit_for_bytes_that_wait_breaks_the_stream, end),
        cmocka_unit_test_teardown(streams_take_turns, end),
        cmocka_unit_test_teardown(nobody_overtakes_who_waits, end),
        cmocka_unit_test_teardown(a_broken_stream_keeps_nothing, end),
        cmocka_unit_test_teardown(a_node_that_stops_relaying_ends_what_it_forwards, end),
        cmocka_unit_test_teardown(another_rate_holds_at_once, end),
        cmocka_unit_test_teardown(what_is_not_taken_is_kept, end),
        cmocka_unit_test_teardown(what_is_not_taken_passes_the_relay_in_order, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
