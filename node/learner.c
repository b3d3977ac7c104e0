#include "node/learner.h"
#include "base/log.h"
#include "node/clock.h"
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define LEARNER_NICE      5
#define PROGRESS_EVERY_NS (100 * NODE_MILLISECOND_NS)

struct node_learner {
    struct node_learner_options options;
    pthread_t thread;
    float *before;         // [parameters] x0 of the round, with outer momentum only
    float *device_scratch; // [parameters] in the kernels' memory, for evaluation
    uint64_t round;        // done so far; rounds are numbered from 1
    uint64_t progress_ns, checkpoint_ns;
    double loss, accuracy; // latest; accuracy: latest measured
    struct gossip_exchange_totals totals;
};

static bool stopped(const struct node_learner *l)
{
    return atomic_load_explicit(&l->options.counters->stop, memory_order_relaxed);
}

// To the loop, which drains its box until it has heard LEFT.
static void post_loop(struct node_learner *l, struct node_mail *mail)
{
    const struct timespec moment = {.tv_nsec = NODE_MILLISECOND_NS};
    while (node_mailbox_post(l->options.loop, mail) != BASE_OK)
        nanosleep(&moment, NULL);
}

static void tell_progress(struct node_learner *l, const char *state, bool always)
{
    uint64_t now_ns = node_clock_ns();
    if (!always && now_ns - l->progress_ns < PROGRESS_EVERY_NS)
        return;
    l->progress_ns = now_ns;
    struct node_mail *mail = node_mail_new(NODE_MAIL_PROGRESS);
    mail->progress = (struct node_progress){.round = l->round,
                                            .step = train_trainer_steps_done(l->options.trainer),
                                            .exchanges = l->totals.exchanges,
                                            .loss = l->loss,
                                            .accuracy = l->accuracy,
                                            .consensus = l->totals.consensus,
                                            .rate = train_trainer_rate(l->options.trainer),
                                            .state = state};
    post_loop(l, mail);
}

// Waits for START or LEAVE. A stop is told by a LEAVE, too, so every mail wakes.
static void wait_for(struct node_learner *l, enum node_mail_kind kind)
{
    for (bool come = false; !come && !stopped(l);) {
        struct node_mail *mail = node_mailbox_take(l->options.inbox, UINT64_MAX);
        come = mail && mail->kind == kind;
        node_mail_free(mail);
    }
}

// Rendezvous: the worker has the vectors until it answers. Returns the error of a checkpoint.
static enum base_error meet(struct node_learner *l, bool meets, float step_scale, bool checkpoint)
{
    const struct node_config *config = l->options.config;
    struct train_trainer *trainer = l->options.trainer;
    bool shares = config->average.share_second_moment > 0;
    train_trainer_fetch(trainer);
    struct node_round round = {
        .round = l->round + 1,
        .meets = meets,
        .step_scale = step_scale,
        .model = train_trainer_model(trainer),
        .second_moment = shares ? train_trainer_second_moment(trainer) : NULL,
        .correction = config->average.drift_correction ? train_trainer_correction(trainer) : NULL,
        .checkpoint = checkpoint};
    struct node_mail *mail = node_mail_new(NODE_MAIL_ROUND);
    mail->round = &round;
    const struct timespec moment = {.tv_nsec = NODE_MILLISECOND_NS};
    while (node_mailbox_post(l->options.worker, mail) != BASE_OK)
        nanosleep(&moment, NULL);
    for (bool done = false; !done;) { // a LEAVE that wakes for a stop may come first
        struct node_mail *answer = node_mailbox_take(l->options.inbox, UINT64_MAX);
        done = answer && answer->kind == NODE_MAIL_ROUND_DONE;
        node_mail_free(answer);
    }
    train_trainer_store(trainer);
    l->totals = round.totals;
    return round.checkpoint_error;
}

// Quasi-global momentum, before: x = x0 - (delta + mu*V) with delta = x0 - x, hence x -= mu*V.
static void outer_before(struct node_learner *l)
{
    if (!l->options.outer)
        return;
    size_t d = train_model_parameters(l->options.model);
    float mu = (float)l->options.config->average.outer_momentum, *x = train_trainer_model(l->options.trainer);
    train_trainer_fetch(l->options.trainer);
    for (size_t i = 0; i < d; i++)
        x[i] -= mu * l->options.outer[i];
    train_trainer_store(l->options.trainer);
}

// ... and after: V = mu*V + (1 - mu)*(x0 - x_new); x_new is the next round's x0.
static void outer_after(struct node_learner *l)
{
    if (!l->options.outer)
        return;
    size_t d = train_model_parameters(l->options.model);
    float mu = (float)l->options.config->average.outer_momentum;
    const float *x = train_trainer_model(l->options.trainer);
    for (size_t i = 0; i < d; i++)
        l->options.outer[i] = mu * l->options.outer[i] + (1.0f - mu) * (l->before[i] - x[i]);
    memcpy(l->before, x, d * sizeof *x);
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
    for (uint64_t i = 0; i < config->average.local_steps && !stopped(l); i++) {
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
    local_steps(l, &scale);
    if (stopped(l))
        return; // the last rendezvous takes these steps in
    outer_before(l);
    if (meet(l, true, scale, checkpoint_is_due(l)) != BASE_OK)
        l->checkpoint_ns = 0; // tried again at the next boundary
    outer_after(l);
    l->round++;
    struct measured measured = {NAN, NAN};
    if (eval_rounds > 0 && l->round % eval_rounds == 0)
        measured = evaluate(l);
    write_row(l, measured, rate, "training");
    tell_progress(l, "training", false);
}

static void train_all(struct node_learner *l)
{
    l->checkpoint_ns = node_clock_ns();
    tell_progress(l, "training", true);
    while (!stopped(l) && train_trainer_steps_done(l->options.trainer) < l->options.config->train.steps)
        train_round(l);
}

// What came in while lingering, the last checkpoint, the last measurement.
static int finish(struct node_learner *l)
{
    const char *state = stopped(l) ? "stopping" : "lingering";
    tell_progress(l, state, true);
    enum base_error code = meet(l, false, 0, true);
    struct measured measured = evaluate(l);
    write_row(l, measured, train_trainer_rate(l->options.trainer), stopped(l) ? "stopped" : "finished");
    tell_progress(l, state, true);
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
    tell_progress(l, "waiting", true);
    wait_for(l, NODE_MAIL_START);
    if (!stopped(l))
        train_all(l);
    if (!stopped(l)) {
        tell_progress(l, "lingering", true);
        post_loop(l, node_mail_new(NODE_MAIL_FINISHED));
        wait_for(l, NODE_MAIL_LEAVE);
    }
    struct node_mail *left = node_mail_new(NODE_MAIL_LEFT);
    left->status = finish(l);
    post_loop(l, left);
    return NULL;
}

static void release(struct node_learner *l)
{
    if (l->device_scratch)
        train_model_kernels(l->options.model)->release(l->device_scratch);
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
