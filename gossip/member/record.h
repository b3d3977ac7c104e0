// The signed statements of membership: a record, signed by its subject, and a suspicion, signed by its
// suspector. Fixed little-endian layouts (README.md), so that what is signed has one form only. Pure; any
// thread.
#ifndef GOSSIP_MEMBER_RECORD_H
#define GOSSIP_MEMBER_RECORD_H

#include "base/cursor.h"
#include "base/limits.h"
#include "gossip/id.h"
#include "gossip/session/identity.h"
#include "gossip/setting.h"
#include <stdbool.h>

#define GOSSIP_RECORD_LEFT     1u   // it has left on purpose
#define GOSSIP_RECORD_ELIGIBLE 2u   // its state is complete: it counts in the graph
#define GOSSIP_RECORD_TRAINING 4u   // has begun to train: a node that joins now needs a snapshot
#define GOSSIP_RECORD_FINISHED 8u   // has done its last step and still answers
#define GOSSIP_RECORD_STOPPING 16u  // stops at the end of stop_round
#define GOSSIP_RECORD_HELD     32u  // flapping, so not ELIGIBLE; counts only if at least half are HELD
#define GOSSIP_RECORD_PAUSED   128u // takes no steps for now: it fetches, waits for its edges, or is held out
// The same bit of a node that counts and has not begun: it begins when all others are ready, too.
#define GOSSIP_RECORD_READY GOSSIP_RECORD_PAUSED
#define GOSSIP_RECORD_FLAGS 191u
// How others reach it.
#define GOSSIP_WAY_REACHABLE 1u // somebody has called it, from outside of its router if it has one
#define GOSSIP_WAY_RELAYS    2u // it forwards streams of others
#define GOSSIP_WAYS          3u
#define GOSSIP_RECORD_RELAYS 2u // of a node that is not REACHABLE
#define GOSSIP_NO_SLOT       UINT32_MAX
#define GOSSIP_NO_SHARD      UINT32_MAX

// With whom it can have a direct link, for the graph: unlike `ways` it changes rarely.
enum gossip_access {
    GOSSIP_ACCESS_USUAL, // with all that are not hard, or it does not know
    GOSSIP_ACCESS_OPEN,  // with all: they can call it
    GOSSIP_ACCESS_HARD,  // only with open ones: its router gives each connection another port
    GOSSIP_ACCESSES
};
const char *gossip_access_name(enum gossip_access access); // "usual"

struct gossip_address {
    uint8_t family; // 4 or 6
    uint8_t ip[16]; // network order; IPv4 in the first four bytes
    uint16_t port;  // of the peer port, TCP and UDP
};

// Which of two statements about one member is newer: (generation, instance_id, incarnation), compared in this
// order.
struct gossip_version {
    uint64_t generation; // starts of this node so far, persisted
    uint64_t
        instance_id; // random number of this process, which distinguishes two processes with one identity
    uint32_t incarnation; // raised by each change of the record, and to refute a suspicion
};

struct gossip_record {
    struct gossip_id id;
    struct gossip_version version;
    uint8_t flags;
    char name[LIMIT_NODE_NAME_BYTES]; // [A-Za-z0-9._-]{1,63}
    uint32_t slot;                    // claimed place on a butterfly
    uint32_t shard;                   // of the data set
    uint32_t group;                   // nodes with one number share a host or a rack
    uint32_t examples;           // of its own, by which it is weighed; 0: it has a shard, or does not say
    uint64_t stop_round;         // with STOPPING: where it stops; else 0
    uint64_t age_ms;             // of the process when it signed this
    uint64_t first_model;        // digest of the weights that it would begin with; 0: it has a checkpoint
    uint8_t exchange_public[32]; // X25519: key of sealed datagrams
    uint8_t n_addresses;         // 1..LIMIT_ADDRESSES
    struct gossip_address addresses[LIMIT_ADDRESSES];
    struct gossip_address pages; // of its HTTP port; family 0: none; an ip of zeros: at any of `addresses`
    uint8_t ways;                // GOSSIP_WAY_*
    uint8_t access;              // enum gossip_access
    uint8_t n_relays;            // 0..GOSSIP_RECORD_RELAYS
    uint64_t relays[GOSSIP_RECORD_RELAYS];           // gossip_id_beginning of members that it keeps links to
    struct gossip_setting settings[GOSSIP_SETTINGS]; // the latest changes that it knows of
    uint8_t signature[64];
};

enum gossip_suspicion_class {
    GOSSIP_SUSPECTED_SILENT = 0,   // answers no probes
    GOSSIP_SUSPECTED_EVIDENCE = 1, // its stream ended without BYE, or its port is closed
};

struct gossip_suspicion {
    struct gossip_id subject, suspector;
    struct gossip_version version; // of the subject's record that is suspected
    uint8_t class;                 // enum gossip_suspicion_class
    uint8_t signature[64];
};

// > 0: a is newer than b.
int gossip_version_compare(const struct gossip_version *a, const struct gossip_version *b);

void gossip_record_sign(struct gossip_record *record, const struct gossip_identity *identity);
// Verifies signatures. Must agree with gossip_identity_verify; a simulation of many members caches the
// results.
struct gossip_verifier {
    void *owner;
    bool (*verify)(void *owner, const struct gossip_id *id, const uint8_t *bytes, size_t count,
                   const uint8_t signature[64]);
};
// Verifies the signature through `verifier`; NULL: directly.
bool gossip_record_verify(const struct gossip_record *record, const struct gossip_verifier *verifier);
void gossip_record_write(const struct gossip_record *record, struct base_writer *writer);
// Strict: flags, name, counts and families are checked. BASE_EFORMAT. The signature is not checked here.
enum base_error gossip_record_read(struct base_reader *reader, struct gossip_record *record) BASE_CHECK;
size_t gossip_record_bytes(const struct gossip_record *record);

void gossip_suspicion_sign(struct gossip_suspicion *suspicion, const struct gossip_identity *identity);
bool gossip_suspicion_verify(const struct gossip_suspicion *suspicion,
                             const struct gossip_verifier *verifier);
void gossip_suspicion_write(const struct gossip_suspicion *suspicion, struct base_writer *writer);
enum base_error gossip_suspicion_read(struct base_reader *reader,
                                      struct gossip_suspicion *suspicion) BASE_CHECK;
#define GOSSIP_SUSPICION_BYTES  (32u + 32u + 20u + 1u + 64u)
#define GOSSIP_RECORD_BYTES_MAX 435u

#endif
