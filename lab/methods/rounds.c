#include "lab/methods/engine.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NETWORK_SALT 0x6e6574ull
#define VECTOR_SALT  0x766563ull

static enum base_error no_memory(struct base_reason *why, size_t n)
{
    return base_fail(why, BASE_ENOMEM, "no memory for %zu nodes", n);
}

static enum base_error draw_vector(struct rounds_world *world, size_t node)
{
    struct base_rng rng;
    base_rng_seed_stream(&rng, world->config->train.seed ^ VECTOR_SALT, node);
    for (size_t k = 0; k < world->d; k++)
        world->x[node][k] = (float)base_rng_normal(&rng);
    return BASE_OK;
}

// With sim.vector: own models, and the CPU's kernels.
static enum base_error make_vectors(struct rounds_world *world, struct base_reason *why)
{
    world->d = world->options->experiment->sim.vector;
    enum base_error error = kernels_open("cpu", 1, &world->kernels, why);
    if (error)
        return error;
    world->x = rounds_vectors(world->n, world->d);
    world->zero = calloc(world->d, sizeof *world->zero);
    if (!world->x || !world->zero)
        return no_memory(why, world->n);
    world->start = world->zero;
    return rounds_each(world, draw_vector);
}

static enum base_error borrow_models(struct rounds_world *world, struct base_reason *why)
{
    const struct lab_rounds_options *options = world->options;
    world->d = options->bench->parameters;
    world->kernels = options->bench->kernels->host;
    world->start = lab_shard_trainers_start(options->shard_trainers);
    world->x = calloc(world->n, sizeof *world->x);
    if (!world->x)
        return no_memory(why, world->n);
    for (size_t i = 0; i < world->n; i++) {
        struct train_trainer *trainer = lab_shard_trainer_trainer(options->shard_trainers, i);
        train_trainer_fetch(trainer);
        world->x[i] = train_trainer_model(trainer);
    }
    return BASE_OK;
}

static enum base_error make_world(const struct lab_rounds_options *options, struct rounds_world *world,
                                  struct base_reason *why)
{
    const struct lab_experiment *e = options->experiment;
    *world = (struct rounds_world){.options = options, .method = rounds_method_of(e)};
    world->n = world->living = e->experiment.nodes;
    lab_experiment_view(e, &world->view);
    world->config = &world->view;
    world->gone = calloc(world->n, sizeof *world->gone);
    world->scale = calloc(world->n, sizeof *world->scale);
    world->node = calloc(world->n, sizeof *world->node);
    world->packet = calloc(world->n, sizeof *world->packet);
    if (!world->gone || !world->scale || !world->node || !world->packet)
        return no_memory(why, world->n);
    for (size_t i = 0; i < world->n; i++)
        world->node[i].row =
            (struct lab_row){.time = NAN, .loss = NAN, .accuracy = NAN, .test_loss = NAN, .consensus = NAN};
    enum base_error error = rounds_graph_create(e, &world->graph, why);
    if (!error && world->method->has_graph && !world->graph.edges.peers)
        error = lab_experiment_at(
            e, "topology.kind", why,
            base_fail(why, BASE_ELIMIT, "%zu nodes have too many edges in this graph", world->n));
    if (!error)
        error = lab_links_of(e, &world->links, why);
    if (!error)
        error =
            lab_network_create(&world->links, world->config->train.seed ^ NETWORK_SALT, &world->network, why);
    if (!error)
        error = lab_step_times_of(e, &world->step_times, why);
    if (!error)
        error = options->shard_trainers ? borrow_models(world, why) : make_vectors(world, why);
    if (!error && world->method->prepare)
        error = world->method->prepare(world, why);
    world->begin_ns = world->end_ns;
    return error;
}

static void drop_world(struct rounds_world *world)
{
    if (world->method->drop)
        world->method->drop(world);
    if (world->options->shard_trainers)
        free(world->x);
    else
        rounds_vectors_free(world->x);
    free(world->zero);
    free(world->gone);
    free(world->scale);
    free(world->node);
    free(world->packet);
    rounds_graph_drop(&world->graph);
    lab_network_destroy(world->network);
    lab_links_free(&world->links);
    lab_step_times_free(&world->step_times);
}

// Deaths in a round become known at its end.
static enum base_error bury(struct rounds_world *world, struct base_reason *why)
{
    const struct lab_schedule *schedule = &world->options->experiment->schedule;
    struct rounds_edges before;
    bool changed = false;
    for (size_t i = 0; i < schedule->count; i++) {
        const struct lab_event *event = &schedule->items[i];
        const struct lab_moment moment = {world->end_ns - world->begin_ns, world->round};
        if (!lab_event_due(event, &moment, false) || world->gone[event->node] || world->living == 1)
            continue;
        world->node[event->node].gone_ns = moment.since_ns;
        world->gone[event->node] = world->node[event->node].gone = changed = true;
        world->living--;
    }
    if (!changed)
        return BASE_OK;
    enum base_error error = rounds_graph_rewire(&world->graph, world->gone, &before, why);
    if (error)
        return error;
    if (world->method->rewire)
        error = world->method->rewire(world, &before, why);
    rounds_edges_free(&before);
    return error;
}

static uint64_t steps_of(const struct rounds_world *world, size_t node)
{
    uint64_t most = world->config->average.local_steps,
             left = world->config->train.steps - world->node[node].row.step;
    return left < most ? left : most;
}

static enum base_error take_steps(struct rounds_world *world, size_t node)
{
    struct lab_row *own = &world->node[node].row;
    uint64_t steps = steps_of(world, node);
    own->round++;
    own->step += steps;
    own->own_steps += steps;
    world->scale[node] = 1;
    if (!world->options->shard_trainers)
        return BASE_OK;
    struct train_trainer *trainer = lab_shard_trainer_trainer(world->options->shard_trainers, node);
    bool drift = world->method == &rounds_edge_ref && world->config->average.drift_correction;
    double loss_sum = 0, rate_sum = 0, examples = 0;
    train_trainer_hold_back(trainer);
    train_trainer_round_begin(trainer);
    for (uint64_t i = 0; i < steps; i++) {
        struct kernels_loss loss;
        size_t rows = 0;
        rate_sum += train_trainer_rate(trainer);
        train_trainer_step(trainer, drift, &loss, &rows);
        loss_sum += loss.loss_sum;
        examples += (double)rows;
    }
    (void)train_trainer_add_back(trainer);
    train_trainer_fetch(trainer);
    own->own_examples += (uint64_t)examples;
    own->loss = examples > 0 ? loss_sum / examples : NAN;
    world->scale[node] = (float)rate_sum;
    return BASE_OK;
}

static enum base_error hand_back(struct rounds_world *world, size_t node)
{
    struct train_trainer *trainer = lab_shard_trainer_trainer(world->options->shard_trainers, node);
    train_trainer_store(trainer);
    train_trainer_settle(trainer);
    return BASE_OK;
}

// Advances time until the slowest node is at its boundary.
static void pass_time(struct rounds_world *world)
{
    uint64_t slowest_ns = 0;
    for (size_t i = 0; i < world->n; i++) {
        uint64_t took_ns =
            world->gone[i] ? 0
                           : lab_step_times_round_ns(&world->step_times, i, world->round, steps_of(world, i));
        slowest_ns = took_ns > slowest_ns ? took_ns : slowest_ns;
    }
    world->ready_ns = world->end_ns + slowest_ns;
    world->end_ns = world->ready_ns;
}

static enum base_error one_round(struct rounds_world *world, struct base_reason *why)
{
    enum base_error error = bury(world, why);
    if (error)
        return error;
    world->round++;
    pass_time(world);
    error = rounds_each(world, take_steps);
    if (world->method->meets)
        rounds_graph_list(&world->graph, world->round);
    if (error)
        return base_fail(why, error, "round %llu", (unsigned long long)world->round);
    error = world->method->mix(world, why);
    if (error)
        return base_fail_context(why, error, "round %llu", (unsigned long long)world->round);
    return world->options->shard_trainers ? rounds_each(world, hand_back) : BASE_OK;
}

static uint64_t rounds_of(const struct rounds_world *world)
{
    uint64_t steps = world->config->average.local_steps;
    return (world->config->train.steps + steps - 1) / steps;
}

static enum base_error record(struct rounds_world *world, struct lab_rounds_result *result,
                              struct base_reason *why)
{
    enum base_error error = rounds_observe(world, &result->last, why);
    if (!error && world->options->recorder)
        error = lab_recorder_add(world->options->recorder, &result->last, why);
    return error;
}

static enum base_error run(struct rounds_world *world, struct lab_rounds_result *result,
                           struct base_reason *why)
{
    const struct lab_rounds_options *options = world->options;
    uint64_t rounds = rounds_of(world), every = world->config->train.eval_rounds;
    enum base_error error = record(world, result, why);
    while (!error && world->round < rounds && !result->interrupted) {
        error = one_round(world, why);
        bool due = world->round == rounds || (every && world->round % every == 0);
        if (!error && due)
            error = record(world, result, why);
        if (!error && options->progress)
            result->interrupted = !options->progress(options->context, world->round, rounds, &result->last);
        if (!error && result->interrupted && !due)
            error = record(world, result, why);
    }
    return error;
}

// Lists the pairs that may meet before any node has died.
static enum base_error list_edges(const struct rounds_world *world, struct lab_rounds_result *result)
{
    const struct rounds_edges *edges = &world->graph.edges;
    bool ring = world->method->has_ring, all = world->method->has_all,
         peers = world->method->has_graph || world->method->meets;
    size_t most = all                     ? world->n * (world->n - 1) / 2
                  : ring                  ? world->n
                  : peers && edges->peers ? edges->first[world->n] / 2
                                          : 0;
    result->edges = malloc((2 * most + 1) * sizeof *result->edges);
    if (!result->edges)
        return BASE_ENOMEM;
    for (size_t i = 0; i < world->n && most; i++) {
        size_t degree = all ? world->n - 1 - i : ring ? 1 : rounds_edges_degree(edges, i);
        for (size_t k = 0; k < degree; k++) {
            size_t peer = all ? i + 1 + k : ring ? (i + 1) % world->n : edges->peers[edges->first[i] + k];
            if (!ring && peer < i)
                continue;
            result->edges[2 * result->n_edges] = i < peer ? i : peer;
            result->edges[2 * result->n_edges++ + 1] = i < peer ? peer : i;
        }
    }
    if (ring && world->n == 2)
        result->n_edges = 1;
    return BASE_OK;
}

static enum base_error take_models(const struct rounds_world *world, struct lab_rounds_result *result)
{
    result->nodes = world->n;
    result->parameters = world->d;
    result->models = calloc(world->n, sizeof *result->models);
    for (size_t i = 0; result->models && i < world->n; i++) {
        if (world->gone[i])
            continue;
        result->models[i] = malloc(world->d * sizeof **result->models);
        if (!result->models[i])
            return BASE_ENOMEM;
        memcpy(result->models[i], world->x[i], world->d * sizeof **result->models);
    }
    return result->models ? BASE_OK : BASE_ENOMEM;
}

enum base_error lab_rounds_run(const struct lab_rounds_options *options, struct lab_rounds_result *result,
                               struct base_reason *why)
{
    struct rounds_world world;
    struct lab_rounds_result r = {0};
    enum base_error error = make_world(options, &world, why);
    if (!error && list_edges(&world, &r))
        error = no_memory(why, world.n);
    if (!error)
        error = run(&world, &r, why);
    if (!error && take_models(&world, &r))
        error = no_memory(why, world.n);
    if (!error) {
        r.rounds = world.round;
        r.seconds = r.last.time;
        r.node = world.node;
        world.node = NULL;
    }
    drop_world(&world);
    if (error)
        lab_rounds_result_free(&r);
    *result = r;
    return error;
}

void lab_rounds_result_free(struct lab_rounds_result *result)
{
    for (size_t i = 0; result->models && i < result->nodes; i++)
        free(result->models[i]);
    free(result->models);
    free(result->edges);
    free(result->node);
    *result = (struct lab_rounds_result){0};
}
