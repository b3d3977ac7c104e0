#include "gossip/session/session.h"
#include "base/cursor.h"
#include "base/limits.h"
#include "gossip/session/noise.h"
#include "gossip/wire/message.h"
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC         "p2pml"
#define MAGIC_BYTES   5u
#define PREFIX_BYTES  2u // length of the handshake message or sealed record behind it
#define HEADER_BYTES  4u // length of the message
#define TAG_BYTES     GOSSIP_NOISE_TAG_BYTES
#define RECORD_PLAIN  (LIMIT_RECORD_BYTES - TAG_BYTES)
#define BINDING_BYTES 64u
#define PROOF_BYTES   (GOSSIP_ID_BYTES + BINDING_BYTES) // payload of handshake messages 1 and 2
#define PARTS         3u

_Static_assert(GOSSIP_NOISE_MESSAGE_1 + PROOF_BYTES <= LIMIT_HANDSHAKE_BYTES,
               "the largest handshake message");

enum state { STATE_HANDSHAKE, STATE_OPEN, STATE_DEAD };

struct gossip_session {
    enum state state;
    bool initiator;
    const struct gossip_identity *identity;
    size_t message_limit;
    struct gossip_noise_handshake handshake;
    struct gossip_noise_cipher send, receive;
    struct gossip_id peer;
    struct base_buffer partial; // a frame of which only the beginning has come

    // The message being joined: u32 length and bytes. Records are opened straight into it.
    uint8_t *message;
    size_t message_capacity; // allocated; at most HEADER_BYTES + message_limit
    size_t message_filled;
    size_t message_total; // header included; 0 between messages
};

static void wipe_keys(struct gossip_session *session)
{
    sodium_memzero(&session->handshake, sizeof session->handshake);
    sodium_memzero(&session->send, sizeof session->send);
    sodium_memzero(&session->receive, sizeof session->receive);
}

static enum base_error bury(struct gossip_session *session, enum base_error error)
{
    wipe_keys(session);
    session->state = STATE_DEAD;
    return error;
}

// Magic, protocol number and cluster name: whoever has others derives other keys. The first two have fixed
// lengths, so no two prologues are the same bytes.
static size_t prologue_of(const char *cluster, uint8_t *out, size_t capacity)
{
    struct base_writer writer = base_writer_of(out, capacity);
    base_write_bytes(&writer, MAGIC, MAGIC_BYTES);
    base_write_u32(&writer, GOSSIP_PROTOCOL);
    base_write_bytes(&writer, cluster, strlen(cluster));
    BASE_ASSERT(!writer.failed);
    return base_writer_used(&writer);
}

enum base_error gossip_session_create(const struct gossip_session_options *options,
                                      struct gossip_session **session)
{
    uint8_t prologue[MAGIC_BYTES + 4 + LIMIT_NODE_NAME_BYTES];
    BASE_ASSERT(options->message_limit <= UINT32_MAX);
    BASE_ASSERT(sodium_init() >= 0); // picks the fast implementations; calls after the first do nothing
    struct gossip_session *made = calloc(1, sizeof *made);
    if (made == NULL)
        return BASE_ENOMEM;
    made->state = STATE_HANDSHAKE;
    made->initiator = options->initiator;
    made->identity = options->identity;
    made->message_limit = options->message_limit;
    const struct gossip_noise_options noise = {
        .initiator = options->initiator,
        .prologue = prologue,
        .prologue_bytes = prologue_of(options->cluster, prologue, sizeof prologue),
        .static_public = options->identity->exchange_public,
        .static_secret = options->identity->exchange_secret,
        .ephemeral_secret = options->entropy,
        .psk = options->psk,
    };
    gossip_noise_begin(&made->handshake, &noise);
    *session = made;
    return BASE_OK;
}

void gossip_session_destroy(struct gossip_session *session)
{
    if (session == NULL)
        return;
    if (session->message != NULL)
        sodium_memzero(session->message, session->message_capacity);
    free(session->message);
    base_buffer_free(&session->partial);
    sodium_memzero(session, sizeof *session);
    free(session);
}

bool gossip_session_established(const struct gossip_session *session)
{
    return session->state == STATE_OPEN;
}

static size_t handshake_bytes(unsigned message)
{
    switch (message) {
    case 0:
        return GOSSIP_NOISE_MESSAGE_0;
    case 1:
        return GOSSIP_NOISE_MESSAGE_1 + PROOF_BYTES;
    default:
        return GOSSIP_NOISE_MESSAGE_2 + PROOF_BYTES;
    }
}

// Message 0 has no payload: nothing is told before the peer has shown that it has the psk. The others carry
// the sender's id and its signature over the static key of this handshake.
static enum base_error send_handshake(struct gossip_session *session, struct base_buffer *out)
{
    const unsigned number = session->handshake.next;
    const size_t bytes = handshake_bytes(number);
    uint8_t proof[PROOF_BYTES], *room = NULL;
    memcpy(proof, session->identity->id.bytes, GOSSIP_ID_BYTES);
    memcpy(proof + GOSSIP_ID_BYTES, session->identity->binding, BINDING_BYTES);

    enum base_error error = base_buffer_reserve(out, PREFIX_BYTES + bytes, SIZE_MAX, &room);
    if (error != BASE_OK)
        return error;
    struct base_writer writer = base_writer_of(room, PREFIX_BYTES);
    base_write_u16(&writer, (uint16_t)bytes);
    error =
        gossip_noise_write(&session->handshake, proof, number == 0 ? 0 : PROOF_BYTES, room + PREFIX_BYTES);
    if (error == BASE_OK)
        base_buffer_commit(out, PREFIX_BYTES + bytes);
    return error;
}

static enum base_error read_proof(struct gossip_session *session, const uint8_t proof[PROOF_BYTES])
{
    memcpy(session->peer.bytes, proof, GOSSIP_ID_BYTES);
    if (!gossip_identity_binding_valid(&session->peer, session->handshake.rs, proof + GOSSIP_ID_BYTES))
        return BASE_EAUTH;
    return BASE_OK;
}

static enum base_error receive_handshake(struct gossip_session *session, const uint8_t *message, size_t bytes,
                                         struct base_buffer *out, struct gossip_session_event *event)
{
    uint8_t proof[PROOF_BYTES];
    const bool proven = session->handshake.next > 0;
    enum base_error error = gossip_noise_read(&session->handshake, message, bytes, proof);
    if (error == BASE_OK && proven)
        error = read_proof(session, proof);
    if (error == BASE_OK && session->handshake.next < 3)
        error = send_handshake(session, out);
    if (error != BASE_OK || session->handshake.next < 3)
        return error;
    gossip_noise_split(&session->handshake, &session->send, &session->receive);
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
    return error == BASE_OK ? BASE_OK : bury(session, error);
}

static enum base_error message_ensure(struct gossip_session *session, size_t capacity)
{
    if (capacity <= session->message_capacity)
        return BASE_OK;
    uint8_t *grown = realloc(session->message, capacity);
    if (grown == NULL)
        return BASE_ENOMEM;
    session->message = grown;
    session->message_capacity = capacity;
    return BASE_OK;
}

// The first record of a message holds its length, and no bytes of another message.
static enum base_error read_message_header(struct gossip_session *session)
{
    struct base_reader reader = base_reader_of(session->message, session->message_filled);
    const uint32_t bytes = base_read_u32(&reader);
    if (reader.failed)
        return BASE_EFORMAT;
    if (bytes > session->message_limit)
        return BASE_ELIMIT;
    if (base_reader_left(&reader) > bytes)
        return BASE_EFORMAT;
    session->message_total = HEADER_BYTES + (size_t)bytes;
    return message_ensure(session, session->message_total);
}

static void cipher_step(struct gossip_noise_cipher *cipher)
{
    if (cipher->nonce % LIMIT_REKEY_RECORDS == 0)
        gossip_noise_rekey(cipher);
}

static enum base_error receive_record(struct gossip_session *session, const uint8_t *frame, size_t bytes,
                                      struct gossip_session_event *event)
{
    const size_t plain = bytes - PREFIX_BYTES - TAG_BYTES;
    if (session->message_total == 0)
        session->message_filled = 0;
    enum base_error error = message_ensure(session, session->message_filled + plain);
    if (error == BASE_OK)
        error = gossip_noise_open(&session->receive, frame, PREFIX_BYTES, frame + PREFIX_BYTES,
                                  bytes - PREFIX_BYTES, session->message + session->message_filled);
    if (error != BASE_OK)
        return error;
    cipher_step(&session->receive);
    session->message_filled += plain;
    if (session->message_total == 0) {
        error = read_message_header(session);
        if (error != BASE_OK)
            return error;
    }
    if (session->message_filled == session->message_total) {
        session->message_total = 0;
        event->kind = GOSSIP_SESSION_MESSAGE;
        event->message = session->message + HEADER_BYTES;
        event->message_bytes = session->message_filled - HEADER_BYTES;
    }
    return BASE_OK;
}

// Judges a length prefix before a byte behind it is kept.
static enum base_error check_frame_length(const struct gossip_session *session, size_t bytes)
{
    if (session->state == STATE_HANDSHAKE)
        return bytes == handshake_bytes(session->handshake.next) ? BASE_OK : BASE_EFORMAT;
    if (bytes <= TAG_BYTES) // an empty record says nothing
        return BASE_EFORMAT;
    if (session->message_total == 0)
        return bytes - TAG_BYTES <= HEADER_BYTES + session->message_limit ? BASE_OK : BASE_ELIMIT;
    return bytes - TAG_BYTES <= session->message_total - session->message_filled ? BASE_OK : BASE_EFORMAT;
}

struct input {
    const uint8_t *at;
    size_t left;
};

// Moves input to session->partial until that holds `bytes` bytes or the input ends.
static enum base_error collect(struct gossip_session *session, struct input *in, size_t bytes)
{
    const size_t have = base_buffer_length(&session->partial);
    const size_t missing = bytes > have ? bytes - have : 0;
    const size_t take = missing < in->left ? missing : in->left;
    if (take == 0)
        return BASE_OK;
    enum base_error error =
        base_buffer_append(&session->partial, in->at, take, PREFIX_BYTES + LIMIT_RECORD_BYTES);
    if (error != BASE_OK)
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

// The next whole frame, prefix included: in place where the input holds all of it, else joined in
// session->partial. NULL when more bytes must come.
static enum base_error next_frame(struct gossip_session *session, struct input *in, const uint8_t **frame,
                                  size_t *frame_bytes)
{
    enum base_error error = BASE_OK;
    *frame = NULL;
    if (base_buffer_length(&session->partial) == 0 && in->left >= PREFIX_BYTES) {
        const size_t bytes = frame_length(in->at);
        error = check_frame_length(session, bytes);
        if (error != BASE_OK)
            return error;
        *frame_bytes = PREFIX_BYTES + bytes;
        if (in->left >= *frame_bytes) {
            *frame = in->at;
            in->at += *frame_bytes;
            in->left -= *frame_bytes;
            return BASE_OK;
        }
    }
    error = collect(session, in, PREFIX_BYTES);
    if (error != BASE_OK || base_buffer_length(&session->partial) < PREFIX_BYTES)
        return error;
    *frame_bytes = frame_length(base_buffer_head(&session->partial));
    error = check_frame_length(session, *frame_bytes);
    if (error != BASE_OK)
        return error;
    *frame_bytes += PREFIX_BYTES;
    error = collect(session, in, *frame_bytes);
    if (error == BASE_OK && base_buffer_length(&session->partial) == *frame_bytes)
        *frame = base_buffer_head(&session->partial);
    return error;
}

enum base_error gossip_session_receive(struct gossip_session *session, const uint8_t *in, size_t in_bytes,
                                       size_t *consumed, struct base_buffer *out,
                                       struct gossip_session_event *event)
{
    struct input input = {in, in_bytes};
    *consumed = 0;
    *event = (struct gossip_session_event){.kind = GOSSIP_SESSION_NOTHING};
    if (session->state == STATE_DEAD)
        return BASE_ESTATE;
    if (session->initiator && session->state == STATE_HANDSHAKE && session->handshake.next == 0)
        return BASE_ESTATE; // not started
    while (event->kind == GOSSIP_SESSION_NOTHING && input.left > 0) {
        const uint8_t *frame = NULL;
        size_t bytes = 0;
        enum base_error error = next_frame(session, &input, &frame, &bytes);
        if (error == BASE_OK && frame != NULL)
            error = session->state == STATE_HANDSHAKE
                        ? receive_handshake(session, frame + PREFIX_BYTES, bytes - PREFIX_BYTES, out, event)
                        : receive_record(session, frame, bytes, event);
        if (error != BASE_OK) {
            *event = (struct gossip_session_event){.kind = GOSSIP_SESSION_NOTHING};
            return bury(session, error);
        }
        if (frame != NULL)
            base_buffer_consume(&session->partial, base_buffer_length(&session->partial));
    }
    if (session->state == STATE_OPEN)
        event->peer = session->peer;
    *consumed = in_bytes - input.left;
    return BASE_OK;
}

// Reads the parts of a message, header first, as one stream.
struct gather {
    struct gossip_session_part parts[1 + PARTS];
    size_t part, offset;
};

static void gather_read(struct gather *gather, uint8_t *out, size_t bytes)
{
    while (bytes > 0) {
        BASE_ASSERT(gather->part < 1 + PARTS);
        const struct gossip_session_part *part = &gather->parts[gather->part];
        const size_t left = part->bytes - gather->offset;
        const size_t take = left < bytes ? left : bytes;
        if (take > 0)
            memcpy(out, (const uint8_t *)part->data + gather->offset, take);
        out += take;
        bytes -= take;
        gather->offset += take;
        if (gather->offset == part->bytes) {
            gather->part++;
            gather->offset = 0;
        }
    }
}

static void seal_record(struct gossip_session *session, struct gather *gather, size_t plain, uint8_t *record)
{
    struct base_writer prefix = base_writer_of(record, PREFIX_BYTES);
    base_write_u16(&prefix, (uint16_t)(plain + TAG_BYTES));
    gather_read(gather, record + PREFIX_BYTES, plain);
    gossip_noise_seal(&session->send, record, PREFIX_BYTES, record + PREFIX_BYTES, plain,
                      record + PREFIX_BYTES);
    cipher_step(&session->send);
}

enum base_error gossip_session_seal(struct gossip_session *session, const struct gossip_session_part *parts,
                                    size_t n_parts, struct base_buffer *out, size_t out_limit)
{
    uint8_t header[HEADER_BYTES], *room = NULL;
    struct gather gather = {.parts[0] = {header, HEADER_BYTES}};
    size_t bytes = 0;
    BASE_ASSERT(n_parts <= PARTS);
    if (session->state != STATE_OPEN)
        return BASE_ESTATE;
    for (size_t i = 0; i < n_parts; i++) {
        if (parts[i].bytes > UINT32_MAX - HEADER_BYTES - bytes)
            return BASE_ELIMIT;
        bytes += parts[i].bytes;
        gather.parts[1 + i] = parts[i];
    }
    struct base_writer writer = base_writer_of(header, HEADER_BYTES);
    base_write_u32(&writer, (uint32_t)bytes);

    size_t left = HEADER_BYTES + bytes;
    const size_t records = (left + RECORD_PLAIN - 1) / RECORD_PLAIN;
    const size_t sealed = left + records * (PREFIX_BYTES + TAG_BYTES);
    enum base_error error = base_buffer_reserve(out, sealed, out_limit, &room);
    if (error != BASE_OK)
        return error;
    for (size_t i = 0; i < records; i++) {
        const size_t plain = left < RECORD_PLAIN ? left : RECORD_PLAIN;
        seal_record(session, &gather, plain, room);
        room += PREFIX_BYTES + plain + TAG_BYTES;
        left -= plain;
    }
    base_buffer_commit(out, sealed);
    return BASE_OK;
}
