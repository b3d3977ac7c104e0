// Sealed datagrams: round trips, the layout, and what a stranger, a member or the network may do to them.
#include "test_gossip_datagrams.h"

static void test_datagrams_of_every_size_survive_a_round_trip(void **state)
{
    (void)state;
    struct gossip_datagrams *alice = node(ALICE, 4, BOB, 9), *bob = node(BOB, 9, ALICE, 4);
    for (size_t bytes = 0; bytes <= PLAIN_MAX; bytes++) {
        const struct datagram there = datagram_from(alice, BOB, bytes),
                              back = datagram_from(bob, ALICE, bytes);
        assert_opens(bob, &there, ALICE);
        assert_opens(alice, &back, BOB);
    }
    gossip_datagrams_destroy(alice);
    gossip_datagrams_destroy(bob);
    gossip_datagrams_destroy(NULL);
}

static void test_seal_reports_what_it_cannot_seal(void **state)
{
    (void)state;
    struct gossip_datagrams *alice = node(ALICE, 1, BOB, 1), *bob = node(BOB, 1, ALICE, 1);
    static const uint8_t plain[PLAIN_MAX + 1];
    uint8_t sealed[LIMIT_DATAGRAM_BYTES] = {0};
    size_t bytes = 77;
    assert_int_equal(gossip_datagram_seal(alice, &identity[BOB].id, 0, plain, PLAIN_MAX + 1, sealed, &bytes),
                     BASE_ELIMIT);
    assert_int_equal(gossip_datagram_seal(alice, &identity[BOB].id, 0, plain, SIZE_MAX, sealed, &bytes),
                     BASE_ELIMIT);
    assert_int_equal(gossip_datagram_seal(alice, &identity[MALLORY].id, 0, plain, 1, sealed, &bytes),
                     BASE_ENOTFOUND);
    assert_int_equal(bytes, 77);
    assert_true(sodium_is_zero(sealed, sizeof sealed));
    const struct datagram empty = datagram_from(alice, BOB, 0);
    assert_opens(bob, &empty, ALICE);
    gossip_datagrams_destroy(alice);
    gossip_datagrams_destroy(bob);
}

// Made by another implementation (Python's hashlib and cryptography, HChaCha20 from its specification).
// It changes only with the format of datagrams, whose number is hashed.
static void test_a_datagram_matches_another_implementation(void **state)
{
    (void)state;
    static const char expected[] =
        "00430bb5191a197c08070605040302010100000000000000e0e1e2e3e4e5e6e739f0604ba843c57bfb21f5c286c9e7bb"
        "18843b777b31e7959c05cdf508";
    static const char said[] = "who is alive?";
    struct gossip_secrets secrets = {.count = 1};
    struct gossip_datagrams_options options = {
        .secrets = &secrets,
        .cluster = "herd",
        .generation = 0x0102030405060708,
        .entropy = {0xe0, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7},
    };
    struct gossip_identity alice, bob;
    struct gossip_datagrams *datagrams = NULL;
    uint8_t seed[32], sealed[LIMIT_DATAGRAM_BYTES];
    char hex[2 * LIMIT_DATAGRAM_BYTES + 1];
    size_t bytes = 0;
    gossip_identity_from_seed(memset(seed, 1, sizeof seed), &alice);
    gossip_identity_from_seed(memset(seed, 2, sizeof seed), &bob);
    memset(secrets.psk[0], 7, sizeof secrets.psk[0]);
    options.identity = &alice;
    assert_int_equal(gossip_datagrams_create(&options, &datagrams), BASE_OK);
    assert_int_equal(gossip_datagrams_peer(datagrams, &bob.id, bob.exchange_public, 9), BASE_OK);
    for (unsigned i = 0; i < 2; i++) // the second: counter 1
        assert_int_equal(
            gossip_datagram_seal(datagrams, &bob.id, 0, (const uint8_t *)said, strlen(said), sealed, &bytes),
            BASE_OK);
    assert_string_equal(sodium_bin2hex(hex, sizeof hex, sealed, bytes), expected);
    gossip_datagrams_destroy(datagrams);
}

static void test_a_handmade_datagram_opens(void **state)
{
    (void)state;
    struct gossip_datagrams *bob = node(BOB, 1, ALICE, 1);
    const struct forgery genuine = alice_to_bob();
    const struct datagram datagram = forge(&genuine, 80);
    assert_opens(bob, &datagram, ALICE);
    gossip_datagrams_destroy(bob);
}

static void test_every_change_is_refused(void **state)
{
    (void)state;
    static const uint8_t changes[] = {0x01, 0x80, 0xff};
    struct gossip_datagrams *alice = node(ALICE, 3, BOB, 1), *bob = node(BOB, 1, ALICE, 3);
    const struct datagram first = datagram_from(alice, BOB, 40), datagram = datagram_from(alice, BOB, 80);
    for (size_t i = 0; i < datagram.sealed_bytes; i++)
        for (size_t k = 0; k < LENGTH_OF(changes); k++) {
            struct datagram changed = datagram;
            changed.sealed[i] ^= changes[k];
            const enum base_error error = open_datagram(bob, &changed, ALICE);
            assert_true(error == BASE_EAUTH || error == BASE_ENOTFOUND || error == BASE_ESTATE);
            assert_true(i >= 8 || error == BASE_ENOTFOUND);
        }
    assert_opens(bob, &datagram, ALICE); // no change has moved the window or the generation
    assert_opens(bob, &first, ALICE);
    gossip_datagrams_destroy(alice);
    gossip_datagrams_destroy(bob);
}

static void test_a_truncated_or_lengthened_datagram_is_refused(void **state)
{
    (void)state;
    struct gossip_datagrams *alice = node(ALICE, 1, BOB, 1), *bob = node(BOB, 1, ALICE, 1);
    const struct datagram datagram = datagram_from(alice, BOB, 80),
                          largest = datagram_from(alice, BOB, PLAIN_MAX);
    for (size_t bytes = 0; bytes < datagram.sealed_bytes; bytes++) {
        struct datagram cut = datagram;
        cut.sealed_bytes = bytes;
        assert_int_equal(open_datagram(bob, &cut, ALICE), bytes < OVERHEAD ? BASE_EFORMAT : BASE_EAUTH);
    }
    for (size_t bytes = datagram.sealed_bytes + 1; bytes <= LIMIT_DATAGRAM_BYTES; bytes++) {
        struct datagram longer = datagram;
        longer.sealed_bytes = bytes;
        assert_int_equal(open_datagram(bob, &longer, ALICE), BASE_EAUTH);
    }
    struct datagram oversized = largest;
    oversized.sealed_bytes++;
    assert_int_equal(open_datagram(bob, &oversized, ALICE), BASE_EFORMAT);
    oversized.sealed_bytes = SIZE_MAX;
    assert_int_equal(open_datagram(bob, &oversized, ALICE), BASE_EFORMAT);
    assert_opens(bob, &largest, ALICE);
    assert_opens(bob, &datagram, ALICE);
    gossip_datagrams_destroy(alice);
    gossip_datagrams_destroy(bob);
}

// Mallory is a member: she has the secret, every id and every public key, and claims to be Alice.
static void test_a_member_cannot_seal_in_the_name_of_another(void **state)
{
    (void)state;
    struct gossip_datagrams *bob = node(BOB, 1, ALICE, 1);
    know(bob, MALLORY, 1);
    struct gossip_identity mask = identity[MALLORY];
    mask.id = identity[ALICE].id;
    struct forgery forgery = alice_to_bob();
    forgery.from = &mask;
    const struct datagram forged = forge(&forgery, 80);
    assert_int_equal(open_datagram(bob, &forged, ALICE), BASE_EAUTH);

    forgery.from = &identity[ALICE]; // what Alice really sent, under the tag of Mallory
    struct datagram moved = forge(&forgery, 80);
    forgery.from = &identity[MALLORY];
    const struct datagram own = forge(&forgery, 80);
    memcpy(moved.sealed, own.sealed, 8);
    assert_int_equal(open_datagram(bob, &moved, ALICE), BASE_EAUTH);
    assert_opens(bob, &own, MALLORY);
    gossip_datagrams_destroy(bob);
}

static void test_a_reflected_datagram_is_refused(void **state)
{
    (void)state;
    struct gossip_datagrams *alice = node(ALICE, 1, BOB, 1), *bob = node(BOB, 1, ALICE, 1);
    struct datagram there = datagram_from(alice, BOB, 80);
    const struct datagram back = datagram_from(bob, ALICE, 80);
    assert_int_equal(open_datagram(alice, &there, BOB), BASE_ENOTFOUND);
    memcpy(there.sealed, back.sealed, 8);
    assert_int_equal(open_datagram(alice, &there, BOB), BASE_EAUTH);
    assert_opens(alice, &back, BOB);
    gossip_datagrams_destroy(alice);
    gossip_datagrams_destroy(bob);
}

static void test_a_datagram_of_another_cluster_or_secret_is_refused(void **state)
{
    (void)state;
    uint8_t other_psk[32];
    memcpy(other_psk, PSK, sizeof other_psk);
    other_psk[31] ^= 1;
    struct gossip_datagrams *bob = node(BOB, 1, ALICE, 1);
    struct gossip_datagrams *strangers[] = {create(&identity[ALICE], PSK, "herds", 1),
                                            create(&identity[ALICE], PSK, "", 1),
                                            create(&identity[ALICE], other_psk, CLUSTER, 1)};
    struct gossip_datagrams *alice = node(ALICE, 1, BOB, 1);
    const struct datagram genuine = datagram_from(alice, BOB, 80);
    for (size_t i = 0; i < LENGTH_OF(strangers); i++) {
        know(strangers[i], BOB, 1);
        struct datagram datagram = datagram_from(strangers[i], BOB, 80);
        assert_int_equal(open_datagram(bob, &datagram, ALICE), BASE_ENOTFOUND);
        memcpy(datagram.sealed, genuine.sealed, 8); // a tag that she saw on the way
        assert_int_equal(open_datagram(bob, &datagram, ALICE), BASE_EAUTH);
        gossip_datagrams_destroy(strangers[i]);
    }
    assert_opens(bob, &genuine, ALICE);
    gossip_datagrams_destroy(alice);
    gossip_datagrams_destroy(bob);
}

static void numbered_id(struct gossip_id *id, uint64_t number)
{
    memset(id, 0, sizeof *id);
    memcpy(id->bytes, &number, sizeof number);
}

static void test_a_full_table_refuses_new_members(void **state)
{
    (void)state;
    struct gossip_datagrams *alice = create(&identity[ALICE], PSK, CLUSTER, 1);
    struct gossip_id id;
    for (uint64_t i = 0; i < LIMIT_MEMBERS; i++) {
        numbered_id(&id, i);
        assert_int_equal(gossip_datagrams_peer(alice, &id, identity[MALLORY].exchange_public, 1), BASE_OK);
    }
    const struct gossip_identity *bob = &identity[BOB];
    assert_int_equal(gossip_datagrams_peer(alice, &bob->id, bob->exchange_public, 1), BASE_ELIMIT);
    assert_int_equal(gossip_datagrams_peer(alice, &id, identity[MALLORY].exchange_public, 2), BASE_OK);
    for (uint64_t i = 0; i < LIMIT_MEMBERS; i += 2) {
        numbered_id(&id, i);
        gossip_datagrams_forget(alice, &id);
    }
    know(alice, BOB, 1);
    struct gossip_datagrams *other = node(BOB, 1, ALICE, 1);
    const struct datagram there = datagram_from(alice, BOB, 10), back = datagram_from(other, ALICE, 10);
    assert_opens(other, &there, ALICE);
    assert_opens(alice, &back, BOB);
    for (uint64_t i = 1; i < LIMIT_MEMBERS; i += 2) { // the remaining members are still found
        uint8_t sealed[LIMIT_DATAGRAM_BYTES];
        size_t bytes = 0;
        numbered_id(&id, i);
        if (i % 64 == 1)
            assert_int_equal(gossip_datagram_seal(alice, &id, 0, NULL, 0, sealed, &bytes), BASE_OK);
    }
    gossip_datagrams_destroy(alice);
    gossip_datagrams_destroy(other);
}

static void test_keys_of_small_order_are_refused(void **state)
{
    (void)state;
    static const char *const points[] = {
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    };
    struct gossip_datagrams *alice = create(&identity[ALICE], PSK, CLUSTER, 1);
    uint8_t sealed[LIMIT_DATAGRAM_BYTES], key[32], shared[32];
    size_t bytes = 0;
    for (size_t i = 0; i < 2 * LENGTH_OF(points); i++) {
        assert_int_equal(sodium_hex2bin(key, sizeof key, points[i / 2], 64, NULL, NULL, NULL), 0);
        key[31] |= (uint8_t)(i % 2 << 7); // the bit that X25519 ignores
        assert_true(crypto_scalarmult(shared, identity[ALICE].exchange_secret, key) != 0 ||
                    sodium_is_zero(shared, sizeof shared));
        assert_int_equal(gossip_datagrams_peer(alice, &identity[BOB].id, key, 1), BASE_EAUTH);
        assert_int_equal(gossip_datagram_seal(alice, &identity[BOB].id, 0, NULL, 0, sealed, &bytes),
                         BASE_ENOTFOUND);
    }
    for (unsigned i = 0; i < 50; i++) {
        fill(key, sizeof key);
        assert_int_equal(gossip_datagrams_peer(alice, &identity[BOB].id, key, 1), BASE_OK);
        assert_int_equal(gossip_datagram_seal(alice, &identity[BOB].id, 0, NULL, 0, sealed, &bytes), BASE_OK);
    }
    gossip_datagrams_destroy(alice);
}

static void test_the_own_id_is_not_a_peer(void **state)
{
    (void)state;
    struct gossip_datagrams *alice = create(&identity[ALICE], PSK, CLUSTER, 1);
    assert_int_equal(gossip_datagrams_peer(alice, &identity[ALICE].id, identity[ALICE].exchange_public, 1),
                     BASE_EINVAL);
    gossip_datagrams_destroy(alice);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_datagrams_of_every_size_survive_a_round_trip),
        cmocka_unit_test(test_seal_reports_what_it_cannot_seal),
        cmocka_unit_test(test_a_datagram_matches_another_implementation),
        cmocka_unit_test(test_a_handmade_datagram_opens),
        cmocka_unit_test(test_every_change_is_refused),
        cmocka_unit_test(test_a_truncated_or_lengthened_datagram_is_refused),
        cmocka_unit_test(test_a_member_cannot_seal_in_the_name_of_another),
        cmocka_unit_test(test_a_reflected_datagram_is_refused),
        cmocka_unit_test(test_a_datagram_of_another_cluster_or_secret_is_refused),
        cmocka_unit_test(test_a_full_table_refuses_new_members),
        cmocka_unit_test(test_keys_of_small_order_are_refused),
        cmocka_unit_test(test_the_own_id_is_not_a_peer),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
