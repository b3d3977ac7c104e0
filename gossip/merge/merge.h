// How a cluster ends with one model: the nodes that have done their last step average their final models, so
// that all hold the same bits (README.md). One object is one node's part in it.
//
// The model is cut into one chunk for each participant. The owner of a chunk pulls it from all others and
// adds it up in the order of their keys (phase 1); then everybody pulls the other chunks of the mean from
// their owners (phase 2). Participants are the nodes that all participants agree on. If one of them dies, the
// others begin again without it, unless one of them has the whole mean already.
//
//     OFFERS --all have offered the same--> AGREED --own chunk is out--> REDUCED --all chunks--> HOLDS
//       ^                                     |                            |                      |
//       +------- a participant is gone -------+----------------------------+       most hold it   v
//                                                                                              DECIDED
//
// A state machine: time comes in with the call, messages go out through gossip_merge_next. No socket, thread,
// clock or randomness. One owner (the worker; the process of a simulation). Memory: from begin to end one
// model and at most 16 * GOSSIP_MERGE_MOST blocks.
#ifndef GOSSIP_MERGE_MERGE_H
#define GOSSIP_MERGE_MERGE_H

#include "base/error.h"
#include "gossip/id.h"
#include "gossip/wire/message.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// How long a node that lingers for others waits in a merge: a link of 64 kbit/s that carries the membership
// of eight nodes needs 5 s to come up and 16 s until both have said their sets. At most a minute.
uint64_t gossip_merge_patience(uint64_t linger_ns);

struct gossip_merge;

enum gossip_merge_end {
    GOSSIP_MERGE_GOES_ON, // or has not begun
    GOSSIP_MERGE_MERGED,  // the mean is here, and no node that is here still needs it
    GOSSIP_MERGE_ALONE,   // no other node has finished
    GOSSIP_MERGE_MANY,    // more than GOSSIP_MERGE_MOST nodes
    GOSSIP_MERGE_FEW,     // too many of those that began are gone
    GOSSIP_MERGE_LATE,    // nothing has moved for patience_ns, and 4 s more for each node
    GOSSIP_MERGE_DAMAGED, // the chunks that others sent are not those of the mean that they have
};
const char *gossip_merge_end_text(enum gossip_merge_end end); // for people

struct gossip_merge_member {
    struct gossip_id id;
    uint64_t key; // of its process: gossip_merge_key
};
// A process that has been restarted has forgotten what it agreed to: it is another participant.
uint64_t gossip_merge_key(const struct gossip_id *id, uint64_t generation, uint64_t instance_id);

struct gossip_merge_options {
    struct gossip_id self;
    size_t parameters;
    uint64_t patience_ns; // ends when nothing has moved for so long and 4 s more for each node, and after 60
                          // times as long in any case
};

enum base_error gossip_merge_create(const struct gossip_merge_options *options,
                                    struct gossip_merge **merge) BASE_CHECK;
void gossip_merge_destroy(struct gossip_merge *merge); // NULL is fine

// -- events

// A link to `peer` came into use (it may replace another), or ended. From the start of the process on.
void gossip_merge_linked(struct gossip_merge *merge, const struct gossip_id *peer, uint64_t now_ns);
void gossip_merge_unlinked(struct gossip_merge *merge, const struct gossip_id *peer, uint64_t now_ns);
// The members that are here and have done their last step, this node included. From the first call on, a
// member that is missing is gone.
void gossip_merge_members(struct gossip_merge *merge, const struct gossip_merge_member *members, size_t count,
                          uint64_t now_ns);
// own: [parameters] the final model of this node, finite, borrowed until gossip_merge_finish. gives: it
// counts in the mean. BASE_ENOMEM
enum base_error gossip_merge_begin(struct gossip_merge *merge, const float *own, bool gives,
                                   uint64_t now_ns) BASE_CHECK;
bool gossip_merge_is_of(const struct gossip_message *message); // it is for gossip_merge_heard
// MERGE, or SNAPSHOT_ASK or SNAPSHOT_TELL of part FINAL or MERGED. BASE_EFORMAT: no honest node sends this;
// `peer` is no participant any more, close its link.
enum base_error gossip_merge_heard(struct gossip_merge *merge, const struct gossip_id *peer,
                                   const struct gossip_message *message, uint64_t now_ns) BASE_CHECK;
void gossip_merge_tick(struct gossip_merge *merge, uint64_t now_ns); // at the deadline
// Ends: the vectors are released, and nothing is sent any more.
void gossip_merge_finish(struct gossip_merge *merge);

// -- what follows

// The next message to send; its payload is borrowed until the next call. False: none.
bool gossip_merge_next(struct gossip_merge *merge, struct gossip_id *peer, struct gossip_message *message);
uint64_t gossip_merge_deadline(const struct gossip_merge *merge); // when to tick; UINT64_MAX: never
enum gossip_merge_end gossip_merge_end(const struct gossip_merge *merge);
const float *gossip_merge_model(const struct gossip_merge *merge); // MERGED: [parameters], until finish

struct gossip_merge_info {
    enum gossip_merge_phase phase;
    size_t nodes, gave; // participants of the mean, and those whose model counts in it
    size_t attempts;    // sets of participants that were agreed on
    uint64_t bytes;     // of blocks received
    uint64_t hash;      // of the mean, from HOLDS on
};
void gossip_merge_info(const struct gossip_merge *merge, struct gossip_merge_info *info);

#endif
