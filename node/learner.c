#include "node/learner.h"
#include "base/log.h"
#include "node/clock.h"
#include "node/learner_private.h"
#include "node/momentum.h"
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define LEARNER_NICE   5
#define SHARDS_WAIT_NS NODE_SECOND_NS // at the end, for a load that still goes on

static void outer_before(struct node_learner *l)
{
    struct train_trainer *trainer = l->options.trainer;
    if (!l->options.outer)
        return;
    train_trainer_fetch(trainer);
    node_momentum_before((float)l->options.config->average.outer_momentum,
                         train_model_parameters(l->options.model), l->options.outer,
                         train_trainer_model(trainer));
    train_trainer_store(trainer);
}

static void outer_after(struct node_learner *l)
{
    if (!l->options.outer)
        return;
    node_momentum_after((float)l->options.config->average.outer_momentum,
                        train_model_parameters(l->options.model), train_trainer_model(l->options.trainer),
                        l->before, l->options.outer);
}

struct measured {
    double loss, accuracy;
};

static struct measured evaluate(struct node_learner *l)
{
    struct measured m = {NAN, NAN};
    if (!l->options.test || l->options.test->examples == 0)
        return m;
    size_t bytes = train_model_parameters(l->options.model) * sizeof(float);
    const struct kernels *kernels = train_model_kernels(l->options.model);
    train_trainer_fetch(l->options.trainer);
    kernels->upload(l->device_scratch, train_trainer_model(l->options.trainer), bytes);
    train_model_evaluate(l->options.model, l->device_scratch, l->options.test, &m.loss, &m.accuracy);
    l->accuracy = m.accuracy;
    return m;
}

static void write_row(struct node_learner *l, struct measured measured, double rate, const char *state)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct node_metrics_row row = {
        .time = (double)now.tv_sec + (double)now.tv_nsec / (double)NODE_SECOND_NS,
        .round = l->round,
        .step = train_trainer_steps_done(l->options.trainer),
        .bytes_sent = atomic_load_explicit(&l->options.counters->bytes_sent, memory_order_relaxed),
        .bytes_received = atomic_load_explicit(&l->options.counters->bytes_received, memory_order_relaxed),
        .exchanges = l->totals.exchanges,
        .delta_bytes = l->totals.delta_bytes_out,
        .dense_bytes = l->totals.dense_bytes_out,
        .loss = l->loss,
        .accuracy = measured.accuracy,
        .test_loss = measured.loss,
        .consensus = l->totals.consensus,
        .rate = rate,
        .state = state,
    };
    if (node_metrics_write(l->options.metrics, &row) != BASE_OK)
        return; // it has said so in the log, once; training is worth more than its record
}

// Local steps of one round; fewer at the end or when stopped. *scale becomes the sum of their learning rates.
static void local_steps(struct node_learner *l, float *scale)
{
    const struct node_config *config = l->options.config;
    double loss_sum = 0, rate_sum = 0;
    size_t examples = 0;
    uint64_t begun_ns = node_clock_ns(), steps = 0;
    for (; steps < config->average.local_steps && !node_learner_stopped(l); steps++) {
        if (train_trainer_steps_done(l->options.trainer) >= config->train.steps)
            break;
        struct kernels_loss loss;
        size_t rows = 0;
        rate_sum += train_trainer_rate(l->options.trainer);
        train_trainer_step(l->options.trainer, config->average.drift_correction, &loss, &rows);
        loss_sum += loss.loss_sum;
        examples += rows;
    }
    if (examples > 0)
        l->loss = loss_sum / (double)examples;
    *scale = (float)rate_sum;
    node_pace_add(&l->pace, node_clock_ns() - begun_ns, steps);
}

static bool checkpoint_is_due(struct node_learner *l)
{
    uint64_t every_ns = l->options.config->checkpoint.every_ns, now_ns = node_clock_ns();
    if (every_ns == 0 || now_ns - l->checkpoint_ns < every_ns)
        return false;
    l->checkpoint_ns = now_ns;
    return true;
}

static void train_round(struct node_learner *l)
{
    float scale = 0;
    uint64_t eval_rounds = l->options.config->train.eval_rounds;
    double rate = train_trainer_rate(l->options.trainer);
    node_learner_tell(l, "training", false);
    train_trainer_round_begin(l->options.trainer);
    local_steps(l, &scale);
    if (node_learner_stopped(l))
        return; // the last rendezvous takes these steps in
    outer_before(l);
    if (node_learner_meet(l, true, scale, checkpoint_is_due(l)) != BASE_OK)
        l->checkpoint_ns = 0; // tried again at the next boundary
    outer_after(l);
    l->round++;
    struct measured measured = {NAN, NAN};
    if (eval_rounds > 0 && l->round % eval_rounds == 0)
        measured = evaluate(l);
    write_row(l, measured, rate, "training");
    node_learner_tell(l, "training", false);
}

// Before each round; what a round trains on may change here, too.
static bool goes_on(struct node_learner *l)
{
    node_learner_obey(l);
    if (node_learner_stopped(l) || l->incomplete ||
        train_trainer_steps_done(l->options.trainer) >= l->options.config->train.steps)
        return false;
    l->ended_alone = l->orders.alone;
    return !l->ended_alone;
}

static void train_all(struct node_learner *l)
{
    l->checkpoint_ns = node_clock_ns();
    while (goes_on(l))
        train_round(l);
}

// Others may still meet this node, and begin with its state.
static void linger(struct node_learner *l)
{
    (void)node_learner_meet(l, false, 0, false);
    node_learner_tell(l, "lingering", true);
    struct node_mail *finished = node_mail_new(NODE_MAIL_FINISHED);
    finished->status = l->ended_alone;
    node_learner_post(l, finished);
    while (!l->orders.leave && !node_learner_stopped(l))
        node_learner_listen(l, true);
}

// What came in while lingering, the last checkpoint, the last measurement. Half a snapshot is no state, and
// what a snapshot was to replace is none that anybody should go on from.
static int finish(struct node_learner *l)
{
    if (l->incomplete)
        return node_learner_stopped(l) ? 0 : 1;
    const char *state = node_learner_stopped(l) ? "stopping" : "lingering";
    node_learner_tell(l, state, true);
    enum base_error code = node_learner_meet(l, false, 0, !l->orders.fetch);
    struct measured measured = evaluate(l);
    write_row(l, measured, train_trainer_rate(l->options.trainer),
              node_learner_stopped(l) ? "stopped" : "finished");
    node_learner_tell(l, state, true);
    base_log(BASE_LOG_INFO, "result", "step %llu, loss %.4f, test accuracy %.2f%%",
             (unsigned long long)train_trainer_steps_done(l->options.trainer), l->loss,
             100 * measured.accuracy);
    return code == BASE_OK ? 0 : 1;
}

// On a busy host the loop and the worker, who answer others, go before local steps. (Nice values are per
// thread on Linux.)
static void step_back(void)
{
    errno = 0;
    int nice_now = getpriority(PRIO_PROCESS, 0);
    if (errno == 0)
        (void)setpriority(PRIO_PROCESS, 0, nice_now + LEARNER_NICE);
}

static void *learn(void *argument)
{
    struct node_learner *l = argument;
    step_back();
    node_learner_tell(l, "waiting", true);
    while (!l->orders.start && !node_learner_stopped(l))
        node_learner_listen(l, true);
    if (!node_learner_stopped(l))
        train_all(l);
    if (!node_learner_stopped(l) && !l->incomplete)
        linger(l);
    struct node_mail *left = node_mail_new(NODE_MAIL_LEFT);
    left->status = finish(l);
    node_learner_post(l, left);
    return NULL;
}

static void release(struct node_learner *l)
{
    if (l->device_scratch)
        train_model_kernels(l->options.model)->release(l->device_scratch);
    if (l->shards)
        node_shards_destroy(l->shards, node_clock_ns() + SHARDS_WAIT_NS);
    free(l->before);
    free(l);
}

enum base_error node_learner_start(const struct node_learner_options *options, struct node_learner **out)
{
    struct node_learner *l = calloc(1, sizeof *l);
    if (!l)
        return BASE_ENOMEM;
    l->options = *options;
    l->round = options->first_round;
    l->loss = l->accuracy = l->totals.consensus = NAN;
    size_t bytes = train_model_parameters(options->model) * sizeof(float);
    l->device_scratch = train_model_kernels(options->model)->alloc(bytes);
    if (options->outer)
        l->before = malloc(bytes);
    if (!l->device_scratch || (options->outer && !l->before))
        goto fail;
    if (options->config->data.takeover && options->config->data.shards > 1 &&
        node_shards_create(options->config, train_trainer_data(options->trainer), &l->shards) != BASE_OK)
        goto fail;
    if (l->before)
        memcpy(l->before, train_trainer_model(options->trainer), bytes);
    if (pthread_create(&l->thread, NULL, learn, l) != 0)
        goto fail;
    *out = l;
    return BASE_OK;
fail:
    release(l);
    return BASE_ENOMEM;
}

void node_learner_join(struct node_learner *learner)
{
    pthread_join(learner->thread, NULL);
    release(learner);
}
