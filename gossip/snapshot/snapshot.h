// How a late joiner gets a model: it streams a snapshot (vectors, round, step) from a donor in hash-checked
// blocks, and goes on with another donor where the first one stopped (README.md). Two
// state machines: the donor holds one frozen copy that any number of joiners read; the joiner fills vectors
// of its own. Time comes in with the call; no socket, no thread.
//
// Blocks that came from another donor stay as they are: donors are within consensus distance of each other,
// each block is whole, and the joiner's first exchanges average the rest.
#ifndef GOSSIP_SNAPSHOT_SNAPSHOT_H
#define GOSSIP_SNAPSHOT_SNAPSHOT_H

#include "base/error.h"
#include "gossip/blob.h"
#include "gossip/id.h"
#include "gossip/wire/message.h"
#include <stdbool.h>

// The values that all owners use.
#define GOSSIP_SNAPSHOT_PATIENCE_NS 5000000000ull  // a donor answers at its next round boundary
#define GOSSIP_SNAPSHOT_STARVE_NS   20000000000ull // as many donors as are asked at a time, one after another

struct gossip_snapshot_vectors {
    float *part[GOSSIP_PARTS]; // [parameters] each; NULL where the configuration has no such vector
    struct gossip_blob *blob;  // of the program that trains, or NULL
    uint64_t round, step;      // done when they were taken
};

// -- donor: owned by the worker
struct gossip_donor;
enum base_error gossip_donor_create(size_t parameters, struct gossip_donor **donor) BASE_CHECK;
void gossip_donor_destroy(struct gossip_donor *donor);
// An ask of `peer`. With a frozen copy at hand *answer is the block (payload borrowed until the next call)
// and *answered. Else it is kept as waiting: gossip_donor_wants is true until gossip_donor_freeze brings a
// copy. A joiner that begins (snapshot 0) waits for a new copy where the old one is no longer fresh. Over a
// bound, in all and for one joiner, an ask is dropped: joiners ask again. BASE_EFORMAT for a block that does
// not exist.
enum base_error gossip_donor_ask(struct gossip_donor *donor, const struct gossip_id *peer,
                                 const struct gossip_snapshot_ask *ask, uint64_t now_ns,
                                 struct gossip_message *answer, bool *answered) BASE_CHECK;
bool gossip_donor_wants(const struct gossip_donor *donor);
// Copies `vectors` (all non-NULL parts) and hashes the blocks. Then gossip_donor_waiting gives the waiting
// asks in order. BASE_ESTATE: they hold NaN or Inf, and BASE_ENOMEM: no copy, no ask waits any more.
enum base_error gossip_donor_freeze(struct gossip_donor *donor, const struct gossip_snapshot_vectors *vectors,
                                    uint64_t now_ns) BASE_CHECK;
// The next waiting ask, answered; false: none is left.
bool gossip_donor_waiting(struct gossip_donor *donor, struct gossip_id *peer, struct gossip_message *answer);
void gossip_donor_tick(struct gossip_donor *donor, uint64_t now_ns); // frees a copy that is no longer read
// Drops a copy that is obsolete, because this node takes another model itself. Asks wait for the next freeze.
void gossip_donor_thaw(struct gossip_donor *donor);
uint64_t gossip_donor_deadline(const struct gossip_donor *donor); // of the next tick; UINT64_MAX: none needed

// -- joiner: owned by the worker until it is complete
struct gossip_joiner;
struct gossip_joiner_options {
    struct gossip_id self;
    size_t parameters;
    const struct gossip_snapshot_vectors
        *into;            // parts that are NULL are not asked for; written block by block
    uint64_t patience_ns; // without a block: the next donor
    uint64_t starve_ns;   // without a block from any donor: gossip_joiner_starved; 0: never
    uint64_t seed;        // which donor to ask first: differs between joiners
};
enum base_error gossip_joiner_create(const struct gossip_joiner_options *options,
                                     struct gossip_joiner **joiner) BASE_CHECK;
void gossip_joiner_destroy(struct gossip_joiner *joiner);
// The possible donors, and no others: linked members with complete state. One that is in use stays in use.
void gossip_joiner_donors(struct gossip_joiner *joiner, const struct gossip_id *ids, size_t count,
                          uint64_t now_ns);
// The link to a donor came up or ended. Report it as down also when another link replaces it: what was asked
// over the old one is lost.
void gossip_joiner_donor_up(struct gossip_joiner *joiner, const struct gossip_id *peer, uint64_t now_ns);
void gossip_joiner_donor_down(struct gossip_joiner *joiner, const struct gossip_id *peer, uint64_t now_ns);
// It asks for a model itself, so it has none to give: others are asked first. (Two that ask each other would
// wait until patience ends.) It need not be a donor: of more that ask each other in a circle, the lowest id
// turns to another donor, if there is one.
void gossip_joiner_donor_asks(struct gossip_joiner *joiner, const struct gossip_id *peer, uint64_t now_ns);
// A block. BASE_EFORMAT: it does not fit its hash, its place or this model, or holds what no model may or
// what is implausible compared with what `into` held when the joiner was made, or a round or step beyond the
// limits (the donor is not asked again; close it). Blocks that are not awaited are ignored.
enum base_error gossip_joiner_tell(struct gossip_joiner *joiner, const struct gossip_id *peer,
                                   const struct gossip_snapshot_tell *tell, uint64_t now_ns) BASE_CHECK;
// From now on a donor that reports a round or step beyond these is lying; 0: no limit.
void gossip_joiner_limits(struct gossip_joiner *joiner, uint64_t round, uint64_t step);
// True: donors are there, and none has given a block for starve_ns, so that the owner should choose other
// donors, or go on with what it has; *silent_ns: for how long. True again after each further starve_ns.
bool gossip_joiner_starved(struct gossip_joiner *joiner, uint64_t now_ns, uint64_t *silent_ns);
// What to send next; false: nothing now. A few blocks are asked for ahead.
bool gossip_joiner_next(struct gossip_joiner *joiner, uint64_t now_ns, struct gossip_id *peer,
                        struct gossip_message *ask);
uint64_t
gossip_joiner_deadline(const struct gossip_joiner *joiner); // when to call next again; UINT64_MAX: never
// Complete: all blocks are in `into`; round and step are the highest that any donor reported.
bool gossip_joiner_complete(const struct gossip_joiner *joiner, uint64_t *round, uint64_t *step);
struct gossip_joiner_progress {
    size_t blocks, done, donors_used;
    uint64_t bytes;
};
void gossip_joiner_progress(const struct gossip_joiner *joiner, struct gossip_joiner_progress *progress);

#endif
