// The built-in trainer as a learner whose vectors are lent in memory that the host cannot touch: what it
// finds in them at a boundary, and what happens to its own state when the model is replaced.
#include "test/support/far_kernels.c"

#include "node/learn/built_in.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { EXAMPLES = 4, FEATURES = 3, CLASSES = 2, D = FEATURES * CLASSES + CLASSES };

struct world {
    struct node_config config;
    struct train_dataset data;
    struct train_model *model;
    struct node_built_in learner;
    struct gossip_learner_vectors lent;
};

static void create(struct world *world)
{
    const struct train_model_spec spec = {.kind = TRAIN_SOFTMAX, .inputs = FEATURES, .classes = CLASSES};
    const struct train_options options = {.optimizer = TRAIN_ADAMW,
                                          .rate = 0.01,
                                          .beta1 = 0.9,
                                          .beta2 = 0.99,
                                          .epsilon = 1e-8,
                                          .steps = 100,
                                          .batch = 2};
    const float start[D] = {0};
    struct base_reason why;
    *world = (struct world){.config.average.drift_correction = true,
                            .data = {.examples = EXAMPLES,
                                     .features = FEATURES,
                                     .classes = CLASSES,
                                     .whole = EXAMPLES,
                                     .x = aligned_alloc(64, 64),
                                     .labels = calloc(EXAMPLES, sizeof(uint32_t))},
                            .learner.lends = true};
    assert_true(world->data.x && world->data.labels);
    for (size_t i = 0; i < EXAMPLES * FEATURES; i++)
        world->data.x[i] = (float)(i % 5) / 5;
    world->learner.config = &world->config;
    assert_int_equal(train_model_create(&spec, far_kernels(), EXAMPLES, &world->model, &why), BASE_OK);
    assert_int_equal(
        train_trainer_create(&options, world->model, &world->data, start, &world->learner.trainer, &why),
        BASE_OK);
    node_built_in_begin(&world->learner, &world->lent);
    assert_ptr_equal(node_built_in_kernels(&world->learner), far_kernels());
    assert_true(world->lent.model && world->lent.second_moment && world->lent.correction);
}

static void destroy(struct world *world)
{
    train_trainer_destroy(world->learner.trainer);
    train_model_destroy(world->model);
    train_dataset_destroy(&world->data);
    assert_int_equal(far_use().held, 0);
}

static void fill(float *lent, float value)
{
    float values[D];
    for (size_t i = 0; i < D; i++)
        values[i] = value;
    far_kernels()->upload(lent, values, sizeof values);
}

static bool is_all(const float *lent, float value)
{
    float values[D];
    bool all = true;
    far_kernels()->download(values, lent, sizeof values);
    for (size_t i = 0; i < D; i++)
        all = all && values[i] == value;
    return all;
}

static bool is_finite(struct world *world)
{
    struct gossip_learner_steps did;
    node_built_in_steps(&world->learner, 0, 1);
    node_built_in_boundary(&world->learner, &did);
    return did.result == GOSSIP_LEARNER_DONE;
}

static void state_that_is_not_finite_is_detected_and_begins_again(void **state)
{
    (void)state;
    struct world world;
    create(&world);
    node_built_in_steps(&world.learner, 2, 1);
    assert_true(is_finite(&world));
    fill(world.lent.model, NAN);
    assert_false(is_finite(&world));
    fill(world.lent.model, 2); // as the exchange returns the published model
    assert_true(is_finite(&world));
    fill(world.lent.second_moment, INFINITY);
    assert_false(is_finite(&world));
    node_built_in_adopt(&world.learner, GOSSIP_LEARNER_ROLLED_BACK, 2);
    assert_int_equal(world.learner.reset, 1);
    assert_true(is_all(world.lent.second_moment, 0) && is_all(world.lent.model, 2));
    assert_true(is_finite(&world));
    destroy(&world);
}

static void a_taken_model_comes_without_momentum(void **state)
{
    (void)state;
    struct world world;
    struct train_state_vector vectors[TRAIN_STATES];
    create(&world);
    node_built_in_steps(&world.learner, 3, 1);
    fill(world.lent.model, 3);
    fill(world.lent.second_moment, 4);
    node_built_in_adopt(&world.learner, GOSSIP_LEARNER_TAKEN, 40);
    assert_true(is_all(world.lent.model, 3) && is_all(world.lent.second_moment, 4));
    assert_int_equal(train_trainer_steps_done(world.learner.trainer), 40);
    assert_int_equal(train_trainer_state_vectors(world.learner.trainer, vectors), 2);
    for (size_t i = 0; i < D; i++)
        assert_true(vectors[0].values[i] == 0 && vectors[1].values[i] == 4);
    destroy(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_that_is_not_finite_is_detected_and_begins_again),
        cmocka_unit_test(a_taken_model_comes_without_momentum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
