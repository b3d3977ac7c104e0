// The chunks of the mean: how the model is cut, what this node adds up, whom it asks for which block.
//
// Chunk i of n has the elements from d * i / n to d * (i + 1) / n, and belongs to participant i of `agreed`.
// It is cut into blocks of at most LIMIT_SNAPSHOT_BLOCK elements; every chunk has `per` block numbers, of
// which the last may be empty.
#include "gossip/merge/private.h"

#include "base/hash.h"
#include "gossip/plausible.h"
#include "gossip/window.h"
#include <math.h>
#include <stdlib.h>

#define WINDOW_FIRST 8u            // blocks on their way to this node before its link is known
#define STILL_NS     8000000000ull // a block at 64 kbit/s takes 2 s

struct span {
    size_t first, count;
};

static size_t chunk_first(const struct gossip_merge *merge, size_t chunk)
{
    return (size_t)((uint64_t)merge->options.parameters * chunk / merge->agreed.count);
}

static struct span span_of(const struct gossip_merge *merge, size_t block)
{
    BASE_ASSERT(merge->per > 0 && block < merge->blocks);
    const size_t chunk = block / merge->per, end = chunk_first(merge, chunk + 1);
    const size_t first = chunk_first(merge, chunk) + block % merge->per * LIMIT_SNAPSHOT_BLOCK;

    if (first >= end)
        return (struct span){end, 0};
    return (struct span){first, end - first < LIMIT_SNAPSHOT_BLOCK ? end - first : LIMIT_SNAPSHOT_BLOCK};
}

static size_t own_chunk(const struct gossip_merge *merge)
{
    return merge_set_find(&merge->agreed, merge->key); // MERGE_NOT_IN: it takes the mean of others
}

static size_t longest_block(const struct gossip_merge *merge)
{
    const size_t longest = merge->options.parameters / merge->agreed.count + 1;
    return longest < LIMIT_SNAPSHOT_BLOCK ? longest : LIMIT_SNAPSHOT_BLOCK;
}

// -- memory

enum base_error merge_chunks_create(struct gossip_merge *merge)
{
    const size_t d = merge->options.parameters;
    const size_t most = d / LIMIT_SNAPSHOT_BLOCK + 2 * GOSSIP_MERGE_MOST;
    const size_t part = d + GOSSIP_MERGE_MOST < GOSSIP_MERGE_MOST * LIMIT_SNAPSHOT_BLOCK
                            ? d + GOSSIP_MERGE_MOST
                            : GOSSIP_MERGE_MOST * LIMIT_SNAPSHOT_BLOCK;

    BASE_ASSERT(!merge->model && d > 0);
    merge->model = malloc(d * sizeof *merge->model);
    merge->block = malloc(most * sizeof *merge->block);
    merge->parts = malloc(MERGE_WINDOW * part * sizeof *merge->parts);
    if (merge->model && merge->block && merge->parts)
        return BASE_OK;
    merge_chunks_release(merge);
    return BASE_ENOMEM;
}

void merge_chunks_release(struct gossip_merge *merge)
{
    free(merge->model);
    free(merge->block);
    free(merge->parts);
    merge->model = merge->parts = NULL;
    merge->block = NULL;
    merge->blocks = merge->per = 0;
}

static bool counts(const struct gossip_merge *merge, size_t participant)
{
    return merge->gave >> participant & 1;
}

// Nothing of the blocks in this place of the window is here.
static void empty_place(struct gossip_merge *merge, size_t place)
{
    for (size_t i = 0; i < merge->agreed.count; i++) {
        const bool needs = counts(merge, i) && merge->agreed.key[i] != merge->key;
        merge->part[place][i] = needs ? MERGE_MISSING : MERGE_DONE;
    }
}

bool merge_chunks_reduced(const struct gossip_merge *merge)
{
    return merge->per > 0 && merge->reduced == merge->per;
}

bool merge_chunks_complete(const struct gossip_merge *merge)
{
    return merge->blocks > 0 && merge->n_done == merge->blocks;
}

// -- the own chunk

static float *part_at(const struct gossip_merge *merge, size_t place, size_t participant)
{
    return merge->parts + (place * merge->agreed.count + participant) * longest_block(merge);
}

static bool place_is_full(const struct gossip_merge *merge, size_t place)
{
    for (size_t i = 0; i < merge->agreed.count; i++)
        if (merge->part[place][i] != MERGE_DONE)
            return false;
    return true;
}

// In the order of keys and in double, so that the mean does not depend on the order of arrival. The mean of
// finite floats is a finite float.
static void add_up(struct gossip_merge *merge, size_t place, struct span span)
{
    const size_t n = merge->agreed.count;
    size_t givers = 0;

    for (size_t i = 0; i < n; i++)
        givers += counts(merge, i);
    BASE_ASSERT(givers > 0);
    for (size_t e = 0; e < span.count; e++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            if (counts(merge, i))
                sum += (double)(merge->agreed.key[i] == merge->key ? merge->own[span.first + e]
                                                                   : part_at(merge, place, i)[e]);
        merge->model[span.first + e] = (float)(sum / (double)givers);
    }
}

static void finish_block(struct gossip_merge *merge, size_t block)
{
    BASE_ASSERT(merge->n_done <= merge->blocks);
    if (merge->block[block] != MERGE_DONE)
        merge->n_done++;
    if (merge->block[block] > MERGE_DONE)
        merge->peers[merge->block[block] - MERGE_OF(0)].open--;
    merge->block[block] = MERGE_DONE;
}

// A block of the own chunk that came from a node with the whole mean has the same bits.
static void reduce(struct gossip_merge *merge)
{
    while (merge->reduced < merge->per) {
        const size_t block = own_chunk(merge) * merge->per + merge->reduced;
        const size_t place = merge->reduced % MERGE_WINDOW;
        if (span_of(merge, block).count > 0 && !place_is_full(merge, place))
            return;
        add_up(merge, place, span_of(merge, block));
        finish_block(merge, block);
        empty_place(merge, place);
        merge->reduced++;
    }
}

void merge_chunks_begin(struct gossip_merge *merge)
{
    BASE_ASSERT(merge->agreed.count > 0 && merge->model);
    const size_t n = merge->agreed.count, longest = merge->options.parameters / n + 1;

    merge->per = (longest + LIMIT_SNAPSHOT_BLOCK - 1) / LIMIT_SNAPSHOT_BLOCK;
    merge->blocks = n * merge->per;
    merge->n_done = merge->reduced = merge->n_asks = 0;
    merge->window = WINDOW_FIRST;
    for (size_t b = 0; b < merge->blocks; b++) {
        const bool empty = span_of(merge, b).count == 0;
        merge->block[b] = empty ? MERGE_DONE : MERGE_MISSING;
        merge->n_done += empty;
    }
    for (size_t i = 0; i < n; i++)
        merge->hint[i] = 0;
    for (size_t i = 0; i < merge->n_peers; i++)
        merge->peers[i].open = 0;
    for (size_t k = 0; k < MERGE_WINDOW; k++)
        empty_place(merge, k);
    if (!merge->takes)
        reduce(merge); // all blocks, if no other node gives anything
}

// -- asks

void merge_chunks_forget(struct gossip_merge *merge, size_t peer)
{
    const uint32_t of = MERGE_OF(peer);

    BASE_ASSERT(peer < merge->n_peers);
    for (size_t b = 0; merge->peers[peer].open > 0 && b < merge->blocks; b++)
        if (merge->block[b] == of) {
            merge->block[b] = MERGE_MISSING;
            merge->hint[b / merge->per] = 0;
        }
    for (size_t k = 0; merge->peers[peer].open > 0 && k < MERGE_WINDOW; k++)
        for (size_t i = 0; i < merge->agreed.count; i++)
            if (merge->part[k][i] == of)
                merge->part[k][i] = MERGE_MISSING;
    merge->peers[peer].open = 0;
}

// Blocks for this node. A peer that has stood still for long does not keep it from asking the others.
static size_t on_their_way(const struct gossip_merge *merge)
{
    size_t open = 0;

    for (size_t i = 0; i < merge->n_peers; i++)
        if (merge->now_ns - merge->peers[i].fed_ns < STILL_NS)
            open += merge->peers[i].open;
    return open;
}

// The peer takes part in this attempt, is so far, and has time for an ask.
static bool may_ask(const struct gossip_merge *merge, size_t peer, enum gossip_merge_phase least)
{
    if (peer == SIZE_MAX || on_their_way(merge) >= merge->window || !merge_peer_talks(merge, peer))
        return false;
    const struct merge_peer *p = &merge->peers[peer];
    return p->open < p->window && p->phase >= least && merge_set_equal(&p->set, &merge->agreed);
}

static bool ask_for_part(struct gossip_merge *merge, size_t *peer, struct gossip_snapshot_ask *ask)
{
    for (size_t k = merge->reduced; k < merge->per && k < merge->reduced + MERGE_WINDOW; k++) {
        uint32_t *part = merge->part[k % MERGE_WINDOW];
        if (span_of(merge, own_chunk(merge) * merge->per + k).count == 0)
            return false; // only at the end of a chunk
        for (size_t j = 0; j < merge->agreed.count; j++) {
            const size_t i = (own_chunk(merge) + j) % merge->agreed.count; // not all ask the same node first
            *peer = part[i] == MERGE_MISSING ? merge_peer_of(merge, merge->agreed.key[i]) : SIZE_MAX;
            if (!may_ask(merge, *peer, GOSSIP_MERGE_AGREED))
                continue;
            part[i] = MERGE_OF(*peer);
            ask->part = GOSSIP_PART_FINAL;
            ask->block = (uint32_t)(own_chunk(merge) * merge->per + k);
            return true;
        }
    }
    return false;
}

// The owner of the chunk, or else any node with the whole mean; which one differs between chunks.
static size_t source_of(const struct gossip_merge *merge, size_t chunk)
{
    const size_t owner = merge_peer_of(merge, merge->agreed.key[chunk]);

    if (may_ask(merge, owner, GOSSIP_MERGE_REDUCED))
        return owner;
    for (size_t i = 0; i < merge->n_peers; i++) {
        const size_t peer = (i + chunk) % merge->n_peers;
        if (may_ask(merge, peer, GOSSIP_MERGE_HOLDS))
            return peer;
    }
    return SIZE_MAX;
}

static bool ask_for_mean(struct gossip_merge *merge, size_t *peer, struct gossip_snapshot_ask *ask)
{
    const size_t own = own_chunk(merge), first = own == MERGE_NOT_IN ? 0 : own;

    for (size_t j = 0; j < merge->agreed.count; j++) {
        const size_t chunk = (first + j) % merge->agreed.count;
        const uint32_t *block = merge->block + chunk * merge->per;
        size_t k = merge->hint[chunk];
        while (k < merge->per && block[k] != MERGE_MISSING)
            k++;
        merge->hint[chunk] = k;
        *peer = k < merge->per ? source_of(merge, chunk) : SIZE_MAX;
        if (*peer == SIZE_MAX)
            continue;
        merge->block[chunk * merge->per + k] = MERGE_OF(*peer);
        ask->part = GOSSIP_PART_MERGED;
        ask->block = (uint32_t)(chunk * merge->per + k);
        return true;
    }
    return false;
}

bool merge_chunks_ask(struct gossip_merge *merge, size_t *peer, struct gossip_snapshot_ask *ask)
{
    const bool adds = !merge->takes && merge->phase == GOSSIP_MERGE_AGREED;

    if (merge->blocks == 0 || merge_chunks_complete(merge))
        return false;
    *ask = (struct gossip_snapshot_ask){.snapshot = merge_set_hash(&merge->agreed)};
    if (!(adds && ask_for_part(merge, peer, ask)) && !ask_for_mean(merge, peer, ask))
        return false;
    if (on_their_way(merge) == 0)
        merge->fed_ns = merge->now_ns;
    if (merge->peers[*peer].open++ == 0)
        merge->peers[*peer].fed_ns = merge->now_ns;
    return true;
}

// -- answers

bool merge_chunks_answer(const struct gossip_merge *merge, const struct gossip_snapshot_ask *ask,
                         struct gossip_snapshot_tell *tell)
{
    if (merge->blocks == 0 || ask->snapshot != merge_set_hash(&merge->agreed) || ask->block >= merge->blocks)
        return false;
    const struct span span = span_of(merge, ask->block);
    const bool merged = ask->part == GOSSIP_PART_MERGED;
    if (span.count == 0 || (merged && merge->block[ask->block] != MERGE_DONE))
        return false;
    const float *values = (merged ? merge->model : merge->own) + span.first;
    *tell = (struct gossip_snapshot_tell){.snapshot = ask->snapshot,
                                          .parts = (uint8_t)(1u << ask->part),
                                          .part = ask->part,
                                          .block = ask->block,
                                          .hash = base_hash_vector(values, span.count),
                                          .values = (const uint8_t *)values,
                                          .values_bytes = (uint32_t)(span.count * sizeof *values)};
    return true;
}

static void note_block(struct gossip_merge *merge, struct merge_peer *peer, uint32_t bytes)
{
    peer->window = gossip_window_after(peer->window, merge->now_ns - peer->fed_ns, MERGE_AHEAD);
    merge->window = gossip_window_after(merge->window, merge->now_ns - merge->fed_ns, MERGE_ASKS);
    peer->fed_ns = merge->fed_ns = merge->moved_ns = merge->now_ns;
    merge->bytes += bytes;
}

// Copies the values; false: they are not finite, not plausible, or not those that were hashed.
static bool take_values(const struct gossip_merge *merge, const struct gossip_snapshot_tell *tell, float *to,
                        size_t count)
{
    if (tell->values_bytes != count * sizeof *to)
        return false;
    memcpy(to, tell->values, tell->values_bytes);
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(to[i]) <= merge->limit))
            return false;
    return base_hash_vector(to, count) == tell->hash;
}

static enum base_error take_part(struct gossip_merge *merge, size_t peer,
                                 const struct gossip_snapshot_tell *tell)
{
    const size_t i = merge_set_find(&merge->agreed, merge_peer_key(merge, &merge->peers[peer]));
    const size_t k = tell->block - own_chunk(merge) * merge->per;

    if (i == MERGE_NOT_IN || own_chunk(merge) == MERGE_NOT_IN || k < merge->reduced ||
        k >= merge->reduced + MERGE_WINDOW || merge->part[k % MERGE_WINDOW][i] != MERGE_OF(peer))
        return BASE_OK; // asked for in an earlier attempt
    if (!take_values(merge, tell, part_at(merge, k % MERGE_WINDOW, i), span_of(merge, tell->block).count))
        return BASE_EFORMAT;
    merge->part[k % MERGE_WINDOW][i] = MERGE_DONE;
    merge->peers[peer].open--;
    note_block(merge, &merge->peers[peer], tell->values_bytes);
    reduce(merge);
    return BASE_OK;
}

static enum base_error take_mean(struct gossip_merge *merge, size_t peer,
                                 const struct gossip_snapshot_tell *tell)
{
    const struct span span = span_of(merge, tell->block);

    if (merge->block[tell->block] != MERGE_OF(peer))
        return BASE_OK;
    if (!take_values(merge, tell, merge->model + span.first, span.count))
        return BASE_EFORMAT;
    finish_block(merge, tell->block);
    note_block(merge, &merge->peers[peer], tell->values_bytes);
    return BASE_OK;
}

enum base_error merge_chunks_tell(struct gossip_merge *merge, size_t peer,
                                  const struct gossip_snapshot_tell *tell)
{
    BASE_ASSERT(peer < merge->n_peers);
    if (merge->blocks == 0 || tell->snapshot != merge_set_hash(&merge->agreed) ||
        tell->block >= merge->blocks)
        return BASE_OK;
    return tell->part == GOSSIP_PART_FINAL ? take_part(merge, peer, tell) : take_mean(merge, peer, tell);
}
