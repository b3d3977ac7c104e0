// The handshake of a link, under the loop's events.
#include "base/limits.h"
#include "node/net/connection_private.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

// The socket moves to the stream thread, with the bytes that followed the handshake.
static enum base_error move_to_stream(struct node_link *link, const uint8_t *in, size_t in_bytes)
{
    struct node_stream_options options = {.socket = link->socket,
                                          .in = in,
                                          .in_bytes = in_bytes,
                                          .out = base_buffer_head(&link->out),
                                          .out_bytes = base_buffer_length(&link->out),
                                          .out_limit = link->out_limit,
                                          .ahead = link->ahead,
                                          .counters = link->counters,
                                          .rx_ready = node_link_rx_ready,
                                          .owner = link};
    BASE_ASSERT(link->session && !link->stream && !link->established && !link->ended);
    enum base_error error = gossip_session_split(link->session, &options.sealer, &options.opener);
    if (error)
        return error;
    error = node_stream_open(link->streams, &options, &link->stream);
    if (error) {
        gossip_sealer_destroy(options.sealer);
        gossip_opener_destroy(options.opener);
        return error;
    }
    event_del(link->readable);
    event_del(link->writable);
    event_del(link->timeout);
    base_buffer_free(&link->out);
    gossip_session_destroy(link->session);
    link->session = NULL;
    link->established = true;
    if (link->paused)
        node_link_follow_requests(link);
    return BASE_OK;
}

void node_link_flush(struct node_link *link)
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
            node_link_close_errno(link, errno);
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
    enum base_error error = gossip_session_receive(link->session, bytes, count, &used, &link->out, &event);
    if (error) {
        node_link_close(
            link, error,
            error == BASE_EAUTH
                ? "the handshake failed: another secret or cluster name, or a p2pml before protocol 18"
                : "it was not a handshake of p2pml");
        return;
    }
    const bool answers = !link->initiator && base_buffer_length(&link->out) > 0;
    node_link_flush(link);
    if (answers && !link->ended && link->handler->answered)
        link->handler->answered(link->owner);
    if (link->ended || event.kind != GOSSIP_SESSION_ESTABLISHED)
        return;
    error = move_to_stream(link, bytes + used, count - used);
    if (!error)
        link->handler->established(link->owner, &event);
    else
        node_link_close(link, error, "out of memory");
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
        node_link_close_errno(link, errno);
    } else if (got == 0) {
        node_link_peer_closed(link);
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
        node_link_close_errno(link, error);
        return;
    }
    BASE_ASSERT(link->connecting && !link->stream); // a call connects once, before there is a stream
    link->connecting = false;
    if (gossip_session_start(link->session, &link->out)) {
        node_link_close(link, BASE_ENOMEM, "out of memory");
        return;
    }
    event_add(link->readable, NULL);
    node_link_flush(link);
}

static void write_ready(evutil_socket_t socket, short what, void *argument)
{
    (void)socket;
    (void)what;
    struct node_link *link = argument;
    if (link->connecting)
        connected(link);
    else
        node_link_flush(link);
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

bool node_link_make_events(struct node_link *link, struct event_base *base)
{
    BASE_ASSERT(link->socket >= 0 && !link->readable);
    link->readable = event_new(base, link->socket, EV_READ | EV_PERSIST, read_ready, link);
    link->writable = event_new(base, link->socket, EV_WRITE, write_ready, link);
    link->timeout = event_new(base, -1, 0, timed_out, link);
    link->closing = event_new(base, -1, 0, node_link_closing_now, link);
    return link->readable && link->writable && link->timeout && link->closing;
}
