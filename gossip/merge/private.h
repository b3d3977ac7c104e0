// The object, and what each file offers to those above it: merge -> agree -> chunks -> peers. Private to
// gossip/merge.
#ifndef GOSSIP_MERGE_PRIVATE_H
#define GOSSIP_MERGE_PRIVATE_H

#include "base/limits.h"
#include "gossip/merge/merge.h"
#include "gossip/merge/set.h"

#define MERGE_AHEAD  16u // open asks to one peer, at most
#define MERGE_WINDOW 16u // blocks of the own chunk that are pulled at a time
#define MERGE_ASKS   (MERGE_AHEAD * GOSSIP_MERGE_MOST)

// Of one block, wherever it is to come from.
#define MERGE_MISSING  0u
#define MERGE_DONE     1u
#define MERGE_OF(peer) ((uint32_t)(2 + (peer))) // it has been asked for

struct merge_peer { // another node, from its first link on
    struct gossip_id id;
    bool linked, refused; // it has a link; it has sent what no honest node sends
    bool heard;           // over this link: the fields below
    uint64_t since_ns;    // when the link came or went
    uint64_t told;        // which of this node's states it has; 0: none
    size_t open;          // asks that it has not answered
    size_t window;        // ... at most
    uint64_t fed_ns;      // its latest block, or the first ask after an idle time
    enum gossip_merge_phase phase;
    bool gives;
    uint64_t hash;
    struct merge_set set;
};

struct merge_ask { // of another node, not answered yet
    size_t peer;
    struct gossip_snapshot_ask ask;
};

struct merge_state { // as others are told
    enum gossip_merge_phase phase;
    uint64_t hash;
    struct merge_set set;
};

struct gossip_merge {
    struct gossip_merge_options options;
    uint64_t now_ns, begun_ns, moved_ns; // latest call; first offer; the latest progress of any node
    bool begun, known;                   // it has its own model; the members are known
    enum gossip_merge_end end;
    const float *own; // [parameters] borrowed
    bool gives;
    float limit; // no value of another node may be larger

    struct gossip_merge_member members[GOSSIP_MERGE_MOST]; // here and finished
    size_t n_members;
    bool many;    // there are more
    uint64_t key; // this node's
    struct merge_peer *peers;
    size_t n_peers, capacity;
    struct merge_ask asks[MERGE_ASKS]; // the oldest first
    size_t n_asks;
    uint8_t keys[GOSSIP_MERGE_MOST * sizeof(uint64_t)]; // of the message that goes out

    // agree.c
    enum gossip_merge_phase phase;
    struct merge_set base;   // as first offered: most of these must take part
    struct merge_set now;    // as offered
    struct merge_set agreed; // the latest set that all of it had offered, or one that others have decided
    bool out;                // the others merge without this node: it takes their mean
    bool takes;              // `agreed` has been decided, and this node pulls its mean
    uint64_t hash;           // of the mean: taken from those who have it, or computed
    uint64_t sure;           // bits: participants of `agreed` that are known to have agreed
    uint64_t gave;           // bits: those whose model counts
    uint64_t held;           // bits: those that have held the mean of `agreed`, and its hash there
    uint64_t held_hash[GOSSIP_MERGE_MOST];
    struct merge_state told;
    uint64_t version; // of `told`
    size_t attempts;

    // chunks.c: of `agreed`
    float *model;    // [parameters] the mean as far as it is here
    uint32_t *block; // [LIMIT of all blocks] MERGE_MISSING ...
    size_t blocks, n_done;
    size_t per;                     // blocks of one chunk
    size_t hint[GOSSIP_MERGE_MOST]; // no block of the chunk before it is missing
    float *parts;                   // the blocks of others that the own chunk is added up from
    uint32_t part[MERGE_WINDOW][GOSSIP_MERGE_MOST];
    size_t reduced;  // blocks of the own chunk that are done
    size_t window;   // blocks that may be on their way to this node
    uint64_t fed_ns; // the latest block, or the first ask after an idle time
    uint64_t bytes;
};

// chunks.c. The vectors; BASE_ENOMEM.
enum base_error merge_chunks_create(struct gossip_merge *merge) BASE_CHECK;
void merge_chunks_release(struct gossip_merge *merge);
void merge_chunks_begin(struct gossip_merge *merge); // of another `agreed`
bool merge_chunks_reduced(const struct gossip_merge *merge);
bool merge_chunks_complete(const struct gossip_merge *merge);
// Its answers over an older link are lost, or it has no such block any more.
void merge_chunks_forget(struct gossip_merge *merge, size_t peer);
bool merge_chunks_ask(struct gossip_merge *merge, size_t *peer, struct gossip_snapshot_ask *ask);
// False: this node does not have it.
bool merge_chunks_answer(const struct gossip_merge *merge, const struct gossip_snapshot_ask *ask,
                         struct gossip_snapshot_tell *tell);
enum base_error merge_chunks_tell(struct gossip_merge *merge, size_t peer,
                                  const struct gossip_snapshot_tell *tell) BASE_CHECK;

// peers.c
size_t merge_peer_add(struct gossip_merge *merge, const struct gossip_id *id);        // SIZE_MAX: no memory
size_t merge_peer_find(const struct gossip_merge *merge, const struct gossip_id *id); // SIZE_MAX: none
size_t merge_peer_of(const struct gossip_merge *merge, uint64_t key); // a member that is here; SIZE_MAX: none
uint64_t merge_peer_key(const struct gossip_merge *merge, const struct merge_peer *peer); // 0: no member
bool merge_peer_talks(const struct gossip_merge *merge, size_t peer); // linked, a member, has said its state

// agree.c
void merge_consider(struct gossip_merge *merge); // after every event

#endif
