// Relayed streams without memory: an allocator that replaces the C library's gives nothing when a test says
// so. Only the stream whose memory is missing ends.
#include "gossip/relay/relay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CHUNK GOSSIP_RELAY_CHUNK

enum { CALLER = 1, SELF = 2, CALLEE = 3, RATE = 4 * GOSSIP_RELAY_CHUNK };

static bool none;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#if defined(__GLIBC__) && !defined(SANITIZED)
#define FAILS 1
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);

void *malloc(size_t bytes)
{
    return none ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return none ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    return none ? NULL : __libc_realloc(memory, bytes);
}
#else
#define FAILS 0
#endif

static struct gossip_relay *relay;
static uint64_t now_ns;
static struct gossip_relay_action said[8];
static size_t n_said;

static struct gossip_id id(uint8_t node)
{
    return (struct gossip_id){{node}};
}

static enum base_error step(struct gossip_relay_event event, bool starved)
{
    event.now_ns = now_ns;
    none = starved;
    enum base_error error = gossip_relay_step(relay, &event);
    for (n_said = 0; n_said < 8 && gossip_relay_next(relay, &said[n_said]);)
        n_said++;
    none = false;
    gossip_relay_check(relay);
    return error;
}

static enum base_error link_to(uint8_t peer, bool starved)
{
    return step((struct gossip_relay_event){.kind = GOSSIP_RELAY_LINKED, .peer = id(peer)}, starved);
}

static void hear(uint8_t from, struct gossip_relay_message message, bool starved)
{
    const struct gossip_relay_event event = {
        .kind = GOSSIP_RELAY_HEARD, .peer = id(from), .message = &message};
    assert_int_equal(step(event, starved), BASE_OK);
}

static void open_stream(uint32_t number, bool starved)
{
    const struct gossip_id callee = id(CALLEE);
    hear(CALLER,
         (struct gossip_relay_message){GOSSIP_RELAY_OPEN, number, GOSSIP_RELAY_WINDOW, callee.bytes,
                                       GOSSIP_RELAY_ID_BYTES},
         starved);
}

static void send_chunk(uint32_t number, bool starved)
{
    static const uint8_t bytes[CHUNK];
    hear(CALLER, (struct gossip_relay_message){GOSSIP_RELAY_DATA, number, 0, bytes, CHUNK}, starved);
}

static int begin(void **state)
{
    const struct gossip_relay_options options = {.self = id(SELF), .rate = RATE};
    (void)state;
    now_ns = 1000000000ull;
    return gossip_relay_create(&options, &relay);
}

static int end(void **state)
{
    (void)state;
    gossip_relay_destroy(relay);
    return 0;
}

static void a_link_that_is_not_noted_counts_as_none(void **state)
{
    const struct gossip_id caller = id(CALLER), callee = id(CALLEE);
    (void)state;
    assert_int_equal(link_to(CALLER, true), BASE_ENOMEM);
    assert_int_equal(gossip_relay_call(relay, now_ns, &caller, &callee), 0);
    assert_int_equal(link_to(CALLER, false), BASE_OK);
    none = true;
    uint64_t stream = gossip_relay_call(relay, now_ns, &caller, &callee);
    none = false;
    assert_int_equal(stream, 0);
    assert_int_not_equal(gossip_relay_call(relay, now_ns, &caller, &callee), 0);
}

static void a_stream_that_cannot_be_opened_changes_nothing(void **state)
{
    struct gossip_relay_totals totals;
    (void)state;
    assert_int_equal(link_to(CALLER, false), BASE_OK);
    assert_int_equal(link_to(CALLEE, false), BASE_OK);
    open_stream(2, false);
    open_stream(0, true);
    assert_int_equal(n_said, 0);
    gossip_relay_totals(relay, &totals);
    assert_int_equal(totals.forwarded, 1);
    send_chunk(2, true); // passing needs none
    assert_int_equal(n_said, 1);
    assert_int_equal(said[0].message.verb, GOSSIP_RELAY_DATA);
}

static void a_stream_whose_bytes_cannot_wait_ends_alone(void **state)
{
    struct gossip_relay_totals totals;
    (void)state;
    assert_int_equal(link_to(CALLER, false), BASE_OK);
    assert_int_equal(link_to(CALLEE, false), BASE_OK);
    open_stream(0, false);
    uint32_t number = said[0].message.stream;
    open_stream(2, false);
    send_chunk(0, false); // the burst
    send_chunk(0, false);
    send_chunk(2, true);
    assert_int_equal(n_said, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(said[i].message.verb, GOSSIP_RELAY_CLOSE);
        assert_int_equal(said[i].message.amount, GOSSIP_RELAY_END_FULL);
    }
    gossip_relay_totals(relay, &totals);
    assert_int_equal(totals.forwarded, 1);
    send_chunk(0, true); // its memory does not suffice for one more: what waits still arrives
    assert_int_equal(n_said, 1);
    assert_int_equal(said[0].peer.bytes[0], CALLER);
    now_ns = gossip_relay_deadline(relay);
    assert_int_equal(step((struct gossip_relay_event){.kind = GOSSIP_RELAY_TIMER}, true), BASE_OK);
    assert_int_equal(n_said, 2);
    assert_int_equal(said[0].message.verb, GOSSIP_RELAY_DATA);
    assert_int_equal(said[0].message.stream, number);
    assert_int_equal(said[1].message.verb, GOSSIP_RELAY_CLOSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_link_that_is_not_noted_counts_as_none, begin, end),
        cmocka_unit_test_setup_teardown(a_stream_that_cannot_be_opened_changes_nothing, begin, end),
        cmocka_unit_test_setup_teardown(a_stream_whose_bytes_cannot_wait_ends_alone, begin, end),
    };
    if (!FAILS) {
        puts("skipped: a sanitizer, or a C library that is not GNU's, has the allocator");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
