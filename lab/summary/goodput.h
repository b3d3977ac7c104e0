// The rounds that a node did, divided by those that the cluster did while the node was meant to run. Pure
// functions of the records.
#ifndef LAB_GOODPUT_H
#define LAB_GOODPUT_H

#include "lab/record/history.h"
#include "lab/record/nodes.h"

struct lab_goodput {
    uint64_t living; // rounds that the cluster did while the node was meant to run
    uint64_t
        counted;  // of these, the rounds that it did itself; one repeated after an old checkpoint counts once
    double share; // counted / living; NAN: living is 0
};

// `histories` [cluster->count].
void lab_goodput_of(const struct lab_cluster *cluster, size_t node, const struct lab_history *histories,
                    struct lab_goodput *goodput);
// The sum over all nodes. *least: the node with the smallest share.
void lab_goodput_total(const struct lab_cluster *cluster, const struct lab_history *histories,
                       struct lab_goodput *total, size_t *least);

#endif
