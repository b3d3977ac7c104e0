#include "node/net/connection.h"
#include "base/buffer.h"
#include "base/limits.h"
#include "node/net/resolve.h"
#include "node/net/stream.h"
#include "node/queue/clock.h"
#include <errno.h>
#include <event2/event.h>
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

struct node_link {
    int socket;
    bool initiator, connecting, established, finishing, paused, stalled;
    bool ended;                     // `closed` is on its way
    bool told;                      // ... and has arrived
    struct gossip_session *session; // until the other end is authenticated
    struct base_buffer out;         // of the handshake
    struct node_streams *streams;
    struct node_stream *stream; // from then on
    size_t out_limit;
    struct event *readable, *writable, *timeout, *closing;
    enum base_error end_code;
    enum node_link_end end;
    char end_text[160];
    struct node_link_traffic traffic; // of the handshake
    struct node_counters *counters;
    const struct node_link_handler *handler;
    void *owner;
};

// Established and not ending.
static bool is_usable(const struct node_link *link)
{
    return link->established && !link->ended && !link->finishing;
}

bool node_link_is_connecting(const struct node_link *link)
{
    return link->connecting;
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

// Passes the current requests on to the stream.
static void update_events(struct node_link *link)
{
    const struct node_stream_request w = {.paused = link->paused,
                                          .stalled = link->stalled,
                                          .finishing = link->finishing,
                                          .ending = link->ended};
    if (link->stream)
        node_stream_request(link->stream, &w);
}

static void close_socket(struct node_link *link)
{
    BASE_ASSERT(link->ended);
    if (!link->stalled && link->socket >= 0) {
        close(link->socket);
        link->socket = -1;
    }
}

void node_link_close(struct node_link *link, enum base_error code, const char *why)
{
    if (link->ended)
        return;
    BASE_ASSERT(!link->told);
    link->ended = true;
    link->end_code = code;
    snprintf(link->end_text, sizeof link->end_text, "%s", why);
    event_del(link->readable);
    event_del(link->writable);
    event_del(link->timeout);
    if (link->stream) { // on_rx_ready tells the owner when the thread has released it
        update_events(link);
        node_stream_remind(link->stream);
        return;
    }
    close_socket(link);
    event_active(link->closing, 0, 0); // the owner hears of it from the loop, not from inside its own call
}

static void closing_now(evutil_socket_t socket, short what, void *argument)
{
    (void)socket;
    (void)what;
    struct node_link *link = argument;
    BASE_ASSERT(link->ended && !link->told); // `closed` comes once
    link->told = true;
    link->handler->closed(link->owner, link->end_code, link->end_text);
}

static void close_errno(struct node_link *link, int error)
{
    BASE_ASSERT(error > 0 && !link->ended);
    if (error == ECONNREFUSED && link->connecting)
        link->end = NODE_LINK_REFUSED;
    else if (error == ECONNRESET || error == EPIPE)
        link->end = NODE_LINK_GONE;
    node_link_close(link, BASE_EIO, strerror(error));
}

static void peer_closed(struct node_link *link)
{
    BASE_ASSERT(!link->ended);
    link->end = NODE_LINK_GONE;
    if (link->finishing)
        node_link_close(link, BASE_OK, "finished");
    else if (!link->established)
        node_link_close(link, BASE_EAUTH, "closed during the handshake");
    else
        node_link_close(link, BASE_EIO, "the peer closed the connection");
}

// -- established

static void stream_ended(struct node_link *link, const struct node_stream_end *end)
{
    if (end->code == BASE_EAUTH)
        node_link_close(link, end->code, "a record failed its check: bytes were changed on the way");
    else if (end->code == BASE_ENOMEM)
        node_link_close(link, end->code, "out of memory");
    else if (end->code != BASE_EIO)
        node_link_close(link, end->code, "broken framing or a message over the limit");
    else if (end->eof)
        peer_closed(link);
    else
        close_errno(link, end->error);
}

// One message, or the end. `rx_ready` is called again while there is more.
static void on_rx_ready(void *owner)
{
    struct node_link *link = owner;
    struct node_stream_end end;
    size_t count = 0;
    const bool discards = link->ended || link->finishing;
    if (link->told)
        return;
    if (!discards && (link->paused || link->stalled) && !node_stream_ended(link->stream, &end))
        return; // resuming reminds it
    uint8_t *bytes = node_stream_take(link->stream, &count);
    if (bytes && discards) {
        free(bytes);
    } else if (bytes) {
        link->handler->message(link->owner, bytes, count);
    } else if (node_stream_ended(link->stream, &end)) {
        if (link->stalled && !link->ended)
            return; // it goes unnoticed, as on a network that is cut
        if (!link->ended)
            stream_ended(link, &end);
        close_socket(link);
        closing_now(-1, 0, link);
    }
}

// The socket moves to the stream thread, with the bytes that followed the handshake.
static enum base_error move_to_stream(struct node_link *link, const uint8_t *in, size_t in_bytes)
{
    struct node_stream_options options = {.socket = link->socket,
                                          .in = in,
                                          .in_bytes = in_bytes,
                                          .out = base_buffer_head(&link->out),
                                          .out_bytes = base_buffer_length(&link->out),
                                          .out_limit = link->out_limit,
                                          .counters = link->counters,
                                          .rx_ready = on_rx_ready,
                                          .owner = link};
    BASE_ASSERT(link->session && !link->stream && !link->established && !link->ended);
    enum base_error code = gossip_session_split(link->session, &options.sealer, &options.opener);
    if (code != BASE_OK)
        return code;
    code = node_stream_open(link->streams, &options, &link->stream);
    if (code != BASE_OK) {
        gossip_sealer_destroy(options.sealer);
        gossip_opener_destroy(options.opener);
        return code;
    }
    event_del(link->readable);
    event_del(link->writable);
    event_del(link->timeout);
    base_buffer_free(&link->out);
    gossip_session_destroy(link->session);
    link->session = NULL;
    link->established = true;
    if (link->paused)
        update_events(link);
    return BASE_OK;
}

// -- the handshake

static void flush(struct node_link *link)
{
    BASE_ASSERT(!link->stream); // the stream sends what is left of the handshake
    while (!link->stalled && base_buffer_length(&link->out) > 0) {
        ssize_t sent =
            send(link->socket, base_buffer_head(&link->out), base_buffer_length(&link->out), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            event_add(link->writable, NULL);
            return;
        }
        if (sent < 0) {
            close_errno(link, errno);
            return;
        }
        base_buffer_consume(&link->out, (size_t)sent);
        link->traffic.sent += (size_t)sent;
        atomic_fetch_add_explicit(&link->counters->bytes_sent, (uint64_t)sent, memory_order_relaxed);
    }
}

static void take_bytes(struct node_link *link, const uint8_t *bytes, size_t count)
{
    struct gossip_session_event event;
    size_t used = 0;
    enum base_error code = gossip_session_receive(link->session, bytes, count, &used, &link->out, &event);
    if (code != BASE_OK) {
        node_link_close(link, code,
                        code == BASE_EAUTH
                            ? "the handshake failed: another secret, cluster name or protocol version"
                            : "it was not a handshake of p2pml");
        return;
    }
    const bool answers = !link->initiator && base_buffer_length(&link->out) > 0;
    flush(link);
    if (answers && !link->ended && link->handler->answered)
        link->handler->answered(link->owner);
    if (link->ended || event.kind != GOSSIP_SESSION_ESTABLISHED)
        return;
    code = move_to_stream(link, bytes + used, count - used);
    if (code == BASE_OK)
        link->handler->established(link->owner, &event.peer);
    else
        node_link_close(link, code, "out of memory");
}

static void read_ready(evutil_socket_t socket, short what, void *argument)
{
    (void)what;
    struct node_link *link = argument;
    uint8_t chunk[LIMIT_HANDSHAKE_BYTES + 2]; // hardly more than a handshake
    BASE_ASSERT(link->session && !link->stream && !link->ended);
    ssize_t got = recv(socket, chunk, sizeof chunk, 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (got < 0) {
        close_errno(link, errno);
    } else if (got == 0) {
        peer_closed(link);
    } else {
        link->traffic.received += (size_t)got;
        atomic_fetch_add_explicit(&link->counters->bytes_received, (uint64_t)got, memory_order_relaxed);
        take_bytes(link, chunk, (size_t)got);
    }
}

static void connected(struct node_link *link)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(link->socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    if (error != 0) {
        close_errno(link, error);
        return;
    }
    BASE_ASSERT(link->connecting && !link->stream); // a call connects once, before there is a stream
    link->connecting = false;
    if (gossip_session_start(link->session, &link->out) != BASE_OK) {
        node_link_close(link, BASE_ENOMEM, "out of memory");
        return;
    }
    event_add(link->readable, NULL);
    flush(link);
}

static void write_ready(evutil_socket_t socket, short what, void *argument)
{
    (void)socket;
    (void)what;
    struct node_link *link = argument;
    if (link->connecting)
        connected(link);
    else
        flush(link);
}

static void timed_out(evutil_socket_t socket, short what, void *argument)
{
    (void)socket;
    (void)what;
    struct node_link *link = argument;
    if (link->finishing)
        node_link_close(link, BASE_OK, "finished, but the peer did not close in time");
    else if (link->connecting)
        node_link_close(link, BASE_EIO, "no answer to the connection");
    else
        node_link_close(link, BASE_EAUTH, "no handshake in time");
}

// Small messages must not wait for more, and a vanished host must not look alive for hours.
static void tune(int socket)
{
    int on = 1, idle = 6, interval = 2, count = 3, silence = SILENCE_MS, unsent = UNSENT_BYTES;
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
                                       .cluster = options->cluster,
                                       .message_limit = options->message_limit};
    memcpy(o.psk, options->psk, sizeof o.psk);
    enum base_error code = BASE_EIO;
    if (getrandom(o.entropy, sizeof o.entropy, 0) == (ssize_t)sizeof o.entropy)
        code = gossip_session_create(&o, session);
    explicit_bzero(&o, sizeof o);
    return code;
}

static bool make_events(struct node_link *link, struct event_base *base)
{
    BASE_ASSERT(link->socket >= 0 && !link->readable);
    link->readable = event_new(base, link->socket, EV_READ | EV_PERSIST, read_ready, link);
    link->writable = event_new(base, link->socket, EV_WRITE, write_ready, link);
    link->timeout = event_new(base, -1, 0, timed_out, link);
    link->closing = event_new(base, -1, 0, closing_now, link);
    return link->readable && link->writable && link->timeout && link->closing;
}

enum base_error node_link_create(const struct node_link_options *options, struct node_link **out)
{
    enum base_error code = BASE_ENOMEM;
    struct node_link *link = calloc(1, sizeof *link);
    if (!link)
        return BASE_ENOMEM;
    link->socket = -1;
    code = open_session(options, &link->session);
    if (code != BASE_OK)
        goto fail;
    link->socket = options->socket;
    link->initiator = link->connecting = options->initiator;
    link->out_limit = OUT_MESSAGES * options->message_limit + OUT_SMALL;
    link->streams = options->streams;
    link->counters = options->counters;
    link->handler = options->handler;
    link->owner = options->owner;
    code = BASE_ENOMEM;
    if (!make_events(link, options->base))
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
    return code;
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
    enum base_error code = node_stream_send(link->stream, message, bytes, prompt);
    if (code == BASE_ELIMIT)
        node_link_close(link, code, "the peer reads too slowly");
    else if (code != BASE_OK)
        node_link_close(link, code, base_error_name(code));
    return code;
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
    update_events(link);
    node_stream_remind(link->stream);
}

// During the handshake; after it, the stream follows its requests by itself.
static void watch(struct node_link *link)
{
    bool on = !link->paused && !link->stalled;
    if (on) {
        event_add(link->readable, NULL);
        flush(link);
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
    update_events(link);
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

bool node_link_address(const struct node_link *link, struct node_address *own)
{
    return node_address_bound(link->socket, own);
}
