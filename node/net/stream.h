// The stream thread: established links live on it. It does the expensive work (sealing, opening, the copies
// into and out of the kernel), so that the loop handles whole messages by pointer and is never held up by a
// large one. Under one lock, the loop leaves its requests and a link leaves what has arrived; nothing is
// polled.
//
// One thread per event base of an owner (the loop). All functions are called on the loop's thread.
#ifndef NODE_NET_STREAM_H
#define NODE_NET_STREAM_H

#include "base/error.h"
#include "gossip/session/records.h"
#include "node/queue/counters.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;
struct node_streams; // the thread
struct node_stream;  // one established link on it

// Starts the thread. `base` is the owner's: reports of the streams are delivered from its events.
enum base_error node_streams_create(struct event_base *base, struct node_streams **streams) BASE_CHECK;
void node_streams_destroy(struct node_streams *streams); // after the last stream was released; NULL is fine

struct node_stream_options {
    int socket;                   // borrowed until the stream has ended or is released
    struct gossip_sealer *sealer; // owned by the stream after success, as the next
    struct gossip_opener *opener;
    const uint8_t *in, *out; // copied: bytes that followed the handshake, and its bytes that are not sent yet
    size_t in_bytes, out_bytes;
    size_t out_limit; // bytes of messages, and some 64 for each, that may wait for a slow reader
    size_t ahead;     // most that is sealed and not sent yet: no prompt message overtakes it
    struct node_counters *counters; // outlive the streams: a released stream may still count
    void (*rx_ready)(void *owner);  // there is something to take, or it has ended
    void *owner;
};

// What the loop requests of a stream. At first, none of it.
struct node_stream_request {
    bool paused;    // nothing is read
    bool stalled;   // nothing is read or written
    bool finishing; // everything is sent, then the end of the stream; what arrives is discarded
    bool ending;    // prompt messages are sent if possible without waiting, then it releases the socket
};

struct node_stream_end {
    enum base_error code; // BASE_OK: as requested; BASE_EIO: the socket failed; else what arrived was wrong
    bool eof;             // the other end has closed
    int error;            // errno, with BASE_EIO and no eof
};

enum base_error node_stream_open(struct node_streams *streams, const struct node_stream_options *options,
                                 struct node_stream **stream) BASE_CHECK;
// No `rx_ready` follows; `socket` (its own, or -1) is closed when the thread has released it. NULL is fine.
void node_stream_release(struct node_stream *stream, int socket);
void node_stream_request(struct node_stream *stream, const struct node_stream_request *requested);
// Sends bytes[count], which are malloc'ed and the stream's from now on, whatever the result. A `prompt`
// message of at most LIMIT_PROMPT_BYTES goes before all others and between the records of a large one; the
// others keep their order. BASE_ELIMIT: more than out_limit would wait; BASE_ENOMEM.
enum base_error node_stream_send(struct node_stream *stream, uint8_t *bytes, size_t count,
                                 bool prompt) BASE_CHECK;
// The next message that has come, the caller's to free; NULL: none. Each call of `rx_ready` should take at
// most one, so that every link has its turn: `rx_ready` is called again while there are more.
uint8_t *node_stream_take(struct node_stream *stream, size_t *count);
void node_stream_remind(struct node_stream *stream); // `rx_ready` is called again, if needed
// True once it has released its socket and all messages before its end were taken.
bool node_stream_ended(struct node_stream *stream, struct node_stream_end *end);
void node_stream_traffic(const struct node_stream *stream, uint64_t *sent, uint64_t *received);

#endif
