// The end of an exchange, compiled once for each instruction set by the file that includes it and names
// KERNELS_APPLY and the functions of apply_plain.h that it uses, or its own instead.
#include "kernels/cpu/apply_plain.h"
#include "kernels/cpu/cpu.h"

#define PIECE 128u // merged entries at once: their cache lines of up to five vectors stay in the first caches

// Merged entries: what r and x grow by.
struct piece {
    size_t count;
    uint32_t index[PIECE];
    float mean[PIECE], force[PIECE];
};

// The indices that come next, PIECE of them or all that are left.
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
    entries->index += entries->index != NULL ? count : 0;
    entries->value += count;
    entries->first += count;
    entries->count -= count;
}

// Asks for the lines of an element that will be written soon.
static inline void fetch(const struct kernels_exchange *e, size_t index)
{
    __builtin_prefetch(&e->r[index], 1);
    __builtin_prefetch(&e->x[index], 1);
    __builtin_prefetch(&e->pending[index], 1);
    if (e->correction != NULL) {
        __builtin_prefetch(&e->correction[index], 1);
        __builtin_prefetch(&e->correction_sum[index], 1);
    }
}

static inline void put(struct piece *piece, size_t at, uint32_t index, float mine, float theirs)
{
    piece->index[at] = index;
    piece->mean[at] = 0.5f * (mine + theirs);
    piece->force[at] = 0.5f * (theirs - mine);
}

static inline float value_if(uint32_t present, float value)
{
    return float_of(bits_of(value) & -present);
}

// Takes the next entries off both lists and asks for their lines.
static void merge(const struct kernels_exchange *e, struct kernels_entries *mine,
                  struct kernels_entries *theirs, struct piece *piece)
{
    uint32_t counted[2][PIECE];
    const uint32_t *a = next_indices(mine, counted[0]), *b = next_indices(theirs, counted[1]);
    size_t i = 0, j = 0, n = 0;
    for (; n < PIECE && i < mine->count && j < theirs->count; n++) {
        uint32_t left = a[i], right = b[j], from_mine = left <= right, from_theirs = right <= left;
        uint32_t index = from_mine ? left : right;
        fetch(e, index);
        put(piece, n, index, value_if(from_mine, mine->value[i]), value_if(from_theirs, theirs->value[j]));
        i += from_mine;
        j += from_theirs;
    }
    for (; j == theirs->count && n < PIECE && i < mine->count; n++, i++) {
        fetch(e, a[i]);
        put(piece, n, a[i], mine->value[i], 0.0f);
    }
    for (; i == mine->count && n < PIECE && j < theirs->count; n++, j++) {
        fetch(e, b[j]);
        put(piece, n, b[j], 0.0f, theirs->value[j]);
    }
    skip(mine, i);
    skip(theirs, j);
    piece->count = n;
}

static void piece_apply(const struct kernels_exchange *e, const struct piece *piece, uint64_t *hash)
{
    float before[PIECE], after[PIECE], *restrict x = e->x, *restrict r = e->r, *restrict pending = e->pending;
    for (size_t i = 0; i < piece->count; i++) {
        size_t index = piece->index[i];
        before[i] = r[index];
        after[i] = before[i] + piece->mean[i];
        r[index] = after[i];
        x[index] += piece->force[i];
        pending[index] += piece->force[i];
    }
    *hash += HASH_CHANGE(piece->count, piece->index, before, after);
    if (e->correction == NULL)
        return;
    for (size_t i = 0; i < piece->count; i++) {
        e->correction[piece->index[i]] += e->gain * piece->force[i];
        e->correction_sum[piece->index[i]] += e->gain * piece->force[i];
    }
}

static void apply_exchange(const struct kernels_exchange *e, uint64_t *hash)
{
    struct kernels_entries mine = e->mine, theirs = e->theirs;
    struct piece pieces[2];
    unsigned now = 0;
    for (merge(e, &mine, &theirs, &pieces[now]); pieces[now].count > 0; now ^= 1) {
        merge(e, &mine, &theirs, &pieces[now ^ 1]);
        piece_apply(e, &pieces[now], hash);
    }
}

static uint64_t apply_hash(const float *x, size_t count, size_t first, bool magnitudes)
{
    return HASH_RUN(count, x, first, magnitudes ? BITS_MAGNITUDE : UINT32_MAX);
}

static bool apply_finite(const float *x, size_t count)
{
    uint32_t overflow = 0; // the top bit is set where adding one exponent step to a magnitude carries into it
    for (size_t i = 0; i < count; i++)
        overflow |= (bits_of(x[i]) & BITS_MAGNITUDE) + BITS_NORMAL;
    return overflow < BITS_SIGN;
}

const struct kernels_apply KERNELS_APPLY = {
    .exchange = apply_exchange, .hash = apply_hash, .finite = apply_finite};
