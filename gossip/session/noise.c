#include "gossip/session/noise.h"
#include "base/cursor.h"
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define KEY   GOSSIP_NOISE_KEY_BYTES
#define HASH  GOSSIP_NOISE_HASH_BYTES
#define TAG   GOSSIP_NOISE_TAG_BYTES
#define BLOCK 128 // BLOCKLEN of BLAKE2b

static const char PROTOCOL_NAME[] = "Noise_XXpsk0_25519_ChaChaPoly_BLAKE2b";

// HASH, HMAC-HASH and HKDF (sections 4.3 and 12.8)

static void hash_two(const void *a, size_t a_bytes, const void *b, size_t b_bytes, uint8_t out[HASH])
{
    crypto_generichash_blake2b_state state;
    crypto_generichash_blake2b_init(&state, NULL, 0, HASH);
    crypto_generichash_blake2b_update(&state, a, a_bytes);
    crypto_generichash_blake2b_update(&state, b, b_bytes);
    crypto_generichash_blake2b_final(&state, out, HASH);
    sodium_memzero(&state, sizeof state);
}

// RFC 2104 over BLAKE2b; not BLAKE2b's own keyed mode.
static void hmac(const uint8_t key[HASH], const void *data, size_t bytes, uint8_t out[HASH])
{
    uint8_t pad[BLOCK], inner[HASH];
    memset(pad, 0x36, sizeof pad);
    for (size_t i = 0; i < HASH; i++)
        pad[i] ^= key[i];
    hash_two(pad, sizeof pad, data, bytes, inner);
    for (size_t i = 0; i < BLOCK; i++)
        pad[i] ^= 0x36 ^ 0x5c;
    hash_two(pad, sizeof pad, inner, sizeof inner, out);
    sodium_memzero(pad, sizeof pad);
    sodium_memzero(inner, sizeof inner);
}

// HKDF(chaining_key, input_key_material, n): outputs 1 to n.
static void hkdf(const uint8_t chaining_key[HASH], const uint8_t *material, size_t bytes,
                 uint8_t outputs[][HASH], unsigned n)
{
    uint8_t temp_key[HASH], block[HASH + 1];
    size_t previous = 0;
    hmac(chaining_key, material, bytes, temp_key);
    for (unsigned i = 0; i < n; i++) {
        block[previous] = (uint8_t)(i + 1); // HMAC(temp_key, output_i || byte(i + 1))
        hmac(temp_key, block, previous + 1, outputs[i]);
        memcpy(block, outputs[i], HASH);
        previous = HASH;
    }
    sodium_memzero(temp_key, sizeof temp_key);
    sodium_memzero(block, sizeof block);
}

// CipherState (section 5.1)

static void cipher_initialize_key(struct gossip_noise_cipher *cipher, enum gossip_aead aead,
                                  const uint8_t *key)
{
    BASE_ASSERT(aead < GOSSIP_AEADS);
    cipher->aead = aead;
    memcpy(cipher->key, key, KEY);
    cipher->nonce = 0;
}

void gossip_noise_seal(struct gossip_noise_cipher *cipher, const void *ad, size_t ad_bytes,
                       const uint8_t *plain, size_t bytes, uint8_t *sealed)
{
    BASE_ASSERT(cipher->nonce < UINT64_MAX); // 2^64 - 1 is reserved for Rekey()
    const struct gossip_aead_message message = {cipher->nonce++, ad, ad_bytes, plain, bytes, sealed};
    gossip_aead_seal_once(cipher->aead, cipher->key, &message);
}

enum base_error gossip_noise_open(struct gossip_noise_cipher *cipher, const void *ad, size_t ad_bytes,
                                  const uint8_t *sealed, size_t sealed_bytes, uint8_t *plain)
{
    BASE_ASSERT(cipher->nonce < UINT64_MAX);
    const struct gossip_aead_message message = {cipher->nonce, ad, ad_bytes, sealed, sealed_bytes, plain};
    enum base_error error = gossip_aead_open_once(cipher->aead, cipher->key, &message);
    if (!error)
        cipher->nonce++;
    return error;
}

void gossip_noise_rekey(struct gossip_noise_cipher *cipher)
{
    BASE_ASSERT(cipher->aead < GOSSIP_AEADS);
    // k = the first 32 bytes of ENCRYPT(k, 2^64 - 1, "", zeros)
    static const uint8_t zeros[KEY];
    uint8_t sealed[KEY + TAG];
    const struct gossip_aead_message message = {UINT64_MAX, NULL, 0, zeros, KEY, sealed};
    gossip_aead_seal_once(cipher->aead, cipher->key, &message);
    memcpy(cipher->key, sealed, KEY);
    sodium_memzero(sealed, sizeof sealed);
}

// SymmetricState (section 5.2)

static void initialize_symmetric(struct gossip_noise_symmetric *symmetric)
{
    _Static_assert(sizeof PROTOCOL_NAME - 1 <= HASH, "a longer name would have to be hashed");
    memset(symmetric, 0, sizeof *symmetric);
    memcpy(symmetric->hash, PROTOCOL_NAME, sizeof PROTOCOL_NAME - 1);
    memcpy(symmetric->chaining_key, symmetric->hash, HASH);
}

static void mix_hash(struct gossip_noise_symmetric *symmetric, const void *data, size_t bytes)
{
    hash_two(symmetric->hash, HASH, data, bytes, symmetric->hash);
}

static void mix_key(struct gossip_noise_symmetric *symmetric, const uint8_t material[KEY])
{
    BASE_ASSERT(!sodium_is_zero(symmetric->cipher.key, KEY));
    uint8_t out[2][HASH]; // ck, temp_k
    hkdf(symmetric->chaining_key, material, KEY, out, 2);
    memcpy(symmetric->chaining_key, out[0], HASH);
    cipher_initialize_key(&symmetric->cipher, GOSSIP_AEAD_CHACHAPOLY, out[1]);
    sodium_memzero(out, sizeof out);
}

static void mix_key_and_hash(struct gossip_noise_symmetric *symmetric, const uint8_t material[KEY])
{
    BASE_ASSERT(sodium_is_zero(symmetric->cipher.key, KEY));
    uint8_t out[3][HASH]; // ck, temp_h, temp_k
    hkdf(symmetric->chaining_key, material, KEY, out, 3);
    memcpy(symmetric->chaining_key, out[0], HASH);
    mix_hash(symmetric, out[1], HASH);
    cipher_initialize_key(&symmetric->cipher, GOSSIP_AEAD_CHACHAPOLY, out[2]);
    sodium_memzero(out, sizeof out);
}

static void encrypt_and_hash(struct gossip_noise_symmetric *symmetric, const uint8_t *plain, size_t bytes,
                             struct base_writer *out)
{
    uint8_t *sealed = base_write_room(out, bytes + TAG);
    BASE_ASSERT(sealed);
    gossip_noise_seal(&symmetric->cipher, symmetric->hash, HASH, plain, bytes, sealed);
    mix_hash(symmetric, sealed, bytes + TAG);
}

static enum base_error decrypt_and_hash(struct gossip_noise_symmetric *symmetric, struct base_reader *in,
                                        size_t sealed_bytes, uint8_t *plain)
{
    const uint8_t *sealed = base_read_bytes(in, sealed_bytes);
    if (!sealed || sealed_bytes < TAG)
        return BASE_EFORMAT;
    if (gossip_noise_open(&symmetric->cipher, symmetric->hash, HASH, sealed, sealed_bytes, plain))
        return BASE_EAUTH;
    mix_hash(symmetric, sealed, sealed_bytes);
    return BASE_OK;
}

// HandshakeState (section 5.3): one function per token

void gossip_noise_begin(struct gossip_noise_handshake *handshake, const struct gossip_noise_options *options)
{
    BASE_ASSERT(options->prologue_bytes == 0 || options->prologue);
    memset(handshake, 0, sizeof *handshake);
    handshake->initiator = options->initiator;
    memcpy(handshake->s.public_key, options->static_public, KEY);
    memcpy(handshake->s.secret_key, options->static_secret, KEY);
    memcpy(handshake->e.secret_key, options->ephemeral_secret, KEY);
    (void)crypto_scalarmult_curve25519_base(handshake->e.public_key, handshake->e.secret_key); // can't fail
    memcpy(handshake->psk, options->psk, KEY);
    initialize_symmetric(&handshake->symmetric);
    mix_hash(&handshake->symmetric, options->prologue, options->prologue_bytes);
    // XX has no pre-messages.
}

static void token_psk(struct gossip_noise_handshake *handshake)
{
    mix_key_and_hash(&handshake->symmetric, handshake->psk);
}

static void write_e(struct gossip_noise_handshake *handshake, struct base_writer *out)
{
    base_write_bytes(out, handshake->e.public_key, KEY);
    mix_hash(&handshake->symmetric, handshake->e.public_key, KEY);
    mix_key(&handshake->symmetric, handshake->e.public_key); // in psk handshakes only (section 9.2)
}

static enum base_error read_e(struct gossip_noise_handshake *handshake, struct base_reader *in)
{
    BASE_ASSERT(sodium_is_zero(handshake->re, KEY));
    const uint8_t *e = base_read_bytes(in, KEY);
    if (!e)
        return BASE_EFORMAT;
    memcpy(handshake->re, e, KEY);
    mix_hash(&handshake->symmetric, handshake->re, KEY);
    mix_key(&handshake->symmetric, handshake->re);
    return BASE_OK;
}

static void write_s(struct gossip_noise_handshake *handshake, struct base_writer *out)
{
    encrypt_and_hash(&handshake->symmetric, handshake->s.public_key, KEY, out);
}

static enum base_error read_s(struct gossip_noise_handshake *handshake, struct base_reader *in)
{
    return decrypt_and_hash(&handshake->symmetric, in, KEY + TAG, handshake->rs);
}

// ee, es, se: MixKey(DH(ours, theirs)). A result of zeros means a key of small order, and proves nothing.
static enum base_error token_dh(struct gossip_noise_handshake *handshake,
                                const struct gossip_noise_keypair *ours, const uint8_t theirs[KEY])
{
    uint8_t shared[KEY];
    enum base_error error = BASE_OK;
    if (crypto_scalarmult_curve25519(shared, ours->secret_key, theirs) != 0 || sodium_is_zero(shared, KEY))
        error = BASE_EAUTH;
    else
        mix_key(&handshake->symmetric, shared);
    sodium_memzero(shared, sizeof shared);
    return error;
}

static enum base_error token_ee(struct gossip_noise_handshake *handshake)
{
    return token_dh(handshake, &handshake->e, handshake->re);
}

static enum base_error token_es(struct gossip_noise_handshake *handshake) // initiator's e, responder's s
{
    return handshake->initiator ? token_dh(handshake, &handshake->e, handshake->rs)
                                : token_dh(handshake, &handshake->s, handshake->re);
}

static enum base_error token_se(struct gossip_noise_handshake *handshake) // initiator's s, responder's e
{
    return handshake->initiator ? token_dh(handshake, &handshake->s, handshake->re)
                                : token_dh(handshake, &handshake->e, handshake->rs);
}

static enum base_error write_tokens(struct gossip_noise_handshake *handshake, struct base_writer *out)
{
    enum base_error error = BASE_OK;
    switch (handshake->next) {
    case 0: // -> psk, e
        token_psk(handshake);
        write_e(handshake, out);
        return BASE_OK;
    case 1: // <- e, ee, s, es
        write_e(handshake, out);
        error = token_ee(handshake);
        if (error)
            return error;
        write_s(handshake, out);
        return token_es(handshake);
    default: // -> s, se
        write_s(handshake, out);
        return token_se(handshake);
    }
}

static enum base_error read_tokens(struct gossip_noise_handshake *handshake, struct base_reader *in)
{
    enum base_error error = BASE_OK;
    switch (handshake->next) {
    case 0: // -> psk, e
        token_psk(handshake);
        return read_e(handshake, in);
    case 1: // <- e, ee, s, es
        error = read_e(handshake, in);
        if (!error)
            error = token_ee(handshake);
        if (!error)
            error = read_s(handshake, in);
        return error ? error : token_es(handshake);
    default: // -> s, se
        error = read_s(handshake, in);
        return error ? error : token_se(handshake);
    }
}

static size_t message_overhead(unsigned message)
{
    static const size_t bytes[] = {GOSSIP_NOISE_MESSAGE_0, GOSSIP_NOISE_MESSAGE_1, GOSSIP_NOISE_MESSAGE_2};
    BASE_ASSERT(message < sizeof bytes / sizeof bytes[0]);
    return bytes[message];
}

enum base_error gossip_noise_write(struct gossip_noise_handshake *handshake, const uint8_t *payload,
                                   size_t payload_bytes, uint8_t *message)
{
    BASE_ASSERT((handshake->next % 2 == 0) == handshake->initiator);
    struct base_writer out = base_writer_of(message, message_overhead(handshake->next) + payload_bytes);
    enum base_error error = write_tokens(handshake, &out);
    if (error)
        return error;
    encrypt_and_hash(&handshake->symmetric, payload, payload_bytes, &out);
    BASE_ASSERT(!out.failed && out.at == out.end);
    handshake->next++;
    return BASE_OK;
}

enum base_error gossip_noise_read(struct gossip_noise_handshake *handshake, const uint8_t *message,
                                  size_t message_bytes, uint8_t *payload)
{
    BASE_ASSERT((handshake->next % 2 == 1) == handshake->initiator);
    if (message_bytes < message_overhead(handshake->next))
        return BASE_EFORMAT;
    struct base_reader in = base_reader_of(message, message_bytes);
    enum base_error error = read_tokens(handshake, &in);
    if (error)
        return error;
    error = decrypt_and_hash(&handshake->symmetric, &in, base_reader_left(&in), payload);
    if (error)
        return error;
    handshake->next++;
    return BASE_OK;
}

void gossip_noise_split(struct gossip_noise_handshake *handshake, enum gossip_aead aead,
                        struct gossip_noise_cipher *send, struct gossip_noise_cipher *receive)
{
    uint8_t out[2][HASH]; // temp_k1: initiator to responder; temp_k2: back
    char name[HASH] = "";
    BASE_ASSERT(handshake->next == 3);
    if (aead != GOSSIP_AEAD_CHACHAPOLY)
        snprintf(name, sizeof name, "Noise_XXpsk0_25519_%s_BLAKE2b", gossip_aead_name(aead));
    hkdf(handshake->symmetric.chaining_key, (const uint8_t *)name, strlen(name), out, 2);
    cipher_initialize_key(send, aead, out[handshake->initiator ? 0 : 1]);
    cipher_initialize_key(receive, aead, out[handshake->initiator ? 1 : 0]);
    sodium_memzero(out, sizeof out);
    sodium_memzero(handshake, sizeof *handshake);
}
