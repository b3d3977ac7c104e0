#include "node/learn/learner.h"
#include "base/log.h"
#include "gossip/session/identity.h"
#include "node/learn/private.h"
#include "node/queue/clock.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#define LEARNER_NICE   5
#define WORSE_PART     0.01 // of the held-out examples
#define WORSE_RMSE     1.2
#define SHARDS_WAIT_NS NODE_SECOND_NS // at the end, for a load that is still under way

static struct train_score evaluate(struct node_learner *l)
{
    struct train_score m = {NAN, NAN, NAN};
    if (!l->options.trainee || !l->options.test || l->options.test->examples == 0)
        return m;
    BASE_ASSERT(l->options.model && gossip_rounds_complete(&l->rounds)); // half a snapshot is not measured
    size_t bytes = l->learner.parameters * sizeof(float);
    const struct kernels *kernels = train_model_kernels(l->options.model);
    node_built_in_fetch(l->options.trainee);
    if (l->device_scratch)
        kernels->upload(l->device_scratch, l->vectors.model, bytes);
    train_model_evaluate(l->options.model, l->device_scratch ? l->device_scratch : l->vectors.model,
                         l->options.test, &m);
    l->accuracy = m.accuracy;
    l->rmse = m.rmse;
    return m;
}

// `account`: of the round that has just ended, or NULL.
static void write_row(struct node_learner *l, struct train_score measured, const char *state,
                      const struct gossip_round_account *account)
{
    struct timespec now;
    BASE_ASSERT(gossip_rounds_complete(&l->rounds));
    clock_gettime(CLOCK_REALTIME, &now);
    struct node_metrics_row row = {
        .time = (double)now.tv_sec + (double)now.tv_nsec / (double)NODE_SECOND_NS,
        .round = l->rounds.round,
        .step = l->rounds.step,
        .own_steps = node_learner_own_steps(l),
        .own_examples = node_learner_own_examples(l),
        .bytes_sent = atomic_load_explicit(&l->options.counters->bytes_sent, memory_order_relaxed),
        .bytes_received = atomic_load_explicit(&l->options.counters->bytes_received, memory_order_relaxed),
        .exchanges = l->totals.exchanges,
        .returns = l->rounds.returns,
        .delta_bytes = l->totals.delta_bytes_out,
        .dense_bytes = l->totals.dense_bytes_out,
        .loss = l->loss,
        .accuracy = measured.accuracy,
        .regression = l->regression,
        .rmse = measured.rmse,
        .test_loss = measured.loss,
        .consensus = l->totals.consensus,
        .rate = l->rate,
        .diverged = node_learner_watch(l) && train_watch_is_diverged(node_learner_watch(l)),
        .merged = l->merged,
        .own_accuracy = l->own.accuracy,
        .own_test_loss = l->own.loss,
        .account = account,
        .state = state,
    };
    // A failure is logged once. Training continues without its record.
    l->row_failed = node_metrics_write(l->options.metrics, &row) != BASE_OK;
    if (l->options.rounds)
        node_rounds_put(l->options.rounds, row.round, row.time, node_metrics_latest(l->options.metrics));
    if (l->options.tensorboard)
        node_tensorboard_write(l->options.tensorboard, &row);
}

static void tell_rollback(const struct node_learner *l)
{
    if (l->result == GOSSIP_LEARNER_UNDONE) {
        base_log(BASE_LOG_WARN, "rollback",
                 "round %" PRIu64 ": its steps were not completed; continuing with the last published model",
                 l->rounds.round);
        return;
    }
    base_log(BASE_LOG_ERROR, "rollback",
             "round %" PRIu64
             ": loss or model is not finite (loss %g); continuing with the last published model, %u of at "
             "most %u such rounds in a row. A smaller train.rate may help",
             l->rounds.round, l->loss, l->rounds.unusable_in_row, GOSSIP_ROUNDS_UNUSABLE_MAX);
}

static void tell_return(const struct node_learner *l)
{
    const struct train_watch *watch = &l->options.trainee->watch;
    base_log(
        BASE_LOG_ERROR, "diverged",
        "round %" PRIu64 ": the loss is %.4g, far above %.4g (it was %.4g at best); the node returns to its "
        "last good model, %u of at most %u times within %u rounds each. A smaller train.rate may help, or "
        "a neighbour sends bad models",
        l->rounds.round, watch->latest, train_watch_bound(watch), watch->best, l->rounds.returns_in_row,
        GOSSIP_ROUNDS_RETURNS_MAX, GOSSIP_ROUNDS_RETURN_SPAN);
}

// A program's model is its own affair: the node says what it sees, once.
static void tell_program_diverged(struct node_learner *l)
{
    const struct train_watch *watch = l->options.watch;
    if (!watch || watch->recovers == l->told_diverged)
        return;
    l->told_diverged = watch->recovers;
    if (watch->recovers)
        base_log(BASE_LOG_ERROR, "diverged",
                 "round %" PRIu64
                 ": the loss that the program reports is %.4g, far above %.4g (it was %.4g at "
                 "best). A smaller rate may help, or an earlier checkpoint, or a neighbour sends bad models",
                 l->rounds.round, watch->latest, train_watch_bound(watch), watch->best);
    else
        base_log(BASE_LOG_INFO, "diverged", "round %" PRIu64 ": the loss is as usual again, %.4g",
                 l->rounds.round, watch->latest);
}

static void end_round(struct node_learner *l)
{
    struct train_score measured = {.accuracy = l->reported, .rmse = NAN, .loss = NAN};
    uint64_t every = l->options.trainee ? l->options.config->train.eval_rounds : 0;
    BASE_ASSERT(l->round_is_over);
    l->reported = NAN;
    l->round_is_over = false;
    if (l->rounds.unusable_in_row > 0)
        tell_rollback(l);
    if (l->result == GOSSIP_LEARNER_DIVERGED)
        tell_return(l);
    tell_program_diverged(l);
    if (every > 0 && l->rounds.round % every == 0)
        measured = evaluate(l);
    write_row(l, measured, "training", &l->account);
    node_learner_tell(l, "training", false);
}

static void take_steps(struct node_learner *l, uint64_t count)
{
    struct gossip_learner_steps did;
    node_learner_agree(l);
    node_learner_take_shards(l);
    node_learner_take_weight(l);
    node_learner_tell(l, "training", false);
    if (!l->offered)
        node_learner_offer(l);
    l->announced = !l->options.trainee && node_learner_checkpoint_is_due(l);
    gossip_look_compare(node_learner_look(l), &l->learner, 0);
    gossip_rounds_set(&l->rounds, &l->learner, 0);
    (void)l->learner.steps(l->learner.owner, 0, count, l->pace);
    l->learner.boundary(l->learner.owner, 0, &did);
    BASE_ASSERT(did.step >= l->rounds.step);
    l->given_steps += did.result == GOSSIP_LEARNER_UNDONE ? 0 : did.step - l->rounds.step;
    l->result = did.result;
    l->step_ns = did.step_ns;
    gossip_look_want(node_learner_look(l), &did);
    l->loss = did.loss;
    l->rate = did.rate;
    gossip_rounds_stepped(&l->rounds, did.step, did.step_scale, did.result);
}

static void adopt(struct node_learner *l, const struct gossip_rounds_next *next)
{
    l->learner.adopt(l->learner.owner, 0, next->change, next->step);
    node_learner_note_way(l, next->change);
    if (next->change == GOSSIP_LEARNER_RESTORED || next->change == GOSSIP_LEARNER_TAKEN)
        node_learner_tell(l, l->state, true); // it has taken the cluster's round, or a donor's
    if (l->round_is_over)
        end_round(l);
}

// Other nodes may still meet this node and start from its state.
static void tell_finished(struct node_learner *l)
{
    struct node_message *finished = node_message_new(NODE_MESSAGE_FINISHED);
    BASE_ASSERT(!l->told_finished);
    l->told_finished = true;
    node_learner_post(l, finished);
}

// 3 standard errors of a difference, or a point: two parts of a hundred examples say little.
static bool is_clearly_worse(const struct node_learner *l, struct train_score own, struct train_score now)
{
    if (l->regression)
        return now.rmse > WORSE_RMSE * own.rmse;
    const double p = own.accuracy, variance = 2 * p * (1 - p) / (double)l->options.test->examples;
    return own.accuracy - now.accuracy > fmax(WORSE_PART, 3 * sqrt(variance));
}

// What another model did to the figures of this node's held-out data.
static void tell_replaced(const struct node_learner *l, const char *event, const char *which,
                          struct train_score own, struct train_score now)
{
    const char *what = l->regression ? "R2" : "accuracy", *unit = l->regression ? "" : "%";
    const double scale = l->regression ? 1 : 100;
    if (isnan(own.accuracy))
        return;
    const bool worse = is_clearly_worse(l, own, now);
    base_log(worse ? BASE_LOG_WARN : BASE_LOG_INFO, event,
             "this node's own model: test loss %.4f, test %s %.2f%s; the %s one: %.4f, %.2f%s%s", own.loss,
             what, scale * own.accuracy, unit, which, now.loss, scale * now.accuracy, unit,
             worse ? ": clearly worse on this node's held-out examples. Earlier checkpoints are in node.dir"
                   : "");
}

static enum node_adoption why_fetched(const struct node_learner *l)
{
    if (l->rounds.orders.end >= GOSSIP_ORDER_ALONE)
        return NODE_ADOPTED_END;
    return gossip_rounds_complete(&l->rounds) && l->rounds.step > 0 ? NODE_ADOPTED_BEHIND : NODE_ADOPTED_NEW;
}

static void note_adopted(struct node_learner *l, enum node_adoption why)
{
    l->adopted = (struct node_adopted){.why = why,
                                       .donor = l->donor,
                                       .nodes = l->merged_nodes,
                                       .round = l->rounds.round,
                                       .step = l->rounds.step,
                                       .own = l->verdict.own,
                                       .other = l->verdict.other,
                                       .nothing = l->verdict.nothing};
}

// A node that has trained, or was resumed, has a model of its own to compare with. Where no round is
// measured, that may take so long that the node would be far behind again.
static void fetch(struct node_learner *l)
{
    struct train_score own = {NAN, NAN, NAN};
    const enum node_adoption why = why_fetched(l);
    if (l->options.config->train.eval_rounds > 0 && gossip_rounds_complete(&l->rounds) && l->rounds.step > 0)
        own = evaluate(l);
    const bool taken = node_learner_fetch(l);
    if (taken)
        note_adopted(l, why);
    if (taken && !isnan(own.accuracy))
        tell_replaced(l, "adopted", "adopted", own, evaluate(l));
}

static void merge(struct node_learner *l, bool gives)
{
    float *model = NULL;
    l->merged = node_learner_merge(l, gives, &model);
    if (l->merged)
        note_adopted(l, NODE_ADOPTED_MERGED);
    if (l->merged)
        l->own = evaluate(l);
    node_learner_put(l, model);
    gossip_rounds_merged(&l->rounds, l->merged);
}

static void await_orders(struct node_learner *l)
{
    static const char *const state[] = {[GOSSIP_ROUNDS_WAITING] = "waiting",
                                        [GOSSIP_ROUNDS_TRAINING] = "training",
                                        [GOSSIP_ROUNDS_PAUSED] = "paused",
                                        [GOSSIP_ROUNDS_FINISHED] = "lingering"};
    node_learner_tell(l, state[l->rounds.state], true);
    if (l->rounds.state == GOSSIP_ROUNDS_FINISHED && !l->told_finished)
        tell_finished(l);
    node_learner_listen(l, true);
}

// Whose model this node ends with.
static void tell_whose(const struct node_learner *l, char *text, size_t bytes)
{
    char donor[GOSSIP_ID_HEX];
    if (l->merged) {
        snprintf(text, bytes, "; the mean of the models of %zu nodes", l->merged_nodes);
    } else if (l->rounds.model == GOSSIP_ROUNDS_BORROWED) {
        gossip_id_hex(&l->donor, donor);
        snprintf(text, bytes, "; the model of node %.16s", donor);
    } else {
        snprintf(text, bytes, "; this node's own model%s",
                 l->merge_refused ? ", since the merged one is worse" : "");
    }
}

// A node that took another node's model and made no step has no loss. A loss that became NaN is printed.
static void tell_result(const struct node_learner *l, struct train_score measured)
{
    char loss[32] = "not trained", test[64] = "", whose[160];
    if (!isnan(l->loss) || l->rounds.unusable_rounds > 0)
        snprintf(loss, sizeof loss, "loss %.4f", l->loss);
    if (l->options.trainee && l->regression)
        snprintf(test, sizeof test, ", test R2 %.4f, RMSE %.4g", measured.accuracy, measured.rmse);
    else if (l->options.trainee)
        snprintf(test, sizeof test, ", test accuracy %.2f%%", 100 * measured.accuracy);
    tell_whose(l, whose, sizeof whose);
    base_log(BASE_LOG_INFO, "result", "step %" PRIu64 ", %s%s%s", l->rounds.step, loss, test, whose);
}

// The cause of an exit status other than 0; "" if the loop knows it.
static void tell_cause(const struct node_learner *l, char *cause, size_t bytes)
{
    if (l->rounds.unusable_in_row >= GOSSIP_ROUNDS_UNUSABLE_MAX) {
        snprintf(cause, bytes,
                 "the model was not finite %u rounds in a row; this node ends. --resume continues from the "
                 "checkpoint: use a smaller train.rate, or remove the data or the neighbours that make it "
                 "diverge",
                 l->rounds.unusable_in_row);
        base_log(BASE_LOG_ERROR, "rollback", "%s", cause);
    } else if (l->rounds.returns_in_row >= GOSSIP_ROUNDS_RETURNS_MAX) {
        snprintf(
            cause, bytes,
            "the training diverged %u times, each soon after the node had returned to its last good model; "
            "this node ends with that one. Before --resume use a smaller train.rate, or remove the data or "
            "the neighbours that make it diverge",
            l->rounds.returns_in_row);
        base_log(BASE_LOG_ERROR, "diverged", "%s", cause);
    } else if (l->refused[0])
        snprintf(cause, bytes, "%s", l->refused);
    else if (l->checkpoint_failed)
        snprintf(cause, bytes, "the last checkpoint could not be written; the log says why");
    else if (l->rounds.model == GOSSIP_ROUNDS_FORSAKEN) {
        snprintf(cause, bytes,
                 "all others have finished, and the model of none of them could be fetched: this node ends "
                 "with its own, after %" PRIu64 " steps",
                 node_learner_own_steps(l));
        base_log(BASE_LOG_ERROR, "alone", "%s", cause);
    }
}

// Makes the last measurement and returns the exit status. Measures nothing after an incomplete snapshot: that
// is not a state, and training must not continue from the state that it was to replace.
static int finish(struct node_learner *l, int status)
{
    if (!gossip_rounds_complete(&l->rounds))
        return status;
    struct train_score measured = evaluate(l);
    write_row(l, measured, gossip_rounds_stops(&l->rounds) ? "stopped" : "finished", NULL);
    node_learner_tell(l, l->state, true);
    tell_replaced(l, "merge", "merged", l->own, measured);
    tell_result(l, measured);
    return l->checkpoint_failed || l->refused[0] ? 1 : status;
}

// False: this was the end.
static bool carry_out(struct node_learner *l, const struct gossip_rounds_next *next)
{
    switch (next->todo) {
    case GOSSIP_ROUNDS_WAIT:
        await_orders(l);
        break;
    case GOSSIP_ROUNDS_STEPS:
        take_steps(l, next->steps);
        break;
    case GOSSIP_ROUNDS_MEET:
        node_learner_meet(l, &next->meet);
        break;
    case GOSSIP_ROUNDS_FETCH:
        fetch(l);
        break;
    case GOSSIP_ROUNDS_RETURN:
        node_learner_return(l, next->round);
        break;
    case GOSSIP_ROUNDS_MERGE:
        merge(l, next->gives);
        break;
    case GOSSIP_ROUNDS_ADOPT:
        adopt(l, next);
        break;
    case GOSSIP_ROUNDS_END:
        return false;
    }
    return true;
}

// On a busy host the loop and the worker, which answer other nodes, have priority over local steps. (Nice
// values are per thread on Linux.)
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
    struct gossip_rounds_next next;
    BASE_ASSERT(!l->state); // the thread begins
    (void)pthread_setname_np(pthread_self(), "learner");
    if (l->options.trainee)
        step_back();
    node_learner_tell(l, "waiting", true);
    l->checkpoint_due_ns =
        l->options.resume.resumed ? node_clock_ns() + l->options.config->checkpoint.every_ns : 0;
    do {
        node_learner_listen(l, false);
        next = gossip_rounds_next(&l->rounds);
    } while (carry_out(l, &next));
    struct node_message *left = node_message_new(NODE_MESSAGE_LEFT);
    left->as.left.exit_status = finish(l, next.status);
    if (left->as.left.exit_status != 0)
        tell_cause(l, left->as.left.cause, sizeof left->as.left.cause);
    node_learner_post(l, left);
    return NULL;
}

static void release(struct node_learner *l)
{
    if (l->device_scratch)
        train_model_kernels(l->options.model)->release(l->device_scratch);
    if (l->shards)
        node_shards_destroy(l->shards, node_clock_ns() + SHARDS_WAIT_NS);
    free(l->spreads);
    free(l->look.model);
    node_message_free(l->weight);
    free(l);
}

static void begin(struct node_learner *l)
{
    BASE_ASSERT(l->options.trainee || l->options.other);
    l->pace = 1;
    l->disk_free = UINT64_MAX;
    l->own = (struct train_score){NAN, NAN, NAN};
    l->loss = l->rate = l->accuracy = l->reported = l->rmse = l->totals.consensus = NAN;
    l->learner = l->options.trainee ? node_built_in_learner(l->options.trainee) : *l->options.other;
    l->learner.begin(l->learner.owner, 0, &l->vectors);
    if (l->options.trainee) {
        l->regression = train_model_spec(l->options.model)->loss != TRAIN_CROSS_ENTROPY;
        l->rate = l->options.trainee->rate;
    }
    gossip_rounds_init(&l->rounds, &l->options.resume);
    l->last_round = l->rounds.round;
    if (l->options.unsettled)
        l->learner.adopt(l->learner.owner, 0, GOSSIP_LEARNER_EXCHANGED, l->options.resume.step);
}

// False: no memory.
static bool begin_looks(struct node_learner *l)
{
    if (!l->learner.compare) {
        base_log(BASE_LOG_INFO, "probe",
                 "average.robust is clip only: this program does not compare the models of neighbours with "
                 "its own. It does with `judge`, a function that returns a model's losses");
        return true;
    }
    l->look.model = malloc(l->learner.parameters * sizeof *l->look.model);
    return l->look.model != NULL;
}

enum base_error node_learner_start(const struct node_learner_options *options, struct node_learner **out)
{
    struct node_learner *l = calloc(1, sizeof *l);
    if (!l)
        return BASE_ENOMEM;
    l->options = *options;
    begin(l);
    const struct kernels *kernels = options->trainee ? train_model_kernels(options->model) : NULL;
    const bool elsewhere = kernels && !kernels->shares_host && !options->trainee->lends;
    if (elsewhere)
        l->device_scratch = kernels->alloc(l->learner.parameters * sizeof(float));
    if (elsewhere && !l->device_scratch)
        goto fail;
    if (options->config->average.robust == NODE_ROBUST_CLIP_PROBE && !begin_looks(l))
        goto fail;
    if (options->trainee && options->config->data.takeover && options->config->data.shards > 1 &&
        node_shards_create(options->config, train_trainer_data(options->trainee->trainer), &l->shards))
        goto fail;
    if (pthread_create(&l->thread, NULL, learn, l) != 0)
        goto fail;
    *out = l;
    return BASE_OK;
fail:
    release(l);
    return BASE_ENOMEM;
}

bool node_learner_saves(const struct node_learner *learner)
{
    return learner->announced;
}

void node_learner_join(struct node_learner *learner)
{
    pthread_join(learner->thread, NULL);
    release(learner);
}
