// The passes of selection for any processor: branch-free; an entry is written before it is known whether it
// is kept.
#include "kernels/cpu/select.h"

#include <stdbool.h>

#define PIECE 1024u // elements between two additions of the partial sums, and between two checks of the room

static inline uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static inline float apart(const struct kernels_difference *a, size_t i, enum select_reference kind)
{
    if (kind == SELECT_BF16)
        return a->x[i] - bf16_widen(a->r_bf16[i]);
    return kind == SELECT_FP32 ? a->x[i] - a->r[i] : a->x[i];
}

static inline float counted(const struct kernels_difference *a, size_t i, enum select_reference kind,
                            float apart)
{
    return kind == SELECT_BF16 ? select_far(a, i, apart) : apart;
}

// Energies and the largest magnitude of a piece.
static inline __attribute__((always_inline)) void see(const struct kernels_difference *a, size_t from,
                                                      size_t to, enum select_reference kind,
                                                      struct kernels_seen *seen)
{
    float a_sum[8] = {0.0f}, x_sum[8] = {0.0f};
    uint32_t largest[8] = {0};
    size_t i = from;
    for (; i + 8 <= to; i += 8) {
        for (size_t l = 0; l < 8; l++) {
            const float x = a->x[i + l], whole = apart(a, i + l, kind), d = counted(a, i + l, kind, whole);
            a_sum[l] += whole * whole;
            x_sum[l] += x * x;
            // Magnitudes fit into a signed integer, which SSE2 can compare.
            const int32_t m = (int32_t)select_magnitude(d);
            largest[l] = (int32_t)largest[l] > m ? largest[l] : (uint32_t)m;
        }
    }
    for (; i < to; i++) {
        const float x = a->x[i], whole = apart(a, i, kind), d = counted(a, i, kind, whole);
        a_sum[0] += whole * whole;
        x_sum[0] += x * x;
        largest[0] = larger(largest[0], select_magnitude(d));
    }
    for (size_t l = 0; l < 8; l++) {
        seen->a_energy += (double)a_sum[l];
        seen->x_energy += (double)x_sum[l];
        seen->largest = larger(seen->largest, largest[l]);
    }
}

static void see_piece(const struct kernels_difference *a, size_t from, size_t to, struct kernels_seen *seen)
{
    const enum select_reference kind = select_reference(a);
    if (kind == SELECT_BF16)
        see(a, from, to, SELECT_BF16, seen);
    else if (kind == SELECT_FP32)
        see(a, from, to, SELECT_FP32, seen);
    else
        see(a, from, to, SELECT_NONE, seen);
    seen->read += to - from;
}

static size_t piece_end(size_t from, size_t count)
{
    return count - from < PIECE ? count : from + PIECE;
}

static inline __attribute__((always_inline)) size_t gather_piece(const struct kernels_difference *a,
                                                                 size_t from, size_t to, uint32_t floor,
                                                                 uint32_t *index, float *value,
                                                                 enum select_reference kind)
{
    size_t found = 0;
    for (size_t i = from; i < to; i++) {
        const float d = counted(a, i, kind, apart(a, i, kind));
        index[found] = (uint32_t)i;
        value[found] = d;
        found += select_magnitude(d) >= floor;
    }
    return found;
}

static size_t gather_of(const struct kernels_difference *a, size_t from, size_t to, uint32_t floor,
                        uint32_t *index, float *value)
{
    switch (select_reference(a)) {
    case SELECT_BF16:
        return gather_piece(a, from, to, floor, index, value, SELECT_BF16);
    case SELECT_FP32:
        return gather_piece(a, from, to, floor, index, value, SELECT_FP32);
    case SELECT_NONE:
        break;
    }
    return gather_piece(a, from, to, floor, index, value, SELECT_NONE);
}

// Gathers up to `to`, or up to the first element that does not fit.
static size_t gather_edge(const struct kernels_difference *a, size_t from, size_t to, uint32_t floor,
                          size_t room, uint32_t *index, float *value, size_t *found)
{
    for (size_t i = from; i < to; i++) {
        const float d = select_at(a, i);
        if (select_magnitude(d) < floor)
            continue;
        if (*found == room)
            return i;
        index[*found] = (uint32_t)i;
        value[(*found)++] = d;
    }
    return to;
}

static size_t gather(const struct kernels_difference *a, size_t first, uint32_t floor, size_t room,
                     uint32_t *index, float *value, struct kernels_seen *seen)
{
    size_t found = 0;
    *seen = (struct kernels_seen){0};
    for (size_t at = first; at < a->count;) {
        size_t to = piece_end(at, a->count);
        if (room - found < to - at) {
            const size_t stop = gather_edge(a, at, to, floor, room, index, value, &found);
            see_piece(a, at, stop, seen);
            if (stop < to)
                break;
        } else {
            found += gather_of(a, at, to, floor, index + found, value + found);
            see_piece(a, at, to, seen);
        }
        at = to;
    }
    return found;
}

static void histogram(const struct kernels_difference *a, uint32_t floor, unsigned shift,
                      uint64_t bins[KERNELS_BINS], struct kernels_seen *seen)
{
    uint32_t counts[2][KERNELS_BINS + 1] = {{0}}; // two counts per bin, and one bin for magnitudes below the
                                                  // floor
    *seen = (struct kernels_seen){0};
    for (size_t at = 0; at < a->count;) {
        const size_t to = piece_end(at, a->count);
        for (size_t i = at; i < to; i++) {
            const uint32_t m = select_magnitude(select_at(a, i)), bin = (m - floor) >> shift;
            const uint32_t last = bin < KERNELS_BINS ? bin : KERNELS_BINS - 1;
            counts[i % 2][m >= floor ? last : KERNELS_BINS]++;
        }
        see_piece(a, at, to, seen);
        at = to;
    }
    for (size_t i = 0; i < KERNELS_BINS; i++)
        bins[i] = (uint64_t)counts[0][i] + counts[1][i];
}

static void count(const struct kernels_difference *a, const uint32_t *floors, size_t n, uint64_t *counts,
                  struct kernels_seen *seen)
{
    *seen = (struct kernels_seen){0};
    memset(counts, 0, n * sizeof *counts);
    for (size_t at = 0; at < a->count;) {
        const size_t to = piece_end(at, a->count);
        float piece[PIECE];
        for (size_t i = at; i < to; i++)
            piece[i - at] = select_at(a, i);
        for (size_t j = 0; j < n; j++) {
            uint32_t reached = 0;
            const uint32_t floor = floors[j];
            for (size_t i = 0; i < to - at; i++)
                reached += select_magnitude(piece[i]) >= floor;
            counts[j] += reached;
        }
        see_piece(a, at, to, seen);
        at = to;
    }
}

static size_t keep(size_t entries, uint32_t *index, float *value, uint32_t low, uint32_t high, size_t ties)
{
    size_t kept = 0, left = ties;
    for (size_t i = 0; i < entries; i++) {
        const uint32_t m = select_magnitude(value[i]);
        const bool above = m >= high, tie = m >= low && !above && left > 0;
        index[kept] = index[i];
        value[kept] = value[i];
        kept += above || tie;
        left -= tie;
    }
    return kept;
}

const struct kernels_select kernels_cpu_select_scalar = {
    .sample = kernels_cpu_select_sample,
    .gather = gather,
    .histogram = histogram,
    .count = count,
    .keep = keep,
    .pick = kernels_cpu_select_pick,
};
