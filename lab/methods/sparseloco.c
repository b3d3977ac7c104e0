// SparseLoCo (Sarfi et al. 2025, algorithm 1): as DiLoCo, all begin a round from the same model x, but what
// the local steps of a node changed travels compressed, C = top-k, quantised, with an error feedback e of
// each node; the outer step has no momentum:
//     e_i = beta e_i + (x - x_i),   q_i = C(e_i),   e_i -= q_i,   x -= rate * mean of q_i
// beta is average.outer_nesterov, or where that is 0 the paper's; rate is average.outer_rate.
#include "lab/methods/engine.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY 0.95f // of the paper

struct state {
    float **outer;         // [1]
    float **mean;          // [1]
    float **error, **sent; // [n]: e, and q of this round
    size_t *packet_bytes;  // [n] of this round
};

static enum base_error prepare(struct rounds_world *world, struct base_reason *why)
{
    struct state *state = world->state = calloc(1, sizeof *state);
    if (state) {
        state->outer = rounds_vectors(1, world->d);
        state->mean = rounds_vectors(1, world->d);
        state->error = rounds_vectors(world->n, world->d);
        state->sent = rounds_vectors(world->n, world->d);
        state->packet_bytes = calloc(world->n, sizeof *state->packet_bytes);
    }
    if (!state || !state->outer || !state->mean || !state->error || !state->sent || !state->packet_bytes)
        return base_fail(why, BASE_ENOMEM, "no memory for the error feedback of %zu nodes", world->n);
    memcpy(*state->outer, world->start, world->d * sizeof **state->outer);
    return BASE_OK;
}

static enum base_error send(struct rounds_world *world, size_t node)
{
    struct state *state = world->state;
    struct rounds_packet packet;
    float beta = rounds_momentum(world, MEMORY), *error = state->error[node], *sent = state->sent[node];
    for (size_t k = 0; k < world->d; k++)
        error[k] = beta * error[k] + ((*state->outer)[k] - world->x[node][k]);
    memset(sent, 0, world->d * sizeof *sent);
    enum base_error failed = rounds_compress(world, node, error, sent, &packet);
    if (failed)
        return failed;
    for (size_t k = 0; k < world->d; k++)
        error[k] -= sent[k];
    state->packet_bytes[node] = packet.bytes;
    return BASE_OK;
}

static enum base_error take(struct rounds_world *world, size_t node)
{
    memcpy(world->x[node], *((struct state *)world->state)->outer, world->d * sizeof(float));
    return BASE_OK;
}

static enum base_error mix(struct rounds_world *world, struct base_reason *why)
{
    struct state *state = world->state;
    struct rounds_spread spread;
    float rate = (float)world->config->average.outer_rate;
    enum base_error error = rounds_each(world, send);
    if (error == BASE_EFORMAT)
        return base_fail(why, error,
                         "sparseloco diverged: a model is not finite any more; take a smaller train.rate");
    if (!error)
        error = rounds_mean(world, state->sent, *state->mean, &spread);
    if (error)
        return error;
    rounds_wire_all(world, state->packet_bytes);
    for (size_t k = 0; k < world->d; k++)
        (*state->outer)[k] -= rate * (*state->mean)[k];
    return rounds_each(world, take);
}

static void drop(struct rounds_world *world)
{
    struct state *state = world->state;
    if (!state)
        return;
    rounds_vectors_free(state->outer);
    rounds_vectors_free(state->mean);
    rounds_vectors_free(state->error);
    rounds_vectors_free(state->sent);
    free(state->packet_bytes);
    free(state);
}

const struct rounds_method rounds_sparseloco = {
    .name = "sparseloco", .has_all = true, .prepare = prepare, .mix = mix, .drop = drop};
