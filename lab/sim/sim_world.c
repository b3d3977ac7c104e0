#include "lab/sim/sim_world.h"

#include "base/hash.h"
#include "lab/sim/sim_process.h"
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

static void make_identities(struct sim_world *world)
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

void sim_world_create(struct sim_world *world, const struct sim_options *options)
{
    size_t hosts = options->nodes + options->twins;

    *world = (struct sim_world){.options = *options, .hosts = hosts};
    world->queue.now_ns = SIM_SECOND;
    base_rng_seed_stream(&world->rng, options->seed, 0x40000);
    sim_net_create(&world->net, &world->queue, hosts, options->seed, &sim_node_handler, world);
    world->net.wire = options->wire;
    sim_proofs_create(&world->proofs);
    make_identities(world);
    BASE_ASSERT(!options->known || !options->twins);
    if (options->known)
        sim_known_create(world);
    for (size_t i = 0; i < sizeof world->psk; i++)
        world->psk[i] = (uint8_t)base_rng_below(&world->rng, 256);
    world->node = sim_must(calloc(hosts, sizeof(struct sim_node *)));
    for (size_t i = 0; i < hosts; i++)
        world->node[i] = sim_node_create(world, i);
}

void sim_world_destroy(struct sim_world *world)
{
    for (size_t i = 0; i < world->hosts; i++)
        sim_node_destroy(world->node[i]);
    sim_net_destroy(&world->net);
    sim_queue_free(&world->queue);
    free(world->node);
    free(world->identity);
    free(world->by_id);
    sim_proofs_destroy(&world->proofs);
    sim_known_destroy(world);
}

bool sim_world_run(struct sim_world *world, uint64_t until_ns)
{
    while (!world->broken && sim_queue_run(&world->queue, until_ns))
        ;
    return !world->broken;
}

uint64_t sim_world_now(const struct sim_world *world)
{
    return world->queue.now_ns;
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
