#include "base/log.h"
#include "lab/model/model.h"
#include "node/learn/data.h"

#include <string.h>

static enum base_error check_key(const char *setting, struct base_reason *why)
{
    if (strncmp(setting, "data.", 5) == 0)
        return BASE_OK;
    return base_fail(why, BASE_EINVAL, "--set: found '%.100s', expected a key data.*, such as data.kind=idx",
                     setting);
}

// Sets a property of the data as the model has it, unless a setting gives it.
static enum base_error assign_text(struct node_config *config, const char *path, const char *key,
                                   const char *value, struct base_reason *why)
{
    char setting[64];
    if (strcmp(node_schema_origin(&node_config_schema, config, key), "default") != 0)
        return BASE_OK;
    snprintf(setting, sizeof setting, "%s=%s", key, value);
    return node_schema_assign(&node_config_schema, path, setting, config, why);
}

static enum base_error assign(struct node_config *config, const char *path, const char *key, size_t value,
                              struct base_reason *why)
{
    char text[24];
    snprintf(text, sizeof text, "%zu", value);
    return assign_text(config, path, key, text, why);
}

// The kind of the training files. A model that is older than data_kind has none: it follows from other
// metadata.
static enum base_error assign_kind(struct node_config *config, const struct lab_model *m,
                                   struct base_reason *why)
{
    const struct node_model_about *about = &m->file.about;
    const struct train_meaning *meaning = about->meaning;
    enum base_error error = BASE_OK;
    if (about->kind[0])
        error = assign_text(config, m->path, "data.kind", about->kind, why);
    else if (meaning && (meaning->n_columns || meaning->width))
        error = assign_text(config, m->path, "data.kind", meaning->width ? "images" : "csv", why);
    if (!error && config->data.kind == NODE_DATA_TEXT && about->text == TRAIN_TEXT_CHARACTERS)
        error = assign_text(config, m->path, "data.text", "characters", why);
    return error;
}

// Images are resized to the size of the model's.
static enum base_error assign_images(struct node_config *config, const struct lab_model *m,
                                     struct base_reason *why)
{
    const struct train_meaning *meaning = m->file.about.meaning;
    char size[48];
    snprintf(size, sizeof size, "%zux%zu", meaning->width, meaning->height);
    enum base_error error = assign_text(config, m->path, "data.image_size", size, why);
    return error ? error
                 : assign_text(config, m->path, "data.image_colour", meaning->channels == 3 ? "rgb" : "grey",
                               why);
}

static bool is_chosen(const struct node_config *config, const char *key)
{
    return strcmp(node_schema_origin(&node_config_schema, config, key), "default") != 0;
}

// Another split would test on examples that the model was trained on.
static enum base_error assign_split(struct node_config *config, const struct lab_model *m,
                                    struct base_reason *why)
{
    const struct train_split *split = &m->file.about.split;
    if (split->examples == 0 || (split->tests == 0 && node_config_splits(config)))
        return BASE_OK;
    if (!node_config_splits(config)) {
        config->data.seed = split->seed; // of the digest
        return BASE_OK;
    }
    if ((is_chosen(config, "data.seed") && config->data.seed != split->seed) ||
        (is_chosen(config, "data.test_part") &&
         (config->data.test_part < split->part || config->data.test_part > split->part)))
        return base_fail(
            why, BASE_EINVAL,
            "found data.seed %llu and data.test_part %g, but the model was trained with %llu and %g: "
            "some of these examples were trained on; leave both out, or name a data.test_file",
            (unsigned long long)config->data.seed, config->data.test_part, (unsigned long long)split->seed,
            split->part);
    config->data.seed = split->seed;
    config->data.test_part = split->part;
    return BASE_OK;
}

// The file may have changed since the training.
static enum base_error check_split(const struct lab_model *m, const struct train_dataset *data,
                                   struct base_reason *why)
{
    const struct train_split *then = &m->file.about.split, *now = &data->split;
    if (now->examples == 0)
        return BASE_OK;
    if (now->tests == 0) {
        if (then->tests == 0 && then->examples > 0 && then->digest == now->digest)
            base_log(
                BASE_LOG_WARN, "data",
                "this is the file that the model was trained on, all of it: what the model has learnt by "
                "heart counts as right");
        else if (then->examples == now->examples && then->digest == now->digest)
            base_log(
                BASE_LOG_WARN, "data",
                "this is the file that the model was trained on: of its %zu examples, %zu were held out; name "
                "it as data.train_file to test on these alone",
                then->examples, then->tests);
        return BASE_OK;
    }
    if (then->tests == 0) {
        base_log(BASE_LOG_WARN, "data",
                 "the model does not say which examples it was trained on; these may be among them");
        return BASE_OK;
    }
    if (then->digest == now->digest && then->tests_digest == now->tests_digest)
        return BASE_OK;
    if (data->tokens)
        return base_fail(
            why, BASE_EMISMATCH,
            "the text is not the one that the model was trained on, so its end may have been trained "
            "on; name a text for tests with --set data.test_file=...");
    base_log(
        BASE_LOG_WARN, "data",
        "the file is not the one that the model was trained on: it has %zu examples, %zu of them held out; "
        "the training had %zu and %zu. Examples of the training that are still here are not tested on",
        now->examples, now->tests, then->examples, then->tests);
    return BASE_OK;
}

// The delimiter, the decimal mark and the scaling that the model was trained with.
static enum base_error assign_meaning(struct node_config *config, const struct lab_model *m,
                                      struct base_reason *why)
{
    const struct train_meaning *meaning = m->file.about.meaning;
    const char character[2] = {meaning->delimiter, 0};
    enum base_error error = BASE_OK;
    if (config->data.kind == NODE_DATA_IMAGES && meaning->width > 0)
        error = assign_images(config, m, why);
    if (!error && meaning->decimal && config->data.kind == NODE_DATA_CSV)
        error =
            assign_text(config, m->path, "data.decimal", meaning->decimal == ',' ? "comma" : "point", why);
    if (!error && meaning->delimiter && config->data.kind == NODE_DATA_CSV)
        error = assign_text(config, m->path, "data.delimiter",
                            meaning->delimiter == '\t'  ? "tab"
                            : meaning->delimiter == ' ' ? "space"
                                                        : character,
                            why);
    config->data.scale = (int)meaning->scale;
    return error;
}

static enum base_error configure(const struct lab_model *m, const char *const *settings, size_t n_settings,
                                 struct node_config *config, struct base_reason *why)
{
    enum base_error error = node_schema_defaults(&node_config_schema, config, why);
    for (size_t i = 0; i < n_settings && !error; i++) {
        error = check_key(settings[i], why);
        if (!error)
            error = node_schema_set(&node_config_schema, settings[i], config, why);
    }
    if (!error)
        error = assign_kind(config, m, why);
    if (!error && m->file.about.meaning)
        error = assign_meaning(config, m, why);
    if (!error)
        error = assign_split(config, m, why);
    if (!error && config->data.kind == NODE_DATA_LIBSVM)
        error = assign(config, m->path, "data.features", m->file.spec.inputs, why);
    if (!error && config->data.kind != NODE_DATA_DIGITS && !node_config_finds_classes(config))
        error = assign(config, m->path, "data.classes", m->file.spec.classes, why);
    config->model.loss = (int)m->file.spec.loss;
    if (m->file.spec.kind == TRAIN_LOGISTIC && !config->data.scale)
        config->model.kind = TRAIN_LOGISTIC; // keeps its rows sparse
    if (m->file.spec.kind == TRAIN_GPT2) {
        config->model.context = m->file.spec.inputs;
        config->data.vocabulary = m->file.spec.classes;
    }
    return error ? error : node_config_check_tests(config, m->file.about.meaning != NULL, why);
}

// Checks that the tokens are those of the model.
static enum base_error check_text(const struct lab_model *m, const struct train_dataset *data,
                                  struct base_reason *why)
{
    const struct node_model_about *about = &m->file.about;
    size_t at = 0;
    if (!data->tokens || about->text == TRAIN_TEXT_NONE)
        return BASE_OK;
    if (data->meaning->text != about->text)
        return base_fail(why, BASE_EMISMATCH,
                         "the data have other tokens than the model in '%s': bytes, characters or "
                         "ids; name them with --set data.kind=... and data.text=...",
                         m->path);
    for (size_t i = 0; i < data->meaning->classes.count; i++) {
        const char *name = data->meaning->classes.items[i];
        if (strncmp(about->characters + at, name, strlen(name)) != 0)
            return base_fail(
                why, BASE_EMISMATCH,
                "the characters of the text differ from those of the model in '%s': id %zu is '%s' in the "
                "text, '%.4s' in the model",
                m->path, i, name, about->characters + at);
        at += strlen(name);
    }
    return BASE_OK;
}

static enum base_error check_shape(const struct lab_model *m, const struct train_dataset *data,
                                   struct base_reason *why)
{
    const struct train_model_spec *spec = &m->file.spec;
    if (data->features != spec->inputs || data->classes > spec->classes ||
        data->outputs != (spec->loss != TRAIN_CROSS_ENTROPY ? spec->classes : 0))
        return base_fail(
            why, BASE_EMISMATCH,
            "the data have %zu features and %zu classes, expected %zu features and up to %zu classes, "
            "as the model in '%s' has; name its data with --set data.kind=...",
            data->features, data->classes, spec->inputs, spec->classes, m->path);
    return check_text(m, data, why);
}

enum base_error lab_model_measure(struct lab_model *m, const char *const *settings, size_t n_settings,
                                  struct lab_measured *measured, struct base_reason *why)
{
    struct node_config config = {0};
    struct train_dataset data = {0};
    enum base_error error = configure(m, settings, n_settings, &config, why);
    if (!error)
        error = node_data_load_tests(&config, m->file.about.meaning, &data, why);
    if (!error && train_model_takes_ids(m->model) != (data.tokens != NULL))
        error = base_fail(why, BASE_EMISMATCH,
                          "'%s' is a model of %s, the data are %s; name its data with --set data.kind=...",
                          m->path, data.tokens ? "numbers" : "text", data.tokens ? "text" : "numbers");
    if (!error)
        error = check_shape(m, &data, why);
    if (!error)
        error = check_split(m, &data, why);
    if (!error) {
        struct train_score score;
        train_model_evaluate(m->model, m->parameters, &data, &score);
        *measured = (struct lab_measured){score.accuracy,   score.loss,          score.rmse,
                                          data.outputs > 0, data.tokens != NULL, data.examples};
    }
    train_dataset_destroy(&data);
    node_schema_free(&node_config_schema, &config);
    return error;
}
