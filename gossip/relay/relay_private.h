// The object, and what each file offers to those above it: relay -> table. Private to gossip/relay.
#ifndef GOSSIP_RELAY_RELAY_PRIVATE_H
#define GOSSIP_RELAY_RELAY_PRIVATE_H

#include "base/array.h"
#include "base/buffer.h"
#include "gossip/relay/relay.h"
#include <sys/queue.h>

#define RELAY_BUCKETS 1024u // of the table of numbers

// A stream has two sides, and bytes go from each to the other: two links (this node forwards), or a link and
// a local end. Both kinds follow the same rules.
enum relay_kind {
    RELAY_LINK,
    RELAY_LOCAL,
};
enum relay_state { // of a side; both are OPEN, or neither is
    RELAY_OPEN,    //
    RELAY_CLOSING, // it is told so after what waits for it; whatever comes from it crosses this
    RELAY_GONE,    // it has said or heard that the stream has ended, or its link has
};
#define RELAY_READY   1u // in `ready`
#define RELAY_WAITING 2u // in `waiting`
#define RELAY_OWED    4u // in `owed`
struct relay_side {
    enum relay_kind kind;
    enum relay_state state;
    enum gossip_relay_end why; // CLOSING
    bool fresh;                // it has not been told of the stream
    unsigned in;               // RELAY_READY | RELAY_WAITING | RELAY_OWED
    uint32_t number;           // LINK: of the stream, on this link
    uint32_t flight;          // bytes that came from it, without those of which it knows that they were taken
    uint32_t credit;          // of these: taken, and it has not been told
    struct gossip_id id;      // LINK: the peer; LOCAL: the other end of the stream
    uint64_t handle;          // LOCAL
    struct {                  // LOCAL: of the bytes that come from it
        uint32_t pace;        // so many may be on the way
        uint64_t busy_ns;     // since when some are, without a gap; 0: too few for credit
        uint64_t credited_ns; // when it had credit last, or `busy_ns`
        uint64_t least_ns;    // the least time until the first credit; 0: never had any
        uint64_t usual_ns;    // the mean time until it has credit; 0: never had any
        uint64_t since_ns, taken; // of these so many were taken since then
        uint64_t looked_ns;
        bool late;
    };
    uint64_t owed_ns;           // LINK, OWED: when it is told of its credit at the latest
    struct base_buffer waiting; // bytes for this side
    struct relay_stream *stream;
    struct relay_side *chain; // in its bucket
    TAILQ_ENTRY(relay_side) ready, turn, owed;
};
struct relay_stream {
    struct relay_side side[2]; // [0]: of who opened it
    TAILQ_ENTRY(relay_stream) all;
};
TAILQ_HEAD(relay_sides, relay_side);

struct gossip_relay {
    struct gossip_relay_options options;
    uint64_t now_ns;
    uint64_t full_ns;        // when nothing of the burst is used any more
    struct gossip_id *peers; // linked, ascending
    size_t n_peers;
    TAILQ_HEAD(, relay_stream) streams;
    struct relay_side *bucket[RELAY_BUCKETS];
    struct relay_side *end[GOSSIP_RELAY_ENDS]; // local sides
    struct relay_sides ready;                  // sides that may have to be told something
    struct relay_sides owed;    // whose credit is worth a message, but may become more; the oldest first
    struct relay_sides waiting; // sides of forwarded streams whose bytes wait, in the order of turns
    struct relay_side *passing; // bytes of this event go to it without a copy
    const uint8_t *bytes;
    size_t count;
    struct base_buffer handed; // whose bytes the latest action has
    uint64_t handles;
    uint32_t numbers;
    uint64_t forwarded_bytes, refused;
};

static inline struct relay_side *relay_other(struct relay_side *side)
{
    return &side->stream->side[side == side->stream->side];
}
static inline bool relay_forwards(const struct relay_stream *stream)
{
    return stream->side[0].kind == RELAY_LINK && stream->side[1].kind == RELAY_LINK;
}

// table.c
bool relay_linked(const struct gossip_relay *relay, const struct gossip_id *peer);
bool relay_link(struct gossip_relay *relay, const struct gossip_id *peer); // a new one; false: no memory
void relay_unlink(struct gossip_relay *relay, const struct gossip_id *peer);
// The side that is `number` on the link to `peer`; NULL: none.
struct relay_side *relay_find(const struct gossip_relay *relay, const struct gossip_id *peer,
                              uint32_t number);
// Whether the parity of `number` is that of the streams that `peer` opens on its link.
bool relay_may_open(const struct gossip_relay *relay, const struct gossip_id *peer, uint32_t number);
struct relay_side *relay_find_end(const struct gossip_relay *relay, uint64_t handle);
bool relay_may_end(const struct gossip_relay *relay);       // here: one more
struct relay_stream *relay_add(struct gossip_relay *relay); // both sides are GONE; NULL: no memory
// number: which nothing has on this link; NULL: a new one of this node.
void relay_add_link(struct gossip_relay *relay, struct relay_side *side, const struct gossip_id *peer,
                    const uint32_t *number);
void relay_add_local(struct gossip_relay *relay, struct relay_side *side, const struct gossip_id *peer);
void relay_forget(struct gossip_relay *relay,
                  struct relay_side *side); // GONE; when both are, frees the stream
void relay_ready(struct gossip_relay *relay, struct relay_side *side);
void relay_told(struct gossip_relay *relay, struct relay_side *side); // nothing is OWED any more
void relay_drop(struct gossip_relay *relay, struct relay_side *side); // what waits for it

#endif
