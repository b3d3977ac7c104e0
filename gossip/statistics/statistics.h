// The statistics of all nodes' examples, column by column, for a scaling that the cluster shares. Each node
// tells the statistics of its own columns; the node that begins first (gossip/life) combines those that it
// has received. The resulting scaling is sent with its model, so a node that adopts the model also adopts the
// scaling.
//
// A state machine: no socket, clock or thread. The state is a set of blocks, with one entry per id: the same
// messages give the same state in any order and with any repetitions. A later process of an id (generation)
// replaces the entry of an earlier one. One owner. Memory: GOSSIP_SPREAD_BYTES per column and node, for at
// most LIMIT_PEERS nodes.
//
// Means and deviations are combined pairwise (Chan, Golub, LeVeque 1979, equations 1.5), in double and in the
// order of ids: sums of squares would lose deviations that are small relative to the mean.
#ifndef GOSSIP_STATISTICS_STATISTICS_H
#define GOSSIP_STATISTICS_STATISTICS_H

#include "base/error.h"
#include "gossip/id.h"
#include "gossip/wire/message.h"
#include <stdbool.h>

struct gossip_spread { // of one column over the rows of one or several nodes
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

// BASE_EINVAL: a column of this node has statistics that other nodes would refuse. BASE_ENOMEM.
enum base_error gossip_statistics_create(const struct gossip_statistics_options *options,
                                         struct gossip_statistics **statistics) BASE_CHECK;
void gossip_statistics_destroy(struct gossip_statistics *statistics); // NULL is allowed

// The messages with this node's own statistics, and their number. The payload is borrowed until destroy.
size_t gossip_statistics_blocks(const struct gossip_statistics *statistics);
struct gossip_message gossip_statistics_tell(const struct gossip_statistics *statistics, size_t block);

// A message of `from`. On error nothing has changed. BASE_EFORMAT: another number of columns, or values that
// no rows can have (not finite, a mean below the minimum or above the maximum, a deviation of more than half
// of the range). BASE_ELIMIT: more nodes than LIMIT_PEERS. BASE_ENOMEM.
enum base_error gossip_statistics_take(struct gossip_statistics *statistics, const struct gossip_id *from,
                                       const struct gossip_statistics_message *message) BASE_CHECK;
bool gossip_statistics_has(const struct gossip_statistics *statistics,
                           const struct gossip_id *id); // all of its columns

// Computes spreads[columns] over the rows of this node and of all nodes that have told all columns; returns
// the number of these nodes. The same set gives the same bits.
size_t gossip_statistics_join(const struct gossip_statistics *statistics, struct gossip_spread *spreads);

#endif
