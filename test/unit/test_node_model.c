// Model files: files are written with torch's names and layout; a file that is read fits, or is refused with
// the reason.
#include "node/learn/data.h"
#include "node/setup.h"
#include "node/store/model_file.h"
#include "node/store/safetensors.h"
#include "test/support/spec_parameters.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct world {
    char directory[64], path[96];
};

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    snprintf(world->directory, sizeof world->directory, "/tmp/p2pml-model-XXXXXX");
    assert_non_null(mkdtemp(world->directory));
    snprintf(world->path, sizeof world->path, "%s/file.safetensors", world->directory);
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    unlink(world->path);
    assert_int_equal(rmdir(world->directory), 0);
    free(world);
    return 0;
}

static const struct train_model_spec mlp = {
    .kind = TRAIN_MLP, .inputs = 3, .classes = 2, .hidden = {4}, .n_hidden = 1};
static const struct train_model_spec softmax = {.kind = TRAIN_SOFTMAX, .inputs = 3, .classes = 2};

static float numbers[64]; // 1, 2, 3, ...: more than any model here has

static struct node_model_file model_of(const struct train_model_spec *spec)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        numbers[i] = (float)(i + 1);
    return (struct node_model_file){
        .spec = *spec,
        .about = {.input_divisor = 255, .first_label = 1, .origin = "the mean of 2 nodes"},
        .parameters = numbers};
}

static void a_file_has_the_names_and_layout_of_torch(void **state)
{
    struct world *world = *state;
    struct base_reason why;
    struct node_safetensors *file;
    const struct node_model_file model = model_of(&mlp);
    assert_int_equal(node_model_write(world->path, &model, &why), BASE_OK);
    assert_int_equal(node_safetensors_read(world->path, 1 << 20, 1, &file, &why), BASE_OK);
    assert_int_equal(node_safetensors_count(file), 4);
    // The product's [3, 4] is 1 2 3 4 | 5 6 7 8 | 9 10 11 12.
    const struct node_tensor *weight = node_safetensors_find(file, "0.weight");
    assert_true(weight && weight->n_dims == 2 && weight->shape[0] == 4 && weight->shape[1] == 3);
    assert_memory_equal(weight->data, ((float[]){1, 5, 9, 2, 6, 10, 3, 7, 11, 4, 8, 12}), 12 * sizeof(float));
    const struct node_tensor *bias = node_safetensors_find(file, "0.bias");
    assert_true(bias && bias->n_dims == 1 && bias->shape[0] == 4);
    assert_memory_equal(bias->data, ((float[]){13, 14, 15, 16}), 4 * sizeof(float));
    weight = node_safetensors_find(file, "2.weight");
    assert_true(weight && weight->shape[0] == 2 && weight->shape[1] == 4);
    assert_memory_equal(weight->data, ((float[]){17, 19, 21, 23, 18, 20, 22, 24}), 8 * sizeof(float));
    assert_non_null(node_safetensors_find(file, "2.bias"));
    static const char *const metadata[][2] = {{"format", "pt"},         {"p2pml", "model 1"},
                                              {"model", "mlp 3-4-2"},   {"labels", "1..2"},
                                              {"input_divisor", "255"}, {"origin", "the mean of 2 nodes"}};
    for (size_t i = 0; i < sizeof metadata / sizeof *metadata; i++)
        assert_string_equal(node_safetensors_metadata(file, metadata[i][0]), metadata[i][1]);
    node_safetensors_free(file);
}

static void a_written_model_reads_back_the_same(void **state)
{
    struct world *world = *state;
    struct base_reason why;
    static const struct train_model_spec *const specs[] = {&mlp, &softmax};
    for (size_t i = 0; i < 2; i++) {
        const struct node_model_file model = model_of(specs[i]);
        struct node_model_file read;
        assert_int_equal(node_model_write(world->path, &model, &why), BASE_OK);
        for (int expected = 0; expected < 2; expected++) {
            assert_int_equal(node_model_read(world->path, expected ? specs[i] : NULL, &read, &why), BASE_OK);
            assert_memory_equal(&read.spec, specs[i], sizeof read.spec);
            assert_memory_equal(read.parameters, numbers, spec_parameters(specs[i]) * sizeof(float));
            assert_true(read.about.input_divisor == 255 && read.about.first_label == 1);
            assert_string_equal(read.about.origin, "the mean of 2 nodes");
            node_model_free(&read);
        }
    }
}

static void labels_are_those_of_the_data(void **state)
{
    struct world *world = *state;
    struct base_reason why;
    for (int32_t first = -1; first <= 1; first++) {
        struct node_model_file model = model_of(&softmax), read;
        model.about.first_label = first;
        assert_int_equal(node_model_write(world->path, &model, &why), BASE_OK);
        assert_int_equal(node_model_read(world->path, NULL, &read, &why), BASE_OK);
        char number[NODE_MODEL_LABEL];
        assert_int_equal(atoi(node_model_label(&read.about, 0, number)), first);
        assert_int_equal(atoi(node_model_label(&read.about, 1, number)), first + 1 + (first < 0));
        node_model_free(&read);
    }
}

static void a_model_that_is_not_finite_is_never_written(void **state)
{
    struct world *world = *state;
    struct base_reason why;
    const struct node_model_file model = model_of(&mlp);
    const size_t places[] = {0, 11, 12, 16, 25};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        numbers[places[i]] = i % 2 ? NAN : INFINITY;
        assert_int_equal(node_model_write(world->path, &model, &why), BASE_ESTATE);
        assert_non_null(strstr(why.text, "NaN or infinity"));
        assert_int_not_equal(access(world->path, F_OK), 0);
        numbers[places[i]] = 1;
    }
}

// A tensor of a file of another program; all its numbers are 0.
static struct node_tensor foreign(const char *name, enum node_tensor_type type, size_t rows, size_t columns)
{
    static const double zeros[64];
    struct node_tensor tensor = {
        .type = type, .shape = {rows, columns}, .n_dims = columns ? 2 : 1, .data = zeros};
    snprintf(tensor.name, sizeof tensor.name, "%s", name);
    tensor.bytes = rows * (columns ? columns : 1) * node_tensor_type_bytes(type);
    return tensor;
}

static void files_of_other_programs_may_have_other_precisions(void **state)
{
    struct world *world = *state;
    struct base_reason why;
    static const double wide[6] = {1, 2, 3, 4, 5, 6};
    static const uint16_t bf16[2] = {0x3f80, 0xc000}; // 1, -2
    struct node_tensor tensors[2] = {foreign("0.weight", NODE_TENSOR_F64, 2, 3),
                                     foreign("0.bias", NODE_TENSOR_BF16, 2, 0)};
    struct node_model_file read;
    tensors[0].data = wide;
    tensors[1].data = bf16;
    assert_int_equal(node_safetensors_write(world->path, tensors, 2, NULL, 0, &why), BASE_OK);
    assert_int_equal(node_model_read(world->path, &softmax, &read, &why), BASE_OK);
    assert_memory_equal(read.parameters, ((float[]){1, 4, 2, 5, 3, 6, 1, -2}), 8 * sizeof(float));
    assert_true(read.about.input_divisor == 1 && read.about.first_label == 0);
    node_model_free(&read);
}

#define F32 NODE_TENSOR_F32
struct bad {
    const char *name; // of the tensor that replaces number `place` of a valid file of 3-4-2
    size_t place, rows, columns;
    enum node_tensor_type type;
    const char *reason;
};

static void a_model_that_does_not_fit_is_refused_with_both_shapes(void **state)
{
    struct world *world = *state;
    static const struct bad bads[] = {
        {"0.weight", 0, 4, 5, F32, "'0.weight' is F32 [4, 5], expected F32 [4, 3]"},
        {"0.weight", 0, 3, 4, F32,
         "'0.weight' is F32 [3, 4], expected F32 [4, 3]"}, // the product's layout under torch's name
        {"0.weight", 0, 12, 0, F32, "'0.weight' is F32 [12], expected F32 [4, 3]"},
        {"0.weight", 0, 4, 3, NODE_TENSOR_I32, "'0.weight' is I32 [4, 3], expected F32 [4, 3]"},
        {"0.bias", 1, 5, 0, F32, "'0.bias' is F32 [5], expected F32 [4]"},
        {"1.bias", 1, 4, 0, F32,
         "there is no tensor '0.bias' [4] in it, but '0.weight' [4, 3], '1.bias' [4]"},
        {"2.weight", 2, 3, 4, F32, "'2.weight' is F32 [3, 4], expected F32 [2, 4]"},
        {"4.weight", 2, 2, 4, F32, "there is no tensor '2.weight' [2, 4]"},
        {"3.bias", 4, 2, 0, F32, "it has the tensor '3.bias' [2], for which the model has no place"},
        {"x\x1b[2J", 4, 2, 0, F32, "'x?[2J' [2]"},
    };
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        struct node_tensor tensors[5] = {foreign("0.weight", F32, 4, 3), foreign("0.bias", F32, 4, 0),
                                         foreign("2.weight", F32, 2, 4), foreign("2.bias", F32, 2, 0)};
        struct node_model_file read = {.parameters = numbers};
        struct base_reason why;
        tensors[bads[i].place] = foreign(bads[i].name, bads[i].type, bads[i].rows, bads[i].columns);
        assert_int_equal(
            node_safetensors_write(world->path, tensors, bads[i].place == 4 ? 5 : 4, NULL, 0, &why), BASE_OK);
        enum base_error error = node_model_read(world->path, &mlp, &read, &why);
        if (error != BASE_EMISMATCH || !strstr(why.text, bads[i].reason) || !strstr(why.text, world->path))
            fail_msg("%s: %s '%s', expected '%s'", bads[i].name, base_error_name(error), why.text,
                     bads[i].reason);
        assert_ptr_equal(read.parameters, numbers);
        if (i > 0) // the first would be a model of 5 inputs; the others are no model
            assert_int_not_equal(node_model_read(world->path, NULL, &read, &why), BASE_OK);
    }
}

static void a_file_without_a_model_is_refused(void **state)
{
    struct world *world = *state;
    struct base_reason why;
    struct node_model_file read;
    const struct node_tensor other = foreign("embedding", F32, 4, 3), flat = foreign("0.weight", F32, 4, 0),
                             one = foreign("0.weight", F32, 1, 3);
    assert_int_equal(node_safetensors_write(world->path, NULL, 0, NULL, 0, &why), BASE_OK);
    assert_int_equal(node_model_read(world->path, NULL, &read, &why), BASE_EMISMATCH);
    assert_non_null(strstr(why.text, "there is no tensor '0.weight' in it, but no tensor at all"));
    assert_int_equal(node_safetensors_write(world->path, &other, 1, NULL, 0, &why), BASE_OK);
    assert_int_equal(node_model_read(world->path, NULL, &read, &why), BASE_EMISMATCH);
    assert_non_null(strstr(why.text, "'embedding' [4, 3]"));
    assert_int_equal(node_safetensors_write(world->path, &flat, 1, NULL, 0, &why), BASE_OK);
    assert_int_equal(node_model_read(world->path, NULL, &read, &why), BASE_EMISMATCH);
    assert_non_null(strstr(why.text, "1 dimensions, expected 2"));
    assert_int_equal(node_safetensors_write(world->path, &one, 1, NULL, 0, &why), BASE_OK);
    assert_int_equal(node_model_read(world->path, NULL, &read, &why), BASE_EINVAL);
    assert_non_null(strstr(why.text, "1 classes; expected 2"));
}

static void numbers_that_are_not_finite_are_refused(void **state)
{
    struct world *world = *state;
    struct base_reason why;
    struct node_model_file read;
    static const float bias[2] = {0, NAN};
    static const double huge[6] = {1e300};
    struct node_tensor tensors[2] = {foreign("0.weight", NODE_TENSOR_F64, 2, 3),
                                     foreign("0.bias", F32, 2, 0)};
    tensors[1].data = bias;
    assert_int_equal(node_safetensors_write(world->path, tensors, 2, NULL, 0, &why), BASE_OK);
    assert_int_equal(node_model_read(world->path, NULL, &read, &why), BASE_EFORMAT);
    assert_non_null(strstr(why.text, "'0.bias' holds NaN"));
    tensors[0].data = huge; // infinity as F32
    assert_int_equal(node_safetensors_write(world->path, tensors, 2, NULL, 0, &why), BASE_OK);
    assert_int_equal(node_model_read(world->path, NULL, &read, &why), BASE_EFORMAT);
    assert_non_null(strstr(why.text, "'0.weight' holds NaN"));
}

static void invalid_metadata_is_refused(void **state)
{
    struct world *world = *state;
    static const struct {
        struct node_text_pair pair;
        const char *reason;
    } bads[] = {
        {{.key = "labels", .value = "0..2"}, "'labels' is '0..2', expected for example '0..1' for 2 classes"},
        {{.key = "labels", .value = "cat dog"}, "'labels' is 'cat dog'"},
        {{.key = "input_divisor", .value = "0"}, "'input_divisor' is '0'"},
        {{.key = "input_divisor", .value = "-1"}, "above 0"},
        {{.key = "input_divisor", .value = "nan"}, "above 0"},
        {{.key = "input_divisor", .value = "2x"}, "above 0"}};
    const struct node_tensor tensors[2] = {foreign("0.weight", F32, 2, 3), foreign("0.bias", F32, 2, 0)};
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        struct base_reason why;
        struct node_model_file read;
        assert_int_equal(node_safetensors_write(world->path, tensors, 2, &bads[i].pair, 1, &why), BASE_OK);
        assert_int_equal(node_model_read(world->path, NULL, &read, &why), BASE_EFORMAT);
        if (!strstr(why.text, bads[i].reason))
            fail_msg("'%s', expected '%s'", why.text, bads[i].reason);
    }
}

static void touch(const struct world *world, const char *name)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", world->directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
}

static void a_directory_stands_for_the_model_in_it(void **state)
{
    struct world *world = *state;
    struct base_reason why;
    char found[NODE_MODEL_PATH], path[160];
    static const char *const names[] = {"model.safetensors", "checkpoint-9.safetensors",
                                        "checkpoint-10.safetensors", "averaged.safetensors"};
    assert_int_equal(node_model_find(world->directory, found, &why), BASE_ENOTFOUND);
    assert_non_null(strstr(why.text, "averaged.safetensors"));
    for (size_t i = 0; i < 4; i++) { // each takes precedence over the ones before
        touch(world, names[i]);
        assert_int_equal(node_model_find(world->directory, found, &why), BASE_OK);
        snprintf(path, sizeof path, "%s/%s", world->directory, names[i]);
        assert_string_equal(found, path);
    }
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", world->directory, names[i]);
        unlink(path);
    }
    assert_int_equal(node_model_find("no/such/file", found, &why), BASE_OK); // reading it reports the error
    assert_string_equal(found, "no/such/file");
}

static void training_may_begin_with_a_file_that_fits(void **state)
{
    struct world *world = *state;
    struct base_reason why = {""};
    struct node_config config = {0};
    const struct train_dataset data = {.features = 3, .classes = 2}; // only its shape matters
    const struct node_model_file model = model_of(&mlp);
    struct train_model *made;
    const struct kernels *kernels;
    char setting[128];
    float start[26];
    assert_int_equal(node_schema_defaults(&node_config_schema, &config, &why), BASE_OK);
    assert_int_equal(node_setup_check_start(&config, &data, &why), BASE_OK); // no file is asked for
    assert_int_equal(node_schema_set(&node_config_schema, "model.hidden=[4]", &config, &why), BASE_OK);
    snprintf(setting, sizeof setting, "model.init=%s", world->path);
    assert_int_equal(node_schema_set(&node_config_schema, setting, &config, &why), BASE_OK);
    assert_int_equal(node_config_check(&config, &why), BASE_ENOTFOUND); // before anything is loaded
    assert_non_null(strstr(why.text, "--set: model.init: found "));
    assert_int_equal(node_model_write(world->path, &model, &why), BASE_OK);
    assert_int_equal(node_config_check(&config, &why), BASE_OK);
    assert_int_equal(node_setup_check_start(&config, &data, &why), BASE_OK);
    assert_int_equal(kernels_open("cpu", 1, &kernels, &why), BASE_OK);
    assert_int_equal(node_setup_model(&config, &data, kernels, &made, &why), BASE_OK);
    assert_int_equal(node_setup_start(&config, made, start, &why), BASE_OK);
    assert_memory_equal(start, numbers, sizeof start);
    train_model_destroy(made);
    assert_int_equal(node_schema_set(&node_config_schema, "model.hidden=[5]", &config, &why), BASE_OK);
    assert_int_equal(node_setup_check_start(&config, &data, &why), BASE_EMISMATCH);
    assert_non_null(strstr(why.text, "--set: model.init: "));
    assert_non_null(strstr(why.text,
                           "does not fit the model 'mlp 3-5-2': its tensor '0.weight' is F32 [4, 3], "
                           "expected F32 [5, 3]"));
    node_schema_free(&node_config_schema, &config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_has_the_names_and_layout_of_torch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_written_model_reads_back_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(labels_are_those_of_the_data, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_model_that_is_not_finite_is_never_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_of_other_programs_may_have_other_precisions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_model_that_does_not_fit_is_refused_with_both_shapes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_file_without_a_model_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(numbers_that_are_not_finite_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(invalid_metadata_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_directory_stands_for_the_model_in_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(training_may_begin_with_a_file_that_fits, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
