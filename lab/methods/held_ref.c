// A trial: the pairwise exchange over references (gossip/exchange), without drift correction, where a node
// holds back a part of what it has not sent. x_i is the model after the exchange, y_i the start of training:
//     q_i = C(x_i - r),  x_i += (q_j - q_i)/2,  r += (q_i + q_j)/2,  e_i = h (x_i - r),  y_i = x_i - e_i
// and after the local steps x_i = y_i + e_i. Nothing is lost: every exchange keeps the sum of the x. h is
// average.step_size, or a half where that is 0; SparseLoCo holds back all of it.
#include "lab/methods/engine.h"

#include <stdlib.h>
#include <string.h>

#define HELD 0.5f

struct state {
    float **reference; // [n * n], of the pair (lower, higher), less the model from which all begin
    float **held;      // [n] e
    float **sent;      // [n] r + q of the round
};

static enum base_error prepare(struct rounds_world *world, struct base_reason *why)
{
    struct state *state = world->state = calloc(1, sizeof *state);
    if (state) {
        state->reference = rounds_vectors(world->n * world->n, world->d);
        state->held = rounds_vectors(world->n, world->d);
        state->sent = rounds_vectors(world->n, world->d);
    }
    if (!state || !state->reference || !state->held || !state->sent)
        return base_fail(why, BASE_ENOMEM, "no memory for the references of %zu nodes", world->n);
    return BASE_OK;
}

static float *reference_of(const struct rounds_world *world, size_t node, size_t partner)
{
    const struct state *state = world->state;
    return state->reference[node < partner ? node * world->n + partner : partner * world->n + node];
}

static enum base_error send(struct rounds_world *world, size_t node)
{
    const struct state *state = world->state;
    size_t partner = world->graph.partner[node];
    float *x = world->x[node], *held = state->held[node], *sent = state->sent[node];
    world->packet[node].bytes = 0;
    for (size_t k = 0; k < world->d; k++) {
        x[k] += held[k];
        held[k] = 0;
    }
    if (partner == TOPOLOGY_NOBODY)
        return BASE_OK;
    const float *reference = reference_of(world, node, partner);
    for (size_t k = 0; k < world->d; k++)
        sent[k] = world->start[k] + reference[k];
    return rounds_compress(world, node, x, sent);
}

// The lower node computes both.
static enum base_error meet(struct rounds_world *world, size_t node)
{
    const struct state *state = world->state;
    size_t partner = world->graph.partner[node];
    if (partner == TOPOLOGY_NOBODY || partner < node)
        return BASE_OK;
    float said = (float)world->config->average.step_size, part = said > 0 ? said : HELD;
    float *reference = reference_of(world, node, partner);
    for (size_t k = 0; k < world->d; k++) {
        float r = world->start[k] + reference[k], mine = state->sent[node][k] - r,
              theirs = state->sent[partner][k] - r;
        reference[k] += 0.5f * (mine + theirs);
        world->x[node][k] += 0.5f * (theirs - mine);
        world->x[partner][k] += 0.5f * (mine - theirs);
        for (size_t end = 0; end < 2; end++) {
            size_t i = end ? partner : node;
            state->held[i][k] = part * (world->x[i][k] - (world->start[k] + reference[k]));
            world->x[i][k] -= state->held[i][k];
        }
    }
    return BASE_OK;
}

static enum base_error mix(struct rounds_world *world, struct base_reason *why)
{
    enum base_error error = rounds_each(world, send);
    if (error == BASE_EFORMAT)
        return base_fail(why, error,
                         "held-ref diverged: a model is no longer finite; use a smaller train.rate");
    if (error)
        return error;
    rounds_wire_packets(world);
    return rounds_each(world, meet);
}

static void drop(struct rounds_world *world)
{
    struct state *state = world->state;
    if (!state)
        return;
    rounds_vectors_free(state->reference);
    rounds_vectors_free(state->held);
    rounds_vectors_free(state->sent);
    free(state);
}

const struct rounds_method rounds_held_ref = {
    .name = "held-ref", .meets = true, .prepare = prepare, .mix = mix, .drop = drop};
