// The AEADs of a session: known answers, two implementations of each compared with each other, and how two
// ends agree on one.
#include "gossip/session/aead.h"
#include "gossip/session/session.h"
#include "test/support/seeded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY       GOSSIP_AEAD_KEY_BYTES
#define TAG       GOSSIP_AEAD_TAG_BYTES
#define BYTES_MAX 66000u
#define CHACHA    GOSSIP_AEAD_BIT(GOSSIP_AEAD_CHACHAPOLY)
#define AES       GOSSIP_AEAD_BIT(GOSSIP_AEAD_AESGCM)

static struct gossip_identity identity[2]; // initiator, responder

static int setup(void **state)
{
    (void)state;
    seeded_begin(20261122);
    for (size_t i = 0; i < 2; i++) {
        uint8_t secret[32];
        fill(secret, sizeof secret);
        gossip_identity_from_seed(secret, &identity[i]);
    }
    return sodium_init() < 0;
}

static void skip_without_aes(void)
{
    if (gossip_aead_offer() & AES)
        return;
    print_message("skipped: this processor does not compute AES-GCM\n");
    skip();
}

// Test cases 13 and 14 of McGrew and Viega, The Galois/Counter Mode of Operation: key and nonce are zeros.
static void test_known_answers_of_aes_gcm(void **state)
{
    (void)state;
    static const uint8_t zeros[KEY], empty[TAG] = {0x53, 0x0f, 0x8a, 0xfb, 0xc7, 0x45, 0x36, 0xb9,
                                                   0xa9, 0x63, 0xb4, 0xf1, 0xc4, 0xcb, 0x73, 0x8b};
    static const uint8_t block[16 + TAG] = {0xce, 0xa7, 0x40, 0x3d, 0x4d, 0x60, 0x6b, 0x6e, 0x07, 0x4e, 0xc5,
                                            0xd3, 0xba, 0xf3, 0x9d, 0x18, 0xd0, 0xd1, 0xc8, 0xa7, 0x99, 0x99,
                                            0x6b, 0xf0, 0x26, 0x5b, 0x98, 0xb5, 0xd4, 0x8a, 0xb9, 0x19};
    uint8_t out[16 + TAG];
    skip_without_aes();
    struct gossip_aead_message message = {0, NULL, 0, zeros, 0, out};
    struct gossip_aead_key *key = gossip_aead_key_create(GOSSIP_AEAD_AESGCM, zeros);
    assert_non_null(key);
    gossip_aead_seal(key, &message);
    assert_memory_equal(out, empty, TAG);
    message.in_bytes = 16;
    gossip_aead_seal(key, &message);
    assert_memory_equal(out, block, sizeof block);
    gossip_aead_key_destroy(key);
    gossip_aead_key_destroy(NULL);
}

// Noise sections 12.3 and 12.4: the counter is in the last eight bytes, with a different byte order for each
// AEAD.
static void test_each_aead_has_its_own_nonce_layout(void **state)
{
    (void)state;
    static const uint8_t little[12] = {0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1};
    static const uint8_t big[12] = {0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
    static const uint8_t key[KEY] = {9}, plain[5] = "text";
    uint8_t made[sizeof plain + TAG], expected[sizeof plain + TAG];
    const struct gossip_aead_message message = {0x0102030405060708, "ad", 2, plain, sizeof plain, made};
    gossip_aead_seal_once(GOSSIP_AEAD_CHACHAPOLY, key, &message);
    crypto_aead_chacha20poly1305_ietf_encrypt(expected, NULL, plain, sizeof plain, (const uint8_t *)"ad", 2,
                                              NULL, little, key);
    assert_memory_equal(made, expected, sizeof made);
    skip_without_aes();
    gossip_aead_seal_once(GOSSIP_AEAD_AESGCM, key, &message);
    crypto_aead_aes256gcm_encrypt(expected, NULL, plain, sizeof plain, (const uint8_t *)"ad", 2, NULL, big,
                                  key);
    assert_memory_equal(made, expected, sizeof made);
}

struct twin { // a message, sealed by both implementations
    enum gossip_aead aead;
    uint8_t key[KEY], ad[70], plain[BYTES_MAX], once[BYTES_MAX + TAG], ready[BYTES_MAX + TAG];
    size_t ad_bytes, bytes;
    uint64_t nonce;
};

static void draw_message(struct twin *twin)
{
    static const size_t most[] = {20, 300, BYTES_MAX};
    twin->bytes = (size_t)base_rng_below(&rng, most[base_rng_below(&rng, 3)] + 1);
    twin->ad_bytes = (size_t)base_rng_below(&rng, sizeof twin->ad + 1);
    twin->nonce = base_rng_u64(&rng);
    fill(twin->key, sizeof twin->key);
    fill(twin->ad, sizeof twin->ad);
    fill(twin->plain, twin->bytes);
}

static struct gossip_aead_message message_of(struct twin *twin, const uint8_t *in, size_t bytes, uint8_t *out)
{
    return (struct gossip_aead_message){twin->nonce, twin->ad, twin->ad_bytes, in, bytes, out};
}

// Whichever library is behind a ready key, the bytes are those of libsodium, and each opens the other's, also
// in place.
static void check_twin(struct twin *twin, struct gossip_aead_key *key)
{
    struct gossip_aead_message message = message_of(twin, twin->plain, twin->bytes, twin->once);
    gossip_aead_seal_once(twin->aead, twin->key, &message);
    message.out = twin->ready;
    gossip_aead_seal(key, &message);
    assert_memory_equal(twin->once, twin->ready, twin->bytes + TAG);
    message = message_of(twin, twin->ready, twin->bytes + TAG, twin->ready);
    assert_int_equal(gossip_aead_open(key, &message), BASE_OK);
    assert_memory_equal(twin->ready, twin->plain, twin->bytes);
    message.in_bytes = twin->bytes;
    gossip_aead_seal(key, &message);
    message.in_bytes += TAG;
    assert_int_equal(gossip_aead_open_once(twin->aead, twin->key, &message), BASE_OK);
    assert_memory_equal(twin->ready, twin->plain, twin->bytes);
}

// With one bit of ciphertext, tag, associated data or nonce changed, opening is refused, nothing is written,
// and the key stays usable.
static void check_changes(struct twin *twin, struct gossip_aead_key *key)
{
    const size_t bit = (size_t)base_rng_below(&rng, 8 * (twin->bytes + TAG));
    struct gossip_aead_message message = message_of(twin, twin->once, twin->bytes + TAG, twin->ready);
    memcpy(twin->ready, twin->plain, twin->bytes);
    twin->once[bit / 8] ^= (uint8_t)(1u << bit % 8);
    assert_int_equal(gossip_aead_open(key, &message), BASE_EAUTH);
    assert_true(twin->bytes == 0 || sodium_is_zero(twin->ready, twin->bytes));
    twin->once[bit / 8] ^= (uint8_t)(1u << bit % 8);
    message.nonce++;
    assert_int_equal(gossip_aead_open(key, &message), BASE_EAUTH);
    message.nonce--;
    twin->ad[0] ^= 1;
    assert_int_equal(gossip_aead_open(key, &message), twin->ad_bytes > 0 ? BASE_EAUTH : BASE_OK);
    twin->ad[0] ^= 1;
    assert_int_equal(gossip_aead_open(key, &message), BASE_OK);
    assert_memory_equal(twin->ready, twin->plain, twin->bytes);
}

static void test_a_ready_key_gives_the_same_bytes(void **state)
{
    (void)state;
    static struct twin twin;
    for (unsigned aead = 0; aead < GOSSIP_AEADS; aead++) {
        twin.aead = (enum gossip_aead)aead;
        if (!(gossip_aead_offer() & GOSSIP_AEAD_BIT(aead)))
            continue;
        struct gossip_aead_key *key = gossip_aead_key_create(twin.aead, twin.key);
        assert_non_null(key);
        for (unsigned i = 0; i < 300; i++) {
            draw_message(&twin);
            gossip_aead_key_replace(key, twin.key);
            check_twin(&twin, key);
            check_changes(&twin, key);
        }
        gossip_aead_key_destroy(key);
    }
}

static void test_the_faster_of_two_aeads_is_chosen(void **state)
{
    (void)state;
    assert_int_equal(gossip_aead_choose(CHACHA, CHACHA), GOSSIP_AEAD_CHACHAPOLY);
    assert_int_equal(gossip_aead_choose(CHACHA | AES, CHACHA), GOSSIP_AEAD_CHACHAPOLY);
    assert_int_equal(gossip_aead_choose(CHACHA, CHACHA | AES), GOSSIP_AEAD_CHACHAPOLY);
    assert_int_equal(gossip_aead_choose(CHACHA | AES, CHACHA | AES), GOSSIP_AEAD_AESGCM);
    assert_int_equal(gossip_aead_choose(CHACHA | AES, UINT8_MAX), GOSSIP_AEAD_AESGCM);
    assert_int_equal(gossip_aead_choose((uint8_t)~AES, UINT8_MAX), GOSSIP_AEAD_CHACHAPOLY);
    assert_true(gossip_aead_offer() & CHACHA);
}

// -- two ends

struct pair {
    struct gossip_session *side[2]; // initiator, responder
    struct base_buffer out[2];
};

static const struct gossip_secrets no_secret = {.count = 1};

static struct pair new_pair(uint8_t initiators, uint8_t responders)
{
    struct pair pair = {0};
    for (unsigned i = 0; i < 2; i++) {
        struct gossip_session_options options = {.initiator = i == 0,
                                                 .identity = &identity[i],
                                                 .secrets = &no_secret,
                                                 .cluster = "herd",
                                                 .message_limit = 100,
                                                 .aeads = i == 0 ? initiators : responders};
        fill(options.entropy, sizeof options.entropy);
        assert_int_equal(gossip_session_create(&options, &pair.side[i]), BASE_OK);
    }
    assert_int_equal(gossip_session_start(pair.side[0], &pair.out[0]), BASE_OK);
    return pair;
}

static void pair_free(struct pair *pair)
{
    for (unsigned i = 0; i < 2; i++) {
        gossip_session_destroy(pair->side[i]);
        base_buffer_free(&pair->out[i]);
    }
}

// Delivers message `number` of the handshake to its receiver.
static enum base_error deliver(struct pair *pair, unsigned number)
{
    struct gossip_session_event event;
    struct base_buffer *in = &pair->out[number % 2];
    size_t consumed = 0;
    enum base_error error =
        gossip_session_receive(pair->side[1 - number % 2], base_buffer_head(in), base_buffer_length(in),
                               &consumed, &pair->out[1 - number % 2], &event);
    base_buffer_consume(in, consumed);
    return error;
}

static void expect_agreement(uint8_t initiators, uint8_t responders, enum gossip_aead expected)
{
    struct pair pair = new_pair(initiators, responders);
    for (unsigned number = 0; number < 3; number++)
        assert_int_equal(deliver(&pair, number), BASE_OK);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(gossip_session_aead(pair.side[i]), expected);
    for (unsigned i = 0; i < 2; i++) {
        struct gossip_sealer *sealer[2];
        struct gossip_opener *opener[2];
        const struct gossip_session_part part = {"hello", 5};
        struct gossip_opened message = {0};
        uint8_t record[5 + GOSSIP_RECORD_OVERHEAD];
        size_t consumed = 0;
        if (i == 0)
            for (unsigned k = 0; k < 2; k++)
                assert_int_equal(gossip_session_split(pair.side[k], &sealer[k], &opener[k]), BASE_OK);
        assert_int_equal(gossip_sealer_prompt(sealer[i], &part, 1, record), sizeof record);
        assert_int_equal(gossip_opener_take(opener[1 - i], record, sizeof record, &consumed, &message),
                         BASE_OK);
        assert_int_equal(message.count, 5);
        assert_memory_equal(message.bytes, "hello", 5);
        free(message.bytes);
        gossip_sealer_destroy(sealer[i]);
        gossip_opener_destroy(opener[1 - i]);
    }
    pair_free(&pair);
}

static void test_two_ends_agree_on_an_aead(void **state)
{
    (void)state;
    const enum gossip_aead best = gossip_aead_choose(UINT8_MAX, gossip_aead_offer());
    expect_agreement(CHACHA, CHACHA, GOSSIP_AEAD_CHACHAPOLY);
    expect_agreement(CHACHA, 0, GOSSIP_AEAD_CHACHAPOLY);
    expect_agreement(0, CHACHA, GOSSIP_AEAD_CHACHAPOLY);
    expect_agreement(0, 0, best);
    expect_agreement(CHACHA | AES, 0, best);
}

// The offer is the last byte before the tag, and the cipher is a stream cipher: an attacker who flips this
// bit on the way flips the bit of AESGCM.
static void test_a_changed_offer_is_refused(void **state)
{
    (void)state;
    for (unsigned number = 1; number < 3; number++) {
        struct pair pair = new_pair(0, 0);
        for (unsigned before = 0; before < number; before++)
            assert_int_equal(deliver(&pair, before), BASE_OK);
        struct base_buffer *said = &pair.out[number % 2];
        said->data[said->start + base_buffer_length(said) - TAG - 1] ^= AES;
        assert_int_equal(deliver(&pair, number), BASE_EAUTH);
        assert_false(gossip_session_established(pair.side[1 - number % 2]));
        assert_int_equal(base_buffer_length(&pair.out[1 - number % 2]), 0);
        pair_free(&pair);
    }
}

static void test_an_offer_without_chachapoly_is_refused(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct pair pair = new_pair(i == 0 ? 0 : AES, i == 0 ? AES : 0);
        for (unsigned number = 0; number <= i; number++)
            assert_int_equal(deliver(&pair, number), BASE_OK);
        assert_int_equal(deliver(&pair, i + 1), BASE_EFORMAT);
        pair_free(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers_of_aes_gcm),
        cmocka_unit_test(test_each_aead_has_its_own_nonce_layout),
        cmocka_unit_test(test_a_ready_key_gives_the_same_bytes),
        cmocka_unit_test(test_the_faster_of_two_aeads_is_chosen),
        cmocka_unit_test(test_two_ends_agree_on_an_aead),
        cmocka_unit_test(test_a_changed_offer_is_refused),
        cmocka_unit_test(test_an_offer_without_chachapoly_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
