#include "lab/compute/shard_trainers.h"

#include "node/learn/data.h"
#include "node/setup.h"

#include <stdlib.h>

struct shard_trainer {
    struct train_dataset shard;
    struct train_dataset *shared; // replaces `shard`: with examples of dead nodes; NULL: none
    struct train_model *model;
    struct train_trainer *trainer;
    bool flips; // the labels of its examples
};

struct lab_shard_trainers {
    struct node_config config;       // the experiment's view: borrowed
    const struct train_dataset *all; // borrowed
    const struct kernels *kernels;
    size_t count;
    float *start; // [parameters]
    struct shard_trainer *list;
};

static void drop_shared(struct train_dataset *shared)
{
    if (shared)
        train_dataset_destroy(shared);
    free(shared);
}

static enum base_error make_trainer(const struct lab_shard_trainers *shard_trainers, size_t node,
                                    struct train_trainer **trainer, struct base_reason *why)
{
    const struct shard_trainer *shard_trainer = &shard_trainers->list[node];
    char name[LAB_NODE_NAME_BYTES];
    return node_setup_trainer(&shard_trainers->config, lab_node_name(node, name), shard_trainer->model,
                              &shard_trainer->shard, shard_trainers->start, trainer, why);
}

static enum base_error make_shard_trainer(struct lab_shard_trainers *shard_trainers,
                                          const struct train_dataset *all, const uint32_t *owner, size_t node,
                                          struct base_reason *why)
{
    struct shard_trainer *shard_trainer = &shard_trainers->list[node];
    enum base_error error = node_data_take(all, owner, node, &shard_trainer->shard, why);
    if (!error)
        error = node_setup_model(&shard_trainers->config, &shard_trainer->shard, shard_trainers->kernels,
                                 &shard_trainer->model, why);
    if (!error)
        error = make_trainer(shard_trainers, node, &shard_trainer->trainer, why);
    return error ? base_fail_context(why, error, "node %zu", node) : BASE_OK;
}

static enum base_error make_all(struct lab_shard_trainers *shard_trainers, const struct train_dataset *all,
                                struct base_reason *why)
{
    uint32_t *owner = malloc((all->examples + 1) * sizeof *owner);
    if (!owner)
        return base_fail(why, BASE_ENOMEM, "no memory for the partition of %zu examples", all->examples);
    enum base_error error = node_data_owners(&shard_trainers->config, all, NULL, owner, why);
    for (size_t i = 0; i < shard_trainers->count && !error; i++)
        error = make_shard_trainer(shard_trainers, all, owner, i, why);
    free(owner);
    return error;
}

enum base_error lab_shard_trainers_create(const struct lab_experiment *experiment,
                                          const struct lab_workbench *bench,
                                          struct lab_shard_trainers **shard_trainers, struct base_reason *why)
{
    struct lab_shard_trainers *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return base_fail(why, BASE_ENOMEM, "no memory for the nodes");
    fresh->config = bench->view;
    fresh->kernels = bench->kernels;
    fresh->all = &bench->train;
    fresh->count = experiment->experiment.nodes;
    fresh->list = calloc(fresh->count, sizeof *fresh->list);
    fresh->start = malloc(bench->parameters * sizeof *fresh->start);
    enum base_error error = fresh->list && fresh->start
                                ? BASE_OK
                                : base_fail(why, BASE_ENOMEM, "no memory for %zu nodes", fresh->count);
    if (!error)
        error = node_setup_start(&fresh->config, bench->model, fresh->start, why);
    if (!error)
        error = make_all(fresh, &bench->train, why);
    if (error) {
        lab_shard_trainers_destroy(fresh);
        return error;
    }
    *shard_trainers = fresh;
    return BASE_OK;
}

void lab_shard_trainers_destroy(struct lab_shard_trainers *shard_trainers)
{
    if (!shard_trainers)
        return;
    for (size_t i = 0; shard_trainers->list && i < shard_trainers->count; i++) {
        struct shard_trainer *shard_trainer = &shard_trainers->list[i];
        train_trainer_destroy(shard_trainer->trainer);
        train_model_destroy(shard_trainer->model);
        train_dataset_destroy(&shard_trainer->shard);
        drop_shared(shard_trainer->shared);
    }
    free(shard_trainers->list);
    free(shard_trainers->start);
    free(shard_trainers);
}

const float *lab_shard_trainers_start(const struct lab_shard_trainers *shard_trainers)
{
    return shard_trainers->start;
}

struct train_trainer *lab_shard_trainer_trainer(struct lab_shard_trainers *shard_trainers, size_t node)
{
    return shard_trainers->list[node].trainer;
}

struct train_model *lab_shard_trainer_model(struct lab_shard_trainers *shard_trainers, size_t node)
{
    return shard_trainers->list[node].model;
}

static void flip(struct train_dataset *data)
{
    for (size_t i = 0; i < data->examples; i++)
        data->labels[i] = (uint32_t)data->classes - 1 - data->labels[i];
}

void lab_shard_trainer_flip(struct lab_shard_trainers *shard_trainers, size_t node)
{
    shard_trainers->list[node].flips = true;
    flip(&shard_trainers->list[node].shard);
}

// Takes the examples that `node` trains on while only the shards in `living` are alive.
static enum base_error cut(const struct lab_shard_trainers *shard_trainers, size_t node, const bool *living,
                           struct train_dataset *data, struct base_reason *why)
{
    uint32_t *owner = malloc((shard_trainers->all->examples + 1) * sizeof *owner);
    if (!owner)
        return base_fail(why, BASE_ENOMEM, "no memory for the partition of %zu examples",
                         shard_trainers->all->examples);
    enum base_error error =
        node_data_owners(&shard_trainers->config, shard_trainers->all, living, owner, why);
    if (!error)
        error = node_data_take(shard_trainers->all, owner, node, data, why);
    if (!error && shard_trainers->list[node].flips)
        flip(data);
    free(owner);
    return error;
}

enum base_error lab_shard_trainer_share(struct lab_shard_trainers *shard_trainers, size_t node,
                                        const bool *living, struct base_reason *why)
{
    struct shard_trainer *shard_trainer = &shard_trainers->list[node];
    struct train_dataset *shared = NULL;
    enum base_error error = BASE_OK;
    size_t count = 0;
    for (size_t i = 0; i < shard_trainers->count; i++)
        count += living[i];
    if (count < shard_trainers->count) {
        shared = calloc(1, sizeof *shared);
        error = shared ? cut(shard_trainers, node, living, shared, why)
                       : base_fail(why, BASE_ENOMEM, "no memory for another node's examples");
    }
    const struct train_dataset *next = shared ? shared : &shard_trainer->shard;
    if (!error)
        error = train_trainer_replace(shard_trainer->trainer, next,
                                      node_data_weight(&shard_trainers->config, next, count), why);
    drop_shared(error ? shared : shard_trainer->shared);
    if (!error)
        shard_trainer->shared = shared;
    return error;
}

enum base_error lab_shard_trainer_restart(struct lab_shard_trainers *shard_trainers, size_t node,
                                          struct base_reason *why)
{
    struct train_trainer *fresh = NULL;
    enum base_error error = make_trainer(shard_trainers, node, &fresh, why);
    if (error)
        return error;
    train_trainer_destroy(shard_trainers->list[node].trainer);
    shard_trainers->list[node].trainer = fresh;
    drop_shared(shard_trainers->list[node].shared);
    shard_trainers->list[node].shared = NULL;
    return BASE_OK;
}
