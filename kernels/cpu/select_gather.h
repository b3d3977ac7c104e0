// Part of select_body.h: gathering.
#ifndef KERNELS_CPU_SELECT_GATHER_H
#define KERNELS_CPU_SELECT_GATHER_H

#include "kernels/cpu/select_sums.h"

struct entries {
    uint32_t *index;
    float *value;
    size_t found;
};

// `width`: the number of lanes to store if that is sufficient, because most stores of a whole register cross
// a cache line. The caller expects more entries only rarely.
INLINE void put(struct entries *to, unsigned mask, size_t at, v_float d, unsigned width)
{
    const unsigned found = (unsigned)__builtin_popcount(mask);
    const v_bits index = v_pack_bits(mask, v_count_from((uint32_t)at));
    const v_float value = v_pack_float(mask, d);
    if (found <= width)
        v_store_some(to->index + to->found, to->value + to->found, index, value, width);
    else
        v_store_some(to->index + to->found, to->value + to->found, index, value, LANES);
    to->found += found;
}

// A piece in which most vectors hold entries: every vector is packed.
INLINE void gather_dense(const struct kernels_difference *a, size_t at, v_bits bound,
                         enum select_reference kind, unsigned width, struct entries *to, struct total *total)
{
    struct partial part[2] = {partial_zero(), partial_zero()};
    struct entries here = *to; // not aliased: kept in registers
    for (size_t end = at + PIECE; at < end;) {
        for (size_t chain = 0; chain < 2; chain++, at += LANES) {
            ask_ahead(a, at, kind);
            const v_float d = look(a, at, kind, &part[chain]);
            put(&here, v_reach(v_magnitude(d), bound), at, d, width);
        }
    }
    *to = here;
    total_add(total, &part[0], kind);
    total_add(total, &part[1], kind);
}

// A piece in which few vectors hold entries: these vectors are first listed without a branch, then packed
// from L1.
INLINE void gather_thin(const struct kernels_difference *a, size_t at, v_bits bound,
                        enum select_reference kind, struct entries *to, struct total *total)
{
    struct partial part[2] = {partial_zero(), partial_zero()};
    struct entries here = *to;
    uint32_t hits[VECTORS + 1];
    size_t n = 0;
    for (size_t i = 0; i < PIECE;) {
        for (size_t chain = 0; chain < 2; chain++, i += LANES) {
            ask_ahead(a, at + i, kind);
            const v_float d = look(a, at + i, kind, &part[chain]);
            const unsigned mask = v_reach(v_magnitude(d), bound);
            hits[n] = (uint32_t)i << 16 | mask;
            n += mask != 0;
        }
    }
    total_add(total, &part[0], kind);
    total_add(total, &part[1], kind);
    for (size_t i = 0; i < n; i++) {
        const size_t from = at + (hits[i] >> 16);
        const v_float d = difference(a, from, kind, v_load(a->x + from));
        put(&here, hits[i] & 0xffffu, from, d, 4);
    }
    *to = here;
}

// Gathers vector by vector up to `end`, or up to the first element that does not fit. Returns where it
// stopped.
static __attribute__((noinline)) size_t gather_edge(const struct kernels_difference *a, size_t at, size_t end,
                                                    uint32_t floor, size_t room, struct entries *to,
                                                    struct total *total)
{
    const v_bits bound = v_bound(floor);
    const enum select_reference kind = select_reference(a);
    struct partial part = partial_zero();
    while (at < end) {
        unsigned lanes = end - at < LANES ? (unsigned)(end - at) : LANES;
        struct partial before = part;
        v_float d = look_first(a, at, lanes, kind, &part);
        unsigned mask = v_reach(v_magnitude(d), bound);
        if ((size_t)__builtin_popcount(mask) > room - to->found) {
            for (size_t fits = room - to->found; fits > 0; fits--)
                mask &= mask - 1;
            lanes = (unsigned)__builtin_ctz(mask);
            part = before;
            d = look_first(a, at, lanes, kind, &part);
            mask = v_reach(v_magnitude(d), bound);
            end = at + lanes;
        }
        if (mask != 0) {
            uint32_t index[LANES];
            float value[LANES];
            struct entries here = {index, value, 0};
            put(&here, mask, at, d, LANES);
            memcpy(to->index + to->found, index, here.found * sizeof *index);
            memcpy(to->value + to->found, value, here.found * sizeof *value);
            to->found += here.found;
        }
        at += lanes;
    }
    total_add(total, &part, true);
    return end;
}

// Prefetches the lines that entries will be written to, as many as the last piece filled.
INLINE void ask_to_write(const struct entries *to, size_t entries)
{
    for (size_t i = 0; i < entries; i += 64 / sizeof(uint32_t)) {
        __builtin_prefetch(to->index + to->found + NEAR + i, 1);
        __builtin_prefetch(to->value + to->found + NEAR + i, 1);
    }
}

INLINE size_t gather_from(const struct kernels_difference *a, size_t first, uint32_t floor, size_t room,
                          enum select_reference kind, struct entries *to, struct total *total)
{
    const v_bits bound = v_bound(floor);
    size_t at = first;
    size_t last = 0; // entries of the previous piece: the estimate for the next one
    for (; a->count - at >= PIECE && (room - to->found >= PIECE || floor > SELECT_MAGNITUDE); at += PIECE) {
        const size_t before = to->found;
        ask_to_write(to, last);
        if (last < DENSE)
            gather_thin(a, at, bound, kind, to, total);
        else if (last < DENSER)
            gather_dense(a, at, bound, kind, 4, to, total);
        else
            gather_dense(a, at, bound, kind, LANES, to, total);
        last = to->found - before;
    }
    return at;
}

// One instance for each kind of reference.
static size_t gather_of(const struct kernels_difference *a, size_t at, uint32_t floor, size_t room,
                        enum select_reference kind, struct entries *to, struct total *total)
{
    switch (kind) {
    case SELECT_BF16:
        return gather_from(a, at, floor, room, SELECT_BF16, to, total);
    case SELECT_FP32:
        return gather_from(a, at, floor, room, SELECT_FP32, to, total);
    case SELECT_NONE:
        break;
    }
    return gather_from(a, at, floor, room, SELECT_NONE, to, total);
}

static size_t gather(const struct kernels_difference *a, size_t first, uint32_t floor, size_t room,
                     uint32_t *index, float *value, struct kernels_seen *seen)
{
    struct entries to = {index, value, 0};
    struct total total = total_zero();
    const enum select_reference kind = select_reference(a);
    size_t at = first;
    while (at < a->count) {
        at = gather_of(a, at, floor, room, kind, &to, &total);
        const size_t end = a->count - at < PIECE ? a->count : at + PIECE;
        const size_t stop = gather_edge(a, at, end, floor, room, &to, &total);
        at = stop;
        if (stop < end)
            break;
    }
    total_tell(&total, at - first, kind, seen);
    return to.found;
}

#endif
