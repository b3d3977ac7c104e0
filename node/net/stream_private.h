// What node/net/stream.c (the loop's side), stream_thread.c (the thread), stream_work.c (what it does on a
// socket) and stream_told.c (what it reports to the loop) share. Included nowhere else.
#ifndef NODE_NET_STREAM_PRIVATE_H
#define NODE_NET_STREAM_PRIVATE_H

#include "base/buffer.h"
#include "node/net/stream.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#define NODE_STREAM_READ (256u * 1024u) // most that one call takes from a socket
// Bytes of messages that may wait for the loop, not counting the latest message, which may have any size.
// With more, a link stops reading.
#define NODE_STREAM_UNREAD (1024u * 1024u)

struct event;

struct message { // one on its way between the threads
    STAILQ_ENTRY(message) next;
    uint8_t *bytes; // owned
    size_t count;
};
STAILQ_HEAD(messages, message);

// Approximate bytes of memory: many small messages must count, too.
static inline size_t message_cost(size_t count)
{
    return count + sizeof(struct message) + 40; // and malloc's own bytes for both
}

struct node_stream {
    struct node_streams *streams;
    // Under streams->lock.
    struct {
        TAILQ_ENTRY(node_stream) tx_ready, rx_ready;
        bool ordered, told;           // is in the list
        struct messages prompt, bulk; // from the loop, to be sent
        struct messages opened;       // to the loop
        size_t queued, unread;        // what they cost: not sealed yet; opened and not taken
        bool held;                    // has stopped reading because of `unread`
        bool released, ended;
        int left; // socket to be closed when it is released
        struct node_stream_request requested;
        struct node_stream_end end;
    } shared;
    size_t out_limit, ahead;
    _Atomic uint64_t sent, received;
    // The loop's.
    void (*rx_ready)(void *owner);
    void *owner;
    // The thread's.
    int socket;
    struct gossip_sealer *sealer;
    struct gossip_opener *opener;
    struct node_counters *counters;
    struct event *readable, *writable;
    struct base_buffer in, out;   // the beginning of a record; sealed and not sent
    struct messages prompt, bulk; // to be sealed; the first of `bulk` may be under way
    struct node_stream_request requested;
    int rest;                        // bytes for which the socket wakes the thread
    bool reading, deaf, shut, ended; // deaf: the other end does not read any more
};

struct node_streams {
    pthread_t thread;
    pthread_mutex_t lock;
    int wake, tell; // eventfd: readable while tx_ready is not empty; while rx_ready is not empty
    // Under the lock.
    TAILQ_HEAD(, node_stream) tx_ready, rx_ready;
    size_t live; // streams that are not released
    bool stop;
    // The loop's.
    struct event *told;
    // The thread's.
    struct event_base *base;
    struct event *woken;
    uint8_t *room; // a partial record and one read
};

// stream_work.c; the thread's.
bool node_stream_prepare(struct node_stream *stream); // makes its events; false: no memory
void node_stream_write(struct node_stream *stream);   // what the socket takes, within a turn

// stream_told.c; the thread's.
size_t node_stream_free_messages(struct messages *messages); // returns what they cost
// `last`: the part of `cost` that is the last message's.
void node_stream_hand_over(struct node_stream *stream, struct messages *opened, size_t cost, size_t last);
void node_stream_sealed(struct node_stream *stream, struct messages *messages); // frees the first of them
void node_stream_drop(struct node_stream *stream);                              // what waits to be sent
void node_stream_ends(struct node_stream *stream, enum base_error code, bool eof, int error);

// stream.c; under the lock. Both lists hold a stream at most once, and their wakeups ring exactly while they
// are not empty.
void node_stream_ring(int wakeup);
void node_stream_quiet(int wakeup);
void node_stream_tell(struct node_stream *stream);
void node_stream_untell(struct node_stream *stream);

#endif
