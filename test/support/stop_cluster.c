#include "test/support/stop_cluster.h"

#include "base/hash.h"
#include "test/support/cpu_kernels.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EXAMPLES = 30, VECTORS_BYTES = STOP_PARAMETERS * sizeof(float) };

static void make_data(struct train_dataset *data, size_t host, size_t nodes)
{
    struct base_rng rng;

    base_rng_seed(&rng, 70 + host);
    *data = (struct train_dataset){
        .examples = EXAMPLES, .features = STOP_FEATURES, .classes = STOP_CLASSES, .whole = EXAMPLES * nodes};
    data->x = sim_must(aligned_alloc(64, 1024));
    data->labels = sim_must(calloc(EXAMPLES, sizeof *data->labels));
    _Static_assert(EXAMPLES * STOP_FEATURES * sizeof *data->x <= 1024, "the examples fit");
    for (size_t i = 0; i < EXAMPLES; i++) {
        data->labels[i] = (uint32_t)((i + host) % STOP_CLASSES);
        for (size_t j = 0; j < STOP_FEATURES; j++)
            data->x[i * STOP_FEATURES + j] =
                (float)base_rng_normal(&rng) + (j % STOP_CLASSES == data->labels[i] ? 1.5f : 0);
    }
}

// -- the learner: the built-in trainer, with an account of what it does to its model

static struct stop_trainer *trainer_of(void *owner, size_t host)
{
    return &((struct stop_cluster *)owner)->trainer[host];
}

static float *model_of(const struct stop_trainer *trainer)
{
    return train_trainer_model(trainer->trainee.trainer);
}

static void note(struct stop_trainer *trainer)
{
    const float *model = model_of(trainer);

    for (size_t j = 0; j < STOP_PARAMETERS; j++)
        trainer->unpublished[j] += (double)model[j] - (double)trainer->before[j];
}

static void give(struct stop_cluster *cluster, struct stop_trainer *trainer)
{
    for (size_t j = 0; j < STOP_PARAMETERS; j++)
        cluster->given[j] += trainer->unpublished[j];
    memset(trainer->unpublished, 0, sizeof trainer->unpublished);
}

static void begin(void *owner, size_t host, struct gossip_learner_vectors *vectors)
{
    struct stop_cluster *cluster = owner;
    struct stop_trainer *trainer = trainer_of(owner, host);
    struct base_reason why;

    if (trainer->trainee.trainer)
        train_trainer_destroy(trainer->trainee.trainer);
    BASE_ASSERT(!train_trainer_create(&cluster->train, trainer->model, &trainer->data, cluster->start,
                                      &trainer->trainee.trainer, &why));
    memset(trainer->outer, 0, sizeof trainer->outer);
    memset(trainer->unpublished, 0, sizeof trainer->unpublished);
    memcpy(trainer->round_start, cluster->start, sizeof trainer->round_start);
    node_built_in_begin(&trainer->trainee, vectors);
}

static uint64_t steps(void *owner, size_t host, uint64_t count, double pace)
{
    struct stop_cluster *cluster = owner;
    struct stop_trainer *trainer = trainer_of(owner, host);

    memcpy(trainer->before, model_of(trainer), VECTORS_BYTES);
    node_built_in_steps(&trainer->trainee, count, pace);
    return cluster->world.node[host]->train.rounds_done < cluster->slow_rounds ? 50 * SIM_MS
                                                                               : cluster->round_ns[host];
}

static void boundary(void *owner, size_t host, struct gossip_learner_steps *did)
{
    struct stop_trainer *trainer = trainer_of(owner, host);

    node_built_in_boundary(&trainer->trainee, did);
    note(trainer);
    give(owner, trainer);
}

static void adopt(void *owner, size_t host, enum gossip_learner_change change, uint64_t step)
{
    struct stop_trainer *trainer = trainer_of(owner, host);

    give(owner, trainer); // a boundary without steps has published it
    memcpy(trainer->before, model_of(trainer), VECTORS_BYTES);
    node_built_in_adopt(&trainer->trainee, change, step);
    note(trainer);
}

static size_t freeze(void *owner, size_t host, uint8_t **state)
{
    return node_built_in_freeze(&trainer_of(owner, host)->trainee, state);
}

static void thaw(void *owner, size_t host, const uint8_t *state, size_t bytes)
{
    node_built_in_thaw(&trainer_of(owner, host)->trainee, state, bytes);
}

// Model, optimiser, place in the data, outer momentum, corrections: their sum, since the part that acts is
// less while a link is gone, and the next process has the links again.
static void done(void *owner, size_t host, const struct gossip_rounds *rounds)
{
    const struct gossip_exchange *exchange = ((struct stop_cluster *)owner)->world.node[host]->train.exchange;
    struct stop_trainer *trainer = trainer_of(owner, host);
    const float *correction = gossip_exchange_correction(exchange);
    uint8_t *state;

    if (rounds->round > STOP_ROUNDS)
        return;
    const size_t bytes = node_built_in_freeze(&trainer->trainee, &state);
    uint64_t hash = base_hash_bytes(0, state, bytes);
    free(state);
    hash = base_hash_bytes(hash, model_of(trainer), VECTORS_BYTES);
    hash = correction ? base_hash_bytes(hash, correction, VECTORS_BYTES) : hash;
    trainer->hash[rounds->round] = base_hash_bytes(hash, trainer->outer, VECTORS_BYTES);
}

static void finish(void *owner, size_t host, const struct gossip_rounds *rounds)
{
    struct stop_trainer *trainer = trainer_of(owner, host);

    trainer->finished = rounds->step == STOP_LOCAL * STOP_ROUNDS;
    memcpy(trainer->last, model_of(trainer), sizeof trainer->last);
}

static void end(void *owner, size_t host)
{
    (void)owner, (void)host; // begin() replaces the trainer
}

// -- edges that begin again

static void exchanged(void *owner, struct sim_node *node)
{
    struct stop_cluster *cluster = owner;
    struct gossip_edge_info info;

    for (size_t i = 0; i < gossip_exchange_edges(node->train.exchange) && !cluster->resyncs; i++) {
        gossip_exchange_edge_info(node->train.exchange, i, &info);
        if (info.state != GOSSIP_EDGE_RESYNC && info.resyncs == 0)
            continue;
        cluster->resyncs++;
        cluster->resync_host = node->host;
        cluster->resync_ns = sim_world_now(&cluster->world);
    }
}

// -- a cluster

static void make_trainers(struct stop_cluster *cluster, size_t nodes, bool outer)
{
    struct base_reason why;
    const struct train_model_spec spec = {
        .kind = TRAIN_SOFTMAX, .inputs = STOP_FEATURES, .classes = STOP_CLASSES};

    for (size_t i = 0; i < nodes; i++) {
        struct stop_trainer *trainer = &cluster->trainer[i];
        make_data(&trainer->data, i, nodes);
        BASE_ASSERT(!train_model_create(&spec, cpu_kernels(), 8, &trainer->model, &why));
        trainer->trainee.config = &cluster->config;
        trainer->trainee.outer = outer ? trainer->outer : NULL;
        trainer->trainee.round_start = outer ? trainer->round_start : NULL;
        cluster->round_ns[i] = 2 * SIM_MS;
    }
}

void stop_cluster_create(struct stop_cluster *cluster, const struct sim_options *options,
                         const struct train_options *train, double outer_momentum)
{
    struct sim_options all = *options;

    BASE_ASSERT(options->nodes <= STOP_NODES);
    *cluster = (struct stop_cluster){.train = *train, .watch = {.owner = cluster, .exchanged = exchanged}};
    cluster->train.steps = STOP_LOCAL * STOP_ROUNDS;
    cluster->config.average.outer_momentum = outer_momentum;
    cluster->config.average.drift_correction = options->exchange.drift_correction;
    cluster->learner = (struct sim_learner){.learner = {.owner = cluster,
                                                        .parameters = STOP_PARAMETERS,
                                                        .begin = begin,
                                                        .steps = steps,
                                                        .boundary = boundary,
                                                        .adopt = adopt,
                                                        .freeze = freeze,
                                                        .thaw = thaw,
                                                        .end = end},
                                            .start = cluster->start,
                                            .done = done,
                                            .finish = finish};
    make_trainers(cluster, options->nodes, outer_momentum > 0);
    all.learner = &cluster->learner;
    all.watch = &cluster->watch;
    all.local_steps = STOP_LOCAL;
    all.steps = STOP_LOCAL * STOP_ROUNDS;
    all.exchange.kernels = cpu_kernels();
    sim_world_create(&cluster->world, &all);
}

void stop_cluster_destroy(struct stop_cluster *cluster)
{
    const size_t nodes = cluster->world.options.nodes;

    sim_world_destroy(&cluster->world);
    for (size_t i = 0; i < nodes; i++) {
        train_trainer_destroy(cluster->trainer[i].trainee.trainer);
        train_model_destroy(cluster->trainer[i].model);
        train_dataset_destroy(&cluster->trainer[i].data);
    }
}

void stop_cluster_start_all(struct stop_cluster *cluster)
{
    for (size_t i = 0; i < cluster->world.options.nodes; i++)
        sim_node_start(cluster->world.node[i]);
}

void stop_cluster_run(struct stop_cluster *cluster, uint64_t ns)
{
    BASE_ASSERT(sim_world_run(&cluster->world, sim_world_now(&cluster->world) + ns));
}

bool stop_cluster_runs(const struct stop_cluster *cluster)
{
    for (size_t i = 0; i < cluster->world.options.nodes; i++)
        if (cluster->world.node[i]->running)
            return true;
    return false;
}

bool stop_cluster_run_out(struct stop_cluster *cluster, uint64_t ns)
{
    const uint64_t until_ns = sim_world_now(&cluster->world) + ns;

    while (stop_cluster_runs(cluster) && sim_world_now(&cluster->world) < until_ns)
        stop_cluster_run(cluster, 10 * SIM_MS);
    return !stop_cluster_runs(cluster);
}

bool stop_cluster_trained(const struct stop_cluster *cluster, uint64_t rounds)
{
    for (size_t i = 0; i < cluster->world.options.nodes; i++)
        if (cluster->world.node[i]->train.rounds_done < rounds)
            return false;
    return true;
}

double stop_cluster_sum_error(const struct stop_cluster *cluster)
{
    const size_t nodes = cluster->world.options.nodes;
    double most = 0;

    for (size_t j = 0; j < STOP_PARAMETERS; j++) {
        double sum = 0;
        for (size_t i = 0; i < nodes; i++)
            sum += (double)gossip_exchange_model(cluster->world.node[i]->train.exchange)[j];
        const double error = sum - (double)nodes * (double)cluster->start[j] - cluster->given[j];
        most = fmax(most, fabs(error) / (double)nodes);
    }
    return most;
}

uint64_t stop_cluster_differs(const struct stop_cluster *a, const struct stop_cluster *b, size_t *host)
{
    for (uint64_t round = 1; round <= STOP_ROUNDS; round++)
        for (size_t i = 0; i < a->world.options.nodes; i++)
            if (a->trainer[i].hash[round] != b->trainer[i].hash[round]) {
                *host = i;
                return round;
            }
    return 0;
}
