// The mean of several runs over the rounds, for runs of one setting with several seeds. Pure.
#ifndef LAB_REPORT_CURVE_H
#define LAB_REPORT_CURVE_H

#include "lab/record/band.h"
#include "lab/record/recorder.h"

#include <stddef.h>

enum lab_axis { LAB_AXIS_ROUND, LAB_AXIS_STEP, LAB_AXIS_BYTES, LAB_AXIS_TIME, LAB_AXES };
enum lab_line {
    LAB_LINE_ACCURACY, // of the averaged model, as is LOSS
    LAB_LINE_WORST,
    LAB_LINE_LOSS,
    LAB_LINE_CONSENSUS,
    LAB_LINE_MEAN, // accuracy, mean over the nodes: the only accuracy that a run of real processes has before
                   // its end
    LAB_LINE_TRAIN_LOSS,
    LAB_LINES
};
const char *lab_axis_name(enum lab_axis axis); // "round"
const char *lab_line_name(enum lab_line line); // "accuracy"

struct lab_curve_point {
    double at[LAB_AXES]; // means over the runs
    struct lab_band value[LAB_LINES];
};

struct lab_curve {
    struct lab_curve_point *points;
    size_t count;
};

struct lab_samples {
    const struct lab_sample *points; // borrowed
    size_t count;
};

// For one run, its points. For several runs, their means, with linear interpolation, at those rounds of the
// run with the most points that all runs reached. At most `most` (>= 2) points. BASE_ENOMEM.
enum base_error lab_curve_make(const struct lab_samples *runs, size_t n_runs, size_t most,
                               struct lab_curve *curve) BASE_CHECK;
void lab_curve_free(struct lab_curve *curve);

#endif
