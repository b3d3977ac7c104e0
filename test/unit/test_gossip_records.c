// What an established stream carries: a sealer against an opener, and an opener against a hand-made peer that
// has the keys but not the manners.
#include "base/buffer.h"
#include "gossip/session/records_private.h"
#include "test/support/seeded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_OF(array) (sizeof(array) / sizeof(array)[0])
#define MESSAGE_LIMIT    (1u << 20)
#define PROMPT           LIMIT_PROMPT_BYTES

static struct gossip_noise_cipher key;

struct pair {
    struct gossip_sealer *sealer;
    struct gossip_opener *opener;
    struct base_buffer wire;
};

static int setup(void **state)
{
    (void)state;
    seeded_begin(20260417);
    fill(key.key, sizeof key.key);
    return 0;
}

static struct pair new_pair(size_t message_limit)
{
    struct pair pair = {.sealer = gossip_sealer_create(&key),
                        .opener = gossip_opener_create(&key, message_limit)};
    assert_true(pair.sealer != NULL && pair.opener != NULL);
    return pair;
}

static void pair_free(struct pair *pair)
{
    gossip_sealer_destroy(pair->sealer);
    gossip_opener_destroy(pair->opener);
    base_buffer_free(&pair->wire);
}

static void seal_prompt(struct pair *pair, const uint8_t *message, size_t bytes)
{
    const struct gossip_session_part part = {message, bytes};
    uint8_t *room = NULL;
    assert_int_equal(base_buffer_reserve(&pair->wire, GOSSIP_PROMPT_SEALED, SIZE_MAX, &room), BASE_OK);
    const size_t made = gossip_sealer_prompt(pair->sealer, &part, 1, room);
    assert_int_equal(made, bytes + GOSSIP_RECORD_OVERHEAD);
    base_buffer_commit(&pair->wire, made);
}

static void begin(struct pair *pair, const uint8_t *message, size_t bytes)
{
    // Parts of arbitrary lengths, the second one often empty.
    const size_t first = bytes / 3, second = bytes % 2 == 0 ? 0 : bytes / 5, third = bytes / 7;
    const size_t rest = first + second + third;
    const struct gossip_session_part parts[] = {{message, first},
                                                {message + first, second},
                                                {message + first + second, third},
                                                {message + rest, bytes - rest}};
    assert_int_equal(gossip_sealer_begin(pair->sealer, parts, LENGTH_OF(parts)), BASE_OK);
    assert_false(gossip_sealer_idle(pair->sealer));
}

// As many records as fit into `room` bytes.
static size_t seal_some(struct pair *pair, size_t room)
{
    uint8_t *at = NULL;
    assert_int_equal(base_buffer_reserve(&pair->wire, room, SIZE_MAX, &at), BASE_OK);
    const size_t made = gossip_sealer_next(pair->sealer, at, room);
    assert_true(made <= room);
    base_buffer_commit(&pair->wire, made);
    return made;
}

static void seal(struct pair *pair, const uint8_t *message, size_t bytes)
{
    if (bytes <= PROMPT) {
        seal_prompt(pair, message, bytes);
        return;
    }
    begin(pair, message, bytes);
    while (!gossip_sealer_idle(pair->sealer))
        assert_true(seal_some(pair, 20000 + (size_t)base_rng_below(&rng, 200000)) > 0);
}

// One call with what a network might have brought by now; `given` is how much of the wire the opener has
// seen. most = 0: a random split.
static enum base_error take(struct pair *pair, size_t *given, size_t most, struct gossip_opened *message)
{
    const size_t left = base_buffer_length(&pair->wire);
    const size_t more = most > 0 ? most : 1 + (size_t)base_rng_below(&rng, 1u << base_rng_below(&rng, 18));
    size_t consumed = 0;
    if (*given < left)
        *given += more < left - *given ? more : left - *given;
    enum base_error error =
        gossip_opener_take(pair->opener, base_buffer_head(&pair->wire), *given, &consumed, message);
    assert_true(consumed <= *given);
    base_buffer_consume(&pair->wire, consumed);
    *given -= consumed;
    return error;
}

static void expect(struct pair *pair, size_t *given, size_t most, const uint8_t *message, size_t bytes)
{
    struct gossip_opened opened;
    do {
        assert_int_equal(take(pair, given, most, &opened), BASE_OK);
        assert_true(opened.bytes != NULL || *given < LIMIT_RECORD_BYTES + RECORD_PREFIX);
    } while (opened.bytes == NULL);
    assert_int_equal(opened.count, bytes);
    assert_memory_equal(opened.bytes, message, bytes);
    free(opened.bytes);
}

static void test_messages_in_all_splits(void **state)
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

// Byte by byte: no byte more is needed than there is, and none too many.
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

// A small message that comes while a large one is under way is whole as soon as its own record is there.
static void test_small_messages_overtake(void **state)
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
    for (size_t i = 1; i < pieces; i++) { // all of them, in their order, before the large one
        memset(small, (int)i, sizeof small);
        expect(&pair, &given, 0, small, sizeof small);
    }
    expect(&pair, &given, 0, large, BYTES);
    assert_int_equal(base_buffer_length(&pair.wire), 0);
    free(large);
    pair_free(&pair);
}

// Nothing is sealed ahead of its being asked for: what a caller gives later comes before it.
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
    assert_in_range(all, MESSAGE_LIMIT, MESSAGE_LIMIT + MESSAGE_LIMIT / 500); // framing below 0.2%
    size_t given = 0;
    expect(&pair, &given, SIZE_MAX, large, MESSAGE_LIMIT);
    free(large);
    pair_free(&pair);
}

static void test_sealer_limits(void **state)
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

struct step { // one record: its kind, its length, what BEGIN announces, and the answer
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
        {{{RECORD_MORE, 10, 0, BASE_EFORMAT}}, 0}, // nothing has begun
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
        {{{RECORD_BEGIN, 4, PROMPT, BASE_EFORMAT}}, 0}, // it would be one record
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
        if (error != BASE_OK)
            assert_int_equal(raw_record(&raw, RECORD_WHOLE, plain, 1), BASE_ESTATE);
        gossip_opener_destroy(raw.opener);
    }
}

// A limit below what may be one record holds for these, too.
static void test_a_low_limit_holds_for_small_messages(void **state)
{
    (void)state;
    struct raw raw = {.cipher = key, .opener = gossip_opener_create(&key, 100)};
    uint8_t plain[101] = {0};
    assert_int_equal(raw_record(&raw, RECORD_WHOLE, plain, 100), BASE_OK);
    assert_int_equal(raw_record(&raw, RECORD_WHOLE, plain, 101), BASE_ELIMIT);
    gossip_opener_destroy(raw.opener);
}

static void test_rekey_in_step(void **state)
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

// A peer that goes on under the old key is cut off exactly where the key changes.
static void test_rekey_happens(void **state)
{
    (void)state;
    struct raw raw = {.cipher = key, .opener = gossip_opener_create(&key, MESSAGE_LIMIT)};
    const uint8_t plain = 0;
    for (unsigned i = 0; i < LIMIT_REKEY_RECORDS; i++)
        assert_int_equal(raw_record(&raw, RECORD_WHOLE, &plain, 1), BASE_OK);
    assert_int_equal(raw_record(&raw, RECORD_WHOLE, &plain, 1), BASE_EAUTH);
    gossip_opener_destroy(raw.opener);
}

// -- bytes changed on the way

enum damage { DAMAGE_FLIP, DAMAGE_DROP, DAMAGE_INSERT, DAMAGE_REPLAY, DAMAGE_SWAP, DAMAGE_KIND, DAMAGES };

static size_t record_bytes(const uint8_t *record)
{
    struct base_reader reader = base_reader_of(record, 2);
    return (size_t)RECORD_PREFIX + base_read_u16(&reader);
}

// Damages a stream of records at byte `at`; replay, swap and kind take the record that starts at 0.
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
    if (damage == DAMAGE_KIND) { // a small message of 4 bytes made to look like the beginning of a large one
        assert_int_equal(first, 4 + GOSSIP_RECORD_OVERHEAD);
        copy[2] = RECORD_BEGIN;
    }
    base_buffer_free(stream);
    assert_int_equal(base_buffer_append(stream, copy, made, SIZE_MAX), BASE_OK);
    free(copy);
}

// Ten messages, one of several records; then so many more that no changed length can make the receiver wait.
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
    while (error == BASE_OK && base_buffer_length(&pair.wire) > 0) {
        error = take(&pair, &given, 0, &opened);
        if (opened.bytes == NULL)
            continue;
        // What is delivered is what was said, in its order.
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

static void test_damaged_stream_dies(void **state)
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

// A stream that ends anywhere delivers nothing that was not whole, and an opener that is destroyed in the
// middle of a message leaves nothing behind (a sanitizer says so).
static void test_truncated_stream_waits(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_in_all_splits),
        cmocka_unit_test(test_a_record_is_opened_with_its_last_byte),
        cmocka_unit_test(test_small_messages_overtake),
        cmocka_unit_test(test_sealing_is_done_piece_by_piece),
        cmocka_unit_test(test_sealer_limits),
        cmocka_unit_test(test_broken_framing_is_refused),
        cmocka_unit_test(test_a_low_limit_holds_for_small_messages),
        cmocka_unit_test(test_rekey_in_step),
        cmocka_unit_test(test_rekey_inside_a_message),
        cmocka_unit_test(test_rekey_happens),
        cmocka_unit_test(test_damaged_stream_dies),
        cmocka_unit_test(test_every_flipped_bit_is_found),
        cmocka_unit_test(test_truncated_stream_waits),
    };
    int failed = 0;
    for (unsigned aead = 0; aead < GOSSIP_AEADS; aead++) {
        key.aead = (enum gossip_aead)aead;
        printf("records of %s\n", gossip_aead_name(key.aead));
        if (gossip_aead_offer() & GOSSIP_AEAD_BIT(aead))
            failed += cmocka_run_group_tests(tests, setup, NULL);
        else
            printf("skipped: this processor does not compute it\n");
    }
    return failed;
}
