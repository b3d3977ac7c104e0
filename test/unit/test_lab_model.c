// A trained model in use: rows of numbers, answers, measuring, and ONNX with its encoding.
#include "base/file.h"
#include "lab/model/model.h"
#include "lab/model/onnx.h"
#include "lab/model/rows.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct world {
    char directory[64], path[96], data[96];
};

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    snprintf(world->directory, sizeof world->directory, "/tmp/p2pml-use-XXXXXX");
    assert_non_null(mkdtemp(world->directory));
    snprintf(world->path, sizeof world->path, "%s/model.safetensors", world->directory);
    snprintf(world->data, sizeof world->data, "%s/data", world->directory);
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    unlink(world->path);
    unlink(world->data);
    assert_int_equal(rmdir(world->directory), 0);
    free(world);
    return 0;
}

static const struct train_model_spec two = {.kind = TRAIN_SOFTMAX, .inputs = 2, .classes = 2};

// Logits are the inputs divided by the divisor.
static struct node_model_file identity(float divisor, int32_t first_label)
{
    static float parameters[6] = {1, 0, 0, 1, 0, 0};
    return (struct node_model_file){.spec = two,
                                    .about = {.input_divisor = divisor, .first_label = first_label},
                                    .parameters = parameters};
}

static void open_model(const struct world *world, const struct node_model_file *file, struct lab_model *model)
{
    struct base_reason why = {""};
    assert_int_equal(node_model_write(world->path, file, &why), BASE_OK);
    assert_int_equal(lab_model_open(world->path, model, &why), BASE_OK);
}

static FILE *open_text(const char *text, size_t bytes)
{
    FILE *in = bytes ? fmemopen((void *)(uintptr_t)text, bytes, "r") : fopen("/dev/null", "r");
    assert_non_null(in);
    return in;
}

// Reads the rows of three numbers in a text; returns the error, with the reason in *why.
static enum base_error read_rows(const char *text, size_t bytes, size_t *count, double *last,
                                 struct base_reason *why)
{
    FILE *in = open_text(text, bytes);
    struct lab_rows rows = {.in = in, .name = "rows", .columns = 3};
    enum base_error error = BASE_OK;
    bool more = true;
    why->text[0] = 0;
    for (*count = 0; !error && more; *count += more && !error)
        error = lab_rows_next(&rows, last, &more, why);
    fclose(in);
    return error;
}

static void rows_of_numbers_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t rows;
    } good[] = {{"", 0},
                {"1,2,3\n", 1},
                {"1,2,3", 1},
                {"9,9,9\n1,2,3\n", 2},
                {"1,2,3\r\n", 1},
                {" 1 ,\t2, 3 \n", 1},
                {"+1,0.2e1,30E-1\n", 1},
                {"1.,2.0000000000000000000000000000000000000000000000000,3\n", 1}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct base_reason why;
        double last[3] = {1, 2, 3};
        size_t count;
        if (read_rows(good[i].text, strlen(good[i].text), &count, last, &why))
            fail_msg("'%s': %s", good[i].text, why.text);
        assert_int_equal(count, good[i].rows);
        if (count)
            assert_memory_equal(last, ((double[]){1, 2, 3}), sizeof last);
    }
}

static void bad_rows_are_refused_with_line_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reason;
    } bad[] = {
        {"a,b,c\n1,2,3\n", "rows: line 1, column 1: found 'a', expected a number; rows contain only numbers"},
        {"1,2,3\n1,x,3\n", "rows: line 2, column 2: found 'x', expected a number"},
        {"1,2,3\n1,2\n", "line 2, column 2: the row ends early, expected 3 numbers"},
        {"1,2,3\n1,2", "line 2, column 2: the row ends early"},
        {"1,2,3,4\n", "line 1, column 4: found one more number, expected 3"},
        {"1,2,3,\n", "line 1, column 4: found one more number"},
        {"1,,3\n", "line 1, column 2: found nothing, expected a number"},
        {"1,2,\n", "line 1, column 3: found nothing"},
        {"1,2,3\n\n1,2,3\n", "line 2, column 1: found nothing"},
        {"1;2;3\n", "line 1, column 1: found '1;2;3'"},
        {"1,2,nan\n", "column 3: found 'nan'"},
        {"1,2,inf\n", "column 3: found 'inf'"},
        {"1,2,0x10\n", "column 3: found '0x10'"},
        {"1,2,1e999\n", "column 3: found '1e999', which is too large"},
        {"1,2,3 4\n", "column 3: found '3 4'"},
        {"1,2,--3\n", "column 3: found '--3'"},
        {"1,2,\x1b[2J\n", "column 3: found '?[2J'"},
        {"1,2,\"3\"\n", "column 3: found '\"3\"'"},
        {"1,2,3333333333333333333333333333333333333333333333333333333333333333333\n",
         "column 3: found '33333333"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct base_reason why;
        double last[3];
        size_t count;
        enum base_error error = read_rows(bad[i].text, strlen(bad[i].text), &count, last, &why);
        if (error != BASE_EFORMAT || !strstr(why.text, bad[i].reason))
            fail_msg("'%s': %s '%s', expected '%s'", bad[i].text, base_error_name(error), why.text,
                     bad[i].reason);
    }
    struct base_reason why;
    double last[3];
    size_t count;
    // a zero byte does not end the text
    assert_int_equal(read_rows("1,2,3\0\n", 7, &count, last, &why), BASE_EFORMAT);
}

static enum base_error predict(struct lab_model *model, const char *text, char *answers, size_t capacity,
                               struct base_reason *why)
{
    FILE *in = open_text(text, strlen(text)), *out = fmemopen(answers, capacity, "w");
    assert_non_null(out);
    enum base_error error = lab_model_predict(model, "standard input", in, out, why);
    fclose(in);
    fclose(out);
    return error;
}

static void answers_are_labels_of_the_data_and_probabilities(void **state)
{
    struct world *world = *state;
    struct base_reason why;
    struct lab_model model;
    char answers[400], expected[400];
    const double likely = 1 / (1 + exp(-2.0));
    const struct node_model_file plain = identity(1, -1), bytes = identity(100, 1);
    open_model(world, &plain, &model);
    assert_int_equal(predict(&model, "2,0\n0,2\n1,1\n", answers, sizeof answers, &why), BASE_OK);
    snprintf(expected, sizeof expected, "class,p_-1,p_1\n-1,%.7g,%.7g\n1,%.7g,%.7g\n-1,0.5,0.5\n",
             (double)(float)likely, (double)(float)(1 - likely), (double)(float)(1 - likely),
             (double)(float)likely);
    assert_string_equal(answers, expected);
    // Logits whose exponential exceeds a float.
    assert_int_equal(predict(&model, "1000,0\n", answers, sizeof answers, &why), BASE_OK);
    assert_string_equal(answers, "class,p_-1,p_1\n-1,1,0\n");
    lab_model_close(&model);
    open_model(world, &bytes, &model); // the divisor is applied to the rows
    assert_int_equal(predict(&model, "200,0\n", answers, sizeof answers, &why), BASE_OK);
    snprintf(expected, sizeof expected, "class,p_1,p_2\n1,%.7g,%.7g\n", (double)(float)likely,
             (double)(float)(1 - likely));
    assert_string_equal(answers, expected);
    assert_int_equal(predict(&model, "", answers, sizeof answers, &why), BASE_OK);
    assert_string_equal(answers, "class,p_1,p_2\n");
    lab_model_close(&model);
}

static void rows_before_a_bad_one_are_answered(void **state)
{
    struct world *world = *state;
    struct base_reason why;
    struct lab_model model;
    const struct node_model_file plain = identity(1, 0);
    char text[4 * 300 + 8] = "", answers[16384];
    open_model(world, &plain, &model);
    for (size_t i = 0; i < 300; i++) // several batches
        memcpy(text + 4 * i, "0,9\n", 5);
    memcpy(text + 4 * 300, "1\n", 3);
    assert_int_equal(predict(&model, text, answers, sizeof answers, &why), BASE_EFORMAT);
    assert_non_null(
        strstr(why.text, "standard input: line 301, column 1: the row ends early, expected 2 numbers"));
    size_t lines = 0;
    for (const char *at = answers; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, 1 + 300);
    lab_model_close(&model);
}

static void write_data(const struct world *world, const char *text)
{
    struct base_reason why;
    const struct base_span span = {text, strlen(text)};
    assert_int_equal(base_file_write(world->data, 0644, &span, 1, &why), BASE_OK);
}

static void a_model_is_measured_on_the_data_of_the_settings(void **state)
{
    struct world *world = *state;
    struct base_reason why = {""};
    struct lab_model model;
    struct lab_measured measured;
    const struct node_model_file plain = identity(1, 0);
    char file[128];
    open_model(world, &plain, &model);
    write_data(world, "-1 1:3\n+1 2:3\n+1 1:3\n-1 2:3\n-1 1:1\n");
    snprintf(file, sizeof file, "data.test_file=%s", world->data);
    const char *settings[3] = {"data.kind=libsvm", file, NULL}; // features and classes come from the model
    assert_int_equal(lab_model_measure(&model, settings, 2, &measured, &why), BASE_OK);
    assert_true(measured.examples == 5 && fabs(measured.accuracy - 0.6) < 1e-12);
    settings[2] = "data.test_count=2";
    assert_int_equal(lab_model_measure(&model, settings, 3, &measured, &why), BASE_OK);
    assert_true(measured.examples == 2 && measured.accuracy == 1);
    assert_true(fabs(measured.loss - log1p(exp(-3.0))) < 1e-6);
    settings[2] = "data.features=3";
    assert_int_equal(lab_model_measure(&model, settings, 3, &measured, &why), BASE_EMISMATCH);
    assert_non_null(strstr(why.text, "the data have 3 features and 2 classes, expected 2 features"));
    settings[2] = "train.steps=3";
    assert_int_equal(lab_model_measure(&model, settings, 3, &measured, &why), BASE_EINVAL);
    assert_non_null(strstr(why.text, "found 'train.steps=3', expected a key data.*"));
    settings[2] = "data.fetures=3";
    assert_int_equal(lab_model_measure(&model, settings, 3, &measured, &why), BASE_EINVAL);
    assert_int_equal(lab_model_measure(&model, settings, 1, &measured, &why),
                     BASE_EINVAL); // no file is named
    assert_non_null(strstr(why.text, "data.train_file"));
    assert_int_equal(lab_model_measure(&model, settings, 0, &measured, &why), BASE_EMISMATCH); // digits
    assert_non_null(strstr(why.text, "784 features and 10 classes"));
    lab_model_close(&model);
}

// The examples of the format's own description.
static void protocol_buffers_are_encoded_as_described(void **state)
{
    (void)state;
    struct base_protobuf p = {0};
    static const uint8_t expected[] = {0x08, 0x96, 0x01, 0x12, 0x07, 't',  'e',  's',  't',  'i',  'n',
                                       'g',  0x1a, 0x03, 0x08, 0x96, 0x01, 0x22, 0x00, 0x80, 0x01, 0x00};
    base_protobuf_number(&p, 1, 150);
    base_protobuf_text(&p, 2, "testing");
    size_t inner = base_protobuf_open(&p, 3);
    base_protobuf_number(&p, 1, 150);
    base_protobuf_close(&p, inner);
    base_protobuf_close(&p, base_protobuf_open(&p, 4));
    base_protobuf_number(&p, 16, 0); // a tag of two bytes
    assert_int_equal(p.error, BASE_OK);
    assert_int_equal(base_buffer_length(&p.bytes), sizeof expected);
    assert_memory_equal(base_buffer_head(&p.bytes), expected, sizeof expected);
    base_protobuf_free(&p);
    static const uint64_t numbers[] = {0, 127, 128, 16383, 16384, UINT32_MAX, UINT64_MAX};
    static const size_t lengths[] = {1, 1, 2, 2, 3, 5, 10};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        base_protobuf_number(&p, 1, numbers[i]);
        assert_int_equal(base_buffer_length(&p.bytes), 1 + lengths[i]);
        base_protobuf_free(&p);
    }
}

static void the_length_of_a_message_goes_before_it(void **state)
{
    (void)state;
    static const uint8_t zeros[70000];
    static const size_t sizes[] = {1, 123, 124, 125, 126, 16379, 16380, 16381, 70000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct base_protobuf p = {0}, content = {0}, whole = {0};
        base_protobuf_bytes(&content, 2, zeros, sizes[i]);
        base_protobuf_bytes(&whole, 1, base_buffer_head(&content.bytes), base_buffer_length(&content.bytes));
        size_t outer = base_protobuf_open(&p, 1);
        base_protobuf_bytes(&p, 2, zeros, sizes[i]);
        base_protobuf_close(&p, outer);
        assert_int_equal(base_buffer_length(&p.bytes), base_buffer_length(&whole.bytes));
        assert_memory_equal(base_buffer_head(&p.bytes), base_buffer_head(&whole.bytes),
                            base_buffer_length(&p.bytes));
        base_protobuf_free(&p);
        base_protobuf_free(&content);
        base_protobuf_free(&whole);
    }
    struct base_protobuf broken = {.error = BASE_ELIMIT}; // the error stays, and nothing more is written
    base_protobuf_close(&broken, base_protobuf_open(&broken, 1));
    base_protobuf_text(&broken, 2, "x");
    assert_true(broken.error == BASE_ELIMIT && base_buffer_length(&broken.bytes) == 0);
}

// -- a reader, as far as these tests need one

struct field {
    unsigned number;
    uint64_t value; // or the number of bytes at `at`
    const uint8_t *at;
};
struct span {
    const uint8_t *at, *end;
};

static uint64_t read_varint(struct span *span)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        assert_true(span->at < span->end && shift < 64);
        value |= (uint64_t)(*span->at & 0x7f) << shift;
        if (!(*span->at++ & 0x80))
            return value;
    }
}

static bool next_field(struct span *span, struct field *field)
{
    if (span->at == span->end)
        return false;
    const uint64_t tag = read_varint(span);
    field->number = (unsigned)(tag >> 3);
    field->value = read_varint(span);
    field->at = span->at;
    assert_true((tag & 7) == 0 || (tag & 7) == 2);
    if ((tag & 7) == 2) {
        assert_true(field->value <= (size_t)(span->end - span->at));
        span->at += field->value;
    }
    return true;
}

// The `index`th field with that number.
static struct field find(struct span span, unsigned number, size_t index)
{
    struct field field;
    while (next_field(&span, &field))
        if (field.number == number && index-- == 0)
            return field;
    fail_msg("there is no field %u", number);
    return field;
}

static struct span inside(struct span span, unsigned number, size_t index)
{
    const struct field field = find(span, number, index);
    return (struct span){field.at, field.at + field.value};
}

static size_t count_of(struct span span, unsigned number)
{
    struct field field;
    size_t count = 0;
    while (next_field(&span, &field))
        count += field.number == number;
    return count;
}

static void assert_text(struct span span, unsigned number, size_t index, const char *expected)
{
    const struct field field = find(span, number, index);
    assert_int_equal(field.value, strlen(expected));
    assert_memory_equal(field.at, expected, strlen(expected));
}

struct node {
    const char *operator, * input, *output;
};

static void assert_nodes(struct span graph, const struct node *nodes, size_t count)
{
    assert_int_equal(count_of(graph, 1), count);
    for (size_t i = 0; i < count; i++) {
        const struct span node = inside(graph, 1, i);
        assert_text(node, 4, 0, nodes[i].operator);
        assert_text(node, 1, 0, nodes[i].input);
        assert_text(node, 2, 0, nodes[i].output);
        assert_int_equal(count_of(node, 5), 0); // no attributes: all have their defaults
    }
}

static void a_model_becomes_an_onnx_graph(void **state)
{
    (void)state;
    static float parameters[3 * 4 + 4 + 4 * 2 + 2];
    struct node_model_file model = {
        .spec = {.kind = TRAIN_MLP, .inputs = 3, .classes = 2, .hidden = {4}, .n_hidden = 1},
        .about = {.input_divisor = 255, .first_label = 1, .origin = "here"},
        .parameters = parameters};
    struct base_protobuf p = {0};
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
        parameters[i] = (float)i;
    assert_int_equal(lab_onnx_encode(&model, "1.2", &p, NULL), BASE_OK);
    assert_int_equal(p.error, BASE_OK);
    const struct span whole = {base_buffer_head(&p.bytes),
                               base_buffer_head(&p.bytes) + base_buffer_length(&p.bytes)};
    assert_int_equal(find(whole, 1, 0).value, 7);
    assert_text(whole, 2, 0, "p2pml");
    assert_text(whole, 3, 0, "1.2");
    assert_int_equal(find(inside(whole, 8, 0), 2, 0).value, 13);
    assert_text(inside(whole, 14, 3), 2, 0, "1..2");
    const struct span graph = inside(whole, 7, 0);
    static const struct node nodes[] = {{"Div", "input", "divided"},
                                        {"Gemm", "divided", "layers.0.sums"},
                                        {"Relu", "layers.0.sums", "layers.0.output"},
                                        {"Gemm", "layers.0.output", "logits"},
                                        {"Softmax", "logits", "probabilities"}};
    assert_nodes(graph, nodes, 5);
    assert_int_equal(count_of(graph, 5), 5);
    const struct span scalar = inside(graph, 5, 0), weight = inside(graph, 5, 1), bias = inside(graph, 5, 4);
    assert_true(count_of(scalar, 1) == 0 && find(scalar, 9, 0).value == 4);
    assert_true(find(weight, 1, 0).value == 3 && find(weight, 1, 1).value == 4 &&
                find(weight, 2, 0).value == 1);
    assert_text(weight, 8, 0, "layers.0.weight");
    assert_int_equal(find(weight, 9, 0).value, 12 * sizeof(float));
    assert_memory_equal(find(weight, 9, 0).at, parameters, 12 * sizeof(float));
    assert_true(count_of(bias, 1) == 1 && find(bias, 1, 0).value == 2);
    assert_memory_equal(find(bias, 9, 0).at, parameters + 24, 2 * sizeof(float));
    assert_text(inside(graph, 11, 0), 1, 0, "input");
    assert_int_equal(count_of(graph, 12), 2);
    base_protobuf_free(&p);
    model.spec = two;
    model.about.input_divisor = 1; // no division
    assert_int_equal(lab_onnx_encode(&model, "1.2", &p, NULL), BASE_OK);
    assert_nodes(inside((struct span){base_buffer_head(&p.bytes),
                                      base_buffer_head(&p.bytes) + base_buffer_length(&p.bytes)},
                        7, 0),
                 (const struct node[]){{"Gemm", "input", "logits"}, {"Softmax", "logits", "probabilities"}},
                 2);
    base_protobuf_free(&p);
}

static void the_graph_of_a_regression_scales_inputs_and_outputs(void **state)
{
    (void)state;
    static float parameters[3] = {1, 2, 3}, two_numbers[2] = {1, 2};
    static double two_shifts[2] = {1, 2};
    char target[] = "y", *names[] = {target};
    struct train_meaning meaning = {.features = 2,
                                    .targets = {names, 1},
                                    .scale = TRAIN_SCALE_STANDARD,
                                    .shift = two_shifts,
                                    .factor = two_numbers,
                                    .target_shift = two_shifts,
                                    .target_factor = two_numbers};
    const struct node_model_file model = {
        .spec = {.kind = TRAIN_SOFTMAX, .inputs = 2, .classes = 1, .loss = TRAIN_MSE},
        .about = {.input_divisor = 1, .meaning = &meaning},
        .parameters = parameters};
    static const struct node nodes[] = {{"Sub", "input", "shifted"},
                                        {"Mul", "shifted", "scaled"},
                                        {"Gemm", "scaled", "logits"},
                                        {"Div", "logits", "widened"},
                                        {"Add", "widened", "values"}};
    struct base_protobuf p = {0};
    assert_int_equal(lab_onnx_encode(&model, "1.2", &p, NULL), BASE_OK);
    const struct span graph = inside(
        (struct span){base_buffer_head(&p.bytes), base_buffer_head(&p.bytes) + base_buffer_length(&p.bytes)},
        7, 0);
    assert_nodes(graph, nodes, sizeof nodes / sizeof *nodes);
    assert_int_equal(count_of(graph, 12), 1);
    assert_text(inside(graph, 12, 0), 1, 0, "values");
    base_protobuf_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_numbers_are_read),
        cmocka_unit_test(bad_rows_are_refused_with_line_and_column),
        cmocka_unit_test_setup_teardown(answers_are_labels_of_the_data_and_probabilities, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_before_a_bad_one_are_answered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_model_is_measured_on_the_data_of_the_settings, set_up, tear_down),
        cmocka_unit_test(protocol_buffers_are_encoded_as_described),
        cmocka_unit_test(the_length_of_a_message_goes_before_it),
        cmocka_unit_test(a_model_becomes_an_onnx_graph),
        cmocka_unit_test(the_graph_of_a_regression_scales_inputs_and_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
