// Work on the pool: node by node, or in slices of all vectors.
#include "lab/methods/engine.h"

#include <stdlib.h>
#include <string.h>

#define STRETCH 2048u // elements of a job

struct node_job {
    struct rounds_world *world;
    enum base_error (*run)(struct rounds_world *world, size_t node);
    size_t node;
    enum base_error error;
};

static void run_node(void *argument)
{
    struct node_job *job = argument;
    job->error = job->run(job->world, job->node);
}

enum base_error rounds_each(struct rounds_world *world,
                            enum base_error (*run)(struct rounds_world *world, size_t node))
{
    enum base_error error = BASE_OK;
    size_t count = 0;
    struct node_job *jobs = malloc((world->n + 1) * sizeof *jobs);
    if (!jobs)
        return BASE_ENOMEM;
    for (size_t i = 0; i < world->n; i++)
        if (!world->gone[i])
            jobs[count++] = (struct node_job){.world = world, .run = run, .node = i};
    lab_pool_each(world->options->pool, run_node, jobs, sizeof *jobs, count);
    for (size_t i = 0; i < count && !error; i++)
        error = jobs[i].error;
    free(jobs);
    return error;
}

static enum base_error take(struct rounds_world *world, size_t node)
{
    memcpy(world->x[node], world->given, world->d * sizeof(float));
    return BASE_OK;
}

enum base_error rounds_take(struct rounds_world *world, const float *model)
{
    world->given = model;
    return rounds_each(world, take);
}

float rounds_momentum(const struct rounds_world *world, float own)
{
    double said = world->config->average.outer_nesterov;
    return said > 0 ? (float)said : own;
}

float **rounds_vectors(size_t n, size_t d)
{
    float **vectors = calloc(n, sizeof *vectors), *all = calloc(n * d + 1, sizeof *all);
    if (!vectors || !all) {
        free(vectors);
        free(all);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        vectors[i] = all + i * d;
    return vectors;
}

void rounds_vectors_free(float **vectors)
{
    if (vectors)
        free(vectors[0]);
    free(vectors);
}

void rounds_drop_vectors(struct rounds_world *world)
{
    rounds_vectors_free(world->state);
}

struct stretch {
    const struct rounds_world *world;
    float *const *vectors;
    float *mean;
    size_t first, count;
    struct rounds_spread spread;
};

static void run_stretch(void *argument)
{
    struct stretch *s = argument;
    double sum[STRETCH] = {0};
    float *mean = s->mean + s->first;
    for (size_t i = 0; i < s->world->n; i++)
        for (size_t k = 0; !s->world->gone[i] && k < s->count; k++)
            sum[k] += (double)s->vectors[i][s->first + k];
    for (size_t k = 0; k < s->count; k++) {
        mean[k] = (float)(sum[k] / (double)s->world->living);
        s->spread.norm += (double)mean[k] * (double)mean[k];
    }
    for (size_t i = 0; i < s->world->n; i++)
        for (size_t k = 0; !s->world->gone[i] && k < s->count; k++) {
            double difference = (double)s->vectors[i][s->first + k] - (double)mean[k];
            s->spread.distance += difference * difference;
        }
}

enum base_error rounds_mean(struct rounds_world *world, float *const *vectors, float *mean,
                            struct rounds_spread *spread)
{
    size_t count = (world->d + STRETCH - 1) / STRETCH;
    struct stretch *jobs = calloc(count, sizeof *jobs);
    struct rounds_spread sum = {0};
    if (!jobs)
        return BASE_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        size_t first = i * STRETCH, left = world->d - first;
        jobs[i] = (struct stretch){.world = world,
                                   .vectors = vectors,
                                   .mean = mean,
                                   .first = first,
                                   .count = left < STRETCH ? left : STRETCH};
    }
    lab_pool_each(world->options->pool, run_stretch, jobs, sizeof *jobs, count);
    for (size_t i = 0; i < count; i++) {
        sum.distance += jobs[i].spread.distance;
        sum.norm += jobs[i].spread.norm;
    }
    free(jobs);
    *spread = sum;
    return BASE_OK;
}
