// The quality of a plan: degrees, diameter, spectral gaps, rounds to consensus. W_t is the matrix of round t
// (x_i' = (1-w) x_i + w x_j for each meeting), P the product of the first R of them, J the matrix of the
// mean, |.| the spectral norm. Symmetric eigenproblems by C. Lanczos' method with full reorthogonalisation,
// on the complement of the constant vectors. Any thread; no state.
#ifndef TOPOLOGY_SPECTRUM_H
#define TOPOLOGY_SPECTRUM_H

#include "topology/topology.h"
#include <stdbool.h>

struct topology_shape {
    size_t degree_min, degree_max, edges;
    double degree_mean;
    size_t diameter; // of the graph of all meetings; if that is not connected, the largest diameter of a
                     // part
    bool connected;
};

enum base_error topology_shape_of(const struct topology_plan *plan, struct topology_shape *shape) BASE_CHECK;

// 1 - the second largest eigenvalue modulus of a mixing matrix. Static: the graph with Metropolis-Hastings
// weights 1 / (1 + max(degree, degree)), as if all neighbours met at once. Mean: the mean of W_t over a
// period (for random matchings, the expected W_t). If all weights are 1/2, its second largest eigenvalue is
// also the expected squared contraction of one round drawn from the period. BASE_ELIMIT: too many members for
// a reliable answer.
enum base_error topology_gap_static(const struct topology_plan *plan, double *gap) BASE_CHECK;
enum base_error topology_gap_mean(const struct topology_plan *plan, double *gap) BASE_CHECK;

// |P - J| after `rounds` rounds. BASE_ELIMIT: too much work.
enum base_error topology_distance(const struct topology_plan *plan, uint64_t rounds,
                                  double *distance) BASE_CHECK;
// The first R with |P - J| < threshold. BASE_ELIMIT: too much work; *rounds is then a number that was not
// sufficient.
enum base_error topology_rounds_to(const struct topology_plan *plan, double threshold,
                                   uint64_t *rounds) BASE_CHECK;

#endif
