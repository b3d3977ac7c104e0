// Rounds of local steps and exchanges, by gossip/life/rounds.h, and the events of the exchange.
#include "lab/sim/sim_process.h"
#include <stdio.h>
#include <string.h>

static void go_on(struct sim_node *node);

static const struct sim_learner *learner_of(const struct sim_node *node)
{
    return node->world->options.learner;
}

static struct gossip_exchange_options exchange_options(const struct sim_node *node)
{
    struct gossip_exchange_options options = node->world->options.exchange;

    options.self = *sim_member_id(node, node->self);
    options.parameters = learner_of(node)->learner.parameters;
    options.start = learner_of(node)->start;
    options.model = node->train.vectors.model;
    options.round = node->train.rounds.round;
    return options;
}

static void take_edges(struct sim_node *node, const struct sim_checkpoint *checkpoint)
{
    for (size_t i = 0; checkpoint && i < checkpoint->count; i++)
        if (gossip_exchange_import(node->train.exchange, &checkpoint->record[i]))
            sim_world_break(node->world, node->host, "an edge of a whole checkpoint was refused");
    for (size_t i = 0; checkpoint && i < checkpoint->n_orphans; i++)
        if (gossip_exchange_keep(node->train.exchange, &checkpoint->kept[i]))
            sim_world_break(node->world, node->host, "an orphaned correction was refused");
}

static void begin_rounds(struct sim_node *node, const struct sim_checkpoint *checkpoint, uint64_t reached)
{
    const struct sim_options *options = &node->world->options;
    struct gossip_rounds_options rounds = {.local_steps = options->local_steps ? options->local_steps : 1,
                                           .steps = options->steps ? options->steps : UINT64_MAX};

    if (checkpoint) {
        rounds.resumed = true;
        rounds.round = checkpoint->round;
        rounds.step = checkpoint->step;
        rounds.open = checkpoint->open;
        rounds.open_scale = checkpoint->open_scale;
        rounds.reached = reached;
    }
    gossip_rounds_init(&node->train.rounds, &rounds);
}

// To where the process before was. The journal begins again with a checkpoint soon, as in the daemon.
static void go_back(struct sim_node *node, const struct sim_checkpoint *checkpoint)
{
    const uint64_t before = node->world->counts.replayed;

    begin_rounds(node, checkpoint, sim_disk_replay(node, checkpoint));
    if (node->world->counts.replayed > before)
        node->train.checkpoint_ns = 0;
}

static void publish(struct sim_node *node, const struct sim_checkpoint *checkpoint)
{
    struct sim_node_train *train = &node->train;
    const struct sim_learner *learner = learner_of(node);
    const struct gossip_exchange_options options = exchange_options(node);
    struct base_reason why;

    BASE_ASSERT(!gossip_exchange_create(&options, &train->exchange, &why));
    take_edges(node, checkpoint);
    if (checkpoint)
        go_back(node, checkpoint);
    const float *correction = gossip_exchange_correction(train->exchange);
    for (size_t j = 0; train->vectors.correction && j < options.parameters; j++)
        train->vectors.correction[j] = correction ? correction[j] : 0;
    if (learner->ready)
        learner->ready(learner->learner.owner, node->host, train->origin);
}

static void read_back(struct sim_node *node, const struct sim_checkpoint *checkpoint)
{
    struct sim_node_train *train = &node->train;

    const struct gossip_learner *learner = &learner_of(node)->learner;
    const size_t bytes = learner->parameters * sizeof(float);
    float *part[GOSSIP_PARTS] = {train->vectors.model, train->vectors.outer, train->vectors.second_moment};

    for (size_t p = 0; p < GOSSIP_PARTS; p++)
        if (part[p] && checkpoint->part[p])
            memcpy(part[p], checkpoint->part[p], bytes);
    if (learner->thaw)
        learner->thaw(learner->owner, node->host, checkpoint->learner, checkpoint->learner_bytes);
    if (train->vectors.round_start)
        memcpy(train->vectors.round_start,
               checkpoint->round_start ? checkpoint->round_start : train->vectors.model, bytes);
    train->origin = SIM_FROM_CHECKPOINT;
    node->world->counts.resumed++;
}

void sim_train_start(struct sim_node *node)
{
    const struct gossip_learner *learner = learner_of(node) ? &learner_of(node)->learner : NULL;
    const struct sim_checkpoint *checkpoint = learner ? sim_disk_load(&node->disk) : NULL;

    node->train = (struct sim_node_train){.begun_ns = node->started_ns,
                                          .checkpoint_ns = node->started_ns,
                                          .resumed = checkpoint != NULL,
                                          .origin = SIM_FROM_SEED};
    begin_rounds(node, checkpoint, 0);
    if (!learner)
        return;
    learner->begin(learner->owner, node->host, &node->train.vectors);
    if (checkpoint)
        read_back(node, checkpoint);
    publish(node, checkpoint);
}

void sim_train_stop(struct sim_node *node)
{
    struct sim_node_train *train = &node->train;

    if (train->exchange) {
        gossip_exchange_destroy(train->exchange);
        SIM_TELL(node, lost, node);
    }
    if (learner_of(node))
        learner_of(node)->learner.end(learner_of(node)->learner.owner, node->host);
    train->exchange = NULL;
    train->vectors = (struct gossip_learner_vectors){0};
}

static bool checkpoint_is_due(struct sim_node *node)
{
    const struct sim_options *options = &node->world->options;
    uint64_t now_ns = sim_node_now(node);

    if (options->checkpoint_rounds)
        return base_rng_below(&node->rng, options->checkpoint_rounds) == 0;
    const bool first = !node->disk.latest.there;
    if (!options->checkpoint_ns || (!first && now_ns - node->train.checkpoint_ns < options->checkpoint_ns))
        return false;
    node->train.checkpoint_ns = now_ns;
    return true;
}

// -- events of the exchange

static uint64_t sequence_of(const struct gossip_message *message)
{
    switch (message->kind) {
    case GOSSIP_HELLO:
        return message->as.hello.sequence;
    case GOSSIP_BUSY:
        return message->as.busy.sequence;
    default:
        return message->as.exchange.sequence;
    }
}

static bool is_apart(const struct gossip_exchange *exchange)
{
    struct gossip_exchange_totals totals;

    gossip_exchange_totals(exchange, &totals);
    return totals.apart;
}

// The vectors belong to the process again. After the last rendezvous, no more messages are answered.
static void round_done(struct sim_node *node, uint64_t round)
{
    struct sim_node_train *train = &node->train;
    const struct gossip_rounds_meet meet = train->rounds.meet;

    const struct gossip_id *partner = train->asks ? &train->partner : NULL;
    const bool met = gossip_exchange_met(train->exchange, partner, meet.round);

    train->in_round = false;
    if (meet.meets)
        gossip_exchange_account(train->exchange, partner, met, &train->account);
    if (meet.last)
        gossip_exchange_freeze(train->exchange);
    if (meet.meets) {
        train->rounds_done++;
        SIM_TELL(node, round_done, node, sim_node_now(node) - train->begun_ns);
    }
    gossip_rounds_met(&train->rounds, meet.meets ? round : meet.round, met, is_apart(train->exchange));
    train->round_is_over = meet.meets && !train->rounds.stepped;
    if (meet.last) {
        sim_disk_save(node);
        sim_life_tell(node, (struct gossip_life_event){.kind = GOSSIP_LIFE_FROZEN});
    }
    go_on(node);
}

static void send(struct sim_node *node, size_t peer, const struct gossip_message *message)
{
    sim_world_trace(node->world, node->host, "exchange", gossip_message_kind_name(message->kind), peer,
                    sequence_of(message));
    sim_link_send(node, peer, message);
}

static void refuse(struct sim_node *node, size_t peer, enum gossip_refusal why)
{
    static const enum gossip_close close[] = {[GOSSIP_REFUSAL_IMPLAUSIBLE] = GOSSIP_CLOSE_IMPLAUSIBLE,
                                              [GOSSIP_REFUSAL_BROKEN] = GOSSIP_CLOSE_BROKEN,
                                              [GOSSIP_REFUSAL_SCALING] = GOSSIP_CLOSE_OTHER_SCALING};

    SIM_TELL(node, refused, node, peer);
    sim_link_close(node, peer, close[why]);
}

static void name(void *owner, const struct gossip_id *id, char text[GOSSIP_TELL_NAME])
{
    const struct sim_node *node = owner;
    snprintf(text, GOSSIP_TELL_NAME, "node %zu", sim_world_find(node->world, id));
}

static void write_line(void *owner, const char *line)
{
    const struct sim_node *node = owner;
    sim_trace_tell(&node->world->trace, node->world->queue.now_ns, (uint32_t)node->host, line);
}

static enum base_error step(struct sim_node *node, const struct gossip_exchange_event *event,
                            struct gossip_exchange_actions *actions)
{
    const struct gossip_teller teller = {.owner = node, .name = name, .line = write_line};
    return node->world->trace.verbose ? gossip_tell_step(node->train.exchange, event, actions, &teller)
                                      : gossip_exchange_step(node->train.exchange, event, actions);
}

void sim_train_event(struct sim_node *node, struct gossip_exchange_event *event)
{
    struct gossip_exchange_actions actions;
    const struct gossip_exchange_action *done = NULL;

    event->now_ns = sim_node_now(node);
    const enum base_error error = step(node, event, &actions);
    BASE_ASSERT(!error); // nothing runs out of memory here
    sim_disk_log(node);
    for (size_t i = 0; i < actions.count; i++) {
        const struct gossip_exchange_action *action = &actions.list[i];
        if (action->kind == GOSSIP_EXCHANGE_ROUND_DONE)
            done = action;
        else if (action->kind == GOSSIP_EXCHANGE_SEND)
            send(node, sim_world_find(node->world, &action->peer), &action->message);
        else
            refuse(node, sim_world_find(node->world, &action->peer), action->why);
    }
    gossip_control_changed(node->control);
    SIM_TELL(node, exchanged, node);
    if (done)
        round_done(node, done->round);
}

void sim_train_news(struct sim_node *node, const struct gossip_life_action *action)
{
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_NEWS,
                                          .news = {.reports = action->reports,
                                                   .count = action->count,
                                                   .members = action->members,
                                                   .alone = !action->on}};

    if (node->train.exchange)
        sim_train_event(node, &event);
}

static void tell(struct sim_node *node, size_t peer, const struct gossip_message *message)
{
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = *sim_member_id(node, peer), .message = message};

    if (!node->train.exchange)
        return;
    sim_world_trace(node->world, node->host, "got", gossip_message_kind_name(message->kind), peer,
                    sequence_of(message));
    sim_train_event(node, &event);
}

void sim_train_message(struct sim_node *node, size_t peer, const struct gossip_message *message)
{
    if (sim_merge_heard(node, peer, message))
        return;
    if (message->kind == GOSSIP_SNAPSHOT_ASK)
        sim_fetch_asked(node, peer, message);
    else if (message->kind == GOSSIP_SNAPSHOT_TELL)
        sim_fetch_told(node, peer, message);
    else
        tell(node, peer, message);
}

// -- the next action

static void take_steps(struct sim_node *node, uint64_t count)
{
    struct sim_node_train *train = &node->train;

    const struct gossip_learner *learner = &learner_of(node)->learner;
    uint64_t ns = learner->steps(learner->owner, node->host, count, gossip_exchange_pace(train->exchange));

    train->stepping = true;
    train->begun_ns = sim_node_now(node) + ns;
}

static void end_steps(struct sim_node *node)
{
    struct sim_node_train *train = &node->train;
    const struct gossip_learner *learner = &learner_of(node)->learner;
    struct gossip_learner_steps did = {0};

    learner->boundary(learner->owner, node->host, &did);
    train->stepping = false;
    train->step_ns = did.step_ns;
    gossip_rounds_stepped(&train->rounds, did.step, did.step_scale, did.result);
    go_on(node);
}

static void meet(struct sim_node *node, const struct gossip_rounds_meet *meet)
{
    struct sim_node_train *train = &node->train;
    struct gossip_exchange_event event;

    if (gossip_exchange_frozen(train->exchange)) { // since a merge
        train->asks = false;
        round_done(node, meet->round);
        return;
    }
    if (meet->meets)
        sim_graph_forget(node);
    gossip_rounds_event(meet, node->graph.edges, sim_life_others(node), &event);
    train->asks = event.round.meets;
    train->partner = event.round.partner;
    event.round.pace_ns = train->step_ns;
    event.round.model = train->vectors.model;
    event.round.second_moment = train->vectors.second_moment;
    event.round.correction = train->vectors.correction;
    event.round.correction_stays = train->vectors.correction_stays;
    train->in_round = true;
    train->begun_ns = sim_node_now(node);
    sim_train_event(node, &event);
}

static void fetch(struct sim_node *node)
{
    sim_fetch_begin(node);
    gossip_control_unedged(node->control); // its edges go down
    sim_life_tell(node, (struct gossip_life_event){.kind = GOSSIP_LIFE_WANTS});
}

// The edges of a model that is replaced begin anew.
static void replace_model(struct sim_node *node, uint64_t round)
{
    struct sim_node_train *train = &node->train;

    gossip_exchange_adopt(train->exchange, train->vectors.model, train->vectors.second_moment, round);
    for (size_t j = 0; train->vectors.correction && j < learner_of(node)->learner.parameters; j++)
        train->vectors.correction[j] = 0;
    SIM_TELL(node, lost, node);
}

static void return_model(struct sim_node *node, uint64_t round)
{
    struct sim_node_train *train = &node->train;

    train->returns = true;
    sim_graph_follow(node);
    train->returns = false;
    replace_model(node, round);
    sim_graph_follow(node);
    gossip_rounds_returned(&train->rounds);
    train->account = (struct gossip_round_account){0}; // it met nobody
    train->round_is_over = true;
}

static void tell_progress(struct sim_node *node)
{
    struct sim_node_train *train = &node->train;

    sim_life_tell(node, (struct gossip_life_event){.kind = GOSSIP_LIFE_PROGRESS,
                                                   .round = train->rounds.round,
                                                   .step = train->rounds.step,
                                                   .least = gossip_rounds_least_stop(&train->rounds),
                                                   .ok = gossip_rounds_stand(&train->rounds)});
}

static void end_round(struct sim_node *node)
{
    const struct sim_learner *learner = learner_of(node);

    node->train.round_is_over = false;
    if (learner->done)
        learner->done(learner->learner.owner, node->host, &node->train.rounds);
    sim_fetch_freeze(node);
    tell_progress(node);
    if (checkpoint_is_due(node))
        sim_disk_save(node);
}

static void adopt(struct sim_node *node, const struct gossip_rounds_next *next)
{
    const struct gossip_learner *learner = &learner_of(node)->learner;

    learner->adopt(learner->owner, node->host, next->change, next->step);
    if (next->change == GOSSIP_LEARNER_RESTORED || next->change == GOSSIP_LEARNER_TAKEN)
        tell_progress(node); // it has taken the cluster's round, or a donor's
    if (node->train.round_is_over)
        end_round(node);
    else if (node->train.rounds.state != GOSSIP_ROUNDS_LEFT)
        sim_fetch_freeze(node);
}

// Nothing to do before the next order.
static void wait(struct sim_node *node)
{
    struct sim_node_train *train = &node->train;

    if (gossip_rounds_stand(&train->rounds))
        tell_progress(node);
    if (train->rounds.state != GOSSIP_ROUNDS_FINISHED || train->told_done)
        return;
    train->told_done = true;
    if (train->rounds.ended_alone && learner_of(node)->alone)
        learner_of(node)->alone(learner_of(node)->learner.owner, node->host);
    sim_life_tell(node,
                  (struct gossip_life_event){.kind = GOSSIP_LIFE_DONE, .ok = !train->rounds.ended_alone});
}

static void end(struct sim_node *node, int status)
{
    struct sim_node_train *train = &node->train;
    const struct sim_learner *learner = learner_of(node);

    train->over = true;
    if (learner->finish && train->rounds.complete)
        learner->finish(learner->learner.owner, node->host, &train->rounds);
    sim_life_tell(node, (struct gossip_life_event){.kind = GOSSIP_LIFE_WRITTEN, .status = status});
}

static void carry_out(struct sim_node *node, const struct gossip_rounds_next *next)
{
    switch (next->todo) {
    case GOSSIP_ROUNDS_WAIT:
        wait(node);
        break;
    case GOSSIP_ROUNDS_STEPS:
        take_steps(node, next->steps);
        break;
    case GOSSIP_ROUNDS_MEET:
        meet(node, &next->meet);
        break;
    case GOSSIP_ROUNDS_FETCH:
        fetch(node);
        break;
    case GOSSIP_ROUNDS_RETURN:
        return_model(node, next->round);
        break;
    case GOSSIP_ROUNDS_MERGE:
        sim_merge_begin(node, next->gives);
        break;
    case GOSSIP_ROUNDS_ADOPT:
        adopt(node, next);
        break;
    case GOSSIP_ROUNDS_END:
        end(node, next->status);
        break;
    }
}

// Loops because an action may finish at once, and orders of the life may arrive in between.
static void go_on(struct sim_node *node)
{
    struct sim_node_train *train = &node->train;
    struct gossip_rounds_next next = {.todo = GOSSIP_ROUNDS_ADOPT};

    if (train->going)
        return;
    train->going = true;
    while (!train->over && train->rounds.doing == GOSSIP_ROUNDS_WAIT &&
           (next.todo != GOSSIP_ROUNDS_WAIT || train->ordered)) {
        train->ordered = false;
        next = gossip_rounds_next(&train->rounds);
        carry_out(node, &next);
    }
    train->going = false;
}

static void give_up(struct sim_node *node)
{
    struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_GIVE_UP};

    if (node->train.rounds.doing == GOSSIP_ROUNDS_FETCH)
        sim_train_fetched(node, false, 0, 0);
    else if (node->train.rounds.doing == GOSSIP_ROUNDS_MERGE)
        sim_merge_give_up(node);
    else if (node->train.in_round)
        sim_train_event(node, &event);
}

void sim_train_order(struct sim_node *node, const struct gossip_order *order)
{
    struct sim_node_train *train = &node->train;

    if (!train->exchange)
        return;
    gossip_rounds_order(&train->rounds, order);
    train->ordered = true;
    if (order->kind == GOSSIP_ORDER_STOP && order->round > 0)
        tell_progress(node); // it may be past that round
    if (gossip_rounds_gives_up(&train->rounds))
        give_up(node);
    go_on(node);
}

void sim_train_fetched(struct sim_node *node, bool complete, uint64_t round, uint64_t step)
{
    struct sim_node_train *train = &node->train;
    const struct sim_learner *learner = learner_of(node);

    if (train->rounds.doing != GOSSIP_ROUNDS_FETCH)
        return;
    sim_fetch_end(node, complete);
    gossip_control_unedged(node->control); // its edges come up
    gossip_rounds_fetched(&train->rounds, complete, round, step);
    if (complete) {
        train->origin = SIM_FROM_SNAPSHOT;
        replace_model(node, round);
        if (learner->ready)
            learner->ready(learner->learner.owner, node->host, train->origin);
    }
    sim_life_tell(node, (struct gossip_life_event){
                            .kind = GOSSIP_LIFE_FETCHED, .round = round, .step = step, .ok = complete});
    go_on(node);
}

void sim_train_merged(struct sim_node *node, bool merged)
{
    node->train.merged = merged;
    gossip_rounds_merged(&node->train.rounds, merged);
    sim_life_tell(node, (struct gossip_life_event){.kind = GOSSIP_LIFE_MERGED, .ok = merged});
    go_on(node);
}

void sim_train_tick(struct sim_node *node, uint64_t now_ns)
{
    struct sim_node_train *train = &node->train;

    if (!train->exchange)
        return;
    if (now_ns >= gossip_exchange_deadline(train->exchange)) {
        struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_TIMER};
        sim_train_event(node, &event);
        SIM_TELL(node, deadline, node, gossip_exchange_deadline(train->exchange),
                 "a timer of the exchange does not pass");
    }
    if (!train->stepping || now_ns < train->begun_ns)
        return;
    if (node->world->resting)
        train->begun_ns = now_ns + SIM_LOOK_NS;
    else
        end_steps(node);
}

uint64_t sim_train_deadline(const struct sim_node *node)
{
    const struct sim_node_train *train = &node->train;
    uint64_t deadline_ns = UINT64_MAX;

    if (train->exchange && gossip_exchange_deadline(train->exchange) < deadline_ns)
        deadline_ns = gossip_exchange_deadline(train->exchange);
    if (train->exchange && train->stepping && train->begun_ns < deadline_ns)
        deadline_ns = train->begun_ns;
    return deadline_ns;
}
