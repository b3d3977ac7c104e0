// Identities, the time of a process, and the trace: used by every part of the simulator.
#include "lab/sim/sim_process.h"
#include "lab/sim/sim_world.h"

#include "base/hash.h"
#include <stdlib.h>
#include <string.h>

size_t sim_world_identity(const struct sim_world *world, size_t host)
{
    return host < world->options.nodes ? host : host - world->options.nodes;
}

static size_t bucket(const struct sim_world *world, const struct gossip_id *id)
{
    uint64_t word;

    memcpy(&word, id->bytes, sizeof word);
    return (size_t)(base_hash_mix(word) % world->by_id_size);
}

size_t sim_world_find(const struct sim_world *world, const struct gossip_id *id)
{
    for (size_t at = bucket(world, id); world->by_id[at]; at = (at + 1) % world->by_id_size)
        if (gossip_id_compare(&world->identity[world->by_id[at] - 1].id, id) == 0)
            return world->by_id[at] - 1;
    return SIZE_MAX;
}

void sim_world_identify(struct sim_world *world)
{
    size_t nodes = world->options.nodes;

    world->identity = sim_must(calloc(nodes, sizeof *world->identity));
    world->by_id_size = 4 * nodes + 7;
    world->by_id = sim_must(calloc(world->by_id_size, sizeof *world->by_id));
    for (size_t i = 0; i < nodes; i++) {
        uint8_t seed[32];
        struct base_rng rng;
        base_rng_seed_stream(&rng, world->options.seed, 0x30000 + i);
        for (size_t k = 0; k < sizeof seed; k++)
            seed[k] = (uint8_t)base_rng_below(&rng, 256);
        gossip_identity_from_seed(seed, &world->identity[i]);
        size_t at = bucket(world, &world->identity[i].id);
        while (world->by_id[at])
            at = (at + 1) % world->by_id_size;
        world->by_id[at] = (uint32_t)i + 1;
    }
}

const struct gossip_id *sim_member_id(const struct sim_node *node, size_t peer)
{
    return &node->world->identity[peer].id;
}

uint64_t sim_node_now(const struct sim_node *node)
{
    return (uint64_t)((int64_t)node->world->queue.now_ns + node->clock_ns);
}

void sim_world_trace(struct sim_world *world, size_t host, const char *what, const char *text, uint64_t a,
                     uint64_t b)
{
    const struct sim_line line = {world->queue.now_ns, (uint32_t)host, what, text, a, b};

    sim_trace_add(&world->trace, &line);
}

void sim_world_break(struct sim_world *world, size_t host, const char *what)
{
    if (world->broken)
        return;
    sim_world_trace(world, host, "BROKEN", what, 0, 0);
    world->broken = what;
    world->broken_host = host;
}
