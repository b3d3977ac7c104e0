// Makes and frees trainers. Every vector that training touches is allocated here.
#include "train/fit.h"
#include "train/trainer_private.h"
#include <stdlib.h>
#include <string.h>

static bool alloc_vector(const struct train_trainer *trainer, struct trainer_vector *vector)
{
    const size_t bytes = trainer->count * sizeof(float);
    vector->device = trainer->kernels->alloc(bytes);
    vector->host = trainer->kernels->shares_host ? vector->device : calloc(1, bytes);
    return vector->device && vector->host;
}

static void release_vector(const struct train_trainer *trainer, struct trainer_vector *vector)
{
    if (vector->host != vector->device)
        free(vector->host);
    trainer->kernels->release(vector->device);
}

static bool needs_state(const struct train_trainer *trainer, size_t i)
{
    const struct train_optimizer *o = trainer->optimizer;
    return o->state[i] && (!o->needs || o->needs(&trainer->options, i));
}

static bool alloc_order(struct train_trainer *trainer)
{
    const size_t features = train_model_spec(trainer->model)->inputs;
    size_t tensors, blocks = trainer->options.blocks;
    blocks = blocks < 1 ? 1 : blocks > features ? features : blocks;
    if (!train_model_takes_rows(trainer->model))
        return true;
    trainer->settle = (struct train_settle){
        .features = features,
        .outputs = train_model_tensors(trainer->model, &tensors)->count / features,
        .blocks = blocks,
        .l1 = trainer->options.l1,
        .l2 = trainer->options.l2,
        .seed = trainer->options.block_seed,
    };
    return train_settle_open(&trainer->settle);
}

// True if the update of an element needs no other element, and the whole batch passes through the model at
// once.
static bool takes_pieces(const struct train_trainer *trainer)
{
    const struct train_options *options = &trainer->options;
    const bool parts = options->micro_batch > 0 && options->micro_batch < options->batch;
    return !parts && !trainer->optimizer->scratch && options->clip_norm <= 0.0 &&
           !train_model_takes_rows(trainer->model) && train_model_gives(trainer->model, options->batch);
}

static bool alloc_scratch(struct train_trainer *trainer)
{
    size_t n;
    const struct train_tensor *tensors = train_model_tensors(trainer->model, &n);
    if (!trainer->optimizer->scratch)
        return true;
    trainer->n_scratch = trainer->optimizer->scratch(tensors, n);
    trainer->scratch = trainer->kernels->alloc(trainer->n_scratch * sizeof *trainer->scratch);
    return trainer->scratch != NULL;
}

static bool alloc_all(struct train_trainer *trainer)
{
    bool complete = alloc_order(trainer) && alloc_scratch(trainer) && alloc_vector(trainer, &trainer->x);
    complete = complete && (trainer->options.uncorrected || alloc_vector(trainer, &trainer->correction));
    complete = complete && (!trainer->options.holds_back || alloc_vector(trainer, &trainer->held));
    for (size_t i = 0; i < TRAIN_STATES; i++)
        complete = complete && (!needs_state(trainer, i) || alloc_vector(trainer, &trainer->state[i]));
    const size_t bytes = trainer->count * sizeof(float);
    if (complete && !takes_pieces(trainer))
        complete = (trainer->gradient = trainer->kernels->alloc(bytes)) != NULL;
    if (trainer->options.clip_norm > 0.0) {
        trainer->norm = trainer->kernels->alloc(sizeof *trainer->norm);
        complete = complete && trainer->norm;
    }
    if (trainer->options.proximal > 0.0) {
        trainer->round = trainer->kernels->alloc(bytes);
        complete = complete && trainer->round;
    }
    return complete;
}

enum base_error train_trainer_create(const struct train_options *options, struct train_model *model,
                                     const struct train_dataset *data, const float *start,
                                     struct train_trainer **out, struct base_reason *why)
{
    enum base_error error = train_options_check(options, why);
    if (!error)
        error = train_fit_data(options, model, data, why);
    if (!error)
        error = train_fit_optimizer(options, model, why);
    if (error)
        return error;
    struct train_trainer *trainer = calloc(1, sizeof *trainer);
    if (!trainer)
        return base_fail(why, BASE_ENOMEM, "out of memory for the trainer");
    trainer->options = *options;
    trainer->begun.rate = options->rate;
    trainer->begun.weight_decay = options->weight_decay;
    trainer->optimizer = train_optimizer(options->optimizer);
    trainer->model = model;
    trainer->kernels = train_model_kernels(model);
    trainer->home = data;
    trainer->count = train_model_parameters(model);
    trainer->scale = 1.0;
    if (!alloc_all(trainer) ||
        train_feed_create(trainer->kernels, data, &options->augment, train_fit_batch(options, data),
                          options->seed, 0, &trainer->feed)) {
        train_trainer_destroy(trainer);
        return base_fail(why, BASE_ENOMEM, "out of memory for the vectors of the optimiser");
    }
    memcpy(trainer->x.host, start, trainer->count * sizeof *start);
    trainer_send(trainer, &trainer->x);
    train_trainer_round_begin(trainer);
    *out = trainer;
    return BASE_OK;
}

static struct trainer_vector borrowed(float *vector)
{
    return (struct trainer_vector){vector, vector};
}

enum base_error train_trainer_hold(struct train_model *model, const struct train_vectors *vectors,
                                   struct train_trainer **out)
{
    struct train_trainer *trainer = calloc(1, sizeof *trainer);
    if (!trainer)
        return BASE_ENOMEM;
    trainer->holds = true;
    trainer->model = model;
    trainer->kernels = train_model_kernels(model)->host;
    trainer->count = train_model_parameters(model);
    trainer->scale = 1.0;
    trainer->x = borrowed(vectors->model);
    trainer->optimizer = train_optimizer(TRAIN_ADAMW); // for the name and index of the shared vector
    trainer->state[trainer->optimizer->shared] = borrowed(vectors->second_moment);
    trainer->correction = borrowed(vectors->correction);
    trainer->held = borrowed(vectors->held);
    *out = trainer;
    return BASE_OK;
}

void train_trainer_destroy(struct train_trainer *trainer)
{
    if (!trainer)
        return;
    if (trainer->holds) {
        free(trainer);
        return;
    }
    release_vector(trainer, &trainer->x);
    release_vector(trainer, &trainer->correction);
    release_vector(trainer, &trainer->held);
    for (size_t i = 0; i < TRAIN_STATES; i++)
        release_vector(trainer, &trainer->state[i]);
    train_feed_destroy(&trainer->feed);
    trainer->kernels->release(trainer->gradient);
    trainer->kernels->release(trainer->scratch);
    trainer->kernels->release(trainer->norm);
    trainer->kernels->release(trainer->round);
    train_settle_close(&trainer->settle);
    free(trainer);
}
