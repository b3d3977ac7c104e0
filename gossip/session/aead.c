#include "gossip/session/aead.h"
#ifdef P2PML_OPENSSL
#include <openssl/evp.h>
#endif
#include <limits.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define KEY         GOSSIP_AEAD_KEY_BYTES
#define TAG         GOSSIP_AEAD_TAG_BYTES
#define NONCE_BYTES 12

_Static_assert(crypto_aead_chacha20poly1305_ietf_KEYBYTES == KEY && crypto_aead_aes256gcm_KEYBYTES == KEY,
               "keys");
_Static_assert(crypto_aead_chacha20poly1305_ietf_ABYTES == TAG && crypto_aead_aes256gcm_ABYTES == TAG,
               "tags");
_Static_assert(crypto_aead_chacha20poly1305_ietf_NPUBBYTES == NONCE_BYTES, "nonces");
_Static_assert(crypto_aead_aes256gcm_NPUBBYTES == NONCE_BYTES, "nonces");

uint8_t gossip_aead_offer(void)
{
    BASE_ASSERT(sodium_init() >= 0); // detects the processor; further calls do nothing
    uint8_t offer = GOSSIP_AEAD_BIT(GOSSIP_AEAD_CHACHAPOLY);
    if (crypto_aead_aes256gcm_is_available())
        offer |= GOSSIP_AEAD_BIT(GOSSIP_AEAD_AESGCM);
    return offer;
}

enum gossip_aead gossip_aead_choose(uint8_t one, uint8_t other)
{
    unsigned best = GOSSIP_AEADS - 1;
    while (best > GOSSIP_AEAD_CHACHAPOLY && !(one & other & GOSSIP_AEAD_BIT(best)))
        best--;
    return (enum gossip_aead)best;
}

const char *gossip_aead_name(enum gossip_aead aead)
{
    static const char *const names[GOSSIP_AEADS] = {"ChaChaPoly", "AESGCM"};
    BASE_ASSERT(aead < GOSSIP_AEADS);
    return names[aead];
}

// 32 bits of zeros, then the counter: little-endian for ChaChaPoly, big-endian for AESGCM.
static void encode_nonce(enum gossip_aead aead, uint64_t counter, uint8_t nonce[NONCE_BYTES])
{
    memset(nonce, 0, NONCE_BYTES);
    for (unsigned i = 0; i < 8; i++)
        nonce[aead == GOSSIP_AEAD_AESGCM ? 11 - i : 4 + i] = (uint8_t)(counter >> 8 * i);
}

// -- libsodium

void gossip_aead_seal_once(enum gossip_aead aead, const uint8_t key[KEY], const struct gossip_aead_message *m)
{
    uint8_t nonce[NONCE_BYTES];
    encode_nonce(aead, m->nonce, nonce);
    if (aead == GOSSIP_AEAD_AESGCM)
        BASE_ASSERT(crypto_aead_aes256gcm_encrypt(m->out, NULL, m->in, m->in_bytes, m->ad, m->ad_bytes, NULL,
                                                  nonce, key) == 0);
    else
        crypto_aead_chacha20poly1305_ietf_encrypt(m->out, NULL, m->in, m->in_bytes, m->ad, m->ad_bytes, NULL,
                                                  nonce, key);
}

enum base_error gossip_aead_open_once(enum gossip_aead aead, const uint8_t key[KEY],
                                      const struct gossip_aead_message *m)
{
    uint8_t nonce[NONCE_BYTES];
    encode_nonce(aead, m->nonce, nonce);
    const int failed = aead == GOSSIP_AEAD_AESGCM
                           ? crypto_aead_aes256gcm_decrypt(m->out, NULL, NULL, m->in, m->in_bytes, m->ad,
                                                           m->ad_bytes, nonce, key)
                           : crypto_aead_chacha20poly1305_ietf_decrypt(m->out, NULL, NULL, m->in, m->in_bytes,
                                                                       m->ad, m->ad_bytes, nonce, key);
    return failed ? BASE_EAUTH : BASE_OK;
}

#ifdef P2PML_OPENSSL

// -- libcrypto

struct gossip_aead_key {
    enum gossip_aead aead;
    EVP_CIPHER_CTX *context; // for either direction: each message sets it
};

struct gossip_aead_key *gossip_aead_key_create(enum gossip_aead aead, const uint8_t bytes[KEY])
{
    const EVP_CIPHER *cipher = aead == GOSSIP_AEAD_AESGCM ? EVP_aes_256_gcm() : EVP_chacha20_poly1305();
    struct gossip_aead_key *key = calloc(1, sizeof *key);
    if (!key)
        return NULL;
    *key = (struct gossip_aead_key){aead, EVP_CIPHER_CTX_new()};
    if (key->context && EVP_CipherInit_ex(key->context, cipher, NULL, bytes, NULL, 1) == 1)
        return key;
    gossip_aead_key_destroy(key);
    return NULL;
}

void gossip_aead_key_destroy(struct gossip_aead_key *key)
{
    if (!key)
        return;
    EVP_CIPHER_CTX_free(key->context); // wipes
    free(key);
}

void gossip_aead_key_replace(struct gossip_aead_key *key, const uint8_t bytes[KEY])
{
    BASE_ASSERT(EVP_CipherInit_ex(key->context, NULL, NULL, bytes, NULL, 1) == 1);
}

// Processes nonce, associated data and in[bytes]; the result goes to `out`.
static void run(const struct gossip_aead_key *key, const struct gossip_aead_message *m, size_t bytes,
                int seals)
{
    uint8_t nonce[NONCE_BYTES];
    int made = 0;
    encode_nonce(key->aead, m->nonce, nonce);
    BASE_ASSERT(bytes <= INT_MAX && m->ad_bytes <= INT_MAX);
    BASE_ASSERT(EVP_CipherInit_ex(key->context, NULL, NULL, NULL, nonce, seals) == 1);
    if (m->ad_bytes > 0)
        BASE_ASSERT(EVP_CipherUpdate(key->context, NULL, &made, m->ad, (int)m->ad_bytes) == 1);
    if (bytes > 0)
        BASE_ASSERT(EVP_CipherUpdate(key->context, m->out, &made, m->in, (int)bytes) == 1);
}

void gossip_aead_seal(struct gossip_aead_key *key, const struct gossip_aead_message *m)
{
    uint8_t *tag = m->out + m->in_bytes;
    int made = 0;
    run(key, m, m->in_bytes, 1);
    BASE_ASSERT(EVP_CipherFinal_ex(key->context, tag, &made) == 1 && made == 0);
    BASE_ASSERT(EVP_CIPHER_CTX_ctrl(key->context, EVP_CTRL_AEAD_GET_TAG, TAG, tag) == 1);
}

enum base_error gossip_aead_open(struct gossip_aead_key *key, const struct gossip_aead_message *m)
{
    uint8_t tag[TAG], none[TAG];
    int made = 0;
    BASE_ASSERT(m->in_bytes >= TAG);
    const size_t bytes = m->in_bytes - TAG;
    memcpy(tag, m->in + bytes, TAG);
    run(key, m, bytes, 0);
    BASE_ASSERT(EVP_CIPHER_CTX_ctrl(key->context, EVP_CTRL_AEAD_SET_TAG, TAG, tag) == 1);
    if (EVP_CipherFinal_ex(key->context, none, &made) == 1)
        return BASE_OK;
    if (bytes > 0)
        sodium_memzero(m->out, bytes); // data that are not authentic are not returned
    return BASE_EAUTH;
}

#else

// -- libsodium with a prepared key: the round keys of AES, and the table of the hash

struct gossip_aead_key {
    crypto_aead_aes256gcm_state rounds; // for AESGCM; malloc's alignment is sufficient
    enum gossip_aead aead;
    uint8_t bytes[KEY];
};

struct gossip_aead_key *gossip_aead_key_create(enum gossip_aead aead, const uint8_t bytes[KEY])
{
    struct gossip_aead_key *key = calloc(1, sizeof *key);
    if (!key)
        return NULL;
    key->aead = aead;
    gossip_aead_key_replace(key, bytes);
    return key;
}

void gossip_aead_key_destroy(struct gossip_aead_key *key)
{
    if (!key)
        return;
    sodium_memzero(key, sizeof *key);
    free(key);
}

void gossip_aead_key_replace(struct gossip_aead_key *key, const uint8_t bytes[KEY])
{
    memcpy(key->bytes, bytes, KEY);
    if (key->aead == GOSSIP_AEAD_AESGCM)
        BASE_ASSERT(crypto_aead_aes256gcm_beforenm(&key->rounds, bytes) == 0);
}

void gossip_aead_seal(struct gossip_aead_key *key, const struct gossip_aead_message *m)
{
    uint8_t nonce[NONCE_BYTES];
    encode_nonce(key->aead, m->nonce, nonce);
    if (key->aead == GOSSIP_AEAD_AESGCM)
        BASE_ASSERT(crypto_aead_aes256gcm_encrypt_afternm(m->out, NULL, m->in, m->in_bytes, m->ad,
                                                          m->ad_bytes, NULL, nonce, &key->rounds) == 0);
    else
        gossip_aead_seal_once(key->aead, key->bytes, m);
}

enum base_error gossip_aead_open(struct gossip_aead_key *key, const struct gossip_aead_message *m)
{
    uint8_t nonce[NONCE_BYTES];
    if (key->aead != GOSSIP_AEAD_AESGCM)
        return gossip_aead_open_once(key->aead, key->bytes, m);
    encode_nonce(key->aead, m->nonce, nonce);
    return crypto_aead_aes256gcm_decrypt_afternm(m->out, NULL, NULL, m->in, m->in_bytes, m->ad, m->ad_bytes,
                                                 nonce, &key->rounds) == 0
               ? BASE_OK
               : BASE_EAUTH;
}

#endif
