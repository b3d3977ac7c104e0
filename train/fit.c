#include "train/fit.h"

#include "train/trainer.h"

#define SPARSE_ROWS 1024u // rows at a time: those that forward reads are still in the cache for backward

size_t train_fit_batch(const struct train_options *options, const struct train_dataset *data)
{
    return options->batch < data->examples ? options->batch : data->examples;
}

size_t train_fit_part(const struct train_options *options, const struct train_dataset *data, size_t batch)
{
    const size_t most = options->micro_batch > 0 ? options->micro_batch : data->csr ? SPARSE_ROWS : batch;
    return most < batch ? most : batch;
}

enum base_error train_fit_data(const struct train_options *options, const struct train_model *model,
                               const struct train_dataset *data, struct base_reason *why)
{
    const struct train_model_spec *spec = train_model_spec(model);
    const size_t batch = train_fit_part(options, data, train_fit_batch(options, data));
    if (data->examples == 0 || data->examples > UINT32_MAX)
        return base_fail(why, BASE_EINVAL, "the shard has %zu examples; expected 1 to %u", data->examples,
                         UINT32_MAX);
    if (train_model_takes_ids(model) != (data->tokens != NULL)) {
        char described[LIMIT_MODEL_TEXT_BYTES];
        train_spec_describe(spec, described, sizeof described);
        return base_fail(why, BASE_EINVAL, "the data are %s, the model '%.120s' takes %s",
                         data->tokens ? "text" : "numbers", described, data->tokens ? "numbers" : "text");
    }
    if (data->csr && !train_model_takes_rows(model))
        return base_fail(why, BASE_EINVAL, "the data are sparse, which model.kind logistic takes; found %s",
                         train_model_kind_name(spec->kind));
    if (!train_model_takes_rows(model) && (options->l1 > 0.0 || options->l2 > 0.0 || options->blocks > 1))
        return base_fail(why, BASE_EINVAL, "l1, l2 and blocks are for model.kind logistic; found %s",
                         train_model_kind_name(spec->kind));
    const bool regression = spec->loss != TRAIN_CROSS_ENTROPY;
    if (regression != (data->outputs > 0) || (regression && data->outputs != spec->classes))
        return base_fail(why, BASE_EINVAL, "the data have %zu target columns, the model %zu", data->outputs,
                         regression ? spec->classes : 0);
    if (data->features != spec->inputs || data->classes > spec->classes)
        return base_fail(why, BASE_EINVAL,
                         "the data have %zu features and %zu classes, the model takes %zu and %zu",
                         data->features, data->classes, spec->inputs, spec->classes);
    if (train_augment_is_on(&options->augment) && data->height == 0)
        return base_fail(why, BASE_EINVAL,
                         "data.crop and data.flip are for images, but the examples are not images");
    if (options->augment.crop > 0 &&
        (data->height <= options->augment.crop || data->width <= options->augment.crop))
        return base_fail(
            why, BASE_EINVAL,
            "data.crop: found %zu pixels, expected less than a side of the images, which are %zu x %zu",
            options->augment.crop, data->width, data->height);
    if (batch > train_model_max_batch(model))
        return base_fail(why, BASE_EINVAL, "a batch of %zu examples; the model was made for at most %zu",
                         batch, train_model_max_batch(model));
    return BASE_OK;
}

enum base_error train_fit_optimizer(const struct train_options *options, const struct train_model *model,
                                    struct base_reason *why)
{
    const struct kernels *kernels = train_model_kernels(model);
    const struct train_optimizer *optimizer = train_optimizer(options->optimizer);
    if (optimizer->runs && !optimizer->runs(kernels))
        return base_fail(why, BASE_EINVAL,
                         "train.optimizer %s does not run on '%s' yet; set device.kind to cpu",
                         optimizer->name, kernels->name);
    size_t n;
    const struct train_tensor *tensors = train_model_tensors(model, &n);
    if (optimizer->scratch && optimizer->scratch(tensors, n) == 0) {
        char described[LIMIT_MODEL_TEXT_BYTES];
        train_spec_describe(train_model_spec(model), described, sizeof described);
        return base_fail(why, BASE_EINVAL,
                         "train.optimizer %s is for weights between the first and the last layer, which "
                         "'%.120s' lacks; expected adamw",
                         optimizer->name, described);
    }
    return BASE_OK;
}
