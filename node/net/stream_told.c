// What the stream thread reports to the loop, under the lock: messages, room for more to send, the end of a
// stream.
#include "node/net/stream_private.h"
#include <event2/event.h>
#include <stdlib.h>

static void free_message(struct message *message)
{
    free(message->bytes);
    free(message);
}

size_t node_stream_free_messages(struct messages *messages)
{
    size_t cost = 0;
    while (!STAILQ_EMPTY(messages)) {
        struct message *first = STAILQ_FIRST(messages);
        STAILQ_REMOVE_HEAD(messages, next);
        cost += message_cost(first->count);
        free_message(first);
    }
    return cost;
}

static void unqueue(struct node_stream *stream, size_t cost)
{
    pthread_mutex_lock(&stream->streams->lock);
    BASE_ASSERT(cost <= stream->shared.queued);
    stream->shared.queued -= cost;
    pthread_mutex_unlock(&stream->streams->lock);
}

void node_stream_sealed(struct node_stream *stream, struct messages *messages)
{
    struct message *first = STAILQ_FIRST(messages);
    STAILQ_REMOVE_HEAD(messages, next);
    unqueue(stream, message_cost(first->count));
    free_message(first);
}

void node_stream_drop(struct node_stream *stream)
{
    const size_t cost = node_stream_free_messages(&stream->prompt) + node_stream_free_messages(&stream->bulk);
    if (cost > 0)
        unqueue(stream, cost);
    base_buffer_free(&stream->out);
}

void node_stream_hand_over(struct node_stream *stream, struct messages *opened, size_t cost, size_t last)
{
    pthread_mutex_lock(&stream->streams->lock);
    BASE_ASSERT(!STAILQ_EMPTY(opened) && last <= cost && !stream->shared.ended);
    STAILQ_CONCAT(&stream->shared.opened, opened);
    stream->shared.unread += cost;
    stream->shared.held = stream->shared.unread - last > NODE_STREAM_UNREAD;
    bool held = stream->shared.held;
    node_stream_tell(stream);
    pthread_mutex_unlock(&stream->streams->lock);
    if (held && stream->reading) {
        stream->reading = false;
        event_del(stream->readable);
    }
}

void node_stream_ends(struct node_stream *stream, enum base_error code, bool eof, int error)
{
    if (stream->ended)
        return;
    stream->ended = true;
    stream->reading = false;
    if (stream->readable)
        event_del(stream->readable);
    if (stream->writable)
        event_del(stream->writable);
    node_stream_drop(stream);
    pthread_mutex_lock(&stream->streams->lock);
    BASE_ASSERT(!stream->shared.ended);
    stream->shared.ended = true;
    stream->shared.end = (struct node_stream_end){.code = code, .eof = eof, .error = error};
    node_stream_tell(stream);
    pthread_mutex_unlock(&stream->streams->lock);
}
