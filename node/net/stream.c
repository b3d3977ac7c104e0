// The loop's side of the state that loop and stream thread share. Everything here is under the lock, or
// copied from there.
#include "node/net/stream_private.h"
#include <stdlib.h>
#include <unistd.h>

void node_stream_ring(int wakeup)
{
    static const uint64_t one = 1;
    const ssize_t wrote = write(wakeup, &one, sizeof one);
    BASE_ASSERT(wrote == (ssize_t)sizeof one);
}

void node_stream_quiet(int wakeup)
{
    uint64_t counter;
    const ssize_t got = read(wakeup, &counter, sizeof counter);
    BASE_ASSERT(got == (ssize_t)sizeof counter);
}

static void give_order(struct node_stream *stream)
{
    struct node_streams *streams = stream->streams;
    if (stream->shared.ordered)
        return;
    BASE_ASSERT(streams->live > 0 || stream->shared.released);
    stream->shared.ordered = true;
    if (TAILQ_EMPTY(&streams->tx_ready) && !streams->stop)
        node_stream_ring(streams->wake);
    TAILQ_INSERT_TAIL(&streams->tx_ready, stream, shared.tx_ready);
}

void node_stream_tell(struct node_stream *stream)
{
    struct node_streams *streams = stream->streams;
    BASE_ASSERT(stream->shared.ended || !STAILQ_EMPTY(&stream->shared.opened));
    if (stream->shared.told || stream->shared.released)
        return;
    stream->shared.told = true;
    if (TAILQ_EMPTY(&streams->rx_ready))
        node_stream_ring(streams->tell);
    TAILQ_INSERT_TAIL(&streams->rx_ready, stream, shared.rx_ready);
}

void node_stream_untell(struct node_stream *stream)
{
    struct node_streams *streams = stream->streams;
    if (!stream->shared.told)
        return;
    BASE_ASSERT(!TAILQ_EMPTY(&streams->rx_ready));
    stream->shared.told = false;
    TAILQ_REMOVE(&streams->rx_ready, stream, shared.rx_ready);
    if (TAILQ_EMPTY(&streams->rx_ready))
        node_stream_quiet(streams->tell);
}

enum base_error node_stream_open(struct node_streams *streams, const struct node_stream_options *options,
                                 struct node_stream **out)
{
    BASE_ASSERT(options->socket >= 0 && options->sealer && options->opener);
    BASE_ASSERT(options->ahead >= 2 * GOSSIP_PROMPT_SEALED);
    struct node_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return BASE_ENOMEM;
    stream->streams = streams;
    STAILQ_INIT(&stream->shared.prompt);
    STAILQ_INIT(&stream->shared.bulk);
    STAILQ_INIT(&stream->shared.opened);
    STAILQ_INIT(&stream->prompt);
    STAILQ_INIT(&stream->bulk);
    if ((options->in_bytes > 0 &&
         base_buffer_append(&stream->in, options->in, options->in_bytes, SIZE_MAX)) ||
        (options->out_bytes > 0 &&
         base_buffer_append(&stream->out, options->out, options->out_bytes, SIZE_MAX))) {
        base_buffer_free(&stream->in);
        free(stream);
        return BASE_ENOMEM;
    }
    stream->socket = options->socket;
    stream->sealer = options->sealer;
    stream->opener = options->opener;
    stream->out_limit = options->out_limit;
    stream->ahead = options->ahead;
    stream->rest = 1;
    stream->counters = options->counters;
    stream->rx_ready = options->rx_ready;
    stream->owner = options->owner;
    pthread_mutex_lock(&streams->lock);
    streams->live++;
    give_order(stream);
    pthread_mutex_unlock(&streams->lock);
    *out = stream;
    return BASE_OK;
}

void node_stream_release(struct node_stream *stream, int socket)
{
    if (!stream)
        return;
    pthread_mutex_t *lock = &stream->streams->lock; // the stream may be freed before it is unlocked
    pthread_mutex_lock(lock);
    BASE_ASSERT(!stream->shared.released && stream->streams->live > 0);
    node_stream_untell(stream);
    stream->shared.released = true;
    stream->shared.left = socket;
    stream->streams->live--;
    give_order(stream);
    pthread_mutex_unlock(lock);
}

void node_stream_request(struct node_stream *stream, const struct node_stream_request *requested)
{
    pthread_mutex_lock(&stream->streams->lock);
    BASE_ASSERT(!stream->shared.released && (requested->ending || !stream->shared.requested.ending));
    stream->shared.requested = *requested;
    give_order(stream);
    pthread_mutex_unlock(&stream->streams->lock);
}

enum base_error node_stream_send(struct node_stream *stream, uint8_t *bytes, size_t count, bool prompt)
{
    struct message *message = malloc(sizeof *message);
    enum base_error error = message ? BASE_OK : BASE_ENOMEM;
    const size_t cost = message_cost(count);
    BASE_ASSERT(!prompt || count <= LIMIT_PROMPT_BYTES); // a larger one would hold up those behind it
    pthread_mutex_lock(&stream->streams->lock);
    size_t queued = stream->shared.queued;
    if (!error && (queued > stream->out_limit || cost > stream->out_limit - queued))
        error = BASE_ELIMIT;
    if (!error) {
        *message = (struct message){.bytes = bytes, .count = count};
        stream->shared.queued += cost;
        if (prompt)
            STAILQ_INSERT_TAIL(&stream->shared.prompt, message, next);
        else
            STAILQ_INSERT_TAIL(&stream->shared.bulk, message, next);
        give_order(stream);
    }
    pthread_mutex_unlock(&stream->streams->lock);
    if (error) {
        free(message);
        free(bytes);
    }
    return error;
}

uint8_t *node_stream_take(struct node_stream *stream, size_t *count)
{
    uint8_t *bytes = NULL;
    pthread_mutex_lock(&stream->streams->lock);
    struct message *first = STAILQ_FIRST(&stream->shared.opened);
    if (first) {
        STAILQ_REMOVE_HEAD(&stream->shared.opened, next);
        bytes = first->bytes;
        *count = first->count;
        BASE_ASSERT(stream->shared.unread >= message_cost(first->count));
        stream->shared.unread -= message_cost(first->count);
        struct message *second = STAILQ_FIRST(&stream->shared.opened);
        const bool one = second && !STAILQ_NEXT(second, next);
        if (stream->shared.held && (one || stream->shared.unread <= NODE_STREAM_UNREAD / 2)) {
            stream->shared.held = false;
            give_order(stream);
        }
        if (!STAILQ_EMPTY(&stream->shared.opened) || stream->shared.ended)
            node_stream_tell(stream);
    }
    pthread_mutex_unlock(&stream->streams->lock);
    free(first);
    return bytes;
}

void node_stream_remind(struct node_stream *stream)
{
    pthread_mutex_lock(&stream->streams->lock);
    if (!STAILQ_EMPTY(&stream->shared.opened) || stream->shared.ended)
        node_stream_tell(stream);
    pthread_mutex_unlock(&stream->streams->lock);
}

bool node_stream_ended(struct node_stream *stream, struct node_stream_end *end)
{
    pthread_mutex_lock(&stream->streams->lock);
    bool ended = stream->shared.ended && STAILQ_EMPTY(&stream->shared.opened);
    *end = stream->shared.end;
    pthread_mutex_unlock(&stream->streams->lock);
    return ended;
}

void node_stream_traffic(const struct node_stream *stream, uint64_t *sent, uint64_t *received)
{
    *sent = atomic_load_explicit(&stream->sent, memory_order_relaxed);
    *received = atomic_load_explicit(&stream->received, memory_order_relaxed);
}
