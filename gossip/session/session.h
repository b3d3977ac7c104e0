// The secure channel of one stream, as a state machine over bytes: Noise_XXpsk0_25519_ChaChaPoly_BLAKE2b
// (Noise Protocol Framework, revision 34), then sealed records that carry messages of any length. No socket,
// clock or source of randomness: bytes and entropy come in, bytes and messages go out. Layouts:
// gossip/README.md.
//
// One owner per session. After any error the session is dead: close the stream.
#ifndef GOSSIP_SESSION_SESSION_H
#define GOSSIP_SESSION_SESSION_H

#include "base/buffer.h"
#include "base/error.h"
#include "gossip/session/identity.h"
#include <stdbool.h>

struct gossip_session;

struct gossip_session_options {
    bool initiator;
    const struct gossip_identity *identity; // borrowed for the session's life
    uint8_t psk[32];
    const char *cluster;  // in the prologue, with magic and protocol version
    uint8_t entropy[32];  // fresh random bytes: the ephemeral key
    size_t message_limit; // largest message accepted after the handshake, bytes
};

enum gossip_session_event_kind {
    GOSSIP_SESSION_NOTHING,     // all input consumed, or more is needed
    GOSSIP_SESSION_ESTABLISHED, // handshake complete: `peer` is proven
    GOSSIP_SESSION_MESSAGE,     // one whole message: `message`, valid until the next call
};
struct gossip_session_event {
    enum gossip_session_event_kind kind;
    struct gossip_id peer;
    const uint8_t *message;
    size_t message_bytes;
};

// BASE_ENOMEM only. Options are copied (the identity is borrowed).
enum base_error gossip_session_create(const struct gossip_session_options *options,
                                      struct gossip_session **session) BASE_CHECK;
void gossip_session_destroy(struct gossip_session *session); // wipes keys; NULL is fine

// The initiator's first bytes go into `out`. Does nothing for a responder.
enum base_error gossip_session_start(struct gossip_session *session, struct base_buffer *out) BASE_CHECK;

// Takes from in[in_bytes], reports how much it consumed and at most one event; call again until NOTHING.
// Handshake answers are appended to `out`. BASE_EAUTH: the peer lacks the secret, has another cluster name or
// protocol version, or bytes were changed on the way (indistinguishable on purpose: a responder has then said
// nothing). BASE_EFORMAT, BASE_ELIMIT: broken framing, or a message over message_limit.
enum base_error gossip_session_receive(struct gossip_session *session, const uint8_t *in, size_t in_bytes,
                                       size_t *consumed, struct base_buffer *out,
                                       struct gossip_session_event *event) BASE_CHECK;

bool gossip_session_established(const struct gossip_session *session);

// Seals one message, given in up to three parts that are joined, and appends its records to `out` (at most
// out_limit bytes in all; BASE_ELIMIT changes nothing). Only when established.
struct gossip_session_part {
    const void *data;
    size_t bytes;
};
enum base_error gossip_session_seal(struct gossip_session *session, const struct gossip_session_part *parts,
                                    size_t n_parts, struct base_buffer *out, size_t out_limit) BASE_CHECK;

#endif
