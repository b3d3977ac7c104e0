// One node of gossip/relay, and the messages that a test writes for it, for tests of its rules.
#ifndef TEST_SUPPORT_RELAY_RULES_H
#define TEST_SUPPORT_RELAY_RULES_H

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

static inline struct gossip_id id(size_t node)
{
    return (struct gossip_id){{(uint8_t)(node >> 8), (uint8_t)node}};
}

static inline size_t node(const struct gossip_id *of)
{
    return (size_t)of->bytes[0] << 8 | of->bytes[1];
}

static inline void take(void)
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

static inline void step(struct gossip_relay_event event)
{
    event.now_ns = w.now_ns;
    assert_int_equal(gossip_relay_step(w.relay, &event), BASE_OK);
}

static inline void begin(uint64_t rate)
{
    const struct gossip_relay_options options = {.self = id(SELF), .rate = rate};
    gossip_relay_destroy(w.relay); // of an earlier part of the test
    memset(&w, 0, sizeof w);
    w.now_ns = SECOND;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i / CHUNK + 1);
    assert_int_equal(gossip_relay_create(&options, &w.relay), BASE_OK);
}

static inline int end(void **state)
{
    (void)state;
    gossip_relay_destroy(w.relay);
    w.relay = NULL;
    return 0;
}

static inline void link_to(size_t peer)
{
    step((struct gossip_relay_event){.kind = GOSSIP_RELAY_LINKED, .peer = id(peer)});
}

static inline void unlink_from(size_t peer)
{
    step((struct gossip_relay_event){.kind = GOSSIP_RELAY_UNLINKED, .peer = id(peer)});
}

static inline void hear_only(size_t from, enum gossip_relay_verb verb, uint32_t stream, uint64_t amount,
                             const void *with, size_t count)
{
    const struct gossip_relay_message message = {(uint8_t)verb, stream, amount, with, (uint32_t)count};
    step((struct gossip_relay_event){.kind = GOSSIP_RELAY_HEARD, .peer = id(from), .message = &message});
}

// ... and takes what follows.
static inline void hear(size_t from, enum gossip_relay_verb verb, uint32_t stream, uint64_t amount)
{
    hear_only(from, verb, stream, amount, NULL, 0);
    take();
}

static inline void hear_data(size_t from, uint32_t stream, size_t count)
{
    hear_only(from, GOSSIP_RELAY_DATA, stream, 0, bytes, count);
    take();
}

static inline void hear_id(size_t from, enum gossip_relay_verb verb, uint32_t stream, size_t about)
{
    const struct gossip_id far = id(about);
    hear_only(from, verb, stream, WINDOW, far.bytes, sizeof far.bytes);
    take();
}

static inline void local(enum gossip_relay_event_kind kind, uint64_t stream, size_t count)
{
    step((struct gossip_relay_event){.kind = kind, .stream = stream, .bytes = bytes, .count = count});
    take();
}

static inline void wait_until(uint64_t now_ns)
{
    w.now_ns = now_ns;
    step((struct gossip_relay_event){.kind = GOSSIP_RELAY_TIMER});
    take();
}

static inline uint64_t call(size_t via, size_t peer)
{
    const struct gossip_id ids[2] = {id(via), id(peer)};
    return gossip_relay_call(w.relay, w.now_ns, &ids[0], &ids[1]);
}

static inline struct gossip_relay_totals totals(void)
{
    struct gossip_relay_totals now;
    gossip_relay_totals(w.relay, &now);
    return now;
}

// -- what was said

static inline void said_message(size_t at, size_t to, enum gossip_relay_verb verb, uint32_t stream,
                                uint64_t amount)
{
    assert_true(at < w.n);
    assert_int_equal(w.said[at].kind, GOSSIP_RELAY_SEND);
    assert_int_equal(node(&w.said[at].peer), to);
    assert_int_equal(w.said[at].message.verb, verb);
    assert_int_equal(w.said[at].message.stream, stream);
    assert_int_equal(w.said[at].message.amount, amount);
}

static inline void said_data(size_t at, size_t to, uint32_t stream, size_t count)
{
    said_message(at, to, GOSSIP_RELAY_DATA, stream, 0);
    assert_int_equal(w.said[at].message.bytes_bytes, count);
}

static inline void said_end(size_t at, uint64_t stream, enum gossip_relay_end why)
{
    assert_true(at < w.n);
    assert_int_equal(w.said[at].kind, GOSSIP_RELAY_END);
    assert_int_equal(w.said[at].stream, stream);
    assert_int_equal(w.said[at].why, why);
}

static inline void said_only(size_t to, enum gossip_relay_verb verb, uint32_t stream, uint64_t amount)
{
    assert_int_equal(w.n, 1);
    said_message(0, to, verb, stream, amount);
}

#endif
