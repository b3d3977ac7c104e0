// Links over a third member: gossip/relay moves the bytes, and each stream has a pair of sockets here. A link
// (session, messages, ends) has one of them as it would have a socket to another host; the other one is read
// and written by this file.
#include "base/buffer.h"
#include "node/peers/private.h"
#include "node/queue/clock.h"
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// Of each direction; the kernel takes about twice as much: what waits here, no message overtakes.
#define SOCKET_BYTES (8 * 1024)
#define LEFT_NS      (10 * NODE_SECOND_NS) // after the end of a link, for what it has sent

struct relayed_end {
    LIST_ENTRY(relayed_end) others;
    struct node_peers *peers;
    uint64_t stream;
    int socket; // the side of this file
    struct event *readable, *writable;
    struct event *patience;     // once `left`
    size_t allowed;             // bytes that may be read
    struct base_buffer waiting; // delivered, not written yet
    bool left;                  // the link has ended; what it has sent may still be read
    bool ending;                // the stream has ended; what it has delivered may still be written
};

static void flush(struct node_peers *peers);

static void step(struct node_peers *peers, struct gossip_relay_event event)
{
    event.now_ns = node_clock_ns();
    (void)!gossip_relay_step(peers->relay, &event); // only LINKED fails: the member counts as not linked
}

static struct relayed_end *end_of(const struct node_peers *peers, uint64_t stream)
{
    struct relayed_end *end;
    LIST_FOREACH(end, &peers->relayed, others)
        if (end->stream == stream && !end->ending)
            return end;
    return NULL;
}

static void drop(struct relayed_end *end)
{
    LIST_REMOVE(end, others);
    if (end->readable)
        event_free(end->readable);
    if (end->writable)
        event_free(end->writable);
    if (end->patience)
        event_free(end->patience);
    close(end->socket);
    base_buffer_free(&end->waiting);
    free(end);
}

// The link has ended, or has no memory: the other end of the stream hears of it.
static void leave(struct relayed_end *end)
{
    struct node_peers *peers = end->peers;
    const struct gossip_relay_event ended = {.kind = GOSSIP_RELAY_ENDED, .stream = end->stream};
    const bool tells = !end->ending;
    drop(end);
    if (tells)
        step(peers, ended);
}

static void read_ready(evutil_socket_t socket, short what, void *argument)
{
    (void)what;
    struct relayed_end *end = argument;
    struct node_peers *peers = end->peers;
    uint8_t bytes[GOSSIP_RELAY_CHUNK];
    BASE_ASSERT(end->allowed > 0 && !end->ending);
    const ssize_t got = recv(socket, bytes, end->allowed < sizeof bytes ? end->allowed : sizeof bytes, 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (got <= 0) {
        leave(end);
    } else {
        const struct gossip_relay_event read = {
            .kind = GOSSIP_RELAY_READ, .stream = end->stream, .bytes = bytes, .count = (size_t)got};
        end->allowed -= (size_t)got;
        if (end->allowed == 0)
            event_del(end->readable);
        step(peers, read);
    }
    flush(peers); // before `bytes` goes
}

// Writes what waits; the other end may send as much again.
static void write_waiting(struct relayed_end *end)
{
    const size_t count = base_buffer_length(&end->waiting);
    const ssize_t sent =
        count > 0 ? send(end->socket, base_buffer_head(&end->waiting), count, MSG_NOSIGNAL) : 0;
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        leave(end);
        return;
    }
    if (sent > 0) {
        base_buffer_consume(&end->waiting, (size_t)sent);
        if (!end->ending)
            step(end->peers, (struct gossip_relay_event){
                                 .kind = GOSSIP_RELAY_WRITTEN, .stream = end->stream, .count = (size_t)sent});
    }
    if (base_buffer_length(&end->waiting) > 0)
        event_add(end->writable, NULL);
    else if (end->ending)
        drop(end); // the link sees the end of its stream
}

static void write_ready(evutil_socket_t socket, short what, void *argument)
{
    (void)socket;
    (void)what;
    struct relayed_end *end = argument;
    struct node_peers *peers = end->peers;
    write_waiting(end);
    flush(peers);
}

// -- making

static bool make_pair(int pair[2])
{
    const int bytes = SOCKET_BYTES;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        return false;
    for (int i = 0; i < 2; i++)
        (void)setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    return true;
}

// The socket for the link of this stream; -1: no descriptor or no memory, and the stream has ended.
static int make_end(struct node_peers *peers, uint64_t stream)
{
    struct relayed_end *end = calloc(1, sizeof *end);
    int pair[2];
    if (!end || !make_pair(pair)) {
        free(end);
        step(peers, (struct gossip_relay_event){.kind = GOSSIP_RELAY_ENDED, .stream = stream});
        return -1;
    }
    *end = (struct relayed_end){.peers = peers, .stream = stream, .socket = pair[1]};
    LIST_INSERT_HEAD(&peers->relayed, end, others);
    end->readable = event_new(peers->options.base, pair[1], EV_READ | EV_PERSIST, read_ready, end);
    end->writable = event_new(peers->options.base, pair[1], EV_WRITE, write_ready, end);
    end->allowed = GOSSIP_RELAY_WINDOW;
    if (!end->readable || !end->writable || event_add(end->readable, NULL) != 0) {
        close(pair[0]);
        leave(end);
        return -1;
    }
    return pair[0];
}

static void name_of(const struct node_peers *peers, const struct gossip_id *id, char name[NODE_ADDRESS_TEXT])
{
    struct gossip_member_info info;
    const bool known = !gossip_membership_find(peers->options.membership, id, &info);
    snprintf(name, NODE_ADDRESS_TEXT, "relay %.50s", known ? info.record->name : "unknown");
}

int peer_relayed_call(struct node_peers *peers, struct peer_link *link, const struct gossip_id *via,
                      const struct gossip_id *peer)
{
    link->relayed = true;
    link->via = *via;
    name_of(peers, via, link->address);
    link->stream = gossip_relay_call(peers->relay, node_clock_ns(), via, peer);
    const int socket = link->stream != 0 ? make_end(peers, link->stream) : -1;
    flush(peers);
    return socket;
}

static void accept_stream(struct node_peers *peers, const struct gossip_relay_action *action)
{
    struct peer_link *link = peer_link_make(peers, "");
    const int socket = make_end(peers, action->stream);
    if (!link || socket < 0)
        goto fail;
    link->relayed = true;
    link->via = action->via;
    link->stream = action->stream;
    name_of(peers, &action->via, link->address);
    link->handle = gossip_links_accept(peers->rules, node_clock_ns(), 0, true, link);
    if (link->handle == 0)
        goto fail;
    (void)peer_link_open(peers, link, socket);
    return;
fail:
    if (socket >= 0)
        close(socket); // the stream ends with it
    if (link)
        peer_link_free(link);
}

static void lost_patience(evutil_socket_t socket, short what, void *argument)
{
    (void)socket;
    (void)what;
    struct relayed_end *end = argument;
    struct node_peers *peers = end->peers;
    leave(end);
    flush(peers);
}

// What the link has sent, such as its BYE, and its end are still read, as they would be from the kernel.
void peer_relayed_left(struct peer_link *link)
{
    struct node_peers *peers = link->peers;
    struct relayed_end *end = link->stream != 0 ? end_of(peers, link->stream) : NULL;
    struct timeval wait = node_clock_timeval(LEFT_NS);
    if (!end)
        return;
    end->left = true;
    event_del(end->writable);
    base_buffer_free(&end->waiting);
    end->patience = event_new(peers->options.base, -1, 0, lost_patience, end);
    if (end->patience && event_add(end->patience, &wait) == 0)
        return;
    leave(end);
    flush(peers);
}

// -- actions

static void send_on(struct node_peers *peers, const struct gossip_relay_action *action)
{
    void *owner;
    (void)gossip_links_active(peers->rules, &action->peer, &owner);
    struct peer_link *link = owner;
    const struct gossip_message message = {.kind = GOSSIP_RELAY, .as.relay = action->message};
    const size_t count = action->message.bytes_bytes;
    size_t header = 0;
    uint8_t *joined = link && link->active && !link->relayed ? malloc(64 + count) : NULL;
    if (!joined)
        return;
    BASE_ASSERT(!gossip_message_encode_header(&message, joined, 64, &header));
    if (count > 0)
        memcpy(joined + header, action->message.bytes, count);
    gossip_links_sent(peers->rules, link->handle, node_clock_ns());
    (void)!node_link_give(link->link, joined, header + count); // if it fails, the link has ended
}

static void deliver(struct node_peers *peers, const struct gossip_relay_action *action)
{
    struct relayed_end *end = end_of(peers, action->stream);
    if (!end || end->left)
        return;
    const bool idle = base_buffer_length(&end->waiting) == 0;
    if (base_buffer_append(&end->waiting, action->bytes, action->count, GOSSIP_RELAY_WINDOW))
        leave(end);
    else if (idle)
        write_waiting(end);
}

static void end_stream(struct node_peers *peers, const struct gossip_relay_action *action)
{
    struct relayed_end *end = end_of(peers, action->stream);
    if (!end)
        return;
    end->ending = true;
    event_del(end->readable);
    if (base_buffer_length(&end->waiting) == 0)
        drop(end);
}

static void allow(struct node_peers *peers, const struct gossip_relay_action *action)
{
    struct relayed_end *end = end_of(peers, action->stream);
    if (!end)
        return;
    end->allowed = action->count;
    if (end->allowed > 0)
        event_add(end->readable, NULL);
    else
        event_del(end->readable);
}

static void carry_out(struct node_peers *peers, const struct gossip_relay_action *action)
{
    switch (action->kind) {
    case GOSSIP_RELAY_SEND:
        send_on(peers, action);
        break;
    case GOSSIP_RELAY_ACCEPT:
        accept_stream(peers, action);
        break;
    case GOSSIP_RELAY_ALLOW:
        allow(peers, action);
        break;
    case GOSSIP_RELAY_DELIVER:
        deliver(peers, action);
        break;
    case GOSSIP_RELAY_END:
        end_stream(peers, action);
        break;
    }
}

static void arm(struct node_peers *peers)
{
    const uint64_t due_ns = gossip_relay_deadline(peers->relay), now_ns = node_clock_ns();
    struct timeval wait = node_clock_timeval(due_ns > now_ns ? due_ns - now_ns + 1000 : 0);
    if (due_ns != UINT64_MAX)
        event_add(peers->relaying, &wait);
}

static void flush(struct node_peers *peers)
{
    struct gossip_relay_action action;
    while (gossip_relay_next(peers->relay, &action))
        carry_out(peers, &action);
    arm(peers);
}

// -- events

void peer_relayed_linked(struct node_peers *peers, const struct gossip_id *peer, bool linked)
{
    step(peers, (struct gossip_relay_event){.kind = linked ? GOSSIP_RELAY_LINKED : GOSSIP_RELAY_UNLINKED,
                                            .peer = *peer});
    flush(peers);
}

void peer_relayed_heard(struct node_peers *peers, const struct gossip_id *peer,
                        const struct gossip_relay_message *message)
{
    step(peers, (struct gossip_relay_event){.kind = GOSSIP_RELAY_HEARD, .peer = *peer, .message = message});
    flush(peers);
}

static void timer_now(evutil_socket_t s, short what, void *argument)
{
    (void)s;
    (void)what;
    struct node_peers *peers = argument;
    step(peers, (struct gossip_relay_event){.kind = GOSSIP_RELAY_TIMER});
    flush(peers);
}

static uint64_t rate_of(const struct node_config *config)
{
    return config->node.relay < 1e9 ? (uint64_t)config->node.relay : GOSSIP_RELAY_ANY;
}

enum base_error peer_relayed_create(struct node_peers *peers)
{
    const struct gossip_relay_options options = {.self = peers->options.identity->id,
                                                 .rate = rate_of(peers->options.config)};
    peers->relaying = event_new(peers->options.base, -1, 0, timer_now, peers);
    return peers->relaying ? gossip_relay_create(&options, &peers->relay) : BASE_ENOMEM;
}

void peer_relayed_destroy(struct node_peers *peers)
{
    while (!LIST_EMPTY(&peers->relayed))
        drop(LIST_FIRST(&peers->relayed));
    if (peers->relaying)
        event_free(peers->relaying);
    gossip_relay_destroy(peers->relay);
}
