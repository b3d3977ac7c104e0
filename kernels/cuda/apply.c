// kernels/apply.h on the device.
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/memory.h"

struct sums {
    uint64_t hash;
    uint32_t largest;
};

static struct sums *sums_begin(void)
{
    struct sums *device = kernels_cuda_begin(sizeof *device);
    kernels_cuda_clear(device, sizeof *device);
    return device;
}

static struct sums sums_fetch(const struct sums *device, const char *what)
{
    struct sums host;
    kernels_cuda_launched(what);
    kernels_cuda_download(&host, device, sizeof host);
    kernels_cuda_end();
    return host;
}

static unsigned blocks_along(size_t count)
{
    const size_t blocks = (count + 1023) / 1024;
    const unsigned most = kernels_cuda_blocks();
    return blocks < most ? (unsigned)blocks : most;
}

static struct kernels_cuda_entries entries_of(const struct kernels_entries *e)
{
    return (struct kernels_cuda_entries){e->index, e->value, e->count, e->first};
}

static void exchange(const struct kernels_exchange *e, uint64_t *hash)
{
    if (e->mine.count == 0 && e->theirs.count == 0)
        return;
    BASE_ASSERT(!e->r_bf16 && !e->correction_bf16); // gossip/exchange refuses bf16 on a device
    struct sums *device = sums_begin();
    const struct kernels_cuda_exchange arguments = {
        .x = e->x,
        .pending = e->pending,
        .r = e->r,
        .correction = e->correction,
        .correction_sum = e->correction_sum,
        .weight = e->weight,
        .gain = e->gain,
        .mine = entries_of(&e->mine),
        .theirs = entries_of(&e->theirs),
        .hash = &device->hash,
    };
    kernels_cuda_exchange(&arguments);
    *hash += sums_fetch(device, "exchange").hash;
}

static uint64_t hash(const float *x, size_t count, size_t first, bool magnitudes)
{
    if (count == 0)
        return 0;
    struct sums *device = sums_begin();
    const struct kernels_cuda_hash arguments = {x, count, first, magnitudes, &device->hash, &device->largest};
    kernels_cuda_hash(&arguments, blocks_along(count));
    return sums_fetch(device, "hash").hash;
}

static bool all_finite(const float *x, size_t count)
{
    if (count == 0)
        return true;
    struct sums *device = sums_begin();
    const struct kernels_cuda_hash arguments = {x, count, 0, false, &device->hash, &device->largest};
    kernels_cuda_largest(&arguments, blocks_along(count));
    return sums_fetch(device, "finite").largest < KERNELS_INFINITE;
}

const struct kernels_apply kernels_cuda_apply = {
    .exchange = exchange,
    .hash = hash,
    .finite = all_finite,
};
