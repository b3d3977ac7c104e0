#include "lab/model/model.h"

#define BATCH_MAX    128u
#define BATCH_TOKENS ((size_t)1 << 10) // of a model of text
#define BATCH_VALUES ((size_t)1 << 20) // inputs of one batch, where rows are wide

static enum base_error make(struct lab_model *m, struct base_reason *why)
{
    const size_t inputs = m->file.spec.inputs;
    // A window of text is many rows in every layer.
    m->batch = (m->file.spec.kind == TRAIN_GPT2 ? BATCH_TOKENS : BATCH_VALUES) / inputs;
    m->batch = m->batch < 1 ? 1 : m->batch > BATCH_MAX ? BATCH_MAX : m->batch;
    enum base_error error = kernels_open("cpu", 1, &m->kernels, why);
    if (!error)
        error = train_model_create(&m->file.spec, m->kernels, m->batch, &m->model, why);
    if (error)
        return error;
    const size_t bytes = train_model_parameters(m->model) * sizeof(float);
    m->parameters = m->kernels->alloc(bytes);
    if (!m->parameters)
        return base_fail(why, BASE_ENOMEM, "no memory for a model of %zu bytes", bytes);
    m->kernels->upload(m->parameters, m->file.parameters, bytes);
    return BASE_OK;
}

enum base_error lab_model_read(const char *path, struct node_model_file *file, struct base_reason *why)
{
    char found[NODE_MODEL_PATH];
    enum base_error error = node_model_find(path, found, why);
    return error ? error : node_model_read(found, NULL, file, why);
}

enum base_error lab_model_open(const char *path, struct lab_model *model, struct base_reason *why)
{
    struct lab_model made = {0};
    enum base_error error = node_model_find(path, made.path, why);
    if (!error)
        error = node_model_read(made.path, NULL, &made.file, why);
    if (!error)
        error = make(&made, why);
    if (error)
        lab_model_close(&made);
    *model = made;
    return error;
}

void lab_model_close(struct lab_model *model)
{
    if (model->parameters)
        model->kernels->release(model->parameters);
    train_model_destroy(model->model);
    node_model_free(&model->file);
    *model = (struct lab_model){0};
}
