// GPT-2: the tensors of Hugging Face, first weights, what is refused, and that it learns.
#include "test/support/gpt2_small.h"
#include "train/model.h"
#include "train/tokens.h"
#include "train/trainer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// --- names, shapes, first weights ---

static void the_model_has_the_tensors_of_hugging_face(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t shape[2], n_dims;
    } expected[] = {{"wte.weight", {WORDS, WIDTH}, 2},
                    {"wpe.weight", {CONTEXT, WIDTH}, 2},
                    {"h.0.ln_1.weight", {WIDTH}, 1},
                    {"h.0.ln_1.bias", {WIDTH}, 1},
                    {"h.0.attn.c_attn.weight", {WIDTH, 3 * WIDTH}, 2},
                    {"h.0.attn.c_attn.bias", {3 * WIDTH}, 1},
                    {"h.0.attn.c_proj.weight", {WIDTH, WIDTH}, 2},
                    {"h.0.attn.c_proj.bias", {WIDTH}, 1},
                    {"h.0.ln_2.weight", {WIDTH}, 1},
                    {"h.0.ln_2.bias", {WIDTH}, 1},
                    {"h.0.mlp.c_fc.weight", {WIDTH, 4 * WIDTH}, 2},
                    {"h.0.mlp.c_fc.bias", {4 * WIDTH}, 1},
                    {"h.0.mlp.c_proj.weight", {4 * WIDTH, WIDTH}, 2},
                    {"h.0.mlp.c_proj.bias", {WIDTH}, 1}};
    const struct train_model_spec spec = spec_of(0.0f);
    struct train_model *model = make(&spec, 1);
    size_t count = 0;
    const struct train_tensor *tensors = train_model_tensors(model, &count);
    assert_int_equal(count, 2 + 12 * LAYERS + 2);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_string_equal(tensors[i].name, expected[i].name);
        assert_string_equal(tensors[i].abroad.name, expected[i].name);
        assert_int_equal(tensors[i].n_dims, expected[i].n_dims);
        assert_memory_equal(tensors[i].shape, expected[i].shape, expected[i].n_dims * sizeof(size_t));
    }
    assert_string_equal(tensors[count - 2].name, "ln_f.weight");
    assert_string_equal(tensors[count - 1].name, "ln_f.bias");
    train_model_destroy(model);
}

static double deviation(const float *values, size_t count)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)values[i] * (double)values[i];
    }
    return sqrt(sum / (double)count);
}

static void the_first_weights_are_those_of_gpt2(void **state)
{
    (void)state;
    const struct train_model_spec spec = {
        .kind = TRAIN_GPT2, .inputs = 64, .classes = 96, .decoder = {4, 64, 4, 0.0f}};
    struct train_model *model = make(&spec, 1);
    size_t count = 0;
    const struct train_tensor *t = train_model_tensors(model, &count);
    float *x = malloc(train_model_parameters(model) * sizeof *x);
    assert_non_null(x);
    train_model_initialise(model, 5, x);
    for (size_t i = 0; i < count; i++) {
        const bool bias = strstr(t[i].name, "bias") != NULL, gain = !bias && strstr(t[i].name, "ln_");
        const bool branch = !bias && strstr(t[i].name, "c_proj");
        const double expected = bias ? 0.0 : gain ? 1.0 : branch ? 0.02 / sqrt(8.0) : 0.02;
        close_to(t[i].name, i, deviation(x + t[i].offset, t[i].count), expected,
                 bias || gain ? 0.0 : 0.05 * expected);
    }
    free(x);
    train_model_destroy(model);
}

static void invalid_models_are_refused(void **state)
{
    (void)state;
    const struct {
        struct train_model_spec spec;
        const char *part;
    } wrong[] = {
        {{.kind = TRAIN_GPT2, .inputs = 5, .classes = 7, .decoder = {0, 8, 2, 0.0f}}, "0 layers"},
        {{.kind = TRAIN_GPT2, .inputs = 5, .classes = 7, .decoder = {2, 8, 3, 0.0f}}, "8 wide with 3 heads"},
        {{.kind = TRAIN_GPT2, .inputs = 5, .classes = 7, .decoder = {2, 0, 3, 0.0f}}, "0 wide with 3 heads"},
        {{.kind = TRAIN_GPT2, .inputs = 5, .classes = 7, .decoder = {2, 8, 2, 1.0f}}, "a dropout of 1"},
        {{.kind = TRAIN_GPT2, .inputs = 5, .classes = 7, .decoder = {2, 1u << 30, 2, 0.0f}}, "1073741824"},
        {{.kind = TRAIN_GPT2, .inputs = 5, .classes = 7, .loss = TRAIN_MSE, .decoder = {2, 8, 2, 0.0f}},
         "only the loss cross-entropy"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct base_reason why = {""};
        assert_int_equal(train_spec_check(&wrong[i].spec, &why), BASE_EINVAL);
        if (!strstr(why.text, wrong[i].part)) {
            fail_msg("'%s' lacks '%s'", why.text, wrong[i].part);
        }
    }
}

static void the_model_is_described_in_words(void **state)
{
    (void)state;
    const struct train_model_spec spec = spec_of(0.0f);
    struct train_model_spec back = {.kind = TRAIN_MLP};
    struct base_reason why = {""};
    char text[LIMIT_MODEL_TEXT_BYTES];
    train_spec_describe(&spec, text, sizeof text);
    assert_string_equal(text, "gpt2 2 layers, 8 wide, 2 heads, context 5, vocabulary 7");
    assert_int_equal(train_spec_parse(text, &back, &why), BASE_OK);
    assert_memory_equal(&back.decoder, &spec.decoder, sizeof spec.decoder);
    assert_int_equal(back.inputs, CONTEXT);
    assert_int_equal(back.classes, WORDS);
    assert_int_equal(
        train_spec_parse("gpt2 2 layers, 8 wide, 2 heads, context 5, vocabulary 7x", &back, &why),
        BASE_EFORMAT);
}

// --- it learns ---

static struct train_dataset counting_text(void)
{
    char text[601] = {0};
    for (size_t i = 0; i < 600; i++) { // the next token follows from the last two
        text[i] = (char)('a' + (i % 2 == 0 ? i / 2 % 3 : (i / 2 + 1) % 3 + 3));
    }
    const struct train_text_options options = {.text = TRAIN_TEXT_CHARACTERS, .context = CONTEXT};
    const char *path = "gpt2_text.tmp";
    struct train_dataset data = {0};
    struct base_reason why = {""};
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
    if (train_dataset_load_text(path, &options, &data, &why)) {
        fail_msg("%s", why.text);
    }
    (void)remove(path);
    return data;
}

static void the_model_learns_a_text(void **state)
{
    (void)state;
    struct train_dataset data = counting_text();
    struct train_model_spec spec = spec_of(0.1f);
    spec.classes = data.classes;
    struct train_model *model = make(&spec, 16);
    const struct train_options options = {.optimizer = TRAIN_ADAMW,
                                          .rate = 0.01,
                                          .weight_decay = 0.01,
                                          .beta1 = 0.9,
                                          .beta2 = 0.99,
                                          .epsilon = 1e-8,
                                          .steps = 250,
                                          .batch = 16,
                                          .seed = 4};
    float *start = malloc(train_model_parameters(model) * sizeof *start);
    struct train_trainer *trainer = NULL;
    struct base_reason why = {""};
    struct train_score before, after;
    assert_non_null(start);
    train_model_initialise(model, 1, start);
    if (train_trainer_create(&options, model, &data, start, &trainer, &why)) {
        fail_msg("%s", why.text);
    }
    train_model_evaluate(model, train_trainer_model(trainer), &data, &before);
    close_to("loss at first", 0, before.loss, log(6.0), 0.1);
    for (size_t i = 0; i < options.steps; i++) {
        struct kernels_loss loss;
        size_t rows;
        train_trainer_step(trainer, false, &loss, &rows);
        assert_int_equal(rows, 16 * CONTEXT); // labels, over which the loss is summed
    }
    train_model_evaluate(model, train_trainer_model(trainer), &data, &after);
    printf("loss %.4f -> %.4f, right %.3f\n", before.loss, after.loss, after.accuracy);
    assert_true(after.loss < 0.3 && after.accuracy > 0.9);
    train_trainer_destroy(trainer);
    train_model_destroy(model);
    train_dataset_destroy(&data);
    free(start);
}

static void other_data_are_refused(void **state)
{
    (void)state;
    struct train_dataset data = counting_text();
    struct train_model_spec spec = spec_of(0.0f);
    const struct train_options options = {.rate = 0.1, .steps = 1, .batch = 4};
    struct train_trainer *trainer = NULL;
    struct base_reason why = {""};
    float start[8192] = {0};
    spec.classes = 5; // ids go up to 5
    struct train_model *small = make(&spec, 4);
    assert_int_equal(train_trainer_create(&options, small, &data, start, &trainer, &why), BASE_EINVAL);
    const struct train_model_spec mlp = {.kind = TRAIN_SOFTMAX, .inputs = CONTEXT, .classes = 6};
    struct train_model *other = make(&mlp, 4);
    assert_int_equal(train_trainer_create(&options, other, &data, start, &trainer, &why), BASE_EINVAL);
    assert_string_equal(why.text, "the data are text, the model 'softmax 5-6' takes numbers");
    train_model_destroy(small);
    train_model_destroy(other);
    train_dataset_destroy(&data);
}

int main(void)
{
    struct base_reason why;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_has_the_tensors_of_hugging_face),
        cmocka_unit_test(the_first_weights_are_those_of_gpt2),
        cmocka_unit_test(invalid_models_are_refused),
        cmocka_unit_test(the_model_is_described_in_words),
        cmocka_unit_test(the_model_learns_a_text),
        cmocka_unit_test(other_data_are_refused),
    };
    if (kernels_open("cpu", 1, &kernels, &why)) {
        return 1;
    }
    return cmocka_run_group_tests_name("train gpt2", tests, NULL, NULL);
}
