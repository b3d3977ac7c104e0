// A number over several seeds: the mean and its 95% confidence interval. Pure.
#ifndef LAB_RECORD_BAND_H
#define LAB_RECORD_BAND_H

#include <stddef.h>

// If no run has the number, all are NAN and seen is 0.
struct lab_band {
    double mean, low, high; // low, high: the lowest and the highest
    double half;            // the mean is known to +- half with 95% confidence (Student's t); NAN: of one run
    size_t seen;            // runs with a value
};
struct lab_band lab_band_of(const double *values, size_t count); // NAN and infinite values are left out

#endif
