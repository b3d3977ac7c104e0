// Random message headers of every kind.
#ifndef TEST_SUPPORT_ANY_MESSAGE_H
#define TEST_SUPPORT_ANY_MESSAGE_H

#include "base/limits.h"
#include "gossip/wire/message.h"
#include "test/support/seeded.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH_OF(array) (sizeof(array) / sizeof(array)[0])
#define CAPACITY         4096
#define KINDS            ((unsigned)GOSSIP_LAST_KIND)

static inline int setup(void **state)
{
    (void)state;
    seeded_begin(20240608);
    return 0;
}

static inline uint64_t any_u64(void) // of every length, and often at the border between two encodings
{
    static const uint64_t borders[] = {0,      0x7f,    0x80,       0xff,        0x100,
                                       0xffff, 0x10000, 0xffffffff, 0x100000000, UINT64_MAX};
    if (base_rng_below(&rng, 2) == 0)
        return borders[base_rng_below(&rng, LENGTH_OF(borders))];
    return base_rng_u64(&rng) >> base_rng_below(&rng, 64);
}

static inline void any_text(char *text, size_t capacity, size_t least)
{
    const size_t length = least + (size_t)base_rng_below(&rng, capacity - least);
    for (size_t i = 0; i < length; i++)
        text[i] = "abcXYZ019._-"[base_rng_below(&rng, 12)];
    text[length] = '\0';
}

static uint8_t payload[3][300];

static inline void any_exchange(struct gossip_exchange_message *exchange)
{
    exchange->epoch = any_u64();
    exchange->sequence = any_u64();
    exchange->clock = any_u64();
    exchange->standing = (uint8_t)base_rng_below(&rng, 3);
    exchange->step_scale = (float)base_rng_uniform(&rng);
    exchange->limit = base_rng_below(&rng, 2) ? INFINITY : (float)base_rng_uniform(&rng);
    exchange->bound = base_rng_below(&rng, 2) ? INFINITY : (float)base_rng_uniform(&rng);
    exchange->progress = (float)base_rng_uniform(&rng);
    exchange->pace_ns = any_u64();
    exchange->form = (uint8_t)base_rng_below(&rng, 2);
    exchange->weight =
        exchange->form == GOSSIP_DELTA_BLOCK ? 0.5f : 1 - (float)base_rng_below(&rng, 1000) / 1000;
    exchange->offset = exchange->form == GOSSIP_DELTA_BLOCK ? any_u64() : 0;
    exchange->keys = exchange->form == GOSSIP_DELTA_SPARSE ? (uint8_t)base_rng_below(&rng, 2) : 0;
    exchange->delta_bytes = (uint32_t)base_rng_below(&rng, sizeof payload[0] + 1);
    exchange->moment_bytes =
        base_rng_below(&rng, 2) == 0 ? 0 : (uint32_t)base_rng_below(&rng, sizeof payload[1] + 1);
    exchange->news_bytes = (uint32_t)base_rng_below(&rng, GOSSIP_MESSAGE_NEWS + 1);
    exchange->delta = exchange->delta_bytes > 0 ? payload[0] : NULL;
    exchange->moment = exchange->moment_bytes > 0 ? payload[1] : NULL;
    exchange->news = exchange->news_bytes > 0 ? payload[2] : NULL;
}

static inline void any_tell(struct gossip_snapshot_tell *tell)
{
    const uint64_t snapshot = any_u64();
    tell->snapshot = snapshot > 0 ? snapshot : 1;
    tell->part = (uint8_t)base_rng_below(&rng, GOSSIP_PART_LAST + 1);
    tell->parts = (uint8_t)(base_rng_below(&rng, 1u << (GOSSIP_PART_LAST + 1)) | 1u << tell->part);
    tell->block = tell->part == GOSSIP_PART_BLOB ? 0 : (uint32_t)any_u64();
    tell->round = any_u64();
    tell->step = any_u64();
    tell->hash = any_u64();
    tell->values = payload[0];
    tell->values_bytes = 4 * (1 + (uint32_t)base_rng_below(&rng, sizeof payload[0] / 4));
}

static inline void any_relay(struct gossip_relay_message *relay)
{
    relay->verb = (uint8_t)(1 + base_rng_below(&rng, GOSSIP_RELAY_LAST_VERB));
    relay->stream = (uint32_t)any_u64();
    relay->amount = relay->verb == GOSSIP_RELAY_DATA ? 0 : any_u64();
    if (relay->verb == GOSSIP_RELAY_DATA)
        relay->bytes_bytes = 1 + (uint32_t)base_rng_below(&rng, sizeof payload[0]);
    else if (relay->verb <= GOSSIP_RELAY_CALLED)
        relay->bytes_bytes = GOSSIP_RELAY_ID_BYTES;
    relay->bytes = relay->bytes_bytes > 0 ? payload[0] : NULL;
}

static inline struct gossip_message any_message(enum gossip_message_kind kind)
{
    struct gossip_message message;
    memset(&message, 0, sizeof message);
    message.kind = kind;
    if (kind == GOSSIP_GREETING) {
        struct gossip_greeting *greeting = &message.as.greeting;
        any_text(greeting->version, sizeof greeting->version, 0);
        any_text(greeting->name, sizeof greeting->name, 1);
        any_text(greeting->model, sizeof greeting->model, 0);
        greeting->schema = any_u64();
        greeting->parameters = any_u64();
        greeting->instance_id = any_u64();
        any_text(greeting->rules, sizeof greeting->rules, 0);
        any_text(greeting->told, sizeof greeting->told, 0);
        for (size_t i = 0; i < GOSSIP_OWN_WORDS; i++)
            greeting->own[i] = any_u64();
        greeting->begun = (uint8_t)(any_u64() & 1);
        greeting->shard = (uint32_t)any_u64();
        any_text(greeting->seen, sizeof greeting->seen, 0);
    } else if (kind == GOSSIP_HELLO) {
        message.as.hello = (struct gossip_hello){.epoch = any_u64(),
                                                 .sequence = any_u64(),
                                                 .reference_hash = any_u64(),
                                                 .correction_hash = any_u64(),
                                                 .resync_offset = any_u64(),
                                                 .answer = (uint8_t)base_rng_below(&rng, 256),
                                                 .standing = (uint8_t)base_rng_below(&rng, 3),
                                                 .scaling = any_u64()};
    } else if (kind == GOSSIP_XCHG || kind == GOSSIP_XACK) {
        any_exchange(&message.as.exchange);
    } else if (kind == GOSSIP_BUSY) {
        message.as.busy = (struct gossip_busy){any_u64(), any_u64()};
    } else if (kind == GOSSIP_PARKED) {
        message.as.parked = (struct gossip_parked){any_u64(), any_u64(), any_u64()};
    } else if (kind == GOSSIP_STATISTICS) {
        const uint32_t columns = 1 + (uint32_t)base_rng_below(&rng, sizeof payload[0] / GOSSIP_SPREAD_BYTES);
        const uint32_t first =
            GOSSIP_STATISTICS_BLOCK *
            (uint32_t)base_rng_below(&rng, LIMIT_STATISTICS_COLUMNS / GOSSIP_STATISTICS_BLOCK);
        message.as.statistics =
            (struct gossip_statistics_message){.generation = any_u64(),
                                               .rows = 1 + base_rng_below(&rng, GOSSIP_STATISTICS_ROWS),
                                               .columns = first + columns,
                                               .first = first,
                                               .spreads = payload[0],
                                               .spreads_bytes = columns * GOSSIP_SPREAD_BYTES};
    } else if (kind == GOSSIP_MEMBERS) {
        message.as.members.packet = payload[0];
        message.as.members.packet_bytes = 1 + (uint32_t)base_rng_below(&rng, sizeof payload[0]);
    } else if (kind == GOSSIP_SNAPSHOT_ASK) {
        message.as.ask.snapshot = any_u64();
        message.as.ask.part = (uint8_t)base_rng_below(&rng, GOSSIP_PART_LAST + 1);
        message.as.ask.block = (uint32_t)any_u64();
    } else if (kind == GOSSIP_MERGE) {
        message.as.merge =
            (struct gossip_merge_message){.phase = (uint8_t)(1 + base_rng_below(&rng, 5)),
                                          .gives = (uint8_t)base_rng_below(&rng, 2),
                                          .hash = any_u64(),
                                          .keys = payload[0],
                                          .keys_bytes = 8 + 8 * (uint32_t)base_rng_below(&rng, 36)};
    } else if (kind == GOSSIP_SNAPSHOT_TELL) {
        any_tell(&message.as.tell);
    } else if (kind == GOSSIP_RELAY) {
        any_relay(&message.as.relay);
    } else if (kind == GOSSIP_REMOVED) {
        message.as.removed.list = payload[0];
        message.as.removed.list_bytes = 72 + 32 * (uint32_t)base_rng_below(&rng, 7);
    } else {
        any_text(message.as.bye.reason, sizeof message.as.bye.reason, 0);
    }
    return message;
}

// Header and payloads as they are sent.
static inline size_t encode(const struct gossip_message *message, uint8_t bytes[CAPACITY])
{
    struct gossip_payload payloads[GOSSIP_MESSAGE_PAYLOADS];
    size_t count = 0;
    assert_int_equal(gossip_message_encode_header(message, bytes, LIMIT_MESSAGE_HEADER_BYTES, &count),
                     BASE_OK);
    const size_t n = gossip_message_payloads(message, payloads);
    for (size_t i = 0; i < n; count += payloads[i++].count)
        memcpy(bytes + count, payloads[i].bytes, payloads[i].count);
    return count;
}

#endif
