// Backend operations that select the largest elements of a = x - r: one pass over memory a call, no copy of
// a. compress/select.c composes exact top-k, the histogram variant and MSTopK's bisection from these.
//
// Magnitudes are compared as integers: the bits of |a[i]| (IEEE 754 binary32 without its sign) grow with it,
// and are
// >= KERNELS_INFINITE exactly for infinities and NaN. a[i] is the fp32 result of x[i] - r[i], the same bits
// on every backend and path (no fused or wider arithmetic, denormals kept). With a reference in bf16 (on the
// CPU only) a[i] is 0 where that is no larger than the distance between two such numbers near r[i]
// (bf16_step), outside of the open run: r could not follow.
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
    const uint16_t *r_bf16;        // in place of r, or NULL
    size_t open_first, open_count; // with r_bf16: the elements where a is x - r as it is. The first one may
                                   // lie before this vector, as a number modulo 2^64
};

// Statistics of the elements that a pass read.
struct kernels_seen {
    size_t read;      // elements looked at, from the first one asked for
    uint32_t largest; // bits of the largest magnitude; >= KERNELS_INFINITE: an element is NaN or infinite
    double a_energy, x_energy; // sums of (x - r)^2 and x^2; fp32 squares, rounding differs between backends
};

struct kernels_select {
    // Reads `samples` elements in runs of 16 neighbours that lie all over the vector (not at one stride) and
    // writes the bits of their magnitudes. Deterministic for a backend. samples: a multiple of 16, at most
    // count.
    void (*sample)(const struct kernels_difference *a, size_t samples, uint32_t *magnitude);

    // Elements from `first` on whose magnitude is at least `floor` go to index[] (ascending) and value[], in
    // one pass. Stops early, before an element that would not fit, when `room` entries are full: seen->read
    // tells how far it came (a CUDA backend may then have read nothing and written nothing: read = 0).
    // Returns the number of entries. May write anything to index[] and value[] from the number returned up to
    // `room`. floor >= 1: zeros never go.
    size_t (*gather)(const struct kernels_difference *a, size_t first, uint32_t floor, size_t room,
                     uint32_t *index, float *value, struct kernels_seen *seen);

    // Counts magnitudes >= floor by bin: bin = min((magnitude - floor) >> shift, KERNELS_BINS - 1).
    void (*histogram)(const struct kernels_difference *a, uint32_t floor, unsigned shift,
                      uint64_t bins[KERNELS_BINS], struct kernels_seen *seen);

    // counts[j] = number of magnitudes >= floors[j], for n <= 8 floors, in one pass.
    void (*count)(const struct kernels_difference *a, const uint32_t *floors, size_t n, uint64_t *counts,
                  struct kernels_seen *seen);

    // Of the entries, those stay whose magnitude is at least `high`, and the first `ties` of those in
    // [low, high); order and values stay, the rest closes up. Returns how many stayed.
    size_t (*keep)(size_t entries, uint32_t *index, float *value, uint32_t low, uint32_t high, size_t ties);

    // value[i] = a[index[i]], for entries that were chosen in another way.
    void (*pick)(const struct kernels_difference *a, size_t entries, const uint32_t *index, float *value);
};

#endif
