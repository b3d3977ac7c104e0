// Pairs of the schedule send each other their whole models: x_i' = (1 - w) x_i + w x_j, both at once. On a
// butterfly of 2^m nodes that is the exact mean after m rounds.
#include "lab/methods/engine.h"

// The lower node computes both.
static enum base_error meet(struct rounds_world *world, size_t node)
{
    size_t partner = world->graph.partner[node];
    if (partner == TOPOLOGY_NOBODY || partner < node)
        return BASE_OK;
    float *a = world->x[node], *b = world->x[partner], w = (float)world->graph.weight[node];
    for (size_t k = 0; k < world->d; k++) {
        float force = w * (b[k] - a[k]);
        a[k] += force;
        b[k] -= force;
    }
    return BASE_OK;
}

static enum base_error mix(struct rounds_world *world, struct base_reason *why)
{
    (void)why;
    rounds_wire_meetings(world, world->d * sizeof(float));
    return rounds_each(world, meet);
}

const struct rounds_method rounds_model_average = {.name = "model-average", .meets = true, .mix = mix};
