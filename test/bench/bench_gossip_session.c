// Seconds to seal and to open 1 MiB messages: `bench_gossip_session [messages]`.
#include "base/buffer.h"
#include "base/error.h"
#include "gossip/session/session.h"
#include "test/support/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES (1u << 20)
#define WIRE_BYTES    (MESSAGE_BYTES + MESSAGE_BYTES / 16)

static const struct gossip_secrets no_secret = {.count = 1};

static struct gossip_session *session_of(bool initiator, struct gossip_identity *identity)
{
    uint8_t seed[32];
    struct gossip_session *session = NULL;
    memset(seed, initiator ? 1 : 2, sizeof seed);
    gossip_identity_from_seed(seed, identity);
    struct gossip_session_options options = {.initiator = initiator,
                                             .identity = identity,
                                             .secrets = &no_secret,
                                             .cluster = "bench",
                                             .message_limit = MESSAGE_BYTES};
    memset(options.entropy, initiator ? 3 : 4, sizeof options.entropy);
    BASE_ASSERT(!gossip_session_create(&options, &session));
    return session;
}

// Passes all of `in` to the session.
static void deliver(struct gossip_session *session, struct base_buffer *in, struct base_buffer *out)
{
    struct gossip_session_event event;
    size_t consumed = 0;
    if (base_buffer_length(in) == 0)
        return;
    BASE_ASSERT(!gossip_session_receive(session, base_buffer_head(in), base_buffer_length(in), &consumed, out,
                                        &event));
    base_buffer_consume(in, consumed);
}

struct halves {
    struct gossip_sealer *sealer[2];
    struct gossip_opener *opener[2];
};

// Seals one message and opens it; adds the seconds of both.
static void turn(struct halves *halves, const uint8_t *message, uint8_t *wire, double *seal_s, double *open_s)
{
    const struct gossip_session_part part = {message, MESSAGE_BYTES};
    struct gossip_opened opened;
    size_t consumed = 0;
    double start_s = bench_now_s();
    BASE_ASSERT(!gossip_sealer_begin(halves->sealer[0], &part, 1));
    const size_t bytes = gossip_sealer_next(halves->sealer[0], wire, WIRE_BYTES);
    BASE_ASSERT(gossip_sealer_idle(halves->sealer[0]));
    *seal_s += bench_now_s() - start_s;
    start_s = bench_now_s();
    BASE_ASSERT(!gossip_opener_take(halves->opener[1], wire, bytes, &consumed, &opened));
    BASE_ASSERT(opened.bytes && consumed == bytes);
    *open_s += bench_now_s() - start_s;
    free(opened.bytes);
}

int main(int count, char **arguments)
{
    const unsigned messages = count > 1 ? (unsigned)strtoul(arguments[1], NULL, 10) : 500;
    struct gossip_identity identity[2];
    struct gossip_session *side[2] = {session_of(true, &identity[0]), session_of(false, &identity[1])};
    struct base_buffer wire[2] = {0};
    uint8_t *message = malloc(MESSAGE_BYTES), *sealed = malloc(WIRE_BYTES);
    struct halves halves;
    double seal_s = 0, open_s = 0, start_s = bench_now_s();
    BASE_ASSERT(message && sealed);
    memset(message, 5, MESSAGE_BYTES);

    BASE_ASSERT(!gossip_session_start(side[0], &wire[0]));
    while (!gossip_session_established(side[1])) {
        deliver(side[1], &wire[0], &wire[1]);
        deliver(side[0], &wire[1], &wire[0]);
    }
    printf("handshake, both ends: %.3f ms\n", 1e3 * (bench_now_s() - start_s));
    for (unsigned i = 0; i < 2; i++)
        BASE_ASSERT(!gossip_session_split(side[i], &halves.sealer[i], &halves.opener[i]));
    for (unsigned i = 0; i < messages; i++)
        turn(&halves, message, sealed, &seal_s, &open_s);
    const double gigabytes = 1e-9 * MESSAGE_BYTES * messages;
    printf("seal: %.2f GB/s\nopen: %.2f GB/s\n", gigabytes / seal_s, gigabytes / open_s);
    for (unsigned i = 0; i < 2; i++) {
        gossip_sealer_destroy(halves.sealer[i]);
        gossip_opener_destroy(halves.opener[i]);
        gossip_session_destroy(side[i]);
        gossip_identity_wipe(&identity[i]);
        base_buffer_free(&wire[i]);
    }
    free(message);
    free(sealed);
    return 0;
}
