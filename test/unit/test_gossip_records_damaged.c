// An established stream whose bytes are changed, dropped, inserted or replayed on the way.
#include "base/buffer.h"
#include "gossip/session/records_private.h"
#include "test/support/sealed_pair.h"
#include "test/support/seeded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum damage { DAMAGE_FLIP, DAMAGE_DROP, DAMAGE_INSERT, DAMAGE_REPLAY, DAMAGE_SWAP, DAMAGE_KIND, DAMAGES };

static size_t record_bytes(const uint8_t *record)
{
    struct base_reader reader = base_reader_of(record, 2);
    return (size_t)RECORD_PREFIX + base_read_u16(&reader);
}

// Damages a stream of records at byte `at`; replay, swap and kind apply to the record that starts at 0.
static void damage_stream(struct base_buffer *stream, enum damage damage, size_t at)
{
    const size_t bytes = base_buffer_length(stream), first = record_bytes(base_buffer_head(stream));
    uint8_t *copy = malloc(bytes + first + 1), extra = (uint8_t)base_rng_u64(&rng);
    size_t made = bytes;
    memcpy(copy, base_buffer_head(stream), bytes);
    if (damage == DAMAGE_FLIP)
        copy[at] ^= (uint8_t)(1u << base_rng_below(&rng, 8));
    if (damage == DAMAGE_DROP)
        memmove(copy + at, copy + at + 1, --made - at);
    if (damage == DAMAGE_INSERT) {
        memmove(copy + at + 1, copy + at, made++ - at);
        copy[at] = extra;
    }
    if (damage == DAMAGE_REPLAY) {
        memmove(copy + first, copy, bytes);
        made += first;
    }
    if (damage == DAMAGE_SWAP) {
        const size_t second = record_bytes(base_buffer_head(stream) + first);
        memcpy(copy, base_buffer_head(stream) + first, second);
        memcpy(copy + second, base_buffer_head(stream), first);
    }
    if (damage == DAMAGE_KIND) { // makes a small message of 4 bytes look like the beginning of a large one
        assert_int_equal(first, 4 + GOSSIP_RECORD_OVERHEAD);
        copy[2] = RECORD_BEGIN;
    }
    base_buffer_free(stream);
    assert_int_equal(base_buffer_append(stream, copy, made, SIZE_MAX), BASE_OK);
    free(copy);
}

// Ten messages, one of them of several records, and then so many more that no changed length can make the
// receiver wait.
static void check_damage(enum damage damage, const uint8_t *message, size_t bytes)
{
    struct pair pair = new_pair(MESSAGE_LIMIT);
    struct gossip_opened opened;
    size_t given = 0;
    unsigned whole = 0;
    enum base_error error = BASE_OK;
    for (unsigned i = 0; i < 10; i++)
        seal(&pair, message, i == 5 ? bytes : 4);
    const size_t at = (size_t)base_rng_below(&rng, base_buffer_length(&pair.wire));
    seal(&pair, message, bytes);
    damage_stream(&pair.wire, damage, at);
    while (!error && base_buffer_length(&pair.wire) > 0) {
        error = take(&pair, &given, 0, &opened);
        if (!opened.bytes)
            continue;
        // What is delivered is what was sent, in order.
        assert_int_equal(opened.count, whole == 5 ? bytes : 4);
        assert_memory_equal(opened.bytes, message, opened.count);
        free(opened.bytes);
        whole++;
    }
    assert_true(error == BASE_EAUTH || error == BASE_EFORMAT || error == BASE_ELIMIT);
    assert_true(whole <= 10);
    if (damage == DAMAGE_SWAP || damage == DAMAGE_KIND)
        assert_int_equal(whole, 0);
    if (damage == DAMAGE_REPLAY)
        assert_int_equal(whole, 1);
    assert_int_equal(take(&pair, &given, 0, &opened), BASE_ESTATE);
    pair_free(&pair);
}

static void test_a_damaged_stream_ends(void **state)
{
    (void)state;
    const size_t bytes = 150000;
    uint8_t *message = malloc(bytes);
    fill(message, bytes);
    for (unsigned round = 0; round < 120; round++)
        check_damage((enum damage)(round % DAMAGES), message, bytes);
    free(message);
}

// Every bit of one small stream.
static void test_every_flipped_bit_is_found(void **state)
{
    (void)state;
    uint8_t message[20];
    fill(message, sizeof message);
    for (size_t bit = 0; bit < 8 * (sizeof message + GOSSIP_RECORD_OVERHEAD); bit++) {
        struct pair pair = new_pair(MESSAGE_LIMIT);
        struct gossip_opened opened;
        uint8_t later[PROMPT] = {0};
        size_t consumed = 0;
        seal(&pair, message, sizeof message);
        for (unsigned i = 0; i < 5; i++) // no length can reach beyond these
            seal(&pair, later, sizeof later);
        pair.wire.data[pair.wire.start + bit / 8] ^= (uint8_t)(1u << bit % 8);
        enum base_error error = gossip_opener_take(pair.opener, base_buffer_head(&pair.wire),
                                                   base_buffer_length(&pair.wire), &consumed, &opened);
        assert_true(error == BASE_EAUTH || error == BASE_EFORMAT || error == BASE_ELIMIT);
        assert_null(opened.bytes);
        pair_free(&pair);
    }
}

// A stream that ends anywhere delivers only complete messages, and an opener that is destroyed in the middle
// of a message leaks nothing (a sanitizer reports it).
static void test_a_truncated_stream_waits_for_more(void **state)
{
    (void)state;
    const size_t bytes = 100000;
    uint8_t *message = malloc(bytes);
    fill(message, bytes);
    for (unsigned round = 0; round < 50; round++) {
        struct pair pair = new_pair(MESSAGE_LIMIT);
        struct gossip_opened opened;
        size_t consumed = 0;
        seal(&pair, message, bytes);
        const size_t cut = (size_t)base_rng_below(&rng, base_buffer_length(&pair.wire));
        assert_int_equal(
            gossip_opener_take(pair.opener, base_buffer_head(&pair.wire), cut, &consumed, &opened), BASE_OK);
        assert_null(opened.bytes);
        assert_true(cut - consumed < LIMIT_RECORD_BYTES + RECORD_PREFIX);
        pair_free(&pair);
    }
    free(message);
}

static int run(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_damaged_stream_ends),
        cmocka_unit_test(test_every_flipped_bit_is_found),
        cmocka_unit_test(test_a_truncated_stream_waits_for_more),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}

int main(void)
{
    return with_each_aead(run);
}
