// A shard trainer takes the same steps as its twin among the processes, bit for bit: the same shard, the same
// batches, the same model.
#include "lab/compute/shard_trainers.h"

#include "node/learn/data.h"
#include "node/setup.h"
#include "test/support/lab_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NODES 4u
#define STEPS 7u

static const char text[] = "experiment:\n  nodes: 4\n  seed: 5\ndata:\n  train_count: 400\n  test_count: 50\n"
                           "  partition: dirichlet\n  alpha: 0.3\ntrain:\n  steps: 20\n  batch: 8\n"
                           "  optimizer: sgd\n  rate: 0.05\n  momentum: 0.9\n"
                           "average:\n  local_steps: 2\nmodel:\n  kind: softmax\n";

struct world {
    struct lab_experiment experiment;
    struct lab_workbench bench;
    struct lab_shard_trainers *shard_trainers;
};

static int make_world(void **state)
{
    static struct world w;
    struct base_reason why;
    enum base_error error = lab_world_load(text, &w.experiment, &why);
    if (!error)
        error = lab_workbench_load(&w.experiment, &w.bench, &why);
    if (!error)
        error = lab_workbench_open(&w.bench, &why);
    if (!error)
        error = lab_shard_trainers_create(&w.experiment, &w.bench, &w.shard_trainers, &why);
    if (error)
        fprintf(stderr, "%s\n", why.text);
    *state = &w;
    return error ? -1 : 0;
}

static int drop_world(void **state)
{
    struct world *w = *state;
    lab_shard_trainers_destroy(w->shard_trainers);
    lab_workbench_close(&w->bench);
    lab_experiment_free(&w->experiment);
    return 0;
}

static void take_steps(struct train_trainer *trainer, struct kernels_loss *loss)
{
    size_t rows;
    for (unsigned i = 0; i < STEPS; i++)
        train_trainer_step(trainer, false, loss, &rows);
    train_trainer_fetch(trainer);
}

// Set up as p2pml-node does it.
static void a_shard_trainer_matches_its_twin(void **state)
{
    struct world *w = *state;
    struct base_reason why;
    size_t bytes = w->bench.parameters * sizeof(float);
    float *start = malloc(bytes);
    assert_non_null(start);
    for (unsigned i = 0; i < NODES; i++) {
        char name[16];
        struct node_config config;
        struct train_dataset shard = {0};
        struct train_model *model = NULL;
        struct train_trainer *trainer = NULL;
        struct kernels_loss loss, twin;
        snprintf(name, sizeof name, "node-%02u", i);
        lab_experiment_view(&w->experiment, &config);
        config.data.shard = i;
        assert_int_equal(node_data_load(&config, i, &shard, NULL, &why), BASE_OK);
        assert_int_equal(node_setup_model(&config, &shard, w->bench.kernels, &model, &why), BASE_OK);
        train_model_initialise(model, config.model.seed, start);
        assert_memory_equal(start, lab_shard_trainers_start(w->shard_trainers), bytes);
        assert_int_equal(node_setup_trainer(&config, name, model, &shard, start, &trainer, &why), BASE_OK);
        take_steps(trainer, &twin);
        take_steps(lab_shard_trainer_trainer(w->shard_trainers, i), &loss);
        assert_memory_equal(train_trainer_model(trainer),
                            train_trainer_model(lab_shard_trainer_trainer(w->shard_trainers, i)), bytes);
        assert_memory_equal(&loss, &twin, sizeof loss);
        train_trainer_destroy(trainer);
        train_model_destroy(model);
        train_dataset_destroy(&shard);
    }
    free(start);
}

static void a_restart_begins_again(void **state)
{
    struct world *w = *state;
    struct base_reason why;
    struct kernels_loss loss;
    size_t bytes = w->bench.parameters * sizeof(float);
    float *once = malloc(bytes);
    assert_non_null(once);
    assert_int_equal(lab_shard_trainer_restart(w->shard_trainers, 1, &why), BASE_OK);
    assert_int_equal(train_trainer_steps_done(lab_shard_trainer_trainer(w->shard_trainers, 1)), 0);
    assert_memory_equal(train_trainer_model(lab_shard_trainer_trainer(w->shard_trainers, 1)),
                        lab_shard_trainers_start(w->shard_trainers), bytes);
    take_steps(lab_shard_trainer_trainer(w->shard_trainers, 1), &loss);
    memcpy(once, train_trainer_model(lab_shard_trainer_trainer(w->shard_trainers, 1)), bytes);
    assert_int_equal(lab_shard_trainer_restart(w->shard_trainers, 1, &why), BASE_OK);
    take_steps(lab_shard_trainer_trainer(w->shard_trainers, 1), &loss);
    assert_memory_equal(train_trainer_model(lab_shard_trainer_trainer(w->shard_trainers, 1)), once, bytes);
    free(once);
}

static void too_few_examples_are_an_error(void **state)
{
    struct world *w = *state;
    struct lab_shard_trainers *shard_trainers = NULL;
    struct base_reason why = {""};
    struct lab_workbench small = w->bench;
    small.train.examples = 3;
    small.train.whole = 3;
    assert_int_equal(lab_shard_trainers_create(&w->experiment, &small, &shard_trainers, &why), BASE_EINVAL);
    assert_non_null(strstr(why.text, "data.shards"));
    assert_null(shard_trainers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shard_trainer_matches_its_twin),
        cmocka_unit_test(a_restart_begins_again),
        cmocka_unit_test(too_few_examples_are_an_error),
    };
    return cmocka_run_group_tests(tests, make_world, drop_world);
}
