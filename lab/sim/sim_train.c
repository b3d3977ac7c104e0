// Rounds of local steps and exchanges, and what the exchange is told.
#include "lab/sim/sim_process.h"
#include <string.h>

static void next(struct sim_node *node);
static void finished(struct sim_node *node);

static const struct sim_learner *learner_of(const struct sim_node *node)
{
    return node->world->options.learner;
}

static struct gossip_exchange_options exchange_options(const struct sim_node *node)
{
    struct gossip_exchange_options options = node->world->options.exchange;

    options.self = *sim_member_id(node, node->self);
    options.parameters = learner_of(node)->parameters;
    options.start = learner_of(node)->start;
    options.model = node->vectors.model;
    options.round = node->round;
    return options;
}

static void take_edges(struct sim_node *node)
{
    const struct sim_checkpoint *checkpoint = node->resumed ? sim_disk_load(&node->disk) : NULL;

    for (size_t i = 0; checkpoint && i < checkpoint->count; i++)
        if (gossip_exchange_import(node->exchange, &checkpoint->record[i]) != BASE_OK)
            sim_world_break(node->world, node->host, "an edge of a whole checkpoint was refused");
    for (size_t i = 0; checkpoint && i < checkpoint->n_kept; i++)
        if (gossip_exchange_keep(node->exchange, &checkpoint->kept[i].peer, checkpoint->kept[i].correction) !=
            BASE_OK)
            sim_world_break(node->world, node->host, "what a dead neighbour left was refused");
}

static void publish(struct sim_node *node)
{
    const struct sim_learner *learner = learner_of(node);
    const struct gossip_exchange_options options = exchange_options(node);
    struct base_reason why;

    BASE_ASSERT(gossip_exchange_create(&options, &node->exchange, &why) == BASE_OK);
    take_edges(node);
    const float *correction = gossip_exchange_correction(node->exchange);
    for (size_t j = 0; node->vectors.correction && j < learner->parameters; j++)
        node->vectors.correction[j] = correction ? correction[j] : 0;
    if (learner->ready)
        learner->ready(learner->owner, node->host, node->origin, node->round, node->step);
}

void sim_train_adopt(struct sim_node *node)
{
    const struct sim_learner *learner = learner_of(node);

    gossip_exchange_adopt(node->exchange, node->vectors.model, node->vectors.second_moment, node->round);
    for (size_t j = 0; node->vectors.correction && j < learner->parameters; j++)
        node->vectors.correction[j] = 0;
    SIM_TELL(node, lost, node);
    if (learner->ready)
        learner->ready(learner->owner, node->host, node->origin, node->round, node->step);
    node->links_changed = true; // its edges come up
    sim_life_tell(node,
                  (struct gossip_life_event){
                      .kind = GOSSIP_LIFE_FETCHED, .round = node->round, .step = node->step, .ok = true});
    next(node);
}

static void read_back(struct sim_node *node, const struct sim_checkpoint *checkpoint)
{
    const struct sim_learner *learner = learner_of(node);
    float *part[GOSSIP_PARTS] = {node->vectors.model, node->vectors.outer, node->vectors.second_moment};

    for (size_t p = 0; p < GOSSIP_PARTS; p++)
        if (part[p] && checkpoint->part[p])
            memcpy(part[p], checkpoint->part[p], learner->parameters * sizeof(float));
    if (learner->load)
        learner->load(learner->owner, node->host, checkpoint->learner, checkpoint->learner_bytes);
    node->round = checkpoint->round;
    node->step = checkpoint->step;
    node->origin = SIM_FROM_CHECKPOINT;
    node->world->counts.resumed++;
}

void sim_train_start(struct sim_node *node)
{
    const struct sim_learner *learner = learner_of(node);
    const struct sim_checkpoint *checkpoint = sim_disk_load(&node->disk);

    node->round = node->step = node->rounds_done = 0;
    node->in_round = node->stepping = node->alone = false;
    node->doing = SIM_STANDS;
    node->orders = 0;
    node->train_ns = node->checkpoint_ns = node->started_ns;
    node->resumed = checkpoint != NULL;
    node->origin = SIM_FROM_SEED;
    if (!learner)
        return;
    learner->begin(learner->owner, node->host, &node->vectors);
    BASE_ASSERT(gossip_donor_create(learner->parameters, &node->donor) == BASE_OK);
    if (checkpoint)
        read_back(node, checkpoint);
    publish(node);
}

void sim_train_stop(struct sim_node *node)
{
    if (node->exchange) {
        gossip_exchange_destroy(node->exchange);
        SIM_TELL(node, lost, node);
    }
    if (node->donor) {
        gossip_donor_destroy(node->donor);
        learner_of(node)->end(learner_of(node)->owner, node->host);
    }
    node->donor = NULL;
    node->exchange = NULL;
    node->vectors = (struct sim_vectors){0};
}

// Local steps of the next round begin, if there are any.
static void begin(struct sim_node *node)
{
    const struct sim_learner *learner = learner_of(node);

    node->doing = SIM_TRAINS;
    sim_life_look(node);
    if (node->leaving || (node->orders & (SIM_ORDER_FETCH | SIM_ORDER_PAUSE))) {
        next(node);
        return;
    }
    if (node->alone)
        learner->alone(learner->owner, node->host);
    uint64_t ns =
        learner->steps(learner->owner, node->host, node->round + 1, gossip_exchange_pace(node->exchange));

    node->stepping = ns != SIM_NO_STEPS;
    node->train_ns = node->stepping ? sim_node_now(node) + ns : UINT64_MAX;
    if (!node->stepping)
        finished(node);
}

static bool checkpoint_is_due(struct sim_node *node)
{
    const struct sim_options *options = &node->world->options;
    uint64_t now_ns = sim_node_now(node);

    if (options->checkpoint_rounds)
        return base_rng_below(&node->rng, options->checkpoint_rounds) == 0;
    if (!options->checkpoint_ns || now_ns - node->checkpoint_ns < options->checkpoint_ns)
        return false;
    node->checkpoint_ns = now_ns;
    return true;
}

static void finish(struct sim_node *node)
{
    const struct sim_learner *learner = learner_of(node);

    if (learner->finish)
        learner->finish(learner->owner, node->host, node->round);
    node->doing = SIM_HAS_LEFT;
    sim_life_tell(node, (struct gossip_life_event){.kind = GOSSIP_LIFE_WRITTEN});
}

// The vectors stand still: nothing more is learnt, or nothing now.
static void rested(struct sim_node *node)
{
    sim_fetch_freeze(node);
    if (node->doing == SIM_PAUSES) {
        next(node);
        return;
    }
    sim_disk_save(node);
    if (node->doing == SIM_LEAVES)
        finish(node);
    else if (node->leaving)
        sim_train_leave(node);
}

static void round_done(struct sim_node *node)
{
    const struct sim_learner *learner = learner_of(node);

    node->in_round = false;
    if (node->doing != SIM_TRAINS) {
        rested(node);
        return;
    }
    node->rounds_done++;
    SIM_TELL(node, round_done, node, sim_node_now(node) - node->train_ns);
    if (learner->done)
        learner->done(learner->owner, node->host, node->round);
    sim_fetch_freeze(node);
    sim_life_tell(node, (struct gossip_life_event){
                            .kind = GOSSIP_LIFE_PROGRESS, .round = node->round, .step = node->step});
    if (!node->leaving && checkpoint_is_due(node))
        sim_disk_save(node);
    next(node);
}

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

void sim_train_event(struct sim_node *node, struct gossip_exchange_event *event)
{
    struct gossip_exchange_actions actions;
    bool done = false;

    event->now_ns = sim_node_now(node);
    enum base_error error = gossip_exchange_step(node->exchange, event, &actions);
    for (size_t i = 0; i < actions.count; i++) {
        if (actions.list[i].kind == GOSSIP_EXCHANGE_ROUND_DONE) {
            done = true;
            continue;
        }
        size_t peer = sim_world_find(node->world, &actions.list[i].peer);
        sim_world_trace(node->world, node->host, "exchange",
                        gossip_message_kind_name(actions.list[i].message.kind), peer,
                        sequence_of(&actions.list[i].message));
        sim_link_send(node, peer, &actions.list[i].message);
    }
    node->consider = true;
    SIM_TELL(node, exchanged, node);
    if (done)
        round_done(node);
    if (error == BASE_OK)
        return;
    size_t peer = sim_world_find(node->world, &event->peer);
    SIM_TELL(node, refused, node, peer);
    sim_link_close(node, peer, "broke the exchange");
}

static void tell(struct sim_node *node, size_t peer, const struct gossip_message *message)
{
    struct gossip_exchange_event event = {
        .kind = GOSSIP_EXCHANGE_MESSAGE, .peer = *sim_member_id(node, peer), .message = message};

    if (!node->exchange || node->joiner) // which has no edge, either
        return;
    sim_world_trace(node->world, node->host, "got", gossip_message_kind_name(message->kind), peer,
                    sequence_of(message));
    sim_train_event(node, &event);
}

void sim_train_message(struct sim_node *node, size_t peer, const struct gossip_message *message)
{
    if (message->kind == GOSSIP_SNAPSHOT_ASK)
        sim_fetch_asked(node, peer, message);
    else if (message->kind == GOSSIP_SNAPSHOT_TELL)
        sim_fetch_told(node, peer, message);
    else
        tell(node, peer, message);
}

static void collect(struct sim_node *node, struct gossip_exchange_event *event)
{
    const struct sim_learner *learner = learner_of(node);
    struct sim_steps did = {0};

    learner->collect(learner->owner, node->host, node->round, &did);
    node->stepping = false;
    node->step = did.step;
    event->round.step_scale = did.step_scale;
    event->round.pace_ns = did.pace_ns;
}

static void begin_exchange(struct sim_node *node, struct gossip_exchange_event *event)
{
    event->kind = GOSSIP_EXCHANGE_ROUND;
    event->round.model = node->vectors.model;
    event->round.second_moment = node->vectors.second_moment;
    event->round.correction = node->vectors.correction;
    node->in_round = true;
    node->train_ns = sim_node_now(node);
    sim_train_event(node, event);
}

static void begin_round(struct sim_node *node)
{
    struct gossip_exchange_event event = {0};
    bool placed = node->plan && node->plan_self != SIZE_MAX && !node->world->options.local;

    sim_graph_forget(node);
    node->round++;
    collect(node, &event);
    size_t partner =
        placed ? topology_plan_partner(node->plan, node->plan_self, node->round) : TOPOLOGY_NOBODY;
    event.round.round = node->round;
    event.round.meets = partner != TOPOLOGY_NOBODY;
    if (event.round.meets) {
        event.round.partner = *sim_member_id(node, node->view[partner]);
        event.round.weight = (float)topology_plan_weight(node->plan, node->plan_self, node->round);
    }
    begin_exchange(node, &event);
}

// Takes in what came meanwhile, and asks nobody.
static void rest(struct sim_node *node, enum sim_doing doing)
{
    struct gossip_exchange_event event = {0};

    node->doing = doing;
    if (node->stepping) {
        node->round++;
        collect(node, &event);
    }
    event.round.round = node->round + 1;
    event.round.idle = true;
    begin_exchange(node, &event);
}

static void finished(struct sim_node *node)
{
    rest(node, SIM_RESTS);
    sim_life_tell(node, (struct gossip_life_event){.kind = GOSSIP_LIFE_DONE, .ok = !node->alone});
}

static void fetch(struct sim_node *node)
{
    node->orders &= ~(unsigned)SIM_ORDER_FETCH;
    node->doing = SIM_STANDS;
    sim_fetch_begin(node);
    node->links_changed = true; // its edges go down
    sim_life_tell(node, (struct gossip_life_event){.kind = GOSSIP_LIFE_WANTS});
}

// At a boundary: what was ordered, then the next round.
static void next(struct sim_node *node)
{
    if (node->leaving)
        sim_train_leave(node);
    else if (node->orders & SIM_ORDER_FETCH)
        fetch(node);
    else if (!(node->orders & SIM_ORDER_PAUSE))
        begin(node);
    else if (node->doing != SIM_PAUSES)
        rest(node, SIM_PAUSES);
}

static bool is_at_a_boundary(const struct sim_node *node)
{
    return !node->in_round && !node->stepping && !node->joiner &&
           (node->doing == SIM_STANDS || node->doing == SIM_PAUSES);
}

void sim_train_order(struct sim_node *node, unsigned set, unsigned clear)
{
    node->orders = (node->orders | set) & ~clear;
    if ((node->orders & SIM_ORDER_START) && is_at_a_boundary(node))
        next(node);
}

void sim_train_give_up(struct sim_node *node)
{
    sim_fetch_stop(node);
    node->doing = SIM_HAS_LEFT; // half a model is none
    sim_life_tell(node, (struct gossip_life_event){.kind = GOSSIP_LIFE_WRITTEN, .status = 1});
}

void sim_train_leave(struct sim_node *node)
{
    if (node->doing >= SIM_LEAVES || node->in_round)
        return;
    if (node->exchange && !node->joiner) {
        rest(node, SIM_LEAVES);
        return;
    }
    sim_fetch_stop(node);
    node->doing = SIM_HAS_LEFT; // half a model is none
    sim_life_tell(node, (struct gossip_life_event){.kind = GOSSIP_LIFE_WRITTEN});
}

void sim_train_tick(struct sim_node *node, uint64_t now_ns)
{
    if (!node->exchange)
        return;
    if (now_ns >= gossip_exchange_deadline(node->exchange)) {
        struct gossip_exchange_event event = {.kind = GOSSIP_EXCHANGE_TIMER};
        sim_train_event(node, &event);
        SIM_TELL(node, deadline, node, gossip_exchange_deadline(node->exchange),
                 "a timer of the exchange does not pass");
    }
    if (node->doing != SIM_TRAINS || node->in_round || now_ns < node->train_ns)
        return;
    if (node->world->resting)
        node->train_ns = now_ns + SIM_LOOK_NS;
    else
        begin_round(node);
}

uint64_t sim_train_deadline(const struct sim_node *node)
{
    uint64_t deadline_ns = UINT64_MAX;

    if (node->exchange && gossip_exchange_deadline(node->exchange) < deadline_ns)
        deadline_ns = gossip_exchange_deadline(node->exchange);
    if (node->exchange && node->doing == SIM_TRAINS && !node->in_round && node->train_ns < deadline_ns)
        deadline_ns = node->train_ns;
    return deadline_ns;
}
