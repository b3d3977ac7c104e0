// All models become their exact mean every round: synchronous SGD with one local step, local SGD with more.
#include "lab/methods/engine.h"

static enum base_error prepare(struct rounds_world *world, struct base_reason *why)
{
    world->state = rounds_vectors(1, world->d);
    return world->state ? BASE_OK : base_fail(why, BASE_ENOMEM, "no memory for the mean of the models");
}

static enum base_error mix(struct rounds_world *world, struct base_reason *why)
{
    struct rounds_spread spread;
    (void)why;
    enum base_error error = rounds_wire_ring(world, world->d * sizeof(float));
    if (!error)
        error = rounds_mean(world, world->x, *(float **)world->state, &spread);
    return error ? error : rounds_take(world, *(float **)world->state);
}

const struct rounds_method rounds_allreduce = {
    .name = "allreduce", .has_ring = true, .prepare = prepare, .mix = mix, .drop = rounds_drop_vectors};
