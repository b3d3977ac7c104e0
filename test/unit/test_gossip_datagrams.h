// What the tests of sealed datagrams share: three people with keys, datagrams between them, and the layout
// built a second time by hand.
#ifndef TEST_UNIT_GOSSIP_DATAGRAMS_H
#define TEST_UNIT_GOSSIP_DATAGRAMS_H

#include "base/cursor.h"
#include "base/limits.h"
#include "base/rng.h"
#include "gossip/session/datagram.h"
#include "gossip/wire/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_OF(array) (sizeof(array) / sizeof(array)[0])
#define OVERHEAD         LIMIT_DATAGRAM_OVERHEAD
#define PLAIN_MAX        (LIMIT_DATAGRAM_BYTES - OVERHEAD)
#define HEAD_BYTES       32u // tag of the pair and nonce
#define WINDOW           256u
#define CLUSTER          "herd"

enum { ALICE, BOB, MALLORY, PEOPLE };

static struct base_rng rng;
static struct gossip_identity identity[PEOPLE];
static const uint8_t PSK[32] = "a secret of the test's own, 32 b";

static inline void fill(void *data, size_t bytes)
{
    uint8_t *at = data;
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)base_rng_u64(&rng);
}

static inline int setup(void **state)
{
    (void)state;
    const char *given = getenv("P2PML_SEED");
    const uint64_t seed = given ? strtoull(given, NULL, 0) : 20240611;
    printf("seed %llu (P2PML_SEED sets another)\n", (unsigned long long)seed);
    base_rng_seed(&rng, seed);
    for (size_t i = 0; i < PEOPLE; i++) {
        uint8_t secret[32];
        fill(secret, sizeof secret);
        gossip_identity_from_seed(secret, &identity[i]);
    }
    return 0;
}

static inline struct gossip_datagrams *create(const struct gossip_identity *self, const uint8_t psk[32],
                                              const char *cluster, uint64_t generation)
{
    struct gossip_datagrams *made = NULL;
    struct gossip_secrets secrets = {.count = 1};
    memcpy(secrets.psk[0], psk, 32);
    struct gossip_datagrams_options options = {
        .identity = self, .secrets = &secrets, .cluster = cluster, .generation = generation};
    fill(options.entropy, sizeof options.entropy);
    assert_int_equal(gossip_datagrams_create(&options, &made), BASE_OK);
    return made;
}

static inline void know(struct gossip_datagrams *datagrams, unsigned who, uint64_t generation)
{
    assert_int_equal(
        gossip_datagrams_peer(datagrams, &identity[who].id, identity[who].exchange_public, generation),
        BASE_OK);
}

static inline struct gossip_datagrams *node(unsigned self, uint64_t generation, unsigned other,
                                            uint64_t other_generation)
{
    struct gossip_datagrams *made = create(&identity[self], PSK, CLUSTER, generation);
    know(made, other, other_generation);
    return made;
}

// One datagram and its contents.
struct datagram {
    uint8_t sealed[LIMIT_DATAGRAM_BYTES + 1], plain[LIMIT_DATAGRAM_BYTES];
    size_t sealed_bytes, plain_bytes;
};

static inline struct datagram datagram_from(struct gossip_datagrams *from, unsigned to, size_t plain_bytes)
{
    struct datagram datagram = {.plain_bytes = plain_bytes};
    fill(datagram.plain, plain_bytes);
    assert_int_equal(gossip_datagram_seal(from, &identity[to].id, 0, datagram.plain, plain_bytes,
                                          datagram.sealed, &datagram.sealed_bytes),
                     BASE_OK);
    assert_int_equal(datagram.sealed_bytes, plain_bytes + OVERHEAD);
    return datagram;
}

// Opens it; if it is refused, the outputs must be unchanged.
static inline enum base_error open_datagram(struct gossip_datagrams *to, const struct datagram *datagram,
                                            unsigned from)
{
    uint8_t plain[LIMIT_DATAGRAM_BYTES];
    struct gossip_id peer;
    size_t bytes = 12345;
    memset(plain, 0x5a, sizeof plain);
    memset(&peer, 0x5a, sizeof peer);
    const enum base_error error =
        gossip_datagram_open(to, datagram->sealed, datagram->sealed_bytes, plain, &bytes, &peer);
    if (!error) {
        assert_int_equal(bytes, datagram->plain_bytes);
        assert_memory_equal(plain, datagram->plain, bytes);
        assert_memory_equal(&peer, &identity[from].id, sizeof peer);
        return error;
    }
    assert_int_equal(bytes, 12345);
    for (size_t i = 0; i < sizeof plain; i++)
        assert_int_equal(plain[i], 0x5a);
    for (size_t i = 0; i < sizeof peer.bytes; i++)
        assert_int_equal(peer.bytes[i], 0x5a);
    return error;
}

static inline void assert_opens(struct gossip_datagrams *to, const struct datagram *datagram, unsigned from)
{
    assert_int_equal(open_datagram(to, datagram, from), BASE_OK);
}

// The layout by hand, from libsodium and gossip/README.md; the test chooses the keys.
struct forgery {
    const struct gossip_identity *from, *to; // of `from` the id and the exchange secret, of `to` the public
    const uint8_t *psk;
    const char *cluster;
    uint64_t generation, counter, receiver_generation;
    uint8_t entropy[8];
};

static inline size_t pair_text(const struct forgery *forgery, const char *label, const uint8_t *shared,
                               uint8_t out[256])
{
    struct base_writer writer = base_writer_of(out, 256);
    base_write_bytes(&writer, label, strlen(label) + 1);
    if (shared)
        base_write_bytes(&writer, shared, 32);
    base_write_bytes(&writer, forgery->from->id.bytes, 32);
    base_write_bytes(&writer, forgery->to->id.bytes, 32);
    base_write_u32(&writer, 1); // the format of datagrams
    base_write_bytes(&writer, forgery->cluster, strlen(forgery->cluster));
    assert_false(writer.failed);
    return base_writer_used(&writer);
}

static inline struct datagram forge(const struct forgery *forgery, size_t plain_bytes)
{
    struct datagram datagram = {.plain_bytes = plain_bytes, .sealed_bytes = plain_bytes + OVERHEAD};
    uint8_t text[256], shared[32], hash[32], key[32], bound[16];
    fill(datagram.plain, plain_bytes);
    crypto_generichash(hash, 32, text, pair_text(forgery, "p2pml datagram tag", NULL, text), forgery->psk,
                       32);
    assert_int_equal(crypto_scalarmult(shared, forgery->from->exchange_secret, forgery->to->exchange_public),
                     0);
    crypto_generichash(key, 32, text, pair_text(forgery, "p2pml datagram", shared, text), forgery->psk, 32);
    struct base_writer head = base_writer_of(datagram.sealed, HEAD_BYTES);
    base_write_bytes(&head, hash, 8);
    base_write_u64(&head, forgery->generation);
    base_write_u64(&head, forgery->counter);
    base_write_bytes(&head, forgery->entropy, 8);
    struct base_writer behind = base_writer_of(bound, sizeof bound);
    base_write_bytes(&behind, hash, 8);
    base_write_u64(&behind, forgery->receiver_generation);
    crypto_aead_xchacha20poly1305_ietf_encrypt(datagram.sealed + HEAD_BYTES, NULL, datagram.plain,
                                               plain_bytes, bound, sizeof bound, NULL, datagram.sealed + 8,
                                               key);
    return datagram;
}

static inline struct forgery alice_to_bob(void)
{
    return (struct forgery){.from = &identity[ALICE],
                            .to = &identity[BOB],
                            .psk = PSK,
                            .cluster = CLUSTER,
                            .generation = 1,
                            .receiver_generation = 1};
}

#endif
