// Noise_XXpsk0_25519_ChaChaPoly_BLAKE2b against published vectors, and against changed bytes.
#include "gossip/session/noise.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_OF(array) (sizeof(array) / sizeof(array)[0])

// The numbers are from vectors.txt of github.com/flynn/noise (commit 4d9f71cd), the entries of this protocol.
// That file has no handshake hashes. They are public functions of the psk and the messages above, and were
// computed for each entry with Python's hashlib and hmac: h = HASH(h || ...) over prologue, temp_h and the
// ciphertexts.
struct vector {
    const char *prologue;
    const char *payload[5], *message[5];
    const char *handshake_hash;
};
static const char *const PSK = "2176657279736563726574766572797365637265747665727973656372657421";
static const struct vector VECTORS[] = {
    {
        .prologue = "",
        .payload = {"", "", "", "79656c6c6f777375626d6172696e65", "7375626d6172696e6579656c6c6f77"},
        .message = {"358072d6365880d1aeea329adf9121383851ed21a28e3b75e965d0d2cd166254"
                    "e89ad728d1b3555e8affba774c455ecf",
                    "64b101b1d0be5a8704bd078f9895001fc03e8e9f9522f188dd128d9846d48466"
                    "def8302a4ce14b6d8679764f5605d198853b8968688d7432e591c0371dbd9c27"
                    "1e7509b3366c251d193c2b6173162f24bfb214c9912e36dbc2bebcd0c5a41310",
                    "7ae518aa6a3882fac6b6d6fcd88954cccf404ea1aa2a075d533916de39720ebb"
                    "d5a2fc7c5df275e6d9ac02a752f651f67f737345e8c1310db32861d8fb0233f9",
                    "fd0638db68611323934a1dc1c26175ddc9abfbf887629ce59b4303156bcaa1",
                    "3d9c9f74481ef29d381234288ecb1d26afa997692fff8407cbf6da726a5725"},
        .handshake_hash = "4519c3489cd7eda47d3054526b5756f6f5bcc2efd1d38f2ec50f55ef481e8660"
                          "f9d7b1ddd047e9be052b76cf3126c63d88d3440ca9af3b0f76fc59aa78f43fdf",
    },
    {
        .prologue = "6e6f74736563726574",
        .payload = {"746573745f6d73675f30", "746573745f6d73675f31", "746573745f6d73675f32",
                    "79656c6c6f777375626d6172696e65", "7375626d6172696e6579656c6c6f77"},
        .message = {"358072d6365880d1aeea329adf9121383851ed21a28e3b75e965d0d2cd166254"
                    "1fe2db7a97bbe9c0027b1f62071910cfd2266573bb14a7de4342",
                    "64b101b1d0be5a8704bd078f9895001fc03e8e9f9522f188dd128d9846d48466"
                    "def8302a4ce14b6d8679764f5605d198853b8968688d7432e591c0371dbd9c27"
                    "c0e397d4a328006c00af1dc428f95bc55c032641bc1cdaccd5aae41c3d70b1d3"
                    "9ac256cf6c07a7430831",
                    "7ae518aa6a3882fac6b6d6fcd88954cccf404ea1aa2a075d533916de39720ebb"
                    "1eaeb854d104e73a1406c7ff4ad6beed519efda7f74013ae060269ba43ed1a29"
                    "4c9c44cff50595ad1324",
                    "fd0638db68611323934a1dc1c26175ddc9abfbf887629ce59b4303156bcaa1",
                    "3d9c9f74481ef29d381234288ecb1d26afa997692fff8407cbf6da726a5725"},
        .handshake_hash = "b8454258d19a2e9a9d8e5ecfd1b60dbf5665e6858e55ab5300c4d19c078da252"
                          "00764b4845d0f3b944ab79316456951d1c71f55140c1246ea4d504e713680639",
    },
};

static unsigned hex_digit(char digit)
{
    return (unsigned)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

static size_t unhex(const char *hex, uint8_t *out)
{
    const size_t bytes = strlen(hex) / 2;
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(hex_digit(hex[2 * i]) << 4 | hex_digit(hex[2 * i + 1]));
    return bytes;
}

static void count_up(uint8_t first, uint8_t out[32])
{
    for (unsigned i = 0; i < 32; i++)
        out[i] = (uint8_t)(first + i);
}

static void public_of(const uint8_t secret[32], uint8_t public_key[32])
{
    // The handshake computes e = secret * base; nothing else here can.
    static const uint8_t zeros[32];
    struct gossip_noise_handshake handshake;
    const struct gossip_noise_options options = {.prologue = zeros,
                                                 .static_public = zeros,
                                                 .static_secret = zeros,
                                                 .ephemeral_secret = secret,
                                                 .psk = zeros};
    gossip_noise_begin(&handshake, &options);
    memcpy(public_key, handshake.e.public_key, 32);
}

// The keys of the vectors are bytes that count up: from 0 and 1 (static), from 0x20 and 0x41 (ephemeral).
static void begin(struct gossip_noise_handshake *handshake, bool initiator, const char *prologue,
                  const char *psk)
{
    uint8_t s[32], s_public[32], e[32], key[32], text[64];
    count_up(initiator ? 0x00 : 0x01, s);
    count_up(initiator ? 0x20 : 0x41, e);
    public_of(s, s_public);
    unhex(psk, key);
    const struct gossip_noise_options options = {.initiator = initiator,
                                                 .prologue = text,
                                                 .prologue_bytes = unhex(prologue, text),
                                                 .static_public = s_public,
                                                 .static_secret = s,
                                                 .ephemeral_secret = e,
                                                 .psk = key};
    gossip_noise_begin(handshake, &options);
}

static void check_transport(const struct vector *vector, unsigned number, struct gossip_noise_cipher *send,
                            struct gossip_noise_cipher *receive)
{
    uint8_t payload[64], expected[96], sealed[96], opened[64];
    const size_t bytes = unhex(vector->payload[number], payload);
    const size_t sealed_bytes = unhex(vector->message[number], expected);
    assert_int_equal(sealed_bytes, bytes + GOSSIP_NOISE_TAG_BYTES);
    gossip_noise_seal(send, NULL, 0, payload, bytes, sealed);
    assert_memory_equal(sealed, expected, sealed_bytes);
    assert_int_equal(gossip_noise_open(receive, NULL, 0, sealed, sealed_bytes, opened), BASE_OK);
    assert_memory_equal(opened, payload, bytes);
}

static void test_the_handshake_matches_the_published_vectors(void **state)
{
    (void)state;
    for (size_t v = 0; v < LENGTH_OF(VECTORS); v++) {
        const struct vector *vector = &VECTORS[v];
        struct gossip_noise_handshake side[2]; // initiator, responder
        struct gossip_noise_cipher send[2], receive[2];
        uint8_t payload[64], expected[256], message[256], opened[64], hash[GOSSIP_NOISE_HASH_BYTES];
        begin(&side[0], true, vector->prologue, PSK);
        begin(&side[1], false, vector->prologue, PSK);
        for (unsigned i = 0; i < 3; i++) {
            const size_t bytes = unhex(vector->payload[i], payload);
            const size_t message_bytes = unhex(vector->message[i], expected);
            assert_int_equal(gossip_noise_write(&side[i % 2], payload, bytes, message), BASE_OK);
            assert_memory_equal(message, expected, message_bytes);
            assert_int_equal(gossip_noise_read(&side[1 - i % 2], message, message_bytes, opened), BASE_OK);
            assert_memory_equal(opened, payload, bytes);
        }
        unhex(vector->handshake_hash, hash);
        assert_memory_equal(side[0].symmetric.hash, hash, sizeof hash);
        assert_memory_equal(side[1].symmetric.hash, hash, sizeof hash);
        assert_memory_equal(side[0].rs, side[1].s.public_key, 32);
        assert_memory_equal(side[1].rs, side[0].s.public_key, 32);
        gossip_noise_split(&side[0], GOSSIP_AEAD_CHACHAPOLY, &send[0], &receive[0]);
        gossip_noise_split(&side[1], GOSSIP_AEAD_CHACHAPOLY, &send[1], &receive[1]);
        check_transport(vector, 3, &send[0], &receive[1]);
        check_transport(vector, 4, &send[1], &receive[0]);
    }
}

static void test_split_wipes_the_handshake(void **state)
{
    (void)state;
    static const struct gossip_noise_handshake zero;
    struct gossip_noise_handshake side[2];
    struct gossip_noise_cipher send, receive;
    uint8_t message[256], payload[1];
    begin(&side[0], true, "", PSK);
    begin(&side[1], false, "", PSK);
    for (unsigned i = 0; i < 3; i++) {
        static const size_t bytes[] = {GOSSIP_NOISE_MESSAGE_0, GOSSIP_NOISE_MESSAGE_1,
                                       GOSSIP_NOISE_MESSAGE_2};
        assert_int_equal(gossip_noise_write(&side[i % 2], NULL, 0, message), BASE_OK);
        assert_int_equal(gossip_noise_read(&side[1 - i % 2], message, bytes[i], payload), BASE_OK);
    }
    gossip_noise_split(&side[0], GOSSIP_AEAD_CHACHAPOLY, &send, &receive);
    assert_memory_equal(&side[0], &zero, sizeof zero);
}

// Expected keys: the first 32 bytes of the second ChaCha20 block (counter 1) under nonce 2^64 - 1, by a
// ChaCha20 written from RFC 8439 in Python.
static void test_rekey_gives_the_key_of_the_specification(void **state)
{
    (void)state;
    struct gossip_noise_cipher cipher = {.nonce = 7};
    uint8_t expected[32];
    count_up(0, cipher.key);
    unhex("50835543a205b22c9323f2022bc4f67d838f90e61d5ccf33c4513e01f85b5042", expected);
    gossip_noise_rekey(&cipher);
    assert_memory_equal(cipher.key, expected, 32);
    unhex("30fe3726fa0f864af01d15663c77f95e490e30143788af57e90d56fb9aa71609", expected);
    gossip_noise_rekey(&cipher);
    assert_memory_equal(cipher.key, expected, 32);
    assert_int_equal(cipher.nonce, 7);
}

// Writes the messages before `number` to both sides, and message `number` to `message`.
static size_t advance(struct gossip_noise_handshake side[2], unsigned number, uint8_t *message)
{
    const struct vector *vector = &VECTORS[1];
    uint8_t opened[64], payload[64];
    size_t message_bytes = 0;
    begin(&side[0], true, vector->prologue, PSK);
    begin(&side[1], false, vector->prologue, PSK);
    for (unsigned i = 0; i <= number; i++) {
        const size_t bytes = unhex(vector->payload[i], payload);
        message_bytes = strlen(vector->message[i]) / 2;
        assert_int_equal(gossip_noise_write(&side[i % 2], payload, bytes, message), BASE_OK);
        if (i < number)
            assert_int_equal(gossip_noise_read(&side[1 - i % 2], message, message_bytes, opened), BASE_OK);
    }
    return message_bytes;
}

static void test_a_changed_message_is_refused(void **state)
{
    (void)state;
    for (unsigned number = 0; number < 3; number++) {
        struct gossip_noise_handshake side[2];
        uint8_t message[256], opened[256];
        const size_t bytes = advance(side, number, message);
        const struct gossip_noise_handshake before = side[1 - number % 2];
        for (size_t i = 0; i < bytes; i++) {
            struct gossip_noise_handshake reader = before;
            message[i] ^= 0x40;
            assert_int_equal(gossip_noise_read(&reader, message, bytes, opened), BASE_EAUTH);
            message[i] ^= 0x40;
        }
        for (size_t cut = 0; cut < bytes; cut++) {
            struct gossip_noise_handshake reader = before;
            assert_int_not_equal(gossip_noise_read(&reader, message, cut, opened), BASE_OK);
        }
        struct gossip_noise_handshake reader = before;
        assert_int_equal(gossip_noise_read(&reader, message, bytes, opened), BASE_OK);
    }
}

static void test_another_psk_or_prologue_fails_at_once(void **state)
{
    (void)state;
    struct gossip_noise_handshake initiator, responder;
    uint8_t message[64], opened[1];
    begin(&initiator, true, "00", PSK);
    assert_int_equal(gossip_noise_write(&initiator, NULL, 0, message), BASE_OK);
    begin(&responder, false, "01", PSK);
    assert_int_equal(gossip_noise_read(&responder, message, GOSSIP_NOISE_MESSAGE_0, opened), BASE_EAUTH);
    begin(&responder, false, "00", "0000000000000000000000000000000000000000000000000000000000000000");
    assert_int_equal(gossip_noise_read(&responder, message, GOSSIP_NOISE_MESSAGE_0, opened), BASE_EAUTH);
}

// A peer that knows the psk, but offers a key for which every Diffie-Hellman result is zero.
static void test_a_key_of_small_order_is_refused(void **state)
{
    (void)state;
    static const uint8_t zero_point[32], one_point[32] = {1};
    const uint8_t *const points[] = {zero_point, one_point};
    for (size_t i = 0; i < LENGTH_OF(points); i++) {
        struct gossip_noise_handshake initiator, responder;
        uint8_t message[256], opened[1];
        begin(&initiator, true, "", PSK);
        begin(&responder, false, "", PSK);
        memcpy(initiator.e.public_key, points[i], 32);
        assert_int_equal(gossip_noise_write(&initiator, NULL, 0, message), BASE_OK);
        assert_int_equal(gossip_noise_read(&responder, message, GOSSIP_NOISE_MESSAGE_0, opened), BASE_OK);
        assert_int_equal(gossip_noise_write(&responder, NULL, 0, message), BASE_EAUTH);
    }
}

static void test_open_refuses_changes(void **state)
{
    (void)state;
    struct gossip_noise_cipher send = {.nonce = 5}, receive = {.nonce = 5};
    uint8_t plain[20] = "twenty bytes of it!", sealed[36], opened[20];
    count_up(9, send.key);
    count_up(9, receive.key);
    gossip_noise_seal(&send, "ad", 2, plain, sizeof plain, sealed);
    for (size_t i = 0; i < sizeof sealed; i++) {
        sealed[i] ^= 1;
        assert_int_equal(gossip_noise_open(&receive, "ad", 2, sealed, sizeof sealed, opened), BASE_EAUTH);
        sealed[i] ^= 1;
    }
    assert_int_equal(gossip_noise_open(&receive, "da", 2, sealed, sizeof sealed, opened), BASE_EAUTH);
    assert_int_equal(gossip_noise_open(&receive, "ad", 2, sealed, 15, opened), BASE_EAUTH);
    assert_int_equal(gossip_noise_open(&receive, "ad", 2, sealed, sizeof sealed, opened), BASE_OK);
    assert_memory_equal(opened, plain, sizeof plain);
    assert_int_equal(gossip_noise_open(&receive, "ad", 2, sealed, sizeof sealed, opened),
                     BASE_EAUTH); // replayed
}

// One handshake, both AEADs: the keys of one reveal nothing about those of the other.
static void test_each_aead_has_its_own_keys(void **state)
{
    (void)state;
    struct gossip_noise_handshake side[2];
    struct gossip_noise_cipher send[GOSSIP_AEADS], receive[GOSSIP_AEADS];
    uint8_t message[256];
    advance(side, 2, message); // the initiator's last
    for (unsigned aead = 0; aead < GOSSIP_AEADS; aead++) {
        struct gossip_noise_handshake copy = side[0];
        gossip_noise_split(&copy, (enum gossip_aead)aead, &send[aead], &receive[aead]);
        assert_int_equal(send[aead].aead, aead);
        assert_memory_not_equal(send[aead].key, receive[aead].key, GOSSIP_NOISE_KEY_BYTES);
        for (unsigned i = 0; i < aead; i++) {
            assert_memory_not_equal(send[aead].key, send[i].key, GOSSIP_NOISE_KEY_BYTES);
            assert_memory_not_equal(receive[aead].key, receive[i].key, GOSSIP_NOISE_KEY_BYTES);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_handshake_matches_the_published_vectors),
        cmocka_unit_test(test_split_wipes_the_handshake),
        cmocka_unit_test(test_rekey_gives_the_key_of_the_specification),
        cmocka_unit_test(test_a_changed_message_is_refused),
        cmocka_unit_test(test_another_psk_or_prologue_fails_at_once),
        cmocka_unit_test(test_a_key_of_small_order_is_refused),
        cmocka_unit_test(test_each_aead_has_its_own_keys),
        cmocka_unit_test(test_open_refuses_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
