// CHOCO-SGD (Koloskova, Stich, Jaggi 2019, algorithm 2) with Metropolis-Hastings weights w, C = top-k,
// quantised, as packets; every node holds a replica y of each neighbour, all holders the same:
//     q_i = C(x_i - y_i),   y_i += q_i,   x_i += gamma * sum over j of w_ij (y_j - y_i)
// Replicas begin at the model from which all nodes begin. gamma is average.step_size, or, where that is 0,
// half the moving average of |C(v)|^2 / |v|^2 over all nodes.
#include "lab/methods/engine.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY 0.9 // of the moving average
#define GAMMA  0.5 // times that average

struct state {
    float **replica;
    double ratio; // moving average of |C(v)|^2 / |v|^2; 0: none yet
    float gamma;
};

static enum base_error prepare(struct rounds_world *world, struct base_reason *why)
{
    struct state *state = world->state = calloc(1, sizeof *state);
    if (state)
        state->replica = rounds_vectors(world->n, world->d);
    if (!state || !state->replica)
        return base_fail(why, BASE_ENOMEM, "no memory for the replicas of %zu models", world->n);
    for (size_t i = 0; i < world->n; i++)
        memcpy(state->replica[i], world->start, world->d * sizeof **state->replica);
    return BASE_OK;
}

// The replica receives the values that a receiver decodes.
static enum base_error send(struct rounds_world *world, size_t node)
{
    return rounds_compress(world, node, world->x[node], ((struct state *)world->state)->replica[node]);
}

// One value for all nodes; otherwise the mean of the models would change.
static void tune(struct rounds_world *world)
{
    struct state *state = world->state;
    double kept = 0, whole = 0;
    state->gamma = (float)world->config->average.step_size;
    for (size_t i = 0; i < world->n; i++) {
        kept += world->gone[i] ? 0 : world->packet[i].kept;
        whole += world->gone[i] ? 0 : world->packet[i].whole;
    }
    double now = whole > 0 ? kept / whole : 1;
    state->ratio = state->ratio > 0 ? MEMORY * state->ratio + (1 - MEMORY) * now : now;
    if (state->gamma <= 0)
        state->gamma = (float)(GAMMA * state->ratio);
}

static enum base_error pull(struct rounds_world *world, size_t node)
{
    const struct state *state = world->state;
    const struct rounds_edges *edges = &world->graph.edges;
    const float *own = state->replica[node];
    float *x = world->x[node];
    for (size_t e = edges->first[node]; e < edges->first[node + 1]; e++) {
        const float *other = state->replica[edges->peers[e]];
        float w = state->gamma * (float)rounds_edges_metropolis(edges, node, edges->peers[e]);
        for (size_t k = 0; k < world->d; k++)
            x[k] += w * (other[k] - own[k]);
    }
    return BASE_OK;
}

static enum base_error mix(struct rounds_world *world, struct base_reason *why)
{
    enum base_error error = rounds_each(world, send);
    if (error == BASE_EFORMAT)
        return base_fail(
            why, error,
            "choco diverged: a model is no longer finite; use a smaller average.step_size, or 0 for "
            "automatic tuning");
    if (error)
        return error;
    tune(world);
    rounds_wire_neighbours(world, false);
    return rounds_each(world, pull);
}

// Each end of a new edge receives the replica of the other, in fp32.
static enum base_error rewire(struct rounds_world *world, const struct rounds_edges *before,
                              struct base_reason *why)
{
    (void)why;
    size_t wire_bytes = rounds_wire_bytes(world, world->d * sizeof(float));
    for (size_t i = 0; i < world->n; i++)
        for (size_t e = world->graph.edges.first[i]; e < world->graph.edges.first[i + 1]; e++)
            if (!rounds_edges_join(before, i, world->graph.edges.peers[e]))
                rounds_wire_send(world, i, world->graph.edges.peers[e], wire_bytes, world->end_ns);
    return BASE_OK;
}

static void drop(struct rounds_world *world)
{
    struct state *state = world->state;
    if (!state)
        return;
    rounds_vectors_free(state->replica);
    free(state);
}

const struct rounds_method rounds_choco = {
    .name = "choco", .has_graph = true, .prepare = prepare, .mix = mix, .rewire = rewire, .drop = drop};
