// An optimiser over one shard. A step allocates nothing.
#include "train/trainer_private.h"

#include "base/hash.h"
#include "train/fit.h"
#include "train/rows.h"

#include <math.h>

void trainer_send(const struct train_trainer *trainer, const struct trainer_vector *vector)
{
    if (vector->device != vector->host)
        trainer->kernels->upload(vector->device, vector->host, trainer->count * sizeof(float));
}

static void bring(const struct train_trainer *trainer, const struct trainer_vector *vector)
{
    if (vector->device != vector->host)
        trainer->kernels->download(vector->host, vector->device, trainer->count * sizeof(float));
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

void train_trainer_weigh(struct train_trainer *trainer, double weight)
{
    BASE_ASSERT(weight > 0 && weight < 1e30);
    trainer->options.weight = weight;
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

void train_trainer_hold_back(struct train_trainer *trainer)
{
    if (!trainer->held.device)
        return;
    BASE_ASSERT(!trainer->held_back);
    trainer->kernels->vectors->add(trainer->count, -1, trainer->held.device, trainer->x.device);
    trainer->held_back = true;
}

bool train_trainer_add_back(struct train_trainer *trainer)
{
    if (!trainer->held.device)
        return trainer->kernels->apply->finite(trainer->x.device, trainer->count);
    BASE_ASSERT(trainer->held_back); // once before the steps, once after them
    trainer->held_back = false;
    return trainer->kernels->vectors->give_back(trainer->count, trainer->held.device, trainer->x.device);
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

static double rate_at(const struct train_trainer *trainer, uint64_t step)
{
    const struct train_options *options = &trainer->options;
    return train_schedule_rate(&options->schedule, options->rate, step, options->steps) * trainer->scale;
}

// Updates the elements from .. to-1 by their `gradient`.
static void update(struct train_trainer *trainer, const float *correction, size_t from, size_t to,
                   float *gradient)
{
    size_t n_tensors;
    const struct train_tensor *tensors = train_model_tensors(trainer->model, &n_tensors);
    struct train_update update = {.kernels = trainer->kernels,
                                  .options = &trainer->options,
                                  .count = to - from,
                                  .step = trainer->step,
                                  .rate = (float)train_trainer_rate(trainer),
                                  .gradient = gradient,
                                  .correction = correction ? correction + from : NULL,
                                  .x = trainer->x.device + from,
                                  .tensors = tensors,
                                  .n_tensors = n_tensors,
                                  .scratch = trainer->scratch};
    for (size_t i = 0; i < TRAIN_STATES; i++)
        update.state[i] = trainer->state[i].device ? trainer->state[i].device + from : NULL;
    trainer->optimizer->step(&update);
}

// -- blocks, l1 and l2: for models that take rows

bool train_trainer_settles(const struct train_trainer *trainer)
{
    return trainer->options.l1 > 0.0 || trainer->options.l2 > 0.0;
}

// With a constant gradient a step moves by rate / (1 - momentum) times the gradient; l1 and l2 use the same
// length.
static void owe(struct train_trainer *trainer, uint64_t step)
{
    train_settle_owe(&trainer->settle, step, rate_at(trainer, step) / (1.0 - trainer->options.momentum));
}

void train_trainer_unsettle(struct train_trainer *trainer)
{
    if (train_trainer_settles(trainer) && trainer->step > 0)
        owe(trainer, trainer->step - 1);
}

void train_trainer_settle(struct train_trainer *trainer)
{
    train_settle_pay(&trainer->settle, trainer->x.host);
}

void train_trainer_waive(struct train_trainer *trainer)
{
    trainer->settle.due = false;
}

static void update_block(struct train_trainer *trainer, const float *correction)
{
    struct train_settle *settle = &trainer->settle;
    const struct train_block block = train_settle_block(settle, trainer->step);
    const size_t weights = settle->features * settle->outputs;
    update(trainer, correction, block.from, block.to, trainer->gradient + block.from);
    update(trainer, correction, weights, trainer->count, trainer->gradient + weights);
    owe(trainer, trainer->step);
    train_settle_filter(settle, trainer->x.host);
}

static void restrict_gradient(struct train_trainer *trainer)
{
    const size_t outputs = trainer->settle.outputs;
    if (trainer->settle.blocks > 1) {
        const struct train_block block = train_settle_block(&trainer->settle, trainer->step);
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
    if (isfinite(norm) && norm > trainer->options.clip_norm) { // else a step of zeros would hide it
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
    if (trainer->settle.blocks > 0)
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

void train_trainer_set_rate(struct train_trainer *trainer, double rate)
{
    BASE_ASSERT(!(rate < 0));
    trainer->options.rate = isnan(rate) ? trainer->begun.rate : rate;
}

void train_trainer_set_weight_decay(struct train_trainer *trainer, double decay)
{
    BASE_ASSERT(!(decay < 0));
    trainer->options.weight_decay = isnan(decay) ? trainer->begun.weight_decay : decay;
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

static struct trainer_vector *shared_state(struct train_trainer *trainer)
{
    return trainer->optimizer->shared >= 0 ? &trainer->state[trainer->optimizer->shared] : NULL;
}

float *train_trainer_second_moment(struct train_trainer *trainer)
{
    const struct trainer_vector *shared = shared_state(trainer);
    return shared ? shared->host : NULL;
}

static uint64_t copies(const struct trainer_vector *vector)
{
    return !vector->host ? 0 : vector->host == vector->device ? 1 : 2;
}

uint64_t train_trainer_memory(const struct train_trainer *trainer)
{
    uint64_t vectors = copies(&trainer->x) + copies(&trainer->correction) + copies(&trainer->held);
    for (size_t i = 0; i < TRAIN_STATES; i++)
        vectors += copies(&trainer->state[i]);
    vectors += trainer->gradient != NULL;
    vectors += trainer->round != NULL;
    return (vectors * trainer->count + trainer->n_scratch) * sizeof(float);
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

float *train_trainer_held(struct train_trainer *trainer)
{
    return trainer->held.host;
}

void train_trainer_fetch(struct train_trainer *trainer)
{
    bring(trainer, &trainer->x);
    if (shared_state(trainer))
        bring(trainer, shared_state(trainer));
}

void train_trainer_store(struct train_trainer *trainer)
{
    trainer_send(trainer, &trainer->x);
    if (shared_state(trainer))
        trainer_send(trainer, shared_state(trainer));
    trainer_send(trainer, &trainer->correction);
    trainer_send(trainer, &trainer->held);
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
        trainer_send(trainer, &trainer->state[i]);
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
    trainer->settle.due = false;
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
    const struct trainer_vector *shared = shared_state(trainer);
    trainer->lends = true;
    return (struct train_vectors){.model = trainer->x.device,
                                  .second_moment = shared ? shared->device : NULL,
                                  .correction = trainer->correction.device,
                                  .held = trainer->held.device};
}
