// A trainer whose vectors are changed by others in the kernels' memory: it continues from what it finds
// there.
#include "test/support/far_kernels.c"

#include "train/trainer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { EXAMPLES = 4, FEATURES = 3, CLASSES = 2, D = FEATURES * CLASSES + CLASSES };

struct world {
    struct train_dataset data;
    struct train_model *model;
    struct train_trainer *trainer;
};

static void create(struct world *world, double proximal)
{
    const struct train_model_spec spec = {.kind = TRAIN_SOFTMAX, .inputs = FEATURES, .classes = CLASSES};
    const struct train_options options = {.optimizer = TRAIN_ADAMW,
                                          .rate = 0.01,
                                          .beta1 = 0.9,
                                          .beta2 = 0.99,
                                          .epsilon = 1e-8,
                                          .steps = 10,
                                          .batch = 2,
                                          .proximal = proximal};
    const float start[D] = {0};
    struct base_reason why;
    world->data = (struct train_dataset){.examples = EXAMPLES,
                                         .features = FEATURES,
                                         .classes = CLASSES,
                                         .whole = EXAMPLES,
                                         .x = aligned_alloc(64, 64),
                                         .labels = calloc(EXAMPLES, sizeof(uint32_t))};
    assert_true(world->data.x && world->data.labels);
    for (size_t i = 0; i < EXAMPLES * FEATURES; i++)
        world->data.x[i] = (float)(i % 5) / 5;
    assert_int_equal(train_model_create(&spec, far_kernels(), EXAMPLES, &world->model, &why), BASE_OK);
    assert_int_equal(train_trainer_create(&options, world->model, &world->data, start, &world->trainer, &why),
                     BASE_OK);
}

static void destroy(struct world *world)
{
    train_trainer_destroy(world->trainer);
    train_model_destroy(world->model);
    train_dataset_destroy(&world->data);
    assert_int_equal(far_use().held, 0);
}

static void changes_by_others_are_kept(void **state)
{
    (void)state;
    struct world world;
    struct kernels_loss loss;
    float ones[D];
    size_t rows;
    create(&world, 0);
    const struct train_vectors lent = train_trainer_lend(world.trainer);
    assert_true(lent.model && lent.second_moment && lent.correction);
    for (size_t i = 0; i < D; i++)
        ones[i] = 1;
    far_kernels()->upload(lent.model, ones, sizeof ones);
    far_kernels()->upload(lent.second_moment, ones, sizeof ones);
    train_trainer_advance(world.trainer, 5);
    assert_int_equal(train_trainer_steps_done(world.trainer), 5);
    train_trainer_fetch(world.trainer);
    assert_memory_equal(train_trainer_model(world.trainer), ones, sizeof ones);
    assert_memory_equal(train_trainer_second_moment(world.trainer), ones, sizeof ones);
    train_trainer_step(world.trainer, true, &loss, &rows); // from that state
    train_trainer_fetch(world.trainer);
    for (size_t i = 0; i < D; i++)
        assert_true(train_trainer_model(world.trainer)[i] > 0.9f);
    destroy(&world);
}

// A file is read into the host's copies: training continues from these.
static void a_seek_uses_the_copies_of_the_host(void **state)
{
    (void)state;
    struct world world;
    struct train_state_vector vectors[TRAIN_STATES];
    create(&world, 0.1);
    (void)train_trainer_lend(world.trainer);
    const struct train_cursor cursor = train_trainer_cursor(world.trainer);
    assert_int_equal(train_trainer_state_vectors(world.trainer, vectors), 2);
    for (size_t i = 0; i < D; i++)
        train_trainer_model(world.trainer)[i] = vectors[0].values[i] = vectors[1].values[i] = 3;
    assert_int_equal(train_trainer_seek(world.trainer, &cursor), BASE_OK);
    memset(train_trainer_model(world.trainer), 0, D * sizeof(float));
    train_trainer_fetch(world.trainer);
    (void)train_trainer_state_vectors(world.trainer, vectors);
    for (size_t i = 0; i < D; i++)
        assert_true(train_trainer_model(world.trainer)[i] == 3 && vectors[0].values[i] == 3 &&
                    vectors[1].values[i] == 3);
    destroy(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(changes_by_others_are_kept),
                                       cmocka_unit_test(a_seek_uses_the_copies_of_the_host)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
