// How a late joiner gets a model: it fetches a snapshot (vectors, round, step) from a donor in blocks with
// hashes, and continues with another donor where the first one stopped (README.md). Two state machines: the
// donor holds one frozen copy that any number of joiners read; the joiner fills vectors of its owner. Time
// comes in with the call; no socket, no thread.
//
// Blocks of an earlier donor are kept: donors are within consensus distance of each other, each block is
// complete, and the first exchanges of the joiner average the differences.
#ifndef GOSSIP_SNAPSHOT_SNAPSHOT_H
#define GOSSIP_SNAPSHOT_SNAPSHOT_H

#include "base/error.h"
#include "gossip/blob.h"
#include "gossip/id.h"
#include "gossip/wire/message.h"
#include <stdbool.h>

// The values for options that all owners use.
#define GOSSIP_SNAPSHOT_PATIENCE_NS 5000000000ull  // a donor answers at once, if it has a model
#define GOSSIP_SNAPSHOT_STARVE_NS   20000000000ull // patience_ns for each of four donors in turn

struct gossip_snapshot_vectors {
    float *part[GOSSIP_PARTS]; // [parameters] each; NULL if the configuration has no such vector
    // freeze: how a part is copied to ordinary memory, as kernels.download; NULL: the part is in ordinary
    // memory
    void (*read[GOSSIP_PARTS])(void *to, const void *from, size_t bytes);
    struct gossip_blob *blob; // of the program that trains, or NULL
    uint64_t round, step;     // completed when the vectors were taken
};

// -- donor: owned by the worker
struct gossip_donor;
enum base_error gossip_donor_create(size_t parameters, struct gossip_donor **donor) BASE_CHECK;
void gossip_donor_destroy(struct gossip_donor *donor);
// An ask of `peer`. If there is a frozen copy, *answered is true and *answer is the block (payload borrowed
// until the next call). Otherwise the ask waits, and gossip_donor_wants is true until gossip_donor_freeze
// makes a copy. A joiner that begins (snapshot 0) waits for a new copy if the old one is no longer fresh. If
// too many asks wait, in all or of one joiner, the ask is dropped; joiners ask again. BASE_EFORMAT: the block
// does not exist.
enum base_error gossip_donor_ask(struct gossip_donor *donor, const struct gossip_id *peer,
                                 const struct gossip_snapshot_ask *ask, uint64_t now_ns,
                                 struct gossip_message *answer, bool *answered) BASE_CHECK;
bool gossip_donor_wants(const struct gossip_donor *donor);
// Copies `vectors` (all non-NULL parts) and hashes the blocks. Afterwards gossip_donor_waiting answers the
// waiting asks in order. BASE_ESTATE (the vectors contain NaN or Inf) and BASE_ENOMEM: there is no copy, and
// the waiting asks are dropped.
enum base_error gossip_donor_freeze(struct gossip_donor *donor, const struct gossip_snapshot_vectors *vectors,
                                    uint64_t now_ns) BASE_CHECK;
// Answers the next waiting ask; false: none is left.
bool gossip_donor_waiting(struct gossip_donor *donor, struct gossip_id *peer, struct gossip_message *answer);
void gossip_donor_tick(struct gossip_donor *donor, uint64_t now_ns); // frees a copy that is no longer read
// Drops the copy because this node adopts another model. Asks wait for the next freeze.
void gossip_donor_thaw(struct gossip_donor *donor);
uint64_t gossip_donor_deadline(const struct gossip_donor *donor); // when to call tick next; UINT64_MAX:
                                                                  // never

// -- joiner: owned by the worker until it is complete
struct gossip_joiner;
struct gossip_joiner_options {
    struct gossip_id self;
    size_t parameters;
    const struct gossip_snapshot_vectors
        *into;            // filled block by block; parts that are NULL are not asked for
    uint64_t patience_ns; // after so long without a block, the next donor is asked
    uint64_t starve_ns;   // after so long without a block from any donor, gossip_joiner_starved is true; 0:
                          // never
    uint64_t seed;        // decides which donor is asked first; different for each joiner
};
enum base_error gossip_joiner_create(const struct gossip_joiner_options *options,
                                     struct gossip_joiner **joiner) BASE_CHECK;
void gossip_joiner_destroy(struct gossip_joiner *joiner);
// Sets the possible donors: linked members with complete state. A donor in use stays in use if it is among
// them.
void gossip_joiner_donors(struct gossip_joiner *joiner, const struct gossip_id *ids, size_t count,
                          uint64_t now_ns);
// The link to a donor came up or ended. Report it as down also when another link replaces it: asks over the
// old one are lost.
void gossip_joiner_donor_up(struct gossip_joiner *joiner, const struct gossip_id *peer, uint64_t now_ns);
void gossip_joiner_donor_down(struct gossip_joiner *joiner, const struct gossip_id *peer, uint64_t now_ns);
// `peer` itself asks for a model, so it has none to give, and others are asked first. (Two nodes that ask
// each other would wait for patience_ns.) `peer` need not be a donor: in a larger circle of nodes that ask
// each other, the lowest id turns to another donor, if there is one.
void gossip_joiner_donor_asks(struct gossip_joiner *joiner, const struct gossip_id *peer, uint64_t now_ns);
// A block has arrived. BASE_EFORMAT: it does not match its hash, its place or this model; or it contains
// invalid values, or implausible ones compared to the initial contents of `into`; or its round or step is
// beyond the limits. The donor is then not asked again (in the last case: before the limits are higher);
// close its link. Unexpected blocks are ignored.
enum base_error gossip_joiner_tell(struct gossip_joiner *joiner, const struct gossip_id *peer,
                                   const struct gossip_snapshot_tell *tell, uint64_t now_ns) BASE_CHECK;
// From now on a round or step beyond these limits is refused; 0: no limit. Under higher limits a donor that
// was beyond them is asked again: the limits follow from reports, and a fast donor may be further than its
// report.
void gossip_joiner_limits(struct gossip_joiner *joiner, uint64_t round, uint64_t step);
// True: there are donors, but none has sent a block for starve_ns. The owner should choose other donors, or
// continue with what it has. *silent_ns: for how long. True again after each further starve_ns.
bool gossip_joiner_starved(struct gossip_joiner *joiner, uint64_t now_ns, uint64_t *silent_ns);
// The next ask to send; false: nothing to send now. A few blocks are asked for ahead.
bool gossip_joiner_next(struct gossip_joiner *joiner, uint64_t now_ns, struct gossip_id *peer,
                        struct gossip_message *ask);
uint64_t
gossip_joiner_deadline(const struct gossip_joiner *joiner); // when to call next again; UINT64_MAX: never
// Complete: all blocks are in `into`; round and step are the highest that any donor reported.
bool gossip_joiner_complete(const struct gossip_joiner *joiner, uint64_t *round, uint64_t *step);
// The owner refuses the model that is complete: it is fetched again. True: one donor gave all of it, which is
// `donor` and is not asked again. False: nobody can tell whose blocks were bad. In both cases the next model
// is one donor's from the first block to the last.
bool gossip_joiner_refuse(struct gossip_joiner *joiner, uint64_t now_ns, struct gossip_id *donor);
struct gossip_joiner_progress {
    size_t blocks, done, donors_used;
    uint64_t bytes;
    struct gossip_id donor; // of the latest block
};
void gossip_joiner_progress(const struct gossip_joiner *joiner, struct gossip_joiner_progress *progress);

#endif
