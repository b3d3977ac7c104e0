// The progress of a sweep, in one line. Pure functions.
#ifndef LAB_SWEEP_PROGRESS_H
#define LAB_SWEEP_PROGRESS_H

#include "lab/sweep/sweep_plan.h"

#define LAB_SWEEP_LINE_BYTES 512u

struct lab_sweep_running {
    size_t run;
    double seconds; // so far
};

size_t lab_sweep_count(const struct lab_sweep_plan *plan, enum lab_sweep_state state); // runs in it

// Estimated seconds until all is done, from the median of the complete runs. NAN: there is none.
double lab_sweep_time_left(const struct lab_sweep_plan *plan, const struct lab_sweep_running *running,
                           size_t n_running, size_t at_once);

// "[######--------------] 3/10, 1 failed, left: 2 min 10 s; now topology.kind=ring,seed=0 (12 s)"
void lab_sweep_line(const struct lab_sweep_plan *plan, const struct lab_sweep_running *running,
                    size_t n_running, size_t at_once, char line[LAB_SWEEP_LINE_BYTES]);

// "4.5 s", "45 s", "2 min 10 s", "3 h 4 min"; "-" for NAN.
#define LAB_SPAN_BYTES 32u
void lab_sweep_print_span(double seconds, char text[LAB_SPAN_BYTES]);

#endif
