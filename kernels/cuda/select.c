// kernels/select.h on the device: temporary memory, launches and results.
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/memory.h"

#include <string.h>

_Static_assert(KERNELS_CUDA_BINS == KERNELS_BINS, "one number of bins");

// At the start of the temporary memory; anything else that a call needs follows.
struct results {
    struct kernels_cuda_seen seen;
    uint64_t entries;
    uint32_t tickets, unused;
    uint64_t counts[KERNELS_BINS]; // or the words of tiles, as many as there are
};

static struct kernels_cuda_vector vector_from(const struct kernels_difference *a, size_t first)
{
    BASE_ASSERT(!a->r_bf16); // gossip/exchange refuses bf16 on a device
    const float *x = a->x + first, *r = a->r ? a->r + first : NULL;
    return (struct kernels_cuda_vector){
        .x = x, .r = r, .count = a->count - first, .aligned = ((uintptr_t)x | (uintptr_t)r) % 16 == 0};
}

static size_t tiles_of(size_t count)
{
    return (count + KERNELS_CUDA_TILE - 1) / KERNELS_CUDA_TILE;
}

static unsigned blocks_for(size_t tiles)
{
    const unsigned most = kernels_cuda_blocks();
    return tiles < most ? (unsigned)tiles : most;
}

// Reduces the statistics of the blocks and downloads the result with the `bytes` before it.
static void results_fetch(struct results *device, struct kernels_cuda_seen *places, size_t count,
                          struct results *host, size_t bytes, size_t read, struct kernels_seen *seen)
{
    kernels_cuda_reduce(places, count, &device->seen);
    kernels_cuda_launched("the reduction of a pass");
    kernels_cuda_download(host, device, bytes);
    *seen = (struct kernels_seen){.read = read,
                                  .largest = host->seen.largest,
                                  .a_energy = host->seen.a_energy,
                                  .x_energy = host->seen.x_energy};
}

static void sample(const struct kernels_difference *a, size_t samples, uint32_t *magnitude)
{
    if (samples > 0) {
        uint32_t *device = kernels_cuda_begin(samples * sizeof *device);
        const struct kernels_cuda_sample s = {vector_from(a, 0), samples, device};
        kernels_cuda_sample(&s);
        kernels_cuda_launched("sample");
        kernels_cuda_download(magnitude, device, samples * sizeof *device);
        kernels_cuda_end();
    }
}

static size_t gather(const struct kernels_difference *a, size_t first, uint32_t floor, size_t room,
                     uint32_t *index, float *value, struct kernels_seen *seen)
{
    *seen = (struct kernels_seen){0};
    if (first >= a->count)
        return 0;
    const size_t tiles = tiles_of(a->count - first);
    const size_t words = offsetof(struct results, counts) + tiles * sizeof(uint64_t);
    struct results *device =
        kernels_cuda_begin(words + (tiles + KERNELS_CUDA_REDUCED) * sizeof(struct kernels_cuda_seen));
    struct kernels_cuda_seen *places = (struct kernels_cuda_seen *)((char *)device + words);
    const struct kernels_cuda_gather g = {
        .vector = vector_from(a, first),
        .order = {&device->tickets, device->counts, &device->entries, tiles},
        .first = first,
        .room = room,
        .floor = floor,
        .index = index,
        .value = value,
        .seen = places,
    };
    struct results host;
    kernels_cuda_clear(device, words);
    kernels_cuda_gather(&g);
    kernels_cuda_launched("gather");
    results_fetch(device, places, tiles, &host, offsetof(struct results, counts), a->count - first, seen);
    kernels_cuda_end();
    if (host.entries > room) {
        *seen = (struct kernels_seen){0};
        return 0;
    }
    return (size_t)host.entries;
}

static size_t keep(size_t entries, uint32_t *index, float *value, uint32_t low, uint32_t high, size_t ties)
{
    if (entries == 0)
        return 0;
    const size_t tiles = tiles_of(entries);
    const size_t words = offsetof(struct results, counts) + tiles * sizeof(uint64_t);
    struct results *device = kernels_cuda_begin(words), host;
    const struct kernels_cuda_keep k = {
        .order = {&device->tickets, device->counts, &device->entries, tiles},
        .count = entries,
        .ties = ties,
        .low = low,
        .high = high,
        .index = index,
        .value = value,
    };
    kernels_cuda_clear(device, words);
    kernels_cuda_keep(&k);
    kernels_cuda_launched("keep");
    kernels_cuda_download(&host, device, offsetof(struct results, counts));
    kernels_cuda_end();
    const size_t above = host.entries & ((1u << 31) - 1), tied = (size_t)(host.entries >> 31);
    return above + (tied < ties ? tied : ties);
}

// A pass whose blocks visit their tiles in strides.
struct strided {
    struct results *device;
    struct kernels_cuda_seen *places;
    size_t tiles;
    unsigned blocks;
};

static struct strided strided_begin(const struct kernels_difference *a)
{
    struct strided s = {.tiles = tiles_of(a->count)};
    s.blocks = blocks_for(s.tiles);
    s.device = kernels_cuda_begin(sizeof *s.device +
                                  (s.blocks + KERNELS_CUDA_REDUCED) * sizeof(struct kernels_cuda_seen));
    s.places = (struct kernels_cuda_seen *)(s.device + 1);
    kernels_cuda_clear(s.device, sizeof *s.device);
    return s;
}

static void histogram(const struct kernels_difference *a, uint32_t floor, unsigned shift,
                      uint64_t bins[KERNELS_BINS], struct kernels_seen *seen)
{
    struct results host = {0};
    *seen = (struct kernels_seen){0};
    if (a->count > 0) {
        const struct strided s = strided_begin(a);
        const struct kernels_cuda_histogram h = {vector_from(a, 0), s.tiles, floor, shift,
                                                 s.device->counts,  s.places};
        kernels_cuda_histogram(&h, s.blocks);
        kernels_cuda_launched("histogram");
        results_fetch(s.device, s.places, s.blocks, &host, sizeof host, a->count, seen);
        kernels_cuda_end();
        if (floor == 0) // the zeros behind the end of the last tile
            host.counts[0] -= s.tiles * KERNELS_CUDA_TILE - a->count;
    }
    memcpy(bins, host.counts, sizeof host.counts);
}

static void count(const struct kernels_difference *a, const uint32_t *floors, size_t n, uint64_t *counts,
                  struct kernels_seen *seen)
{
    BASE_ASSERT(n <= KERNELS_CUDA_FLOORS);
    struct results host = {0};
    *seen = (struct kernels_seen){0};
    if (a->count > 0) {
        const struct strided s = strided_begin(a);
        struct kernels_cuda_count c = {vector_from(a, 0), s.tiles, {0}, s.device->counts, s.places};
        for (size_t f = 0; f < KERNELS_CUDA_FLOORS; f++)
            c.floors[f] = f < n ? floors[f] : UINT32_MAX;
        kernels_cuda_count(&c, s.blocks);
        kernels_cuda_launched("count");
        results_fetch(s.device, s.places, s.blocks, &host,
                      offsetof(struct results, counts) + sizeof c.floors / sizeof c.floors[0] * 8, a->count,
                      seen);
        kernels_cuda_end();
    }
    for (size_t f = 0; f < n; f++)
        counts[f] = floors[f] == 0 ? a->count : host.counts[f];
}

static void pick(const struct kernels_difference *a, size_t entries, const uint32_t *index, float *value)
{
    if (entries > 0) {
        const struct kernels_cuda_pick p = {vector_from(a, 0), entries, index, value};
        kernels_cuda_pick(&p);
        kernels_cuda_launched("pick");
    }
}

const struct kernels_select kernels_cuda_select = {
    .sample = sample,
    .gather = gather,
    .histogram = histogram,
    .count = count,
    .keep = keep,
    .pick = pick,
};
