// Sealed datagrams between members (DESIGN: secure channel). XChaCha20-Poly1305 under a key for each ordered
// pair, derived from static-static X25519, the cluster secret, cluster name and the number of the datagrams'
// format. The receiver's generation is authenticated, so a datagram to an earlier process of a node does not
// open. A sliding window refuses replays. A datagram that does not open is dropped without an answer. Layout:
// DATAGRAMS.md.
//
// No socket, clock or randomness. One owner. Secrets are wiped by destroy.
#ifndef GOSSIP_SESSION_DATAGRAM_H
#define GOSSIP_SESSION_DATAGRAM_H

#include "base/error.h"
#include "base/limits.h"
#include "gossip/session/identity.h"

struct gossip_datagrams;

struct gossip_datagrams_options {
    const struct gossip_identity *identity; // borrowed until destroy
    const struct gossip_secrets *secrets;   // copied; seals with the first, opens with any
    const char *cluster;
    uint64_t generation; // of this node: part of the nonce of its datagrams, and expected in those that it
                         // receives
    uint8_t entropy[8];  // fresh: keeps nonces different even if a copy of this node runs with the same
                         // generation
};

enum base_error gossip_datagrams_create(const struct gossip_datagrams_options *options,
                                        struct gossip_datagrams **datagrams) BASE_CHECK;
void gossip_datagrams_destroy(struct gossip_datagrams *datagrams); // NULL is allowed
void gossip_datagrams_generation(struct gossip_datagrams *datagrams,
                                 uint64_t generation); // of this node; it can only rise
// Other secrets. Counters, windows and generations of all peers stay. BASE_ENOMEM: nothing has changed.
enum base_error gossip_datagrams_secrets(struct gossip_datagrams *datagrams,
                                         const struct gossip_secrets *secrets) BASE_CHECK;

// Adds or updates a peer from its member record. A higher generation than before begins a new replay window;
// a lower one is ignored. BASE_ELIMIT: over LIMIT_MEMBERS. BASE_EAUTH: an exchange key of small order.
// BASE_EINVAL: this node's own id. BASE_ENOMEM.
enum base_error gossip_datagrams_peer(struct gossip_datagrams *datagrams, const struct gossip_id *peer,
                                      const uint8_t exchange_public[32], uint64_t generation) BASE_CHECK;
void gossip_datagrams_forget(struct gossip_datagrams *datagrams, const struct gossip_id *peer);

// sealed[LIMIT_DATAGRAM_BYTES]; plaintext at most LIMIT_DATAGRAM_BYTES - LIMIT_DATAGRAM_OVERHEAD bytes
// (BASE_ELIMIT). BASE_ENOTFOUND: no such peer. Only a process of `generation` opens it; 0: the highest known
// one.
enum base_error gossip_datagram_seal(struct gossip_datagrams *datagrams, const struct gossip_id *peer,
                                     uint64_t generation, const uint8_t *plain, size_t plain_bytes,
                                     uint8_t *sealed, size_t *sealed_bytes) BASE_CHECK;
// plain[LIMIT_DATAGRAM_BYTES]. After an error the state is unchanged, and no answer may be sent.
// BASE_EFORMAT: too short or too long. BASE_ENOTFOUND: unknown sender. BASE_EAUTH: forged, modified,
// reflected, or meant for an earlier process of this node. BASE_ESTATE: a replay, or too old.
enum base_error gossip_datagram_open(struct gossip_datagrams *datagrams, const uint8_t *sealed,
                                     size_t sealed_bytes, uint8_t *plain, size_t *plain_bytes,
                                     struct gossip_id *peer) BASE_CHECK;

#endif
