// The built-in trainer as a learner: what happens to its own state when the model is replaced by another's.
#include "kernels/kernels.h"
#include "node/learn/built_in.h"
#include "train/loaders.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { FEATURES = 4 };

// With l1, the proximal step of a step is made only after the exchange; a model that is fetched instead must
// not get it.
static void a_taken_model_is_not_shrunk(void **state)
{
    static const char text[] = "0 1:1 2:2\n1 3:1 4:-1\n0 1:0.5\n1 4:2\n";
    const struct train_bytes bytes = {"rows", (const uint8_t *)text, strlen(text)};
    const struct train_options options = {
        .optimizer = TRAIN_SGD, .rate = 0.1, .batch = 2, .seed = 3, .l1 = 0.02, .blocks = 1};
    float start[16] = {0};
    const struct kernels *kernels;
    struct train_dataset rows = {0};
    struct train_model *model;
    struct node_built_in learner = {0};
    struct kernels_loss loss;
    struct base_reason why;
    size_t counted;

    (void)state;
    assert_int_equal(kernels_open("cpu", 1, &kernels, &why), BASE_OK);
    assert_int_equal(
        train_libsvm_parse(&bytes,
                           &(struct train_libsvm_options){.features = FEATURES, .classes = 2, .sparse = true},
                           &rows, &why),
        BASE_OK);
    const struct train_model_spec spec = {.kind = TRAIN_LOGISTIC, .inputs = FEATURES, .classes = 2};
    assert_int_equal(train_model_create(&spec, kernels, 4, &model, &why), BASE_OK);
    const size_t count = train_model_parameters(model);
    assert_true(count <= sizeof start / sizeof *start);
    assert_int_equal(train_trainer_create(&options, model, &rows, start, &learner.trainer, &why), BASE_OK);
    float *x = train_trainer_model(learner.trainer);
    train_trainer_step(learner.trainer, false, &loss, &counted);
    for (size_t i = 0; i < count; i++)
        x[i] = 1;
    node_built_in_adopt(&learner, GOSSIP_LEARNER_TAKEN, 9);
    train_trainer_settle(learner.trainer); // as the next step does
    for (size_t i = 0; i < count; i++)
        assert_true(x[i] == 1);
    train_trainer_destroy(learner.trainer);
    train_model_destroy(model);
    train_dataset_destroy(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_taken_model_is_not_shrunk)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
