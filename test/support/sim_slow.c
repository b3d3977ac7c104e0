#include "test/support/sim_slow.h"

#include <stdlib.h>

#define PACKET_BYTES 1460u
#define FULL_LOSS    0.1 // of the datagrams that find the queue full

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// Puts `bytes` on a line; returns when they are through. *full: the queue had no room.
static uint64_t book(const struct sim_slow *slow, uint64_t *way, size_t bytes, uint64_t now_ns, bool *full)
{
    uint64_t cost_ns = bytes * 8 * SIM_SECOND / slow->bits, begin_ns = later(now_ns, *way);

    *way = begin_ns + cost_ns;
    *full |= begin_ns > now_ns + slow->queue_ns;
    if (bytes <= PACKET_BYTES && begin_ns > now_ns + slow->queue_ns)
        begin_ns = now_ns + slow->queue_ns;
    return begin_ns + cost_ns;
}

static bool send(void *owner, bool stream, size_t from, size_t to, size_t bytes, uint64_t now_ns,
                 uint64_t *arrival_ns)
{
    struct sim_slow *slow = owner;
    bool full = false;
    uint64_t at_ns = book(slow, &slow->out_ns[from], bytes, now_ns, &full);

    at_ns = later(at_ns, book(slow, &slow->in_ns[to], bytes, now_ns, &full));
    *arrival_ns = at_ns + slow->latency_ns + base_rng_below(&slow->rng, slow->jitter_ns + 1);
    slow->bytes += bytes;
    if (stream || !full || base_rng_uniform(&slow->rng) >= FULL_LOSS)
        return true;
    slow->lost++;
    return false;
}

void sim_slow_create(struct sim_slow *slow, size_t hosts, uint64_t seed)
{
    *slow =
        (struct sim_slow){.wire = {.owner = slow, .send = send}, .bits = 1000000, .queue_ns = 200 * SIM_MS};
    base_rng_seed_stream(&slow->rng, seed, 0x70000);
    slow->out_ns = sim_must(calloc(hosts, sizeof *slow->out_ns));
    slow->in_ns = sim_must(calloc(hosts, sizeof *slow->in_ns));
}

void sim_slow_destroy(struct sim_slow *slow)
{
    free(slow->out_ns);
    free(slow->in_ns);
}
