// Shared by the files of lab/sweep, and private to them.
#ifndef LAB_SWEEP_PRIVATE_H
#define LAB_SWEEP_PRIVATE_H

#include "lab/sweep/sweep_plan.h"

// sweep_axes.c: the key `sweep` of the file. Sets axes and n_points; on error the caller frees.
enum base_error lab_sweep_axes_read(const struct lab_experiment *base, struct lab_sweep_plan *plan,
                                    struct base_reason *why) BASE_CHECK;

// sweep_label.c: fills text and label of every point. BASE_EINVAL: two points are the same.
enum base_error lab_sweep_labels_make(struct lab_sweep_plan *plan, struct base_reason *why) BASE_CHECK;

#endif
