#include "lab/sim/sim_world.h"

#include "lab/sim/sim_process.h"
#include <stdlib.h>

void sim_world_create(struct sim_world *world, const struct sim_options *options)
{
    size_t hosts = options->nodes + options->twins;

    *world = (struct sim_world){.options = *options, .hosts = hosts};
    world->queue.now_ns = SIM_SECOND;
    base_rng_seed_stream(&world->rng, options->seed, 0x40000);
    sim_net_create(&world->net, &world->queue, hosts, options->seed, sim_node_tell, world);
    world->net.wire = options->wire;
    sim_proofs_create(&world->proofs);
    sim_world_identify(world);
    BASE_ASSERT(!options->known || !options->twins);
    if (options->known)
        sim_known_create(world);
    world->secrets.count = 1;
    for (size_t i = 0; i < sizeof world->secrets.psk[0]; i++)
        world->secrets.psk[0][i] = (uint8_t)base_rng_below(&world->rng, 256);
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
