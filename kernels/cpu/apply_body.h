// The end of an exchange, compiled once for each instruction set. The including file defines KERNELS_APPLY
// and either uses the functions of apply_plain.h or replaces them.
#include "base/bf16.h"
#include "kernels/cpu/apply_plain.h"
#include "kernels/cpu/cpu.h"

#define SHARE 128u        // the most entries of either list in a piece
#define PIECE (2 * SHARE) // merged entries at a time: they stay in L1, and their lines of five vectors in L2

// Merged entries: the increments of r and x.
struct piece {
    size_t count;
    uint32_t index[PIECE];
    float mean[PIECE], force[PIECE];
};

// Two pieces, the second one right after the first.
struct pair {
    struct piece piece[2];
};

// The next indices: PIECE of them, or all that are left.
static const uint32_t *next_indices(const struct kernels_entries *entries, uint32_t counted[PIECE])
{
    if (entries->index)
        return entries->index;
    for (size_t i = 0; i < PIECE; i++)
        counted[i] = (uint32_t)(entries->first + i);
    return counted;
}

static void skip(struct kernels_entries *entries, size_t count)
{
    if (entries->index)
        entries->index += count;
    entries->value += count;
    entries->first += count;
    entries->count -= count;
}

// A vector whose cache lines are prefetched; start NULL: there is none.
struct lines {
    const char *start;
    unsigned shift; // an element has 1 << shift bytes
};

// Prefetches the line of an element into L2; L1 is too small for all outstanding lines.
static inline void ask(struct lines vector, size_t index)
{
    __builtin_prefetch(vector.start + (index << vector.shift), 0, 2);
}

static inline float value_if(uint32_t present, float value)
{
    return float_of(bits_of(value) & -present);
}

// The parts of both lists that make one piece, and how far they are merged.
struct chain {
    const uint32_t *a, *b;
    const float *mine, *theirs;
    size_t i, i_end, j, j_end, n;
    struct piece *piece;
};

static inline bool chain_has_both(const struct chain *c)
{
    return c->i < c->i_end && c->j < c->j_end;
}

static inline void chain_put(struct chain *c, struct lines first, uint32_t index, float mine, float theirs,
                             float weight)
{
    ask(first, index);
    c->piece->index[c->n] = index;
    c->piece->mean[c->n] = 0.5f * (mine + theirs);
    c->piece->force[c->n++] = weight * (theirs - mine);
}

// Which list has the next entry is unpredictable, so there is no branch on it.
static inline void chain_step(struct chain *c, struct lines first, float weight)
{
    const uint32_t left = c->a[c->i], right = c->b[c->j];
    const uint32_t from_mine = left <= right, from_theirs = right <= left;
    chain_put(c, first, from_mine ? left : right, value_if(from_mine, c->mine[c->i]),
              value_if(from_theirs, c->theirs[c->j]), weight);
    c->i += from_mine;
    c->j += from_theirs;
}

static inline void chain_finish(struct chain *c, struct lines first, float weight)
{
    while (chain_has_both(c))
        chain_step(c, first, weight);
    for (; c->i < c->i_end; c->i++)
        chain_put(c, first, c->a[c->i], c->mine[c->i], 0.0f, weight);
    for (; c->j < c->j_end; c->j++)
        chain_put(c, first, c->b[c->j], 0.0f, c->theirs[c->j], weight);
    c->piece->count = c->n;
}

// The end of the run of entries from `from` on, at most SHARE of them, whose indices are at most `last`.
static size_t reach(const uint32_t *index, size_t from, size_t count, uint32_t last)
{
    size_t end = count - from < SHARE ? count : from + SHARE;
    while (from < end) {
        const size_t middle = from + (end - from) / 2;
        if (index[middle] <= last)
            from = middle + 1;
        else
            end = middle;
    }
    return from;
}

static uint32_t last_of_share(const uint32_t *index, size_t from, size_t count)
{
    return count - from < SHARE ? UINT32_MAX : index[from + SHARE - 1];
}

// A chain from entry i of mine and entry j of theirs. No entry after the chain has an index that occurs in
// it.
static struct chain chain_from(const uint32_t *a, size_t i, const struct kernels_entries *mine,
                               const uint32_t *b, size_t j, const struct kernels_entries *theirs,
                               struct piece *piece)
{
    const uint32_t left = last_of_share(a, i, mine->count), right = last_of_share(b, j, theirs->count);
    const uint32_t last = left < right ? left : right;
    return (struct chain){.a = a,
                          .b = b,
                          .mine = mine->value,
                          .theirs = theirs->value,
                          .i = i,
                          .i_end = reach(a, i, mine->count, last),
                          .j = j,
                          .j_end = reach(b, j, theirs->count, last),
                          .piece = piece};
}

// Takes the next entries from both lists; `first` is the vector that is visited first. A step of a merge must
// wait for the one before, so two pieces are merged in turn.
static void merge(struct lines first, float weight, struct kernels_entries *mine,
                  struct kernels_entries *theirs, struct pair *pair)
{
    uint32_t counted[2][PIECE];
    const uint32_t *a = next_indices(mine, counted[0]), *b = next_indices(theirs, counted[1]);
    struct chain one = chain_from(a, 0, mine, b, 0, theirs, &pair->piece[0]);
    struct chain two = chain_from(a, one.i_end, mine, b, one.j_end, theirs, &pair->piece[1]);
    while (chain_has_both(&one) && chain_has_both(&two)) {
        chain_step(&one, first, weight);
        chain_step(&two, first, weight);
    }
    chain_finish(&one, first, weight);
    chain_finish(&two, first, weight);
    skip(mine, two.i_end);
    skip(theirs, two.j_end);
}

// r += mean; adds the change of the hash of r to *hash. Meanwhile the lines of another vector are prefetched
// for the next piece.
static void grow_reference(float *restrict r, const struct piece *restrict piece, struct lines other,
                           const struct piece *restrict next, uint64_t *hash)
{
    float before[PIECE], after[PIECE];
    for (size_t i = 0; i < piece->count; i++) {
        before[i] = r[piece->index[i]];
        after[i] = before[i] + piece->mean[i];
        r[piece->index[i]] = after[i];
        if (other.start)
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
        if (other.start)
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
    return target->bf16 ? (struct lines){(const char *)target->bf16, 1}
                        : (struct lines){(const char *)target->vector, 2};
}

static void grow(const struct target *target, const struct piece *restrict piece, struct lines other,
                 const struct piece *restrict next)
{
    float *restrict vector = target->vector;
    for (size_t i = 0; i < piece->count; i++) {
        vector[piece->index[i]] += target->gain * piece->force[i];
        if (other.start)
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
        if (other.start)
            ask(other, next->index[i]);
    }
}

static void targets_of(const struct kernels_exchange *e, struct target targets[5])
{
    size_t n = 0;
    if (e->x)
        targets[n++] = (struct target){.vector = e->x, .gain = 1.0f};
    if (e->pending)
        targets[n++] = (struct target){.vector = e->pending, .gain = 1.0f};
    if (e->correction)
        targets[n++] = (struct target){.vector = e->correction, .gain = e->gain};
    if (e->correction_bf16)
        targets[n++] = (struct target){.bf16 = e->correction_bf16, .gain = e->gain, .rounding = e->rounding};
    if (e->correction_sum)
        targets[n++] = (struct target){.vector = e->correction_sum, .gain = e->gain};
    targets[n] = (struct target){.vector = NULL};
}

static struct lines first_of(const struct kernels_exchange *e, const struct target *target)
{
    if (e->r_bf16)
        return (struct lines){(const char *)e->r_bf16, 1};
    return e->r ? (struct lines){(const char *)e->r, 2} : lines_of(target);
}

// Adds one piece to all vectors; `next` is the piece whose lines are prefetched.
static void add(const struct kernels_exchange *e, const struct target targets[5], const struct piece *piece,
                const struct piece *next, uint64_t *hash)
{
    if (e->r_bf16)
        grow_reference_bf16(e->r_bf16, piece, lines_of(&targets[0]), next, hash);
    else if (e->r)
        grow_reference(e->r, piece, lines_of(&targets[0]), next, hash);
    for (; targets->vector || targets->bf16; targets++)
        (targets->bf16 ? grow_bf16 : grow)(targets, piece, lines_of(&targets[1]), next);
}

// This function is limited by memory, so memory accesses must always overlap with work: while two pieces are
// merged, their lines of r (or x) are prefetched; while one vector is updated by a piece, the lines of the
// next vector are.
static void apply_exchange(const struct kernels_exchange *e, uint64_t *hash)
{
    struct kernels_entries mine = e->mine, theirs = e->theirs;
    struct pair pairs[2];
    struct target targets[5];
    targets_of(e, targets);
    const struct lines first = first_of(e, &targets[0]);
    unsigned now = 0;
    for (size_t i = 0; i < 2; i++)
        pairs[i].piece[0].count = pairs[i].piece[1].count = 0;
    for (merge(first, e->weight, &mine, &theirs, &pairs[now]); pairs[now].piece[0].count > 0; now ^= 1) {
        merge(first, e->weight, &mine, &theirs, &pairs[now ^ 1]);
        for (size_t i = 0; i < 2; i++)
            add(e, targets, &pairs[now].piece[i], &pairs[now ^ 1].piece[i], hash);
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
