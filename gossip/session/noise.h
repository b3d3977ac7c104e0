// Noise_XXpsk0_25519_ChaChaPoly_BLAKE2b: the handshake and ciphers of the Noise Protocol Framework, revision
// 34, for this one pattern; the transport ciphers may use another AEAD. Names follow the specification
// (sections 5.1 to 5.3), so that the two can be read side by side.
//
//     XXpsk0:   -> psk, e
//               <- e, ee, s, es
//               -> s, se
//
// Plain structs without allocated memory; the owner wipes them. No source of randomness. Any thread, one
// owner. libsodium must have been initialised (gossip_session_create and gossip_identity_from_seed do so).
#ifndef GOSSIP_SESSION_NOISE_H
#define GOSSIP_SESSION_NOISE_H

#include "base/error.h"
#include "gossip/session/aead.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GOSSIP_NOISE_KEY_BYTES  32 // DHLEN, and the length of a cipher key and a psk
#define GOSSIP_NOISE_HASH_BYTES 64 // HASHLEN
#define GOSSIP_NOISE_TAG_BYTES  GOSSIP_AEAD_TAG_BYTES

// Bytes of the handshake messages 0, 1, 2 without their payloads: e and a tag; e, a sealed s and a tag; a
// sealed s and a tag.
#define GOSSIP_NOISE_MESSAGE_0 48
#define GOSSIP_NOISE_MESSAGE_1 96
#define GOSSIP_NOISE_MESSAGE_2 64

struct gossip_noise_cipher { // CipherState; always keyed, because psk0 mixes a key before anything is
                             // encrypted
    enum gossip_aead aead;
    uint8_t key[GOSSIP_NOISE_KEY_BYTES];
    uint64_t nonce;
};

struct gossip_noise_symmetric { // SymmetricState
    struct gossip_noise_cipher cipher;
    uint8_t chaining_key[GOSSIP_NOISE_HASH_BYTES];
    uint8_t hash[GOSSIP_NOISE_HASH_BYTES];
};

struct gossip_noise_keypair {
    uint8_t public_key[GOSSIP_NOISE_KEY_BYTES], secret_key[GOSSIP_NOISE_KEY_BYTES];
};

struct gossip_noise_handshake { // HandshakeState
    struct gossip_noise_symmetric symmetric;
    struct gossip_noise_keypair s, e;
    uint8_t rs[GOSSIP_NOISE_KEY_BYTES], re[GOSSIP_NOISE_KEY_BYTES];
    uint8_t psk[GOSSIP_NOISE_KEY_BYTES];
    bool initiator;
    unsigned next; // message to be written or read: 0, 1, 2; 3 when complete
};

struct gossip_noise_options {
    bool initiator;
    const void *prologue;
    size_t prologue_bytes;
    const uint8_t *static_public, *static_secret; // [32]
    const uint8_t *ephemeral_secret;              // [32], fresh for every handshake
    const uint8_t *psk;                           // [32]
};

// Initialize(). Copies everything.
void gossip_noise_begin(struct gossip_noise_handshake *handshake, const struct gossip_noise_options *options);

// WriteMessage(): writes the next handshake message, which must be this end's; `message` has room for
// GOSSIP_NOISE_MESSAGE_n + payload_bytes. BASE_EAUTH: the peer's key is of small order. After an error the
// handshake is unusable.
enum base_error gossip_noise_write(struct gossip_noise_handshake *handshake, const uint8_t *payload,
                                   size_t payload_bytes, uint8_t *message) BASE_CHECK;

// ReadMessage(): `payload` has room for message_bytes - GOSSIP_NOISE_MESSAGE_n bytes. BASE_EFORMAT: the
// message is shorter than that. BASE_EAUTH: the sender lacks the psk, or the message was modified. After an
// error the handshake is unusable.
enum base_error gossip_noise_read(struct gossip_noise_handshake *handshake, const uint8_t *message,
                                  size_t message_bytes, uint8_t *payload) BASE_CHECK;

// Split(): makes the two transport ciphers, after the third message. If their AEAD differs from that of the
// handshake, the Noise name with the other AEAD is hashed into their keys, so that no key is used with two
// AEADs. Wipes the handshake.
void gossip_noise_split(struct gossip_noise_handshake *handshake, enum gossip_aead aead,
                        struct gossip_noise_cipher *send, struct gossip_noise_cipher *receive);

// EncryptWithAd(): writes bytes + GOSSIP_NOISE_TAG_BYTES to `sealed`, which may be `plain`.
void gossip_noise_seal(struct gossip_noise_cipher *cipher, const void *ad, size_t ad_bytes,
                       const uint8_t *plain, size_t bytes, uint8_t *sealed);
// DecryptWithAd(): writes sealed_bytes - GOSSIP_NOISE_TAG_BYTES to `plain`. BASE_EAUTH: the tag does not
// match; the nonce is then unchanged.
enum base_error gossip_noise_open(struct gossip_noise_cipher *cipher, const void *ad, size_t ad_bytes,
                                  const uint8_t *sealed, size_t sealed_bytes, uint8_t *plain) BASE_CHECK;
// Rekey(): a one-way step to the next key; the nonce continues.
void gossip_noise_rekey(struct gossip_noise_cipher *cipher);

#endif
