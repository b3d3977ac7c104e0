// SparseLoCo (Sarfi et al. 2025, algorithm 1): as DiLoCo, all nodes begin a round from the same model x, but
// each sends the change of its local steps compressed, C = top-k, quantised, with an error feedback e per
// node; the outer step has no momentum:
//     e_i = beta e_i + (x - x_i),   q_i = C(e_i),   e_i -= q_i,   x -= rate * mean of q_i
// beta is average.outer_nesterov, or where that is 0 the paper's; rate is average.outer_rate.
#include "lab/methods/engine.h"

#include <string.h>

#define MEMORY 0.95f // of the paper

// The state: [n] error feedback e, [n] what is sent, q, then the model of all and the mean of what was sent.
static float *outer_of(const struct rounds_world *world)
{
    return ((float **)world->state)[2 * world->n];
}

static enum base_error prepare(struct rounds_world *world, struct base_reason *why)
{
    world->state = rounds_vectors(2 * world->n + 2, world->d);
    if (!world->state)
        return base_fail(why, BASE_ENOMEM, "no memory for the error feedback of %zu nodes", world->n);
    memcpy(outer_of(world), world->start, world->d * sizeof(float));
    return BASE_OK;
}

static enum base_error send(struct rounds_world *world, size_t node)
{
    float **state = world->state, *error = state[node], *sent = state[world->n + node];
    const float *outer = outer_of(world);
    float beta = rounds_momentum(world, MEMORY);
    for (size_t k = 0; k < world->d; k++)
        error[k] = beta * error[k] + (outer[k] - world->x[node][k]);
    memset(sent, 0, world->d * sizeof *sent);
    enum base_error failed = rounds_compress(world, node, error, sent);
    for (size_t k = 0; k < world->d && !failed; k++)
        error[k] -= sent[k];
    return failed;
}

static enum base_error mix(struct rounds_world *world, struct base_reason *why)
{
    float **state = world->state, *outer = outer_of(world), *mean = state[2 * world->n + 1];
    struct rounds_spread spread;
    float rate = (float)world->config->average.outer_rate;
    enum base_error error = rounds_each(world, send);
    if (error == BASE_EFORMAT)
        return base_fail(why, error,
                         "sparseloco diverged: a model is no longer finite; use a smaller train.rate");
    if (!error)
        error = rounds_mean(world, state + world->n, mean, &spread);
    if (error)
        return error;
    rounds_wire_all(world);
    for (size_t k = 0; k < world->d; k++)
        outer[k] -= rate * mean[k];
    return rounds_take(world, outer);
}

const struct rounds_method rounds_sparseloco = {
    .name = "sparseloco", .has_all = true, .prepare = prepare, .mix = mix, .drop = rounds_drop_vectors};
