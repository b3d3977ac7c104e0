// The sockets of established links, on the stream thread: turns bytes into messages and messages into bytes.
#include "base/cursor.h"
#include "node/net/stream_private.h"
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

// -- in

static enum base_error add(struct messages *messages, const struct gossip_opened *unsealed)
{
    struct message *message = malloc(sizeof *message);
    if (!message) {
        free(unsealed->bytes);
        return BASE_ENOMEM;
    }
    *message = (struct message){.bytes = unsealed->bytes, .count = unsealed->count};
    STAILQ_INSERT_TAIL(messages, message, next);
    return BASE_OK;
}

// Opens all whole records in bytes[count] and hands their messages over; *used: how many bytes the records
// have.
static enum base_error open_records(struct node_stream *stream, const uint8_t *bytes, size_t count,
                                    size_t *used)
{
    struct messages opened = STAILQ_HEAD_INITIALIZER(opened);
    struct gossip_opened unsealed = {0};
    enum base_error error = BASE_OK;
    size_t at = 0, cost = 0, last = 0;
    do {
        size_t consumed = 0;
        error = gossip_opener_take(stream->opener, bytes + at, count - at, &consumed, &unsealed);
        at += consumed;
        if (!error && unsealed.bytes) {
            last = message_cost(unsealed.count);
            cost += last;
            error = add(&opened, &unsealed);
        }
    } while (!error && unsealed.bytes);
    if (!STAILQ_EMPTY(&opened))
        node_stream_hand_over(stream, &opened, cost, last);
    *used = at;
    return error;
}

// The received bytes are in room[count]. Returns how many bytes of an incomplete record are now at its front.
static size_t take_bytes(struct node_stream *stream, uint8_t *room, size_t count)
{
    size_t used = 0;
    if (stream->requested.finishing)
        return 0;
    enum base_error error = open_records(stream, room, count, &used);
    if (error) {
        node_stream_ends(stream, error, false, 0);
        return 0;
    }
    memmove(room, room + used, count - used);
    return count - used;
}

// One read; returns false when there is no more, now or ever.
static bool read_once(struct node_stream *stream, uint8_t *room, size_t *have)
{
    BASE_ASSERT(*have <= LIMIT_RECORD_BYTES + GOSSIP_RECORD_OVERHEAD); // what `room` has beside one read
    ssize_t got = recv(stream->socket, room + *have, NODE_STREAM_READ, 0);
    if (got < 0 && errno == EINTR)
        return true;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return false;
    if (got <= 0) {
        node_stream_ends(stream, BASE_EIO, got == 0, got < 0 ? errno : 0);
        return false;
    }
    atomic_fetch_add_explicit(&stream->received, (uint64_t)got, memory_order_relaxed);
    atomic_fetch_add_explicit(&stream->counters->bytes_received, (uint64_t)got, memory_order_relaxed);
    *have = take_bytes(stream, room, *have + (size_t)got);
    return false;
}

// Wakes this thread when the rest of a record is there, not for each of its packets: on a slow link there are
// a dozen in a record.
static void await_rest(struct node_stream *stream, const uint8_t *begin, size_t have)
{
    struct base_reader reader = base_reader_of(begin, have);
    const size_t whole = have >= 2 ? base_read_u16(&reader) + 2u : 0;
    const int rest = whole > have ? (int)(whole - have) : 1;
    if (rest == stream->rest)
        return;
    stream->rest = rest;
    (void)setsockopt(stream->socket, SOL_SOCKET, SO_RCVLOWAT, &rest, sizeof rest);
}

// What is there, within a turn.
static void read_available(struct node_stream *stream)
{
    uint8_t *room = stream->streams->room;
    size_t have = base_buffer_length(&stream->in);
    if (have > 0) {
        memcpy(room, base_buffer_head(&stream->in), have);
        base_buffer_free(&stream->in);
        have = take_bytes(stream, room, have); // it has whole records only at the very beginning
    }
    while (!stream->ended && stream->reading && read_once(stream, room, &have))
        ;
    if (stream->ended)
        return;
    await_rest(stream, room, have);
    if (have == 0)
        return;
    if (base_buffer_append(&stream->in, room, have, LIMIT_RECORD_BYTES + GOSSIP_RECORD_OVERHEAD))
        node_stream_ends(stream, BASE_ENOMEM, false, 0);
}

// -- out

static bool seal_prompt(struct node_stream *stream)
{
    struct message *first = STAILQ_FIRST(&stream->prompt);
    struct gossip_session_part part = {first->bytes, first->count};
    uint8_t *room = NULL;
    BASE_ASSERT(first->count <= LIMIT_PROMPT_BYTES);
    if (base_buffer_reserve(&stream->out, first->count + GOSSIP_RECORD_OVERHEAD, SIZE_MAX, &room))
        return false;
    base_buffer_commit(&stream->out, gossip_sealer_prompt(stream->sealer, &part, 1, room));
    node_stream_sealed(stream, &stream->prompt);
    return true;
}

// Seals the records of one large message, as far as there is room.
static bool seal_bulk(struct node_stream *stream)
{
    struct message *first = STAILQ_FIRST(&stream->bulk);
    struct gossip_session_part part = {first->bytes, first->count};
    uint8_t *room = NULL;
    BASE_ASSERT(base_buffer_length(&stream->out) < stream->ahead);
    const size_t left = stream->ahead - base_buffer_length(&stream->out);
    if (base_buffer_reserve(&stream->out, left, stream->ahead, &room))
        return false;
    if (first->count <= LIMIT_PROMPT_BYTES)
        base_buffer_commit(&stream->out, gossip_sealer_prompt(stream->sealer, &part, 1, room));
    else if (!gossip_sealer_idle(stream->sealer) || !gossip_sealer_begin(stream->sealer, &part, 1))
        base_buffer_commit(&stream->out, gossip_sealer_next(stream->sealer, room, left));
    if (!gossip_sealer_idle(stream->sealer))
        return true;
    node_stream_sealed(stream, &stream->bulk);
    return true;
}

// Seals prompt messages first, then as much of the others as may be sealed ahead.
static bool fill(struct node_stream *stream)
{
    bool done = true;
    BASE_ASSERT(!stream->ended && !stream->deaf);
    while (done && !STAILQ_EMPTY(&stream->prompt))
        done = seal_prompt(stream);
    while (done && !stream->requested.ending && !STAILQ_EMPTY(&stream->bulk) &&
           base_buffer_length(&stream->out) + 2 * GOSSIP_PROMPT_SEALED <= stream->ahead)
        done = seal_bulk(stream);
    return done;
}

// The other end does not read any more. Its last messages, such as a BYE, and then the end of the stream may
// still be there to be read.
static void write_failed(struct node_stream *stream, int error)
{
    bool gone = error == EPIPE || error == ECONNRESET;
    BASE_ASSERT(error > 0);
    if (!gone || stream->requested.paused || stream->requested.finishing || stream->deaf) {
        node_stream_ends(stream, BASE_EIO, false, error);
        return;
    }
    stream->deaf = true;
    node_stream_drop(stream);
    if (stream->reading)
        event_active(stream->readable, EV_READ, 0);
}

// False: the socket takes no more, now or ever.
static bool send_sealed(struct node_stream *stream)
{
    BASE_ASSERT(!stream->ended && !stream->deaf);
    while (base_buffer_length(&stream->out) > 0) {
        ssize_t sent = send(stream->socket, base_buffer_head(&stream->out), base_buffer_length(&stream->out),
                            MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            event_add(stream->writable, NULL);
            return false;
        }
        if (sent < 0) {
            write_failed(stream, errno);
            return false;
        }
        base_buffer_consume(&stream->out, (size_t)sent);
        atomic_fetch_add_explicit(&stream->sent, (uint64_t)sent, memory_order_relaxed);
        atomic_fetch_add_explicit(&stream->counters->bytes_sent, (uint64_t)sent, memory_order_relaxed);
    }
    return true;
}

// Everything is sent: a finishing link says so to the peer and waits for its end.
static void drained(struct node_stream *stream)
{
    BASE_ASSERT(base_buffer_length(&stream->out) == 0);
    base_buffer_free(&stream->out);
    if (stream->requested.finishing && !stream->shut)
        shutdown(stream->socket, SHUT_WR);
    stream->shut = stream->requested.finishing;
}

void node_stream_write(struct node_stream *stream)
{
    if (stream->ended || stream->deaf) {
        node_stream_drop(stream);
        return;
    }
    BASE_ASSERT(stream->readable && stream->writable);
    if (!send_sealed(stream))
        return;
    if (!fill(stream)) {
        node_stream_ends(stream, BASE_ENOMEM, false, 0);
        return;
    }
    if (!send_sealed(stream))
        return;
    if (STAILQ_EMPTY(&stream->prompt) && STAILQ_EMPTY(&stream->bulk))
        drained(stream);
    else
        event_active(stream->writable, EV_WRITE, 0); // other streams have their turn first
}

static void read_ready(evutil_socket_t socket, short what, void *argument)
{
    (void)socket;
    (void)what;
    read_available(argument);
}

static void write_ready(evutil_socket_t socket, short what, void *argument)
{
    (void)socket;
    (void)what;
    node_stream_write(argument);
}

bool node_stream_prepare(struct node_stream *stream)
{
    struct event_base *base = stream->streams->base;
    BASE_ASSERT(!stream->readable && !stream->writable);
    stream->readable = event_new(base, stream->socket, EV_READ | EV_PERSIST, read_ready, stream);
    stream->writable = event_new(base, stream->socket, EV_WRITE, write_ready, stream);
    return stream->readable && stream->writable;
}
