#include "node/learn/hosted.h"

#include "node/learn/verdict.h"
#include "node/queue/condition.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LOOK_PART 25u // times what a look takes: it then costs 4% of the program's time

struct node_hosted {
    struct train_trainer *trainer; // borrowed
    struct gossip_blob *blob;      // likewise
    size_t parameters;
    unsigned way;         // of enum node_hosted_way
    pthread_mutex_t lock; // guards turn, released and ready; the side with the turn owns the rest
    pthread_cond_t passed;
    int ready;
    enum node_hosted_turn turn;
    bool released, undone; // undone: the given vectors count as not finite
    bool leaves;           // this turn ended with the release: no steps were given
    uint64_t asked, given; // steps
    double given_scale, given_loss, pace, weight;
    uint64_t begun_ns;
    struct node_step_time own;
    struct train_program_watch losses; // the learner thread's
    const float *offered;              // while JUDGES
    struct train_probe probe;          // the answer
    uint64_t seen_ns;                  // when the program saw the question; 0: not yet
    uint64_t look_ns;                  // the next look at a neighbour is not before this
    struct node_hosted_change change;
    float *model_before, *correction_before; // [parameters] with NODE_HOSTED_TRACKED: as they were given
    uint32_t *index;                         // these three [capacity], likewise
    float *model_change, *correction_now;
    size_t capacity;
};

static float *correction_of(const struct node_hosted *h)
{
    return h->way & NODE_HOSTED_CORRECTED ? train_trainer_correction(h->trainer) : NULL;
}

// With the lock. The descriptor is readable while it is not the node's turn.
static void pass(struct node_hosted *h, enum node_hosted_turn turn)
{
    uint64_t count = 1;
    if (h->turn == NODE_HOSTED_OVER)
        return;
    BASE_ASSERT(turn != h->turn); // it passes from the side that has it
    if (turn == NODE_HOSTED_NODE)
        (void)!read(h->ready, &count, sizeof count);
    else if (h->turn == NODE_HOSTED_NODE)
        (void)!write(h->ready, &count, sizeof count);
    h->turn = turn;
    pthread_cond_broadcast(&h->passed);
}

// -- the learner thread

static void begin(void *owner, size_t which, struct gossip_learner_vectors *vectors)
{
    struct node_hosted *h = owner;
    (void)which;
    BASE_ASSERT(h->asked == 0 && h->given == 0); // before the first round
    h->change = (struct node_hosted_change){.dense = true};
    *vectors = (struct gossip_learner_vectors){.model = train_trainer_model(h->trainer),
                                               .second_moment = train_trainer_second_moment(h->trainer),
                                               .correction = correction_of(h),
                                               .held = train_trainer_held(h->trainer),
                                               .blob = h->blob};
}

static bool differs(const float *now, const float *before, size_t i)
{
    return before && memcmp(&now[i], &before[i], sizeof *now) != 0;
}

// False: more than fit into the lists.
static bool list_changes(struct node_hosted *h)
{
    const float *model = train_trainer_model(h->trainer), *correction = correction_of(h);
    size_t count = 0;
    BASE_ASSERT(h->model_before && h->index);
    for (size_t i = 0; i < h->parameters; i++) {
        if (!differs(model, h->model_before, i) && !differs(correction, h->correction_before, i))
            continue;
        if (count == h->capacity)
            return false;
        h->index[count] = (uint32_t)i;
        h->model_change[count] = model[i] - h->model_before[i];
        if (correction)
            h->correction_now[count] = correction[i];
        count++;
    }
    h->change.count = count;
    h->change.index = h->index;
    h->change.model = h->model_change;
    h->change.correction = correction ? h->correction_now : NULL;
    return true;
}

static uint64_t steps(void *owner, size_t which, uint64_t count, double pace)
{
    struct node_hosted *h = owner;
    (void)which;
    BASE_ASSERT(pace > 0);
    train_trainer_hold_back(h->trainer);
    if (!h->change.dense && (!h->model_before || !list_changes(h)))
        h->change.dense = true;
    h->asked = count;
    h->pace = pace;
    h->given = 0;
    h->given_scale = 0;
    h->given_loss = NAN;
    h->undone = false;
    h->begun_ns = node_clock_ns();
    pthread_mutex_lock(&h->lock);
    h->leaves = h->released;
    if (!h->released)
        pass(h, NODE_HOSTED_PROGRAM);
    pthread_mutex_unlock(&h->lock);
    return 0;
}

static void await_program(struct node_hosted *h)
{
    pthread_mutex_lock(&h->lock);
    while (h->turn == NODE_HOSTED_PROGRAM)
        pthread_cond_wait(&h->passed, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

static void keep_before(struct node_hosted *h)
{
    const size_t bytes = h->parameters * sizeof(float);
    BASE_ASSERT(!h->model_before == !h->index); // the lists come with what they are compared with
    if (h->model_before)
        memcpy(h->model_before, train_trainer_model(h->trainer), bytes);
    if (h->correction_before)
        memcpy(h->correction_before, correction_of(h), bytes);
    h->change = (struct node_hosted_change){0};
}

static bool is_finite(const struct node_hosted *h, const float *vector)
{
    const struct kernels *kernels = train_model_kernels(train_trainer_of(h->trainer));
    return !vector || kernels->host->apply->finite(vector, h->parameters);
}

// `model`: it is finite.
static enum gossip_learner_result result_of(const struct node_hosted *h, bool model)
{
    if (h->undone)
        return GOSSIP_LEARNER_UNDONE;
    if (h->leaves)
        return GOSSIP_LEARNER_OVER;
    return isfinite(h->given_scale) && !isinf(h->given_loss) && model &&
                   is_finite(h, train_trainer_second_moment(h->trainer))
               ? GOSSIP_LEARNER_DONE
               : GOSSIP_LEARNER_NOT_FINITE;
}

static void boundary(void *owner, size_t which, struct gossip_learner_steps *did)
{
    struct node_hosted *h = owner;
    (void)which;
    await_program(h);
    BASE_ASSERT(!h->undone || h->given == 0);
    keep_before(h);
    const bool model = train_trainer_add_back(h->trainer);
    node_step_time_add(&h->own, node_clock_ns() - h->begun_ns, h->given);
    train_trainer_advance(h->trainer, train_trainer_steps_done(h->trainer) + h->given);
    if (!h->undone)
        (void)train_program_round(&h->losses, h->given_loss, h->given);
    *did = (struct gossip_learner_steps){
        .step = train_trainer_steps_done(h->trainer),
        .step_scale = (float)h->given_scale,
        .step_ns = node_step_time_ns(&h->own),
        .result = result_of(h, model),
        .loss = h->given_loss,
        .rate = h->given > 0 ? h->given_scale / (double)h->given : NAN,
        .affords = h->given > 0 && node_clock_ns() >= h->look_ns,
    };
}

// As with the built-in trainer: the exchange restores the model, but the second moment only if it is shared.
static void reset_infinite(struct node_hosted *h)
{
    float *second = train_trainer_second_moment(h->trainer);
    if (!is_finite(h, second))
        memset(second, 0, h->parameters * sizeof *second);
}

static void adopt(void *owner, size_t which, enum gossip_learner_change change, uint64_t step)
{
    struct node_hosted *h = owner;
    (void)which;
    BASE_ASSERT(!h->change.index); // entries are listed when the turn passes, not before
    if (change == GOSSIP_LEARNER_TAKEN)
        h->change.another = h->change.dense = true;
    if (change == GOSSIP_LEARNER_TAKEN || (change == GOSSIP_LEARNER_RESTORED && h->asked == 0))
        train_program_takes(&h->losses);
    if (change == GOSSIP_LEARNER_RESTORED) // the model is this node's, the round is the cluster's
        h->change.dense = true;
    if (change == GOSSIP_LEARNER_ROLLED_BACK) {
        h->change.rolled_back = h->change.dense = true;
        reset_infinite(h);
    }
    train_trainer_advance(h->trainer, step);
}

// The program's losses of this model and of its own.
static struct train_probe ask(struct node_hosted *h, const float *model)
{
    pthread_mutex_lock(&h->lock);
    h->offered = model;
    h->seen_ns = 0;
    pass(h, NODE_HOSTED_JUDGES);
    while (h->turn == NODE_HOSTED_JUDGES)
        pthread_cond_wait(&h->passed, &h->lock);
    h->offered = NULL;
    const struct train_probe probe = h->probe;
    pthread_mutex_unlock(&h->lock);
    return probe;
}

static struct gossip_learner_verdict judge(void *owner, size_t which, const float *model,
                                           enum gossip_learner_offer offer)
{
    (void)which;
    const struct train_probe probe = ask(owner, model);
    return node_verdict(&probe, offer);
}

// The node knows no examples of a program, but how long the answer took, from when the program saw the
// question: it may have come late to it.
static void compare(void *owner, size_t which, const float *model, struct gossip_losses *losses)
{
    struct node_hosted *h = owner;
    (void)which;
    const struct train_probe probe = ask(h, model);
    const uint64_t now_ns = node_clock_ns();
    BASE_ASSERT(h->seen_ns > 0 && h->seen_ns <= now_ns);
    h->look_ns = now_ns + LOOK_PART * (now_ns - h->seen_ns);
    *losses = (struct gossip_losses){.nothing = probe.nothing, .own = probe.own, .other = probe.other};
}

static void end(void *owner, size_t which)
{
    (void)owner, (void)which;
}

const struct train_watch *node_hosted_watch(const struct node_hosted *hosted)
{
    return &hosted->losses.watch;
}

struct gossip_learner node_hosted_learner(struct node_hosted *hosted)
{
    return (struct gossip_learner){.owner = hosted,
                                   .parameters = hosted->parameters,
                                   .begin = begin,
                                   .steps = steps,
                                   .boundary = boundary,
                                   .adopt = adopt,
                                   .judge = hosted->way & NODE_HOSTED_JUDGED ? judge : NULL,
                                   .compare = hosted->way & NODE_HOSTED_JUDGED ? compare : NULL,
                                   .end = end};
}

// -- the program

int node_hosted_descriptor(const struct node_hosted *hosted)
{
    return hosted->ready;
}

enum node_hosted_turn node_hosted_wait(struct node_hosted *h, uint64_t deadline_ns)
{
    pthread_mutex_lock(&h->lock);
    while (h->turn == NODE_HOSTED_NODE && node_condition_wait(&h->lock, &h->passed, deadline_ns))
        ;
    enum node_hosted_turn turn = h->turn;
    if (turn == NODE_HOSTED_JUDGES && h->seen_ns == 0)
        h->seen_ns = node_clock_ns();
    pthread_mutex_unlock(&h->lock);
    return turn;
}

const float *node_hosted_offered(const struct node_hosted *hosted)
{
    BASE_ASSERT(hosted->offered);
    return hosted->offered;
}

void node_hosted_judge(struct node_hosted *h, const struct train_probe *probe)
{
    pthread_mutex_lock(&h->lock);
    BASE_ASSERT(h->turn == NODE_HOSTED_JUDGES);
    h->probe = *probe;
    pass(h, NODE_HOSTED_NODE);
    pthread_mutex_unlock(&h->lock);
}

uint64_t node_hosted_steps(const struct node_hosted *hosted)
{
    return hosted->asked;
}

uint64_t node_hosted_steps_done(const struct node_hosted *hosted)
{
    return train_trainer_steps_done(hosted->trainer);
}

double node_hosted_pace(const struct node_hosted *hosted)
{
    return hosted->pace;
}

double *node_hosted_weight(struct node_hosted *hosted)
{
    return &hosted->weight;
}

const struct node_hosted_change *node_hosted_change(const struct node_hosted *hosted)
{
    return &hosted->change;
}

void node_hosted_give(struct node_hosted *h, uint64_t count, double step_scale, double loss)
{
    pthread_mutex_lock(&h->lock);
    if (h->turn == NODE_HOSTED_PROGRAM) { // else the node has ended meanwhile
        BASE_ASSERT(h->given == 0 && !h->undone);
        h->given = count;
        h->given_scale = step_scale;
        h->given_loss = loss;
        pass(h, NODE_HOSTED_NODE);
    }
    pthread_mutex_unlock(&h->lock);
}

void node_hosted_undo(struct node_hosted *h)
{
    pthread_mutex_lock(&h->lock);
    if (h->turn == NODE_HOSTED_PROGRAM) {
        BASE_ASSERT(h->given == 0);
        h->undone = true;
        pass(h, NODE_HOSTED_NODE);
    }
    pthread_mutex_unlock(&h->lock);
}

void node_hosted_release(struct node_hosted *h)
{
    pthread_mutex_lock(&h->lock);
    h->released = true;
    if (h->turn == NODE_HOSTED_PROGRAM) {
        h->leaves = true;
        pass(h, NODE_HOSTED_NODE);
    }
    pthread_mutex_unlock(&h->lock);
}

// In the node's turn the model has it.
static void hold_nothing(struct node_hosted *h)
{
    float *held = train_trainer_held(h->trainer);
    BASE_ASSERT(h->turn != NODE_HOSTED_PROGRAM);
    if (held)
        memset(held, 0, h->parameters * sizeof *held);
}

void node_hosted_over(struct node_hosted *h)
{
    pthread_mutex_lock(&h->lock);
    if (h->turn == NODE_HOSTED_NODE)
        hold_nothing(h);
    pass(h, NODE_HOSTED_OVER);
    pthread_mutex_unlock(&h->lock);
}

// -- making

static bool make_lists(struct node_hosted *h)
{
    BASE_ASSERT(h->parameters > 0 && !h->index);
    h->capacity = h->parameters / NODE_HOSTED_DENSE_PART + 1;
    h->model_before = malloc(h->parameters * sizeof(float));
    h->correction_before = malloc(h->parameters * sizeof(float));
    h->index = malloc(h->capacity * sizeof *h->index);
    h->model_change = malloc(h->capacity * sizeof(float));
    h->correction_now = malloc(h->capacity * sizeof(float));
    return h->model_before && h->correction_before && h->index && h->model_change && h->correction_now;
}

enum base_error node_hosted_create(struct train_trainer *trainer, struct gossip_blob *blob, unsigned way,
                                   struct node_hosted **out)
{
    struct node_hosted *h = calloc(1, sizeof *h);
    if (!h)
        return BASE_ENOMEM;
    h->trainer = trainer;
    h->blob = blob;
    h->parameters = train_model_parameters(train_trainer_of(trainer));
    h->way = way;
    h->pace = h->weight = 1;
    node_condition_init(&h->lock, &h->passed);
    h->ready = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->ready < 0 || (way & NODE_HOSTED_TRACKED && !make_lists(h))) {
        enum base_error error = h->ready < 0 ? BASE_EIO : BASE_ENOMEM;
        node_hosted_destroy(h);
        return error;
    }
    *out = h;
    return BASE_OK;
}

void node_hosted_destroy(struct node_hosted *h)
{
    if (!h)
        return;
    BASE_ASSERT(h->turn != NODE_HOSTED_PROGRAM); // the learner thread would wait for the end of its turn
    if (h->ready >= 0)
        close(h->ready);
    pthread_cond_destroy(&h->passed);
    pthread_mutex_destroy(&h->lock);
    free(h->model_before);
    free(h->correction_before);
    free(h->index);
    free(h->model_change);
    free(h->correction_now);
    free(h);
}
