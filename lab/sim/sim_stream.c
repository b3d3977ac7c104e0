// Each direction of a stream is a queue of chunks with one of them under way. A chunk that meets a cut
// network is sent again with growing pauses, as by TCP; after 15 s the sender's end receives the timeout.
// Data for a closed end is answered by a reset.
#include "lab/sim/sim_stream.h"
#include "base/array.h"

#include <stdlib.h>

#define RETRY_NS      (200 * SIM_MS)
#define RETRY_MOST_NS (2 * SIM_SECOND)
#define GIVE_UP_NS    (15 * SIM_SECOND)

struct chunk {
    struct chunk *next;
    uint8_t *bytes; // NULL: the end of this direction
    size_t count;
    enum sim_end end;
    uint64_t due_ns;
};

struct sim_stream {
    size_t host[2];   // caller, called
    bool open[2];     // this end is held by its process
    bool answered;    // the caller knows that it is connected
    bool finished[2]; // closed in order: further data is read and dropped
    struct {          // towards the other end
        struct chunk *first, **last;
        bool under_way;      // an event for the head is in the queue
        uint64_t due_ns;     // of the latest chunk, so that none overtakes another
        uint64_t stalled_ns; // time since which the head is blocked; 0: not blocked
        unsigned tries;
    } way[2];
};

static struct sim_stream *find(const struct sim_net *net, uint64_t id)
{
    return id < net->n_streams ? net->stream[id] : NULL;
}

static size_t side_of(const struct sim_stream *stream, size_t host)
{
    return stream->host[0] == host ? 0 : 1;
}

static void clear(struct sim_stream *stream, size_t side)
{
    while (stream->way[side].first) {
        struct chunk *chunk = stream->way[side].first;
        stream->way[side].first = chunk->next;
        free(chunk->bytes);
        free(chunk);
    }
    stream->way[side].last = &stream->way[side].first;
}

static void end(struct sim_net *net, uint64_t id, size_t side, enum sim_end how)
{
    struct sim_stream *stream = net->stream[id];

    if (!stream->open[side])
        return;
    stream->open[side] = false;
    clear(stream, side);
    const struct sim_input input = {.kind = SIM_IN_ENDED, .stream = id, .end = how};
    net->tell(net->owner, stream->host[side], &input);
}

static void send_head(struct sim_net *net, uint64_t id, size_t side, uint64_t at_ns);

static void reset_arrives(void *owner, struct sim_event *event)
{
    struct sim_net *net = owner;
    struct sim_stream *stream = net->stream[event->a];

    if (sim_net_open(net, stream->host[1 - event->b], stream->host[event->b]))
        end(net, event->a, (size_t)event->b, SIM_END_RESET);
}

static void reset(struct sim_net *net, uint64_t id, size_t side)
{
    struct sim_stream *stream = net->stream[id];
    const struct sim_event event = {.time_ns = sim_net_due(net, stream->host[1 - side], stream->host[side]),
                                    .run = reset_arrives,
                                    .owner = net,
                                    .a = id,
                                    .b = side};

    sim_queue_push(net->queue, &event);
}

static void pass(struct sim_net *net, uint64_t id, size_t side)
{
    struct sim_stream *stream = net->stream[id];
    struct chunk *chunk = stream->way[side].first;

    stream->way[side].first = chunk->next;
    if (!chunk->next)
        stream->way[side].last = &stream->way[side].first;
    if (!stream->open[1 - side]) {
        if (chunk->bytes && !stream->finished[1 - side])
            reset(net, id, side);
    } else if (chunk->bytes) {
        const struct sim_input input = {
            .kind = SIM_IN_RECEIVED, .stream = id, .bytes = chunk->bytes, .count = chunk->count};
        net->tell(net->owner, stream->host[1 - side], &input);
    } else {
        end(net, id, 1 - side, chunk->end);
    }
    free(chunk->bytes);
    free(chunk);
    if (stream->way[side].first)
        send_head(net, id, side, stream->way[side].first->due_ns);
}

static void stall(struct sim_net *net, uint64_t id, size_t side)
{
    struct sim_stream *stream = net->stream[id];
    uint64_t pause_ns = RETRY_NS << (stream->way[side].tries < 8 ? stream->way[side].tries : 8);

    if (!stream->way[side].tries++)
        stream->way[side].stalled_ns = net->queue->now_ns;
    if (net->queue->now_ns - stream->way[side].stalled_ns >= GIVE_UP_NS) {
        clear(stream, side);
        stream->finished[side] = false; // its end of the stream will not arrive: data gets a reset
        end(net, id, side, SIM_END_TIMEOUT);
        return;
    }
    send_head(net, id, side, net->queue->now_ns + (pause_ns < RETRY_MOST_NS ? pause_ns : RETRY_MOST_NS));
}

static void head_arrives(void *owner, struct sim_event *event)
{
    struct sim_net *net = owner;
    uint64_t id = event->a;
    size_t side = (size_t)event->b;
    struct sim_stream *stream = net->stream[id];
    size_t from = stream->host[side], to = stream->host[1 - side];

    stream->way[side].under_way = false;
    if (!stream->way[side].first)
        return;
    bool early = side == 1 && !stream->answered; // the answer to the call is still under way
    if (!early && sim_net_open(net, from, to) && sim_net_open(net, to, from)) {
        stream->way[side].tries = 0;
        pass(net, id, side);
    } else {
        stall(net, id, side);
    }
}

static void send_head(struct sim_net *net, uint64_t id, size_t side, uint64_t at_ns)
{
    struct sim_stream *stream = net->stream[id];
    const struct sim_event event = {.time_ns = at_ns, .run = head_arrives, .owner = net, .a = id, .b = side};

    if (stream->way[side].under_way)
        return;
    stream->way[side].under_way = true;
    sim_queue_push(net->queue, &event);
}

static void put(struct sim_net *net, uint64_t id, size_t side, struct chunk what, size_t wire_bytes)
{
    struct sim_stream *stream = net->stream[id];
    struct chunk *chunk = sim_copy(&what, sizeof what);
    uint64_t due_ns = sim_net_due_of(net, stream->host[side], stream->host[1 - side], wire_bytes);

    if (due_ns > stream->way[side].due_ns)
        stream->way[side].due_ns = due_ns;
    chunk->due_ns = stream->way[side].due_ns;
    *stream->way[side].last = chunk;
    stream->way[side].last = &chunk->next;
    send_head(net, id, side, stream->way[side].first->due_ns);
}

static void put_end(struct sim_net *net, uint64_t id, size_t side, enum sim_end how)
{
    put(net, id, side, (struct chunk){.end = how}, 1);
}

static void call_answered(void *owner, struct sim_event *event)
{
    struct sim_net *net = owner;
    struct sim_stream *stream = net->stream[event->a];

    if (!stream->open[0] || !sim_net_open(net, stream->host[1], stream->host[0]))
        return;
    stream->answered = true;
    stream->open[0] = event->b;
    const struct sim_input input = {.kind = event->b ? SIM_IN_CONNECTED : SIM_IN_REFUSED, .stream = event->a};
    net->tell(net->owner, stream->host[0], &input);
}

static void call_arrives(void *owner, struct sim_event *event)
{
    struct sim_net *net = owner;
    struct sim_stream *stream = net->stream[event->a];
    size_t from = stream->host[0], to = stream->host[1];
    struct sim_event again = {.run = call_arrives, .owner = net, .a = event->a, .b = event->b + 1};

    if (!stream->open[0])
        return;
    if (!sim_net_callable(net, from, to) || !sim_net_open(net, to, from)) { // SYN again after 1, 2, 4, 8 s
        again.time_ns = net->queue->now_ns + (SIM_SECOND << event->b);
        if (event->b < 4)
            sim_queue_push(net->queue, &again);
        return;
    }
    again.run = call_answered;
    again.b = net->state[to] == SIM_HOST_OPEN && !net->shut[to];
    again.time_ns = sim_net_due(net, to, from);
    sim_queue_push(net->queue, &again);
    if (again.b) {
        stream->open[1] = true;
        const struct sim_input input = {.kind = SIM_IN_ACCEPTED, .stream = event->a, .from = from};
        net->tell(net->owner, to, &input);
    }
}

static uint64_t add(struct sim_net *net, size_t from, size_t to)
{
    struct sim_stream *stream = sim_must(calloc(1, sizeof *stream));

    net->stream = sim_must(base_array_grow(net->stream, net->n_streams, sizeof(struct sim_stream *)));
    stream->host[0] = from;
    stream->host[1] = to;
    stream->open[0] = true;
    stream->way[0].last = &stream->way[0].first;
    stream->way[1].last = &stream->way[1].first;
    net->stream[net->n_streams] = stream;
    return net->n_streams++;
}

uint64_t sim_net_join(struct sim_net *net, size_t from, size_t to)
{
    uint64_t id = add(net, from, to);

    net->stream[id]->open[1] = net->stream[id]->answered = true;
    return id;
}

uint64_t sim_net_call(struct sim_net *net, size_t from, size_t to)
{
    uint64_t id = add(net, from, to);
    const struct sim_event event = {
        .time_ns = sim_net_due(net, from, to), .run = call_arrives, .owner = net, .a = id};
    sim_queue_push(net->queue, &event);
    return id;
}

void sim_net_write(struct sim_net *net, size_t host, uint64_t id, const uint8_t *bytes, size_t count,
                   size_t wire_bytes)
{
    struct sim_stream *stream = find(net, id);
    size_t side = side_of(stream, host);

    if (stream->open[side] && count)
        put(net, id, side, (struct chunk){.bytes = sim_copy(bytes, count), .count = count}, wire_bytes);
}

void sim_net_close(struct sim_net *net, size_t host, uint64_t id)
{
    struct sim_stream *stream = find(net, id);
    size_t side = side_of(stream, host);

    if (!stream->open[side])
        return;
    stream->open[side] = false;
    stream->finished[side] = true;
    if (stream->open[1 - side])
        put_end(net, id, side, SIM_END_CLOSED);
}

void sim_streams_orphan(struct sim_net *net, size_t host, bool silent)
{
    for (uint64_t id = 0; id < net->n_streams; id++) {
        struct sim_stream *stream = net->stream[id];
        size_t side = side_of(stream, host);
        if (stream->host[side] != host || !stream->open[side])
            continue;
        stream->open[side] = false;
        if (silent)
            clear(stream, side);
        else if (stream->open[1 - side])
            put_end(net, id, side, SIM_END_RESET);
    }
}

void sim_streams_free(struct sim_net *net)
{
    for (uint64_t id = 0; id < net->n_streams; id++) {
        clear(net->stream[id], 0);
        clear(net->stream[id], 1);
        free(net->stream[id]);
    }
    free(net->stream);
}
