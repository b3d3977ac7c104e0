// Message headers: round trips, and an independent reader (msgpack-c) that confirms what is written.
#include "base/limits.h"
#include "gossip/wire/message.h"
#include "test/support/any_message.h"

#include <math.h>
#include <msgpack/unpack.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

// The payloads of `b` are in `bytes`, one behind the other, up to the end.
static void check_equal(const struct gossip_message *a, const struct gossip_message *b, const uint8_t *bytes,
                        size_t count)
{
    struct gossip_message copy = *b;
    struct gossip_payload was[GOSSIP_MESSAGE_PAYLOADS], is[GOSSIP_MESSAGE_PAYLOADS];
    const size_t n = gossip_message_payloads(b, is);
    assert_int_equal(gossip_message_payloads(a, was), n);
    for (size_t i = n; i-- > 0; count -= is[i].count) {
        assert_int_equal(is[i].count, was[i].count);
        assert_ptr_equal(is[i].bytes, bytes + count - is[i].count);
        assert_memory_equal(is[i].bytes, was[i].bytes, is[i].count);
    }
    if (a->kind == GOSSIP_XCHG || a->kind == GOSSIP_XACK) {
        copy.as.exchange.delta = a->as.exchange.delta;
        copy.as.exchange.moment = a->as.exchange.moment;
        copy.as.exchange.news = a->as.exchange.news;
    } else if (a->kind == GOSSIP_MEMBERS) {
        copy.as.members.packet = a->as.members.packet;
    } else if (a->kind == GOSSIP_SNAPSHOT_TELL) {
        copy.as.tell.values = a->as.tell.values;
    } else if (a->kind == GOSSIP_STATISTICS) {
        copy.as.statistics.spreads = a->as.statistics.spreads;
    } else if (a->kind == GOSSIP_MERGE) {
        copy.as.merge.keys = a->as.merge.keys;
    } else if (a->kind == GOSSIP_RELAY) {
        copy.as.relay.bytes = a->as.relay.bytes;
    } else if (a->kind == GOSSIP_REMOVED) {
        copy.as.removed.list = a->as.removed.list;
    }
    assert_memory_equal(a, &copy, sizeof copy); // both were zeroed before they were filled
}

// msgpack-c's reader, which shares no code with this one, sees an array of the fields and nothing behind it.
static void check_standard(const struct gossip_message *message, const uint8_t *bytes, size_t header_bytes)
{
    msgpack_unpacked result;
    size_t used = 0;
    msgpack_unpacked_init(&result);
    assert_int_equal(msgpack_unpack_next(&result, (const char *)bytes, header_bytes, &used),
                     MSGPACK_UNPACK_SUCCESS);
    assert_int_equal(used, header_bytes);
    assert_int_equal(result.data.type, MSGPACK_OBJECT_ARRAY);
    const msgpack_object_array *array = &result.data.via.array;
    assert_int_equal(array->ptr[0].type, MSGPACK_OBJECT_POSITIVE_INTEGER);
    assert_int_equal(array->ptr[0].via.u64, message->kind);
    if (message->kind == GOSSIP_GREETING) {
        const char *name = message->as.greeting.name;
        assert_int_equal(array->size, 14);
        assert_int_equal(array->ptr[2].type, MSGPACK_OBJECT_STR);
        assert_int_equal(array->ptr[2].via.str.size, strlen(name));
        assert_memory_equal(array->ptr[2].via.str.ptr, name, strlen(name));
        assert_int_equal(array->ptr[7].type, MSGPACK_OBJECT_STR);
        assert_int_equal(array->ptr[7].via.str.size, strlen(message->as.greeting.rules));
        assert_int_equal(array->ptr[8].via.str.size, strlen(message->as.greeting.told));
        assert_true(array->ptr[9].via.u64 == message->as.greeting.own[0]);
        assert_true(array->ptr[10].via.u64 == message->as.greeting.own[1]);
        assert_true(array->ptr[11].via.u64 == message->as.greeting.begun);
        assert_true(array->ptr[12].via.u64 == message->as.greeting.shard);
    }
    if (message->kind == GOSSIP_SNAPSHOT_TELL) {
        assert_int_equal(array->size, 9);
        assert_true(array->ptr[7].via.u64 == message->as.tell.hash);
        assert_int_equal(array->ptr[8].via.u64, message->as.tell.values_bytes);
    }
    if (message->kind == GOSSIP_XCHG || message->kind == GOSSIP_XACK) {
        assert_int_equal(array->size, 17);
        assert_true(array->ptr[1].via.u64 == message->as.exchange.epoch);
        assert_int_equal(array->ptr[4].via.u64, message->as.exchange.standing);
        assert_int_equal(array->ptr[5].type, MSGPACK_OBJECT_FLOAT32);
        assert_true((float)array->ptr[5].via.f64 == message->as.exchange.step_scale);
        assert_int_equal(array->ptr[6].type, MSGPACK_OBJECT_FLOAT32);
        assert_true((float)array->ptr[6].via.f64 == message->as.exchange.weight);
        assert_int_equal(array->ptr[7].type, MSGPACK_OBJECT_FLOAT32);
        assert_true((float)array->ptr[7].via.f64 == message->as.exchange.limit);
        assert_int_equal(array->ptr[8].type, MSGPACK_OBJECT_FLOAT32);
        assert_true((float)array->ptr[8].via.f64 == message->as.exchange.bound);
        assert_int_equal(array->ptr[9].type, MSGPACK_OBJECT_FLOAT32);
        assert_true((float)array->ptr[9].via.f64 == message->as.exchange.progress);
        assert_true(array->ptr[10].via.u64 == message->as.exchange.pace_ns);
        assert_int_equal(array->ptr[14].via.u64, message->as.exchange.delta_bytes);
        assert_int_equal(array->ptr[15].via.u64, message->as.exchange.moment_bytes);
        assert_int_equal(array->ptr[16].via.u64, message->as.exchange.news_bytes);
    }
    if (message->kind == GOSSIP_PARKED) {
        assert_int_equal(array->size, 4);
        assert_true(array->ptr[1].via.u64 == message->as.parked.epoch);
        assert_true(array->ptr[2].via.u64 == message->as.parked.sequence);
        assert_true(array->ptr[3].via.u64 == message->as.parked.round);
    }
    msgpack_unpacked_destroy(&result);
}

static void test_every_message_survives_a_round_trip(void **state)
{
    (void)state;
    uint8_t bytes[CAPACITY];
    for (unsigned round = 0; round < 3000; round++) {
        const struct gossip_message message =
            any_message((enum gossip_message_kind)(GOSSIP_GREETING + round % KINDS));
        struct gossip_message decoded;
        size_t header_bytes = 0;
        const size_t count = encode(&message, bytes);
        assert_int_equal(gossip_message_encode_header(&message, bytes, sizeof bytes, &header_bytes), BASE_OK);
        check_standard(&message, bytes, header_bytes);
        assert_int_equal(gossip_message_decode(bytes, count, &decoded), BASE_OK);
        check_equal(&message, &decoded, bytes, count);
    }
}

static void test_the_longest_header_fits(void **state)
{
    (void)state;
    struct gossip_message message = {.kind = GOSSIP_GREETING};
    struct gossip_greeting *greeting = &message.as.greeting;
    uint8_t header[LIMIT_MESSAGE_HEADER_BYTES];
    size_t bytes = 0;
    memset(greeting->version, 'v', sizeof greeting->version - 1);
    memset(greeting->name, 'n', sizeof greeting->name - 1);
    memset(greeting->model, 'm', sizeof greeting->model - 1);
    memset(greeting->rules, 'r', sizeof greeting->rules - 1);
    memset(greeting->told, 't', sizeof greeting->told - 1);
    greeting->schema = greeting->parameters = greeting->instance_id = UINT64_MAX;
    memset(greeting->own, 0xff, sizeof greeting->own);
    greeting->begun = 1;
    greeting->shard = UINT32_MAX;
    assert_int_equal(gossip_message_encode_header(&message, header, sizeof header, &bytes), BASE_OK);
    for (size_t capacity = 0; capacity < bytes; capacity++) {
        size_t untouched = 77;
        assert_int_equal(gossip_message_encode_header(&message, header, capacity, &untouched), BASE_ELIMIT);
        assert_int_equal(untouched, 77);
    }
    assert_int_equal(gossip_message_encode_header(&message, header, bytes, &bytes), BASE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_message_survives_a_round_trip),
        cmocka_unit_test(test_the_longest_header_fits),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
