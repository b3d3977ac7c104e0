// The end of an exchange, compiled once for each instruction set. The including file defines KERNELS_APPLY
// and either uses the functions of apply_plain.h or replaces them.
#include "base/bf16.h"
#include "kernels/cpu/apply_plain.h"
#include "kernels/cpu/cpu.h"

#define PIECE 256u // merged entries at a time: they stay in L1, and their lines of five vectors in L2

// Merged entries: the increments of r and x.
struct piece {
    size_t count;
    uint32_t index[PIECE];
    float mean[PIECE], force[PIECE];
};

// The next indices: PIECE of them, or all that are left.
static const uint32_t *next_indices(const struct kernels_entries *entries, uint32_t counted[PIECE])
{
    if (entries->index != NULL)
        return entries->index;
    for (size_t i = 0; i < PIECE; i++)
        counted[i] = (uint32_t)(entries->first + i);
    return counted;
}

static void skip(struct kernels_entries *entries, size_t count)
{
    if (entries->index != NULL)
        entries->index += count;
    entries->value += count;
    entries->first += count;
    entries->count -= count;
}

// A vector whose cache lines are prefetched; without a start there is none.
struct lines {
    const char *start;
    unsigned shift; // an element has 1 << shift bytes
};

// Prefetches the line of an element into L2; L1 is too small for all outstanding lines.
static inline void ask(struct lines vector, size_t index)
{
    __builtin_prefetch(vector.start + (index << vector.shift), 0, 2);
}

static inline void put(struct piece *piece, size_t at, uint32_t index, float mine, float theirs, float weight)
{
    piece->index[at] = index;
    piece->mean[at] = 0.5f * (mine + theirs);
    piece->force[at] = weight * (theirs - mine);
}

static inline float value_if(uint32_t present, float value)
{
    return float_of(bits_of(value) & -present);
}

// Takes the next entries from both lists; `first` is the vector that is visited first.
static void merge(struct lines first, float weight, struct kernels_entries *mine,
                  struct kernels_entries *theirs, struct piece *piece)
{
    uint32_t counted[2][PIECE];
    const uint32_t *a = next_indices(mine, counted[0]), *b = next_indices(theirs, counted[1]);
    size_t i = 0, j = 0, n = 0;
    for (; n < PIECE && i < mine->count && j < theirs->count; n++) {
        uint32_t left = a[i], right = b[j], from_mine = left <= right, from_theirs = right <= left;
        uint32_t index = from_mine ? left : right;
        ask(first, index);
        put(piece, n, index, value_if(from_mine, mine->value[i]), value_if(from_theirs, theirs->value[j]),
            weight);
        i += from_mine;
        j += from_theirs;
    }
    for (; j == theirs->count && n < PIECE && i < mine->count; n++, i++) {
        ask(first, a[i]);
        put(piece, n, a[i], mine->value[i], 0.0f, weight);
    }
    for (; i == mine->count && n < PIECE && j < theirs->count; n++, j++) {
        ask(first, b[j]);
        put(piece, n, b[j], 0.0f, theirs->value[j], weight);
    }
    skip(mine, i);
    skip(theirs, j);
    piece->count = n;
}

// r += mean, and the change of the hash of r. Meanwhile it prefetches the lines of another vector for the
// next piece.
static void grow_reference(float *restrict r, const struct piece *restrict piece, struct lines other,
                           const struct piece *restrict next, uint64_t *hash)
{
    float before[PIECE], after[PIECE];
    for (size_t i = 0; i < piece->count; i++) {
        before[i] = r[piece->index[i]];
        after[i] = before[i] + piece->mean[i];
        r[piece->index[i]] = after[i];
        if (other.start != NULL)
            ask(other, next->index[i]);
    }
    *hash += HASH_CHANGE(piece->count, piece->index, before, after);
}

static void grow_reference_bf16(uint16_t *restrict r, const struct piece *restrict piece, struct lines other,
                                const struct piece *restrict next, uint64_t *hash)
{
    float before[PIECE], after[PIECE];
    for (size_t i = 0; i < piece->count; i++) {
        before[i] = bf16_widen(r[piece->index[i]]);
        const uint16_t rounded = bf16_nearest(before[i] + piece->mean[i]);
        after[i] = bf16_widen(rounded);
        r[piece->index[i]] = rounded;
        if (other.start != NULL)
            ask(other, next->index[i]);
    }
    *hash += HASH_CHANGE(piece->count, piece->index, before, after);
}

struct target { // a vector to which gain * force is added
    float *vector;
    uint16_t *bf16; // used instead
    float gain;     // with 1, force is added unchanged, bit for bit
    uint64_t rounding;
};

static struct lines lines_of(const struct target *target)
{
    return target->bf16 != NULL ? (struct lines){(const char *)target->bf16, 1}
                                : (struct lines){(const char *)target->vector, 2};
}

static void grow(const struct target *target, const struct piece *restrict piece, struct lines other,
                 const struct piece *restrict next)
{
    float *restrict vector = target->vector;
    for (size_t i = 0; i < piece->count; i++) {
        vector[piece->index[i]] += target->gain * piece->force[i];
        if (other.start != NULL)
            ask(other, next->index[i]);
    }
}

static void grow_bf16(const struct target *target, const struct piece *restrict piece, struct lines other,
                      const struct piece *restrict next)
{
    uint16_t *restrict vector = target->bf16;
    for (size_t i = 0; i < piece->count; i++) {
        const uint32_t index = piece->index[i];
        const float sum = bf16_widen(vector[index]) + target->gain * piece->force[i];
        vector[index] = bf16_stochastic(sum, (uint32_t)(base_hash_mix(target->rounding + index) >> 48));
        if (other.start != NULL)
            ask(other, next->index[i]);
    }
}

static size_t targets_of(const struct kernels_exchange *e, struct target targets[5])
{
    size_t n = 0;
    if (e->x != NULL)
        targets[n++] = (struct target){.vector = e->x, .gain = 1.0f};
    if (e->pending != NULL)
        targets[n++] = (struct target){.vector = e->pending, .gain = 1.0f};
    if (e->correction != NULL)
        targets[n++] = (struct target){.vector = e->correction, .gain = e->gain};
    if (e->correction_bf16 != NULL)
        targets[n++] = (struct target){.bf16 = e->correction_bf16, .gain = e->gain, .rounding = e->rounding};
    if (e->correction_sum != NULL)
        targets[n++] = (struct target){.vector = e->correction_sum, .gain = e->gain};
    targets[n] = (struct target){.vector = NULL};
    return n;
}

static struct lines first_of(const struct kernels_exchange *e, const struct target *target)
{
    if (e->r_bf16 != NULL)
        return (struct lines){(const char *)e->r_bf16, 1};
    return e->r != NULL ? (struct lines){(const char *)e->r, 2} : lines_of(target);
}

// This function is limited by memory, so memory accesses must always overlap with work: while one piece is
// merged, its lines of r (or x) are prefetched; while one vector is updated by a piece, the lines of the next
// vector are.
static void apply_exchange(const struct kernels_exchange *e, uint64_t *hash)
{
    struct kernels_entries mine = e->mine, theirs = e->theirs;
    struct piece pieces[2] = {{.count = 0}, {.count = 0}};
    struct target targets[5];
    size_t n = targets_of(e, targets);
    const struct lines first = first_of(e, &targets[0]);
    unsigned now = 0;
    for (merge(first, e->weight, &mine, &theirs, &pieces[now]); pieces[now].count > 0; now ^= 1) {
        const struct piece *piece = &pieces[now], *next = &pieces[now ^ 1];
        merge(first, e->weight, &mine, &theirs, &pieces[now ^ 1]);
        if (e->r_bf16 != NULL)
            grow_reference_bf16(e->r_bf16, piece, lines_of(&targets[0]), next, hash);
        else if (e->r != NULL)
            grow_reference(e->r, piece, lines_of(&targets[0]), next, hash);
        for (size_t t = 0; t < n; t++)
            (targets[t].bf16 != NULL ? grow_bf16 : grow)(&targets[t], piece, lines_of(&targets[t + 1]), next);
    }
}

static uint64_t apply_hash(const float *x, size_t count, size_t first, bool magnitudes)
{
    return HASH_RUN(count, x, first, magnitudes ? BITS_MAGNITUDE : UINT32_MAX);
}

static bool apply_finite(const float *x, size_t count)
{
    uint32_t overflow = 0; // its top bit is set if adding one exponent step to a magnitude overflows into
                           // that bit
    for (size_t i = 0; i < count; i++)
        overflow |= (bits_of(x[i]) & BITS_MAGNITUDE) + BITS_NORMAL;
    return overflow < BITS_SIGN;
}

const struct kernels_apply KERNELS_APPLY = {
    .exchange = apply_exchange, .hash = apply_hash, .finite = apply_finite};
