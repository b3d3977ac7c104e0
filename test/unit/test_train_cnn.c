// Networks for images: that they learn, what they refuse, and that their files have torch's names and
// layouts.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "train/plan.h"
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct kernels *kernels;

static struct train_model_spec spec_of(enum train_model_kind kind, size_t side, size_t channels)
{
    return (struct train_model_spec){
        .kind = kind, .inputs = side * side * channels, .classes = 10, .image = {side, side, channels}};
}

// Loss per example of the first step and the accuracy after the last.
static double learns(enum train_model_kind kind, size_t examples, size_t steps, double *first, double *last)
{
    struct base_reason why;
    struct train_dataset data;
    struct train_model *model;
    struct train_trainer *trainer;
    struct train_score score;
    const struct train_model_spec spec = spec_of(kind, 28, 1);
    const struct train_options options = {
        .optimizer = TRAIN_SGD, .rate = 0.01, .momentum = 0.9, .steps = steps, .batch = 16, .seed = 1};
    assert_int_equal(train_dataset_make_digits(5, 0, examples, &data, &why), BASE_OK);
    assert_true(data.height == 28 && data.width == 28 && data.channels == 1);
    assert_int_equal(train_model_create(&spec, kernels, 16, &model, &why), BASE_OK);
    float *start = malloc(train_model_parameters(model) * sizeof *start);
    assert_non_null(start);
    train_model_initialise(model, 3, start);
    assert_int_equal(train_trainer_create(&options, model, &data, start, &trainer, &why), BASE_OK);
    for (size_t i = 0; i < steps; i++) {
        struct kernels_loss loss;
        size_t rows;
        train_trainer_step(trainer, false, &loss, &rows);
        *last = loss.loss_sum / (double)rows;
        *first = i == 0 ? *last : *first;
    }
    train_model_evaluate(model, train_trainer_model(trainer), &data, &score);
    train_trainer_destroy(trainer);
    train_model_destroy(model);
    train_dataset_destroy(&data);
    free(start);
    return score.accuracy;
}

static void networks_learn_digits(void **state)
{
    (void)state;
    double first = 0, last = 0;
    const double lenet = learns(TRAIN_LENET, 300, 300, &first, &last),
                 cnn = learns(TRAIN_CNN, 300, 60, &first, &last);
    (void)learns(TRAIN_RESNET20, 16, 8, &first, &last);
    printf("lenet %.3f, cnn %.3f, resnet20 loss %.3f to %.3f\n", lenet, cnn, first, last);
    assert_true(lenet > 0.9 && cnn > 0.9 && last < first);
}

static void shapes_are_those_of_the_papers(void **state)
{
    (void)state;
    struct base_reason why;
    struct train_plan plan;
    const struct train_model_spec lenet = spec_of(TRAIN_LENET, 32, 1),
                                  resnet = spec_of(TRAIN_RESNET20, 32, 3);
    assert_int_equal(train_plan_create(&lenet, &plan, &why), BASE_OK);
    assert_int_equal(plan.parameters, 61706); // as every LeNet-5 with full tables
    train_plan_destroy(&plan);
    assert_int_equal(train_plan_create(&resnet, &plan, &why), BASE_OK);
    assert_int_equal(plan.parameters, 269722); // 0.27 million: table 6
    assert_string_equal(plan.tensors[0].abroad.name, "conv1.weight");
    assert_memory_equal(plan.tensors[0].abroad.shape, ((size_t[]){16, 3, 3, 3}), 4 * sizeof(size_t));
    train_plan_destroy(&plan);
}

// The product's layout is [y, x, in, out], torch's [out, in, y, x]; after an image, torch flattens channels
// first.
static void files_have_the_layout_of_torch(void **state)
{
    (void)state;
    struct base_reason why;
    struct train_plan plan;
    struct train_abroad_walk walk;
    const struct train_model_spec spec = spec_of(TRAIN_LENET, 28, 1);
    assert_int_equal(train_plan_create(&spec, &plan, &why), BASE_OK);
    const struct train_tensor *conv2 = &plan.tensors[2], *fc1 = &plan.tensors[4];
    assert_string_equal(conv2->abroad.name, "conv2.weight");
    train_abroad_begin(conv2, &walk);
    for (size_t i = 0; i < conv2->count; i++) {
        const size_t x = i % 5, y = i / 5 % 5, in = i / 25 % 6, out = i / 150;
        assert_int_equal(train_abroad_next(&walk), ((y * 5 + x) * 6 + in) * 16 + out);
    }
    assert_string_equal(fc1->abroad.name, "fc1.weight");
    assert_true(fc1->abroad.n_dims == 2 && fc1->abroad.shape[0] == 120 && fc1->abroad.shape[1] == 256);
    train_abroad_begin(fc1, &walk);
    for (size_t i = 0; i < fc1->count; i++) {
        const size_t x = i % 4, y = i / 4 % 4, in = i / 16 % 16, out = i / 256;
        assert_int_equal(train_abroad_next(&walk), ((y * 4 + x) * 16 + in) * 120 + out);
    }
    train_plan_destroy(&plan);
}

static void descriptions_parse_to_the_same_model(void **state)
{
    (void)state;
    for (int kind = TRAIN_LENET; kind <= TRAIN_RESNET20; kind++) {
        char text[LIMIT_MODEL_TEXT_BYTES];
        struct base_reason why;
        struct train_model_spec read = {0};
        const struct train_model_spec spec = spec_of((enum train_model_kind)kind, 32, 3);
        train_spec_describe(&spec, text, sizeof text);
        assert_int_equal(train_spec_parse(text, &read, &why), BASE_OK);
        assert_memory_equal(&read, &spec, sizeof read);
    }
}

static void data_that_are_no_images_are_refused(void **state)
{
    (void)state;
    struct base_reason why;
    struct train_model_spec spec = spec_of(TRAIN_LENET, 28, 1);
    spec.image = (struct train_image){0};
    assert_int_equal(train_spec_check(&spec, &why), BASE_EINVAL);
    assert_non_null(strstr(why.text, "lenet takes images"));
    spec = spec_of(TRAIN_LENET, 9, 1);
    assert_int_equal(train_spec_check(&spec, &why), BASE_EINVAL);
    assert_non_null(strstr(why.text, "too small"));
    struct kernels without = *kernels;
    struct train_model *model;
    without.image = NULL;
    without.name = "another";
    spec = spec_of(TRAIN_LENET, 28, 1);
    assert_int_equal(train_model_create(&spec, &without, 4, &model, &why), BASE_EINVAL);
    assert_non_null(strstr(why.text, "does not run on 'another'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_learn_digits),
        cmocka_unit_test(shapes_are_those_of_the_papers),
        cmocka_unit_test(files_have_the_layout_of_torch),
        cmocka_unit_test(descriptions_parse_to_the_same_model),
        cmocka_unit_test(data_that_are_no_images_are_refused),
    };
    struct base_reason why;
    if (kernels_open("cpu", 1, &kernels, &why)) {
        fprintf(stderr, "%s\n", why.text);
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
