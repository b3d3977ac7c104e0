#include "lab/compute/shard_trainers.h"

#include "node/learn/data.h"
#include "node/setup.h"

#include <stdlib.h>

struct student {
    struct train_dataset shard;
    struct train_dataset *shared; // in its place: with those of nodes that are gone; NULL: none
    struct train_model *model;
    struct train_trainer *trainer;
};

struct lab_students {
    struct node_config config;       // the experiment's view: borrowed
    const struct train_dataset *all; // borrowed
    const struct kernels *kernels;
    size_t count;
    float *start; // [parameters]
    struct student *list;
};

static void drop_shared(struct train_dataset *shared)
{
    if (shared)
        train_dataset_destroy(shared);
    free(shared);
}

static enum base_error make_trainer(const struct lab_students *students, size_t node,
                                    struct train_trainer **trainer, struct base_reason *why)
{
    const struct student *student = &students->list[node];
    char name[LAB_NODE_NAME_BYTES];
    return node_setup_trainer(&students->config, lab_node_name(node, name), student->model, &student->shard,
                              students->start, trainer, why);
}

static enum base_error make_student(struct lab_students *students, const struct train_dataset *all,
                                    const uint32_t *owner, size_t node, struct base_reason *why)
{
    struct student *student = &students->list[node];
    enum base_error error = node_data_take(all, owner, node, &student->shard, why);
    if (!error)
        error = node_setup_model(&students->config, &student->shard, students->kernels, &student->model, why);
    if (!error)
        error = make_trainer(students, node, &student->trainer, why);
    return error ? base_fail_context(why, error, "node %zu", node) : BASE_OK;
}

static enum base_error make_all(struct lab_students *students, const struct train_dataset *all,
                                struct base_reason *why)
{
    uint32_t *owner = malloc((all->examples + 1) * sizeof *owner);
    if (!owner)
        return base_fail(why, BASE_ENOMEM, "no memory for the partition of %zu examples", all->examples);
    enum base_error error = node_data_owners(&students->config, all, NULL, owner, why);
    for (size_t i = 0; i < students->count && !error; i++)
        error = make_student(students, all, owner, i, why);
    free(owner);
    return error;
}

enum base_error lab_students_create(const struct lab_experiment *experiment,
                                    const struct lab_workbench *bench, struct lab_students **students,
                                    struct base_reason *why)
{
    struct lab_students *fresh = calloc(1, sizeof *fresh);
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
        lab_students_destroy(fresh);
        return error;
    }
    *students = fresh;
    return BASE_OK;
}

void lab_students_destroy(struct lab_students *students)
{
    if (!students)
        return;
    for (size_t i = 0; students->list && i < students->count; i++) {
        struct student *student = &students->list[i];
        if (student->trainer)
            train_trainer_destroy(student->trainer);
        if (student->model)
            train_model_destroy(student->model);
        train_dataset_destroy(&student->shard);
        drop_shared(student->shared);
    }
    free(students->list);
    free(students->start);
    free(students);
}

size_t lab_students_count(const struct lab_students *students)
{
    return students->count;
}

const float *lab_students_start(const struct lab_students *students)
{
    return students->start;
}

struct train_trainer *lab_student_trainer(struct lab_students *students, size_t node)
{
    return students->list[node].trainer;
}

struct train_model *lab_student_model(struct lab_students *students, size_t node)
{
    return students->list[node].model;
}

// What the node trains on while only these shards live.
static enum base_error cut(const struct lab_students *students, size_t node, const bool *living,
                           struct train_dataset *data, struct base_reason *why)
{
    uint32_t *owner = malloc((students->all->examples + 1) * sizeof *owner);
    if (!owner)
        return base_fail(why, BASE_ENOMEM, "no memory for the partition of %zu examples",
                         students->all->examples);
    enum base_error error = node_data_owners(&students->config, students->all, living, owner, why);
    if (!error)
        error = node_data_take(students->all, owner, node, data, why);
    free(owner);
    return error;
}

enum base_error lab_student_share(struct lab_students *students, size_t node, const bool *living,
                                  struct base_reason *why)
{
    struct student *student = &students->list[node];
    struct train_dataset *shared = NULL;
    enum base_error error = BASE_OK;
    size_t count = 0;
    for (size_t i = 0; i < students->count; i++)
        count += living[i];
    if (count < students->count) {
        shared = calloc(1, sizeof *shared);
        error = shared ? cut(students, node, living, shared, why)
                       : base_fail(why, BASE_ENOMEM, "no memory for another node's examples");
    }
    const struct train_dataset *next = shared ? shared : &student->shard;
    if (!error)
        error = train_trainer_replace(student->trainer, next,
                                      node_data_weight(&students->config, next, count), why);
    drop_shared(error ? shared : student->shared);
    if (!error)
        student->shared = shared;
    return error;
}

enum base_error lab_student_restart(struct lab_students *students, size_t node, struct base_reason *why)
{
    struct train_trainer *fresh = NULL;
    enum base_error error = make_trainer(students, node, &fresh, why);
    if (error)
        return error;
    train_trainer_destroy(students->list[node].trainer);
    students->list[node].trainer = fresh;
    drop_shared(students->list[node].shared);
    students->list[node].shared = NULL;
    return BASE_OK;
}
