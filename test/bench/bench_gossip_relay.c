// Bytes that one relay forwards, in chunks of 16 KiB over several streams, with the credit that each takes:
// as they pass at once, without a copy, and as they wait for the rate, with one. The floor is one copy of the
// same bytes: `bench_gossip_relay [--seconds S]`. One operation of `count` bytes.
#include "base/error.h"
#include "gossip/relay/relay.h"
#include "test/support/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STREAMS = 16,
    ROUNDS = 256,
    CHUNK = GOSSIP_RELAY_CHUNK,
    BYTES = ROUNDS * CHUNK,
    CALLER = 1,
    SELF = 2,
    CALLEE = 3
};

struct forwarder {
    struct gossip_relay *relay;
    uint64_t now_ns, rate; // a rate of which every chunk waits for a turn, or GOSSIP_RELAY_ANY
    uint32_t number[STREAMS];
    const uint8_t *bytes; // [BYTES]
    size_t passed;
};

static struct gossip_id id_of(uint8_t node)
{
    return (struct gossip_id){{node}};
}

static void take(struct forwarder *f)
{
    struct gossip_relay_action action;
    while (gossip_relay_next(f->relay, &action))
        f->passed += action.message.verb == GOSSIP_RELAY_DATA ? action.message.bytes_bytes : 0;
}

static uint32_t hear(struct forwarder *f, uint8_t from, struct gossip_relay_message message)
{
    const struct gossip_relay_event event = {
        .kind = GOSSIP_RELAY_HEARD, .now_ns = f->now_ns, .peer = id_of(from), .message = &message};
    struct gossip_relay_action action = {.kind = GOSSIP_RELAY_SEND};
    BASE_ASSERT(!gossip_relay_step(f->relay, &event));
    if (message.verb != GOSSIP_RELAY_OPEN)
        take(f);
    else
        BASE_ASSERT(gossip_relay_next(f->relay, &action));
    return action.message.stream;
}

static void begin(struct forwarder *f)
{
    const struct gossip_relay_options options = {.self = id_of(SELF), .rate = f->rate};
    const struct gossip_id callee = id_of(CALLEE);
    BASE_ASSERT(!gossip_relay_create(&options, &f->relay));
    for (uint8_t peer = CALLER; peer <= CALLEE; peer++) {
        const struct gossip_relay_event event = {.kind = GOSSIP_RELAY_LINKED, .peer = id_of(peer)};
        if (peer != SELF)
            BASE_ASSERT(!gossip_relay_step(f->relay, &event));
    }
    for (uint32_t i = 0; i < STREAMS; i++)
        f->number[i] = hear(f, CALLER,
                            (struct gossip_relay_message){GOSSIP_RELAY_OPEN, 2 * i, GOSSIP_RELAY_WINDOW,
                                                          callee.bytes, GOSSIP_RELAY_ID_BYTES});
}

// A chunk of each stream in turn; then, if it has waited, a timer; and the credit of the callee for all.
static void run(void *context)
{
    struct forwarder *f = context;
    f->passed = 0;
    for (size_t i = 0; i < ROUNDS; i += STREAMS) {
        for (uint32_t s = 0; s < STREAMS; s++)
            hear(f, CALLER,
                 (struct gossip_relay_message){GOSSIP_RELAY_DATA, 2 * s, 0, f->bytes + (i + s) * CHUNK,
                                               CHUNK});
        while (gossip_relay_deadline(f->relay) != UINT64_MAX) {
            const struct gossip_relay_event event = {.kind = GOSSIP_RELAY_TIMER,
                                                     .now_ns = gossip_relay_deadline(f->relay)};
            f->now_ns = event.now_ns;
            BASE_ASSERT(!gossip_relay_step(f->relay, &event));
            take(f);
        }
        for (uint32_t s = 0; s < STREAMS; s++)
            hear(f, CALLEE, (struct gossip_relay_message){GOSSIP_RELAY_CREDIT, f->number[s], CHUNK, NULL, 0});
    }
    BASE_ASSERT(f->passed == BYTES);
}

int main(int argc, char **argv)
{
    const double seconds = strtod(bench_option(argc, argv, "--seconds", "2"), NULL);
    uint8_t *bytes = bench_alloc(BYTES), *copy = bench_alloc(BYTES);
    struct forwarder at_once = {.rate = GOSSIP_RELAY_ANY, .bytes = bytes, .now_ns = 1};
    struct forwarder waits = {.rate = 4 * CHUNK, .bytes = bytes, .now_ns = 1};
    struct bench_span span = {bytes, copy, BYTES};
    const struct bench_case cases[] = {{bench_copy, NULL, &span}, {run, NULL, &at_once}, {run, NULL, &waits}};
    static const char *const names[] = {"copy", "at_once", "waits"};
    struct bench_time times[3];
    begin(&at_once);
    begin(&waits);
    bench_alternate(cases, 3, seconds, times);
    for (size_t i = 0; i < 3; i++) {
        char more[96];
        snprintf(more, sizeof more, "\"ns_byte\": %.4f, \"gigabytes_s\": %.1f", times[i].ns / BYTES,
                 BYTES / times[i].ns);
        bench_print(&(struct bench_result){.bench = "gossip_relay",
                                           .name = names[i],
                                           .count = BYTES,
                                           .time = times[i],
                                           .floor_ns = times[0].ns,
                                           .more = more});
    }
    gossip_relay_destroy(at_once.relay);
    gossip_relay_destroy(waits.relay);
    bench_free(bytes);
    bench_free(copy);
    return 0;
}
