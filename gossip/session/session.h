// The secure channel of one stream, as a state machine over bytes: Noise_XXpsk0_25519_ChaChaPoly_BLAKE2b
// (Noise Protocol Framework, revision 34), in which both ends agree on the AEAD of the records. After the
// handshake the session is split into a sealer and an opener, which carry messages (records.h). No socket,
// clock or source of randomness: bytes and entropy come in, bytes go out. Layouts: README.md.
//
// One owner per session. After any error the session is dead: close the stream.
#ifndef GOSSIP_SESSION_SESSION_H
#define GOSSIP_SESSION_SESSION_H

#include "base/buffer.h"
#include "base/error.h"
#include "gossip/session/aead.h"
#include "gossip/session/identity.h"
#include "gossip/session/records.h"
#include "gossip/wire/message.h"
#include <stdbool.h>

struct gossip_session;

struct gossip_session_options {
    bool initiator;
    const struct gossip_identity *identity; // borrowed for the session's life
    const struct gossip_secrets *secrets;   // copied; an initiator uses the first, a responder any
    const char *cluster;                    // in the prologue
    uint8_t entropy[32];                    // fresh random bytes: the ephemeral key
    size_t message_limit;                   // largest accepted message after the handshake, in bytes
    uint8_t aeads;                          // bits of enum gossip_aead that may be offered; 0: all
    struct gossip_protocols protocols;      // spoken by this end; zeros: gossip_own_protocols
};

enum gossip_session_event_kind {
    GOSSIP_SESSION_NOTHING,     // all input consumed
    GOSSIP_SESSION_ESTABLISHED, // the handshake is complete and `peer` is authentic; the input that was not
                                // consumed is records
};
struct gossip_session_event {
    enum gossip_session_event_kind kind;
    struct gossip_id peer;
    struct gossip_protocols protocols; // of the peer
    uint16_t protocol;                 // the highest one that both speak; 0: none, so close the stream
    uint64_t secret;                   // gossip_secret_mark of the one that both have
};

// Options are copied (the identity is borrowed). Fails only with BASE_ENOMEM.
enum base_error gossip_session_create(const struct gossip_session_options *options,
                                      struct gossip_session **session) BASE_CHECK;
void gossip_session_destroy(struct gossip_session *session); // wipes keys; NULL is allowed

// Appends the first bytes of an initiator to `out`. Does nothing for a responder. If both ends of a stream
// are initiators (TCP connects two calls that cross), one of the two becomes the responder by itself.
enum base_error gossip_session_start(struct gossip_session *session, struct base_buffer *out) BASE_CHECK;

// Reads in[in_bytes], which may be any piece of the stream. *consumed is everything except bytes after the
// handshake. Handshake answers are appended to `out`. BASE_EAUTH: the peer lacks every secret, has another
// cluster name, or bytes were modified; these cases cannot be distinguished, on purpose, and a responder has
// then sent nothing; or our own first message has come back. BASE_EFORMAT: invalid framing, an offer without
// ChaChaPoly, or an impossible range of protocols.
enum base_error gossip_session_receive(struct gossip_session *session, const uint8_t *in, size_t in_bytes,
                                       size_t *consumed, struct base_buffer *out,
                                       struct gossip_session_event *event) BASE_CHECK;

bool gossip_session_established(const struct gossip_session *session);
enum gossip_aead
gossip_session_aead(const struct gossip_session *session); // for the records of an established session

// Splits an established session into a sealer and an opener, which the caller destroys. They hold the only
// copy of the keys, so the session is unusable afterwards. BASE_ESTATE: not established. BASE_ENOMEM changes
// nothing.
enum base_error gossip_session_split(struct gossip_session *session, struct gossip_sealer **sealer,
                                     struct gossip_opener **opener) BASE_CHECK;

#endif
