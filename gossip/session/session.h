// The secure channel of one stream, as a state machine over bytes: Noise_XXpsk0_25519_ChaChaPoly_BLAKE2b
// (Noise Protocol Framework, revision 34), in which both ends agree on the AEAD of what follows. When it is
// done, the session is split into the two halves that carry messages (records.h). No socket, clock or source
// of randomness: bytes and entropy come in, bytes go out. Layouts: README.md.
//
// One owner per session. After any error the session is dead: close the stream.
#ifndef GOSSIP_SESSION_SESSION_H
#define GOSSIP_SESSION_SESSION_H

#include "base/buffer.h"
#include "base/error.h"
#include "gossip/session/aead.h"
#include "gossip/session/identity.h"
#include "gossip/session/records.h"
#include <stdbool.h>

struct gossip_session;

struct gossip_session_options {
    bool initiator;
    const struct gossip_identity *identity; // borrowed for the session's life
    uint8_t psk[32];
    const char *cluster;  // in the prologue, with magic and protocol version
    uint8_t entropy[32];  // fresh random bytes: the ephemeral key
    size_t message_limit; // largest message accepted after the handshake, bytes
    uint8_t aeads;        // bits of enum gossip_aead that may be offered; 0: all
};

enum gossip_session_event_kind {
    GOSSIP_SESSION_NOTHING,     // all input consumed
    GOSSIP_SESSION_ESTABLISHED, // handshake complete: `peer` is authentic; the input not consumed is records
};
struct gossip_session_event {
    enum gossip_session_event_kind kind;
    struct gossip_id peer;
};

// BASE_ENOMEM only. Options are copied (the identity is borrowed).
enum base_error gossip_session_create(const struct gossip_session_options *options,
                                      struct gossip_session **session) BASE_CHECK;
void gossip_session_destroy(struct gossip_session *session); // wipes keys; NULL is fine

// The initiator's first bytes go into `out`. Does nothing for a responder.
enum base_error gossip_session_start(struct gossip_session *session, struct base_buffer *out) BASE_CHECK;

// Takes from in[in_bytes], in any pieces, and reports how much it consumed: all but the bytes
// behind the handshake. Handshake answers are appended to `out`. BASE_EAUTH: the peer lacks the
// secret, has another cluster name or protocol version, or bytes were changed on the way
// (indistinguishable on purpose: a responder has then said nothing). BASE_EFORMAT: broken
// framing, or an offer without ChaChaPoly.
enum base_error gossip_session_receive(struct gossip_session *session, const uint8_t *in, size_t in_bytes,
                                       size_t *consumed, struct base_buffer *out,
                                       struct gossip_session_event *event) BASE_CHECK;

bool gossip_session_established(const struct gossip_session *session);
enum gossip_aead
gossip_session_aead(const struct gossip_session *session); // of an established session's records

// The two halves of an established session, the caller's to destroy. They hold the only copy of the keys: the
// session is unusable afterwards. BASE_ESTATE: not established; BASE_ENOMEM changes nothing.
enum base_error gossip_session_split(struct gossip_session *session, struct gossip_sealer **sealer,
                                     struct gossip_opener **opener) BASE_CHECK;

#endif
