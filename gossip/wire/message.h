// The messages between nodes after the handshake. A message is a msgpack array (the header), followed by up
// to three raw payloads whose lengths are in the header. Vectors are never msgpack elements. Layout:
// README.md.
//
// Parsing is strict: known kind, exact number of fields, correct types, no trailing byte. Pure functions; any
// thread.
#ifndef GOSSIP_WIRE_MESSAGE_H
#define GOSSIP_WIRE_MESSAGE_H

#include "base/error.h"
#include "base/limits.h"
#include <stddef.h>
#include <stdint.h>

// The protocols that this node speaks, by number. A change that older nodes cannot read raises
// GOSSIP_PROTOCOL; GOSSIP_PROTOCOL_LEAST follows when the earlier ones are no longer spoken. A test builds
// nodes with others.
#ifndef GOSSIP_PROTOCOL
#define GOSSIP_PROTOCOL_LEAST 21
#define GOSSIP_PROTOCOL       21
#endif
struct gossip_protocols {
    uint16_t least, most; // 1 <= least <= most
};
extern const struct gossip_protocols gossip_own_protocols;

enum gossip_message_kind {
    GOSSIP_GREETING = 1, // first message of both ends: do both train the same model?
    GOSSIP_HELLO = 2,    // state of the edge between sender and receiver
    GOSSIP_XCHG = 3,     // request for an exchange, with q of the initiator
    GOSSIP_XACK = 4,     // the answer, with q of the responder
    GOSSIP_BUSY = 5,     // not possible now; nothing was changed
    GOSSIP_BYE = 6,      // the sender ends this link on purpose
    GOSSIP_MEMBERS = 7,  // a membership packet (gossip/member) sent over the stream
    GOSSIP_SNAPSHOT_ASK = 8,
    GOSSIP_SNAPSHOT_TELL = 9,
    GOSSIP_PARKED = 10,     // a request waits at the sender, which is behind its round
    GOSSIP_STATISTICS = 11, // statistics of some columns of the sender's examples (gossip/statistics)
    GOSSIP_MERGE = 12,      // how far the sender is with merging the final models (gossip/merge)
    GOSSIP_RELAY = 13,      // bytes of a stream between two members over a third (gossip/relay)
    GOSSIP_REMOVED = 14,    // the operator's list of removed members (gossip/session/removed.h)
    GOSSIP_LAST_KIND = GOSSIP_REMOVED,
};

#define GOSSIP_OWN_WORDS 2u
#define GOSSIP_SEEN_TEXT 56u // [IPv6 address]:65535, terminating zero included
struct gossip_greeting {
    char version[32];                    // program version, for people
    char name[LIMIT_NODE_NAME_BYTES];    // node.name; valid: [A-Za-z0-9._-]{1,63}
    char model[LIMIT_TENSOR_NAME_BYTES]; // for people: "mlp 784-256-10"
    uint64_t schema;                     // fingerprint of the model and of the meaning of its data
    uint64_t parameters;                 // length of the model vector
    uint64_t instance_id;                // random number of the process; detects a link to oneself
    char rules[LIMIT_RULES_BYTES];       // settings that both ends must share: "key: value; key: value"
    char told[LIMIT_TOLD_BYTES];         // other settings that differ from their defaults, for late joiners
    uint64_t own[GOSSIP_OWN_WORDS];      // bit i % 64 of word i / 64: setting i, shared or told, was set
                                         // explicitly
    uint8_t begun;                       // 1: has begun to train; only the settings of such a node are
                                         // trusted
    uint32_t shard;                      // the shard of the data that the fewest living nodes have
    char seen[GOSSIP_SEEN_TEXT];         // IP:PORT of the other end as the sender sees it; "": it does not
};

// The standing of an end of an edge: how much of the common update it applies to its own model
// (gossip/exchange/RULES.md).
enum gossip_standing {
    GOSSIP_PRESENT,
    GOSSIP_AWAY,     // was away: it moves to the others, and a present end does not move to it
    GOSSIP_FINISHED, // has made its last step; no node moves its model
};

struct gossip_hello {
    uint64_t epoch;    // counts RESYNCs of this edge
    uint64_t sequence; // committed exchanges in this epoch
    uint64_t reference_hash, correction_hash;
    uint64_t resync_offset; // elements of the model that RESYNC has covered; = parameters when live
    uint8_t answer;   // 0: neither; 1..127: a question with this number; 128 + n: the answer to question n
    uint8_t standing; // enum gossip_standing of the sender
    uint64_t scaling; // hash of the scaling of the sender's data; 0: the model needs none, or it is not
                      // known yet
};

enum gossip_delta_form {
    GOSSIP_DELTA_SPARSE = 0, // payload: compress packet over the whole vector
    GOSSIP_DELTA_BLOCK = 1,  // payload: compress dense block at `offset` (RESYNC)
};

#define GOSSIP_MESSAGE_NEWS 64u  // bytes
struct gossip_exchange_message { // XCHG and XACK
    uint64_t epoch, sequence;
    uint64_t clock;   // sender's round
    uint8_t standing; // enum gossip_standing of the sender when it made this delta
    float step_scale; // learning rate x local steps of the sender's round (DESIGN: drift correction)
    float weight;     // w of this meeting, in (0, 1]; set by the initiator, repeated by XACK; 1/2 for a block
    float limit;      // the largest norm of an update that the sender applies whole, or infinite
    float bound;      // the largest norm of c that the sender keeps, or infinite
    float progress;   // norm of what the sender's own learner moves its model by in a round; 0: not known
    uint64_t pace_ns; // time of one local step of the sender; 0: not known
    uint8_t form;     // enum gossip_delta_form
    uint64_t offset;  // start of a block, in elements; 0 for sparse
    uint8_t keys;     // 1: the receiver should remember the indices of this sparse delta
    const uint8_t *delta; // payload, borrowed
    uint32_t delta_bytes;
    const uint8_t *moment; // second-moment slice (log8), borrowed; NULL if none
    uint32_t moment_bytes;
    const uint8_t *news; // rounds that the sender knows of (gossip/pace/news.h), borrowed; NULL if none
    uint32_t news_bytes; // at most GOSSIP_MESSAGE_NEWS
};

struct gossip_busy {
    uint64_t epoch, sequence;
};

struct gossip_parked {
    uint64_t epoch, sequence; // of the request
    uint64_t round;           // boundary that the sender has reached
};

struct gossip_bye {
    char reason[64];
};

struct gossip_members_message {
    const uint8_t *packet; // payload, borrowed
    uint32_t packet_bytes; // 1..LIMIT_GOSSIP_BYTES
};

enum gossip_snapshot_part {
    GOSSIP_PART_MODEL,
    GOSSIP_PART_OUTER,
    GOSSIP_PART_SECOND,
    GOSSIP_PARTS,                    // vectors
    GOSSIP_PART_BLOB = GOSSIP_PARTS, // gossip/blob.h: block 0 only
    GOSSIP_PART_FINAL,               // of a merge: the sender's final model; `block` as in gossip/merge
    GOSSIP_PART_MERGED,              // of a merge: the merged model
    GOSSIP_PART_LAST = GOSSIP_PART_MERGED,
};

struct gossip_snapshot_ask {
    uint64_t snapshot; // number of the donor's frozen copy; 0: the current one, or a new one. Of a merge: the
                       // hash of its participants
    uint8_t part;      // enum gossip_snapshot_part
    uint32_t block;    // of LIMIT_SNAPSHOT_BLOCK elements
};

struct gossip_snapshot_tell {
    uint64_t snapshot; // >= 1
    uint8_t parts;     // bit p: the donor has part p
    uint8_t part;
    uint32_t block;
    uint64_t round, step;  // completed when the copy was made
    uint64_t hash;         // base_hash_vector of the elements; of the blob base_hash_bytes
    const uint8_t *values; // payload: fp32, little-endian, borrowed; or the blob, which may be empty
    uint32_t values_bytes;
};

#define GOSSIP_SPREAD_BYTES     32u  // four doubles, little-endian: least, most, mean, deviation
#define GOSSIP_STATISTICS_BLOCK 256u // columns per message; the last message has the rest
#define GOSSIP_STATISTICS_ROWS  (1ull << 53)
struct gossip_statistics_message {
    uint64_t generation;    // of the sender's process
    uint64_t rows;          // of its examples, 1 .. GOSSIP_STATISTICS_ROWS
    uint32_t columns;       // total number, 1 .. LIMIT_STATISTICS_COLUMNS
    uint32_t first;         // first column of this message, a multiple of GOSSIP_STATISTICS_BLOCK
    const uint8_t *spreads; // payload, borrowed
    uint32_t spreads_bytes;
};

enum gossip_merge_phase { // of one node; gossip/merge/README.md
    GOSSIP_MERGE_NONE,    //
    GOSSIP_MERGE_OFFERS,  // to merge with the nodes of `keys`
    GOSSIP_MERGE_AGREED,  // all of these have offered the same
    GOSSIP_MERGE_REDUCED, // the sender's chunk of the merged model is ready
    GOSSIP_MERGE_HOLDS,   // the sender has the whole merged model
    GOSSIP_MERGE_DECIDED, // enough nodes hold it: it is the model of the cluster
};

#define GOSSIP_MERGE_MOST 64u // participants
struct gossip_merge_message {
    uint8_t phase;       // enum gossip_merge_phase, not NONE
    uint8_t gives;       // 1: its final model counts in the mean
    uint64_t hash;       // base_hash_vector of the merged model, from HOLDS on; else 0
    const uint8_t *keys; // payload, borrowed: of the participants, 8 bytes each, little-endian, ascending
    uint32_t keys_bytes;
};

enum gossip_relay_verb {
    GOSSIP_RELAY_OPEN = 1, // to a relay: a stream to the member `bytes` (32: its id); amount: the window
    GOSSIP_RELAY_CALLED,   // by a relay: the member `bytes` opens a stream; amount: the window
    GOSSIP_RELAY_DATA,     // `bytes` of the stream
    GOSSIP_RELAY_CREDIT,   // the sender has taken `amount` more bytes
    GOSSIP_RELAY_CLOSE,    // the stream has ended; amount: enum gossip_relay_end
    GOSSIP_RELAY_LAST_VERB = GOSSIP_RELAY_CLOSE,
};
#define GOSSIP_RELAY_ID_BYTES 32u
#define GOSSIP_RELAY_CHUNK    16384u // bytes of one DATA
struct gossip_relay_message {
    uint8_t verb;    // enum gossip_relay_verb
    uint32_t stream; // its number on this link
    uint64_t amount;
    const uint8_t *bytes; // payload, borrowed
    uint32_t bytes_bytes; // OPEN, CALLED: GOSSIP_RELAY_ID_BYTES; DATA: 1..GOSSIP_RELAY_CHUNK; else 0
};

struct gossip_removed_message {
    const uint8_t *list; // payload, borrowed
    uint32_t list_bytes;
};

struct gossip_message {
    enum gossip_message_kind kind;
    union {
        struct gossip_greeting greeting;
        struct gossip_hello hello;
        struct gossip_exchange_message exchange; // XCHG, XACK
        struct gossip_busy busy;
        struct gossip_parked parked;
        struct gossip_bye bye;
        struct gossip_members_message members;
        struct gossip_snapshot_ask ask;
        struct gossip_snapshot_tell tell;
        struct gossip_statistics_message statistics;
        struct gossip_merge_message merge;
        struct gossip_relay_message relay;
        struct gossip_removed_message removed;
    } as;
};

// Writes the header only, at most LIMIT_MESSAGE_HEADER_BYTES; on the wire the payloads follow it: delta,
// moment, news; for MEMBERS the packet, for SNAPSHOT_TELL the values, for STATISTICS the spreads, for MERGE
// the keys, for RELAY the bytes, for REMOVED the list.
// BASE_ELIMIT: `capacity` is too small.
enum base_error gossip_message_encode_header(const struct gossip_message *message, uint8_t *header,
                                             size_t capacity, size_t *header_bytes) BASE_CHECK;

// The payloads that follow the header on the wire, in order; returns their number. Empty payloads are
// omitted.
#define GOSSIP_MESSAGE_PAYLOADS 3
struct gossip_payload {
    const uint8_t *bytes; // borrowed from the message
    size_t count;
};
size_t gossip_message_payloads(const struct gossip_message *message,
                               struct gossip_payload payloads[GOSSIP_MESSAGE_PAYLOADS]);

// Payload pointers point into `bytes`. Text fields are checked (length, characters) and terminated.
// Non-finite or negative step_scale, a weight outside (0, 1], a delta longer than the rest, an unknown
// standing, trailing bytes: BASE_EFORMAT.
enum base_error gossip_message_decode(const uint8_t *bytes, size_t count,
                                      struct gossip_message *message) BASE_CHECK;

const char *gossip_message_kind_name(enum gossip_message_kind kind);

#endif
