// An optimiser over one shard. Every vector that training touches is allocated when the trainer is made; a
// step allocates nothing.
#include "train/trainer.h"

#include "base/hash.h"
#include "train/feed.h"
#include "train/fit.h"
#include "train/rows.h"
#include "train/shrink.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A vector in the kernels' memory and its copy in host memory; identical if the kernels share host memory.
struct vector {
    float *device, *host;
};

struct train_trainer {
    struct train_options options;
    struct train_model *model;
    const struct kernels *kernels;
    const struct train_dataset *home; // the data set that it was made with; cursors refer to it
    size_t count;                     // parameters
    const struct train_optimizer *optimizer;
    struct vector x, correction, state[TRAIN_STATES]; // state: of the optimiser; NULL if unused
    float *gradient; // in the kernels' memory; NULL if the model passes it in pieces
    float *norm;     // one number, in the kernels' memory; NULL without clipping
    float *round;    // the model at the beginning of the round, in the kernels' memory; NULL without a
                     // proximal term
    double scale;    // of the learning rate
    struct train_feed feed;
    uint64_t step;
    struct { // for l1, l2 and blocks
        size_t features, outputs, blocks;
        uint32_t *order;          // [blocks]
        uint64_t drawn;           // the pass that `order` belongs to
        bool due;                 // the proximal step after the latest gradient step is pending:
        struct train_block block; // on these places of the vector
        float t1, t2;
    } shrink;
    bool holds; // the vectors belong to a user's program; no data, no gradient
    bool lends; // the vectors are changed from outside in the kernels' memory
};

static bool alloc_vector(const struct train_trainer *trainer, struct vector *vector)
{
    const size_t bytes = trainer->count * sizeof(float);
    vector->device = trainer->kernels->alloc(bytes);
    vector->host = trainer->kernels->shares_host ? vector->device : calloc(1, bytes);
    return vector->device && vector->host;
}

static void release_vector(const struct train_trainer *trainer, struct vector *vector)
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
    trainer->shrink.features = features;
    trainer->shrink.outputs = train_model_tensors(trainer->model, &tensors)->count / features;
    trainer->shrink.blocks = blocks;
    trainer->shrink.drawn = UINT64_MAX;
    trainer->shrink.order = malloc(blocks * sizeof *trainer->shrink.order);
    return trainer->shrink.order != NULL;
}

// True if the update of an element needs no other element, and the whole batch passes through the model at
// once.
static bool takes_pieces(const struct train_trainer *trainer)
{
    const struct train_options *options = &trainer->options;
    const bool parts = options->micro_batch > 0 && options->micro_batch < options->batch;
    return !parts && options->clip_norm <= 0.0 && !train_model_takes_rows(trainer->model) &&
           train_model_gives(trainer->model, options->batch);
}

static bool alloc_all(struct train_trainer *trainer)
{
    bool complete = alloc_order(trainer) && alloc_vector(trainer, &trainer->x);
    complete = complete && (trainer->options.uncorrected || alloc_vector(trainer, &trainer->correction));
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

static void send(const struct train_trainer *trainer, const struct vector *vector)
{
    if (vector->device != vector->host)
        trainer->kernels->upload(vector->device, vector->host, trainer->count * sizeof(float));
}

static void bring(const struct train_trainer *trainer, const struct vector *vector)
{
    if (vector->device != vector->host)
        trainer->kernels->download(vector->host, vector->device, trainer->count * sizeof(float));
}

enum base_error train_trainer_create(const struct train_options *options, struct train_model *model,
                                     const struct train_dataset *data, const float *start,
                                     struct train_trainer **out, struct base_reason *why)
{
    enum base_error error = train_options_check(options, why);
    if (!error)
        error = train_fit_data(options, model, data, why);
    if (!error)
        error = train_fit_kernels(options, train_model_kernels(model), why);
    if (error)
        return error;
    struct train_trainer *trainer = calloc(1, sizeof *trainer);
    if (!trainer)
        return base_fail(why, BASE_ENOMEM, "out of memory for the trainer");
    trainer->options = *options;
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
    send(trainer, &trainer->x);
    train_trainer_round_begin(trainer);
    *out = trainer;
    return BASE_OK;
}

enum base_error train_trainer_hold(struct train_model *model, float *vector, float *second_moment,
                                   float *correction, struct train_trainer **out)
{
    struct train_trainer *trainer = calloc(1, sizeof *trainer);
    if (!trainer)
        return BASE_ENOMEM;
    trainer->holds = true;
    trainer->model = model;
    trainer->kernels = train_model_kernels(model)->host;
    trainer->count = train_model_parameters(model);
    trainer->scale = 1.0;
    trainer->x = (struct vector){vector, vector};
    trainer->optimizer = train_optimizer(TRAIN_ADAMW); // for the name and index of the shared vector
    trainer->state[trainer->optimizer->shared] = (struct vector){second_moment, second_moment};
    trainer->correction = (struct vector){correction, correction};
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
    for (size_t i = 0; i < TRAIN_STATES; i++)
        release_vector(trainer, &trainer->state[i]);
    train_feed_destroy(&trainer->feed);
    trainer->kernels->release(trainer->gradient);
    trainer->kernels->release(trainer->norm);
    trainer->kernels->release(trainer->round);
    free(trainer->shrink.order);
    free(trainer);
}

enum base_error train_trainer_replace(struct train_trainer *trainer, const struct train_dataset *data,
                                      double weight, struct base_reason *why)
{
    struct train_options options = trainer->options;
    struct train_feed feed;
    options.weight = weight;
    enum base_error error = train_options_check(&options, why);
    if (!error)
        error = train_fit_data(&options, trainer->model, data, why);
    if (error)
        return error;
    error = train_feed_create(trainer->kernels, data, &options.augment, train_fit_batch(&options, data),
                              options.seed, trainer->feed.epoch + 1, &feed);
    if (error)
        return base_fail(why, error, "out of memory for the order of %zu examples", data->examples);
    train_feed_destroy(&trainer->feed);
    trainer->feed = feed;
    trainer->options.weight = weight;
    return BASE_OK;
}

const struct train_dataset *train_trainer_data(const struct train_trainer *trainer)
{
    return trainer->feed.data;
}

const struct train_model *train_trainer_of(const struct train_trainer *trainer)
{
    return trainer->model;
}

void train_trainer_round_begin(struct train_trainer *trainer)
{
    if (trainer->round)
        trainer->kernels->vectors->copy(trainer->round, trainer->x.device, trainer->count * sizeof(float));
}

// gradient += mu * (x - x_round): a step of SGD with the rate -mu. For the elements from .. to-1.
static void add_proximal(struct train_trainer *trainer, size_t from, size_t to, float *gradient)
{
    const struct kernels_sgd step = {.rate = -(float)trainer->options.proximal};
    if (trainer->round) {
        trainer->kernels->sgd_step(to - from, &step, trainer->x.device + from, trainer->round + from, NULL,
                                   gradient);
    }
}

static double cosine(const struct train_schedule *schedule, uint64_t step, uint64_t steps)
{
    const double pi = acos(-1.0);
    const uint64_t length = steps > schedule->warmup + 1 ? steps - 1 - schedule->warmup : 1;
    const double done = fmin(1.0, (double)(step - schedule->warmup) / (double)length);
    return schedule->floor + (1.0 - schedule->floor) * 0.5 * (1.0 + cos(pi * done));
}

static double rate_at(const struct train_trainer *trainer, uint64_t step)
{
    const struct train_schedule *schedule = &trainer->options.schedule;
    double factor = 1.0;
    if (step < schedule->warmup)
        return trainer->options.rate * trainer->scale * (double)(step + 1) / (double)(schedule->warmup + 1);
    if (schedule->decay == TRAIN_DECAY_COSINE)
        factor = cosine(schedule, step, trainer->options.steps);
    for (size_t i = 0; i < schedule->count; i++)
        if ((double)step / (double)trainer->options.steps >= schedule->at[i])
            factor = schedule->factor[i];
    return trainer->options.rate * factor * trainer->scale;
}

// Updates the elements from .. to-1 by their `gradient`.
static void update(struct train_trainer *trainer, const float *correction, size_t from, size_t to,
                   const float *gradient)
{
    struct train_update update = {.kernels = trainer->kernels,
                                  .options = &trainer->options,
                                  .count = to - from,
                                  .step = trainer->step,
                                  .rate = (float)train_trainer_rate(trainer),
                                  .gradient = gradient,
                                  .correction = correction ? correction + from : NULL,
                                  .x = trainer->x.device + from};
    for (size_t i = 0; i < TRAIN_STATES; i++)
        update.state[i] = trainer->state[i].device ? trainer->state[i].device + from : NULL;
    trainer->optimizer->step(&update);
}

// -- blocks, l1 and l2: for models that take rows, whose vectors are in host memory

// The weights that a step changes, as places in the vector.
static struct train_block block_of(struct train_trainer *trainer, uint64_t step)
{
    const size_t outputs = trainer->shrink.outputs;
    const struct train_block block =
        train_shrink_block(trainer->shrink.features, trainer->shrink.blocks, trainer->options.block_seed,
                           step, &trainer->shrink.drawn, trainer->shrink.order);
    return (struct train_block){block.from * outputs, block.to * outputs};
}

bool train_trainer_settles(const struct train_trainer *trainer)
{
    return trainer->options.l1 > 0.0 || trainer->options.l2 > 0.0;
}

// With a constant gradient a step moves by rate / (1 - momentum) times the gradient; l1 and l2 use the same
// length.
static void owe(struct train_trainer *trainer, uint64_t step)
{
    const double length = rate_at(trainer, step) / (1.0 - trainer->options.momentum);
    trainer->shrink.due = train_trainer_settles(trainer);
    trainer->shrink.block = block_of(trainer, step);
    trainer->shrink.t1 = (float)(length * trainer->options.l1);
    trainer->shrink.t2 = (float)(length * trainer->options.l2);
}

void train_trainer_unsettle(struct train_trainer *trainer)
{
    if (train_trainer_settles(trainer) && trainer->step > 0)
        owe(trainer, trainer->step - 1);
}

void train_trainer_settle(struct train_trainer *trainer)
{
    const struct train_block *block = &trainer->shrink.block;
    if (trainer->shrink.due) {
        train_shrink(block->to - block->from, trainer->shrink.t1, trainer->shrink.t2,
                     trainer->x.host + block->from);
    }
    trainer->shrink.due = false;
}

void train_trainer_waive(struct train_trainer *trainer)
{
    trainer->shrink.due = false;
}

static void update_block(struct train_trainer *trainer, const float *correction)
{
    const struct train_block block = block_of(trainer, trainer->step);
    const size_t weights = trainer->shrink.features * trainer->shrink.outputs;
    update(trainer, correction, block.from, block.to, trainer->gradient + block.from);
    update(trainer, correction, weights, trainer->count, trainer->gradient + weights);
    owe(trainer, trainer->step);
    if (trainer->shrink.due)
        train_shrink_filter(block.to - block.from, trainer->shrink.t1, trainer->x.host + block.from);
}

static void restrict_gradient(struct train_trainer *trainer)
{
    const size_t outputs = trainer->shrink.outputs;
    if (trainer->shrink.blocks > 1) {
        const struct train_block block = block_of(trainer, trainer->step);
        train_model_restrict(trainer->model, block.from / outputs, block.to / outputs);
    }
}

// Computes the gradient of a part of the batch and adds it to that of the earlier parts; adds to *loss.
static void add_part(struct train_trainer *trainer, size_t first, size_t count, struct kernels_loss *loss)
{
    const struct train_feed *feed = &trainer->feed;
    const struct train_dataset *data = feed->data;
    const double weight = trainer->options.weight > 0.0 ? trainer->options.weight : 1.0;
    const float share = (float)(count < feed->batch ? weight * (double)count / (double)feed->batch : weight);
    const uint64_t part[] = {trainer->step, first};
    // For sparse examples the row numbers; otherwise numbers or ids.
    const uint32_t *row = data->csr ? (const uint32_t *)feed->input.x + first : NULL;
    const float *numbers = data->csr ? NULL : (const float *)feed->input.x + first * data->features;
    const struct train_rows rows = {.csr = data->csr, .x = numbers, .features = data->features, .row = row};
    const void *x = train_model_takes_rows(trainer->model) ? (const void *)&rows : numbers;
    struct kernels_loss one = {0};
    train_model_prepare(trainer->model, base_hash_bytes(feed->seed, part, (first > 0 ? 2 : 1) * sizeof *part),
                        first > 0);
    if (feed->targets) {
        train_model_gradient_regression(trainer->model, trainer->x.device, numbers,
                                        feed->targets + first * data->outputs, count, share,
                                        trainer->gradient, &one);
    } else {
        train_model_gradient(trainer->model, trainer->x.device, x,
                             feed->input.labels + first * train_dataset_labels(data), count, share,
                             trainer->gradient, &one);
    }
    trainer->kernels->wait(); // `one` is valid
    loss->loss_sum += one.loss_sum;
    loss->correct += one.correct;
}

// The squared norm is the product of the gradient with itself; a product with alpha 0 scales the gradient by
// beta.
static void clip(struct train_trainer *trainer)
{
    const struct kernels *k = trainer->kernels;
    float square = 0.0f;
    if (!trainer->norm)
        return;
    k->gemm(false, true, 1, 1, trainer->count, 1.0f, trainer->gradient, trainer->gradient, 0.0f,
            trainer->norm);
    k->wait();
    k->download(&square, trainer->norm, sizeof square);
    const double norm = sqrt((double)square);
    if (norm > trainer->options.clip_norm) {
        k->gemm(false, false, 1, trainer->count, 1, 0.0f, trainer->norm, trainer->x.device,
                (float)(trainer->options.clip_norm / norm), trainer->gradient);
    }
}

struct step_taker {
    struct train_trainer *trainer;
    const float *correction;
};

static void take(void *owner, size_t first, size_t count, float *gradient)
{
    const struct step_taker *step = owner;
    add_proximal(step->trainer, first, first + count, gradient);
    update(step->trainer, step->correction, first, first + count, gradient);
}

// A step without a vector for the gradient, and without the passes over it.
static void step_in_pieces(struct train_trainer *trainer, const float *correction, struct kernels_loss *loss)
{
    struct step_taker step = {trainer, correction};
    const struct kernels_taker taker = {take, &step, {trainer->x.device, correction}};
    train_model_give(trainer->model, &taker);
    add_part(trainer, 0, trainer->feed.batch, loss);
    train_model_give(trainer->model, NULL);
}

static void step_at_once(struct train_trainer *trainer, const float *correction, struct kernels_loss *loss)
{
    const size_t batch = trainer->feed.batch,
                 most = train_fit_part(&trainer->options, trainer->feed.data, batch);
    restrict_gradient(trainer);
    for (size_t first = 0; first < batch; first += most)
        add_part(trainer, first, batch - first < most ? batch - first : most, loss);
    add_proximal(trainer, 0, trainer->count, trainer->gradient);
    clip(trainer);
    if (trainer->shrink.blocks > 0)
        update_block(trainer, correction);
    else
        update(trainer, correction, 0, trainer->count, trainer->gradient);
}

void train_trainer_step(struct train_trainer *trainer, bool use_correction, struct kernels_loss *loss,
                        size_t *rows)
{
    BASE_ASSERT(!use_correction || trainer->correction.device);
    const float *correction = use_correction ? trainer->correction.device : NULL;
    train_feed_next(&trainer->feed);
    *loss = (struct kernels_loss){0};
    train_trainer_settle(trainer);
    if (!trainer->gradient)
        step_in_pieces(trainer, correction, loss);
    else
        step_at_once(trainer, correction, loss);
    trainer->kernels->wait(); // the next batch may now be gathered
    trainer->step++;
    *rows = trainer->feed.batch * train_dataset_labels(trainer->feed.data);
}

uint64_t train_trainer_steps_done(const struct train_trainer *trainer)
{
    return trainer->step;
}

double train_trainer_rate(const struct train_trainer *trainer)
{
    return rate_at(trainer, trainer->step);
}

void train_trainer_scale(struct train_trainer *trainer, double factor)
{
    BASE_ASSERT(factor > 0.0 && isfinite(factor));
    trainer->scale = factor;
}

float *train_trainer_model(struct train_trainer *trainer)
{
    return trainer->x.host;
}

static struct vector *shared_state(struct train_trainer *trainer)
{
    return trainer->optimizer->shared >= 0 ? &trainer->state[trainer->optimizer->shared] : NULL;
}

float *train_trainer_second_moment(struct train_trainer *trainer)
{
    const struct vector *shared = shared_state(trainer);
    return shared ? shared->host : NULL;
}

static uint64_t copies(const struct vector *vector)
{
    return !vector->host ? 0 : vector->host == vector->device ? 1 : 2;
}

uint64_t train_trainer_memory(const struct train_trainer *trainer)
{
    uint64_t vectors = copies(&trainer->x) + copies(&trainer->correction);
    for (size_t i = 0; i < TRAIN_STATES; i++)
        vectors += copies(&trainer->state[i]);
    vectors += trainer->gradient != NULL;
    vectors += trainer->round != NULL;
    return vectors * trainer->count * sizeof(float);
}

void *train_trainer_scratch(const struct train_trainer *trainer, size_t *bytes)
{
    *bytes = trainer->gradient ? trainer->count * sizeof(float) : 0;
    return trainer->gradient;
}

float *train_trainer_correction(struct train_trainer *trainer)
{
    return trainer->correction.host;
}

void train_trainer_fetch(struct train_trainer *trainer)
{
    bring(trainer, &trainer->x);
    if (shared_state(trainer))
        bring(trainer, shared_state(trainer));
}

void train_trainer_store(struct train_trainer *trainer)
{
    send(trainer, &trainer->x);
    if (shared_state(trainer))
        send(trainer, shared_state(trainer));
    send(trainer, &trainer->correction);
}

size_t train_trainer_state_vectors(struct train_trainer *trainer,
                                   struct train_state_vector vectors[TRAIN_STATES])
{
    size_t count = 0;
    for (size_t i = 0; i < TRAIN_STATES; i++) {
        if (trainer->state[i].device) {
            bring(trainer, &trainer->state[i]);
            vectors[count++] = (struct train_state_vector){.name = trainer->optimizer->state[i],
                                                           .values = trainer->state[i].host};
        }
    }
    return count;
}

void train_trainer_store_state(struct train_trainer *trainer)
{
    for (size_t i = 0; i < TRAIN_STATES; i++)
        send(trainer, &trainer->state[i]);
}

struct train_cursor train_trainer_cursor(const struct train_trainer *trainer)
{
    const struct train_feed *feed = &trainer->feed;
    if (trainer->holds)
        return (struct train_cursor){.step = trainer->step};
    // A resumed node begins with the first data set. While another one is in use, the position is the end of
    // an epoch of the first.
    return (struct train_cursor){.step = trainer->step,
                                 .epoch = feed->epoch,
                                 .position =
                                     feed->data == trainer->home ? feed->position : trainer->home->examples,
                                 .seed = feed->seed};
}

enum base_error train_trainer_seek(struct train_trainer *trainer, const struct train_cursor *cursor)
{
    if (trainer->holds) {
        if (cursor->epoch != 0 || cursor->position != 0 || cursor->seed != 0)
            return BASE_EINVAL;
        train_trainer_advance(trainer, cursor->step);
        return BASE_OK;
    }
    // At the end of an epoch `position` equals the number of examples; the next batch begins the next epoch.
    if (cursor->seed != trainer->feed.seed || cursor->position > trainer->home->examples)
        return BASE_EINVAL;
    if (trainer->feed.data == trainer->home)
        train_feed_seek(&trainer->feed, cursor->epoch, cursor->position);
    else
        train_feed_seek(&trainer->feed, cursor->epoch + 1, 0);
    trainer->shrink.due = false;
    train_trainer_store(trainer);
    train_trainer_advance(trainer, cursor->step);
    train_trainer_store_state(trainer);
    train_trainer_round_begin(trainer);
    return BASE_OK;
}

void train_trainer_advance(struct train_trainer *trainer, uint64_t step)
{
    trainer->step = step;
    if (!trainer->lends)
        train_trainer_store(trainer);
}

struct train_vectors train_trainer_lend(struct train_trainer *trainer)
{
    const struct vector *shared = shared_state(trainer);
    trainer->lends = true;
    return (struct train_vectors){.model = trainer->x.device,
                                  .second_moment = shared ? shared->device : NULL,
                                  .correction = trainer->correction.device};
}
