// Runs the method of a selection on the whole vector or on each block.
#include "base/limits.h"
#include "compress/selecting.h"

#include <math.h>

// The share of the k entries that the elements [0, end) contribute; the share of a run is a difference of two
// such numbers.
static size_t share_until(size_t k, size_t count, size_t end)
{
    return count == 0 ? 0 : (size_t)((uint64_t)k * end / count);
}

#define PACKET_WORTH 16384.0 // entries; the overhead of a message is that of a few hundred

static double part_of(double ratio, double count)
{
    if (ratio > 0)
        return ratio * count;
    return fmax(count / 32, fmin(count / 8, PACKET_WORTH));
}

size_t compress_select_count(double ratio, size_t count)
{
    return (size_t)(part_of(ratio, (double)count) + 0.5);
}

size_t compress_select_room(const struct compress_selection *selection, size_t count)
{
    const size_t k = selection->k < count ? selection->k : count;
    const size_t block = selection->block == 0 || selection->block > count ? count : selection->block;
    const size_t share = share_until(k, count, block) + 1;
    const size_t room = k + share / 8 + SELECT_SLACK;
    return room < count ? room : count;
}

static enum base_error select_run(const struct compress_selection *selection, struct selecting *run)
{
    if (run->k == 0) {
        (void)select_gather(run, run->first, SELECT_NEVER);
        return BASE_OK;
    }
    switch (selection->method) {
    case COMPRESS_EXACT:
        select_exact(run);
        break;
    case COMPRESS_THRESHOLD:
        select_threshold(run);
        break;
    case COMPRESS_BISECTION:
        select_bisection(run);
        break;
    case COMPRESS_RANDOM:
        return select_random(run, selection->seed);
    }
    return BASE_OK;
}

enum base_error compress_select(const struct kernels *kernels, const struct compress_selection *selection,
                                const struct kernels_difference *a, struct compress_sparse *entries,
                                struct compress_energy *energy)
{
    const size_t count = a->count, k = selection->k < count ? selection->k : count;
    const size_t block = selection->block == 0 || selection->block > count ? count : selection->block;
    struct compress_energy sum = {0};
    const size_t slack = block == 0 ? 0 : share_until(k, count, block) / 8 + SELECT_SLACK;
    size_t done = 0;
    if (count > LIMIT_PARAMETERS || entries->capacity < compress_select_room(selection, count))
        return BASE_ELIMIT;
    for (size_t first = 0; first < count; first += block) {
        const size_t end = count - first < block ? count : first + block;
        const size_t share = share_until(k, count, end) - share_until(k, count, first);
        const size_t left = entries->capacity - done, room = share + slack < left ? share + slack : left;
        struct selecting run = {.kernels = kernels,
                                .whole = *a,
                                .first = first,
                                .end = end,
                                .k = share,
                                .index = entries->index + done,
                                .value = entries->value + done,
                                .room = room};
        enum base_error error = select_run(selection, &run);
        if (!error && !selecting_finite(&run))
            error = BASE_EFORMAT;
        if (error)
            return error;
        done += run.entries;
        sum.a += run.seen.a_energy;
        sum.x += run.seen.x_energy;
    }
    entries->count = done;
    if (energy)
        *energy = sum;
    return BASE_OK;
}
