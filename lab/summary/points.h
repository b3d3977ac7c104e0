// rounds.jsonl of `p2pml run`, worked out when all is over from what the nodes wrote down. Single nodes are
// known as they measured themselves; the averaged model only at the beginning and at the end. Main thread.
#ifndef LAB_POINTS_H
#define LAB_POINTS_H

#include "lab/summary/summary.h"

struct lab_points_source {
    const struct lab_swarm *swarm;
    const struct lab_workbench *bench; // open
    const struct lab_average *average; // of the end
};
struct lab_points_span {
    double seconds; // from the first round of any node to the last
    uint64_t steps; // local steps of all nodes
};
enum base_error lab_points_write(const struct lab_points_source *source, const char *path,
                                 struct lab_points_span *span, struct base_reason *why) BASE_CHECK;

#endif
