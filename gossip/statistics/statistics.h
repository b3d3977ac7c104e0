// The statistics of all nodes' examples, column by column, for a scaling that the cluster shares. Each node
// tells how its own columns spread; the node that goes first (gossip/life) joins what it has heard. What
// follows from that travels with its model, so that whoever takes the model takes its scaling.
//
// A state machine: no socket, clock or thread. What was heard is a set, one entry an id, of blocks: in any
// order, and any number of times, the same messages leave the same state. A process that began later
// (generation) replaces what an earlier one of its id has told. One owner. Memory: GOSSIP_SPREAD_BYTES a
// column and node, for at most LIMIT_PEERS nodes.
//
// Means and deviations are joined pairwise (Chan, Golub, LeVeque 1979, equations 1.5), in double and in the
// order of ids: sums of squares would lose what is small beside the mean.
#ifndef GOSSIP_STATISTICS_STATISTICS_H
#define GOSSIP_STATISTICS_STATISTICS_H

#include "base/error.h"
#include "gossip/id.h"
#include "gossip/wire/message.h"
#include <stdbool.h>

struct gossip_spread { // of one column over the rows of one node, or of several
    double least, most, mean;
    double deviation; // root of the mean square distance from the mean
};

struct gossip_statistics;

struct gossip_statistics_options {
    struct gossip_id self;
    uint64_t generation;                 // of this process
    uint64_t rows;                       // 1 .. GOSSIP_STATISTICS_ROWS
    uint32_t columns;                    // 1 .. LIMIT_STATISTICS_COLUMNS
    const struct gossip_spread *spreads; // [columns] of this node's rows; copied
};

// BASE_EINVAL: a column of this node that others would refuse. BASE_ENOMEM.
enum base_error gossip_statistics_create(const struct gossip_statistics_options *options,
                                         struct gossip_statistics **statistics) BASE_CHECK;
void gossip_statistics_destroy(struct gossip_statistics *statistics); // NULL is fine

// What this node tells, in this many messages. The payload is borrowed from the object until it ends.
size_t gossip_statistics_blocks(const struct gossip_statistics *statistics);
struct gossip_message gossip_statistics_tell(const struct gossip_statistics *statistics, size_t block);

// A message of `from`. BASE_EFORMAT: other columns than here, or values that no rows have (not finite, a mean
// outside of least and most, a deviation wider than they are apart); BASE_ELIMIT: of more nodes than
// LIMIT_PEERS; BASE_ENOMEM. Then nothing has changed.
enum base_error gossip_statistics_take(struct gossip_statistics *statistics, const struct gossip_id *from,
                                       const struct gossip_statistics_message *message) BASE_CHECK;
bool gossip_statistics_has(const struct gossip_statistics *statistics,
                           const struct gossip_id *id); // all of its columns

// spreads[columns] over the rows of this node and of all others that have told all columns; returns how many
// nodes that are. The same set gives the same bits.
size_t gossip_statistics_join(const struct gossip_statistics *statistics, struct gossip_spread *spreads);

#endif
