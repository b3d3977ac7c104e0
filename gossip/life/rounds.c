#include "gossip/life/rounds.h"

#include "base/array.h"
#include "base/error.h"

static void enter(struct gossip_rounds *r, enum gossip_rounds_state state)
{
    static const unsigned follow[] = {
        [GOSSIP_ROUNDS_WAITING] = 1u << GOSSIP_ROUNDS_TRAINING | 1u << GOSSIP_ROUNDS_LEAVING,
        [GOSSIP_ROUNDS_TRAINING] =
            1u << GOSSIP_ROUNDS_PAUSED | 1u << GOSSIP_ROUNDS_FINISHED | 1u << GOSSIP_ROUNDS_LEAVING,
        [GOSSIP_ROUNDS_PAUSED] = 1u << GOSSIP_ROUNDS_TRAINING | 1u << GOSSIP_ROUNDS_LEAVING,
        [GOSSIP_ROUNDS_FINISHED] = 1u << GOSSIP_ROUNDS_LEAVING,
        [GOSSIP_ROUNDS_LEAVING] = 1u << GOSSIP_ROUNDS_LEFT,
        [GOSSIP_ROUNDS_LEFT] = 0,
    };

    BASE_ASSERT(follow[r->state] & 1u << state);
    r->collects |= r->state != GOSSIP_ROUNDS_WAITING;
    r->state = state;
}

static void tell(struct gossip_rounds *r, enum gossip_learner_change change)
{
    BASE_ASSERT(r->doing == GOSSIP_ROUNDS_WAIT);
    r->change = change;
}

static void pass(struct gossip_rounds *r, uint64_t rounds)
{
    const uint64_t left = r->options.steps - r->step;

    BASE_ASSERT(r->step <= r->options.steps && r->options.local_steps > 0);
    r->step += rounds <= left / r->options.local_steps ? rounds * r->options.local_steps : left;
}

// Their exchanges are in the model, and none of them is left open.
static void reach(struct gossip_rounds *r, uint64_t round)
{
    BASE_ASSERT(r->options.resumed && round > r->round);
    pass(r, round - r->round);
    r->round = round;
    r->progress = GOSSIP_ROUNDS_NOT_STEPPED;
    tell(r, GOSSIP_LEARNER_RESTORED);
}

void gossip_rounds_init(struct gossip_rounds *r, const struct gossip_rounds_options *options)
{
    BASE_ASSERT(options->local_steps > 0 && (options->resumed || !options->open));
    *r = (struct gossip_rounds){.options = *options,
                                .round = options->round,
                                .step = base_min(options->step, options->steps),
                                .progress = options->open ? GOSSIP_ROUNDS_OPEN : GOSSIP_ROUNDS_NOT_STEPPED,
                                .step_scale = options->open_scale,
                                .orders.stop_at = GOSSIP_ROUNDS_NO_STOP};
    if (options->reached > options->round)
        reach(r, options->reached);
}

// -- orders

// The cluster is past the place of this node: an exchange that an earlier process left open is void.
static bool is_past(const struct gossip_rounds *r, uint64_t round, uint64_t step)
{
    BASE_ASSERT(r->step <= r->options.steps);
    return round > r->round || base_min(step, r->options.steps) > r->step;
}

static void start(struct gossip_rounds *r, const struct gossip_order *order)
{
    const bool meets = r->progress == GOSSIP_ROUNDS_STEPPED ||
                       (r->progress == GOSSIP_ROUNDS_OPEN && !is_past(r, order->round, order->step));

    if (r->state == GOSSIP_ROUNDS_WAITING) {
        enter(r, GOSSIP_ROUNDS_TRAINING);
        r->orders.fetch |= order->fetch;
        if (order->fetch && !r->options.resumed) // others train: the seed model is nothing to continue from
            r->model = GOSSIP_ROUNDS_NO_MODEL;
    }
    r->away |= order->away;
    r->collects |= order->away && !meets && r->state < GOSSIP_ROUNDS_PAUSED;
    r->orders.round = order->round;
    r->orders.step = order->step;
}

static bool ends(const struct gossip_rounds *r)
{
    return r->orders.end >= GOSSIP_ORDER_ALONE;
}

void gossip_rounds_order(struct gossip_rounds *r, const struct gossip_order *order)
{
    BASE_ASSERT(order->kind <= GOSSIP_ORDER_SETTING);
    switch (order->kind) {
    case GOSSIP_ORDER_START:
        start(r, order);
        break;
    case GOSSIP_ORDER_FETCH:
        r->orders.fetch = true;
        break;
    case GOSSIP_ORDER_PAUSE:
        if (r->orders.end <= GOSSIP_ORDER_PAUSE)
            r->orders.end = order->on ? GOSSIP_ORDER_PAUSE : GOSSIP_ORDER_START;
        break;
    case GOSSIP_ORDER_STOP: // the latest order counts: others may stop later than this node expected
        r->orders.stop_at = order->round;
        break;
    case GOSSIP_ORDER_SETTING:
        BASE_ASSERT(order->setting_kind < GOSSIP_SETTINGS);
        r->settings[order->setting_kind] = order->setting;
        break;
    case GOSSIP_ORDER_ALONE:
    case GOSSIP_ORDER_MERGE:
    case GOSSIP_ORDER_LEAVE:
        r->orders.fetch |= order->fetch && !ends(r) && r->state < GOSSIP_ROUNDS_FINISHED;
        if (r->orders.end < order->kind)
            r->orders.end = order->kind;
        break;
    }
}

void gossip_rounds_set(const struct gossip_rounds *r, const struct gossip_learner *learner, size_t which)
{
    BASE_ASSERT(r->doing == GOSSIP_ROUNDS_STEPS);
    for (unsigned kind = 0; learner->set && kind < GOSSIP_SETTINGS; kind++)
        learner->set(learner->owner, which, (enum gossip_setting_kind)kind,
                     gossip_setting_at(&r->settings[kind], r->round + 1));
}

// This node skips the rounds that it missed.
static void catch_up(struct gossip_rounds *r)
{
    if (!is_past(r, r->orders.round, r->orders.step))
        return;
    r->progress = GOSSIP_ROUNDS_NOT_STEPPED;
    r->round = base_max(r->round, r->orders.round);
    r->step = base_max(r->step, base_min(r->orders.step, r->options.steps));
    tell(r, GOSSIP_LEARNER_RESTORED);
}

// -- what follows at a boundary

static bool trains(const struct gossip_rounds *r)
{
    return r->state == GOSSIP_ROUNDS_TRAINING || r->state == GOSSIP_ROUNDS_PAUSED;
}

// If the model will be replaced, the open round is void, and nothing waits for its end.
static bool takes_another_model(const struct gossip_rounds *r)
{
    return r->orders.fetch && trains(r) && !gossip_rounds_stops(r) && !ends(r);
}

// The latest boundary: with an open round that of its exchange.
static uint64_t reached(const struct gossip_rounds *r)
{
    return r->round + (r->progress == GOSSIP_ROUNDS_OPEN);
}

// Only a node in training will reach further boundaries; any other is at one.
static bool must_stop(const struct gossip_rounds *r)
{
    const bool goes_on = r->state == GOSSIP_ROUNDS_TRAINING && r->result != GOSSIP_LEARNER_OVER;

    return gossip_rounds_stops(r) && !(goes_on && reached(r) < r->orders.stop_at);
}

static bool is_over(const struct gossip_rounds *r)
{
    return !r->progress && (r->step >= r->options.steps || ends(r));
}

// Its steps are done, and its model is not the cluster's.
static bool ends_with_another(const struct gossip_rounds *r)
{
    return r->model == GOSSIP_ROUNDS_APART && !r->progress && r->step >= r->options.steps && !ends(r) &&
           !gossip_rounds_stops(r);
}

uint64_t gossip_rounds_least_stop(const struct gossip_rounds *r)
{
    return r->round + (r->doing == GOSSIP_ROUNDS_STEPS || r->progress);
}

bool gossip_rounds_stand(const struct gossip_rounds *r)
{
    return r->state == GOSSIP_ROUNDS_TRAINING && r->orders.stop_at > 0 &&
           r->orders.end < GOSSIP_ORDER_LEAVE && must_stop(r);
}

static bool is_unusable(const struct gossip_rounds *r)
{
    return r->result == GOSSIP_LEARNER_UNDONE || r->result == GOSSIP_LEARNER_NOT_FINITE;
}

// Neither the last published model nor the last good one helps.
static bool has_failed(const struct gossip_rounds *r)
{
    return r->unusable_in_row >= GOSSIP_ROUNDS_UNUSABLE_MAX || r->returns_in_row >= GOSSIP_ROUNDS_RETURNS_MAX;
}

static bool must_leave(const struct gossip_rounds *r)
{
    bool failed = has_failed(r) || !gossip_rounds_complete(r);
    bool done = r->state == GOSSIP_ROUNDS_FINISHED && !r->collects && r->orders.end == GOSSIP_ORDER_LEAVE;

    return r->state < GOSSIP_ROUNDS_LEAVING &&
           ((must_stop(r) && !gossip_rounds_stand(r)) || done || (failed && !r->orders.fetch));
}

// The order of the checks is their priority: a stop, another's model, the end, a pause.
static void look(struct gossip_rounds *r)
{
    BASE_ASSERT(r->doing == GOSSIP_ROUNDS_WAIT && r->step <= r->options.steps);
    if (must_leave(r)) {
        enter(r, GOSSIP_ROUNDS_LEAVING);
        return;
    }
    if (!trains(r))
        return;
    r->orders.fetch |= ends_with_another(r);
    bool over = !r->orders.fetch && is_over(r),
         pauses = r->orders.end == GOSSIP_ORDER_PAUSE && !r->orders.fetch && !over;
    if (r->state == GOSSIP_ROUNDS_PAUSED && !pauses)
        enter(r, GOSSIP_ROUNDS_TRAINING);
    if (over) {
        if (r->step < r->options.steps && r->model != GOSSIP_ROUNDS_BORROWED)
            r->model = r->model == GOSSIP_ROUNDS_BEREFT ? GOSSIP_ROUNDS_FORSAKEN : GOSSIP_ROUNDS_APART;
        enter(r, GOSSIP_ROUNDS_FINISHED);
    } else if (pauses && r->state == GOSSIP_ROUNDS_TRAINING) {
        enter(r, GOSSIP_ROUNDS_PAUSED);
    }
}

static struct gossip_rounds_next act(struct gossip_rounds *r, enum gossip_rounds_todo todo)
{
    BASE_ASSERT(r->doing == GOSSIP_ROUNDS_WAIT && todo != GOSSIP_ROUNDS_END);
    r->doing = todo;
    return (struct gossip_rounds_next){.todo = todo};
}

static struct gossip_rounds_next meet(struct gossip_rounds *r, bool meets)
{
    const bool open = r->progress == GOSSIP_ROUNDS_OPEN;
    struct gossip_rounds_next next = act(r, GOSSIP_ROUNDS_MEET);

    next.meet = (struct gossip_rounds_meet){.round = r->round + (meets || open),
                                            .meets = meets,
                                            .last = r->state == GOSSIP_ROUNDS_LEAVING,
                                            .finished = r->state == GOSSIP_ROUNDS_FINISHED,
                                            .away = r->away,
                                            .unusable = meets && is_unusable(r),
                                            .open = open && !meets,
                                            .step_scale = r->progress ? r->step_scale : 0};
    r->meet = next.meet;
    return next;
}

// The boundary of the steps that are done. Diverged ones meet nobody: their neighbours are not to have them.
static struct gossip_rounds_next boundary(struct gossip_rounds *r)
{
    BASE_ASSERT(r->progress);
    if (r->result != GOSSIP_LEARNER_DIVERGED)
        return meet(r, true);
    struct gossip_rounds_next next = act(r, GOSSIP_ROUNDS_RETURN);
    next.round = r->round + 1;
    return next;
}

static struct gossip_rounds_next end(struct gossip_rounds *r)
{
    bool nothing = !gossip_rounds_complete(r) && !gossip_rounds_stops(r);
    bool failed = has_failed(r) || nothing || r->model == GOSSIP_ROUNDS_FORSAKEN;

    BASE_ASSERT(r->state == GOSSIP_ROUNDS_LEFT && r->doing == GOSSIP_ROUNDS_WAIT);
    return (struct gossip_rounds_next){.todo = GOSSIP_ROUNDS_END, .status = failed};
}

static struct gossip_rounds_next train(struct gossip_rounds *r)
{
    BASE_ASSERT(trains(r) && r->step <= r->options.steps);
    if (r->orders.fetch) {
        r->orders.fetch = false;
        return act(r, GOSSIP_ROUNDS_FETCH);
    }
    if (r->progress)
        return boundary(r);
    if (r->collects)
        return meet(r, false);
    if (r->result == GOSSIP_LEARNER_OVER)
        return act(r, GOSSIP_ROUNDS_WAIT);
    struct gossip_rounds_next next = act(r, GOSSIP_ROUNDS_STEPS);
    next.steps = base_min(r->options.local_steps, r->options.steps - r->step);
    return next;
}

// A model that is another node's, or that is not the cluster's, does not count.
static struct gossip_rounds_next merge(struct gossip_rounds *r)
{
    BASE_ASSERT(r->state == GOSSIP_ROUNDS_FINISHED && !r->collects);
    r->orders.end = GOSSIP_ORDER_START;
    struct gossip_rounds_next next = act(r, GOSSIP_ROUNDS_MERGE);
    next.gives = r->model == GOSSIP_ROUNDS_OWN || r->model == GOSSIP_ROUNDS_BEREFT;
    return next;
}

static struct gossip_rounds_next adopt(struct gossip_rounds *r)
{
    const enum gossip_learner_change change = r->change;

    r->change = GOSSIP_LEARNER_UNCHANGED;
    return (struct gossip_rounds_next){.todo = GOSSIP_ROUNDS_ADOPT, .change = change, .step = r->step};
}

struct gossip_rounds_next gossip_rounds_next(struct gossip_rounds *r)
{
    BASE_ASSERT(r->doing == GOSSIP_ROUNDS_WAIT);
    if (r->change)
        return adopt(r);
    // The boundary of these steps comes first.
    if (r->progress == GOSSIP_ROUNDS_STEPPED && !takes_another_model(r))
        return boundary(r);
    look(r);
    if (trains(r))
        catch_up(r);
    if (r->change)
        return adopt(r);
    switch (r->state) {
    case GOSSIP_ROUNDS_TRAINING:
        return gossip_rounds_stand(r) ? act(r, GOSSIP_ROUNDS_WAIT) : train(r);
    case GOSSIP_ROUNDS_FINISHED:
        if (!r->collects && r->orders.end == GOSSIP_ORDER_MERGE)
            return merge(r);
        return r->collects ? meet(r, false) : act(r, GOSSIP_ROUNDS_WAIT);
    case GOSSIP_ROUNDS_PAUSED:
        return r->collects ? meet(r, false) : act(r, GOSSIP_ROUNDS_WAIT);
    case GOSSIP_ROUNDS_LEAVING:
        if (gossip_rounds_complete(r))
            return meet(r, false);
        enter(r, GOSSIP_ROUNDS_LEFT); // a partly fetched model is useless
        return end(r);
    case GOSSIP_ROUNDS_LEFT:
        return end(r);
    case GOSSIP_ROUNDS_WAITING:
        break;
    }
    return act(r, GOSSIP_ROUNDS_WAIT);
}

// -- reports

void gossip_rounds_stepped(struct gossip_rounds *r, uint64_t step, float step_scale,
                           enum gossip_learner_result result)
{
    BASE_ASSERT(r->doing == GOSSIP_ROUNDS_STEPS && step >= r->step);
    r->doing = GOSSIP_ROUNDS_WAIT;
    r->result = result;
    if (result == GOSSIP_LEARNER_OVER) // no boundary: an exchange without steps would be one too many
        return;
    r->step = step;
    r->progress = GOSSIP_ROUNDS_STEPPED;
    r->model = GOSSIP_ROUNDS_OWN;
    r->step_scale = step_scale;
    r->unusable_in_row = is_unusable(r) ? r->unusable_in_row + 1 : 0;
    r->unusable_rounds += is_unusable(r);
}

// Skips the rounds that the cluster is ahead, with their steps.
static void pass_to(struct gossip_rounds *r, uint64_t round)
{
    BASE_ASSERT(round >= r->meet.round);
    pass(r, round - r->meet.round);
    r->round = round;
}

static void close_round(struct gossip_rounds *r, uint64_t round)
{
    BASE_ASSERT(r->progress);
    pass_to(r, round);
    tell(r, is_unusable(r) ? GOSSIP_LEARNER_ROLLED_BACK : GOSSIP_LEARNER_EXCHANGED);
    r->progress = GOSSIP_ROUNDS_NOT_STEPPED;
    r->result = GOSSIP_LEARNER_DONE;
}

// A node without edges waits for none. A suspended node has done no step; before its first round a node is in
// that round.
void gossip_rounds_event(const struct gossip_rounds_meet *meet, const struct gossip_edges *edges, bool others,
                         struct gossip_exchange_event *event)
{
    const bool local = gossip_edges_local(edges);

    BASE_ASSERT(!meet->meets || meet->round > 0);
    *event = (struct gossip_exchange_event){.kind = GOSSIP_EXCHANGE_ROUND};
    event->round.meets = meet->meets && !local &&
                         gossip_graph_partner(gossip_edges_graph(edges), meet->round, &event->round.partner,
                                              &event->round.weight);
    event->round.idle = !meet->meets;
    event->round.turn = local ? 0 : gossip_graph_turn(gossip_edges_graph(edges));
    event->round.others = others && !local;
    event->round.standing = meet->finished ? GOSSIP_FINISHED : meet->away ? GOSSIP_AWAY : GOSSIP_PRESENT;
    event->round.unusable = meet->unusable;
    event->round.round = meet->round > 0 ? meet->round : 1;
    event->round.step_scale = meet->meets ? meet->step_scale : 0;
}

void gossip_rounds_met(struct gossip_rounds *r, uint64_t round, bool met, bool apart)
{
    BASE_ASSERT(r->doing == GOSSIP_ROUNDS_MEET);
    r->doing = GOSSIP_ROUNDS_WAIT;
    if (r->meet.meets)
        r->model = apart ? GOSSIP_ROUNDS_APART : GOSSIP_ROUNDS_OWN;
    if (r->meet.last)
        enter(r, GOSSIP_ROUNDS_LEFT);
    r->collects &= r->meet.meets;
    if (!r->meet.meets) {
        tell(r, GOSSIP_LEARNER_COLLECTED);
        return;
    }
    BASE_ASSERT(round >= r->meet.round);
    if (r->meet.round >= r->orders.stop_at && !met && !is_unusable(r) && round == r->meet.round) {
        r->progress = GOSSIP_ROUNDS_OPEN;
        tell(r, GOSSIP_LEARNER_COLLECTED); // a resumed node reaches this boundary again
    } else {
        close_round(r, round);
    }
}

void gossip_rounds_fetched(struct gossip_rounds *r, bool complete, uint64_t round, uint64_t step)
{
    BASE_ASSERT(r->doing == GOSSIP_ROUNDS_FETCH);
    const bool not_alone = r->not_alone;
    r->doing = GOSSIP_ROUNDS_WAIT;
    r->not_alone = false;
    if (!complete) {
        if (not_alone && r->orders.end == GOSSIP_ORDER_ALONE)
            r->orders.end = GOSSIP_ORDER_START;
        if (!gossip_rounds_complete(r))
            r->model = not_alone ? GOSSIP_ROUNDS_OWN : GOSSIP_ROUNDS_NO_MODEL;
        else
            r->model = GOSSIP_ROUNDS_BEREFT;
        return;
    }
    r->model = GOSSIP_ROUNDS_BORROWED;
    r->progress = GOSSIP_ROUNDS_NOT_STEPPED;
    r->collects = false;
    r->result = GOSSIP_LEARNER_DONE;
    r->round = round;
    r->step = base_min(step, r->options.steps);
    tell(r, GOSSIP_LEARNER_TAKEN);
}

void gossip_rounds_not_alone(struct gossip_rounds *r)
{
    BASE_ASSERT(r->doing == GOSSIP_ROUNDS_FETCH);
    r->not_alone = true;
}

void gossip_rounds_returned(struct gossip_rounds *r)
{
    BASE_ASSERT(r->doing == GOSSIP_ROUNDS_RETURN && r->result == GOSSIP_LEARNER_DIVERGED);
    r->doing = GOSSIP_ROUNDS_WAIT;
    r->round++;
    const bool soon = r->returns > 0 && r->round - r->returned_round <= GOSSIP_ROUNDS_RETURN_SPAN;
    r->returns_in_row = soon ? r->returns_in_row + 1 : 1;
    r->returns++;
    r->returned_round = r->round;
    r->progress = GOSSIP_ROUNDS_NOT_STEPPED;
    r->result = GOSSIP_LEARNER_DONE;
    tell(r, GOSSIP_LEARNER_RETURNED);
}

void gossip_rounds_merged(struct gossip_rounds *r, bool merged)
{
    BASE_ASSERT(r->doing == GOSSIP_ROUNDS_MERGE && r->state == GOSSIP_ROUNDS_FINISHED);
    r->doing = GOSSIP_ROUNDS_WAIT;
    tell(r, merged ? GOSSIP_LEARNER_TAKEN : GOSSIP_LEARNER_COLLECTED);
}

// A node that pauses is in no round any more: it answers as idle, and does not wait for an exchange of its
// own.
static bool ends_its_round(const struct gossip_rounds *r)
{
    return takes_another_model(r) ||
           (r->orders.end == GOSSIP_ORDER_PAUSE && !gossip_rounds_stops(r) && trains(r));
}

bool gossip_rounds_gives_up(const struct gossip_rounds *r)
{
    if (r->doing == GOSSIP_ROUNDS_FETCH || r->doing == GOSSIP_ROUNDS_MERGE)
        return gossip_rounds_stops(r);
    if (r->doing != GOSSIP_ROUNDS_MEET)
        return false;
    return r->meet.meets && ends_its_round(r);
}
