// Backend operations that select the largest elements of a = x - r: one pass over memory per call, no copy of
// a. compress/select.c builds exact top-k, the histogram variant and the bisection of MSTopK from these.
//
// Magnitudes are compared as integers: the bits of |a[i]| (IEEE 754 binary32 without the sign) are in the
// same order as the numbers, and at least KERNELS_INFINITE exactly for infinities and NaN. a[i] is the fp32
// result of x[i] - r[i], the same bits on every backend and path (no fused or wider arithmetic, denormals
// kept). With a reference in bf16 (CPU only), a[i] is 0 outside of the open run if |x[i] - r[i]| is at most
// the distance between two bf16 numbers near r[i] (bf16_step), because r could not follow so small a change.
//
// x, r, index and value are in the backend's memory; everything else is the caller's ordinary memory. Pure
// functions of their input: any thread, as kernels.h says.
#ifndef KERNELS_SELECT_H
#define KERNELS_SELECT_H

#include <stddef.h>
#include <stdint.h>

#define KERNELS_INFINITE 0x7f800000u
#define KERNELS_BINS     4096u

struct kernels_difference {
    const float *x;
    const float *r;                // NULL: a = x, or a reference in bf16
    size_t count;                  // below 2^32
    const uint16_t *r_bf16;        // used instead of r, or NULL
    size_t open_first, open_count; // with r_bf16: the run of elements in which a is always x - r. open_first
                                   // may be before this vector, as a number modulo 2^64
};

// Statistics of the elements that a pass read.
struct kernels_seen {
    size_t read;      // number of elements read, from the first requested one
    uint32_t largest; // bits of the largest magnitude; >= KERNELS_INFINITE: an element is NaN or infinite
    double a_energy, x_energy; // sums of (x - r)^2 and x^2; squares in fp32; the rounding differs between
                               // backends
};

struct kernels_select {
    // Reads `samples` elements, in runs of 16 that are spread over the vector without a constant stride, and
    // writes the bits of their magnitudes. Deterministic for a backend. samples: a multiple of 16, at most
    // count.
    void (*sample)(const struct kernels_difference *a, size_t samples, uint32_t *magnitude);

    // Writes the elements from `first` on whose magnitude is at least `floor` to index[] (ascending) and
    // value[], in one pass, and returns their number. If there are more than `room`, it stops before the
    // first one that does not fit; seen->read says how many elements were read (a CUDA backend then returns 0
    // entries and read = 0). index[] and value[] between the returned number and `room` may be overwritten.
    // floor >= 1, so zeros are never selected.
    size_t (*gather)(const struct kernels_difference *a, size_t first, uint32_t floor, size_t room,
                     uint32_t *index, float *value, struct kernels_seen *seen);

    // Counts magnitudes >= floor by bin: bin = min((magnitude - floor) >> shift, KERNELS_BINS - 1).
    void (*histogram)(const struct kernels_difference *a, uint32_t floor, unsigned shift,
                      uint64_t bins[KERNELS_BINS], struct kernels_seen *seen);

    // counts[j] = number of magnitudes >= floors[j], for n <= 8 floors, in one pass.
    void (*count)(const struct kernels_difference *a, const uint32_t *floors, size_t n, uint64_t *counts,
                  struct kernels_seen *seen);

    // Keeps the entries whose magnitude is at least `high`, and the first `ties` of those in [low, high);
    // removes the others in place, in the same order. Returns the number kept.
    size_t (*keep)(size_t entries, uint32_t *index, float *value, uint32_t low, uint32_t high, size_t ties);

    // value[i] = a[index[i]], for entries that were selected by other means.
    void (*pick)(const struct kernels_difference *a, size_t entries, const uint32_t *index, float *value);
};

#endif
