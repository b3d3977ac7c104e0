// Regression: gradients compared with differences of the loss, a plane that is learned, and R2 and RMSE by
// their definitions.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "train/loaders.h"
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 6, INPUTS = 4, OUTPUTS = 2, EXAMPLES = 400 };

static const struct kernels *kernels;

static struct train_model *make(enum train_model_kind kind, enum train_loss loss, size_t inputs,
                                size_t outputs)
{
    struct train_model_spec spec = {.kind = kind, .inputs = inputs, .classes = outputs, .loss = loss};
    struct train_model *model = NULL;
    struct base_reason why;
    if (kind == TRAIN_MLP)
        spec.hidden[spec.n_hidden++] = 5;
    if (train_model_create(&spec, kernels, 64, &model, &why))
        fail_msg("%s", why.text);
    return model;
}

static void gradients_match_differences_of_the_loss(void **state)
{
    (void)state;
    for (int loss = TRAIN_MSE; loss <= TRAIN_MAE; loss++) {
        struct train_model *model = make(TRAIN_MLP, (enum train_loss)loss, INPUTS, OUTPUTS);
        const size_t d = train_model_parameters(model);
        float *p = calloc(d, sizeof *p), *g = calloc(d, sizeof *g), *unused = calloc(d, sizeof *unused);
        float x[ROWS * INPUTS], t[ROWS * OUTPUTS];
        struct base_rng rng;
        base_rng_seed(&rng, 5);
        train_model_initialise(model, 3, p);
        for (size_t i = 0; i < ROWS * INPUTS; i++)
            x[i] = (float)base_rng_normal(&rng);
        for (size_t i = 0; i < ROWS * OUTPUTS; i++)
            t[i] = (float)(4 * base_rng_normal(&rng));
        struct kernels_loss at, up, down;
        train_model_gradient_regression(model, p, x, t, ROWS, 1.0f, g, &at);
        assert_true(at.loss_sum > 0 && at.correct == 0);
        for (size_t i = 0; i < d; i++) {
            const float kept = p[i], step = 1e-2f;
            p[i] = kept + step;
            train_model_gradient_regression(model, p, x, t, ROWS, 1.0f, unused, &up);
            p[i] = kept - step;
            train_model_gradient_regression(model, p, x, t, ROWS, 1.0f, unused, &down);
            p[i] = kept;
            const double slope = (up.loss_sum - down.loss_sum) / ROWS / (2 * (double)step);
            if (fabs(slope - (double)g[i]) > 0.02 * (1 + fabs(slope)))
                fail_msg("loss %d, parameter %zu: gradient %g, slope %g", loss, i, (double)g[i], slope);
        }
        free(p);
        free(g);
        free(unused);
        train_model_destroy(model);
    }
}

// y0 = 2a - 3b + 1, y1 = -a
static struct train_dataset plane(void)
{
    struct train_dataset data = {0};
    struct base_rng rng;
    base_rng_seed(&rng, 9);
    assert_int_equal(train_dataset_allocate(EXAMPLES, 2, 0, OUTPUTS, &data, NULL), BASE_OK);
    for (size_t i = 0; i < EXAMPLES; i++) {
        const float a = (float)base_rng_normal(&rng), b = (float)base_rng_normal(&rng);
        data.x[2 * i] = a;
        data.x[2 * i + 1] = b;
        data.targets[2 * i] = 2 * a - 3 * b + 1;
        data.targets[2 * i + 1] = -a;
    }
    return data;
}

static void a_plane_is_learned(void **state)
{
    (void)state;
    for (int loss = TRAIN_MSE; loss <= TRAIN_MAE; loss++) {
        struct train_dataset data = plane();
        struct train_model *model = make(TRAIN_SOFTMAX, (enum train_loss)loss, 2, OUTPUTS);
        const struct train_options options = {
            .rate = loss == TRAIN_MSE ? 0.1 : 0.05, .steps = 600, .batch = 32};
        float start[8] = {0};
        struct train_trainer *trainer = NULL;
        struct base_reason why = {""};
        struct train_score score;
        char text[64];
        train_model_describe(model, text, sizeof text);
        assert_string_equal(text, loss == TRAIN_MSE ? "linear 2-2, mse" : "linear 2-2, mae");
        if (train_trainer_create(&options, model, &data, start, &trainer, &why))
            fail_msg("%s", why.text);
        train_model_evaluate(model, train_trainer_model(trainer), &data, &score);
        assert_true(score.accuracy <= 0 && score.rmse > 1);
        for (int i = 0; i < 600; i++) {
            struct kernels_loss unused;
            size_t rows;
            train_trainer_step(trainer, false, &unused, &rows);
        }
        train_model_evaluate(model, train_trainer_model(trainer), &data, &score);
        assert_true(score.accuracy > 0.999 && score.rmse < 0.1);
        train_trainer_destroy(trainer);
        train_model_destroy(model);
        train_dataset_destroy(&data);
    }
}

// R2 of the mean is 0, that of the truth 1; RMSE is in the units before scaling.
static void scores_follow_their_definitions(void **state)
{
    (void)state;
    struct train_dataset data = {0};
    struct train_model *model = make(TRAIN_SOFTMAX, TRAIN_MSE, 1, 1);
    struct train_score score;
    assert_int_equal(train_dataset_allocate(4, 1, 0, 1, &data, NULL), BASE_OK);
    for (size_t i = 0; i < 4; i++)
        data.x[i] = data.targets[i] = (float)i;
    train_model_evaluate(model, (const float[]){0, 1.5f}, &data, &score);
    assert_true(fabs(score.accuracy) < 1e-9 && fabs(score.rmse - sqrt(1.25)) < 1e-9 &&
                fabs(score.loss - 1.25) < 1e-9);
    train_model_evaluate(model, (const float[]){1, 0}, &data, &score);
    assert_true(score.accuracy == 1 && score.rmse == 0);
    data.meaning = train_meaning_create(1);
    data.meaning->target_factor = calloc(1, sizeof(float));
    data.meaning->target_factor[0] = 0.5f;
    train_model_evaluate(model, (const float[]){0, 1.5f}, &data, &score);
    assert_true(fabs(score.rmse - 2 * sqrt(1.25)) < 1e-9);
    train_dataset_destroy(&data);
    train_model_destroy(model);
}

// A regression and a classifier of the same shape are different models, and neither fits the other's data.
static void models_with_different_losses_do_not_mix(void **state)
{
    (void)state;
    struct train_model *models[] = {make(TRAIN_MLP, TRAIN_CROSS_ENTROPY, 2, 2),
                                    make(TRAIN_MLP, TRAIN_MSE, 2, 2), make(TRAIN_MLP, TRAIN_MAE, 2, 2)};
    assert_true(train_model_schema(models[0]) != train_model_schema(models[1]));
    assert_true(train_model_schema(models[1]) != train_model_schema(models[2]));
    struct train_dataset data = plane();
    const struct train_options options = {.rate = 0.1, .steps = 1, .batch = 4};
    float *start = calloc(train_model_parameters(models[0]), sizeof *start);
    struct train_trainer *trainer = NULL;
    struct base_reason why = {""};
    assert_int_equal(train_trainer_create(&options, models[0], &data, start, &trainer, &why), BASE_EINVAL);
    assert_string_equal(why.text, "the data have 2 target columns, the model 0");
    free(start);
    train_dataset_destroy(&data);
    for (int i = 0; i < 3; i++)
        train_model_destroy(models[i]);
}

static int open_kernels(void **state)
{
    (void)state;
    return !kernels_open("cpu", 1, &kernels, NULL) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_differences_of_the_loss),
        cmocka_unit_test(a_plane_is_learned),
        cmocka_unit_test(scores_follow_their_definitions),
        cmocka_unit_test(models_with_different_losses_do_not_mix),
    };
    return cmocka_run_group_tests(tests, open_kernels, NULL);
}
