// Image networks that are selected by name: LeNet-5 (LeCun, Bottou, Bengio, Haffner 1998) with ReLU and max
// pooling; the usual small network with two convolutions of 32 and 64 channels; ResNet-20 for CIFAR (He,
// Zhang, Ren, Sun 2016, section 4.2) with group norm of 8 groups. Only the image size and the number of
// classes vary.
#include "train/layers.h"
#include "train/models.h"

#include <stdio.h>
#include <string.h>

#define GROUPS 8u

static enum base_error check(const struct train_model_spec *spec, struct base_reason *why)
{
    const struct train_image *image = &spec->image;
    if (image->height == 0 || image->width == 0 || image->channels == 0)
        return base_fail(why, BASE_EINVAL,
                         "%s takes images, but the data are rows of %zu numbers; set model.kind "
                         "to mlp, or data.kind to idx, digits, images or cifar10",
                         train_model_kind_name(spec->kind), spec->inputs);
    if (image->height > LIMIT_IMAGE_SIDE || image->width > LIMIT_IMAGE_SIDE || image->channels > 4 ||
        image->height * image->width * image->channels != spec->inputs)
        return base_fail(why, BASE_EINVAL,
                         "images of %zu x %zu x %zu do not have the %zu numbers of an "
                         "example",
                         image->height, image->width, image->channels, spec->inputs);
    return BASE_OK;
}

static void describe(const struct train_model_spec *spec, char *text, size_t capacity)
{
    static const char *const losses[] = {
        [TRAIN_CROSS_ENTROPY] = "", [TRAIN_MSE] = ", mse", [TRAIN_MAE] = ", mae"};
    (void)snprintf(text, capacity, "%s %zux%zux%zu-%zu%s", train_model_kind_name(spec->kind),
                   spec->image.height, spec->image.width, spec->image.channels, spec->classes,
                   losses[spec->loss]);
}

static bool parse(const char *text, struct train_model_spec *spec)
{
    int end = 0;
    const int found = sscanf(text, " %5zux%5zux%1zu-%9zu%n", &spec->image.height, &spec->image.width,
                             &spec->image.channels, &spec->classes, &end);
    const char *rest = text + end;
    spec->loss = strcmp(rest, ", mse") == 0   ? TRAIN_MSE
                 : strcmp(rest, ", mae") == 0 ? TRAIN_MAE
                                              : TRAIN_CROSS_ENTROPY;
    spec->inputs = spec->image.height * spec->image.width * spec->image.channels;
    return found == 4 && (rest[0] == 0 || spec->loss != TRAIN_CROSS_ENTROPY);
}

static void begin(const struct train_model_spec *spec, struct train_plan *plan)
{
    plan->in = (struct train_shape){.positions = 1,
                                    .height = spec->image.height,
                                    .width = spec->image.width,
                                    .channels = spec->image.channels};
}

static void build_lenet(const struct train_model_spec *spec, struct train_plan *plan)
{
    begin(spec, plan);
    train_plan_add(plan, train_conv(6, 5, 1, 0, true, true), "conv1", "conv1");
    train_plan_add(plan, train_max_pool(2), "pool1", "pool1");
    train_plan_add(plan, train_conv(16, 5, 1, 0, true, true), "conv2", "conv2");
    train_plan_add(plan, train_max_pool(2), "pool2", "pool2");
    train_plan_add(plan, train_linear(120, true), "fc1", "fc1");
    train_plan_add(plan, train_linear(84, true), "fc2", "fc2");
    train_plan_add(plan, train_linear(spec->classes, false), "fc3", "fc3");
}

static void build_cnn(const struct train_model_spec *spec, struct train_plan *plan)
{
    begin(spec, plan);
    train_plan_add(plan, train_conv(32, 3, 1, 0, true, true), "conv1", "conv1");
    train_plan_add(plan, train_max_pool(2), "pool1", "pool1");
    train_plan_add(plan, train_conv(64, 3, 1, 0, true, true), "conv2", "conv2");
    train_plan_add(plan, train_max_pool(2), "pool2", "pool2");
    train_plan_add(plan, train_linear(spec->classes, false), "fc", "fc");
}

static void build_resnet20(const struct train_model_spec *spec, struct train_plan *plan)
{
    begin(spec, plan);
    train_plan_add(plan, train_conv(16, 3, 1, 1, false, false), "conv1", "conv1");
    train_plan_add(plan, train_norm(GROUPS, true), "norm1", "norm1");
    for (size_t stage = 0; stage < 3; stage++) {
        for (size_t block = 0; block < 3; block++) {
            char name[32];
            (void)snprintf(name, sizeof name, "layer%zu.%zu", stage + 1, block);
            train_plan_add(plan, train_residual((size_t)16 << stage, stage > 0 && block == 0 ? 2 : 1, GROUPS),
                           name, name);
        }
    }
    train_plan_add(plan, train_mean_pool(0), "pool", "pool");
    train_plan_add(plan, train_linear(spec->classes, false), "fc", "fc");
}

const struct train_model_type train_model_lenet = {
    .name = "lenet", .check = check, .build = build_lenet, .describe = describe, .parse = parse};
const struct train_model_type train_model_cnn = {
    .name = "cnn", .check = check, .build = build_cnn, .describe = describe, .parse = parse};
const struct train_model_type train_model_resnet20 = {
    .name = "resnet20", .check = check, .build = build_resnet20, .describe = describe, .parse = parse};
