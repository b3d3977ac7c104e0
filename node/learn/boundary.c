// The learner between two rounds: messages of the loop, rendezvous with the worker, and the wait for a
// snapshot.
#include "base/log.h"
#include "base/plural.h"
#include "node/learn/private.h"
#include "node/learn/verdict.h"
#include "node/queue/clock.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define PROGRESS_EVERY_NS   (100 * NODE_MILLISECOND_NS)
#define DISK_EVERY_NS       (5 * NODE_SECOND_NS)
#define CONSENSUS_ROUNDS    64u                   // of which the usual consensus distance is the mean
#define CHECKPOINT_AGAIN_NS (10 * NODE_SECOND_NS) // after two that failed: the disk is full, probably

// Loop and worker drain their boxes until they know that the learner has ended.
void node_learner_post(struct node_learner *l, struct node_message *message)
{
    node_mailbox_deliver(l->options.loop, message);
}

// Ends the node: whatever it is told later, its next boundary is the last one.
static void refuse_to_go_on(struct node_learner *l, const char *text)
{
    snprintf(l->refused, sizeof l->refused, "%.255s", text);
    gossip_rounds_order(&l->rounds, &(struct gossip_order){.kind = GOSSIP_ORDER_STOP});
}

static void look_after_directory(struct node_learner *l)
{
    struct base_reason why = {""};
    bool restored = false;
    if (!l->options.keeper || l->refused[0])
        return;
    if (node_keeper_look(l->options.keeper, &restored, &why) == BASE_ESTATE)
        refuse_to_go_on(l, why.text);
    l->save = l->save || restored;
}

// Called on this thread, because a file system that hangs would block the loop.
static uint64_t disk_free(struct node_learner *l, uint64_t now_ns)
{
    struct statvfs disk;
    if (l->disk_ns != 0 && now_ns - l->disk_ns < DISK_EVERY_NS)
        return l->disk_free;
    BASE_ASSERT(now_ns >= l->disk_ns); // a monotonic clock
    look_after_directory(l);
    const char *directory = l->options.config->node.dir;
    bool known = directory && statvfs(directory, &disk) == 0;
    l->disk_free = known ? (uint64_t)disk.f_bavail * disk.f_frsize : UINT64_MAX;
    l->disk_ns = now_ns;
    return l->disk_free;
}

// If a program trains by itself, its vectors are not counted.
static uint64_t memory_of(const struct node_learner *l)
{
    uint64_t vector = l->learner.parameters * sizeof(float);
    uint64_t outer = (l->vectors.outer ? vector : 0) + (l->vectors.round_start ? vector : 0);
    uint64_t look = l->look.model ? vector : 0;
    return outer + look + (l->options.trainee ? train_trainer_memory(l->options.trainee->trainer) : 0);
}

uint64_t node_learner_own_steps(const struct node_learner *l)
{
    return l->options.trainee ? l->options.trainee->own_steps : l->given_steps;
}

uint64_t node_learner_own_examples(const struct node_learner *l)
{
    return l->options.trainee ? l->options.trainee->own_examples : NODE_NOT_COUNTED;
}

// What of the way to the last step this process has not made itself, and how far its neighbours usually are.
void node_learner_note_way(struct node_learner *l, enum gossip_learner_change change)
{
    const struct gossip_rounds_options *options = &l->rounds.options;
    const uint64_t all = options->steps < UINT64_MAX ? options->steps / options->local_steps : 0;
    const uint64_t late = all - all / 4, from = l->last_round > late ? l->last_round : late;
    const bool own = change == GOSSIP_LEARNER_EXCHANGED;
    if (change == GOSSIP_LEARNER_TAKEN && !l->merged) // what this node has done is in a merged one
        l->adopted_step = l->rounds.step;
    if (all > 0 && l->rounds.round > from + own)
        l->late_missed += l->rounds.round - from - own;
    l->last_round = l->rounds.round;
    if (!own)
        return;
    l->own_rounds++;
    if (all > 0 && l->rounds.round > late)
        l->late_rounds++;
    else
        l->exchanges_before = l->totals.exchanges;
    if (isfinite(l->totals.consensus))
        l->usual_consensus += (l->totals.consensus - l->usual_consensus) /
                              (double)(l->own_rounds < CONSENSUS_ROUNDS ? l->own_rounds : CONSENSUS_ROUNDS);
}

struct gossip_look *node_learner_look(struct node_learner *l)
{
    return l->look.model ? &l->look : NULL;
}

const struct train_watch *node_learner_watch(const struct node_learner *l)
{
    if (l->options.trainee)
        return l->options.trainee->kept ? &l->options.trainee->watch : NULL;
    return l->options.watch;
}

static void tell_losses(const struct train_watch *watch, struct node_progress *progress)
{
    progress->losses.latest = watch->latest;
    progress->losses.risen = train_watch_has_risen(watch);
    progress->losses.best = watch->best;
    progress->losses.bound = train_watch_bound(watch);
    progress->losses.far = watch->far;
    progress->losses.recovers = watch->recovers;
}

void node_learner_tell(struct node_learner *l, const char *state, bool always)
{
    uint64_t now_ns = node_clock_ns();
    BASE_ASSERT(state && now_ns >= l->progress_ns);
    if (!always && state == l->state && now_ns - l->progress_ns < PROGRESS_EVERY_NS)
        return;
    l->state = state;
    l->progress_ns = now_ns;
    struct node_message *message = node_message_new(NODE_MESSAGE_PROGRESS);
    message->progress = (struct node_progress){
        .round = l->rounds.round,
        .step = l->rounds.step,
        .own_steps = node_learner_own_steps(l),
        .own_examples = node_learner_own_examples(l),
        .stands = gossip_rounds_stand(&l->rounds),
        .least_stop = gossip_rounds_least_stop(&l->rounds),
        .exchanges = l->totals.exchanges,
        .own_rounds = l->own_rounds,
        .late_missed = l->late_missed,
        .late_rounds = l->late_rounds,
        .late_exchanges = l->late_rounds > 0 ? l->totals.exchanges - l->exchanges_before : 0,
        .adopted_step = l->adopted_step,
        .adopted = l->adopted,
        .usual_consensus = l->own_rounds >= CONSENSUS_ROUNDS ? l->usual_consensus : (double)NAN,
        .loss = l->loss,
        .accuracy = l->accuracy,
        .rmse = l->rmse,
        .regression = l->regression,
        .consensus = l->totals.consensus,
        .apart = l->distance.stays,
        .rate = l->options.trainee ? train_trainer_rate(l->options.trainee->trainer) : l->rate,
        .rollbacks = l->rounds.unusable_rounds,
        .rollbacks_in_row = l->rounds.unusable_in_row,
        .returns = l->rounds.returns,
        .returns_in_row = l->rounds.returns_in_row,
        .step_ns = l->step_ns,
        .disk_free = disk_free(l, now_ns),
        .memory = memory_of(l),
        .unwritten = l->checkpoint_failed || l->row_failed,
        .state = state,
        .merged = l->merged,
        .own_accuracy = l->own.accuracy};
    message->progress.losses.program = !l->options.trainee;
    if (node_learner_watch(l))
        tell_losses(node_learner_watch(l), &message->progress);
    node_learner_post(l, message);
}

// After the last step no other examples are needed.
static void want_shards(struct node_learner *l, const struct node_message *message)
{
    const uint32_t *living = (const void *)message->bytes; // malloc'ed, so it is aligned
    if (l->shards && l->rounds.state < GOSSIP_ROUNDS_FINISHED)
        node_shards_want(l->shards, living, message->n_bytes / sizeof *living);
}

// They are used before the first step, while no other thread uses the vectors.
static void take_statistics(struct node_learner *l, struct node_message *message)
{
    if (l->spreads || !l->options.scaling)
        return;
    BASE_ASSERT(message->n_bytes == l->options.scaling->columns * sizeof *l->spreads);
    l->spreads = (struct train_spread *)(void *)message->bytes; // malloc'ed, so it is aligned
    message->bytes = NULL;
}

static void keep_weight(struct node_learner *l, const struct node_message *message)
{
    if (!l->weight)
        l->weight = node_message_new(NODE_MESSAGE_WEIGHT);
    l->weight->as.weight = message->as.weight;
}

static void note(struct node_learner *l, struct node_message *message)
{
    struct gossip_order order;
    switch (message->kind) {
    case NODE_MESSAGE_ORDER:
        order = message->as.order;
        if (order.kind == GOSSIP_ORDER_STOP && !l->options.trainee)
            order.round = 0; // a program that has left takes no steps up to the round that was announced
        gossip_rounds_order(&l->rounds, &order);
        if (order.kind == GOSSIP_ORDER_STOP && order.round > 0 && l->state)
            node_learner_tell(l, l->state, true); // it may have passed that round
        break;
    case NODE_MESSAGE_SHARDS:
        want_shards(l, message);
        break;
    case NODE_MESSAGE_WEIGHT:
        keep_weight(l, message);
        break;
    case NODE_MESSAGE_SAVE:
        l->save = true;
        l->checkpoint_again_ns = 0; // a request is tried at once, whatever failed before
        break;
    case NODE_MESSAGE_ACCURACY:
        l->accuracy = l->reported = message->progress.accuracy;
        break;
    case NODE_MESSAGE_STATISTICS:
        take_statistics(l, message);
        break;
    default:
        BASE_ASSERT(false); // a message that is not for the learner
    }
}

void node_learner_listen(struct node_learner *l, bool wait)
{
    struct node_message *message;
    do {
        message = node_mailbox_take(l->options.inbox, wait ? UINT64_MAX : 0);
        if (message)
            note(l, message);
        node_message_free(message);
        wait = false;
    } while (message);
}

// Numbers of columns that are scaled in another way say nothing about a model.
static bool is_comparable(const struct node_learner *l, const struct node_round *round)
{
    const struct gossip_blob *own = l->vectors.blob, *other = round->at.vectors.blob;
    return round->kind != NODE_ROUND_FETCH || !l->options.scaling || !other ||
           gossip_blob_hash(own) == gossip_blob_hash(other);
}

static void judge(struct node_learner *l, const struct node_round *round, const float *model)
{
    const bool donors = round->kind == NODE_ROUND_FETCH;
    struct node_message *message = node_message_new(NODE_MESSAGE_VERDICT);
    l->verdict = node_verdict_none();
    if (is_comparable(l, round))
        l->verdict = l->learner.judge(l->learner.owner, 0, model,
                                      donors ? GOSSIP_LEARNER_DONORS : GOSSIP_LEARNER_MERGED);
    message->as.accepts = l->verdict.accepts;
    if (!l->verdict.accepts)
        base_log(BASE_LOG_WARN, donors ? "refused_model" : "merge",
                 "%s is refused: on this node's own examples its loss is %.4g, that of this node's model "
                 "%.4g, that of a model that knows nothing %.4g",
                 donors ? "a donor's model" : "the merged model", l->verdict.other, l->verdict.own,
                 l->verdict.nothing);
    node_mailbox_deliver(l->options.worker, message);
}

static void tell_adopted(const struct node_learner *l)
{
    const struct gossip_learner_verdict *verdict = &l->verdict;
    if (isnan(verdict->other))
        base_log(BASE_LOG_INFO, "adopted",
                 "another node's model, as it came: no losses on this node's own examples say whether it is "
                 "worse than its own (a program can tell them: `judge`)");
    else
        base_log(BASE_LOG_INFO, "adopted",
                 "another node's model: on this node's own examples its loss is %.4g, that of this node's "
                 "model %.4g, that of a model that knows nothing %.4g",
                 verdict->other, verdict->own, verdict->nothing);
}

// An order may end a fetch, which otherwise lasts until a donor has given its model. An order to take another
// model or to pause may end the wait for an exchange.
static void finish_round(struct node_learner *l, struct node_round *round)
{
    struct node_message *message = node_message_new(NODE_MESSAGE_ROUND);
    bool ended = false;
    round->step = l->rounds.step;
    message->as.round = round;
    node_mailbox_deliver(l->options.worker, message);
    for (bool done = false; !done;) {
        if (!ended && gossip_rounds_gives_up(&l->rounds)) {
            node_mailbox_deliver(l->options.worker, node_message_new(NODE_MESSAGE_GIVE_UP));
            ended = true;
        }
        message = node_mailbox_take(l->options.inbox, UINT64_MAX);
        done = message && message->kind == NODE_MESSAGE_ROUND_DONE;
        BASE_ASSERT(!done || message->as.round == round); // one rendezvous at a time
        if (message && message->kind == NODE_MESSAGE_JUDGE)
            judge(l, round, message->as.model);
        else if (message && !done)
            note(l, message);
        node_message_free(message);
    }
    l->totals = round->totals;
    if (round->kind != NODE_ROUND_FETCH)
        node_distance_note(&l->distance, l->totals.exchanges, l->totals.consensus);
}

// A new node writes one after its first round, so that --resume has something to continue from.
bool node_learner_checkpoint_is_due(const struct node_learner *l)
{
    const bool every = l->options.config->checkpoint.every_ns > 0;
    const uint64_t now_ns = node_clock_ns();
    BASE_ASSERT(!l->announced || !l->options.trainee);
    return now_ns >= l->checkpoint_again_ns && (l->save || (every && now_ns >= l->checkpoint_due_ns));
}

// A loss far above what it was: this state is not worth a checkpoint.
static bool is_far(const struct node_learner *l)
{
    return l->options.trainee && l->options.trainee->watch.far > 0;
}

// A state that is not finite or far is not checkpointed; the next boundary is tried. A program has its state
// ready only if the checkpoint was announced to it, or asked for by itself.
static bool writes_checkpoint(const struct node_learner *l, const struct gossip_rounds_meet *meet)
{
    const bool due = l->options.trainee ? node_learner_checkpoint_is_due(l) : l->announced || l->save;
    return meet->last || (meet->meets && !meet->unusable && !is_far(l) && due);
}

// A checkpoint that failed is tried again at the next boundary, and after that only now and then: each try
// costs a process and a line of the log.
static void note_failed_checkpoint(struct node_learner *l, uint64_t now_ns)
{
    BASE_ASSERT(l->checkpoint_failed && now_ns >= l->failure_ns);
    const bool again = l->failure_ns > 0 && now_ns - l->failure_ns < 2 * CHECKPOINT_AGAIN_NS;
    l->failure_ns = now_ns;
    l->checkpoint_due_ns = 0;
    l->checkpoint_again_ns = again ? now_ns + CHECKPOINT_AGAIN_NS : 0;
}

static void note_checkpoint(struct node_learner *l, const struct node_round *round)
{
    BASE_ASSERT(round->kind == NODE_ROUND_MEET || !round->checkpoint);
    if (round->checkpoint_wanted)
        l->checkpoint_due_ns = 0;
    if (!round->checkpoint && !round->checkpoint_error)
        return;
    l->checkpoint_failed = round->checkpoint_error != BASE_OK;
    l->save = l->save && (l->checkpoint_failed || !round->checkpoint);
    if (l->checkpoint_failed)
        note_failed_checkpoint(l, node_clock_ns());
    else
        l->checkpoint_due_ns = node_clock_ns() + l->options.config->checkpoint.every_ns;
}

void node_learner_agree(struct node_learner *l)
{
    if (l->options.scaling && l->spreads)
        node_scaling_agree(l->options.scaling, l->spreads);
}

void node_learner_meet(struct node_learner *l, const struct gossip_rounds_meet *meet)
{
    node_learner_agree(l);          // others may take this model, and need its scaling
    BASE_ASSERT(!l->round_is_over); // its row is written
    struct node_round round = {.at = {.meet = *meet,
                                      .pace_ns = l->step_ns,
                                      .vectors = l->vectors,
                                      .scaled = l->options.scaling != NULL,
                                      .look = node_learner_look(l)},
                               .checkpoint = writes_checkpoint(l, meet),
                               .round = meet->round,
                               .met = true,
                               .pace = 1};
    if (meet->last)
        node_learner_tell(l, gossip_rounds_stops(&l->rounds) ? "stopping" : "lingering", true);
    if (l->options.trainee)
        node_built_in_fetch(l->options.trainee);
    finish_round(l, &round);
    note_checkpoint(l, &round);
    if (meet->meets)
        l->pace = round.pace;
    l->account = round.account;
    gossip_rounds_met(&l->rounds, round.round, round.met, round.totals.apart);
    l->round_is_over = meet->meets && !l->rounds.progress;
}

void node_learner_offer(struct node_learner *l)
{
    struct node_round round = {.kind = NODE_ROUND_OFFER,
                               .at = {.meet.round = l->rounds.round, .vectors = l->vectors}};
    if (l->options.trainee)
        node_built_in_fetch(l->options.trainee);
    finish_round(l, &round);
    note_checkpoint(l, &round);
    l->offered = true;
}

// `kernels`: in whose memory the vector is; NULL: ordinary memory. The copy is ordinary memory.
static float *copy_of(const struct node_learner *l, const struct kernels *kernels, const float *vector,
                      bool *complete)
{
    size_t bytes = l->learner.parameters * sizeof *vector;
    float *copy = vector ? malloc(bytes) : NULL;
    *complete = *complete && (copy || !vector);
    if (copy && kernels)
        kernels->download(copy, vector, bytes);
    else if (copy)
        memcpy(copy, vector, bytes);
    return copy;
}

// The correction stays the learner's.
static void copy_model(const struct node_learner *l, const struct kernels *kernels,
                       struct gossip_learner_vectors *to, bool *complete)
{
    to->model = copy_of(l, kernels, l->vectors.model, complete);
    to->second_moment = copy_of(l, kernels, l->vectors.second_moment, complete);
    to->correction = l->vectors.correction;
}

static void free_model(struct gossip_learner_vectors *copied)
{
    free(copied->model);
    free(copied->second_moment);
}

static void move(const struct node_learner *l, const struct kernels *kernels, float *to, const float *from)
{
    if (to && kernels)
        kernels->upload(to, from, l->learner.parameters * sizeof *to);
    else if (to)
        memcpy(to, from, l->learner.parameters * sizeof *to);
}

// With a model whose scaling is not known no step can be taken: this node ends.
static void take_blob(struct node_learner *l, const struct gossip_blob *blob)
{
    struct base_reason why;
    BASE_ASSERT(!blob == !l->vectors.blob); // fetched where this learner has a place for it
    if (blob && !l->options.scaling)
        *l->vectors.blob = *blob;
    if (!l->options.scaling || !node_scaling_take(l->options.scaling, blob, &why))
        return;
    snprintf(l->refused, sizeof l->refused, "this node cannot use a donor's model and ends: %.200s",
             why.text);
    base_log(BASE_LOG_ERROR, "statistics", "this node cannot use a donor's model and ends: %s", why.text);
    gossip_rounds_order(&l->rounds, &(struct gossip_order){.kind = GOSSIP_ORDER_STOP});
}

// Fetches into separate vectors: half a snapshot is of no use, and this node's own state must stay complete.
bool node_learner_fetch(struct node_learner *l)
{
    const struct kernels *kernels = l->options.trainee ? node_built_in_kernels(l->options.trainee) : NULL;
    struct gossip_blob *blob = l->vectors.blob ? calloc(1, sizeof *blob) : NULL;
    bool memory = blob || !l->vectors.blob;
    struct node_round round = {.kind = NODE_ROUND_FETCH, .at.scaled = l->options.scaling != NULL};
    struct gossip_learner_vectors *into = &round.at.vectors;
    copy_model(l, kernels, into, &memory);
    into->outer = copy_of(l, NULL, l->vectors.outer, &memory);
    into->blob = blob;
    node_learner_tell(l, "fetching", true);
    l->offered = false;
    l->verdict = node_verdict_none();
    if (memory)
        finish_round(l, &round);
    else
        base_log(BASE_LOG_ERROR, "out_of_memory", "no snapshot can be fetched");
    note_checkpoint(l, &round);
    if (round.done) {
        move(l, kernels, l->vectors.model, into->model);
        move(l, kernels, l->vectors.second_moment, into->second_moment);
        move(l, NULL, l->vectors.outer, into->outer);
        take_blob(l, blob);
        tell_adopted(l);
    }
    if (round.not_alone)
        gossip_rounds_not_alone(&l->rounds);
    l->donor = round.donor;
    gossip_rounds_fetched(&l->rounds, round.done, round.round, round.step);
    free_model(into);
    free(into->outer);
    free(blob);
    return round.done;
}

void node_learner_return(struct node_learner *l, uint64_t number)
{
    const struct kernels *kernels = l->options.trainee ? node_built_in_kernels(l->options.trainee) : NULL;
    bool memory = true;
    struct node_round round = {.kind = NODE_ROUND_RETURN, .round = number};
    l->offered = false;
    copy_model(l, kernels, &round.at.vectors, &memory);
    BASE_ASSERT(memory); // a node that has diverged must not go on as it is
    finish_round(l, &round);
    note_checkpoint(l, &round);
    gossip_rounds_returned(&l->rounds);
    l->account = (struct gossip_round_account){0}; // it met nobody
    l->round_is_over = true;
    free_model(&round.at.vectors);
}

static void give_up_merge(struct node_learner *l)
{
    base_log(BASE_LOG_ERROR, "out_of_memory", "this node ends with its own model, not with one for all");
    struct node_message *message = node_message_new(NODE_MESSAGE_LIVE);
    message->as.live.kind = GOSSIP_LIFE_MERGED; // without one model
    node_learner_post(l, message);
}

// Merges a copy: the figures of the node's own model are measured before it is replaced.
bool node_learner_merge(struct node_learner *l, bool gives, float **model)
{
    const struct kernels *kernels = l->options.trainee ? node_built_in_kernels(l->options.trainee) : NULL;
    bool memory = true;
    if (l->options.trainee)
        node_built_in_fetch(l->options.trainee);
    struct node_round round = {.kind = NODE_ROUND_MERGE, .gives = gives, .pace = 1};
    *model = round.at.vectors.model = copy_of(l, kernels, l->vectors.model, &memory);
    node_learner_tell(l, "merging", true);
    if (memory)
        finish_round(l, &round);
    else
        give_up_merge(l);
    l->merged_nodes = round.nodes;
    l->merge_refused = round.refused;
    return round.done;
}

void node_learner_put(struct node_learner *l, float *model)
{
    const struct kernels *kernels = l->options.trainee ? node_built_in_kernels(l->options.trainee) : NULL;
    if (model)
        move(l, kernels, l->vectors.model, model);
    free(model);
}

static void tell_takeover(const struct node_shards_set *set)
{
    if (set->orphans > 0)
        base_log(BASE_LOG_INFO, "takeover",
                 "shards without a node: %zu; training on %zu examples, %zu of them from there", set->orphans,
                 set->data->examples, set->taken);
    else
        base_log(BASE_LOG_INFO, "takeover",
                 "all shards have a node again; training on this node's own %zu examples",
                 set->data->examples);
}

void node_learner_take_shards(struct node_learner *l)
{
    struct node_shards_set set;
    struct base_reason why = {""};
    if (!l->shards || !node_shards_ready(l->shards, node_clock_ns(), &set))
        return;
    enum base_error error = train_trainer_replace(l->options.trainee->trainer, set.data, set.weight, &why);
    if (!error)
        tell_takeover(&set);
    else
        base_log(BASE_LOG_ERROR, "takeover", "training continues with the examples at hand: %s", why.text);
    node_shards_commit(l->shards, !error);
}

void node_learner_take_weight(struct node_learner *l)
{
    if (!l->weight || !(l->options.trainee || l->options.weight))
        return;
    if (l->options.trainee)
        train_trainer_weigh(l->options.trainee->trainer, l->weight->as.weight.weight);
    else
        *l->options.weight = l->weight->as.weight.weight;
    base_log(BASE_LOG_INFO, "weight",
             "this node has %llu of the %llu examples of %zu node%s; its gradient counts %.3g times the mean",
             (unsigned long long)l->weight->as.weight.own, (unsigned long long)l->weight->as.weight.examples,
             l->weight->as.weight.nodes, base_plural(l->weight->as.weight.nodes),
             l->weight->as.weight.weight);
    node_message_free(l->weight);
    l->weight = NULL;
}
