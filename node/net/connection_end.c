// The end of a link, wherever it shows first: the owner closes it, its socket fails, the stream thread tells.
#include "node/net/connection_private.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void node_link_follow_requests(struct node_link *link)
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

void node_link_close(struct node_link *link, enum base_error error, const char *why)
{
    if (link->ended)
        return;
    BASE_ASSERT(!link->told);
    link->ended = true;
    link->end_code = error;
    snprintf(link->end_text, sizeof link->end_text, "%s", why);
    event_del(link->readable);
    event_del(link->writable);
    event_del(link->timeout);
    if (link->stream) { // node_link_rx_ready tells the owner when the thread has released it
        node_link_follow_requests(link);
        node_stream_remind(link->stream);
        return;
    }
    close_socket(link);
    event_active(link->closing, 0, 0); // the owner hears of it from the loop, not from inside its own call
}

void node_link_closing_now(evutil_socket_t socket, short what, void *argument)
{
    (void)socket;
    (void)what;
    struct node_link *link = argument;
    BASE_ASSERT(link->ended && !link->told); // `closed` comes once
    link->told = true;
    link->handler->closed(link->owner, link->end_code, link->end_text);
}

void node_link_close_errno(struct node_link *link, int error)
{
    BASE_ASSERT(error > 0 && !link->ended);
    if (error == ECONNREFUSED && link->connecting)
        link->end = NODE_LINK_REFUSED;
    else if (error == ECONNRESET || error == EPIPE)
        link->end = NODE_LINK_GONE;
    node_link_close(link, BASE_EIO, strerror(error));
}

void node_link_peer_closed(struct node_link *link)
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
        node_link_peer_closed(link);
    else
        node_link_close_errno(link, end->error);
}

void node_link_rx_ready(void *owner)
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
        node_link_closing_now(-1, 0, link);
    }
}
