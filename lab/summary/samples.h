// rounds.jsonl of `p2pml run`, computed after the run from the records of the nodes. Single nodes have their
// own measurements; the averaged model is measured only at the beginning and at the end. Main thread.
#ifndef LAB_POINTS_H
#define LAB_POINTS_H

#include "lab/summary/summary.h"

struct lab_samples_source {
    const struct lab_cluster *cluster;
    const struct lab_workbench *bench; // open
    const struct lab_average *average; // at the end of the run
};
struct lab_samples_span {
    double seconds; // from the first round of any node to the last
};
enum base_error lab_samples_write(const struct lab_samples_source *source, const char *path,
                                  struct lab_samples_span *span, struct base_reason *why) BASE_CHECK;

#endif
