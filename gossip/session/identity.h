// A node's identity, the cluster secret and the allow-list. One 32-byte seed gives separate signing (Ed25519)
// and key-exchange (X25519) keys. Secrets are wiped by the destroy functions. One owner each.
#ifndef GOSSIP_SESSION_IDENTITY_H
#define GOSSIP_SESSION_IDENTITY_H

#include "base/error.h"
#include "base/limits.h"
#include "gossip/id.h"
#include <stdbool.h>

struct gossip_identity {
    struct gossip_id id;                              // Ed25519 public key
    uint8_t signing_secret[64];                       // Ed25519 secret key (libsodium layout)
    uint8_t exchange_public[32], exchange_secret[32]; // X25519: the Noise static key
    uint8_t binding[64]; // Ed25519 signature over "p2pml static key" || exchange_public
};

// Keys from a seed: signing seed = BLAKE2b-256(seed, "p2pml sign"), exchange secret = BLAKE2b-256(seed,
// "p2pml kex").
void gossip_identity_from_seed(const uint8_t seed[32], struct gossip_identity *identity);
// Reads the seed (64 hex digits and a newline) from a file of mode 0600: BASE_EAUTH, with the chmod command,
// if group or others can read it (the group may if the file belongs to root and this process is not root's).
// BASE_ENOTFOUND: there is no such file.
enum base_error gossip_identity_load(const char *path, struct gossip_identity *identity,
                                     struct base_reason *why) BASE_CHECK;
// Draws a new seed from the system's entropy and writes it with mode 0600. BASE_ESTATE if the file exists.
enum base_error gossip_identity_create(const char *path, struct gossip_identity *identity,
                                       struct base_reason *why) BASE_CHECK;
void gossip_identity_wipe(struct gossip_identity *identity);

// Does `binding` prove that the owner of `id` owns this X25519 key?
bool gossip_identity_binding_valid(const struct gossip_id *id, const uint8_t exchange_public[32],
                                   const uint8_t binding[64]);

// Ed25519 over the bytes as they are; callers put a label before them.
void gossip_identity_sign(const struct gossip_identity *identity, const uint8_t *bytes, size_t count,
                          uint8_t signature[64]);
bool gossip_identity_verify(const struct gossip_id *id, const uint8_t *bytes, size_t count,
                            const uint8_t signature[64]);

void gossip_id_hex(const struct gossip_id *id, char hex[GOSSIP_ID_HEX]);
enum base_error gossip_id_parse(const char *hex, struct gossip_id *id) BASE_CHECK;

// The secrets of the cluster as 32-byte pre-shared keys: BLAKE2b-256 of each line of the file, without white
// space at its end. A node begins handshakes and seals datagrams with the first, and accepts all.
struct gossip_secrets {
    uint8_t psk[LIMIT_SECRETS][32];
    size_t count; // 1..LIMIT_SECRETS
};
// A file is refused like an identity if others can read it; also if it has more than LIMIT_SECRETS lines, or
// a line that is shorter than 16 bytes or repeats another. Without a file (path NULL or ""), the secret is a
// public constant: the channel is then hidden from readers, but open to strangers. After an error nothing has
// changed.
enum base_error gossip_secrets_load(const char *path, struct gossip_secrets *secrets,
                                    struct base_reason *why) BASE_CHECK;
bool gossip_secrets_have(const struct gossip_secrets *secrets, const uint8_t psk[32]);
// Says which secret a link began with, without holding it.
uint64_t gossip_secret_mark(const uint8_t psk[32]);
bool gossip_secrets_marked(const struct gossip_secrets *secrets, uint64_t mark);
// Writes a new random secret (base64 line), mode 0600. BASE_ESTATE if the file exists.
enum base_error gossip_secret_create(const char *path, struct base_reason *why) BASE_CHECK;

struct gossip_removed { // by the operator (removed.h)
    uint64_t number;    // 0: no list
    size_t count;
    struct gossip_id ids[LIMIT_REMOVED]; // ascending
    uint8_t signature[64];
};

// Who may take part. The allow-list: one id (64 hex digits) per line, '#' comments. Errors name file and
// line.
struct gossip_allow_list {
    struct gossip_id *ids;
    size_t count;
    bool all; // there is no such list: every node with the secret
    struct gossip_removed removed;
};
enum base_error gossip_allow_list_load(const char *path, struct gossip_allow_list *list,
                                       struct base_reason *why) BASE_CHECK;
// False also for whoever is removed.
bool gossip_allow_list_has(const struct gossip_allow_list *list, const struct gossip_id *id);
void gossip_allow_list_destroy(struct gossip_allow_list *list);

#endif
