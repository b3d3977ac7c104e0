// D-PSGD (Lian et al. 2017, algorithm 1): x_i' = sum over j of w_ij x_j, dense, all neighbours every round,
// with Metropolis-Hastings weights on the graph of all meetings.
#include "lab/methods/engine.h"

#include <string.h>

static enum base_error prepare(struct rounds_world *world, struct base_reason *why)
{
    world->state = rounds_vectors(world->n, world->d);
    return world->state ? BASE_OK : base_fail(why, BASE_ENOMEM, "no memory for the models of all nodes");
}

static enum base_error gather(struct rounds_world *world, size_t node)
{
    const struct rounds_edges *edges = &world->graph.edges;
    const float *own = world->x[node];
    float *next = ((float **)world->state)[node];
    memcpy(next, own, world->d * sizeof *next);
    for (size_t e = edges->first[node]; e < edges->first[node + 1]; e++) {
        const float *other = world->x[edges->peers[e]];
        float w = (float)rounds_edges_metropolis(edges, node, edges->peers[e]);
        for (size_t k = 0; k < world->d; k++)
            next[k] += w * (other[k] - own[k]);
    }
    return BASE_OK;
}

static enum base_error take(struct rounds_world *world, size_t node)
{
    memcpy(world->x[node], ((float **)world->state)[node], world->d * sizeof(float));
    return BASE_OK;
}

static enum base_error mix(struct rounds_world *world, struct base_reason *why)
{
    (void)why;
    rounds_wire_neighbours(world, true);
    enum base_error error = rounds_each(world, gather);
    return error ? error : rounds_each(world, take);
}

const struct rounds_method rounds_dpsgd = {
    .name = "dpsgd", .has_graph = true, .prepare = prepare, .mix = mix, .drop = rounds_drop_vectors};
