#include "gossip/exchange/merge.h"

#include <math.h>
#include <string.h>

struct gossip_side gossip_side_of_packet(const struct compress_reader *reader, struct gossip_window *window,
                                         uint32_t *copy)
{
    BASE_ASSERT(reader->done == 0);
    return (struct gossip_side){.reader = *reader, .window = window, .copy = copy};
}

struct gossip_side gossip_side_of_list(const struct compress_sparse *list, struct gossip_window *window,
                                       uint32_t *copy)
{
    return (struct gossip_side){.list = list, .window = window, .copy = copy};
}

// All that is left of the list, or, if it is in other memory, as much as the window holds.
static void take_listed(struct gossip_side *side)
{
    const struct compress_sparse *list = side->list;
    const size_t done = side->listed, left = list->count - done;
    BASE_ASSERT(done <= list->count);

    side->there.index = list->index + done;
    side->there.value = list->value + done;
    if (side->window->kernels->shares_host) {
        side->count = left;
        side->index = side->there.index;
    } else {
        side->count = left < side->window->room ? left : side->window->room;
        side->index = side->window->index;
        gossip_window_fetch_index(side->window, side->there.index, side->count);
    }
    side->listed += side->count;
}

static void take_packed(struct gossip_side *side)
{
    BASE_ASSERT(!side->list);
    side->count = gossip_window_read(side->window, &side->reader);
    side->index = side->window->index;
    side->there.index = side->window->there.index;
    side->there.value = side->window->there.value;
}

static void refill(struct gossip_side *side)
{
    if (side->at < side->count)
        return;
    const size_t done = side->list ? side->listed : side->reader.done;
    BASE_ASSERT(side->at == side->count); // all entries at hand are taken
    side->at = side->count = 0;
    if (side->list)
        take_listed(side);
    else
        take_packed(side);
    if (side->copy && side->count > 0)
        memcpy(side->copy + done, side->index, side->count * sizeof *side->copy);
}

size_t gossip_side_indices(struct gossip_side *side, const uint32_t **index)
{
    refill(side);
    BASE_ASSERT(side->at <= side->count);
    *index = side->index + side->at;
    size_t count = side->count - side->at;
    side->at = side->count;
    return count;
}

static uint32_t last_of(const struct gossip_side *side)
{
    return side->at < side->count ? side->index[side->count - 1] : UINT32_MAX;
}

// The entries at hand whose index is at most `last`.
static struct kernels_entries take(struct gossip_side *side, uint32_t last)
{
    size_t low = side->at, high = side->count, first = side->at;

    BASE_ASSERT(low <= high);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (side->index[middle] <= last)
            low = middle + 1;
        else
            high = middle;
    }
    side->at = low;
    return (struct kernels_entries){
        .index = side->there.index + first, .value = side->there.value + first, .count = low - first};
}

// The next entries of both sides, up to an index that no later entry of either side has; false at the end.
static bool next(struct gossip_side *mine, struct gossip_side *theirs, struct kernels_entries *of_mine,
                 struct kernels_entries *of_theirs)
{
    refill(mine);
    refill(theirs);
    if (mine->count + theirs->count == 0)
        return false;
    uint32_t last = last_of(mine) < last_of(theirs) ? last_of(mine) : last_of(theirs);
    *of_mine = take(mine, last);
    *of_theirs = take(theirs, last);
    BASE_ASSERT(of_mine->count + of_theirs->count > 0);
    return true;
}

void gossip_merge_apply(const struct kernels *kernels, struct gossip_side *mine, struct gossip_side *theirs,
                        struct kernels_exchange *step, uint64_t *hash)
{
    while (next(mine, theirs, &step->mine, &step->theirs))
        kernels->apply->exchange(step, hash);
}

static double square(double value)
{
    return value * value;
}

// Which side has the next entry is unpredictable, so there is no branch on it.
static double energy_of(const struct kernels_entries *a, const struct kernels_entries *b)
{
    double energy = 0;
    size_t i = 0, j = 0;

    while (i < a->count && j < b->count) {
        uint32_t left = a->index[i], right = b->index[j], from_a = left <= right, from_b = right <= left;
        energy += square((double)b->value[j] * from_b - (double)a->value[i] * from_a);
        i += from_a;
        j += from_b;
    }
    for (; i < a->count; i++)
        energy += square((double)a->value[i]);
    for (; j < b->count; j++)
        energy += square((double)b->value[j]);
    return energy;
}

double gossip_merge_norm(struct gossip_side *mine, struct gossip_side *theirs)
{
    struct kernels_entries a, b;
    double energy = 0;

    while (next(mine, theirs, &a, &b))
        energy += energy_of(&a, &b);
    return sqrt(energy);
}
