// One end against arbitrary bytes: before the handshake, and as raw bytes after it; a responder, or an
// initiator that the other end has called, too. The first byte of the input chooses. Keys and entropy are
// fixed, so every input replays. A peer with the keys is in fuzz_gossip_records.c.
#include "base/cursor.h"
#include "base/limits.h"
#include "gossip/session/noise.h"
#include "gossip/session/session.h"

#include <string.h>

#define MESSAGE_LIMIT 5000u
#define OFFER_BYTES   97u // id, signature, offered AEADs
#define RANGE_BYTES   4u  // of the protocols
#define PAYLOAD_BYTES (OFFER_BYTES + RANGE_BYTES)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct peer {
    struct gossip_identity self, other;
    struct gossip_session *session;
    struct gossip_sealer *sealer; // once established
    struct gossip_opener *opener;
    struct base_buffer in, out;
};

static void begin(struct peer *peer, bool initiator)
{
    static const uint8_t seeds[2][32] = {{1}, {2}};
    static const struct gossip_secrets secrets = {.psk = {{9}, {0}}, .count = 2}; // the peer uses the second
    struct gossip_session_options options = {.initiator = initiator,
                                             .identity = &peer->other,
                                             .secrets = &secrets,
                                             .cluster = "fuzz",
                                             .message_limit = MESSAGE_LIMIT};
    memset(peer, 0, sizeof *peer);
    gossip_identity_from_seed(seeds[0], &peer->self);
    gossip_identity_from_seed(seeds[1], &peer->other);
    memset(options.entropy, 3, sizeof options.entropy);
    BASE_ASSERT(!gossip_session_create(&options, &peer->session));
    BASE_ASSERT(!gossip_session_start(peer->session, &peer->out));
    base_buffer_consume(&peer->out, base_buffer_length(&peer->out));
}

// No input can guess the key.
static bool say_records(struct peer *peer, const uint8_t *bytes, size_t count)
{
    struct gossip_opened message;
    size_t consumed = 0;
    BASE_ASSERT(!base_buffer_append(&peer->in, bytes, count, SIZE_MAX));
    const enum base_error error = gossip_opener_take(peer->opener, base_buffer_head(&peer->in),
                                                     base_buffer_length(&peer->in), &consumed, &message);
    BASE_ASSERT(error != BASE_ESTATE && error != BASE_ENOMEM);
    BASE_ASSERT(consumed == 0 && !message.bytes);
    return !error;
}

static bool say_handshake(struct peer *peer, const uint8_t *bytes, size_t count, size_t *consumed)
{
    struct gossip_session_event event;
    const enum base_error error =
        gossip_session_receive(peer->session, bytes, count, consumed, &peer->out, &event);
    BASE_ASSERT(error != BASE_ESTATE && error != BASE_ENOMEM && *consumed <= count);
    BASE_ASSERT(error || event.kind != GOSSIP_SESSION_NOTHING || *consumed == count);
    if (!error && event.kind == GOSSIP_SESSION_ESTABLISHED)
        BASE_ASSERT(!gossip_session_split(peer->session, &peer->sealer, &peer->opener));
    return !error;
}

// Everything in pieces of `piece` bytes, until it is refused.
static bool say(struct peer *peer, const uint8_t *bytes, size_t count, size_t piece)
{
    while (count > 0) {
        size_t now = count < piece ? count : piece;
        if (!(peer->opener ? say_records(peer, bytes, now) : say_handshake(peer, bytes, now, &now)))
            return false;
        bytes += now;
        count -= now;
    }
    return true;
}

static size_t frame(uint8_t *prefix, size_t bytes)
{
    struct base_writer writer = base_writer_of(prefix, 2);
    base_write_u16(&writer, (uint16_t)bytes);
    return 2 + bytes;
}

// `entropy`: of the ephemeral key. Its public key must be larger than that of the session: an initiator
// answers no smaller one.
static void shake_hands(struct peer *peer, uint8_t entropy[32])
{
    struct gossip_noise_handshake handshake;
    uint8_t prologue[13] = "p2pml", psk[32] = {0}, message[256];
    uint8_t payload[PAYLOAD_BYTES] = {1, 0, 255, 255}; // all protocols
    prologue[5] = 1;                                   // the format of the handshake
    memcpy(prologue + 9, "fuzz", 4);
    const struct gossip_noise_options options = {.initiator = true,
                                                 .prologue = prologue,
                                                 .prologue_bytes = sizeof prologue,
                                                 .static_public = peer->self.exchange_public,
                                                 .static_secret = peer->self.exchange_secret,
                                                 .ephemeral_secret = entropy,
                                                 .psk = psk};
    gossip_noise_begin(&handshake, &options);
    BASE_ASSERT(!gossip_noise_write(&handshake, payload, RANGE_BYTES, message + 2));
    BASE_ASSERT(say(peer, message, frame(message, GOSSIP_NOISE_MESSAGE_0 + RANGE_BYTES), SIZE_MAX));
    BASE_ASSERT(base_buffer_length(&peer->out) == 2 + GOSSIP_NOISE_MESSAGE_1 + PAYLOAD_BYTES);
    BASE_ASSERT(!gossip_noise_read(&handshake, base_buffer_head(&peer->out) + 2,
                                   GOSSIP_NOISE_MESSAGE_1 + PAYLOAD_BYTES, payload));
    memcpy(payload, peer->self.id.bytes, GOSSIP_ID_BYTES);
    memcpy(payload + GOSSIP_ID_BYTES, peer->self.binding, sizeof peer->self.binding);
    payload[OFFER_BYTES - 1] = UINT8_MAX;
    BASE_ASSERT(!gossip_noise_write(&handshake, payload, OFFER_BYTES, message + 2));
    BASE_ASSERT(say(peer, message, frame(message, GOSSIP_NOISE_MESSAGE_2 + OFFER_BYTES), SIZE_MAX));
    BASE_ASSERT(peer->opener != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct peer peer;
    if (size == 0)
        return 0;
    const uint8_t choice = data[0];
    const bool initiator = choice & 128;
    const size_t piece = (choice & 126) == 0 ? SIZE_MAX : (choice & 126) >> 1;
    begin(&peer, initiator);
    if ((choice & 1) == 0) {
        say(&peer, data + 1, size - 1, piece);
        // no input can guess the secret
        BASE_ASSERT(base_buffer_length(&peer.out) == 0 && !peer.opener);
    } else {
        shake_hands(&peer, (uint8_t[32]){16});
        say(&peer, data + 1, size - 1, piece);
    }
    gossip_session_destroy(peer.session);
    gossip_sealer_destroy(peer.sealer);
    gossip_opener_destroy(peer.opener);
    base_buffer_free(&peer.in);
    base_buffer_free(&peer.out);
    return 0;
}
