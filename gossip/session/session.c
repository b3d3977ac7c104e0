#include "gossip/session/session.h"
#include "base/cursor.h"
#include "base/limits.h"
#include "gossip/session/records_private.h"
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC         "p2pml"
#define MAGIC_BYTES   5u
#define FORMAT        1u // of the handshake, whatever GOSSIP_PROTOCOL is: it never changes with that number
#define PREFIX_BYTES  2u // length of the handshake message after it
#define CROSSED_LABEL "p2pml crossed call" // of the key of an initiator that becomes the responder
#define BINDING_BYTES 64u
#define PROOF_BYTES   (GOSSIP_ID_BYTES + BINDING_BYTES)
#define OFFER_BYTES   1u                                        // the offered AEADs
#define RANGE_BYTES   4u                                        // the least and the most of the protocols
#define PAYLOAD_BYTES (PROOF_BYTES + OFFER_BYTES + RANGE_BYTES) // of message 1, the longest

_Static_assert(GOSSIP_NOISE_MESSAGE_1 + PAYLOAD_BYTES <= LIMIT_HANDSHAKE_BYTES,
               "the largest handshake message");

enum state { STATE_HANDSHAKE, STATE_OPEN, STATE_DEAD }; // dead: after an error, or split

struct gossip_session {
    enum state state;
    bool initiator;
    bool crossed; // a call of the other end has crossed ours
    const struct gossip_identity *identity;
    size_t message_limit;
    uint8_t offered, theirs;              // AEADs
    struct gossip_protocols ours, spoken; // spoken: by the peer
    struct gossip_secrets secrets;        // until the first message of the other end has been read
    struct gossip_noise_handshake handshake;
    struct gossip_noise_handshake responder; // takes the place of an initiator's, if calls cross
    struct gossip_noise_cipher send, receive;
    struct gossip_id peer;
    struct base_buffer partial; // the beginning of a frame that is not complete
};

static void wipe_keys(struct gossip_session *session)
{
    sodium_memzero(&session->secrets, sizeof session->secrets);
    sodium_memzero(&session->handshake, sizeof session->handshake);
    sodium_memzero(&session->responder, sizeof session->responder);
    sodium_memzero(&session->send, sizeof session->send);
    sodium_memzero(&session->receive, sizeof session->receive);
}

static enum base_error bury(struct gossip_session *session, enum base_error error)
{
    BASE_ASSERT(session->state != STATE_DEAD);
    wipe_keys(session);
    session->state = STATE_DEAD;
    return error;
}

// Magic, format and cluster name: a peer with different ones derives different keys. The first two have fixed
// lengths, so different inputs give different prologues.
static size_t prologue_of(const char *cluster, uint8_t *out, size_t capacity)
{
    struct base_writer writer = base_writer_of(out, capacity);
    base_write_bytes(&writer, MAGIC, MAGIC_BYTES);
    base_write_u32(&writer, FORMAT);
    base_write_bytes(&writer, cluster, strlen(cluster));
    BASE_ASSERT(!writer.failed);
    return base_writer_used(&writer);
}

static bool is_range(const struct gossip_protocols *protocols)
{
    return protocols->least >= 1 && protocols->least <= protocols->most;
}

// The highest protocol that both speak; 0: there is none.
static uint16_t agreed(const struct gossip_protocols *ours, const struct gossip_protocols *theirs)
{
    BASE_ASSERT(is_range(ours) && is_range(theirs));
    const uint16_t most = ours->most < theirs->most ? ours->most : theirs->most;
    return most >= ours->least && most >= theirs->least ? most : 0;
}

// An ephemeral key is used in one handshake only.
static void begin_responder(struct gossip_noise_handshake *handshake, const struct gossip_noise_options *call)
{
    struct gossip_noise_options options = *call;
    uint8_t entropy[GOSSIP_NOISE_KEY_BYTES];
    BASE_ASSERT(call->initiator);
    crypto_generichash_blake2b(entropy, sizeof entropy, (const uint8_t *)CROSSED_LABEL, strlen(CROSSED_LABEL),
                               call->ephemeral_secret, GOSSIP_NOISE_KEY_BYTES);
    options.initiator = false;
    options.ephemeral_secret = entropy;
    gossip_noise_begin(handshake, &options);
    sodium_memzero(entropy, sizeof entropy);
}

enum base_error gossip_session_create(const struct gossip_session_options *options,
                                      struct gossip_session **session)
{
    uint8_t prologue[MAGIC_BYTES + 4 + LIMIT_NODE_NAME_BYTES];
    BASE_ASSERT(options->message_limit <= UINT32_MAX);
    BASE_ASSERT(options->secrets->count >= 1 && options->secrets->count <= LIMIT_SECRETS);
    BASE_ASSERT(sodium_init() >= 0); // selects fast implementations; further calls do nothing
    struct gossip_session *made = calloc(1, sizeof *made);
    if (!made)
        return BASE_ENOMEM;
    made->state = STATE_HANDSHAKE;
    made->initiator = options->initiator;
    made->identity = options->identity;
    made->message_limit = options->message_limit;
    made->offered = gossip_aead_offer() & (options->aeads ? options->aeads : UINT8_MAX);
    made->ours = options->protocols.most ? options->protocols : gossip_own_protocols;
    BASE_ASSERT(is_range(&made->ours));
    const struct gossip_noise_options noise = {
        .initiator = options->initiator,
        .prologue = prologue,
        .prologue_bytes = prologue_of(options->cluster, prologue, sizeof prologue),
        .static_public = options->identity->exchange_public,
        .static_secret = options->identity->exchange_secret,
        .ephemeral_secret = options->entropy,
        .psk = options->secrets->psk[0],
    };
    made->secrets = *options->secrets;
    gossip_noise_begin(&made->handshake, &noise);
    if (options->initiator)
        begin_responder(&made->responder, &noise);
    *session = made;
    return BASE_OK;
}

void gossip_session_destroy(struct gossip_session *session)
{
    if (!session)
        return;
    base_buffer_free(&session->partial);
    sodium_memzero(session, sizeof *session);
    free(session);
}

bool gossip_session_established(const struct gossip_session *session)
{
    return session->state == STATE_OPEN;
}

enum gossip_aead gossip_session_aead(const struct gossip_session *session)
{
    BASE_ASSERT(session->state == STATE_OPEN);
    return session->send.aead;
}

static size_t payload_bytes(unsigned message)
{
    static const size_t bytes[] = {RANGE_BYTES, PAYLOAD_BYTES, PROOF_BYTES + OFFER_BYTES};
    BASE_ASSERT(message < sizeof bytes / sizeof *bytes);
    return bytes[message];
}

static size_t handshake_bytes(unsigned message)
{
    static const size_t bytes[] = {GOSSIP_NOISE_MESSAGE_0, GOSSIP_NOISE_MESSAGE_1, GOSSIP_NOISE_MESSAGE_2};
    return bytes[message] + payload_bytes(message);
}

// Message 0 carries only the protocols that the initiator speaks: its id follows once the peer has proved
// that it has the psk. Messages 1 and 2 carry the sender's id, its signature over the static key of this
// handshake, and the AEADs that it has; message 1 the responder's protocols, too. A modified offer or range
// changes the handshake hash.
static void write_payload(const struct gossip_session *session, unsigned message,
                          uint8_t payload[PAYLOAD_BYTES])
{
    struct base_writer writer = base_writer_of(payload, payload_bytes(message));
    if (message > 0) {
        base_write_bytes(&writer, session->identity->id.bytes, GOSSIP_ID_BYTES);
        base_write_bytes(&writer, session->identity->binding, BINDING_BYTES);
        base_write_u8(&writer, session->offered);
    }
    if (message < 2) {
        base_write_u16(&writer, session->ours.least);
        base_write_u16(&writer, session->ours.most);
    }
    BASE_ASSERT(!writer.failed && writer.at == writer.end);
}

static enum base_error send_handshake(struct gossip_session *session, struct base_buffer *out)
{
    const unsigned number = session->handshake.next;
    const size_t bytes = handshake_bytes(number);
    uint8_t payload[PAYLOAD_BYTES], *room = NULL;
    write_payload(session, number, payload);
    enum base_error error = base_buffer_reserve(out, PREFIX_BYTES + bytes, SIZE_MAX, &room);
    if (error)
        return error;
    struct base_writer writer = base_writer_of(room, PREFIX_BYTES);
    base_write_u16(&writer, (uint16_t)bytes);
    error = gossip_noise_write(&session->handshake, payload, payload_bytes(number), room + PREFIX_BYTES);
    if (!error)
        base_buffer_commit(out, PREFIX_BYTES + bytes);
    return error;
}

static enum base_error read_proof(struct gossip_session *session, struct base_reader *payload)
{
    BASE_ASSERT(session->state == STATE_HANDSHAKE && session->handshake.next >= 2);
    memcpy(session->peer.bytes, base_read_bytes(payload, GOSSIP_ID_BYTES), GOSSIP_ID_BYTES);
    if (!gossip_identity_binding_valid(&session->peer, session->handshake.rs,
                                       base_read_bytes(payload, BINDING_BYTES)))
        return BASE_EAUTH;
    session->theirs = base_read_u8(payload);
    return session->theirs & GOSSIP_AEAD_BIT(GOSSIP_AEAD_CHACHAPOLY) ? BASE_OK : BASE_EFORMAT;
}

static enum base_error read_payload(struct gossip_session *session, unsigned message, const uint8_t *bytes)
{
    struct base_reader payload = base_reader_of(bytes, payload_bytes(message));
    if (message > 0) {
        enum base_error error = read_proof(session, &payload);
        if (error)
            return error;
    }
    if (message < 2) {
        session->spoken.least = base_read_u16(&payload);
        session->spoken.most = base_read_u16(&payload);
    }
    BASE_ASSERT(!payload.failed && base_reader_left(&payload) == 0);
    return is_range(&session->spoken) ? BASE_OK : BASE_EFORMAT;
}

// The initiator chose one of the secrets, and does not say which: each is tried, from the same beginning.
// Only symmetric operations are repeated.
static enum base_error read_first(struct gossip_session *session, const uint8_t *message, size_t bytes,
                                  uint8_t payload[PAYLOAD_BYTES])
{
    struct gossip_noise_handshake begun = session->handshake;
    enum base_error error = BASE_EAUTH;
    BASE_ASSERT(!session->initiator && session->secrets.count > 0);
    for (size_t i = 0; i < session->secrets.count && error == BASE_EAUTH; i++) {
        session->handshake = begun;
        memcpy(session->handshake.psk, session->secrets.psk[i], sizeof session->handshake.psk);
        error = gossip_noise_read(&session->handshake, message, bytes, payload);
    }
    sodium_memzero(&begun, sizeof begun);
    return error;
}

// Both ends have called each other over one stream. The larger ephemeral key remains the initiator's, who
// ignores the other message 0; the other end answers as a responder. BASE_EAUTH: our own message has come
// back.
static enum base_error cross(struct gossip_session *session, const uint8_t *message)
{
    const int order = memcmp(session->handshake.e.public_key, message, GOSSIP_NOISE_KEY_BYTES);
    BASE_ASSERT(session->initiator && !session->crossed);
    session->crossed = true;
    if (order < 0) {
        session->initiator = false;
        session->handshake = session->responder;
    }
    return order == 0 ? BASE_EAUTH : BASE_OK;
}

static enum base_error receive_handshake(struct gossip_session *session, const uint8_t *message, size_t bytes,
                                         struct base_buffer *out, struct gossip_session_event *event)
{
    BASE_ASSERT(session->state == STATE_HANDSHAKE && session->handshake.next < 3);
    uint8_t payload[PAYLOAD_BYTES];
    if (session->initiator && bytes == handshake_bytes(0)) {
        enum base_error crossing = cross(session, message);
        if (crossing || session->initiator)
            return crossing;
    }
    const unsigned number = session->handshake.next;
    enum base_error error = number == 0 ? read_first(session, message, bytes, payload)
                                        : gossip_noise_read(&session->handshake, message, bytes, payload);
    sodium_memzero(&session->secrets, sizeof session->secrets);
    sodium_memzero(&session->responder, sizeof session->responder);
    if (!error)
        error = read_payload(session, number, payload);
    if (!error && session->handshake.next < 3)
        error = send_handshake(session, out);
    if (error || session->handshake.next < 3)
        return error;
    event->secret = gossip_secret_mark(session->handshake.psk);
    gossip_noise_split(&session->handshake, gossip_aead_choose(session->offered, session->theirs),
                       &session->send, &session->receive);
    session->state = STATE_OPEN;
    event->kind = GOSSIP_SESSION_ESTABLISHED;
    return BASE_OK;
}

enum base_error gossip_session_start(struct gossip_session *session, struct base_buffer *out)
{
    if (!session->initiator)
        return BASE_OK;
    if (session->state != STATE_HANDSHAKE || session->handshake.next != 0)
        return BASE_ESTATE;
    enum base_error error = send_handshake(session, out);
    return error ? bury(session, error) : BASE_OK;
}

// Checks a length prefix before any byte after it is kept. No two messages of a handshake have one length.
static enum base_error check_frame_length(const struct gossip_session *session, size_t bytes)
{
    const bool crosses = session->initiator && !session->crossed && bytes == handshake_bytes(0);
    return crosses || bytes == handshake_bytes(session->handshake.next) ? BASE_OK : BASE_EFORMAT;
}

struct input {
    const uint8_t *at;
    size_t left;
};

// Moves input to session->partial until that holds `bytes` bytes or the input ends.
static enum base_error collect(struct gossip_session *session, struct input *in, size_t bytes)
{
    BASE_ASSERT(session->state == STATE_HANDSHAKE);
    const size_t have = base_buffer_length(&session->partial);
    const size_t missing = bytes > have ? bytes - have : 0;
    const size_t take = missing < in->left ? missing : in->left;
    if (take == 0)
        return BASE_OK;
    enum base_error error =
        base_buffer_append(&session->partial, in->at, take, PREFIX_BYTES + LIMIT_HANDSHAKE_BYTES);
    if (error)
        return error;
    in->at += take;
    in->left -= take;
    return BASE_OK;
}

static size_t frame_length(const uint8_t *prefix)
{
    struct base_reader reader = base_reader_of(prefix, PREFIX_BYTES);
    return base_read_u16(&reader);
}

// Collects the next whole message, including its prefix, in session->partial; *frame_bytes is 0 if more bytes
// are needed.
static enum base_error next_frame(struct gossip_session *session, struct input *in, size_t *frame_bytes)
{
    *frame_bytes = 0;
    enum base_error error = collect(session, in, PREFIX_BYTES);
    if (error || base_buffer_length(&session->partial) < PREFIX_BYTES)
        return error;
    const size_t bytes = frame_length(base_buffer_head(&session->partial));
    error = check_frame_length(session, bytes);
    if (!error)
        error = collect(session, in, PREFIX_BYTES + bytes);
    if (!error && base_buffer_length(&session->partial) == PREFIX_BYTES + bytes)
        *frame_bytes = PREFIX_BYTES + bytes;
    return error;
}

enum base_error gossip_session_receive(struct gossip_session *session, const uint8_t *in, size_t in_bytes,
                                       size_t *consumed, struct base_buffer *out,
                                       struct gossip_session_event *event)
{
    struct input input = {in, in_bytes};
    *consumed = 0;
    *event = (struct gossip_session_event){.kind = GOSSIP_SESSION_NOTHING};
    if (session->state != STATE_HANDSHAKE)
        return BASE_ESTATE;
    if (session->initiator && session->handshake.next == 0)
        return BASE_ESTATE; // not started
    while (event->kind == GOSSIP_SESSION_NOTHING && input.left > 0) {
        size_t bytes = 0;
        enum base_error error = next_frame(session, &input, &bytes);
        if (!error && bytes > 0)
            error = receive_handshake(session, base_buffer_head(&session->partial) + PREFIX_BYTES,
                                      bytes - PREFIX_BYTES, out, event);
        if (error) {
            *event = (struct gossip_session_event){.kind = GOSSIP_SESSION_NOTHING};
            return bury(session, error);
        }
        base_buffer_consume(&session->partial, bytes);
    }
    if (session->state == STATE_OPEN) {
        event->peer = session->peer;
        event->protocols = session->spoken;
        event->protocol = agreed(&session->ours, &session->spoken);
    }
    BASE_ASSERT(session->state != STATE_DEAD && input.left <= in_bytes);
    *consumed = in_bytes - input.left;
    return BASE_OK;
}

enum base_error gossip_session_split(struct gossip_session *session, struct gossip_sealer **sealer,
                                     struct gossip_opener **opener)
{
    if (session->state != STATE_OPEN)
        return BASE_ESTATE;
    BASE_ASSERT(session->send.aead == session->receive.aead);
    struct gossip_sealer *made = gossip_sealer_create(&session->send);
    struct gossip_opener *other = gossip_opener_create(&session->receive, session->message_limit);
    if (!made || !other) {
        gossip_sealer_destroy(made);
        gossip_opener_destroy(other);
        return BASE_ENOMEM;
    }
    *sealer = made;
    *opener = other;
    return bury(session, BASE_OK);
}
