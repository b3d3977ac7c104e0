// Extreme eigenvalues of a symmetric operator. Private to this folder.
#ifndef TOPOLOGY_LANCZOS_H
#define TOPOLOGY_LANCZOS_H

#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>

struct topology_operator {
    size_t n;
    void (*apply)(void *self, const double *x, double *y); // y = A x, both [n]; A maps constants to constants
    void *self;
    double enough; // not 0: the search ends once the largest eigenvalue is known to reach this
};

// Smallest and largest eigenvalue of A on the complement of the constant vectors, n >= 2, to `accuracy`
// (relative to the largest modulus) in at most `steps` applications. BASE_ELIMIT: this accuracy was not
// reached; the returned values then lie between the two eigenvalues.
enum base_error topology_lanczos(const struct topology_operator *a, size_t steps, double accuracy,
                                 double *smallest, double *largest) BASE_CHECK;

#endif
