// After NoLoCo (Kolehmainen et al. 2025): as DiLoCo, but every node has its own slow weights s and momentum
// v; it averages s and the change made by its local steps with one other node. With mu =
// average.outer_nesterov, delta_i = s_i - x_i and the means over the pair (a node without partner is a pair
// by itself):
//     v_i = mu v_i - rate mean(delta) - gamma (s_i - mean(s)),   s_i += v_i,   x_i = s_i
// gamma is the mean of mu and sqrt(2 + mu^2).
#include "lab/methods/engine.h"

#include <math.h>
#include <string.h>

#define MOMENTUM 0.5f // DiLoCo's 0.9 makes pairs diverge

// The state: [n] slow weights, then [n] momenta.
static enum base_error prepare(struct rounds_world *world, struct base_reason *why)
{
    float **slow = world->state = rounds_vectors(2 * world->n, world->d);
    if (!slow)
        return base_fail(why, BASE_ENOMEM, "no memory for slow weights and momenta");
    for (size_t i = 0; i < world->n; i++)
        memcpy(slow[i], world->x[i], world->d * sizeof **slow);
    return BASE_OK;
}

// The lower node computes both.
static enum base_error meet(struct rounds_world *world, size_t node)
{
    float **slow = world->state, **momentum = slow + world->n;
    size_t partner = world->graph.partner[node];
    bool alone = partner == TOPOLOGY_NOBODY;
    size_t other = alone ? node : partner;
    if (other < node)
        return BASE_OK;
    float rate = (float)world->config->average.outer_rate, mu = rounds_momentum(world, MOMENTUM),
          gamma = (mu + sqrtf(2 + mu * mu)) / 2;
    for (size_t k = 0; k < world->d; k++) {
        float mean = (slow[node][k] + slow[other][k]) / 2;
        float delta = mean - (world->x[node][k] + world->x[other][k]) / 2;
        for (size_t end = 0; end < (alone ? 1 : 2); end++) {
            size_t i = end ? other : node;
            float *s = &slow[i][k], *v = &momentum[i][k];
            *v = mu * *v - rate * delta - gamma * (*s - mean);
            *s += *v;
            world->x[i][k] = *s;
        }
    }
    return BASE_OK;
}

// The slow weights and the change of the local steps are both sent.
static enum base_error mix(struct rounds_world *world, struct base_reason *why)
{
    (void)why;
    rounds_wire_meetings(world, 2 * world->d * sizeof(float));
    return rounds_each(world, meet);
}

const struct rounds_method rounds_noloco = {
    .name = "noloco", .meets = true, .prepare = prepare, .mix = mix, .drop = rounds_drop_vectors};
