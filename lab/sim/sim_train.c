// Rounds of local steps and exchanges, by gossip/life/rounds.h; the averaging between them is
// sim_average.c's.
#include "lab/sim/sim_process.h"
#include <stdlib.h>
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
    if (node->faults.boundless)
        options.robust = GOSSIP_ROBUST_OFF;
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

static void parts(const struct gossip_learner_vectors *vectors, float *part[GOSSIP_PARTS])
{
    part[GOSSIP_PART_MODEL] = vectors->model;
    part[GOSSIP_PART_OUTER] = vectors->outer;
    part[GOSSIP_PART_SECOND] = vectors->second_moment;
}

static void take_parts(struct sim_node *node, float *const from[GOSSIP_PARTS])
{
    float *own[GOSSIP_PARTS];

    parts(&node->train.vectors, own);
    for (size_t p = 0; p < GOSSIP_PARTS; p++)
        if (own[p] && from[p])
            memcpy(own[p], from[p], learner_of(node)->learner.parameters * sizeof(float));
}

static void read_back(struct sim_node *node, const struct sim_checkpoint *checkpoint)
{
    struct sim_node_train *train = &node->train;

    const struct gossip_learner *learner = &learner_of(node)->learner;
    const size_t bytes = learner->parameters * sizeof(float);

    take_parts(node, checkpoint->part);
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
    if (node->world->options.probe && learner->compare)
        node->train.look.model = sim_copy(node->train.vectors.model, learner->parameters * sizeof(float));
    if (checkpoint)
        read_back(node, checkpoint);
    publish(node, checkpoint);
    sim_average_start(node);
}

static void release(struct gossip_snapshot_vectors *into)
{
    for (size_t p = 0; p < GOSSIP_PARTS; p++)
        free(into->part[p]);
    *into = (struct gossip_snapshot_vectors){0};
}

void sim_train_stop(struct sim_node *node)
{
    struct sim_node_train *train = &node->train;

    sim_average_stop(node);
    release(&train->into);
    free(train->look.model);
    train->look.model = NULL;
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

// -- what the averaging has done

// After the last rendezvous, no more messages are answered.
void sim_train_done(struct sim_node *node, const struct gossip_average_action *action)
{
    struct sim_node_train *train = &node->train;
    const struct gossip_rounds_meet meet = train->rounds.meet;

    train->account = action->account ? *action->account : (struct gossip_round_account){0};
    if (train->rounds.doing == GOSSIP_ROUNDS_RETURN) {
        gossip_rounds_returned(&train->rounds);
        train->round_is_over = true;
        go_on(node);
        return;
    }
    if (meet.meets) {
        train->rounds_done++;
        SIM_TELL(node, round_done, node, sim_node_now(node) - train->begun_ns);
    }
    gossip_rounds_met(&train->rounds, action->round, action->met, action->apart);
    train->round_is_over = meet.meets && !train->rounds.progress;
    if (meet.last) {
        sim_disk_save(node);
        sim_life_tell(node, (struct gossip_life_event){.kind = GOSSIP_LIFE_FROZEN});
    }
    go_on(node);
}

void sim_train_fetched(struct sim_node *node, const struct gossip_average_action *action)
{
    struct sim_node_train *train = &node->train;
    const struct sim_learner *learner = learner_of(node);

    gossip_control_unedged(node->control); // its edges come up
    if (action->not_alone)
        gossip_rounds_not_alone(&train->rounds);
    gossip_rounds_fetched(&train->rounds, action->live.ok, action->live.round, action->live.step);
    if (action->live.ok) {
        node->world->counts.fetches++;
        sim_world_trace(node->world, node->host, "fetched", NULL, action->live.round, 0);
        take_parts(node, train->into.part);
        train->origin = SIM_FROM_SNAPSHOT;
        SIM_TELL(node, lost, node);
        if (learner->ready)
            learner->ready(learner->learner.owner, node->host, train->origin);
    }
    release(&train->into);
    sim_life_tell(node, action->live);
    go_on(node);
}

void sim_train_merged(struct sim_node *node, const struct gossip_average_action *action)
{
    sim_world_trace(node->world, node->host, "merge", gossip_merge_end_text(action->end),
                    node->train.rounds.round, action->end);
    node->world->counts.merges += action->live.ok;
    node->train.merged = action->live.ok;
    gossip_rounds_merged(&node->train.rounds, action->live.ok);
    sim_life_tell(node, action->live);
    go_on(node);
}

bool sim_train_judges(const struct sim_node *node)
{
    return learner_of(node)->learner.judge != NULL;
}

bool sim_train_accepts(struct sim_node *node, const float *model)
{
    const struct gossip_learner *learner = &learner_of(node)->learner;
    const bool merges = node->train.rounds.doing == GOSSIP_ROUNDS_MERGE,
               accepts = learner
                             ->judge(learner->owner, node->host, model,
                                     merges ? GOSSIP_LEARNER_MERGED : GOSSIP_LEARNER_DONORS)
                             .accepts;

    node->world->counts.refusals += !accepts;
    sim_world_trace(node->world, node->host, "judges", accepts ? "accepted" : "refused",
                    node->train.rounds.round, 0);
    return accepts;
}

// -- the next action

static struct gossip_look *look_of(struct sim_node *node)
{
    return node->train.look.model ? &node->train.look : NULL;
}

static void take_steps(struct sim_node *node, uint64_t count)
{
    struct sim_node_train *train = &node->train;

    const struct gossip_learner *learner = &learner_of(node)->learner;
    gossip_look_compare(look_of(node), learner, node->host);
    gossip_rounds_set(&train->rounds, learner, node->host);
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
    gossip_look_want(look_of(node), &did);
    gossip_rounds_stepped(&train->rounds, did.step, did.step_scale, did.result);
    go_on(node);
}

static void give(struct sim_node *node)
{
    if (learner_of(node)->give)
        learner_of(node)->give(learner_of(node)->learner.owner, node->host);
}

static void meet(struct sim_node *node, const struct gossip_rounds_meet *meet)
{
    struct sim_node_train *train = &node->train;
    const struct gossip_average_round round = {.meet = *meet,
                                               .others = sim_life_others(node),
                                               .pace_ns = train->step_ns,
                                               .vectors = train->vectors,
                                               .look = look_of(node)};

    give(node);
    train->begun_ns = sim_node_now(node);
    gossip_average_round(node->average, &round);
    sim_average_act(node);
}

static void fetch(struct sim_node *node)
{
    struct sim_node_train *train = &node->train;
    const size_t bytes = learner_of(node)->learner.parameters * sizeof(float);
    float *own[GOSSIP_PARTS];

    parts(&train->vectors, own);
    for (size_t p = 0; p < GOSSIP_PARTS; p++)
        train->into.part[p] = own[p] ? sim_copy(own[p], bytes) : NULL;
    const struct gossip_average_fetch fetch = {
        .into = train->into, .correction = train->vectors.correction, .seed = base_rng_u64(&node->rng)};
    BASE_ASSERT(!gossip_average_fetch(node->average, &fetch));
    sim_average_act(node);
}

static void return_model(struct sim_node *node, uint64_t round)
{
    const struct gossip_learner_vectors *vectors = &node->train.vectors;
    const struct gossip_average_fetch last = {
        .into =
            {.part = {[GOSSIP_PART_MODEL] = vectors->model, [GOSSIP_PART_SECOND] = vectors->second_moment},
             .round = round},
        .correction = vectors->correction};

    SIM_TELL(node, lost, node);
    gossip_average_return(node->average, &last);
    sim_average_act(node);
}

static enum sim_claim claim_of(const struct sim_node *node)
{
    return node->train.rounds.state == GOSSIP_ROUNDS_TRAINING ? node->faults.claim : SIM_CLAIM_TRUTH;
}

void sim_train_claim(const struct sim_node *node, uint64_t *round, uint64_t *step)
{
    const struct gossip_rounds *rounds = &node->train.rounds;

    *round = rounds->round + node->faults.boasts;
    *step = rounds->step + node->faults.boasts;
    if (claim_of(node) == SIM_CLAIM_TRUTH)
        return;
    *step = rounds->options.steps;
    *round = (*step + rounds->options.local_steps - 1) / rounds->options.local_steps;
}

// After every report of its true progress, which would undo it.
static void claim_end(struct sim_node *node)
{
    uint64_t round, step;

    if (claim_of(node) == SIM_CLAIM_TRUTH)
        return;
    sim_train_claim(node, &round, &step);
    sim_member_claims(node, claim_of(node) == SIM_CLAIM_FINISHED ? GOSSIP_RECORD_FINISHED : 0, round, step);
}

static void tell_progress(struct sim_node *node)
{
    struct sim_node_train *train = &node->train;

    sim_life_tell(node, (struct gossip_life_event){.kind = GOSSIP_LIFE_PROGRESS,
                                                   .round = train->rounds.round,
                                                   .step = train->rounds.step,
                                                   .least = gossip_rounds_least_stop(&train->rounds),
                                                   .ok = gossip_rounds_stand(&train->rounds)});
    claim_end(node);
}

static void end_round(struct sim_node *node)
{
    const struct sim_learner *learner = learner_of(node);

    node->train.round_is_over = false;
    if (learner->done)
        learner->done(learner->learner.owner, node->host, &node->train.rounds);
    sim_average_give(node);
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
        sim_average_give(node);
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
    if (train->rounds.step < train->rounds.options.steps && learner_of(node)->alone)
        learner_of(node)->alone(learner_of(node)->learner.owner, node->host);
    sim_life_tell(node, (struct gossip_life_event){.kind = GOSSIP_LIFE_DONE});
}

static void end(struct sim_node *node, int status)
{
    struct sim_node_train *train = &node->train;
    const struct sim_learner *learner = learner_of(node);

    train->over = true;
    if (learner->finish && gossip_rounds_complete(&train->rounds))
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
        give(node);
        BASE_ASSERT(
            !gossip_average_merge(node->average, node->train.vectors.model, next->gives, sim_node_now(node)));
        sim_average_act(node);
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

void sim_train_order(struct sim_node *node, const struct gossip_order *order)
{
    struct sim_node_train *train = &node->train;

    if (!train->exchange)
        return;
    gossip_rounds_order(&train->rounds, order);
    train->ordered = true;
    if (order->kind == GOSSIP_ORDER_STOP && order->round > 0)
        tell_progress(node); // it may be past that round
    if (gossip_rounds_gives_up(&train->rounds)) {
        gossip_average_give_up(node->average, sim_node_now(node));
        sim_average_act(node);
    }
    go_on(node);
}

void sim_train_tick(struct sim_node *node, uint64_t now_ns)
{
    struct sim_node_train *train = &node->train;

    if (!train->exchange)
        return;
    if (!train->stepping || now_ns < train->begun_ns)
        return;
    if (node->world->resting)
        train->begun_ns = now_ns + SIM_LOOK_NS;
    else
        end_steps(node);
}

uint64_t sim_train_deadline(const struct sim_node *node)
{
    return node->train.stepping ? node->train.begun_ns : UINT64_MAX;
}
