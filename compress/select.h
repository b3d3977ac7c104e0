// Which entries of a = x - r are sent. Deterministic: the same input gives the same entries on every backend
// and path. a is never stored: in most cases x and r are read once, and entries are returned with their
// values.
//
// No state; any thread, one owner per list.
#ifndef COMPRESS_SELECT_H
#define COMPRESS_SELECT_H

#include "compress/compress.h"
#include "kernels/kernels.h"

enum compress_method {
    COMPRESS_EXACT = 0,     // the k largest magnitudes; ties: lower index first
    COMPRESS_THRESHOLD = 1, // a histogram of exponent and leading mantissa bits: all bins above the bin of
                            // the k-th magnitude, then elements of that bin by index
    COMPRESS_BISECTION = 2, // MSTopK (Shi et al. 2021, algorithm 1): bisection for a threshold, then by index
    COMPRESS_RANDOM = 3,    // k elements that depend only on seed, count and k
};
#define COMPRESS_METHODS 4u

struct compress_selection {
    enum compress_method method;
    size_t k;      // entries wanted, <= count
    size_t block;  // 0: the whole vector. Otherwise each run of `block` elements contributes its share of k,
                   // with the remainders spread evenly, so that the shares add up to k
    uint64_t seed; // COMPRESS_RANDOM
};

// Sums over all elements of the vectors, selected or not.
struct compress_energy {
    double a, x; // |x - r|^2, |x|^2
};

// The k for a vector of `count` elements: the part `ratio` of them. 0 (average.ratio: auto) leaves the part
// to this rule, from 1/8 for small vectors to 1/32 for large ones: k = max(d/32, min(d/8, 16384)). Depends on
// the arguments only, so all nodes of a cluster find the same. README.md says why.
size_t compress_select_count(double ratio, size_t count);

// The capacity that `entries` must have: k, and room for candidates.
size_t compress_select_room(const struct compress_selection *selection, size_t count);

// Selects exactly min(k, number of nonzero elements) entries, or so many per block, ascending; only
// COMPRESS_RANDOM selects zeros. energy may be NULL. BASE_EFORMAT: an element of a is NaN or infinite;
// entries->count is unchanged, but the arrays may have changed. BASE_ELIMIT: entries->capacity is too small,
// or count exceeds LIMIT_PARAMETERS. BASE_ENOMEM.
enum base_error compress_select(const struct kernels *kernels, const struct compress_selection *selection,
                                const struct kernels_difference *a, struct compress_sparse *entries,
                                struct compress_energy *energy) BASE_CHECK;

#endif
