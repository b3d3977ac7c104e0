// Seconds to seal and to open 1 MiB messages: `bench_gossip_session [messages]`.
#include "base/buffer.h"
#include "base/error.h"
#include "gossip/session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MESSAGE_BYTES (1u << 20)

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static struct gossip_session *session_of(bool initiator, struct gossip_identity *identity)
{
    uint8_t seed[32];
    struct gossip_session *session = NULL;
    memset(seed, initiator ? 1 : 2, sizeof seed);
    gossip_identity_from_seed(seed, identity);
    struct gossip_session_options options = {
        .initiator = initiator, .identity = identity, .cluster = "bench", .message_limit = MESSAGE_BYTES};
    memset(options.entropy, initiator ? 3 : 4, sizeof options.entropy);
    BASE_ASSERT(gossip_session_create(&options, &session) == BASE_OK);
    return session;
}

// Gives all of `in` to the session; returns the number of messages.
static unsigned deliver(struct gossip_session *session, struct base_buffer *in, struct base_buffer *out)
{
    struct gossip_session_event event;
    unsigned messages = 0;
    size_t consumed = 0;
    while (base_buffer_length(in) > 0) {
        BASE_ASSERT(gossip_session_receive(session, base_buffer_head(in), base_buffer_length(in), &consumed,
                                           out, &event) == BASE_OK);
        base_buffer_consume(in, consumed);
        messages += event.kind == GOSSIP_SESSION_MESSAGE ? 1 : 0;
    }
    return messages;
}

int main(int count, char **arguments)
{
    const unsigned messages = count > 1 ? (unsigned)strtoul(arguments[1], NULL, 10) : 500;
    struct gossip_identity identity[2];
    struct gossip_session *side[2] = {session_of(true, &identity[0]), session_of(false, &identity[1])};
    struct base_buffer wire[2] = {0};
    uint8_t *message = malloc(MESSAGE_BYTES);
    double seal_s = 0, open_s = 0, start_s = now_s();
    unsigned opened = 0;
    BASE_ASSERT(message != NULL);
    memset(message, 5, MESSAGE_BYTES);

    BASE_ASSERT(gossip_session_start(side[0], &wire[0]) == BASE_OK);
    while (!gossip_session_established(side[1])) {
        deliver(side[1], &wire[0], &wire[1]);
        deliver(side[0], &wire[1], &wire[0]);
    }
    printf("handshake, both ends: %.3f ms\n", 1e3 * (now_s() - start_s));
    for (unsigned i = 0; i < messages; i++) {
        const struct gossip_session_part part = {message, MESSAGE_BYTES};
        start_s = now_s();
        BASE_ASSERT(gossip_session_seal(side[0], &part, 1, &wire[0], SIZE_MAX) == BASE_OK);
        seal_s += now_s() - start_s;
        start_s = now_s();
        opened += deliver(side[1], &wire[0], &wire[1]);
        open_s += now_s() - start_s;
    }
    BASE_ASSERT(opened == messages);
    const double gigabytes = 1e-9 * MESSAGE_BYTES * messages;
    printf("seal: %.2f GB/s\nopen: %.2f GB/s\n", gigabytes / seal_s, gigabytes / open_s);
    for (unsigned i = 0; i < 2; i++) {
        gossip_session_destroy(side[i]);
        gossip_identity_wipe(&identity[i]);
        base_buffer_free(&wire[i]);
    }
    free(message);
    return 0;
}
