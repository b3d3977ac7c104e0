// After NoLoCo (Kolehmainen et al. 2025): as DiLoCo, but every node has slow weights s and a momentum v of
// its own, and averages them, and what its local steps changed, with one other node. With mu =
// average.outer_nesterov, delta_i = s_i - x_i and the means over the pair (a node without partner is a pair
// by itself):
//     v_i = mu v_i - rate mean(delta) - gamma (s_i - mean(s)),   s_i += v_i,   x_i = s_i
// gamma lies in the middle between mu and sqrt(2 + mu^2).
#include "lab/methods/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOMENTUM 0.5f // DiLoCo's 0.9 makes pairs diverge

struct state {
    float **slow, **momentum;
};

static enum base_error prepare(struct rounds_world *world, struct base_reason *why)
{
    struct state *state = world->state = calloc(1, sizeof *state);
    if (state) {
        state->slow = rounds_vectors(world->n, world->d);
        state->momentum = rounds_vectors(world->n, world->d);
    }
    if (!state || !state->slow || !state->momentum)
        return base_fail(why, BASE_ENOMEM, "no memory for slow weights and momenta");
    for (size_t i = 0; i < world->n; i++)
        memcpy(state->slow[i], world->x[i], world->d * sizeof **state->slow);
    return BASE_OK;
}

// The lower of the two computes both.
static enum base_error meet(struct rounds_world *world, size_t node)
{
    const struct state *state = world->state;
    size_t partner = world->graph.partner[node];
    bool alone = partner == TOPOLOGY_NOBODY;
    size_t other = alone ? node : partner;
    if (other < node)
        return BASE_OK;
    float rate = (float)world->config->average.outer_rate, mu = rounds_momentum(world, MOMENTUM),
          gamma = (mu + sqrtf(2 + mu * mu)) / 2;
    for (size_t k = 0; k < world->d; k++) {
        float slow = (state->slow[node][k] + state->slow[other][k]) / 2;
        float delta = slow - (world->x[node][k] + world->x[other][k]) / 2;
        for (size_t end = 0; end < (alone ? 1 : 2); end++) {
            size_t i = end ? other : node;
            float *s = &state->slow[i][k], *v = &state->momentum[i][k];
            *v = mu * *v - rate * delta - gamma * (*s - slow);
            *s += *v;
            world->x[i][k] = *s;
        }
    }
    return BASE_OK;
}

// Both the slow weights and the change of the local steps travel.
static enum base_error mix(struct rounds_world *world, struct base_reason *why)
{
    (void)why;
    rounds_wire_meetings(world, 2 * world->d * sizeof(float));
    return rounds_each(world, meet);
}

static void drop(struct rounds_world *world)
{
    struct state *state = world->state;
    if (!state)
        return;
    rounds_vectors_free(state->slow);
    rounds_vectors_free(state->momentum);
    free(state);
}

const struct rounds_method rounds_noloco = {
    .name = "noloco", .meets = true, .prepare = prepare, .mix = mix, .drop = drop};
