#include "lab/compute/evaluate.h"

#include "base/plural.h"
#include "lab/record/directory.h"
#include "node/learn/data.h"
#include "node/setup.h"
#include "node/store/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096u

struct lab_score lab_score_unknown(void)
{
    return (struct lab_score){NAN, NAN, NAN, false};
}

enum base_error lab_workbench_load(const struct lab_experiment *experiment, struct lab_workbench *bench,
                                   struct base_reason *why)
{
    *bench = (struct lab_workbench){0};
    lab_experiment_view(experiment, &bench->view);
    enum base_error error = node_data_load(&bench->view, NODE_DATA_ALL, &bench->train, &bench->test, why);
    if (!error)
        error = node_setup_check_start(&bench->view, &bench->train, why);
    if (!error)
        node_data_advise(&bench->view, NODE_DATA_ALL, &bench->train, &bench->test);
    return error;
}

enum base_error lab_workbench_open(struct lab_workbench *bench, struct base_reason *why)
{
    static const char *const devices[] = {"cpu", "cuda", "auto"};
    enum base_error error = kernels_open(devices[bench->view.device.kind], 1, &bench->kernels, why);
    if (!error && bench->view.device.precision == 1)
        error = kernels_take_bf16(&bench->kernels, why);
    if (!error)
        error = node_setup_model(&bench->view, &bench->train, bench->kernels, &bench->model, why);
    if (error)
        return error;
    bench->parameters = train_model_parameters(bench->model);
    train_model_describe(bench->model, bench->description, sizeof bench->description);
    return BASE_OK;
}

void lab_workbench_close(struct lab_workbench *bench)
{
    train_model_destroy(bench->model);
    train_dataset_destroy(&bench->train);
    train_dataset_destroy(&bench->test);
    *bench = (struct lab_workbench){0};
}

const char *lab_workbench_measures(const struct lab_workbench *bench)
{
    return bench->test.outputs > 0 ? "R2" : "accuracy";
}

enum base_error lab_score_model(const struct lab_workbench *bench, struct train_model *model,
                                const float *parameters, struct lab_score *score)
{
    size_t bytes = bench->parameters * sizeof *parameters;
    float *device = bench->kernels->alloc(bytes);
    if (!device)
        return BASE_ENOMEM;
    bench->kernels->upload(device, parameters, bytes);
    struct train_score found;
    train_model_evaluate(model, device, &bench->test, &found);
    bench->kernels->release(device);
    *score = (struct lab_score){found.accuracy, found.loss, found.rmse, bench->test.outputs > 0};
    return BASE_OK;
}

void lab_models_mean(const float *const *models, size_t count, size_t parameters, float *mean)
{
    for (size_t k = 0; k < parameters; k++) {
        double sum = 0;
        for (size_t i = 0; i < count; i++)
            sum += (double)models[i][k];
        mean[k] = (float)(sum / (double)count);
    }
}

// sqrt(1/n sum_i |x_i - m|^2) / |m|
double lab_models_consensus(const float *const *models, size_t count, size_t parameters, const float *mean)
{
    double distance = 0, norm = 0;
    for (size_t k = 0; k < parameters; k++) {
        double m = (double)mean[k];
        norm += m * m;
        for (size_t i = 0; i < count; i++) {
            double difference = (double)models[i][k] - m;
            distance += difference * difference;
        }
    }
    if (norm > 0)
        return sqrt(distance / (double)count / norm);
    return distance > 0 ? NAN : 0;
}

// Returns the parameters, malloc'ed; NULL: they cannot be read.
static float *read_model(const struct lab_workbench *bench, const struct lab_node *node)
{
    char path[PATH_BYTES];
    struct base_reason why = {""};
    struct node_model_file model = {0};
    enum base_error error = node_checkpoint_newest(node->directory, path, sizeof path, &why);
    if (!error)
        error = node_model_read(path, train_model_spec(bench->model), &model, &why);
    if (error)
        fprintf(stderr, "p2pml: %s is not in the averaged model: %s\n", node->name, why.text);
    float *parameters = model.parameters;
    model.parameters = NULL;
    node_model_free(&model);
    return parameters;
}

static enum base_error average_models(const struct lab_workbench *bench, float **models,
                                      struct lab_average *average)
{
    float *mean = malloc(bench->parameters * sizeof *mean);
    if (!mean)
        return BASE_ENOMEM;
    const float *const *read = (const float *const *)models;
    lab_models_mean(read, average->nodes, bench->parameters, mean);
    if (average->nodes > 1)
        average->consensus = lab_models_consensus(read, average->nodes, bench->parameters, mean);
    average->model = mean;
    return lab_score_model(bench, bench->model, mean, &average->score);
}

enum base_error lab_average_nodes(const struct lab_workbench *bench, const struct lab_cluster *cluster,
                                  struct lab_average *average)
{
    float *models[LAB_NODES_MAX] = {0};
    struct lab_average found = {.score = lab_score_unknown(), .consensus = NAN};
    for (size_t i = 0; i < cluster->count; i++) {
        if (lab_node_ended_well(&cluster->nodes[i]))
            models[found.nodes] = read_model(bench, &cluster->nodes[i]);
        found.nodes += models[found.nodes] != NULL;
    }
    enum base_error error = found.nodes ? average_models(bench, models, &found) : BASE_OK;
    for (size_t i = 0; i < LAB_NODES_MAX; i++)
        free(models[i]);
    if (!error)
        *average = found;
    else
        lab_average_free(&found);
    return error;
}

void lab_average_free(struct lab_average *average)
{
    free(average->model);
    average->model = NULL;
}

enum base_error lab_average_write(const struct lab_average *average, const struct lab_workbench *bench,
                                  const char *directory, struct base_reason *why)
{
    if (!average->model)
        return BASE_OK;
    struct node_model_file file = {.spec = *train_model_spec(bench->model),
                                   .about = node_setup_about(&bench->view, &bench->train),
                                   .parameters = average->model};
    snprintf(file.about.origin, sizeof file.about.origin, "the mean of %zu node%s", average->nodes,
             base_plural(average->nodes));
    char *path = lab_path("%s/" NODE_MODEL_AVERAGED, directory);
    enum base_error error = node_model_write(path, &file, why);
    free(path);
    return error;
}
