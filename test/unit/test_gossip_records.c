// The records of an established stream: a sealer against an opener, and an opener against a hand-made peer
// that has the keys but breaks the framing.
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

static void expect(struct pair *pair, size_t *given, size_t most, const uint8_t *message, size_t bytes)
{
    struct gossip_opened opened;
    do {
        assert_int_equal(take(pair, given, most, &opened), BASE_OK);
        assert_true(opened.bytes || *given < LIMIT_RECORD_BYTES + RECORD_PREFIX);
    } while (!opened.bytes);
    assert_int_equal(opened.count, bytes);
    assert_memory_equal(opened.bytes, message, bytes);
    free(opened.bytes);
}

static void test_messages_arrive_whole_in_all_splits(void **state)
{
    (void)state;
    static const size_t sizes[] = {1,         5,      1000,   PROMPT - 1, PROMPT,       PROMPT + 1,
                                   2 * 16384, 200001, 262144, 65519,      MESSAGE_LIMIT};
    static const size_t splits[] = {SIZE_MAX, 0, 0, 65536, 7001};
    uint8_t *message = malloc(MESSAGE_LIMIT + LENGTH_OF(sizes));
    fill(message, MESSAGE_LIMIT + LENGTH_OF(sizes));
    for (size_t s = 0; s < LENGTH_OF(splits); s++) {
        struct pair pair = new_pair(MESSAGE_LIMIT);
        size_t given = 0;
        for (size_t i = 0; i < LENGTH_OF(sizes); i++) {
            const size_t before = base_buffer_length(&pair.wire);
            seal(&pair, message + i, sizes[i]);
            assert_int_equal(base_buffer_length(&pair.wire) - before, gossip_sealed_bytes(sizes[i]));
        }
        for (size_t i = 0; i < LENGTH_OF(sizes); i++)
            expect(&pair, &given, splits[s], message + i, sizes[i]);
        assert_int_equal(base_buffer_length(&pair.wire), 0);
        pair_free(&pair);
    }
    free(message);
}

// Byte by byte: a record opens with its last byte, not earlier and not later.
static void test_a_record_is_opened_with_its_last_byte(void **state)
{
    (void)state;
    struct pair pair = new_pair(MESSAGE_LIMIT);
    uint8_t message[100];
    struct gossip_opened opened;
    size_t given = 0;
    fill(message, sizeof message);
    for (unsigned i = 0; i < 3; i++)
        seal(&pair, message, sizeof message);
    for (unsigned i = 0; i < 3; i++) {
        for (size_t at = 1; at < sizeof message + GOSSIP_RECORD_OVERHEAD; at++) {
            assert_int_equal(take(&pair, &given, 1, &opened), BASE_OK);
            assert_null(opened.bytes);
            assert_int_equal(given, at);
        }
        expect(&pair, &given, 1, message, sizeof message);
        assert_int_equal(given, 0);
    }
    pair_free(&pair);
}

// A small message that comes while a large one is under way is complete as soon as its own record has
// arrived.
static void test_small_messages_overtake_large_ones(void **state)
{
    (void)state;
    enum { BYTES = 300000 };
    struct pair pair = new_pair(MESSAGE_LIMIT);
    uint8_t *large = malloc(BYTES), small[64];
    size_t given = 0, pieces = 0;
    fill(large, BYTES);
    begin(&pair, large, BYTES);
    while (seal_some(&pair, 30000) > 0) {
        memset(small, (int)++pieces, sizeof small);
        if (!gossip_sealer_idle(pair.sealer))
            seal_prompt(&pair, small, sizeof small);
    }
    assert_true(pieces > 10);
    for (size_t i = 1; i < pieces; i++) { // all of them, in order, before the large one
        memset(small, (int)i, sizeof small);
        expect(&pair, &given, 0, small, sizeof small);
    }
    expect(&pair, &given, 0, large, BYTES);
    assert_int_equal(base_buffer_length(&pair.wire), 0);
    free(large);
    pair_free(&pair);
}

// Nothing is sealed before it is asked for: what a caller adds later goes before it.
static void test_sealing_is_done_piece_by_piece(void **state)
{
    (void)state;
    struct pair pair = new_pair(MESSAGE_LIMIT);
    uint8_t *large = calloc(1, MESSAGE_LIMIT);
    const size_t most = 65536;
    begin(&pair, large, MESSAGE_LIMIT);
    assert_int_equal(seal_some(&pair, 0), 0);
    assert_int_equal(seal_some(&pair, 100), 0);
    size_t made = seal_some(&pair, most), all = made;
    assert_in_range(made, most / 2, most);
    large[MESSAGE_LIMIT - 1] = 7; // borrowed: not read yet
    while ((made = seal_some(&pair, most)) > 0)
        all += made;
    assert_true(gossip_sealer_idle(pair.sealer));
    assert_in_range(all, MESSAGE_LIMIT, MESSAGE_LIMIT + MESSAGE_LIMIT / 500); // framing is below 0.2%
    size_t given = 0;
    expect(&pair, &given, SIZE_MAX, large, MESSAGE_LIMIT);
    free(large);
    pair_free(&pair);
}

static void test_the_sealer_refuses_what_exceeds_its_limits(void **state)
{
    (void)state;
    struct pair pair = new_pair(MESSAGE_LIMIT);
    static uint8_t message[PROMPT + 1], out[GOSSIP_PROMPT_SEALED];
    struct gossip_session_part parts[GOSSIP_MESSAGE_PARTS + 1] = {{message, PROMPT}, {message, 1}};
    const struct gossip_session_part huge[] = {{message, UINT32_MAX - 10}, {message, 100}};
    size_t given = 0;
    assert_int_equal(gossip_sealer_prompt(pair.sealer, parts, 0, out), 0);
    assert_int_equal(gossip_sealer_prompt(pair.sealer, parts, 2, out), 0);
    assert_int_equal(gossip_sealer_prompt(pair.sealer, parts, LENGTH_OF(parts), out), 0);
    assert_int_equal(gossip_sealer_begin(pair.sealer, parts, 0), BASE_ELIMIT);
    assert_int_equal(gossip_sealer_begin(pair.sealer, parts, 1), BASE_ELIMIT);
    assert_int_equal(gossip_sealer_begin(pair.sealer, parts, LENGTH_OF(parts)), BASE_ELIMIT);
    assert_int_equal(gossip_sealer_begin(pair.sealer, huge, 2), BASE_ELIMIT);
    assert_true(gossip_sealer_idle(pair.sealer));
    assert_int_equal(gossip_sealer_begin(pair.sealer, parts, 2), BASE_OK);
    assert_int_equal(gossip_sealer_begin(pair.sealer, parts, 2), BASE_ESTATE);
    while (!gossip_sealer_idle(pair.sealer))
        assert_true(seal_some(&pair, 20000) > 0);
    expect(&pair, &given, 0, message, PROMPT + 1);
    pair_free(&pair);
}

// -- a peer with the keys

struct raw {
    struct gossip_noise_cipher cipher;
    struct gossip_opener *opener;
    size_t messages;
};

static enum base_error raw_record(struct raw *raw, unsigned kind, const void *plain, size_t bytes)
{
    static uint8_t record[RECORD_PREFIX + LIMIT_RECORD_BYTES];
    struct gossip_opened opened;
    size_t consumed = 0;
    record_prefix(record, bytes, (enum record_kind)kind);
    gossip_noise_seal(&raw->cipher, record, RECORD_PREFIX, plain, bytes, record + RECORD_PREFIX);
    enum base_error error =
        gossip_opener_take(raw->opener, record, RECORD_PREFIX + bytes + RECORD_TAG, &consumed, &opened);
    raw->messages += opened.bytes != NULL;
    free(opened.bytes);
    return error;
}

static void write_length(uint8_t plain[BEGIN_BYTES], uint32_t bytes)
{
    struct base_writer writer = base_writer_of(plain, BEGIN_BYTES);
    base_write_u32(&writer, bytes);
}

struct step { // one record: its kind, its length, the length that BEGIN announces, and the answer
    unsigned kind;
    size_t bytes;
    uint32_t announced;
    enum base_error expected;
};

static void test_broken_framing_is_refused(void **state)
{
    (void)state;
    enum { LIMIT = 40000 };
    static uint8_t plain[RECORD_PLAIN];
    static const struct {
        struct step steps[4];
        size_t messages;
    } cases[] = {
        {{{RECORD_WHOLE, 1, 0, BASE_OK}, {RECORD_WHOLE, PROMPT, 0, BASE_OK}}, 2},
        {{{RECORD_WHOLE, 0, 0, BASE_EFORMAT}}, 0},
        {{{RECORD_WHOLE, PROMPT + 1, 0, BASE_ELIMIT}}, 0},
        {{{RECORD_MORE, 10, 0, BASE_EFORMAT}}, 0}, // no message has begun
        {{{RECORD_BEGIN, 4, LIMIT, BASE_OK}, {RECORD_MORE, LIMIT, 0, BASE_OK}, {0, 1, 0, BASE_OK}}, 2},
        {{{RECORD_BEGIN, 4, LIMIT, BASE_OK}, {RECORD_WHOLE, 9, 0, BASE_OK}, {RECORD_MORE, LIMIT, 0, BASE_OK}},
         2},
        {{{RECORD_BEGIN, 4, LIMIT, BASE_OK},
          {RECORD_MORE, 1, 0, BASE_OK},
          {RECORD_MORE, LIMIT - 1, 0, BASE_OK}},
         1},
        {{{RECORD_BEGIN, 4, LIMIT, BASE_OK}, {RECORD_MORE, LIMIT + 1, 0, BASE_EFORMAT}}, 0},
        {{{RECORD_BEGIN, 4, LIMIT, BASE_OK},
          {RECORD_MORE, 9, 0, BASE_OK},
          {RECORD_MORE, LIMIT, 0, BASE_EFORMAT}},
         0},
        {{{RECORD_BEGIN, 4, LIMIT, BASE_OK}, {RECORD_MORE, 0, 0, BASE_EFORMAT}}, 0},
        {{{RECORD_BEGIN, 4, LIMIT, BASE_OK}, {RECORD_BEGIN, 4, LIMIT, BASE_EFORMAT}}, 0}, // two at a time
        {{{RECORD_BEGIN, 3, LIMIT, BASE_EFORMAT}}, 0},
        {{{RECORD_BEGIN, 5, LIMIT, BASE_EFORMAT}}, 0},
        {{{RECORD_BEGIN, 4, LIMIT + 1, BASE_ELIMIT}}, 0},
        {{{RECORD_BEGIN, 4, UINT32_MAX, BASE_ELIMIT}}, 0},
        {{{RECORD_BEGIN, 4, PROMPT, BASE_EFORMAT}}, 0}, // it would fit into one record
        {{{RECORD_BEGIN, 4, 0, BASE_EFORMAT}}, 0},
        {{{RECORD_MORE + 1, 4, 0, BASE_EFORMAT}}, 0},
        {{{255, 4, 0, BASE_EFORMAT}}, 0},
    };
    for (size_t i = 0; i < LENGTH_OF(cases); i++) {
        struct raw raw = {.cipher = key, .opener = gossip_opener_create(&key, LIMIT)};
        enum base_error error = BASE_OK;
        for (size_t at = 0; at < 4 && cases[i].steps[at].bytes + (size_t)cases[i].steps[at].expected > 0;
             at++) {
            const struct step *step = &cases[i].steps[at];
            if (step->kind == RECORD_BEGIN)
                write_length(plain, step->announced);
            error = raw_record(&raw, step->kind, plain, step->bytes);
            assert_int_equal(error, step->expected);
        }
        assert_int_equal(raw.messages, cases[i].messages);
        if (error)
            assert_int_equal(raw_record(&raw, RECORD_WHOLE, plain, 1), BASE_ESTATE);
        gossip_opener_destroy(raw.opener);
    }
}

// A limit below the size of one record holds for small messages, too.
static void test_a_low_limit_holds_for_small_messages(void **state)
{
    (void)state;
    struct raw raw = {.cipher = key, .opener = gossip_opener_create(&key, 100)};
    uint8_t plain[101] = {0};
    assert_int_equal(raw_record(&raw, RECORD_WHOLE, plain, 100), BASE_OK);
    assert_int_equal(raw_record(&raw, RECORD_WHOLE, plain, 101), BASE_ELIMIT);
    gossip_opener_destroy(raw.opener);
}

static void test_both_ends_rekey_in_step(void **state)
{
    (void)state;
    struct pair pair = new_pair(MESSAGE_LIMIT);
    uint8_t message[3];
    size_t given = 0;
    for (unsigned i = 0; i < LIMIT_REKEY_RECORDS + 100; i++) {
        fill(message, sizeof message);
        seal(&pair, message, sizeof message);
        expect(&pair, &given, SIZE_MAX, message, sizeof message);
    }
    pair_free(&pair);
}

// The key may change in the middle of a large message.
static void test_rekey_inside_a_message(void **state)
{
    (void)state;
    struct pair pair = new_pair(MESSAGE_LIMIT);
    uint8_t *message = malloc(MESSAGE_LIMIT), small = 1;
    size_t given = 0;
    fill(message, MESSAGE_LIMIT);
    for (unsigned i = 0; i < LIMIT_REKEY_RECORDS - 10; i++) {
        seal(&pair, &small, 1);
        expect(&pair, &given, SIZE_MAX, &small, 1);
    }
    seal(&pair, message, MESSAGE_LIMIT);
    expect(&pair, &given, 0, message, MESSAGE_LIMIT);
    free(message);
    pair_free(&pair);
}

// A peer that keeps using the old key is refused exactly where the key changes.
static void test_a_peer_that_keeps_the_old_key_is_refused(void **state)
{
    (void)state;
    struct raw raw = {.cipher = key, .opener = gossip_opener_create(&key, MESSAGE_LIMIT)};
    const uint8_t plain = 0;
    for (unsigned i = 0; i < LIMIT_REKEY_RECORDS; i++)
        assert_int_equal(raw_record(&raw, RECORD_WHOLE, &plain, 1), BASE_OK);
    assert_int_equal(raw_record(&raw, RECORD_WHOLE, &plain, 1), BASE_EAUTH);
    gossip_opener_destroy(raw.opener);
}

static int run(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_arrive_whole_in_all_splits),
        cmocka_unit_test(test_a_record_is_opened_with_its_last_byte),
        cmocka_unit_test(test_small_messages_overtake_large_ones),
        cmocka_unit_test(test_sealing_is_done_piece_by_piece),
        cmocka_unit_test(test_the_sealer_refuses_what_exceeds_its_limits),
        cmocka_unit_test(test_broken_framing_is_refused),
        cmocka_unit_test(test_a_low_limit_holds_for_small_messages),
        cmocka_unit_test(test_both_ends_rekey_in_step),
        cmocka_unit_test(test_rekey_inside_a_message),
        cmocka_unit_test(test_a_peer_that_keeps_the_old_key_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}

int main(void)
{
    return with_each_aead(run);
}
