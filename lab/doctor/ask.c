#include "lab/doctor/ask.h"

#include "gossip/wire/message.h"
#include "node/net/listener.h"
#include "node/queue/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_NS   (3 * NODE_SECOND_NS)
#define HANDSHAKE_NS (4 * NODE_SECOND_NS) // a node ends it after three seconds
#define GREETING_NS  (3 * NODE_SECOND_NS)
#define LARGE_NS     (3 * NODE_SECOND_NS)
#define LOOK_MS      10
#define LARGE_BYTES  40000u // of a message that is never finished
#define PACKETS      3u     // full ones that are sent of it
#define IDENTITIES   100000u

struct call {
    int socket;
    struct gossip_id self;
    struct gossip_session *session;
    struct gossip_sealer *sealer;
    struct gossip_opener *opener;
    struct base_buffer in, out;
    bool ended; // by the other end
};

enum base_error lab_ask_identity(struct gossip_identity *identity)
{
    uint8_t seed[32];
    for (unsigned i = 0; i < IDENTITIES; i++) {
        if (getrandom(seed, sizeof seed, 0) != (ssize_t)sizeof seed)
            return BASE_EIO;
        gossip_identity_from_seed(seed, identity);
        if (identity->id.bytes[0] == 0 && identity->id.bytes[1] < 16)
            break;
    }
    explicit_bzero(seed, sizeof seed);
    return BASE_OK;
}

static bool wait_for(int socket, short events, uint64_t until_ns)
{
    for (;;) {
        const uint64_t now_ns = node_clock_ns();
        struct pollfd polled = {.fd = socket, .events = events};
        if (now_ns >= until_ns)
            return false;
        const int ready = poll(&polled, 1, (int)((until_ns - now_ns) / NODE_MILLISECOND_NS) + 1);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return false;
    }
}

// -- the connection

static void failed(struct lab_asked *asked, int error)
{
    asked->end = error == ECONNREFUSED ? LAB_ASK_REFUSED
                 : error == ETIMEDOUT  ? LAB_ASK_UNANSWERED
                                       : LAB_ASK_FAILED;
    snprintf(asked->text, sizeof asked->text, "%s", strerror(error));
}

static bool connects(struct call *call, const struct lab_ask_options *options, struct lab_asked *asked)
{
    int error = 0;
    socklen_t bytes = sizeof error;
    call->socket = node_listener_call(options->listener, options->address, NODE_SEGMENTS_FULL);
    if (call->socket < 0) {
        failed(asked, errno);
        return false;
    }
    if (!wait_for(call->socket, POLLOUT, node_clock_ns() + CONNECT_NS))
        error = ETIMEDOUT;
    else
        (void)getsockopt(call->socket, SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error != 0)
        failed(asked, error);
    else
        (void)node_address_bound(call->socket, &asked->own);
    return error == 0;
}

// Into `in`. False: nothing came in time, or the other end has ended the connection.
static bool receives(struct call *call, uint64_t until_ns)
{
    uint8_t *room;
    if (!wait_for(call->socket, POLLIN, until_ns) ||
        base_buffer_reserve(&call->in, 4096, 1u << 20, &room) != BASE_OK)
        return false;
    const ssize_t got = recv(call->socket, room, 4096, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    call->ended = got <= 0;
    if (got > 0)
        base_buffer_commit(&call->in, (size_t)got);
    return got > 0;
}

static bool sends(struct call *call)
{
    const size_t count = base_buffer_length(&call->out);
    const ssize_t sent =
        count > 0 ? send(call->socket, base_buffer_head(&call->out), count, MSG_NOSIGNAL) : 0;
    if (sent > 0)
        base_buffer_consume(&call->out, (size_t)sent);
    return sent == (ssize_t)count; // a handshake fits into the buffer of a new socket
}

// -- handshake and greeting

static bool proves(struct call *call, struct lab_asked *asked)
{
    const uint64_t until_ns = node_clock_ns() + HANDSHAKE_NS;
    struct gossip_session_event event = {0};
    asked->end = LAB_ASK_SILENT;
    if (gossip_session_start(call->session, &call->out) || !sends(call))
        return false;
    while (event.kind != GOSSIP_SESSION_ESTABLISHED) {
        size_t consumed = 0;
        if (!receives(call, until_ns)) {
            asked->end = call->ended ? LAB_ASK_STRANGER : LAB_ASK_SILENT;
            return false;
        }
        if (gossip_session_receive(call->session, base_buffer_head(&call->in), base_buffer_length(&call->in),
                                   &consumed, &call->out, &event)) {
            asked->end = LAB_ASK_STRANGER;
            return false;
        }
        base_buffer_consume(&call->in, consumed);
        if (!sends(call))
            return false;
    }
    asked->peer = event.peer;
    asked->greets_first = gossip_id_compare(&call->self, &event.peer) < 0;
    asked->protocols = event.protocols;
    asked->end = event.protocol == 0 ? LAB_ASK_PROTOCOL : LAB_ASK_MUTE;
    return event.protocol != 0 &&
           gossip_session_split(call->session, &call->sealer, &call->opener) == BASE_OK;
}

static bool understands(struct lab_asked *asked, const struct gossip_opened *opened)
{
    struct gossip_message message;
    if (gossip_message_decode(opened->bytes, opened->count, &message))
        return false;
    if (message.kind == GOSSIP_GREETING) {
        asked->end = LAB_ASK_GREETED;
        asked->greeting = message.as.greeting;
    } else if (message.kind == GOSSIP_BYE) {
        asked->end = LAB_ASK_TURNED_AWAY;
        snprintf(asked->text, sizeof asked->text, "%s", message.as.bye.reason);
    }
    return message.kind == GOSSIP_GREETING || message.kind == GOSSIP_BYE;
}

static void hears(struct call *call, struct lab_asked *asked)
{
    const uint64_t until_ns = node_clock_ns() + GREETING_NS;
    bool done = false;
    while (!done) {
        struct gossip_opened opened = {0};
        size_t consumed = 0;
        if (gossip_opener_take(call->opener, base_buffer_head(&call->in), base_buffer_length(&call->in),
                               &consumed, &opened))
            return;
        base_buffer_consume(&call->in, consumed);
        done = opened.bytes ? understands(asked, &opened) : !receives(call, until_ns);
        free(opened.bytes);
    }
}

// -- full packets

// Begins a message that it never finishes: nothing comes of it at the other end, but TCP acknowledges it.
static bool sends_large(struct call *call, size_t segment)
{
    static const uint8_t zeros[LARGE_BYTES];
    static uint8_t sealed[2 * LARGE_BYTES];
    const struct gossip_session_part part = {zeros, sizeof zeros};
    const size_t count = PACKETS * segment;
    return segment > 0 && count < LARGE_BYTES && gossip_sealer_begin(call->sealer, &part, 1) == BASE_OK &&
           gossip_sealer_next(call->sealer, sealed, sizeof sealed) >= count &&
           send(call->socket, sealed, count, MSG_NOSIGNAL) == (ssize_t)count;
}

static void tries_large(struct call *call, struct lab_asked *asked)
{
    struct node_path now = {0};
    const uint64_t until_ns = node_clock_ns() + LARGE_NS;
    if (!node_path_of(call->socket, &asked->path) || !sends_large(call, asked->path.segment))
        return;
    asked->large = LAB_ASK_VANISHES;
    while (asked->large == LAB_ASK_VANISHES && node_clock_ns() < until_ns) {
        struct pollfd polled = {.fd = call->socket, .events = POLLRDHUP};
        (void)poll(&polled, 1, LOOK_MS);
        // An end: it has read the beginning of the message, which fills the first packet.
        if (polled.revents != 0 || !node_path_of(call->socket, &now) || now.unacked == 0)
            asked->large = LAB_ASK_ARRIVES;
    }
    if (now.mtu > 0) // the network may have told the kernel of a smaller one meanwhile
        asked->path = now;
}

// -- all of it

// Nothing of the call is left behind: the node of this host may call from the same port at once.
static void hang_up(struct call *call)
{
    const struct linger at_once = {.l_onoff = 1};
    gossip_session_destroy(call->session);
    gossip_sealer_destroy(call->sealer);
    gossip_opener_destroy(call->opener);
    base_buffer_free(&call->in);
    base_buffer_free(&call->out);
    if (call->socket < 0)
        return;
    (void)setsockopt(call->socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(call->socket);
}

static bool opens(struct call *call, const struct lab_ask_options *options)
{
    struct gossip_session_options o = {.initiator = true,
                                       .identity = options->identity,
                                       .secrets = options->secrets,
                                       .cluster = options->cluster,
                                       .message_limit = 1u << 20};
    const bool opened = getrandom(o.entropy, sizeof o.entropy, 0) == (ssize_t)sizeof o.entropy &&
                        gossip_session_create(&o, &call->session) == BASE_OK;
    explicit_bzero(&o, sizeof o);
    return opened;
}

void lab_ask(const struct lab_ask_options *options, struct lab_asked *asked)
{
    struct call call = {.socket = -1, .self = options->identity->id};
    *asked = (struct lab_asked){.end = LAB_ASK_FAILED};
    if (!connects(&call, options, asked))
        goto out;
    if (!opens(&call, options)) {
        failed(asked, ENOMEM);
        goto out;
    }
    if (!proves(&call, asked))
        goto out;
    hears(&call, asked);
    (void)node_path_of(call.socket, &asked->path);
    if (asked->end != LAB_ASK_TURNED_AWAY && !call.ended)
        tries_large(&call, asked);
out:
    hang_up(&call);
}
