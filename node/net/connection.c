#include "node/net/connection.h"
#include "base/limits.h"
#include "node/net/connection_private.h"
#include "node/net/resolve.h"
#include "node/queue/clock.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define FINISH_NS    (2 * NODE_SECOND_NS)
#define SILENCE_MS   12000        // bytes unacknowledged for this long end a stream (TCP_USER_TIMEOUT)
#define UNSENT_BYTES (256 * 1024) // in the kernel: a small message waits behind at most these
#define OUT_MESSAGES 4            // messages of the largest size that may wait for a slow reader, and
#define OUT_SMALL    (72 * LIMIT_PROMPT_BYTES) // the packets that waited for this link

// Established and not ending.
static bool is_usable(const struct node_link *link)
{
    return link->established && !link->ended && !link->finishing;
}

bool node_link_is_connecting(const struct node_link *link)
{
    return link->connecting;
}

bool node_link_is_stuck(struct node_link *link, uint64_t now_ns)
{
    struct node_delivery_sample sample;
    return is_usable(link) && !link->stalled && node_delivery_sample(link->socket, &sample) &&
           node_delivery_look(&link->delivery, now_ns, &sample);
}

struct node_link_traffic node_link_traffic(const struct node_link *link)
{
    struct node_link_traffic sum = link->traffic, more = {0};
    if (link->stream)
        node_stream_traffic(link->stream, &more.sent, &more.received);
    sum.sent += more.sent;
    sum.received += more.received;
    return sum;
}

// Small messages must not wait for more, and a vanished host must not look alive for hours. An idle
// connection that a router has forgotten must be noticed (delivery.h).
static void tune(int socket)
{
    int on = 1, idle = 2, interval = 1, count = 3, silence = SILENCE_MS, unsent = UNSENT_BYTES;
    (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    (void)setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence, sizeof silence);
    (void)setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

static enum base_error open_session(const struct node_link_options *options, struct gossip_session **session)
{
    struct gossip_session_options o = {.initiator = options->initiator,
                                       .identity = options->identity,
                                       .secrets = options->secrets,
                                       .cluster = options->cluster,
                                       .protocols = options->protocols,
                                       .message_limit = options->message_limit};
    enum base_error error = BASE_EIO;
    if (getrandom(o.entropy, sizeof o.entropy, 0) == (ssize_t)sizeof o.entropy)
        error = gossip_session_create(&o, session);
    explicit_bzero(&o, sizeof o);
    return error;
}

enum base_error node_link_create(const struct node_link_options *options, struct node_link **out)
{
    enum base_error error = BASE_ENOMEM;
    struct node_link *link = calloc(1, sizeof *link);
    if (!link)
        return BASE_ENOMEM;
    link->socket = -1;
    error = open_session(options, &link->session);
    if (error)
        goto fail;
    link->socket = options->socket;
    link->initiator = link->connecting = options->initiator;
    link->out_limit = OUT_MESSAGES * options->message_limit + OUT_SMALL;
    link->ahead = options->ahead ? options->ahead : NODE_LINK_AHEAD;
    link->streams = options->streams;
    link->counters = options->counters;
    link->handler = options->handler;
    link->owner = options->owner;
    error = BASE_ENOMEM;
    if (!node_link_make_events(link, options->base))
        goto fail;
    tune(link->socket);
    struct timeval wait = node_clock_timeval(options->handshake_ns);
    if ((options->handshake_ns && event_add(link->timeout, &wait) != 0) ||
        event_add(options->initiator ? link->writable : link->readable, NULL) != 0)
        goto fail;
    *out = link;
    return BASE_OK;
fail:
    link->socket = -1; // still the caller's
    node_link_destroy(link);
    return error;
}

void node_link_destroy(struct node_link *link)
{
    if (!link)
        return;
    struct event *events[] = {link->readable, link->writable, link->timeout, link->closing};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            event_free(events[i]);
    if (link->stream)
        node_stream_release(link->stream, link->socket);
    else if (link->socket >= 0)
        close(link->socket);
    gossip_session_destroy(link->session);
    base_buffer_free(&link->out);
    free(link);
}

static enum base_error give(struct node_link *link, uint8_t *message, size_t bytes, bool prompt)
{
    enum base_error error = node_stream_send(link->stream, message, bytes, prompt);
    if (error == BASE_ELIMIT)
        node_link_close(link, error, "the peer reads too slowly");
    else if (error)
        node_link_close(link, error, base_error_name(error));
    return error;
}

enum base_error node_link_give(struct node_link *link, uint8_t *message, size_t bytes)
{
    if (!is_usable(link) || link->stalled || bytes == 0) {
        free(message);
        return bytes == 0 ? BASE_EINVAL : BASE_ESTATE;
    }
    return give(link, message, bytes, false);
}

enum base_error node_link_send(struct node_link *link, const void *message, size_t bytes)
{
    if (!is_usable(link) || link->stalled)
        return BASE_ESTATE;
    uint8_t *copy = bytes > 0 ? malloc(bytes) : NULL;
    if (!copy)
        return bytes > 0 ? BASE_ENOMEM : BASE_EINVAL;
    memcpy(copy, message, bytes);
    return give(link, copy, bytes, bytes <= LIMIT_PROMPT_BYTES);
}

void node_link_finish(struct node_link *link)
{
    if (link->ended || link->finishing)
        return;
    if (!link->established || link->stalled) {
        node_link_close(link, BASE_OK, "finished");
        return;
    }
    BASE_ASSERT(link->stream); // established
    link->finishing = true;
    link->paused = false;
    struct timeval wait = node_clock_timeval(FINISH_NS);
    event_add(link->timeout, &wait);
    node_link_follow_requests(link);
    node_stream_remind(link->stream);
}

// During the handshake; after it, the stream follows its requests by itself.
static void watch(struct node_link *link)
{
    bool on = !link->paused && !link->stalled;
    if (on) {
        event_add(link->readable, NULL);
        node_link_flush(link);
    } else {
        event_del(link->readable);
    }
    if (link->stalled) {
        event_del(link->writable);
        event_del(link->timeout);
    }
}

// `paused` or `stalled` has changed.
static void follow_change(struct node_link *link)
{
    BASE_ASSERT(!link->ended);
    if (!link->stream) {
        watch(link);
        return;
    }
    node_link_follow_requests(link);
    node_stream_remind(link->stream);
}

void node_link_pause(struct node_link *link, bool paused)
{
    if (link->ended || link->connecting || link->paused == paused)
        return;
    link->paused = paused;
    follow_change(link);
}

void node_link_stall(struct node_link *link, bool stalled)
{
    if (link->ended || link->finishing || link->stalled == stalled)
        return;
    link->stalled = stalled;
    follow_change(link);
}

int node_link_take_socket(struct node_link *link)
{
    int s = link->socket;
    BASE_ASSERT(link->ended && (s < 0 || link->stalled)); // the socket of any other link is closed
    link->socket = -1;
    return s;
}

enum node_link_end node_link_end(const struct node_link *link)
{
    return link->end;
}

bool node_link_peer_address(const struct node_link *link, struct node_address *theirs)
{
    theirs->bytes = sizeof theirs->storage;
    return getpeername(link->socket, (struct sockaddr *)&theirs->storage, &theirs->bytes) == 0;
}

bool node_link_address(const struct node_link *link, struct node_address *own)
{
    return node_address_bound(link->socket, own);
}

bool node_link_path(const struct node_link *link, struct node_path *path)
{
    return node_path_of(link->socket, path);
}
