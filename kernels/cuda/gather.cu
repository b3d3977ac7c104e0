// Passes that keep the order of the elements: gather and keep (kernels/select.h), in one pass over their
// input. Each block takes a tile and finds by decoupled look-back (Merrill, Garland 2016) how many entries
// precede it.
#include "kernels/cuda/device.h"

#include "kernels/cuda/pieces.h"

// What a tile publishes for later tiles, in one word, so that it is read as a whole: nothing yet, the number
// of its own entries, or the number of entries up to its end.
#define TILE_OWN   (1ull << 62)
#define TILE_UP_TO (2ull << 62)
#define TILE_COUNT ((1ull << 62) - 1)

// The entries before `tile`. One warp reads the words of 32 tiles at a time, backwards, until one has the
// number of all entries up to its end. Tiles are assigned in order, so every earlier one has started and will
// publish its word.
DEVICE uint64_t look_back(const uint64_t *words, size_t tile)
{
    uint64_t before = 0;
    for (size_t end = tile; end > 0; end -= WARP) {
        const unsigned lane = lane_index();
        uint64_t word = TILE_UP_TO; // there are no entries before the first tile
        while (lane < end && ((word = word_load(words + (end - 1 - lane))) & ~TILE_COUNT) == 0) {
        }
        const uint32_t known = warp_ballot((word & TILE_UP_TO) != 0);
        const unsigned last = known != 0 ? first_bit(known) : WARP - 1;
        before += warp_sum_u64(lane <= last ? word & TILE_COUNT : 0);
        if (known != 0)
            break;
    }
    return before;
}

// The tile of this block.
DEVICE size_t next_tile(const struct kernels_cuda_order *order)
{
    SHARED(uint32_t, ticket, 1);
    if (thread_index() == 0)
        ticket[0] = atomic_add_u32(order->tickets, 1);
    block_barrier();
    return ticket[0];
}

// The number of entries before this warp's first, given how many this warp has; every thread gets it. No
// other block overwrites what a thread reads before this call until it has been read.
DEVICE uint64_t entries_before(const struct kernels_cuda_order *order, size_t tile, uint64_t warp_entries)
{
    SHARED(uint64_t, entries, WARPS);
    SHARED(uint64_t, before_tile, 1);
    if (lane_index() == 0)
        entries[warp_index()] = warp_entries;
    memory_fence();
    block_barrier();
    uint64_t own = 0, before_warp = 0;
    for (unsigned w = 0; w < WARPS; w++) {
        before_warp += w < warp_index() ? entries[w] : 0;
        own += entries[w];
    }
    if (warp_index() == 0) {
        if (lane_index() == 0)
            word_store(order->words + tile, (tile == 0 ? TILE_UP_TO : TILE_OWN) | own);
        const uint64_t before = look_back(order->words, tile);
        if (lane_index() == 0) {
            word_store(order->words + tile, TILE_UP_TO | (before + own));
            before_tile[0] = before;
            if (tile == order->tiles - 1)
                *order->entries = before + own;
        }
    }
    memory_fence();
    block_barrier();
    return before_tile[0] + before_warp;
}

// Bit e of `hits`: this thread's element e is an entry. Quad by quad, then lane by lane, indices ascend.
DEVICE void entries_write(const struct kernels_cuda_gather *g, size_t tile, const struct piece *piece,
                          uint32_t hits, uint64_t place)
{
    const uint32_t lower_lanes = (1u << lane_index()) - 1;
    for (unsigned q = 0; q < QUADS; q++) {
        const uint32_t mine = hits >> 4 * q & 15u;
        uint32_t before = 0, all = 0;
        for (unsigned e = 0; e < 4; e++) {
            const uint32_t votes = warp_ballot((int)(mine >> e & 1u));
            before += bits_set(votes & lower_lanes);
            all += bits_set(votes);
        }
        uint64_t at = place + before;
        for (unsigned e = 0; e < 4; e++) {
            if ((mine >> e & 1u) != 0 && at < g->room) {
                g->index[at] = (uint32_t)(g->first + quad_index(tile, q) + e);
                g->value[at] = piece->a[4 * q + e];
            }
            at += mine >> e & 1u;
        }
        place += all;
    }
}

KERNEL(gather_kernel, struct kernels_cuda_gather, g)
{
    const size_t tile = next_tile(&g.order);
    struct piece piece;
    struct energies energies = {0.0, 0.0, 0};
    piece_read(&g.vector, tile, &piece, &energies);
    uint32_t hits = 0;
    for (unsigned e = 0; e < PER_THREAD; e++)
        hits |= (uint32_t)(magnitude_of(piece.a[e]) >= g.floor) << e;
    const uint64_t place = entries_before(&g.order, tile, warp_sum_u32(bits_set(hits)));
    entries_write(&g, tile, &piece, hits, place);
    energies_write(&energies, g.seen + tile);
}

// --- keep ---

// Two counts in one word: magnitudes of at least `high`, and, from bit 31 on, those in [low, high).
#define TIE (1ull << 31)

struct ranks {
    uint64_t above, ties;
};

DEVICE uint64_t kind_of(const struct kernels_cuda_keep *k, size_t i, float value)
{
    const uint32_t magnitude = magnitude_of(value);
    return i >= k->count ? 0 : magnitude >= k->high ? 1 : magnitude >= k->low ? TIE : 0;
}

// The entries of a thread are a warp's width apart, so that loads are coalesced.
DEVICE size_t keep_index(size_t tile, unsigned e)
{
    return tile * TILE + warp_index() * PER_WARP + e * WARP + lane_index();
}

DEVICE void keep_write(const struct kernels_cuda_keep *k, uint32_t index, float value, uint64_t kind,
                       struct ranks *before)
{
    const uint32_t lower_lanes = (1u << lane_index()) - 1;
    const uint32_t above = warp_ballot(kind == 1), ties = warp_ballot(kind == TIE);
    const uint64_t tie = before->ties + bits_set(ties & lower_lanes);
    const uint64_t at = before->above + bits_set(above & lower_lanes) + (tie < k->ties ? tie : k->ties);
    if (kind == 1 || (kind == TIE && tie < k->ties)) {
        k->index[at] = index;
        k->value[at] = value;
    }
    before->above += bits_set(above);
    before->ties += bits_set(ties);
}

KERNEL(keep_kernel, struct kernels_cuda_keep, k)
{
    const size_t tile = next_tile(&k.order);
    uint32_t index[PER_THREAD];
    float value[PER_THREAD];
    uint64_t kinds = 0;
    for (unsigned e = 0; e < PER_THREAD; e++) {
        const size_t i = keep_index(tile, e);
        index[e] = i < k.count ? k.index[i] : 0;
        value[e] = i < k.count ? k.value[i] : 0.0f;
        kinds += kind_of(&k, i, value[e]);
    }
    const uint64_t counts = entries_before(&k.order, tile, warp_sum_u64(kinds));
    struct ranks before = {counts & (TIE - 1), counts / TIE};
    for (unsigned e = 0; e < PER_THREAD; e++)
        keep_write(&k, index[e], value[e], kind_of(&k, keep_index(tile, e), value[e]), &before);
}

void kernels_cuda_gather(const struct kernels_cuda_gather *gather)
{
    LAUNCH(gather_kernel, (unsigned)gather->order.tiles, *gather);
}

void kernels_cuda_keep(const struct kernels_cuda_keep *keep)
{
    LAUNCH(keep_kernel, (unsigned)keep->order.tiles, *keep);
}
