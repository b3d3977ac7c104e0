#include "node/threads.h"
#include "node/config/life.h"

#include "base/limits.h"
#include "base/log.h"
#include "node/learn/learner.h"
#include "node/loop.h"
#include "node/queue/clock.h"
#include "node/queue/message.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATUS_WAIT_NS (2 * NODE_SECOND_NS)

struct node_threads {
    struct node_threads_options options;
    struct node_mailbox *loop_box, *worker_box, *learner_box, *answers; // answers: texts of /status
    struct node_counters counters;
    struct node_loop *loop;
    struct node_worker *worker;
    struct node_learner *learner;
};

static enum base_error make_boxes(struct node_threads *t)
{
    struct node_mailbox **boxes[] = {&t->loop_box, &t->worker_box, &t->learner_box, &t->answers};
    enum base_error error = BASE_OK;
    for (size_t i = 0; i < sizeof boxes / sizeof *boxes && !error; i++)
        error = node_mailbox_create(LIMIT_MAILBOX, boxes[i]);
    return error;
}

static void tell_ports(const struct node_config *config, const struct node_loop *loop)
{
    char host[LIMIT_HOST_BYTES] = "", http[LIMIT_HOST_BYTES + 32] = "no http";
    uint16_t port;
    if (config->node.http[0] && !node_address_parse(config->node.http, host, &port, NULL))
        snprintf(http, sizeof http, "http on %s (port %u)", host, (unsigned)node_loop_http_port(loop));
    BASE_ASSERT(!node_address_parse(config->node.listen, host, &port, NULL)); // it was bound
    base_log(BASE_LOG_INFO, "listening", "peers on %s (port %u), %s", host, (unsigned)node_loop_port(loop),
             http);
}

static enum base_error open_loop(struct node_threads *t, struct base_reason *why)
{
    const struct node_setup *s = t->options.setup;
    const struct gossip_rounds_options rounds = node_setup_rounds(s);
    struct gossip_rounds begins; // as the learner's
    gossip_rounds_init(&begins, &rounds);
    struct node_loop_options options = {.config = s->config,
                                        .topology = s->topology,
                                        .identity = &s->identity,
                                        .secrets = &t->options.setup->secrets,
                                        .name = s->name,
                                        .allow = s->has_allow ? &t->options.setup->allow : NULL,
                                        .remover = s->has_remover ? &s->remover : NULL,
                                        .greeting = s->greeting,
                                        .message_limit = s->message_limit,
                                        .starts = s->starts,
                                        .instance_id = s->instance_id,
                                        .starts_path = s->starts_path,
                                        .events_path = s->events_path,
                                        .round = begins.round,
                                        .step = begins.step,
                                        .reach = gossip_exchange_reach(s->exchange),
                                        .behind = gossip_exchange_behind(s->exchange),
                                        .resumed = s->resumed,
                                        .spreads = s->scaling ? s->scaling->own : NULL,
                                        .columns = s->scaling ? (uint32_t)s->scaling->columns : 0,
                                        .rows = t->options.hosted ? t->options.examples : s->train.examples,
                                        .first_model = s->resumed ? 0 : s->first_model,
                                        .program = t->options.hosted != NULL,
                                        .joins = t->options.joins,
                                        .told_shard = t->options.told_shard,
                                        .signals = t->options.signals,
                                        .manager = t->options.manager,
                                        .inbox = t->loop_box,
                                        .worker = t->worker_box,
                                        .learner = t->learner_box,
                                        .answers = t->answers,
                                        .rounds = s->rounds,
                                        .counters = &t->counters};
    enum base_error error = node_loop_create(&options, &t->loop, why);
    if (!error)
        tell_ports(s->config, t->loop);
    return error;
}

enum base_error node_threads_open(const struct node_threads_options *options, struct node_threads **out,
                                  struct base_reason *why)
{
    struct node_threads *t = calloc(1, sizeof *t);
    if (!t)
        return base_fail(why, BASE_ENOMEM, "no memory for the threads");
    t->options = *options;
    enum base_error error = make_boxes(t);
    if (error)
        (void)base_fail(why, error, "the mailboxes cannot be made: %s", base_error_name(error));
    else
        error = open_loop(t, why);
    if (error) {
        node_threads_destroy(t);
        return error;
    }
    *out = t;
    return BASE_OK;
}

static enum base_error start_worker(struct node_threads *t)
{
    struct node_setup *s = t->options.setup;
    const struct node_worker_options options = {.exchange = s->exchange,
                                                .self = s->identity.id,
                                                .merge_patience_ns = node_config_merge_patience(s->config),
                                                .judges = !t->options.hosted ||
                                                          node_hosted_learner(t->options.hosted).judge,
                                                .local = s->config->average.method == NODE_METHOD_LOCAL,
                                                .inbox = t->worker_box,
                                                .loop = t->loop_box,
                                                .learner = t->learner_box,
                                                .counters = &t->counters,
                                                .checkpoint = node_setup_checkpoint,
                                                .checkpoint_ended = node_setup_checkpoint_ended,
                                                .checkpoint_wanted = node_setup_checkpoint_wanted,
                                                .journal = node_setup_journal,
                                                .checkpoint_context = s};
    return node_worker_start(&options, &t->worker);
}

static enum base_error start_learner(struct node_threads *t)
{
    struct node_setup *s = t->options.setup;
    const struct gossip_learner hosted =
        t->options.hosted ? node_hosted_learner(t->options.hosted) : (struct gossip_learner){0};
    const struct node_learner_options options = {
        .config = s->config,
        .trainee = t->options.hosted ? NULL : &s->trainee,
        .other = &hosted,
        .watch = t->options.hosted ? node_hosted_watch(t->options.hosted) : NULL,
        .weight = t->options.hosted ? node_hosted_weight(t->options.hosted) : NULL,
        .model = s->model,
        .test = &s->test,
        .scaling = t->options.hosted ? NULL : s->scaling,
        .resume = node_setup_rounds(s),
        .unsettled = s->unsettled,
        .metrics = s->metrics,
        .rounds = s->rounds,
        .keeper = s->keeper,
        .tensorboard = s->tensorboard,
        .inbox = t->learner_box,
        .worker = t->worker_box,
        .loop = t->loop_box,
        .counters = &t->counters};
    return node_learner_start(&options, &t->learner);
}

static enum base_error start(struct node_threads *t)
{
    enum base_error error = start_worker(t);
    if (error)
        return error;
    error = start_learner(t);
    if (error) {
        node_mailbox_deliver(t->worker_box, node_message_new(NODE_MESSAGE_STOP));
        node_worker_join(t->worker);
    }
    return error;
}

// The loop no longer runs, so this function takes the learner's messages until the learner has written its
// last state.
static void end_without_loop(struct node_threads *t)
{
    node_hosted_release(t->options.hosted);
    struct node_message *stop = node_message_new(NODE_MESSAGE_ORDER);
    stop->as.order = (struct gossip_order){.kind = GOSSIP_ORDER_STOP};
    node_mailbox_deliver(t->learner_box, stop);
    for (bool left = false; !left;) {
        struct node_message *message = node_mailbox_take(t->loop_box, UINT64_MAX);
        left = message && message->kind == NODE_MESSAGE_LEFT;
        node_message_free(message);
    }
    node_mailbox_deliver(t->worker_box, node_message_new(NODE_MESSAGE_STOP));
}

int node_threads_run(struct node_threads *t, struct base_reason *why)
{
    enum base_error error = start(t);
    if (error) {
        (void)base_fail(why, error, "the threads cannot be started: %s", base_error_name(error));
        return NODE_THREADS_UNSTARTED;
    }
    int status = node_loop_run(t->loop);
    if (status == NODE_LOOP_JOINS || (status == NODE_LOOP_ABANDONED && t->options.signals))
        return status;
    if (status == NODE_LOOP_ABANDONED) {
        end_without_loop(t);
        status = 1;
    }
    node_learner_join(t->learner);
    node_worker_join(t->worker);
    if (status != 0)
        snprintf(why->text, sizeof why->text, "%s", node_loop_cause(t->loop));
    return status;
}

void node_threads_destroy(struct node_threads *t)
{
    if (!t)
        return;
    node_loop_destroy(t->loop);
    struct node_mailbox *boxes[] = {t->loop_box, t->worker_box, t->learner_box};
    for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++)
        if (boxes[i])
            node_mailbox_destroy(boxes[i], node_message_free);
    if (t->answers)
        node_mailbox_destroy(t->answers, free);
    free(t);
}

// The node may have left; then no thread takes messages any more.
static void try_post(struct node_mailbox *box, enum node_message_kind kind)
{
    struct node_message *message = node_message_new(kind);
    if (node_mailbox_post_by(box, message, node_clock_ns() + STATUS_WAIT_NS))
        node_message_free(message);
}

void node_threads_leave(struct node_threads *t)
{
    try_post(t->loop_box, NODE_MESSAGE_LEAVE_CLUSTER);
}

void node_threads_accuracy(struct node_threads *t, double accuracy)
{
    struct node_message *message = node_message_new(NODE_MESSAGE_ACCURACY);
    message->progress.accuracy = accuracy;
    if (node_mailbox_post_by(t->learner_box, message, node_clock_ns() + STATUS_WAIT_NS))
        node_message_free(message);
}

bool node_threads_saves(const struct node_threads *t)
{
    BASE_ASSERT(t->options.hosted);
    return node_learner_saves(t->learner);
}

void node_threads_reload(struct node_threads *t)
{
    try_post(t->loop_box, NODE_MESSAGE_RELOAD);
}

void node_threads_save(struct node_threads *t)
{
    try_post(t->learner_box, NODE_MESSAGE_SAVE);
}

char *node_threads_status(struct node_threads *t)
{
    struct node_message *message = node_message_new(NODE_MESSAGE_ASK_STATUS);
    free(node_mailbox_take(t->answers, 0)); // the answer to a caller that no longer waited
    if (node_mailbox_post(t->loop_box, message)) {
        node_message_free(message);
        return NULL;
    }
    return node_mailbox_take(t->answers, node_clock_ns() + STATUS_WAIT_NS);
}

const struct node_loop *node_threads_loop(const struct node_threads *t)
{
    return t->loop;
}
