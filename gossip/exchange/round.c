// The trainer's rounds: vectors come in at a boundary, are published, and are returned with every update that
// arrived.
#include "gossip/exchange/state.h"

#define LASTS       4u // neighbours past this round hear of it when it has lasted this part of a deadline
#define RETRIES_ONE 8u // of a BUSY neighbour, before a node that needs any exchange asks another

// v += its pending updates.
static void publish_second(struct gossip_exchange *exchange, float *second_moment)
{
    const float *pending = exchange->second_moved ? exchange->pending_second : NULL;

    BASE_ASSERT(exchange->options.share_second_moment > 0 && second_moment != exchange->own_second);
    exchange->second_largest =
        exchange->options.kernels->vectors->settle(exchange->options.parameters, pending, second_moment);
    exchange->second_known = true;
    exchange->second = second_moment;
}

// The trainer does nothing until it gets its vectors back, so meanwhile its vectors, with the pending updates
// added, are the published ones. That needs no copy.
static void publish(struct gossip_exchange *exchange)
{
    BASE_ASSERT(exchange->model == exchange->own && exchange->round.model);
    gossip_sum_publish(exchange, exchange->round.model);
    exchange->model = exchange->round.model;
    if (exchange->second && exchange->round.second_moment)
        publish_second(exchange, exchange->round.second_moment);
}

// How much a neighbour's round says about the cluster's. PRESENT: most, because it was there all the while.
// FOLLOWS: nothing, because it follows others in turn and is about to take their round.
enum worth { PRESENT, AWAY, FOLLOWS };

static enum worth worth_of(const struct gossip_edge *edge)
{
    if (edge->follows)
        return FOLLOWS;
    return edge->standing == GOSSIP_AWAY ? AWAY : PRESENT;
}

static bool is_known(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    const bool asked = exchange->round.follows && edge->state == GOSSIP_EDGE_RESYNC;

    return (edge->state == GOSSIP_EDGE_LIVE || asked) && edge->heard && !edge->silent &&
           edge->inquiry == GOSSIP_INQUIRY_NONE;
}

// The boundary of the hindmost such neighbour, and of the furthest; UINT64_MAX: none is known. The round of
// an idle neighbour is the largest number.
static uint64_t hindmost(const struct gossip_exchange *exchange, enum worth worth, uint64_t *furthest)
{
    uint64_t least = UINT64_MAX;

    *furthest = 0;
    for (size_t i = 0; i < exchange->n_edges; i++) {
        const struct gossip_edge *edge = exchange->edges[i];
        if (!is_known(exchange, edge) || worth_of(edge) != worth || edge->round == GOSSIP_CLOCK_IDLE)
            continue;
        least = edge->round < least ? edge->round : least;
        *furthest = edge->round > *furthest ? edge->round : *furthest;
    }
    BASE_ASSERT(least == UINT64_MAX || least <= *furthest);
    return least;
}

// Bounded: only a node that comes back. One that is slow keeps its steps: its neighbours wait for it.
static bool may_skip(const struct gossip_exchange *exchange)
{
    return exchange->options.sync || exchange->round.follows;
}

// Rounds that every neighbour has passed are not made up. In step a neighbour is at most one boundary ahead;
// where nodes begin in turn, it may have met all its other neighbours before it waits for this node.
// One that was away itself, or follows others in turn, is followed only where there is no other: several that
// come back together would keep each other behind.
static uint64_t goes_on_from(const struct gossip_exchange *exchange)
{
    const uint64_t reach = exchange->clock + gossip_exchange_reach(exchange);
    uint64_t furthest, others = UINT64_MAX;

    for (enum worth worth = PRESENT; others == UINT64_MAX && worth <= FOLLOWS; worth++)
        others = hindmost(exchange, worth, &furthest);
    if (!may_skip(exchange) || others == UINT64_MAX || others <= exchange->clock + 1 ||
        furthest <= exchange->clock + exchange->round.in_step)
        return exchange->clock;
    return others - 1 < reach ? others - 1 : reach;
}

// It was away, and all that it has heard of come back, too: some of them are about to hear where the others
// are.
static bool hears_followers_only(const struct gossip_exchange *exchange)
{
    uint64_t furthest;

    return exchange->round.follows && exchange->round.others && exchange->round.in_step == 0 &&
           hindmost(exchange, PRESENT, &furthest) == UINT64_MAX &&
           hindmost(exchange, AWAY, &furthest) == UINT64_MAX &&
           hindmost(exchange, FOLLOWS, &furthest) != UINT64_MAX;
}

// The one copy of a boundary: neighbours are answered from it while the trainer changes its own.
void gossip_round_let_go(struct gossip_exchange *exchange)
{
    const struct kernels_vectors *vectors = exchange->options.kernels->vectors;
    size_t bytes = exchange->options.parameters * sizeof(float);

    BASE_ASSERT(exchange->options.share_second_moment > 0 || !exchange->second);
    if (exchange->model != exchange->own)
        vectors->copy(exchange->own, exchange->model, bytes);
    if (exchange->second != exchange->own_second)
        vectors->copy(exchange->own_second, exchange->second, bytes);
    exchange->model = exchange->own;
    exchange->second = exchange->own_second;
}

static void hand_back(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions)
{
    const size_t bytes = exchange->options.parameters * sizeof(float);
    const uint64_t round = goes_on_from(exchange);

    gossip_round_let_go(exchange);
    if (exchange->second_moved && exchange->round.second_moment) {
        exchange->options.kernels->vectors->clear(exchange->pending_second, bytes);
        exchange->second_moved = false;
    }
    gossip_sum_hand_out(exchange);
    exchange->round.leaves = exchange->round.follows;
    exchange->round.open = exchange->round.follows = false;
    BASE_ASSERT(actions->count < GOSSIP_EXCHANGE_ACTIONS);
    actions->list[actions->count++] =
        (struct gossip_exchange_action){.kind = GOSSIP_EXCHANGE_ROUND_DONE, .round = round};
}

// How long a node that waits for a request stays silent: longer than it usually waits, so that rounds in step
// are not disturbed, but not for so long that the other end cannot answer before the deadline.
static uint64_t quiet_for(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    uint64_t least = gossip_partner_soon(exchange, edge) + 1;
    uint64_t often = 2 * gossip_deadline_median(&edge->answers);
    uint64_t most = gossip_edge_patience(exchange, edge) / 2;

    often = often < most ? often : most;
    return least > often ? least : often;
}

// A round waits once, for a deadline, for a broken link: it comes back, or the view drops the peer. Without
// their exchange the models of both ends would drift to their own data.
static uint64_t lost_until(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return edge->lost_ns ? edge->lost_ns + gossip_edge_patience(exchange, edge) : 0;
}

// Sync, if others train: a round waits for an edge on which both ends can continue, but only one deadline
// while it is not live, because a RESYNC of a large model takes many.
static bool can_meet(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    if (!edge || edge->state == GOSSIP_EDGE_LIVE)
        return edge;
    if (!exchange->options.sync || !exchange->round.others || edge->waited_for)
        return false;
    return edge->state != GOSSIP_EDGE_DOWN || exchange->now_ns < lost_until(exchange, edge);
}

// All neighbours are refused, or have not exchanged for long: waiting for them would never end.
static bool has_nobody(const struct gossip_exchange *exchange)
{
    for (size_t i = 0; i < exchange->n_edges; i++)
        if (!gossip_edge_apart(exchange, exchange->edges[i]) &&
            !gossip_edge_mute(exchange, exchange->edges[i]))
            return false;
    return exchange->n_edges > 0;
}

// No peer answers over any edge, though others train: with a local step now, this node would train alone.
static bool is_alone(const struct gossip_exchange *exchange)
{
    if (!exchange->options.sync || !exchange->round.others || exchange->idle || has_nobody(exchange))
        return false;
    for (size_t i = 0; i < exchange->n_edges; i++)
        if (exchange->edges[i]->state == GOSSIP_EDGE_LIVE && !exchange->edges[i]->silent)
            return false;
    return true;
}

// Async: others train, and this model has had no exchange for more than max_delay rounds.
static bool is_starved(const struct gossip_exchange *exchange)
{
    return !exchange->options.sync && exchange->round.others && !exchange->idle && !has_nobody(exchange) &&
           exchange->rounds - exchange->met > exchange->options.max_delay;
}

// The latest exchange with this neighbour was for this round or a later one, so the round needs no other. In
// async this holds only while the neighbour continues to ask.
static bool has_met(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    const bool lately = exchange->rounds - edge->met <= exchange->n_edges;

    return edge->clock >= exchange->clock &&
           (exchange->options.sync || (lately && edge->standing != GOSSIP_FINISHED));
}

static bool is_wanted(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    if (edge && has_met(exchange, edge))
        return false;
    return is_alone(exchange) || (can_meet(exchange, edge) && !edge->silent);
}

void gossip_round_follow(struct gossip_exchange *exchange)
{
    struct gossip_edge *edge =
        exchange->round.open && !exchange->round.live ? gossip_partner_of(exchange) : NULL;

    if (!edge || edge->state != GOSSIP_EDGE_LIVE)
        return;
    BASE_ASSERT(exchange->round.wanted && edge->linked);
    exchange->round.live = true;
    exchange->round.deadline_ns = exchange->now_ns + gossip_edge_patience(exchange, edge);
    exchange->round.tell_ns = exchange->now_ns + quiet_for(exchange, edge);
}

// The live neighbour, other than `asked`, that this node has not met for longest.
static struct gossip_edge *longest_unmet(const struct gossip_exchange *exchange,
                                         const struct gossip_edge *asked)
{
    struct gossip_edge *best = NULL;

    for (size_t i = 0; i < exchange->n_edges; i++) {
        struct gossip_edge *edge = exchange->edges[i];
        if (edge->state == GOSSIP_EDGE_LIVE && !edge->silent && edge != asked &&
            !gossip_edge_mute(exchange, edge) &&
            (!best || exchange->rounds - edge->met > exchange->rounds - best->met))
            best = edge;
    }
    return best;
}

// Async: the neighbour to meet instead of the plan's partner. Beside a straggler, or where exchanges take
// longer than their deadlines, the rounds that have one may all be with the same neighbour: the others are
// never met, and the graph falls apart.
static struct gossip_edge *passed_over(const struct gossip_exchange *exchange,
                                       const struct gossip_edge *partner)
{
    const uint64_t turns = exchange->options.max_delay + 1;
    struct gossip_edge *best = exchange->options.sync ? NULL : longest_unmet(exchange, partner);

    if (!best || !partner || exchange->rounds - best->met <= exchange->rounds - partner->met)
        return NULL;
    return (exchange->rounds - best->met) / exchange->n_edges > turns ? best : NULL;
}

void gossip_round_seek(struct gossip_exchange *exchange)
{
    struct gossip_edge *asked = gossip_partner_of(exchange);

    if (!exchange->round.open || !is_starved(exchange) || exchange->active ||
        (asked && asked->state == GOSSIP_EDGE_LIVE && !asked->silent &&
         !gossip_edge_shunned(exchange, asked) && exchange->round.retries < RETRIES_ONE))
        return;
    struct gossip_edge *best = longest_unmet(exchange, asked);
    if (!best)
        return;
    BASE_ASSERT(best != asked && best->state == GOSSIP_EDGE_LIVE);
    exchange->round.retries = 0;
    exchange->round.retry_ns = 0;
    exchange->round.partner = best->peer;
    exchange->round.weight = 0.5f;
    exchange->round.wanted = true;
}

// The trainer's x is not finite: it gets the published one, which holds all updates.
static void take_back(struct gossip_exchange *exchange)
{
    const struct kernels_vectors *vectors = exchange->options.kernels->vectors;
    size_t bytes = exchange->options.parameters * sizeof(float);

    BASE_ASSERT(exchange->model == exchange->own && exchange->round.model);
    gossip_sum_publish(exchange, NULL);
    vectors->copy(exchange->round.model, exchange->model, bytes);
    exchange->model = exchange->round.model;
    if (!exchange->second || !exchange->round.second_moment)
        return;
    vectors->copy(exchange->round.second_moment, exchange->second, bytes);
    exchange->second = exchange->round.second_moment;
}

static void take_vectors(struct gossip_exchange *exchange, const struct gossip_exchange_event *event)
{
    BASE_ASSERT(!exchange->round.open);
    exchange->round.model = event->round.model;
    exchange->round.second_moment = event->round.second_moment;
    exchange->round.correction = event->round.correction;
    exchange->round.correction_stays = event->round.correction_stays;
    if (event->round.unusable)
        take_back(exchange);
    else
        publish(exchange);
}

// Each round counts once: a node that stopped at an open boundary reaches it again, and one that only
// collects pending updates has taken no steps.
static void count_steps(struct gossip_exchange *exchange, uint64_t round, float step_scale)
{
    BASE_ASSERT(step_scale >= 0);
    if (round <= exchange->counted)
        return;
    exchange->counted = round;
    exchange->rounds++;
    gossip_averaging_count(exchange, step_scale);
    gossip_orphan_fade(exchange);
}

// The meeting of this round: with the plan's partner, or with a neighbour that was passed over.
static void take_turn(struct gossip_exchange *exchange)
{
    const struct gossip_meeting *next = &exchange->round.next;
    struct gossip_edge *edge = next->meets ? gossip_edge_find(exchange, &next->peer) : NULL;
    struct gossip_edge *other = passed_over(exchange, edge);

    BASE_ASSERT(exchange->round.open && (!other || other != edge));
    exchange->round.owes = false;
    exchange->round.partner = other ? other->peer : next->peer;
    exchange->round.weight = other ? 0.5f : next->weight;
    exchange->round.due = exchange->clock;
    exchange->round.turn_ns = exchange->now_ns;
    exchange->round.retries = 0;
    edge = other ? other : edge;
    exchange->round.wanted = next->meets && is_wanted(exchange, edge);
    exchange->round.live = false;
    exchange->round.retry_ns = exchange->round.wanted ? gossip_turn_asks_at(exchange, edge) : 0;
    exchange->round.deadline_ns = exchange->now_ns + (edge ? gossip_edge_patience(exchange, edge) : 0);
}

void gossip_round_turn(struct gossip_exchange *exchange)
{
    if (!exchange->round.open || !exchange->round.owes)
        return;
    BASE_ASSERT(!exchange->options.sync);
    const bool late = exchange->now_ns >= exchange->round.deadline_ns;
    if (gossip_turn_due(exchange) && !late)
        return;
    if (late)
        gossip_turn_give_up(exchange);
    take_turn(exchange);
}

void gossip_round_begin(struct gossip_exchange *exchange, const struct gossip_exchange_event *event)
{
    BASE_ASSERT(!exchange->round.open && event->round.model && event->round.round >= 1);
    take_vectors(exchange, event);
    exchange->begun = true;
    exchange->clock = event->round.round;
    if (exchange->clock > exchange->age)
        exchange->age = exchange->clock;
    if (!event->round.idle)
        count_steps(exchange, exchange->clock, event->round.unusable ? 0 : event->round.step_scale);
    exchange->idle = event->round.idle;
    gossip_clocks_pace(exchange, event->round.pace_ns);
    exchange->round.open = true;
    gossip_standing_told(exchange, (enum gossip_standing)event->round.standing);
    exchange->round.others = event->round.others;
    exchange->round.follows =
        (exchange->options.sync || exchange->options.bounded) && event->round.idle && event->round.follows;
    exchange->round.leaves = false;
    exchange->round.in_step = exchange->round.follows ? event->round.in_step : 0;
    BASE_ASSERT(event->round.weight >= 0 && event->round.weight <= 1);
    exchange->round.next = (struct gossip_meeting){
        .peer = event->round.partner,
        .weight = event->round.weight > 0 ? event->round.weight : 0.5f,
        .meets = event->round.meets,
    };
    exchange->round.started_ns = exchange->now_ns;
    exchange->round.alone_ns = exchange->now_ns + exchange->options.deadline_ceiling_ns;
    exchange->round.owes = gossip_turn_due(exchange);
    if (exchange->round.owes)
        exchange->round.deadline_ns =
            exchange->now_ns + gossip_edge_patience(exchange, gossip_partner_of(exchange));
    else
        take_turn(exchange);
    gossip_round_follow(exchange);
    gossip_clocks_begin(exchange);
}

struct gossip_edge *gossip_round_awaits(const struct gossip_exchange *exchange)
{
    bool waits = exchange->options.sync && exchange->round.open && exchange->round.wanted;
    struct gossip_edge *edge = waits ? gossip_edge_find(exchange, &exchange->round.partner) : NULL;

    return edge && edge->state == GOSSIP_EDGE_LIVE && !gossip_partner_asked(exchange) ? edge : NULL;
}

// A neighbour that is past this round may wait for this node, and must hear in time that the round lasts.
static bool is_to_hear(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return exchange->options.sync && exchange->round.open && !exchange->round.follows &&
           edge->state == GOSSIP_EDGE_LIVE && !edge->told && gossip_clocks_passed(exchange, edge);
}

static uint64_t hears_at(const struct gossip_exchange *exchange, const struct gossip_edge *edge)
{
    return exchange->round.started_ns + gossip_edge_patience(exchange, edge) / LASTS;
}

uint64_t gossip_round_untold(const struct gossip_exchange *exchange)
{
    uint64_t next = UINT64_MAX;

    for (size_t i = 0; i < exchange->n_edges; i++)
        if (is_to_hear(exchange, exchange->edges[i]) && hears_at(exchange, exchange->edges[i]) < next)
            next = hears_at(exchange, exchange->edges[i]);
    return next;
}

void gossip_round_tell(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions)
{
    struct gossip_message message = {.kind = GOSSIP_CLOCK, .as.clock.round = exchange->clock};
    struct gossip_edge *awaited = gossip_round_awaits(exchange);

    if (awaited && exchange->now_ns >= exchange->round.tell_ns) {
        exchange->round.tell_ns = exchange->now_ns + (exchange->now_ns - exchange->round.started_ns);
        gossip_edge_send(actions, awaited, &message);
    }
    for (size_t i = 0; i < exchange->n_edges && actions->count < GOSSIP_EXCHANGE_ACTIONS / 2; i++) {
        struct gossip_edge *edge = exchange->edges[i];
        if (!is_to_hear(exchange, edge) || exchange->now_ns < hears_at(exchange, edge))
            continue;
        edge->told = true;
        BASE_ASSERT(edge->linked && edge->heard);
        gossip_edge_send(actions, edge, &message);
    }
}

// The round waits for a neighbour that is behind, up to the ceiling; nodes that wait for this one hear of its
// round. If the neighbour is in this round and asks over this edge, it has sent its request before its clock,
// or meets another neighbour in this round: the node waits for it no more.
void gossip_round_hear(struct gossip_exchange *exchange, struct gossip_edge *edge)
{
    const uint64_t until_ns = exchange->round.started_ns + exchange->options.deadline_ceiling_ns;

    if (!exchange->options.sync || !exchange->round.open || !gossip_edge_wanted(exchange, edge) ||
        edge->round > exchange->clock)
        return;
    BASE_ASSERT(edge->linked && edge->heard);
    if (edge->round == exchange->clock) {
        exchange->round.wanted &= edge->state != GOSSIP_EDGE_LIVE || gossip_edge_leads(exchange, edge);
        return;
    }
    if (exchange->round.deadline_ns < until_ns)
        exchange->round.deadline_ns = until_ns;
    if (exchange->active == edge && edge->alarm_ns < until_ns)
        edge->alarm_ns = until_ns;
}

// Sync: the round lasts until its own exchange is made, can no longer be made, or is too late.
static bool waits_for_partner(const struct gossip_exchange *exchange)
{
    return exchange->options.sync && can_meet(exchange, gossip_partner_of(exchange)) &&
           exchange->now_ns < exchange->round.deadline_ns;
}

static uint64_t partner_until(const struct gossip_exchange *exchange)
{
    const struct gossip_edge *edge = gossip_partner_of(exchange);
    uint64_t until_ns = edge->state == GOSSIP_EDGE_DOWN ? lost_until(exchange, edge) : UINT64_MAX;

    return until_ns < exchange->round.deadline_ns ? until_ns : exchange->round.deadline_ns;
}

static bool waits_for_anybody(const struct gossip_exchange *exchange)
{
    return (is_alone(exchange) || is_starved(exchange)) && exchange->now_ns < exchange->round.alone_ns;
}

static uint64_t answers_until(const struct gossip_exchange *exchange)
{
    const uint64_t until_ns = gossip_clocks_inquire_until(exchange);
    const uint64_t follows_ns = exchange->round.started_ns + exchange->options.deadline_floor_ns;

    return until_ns < follows_ns && hears_followers_only(exchange) ? follows_ns : until_ns;
}

// Clocks heard during a pause may be old: neighbours send none in rounds in which they do not meet this node.
static bool waits_for_answers(const struct gossip_exchange *exchange)
{
    return exchange->now_ns < answers_until(exchange);
}

uint64_t gossip_round_deadline(const struct gossip_exchange *exchange)
{
    if (!exchange->round.open)
        return UINT64_MAX;
    if (exchange->round.owes)
        return exchange->round.deadline_ns;
    if (waits_for_partner(exchange))
        return partner_until(exchange);
    if (waits_for_anybody(exchange))
        return exchange->round.alone_ns;
    if (waits_for_answers(exchange))
        return answers_until(exchange);
    return gossip_clocks_wait(exchange) ? gossip_clocks_until(exchange) : UINT64_MAX;
}

// The round ends without its exchange.
static void give_up_partner(struct gossip_exchange *exchange)
{
    struct gossip_edge *edge = exchange->options.sync ? gossip_partner_of(exchange) : NULL;

    BASE_ASSERT(exchange->round.open);
    if (edge && edge->state != GOSSIP_EDGE_LIVE)
        edge->waited_for |= exchange->now_ns >= exchange->round.deadline_ns;
    if (edge && edge->state == GOSSIP_EDGE_LIVE) {
        edge->silent = !gossip_edge_leads(exchange, edge) && !exchange->round.retries; // BUSY: it is alive
        edge->timeouts += edge->silent;
    }
    exchange->round.wanted &= !exchange->options.sync;
}

// Neighbours that could have met this node in all that time, and did not.
static void waited_in_vain(struct gossip_exchange *exchange)
{
    if (!is_starved(exchange))
        return;
    BASE_ASSERT(exchange->now_ns >= exchange->round.alone_ns);
    for (size_t i = 0; i < exchange->n_edges; i++)
        if (exchange->edges[i]->state == GOSSIP_EDGE_LIVE || gossip_edge_asks(exchange->edges[i]))
            gossip_edge_unanswered(exchange, exchange->edges[i]);
}

// Bounded: until no neighbour is too far behind, or the node stops waiting for them.
static bool waits_for_clocks(struct gossip_exchange *exchange)
{
    if (!gossip_clocks_wait(exchange))
        return false;
    if (exchange->now_ns < exchange->round.gate_ns)
        return true;
    gossip_clocks_give_up(exchange);
    return false;
}

void gossip_round_end(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions)
{
    if (!exchange->round.open || exchange->round.owes || waits_for_partner(exchange) ||
        waits_for_anybody(exchange) || waits_for_answers(exchange))
        return;
    give_up_partner(exchange);
    if (waits_for_clocks(exchange))
        return;
    waited_in_vain(exchange);
    hand_back(exchange, actions);
}

void gossip_round_give_up(struct gossip_exchange *exchange, struct gossip_exchange_actions *actions)
{
    if (!exchange->round.open)
        return;
    BASE_ASSERT(exchange->round.model);
    exchange->round.wanted = exchange->round.owes = false;
    hand_back(exchange, actions);
}

void gossip_exchange_adopt(struct gossip_exchange *exchange, const float *model, const float *second_moment,
                           uint64_t round)
{
    const struct kernels *kernels = exchange->options.kernels;
    size_t bytes = exchange->options.parameters * sizeof(float);

    BASE_ASSERT(!exchange->round.open);
    gossip_orphans_begin_anew(exchange, round > exchange->clock ? round - exchange->clock : 0);
    kernels->upload(exchange->model, model, bytes);
    gossip_pending_drop(exchange);
    if (exchange->second) {
        if (exchange->second_moved)
            kernels->vectors->clear(exchange->pending_second, bytes);
        exchange->second_moved = false;
        exchange->second_known = second_moment;
        if (second_moment)
            kernels->upload(exchange->second, second_moment, bytes);
    }
    gossip_plausible_learn(exchange);
    exchange->clock = exchange->age = exchange->counted = round;
    exchange->met = exchange->rounds;
    if (exchange->standing == GOSSIP_AWAY)
        exchange->standing = GOSSIP_PRESENT;
    exchange->round.wanted = false;
}
