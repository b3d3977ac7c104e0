// A responder against arbitrary bytes: before the handshake, as raw bytes after it, and, from a peer that has
// the secret, as the plaintext of records. The first byte of the input chooses. Keys and entropy are fixed,
// so every input replays.
#include "base/cursor.h"
#include "base/limits.h"
#include "gossip/session/noise.h"
#include "gossip/session/session.h"
#include "gossip/wire/message.h"

#include <string.h>

#define MESSAGE_LIMIT 5000u
#define PROOF_BYTES   96u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct peer {
    struct gossip_identity self, other;
    struct gossip_noise_cipher send, receive;
    struct gossip_session *session;
    struct base_buffer out;
    size_t messages;
    uint8_t seen; // every byte of every message is read
};

static void begin(struct peer *peer)
{
    static const uint8_t seeds[2][32] = {{1}, {2}};
    struct gossip_session_options options = {
        .identity = &peer->other, .cluster = "fuzz", .message_limit = MESSAGE_LIMIT};
    memset(peer, 0, sizeof *peer);
    gossip_identity_from_seed(seeds[0], &peer->self);
    gossip_identity_from_seed(seeds[1], &peer->other);
    memset(options.entropy, 3, sizeof options.entropy);
    BASE_ASSERT(gossip_session_create(&options, &peer->session) == BASE_OK);
}

// Everything in pieces of `piece` bytes. False when the session has died.
static bool say(struct peer *peer, const uint8_t *bytes, size_t count, size_t piece)
{
    struct gossip_session_event event;
    while (count > 0) {
        size_t consumed = 0;
        const size_t now = count < piece ? count : piece;
        const enum base_error error =
            gossip_session_receive(peer->session, bytes, now, &consumed, &peer->out, &event);
        BASE_ASSERT(error != BASE_ESTATE && error != BASE_ENOMEM && consumed <= now);
        if (error != BASE_OK) {
            BASE_ASSERT(!gossip_session_established(peer->session));
            return false;
        }
        BASE_ASSERT(event.kind != GOSSIP_SESSION_NOTHING || consumed == now);
        if (event.kind == GOSSIP_SESSION_MESSAGE) {
            BASE_ASSERT(event.message_bytes <= MESSAGE_LIMIT);
            for (size_t i = 0; i < event.message_bytes; i++)
                peer->seen ^= event.message[i];
            peer->messages++;
        }
        bytes += consumed;
        count -= consumed;
    }
    return true;
}

static size_t frame(uint8_t *prefix, size_t bytes)
{
    struct base_writer writer = base_writer_of(prefix, 2);
    base_write_u16(&writer, (uint16_t)bytes);
    return 2 + bytes;
}

static void shake_hands(struct peer *peer)
{
    struct gossip_noise_handshake handshake;
    uint8_t prologue[13] = "p2pml", entropy[32] = {4}, psk[32] = {0}, message[256], proof[PROOF_BYTES];
    prologue[5] = GOSSIP_PROTOCOL;
    memcpy(prologue + 9, "fuzz", 4);
    const struct gossip_noise_options options = {.initiator = true,
                                                 .prologue = prologue,
                                                 .prologue_bytes = sizeof prologue,
                                                 .static_public = peer->self.exchange_public,
                                                 .static_secret = peer->self.exchange_secret,
                                                 .ephemeral_secret = entropy,
                                                 .psk = psk};
    gossip_noise_begin(&handshake, &options);
    BASE_ASSERT(gossip_noise_write(&handshake, NULL, 0, message + 2) == BASE_OK);
    BASE_ASSERT(say(peer, message, frame(message, GOSSIP_NOISE_MESSAGE_0), SIZE_MAX));
    BASE_ASSERT(base_buffer_length(&peer->out) == 2 + GOSSIP_NOISE_MESSAGE_1 + PROOF_BYTES);
    BASE_ASSERT(gossip_noise_read(&handshake, base_buffer_head(&peer->out) + 2,
                                  GOSSIP_NOISE_MESSAGE_1 + PROOF_BYTES, proof) == BASE_OK);
    memcpy(proof, peer->self.id.bytes, GOSSIP_ID_BYTES);
    memcpy(proof + GOSSIP_ID_BYTES, peer->self.binding, sizeof peer->self.binding);
    BASE_ASSERT(gossip_noise_write(&handshake, proof, sizeof proof, message + 2) == BASE_OK);
    BASE_ASSERT(say(peer, message, frame(message, GOSSIP_NOISE_MESSAGE_2 + PROOF_BYTES), SIZE_MAX));
    BASE_ASSERT(gossip_session_established(peer->session));
    gossip_noise_split(&handshake, &peer->send, &peer->receive);
}

// Input: u16 length and that many plaintext bytes, for every record.
static void say_records(struct peer *peer, const uint8_t *data, size_t size, size_t piece)
{
    static uint8_t record[2 + LIMIT_RECORD_BYTES];
    struct base_reader reader = base_reader_of(data, size);
    while (base_reader_left(&reader) >= 2) {
        size_t bytes = base_read_u16(&reader) % (LIMIT_RECORD_BYTES - GOSSIP_NOISE_TAG_BYTES + 1);
        if (bytes > base_reader_left(&reader))
            bytes = base_reader_left(&reader);
        const uint8_t *plain = base_read_bytes(&reader, bytes);
        const size_t whole = frame(record, bytes + GOSSIP_NOISE_TAG_BYTES);
        gossip_noise_seal(&peer->send, record, 2, plain, bytes, record + 2);
        if (!say(peer, record, whole, piece))
            return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct peer peer;
    if (size == 0)
        return 0;
    const uint8_t choice = data[0];
    const size_t piece = choice >> 2 == 0 ? SIZE_MAX : choice >> 2;
    begin(&peer);
    if ((choice & 3) == 0) {
        say(&peer, data + 1, size - 1, piece);
        BASE_ASSERT(base_buffer_length(&peer.out) == 0 && peer.messages == 0); // nobody guesses the secret
    } else {
        shake_hands(&peer);
        if ((choice & 3) == 1) {
            say(&peer, data + 1, size - 1, piece);
            BASE_ASSERT(peer.messages == 0);
        } else {
            say_records(&peer, data + 1, size - 1, piece);
        }
    }
    gossip_session_destroy(peer.session);
    base_buffer_free(&peer.out);
    return 0;
}
