#include "node/learn/built_in.h"

#include "node/learn/momentum.h"
#include "node/learn/verdict.h"
#include "node/queue/clock.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_EVERY 16u // times the examples of a look: it then costs 4% of the steps

static size_t parameters(const struct node_built_in *b)
{
    return train_model_parameters(train_trainer_of(b->trainer));
}

const struct kernels *node_built_in_kernels(const struct node_built_in *b)
{
    const struct kernels *kernels = train_model_kernels(train_trainer_of(b->trainer));
    return b->lends ? kernels : kernels->host;
}

static bool is_finite(const struct node_built_in *b, const struct kernels *kernels, const float *vector)
{
    return !vector || kernels->apply->finite(vector, parameters(b));
}

static struct train_vectors vectors_of(const struct node_built_in *b)
{
    if (b->lends)
        return train_trainer_lend(b->trainer);
    return (struct train_vectors){.model = train_trainer_model(b->trainer),
                                  .second_moment = train_trainer_second_moment(b->trainer),
                                  .correction = train_trainer_correction(b->trainer),
                                  .held = train_trainer_held(b->trainer)};
}

void node_built_in_begin(struct node_built_in *b, struct gossip_learner_vectors *vectors)
{
    BASE_ASSERT(!b->lends || !b->outer || train_model_kernels(train_trainer_of(b->trainer))->shares_host);
    *b = (struct node_built_in){.lends = b->lends,
                                .config = b->config,
                                .trainer = b->trainer,
                                .outer = b->outer,
                                .round_start = b->round_start,
                                .blob = b->blob,
                                .kept = b->kept,
                                .loss = NAN,
                                .rate = train_trainer_rate(b->trainer)};
    node_built_in_fetch(b);
    const struct train_vectors lent = vectors_of(b);
    *vectors = (struct gossip_learner_vectors){
        .model = lent.model,
        .second_moment = lent.second_moment,
        .correction = b->config->average.drift_correction ? lent.correction : NULL,
        .held = lent.held,
        .correction_stays = true,
        .outer = b->outer,
        .round_start = b->round_start,
        .blob = b->blob};
}

void node_built_in_fetch(struct node_built_in *b)
{
    if (!b->lends)
        train_trainer_fetch(b->trainer);
}

// -- the last good state: model, then second moment if there is one

size_t node_built_in_kept(struct train_trainer *trainer)
{
    const size_t count = train_model_parameters(train_trainer_of(trainer));
    return train_trainer_second_moment(trainer) ? 2 * count : count;
}

static void keep(struct node_built_in *b)
{
    const struct kernels *kernels = node_built_in_kernels(b);
    const struct train_vectors now = vectors_of(b);
    const size_t bytes = parameters(b) * sizeof(float);
    if (!b->kept)
        return;
    kernels->download(b->kept, now.model, bytes);
    if (now.second_moment)
        kernels->download(b->kept + parameters(b), now.second_moment, bytes);
}

static void put_back(struct node_built_in *b)
{
    const struct kernels *kernels = node_built_in_kernels(b);
    const struct train_vectors now = vectors_of(b);
    const size_t bytes = parameters(b) * sizeof(float);
    BASE_ASSERT(b->kept);
    kernels->upload(now.model, b->kept, bytes);
    if (now.second_moment)
        kernels->upload(now.second_moment, b->kept + parameters(b), bytes);
}

void node_built_in_set(struct node_built_in *b, enum gossip_setting_kind kind, double value)
{
    switch (kind) {
    case GOSSIP_SETTING_RATE:
        train_trainer_set_rate(b->trainer, value);
        break;
    case GOSSIP_SETTING_DECAY:
        train_trainer_set_weight_decay(b->trainer, value);
        break;
    case GOSSIP_SETTINGS:
        BASE_ASSERT(false);
    }
}

// With train.scale_rate a slower node takes larger steps, so that its data count as much (DESIGN: rounds).
void node_built_in_steps(struct node_built_in *b, uint64_t count, double pace)
{
    uint64_t begun_ns = node_clock_ns();
    BASE_ASSERT(pace > 0);
    if (b->config->train.scale_rate)
        train_trainer_scale(b->trainer, pace);
    if (b->own_steps == 0)
        keep(b);
    b->rate = train_trainer_rate(b->trainer);
    train_trainer_hold_back(b->trainer);
    train_trainer_round_begin(b->trainer);
    for (uint64_t i = 0; i < count; i++) {
        struct kernels_loss loss;
        size_t rows = 0;
        b->rate_sum += train_trainer_rate(b->trainer);
        train_trainer_step(b->trainer, b->config->average.drift_correction, &loss, &rows);
        b->loss_sum += loss.loss_sum;
        b->examples += rows;
        b->own_examples += rows;
    }
    b->steps += count;
    b->own_steps += count;
    node_step_time_add(&b->step_time, node_clock_ns() - begun_ns, count);
}

// The shards of dead nodes change the loss of nothing. The past stays: a model that is averaged has met their
// examples, and one that has diverged must not be forgotten when its neighbours end.
static void watch_examples(struct node_built_in *b)
{
    const struct train_dataset *data = train_trainer_data(b->trainer);
    if (data != b->watched)
        train_watch_examples(&b->watch,
                             train_loss_of_nothing(train_model_spec(train_trainer_of(b->trainer)), data));
    b->watched = data;
}

// The vectors are finite, and those after the steps; the exchange that follows is judged with the next ones.
static enum gossip_learner_result watch_losses(struct node_built_in *b)
{
    if (!b->kept || b->examples == 0)
        return GOSSIP_LEARNER_DONE;
    watch_examples(b);
    switch (train_watch_round(&b->watch, b->loss, (double)b->examples, b->steps)) {
    case TRAIN_VERDICT_GOOD:
        keep(b);
        break;
    case TRAIN_VERDICT_DIVERGED:
        put_back(b);
        return GOSSIP_LEARNER_DIVERGED;
    case TRAIN_VERDICT_OPEN:
    case TRAIN_VERDICT_FAR:
        break;
    }
    return GOSSIP_LEARNER_DONE;
}

// `model`: it was finite before the outer momentum, which can overflow.
static bool stays_finite(const struct node_built_in *b, bool model)
{
    const struct kernels *kernels = node_built_in_kernels(b);
    const struct train_vectors now = vectors_of(b);
    return isfinite(b->loss_sum) && model && (!b->outer || is_finite(b, kernels, now.model)) &&
           is_finite(b, kernels, now.second_moment);
}

void node_built_in_boundary(struct node_built_in *b, struct gossip_learner_steps *did)
{
    BASE_ASSERT(b->steps > 0 || b->examples == 0);
    if (b->examples > 0)
        b->loss = b->loss_sum / (double)b->examples;
    const bool model = train_trainer_add_back(b->trainer);
    node_built_in_fetch(b);
    if (b->outer && b->steps > 0)
        node_momentum_before((float)b->config->average.outer_momentum, parameters(b), b->outer,
                             train_trainer_model(b->trainer));
    *did = (struct gossip_learner_steps){.step = train_trainer_steps_done(b->trainer),
                                         .loss = b->loss,
                                         .rate = b->rate,
                                         .step_scale = (float)b->rate_sum,
                                         .step_ns = node_step_time_ns(&b->step_time),
                                         .affords = b->own_examples >= b->looked + LOOK_EVERY * TRAIN_LOOK};
    did->result = stays_finite(b, model) ? watch_losses(b) : GOSSIP_LEARNER_NOT_FINITE;
    b->loss_sum = b->rate_sum = 0;
    b->examples = 0;
    b->steps = 0;
}

// Drops momentum and an outstanding proximal step: they belong to another model.
static void drop_momentum(struct node_built_in *b)
{
    struct train_state_vector vectors[TRAIN_STATES];
    const size_t n = train_trainer_state_vectors(b->trainer, vectors);
    for (size_t i = 0; i < n; i++)
        if (vectors[i].values != train_trainer_second_moment(b->trainer))
            memset(vectors[i].values, 0, parameters(b) * sizeof(float));
    train_trainer_store_state(b->trainer);
    train_trainer_waive(b->trainer);
}

static void reset_vector(struct node_built_in *b, float *vector)
{
    if (is_finite(b, node_built_in_kernels(b)->host, vector))
        return;
    BASE_ASSERT(vector); // none counts as finite
    memset(vector, 0, parameters(b) * sizeof *vector);
    b->reset++;
}

static void reset_infinite(struct node_built_in *b)
{
    struct train_state_vector vectors[TRAIN_STATES];
    const size_t n = train_trainer_state_vectors(b->trainer, vectors);
    for (size_t i = 0; i < n; i++)
        reset_vector(b, vectors[i].values);
    train_trainer_store_state(b->trainer);
    reset_vector(b, b->outer);
}

void node_built_in_adopt(struct node_built_in *b, enum gossip_learner_change change, uint64_t step)
{
    float *model = train_trainer_model(b->trainer);
    BASE_ASSERT(!b->outer == !b->round_start);
    if (change == GOSSIP_LEARNER_TAKEN || change == GOSSIP_LEARNER_RETURNED)
        drop_momentum(b);
    if (change == GOSSIP_LEARNER_TAKEN) { // while RESTORED leaves the model of this process as it is
        train_watch_forget(&b->watch);
        keep(b);
    }
    if (b->outer && change == GOSSIP_LEARNER_RETURNED)
        memset(b->outer, 0, parameters(b) * sizeof *b->outer);
    if (change == GOSSIP_LEARNER_ROLLED_BACK)
        reset_infinite(b);
    if (b->outer && change == GOSSIP_LEARNER_EXCHANGED)
        node_momentum_after((float)b->config->average.outer_momentum, parameters(b), model, b->round_start,
                            b->outer);
    else if (b->outer && change != GOSSIP_LEARNER_COLLECTED)
        memcpy(b->round_start, model, parameters(b) * sizeof *model);
    if (change == GOSSIP_LEARNER_EXCHANGED || change == GOSSIP_LEARNER_ROLLED_BACK)
        train_trainer_settle(b->trainer);
    train_trainer_advance(b->trainer, step);
}

struct gossip_learner_verdict node_built_in_judge(struct node_built_in *b, const float *model,
                                                  enum gossip_learner_offer offer)
{
    const struct train_probe probe = train_probe(b->trainer, model, node_verdict_offer(offer));
    return node_verdict(&probe, offer);
}

// "Nothing" is measured on the same few examples, because on uneven data they may all be of one class.
void node_built_in_compare(struct node_built_in *b, const float *model, struct gossip_losses *losses)
{
    const struct train_probe probe = train_probe_look(b->trainer, model, b->looks++);
    b->looked = b->own_examples;
    *losses = (struct gossip_losses){.nothing = probe.nothing, .own = probe.own, .other = probe.other};
}

// The vectors, then the cursor.
size_t node_built_in_freeze(struct node_built_in *b, uint8_t **state)
{
    struct train_state_vector vectors[TRAIN_STATES];
    const struct train_cursor cursor = train_trainer_cursor(b->trainer);
    train_trainer_fetch(b->trainer);
    const size_t count = train_trainer_state_vectors(b->trainer, vectors),
                 each = parameters(b) * sizeof(float);
    *state = malloc(count * each + sizeof cursor);
    BASE_ASSERT(*state);
    for (size_t i = 0; i < count; i++)
        memcpy(*state + i * each, vectors[i].values, each);
    memcpy(*state + count * each, &cursor, sizeof cursor);
    return count * each + sizeof cursor;
}

void node_built_in_thaw(struct node_built_in *b, const uint8_t *state, size_t bytes)
{
    struct train_state_vector vectors[TRAIN_STATES];
    struct train_cursor cursor;
    const size_t count = train_trainer_state_vectors(b->trainer, vectors),
                 each = parameters(b) * sizeof(float);
    BASE_ASSERT(bytes == count * each + sizeof cursor);
    for (size_t i = 0; i < count; i++)
        memcpy(vectors[i].values, state + i * each, each);
    memcpy(&cursor, state + count * each, sizeof cursor);
    const enum base_error error = train_trainer_seek(b->trainer, &cursor);
    BASE_ASSERT(!error); // it is of the same trainer
}

static void begin(void *owner, size_t which, struct gossip_learner_vectors *vectors)
{
    (void)which;
    node_built_in_begin(owner, vectors);
}

static void set(void *owner, size_t which, enum gossip_setting_kind kind, double value)
{
    (void)which;
    node_built_in_set(owner, kind, value);
}

static uint64_t steps(void *owner, size_t which, uint64_t count, double pace)
{
    (void)which;
    node_built_in_steps(owner, count, pace);
    return 0;
}

static void boundary(void *owner, size_t which, struct gossip_learner_steps *did)
{
    (void)which;
    node_built_in_boundary(owner, did);
}

static void adopt(void *owner, size_t which, enum gossip_learner_change change, uint64_t step)
{
    (void)which;
    node_built_in_adopt(owner, change, step);
}

static struct gossip_learner_verdict judge(void *owner, size_t which, const float *model,
                                           enum gossip_learner_offer offer)
{
    (void)which;
    return node_built_in_judge(owner, model, offer);
}

static void compare(void *owner, size_t which, const float *model, struct gossip_losses *losses)
{
    (void)which;
    node_built_in_compare(owner, model, losses);
}

static void end(void *owner, size_t which)
{
    (void)owner, (void)which; // its parts are the caller's
}

struct gossip_learner node_built_in_learner(struct node_built_in *b)
{
    return (struct gossip_learner){.owner = b,
                                   .parameters = parameters(b),
                                   .begin = begin,
                                   .set = set,
                                   .steps = steps,
                                   .boundary = boundary,
                                   .adopt = adopt,
                                   .judge = judge,
                                   .compare = compare,
                                   .end = end};
}
