// The AEADs that a session may seal with, by their names in the Noise Protocol Framework (sections 12.3 and
// 12.4). A handshake always uses ChaChaPoly. Its two ends tell each other which others they have, and the
// records after it are sealed with the fastest that both have. To add an AEAD with 32-byte keys and 16-byte
// tags, add a value here.
//
// Each has two implementations that give the same bytes: single calls of libsodium, and calls with a prepared
// key, of OpenSSL's libcrypto if the build has it, otherwise of libsodium. Any thread; a prepared key has one
// owner. libsodium must have been initialised.
#ifndef GOSSIP_SESSION_AEAD_H
#define GOSSIP_SESSION_AEAD_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

#define GOSSIP_AEAD_KEY_BYTES 32
#define GOSSIP_AEAD_TAG_BYTES 16

enum gossip_aead { // slower ones first
    GOSSIP_AEAD_CHACHAPOLY,
    GOSSIP_AEAD_AESGCM, // AES-256-GCM
    GOSSIP_AEADS
};

#define GOSSIP_AEAD_BIT(aead) ((uint8_t)(1u << (aead)))

// The AEADs that this machine offers, one bit each: always ChaChaPoly, and AESGCM if the processor has
// instructions for it.
uint8_t gossip_aead_offer(void);
// The fastest AEAD in both offers, the same at both ends; ChaChaPoly if they share no other. Unknown bits are
// ignored.
enum gossip_aead gossip_aead_choose(uint8_t one, uint8_t other);
const char *gossip_aead_name(enum gossip_aead aead); // "ChaChaPoly", "AESGCM"

struct gossip_aead_message {
    uint64_t nonce; // never twice under one key
    const void *ad;
    size_t ad_bytes;
    const uint8_t *in; // plaintext, or ciphertext and tag
    size_t in_bytes;
    uint8_t *out; // may be `in`; room for in_bytes and a tag, or for in_bytes without one
};

void gossip_aead_seal_once(enum gossip_aead aead, const uint8_t key[GOSSIP_AEAD_KEY_BYTES],
                           const struct gossip_aead_message *message);
// BASE_EAUTH: the tag does not match. in_bytes must be at least the length of a tag.
enum base_error gossip_aead_open_once(enum gossip_aead aead, const uint8_t key[GOSSIP_AEAD_KEY_BYTES],
                                      const struct gossip_aead_message *message) BASE_CHECK;

struct gossip_aead_key; // a prepared key

// NULL: no memory.
struct gossip_aead_key *gossip_aead_key_create(enum gossip_aead aead,
                                               const uint8_t key[GOSSIP_AEAD_KEY_BYTES]);
void gossip_aead_key_destroy(struct gossip_aead_key *key); // wipes it; NULL is allowed
void gossip_aead_key_replace(struct gossip_aead_key *key, const uint8_t bytes[GOSSIP_AEAD_KEY_BYTES]);
void gossip_aead_seal(struct gossip_aead_key *key, const struct gossip_aead_message *message);
enum base_error gossip_aead_open(struct gossip_aead_key *key,
                                 const struct gossip_aead_message *message) BASE_CHECK; // as open_once

#endif
