// The stream thread: carries out the loop's requests for its streams, and reports the results.
#include "node/net/stream_private.h"
#include <event2/event.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define NEWS_TURN 64 // messages handed to the loop before its other events have their turn

static void unorder(struct node_stream *stream)
{
    struct node_streams *streams = stream->streams;
    BASE_ASSERT(stream->shared.ordered);
    stream->shared.ordered = false;
    TAILQ_REMOVE(&streams->tx_ready, stream, shared.tx_ready);
    if (TAILQ_EMPTY(&streams->tx_ready) && !streams->stop)
        node_stream_quiet(streams->wake);
}

static void free_stream(struct node_stream *stream)
{
    if (stream->readable)
        event_free(stream->readable);
    if (stream->writable)
        event_free(stream->writable);
    if (stream->shared.left >= 0)
        close(stream->shared.left);
    node_stream_drop(stream);
    (void)node_stream_free_messages(&stream->shared.opened);
    gossip_sealer_destroy(stream->sealer);
    gossip_opener_destroy(stream->opener);
    base_buffer_free(&stream->in);
    free(stream);
}

static void set_reading(struct node_stream *stream, bool reading)
{
    BASE_ASSERT(stream->readable && !stream->ended);
    if (stream->reading == reading)
        return;
    stream->reading = reading;
    if (!reading) {
        event_del(stream->readable);
        return;
    }
    event_add(stream->readable, NULL);
    event_active(stream->readable, EV_READ, 0); // records may be waiting in `in`
}

// Carries out the current requests for this stream.
static void follow(struct node_stream *stream)
{
    struct node_streams *streams = stream->streams;
    pthread_mutex_lock(&streams->lock);
    STAILQ_CONCAT(&stream->prompt, &stream->shared.prompt);
    STAILQ_CONCAT(&stream->bulk, &stream->shared.bulk);
    BASE_ASSERT(stream->shared.requested.ending || !stream->requested.ending);
    stream->requested = stream->shared.requested;
    const bool released = stream->shared.released, held = stream->shared.held;
    if (released && stream->shared.ordered) // again, since it was taken from the list
        unorder(stream);
    pthread_mutex_unlock(&streams->lock);
    if (!stream->readable && !stream->ended && !node_stream_prepare(stream))
        node_stream_ends(stream, BASE_ENOMEM, false, 0);
    if (released) {
        stream->requested.ending = true; // a last message may still go out
        if (!stream->requested.stalled)
            node_stream_write(stream);
        free_stream(stream);
        return;
    }
    if (stream->ended) {
        node_stream_drop(stream);
        return;
    }
    const struct node_stream_request *requested = &stream->requested;
    set_reading(stream, !requested->stalled && !requested->ending &&
                            (requested->finishing || (!requested->paused && !held)));
    if (requested->stalled)
        event_del(stream->writable);
    else
        node_stream_write(stream);
    if (requested->ending)
        node_stream_ends(stream, BASE_OK, false, 0);
}

static void woken(evutil_socket_t wakeup, short what, void *argument)
{
    struct node_streams *streams = argument;
    (void)wakeup;
    (void)what;
    for (;;) {
        pthread_mutex_lock(&streams->lock);
        struct node_stream *stream = TAILQ_FIRST(&streams->tx_ready);
        if (stream)
            unorder(stream);
        const bool stop = streams->stop;
        pthread_mutex_unlock(&streams->lock);
        if (stream) {
            follow(stream);
        } else {
            if (stop)
                event_base_loopbreak(streams->base);
            return;
        }
    }
}

static void *work(void *argument)
{
    struct node_streams *streams = argument;
    (void)pthread_setname_np(pthread_self(), "stream");
    event_base_dispatch(streams->base);
    return NULL;
}

// -- making

static void rx_ready(evutil_socket_t wakeup, short what, void *argument)
{
    struct node_streams *streams = argument;
    (void)wakeup;
    (void)what;
    for (int i = 0; i < NEWS_TURN; i++) {
        pthread_mutex_lock(&streams->lock);
        struct node_stream *stream = TAILQ_FIRST(&streams->rx_ready);
        if (stream)
            node_stream_untell(stream);
        pthread_mutex_unlock(&streams->lock);
        if (!stream)
            return;
        stream->rx_ready(stream->owner);
    }
}

// An order must not wait behind the sockets of many links: orders are checked after each socket.
static struct event_base *make_base(void)
{
    struct event_config *config = event_config_new();
    if (!config)
        return NULL;
    (void)event_config_set_max_dispatch_interval(config, NULL, 1, 1);
    (void)event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    struct event_base *base = event_base_new_with_config(config);
    event_config_free(config);
    if (base && event_base_priority_init(base, 2) != 0) {
        event_base_free(base);
        return NULL;
    }
    return base;
}

static bool make_parts(struct node_streams *streams, struct event_base *base)
{
    BASE_ASSERT(streams->wake < 0 && streams->tell < 0 && !streams->base);
    streams->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    streams->tell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    streams->room = malloc(NODE_STREAM_READ + LIMIT_RECORD_BYTES + GOSSIP_RECORD_OVERHEAD);
    streams->base = make_base();
    if (streams->wake < 0 || streams->tell < 0 || !streams->room || !streams->base)
        return false;
    streams->woken = event_new(streams->base, streams->wake, EV_READ | EV_PERSIST, woken, streams);
    streams->told = event_new(base, streams->tell, EV_READ | EV_PERSIST, rx_ready, streams);
    return streams->woken && streams->told && event_priority_set(streams->woken, 0) == 0 &&
           event_add(streams->woken, NULL) == 0 && event_add(streams->told, NULL) == 0;
}

static void free_streams(struct node_streams *streams)
{
    if (streams->woken)
        event_free(streams->woken);
    if (streams->told)
        event_free(streams->told);
    if (streams->base)
        event_base_free(streams->base);
    if (streams->wake >= 0)
        close(streams->wake);
    if (streams->tell >= 0)
        close(streams->tell);
    pthread_mutex_destroy(&streams->lock);
    free(streams->room);
    free(streams);
}

enum base_error node_streams_create(struct event_base *base, struct node_streams **out)
{
    struct node_streams *streams = calloc(1, sizeof *streams);
    if (!streams)
        return BASE_ENOMEM;
    streams->wake = streams->tell = -1;
    TAILQ_INIT(&streams->tx_ready);
    TAILQ_INIT(&streams->rx_ready);
    const int failed = pthread_mutex_init(&streams->lock, NULL);
    BASE_ASSERT(!failed);
    if (!make_parts(streams, base) || pthread_create(&streams->thread, NULL, work, streams) != 0) {
        free_streams(streams);
        return BASE_ENOMEM;
    }
    *out = streams;
    return BASE_OK;
}

void node_streams_destroy(struct node_streams *streams)
{
    if (!streams)
        return;
    pthread_mutex_lock(&streams->lock);
    if (TAILQ_EMPTY(&streams->tx_ready))
        node_stream_ring(streams->wake);
    streams->stop = true;
    pthread_mutex_unlock(&streams->lock);
    pthread_join(streams->thread, NULL);
    BASE_ASSERT(streams->live == 0);
    free_streams(streams);
}
