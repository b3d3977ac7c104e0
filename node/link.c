#include "node/link.h"
#include "base/buffer.h"
#include "base/limits.h"
#include "node/clock.h"
#include "node/resolve.h"
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

#define READ_BYTES   (128u * 1024u)
#define READ_TURNS   8 // reads of one link before the others have their turn
#define INPUT_LIMIT  (READ_BYTES + 2u * LIMIT_RECORD_BYTES + LIMIT_HANDSHAKE_BYTES)
#define FINISH_NS    (2 * NODE_SECOND_NS)
#define SILENCE_MS   12000 // unacknowledged bytes for so long end a stream (TCP_USER_TIMEOUT)
#define OUT_MESSAGES 4     // messages of the largest size that may wait for a slow reader

struct node_link {
    int socket;
    bool initiator, connecting, established, finishing, paused, stalled;
    bool deaf;  // the other end takes nothing any more
    bool ended; // `closed` is on its way
    struct gossip_session *session;
    struct base_buffer in, out;
    size_t out_limit;
    struct event *readable, *writable, *timeout, *closing;
    enum base_error end_code;
    enum node_link_end end;
    char end_text[160];
    struct node_link_traffic traffic;
    struct node_counters *counters;
    const struct node_link_handler *handler;
    void *owner;
};

bool node_link_usable(const struct node_link *link)
{
    return link->established && !link->ended && !link->finishing;
}

struct node_link_traffic node_link_traffic(const struct node_link *link)
{
    return link->traffic;
}

void node_link_close(struct node_link *link, enum base_error code, const char *why)
{
    if (link->ended)
        return;
    link->ended = true;
    link->end_code = code;
    snprintf(link->end_text, sizeof link->end_text, "%s", why);
    event_del(link->readable);
    event_del(link->writable);
    event_del(link->timeout);
    if (!link->stalled) {
        close(link->socket);
        link->socket = -1;
    }
    event_active(link->closing, 0, 0); // the owner hears of it from the loop, not from inside its own call
}

static void closing_now(evutil_socket_t socket, short what, void *argument)
{
    (void)socket;
    (void)what;
    struct node_link *link = argument;
    link->handler->closed(link->owner, link->end_code, link->end_text);
}

static void close_errno(struct node_link *link, int error)
{
    if (error == ECONNREFUSED && link->connecting)
        link->end = NODE_LINK_REFUSED;
    else if (error == ECONNRESET || error == EPIPE)
        link->end = NODE_LINK_GONE;
    node_link_close(link, BASE_EIO, strerror(error));
}

// Everything is sent: a finishing link says so to the peer and waits for its end.
static void drained(struct node_link *link)
{
    event_del(link->writable);
    base_buffer_free(&link->out);
    if (link->finishing)
        shutdown(link->socket, SHUT_WR);
}

// The other end takes no more. What it said before, such as its BYE, may still be there to be read, and then
// the end of the stream.
static void write_failed(struct node_link *link, int error)
{
    bool gone = error == EPIPE || error == ECONNRESET;
    if (!gone || !link->established || link->paused || link->finishing || link->deaf) {
        close_errno(link, error);
        return;
    }
    link->deaf = true;
    base_buffer_free(&link->out);
    event_del(link->writable);
    event_active(link->readable, EV_READ, 0);
}

static void flush(struct node_link *link)
{
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
            write_failed(link, errno);
            return;
        }
        base_buffer_consume(&link->out, (size_t)sent);
        link->traffic.sent += (size_t)sent;
        atomic_fetch_add_explicit(&link->counters->bytes_sent, (uint64_t)sent, memory_order_relaxed);
    }
    if (!link->stalled)
        drained(link);
}

static void deliver(struct node_link *link, const struct gossip_session_event *event)
{
    if (event->kind == GOSSIP_SESSION_ESTABLISHED) {
        link->established = true;
        event_del(link->timeout);
        link->handler->established(link->owner, &event->peer);
    } else if (event->kind == GOSSIP_SESSION_MESSAGE) {
        link->handler->message(link->owner, event->message, event->message_bytes);
    }
}

static const char *session_failure(const struct node_link *link, enum base_error code)
{
    if (code == BASE_EAUTH && !link->established)
        return "the handshake failed: another secret, cluster name or protocol version";
    if (code == BASE_EAUTH)
        return "a record failed its check: bytes were changed on the way";
    return link->established ? "broken framing or a message over the limit"
                             : "the handshake was no handshake of ours";
}

// Hands bytes to the session and its events to the owner; returns how many were used up.
static size_t feed(struct node_link *link, const uint8_t *in, size_t count)
{
    size_t at = 0;
    while (!link->ended && !link->paused && !link->stalled && !link->finishing) {
        struct gossip_session_event event = {0};
        size_t used = 0;
        enum base_error code =
            gossip_session_receive(link->session, in + at, count - at, &used, &link->out, &event);
        if (code != BASE_OK) {
            node_link_close(link, code, session_failure(link, code));
            return count;
        }
        at += used;
        deliver(link, &event);
        if (event.kind == GOSSIP_SESSION_NOTHING)
            break;
    }
    return link->finishing || link->ended ? count : at;
}

static void take_bytes(struct node_link *link, const uint8_t *bytes, size_t count)
{
    if (base_buffer_length(&link->in) == 0) { // the common way: no copy of whole records
        size_t used = feed(link, bytes, count);
        bytes += used;
        count -= used;
    }
    if (count == 0 || link->ended)
        return;
    if (base_buffer_append(&link->in, bytes, count, INPUT_LIMIT) != BASE_OK) {
        node_link_close(link, BASE_ELIMIT, "more input than the protocol allows");
        return;
    }
    base_buffer_consume(&link->in, feed(link, base_buffer_head(&link->in), base_buffer_length(&link->in)));
    if (base_buffer_length(&link->in) == 0)
        base_buffer_free(&link->in);
}

// What a pause left behind, before anything new is read.
static void take_leftover(struct node_link *link)
{
    if (base_buffer_length(&link->in) == 0)
        return;
    base_buffer_consume(&link->in, feed(link, base_buffer_head(&link->in), base_buffer_length(&link->in)));
    if (!link->ended && base_buffer_length(&link->out) > 0)
        flush(link);
}

static void peer_closed(struct node_link *link)
{
    link->end = NODE_LINK_GONE;
    if (link->finishing)
        node_link_close(link, BASE_OK, "finished");
    else if (!link->established)
        node_link_close(link, BASE_EAUTH, "closed during the handshake");
    else
        node_link_close(link, BASE_EIO, "the peer closed the connection");
}

static void read_ready(evutil_socket_t socket, short what, void *argument)
{
    (void)what;
    struct node_link *link = argument;
    uint8_t chunk[READ_BYTES];
    take_leftover(link);
    for (int turn = 0; turn < READ_TURNS && !link->ended && !link->paused && !link->stalled; turn++) {
        ssize_t got = recv(socket, chunk, sizeof chunk, 0);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            close_errno(link, errno);
        } else if (got == 0) {
            peer_closed(link);
        } else {
            link->traffic.received += (size_t)got;
            atomic_fetch_add_explicit(&link->counters->bytes_received, (uint64_t)got, memory_order_relaxed);
            take_bytes(link, chunk, (size_t)got);
            if (!link->ended && base_buffer_length(&link->out) > 0)
                flush(link);
        }
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
        node_link_close(link, BASE_OK, "finished, but the peer did not take the end");
    else if (link->connecting)
        node_link_close(link, BASE_EIO, "no answer to the connection");
    else
        node_link_close(link, BASE_EAUTH, "no handshake in time");
}

// Small messages must not wait for more, and a vanished host must not look alive for hours.
static void tune(int socket)
{
    int on = 1, idle = 6, interval = 2, count = 3, silence = SILENCE_MS;
    (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    (void)setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence, sizeof silence);
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
    link->out_limit = OUT_MESSAGES * options->message_limit + LIMIT_RECORD_BYTES;
    link->counters = options->counters;
    link->handler = options->handler;
    link->owner = options->owner;
    code = BASE_ENOMEM;
    if (!make_events(link, options->base))
        goto fail;
    tune(link->socket);
    struct timeval wait = node_clock_timeval(options->handshake_ns);
    if (event_add(link->timeout, &wait) != 0 ||
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
    if (link->socket >= 0)
        close(link->socket);
    gossip_session_destroy(link->session);
    base_buffer_free(&link->in);
    base_buffer_free(&link->out);
    free(link);
}

enum base_error node_link_send(struct node_link *link, const void *message, size_t bytes)
{
    if (!node_link_usable(link) || link->stalled || link->deaf)
        return BASE_ESTATE;
    struct gossip_session_part part = {.data = message, .bytes = bytes};
    enum base_error code = gossip_session_seal(link->session, &part, 1, &link->out, link->out_limit);
    if (code == BASE_ELIMIT)
        node_link_close(link, code, "the peer reads too slowly");
    else if (code != BASE_OK)
        node_link_close(link, code, base_error_name(code));
    else
        flush(link);
    return code;
}

void node_link_finish(struct node_link *link)
{
    if (link->ended || link->finishing)
        return;
    if (!link->established || link->stalled) {
        node_link_close(link, BASE_OK, "finished");
        return;
    }
    link->finishing = true;
    node_link_pause(link, false);
    struct timeval wait = node_clock_timeval(FINISH_NS);
    event_add(link->timeout, &wait);
    flush(link);
}

void node_link_pause(struct node_link *link, bool paused)
{
    if (link->ended || link->connecting || link->paused == paused)
        return;
    link->paused = paused;
    if (link->stalled)
        return;
    if (paused) {
        event_del(link->readable);
    } else {
        event_add(link->readable, NULL);
        event_active(link->readable, EV_READ, 0); // bytes may be waiting in `in`
    }
}

void node_link_stall(struct node_link *link, bool stalled)
{
    if (link->ended || link->finishing || link->stalled == stalled)
        return;
    link->stalled = stalled;
    if (stalled) {
        event_del(link->readable);
        event_del(link->writable);
        event_del(link->timeout);
        return;
    }
    if (!link->paused) {
        event_add(link->readable, NULL);
        event_active(link->readable, EV_READ, 0);
    }
    flush(link);
}

int node_link_take_socket(struct node_link *link)
{
    int s = link->socket;
    link->socket = -1;
    return s;
}

enum node_link_end node_link_end(const struct node_link *link)
{
    return link->end;
}

bool node_link_address(const struct node_link *link, struct node_address *own)
{
    own->bytes = sizeof own->storage;
    return getsockname(link->socket, (struct sockaddr *)&own->storage, &own->bytes) == 0;
}
