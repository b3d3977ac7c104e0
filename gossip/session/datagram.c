#include "gossip/session/datagram.h"
#include "base/cursor.h"
#include <sodium.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT        1u // of a datagram, whatever it carries; hashed into tags and keys
#define PAIR_BYTES    8u // tag of the ordered pair, at the start of every datagram
#define ENTROPY_BYTES 8u
#define NONCE_BYTES   24u // u64 sender's generation, u64 counter, the sender's entropy
#define HEAD_BYTES    (PAIR_BYTES + NONCE_BYTES)
#define MAC_BYTES     16u
#define BOUND_BYTES   (PAIR_BYTES + 8u) // associated data: tag of the pair, u64 receiver's generation
#define KEY           32u
#define WINDOW        256u  // counters within which packets of a pair may be reordered
#define BUCKETS       1024u // of each index; chains of 4 when LIMIT_MEMBERS are known

_Static_assert(HEAD_BYTES + MAC_BYTES == LIMIT_DATAGRAM_OVERHEAD, "what sealing adds");
_Static_assert(NONCE_BYTES == crypto_aead_xchacha20poly1305_ietf_NPUBBYTES &&
                   MAC_BYTES == crypto_aead_xchacha20poly1305_ietf_ABYTES &&
                   KEY == crypto_aead_xchacha20poly1305_ietf_KEYBYTES,
               "the layout is that of XChaCha20-Poly1305");

// Their terminating zeros are hashed, too, so no label is a prefix of another.
static const char KEY_LABEL[] = "p2pml datagram";
static const char TAG_LABEL[] = "p2pml datagram tag";
static const char INDEX_LABEL[] = "p2pml datagram index";

// The datagrams received from one process of the sender: counters [next - WINDOW, next), one bit each.
struct window {
    uint64_t next; // 0: none received
    uint8_t entropy[ENTROPY_BYTES];
    uint64_t seen[WINDOW / 64];
};

struct peer;
struct received { // the datagrams of a peer under one secret
    struct received *next_by_tag;
    struct peer *peer;
    uint8_t tag[PAIR_BYTES];
    uint8_t key[KEY];
};

struct peer {
    struct peer *next_by_id;
    struct gossip_id id;
    uint8_t exchange_public[KEY];
    uint8_t tag_out[PAIR_BYTES], key_out[KEY]; // under the first secret
    struct received *in;                       // [secrets.count]: under each
    struct received *fresh;                    // the same for other secrets, while these are changed
    uint64_t generation;                       // the highest one in its record or in an authentic datagram
    uint64_t counter;                          // of the next datagram to it
    struct window window;
    bool keyed; // key_out and the keys of `in` are set
};

struct gossip_datagrams {
    const struct gossip_identity *identity;
    struct gossip_secrets secrets;
    char cluster[LIMIT_NODE_NAME_BYTES];
    uint64_t generation;
    uint8_t entropy[ENTROPY_BYTES];
    uint8_t index_key[KEY]; // secret, so that no one can choose an id for its bucket
    uint64_t counter_floor; // above all counters used for forgotten peers
    size_t n_peers;
    struct peer *by_id[BUCKETS];
    struct received *by_tag[BUCKETS];
};

// Keys

// BLAKE2b-256, keyed by the psk, over label || shared || sender || receiver || format || cluster. All
// except the last have fixed lengths.
static void derive(const struct gossip_datagrams *datagrams, size_t secret, const char *label,
                   size_t label_bytes, const uint8_t *shared, const struct gossip_id *sender,
                   const struct gossip_id *receiver, uint8_t out[KEY])
{
    uint8_t text[sizeof TAG_LABEL + KEY + 2 * GOSSIP_ID_BYTES + 4 + LIMIT_NODE_NAME_BYTES];
    struct base_writer writer = base_writer_of(text, sizeof text);
    base_write_bytes(&writer, label, label_bytes);
    if (shared)
        base_write_bytes(&writer, shared, KEY);
    base_write_bytes(&writer, sender->bytes, GOSSIP_ID_BYTES);
    base_write_bytes(&writer, receiver->bytes, GOSSIP_ID_BYTES);
    base_write_u32(&writer, FORMAT);
    base_write_bytes(&writer, datagrams->cluster, strlen(datagrams->cluster));
    BASE_ASSERT(!writer.failed);
    crypto_generichash_blake2b(out, KEY, text, base_writer_used(&writer), datagrams->secrets.psk[secret],
                               KEY);
    sodium_memzero(text, sizeof text);
}

static void derive_tag(const struct gossip_datagrams *datagrams, size_t secret,
                       const struct gossip_id *sender, const struct gossip_id *receiver,
                       uint8_t tag[PAIR_BYTES])
{
    uint8_t whole[KEY];
    derive(datagrams, secret, TAG_LABEL, sizeof TAG_LABEL, NULL, sender, receiver, whole);
    memcpy(tag, whole, PAIR_BYTES);
    sodium_memzero(whole, sizeof whole);
}

// Computes the keys of a peer at its first use: X25519 costs a hundred times as much as adding the peer.
static enum base_error ensure_keys(const struct gossip_datagrams *datagrams, struct peer *peer)
{
    const struct gossip_identity *self = datagrams->identity;
    uint8_t shared[KEY];
    enum base_error error = BASE_OK;
    if (peer->keyed)
        return BASE_OK;
    BASE_ASSERT(sodium_is_zero(peer->key_out, KEY) && sodium_is_zero(peer->in[0].key, KEY));
    if (crypto_scalarmult_curve25519(shared, self->exchange_secret, peer->exchange_public) != 0 ||
        sodium_is_zero(shared, KEY)) {
        error = BASE_EAUTH;
        goto out;
    }
    derive(datagrams, 0, KEY_LABEL, sizeof KEY_LABEL, shared, &self->id, &peer->id, peer->key_out);
    for (size_t i = 0; i < datagrams->secrets.count; i++)
        derive(datagrams, i, KEY_LABEL, sizeof KEY_LABEL, shared, &peer->id, &self->id, peer->in[i].key);
    peer->keyed = true;
out:
    sodium_memzero(shared, sizeof shared);
    return error;
}

// The points of order 1, 2, 4 and 8 on the curve and its twist, in each of their encodings below 2^255: with
// them X25519 gives zero for every secret. 0, 1, the two of order 8, p - 1, p and p + 1.
static const uint8_t SMALL_ORDER[][KEY] = {
    {0},
    {1},
    {0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a,
     0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00},
    {0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef, 0x5b,
     0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f, 0x11, 0x57},
    {0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
    {0xed, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
    {0xee, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
};

static bool small_order(const uint8_t exchange_public[KEY])
{
    uint8_t masked[KEY];
    memcpy(masked, exchange_public, KEY);
    masked[KEY - 1] &= 0x7f; // X25519 ignores this bit
    for (size_t i = 0; i < sizeof SMALL_ORDER / sizeof SMALL_ORDER[0]; i++)
        if (memcmp(masked, SMALL_ORDER[i], KEY) == 0)
            return true;
    return false;
}

// Replay window

// Checked before anything is opened, so that a flood of old packets costs no cryptography.
static bool window_admits(const struct peer *peer, uint64_t generation, uint64_t counter,
                          const uint8_t entropy[ENTROPY_BYTES])
{
    const struct window *window = &peer->window;
    if (generation < peer->generation || counter == UINT64_MAX)
        return false;
    if (generation > peer->generation || window->next == 0)
        return true;
    if (memcmp(entropy, window->entropy, ENTROPY_BYTES) != 0) // a second process with the same generation
        return false;
    if (counter >= window->next)
        return true;
    const uint64_t bit = counter % WINDOW;
    return window->next - counter <= WINDOW && (window->seen[bit / 64] >> bit % 64 & 1) == 0;
}

static void begin_life(struct peer *peer, uint64_t generation)
{
    BASE_ASSERT(generation > peer->generation);
    peer->generation = generation;
    memset(&peer->window, 0, sizeof peer->window);
}

// Marks a counter that was admitted and is authentic.
static void window_take(struct window *window, uint64_t counter, const uint8_t entropy[ENTROPY_BYTES])
{
    BASE_ASSERT(counter < UINT64_MAX);
    if (counter >= window->next && counter - window->next >= WINDOW)
        memset(window->seen, 0, sizeof window->seen);
    else
        for (uint64_t passed = window->next; passed < counter; passed++)
            window->seen[passed % WINDOW / 64] &= ~(1ull << passed % WINDOW % 64);
    window->seen[counter % WINDOW / 64] |= 1ull << counter % WINDOW % 64;
    if (counter >= window->next)
        window->next = counter + 1;
    memcpy(window->entropy, entropy, ENTROPY_BYTES);
}

// Peers, indexed by id and by the tag of their datagrams

static size_t bucket_of(const struct gossip_datagrams *datagrams, const uint8_t *data, size_t bytes)
{
    uint8_t hash[8];
    crypto_shorthash_siphash24(hash, data, bytes, datagrams->index_key);
    struct base_reader reader = base_reader_of(hash, sizeof hash);
    return base_read_u64(&reader) % BUCKETS;
}

// The place of the pointer to this peer; if there is no such peer, the end of its chain, which holds NULL.
static struct peer **place_by_id(struct gossip_datagrams *datagrams, const struct gossip_id *id)
{
    struct peer **place = &datagrams->by_id[bucket_of(datagrams, id->bytes, GOSSIP_ID_BYTES)];
    while (*place && gossip_id_compare(&(*place)->id, id) != 0)
        place = &(*place)->next_by_id;
    return place;
}

// The tags of a peer under the present secrets.
static void link_by_tag(struct gossip_datagrams *datagrams, struct peer *peer)
{
    const struct gossip_id *self = &datagrams->identity->id;
    derive_tag(datagrams, 0, self, &peer->id, peer->tag_out);
    for (size_t i = 0; i < datagrams->secrets.count; i++) {
        struct received *in = &peer->in[i];
        in->peer = peer;
        derive_tag(datagrams, i, &peer->id, self, in->tag);
        struct received **head = &datagrams->by_tag[bucket_of(datagrams, in->tag, PAIR_BYTES)];
        in->next_by_tag = *head;
        *head = in;
    }
}

static void unlink_by_tag(struct gossip_datagrams *datagrams, const struct peer *peer)
{
    for (size_t i = 0; i < datagrams->secrets.count; i++) {
        const struct received *in = &peer->in[i];
        struct received **place = &datagrams->by_tag[bucket_of(datagrams, in->tag, PAIR_BYTES)];
        while (*place != in)
            place = &(*place)->next_by_tag;
        *place = in->next_by_tag;
    }
}

static void received_free(const struct gossip_datagrams *datagrams, struct received *in)
{
    sodium_memzero(in, datagrams->secrets.count * sizeof *in);
    free(in);
}

static void peer_free(const struct gossip_datagrams *datagrams, struct peer *peer)
{
    received_free(datagrams, peer->in);
    sodium_memzero(peer, sizeof *peer);
    free(peer);
}

static enum base_error peer_add(struct gossip_datagrams *datagrams, const struct gossip_id *id,
                                const uint8_t exchange_public[KEY], uint64_t generation, struct peer **place)
{
    if (datagrams->n_peers >= LIMIT_MEMBERS)
        return BASE_ELIMIT;
    BASE_ASSERT(gossip_id_compare(id, &datagrams->identity->id) != 0);
    struct peer *peer = calloc(1, sizeof *peer);
    struct received *in = calloc(datagrams->secrets.count, sizeof *in);
    if (!peer || !in) {
        free(peer);
        free(in);
        return BASE_ENOMEM;
    }
    peer->in = in;
    peer->id = *id;
    peer->generation = generation;
    peer->counter = datagrams->counter_floor;
    memcpy(peer->exchange_public, exchange_public, KEY);
    link_by_tag(datagrams, peer);
    *place = peer;
    datagrams->n_peers++;
    return BASE_OK;
}

static void peer_update(const struct gossip_datagrams *datagrams, struct peer *peer,
                        const uint8_t exchange_public[KEY], uint64_t generation)
{
    if (generation > peer->generation)
        begin_life(peer, generation);
    BASE_ASSERT(peer->generation >= generation);
    if (memcmp(peer->exchange_public, exchange_public, KEY) == 0)
        return;
    memcpy(peer->exchange_public, exchange_public, KEY);
    sodium_memzero(peer->key_out, KEY);
    for (size_t i = 0; i < datagrams->secrets.count; i++)
        sodium_memzero(peer->in[i].key, KEY);
    peer->keyed = false;
}

enum base_error gossip_datagrams_peer(struct gossip_datagrams *datagrams, const struct gossip_id *peer,
                                      const uint8_t exchange_public[32], uint64_t generation)
{
    if (gossip_id_compare(peer, &datagrams->identity->id) == 0)
        return BASE_EINVAL; // both directions would have the same key, and reflection would succeed
    if (small_order(exchange_public))
        return BASE_EAUTH;
    struct peer **place = place_by_id(datagrams, peer);
    if (!*place)
        return peer_add(datagrams, peer, exchange_public, generation, place);
    if (generation >= (*place)->generation)
        peer_update(datagrams, *place, exchange_public, generation);
    return BASE_OK;
}

void gossip_datagrams_forget(struct gossip_datagrams *datagrams, const struct gossip_id *peer)
{
    struct peer **place = place_by_id(datagrams, peer), *gone = *place;
    if (!gone)
        return;
    BASE_ASSERT(datagrams->n_peers > 0);
    // If it is added again it has the same keys, so its counter must not restart.
    if (gone->counter > datagrams->counter_floor)
        datagrams->counter_floor = gone->counter;
    *place = gone->next_by_id;
    unlink_by_tag(datagrams, gone);
    datagrams->n_peers--;
    peer_free(datagrams, gone);
}

enum base_error gossip_datagrams_create(const struct gossip_datagrams_options *options,
                                        struct gossip_datagrams **datagrams)
{
    const size_t name_bytes = strlen(options->cluster);
    BASE_ASSERT(name_bytes < LIMIT_NODE_NAME_BYTES);
    BASE_ASSERT(options->secrets->count >= 1 && options->secrets->count <= LIMIT_SECRETS);
    BASE_ASSERT(sodium_init() >= 0); // selects fast implementations; further calls do nothing
    struct gossip_datagrams *made = calloc(1, sizeof *made);
    if (!made)
        return BASE_ENOMEM;
    made->identity = options->identity;
    made->generation = options->generation;
    made->secrets = *options->secrets;
    memcpy(made->cluster, options->cluster, name_bytes);
    memcpy(made->entropy, options->entropy, ENTROPY_BYTES);
    crypto_generichash_blake2b(made->index_key, KEY, (const uint8_t *)INDEX_LABEL, sizeof INDEX_LABEL,
                               options->identity->exchange_secret, KEY);
    *datagrams = made;
    return BASE_OK;
}

void gossip_datagrams_destroy(struct gossip_datagrams *datagrams)
{
    if (!datagrams)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        while (datagrams->by_id[i]) {
            struct peer *peer = datagrams->by_id[i];
            datagrams->by_id[i] = peer->next_by_id;
            datagrams->n_peers--;
            peer_free(datagrams, peer);
        }
    BASE_ASSERT(datagrams->n_peers == 0);
    sodium_memzero(datagrams, sizeof *datagrams);
    free(datagrams);
}

void gossip_datagrams_generation(struct gossip_datagrams *datagrams, uint64_t generation)
{
    BASE_ASSERT(generation > 0);
    if (generation > datagrams->generation)
        datagrams->generation = generation;
}

// The peer after this one in the order of the buckets; NULL: the first. Returns NULL after the last.
static struct peer *peer_after(const struct gossip_datagrams *datagrams, const struct peer *peer)
{
    if (peer && peer->next_by_id)
        return peer->next_by_id;
    size_t i = peer ? bucket_of(datagrams, peer->id.bytes, GOSSIP_ID_BYTES) + 1 : 0;
    while (i < BUCKETS && !datagrams->by_id[i])
        i++;
    return i < BUCKETS ? datagrams->by_id[i] : NULL;
}

// All the memory first, so that nothing has changed if there is too little.
enum base_error gossip_datagrams_secrets(struct gossip_datagrams *datagrams,
                                         const struct gossip_secrets *secrets)
{
    struct peer *peer = NULL;
    enum base_error error = BASE_OK;
    BASE_ASSERT(secrets->count >= 1 && secrets->count <= LIMIT_SECRETS);
    while (!error && (peer = peer_after(datagrams, peer))) {
        peer->fresh = calloc(secrets->count, sizeof *peer->fresh);
        error = peer->fresh ? BASE_OK : BASE_ENOMEM;
    }
    for (peer = NULL; !error && (peer = peer_after(datagrams, peer));) {
        unlink_by_tag(datagrams, peer);
        received_free(datagrams, peer->in);
        peer->in = peer->fresh;
        peer->fresh = NULL;
        sodium_memzero(peer->key_out, KEY);
        peer->keyed = false;
    }
    if (!error)
        datagrams->secrets = *secrets;
    while ((peer = peer_after(datagrams, peer))) {
        free(peer->fresh);
        peer->fresh = NULL;
        if (!error)
            link_by_tag(datagrams, peer);
    }
    return error;
}

// Datagrams

static void write_bound(uint8_t bound[BOUND_BYTES], const uint8_t tag[PAIR_BYTES],
                        uint64_t receiver_generation)
{
    struct base_writer writer = base_writer_of(bound, BOUND_BYTES);
    base_write_bytes(&writer, tag, PAIR_BYTES);
    base_write_u64(&writer, receiver_generation);
}

enum base_error gossip_datagram_seal(struct gossip_datagrams *datagrams, const struct gossip_id *peer,
                                     uint64_t generation, const uint8_t *plain, size_t plain_bytes,
                                     uint8_t *sealed, size_t *sealed_bytes)
{
    uint8_t bound[BOUND_BYTES];
    if (plain_bytes > LIMIT_DATAGRAM_BYTES - LIMIT_DATAGRAM_OVERHEAD)
        return BASE_ELIMIT;
    struct peer *to = *place_by_id(datagrams, peer);
    if (!to)
        return BASE_ENOTFOUND;
    enum base_error error = ensure_keys(datagrams, to);
    if (error)
        return error;
    BASE_ASSERT(to->keyed && to->counter < UINT64_MAX);
    struct base_writer head = base_writer_of(sealed, HEAD_BYTES);
    base_write_bytes(&head, to->tag_out, PAIR_BYTES);
    base_write_u64(&head, datagrams->generation);
    base_write_u64(&head, to->counter++);
    base_write_bytes(&head, datagrams->entropy, ENTROPY_BYTES);
    write_bound(bound, to->tag_out, generation ? generation : to->generation);
    crypto_aead_xchacha20poly1305_ietf_encrypt(sealed + HEAD_BYTES, NULL, plain, plain_bytes, bound,
                                               BOUND_BYTES, NULL, sealed + PAIR_BYTES, to->key_out);
    *sealed_bytes = plain_bytes + LIMIT_DATAGRAM_OVERHEAD;
    return BASE_OK;
}

// Opens a datagram as one from this peer, under one of the secrets. A plaintext that is not authentic is
// never written to the caller's memory.
static enum base_error open_from(struct gossip_datagrams *datagrams, const struct received *in,
                                 const uint8_t *sealed, size_t sealed_bytes, uint8_t *plain)
{
    struct peer *from = in->peer;
    const size_t plain_bytes = sealed_bytes - LIMIT_DATAGRAM_OVERHEAD;
    uint8_t bound[BOUND_BYTES], opened[LIMIT_DATAGRAM_BYTES];
    struct base_reader nonce = base_reader_of(sealed + PAIR_BYTES, NONCE_BYTES);
    const uint64_t generation = base_read_u64(&nonce), counter = base_read_u64(&nonce);
    const uint8_t *entropy = base_read_bytes(&nonce, ENTROPY_BYTES);
    if (!window_admits(from, generation, counter, entropy))
        return BASE_ESTATE;
    enum base_error error = ensure_keys(datagrams, from);
    if (error)
        return error;
    write_bound(bound, in->tag, datagrams->generation);
    if (crypto_aead_xchacha20poly1305_ietf_decrypt(opened, NULL, NULL, sealed + HEAD_BYTES,
                                                   sealed_bytes - HEAD_BYTES, bound, BOUND_BYTES,
                                                   sealed + PAIR_BYTES, in->key) != 0)
        return BASE_EAUTH;
    if (generation > from->generation)
        begin_life(from, generation);
    window_take(&from->window, counter, entropy);
    memcpy(plain, opened, plain_bytes);
    sodium_memzero(opened, plain_bytes);
    return BASE_OK;
}

enum base_error gossip_datagram_open(struct gossip_datagrams *datagrams, const uint8_t *sealed,
                                     size_t sealed_bytes, uint8_t *plain, size_t *plain_bytes,
                                     struct gossip_id *peer)
{
    if (sealed_bytes < LIMIT_DATAGRAM_OVERHEAD || sealed_bytes > LIMIT_DATAGRAM_BYTES)
        return BASE_EFORMAT;
    enum base_error error = BASE_ENOTFOUND;
    const struct received *in = datagrams->by_tag[bucket_of(datagrams, sealed, PAIR_BYTES)];
    // A member may have searched for an id with the tag of another member, so each peer with this tag is
    // tried.
    for (; in; in = in->next_by_tag) {
        if (memcmp(in->tag, sealed, PAIR_BYTES) != 0)
            continue;
        error = open_from(datagrams, in, sealed, sealed_bytes, plain);
        if (!error) {
            *plain_bytes = sealed_bytes - LIMIT_DATAGRAM_OVERHEAD;
            *peer = in->peer->id;
            break;
        }
    }
    return error;
}
