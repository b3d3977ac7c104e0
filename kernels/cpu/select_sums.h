// Part of select_body.h: reading of elements, and the sums of every pass.
#ifndef KERNELS_CPU_SELECT_SUMS_H
#define KERNELS_CPU_SELECT_SUMS_H

#include "kernels/cpu/select.h"

#include <immintrin.h>
#include <stdbool.h>

#define VECTORS   64u               // of a piece
#define PIECE     (VECTORS * LANES) // elements between two checks of the room left
#define NEAR      512u              // prefetch distance in elements: the hardware stops at the end of a page
#define FAR       2048u             // the same into L2, for slow memory
#define DENSE     (PIECE / 14u)     // with so many entries, packing every vector is cheaper than choosing
#define DENSER    (PIECE / 7u)      // and with so many, more than 4 entries in a vector are common
#define ALL_LANES ((1u << LANES) - 1)
#define INLINE    static inline __attribute__((always_inline))

// Partial sums of one piece, and totals.
struct partial {
    v_float a, x;
    v_bits largest;
};
struct total {
    v_double a, x;
    v_bits largest;
};

INLINE struct total total_zero(void)
{
    return (struct total){v_double_zero(), v_double_zero(), v_set(0)};
}

INLINE struct partial partial_zero(void)
{
    return (struct partial){v_zero(), v_zero(), v_set(0)};
}

INLINE void total_add(struct total *total, const struct partial *part, bool differs)
{
    total->a = v_double_add(total->a, part->a);
    if (differs)
        total->x = v_double_add(total->x, part->x);
    total->largest = v_max(total->largest, part->largest);
}

static void total_tell(const struct total *total, size_t read, bool differs, struct kernels_seen *seen)
{
    double a[sizeof(v_double) / sizeof(double)], x[sizeof(v_double) / sizeof(double)];
    uint32_t largest[LANES];
    *seen = (struct kernels_seen){.read = read};
    memcpy(a, &total->a, sizeof a);
    memcpy(x, differs ? &total->x : &total->a, sizeof x);
    memcpy(largest, &total->largest, sizeof largest);
    for (size_t i = 0; i < sizeof a / sizeof a[0]; i++) {
        seen->a_energy += a[i];
        seen->x_energy += x[i];
    }
    for (size_t i = 0; i < LANES; i++)
        seen->largest = largest[i] > seen->largest ? largest[i] : seen->largest;
}

// The lanes, from element `at` on, that are in the open run.
INLINE unsigned open_lanes(const struct kernels_difference *a, size_t at)
{
    unsigned lanes = 0;
    if (at + (LANES - 1) - a->open_first >= a->open_count + (LANES - 1))
        return 0;
    for (unsigned i = 0; i < LANES; i++)
        lanes |= (unsigned)(at + i - a->open_first < a->open_count) << i;
    return lanes;
}

INLINE v_float read_reference(const struct kernels_difference *a, size_t at, enum select_reference kind)
{
    return kind == SELECT_BF16 ? v_load_bf16(a->r_bf16 + at) : v_load(a->r + at);
}

// a for the difference x - r: with a reference in bf16, 0 if the difference is too small (kernels/select.h).
INLINE v_float far_enough(const struct kernels_difference *a, size_t at, enum select_reference kind,
                          v_float r, v_float d)
{
    return kind == SELECT_BF16 ? v_keep_above(d, v_bf16_step(r), open_lanes(a, at)) : d;
}

INLINE v_float difference(const struct kernels_difference *a, size_t at, enum select_reference kind,
                          v_float x)
{
    const v_float r = kind != SELECT_NONE ? read_reference(a, at, kind) : v_zero();
    return kind != SELECT_NONE ? far_enough(a, at, kind, r, v_sub(x, r)) : x;
}

// Adds x and a to the partial sums; returns a.
INLINE v_float seen(const struct kernels_difference *a, size_t at, enum select_reference kind, v_float x,
                    v_float r, struct partial *part)
{
    v_float d = kind != SELECT_NONE ? v_sub(x, r) : x;
    part->a = v_square_add(part->a, d);
    if (kind != SELECT_NONE)
        part->x = v_square_add(part->x, x);
    d = far_enough(a, at, kind, r, d);
    part->largest = v_max(part->largest, v_magnitude(d));
    return d;
}

// Reads the elements from `at` on, adds them to the partial sums and returns a.
INLINE v_float look(const struct kernels_difference *a, size_t at, enum select_reference kind,
                    struct partial *part)
{
    const v_float x = v_load(a->x + at);
    return seen(a, at, kind, x, kind != SELECT_NONE ? read_reference(a, at, kind) : x, part);
}

// The first `lanes` elements at `at`, then zeros.
INLINE v_float look_first(const struct kernels_difference *a, size_t at, unsigned lanes,
                          enum select_reference kind, struct partial *part)
{
    const v_float x = v_load_first(a->x + at, lanes);
    v_float r = x;
    if (kind == SELECT_BF16) {
        uint16_t padded[LANES] = {0};
        memcpy(padded, a->r_bf16 + at, lanes * sizeof *padded);
        r = v_load_bf16(padded);
    } else if (kind == SELECT_FP32) {
        r = v_load_first(a->r + at, lanes);
    }
    return seen(a, at, kind, x, r, part);
}

INLINE void ask_ahead(const struct kernels_difference *a, size_t at, enum select_reference kind)
{
    __builtin_prefetch(a->x + at + NEAR);
    __builtin_prefetch(a->x + at + FAR, 0, 2);
    if (kind == SELECT_FP32) {
        __builtin_prefetch(a->r + at + NEAR);
        __builtin_prefetch(a->r + at + FAR, 0, 2);
    } else if (kind == SELECT_BF16) {
        __builtin_prefetch(a->r_bf16 + at + NEAR);
        __builtin_prefetch(a->r_bf16 + at + FAR, 0, 2);
    }
}

#endif
