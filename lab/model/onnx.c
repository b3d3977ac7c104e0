#include "lab/model/onnx.h"

#include "base/file.h"
#include "node/store/safetensors.h"
#include "train/scale.h"

#include <stdio.h>
#include <stdlib.h>

#define IR_VERSION 7
#define OPSET      13
#define FLOAT      1 // TensorProto.DataType
#define DOUBLE     11
#define NAME_BYTES 40

// Field numbers of onnx.proto.
enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_GRAPH = 7,
    MODEL_OPSETS = 8,
    MODEL_PROPERTIES = 14
};
enum { OPSET_VERSION = 2 };
enum { PROPERTY_KEY = 1, PROPERTY_VALUE = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OPERATOR = 4, NODE_ATTRIBUTE = 5 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_INT = 3, ATTRIBUTE_TYPE = 20, ATTRIBUTE_IS_INT = 2 };
enum { TENSOR_DIMENSION = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2 };
enum { TYPE_TENSOR = 1 };
enum { TENSOR_TYPE_ELEMENT = 1, TENSOR_TYPE_SHAPE = 2 };
enum { SHAPE_DIMENSION = 1 };
enum { DIMENSION_VALUE = 1, DIMENSION_NAME = 2 };

static void put_type(struct base_protobuf *p, uint64_t type)
{
    const size_t attribute = base_protobuf_open(p, NODE_ATTRIBUTE);
    base_protobuf_text(p, ATTRIBUTE_NAME, "to");
    base_protobuf_number(p, ATTRIBUTE_INT, type);
    base_protobuf_number(p, ATTRIBUTE_TYPE, ATTRIBUTE_IS_INT);
    base_protobuf_close(p, attribute);
}

// inputs: up to three names, then NULL. `type`: of the result of a Cast, else 0.
static void put_typed_node(struct base_protobuf *p, const char *operator, const char * const inputs[3],
                           const char *output, uint64_t type)
{
    const size_t node = base_protobuf_open(p, GRAPH_NODE);
    for (size_t i = 0; i < 3 && inputs[i]; i++)
        base_protobuf_text(p, NODE_INPUT, inputs[i]);
    base_protobuf_text(p, NODE_OUTPUT, output);
    base_protobuf_text(p, NODE_NAME, output); // unique: every output is made once
    base_protobuf_text(p, NODE_OPERATOR, operator);
    if (type)
        put_type(p, type);
    base_protobuf_close(p, node);
}

static void put_node(struct base_protobuf *p, const char *operator, const char * const inputs[3],
                     const char *output)
{
    put_typed_node(p, operator, inputs, output, 0);
}

static void put_vector(struct base_protobuf *p, const char *name, size_t count, const double *values,
                       bool wide)
{
    float *narrow = wide ? NULL : malloc(count * sizeof *narrow);
    if (!wide && !narrow) {
        p->error = BASE_ENOMEM;
        return;
    }
    for (size_t i = 0; narrow && i < count; i++)
        narrow[i] = (float)values[i];
    const size_t tensor = base_protobuf_open(p, GRAPH_INITIALIZER);
    base_protobuf_number(p, TENSOR_DIMENSION, count);
    base_protobuf_number(p, TENSOR_TYPE, wide ? DOUBLE : FLOAT);
    base_protobuf_text(p, TENSOR_NAME, name);
    base_protobuf_bytes(p, TENSOR_RAW, wide ? (const void *)values : narrow,
                        count * (wide ? sizeof *values : sizeof *narrow));
    base_protobuf_close(p, tensor);
    free(narrow);
}

// rows 0: one dimension; both 0: a scalar.
static void put_tensor(struct base_protobuf *p, const char *name, size_t rows, size_t columns,
                       const float *data)
{
    const size_t count = (rows ? rows : 1) * (columns ? columns : 1),
                 tensor = base_protobuf_open(p, GRAPH_INITIALIZER);
    if (rows)
        base_protobuf_number(p, TENSOR_DIMENSION, rows);
    if (columns)
        base_protobuf_number(p, TENSOR_DIMENSION, columns);
    base_protobuf_number(p, TENSOR_TYPE, FLOAT);
    base_protobuf_text(p, TENSOR_NAME, name);
    base_protobuf_bytes(p, TENSOR_RAW, data, count * sizeof *data);
    base_protobuf_close(p, tensor);
}

// [N, width] of a type; N is not fixed.
static void put_value(struct base_protobuf *p, unsigned field, const char *name, size_t width,
                      uint64_t element)
{
    const size_t value = base_protobuf_open(p, field);
    base_protobuf_text(p, VALUE_NAME, name);
    const size_t type = base_protobuf_open(p, VALUE_TYPE), tensor = base_protobuf_open(p, TYPE_TENSOR);
    base_protobuf_number(p, TENSOR_TYPE_ELEMENT, element);
    const size_t shape = base_protobuf_open(p, TENSOR_TYPE_SHAPE),
                 rows = base_protobuf_open(p, SHAPE_DIMENSION);
    base_protobuf_text(p, DIMENSION_NAME, "N");
    base_protobuf_close(p, rows);
    const size_t columns = base_protobuf_open(p, SHAPE_DIMENSION);
    base_protobuf_number(p, DIMENSION_VALUE, width);
    base_protobuf_close(p, columns);
    base_protobuf_close(p, shape);
    base_protobuf_close(p, tensor);
    base_protobuf_close(p, type);
    base_protobuf_close(p, value);
}

static size_t width_of(const struct train_model_spec *spec, size_t i)
{
    return i == 0 ? spec->inputs : i <= spec->n_hidden ? spec->hidden[i - 1] : spec->classes;
}

struct names { // of the tensors of a layer
    char weight[NAME_BYTES], bias[NAME_BYTES], sums[NAME_BYTES], output[NAME_BYTES];
};

static struct names names_of(size_t layer, size_t layers)
{
    struct names names;
    snprintf(names.weight, NAME_BYTES, "layers.%zu.weight", layer);
    snprintf(names.bias, NAME_BYTES, "layers.%zu.bias", layer);
    snprintf(names.sums, NAME_BYTES, "layers.%zu.sums", layer);
    snprintf(names.output, NAME_BYTES, "layers.%zu.output", layer);
    if (layer + 1 == layers)
        snprintf(names.sums, NAME_BYTES, "logits");
    return names;
}

static void put_layers(struct base_protobuf *p, const struct train_model_spec *spec, const char *input)
{
    const size_t layers = spec->n_hidden + 1;
    char below[NAME_BYTES];
    snprintf(below, sizeof below, "%s", input);
    for (size_t i = 0; i < layers; i++) {
        const struct names names = names_of(i, layers);
        put_node(p, "Gemm", (const char *[3]){below, names.weight, names.bias}, names.sums);
        if (i + 1 < layers)
            put_node(p, "Relu", (const char *[3]){names.sums}, names.output);
        else if (spec->loss == TRAIN_CROSS_ENTROPY)
            put_node(p, "Softmax", (const char *[3]){names.sums}, "probabilities"); // over the last axis
        snprintf(below, sizeof below, "%s", names.output);
    }
}

// Adds the operators that turn the numbers of the data into the inputs of the first layer; returns their
// name.
static const char *put_scaling(struct base_protobuf *p, const struct node_model_about *about)
{
    const char *at = "input";
    if (about->input_divisor != 1) {
        put_node(p, "Div", (const char *[3]){at, "input_divisor"}, "divided");
        put_tensor(p, "input_divisor", 0, 0, &about->input_divisor);
        at = "divided";
    }
    if (about->meaning && about->meaning->shift) {
        const bool wide = train_scale_needs_double(about->meaning);
        put_node(p, "Sub", (const char *[3]){at, "shift"}, wide ? "differences" : "shifted");
        if (wide)
            put_typed_node(p, "Cast", (const char *[3]){"differences"}, "shifted", FLOAT);
        put_node(p, "Mul", (const char *[3]){"shifted", "factor"}, "scaled");
        put_vector(p, "shift", about->meaning->features, about->meaning->shift, wide);
        put_tensor(p, "factor", 0, about->meaning->features, about->meaning->factor);
        at = "scaled";
    }
    return at;
}

// Adds the operators that turn the output of a regression into the units of the targets.
static void put_values(struct base_protobuf *p, const struct train_meaning *meaning)
{
    if (!meaning || !meaning->target_factor) {
        put_node(p, "Identity", (const char *[3]){"logits"}, "values");
        return;
    }
    const bool wide = train_scale_needs_double(meaning);
    put_node(p, "Div", (const char *[3]){"logits", "target_factor"}, wide ? "quotients" : "widened");
    if (wide)
        put_typed_node(p, "Cast", (const char *[3]){"quotients"}, "widened", DOUBLE);
    put_node(p, "Add", (const char *[3]){"widened", "target_shift"}, "values");
    put_tensor(p, "target_factor", 0, meaning->targets.count, meaning->target_factor);
    put_vector(p, "target_shift", meaning->targets.count, meaning->target_shift, wide);
}

static void put_graph(struct base_protobuf *p, const struct node_model_file *model)
{
    const struct train_model_spec *spec = &model->spec;
    const size_t graph = base_protobuf_open(p, MODEL_GRAPH), layers = spec->n_hidden + 1;
    const float *at = model->parameters;
    put_layers(p, spec, put_scaling(p, &model->about));
    if (spec->loss != TRAIN_CROSS_ENTROPY)
        put_values(p, model->about.meaning);
    base_protobuf_text(p, GRAPH_NAME, "p2pml");
    for (size_t i = 0; i < layers; i++) {
        const struct names names = names_of(i, layers);
        const size_t in = width_of(spec, i), out = width_of(spec, i + 1);
        put_tensor(p, names.weight, in, out, at); // [in, out], as Gemm takes its second input
        put_tensor(p, names.bias, 0, out, at + in * out);
        at += (in + 1) * out;
    }
    const uint64_t outside = train_scale_needs_double(model->about.meaning) ? DOUBLE : FLOAT;
    put_value(p, GRAPH_INPUT, "input", spec->inputs, outside);
    if (spec->loss != TRAIN_CROSS_ENTROPY) {
        put_value(p, GRAPH_OUTPUT, "values", spec->classes, outside);
    } else {
        put_value(p, GRAPH_OUTPUT, "logits", spec->classes, FLOAT);
        put_value(p, GRAPH_OUTPUT, "probabilities", spec->classes, FLOAT);
    }
    base_protobuf_close(p, graph);
}

static void put_property(struct base_protobuf *p, const char *key, const char *value)
{
    const size_t property = base_protobuf_open(p, MODEL_PROPERTIES);
    base_protobuf_text(p, PROPERTY_KEY, key);
    base_protobuf_text(p, PROPERTY_VALUE, value);
    base_protobuf_close(p, property);
}

enum base_error lab_onnx_encode(const struct node_model_file *model, const char *version,
                                struct base_protobuf *p, struct base_reason *why)
{
    char described[LIMIT_MODEL_TEXT_BYTES], *owned = NULL;
    struct node_text_pair pairs[NODE_MODEL_ABOUT_PAIRS];
    size_t count;
    enum base_error error = node_model_about_pairs(&model->about, &model->spec, pairs, &count, &owned, why);
    if (error)
        return error;
    train_spec_describe(&model->spec, described, sizeof described);
    base_protobuf_number(p, MODEL_IR_VERSION, IR_VERSION);
    base_protobuf_text(p, MODEL_PRODUCER, "p2pml");
    base_protobuf_text(p, MODEL_PRODUCER_VERSION, version);
    put_graph(p, model);
    const size_t opset = base_protobuf_open(p, MODEL_OPSETS); // of the domain "", which is ONNX's own
    base_protobuf_number(p, OPSET_VERSION, OPSET);
    base_protobuf_close(p, opset);
    put_property(p, "model", described);
    put_property(p, "origin", model->about.origin);
    for (size_t i = 0; i < count; i++)
        put_property(p, pairs[i].key, pairs[i].text ? pairs[i].text : pairs[i].value);
    free(owned);
    return BASE_OK;
}

enum base_error lab_onnx_write(const char *path, const struct node_model_file *model, const char *version,
                               struct base_reason *why)
{
    struct base_protobuf p = {0};
    if (model->spec.kind > TRAIN_MLP)
        return base_fail(
            why, BASE_EINVAL,
            "only softmax and mlp models can be exported as ONNX, this one is %s; use --format torch",
            train_model_kind_name(model->spec.kind));
    enum base_error error = lab_onnx_encode(model, version, &p, why);
    if (error) {
        base_protobuf_free(&p);
        return error;
    }
    error = p.error;
    if (error == BASE_ELIMIT)
        error = base_fail(
            why, error,
            "cannot write '%s': the model is larger than 2 GiB, the maximum of an ONNX file; export it "
            "as torch",
            path);
    else if (error)
        error = base_fail(why, error, "cannot write '%s': %s", path, base_error_name(error));
    else
        error = base_file_write(path, 0644,
                                &(struct base_span){base_buffer_head(&p.bytes), base_buffer_length(&p.bytes)},
                                1, why);
    base_protobuf_free(&p);
    return error;
}
