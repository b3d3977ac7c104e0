// DiLoCo (Douillard et al. 2023, algorithm 1): all nodes begin a round from the same model; the average
// change of their local steps, delta = x - mean of x_i, is the gradient of an outer SGD with Nesterov
// momentum: v = mu v + delta, x -= rate (delta + mu v).
#include "lab/methods/engine.h"

#include <string.h>

#define NESTEROV 0.9f // of the paper

enum { OUTER, MOMENTUM, MEAN, VECTORS }; // of the state

static enum base_error prepare(struct rounds_world *world, struct base_reason *why)
{
    float **state = world->state = rounds_vectors(VECTORS, world->d);
    if (!state)
        return base_fail(why, BASE_ENOMEM, "no memory for the outer model");
    memcpy(state[OUTER], world->start, world->d * sizeof **state);
    return BASE_OK;
}

static void outer_step(struct rounds_world *world)
{
    float **state = world->state, rate = (float)world->config->average.outer_rate,
          mu = rounds_momentum(world, NESTEROV);
    for (size_t k = 0; k < world->d; k++) {
        float delta = state[OUTER][k] - state[MEAN][k];
        state[MOMENTUM][k] = mu * state[MOMENTUM][k] + delta;
        state[OUTER][k] -= rate * (delta + mu * state[MOMENTUM][k]);
    }
}

static enum base_error mix(struct rounds_world *world, struct base_reason *why)
{
    struct rounds_spread spread;
    (void)why;
    enum base_error error = rounds_wire_ring(world, world->d * sizeof(float));
    if (!error)
        error = rounds_mean(world, world->x, ((float **)world->state)[MEAN], &spread);
    if (error)
        return error;
    outer_step(world);
    return rounds_take(world, ((float **)world->state)[OUTER]);
}

const struct rounds_method rounds_diloco = {
    .name = "diloco", .has_ring = true, .prepare = prepare, .mix = mix, .drop = rounds_drop_vectors};
